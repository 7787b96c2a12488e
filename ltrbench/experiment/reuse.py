"""Training a deterministic model once: a run that differs from an earlier one in a seed that changes nothing.

Where a seed changes no score, a sweep over seeds would train the same model again and again. A run whose
training is reused has a folder of its own, as every other, and `RunResult.reused` names the run that trained.
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
"""What of `RunResult.config` decides what a run measures; its ranker and data source are recorded apart."""


def run_to_reuse(
    ranker: Ranker, resample: TrainingResample | None, begun: RunResult, earlier: Mapping[str, Run]
) -> str | None:
    """Returns the name of the earlier run that differs in a seed that changes nothing; None: there is none.

    Args:
        ranker, resample: of the run that is to begin.
        begun: what is known of it.
        earlier: name -> run of the same command, whose data are taken to be unchanged.
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
    """What decides the outcome of a run, but its seed."""
    fields = {name: value for name, value in result.ranker["fields"].items() if name != "seed"}
    measured = [result.config.get(name) for name in _MEASURED]
    # Relative paths among the settings start in the folder where the run began.
    data = [result.source, result.started_in]
    return [result.model, result.params, result.ranker["class"], fields, *data, *measured]


def _drawn(result: RunResult) -> dict[str, Any] | None:
    """The resample that a run trained on, as `TrainingResample.describe` has it."""
    resample = result.data.get("resample")
    if resample is None:
        return None
    return {name: value for name, value in resample.items() if name not in ("train", "queries")}


def copy_training(name: str, run: Run, begun: RunResult, folder: Path) -> Run:
    """Writes a run that is a copy of an earlier one but for its own seed and settings."""
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
