"""Features of a data set that are not one array in memory.

matrix    FeatureMatrix: (D, F) features that are read by blocks of rows; functions for arrays and matrices
views     rows of an array or of another matrix, without a copy
stacked   arrays or matrices one below the other, such as the shards of a store
mapped    arrays in temporary files, for features that do not fit into memory
sparse    features of which most cells have one value, which are not stored (CSR)
segments  rows as segments of equal adjacent cells, the same for an array and for CSR
merging   different values of a column that become equal in float32
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

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


def array_in_file(
    folder: Path, shape: tuple[int, int], value: float, dtype: Any = np.float32
) -> Features:
    """Returns a writable array in a temporary file.

    Args:
        folder: folder of the file; created if it does not exist.
        value: initial value of all cells.

    Raises:
        DataError: The folder cannot be written, or its disk has too little space.
    """
    itemsize = np.dtype(dtype).itemsize
    num_bytes = max(math.prod(shape) * itemsize, 1)
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
        remedy = DISK_REMEDIES.get(
            error.errno or 0, "Check its path and its permissions"
        )
        raise DataError(
            f"{folder}: features need a file of {num_bytes / 1e9:.1f} GB here ({error.strerror}). {remedy}."
        ) from None
    array: Features = np.ndarray(shape, dtype=dtype, buffer=pages)
    if not is_positive_zero(value):
        array.fill(value)
    return array


def full(shape: tuple[int, int], value: float, dtype: Any = np.float32) -> Features:
    """Returns an array of one value; zeros only take memory where they are written or read."""
    if is_positive_zero(value):
        return np.zeros(shape, dtype)
    return np.full(shape, value, dtype)


def is_positive_zero(value: float) -> bool:
    return value == 0 and math.copysign(1.0, value) > 0


# ---- FeatureMatrix: float32 features (D, F) that are read by blocks of rows, and need not be one array.
#
# Features are float64 if a reader was asked for them (`exact`), for models that compare in float64.
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

MEMORY_REMEDY = "Use model=native, lightgbm or xgboost, take fewer queries (data.subset), or free memory."
"""Remedy for features that do not fit into memory as one array."""


class FeatureMatrix(ABC):
    """Read-only features (D, F), float32 unless they are exact; a missing value is NaN."""

    ndim: ClassVar[int] = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

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
        return as_array(self).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        """Returns rows, columns or cells as an array, as NumPy does for a two-dimensional array.

        An index is a whole number, a slice, or a one-dimensional array of row numbers or of booleans; or a
        tuple of one for the rows and one for the columns.
        """
        row_index = index
        column_index: Any = slice(None)
        if isinstance(index, tuple):
            row_index, column_index = index
        rows = np.arange(len(self))[row_index]  # NumPy refuses any other index
        if rows.ndim == 0:
            row = self.gather(rows[np.newaxis])[0]
            cells_of_row: NDArray[np.float32] = row[column_index]
            return cells_of_row
        view = RowView(self, rows)
        is_slice = isinstance(column_index, slice)
        if not len(rows) or (is_slice and column_index == slice(None)):
            return view.rows(0, len(rows))[:, column_index]
        is_paired = not isinstance(row_index, slice) and np.ndim(column_index) == 1
        cells = []
        for start, block in row_blocks(view):
            if is_paired:
                columns = column_index[start : start + len(block)]
                cells.append(block[np.arange(len(block)), columns])
            else:  # a copy, because a view would keep its whole block in memory
                cells.append(block[:, column_index].copy())
        return np.concatenate(cells)


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
    bytes_of_row = max(num_features, 1) * np.dtype(np.float32).itemsize
    return max(BLOCK_BYTES // bytes_of_row, 1)


def row_blocks(
    features: AnyFeatures, rows_per_block: int | None = None
) -> Iterator[tuple[int, Features]]:
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
        stop = min(start + size, num_rows)
        yield start, read_rows(features, start, stop)
        release(features)


def release(features: AnyFeatures) -> None:
    """Releases the memory of files that are mapped into memory, until they are read again.

    Otherwise the resident memory of a process that reads a file once grows by the whole file.
    """
    for array in arrays_of(features):
        # Changes of a private mapping would be lost.
        if (
            is_mapped(array)
            and not array.flags.writeable
            and hasattr(mmap, "MADV_DONTNEED")
        ):
            array.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]


def is_mapped(array: NDArray[Any]) -> bool:
    """Returns whether an array that is not a view is a file that is mapped into memory."""
    return isinstance(array.base, mmap.mmap)


def read_rows(features: AnyFeatures, start: int, stop: int) -> Features:
    """Returns the rows from `start` to before `stop` of an array or a matrix, as a read-only array."""
    if isinstance(features, FeatureMatrix):
        return read_only(np.asarray(features.rows(start, stop)))
    # Not a subclass such as numpy.memmap, which some libraries refuse.
    return read_only(np.asarray(features[start:stop]))


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
    what = f"{num_features} features of {num_documents} documents as one array"
    require_memory(what, features.nbytes, MEMORY_REMEDY)
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
            f"{what} need {num_bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are available. {remedy}"
        )


def read_only(array: NDArray[_Value]) -> NDArray[_Value]:
    """Returns the array, or a read-only view of it if it is writable."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


# ---- RowView: rows of an array or of another matrix, by their numbers, without a copy.
#
# A view of a view refers to the matrix at the bottom, so that views never form chains.


def take_rows(features: AnyFeatures, rows: NDArray[np.int64]) -> AnyFeatures:
    """Returns rows, in the given order, without a copy.

    Returns:
        A read-only slice of an array if the rows are adjacent; the matrix itself if all its rows are taken
        in order; otherwise a RowView.

    >>> features = np.arange(8, dtype=np.float32).reshape(4, 2)
    >>> take_rows(features, np.array([1, 2])).tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    >>> take_rows(features, np.array([2, 3, 0]))
    RowView(shape=(3, 2))
    """
    view = RowView(features, rows)
    adjacent = range_of(view.row_numbers)
    if adjacent is None:
        return view
    if not isinstance(view.base, FeatureMatrix):
        return read_rows(view.base, adjacent.start, adjacent.stop)
    if adjacent == range(len(view.base)):
        return view.base
    return view


def range_of(rows: NDArray[np.int64]) -> range | None:
    """Returns row numbers as a range if each follows the one before; else None."""
    if not len(rows) or (np.diff(rows) != 1).any():
        return None
    first = int(rows[0])
    return range(first, first + len(rows))


class RowView(FeatureMatrix):
    """Rows of another matrix or array.

    Attributes:
        base: the matrix, or the array in C order; never a RowView.
        row_numbers: (n,), rows of `base`.
    """

    def __init__(self, base: AnyFeatures, rows: NDArray[np.int64]) -> None:
        self.base: AnyFeatures = base
        self.row_numbers: NDArray[np.int64] = rows
        if isinstance(base, RowView):
            self.base = base.base
            self.row_numbers = base.row_numbers[rows]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_numbers), int(self.base.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    def rows(self, start: int, stop: int) -> Features:
        numbers = self.row_numbers[start:stop]
        adjacent = range_of(numbers)
        if adjacent is None:
            return gather_rows(self.base, numbers)
        return read_rows(self.base, adjacent.start, adjacent.stop)

    def gather(self, rows: NDArray[np.int64]) -> Features:
        return gather_rows(self.base, self.row_numbers[rows])

    def arrays(self) -> Iterator[NDArray[Any]]:
        yield from arrays_of(self.base)


# ---- StackedRows: arrays or matrices one below the other as one matrix, such as the shards of a store.


def _unwritable(part: AnyFeatures) -> AnyFeatures:
    return part if isinstance(part, FeatureMatrix) else read_only(part)


class StackedRows(FeatureMatrix):
    """The rows of all parts, in the order of the parts.

    Args:
        parts: at least one array in C order or matrix, each (any number of rows, F).

    >>> upper, lower = np.zeros((2, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
    >>> StackedRows([upper, lower])[1:].tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """

    def __init__(self, parts: Sequence[AnyFeatures]) -> None:
        self.parts = tuple(map(_unwritable, parts))
        sizes = [len(part) for part in parts]
        self.row_start = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def shape(self) -> tuple[int, int]:
        num_features = self.parts[0].shape[1]
        return int(self.row_start[-1]), int(num_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(part.dtype for part in self.parts))

    def rows(self, start: int, stop: int) -> Features:
        borders = self.row_start[1:-1]
        first = int(np.searchsorted(borders, start, side="right"))
        last = max(int(np.searchsorted(borders, stop, side="left")), first)
        pieces = []
        for number in range(first, last + 1):
            part = self.parts[number]
            row_start = self.row_start[number]
            begin = max(start - int(row_start), 0)
            end = min(stop - int(row_start), len(part))
            pieces.append(read_rows(part, begin, end))
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces)

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        borders = self.row_start[1:-1]
        number = np.searchsorted(borders, rows, side="right")
        for of_part in np.unique(number):
            slots = np.flatnonzero(number == of_part)
            part = self.parts[of_part]
            rows_of_part = rows[slots] - self.row_start[of_part]
            gathered[slots] = gather_rows(part, rows_of_part)
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
        values: (n,), float32; float64 if they are exact.
        num_features: F.
        absent: value of every cell that is not stored, 0 or NaN.

    Raises:
        DataError: `absent` is another value. The arrays are not checked; see `from_scipy`.

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
            raise DataError(
                f"absent is {absent}; the value of cells that are not stored must be 0 or NaN."
            )
        row_start = np.asarray(row_start, np.int64)
        columns = np.asarray(columns, np.int32)
        dtype = np.float64 if values.dtype == np.float64 else np.float32
        self.row_start: NDArray[np.int64] = read_only(row_start)
        self.columns: NDArray[np.int32] = read_only(columns)
        self.values: NDArray[np.float32] = read_only(np.asarray(values, dtype))
        self.num_features = int(num_features)
        self.absent = float(absent)

    @classmethod
    def of(cls, features: AnyFeatures, absent: float = 0.0) -> SparseRows:
        """Returns the sparse form of a float32 array or matrix: the cells whose value is not `absent`.

        >>> SparseRows.of(np.array([[0, 2], [0, 0]], dtype=np.float32)).values
        array([2.], dtype=float32)
        """
        counts = [np.zeros(1, np.int64)]
        columns = [np.empty(0, np.int32)]
        values = [np.empty(0, np.float32)]
        bits_of_absent = np.float32(absent).view(np.uint32)
        for _, block in row_blocks(features):
            is_stored = block.view(np.uint32) != bits_of_absent  # -0 is not 0
            if math.isnan(absent):
                is_stored = ~np.isnan(block)
            rows, of_rows = np.nonzero(is_stored)
            counts.append(np.bincount(rows, minlength=len(block)))
            columns.append(of_rows.astype(np.int32))
            values.append(block[rows, of_rows])
        return cls(
            np.cumsum(np.concatenate(counts)),
            np.concatenate(columns),
            np.concatenate(values),
            features.shape[1],
            absent,
        )

    @classmethod
    def from_scipy(
        cls, matrix: Any, absent: float = 0.0, *, exact: bool = False
    ) -> SparseRows:
        """Returns the features in a sparse matrix or array of SciPy, in any of its formats.

        Args:
            absent: value of the cells that the matrix does not store, 0 or NaN.
            exact: whether float64 values stay float64.
        """
        rows = matrix.tocsr()
        merged = merged_cells(rows.indices[:_CELLS], rows.data[:_CELLS])
        if merged and not exact:
            log.warning(merged_in_words("the sparse matrix", merged))
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        dtype = np.float64 if exact else np.float32
        with np.errstate(over="ignore"):  # infinity is an error of the data set
            values = rows.data.astype(dtype, copy=False)
        return cls(rows.indptr, rows.indices, values, rows.shape[1], absent)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_start) - 1, self.num_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def rows(self, start: int, stop: int) -> Features:
        first, last = self.row_start[[start, stop]]
        sizes = np.diff(self.row_start[start : stop + 1])
        block = full((len(sizes), self.num_features), self.absent, self.dtype)
        row_of_cell = np.repeat(np.arange(len(sizes)), sizes)
        column_of_cell = self.columns[first:last]
        block[row_of_cell, column_of_cell] = self.values[first:last]
        return block

    def gather(self, rows: NDArray[np.int64]) -> Features:
        return self.take(rows).rows(0, len(rows))

    def arrays(self) -> Iterator[NDArray[Any]]:
        yield from (self.row_start, self.columns, self.values)

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        match index:
            case (
                slice(start=None, stop=None, step=None),
                int() | np.integer() as column,
            ):
                return self._column(range(self.num_features)[column])
        return super().__getitem__(index)

    def _column(self, column: int) -> NDArray[np.float32]:
        """Returns the (D,) values of a column from the stored values, without dense rows."""
        values = np.full(len(self), self.absent, dtype=self.dtype)
        stored = np.flatnonzero(self.columns == column)
        rows = np.searchsorted(self.row_start, stored, side="right") - 1
        values[rows] = self.values[stored]
        return values

    def by_columns(self) -> Iterator[NDArray[np.float32]]:
        """Yields the (D,) values of each column, in order; needs the memory of the stored values again."""
        by_column = self.to_scipy().tocsc()
        for start, stop in pairwise(by_column.indptr.tolist()):
            values = np.full(len(self), self.absent, dtype=self.dtype)
            rows = by_column.indices[start:stop]
            values[rows] = by_column.data[start:stop]
            yield values

    def with_column(
        self, rows: NDArray[np.int64], column: int, values: NDArray[np.float32]
    ) -> SparseRows:
        """Returns some rows with other values of one column, (n,), which are stored even if they are absent
        ones.

        >>> matrix = SparseRows.of(np.array([[1, 0, 2], [0, 0, 3]], dtype=np.float32))
        >>> matrix.with_column(np.array([1, 0]), 1, np.array([7, 8], dtype=np.float32))[:]
        array([[0., 7., 3.],
               [1., 8., 2.]], dtype=float32)
        """
        taken = self.take(rows)
        sizes_before = np.diff(taken.row_start)
        of_row = np.repeat(np.arange(len(rows)), sizes_before)
        kept = taken.columns != column
        of_row = of_row[kept]
        columns = taken.columns[kept]
        is_before = columns < column
        before = np.bincount(of_row[is_before], minlength=len(rows))
        sizes = np.bincount(of_row, minlength=len(rows))
        # np.insert takes positions in the array before the insertion.
        slots = np.cumsum(sizes) - sizes + before
        row_start = np.concatenate([[0], np.cumsum(sizes + 1)])
        columns = np.insert(columns, slots, np.int32(column))
        new_values = np.insert(taken.values[kept], slots, values)
        return SparseRows(
            row_start, columns, new_values, self.num_features, self.absent
        )

    def take(self, rows: NDArray[np.int64] | slice) -> SparseRows:
        """Returns a copy of the given rows, in the given order."""
        taken = self._as_csr()[rows]
        return SparseRows(
            taken.indptr, taken.indices, taken.data, self.num_features, self.absent
        )

    def to_scipy(self) -> csr_matrix[np.float32]:
        """Returns the stored values as a matrix of SciPy, which shares `columns` and `values`.

        The cells that SciPy regards as 0 have the value `absent`; for NaN the library must regard cells that
        are not stored as missing.
        """
        matrix = self._as_csr()
        matrix.has_sorted_indices = matrix.has_canonical_format = (
            True  # or a library sorts read-only arrays
        )
        return matrix

    def _as_csr(self) -> csr_matrix[np.float32]:
        from scipy.sparse import csr_matrix

        arrays = (self.values, self.columns, self.row_start)
        return csr_matrix(arrays, shape=self.shape, copy=False)


def stacked(parts: Sequence[AnyFeatures]) -> AnyFeatures:
    """Returns the rows of all parts, in the order of the parts; SparseRows if all parts are sparse.

    Args:
        parts: at least one, each (any number of rows, F).
    """
    sparse = [part for part in map(csr_of, parts) if part is not None]
    if len(sparse) < len(parts):
        return StackedRows(parts)
    from scipy.sparse import vstack

    matrix = vstack([part.to_scipy() for part in sparse])
    is_exact = matrix.dtype == np.float64
    return SparseRows.from_scipy(matrix, sparse[0].absent, exact=is_exact)


def csr_of(features: AnyFeatures) -> SparseRows | None:
    """Returns the sparse form of features that are stored as SparseRows; None for all others.

    The rows of a RowView are copied; the copy has the size of the stored values.
    """
    if isinstance(features, RowView) and isinstance(features.base, SparseRows):
        return features.base.take(features.row_numbers)
    return features if isinstance(features, SparseRows) else None


def is_sparse(features: AnyFeatures) -> bool:
    """Returns whether features have a sparse form, without copying them as `csr_of` may do."""
    return isinstance(
        features.base if isinstance(features, RowView) else features, SparseRows
    )


def in_float32(features: AnyFeatures) -> AnyFeatures:
    """Returns features rounded to float32: the same, unless they are exact."""
    if features.dtype == np.float32:
        return features
    sparse = csr_of(features)
    if sparse is None:
        return as_array(features).astype(np.float32)
    return SparseRows(
        sparse.row_start,
        sparse.columns,
        sparse.values.astype(np.float32),
        sparse.num_features,
        sparse.absent,
    )


_BITS_OF_NAN = np.float32(np.nan).view(np.uint32)


def with_one_nan(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns values of float32 in which every NaN has the bits of `numpy.nan`: the same array if they do.

    Sign and payload of a NaN say nothing: 0 / 0 has a sign on one machine and none on another.
    """
    is_nan = np.isnan(values)
    bits = values.view(np.uint32)
    if np.all(bits[is_nan] == _BITS_OF_NAN):
        return values
    return np.where(is_nan, np.float32(np.nan), values)


def rows_in_order(features: AnyFeatures, rows: NDArray[np.int64]) -> AnyFeatures:
    """Returns rows of features in another order: a copy of what is in memory, a view of a file."""
    if isinstance(features, np.ndarray) and not is_mapped(features):
        return gather_rows(features, rows)
    if isinstance(features, SparseRows):
        return features.take(rows)
    return take_rows(features, rows)


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
    a NaN equals a NaN.

    >>> dense = np.array([[0, 0, 5], [5, 5, 5]], dtype=np.float32)
    >>> np.concatenate(list(row_segments(dense)))[:, 0].tolist()
    [0, 2, 0]
    >>> np.concatenate(list(row_segments(SparseRows.of(dense))))[:, 0].tolist()
    [0, 2, 0]
    """
    sparse = csr_of(features)
    if sparse is None:
        yield from (_of_array(block) for _, block in row_blocks(features))
        return
    num_stored = max(len(sparse.values), 1)
    size = max(_STORED * len(sparse) // num_stored, 1)
    for start in range(0, len(sparse), size):
        yield _of_sparse(sparse.take(slice(start, start + size)))


def _of_array(block: Features) -> Segments:
    bits = with_one_nan(block).view(np.uint32)
    begins = np.ones(bits.shape, dtype=np.bool_)
    np.not_equal(bits[:, 1:], bits[:, :-1], out=begins[:, 1:])
    _, columns = np.nonzero(begins)
    return np.stack([columns.astype(np.uint32), bits[begins]], axis=1)


def _of_sparse(sparse: SparseRows) -> Segments:
    """Returns the segments from the stored values."""
    rows, columns, bits = _candidates(sparse)
    other_row_next = np.diff(rows) != 0
    other_column_next = np.diff(columns) != 0
    is_last = np.append(other_row_next | other_column_next, True)
    exists = is_last & (columns < sparse.num_features)
    columns = columns[exists]
    bits = bits[exists]
    begins = (columns == 0) | (bits != np.roll(bits, 1))
    cells = np.stack([columns.astype(np.uint32), bits], axis=1)
    segments: Segments = cells[begins]
    return segments


def _candidates(
    sparse: SparseRows,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """Returns rows, columns and bits of the cells where a segment can begin, sorted by cell.

    A segment can only begin at column 0, behind a stored cell, and at one. Of several candidates for the same
    cell, the last one has the bits of the cell. The column behind the last cell of a row does not exist.
    """
    num_rows = len(sparse)
    num_stored = len(sparse.values)
    row = np.repeat(np.arange(num_rows), np.diff(sparse.row_start))
    values_of_absent = np.full(num_rows + num_stored, sparse.absent, np.float32)
    rows = np.concatenate([np.arange(num_rows), row, row])
    first_columns = np.zeros(num_rows, np.int64)
    columns = np.concatenate([first_columns, sparse.columns + 1, sparse.columns])
    values = np.concatenate([values_of_absent, sparse.values])
    bits = with_one_nan(values).view(np.uint32)
    order = np.lexsort((columns, rows))  # stable
    return rows[order], columns[order], bits[order]


# ---- Different values of a column that become equal in float32: dates as 20260104, Unix seconds, ids.
#
# A reader names such a column before the values are lost. The rule, on a sample of the rows:
#
#     whole numbers   any two different values become equal
#     real numbers    at least 1 % of the values become equal to the next larger one, from which they differ
#                     by more than rounding noise. Ordinary features round as well, but keep their order.

log = logging.getLogger("ltrbench")

Pair = tuple[float, float]
"""Two different values that are equal in float32."""

_CELLS = 1 << 14
_SAMPLE = 512
_LARGE_SAMPLE = 1 << 17
_NUM_PARTS = 4
_LAST_WHOLE = 2.0**24  # up to here float32 has every whole number
_NOISE = 2.0**-40
_MERGED_SHARE = 0.01


def merged_pair(values: NDArray[Any]) -> Pair | None:
    """Returns an example of different values of a column, (D,), that become equal; None: they do not.

    >>> merged_pair(np.array([20260103, 20260104, 20260105]))
    (20260103, 20260104)
    >>> merged_pair(np.array([0.1, 0.1 + 1e-9] * 2)) is None
    False
    >>> merged_pair(np.random.default_rng(0).random(10_000)) is None
    True
    """
    if values.dtype.kind not in "fiu" or values.dtype.itemsize < 8:
        return None
    sample = _sampled(values, _SAMPLE)
    is_whole = bool((sample == np.floor(sample)).all())
    if not _may_merge(sample, is_whole):
        return None
    distinct = np.unique(_sampled(values, _LARGE_SAMPLE) if is_whole else sample)
    with np.errstate(over="ignore"):
        singles = distinct.astype(np.float32)
    lower = distinct[:-1]
    upper = distinct[1:]
    is_merged = singles[:-1] == singles[1:]
    num_needed = 1.0
    if not is_whole:
        is_merged &= upper - lower > np.abs(upper) * _NOISE
        num_needed = max(1.0, _MERGED_SHARE * len(distinct))
    if is_merged.sum() < num_needed:
        return None
    first = int(np.argmax(is_merged))
    return lower[first].item(), upper[first].item()


def _may_merge(sample: NDArray[Any], is_whole: bool) -> bool:
    """Returns whether float32 may not represent the values of a column from which these are taken."""
    if is_whole:
        return bool((np.abs(sample) > _LAST_WHOLE).any())
    with np.errstate(over="ignore"):
        return bool((sample != sample.astype(np.float32)).any())


def _sampled(values: NDArray[Any], size: int) -> NDArray[Any]:
    """Returns the finite values in rows of a few parts, because the rows of a query follow each other."""
    if len(values) > size:
        size_of_part = size // _NUM_PARTS
        starts = np.linspace(0, len(values) - size_of_part, _NUM_PARTS).astype(int)
        parts = [values[start : start + size_of_part] for start in starts]
        values = np.concatenate(parts)
    finite: NDArray[Any] = values[np.isfinite(values)]
    return finite


def merged_columns(features: NDArray[Any]) -> dict[int, Pair]:
    """Returns column -> example of the columns of an array, (D, F), whose values become equal."""
    if features.dtype.kind not in "fiu" or features.dtype.itemsize < 8:
        return {}
    pairs = {column: merged_pair(values) for column, values in enumerate(features.T)}
    return {column: pair for column, pair in pairs.items() if pair is not None}


def merged_cells(columns: NDArray[Any], values: NDArray[Any]) -> dict[int, Pair]:
    """Returns the same for the (n,) cells of several columns."""
    is_exact = values.dtype.kind not in "fiu" or values.dtype.itemsize < 8
    if is_exact or not len(values):
        return {}
    order = np.argsort(columns, kind="stable")
    numbers, starts = np.unique(columns[order], return_index=True)
    of_columns = np.split(values[order], starts[1:])
    pairs = map(merged_pair, of_columns)
    named = zip(numbers.tolist(), pairs, strict=True)
    return {column: pair for column, pair in named if pair is not None}


def merged_in_words(source: str, merged: Mapping[Any, Pair | None]) -> str:
    """Returns a warning that names the columns whose values become equal, with an example of each."""
    named = []
    for name, pair in merged.items():
        if pair is None:
            named.append(str(name))
        else:
            named.append(f"{name} ({pair[0]!r} and {pair[1]!r})")
    shown = ", ".join(named[:_SHOWN])
    if len(named) > _SHOWN:
        shown += f" and {len(named) - _SHOWN} more"
    return (
        f"{source}: different values of {shown} become equal in float32, which features are stored in. "
        "Subtract the minimum, take a smaller unit, or convert dates to days: data.dates=[COLUMN]."
    )


_SHOWN = 3  # columns in the warning
