"""Importing a module that the user names: a backend's, a data source's, or a plug-in with metrics."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def search_current_folder() -> None:
    """Makes the modules in the current folder importable, also after the process has changed its folder."""
    # `python -m` has the current folder on the path already; an installed entry point does not.
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)


def import_user_module(name: str) -> ModuleType:
    """Imports a module, which may be in the current folder or installed."""
    search_current_folder()
    return importlib.import_module(name)
