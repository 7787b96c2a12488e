"""What the members of a fit exchange, with the collective of XGBoost: a `Team` of the native engine.

The collective belongs to a thread: a `CollectiveTeam` is used in the thread that received it. Its calls
release the interpreter's lock, so the worker still answers the scheduler while it waits for other members.
Every member makes the same calls in the same order; all get the same bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.libpath import find_lib_path

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
