"""Histograms from sparse bins, the same as those of `histogram` from dense bins.

    1  the cells of all stored bins: lanes are summed like dense columns, listed cells one by one
    2  the cells of default bins: the sum over the leaf minus the sums of the column's other bins
    3  if there is a parent, its histogram minus this one becomes that of the sibling

Threads divide the words, and the columns into ranges of equal numbers of listed cells, so that no two threads
write the same cell. Shapes: B histogram cells of C columns.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.native.tree.binning import Rows
from ltrbench.native.tree.histogram import (
    Histogram,
    Packed,
    shares_of,
    sum_words,
    words_of_share,
)
from ltrbench.native.tree.sparse.layout import NO_CELL, SparseBins, SparseLayout, first_listed

_NO_PARENT = np.zeros(0, dtype=np.int64)


def build_sparse_histogram(
    binned: SparseBins, rows: Rows, packed: Packed, histogram: Histogram, parent: Histogram = _NO_PARENT
) -> None:
    """Writes the sums over `rows` to `histogram`, and subtracts them from `parent` if one is given.

    Args:
        binned: the data set.
        rows: (n,), documents of the leaf.
        packed: (D,).
        histogram: (B,), output.
        parent: (B,), histogram of the parent, which becomes that of the sibling; empty: none.
    """
    _build(binned.words, binned.layout, rows, packed, histogram, parent, numba.get_num_threads())


@parallel_kernel
def _build(
    words: NDArray[np.uint64],
    layout: SparseLayout,
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram,
    num_threads: int,
) -> None:
    total = sum_stored(words, layout, rows, packed, histogram, num_threads)
    num_columns = len(layout.default_bin)
    for part in numba.prange(num_threads):
        columns = part * num_columns // num_threads, (part + 1) * num_columns // num_threads
        complete_defaults(layout, columns, total, histogram, parent)


@parallel_kernel
def sum_stored(
    words: NDArray[np.uint64],
    layout: SparseLayout,
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    num_threads: int,
) -> int:
    """Writes the sums of all stored bins, and zeros for default bins; returns the sum over the leaf."""
    for part in numba.prange(num_threads):
        columns = _columns_of_part(layout, part, num_threads), _columns_of_part(layout, part + 1, num_threads)
        _sum_listed(layout, columns, rows, packed, histogram)
    num_words = words.shape[1]
    num_shares = shares_of(num_words, num_threads)
    for share in numba.prange(num_shares):
        _sum_lanes(words, layout, words_of_share(share, num_shares, num_words), rows, packed, histogram)
    return _sum_of(packed, rows)


@kernel
def _columns_of_part(layout: SparseLayout, part: int, num_parts: int) -> int:
    """Returns the first column of a part; parts have similar numbers of listed cells."""
    if part == num_parts:
        return len(layout.default_bin)
    num_before = part * layout.listed_before[-1] // num_parts
    low, high = 0, len(layout.default_bin)
    while low < high:
        middle = (low + high) // 2
        if layout.listed_before[middle] < num_before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _sum_of(packed: Packed, rows: Rows) -> int:
    total = 0
    for i in range(len(rows)):
        total += packed[np.uint64(rows[i])]
    return int(total)


@kernel
def _sum_listed(
    layout: SparseLayout, columns: tuple[int, int], rows: Rows, packed: Packed, histogram: Histogram
) -> None:
    """Writes zeros to all cells of a range of columns, and adds the listed cells of `rows`."""
    first, end = np.uint64(layout.bin_start[columns[0]]), np.uint64(layout.bin_start[columns[1]])
    histogram[first:end] = 0
    if layout.listed_before[columns[0]] == layout.listed_before[columns[1]]:
        return
    for i in range(len(rows)):
        value = packed[np.uint64(rows[i])]
        place, stop = first_listed(layout, rows[i], first)
        while place < stop and np.uint64(layout.cells[place]) < end:
            histogram[np.uint64(layout.cells[place])] += value
            place += np.uint64(1)


@kernel
def _sum_lanes(
    words: NDArray[np.uint64],
    layout: SparseLayout,
    word_range: tuple[int, int],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
) -> None:
    first, end = word_range
    sums = sum_words(words, word_range, rows, packed)
    for lane in range(8 * first, min(8 * end, len(layout.cell_of_byte))):
        for byte in range(1, 256):
            cell = layout.cell_of_byte[lane, byte]
            if cell != NO_CELL:
                histogram[cell] = sums[lane // 8 - first, 256 * (lane % 8) + byte]


@kernel
def complete_defaults(
    layout: SparseLayout, columns: tuple[int, int], total: int, histogram: Histogram, parent: Histogram
) -> None:
    """Writes the sums of the default bins of a range of columns; subtracts all cells from the parent's."""
    for c in range(columns[0], columns[1]):
        first, end = np.uint64(layout.bin_start[c]), np.uint64(layout.bin_start[c + 1])
        rest = np.int64(total)
        for cell in range(first, end):
            rest -= histogram[np.uint64(cell)]
        histogram[first + np.uint64(layout.default_bin[c])] = rest
    first, end = np.uint64(layout.bin_start[columns[0]]), np.uint64(layout.bin_start[columns[1]])
    if len(parent) > 0:
        for cell in range(first, end):
            parent[np.uint64(cell)] -= histogram[np.uint64(cell)]
