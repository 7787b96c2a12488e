"""Exclusive feature bundling: columns that no document has outside their default bins together share a byte.

Ke et al., 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", algorithm 3, greedy bundling,
without conflicts (K = 0): finding the smallest number of bundles is as hard as graph colouring. Columns are
taken in the order of their documents outside the default bin, most first. A column joins the first bundle

    with enough unused bytes of its 255, and
    in which no document has one of the column's bins other than the default;

if there is none, it starts a new bundle, up to the maximum number of bundles. A bundle of less than a quarter
of the documents is dissolved: its bins take less memory in the lists, four bytes each, than in a lane, one
byte per document. For the same reason columns are not tried that are so rare that a bundle full of such
columns would be dissolved; of 10^6 features, few are tried.

The documents of a bundle are a bitset, so that a column of k documents is compared with a bundle in k steps,
and usually far fewer, because the comparison ends at the first conflict. Shapes: C columns, L lanes, M the
maximum number of bundles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.native.tree.sparse.layout import IN_LISTS
from ltrbench.native.tree.sparse.thresholds import SparseColumns, StoredColumns

LANE_BYTES = 255
"""Number of bytes in a lane for bins other than default bins."""
DOCUMENTS_PER_LISTED = 4
"""Number of documents whose bytes in a lane take the memory of one listed cell."""


class OtherBins(NamedTuple):
    """How many documents are outside a column's default bin.

    Attributes:
        num_documents: (C,).
        num_bytes: (C,), number of bins other than the default bin, without an empty bin of missing values.
    """

    num_documents: NDArray[np.int64]
    num_bytes: NDArray[np.int64]


class Bundles(NamedTuple):
    """The lanes of columns.

    Attributes:
        lane: (C,), IN_LISTS for a column without a lane.
        first_byte: (C,), first byte of the column in its lane, from 1.
        num_lanes: L.
    """

    lane: NDArray[np.int64]
    first_byte: NDArray[np.int64]
    num_lanes: int


def bundle(columns: SparseColumns, stored: StoredColumns, others: OtherBins) -> Bundles:
    """Divides columns among lanes and lists."""
    order, most = _candidates(stored.num_documents, others)
    bitsets = np.zeros((most, (stored.num_documents + 63) // 64), dtype=np.uint64)
    lane = np.full(len(columns.feature), IN_LISTS, dtype=np.int64)
    first_byte = np.zeros(len(columns.feature), dtype=np.int64)
    _bundle_greedily(columns, stored, others, order, bitsets, lane, first_byte)
    return _without_small(Bundles(lane, first_byte, most), stored.num_documents, others)


def reference_bundle(is_other: NDArray[np.bool_], others: OtherBins) -> Bundles:
    """Specification: the same for columns with the (C, D) mask of documents outside the default bin."""
    num_columns, num_documents = is_other.shape
    order, most = _candidates(num_documents, others)
    lane, first_byte = np.full(num_columns, IN_LISTS), np.zeros(num_columns, dtype=np.int64)
    bundles: list[list[int]] = []
    for column in order.tolist():
        for number, members in enumerate([*bundles, []][:most]):
            num_bytes = int(others.num_bytes[members].sum())
            fits = num_bytes + others.num_bytes[column] <= LANE_BYTES
            if fits and not (is_other[members].any(axis=0) & is_other[column]).any():
                bundles[number:] = [[*members, column], *bundles[number + 1 :]]
                lane[column], first_byte[column] = number, 1 + num_bytes
                break
    return _without_small(Bundles(lane, first_byte, most), num_documents, others)


def _candidates(num_documents: int, others: OtherBins) -> tuple[NDArray[np.int64], int]:
    """Returns the columns to try, in order, and the maximum number of bundles."""
    most_documents = others.num_documents * (LANE_BYTES // np.maximum(others.num_bytes, 1))
    is_tried = DOCUMENTS_PER_LISTED * most_documents >= num_documents
    order = np.argsort(-others.num_documents, kind="stable")
    order = order[is_tried[order]]
    # No more bundles than this can have a quarter of the documents each.
    most = DOCUMENTS_PER_LISTED * int(others.num_documents[order].sum()) // max(1, num_documents)
    return order, min(most, len(order))


def _without_small(bundles: Bundles, num_documents: int, others: OtherBins) -> Bundles:
    """Moves bundles of less than a quarter of the documents to the lists, and numbers the others anew."""
    is_bundled = bundles.lane != IN_LISTS
    sizes = np.zeros(bundles.num_lanes, dtype=np.int64)
    np.add.at(sizes, bundles.lane[is_bundled], others.num_documents[is_bundled])
    is_kept = DOCUMENTS_PER_LISTED * sizes >= max(1, num_documents)
    number = np.where(is_kept, np.cumsum(is_kept) - 1, IN_LISTS)
    lane = np.full(len(bundles.lane), IN_LISTS)
    lane[is_bundled] = number[bundles.lane[is_bundled]]
    first_byte = np.where(lane == IN_LISTS, 0, bundles.first_byte)
    return Bundles(lane, first_byte, int(np.count_nonzero(is_kept)))


@kernel
def bin_of(columns: SparseColumns, column: np.uint64, value: np.float32) -> np.uint64:
    """Returns the bin of a value: the number of thresholds below it, or the last bin if it is missing."""
    first, num_bins = np.uint64(columns.bin_start[column]), np.uint64(columns.num_bins[column])
    if value != value:
        return num_bins - np.uint64(1)
    # Without branches that depend on the value, which the processor could not predict.
    low, rest = np.uint64(0), num_bins - np.uint64(2)
    while rest > np.uint64(0):
        half = (rest + np.uint64(1)) >> np.uint64(1)
        low += half * np.uint64(value > columns.edges[first + low + half - np.uint64(1)])
        rest -= half
    return low


@kernel
def _bundle_greedily(
    columns: SparseColumns,
    stored: StoredColumns,
    others: OtherBins,
    order: NDArray[np.int64],
    bitsets: NDArray[np.uint64],
    lane: NDArray[np.int64],
    first_byte: NDArray[np.int64],
) -> None:
    """Writes the lane and the first byte of each column; bitsets, (M, D / 64), are zeros."""
    used, sizes = np.zeros((2, len(bitsets)), dtype=np.int64)
    documents, num_open = np.empty(stored.num_documents, dtype=np.int64), 0
    fewest, least_bytes = _smallest(others, order)
    for k in range(len(order)):
        column = order[k]
        size, num_bytes, is_read = others.num_documents[column], others.num_bytes[column], False
        # No column joins a lane without room for the smallest one; then its documents need not be known.
        may_share = size + fewest <= stored.num_documents and num_bytes + least_bytes <= LANE_BYTES
        for number in range(min(num_open + 1, len(bitsets))):
            if used[number] + num_bytes > LANE_BYTES or sizes[number] + size > stored.num_documents:
                continue
            if may_share and not is_read:
                _read_documents(columns, stored, column, documents)
                is_read = True
            if may_share and not _is_exclusive(bitsets[number], documents[:size]):
                continue
            if may_share:
                _join(bitsets[number], documents[:size])
            lane[column], first_byte[column] = number, 1 + used[number]
            used[number] += num_bytes
            sizes[number] += size
            num_open = max(num_open, number + 1)
            break


@kernel
def _smallest(others: OtherBins, order: NDArray[np.int64]) -> tuple[int, int]:
    """Returns the smallest numbers of documents and of bytes of these columns."""
    fewest, least_bytes = 0, 0
    for k in range(len(order)):
        size, num_bytes = others.num_documents[order[k]], others.num_bytes[order[k]]
        fewest = size if k == 0 else min(fewest, size)
        least_bytes = num_bytes if k == 0 else min(least_bytes, num_bytes)
    return fewest, least_bytes


@kernel
def _read_documents(
    columns: SparseColumns, stored: StoredColumns, column: int, documents: NDArray[np.int64]
) -> None:
    """Writes the documents outside the default bin of a column."""
    feature, count = columns.feature[column], 0
    for i in range(stored.start[feature], stored.start[feature + 1]):
        documents[count] = stored.rows[i]
        value_bin = bin_of(columns, np.uint64(column), stored.values[i])
        count += int(value_bin != np.uint64(columns.default_bin[column]))


@kernel
def _is_exclusive(bitset: NDArray[np.uint64], documents: NDArray[np.int64]) -> bool:
    for i in range(len(documents)):
        d = np.uint64(documents[i])
        if bitset[d >> np.uint64(6)] >> (d & np.uint64(63)) & np.uint64(1):
            return False
    return True


@kernel
def _join(bitset: NDArray[np.uint64], documents: NDArray[np.int64]) -> None:
    for i in range(len(documents)):
        d = np.uint64(documents[i])
        bitset[d >> np.uint64(6)] |= np.uint64(1) << (d & np.uint64(63))
