from __future__ import annotations

from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_cases import COMPILED, MAY_COMPILE, dataset, make_dataset
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from split_cases import any_settings, assert_both_find_none, make_leaf, random_leaf

from ltrbench.data import RankingDataset
from ltrbench.native.boosting import BoostingSettings, boost
from ltrbench.native.forest import Forest, add_scores
from ltrbench.native.splitting import SplitSettings, prepare_constrained

seeds = st.integers(0, 2**32 - 1)
missing_shares = st.sampled_from([0.0, 0.3])


@given(
    seeds,
    missing_shares,
    any_settings,
    st.sampled_from([0.0, 0.5]),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    st.sampled_from([(-np.inf, np.inf), (-0.5, 0.1), (0.0, 0.4)]),
)
@MAY_COMPILE
def test_the_search_does_what_the_reference_says(
    seed: int,
    missing_share: float,
    settings: SplitSettings,
    l1: float,
    signs_of_features: list[int],
    bounds: tuple[float, float],
) -> None:
    leaf, signs = random_leaf(seed, missing_share), np.array(signs_of_features, dtype=np.int8)
    settings = replace(settings, l1=l1)
    got = leaf.find(settings, prepare=prepare_constrained(signs), bounds=bounds)
    expected = leaf.find_by_reference(settings, signs, bounds)
    if expected is None or got is None:
        assert_both_find_none(got, expected, settings)
        return
    assert got.gain == pytest.approx(expected.gain, rel=1e-9, abs=1e-9)
    # If a bound or l1 limits all steps, several splits have the same gain, and rounding chooses one of them.
    if (bounds, l1, settings.max_delta_step) == ((-np.inf, np.inf), 0.0, 0.0):
        assert got[1:4] == expected[1:4]


def test_a_split_against_the_sign_is_rejected_and_a_valid_one_bounds_both_sides() -> None:
    # The step of the left side is 1, that of the right side -1.
    leaf = make_leaf(np.arange(4.0)[:, None], np.array([-1.0, -1, 1, 1]), np.ones(4))
    settings = SplitSettings(min_docs_in_leaf=1)
    rising, falling, either = (
        leaf.find(settings, prepare=prepare_constrained(np.array([sign], dtype=np.int8)), bounds=(-3.0, 2.0))
        for sign in (1, -1, 0)
    )
    assert rising is None
    assert falling is not None
    assert falling.left_bounds == pytest.approx((0.0, 2.0), abs=1e-8)
    assert falling.right_bounds == pytest.approx((-3.0, 0.0), abs=1e-8)
    assert either is not None
    assert either.left_bounds == either.right_bounds == (-3.0, 2.0)


def scores_of(forest: Forest, features: NDArray[np.float32]) -> NDArray[np.float64]:
    scores = np.zeros(len(features))
    add_scores(forest, np.ascontiguousarray(features), scores)
    return scores


SIGNS = {"1": 1, "2": -1}
MONOTONE = BoostingSettings(
    num_trees=15,
    num_leaves=12,
    learning_rate=0.3,
    splits=SplitSettings(min_docs_in_leaf=2, monotone=SIGNS),
)


@COMPILED
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"split_criterion": "least_squares", "leaf_value": "mean"},
        {"growth": "depth_wise", "max_bins": 600},
        {"splits": SplitSettings(min_docs_in_leaf=2, monotone=SIGNS, l1=0.1, l2=1.0, max_delta_step=0.5)},
    ],
    ids=str,
)
def test_scores_follow_the_sign_wherever_only_that_feature_changes(changes: dict[str, Any]) -> None:
    data = make_dataset(1, num_queries=60)
    settings = replace(MONOTONE, **changes)
    forest = boost(data, settings).forest
    free = boost(data, replace(settings, splits=replace(settings.splits, monotone={}))).forest
    grid = np.linspace(-3, 3, 41, dtype=np.float32)
    broken = 0
    for document in data.features[:15]:
        for feature, sign in ((0, 1), (1, -1)):
            line = np.tile(document, (len(grid), 1))
            line[:, feature] = grid
            assert (sign * np.diff(scores_of(forest, line)) >= -1e-12).all()
            broken += int((sign * np.diff(scores_of(free, line)) < -1e-12).any())
    assert broken > 0
    assert (forest.nodes.feature == 0).any()


def few_valued(seed: int) -> RankingDataset:
    """Returns data with few distinct values per feature, so that LightGBM's bins and ours are the same."""
    rng = np.random.default_rng(seed)
    # All values are above 0: LightGBM's threshold next to 0 is 1e-35 instead of halfway.
    features = np.round(3 * rng.normal(size=(3_000, 6))) + 20
    utility = features[:, 0] + features[:, 1] * (features[:, 2] > 20) - 30 + rng.normal(size=3_000)
    return dataset(features, np.digitize(utility, [2.0, 6.0, 12.0]), [30] * 100)


# With l1, a feature may have no gain in a leaf but a gain in the leaves below it. LightGBM does not try such
# a feature again, and our engine does. Deep trees are therefore compared without l1.
@COMPILED
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("signs", "l1", "num_leaves"),
    [
        ([1, -1, 1, 1, 0, -1], 0.0, 12),
        ([0, 0, -1, 0, 0, 0], 0.0, 12),
        ([0, 0, 0, 0, 0, 0], 3.0, 2),
        ([1, 0, -1, 0, 0, 0], 1.0, 2),
    ],
)
def test_the_first_tree_is_lightgbms(seed: int, signs: list[int], l1: float, num_leaves: int) -> None:
    data = few_valued(seed)
    parameters = {
        "objective": "lambdarank",
        "num_leaves": num_leaves,
        "learning_rate": 1.0,
        "min_data_in_leaf": 1,  # because LightGBM estimates document counts from hessians
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 0.5,
        "lambda_l1": l1,
        "monotone_constraints": signs,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    train_set = lgb.Dataset(data.features, data.labels, group=data.query_sizes)
    expected = np.asarray(lgb.train(parameters, train_set, 1).predict(data.features), dtype=np.float64)
    monotone = {str(f + 1): sign for f, sign in enumerate(signs)}
    settings = BoostingSettings(
        num_trees=1,
        num_leaves=num_leaves,
        learning_rate=1.0,
        splits=SplitSettings(min_docs_in_leaf=1, min_sum_hessian=0.5, monotone=monotone, l1=l1),
    )
    # LightGBM has float32 gradients and a sigmoid table.
    np.testing.assert_allclose(
        scores_of(boost(data, settings).forest, data.features), expected, rtol=1e-4, atol=1e-5
    )
