"""95 % intervals for a mean over queries: BCa bootstrap, Student's t, and simultaneous intervals.

The bootstrap is used with 100 queries or more. With fewer queries the sample does not represent the
population well enough; the interval is then Student's t, and the row is marked `few queries`.
docs/concepts/statistics.md shows the coverage of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# Quantiles from scipy.special, because importing scipy.stats takes most of a second.
from scipy.special import ndtr, ndtri, stdtrit

from ltrbench.statistics.resampling import Bootstrap, bootstrap
from ltrbench.statistics.sample import PairedSample

CONFIDENCE = 0.95
LEVEL = 0.05
"""Error probability of one test, and family-wise error probability of all claims."""
FEW_QUERIES = 100
"""Minimum number of queries for the bootstrap; with fewer, intervals are Student's t."""

FEW = "few queries"
IDENTICAL = "identical"
"""Notes on an interval: it is Student's t; there is no difference on any query."""


@dataclass(frozen=True)
class Interval:
    """An interval, of 95 % unless a level is given.

    Attributes:
        method: bca, t, max-t, bonferroni-t, corrected-t, or one of `Inference.method`.
        note: remark for readers, or empty.
    """

    low: float
    high: float
    method: str
    note: str = ""

    def turned(self) -> Interval:
        """Returns the interval of the negated difference."""
        # 0.0 - x instead of -x avoids a negative zero.
        return replace(self, low=0.0 - self.high, high=0.0 - self.low)


def excludes(interval: Interval | None, value: float = 0.0) -> bool:
    """Returns whether there is an interval and it does not contain the value."""
    return interval is not None and not interval.low <= value <= interval.high


def mean_intervals(sample: PairedSample, num_draws: int, seed: int) -> list[Interval | None]:
    """Returns the interval of the mean of each row; None if a stratum has fewer than two queries.

    If all values of a row are equal, both ends are that value.
    """
    if unknown_spread(sample):
        return [None] * len(sample.values)
    if sample.num_queries < FEW_QUERIES:
        return [replace(interval, note=FEW) for interval in student_intervals(sample)]
    return list(bca_intervals(sample, bootstrap(sample, num_draws, seed)))


def difference_intervals(
    sample: PairedSample, pairs: Sequence[tuple[int, int]], num_draws: int, seed: int
) -> list[Interval | None]:
    """Returns intervals of `values[a] - values[b]`, by the same rule, from one bootstrap of the systems."""
    differences = sample.differences(pairs)
    if unknown_spread(differences) or differences.num_queries < FEW_QUERIES:
        return mean_intervals(differences, num_draws, seed)
    return list(bca_intervals(differences, bootstrap(sample, num_draws, seed).differences(pairs)))


def unknown_spread(sample: PairedSample) -> str:
    """Returns the reason why no interval and no t test is available; empty if they are."""
    if sample.num_queries < 2:
        return "no query" if sample.num_queries == 0 else "one query only"
    return "a fold of one query" if min(map(len, sample.cells)) < 2 else ""


def student_intervals(sample: PairedSample) -> list[Interval]:
    """Returns mean -+ t(df) SE (Student, 1908; df with several strata: Satterthwaite, 1946).

    Assumes independent queries and a mean close to normal, which holds from a few dozen queries on.
    """
    intervals = []
    for mean, error, degrees in zip(sample.means, sample.standard_errors, sample.degrees, strict=True):
        half = stdtrit(degrees, (1 + CONFIDENCE) / 2) * error if error else 0.0
        intervals.append(Interval(float(mean - half), float(mean + half), "t"))
    return intervals


def bca_intervals(sample: PairedSample, resampled: Bootstrap) -> list[Interval]:
    """Returns BCa bootstrap intervals (Efron, 1987; Efron and Tibshirani, 1993, 14.3).

    BCa means bias-corrected and accelerated. The ends are the quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z)))
    of the draws, for z = Phi^-1(0.025) and Phi^-1(0.975). z0 = Phi^-1(share of draws below the mean) corrects
    the bias; a draw equal to the mean counts as 1/2. a = sum e_i^3 / (6 (sum e_i^2)^1.5), for the deviations
    e_i, corrects the skewness.

    Assumes independent queries, and enough of them to represent the population.
    """
    draws, point = resampled
    return [
        Interval(*_bca_ends(draws[:, row], point[row], deviations), "bca")
        if deviations.any()
        # All values are equal, and the formula would divide 0 by 0.
        else Interval(float(mean), float(mean), "bca")
        for row, (mean, deviations) in enumerate(zip(sample.means, sample.deviations, strict=True))
    ]


def _bca_ends(
    draws: NDArray[np.float64], point: float, deviations: NDArray[np.float64]
) -> tuple[float, float]:
    below = ((draws < point).mean() + (draws <= point).mean()) / 2
    # Half a draw away from 0 and 1, which would give an infinite bias.
    bias = ndtri(np.clip(below, 0.5 / len(draws), 1 - 0.5 / len(draws)))
    # Scaled to about 1, because third powers of small deviations underflow.
    scaled = deviations / np.abs(deviations).max()
    acceleration = (scaled**3).sum() / (6 * (scaled**2).sum() ** 1.5)
    normal = bias + ndtri(np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    low, high = np.quantile(draws, ndtr(bias + normal / (1 - acceleration * normal)))
    return float(low), float(high)


def simultaneous_intervals(
    sample: PairedSample,
    pairs: Sequence[tuple[int, int]],
    num_draws: int = 10_000,
    seed: int = 0,
    level: float = LEVEL,
) -> list[Interval | None]:
    """Returns simultaneous intervals of `values[a] - values[b]` of each pair (a, b).

    The interval of pair p is d_p -+ c SE_p, where c is the quantile at 1 - level over the bootstrap draws of
    max |d*_ip - d_p| / SE_p over the pairs (max-T: Westfall and Young, 1993; Romano and Wolf, 2005,
    Econometrica 73). If all pairs of systems are given, the intervals are also valid for the pairs with the
    best system of the sample. A single pair has the interval of its difference alone.

    Assumes the same as the bootstrap. With fewer than 100 queries c is Student's quantile at the level
    divided by the number of pairs (Bonferroni). All intervals are None if a stratum has fewer than two
    queries.
    """
    if not pairs:
        return []
    if len(pairs) == 1 and level == LEVEL:
        return difference_intervals(sample, pairs, num_draws, seed)
    if unknown_spread(sample):
        return [None] * len(pairs)
    differences = sample.differences(pairs)
    few = sample.num_queries < FEW_QUERIES
    factor = 0.0
    if not few:
        factor = float(np.quantile(largest_t(sample, differences, pairs, num_draws, seed), 1 - level))
    intervals: list[Interval | None] = []
    for mean, error, degrees in zip(
        differences.means, differences.standard_errors, differences.degrees, strict=True
    ):
        if few and error:
            factor = float(stdtrit(degrees, 1 - level / 2 / len(pairs)))
        half = factor * error
        method, note = ("bonferroni-t", FEW) if few else ("max-t", "")
        intervals.append(Interval(float(mean - half), float(mean + half), method, note))
    return intervals


def largest_t(
    sample: PairedSample,
    differences: PairedSample,
    pairs: Sequence[tuple[int, int]],
    num_draws: int,
    seed: int,
) -> NDArray[np.float64]:
    """Returns (B,), max |d*_ip - d_p| / SE_p of each bootstrap draw, over the pairs p with an SE above 0."""
    draws, point = bootstrap(sample, num_draws, seed)
    largest = np.zeros(num_draws)
    for (a, b), error in zip(pairs, differences.standard_errors, strict=True):
        if error:
            apart = (draws[:, a] - draws[:, b]) - (point[a] - point[b])
            np.maximum(largest, np.abs(apart) / error, out=largest)
    return largest
