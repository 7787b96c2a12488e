"""Runs the jobs of a sweep: which job next, until every job has ended.

Other commands may work on the same sweep. A job that another process runs is waited for, and run here if that
process dies.
"""

from __future__ import annotations

import contextlib
import logging
import logging.config
import math
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.errors import LtrbenchError, ResultError, debugging, error_text
from ltrbench.experiment import (
    ChosenSettings,
    describe_outcome,
    record_failure,
    run,
)
from ltrbench.experiment.loading import OnProgress, Progress
from ltrbench.folders import modules_folder, searching_only, settings_in
from ltrbench.rankers.base import resolve_threads
from ltrbench.runs.origin import Copied, Trained
from ltrbench.runs.record import FINISHED, Run, RunResult, read_run
from ltrbench.runs.writing import LeaseHeldError, delete_damaged, hold, rewrite_result
from ltrbench.sweep.executors import AllWorkersLostError, Executor, WorkerLostError
from ltrbench.sweep.plan import (
    DONE,
    FAILED,
    RUNNING,
    WAITING,
    Job,
    JobState,
    state_of,
    states_of,
)

# ---- Runs one job, in whatever process an executor chooses.

log = logging.getLogger("ltrbench")

Showing = Callable[[str, str], AbstractContextManager[OnProgress | None]]
"""(setting `progress`, model) -> context with the callback that shows the progress of a fit."""


@dataclass
class Stopping:
    """Whether a signal has ended this command.

    An Event has a lock, for which the handler would wait forever if the main thread holds it."""

    is_set: bool = False


stopping = Stopping()
"""Set by a signal handler before it raises KeyboardInterrupt: compiled code turns it into another error."""


class OutOfTimeError(KeyboardInterrupt):
    """The time of a sweep is over, and jobs of it wait: it ends as by Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class JobTask:
    """A job, and everything that its process needs to run it: plain values, because a worker may be another
    process, on another host, whose modules of the user are found only when it begins the job.

    Attributes:
        sweep: folder of the sweep, absolute.
        started_in: folder where relative paths of the job begin.
        modules: folder with the modules of the user: the current folder of the command.
        trained: (folder, digest) of the job whose training may be copied; None: the job trains.
        choice: the settings that a search chose for the job; None: the job trains with its own.
        progress: how the progress of a fit is shown, as in the setting.
        on_console: whether messages of the run are also printed.
        deadline: time of `time.time` after which the job does not begin, and a fit that reports iterations
            ends at the next one without a result.
    """

    job: Job
    sweep: Path
    started_in: Path = field(default_factory=Path.cwd)
    modules: Path = field(default_factory=modules_folder)
    trained: tuple[str, str] | None = None
    choice: ChosenSettings | None = None
    progress: str = "none"
    on_console: bool = False
    deadline: float = math.inf

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.sweep / self.job.folder

    def __str__(self) -> str:
        return f"{self.job.kind} {self.job.number}: {self.job.in_words}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended.

    Attributes:
        state: finished, failed, running (another process runs the job) or waiting (its time was over).
        error: message of the failure, as the command line prints it; empty for other states.
        is_user_error: whether the user can fix the error.
        summary: metrics and fit time of a run that finished in this process, and the job whose training it
            copied.
    """

    state: str
    error: str = ""
    is_user_error: bool = False
    summary: str = ""


def run_task(task: JobTask, showing: Showing | None = None) -> Outcome:
    """Runs a job, unless it has finished or another process runs it."""
    if state_of(task.sweep, task.job).name == DONE:
        return Outcome(state=DONE)
    if time.time() >= task.deadline:  # a cluster may start its workers hours later
        return Outcome(state=WAITING)
    try:
        task.folder.mkdir(parents=True, exist_ok=True)
        log_to(task.folder / "ltrbench.log", task.on_console)
        # A worker on another host may have been started elsewhere.
        with contextlib.chdir(task.started_in), searching_only(task.modules):
            log.info("\n%s", task)
            delete_damaged(task.folder)
            return Outcome(state=DONE, summary=_run(task, showing))
    except LeaseHeldError:
        return Outcome(state=RUNNING)
    except OutOfTimeError:
        return Outcome(state=WAITING)
    except Exception as error:
        # Another process may have finished the job in the meantime.
        if not stopping.is_set and state_of(task.sweep, task.job).name == DONE:
            return Outcome(state=DONE)
        return report(error)


def log_to(file: Path | None, on_console: bool = True) -> None:
    """Configures Python's logging as conf/hydra/job_logging/plain.yaml does, with the log file of a run."""
    settings = settings_in("hydra/job_logging", "plain")
    settings["handlers"]["file"]["filename"] = str(file)
    names = []
    if on_console:
        names.append("console")
    if file is not None:
        names.append("file")
    settings["handlers"] = {name: settings["handlers"][name] for name in names}
    settings["root"]["handlers"] = names
    logging.config.dictConfig(settings)


def report(error: Exception) -> Outcome:
    """Logs the error of a job, and returns its outcome.

    Raises:
        KeyboardInterrupt: The command is interrupted; compiled code turns this exception into another error.
    """
    if stopping.is_set:
        raise KeyboardInterrupt from error
    if debugging():
        log.error("".join(traceback.format_exception(error)))
    outcome = failure(error)
    log.error("%s", outcome.error)
    return outcome


def failure(error: BaseException) -> Outcome:
    """Returns the outcome of a job that ended with an error."""
    return Outcome(
        state=FAILED,
        error=error_text(error),
        is_user_error=isinstance(error, LtrbenchError),
    )


def _run(task: JobTask, showing: Showing | None) -> str:
    experiment = task.job.experiment(task.choice)
    watching: contextlib.AbstractContextManager[OnProgress | None]
    watching = contextlib.nullcontext()
    if showing is not None:
        watching = showing(task.progress, experiment.model)
    with watching as on_progress:
        if task.deadline < math.inf:
            on_progress = _until(task.deadline, on_progress)
        done = run(experiment, task.folder, None, on_progress, _trained(task))
    origin = done.result.origin
    copied = ""
    if isinstance(origin, Copied):
        copied = f"; the training of job {origin.run} is reused"
    return f"{experiment.model}: {describe_outcome(done.result, experiment.metrics)}{copied}"


def _until(deadline: float, on_progress: OnProgress | None) -> OnProgress:
    """Returns a callback that passes on the progress of a fit, and ends the fit at the deadline, unless its
    last iteration has ended."""

    def pass_on(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(progress)
        is_last = progress.iteration == progress.num_iterations
        if time.time() >= deadline and not (progress.finished or is_last):
            raise OutOfTimeError

    return pass_on


def _trained(task: JobTask) -> tuple[str, Run] | None:
    """Returns the run whose training is copied; None if there is none, or if it failed or is damaged."""
    if task.trained is None:
        return None
    name, digest = task.trained
    try:
        trained = read_run(task.sweep / name)
    except ResultError:
        return None
    is_usable = trained.result.status == FINISHED and trained.result.key == digest
    is_copied = isinstance(trained.result.origin, Copied)
    if is_usable and not is_copied:
        return (name, trained)
    return None


POLL_SECONDS = 0.5
"""Time between two looks at the jobs of other commands."""


def run_tasks(
    tasks: Sequence[JobTask],
    executor: Executor,
    on_start: Callable[[JobTask], None],
    on_end: Callable[[JobTask, Outcome], None],
    on_wait: Callable[[Sequence[JobState]], None],
) -> None:
    """Runs jobs with an opened executor, and returns when each of them has ended, here or elsewhere.

    Args:
        on_start: called when a job has been submitted.
        on_end: called when a job of this command has ended.
        on_wait: called when other processes run the remaining jobs.

    Raises:
        OutOfTimeError: A deadline of the jobs has passed, and jobs wait.
        AllWorkersLostError: The executor has no workers any more; the remaining jobs wait.
    """
    queue = _Queue(executor, tasks)
    deadline = min((task.deadline for task in tasks), default=math.inf)
    has_said_so = False
    while queue.waiting or queue.running:
        elsewhere: list[JobState] = []
        if time.time() < deadline and not queue.is_out_of_time:
            elsewhere = queue.submit(on_start)
        elif not queue.running:
            queue.discard_finished()
            if queue.waiting:
                raise OutOfTimeError
        queue.settle(on_end)
        if elsewhere and not queue.running:
            if not has_said_so:
                on_wait(elsewhere)
            has_said_so = True
            time.sleep(POLL_SECONDS)


class _Queue:
    """The jobs of `run_tasks` that have not ended.

    Attributes:
        waiting: jobs that are not submitted.
        running: submitted jobs.
        unfinished: folders of both, and of jobs that other processes run.
        is_out_of_time: whether a worker has seen the deadline pass, perhaps by the clock of another host.
    """

    def __init__(self, executor: Executor, tasks: Sequence[JobTask]) -> None:
        self._executor = executor
        self.waiting = deque(tasks)
        self.running: dict[Future[Any], JobTask] = {}
        self.unfinished = {task.job.folder for task in tasks}
        self.is_out_of_time = False

    def submit(self, on_start: Callable[[JobTask], None]) -> list[JobState]:
        """Submits jobs while a worker is free; returns the states of those that other processes run."""
        elsewhere: list[JobState] = []
        postponed: list[JobTask] = []
        while self.waiting and len(self.running) < self._executor.num_workers:
            task = self.waiting.popleft()
            state = state_of(task.sweep, task.job)
            # The job whose training is copied has not ended yet.
            if task.trained is not None and task.trained[0] in self.unfinished:
                postponed.append(task)
            elif state.name == RUNNING:
                elsewhere.append(state)
                postponed.append(task)
            elif state.name == DONE:
                self.unfinished.discard(task.job.folder)
            else:
                on_start(task)
                future = self._executor.submit(task)
                self.running[future] = task
                if future.done():
                    break
        self.waiting.extendleft(reversed(postponed))
        return elsewhere

    def discard_finished(self) -> None:
        """Takes out the waiting jobs that other processes have finished."""
        left = [
            task for task in self.waiting if state_of(task.sweep, task.job).name != DONE
        ]
        self.waiting = deque(left)

    def settle(self, on_end: Callable[[JobTask, Outcome], None]) -> None:
        """Waits until a submitted job has ended, or for a moment, and records those that have ended."""
        # A worker that is free may take a job that another command gives up.
        timeout = POLL_SECONDS if self.waiting else None
        done, _ = wait(self.running, timeout=timeout, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.running.pop(future)
            outcome = _outcome_of(future, task)
            if outcome.state in (RUNNING, WAITING):
                # Another process was faster, or the time is over.
                self.waiting.append(task)
                self.is_out_of_time |= outcome.state == WAITING
            else:
                self.unfinished.discard(task.job.folder)
                on_end(task, outcome)


def _outcome_of(future: Future[Any], task: JobTask) -> Outcome:
    """Returns how a job ended; a job whose process died is recorded as failed in its folder."""
    try:
        outcome: Outcome = future.result()
    except AllWorkersLostError:
        raise
    except WorkerLostError as error:
        return record_failed(task, error)
    except Exception as error:
        return failure(error)
    return outcome


def record_failed(task: JobTask, error: Exception) -> Outcome:
    """Records the failure of a job that left no run, unless another process has finished the job."""
    if state_of(task.sweep, task.job).name == DONE:
        return Outcome(state=DONE)
    outcome = failure(error)
    if isinstance(error, WorkerLostError):
        outcome = replace(outcome, error=f"failed: {error}")
    try:
        record_failure(task.job.experiment(), task.folder, str(error))
    except (LtrbenchError, OSError) as unrecorded:
        # The folder may still be held by a process on another host.
        return replace(
            outcome,
            error=f"{outcome.error}; the failure could not be recorded: {unrecorded}",
        )
    return outcome


# ---- Takes the times of finished runs again, one after another, because they shared the machine.


def untimed(states: Sequence[JobState]) -> list[Job]:
    """Returns the finished jobs whose times are taken again: those that shared the machine, or had another
    number of threads than they would have alone. Without trials and jobs that copied their training."""
    jobs = []
    for state in states:
        if state.name == DONE and state.run is not None:
            result = state.run.result
            threads = resolve_threads(int(result.ranker["fields"]["num_threads"]))
            is_measured = isinstance(result.origin, Trained)
            if is_measured and (result.shared_machine or result.threads != threads):
                jobs.append(state.job)
    return jobs


def take_times(sweep: Path, job: Job, others: Sequence[Job]) -> list[Run]:
    """Runs a finished job once more in this process, and replaces the times in its result.json.

    Args:
        others: the jobs of the sweep. Those that copied the training of `job` get its times too.

    Returns:
        The runs whose times were replaced.

    Raises:
        ResultError: The scores differ from those of the first time, or another process uses the folder.
    """
    folder = sweep / job.folder
    with hold(folder):
        earlier = read_run(folder)
        choice = None
        if earlier.result.search:
            choice = ChosenSettings(earlier.result.search)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
            timed = run(job.experiment(choice), Path(scratch, "run"))
            before, now = (each.scored("test").scores for each in (earlier, timed))
            if not np.array_equal(before, now):
                raise ResultError(
                    f"{folder}: the scores differ from those of the first run, so its times are kept. This "
                    f"machine or its libraries differ ({earlier.result.machine}); delete the folder to run "
                    "the job again."
                )
            replaced = [_with_times(earlier, timed.result)]
    of_same_training = [each for each in others if each.same_training == job.folder]
    for state in states_of(sweep, of_same_training):
        if state.name != DONE or state.run is None:
            continue
        if state.run.result.origin == Copied(run=job.folder):
            with hold(state.run.path):
                replaced.append(_with_times(state.run, timed.result))
    return replaced


def _with_times(earlier: Run, timed: RunResult) -> Run:
    names = ("seconds", "peak_memory_mb", "load", "threads", "machine")
    taken: dict[str, Any] = {name: getattr(timed, name) for name in names}
    return rewrite_result(
        earlier, replace(earlier.result, shared_machine=False, **taken)
    )
