"""Runs jobs in fresh processes of this machine.

A worker process is started with its first job and keeps the data and libraries that it has loaded. Each
worker belongs to a slot, a thread of this process that sends the jobs and waits. A crash, a kill for lack of
memory or a hang costs one job only: the slot starts another worker.

A worker ignores Ctrl-C, because this process decides. It raises KeyboardInterrupt in its job on SIGTERM, and
it ends when this process does, even by SIGKILL.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from ltrbench.distributed.base import exit_in_words
from ltrbench.errors import require
from ltrbench.sweep.executors.base import (
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
"""Limit for the start of a worker, with its imports, on a busy machine."""
GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL, in which a job records its interruption."""
CHECK_SECONDS = 1.0
"""Time between two looks at a worker whose death no pipe reports, because a child of it holds the pipe."""

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
        self._opened_in: int | None = None

    def open(self, work: Work, num_threads: int) -> None:
        cores, num_cores = usable_cores(), os.cpu_count() or 1
        if cores:
            self._message = message_on_threads(self.workers, num_threads, len(cores), "executor.workers")
        else:  # a system without affinity, on which each worker would use every core
            self._message = message_on_threads(
                self.workers, num_threads or num_cores, num_cores, "executor.workers"
            )
        divided = bool(cores) and num_threads == 0
        for slot in range(self.workers):
            share = share_of_cores(cores, slot, self.workers) if divided else []
            self._slots.append(_Slot(self, self._jobs, pickle.dumps(work), share))
        self._opened_in = os.getpid()
        atexit.register(self.close)

    def submit(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            self._jobs.put((pickle.dumps(job), future))
        except Exception as error:  # a job that cannot be pickled
            future.set_exception(error)
        return future

    def close(self) -> None:
        atexit.unregister(self.close)
        if os.getpid() != self._opened_in:
            return  # a fork, which runs the exit functions too, has no part in these workers
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
        for slot in slots:
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
        work: bytes,
        cores: Sequence[int],
    ) -> None:
        self.limits = limits
        self.jobs = jobs
        self.work = work
        self.cores = cores
        self.folder = Path.cwd()
        self.process: SpawnProcess | None = None
        self.closing = False
        self.lock = threading.Lock()
        """Held while the process is started or signalled, so that no process is started after `interrupt`."""
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
        if self.process is not None:
            self.process.join()

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
        """Returns the reply to a job of the worker, which is started if there is none."""
        if not self.has_begun(job):
            # The worker died while it was idle, which is no attempt of this job.
            problem = self.start()
            if problem is not None:
                return problem
            if not self.has_begun(job):
                raise WorkerLostError(self.loss())
        limit = self.limits.timeout
        return self.receive(limit, f"exceeded executor.timeout={limit or 0:g} s and was ended")

    def has_begun(self, job: bytes) -> bool:
        """Sends a job to the worker; returns whether there is a worker, and it has received the job."""
        if self.process is None or not self.process.is_alive():
            return False
        with contextlib.suppress(OSError):  # of a dead worker, which `receive` notices
            self.connection.send_bytes(job)
        try:
            self.receive(START_SECONDS, "did not take a job")
        except WorkerLostError:
            return False
        return True

    def start(self) -> bytes | None:
        """Starts a worker, and returns its reply if it could not import the work."""
        context = multiprocessing.get_context("spawn")
        self.connection, of_worker = context.Pipe()
        # Not a daemon, which could not have child processes, such as those of a library.
        process = context.Process(target=_serve, args=(of_worker, self.folder, self.work), daemon=False)
        with self.lock:
            if self.closing:
                raise WorkerLostError("the executor was closed before the job began")
            process.start()
            self.process = process
        of_worker.close()
        reply = self.receive(START_SECONDS, f"did not start within {START_SECONDS:g} s and was ended")
        return reply or None

    def receive(self, limit: float | None, excess: str) -> bytes:
        """Returns the next message of the worker.

        Raises:
            WorkerLostError: The worker died, or exceeded the limit, after which it is killed.
        """
        assert self.process is not None
        end = None if limit is None else time.monotonic() + limit
        while self.process.is_alive() or self.connection.poll():
            remaining = CHECK_SECONDS if end is None else min(end - time.monotonic(), CHECK_SECONDS)
            if remaining <= 0:
                self.process.kill()
                self.process.join()
                raise WorkerLostError(f"the worker process {excess}")
            if self.connection in wait([self.connection, self.process.sentinel], remaining):
                try:
                    return self.connection.recv_bytes()
                except (EOFError, OSError):  # the end of a dying worker
                    break
        self.process.join()
        raise WorkerLostError(self.loss())

    def loss(self) -> str:
        """Returns how the worker process ended."""
        exit_code = None if self.process is None else self.process.exitcode
        return f"the worker process {exit_in_words(exit_code or 0)}"

    def interrupt(self) -> None:
        """Sends SIGTERM to the worker, and prevents another one."""
        with self.lock:
            self.closing = True
            if self.process is not None:
                self.process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL to a worker that has not ended by itself."""
        with self.lock:
            if self.process is not None:
                self.process.kill()


def _serve(connection: Connection, folder: Path, pickled_work: bytes) -> None:
    """The main function of a worker: sends b"" when it is ready, then b"" and a reply for each job."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _interrupt)
        _end_with_parent()
        os.chdir(folder)  # multiprocessing begins in the folder of its import
        try:
            work: Work = pickle.loads(pickled_work)
        except Exception:  # of an import; the reply has it as the exception of a job
            connection.send_bytes(reply_to(pickle.loads, pickled_work))
            return
        connection.send_bytes(b"")
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            job = connection.recv_bytes()
            connection.send_bytes(b"")
            connection.send_bytes(reply_to(work, job))
    except (EOFError, OSError):  # the other end of the pipe is closed
        return
    except KeyboardInterrupt:
        pass
    _die_of_sigterm()


def _interrupt(number: int, frame: object) -> None:
    """Raises KeyboardInterrupt once, so that a second SIGTERM does not disturb the recording of the first."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _die_of_sigterm() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _end_with_parent() -> None:
    """Ends this process as soon as its parent process is dead."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="ltrbench parent watch", daemon=True).start()
    if sys.platform == "linux":
        # For a job that keeps all threads of Python waiting. 1 is PR_SET_PDEATHSIG.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
