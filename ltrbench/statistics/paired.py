"""Two systems on the same queries: the difference of their means, its interval, and three tests.

The inference is valid for these trained models, on queries like these. Inference about methods needs repeated
training: see `repeated`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

# SciPy imports scipy.special on its first use. Quantiles are not from scipy.stats, which takes most of a
# second to import.
import scipy
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery, Values
from ltrbench.statistics.ranks import signed_rank_p_value

# ---- Data of a comparison: the value of each system on each query, the share of each query, and its fold.
#
# M systems (or pairs of systems) on the same Q queries. A stratum is the test set of a fold, evaluated with
# the models of that fold. Queries are resampled within strata, because the folds are fixed, not sampled.

_ALIKE = 0.99
"""Effective number of queries over their number, from which weights are about equal."""

DECIMALS = 12
"""Decimals of a difference. Averaging seeds in another order changes the last bits, which must be a tie."""


@dataclass(frozen=True, eq=False)
class PairedSample:
    """Per-query values of M systems on the same Q queries.

    Attributes:
        values: (M, Q), one row per system, or per pair of systems; finite.
        weights: (Q,), positive, share of each query in a mean; they sum to 1.
        strata: (Q,), number of the stratum (fold) of each query.
        are_clusters: whether the weight of a query is its number of sampled units, such as the lists that
            were shown: a mean is a ratio of sums over clusters, whose variance is that of a cluster sample.
    """

    values: Values
    weights: PerQuery
    strata: NDArray[np.int64]
    are_clusters: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigError if a value is not finite or a weight is not positive."""
        if not np.isfinite(self.values).all():
            is_infinite = ~np.isfinite(self.values)
            system, query = np.argwhere(is_infinite)[0]
            raise ConfigError(
                f"system {system}, query {query}: the value is {self.values[system, query]}; leave out the "
                "queries on which the metric is not defined."
            )
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise ConfigError(
                "weights must be positive; leave out queries with weight 0."
            )

    @classmethod
    def of(
        cls,
        values: Values,
        query_weights: PerQuery | None = None,
        strata: NDArray[np.int64] | None = None,
        are_clusters: bool = False,
    ) -> PairedSample:
        """Returns a sample in which a mean is the mean over C strata of the weighted mean over their queries.

        The share of query i is w_i / (C sum of the w_j in its stratum).

        >>> PairedSample.of(np.array([[1.0, 2.0, 6.0]]), strata=np.array([0, 0, 1])).means
        array([3.75])
        """
        matrix = np.atleast_2d(np.asarray(values, dtype=np.float64))
        num_queries = matrix.shape[-1]
        weights = (
            np.ones(num_queries)
            if query_weights is None
            else np.asarray(query_weights, np.float64)
        )
        cells = (
            np.zeros(num_queries, np.int64)
            if strata is None
            else np.asarray(strata, np.int64)
        )
        names, numbers = np.unique(cells, return_inverse=True)
        totals = np.bincount(numbers, weights, minlength=len(names))
        shares = weights / (len(names) * totals[numbers])
        return cls(matrix, shares, cells, are_clusters)

    @property
    def num_queries(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """(M,), weighted mean of each row."""
        means: NDArray[np.float64] = weighted_sum(self.values, self.weights)
        return means

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], ...]:
        """Indices of the queries of each stratum."""
        strata = np.unique(self.strata)
        return tuple(np.flatnonzero(self.strata == stratum) for stratum in strata)

    def differences(self, pairs: Sequence[tuple[int, int]]) -> PairedSample:
        """Returns the sample with the rows `values[a] - values[b]` for each pair (a, b)."""
        key = tuple(pairs)
        if key not in self._differences:
            rows = np.array(pairs, dtype=np.intp)
            first, second = rows.reshape(-1, 2).T
            values = self.values[first] - self.values[second]
            values = np.round(values, DECIMALS)
            self._differences[key] = replace(self, values=values)
        return self._differences[key]

    @cached_property
    def _differences(self) -> dict[tuple[tuple[int, int], ...], PairedSample]:
        """Pairs -> their sample, so that the results of one sample are computed once."""
        return {}

    @cached_property
    def effective_sizes(self) -> NDArray[np.float64]:
        """(C,), effective number of queries of each stratum; see `effective_size`."""
        return np.array([effective_size(self.weights[cell]) for cell in self.cells])

    @property
    def allows_bootstrap(self) -> bool:
        """Whether queries are many, and their weights in a stratum about equal.

        In repeats of a cross-validation, folds of 112 and 113 queries give their queries slightly different
        weights, which the bootstrap may ignore.
        """
        sizes = [len(cell) for cell in self.cells]
        are_alike = self.effective_sizes >= _ALIKE * np.array(sizes)
        return self.num_queries >= FEW_QUERIES and bool(are_alike.all())

    @property
    def is_weighted(self) -> bool:
        """Whether queries of one stratum have different weights."""
        for cell in self.cells:
            weights = self.weights[cell]
            if np.ptp(weights) > 1e-9 * weights.max():
                return True
        return False

    @cached_property
    def _cell_variances(self) -> NDArray[np.float64]:
        """(C, M), part of each stratum in the variance of the mean; NaN for a stratum of one query."""
        variances = []
        for cell in self.cells:
            weights = self.weights[cell]
            total = weights.sum()
            values = np.take(self.values, cell, axis=1)
            squared = squared_errors(values, weights / total, self.are_clusters)
            variances.append(total**2 * squared)
        shape = (len(self.cells), len(self.values))
        return np.array(variances).reshape(shape)

    @cached_property
    def standard_errors(self) -> NDArray[np.float64]:
        """(M,), standard errors of the means; s / sqrt(Q) with equal shares; NaN if a stratum has 1 query."""
        errors: NDArray[np.float64] = np.sqrt(self._cell_variances.sum(axis=0))
        return errors

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """(M,), degrees of freedom of the nonzero standard errors; n_eff - 1 with one stratum.

        (sum_c v_c)^2 / sum_c(v_c^2 / d_c) for the variances v_c of the strata (Satterthwaite, 1946), where
        d_c is the effective number of queries minus 1. If queries are clusters, a few of which have most
        units, the variance varies more than that of so many queries: d_c is at most
        3 (sum a_i)^2 / sum a_i^2, with a_i = s_i^2 (x_i - m)^2 (Pan and Wall, 2002, Statistics in Medicine
        21).
        """
        variances = self._cell_variances
        degrees_of_cells = self.effective_sizes[:, np.newaxis] - 1
        if self.are_clusters:
            of_clusters = [self._degrees_of_clusters(cell) for cell in self.cells]
            degrees_of_cells = np.fmin(degrees_of_cells, of_clusters)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (variances**2 / degrees_of_cells).sum(axis=0)
            degrees: NDArray[np.float64] = variances.sum(axis=0) ** 2 / parts
        return degrees

    def _degrees_of_clusters(self, cell: NDArray[np.intp]) -> NDArray[np.float64]:
        weights = self.weights[cell]
        shares = weights / weights.sum()
        values = np.take(self.values, cell, axis=1)
        means = weighted_sum(values, shares)
        centred = values - means[:, np.newaxis]
        return _degrees_of_parts((shares * centred) ** 2)


def _degrees_of_parts(parts: Values) -> NDArray[np.float64]:
    """Returns (M,), degrees of freedom of the sums of (M, n) squared normal values; NaN if all are 0."""
    totals = parts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        shares = parts / totals
    squares = (shares**2).sum(axis=1)
    degrees: NDArray[np.float64] = 3 / squares
    return degrees


def weighted_sum(values: Values, weights: PerQuery) -> NDArray[np.float64]:
    """Returns (M,) from (M, Q). In a matrix product the summation order would depend on the threads."""
    total: NDArray[np.float64] = (values * weights).sum(axis=-1)
    return total


def effective_size(weights: PerQuery) -> float:
    """Returns n_eff = (sum_i w_i)^2 / sum_i w_i^2, the number of queries of equal weight (Kish, 1965).

    >>> effective_size(np.array([1.0, 1.0, 1.0])), effective_size(np.array([3.0, 1.0]))
    (3.0, 1.6)
    """
    if len(weights):
        return float(weights.sum() ** 2 / (weights**2).sum())
    return 0.0


def squared_errors(
    values: Values, shares: PerQuery, are_clusters: bool = False
) -> NDArray[np.float64]:
    """Returns (M,), squared standard errors of the weighted means of one stratum; NaN for one query.

    The larger of two estimates, which are equal, s^2 / n, if the shares s_i are equal:

        sum_i s_i (x_i - m)^2 / (n_eff - 1)              the variance does not depend on the weight
        n / (n - 1) sum_i s_i^2 (x_i - m)^2              it may (Cochran, 1977, "Sampling Techniques", 6)

    The second alone rests on the few queries of large weight, and is often far too small. The first alone is
    too small if these vary more than others. If the weight of a query is its number of sampled units, the
    second one is the variance of the cluster sample, and the first far too large: a mean over many units
    varies less.

    Args:
        values: (M, n).
        shares: (n,), which sum to 1.
        are_clusters: as in `PairedSample`; the second estimate alone.
    """
    centred = values - weighted_sum(values, shares)[:, np.newaxis]
    # If all values are equal, rounding of the mean must not give a variance.
    lowest = values.min(axis=1, initial=np.inf)
    highest = values.max(axis=1, initial=-np.inf)
    centred[lowest == highest] = 0
    size = values.shape[1]
    if size < 2:
        return np.full(len(values), np.nan)
    factor = size / (size - 1)
    single: NDArray[np.float64] = factor * weighted_sum(centred**2, shares**2)
    if are_clusters:
        return single
    pooled = weighted_sum(centred**2, shares) / (effective_size(shares) - 1)
    errors: NDArray[np.float64] = np.maximum(pooled, single)
    return errors


# ---- Sign flips and bootstrap draws of all rows at once, with the same bits on any number of threads.
#
# The draws are a matrix with one row per draw: the signs, or the number of times each query was drawn. Its
# product with the values gives all draws of all rows. It is computed in blocks to bound the memory.
#
# The summation order of a matrix product depends on threads and processor. The values are therefore first
# rounded to a grid, as whole numbers small enough that no sum is rounded: such sums are equal in any order.
# The rounding error is below 1e-9 of the largest value at a million queries.

_EXACT_BITS = 51
"""float64 is exact for whole numbers below 2^53; one bit is for doubling a sum, one for rounding."""

_BLOCK = 2**21
"""Number of signs or counts per block, 16 MB; measured, larger blocks exceed the processor's cache."""

_DRAWN = 2**15
"""Number of queries that are drawn at once, 256 KB."""

_VALUES = 2**23
"""Number of differences that are resampled together, 64 MB; their squares need as much."""

_SIGNS = 0
_COUNTS = 1
"""Streams of random numbers of one seed."""


def sign_flip_p_values(
    differences: PairedSample, num_draws: int, seed: int
) -> NDArray[np.float64]:
    """Returns (M,), two-sided p-values of the paired randomisation test, p = (b + 1) / (B + 1).

    b of B draws have |sum_i s_i share_i d_i| >= |sum_i share_i d_i|, where each sign s_i is +1 or -1 with
    probability 1/2 (Fisher, 1935; for retrieval Smucker, Allan and Carterette, 2007, CIKM). Adding 1 keeps p
    above 0 and the level valid for any B (Phipson and Smyth, 2010).

    Assumes independent queries, and that under the null hypothesis the values of the two systems on a query
    are exchangeable: a difference and its negative are equally likely. It does not assume a normal
    distribution. If all differences are 0, p = 1.
    """
    rng = np.random.default_rng([seed, _SIGNS])
    num_queries = differences.num_queries
    wholes, _ = _on_grid(differences.weights * differences.values)
    totals = wholes.sum(axis=1)
    # Tolerance for sums that differ only by the rounding to the grid: 1/2 per query, for each of the two
    # sums.
    least = np.abs(totals) - num_queries
    reached = np.zeros(len(wholes), dtype=np.int64)
    for num_rows in _blocks(num_draws, num_queries):
        words = rng.bit_generator.random_raw((num_rows, -(-num_queries // 64)))
        bits = np.unpackbits(words.view(np.uint8), axis=1, count=num_queries)
        heads = bits.astype(np.float64)
        flipped = 2 * (heads @ wholes.T) - totals
        reached += (np.abs(flipped) >= least).sum(axis=0)
    return (reached + 1) / (num_draws + 1)


@lru_cache(maxsize=2)
def drawn_t(
    differences: PairedSample, num_draws: int, seed: int
) -> NDArray[np.float64]:
    """Returns (B, M), (d*_p - d_p) / SE*_p of each row p for each draw of the bootstrap.

    Queries are drawn with replacement within each stratum, the same ones for all rows. d*_p is the mean of a
    draw and SE*_p its standard error, computed from the queries of the draw (studentised bootstrap: Romano
    and Wolf, 2005, Econometrica 73). A draw without variance and with another mean is infinitely far away.

    The intervals and the largest loss of a comparison share the draws, which take most of its time.

    Args:
        differences: rows that vary; all queries of a stratum have about the same weight.
    """
    t = np.empty((num_draws, len(differences.values)))
    for rows, block in _row_blocks(differences):
        of_draws = list(_studentised(rows, num_draws, seed))
        t[:, block] = np.concatenate(of_draws)
    return t


def largest_t(
    differences: PairedSample, num_draws: int, seed: int
) -> NDArray[np.float64]:
    """Returns (B,), max_p |d*_p - d_p| / SE*_p over the rows p, for each draw of `drawn_t`."""
    t = np.abs(drawn_t(differences, num_draws, seed))
    largest: NDArray[np.float64] = t.max(axis=1)
    return largest


def _row_blocks(differences: PairedSample) -> Iterator[tuple[PairedSample, slice]]:
    """Yields the sample with some of its rows at a time, to bound the memory, and which rows they are."""
    at_once = max(1, _VALUES // max(differences.num_queries, 1))
    for start in range(0, len(differences.values), at_once):
        block = slice(start, start + at_once)
        yield replace(differences, values=differences.values[block]), block


def _studentised(
    differences: PairedSample, num_draws: int, seed: int
) -> Iterator[NDArray[np.float64]]:
    """Yields (b, M), (d*_p - d_p) / SE*_p of each row for the next b draws of the bootstrap."""
    shares = [float(differences.weights[cell].sum()) for cell in differences.cells]
    grids = [
        _on_grid(_moments(np.take(differences.values, cell, axis=1)))
        for cell in differences.cells
    ]
    blocks = list(_blocks(num_draws, differences.num_queries))
    # Each call has the same draws.
    rng = np.random.default_rng([seed, _COUNTS])
    counts = _ahead(rng, itertools.product(blocks, map(len, differences.cells)))
    for num_drawn in blocks:
        apart, variance = np.zeros((2, num_drawn, len(differences.values)))
        for (wholes, units), share in zip(grids, shares, strict=True):
            size = wholes.shape[1]
            means = next(counts) @ wholes.T * (units / size)
            first, second = np.split(means, 2, axis=1)
            apart += share * first
            of_cell = np.maximum(second - first**2, 0)
            variance += share**2 * of_cell / (size - 1)
        yield _t(apart, variance)


def _t(apart: Values, variance: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart == 0, 0, apart / np.sqrt(variance))


def _moments(values: Values) -> Values:
    """Returns (2M, n), the deviations from the mean of each row, and below them their squares."""
    centred = values - values.mean(axis=1, keepdims=True)
    return np.concatenate([centred, centred**2])


def _on_grid(values: Values) -> tuple[Values, NDArray[np.float64]]:
    """Returns each row in the finest unit in which no sum of n of its values, repeated or not, is rounded.

    They are whole numbers (M, n), and units (M,), powers of two; wholes * units[:, None] are the values.
    """
    largest = np.abs(values).max(axis=1, initial=0)
    bounds = values.shape[1] * largest
    exponents = np.frexp(bounds)[1] - _EXACT_BITS
    wholes = np.rint(np.ldexp(values, -exponents[:, np.newaxis]))
    return wholes, np.ldexp(1.0, exponents)


def _counts(rng: np.random.Generator, num_rows: int, num_queries: int) -> Values:
    """Returns (num_rows, n), the number of times each of n queries was drawn in n draws."""
    counts = np.empty((num_rows, num_queries))
    # The numbers drawn at once stay in the processor's cache.
    at_once = max(1, _DRAWN // num_queries)
    for first in range(0, num_rows, at_once):
        rows = counts[first : first + at_once]
        for row, drawn in zip(
            rows, rng.integers(num_queries, size=rows.shape), strict=True
        ):
            row[:] = np.bincount(drawn, minlength=num_queries)
    return counts


def _ahead(
    rng: np.random.Generator, shapes: Iterable[tuple[int, int]]
) -> Iterator[Values]:
    """Yields the `_counts` of each shape; a thread draws them while the previous ones are used."""
    with ThreadPoolExecutor(1) as pool:
        upcoming = None
        for num_rows, num_queries in shapes:
            before = upcoming
            upcoming = pool.submit(_counts, rng, num_rows, num_queries)
            if before is not None:
                yield before.result()
        if upcoming is not None:
            yield upcoming.result()


def _blocks(num_draws: int, num_queries: int) -> Iterator[int]:
    """Yields the number of draws of each block."""
    most = max(1, _BLOCK // max(num_queries, 1))
    for start in range(0, num_draws, most):
        yield min(most, num_draws - start)


# ---- 95 % intervals for a mean over queries: Student's t, and simultaneous intervals of several
# differences.
#
# If hardly any query has a difference, no interval of a mean can be trusted. The interval is then a bound
# on the share of queries with a difference, times the largest plausible difference.
# docs/concepts/statistics.md shows the error rates.

CONFIDENCE = 0.95
LEVEL = 0.05
"""Error probability of one test, and family-wise error probability of all claims."""
FEW_QUERIES = 100
"""Minimum number of queries for the bootstrap of a family; with fewer, its intervals are Bonferroni's."""
FEWEST_QUERIES = 3
"""Minimum number of queries for an interval: the variance of two has only one degree of freedom."""
FEWEST_DIFFERING = 6
"""Minimum number of queries with a difference for Student's interval. With five, no randomisation test can
reject at 5 %: all five have one sign with a probability of 2 / 2^5."""

DIFFERING = "differing"
"""Method of the interval of `Differing`."""

FEW = "few queries"
IDENTICAL = "identical"
FEW_DIFFER = "few queries differ"
"""Notes on an interval: few queries; no difference on any query; a difference on fewer than six."""


@dataclass(frozen=True)
class Interval:
    """An interval, of 95 % unless a level is given.

    Attributes:
        method: t, max-t, bonferroni-t, differing, corrected-t, or one of `Inference.method`.
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

    def within(self, low: float, high: float) -> Interval:
        """Returns the interval without the values below `low` and above `high`."""
        # Both ends, because the mean of values of 1 may exceed 1 by rounding.
        at_least = max(self.low, low)
        above = max(self.high, low)
        return replace(self, low=min(at_least, high), high=min(above, high))


@dataclass(frozen=True)
class Differing:
    """The queries with a difference.

    Attributes:
        num_queries: effective number of queries.
        num_differing: effective number of queries with a difference.
        share: weighted share of these queries.
        largest: largest plausible difference on a query.
    """

    num_queries: float
    num_differing: float
    share: float
    largest: float

    @classmethod
    def of(cls, differences: PerQuery, weights: PerQuery, largest: float) -> Differing:
        """Returns the counts, given (Q,) differences and weights."""
        differ = weights[differences != 0]
        share = float(differ.sum() / weights.sum())
        return cls(effective_size(weights), effective_size(differ), share, largest)

    @property
    def are_few(self) -> bool:
        return self.num_differing < FEWEST_DIFFERING

    def interval(self, level: float = LEVEL) -> Interval:
        """Returns the interval of the mean difference, -bound to bound.

        bound is the upper confidence bound of the share of queries with a difference (Clopper and Pearson,
        1934) times the largest plausible difference. If no query differs, it is about 3 / n times that
        difference at 95 % (rule of three: Hanley and Lippman-Hand, 1983).
        """
        count = min(self.share * self.num_queries, self.num_queries)
        left = self.num_queries - count
        share = 1.0
        if left > 0:
            quantile = scipy.special.betaincinv(count + 1, left, 1 - level)
            share = float(quantile)
        bound = share * self.largest
        note = FEW_DIFFER if count else IDENTICAL
        return Interval(0.0 - bound, bound, DIFFERING, note)


def largest_plausible(*values: NDArray[np.float64]) -> float:
    """Returns the largest plausible difference: 1, the range of most metrics, or the range of the values."""
    highest = max(of.max(initial=0) for of in values)
    lowest = min(of.min(initial=0) for of in values)
    return max(1.0, float(highest - lowest))


def excludes(interval: Interval | None, value: float = 0.0) -> bool:
    """Returns whether there is an interval and it does not contain the value."""
    return interval is not None and not interval.low <= value <= interval.high


def system_intervals(sample: PairedSample) -> list[Interval | None]:
    """Returns Student's interval of the mean of each row; None if there are too few queries.

    If all values of a row are equal, both ends are that value. Two such intervals can overlap even if the
    paired difference is significant; use `compare_pairs` to compare.
    """
    if unknown_spread(sample):
        return [None] * len(sample.values)
    note = ""
    if sample.num_queries < FEW_QUERIES:
        note = FEW
    return [replace(interval, note=note) for interval in student_intervals(sample)]


def unknown_spread(sample: PairedSample) -> str:
    """Returns the reason why no interval is available; empty if it is."""
    if sample.num_queries < 2:
        return "no query" if sample.num_queries == 0 else "one query only"
    if sample.num_queries < FEWEST_QUERIES:
        return f"{sample.num_queries} queries; a claim needs {FEWEST_QUERIES}"
    if min(map(len, sample.cells)) < 2:
        return "a fold of one query"
    return ""


def student_intervals(sample: PairedSample, level: float = LEVEL) -> list[Interval]:
    """Returns mean -+ t(df) SE (Student, 1908; df with several strata: Satterthwaite, 1946).

    Assumes independent queries and a mean close to normal, which holds from a few dozen queries on. With
    weights df is the effective number of queries minus 1.
    """
    intervals = []
    for mean, error, degrees in zip(
        sample.means, sample.standard_errors, sample.degrees, strict=True
    ):
        half = 0.0
        if error:
            quantile = scipy.special.stdtrit(degrees, 1 - level / 2)
            half = quantile * error
        low = float(mean - half)
        intervals.append(Interval(low, float(mean + half), "t"))
    return intervals


def difference_intervals(
    sample: PairedSample, pairs: Sequence[tuple[int, int]], level: float = LEVEL
) -> list[Interval | None]:
    """Returns the interval of `values[a] - values[b]` of each pair (a, b) alone.

    It is Student's, or that of `Differing` if few queries differ. None with too few queries, or if all
    differences are equal and not 0: an interval needs a variance.
    """
    differences = sample.differences(pairs)
    if unknown_spread(sample):
        return [None] * len(pairs)
    largest = largest_plausible(sample.values)
    note = ""
    if sample.num_queries < FEW_QUERIES:
        note = FEW
    intervals: list[Interval | None] = []
    students = student_intervals(differences, level)
    for values, error, student in zip(
        differences.values, differences.standard_errors, students, strict=True
    ):
        differing = Differing.of(values, differences.weights, largest)
        if differing.are_few:
            intervals.append(differing.interval(level))
        else:
            intervals.append(replace(student, note=note) if error else None)
    return intervals


def simultaneous_intervals(
    sample: PairedSample,
    pairs: Sequence[tuple[int, int]],
    num_draws: int = 10_000,
    seed: int = 0,
    level: float = LEVEL,
) -> list[Interval | None]:
    """Returns simultaneous intervals of `values[a] - values[b]` of each pair (a, b).

    The interval of pair p is d_p -+ c SE_p, where c is the quantile at 1 - level over the bootstrap draws of
    max |d*_ip - d_p| / SE*_ip over the pairs, each draw divided by its own standard error (max-T: Westfall
    and Young, 1993; Romano and Wolf, 2005, Econometrica 73). If all pairs of systems are given, the intervals
    are also valid for the pairs with the best system of the sample. A single pair has Student's interval.

    With fewer than 100 queries, and with queries of different weights, c is Student's quantile at the level
    divided by the number of pairs (Bonferroni). A pair on which few queries differ has the interval of
    `Differing` at that level. The intervals that are not available are those of `difference_intervals`.
    """
    if not pairs:
        return []
    each = level / len(pairs)
    intervals = difference_intervals(sample, pairs, each)
    students = {
        row: interval
        for row, interval in enumerate(intervals)
        if interval is not None and interval.method == "t"
    }
    if len(pairs) == 1 or not students:
        return intervals
    differences = sample.differences([pairs[row] for row in students])
    factor = max_t_factor(differences, each * len(students), num_draws, seed)
    if factor is None:
        for row, student in students.items():
            intervals[row] = replace(student, method="bonferroni-t")
        return intervals
    for row, mean, error in zip(
        students, differences.means, differences.standard_errors, strict=True
    ):
        half = factor * error
        low = float(mean - half)
        intervals[row] = Interval(low, float(mean + half), "max-t")
    return intervals


def max_t_factor(
    differences: PairedSample, level: float, num_draws: int, seed: int
) -> float | None:
    """Returns c of max-T; None if Bonferroni's correction takes its place.

    Bonferroni's correction is used with few queries, which do not represent the population, with queries of
    clearly different weights, whose effective number is small, and if c is infinite.

    Args:
        differences: rows that vary.
    """
    if not differences.allows_bootstrap:
        return None
    largest = largest_t(differences, num_draws, seed)
    factor = float(np.quantile(largest, 1 - level, method="higher"))
    # The draws repeat queries, so that c can be below Student's quantile of a single pair.
    fewest = differences.degrees.min()
    single = float(scipy.special.stdtrit(fewest, 1 - level / 2))
    if np.isfinite(factor):
        return max(factor, single)
    return None


def largest_loss(
    sample: PairedSample,
    chosen: int,
    num_draws: int = 10_000,
    seed: int = 0,
    level: float = LEVEL,
) -> float | None:
    """Returns an upper confidence bound of how much worse a system is than the best one, 0 or more.

        max(0, max_j (x_j - x_i + c_j SE_ij))    over the systems j other than the chosen system i

    where c_j is the one-sided factor of max-T for the differences of system j to all others. This is the
    upper end of Hsu's multiple comparisons with the best (Hsu, 1981, Annals of Statistics 9): whichever
    system is the best, with confidence 1 - level its differences to all others are below their upper bounds.
    The bound therefore holds for every choice of i, also for the system with the highest mean.

    Student's quantile with Bonferroni's correction takes the place of max-T as in `max_t_factor`. Systems
    that differ on few queries have the bound of `Differing`.

    Returns None with fewer than two systems, or without an interval for a difference.
    """
    others = [number for number in range(len(sample.values)) if number != chosen]
    if not others or unknown_spread(sample):
        return None
    differences = sample.differences([(best, chosen) for best in others])
    factors = _one_sided_factors(sample, num_draws, seed, level)
    largest = 0.0
    for row, best in enumerate(others):
        plausible = largest_plausible(sample.values[[best, chosen]])
        differing = Differing.of(
            differences.values[row], differences.weights, plausible
        )
        error = float(differences.standard_errors[row])
        if differing.are_few:
            bound = differing.interval(level / len(others)).high
        elif error == 0:
            return None
        else:
            bound = float(differences.means[row]) + factors[best] * error
        largest = max(largest, bound)
    return largest


def _one_sided_factors(
    sample: PairedSample, num_draws: int, seed: int, level: float
) -> list[float]:
    """Returns c_j of `largest_loss` for each system j, with infinity replaced by Bonferroni's factor."""
    num_systems = len(sample.values)
    pairs = list(itertools.combinations(range(num_systems), 2))
    differences = sample.differences(pairs)
    varying = np.flatnonzero(differences.standard_errors > 0)
    degrees = differences.degrees[varying].min(initial=np.inf)
    each = level / (num_systems - 1)
    bonferroni = float(scipy.special.stdtrit(degrees, 1 - each))
    if num_systems == 2 or not len(varying) or not differences.allows_bootstrap:
        return [bonferroni] * num_systems
    pairs = [pairs[row] for row in varying]
    t = drawn_t(sample.differences(pairs), num_draws, seed)
    quantiles = []
    for system in range(num_systems):
        # d_p - d*_p of system j minus the other one is -t of the pair, or t if j is its second system.
        signs: dict[int, float] = {}
        for column, (first, second) in enumerate(pairs):
            if system == first:
                signs[column] = -1.0
            elif system == second:
                signs[column] = 1.0
        if not signs:
            quantiles.append(np.inf)
            continue
        apart = t[:, list(signs)] * list(signs.values())
        highest = apart.max(axis=1)
        quantiles.append(np.quantile(highest, 1 - level, method="higher"))
    # The draws repeat queries, so that a factor can be below Student's quantile of a single pair.
    least = float(scipy.special.stdtrit(degrees, 1 - level))
    finite = np.where(np.isfinite(quantiles), quantiles, bonferroni)
    factors: list[float] = np.maximum(finite, least).tolist()
    return factors


TESTS = ("randomisation", "t", "wilcoxon")


@dataclass(frozen=True)
class PairStatistics:
    """System a compared with system b. A result that is not available is None; `note` gives the reason.

    Attributes:
        difference: mean of a minus mean of b; None without queries.
        interval: 95 % interval of the difference.
        p_values: randomisation, t and wilcoxon, two-sided, unadjusted.
        effect_size: mean over standard deviation of the paired differences.
        wins, ties, losses: number of queries on which a is better, equal, worse.
        num_queries: number of queries with values of both systems.
        standard_error: standard error of the difference.
        degrees: degrees of freedom of the standard error; None if it is 0 or not available.
        note: "identical", "few queries differ", "few queries", the reason why a result is None, or empty.
    """

    difference: float | None
    interval: Interval | None
    p_values: Mapping[str, float | None]
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    num_queries: int
    standard_error: float | None = None
    degrees: float | None = None
    note: str = ""

    def turned(self) -> PairStatistics:
        """Returns the statistics of b compared with a."""
        difference = self.difference
        interval = self.interval
        effect_size = self.effect_size
        return replace(
            self,
            difference=None if difference is None else 0.0 - difference,
            interval=None if interval is None else interval.turned(),
            effect_size=None if effect_size is None else 0.0 - effect_size,
            wins=self.losses,
            losses=self.wins,
        )


def compare_pairs(
    sample: PairedSample,
    pairs: Sequence[tuple[int, int]],
    num_draws: int = 10_000,
    seed: int = 0,
) -> list[PairStatistics]:
    """Returns statistics of `values[a] - values[b]` for each pair (a, b) of systems.

    All pairs share the signs and the resampled queries. The statistics of a pair do not depend on the other
    pairs. The same seed gives the same bits on any number of threads.

    >>> sample = PairedSample.of(np.array([[0.5, 0.25, 0.75], [0.5, 0.25, 0.75]]))
    >>> compare_pairs(sample, [(0, 1)])[0].note
    'identical'
    """
    if not pairs:
        return []
    differences = sample.differences(pairs)
    intervals = difference_intervals(sample, pairs)
    randomisation = [1.0] * len(pairs)
    if differences.num_queries > 1:
        randomisation = sign_flip_p_values(differences, num_draws, seed).tolist()
    statistics = []
    of_rows = zip(intervals, randomisation, strict=True)
    for row, (interval, p_value) in enumerate(of_rows):
        statistics.append(_statistics(differences, row, interval, p_value))
    return statistics


def _statistics(
    differences: PairedSample, row: int, interval: Interval | None, randomisation: float
) -> PairStatistics:
    values = differences.values[row]
    num_queries = len(values)
    reason = unknown_spread(differences)
    statistics = PairStatistics(
        difference=float(differences.means[row]) if num_queries else None,
        interval=interval,
        p_values=dict.fromkeys(TESTS),
        effect_size=None,
        wins=int((values > 0).sum()),
        ties=int((values == 0).sum()),
        losses=int((values < 0).sum()),
        num_queries=num_queries,
        standard_error=None,
        note=reason if interval is None else interval.note,
    )
    if num_queries < 2:
        return statistics
    if not values.any():
        return replace(
            statistics,
            difference=0.0,
            p_values=dict.fromkeys(TESTS, 1.0),
            effect_size=0.0,
            standard_error=0.0,
            note=IDENTICAL,
        )
    error = float(differences.standard_errors[row])
    if error == 0 and not reason:
        same = "the same difference on every query of a fold"
        statistics = replace(statistics, note=same)
    p_values = {
        "randomisation": randomisation,
        "t": _t_p_value(differences, row),
        "wilcoxon": signed_rank_p_value(values),
    }
    degrees = float(differences.degrees[row])
    return replace(
        statistics,
        p_values=p_values,
        effect_size=_effect_size(values, differences.weights),
        standard_error=None if np.isnan(error) else error,
        degrees=degrees if error > 0 else None,
    )


def _t_p_value(differences: PairedSample, row: int) -> float | None:
    """Returns the two-sided p-value of the paired t test: t = mean / SE (Student, 1908).

    With several strata the degrees of freedom are Satterthwaite's. Assumes independent queries and a mean
    close to normal; the differences themselves need not be normal. (Urbano, Lima and Hanjalic, 2019, SIGIR,
    found that the test keeps its level on retrieval data.) None if the differences have no variance.
    """
    error = float(differences.standard_errors[row])
    if np.isnan(error) or error == 0:
        return None
    t = -abs(differences.means[row]) / error
    return float(2 * scipy.special.stdtr(differences.degrees[row], t))


def _effect_size(values: PerQuery, weights: PerQuery) -> float | None:
    """Returns mean / sd of the paired differences (Cohen's d_z, 1988); None if the variance is 0.

    sd^2 = Q / (Q - 1) sum_i share_i (d_i - mean)^2, with one mean over the queries of all folds.
    """
    if values.min() == values.max():
        return None
    mean = weighted_sum(values, weights)
    size = len(values)
    squares = weighted_sum((values - mean) ** 2, weights)
    variance = size / (size - 1) * squares
    return float(mean / np.sqrt(variance))
