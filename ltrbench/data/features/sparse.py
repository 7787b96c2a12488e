"""SparseRows: features of which most cells have one value, stored row by row without these cells (CSR).

The documents of a text or behaviour data set have few of many features. `SparseRows` stores the others not at
all: 60,000 documents with 100 of 100,000 features take 50 MB instead of 24 GB. Its blocks are dense, as those
of every FeatureMatrix, so that code that reads blocks works and gives the same results.

A backend whose library takes CSR uses the stored values:

    if (sparse := csr_of(dataset.features)) is not None:
        library.fit(sparse.to_scipy(), ...)

Shapes: D documents (rows), F features, n stored values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.features.matrix import FEWER_OR_FREE, AnyFeatures, FeatureMatrix, read_only, row_blocks
from ltrbench.data.features.stacked import StackedRows
from ltrbench.data.features.views import RowView, checked_ranges, merged_ranges, row_numbers, take_rows
from ltrbench.errors import DataError
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_CHECKED = 1 << 18
"""Number of columns that are checked at a time."""


class SparseRows(FeatureMatrix):
    """Features in compressed sparse rows (CSR).

    Args:
        row_start: (D + 1,) int64, position of the first stored value of each row, followed by n.
        columns: (n,) int32, column of each stored value, ascending within a row.
        values: (n,) float32.
        num_features: F.
        absent: value of every cell that is not stored, 0 or NaN.

    Raises:
        DataError: An array has another dtype or shape, or a value violates the above.

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
        _check_arrays(row_start, columns, values, num_features)
        if not (absent == 0 or math.isnan(absent)):
            raise DataError(f"absent is {absent}; the value of cells that are not stored must be 0 or NaN.")
        self.row_start: NDArray[np.int64] = read_only(row_start)
        self.columns: NDArray[np.int32] = read_only(columns)
        self.values: NDArray[np.float32] = read_only(values)
        self.num_features = int(num_features)
        self.absent = float(absent)

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

    @property
    def memory_remedy(self) -> str:
        # The other of the two libraries reads sparse features by dense blocks.
        library = "xgboost" if math.isnan(self.absent) else "lightgbm"
        return f"Use model=native or {library}, which read the stored values, {FEWER_OR_FREE}"

    @property
    def stored_bytes(self) -> int:
        """Number of bytes of the three arrays."""
        return self.row_start.nbytes + self.columns.nbytes + self.values.nbytes

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
        place = np.full(self.num_features, -1, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        places = place[self.columns]
        kept = places >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        taken = self._sharing_checks(before[self.row_start], places[kept], self.values[kept])
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
        places = np.cumsum(sizes) - sizes + before
        row_start = np.concatenate([[0], np.cumsum(sizes + 1)])
        columns = np.insert(self.columns[stored], places, np.int32(column))
        return self._sharing_checks(row_start, columns, np.insert(self.values[stored], places, values))

    def cell(self, position: int) -> tuple[int, int]:
        """Returns the row and the column of the stored value at a position."""
        row = int(np.searchsorted(self.row_start, position, side="right")) - 1
        return row, int(self.columns[position])

    def slice(self, ranges: ArrayLike) -> SparseRows:
        """Returns the rows of the ranges, in the given order; adjacent rows share the stored values.

        Args:
            ranges: (n, 2) int, first row of each range and the row after its last row.
        """
        checked = merged_ranges(checked_ranges(ranges, len(self)))
        rows = row_numbers(checked)
        row_start = np.concatenate([[0], np.cumsum(self.row_start[rows + 1] - self.row_start[rows])])
        stored = self.row_start[checked]
        if len(stored) == 1:
            columns, values = self.columns[slice(*stored[0])], self.values[slice(*stored[0])]
        else:
            columns, values = _taken(self.columns, stored), _taken(self.values, stored)
        return self._sharing_checks(row_start, columns, values)

    def without_absent(self) -> SparseRows:
        """Returns the matrix without stored values that equal `absent`; equal matrices are then equal arrays.

        -0 does not equal 0.
        """
        kept = _is_stored(self.values, self.absent)
        if kept.all():
            return self
        before = np.concatenate([[0], np.cumsum(kept)])
        return self._sharing_checks(before[self.row_start], self.columns[kept], self.values[kept])

    def to_scipy(self) -> csr_matrix[np.float32]:
        """Returns the stored values as a matrix of SciPy, which shares `columns` and `values`.

        The cells that SciPy regards as 0 have the value `absent`; for NaN the library must regard cells that
        are not stored as missing.
        """
        from scipy.sparse import csr_matrix

        matrix = csr_matrix((self.values, self.columns, self.row_start), shape=self.shape, copy=False)
        matrix.has_sorted_indices = matrix.has_canonical_format = True  # or a library sorts read-only arrays
        return matrix

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
        shape = len(sizes), self.num_features
        # The system only provides memory for zeros that are written or read.
        is_zero = self.absent == 0 and math.copysign(1.0, self.absent) > 0
        block = np.zeros(shape, np.float32) if is_zero else np.full(shape, self.absent, np.float32)
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
        return _stacked([part for part in features.parts if isinstance(part, SparseRows)])
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
    """Returns rows of features in another order: a copy of sparse rows, otherwise a view."""
    ranges = np.stack([rows, rows + 1], axis=1)
    return features.slice(ranges) if isinstance(features, SparseRows) else take_rows(features, ranges)


def _stacked(parts: list[SparseRows]) -> SparseRows:
    """Returns a copy of sparse matrices with the same `absent`, one below the other."""
    columns = np.concatenate([part.columns for part in parts])
    return joined_rows(parts, columns, np.concatenate([part.values for part in parts]))


def joined_rows(
    parts: Sequence[SparseRows], columns: NDArray[np.int32], values: NDArray[np.float32]
) -> SparseRows:
    """Returns sparse matrices with the same `absent`, one below the other.

    Args:
        columns: columns of all parts, in order.
        values: values of all parts, in order.
    """
    sizes = np.concatenate([np.diff(part.row_start) for part in parts])
    row_start = np.concatenate([[0], np.cumsum(sizes)])
    return parts[0]._sharing_checks(row_start, columns, values)


def _taken(stored: NDArray[Any], ranges: NDArray[np.int64]) -> NDArray[Any]:
    """Returns the values in ranges of positions, in order."""
    taken = np.empty((ranges[:, 1] - ranges[:, 0]).sum(), dtype=stored.dtype)
    at = 0
    for begin, end in ranges.tolist():
        taken[at : at + end - begin] = stored[begin:end]
        at += end - begin
    return taken


def _is_stored(block: NDArray[np.float32], absent: float) -> NDArray[np.bool_]:
    """Returns which cells have another value than `absent`; -0 is not 0."""
    if math.isnan(absent):
        return ~np.isnan(block)
    other: NDArray[np.bool_] = block.view(np.uint32) != np.float32(absent).view(np.uint32)
    return other


def _check_arrays(
    row_start: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32], num_features: int
) -> None:
    """Raises DataError if the arrays are not those of compressed sparse rows."""
    arrays: dict[str, tuple[NDArray[Any], type]] = {
        "row_start": (row_start, np.int64),
        "columns": (columns, np.int32),
        "values": (values, np.float32),
    }
    for name, (array, dtype) in arrays.items():
        if array.ndim != 1 or array.dtype != dtype:
            raise DataError(
                f"{name} has the dtype {array.dtype} and the shape {array.shape}; it must be one-dimensional "
                f"{np.dtype(dtype)}."
            )
    if (
        not len(row_start)
        or row_start[0] != 0
        or row_start[-1] != len(columns)
        or (np.diff(row_start) < 0).any()
    ):
        raise DataError(
            f"row_start is {np.array2string(row_start, threshold=6)}; it must start with 0, never decrease, "
            f"and end with the number of columns, {len(columns)}."
        )
    if len(values) != len(columns):
        raise DataError(f"values: {len(values)} values for {len(columns)} columns; pass one value each.")
    for first in range(0, len(columns), _CHECKED):
        _check_columns(row_start, columns, num_features, first)


def _check_columns(
    row_start: NDArray[np.int64], columns: NDArray[np.int32], num_features: int, first: int
) -> None:
    """Raises DataError if one of the columns from `first` on is out of bounds or not ascending in its row."""
    part = columns[max(first - 1, 0) : first + _CHECKED]
    begin = max(first - 1, 0)
    wrong = part.view(np.uint32) >= num_features  # negative numbers as well
    repeated = np.empty(len(part), dtype=np.bool_)
    repeated[0] = False
    np.less_equal(part[1:], part[:-1], out=repeated[1:])
    starts = row_start[np.searchsorted(row_start, begin) : np.searchsorted(row_start, begin + len(part))]
    repeated[starts - begin] = False
    wrong |= repeated
    if wrong.any():
        place = begin + int(wrong.argmax())
        row = int(np.searchsorted(row_start, place, side="right")) - 1
        raise DataError(
            f"columns[{place}] is {columns[place]}, in row {row}; the columns of a row must be ascending, "
            f"from 0 to {num_features - 1}."
        )
