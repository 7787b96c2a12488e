"""Runs jobs in this process, one after another.

The default, because a measured time is reliable only if no other job runs next to it.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ltrbench.sweep.executors.base import Executor, Work


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
