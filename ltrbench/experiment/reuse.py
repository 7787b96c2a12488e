"""Reuses the training of an earlier run that differs only in a seed without effect.

If a seed changes no score, a sweep over seeds would train the same model several times. Instead the model is
trained once. Every run still has its own folder; `RunResult.reused` names the run that was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ltrbench.data import TrainingResample
from ltrbench.measure.clock import now
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import SupportsSeedMatters
from ltrbench.results import FINISHED, RESULT_FILE, Run, RunResult, copy_run

_MEASURED = ("metrics", "importance", "timing", "plugins")
"""Keys of `RunResult.config` that determine the measurements; ranker and data source are recorded
separately."""


def run_to_reuse(
    ranker: Ranker, resample: TrainingResample | None, begun: RunResult, earlier: Mapping[str, Run]
) -> str | None:
    """Returns the name of an earlier run that differs only in a seed without effect, or None.

    Args:
        ranker: the ranker of the new run.
        resample: the resample of the new run; None: all training queries.
        begun: the result of the new run, as far as it is known.
        earlier: name -> run of the same command; the data is assumed to be unchanged since then.
    """
    drawn = None if resample is None else resample.describe()
    for name, run in earlier.items():
        result = run.result
        trained = result.status == FINISHED and result.reused is None and (run.path / RESULT_FILE).exists()
        if (
            trained
            and result.seed != begun.seed
            and _settings(result) == _settings(begun)
            and _drawn(result) == drawn
            and isinstance(ranker, SupportsSeedMatters)
            and not ranker.seed_matters(result.data["train"]["documents"])
        ):
            return name
    return None


def _settings(result: RunResult) -> list[Any]:
    """Returns everything that determines the outcome of a run, except its seed."""
    fields = {name: value for name, value in result.ranker["fields"].items() if name != "seed"}
    measured = [result.config.get(name) for name in _MEASURED]
    # Relative paths in the settings are relative to the folder in which the run was started.
    data = [result.source, result.started_in]
    return [result.model, result.params, result.ranker["class"], fields, *data, *measured]


def _drawn(result: RunResult) -> dict[str, Any] | None:
    """Returns the resample that a run trained on, in the form of `TrainingResample.describe`."""
    resample = result.data.get("resample")
    if resample is None:
        return None
    return {name: value for name, value in resample.items() if name not in ("train", "queries")}


def copy_training(name: str, run: Run, begun: RunResult, folder: Path) -> Run:
    """Writes a copy of an earlier run, with the seed and settings of the new run."""
    result = replace(
        run.result,
        seed=begun.seed,
        ranker=begun.ranker,
        overrides=begun.overrides,
        config=begun.config,
        started=begun.started,
        finished=now(),
        reused=name,
    )
    return copy_run(run, folder, result)
