"""The series of a picture: each is a row of a comparison with its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ltrbench.results import FINISHED, Run


@dataclass(frozen=True)
class Series:
    """A row of a comparison in a picture.

    Attributes:
        label: name of the row, such as "lightgbm num_leaves=15".
        model: name of the backend, which determines the color.
        runs: runs of the row: folds and seeds.
        value: the metric of the comparison on test; None if not available.
        ndcg: NDCG@1, NDCG@2, ... on test; empty if not available.
    """

    label: str
    model: str
    runs: tuple[Run, ...]
    value: float | None = None
    ndcg: Sequence[float] = ()


def finished(series: Sequence[Series]) -> list[Series]:
    kept = [
        replace(item, runs=tuple(run for run in item.runs if run.result.status == FINISHED))
        for item in series
    ]
    return [item for item in kept if item.runs]


def data_of(series: Sequence[Series]) -> str:
    """Returns the names of the data sets of the runs."""
    return ", ".join(dict.fromkeys(str(run.result.data.get("name")) for item in series for run in item.runs))


def to_one(series: Sequence[Series]) -> str:
    """Returns the name of the only series for the title, which replaces the legend; empty for several
    series."""
    return f" in {series[0].label}" if len(series) == 1 else ""


def over(series: Sequence[Series]) -> str:
    """Returns the scope of a mean, such as ", mean over 5 folds"; empty if each series has one run."""
    if max(len(item.runs) for item in series) == 1:
        return ""
    results = [run.result for item in series for run in item.runs]
    counts = {
        "folds": len({result.data.get("fold") for result in results}),
        "seeds": len({result.seed for result in results}),
    }
    several = [f"{count} {what}" for what, count in counts.items() if count > 1]
    return f", mean over {' and '.join(several) or 'runs'}"
