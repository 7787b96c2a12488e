"""Sparse features: their histograms, bins, bundles and thresholds.

Histograms from sparse bins, the same as those of `histogram` from dense bins.

    1  the cells of all stored bins: lanes are summed like dense columns, listed cells one by one
    2  the cells of default bins: the sum over the leaf minus the sums of the column's other bins
    3  if there is a parent, its histogram minus this one becomes that of the sibling

Threads divide the words, and the columns into ranges of equal numbers of listed cells, so that no two threads
write the same cell. Shapes: B histogram cells of C columns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, inlined_kernel, kernel, parallel_kernel
from ltrbench.data.features import SparseRows, require_memory
from ltrbench.native.bins import (
    COLUMN_BINS,
    DOCUMENTS_BINNED,
    IN_LISTS,
    NO_CELL,
    QUANTILE,
    Rows,
    SparseBins,
    SparseLayout,
    ThresholdRule,
    first_listed,
)
from ltrbench.native.histogram import (
    Histogram,
    Packed,
    Task,
    shares_of,
    sum_words,
    words_of_share,
)


@parallel_kernel
def sum_stored(
    task: Task, layout: SparseLayout, rows: Rows, histogram: Histogram
) -> int:
    """Writes the sums of all stored bins, and zeros for default bins; returns the sum over the leaf."""
    num_threads = task.num_threads
    num_words = task.words.shape[1]
    for part in numba.prange(num_threads):
        columns = (
            _columns_of_part(layout, part, num_threads),
            _columns_of_part(layout, part + 1, num_threads),
        )
        _sum_listed(layout, columns, rows, task.packed, histogram)
    num_shares = shares_of(num_words, num_threads)
    for share in numba.prange(num_shares):
        _sum_lanes(
            task,
            layout,
            words_of_share(np.int64(share), num_shares, num_words),
            rows,
            histogram,
        )
    return _sum_of(task.packed, rows)


@kernel
def _columns_of_part(layout: SparseLayout, part: int, num_parts: int) -> int:
    """Returns the first column of a part; parts have similar numbers of listed cells."""
    if part == num_parts:
        return len(layout.default_bin)
    num_before = part * layout.listed_before[-1] // num_parts
    low = 0
    high = len(layout.default_bin)
    while low < high:
        middle = (low + high) // 2
        if layout.listed_before[middle] < num_before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _sum_of(packed: Packed, rows: Rows) -> int:
    total = 0
    for i in range(len(rows)):
        total += packed[np.uint64(rows[i])]
    return int(total)


@kernel
def _sum_listed(
    layout: SparseLayout,
    columns: tuple[int, int],
    rows: Rows,
    packed: Packed,
    histogram: Histogram,
) -> None:
    """Writes zeros to all cells of a range of columns, and adds the listed cells of `rows`."""
    first = np.uint64(layout.bin_start[columns[0]])
    end = np.uint64(layout.bin_start[columns[1]])
    histogram[first:end] = 0
    if layout.listed_before[columns[0]] == layout.listed_before[columns[1]]:
        return
    for i in range(len(rows)):
        value = packed[np.uint64(rows[i])]
        index, stop = first_listed(layout, rows[i], first)
        while index < stop and np.uint64(layout.cells[index]) < end:
            histogram[np.uint64(layout.cells[index])] += value
            index += np.uint64(1)


@kernel
def _sum_lanes(
    task: Task,
    layout: SparseLayout,
    word_range: tuple[int, int],
    rows: Rows,
    histogram: Histogram,
) -> None:
    first, end = word_range
    sums = sum_words(task.words, word_range, rows, task.packed)
    for lane in range(8 * first, min(8 * end, len(layout.cell_of_byte))):
        for byte in range(1, 256):
            cell = layout.cell_of_byte[lane, byte]
            if cell != NO_CELL:
                histogram[cell] = sums[lane // 8 - first, 256 * (lane % 8) + byte]


@kernel
def complete_defaults(
    layout: SparseLayout,
    columns: tuple[int, int],
    total: int,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """Writes the sums of the default bins of a range of columns; subtracts all cells from the parent's."""
    for c in range(columns[0], columns[1]):
        first = np.uint64(layout.bin_start[c])
        end = np.uint64(layout.bin_start[c + 1])
        rest = np.int64(total)
        for cell in range(first, end):
            rest -= histogram[np.uint64(cell)]
        histogram[first + np.uint64(layout.default_bin[c])] = rest
    first = np.uint64(layout.bin_start[columns[0]])
    end = np.uint64(layout.bin_start[columns[1]])
    if len(parent) > 0:
        for cell in range(first, end):
            parent[np.uint64(cell)] -= histogram[np.uint64(cell)]


# ---- Thresholds of all columns of sparse features, the same as those that `bins` chooses for dense
# features.
#
# `bins` calls a function of NumPy per feature, which takes about 30 microseconds: half a minute for 10^6
# features. Here a compiled loop chooses the thresholds of features with few stored values; both rules
# define them by the distinct values v_1 < v_2 < ... alone if these are fewer than the bins:
#
#     QUANTILE      halfway between v_i and v_i+1
#     EQUAL_WIDTH   v_i, except the last
#
# Features with more values have the thresholds of the rule's function. Shapes: F features, C columns, B
# cells.

FEW_VALUES = 64
"""Maximum number of distinct values for the compiled loop, whose insertion sort is fast for few values."""
FEWEST_FEATURES = 1024
"""Minimum number of features whose thresholds a thread chooses."""
_TOO_MANY = -1


class StoredColumns(NamedTuple):
    """Sparse features by column.

    Attributes:
        start: (F + 1,), position of each feature's first stored value, followed by n.
        rows: (n,), document of each stored value, ascending in a feature.
        values: (n,).
        num_documents: D.
        absent: value of all other cells, 0 or NaN.
    """

    start: NDArray[np.int64]
    rows: NDArray[np.int32] | NDArray[np.int64]
    values: NDArray[np.float32]
    num_documents: int
    absent: float


class SparseColumns(NamedTuple):
    """The columns of some features, each with at most 255 bins of values.

    Attributes:
        feature: (C,), ascending.
        num_bins: (C,), including the last bin, for missing values.
        bin_start: (C + 1,), first cell of each column, followed by B.
        edges: (B,), the threshold at the end of each bin; infinity for the last two bins of a column.
        default_bin: (C,), bin of the absent value.
    """

    feature: NDArray[np.int64]
    num_bins: NDArray[np.int64]
    bin_start: NDArray[np.int64]
    edges: NDArray[np.float32]
    default_bin: NDArray[np.int64]


def columns_of(
    features: NDArray[np.int64],
    sample: StoredColumns,
    max_bins: int,
    rule: ThresholdRule,
) -> SparseColumns:
    """Chooses the thresholds of some features.

    Args:
        features: features to bin, ascending.
        sample: documents from which the thresholds are chosen.
        max_bins: maximum number of bins per feature, without the bin of missing values.
        rule: rule that chooses the thresholds.
    """
    counts, cuts = _thresholds(features, sample, max_bins, rule)
    most = COLUMN_BINS - 1
    num_columns = np.maximum(1, -(-counts // most))
    feature = np.repeat(features, num_columns)
    first_number = np.cumsum(num_columns) - num_columns
    number = np.arange(len(feature)) - np.repeat(first_number, num_columns)
    num_cuts = np.repeat(counts, num_columns) - most * number
    num_cuts = np.minimum(most, num_cuts)
    num_bins = num_cuts + 2
    bin_start = np.concatenate([[0], np.cumsum(num_bins)])
    edges = np.full(bin_start[-1], np.inf, dtype=np.float32)
    # Every column has two bins without a threshold at their end.
    bins_before = np.repeat(2 * np.arange(len(feature)), num_cuts)
    edges[np.arange(len(cuts)) + bins_before] = cuts
    return SparseColumns(
        feature,
        num_bins,
        bin_start,
        edges,
        _default_bins(edges, bin_start, sample.absent),
    )


def _default_bins(
    edges: NDArray[np.float32], bin_start: NDArray[np.int64], absent: float
) -> NDArray[np.int64]:
    if np.isnan(absent):
        return np.diff(bin_start) - 1
    below = np.concatenate([[0], np.cumsum(edges < absent)])
    return np.diff(below[bin_start])


def take_columns(columns: SparseColumns, is_kept: NDArray[np.bool_]) -> SparseColumns:
    """Returns some of the columns."""
    num_bins = columns.num_bins[is_kept]
    bin_start = np.concatenate([[0], np.cumsum(num_bins)])
    edges = columns.edges[np.repeat(is_kept, columns.num_bins)]
    return SparseColumns(
        columns.feature[is_kept],
        num_bins,
        bin_start,
        edges,
        columns.default_bin[is_kept],
    )


def _thresholds(
    features: NDArray[np.int64],
    sample: StoredColumns,
    max_bins: int,
    rule: ThresholdRule,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns the number of thresholds of each feature, and the thresholds of all features in order."""
    counts = np.empty(len(features), dtype=np.int64)
    # A feature has at most as many thresholds as stored values, and they are written to the same indices.
    cuts = np.empty(len(sample.values), dtype=np.float32)
    arguments = sample, features, max_bins, rule.halfway, counts, cuts
    in_parts(_few_thresholds, len(features), *arguments, fewest=FEWEST_FEATURES)

    def choose(numbers: NDArray[np.int64]) -> None:
        for number in numbers:
            first = sample.start[features[number]]
            end = sample.start[features[number] + 1]
            num_zeros = 0
            if not np.isnan(sample.absent):
                num_zeros = int(sample.num_documents - (end - first))
            chosen = rule.cut_points(sample.values[first:end], max_bins, num_zeros)
            counts[number] = len(chosen)
            cuts[first : first + len(chosen)] = chosen

    others = np.flatnonzero(counts == _TOO_MANY)
    # NumPy's sort releases the global interpreter lock.
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        num_parts = -(-len(others) // 64) or 1
        list(pool.map(choose, np.array_split(others, num_parts)))
    counts_before = np.cumsum(counts) - counts
    indices = np.repeat(sample.start[features] - counts_before, counts)
    return counts, cuts[indices + np.arange(len(indices))]


@kernel
def _few_thresholds(
    part: Part,
    sample: StoredColumns,
    features: NDArray[np.int64],
    max_bins: int,
    halfway: bool,
    counts: NDArray[np.int64],
    cuts: NDArray[np.float32],
) -> None:
    """Writes the thresholds of features with few distinct values; the count of the others is _TOO_MANY."""
    distinct = np.empty(FEW_VALUES + 1, dtype=np.float32)
    for i in range(part[0], part[1]):
        first = sample.start[features[i]]
        end = sample.start[features[i] + 1]
        counts[i] = _TOO_MANY
        num_distinct = 0
        if sample.absent == 0 and end - first < sample.num_documents:
            distinct[0] = sample.absent
            num_distinct = 1
        num_distinct = _insert(sample.values[first:end], distinct, num_distinct)
        # With max_bins distinct values, equal widths may already differ from the values.
        if num_distinct < min(len(distinct), max_bins):
            counts[i] = max(num_distinct - 1, 0)
            _cuts_between(distinct[:num_distinct], halfway, cuts[first:])


@inlined_kernel
def _insert(
    values: NDArray[np.float32], distinct: NDArray[np.float32], num_distinct: int
) -> int:
    """Inserts values, except NaN, into ascending distinct values until these are full; returns how many."""
    for i in range(len(values)):
        if num_distinct == len(distinct):
            break
        value = values[i]
        index = num_distinct
        while index > 0 and distinct[index - 1] > value:
            index -= 1
        is_new = value == value and (index == 0 or distinct[index - 1] != value)
        if is_new:
            for j in range(num_distinct, index, -1):
                distinct[j] = distinct[j - 1]
            distinct[index] = value
            num_distinct += 1
    return num_distinct


@inlined_kernel
def _cuts_between(
    distinct: NDArray[np.float32], halfway: bool, cuts: NDArray[np.float32]
) -> None:
    """Writes the threshold after each distinct value except the last, as `quantile_cuts` does."""
    for i in range(len(distinct) - 1):
        low = distinct[i]
        high = distinct[i + 1]
        middle = low / np.float32(2) + high / np.float32(2)
        cuts[i] = middle if halfway and low <= middle < high else low


# ---- Exclusive feature bundling: columns that no document has outside their default bins together share a
# byte.
#
# Ke et al., 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", algorithm 3, greedy
# bundling, without conflicts (K = 0): finding the smallest number of bundles is as hard as graph colouring.
# Columns are taken in the order of their documents outside the default bin, most first. A column joins the
# first bundle
#
#     with enough unused bytes of its 255, and
#     in which no document has one of the column's bins other than the default;
#
# if there is none, it starts a new bundle, up to the maximum number of bundles. A bundle of less than a
# quarter of the documents is dissolved: its bins take less memory in the lists, four bytes each, than in a
# lane, one byte per document. For the same reason columns are not tried that are so rare that a bundle full
# of such columns would be dissolved; of 10^6 features, few are tried.
#
# The documents of a bundle are a bitset, so that a column of k documents is compared with a bundle in k
# steps, and usually far fewer, because the comparison ends at the first conflict. Shapes: C columns, L
# lanes, M the maximum number of bundles.

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


Tried = tuple[NDArray[np.int64], int, int]
"""Columns in the order in which they are tried, and their smallest numbers of documents and of bytes."""


def bundle(columns: SparseColumns, stored: StoredColumns, others: OtherBins) -> Bundles:
    """Divides columns among lanes and lists."""
    order, most = _candidates(stored.num_documents, others)
    smallest = [int(numbers[order].min(initial=2**62)) for numbers in others]
    size, num_bytes = smallest
    bundles = _bundle_greedily(columns, stored, others, (order, size, num_bytes), most)
    return _without_small(bundles, stored.num_documents, others)


def reference_bundle(is_other: NDArray[np.bool_], others: OtherBins) -> Bundles:
    """Specification: the same for columns with the (C, D) mask of documents outside the default bin."""
    num_columns, num_documents = is_other.shape
    order, most = _candidates(num_documents, others)
    lane = np.full(num_columns, IN_LISTS)
    first_byte = np.zeros(num_columns, dtype=np.int64)
    bundles: list[list[int]] = []
    for column in order.tolist():
        for number, members in enumerate([*bundles, []][:most]):
            num_bytes = int(others.num_bytes[members].sum())
            fits = num_bytes + others.num_bytes[column] <= LANE_BYTES
            overlaps = (is_other[members].any(axis=0) & is_other[column]).any()
            if fits and not overlaps:
                bundles[number : number + 1] = [[*members, column]]
                lane[column] = number
                first_byte[column] = 1 + num_bytes
                break
    return _without_small(Bundles(lane, first_byte, most), num_documents, others)


def _candidates(num_documents: int, others: OtherBins) -> tuple[NDArray[np.int64], int]:
    """Returns the columns to try, in order, and the maximum number of bundles."""
    most_documents = others.num_documents * (
        LANE_BYTES // np.maximum(others.num_bytes, 1)
    )
    is_tried = DOCUMENTS_PER_LISTED * most_documents >= num_documents
    order = np.argsort(-others.num_documents, kind="stable")
    order = order[is_tried[order]]
    # No more bundles than this can have a quarter of the documents each.
    most = (
        DOCUMENTS_PER_LISTED
        * int(others.num_documents[order].sum())
        // max(1, num_documents)
    )
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
    first = np.uint64(columns.bin_start[column])
    num_bins = np.uint64(columns.num_bins[column])
    if value != value:
        return num_bins - np.uint64(1)
    # Without branches that depend on the value, which the processor could not predict.
    low = np.uint64(0)
    rest = num_bins - np.uint64(2)
    while rest > np.uint64(0):
        half = (rest + np.uint64(1)) >> np.uint64(1)
        low += half * np.uint64(
            value > columns.edges[first + low + half - np.uint64(1)]
        )
        rest -= half
    return low


@kernel
def _bundle_greedily(
    columns: SparseColumns,
    stored: StoredColumns,
    others: OtherBins,
    tried: Tried,
    most: int,
) -> Bundles:
    """Returns at most `most` bundles; the documents of a bundle are a bitset."""
    order, fewest, least_bytes = tried
    bitsets = np.zeros((most, (stored.num_documents + 63) // 64), dtype=np.uint64)
    lane = np.full(len(columns.feature), IN_LISTS, dtype=np.int64)
    first_byte = np.zeros(len(columns.feature), dtype=np.int64)
    used, sizes = np.zeros((2, len(bitsets)), dtype=np.int64)
    documents = np.empty(stored.num_documents, dtype=np.int64)
    num_open = 0
    for k in range(len(order)):
        column = order[k]
        size = others.num_documents[column]
        num_bytes = others.num_bytes[column]
        is_read = False
        # No column joins a lane without room for the smallest one; then its documents need not be known.
        may_share = (
            size + fewest <= stored.num_documents
            and num_bytes + least_bytes <= LANE_BYTES
        )
        for number in range(min(num_open + 1, len(bitsets))):
            if (
                used[number] + num_bytes > LANE_BYTES
                or sizes[number] + size > stored.num_documents
            ):
                continue
            if may_share and not is_read:
                _read_documents(columns, stored, column, documents)
                is_read = True
            if may_share and not _is_exclusive(bitsets[number], documents[:size]):
                continue
            if may_share:
                _join(bitsets[number], documents[:size])
            lane[column] = number
            first_byte[column] = 1 + used[number]
            used[number] += num_bytes
            sizes[number] += size
            num_open = max(num_open, number + 1)
            break
    return Bundles(lane, first_byte, most)


@kernel
def _read_documents(
    columns: SparseColumns,
    stored: StoredColumns,
    column: int,
    documents: NDArray[np.int64],
) -> None:
    """Writes the documents outside the default bin of a column."""
    feature = columns.feature[column]
    count = 0
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


# ---- From compressed sparse rows to bins: chooses the columns and fills lanes and lists.
#
#     1  thresholds of the features, from the same sample of documents as for dense features
#     2  the columns that may be split: at least `min_docs` documents are outside the default bin
#     3  lanes of dense columns and of exclusive bundles; all other columns are in lists
#     4  words and lists of all documents
#
# Step 2: the default bin goes to one side of any split, so that the other side has at most the documents
# outside of it. With fewer than min_docs_in_leaf of them in the training set, no leaf can be split there,
# and the column would only cost time: of 10^6 one-hot features, few have 20 documents.
#
# Shapes: D documents, F features, C columns, W words.


class _StoredRows(NamedTuple):
    """The arrays of SparseRows, and the (F + 1,) first column of each feature, followed by C."""

    row_start: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    first_column: NDArray[np.int64]


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
    sample = stored if rows is None else _by_column(sparse.take(rows))
    columns, others = _splittable(sample, stored, max_bins, rule, min_docs)
    del sample
    bundles = bundle(columns, stored, others)
    del stored
    return _filled(sparse, columns, others, bundles)


def reference_cells(bins: NDArray[np.uint8], columns: SparseColumns) -> list[list[int]]:
    """Specification: returns each document's cells outside default bins, ascending, given the (C, D) bins."""
    cells = []
    for of_document in bins.T:
        others = np.flatnonzero(of_document != columns.default_bin)
        of_columns = columns.bin_start[others] + of_document[others]
        cells.append(of_columns.tolist())
    return cells


def _by_column(sparse: SparseRows) -> StoredColumns:
    by_column = sparse.to_scipy().tocsc()
    start = by_column.indptr.astype(np.int64)
    return StoredColumns(
        start, by_column.indices, by_column.data, len(sparse), sparse.absent
    )


def _splittable(
    sample: StoredColumns,
    stored: StoredColumns,
    max_bins: int,
    rule: ThresholdRule,
    min_docs: int,
) -> tuple[SparseColumns, OtherBins]:
    """Returns the columns with at least `min_docs` documents outside the default bin; at least one column."""
    features = np.flatnonzero(np.diff(stored.start) >= min_docs)
    if not len(features):
        features = np.zeros(1, dtype=np.int64)
    columns = columns_of(features, sample, max_bins, rule)
    counts = np.empty((2, len(columns.feature)), dtype=np.int64)
    others = OtherBins(*counts)
    in_parts(_count_others, len(columns.feature), columns, stored, others)
    is_kept = others.num_documents >= min_docs
    is_kept[0] |= not is_kept.any()
    return take_columns(columns, is_kept), OtherBins(
        *(counts[is_kept] for counts in others)
    )


def _filled(
    sparse: SparseRows, columns: SparseColumns, others: OtherBins, bundles: Bundles
) -> SparseBins:
    num_words = -(-bundles.num_lanes // 8)
    is_listed = bundles.lane == IN_LISTS
    in_lists = np.where(is_listed, others.num_documents, 0)
    listed_before = np.append(0, np.cumsum(in_lists))
    num_bytes = 16 * len(sparse) * num_words + 8 * int(listed_before[-1])
    require_memory(
        f"the bins of {len(sparse)} documents in {len(columns.feature)} columns",
        num_bytes,
        "Use fewer features or fewer queries (data.subset).",
    )
    words = np.zeros((len(sparse), num_words), dtype=np.uint64)
    row_start = np.zeros(len(sparse) + 1, dtype=np.int64)
    cells = np.empty(listed_before[-1], dtype=np.uint32)
    first_column = np.searchsorted(columns.feature, np.arange(sparse.num_features + 1))
    rows = _StoredRows(sparse.row_start, sparse.columns, sparse.values, first_column)
    arguments = rows, columns, bundles, row_start, words
    in_parts(_fill, len(words), *arguments, None, fewest=DOCUMENTS_BINNED)
    np.cumsum(row_start, out=row_start)
    in_parts(_fill, len(words), *arguments, cells, fewest=DOCUMENTS_BINNED)
    layout = SparseLayout(
        bin_start=columns.bin_start,
        default_bin=columns.default_bin,
        lane=bundles.lane,
        cell_of_byte=_cells_of_bytes(columns, others, bundles),
        bytes_of_lane=np.ascontiguousarray(words.view(np.uint8).T),
        row_start=row_start,
        cells=cells,
        listed_before=listed_before,
        documents=_documents_of_columns(
            columns.bin_start, row_start, cells, listed_before
        ),
    )
    return SparseBins(words, layout, columns.edges, columns.num_bins, columns.feature)


@kernel
def _documents_of_columns(
    bin_start: NDArray[np.int64],
    row_start: NDArray[np.int64],
    cells: NDArray[np.uint32],
    listed_before: NDArray[np.int64],
) -> Rows:
    """Returns the (n,) documents of the listed cells, by column and ascending."""
    column_of_cell = np.empty(bin_start[-1], dtype=np.int64)
    for c in range(len(bin_start) - 1):
        column_of_cell[bin_start[c] : bin_start[c + 1]] = c
    documents = np.empty(len(cells), dtype=np.uint32)
    place = listed_before.copy()
    for d in range(len(row_start) - 1):
        for i in range(row_start[d], row_start[d + 1]):
            c = column_of_cell[cells[i]]
            documents[place[c]] = d
            place[c] += 1
    return documents


def _cells_of_bytes(
    columns: SparseColumns, others: OtherBins, bundles: Bundles
) -> NDArray[np.int64]:
    """Returns the (L, 256) histogram cells of the bytes."""
    cell_of_byte = np.full((bundles.num_lanes, 256), NO_CELL, dtype=np.int64)
    for c in np.flatnonzero(bundles.lane != IN_LISTS):
        bins = np.delete(np.arange(columns.num_bins[c]), columns.default_bin[c])
        cells = columns.bin_start[c] + bins[: others.num_bytes[c]]
        first = bundles.first_byte[c]
        cell_of_byte[bundles.lane[c], first : first + len(cells)] = cells
    return cell_of_byte


@kernel
def _count_others(
    part: Part, columns: SparseColumns, stored: StoredColumns, others: OtherBins
) -> None:
    for c in range(part[0], part[1]):
        _count_others_of(columns, stored, others, c)


@kernel
def _count_others_of(
    columns: SparseColumns, stored: StoredColumns, others: OtherBins, c: int
) -> None:
    """Writes the numbers of a column's OtherBins."""
    feature = columns.feature[c]
    missing_bin = np.uint64(columns.num_bins[c] - 1)
    default_bin = np.uint64(columns.default_bin[c])
    num_others = 0
    num_missing = 0
    for i in range(stored.start[feature], stored.start[feature + 1]):
        value_bin = bin_of(columns, np.uint64(c), stored.values[i])
        num_others += int(value_bin != default_bin)
        num_missing += int(value_bin == missing_bin)
    has_missing = num_missing > 0 or default_bin == missing_bin
    others.num_documents[c] = num_others
    others.num_bytes[c] = columns.num_bins[c] - 2 + int(has_missing)


@kernel
def _fill(
    part: Part,
    rows: _StoredRows,
    columns: SparseColumns,
    bundles: Bundles,
    row_start: NDArray[np.int64],
    words: NDArray[np.uint64],
    cells: NDArray[np.uint32] | None,
) -> None:
    """Writes the words, which are zeros, and the lists of all documents; without cells, writes the number of
    listed cells of each document d to row_start[d + 1]."""
    for d in range(part[0], part[1]):
        of_document = words[d]
        if cells is None:
            count = _fill_document(rows, columns, bundles, d, of_document, None)
            row_start[d + 1] = count
        else:
            listed = cells[row_start[d] :]
            _fill_document(rows, columns, bundles, d, of_document, listed)


@kernel
def _fill_document(
    rows: _StoredRows,
    columns: SparseColumns,
    bundles: Bundles,
    document: int,
    words: NDArray[np.uint64],
    cells: NDArray[np.uint32] | None,
) -> int:
    """Returns the number of listed cells."""
    count = 0
    for i in range(rows.row_start[document], rows.row_start[document + 1]):
        feature = np.uint64(rows.features[i])
        for c in range(
            rows.first_column[feature], rows.first_column[feature + np.uint64(1)]
        ):
            value_bin = bin_of(columns, np.uint64(c), rows.values[i])
            lane = bundles.lane[c]
            default_bin = np.uint64(columns.default_bin[c])
            if value_bin == default_bin:
                continue
            if lane == IN_LISTS:
                if cells is not None:
                    cells[count] = np.uint64(columns.bin_start[c]) + value_bin
                count += 1
            elif cells is not None:
                # The documents of a lane have one of its bins each, so that the byte is still 0.
                byte = (
                    np.uint64(bundles.first_byte[c])
                    + value_bin
                    - np.uint64(value_bin > default_bin)
                )
                words[lane // 8] |= byte << np.uint64(8 * (lane % 8))
    return count
