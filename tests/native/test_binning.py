from __future__ import annotations

import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.bins import (
    EQUAL_WIDTH,
    QUANTILE,
    BinnedFeatures,
    ThresholdRule,
    bin_features,
    equal_width_cuts,
    reference_bins,
)

floats = st.one_of(
    st.floats(width=32, allow_infinity=False), st.integers(-3, 3).map(float), st.just(float("nan"))
)
columns = arrays(np.float32, st.integers(1, 60), elements=floats)
small_values = st.one_of(st.floats(-100, 100, width=32), st.integers(-3, 3).map(float), st.just(float("nan")))
small_columns = arrays(np.float32, st.integers(1, 60), elements=small_values)


def bins_of(binned: BinnedFeatures) -> NDArray[np.uint8]:
    """Returns the (C, D) bins that the words contain."""
    everyone = np.arange(binned.num_documents, dtype=np.uint32)
    return np.stack([binned.bins_of(column, everyone) for column in range(binned.num_columns)])


def bin_all(
    features: NDArray[np.float32], max_bins: int = 255, rule: ThresholdRule = QUANTILE
) -> BinnedFeatures:
    return bin_features(features, max_bins, np.random.default_rng(0), rule)


def assert_as_the_reference_says(binned: BinnedFeatures, features: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(bins_of(binned), reference_bins(features, binned))


@given(
    arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 20)), elements=floats),
    st.integers(2, 255),
)
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(features: NDArray[np.float32], max_bins: int) -> None:
    binned = bin_all(features, max_bins)
    assert_as_the_reference_says(binned, features)


@given(columns, st.integers(2, 255))
@MAY_COMPILE
def test_thresholds_part_raw_values_as_they_part_bins(column: NDArray[np.float32], max_bins: int) -> None:
    binned = bin_all(column[:, None], max_bins)
    bins, present = bins_of(binned)[0], ~np.isnan(column)
    assert (bins[~present] == binned.num_bins[0] - 1).all()
    assert binned.num_bins[0] - 1 <= max_bins
    for b in range(binned.num_bins[0] - 1):
        np.testing.assert_array_equal(column[present] <= binned.thresholds[0, b], bins[present] <= b)
    np.testing.assert_array_equal(binned.thresholds[0, binned.num_bins[0] - 2 :], np.inf)


def test_many_values_fill_bins_of_equal_weight() -> None:
    column = np.random.default_rng(0).lognormal(size=10_000).astype(np.float32)
    sizes = np.bincount(bins_of(bin_all(column[:, None], max_bins=50))[0])
    np.testing.assert_allclose(sizes, len(column) / 50, atol=1)


def test_a_frequent_value_takes_one_bin_and_not_those_of_the_others() -> None:
    rng = np.random.default_rng(0)
    column = np.where(rng.random(20_000) < 0.9, 0.0, rng.normal(size=20_000)).astype(np.float32)
    binned = bin_all(column[:, None])
    assert binned.num_bins[0] - 1 >= 250
    sizes = np.bincount(bins_of(binned)[0])
    assert np.sort(sizes)[-2] <= 3 * (column != 0).sum() / 250


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_constant_or_missing_feature_has_one_bin_of_values(value: float) -> None:
    binned = bin_all(np.full((7, 2), value, dtype=np.float32))
    np.testing.assert_array_equal(binned.num_bins, 2)
    np.testing.assert_array_equal(bins_of(binned), 1 if np.isnan(value) else 0)


@pytest.mark.parametrize("rule", [QUANTILE, EQUAL_WIDTH])
def test_a_feature_with_more_thresholds_than_a_byte_holds_has_several_columns(rule: ThresholdRule) -> None:
    rng = np.random.default_rng(0)
    # Number of thresholds: 1022, few, none, and exactly the maximum of one column.
    features = np.stack([rng.normal(size=4_000), rng.integers(0, 3, 4_000), np.ones(4_000)], axis=1)
    features = np.column_stack([features, np.arange(4_000) % 255]).astype(np.float32)
    features[::7, 0] = np.nan
    binned = bin_all(features, 1_023, rule)
    assert binned.feature_of_column.tolist() == sorted(binned.feature_of_column)
    assert np.bincount(binned.feature_of_column)[1:].tolist() == [1, 1, 1]
    assert_as_the_reference_says(binned, features)
    columns = binned.feature_of_column == 0
    thresholds = binned.thresholds[columns]
    thresholds = thresholds[np.isfinite(thresholds)]
    assert 600 < len(thresholds) <= 1_022
    np.testing.assert_array_equal(thresholds, rule.cut_points(features[:, 0], 1_023))
    # The sum of a document's bins in all columns of the feature is its bin among all thresholds.
    present = ~np.isnan(features[:, 0])
    np.testing.assert_array_equal(
        bins_of(binned)[columns][:, present].sum(axis=0, dtype=np.int64),
        np.searchsorted(thresholds, features[present, 0], side="left"),
    )


def test_many_documents_are_sampled_by_the_seed() -> None:
    rule = QUANTILE._replace(sample_size=300)
    features = np.random.default_rng(0).normal(size=(2_000, 3)).astype(np.float32)
    first, again, other = (
        bin_features(features, 20, np.random.default_rng(seed), rule) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.thresholds, again.thresholds)
    assert (first.thresholds != other.thresholds).any()
    # Quantiles of the sample have a random error of about 1 % of all documents: a bin has 2 to 9 % of them.
    assert (np.bincount(bins_of(first)[0]) > 0.01 * len(features)).all()


def ranklib_thresholds(column: NDArray[np.float32], num_thresholds: int) -> list[np.float32]:
    """Returns the thresholds of RankLib's LambdaMART.init, without the last one, the largest float."""
    distinct = sorted(set(column[~np.isnan(column)].tolist()))
    if len(distinct) <= num_thresholds:
        return [np.float32(value) for value in distinct]
    step = (np.float32(distinct[-1]) - np.float32(distinct[0])) / np.float32(num_thresholds)
    thresholds = [np.float32(distinct[0])]
    while len(thresholds) < num_thresholds:
        thresholds.append(thresholds[-1] + step)
    return thresholds


@given(small_columns, st.integers(2, 40))
@MAY_COMPILE
def test_equal_width_cuts_are_the_first_of_ranklibs_thresholds_that_part_the_documents_alike(
    column: NDArray[np.float32], max_bins: int
) -> None:
    present = column[~np.isnan(column)]
    first_of_parting: dict[int, np.float32] = {}
    for threshold in ranklib_thresholds(column, max_bins - 1):
        first_of_parting.setdefault(int((present <= threshold).sum()), threshold)
    first_of_parting.pop(len(present), None)
    cuts = equal_width_cuts(column, max_bins)
    assert cuts.dtype == np.float32
    assert cuts.tolist() == list(first_of_parting.values())
