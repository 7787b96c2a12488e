"""Reuses the training of an earlier run that differs only in a seed without effect.

If a seed changes no score, a sweep over seeds would train the same model several times. Instead the model is
trained once. Every run still has its own folder; `RunResult.reused` names the run that was trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltrbench.measure.clock import now
from ltrbench.measure.provenance import described
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import SupportsSeedMatters
from ltrbench.results import Run, RunResult, TrialRow, copy_run

if TYPE_CHECKING:
    from ltrbench.experiment.run import Experiment

_MEASURED = ("metrics", "importance", "timing", "plugins", "distributed")
"""Keys of `Experiment.config` that determine the model and the measurements; ranker and data source are
described separately."""


def settings_without_seed(experiment: Experiment) -> list[Any]:
    """Returns all settings that determine the outcome of a run, except its seed, as JSON values."""
    ranker = described(experiment.ranker)
    fields = {name: value for name, value in ranker["fields"].items() if name != "seed"}
    drawn = None if experiment.resample is None else experiment.resample.describe()
    measured = [experiment.config.get(name) for name in _MEASURED]
    source = described(experiment.source)
    described_run = [experiment.model, experiment.params, experiment.is_trial]
    return [*described_run, ranker["class"], fields, drawn, source, *measured]


def seed_matters(ranker: Ranker, num_documents: int) -> bool:
    """Returns whether another seed may change a score of the ranker, fitted on that many documents."""
    return not isinstance(ranker, SupportsSeedMatters) or ranker.seed_matters(num_documents)


def copy_training(
    name: str, trained: Run, begun: RunResult, folder: Path, trials: Sequence[TrialRow] = ()
) -> Run:
    """Writes a copy of an earlier run, which is named `name`, with the seed, settings and search of the new
    run."""
    result = replace(
        trained.result,
        seed=begun.seed,
        ranker=begun.ranker,
        overrides=begun.overrides,
        config=begun.config,
        flags=begun.flags,
        key=begun.key,
        search=begun.search,
        started=begun.started,
        finished=now(),
        reused=name,
    )
    return copy_run(trained, folder, result, trials)
