"""Starts a run or a sweep: Hydra composes the jobs, and a `Session` runs them.

`CheckedSweeper` replaces Hydra's basic sweeper: it checks every job before the first one trains, and runs the
jobs with the executor of the composed configuration, not with Hydra's launcher. `hydra_private` has the
private names of Hydra.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click
import hydra
import yaml  # type: ignore[import-untyped]
from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override, open_dict
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.console import PROGRAM, showing
from ltrbench.cli.hydra_private import (
    BasicSweeper,
    apply_overrides,
    arguments_parser,
    composed_once,
    help_unchecked,
    read_yaml_in_c,
    replace_sweeper,
    write_configs_with,
)
from ltrbench.cli.session import SWEEP_FILE, Session, relative, run_command
from ltrbench.config import (
    build_experiment,
    build_tracker,
    composition_message,
    register_schema,
    resolved,
    run_study,
)
from ltrbench.errors import ConfigError, DebiasingError, ResultError, did_you_mean
from ltrbench.experiment import Experiment, run
from ltrbench.experiment.data_warnings import warnings_of_data
from ltrbench.experiment.loading import load_once
from ltrbench.folders import conf_dir
from ltrbench.measure import without_password
from ltrbench.rankers.base import SavedModelError
from ltrbench.runs.record import writing_to
from ltrbench.runs.spec import SETTINGS_OF_COMMAND, RunSpec
from ltrbench.sweep.plan import Job, draft, with_shared_choices
from ltrbench.sweep.running import report

log = logging.getLogger("ltrbench")

RESAMPLE = "replicates.index"
"""The setting that chooses a resample."""

_FOLD = "data.fold"
_ALL_FOLDS = "data.fold=all"
_SPLIT = "data.split_seed"

_SHORT_FORMS = (
    (re.compile(r"^(\+{0,2}replicates)=(?=[-+\d])"), r"\1.number="),
    # The name of an objective replaces its settings.
    (re.compile(r"^(?=model\.objective=)"), "++"),
    (re.compile(r"^early_stopping=none$"), "early_stopping=null"),
    # A YAML of the group data, whose settings become data.from.
    (re.compile(r"^data\.from="), "data@data.from="),
)


def launch(arguments: list[str]) -> int:
    """Passes the command line to Hydra, runs its jobs and returns the exit code.

    Raises:
        LtrbenchError: The configuration is invalid; any other error means that a run failed.
    """
    session = Session()
    return run_command(
        session,
        f"{PROGRAM} {shlex.join(arguments)}",
        lambda: _launch(session, arguments),
    )


def _launch(session: Session, arguments: list[str]) -> None:
    flags, overrides = flags_and_overrides(arguments)
    command = _Command(
        session, [flag for flag in flags if flag not in ("-m", "--multirun")]
    )
    multirun = flags != command.flags
    register_schema()
    # The configuration is resolved several times, but the command has one folder.
    OmegaConf.register_new_resolver(
        "new_folder", functools.cache(new_folder), replace=True
    )
    CheckedSweeper.run = staticmethod(command.sweep)
    replace_sweeper(CheckedSweeper)
    write_configs_with(_save_config)
    read_yaml_in_c()
    # Otherwise Hydra prints every error with a part of the traceback, and always exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"

    try:
        # Hydra reads the command line from sys.argv and uses its first word as the name of the program.
        words = of_each_job(overrides) if multirun else overrides
        sys.argv = ["ltrbench", *flags, *words]
        composing = hydra.main(
            version_base="1.3", config_path=str(conf_dir()), config_name="config"
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(help_unchecked())
            if multirun:
                stack.enter_context(composed_once())
            composing(command.job)()
    except (HydraException, OmegaConfBaseException) as error:
        several = "" if multirun else _several_values(arguments, overrides)
        raise ConfigError(several or composition_message(error)) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_about_yaml(error)) from error
    except OSError as error:  # of the folder of a run, which Hydra creates
        if error.filename is None:
            raise
        with writing_to(Path(error.filename)):
            raise


def _about_yaml(error: yaml.MarkedYAMLError) -> str:
    """Returns file, line and error of a YAML that cannot be read."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1
    problem = f"{error.problem} {error.context or ''}".rstrip()
    return f"{mark.name}:{line}: {problem}, so this is no valid YAML. Correct this line or the one before it."


def _save_config(cfg: DictConfig, filename: str, output_dir: Path) -> None:
    """Writes a file of `.hydra` in place of Hydra's function, without passwords."""
    text = without_password(OmegaConf.to_yaml(cfg))
    with writing_to(output_dir):
        output_dir.mkdir(parents=True, exist_ok=True)
        (output_dir / filename).write_text(text, encoding="utf-8")


def new_folder(name: str) -> str:
    """Creates a folder that no other command has, and returns its name: NAME, NAME-2, NAME-3 and so on.

    Two commands that start in the same second thus have different folders.
    """
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    with writing_to(Path(name)):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        for candidate in itertools.chain([name], numbered):
            with contextlib.suppress(FileExistsError):
                Path(candidate).mkdir()
                return candidate
    raise AssertionError("unreachable: the numbers do not end")


@dataclass
class _Command:
    """One command line, and its session.

    Attributes:
        flags: flags of the command line that every job needs.
    """

    session: Session
    flags: list[str]
    _inspected: set[str] = field(default_factory=set)  # names of data sets

    def job(self, config: DictConfig) -> None:
        """Runs the job that Hydra starts without -m. A failure is logged and recorded for the exit code."""
        # A DictConfig at run time, although Hydra declares another type.
        composed: Any = HydraConfig.get()
        try:
            check_keys(config, composed)
            if composed.mode == RunMode.MULTIRUN:
                raise ConfigError(
                    "only hydra/sweeper=basic is supported; leave out hydra/sweeper, and search for "
                    "hyperparameters with search=random or search=tpe."
                )
            if config.stop_after is not None:
                raise ConfigError(
                    f"stop_after is {config.stop_after:g}, but only a sweep is stopped. Add -m, or "
                    "leave it out."
                )
            if config.study is not None:
                table = run_study(config)
                click.echo(table.read_text())
                click.echo(f"Table: {table}", err=True)
            else:
                self._run(config, composed)
        except Exception as error:
            # Not raised, because Hydra would print a line before ours.
            self.session.failures.append(report(error))

    def _run(self, config: DictConfig, composed: Any) -> None:
        session = self.session
        settings = resolved(config)
        if settings["search"] is not None:
            raise ConfigError(
                "search is set, but a search is a sweep over trials. Add -m, or set search=none."
            )
        words = _plain(composed.overrides.task)
        spec = RunSpec(
            settings=settings,
            choices=dict(composed.runtime.choices),
            overrides=words,
            flags=self.flags,
        )
        experiment = build_experiment(spec)
        typed = [*words, *_plain(composed.overrides.hydra)]
        refuse_settings_of(typed, _OF_SWEEPS, "without -m. Add -m")
        refuse_unmet(typed, settings)
        experiment.ranker.begin_warm_up()
        tracker = build_tracker(settings)
        tracker.open(None)
        session.tracker = tracker
        session.settings = settings
        folder = session.folder = Path(composed.runtime.output_dir)
        try:
            with showing(settings["progress"], experiment.model) as on_progress:
                run(experiment, folder, tracker, on_progress)
        except SavedModelError:
            raise
        except ResultError:
            # The folder belongs to another run, whose metrics must not be reported as those of this run.
            session.folder = None
            raise

    def sweep(
        self,
        sweep: Path,
        jobs: Sequence[Experiment],
        master: DictConfig,
        folder_of: Callable[[Sequence[str], int], str],
    ) -> None:
        """Runs the jobs of a sweep, after all of them have been checked.

        Args:
            sweep: folder of the sweep.
            jobs: the experiments of the jobs.
            master: the configuration with which the sweep was started, including Hydra's node.
            folder_of: (overrides, number) -> folder of a job, relative to the folder of the sweep.

        Raises:
            LtrbenchError: The folder, the tracking store or the executor cannot be used.
        """
        specs = [job.spec for job in jobs]
        _check_of_sweep(master.hydra, specs)
        # Only of the first job, because it must not run beside a fit.
        jobs[0].ranker.begin_warm_up()
        folder = relative(sweep)
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / SWEEP_FILE).exists():
                text = without_password(OmegaConf.to_yaml(master))
                (folder / SWEEP_FILE).write_text(text, encoding="utf-8")
        swept = swept_settings([spec.overrides or () for spec in specs])
        started_in = str(Path.cwd())
        drafts = []
        for job in jobs:
            spec = replace(
                job.spec,
                swept=swept,
                flags=self.flags,
                sweep=str(folder),
                started_in=started_in,
            )
            drafts.append(self._draft(replace(job, spec=spec)))
        self.session.run_sweep(
            folder,
            with_shared_choices(drafts),
            lambda job, number: folder_of(job.overrides, number),
        )

    def _draft(self, experiment: Experiment) -> Job:
        if experiment.ranker.is_yardstick:
            # It has no settings to search for.
            spec = experiment.spec.with_settings(search=None)
            experiment = replace(experiment, spec=spec)
        drafted = draft(experiment)
        # Of the folds of a data set the first one, because they have most queries in common.
        name = experiment.source.name
        if "train" in drafted.key.data and name not in self._inspected:
            self._inspected.add(name)
            for text in warnings_of_data(load_once(experiment.source)[0]):
                log.warning("%s: %s", name, text)
        return drafted


def _check_of_sweep(of_hydra: DictConfig, specs: Sequence[RunSpec]) -> None:
    """Raises ConfigError if the jobs cannot be those of one sweep."""
    choice = of_hydra.runtime.choices["hydra/job_logging"]
    if of_hydra.job.chdir or of_hydra.job.env_set or choice != "plain":
        raise ConfigError(
            "hydra.job.chdir, hydra.job.env_set and hydra/job_logging apply to single runs only. Leave "
            "them out, and set environment variables before the command."
        )
    typed = _plain(of_hydra.overrides.hydra)
    refuse_settings_of(typed, _OF_RUNS, "with -m. Set hydra.sweep.dir")
    first = specs[0].settings
    for name in SETTINGS_OF_COMMAND:
        if any(spec.settings[name] != first[name] for spec in specs):
            raise ConfigError(
                f"{name} differs between the jobs of the sweep; set it once for all jobs."
            )
    if any(spec.settings["study"] is not None for spec in specs):
        raise ConfigError(
            "a study is not a run, so it cannot be part of a sweep; leave out -m."
        )


# ---- The command line, and messages about it.


def flags_and_overrides(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separates flags from overrides, because Hydra rejects overrides on both sides of a flag.

    `replicates=5` is short for `replicates.number=5`, and null for none of a group, as in `importance=null`.

    >>> flags_and_overrides(["model=native,lightgbm", "-m", "data=mq2008"])
    (['-m'], ['model=native,lightgbm', 'data=mq2008'])
    >>> flags_and_overrides(["replicates=5"])
    ([], ['replicates.number=5'])

    Raises:
        ConfigError: A flag is unknown or lacks its value, the name of an objective replaces its settings, or
            a group that needs a YAML is null.
    """
    parser = arguments_parser()

    def refuse(message: str) -> NoReturn:
        raise ConfigError(
            f"{message}. A setting has no dashes, as in params.num_trees=100; --hydra-help lists the flags."
        )

    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    flags = [argument for argument in arguments if argument not in parsed.overrides]
    # `--help settings` is the only page of Hydra.
    overrides = [
        word for word in parsed.overrides if not (parsed.help and word == "settings")
    ]
    _check_objective(overrides)
    return flags, _whole_forms(overrides)


def _check_objective(overrides: Sequence[str]) -> None:
    names = [word for word in overrides if re.match(r"\+*model\.objective=", word)]
    lost = [word for word in overrides if re.match(r"\+*model\.objective\.", word)]
    if names and lost:
        chosen = names[0].replace("model.", "model/").lstrip("+")
        raise ConfigError(
            f"{lost[0]} has no effect with {names[0]}; write {chosen}, with a slash."
        )


def _several_values(arguments: Sequence[str], overrides: list[str]) -> str:
    """Returns the message about the first setting with several values, which is a sweep without -m; empty if
    there is none."""
    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
    except HydraException:
        return ""
    is_several = (item.is_sweep_override() for item in parsed)
    first = next(itertools.compress(overrides, is_several), None)
    if first is None:
        return ""
    key, _, value = first.partition("=")
    command = f"{PROGRAM} {shlex.join(arguments)} -m"
    as_list = ""
    # Neither choice(a, b) nor range(1, 3); the name of a YAML is no list.
    if "(" not in value and not (conf_dir() / key).is_dir():
        as_list = f"; one list of values is {shlex.quote(f'{key}=[{value}]')}"
    return f"{key} has several values: to run one job for each, add -m, as in {command}{as_list}."


def _whole_forms(overrides: Sequence[str]) -> list[str]:
    for short, whole in _SHORT_FORMS:
        overrides = [short.sub(whole, override) for override in overrides]
    return [_with_yaml(_in_quotes(override)) for override in overrides]


_NEEDS_QUOTES = re.compile(r"(?P<key>[^=\s]+)=(?P<value>[^\[{'\",\\$][^\",\\$]*)")
"""A setting with a text that can stand in quotes as it is: neither a list, a mapping nor several values."""


def _in_quotes(override: str) -> str:
    """Returns an override whose text Hydra cannot parse, such as a path with an ä or a parenthesis, with the
    text in quotes; others as they are.

    >>> [_in_quotes(f"data.train={path}") for path in ("a.txt", "lä (1).txt", "[lä.txt]")]
    ['data.train=a.txt', 'data.train="lä (1).txt"', 'data.train=[lä.txt]']
    """
    match = _NEEDS_QUOTES.fullmatch(override)
    if match is None:
        return override
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return f'{match["key"]}="{match["value"]}"'
    return override


def _with_yaml(override: str) -> str:
    """Returns an override in which a group is none instead of null: Hydra needs the name of a YAML.

    Raises:
        ConfigError: The group has no YAML none.
    """
    key, _, value = override.partition("=")
    group, _, _ = key.lstrip("+").partition("@")
    folder = conf_dir() / group
    if value != "null" or not folder.is_dir():
        return override
    names = sorted(file.stem for file in folder.glob("[!_]*.yaml"))
    if "none" in names:
        return f"{key}=none"
    raise ConfigError(
        f"{override} names no YAML. Choose one of {', '.join(names)}, or leave out {group}."
    )


def of_each_job(overrides: list[str]) -> list[str]:
    """Makes the settings of swept groups choices of one value, which only the jobs get.

    Hydra composes a sweep with the default of a swept group first, which may lack the setting.

    >>> of_each_job(["model=mlp,dasalc_like", "model.num_epochs=3", "seed=1"])
    ['model=mlp,dasalc_like', 'model.num_epochs=choice(3)', 'seed=1']
    """
    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = tuple(
        f"{item.key_or_group}." for item in parsed if item.is_sweep_override()
    )
    lines = []
    for line, item in zip(overrides, parsed, strict=True):
        is_one_value = not (item.is_sweep_override() or item.is_delete())
        if is_one_value and item.key_or_group.startswith(swept):
            value = item.get_value_element_as_str()
            line = f"{item.get_key_element()}=choice({value})"
        lines.append(line)
    return lines


# ---- Composes the configurations of a sweep's jobs like Hydra, but fast enough to check hundreds of jobs.


Composition = tuple[DictConfig, dict[str, Any]]
"""The configuration of a job without Hydra's node, and config group -> name of the chosen YAML."""


class Composer:
    """Composes the jobs of one sweep.

    Hydra reads and merges every YAML again for each job. But the merge depends only on the chosen YAMLs, so
    each combination of YAMLs is composed once, and the values of a job are set on a copy.

    Args:
        loader: the config loader of Hydra.
        master: the configuration with which the sweep was started, including Hydra's node.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader = loader
        self._master = master
        self._name = master.hydra.job.config_name
        self._of_hydra = _plain(master.hydra.overrides.hydra)
        self._parser = OverridesParser.create()
        self._parse = functools.cache(self._parse_override)
        self._has_yamls = functools.cache(self._has_yamls_of_key)
        self._compose = functools.cache(self._compose_choices)

    def composed(self, overrides: Sequence[str]) -> Composition:
        """Returns the same configuration as `ConfigLoader.load_sweep_config`.

        Raises:
            HydraException: The overrides do not compose, as with `load_sweep_config`.
        """
        choices = []
        values = []
        for line in overrides:
            override, chooses = self._parse(line)
            if chooses:
                choices.append(line)
            else:
                values.append(override)
        chosen, names = self._compose(tuple(choices))
        config = copy.deepcopy(chosen)
        try:
            apply_overrides(values, config)
        except OmegaConfBaseException as error:
            # The same conversion as in load_configuration, whose callers handle only Hydra's errors.
            raise ConfigCompositionException from error
        OmegaConf.copy_cache(from_config=self._master, to_config=config)
        return config, names

    def _parse_override(self, line: str) -> tuple[Override, bool]:
        """Returns the override, and whether it chooses a YAML or belongs to Hydra; the others set a value."""
        (override,) = self._parser.parse_overrides([line])
        if override.is_sweep_override() or override.is_hydra_override():
            return override, True
        if "." in override.key_or_group:  # the name of a group has slashes
            return override, False
        has_yamls = self._has_yamls(override.key_or_group)
        return override, has_yamls and not isinstance(override.value(), dict)

    def _has_yamls_of_key(self, key: str) -> bool:
        """Returns whether a key is a group; Hydra reads conf/config.yaml again for each answer."""
        names = self._loader.get_group_options(key, None, self._name, self._of_hydra)
        return bool(names)

    def _compose_choices(self, choices: tuple[str, ...]) -> Composition:
        config = self._loader.load_configuration(
            self._name, [*self._of_hydra, *choices], RunMode.RUN
        )
        chosen = dict(config.hydra.runtime.choices)
        with flag_override(config, ["readonly", "struct"], False):
            del config["hydra"]
        return config, chosen


def _plain(overrides: ListConfig) -> list[str]:
    """Returns the overrides as typed, with interpolations unresolved."""
    lines = OmegaConf.to_container(overrides, resolve=False)
    assert isinstance(lines, list)
    return lines


def check_keys(config: DictConfig, hydra_node: DictConfig) -> None:
    """Rejects a key that nothing reads, and the deletion of a key that is read.

    `+key=value` adds a key to any node. A setting without effect silently makes a comparison wrong. `build`
    checks the keys of a model, a data set or a tracker against the fields of its class; this function checks
    all other keys. A key counts as read if an interpolation names it.

    Args:
        config: the configuration of a job, without Hydra's node.
        hydra_node: Hydra's node, whose interpolations also read keys of the job.

    Raises:
        ConfigError: A key is not read, or was deleted.
    """
    for path, kind, keys in _typed_nodes(config, ""):
        known = [item.name for item in dataclasses.fields(kind)]
        for key in set(keys).difference(known):
            if _is_interpolated(path, key, (config, hydra_node)):
                continue
            extra = ""
            if path == "params.":
                extra = (
                    ", or add +model.extra.NAME=VALUE for a parameter of the library"
                )
            raise ConfigError(
                f"{path}{key} is set, but nothing reads it{did_you_mean(key, known)} Leave it out{extra}."
            )
        for key in set(known).difference(keys):
            raise ConfigError(
                f"{path}{key} was deleted, but it is required; leave out ~{path}{key}."
            )


def _is_interpolated(path: str, key: str, nodes: Sequence[DictConfig]) -> bool:
    """Returns whether an interpolation in the nodes names a key, by its path or relative to itself."""
    absolute = re.escape(path + key)
    relative_to_itself = rf"\.+{re.escape(key)}"
    name = rf"(?<![\w.])({absolute}|{relative_to_itself})(?!\w)"
    text = "".join(OmegaConf.to_yaml(node) for node in nodes)
    return re.search(rf"\$\{{[^}}]*{name}", text) is not None


def _typed_nodes(
    node: DictConfig, path: str
) -> Iterator[tuple[str, type[Any], list[str]]]:
    """Yields (path with its final dot, dataclass, keys) of a node and of all nodes below it with a
    dataclass."""
    kind = OmegaConf.get_type(node)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    keys = [str(key) for key in iter(node)]
    yield path, kind, keys
    for key in keys:
        if OmegaConf.is_missing(node, key) or OmegaConf.is_interpolation(node, key):
            continue
        item = node[key]
        if isinstance(item, DictConfig):
            yield from _typed_nodes(item, f"{path}{key}.")


# ---- Settings without effect in this command, which would only seem to be applied.
#
# Only what the command line sets is refused: an experiment may set more than one kind of command needs.

_OF_SWEEPS: Mapping[str, Sequence[str]] = {
    "only_trials": ("false",),
    "executor": ("inline",),
    "looks": ("0", "1"),
    "hydra.sweep.dir": (),
    "hydra.sweep.subdir": (),
}
"""Setting of a sweep -> its values that change nothing."""

_OF_RUNS: Mapping[str, Sequence[str]] = {"hydra.run.dir": ()}
"""Setting of a run without -m -> its values that change nothing."""


def refuse_settings_of(
    words: Sequence[str], settings: Mapping[str, Sequence[str]], remedy: str
) -> None:
    """Raises ConfigError if the command line sets one of the settings to a value that would change something.

    Args:
        words: overrides of the command line.
        remedy: condition without which they have no effect, and how to fulfil it.
    """
    typed = _as_typed(word.lstrip("+~") for word in words)
    for name, harmless in settings.items():
        value = typed.get(name)
        if value is not None and value.lower() not in harmless:
            raise ConfigError(
                f"{name}={value} has no effect {remedy}, or leave out {name}."
            )


@dataclass(frozen=True)
class _Need:
    """A setting that has an effect only beside another one.

    Attributes:
        is_met: (data settings, settings of the resamples) -> whether the setting has an effect.
        remedy: as in `refuse_settings_of`.
        harmless: its values that change nothing.
    """

    name: str
    is_met: Callable[[Mapping[str, Any], Mapping[str, Any]], bool]
    remedy: str
    harmless: Sequence[str] = ()


def _has_resamples(_: Mapping[str, Any], replicates: Mapping[str, Any]) -> bool:
    return replicates.get("number") is not None


_RESAMPLES = "without resamples. Add replicates.number=5"

_NEEDS = (
    _Need("replicates.kind", _has_resamples, _RESAMPLES),
    _Need("replicates.share", _has_resamples, _RESAMPLES),
    _Need("replicates.seed", _has_resamples, _RESAMPLES),
    _Need(
        "replicates.share",
        lambda _, replicates: replicates.get("kind") == "subsample",
        "on a bootstrap. Set replicates.kind=subsample",
    ),
    _Need(
        "cv_split",
        lambda data, _: data.get("cv") is not None,
        "without folds. Set cv=5",
        harmless=("test",),
    ),
    _Need(
        "data.valid_share",
        lambda data, _: data.get("valid") is None,
        "beside a validation file. Set data.valid=null",
    ),
    _Need(
        "data.test_share",
        lambda data, _: data.get("test") is None,
        "beside a test file. Set data.test=null",
    ),
)


def refuse_unmet(words: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raises ConfigError if the command line sets a setting of `_NEEDS` without the one that it needs.

    Args:
        words: overrides of the command line.
        settings: resolved configuration of the run.
    """
    replicates = settings["replicates"] or {}
    for need in _NEEDS:
        if not need.is_met(settings["data"], replicates):
            refuse_settings_of(words, {need.name: need.harmless}, need.remedy)


# ---- The sweeper.


class CheckedSweeper(BasicSweeper):
    """Checks all jobs first, so that a mistyped value in the last job does not fail after hours of
    training."""

    # Set by `_launch`, because Hydra creates the sweeper itself.
    run: ClassVar[staticmethod[..., None]]

    def sweep(self, arguments: list[str]) -> Any:
        """Checks all jobs, then runs them.

        Raises:
            LtrbenchError, HydraException: The first invalid job, or the folder, has an error.
        """
        # Hydra sets these before a sweep; asserted for the type checker.
        assert self.hydra_context is not None
        assert self.config is not None
        loader = self.hydra_context.config_loader
        master = self.config
        parser = OverridesParser.create(config_loader=loader)
        words = with_all_jobs([*_whole_forms(self._parse_config()), *arguments], master)
        (jobs,) = self.split_arguments(parser.parse_overrides(words), None) or [[]]
        if not jobs:
            raise ConfigError(
                "the sweep has no job; a glob in it, as in model=glob(native*), matches no YAML."
            )
        folder_of = functools.partial(_folder_of, loader, master)
        composed = _composed(loader, master, jobs)
        # The folder is chosen, and perhaps created, when it is resolved.
        self.run(Path(master.hydra.sweep.dir), composed, master, folder_of)


def _composed(
    loader: ConfigLoader, master: DictConfig, jobs: Sequence[Sequence[str]]
) -> list[Experiment]:
    """Composes each job, and builds its experiment and tracker.

    Jobs whose backend does not have their correction of clicks are left out, with a warning.

    Raises:
        LtrbenchError, HydraException: A job is invalid, or every job is left out.
    """
    composer = Composer(loader, master)
    experiments = []
    refused: list[DebiasingError] = []
    is_hidden = master.progress == "none"
    with click.progressbar(
        jobs, label="checking jobs", file=sys.stderr, hidden=is_hidden
    ) as checked:
        for overrides in checked:
            config, choices = composer.composed(overrides)
            check_keys(config, master.hydra)
            settings = resolved(config)
            spec = RunSpec(settings=settings, choices=choices, overrides=overrides)
            try:
                experiments.append(build_experiment(spec))
            except DebiasingError as error:
                refused.append(error)
            refuse_unmet(overrides, settings)
            build_tracker(settings)
    if refused and not experiments:
        raise refused[0]
    for text in dict.fromkeys(map(str, refused)):
        log.warning("left out: %s", text)
    return experiments


def _folder_of(
    loader: ConfigLoader, master: DictConfig, overrides: Sequence[str], number: int
) -> str:
    """Returns hydra.sweep.subdir of a job."""
    if OmegaConf.to_container(master.hydra.sweep)["subdir"] == "${hydra.job.num}":  # type: ignore[call-overload, index]
        # Hydra's default; composing a configuration for each of hundreds of jobs would take long.
        return str(number)
    config = loader.load_sweep_config(master, list(overrides))
    with open_dict(config):
        config.hydra.job.id = config.hydra.job.num = number
    return str(config.hydra.sweep.subdir)


def with_all_jobs(words: list[str], config: Any) -> list[str]:
    """Returns the overrides of a sweep, with its folds, their repeats, and resamples listed.

    Adds all folds of `cv` unless the command chooses folds, replaces `data.fold=all` by all folds of the data
    set, adds the `cv_repeats` values of `data.split_seed` from the configured one upwards, and adds all
    resamples of `replicates` unless one is chosen.

    >>> config = OmegaConf.create({"data": {}, "cv_repeats": 1, "replicates": {"number": 2, "index": None}})
    >>> with_all_jobs(["data=letor", "cv=3"], config)
    ['data=letor', 'cv=3', 'data.fold=1,2,3', 'replicates.index=1,2']
    >>> config = OmegaConf.create({"data": {"cv": 2, "split_seed": 7}, "cv_repeats": 2, "replicates": None})
    >>> with_all_jobs(["cv=2", "cv_repeats=2", "data.split_seed=7"], config)
    ['cv=2', 'cv_repeats=2', 'data.fold=1,2', 'data.split_seed=7,8']
    >>> with_all_jobs(["experiment=mine"], config)
    ['experiment=mine', 'data.fold=1,2', 'data.split_seed=7,8']
    >>> with_all_jobs(["data.cv=3", "data.split_seed=7"], config)
    ['data.cv=3', 'data.fold=1,2,3', 'data.split_seed=7,8']
    >>> config = OmegaConf.create({"data": {"num_folds": 3}, "cv_repeats": 1, "replicates": None})
    >>> with_all_jobs(["data.fold=all", "data=mq2008"], config)
    ['data=mq2008', 'data.fold=1,2,3']
    >>> with_all_jobs(["data.fold=all", "data.fold=2"], config)
    ['data.fold=2']

    Raises:
        ConfigError: `data.fold=all` with several data sets, or `cv_repeats` with several split seeds.
    """
    given = _as_typed(word.lstrip("+~") for word in words)
    words = _with_folds(words, given, config)
    words = _with_split_seeds(words, given, config)
    replicates = config.replicates
    if replicates is None or replicates.index is not None or RESAMPLE in given:
        return words
    number = replicates.number
    if number is not None and number > 1:
        words = [*words, _listed(RESAMPLE, number)]
    return words


def _with_folds(words: list[str], given: Mapping[str, str], config: Any) -> list[str]:
    """Returns the overrides with the folds of `data.fold=all`, or of `cv` if no fold is given."""
    # The last override of data.fold applies, so that a command line can choose folds of an experiment.
    if given.get(_FOLD) == "all":
        if "," in given.get("data", ""):
            raise ConfigError(
                f"{_ALL_FOLDS} needs one data set, but the sweep has data={given['data']}. Name one, or list "
                f"the folds, as in {_FOLD}=1,2,3."
            )
        words = _without(_FOLD, words)
        num_folds = config.data.get("cv") or config.data.get("num_folds")
        return words if num_folds is None else [*words, _listed(_FOLD, num_folds)]
    words = [word for word in words if word != _ALL_FOLDS]
    if _FOLD in given:
        return words
    cv = given.get("cv") or given.get("data.cv") or _folds_of_experiment(config)
    # An invalid number of folds is reported by the check of the job.
    if cv.isdecimal() and int(cv) > 1:
        words = [*words, _listed(_FOLD, int(cv))]
    return words


def _folds_of_experiment(config: Any) -> str:
    """Returns the `cv` that a YAML sets, unless it chooses a fold."""
    data = config.data
    if data.get("fold") is not None:
        return ""
    return str(data.get("cv"))


def _with_split_seeds(
    words: list[str], given: Mapping[str, str], config: Any
) -> list[str]:
    """Returns the overrides with the split seeds of `cv_repeats`."""
    # Without folds the check of the job refuses `cv_repeats`.
    if not config.data.get("cv"):
        return words
    repeats = config.cv_repeats
    if repeats <= 1:
        return words
    first = config.data.get("split_seed", 0)
    if given.get(_SPLIT, str(first)) != str(first):
        raise ConfigError(
            f"cv_repeats={repeats} lists split seeds, but so does {_SPLIT}={given[_SPLIT]}. "
            "Leave out cv_repeats, or name the first split seed only."
        )
    return [*_without(_SPLIT, words), _listed(_SPLIT, repeats, first)]


def _as_typed(words: Iterable[str]) -> dict[str, str]:
    """Returns the key of each override -> its value in the last override of the key."""
    pairs = (word.partition("=") for word in words)
    return {key: value for key, _, value in pairs}


def _without(key: str, words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.lstrip("+~").startswith(f"{key}=")]


def _listed(key: str, number: int, first: int = 1) -> str:
    indices = range(first, first + number)
    return f"{key}={','.join(map(str, indices))}"


def swept_settings(jobs: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Returns each setting that differs between the jobs of a sweep -> its values, as typed.

    >>> swept_settings([["model=native", "seed=3", "+model.l2=0"], ["model=random", "seed=3", "+model.l2=1"]])
    {'model': ['native', 'random'], 'model.l2': ['0', '1']}
    """
    values: dict[str, dict[str, None]] = {}
    for overrides in jobs:
        for key, value in _as_typed(overrides).items():
            values.setdefault(key.lstrip("+~"), {})[value] = None
    return {key: list(given) for key, given in values.items() if len(given) > 1}
