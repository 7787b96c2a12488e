"""Benchmark of distributed fits: the all-reduce of a team, the share of communication in a fit of native, and
what they predict for many machines.

    python tests/bench/bench_distributed.py [--members 1 2 3] [--repeats 200] [--documents 400000]
        [--features 136] [--trees 10] [--leaves 63] [--machines 16] [--latency 0.0001] [--bandwidth 1.25e9]

Each member adds an int64 array of 8 bytes to 8 MB to those of the others, as it adds its histograms. The time
is the median of one call on rank 0; throughput is the size of the array over that time. Starting is the time
of a call on the workers that does nothing, with and without the collective.

The fit is of random features; each member has one thread. Communication is the time in exchanges on rank 0,
which includes waiting for the slowest member. For n machines the time is predicted as

    local work of one member / n + sum over exchanges of 2 (n - 1) (latency + bytes / (n bandwidth)),

the cost of a ring all-reduce: each machine sends n - 1 parts of the array, twice.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_jobs import median_seconds, options
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.distributed.base import divide_queries, held, place
from ltrbench.distributed.cluster import CollectiveTeam, DaskWorkers, Workers
from ltrbench.native.team import Placement, Team
from ltrbench.rankers.base import MemberMonitor
from ltrbench.rankers.native import NativeRanker

SIZES = (8, 80, 800, 8_000, 80_000, 278_528, 800_000, 8_000_000)
"""Bytes. 278,528 bytes are 136 features x 256 bins x 8 bytes."""


def seconds_of_total(team: CollectiveTeam, num_bytes: int, repeats: int) -> float:
    """Returns the median time of `CollectiveTeam.total`."""
    values = np.ones(num_bytes // 8, dtype=np.int64)
    team.total(values)  # fills the caches
    return median_seconds(lambda: team.total(values), repeats)


def nothing(*arguments: object) -> None:
    """Does nothing: the time of a call on the workers."""


def bench_exchanges(workers: Workers, repeats: int) -> None:
    num_members = len(workers.addresses)
    for name, run in (("run", workers.run), ("run_team", workers.run_team)):
        run(nothing, [()] * num_members)
        taken = median_seconds(partial(run, nothing, [()] * num_members), 5)
        print(f"  starting, {name}: {1e3 * taken:.0f} ms")
    for num_bytes in SIZES:
        calls = max(5, min(repeats, 40_000_000 // num_bytes))
        each = workers.run_team(seconds_of_total, [(num_bytes, calls)] * num_members)[0]
        print(f"  {num_bytes:>9,} bytes: {1e3 * each:8.3f} ms, {1e-6 * num_bytes / each:8.1f} MB/s")


class TimedTeam:
    """A team that measures its exchanges.

    Attributes:
        seconds: wall time of all exchanges.
        sizes: number of bytes that each all-reduce adds.
    """

    def __init__(self, team: Team) -> None:
        self.rank, self.size = team.rank, team.size
        self.seconds, self.sizes = 0.0, list[int]()
        self._team = team

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        self.sizes.append(values.nbytes)
        totals: NDArray[np.int64] = self._timed(self._team.total, values)
        return totals

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        self.sizes.append(values.nbytes)
        maxima: NDArray[np.float64] = self._timed(self._team.largest, values)
        return maxima

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        parts: list[NDArray[Any]] = self._timed(self._team.joined, values)
        self.sizes.append(sum(part.nbytes for part in parts))
        return parts

    def _timed(self, exchange: Callable[[Any], Any], values: NDArray[Any]) -> Any:
        begin = time.perf_counter()
        result = exchange(values)
        self.seconds += time.perf_counter() - begin
        return result


class Fit(NamedTuple):
    """Seconds of a fit, seconds of its exchanges, and the bytes of each exchange."""

    seconds: float
    in_exchanges: float
    sizes: list[int]


def timed_fit(team: Team, ranker: NativeRanker, key: str) -> Fit:
    """Fits on a worker, after the compilation."""
    ranker.warm_up()
    ranker.warm_up_member()
    shard, timed = held(key), TimedTeam(team)
    monitor = MemberMonitor(None, timed, shard, None, ())
    timed.total(np.zeros(1, dtype=np.int64))  # all members begin together
    timed.seconds, timed.sizes = 0.0, []
    begin = time.perf_counter()
    placement = Placement.among(timed, shard.queries, shard.dataset.query_sizes)
    ranker.fit_member(shard.dataset, placement, None, monitor)
    return Fit(time.perf_counter() - begin, timed.seconds, timed.sizes)


def bench_fit(workers: Workers, train: RankingDataset, ranker: NativeRanker) -> Fit:
    placed = place(workers, divide_queries(train, len(workers.addresses)))
    fit: Fit = workers.run_team(timed_fit, [(ranker, key) for key in placed.keys])[0]
    print(
        f"  fit of native: {fit.seconds:.2f} s, of which {fit.in_exchanges:.2f} s "
        f"({fit.in_exchanges / fit.seconds:.0%}) in {len(fit.sizes)} exchanges, {sum(fit.sizes) / 1e6:.1f} MB"
    )
    return fit


def generated(num_documents: int, num_features: int) -> RankingDataset:
    """Returns 120 documents per query, with random features of which three decide the labels."""
    rng = np.random.default_rng(0)
    rows = num_documents // 120 * 120
    features = rng.random((rows, num_features), dtype=np.float32)
    utility = features[:, 0] + features[:, 1] * features[:, 2] + rng.normal(0, 0.3, rows)
    return RankingDataset(
        features=features,
        labels=np.clip(np.floor(2.5 * utility), 0, 4),
        query_start=np.arange(0, rows + 1, 120),
    )


def predict_many(one: Fit, several: Fit, num_machines: int, latency: float, bandwidth: float) -> None:
    """Prints the predicted time on many machines.

    Args:
        one: the fit of one member, without exchanges.
        several: a fit of several members, for the sizes of its exchanges.
    """
    sizes = np.array(several.sizes)
    steps = 2 * (num_machines - 1)
    waiting = len(sizes) * steps * latency
    sending = steps * sizes.sum() / (num_machines * bandwidth)
    local = one.seconds / num_machines
    whole = local + waiting + sending
    print(
        f"{num_machines} machines: local work {one.seconds:.2f} s / {num_machines} = {local:.2f} s; latency "
        f"{len(sizes)} x {steps} x {1e3 * latency:g} ms = {waiting:.2f} s; transfer {steps} x "
        f"{sizes.sum() / 1e6:.1f} MB / ({num_machines} x {bandwidth / 1e9:g} GB/s) = {sending:.2f} s; "
        f"{whole:.2f} s in all, of which {1 - local / whole:.0%} communication"
    )


def main() -> None:
    arguments = options(
        __doc__,
        members=[1, 2, 3],
        repeats=200,
        documents=400_000,
        features=136,
        trees=10,
        leaves=63,
        machines=16,
        latency=1e-4,
        bandwidth=1.25e9,
    )
    train = generated(arguments.documents, arguments.features)
    ranker = NativeRanker(num_trees=arguments.trees, num_leaves=arguments.leaves, num_threads=1)
    fits = {}
    for num_members in arguments.members:
        print(f"{num_members} {'member' if num_members == 1 else 'members'}")
        with DaskWorkers(workers=num_members, threads_per_worker=1).open() as workers:
            bench_exchanges(workers, arguments.repeats)
            fits[num_members] = bench_fit(workers, train, ranker)
    if 1 in fits and len(fits) > 1:
        predict_many(fits[1], fits[max(fits)], arguments.machines, arguments.latency, arguments.bandwidth)


if __name__ == "__main__":
    # Workers import these functions from this module by its name.
    sys.path.insert(0, str(Path(__file__).parent))
    from bench_distributed import main as main_of_module

    main_of_module()
