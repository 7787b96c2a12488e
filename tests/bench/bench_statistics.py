"""Benchmark of statistics: seconds and peak memory of all statistics in a comparison of ten models.

    python tests/bench/bench_statistics.py [--systems 10] [--queries 30000] [--draws 10000] [--trainings 25]

Its parts are all pairs, the interval of every system, the simultaneous intervals of all pairs, and the claims
about models that are trained several times on one split, or once on each of so many folds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from bench_jobs import options

from ltrbench.compare import Settings
from ltrbench.compare.cells import (
    DataCell,
)
from ltrbench.compare.claims import all_pairs
from ltrbench.compare.table import (
    PairedQueries,
    Trainings,
)
from ltrbench.measure import MemoryMeter, Stopwatch
from ltrbench.statistics import (
    PairedSample,
    compare_pairs,
    simultaneous_intervals,
    system_intervals,
)


def sample_of(num_systems: int, num_queries: int) -> PairedSample:
    """Returns values like those of NDCG, in five folds."""
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.1, size=(num_systems, num_queries))
    values = np.clip(rng.beta(2, 2, num_queries) + noise, 0, 1)
    return PairedSample.of(values, strata=np.arange(num_queries) % 5)


def trained(sample: PairedSample, num_trainings: int, num_folds: int) -> PairedQueries:
    """Returns the sample with trainings of every system that vary around its values."""
    rng = np.random.default_rng(1)
    number = sample.num_queries
    cells = np.arange(number) * num_folds // number
    sizes = np.bincount(cells)
    trainings = [
        tuple(
            Trainings(
                values=values[cells == fold]
                + rng.normal(scale=0.01, size=(num_trainings, sizes[fold])),
                keys=tuple(range(num_trainings)),
                resample=None,
                is_constant=False,
                ranker_class=f"class of {label}",
                seconds=1.0,
                search_seeds=frozenset(),
                is_imported=False,
            )
            for fold in range(num_folds)
        )
        for label, values in enumerate(sample.values)
    ]
    return PairedQueries(
        labels=tuple(map(str, range(len(trainings)))),
        sample=PairedSample.of(sample.values, strata=cells),
        cells=tuple(
            DataCell("made up", fold, f"train {fold}", "valid", "test")
            for fold in range(num_folds)
        ),
        cell_of_query=cells,
        query_in_cell=np.concatenate([np.arange(size) for size in sizes]),
        judgments=(),
        test_share=0.25,
        trainings=tuple(trainings),
        query_keys=np.array([f"{query:032x}" for query in range(number)]),
    )


def main() -> None:
    arguments = options(__doc__, systems=10, queries=30_000, draws=10_000, trainings=25)

    sample = sample_of(arguments.systems, arguments.queries)
    pairs = list(itertools.combinations(range(arguments.systems), 2))
    settings, number = Settings(num_draws=arguments.draws), arguments.trainings
    of_seeds, of_folds = trained(sample, number, 1), trained(sample, 1, number)
    rounds: dict[str, Callable[[], object]] = {
        f"{len(pairs)} pairs": lambda: compare_pairs(sample, pairs, arguments.draws),
        "own intervals": lambda: system_intervals(sample),
        "simultaneous intervals": lambda: simultaneous_intervals(
            sample, pairs, arguments.draws
        ),
        f"claims from {number} trainings": lambda: all_pairs(
            of_seeds, "ndcg@10", settings
        ),
        f"claims from {number} folds": lambda: all_pairs(of_folds, "ndcg@10", settings),
    }
    print(
        f"{arguments.systems} systems x {arguments.queries:,} queries, {arguments.draws:,} draws:"
    )
    for name, call in rounds.items():
        watch, memory = Stopwatch(), MemoryMeter()
        with memory, watch:
            call()
        print(
            f"  {name}: {watch.seconds:.1f} s, {memory.rise_mb or 0:.0f} MB above the sample"
        )


if __name__ == "__main__":
    main()
