"""The sweeper: Hydra's basic one, which checks every job of a sweep before the first one trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from omegaconf import flag_override

from ltrbench.config import build_experiment, build_tracker

# Hydra's first look for plug-ins loads their modules anew: a class imported before it would not be Hydra's
# own.
Plugins.instance()
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402


class CheckedSweeper(BasicSweeper):
    """Hours into a sweep is no time to learn of a mistyped value in its last job."""

    def sweep(self, arguments: list[str]) -> Any:
        """Sweeps over the folds of `cv` as well, where the command line names none."""
        return super().sweep(with_folds(arguments))

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Composes and builds the experiment of each job.

        Raises:
            ConfigError, HydraException: what is wrong with the first job that is.
        """
        # Hydra's setup has set both before a sweep; said here for the type checker.
        assert self.hydra_context is not None
        assert self.config is not None
        loader = self.hydra_context.config_loader
        for overrides in batch:
            config = loader.load_sweep_config(self.config, list(overrides))
            choices = dict(config.hydra.runtime.choices)
            # A job sees its configuration without Hydra's own node, and so does its check.
            with flag_override(config, ["readonly", "struct"], False):
                del config["hydra"]
            build_experiment(config, choices, tuple(overrides), None)
            build_tracker(config)


def with_folds(arguments: list[str]) -> list[str]:
    """The overrides, with every fold where they ask for cross-validation and do not choose folds.

    >>> with_folds(["data=letor", "cv=3"])
    ['data=letor', 'cv=3', 'data.fold=1,2,3']
    >>> with_folds(["cv=3", "data.fold=2"])
    ['cv=3', 'data.fold=2']
    """
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    num_folds = given.get("cv", "")
    if "data.fold" in given or not num_folds.isdecimal():
        return arguments
    return [*arguments, "data.fold=" + ",".join(str(fold) for fold in range(1, int(num_folds) + 1))]


def swept_settings(params: Mapping[str, object] | None, arguments: list[str]) -> dict[str, list[str]]:
    """The settings in which the jobs of a sweep differ -> their values, as the command line spells them.

    Args:
        params: what hydra.sweeper.params of the experiment sweeps over; the command line goes before it.

    >>> swept_settings({"model": "native,lightgbm", "seed": "1,2"}, ["seed=3", "+params.l2=choice(0,1)"])
    {'model': ['native', 'lightgbm'], 'params.l2': ['0', '1']}
    """
    words = [*(f"{key}={value}" for key, value in (params or {}).items()), *with_folds(arguments)]
    # Hydra's loader is asked for the names of a glob, as in model=glob(native_*).
    hydra = GlobalHydra.instance()
    parser = OverridesParser.create(hydra.config_loader() if hydra.is_initialized() else None)
    last = {override.get_key_element().lstrip("+~"): override for override in parser.parse_overrides(words)}
    return {key: _values(override) for key, override in last.items() if override.is_sweep_override()}


def _values(override: Override) -> list[str]:
    if override.is_discrete_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    # A range without steps, which other sweepers draw from.
    return [(override.input_line or "").partition("=")[2]]


def register_sweeper() -> None:
    """Puts CheckedSweeper in the place of Hydra's basic sweeper; other sweepers can be chosen as before.

    Hydra takes a sweeper of another name from the package hydra_plugins only.
    """
    basic = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
    Plugins.instance().class_name_to_class[basic] = CheckedSweeper
