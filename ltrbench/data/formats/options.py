"""Type checks of reader options, before any file is read: `sort_queries="no"` would otherwise be true."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from pathlib import Path

from ltrbench.errors import ConfigError, DataError


def as_paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Returns the paths of one split.

    Raises:
        DataError: The list is empty, or names a file twice.
    """
    paths = [Path(given)] if isinstance(given, (str, Path)) else [Path(path) for path in given]
    if not paths:
        raise DataError("path: the list is empty; pass one file, or several files that form one split.")
    files = [path.resolve() for path in paths]
    twice = next((path for path, file in zip(paths, files, strict=True) if files.count(file) > 1), None)
    if twice is not None:
        raise DataError(f"{twice}: this file is listed twice in one split; list each file once.")
    return paths


def check_switch(name: str, value: object) -> None:
    """Raises ConfigError if a Boolean option has another type."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it must be true or false.")


def check_whole(name: str, value: object) -> None:
    """Raises ConfigError if an option is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name} is {value!r}; it must be a whole number.")


def check_names(name: str, value: object) -> None:
    """Raises ConfigError if an option is not a list of names; a string would be read as a list of letters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} is {value!r}; it must be a list of names, such as [bm25,clicks].")
