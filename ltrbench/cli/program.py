"""The name under which this process was called, so that help and messages show commands as the user types
them."""

from __future__ import annotations

import sys
from pathlib import Path

MODULE = "python -m ltrbench"
"""The call that works in every installation; result files and documentation use it."""

SCRIPT = "ltrbench"
"""The console script of pyproject.toml."""

COMPLETING = "_LTRBENCH_COMPLETE"
"""Environment variable that a shell sets to request completion candidates."""


def program() -> str:
    """Returns `ltrbench` in the console script, else `python -m ltrbench`."""
    return SCRIPT if Path(sys.argv[0]).stem == SCRIPT else MODULE


def as_called(text: str) -> str:
    """Returns the text with each `python -m ltrbench` replaced by `program()`."""
    return text.replace(MODULE, program())
