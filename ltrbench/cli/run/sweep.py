"""The sweeper: Hydra's basic sweeper, extended to check every job before the first one trains."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

from ltrbench.cli.hydra_internals import BasicSweeper
from ltrbench.cli.run.composing import Composer
from ltrbench.cli.run.continuing import SWEEP_FILE
from ltrbench.cli.run.keys import check_keys
from ltrbench.cli.run.progress import counting
from ltrbench.config import build_experiment, build_tracker
from ltrbench.errors import ConfigError
from ltrbench.results.overrides import Overrides

Begin = Callable[[Path, Sequence[Sequence[str]]], Mapping[int, Overrides]]
"""(folder of a sweep, overrides of its jobs) -> job number -> overrides."""

RESAMPLE = "replicates.index"
"""The setting that chooses a resample."""


class CheckedSweeper(BasicSweeper):
    """Checks all jobs first, so that a mistyped value in the last job does not fail after hours of
    training."""

    # Set by `register_sweeper`, because Hydra creates the sweeper itself.
    begin: ClassVar[staticmethod[[Path, Sequence[Sequence[str]]], Mapping[int, Overrides]]]

    def sweep(self, arguments: list[str]) -> Any:
        """Checks all jobs, then runs them.

        Adds all folds of `cv` unless the command chooses folds, and all resamples of `replicates` unless the
        command or the experiment chooses one.

        Raises:
            LtrbenchError, HydraException: The first invalid job, or the folder, has an error.
        """
        # Hydra sets these before a sweep; asserted for the type checker.
        assert self.hydra_context is not None
        assert self.config is not None
        assert self.launcher is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        words = [*self._parse_config(), *with_folds(arguments)]
        replicates = self.config.replicates
        if replicates is not None and replicates.index is None:
            words = with_resamples(words, replicates.number)
        overrides = parser.parse_overrides(words)
        if self.max_batch_size is not None and self.max_batch_size < 1:
            raise ConfigError(
                f"hydra.sweeper.max_batch_size is {self.max_batch_size}; it must be 1 or more, or null for "
                "no limit."
            )
        (jobs,) = self.split_arguments(overrides, None) or [[]]
        if not jobs:
            raise ConfigError(
                "the sweep has no job: a glob pattern in it, as in model=glob(native*), matches no YAML. "
                "Change the pattern, or list the names, as in model=native,lightgbm."
            )
        self.validate_batch_is_legal(jobs)
        folder = Path(self.config.hydra.sweep.dir)
        numbered = self.begin(folder, jobs)
        self._keep_settings(folder, min(numbered))
        returned = []
        for first, batch in _batches(numbered, self.max_batch_size):
            results = self.launcher.launch(batch, initial_job_idx=first)
            for result in results:
                # Raises the exception of the job, if any.
                _ = result.return_value
            returned.append(results)
        return returned

    def _keep_settings(self, folder: Path, first: int) -> None:
        """Saves the settings of the sweep like Hydra, without overwriting those of an earlier command."""
        earlier = (folder / SWEEP_FILE).exists()
        OmegaConf.save(self.config, folder / (f"multirun-{first}.yaml" if earlier else SWEEP_FILE))

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Composes and builds the experiment of each job.

        Raises:
            ConfigError, HydraException: The first invalid job has an error.
        """
        assert self.hydra_context is not None
        assert self.config is not None
        composer = Composer(self.hydra_context.config_loader, self.config)
        with counting("checking jobs", len(batch)) as on_count:
            for number, overrides in enumerate(batch, start=1):
                with composer.composed(overrides) as job:
                    check_keys(job.config, self.config.hydra)
                    build_experiment(job.config, job.choices, tuple(overrides), None)
                    build_tracker(job.config)
                    on_count(number, job.config.progress)


def _batches(
    numbered: Mapping[int, Overrides], max_batch_size: int | None
) -> Iterator[tuple[int, list[Overrides]]]:
    """Yields (first job number, overrides) of each batch of a launcher; numbers in a batch are
    consecutive."""
    # The difference between number and position is constant over consecutive numbers.
    places = enumerate(numbered.items())
    for _, group in itertools.groupby(places, key=lambda item: item[1][0] - item[0]):
        jobs = [job for _, job in group]
        size = max_batch_size or len(jobs)
        for start in range(0, len(jobs), size):
            yield jobs[start][0], [overrides for _, overrides in jobs[start : start + size]]


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
    params: Mapping[str, object] | None, arguments: list[str], num_resamples: int | None = None
) -> dict[str, list[str]]:
    """Returns each setting that differs between the jobs of a sweep -> its values, as typed.

    Args:
        params: hydra.sweeper.params of the experiment; the command line overrides it.
        arguments: the overrides of the command line.
        num_resamples: number of resamples that the sweep runs over; None: none.

    >>> swept_settings({"model": "native,lightgbm", "seed": "1,2"}, ["seed=3", "+params.l2=choice(0,1)"])
    {'model': ['native', 'lightgbm'], 'params.l2': ['0', '1']}
    """
    words = [*(f"{key}={value}" for key, value in (params or {}).items()), *with_folds(arguments)]
    words = with_resamples(words, num_resamples)
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


def register_sweeper(begin: Begin) -> None:
    """Replaces Hydra's basic sweeper by CheckedSweeper; other sweepers can still be chosen.

    The class is replaced under its old name, because Hydra loads new sweepers only from the package
    hydra_plugins.

    Args:
        begin: called with all jobs after their check and before the first one runs.
    """
    CheckedSweeper.begin = staticmethod(begin)
    basic = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
    Plugins.instance().class_name_to_class[basic] = CheckedSweeper
