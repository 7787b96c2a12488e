"""What a picture shows: series, one of which is a row of a comparison with its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ltrbench.results import FINISHED, Run


@dataclass(frozen=True)
class Series:
    """What a picture shows as one series.

    Attributes:
        label: a row of the comparison, such as "lightgbm num_leaves=15".
        model: the backend's name, which decides the colour.
        runs: its runs: folds and seeds.
        value: of the comparison's metric on test; None where it has none.
        ndcg: NDCG@1, NDCG@2, ... on test; empty where there is none.
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
    """The names of the runs' data sets."""
    return ", ".join(dict.fromkeys(str(run.result.data.get("name")) for item in series for run in item.runs))


def to_one(series: Sequence[Series]) -> str:
    """The name of the only series, which then needs no legend."""
    return f" to {series[0].label}" if len(series) == 1 else ""


def over(series: Sequence[Series]) -> str:
    """What a value is the mean of, such as ", mean over 5 folds"; empty where there is one run a series."""
    if max(len(item.runs) for item in series) == 1:
        return ""
    results = [run.result for item in series for run in item.runs]
    counts = {
        "folds": len({result.data.get("fold") for result in results}),
        "seeds": len({result.seed for result in results}),
    }
    several = [f"{count} {what}" for what, count in counts.items() if count > 1]
    return f", mean over {' and '.join(several) or 'runs'}"
