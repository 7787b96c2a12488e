"""Everything that is not a verb goes to Hydra: composing, sweeping, and one job after another.

A `Session` lives as long as the command. It opens the tracker with the first job and closes it whatever
happens, keeps what the jobs left behind, and prints their comparison.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.errors import INTERRUPTED, OK, RUN_FAILED, USER_MISTAKE, as_paragraph, debugging
from ltrbench.cli.help import register_help
from ltrbench.cli.program import program
from ltrbench.cli.progress import showing, terminal_width
from ltrbench.cli.sweep import register_sweeper, swept_settings
from ltrbench.config import Config, build_experiment, build_tracker, conf_dir, register_schema, run_study
from ltrbench.errors import ConfigError, LtrbenchError, ResultError, TrackingError, did_you_mean
from ltrbench.experiment import run
from ltrbench.results import FINISHED, RESULT_FILE, Run, read_run
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Choice, Comparison

log = logging.getLogger("ltrbench")

COMPARISON_FOLDER = "comparison"
"""Where a sweep's tables and pictures stand, in its folder."""

# Lines of Hydra's messages that say where its own code stood.
_HYDRAS_OWN = ("object_type=", "reference_type=", "full_key:")


class _Abort(BaseException):
    """Ends a sweep before its other jobs: Hydra goes on after an Exception, and only this is none."""


@dataclass
class Session:
    """What one command did: its tracker, the folders of its jobs, and what went wrong in them."""

    overrides: list[str] = field(default_factory=list)
    tracker: Tracker | None = None
    sweep_folder: Path | None = None
    register: str | None = None
    folders: list[Path] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    registered: str = ""
    comparison_folder: Path | None = None

    def job(self, config: DictConfig) -> None:
        """Runs one job. Its failure is told and kept for the exit code, and the other jobs go on."""
        if config.study is not None:
            self._study(config)
            return
        composed = HydraConfig.get()
        sweep = _sweep_name(composed) if composed.mode == RunMode.MULTIRUN else None
        swept = {} if sweep is None else swept_settings(composed.sweeper.get("params"), self.overrides)
        overrides = tuple(composed.overrides.task)
        if sweep is not None:
            log.info("\njob %s: %s", composed.job.num, " ".join(overrides))
            self.sweep_folder = Path(composed.sweep.dir)
        self.register = config.register
        folder = Path(composed.runtime.output_dir)
        self.folders.append(folder)
        try:
            experiment = build_experiment(config, dict(composed.runtime.choices), overrides, sweep, swept)
            tracker = self._open_tracker(config, sweep)
            with showing(config.progress, experiment.model) as on_progress:
                run(experiment, folder, tracker, on_progress)
        except ResultError as error:
            # The folder is another run's, whose numbers must not be shown as this one's.
            self.folders.remove(folder)
            self._tell(error)
        except Exception as error:
            self._tell(error)

    def _study(self, config: DictConfig) -> None:
        """A study that is no run: it leaves a table, and neither a run's folder nor anything to track."""
        try:
            table = run_study(config)
            click.echo(table.read_text())
            click.echo(f"Table: {table}", err=True)
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Not raised: Hydra would put a line of its own before ours, and a sweep goes on in any case."""
        self.errors.append(error)
        if debugging():
            log.error("".join(traceback.format_exception(error)))
        log.error("%s", as_paragraph(error))

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
        """Keeps the comparison and registers the best model, then ends the parent run with the command's
        status."""
        with _warning("the comparison could not be kept"):
            self._keep_comparison()
        if self.tracker is None:
            return
        if self.register is not None and status == "finished":
            with _warning(f"no model was registered as '{self.register}'"):
                self._register(self.tracker, self.register)
        with _warning("the sweep's parent run could not be closed"):
            self.tracker.close("failed" if self.errors and status == "finished" else status)

    def _keep_comparison(self) -> None:
        """Into the sweep's folder, and from there to the tracker."""
        if self.sweep_folder is None or not self.comparisons:
            return
        from ltrbench.compare.publish import publish
        from ltrbench.compare.record import figures

        folder = self.sweep_folder / COMPARISON_FOLDER
        publish(self.comparisons, folder)
        self.comparison_folder = folder
        if self.tracker is not None:
            text, best = (folder / "table.md").read_text(), self._best()
            shown = figures(self.comparisons)
            if best is not None:
                text, shown = f"{best.reason}\n\n{text}", {**shown, **best.figures}
            self.tracker.summarize(folder, text, best.run if best else None, shown)

    def _register(self, tracker: Tracker, name: str) -> None:
        best = self._best()
        if best is None:
            raise ResultError(
                "the best is chosen by validation on one data set, and these runs have none in common"
            )
        self.registered = f"{tracker.register(name, best.run, best.reason)} ({best.reason})"

    def _best(self) -> Choice | None:
        from ltrbench.compare import best_by_validation

        return best_by_validation(self.comparisons[0]) if len(self.comparisons) == 1 else None

    @cached_property
    def runs(self) -> list[Run]:
        """Those that stand on disk when the jobs are over."""
        folders = [_relative(folder) for folder in self.folders]
        return [read_run(folder) for folder in folders if (folder / RESULT_FILE).exists()]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        # Late, because it is not needed for --help, which has to answer at once.
        from ltrbench.compare import compare

        if all(run.result.status != FINISHED for run in self.runs):
            return []
        try:
            return compare(self.runs)
        except ResultError as error:
            log.warning("no comparison was made: %s", error)
            return []

    def report(self) -> None:
        """Prints the comparison on standard output, and says where everything lies."""
        if not self.runs:
            return
        # Late, because it is not needed for --help, which has to answer at once.
        from ltrbench.compare import render
        from ltrbench.compare.across import across, in_words

        for comparison in self.comparisons:
            click.echo(f"\n{render(comparison, terminal_width())}")
        if over := in_words(across(self.comparisons) if self.comparisons else None):
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
            unwritten = bool(self.sweep_folder and self.comparisons) and self.comparison_folder is None
            return USER_MISTAKE if unwritten else OK
        return USER_MISTAKE if all(isinstance(error, LtrbenchError) for error in self.errors) else RUN_FAILED


def launch(arguments: list[str]) -> int:
    """Gives the command line to Hydra and runs its jobs; returns the exit code.

    Raises:
        LtrbenchError: on a mistake in the configuration; any other error is a failed run's.
    """
    session = Session()
    status = "failed"
    # A scheduler that ends the command lets it record and close what it was doing, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run_hydra(session, arguments)
        status = "finished"
    except _Abort:
        raise session.errors[-1] from None
    except KeyboardInterrupt:
        status = "interrupted"
        click.echo("interrupted", err=True)
        session.report()
        return INTERRUPTED
    except PermissionError as error:
        raise ConfigError(
            f"{error.filename} cannot be written. Start in another folder, or name one for runs with "
            "hydra.run.dir=... or hydra.sweep.dir=..."
        ) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_composition_message(error)) from error
    finally:
        session.close(status)
    session.report()
    return session.exit_code


def _run_hydra(session: Session, arguments: list[str]) -> None:
    register_schema()
    register_sweeper()
    register_help()
    # Without this Hydra prints errors itself, with a part of the traceback, and exits with 1 for all of them.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Hydra reads the command line from here, and calls the program by its first word.
    sys.argv = [program(), *arguments]
    sys.argv[1:] = overrides_last(arguments)
    session.overrides = get_args_parser().parse_args(sys.argv[1:]).overrides

    def job(config: DictConfig) -> None:
        session.job(config)

    hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()


def overrides_last(arguments: list[str]) -> list[str]:
    """The same arguments with the overrides behind the flags: Hydra takes no overrides on both sides of a
    flag.

    >>> overrides_last(["model=native,lightgbm", "-m", "data=mq2008"])
    ['-m', 'model=native,lightgbm', 'data=mq2008']
    """
    parsed = get_args_parser().parse_intermixed_args(arguments)
    if parsed.experimental_rerun is not None:
        raise ConfigError(
            "--experimental-rerun loads a pickle, which ltrbench never does; repeat the overrides instead."
        )
    waiting = Counter(parsed.overrides)
    flags = []
    for argument in arguments:
        if waiting[argument] > 0:
            waiting[argument] -= 1
        else:
            flags.append(argument)
    return flags + list(parsed.overrides)


def _composition_message(error: BaseException) -> str:
    """Hydra's message and that of its cause as one paragraph, with what may have been meant."""
    messages = [str(error)]
    if error.__cause__ is not None and str(error.__cause__) not in messages[0]:
        messages.append(str(error.__cause__))
    lines = [line.strip() for message in messages for line in message.splitlines()]
    told = list(itertools.takewhile(lambda line: not line.startswith("Config search path:"), lines))
    text = " ".join(line for line in told if line and not line.startswith(_HYDRAS_OWN))
    return text + _what_was_meant(text, told).rstrip(".")


def _what_was_meant(text: str, lines: list[str]) -> str:
    """The closest of a group's YAMLs, which Hydra's message lists, or of the top-level keys."""
    missing_yaml = re.search(r"Could not find '\w+/(\w+)'", text)
    missing_key = re.search(r"Could not override '(\w+)'", text)
    if missing_yaml:
        return did_you_mean(missing_yaml[1], [line for line in lines if re.fullmatch(r"[a-z]\w*", line)])
    if missing_key:
        return did_you_mean(missing_key[1], [item.name for item in dataclasses.fields(Config)])
    return ""


@contextlib.contextmanager
def _warning(what: str) -> Iterator[None]:
    """What is done after the runs loses none of them where it fails."""
    try:
        yield
    except LtrbenchError as error:
        log.warning("%s: %s", what, error)


def _sweep_name(composed: Any) -> str:
    return str(_relative(Path(composed.sweep.dir)))


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _common(runs: list[Run]) -> Path:
    return runs[0].path if len(runs) == 1 else Path(os.path.commonpath([run.path for run in runs]))
