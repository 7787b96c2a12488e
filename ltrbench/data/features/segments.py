"""Segments: the rows of features as segments of equal adjacent cells, the same for an array and for CSR.

A segment is the column of its first cell and the bits of its cells in float32; it ends where the bits change.
Each row begins with a segment at column 0, so that the segments of all rows in order determine the cells.
Sparse features are not expanded: they take time and memory in proportion to their stored values.

Shapes: D documents (rows), F features, n stored values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features.matrix import AnyFeatures, release, row_blocks
from ltrbench.data.features.sparse import SparseRows, csr_of, is_sparse
from ltrbench.data.features.views import RowView
from ltrbench.shapes import Features

Segments = NDArray[np.uint32]  # (any number, 2), first column and bits of each segment

_STORED = 1 << 18
"""Number of stored values that are read at a time; each takes about 50 bytes."""


def row_segments(features: AnyFeatures) -> Iterator[Segments]:
    """Yields the segments of consecutive rows, of all rows in order.

    Joined, they are the same for equal cells, whatever the features are stored in; -0 does not equal 0, and
    a NaN equals a NaN with the same bits.

    >>> dense = np.array([[0, 0, 5], [5, 5, 5]], dtype=np.float32)
    >>> np.concatenate(list(row_segments(dense)))[:, 0].tolist()
    [0, 2, 0]
    >>> np.concatenate(list(row_segments(SparseRows.of(dense))))[:, 0].tolist()
    [0, 2, 0]
    """
    if is_sparse(features):
        for sparse in _sparse_blocks(features):
            yield _of_sparse(sparse)
    else:
        for _, block in row_blocks(features):
            yield _of_array(block)


def _sparse_blocks(features: AnyFeatures) -> Iterator[SparseRows]:
    """Yields consecutive rows of sparse features, with about _STORED stored values in total."""
    whole = csr_of(features.base if isinstance(features, RowView) else features)
    if whole is None:
        return
    size = max(_STORED * len(whole) // max(len(whole.values), 1), 1)
    for start in range(0, len(features), size):
        rows = np.array([[start, min(start + size, len(features))]])
        yield whole.slice(features.ranges_within(rows) if isinstance(features, RowView) else rows)
        release(features)


def _of_array(block: Features) -> Segments:
    bits = block.view(np.uint32)
    begins = np.ones(bits.shape, dtype=np.bool_)
    np.not_equal(bits[:, 1:], bits[:, :-1], out=begins[:, 1:])
    return np.stack([np.nonzero(begins)[1].astype(np.uint32), bits[begins]], axis=1)


def _of_sparse(sparse: SparseRows) -> Segments:
    """Returns the segments from the stored values.

    A segment can only begin at column 0, at a stored cell, and behind one. These candidates lie in the array
    in the order of the cells: one for the begin of each row, then two for each of its stored values.
    """
    num_rows, num_stored = len(sparse), len(sparse.values)
    row = np.repeat(np.arange(num_rows), np.diff(sparse.row_start))
    of_row = np.arange(num_rows) + 2 * sparse.row_start[:-1]
    of_stored = row + 2 * np.arange(num_stored) + 1
    candidates = np.empty((num_rows + 2 * num_stored, 2), dtype=np.uint32)
    candidates[:, 1] = np.float32(sparse.absent).view(np.uint32)
    candidates[of_row, 0] = 0
    candidates[of_stored, 0], candidates[of_stored, 1] = sparse.columns, sparse.values.view(np.uint32)
    candidates[of_stored + 1, 0] = sparse.columns + 1
    exists = np.ones(len(candidates), dtype=np.bool_)
    first_columns = sparse.columns == 0
    exists[of_row[row[first_columns]]] = False
    exists[of_stored + 1] = sparse.columns + 1 < sparse.num_features
    next_is_stored = (np.diff(row) == 0) & (np.diff(sparse.columns) == 1)
    exists[of_stored[:-1][next_is_stored] + 1] = False
    candidates = candidates[exists]
    begins = np.ones(len(candidates), dtype=np.bool_)
    begins[1:] = (candidates[1:, 0] == 0) | (candidates[1:, 1] != candidates[:-1, 1])
    return candidates[begins]
