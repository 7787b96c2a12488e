"""Where the tests find the peers' own outputs, which are no part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from paths import ROOT


def golden_file(name: str) -> Path:
    """A file of a peer's own output. The test skips where it is absent."""
    path = _golden(name)
    if not path.is_file():
        pytest.skip(f"{name} is neither in $LTRBENCH_GOLDEN nor in ../shared/golden")
    return path


def golden_names(folder: str, pattern: str) -> list[str]:
    """Names of the files of a folder; one name of no file, whose test skips, where the folder is absent."""
    return sorted(path.name for path in _golden(folder).glob(pattern)) or [pattern]


def _golden(name: str) -> Path:
    beside_checkout = ROOT.parent / "shared" / "golden"
    return Path(os.environ.get("LTRBENCH_GOLDEN") or beside_checkout, name)
