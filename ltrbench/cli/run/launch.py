"""Starts a run or a sweep: Hydra composes the jobs and runs them one after another.

One `Session` exists per command. It opens the tracker with the first job, always closes it, collects the runs
of the jobs, and prints their comparison.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.errors import INTERRUPTED, OK, RUN_FAILED, USER_MISTAKE, as_paragraph, debugging
from ltrbench.cli.files import terminal_width
from ltrbench.cli.help.page import register_help
from ltrbench.cli.hydra_internals import get_args_parser
from ltrbench.cli.program import program
from ltrbench.cli.run.composing import plain_overrides
from ltrbench.cli.run.continuing import (
    Sweep,
    announcement,
    interruption,
    numbered,
    runs_of,
)
from ltrbench.cli.run.keys import check_keys
from ltrbench.cli.run.messages import composition_message, unwritable_message
from ltrbench.cli.run.progress import showing
from ltrbench.cli.run.sweep import RESAMPLE, register_sweeper, swept_settings
from ltrbench.conf_folder import conf_dir
from ltrbench.config import build_experiment, build_tracker, register_schema, run_study
from ltrbench.errors import ConfigError, LtrbenchError, ResultError, TrackingError
from ltrbench.experiment.run import run
from ltrbench.rankers.models.saved import SavedModelError
from ltrbench.results import FINISHED, RESULT_FILE, Run, hold, read_run
from ltrbench.results.overrides import Overrides
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Choice, Comparison

log = logging.getLogger("ltrbench")

COMPARISON_FOLDER = "comparison"
"""Subfolder of a sweep's folder for the tables and pictures of its comparison."""

_NUMBER_OF_RESAMPLES = re.compile(r"^(\+{0,2}replicates)=(?=[-+\d])")


class _Abort(BaseException):
    """Ends a sweep before its other jobs. Not an Exception, because Hydra continues after an Exception."""


@dataclass
class Session:
    """One command: its overrides, its tracker, the folders of its jobs, and the errors of its jobs."""

    overrides: list[str] = field(default_factory=list)
    tracker: Tracker | None = None
    sweep: Sweep | None = None
    register: str | None = None
    folders: list[Path] = field(default_factory=list)
    # Folder of a job, relative to the folder of the sweep -> its run.
    finished: dict[str, Run] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    registered: str = ""
    comparison_folder: Path | None = None
    in_study: bool = False
    interrupted: bool = False

    def job(self, config: DictConfig) -> None:
        """Runs one job. A failure is logged and recorded for the exit code; the other jobs still run."""
        # A DictConfig at run time, although Hydra declares another type.
        composed: Any = HydraConfig.get()
        try:
            check_keys(config, composed)
            if config.study is not None:
                self.in_study = True
                _study(config)
            else:
                self._run(config, composed)
        except Exception as error:
            if self.interrupted:
                # Compiled code turns what a signal handler raises into a SystemError.
                raise KeyboardInterrupt from error
            if self.sweep is not None:
                self.sweep.failed.add(composed.job.num)
            # Not raised, because Hydra would print a line before ours, and a sweep continues in any case.
            self.errors.append(error)
            if debugging():
                log.error("".join(traceback.format_exception(error)))
            log.error("%s", as_paragraph(error))

    def _run(self, config: DictConfig, composed: Any) -> None:
        overrides = tuple(plain_overrides(composed.overrides.task))
        name, swept = None, None
        if composed.mode == RunMode.MULTIRUN:
            log.info("\njob %s: %s", composed.job.num, " ".join(overrides))
            # CheckedSweeper has set it already; another sweeper has not.
            self.sweep = self.sweep or Sweep(_relative(Path(composed.sweep.dir)))
            self.sweep.started.add(composed.job.num)
            name = str(self.sweep.folder)
            swept = swept_settings(
                composed.sweeper.get("params"), self.overrides, _num_resamples(config, overrides)
            )
        self.register = config.register
        folder = Path(composed.runtime.output_dir)
        self.folders.append(folder)
        experiment = build_experiment(config, dict(composed.runtime.choices), overrides, name, swept)
        tracker = self._open_tracker(config, name)
        try:
            with showing(config.progress, experiment.model) as on_progress:
                done = run(experiment, folder, tracker, on_progress, self.finished)
        except SavedModelError:
            raise
        except ResultError:
            # The folder belongs to another run, whose numbers must not be reported as this run's.
            self.folders.remove(folder)
            raise
        if name is not None:
            self.finished[str(composed.sweep.subdir)] = done

    def _open_tracker(self, config: DictConfig, sweep: str | None) -> Tracker:
        if self.tracker is None:
            tracker = build_tracker(config)
            try:
                tracker.open(sweep)
            except TrackingError as error:
                self.errors.append(error)
                raise _Abort from error
            self.tracker = tracker
        return self.tracker

    def close(self, status: str) -> None:
        """Writes the comparison, registers the best model, and closes the tracker's parent run with the
        status of the command."""
        try:
            with _warning("the comparison could not be written"):
                self._keep_comparison()
            if self.tracker is not None and self.register is not None and status == "finished":
                with _warning(f"no model was registered as '{self.register}'"):
                    self._register(self.tracker, self.register)
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            if self.tracker is not None:
                with _warning("the sweep's parent run could not be closed"):
                    self.tracker.close("failed" if self.errors and status == "finished" else status)

    def _keep_comparison(self) -> None:
        """Writes the comparison to the sweep's folder and passes it to the tracker."""
        if self.sweep is None or not self.comparisons:
            return
        from ltrbench.compare.output.publish import as_markdown, publish
        from ltrbench.compare.output.record import claims, figures_by_name

        folder = self.sweep.folder / COMPARISON_FOLDER
        publish(self.comparisons, folder)
        self.comparison_folder = folder
        if self.tracker is not None:
            # Without links to glossary.md, which lead nowhere in a description.
            text, best = as_markdown(self.comparisons, folder.name, {}), self._best()
            shown = figures_by_name(self.comparisons)
            if best is not None:
                text, shown = f"{best.reason}\n\n{text}", {**shown, **best.figures}
            self.tracker.summarize(folder, text, best.run if best else None, shown, claims(self.comparisons))

    def _register(self, tracker: Tracker, name: str) -> None:
        best = self._best()
        if best is None:
            raise ResultError(
                "the best model is chosen by validation on one data set, but these runs have no data set in "
                "common. Register the models of each data set in a separate command"
            )
        self.registered = f"{tracker.register(name, best.run, best.reason)} ({best.reason})"

    def _best(self) -> Choice | None:
        from ltrbench.compare import best_by_validation

        return best_by_validation(self.comparisons[0]) if len(self.comparisons) == 1 else None

    @cached_property
    def runs(self) -> list[Run]:
        """The runs on disk after the last job. For a sweep: all runs in its folder, as `compare` reads
        them."""
        if self.sweep is not None:
            try:
                return runs_of(self.sweep.folder)
            except ResultError as error:
                log.warning("comparing only the runs of this command: %s", error)
        folders = [_relative(folder) for folder in self.folders]
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
        """Prints the comparison on standard output, and the locations of the results on standard error."""
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
            where.append(f"Comparison:  {_relative(self.comparison_folder)}")
        if self.tracker is not None and self.tracker.where:
            where.append(f"MLflow UI:   {program()} ui     ({self.tracker.where})")
        if self.registered:
            where.append(f"Registered:  {self.registered}")
        click.echo("\n".join(where), err=True)

    @property
    def exit_code(self) -> int:
        if not self.errors:
            unwritten = bool(self.sweep and self.comparisons) and self.comparison_folder is None
            return USER_MISTAKE if unwritten else OK
        return USER_MISTAKE if all(isinstance(error, LtrbenchError) for error in self.errors) else RUN_FAILED


def launch(arguments: list[str]) -> int:
    """Passes the command line to Hydra, runs its jobs and returns the exit code.

    Raises:
        LtrbenchError: The configuration is invalid; any other error means that a run failed.
    """
    session = Session()
    _heed_signals(session)
    # The lock is not part of the session, because a launcher may pickle the session.
    with contextlib.ExitStack() as held:
        try:
            _launch(session, held, arguments)
        except KeyboardInterrupt:
            session.report()
            click.echo(_interrupted(session, arguments), err=True)
            return INTERRUPTED
    session.report()
    return session.exit_code


def _heed_signals(session: Session) -> None:
    """Installs signal handlers: on Ctrl-C or SIGTERM the command records its state, closes, and ends."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        session.interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # A background command ignores Ctrl-C, which is meant for the foreground command.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)


def _launch(session: Session, held: contextlib.ExitStack, arguments: list[str]) -> None:
    status = "failed"
    try:
        _run_hydra(session, held, arguments)
        status = "finished"
    except _Abort:
        raise session.errors[-1] from None
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(composition_message(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise ConfigError(unwritable_message(error)) from error
    finally:
        session.close(status)


def _interrupted(session: Session, arguments: list[str]) -> str:
    """Returns the message after an interruption: what is finished, what is lost, and how to continue."""
    if session.sweep is not None and session.sweep.jobs:
        return interruption(session.sweep, session.runs)
    again = f"To run it again: {program()} {shlex.join(arguments)}"
    if session.in_study:
        return f"interrupted; no result of the study was saved. {again}"
    if any(run.result.status == FINISHED for run in session.runs):
        return "interrupted after the run had finished; its results are complete."
    if not session.runs:
        return f"interrupted before the run started; nothing is lost. {again}"
    return (
        "interrupted; no model and no scores were saved, and result.json in "
        f"{_relative(session.folders[-1])} contains only the settings. {again}"
    )


def _run_hydra(session: Session, held: contextlib.ExitStack, arguments: list[str]) -> None:
    register_schema()
    register_help()
    flags, overrides = flags_and_overrides(arguments)
    session.overrides = overrides

    def begin(folder: Path, jobs: Sequence[Sequence[str]]) -> Mapping[int, Overrides]:
        return _begin_sweep(session, held, Sweep(_relative(folder), _of_every_job(flags, overrides)), jobs)

    register_sweeper(begin)
    # Otherwise Hydra prints every error with a part of the traceback, and always exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Hydra reads the command line from sys.argv and uses its first word as the name of the program.
    sys.argv = [program(), *flags, *overrides]

    def job(config: DictConfig) -> None:
        session.job(config)

    hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()


def _begin_sweep(
    session: Session, held: contextlib.ExitStack, sweep: Sweep, jobs: Sequence[Sequence[str]]
) -> Mapping[int, Overrides]:
    """Locks the folder for this command, and numbers its jobs after the jobs that are already in it."""
    held.enter_context(hold(sweep.folder))
    earlier = runs_of(sweep.folder)
    sweep.jobs = numbered(sweep, jobs, earlier)
    if earlier:
        click.echo(announcement(sweep, earlier), err=True)
    session.sweep = sweep
    return sweep.jobs


def _of_every_job(flags: list[str], overrides: list[str]) -> list[str]:
    """Returns flags and Hydra's settings, without those that `Sweep.command` sets itself."""
    without = ("hydra.sweep.dir=", "hydra.mode=")
    settings = [line for line in overrides if line.lstrip("+").startswith(("hydra.", "hydra/"))]
    return [
        *(flag for flag in flags if flag not in ("-m", "--multirun")),
        *(line for line in settings if not line.lstrip("+").startswith(without)),
    ]


def flags_and_overrides(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separates flags from overrides, because Hydra rejects overrides on both sides of a flag.

    `replicates=5` is short for `replicates.number=5`.

    >>> flags_and_overrides(["model=native,lightgbm", "-m", "data=mq2008"])
    (['-m'], ['model=native,lightgbm', 'data=mq2008'])
    >>> flags_and_overrides(["replicates=5"])
    ([], ['replicates.number=5'])

    Raises:
        ConfigError: A flag of Hydra is not supported, or contradicts another one.
    """
    parsed = get_args_parser().parse_intermixed_args(arguments)
    if parsed.experimental_rerun is not None:
        raise ConfigError(
            "--experimental-rerun would load a pickle file, which ltrbench never does; repeat the overrides "
            "instead."
        )
    if parsed.multirun and (parsed.cfg or parsed.info):
        raise ConfigError(
            "--cfg and --info show a single job; leave out -m, and give each setting one value."
        )
    waiting = Counter(parsed.overrides)
    flags = []
    for argument in arguments:
        if waiting[argument] > 0:
            waiting[argument] -= 1
        else:
            flags.append(argument)
    return flags, [_NUMBER_OF_RESAMPLES.sub(r"\1.number=", override) for override in parsed.overrides]


def _num_resamples(config: DictConfig, overrides: Sequence[str]) -> int | None:
    """Returns the number of resamples if the job belongs to a sweep over them, else None."""
    is_swept = any(line.startswith(f"{RESAMPLE}=") for line in overrides)
    return config.replicates.number if is_swept else None


def _study(config: DictConfig) -> None:
    """Runs a study and prints its table. A study has no run folder and is not tracked."""
    table = run_study(config)
    click.echo(table.read_text())
    click.echo(f"Table: {table}", err=True)


@contextlib.contextmanager
def _warning(what: str) -> Iterator[None]:
    """Turns an LtrbenchError into a warning, because a failure after the runs must not discard them."""
    try:
        yield
    except LtrbenchError as error:
        log.warning("%s: %s", what, error)


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _common(runs: list[Run]) -> Path:
    return runs[0].path if len(runs) == 1 else Path(os.path.commonpath([run.path for run in runs]))
