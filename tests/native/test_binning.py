from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native import bins as stage
from ltrbench.native.bins import (
    EQUAL_WIDTH,
    QUANTILE,
    AnyBins,
    BinnedFeatures,
    Rows,
    ThresholdRule,
    bin_features,
    equal_width_cuts,
    partition,
    reference_bins,
)
from ltrbench.native.growing import build_histogram
from ltrbench.native.histogram import Histogram, Quantised, quantise, task_of
from ltrbench.native.reference import Split, goes_left, histograms
from ltrbench.native.splitting import SplitSettings, split_terms

floats = st.one_of(
    st.floats(width=32, allow_infinity=False),
    st.integers(-3, 3).map(float),
    st.just(float("nan")),
)
columns = arrays(np.float32, st.integers(1, 60), elements=floats)
small_values = st.one_of(
    st.floats(-100, 100, width=32), st.integers(-3, 3).map(float), st.just(float("nan"))
)
small_columns = arrays(np.float32, st.integers(1, 60), elements=small_values)


def bins_of(binned: BinnedFeatures) -> NDArray[np.uint8]:
    """Returns the (C, D) bins that the words contain."""
    everyone = np.arange(binned.num_documents, dtype=np.uint32)
    return np.stack(
        [binned.bins_of(column, everyone) for column in range(binned.num_columns)]
    )


def bin_all(
    features: NDArray[np.float32], max_bins: int = 255, rule: ThresholdRule = QUANTILE
) -> BinnedFeatures:
    return bin_features(features, max_bins, np.random.default_rng(0), rule)


def assert_as_the_reference_says(
    binned: BinnedFeatures, features: NDArray[np.float32]
) -> None:
    np.testing.assert_array_equal(bins_of(binned), reference_bins(features, binned))


@given(st.integers(0, 2**32 - 1), st.integers(2, 255))
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(seed: int, max_bins: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, (41, 21)))
    special = rng.choice([np.nan, -0.0, 0.0, 1.0, 2.0, 1e-45, 3e38, -3e38], shape)
    features = np.where(
        rng.random(shape) < 0.5, special, rng.normal(size=shape)
    ).astype(np.float32)
    assert_as_the_reference_says(bin_all(features, max_bins), features)


@given(columns, st.integers(2, 255))
@MAY_COMPILE
def test_thresholds_part_raw_values_as_they_part_bins(
    column: NDArray[np.float32], max_bins: int
) -> None:
    binned = bin_all(column[:, None], max_bins)
    bins, present = bins_of(binned)[0], ~np.isnan(column)
    assert (bins[~present] == binned.num_bins[0] - 1).all()
    assert binned.num_bins[0] - 1 <= max_bins
    for b in range(binned.num_bins[0] - 1):
        np.testing.assert_array_equal(
            column[present] <= binned.thresholds[0, b], bins[present] <= b
        )
    np.testing.assert_array_equal(
        binned.thresholds[0, binned.num_bins[0] - 2 :], np.inf
    )


def test_many_values_fill_bins_of_equal_weight() -> None:
    column = np.random.default_rng(0).lognormal(size=10_000).astype(np.float32)
    sizes = np.bincount(bins_of(bin_all(column[:, None], max_bins=50))[0])
    np.testing.assert_allclose(sizes, len(column) / 50, atol=1)


@pytest.mark.parametrize("rule", [QUANTILE, EQUAL_WIDTH])
def test_a_feature_with_more_thresholds_than_a_byte_holds_has_several_columns(
    rule: ThresholdRule,
) -> None:
    rng = np.random.default_rng(0)
    # Number of thresholds: 1022, few, none, and exactly the maximum of one column.
    features = np.stack(
        [rng.normal(size=4_000), rng.integers(0, 3, 4_000), np.ones(4_000)], axis=1
    )
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


def ranklib_thresholds(
    column: NDArray[np.float32], num_thresholds: int
) -> list[np.float32]:
    """Returns the thresholds of RankLib's LambdaMART.init, without the last one, the largest float."""
    distinct = sorted(set(column[~np.isnan(column)].tolist()))
    if len(distinct) <= num_thresholds:
        return [np.float32(value) for value in distinct]
    step = (np.float32(distinct[-1]) - np.float32(distinct[0])) / np.float32(
        num_thresholds
    )
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


NUM_DOCUMENTS = 60


@pytest.fixture(autouse=True)
def _few_are_shared_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without compilation, runs the code for several threads on few rows; compiled code is unaffected."""
    monkeypatch.setattr(stage, "FEW_ROWS", 1)


def make_binned(num_documents: int, seed: int) -> BinnedFeatures:
    rng = np.random.default_rng(seed)
    features = np.round(3 * rng.normal(size=(num_documents, 11))).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    return bin_features(features, 255, rng)


def assert_parted_as_the_reference_says(
    binned: BinnedFeatures, rows: np.ndarray, column: int, last_bin: int
) -> None:
    for missing_left in (False, True):
        bins = binned.bins_of(column, rows).astype(np.int64)[:, None]
        split = Split(gain=0.0, feature=0, bin=last_bin, missing_left=missing_left)
        is_left = goes_left(bins, split, missing_bin=int(binned.num_bins[column]) - 1)
        moved, scratch = rows.copy(), np.empty_like(rows)
        cut = column, last_bin, int(binned.num_bins[column]) - 1, int(missing_left)
        none = binned.categories.bins, np.zeros(0, dtype=np.bool_)
        num_left = partition(
            binned.words, None, cut, moved, scratch, numba.get_num_threads(), *none
        )
        assert num_left == np.count_nonzero(is_left)
        np.testing.assert_array_equal(
            moved, np.concatenate([rows[is_left], rows[~is_left]])
        )


@MAY_COMPILE
@given(
    seed=st.integers(0, 2**32 - 1),
    column=st.integers(0, 10),
    rows=st.sets(st.integers(0, NUM_DOCUMENTS - 1)),
)
def test_documents_are_shared_out_as_the_reference_says(
    seed: int, column: int, rows: set[int]
) -> None:
    binned = make_binned(NUM_DOCUMENTS, seed)
    last_bin = seed % int(binned.num_bins[column])
    assert_parted_as_the_reference_says(
        binned, np.array(sorted(rows), dtype=np.uint32), column, last_bin
    )


magnitudes = st.floats(0, 1e300) | st.sampled_from([0.0, 5e-324, 1e-310, 1.0, 1e300])
gradient_values = magnitudes.flatmap(lambda size: st.sampled_from([size, -size]))


def make_case(
    seed: int, num_documents: int = 300
) -> tuple[NDArray[np.float32], BinnedFeatures]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_documents, 11)).astype(np.float32)
    features[:, 1::2] = np.round(features[:, 1::2])
    features[rng.random(features.shape) < 0.1] = np.nan
    return features, bin_features(features, 40, rng)


def make_quantised(seed: int, num_documents: int = 300) -> Quantised:
    rng = np.random.default_rng(seed)
    return quantise(rng.normal(size=num_documents), rng.random(num_documents))


def histogram_of(
    binned: AnyBins, rows: NDArray[Any], quantised: Quantised
) -> Histogram:
    histogram = np.full(binned.num_bins.sum(), -1, dtype=np.int64)
    terms = split_terms(SplitSettings(), quantised)
    build_histogram(
        task_of(binned, quantised),
        binned.layout,
        terms,
        rows.astype(np.uint32),
        histogram,
    )
    return histogram


def expected_histogram(
    features: NDArray[np.float32],
    binned: BinnedFeatures,
    rows: Rows,
    packed: NDArray[np.int64],
) -> Histogram:
    """Returns the reference's sums per bin, packed as in the kernel."""
    bins = reference_bins(features, binned)[:, rows].T.astype(np.int64)
    terms = np.stack([packed[rows] >> 32, packed[rows] & 0xFFFFFFFF]).astype(np.float64)
    g, h = histograms(bins, terms, 256)[..., 0].astype(np.int64)
    sums = (g << 32) + h
    return np.concatenate(
        [sums[c, :num_bins] for c, num_bins in enumerate(binned.num_bins)]
    )


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
@MAY_COMPILE
def test_histograms_are_those_of_the_reference(seed: int, share: float) -> None:
    features, binned = make_case(seed)
    quantised = make_quantised(seed)
    rows: Rows = np.flatnonzero(np.random.default_rng(seed).random(300) < share).astype(
        np.uint32
    )
    expected = expected_histogram(features, binned, rows, quantised.packed)
    np.testing.assert_array_equal(histogram_of(binned, rows, quantised), expected)


@given(arrays(np.float64, st.integers(1, 50), elements=gradient_values))
@MAY_COMPILE
def test_no_sum_over_any_documents_overflows(gradients: NDArray[np.float64]) -> None:
    hessians = np.abs(gradients)[::-1].copy()
    packed = quantise(gradients, hessians).packed
    whole_gradients = [int(value) >> 32 for value in packed]
    whole_hessians = [int(value) & 0xFFFFFFFF for value in packed]
    # The largest possible sum over any documents is the sum of absolute values.
    assert sum(abs(value) for value in whole_gradients) < 2**31
    assert sum(whole_hessians) < 2**32
    assert int(packed.sum()) >> 32 == sum(whole_gradients)
    assert int(packed.sum()) & 0xFFFFFFFF == sum(whole_hessians)
