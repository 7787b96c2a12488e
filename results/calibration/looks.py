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
_MOST = max(len(SEEDS), len(METRICS))
DIVISORS = sorted({*range(1, _MOST + 1), *(k * (k + 1) for k in range(1, _MOST + 1))})
"""Divisors of the level of a look, of all rules."""


def looks_tables(simulation: Simulation) -> Tables:
    rows: list[RateRow] = []
    for number, parts in enumerate((TRAINING_DOMINATES, ALL_VARY)):
        draws = _of_seeds(parts, simulation.num_draws, simulation.rng(10, number))
        rows.append(
            {
                "looks": f"{', '.join(map(str, SEEDS))} seeds",
                "values": parts.name,
                **rates(draws),
            }
        )
    draws = _of_metrics(simulation.num_draws, simulation.rng(11))
    rows.append(
        {"looks": f"{len(METRICS)} metrics", "values": "rankings", **rates(draws)}
    )
    return {LOOKS: rows}


def _judged(
    looks: Sequence[Mapping[int, Interval | None]], difference: float
) -> dict[str, bool]:
    """Returns rule -> whether a look claims a difference of 0, or finds the true one."""
    number = len(looks)
    rules = {
        "5 % each": [1] * number,
        "5 %/k": [*range(1, number + 1)],
        "5 %/(k (k + 1)) after the first": [
            1,
            *(k * (k + 1) for k in range(2, number + 1)),
        ],
        "declared": [number] * number,
    }
    shifts = {"": 0.0, "found, ": -difference}
    return {
        what + rule: any(
            excludes(look[k], shift) for look, k in zip(looks, divisors, strict=True)
        )
        for what, shift in shifts.items()
        for rule, divisors in rules.items()
    }


def _of_seeds(
    parts: Parts, num_draws: int, rng: Generator
) -> Iterator[Mapping[str, bool]]:
    shares, difference = (
        equal_shares(NUM_QUERIES),
        3 * parts.standard_error(max(SEEDS), NUM_QUERIES),
    )
    for _ in range(num_draws):
        a, b = parts.models([max(SEEDS)] * 2, NUM_QUERIES, rng)
        looks = [
            independent_replicates(a[:number], b[:number], shares) for number in SEEDS
        ]
        yield _judged(
            [{k: look.interval(LEVEL / k) for k in DIVISORS} for look in looks],
            difference,
        )


def _of_metrics(num_draws: int, rng: Generator) -> Iterator[Mapping[str, bool]]:
    for _ in range(num_draws):
        labels = (
            rng.integers(0, 5, 20 * NUM_QUERIES) * (rng.random(20 * NUM_QUERIES) < 0.5)
        ).astype(float)
        judged = Judgments(labels=labels, query_start=20 * np.arange(NUM_QUERIES + 1))
        models = [
            evaluate(judged, labels / 2 + rng.normal(size=len(labels)), METRICS)
            for _ in range(2)
        ]
        looks: list[dict[int, Interval | None]] = []
        for metric in METRICS:
            difference = models[0].per_query[metric] - models[1].per_query[metric]
            sample = PairedSample.of(difference[None, ~np.isnan(difference)])
            looks.append({k: student_intervals(sample, LEVEL / k)[0] for k in DIVISORS})
        yield _judged(looks, 0.03)
