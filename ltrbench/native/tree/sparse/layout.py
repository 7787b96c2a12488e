"""The layout of sparse bins: where the bin of a document in a column is stored.

The bins of `binning.BinnedFeatures` take one byte per document and column: 50 GB for 500,000 documents with
100,000 columns. In sparse features, most documents have the absent value, 0 or missing, of most features.
The bin of the absent value is the column's default bin, and only the other bins are stored, in one of two
forms. For LightGBM they are exclusive feature bundles and sparse multi-value bins.

    lanes   A byte column of `words`. One lane contains one column, or a bundle of several columns of which no
            training document has more than one outside its default bin (Ke et al., 2017, "LightGBM: A Highly
            Efficient Gradient Boosting Decision Tree", section 4). Byte 0: all columns of the lane have their
            default bin; the other bytes are divided among the columns:

                byte = first_byte[c] + b - (b > default_bin[c])   for a bin b other than default_bin[c]

    lists   For each document, the histogram cells bin_start[c] + b of its other columns with another bin than
            the default, ascending: four bytes each.

Lanes suit columns and bundles for which a quarter of the documents or more have a stored bin: a list would
need four bytes for each. Both forms represent the same bins, columns and thresholds as dense bins; only
columns that can never be split are left out. A histogram of a leaf has one cell for each bin of each column,
as for dense bins. The sum of the default bin is the sum over the leaf minus the sums of the other bins:

    histogram[bin_start[c] + default_bin[c]] = sum of packed[d] - sum of the other cells of c

The sums are integers, so that the difference is exact. Histograms, splits, trees and scores therefore have
the same bits as those of dense bins; bundles have no conflicts (max_conflict_rate is 0 in the paper's terms).
The search for splits loops over columns in the order of features, not over lanes, so that the choice among
equal gains is the same too. Validation documents have no bins here, because they may have several features
of a bundle: `forest.stored` computes their scores from the stored values.

Shapes: D documents, C columns, L lanes, W = ceil(L / 8) words per document, B histogram cells, n listed
cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel
from ltrbench.native.tree.binning import BinnedFeatures, Rows, read_words

IN_LISTS = -1
"""Lane of a column whose bins are in the lists."""
NO_CELL = -1
"""Histogram cell of a byte that no column of the lane uses."""


class SparseLayout(NamedTuple):
    """Where the bins are stored.

    Attributes:
        bin_start: (C + 1,), first histogram cell of each column, followed by B.
        default_bin: (C,), bin of the absent value.
        lane: (C,), byte column of the words; IN_LISTS: none.
        cell_of_byte: (L, 256), histogram cell of each byte of a lane, or NO_CELL.
        row_start: (D + 1,), position of each document's first listed cell, followed by n.
        cells: (n,), listed cells, ascending in a document.
        listed_before: (C + 1,), number of listed cells of the columns before each column, followed by n.
    """

    bin_start: NDArray[np.int64]
    default_bin: NDArray[np.int64]
    lane: NDArray[np.int64]
    cell_of_byte: NDArray[np.int64]
    row_start: NDArray[np.int64]
    cells: NDArray[np.uint32]
    listed_before: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseBins:
    """The sparse features of a data set as bins; has the interface of BinnedFeatures.

    Attributes:
        words: (D, W) uint64; byte l % 8 of words[d, l // 8] is the byte of document d in lane l.
        layout: where the bins are stored.
        edges: (B,) float32, the threshold at the end of each bin; infinity for the last two bins of a column.
        num_bins: (C,), number of bins per column, including the last bin, for missing values.
        feature_of_column: (C,), ascending.
    """

    words: NDArray[np.uint64]
    layout: SparseLayout
    edges: NDArray[np.float32]
    num_bins: NDArray[np.int64]
    feature_of_column: NDArray[np.int64]

    @property
    def num_documents(self) -> int:
        return len(self.words)

    @property
    def num_columns(self) -> int:
        return len(self.num_bins)

    def bins_of(self, column: int, rows: Rows) -> NDArray[np.uint8]:
        """Returns the (n,) bins of these documents in a column."""
        bins = np.empty(len(rows), dtype=np.uint64)
        read_column(self.words, self.layout, column, rows, bins)
        return bins.astype(np.uint8)

    def upper_edges(self, columns: NDArray[np.int64], bins: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the thresholds at the end of these bins of these columns."""
        edges: NDArray[np.float32] = self.edges[self.layout.bin_start[columns] + bins]
        return edges


AnyBins = BinnedFeatures | SparseBins


@kernel
def read_column(
    words: NDArray[np.uint64], layout: SparseLayout | None, column: int, rows: Rows, read: NDArray[np.uint64]
) -> np.uint64:
    """Writes words that contain the bins of `rows` in a column; returns by how many bits to shift them.

    Dense bins have no layout: numba compiles this for them without the other branch.
    """
    if layout is None:
        read_words(words, column // 8, rows, read)
        return np.uint64(8 * (column % 8))
    c = np.uint64(column)
    if layout.lane[c] >= 0:
        _read_lane(words, layout, c, rows, read)
    else:
        _read_lists(layout, c, rows, read)
    return np.uint64(0)


@inlined_kernel
def _read_lane(
    words: NDArray[np.uint64], layout: SparseLayout, c: np.uint64, rows: Rows, read: NDArray[np.uint64]
) -> None:
    lane = np.uint64(layout.lane[c])
    shift = np.uint64(8) * (lane % np.uint64(8))
    first, end = layout.bin_start[c], layout.bin_start[c + np.uint64(1)]
    read_words(words, int(np.int64(lane // np.uint64(8))), rows, read)
    for i in range(len(rows)):
        cell = layout.cell_of_byte[lane, (read[i] >> shift) & np.uint64(255)]
        read[i] = np.uint64(cell - first if first <= cell < end else layout.default_bin[c])


@inlined_kernel
def _read_lists(layout: SparseLayout, c: np.uint64, rows: Rows, read: NDArray[np.uint64]) -> None:
    first, end = np.uint64(layout.bin_start[c]), np.uint64(layout.bin_start[c + np.uint64(1)])
    for i in range(len(rows)):
        place, stop = first_listed(layout, rows[i], first)
        read[i] = np.uint64(layout.default_bin[c])
        if place < stop and np.uint64(layout.cells[place]) < end:
            read[i] = np.uint64(layout.cells[place]) - first


@kernel
def first_listed(layout: SparseLayout, row: np.uint32, cell: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns the position of a document's first listed cell at or after `cell`, and the end of its list."""
    d = np.uint64(row)
    low, stop = np.uint64(layout.row_start[d]), np.uint64(layout.row_start[d + np.uint64(1)])
    high = stop
    while low < high:
        middle = (low + high) >> np.uint64(1)
        if np.uint64(layout.cells[middle]) < cell:
            low = middle + np.uint64(1)
        else:
            high = middle
    return low, stop
