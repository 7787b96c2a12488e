"""Partition: the documents of a leaf that is cut, shared out between the two leaves below.

Those with a bin of at most `last_bin`, and the missing if `missing_left`, go left: they are moved to the
front of the leaf's rows, and all keep their order. Shapes: n documents of the leaf.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.tree.binning import Rows, read_words

DOCUMENTS_MOVED = 1024
"""Documents whose words are read ahead of their use: 8 kB, a quarter of the nearest cache."""
FEW_ROWS = 8_000
"""Documents that one thread has shared out before two have met."""


@parallel_kernel
def partition(
    words: NDArray[np.uint64],
    num_bins: NDArray[np.int64],
    column: int,
    last_bin: int,
    missing_left: bool,
    rows: Rows,
    scratch: Rows,
    num_threads: int,
) -> int:
    """Moves those that go left to the front, all in their order; returns how many they are.

    Args:
        words: (D, W), as in BinnedFeatures.
        num_bins: (C,), likewise.
        column: the column of the cut.
        last_bin: the last on the left.
        missing_left: whether missing values go left.
        rows: (n,).
        scratch: (n,) or longer.
        num_threads: that share out a part each.
    """
    cut = column, last_bin, num_bins[column] - 1, int(missing_left)
    if len(rows) < FEW_ROWS:
        num_left = _share_out(words, cut, rows, scratch)
        _copy(scratch, rows[num_left:])
        return num_left
    num_left_of = np.empty(num_threads, dtype=np.int64)
    for part in numba.prange(num_threads):
        first, end = part * len(rows) // num_threads, (part + 1) * len(rows) // num_threads
        num_left_of[part] = _share_out(words, cut, rows[first:end], scratch[first:end])
    return _join(num_left_of, rows, scratch)


@inlined_kernel
def _join(num_left_of: NDArray[np.int64], rows: Rows, scratch: Rows) -> int:
    """Puts together what `_share_out` did to each part; returns how many go left."""
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
def _share_out(words: NDArray[np.uint64], cut: tuple[int, int, int, int], rows: Rows, scratch: Rows) -> int:
    """Moves those that go left to the front of rows, and the others to scratch; returns how many go left."""
    column, shift = cut[0], np.uint64(8 * (cut[0] % 8))
    last_bin, missing_bin, missing_left = np.uint64(cut[1]), np.uint64(cut[2]), np.uint64(cut[3])
    num_left, num_right = np.uint64(0), np.uint64(0)
    ahead = np.empty(DOCUMENTS_MOVED, dtype=np.uint64)
    for start in range(0, len(rows), DOCUMENTS_MOVED):
        block = rows[start : start + DOCUMENTS_MOVED]
        read_words(words, column // 8, block, ahead)
        for i in range(len(block)):
            row, b = block[i], (ahead[i] >> shift) & np.uint64(255)
            goes_left = missing_left if b == missing_bin else np.uint64(b <= last_bin)
            # Written to both sides and kept on one, so that there is no branch to guess.
            rows[num_left] = row
            scratch[num_right] = row
            num_left += goes_left
            num_right += np.uint64(1) - goes_left
    return int(np.int64(num_left))


@kernel
def _copy(source: Rows, target: Rows) -> None:
    """Fills the target from the front, which may be a part of the source before it."""
    for i in range(len(target)):
        target[i] = source[i]
