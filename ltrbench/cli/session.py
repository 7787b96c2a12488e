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
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.console import OK, RUN_FAILED, RUN_INTERRUPTED, USER_MISTAKE, program, terminal_width
from ltrbench.cli.mirroring import (
    TRACKING,
    best_of,
    log_comparison,
    planned_states,
    status_of,
    sweep_identity,
)
from ltrbench.cli.progress import handlers_kept, showing
from ltrbench.config import build, build_tracker
from ltrbench.disk import delete_abandoned
from ltrbench.errors import ConfigError, LtrbenchError, ResultError, TrackingError
from ltrbench.experiment.loading import forget
from ltrbench.experiment.run import record_failure
from ltrbench.runs import (
    FINISHED,
    RESULT_FILE,
    LeaseHeldError,
    Run,
    find_runs_and_trials,
    hold,
    holds_runs,
    read_run,
    tidy,
)
from ltrbench.runs.record import as_products
from ltrbench.sweep.executors.base import Executor, InlineExecutor
from ltrbench.sweep.job import COMPARISON_FOLDER, TRIALS_FOLDER, Job, in_ranges
from ltrbench.sweep.plan import (
    DONE,
    FAILED,
    STATES,
    WAITING,
    FolderOf,
    JobState,
    Plan,
    plan_jobs,
    prepare_sweep,
    read_plan,
    state_of,
    states_of,
    wanted,
)
from ltrbench.sweep.running import (
    Events,
    JobTask,
    Outcome,
    experiment_of,
    failure,
    run_task,
    run_tasks,
    stopping,
    take_times,
    untimed,
)
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Comparison

# ---- The tasks of a command, in batches: its jobs, and the trials of their searches.


@dataclass(frozen=True, kw_only=True)
class SweepOrder:
    """The jobs that a command wants to run, and how.

    Attributes:
        folder: folder of the sweep.
        drafts: the jobs, without numbers.
        folder_of: chooses the folder of a new job.
        settings: the settings of the command: tracking, executor, register, progress, num_threads.
        logging: configuration of Python's logging, with `FOLDER` for the folder of a run.
        chdir: whether jobs run in their folders.
        environment: environment variables of the jobs.
        only_failed: whether only failed jobs run; otherwise every job that has not finished.
    """

    folder: Path
    drafts: Sequence[Job]
    folder_of: FolderOf
    settings: Mapping[str, Any]
    logging: Mapping[str, Any]
    chdir: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    only_failed: bool = False


@dataclass
class TaskBatches:
    """The tasks of a command, in batches: first its jobs without a search and the first trials of all
    searches, later the jobs whose settings were searched.

    Attributes:
        jobs: the jobs that the command runs, without trials.
    """

    session: Session
    order: SweepOrder
    plan: Plan
    executor: Executor
    jobs: Sequence[Job]

    def __post_init__(self) -> None:
        self._first = [job for job in self.jobs if not job.is_search]
        self._searched = {job.number: job for job in self.jobs if job.is_search}
        self._searches = None
        if self._searched:
            # Imported late, because it needs the extra `search`.
            from ltrbench.sweep.searching import Searches, searches_of

            sweep = self.order.folder.resolve()
            # With the finished jobs, whose folds take part in a shared choice.
            jobs = [job for job in self.session.jobs if job.is_search]
            self._searches = Searches(sweep, self._planned, searches_of(sweep, jobs, self._searched))

    def next_tasks(self) -> list[JobTask]:
        """Returns the next batch; empty if every job has ended."""
        tasks, self._first = [self._task(job) for job in self._first], []
        trials, choices = self._searches.next_round() if self._searches is not None else ([], {})
        tasks += [self._task(job) for job in trials]
        for number, choice in choices.items():
            if number not in self._searched:
                continue
            task = self._task(self._searched[number])
            if isinstance(choice, LtrbenchError):
                self.session.record_failed(task, choice)
            else:
                tasks.append(replace(task, choice=choice))
        return tasks or (self.next_tasks() if choices else [])

    def _planned(self, drafts: Sequence[Job]) -> list[Job]:
        """Adds trials to the plan; returns each with its number and folder."""
        plan_jobs(self.plan, drafts, lambda job, number: f"{TRIALS_FOLDER}/{number}")
        planned = [self.plan.find(draft) for draft in drafts]
        jobs = [
            replace(job, settings=draft.settings)
            for job, draft in zip(planned, drafts, strict=True)
            if job is not None
        ]
        known = {job.number for job in self.session.jobs}
        new = {job.number: job for job in jobs if job.number not in known}
        self.session.jobs = [*self.session.jobs, *new.values()]
        return jobs

    def _task(self, job: Job) -> JobTask:
        is_inline = isinstance(self.executor, InlineExecutor)
        leader = self.plan.trained_before(job)
        # A bar of a worker would be drawn over those of the others.
        progress = self.order.settings["progress"]
        return JobTask(
            job=job,
            sweep=self.order.folder.resolve(),
            trained=None if leader is None else (leader.folder, leader.digest),
            progress=progress if is_inline or progress == "none" else "plain",
            logging=self.order.logging if is_inline else handlers_kept(self.order.logging, into_folders=True),
            chdir=self.order.chdir,
            environment=self.order.environment,
        )


# ---- Messages of a sweep that continues in an existing folder, or that was interrupted.

SWEEP_FILE = "multirun.yaml"
"""The file with the settings of a sweep, in its folder."""


def runs_of(folder: Path) -> list[Run]:
    """Returns the runs in the folder of a sweep, possibly none, without the runs of sweeps in its subfolders
    and without trials of searches.

    Raises:
        ResultError: A run is damaged.
    """
    return [run for run in runs_and_trials_of(folder) if not run.result.trial]


def runs_and_trials_of(folder: Path) -> list[Run]:
    """Returns the runs of `runs_of`, and the trials of searches.

    Raises:
        ResultError: A run is damaged.
    """
    runs = find_runs_and_trials([folder]) if holds_runs(folder) else []
    return [run for run in runs if not _is_of_another_sweep(run.path, folder)]


def _is_of_another_sweep(path: Path, folder: Path) -> bool:
    between = [place for place in path.parents if folder in place.parents]
    return any((place / SWEEP_FILE).exists() for place in between)


def unplanned_runs(plan: Plan) -> list[Run]:
    """Returns the runs in the folder of a sweep that its plan does not contain.

    Raises:
        ResultError: A run is damaged.
    """
    planned = plan.folders
    others = [path for path in plan.sweep.iterdir() if path.is_dir() and path not in planned]
    return [
        run
        for folder in others
        for run in runs_of(folder)
        if run.path not in planned and not _is_of_another_sweep(run.path, plan.sweep)
    ]


def announcement(sweep: Path, plan: Plan, states: Sequence[JobState], only_failed: bool) -> str:
    """Returns the message about earlier runs in the folder of a sweep; empty if all jobs are new.

    Args:
        states: the jobs of this command.
        only_failed: whether only failed jobs run.
    """
    states = [state for state in states if not state.job.is_trial]
    begun = [state for state in states if state.name != WAITING or state.run is not None]
    others = sum(not job.is_trial for job in plan.jobs.values()) - len(states)
    if not begun and not others:
        return ""
    numbers = [state.job.number for state in wanted(states, only_failed)]
    more = f" The table also contains {others} jobs of other commands in this folder." if others else ""
    return (
        f"{sweep}: of the {len(states)} {'job' if len(states) == 1 else 'jobs'} of this command, "
        f"{_in_states(states)}. "
        f"This command runs {in_ranges(numbers)}.{more}"
    )


def interruption(sweep: Path, states: Sequence[JobState]) -> str:
    """Returns the message of an interrupted command: the state of each job, and how to run the others."""
    trials = [state for state in states if state.job.is_trial]
    others = [state for state in states if not state.job.is_trial]
    of_trials = f"; of {len(trials)} trials: {_in_states(trials)}" if trials else ""
    lines = [f"interrupted; of {len(others)} jobs: {_in_states(others)}{of_trials}"]
    for name in STATES:
        # The settings of trials have nothing in common, so that their list would be long.
        jobs = [state.job.settings_of_job for state in others if state.name == name]
        lines += [f"  {name + ':':<9} {' '.join(product)}" for product in as_products(jobs)]
    folder = shlex.quote(str(sweep))
    if all(state.name == DONE for state in others):
        return "\n".join([*lines, f"No job remains. To compare the runs: {program()} compare {folder}"])
    lines += ["To run the jobs that have not finished:", f"  {program()} resume {folder}"]
    if any(state.name == FAILED for state in others):
        lines += ["To run only the failed jobs:", f"  {program()} resume {folder} --failed"]
    return "\n".join(lines)


def failed_trials(sweep: Path, jobs: Iterable[Job]) -> str:
    """Returns the warning about failed trials among the jobs of a sweep; empty if there are none."""
    trials = states_of(sweep, [job for job in jobs if job.is_trial])
    failed = [state for state in trials if state.name == FAILED]
    if not failed:
        return ""
    folder, reason = sweep / failed[0].job.folder, (failed[0].reason or "").strip().partition("\n")[0]
    return (
        f"{len(failed)} of {len(trials)} trials failed; a search chooses among the others. The first one is "
        f"{folder}: {reason.rstrip('.')}. To repeat all trials after a repair, choose a new hydra.sweep.dir."
    )


def timing_announcement(states: Sequence[JobState], timed: Sequence[Job]) -> str:
    """Returns the message about the jobs whose times are taken again.

    Args:
        states: the jobs of the sweep.
        timed: the jobs that run again.
    """
    again = f"times of {len(timed)} of {len(states)} jobs are taken again"
    if not timed:
        return f"{again}: no training shared the machine or had fewer threads"
    folders = {job.folder for job in timed}
    copies = sum(state.run is not None and state.run.result.reused in folders for state in states)
    if not copies:
        return again
    return f"{again} ({copies} {'other copies' if copies == 1 else 'others copy'} their training)"


def _in_states(states: Sequence[JobState]) -> str:
    names = [state.name for state in states]
    return ", ".join(f"{names.count(name)} {name}" for name in STATES if name in names)


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
        check_executor_of_distributed([draft.settings for draft in order.drafts], executor)
        self._open_tracker(tracker)
        jobs = [state.job for state in wanted(states, order.only_failed)]
        if jobs:
            self._run_jobs(executor, TaskBatches(self, order, plan, executor, jobs), order)
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

    def _run_jobs(self, executor: Executor, batches: TaskBatches, order: SweepOrder) -> None:
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
                    started=lambda task: None if is_inline else _say_started(task.job),
                    ended=functools.partial(self._ended, is_inline=is_inline),
                    waiting=_say_waiting,
                )
                while tasks := batches.next_tasks():
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
        """Writes the comparison to the sweep's folder, unless it is there already."""
        if self.sweep is None or not self.comparisons:
            return
        from ltrbench.compare.publish import is_published, publish

        folder = self.sweep / COMPARISON_FOLDER
        with hold(self.sweep, "comparison", wait=_SECONDS_FOR_OTHERS) as lease:
            for place in (self.sweep, folder):
                delete_abandoned(place, ".partial-*")
            if not is_published(self.comparisons, folder):
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
        from ltrbench.compare.tables import render_all

        if self.comparisons:
            click.echo(f"\n{render_all(self.comparisons, terminal_width())}\n")
        where = [f"Run folders: {os.path.commonpath([run.path for run in self.runs])}"]
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
        states = [] if self.sweep is None else planned_states(self.sweep)
        names = [state.name for state in states if not state.job.is_trial]
        num_done = names.count(DONE)
        return "" if num_done == len(names) else f"Partial table: {num_done} of {len(names)} jobs finished."

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


def run_command(session: Session, again: str, work: Callable[[], None]) -> int:
    """Does the work of a command, closes its session, and returns the exit code.

    Args:
        again: the command line that repeats the command.
        work: runs the jobs.

    Raises:
        LtrbenchError: The command cannot start.
    """
    install_signal_handlers()
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


def install_signal_handlers() -> None:
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


def _say_started(job: Job) -> None:
    log.info("%s %s started: %s", job.kind, job.number, " ".join(job.settings_of_job))


def _say_waiting(states: Sequence[JobState]) -> None:
    """Names the jobs that other processes run."""
    numbers = in_ranges([state.job.number for state in states])
    click.echo(f"waiting for {numbers} of another command ({states[0].holder})", err=True)


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
