"""The contract of an executor, which runs jobs, and the division of the cores among its workers.

To add an executor, write one dataclass derived from `Executor` and one YAML in conf/executor whose `_target_`
names it. tests/sweep/test_executors.py tests every executor against the contract.

This module imports no numerical library: a worker imports it before its cores are set.
"""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ltrbench.distributed.base import portable

Work = Callable[[Any], Any]
"""A function of a module that computes the result of a job. The job and the result can be pickled."""


class WorkerLostError(Exception):
    """The process of a job died, or the job exceeded its time. The message is the reason in words."""


@dataclass(kw_only=True)
class Executor(ABC):
    """Runs jobs. Call `open` once, then `submit` for each job, and `close` at the end."""

    @abstractmethod
    def open(self, work: Work, num_threads: int) -> None:
        """Prepares the workers.

        Args:
            work: computes the result of a job.
            num_threads: the setting num_threads of the jobs; 0: all cores.

        Raises:
            ConfigError: the workers cannot be reached or started.
        """

    @abstractmethod
    def submit(self, job: Any) -> Future[Any]:
        """Runs a job as soon as a worker is free. Submit at most `num_workers` jobs at a time: a job that
        waits at a worker may be lost with it.

        The future has the result of `work`, the exception that it raised, or a `WorkerLostError`.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the workers at once, including running jobs. A second call has no effect."""

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """Number of jobs that run at the same time."""

    @property
    def message(self) -> str | None:
        """What a user should know about threads and cores; set by `open`."""
        return None


HAS_AFFINITY = hasattr(os, "sched_setaffinity")
"""Whether the system can restrict a worker to its share of the cores."""


def usable_cores() -> list[int]:
    """Returns the numbers of the cores that this thread may use."""
    return sorted(os.sched_getaffinity(0)) if HAS_AFFINITY else list(range(os.cpu_count() or 1))


def share_of_cores(cores: Sequence[int], slot: int, num_workers: int) -> list[int]:
    """Returns the cores of one worker. Shares are equal and disjoint, except with more workers than cores.

    >>> [share_of_cores([0, 1, 4, 5, 6], slot, 2) for slot in (0, 1)]
    [[0, 1], [4, 5]]
    >>> [share_of_cores([0, 1], slot, 3) for slot in (0, 1, 2)]
    [[0], [1], [0]]
    """
    size = len(cores) // num_workers
    return list(cores[slot * size : (slot + 1) * size]) if size else [cores[slot % len(cores)]]


def message_on_threads(num_workers: int, num_threads: int, num_cores: int, setting: str) -> str:
    """Returns how many threads the workers of one machine use, and the remedy if they exceed its cores.

    Args:
        num_threads: the setting; 0: each worker has its share of the cores.
        setting: the setting that changes the number of workers.

    >>> message_on_threads(2, 0, 4, "executor.workers")
    '2 workers x 2 threads each on 4 cores.'
    """
    # A fit never uses more threads than cores.
    threads = min(num_threads, num_cores) or max(num_cores // num_workers, 1)
    total = num_workers * threads
    text = (
        f"{num_workers} {_plural('worker', num_workers)} x {threads} {_plural('thread', threads)} each on "
        f"{num_cores} {_plural('core', num_cores)}"
    )
    if total <= num_cores:
        return f"{text}."
    remedy = f"{setting}={num_cores // threads}"
    if 0 < num_cores // num_workers < threads:
        remedy += f" or num_threads={num_cores // num_workers}"
    return (
        f"{text}: {total} threads exceed the cores, so jobs slow each other down and their times are "
        f"unreliable. Set {remedy}."
    )


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def reply_to(work: Work, job: bytes) -> bytes:
    """Returns the pickled result of a pickled job, or the exception that it raised, for `settle`."""
    try:
        return pickle.dumps((work(pickle.loads(job)), None))
    except Exception as error:
        return pickle.dumps((None, portable(error)))


def settle(future: Future[Any], reply: bytes) -> None:
    """Sets the result or the exception of a future from a reply of `reply_to`."""
    try:
        result, error = pickle.loads(reply)
    except Exception as problem:
        result, error = None, portable(problem)
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


# ---- Runs jobs in this process, one after another.
#
# The default, because a measured time is reliable only if no other job runs next to it.


@dataclass(kw_only=True)
class InlineExecutor(Executor):
    """Runs each job inside `submit`, which returns a completed future. KeyboardInterrupt passes through."""

    def __post_init__(self) -> None:
        self._work: Work | None = None

    def open(self, work: Work, num_threads: int) -> None:
        self._work = work

    def submit(self, job: Any) -> Future[Any]:
        assert self._work is not None  # open comes first
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(self._work(job))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        self._work = None

    @property
    def num_workers(self) -> int:
        return 1
