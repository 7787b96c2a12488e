"""A round: one function runs on all members at the same time. This is the side of the client.

    present     every member has begun its task and waits for the start signal
    running     the functions run; the scheduler is asked which workers it still has
    ended       every outcome has arrived, or one member failed and the others are stopped

A task whose worker has died never returns in Dask, because it is bound to that worker: a lost member is
noticed by its address, which the scheduler drops.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import pickle
import queue
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import distributed
from distributed.utils import get_ip
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from ltrbench.distributed.connecting import ANSWER_SECONDS, answers, end_processes, present_workers
from ltrbench.distributed.failures import MemberError, exit_in_words
from ltrbench.distributed.members import (
    Member,
    MemberOutcome,
    Order,
    exit_code_of,
    is_present,
    start,
    take_part,
)
from ltrbench.errors import LtrbenchError

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
EXIT_SECONDS = 5.0
"""How long to wait for the nanny of a lost worker, which knows how its process ended."""
BYTES_PER_SECOND = 10e6
"""The slowest rate at which arguments reach the workers, by which the limit for the start is extended."""
EXTRA_SECONDS = 30.0
"""How much longer than this process a member waits for the others. This process knows who is absent, but may
be late on a busy machine."""

_CONSEQUENCES = ("LostContactError", "StoppedError", "XGBoostError", "LightGBMError")
"""Exceptions that members raise when another member has left. They are reported only if no other cause is
noticed."""


@dataclass(frozen=True)
class Circumstances:
    """What a round needs to know of the workers.

    Attributes:
        place: the cluster in messages.
        is_local: whether this process started the cluster.
        patience: maximum seconds until all members are present.
        timeout: maximum seconds of one exchange.
    """

    client: distributed.Client
    members: tuple[Member, ...]
    place: str
    is_local: bool
    patience: float
    timeout: float


@dataclass
class _Failure:
    """Why a round failed: an exception that a member raised, or how its process ended."""

    member: Member
    error: BaseException | None = None
    end: str = ""


class Round:
    """One round. Call `results` once."""

    def __init__(
        self,
        circumstances: Circumstances,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        in_team: bool,
    ) -> None:
        self.at = circumstances
        self.client = circumstances.client
        self.members = circumstances.members
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
        raise self.described(failure) from failure.error

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
                raise self.described(failure) from failure.error
            if absent and time.monotonic() > end:
                first = next(iter(absent.values()))
                num_present = len(self.members) - len(absent)
                raise MemberError(
                    f"{self.at.place}: {num_present} of {len(self.members)} workers began their part within "
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

    def wait_for_outcomes(self) -> _Failure | None:
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

    def receive(self, seconds: float) -> _Failure | None:
        """Waits for the outcome of a member; returns its failure."""
        try:
            rank = self.arrived.get(timeout=seconds)
        except queue.Empty:
            return None
        member, reply = self.members[rank], self.replies[rank]
        error = concurrent.futures.CancelledError() if reply.cancelled() else reply.exception()
        # Dask's own errors: the worker ended before its outcome arrived, or the outcome cannot be pickled.
        outcome = self.outcomes[rank] = MemberOutcome(error=error) if error is not None else reply.result()
        return None if outcome.error is None else _Failure(member, outcome.error)

    def look(self) -> _Failure | None:
        """Asks the scheduler for its workers; returns a member that is lost before its outcome arrived."""
        present = None
        if self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                present = present_workers(self.client)
        if present is None:
            if time.monotonic() > self.last_contact + SILENCE_SECONDS or self.client.status == "closed":
                raise MemberError(
                    f"{self.at.place}: the scheduler {self.client.scheduler.address} does not answer any "
                    "more. Start it with its workers again, and repeat the command."
                )
            return None
        self.last_contact = time.monotonic()
        for member in self.members:
            if member.address not in present and member.rank not in {*self.outcomes, *self.lost}:
                self.lost[member.rank] = member
                return _Failure(member, end="ended or lost its connection")
        return None

    def first_cause(self, failure: _Failure) -> _Failure:
        """Returns the failure that caused the others.

        When a member leaves, the exchanges of the others fail, often before its own end is noticed.
        """
        failures = [failure]
        end = time.monotonic() + CAUSE_SECONDS
        while _is_consequence(failures[-1]) and time.monotonic() < end:
            if len(self.outcomes) + len(self.lost) == len(self.members):
                break
            another = self.receive(_LOOK_SECONDS / 3) or self.look()
            if another is not None:
                failures.append(another)
        return min(failures, key=_degree)

    def described(self, failure: _Failure) -> MemberError:
        """Returns the error about a failure, with the member, the cause and the remedy."""
        subject = f"{self.at.place}: {failure.member}, "
        if failure.error is None:
            return MemberError(
                f"{subject}{self.end_of_process(failure)}. Repeat the command"
                f"{'' if self.at.is_local else ' when the worker is there again'}; if memory ran out, set "
                "distributed.workers to more workers on more machines, or model settings to fewer bins and "
                "leaves."
            )
        if isinstance(failure.error, LtrbenchError):
            return MemberError(f"{subject}reports: {failure.error}")
        return MemberError(
            f"{subject}raised {type(failure.error).__name__}: {failure.error}. Correct the cause, or fit "
            "with distributed=none; LTRBENCH_DEBUG=1 shows the traceback."
        )

    def end_of_process(self, failure: _Failure) -> str:
        """Returns how the process of a lost member ended, which its nanny knows.

        The nanny is reached by way of the worker that it starts instead.
        """
        member, end = failure.member, time.monotonic() + EXIT_SECONDS
        while member.nanny and time.monotonic() < end and self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                workers = present_workers(self.client)
                siblings = [address for address, info in workers.items() if info["nanny"] == member.nanny]
                codes = answers(self.client, siblings, ANSWER_SECONDS, exit_code_of, member.pid, nanny=True)
                for code in codes.values():
                    if isinstance(code, int):
                        return exit_in_words(code)
            time.sleep(_LOOK_SECONDS)
        return failure.end

    def stop(self) -> None:
        """Cancels the tasks, and ends the processes of members that do not react. Takes a few seconds."""
        # A closed client has lost its scheduler; `cancel` would raise an error that hides the one about it.
        if self.client.status != "closed":
            with contextlib.suppress(OSError, TimeoutError, distributed.CancelledError):
                self.client.cancel(self.tasks, force=True)
        # Blocked members are released by those that leave; those that still join, by the end of the tracker.
        running = self.still_running(STOPPING_SECONDS)
        self.release()
        if running and self.tracker_was_used:
            running = self.still_running(ANSWER_SECONDS)
        if self.client.status == "running":
            end_processes(self.client, [member.address for member in running if member.nanny])

    @property
    def tracker_was_used(self) -> bool:
        return self.in_team and len(self.members) > 1

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


def _is_consequence(failure: _Failure) -> bool:
    return type(failure.error).__name__ in _CONSEQUENCES or _is_dask_error(failure.error)


def _is_dask_error(error: BaseException | None) -> bool:
    """Returns whether Dask lost the task of a member, for example with its worker."""
    lost = (concurrent.futures.CancelledError, distributed.CancelledError, distributed.KilledWorker)
    return isinstance(error, lost)


def _degree(failure: _Failure) -> int:
    """Returns 0 for a process that ended, 1 for another cause, and 2 for a consequence."""
    if failure.error is None:
        return 0
    return 2 if _is_consequence(failure) else 1
