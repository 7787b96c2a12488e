"""From compressed sparse rows to bins: chooses the columns and fills lanes and lists.

    1  thresholds of the features, from the same sample of documents as for dense features
    2  the columns that may be split: at least `min_docs` documents are outside the default bin
    3  lanes of dense columns and of exclusive bundles; all other columns are in lists
    4  words and lists of all documents

Step 2: the default bin goes to one side of any split, so that the other side has at most the documents
outside of it. With fewer than min_docs_in_leaf of them in the training set, no leaf can be split there, and
the column would only cost time: of 10^6 one-hot features, few have 20 documents.

`reference_cells` is the specification of the result. Shapes: D documents, F features, C columns, W words.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.data.features import SparseRows, require_memory
from ltrbench.native.tree.binning import DOCUMENTS_BINNED, QUANTILE, ThresholdRule
from ltrbench.native.tree.sparse.bundling import DOCUMENTS_PER_LISTED, Bundles, OtherBins, bin_of, bundle
from ltrbench.native.tree.sparse.layout import IN_LISTS, NO_CELL, SparseBins, SparseLayout
from ltrbench.native.tree.sparse.thresholds import SparseColumns, StoredColumns, columns_of, take_columns


class _StoredRows(NamedTuple):
    """The arrays of SparseRows."""

    row_start: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def takes_less_memory(sparse: SparseRows) -> bool:
    """Returns whether the bins of sparse features take less memory in lists than one byte per cell.

    Others are binned like dense features, which takes less time.
    """
    num_documents, num_features = sparse.shape
    return DOCUMENTS_PER_LISTED * len(sparse.values) < num_documents * num_features


def bin_sparse(
    sparse: SparseRows,
    max_bins: int,
    rng: np.random.Generator,
    rule: ThresholdRule = QUANTILE,
    min_docs: int = 1,
) -> SparseBins:
    """Chooses thresholds and bins all documents; trees are those of `bin_features` on the same features.

    Args:
        sparse: (D, F).
        max_bins: maximum number of bins per feature, without the bin of missing values.
        rng: generator for the sample of documents.
        rule: rule that chooses the thresholds.
        min_docs: minimum number of documents outside the default bin of a column; at least 1.
    """
    stored = _by_column(sparse)
    rows = rule.sample(len(sparse), rng)
    sample = stored if rows is None else _by_column(sparse.slice(np.stack([rows, rows + 1], axis=1)))
    columns, others = _splittable(sample, stored, max_bins, rule, min_docs)
    del sample
    bundles = bundle(columns, stored, others)
    del stored
    return _filled(sparse, columns, others, bundles)


def reference_cells(bins: NDArray[np.uint8], columns: SparseColumns) -> list[list[int]]:
    """Specification: returns each document's cells outside default bins, ascending, given the (C, D) bins."""
    return [
        [
            int(columns.bin_start[c]) + int(of_document[c])
            for c in range(len(of_document))
            if of_document[c] != columns.default_bin[c]
        ]
        for of_document in bins.T
    ]


def _by_column(sparse: SparseRows) -> StoredColumns:
    by_column = sparse.to_scipy().tocsc()
    start = by_column.indptr.astype(np.int64)
    return StoredColumns(start, by_column.indices, by_column.data, len(sparse), sparse.absent)


def _splittable(
    sample: StoredColumns, stored: StoredColumns, max_bins: int, rule: ThresholdRule, min_docs: int
) -> tuple[SparseColumns, OtherBins]:
    """Returns the columns with at least `min_docs` documents outside the default bin; at least one column."""
    features = np.flatnonzero(np.diff(stored.start) >= min_docs)
    if not len(features):
        features = np.zeros(1, dtype=np.int64)
    columns = columns_of(features, sample, max_bins, rule)
    others = OtherBins(*np.empty((2, len(columns.feature)), dtype=np.int64))
    _count_others(columns, stored, others)
    is_kept = others.num_documents >= min_docs
    is_kept[0] |= not is_kept.any()
    return take_columns(columns, is_kept), OtherBins(*(counts[is_kept] for counts in others))


def _filled(sparse: SparseRows, columns: SparseColumns, others: OtherBins, bundles: Bundles) -> SparseBins:
    num_words, is_listed = -(-bundles.num_lanes // 8), bundles.lane == IN_LISTS
    listed_before = np.concatenate([[0], np.cumsum(np.where(is_listed, others.num_documents, 0))])
    require_memory(
        f"the bins of {len(sparse)} documents in {len(columns.feature)} columns",
        8 * len(sparse) * num_words + 4 * int(listed_before[-1]),
        "Use fewer features or fewer queries (data.subset).",
    )
    words = np.zeros((len(sparse), num_words), dtype=np.uint64)
    row_start = np.zeros(len(sparse) + 1, dtype=np.int64)
    cells = np.empty(listed_before[-1], dtype=np.uint32)
    rows = _StoredRows(sparse.row_start, sparse.columns, sparse.values)
    first_column = np.searchsorted(columns.feature, np.arange(sparse.num_features + 1))
    _count_listed(rows, first_column, columns, bundles, row_start)
    np.cumsum(row_start, out=row_start)
    _fill(rows, first_column, columns, bundles, row_start, words, cells)
    layout = SparseLayout(
        bin_start=columns.bin_start,
        default_bin=columns.default_bin,
        lane=bundles.lane,
        cell_of_byte=_cells_of_bytes(columns, others, bundles),
        row_start=row_start,
        cells=cells,
        listed_before=listed_before,
    )
    return SparseBins(words, layout, columns.edges, columns.num_bins, columns.feature)


def _cells_of_bytes(columns: SparseColumns, others: OtherBins, bundles: Bundles) -> NDArray[np.int64]:
    """Returns the (L, 256) histogram cells of the bytes."""
    cell_of_byte = np.full((bundles.num_lanes, 256), NO_CELL, dtype=np.int64)
    for c in np.flatnonzero(bundles.lane != IN_LISTS):
        bins = np.delete(np.arange(columns.num_bins[c]), columns.default_bin[c])[: others.num_bytes[c]]
        cell_of_byte[bundles.lane[c], bundles.first_byte[c] :][: len(bins)] = columns.bin_start[c] + bins
    return cell_of_byte


@parallel_kernel
def _count_others(columns: SparseColumns, stored: StoredColumns, others: OtherBins) -> None:
    for c in numba.prange(len(columns.feature)):
        _count_others_of(columns, stored, others, c)


@kernel
def _count_others_of(columns: SparseColumns, stored: StoredColumns, others: OtherBins, c: int) -> None:
    """Writes the numbers of a column's OtherBins."""
    feature, missing_bin = columns.feature[c], np.uint64(columns.num_bins[c] - 1)
    default_bin, num_others, num_missing = np.uint64(columns.default_bin[c]), 0, 0
    for i in range(stored.start[feature], stored.start[feature + 1]):
        value_bin = bin_of(columns, np.uint64(c), stored.values[i])
        num_others += int(value_bin != default_bin)
        num_missing += int(value_bin == missing_bin)
    has_missing = num_missing > 0 or default_bin == missing_bin
    others.num_documents[c] = num_others
    others.num_bytes[c] = columns.num_bins[c] - 2 + int(has_missing)


@parallel_kernel
def _count_listed(
    rows: _StoredRows,
    first_column: NDArray[np.int64],
    columns: SparseColumns,
    bundles: Bundles,
    row_start: NDArray[np.int64],
) -> None:
    """Writes each document's number of listed cells to row_start[d + 1]."""
    num_documents = len(row_start) - 1
    for block in numba.prange((num_documents + DOCUMENTS_BINNED - 1) // DOCUMENTS_BINNED):
        first = block * DOCUMENTS_BINNED
        for d in range(first, min(first + DOCUMENTS_BINNED, num_documents)):
            row_start[d + 1] = _count_of_document(rows, first_column, columns, bundles, d)


@kernel
def _count_of_document(
    rows: _StoredRows,
    first_column: NDArray[np.int64],
    columns: SparseColumns,
    bundles: Bundles,
    document: int,
) -> int:
    count = 0
    for i in range(rows.row_start[document], rows.row_start[document + 1]):
        feature = np.uint64(rows.columns[i])
        for c in range(first_column[feature], first_column[feature + np.uint64(1)]):
            if bundles.lane[c] == IN_LISTS:
                value_bin = bin_of(columns, np.uint64(c), rows.values[i])
                count += int(value_bin != np.uint64(columns.default_bin[c]))
    return count


@parallel_kernel
def _fill(
    rows: _StoredRows,
    first_column: NDArray[np.int64],
    columns: SparseColumns,
    bundles: Bundles,
    row_start: NDArray[np.int64],
    words: NDArray[np.uint64],
    cells: NDArray[np.uint32],
) -> None:
    """Writes the words, which are zeros, and the lists of all documents."""
    num_documents = len(words)
    for block in numba.prange((num_documents + DOCUMENTS_BINNED - 1) // DOCUMENTS_BINNED):
        first = block * DOCUMENTS_BINNED
        for d in range(first, min(first + DOCUMENTS_BINNED, num_documents)):
            _fill_document(rows, first_column, columns, bundles, d, words[d], cells[row_start[d] :])


@kernel
def _fill_document(
    rows: _StoredRows,
    first_column: NDArray[np.int64],
    columns: SparseColumns,
    bundles: Bundles,
    document: int,
    words: NDArray[np.uint64],
    cells: NDArray[np.uint32],
) -> None:
    count = 0
    for i in range(rows.row_start[document], rows.row_start[document + 1]):
        feature = np.uint64(rows.columns[i])
        for c in range(first_column[feature], first_column[feature + np.uint64(1)]):
            value_bin, lane = bin_of(columns, np.uint64(c), rows.values[i]), bundles.lane[c]
            default_bin = np.uint64(columns.default_bin[c])
            if value_bin == default_bin:
                continue
            if lane == IN_LISTS:
                cells[count] = np.uint64(columns.bin_start[c]) + value_bin
                count += 1
            else:
                # The documents of a lane have one of its bins each, so that the byte is still 0.
                byte = np.uint64(bundles.first_byte[c]) + value_bin - np.uint64(value_bin > default_bin)
                words[lane // 8] |= byte << np.uint64(8 * (lane % 8))
