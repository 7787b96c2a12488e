"""Synthetic leaves and strategies of settings for the tests of the search for splits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.native import splitting
from ltrbench.native.bins import BinnedFeatures, bin_features, reference_bins
from ltrbench.native.histogram import Quantised, bin_starts, build_histogram, quantise
from ltrbench.native.splitting import (
    UNBOUNDED,
    Bounds,
    PrepareSearch,
    Split,
    SplitSettings,
    find_splits,
    may_be_cut,
    prepare_search,
    reference_split,
)


class Leaf(NamedTuple):
    """A leaf: a subset of the documents of a binned data set, with quantised gradients."""

    binned: BinnedFeatures
    bins: NDArray[np.uint8]
    quantised: Quantised
    rows: NDArray[np.uint32]

    def find(
        self,
        settings: SplitSettings,
        columns: NDArray[np.bool_] | None = None,
        prepare: PrepareSearch = prepare_search,
        bounds: Bounds = UNBOUNDED,
    ) -> Split | None:
        bin_start = bin_starts(self.binned)
        histogram = np.empty(bin_start[-1], dtype=np.int64)
        build_histogram(self.binned, bin_start, self.rows, self.quantised.packed, histogram)
        used = np.ones(self.binned.num_columns, dtype=np.bool_) if columns is None else columns
        if not may_be_cut(settings, self.quantised, self.rows, depth=0):
            return None
        leaf = splitting.LeafToCut(histogram, self.rows, used, bounds)
        search = prepare(self.binned, bin_start, self.quantised, settings)
        return find_splits([search(leaf)])[0]

    def find_by_reference(
        self, settings: SplitSettings, signs: NDArray[np.int8] | None = None, bounds: Bounds = UNBOUNDED
    ) -> Split | None:
        packed = self.quantised.packed[self.rows]
        gradients = (packed >> 32).astype(np.float64) * self.quantised.gradient_unit
        hessians = (packed & 0xFFFFFFFF).astype(np.float64) * self.quantised.hessian_unit
        bins = self.bins[:, self.rows]
        return reference_split(gradients, hessians, bins, self.binned.num_bins, settings, signs, bounds)


def assert_both_find_none(one: Split | None, other: Split | None, settings: SplitSettings) -> None:
    """Compares two searches of which at least one finds no split.

    Only one may find a split if its gain equals the gain to exceed up to rounding, for example 2e-15 for 0.
    """
    split = one or other
    assert split is None or split.gain == pytest.approx(settings.gain_to_exceed, rel=1e-9, abs=1e-9)


def make_leaf(
    features: NDArray[np.float64], gradients: NDArray[np.float64], hessians: NDArray[np.float64]
) -> Leaf:
    values = features.astype(np.float32)
    binned = bin_features(values, 10, np.random.default_rng(0))
    bins = reference_bins(values, binned)
    return Leaf(binned, bins, quantise(gradients, hessians), np.arange(len(features), dtype=np.uint32))


def random_leaf(seed: int, missing_share: float) -> Leaf:
    """Returns a leaf of some documents, with gradients that depend on a feature and skewed hessians."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, 4))
    features[:, 1] = np.round(features[:, 1])
    gradients = np.where(features[:, 2] > 0.5, -1.0, 0.3) + rng.normal(size=60)
    hessians = rng.random(60) ** 4
    hessians[rng.random(60) < 0.2] = 0.0
    features[rng.random(features.shape) < missing_share] = np.nan
    leaf = make_leaf(features, gradients, hessians)
    return leaf._replace(rows=np.flatnonzero(rng.random(60) < 0.7).astype(np.uint32))


any_settings = st.builds(
    SplitSettings,
    min_docs_in_leaf=st.integers(1, 22),
    min_sum_hessian=st.sampled_from([0.0, 1e-3, 0.5]),
    min_split_gain=st.sampled_from([0.0, 2.0]),
    max_delta_step=st.sampled_from([0.0, 0.2]),
    l2=st.sampled_from([0.0, 1.0]),
    cut_without_gain=st.booleans(),
    equal_cuts=st.sampled_from(["lowest", "highest"]),
    document_counts=st.sampled_from(["exact", "by_hessian"]),
)
