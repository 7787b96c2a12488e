"""How this process was called, so that help and messages show commands as the user types them."""

from __future__ import annotations

import sys
from pathlib import Path

MODULE = "python -m ltrbench"
"""The call that works wherever the package does; records and documentation use it."""

SCRIPT = "ltrbench"
"""The console script of pyproject.toml."""

COMPLETING = "_LTRBENCH_COMPLETE"
"""The variable that a shell sets when it asks for the words that may stand at the cursor."""


def program() -> str:
    """`ltrbench` in the console script, else `python -m ltrbench`."""
    return SCRIPT if Path(sys.argv[0]).stem == SCRIPT else MODULE


def as_called(text: str) -> str:
    """The text with its commands as this process was called."""
    return text.replace(MODULE, program())
