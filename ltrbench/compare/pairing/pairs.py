"""Pairs of rows: the difference, the claim about it, and the tests that describe it.

Claims follow from one procedure, simultaneous intervals of all pairs of the family. P-values are description.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ltrbench.compare.pairing.cells import PairedQueries
from ltrbench.compare.pairing.inference import are_folds, infer
from ltrbench.compare.pairing.power import Power, power_of
from ltrbench.compare.settings import Settings
from ltrbench.statistics import (
    BETTER,
    LEVEL,
    MODELS,
    TESTS,
    UNDECIDED,
    WORSE,
    FoldTest,
    Inference,
    Interval,
    PairStatistics,
    RopeProbabilities,
    bayesian_correlated_t,
    benjamini_hochberg,
    claim_of,
    compare_pairs,
    corrected_resampled_t,
    holm,
    simultaneous_intervals,
)

ADJUSTMENTS = {"holm": holm, "benjamini_hochberg": benjamini_hochberg}


@dataclass(frozen=True)
class OverFolds:
    """The fold tests of one pair, which are about the methods.

    Attributes:
        frequentist: Corrected resampled t test.
        bayesian: Probabilities by the Bayesian correlated t test.
    """

    frequentist: FoldTest
    bayesian: RopeProbabilities

    def turned(self) -> OverFolds:
        return OverFolds(self.frequentist.turned(), self.bayesian.turned())


@dataclass(frozen=True)
class Pair:
    """Row `a` minus row `b`.

    Attributes:
        metric: Metric of the difference.
        statistics: Statistics of these trained models, query by query; unadjusted.
        scope: Scope of the claim, one of `statistics.SCOPES`.
        inference: Inference of the claim if training was repeated; otherwise None.
        interval: Simultaneous interval of the difference over the family; None if not available.
        claim: "better", "worse", "equivalent" or "undecided".
        p_adjusted: "holm", "benjamini_hochberg" -> test -> p-value of `statistics`, adjusted for the family.
        over_folds: Fold tests; None with fewer than two folds.
    """

    a: str
    b: str
    metric: str
    statistics: PairStatistics
    scope: str
    inference: Inference | None
    over_folds: OverFolds | None
    power: Power
    interval: Interval | None = None
    claim: str = UNDECIDED
    p_adjusted: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """The difference of the interval; over the common resamples if the rows have different ones."""
        return self.statistics.difference if self.inference is None else self.inference.difference

    @property
    def reason(self) -> str:
        """Why there is no interval; empty if there is one."""
        if self.interval is not None:
            return ""
        return self.statistics.note if self.inference is None else self.inference.note

    def turned(self) -> Pair:
        """Returns row `b` minus row `a`."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            statistics=self.statistics.turned(),
            inference=None if self.inference is None else self.inference.turned(),
            over_folds=None if self.over_folds is None else self.over_folds.turned(),
            interval=None if self.interval is None else self.interval.turned(),
            claim={BETTER: WORSE, WORSE: BETTER}.get(self.claim, self.claim),
        )


def all_pairs(queries: PairedQueries, metric: str, settings: Settings) -> tuple[Pair, ...]:
    """Returns each earlier row minus each later row, with claims over all pairs."""
    places = list(itertools.combinations(range(len(queries.labels)), 2))
    tested = compare_pairs(queries.distinct, places, settings.num_draws, settings.seed)
    pairs = []
    for (a, b), statistics in zip(places, tested, strict=True):
        scope, inference = infer(queries, a, b)
        pairs.append(
            Pair(
                a=queries.labels[a],
                b=queries.labels[b],
                metric=metric,
                statistics=statistics,
                scope=scope,
                inference=inference,
                over_folds=_test_over_folds(queries, a, b, settings.rope),
                power=power_of(queries, (a, b), statistics, inference, settings.detect),
            )
        )
    return decided(pairs, queries, settings)


def decided(family: Sequence[Pair], queries: PairedQueries, settings: Settings) -> tuple[Pair, ...]:
    """Returns the same pairs, with simultaneous intervals, claims and adjusted p-values over these pairs.

    The error level is divided by the number of metrics that carry claims, and then among the pairs: by max-T
    among pairs of trained models, by Bonferroni otherwise.
    """
    level = LEVEL / len(settings.claimed_metrics)
    of_models = [pair for pair in family if pair.scope == MODELS]
    places = [(queries.labels.index(pair.a), queries.labels.index(pair.b)) for pair in of_models]
    by_queries = simultaneous_intervals(
        queries.distinct,
        places,
        settings.num_draws,
        settings.seed,
        level * (len(of_models) / max(len(family), 1)),
    )
    known = {(pair.a, pair.b): interval for pair, interval in zip(of_models, by_queries, strict=True)}
    intervals = [
        known[pair.a, pair.b] if pair.inference is None else pair.inference.interval(level / len(family))
        for pair in family
    ]
    return tuple(
        replace(pair, interval=interval, claim=claim_of(interval, settings.rope), p_adjusted=p_values)
        for pair, interval, p_values in zip(family, intervals, _adjusted(family), strict=True)
    )


def _adjusted(family: Sequence[Pair]) -> list[dict[str, dict[str, float | None]]]:
    """Returns adjustment -> test -> p-value for each pair."""
    values = {
        name: {test: adjust([pair.statistics.p_values[test] for pair in family]) for test in TESTS}
        for name, adjust in ADJUSTMENTS.items()
    }
    return [
        {
            name: {test: of_test[number] for test, of_test in by_test.items()}
            for name, by_test in values.items()
        }
        for number in range(len(family))
    ]


def against(pairs: Sequence[Pair], base: str) -> tuple[Pair, ...]:
    """Returns each other row minus `base`, given pairs in any direction."""
    return tuple(pair if pair.b == base else pair.turned() for pair in pairs if base in (pair.a, pair.b))


def _test_over_folds(queries: PairedQueries, a: int, b: int, rope: float) -> OverFolds | None:
    """Returns the fold tests, with the mean difference of each fold as one value; None without folds."""
    if not are_folds(queries) or queries.test_share is None:
        return None
    values, weights = queries.sample.values, queries.sample.weights
    differences = [
        float(np.average(values[a, inside] - values[b, inside], weights=weights[inside]))
        for inside in queries.counting_cells.values()
    ]
    return OverFolds(
        frequentist=corrected_resampled_t(differences, queries.test_share),
        bayesian=bayesian_correlated_t(differences, queries.test_share, rope),
    )
