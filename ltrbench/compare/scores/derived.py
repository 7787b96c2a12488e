"""Derived runs: other scores on the test set of an existing run, without training.

A derived run is evaluated on the same stored judgments, in the same cell (data set, fold, fingerprints), and
has no times, memory or trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.errors import ConfigError, ResultError
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.metrics.evaluation import is_metric, parse_metric
from ltrbench.metrics.plugins import is_plugin_version
from ltrbench.results import FINISHED, RESULT_FILE, Run, RunResult, ScoredSplit, naming


@dataclass(frozen=True)
class Origin:
    """Name and origin of a derived run.

    Attributes:
        model: Name in tables.
        params: Kind of parameters, such as "imported".
        path: Path in messages.
        notes: Notes under the table.
        overrides: Words of the command that makes it again.
        settings: Its settings, as in `config`.
    """

    model: str
    params: str
    path: Path
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def reported_metrics(run: Run) -> list[str]:
    """Returns the known metrics that a run reports on test, such as ndcg@10.

    Raises:
        ResultError: A cutoff is invalid.
    """
    names = [name for name in _names_of(run.result) if is_metric(name)]
    try:
        for name in names:
            parse_metric(name)
    except ConfigError as error:
        raise ResultError(f"{run.path / RESULT_FILE}: {error}") from None
    return names


def unknown_metrics(results: Iterable[RunResult]) -> list[str]:
    """Returns a sentence on unknown metrics of runs, from plug-ins that are not loaded; empty without any."""
    results = list(results)
    names = dict.fromkeys(name for result in results for name in _names_of(result))
    unknown = [name for name in names if not is_metric(name)]
    if not unknown:
        return []
    # The name of the plug-in is only shown: no code is loaded because a folder names it.
    modules = sorted(
        {
            name
            for result in results
            for name, version in result.versions.items()
            if is_plugin_version(version)
        }
    )
    options = " ".join(f"--plugin {name}" for name in modules or ["MODULE"])
    return [
        f"{', '.join(unknown)}: not shown, because no metric of this name is known. A plug-in defined it "
        f"when the run was made; add {options}."
    ]


def _names_of(result: RunResult) -> list[str]:
    return [name.removeprefix("test/") for name in result.metrics if name.startswith("test/")]


def derived_run(
    origin: Origin,
    like: Run,
    scored: Mapping[str, ScoredSplit],
    seed: int,
    reported: Sequence[str] = ("valid", "test"),
) -> Run:
    """Returns a run held in memory, with the data of `like`, evaluated by the metrics that `like` reports.

    Args:
        scored: "test", and "valid" if it has scores.
        reported: Splits whose metrics the run reports.
    """
    names = reported_metrics(like)
    with naming(like):
        means = {
            f"{split}/{name}": None if np.isnan(mean) else mean
            for split, item in scored.items()
            if split in reported
            for name, mean in evaluate(item.judgments, item.scores, names).means.items()
        }
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    result = RunResult(
        status=FINISHED,
        model=origin.model,
        params=origin.params,
        seed=seed,
        data=like.result.data,
        metrics=means,
        convention=DEFAULT.describe(),
        notes=origin.notes,
        overrides=origin.overrides,
        started_in=str(Path.cwd()),
        started=now,
        finished=now,
        config={"data": like.result.settings.get("data", {}), "model": {}, **origin.settings},
    )
    return Run(origin.path, result, held=scored)
