"""The sweeper: Hydra's basic sweeper, extended to check every job before the first one trains.

It runs jobs with the executor of the composed configuration, not with Hydra's launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, Node, open_dict

from ltrbench.cli.hydra_internals import BasicSweeper
from ltrbench.cli.jobs.progress import counting
from ltrbench.cli.run.composing import Composer
from ltrbench.cli.run.keys import check_keys
from ltrbench.cli.run.messages import launcher_message
from ltrbench.config import build_experiment, build_tracker, resolved
from ltrbench.errors import ConfigError

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
            raise ConfigError(launcher_message(launcher))
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
        with counting("checking jobs", len(jobs)) as on_count:
            for number, overrides in enumerate(jobs, start=1):
                with composer.composed(overrides) as job:
                    check_keys(job.config, self.config.hydra)
                    settings = resolved(job.config)
                build_experiment(settings, job.choices, tuple(overrides), None)
                build_tracker(settings)
                composed_jobs.append(ComposedJob(tuple(overrides), job.choices, settings))
                on_count(number, settings["progress"])
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
