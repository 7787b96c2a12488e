"""Starts a run or a sweep: Hydra composes the jobs; a `Session` runs them."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import click
import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.console import as_paragraph, program
from ltrbench.cli.hydra_internals import get_args_parser
from ltrbench.cli.progress import showing
from ltrbench.cli.session import SWEEP_FILE, Session, SweepOrder, relative, run_command
from ltrbench.cli.sweep import (
    RESAMPLE,
    ComposedJob,
    ComposedSweep,
    check_keys,
    composition_message,
    num_folds_of,
    plain_overrides,
    register_sweeper,
    swept_settings,
    unwritable_message,
)
from ltrbench.conf_folder import conf_dir
from ltrbench.config import build_experiment, build_tracker, register_schema, resolved, run_study
from ltrbench.errors import ConfigError, ResultError, TrackingError, debugging
from ltrbench.experiment.run import run
from ltrbench.rankers.saved import SavedModelError
from ltrbench.runs.record import SETTINGS_OF_COMMAND, writing_to
from ltrbench.sweep.job import Job
from ltrbench.sweep.plan import draft, with_shared_choices
from ltrbench.sweep.running import FOLDER, stopping
from ltrbench.tracking import Tracker

log = logging.getLogger("ltrbench")

_SHORT_FORMS = (
    (re.compile(r"^(\+{0,2}replicates)=(?=[-+\d])"), r"\1.number="),
    # Hydra does not take null as the name of a YAML.
    (re.compile(r"^importance=null$"), "importance=none"),
)


class _Abort(BaseException):
    """Ends a command before its other jobs. Not an Exception, because Hydra continues after an Exception."""


@dataclass
class _Command:
    """One command line, and its session.

    Attributes:
        flags: flags of the command line that every job needs.
        overrides: overrides of the command line.
    """

    session: Session
    flags: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    _swept: dict[int | None, dict[str, list[str]]] = field(default_factory=dict)

    def job(self, config: DictConfig) -> None:
        """Runs one job that Hydra starts: a single run, or a job of another sweeper. A failure is logged and
        recorded for the exit code."""
        # A DictConfig at run time, although Hydra declares another type.
        composed: Any = HydraConfig.get()
        try:
            check_keys(config, composed)
            if config.study is not None:
                self.session.in_study = True
                _study(config)
            else:
                self._run(config, composed)
        except Exception as error:
            if stopping.is_set():
                # Compiled code turns what a signal handler raises into a SystemError.
                raise KeyboardInterrupt from error
            # Not raised, because Hydra would print a line before ours, and a sweep continues in any case.
            self.session.errors.append(error)
            if debugging():
                log.error("".join(traceback.format_exception(error)))
            log.error("%s", as_paragraph(error))

    def _run(self, config: DictConfig, composed: Any) -> None:
        session, overrides = self.session, tuple(plain_overrides(composed.overrides.task))
        settings = resolved(config)
        name, swept = None, None
        if composed.mode == RunMode.MULTIRUN:
            log.info("\njob %s: %s", composed.job.num, " ".join(overrides))
            session.sweep = relative(Path(composed.sweep.dir))
            name = str(session.sweep)
            swept = self.swept(composed, settings, overrides)
        _check_executor(settings, is_sweep=name is not None)
        _check_search(settings)
        session.register = settings["register"]
        folder = Path(composed.runtime.output_dir)
        session.folders.append(folder)
        experiment = build_experiment(settings, dict(composed.runtime.choices), overrides, name, swept)
        tracker = self._open_tracker(settings, name)
        try:
            with showing(settings["progress"], experiment.model) as on_progress:
                run(replace(experiment, flags=self.flags), folder, tracker, on_progress)
        except SavedModelError:
            raise
        except ResultError:
            # The folder belongs to another run, whose numbers must not be reported as this run's.
            session.folders.remove(folder)
            raise

    def _open_tracker(self, settings: Mapping[str, Any], sweep: str | None) -> Tracker:
        if self.session.tracker is None:
            tracker = build_tracker(settings)
            try:
                tracker.open(sweep)
            except TrackingError as error:
                self.session.errors.append(error)
                raise _Abort from error
            self.session.tracker, self.session.is_tracking = tracker, True
        return self.session.tracker

    def swept(
        self, hydra_node: Any, settings: Mapping[str, Any], overrides: Sequence[str]
    ) -> dict[str, list[str]]:
        """Returns each setting that differs between the jobs of the sweep -> its values."""
        is_swept = any(line.startswith(f"{RESAMPLE}=") for line in overrides)
        number = settings["replicates"]["number"] if is_swept else None
        # Parsing a thousand values takes longer than checking a job.
        if number not in self._swept:
            self._swept[number] = swept_settings(
                hydra_node.sweeper.get("params"), self.overrides, number, num_folds_of(settings["data"])
            )
        return self._swept[number]

    def sweep(self, composed: ComposedSweep) -> None:
        """Runs a sweep of ltrbench's own sweeper."""
        folder, node = relative(composed.folder), composed.master.hydra
        _check_sweep(composed.jobs)
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
        drafts = with_shared_choices([self._draft(job, folder, node) for job in composed.jobs])
        with writing_to(folder):
            self._keep_settings(composed, folder)
        self.session.run_sweep(
            SweepOrder(
                folder=folder,
                drafts=drafts,
                folder_of=lambda job, number: composed.folder_of(job.overrides, number),
                settings=composed.jobs[0].settings,
                logging=_logging_of(composed.master),
                chdir=bool(node.job.chdir),
                environment={name: str(value) for name, value in (node.job.env_set or {}).items()},
            )
        )

    def _draft(self, job: ComposedJob, folder: Path, node: Any) -> Job:
        swept = self.swept(node, job.settings, job.overrides)
        experiment = build_experiment(job.settings, job.choices, job.overrides, str(folder), swept)
        settings = job.settings
        if experiment.ranker.is_yardstick:
            # It has no settings to search for.
            settings = {**settings, "search": None}
        return draft(
            experiment,
            settings,
            job.choices,
            self.flags,
            started_in=str(Path.cwd()),
            chdir=bool(node.job.chdir),
            environment=list(node.job.env_set or ()),
        )

    def _keep_settings(self, composed: ComposedSweep, folder: Path) -> None:
        """Saves the settings of the sweep like Hydra, without overwriting those of an earlier command."""
        number = len(list(folder.glob("multirun*.yaml")))
        file = folder / (f"multirun-{number}.yaml" if number else SWEEP_FILE)
        try:
            OmegaConf.save(composed.master, file)
        except OSError:
            file.unlink(missing_ok=True)
            raise


def launch(arguments: list[str]) -> int:
    """Passes the command line to Hydra, runs its jobs and returns the exit code.

    Raises:
        LtrbenchError: The configuration is invalid; any other error means that a run failed.
    """
    session = Session()
    return run_command(session, f"{program()} {shlex.join(arguments)}", lambda: _launch(session, arguments))


def _launch(session: Session, arguments: list[str]) -> None:
    try:
        _run_hydra(session, arguments)
    except _Abort:
        raise session.errors[-1] from None
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(composition_message(error)) from error
    except OSError as error:
        if error.filename is None:
            # Such as a full disk, when Hydra saves the settings of a run.
            with writing_to(Path("hydra.run.dir")):
                raise
        raise ConfigError(unwritable_message(error)) from error


def _run_hydra(session: Session, arguments: list[str]) -> None:
    register_schema()
    flags, overrides = flags_and_overrides(arguments)
    of_every_job = [flag for flag in flags if flag not in ("-m", "--multirun")]
    command = _Command(session, of_every_job, overrides)
    register_sweeper(command.sweep)
    # Otherwise Hydra prints every error with a part of the traceback, and always exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Hydra reads the command line from sys.argv and uses its first word as the name of the program.
    sys.argv = [program(), *flags, *overrides]

    def job(config: DictConfig) -> None:
        command.job(config)

    hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()


def _check_executor(settings: Mapping[str, Any], is_sweep: bool) -> None:
    """Raises ConfigError if a single run or another sweeper names an executor, which would have no effect."""
    target = str(settings["executor"].get("_target_"))
    if target.endswith(".InlineExecutor"):
        return
    if is_sweep:
        raise ConfigError(
            f"executor is {target}, but the chosen hydra/sweeper runs the jobs itself. Set executor=inline, "
            "or hydra/sweeper=basic."
        )
    raise ConfigError(
        f"executor is {target}, but an executor runs the jobs of a sweep. Add -m, or leave out executor."
    )


def _check_search(settings: Mapping[str, Any]) -> None:
    """Raises ConfigError if a single run or another sweeper names a search."""
    if settings["search"] is not None:
        raise ConfigError(
            "search is set, but a search is a sweep over trials, which only ltrbench's own sweeper runs. Add "
            "-m, or set search=none."
        )


def _check_sweep(jobs: Sequence[ComposedJob]) -> None:
    """Raises ConfigError if a sweep is over a setting of the whole command, or contains a study."""
    for name in SETTINGS_OF_COMMAND:
        values = [job.settings[name] for job in jobs]
        if any(value != values[0] for value in values):
            raise ConfigError(f"{name} differs between the jobs of the sweep; set it once for all jobs.")
    if any(job.settings["study"] is not None for job in jobs):
        raise ConfigError("a study is not a run, so it cannot be part of a sweep; leave out -m.")


def _logging_of(master: DictConfig) -> dict[str, Any]:
    """Returns the configuration of Python's logging, with `FOLDER` for the folder of a run."""
    config = master.copy()
    with open_dict(config):
        config.hydra.runtime.output_dir = FOLDER
    configuration = OmegaConf.to_container(config.hydra.job_logging, resolve=True)
    if not isinstance(configuration, dict) or configuration.get("root") is None:
        return {}
    verbose = config.hydra.verbose
    if verbose is True:
        configuration["root"]["level"] = "DEBUG"
    names = [] if isinstance(verbose, bool) else [verbose] if isinstance(verbose, str) else list(verbose)
    loggers = configuration.setdefault("loggers", {})
    for name in names:
        loggers.setdefault(name, {})["level"] = "DEBUG"
    return {str(key): value for key, value in configuration.items()}


def flags_and_overrides(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separates flags from overrides, because Hydra rejects overrides on both sides of a flag.

    `replicates=5` is short for `replicates.number=5`, and `importance=null` for `importance=none`.

    >>> flags_and_overrides(["model=native,lightgbm", "-m", "data=mq2008"])
    (['-m'], ['model=native,lightgbm', 'data=mq2008'])
    >>> flags_and_overrides(["replicates=5"])
    ([], ['replicates.number=5'])

    Raises:
        ConfigError: A flag is unknown or not supported, or contradicts another one.
    """
    parsed = _parsed(arguments)
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
    # `--help settings` is the only page of Hydra.
    overrides = [word for word in parsed.overrides if not (parsed.help and word == "settings")]
    for short, whole in _SHORT_FORMS:
        overrides = [short.sub(whole, override) for override in overrides]
    return flags, overrides


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """Parses with Hydra's parser, whose own message would be a list of Hydra's flags.

    Raises:
        ConfigError: A flag is unknown, or lacks its value.
    """
    parser = get_args_parser()
    known = [name for action in parser._actions for name in action.option_strings]

    def refuse(message: str) -> NoReturn:
        for word, following in zip(arguments, [*arguments[1:], "-"], strict=True):
            flag, equals, value = word.partition("=")
            if not flag.startswith("-") or flag in known:
                continue
            if not equals:
                value = "VALUE" if following.startswith(("-", "+", "~")) or "=" in following else following
            raise ConfigError(
                f"{flag} is not a flag of a run. A setting has no dashes: write {flag.lstrip('-')}={value}. "
                "--hydra-help lists the flags."
            )
        raise ConfigError(f"{message}. --hydra-help lists the flags.")

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_intermixed_args(arguments)


def _study(config: DictConfig) -> None:
    """Runs a study and prints its table. A study has no run folder and is not tracked."""
    table = run_study(config)
    click.echo(table.read_text())
    click.echo(f"Table: {table}", err=True)
