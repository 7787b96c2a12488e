from __future__ import annotations

import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from split_cases import any_settings, assert_both_find_none, make_leaf, random_leaf

from ltrbench.native.histogram import quantise
from ltrbench.native.splitting import SplitSettings


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]), any_settings)
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(
    seed: int, missing_share: float, settings: SplitSettings
) -> None:
    leaf = random_leaf(seed, missing_share)
    got, expected = leaf.find(settings), leaf.find_by_reference(settings)
    if expected is None or got is None:
        assert_both_find_none(got, expected, settings)
        return
    assert got.gain == pytest.approx(expected.gain, rel=1e-9, abs=1e-12)
    # If several splits have no gain, rounding chooses one of them.
    if expected.gain > 1e-9:
        assert (got.column, got.bin) == (expected.column, expected.bin)
        assert got.missing_left == expected.missing_left


@given(st.integers(0, 2**32 - 1), st.integers(1, 22))
@MAY_COMPILE
def test_with_every_hessian_one_the_gain_is_friedmans_improvement(seed: int, min_docs: int) -> None:
    random = random_leaf(seed, missing_share=0.0)
    gradients = (random.quantised.packed >> 32).astype(np.float64) * random.quantised.gradient_unit
    leaf = random._replace(quantised=quantise(gradients, np.ones(len(gradients))))
    split = leaf.find(SplitSettings(min_docs_in_leaf=min_docs))
    if split is None:
        return
    goes_left = leaf.bins[split.column, leaf.rows] <= split.bin
    left, right = gradients[leaf.rows][goes_left], gradients[leaf.rows][~goes_left]
    assert min(len(left), len(right)) >= min_docs
    share = len(left) * len(right) / len(leaf.rows)
    assert split.gain == pytest.approx(share * (left.mean() - right.mean()) ** 2, rel=1e-6)


@pytest.mark.parametrize("missing_gradient", [-5.0, 5.0])
def test_missing_values_go_where_their_gradients_belong(missing_gradient: float) -> None:
    features = np.array([0.0, 0.0, 1.0, 1.0, np.nan, np.nan])[:, None]
    gradients = np.array([-5.0, -5.0, 5.0, 5.0, missing_gradient, missing_gradient])
    split = make_leaf(features, gradients, np.ones(6)).find(SplitSettings(min_docs_in_leaf=1))
    assert split is not None
    assert split.missing_left == (missing_gradient < 0)


def test_first_of_equals_in_the_order_of_feature_then_threshold() -> None:
    column = np.array([0.0, 1, 2, 3])
    # Splits before and after the two middle documents have the same gain, and both features are equal.
    leaf = make_leaf(np.stack([column, column], axis=1), np.array([-1.0, 0, 0, 1]), np.ones(4))
    split = leaf.find(SplitSettings(min_docs_in_leaf=1))
    assert split is not None
    assert (split.column, split.bin) == (0, 0)


@pytest.mark.parametrize(("highest", "expected_bin"), [(False, 1), (True, 4)])
def test_among_splits_with_equal_gain_the_lowest_or_highest_threshold_is_chosen(
    highest: bool, expected_bin: int
) -> None:
    # The leaf has documents 0, 1, 5 and 6, and none between the splits after bins 1 to 4.
    column = np.arange(7.0)
    leaf = make_leaf(np.stack([column, column], axis=1), np.array([-1.0, -1, 0, 0, 0, 1, 1]), np.ones(7))
    leaf = leaf._replace(rows=np.array([0, 1, 5, 6], dtype=np.uint32))
    split = leaf.find(SplitSettings(min_docs_in_leaf=1, equal_cuts="highest" if highest else "lowest"))
    assert split is not None
    # Among features with equal splits, the first is chosen in both cases.
    assert (split.column, split.bin) == (0, expected_bin)


def test_counting_by_hessian_takes_heavy_documents_for_many() -> None:
    gradients, hessians = np.array([-9.0, -9] + [1.0] * 8), np.array([9.0, 9] + [1.0] * 8)
    leaf = make_leaf(np.arange(10.0)[:, None], gradients, hessians)
    split = leaf.find(SplitSettings(min_docs_in_leaf=3, document_counts="by_hessian"))
    assert split is not None
    # With 10 documents and a total hessian of 26, a hessian of 9 counts as round(90 / 26) = 3, and 1 as 0.
    assert split.bin == 0
