"""The sweeper: Hydra's basic sweeper, extended to check every job before the first one trains.

It runs jobs with the executor of the composed configuration, not with Hydra's launcher.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import Container, DictConfig, ListConfig, Node, OmegaConf, ValueNode, flag_override, open_dict
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.hydra_internals import BasicSweeper, apply_overrides
from ltrbench.config import Config, build_experiment, build_tracker, resolved
from ltrbench.errors import ConfigError, did_you_mean

# ---- Error messages about composing a configuration: Hydra's text in one paragraph.

# Beginnings of lines in Hydra's messages that describe only Hydra's internal state.
_LINES_OF_HYDRA = ("object_type=", "reference_type=", "full_key:", "See https:")


def composition_message(error: BaseException) -> str:
    """Returns the cause of a composition error and its remedy, in one paragraph."""
    text = str(error)
    if message := _missing_key(error, text):
        return message
    if isinstance(error, OverrideParseException):
        return (
            f"the override {error.override} cannot be parsed. Write key=value, close every bracket and "
            "quote, and quote the whole override for the shell, as in 'metrics=[ndcg@10,map]'."
        )
    if isinstance(error, MissingConfigException):
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        choices = [option for option in error.options or () if not option.startswith("_")]
        return f"there is no {group} '{name}'{did_you_mean(name, choices)} Choices: {', '.join(choices)}."
    if error.__cause__ is not None and str(error.__cause__) not in text:
        text = f"{text}\n{error.__cause__}"
    lines = [line.strip().rstrip(".") for line in text.splitlines()]
    return ". ".join(line for line in lines if line and not line.startswith(_LINES_OF_HYDRA)) + "."


def _missing_key(error: BaseException, text: str) -> str | None:
    """Returns the message about a misspelt key, for which Hydra only suggests to add it with +."""
    match = re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text)
    if match is None:
        return None
    parent, _, name = match[1].rpartition(".")
    node = getattr(error.__cause__, "parent_node", None)
    if isinstance(node, DictConfig) and len(node) > 0:
        known = [str(key) for key in node]
    else:
        known = [] if parent else [item.name for item in dataclasses.fields(Config)]
    # The key itself may be correct, and a key above it misspelt.
    missing = re.search(r"Key '([^']+)' (?:not in|is not in)", str(error.__cause__))
    target = node.get("_target_") if isinstance(node, DictConfig) else None
    # A sweep over models sets the key in all of them.
    lacking = f" {str(target).rpartition('.')[2]} has no such setting." if target else ""
    hint = (
        f" To add a parameter of the library itself, write +{match[1]}=VALUE." if ".extra" in parent else ""
    )
    return f"there is no key {match[1]}{did_you_mean(missing[1] if missing else name, known)}{lacking}{hint}"


def unwritable_message(error: OSError) -> str:
    """Returns the message about the folder of a run or a sweep that cannot be created or written."""
    return (
        f"{error.filename} cannot be written ({error.strerror}). Name another folder with hydra.run.dir=... "
        "for a run or hydra.sweep.dir=... for a sweep, or start the command in a writable folder."
    )


# ---- Composes the configurations of a sweep's jobs like Hydra, but fast enough to check hundreds of jobs.
#
# Hydra reads and merges every YAML again for each job. But the merge depends only on the chosen YAMLs; the
# values of a job are set on its result. `Composer` therefore composes each combination of YAMLs once, and
# sets and restores the values of each job.


@dataclass(frozen=True)
class Composed:
    """The configuration of a job without Hydra's node, and config group -> name of the chosen YAML."""

    config: DictConfig
    choices: dict[str, Any]


class Composer:
    """Composes the jobs of one sweep.

    Args:
        loader: the config loader of Hydra.
        master: the configuration with which the sweep was started, including Hydra's node.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader = loader
        self._master = master
        self._name = master.hydra.job.config_name
        self._of_hydra: list[str] = plain_overrides(master.hydra.overrides.hydra)
        self._parser = OverridesParser.create()
        # Cached for the check of the whole sweep, because jobs share overrides and choices.
        self._parse = functools.cache(self._parse_override)
        self._is_group = functools.cache(self._has_yamls)
        self._compose = functools.cache(self._compose_choices)

    @contextlib.contextmanager
    def composed(self, overrides: Sequence[str]) -> Iterator[Composed]:
        """Yields the same configuration as `ConfigLoader.load_sweep_config`. It is valid only inside the
        block.

        Raises:
            HydraException: The overrides do not compose, as with `load_sweep_config`.
        """
        parsed = [self._parse(line) for line in overrides]
        choices = tuple(line for line, (_, chooses) in zip(overrides, parsed, strict=True) if chooses)
        chosen = self._compose(choices)
        with _values_set(chosen.config, [override for override, chooses in parsed if not chooses]) as config:
            OmegaConf.copy_cache(from_config=self._master, to_config=config)
            yield Composed(config, chosen.choices)

    def _parse_override(self, line: str) -> tuple[Override, bool]:
        """Returns the override, and whether it chooses a YAML or belongs to Hydra; the others set a value."""
        (override,) = self._parser.parse_overrides([line])
        if override.is_sweep_override() or override.is_hydra_override():
            return override, True
        return override, not isinstance(override.value(), dict) and self._is_group(override.key_or_group)

    def _has_yamls(self, key: str) -> bool:
        return bool(self._loader.get_group_options(key, None, self._name, self._of_hydra))

    def _compose_choices(self, choices: tuple[str, ...]) -> Composed:
        config = self._loader.load_configuration(self._name, [*self._of_hydra, *choices], RunMode.RUN)
        chosen = dict(config.hydra.runtime.choices)
        with flag_override(config, ["readonly", "struct"], False):
            del config["hydra"]
        return Composed(config, chosen)


def plain_overrides(overrides: ListConfig) -> list[str]:
    """Returns the overrides as typed, with interpolations unresolved."""
    lines = OmegaConf.to_container(overrides, resolve=False)
    assert isinstance(lines, list)
    return lines


@contextlib.contextmanager
def _values_set(config: DictConfig, overrides: list[Override]) -> Iterator[DictConfig]:
    """Yields the configuration with the values of the overrides set.

    If the overrides only replace plain values, they are set on `config` itself and restored after the block,
    because copying it takes longer than checking the job. Otherwise a copy is changed.
    """
    before = [_value_to_replace(config, override) for override in overrides]
    replaced = [value for value in before if value is not None]
    shared = len(replaced) == len(before)
    target = config if shared else copy.deepcopy(config)
    try:
        _set_values(target, overrides)
        yield target
    finally:
        for key, value in reversed(replaced) if shared else ():
            OmegaConf.update(config, key, value)


def _set_values(config: DictConfig, overrides: list[Override]) -> None:
    try:
        apply_overrides(overrides, config)
    except OmegaConfBaseException as error:
        # The same conversion as in load_configuration, whose callers handle only Hydra's errors.
        raise ConfigCompositionException from error


def _value_to_replace(config: DictConfig, override: Override) -> tuple[str, Any] | None:
    """Returns (key, uninterpolated value) if the override replaces one plain value by another, else None."""
    if override.type is not OverrideType.CHANGE or isinstance(override.value(), dict | list):
        return None
    path, _, name = override.key_or_group.rpartition(".")
    try:
        parent = OmegaConf.select(config, path) if path else config
        node = parent._get_node(name) if isinstance(parent, DictConfig) else None
    except OmegaConfBaseException:
        return None
    return (override.key_or_group, node._value()) if isinstance(node, ValueNode) else None


# ---- Rejects keys that nothing reads, because a setting without effect silently makes a comparison wrong.

# hydra/env is a config group of Hydra, but not a field of its HydraConf.
_UNTYPED_KEYS_OF_HYDRA = ("env",)

# `study` is a plain dict; `run_study` reads these keys.
_STUDY_KEYS = ("what", "models", "data")


def check_keys(config: DictConfig, hydra: DictConfig) -> None:
    """Rejects a key that nothing reads, and the deletion of a key that is read.

    `+key=value` adds a key to any node, whatever the type of the node. `build` checks the keys of a model, a
    data set or a tracker against the fields of its class; this function checks all other keys. A key counts
    as read if an interpolation names it.

    Args:
        config: the configuration of a job, without Hydra's node.
        hydra: Hydra's node, whose interpolations also read keys of the job.

    Raises:
        ConfigError: A key is not read, or was deleted. The message suggests the closest known key.
    """
    nodes = (config, hydra)
    for path, kind, keys in (*_typed_nodes(config, ""), *_typed_nodes(hydra, "hydra.")):
        known = [item.name for item in dataclasses.fields(kind)]
        for key in set(keys).difference(known, _UNTYPED_KEYS_OF_HYDRA):
            if not any(_reads(node, f"{path}{key}") for node in nodes):
                raise ConfigError(_unread(path, key, known))
        # Hydra itself deletes keys of its node that it no longer needs.
        for key in set(known).difference(keys) if not path.startswith("hydra.") else ():
            raise ConfigError(f"{path}{key} was deleted, but it is required; leave out ~{path}{key}.")
    for key in set(config.study or ()).difference(_STUDY_KEYS):
        raise ConfigError(_unread("study.", str(key), _STUDY_KEYS))


def _unread(path: str, key: str, known: Iterable[str]) -> str:
    """Returns the error message about a key that nothing reads."""
    extra = ", or set a parameter of the library with +model.extra.NAME=VALUE" if path == "params." else ""
    return f"{path}{key} is set, but nothing reads it{did_you_mean(key, known)} Leave it out{extra}."


def _typed_nodes(node: DictConfig, path: str) -> Iterator[tuple[str, type[Any], list[str]]]:
    """Yields (path with its final dot, dataclass, keys) of a node and of all nodes below it with a
    dataclass."""
    kind = OmegaConf.get_type(node)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    yield path, kind, [str(key) for key in iter(node)]
    for key, item in node.items_ex(resolve=False):
        if isinstance(item, DictConfig) and not _is_special(item):
            yield from _typed_nodes(item, f"{path}{key!s}.")


def _is_special(node: Container) -> bool:
    """Returns whether a node has no items: it is null, missing, or an interpolation."""
    return node._is_none() or node._is_missing() or node._is_interpolation()


def _reads(node: Any, name: str) -> bool:
    """Returns whether an interpolation in or below the node names the key, absolutely or relatively."""
    if isinstance(node, DictConfig | ListConfig) and not _is_special(node):
        keys: Iterable[Any] = node if isinstance(node, DictConfig) else range(len(node))
        return any(_reads(node._get_node(key), name) for key in keys)
    value = node._value() if isinstance(node, Node) else None
    if not (isinstance(value, str) and "${" in value):
        return False
    last = re.escape(name.rpartition(".")[2])
    return re.search(rf"(?<![\w.])({re.escape(name)}|\.+{last})(?!\w)", value) is not None


RESAMPLE = "replicates.index"
"""The setting that chooses a resample."""

_FOLD, _ALL_FOLDS = "data.fold", "data.fold=all"

_NUMBERED = "${hydra.job.num}"
"""Hydra's default for hydra.sweep.subdir."""

_LAUNCHERS = ("basic", None)


@dataclass(frozen=True)
class ComposedJob:
    """A job of a sweep, checked.

    Attributes:
        choices: config group -> name of the chosen YAML.
        settings: the resolved configuration.
    """

    overrides: tuple[str, ...]
    choices: dict[str, Any]
    settings: dict[str, Any]


@dataclass(frozen=True)
class ComposedSweep:
    """A sweep, checked.

    Attributes:
        folder: folder of the sweep.
        master: the configuration with which the sweep was started, including Hydra's node.
        folder_of: (overrides, number) -> folder of a job, relative to the folder of the sweep.
    """

    folder: Path
    jobs: list[ComposedJob]
    master: DictConfig
    folder_of: Callable[[Sequence[str], int], str]


RunSweep = Callable[[ComposedSweep], None]


class CheckedSweeper(BasicSweeper):
    """Checks all jobs first, so that a mistyped value in the last job does not fail after hours of
    training."""

    # Set by `register_sweeper`, because Hydra creates the sweeper itself.
    run: ClassVar[staticmethod[[ComposedSweep], None]]

    def sweep(self, arguments: list[str]) -> Any:
        """Checks all jobs, then runs them.

        Adds all folds of `cv` unless the command chooses folds, replaces `data.fold=all` by all folds of the
        data set, and adds all resamples of `replicates` unless the command or the experiment chooses one.

        Raises:
            LtrbenchError, HydraException: The first invalid job, or the folder, has an error.
        """
        # Hydra sets these before a sweep; asserted for the type checker.
        assert self.hydra_context is not None
        assert self.config is not None
        self._check_launching()
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        words = [*self._parse_config(), *with_folds(arguments)]
        if _chooses_all_folds(words):
            _check_one_data_set(parser.parse_overrides(words))
        words = with_all_folds(words, num_folds_of(self.config.data))
        replicates = self.config.replicates
        if replicates is not None and replicates.index is None:
            words = with_resamples(words, replicates.number)
        (jobs,) = self.split_arguments(parser.parse_overrides(words), None) or [[]]
        if not jobs:
            raise ConfigError(
                "the sweep has no job: a glob pattern in it, as in model=glob(native*), matches no YAML. "
                "Change the pattern, or list the names, as in model=native,lightgbm."
            )
        folder = Path(self.config.hydra.sweep.dir)
        self.run(ComposedSweep(folder, self.composed(jobs), self.config, self._folder_of))

    def _check_launching(self) -> None:
        """Raises ConfigError for settings of Hydra's launcher and sweeper, which have no effect here."""
        assert self.config is not None
        launcher = self.config.hydra.runtime.choices.get("hydra/launcher")
        if launcher not in _LAUNCHERS:
            raise ConfigError(
                f"hydra/launcher={launcher} has no effect, because executors run the jobs. Set "
                "executor=processes, or executor=dask for a cluster."
            )
        if self.max_batch_size is not None:
            raise ConfigError(
                f"hydra.sweeper.max_batch_size is {self.max_batch_size}, which has no effect, because "
                "executors run the jobs. Leave it out; executor.workers limits the jobs at the same time."
            )

    def composed(self, jobs: Sequence[Sequence[str]]) -> list[ComposedJob]:
        """Composes each job, and builds its experiment and tracker.

        Raises:
            ConfigError, HydraException: The first invalid job has an error.
        """
        assert self.hydra_context is not None
        assert self.config is not None
        composer, composed_jobs = Composer(self.hydra_context.config_loader, self.config), []
        is_hidden = self.config.progress == "none"
        with click.progressbar(jobs, label="checking jobs", file=sys.stderr, hidden=is_hidden) as checked:
            for overrides in checked:
                with composer.composed(overrides) as job:
                    check_keys(job.config, self.config.hydra)
                    settings = resolved(job.config)
                build_experiment(settings, job.choices, tuple(overrides), None)
                build_tracker(settings)
                composed_jobs.append(ComposedJob(tuple(overrides), job.choices, settings))
        return composed_jobs

    def _folder_of(self, overrides: Sequence[str], number: int) -> str:
        """Returns hydra.sweep.subdir of a job."""
        assert self.hydra_context is not None
        assert self.config is not None
        node = self.config.hydra.sweep._get_node("subdir")
        if isinstance(node, Node) and node._value() == _NUMBERED:
            return str(number)
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return str(config.hydra.sweep.subdir)


def with_folds(arguments: list[str]) -> list[str]:
    """Returns the overrides, with all folds added if they set `cv` and do not choose folds.

    >>> with_folds(["data=letor", "cv=3"])
    ['data=letor', 'cv=3', 'data.fold=1,2,3']
    >>> with_folds(["cv=3", "data.fold=2"])
    ['cv=3', 'data.fold=2']
    """
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    num_folds = given.get("cv", "")
    # An invalid number of folds is reported by the check of the job.
    if "data.fold" in given or not num_folds.isdecimal() or int(num_folds) < 2:
        return arguments
    return [*arguments, "data.fold=" + ",".join(str(fold) for fold in range(1, int(num_folds) + 1))]


def with_all_folds(words: list[str], num_folds: int | None) -> list[str]:
    """Returns the overrides with `data.fold=all` replaced by all folds, or left out if there are none.

    The last override of data.fold applies, so that a command line can choose folds of an experiment.

    >>> with_all_folds(["data.fold=all", "data=mq2008"], 3)
    ['data=mq2008', 'data.fold=1,2,3']
    >>> with_all_folds(["data.fold=all", "data=yahoo_set1"], None)
    ['data=yahoo_set1']
    >>> with_all_folds(["data.fold=all", "data.fold=2"], 3)
    ['data.fold=2']
    """
    if _ALL_FOLDS not in words:
        return words
    if not _chooses_all_folds(words):
        return [word for word in words if word != _ALL_FOLDS]
    others = [word for word in words if _key(word) != _FOLD]
    if num_folds is None:
        return others
    return [*others, f"{_FOLD}=" + ",".join(str(fold) for fold in range(1, num_folds + 1))]


def _chooses_all_folds(words: Sequence[str]) -> bool:
    return [word for word in words if _key(word) == _FOLD][-1:] == [_ALL_FOLDS]


def num_folds_of(data: Mapping[str, Any]) -> int | None:
    """Returns the number of cross-validation or published folds of a data set; None if it has no folds."""
    return data.get("cv") or data.get("num_folds")


def _check_one_data_set(overrides: Sequence[Override]) -> None:
    """Raises ConfigError if the sweep has several data sets, whose numbers of folds may differ."""
    for override in overrides:
        if override.key_or_group == "data" and override.is_sweep_override():
            raise ConfigError(
                f"{_ALL_FOLDS} needs one data set, but the sweep has {override.input_line}. Name one data "
                f"set, or list the folds, as in {_FOLD}=1,2,3."
            )


def with_resamples(arguments: list[str], number: int | None) -> list[str]:
    """Returns the overrides, with all `number` resamples added if they do not choose one.

    >>> with_resamples(["model=native"], 3)
    ['model=native', 'replicates.index=1,2,3']
    >>> with_resamples(["replicates.index=2"], 3)
    ['replicates.index=2']
    """
    # An invalid number of resamples is reported by the check of the job.
    if number is None or number < 2 or any(_key(argument) == RESAMPLE for argument in arguments):
        return arguments
    return [*arguments, f"{RESAMPLE}=" + ",".join(str(index) for index in range(1, number + 1))]


def _key(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~")


def swept_settings(
    params: Mapping[str, object] | None,
    arguments: list[str],
    num_resamples: int | None = None,
    num_folds: int | None = None,
) -> dict[str, list[str]]:
    """Returns each setting that differs between the jobs of a sweep -> its values, as typed.

    Args:
        params: hydra.sweeper.params of the experiment; the command line overrides it.
        arguments: the overrides of the command line.
        num_resamples: number of resamples that the sweep runs over; None: none.
        num_folds: number of folds of the data set; None: it has no folds.

    >>> swept_settings({"model": "native,lightgbm", "seed": "1,2"}, ["seed=3", "+params.l2=choice(0,1)"])
    {'model': ['native', 'lightgbm'], 'params.l2': ['0', '1']}
    """
    words = [*(f"{key}={value}" for key, value in (params or {}).items()), *with_folds(arguments)]
    words = with_resamples(with_all_folds(words, num_folds), num_resamples)
    # The loader resolves the names of a glob, as in model=glob(native_*).
    hydra = GlobalHydra.instance()
    parser = OverridesParser.create(hydra.config_loader() if hydra.is_initialized() else None)
    last = {override.get_key_element().lstrip("+~"): override for override in parser.parse_overrides(words)}
    return {key: _values(override) for key, override in last.items() if override.is_sweep_override()}


def _values(override: Override) -> list[str]:
    if override.is_discrete_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    # A continuous range, from which other sweepers sample.
    return [(override.input_line or "").partition("=")[2]]


def register_sweeper(run: RunSweep) -> None:
    """Replaces Hydra's basic sweeper by CheckedSweeper; other sweepers can still be chosen.

    The class is replaced under its old name, because Hydra loads new sweepers only from the package
    hydra_plugins.

    Args:
        run: runs the jobs, after all of them have been checked.
    """
    CheckedSweeper.run = staticmethod(run)
    basic = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
    Plugins.instance().class_name_to_class[basic] = CheckedSweeper
