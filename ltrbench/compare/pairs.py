"""Pairs of rows: the difference, its tests, and the p-values adjusted for all that were tested together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltrbench.compare.cells import PairedQueries
from ltrbench.compare.settings import Settings
from ltrbench.statistics import (
    TESTS,
    FoldTest,
    PairStatistics,
    RopeProbabilities,
    bayesian_correlated_t,
    benjamini_hochberg,
    compare_pairs,
    corrected_resampled_t,
    holm,
    minimum_detectable_difference,
    queries_needed,
)

ADJUSTMENTS = {"holm": holm, "benjamini_hochberg": benjamini_hochberg}


@dataclass(frozen=True)
class OverFolds:
    """The fold test of one pair: inference for the method, where the queries' is for the trained models."""

    frequentist: FoldTest
    bayesian: RopeProbabilities

    def turned(self) -> OverFolds:
        return OverFolds(self.frequentist.turned(), self.bayesian.turned())


@dataclass(frozen=True)
class Power:
    """What differences the queries at hand can show, by the spread of the differences, not by their mean.

    Attributes:
        detectable: the least true difference that is found with a probability of 80 %.
        detect: the difference that the user named.
        queries_needed: for that one; None where none was named.
    """

    detectable: float | None
    detect: float | None
    queries_needed: int | None


@dataclass(frozen=True)
class Pair:
    """Row `a` minus row `b`, query by query.

    Attributes:
        p_adjusted: "holm", "benjamini_hochberg" -> test -> the p-value for the family of the pair.
        over_folds: None with fewer than two folds.
    """

    a: str
    b: str
    statistics: PairStatistics
    p_adjusted: Mapping[str, Mapping[str, float | None]]
    over_folds: OverFolds | None
    power: Power

    def turned(self) -> Pair:
        """Row `b` minus row `a`."""
        folds = None if self.over_folds is None else self.over_folds.turned()
        return replace(self, a=self.b, b=self.a, statistics=self.statistics.turned(), over_folds=folds)


def all_pairs(queries: PairedQueries, asked: Settings) -> tuple[Pair, ...]:
    """Each earlier row minus each later one, adjusted over all."""
    places = list(itertools.combinations(range(len(queries.labels)), 2))
    found = compare_pairs(queries.sample, places, asked.num_draws, asked.seed)
    pairs = [
        Pair(
            a=queries.labels[a],
            b=queries.labels[b],
            statistics=statistics,
            p_adjusted={},
            over_folds=_over_folds(queries, a, b, asked.rope),
            power=_power(statistics, asked.detect),
        )
        for (a, b), statistics in zip(places, found, strict=True)
    ]
    return adjusted(pairs)


def adjusted(family: Sequence[Pair]) -> tuple[Pair, ...]:
    """The same pairs, with their p-values adjusted over just these."""
    values = {
        name: {test: adjust([pair.statistics.p_values[test] for pair in family]) for test in TESTS}
        for name, adjust in ADJUSTMENTS.items()
    }
    return tuple(
        replace(
            pair,
            p_adjusted={
                name: {test: of_test[number] for test, of_test in by_test.items()}
                for name, by_test in values.items()
            },
        )
        for number, pair in enumerate(family)
    )


def against(pairs: Sequence[Pair], base: str) -> tuple[Pair, ...]:
    """Each other row minus `base`."""
    return tuple(pair if pair.b == base else pair.turned() for pair in pairs if base in (pair.a, pair.b))


def _over_folds(queries: PairedQueries, a: int, b: int, rope: float) -> OverFolds | None:
    """The mean difference of each fold as one repetition of training; None with fewer than two folds."""
    folds = {cell.fold for cell in queries.cells}
    # Two test sets of one fold are no two folds, nor is there one where models had different training sets.
    repetitions = len(folds) == len(queries.cells) and not any(cell.train is None for cell in queries.cells)
    if len(folds) < 2 or None in folds or queries.test_share is None or not repetitions:
        return None
    sample = queries.sample
    differences = [
        float(np.average(sample.values[a, own] - sample.values[b, own], weights=sample.weights[own]))
        for own in (queries.cell_of_query == number for number in range(len(queries.cells)))
        if own.any()
    ]
    if len(differences) < 2:
        return None
    return OverFolds(
        frequentist=corrected_resampled_t(differences, queries.test_share),
        bayesian=bayesian_correlated_t(differences, queries.test_share, rope),
    )


def _power(statistics: PairStatistics, detect: float | None) -> Power:
    spread = statistics.sd_of_differences
    if spread is None:
        return Power(None, detect, None)
    return Power(
        detectable=minimum_detectable_difference(spread, statistics.num_queries),
        detect=detect,
        queries_needed=None if detect is None else queries_needed(spread, detect),
    )
