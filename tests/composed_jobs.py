"""Jobs of command lines, composed as the check of a sweep composes them."""

from __future__ import annotations

import functools

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from paths import CONF

from ltrbench.cli.hydra_private import read_yaml_in_c
from ltrbench.cli.launch import Composer
from ltrbench.config import build_experiment, register_schema, resolved
from ltrbench.experiment import Experiment
from ltrbench.runs.spec import RunSpec
from ltrbench.sweep.plan import Job, draft


@functools.cache
def composer(search_path: str = "") -> Composer:
    """Returns the composer of all commands with a search path of YAMLs; each combination of YAMLs takes
    Hydra a third of a second only once.

    Args:
        search_path: as in `hydra.searchpath=[...]`, without the brackets.
    """
    register_schema()
    read_yaml_in_c()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
    words = [f"hydra.searchpath=[{search_path}]"]
    master = loader.load_configuration("config", words, RunMode.MULTIRUN)
    return Composer(loader, master)


def composed(*words: str, sweep: str = "s") -> Experiment:
    """Returns the experiment of a command line."""
    config, choices = composer().composed(words)
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
