"""Binning: groups the values of each feature into a few bins, so that trees only try splits between bins.

Bin b of a feature contains the values x with thresholds[b - 1] < x <= thresholds[b]. A threshold is a float32
that separates two values of the training data, so that a split sends raw values (x <= threshold goes left)
and bins to the same side. One additional bin, the last, contains missing values. A rule chooses the
thresholds. QUANTILE, as in LightGBM and XGBoost:

    at most max_bins distinct values: one bin per value, with thresholds halfway between neighbours
    more: bins of equal weight; a frequent value that would fill several bins has one bin

EQUAL_WIDTH, as with `nThreshold` in RankLib's LambdaMART:

    at most max_bins - 1 distinct values: every value is a threshold
    more: min, min + step, min + 2 step, ...; step = (max - min) / (max_bins - 1), summed in float32

For a feature with a long tail, equal widths are coarse where most documents are and fine in the tail: a
single extreme value can leave all others in one bin. RankLib's 256 thresholds correspond to max_bins = 257.

A bin is one byte of a column. A feature with more thresholds than a byte can represent has several columns,
each with a consecutive part of the thresholds: every split of the feature is a split of one of its columns,
and columns and bins have the order of features and thresholds. The bins of eight columns form a 64-bit word,
which a histogram reads at once. The words of a document are adjacent in memory, which helps small leaves.

A categorical feature has one column, after those of all other features, with two bytes per document. Bin 0
has the missing values and the rare categories, and bins 1, 2, ... have one category each, the most frequent
first. As in LightGBM, the rarest categories of together at most 1 % of the documents share bin 0 if the
feature has max_bins bins without them, as do categories of one or two documents.
Shapes: D documents, F features, C columns, K categorical ones, W = ceil((C - K) / 8) words per document.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import (
    Part,
    borrowing_kernel,
    in_parts,
    inlined_kernel,
    kernel,
    parallel_kernel,
)
from ltrbench.data.features import (
    AnyFeatures,
    as_array,
    gather_rows,
    require_memory,
    row_blocks,
)
from ltrbench.native.team import ALONE, Placement, Team
from ltrbench.shapes import Features

COLUMN_BINS = 255
"""Maximum number of value bins per column; a byte also has to represent the bin of missing values."""
Rows = NDArray[np.uint32]  # (n,), document indices, ascending


class CutPoints(Protocol):
    """Returns the thresholds of one feature, ascending, at most max_bins - 1; NaN is ignored.

    There are `num_zeros` documents with the value 0 in addition to `values`.
    """

    def __call__(
        self, values: NDArray[np.float32], max_bins: int, num_zeros: int = 0, /
    ) -> NDArray[np.float32]: ...


class ThresholdRule(NamedTuple):
    """Rule that chooses thresholds.

    Attributes:
        cut_points: function that returns the thresholds of one feature.
        sample_size: number of sampled documents from which thresholds are chosen; None: all.
        halfway: whether few distinct values have thresholds halfway between neighbours, or at the lower one.
    """

    cut_points: CutPoints
    sample_size: int | None
    halfway: bool

    def sample(
        self, num_documents: int, rng: np.random.Generator
    ) -> NDArray[np.int64] | None:
        """Returns the documents from which thresholds are chosen, ascending; None: all."""
        if self.sample_size is None or num_documents <= self.sample_size:
            return None
        return np.sort(rng.choice(num_documents, self.sample_size, replace=False))


class Columns(NamedTuple):
    """The columns of dense bins; the fields of BinnedFeatures."""

    thresholds: NDArray[np.float32]
    num_bins: NDArray[np.int64]
    feature_of_column: NDArray[np.int64]


class CategoricalBins(NamedTuple):
    """The columns of categorical features.

    Attributes:
        bins: (K, D).
        codes: for each column the (bins,) code of the category of each bin; NaN for bin 0.
    """

    bins: NDArray[np.uint16]
    codes: tuple[NDArray[np.float32], ...]


NO_CATEGORIES = CategoricalBins(np.empty((0, 0), dtype=np.uint16), ())


@dataclass(frozen=True, eq=False)
class BinnedFeatures:
    """The features of a data set as bins.

    Attributes:
        words: (D, W) uint64; byte c % 8 of words[d, c // 8] is the bin of document d in column c.
        thresholds: (C, 255) float32, ascending; padded with infinity after a column's last threshold; NaN for
            categorical columns.
        num_bins: (C,), number of bins per column, including the bin of missing values.
        feature_of_column: (C,), ascending, apart from the categorical columns at the end.
        categories: the categorical columns, of which the words have no bins.
    """

    words: NDArray[np.uint64]
    thresholds: NDArray[np.float32]
    num_bins: NDArray[np.int64]
    feature_of_column: NDArray[np.int64]
    categories: CategoricalBins = NO_CATEGORIES
    layout: ClassVar[None] = (
        None  # a byte per document and column; `sparse` has other layouts
    )

    @property
    def num_documents(self) -> int:
        return len(self.words)

    @property
    def num_columns(self) -> int:
        return len(self.num_bins)

    def bins_of(self, column: int, rows: Rows) -> NDArray[np.uint8]:
        """Returns the (n,) bins of these documents in a column."""
        words = self.words[rows, column // 8]
        first_bit = np.uint64(8 * (column % 8))
        return np.asarray(words >> first_bit, dtype=np.uint8)

    def upper_edges(
        self, columns: NDArray[np.int64], bins: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns the thresholds at the end of these bins of these columns."""
        return self.thresholds[columns, bins]


def quantile_cuts(
    values: NDArray[np.float32], max_bins: int, num_zeros: int = 0
) -> NDArray[np.float32]:
    """Returns the thresholds of one feature for bins of equal weight, ascending; NaN is ignored.

    There are at most max_bins - 1 thresholds.

    Args:
        num_zeros: number of further documents with the value 0, which `values` does not contain.

    >>> quantile_cuts(np.array([3, 1, 1, 2, np.nan], dtype=np.float32), max_bins=255).tolist()
    [1.5, 2.5]
    """
    ordered = np.sort(values)
    ordered = ordered[: len(ordered) - np.count_nonzero(np.isnan(ordered))]
    is_new = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(np.append(True, is_new)[: len(ordered)])
    counts = np.diff(starts, append=len(ordered)).astype(np.float64)
    distinct, counts = _with_zeros(ordered[starts], counts, num_zeros)
    if len(distinct) == 0:
        return distinct
    if len(distinct) <= max_bins:
        last_of_bin = np.arange(len(distinct) - 1)
    else:
        last_of_bin = _equal_weight(counts, max_bins)
    low = distinct[last_of_bin]
    high = distinct[last_of_bin + 1]
    halfway = low / 2 + high / 2
    # No float32 is between two adjacent floats: then the lower one is the threshold.
    is_between = (low <= halfway) & (halfway < high)
    cuts: NDArray[np.float32] = np.where(is_between, halfway, low)
    return cuts


def _with_zeros(
    distinct: NDArray[np.float32], counts: NDArray[np.float64], num_zeros: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Returns ascending distinct values and their counts with `num_zeros` further zeros."""
    if num_zeros == 0:
        return distinct, counts
    index = int(np.searchsorted(distinct, 0))
    if index == len(distinct) or distinct[index] != 0:
        distinct = np.insert(distinct, index, 0)
        counts = np.insert(counts, index, 0)
    counts[index] += num_zeros
    return distinct, counts


def _equal_weight(counts: NDArray[np.float64], max_bins: int) -> NDArray[np.int64]:
    """Returns the indices of the distinct values that are the last of their bin, for bins of equal weight.

    The weight of a value is its count, but at most the capacity of one bin: the sum of min(counts, capacity)
    is max_bins * capacity. Without this limit, a feature that is 0 for 90 % of the documents would have only
    10 % of its bins for all other values.
    """
    capacity = counts.sum() / max_bins
    while True:
        fills_a_bin = counts >= capacity
        num_shared = max_bins - np.count_nonzero(fills_a_bin)
        fair = counts[~fills_a_bin].sum() / num_shared
        if fair >= capacity:
            break
        capacity = fair
    weight = np.minimum(counts, capacity)
    middle = np.cumsum(weight) - weight / 2
    bin_of_middle = (middle / capacity).astype(np.int64)
    bin_of_value = np.minimum(bin_of_middle, max_bins - 1)
    ends: NDArray[np.int64] = np.flatnonzero(np.diff(bin_of_value))
    return ends


QUANTILE = ThresholdRule(quantile_cuts, sample_size=200_000, halfway=True)
"""The sample size is LightGBM's default; each of 255 bins then contains 784 sampled documents."""


# As in RankLib, a range beyond float32 leaves only the first threshold.
@np.errstate(over="ignore")
def equal_width_cuts(
    values: NDArray[np.float32], max_bins: int, num_zeros: int = 0
) -> NDArray[np.float32]:
    """Returns the thresholds of one feature at equal distances, ascending; NaN is ignored.

    Thresholds without a value between them split the documents in the same way; only the first of them is
    kept, because the first of equal splits is chosen. Thresholds at or above the maximum are dropped.

    Args:
        num_zeros: number of further documents with the value 0, which `values` does not contain.

    >>> equal_width_cuts(np.array([0, 1, 2, 3, 10], dtype=np.float32), max_bins=5).tolist()
    [0.0, 2.5, 5.0]
    """
    distinct = np.unique(values[~np.isnan(values)])
    distinct, _ = _with_zeros(distinct, np.ones(len(distinct)), num_zeros)
    num_thresholds = max_bins - 1
    if len(distinct) <= num_thresholds:
        return distinct[:-1]
    width = (distinct[-1] - distinct[0]) / np.float32(num_thresholds)
    steps = np.full(num_thresholds, width)
    steps[0] = distinct[0]
    thresholds = np.cumsum(steps)
    num_left = np.searchsorted(distinct, thresholds, side="right")
    is_new = np.diff(num_left, prepend=0) > 0
    parts_anew = is_new & (num_left < len(distinct))
    cuts: NDArray[np.float32] = thresholds[parts_anew]
    return cuts


# All documents, because a sample may miss the minimum or the maximum.
EQUAL_WIDTH = ThresholdRule(equal_width_cuts, sample_size=None, halfway=False)


def bin_features(
    features: AnyFeatures,
    max_bins: int,
    rng: np.random.Generator,
    rule: ThresholdRule = QUANTILE,
    placement: Placement | None = None,
    categorical: Sequence[int] = (),
) -> BinnedFeatures:
    """Chooses the thresholds of every feature and bins all documents, a block of rows at a time.

    Args:
        features: (D, F).
        max_bins: maximum number of bins per feature, without the bin of missing values.
        rng: generator for the sample of documents.
        rule: rule that chooses the thresholds.
        placement: where the documents are in the whole training set, from which thresholds are chosen; None:
            they are all.
        categorical: indices of the categorical features, ascending.
    """
    if placement is None or placement.is_alone:
        cuts = _cuts(features, max_bins, rng, rule)
    else:
        cuts = _joint_cuts(features, max_bins, rng, rule, placement)
    binned = _binned(features, _columns(cuts, categorical))
    if not categorical:
        return binned
    categories = _bin_categories(
        features, categorical, max_bins, placement.team if placement else ALONE
    )
    no_thresholds = ((0, len(categorical)), (0, 0))
    thresholds = np.pad(binned.thresholds, no_thresholds, constant_values=np.nan)
    num_bins = [len(codes) for codes in categories.codes]
    return replace(
        binned,
        thresholds=thresholds,
        num_bins=np.append(binned.num_bins, num_bins),
        feature_of_column=np.append(binned.feature_of_column, categorical),
        categories=categories,
    )


COVERED = 0.99
"""Share of the documents whose categories have their own bin in any case, as in LightGBM."""
MIN_DOCS_IN_CATEGORY = 3
"""Minimum number of documents of a category, except for the two most frequent ones: LightGBM's default."""


def _bin_categories(
    features: AnyFeatures, categorical: Sequence[int], max_bins: int, team: Team
) -> CategoricalBins:
    blocks = (block[:, categorical] for _, block in row_blocks(features))
    values = np.concatenate(list(blocks))
    bins = np.zeros(values.T.shape, dtype=np.uint16)
    codes_of_bins = []
    for bins_of_column, column in zip(bins, values.T, strict=True):
        is_known = ~np.isnan(column)
        codes = column[is_known].astype(np.int64)
        counts, num_documents = _counted(codes, len(column), team)
        kept = frequent_categories(counts, num_documents, max_bins)
        bin_of_code = np.zeros(len(counts), dtype=np.uint16)
        bin_of_code[kept] = np.arange(1, len(kept) + 1)
        bins_of_column[is_known] = bin_of_code[codes]
        codes_of_bins.append(np.append(np.nan, kept).astype(np.float32))
    return CategoricalBins(bins, tuple(codes_of_bins))


def _counted(
    codes: NDArray[np.int64], num_rows: int, team: Team
) -> tuple[NDArray[np.int64], int]:
    """Returns the number of documents of each code, and of all documents, over all members."""
    num_here = codes.max(initial=-1) + 1.0
    num_codes = int(team.largest(np.array([num_here]))[0])
    counts_here = np.bincount(codes, minlength=num_codes)
    num_documents, *counts = team.total(np.append(num_rows, counts_here))
    return np.array(counts, dtype=np.int64), int(num_documents)


def frequent_categories(
    counts: NDArray[np.int64], num_documents: int, max_bins: int
) -> NDArray[np.int64]:
    """Returns the categories that have their own bin, the most frequent first.

    Args:
        counts: number of documents of each category.
        num_documents: number of all documents, including those with a missing value.
        max_bins: maximum number of bins of a numeric feature.

    >>> frequent_categories(np.array([2, 0, 90, 900]), num_documents=992, max_bins=2).tolist()
    [3, 2]
    """
    num_present = np.count_nonzero(counts)
    order = np.argsort(-counts, kind="stable")[:num_present]
    sizes = counts[order]
    number = np.arange(len(order))
    total = sizes.sum()
    max_bins = min(len(order) + int(num_documents > total), max_bins)
    is_needed = np.cumsum(sizes) - sizes < np.floor(COVERED * total + 0.5)
    is_large = sizes >= MIN_DOCS_IN_CATEGORY
    is_kept = (is_needed | (number + 1 < max_bins)) & (is_large | (number < 2))
    is_kept &= number < np.iinfo(np.uint16).max
    kept: NDArray[np.int64] = order[is_kept]
    return kept


def _cuts(
    features: AnyFeatures, max_bins: int, rng: np.random.Generator, rule: ThresholdRule
) -> list[NDArray[np.float32]]:
    """Returns the thresholds of every feature."""
    sample = features
    if (rows := rule.sample(len(features), rng)) is not None:
        sample = gather_rows(features, rows)
    elif rule.sample_size is not None:
        sample = as_array(features)

    def choose(first: int) -> list[NDArray[np.float32]]:
        # Eight features at a time, because a cache line contains several values of a row.
        columns = np.ascontiguousarray(sample[:, first : first + 8])
        return [rule.cut_points(column, max_bins) for column in columns.T]

    # NumPy's sort releases the global interpreter lock.
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        groups = pool.map(choose, range(0, features.shape[1], 8))
        return list(itertools.chain.from_iterable(groups))


VALUES_JOINED = 1 << 24
"""Maximum number of values that members exchange at a time, unless one feature has more: 64 MB."""


def _joint_cuts(
    features: AnyFeatures,
    max_bins: int,
    rng: np.random.Generator,
    rule: ThresholdRule,
    placement: Placement,
) -> list[NDArray[np.float32]]:
    """Returns the thresholds of every feature.

    Every member gets the sampled values of all members, a few features at a time, and chooses the thresholds
    of its share of the features.
    """
    team = placement.team
    sampled = rule.sample(placement.num_documents, rng)
    if sampled is None:
        sampled = np.arange(placement.num_documents)
    rows_here = placement.rows_here(sampled)
    num_features = features.shape[1]
    if rule.sample_size is not None:
        features = gather_rows(features, rows_here)
    rows_of_members = team.joined(placement.rows[rows_here])
    order = np.argsort(np.concatenate(rows_of_members))
    width = max(1, min(8 * team.size, VALUES_JOINED // len(sampled)))
    cuts: list[NDArray[np.float32]] = []
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        for first in range(0, num_features, width):
            columns = np.ascontiguousarray(features[:, first : first + width].T)
            chosen = slice((team.rank - first) % team.size, None, team.size)
            # In the order of rows, because zeros of both signs are equal but may become a threshold.
            joined = _of_all_members(columns, chosen, team)[:, order]
            cuts += pool.map(rule.cut_points, joined, [max_bins] * len(joined))
    return _dealt_out(cuts, num_features, team)


def _of_all_members(
    columns: NDArray[np.float32], chosen: slice, team: Team
) -> NDArray[np.float32]:
    """Returns the values of all members in the chosen columns, given those of this member, (C, n)."""
    of_members = team.joined(columns.ravel())
    parts = [part.reshape(len(columns), -1)[chosen] for part in of_members]
    return np.concatenate(parts, axis=1)


def _dealt_out(
    cuts: Sequence[NDArray[np.float32]], num_features: int, team: Team
) -> list[NDArray[np.float32]]:
    """Returns the thresholds of every feature, given those of this member's features, which are rank,
    rank + size, ..."""
    num_cuts = [len(cuts_of_feature) for cuts_of_feature in cuts]
    counts = team.joined(np.array(num_cuts, dtype=np.int64))
    no_cuts = np.empty(0, dtype=np.float32)
    values = team.joined(np.concatenate([no_cuts, *cuts]))
    split = []
    for part, count in zip(values, counts, strict=True):
        split.append(np.split(part, np.cumsum(count)[:-1]))
    dealt = []
    for f in range(num_features):
        of_member = split[f % team.size]
        dealt.append(of_member[f // team.size])
    return dealt


def bin_alike(features: AnyFeatures, binned: BinnedFeatures) -> BinnedFeatures:
    """Returns the bins of other documents, (D, F), with the thresholds of `binned`."""
    return _binned(
        features, Columns(binned.thresholds, binned.num_bins, binned.feature_of_column)
    )


def _binned(features: AnyFeatures, columns: Columns) -> BinnedFeatures:
    num_words = -(-len(columns.num_bins) // 8)
    num_columns = len(columns.num_bins)
    require_memory(
        f"the bins of {len(features)} documents in {num_columns} columns",
        8 * len(features) * num_words,
        "Use fewer features or fewer queries (data.subset), or, if most values are 0, sparse features "
        "(data.sparse=true).",
    )
    words = np.empty((len(features), num_words), dtype=np.uint64)
    for start, block in row_blocks(features):
        words_of_block = words[start : start + len(block)]
        num_parts = (len(block) + DOCUMENTS_BINNED - 1) // DOCUMENTS_BINNED
        in_parts(_bin_blocks, num_parts, block, columns, words_of_block)
    return BinnedFeatures(words, *columns)


def _columns(
    cuts: Sequence[NDArray[np.float32]], categorical: Sequence[int] = ()
) -> Columns:
    """Distributes the thresholds of each feature that is not categorical to columns."""
    most = COLUMN_BINS - 1
    features = []
    chunks = []
    for feature, cuts_of_feature in enumerate(cuts):
        if feature in categorical:
            continue
        ends = range(most, len(cuts_of_feature), most)
        for chunk in np.split(cuts_of_feature, ends):
            features.append(feature)
            chunks.append(chunk)
    shape = (len(chunks), COLUMN_BINS)
    thresholds = np.full(shape, np.inf, dtype=np.float32)
    for column, chunk in enumerate(chunks):
        thresholds[column, : len(chunk)] = chunk
    num_bins = [len(chunk) + 2 for chunk in chunks]
    return Columns(
        thresholds,
        np.array(num_bins, dtype=np.int64),
        np.array(features, dtype=np.int64),
    )


def reference_bins(features: Features, binned: BinnedFeatures) -> NDArray[np.uint8]:
    """Returns the (C, D) bins: the number of thresholds below the value, or the last bin if it is missing."""
    bins = np.empty((binned.num_columns, len(features)), dtype=np.uint8)
    for c, f in enumerate(binned.feature_of_column):
        bin_of_value = np.searchsorted(
            binned.thresholds[c], features[:, f], side="left"
        )
        missing_bin = binned.num_bins[c] - 1
        bins[c] = np.where(np.isnan(features[:, f]), missing_bin, bin_of_value)
    return bins


DOCUMENTS_BINNED = 1024
"""Number of documents per block: their values in eight columns fit the L1 cache."""


@kernel
def _bin_blocks(
    part: Part, features: Features, columns: Columns, words: NDArray[np.uint64]
) -> None:
    num_documents, num_words = words.shape
    values = np.empty((8, DOCUMENTS_BINNED), dtype=np.float32)
    bins = np.empty(DOCUMENTS_BINNED, dtype=np.uint64)
    for block in range(part[0], part[1]):
        first = block * DOCUMENTS_BINNED
        size = min(DOCUMENTS_BINNED, num_documents - first)
        for word in range(num_words):
            column_features = columns.feature_of_column[8 * word : 8 * word + 8]
            for d in range(size):
                words[first + d, word] = 0
                for lane in range(len(column_features)):
                    values[lane, d] = features[first + d, column_features[lane]]
            for lane in range(len(column_features)):
                c = 8 * word + lane
                missing_bin = np.uint64(columns.num_bins[c] - 1)
                _bin_block(
                    values[lane, :size], columns.thresholds[c], missing_bin, bins
                )
                for d in range(size):
                    words[first + d, word] |= bins[d] << np.uint64(8 * lane)


@kernel
def _bin_block(
    values: NDArray[np.float32],
    thresholds: NDArray[np.float32],
    missing_bin: np.uint64,
    bins: NDArray[np.uint64],
) -> None:
    """Writes the number of thresholds below each value, by binary search in eight steps.

    Each step is done for all values before the next step, so that it can be vectorised.
    """
    for d in range(len(values)):
        bins[d] = 0
    for power in range(7, -1, -1):
        half = np.uint64(1 << power)
        for d in range(len(values)):
            bins[d] += half * np.uint64(
                values[d] > thresholds[bins[d] + half - np.uint64(1)]
            )
    for d in range(len(values)):
        bins[d] = bins[d] if values[d] == values[d] else missing_bin


@kernel
def read_words(
    words: NDArray[np.uint64], word: int, rows: Rows, read: NDArray[np.uint64]
) -> None:
    """Writes read[:n] = words[rows, word] in a separate loop, so that memory accesses overlap.

    If each word is used as soon as it is read, small leaves take three to five times as long [measured].
    """
    index = np.uint64(word)
    for i in range(len(rows)):
        read[i] = words[np.uint64(rows[i]), index]


# ---- The layout of sparse bins: where the bin of a document in a column is stored.
#
# The bins of `BinnedFeatures` take one byte per document and column: 50 GB for 500,000 documents
# with 100,000 columns. In sparse features, most documents have the absent value, 0 or missing, of most
# features. The bin of the absent value is the column's default bin, and only the other bins are stored, in
# one of two forms. For LightGBM they are exclusive feature bundles and sparse multi-value bins.
#
#     lanes   A byte column of `words`. One lane contains one column, or a bundle of several columns of
#             which no training document has more than one outside its default bin (Ke et al., 2017,
#             "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", section 4). Byte 0: all columns
#             of the lane have their default bin; the other bytes are divided among the columns:
#
#                 byte = first_byte[c] + b - (b > default_bin[c])   for a bin b other than default_bin[c]
#
#     lists   For each document, the histogram cells bin_start[c] + b of its other columns with another bin
#             than the default, ascending: four bytes each.
#
# Lanes suit columns and bundles for which a quarter of the documents or more have a stored bin: a list
# would need four bytes for each. Both forms represent the same bins, columns and thresholds as dense bins;
# only columns that can never be split are left out. A histogram of a leaf has one cell for each bin of each
# column, as for dense bins. The sum of the default bin is the sum over the leaf minus the sums of the other
# bins:
#
#     histogram[bin_start[c] + default_bin[c]] = sum of packed[d] - sum of the other cells of c
#
# The sums are integers, so that the difference is exact. Histograms, splits, trees and scores therefore
# have the same bits as those of dense bins; bundles have no conflicts (max_conflict_rate is 0 in the
# paper's terms). The search for splits loops over columns in the order of features, not over lanes, so that
# the choice among equal gains is the same too. Validation documents have no bins here, because they may
# have several features of a bundle: `forest.stored` computes their scores from the stored values.
#
# Shapes: D documents, C columns, L lanes, W = ceil(L / 8) words per document, B histogram cells, n listed
# cells.

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
        bytes_of_lane: (8 W, D), the bytes of the words by lane. A split on an exclusive feature moves few
            documents to one side, so that large leaves are split, and one lane of them read, again and again.
        row_start: (D + 1,), position of each document's first listed cell, followed by n.
        cells: (n,), listed cells, ascending in a document.
        listed_before: (C + 1,), number of listed cells of the columns before each column, followed by n.
        documents: (n,), the documents of the listed cells, by column and ascending.
    """

    bin_start: NDArray[np.int64]
    default_bin: NDArray[np.int64]
    lane: NDArray[np.int64]
    cell_of_byte: NDArray[np.int64]
    bytes_of_lane: NDArray[np.uint8]
    row_start: NDArray[np.int64]
    cells: NDArray[np.uint32]
    listed_before: NDArray[np.int64]
    documents: Rows


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
    categories: ClassVar[CategoricalBins] = NO_CATEGORIES

    @property
    def num_documents(self) -> int:
        return len(self.words)

    @property
    def num_columns(self) -> int:
        return len(self.num_bins)

    def bins_of(self, column: int, rows: Rows) -> NDArray[np.uint8]:
        """Returns the (n,) bins of these documents, ascending, in a column."""
        bins = np.empty(len(rows), dtype=np.uint64)
        read_column(self.words, self.layout, column, rows, bins)
        return bins.astype(np.uint8)

    def upper_edges(
        self, columns: NDArray[np.int64], bins: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns the thresholds at the end of these bins of these columns."""
        cells = self.layout.bin_start[columns] + bins
        edges: NDArray[np.float32] = self.edges[cells]
        return edges


AnyBins = BinnedFeatures | SparseBins


@borrowing_kernel
def read_column(
    words: NDArray[np.uint64],
    layout: SparseLayout | None,
    column: int,
    rows: Rows,
    read: NDArray[np.uint64],
) -> np.uint64:
    """Writes words that contain the bins of `rows` in a column; returns by how many bits to shift them.

    The rows are ascending: if a sparse column has fewer documents, its list is searched instead of theirs.
    Dense bins have no layout: numba compiles this for them without the other branch.
    """
    if layout is None:
        read_words(words, column // 8, rows, read)
        return np.uint64(8 * (column % 8))
    c = np.uint64(column)
    if layout.lane[c] >= 0:
        _read_lane(layout, c, rows, read)
    else:
        _read_lists(layout, c, rows, read)
    return np.uint64(0)


@inlined_kernel
def _read_lane(
    layout: SparseLayout, c: np.uint64, rows: Rows, read: NDArray[np.uint64]
) -> None:
    stored = layout.bytes_of_lane[np.uint64(layout.lane[c])]
    for i in range(len(rows)):
        byte = stored[np.uint64(rows[i])]
        read[i] = _bin_of_byte(layout, c, byte)


@borrowing_kernel
def _bin_of_byte(layout: SparseLayout, c: np.uint64, byte: np.uint8) -> np.uint64:
    """Returns the bin of a document in a column whose lane has this byte for the document."""
    first = np.uint64(layout.bin_start[c])
    num_bins = np.uint64(layout.bin_start[c + np.uint64(1)]) - first
    # Wraps around for a cell of another column before this one.
    cells = layout.cell_of_byte[np.uint64(layout.lane[c])]
    b = np.uint64(cells[byte]) - first
    return b if b < num_bins else np.uint64(layout.default_bin[c])


@inlined_kernel
def _read_lists(
    layout: SparseLayout, c: np.uint64, rows: Rows, read: NDArray[np.uint64]
) -> None:
    if len(rows) == 0:
        return
    first = layout.listed_before[c]
    listed = layout.documents[first : layout.listed_before[c + np.uint64(1)]]
    start = _first_from(listed, rows[0], 0)
    end = _first_from(listed, rows[-1] + 1, start)
    if end - start >= len(rows):
        for i in range(len(rows)):
            read[i] = _listed_bin(layout, c, rows[i])
        return
    read[: len(rows)] = np.uint64(layout.default_bin[c])
    place = 0
    for document in listed[start:end]:
        place = _first_from(rows, document, place)
        if rows[place] == document:
            read[place] = _listed_bin(layout, c, document)


@borrowing_kernel
def _first_from(rows: Rows, document: int, place: int) -> int:
    """Returns the position, from `place` on, of the first row that is not below a document."""
    low = place
    high = len(rows)
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < document:
            low = middle + 1
        else:
            high = middle
    return low


@borrowing_kernel
def _listed_bin(layout: SparseLayout, c: np.uint64, row: np.uint32) -> np.uint64:
    """Returns the bin of a document in a column whose bins are in the lists."""
    first = np.uint64(layout.bin_start[c])
    end = np.uint64(layout.bin_start[c + np.uint64(1)])
    index, stop = first_listed(layout, row, first)
    if index < stop and np.uint64(layout.cells[index]) < end:
        return np.uint64(np.uint64(layout.cells[index]) - first)
    return np.uint64(layout.default_bin[c])


@borrowing_kernel
def first_listed(
    layout: SparseLayout, row: np.uint32, cell: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Returns the position of a document's first listed cell at or after `cell`, and the end of its list."""
    d = np.uint64(row)
    low = np.uint64(layout.row_start[d])
    stop = np.uint64(layout.row_start[d + np.uint64(1)])
    high = stop
    while low < high:
        middle = (low + high) >> np.uint64(1)
        if np.uint64(layout.cells[middle]) < cell:
            low = middle + np.uint64(1)
        else:
            high = middle
    return low, stop


# ---- Partition: moves the documents of a split leaf to its two children.
#
# Documents with a bin of at most `last_bin` go left, as do missing values if `missing_left`. They are moved
# to the front of the leaf's rows; the order within both parts does not change. For a split on a categorical
# feature, a mask has the bins that go left. Shapes: n documents of the leaf.

DOCUMENTS_MOVED = 1024
"""Number of documents whose words are read ahead: 8 kB, a quarter of the L1 cache."""
FEW_ROWS = 8_000
"""Number of documents below which one thread is faster than starting several."""


@parallel_kernel
def partition(
    words: NDArray[np.uint64],
    layout: SparseLayout | None,
    cut: tuple[int, int, int, int],
    rows: Rows,
    scratch: Rows,
    num_threads: int,
    categories: NDArray[np.uint16] | None,
    is_left: NDArray[np.bool_],
) -> int:
    """Moves the documents that go left to the front of `rows`, keeping the order; returns their number.

    Args:
        words: (D, W), as in BinnedFeatures or SparseBins.
        layout: where sparse bins are stored; None for dense bins.
        cut: column, last bin that goes left, bin of missing values, whether missing values go left; for a
            categorical column its number among these, 0, 1 and 0.
        rows: (n,), reordered in place.
        scratch: (n,) or longer, working memory.
        num_threads: number of threads; each partitions one part of the rows.
        categories: (K, D), as in CategoricalBins; None: no column is categorical.
        is_left: (bins,), whether the bins of a categorical column go left; empty for another column.
    """
    if len(rows) < FEW_ROWS:
        num_left = _share_out(words, layout, cut, rows, scratch, categories, is_left)
        _copy(scratch, rows[num_left:])
        return num_left
    num_left_of = np.empty(num_threads, dtype=np.int64)
    for part in numba.prange(num_threads):
        first = part * len(rows) // num_threads
        end = (part + 1) * len(rows) // num_threads
        num_left_of[part] = _share_out(
            words, layout, cut, rows[first:end], scratch[first:end], categories, is_left
        )
    return _join(num_left_of, rows, scratch)


@inlined_kernel
def _join(num_left_of: NDArray[np.int64], rows: Rows, scratch: Rows) -> int:
    """Joins the parts after `_share_out`; returns the number of documents that go left."""
    num_parts = len(num_left_of)
    num_left = 0
    for part in range(num_parts):
        first = part * len(rows) // num_parts
        _copy(rows[first:], rows[num_left : num_left + num_left_of[part]])
        num_left += num_left_of[part]
    index = num_left
    for part in range(num_parts):
        first = part * len(rows) // num_parts
        end = (part + 1) * len(rows) // num_parts
        num_right = end - first - num_left_of[part]
        _copy(scratch[first:], rows[index : index + num_right])
        index += num_right
    return num_left


@kernel
def _share_out(
    words: NDArray[np.uint64],
    layout: SparseLayout | None,
    cut: tuple[int, int, int, int],
    rows: Rows,
    scratch: Rows,
    categories: NDArray[np.uint16] | None,
    is_left: NDArray[np.bool_],
) -> int:
    """Moves left-going documents to the front of rows, others to scratch; returns how many go left."""
    ahead = np.empty(DOCUMENTS_MOVED, dtype=np.uint64)
    # Not joined with the next condition: numba leaves this out for dense bins.
    if layout is not None:
        lane = layout.lane[cut[0]]
        if lane != IN_LISTS:
            return _share_lane(layout, cut, rows, scratch, ahead)
    num_left = np.uint64(0)
    num_right = np.uint64(0)
    for start in range(0, len(rows), DOCUMENTS_MOVED):
        block = rows[start : start + DOCUMENTS_MOVED]
        if len(is_left) > 0:
            shift = _read_sides(categories, cut[0], is_left, block, ahead)
        else:
            shift = read_column(words, layout, cut[0], block, ahead)
        for i in range(len(block)):
            row = block[i]
            b = (ahead[i] >> shift) & np.uint64(255)
            goes_left = _goes_left(cut, b)
            # Written to both sides but counted on one, which avoids an unpredictable branch.
            rows[num_left] = row
            scratch[num_right] = row
            num_left += goes_left
            num_right += np.uint64(1) - goes_left
    return int(np.int64(num_left))


@borrowing_kernel
def _share_lane(
    layout: SparseLayout,
    cut: tuple[int, int, int, int],
    rows: Rows,
    scratch: Rows,
    side: NDArray[np.uint64],
) -> int:
    """Does the same for a column in a lane, with the side of each byte in `side`, working memory."""
    c = np.uint64(cut[0])
    for byte in range(256):
        b = _bin_of_byte(layout, c, np.uint8(byte))
        side[byte] = _goes_left(cut, b)
    stored = layout.bytes_of_lane[np.uint64(layout.lane[c])]
    num_left = np.uint64(0)
    num_right = np.uint64(0)
    for i in range(len(rows)):
        row = rows[i]
        goes_left = side[stored[np.uint64(row)]]
        rows[num_left] = row
        scratch[num_right] = row
        num_left += goes_left
        num_right += np.uint64(1) - goes_left
    return int(np.int64(num_left))


@borrowing_kernel
def _goes_left(cut: tuple[int, int, int, int], b: np.uint64) -> np.uint64:
    """Returns 1 for a bin that goes left, otherwise 0."""
    if b == np.uint64(cut[2]):
        return np.uint64(cut[3])
    return np.uint64(b <= np.uint64(cut[1]))


@kernel
def _read_sides(
    categories: NDArray[np.uint16] | None,
    number: int,
    is_left: NDArray[np.bool_],
    rows: Rows,
    read: NDArray[np.uint64],
) -> np.uint64:
    """Writes 0 for documents that go left and 1 for others; returns by how many bits to shift them."""
    if categories is not None:
        bins = categories[number]
        for i in range(len(rows)):
            read[i] = not is_left[np.uint64(bins[np.uint64(rows[i])])]
    return np.uint64(0)


@kernel
def _copy(source: Rows, target: Rows) -> None:
    """Copies front to back, so that the target may overlap an earlier part of the source's array."""
    for i in range(len(target)):
        target[i] = source[i]
