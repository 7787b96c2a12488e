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
from typing import NamedTuple

from ltrbench.metrics.conventions import NoRelevant


class Bounds(NamedTuple):
    """Closed interval that contains a mean."""

    low: float
    high: float


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
        return [
            test.queries - test.empty * (self.empty is NoRelevant.SKIP)
            for test in tests
        ]

    def weights(self, tests: Sequence[Counts]) -> tuple[list[float], float]:
        """Returns the weight a of each test set, and the constant c."""
        counted = self.counted(tests)
        sizes = [
            number * len(tests) if self.over_folds else sum(counted)
            for number in counted
        ]
        pairs = [*zip(tests, sizes, strict=True)]
        ones = (
            sum(test.empty / size for test, size in pairs)
            if self.empty is NoRelevant.ONE
            else 0.0
        )
        return [(test.queries - test.empty) / size for test, size in pairs], ones


def rounded(printed: str, scale: float = 1.0) -> Bounds:
    """Returns the bounds of the number that was rounded to a printed one.

    >>> rounded("0.5").high, rounded("50", scale=0.01).low
    (0.55, 0.495)
    """
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return Bounds(scale * (float(printed) - half), scale * (float(printed) + half))


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
    q = min(1.0, removed / (len(tests) * min(counted)))
    r = max(
        (
            min(1.0, number / size)
            for number, size in zip(zeroed, counted, strict=False)
        ),
        default=0.0,
    )
    # In a mean of folds, the removed queries may weigh more than the others.
    v = Bounds(1.0, 0.0) if source.over_folds else mean
    return Bounds(mean.low - q * v.low, mean.high + q * (1 - v.high) + r)


def converted(
    mean: Bounds, tests: Sequence[Counts], source: Averaging, target: Averaging
) -> Bounds:
    """Returns the bounds of a mean under another averaging. No test set has empty queries only."""
    old, old_ones = source.weights(tests)
    new, new_ones = target.weights(tests)
    by_ratio = sorted((b / a, a) for a, b in zip(old, new, strict=True))

    def filled(total: float, steps: Iterable[tuple[float, float]]) -> float:
        # A linear function is extreme if s_f = 1 for the first test sets, until the mean is reached.
        value = new_ones
        left = min(max(total - old_ones, 0.0), sum(old))
        for ratio, weight in steps:
            value += ratio * min(weight, left)
            left -= min(weight, left)
        return value

    return Bounds(filled(mean.low, by_ratio), filled(mean.high, reversed(by_ratio)))
