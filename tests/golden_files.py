"""Where the tests find the peers' own outputs, which are no part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from paths import ROOT


def golden_file(name: str) -> Path:
    """A file of a peer's own output. The test skips where it is absent."""
    beside_checkout = ROOT.parent / "shared" / "golden"
    path = Path(os.environ.get("LTRBENCH_GOLDEN") or beside_checkout, name)
    if not path.is_file():
        pytest.skip(f"{name} is neither in $LTRBENCH_GOLDEN nor in ../shared/golden")
    return path
