"""Imports modules that the user names: a backend, a data source, or a plug-in with metrics."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_only: Path | None = None


def search_current_folder() -> None:
    """Adds the current folder to the import path, where it stays after the process changes its folder.

    Inside `searching_only`, adds nothing.
    """
    # `python -m` puts the current folder on the path; an installed entry point does not.
    here = str(Path.cwd())
    if _only is None and not {"", here} & set(sys.path):
        sys.path.insert(0, here)


@contextlib.contextmanager
def searching_only(folder: Path) -> Iterator[None]:
    """Adds a folder to the import path; inside the block the current folder is not searched.

    For a process that changes into a folder that a file names: no code may be loaded from there.
    """
    global _only
    before, _only = _only, folder
    sys.path[:] = [str(folder) if path == "" else path for path in sys.path]
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        _only = before


def modules_folder() -> Path:
    """Returns the folder that is searched for modules of the user."""
    return Path.cwd() if _only is None else _only


def import_user_module(name: str) -> ModuleType:
    """Imports an installed module or a module in the current folder."""
    search_current_folder()
    return importlib.import_module(name)
