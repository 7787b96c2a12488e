"""The version of the installed package, for modules below the package's public names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ltrbench")
except PackageNotFoundError:  # a plain checkout on the path, never installed
    __version__ = "0+checkout"
