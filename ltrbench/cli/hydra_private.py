"""The private names of Hydra that ltrbench needs, because Hydra has no public ones for them.

No other file names a private module or a private attribute of Hydra, or of the argparse and the OmegaConf
that Hydra uses.
tests/cli/run/test_hydra_private.py has a test for each name, which fails if a version of Hydra changes it.
"""

from __future__ import annotations

import contextlib
import functools
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra.core.utils
import omegaconf._utils
import yaml  # type: ignore[import-untyped]
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
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
    "composed_once",
    "help_unchecked",
    "read_yaml_in_c",
    "replace_sweeper",
    "write_configs_with",
]


_WRITES_CONFIGS = "_save_config"
"""Name of Hydra's function that writes a file of `.hydra`."""

_LOADER_OF_YAML = "get_yaml_loader"
"""Name of OmegaConf's function that returns the class of its YAML loader."""

_CHECKS_HELP = "_check_help"
"""Name of argparse's check of the help of an argument, which Python 3.14 added."""


_FINDS_MODE = "get_mode"
"""Name of Hydra's method that composes the configuration to read `hydra.mode`; None if it is not set."""


@contextlib.contextmanager
def composed_once() -> Iterator[None]:
    """Lets Hydra compose the configuration of a command with -m once: its mode is known without it."""
    finds_mode = getattr(Hydra, _FINDS_MODE)
    setattr(Hydra, _FINDS_MODE, lambda hydra, config_name, overrides: None)
    try:
        yield
    finally:
        setattr(Hydra, _FINDS_MODE, finds_mode)


@contextlib.contextmanager
def help_unchecked() -> Iterator[None]:
    """Lets Hydra make its parser on Python 3.14, whose argparse refuses the help of --shell-completion.

    That help is an object which becomes a text when it is printed
    (https://github.com/facebookresearch/hydra/issues/3121).
    """
    if not hasattr(ArgumentParser, _CHECKS_HELP):
        yield
        return
    if _CHECKS_HELP in vars(ArgumentParser):  # within another such block
        yield
        return
    setattr(ArgumentParser, _CHECKS_HELP, lambda parser, action: None)
    try:
        yield
    finally:
        # The check itself is inherited.
        delattr(ArgumentParser, _CHECKS_HELP)


def arguments_parser() -> ArgumentParser:
    """Returns the parser of Hydra's command line, whose `overrides` are the words that are no flags."""
    with help_unchecked():
        return get_args_parser()


def read_yaml_in_c() -> None:
    """Makes Hydra and OmegaConf read YAML with libyaml, several times as fast as with PyYAML's own parser.

    A sweep of two models reads 75 files. Nothing changes where PyYAML was built without libyaml.
    """
    if yaml.__with_libyaml__:
        setattr(omegaconf._utils, _LOADER_OF_YAML, _loader_in_c)


_loader_of_omegaconf = getattr(omegaconf._utils, _LOADER_OF_YAML)


@functools.cache
def _loader_in_c() -> type[Any]:
    """Returns OmegaConf's loader, a subclass of `yaml.SafeLoader`, with libyaml in place of the parser."""

    class Loader(yaml.cyaml.CParser, _loader_of_omegaconf()):  # type: ignore[misc]
        def __init__(self, stream: object) -> None:
            yaml.cyaml.CParser.__init__(self, stream)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    return Loader


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
