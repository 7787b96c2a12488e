from __future__ import annotations

from typing import Any

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.bins import BinnedFeatures, Rows, bin_features, reference_bins
from ltrbench.native.histogram import Histogram, bin_starts, build_histogram, quantise
from ltrbench.native.reference import histograms

sizes = st.floats(0, 1e300) | st.sampled_from([0.0, 5e-324, 1e-310, 1.0, 1e300])
gradient_values = sizes.flatmap(lambda size: st.sampled_from([size, -size]))


def make_case(seed: int, num_documents: int = 300) -> tuple[NDArray[np.float32], BinnedFeatures]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_documents, 11)).astype(np.float32)
    features[:, 1::2] = np.round(features[:, 1::2])
    features[rng.random(features.shape) < 0.1] = np.nan
    return features, bin_features(features, 40, rng)


def make_packed(seed: int, num_documents: int = 300) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return quantise(rng.normal(size=num_documents), rng.random(num_documents)).packed


def histogram_of(binned: BinnedFeatures, rows: NDArray[Any], packed: NDArray[np.int64]) -> Histogram:
    bin_start = bin_starts(binned)
    histogram = np.full(bin_start[-1], -1, dtype=np.int64)
    build_histogram(binned, bin_start, rows.astype(np.uint32), packed, histogram)
    return histogram


def expected_histogram(
    features: NDArray[np.float32], binned: BinnedFeatures, rows: Rows, packed: NDArray[np.int64]
) -> Histogram:
    """Returns the reference's sums per bin, packed as in the kernel."""
    bins = reference_bins(features, binned)[:, rows].T.astype(np.int64)
    terms = np.stack([packed[rows] >> 32, packed[rows] & 0xFFFFFFFF]).astype(np.float64)
    g, h = histograms(bins, terms, 256)[..., 0].astype(np.int64)
    sums = (g << 32) + h
    return np.concatenate([sums[c, :num_bins] for c, num_bins in enumerate(binned.num_bins)])


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(seed: int, share: float) -> None:
    features, binned = make_case(seed)
    packed = make_packed(seed)
    rows: Rows = np.flatnonzero(np.random.default_rng(seed).random(300) < share).astype(np.uint32)
    expected = expected_histogram(features, binned, rows, packed)
    np.testing.assert_array_equal(histogram_of(binned, rows, packed), expected)


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


@given(st.integers(0, 2**32 - 1))
@MAY_COMPILE
def test_a_quantised_sum_is_within_half_a_unit_a_document(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradients, hessians = rng.normal(size=500), rng.random(500)
    quantised = quantise(gradients, hessians)
    is_summed = rng.random(500) < 0.3
    total = quantised.packed[is_summed].sum()
    gradient, hessian = (total >> 32) * quantised.gradient_unit, (total & 0xFFFFFFFF) * quantised.hessian_unit
    # 1e-12 allows for the rounding of the float64 sum on the right.
    assert (
        abs(gradient - gradients[is_summed].sum()) <= 0.5 * is_summed.sum() * quantised.gradient_unit + 1e-12
    )
    assert abs(hessian - hessians[is_summed].sum()) <= 0.5 * is_summed.sum() * quantised.hessian_unit + 1e-12


@given(st.integers(0, 2**32 - 1))
@MAY_COMPILE
def test_a_siblings_histogram_is_exactly_parent_minus_child(seed: int) -> None:
    _, binned = make_case(seed)
    packed, goes_left = make_packed(seed), np.random.default_rng(seed).random(300) < 0.2
    parent = histogram_of(binned, np.arange(300), packed)
    left, right = (histogram_of(binned, np.flatnonzero(side), packed) for side in (goes_left, ~goes_left))
    np.testing.assert_array_equal(parent - left, right)


def test_the_order_of_documents_does_not_matter() -> None:
    _, binned = make_case(3)
    packed, rows = make_packed(3), np.random.default_rng(3).permutation(300)
    np.testing.assert_array_equal(
        histogram_of(binned, rows, packed), histogram_of(binned, np.sort(rows), packed)
    )
