"""Bounds of a published mean under another convention, from counts of queries instead of values per query.

The mean of a metric between 0 and 1 is a linear function of the means s_f of the test sets (folds) f over
their queries with a relevant document:

    mean = c + sum_f a_f s_f,  0 <= s_f <= 1.

The weights a and the constant c follow from the value of the other ("empty") queries and from the
aggregation. If one mean has the weights a and another one b, the first determines the second exactly if all
ratios b_f / a_f are equal, as with a single test set, and within bounds otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import truediv
from typing import NamedTuple

from ltrbench.metrics.conventions import NoRelevant


class Bounds(NamedTuple):
    """Closed interval that contains a mean."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


class Counts(NamedTuple):
    """Number of queries, and of those without a relevant document."""

    queries: int
    empty: int


class Averaging(NamedTuple):
    """Value of empty queries, and whether the mean is that of the means of the folds, or that over all
    queries."""

    empty: NoRelevant
    over_folds: bool

    def counted(self, tests: Sequence[Counts]) -> list[int]:
        """Returns the number of queries of each test set that count."""
        if self.empty is NoRelevant.SKIP:
            return [test.queries - test.empty for test in tests]
        return [test.queries for test in tests]

    def weights(self, tests: Sequence[Counts]) -> tuple[list[float], float]:
        """Returns the weight a of each test set, and the constant c."""
        counted = self.counted(tests)
        num_counted = sum(counted)
        weights = []
        constant = 0.0
        for test, number in zip(tests, counted, strict=True):
            divisor = number * len(tests) if self.over_folds else num_counted
            weights.append((test.queries - test.empty) / divisor)
            if self.empty is NoRelevant.ONE:
                constant += test.empty / divisor
        return weights, constant


def rounded(printed: str, scale: float = 1.0) -> Bounds:
    """Returns the bounds of the number that was rounded to a printed one.

    >>> rounded("0.5").high, rounded("50", scale=0.01).low
    (0.55, 0.495)
    """
    _, _, decimals = printed.partition(".")
    half = 0.5 * 10.0 ** -len(decimals)
    value = float(printed)
    return Bounds(scale * (value - half), scale * (value + half))


def restored(
    mean: Bounds,
    tests: Sequence[Counts],
    source: Averaging,
    removed: int,
    zeroed: list[int],
) -> Bounds:
    """Returns the bounds of a mean over all queries: (1 - q) v + q [0, 1] if a share q of the queries was
    removed, and v + r [0, 1] if a share r of the values was set to 0.

    Args:
        removed: number of removed queries of all test sets together.
        zeroed: number of queries of each test set whose value was set to 0; empty: none.
    """
    counted = source.counted(tests)
    # The share of a fold in a mean of folds is largest in the smallest fold.
    smallest = min(counted)
    q = min(1.0, removed / (len(tests) * smallest))
    r = 0.0
    if zeroed:
        shares = map(truediv, zeroed, counted)
        r = min(1.0, max(shares))
    # In a mean of folds, the removed queries may weigh more than the others.
    v = Bounds(1.0, 0.0) if source.over_folds else mean
    low = mean.low - q * v.low
    high = mean.high + q * (1 - v.high) + r
    return Bounds(low, high)


def converted(
    mean: Bounds, tests: Sequence[Counts], source: Averaging, target: Averaging
) -> Bounds:
    """Returns the bounds of a mean under another averaging. No test set has empty queries only."""
    weights, constant = source.weights(tests)
    new_weights, new_constant = target.weights(tests)
    total = sum(weights)
    ratios = map(truediv, new_weights, weights)
    ascending = sorted(zip(ratios, weights, strict=True))

    def extreme(value: float, tests_in_order: Iterable[tuple[float, float]]) -> float:
        # A linear function is extreme if s_f = 1 for the first test sets, until the mean is reached.
        left = min(max(value - constant, 0.0), total)
        new = new_constant
        for ratio, weight in tests_in_order:
            used = min(weight, left)
            new += ratio * used
            left -= used
        return new

    low = extreme(mean.low, ascending)
    high = extreme(mean.high, reversed(ascending))
    return Bounds(low, high)
