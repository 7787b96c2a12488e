"""StoredRows: the features of one shard, read from its file by blocks.

Blocks are read, not mapped: mapped pages count as memory of the process until the system needs them, and a
mapped file that another process cuts off would kill this process. Single rows are gathered from a map, whose
pages are given back afterwards.

Pickled rows are a reference: the path, the shape, and the checksum that the manifest has. A process that
opens the reference, perhaps on another machine, compares the size of the file and the checksum in the
manifest there; it does not read the values.
"""

from __future__ import annotations

import functools
import mmap
import os
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import FeatureMatrix
from ltrbench.data.store.arrays import HEADER_BYTES, REBUILD, map_array, unreadable
from ltrbench.data.store.manifest import MANIFEST_FILE, read_manifest, shard_folder
from ltrbench.errors import DataError
from ltrbench.shapes import Features


class StoredRows(FeatureMatrix):
    """Features of a file, (n, F).

    The file stays open, so that the rows can be read even if the store is deleted meanwhile.

    Args:
        checksum: the checksum of the values in the manifest; None: the rows belong to no store.

    Raises:
        DataError: The file does not contain a float32 array of this shape.
    """

    def __init__(self, path: Path, shape: tuple[int, int], checksum: str | None = None) -> None:
        self.path = path
        self._shape, self._checksum = shape, checksum
        self._mapped = map_array(path, self.dtype, shape)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(path, error) from None
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        # The process that opens the reference may have another current folder.
        return _opened, (self.path.absolute(), self._shape, self._checksum)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def rows(self, start: int, stop: int) -> Features:
        block = np.empty((stop - start, self._shape[1]), dtype=self.dtype)
        left, place = block.reshape(-1).view(np.uint8).data, HEADER_BYTES + start * self._bytes_of_row
        while left:
            try:
                count = os.preadv(self._file, [left], place)
            except OSError as error:
                raise unreadable(self.path, error) from None
            if count == 0:
                raise DataError(f"{self.path}: the file has become shorter since it was opened. {REBUILD}.")
            left, place = left[count:], place + count
        return block

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered: Features = self._mapped.take(rows, axis=0)
        base = self._mapped.base
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
        return gathered

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yields nothing: no array of the features is in memory."""
        return iter(())

    @property
    def _bytes_of_row(self) -> int:
        return self._shape[1] * self.dtype.itemsize


def _opened(path: Path, shape: tuple[int, int], checksum: str | None) -> StoredRows:
    """Opens pickled rows.

    Raises:
        DataError: The file is missing or differs from the pickled one.
    """
    try:
        if checksum is not None:
            _check_manifest(path, checksum)
        return StoredRows(path, shape, checksum)
    except DataError as error:
        raise DataError(
            f"host {socket.gethostname()}: the store of the features cannot be used here: {error} The folder "
            f"{path.parent.parent} must be visible under the same path, with the same content, on every "
            "worker."
        ) from None


def _check_manifest(path: Path, checksum: str) -> None:
    """Raises DataError if the manifest of the store does not have the checksum for the features of a file."""
    store = path.parent.parent
    manifest = store / MANIFEST_FILE
    modified = manifest.stat().st_mtime_ns if manifest.is_file() else 0
    here = _checksums(store, modified).get(path.parent)
    if here != checksum:
        listed = "no such features" if here is None else f"{here[:16]}..."
        raise DataError(
            f"{path}: the checksum of the features was {checksum[:16]}..., but {manifest} has {listed}: "
            "the store was built again, or is another one."
        )


@functools.lru_cache(maxsize=16)
def _checksums(store: Path, modified: int) -> dict[Path, str]:
    """Returns folder of a shard -> checksum of its features; a store has many shards and one manifest.

    Args:
        modified: time of the last change of the manifest, which makes a later version another entry.
    """
    records = read_manifest(store)["shards"]
    return {
        shard_folder(store, number): record["arrays"]["features"]["sha256"]
        for number, record in enumerate(records)
        if "features" in record["arrays"]
    }
