"""Importing a module that the user names: a backend's, a data source's, or a plug-in with metrics."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def import_user_module(name: str) -> ModuleType:
    """Imports a module, which may be in the current folder or installed."""
    # `python -m` has the current folder on the path already; an installed entry point does not.
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)
    return importlib.import_module(name)
