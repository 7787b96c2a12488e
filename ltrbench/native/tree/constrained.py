"""Splitting with an l1 penalty and monotone constraints.

    shrink(G)   = sign(G) * max(|G| - l1, 0)
    step(G, H)  = -shrink(G) / (H + l2), clipped as in `splitting`, then to the bounds of the leaf
    score(G, H) = -step * (2 * shrink(G) + (H + l2) * step)

l1 is LightGBM's lambda_l1 and XGBoost's reg_alpha: a leaf with |G| below l1 has step 0. Monotone constraints
follow LightGBM's "basic" method, which XGBoost also uses: a split on a feature with sign +1 is rejected if
the step of its right side is below that of its left side. After a valid split, the steps of all leaves below
either side are bounded by the mean of the two steps. As in LightGBM, the score of the unsplit leaf ignores
its bounds, so that bounds may leave no positive gain. Unlike in LightGBM, a feature without a positive gain
in a leaf is tried again in the leaves below it.

Everything else is as in `splitting`. The two files are separate so that the loop over splits there stays
short; here NumPy arrays contain all splits of a leaf. Shapes: B bins of all columns. The last axis, of size
2, is missing values right and missing values left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.native.team import ALONE, Team
from ltrbench.native.tree.histogram import Histogram, Quantised
from ltrbench.native.tree.sparse.layout import AnyBins
from ltrbench.native.tree.splitting import (
    Bounds,
    FindSplit,
    LeafToCut,
    PrepareSearch,
    Split,
    SplitSettings,
    estimated_counts,
    newton_step,
    score,
)

Signs = NDArray[np.int8]  # 1: scores must not decrease with the feature; -1: not increase; 0: unconstrained


def monotone_signs(feature_names: Sequence[str], monotone: Mapping[str, int]) -> Signs:
    """Returns the (F,) signs of the features, given signs by feature name.

    Raises:
        ConfigError: If no feature has one of the names.

    >>> monotone_signs(["bm25", "age"], {"age": -1}).tolist()
    [0, -1]
    """
    signs = np.zeros(len(feature_names), dtype=np.int8)
    for name, sign in monotone.items():
        if name not in feature_names:
            raise ConfigError(
                f"monotone.{name} is {sign}, but no feature has that name{did_you_mean(name, feature_names)}"
            )
        signs[list(feature_names).index(name)] = sign
    return signs


def prepare_constrained(signs: Signs) -> PrepareSearch:
    """Returns the search for splits with the (F,) signs and l1."""

    def prepare(
        binned: AnyBins,
        bin_start: NDArray[np.int64],
        quantised: Quantised,
        settings: SplitSettings,
        team: Team = ALONE,
    ) -> FindSplit:
        search = _Search(binned, bin_start, quantised, settings, signs[binned.feature_of_column], team)
        return partial(_find_split, search)

    return prepare


class _Search(NamedTuple):
    """The input that all leaves of a tree share; signs are (C,)."""

    binned: AnyBins
    bin_start: NDArray[np.int64]
    quantised: Quantised
    settings: SplitSettings
    signs: Signs
    team: Team


class _Cuts(NamedTuple):
    """All splits of a leaf.

    Attributes:
        gains: (B, 2), -inf for a split that is not allowed.
        middles: (B, 2), mean of the steps of the two sides.
        left_is_larger: (B, 2), whether the sum of hessians on the left is at least that on the right.
    """

    gains: NDArray[np.float64]
    middles: NDArray[np.float64]
    left_is_larger: NDArray[np.bool_]


def _find_split(search: _Search, leaf: LeafToCut) -> Split | None:
    """Returns the allowed split with the highest gain and enough documents on both sides; None if none."""
    cuts, is_counted = _all_cuts(search, leaf), np.zeros(search.binned.num_columns, dtype=np.bool_)
    while True:
        cell, missing_left = divmod(int(np.argmax(cuts.gains)), 2)  # the first of equal gains
        if not cuts.gains[cell, missing_left] > search.settings.gain_to_exceed:
            return None
        column = int(np.searchsorted(search.bin_start, cell, side="right")) - 1
        bins = slice(search.bin_start[column], search.bin_start[column + 1])
        if is_counted[column]:
            break
        cuts.gains[bins][_too_few(search, leaf, column, leaf.histogram[bins])] = -np.inf
        is_counted[column] = True
    if search.settings.highest_of_equals:
        is_equal = (cuts.gains[bins] == cuts.gains[cell, missing_left]).any(axis=1)
        cell = int(bins.start) + int(np.flatnonzero(is_equal)[-1])
        missing_left = int(np.argmax(cuts.gains[cell]))
    gain, middle = float(cuts.gains[cell, missing_left]), float(cuts.middles[cell, missing_left])
    if leaf.histogram[bins.stop - 1] == 0:
        missing_left = bool(cuts.left_is_larger[cell, missing_left])
    left, right = _bounds_below(leaf.bounds, int(search.signs[column]), middle)
    return Split(gain, column, cell - int(bins.start), bool(missing_left), left, right)


def _bounds_below(bounds: Bounds, sign: int, middle: float) -> tuple[Bounds, Bounds]:
    """Returns the bounds of the left and the right child of a split."""
    low, high = bounds
    if sign == 0:
        return bounds, bounds
    return ((low, middle), (middle, high)) if sign > 0 else ((middle, high), (low, middle))


def _all_cuts(search: _Search, leaf: LeafToCut) -> _Cuts:
    settings, num_bins = search.settings, search.binned.num_bins
    left = _left_sums(leaf.histogram, search.bin_start)
    total = leaf.histogram[: search.bin_start[1]].sum()
    g_left, h_left = _unpack(left, search.quantised)
    g_right, h_right = _unpack(total - left, search.quantised)
    is_last = np.zeros(len(left), dtype=np.bool_)
    is_last[search.bin_start[1:] - 1] = True
    allowed = np.repeat(leaf.columns, num_bins)[:, None] & ~is_last[:, None]
    allowed = allowed & (np.minimum(h_left, h_right) >= settings.least_hessian)
    step_left = newton_step(g_left, h_left, settings, leaf.bounds)
    step_right = newton_step(g_right, h_right, settings, leaf.bounds)
    allowed &= np.repeat(search.signs, num_bins)[:, None] * (step_right - step_left) >= 0
    gains = score(g_left, h_left, step_left, settings) + score(g_right, h_right, step_right, settings)
    g, h = _unpack(total, search.quantised)
    gains -= score(g, h, newton_step(g, h, settings), settings)
    return _Cuts(np.where(allowed, gains, -np.inf), (step_left + step_right) / 2, h_left >= h_right)


def _left_sums(histogram: Histogram, bin_start: NDArray[np.int64]) -> Histogram:
    """Returns the (B, 2) packed sums on the left of the split after each bin."""
    # Cumulative over all columns; overflow cancels in the difference.
    sums, num_bins = np.cumsum(histogram), np.diff(bin_start)
    before = np.repeat(np.append(0, sums)[bin_start[:-1]], num_bins)
    missing = np.repeat(histogram[bin_start[1:] - 1], num_bins)
    return np.stack([sums - before, sums - before + missing], axis=1)


def _unpack(
    packed: NDArray[np.int64] | np.int64, quantised: Quantised
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the gradients and the hessians of packed sums."""
    gradients = np.asarray(packed >> 32, dtype=np.float64) * quantised.gradient_unit
    return gradients, np.asarray(packed & 0xFFFFFFFF, dtype=np.float64) * quantised.hessian_unit


def _too_few(search: _Search, leaf: LeafToCut, column: int, sums: Histogram) -> NDArray[np.bool_]:
    """Returns the (bins, 2) mask of a column's splits that leave a side fewer than min_docs_in_leaf."""
    if search.settings.counts_by_hessian:
        counts = estimated_counts(sums, leaf.size)
    else:
        bins = search.binned.bins_of(column, leaf.rows)
        counts = search.team.total(np.bincount(bins, minlength=len(sums)))
    left = np.cumsum(counts)[:, None] + np.array([0, counts[-1]])
    too_few: NDArray[np.bool_] = np.minimum(left, leaf.size - left) < search.settings.min_docs_in_leaf
    return too_few
