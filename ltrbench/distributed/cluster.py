"""The side of the client: a Dask cluster, its workers, and rounds in which all of them run a function.

The settings of a Dask cluster on which one fit runs: it is started here, or it runs already.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import pickle
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ltrbench.errors import ConfigError, LtrbenchError, require

try:
    import dask
    import distributed
    from distributed.utils import get_ip
    from xgboost.core import XGBoostError
    from xgboost.tracker import RabitTracker
except ImportError as error:
    raise ImportError("distributed=dask needs Dask and XGBoost: pip install 'ltrbench[dask]'") from error

from ltrbench.distributed.base import Distribution, MemberError
from ltrbench.distributed.members import (
    ANSWER_SECONDS,
    LIBRARIES,
    Member,
    MemberOutcome,
    Order,
    answers,
    connected,
    disconnect,
    end_processes,
    introduce,
    is_present,
    present_workers,
    silence_dask,
    start,
    take_part,
    without_warnings,
)
from ltrbench.measure import available_cores
from ltrbench.provenance import versions

# ---- A round: one function runs on all members at the same time. This is the side of the client.
#
#     present     every member has begun its task and waits for the start signal
#     running     the functions run; the scheduler is asked which workers it still has
#     ended       every outcome has arrived, or one member failed and the others are stopped
#
# A task whose worker has died never returns in Dask, because it is bound to that worker: a lost member is
# noticed by its address, which the scheduler drops.

_LOOK_SECONDS = 0.3
"""Time between two looks at the workers of the cluster."""
_POLL_SECONDS = 0.05
"""Time between two questions whether all members are present."""
SILENCE_SECONDS = 10.0
"""How long the connection to the scheduler may be interrupted."""
CAUSE_SECONDS = 3.0
"""How long the first cause is looked for when a member reports that another one left."""
STOPPING_SECONDS = 6.0
"""How long members may take to end after they were stopped, before their processes are ended."""
BYTES_PER_SECOND = 10e6
"""The slowest rate at which arguments reach the workers, by which the limit for the start is extended."""
EXTRA_SECONDS = 30.0
"""How much longer than this process a member waits for the others. This process knows who is absent, but may
be late on a busy machine."""

_CONSEQUENCES = ("LostContactError", "StoppedError", "XGBoostError", "LightGBMError")
"""Exceptions that members raise when another member has left. They are reported only if no other cause is
noticed."""


@dataclass(frozen=True)
class Connection:
    """A connection to a Dask cluster.

    Attributes:
        name: the cluster in messages.
        is_local: whether this process started the cluster.
        patience: maximum seconds until the workers are there, and until all members are present.
        timeout: maximum seconds that a member waits for another one in an exchange.
    """

    client: distributed.Client
    name: str
    is_local: bool
    patience: float
    timeout: float


Failure = tuple[Member, BaseException | None]
"""Member that failed and the exception that it raised; None: its process ended or lost its connection."""


class Round:
    """One round. Call `results` once."""

    def __init__(
        self,
        connection: Connection,
        members: tuple[Member, ...],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        in_team: bool,
    ) -> None:
        self.at = connection
        self.client = connection.client
        self.members = members
        # Pickled here, because Dask closes the connection to a worker that cannot import a function.
        self.calls = [pickle.dumps((function, values)) for values in arguments]
        self.in_team = in_team
        self.round_id = uuid.uuid4().hex
        self.tasks: list[Any] = []
        self.replies: list[concurrent.futures.Future[MemberOutcome]] = []
        self.arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.outcomes: dict[int, MemberOutcome] = {}
        self.lost: dict[int, Member] = {}
        self.last_contact = time.monotonic()
        self.tracker: RabitTracker | None = None

    def results(self) -> list[Any]:
        """Returns the results by rank.

        Raises:
            MemberError: A member failed, ended, or did not begin; or the scheduler is gone.
        """
        try:
            self.submit()
            self.wait_until_present()
            self.give_start_signal()
            failure = self.wait_for_outcomes()
            if failure is None:
                return [self.outcomes[member.rank].result for member in self.members]
            failure = self.first_cause(failure)
        except BaseException:
            self.stop()
            raise
        finally:
            if len(self.outcomes) == len(self.members):
                self.release()
        self.stop()
        raise self.described(failure) from failure[1]

    def submit(self) -> None:
        """Submits the tasks, each bound to its worker, and begins to receive their outcomes."""
        size = len(self.members)
        loop = self.client.loop.asyncio_loop
        for member, call in zip(self.members, self.calls, strict=True):
            patience = self.limit_of_start() + EXTRA_SECONDS
            order = Order(self.round_id, member.rank, size, self.in_team, patience, self.at.timeout)
            task = self.client.submit(
                take_part,
                order,
                call,
                key=f"ltrbench-{self.round_id}-{member.rank}",
                workers=[member.address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            self.tasks.append(task)
            reply = asyncio.run_coroutine_threadsafe(self.client.gather(task, asynchronous=True), loop)
            self.replies.append(reply)
            reply.add_done_callback(partial(self.put, member.rank))

    def put(self, rank: int, reply: concurrent.futures.Future[MemberOutcome]) -> None:
        """Called in the event loop when an outcome has arrived."""
        self.arrived.put(rank)

    def limit_of_start(self) -> float:
        """Returns the maximum seconds until all members are present, with the time that arguments travel."""
        return self.at.patience + sum(map(len, self.calls)) / BYTES_PER_SECOND

    def wait_until_present(self) -> None:
        """
        Raises:
            MemberError: A member did not begin within the limit, failed, or was lost.
        """
        limit = self.limit_of_start()
        end = time.monotonic() + limit
        absent = {member.address: member for member in self.members}
        while absent:
            replies = answers(self.client, absent, ANSWER_SECONDS, is_present, self.round_id)
            absent = {address: absent[address] for address in absent if replies[address] is not True}
            # An outcome before the start signal: a worker cannot import the function, for example.
            failure = (self.receive(_POLL_SECONDS) or self.look()) if absent else None
            if failure is not None:
                raise self.described(failure) from failure[1]
            if absent and time.monotonic() > end:
                first = next(iter(absent.values()))
                num_present = len(self.members) - len(absent)
                raise MemberError(
                    f"{self.at.name}: {num_present} of {len(self.members)} workers began their part within "
                    f"{limit:g} s, and all must run at the same time; {first}, did not begin. It is occupied "
                    "by another task, or paused for lack of memory. Wait until it is free, add workers, or "
                    "set distributed.wait to more seconds."
                )

    def give_start_signal(self) -> None:
        """Starts the tracker if the members are a team, and lets all functions begin."""
        contact: dict[str, Any] = {}
        if self.in_team and len(self.members) > 1:
            self.tracker = RabitTracker(
                n_workers=len(self.members), host_ip=self.host_of_client(), sortby="task"
            )
            self.tracker.start()
            contact = self.tracker.worker_args()
        addresses = [member.address for member in self.members]
        # A worker that does not answer is noticed as a lost one, or receives the signal late.
        answers(self.client, addresses, ANSWER_SECONDS, start, self.round_id, contact)

    def host_of_client(self) -> str:
        """Returns the address of this machine on the way to the scheduler, which workers can reach too."""
        host, _, _ = self.client.scheduler.address.rpartition("://")[2].rpartition(":")
        address: str = "127.0.0.1" if self.at.is_local else get_ip(host.strip("[]"))
        return address

    def wait_for_outcomes(self) -> Failure | None:
        """Returns None as soon as every member has succeeded, or the first failure that is noticed."""
        next_look = 0.0
        while len(self.outcomes) < len(self.members):
            failure = self.receive(_LOOK_SECONDS)
            if failure is None and time.monotonic() >= next_look:
                failure = self.look()
                next_look = time.monotonic() + _LOOK_SECONDS
            if failure is not None:
                return failure
        return None

    def receive(self, seconds: float) -> Failure | None:
        """Waits for the outcome of a member; returns its failure."""
        try:
            rank = self.arrived.get(timeout=seconds)
        except queue.Empty:
            return None
        member, reply = self.members[rank], self.replies[rank]
        error = concurrent.futures.CancelledError() if reply.cancelled() else reply.exception()
        # Dask's own errors: the worker ended before its outcome arrived, or the outcome cannot be pickled.
        outcome = self.outcomes[rank] = MemberOutcome(error=error) if error is not None else reply.result()
        return None if outcome.error is None else (member, outcome.error)

    def look(self) -> Failure | None:
        """Asks the scheduler for its workers; returns a member that is lost before its outcome arrived."""
        present = None
        if self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                present = present_workers(self.client)
        if present is None:
            if time.monotonic() > self.last_contact + SILENCE_SECONDS or self.client.status == "closed":
                raise MemberError(
                    f"{self.at.name}: the scheduler {self.client.scheduler.address} does not answer any "
                    "more. Start it with its workers again, and repeat the command."
                )
            return None
        self.last_contact = time.monotonic()
        for member in self.members:
            if member.address not in present and member.rank not in {*self.outcomes, *self.lost}:
                self.lost[member.rank] = member
                return member, None
        return None

    def first_cause(self, failure: Failure) -> Failure:
        """Returns the failure that caused the others.

        When a member leaves, the exchanges of the others fail, often before its own end is noticed.
        """
        end = time.monotonic() + CAUSE_SECONDS
        while _is_consequence(failure[1]) and time.monotonic() < end:
            if len(self.outcomes) + len(self.lost) == len(self.members):
                break
            failure = self.receive(_LOOK_SECONDS / 3) or self.look() or failure
        return failure

    def described(self, failure: Failure) -> MemberError:
        """Returns the error about a failure, with the member, the cause and the remedy."""
        member, error = failure
        if error is None:
            return MemberError(
                f"{self.at.name}: {member}, ended or lost its connection. Its log has the reason. If memory "
                "ran out, set distributed.workers to more workers on more machines, or fewer bins "
                "and leaves, and repeat the command."
            )
        if isinstance(error, LtrbenchError):
            return MemberError(f"{self.at.name}: {member}, reports: {error}")
        return MemberError(
            f"{self.at.name}: {member}, raised {type(error).__name__}: {error}. Correct the cause, or fit "
            "with distributed=none; LTRBENCH_DEBUG=1 shows the traceback."
        )

    def stop(self) -> None:
        """Cancels the tasks, and ends the processes of members that do not react. Takes a few seconds."""
        # A closed client has lost its scheduler; `cancel` would raise an error that hides the one about it.
        if self.client.status != "closed":
            with contextlib.suppress(OSError, TimeoutError, distributed.CancelledError):
                self.client.cancel(self.tasks, force=True)
        # Blocked members are released by those that leave; those that still join, by the end of the tracker.
        running = self.still_running(STOPPING_SECONDS)
        self.release()
        if running and self.in_team and len(self.members) > 1:
            running = self.still_running(ANSWER_SECONDS)
        if self.client.status == "running":
            end_processes(self.client, [member.address for member in running if member.nanny])

    def still_running(self, seconds: float) -> list[Member]:
        """Returns the members whose task has not ended within a limit, or that do not answer."""
        end = time.monotonic() + seconds
        running = [member for member in self.members if member.rank not in self.lost]
        while running and self.client.status == "running":
            addresses = [member.address for member in running]
            replies = answers(self.client, addresses, ANSWER_SECONDS, is_present, self.round_id)
            running = [
                member
                for member in running
                # An OSError: the worker is gone.
                if replies[member.address] is True or isinstance(replies[member.address], TimeoutError)
            ]
            if time.monotonic() > end:
                break
            if running:
                time.sleep(_LOOK_SECONDS / 3)
        return running

    def release(self) -> None:
        """Frees the tracker and the tasks, and ends the waits for outcomes. A second call has no effect."""
        for reply in self.replies:
            reply.cancel()
        # The callbacks of the replies refer to this round, which has all arguments: without this, they would
        # stay in memory until Python looks for cycles.
        self.replies, self.tasks = [], []
        tracker, self.tracker = self.tracker, None
        if tracker is not None:
            # It complains if members left before it was done.
            with contextlib.suppress(XGBoostError):
                tracker.free()


def _is_consequence(error: BaseException | None) -> bool:
    """Returns whether a member raised an exception because another one left, or Dask lost its task."""
    lost = (concurrent.futures.CancelledError, distributed.CancelledError, distributed.KilledWorker)
    return type(error).__name__ in _CONSEQUENCES or isinstance(error, lost)


# ---- The workers that fit one model together.
#
# with DaskWorkers(workers=2).open() as workers:
#     workers.run(function, [(1,), (2,)])        # function(1) on rank 0, function(2) on rank 1
#     workers.run_team(function, [(1,), (2,)])   # function(team, 1) and function(team, 2)

_WORKER_LOOK_SECONDS = 0.1
"""Time between two looks for workers."""
_INTRODUCTION_SECONDS = 120.0
"""Limit for a worker to import ltrbench and its libraries."""
_MUST_AGREE = ("ltrbench", "numpy", "numba", "xgboost", "lightgbm")
"""Versions that must be the same everywhere: members exchange figures that each computes by itself."""


class Workers:
    """The workers of a Dask cluster on which one function runs at the same time.

    Attributes:
        client: the connection to the scheduler.
    """

    def __init__(self, connection: Connection, number: int | None, num_threads: int | None) -> None:
        """Waits for the workers and checks their versions.

        Args:
            number: how many workers are needed; None: all that are there.
            num_threads: number of threads of each worker; None: as many as Dask gives it.

        Raises:
            ConfigError: There are too few workers, or their versions differ from those of this process.
        """
        self.client = connection.client
        self._at = connection
        self._number = number
        self._num_threads = num_threads
        self._members = self._chosen()

    @property
    def members(self) -> tuple[Member, ...]:
        """The workers by rank."""
        return self._members

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses by rank."""
        return tuple(member.address for member in self._members)

    def run(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a function once on each worker, at the same time, and returns the results by rank.

        Workers that were lost since the last call are replaced first, if others are there; what a lost
        worker held in memory is gone.

        Args:
            function: of a module that the workers can import.
            arguments: the arguments of each call, by rank.

        Raises:
            MemberError: A member failed, ended, or did not begin. All others have been stopped.
            ConfigError: There are too few workers.
        """
        return self._round(function, arguments, in_team=False)

    def run_team(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Like `run`, for functions that exchange values: the first argument of each is a `CollectiveTeam`.

        The collective of XGBoost is open in the thread of the function, so its training is distributed too.
        """
        return self._round(function, arguments, in_team=True)

    def _round(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], in_team: bool
    ) -> list[Any]:
        with without_warnings():
            self._replace_lost()
            if len(arguments) != len(self._members):
                raise ValueError(
                    f"there are arguments for {len(arguments)} members and {len(self._members)} members"
                )
            return Round(self._at, self._members, function, arguments, in_team).results()

    def _replace_lost(self) -> None:
        """Chooses the members again if one is gone."""
        try:
            present = present_workers(self.client)
        except (OSError, TimeoutError):
            return  # the round reports a scheduler that does not answer
        if not set(self.addresses) <= set(present):
            self._number = len(self._members)
            self._members = self._chosen()

    def _chosen(self) -> tuple[Member, ...]:
        """Waits for the workers; returns the least occupied ones, sorted by address."""
        infos = self._present()
        tasks = self.client.processing(list(infos))
        addresses = sorted(infos, key=lambda address: (len(tasks.get(address, ())), _order(address)))
        addresses = sorted(addresses[: self._number], key=_order)
        introductions = answers(self.client, addresses, _INTRODUCTION_SECONDS, introduce, self._at.is_local)
        for address in addresses:
            self._check(address, introductions[address])
        return tuple(
            Member(
                rank=rank,
                address=address,
                host=introductions[address][0],
                pid=introductions[address][1],
                num_threads=self._num_threads or infos[address]["nthreads"],
                nanny=infos[address]["nanny"],
            )
            for rank, address in enumerate(addresses)
        )

    def _present(self) -> dict[str, dict[str, Any]]:
        """Returns the workers, as soon as there are enough."""
        needed = self._number or 1
        end = time.monotonic() + self._at.patience
        while len(present := present_workers(self.client)) < needed:
            if time.monotonic() > end:
                number = "null (all that are there)" if self._number is None else needed
                raise ConfigError(
                    f"distributed.workers is {number}, but {self._at.name} has {len(present)} "
                    f"{'worker' if len(present) == 1 else 'workers'} after {self._at.patience:g} s. Start "
                    f"{needed - len(present)} more with `dask worker {self.client.scheduler.address}`, set "
                    "distributed.workers to fewer, or distributed.wait to more seconds."
                )
            time.sleep(_WORKER_LOOK_SECONDS)
        return present

    def _check(self, address: str, introduction: Any) -> None:
        """
        Raises:
            ConfigError: The worker cannot import ltrbench, or has other versions.
        """
        remedy = "Install the same packages there: pip install 'ltrbench[dask]', in the same version."
        if isinstance(introduction, BaseException):
            raise ConfigError(
                f"{self._at.name}: the worker {address} cannot import what a fit needs: "
                f"{type(introduction).__name__}: {introduction}. {remedy}"
            )
        there, here = introduction[2], versions(LIBRARIES)
        different = [
            f"{name} {there[name]} (here {here[name]})" for name in _MUST_AGREE if there[name] != here[name]
        ]
        if different:
            raise ConfigError(
                f"{self._at.name}: the worker {address} on {introduction[0]} has {', '.join(different)}, and "
                f"the members of a fit need the same versions. {remedy}"
            )


def _order(address: str) -> tuple[str, int, str]:
    """Sorts addresses by host and by the number of the port.

    >>> sorted(["tcp://10.0.0.1:9999", "tcp://10.0.0.1:10000"], key=_order)
    ['tcp://10.0.0.1:9999', 'tcp://10.0.0.1:10000']
    """
    host, _, port = address.rpartition(":")
    return (host, int(port), "") if port.isdigit() else (address, 0, port)


_MOST_PER_CORE, _MOST_ON_FEW_CORES = 4, 16
"""Maximum number of workers that are started on this machine: per core, and in any case. Each is a process
with its own libraries."""
_CONNECT_SECONDS = 30.0
"""Limit for the connection to a scheduler."""
_RETURN_TIME = "10 minutes"
"""How long a cluster that is started here waits for a worker process that is started again. Dask's default of
15 seconds is too short on a busy machine."""


@dataclass(kw_only=True)
class DaskWorkers(Distribution):
    """Fits on the workers of a Dask cluster: of `scheduler`, or of a cluster that is started on this machine
    and ends with the context."""

    workers: int | None = 2
    """Number of workers that fit one model; None: all of the scheduler's that are there."""
    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786; None: start a cluster on this machine."""
    threads_per_worker: int | None = None
    """Threads of each worker; None: a started worker has its share of the cores, any other as many as Dask
    gives it."""
    wait: float = 30.0
    """Maximum seconds until the workers are there, and until all have begun a fit."""
    timeout: float = 600.0
    """Maximum seconds that a worker waits for the others in one exchange."""

    def __post_init__(self) -> None:
        require("distributed.workers", self.workers, at_least=1)
        require("distributed.threads_per_worker", self.threads_per_worker, at_least=1)
        require("distributed.wait", self.wait, above=0)
        require("distributed.timeout", self.timeout, at_least=1)
        if self.scheduler is None and self.workers is None:
            raise ConfigError(
                "distributed.workers is null, but distributed.scheduler is null too, so the workers are "
                "started here. Set their number, as in distributed.workers=2, or the address of a running "
                "scheduler, as in distributed.scheduler=tcp://HOST:8786."
            )
        most = max(_MOST_PER_CORE * available_cores(), _MOST_ON_FEW_CORES)
        if self.scheduler is None and self.workers is not None and self.workers > most:
            raise ConfigError(
                f"distributed.workers is {self.workers}, but the workers are started on this machine, which "
                f"has {available_cores()} cores. Set it to at most {most}, or name a cluster of several "
                "machines with distributed.scheduler=tcp://HOST:8786."
            )

    def open(self) -> AbstractContextManager[Workers]:
        return self._opened()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Workers]:
        silence_dask()
        cluster, client = None, None
        dask.config.set({"distributed.deploy.lost-worker-timeout": _RETURN_TIME})
        try:
            with without_warnings():
                cluster = self._started() if self.scheduler is None else None
                client = connected(
                    self.scheduler or cluster, _CONNECT_SECONDS, self._name, "distributed.scheduler"
                )
                connection = Connection(client, self._name, cluster is not None, self.wait, self.timeout)
                workers = Workers(connection, self.workers, self.threads_per_worker)
            yield workers
        finally:
            disconnect(client, cluster)

    @property
    def _name(self) -> str:
        """The cluster in messages."""
        if self.scheduler is None:
            return f"distributed.workers={self.workers} on this machine"
        return f"distributed.scheduler={self.scheduler}"

    def _started(self) -> distributed.LocalCluster:
        """Starts workers that only this machine can reach, and that end with this process."""
        assert self.workers is not None  # __post_init__ checked it; repeated for the type checker
        return distributed.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=self.threads_per_worker or max(available_cores() // self.workers, 1),
            processes=True,
            host="127.0.0.1",
            # A free port for requests by HTTP, which answers without the pages of the dashboard.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            # Dask would pause a worker whose data fill most of its share, and the fit would wait for it.
            memory_limit=0,
            silence_logs=logging.ERROR,
        )
