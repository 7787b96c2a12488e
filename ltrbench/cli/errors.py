"""Error output of the command line: one paragraph on standard error, and an exit code that separates user
errors from failed runs."""

from __future__ import annotations

import logging

import click

from ltrbench.errors import LtrbenchError, in_words
from ltrbench.untrusted.escaping import visible

OK, RUN_FAILED, USER_MISTAKE, RUN_INTERRUPTED = 0, 1, 2, 130


def as_paragraph(error: BaseException) -> str:
    """Returns the printed text: the message of a user error, or the type and message of a failure."""
    return visible(_message(error), lines=True)


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return f"error: {error.format_message()}"
    return in_words(error)


class VisibleFormatter(logging.Formatter):
    """Formats log messages with control characters escaped; names in a message may contain them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), lines=True)


def exit_code(error: BaseException) -> int:
    """Returns 2 for an error that the user can fix, 1 for a failed run."""
    return USER_MISTAKE if isinstance(error, LtrbenchError | click.UsageError) else RUN_FAILED
