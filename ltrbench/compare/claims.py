"""Claims about pairs of rows: about these trained models, and about the methods when they are trained again.

A pair has two claims. Each is a difference with a simultaneous interval over the pairs of the family.

    models     the values of the trained models, averaged over trainings for each query, each query once; the
               queries vary. Folds and repeats are pooled. Every row has this claim, also a yardstick and
               imported scores.
    methods    the methods, trained again. What varied between the trainings decides how:

               folds        the interval about the models, inflated (`FoldVariation`)
               resamples    the variation over resampled training sets (`shared_replicates`)
               seeds        the variation over seeds, on the same training queries
               nothing      no claim; the reason says so

`ltrbench.statistics` has the formulas.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ltrbench.compare.power import (
    Power,
    design_of_methods,
    design_of_models,
    power_of,
)
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import (
    PairedQueries,
    Trainings,
    is_tuned,
    is_tuned_again,
)
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    BETTER,
    FEWEST_REPLICATES,
    TESTS,
    WORSE,
    Design,
    FoldVariation,
    Inference,
    Interval,
    PairStatistics,
    claim_of,
    compare_pairs,
    fold_variations,
    independent_replicates,
    resampling_factor,
    shared_replicates,
    simultaneous_intervals,
)
from ltrbench.statistics.claims import (
    UNDECIDED,
    Scope,
    Varied,
    holm,
)

NOT_REPEATED = "training was not repeated"
NOT_ALIKE = "training was not repeated in the same way"
NOT_TRAINED = "imported scores are not trained again"


@dataclass(frozen=True)
class Claim:
    """What the data say about the difference of a pair.

    Attributes:
        scope: What the claim is about.
        difference: Row `a` minus row `b`; None without queries.
        interval: Simultaneous interval of the difference over the family; None if not available.
        state: "better", "worse", "equivalent" or "undecided".
        reason: Why there is no interval; empty if there is one.
        power: What the data could detect, at the level of the claim.
    """

    scope: Scope
    difference: float | None
    interval: Interval | None = None
    state: str = UNDECIDED
    reason: str = ""
    power: Power = field(default_factory=Power)

    @property
    def is_decided(self) -> bool:
        return self.state != UNDECIDED

    def turned(self) -> Claim:
        """Returns the claim about row `b` minus row `a`."""
        difference = self.difference
        interval = self.interval
        opposite = {BETTER: WORSE, WORSE: BETTER}
        return replace(
            self,
            difference=None if difference is None else 0.0 - difference,
            interval=None if interval is None else interval.turned(),
            state=opposite.get(self.state, self.state),
        )


Adjusted = Mapping[str, float | None]
"""Test -> adjusted p-value."""


@dataclass(frozen=True)
class Pair:
    """Row `a` minus row `b`.

    Attributes:
        metric: Metric of the difference.
        statistics: Statistics of these trained models, query by query; unadjusted.
        models: Claim about these trained models.
        methods: Claim about the methods, trained again.
        inference: Analysis of trainings and queries, if training was repeated on one test set; else None.
        variation: Variation over folds; None without folds.
        withheld: Why there is no claim although the data are enough; empty if nothing withholds it.
        is_order_only: Whether only the sign of the difference is claimed, and its size is not shown.
        p_adjusted: "holm" -> test -> p-value of `statistics`, adjusted for the family.
    """

    a: str
    b: str
    metric: str
    statistics: PairStatistics
    models: Claim
    methods: Claim
    inference: Inference | None = None
    variation: FoldVariation | None = None
    withheld: str = ""
    is_order_only: bool = False
    p_adjusted: Mapping[str, Adjusted] = field(default_factory=dict)

    @property
    def claims(self) -> tuple[Claim, Claim]:
        return self.models, self.methods

    @property
    def shown_difference(self) -> float | None:
        """Difference of these models; None if only its sign is claimed."""
        return None if self.is_order_only else self.models.difference

    def shown_interval(self, claim: Claim) -> Interval | None:
        """Returns the interval of a claim of the pair; None without one, or if only the sign is claimed."""
        return None if self.is_order_only else claim.interval

    def turned(self) -> Pair:
        """Returns row `b` minus row `a`."""
        inference = self.inference
        return replace(
            self,
            a=self.b,
            b=self.a,
            statistics=self.statistics.turned(),
            models=self.models.turned(),
            methods=self.methods.turned(),
            inference=None if inference is None else inference.turned(),
        )


def against(pairs: Sequence[Pair], base: str) -> tuple[Pair, ...]:
    """Returns each other row minus `base`, given pairs in any direction."""
    others = [pair for pair in pairs if base in (pair.a, pair.b)]
    return tuple(pair if pair.b == base else pair.turned() for pair in others)


# ---- Pairs and their claims.


def all_pairs(
    queries: PairedQueries, metric: str, settings: Settings
) -> tuple[Pair, ...]:
    """Returns each earlier row minus each later row, with claims over all pairs."""
    numbers = list(itertools.combinations(range(len(queries.labels)), 2))
    statistics = compare_pairs(
        queries.distinct, numbers, settings.num_draws, settings.seed
    )
    variations = _variations(queries, numbers)
    pairs = []
    for (a, b), of_pair, variation in zip(numbers, statistics, variations, strict=True):
        inference = None
        if not variation:
            inference = _inference(queries, a, b)
        scope, reason = _scope_of_methods(queries, a, b, variation, inference)
        models = Claim(Scope(Varied.MODELS), of_pair.difference)
        of_methods = of_pair if inference is None else inference
        methods = Claim(scope, of_methods.difference, reason=reason)
        pair = Pair(
            a=queries.labels[a],
            b=queries.labels[b],
            metric=metric,
            statistics=of_pair,
            models=models,
            methods=methods,
            inference=inference,
            variation=variation,
        )
        pairs.append(pair)
    return decided(pairs, queries, settings)


def decided(
    family: Sequence[Pair], queries: PairedQueries, settings: Settings
) -> tuple[Pair, ...]:
    """Returns the same pairs, with simultaneous intervals, claims, power and adjusted p-values over them.

    Each of the two kinds of claims is a family of its own, at the level of the metric. Among the pairs, the
    level is divided by max-T over queries, for methods over folds as well, and by Bonferroni otherwise.
    """
    if not family:
        return ()
    level = settings.level_of(family[0].metric)
    each = level / len(family)
    place_of = {label: place for place, label in enumerate(queries.labels)}
    numbers = [(place_of[pair.a], place_of[pair.b]) for pair in family]
    over_queries = simultaneous_intervals(
        queries.distinct, numbers, settings.num_draws, settings.seed, level
    )
    adjusted = {}
    for test in TESTS:
        adjusted[test] = holm([pair.statistics.p_values[test] for pair in family])

    def with_power(claim: Claim, design: Design | None, place: int) -> Claim:
        metric = family[place].metric
        power = power_of(queries, metric, numbers[place], design, settings, each)
        return replace(claim, power=power)

    claimed = []
    for place, (pair, interval) in enumerate(zip(family, over_queries, strict=True)):
        models = _decided_models(pair, interval, settings)
        of_models = design_of_models(pair.statistics, interval)
        models = with_power(models, of_models, place)
        methods = _decided_methods(pair, interval, settings, each)
        of_methods = design_of_methods(
            queries,
            numbers[place][0],
            statistics=pair.statistics,
            inference=pair.inference,
            variation=pair.variation,
            over_queries=interval,
        )
        methods = with_power(methods, of_methods, place)
        of_tests = {test: values[place] for test, values in adjusted.items()}
        claimed.append(
            replace(pair, models=models, methods=methods, p_adjusted={"holm": of_tests})
        )
    return tuple(claimed)


def _decided_models(pair: Pair, interval: Interval | None, settings: Settings) -> Claim:
    reason = pair.withheld or pair.statistics.note
    if interval is None or pair.withheld:
        return replace(pair.models, interval=None, state=UNDECIDED, reason=reason)
    state = claim_of(interval, settings.rope_of(pair.metric))
    return replace(pair.models, interval=interval, state=state, reason="")


def _decided_methods(
    pair: Pair, over_queries: Interval | None, settings: Settings, level: float
) -> Claim:
    """Returns the claim about the methods of a pair.

    Args:
        over_queries: Interval of the trained models.
        level: Error level of this pair alone.
    """
    claim = pair.methods
    interval = None
    reason = claim.reason
    if pair.withheld:
        reason = pair.withheld
    elif pair.variation is not None and not reason:
        interval = pair.variation.interval(over_queries, level)
        reason = ""
        if interval is None:
            reason = pair.statistics.note
    elif pair.inference is not None and not reason:
        interval = pair.inference.interval(level)
        reason = ""
        if interval is None:
            reason = pair.inference.note
    state = claim_of(interval, settings.rope_of(pair.metric))
    return replace(claim, interval=interval, state=state, reason=reason)


# ---- What varied between the trainings of two rows.


def _variations(
    queries: PairedQueries, numbers: Sequence[tuple[int, int]]
) -> list[FoldVariation | None]:
    """Returns the variation over folds of each pair of rows; None without folds."""
    if not queries.are_folds or queries.test_share is None or not numbers:
        return [None] * len(numbers)
    return [
        *fold_variations(
            queries.by_cell.differences(numbers),
            num_folds=queries.num_folds,
            test_share=queries.test_share,
        )
    ]


def _inference(queries: PairedQueries, a: int, b: int) -> Inference | None:
    """Returns the analysis of trainings on one test set; None if training was not repeated on it."""
    # Models with different training sets allow no claim about training on either of them.
    first = queries.cells[0]
    if len(queries.cells) > 1 or first.train is None:
        return None
    of_a, of_b = (queries.distinct_trainings(row) for row in (a, b))
    shares = queries.distinct.weights
    if of_a.resample is not None or of_b.resample is not None:
        return _over_resamples(of_a, of_b, shares)
    return _over_seeds(of_a, of_b, shares)


def _over_resamples(a: Trainings, b: Trainings, shares: PerQuery) -> Inference | None:
    """Returns the analysis of the resamples of two rows that are the same; None without two of them."""
    common = sorted(set(a.keys) & set(b.keys))
    if a.resample is None or a.resample != b.resample:
        return None
    if len(common) < 2:
        return None
    resample = a.resample
    factor = resampling_factor(resample["kind"], len(common), resample["share"])
    return shared_replicates(a.values_of(common), b.values_of(common), shares, factor)


def _over_seeds(a: Trainings, b: Trainings, shares: PerQuery) -> Inference | None:
    """Returns the analysis of the seeds of two rows; None if one of them, which varies, has one seed."""
    repeated = [len(row.keys) > 1 for row in (a, b)]
    one_is_enough = any(repeated) and (a.is_constant or b.is_constant)
    if not (all(repeated) or one_is_enough):
        return None
    if a.ranker_class == b.ranker_class and a.keys == b.keys:
        # A seed draws the same sample in both models.
        return shared_replicates(a.values, b.values, shares)
    return independent_replicates(a.values, b.values, shares)


def _scope_of_methods(
    queries: PairedQueries,
    a: int,
    b: int,
    variation: FoldVariation | None,
    inference: Inference | None,
) -> tuple[Scope, str]:
    """Returns the scope of the claim about the methods, and why there is none, or an empty text.

    If the trainings of tuned rows have searches with different seeds, the variance of tuning is a part of
    theirs, and the scope says so. An imported model was not trained again: the scope says that, too.
    """
    first_trainings = [queries.trainings[row][0] for row in (a, b)]
    imported = [trainings.is_imported for trainings in first_trainings]
    resampled = any(trainings.resample is not None for trainings in first_trainings)
    if variation is not None:
        varied = queries.varied_by_folds
    elif resampled or inference is None:
        varied = Varied.METHODS
    else:
        varied = Varied.RETRAINED
    tuned = [row for row in (a, b) if is_tuned(queries, row)]
    if tuned and all(is_tuned_again(queries, row) for row in tuned):
        varied = varied.with_tuning
    scope = Scope(varied, any(imported))
    if all(imported):
        return scope, NOT_TRAINED
    if variation is not None and queries.num_folds < FEWEST_REPLICATES:
        return scope, f"{queries.num_folds} folds; a claim needs {FEWEST_REPLICATES}"
    if variation is None and inference is None:
        return scope, NOT_ALIKE if _is_repeated(queries, a, b) else NOT_REPEATED
    return scope, ""


def _is_repeated(queries: PairedQueries, a: int, b: int) -> bool:
    """Returns whether a row has several trainings, though not in the same way as the other one."""
    if len(queries.cells) > 1:
        return True
    keys = [queries.trainings[row][0].keys for row in (a, b)]
    return any(len(of_row) > 1 for of_row in keys)
