"""Detection of other jobs of ltrbench on this machine; times that are measured next to them are unreliable.

Every job has a file in a private folder, one per user and machine, below the system's temporary folder. The
file is locked while the job runs. The kernel releases the lock when the process dies, and the next job
removes a file without a lock. A job that starts appends a byte to the file of every other running job, so
that both notice the overlap, whichever ends first.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote

if sys.platform != "win32":
    import fcntl

_ATTEMPTS = 100
"""Attempts to create the file of a job. A job that starts in the same microseconds may see the file before it
is locked, and remove it as the file of a dead process."""


class Neighbours:
    """Whether another job of ltrbench ran on this machine during a `with` block.

    Jobs are blocks of this kind, in any thread or process of this user that has the same temporary folder
    ($TMPDIR). Jobs of other users and in other containers are not detected. If the folder cannot be used, or
    the system has no `flock`, no job is detected.

    >>> with Neighbours() as first, Neighbours() as second:
    ...     pass
    >>> first.seen, second.seen
    (True, True)
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._opened = contextlib.ExitStack()
        self._seen = False

    @property
    def seen(self) -> bool:
        """Whether another job has run since the start of the block; after the block: during the block."""
        if self._file is not None and os.fstat(self._file.fileno()).st_size > 0:
            self._seen = True
        return self._seen

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            folder = opened.enter_context(_folder_of_jobs())
            name, file = opened.enter_context(_file_of_job(folder))
            # After the file is there: of two jobs that start together, at least one sees the other's file.
            self._seen = _notify_others(folder, name)
            self._file, self._opened = file, opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seen = self.seen
        self._file = None
        self._opened.close()


@contextlib.contextmanager
def _folder_of_jobs() -> Iterator[int]:
    """Opens the folder of this user and machine; raises OSError if it is not a private folder of the user."""
    if sys.platform == "win32":
        raise OSError("this system has no flock")
    user, machine = os.getuid(), quote(platform.node(), safe="")
    path = Path(tempfile.gettempdir(), f"ltrbench-jobs-{user}-{machine}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(folder)
        if status.st_uid != user or status.st_mode & 0o077:
            raise PermissionError(f"{path} is not a private folder")
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _file_of_job(folder: int) -> Iterator[tuple[str, IO[bytes]]]:
    """Creates a locked file and removes it at the end of the block; yields its name and the open file."""
    for _ in range(_ATTEMPTS):
        # The number of the process is for a user who looks into the folder; containers may repeat it.
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        with _opened_at(folder, name, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            try:
                if _lock(file) and os.fstat(file.fileno()).st_nlink > 0:
                    yield name, file
                    return
            finally:
                _remove(folder, name)
    raise OSError(f"no file could be created and locked in {_ATTEMPTS} attempts")


def _notify_others(folder: int, name: str) -> bool:
    """Appends a byte to the file of every running job except `name`; returns whether there is any."""
    running = [other for other in os.listdir(folder) if other != name and _notify(folder, other)]
    return bool(running)


def _notify(folder: int, name: str) -> bool:
    """Appends a byte to a file if its job is running; removes the file otherwise. Returns whether it runs."""
    try:
        file = _opened_at(folder, name, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:  # the job has just ended
        return False
    with file:
        if _lock(file):
            _remove(folder, name)
            return False
        with contextlib.suppress(OSError):  # a full disk: this job notices the overlap all the same
            file.write(b".")
        return True


def _opened_at(folder: int, name: str, flags: int) -> IO[bytes]:
    """Opens a file of a folder, unbuffered, without following a link."""
    mode = "r+b" if flags & os.O_RDWR else "ab"
    number = os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    return os.fdopen(number, mode, buffering=0)


def _lock(file: IO[bytes]) -> bool:
    """Locks a file; returns False if another job has locked it."""
    try:
        # flock and not lockf: two jobs of one process also exclude each other.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):  # removed by a user, or by a cleaner of temporary files
        os.unlink(name, dir_fd=folder)
