"""Partition: moves the documents of a split leaf to its two children.

Documents with a bin of at most `last_bin` go left, as do missing values if `missing_left`. They are moved to
the front of the leaf's rows; the order within both parts does not change. Shapes: n documents of the leaf.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.tree.binning import Rows
from ltrbench.native.tree.sparse.layout import SparseLayout, read_column

DOCUMENTS_MOVED = 1024
"""Number of documents whose words are read ahead: 8 kB, a quarter of the L1 cache."""
FEW_ROWS = 8_000
"""Number of documents below which one thread is faster than starting several."""


@parallel_kernel
def partition(
    words: NDArray[np.uint64],
    layout: SparseLayout | None,
    num_bins: NDArray[np.int64],
    column: int,
    last_bin: int,
    missing_left: bool,
    rows: Rows,
    scratch: Rows,
    num_threads: int,
) -> int:
    """Moves the documents that go left to the front of `rows`, keeping the order; returns their number.

    Args:
        words: (D, W), as in BinnedFeatures or SparseBins.
        layout: where sparse bins are stored; None for dense bins.
        num_bins: (C,), as in BinnedFeatures.
        column: column of the split.
        last_bin: last bin that goes left.
        missing_left: whether missing values go left.
        rows: (n,), reordered in place.
        scratch: (n,) or longer, working memory.
        num_threads: number of threads; each partitions one part of the rows.
    """
    cut = column, last_bin, num_bins[column] - 1, int(missing_left)
    if len(rows) < FEW_ROWS:
        num_left = _share_out(words, layout, cut, rows, scratch)
        _copy(scratch, rows[num_left:])
        return num_left
    num_left_of = np.empty(num_threads, dtype=np.int64)
    for part in numba.prange(num_threads):
        first, end = part * len(rows) // num_threads, (part + 1) * len(rows) // num_threads
        num_left_of[part] = _share_out(words, layout, cut, rows[first:end], scratch[first:end])
    return _join(num_left_of, rows, scratch)


@inlined_kernel
def _join(num_left_of: NDArray[np.int64], rows: Rows, scratch: Rows) -> int:
    """Joins the parts after `_share_out`; returns the number of documents that go left."""
    num_parts, num_left = len(num_left_of), 0
    for part in range(num_parts):
        first = part * len(rows) // num_parts
        _copy(rows[first:], rows[num_left : num_left + num_left_of[part]])
        num_left += num_left_of[part]
    place = num_left
    for part in range(num_parts):
        first, end = part * len(rows) // num_parts, (part + 1) * len(rows) // num_parts
        num_right = end - first - num_left_of[part]
        _copy(scratch[first:], rows[place : place + num_right])
        place += num_right
    return num_left


@kernel
def _share_out(
    words: NDArray[np.uint64],
    layout: SparseLayout | None,
    cut: tuple[int, int, int, int],
    rows: Rows,
    scratch: Rows,
) -> int:
    """Moves left-going documents to the front of rows, others to scratch; returns how many go left."""
    last_bin, missing_bin, missing_left = np.uint64(cut[1]), np.uint64(cut[2]), np.uint64(cut[3])
    num_left, num_right = np.uint64(0), np.uint64(0)
    ahead = np.empty(DOCUMENTS_MOVED, dtype=np.uint64)
    for start in range(0, len(rows), DOCUMENTS_MOVED):
        block = rows[start : start + DOCUMENTS_MOVED]
        shift = read_column(words, layout, cut[0], block, ahead)
        for i in range(len(block)):
            row, b = block[i], (ahead[i] >> shift) & np.uint64(255)
            goes_left = missing_left if b == missing_bin else np.uint64(b <= last_bin)
            # Written to both sides but counted on one, which avoids an unpredictable branch.
            rows[num_left] = row
            scratch[num_right] = row
            num_left += goes_left
            num_right += np.uint64(1) - goes_left
    return int(np.int64(num_left))


@kernel
def _copy(source: Rows, target: Rows) -> None:
    """Copies front to back, so that the target may overlap an earlier part of the source's array."""
    for i in range(len(target)):
        target[i] = source[i]
