"""Imports modules that the user names: a backend, a data source, or a plug-in with metrics."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def search_current_folder() -> None:
    """Adds the current folder to the import path, where it stays after the process changes its folder."""
    # `python -m` puts the current folder on the path; an installed entry point does not.
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)


def import_user_module(name: str) -> ModuleType:
    """Imports an installed module or a module in the current folder."""
    search_current_folder()
    return importlib.import_module(name)
