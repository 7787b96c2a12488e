"""Runs the jobs of a sweep: which job next, until every job has ended.

Other commands may work on the same sweep. A job that another process runs is waited for, and run here if that
process dies.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ltrbench.errors import LtrbenchError
from ltrbench.experiment.run import record_failure
from ltrbench.sweep.executors.base import Executor, WorkerLostError
from ltrbench.sweep.state import DONE, FAILED, RUNNING, JobState, state_of
from ltrbench.sweep.worker import JobTask, Outcome, experiment_of, failure

POLL_SECONDS = 0.5
"""Time between two looks at the jobs of other commands."""


@dataclass
class Events:
    """Callbacks of `run_tasks`.

    Attributes:
        started: a job has been submitted.
        ended: a job of this command has ended.
        waiting: other processes run the remaining jobs.
        watching: context of a job, for a tracker that measures the machine.
    """

    started: Callable[[JobTask], None]
    ended: Callable[[JobTask, Outcome], None]
    waiting: Callable[[Sequence[JobState]], None]
    watching: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass
class _Loop:
    """The jobs of a command.

    Attributes:
        unfinished: folders of the jobs that have not ended.
        run_elsewhere: folders of the jobs that another command was seen to run.
    """

    executor: Executor
    events: Events
    waiting: deque[JobTask]
    running: dict[Future[Any], JobTask] = field(default_factory=dict)
    elsewhere: list[JobState] = field(default_factory=list)
    has_said_so: bool = False

    def __post_init__(self) -> None:
        self.unfinished = {task.job.folder for task in self.waiting}
        self.run_elsewhere: set[str] = set()

    def submit_ready(self) -> None:
        """Submits jobs until every worker is busy."""
        self.elsewhere, postponed = [], deque[JobTask]()
        while self.waiting and len(self.running) < self.executor.num_workers:
            task = self.waiting.popleft()
            # The job whose training is copied has not ended yet.
            if task.trained is not None and task.trained[0] in self.unfinished:
                postponed.append(task)
                continue
            state = state_of(task.sweep, task.job)
            if state.name == RUNNING:
                self.elsewhere.append(state)
                self.run_elsewhere.add(task.job.folder)
                postponed.append(task)
            elif state.name == DONE:
                self.unfinished.discard(task.job.folder)
            elif state.name == FAILED and task.job.folder in self.run_elsewhere:
                self._end_elsewhere(task, state)
            else:
                self._submit(task)
        self.waiting.extendleft(reversed(postponed))

    def _end_elsewhere(self, task: JobTask, state: JobState) -> None:
        """Reports a job that failed in another command during this one; it would fail here too."""
        self.unfinished.discard(task.job.folder)
        self.events.ended(task, Outcome(state=FAILED, error=f"failed in another command: {state.reason}"))

    def _submit(self, task: JobTask) -> None:
        self.events.started(task)
        with self.events.watching():
            future = self.executor.submit(task)
        self.running[future] = task
        if future.done():
            self.collect(0)

    def collect(self, timeout: float | None) -> None:
        """Waits for the first running job to end, and reports all that have ended."""
        done, _ = wait(self.running, timeout=timeout, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            outcome = _outcome_of(future, task)
            if outcome.state == RUNNING:
                # Another process was faster. Without a pause, a lease that cannot be read would be tried
                # again and again.
                self.waiting.append(task)
                time.sleep(POLL_SECONDS)
            else:
                self.unfinished.discard(task.job.folder)
                self.events.ended(task, outcome)

    def wait_for_others(self) -> None:
        """Waits for jobs that other processes run."""
        if self.elsewhere and not self.has_said_so:
            self.has_said_so = True
            self.events.waiting(self.elsewhere)
        time.sleep(POLL_SECONDS)


def run_tasks(tasks: Sequence[JobTask], executor: Executor, events: Events) -> None:
    """Runs jobs with an opened executor, and returns when each of them has ended, here or elsewhere."""
    loop = _Loop(executor, events, deque(tasks))
    while loop.waiting or loop.running:
        loop.submit_ready()
        if loop.running:
            # A worker that is free may take a job that another command gives up.
            loop.collect(POLL_SECONDS if loop.waiting else None)
        elif loop.waiting:
            loop.wait_for_others()


def _outcome_of(future: Future[Any], task: JobTask) -> Outcome:
    """Returns how a job ended; a job whose process died is recorded as failed in its folder."""
    try:
        outcome = future.result()
    except WorkerLostError as error:
        return _lost(task, str(error))
    except Exception as error:
        return failure(error)
    assert isinstance(outcome, Outcome)
    return outcome


def _lost(task: JobTask, reason: str) -> Outcome:
    if state_of(task.sweep, task.job).name == DONE:
        return Outcome(state=DONE)
    outcome = Outcome(state=FAILED, error=f"failed: {reason}")
    try:
        record_failure(experiment_of(task.job), task.folder, reason)
    except (LtrbenchError, OSError) as error:
        # The folder may still be held by a process on another host.
        return replace(outcome, error=f"failed: {reason}; the failure could not be recorded: {error}")
    return outcome
