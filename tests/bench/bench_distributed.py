"""Benchmark of distributed fits: native on workers of this machine, relative to one process.

    python tests/bench/bench_distributed.py [--members 1 2] [--documents 200000] [--trees 20] [--leaves 63]
    [--repeats 3]

Each worker has one thread; the fit in one process has as many threads as there are workers. Starting the
workers and giving them their shards is not part of the time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

from bench_jobs import fit_native, make_dataset, options, take_turns

from ltrbench.data import RankingDataset
from ltrbench.distributed import divide_queries, send_shards
from ltrbench.distributed.cluster import DaskWorkers
from ltrbench.rankers.native import NativeRanker


def bench(
    train: RankingDataset,
    num_members: int,
    num_trees: int,
    num_leaves: int,
    repeats: int,
) -> None:
    ranker = NativeRanker(num_trees=num_trees, num_leaves=num_leaves, num_threads=1)
    with DaskWorkers(workers=num_members, threads_per_worker=1).open() as workers:
        placed = send_shards(workers, divide_queries(train, num_members))
        ways: dict[str, Callable[[], object]] = {
            "workers": partial(ranker.fit_distributed, workers, placed),
            "one process": partial(
                fit_native, train, num_trees, num_leaves, num_members
            ),
        }
        take_turns(ways, 1)  # compiles
        taken = {
            name: statistics.median(times)
            for name, times in take_turns(ways, repeats).items()
        }
    ratio = taken["workers"] / taken["one process"]
    print(
        f"{num_members} workers: {taken['workers']:.2f} s; one process with {num_members} threads: "
        f"{taken['one process']:.2f} s; workers / one process = {ratio:.2f}",
        flush=True,
    )


def main() -> None:
    arguments = options(
        __doc__, members=[1, 2], documents=200_000, trees=20, leaves=63, repeats=3
    )
    train = make_dataset(arguments.documents, seed=0)
    for num_members in arguments.members:
        bench(train, num_members, arguments.trees, arguments.leaves, arguments.repeats)


if __name__ == "__main__":
    main()
