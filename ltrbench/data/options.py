"""The types of readers' options, checked before anything is read: `sort_queries="no"` would else be true."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

from ltrbench.errors import ConfigError


def check_switch(name: str, value: object) -> None:
    """Raises ConfigError where an option that is on or off is something else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it must be true or false.")


def check_whole(name: str, value: object) -> None:
    """Raises ConfigError where an option is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name} is {value!r}; it must be a whole number.")


def check_names(name: str, value: object) -> None:
    """Raises ConfigError where an option is not a list of names; a text alone would be one of letters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} is {value!r}; it must be a list of names, as in [bm25,clicks].")
