"""Runs jobs in fresh processes of this machine.

Each worker is a pool of one process, which belongs to a slot: a thread of this process that sends the jobs
and waits. A worker keeps the data and libraries that it has loaded. A crash, a kill for lack of memory or a
hang costs one job only: the slot starts another worker.

A worker ignores Ctrl-C, because this process decides. It raises KeyboardInterrupt in its job on SIGTERM, and
it ends when this process does, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ltrbench.distributed.base import describe_exit
from ltrbench.errors import require
from ltrbench.sweep.executors.base import (
    HAS_AFFINITY,
    Executor,
    Work,
    WorkerLostError,
    message_on_threads,
    reply_to,
    settle,
    share_of_cores,
    usable_cores,
)

START_SECONDS = 300.0
"""Limit for the start of a worker, on a busy machine."""
GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL, in which a job records its interruption."""

Pending = tuple[bytes, Future[Any]]


@dataclass(kw_only=True)
class ProcessExecutor(Executor):
    """Runs jobs in `workers` processes, each one job at a time."""

    workers: int = 2
    timeout: float | None = None
    """Maximum seconds of a job; None: no limit."""
    retries: int = 1
    """How often a job is repeated whose process died or exceeded `timeout`."""

    def __post_init__(self) -> None:
        require("executor.workers", self.workers, at_least=1)
        require("executor.timeout", self.timeout, above=0)
        require("executor.retries", self.retries, at_least=0)
        self._slots: list[_Slot] = []
        self._jobs: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._message: str | None = None

    def open(self, work: Work, num_threads: int) -> None:
        cores = usable_cores()
        threads = num_threads or (0 if HAS_AFFINITY else len(cores))
        self._message = message_on_threads(self.workers, threads, len(cores), "executor.workers")
        for slot in range(self.workers):
            share = share_of_cores(cores, slot, self.workers) if threads == 0 else []
            self._slots.append(_Slot(self, self._jobs, work, share))

    def submit(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            self._jobs.put((pickle.dumps(job), future))
        except Exception as error:  # a job that cannot be pickled
            future.set_exception(error)
        return future

    def close(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.interrupt()
        with contextlib.suppress(queue.Empty):
            while pending := self._jobs.get_nowait():
                pending[1].cancel()
                pending[1].set_running_or_notify_cancel()
        for _ in slots:
            self._jobs.put(None)
        deadline = time.monotonic() + GRACE_SECONDS
        for slot in slots:
            slot.thread.join(max(deadline - time.monotonic(), 0))
        for slot in slots:
            slot.kill()
            slot.thread.join()

    @property
    def num_workers(self) -> int:
        return self.workers

    @property
    def message(self) -> str | None:
        return self._message


class _Slot:
    """A thread of this process and its worker process, which a new one replaces when it is lost."""

    def __init__(
        self,
        limits: ProcessExecutor,
        jobs: queue.SimpleQueue[Pending | None],
        work: Work,
        cores: Sequence[int],
    ) -> None:
        self.limits, self.jobs, self.work, self.cores = limits, jobs, work, cores
        self.folder = Path.cwd()
        self.pool: ProcessPoolExecutor | None = None
        self.process: BaseProcess | None = None
        self.closing = False
        self.thread = threading.Thread(target=self.serve, name="ltrbench worker slot", daemon=True)
        self.thread.start()

    def serve(self) -> None:
        """Runs jobs until the executor is closed."""
        if self.cores:
            # Of this thread only. Its processes inherit it before any library counts the cores.
            os.sched_setaffinity(0, self.cores)
        while (pending := self.jobs.get()) is not None:
            job, future = pending
            if future.set_running_or_notify_cancel():
                self.run(job, future)
        if self.pool is not None:
            self.pool.shutdown()

    def run(self, job: bytes, future: Future[Any]) -> None:
        """Runs a job, again if its worker is lost, and sets its future."""
        lost = WorkerLostError("the executor was closed before the job began")
        for _ in range(self.limits.retries + 1):
            if self.closing:
                break
            try:
                settle(future, self.attempt(job))
            except WorkerLostError as error:
                lost = error
            else:
                return
        future.set_exception(lost)

    def attempt(self, job: bytes) -> bytes:
        """Returns the reply to a job of the worker, which is started if there is none.

        Raises:
            WorkerLostError: The worker died, or exceeded the limit, after which it is killed.
        """
        limit, excess = START_SECONDS, f"did not start within {START_SECONDS:g} s and was ended"
        try:
            if self.pool is None or self.process is None or not self.process.is_alive():
                self.process = None
                self.pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), _prepare, (self.folder,)
                )
                number = self.pool.submit(os.getpid).result(limit)
                self.process = next(
                    child for child in multiprocessing.active_children() if child.pid == number
                )
            if self.closing:
                raise WorkerLostError("the executor was closed before the job began")
            excess = f"exceeded executor.timeout={self.limits.timeout or 0:g} s and was ended"
            return self.pool.submit(_reply, self.work, job).result(self.limits.timeout)
        except TimeoutError:
            self.kill()
            raise WorkerLostError(f"the worker process {excess}") from None
        except BrokenProcessPool:
            if self.process is None:
                raise WorkerLostError("the worker process did not start") from None
            raise WorkerLostError(f"the worker process {describe_exit(_exit_code(self.process))}") from None
        except KeyboardInterrupt:  # in the worker, by SIGTERM
            raise WorkerLostError("the worker process was interrupted") from None

    def interrupt(self) -> None:
        """Sends SIGTERM to the worker, and prevents another one."""
        self.closing = True
        if self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL to a worker that has not ended by itself."""
        if self.process is not None:
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
    threading.Thread(target=_end_with_parent, name="ltrbench parent watch", daemon=True).start()


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
