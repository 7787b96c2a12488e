"""Errors of the disk in the words of a user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ltrbench.disk import DISK_REMEDIES
from ltrbench.errors import ResultError


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns an error of the disk in the block into a message with the folder and the remedy.

    Raises:
        ResultError: The folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0)
        if remedy is None:  # such as an error in `save` of a user's class
            raise
        raise ResultError(
            f"{folder} cannot be written: {error.strerror}. {remedy}, or choose another folder, and run the "
            "command again; no model and no scores were saved."
        ) from error
