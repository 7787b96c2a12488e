"""Histograms: for every bin of every column, the sum of gradients and hessians of a leaf's documents in it.

    histogram[bin_start[c] + b] = sum of packed[d] over the leaf's documents d whose bin in column c is b

A document's gradient and hessian are rounded to integers and packed in one 64-bit integer, the gradient in
the upper 32 bits, signed, and the hessian in the lower, unsigned:

    packed[d] = round(g_d / gradient_unit) * 2^32 + round(h_d / hessian_unit)
    gradient_unit = sum |g| / (2^31 - 1 - D),   hessian_unit = sum h / (2^32 - 1 - D)

Rounding adds at most 1/2 a document, so that the sum over any documents fits its half. This buys three things
over two float64 sums: one addition a cell instead of two, in 0.6 of the time [measured on 200,000 x 136];
sums that no order of documents or threads changes; and a sibling that is exactly parent minus child. A unit
is about 1e-9 of the sum, so that cuts are those of float64 but for near ties. Leaf values come from the
unrounded gradients.

Documents are not counted here: that would be a second addition a cell, half as much time again [measured].
`splitting` counts them for the few columns where it matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.tree.binning import BinnedFeatures, Rows, read_words
from ltrbench.shapes import Gradients, Hessians

Packed = NDArray[np.int64]  # (D,), gradient and hessian as integers in one
Histogram = NDArray[np.int64]  # (B,), sums of Packed, the bins of all columns one after the other


class Quantised(NamedTuple):
    """The gradients and hessians of all documents as integers.

    Attributes:
        packed: (D,).
        gradient_unit: what the integer 1 means.
        hessian_unit: likewise.
    """

    packed: Packed
    gradient_unit: float
    hessian_unit: float


def quantise(gradients: Gradients, hessians: Hessians) -> Quantised:
    """Rounds to multiples of units so small that the sums just fit 32 bits each."""
    gradient_unit = _unit(np.abs(gradients), 2**31)
    hessian_unit = _unit(hessians, 2**32)
    whole_hessians = np.rint(hessians / hessian_unit).astype(np.int64)
    packed = (np.rint(gradients / gradient_unit).astype(np.int64) << 32) + whole_hessians
    return Quantised(packed, gradient_unit, hessian_unit)


def _unit(sizes: NDArray[np.float64], limit: int) -> float:
    unit = float(sizes.sum()) / (limit - 1 - len(sizes))
    # Where all are zero, or too small to divide by, any unit will do.
    return unit if unit >= np.finfo(np.float64).tiny else 1.0


def bin_starts(binned: BinnedFeatures) -> NDArray[np.int64]:
    """(C + 1,), where each column's bins begin in a histogram, and B."""
    return np.concatenate([[0], np.cumsum(binned.num_bins)])


_NO_PARENT = np.zeros(0, dtype=np.int64)


def build_histogram(
    binned: BinnedFeatures,
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram = _NO_PARENT,
) -> None:
    """Fills `histogram` with the sums over `rows`, and leaves in `parent` what it has of other documents."""
    build_shares(binned.words, bin_start, rows, packed, histogram, parent, numba.get_num_threads())


DOCUMENTS_SUMMED = 512
"""Documents whose words, up to 32 of each, are read before those of others, and so stay in a near cache."""
WORDS_AT_ONCE = 32
"""Words whose sums one thread holds at a time: 512 kB, which the second cache holds."""


@parallel_kernel
def build_shares(
    words: NDArray[np.uint64],
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram,
    num_threads: int,
) -> None:
    """Fills `histogram`, and takes its sums from `parent`, which is empty where there is none.

    The words are shared out among `num_threads`; a kernel that asked for their number would not be cached.
    """
    num_words = words.shape[1]
    num_shares = shares_of(num_words, num_threads)
    for share in numba.prange(num_shares):
        word_range = words_of_share(share, num_shares, num_words)
        build_share(words, word_range, bin_start, rows, packed, histogram, parent)


@kernel
def shares_of(num_words: int, num_threads: int) -> int:
    """Into how many shares threads divide the words: as many for each thread, and none too large."""
    return num_threads * ((num_words - 1) // (num_threads * WORDS_AT_ONCE) + 1)


@kernel
def words_of_share(share: int, num_shares: int, num_words: int) -> tuple[int, int]:
    """The first word of a share, and the end of its last."""
    return share * num_words // num_shares, (share + 1) * num_words // num_shares


@kernel
def build_share(
    words: NDArray[np.uint64],
    word_range: tuple[int, int],
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """The part of `build_shares` for the words of a range of each document."""
    first, end = word_range
    sums = np.zeros((end - first, 8 * 256), dtype=np.int64)
    values, ahead = np.empty(DOCUMENTS_SUMMED, dtype=np.int64), np.empty(DOCUMENTS_SUMMED, dtype=np.uint64)
    for start in range(0, len(rows), DOCUMENTS_SUMMED):
        block = rows[start : start + DOCUMENTS_SUMMED]
        for i in range(len(block)):
            values[i] = packed[block[i]]
        for word in range(first, end):
            read_words(words, word, block, ahead)
            _add(ahead[: len(block)], values, sums[word - first])
    for c in range(8 * first, min(8 * end, len(bin_start) - 1)):
        sums_of_column = sums[c // 8 - first, 256 * (c % 8) :][: bin_start[c + 1] - bin_start[c]]
        _put(sums_of_column, histogram[bin_start[c] :])
        _take(sums_of_column, parent[bin_start[c] :])


@inlined_kernel
def _add(ahead: NDArray[np.uint64], values: Packed, sums: NDArray[np.int64]) -> None:
    """Adds to the histograms of a word's eight columns, of 256 bins: 16 kB, which the nearest cache holds."""
    for i in range(len(ahead)):
        word, value = ahead[i], values[i]
        for lane in range(8):
            # Unsigned, because a signed index is tested for wrap-around at every access.
            sums[np.uint64(256 * lane) + (word & np.uint64(255))] += value
            word >>= np.uint64(8)


@inlined_kernel
def _put(sums: Histogram, histogram: Histogram) -> None:
    for b in range(min(len(sums), len(histogram))):
        histogram[b] = sums[b]


@inlined_kernel
def _take(sums: Histogram, parent: Histogram) -> None:
    for b in range(min(len(sums), len(parent))):
        parent[b] -= sums[b]
