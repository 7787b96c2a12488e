"""Arrays in temporary files, for features that do not fit into memory.

The system keeps recently used parts of such an array in free memory, and writes the others to the file. The
file has no name: it disappears with the array, even if the process is killed.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from ltrbench.disk import DISK_REMEDIES
from ltrbench.errors import DataError
from ltrbench.shapes import Features


def free_disk_bytes(folder: Path) -> int:
    """Returns the free space on the disk of a folder, which need not exist yet."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def fits_on_disk(folder: Path, shape: tuple[int, int]) -> bool:
    """Returns whether float32 features and a store of them fit on the disk of a folder."""
    return free_disk_bytes(folder) > 2 * 4 * math.prod(shape)


def on_disk_remedy(shape: tuple[int, int], scratch: Path | None) -> str:
    """Returns how features that do not fit into memory can be on the disk; begins in lower case.

    Args:
        scratch: folder whose disk has too little space; None: none was given.
    """
    if scratch is None:
        return (
            "build a store with `python -m ltrbench data build`, or set data.cache=DIR in a run, which keep "
            "the features on the disk"
        )
    return (
        f"free {8 * math.prod(shape) / 1e9:.1f} GB on the disk of {scratch} for the features, where "
        f"{free_disk_bytes(scratch) / 1e9:.1f} GB are free"
    )


def array_in_file(folder: Path, shape: tuple[int, int], value: float) -> Features:
    """Returns a writable float32 array in a temporary file.

    Args:
        folder: folder of the file; created if it does not exist.
        value: initial value of all cells.

    Raises:
        DataError: The folder cannot be written, or its disk has too little space.
    """
    num_bytes = max(math.prod(shape) * np.dtype(np.float32).itemsize, 1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            _reserve(file.fileno(), num_bytes)
            pages = mmap.mmap(file.fileno(), num_bytes)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Check its path and its permissions")
        raise DataError(
            f"{folder}: features that do not fit into memory need a temporary file of {num_bytes / 1e9:.1f} "
            f"GB, which cannot be written ({error.strerror}). {remedy}, or choose another folder."
        ) from None
    array: Features = np.ndarray(shape, dtype=np.float32, buffer=pages)
    if value != 0 or math.copysign(1.0, value) < 0:
        array.fill(value)
    return array


def _reserve(file: int, num_bytes: int) -> None:
    """Reserves disk space for zeros: if the disk became full later, the system would kill this process."""
    if num_bytes > (free := os.fstatvfs(file).f_bavail * os.fstatvfs(file).f_frsize):
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {free / 1e9:.1f} GB are free")
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, num_bytes)
    else:
        os.truncate(file, num_bytes)
