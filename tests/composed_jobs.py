"""Jobs of command lines, composed as a command composes them."""

from __future__ import annotations

from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from paths import CONF

from ltrbench.config import build_experiment, register_schema, resolved
from ltrbench.experiment import Experiment
from ltrbench.runs.spec import RunSpec
from ltrbench.sweep.plan import Job, draft


def composed(*words: str, sweep: str = "s") -> Experiment:
    """Returns the experiment of a command line."""
    register_schema()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", list(words), return_hydra_config=True)
    choices: Any = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    spec = RunSpec(
        settings=resolved(config),
        choices=choices,
        overrides=words,
        sweep=sweep,
        started_in="/",
    )
    return build_experiment(spec)


def drafted(*words: str, sweep: str = "s") -> Job:
    """Returns the job of a command line, not yet planned."""
    return draft(composed(*words, sweep=sweep))
