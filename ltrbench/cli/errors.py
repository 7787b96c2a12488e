"""How the command line speaks of errors: one paragraph on standard error, and an exit code that tells whose
it is."""

from __future__ import annotations

import logging
import os

import click

from ltrbench.errors import LtrbenchError
from ltrbench.untrusted.escaping import visible

OK, RUN_FAILED, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130


def as_paragraph(error: BaseException) -> str:
    """What a person reads: the message of a mistake, or the kind of a failure with its message."""
    return visible(_message(error), lines=True)


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return f"error: {error.format_message()}"
    if isinstance(error, LtrbenchError):
        return f"error: {error}"
    remedy = "" if debugging() else " (LTRBENCH_DEBUG=1 shows the traceback)"
    return f"failed: {type(error).__name__}: {error}{remedy}"


class VisibleFormatter(logging.Formatter):
    """Log messages without control characters, which names in them may hold."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), lines=True)


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("LTRBENCH_DEBUG") == "1"


def exit_code(error: BaseException) -> int:
    """2 for a mistake that the user can mend, 1 for a failed run."""
    return USER_MISTAKE if isinstance(error, LtrbenchError | click.UsageError) else RUN_FAILED
