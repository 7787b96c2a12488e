"""Scores of sparse documents from their stored values, without dense rows.

Only the features that the trees split on are read: for a block of 64 documents, their values start as the
absent value, and the stored values replace it. The time is proportional to the number of stored values, also
for 10^6 features, and the scores have the same bits as those of `scoring`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.data.features import SparseRows
from ltrbench.native.forest.bits import NUM_BITS
from ltrbench.native.forest.scoring import ALL, Forest, PackedForest, add_trees
from ltrbench.shapes import Features, Values

_NOT_USED = -1


class _Stored(NamedTuple):
    """The stored values of all documents.

    Attributes:
        row_start: (D + 1,), position of each document's first value, followed by n.
        features: (n,), feature of each value.
        values: (n,).
        place: (F,), index of each feature among those of the forest, or _NOT_USED.
        absent: value of all other features, 0 or NaN.
    """

    row_start: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    place: NDArray[np.int32]
    absent: float


def add_stored_scores(forest: Forest, sparse: SparseRows, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place."""
    place = np.full(sparse.num_features, _NOT_USED, dtype=np.int32)
    place[forest.packed.features] = np.arange(len(forest.packed.features))
    stored = _Stored(sparse.row_start, sparse.columns, sparse.values, place, sparse.absent)
    _all_blocks(forest.packed, stored, scores)


@parallel_kernel
def _all_blocks(forest: PackedForest, stored: _Stored, scores: Values) -> None:
    for block in numba.prange((len(scores) + NUM_BITS - 1) // NUM_BITS):
        first = block * NUM_BITS
        _one_block(forest, stored, first, scores[first : first + NUM_BITS])


@kernel
def _one_block(forest: PackedForest, stored: _Stored, first: int, scores: Values) -> None:
    columns, missing = _columns(len(forest.features), stored, first, len(scores))
    add_trees(forest, columns, missing, scores)


@inlined_kernel
def _columns(
    num_used: int, stored: _Stored, first: int, num_documents: int
) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the used features of a block, (U, 64), and for each the word of its missing values, (U,)."""
    columns = np.full((num_used, NUM_BITS), stored.absent, dtype=np.float32)
    missing = np.full(num_used, np.uint64(0) if stored.absent == 0 else ALL, dtype=np.uint64)
    for i in range(num_documents):
        d, bit = np.uint64(first + i), np.uint64(1) << np.uint64(i)
        for j in range(stored.row_start[d], stored.row_start[d + np.uint64(1)]):
            place = stored.place[np.uint64(stored.features[np.uint64(j)])]
            if place != _NOT_USED:
                c, x = np.uint64(place), stored.values[np.uint64(j)]
                columns[c, np.uint64(i)] = x
                missing[c] = missing[c] | bit if x != x else missing[c] & ~bit
    return columns, missing
