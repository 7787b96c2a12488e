"""Ranks of values, and Wilcoxon's signed-rank test.

SciPy has both, but importing scipy.stats takes most of a second, more than a comparison of two models.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

_MOST_EXACT = 50
_MOST_EXACT_WITH_TIES = 13
"""Up to these numbers of differences the p-value is exact, as in scipy.stats."""


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rank of each value from 1 for the least; equal values get the mean of their ranks.

    Args:
        values: (N,), without NaN.

    >>> mean_ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return ranks


def signed_rank_p_value(differences: NDArray[np.float64]) -> float:
    """Returns the two-sided p-value of Wilcoxon's signed-rank test (1945), as scipy.stats.wilcoxon does.

    It assumes differences that are symmetric around their centre, and tests that centre, not the mean. For
    skewed differences, as of a system that wins rarely but by a large margin, the two can have different
    signs. Few differences are compared with all signs that they could have, others with the normal
    distribution. With W the sum of the ranks of positive differences, and t the numbers of equal sizes,

        z = |W - n (n + 1) / 4| / s,  s^2 = n (n + 1) (2 n + 1) / 24 - sum (t^3 - t) / 48

    Args:
        differences: (N,), not all 0; those that are 0 have no rank, and n counts the others.
    """
    values = differences[differences != 0]
    sizes = np.abs(values)
    ranks = mean_ranks(sizes)
    above = ranks[values > 0].sum()
    _, num_equal = np.unique(sizes, return_counts=True)
    most = _MOST_EXACT_WITH_TIES
    if len(num_equal) == len(differences):
        most = _MOST_EXACT
    if len(differences) <= most:
        return _exact(ranks, above)
    count = len(values)
    ties = num_equal.astype(np.float64)
    pairs = count * (count + 1)
    variance = pairs * (2 * count + 1) / 24
    variance -= (ties**3 - ties).sum() / 48
    z = abs(above - pairs / 4) / np.sqrt(variance)
    return float(2 * scipy.special.ndtr(-z))


def _exact(ranks: NDArray[np.float64], above: float) -> float:
    """Returns twice the smaller share of all 2^n signs that give a sum at most, or at least, `above`."""
    # Ranks of ties are halves.
    doubled = np.rint(2 * ranks).astype(np.int64)
    shares = np.zeros(doubled.sum() + 1)
    shares[0] = 1
    for rank in doubled:
        with_rank = np.roll(shares, rank)
        shares = (shares + with_rank) / 2
    place = round(2 * above)
    at_most = shares[: place + 1].sum()
    at_least = shares[place:].sum()
    return min(1.0, 2 * float(min(at_most, at_least)))
