"""FeatureMatrix: float32 features (D, F) that are read by blocks of rows, and need not be one array.

A data set holds its features as a NumPy array or as a FeatureMatrix. `row_blocks` reads both in the same way:

    for start, block in row_blocks(dataset.features):
        scores[start : start + len(block)] = score(block)

A FeatureMatrix also has the shape, the dtype and the indexing of an array. Every result of indexing is a
dense array, so that code for arrays also works for a FeatureMatrix as long as it reads a part of the rows at
a time. `np.asarray(matrix)` gives the whole matrix as one array, after a check of the available memory.

To add a kind of storage, derive from FeatureMatrix and implement `shape`, `rows`, `gather` and `arrays`.
Shapes: D documents (rows), F features.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes
from ltrbench.shapes import Features

BLOCK_BYTES = 1 << 24
"""Size of a block: its copy stays in the cache of most machines, and a block occupies several threads."""

_Value = TypeVar("_Value", bound=np.generic)

_Rows = NDArray[np.int64] | range
"""Row numbers of 0 or more."""


FEWER_OR_FREE = "take fewer queries (data.subset), or free memory."
"""End of a remedy for features that do not fit into memory."""


class FeatureMatrix(ABC):
    """Read-only float32 features (D, F); a missing value is NaN."""

    ndim: ClassVar[int] = 2
    dtype: ClassVar[np.dtype[np.float32]] = np.dtype(np.float32)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(D, F)."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Features:
        """Returns the rows from `start` to before `stop`, 0 <= start <= stop <= D, in C order.

        The array may be a view of the storage and must not be changed.
        """

    @abstractmethod
    def gather(self, rows: NDArray[np.int64]) -> Features:
        """Returns a copy of the given rows, each from 0 to D - 1, in the given order."""

    @abstractmethod
    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yields the arrays in which the values are stored; views of one storage yield the same arrays."""

    @property
    def memory_remedy(self) -> str:
        """Remedy if there is no memory for an array: the models that need less memory."""
        return f"Use model=native, lightgbm or xgboost, which read the features by blocks, {FEWER_OR_FREE}"

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Number of bytes of the matrix as one array."""
        return self.size * self.dtype.itemsize

    if not TYPE_CHECKING:  # a type checker knows which attributes there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{type(self).__name__} has no attribute '{name}', because these features are not one array. "
                f"Read them with row_blocks(features), or use numpy.asarray(features).{name} or "
                "dataset.in_memory()."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self!r} is not one array; allow a copy, or read it with row_blocks.")
        array: NDArray[Any] = as_array(self).astype(dtype or self.dtype, copy=False)
        return array

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        """Returns rows, columns or cells as an array, as NumPy does for a two-dimensional array.

        An index is a whole number, a slice, or a one-dimensional array of row numbers or of booleans; or a
        tuple of one for the rows and one for the columns.

        Raises:
            IndexError: The index has another form, or is out of bounds.
        """
        row_index, column_index = index if _is_pair(index) else (index, None)
        if isinstance(row_index, int | np.integer):
            row: NDArray[np.float32] = self.gather(_numbers([int(row_index)], len(self)))[0]
            return row if column_index is None else row[column_index]
        is_slice = isinstance(row_index, slice)
        rows = range(*row_index.indices(len(self))) if is_slice else _numbers(row_index, len(self))
        if column_index is None:
            return self._dense(rows)
        if is_slice or isinstance(column_index, slice | int | np.integer):
            # Copies, because a view would keep its whole block in memory.
            return np.concatenate([self._dense(part)[:, column_index].copy() for part in self._parts(rows)])
        return self._cells(np.asarray(rows), _numbers(column_index, self.shape[1]))

    def _dense(self, rows: _Rows) -> Features:
        if isinstance(rows, range) and rows.step == 1:
            return self.rows(rows.start, max(rows.start, rows.stop))
        return self.gather(np.asarray(rows, dtype=np.int64))

    def _parts(self, rows: _Rows) -> Iterator[_Rows]:
        """Yields the rows in parts of the size of a block, at least one."""
        size = rows_of_block(self.shape[1])
        for first in range(0, max(len(rows), 1), size):
            yield rows[first : first + size]
            release(self)

    def _cells(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the (n,) values at pairs of a row and a column."""
        try:
            rows, columns = np.broadcast_arrays(rows, columns)
        except ValueError:
            raise IndexError(
                f"{len(rows)} rows and {len(columns)} columns are not pairs; index rows first, then columns, "
                "or pass as many rows as columns."
            ) from None
        size = rows_of_block(self.shape[1])
        cells = np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            block = self.gather(rows[part])
            cells[part] = block[np.arange(len(block)), columns[part]]
        return cells


AnyFeatures: TypeAlias = Features | FeatureMatrix
"""(D, F) features, as an array or as a FeatureMatrix."""


@dataclass(frozen=True, eq=False)
class CheckedFeatures:
    """Features whose values are known to be finite or NaN.

    A data set does not search them for infinities again, which would read all values.
    """

    values: AnyFeatures


def rows_of_block(num_features: int) -> int:
    """Returns the number of rows of a block of BLOCK_BYTES, at least 1."""
    return max(BLOCK_BYTES // (max(num_features, 1) * FeatureMatrix.dtype.itemsize), 1)


def row_blocks(features: AnyFeatures, rows_per_block: int | None = None) -> Iterator[tuple[int, Features]]:
    """Yields consecutive rows with the number of the first: all rows of an array or a matrix, in order.

    A block is a read-only array of at most `rows_per_block` rows: a view, or a copy where the rows are not
    adjacent in one array.

    Args:
        rows_per_block: None: as many rows as BLOCK_BYTES hold.

    >>> features = np.zeros((5, 2), dtype=np.float32)
    >>> [(start, block.shape) for start, block in row_blocks(features, rows_per_block=3)]
    [(0, (3, 2)), (3, (2, 2))]
    """
    num_rows, num_features = features.shape
    size = rows_per_block or rows_of_block(num_features)
    for start in range(0, num_rows, size):
        yield start, read_rows(features, start, min(start + size, num_rows))
        release(features)


def row_parts(features: AnyFeatures, row_start: NDArray[np.int64]) -> Iterator[Features]:
    """Yields the rows of each part, from `row_start[i]` to before `row_start[i + 1]`: each query's documents.

    Args:
        row_start: (n + 1,), ascending.
    """
    size, released = rows_of_block(features.shape[1]), 0
    for start, stop in pairwise(row_start.tolist()):
        yield read_rows(features, start, stop)
        if stop - released >= size:
            release(features)
            released = stop


def release(features: AnyFeatures) -> None:
    """Releases the memory of files that are mapped into memory, until they are read again.

    Otherwise the resident memory of a process that reads a file once grows by the whole file.
    """
    for array in arrays_of(features):
        # Changes of a private mapping would be lost.
        if is_mapped(array) and not array.flags.writeable and hasattr(mmap, "MADV_DONTNEED"):
            array.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]


def is_mapped(array: NDArray[Any]) -> bool:
    """Returns whether an array that is not a view is a file that is mapped into memory."""
    return isinstance(array.base, mmap.mmap)


def read_rows(features: AnyFeatures, start: int, stop: int) -> Features:
    """Returns the rows from `start` to before `stop` of an array or a matrix, as a read-only array."""
    block = features.rows(start, stop) if isinstance(features, FeatureMatrix) else features[start:stop]
    return read_only(np.asarray(block))  # not a subclass such as numpy.memmap, which some libraries refuse


def gather_rows(features: AnyFeatures, rows: NDArray[np.int64]) -> Features:
    """Returns a copy of the given rows of an array or a matrix."""
    if isinstance(features, FeatureMatrix):
        return features.gather(rows)
    gathered: Features = features.take(rows, axis=0)
    return gathered


def arrays_of(features: AnyFeatures) -> Iterator[NDArray[Any]]:
    """Yields the arrays in which features are stored: for a view of an array, the array that it views."""
    if isinstance(features, FeatureMatrix):
        yield from features.arrays()
        return
    while isinstance(features.base, np.ndarray):
        features = features.base
    yield features


def as_array(features: AnyFeatures) -> Features:
    """Returns features as one array: an array itself, a matrix as a copy.

    Raises:
        DataError: The copy does not fit into the available memory.
    """
    if not isinstance(features, FeatureMatrix):
        return features
    num_documents, num_features = features.shape
    require_memory(
        f"the features of {num_documents} documents with {num_features} features as one array",
        features.nbytes,
        features.memory_remedy,
    )
    array = np.empty(features.shape, dtype=features.dtype)
    for start, block in row_blocks(features):
        array[start : start + len(block)] = block
    return array


def require_memory(what: str, num_bytes: int, remedy: str) -> None:
    """Raises DataError if an allocation does not fit into the memory of the machine or of its container.

    Some systems allow any allocation and kill the process when it uses the memory.

    Args:
        what: what is allocated, a plural noun.
        remedy: further sentences of the message.
    """
    free = available_bytes()
    if num_bytes > free:
        raise DataError(
            f"{what} need {num_bytes / 1e9:.1f} GB of memory, but only {free / 1e9:.1f} GB are "
            f"available. {remedy}"
        )


def read_only(array: NDArray[_Value]) -> NDArray[_Value]:
    """Returns the array, or a read-only view of it if it is writable."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _is_pair(index: Any) -> bool:
    if isinstance(index, tuple) and len(index) != 2:
        raise IndexError(f"index {index!r}: pass one index for the rows and at most one for the columns.")
    return isinstance(index, tuple)


def _numbers(index: ArrayLike, length: int) -> NDArray[np.int64]:
    """Returns the indices of an array or list as numbers of 0 or more.

    Raises:
        IndexError: The index is not one-dimensional, not of whole numbers or booleans, or out of bounds.
    """
    numbers = np.asarray(index)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iub" and numbers.size):
        raise IndexError(
            f"index {index!r}: pass a whole number, a slice, or a one-dimensional array of whole numbers or "
            "booleans."
        )
    if numbers.dtype.kind == "b":
        if len(numbers) != length:
            raise IndexError(f"index: {len(numbers)} booleans for {length} rows or columns; pass one each.")
        numbers = np.flatnonzero(numbers)
    outside = numbers[(numbers < -length) | (numbers >= length)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds: there are {length} rows or columns.")
    numbers = numbers.astype(np.int64)
    return np.where(numbers < 0, numbers + length, numbers)
