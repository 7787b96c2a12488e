"""Two methods with simulated training sets, resamples and folds, and a true difference of 0.

A training set has n points z_mi in k dimensions, with mean 0 and variance 1, skewed; each method m has its
own k dimensions. Both methods have the same distribution, so neither is better on average over training sets.

    w_m  = sqrt(n) mean_i z_mi                 learner: parameters of method m, linear in the points
    y_mq = c_mq w_m                            effect of the parameters on query q
    x_mq = query_q + (model x query)_mq + scale (y_mq - BEND y_mq^2)

The points of one training set are actually resampled; the true difference is over training sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data.splits import BOOTSTRAP, SUBSAMPLE
from ltrbench.statistics import (
    LEVEL,
    fold_variations,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.paired import excludes, student_intervals
from ltrbench.statistics.repeated import ReplicateValues
from results.calibration.earlier import interval_over_folds
from results.calibration.folds import sample_of_folds
from results.calibration.rates import (
    RateRow,
    Tables,
    equal_shares,
    over_queries,
    rates,
)
from results.calibration.real_learners import EARLIER, MATTERS, NEW, PAIRED
from results.calibration.two_way import QUERY_SPREAD, Simulation

TRAINING_POINTS = 150
DIMENSIONS = 5
TEST_QUERIES = 500
BEND = 0.1
"""Weak nonlinearity: at one standard deviation the quadratic part is a tenth of the linear part."""
SPREAD = 0.7
"""Standard deviation of the weights of a query around 1: a training set affects queries differently."""
FOLD_QUERIES = 500
SEEDED = 0.7
"""Standard deviation of w over seeds; over training sets it is 1."""
_EXCLUDED = "is excluded at 5 %"
RESAMPLED = (
    f"One training set of {TRAINING_POINTS} points resampled, {TEST_QUERIES} test queries: how often a true "
    f"difference of 0 over training sets {_EXCLUDED}"
)
FOLDS_WITH_SEEDS = (
    f"Folds of {FOLD_QUERIES} queries with seeds in them: how often a true difference of 0 over data sets "
    f"{_EXCLUDED}"
)
Resampling = tuple[str, float]  # kind, share of the points
RESAMPLINGS: tuple[Resampling, ...] = (
    (BOOTSTRAP, 1.0),
    (SUBSAMPLE, 0.5),
    (SUBSAMPLE, 0.8),
)

Parameters = NDArray[np.float64]  # (R, k)


@dataclass(frozen=True)
class Methods:
    """Sources of the differences of the two methods, as standard deviations of NDCG@10.

    Attributes:
        model_query: interaction of method and query.
        scale: effect of training.
    """

    name: str
    model_query: float
    scale: float

    def values(
        self, parameters: tuple[Parameters, Parameters], size: int, rng: Generator
    ) -> tuple[ReplicateValues, ReplicateValues]:
        """Returns (R, Q) values of both methods, on new queries."""
        query = QUERY_SPREAD * rng.normal(size=size)
        a, b = (self._of_method(of_method, query, rng) for of_method in parameters)
        return a, b

    def _of_method(
        self, parameters: Parameters, query: NDArray[np.float64], rng: Generator
    ) -> ReplicateValues:
        spread = SPREAD * rng.normal(size=(len(query), DIMENSIONS))
        weights = (1 + spread) / np.sqrt(DIMENSIONS)
        # Not a matrix product, because its last bits depend on the number of threads.
        effects = np.einsum("rk,qk->rq", parameters, weights)
        of_training = self.scale * (effects - BEND * effects**2)
        of_queries = query + self.model_query * rng.normal(size=len(query))
        values: ReplicateValues = of_queries + of_training
        return values


# The first pair is a stress test: differences between queries are as small as those between trainings.
METHOD_PAIRS = (
    Methods("training sets dominate", model_query=0.02, scale=0.008),
    Methods("both vary", model_query=0.08, scale=0.004),
)


def linear_learner_tables(simulation: Simulation) -> Tables:
    of_resamples: list[RateRow] = []
    of_folds: list[RateRow] = []
    for methods in METHOD_PAIRS:
        for resampling, number in itertools.product(RESAMPLINGS, simulation.replicates):
            row: RateRow = {
                "values": methods.name,
                "resamples": resampling_name(*resampling),
                "R": number,
            }
            claims = _resampled_claims(methods, resampling, number, simulation)
            of_resamples.append(row | rates(claims))
        for folds, seeds in ((5, 1), (5, 3), (10, 1), (10, 3)):
            row = {"values": methods.name, "folds": folds, "seeds": seeds}
            claims = _fold_claims(methods, folds, seeds, simulation)
            of_folds.append(row | rates(claims))
    return {RESAMPLED: of_resamples, FOLDS_WITH_SEEDS: of_folds}


def resampling_name(kind: str, share: float) -> str:
    return kind if kind == BOOTSTRAP else f"{kind} of {share}"


def resampled(
    kind: str, share: float, number: int, size: int, rng: Generator
) -> NDArray[np.int64]:
    """Returns (R, n), the points of each resample: with replacement, or a share of them without."""
    if kind == BOOTSTRAP:
        return rng.integers(size, size=(number, size))
    num_chosen = round(share * size)
    return np.array([rng.permutation(size)[:num_chosen] for _ in range(number)])


def _points(size: int, rng: Generator) -> NDArray[np.float64]:
    """Returns (n, 2, k) points with mean 0 and variance 1, for the first and the second method."""
    return rng.exponential(size=(size, 2, DIMENSIONS)) - 1


def _resampled_claims(
    methods: Methods, resampling: Resampling, number: int, simulation: Simulation
) -> Iterator[Mapping[str, bool]]:
    kind, share = resampling
    shares = equal_shares(TEST_QUERIES)
    factor = resampling_factor(kind, number, share)
    rng = simulation.rng(
        7, METHOD_PAIRS.index(methods), RESAMPLINGS.index(resampling), number
    )
    for _ in range(simulation.num_draws // 2):
        points = _points(TRAINING_POINTS, rng)
        chosen = resampled(kind, share, number, TRAINING_POINTS, rng)
        fitted = np.sqrt(TRAINING_POINTS) * points[chosen].mean(axis=1)
        a, b = methods.values((fitted[:, 0], fitted[:, 1]), TEST_QUERIES, rng)
        corrected = shared_replicates(a, b, shares, factor)
        uncorrected = shared_replicates(a, b, shares)
        yield {
            "resampling factor": excludes(corrected.interval(LEVEL)),
            "1/R instead": excludes(uncorrected.interval(LEVEL)),
            "queries only": excludes(over_queries(a, b)),
        }


def _fold_claims(
    methods: Methods, num_folds: int, num_seeds: int, simulation: Simulation
) -> Iterator[Mapping[str, bool]]:
    """Yields false claims over folds. Queries of a fold are training points of the other folds."""
    test_share = 1 / (num_folds - 1)
    rng = simulation.rng(8, METHOD_PAIRS.index(methods), num_folds, num_seeds)
    for _ in range(simulation.num_draws // 2):
        folds = list(_folds(methods, num_folds, num_seeds, rng))
        means = np.array([fold.mean() for fold in folds])
        sample = sample_of_folds(folds)
        (variation,) = fold_variations(
            sample, num_folds=num_folds, test_share=test_share
        )
        (over_queries_of_folds,) = student_intervals(sample)
        interval = variation.interval(over_queries_of_folds, LEVEL)
        yield {
            NEW: excludes(interval),
            EARLIER: excludes(interval_over_folds(means, test_share, LEVEL)),
            PAIRED: excludes(over_queries_of_folds),
            MATTERS: variation.matters,
        }


def _folds(
    methods: Methods, num_folds: int, num_seeds: int, rng: Generator
) -> Iterator[NDArray[np.float64]]:
    """Yields the differences of the queries of each fold, averaged over seeds."""
    points = _points(FOLD_QUERIES, rng)
    size = FOLD_QUERIES // num_folds
    for fold in range(num_folds):
        start = fold * size
        rest = np.delete(points, slice(start, start + size), axis=0)
        fitted = np.sqrt(FOLD_QUERIES) * rest.mean(axis=0)
        seeded = fitted + SEEDED * rng.normal(size=(num_seeds, 2, DIMENSIONS))
        a, b = methods.values((seeded[:, 0], seeded[:, 1]), size, rng)
        yield a.mean(axis=0) - b.mean(axis=0)
