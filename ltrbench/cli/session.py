"""One command: its jobs and their errors, its tracker, the comparison of its runs, and its exit code."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import os
import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ltrbench.cli.console import (
    OK,
    OUT_OF_TIME,
    PROGRAM,
    RUN_FAILED,
    RUN_INTERRUPTED,
    USER_MISTAKE,
    showing,
    width_of_text,
)
from ltrbench.config import build, build_tracker
from ltrbench.errors import ConfigError, LtrbenchError, ResultError, TrackingError
from ltrbench.experiment import ChosenSettings
from ltrbench.experiment.loading import forget
from ltrbench.measure import lacks_password
from ltrbench.runs.origin import Trial
from ltrbench.runs.record import FAILED as RUN_HAS_FAILED
from ltrbench.runs.record import (
    FINISHED,
    RESULT_FILE,
    Run,
    find_runs_and_trials,
    holds_runs,
    read_run,
)
from ltrbench.runs.writing import LeaseHeldError, hold
from ltrbench.sweep.executors import AllWorkersLostError, Executor, InlineExecutor
from ltrbench.sweep.plan import (
    COMPARISON_FOLDER,
    DONE,
    FAILED,
    RUNNING,
    STATES,
    TRIALS_FOLDER,
    WAITING,
    FolderOf,
    Job,
    JobState,
    Plan,
    plan_jobs,
    prepare_sweep,
    read_plan,
    states_of,
    sweep_id,
    wanted,
)
from ltrbench.sweep.running import (
    JobTask,
    Outcome,
    OutOfTimeError,
    failure,
    log_to,
    record_failed,
    run_task,
    run_tasks,
    stopping,
    take_times,
    untimed,
)
from ltrbench.tables import listed
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Choice, Comparison

log = logging.getLogger("ltrbench")

SWEEP_FILE = "multirun.yaml"
"""The file with the settings of a sweep, in its folder."""

TRACKING = "tracking"
"""Lease on the folder of a sweep, held by the process that logs its runs while its tracker is open."""

_SECONDS_FOR_OTHERS = 60.0
"""Maximum time to wait for another command that writes the comparison of the same sweep, or tracks it."""

_SQLITE = "sqlite:///"
_SECONDS_UNTRACKED = 60.0
"""Time after which runs that have ended are stored before the next job, and not after the last one."""


# ---- The command.


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Returns each job once, in the order of their numbers."""
    once = {job.number: job for job in jobs}
    return [once[number] for number in sorted(once)]


def in_states(states: Sequence[JobState]) -> str:
    """Returns the number of jobs in each state, such as "2 finished, 1 waiting"."""
    names = [state.name for state in states]
    return ", ".join(f"{names.count(name)} {name}" for name in STATES if name in names)


@dataclass
class Session:
    """One command.

    Attributes:
        tracker: the opened tracker; None before the first job, if the store may be unusable, or if another
            command tracks the sweep.
        sweep: folder of the sweep; None for a single run.
        jobs: the jobs of the sweep that belong to this command.
        settings: those of the whole command, such as `executor`.
        folder: folder of a single run.
        failures: one outcome for each failed job.
        is_resumed: whether the settings are those of an earlier command, which the plan of the sweep has.
    """

    tracker: Tracker | None = None
    sweep: Path | None = None
    jobs: Sequence[Job] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    failures: list[Outcome] = field(default_factory=list)
    is_resumed: bool = False
    registered: str = ""
    comparison_folder: Path | None = None

    def __post_init__(self) -> None:
        self._tracking = contextlib.ExitStack()
        # Builds the tracker that is opened at the end, when no other command tracks the sweep.
        self._later: Callable[[], Tracker] | None = None
        self._untracked: list[Path] = []
        self._tracked = time.monotonic()
        self._is_answered = False
        self._is_unregistered = False  # although `register` is set
        self._deadline = math.inf  # of `time.time`, after which no job begins

    def run_sweep(
        self,
        sweep: Path,
        drafts: Sequence[Job],
        folder_of: FolderOf,
        only_failed: bool = False,
    ) -> None:
        """Plans the jobs, and runs those that have not finished.

        Args:
            sweep: folder of the sweep.
            drafts: the jobs, without numbers. Settings of the whole command are those of the last one.
            folder_of: chooses the folder of a new job.
            only_failed: whether only failed jobs run; otherwise every job that has not finished.

        Raises:
            LtrbenchError: The folder, the tracking store or the executor cannot be used, or a finished job
                has changed. A failure of a job is not raised.
        """
        if drafts[-1].spec.settings["only_trials"]:
            plan, states, jobs = self._unplanned(sweep, drafts)
        else:
            plan, states = self._planned(sweep, drafts, folder_of)
            jobs = [state.job for state in wanted(states, only_failed)]
        if any(state.run is not None for state in states):
            of_command = [state for state in states if not state.job.is_trial]
            click.echo(
                f"{self.sweep}: of the {len(of_command)} jobs of this command, {in_states(of_command)}. "
                f"This command runs {len(jobs)}.",
                err=True,
            )
        executor = build(self.settings, "executor", Executor)
        check_executor_of_distributed(drafts, executor)
        build_closed = functools.partial(build_tracker, self.settings)
        if not jobs and self.is_resumed:
            self._register_nothing()
        if not jobs:
            # After the answer, because MLflow takes seconds to import and to open.
            self._later = build_closed
            return
        self._open_tracker(build_closed)
        self._run_jobs(executor, plan, jobs)

    def time_sweep(
        self, sweep: Path, drafts: Sequence[Job], folder_of: FolderOf
    ) -> None:
        """Takes the times of the finished jobs that shared the machine again, one after another.

        Args:
            sweep, drafts, folder_of: as in `run_sweep`.

        Raises:
            LtrbenchError: As in `run_sweep`. A failure of a job is not raised.
        """
        _, states = self._planned(sweep, drafts, folder_of)
        self._register_nothing()
        jobs = untimed(states)
        click.echo(
            f"times of {len(jobs)} of {len(states)} jobs are taken again", err=True
        )
        self._open_tracker(functools.partial(build_tracker, self.settings))
        for job in jobs:
            try:
                timed = take_times(sweep, job, [state.job for state in states])
            except LtrbenchError as error:
                self.failures.append(failure(error))
                click.echo(f"job {job.number}: error: {error}", err=True)
                continue
            seconds = timed[0].result.seconds["fit"]
            click.echo(
                f"job {job.number}: {timed[0].result.model}, fit in {seconds:.2f} s",
                err=True,
            )

    def _register_nothing(self) -> None:
        """Leaves out `register`, because the command trains no model."""
        self.settings = {**self.settings, "register": None}

    def _planned(
        self, sweep: Path, drafts: Sequence[Job], folder_of: FolderOf
    ) -> tuple[Plan, list[JobState]]:
        """Plans the jobs, and returns the plan and their states."""
        prepare_sweep(sweep)
        plan = read_plan(sweep)
        jobs = in_order(plan_jobs(plan, drafts, folder_of))
        self.sweep = relative(sweep)
        self.jobs = jobs
        self.settings = drafts[-1].spec.settings
        return plan, states_of(sweep, jobs)

    def _unplanned(
        self, sweep: Path, drafts: Sequence[Job]
    ) -> tuple[Plan, list[JobState], list[Job]]:
        """Returns the plan, no states, and the jobs with a search, whose trials are planned, but which
        themselves are not."""
        prepare_sweep(sweep)
        searched = [draft for draft in drafts if draft.spec.is_search]
        if not searched:
            raise ConfigError(
                "only_trials is true, but no job has a search; set search=tpe, or leave out only_trials."
            )
        self.sweep = relative(sweep)
        self.settings = drafts[-1].spec.settings
        self._register_nothing()
        jobs = [replace(job, number=number) for number, job in enumerate(searched)]
        return read_plan(sweep), [], jobs

    def _open_tracker(
        self, build_closed: Callable[[], Tracker], wait: float = 0.0
    ) -> None:
        """Builds and opens the tracker of a sweep, unless another command tracks the same sweep.

        Raises:
            TrackingError: The store cannot be used.
        """
        assert self.sweep is not None
        tracker = build_closed()
        self._later = None
        held = contextlib.ExitStack()
        try:
            held.enter_context(hold(self.sweep, TRACKING, wait))
        except LeaseHeldError:
            self._later = build_closed
            return
        with held:
            tracker.open(str(self.sweep), sweep_identity(self.sweep))
            # Held until `close`, unless the store cannot be opened.
            self._tracking = held.pop_all()
        self.tracker = tracker

    def _run_jobs(self, executor: Executor, plan: Plan, jobs: Sequence[Job]) -> None:
        is_inline = isinstance(executor, InlineExecutor)
        if not is_inline:
            # The workers load the data themselves.
            forget()
        log_to(None)
        minutes = self.settings.get("stop_after")
        if minutes is not None:
            self._deadline = time.time() + 60 * minutes
        try:
            with contextlib.closing(executor):
                executor.open(
                    functools.partial(run_task, showing=showing),
                    self.settings["num_threads"],
                )
                if executor.message:
                    click.echo(executor.message, err=True)
                on_start = (lambda _: None) if is_inline else _say_started
                on_end = functools.partial(self.ended, is_inline=is_inline)
                for tasks in self._batches(plan, jobs, is_inline):
                    run_tasks(tasks, executor, on_start, on_end, _say_waiting)
        finally:
            # Closes the log file of the last job.
            log_to(None)

    def _batches(
        self, plan: Plan, jobs: Sequence[Job], is_inline: bool
    ) -> Iterator[list[JobTask]]:
        """Yields the tasks of the jobs in batches: first the jobs without a search and the first trials of
        all searches, later the jobs whose settings were searched."""
        task_of = functools.partial(self._task_of, plan, is_inline)
        batch = [task_of(job) for job in jobs if not job.spec.is_search]
        searched = {job.number: job for job in jobs if job.spec.is_search}
        if not searched:
            yield batch
            return
        # Imported late, because only a search needs it.
        from ltrbench.sweep.searching import Searches, searches_of

        # With the finished jobs, whose folds take part in a shared choice.
        all_searched = [job for job in self.jobs if job.spec.is_search] or jobs
        sweep = plan.sweep.resolve()
        searches = searches_of(sweep, all_searched, searched)
        plan_trials = functools.partial(self._plan_trials, plan)
        rounds = Searches(sweep, plan_trials, searches)
        while True:
            trials, choices = rounds.next_round()
            batch += [task_of(job) for job in trials]
            only_trials = self.settings["only_trials"]
            if only_trials:
                _say_chosen(searched, choices)
            for number, choice in choices.items():
                if number not in searched or only_trials:
                    continue
                task = task_of(searched[number])
                if isinstance(choice, LtrbenchError):
                    self.ended(task, record_failed(task, choice), is_inline=False)
                else:
                    batch.append(replace(task, choice=choice))
            if not batch and not choices:
                return
            yield batch
            batch = []

    def _task_of(self, plan: Plan, is_inline: bool, job: Job) -> JobTask:
        leader = plan.trained_before(job)
        progress = self.settings["progress"]
        if not is_inline and progress != "none":
            # A bar of a worker would be drawn over those of the others.
            progress = "plain"
        return JobTask(
            job=job,
            sweep=plan.sweep.resolve(),
            trained=None if leader is None else (leader.folder, leader.digest),
            progress=progress,
            on_console=is_inline,
            deadline=self._deadline,
        )

    def _plan_trials(self, plan: Plan, drafts: Sequence[Job]) -> list[Job]:
        trials = plan_jobs(
            plan, drafts, lambda job, number: f"{TRIALS_FOLDER}/{number}"
        )
        self.jobs = in_order([*trials, *self.jobs])
        return trials

    def ended(self, task: JobTask, outcome: Outcome, is_inline: bool) -> None:
        """Records the end of a job: its error, unless it is a trial, and its run in the tracking store."""
        job = task.job
        if outcome.error and not job.is_trial:
            self.failures.append(outcome)
        if not is_inline and outcome.error:
            log.error("%s %s %s", job.kind, job.number, outcome.error)
        elif not is_inline:
            log.info(
                "%s %s finished: %s",
                job.kind,
                job.number,
                outcome.summary or "by another command",
            )
        if (task.folder / RESULT_FILE).exists() and self.tracker is not None:
            self._untracked.append(relative(task.folder))
            if time.monotonic() > self._tracked + _SECONDS_UNTRACKED:
                self._track()

    def _track(self) -> None:
        """Stores the runs that have ended in the tracking store."""
        assert self.tracker is not None
        for folder in self._untracked:
            with _warning(f"{folder} was not tracked"):
                self.tracker.log(read_run(folder))
        self._untracked.clear()
        self._tracked = time.monotonic()

    def close(self, status: str) -> None:
        """Writes the comparison, registers the best model, and closes the tracker's parent run with the
        status of the command."""
        try:
            with _warning("the comparison could not be written"):
                self._keep_comparison()
            with _warning("the tracking store does not have the whole sweep"):
                self._complete_tracking()
            if status == "finished":
                self._register()
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            if self.tracker is not None:
                if status == "finished" and self.sweep is not None:
                    status = status_of(self.sweep)
                if status == "finished" and self.failures:
                    status = "failed"
                with (
                    self._tracking,
                    _warning("the sweep's parent run could not be closed"),
                ):
                    self.tracker.close(status)

    def _keep_comparison(self) -> None:
        """Writes the comparison to the sweep's folder, unless it is there already."""
        if self.sweep is None or not self.comparisons:
            return
        from ltrbench.compare.publish import is_published, publish

        folder = self.sweep / COMPARISON_FOLDER
        with hold(self.sweep, "comparison", wait=_SECONDS_FOR_OTHERS):
            if not is_published(self.comparisons, folder):
                publish(self.comparisons, folder)
        self.comparison_folder = folder

    def _complete_tracking(self) -> None:
        """Stores runs of the sweep that the tracking store does not have, and the comparison.

        Raises:
            TrackingError: The store cannot be used, or another command still tracks the sweep.
        """
        if self.sweep is None:
            return
        if self._later is not None:
            self._open_tracker(self._later, wait=_SECONDS_FOR_OTHERS)
            if self._later is not None:
                raise TrackingError(
                    "another command still tracks it. When that command has ended: "
                    f"{PROGRAM} sync {shlex.quote(str(self.sweep))}"
                )
        if self.tracker is None:
            return
        for run in self.runs_and_trials:
            self.tracker.log(run)
        if self.comparison_folder is not None:
            log_comparison(self.tracker, self.comparisons, self.comparison_folder)

    def _register(self) -> None:
        """Registers the best model under the name of the setting `register`, if there is one; logs why none
        was registered."""
        name = self.settings.get("register")
        if name is None:
            return
        self._is_unregistered = True
        with _warning(f"no model was registered as '{name}'"):
            self._register_best(name)
            self._is_unregistered = False

    def _register_best(self, name: str) -> None:
        if self.tracker is None:
            raise TrackingError("the tracking store could not be used")
        self._check_finished()
        best = best_of(self.comparisons)
        if best is None and len(self.comparisons) == 1:
            raise ResultError(
                "the best model is chosen by validation, but these runs have no validation set. Set "
                "data.valid_share, or register one run with sync RUN --register"
            )
        if best is None:
            raise ResultError(
                "the best model is chosen by validation on one data set, but these runs have no data set in "
                "common. Register the models of each data set in a separate command"
            )
        # Imported late, so that --help prints without delay.
        from ltrbench.compare.final import refuse_part

        words = ["sync", str(best.run.path), "--register", name, "--anyway"]
        refuse_part(
            best.run,
            "registered",
            otherwise=f"register it with {PROGRAM} {shlex.join(words)}",
        )
        address = self.tracker.register(
            name, best.run, best.reason, again=not self.is_resumed
        )
        self.registered = f"{address} ({best.reason})"

    def _check_finished(self) -> None:
        """Raises ResultError if the run or a job of the sweep has not finished: the best model may be another
        one then."""
        if self.sweep is None and self.failures:
            raise ResultError("the run failed; correct its error first")
        states = [] if self.sweep is None else _planned_states(self.sweep)
        num_left = sum(state.name != DONE for state in states)
        if num_left:
            raise ResultError(
                f"{num_left} of {len(states)} jobs of {self.sweep} have not finished, and the best model may "
                "be among them. Repeat the command to run these jobs and register the best one"
            )

    @property
    def runs(self) -> list[Run]:
        """The runs on disk after the last job, without trials of searches. For a sweep: all runs in its
        folder, as `compare` reads them."""
        return [
            run
            for run in self.runs_and_trials
            if not isinstance(run.result.origin, Trial)
        ]

    @cached_property
    def runs_and_trials(self) -> list[Run]:
        """The runs on disk after the last job, with trials of searches."""
        if self.sweep is not None:
            if holds_runs(self.sweep):
                return find_runs_and_trials([self.sweep])
            return []
        if self.folder is None or not (self.folder / RESULT_FILE).exists():
            return []
        return [read_run(relative(self.folder))]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The comparisons of the runs, one for each data set; none if the sweep declares no look."""
        looks = 1 if self.sweep is None else self.settings.get("looks", 1)
        return compared(self.runs, looks) if looks else []

    def answer(self) -> None:
        """Prints the comparison on standard output and failed trials on standard error, once."""
        if self._is_answered:
            return
        if self.sweep is not None:
            self._warn_of_failed_trials(self.sweep)
        if self.comparisons:
            # Imported late, so that --help prints without delay.
            from ltrbench.compare.report import render_all

            click.echo(f"\n{render_all(self.comparisons, width_of_text())}")
        self._is_answered = True

    def report(self) -> None:
        """Prints the answer and, on standard error, the locations of the results."""
        self.answer()
        if not self.runs:
            return
        from ltrbench.compare.publish import REPORT_FILE

        where = [f"Runs: {os.path.commonpath([run.path for run in self.runs])}"]
        if self.comparison_folder is not None:
            where = [f"Report: {relative(self.comparison_folder / REPORT_FILE)}"]
        if self.tracker is not None and self.tracker.where:
            where.append(f"MLflow: {PROGRAM} ui")
        click.echo("    ".join(where), err=True)
        if self.registered:
            click.echo(f"Registered: {self.registered}", err=True)

    def _warn_of_failed_trials(self, sweep: Path) -> None:
        trials = states_of(sweep, [job for job in self.jobs if job.is_trial])
        failed = [state for state in trials if state.name == FAILED]
        if not failed:
            return
        first = failed[0]
        log.warning(
            "%s of %s trials failed; a search chooses among the others. The first one is %s: %s",
            len(failed),
            len(trials),
            sweep / first.job.folder,
            first.reason,
        )

    def interruption(self, again: str) -> str:
        """Returns the message after an interruption: what is finished, what is lost, and how to continue.

        Args:
            again: the command line that repeats the command.
        """
        if self.sweep is not None and self.jobs:
            return f"interrupted; {self.continuation(again)}"
        if any(run.result.status == FINISHED for run in self.runs):
            return "interrupted after the run had finished; its results are complete."
        return f"interrupted; no result was saved. To run it again: {again}"

    def stopped(self) -> str:
        """Returns that stop_after has ended the sweep, and which fits have no result."""
        assert self.sweep is not None
        text = f"stopped by stop_after={self.settings['stop_after']:g} minutes"
        states = states_of(self.sweep, self.jobs)
        lost = [
            f"{state.job.kind} {state.job.number}"
            for state in states
            if state.is_interrupted
        ]
        if lost:
            text += f"; the fit of {listed(lost)} ended without a result"
        return text

    def continuation(self, again: str) -> str:
        """Returns the number of jobs of a sweep in each state, and the command that continues."""
        assert self.sweep is not None
        all_states = states_of(self.sweep, self.jobs)
        states = [state for state in all_states if not state.job.is_trial]
        counts = f"of {len(states)} jobs: {in_states(states)}"
        if not states:
            # With only_trials, the jobs are not planned, and `resume` does not know them.
            counts = f"of {len(all_states)} trials: {in_states(all_states)}"
        if all(state.name == DONE for state in states):
            return f"{counts}. To continue:\n  {again}"
        resume = f"{PROGRAM} resume {shlex.quote(str(self.sweep))}"
        return f"{counts}. To run the others:\n  {resume}"

    @property
    def exit_code(self) -> int:
        """0; 2 if the user can fix every error, or if the comparison could not be written or no model was
        registered; 1 otherwise."""
        if not self.failures:
            unwritten = (
                bool(self.sweep and self.comparisons) and self.comparison_folder is None
            )
            return USER_MISTAKE if unwritten or self._is_unregistered else OK
        if all(each.is_user_error for each in self.failures):
            return USER_MISTAKE
        return RUN_FAILED


def run_command(session: Session, again: str, work: Callable[[], None]) -> int:
    """Does the work of a command, closes its session, and returns the exit code.

    Args:
        again: the command line that repeats the command.
        work: runs the jobs.

    Raises:
        LtrbenchError: The command cannot start.
    """
    install_signal_handlers()
    status = "failed"
    try:
        try:
            work()
            status = "finished"
            # Before the files and pictures are written, which takes seconds.
            session.answer()
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            session.close(status)
    except KeyboardInterrupt as stop:
        states = [] if session.sweep is None else _planned_states(session.sweep)
        num_done = sum(state.name == DONE for state in states)
        if session.comparisons and num_done < len(states):
            click.echo(f"\nPartial table: {num_done} of {len(states)} jobs finished.")
        session.report()
        if isinstance(stop, OutOfTimeError):
            left = session.continuation(again)
            click.echo(f"{session.stopped()}; {left}", err=True)
            return OUT_OF_TIME
        click.echo(session.interruption(again), err=True)
        return RUN_INTERRUPTED
    except AllWorkersLostError as error:
        session.report()
        click.echo(f"error: {error}\n{session.continuation(again)}", err=True)
        return RUN_FAILED
    session.report()
    return session.exit_code


def install_signal_handlers() -> None:
    """Installs signal handlers: on Ctrl-C or SIGTERM the command records its state, closes, and ends.

    An interruption of an earlier command in this process does not count.
    """
    stopping.is_set = False

    def interrupt(signum: int, frame: FrameType | None) -> None:
        stopping.is_set = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # A background command ignores Ctrl-C, which is meant for the foreground command.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)


def check_executor_of_distributed(jobs: Iterable[Job], executor: Executor) -> None:
    """Raises ConfigError if a job fits on several workers, but its executor runs several jobs at a time."""
    if isinstance(executor, InlineExecutor):
        return
    if any(job.spec.settings["distributed"] is not None for job in jobs):
        raise ConfigError(
            f"distributed is set and executor is {type(executor).__name__}, but jobs that run at the same "
            "time would share the cores and the memory of the workers that fit together. Set "
            "executor=inline, which runs one job after another, or distributed=none."
        )


def _say_started(task: JobTask) -> None:
    log.info(
        "%s %s started: %s",
        task.job.kind,
        task.job.number,
        task.job.in_words,
    )


def _say_chosen(
    searched: Mapping[int, Job], choices: Mapping[int, ChosenSettings | LtrbenchError]
) -> None:
    """Logs the settings that each search would choose."""
    for number, choice in choices.items():
        model = searched[number].spec.model
        if isinstance(choice, LtrbenchError):
            log.error("%s: %s", model, choice)
            continue
        best = choice.trials[choice.record["chosen"]]
        settings = [f"{name}={text}" for name, text in best.settings.items()]
        log.info(
            "%s: the best of %s trials is %s, valid %s %.4f: %s",
            model,
            len(choice.trials),
            best.trial,
            choice.record["metric"],
            best.value,
            " ".join(settings),
        )


def _say_waiting(states: Sequence[JobState]) -> None:
    """Names the jobs that other processes run."""
    numbers = ", ".join(str(state.job.number) for state in states)
    click.echo(
        f"waiting for jobs of another command: {numbers} ({states[0].holder})", err=True
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
    if path.is_relative_to(here):
        return path.relative_to(here)
    return path


# ---- Copies of runs and their comparison in a tracker, also for the verb `sync`.


def sweep_identity(folder: Path) -> str:
    """Returns the identity of the sweep in a folder, by which the tracker finds its parent run again.

    Raises:
        ResultError: The plan of the sweep cannot be read.
    """
    # A sweep without a plan was assembled from copied runs.
    return (
        sweep_id(folder) or hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    )


def _planned_states(sweep: Path) -> list[JobState]:
    """Returns the state of each planned job of a sweep, without the trials of its searches, which choose
    among those that finished; empty for a sweep without a plan."""
    states = states_of(sweep, read_plan(sweep).jobs.values())
    return [state for state in states if not state.job.is_trial]


def status_of(sweep: Path) -> str:
    """Returns the status of a sweep: "interrupted" if planned jobs have not ended, else "failed" if a job
    failed, else "finished"."""
    names = {state.name for state in _planned_states(sweep)}
    if names & {RUNNING, WAITING}:
        return "interrupted"
    return "failed" if FAILED in names else "finished"


def mirror(tracker: Tracker, sweep: Path | None, runs: Sequence[Run]) -> None:
    """Logs the runs of a sweep that the tracker does not have yet, their comparison, and the sweep's status.

    Args:
        tracker: not yet opened, or closed.
        sweep: folder of the sweep; None for runs of no sweep, which get no parent run and no comparison.

    Raises:
        TrackingError: The store cannot be used. Runs that were logged before are not logged again by the next
            call.
        ResultError: A run folder is damaged; the other runs were logged.
    """
    has_failed = any(
        run.result.status == RUN_HAS_FAILED and not isinstance(run.result.origin, Trial)
        for run in runs
    )
    status = "finished"
    if sweep is not None:
        status = status_of(sweep)
    damaged = []
    with contextlib.ExitStack() as held:
        if sweep is None:
            tracker.open(None)
        else:
            # The tracker searches the store for earlier runs only once.
            held.enter_context(hold(sweep, TRACKING, wait=_SECONDS_FOR_OTHERS))
            tracker.open(str(sweep), sweep_identity(sweep))
        try:
            for run in runs:
                try:
                    tracker.log(run)
                except ResultError as error:
                    damaged.append(str(error))
            if sweep is not None:
                _mirror_comparison(
                    tracker,
                    [run for run in runs if not isinstance(run.result.origin, Trial)],
                )
        finally:
            tracker.close("failed" if has_failed and status == "finished" else status)
    if damaged:
        raise ResultError(" ".join(damaged))


def _mirror_comparison(tracker: Tracker, runs: Sequence[Run]) -> None:
    """Compares the finished runs, and passes the comparison to the tracker; nobody sees it now."""
    comparisons = compared(runs, looks=0)
    if not comparisons:
        return
    from ltrbench.compare.publish import publish

    # Not in the folder of the sweep, which may be read-only.
    with (
        tempfile.TemporaryDirectory() as temporary,
        _warning("the comparison was not tracked"),
    ):
        publish(comparisons, Path(temporary, COMPARISON_FOLDER))
        log_comparison(tracker, comparisons, Path(temporary, COMPARISON_FOLDER))


def compared(runs: Sequence[Run], looks: int = 1) -> list[Comparison]:
    """Compares the finished runs, if there are any; if they cannot be compared, logs a warning.

    Args:
        looks: as `declared` of `compare_sweeps`.
    """
    if not any(run.result.is_compared for run in runs):
        return []
    # Imported late, so that --help prints without delay.
    from ltrbench.sweep.ledger import compare_sweeps

    with _warning("no comparison is available"):
        return compare_sweeps(runs, declared=looks)
    return []


def log_comparison(
    tracker: Tracker, comparisons: Sequence[Comparison], folder: Path
) -> None:
    """Passes the comparison of a sweep, and the folder that it was written to, to the opened tracker."""
    # Imported late, so that --help prints without delay.
    from ltrbench.compare.leaderboard import values_by_name
    from ltrbench.compare.publish import as_markdown

    # Without links to glossary.md, which lead nowhere in a description.
    text = as_markdown(comparisons, folder.name)
    best = best_of(comparisons)
    shown = values_by_name(comparisons)
    if best is not None:
        text = f"{best.reason}\n\n{text}"
        shown = {**shown, **best.metrics}
    tracker.summarize(folder, text, best.run if best else None, shown)


def best_of(comparisons: Sequence[Comparison]) -> Choice | None:
    """Returns the best model by validation; None if the runs have no data set in common."""
    from ltrbench.compare import best_by_validation

    if len(comparisons) == 1:
        return best_by_validation(comparisons[0])
    return None


class Store(NamedTuple):
    """The tracking store that a run recorded: a SQLite address is independent of the current folder."""

    uri: str
    experiment: str

    @property
    def database(self) -> Path | None:
        """The file of a SQLite store; None for a server."""
        if self.uri.startswith(_SQLITE):
            return Path(self.uri.removeprefix(_SQLITE))
        return None

    def check_password(self) -> None:
        """Raises TrackingError if the address had a password, which no run records."""
        if lacks_password(self.uri):
            raise TrackingError(
                f"the runs are tracked in {self.uri}, and its password is not stored. Give the whole "
                f"address, as in {PROGRAM} sync DIR --uri ADDRESS."
            )


def mirror_beside(runs: Iterable[Run], made: Sequence[Run]) -> None:
    """Logs runs that were made of other runs in the store of the latter; does nothing without one.

    If the store cannot be used, logs a warning: the runs are complete.
    """
    store = recorded_store(runs)
    if store is None:
        return
    # Imported late, because MLflow takes seconds.
    from ltrbench.tracking.mlflow import MLflowTracker

    with _warning(f"{', '.join(str(run.path) for run in made)} was not tracked"):
        store.check_password()
        mirror(MLflowTracker(uri=store.uri, experiment=store.experiment), None, made)


def recorded_store(runs: Iterable[Run]) -> Store | None:
    """Returns the tracking store of the newest tracked run; None if no run was tracked."""
    tracked = [
        run.result for run in runs if run.result.config.get("tracking", {}).get("uri")
    ]
    if not tracked:
        return None
    result = max(tracked, key=lambda result: result.started)
    tracking = result.config["tracking"]
    uri = str(tracking.get("uri"))
    if uri.startswith(_SQLITE):
        # A relative path is relative to the folder in which the run was started.
        database = Path(result.started_in, uri.removeprefix(_SQLITE))
        uri = f"{_SQLITE}{database}"
    return Store(uri, str(tracking.get("experiment")))
