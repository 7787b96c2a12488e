"""Simulated values with a known true difference, and variation of training and of queries.

    x_mtq = mean_m + query_q + (model x query)_mq + training_mt + (training x query)_mtq

with independent normal parts. `Simulation` sets the number of draws; each figure has its own draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from ltrbench.statistics import (
    FEWEST_REPLICATES,
    LEVEL,
    Inference,
    PairedSample,
    independent_replicates,
    shared_replicates,
    simultaneous_intervals,
)
from ltrbench.statistics.paired import excludes
from ltrbench.statistics.repeated import ReplicateValues
from results.calibration.rates import (
    Rate,
    RateRow,
    Tables,
    equal_shares,
    over_queries,
    rates,
)

_EXCLUDED = "how often a true difference of 0 is excluded at 5 %"
INDEPENDENT = f"Methods trained independently: {_EXCLUDED}"
ONE_SIDED = (
    f"A method trained several times and one whose training does not vary: {_EXCLUDED}"
)
POWER_OF_INTERVALS = (
    "Methods trained independently: how often a true difference is held by the interval of 95 %, "
    "and found"
)
SHARED_TRAININGS = f"Methods that share their trainings: {_EXCLUDED}"
FAMILIES = "Families of pairs: how often any true difference of 0 is excluded at 5 %"

QUERY_SPREAD = 0.25
"""Standard deviation of NDCG@10 over queries, common to all models."""
TOO_FEW = f"R={FEWEST_REPLICATES - 1}, by the formula"
QUERIES_ONLY = "queries only"
HILLIS = "degrees of Hillis"
NAMED_DIFFERENCE = 0.01
"""A difference of practical importance."""


@dataclass(frozen=True)
class Parts:
    """Standard deviations of the parts of a value, on the scale of NDCG@10."""

    name: str
    model_query: float
    training: float
    training_query: float

    def models(
        self,
        trainings: Sequence[int],
        num_queries: int,
        rng: Generator,
        *,
        shared: bool = False,
    ) -> list[ReplicateValues]:
        """Returns the values (R, Q) of each model, all with the same true mean.

        Args:
            trainings: R of each model; with R = 1 the training does not vary.
            shared: whether all models share their trainings, with equal effects.
        """
        common = QUERY_SPREAD * rng.normal(size=(1, num_queries))
        if shared:
            common = common + self._trained(trainings[0], num_queries, rng)
        models = []
        for number in trainings:
            values = common + self.model_query * rng.normal(size=num_queries)
            if number > 1:
                values = values + self._trained(number, num_queries, rng)
            models.append(values)
        return models

    def _trained(
        self, number: int, num_queries: int, rng: Generator
    ) -> ReplicateValues:
        """Returns (R, Q), the effects of trainings and of trainings x queries."""
        training = self.training * rng.normal(size=(number, 1))
        residual = rng.normal(size=(number, num_queries))
        effects: ReplicateValues = training + self.training_query * residual
        return effects

    def standard_error(self, num_trainings: int, num_queries: int) -> float:
        """Returns the true standard error of the difference of two models."""
        variance = (
            self.training**2 / num_trainings
            + self.model_query**2 / num_queries
            + self.training_query**2 / (num_trainings * num_queries)
        )
        return float(np.sqrt(2 * variance))


# The standard deviations of MQ2007 and the synthetic data are between these.
TRAINING_DOMINATES = Parts(
    "training dominates", model_query=0.02, training=0.008, training_query=0.03
)
QUERIES_DOMINATE = Parts(
    "queries dominate", model_query=0.10, training=0.001, training_query=0.03
)
INTERACTION_DOMINATES = Parts(
    "training x query dominates", model_query=0.02, training=0.001, training_query=0.15
)
ALL_VARY = Parts("all vary", model_query=0.05, training=0.004, training_query=0.08)
SPREADS = (TRAINING_DOMINATES, QUERIES_DOMINATE, INTERACTION_DOMINATES, ALL_VARY)
ONE_METHOD = replace(ALL_VARY, name="one method against itself", model_query=0.0)
"""A method and itself differ by their trainings only."""


@dataclass(frozen=True)
class Simulation:
    """Sizes of the simulation.

    Attributes:
        num_draws: number of draws per figure.
        sizes: numbers of queries.
        replicates: numbers of trainings, 3 or more.
        seed: seed of all draws.
    """

    num_draws: int
    sizes: Sequence[int]
    replicates: Sequence[int]
    seed: int

    @property
    def middle_replicates(self) -> int:
        """The middle number of trainings, where a table has only one."""
        return sorted(self.replicates)[len(self.replicates) // 2]

    def rng(self, *figure: int) -> Generator:
        """Returns the random generator of one figure, identified by numbers."""
        return np.random.default_rng([self.seed, *figure])


def two_way_tables(simulation: Simulation) -> Tables:
    of_a_difference_of_0 = (ONE_METHOD, *SPREADS)
    return {
        INDEPENDENT: _rows(_independent_levels, of_a_difference_of_0, simulation),
        ONE_SIDED: _rows(_one_sided_levels, SPREADS, simulation),
        POWER_OF_INTERVALS: _rows(_power, SPREADS, simulation),
        SHARED_TRAININGS: _rows(_shared_levels, of_a_difference_of_0, simulation),
        FAMILIES: [
            _bonferroni(3, simulation),
            _bonferroni(6, simulation),
            _max_t(3, 50, simulation),
            _max_t(3, 200, simulation),
            _max_t(6, 50, simulation),
            _max_t(6, 200, simulation),
        ],
    }


def _rows(
    columns_of: Callable[[Parts, int, Simulation], RateRow],
    spreads: Sequence[Parts],
    simulation: Simulation,
) -> list[RateRow]:
    """Returns a row for each spread and number of queries."""
    rows = []
    for parts in spreads:
        for size in simulation.sizes:
            row: RateRow = {"values": parts.name, "queries": size}
            rows.append(row | columns_of(parts, size, simulation))
    return rows


def by_the_formula(inference: Inference) -> Inference:
    """Returns the inference with the standard error by the formula, which two trainings normally lack."""
    return replace(inference, standard_error=float(np.sqrt(inference.parts.total)))


def satterthwaite(inference: Inference) -> Inference:
    """Returns the inference with degrees of freedom 1 / sum_i (share_i^2 / degrees_i) (Hillis, 2007)."""
    free = 1 / sum(share**2 / degrees for share, degrees in inference.degrees)
    return replace(inference, degrees=((1.0, free),))


def _independent_levels(parts: Parts, size: int, simulation: Simulation) -> RateRow:
    shares = equal_shares(size)

    def judged(number: int) -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(1, _number(parts), size, number)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, number), size, rng)
            inference = independent_replicates(a, b, shares)
            if number == FEWEST_REPLICATES - 1:
                yield {TOO_FEW: excludes(by_the_formula(inference).interval(LEVEL))}
            else:
                yield {
                    f"R={number}": excludes(inference.interval(LEVEL)),
                    f"R={number}, {QUERIES_ONLY}": excludes(over_queries(a, b)),
                }

    return _side_by_side(
        rates(judged(number))
        for number in (FEWEST_REPLICATES - 1, *simulation.replicates)
    )


def _one_sided_levels(parts: Parts, size: int, simulation: Simulation) -> RateRow:
    shares = equal_shares(size)

    def judged(number: int) -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(2, _number(parts), size, number)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, 1), size, rng)
            inference = independent_replicates(a, b, shares)
            yield {f"R={number}": excludes(inference.interval(LEVEL))}

    return _side_by_side(rates(judged(number)) for number in simulation.replicates)


def _power(parts: Parts, size: int, simulation: Simulation) -> RateRow:
    """Returns coverage and power with the middle number of trainings, for several true differences."""
    number = simulation.middle_replicates
    shares = equal_shares(size)
    error = parts.standard_error(number, size)

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(3, _number(parts), size)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, number), size, rng)
            interval = independent_replicates(a + 2 * error, b, shares).interval(LEVEL)
            # Another true difference only shifts the interval.
            low = interval.low - 2 * error if interval else -np.inf
            is_held = interval is not None and not excludes(interval, 2 * error)
            yield {
                "2 errors held": is_held,
                "2 errors found": bool(low + 2 * error > 0),
                "3 errors found": bool(low + 3 * error > 0),
                f"{NAMED_DIFFERENCE} found": bool(low + NAMED_DIFFERENCE > 0),
            }

    return {"trainings": number, "standard error": f"{error:.4f}", **rates(judged())}


def _shared_levels(parts: Parts, size: int, simulation: Simulation) -> RateRow:
    shares = equal_shares(size)

    def judged(number: int) -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(4, _number(parts), size, number)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, number), size, rng, shared=True)
            inference = shared_replicates(a, b, shares)
            if number == FEWEST_REPLICATES - 1:
                yield {TOO_FEW: excludes(by_the_formula(inference).interval(LEVEL))}
            else:
                by_hillis = satterthwaite(inference).interval(LEVEL)
                yield {
                    f"R={number}": excludes(inference.interval(LEVEL)),
                    f"R={number}, {HILLIS}": excludes(by_hillis),
                }

    return _side_by_side(
        rates(judged(number))
        for number in (FEWEST_REPLICATES - 1, *simulation.replicates)
    )


def _bonferroni(num_methods: int, simulation: Simulation) -> RateRow:
    """Returns a row for methods trained several times, with Bonferroni's correction."""
    size = max(simulation.sizes)
    trainings = [simulation.middle_replicates for _ in range(num_methods)]
    pairs = list(itertools.combinations(range(num_methods), 2))
    shares = equal_shares(size)

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(5, num_methods)
        for _ in range(simulation.num_draws // 2):
            models = ALL_VARY.models(trainings, size, rng)
            inferences = [
                independent_replicates(models[a], models[b], shares) for a, b in pairs
            ]
            adjusted = [each.interval(LEVEL / len(pairs)) for each in inferences]
            single = [each.interval(LEVEL) for each in inferences]
            yield {
                "adjusted": any(map(excludes, adjusted)),
                "not adjusted": any(map(excludes, single)),
            }

    return {
        "of": f"methods, {trainings[0]} trainings each, Bonferroni",
        "pairs": len(pairs),
        "queries": size,
        **rates(judged()),
    }


def _max_t(num_models: int, size: int, simulation: Simulation) -> RateRow:
    """Returns a row for trained models, with `simultaneous_intervals`."""
    pairs = list(itertools.combinations(range(num_models), 2))
    trainings = [1 for _ in range(num_models)]
    methods: set[str] = set()

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(6, num_models, size)
        for draw in range(simulation.num_draws // 2):
            models = ALL_VARY.models(trainings, size, rng)
            sample = PairedSample.of(np.concatenate(models))
            adjusted = simultaneous_intervals(sample, pairs, num_draws=500, seed=draw)
            methods.update(interval.method for interval in adjusted if interval)
            single = [over_queries(models[a], models[b]) for a, b in pairs]
            yield {
                "adjusted": any(map(excludes, adjusted)),
                "not adjusted": any(map(excludes, single)),
            }

    counted = rates(judged())
    return {
        "of": f"trained models, {' '.join(methods)}",
        "pairs": len(pairs),
        "queries": size,
        **counted,
    }


def _number(parts: Parts) -> int:
    return (ONE_METHOD, *SPREADS).index(parts)


def _side_by_side(figures: Iterable[Mapping[str, Rate]]) -> RateRow:
    """Returns the columns in order: the reported method first, then the alternatives."""
    reported: RateRow = {}
    alternatives: RateRow = {}
    for figure in figures:
        for column, rate in figure.items():
            if column.endswith((QUERIES_ONLY, HILLIS)):
                alternatives[column] = rate
            else:
                reported[column] = rate
    return reported | alternatives
