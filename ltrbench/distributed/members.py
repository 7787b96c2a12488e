"""The side of a worker process: each task of a round is one member of it.

A member first waits for the start signal, which the client gives when all members are present. So no function
begins unless all do.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ctypes
import functools
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ltrbench.errors import ConfigError

try:
    from xgboost import collective
    from xgboost.core import XGBoostError
    from xgboost.libpath import find_lib_path
except ImportError as error:
    raise ImportError("distributed=dask needs XGBoost: pip install 'ltrbench[dask]'") from error

import distributed
import numpy as np
from distributed.deploy.cluster import Cluster
from numpy.typing import NDArray

from ltrbench.distributed.base import portable
from ltrbench.provenance import versions

# ---- Connections to a Dask scheduler, and the end of worker processes: for one fit, and for jobs of a
# sweep.

ANSWER_SECONDS = 4.0
"""Limit for the answer of a worker, or of its nanny, to a short question."""
STOP_SECONDS = 10.0
"""Limit for the end of a connection and of a cluster."""


def silence_dask() -> None:
    """Hides Dask's reports of restarted workers and lost connections: ltrbench's own errors name them."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    # A lost connection is reported by the futures of the tasks. The scheduler of a LocalCluster runs here.
    for name in ("distributed.client", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Ignores warnings of Dask, such as about the size of what is sent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def connected(target: str | Cluster, seconds: float, name: str, setting: str) -> distributed.Client:
    """Connects to a scheduler.

    Args:
        target: address of a running scheduler, or a cluster that was started.
        seconds: limit for the connection.
        name: the cluster in messages.
        setting: the setting that names the address.

    Raises:
        ConfigError: No scheduler answers.
    """
    try:
        return distributed.Client(target, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"{name}: no Dask scheduler answered within {seconds:g} s ({error}). Start one with "
            f"`dask scheduler`, and set {setting} to the address that it shows."
        ) from error


def disconnect(client: distributed.Client | None, cluster: Cluster | None) -> None:
    """Closes a connection, and a cluster that was started; either may be gone already."""
    with without_warnings():
        if client is not None:
            with contextlib.suppress(OSError, TimeoutError):
                client.close(timeout=STOP_SECONDS)
        if cluster is not None:
            with contextlib.suppress(OSError, TimeoutError):
                cluster.close()


def present_workers(client: distributed.Client) -> dict[str, dict[str, Any]]:
    """Returns address -> description by the scheduler, of the workers that can run tasks.

    Raises:
        OSError: The scheduler is gone.
    """
    # Not `client.scheduler_info`: the client regularly replaces its result by one that names no workers.
    if client.status != "running":
        raise OSError("the scheduler is gone")
    workers = client.sync(client.scheduler.identity)["workers"]
    return {address: info for address, info in workers.items() if info["status"] in ("running", "paused")}


def ignore_interrupts() -> None:
    """Runs in the main thread of a worker process that this computer's terminal reaches: Ctrl-C reaches every
    process of the terminal, and the process that submits the tasks decides."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_processes(client: distributed.Client, addresses: Iterable[str]) -> None:
    """Ends worker processes that have a nanny, whatever they do; their nannies start new ones.

    Returns when the scheduler has noticed it, within a few seconds.
    """
    ended = set(addresses)
    answers(client, ended, ANSWER_SECONDS, _kill_worker, nanny=True)
    end = time.monotonic() + ANSWER_SECONDS
    with contextlib.suppress(OSError, TimeoutError):  # of a scheduler that is gone too
        while time.monotonic() < end and not ended.isdisjoint(present_workers(client)):
            time.sleep(0.05)


def _kill_worker(dask_worker: distributed.Nanny) -> None:
    """Runs in the nanny of a worker process. A task cannot be stopped by asking."""
    if dask_worker.pid is not None:
        os.kill(dask_worker.pid, signal.SIGKILL)


def answers(
    client: distributed.Client,
    addresses: Iterable[str],
    seconds: float,
    function: Callable[..., Any],
    *arguments: Any,
    nanny: bool = False,
) -> dict[str, Any]:
    """Returns address -> what a function returned in the event loop of each worker, or its exception.

    A worker that does not answer within the limit has a TimeoutError. The other ones are not kept waiting.

    Args:
        seconds: limit for all workers together.
        nanny: call the function in the nanny of each worker.
    """
    loop = client.loop.asyncio_loop
    calls = {
        address: asyncio.run_coroutine_threadsafe(
            client.run(function, *arguments, workers=[address], nanny=nanny, asynchronous=True), loop
        )
        for address in addresses
    }
    concurrent.futures.wait(calls.values(), seconds)
    return {address: _answer(call, address) for address, call in calls.items()}


def _answer(call: concurrent.futures.Future[Any], address: str) -> Any:
    if not call.done():
        call.cancel()
        return TimeoutError("no answer")
    error = call.exception()
    return call.result().get(address, OSError("no answer")) if error is None else error


# ---- What the members of a fit exchange, with the collective of XGBoost: a `Team` of the native engine.
#
# The collective belongs to a thread: a `CollectiveTeam` is used in the thread that received it. Its calls
# release the interpreter's lock, so the worker still answers the scheduler while it waits for other
# members. Every member makes the same calls in the same order; all get the same bits.

_TYPE_WORDS = 4
"""Number of 8-byte words for the name of an array's type, such as <f8."""
_thread = threading.local()
"""`is_quiet`: whether messages of XGBoost are hidden in this thread."""


class LostContactError(Exception):
    """Exchange that failed because another member left it."""


class StoppedError(Exception):
    """Exchange that did not begin because the fit was stopped."""


class CollectiveTeam:
    """The members of a fit, each in its process.

    Attributes:
        rank: number of this member, from 0.
        size: number of members.
    """

    def __init__(self, rank: int, size: int, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """
        Args:
            is_stopped: whether the fit was stopped, so that no further exchange begins.
        """
        self.rank = rank
        self.size = size
        self._is_stopped = is_stopped
        self._thread = threading.get_ident()

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the elementwise sum over the members, the same array on each."""
        return self._reduced(_of_type(values, np.int64), collective.Op.SUM)

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the elementwise maximum over the members; a zero of either sign is returned as +0.0.

        Raises:
            ValueError: A value is NaN, which has no order.
        """
        if np.isnan(_of_type(values, np.float64)).any():
            raise ValueError("a value is NaN, which has no order")
        # Which of -0.0 and +0.0 is the maximum would depend on the order of the members.
        return self._reduced(values + 0.0, collective.Op.MAX)

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the one-dimensional arrays of all members by rank, bit for bit.

        Their lengths may differ, and their types, which have no Python objects.
        """
        if values.ndim != 1 or values.dtype.hasobject:
            raise TypeError(f"an array of shape {values.shape} and type {values.dtype} cannot be joined")
        headers = np.zeros((self.size, 1 + _TYPE_WORDS), dtype=np.int64)
        headers[self.rank, 0] = len(values)
        headers[self.rank, 1:] = _words(np.frombuffer(values.dtype.str.encode(), np.uint8), _TYPE_WORDS)
        headers = self.total(headers)
        types = [np.dtype(header[1:].tobytes().rstrip(b"\0").decode()) for header in headers]
        lengths = headers[:, 0].tolist()
        num_words = [-(-length * kind.itemsize // 8) for length, kind in zip(lengths, types, strict=True)]
        starts = np.concatenate([[0], np.cumsum(num_words)])
        words = np.zeros(starts[-1], dtype=np.int64)
        content = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        words[starts[self.rank] : starts[self.rank + 1]] = _words(content, num_words[self.rank])
        # Each word is zero on all members but one: the sum has its bits.
        parts = np.split(self.total(words), starts[1:-1])
        return [
            np.frombuffer(part.tobytes(), kind, length).copy()
            for part, kind, length in zip(parts, types, lengths, strict=True)
        ]

    def _reduced(self, values: NDArray[Any], op: collective.Op) -> NDArray[Any]:
        if threading.get_ident() != self._thread:
            raise RuntimeError("this thread is not the one that joined the collective: it has no peers")
        if self._is_stopped():
            raise StoppedError("the fit was stopped")
        if self.size == 1 or values.size == 0:
            return values.copy()
        try:
            reduced: NDArray[Any] = collective.allreduce(values, op)
        except XGBoostError as error:
            raise LostContactError(_cause(error)) from error
        return reduced.reshape(values.shape)


@contextlib.contextmanager
def collective_team(
    rank: int,
    size: int,
    contact: Mapping[str, Any],
    timeout: float,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[CollectiveTeam]:
    """Joins the collective as one of its members, for the current thread.

    A member that leaves, even by an exception, closes its connections, so the others' exchanges fail at once.

    Args:
        contact: the tracker, which all members can reach: `RabitTracker.worker_args` of a tracker that sorts
            by task.
        timeout: maximum seconds that an exchange waits for another member.

    Raises:
        LostContactError: The tracker cannot be reached, or another member does not join.
    """
    if size == 1:
        yield CollectiveTeam(rank, size, is_stopped)
        return
    # The tracker gives ranks in the order of the names of the tasks.
    settings = {**contact, "dmlc_task_id": f"{rank:06d}", "dmlc_timeout": int(timeout), "dmlc_retry": 2}
    try:
        with _quiet():
            collective.init(**settings)
    except XGBoostError as error:
        place = f"{contact['dmlc_tracker_uri']}:{contact['dmlc_tracker_port']}"
        raise LostContactError(
            f"could not join the other members by way of the tracker {place}, a port of the machine that "
            f"started the fit: {_cause(error)}"
        ) from error
    try:
        given = collective.get_rank(), collective.get_world_size()
        if given != (rank, size):
            raise RuntimeError(f"member {rank} of {size} got rank and size {given} from the tracker")
        yield CollectiveTeam(rank, size, is_stopped)
    finally:
        # The tracker is gone if the process that started the fit is: then nobody waits for the result.
        with contextlib.suppress(XGBoostError), _quiet():
            collective.finalize()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides XGBoost's reports of ranks and of attempts to connect, which it writes to standard error."""
    # A callback belongs to a thread, and XGBoost's Python package has set it for its own thread only.
    _library().XGBRegisterLogCallback(_forward)
    _thread.is_quiet = True
    try:
        yield
    finally:
        _thread.is_quiet = False


def _write(message: bytes) -> None:
    """Writes a message of XGBoost to standard error, as it does by itself, unless its thread is quiet."""
    if not _thread.is_quiet:
        print(message.decode(errors="replace"), file=sys.stderr)


_forward = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_write)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(find_lib_path()[0])


def _of_type(values: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    if values.dtype != kind:
        raise TypeError(f"the values are {values.dtype}; they must be {np.dtype(kind)}")
    return values


def _words(content: NDArray[np.uint8], num_words: int) -> NDArray[np.int64]:
    """Returns bytes as 8-byte words, filled up with zeros."""
    padded = np.zeros(8 * num_words, dtype=np.uint8)
    padded[: len(content)] = content
    return padded.view(np.int64)


def _cause(error: BaseException) -> str:
    """Returns the last cause in an error of XGBoost, without its stack trace and places in the source."""
    lines = str(error).partition("Stack trace")[0].splitlines()
    causes = [line.rpartition("]: ")[2].strip() for line in lines if "]: " in line]
    return next((cause for cause in reversed(causes) if cause), str(error).splitlines()[0])


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
