"""Pairs of rows: the difference, the claim about it, and the tests that describe it.

Claims follow from one procedure, simultaneous intervals of all pairs of the family. P-values are description.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ltrbench.compare.cells import PairedQueries, Trainings, clustered
from ltrbench.compare.grouping import Settings
from ltrbench.metrics import bounds_of
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    BETTER,
    FEWEST_REPLICATES,
    LEVEL,
    TESTS,
    WORSE,
    Design,
    Inference,
    Interval,
    PairStatistics,
    claim_of,
    compare_pairs,
    corrected_resampled_t,
    fewest,
    fold_replicates,
    holm,
    independent_replicates,
    resampling_factor,
    shared_replicates,
    simultaneous_intervals,
)
from ltrbench.statistics.claims import METHODS, MODELS, RETRAINED, RETUNED, TUNED_METHODS, UNDECIDED
from ltrbench.statistics.repeated import (
    FoldTest,
    RopeProbabilities,
    bayesian_correlated_t,
    design_of_folds,
    design_of_replicates,
)

# ---- Scope and inference of the claim about a pair of rows.
#
# The scope follows from what varied between the runs: only queries, also seeds, or also training sets
# (folds, or resamples of the training queries). If the replicates of tuned rows have searches with
# different seeds, the variance of tuning is a part of theirs, and the scope says so.
# `ltrbench.statistics.repeated` has the formulas.

_WITH_TUNING = {RETRAINED: RETUNED, METHODS: TUNED_METHODS}


def infer(queries: PairedQueries, a: int, b: int) -> tuple[str, Inference | None]:
    """Returns the scope of a claim about row a minus row b, and its inference.

    The inference is None if training was not repeated: the scope is then the trained models, and
    `statistics.simultaneous_intervals` over queries decide.
    """
    scope, inference = MODELS, None
    if are_folds(queries):
        scope, inference = METHODS, _infer_over_folds(queries, a, b)
    # Models with different training sets allow no claim about training on either of them.
    elif len(queries.cells) == 1 and queries.cells[0].train is not None:
        of_a, of_b = (of_distinct_queries(queries, row) for row in (a, b))
        scope, inference = _on_one_split(of_a, of_b, queries.distinct.weights)
    tuned = [row for row in (a, b) if is_tuned(queries, row)]
    tuned_again = bool(tuned) and all(is_tuned_again(queries, row) for row in tuned)
    return _WITH_TUNING.get(scope, scope) if tuned_again else scope, inference


def is_tuned(queries: PairedQueries, row: int) -> bool:
    """Returns whether searches chose the settings of a row."""
    return all(of_cell.search_seeds for of_cell in queries.trainings[row])


def is_tuned_again(queries: PairedQueries, row: int) -> bool:
    """Returns whether a row has searches with several seeds in each cell."""
    return all(len(of_cell.search_seeds) > 1 for of_cell in queries.trainings[row])


def of_distinct_queries(queries: PairedQueries, row: int) -> Trainings:
    """Returns the trainings of a row in the only cell, on the queries of `queries.distinct`."""
    (trainings,) = queries.trainings[row]
    if queries.distinct is queries.sample:
        return trainings
    sample = replace(queries.sample, values=trainings.values)
    return replace(trainings, values=clustered(sample, queries.query_keys).values)


def are_folds(queries: PairedQueries) -> bool:
    """Returns whether the cells are folds: different numbers and training sets, and no common test query."""
    folds = {cell.fold for cell in queries.cells} - {None}
    training_sets = {cell.train for cell in queries.cells}
    return (
        len(folds) > 1
        and len(folds) == len(queries.cells)
        # The training set is None if models have different ones.
        and None not in training_sets
        and len(training_sets) == len(queries.cells)
        and not queries.repeats_queries
        and queries.test_share is not None
        and len(queries.counting_cells) > 1
    )


def _on_one_split(a: Trainings, b: Trainings, shares: PerQuery) -> tuple[str, Inference | None]:
    if a.resample is not None or b.resample is not None:
        common = sorted(set(a.keys) & set(b.keys))
        if a.resample is None or a.resample != b.resample or len(common) < 2:
            return MODELS, None
        factor = resampling_factor(a.resample["kind"], len(common), a.resample["share"])
        return METHODS, shared_replicates(a.values_of(common), b.values_of(common), shares, factor)
    repeated = [len(row.keys) > 1 for row in (a, b)]
    # Training was repeated in both rows, or in one if seeds change nothing in the other.
    if not (all(repeated) or (any(repeated) and (a.is_constant or b.is_constant))):
        return MODELS, None
    if a.ranker_class == b.ranker_class and a.keys == b.keys:
        # A seed draws the same sample in both models.
        return RETRAINED, shared_replicates(a.values, b.values, shares)
    return RETRAINED, independent_replicates(a.values, b.values, shares)


def _infer_over_folds(queries: PairedQueries, a: int, b: int) -> Inference:
    assert queries.test_share is not None  # checked by `are_folds`
    folds, query_parts = [], []
    # Folds in which no query counts are left out.
    for number, inside in queries.counting_cells.items():
        shares = queries.sample.weights[inside]
        shares = shares / shares.sum()
        of_a, of_b = queries.trainings[a][number], queries.trainings[b][number]
        _, within = _on_one_split(of_a, of_b, shares)
        alone = independent_replicates(of_a.values.mean(axis=0)[None], of_b.values.mean(axis=0)[None], shares)
        folds.append(alone if within is None else within)
        query_parts.append(alone.parts.query)
    return fold_replicates(folds, query_parts, queries.test_share)


# ---- Power: the minimum detectable difference of a pair, and the data that a smaller difference needs.

QUERIES, SEEDS, RESAMPLES, FOLDS = "queries", "seeds", "resamples", "folds"


@dataclass(frozen=True)
class Need:
    """The number of queries, seeds, resamples or folds that detects a difference, all else unchanged.

    Attributes:
        kind: "queries", "seeds", "resamples" (of the training queries) or "folds".
        present: The present number; the larger one if the two models differ.
        number: The minimum that detects the difference; None if no number is enough.
        seconds: Estimated wall time of the additional trainings, one after another; None for queries, which
            need judgments, if no number is enough, and if the time of a training is not known.
    """

    kind: str
    present: int
    number: int | None
    seconds: float | None = None


@dataclass(frozen=True)
class Power:
    """Power of a pair. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power) in the scope of the pair, at the level of the
            pair in its family; None if the error is not known, or if the metric cannot differ so much.
        detect: The difference named by the user.
        needs: One need per kind for `detect`; empty if none is named or the error is not known.
        cheapest: Kind of the need with the shortest time; queries if nothing else is enough. None if the data
            are enough, nothing is enough, or the times are not known.
    """

    detectable: float | None = None
    detect: float | None = None
    needs: tuple[Need, ...] = ()
    cheapest: str | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the present data detect the difference named by the user."""
        return self.detectable is not None and self.detect is not None and self.detectable <= self.detect


def power_of(queries: PairedQueries, pair: Pair, detect: float | None, level: float) -> Power:
    """Returns the power of a pair, from the error that its claim uses.

    Args:
        detect: Difference to compute needs for; None for no needs.
        level: Level of the test of this pair: that of the family, divided by its number of claims.
    """
    rows = [queries.labels.index(label) for label in (pair.a, pair.b)]
    trainings = [of_cell for row in rows for of_cell in queries.trainings[row]]
    design = _design(trainings, pair.statistics, pair.inference, queries.test_share)
    if design is None:
        return Power(None, detect)
    detectable = design.detectable(level=level)
    means = [float(queries.sample.means[row]) for row in rows]
    power = Power(detectable if detectable <= largest_difference(pair.metric, means) else None, detect)
    if detect is None:
        return power
    power = replace(power, needs=_needs(design, trainings, detect, level))
    return power if power.is_enough else replace(power, cheapest=_cheapest(power.needs))


def largest_difference(metric: str, means: Sequence[float]) -> float:
    """Returns how far a mean can be from one of these means; infinity for a metric without known bounds."""
    bounds = bounds_of(metric)
    if bounds is None:
        return math.inf
    low, high = bounds
    return max(max(mean - low, high - mean) for mean in means)


def _design(
    trainings: Sequence[Trainings],
    statistics: PairStatistics,
    inference: Inference | None,
    test_share: float | None,
) -> Design | None:
    """Returns the design of the experiment; None if the error is not known, or 0, which no study has."""
    if inference is None:
        error, num_queries = statistics.standard_error, statistics.num_queries
        return Design(num_queries, error**2 * num_queries) if error else None
    if not inference.standard_error:
        return None
    resample = trainings[0].resample
    is_over_folds = inference.parts.fold is not None
    number = (
        max(len(of_cell.keys) for of_cell in trainings) if is_over_folds else max(inference.num_replicates)
    )
    correction = 0.0
    if resample is not None:
        correction = resampling_factor(resample["kind"], number, resample["share"]) - 1 / number
    if is_over_folds:
        return design_of_folds(inference, test_share or 0.0, number, correction)
    return design_of_replicates(inference, correction)


def _needs(design: Design, trainings: Sequence[Trainings], detect: float, level: float) -> tuple[Need, ...]:
    """Returns the needs; of trainings only if they were repeated, otherwise their variance is not known."""
    number = fewest(lambda queries: replace(design, num_queries=queries), detect, level=level)
    needs = [Need(QUERIES, design.num_queries, number)]
    if design.training + design.by_query > 0:
        kind = SEEDS if trainings[0].resample is None else RESAMPLES
        number = fewest(
            lambda count: replace(design, num_trainings=count), detect, FEWEST_REPLICATES, level=level
        )
        # A model whose seeds change nothing has one training and needs no others.
        missing = [
            max((number or 0) - len(of_cell.keys), 0) if len(of_cell.keys) > 1 else 0 for of_cell in trainings
        ]
        needs.append(Need(kind, design.num_trainings, number, _seconds(number, missing, trainings)))
    if design.num_folds > 1:
        number = fewest(lambda folds: replace(design, num_folds=folds), detect, level=level)
        more = max((number or 0) - design.num_folds, 0) / design.num_folds
        missing_folds = [more * len(of_cell.keys) for of_cell in trainings]
        needs.append(Need(FOLDS, design.num_folds, number, _seconds(number, missing_folds, trainings)))
    return tuple(needs)


def _seconds(number: int | None, missing: Sequence[float], trainings: Sequence[Trainings]) -> float | None:
    """Returns the time of the missing trainings; None if one has no time, or no number is enough."""
    if number is None or not all(of_cell.seconds for of_cell in trainings):
        return None
    return sum(count * of_cell.seconds for count, of_cell in zip(missing, trainings, strict=True))


def _cheapest(needs: Sequence[Need]) -> str | None:
    trained = [need for need in needs if need.kind != QUERIES and need.number is not None]
    if not trained:
        return next((need.kind for need in needs if need.number is not None), None)
    times = {need.kind: need.seconds for need in trained if need.seconds is not None}
    return min(times, key=times.__getitem__) if len(times) == len(trained) else None


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
        power: What the data could detect, at the level of the claim.
        p_adjusted: "holm" -> test -> p-value of `statistics`, adjusted for the family.
        over_folds: Fold tests; None with fewer than two folds.
    """

    a: str
    b: str
    metric: str
    statistics: PairStatistics
    scope: str
    inference: Inference | None
    over_folds: OverFolds | None
    power: Power = field(default_factory=Power)
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
            )
        )
    return decided(pairs, queries, settings)


def decided(family: Sequence[Pair], queries: PairedQueries, settings: Settings) -> tuple[Pair, ...]:
    """Returns the same pairs, with simultaneous intervals, claims, power and adjusted p-values over them.

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
        replace(
            pair,
            interval=interval,
            claim=claim_of(interval, settings.rope),
            power=power_of(queries, pair, settings.detect, level / len(family)),
            p_adjusted=p_values,
        )
        for pair, interval, p_values in zip(family, intervals, _adjusted(family), strict=True)
    )


def _adjusted(family: Sequence[Pair]) -> list[dict[str, dict[str, float | None]]]:
    """Returns adjustment -> test -> p-value for each pair."""
    by_test = {test: holm([pair.statistics.p_values[test] for pair in family]) for test in TESTS}
    return [
        {"holm": {test: of_pairs[number] for test, of_pairs in by_test.items()}}
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
