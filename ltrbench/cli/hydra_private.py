"""The private names of Hydra that ltrbench needs, because Hydra has no public ones for them.

No other file names a private module or a private attribute of Hydra. tests/cli/run/test_hydra_private.py has
a test for each name, which fails if a version of Hydra changes it.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path

import hydra.core.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from omegaconf import DictConfig

# Hydra's first search for plug-ins imports their modules again: a class imported before that search would not
# be the class that Hydra uses.
Plugins.instance()
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402

__all__ = [
    "BasicSweeper",
    "apply_overrides",
    "arguments_parser",
    "replace_sweeper",
    "write_configs_with",
]


_WRITES_CONFIGS = "_save_config"
"""Name of Hydra's function that writes a file of `.hydra`."""


def arguments_parser() -> ArgumentParser:
    """Returns the parser of Hydra's command line, whose `overrides` are the words that are no flags."""
    return get_args_parser()


def replace_sweeper(sweeper: type[BasicSweeper]) -> None:
    """Makes hydra/sweeper=basic another class.

    It is replaced under its old name, because Hydra loads new sweepers only from the package hydra_plugins.
    """
    name = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
    Plugins.instance().class_name_to_class[name] = sweeper


def write_configs_with(write: Callable[[DictConfig, str, Path], None]) -> None:
    """Makes a function write the files of `.hydra`: (configuration, name of the file, folder)."""
    setattr(hydra.core.utils, _WRITES_CONFIGS, write)


def apply_overrides(overrides: Sequence[Override], config: DictConfig) -> None:
    """Sets, adds and deletes values in a composed configuration, as Hydra does after it merged the YAMLs.

    Raises:
        OmegaConfBaseException: There is no such key.
    """
    ConfigLoaderImpl._apply_overrides_to_config([*overrides], config)
