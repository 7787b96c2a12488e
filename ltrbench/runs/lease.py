"""A lease on a folder: one process at a time works in it.

    with hold(folder) as lease:
        ...                # compute

The lease is a lock of the operating system on the file `.NAME-lock` in the folder. It ends with the process
that holds it, however that dies. The file names the holder, for messages, and stays if the work in the folder
is not complete. Between hosts that share a file system, a lease is as good as that file system's locks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.runs.record import writing_to
from ltrbench.untrusted import read_json

_POLL_SECONDS = 0.05
_LEAST_WAIT = 0.2
"""Seconds; `holder` holds the lock for a moment, which must not look like work."""
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Errors of `link` on file systems without hard links."""


class LeaseHeldError(ResultError):
    """Folder in which another process works."""


@dataclass(frozen=True)
class Holder:
    """Process that holds a lease. If the file is damaged, the host is "unknown", pid 0 and since now.

    Attributes:
        since: date and time at which it acquired the lease.
    """

    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} since {self.since}"


@dataclass
class Lease:
    """A lease that this process holds.

    Attributes:
        is_complete: the work in the folder is complete: the lease leaves no file. Whoever acquires the lease
            afterwards must find the work and do nothing.
    """

    is_complete: bool = False


@contextlib.contextmanager
def hold(folder: Path, name: str = "lease", wait: float = 0.0) -> Iterator[Lease]:
    """Holds the lease on a folder for the duration of the block; creates the folder if it does not exist.

    Args:
        wait: seconds to wait for another holder.

    Raises:
        LeaseHeldError: Another process, or another thread of this process, holds the lease.
        ResultError: The folder cannot be written.
    """
    path = _path(folder, name)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquire(path, wait)
    lease, creator = Lease(), os.getpid()
    try:
        yield lease
    finally:
        if os.getpid() == creator:  # a forked process does not hold the lease
            if lease.is_complete:
                path.unlink(missing_ok=True)
            lock.release()


def holder(folder: Path, name: str = "lease") -> Holder | None:
    """Returns the process that holds the lease on a folder, or None."""
    path = _path(folder, name)
    if not path.exists():
        return None
    try:
        with _lock(path).acquire(timeout=0):
            return None
    except Timeout:
        return _read(path)
    except OSError:  # a folder that is only read
        return None


def is_abandoned(folder: Path, name: str = "lease") -> bool:
    """Returns whether the last holder of the lease on a folder ended before its work was complete."""
    return _path(folder, name).exists() and holder(folder, name) is None


def _path(folder: Path, name: str) -> Path:
    return folder / f".{name}-lock"


def _lock(path: Path) -> FileLock:
    return FileLock(path, thread_local=False)


def _acquire(path: Path, wait: float) -> FileLock:
    lock = _lock(path)
    try:
        lock.acquire(timeout=max(wait, _LEAST_WAIT), poll_interval=_POLL_SECONDS)
    except Timeout:
        raise LeaseHeldError(
            f"{path.parent} is in use by {_read(path)}. Wait until that process ends, end it, or choose "
            "another folder."
        ) from None
    try:
        text = json.dumps(asdict(Holder(socket.gethostname(), os.getpid(), now())))
        with path.open("r+", encoding="utf-8") as file:
            file.truncate()
            file.write(text)
    except FileNotFoundError:  # the earlier holder completed its work, and deleted the file
        lock.release()
        return _acquire(path, wait)
    except OSError:
        path.unlink(missing_ok=True)
        lock.release()
        raise
    return lock


def _read(path: Path) -> Holder:
    """Returns the holder that the file names."""
    try:
        return Holder(**read_json(path))
    except (ResultError, TypeError):
        return Holder("unknown", 0, now())


def create_once(path: Path, content: bytes) -> bool:
    """Creates a file with its content in one step; returns False if it exists."""
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        draft.write_bytes(content)
        os.link(draft, path)
    except FileExistsError:
        # The answer of a file server may be lost, and the repeated request find the link that the first made.
        return draft.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        return _create_without_link(path, content)
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing was
            draft.unlink(missing_ok=True)
    return True


def _create_without_link(path: Path, content: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
