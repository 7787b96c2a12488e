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

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.native.binning import BinnedFeatures
from ltrbench.native.lambdas import Gradients, Hessians

Rows = NDArray[np.uint32]  # (n,), the documents of a leaf, rising
Packed = NDArray[np.int64]  # (D,), gradient and hessian as integers in one
Histogram = NDArray[np.int64]  # (B,), sums of Packed, the bins of all columns one after the other


class Quantised(NamedTuple):
    """The gradients and hessians of all documents as integers.

    Attributes:
        packed: (D,).
        gradient_unit: what the integer 1 means.
        hessian_unit: likewise.
        largest_hessian: the largest integer that a document's hessian became.
    """

    packed: Packed
    gradient_unit: float
    hessian_unit: float
    largest_hessian: int


def quantise(gradients: Gradients, hessians: Hessians) -> Quantised:
    """Rounds to multiples of units so small that the sums just fit 32 bits each."""
    gradient_unit = _unit(np.abs(gradients), 2**31)
    hessian_unit = _unit(hessians, 2**32)
    whole_hessians = np.rint(hessians / hessian_unit).astype(np.int64)
    packed = (np.rint(gradients / gradient_unit).astype(np.int64) << 32) + whole_hessians
    return Quantised(packed, gradient_unit, hessian_unit, int(whole_hessians.max()))


def _unit(sizes: NDArray[np.float64], limit: int) -> float:
    unit = float(sizes.sum()) / (limit - 1 - len(sizes))
    # Where all are zero, or too small to divide by, any unit will do.
    return unit if unit >= np.finfo(np.float64).tiny else 1.0


def bin_starts(binned: BinnedFeatures) -> NDArray[np.int64]:
    """(C + 1,), where each column's bins begin in a histogram, and B."""
    return np.concatenate([[0], np.cumsum(binned.num_bins)])


def reference_histogram(
    bins: NDArray[np.uint8], bin_start: NDArray[np.int64], rows: Rows, packed: Packed
) -> Histogram:
    """The specification, on (C, D) bins."""
    histogram = np.zeros(int(bin_start[-1]), dtype=np.int64)
    for c in range(len(bins)):
        np.add.at(histogram, bin_start[c] + bins[c, rows], packed[rows])
    return histogram


def build_histogram(
    binned: BinnedFeatures, bin_start: NDArray[np.int64], rows: Rows, packed: Packed, histogram: Histogram
) -> None:
    """Fills `histogram` with the sums over `rows`."""
    build(binned.words, bin_start, rows, packed, histogram, _NO_PARENT)


def build_and_subtract(
    binned: BinnedFeatures,
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """Fills `histogram` with the sums over `rows`, and leaves in `parent` what it has of other documents."""
    build(binned.words, bin_start, rows, packed, histogram, parent)


_NO_PARENT = np.zeros(0, dtype=np.int64)
BLOCK = 1024
"""Documents whose words are read ahead of their use: 8 kB, a quarter of the nearest cache."""
FEW_WORDS = 8_000
"""Words of a leaf's documents that one thread has summed before two have met and shared them out."""


@parallel_kernel
def build(
    words: NDArray[np.uint64],
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """Fills `histogram`, and takes its sums from `parent`, which is empty where there is none."""
    packed_of_row = _gather(packed, rows)
    if len(rows) * len(words) < FEW_WORDS:
        for group in range(len(words)):
            _build_columns(np.uint64(group), words[group], bin_start, rows, packed_of_row, histogram, parent)
    else:
        for group in numba.prange(len(words)):
            _build_columns(np.uint64(group), words[group], bin_start, rows, packed_of_row, histogram, parent)


@kernel
def _build_columns(
    group: np.uint64,
    words: NDArray[np.uint64],
    bin_start: NDArray[np.int64],
    rows: Rows,
    packed_of_row: Packed,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """The part of `build` for the eight columns of a word."""
    sums = _sums_of_word(words, rows, packed_of_row)
    first = 8 * int(group)
    for c in range(first, min(first + 8, len(bin_start) - 1)):
        sums_of_column = sums[c - first, : bin_start[c + 1] - bin_start[c]]
        _put(sums_of_column, histogram[bin_start[c] :])
        _take(sums_of_column, parent[bin_start[c] :])


@kernel
def _gather(packed: Packed, rows: Rows) -> Packed:
    """packed[rows]; as a loop, because NumPy's indexing takes seconds to compile."""
    gathered = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        gathered[i] = packed[rows[i]]
    return gathered


@kernel
def _put(sums: Histogram, histogram: Histogram) -> None:
    for b in range(min(len(sums), len(histogram))):
        histogram[b] = sums[b]


@kernel
def _take(sums: Histogram, parent: Histogram) -> None:
    for b in range(min(len(sums), len(parent))):
        parent[b] -= sums[b]


@kernel
def _sums_of_word(words: NDArray[np.uint64], rows: Rows, packed_of_row: Packed) -> NDArray[np.int64]:
    """(8, 256), a histogram of the eight columns of a word: 16 kB, which the nearest cache holds."""
    sums = np.zeros(8 * 256, dtype=np.int64)
    ahead = np.empty(BLOCK, dtype=np.uint64)
    for first in range(0, len(rows), BLOCK):
        block = rows[first : first + BLOCK]
        packed = packed_of_row[first : first + BLOCK]
        # In a loop of their own many words are waited for at once; between additions to the sums it would be
        # one after the other, three times slower on a sparse leaf [measured].
        for i in range(len(block)):
            ahead[i] = words[block[i]]
        for i in range(len(block)):
            word, value = ahead[i], packed[i]
            for lane in range(8):
                # Unsigned, because a signed index is tested for wrap-around at every access.
                sums[np.uint64(256 * lane) + (word & np.uint64(255))] += value
                word >>= np.uint64(8)
    return sums.reshape(8, 256)
