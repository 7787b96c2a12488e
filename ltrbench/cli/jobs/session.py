"""One command: its tracker, its jobs and their errors, the comparison of its runs, and its exit code."""

from __future__ import annotations

import contextlib
import functools
import logging
import logging.config
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.errors import OK, RUN_FAILED, RUN_INTERRUPTED, USER_MISTAKE
from ltrbench.cli.files import terminal_width
from ltrbench.cli.jobs.continuing import (
    announcement,
    failed_trials,
    interruption,
    partial_table,
    runs_and_trials_of,
    timing_announcement,
    unplanned_runs,
    waiting_for,
)
from ltrbench.cli.jobs.logs import handlers_kept
from ltrbench.cli.jobs.mirroring import (
    TRACKING,
    best_of,
    log_comparison,
    planned_states,
    status_of,
    sweep_identity,
)
from ltrbench.cli.jobs.progress import showing
from ltrbench.cli.jobs.rounds import Rounds, SweepOrder
from ltrbench.cli.program import program
from ltrbench.config import build, build_tracker
from ltrbench.disk import delete_abandoned
from ltrbench.errors import ConfigError, LtrbenchError, ResultError, TrackingError
from ltrbench.experiment.loading import forget
from ltrbench.experiment.run import record_failure
from ltrbench.results import FINISHED, RESULT_FILE, LeaseHeldError, Run, hold, read_run, tidy
from ltrbench.sweep.executors.base import Executor
from ltrbench.sweep.executors.inline import InlineExecutor
from ltrbench.sweep.job import COMPARISON_FOLDER, Job
from ltrbench.sweep.plan import Plan, prepare_sweep, read_plan
from ltrbench.sweep.planning import plan_jobs
from ltrbench.sweep.running import Events, run_tasks
from ltrbench.sweep.state import DONE, JobState, state_of, states_of, wanted
from ltrbench.sweep.timing import take_times, untimed
from ltrbench.sweep.worker import JobTask, Outcome, experiment_of, failure, run_task, stopping
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Comparison

log = logging.getLogger("ltrbench")

_SECONDS_FOR_OTHERS = 60.0
"""Maximum time to wait for another command that writes the comparison of the same sweep, or tracks it."""


@dataclass
class Session:
    """One command.

    Attributes:
        tracker: the tracker of the command; None before the first job.
        is_tracking: whether this command tracks the sweep; only one command does so at a time. True for a
            single run.
        sweep: folder of the sweep; None for a single run.
        jobs: the jobs of the sweep that belong to this command.
        register: name under which the best model is registered.
        folders: folders of the runs outside of a planned sweep.
        errors: one error for each failed job.
    """

    tracker: Tracker | None = None
    is_tracking: bool = False
    sweep: Path | None = None
    jobs: Sequence[Job] = ()
    register: str | None = None
    folders: list[Path] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    registered: str = ""
    comparison_folder: Path | None = None
    in_study: bool = False

    def __post_init__(self) -> None:
        self._tracking = contextlib.ExitStack()

    def run_sweep(self, order: SweepOrder) -> None:
        """Plans the jobs, and runs those that have not finished.

        Raises:
            LtrbenchError: The folder, the tracking store or the executor cannot be used, or a finished job
                has changed. A failure of a job is not raised.
        """
        plan, states = self._planned(order)
        if message := announcement(relative(order.folder), plan, states, order.only_failed):
            click.echo(message, err=True)
        executor = build(order.settings, "executor", Executor)
        tracker = build_tracker(order.settings)
        _check_watching(tracker, executor)
        check_executor_of_distributed([draft.settings for draft in order.drafts], executor)
        self._open_tracker(tracker)
        jobs = [state.job for state in wanted(states, order.only_failed)]
        if jobs:
            rounds = Rounds(self, order, plan, executor, jobs)
            self._run_jobs(executor, rounds, order)
        for job in plan.jobs.values():
            if (order.folder / job.folder / RESULT_FILE).exists():
                tidy(order.folder / job.folder)

    def time_sweep(self, order: SweepOrder) -> None:
        """Takes the times of the finished jobs that shared the machine again, one after another.

        Raises:
            LtrbenchError: As in `run_sweep`. A failure of a job is not raised.
        """
        _, states = self._planned(order)
        jobs = untimed(states)
        click.echo(timing_announcement(states, jobs), err=True)
        self._open_tracker(build_tracker(order.settings))
        for job in jobs:
            try:
                timed = take_times(order.folder, job, [state.job for state in states])
            except LtrbenchError as error:
                self.errors.append(error)
                click.echo(f"job {job.number}: error: {error}", err=True)
                continue
            seconds = timed[0].result.seconds["fit"]
            click.echo(f"job {job.number}: {timed[0].result.model}, fit in {seconds:.2f} s", err=True)

    def _planned(self, order: SweepOrder) -> tuple[Plan, list[JobState]]:
        """Plans the jobs of an order, and returns the plan and the states of these jobs."""
        prepare_sweep(order.folder)
        plan = read_plan(order.folder)
        jobs = plan_jobs(plan, order.drafts, order.folder_of, unplanned_runs(plan))
        for reason in plan.damaged.values():
            log.warning("%s. Its job is not part of this command.", reason)
        self.sweep, self.jobs, self.register = relative(order.folder), jobs, order.settings["register"]
        return plan, states_of(order.folder, jobs)

    def _open_tracker(self, tracker: Tracker, wait: float = 0.0) -> None:
        """Opens the tracker of a sweep, unless another command tracks the same sweep.

        Raises:
            TrackingError: The store cannot be used.
        """
        assert self.sweep is not None
        # None while the store may be unusable, so that `close` does not try it again.
        self.tracker = None
        with contextlib.suppress(LeaseHeldError), contextlib.ExitStack() as held:
            held.enter_context(hold(self.sweep, TRACKING, wait))
            tracker.open(str(self.sweep), sweep_identity(self.sweep))
            # Held until `close`, unless the store cannot be opened.
            self._tracking = held.pop_all()
            self.is_tracking = True
        self.tracker = tracker

    def _run_jobs(self, executor: Executor, rounds: Rounds, order: SweepOrder) -> None:
        is_inline = isinstance(executor, InlineExecutor)
        if not is_inline:
            # The workers load the data themselves.
            forget()
        console = handlers_kept(order.logging, into_folders=False)
        if console:
            logging.config.dictConfig(console)
        try:
            with contextlib.closing(executor):
                executor.open(functools.partial(run_task, showing=showing), order.settings["num_threads"])
                if executor.message:
                    click.echo(executor.message, err=True)
                events = Events(
                    started=lambda task: None if is_inline else _say_started(task),
                    ended=functools.partial(self._ended, is_inline=is_inline),
                    waiting=lambda states: click.echo(waiting_for(states), err=True),
                )
                if self.tracker is not None and self.is_tracking and is_inline:
                    events.watching = self.tracker.watching
                while tasks := rounds.next_tasks():
                    run_tasks(tasks, executor, events)
        finally:
            if console:
                # Closes the log file of the last job.
                logging.config.dictConfig(console)

    def record_failed(self, task: JobTask, error: LtrbenchError) -> None:
        """Records a job that cannot run, because its search has no result."""
        if state_of(task.sweep, task.job).name == DONE:
            return  # another command has finished it in the meantime
        try:
            record_failure(experiment_of(task.job), task.folder, str(error))
        except ResultError as unrecorded:
            error = ResultError(f"{error} The failure could not be recorded: {unrecorded}")
        self._ended(task, failure(error), is_inline=False)

    def _ended(self, task: JobTask, outcome: Outcome, is_inline: bool) -> None:
        """Records the end of a job: its error, unless it is a trial, and its run in the tracking store."""
        if outcome.error and not task.job.is_trial:
            kind = LtrbenchError if outcome.is_user_error else RuntimeError
            self.errors.append(kind(outcome.error))
        if not is_inline:
            _say_ended(task, outcome)
        if (task.folder / RESULT_FILE).exists() and self.tracker is not None and self.is_tracking:
            folder = relative(task.folder)
            with _warning(f"{folder} was not tracked"):
                self.tracker.log(read_run(folder))

    def close(self, status: str) -> None:
        """Writes the comparison, registers the best model, and closes the tracker's parent run with the
        status of the command."""
        try:
            with _warning("the comparison could not be written"):
                self._keep_comparison()
            if self.tracker is not None:
                with _warning("the tracking store does not have the whole sweep"):
                    self._complete_tracking(self.tracker)
            if self.tracker is not None and self.register is not None and status == "finished":
                with _warning(f"no model was registered as '{self.register}'"):
                    self._register(self.tracker, self.register)
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            if self.tracker is not None and self.is_tracking:
                with self._tracking, _warning("the sweep's parent run could not be closed"):
                    self.tracker.close(self._status(status))

    def _status(self, status: str) -> str:
        """Returns the status of the parent run: that of the command, unless jobs failed or have not ended."""
        if status != "finished":
            return status
        of_sweep = "finished" if self.sweep is None else status_of(self.sweep)
        return "failed" if self.errors and of_sweep == "finished" else of_sweep

    def _keep_comparison(self) -> None:
        """Writes the comparison to the sweep's folder."""
        if self.sweep is None or not self.comparisons:
            return
        from ltrbench.compare.output.publish import publish

        folder = self.sweep / COMPARISON_FOLDER
        with hold(self.sweep, "comparison", wait=_SECONDS_FOR_OTHERS) as lease:
            for place in (self.sweep, folder):
                delete_abandoned(place, ".partial-*")
            publish(self.comparisons, folder)
            lease.is_complete = True
        self.comparison_folder = folder

    def _complete_tracking(self, tracker: Tracker) -> None:
        """Stores runs of the sweep that the tracking store does not have, and the comparison.

        Raises:
            TrackingError: The store cannot be used, or another command still tracks the sweep.
        """
        if self.sweep is None:
            return
        if not self.is_tracking:
            self._open_tracker(tracker, wait=_SECONDS_FOR_OTHERS)
        if not self.is_tracking:
            raise TrackingError(
                "another command still tracks it. When that command has ended: "
                f"{program()} sync {shlex.quote(str(self.sweep))}"
            )
        for run in self.runs_and_trials:
            tracker.log(run)
        if self.comparison_folder is not None:
            log_comparison(tracker, self.comparisons, self.comparison_folder)

    def _register(self, tracker: Tracker, name: str) -> None:
        best = best_of(self.comparisons)
        if best is None:
            raise ResultError(
                "the best model is chosen by validation on one data set, but these runs have no data set in "
                "common. Register the models of each data set in a separate command"
            )
        self.registered = f"{tracker.register(name, best.run, best.reason)} ({best.reason})"

    @property
    def runs(self) -> list[Run]:
        """The runs on disk after the last job, without trials of searches. For a sweep: all runs in its
        folder, as `compare` reads them."""
        return [run for run in self.runs_and_trials if not run.result.trial]

    @cached_property
    def runs_and_trials(self) -> list[Run]:
        """The runs on disk after the last job, with trials of searches."""
        if self.sweep is not None:
            try:
                return runs_and_trials_of(self.sweep)
            except ResultError as error:
                log.warning("comparing only the runs of this command: %s", error)
        folders = [*map(relative, self.folders), *(Path(self.sweep or "", job.folder) for job in self.jobs)]
        return [read_run(folder) for folder in folders if (folder / RESULT_FILE).exists()]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        # Imported late, so that --help prints without delay.
        from ltrbench.compare import compare

        if all(run.result.status != FINISHED for run in self.runs):
            return []
        try:
            return compare(self.runs)
        except ResultError as error:
            log.warning("no comparison is available: %s", error)
            return []

    def report(self) -> None:
        """Prints the comparison on standard output, and failed trials and the locations of the results on
        standard error."""
        if self.sweep is not None and (reason := failed_trials(self.sweep, self.jobs)):
            log.warning("%s", reason)
        if not self.runs:
            return
        # Imported late, so that --help prints without delay.
        from ltrbench.compare import render
        from ltrbench.compare.analysis.across import across, across_in_words

        for comparison in self.comparisons:
            click.echo(f"\n{render(comparison, terminal_width())}")
        if over := across_in_words(across(self.comparisons) if self.comparisons else None):
            click.echo(f"{over}\n")
        where = [f"Run folders: {_common(self.runs)}"]
        if self.comparison_folder is not None:
            where.append(f"Comparison:  {relative(self.comparison_folder)}")
        if self.tracker is not None and self.is_tracking and self.tracker.where:
            where.append(f"MLflow UI:   {program()} ui     ({self.tracker.where})")
        if self.registered:
            where.append(f"Registered:  {self.registered}")
        click.echo("\n".join(where), err=True)

    @property
    def incompleteness(self) -> str:
        """The line above the table of a sweep whose jobs have not all finished; else empty."""
        return "" if self.sweep is None else partial_table(planned_states(self.sweep))

    def interruption(self, again: str) -> str:
        """Returns the message after an interruption: what is finished, what is lost, and how to continue.

        Args:
            again: the command line that repeats the command.
        """
        if self.sweep is not None and self.jobs:
            return interruption(self.sweep, states_of(self.sweep, self.jobs))
        if self.in_study:
            return f"interrupted; no result of the study was saved. To run it again: {again}"
        if any(run.result.status == FINISHED for run in self.runs):
            return "interrupted after the run had finished; its results are complete."
        if not self.runs:
            return f"interrupted before the run started; nothing is lost. To run it again: {again}"
        return (
            "interrupted; no model and no scores were saved, and result.json in "
            f"{relative(self.folders[-1])} contains only the settings. To run it again: {again}"
        )

    @property
    def exit_code(self) -> int:
        """0; 2 if the user can fix every error, or if the comparison could not be written; 1 otherwise."""
        if not self.errors:
            unwritten = bool(self.sweep and self.comparisons) and self.comparison_folder is None
            return USER_MISTAKE if unwritten else OK
        return USER_MISTAKE if all(isinstance(error, LtrbenchError) for error in self.errors) else RUN_FAILED


def conduct(session: Session, again: str, work: Callable[[], None]) -> int:
    """Does the work of a command, closes its session, and returns the exit code.

    Args:
        again: the command line that repeats the command.
        work: runs the jobs.

    Raises:
        LtrbenchError: The command cannot start.
    """
    heed_signals()
    try:
        _closing(session, work)
    except KeyboardInterrupt:
        if session.comparisons and (remark := session.incompleteness):
            click.echo(f"\n{remark}")
        session.report()
        click.echo(session.interruption(again), err=True)
        return RUN_INTERRUPTED
    session.report()
    return session.exit_code


def _closing(session: Session, work: Callable[[], None]) -> None:
    status = "failed"
    try:
        work()
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        session.close(status)


def heed_signals() -> None:
    """Installs signal handlers: on Ctrl-C or SIGTERM the command records its state, closes, and ends.

    An interruption of an earlier command in this process does not count.
    """
    stopping.clear()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        stopping.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # A background command ignores Ctrl-C, which is meant for the foreground command.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)


def _check_watching(tracker: Tracker, executor: Executor) -> None:
    """Raises ConfigError if the tracker measures the machine, but jobs run in other processes."""
    if tracker.measures_machine and not isinstance(executor, InlineExecutor):
        raise ConfigError(
            "tracking.system_metrics is true, but it measures only jobs in this process. Set "
            "tracking.system_metrics=false, or executor=inline."
        )


def check_executor_of_distributed(settings: Iterable[Mapping[str, Any]], executor: Executor) -> None:
    """Raises ConfigError if a job fits on several workers, but its executor runs several jobs at a time.

    Args:
        settings: the settings of each job.
    """
    if isinstance(executor, InlineExecutor):
        return
    if any(of_job["distributed"] is not None for of_job in settings):
        raise ConfigError(
            f"distributed is set and executor is {type(executor).__name__}, but jobs that run at the same "
            "time would share the cores and the memory of the workers that fit together. Set "
            "executor=inline, which runs one job after another, or distributed=none."
        )


def _say_started(task: JobTask) -> None:
    log.info("%s %s started: %s", task.job.kind, task.job.number, " ".join(task.job.settings_of_job))


def _say_ended(task: JobTask, outcome: Outcome) -> None:
    if outcome.error:
        log.error("%s %s %s", task.job.kind, task.job.number, outcome.error)
    else:
        log.info(
            "%s %s finished: %s", task.job.kind, task.job.number, outcome.summary or "by another command"
        )


@contextlib.contextmanager
def _warning(what: str) -> Iterator[None]:
    """Turns an LtrbenchError into a warning, because a failure after the runs must not discard them."""
    try:
        yield
    except LtrbenchError as error:
        log.warning("%s: %s", what, error)


def relative(path: Path) -> Path:
    """Returns a path relative to the current folder, if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _common(runs: list[Run]) -> Path:
    return runs[0].path if len(runs) == 1 else Path(os.path.commonpath([run.path for run in runs]))
