"""RowView: rows of an array or of another matrix, by ranges of row numbers, without a copy.

A split of a data set consists of whole queries, each a range of adjacent rows. Consecutive queries are merged
into one range. A view of a view refers to the matrix at the bottom, so that views never form chains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.features.matrix import (
    AnyFeatures,
    FeatureMatrix,
    arrays_of,
    gather_rows,
    read_only,
    read_rows,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features

RowRanges = NDArray[np.int64]  # (n, 2), first row of each range and the row after its last row


def take_rows(features: AnyFeatures, ranges: ArrayLike) -> AnyFeatures:
    """Returns the rows of the ranges, in the given order, without a copy.

    Args:
        ranges: (n, 2) int, first row of each range and the row after its last row.

    Returns:
        A read-only slice of an array if the rows are adjacent; the matrix itself if all its rows are taken
        in order; otherwise a RowView.

    Raises:
        DataError: A range ends before it starts, or is out of bounds.

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
        checked = checked_ranges(ranges, len(base))
        if isinstance(base, RowView):
            checked = base.ranges_within(checked)
            base = base.base
        self.base: AnyFeatures = base if isinstance(base, FeatureMatrix) else read_only(base)
        self.ranges: RowRanges = merged_ranges(checked)
        self._row_start = np.concatenate([[0], np.cumsum(self.ranges[:, 1] - self.ranges[:, 0])])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._row_start[-1]), int(self.base.shape[1])

    @property
    def memory_remedy(self) -> str:
        return self.base.memory_remedy if isinstance(self.base, FeatureMatrix) else super().memory_remedy

    def rows(self, start: int, stop: int) -> Features:
        ranges = self.ranges_within(np.array([[start, stop]]))
        if len(ranges) == 1:
            return read_rows(self.base, *ranges[0].tolist())
        return gather_rows(self.base, row_numbers(ranges))

    def gather(self, rows: NDArray[np.int64]) -> Features:
        place = np.searchsorted(self._row_start, rows, side="right") - 1
        return gather_rows(self.base, self.ranges[place, 0] + rows - self._row_start[place])

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


def checked_ranges(ranges: ArrayLike, num_rows: int) -> RowRanges:
    checked = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
    wrong = np.flatnonzero((checked[:, 0] < 0) | (checked[:, 1] < checked[:, 0]) | (checked[:, 1] > num_rows))
    if wrong.size:
        raise DataError(
            f"ranges[{wrong[0]}] is {checked[wrong[0]].tolist()}; a range must start at row 0 or later, and "
            f"end at its start or later, at row {num_rows} at the latest."
        )
    return checked


def merged_ranges(ranges: RowRanges) -> RowRanges:
    """Returns the ranges without empty ones, and with ranges that continue each other as one."""
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
