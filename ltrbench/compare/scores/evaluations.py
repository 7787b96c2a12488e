"""What a row's scores are worth: by any metric, under any convention, as one number a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from ltrbench.compare.pairing.cells import Judged, by_cell
from ltrbench.metrics import Convention, evaluate

Means = Mapping[str, float]
"""Metric -> mean over the queries of one run, NaN where none counts."""


def means_of(judged: Sequence[Judged], names: Sequence[str], convention: Convention) -> list[float | None]:
    """Of each metric, what `over_cells` makes of the runs of one row.

    Raises:
        UndefinedMetricError, DataError: where the convention does not define one of them on these data.
    """
    cells = [
        [evaluate(item.judgments, item.scores, names, convention).means for item in own]
        for own in by_cell(judged).values()
    ]
    return [over_cells(cells, name) for name in names]


def over_cells(cells: Iterable[Sequence[Means]], name: str) -> float | None:
    """The mean over cells in which a query counts of the mean over seeds; None where there is none."""
    means = [fmean(seed[name] for seed in own) for own in cells]
    counted = [mean for mean in means if not math.isnan(mean)]
    return fmean(counted) if counted else None
