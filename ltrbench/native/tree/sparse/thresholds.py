"""Thresholds of all columns of sparse features, the same as those that `binning` chooses for dense features.

`binning` calls a function of NumPy per feature, which takes about 30 microseconds: half a minute for 10^6
features. Here a compiled loop chooses the thresholds of features with few stored values; both rules define
them by the distinct values v_1 < v_2 < ... alone if these are fewer than the bins:

    QUANTILE      halfway between v_i and v_i+1
    EQUAL_WIDTH   v_i, except the last

Features with more values have the thresholds of the rule's function. Shapes: F features, C columns, B cells.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.tree.binning import COLUMN_BINS, ThresholdRule

FEW_VALUES = 64
"""Maximum number of stored values for the compiled loop, whose insertion sort is fast for few values."""
FEATURES_AT_ONCE = 1024
"""Number of features per task of a thread."""
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
    features: NDArray[np.int64], sample: StoredColumns, max_bins: int, rule: ThresholdRule
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
    number = np.arange(len(feature)) - np.repeat(np.cumsum(num_columns) - num_columns, num_columns)
    num_cuts = np.minimum(most, np.repeat(counts, num_columns) - most * number)
    num_bins = num_cuts + 2
    bin_start = np.concatenate([[0], np.cumsum(num_bins)])
    edges = np.full(bin_start[-1], np.inf, dtype=np.float32)
    # Every column has two bins without a threshold at their end.
    edges[np.arange(len(cuts)) + np.repeat(2 * np.arange(len(feature)), num_cuts)] = cuts
    return SparseColumns(feature, num_bins, bin_start, edges, _default_bins(edges, bin_start, sample.absent))


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
    return SparseColumns(columns.feature[is_kept], num_bins, bin_start, edges, columns.default_bin[is_kept])


def _thresholds(
    features: NDArray[np.int64], sample: StoredColumns, max_bins: int, rule: ThresholdRule
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns the number of thresholds of each feature, and the thresholds of all features in order."""
    counts = np.empty(len(features), dtype=np.int64)
    # A feature has at most as many thresholds as stored values, and they are written to the same places.
    cuts = np.empty(len(sample.values), dtype=np.float32)
    _few_thresholds(sample, features, max_bins, rule.halfway, counts, cuts)

    def choose(numbers: NDArray[np.int64]) -> None:
        for number in numbers:
            first, end = sample.start[features[number]], sample.start[features[number] + 1]
            num_zeros = 0 if np.isnan(sample.absent) else int(sample.num_documents - (end - first))
            chosen = rule.cut_points(sample.values[first:end], max_bins, num_zeros)
            counts[number] = len(chosen)
            cuts[first : first + len(chosen)] = chosen

    others = np.flatnonzero(counts == _TOO_MANY)
    # NumPy's sort releases the global interpreter lock.
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(choose, np.array_split(others, -(-len(others) // 64) or 1)))
    places = np.repeat(sample.start[features] - (np.cumsum(counts) - counts), counts)
    return counts, cuts[places + np.arange(len(places))]


@parallel_kernel
def _few_thresholds(
    sample: StoredColumns,
    features: NDArray[np.int64],
    max_bins: int,
    halfway: bool,
    counts: NDArray[np.int64],
    cuts: NDArray[np.float32],
) -> None:
    """Writes the thresholds of features with few stored values, and _TOO_MANY as the count of the others."""
    num_blocks = (len(features) + FEATURES_AT_ONCE - 1) // FEATURES_AT_ONCE
    for block in numba.prange(num_blocks):
        first = block * FEATURES_AT_ONCE
        block_features = features[first : first + FEATURES_AT_ONCE]
        _few_of_block(sample, block_features, max_bins, halfway, counts[first:], cuts)


@kernel
def _few_of_block(
    sample: StoredColumns,
    features: NDArray[np.int64],
    max_bins: int,
    halfway: bool,
    counts: NDArray[np.int64],
    cuts: NDArray[np.float32],
) -> None:
    distinct = np.empty(FEW_VALUES + 1, dtype=np.float32)
    for i in range(len(features)):
        first, end = sample.start[features[i]], sample.start[features[i] + 1]
        counts[i] = _TOO_MANY
        if end - first <= FEW_VALUES:
            num_distinct = 0
            if sample.absent == 0 and end - first < sample.num_documents:
                distinct[0], num_distinct = sample.absent, 1
            num_distinct = _insert(sample.values[first:end], distinct, num_distinct)
            # With max_bins distinct values, equal widths may already differ from the values.
            if num_distinct < max_bins:
                counts[i] = max(num_distinct - 1, 0)
                _cuts_between(distinct[:num_distinct], halfway, cuts[first:])


@inlined_kernel
def _insert(values: NDArray[np.float32], distinct: NDArray[np.float32], num_distinct: int) -> int:
    """Inserts values into ascending distinct values, except NaN; returns the number of distinct values."""
    for i in range(len(values)):
        value, place = values[i], num_distinct
        while place > 0 and distinct[place - 1] > value:
            place -= 1
        is_new = value == value and (place == 0 or distinct[place - 1] != value)
        if is_new:
            for j in range(num_distinct, place, -1):
                distinct[j] = distinct[j - 1]
            distinct[place] = value
            num_distinct += 1
    return num_distinct


@inlined_kernel
def _cuts_between(distinct: NDArray[np.float32], halfway: bool, cuts: NDArray[np.float32]) -> None:
    """Writes the threshold after each distinct value except the last, as `binning.quantile_cuts` does."""
    for i in range(len(distinct) - 1):
        low, high = distinct[i], distinct[i + 1]
        middle = low / np.float32(2) + high / np.float32(2)
        cuts[i] = middle if halfway and low <= middle < high else low
