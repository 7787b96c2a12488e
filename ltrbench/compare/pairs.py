"""Pairs of rows: the scope and the inference of the claim about their difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ltrbench.compare.cells import PairedQueries, Trainings, is_tuned, is_tuned_again
from ltrbench.compare.power import Power
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    BETTER,
    WORSE,
    Inference,
    Interval,
    PairStatistics,
    fold_replicates,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.claims import (
    METHODS,
    MODELS,
    RETRAINED,
    RETUNED,
    TUNED_METHODS,
    UNDECIDED,
    with_imported,
)
from ltrbench.statistics.repeated import FoldTest, RopeProbabilities

# ---- Scope and inference of the claim about a pair of rows.
#
# The scope follows from what varied between the runs: only queries, also seeds, or also training sets
# (folds, or resamples of the training queries). If the replicates of tuned rows have searches with
# different seeds, the variance of tuning is a part of theirs, and the scope says so. An imported model was
# not trained again: the scope of its pairs says so, and that of two imported models is these models.
# `ltrbench.statistics.repeated` has the formulas.

_WITH_TUNING = {RETRAINED: RETUNED, METHODS: TUNED_METHODS}


def infer(queries: PairedQueries, a: int, b: int) -> tuple[str, Inference | None]:
    """Returns the scope of a claim about row a minus row b, and its inference.

    The inference is None if training was not repeated: the scope is then the trained models, and
    `statistics.simultaneous_intervals` over queries decide.
    """
    scope, inference = MODELS, None
    if queries.are_folds:
        scope, inference = queries.scope_of_folds, _infer_over_folds(queries, a, b)
    # Models with different training sets allow no claim about training on either of them.
    elif len(queries.cells) == 1 and queries.cells[0].train is not None:
        of_a, of_b = (queries.distinct_trainings(row) for row in (a, b))
        scope, inference = _on_one_split(of_a, of_b, queries.distinct.weights)
    tuned = [row for row in (a, b) if is_tuned(queries, row)]
    tuned_again = bool(tuned) and all(is_tuned_again(queries, row) for row in tuned)
    scope = _WITH_TUNING.get(scope, scope) if tuned_again else scope
    imported = [queries.trainings[row][0].is_imported for row in (a, b)]
    if all(imported):
        return MODELS, inference
    return with_imported(scope) if any(
        imported
    ) and scope != MODELS else scope, inference


def _on_one_split(
    a: Trainings, b: Trainings, shares: PerQuery
) -> tuple[str, Inference | None]:
    if a.resample is not None or b.resample is not None:
        common = sorted(set(a.keys) & set(b.keys))
        if a.resample is None or a.resample != b.resample or len(common) < 2:
            return MODELS, None
        factor = resampling_factor(a.resample["kind"], len(common), a.resample["share"])
        return METHODS, shared_replicates(
            a.values_of(common), b.values_of(common), shares, factor
        )
    repeated = [len(row.keys) > 1 for row in (a, b)]
    # Training was repeated in both rows, or in one if seeds change nothing in the other.
    if not (all(repeated) or (any(repeated) and (a.is_constant or b.is_constant))):
        return MODELS, None
    if a.ranker_class == b.ranker_class and a.keys == b.keys:
        # A seed draws the same sample in both models.
        return RETRAINED, shared_replicates(a.values, b.values, shares)
    return RETRAINED, independent_replicates(a.values, b.values, shares)


def _infer_over_folds(queries: PairedQueries, a: int, b: int) -> Inference:
    assert queries.test_share is not None  # checked by `queries.are_folds`
    folds, query_parts = [], []
    # Folds in which no query counts are left out.
    for number, inside in queries.counting_cells.items():
        shares = queries.sample.weights[inside]
        shares = shares / shares.sum()
        of_a, of_b = queries.trainings[a][number], queries.trainings[b][number]
        _, within = _on_one_split(of_a, of_b, shares)
        alone = independent_replicates(
            of_a.values.mean(axis=0)[None], of_b.values.mean(axis=0)[None], shares
        )
        folds.append(alone if within is None else within)
        query_parts.append(alone.parts.query)
    num_folds = len({queries.cells[number].fold for number in queries.counting_cells})
    return fold_replicates(
        folds, query_parts, queries.test_share, queries.times_counted, num_folds
    )


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
        withheld: Why there is no claim although the data are enough; empty if nothing withholds it.
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
    withheld: str = ""
    p_adjusted: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """The difference of the interval; over the common resamples if the rows have different ones."""
        return (
            self.statistics.difference
            if self.inference is None
            else self.inference.difference
        )

    @property
    def reason(self) -> str:
        """Why there is no interval; empty if there is one."""
        if self.interval is not None:
            return ""
        return self.withheld or (
            self.statistics.note if self.inference is None else self.inference.note
        )

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


def against(pairs: Sequence[Pair], base: str) -> tuple[Pair, ...]:
    """Returns each other row minus `base`, given pairs in any direction."""
    return tuple(
        pair if pair.b == base else pair.turned()
        for pair in pairs
        if base in (pair.a, pair.b)
    )
