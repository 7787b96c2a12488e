"""Scores of documents from their bins, during a fit: without the features, in a quarter of their memory.

The thresholds of the trees of a fit are thresholds of its bins. All values of a bin go the same way at such a
threshold, so that the largest of them, the threshold at the end of the bin, stands for the others:

    x <= t  if and only if  thresholds[bin(x)] <= t

The last bin of values has no threshold at its end; infinity stands for its values. A feature with several
columns of bins has the smallest of the values of its columns. The scores have the same bits as those of
`scoring`. Shapes: D documents, F features, C columns, W words per document.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.forest.bits import NUM_BITS
from ltrbench.native.forest.scoring import Forest, PackedForest, add_trees
from ltrbench.native.tree.binning import BinnedFeatures
from ltrbench.shapes import Features, Values


class BinValues(NamedTuple):
    """The bins of documents, and the values that stand for the bins of the features that a forest uses.

    Attributes:
        words: (D, W), as in BinnedFeatures.
        first_column: (U,), first column of each used feature.
        end_column: (U,), end of the columns of each used feature.
        thresholds: (C, 255), as in BinnedFeatures.
        missing_bins: (C,), bin of missing values.
    """

    words: NDArray[np.uint64]
    first_column: NDArray[np.uint64]
    end_column: NDArray[np.uint64]
    thresholds: NDArray[np.float32]
    missing_bins: NDArray[np.uint64]


def add_binned_scores(forest: Forest, binned: BinnedFeatures, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place.

    Args:
        forest: trees whose thresholds are thresholds of the bins.
        binned: bins of the documents.
    """
    used = forest.packed.features
    bins = BinValues(
        words=binned.words,
        first_column=np.searchsorted(binned.feature_of_column, used, side="left").astype(np.uint64),
        end_column=np.searchsorted(binned.feature_of_column, used, side="right").astype(np.uint64),
        thresholds=binned.thresholds,
        missing_bins=(binned.num_bins - 1).astype(np.uint64),
    )
    _all_blocks(forest.packed, bins, scores)


def reference_values(binned: BinnedFeatures, num_features: int) -> Features:
    """Specification: returns the (D, F) values that stand for the bins; NaN for the bin of missing values."""
    everyone = np.arange(binned.num_documents, dtype=np.uint32)
    values = np.full((binned.num_documents, num_features), np.inf, dtype=np.float32)
    for column, feature in enumerate(binned.feature_of_column):
        bins = binned.bins_of(column, everyone)
        of_bins = np.append(binned.thresholds[column], np.float32(np.nan))
        of_bins[binned.num_bins[column] - 1] = np.nan
        values[:, feature] = np.minimum(values[:, feature], of_bins[bins])
    return values


@parallel_kernel
def _all_blocks(forest: PackedForest, bins: BinValues, scores: Values) -> None:
    for block in numba.prange((len(scores) + NUM_BITS - 1) // NUM_BITS):
        first = block * NUM_BITS
        _one_block(forest, bins, first, scores[first : first + NUM_BITS])


@kernel
def _one_block(forest: PackedForest, bins: BinValues, first: int, scores: Values) -> None:
    columns, missing = _values(bins, first, len(scores))
    add_trees(forest, columns, missing, scores)


@inlined_kernel
def _values(bins: BinValues, first: int, num_documents: int) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the values of a block's used features, (U, 64), and for each the word of its missing values."""
    words, thresholds = bins.words[first : first + num_documents], bins.thresholds
    columns = np.full((len(bins.first_column), NUM_BITS), np.inf, dtype=np.float32)
    missing = np.zeros(len(bins.first_column), dtype=np.uint64)
    for i in range(len(words)):
        d = np.uint64(i)
        for j in range(len(bins.first_column)):
            u = np.uint64(j)
            for k in range(bins.first_column[u], bins.end_column[u]):
                c = np.uint64(k)
                bin_of = (words[d, c >> np.uint64(3)] >> (np.uint64(8) * (c & np.uint64(7)))) & np.uint64(255)
                if bin_of == bins.missing_bins[c]:
                    missing[u] |= np.uint64(1) << d
                    columns[u, d] = np.nan
                else:
                    columns[u, d] = min(columns[u, d], thresholds[c, bin_of])
    return columns, missing
