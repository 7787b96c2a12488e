"""Features of a data set that are not one array in memory.

matrix    FeatureMatrix: (D, F) features that are read by blocks of rows; functions for arrays and matrices
views     rows of an array or of another matrix, without a copy
stacked   arrays or matrices one below the other, such as the shards of a store
mapped    arrays in temporary files, for features that do not fit into memory
sparse    features of which most cells have one value, which are not stored (CSR)
segments  rows as segments of equal adjacent cells, the same for an array and for CSR
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.errors import DataError
from ltrbench.folders import DISK_REMEDIES
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FLOAT32_OVERFLOW = float.fromhex("0x1.ffffffp+127")
"""Smallest double that rounds to infinity in float32: half a unit above its largest number, 2^128 - 2^104."""

# ---- Arrays in temporary files, for features that do not fit into memory.
#
# The system keeps recently used parts of such an array in free memory, and writes the others to the file.
# The file has no name: it disappears with the array, even if the process is killed.


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
            # Reserved: if the disk became full later, the system would kill this process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, num_bytes)
            else:
                os.truncate(file.fileno(), num_bytes)
            pages = mmap.mmap(file.fileno(), num_bytes)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Check its path and its permissions")
        raise DataError(
            f"{folder}: features that do not fit into memory need a temporary file of {num_bytes / 1e9:.1f} "
            f"GB, which cannot be written ({error.strerror}). {remedy}, or choose another folder."
        ) from None
    array: Features = np.ndarray(shape, dtype=np.float32, buffer=pages)
    if not is_positive_zero(value):
        array.fill(value)
    return array


def full(shape: tuple[int, int], value: float) -> Features:
    """Returns a float32 array of one value; zeros only take memory where they are written or read."""
    return np.zeros(shape, np.float32) if is_positive_zero(value) else np.full(shape, value, np.float32)


def is_positive_zero(value: float) -> bool:
    return value == 0 and math.copysign(1.0, value) > 0


# ---- FeatureMatrix: float32 features (D, F) that are read by blocks of rows, and need not be one array.
#
# A data set holds its features as a NumPy array or as a FeatureMatrix. `row_blocks` reads both in the same
# way:
#
#     for start, block in row_blocks(dataset.features):
#         scores[start : start + len(block)] = score(block)
#
# A FeatureMatrix also has the shape, the dtype and the indexing of an array. Every result of indexing is a
# dense array, so that code for arrays also works for a FeatureMatrix as long as it reads a part of the rows
# at a time. `np.asarray(matrix)` gives the whole matrix as one array, after a check of the available
# memory.
#
# To add a kind of storage, derive from FeatureMatrix and implement `shape`, `rows`, `gather` and `arrays`.
# Shapes: D documents (rows), F features.

BLOCK_BYTES = 1 << 24
"""Size of a block: its copy stays in the cache of most machines, and a block occupies several threads."""

_Value = TypeVar("_Value", bound=np.generic)

MEMORY_REMEDY = (
    "Use model=native, lightgbm or xgboost, which read the features by blocks, take fewer queries "
    "(data.subset), or free memory."
)
"""Remedy for features that do not fit into memory as one array."""


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
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Number of bytes of the matrix as one array."""
        return self.size * self.dtype.itemsize

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
        """
        row_index, column_index = index if isinstance(index, tuple) else (index, slice(None))
        rows: Any = range(len(self)) if isinstance(row_index, slice) else np.arange(len(self))
        rows = rows[row_index]  # NumPy refuses any other index
        if np.ndim(rows) == 0:
            row: NDArray[np.float32] = self.gather(np.array([rows]))[0]
            return row[column_index]
        if isinstance(column_index, slice) and column_index == slice(None):
            return self._dense(rows)
        is_paired = not isinstance(row_index, slice) and not isinstance(
            column_index, slice | int | np.integer
        )
        cells, size = [], rows_of_block(self.shape[1])
        for first in range(0, max(len(rows), 1), size):
            part = slice(first, first + size)
            block = self._dense(rows[part])
            if is_paired:
                cells.append(block[np.arange(len(block)), column_index[part]])
            else:  # a copy, because a view would keep its whole block in memory
                cells.append(block[:, column_index].copy())
            release(self)
        return np.concatenate(cells)

    def _dense(self, rows: NDArray[np.int64] | range) -> Features:
        if isinstance(rows, range) and rows.step == 1:
            return self.rows(rows.start, max(rows.start, rows.stop))
        return self.gather(np.asarray(rows, dtype=np.int64))


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
        MEMORY_REMEDY,
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


# ---- RowView: rows of an array or of another matrix, by ranges of row numbers, without a copy.
#
# A split of a data set consists of whole queries, each a range of adjacent rows. Consecutive queries are
# merged into one range. A view of a view refers to the matrix at the bottom, so that views never form
# chains.

RowRanges = NDArray[np.int64]  # (n, 2), first row of each range and the row after its last row


def take_rows(features: AnyFeatures, ranges: ArrayLike) -> AnyFeatures:
    """Returns the rows of the ranges, in the given order, without a copy.

    Args:
        ranges: (n, 2) int, first row of each range and the row after its last row.

    Returns:
        A read-only slice of an array if the rows are adjacent; the matrix itself if all its rows are taken
        in order; otherwise a RowView.

    >>> features = np.arange(8, dtype=np.float32).reshape(4, 2)
    >>> take_rows(features, [[0, 1], [1, 3]]).tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    >>> take_rows(features, [[2, 4], [0, 1]])
    RowView(shape=(3, 2))
    """
    view = RowView(features, ranges)
    if len(view.ranges) != 1:
        return view
    start, stop = view.ranges[0].tolist()
    if not isinstance(view.base, FeatureMatrix):
        return read_rows(view.base, start, stop)
    return view.base if (start, stop) == (0, len(view.base)) else view


class RowView(FeatureMatrix):
    """Rows of another matrix or array.

    Attributes:
        base: the matrix, or the array in C order; never a RowView.
        ranges: (n, 2), ranges of rows of `base`; no range is empty or continues the range before it.
    """

    def __init__(self, base: AnyFeatures, ranges: ArrayLike) -> None:
        given = merged_ranges(ranges)
        if isinstance(base, RowView):
            given = merged_ranges(base.ranges_within(given))
            base = base.base
        self.base: AnyFeatures = base if isinstance(base, FeatureMatrix) else read_only(base)
        self.ranges: RowRanges = given
        self._row_start = np.concatenate([[0], np.cumsum(self.ranges[:, 1] - self.ranges[:, 0])])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._row_start[-1]), int(self.base.shape[1])

    def rows(self, start: int, stop: int) -> Features:
        ranges = self.ranges_within(np.array([[start, stop]]))
        if len(ranges) == 1:
            return read_rows(self.base, *ranges[0].tolist())
        return gather_rows(self.base, row_numbers(ranges))

    def gather(self, rows: NDArray[np.int64]) -> Features:
        slot = np.searchsorted(self._row_start, rows, side="right") - 1
        return gather_rows(self.base, self.ranges[slot, 0] + rows - self._row_start[slot])

    def arrays(self) -> Iterator[NDArray[Any]]:
        yield from arrays_of(self.base)

    def ranges_within(self, ranges: RowRanges) -> RowRanges:
        """Returns the ranges of rows of `base` that ranges of rows of this view consist of."""
        starts, stops = ranges[ranges[:, 0] < ranges[:, 1]].T
        first = np.searchsorted(self._row_start, starts, side="right") - 1
        after = np.searchsorted(self._row_start, stops, side="left")
        pieces = row_numbers(np.stack([first, after], axis=1))
        within = self.ranges[pieces] - self._row_start[pieces, np.newaxis]
        counts = after - first
        begin = np.maximum(np.repeat(starts, counts), self._row_start[pieces])
        end = np.minimum(np.repeat(stops, counts), self._row_start[pieces + 1])
        composed: RowRanges = within[:, :1] + np.stack([begin, end], axis=1)
        return composed


def merged_ranges(given: ArrayLike) -> RowRanges:
    """Returns (n, 2) ranges without empty ones, and with ranges that continue each other as one."""
    ranges = np.asarray(given, dtype=np.int64).reshape(-1, 2)
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    begins = np.concatenate([[True], ranges[1:, 0] != ranges[:-1, 1]])[: len(ranges)]
    ends = np.concatenate([begins[1:], [True]])[: len(ranges)]
    return np.stack([ranges[begins, 0], ranges[ends, 1]], axis=1)


def row_numbers(ranges: RowRanges) -> NDArray[np.int64]:
    """Returns all numbers in the ranges, in order."""
    sizes = ranges[:, 1] - ranges[:, 0]
    ends = np.cumsum(sizes)
    numbers: NDArray[np.int64] = np.arange(sizes.sum()) + np.repeat(ranges[:, 0] - ends + sizes, sizes)
    return numbers


# ---- StackedRows: arrays or matrices one below the other as one matrix, such as the shards of a store.


class StackedRows(FeatureMatrix):
    """The rows of all parts, in the order of the parts.

    Args:
        parts: at least one float32 array in C order or matrix, each (any number of rows, F).

    >>> upper, lower = np.zeros((2, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
    >>> StackedRows([upper, lower])[1:].tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """

    def __init__(self, parts: Sequence[AnyFeatures]) -> None:
        self.parts = tuple(part if isinstance(part, FeatureMatrix) else read_only(part) for part in parts)
        self.row_start = np.concatenate([[0], np.cumsum([len(part) for part in parts])])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.row_start[-1]), int(self.parts[0].shape[1])

    def rows(self, start: int, stop: int) -> Features:
        first = int(np.searchsorted(self.row_start[1:-1], start, side="right"))
        last = max(int(np.searchsorted(self.row_start[1:-1], stop, side="left")), first)
        pieces = []
        for part, row_start in zip(self.parts[first : last + 1], self.row_start[first:], strict=False):
            begin, end = max(start - int(row_start), 0), min(stop - int(row_start), len(part))
            pieces.append(read_rows(part, begin, end))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        number = np.searchsorted(self.row_start[1:-1], rows, side="right")
        for of_part in np.unique(number):
            slots = np.flatnonzero(number == of_part)
            part = self.parts[of_part]
            gathered[slots] = gather_rows(part, rows[slots] - self.row_start[of_part])
            release(part)
        return gathered

    def arrays(self) -> Iterator[NDArray[Any]]:
        for part in self.parts:
            yield from arrays_of(part)


# ---- SparseRows: features of which most cells have one value, stored row by row without these cells (CSR).
#
# The documents of a text or behaviour data set have few of many features. `SparseRows` stores the others
# not at all: 60,000 documents with 100 of 100,000 features take 50 MB instead of 24 GB. Its blocks are
# dense, as those of every FeatureMatrix, so that code that reads blocks works and gives the same results.
#
# A backend whose library takes CSR uses the stored values:
#
#     if (sparse := csr_of(dataset.features)) is not None:
#         library.fit(sparse.to_scipy(), ...)
#
# Shapes: D documents (rows), F features, n stored values.


class SparseRows(FeatureMatrix):
    """Features in compressed sparse rows (CSR).

    Args:
        row_start: (D + 1,) int64, position of the first stored value of each row, followed by n.
        columns: (n,) int32, column of each stored value, ascending within a row.
        values: (n,) float32.
        num_features: F.
        absent: value of every cell that is not stored, 0 or NaN.

    Raises:
        DataError: The arrays do not form such rows, or `absent` is another value.

    >>> SparseRows(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5, 6, 7], np.float32), 3)[:]
    array([[0., 0., 5.],
           [6., 7., 0.]], dtype=float32)
    """

    def __init__(
        self,
        row_start: NDArray[np.int64],
        columns: NDArray[np.int32],
        values: NDArray[np.float32],
        num_features: int,
        absent: float = 0.0,
    ) -> None:
        if not (absent == 0 or math.isnan(absent)):
            raise DataError(f"absent is {absent}; the value of cells that are not stored must be 0 or NaN.")
        self.row_start: NDArray[np.int64] = read_only(np.asarray(row_start, np.int64))
        self.columns: NDArray[np.int32] = read_only(np.asarray(columns, np.int32))
        self.values: NDArray[np.float32] = read_only(np.asarray(values, np.float32))
        self.num_features = int(num_features)
        self.absent = float(absent)
        try:
            matrix = self._as_csr()
            matrix.check_format()
            if not matrix.has_canonical_format:
                raise ValueError("the columns of a row must ascend")
        except ValueError as error:
            raise DataError(f"the arrays are not compressed sparse rows: {error}.") from None

    @classmethod
    def of(cls, features: AnyFeatures, absent: float = 0.0) -> SparseRows:
        """Returns the sparse form of a float32 array or matrix: the cells whose value is not `absent`.

        >>> SparseRows.of(np.array([[0, 2], [0, 0]], dtype=np.float32)).values
        array([2.], dtype=float32)
        """
        counts, columns, values = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for _, block in row_blocks(features):
            rows, of_rows = np.nonzero(_is_stored(block, absent))
            counts.append(np.bincount(rows, minlength=len(block)))
            columns.append(of_rows.astype(np.int32))
            values.append(block[rows, of_rows])
        row_start = np.cumsum(np.concatenate(counts))
        return cls(row_start, np.concatenate(columns), np.concatenate(values), features.shape[1], absent)

    @classmethod
    def from_scipy(cls, matrix: Any, absent: float = 0.0) -> SparseRows:
        """Returns the features in a sparse matrix or array of SciPy, in any of its formats.

        Args:
            absent: value of the cells that the matrix does not store, 0 or NaN.
        """
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        with np.errstate(over="ignore"):  # infinity is an error of the data set
            values = rows.data.astype(np.float32, copy=False)
        row_start, columns = rows.indptr.astype(np.int64), rows.indices.astype(np.int32, copy=False)
        return cls(row_start, columns, values, rows.shape[1], absent)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_start) - 1, self.num_features

    def rows(self, start: int, stop: int) -> Features:
        first, last = self.row_start[start], self.row_start[stop]
        return self._dense_block(
            np.diff(self.row_start[start : stop + 1]), self.columns[first:last], self.values[first:last]
        )

    def gather(self, rows: NDArray[np.int64]) -> Features:
        ranges = np.stack([self.row_start[rows], self.row_start[rows + 1]], axis=1)
        stored = row_numbers(ranges)
        return self._dense_block(ranges[:, 1] - ranges[:, 0], self.columns[stored], self.values[stored])

    def arrays(self) -> Iterator[NDArray[Any]]:
        yield from (self.row_start, self.columns, self.values)

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        match index:
            case (slice(start=None, stop=None, step=None), int() | np.integer() as column):
                return self._column(range(self.num_features)[column])
        return super().__getitem__(index)

    def _column(self, column: int) -> NDArray[np.float32]:
        """Returns the (D,) values of a column from the stored values, without dense rows."""
        values = np.full(len(self), self.absent, dtype=np.float32)
        stored = np.flatnonzero(self.columns == column)
        values[np.searchsorted(self.row_start, stored, side="right") - 1] = self.values[stored]
        return values

    def by_columns(self) -> Iterator[NDArray[np.float32]]:
        """Yields the (D,) values of each column, in order; needs the memory of the stored values again."""
        by_column = self.to_scipy().tocsc()
        for start, stop in pairwise(by_column.indptr.tolist()):
            values = np.full(len(self), self.absent, dtype=np.float32)
            values[by_column.indices[start:stop]] = by_column.data[start:stop]
            yield values

    def take_columns(self, columns: NDArray[np.int64]) -> SparseRows:
        """Returns a matrix of some columns, which are given in ascending order."""
        slot = np.full(self.num_features, -1, dtype=np.int32)
        slot[columns] = np.arange(len(columns))
        slots = slot[self.columns]
        kept = slots >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        taken = self._sharing_checks(before[self.row_start], slots[kept], self.values[kept])
        taken.num_features = len(columns)
        return taken

    def with_column(self, rows: NDArray[np.int64], column: int, values: NDArray[np.float32]) -> SparseRows:
        """Returns some rows with other values of one column, (n,), which are stored even if they are absent
        ones.

        >>> matrix = SparseRows.of(np.array([[1, 0, 2], [0, 0, 3]], dtype=np.float32))
        >>> matrix.with_column(np.array([1, 0]), 1, np.array([7, 8], dtype=np.float32))[:]
        array([[0., 7., 3.],
               [1., 8., 2.]], dtype=float32)
        """
        ranges = np.stack([self.row_start[rows], self.row_start[rows + 1]], axis=1)
        stored = row_numbers(ranges)
        of_row = np.repeat(np.arange(len(rows)), ranges[:, 1] - ranges[:, 0])
        kept = self.columns[stored] != column
        stored, of_row = stored[kept], of_row[kept]
        before = np.bincount(of_row[self.columns[stored] < column], minlength=len(rows))
        sizes = np.bincount(of_row, minlength=len(rows))
        # np.insert takes places in the array before the insertion.
        slots = np.cumsum(sizes) - sizes + before
        row_start = np.concatenate([[0], np.cumsum(sizes + 1)])
        columns = np.insert(self.columns[stored], slots, np.int32(column))
        return self._sharing_checks(row_start, columns, np.insert(self.values[stored], slots, values))

    def cell(self, position: int) -> tuple[int, int]:
        """Returns the row and the column of the stored value at a position."""
        row = int(np.searchsorted(self.row_start, position, side="right")) - 1
        return row, int(self.columns[position])

    def slice(self, ranges: ArrayLike) -> SparseRows:
        """Returns the rows of the ranges, in the given order; adjacent rows share the stored values.

        Args:
            ranges: (n, 2) int, first row of each range and the row after its last row.
        """
        given = merged_ranges(ranges)
        rows = row_numbers(given)
        row_start = np.concatenate([[0], np.cumsum(self.row_start[rows + 1] - self.row_start[rows])])
        parts = [slice(*stored) for stored in self.row_start[given].tolist()]
        if len(parts) == 1:
            columns, values = self.columns[parts[0]], self.values[parts[0]]
        else:
            columns = np.concatenate([self.columns[:0], *(self.columns[part] for part in parts)])
            values = np.concatenate([self.values[:0], *(self.values[part] for part in parts)])
        return self._sharing_checks(row_start, columns, values)

    def to_scipy(self) -> csr_matrix[np.float32]:
        """Returns the stored values as a matrix of SciPy, which shares `columns` and `values`.

        The cells that SciPy regards as 0 have the value `absent`; for NaN the library must regard cells that
        are not stored as missing.
        """
        matrix = self._as_csr()
        matrix.has_sorted_indices = matrix.has_canonical_format = True  # or a library sorts read-only arrays
        return matrix

    def _as_csr(self) -> csr_matrix[np.float32]:
        from scipy.sparse import csr_matrix

        return csr_matrix((self.values, self.columns, self.row_start), shape=self.shape, copy=False)

    def _sharing_checks(
        self, row_start: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32]
    ) -> SparseRows:
        """Returns rows of this matrix, whose columns and values are not checked again."""
        taken = object.__new__(SparseRows)
        taken.row_start, taken.columns = read_only(row_start), read_only(columns)
        taken.values = read_only(values)
        taken.num_features, taken.absent = self.num_features, self.absent
        return taken

    def _dense_block(
        self, sizes: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32]
    ) -> Features:
        """Returns rows with `sizes` stored values each as an array."""
        block = full((len(sizes), self.num_features), self.absent)
        block[np.repeat(np.arange(len(sizes)), sizes), columns] = values
        return block


def csr_of(features: AnyFeatures) -> SparseRows | None:
    """Returns the sparse form of features that are stored as SparseRows; None for all others.

    The rows of a RowView are copied unless they are adjacent, and so are stacked parts; the copy has the size
    of the stored values.
    """
    if not is_sparse(features):
        return None
    if isinstance(features, RowView):
        base = csr_of(features.base)
        return None if base is None else base.slice(features.ranges)
    if isinstance(features, StackedRows):
        parts = [part for part in features.parts if isinstance(part, SparseRows)]
        columns = np.concatenate([part.columns for part in parts])
        sizes = np.concatenate([np.diff(part.row_start) for part in parts])
        row_start = np.concatenate([[0], np.cumsum(sizes)])
        return parts[0]._sharing_checks(row_start, columns, np.concatenate([part.values for part in parts]))
    return features if isinstance(features, SparseRows) else None


def is_sparse(features: AnyFeatures) -> bool:
    """Returns whether features have a sparse form, without copying them as `csr_of` may do."""
    if isinstance(features, RowView):
        return is_sparse(features.base)
    if isinstance(features, StackedRows):
        parts = [part for part in features.parts if isinstance(part, SparseRows)]
        return len(parts) == len(features.parts) and len({repr(part.absent) for part in parts}) == 1
    return isinstance(features, SparseRows)


def rows_in_order(features: AnyFeatures, rows: NDArray[np.int64]) -> AnyFeatures:
    """Returns rows of features in another order: a copy of what is in memory, a view of a file."""
    if isinstance(features, np.ndarray) and not is_mapped(features):
        return gather_rows(features, rows)
    ranges = np.stack([rows, rows + 1], axis=1)
    return features.slice(ranges) if isinstance(features, SparseRows) else take_rows(features, ranges)


def _is_stored(block: NDArray[np.float32], absent: float) -> NDArray[np.bool_]:
    """Returns which cells have another value than `absent`; -0 is not 0."""
    if math.isnan(absent):
        return ~np.isnan(block)
    other: NDArray[np.bool_] = block.view(np.uint32) != np.float32(absent).view(np.uint32)
    return other


# ---- Segments: the rows of features as segments of equal adjacent cells, the same for an array and for
# CSR.
#
# A segment is the column of its first cell and the bits of its cells in float32; it ends where the bits
# change. Each row begins with a segment at column 0, so that the segments of all rows in order determine
# the cells. Sparse features are not expanded: they take time and memory in proportion to their stored
# values.
#
# Shapes: D documents (rows), F features, n stored values.

Segments = NDArray[np.uint32]  # (any number, 2), first column and bits of each segment

_STORED = 1 << 18
"""Number of stored values that are read at a time; each takes about 50 bytes."""


def row_segments(features: AnyFeatures) -> Iterator[Segments]:
    """Yields the segments of consecutive rows, of all rows in order.

    Joined, they are the same for equal cells, whatever the features are stored in; -0 does not equal 0, and
    a NaN equals a NaN with the same bits.

    >>> dense = np.array([[0, 0, 5], [5, 5, 5]], dtype=np.float32)
    >>> np.concatenate(list(row_segments(dense)))[:, 0].tolist()
    [0, 2, 0]
    >>> np.concatenate(list(row_segments(SparseRows.of(dense))))[:, 0].tolist()
    [0, 2, 0]
    """
    if is_sparse(features):
        for sparse in _sparse_blocks(features):
            yield _of_sparse(sparse)
    else:
        for _, block in row_blocks(features):
            yield _of_array(block)


def _sparse_blocks(features: AnyFeatures) -> Iterator[SparseRows]:
    """Yields consecutive rows of sparse features, with about _STORED stored values in total."""
    whole = csr_of(features.base if isinstance(features, RowView) else features)
    if whole is None:
        return
    size = max(_STORED * len(whole) // max(len(whole.values), 1), 1)
    for start in range(0, len(features), size):
        rows = np.array([[start, min(start + size, len(features))]])
        yield whole.slice(features.ranges_within(rows) if isinstance(features, RowView) else rows)
        release(features)


def _of_array(block: Features) -> Segments:
    bits = block.view(np.uint32)
    begins = np.ones(bits.shape, dtype=np.bool_)
    np.not_equal(bits[:, 1:], bits[:, :-1], out=begins[:, 1:])
    return np.stack([np.nonzero(begins)[1].astype(np.uint32), bits[begins]], axis=1)


def _of_sparse(sparse: SparseRows) -> Segments:
    """Returns the segments from the stored values.

    A segment can only begin at column 0, at a stored cell, and behind one. These candidates lie in the array
    in the order of the cells: one for the begin of each row, then two for each of its stored values.
    """
    num_rows, num_stored = len(sparse), len(sparse.values)
    row = np.repeat(np.arange(num_rows), np.diff(sparse.row_start))
    of_row = np.arange(num_rows) + 2 * sparse.row_start[:-1]
    of_stored = row + 2 * np.arange(num_stored) + 1
    candidates = np.empty((num_rows + 2 * num_stored, 2), dtype=np.uint32)
    candidates[:, 1] = np.float32(sparse.absent).view(np.uint32)
    candidates[of_row, 0] = 0
    candidates[of_stored, 0], candidates[of_stored, 1] = sparse.columns, sparse.values.view(np.uint32)
    candidates[of_stored + 1, 0] = sparse.columns + 1
    exists = np.ones(len(candidates), dtype=np.bool_)
    first_columns = sparse.columns == 0
    exists[of_row[row[first_columns]]] = False
    exists[of_stored + 1] = sparse.columns + 1 < sparse.num_features
    next_is_stored = (np.diff(row) == 0) & (np.diff(sparse.columns) == 1)
    exists[of_stored[:-1][next_is_stored] + 1] = False
    candidates = candidates[exists]
    begins = np.ones(len(candidates), dtype=np.bool_)
    begins[1:] = (candidates[1:, 0] == 0) | (candidates[1:, 1] != candidates[:-1, 1])
    return candidates[begins]
