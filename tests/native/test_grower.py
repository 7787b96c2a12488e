from __future__ import annotations

import numpy as np
import pytest
from engine_cases import MAY_COMPILE, make_dataset
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from ltrbench.data import RankingDataset
from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.bins import bin_features
from ltrbench.native.boosting import Sampler, SamplingSettings
from ltrbench.native.growing import FeatureDraw, Grower, GrownTree
from ltrbench.native.histogram import quantise
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.pairs import NATIVE
from ltrbench.native.splitting import SplitSettings

LOOSE = SplitSettings(min_docs_in_leaf=1, cut_without_gain=True)


def grow(
    data: RankingDataset,
    num_leaves: int,
    settings: SplitSettings | None = None,
    rows: NDArray[np.uint32] | None = None,
    features_of_leaf: FeatureDraw | None = None,
) -> GrownTree:
    """Returns the first tree of LambdaMART."""
    rng = np.random.default_rng(0)
    gradients, hessians = prepare(data, NATIVE)(np.zeros(data.num_documents), None, rng)
    binned = bin_features(data.features, 255, np.random.default_rng(0))
    grower = Grower(binned, num_leaves, settings or SplitSettings(min_docs_in_leaf=3))
    all_rows = np.arange(data.num_documents, dtype=np.uint32)
    return grower.grow(
        quantise(gradients, hessians),
        all_rows if rows is None else rows,
        np.ones(data.num_features, dtype=np.bool_),
        features_of_leaf,
    )


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([0, 1, 4]),
)
@MAY_COMPILE
def test_the_compiled_loop_grows_the_tree_of_the_steps(
    seed: int, num_leaves: int, min_docs: int, max_depth: int
) -> None:
    data = make_dataset(seed, num_queries=12)
    settings = SplitSettings(
        min_docs_in_leaf=min_docs, max_depth=max_depth, l2=0.1 * (seed % 2)
    )
    rows = np.flatnonzero(
        np.random.default_rng(seed).random(data.num_documents) < 0.8
    ).astype(np.uint32)
    compiled = grow(data, num_leaves, settings, rows.copy())
    # A tree with feature samples per leaf is grown step by step.
    by_steps = grow(
        data,
        num_leaves,
        settings,
        rows.copy(),
        features_of_leaf=lambda features: features,
    )
    for one, other in zip(compiled.tree, by_steps.tree, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    for name in ("rows", "leaf_start", "leaf_node", "leaf_bounds"):
        np.testing.assert_array_equal(getattr(compiled, name), getattr(by_steps, name))


def gradients_of(seed: int, num_documents: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=num_documents) ** 3


def grow_least_squares(
    seed: int, growth: str, num_leaves: int, settings: SplitSettings = LOOSE
) -> GrownTree:
    """Returns a least-squares tree of random gradients."""
    data = make_dataset(seed, num_queries=40)
    binned = bin_features(data.features, 255, np.random.default_rng(0))
    gradients = gradients_of(seed, data.num_documents)
    rows = np.arange(data.num_documents, dtype=np.uint32)
    used = np.ones(data.num_features, dtype=np.bool_)
    grower = Grower(binned, num_leaves, settings, growth)
    return grower.grow(quantise(gradients, np.ones_like(gradients)), rows, used)


def nodes_in_the_order_of_cutting(tree: Tree) -> NDArray[np.int64]:
    inner = np.flatnonzero(tree.feature != NO_FEATURE)
    # Later splits create later nodes.
    return inner[np.argsort(tree.left[inner])]


def rows_of_nodes(grown: GrownTree) -> list[NDArray[np.uint32]]:
    """Returns the documents of every node; those of an inner node are the documents of its children."""
    tree = grown.tree
    rows = [np.empty(0, dtype=np.uint32)] * len(tree.feature)
    for leaf, node in enumerate(grown.leaf_node):
        rows[node] = grown.rows[grown.leaf_start[leaf] : grown.leaf_start[leaf + 1]]
    for node in reversed(range(len(rows))):
        if tree.feature[node] != NO_FEATURE:
            rows[node] = np.concatenate([rows[tree.left[node]], rows[tree.right[node]]])
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_by_deviance_splits_the_open_leaf_with_the_largest_deviance(seed: int) -> None:
    grown = grow_least_squares(seed, "by_deviance", 12)
    gradients = gradients_of(seed, len(grown.rows))
    deviance = [len(rows) * np.var(gradients[rows]) for rows in rows_of_nodes(grown)]
    order = nodes_in_the_order_of_cutting(grown.tree)
    assert len(order) == 11
    for step, node in enumerate(order):
        leaves_then = set(range(grown.tree.left[node])) - set(order[:step].tolist())
        assert deviance[node] == pytest.approx(
            max(deviance[leaf] for leaf in leaves_then), rel=1e-6
        )


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_level_by_level_is_scikit_learns_tree(seed: int) -> None:
    """pyltr uses the same trees: scikit-learn's with criterion friedman_mse and depth 3.

    scikit-learn 1.9 documents that friedman_mse and squared_error were always equivalent.
    """
    rng = np.random.default_rng(seed)
    features = np.round(2 * rng.normal(size=(400, 5))).astype(np.float32)
    gradients = features[:, 0] * features[:, 1] + rng.normal(size=400)
    settings = SplitSettings(
        min_docs_in_leaf=5, min_docs_in_split=14, max_depth=3, cut_without_gain=True
    )
    grower = Grower(
        bin_features(features, 255, np.random.default_rng(0)), 8, settings, "depth_wise"
    )
    grown = grower.grow(
        quantise(gradients, np.ones(400)),
        np.arange(400, dtype=np.uint32),
        np.ones(5, dtype=np.bool_),
    )
    peer = DecisionTreeRegressor(
        max_depth=3, min_samples_leaf=5, min_samples_split=14, random_state=0
    ).fit(features, -gradients)
    predicted = peer.predict(features)
    assert peer.get_n_leaves() == len(grown.leaf_node)
    for first, end in zip(grown.leaf_start[:-1], grown.leaf_start[1:], strict=True):
        rows = grown.rows[first:end]
        np.testing.assert_allclose(predicted[rows], -gradients[rows].mean(), rtol=1e-9)


@pytest.mark.parametrize("size", [1 / 3, 3, "sqrt"])
def test_features_are_sampled_for_every_leaf(size: float | str) -> None:
    data = make_dataset(4, num_queries=80)
    sampler = Sampler(
        data, SamplingSettings(features_per_split=size), np.random.default_rng(0)
    )
    drawn = []

    def draw(features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        drawn.append(sampler.features_of_leaf(features))
        return drawn[-1]

    used = np.arange(data.num_features) != 0
    gradients = gradients_of(4, data.num_documents)
    rows = np.arange(data.num_documents, dtype=np.uint32)
    grower = Grower(
        bin_features(data.features, 255, np.random.default_rng(0)), 9, LOOSE
    )
    tree = grower.grow(
        quantise(gradients, np.ones_like(gradients)), rows, used, draw
    ).tree
    num_chosen = {1 / 3: 3, 3: 3, "sqrt": 3}[size]
    assert {int(features.sum()) for features in drawn} == {num_chosen}
    assert not any(features[0] for features in drawn)
    # The first draw is for the root.
    assert drawn[0][tree.feature[0]]
    assert len({tuple(features) for features in drawn}) > 1
