"""Gives the process of pytest, and those that it starts, a temporary folder of their own.

ltrbench looks there for jobs that run at the same time. Tests run in several processes; without this, the
times of their runs would be left out of tables. The folders of `tmp_path` stay where they were.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile


@functools.cache
def use_own_temporary_folder() -> None:
    """Sets $TMPDIR to a new folder, which is removed when this process ends."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="ltrbench-")
    tempfile.tempdir = None  # is read from $TMPDIR again
    atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)
