"""Sparse features have the thresholds and the bins of the same features as an array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.compilation import config
from ltrbench.data.features import RowView, SparseRows, matrix
from ltrbench.errors import DataError
from ltrbench.native.boosting import BINNINGS
from ltrbench.native.tree.binning import BinnedFeatures, bin_alike, bin_features
from ltrbench.shapes import Features


def assert_same_bins(one: BinnedFeatures, other: BinnedFeatures) -> None:
    for name in ("words", "thresholds", "num_bins", "feature_of_column"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def features_of(seed: int, shape: tuple[int, int], share: float, background: float) -> Features:
    rng = np.random.default_rng(seed)
    values = rng.choice(np.array([0.0, -0.0, 1.0, -2.5, np.nan, 3e38]), shape)
    values = np.where(rng.random(shape) < 0.5, values, rng.normal(size=shape))
    return np.where(rng.random(shape) < share, values, background).astype(np.float32)


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 60), st.integers(1, 18)),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    absent=st.sampled_from([0.0, np.nan]),
    rule=st.sampled_from(sorted(BINNINGS)),
    max_bins=st.sampled_from([2, 5, 255]),
    sample_size=st.sampled_from([20, 200]),
)
@settings(deadline=None, max_examples=10 if config.DISABLE_JIT else 100)
def test_thresholds_and_bins_are_those_of_an_array(
    seed: int,
    shape: tuple[int, int],
    share: float,
    absent: float,
    rule: str,
    max_bins: int,
    sample_size: int,
) -> None:
    features = features_of(seed, shape, share, absent)
    other = features_of(seed + 1, shape, share, absent)
    binning = BINNINGS[rule]
    if binning.sample_size is not None:
        binning = binning._replace(sample_size=sample_size)
    expected = bin_features(features, max_bins, np.random.default_rng(0), binning)
    sparse = SparseRows.of(features, absent)
    binned = bin_features(sparse, max_bins, np.random.default_rng(0), binning)
    assert_same_bins(binned, expected)
    assert_same_bins(bin_alike(SparseRows.of(other, absent), binned), bin_alike(other, expected))


def test_a_feature_of_many_bins_has_the_columns_of_an_array() -> None:
    features = features_of(0, (3000, 4), 0.5, 0.0)
    expected = bin_features(features, 1000, np.random.default_rng(0))
    assert expected.num_columns > 4
    assert_same_bins(bin_features(SparseRows.of(features), 1000, np.random.default_rng(0)), expected)


def test_a_view_of_sparse_rows_has_the_bins_of_its_rows() -> None:
    features = features_of(0, (90, 20), 0.2, 0.0)
    view = RowView(SparseRows.of(features), [[50, 80], [3, 30]])
    expected = bin_features(np.asarray(view), 255, np.random.default_rng(0))
    assert_same_bins(bin_features(view, 255, np.random.default_rng(0)), expected)


def test_bins_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = SparseRows.of(np.eye(100, dtype=np.float32))
    monkeypatch.setattr(matrix, "available_bytes", lambda: 100 * 100)
    with pytest.raises(DataError, match=naming("100 documents", "100 columns", "GB", "data.subset")):
        bin_features(sparse, 255, np.random.default_rng(0))
