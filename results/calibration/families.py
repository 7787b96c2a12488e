"""Families of methods over folds: a variance that the methods share, beside the variance of each pair.

Shape (M, K): means of M methods over K folds, which are J folds of a cross-validation or of several, with
other splits of the same queries. All methods have the same true mean, except where a difference is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.statistics import LEVEL, Interval
from ltrbench.statistics.paired import excludes
from results.calibration.earlier import (
    SharedVariance,
    interval_over_folds,
    shared_variances,
)
from results.calibration.rates import RateRow, Tables, rates
from results.calibration.two_way import Simulation

FAMILIES_OVER_FOLDS = (
    "Families of methods over folds: false claims at 5 %, and differences found"
)
SHARED, OWN = "shared variance", "variance of each pair"
LARGER = "max of pair and mean"
TO_BASELINE = "to a baseline, "
FOUND = "found, "
WIDTH = "width, of 100 % before"
NUM_QUERIES = 200

Means = NDArray[np.float64]  # (M, K)
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the parts of a mean that a method does not share with the others.

    Attributes:
        first: standard deviation of the first method, if that of the others is 1, over folds whose
            correlation is 1/J, as the corrected resampled t test assumes.
        training: standard deviation over training sets, if that over queries is 1; the correlation of folds
            then follows from their queries. None for normal values with `first`.
    """

    name: str
    first: float = 1.0
    training: float | None = None

    def means(
        self, num_methods: int, num_folds: int, repeats: int, rng: Generator
    ) -> Means:
        if self.training is not None:
            return self._of_queries(num_methods, num_folds, repeats, rng)
        common = np.sqrt(1 / num_folds) * rng.normal(size=(num_methods, 1))
        single = np.sqrt(1 - 1 / num_folds) * rng.normal(
            size=(num_methods, num_folds * repeats)
        )
        values: Means = common + single
        values[0] *= self.first
        return values

    def _of_queries(
        self, num_methods: int, num_folds: int, repeats: int, rng: Generator
    ) -> Means:
        tested, trained = rng.normal(size=(2, num_methods, NUM_QUERIES)) * [
            [[1.0]],
            [[self.training]],
        ]
        folds = [
            tested[:, fold].mean(axis=1) + np.delete(trained, fold, axis=1).mean(axis=1)
            for _ in range(repeats)
            for fold in rng.permutation(NUM_QUERIES).reshape(num_folds, -1)
        ]
        values: Means = np.stack(folds, axis=1)
        return values

    def standard_error(self, num_folds: int, repeats: int) -> float:
        """Returns the true standard error of the difference of the first two methods."""
        if self.training is not None:
            return float(np.sqrt(2 * (1 + self.training**2) / NUM_QUERIES))
        of_mean = 1 / num_folds + (1 - 1 / num_folds) / (num_folds * repeats)
        return float(np.sqrt((self.first**2 + 1) * of_mean))


SPREADS = (
    Spread("equal deviations"),
    Spread("one method 1.5 times", first=1.5),
    Spread("one method twice", first=2.0),
    Spread("one method 3 times", first=3.0),
    Spread("one method a third", first=1 / 3),
    Spread("queries only", training=0.0),
    Spread("queries, and training sets half as much", training=0.5),
)


def family_tables(simulation: Simulation) -> Tables:
    rows: list[RateRow] = []
    for number, spread in enumerate(SPREADS):
        for num_methods, (num_folds, repeats) in itertools.product(
            (3, 8), ((5, 1), (10, 1), (5, 5))
        ):
            rng = simulation.rng(9, number, num_methods, num_folds, repeats)
            draws = (
                spread.means(num_methods, num_folds, repeats, rng)
                for _ in range(simulation.num_draws)
            )
            difference = 5 * spread.standard_error(num_folds, repeats)
            what: RateRow = {
                "values": spread.name,
                "methods": num_methods,
                "folds": folds_name(num_folds, repeats),
            }
            rows.append(what | family_rates(draws, 1 / (num_folds - 1), difference))
    return {FAMILIES_OVER_FOLDS: rows}


def folds_name(num_folds: int, repeats: int) -> str:
    return str(num_folds) if repeats == 1 else f"{num_folds} x {repeats}"


def family_rates(
    draws: Iterable[Means], test_share: float, difference: float
) -> RateRow:
    """Returns rates of false claims over all pairs and over the pairs with the first method, and the power.

    The last value is the mean width of the intervals, relative to that with the variance of each pair.

    Args:
        draws: means of methods without a difference.
        test_share: n_test / n_train.
        difference: true difference of the first two methods that is added for the power.
    """
    widths: dict[str, float] = dict.fromkeys((SHARED, OWN), 0.0)

    def judged() -> Iterator[Mapping[str, bool]]:
        for means in draws:
            everyone = _intervals(
                means, test_share, [*itertools.combinations(range(len(means)), 2)]
            )
            to_first = _intervals(
                means, test_share, [(0, other) for other in range(1, len(means))]
            )
            for name in widths:
                widths[name] += sum(
                    interval.high - interval.low
                    for interval in everyone[name]
                    if interval
                )
            yield {
                **{
                    name: any(map(excludes, intervals))
                    for name, intervals in everyone.items()
                },
                **{
                    TO_BASELINE + name: any(map(excludes, to_first[name]))
                    for name in everyone
                },
                **{
                    FOUND + name: excludes(everyone[name][0], -difference)
                    for name in widths
                },
            }

    return {**rates(judged()), WIDTH: widths[SHARED] / widths[OWN]}


def _intervals(
    means: Means, test_share: float, pairs: list[tuple[int, int]]
) -> dict[str, list[Interval | None]]:
    """Returns name of the procedure -> intervals of the pairs."""
    level = LEVEL / len(pairs)
    variances = shared_variances(means)
    mean = (means - means.mean(axis=0)).var(axis=1, ddof=1).sum() * 2 / (len(means) - 1)
    intervals: dict[str, list[Interval | None]] = {SHARED: [], OWN: [], LARGER: []}
    for a, b in pairs:
        differences = means[a] - means[b]
        of_procedure = {
            SHARED: variances[a] + variances[b],
            LARGER: max(mean, differences.var(ddof=1)),
        }
        intervals[OWN].append(interval_over_folds(differences, test_share, level))
        for name, variance in of_procedure.items():
            shared = SharedVariance(float(variance), len(means), len(pairs))
            intervals[name].append(
                interval_over_folds(differences, test_share, level, shared)
            )
    return intervals
