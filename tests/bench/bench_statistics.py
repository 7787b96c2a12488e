"""Benchmark of statistics: seconds and peak memory of all statistics in a comparison of ten models.

    python tests/bench/bench_statistics.py [--systems 10] [--queries 30000] [--draws 10000]

It has three parts: all pairs, the interval of every system, and the simultaneous intervals of all pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from bench_jobs import options

from ltrbench.measure import MemoryMeter, Stopwatch
from ltrbench.statistics import PairedSample, compare_pairs, simultaneous_intervals, system_intervals


def sample_of(num_systems: int, num_queries: int) -> PairedSample:
    """Returns values like those of NDCG, in five folds."""
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.1, size=(num_systems, num_queries))
    values = np.clip(rng.beta(2, 2, num_queries) + noise, 0, 1)
    return PairedSample.of(values, strata=np.arange(num_queries) % 5)


def main() -> None:
    arguments = options(__doc__, systems=10, queries=30_000, draws=10_000)

    sample = sample_of(arguments.systems, arguments.queries)
    pairs = list(itertools.combinations(range(arguments.systems), 2))
    rounds: dict[str, Callable[[], object]] = {
        f"{len(pairs)} pairs": lambda: compare_pairs(sample, pairs, arguments.draws),
        "own intervals": lambda: system_intervals(sample),
        "simultaneous intervals": lambda: simultaneous_intervals(sample, pairs, arguments.draws),
    }
    print(f"{arguments.systems} systems x {arguments.queries:,} queries, {arguments.draws:,} draws:")
    for name, call in rounds.items():
        watch, memory = Stopwatch(), MemoryMeter()
        with memory, watch:
            call()
        print(f"  {name}: {watch.seconds:.1f} s, {memory.rise_mb or 0:.0f} MB above the sample")


if __name__ == "__main__":
    main()
