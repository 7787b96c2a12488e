"""Simulated values with a known true difference, and variation of training and of queries.

    x_mtq = mean_m + query_q + (model x query)_mq + training_mt + (training x query)_mtq

with independent normal parts. `Simulation` sets the number of draws; each figure has its own draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
QUERIES_ONLY, HILLIS = "queries only", "degrees of Hillis"
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
        query = QUERY_SPREAD * rng.normal(size=num_queries)
        common = self._trained(trainings[0], num_queries, rng) if shared else 0.0
        return [
            query
            + common
            + self.model_query * rng.normal(size=num_queries)
            + (
                self._trained(number, num_queries, rng)
                if number > 1
                else np.zeros((1, 1))
            )
            for number in trainings
        ]

    def _trained(
        self, number: int, num_queries: int, rng: Generator
    ) -> ReplicateValues:
        training = self.training * rng.normal(size=(number, 1))
        by_query: ReplicateValues = training + self.training_query * rng.normal(
            size=(number, num_queries)
        )
        return by_query

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

    def rng(self, *figure: int) -> Generator:
        """Returns the random generator of one figure, identified by numbers."""
        return np.random.default_rng([self.seed, *figure])


def two_way_tables(simulation: Simulation) -> Tables:
    return {
        INDEPENDENT: [
            _row(parts, size) | _independent_levels(parts, size, simulation)
            for parts in (ONE_METHOD, *SPREADS)
            for size in simulation.sizes
        ],
        ONE_SIDED: [
            _row(parts, size) | _one_sided_levels(parts, size, simulation)
            for parts in SPREADS
            for size in simulation.sizes
        ],
        POWER_OF_INTERVALS: [
            _row(parts, size) | _power(parts, size, simulation)
            for parts in SPREADS
            for size in simulation.sizes
        ],
        SHARED_TRAININGS: [
            _row(parts, size) | _shared_levels(parts, size, simulation)
            for parts in (ONE_METHOD, *SPREADS)
            for size in simulation.sizes
        ],
        FAMILIES: [
            *(_bonferroni(number, simulation) for number in (3, 6)),
            *(
                _max_t(number, size, simulation)
                for number in (3, 6)
                for size in (50, 200)
            ),
        ],
    }


def _row(parts: Parts, num_queries: int) -> RateRow:
    return {"values": parts.name, "queries": num_queries}


def by_the_formula(inference: Inference) -> Inference:
    """Returns the inference with the standard error by the formula, which two trainings normally lack."""
    return replace(inference, standard_error=float(np.sqrt(inference.parts.total)))


def satterthwaite(inference: Inference) -> Inference:
    """Returns the inference with degrees of freedom 1 / sum_i (share_i^2 / degrees_i) (Hillis, 2007)."""
    free = 1 / sum(share**2 / degrees for share, degrees in inference.degrees)
    return replace(inference, degrees=((1.0, free),))


def _independent_levels(
    parts: Parts, size: int, simulation: Simulation
) -> dict[str, Rate]:
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


def _one_sided_levels(
    parts: Parts, size: int, simulation: Simulation
) -> dict[str, Rate]:
    shares = equal_shares(size)

    def judged(number: int) -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(2, _number(parts), size, number)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, 1), size, rng)
            yield {
                f"R={number}": excludes(
                    independent_replicates(a, b, shares).interval(LEVEL)
                )
            }

    return _side_by_side(rates(judged(number)) for number in simulation.replicates)


def _power(parts: Parts, size: int, simulation: Simulation) -> dict[str, object]:
    """Returns coverage and power with the middle number of trainings, for several true differences."""
    number = sorted(simulation.replicates)[len(simulation.replicates) // 2]
    shares, error = equal_shares(size), parts.standard_error(number, size)

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(3, _number(parts), size)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, number), size, rng)
            interval = independent_replicates(a + 2 * error, b, shares).interval(LEVEL)
            # Another true difference only shifts the interval.
            low = interval.low - 2 * error if interval else -np.inf
            yield {
                "2 errors held": interval is not None
                and not excludes(interval, 2 * error),
                "2 errors found": bool(low + 2 * error > 0),
                "3 errors found": bool(low + 3 * error > 0),
                f"{NAMED_DIFFERENCE} found": bool(low + NAMED_DIFFERENCE > 0),
            }

    return {"trainings": number, "standard error": f"{error:.4f}", **rates(judged())}


def _shared_levels(parts: Parts, size: int, simulation: Simulation) -> dict[str, Rate]:
    shares = equal_shares(size)

    def judged(number: int) -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(4, _number(parts), size, number)
        for _ in range(simulation.num_draws):
            a, b = parts.models((number, number), size, rng, shared=True)
            inference = shared_replicates(a, b, shares)
            if number == FEWEST_REPLICATES - 1:
                yield {TOO_FEW: excludes(by_the_formula(inference).interval(LEVEL))}
            else:
                yield {
                    f"R={number}": excludes(inference.interval(LEVEL)),
                    f"R={number}, {HILLIS}": excludes(
                        satterthwaite(inference).interval(LEVEL)
                    ),
                }

    return _side_by_side(
        rates(judged(number))
        for number in (FEWEST_REPLICATES - 1, *simulation.replicates)
    )


def _bonferroni(num_methods: int, simulation: Simulation) -> RateRow:
    """Returns a row for methods trained several times, with Bonferroni's correction."""
    size, number = (
        max(simulation.sizes),
        sorted(simulation.replicates)[len(simulation.replicates) // 2],
    )
    pairs = list(itertools.combinations(range(num_methods), 2))
    shares = equal_shares(size)

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(5, num_methods)
        for _ in range(simulation.num_draws // 2):
            models = ALL_VARY.models([number] * num_methods, size, rng)
            inferences = [
                independent_replicates(models[a], models[b], shares) for a, b in pairs
            ]
            yield {
                "adjusted": any(
                    excludes(pair.interval(LEVEL / len(pairs))) for pair in inferences
                ),
                "not adjusted": any(
                    excludes(pair.interval(LEVEL)) for pair in inferences
                ),
            }

    what = {
        "of": f"methods, {number} trainings each, Bonferroni",
        "pairs": len(pairs),
        "queries": size,
    }
    return what | rates(judged())


def _max_t(num_models: int, size: int, simulation: Simulation) -> RateRow:
    """Returns a row for trained models, with `simultaneous_intervals`."""
    pairs = list(itertools.combinations(range(num_models), 2))
    methods: set[str] = set()

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(6, num_models, size)
        for draw in range(simulation.num_draws // 2):
            sample = PairedSample.of(
                np.concatenate(ALL_VARY.models([1] * num_models, size, rng))
            )
            adjusted = simultaneous_intervals(sample, pairs, num_draws=500, seed=draw)
            methods.update(interval.method for interval in adjusted if interval)
            single = [
                over_queries(sample.values[[a]], sample.values[[b]]) for a, b in pairs
            ]
            yield {
                "adjusted": any(map(excludes, adjusted)),
                "not adjusted": any(map(excludes, single)),
            }

    counted = rates(judged())
    return {
        "of": f"trained models, {' '.join(methods)}",
        "pairs": len(pairs),
        "queries": size,
    } | counted


def _number(parts: Parts) -> int:
    return (ONE_METHOD, *SPREADS).index(parts)


def _side_by_side(figures: Iterable[dict[str, Rate]]) -> dict[str, Rate]:
    """Returns the columns in order: the reported method first, then the alternatives."""
    merged = {column: rate for figure in figures for column, rate in figure.items()}
    return dict(
        sorted(
            merged.items(), key=lambda item: item[0].endswith((QUERIES_ONLY, HILLIS))
        )
    )
