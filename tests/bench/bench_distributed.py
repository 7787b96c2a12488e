"""Benchmark of distributed fits: the all-reduce of a team by size of the array and number of members.

    python tests/bench/bench_distributed.py [--members 1 2 3] [--repeats 200]

Each member adds an int64 array of 8 bytes to 8 MB to those of the others, as it adds its histograms. The time
is the median of one call on rank 0; throughput is the size of the array over that time. Starting is the time
of a call on the workers that does nothing, with and without the collective.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from ltrbench.distributed.cluster import DaskWorkers
from ltrbench.distributed.team import CollectiveTeam

SIZES = (8, 80, 800, 8_000, 80_000, 278_528, 800_000, 8_000_000)
"""Bytes. 278,528 bytes are 136 features x 256 bins x 8 bytes."""


def seconds_of_total(team: CollectiveTeam, num_bytes: int, repeats: int) -> float:
    """Returns the median time of `CollectiveTeam.total`."""
    values = np.ones(num_bytes // 8, dtype=np.int64)
    taken = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        team.total(values)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[1:])  # without the first call, which fills the caches


def nothing(*arguments: object) -> None:
    """What a call on the workers costs by itself."""


def bench(num_members: int, repeats: int) -> None:
    print(f"{num_members} {'member' if num_members == 1 else 'members'}")
    with DaskWorkers(workers=num_members, threads_per_worker=1).open() as workers:
        for name, run in (("run", workers.run), ("run_team", workers.run_team)):
            taken = []
            for _ in range(6):
                begin = time.perf_counter()
                run(nothing, [()] * num_members)
                taken.append(time.perf_counter() - begin)
            print(f"  starting, {name}: {1e3 * statistics.median(taken[1:]):.0f} ms")
        for num_bytes in SIZES:
            calls = max(5, min(repeats, 40_000_000 // num_bytes))
            taken = workers.run_team(seconds_of_total, [(num_bytes, calls)] * num_members)
            print(
                f"  {num_bytes:>9,} bytes: {1e3 * taken[0]:8.3f} ms, {1e-6 * num_bytes / taken[0]:8.1f} MB/s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--repeats", type=int, default=200)
    arguments = parser.parse_args()
    for num_members in arguments.members:
        bench(num_members, arguments.repeats)


if __name__ == "__main__":
    # Workers import these functions from this module by its name.
    sys.path.insert(0, str(Path(__file__).parent))
    from bench_distributed import main as main_of_module

    main_of_module()
