"""Runs one job, in whatever process an executor chooses."""

from __future__ import annotations

import contextlib
import copy
import logging
import logging.config
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ltrbench.config import build_experiment
from ltrbench.errors import LtrbenchError, ResultError, debugging, in_words
from ltrbench.experiment.run import Experiment, outcome_in_words, run
from ltrbench.experiment.watching import OnProgress
from ltrbench.results import FINISHED, RESULT_FILE, Run, TrialRow, read_run
from ltrbench.results.lease import LeaseHeldError
from ltrbench.sweep.job import Job
from ltrbench.sweep.state import DONE, FAILED, RUNNING, state_of
from ltrbench.user_modules import modules_folder, searching_only

log = logging.getLogger("ltrbench")

FOLDER = "{folder}"
"""Placeholder for the folder of the run in `JobTask.logging`."""

Showing = Callable[[str, str], AbstractContextManager[OnProgress | None]]
"""(setting `progress`, model) -> context with the callback that shows the progress of a fit."""

stopping = threading.Event()
"""Set by a signal handler before it raises KeyboardInterrupt: compiled code turns it into another error."""


@dataclass(frozen=True)
class ChosenSettings:
    """The settings that a search chose.

    Attributes:
        record: `RunResult.search`.
        trials: the trials of the search.
    """

    record: Mapping[str, Any]
    trials: Sequence[TrialRow]


@dataclass(frozen=True, kw_only=True)
class JobTask:
    """A job, and everything that its process needs to run it.

    Attributes:
        sweep: folder of the sweep, absolute.
        started_in: folder where relative paths of the job begin.
        modules: folder with the modules of the user: the current folder of the command.
        trained: (folder, digest) of the job whose training may be copied; None: the job trains.
        choice: the settings that a search chose for the job; None: the job trains with its own.
        progress: how the progress of a fit is shown, as in the setting.
        logging: configuration of Python's logging, with `FOLDER` for the folder of the run.
        chdir: whether the job runs in its folder.
        environment: environment variables of the job.
    """

    job: Job
    sweep: Path
    started_in: Path = field(default_factory=Path.cwd)
    modules: Path = field(default_factory=modules_folder)
    trained: tuple[str, str] | None = None
    choice: ChosenSettings | None = None
    progress: str = "none"
    logging: Mapping[str, Any] = field(default_factory=dict)
    chdir: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.sweep / self.job.folder


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended.

    Attributes:
        state: finished, failed, or running: another process runs the job.
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
    try:
        with _surroundings(task):
            words = task.job.settings_of_job if task.job.is_trial else task.job.overrides
            log.info("\n%s %s: %s", task.job.kind, task.job.number, " ".join(words))
            return _attempt(task, showing)
    except (OSError, ValueError) as error:
        # The folder or the log file cannot be written: dictConfig raises ValueError.
        outcome = failure(error)
        log.error("%s", outcome.error)
        return outcome


def _attempt(task: JobTask, showing: Showing | None) -> Outcome:
    try:
        return Outcome(state=DONE, summary=_run(task, showing))
    except LeaseHeldError:
        return Outcome(state=RUNNING)
    except Exception as error:
        if stopping.is_set():
            raise KeyboardInterrupt from error
        # Another process may have finished the job in the meantime.
        if state_of(task.sweep, task.job).name == DONE:
            return Outcome(state=DONE)
        if debugging():
            log.error("".join(traceback.format_exception(error)))
        outcome = failure(error)
        log.error("%s", outcome.error)
        return outcome


def failure(error: BaseException) -> Outcome:
    """Returns the outcome of a job that ended with an error."""
    return Outcome(state=FAILED, error=in_words(error), is_user_error=isinstance(error, LtrbenchError))


def experiment_of(job: Job) -> Experiment:
    """Builds the experiment of a job.

    Raises:
        ConfigError: A setting does not exist, has the wrong type, or is out of range.
    """
    experiment = build_experiment(job.settings, job.choices, tuple(job.overrides), job.sweep, job.swept)
    return replace(experiment, flags=job.flags, key=job.digest, is_trial=job.is_trial)


def with_choice(
    experiment: Experiment, search: Mapping[str, Any], trials: Sequence[TrialRow] = ()
) -> Experiment:
    """Returns the experiment with the settings that a search chose.

    Args:
        search: `RunResult.search`; empty without a search.
        trials: the trials of the search, for the record.
    """
    if not search:
        return experiment
    ranker = replace(experiment.ranker, **search["settings"])
    return replace(experiment, ranker=ranker, search=search, trials=trials)


def _run(task: JobTask, showing: Showing | None) -> str:
    experiment = experiment_of(task.job)
    if task.choice is not None:
        experiment = with_choice(experiment, task.choice.record, task.choice.trials)
    watching = contextlib.nullcontext() if showing is None else showing(task.progress, experiment.model)
    with watching as on_progress:
        done = run(experiment, task.folder, None, on_progress, _trained(task))
    reused = done.result.reused
    copied = "" if reused is None else f"; the training of job {reused} is reused"
    return f"{experiment.model}: {outcome_in_words(done.result, experiment.metrics)}{copied}"


def _trained(task: JobTask) -> tuple[str, Run] | None:
    """Returns the run whose training is copied; None if there is none, or if it failed or is damaged."""
    if task.trained is None:
        return None
    name, digest = task.trained
    if not (task.sweep / name / RESULT_FILE).exists():
        return None
    try:
        trained = read_run(task.sweep / name)
    except ResultError as error:
        log.warning("%s. The training is not copied but repeated.", str(error).rstrip("."))
        return None
    is_usable = trained.result.status == FINISHED and trained.result.key == digest
    return (name, trained) if is_usable and trained.result.reused is None else None


@contextlib.contextmanager
def _surroundings(task: JobTask) -> Iterator[None]:
    """Sets log file, current folder and environment of a job, and restores folder and environment."""
    task.folder.mkdir(parents=True, exist_ok=True)
    if task.logging:
        logging.config.dictConfig(_in_folder(copy.deepcopy(dict(task.logging)), str(task.folder)))
    here = Path.cwd()
    before = {name: os.environ.get(name) for name in task.environment}
    os.environ.update(task.environment)
    try:
        # A worker on another host may have been started elsewhere.
        os.chdir(task.started_in)
        if task.chdir:
            os.chdir(task.folder)
        with searching_only(task.modules):
            yield
    finally:
        os.chdir(here)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _in_folder(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {key: _in_folder(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_folder(item, folder) for item in value]
    return value.replace(FOLDER, folder) if isinstance(value, str) else value
