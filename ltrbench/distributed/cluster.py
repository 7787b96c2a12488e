"""A Dask cluster on which one fit runs: its workers, functions that all of them run, and what they exchange.

    with DaskWorkers(workers=2).open() as workers:
        workers.run(function, [(1,), (2,)])        # function(1) on rank 0, function(2) on rank 1
        workers.run_team(function, [(1,), (2,)])   # function(team, 1) and function(team, 2)

The functions of a team run at the same time, and exchange arrays with the collective of XGBoost, which all
members join before any function begins.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

try:
    import dask
    import distributed
    from distributed.utils import get_ip
    from xgboost import collective
    from xgboost.core import _LIB, XGBoostError
    from xgboost.tracker import RabitTracker
except ImportError as error:
    raise ImportError(
        "distributed=dask needs Dask and XGBoost: pip install 'ltrbench[dask]'"
    ) from error

import numpy as np
from numpy.typing import NDArray

from ltrbench.distributed import Distribution, MemberError, portable
from ltrbench.distributed.scheduler import (
    LOCAL_CLUSTER,
    STOP_SECONDS,
    connected,
    disconnect,
    end_tasks,
    ignore_interrupts,
    present_workers,
    silence_dask,
    without_warnings,
)
from ltrbench.errors import ConfigError, LtrbenchError
from ltrbench.measure import available_cores, versions
from ltrbench.native.team import ALONE, Team
from ltrbench.settings import check, setting

# ---- What the members of a team exchange, with the collective of XGBoost: a `Team` of the native engine.


class LostContactError(Exception):
    """Exchange that failed because another member left it."""


class CollectiveTeam:
    """The members of a fit, each in its process.

    All make the same calls in the same order, in the thread that received the team, and get the same bits.

    Attributes:
        rank: number of this member, from 0.
        size: number of members.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the elementwise sum over the members, the same array on each."""
        return self._reduced(values, collective.Op.SUM)

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the elementwise maximum over the members; a zero of either sign is returned as +0.0."""
        # Which of -0.0 and +0.0 is the maximum would depend on the order of the members.
        return self._reduced(values + 0.0, collective.Op.MAX)

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the arrays of all members by rank, bit for bit; their lengths and types may differ."""
        with _in_contact():
            return [collective.broadcast(values, rank) for rank in range(self.size)]

    def _reduced(self, values: NDArray[Any], op: collective.Op) -> NDArray[Any]:
        if values.size == 0:
            return values.copy()
        with _in_contact():
            reduced: NDArray[Any] = collective.allreduce(values, op)
        return reduced.reshape(values.shape)


@contextlib.contextmanager
def _in_contact() -> Iterator[None]:
    """Raises LostContactError instead of XGBoost's error in the block."""
    try:
        yield
    except XGBoostError as error:
        raise LostContactError(_first_line(error)) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _print_message(message: bytes) -> None:
    """Prints a message of XGBoost, as it does by itself, without its reports of ranks."""
    if b" got rank " not in message:
        print(message.decode(errors="replace"), file=sys.stderr)


_print_callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_print_message)


@contextlib.contextmanager
def _collective_team(
    rank: int, size: int, contact: Mapping[str, Any], timeout: float
) -> Iterator[Team]:
    """Joins the collective as one of its members, for the current thread.

    A member that leaves, even by an exception, closes its connections, so the others' exchanges fail at once.

    Args:
        contact: the tracker, which all members can reach: `RabitTracker.worker_args` of a tracker that sorts
            by task; empty for one member.
        timeout: maximum seconds that an exchange waits for another member.

    Raises:
        LostContactError: The tracker cannot be reached, or another member does not join.
    """
    if size == 1:
        yield ALONE
        return
    # A callback belongs to a thread, and XGBoost's Python package has set it for its own thread only.
    _LIB.XGBRegisterLogCallback(_print_callback)
    # The tracker gives ranks in the order of the names of the tasks.
    settings = {
        **contact,
        "dmlc_task_id": f"{rank:06d}",
        "dmlc_timeout": int(timeout),
        "dmlc_retry": 2,
    }
    try:
        collective.init(**settings)
    except XGBoostError as error:
        raise LostContactError(
            f"could not join the other members: {_first_line(error)}"
        ) from error
    try:
        yield CollectiveTeam(rank, size)
    finally:
        # The tracker is gone if the process that started the fit is: then nobody waits for the result.
        with contextlib.suppress(XGBoostError):
            collective.finalize()


# ---- Functions that all workers run.

LIBRARIES = ("xgboost", "lightgbm")
"""Libraries whose versions must agree, besides those of the core."""
_MUST_AGREE = ("ltrbench", "numpy", "numba", *LIBRARIES)
"""Versions that must be the same everywhere: members exchange numbers that each computes by itself."""
_LOOK_SECONDS = 0.3
"""Time between two looks at the workers of the cluster."""
_CONSEQUENCES = ("LostContactError", "XGBoostError", "LightGBMError")
"""Exceptions that members raise when another member has left."""
STOPPING_SECONDS = 6.0
"""How long members may take to end after one of them failed, before their processes are ended."""


@dataclass(frozen=True)
class Member:
    """A worker process of a Dask cluster that takes part in fits.

    Attributes:
        rank: its number, by the order of the addresses, from 0.
        address: of the worker, as the scheduler knows it.
        num_threads: number of threads for a fit.
    """

    rank: int
    address: str
    host: str
    pid: int
    num_threads: int

    def __str__(self) -> str:
        return f"member {self.rank}, the Dask worker {self.address} on {self.host} (process {self.pid})"


Outcome = tuple[Any, BaseException | None]
"""Result of a member's function, and the exception that it raised."""
_TeamOf = tuple[int, Mapping[str, Any], float]
"""Number of members, contact and timeout of a team."""


class Workers:
    """The workers of a Dask cluster on which one function runs at the same time.

    Attributes:
        client: the connection to the scheduler.
        members: the workers by rank.
        name: the cluster in messages.
    """

    def __init__(
        self, client: distributed.Client, settings: DaskWorkers, name: str
    ) -> None:
        """Waits for the workers and checks their versions.

        Raises:
            ConfigError: There are too few workers, or their versions differ from those of this process.
        """
        self.client = client
        self._settings = settings
        self.name = name
        number = settings.workers or 1
        try:
            client.wait_for_workers(number, timeout=settings.wait)
        except TimeoutError:
            count = len(present_workers(client))
            raise ConfigError(
                f"distributed.workers is {settings.workers}, but {name} has {count} workers after "
                f"{settings.wait:g} s. Start more with `dask worker {client.scheduler.address}`, set fewer "
                "distributed.workers, or more seconds of distributed.wait."
            ) from None
        threads = present_workers(client)
        tasks = client.processing()
        # The least occupied ones.
        chosen = sorted(
            threads, key=lambda address: (len(tasks.get(address, ())), address)
        )
        chosen = sorted(chosen[: settings.workers])
        known = client.run(
            _introduce, settings.scheduler is None, workers=chosen, on_error="return"
        )
        for address, introduction in known.items():
            self._check(address, introduction)
        members = []
        for rank, address in enumerate(chosen):
            host, pid = known[address][:2]
            member = Member(
                rank=rank,
                address=address,
                host=host,
                pid=pid,
                num_threads=settings.threads_per_worker or threads[address],
            )
            members.append(member)
        self.members = tuple(members)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses by rank."""
        return tuple(member.address for member in self.members)

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Calls a function once on each worker, and returns the results by rank.

        Args:
            function: of a module that the workers can import.
            arguments: the arguments of each call, by rank.

        Raises:
            MemberError: A member failed or ended. All others have been stopped.
        """
        return self._results(function, arguments, None)

    def run_team(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Like `run`, for functions that exchange values: the first argument of each is a `CollectiveTeam`.

        The collective of XGBoost is open in the thread of the function, so its training is distributed too.
        """
        size = len(self.members)
        timeout = self._settings.timeout
        if size == 1:
            return self._results(function, arguments, (size, {}, timeout))
        # The address of this machine on the way to the scheduler, which workers can reach too.
        host_ip = "127.0.0.1"
        if self._settings.scheduler is not None:
            _, _, place = self.client.scheduler.address.rpartition("://")
            host, _, _ = place.rpartition(":")
            host_ip = get_ip(host.strip("[]"))
        tracker = RabitTracker(
            n_workers=size,
            host_ip=host_ip,
            sortby="task",
            timeout=max(int(self._settings.wait), 1),
        )
        tracker.start()
        try:
            return self._results(
                function, arguments, (size, tracker.worker_args(), timeout)
            )
        finally:
            # It complains if members left before it was done.
            with contextlib.suppress(XGBoostError):
                tracker.free()

    def _results(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        team: _TeamOf | None,
    ) -> list[Any]:
        arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
        tasks: list[Any] = []
        outcomes: dict[int, Outcome] = {}
        try:
            with without_warnings():
                for member, values in zip(self.members, arguments, strict=True):
                    # Pickled, because Dask closes the connection to a worker that cannot import a function.
                    call = pickle.dumps((function, values))
                    key = f"ltrbench-{uuid.uuid4().hex}"
                    task = self.client.submit(
                        _take_part,
                        call,
                        member.rank,
                        team,
                        key=key,
                        workers=[member.address],
                        pure=False,
                    )
                    tasks.append(task)
                    task.add_done_callback(
                        lambda _, rank=member.rank: arrived.put(rank)
                    )
                self._wait(tasks, arrived, outcomes)
        finally:
            running = [task for rank, task in enumerate(tasks) if rank not in outcomes]
            if running and self.client.status == "running":
                end_tasks(self.client, running)
        failures = []
        for rank, (_, error) in outcomes.items():
            if error is not None:
                failures.append((self.members[rank], error))
        if not failures:
            return [outcomes[member.rank][0] for member in self.members]
        # When a member leaves, the exchanges of the others fail.
        failures.sort(key=_is_consequence)
        raise self._described(*failures[0]) from failures[0][1]

    def _wait(
        self,
        tasks: Sequence[Any],
        arrived: queue.SimpleQueue[int],
        outcomes: dict[int, Outcome],
    ) -> None:
        """Waits for the outcomes of all members; after a failure, a few seconds for those of the others.

        A task whose worker has died never returns in Dask, because it is bound to that worker: its address,
        which the scheduler drops, shows the loss.
        """
        end: float | None = None
        while len(outcomes) < len(tasks) and (end is None or time.monotonic() < end):
            with contextlib.suppress(queue.Empty):
                rank = arrived.get(timeout=_LOOK_SECONDS)
                try:
                    outcomes[rank] = tasks[rank].result(timeout=STOP_SECONDS)
                # Dask's own errors: the worker ended before its outcome arrived, or it cannot be pickled.
                except Exception as error:
                    outcomes[rank] = None, error
            try:
                present = present_workers(self.client)
            except (OSError, TimeoutError):
                reason = "the scheduler does not answer any more. Start it, and repeat the command."
                raise MemberError(f"{self.name}: {reason}") from None
            lost = [
                member.rank for member in self.members if member.address not in present
            ]
            outcomes |= {
                rank: (None, _LostError()) for rank in lost if rank not in outcomes
            }
            if end is None and any(error for _, error in outcomes.values()):
                end = time.monotonic() + STOPPING_SECONDS

    def _described(self, member: Member, error: BaseException) -> MemberError:
        """Returns the error about a failure, with the member, the cause and the remedy."""
        if isinstance(
            error, _LostError | distributed.KilledWorker | distributed.CancelledError
        ):
            return MemberError(
                f"{self.name}: {member}, ended or lost its connection. Its log has the reason. If memory ran "
                "out, use more workers on more machines, or fewer bins and leaves, and repeat the command."
            )
        if isinstance(error, LostContactError):
            return MemberError(
                f"{self.name}: {member}, {error}. All {len(self.members)} workers must run at the same time: "
                "wait until none is occupied by another task, or set distributed.wait to more seconds."
            )
        if isinstance(error, LtrbenchError):
            return MemberError(f"{self.name}: {member}, reports: {error}")
        return MemberError(
            f"{self.name}: {member}, raised {type(error).__name__}: {error}. Correct the cause, or fit with "
            "distributed=none; LTRBENCH_DEBUG=1 shows the traceback."
        )

    def _check(self, address: str, introduction: Any) -> None:
        """
        Raises:
            ConfigError: The worker cannot import ltrbench, or has other versions.
        """
        if isinstance(introduction, BaseException):
            reason = f"cannot import what a fit needs: {type(introduction).__name__}: {introduction}"
        else:
            there = introduction[2]
            here = versions(LIBRARIES)
            differing = [name for name in _MUST_AGREE if there[name] != here[name]]
            different = [
                f"{name} {there[name]} (here {here[name]})" for name in differing
            ]
            if not different:
                return
            reason = f"on {introduction[0]} has {', '.join(different)}"
        remedy = "Install the same version there: pip install 'ltrbench[dask]'."
        raise ConfigError(f"{self.name}: the worker {address} {reason}. {remedy}")


class _LostError(Exception):
    """The process of a member ended, or lost its connection."""


def _is_consequence(failure: tuple[Member, BaseException]) -> bool:
    """Returns whether the error of a member may follow from that of another one."""
    _, error = failure
    return type(error).__name__ in _CONSEQUENCES


def _introduce(is_child: bool) -> tuple[str, int, dict[str, str]]:
    """Runs in the event loop of a worker. Returns its host, process and versions.

    Args:
        is_child: whether Ctrl-C in the terminal of the client reaches the worker.
    """
    if is_child:
        ignore_interrupts()
    return socket.gethostname(), os.getpid(), versions(LIBRARIES)


def _take_part(call: bytes, rank: int, team: _TeamOf | None) -> Outcome:
    """The task of a member. It returns an exception, because Dask would print one that it raised.

    Args:
        call: the pickled function and its arguments.
        team: None: the function gets no `CollectiveTeam`.
    """
    try:
        function, arguments = pickle.loads(call)
        if team is None:
            return function(*arguments), None
        size, contact, timeout = team
        with _collective_team(rank, size, contact, timeout) as members:
            return function(members, *arguments), None
    except BaseException as error:  # also SystemExit, which would end the worker
        return None, portable(error)


# ---- The setting `distributed`.

_CONNECT_SECONDS = 30.0
"""Limit for the connection to a scheduler."""
_RETURN_TIME = "10 minutes"
"""How long a cluster that is started here waits for a worker process that is started again. Dask's default of
15 seconds is too short on a busy machine."""


@dataclass(kw_only=True)
class DaskWorkers(Distribution):
    """Fits on the workers of a Dask cluster: of `scheduler`, or of a cluster that is started on this machine
    and ends with the context."""

    workers: int | None = setting(2, at_least=1)
    """Number of workers that fit one model; None: all of the scheduler's that are there."""
    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786; None: start a cluster on this machine."""
    threads_per_worker: int | None = setting(None, at_least=1)
    """Threads of each worker; None: a started worker has its share of the cores, any other as many as Dask
    gives it."""
    wait: float = setting(30.0, above=0)
    """Maximum seconds until the workers are there, and until all have begun a fit."""
    timeout: float = setting(600.0, at_least=1)
    """Maximum seconds that a worker waits for the others in one exchange."""

    def __post_init__(self) -> None:
        check(self, "distributed.")
        if self.scheduler is None and self.workers is None:
            raise ConfigError(
                "distributed.workers is null, and so is distributed.scheduler. Set the number of workers to "
                "start, as in distributed.workers=2, or distributed.scheduler=tcp://HOST:8786."
            )

    @contextlib.contextmanager
    def open(self) -> Iterator[Workers]:
        silence_dask()
        cluster = None
        client = None
        name = f"distributed.scheduler={self.scheduler}"
        try:
            with without_warnings():
                if self.scheduler is None and self.workers is not None:
                    name = f"distributed.workers={self.workers} on this machine"
                    dask.config.set(
                        {"distributed.deploy.lost-worker-timeout": _RETURN_TIME}
                    )
                    threads = self.threads_per_worker
                    threads = threads or max(available_cores() // self.workers, 1)
                    cluster = distributed.LocalCluster(
                        n_workers=self.workers,
                        threads_per_worker=threads,
                        scheduler_kwargs={"dashboard": False},
                        **LOCAL_CLUSTER,
                    )
                client = connected(
                    self.scheduler or cluster,
                    _CONNECT_SECONDS,
                    name,
                    "distributed.scheduler",
                )
                workers = Workers(client, self, name)
            yield workers
        finally:
            disconnect(client, cluster)
