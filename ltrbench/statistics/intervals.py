"""Intervals of 95 % for a mean over queries: BCa bootstrap, Student's t, and simultaneous ones.

The rule: the bootstrap from 100 queries on, Student's t under that, as the values of so few queries do not
stand for all that there are; the row is then marked `few queries`. docs/concepts/statistics.md shows how
often each covers the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# Quantiles are those of scipy.special: importing scipy.stats for them would take most of a second.
from scipy.special import ndtr, ndtri, stdtrit

from ltrbench.statistics.resampling import Bootstrap, bootstrap
from ltrbench.statistics.sample import PairedSample

CONFIDENCE = 0.95
LEVEL = 0.05
"""Probability of an error in one test, and in all claims of a family together."""
FEW_QUERIES = 100
"""Under so many queries an interval is Student's t."""

FEW = "few queries"
IDENTICAL = "identical"
"""Notes on an interval: why it is Student's t, and that there is no difference on any query."""


@dataclass(frozen=True)
class Interval:
    """An interval of 95 %, unless said otherwise.

    Attributes:
        method: bca, t, max-t, bonferroni-t, corrected-t, or one of `Inference.method`.
        note: what to know of it.
    """

    low: float
    high: float
    method: str
    note: str = ""

    def turned(self) -> Interval:
        """Of the difference the other way round."""
        # 0.0 - x and not -x, so that a 0 is not printed with a sign.
        return replace(self, low=0.0 - self.high, high=0.0 - self.low)


def excludes(interval: Interval | None, value: float = 0.0) -> bool:
    """Whether there is an interval and it does not hold the value."""
    return interval is not None and not interval.low <= value <= interval.high


def mean_intervals(sample: PairedSample, num_draws: int, seed: int) -> list[Interval | None]:
    """Of each row's mean; None where a stratum has under two queries, as there is no spread to judge by.

    Where all values of a row are the same the interval is that value.
    """
    if unknown_spread(sample):
        return [None] * len(sample.values)
    if sample.num_queries < FEW_QUERIES:
        return [replace(interval, note=FEW) for interval in student_intervals(sample)]
    return list(bca_intervals(sample, bootstrap(sample, num_draws, seed)))


def difference_intervals(
    sample: PairedSample, pairs: Sequence[tuple[int, int]], num_draws: int, seed: int
) -> list[Interval | None]:
    """Of `values[a] - values[b]` of each pair (a, b), by the same rule, from one bootstrap of the systems."""
    differences = sample.differences(pairs)
    if unknown_spread(differences) or differences.num_queries < FEW_QUERIES:
        return mean_intervals(differences, num_draws, seed)
    return list(bca_intervals(differences, bootstrap(sample, num_draws, seed).differences(pairs)))


def unknown_spread(sample: PairedSample) -> str:
    """Why no interval and no t test can be had; empty where they can."""
    if sample.num_queries < 2:
        return "no query" if sample.num_queries == 0 else "one query only"
    return "a fold of one query" if min(map(len, sample.cells)) < 2 else ""


def student_intervals(sample: PairedSample) -> list[Interval]:
    """mean -+ t(df) SE (Student, 1908; df of several strata: Satterthwaite, 1946).

    Assumes independent queries and a mean close to normal, as it is from some dozens of queries on.
    """
    intervals = []
    for mean, error, degrees in zip(sample.means, sample.standard_errors, sample.degrees, strict=True):
        half = stdtrit(degrees, (1 + CONFIDENCE) / 2) * error if error else 0.0
        intervals.append(Interval(float(mean - half), float(mean + half), "t"))
    return intervals


def bca_intervals(sample: PairedSample, resampled: Bootstrap) -> list[Interval]:
    """Bias-corrected and accelerated bootstrap intervals (Efron, 1987; Efron and Tibshirani, 1993, 14.3).

    The ends are the quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z))) of the draws, z = Phi^-1(0.025) and
    Phi^-1(0.975): z0 = Phi^-1(share of draws below the mean) corrects the bias, where a draw equal to the
    mean counts half, and a = sum e_i^3 / (6 (sum e_i^2)^1.5) for the deviations e_i the skewness.

    Assumes independent queries, and enough of them to stand for all.
    """
    draws, point = resampled
    return [
        Interval(*_bca_ends(draws[:, row], point[row], deviations), "bca")
        if deviations.any()
        # Nothing to resample, and the formula would divide 0 by 0.
        else Interval(float(mean), float(mean), "bca")
        for row, (mean, deviations) in enumerate(zip(sample.means, sample.deviations, strict=True))
    ]


def _bca_ends(
    draws: NDArray[np.float64], point: float, deviations: NDArray[np.float64]
) -> tuple[float, float]:
    below = ((draws < point).mean() + (draws <= point).mean()) / 2
    # Half a draw away from the ends, as a share of 0 or 1 is no sign of an infinite bias.
    bias = ndtri(np.clip(below, 0.5 / len(draws), 1 - 0.5 / len(draws)))
    # Of deviations of about 1: third powers of small ones would vanish.
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
    """Returns intervals of `values[a] - values[b]` of each pair (a, b) that hold all at once.

    d_p -+ c SE_p, where c is the quantile at 1 - level over the bootstrap draws of max |d*_ip - d_p| / SE_p
    over the pairs p (max-T: Westfall and Young, 1993; Romano and Wolf, 2005, Econometrica 73). Given all
    pairs of systems, they also hold for the pairs with the system that came out best. A single pair has the
    interval of its difference alone.

    Assumes what the bootstrap does. Under 100 queries c is Student's quantile at the level divided by the
    number of pairs (Bonferroni). None for all where a stratum has under two queries.
    """
    if not pairs:
        return []
    if len(pairs) == 1 and level == LEVEL:
        return difference_intervals(sample, pairs, num_draws, seed)
    if unknown_spread(sample):
        return [None] * len(pairs)
    differences = sample.differences(pairs)
    few = sample.num_queries < FEW_QUERIES
    factor = 0.0 if few else _max_t(sample, differences, pairs, num_draws, seed, level)
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


def _max_t(
    sample: PairedSample,
    differences: PairedSample,
    pairs: Sequence[tuple[int, int]],
    num_draws: int,
    seed: int,
    level: float,
) -> float:
    """c, of those pairs that differ at all."""
    draws, point = bootstrap(sample, num_draws, seed)
    largest = np.zeros(num_draws)
    for (a, b), error in zip(pairs, differences.standard_errors, strict=True):
        if error:
            apart = (draws[:, a] - draws[:, b]) - (point[a] - point[b])
            np.maximum(largest, np.abs(apart) / error, out=largest)
    return float(np.quantile(largest, 1 - level))
