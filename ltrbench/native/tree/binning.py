"""Binning: a feature's values grouped once into a few bins, so that trees try cuts between bins only.

Bin b of a feature holds the values x with thresholds[b - 1] < x <= thresholds[b]. A threshold is a float32
that parts two values seen in training, so that a tree cuts raw features (x <= threshold goes left) just as it
cut bins. One more bin, the last, is for missing values. Where thresholds lie is a rule's choice. QUANTILE,
which LightGBM and XGBoost follow too:

    few distinct values, at most max_bins: a bin each, cut halfway between neighbours
    many: bins of equal weight, where a value so frequent that it would fill several bins gets one

EQUAL_WIDTH, which is `nThreshold` of RankLib's LambdaMART:

    few distinct values, at most max_bins - 1: every value is a threshold
    many: min, min + step, min + 2 step, ...; step = (max - min) / (max_bins - 1), added up in float32

Beside quantiles, a feature of a long tail is cut coarsely where most documents are and finely in the tail:
one extreme value can leave all others in a single bin. RankLib's 256 thresholds are max_bins = 257.

A bin is a byte of a column. A feature of more thresholds than a byte can tell apart has several columns, each
with the next of its thresholds: every cut of the feature is a cut of one of them, and the order of columns
and bins is that of features and thresholds. The bins of eight columns stand together in a 64-bit word, which
a histogram reads at once, and the words of a document in a row: what a small leaf reads lies close together.
Shapes: D documents, F features, C columns, W = ceil(C / 8) words a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.shapes import Features

COLUMN_BINS = 255
"""Value bins that fit a byte beside the bin of missing values."""
Rows = NDArray[np.uint32]  # (n,), documents, rising
CutPoints = Callable[[NDArray[np.float32], int], NDArray[np.float32]]
"""(a feature's values, max_bins) -> its thresholds, rising, at most max_bins - 1; NaN is ignored."""


class ThresholdRule(NamedTuple):
    """How thresholds are chosen.

    Attributes:
        cut_points: the thresholds of one feature.
        sample_size: documents that they are taken from; None: all.
    """

    cut_points: CutPoints
    sample_size: int | None


@dataclass(frozen=True, eq=False)
class BinnedFeatures:
    """The features of a data set as bins.

    Attributes:
        words: (D, W) uint64; byte c % 8 of words[d, c // 8] is document d's bin in column c.
        thresholds: (C, 255) float32, rising; infinity behind a column's last threshold.
        num_bins: (C,), each column's bins with the one for missing values, which is the last.
        feature_of_column: (C,), rising.
    """

    words: NDArray[np.uint64]
    thresholds: NDArray[np.float32]
    num_bins: NDArray[np.int64]
    feature_of_column: NDArray[np.int64]

    @property
    def num_documents(self) -> int:
        return len(self.words)

    @property
    def num_columns(self) -> int:
        return len(self.num_bins)

    def bins_of(self, column: int, rows: Rows) -> NDArray[np.uint8]:
        """(n,), the bins of these documents in a column."""
        words = self.words[rows, column // 8]
        return np.asarray(words >> np.uint64(8 * (column % 8)), dtype=np.uint8)


def quantile_cuts(values: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    """The rising thresholds, at most max_bins - 1, that group one feature's values; NaN is ignored.

    >>> quantile_cuts(np.array([3, 1, 1, 2, np.nan], dtype=np.float32), max_bins=255).tolist()
    [1.5, 2.5]
    """
    ordered = np.sort(values)
    ordered = ordered[: len(ordered) - np.count_nonzero(np.isnan(ordered))]
    if len(ordered) == 0:
        return ordered
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    distinct = ordered[starts]
    if len(distinct) <= max_bins:
        last_of_bin = np.arange(len(distinct) - 1)
    else:
        counts = np.diff(np.append(starts, len(ordered))).astype(np.float64)
        last_of_bin = _equal_weight(counts, max_bins)
    low, high = distinct[last_of_bin], distinct[last_of_bin + 1]
    halfway = low / 2 + high / 2
    # Between neighbouring floats there is nothing halfway: then cut at the lower.
    cuts: NDArray[np.float32] = np.where((low <= halfway) & (halfway < high), halfway, low)
    return cuts


def _equal_weight(counts: NDArray[np.float64], max_bins: int) -> NDArray[np.int64]:
    """The indices of the distinct values that end a bin, when bins of equal weight are filled in order.

    A value weighs its count, but at most one bin: min(counts, capacity) sums to max_bins * capacity. Without
    that bound, a feature that is 0 for nine documents in ten would have but a tenth of its bins for all other
    values.
    """
    capacity = counts.sum() / max_bins
    while True:
        fills_a_bin = counts >= capacity
        fair = counts[~fills_a_bin].sum() / (max_bins - np.count_nonzero(fills_a_bin))
        if fair >= capacity:
            break
        capacity = fair
    weight = np.minimum(counts, capacity)
    middle = np.cumsum(weight) - weight / 2
    bin_of_value = np.minimum((middle / capacity).astype(np.int64), max_bins - 1)
    ends: NDArray[np.int64] = np.flatnonzero(np.diff(bin_of_value))
    return ends


QUANTILE = ThresholdRule(quantile_cuts, sample_size=200_000)
"""The sample size is LightGBM's default; each of 255 bins then holds 784 documents of it."""


@np.errstate(over="ignore")  # as in RankLib, a range beyond float32 leaves but the first threshold
def equal_width_cuts(values: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    """The rising thresholds of one feature; NaN is ignored.

    Of thresholds between which no value lies only the first is kept: they part the documents alike, and the
    first of equal cuts is taken. A threshold that all values are at most parts nothing.

    >>> equal_width_cuts(np.array([0, 1, 2, 3, 10], dtype=np.float32), max_bins=5).tolist()
    [0.0, 2.5, 5.0]
    """
    distinct = np.unique(values[~np.isnan(values)])
    num_thresholds = max_bins - 1
    if len(distinct) <= num_thresholds:
        return distinct[:-1]
    steps = np.full(num_thresholds, (distinct[-1] - distinct[0]) / np.float32(num_thresholds))
    steps[0] = distinct[0]
    thresholds = np.cumsum(steps)
    num_left = np.searchsorted(distinct, thresholds, side="right")
    parts_anew = (np.diff(num_left, prepend=0) > 0) & (num_left < len(distinct))
    cuts: NDArray[np.float32] = thresholds[parts_anew]
    return cuts


# All documents, because one that is not in a sample may be the least or the greatest.
EQUAL_WIDTH = ThresholdRule(equal_width_cuts, sample_size=None)


def bin_features(
    features: Features, max_bins: int, rng: np.random.Generator, rule: ThresholdRule = QUANTILE
) -> BinnedFeatures:
    """Chooses the thresholds of every feature, and bins all documents."""
    num_documents, num_features = features.shape
    sample = features
    if rule.sample_size is not None and num_documents > rule.sample_size:
        sample = features[np.sort(rng.choice(num_documents, rule.sample_size, replace=False))]

    def choose(first: int) -> list[NDArray[np.float32]]:
        # Eight features at a time, because a row's cache line holds the values of several.
        columns = np.ascontiguousarray(sample[:, first : first + 8])
        return [rule.cut_points(column, max_bins) for column in columns.T]

    # Sorting in NumPy runs without the interpreter's lock.
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        groups = pool.map(choose, range(0, num_features, 8))
        cuts = [cuts_of_feature for group in groups for cuts_of_feature in group]
    feature_of_column, thresholds, num_bins = _columns(cuts)
    words = np.empty((num_documents, -(-len(num_bins) // 8)), dtype=np.uint64)
    _bin_all(features, feature_of_column, thresholds, num_bins, words)
    return BinnedFeatures(words, thresholds, num_bins, feature_of_column)


def _columns(
    cuts: Sequence[NDArray[np.float32]],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The features' cuts laid out in columns: (C,) features, (C, 255) thresholds, (C,) numbers of bins."""
    most = COLUMN_BINS - 1
    chunks = [
        (feature, chunk)
        for feature, cuts_of_feature in enumerate(cuts)
        for chunk in np.split(cuts_of_feature, range(most, len(cuts_of_feature), most))
    ]
    thresholds = np.full((len(chunks), COLUMN_BINS), np.inf, dtype=np.float32)
    for column, (_, chunk) in enumerate(chunks):
        thresholds[column, : len(chunk)] = chunk
    num_bins = np.array([len(chunk) + 2 for _, chunk in chunks], dtype=np.int64)
    return np.array([feature for feature, _ in chunks], dtype=np.int64), thresholds, num_bins


def reference_bins(features: Features, binned: BinnedFeatures) -> NDArray[np.uint8]:
    """(C, D) bins: the number of thresholds below the value, or the last bin where it is missing."""
    bins = np.empty((binned.num_columns, len(features)), dtype=np.uint8)
    for c, f in enumerate(binned.feature_of_column):
        bin_of_value = np.searchsorted(binned.thresholds[c], features[:, f], side="left")
        bins[c] = np.where(np.isnan(features[:, f]), binned.num_bins[c] - 1, bin_of_value)
    return bins


DOCUMENTS_BINNED = 1024
"""Documents binned together: their values in eight columns fill the nearest cache."""


@parallel_kernel
def _bin_all(
    features: Features,
    feature_of_column: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    num_bins: NDArray[np.int64],
    words: NDArray[np.uint64],
) -> None:
    num_documents, num_words = words.shape
    for block in numba.prange((num_documents + DOCUMENTS_BINNED - 1) // DOCUMENTS_BINNED):
        first = block * DOCUMENTS_BINNED
        size = min(DOCUMENTS_BINNED, num_documents - first)
        values, bins = (
            np.empty((8, DOCUMENTS_BINNED), dtype=np.float32),
            np.empty(DOCUMENTS_BINNED, dtype=np.uint64),
        )
        for word in range(num_words):
            column_features = feature_of_column[8 * word : 8 * word + 8]
            for d in range(size):
                words[first + d, word] = 0
                for lane in range(len(column_features)):
                    values[lane, d] = features[first + d, column_features[lane]]
            for lane in range(len(column_features)):
                c = 8 * word + lane
                _bin_block(values[lane, :size], thresholds[c], np.uint64(num_bins[c] - 1), bins)
                for d in range(size):
                    words[first + d, word] |= bins[d] << np.uint64(8 * lane)


@kernel
def _bin_block(
    values: NDArray[np.float32],
    thresholds: NDArray[np.float32],
    missing_bin: np.uint64,
    bins: NDArray[np.uint64],
) -> None:
    """The number of thresholds below each value, by eight halvings of the 255.

    Each halving is done for all values before the next, so that the compiler works on several values at once.
    """
    for d in range(len(values)):
        bins[d] = 0
    for power in range(7, -1, -1):
        half = np.uint64(1 << power)
        for d in range(len(values)):
            bins[d] += half * np.uint64(values[d] > thresholds[bins[d] + half - np.uint64(1)])
    for d in range(len(values)):
        bins[d] = bins[d] if values[d] == values[d] else missing_bin


@kernel
def read_words(words: NDArray[np.uint64], word: int, rows: Rows, read: NDArray[np.uint64]) -> None:
    """read[:n] = words[rows, word]: in a loop of its own, so that the memory is asked for many at once.

    Where each is used as soon as it is read, a small leaf waits for one document after the other, three to
    five times longer [measured].
    """
    place = np.uint64(word)
    for i in range(len(rows)):
        read[i] = words[np.uint64(rows[i]), place]
