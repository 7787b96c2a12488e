"""Compares TreeSHAP with the sum over all subsets, with its axioms, and with LightGBM's contributions."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_cases import COMPILED, MAY_COMPILE, make_dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from test_forest import random_tree, steps

from ltrbench.models.lightgbm_files import (
    LightGBMTree,
    missing_sides,
    parse_lightgbm_text,
)
from ltrbench.models.trees import float32_thresholds
from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.attribution import reference_contributions, tree_shap
from ltrbench.native.forest import Forest, plant


def random_case(
    seed: int, num_documents: int = 5, num_features: int = 4
) -> tuple[Forest, Any]:
    """Returns a forest of stumps and of trees that split on a feature more than once on a path."""
    rng = np.random.default_rng(seed)
    trees = [
        random_tree(rng, int(size), num_features)
        for size in rng.choice([1, 2, 5, 9], size=2)
    ]
    features = steps(rng, (num_documents, num_features))
    features[rng.random(features.shape) < 0.2] = np.nan
    return plant(trees, rng.normal(size=2)), features


@given(st.integers(0, 2**32 - 1))
@settings(MAY_COMPILE, max_examples=25)
def test_contributions_are_shapley_values_over_all_subsets(seed: int) -> None:
    forest, features = random_case(seed)
    np.testing.assert_allclose(
        tree_shap(forest, features),
        reference_contributions(forest, features),
        rtol=0,
        atol=1e-12,
    )


@COMPILED
def test_contributions_are_exact_on_a_path_with_many_features() -> None:
    """Algorithm 2, which removes features by subtraction, has an error of 0.04 on this path [run]."""
    depth = 60
    inner = np.arange(0, 2 * depth, 2)
    size = 2 * depth + 1
    feature, left, right = np.full(size, NO_FEATURE), np.arange(size), np.arange(size)
    feature[inner], left[inner], right[inner] = np.arange(depth), inner + 2, inner + 1
    num_documents = np.ones(size, dtype=np.int64)
    num_documents[::2] = np.arange(depth + 1, 0, -1)
    chain = Tree(
        feature=feature.astype(np.int32),
        threshold=np.zeros(size, dtype=np.float32),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        missing_left=np.zeros(size, dtype=np.bool_),
        gain=np.zeros(size),
        value=np.where(np.arange(size) == size - 1, 1.0, 0.0),
        num_documents=num_documents,
        left_categories=np.empty((size, 0), dtype=np.float32),
    )
    forest, features = plant([chain], [1.0]), np.full((1, depth), -1, dtype=np.float32)
    np.testing.assert_allclose(tree_shap(forest, features).sum(), 1.0, rtol=1e-12)


@COMPILED
@pytest.mark.parametrize("more", [{}, {"bagging_fraction": 0.5, "bagging_freq": 1}])
def test_of_lightgbms_own_trees_they_are_lightgbms(more: dict[str, Any]) -> None:
    data = make_dataset(1, num_queries=60)
    parameters = {
        "objective": "lambdarank",
        "num_leaves": 15,
        "min_data_in_leaf": 3,
        "verbose": -1,
        "num_threads": 1,
        **more,
    }
    train_set = lgb.Dataset(data.features, data.labels, group=data.query_sizes)
    model = lgb.train(parameters, train_set, 20)
    _, of_lightgbm = parse_lightgbm_text(model.model_to_string().encode())
    trees = list(map(_native, of_lightgbm))
    forest = plant(trees, np.ones(len(trees)))
    expected = np.asarray(model.predict(data.features, pred_contrib=True))
    np.testing.assert_allclose(
        tree_shap(forest, data.features), expected, rtol=0, atol=1e-12
    )


def _native(tree: LightGBMTree) -> Tree:
    """Returns a tree of LightGBM in the native arrays: its splits, then its leaves."""
    num_splits, size = len(tree.feature), len(tree.feature) + len(tree.value)
    left, right = (
        np.where(side >= 0, side, num_splits + ~side)
        for side in (tree.left, tree.right)
    )
    leaves, zeros = np.arange(num_splits, size), np.zeros(len(tree.value))
    counts = " ".join(
        tree.statistics[name] for name in ("internal_count", "leaf_count")
    )
    return Tree(
        feature=np.append(tree.feature, np.full_like(leaves, NO_FEATURE)).astype(
            np.int32
        ),
        threshold=np.append(float32_thresholds(tree.threshold, "<="), zeros).astype(
            np.float32
        ),
        left=np.append(left, leaves).astype(np.int32),
        right=np.append(right, leaves).astype(np.int32),
        missing_left=np.append(
            missing_sides(tree.decision_type, tree.threshold)[0], zeros > 0
        ),
        gain=np.zeros(size),
        value=np.append(np.zeros(num_splits), tree.value),
        num_documents=np.array(counts.split(), dtype=np.int64),
        left_categories=np.empty((size, 0), dtype=np.float32),
    )
