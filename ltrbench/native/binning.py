"""Binning: a feature's values grouped once into at most 255 bins, so that trees try cuts between bins only.

Bin b of a feature holds the values x with thresholds[b - 1] < x <= thresholds[b]. A threshold is a float32
between two values seen in training, so that a tree cuts raw features (x <= threshold goes left) just as it
cut bins. One more bin, the last, is for missing values.

    few distinct values, at most max_bins: a bin each, cut halfway between neighbours
    many: bins of equal weight, where a value so frequent that it would fill several bins gets one

The bins of eight features stand together in a 64-bit word, which a histogram reads at once. Shapes: D
documents, F features, W = ceil(F / 8) words a document.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.shapes import Features

MAX_BINS = 255
"""Value bins that fit a byte beside the bin of missing values."""
SAMPLE_SIZE = 200_000
"""Documents that cut points are taken from; LightGBM's default. Each of 255 bins then holds 784 of them."""


@dataclass(frozen=True, eq=False)
class BinnedFeatures:
    """The features of a data set as bins.

    Attributes:
        words: (W, D) uint64; byte f % 8 of words[f // 8, d] is document d's bin of feature f.
        thresholds: (F, 255) float32, rising; infinity behind a feature's last threshold.
        num_bins: (F,), each feature's bins with the one for missing values, which is the last.
    """

    words: NDArray[np.uint64]
    thresholds: NDArray[np.float32]
    num_bins: NDArray[np.int64]

    @property
    def num_documents(self) -> int:
        return int(self.words.shape[1])

    @property
    def num_features(self) -> int:
        return len(self.num_bins)


def bin_features(features: Features, max_bins: int, rng: np.random.Generator) -> BinnedFeatures:
    """Chooses the thresholds of every feature from a sample of the documents, and bins all of them."""
    num_documents, num_features = features.shape
    sample = features
    if num_documents > SAMPLE_SIZE:
        sample = features[np.sort(rng.choice(num_documents, SAMPLE_SIZE, replace=False))]
    thresholds = np.full((num_features, MAX_BINS), np.inf, dtype=np.float32)
    num_bins = np.empty(num_features, dtype=np.int64)

    def choose(first: int) -> None:
        # Eight columns at a time, because a row's cache line holds the values of several.
        columns = np.ascontiguousarray(sample[:, first : first + 8])
        for feature, column in enumerate(columns.T, start=first):
            cuts = cut_points(column, max_bins)
            thresholds[feature, : len(cuts)] = cuts
            num_bins[feature] = len(cuts) + 2

    # Sorting in NumPy runs without the interpreter's lock.
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(choose, range(0, num_features, 8)))
    words = np.empty((-(-num_features // 8), num_documents), dtype=np.uint64)
    _bin_all(features, thresholds, num_bins, words)
    return BinnedFeatures(words, thresholds, num_bins)


def cut_points(values: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    """The rising thresholds, at most max_bins - 1, that group one feature's values; NaN is ignored.

    >>> cut_points(np.array([3, 1, 1, 2, np.nan], dtype=np.float32), max_bins=255).tolist()
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


def reference_bins(
    features: Features, thresholds: NDArray[np.float32], num_bins: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """(F, D) bins: the number of thresholds below the value, or the last bin where it is missing."""
    bins = np.empty(features.T.shape, dtype=np.uint8)
    for f, column in enumerate(features.T):
        bin_of_value = np.searchsorted(thresholds[f], column, side="left")
        bins[f] = np.where(np.isnan(column), num_bins[f] - 1, bin_of_value)
    return bins


BLOCK = 1024
"""Documents binned together: their values of eight features fill the nearest cache."""


@parallel_kernel
def _bin_all(
    features: Features,
    thresholds: NDArray[np.float32],
    num_bins: NDArray[np.int64],
    words: NDArray[np.uint64],
) -> None:
    num_documents, num_features = features.shape
    words[:] = 0
    for group in numba.prange(len(words)):
        lanes = min(8, num_features - 8 * group)
        values = np.empty((8, BLOCK), dtype=np.float32)
        for first in range(0, num_documents, BLOCK):
            size = min(BLOCK, num_documents - first)
            for d in range(size):
                for lane in range(lanes):
                    values[lane, d] = features[first + d, 8 * group + lane]
            for lane in range(lanes):
                f = 8 * group + lane
                _bin_block(
                    values[lane, :size],
                    thresholds[f],
                    np.uint64(num_bins[f] - 1),
                    np.uint64(8 * lane),
                    words[group, first : first + size],
                )


@kernel
def _bin_block(
    values: NDArray[np.float32],
    thresholds: NDArray[np.float32],
    missing_bin: np.uint64,
    shift: np.uint64,
    words: NDArray[np.uint64],
) -> None:
    """Puts the number of thresholds below each value into its word, by eight halvings of the 255.

    Each halving is done for all values before the next, so that the compiler works on several values at once.
    """
    below = np.zeros(len(values), dtype=np.uint64)
    for power in range(7, -1, -1):
        half = np.uint64(1 << power)
        for d in range(len(values)):
            below[d] += half * np.uint64(values[d] > thresholds[below[d] + half - np.uint64(1)])
    for d in range(len(values)):
        words[d] |= (below[d] if values[d] == values[d] else missing_bin) << shift
