"""Scores of documents from their bins, during a fit: without the features, in a quarter of their memory.

The thresholds of the trees of a fit are thresholds of its bins. All values of a bin go the same way at such a
threshold, so that the largest of them, the threshold at the end of the bin, stands for the others:

    x <= t  if and only if  thresholds[bin(x)] <= t

The last bin of values has no threshold at its end; infinity stands for its values. A feature with several
columns of bins has the smallest of the values of its columns. The scores have the same bits as those of
`scoring`. Shapes: D documents, F features, C columns, W words per document.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.forest.bits import NUM_BITS
from ltrbench.native.forest.scoring import Forest, PackedForest, add_trees
from ltrbench.native.tree.binning import BinnedFeatures
from ltrbench.shapes import Features, Values


def add_binned_scores(forest: Forest, binned: BinnedFeatures, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place.

    Args:
        forest: trees whose thresholds are thresholds of the bins.
        binned: bins of the documents.
    """
    used = forest.packed.features
    first_column = np.searchsorted(binned.feature_of_column, used, side="left").astype(np.uint64)
    end_column = np.searchsorted(binned.feature_of_column, used, side="right").astype(np.uint64)
    missing_bins = (binned.num_bins - 1).astype(np.uint64)
    _all_blocks(
        forest.packed, binned.words, first_column, end_column, binned.thresholds, missing_bins, scores
    )


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
def _all_blocks(
    forest: PackedForest,
    words: NDArray[np.uint64],
    first_column: NDArray[np.uint64],
    end_column: NDArray[np.uint64],
    thresholds: NDArray[np.float32],
    missing_bins: NDArray[np.uint64],
    scores: Values,
) -> None:
    for block in numba.prange((len(scores) + NUM_BITS - 1) // NUM_BITS):
        documents = slice(block * NUM_BITS, min((block + 1) * NUM_BITS, len(scores)))
        _one_block(
            forest, words[documents], first_column, end_column, thresholds, missing_bins, scores[documents]
        )


@kernel
def _one_block(
    forest: PackedForest,
    words: NDArray[np.uint64],
    first_column: NDArray[np.uint64],
    end_column: NDArray[np.uint64],
    thresholds: NDArray[np.float32],
    missing_bins: NDArray[np.uint64],
    scores: Values,
) -> None:
    columns, missing = _values(words, first_column, end_column, thresholds, missing_bins)
    add_trees(forest, columns, missing, scores)


@inlined_kernel
def _values(
    words: NDArray[np.uint64],
    first_column: NDArray[np.uint64],
    end_column: NDArray[np.uint64],
    thresholds: NDArray[np.float32],
    missing_bins: NDArray[np.uint64],
) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the values of a block's used features, (U, 64), and for each the word of its missing values."""
    columns = np.full((len(first_column), NUM_BITS), np.inf, dtype=np.float32)
    missing = np.zeros(len(first_column), dtype=np.uint64)
    for i in range(len(words)):
        d = np.uint64(i)
        for j in range(len(first_column)):
            u = np.uint64(j)
            for k in range(first_column[u], end_column[u]):
                c = np.uint64(k)
                bin_of = (words[d, c >> np.uint64(3)] >> (np.uint64(8) * (c & np.uint64(7)))) & np.uint64(255)
                if bin_of == missing_bins[c]:
                    missing[u] |= np.uint64(1) << d
                    columns[u, d] = np.nan
                else:
                    columns[u, d] = min(columns[u, d], thresholds[c, bin_of])
    return columns, missing
