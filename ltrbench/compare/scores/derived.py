"""Runs that nothing was trained for: scores put in the place of a run that there is.

Such a run is evaluated on the same stored judgments, in the same cell (data set, fold, fingerprints), and has
no seconds, memory or trees.
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
    """What a derived run is, and what it is made of.

    Attributes:
        model: the name that tables show.
        params: what stands for its parameters, such as "imported".
        path: what messages name it by.
        notes: what a reader of its figures must know.
        overrides: the words of the command that makes it again.
        settings: what it was made with, as its `config` holds it.
    """

    model: str
    params: str
    path: Path
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def reported_metrics(run: Run) -> list[str]:
    """The metrics that a run reports of test, such as ndcg@10, without those that are not known here.

    Raises:
        ResultError: where a cutoff is none.
    """
    names = [name for name in _names_of(run.result) if is_metric(name)]
    try:
        for name in names:
            parse_metric(name)
    except ConfigError as error:
        raise ResultError(f"{run.path / RESULT_FILE}: {error}") from None
    return names


def unknown_metrics(results: Iterable[RunResult]) -> list[str]:
    """A sentence on the unknown metrics of runs: those of plug-ins that are not loaded."""
    results = list(results)
    names = dict.fromkeys(name for result in results for name in _names_of(result))
    unknown = [name for name in names if not is_metric(name)]
    if not unknown:
        return []
    # What a run calls its plug-in is only shown: no code is loaded because a folder names it.
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
        f"{', '.join(unknown)}: not shown, because no metric of this name is known. A plug-in defined it for "
        f"the run; add {options}."
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
    """A run held in memory, in the place of `like` and evaluated by the metrics that it reported.

    Args:
        scored: "test", and "valid" where there are scores of it.
        reported: the splits whose figures it reports.
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
