"""StoredRows: the features of one shard, read from its file by blocks.

Blocks are read, not mapped: mapped pages count as memory of the process until the system needs them, and a
mapped file that another process cuts off would kill this process. Single rows are gathered from a map, whose
pages are given back afterwards.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import FeatureMatrix
from ltrbench.data.store.arrays import HEADER_BYTES, REBUILD, map_array, unreadable
from ltrbench.errors import DataError
from ltrbench.shapes import Features


class StoredRows(FeatureMatrix):
    """Features of a file, (n, F).

    The file stays open, so that the rows can be read even if the store is deleted meanwhile.

    Raises:
        DataError: The file does not contain a float32 array of this shape.
    """

    def __init__(self, path: Path, shape: tuple[int, int]) -> None:
        self.path = path
        self._shape = shape
        self._mapped = map_array(path, self.dtype, shape)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(path, error) from None
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredRows, (self.path, self._shape)

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
