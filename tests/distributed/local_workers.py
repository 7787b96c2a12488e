"""Workers of a LocalCluster without care for failures, for tests of what runs on them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import distributed
import numpy as np
from numpy.typing import NDArray
from xgboost import collective
from xgboost.tracker import RabitTracker


class LocalTeam:
    """The members of a fit, which exchange arrays with XGBoost's collective."""

    def __init__(self) -> None:
        self.rank, self.size = collective.get_rank(), collective.get_world_size()

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(collective.allreduce(values, collective.Op.SUM))

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        sizes = np.zeros(self.size, dtype=np.int64)
        sizes[self.rank] = len(values)
        ends = np.cumsum(self.total(sizes))
        bits = np.zeros(int(ends[-1]), dtype=np.int64)
        bits[ends[self.rank] - len(values) : ends[self.rank]] = np.ascontiguousarray(values).view(np.int64)
        return np.split(self.total(bits).view(values.dtype), ends[:-1])


def in_team(place: dict[str, Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with collective.CommunicatorContext(**place):
        return function(LocalTeam(), *arguments)


@dataclass(frozen=True)
class LocalMember:
    num_threads: int


@dataclass(frozen=True)
class LocalWorkers:
    client: Any
    addresses: tuple[str, ...]
    members: tuple[LocalMember, ...]

    def run(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        tasks = [
            self.client.submit(function, *each, workers=[address], pure=False)
            for address, each in zip(self.addresses, arguments, strict=True)
        ]
        return list(self.client.gather(tasks))

    def run_team(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        tracker = RabitTracker(n_workers=len(self.addresses), host_ip="127.0.0.1")
        tracker.start()
        place = {**tracker.worker_args(), "dmlc_retry": 1}
        calls = [
            ({**place, "dmlc_task_id": f"{rank:05d}"}, function, each) for rank, each in enumerate(arguments)
        ]
        return self.run(in_team, calls)


@contextlib.contextmanager
def local_workers(num_workers: int) -> Iterator[LocalWorkers]:
    with (
        distributed.LocalCluster(
            n_workers=num_workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(num_workers)
        threads = client.nthreads()
        members = tuple(LocalMember(threads[address]) for address in sorted(threads))
        yield LocalWorkers(client, tuple(sorted(threads)), members)
