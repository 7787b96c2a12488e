"""What a row's scores are worth by other metrics, or under other conventions, than its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from ltrbench.compare.cells import by_cell
from ltrbench.compare.comparison import Row
from ltrbench.metrics import Convention, evaluate


def means_of(row: Row, names: Sequence[str], convention: Convention) -> list[float | None]:
    """Of each metric, the mean over cells of the mean over seeds; None where no query counts.

    Raises:
        UndefinedMetricError, DataError: where the convention does not define one of them on these data.
    """
    cells = [
        [evaluate(item.judgments, item.scores, names, convention).means for item in own]
        for own in by_cell(row.judged).values()
    ]
    return [_mean([fmean(seed[name] for seed in own) for own in cells]) for name in names]


def _mean(means: Sequence[float]) -> float | None:
    """Over those cells in which a query counts."""
    counted = [mean for mean in means if not math.isnan(mean)]
    return fmean(counted) if counted else None
