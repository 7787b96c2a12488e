"""Thresholds at equal distances: RankLib's rule, `nThreshold` of its LambdaMART.

    few distinct values, at most max_bins - 1: every value is a threshold
    many: min, min + step, min + 2 step, ...; step = (max - min) / (max_bins - 1), added up in float32

Beside quantiles, a feature of a long tail is cut coarsely where most documents are and finely in the tail:
one extreme value can leave all others in a single bin. RankLib's 256 thresholds are max_bins = 257.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.native.tree.binning import ThresholdRule


@np.errstate(over="ignore")  # as in RankLib, a range beyond float32 leaves but the first threshold
def equal_width_cuts(values: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    """The rising thresholds of one feature; NaN is ignored.

    Of thresholds between which no value lies only the first is kept: they part the documents alike, and the
    first of equal cuts is taken. A threshold that all values are at most parts nothing.

    >>> equal_width_cuts(np.array([0, 1, 2, 3, 10], dtype=np.float32), max_bins=5).tolist()
    [0.0, 2.5, 5.0]
    """
    distinct = np.unique(values[~np.isnan(values)])
    num_thresholds = max_bins - 1
    if len(distinct) <= num_thresholds:
        return distinct[:-1]
    steps = np.full(num_thresholds, (distinct[-1] - distinct[0]) / np.float32(num_thresholds))
    steps[0] = distinct[0]
    thresholds = np.cumsum(steps)
    num_left = np.searchsorted(distinct, thresholds, side="right")
    parts_anew = (np.diff(num_left, prepend=0) > 0) & (num_left < len(distinct))
    cuts: NDArray[np.float32] = thresholds[parts_anew]
    return cuts


# All documents, because one that is not in a sample may be the least or the greatest.
EQUAL_WIDTH = ThresholdRule(equal_width_cuts, sample_size=None)
