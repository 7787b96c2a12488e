"""Durable files, temporary files of killed processes, and remedies for errors of the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

_ABANDONED_SECONDS = 3600.0
"""Age from which a temporary file has no process any more; clocks of hosts may differ by minutes."""

DISK_REMEDIES = {
    errno.ENOSPC: "Free space on its disk",
    errno.EDQUOT: "Free space within your quota",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "Mount its disk for writing",
    errno.EACCES: "Change its permissions",
    errno.EPERM: "Change its permissions",
    errno.EIO: "Check its disk",
    errno.ESTALE: "Check its file server",
}
"""Number of an OSError -> what a user can do about a folder that cannot be written."""


def flush(folder: Path) -> None:
    """Waits until the content of all files below a folder is on the disk."""
    # Without fdatasync, a file may be empty after a power failure although its new name is on the disk.
    synchronize = getattr(os, "fdatasync", os.fsync)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                synchronize(file.fileno())


def delete_abandoned(folder: Path, pattern: str) -> None:
    """Deletes the temporary files and folders of killed processes: those that are an hour old."""
    oldest = time.time() - _ABANDONED_SECONDS
    for path in folder.glob(pattern):
        # What another process deletes at the same time, or what cannot be deleted, does no harm.
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime > oldest:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
