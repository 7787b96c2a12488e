"""Executors run the jobs of a sweep: the contract, in this process, and in fresh processes of this machine.

To add an executor, write one dataclass derived from `Executor` and one YAML in conf/executor whose `_target_`
names it. tests/sweep/test_executors.py tests every executor against the contract.

This module imports no numerical library: a worker imports it before its cores are set.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ltrbench.distributed import describe_exit, portable
from ltrbench.errors import LtrbenchError
from ltrbench.settings import check, setting

Work = Callable[[Any], Any]
"""A function of a module that computes the result of a job. The job and the result can be pickled."""


class WorkerLostError(Exception):
    """The process of a job died, or the job exceeded its time. The message is the reason in words."""


class AllWorkersLostError(LtrbenchError):
    """All workers were lost, or their scheduler: no job can run, and the jobs that have not finished wait."""


@dataclass(kw_only=True)
class Executor(ABC):
    """Runs jobs. Call `open` once, then `submit` for each job, and `close` at the end."""

    message: str | None = field(default=None, init=False)
    """What a user should know about threads and cores; set by `open`."""

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

        The future has the result of `work`, the exception that it raised, a `WorkerLostError`, or an
        `AllWorkersLostError`, after which no other job can run.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the workers at once, including running jobs. A second call has no effect."""

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """Number of jobs that run at the same time."""


HAS_AFFINITY = hasattr(os, "sched_setaffinity")
"""Whether the system can restrict a worker to its share of the cores."""


def usable_cores() -> list[int]:
    """Returns the numbers of the cores that this thread may use."""
    if HAS_AFFINITY:
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def share_of_cores(cores: Sequence[int], slot: int, num_workers: int) -> list[int]:
    """Returns the cores of one worker. Shares are equal and disjoint, except with more workers than cores.

    >>> [share_of_cores([0, 1, 4, 5, 6], slot, 2) for slot in (0, 1)]
    [[0, 1], [4, 5]]
    >>> [share_of_cores([0, 1], slot, 3) for slot in (0, 1, 2)]
    [[0], [1], [0]]
    """
    size = len(cores) // num_workers
    if size:
        return list(cores[slot * size : (slot + 1) * size])
    return [cores[slot % len(cores)]]


def message_on_threads(
    num_workers: int, num_threads: int, num_cores: int, setting: str
) -> str:
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
    numbers = {"worker": num_workers, "thread": threads, "core": num_cores}
    workers, each, cores = (
        f"{count} {word}" if count == 1 else f"{count} {word}s"
        for word, count in numbers.items()
    )
    text = f"{workers} x {each} each on {cores}"
    if total <= num_cores:
        return f"{text}."
    remedy = f"{setting}={num_cores // threads}"
    if 0 < num_cores // num_workers < threads:
        remedy += f" or num_threads={num_cores // num_workers}"
    return (
        f"{text}: {total} threads exceed the cores, so jobs slow each other down and their times are "
        f"unreliable. Set {remedy}."
    )


def reply_to(work: Work, job: bytes) -> bytes:
    """Returns the pickled result of a pickled job, or the exception that it raised, for `settle`."""
    try:
        return pickle.dumps((work(pickle.loads(job)), None))
    except Exception as error:
        return pickle.dumps((None, portable(error)))


def result_of(reply: bytes) -> Any:
    """Returns the result in a reply of `reply_to`, or raises the exception of the job."""
    result, error = pickle.loads(reply)
    if error is not None:
        raise error
    return result


# ---- Runs jobs in this process, one after another.
#
# The default, because a measured time is reliable only if no other job runs next to it.


@dataclass(kw_only=True)
class InlineExecutor(Executor):
    """Runs each job inside `submit`, which returns a completed future. KeyboardInterrupt passes through."""

    def open(self, work: Work, num_threads: int) -> None:
        self._work = work

    def submit(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(self._work(job))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Does nothing: no job runs."""

    @property
    def num_workers(self) -> int:
        return 1


# ---- Runs jobs in fresh processes of this machine.
#
# Each worker is a pool of one process, which belongs to a slot. A thread of this process takes a free slot,
# sends it a job and waits. A worker keeps the data and libraries that it has loaded. A crash, a kill for lack
# of memory or a hang costs one job only: the slot starts another worker.
#
# A worker ignores Ctrl-C, because this process decides. On SIGTERM it raises KeyboardInterrupt in its job. It
# ends when this process does, even by SIGKILL.

START_SECONDS = 300.0
"""Limit for the start of a worker, on a busy machine."""
GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL, in which a job records its interruption."""


@dataclass(kw_only=True)
class ProcessExecutor(Executor):
    """Runs jobs in `workers` processes, each one job at a time."""

    workers: int = setting(2, at_least=1)
    timeout: float | None = setting(None, above=0)
    """Maximum seconds of a job; None: no limit."""
    retries: int = setting(1, at_least=0)
    """How often a job is repeated whose process died or exceeded `timeout`."""

    def __post_init__(self) -> None:
        check(self, "executor.")
        self._slots: list[_Slot] = []
        self._free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(self.workers, "ltrbench worker slot")

    def open(self, work: Work, num_threads: int) -> None:
        cores = usable_cores()
        threads = num_threads
        if not threads and not HAS_AFFINITY:
            threads = len(cores)
        self.message = message_on_threads(
            self.workers, threads, len(cores), "executor.workers"
        )
        for slot in range(self.workers):
            share = share_of_cores(cores, slot, self.workers) if threads == 0 else []
            self._slots.append(_Slot(self, work, share))
            self._free.put(self._slots[-1])

    def submit(self, job: Any) -> Future[Any]:
        return self._threads.submit(self._run, pickle.dumps(job))

    def _run(self, job: bytes) -> Any:
        slot = self._free.get()  # there are as many slots as threads
        try:
            return result_of(slot.run(job))
        finally:
            self._free.put(slot)

    def close(self) -> None:
        slots = self._slots
        self._slots = []
        self._threads.shutdown(wait=False, cancel_futures=True)
        for slot in slots:
            slot.interrupt()
        deadline = time.monotonic() + GRACE_SECONDS
        for slot in slots:
            slot.kill(max(deadline - time.monotonic(), 0))
        self._threads.shutdown()

    @property
    def num_workers(self) -> int:
        return self.workers


class _Slot:
    """A worker process, which a new one replaces when it is lost."""

    def __init__(
        self, limits: ProcessExecutor, work: Work, cores: Sequence[int]
    ) -> None:
        self.limits = limits
        self.work = work
        self.cores = cores
        self.folder = Path.cwd()
        self.pool: ProcessPoolExecutor | None = None
        self.process: BaseProcess | None = None
        self.closing = False

    def run(self, job: bytes) -> bytes:
        """Returns the reply to a job, which is repeated if its worker is lost.

        Raises:
            WorkerLostError: The last worker was lost, or the executor is closed.
        """
        lost = WorkerLostError("the executor was closed before the job began")
        for _ in range(self.limits.retries + 1):
            if self.closing:
                break
            try:
                return self.attempt(job)
            except WorkerLostError as error:
                lost = error
        if self.closing and self.pool is not None:
            self.pool.shutdown()
        raise lost

    def attempt(self, job: bytes) -> bytes:
        """Returns the reply to a job of the worker, which is started if there is none.

        Raises:
            WorkerLostError: The worker died, or exceeded the limit, after which it is killed.
        """
        excess = f"did not start within {START_SECONDS:g} s and was ended"
        try:
            pool = self.pool
            if pool is None or self.process is None or not self.process.is_alive():
                pool = self.start()
            if self.closing:
                raise WorkerLostError("the executor was closed before the job began")
            limit = self.limits.timeout
            excess = f"exceeded executor.timeout={limit or 0:g} s and was ended"
            return pool.submit(_reply, self.work, job).result(limit)
        except TimeoutError:
            self.kill()
            # The dead process can still count as alive for a moment, because the pool waits for it too.
            self.pool = None
            raise WorkerLostError(f"the worker process {excess}") from None
        except BrokenProcessPool:
            if self.process is None:
                raise WorkerLostError("the worker process did not start") from None
            raise WorkerLostError(
                f"the worker process {describe_exit(_exit_code(self.process))}"
            ) from None
        except KeyboardInterrupt:  # in the worker, by SIGTERM
            raise WorkerLostError("the worker process was interrupted") from None

    def start(self) -> ProcessPoolExecutor:
        """Starts a worker, and returns its pool.

        Raises:
            TimeoutError, BrokenProcessPool: The worker did not start.
        """
        self.process = None
        if self.cores:
            # Of this thread. The process inherits it before any library counts the cores.
            os.sched_setaffinity(0, self.cores)
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, context, _prepare, (self.folder,))
        number = self.pool.submit(os.getpid).result(START_SECONDS)
        children = {child.pid: child for child in multiprocessing.active_children()}
        self.process = children[number]
        return self.pool

    def interrupt(self) -> None:
        """Sends SIGTERM to the worker, and prevents another one."""
        self.closing = True
        if self.process is not None:
            self.process.terminate()

    def kill(self, grace: float = 0.0) -> None:
        """Sends SIGKILL to a worker that has not ended by itself within some seconds."""
        if self.process is not None:
            self.process.join(grace)
            self.process.kill()
            self.process.join()


def _exit_code(process: BaseProcess) -> int:
    """Waits for the end of a process. The pool waits too, and the second one sees the code a bit later."""
    process.join()
    end = time.monotonic() + GRACE_SECONDS
    while process.exitcode is None and time.monotonic() < end:
        time.sleep(0.01)
    return process.exitcode or 0


def _prepare(folder: Path) -> None:
    """Runs at the start of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir(folder)  # multiprocessing begins in the folder of its import
    threading.Thread(
        target=_end_with_parent, name="ltrbench parent watch", daemon=True
    ).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _reply(work: Work, job: bytes) -> bytes:
    """Runs in the main thread of a worker."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return reply_to(work, job)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: object) -> None:
    """Raises KeyboardInterrupt once, so that a second SIGTERM does not disturb the recording of the first."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
