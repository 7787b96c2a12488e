"""The side of a worker process: each task of a round is one member of it.

A member first waits for the start signal, which the client gives when all members are present. So no function
begins unless all do.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import distributed

from ltrbench.distributed.connecting import ignore_interrupts
from ltrbench.distributed.failures import portable
from ltrbench.distributed.team import StoppedError, collective_team
from ltrbench.measure.provenance import versions

LIBRARIES = ("xgboost", "lightgbm")
"""Libraries whose versions must agree, besides those of the core."""
_LOOK_SECONDS = 0.2
"""Time between two looks at whether the task was cancelled."""


@dataclass(frozen=True)
class Member:
    """A worker process of a Dask cluster that takes part in fits.

    Attributes:
        rank: its number, by the order of the addresses, from 0.
        address: of the worker, as the scheduler knows it.
        num_threads: number of threads for a fit.
        nanny: address of the nanny, which starts the process again if it ends; None: there is none.
    """

    rank: int
    address: str
    host: str
    pid: int
    num_threads: int
    nanny: str | None

    def __str__(self) -> str:
        return f"member {self.rank}, the Dask worker {self.address} on {self.host} (process {self.pid})"


@dataclass(frozen=True)
class Order:
    """What a member needs besides its function.

    Attributes:
        round_id: identifies the round on all workers.
        in_team: whether the function gets a `CollectiveTeam` as its first argument.
        patience: maximum seconds until the start signal.
        timeout: maximum seconds of one exchange of the team.
    """

    round_id: str
    rank: int
    size: int
    in_team: bool
    patience: float
    timeout: float


@dataclass(frozen=True)
class MemberOutcome:
    """The result of a member's function, or the exception that it raised."""

    result: Any = None
    error: BaseException | None = None


@dataclass
class _Presence:
    """A task of this process that takes part in a round."""

    has_started: threading.Event = field(default_factory=threading.Event)
    contact: Mapping[str, Any] = field(default_factory=dict)


_present: dict[str, _Presence] = {}
"""Round -> the task of this process. Tasks of several clients may be present at the same time."""


def introduce(is_child: bool) -> tuple[str, int, dict[str, str]]:
    """Runs in the event loop of a worker. Returns its host, process and versions.

    Args:
        is_child: whether Ctrl-C in the terminal of the client reaches the worker.
    """
    if is_child:
        ignore_interrupts()
    return socket.gethostname(), os.getpid(), versions(LIBRARIES)


def is_present(round_id: str) -> bool:
    """Runs in the event loop of a worker. Returns whether a task of this round runs here."""
    return round_id in _present


def start(round_id: str, contact: Mapping[str, Any]) -> None:
    """Runs in the event loop of a worker: gives the start signal to its task."""
    presence = _present.get(round_id)
    if presence is not None:
        presence.contact = contact
        presence.has_started.set()


def take_part(order: Order, call: bytes) -> MemberOutcome:
    """The task of a member. It returns an exception, because Dask would print one that it raised.

    Args:
        call: the pickled function and its arguments.
    """
    is_cancelled = _cancellation_of_this_task()
    presence = _present[order.round_id] = _Presence()
    try:
        function, arguments = pickle.loads(call)
        _wait_for_start(presence, order, is_cancelled)
        if not order.in_team:
            return MemberOutcome(function(*arguments))
        with collective_team(order.rank, order.size, presence.contact, order.timeout, is_cancelled) as team:
            return MemberOutcome(function(team, *arguments))
    except BaseException as error:  # also SystemExit, which would end the worker
        return MemberOutcome(error=portable(error))
    finally:
        del _present[order.round_id]


def _wait_for_start(presence: _Presence, order: Order, is_cancelled: Callable[[], bool]) -> None:
    end = time.monotonic() + order.patience
    while not presence.has_started.wait(_LOOK_SECONDS):
        if is_cancelled() or time.monotonic() > end:
            raise StoppedError("the members were not all present")


def _cancellation_of_this_task() -> Callable[[], bool]:
    """Returns a function that tells whether the current task of Dask was cancelled, or its client is gone."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return is_cancelled


_processes: dict[int, Any] = {}
"""In a nanny: process number -> Dask's object of the worker process, which keeps the exit code."""


def remember_process(dask_worker: distributed.Nanny) -> None:
    """Runs in the nanny of a worker, which otherwise forgets how its process ended."""
    process = dask_worker.process
    if process is not None and process.process is not None:
        _processes[process.process.pid] = process.process


def exit_code_of(pid: int) -> int | None:
    """Runs in the nanny of a worker. Returns the exit code of an earlier process; None: not known."""
    process = _processes.pop(pid, None)
    return None if process is None else process.exitcode
