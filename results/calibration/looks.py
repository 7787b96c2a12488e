"""Several looks at the same runs: how often at least one of them makes a false claim, and finds a difference.

The looks are a sweep that is extended from 3 to 20 seeds, or the metrics of one table. A rule gives the level
of each look: 5 %, 5 % divided by the number of looks so far, or 5 % divided by the number of declared looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.random import Generator

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate
from ltrbench.statistics import LEVEL, Interval, PairedSample, independent_replicates
from ltrbench.statistics.paired import excludes, student_intervals
from results.calibration.rates import RateRow, Tables, equal_shares, rates
from results.calibration.two_way import ALL_VARY, TRAINING_DOMINATES, Parts, Simulation

LOOKS = "Several looks at the same runs: false claims in at least one, and differences found"
SEEDS = (3, 5, 8, 12, 20)
METRICS = (
    *("ndcg@10", "ndcg@1", "ndcg@3", "ndcg@5", "ndcg@20", "map"),
    *("mrr", "precision@1", "precision@5", "precision@10", "ndcg"),
)
NUM_QUERIES = 200
NUM_DOCUMENTS = 20
"""Number of documents of a query."""
_MOST_LOOKS = max(len(SEEDS), len(METRICS))
_PRODUCTS = [k * (k + 1) for k in range(1, _MOST_LOOKS + 1)]
DIVISORS = sorted({*range(1, _MOST_LOOKS + 1), *_PRODUCTS})
"""Divisors of the level of a look, of all rules."""
DIFFERENCE_OF_RANKINGS = 0.03

IntervalsOfLook = Mapping[int, Interval | None]  # divisor of the level -> interval


def looks_tables(simulation: Simulation) -> Tables:
    rows: list[RateRow] = []
    for number, parts in enumerate((TRAINING_DOMINATES, ALL_VARY)):
        draws = _of_seeds(parts, simulation.num_draws, simulation.rng(10, number))
        seeds = f"{', '.join(map(str, SEEDS))} seeds"
        rows.append({"looks": seeds, "values": parts.name, **rates(draws)})
    draws = _of_metrics(simulation.num_draws, simulation.rng(11))
    metrics = f"{len(METRICS)} metrics"
    rows.append({"looks": metrics, "values": "rankings", **rates(draws)})
    return {LOOKS: rows}


def _judged(looks: Sequence[IntervalsOfLook], difference: float) -> dict[str, bool]:
    """Returns rule -> whether a look claims a difference of 0, or finds the true one."""
    number = len(looks)
    divisors_by_rule = {
        "5 % each": [1 for _ in looks],
        "5 %/k": list(range(1, number + 1)),
        "5 %/(k (k + 1)) after the first": [1, *_PRODUCTS[1:number]],
        "declared": [number for _ in looks],
    }
    false: dict[str, bool] = {}
    found: dict[str, bool] = {}
    for rule, divisors in divisors_by_rule.items():
        pairs = zip(looks, divisors, strict=True)
        intervals = [look[divisor] for look, divisor in pairs]
        false[rule] = any(map(excludes, intervals))
        found[f"found, {rule}"] = any(
            # Another true difference only shifts the interval.
            excludes(interval, -difference)
            for interval in intervals
        )
    return false | found


def _of_seeds(
    parts: Parts, num_draws: int, rng: Generator
) -> Iterator[Mapping[str, bool]]:
    shares = equal_shares(NUM_QUERIES)
    most = max(SEEDS)
    difference = 3 * parts.standard_error(most, NUM_QUERIES)
    for _ in range(num_draws):
        a, b = parts.models((most, most), NUM_QUERIES, rng)
        looks: list[IntervalsOfLook] = []
        for number in SEEDS:
            inference = independent_replicates(a[:number], b[:number], shares)
            looks.append({k: inference.interval(LEVEL / k) for k in DIVISORS})
        yield _judged(looks, difference)


def _of_metrics(num_draws: int, rng: Generator) -> Iterator[Mapping[str, bool]]:
    query_start = NUM_DOCUMENTS * np.arange(NUM_QUERIES + 1)
    size = NUM_DOCUMENTS * NUM_QUERIES
    for _ in range(num_draws):
        grades = rng.integers(0, 5, size)
        labels = np.where(rng.random(size) < 0.5, grades, 0).astype(float)
        judgments = Judgments(labels=labels, query_start=query_start)
        values_of_models = []
        for _ in range(2):
            scores = labels / 2 + rng.normal(size=size)
            values_of_models.append(evaluate(judgments, scores, METRICS).per_query)
        a, b = values_of_models
        looks: list[IntervalsOfLook] = []
        for metric in METRICS:
            difference = a[metric] - b[metric]
            sample = PairedSample.of(difference[None, ~np.isnan(difference)])
            looks.append({k: student_intervals(sample, LEVEL / k)[0] for k in DIVISORS})
        yield _judged(looks, DIFFERENCE_OF_RANKINGS)
