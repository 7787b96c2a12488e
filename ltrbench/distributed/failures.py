"""The error of a failed member; how a process ended, in words; exceptions that travel between processes.

Imports neither Dask nor a numerical library: a worker of a sweep imports it before its cores are set.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback

from ltrbench.errors import LtrbenchError


class MemberError(LtrbenchError):
    """Member of a distributed fit that failed, ended, did not begin or cannot be reached any more."""


def exit_in_words(exit_code: int) -> str:
    """Returns the end of a process in words.

    >>> exit_in_words(3), exit_in_words(-signal.SIGSEGV)
    ('ended with exit code 3', 'was killed by SIGSEGV')
    """
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal
        name = f"signal {-exit_code}"
    cause = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{cause}"


def portable(error: BaseException) -> BaseException:
    """Returns an exception that can be pickled, with the traceback of this process as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
    # Whatever the methods of a foreign exception raise, its text can be kept.
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"In the worker process {os.getpid()}:\n{trace}")
    return copy
