"""The types of readers' options, checked before anything is read: `sort_queries="no"` would else be true."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from pathlib import Path

from ltrbench.errors import ConfigError, DataError


def as_paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files of one split.

    Raises:
        DataError: where there is none, or one twice.
    """
    paths = [Path(given)] if isinstance(given, (str, Path)) else [Path(path) for path in given]
    if not paths:
        raise DataError("path: names no file; give one, or several that are one split.")
    files = [path.resolve() for path in paths]
    twice = next((path for path, file in zip(paths, files, strict=True) if files.count(file) > 1), None)
    if twice is not None:
        raise DataError(f"{twice}: stands twice among the files of one split; name each file once.")
    return paths


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
