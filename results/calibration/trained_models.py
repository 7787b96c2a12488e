"""Statistics of trained models: levels of tests, coverage of intervals, and false claims.

Queries are drawn from a simulated population with a known true mean difference. Each study uses the same code
as a comparison. It counts how often a true null hypothesis is rejected at 5 %, and how often a 95 % interval
contains the true difference.

False claims are counted on differences that are hard to judge. The differences of a study are independent
with mean 0; the claim is that of a comparison.

    nine in ten are 0      normal with a probability of 0.1, otherwise 0
    heavy tails            Student's t with 2.1 degrees of freedom
    skewed                 log-normal minus its mean: a model wins rarely, by a large margin
    Zipf weights           normal; query i has the weight 1 / i
    one training file      normal, in five subsets of a test file; one trained model each, whose effect on all
                           queries makes the difference a true one of these models
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    LEVEL,
    TESTS,
    Interval,
    PairedSample,
    compare_pairs,
    simultaneous_intervals,
    system_intervals,
)
from ltrbench.statistics.paired import excludes
from results.calibration.folds import interval_of_methods
from results.calibration.rates import RateRow, rates
from results.calibration.two_way import Simulation

_METRIC = "ndcg@10"
_POPULATION = 200_000
_DOCUMENTS = 20
# Shares of the grades in MSLR-WEB30K.
_GRADES = (0.515, 0.325, 0.133, 0.019, 0.008)
_TOUCHED = 0.3
"""Share of queries that the better system ranks differently from the base: most differences are 0."""
_AT_ONCE = 500
"""Number of studies with common signs and resampled queries: large for speed, small relative to all."""

_BASE, _ALIKE, _BETTER = range(3)


@dataclass(frozen=True)
class DrawnStudies:
    """Sizes of a simulation: queries per study, number of studies, draws per study, and the seed."""

    size: int
    num_studies: int
    num_draws: int
    seed: int

    def samples(self, values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yields queries drawn with replacement from a population (M, Q): (n, M, size) for n studies."""
        rng = np.random.default_rng([self.seed, self.size])
        for start in range(0, self.num_studies, _AT_ONCE):
            num = min(_AT_ONCE, self.num_studies - start)
            queries = rng.integers(values.shape[1], size=(num, self.size))
            yield np.moveaxis(values[:, queries], 0, 1)


@cache
def population(seed: int) -> NDArray[np.float64]:
    """Returns (3, Q), NDCG@10 of three systems: a base, an equally good one, and a better one.

    Scores are labels plus noise. The better system has half the noise on some queries and the scores of the
    base on the others, so its differences are skewed and mostly 0.
    """
    rng = np.random.default_rng(seed)
    num_documents = _POPULATION * _DOCUMENTS
    grades = rng.choice(len(_GRADES), num_documents, p=_GRADES)
    labels = grades.astype(np.float64)
    query_start = _DOCUMENTS * np.arange(_POPULATION + 1)
    judgments = Judgments(labels=labels, query_start=query_start)
    noise = 2 * rng.normal(size=(3, num_documents))
    is_touched = rng.random(_POPULATION) < _TOUCHED
    touched = np.repeat(is_touched, _DOCUMENTS)
    noise[_BETTER] = np.where(touched, noise[_BETTER] / 2, noise[_BASE])
    evaluations = [
        evaluate(judgments, labels + noise_of_system, [_METRIC])
        for noise_of_system in noise
    ]
    values = np.array([evaluation.per_query[_METRIC] for evaluation in evaluations])
    counted: NDArray[np.float64] = values[:, ~np.isnan(values[_BASE])]
    return counted


def differences_of(values: NDArray[np.float64]) -> dict[str, PerQuery]:
    """Returns name -> (Q,): symmetric differences of equally good systems, skewed ones of a better system."""
    return {
        "every query": values[_ALIKE] - values[_BASE],
        "three queries in ten": values[_BETTER] - values[_BASE],
    }


def levels_of(differences: PerQuery, drawn: DrawnStudies) -> dict[str, float]:
    """Returns test -> share of studies with a rejection, if each difference has a random sign."""
    rng = np.random.default_rng([drawn.seed, drawn.size, 1])
    rejected = dict.fromkeys(TESTS, 0)
    # Each study is one system, compared with a system that has 0 on every query.
    zeros = np.zeros((1, drawn.size))
    for block, samples in enumerate(drawn.samples(differences[np.newaxis])):
        signs = rng.choice([-1.0, 1.0], size=(len(samples), drawn.size))
        systems = PairedSample.of(np.concatenate([zeros, samples[:, 0] * signs]))
        pairs = [(study, 0) for study in range(1, len(samples) + 1)]
        seed = drawn.seed + block
        for pair in compare_pairs(systems, pairs, drawn.num_draws, seed):
            for test, p_value in pair.p_values.items():
                rejected[test] += p_value is not None and p_value <= LEVEL
    return {test: count / drawn.num_studies for test, count in rejected.items()}


def coverage(differences: PerQuery, drawn: DrawnStudies) -> float:
    """Returns the share of studies in which the interval contains the mean of the population."""
    truth = float(differences.mean())
    held = 0
    for samples in drawn.samples(differences[np.newaxis]):
        intervals = system_intervals(PairedSample.of(samples[:, 0]))
        held += sum(_holds(interval, truth) for interval in intervals)
    return held / drawn.num_studies


def simultaneous_coverage(values: NDArray[np.float64], drawn: DrawnStudies) -> float:
    """Returns the share of studies in which all differences to the best system are in their intervals."""
    truth = values.mean(axis=1)
    pairs = list(itertools.combinations(range(len(truth)), 2))
    held = 0
    for block, samples in enumerate(drawn.samples(values)):
        for sample in map(PairedSample.of, samples):
            best = int(np.argmax(sample.means))
            intervals = simultaneous_intervals(
                sample, pairs, drawn.num_draws, drawn.seed + block
            )
            held += all(
                _holds(interval, truth[a] - truth[b])
                for interval, (a, b) in zip(intervals, pairs, strict=True)
                if best in (a, b)
            )
    return held / drawn.num_studies


def _holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low <= truth <= interval.high


FALSE_CLAIMS = "Trained models: how often a true difference of 0 is excluded at 5 %"
SHARED_TRAINING = "One training set, five test sets: how often a true difference of 0 is excluded at 5 %"
DEVIATION = 0.1
_TRAINING = 0.01
_SUBSETS = 5

DIFFERENCES: dict[str, Callable[[Generator, int], NDArray[np.float64]]] = {
    "nine in ten are 0": lambda rng, size: (
        rng.normal(size=size) * (rng.random(size) < 0.1)
    ),
    "heavy tails": lambda rng, size: rng.standard_t(2.1, size=size),
    "skewed": lambda rng, size: rng.lognormal(0, 1, size=size) - np.exp(0.5),
    "Zipf weights": lambda rng, size: rng.normal(size=size),
}


def false_claims(kind: str, size: int, simulation: Simulation) -> RateRow:
    """Returns a row: false claims about one pair, and about any of the three pairs of three models."""
    draw_differences = DIFFERENCES[kind]
    weights = None
    if kind == "Zipf weights":
        weights = 1 / np.arange(1.0, size + 1)

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(9, list(DIFFERENCES).index(kind), size)
        for draw in range(simulation.num_draws):
            differences = np.array([draw_differences(rng, size) for _ in range(3)])
            values = DEVIATION * differences
            one = PairedSample.of(np.array([values[0], 0 * values[0]]), weights)
            (of_one,) = simultaneous_intervals(one, [(0, 1)])
            three = PairedSample.of(values, weights)
            of_three = simultaneous_intervals(
                three, [(0, 1), (0, 2), (1, 2)], num_draws=500, seed=draw
            )
            yield {
                "one pair": excludes(of_one),
                "three pairs": any(map(excludes, of_three)),
            }

    return {"differences": kind, "queries": size, **rates(judged())}


def shared_training(size: int, simulation: Simulation) -> RateRow:
    """Returns a row: false claims about methods, if subsets of a test file were taken for folds."""

    def judged() -> Iterator[Mapping[str, bool]]:
        rng = simulation.rng(10, size)
        for _ in range(simulation.num_draws):
            # The one training set gives each method a lucky or unlucky model.
            effect = _TRAINING * rng.normal()
            values = effect + DEVIATION * rng.normal(size=(_SUBSETS, size))
            interval = interval_of_methods(list(values), 1 / (_SUBSETS - 1))
            yield {"taken for folds": excludes(interval)}

    return {"queries": _SUBSETS * size, **rates(judged())}
