from __future__ import annotations

import numpy as np
import pytest
from engine_cases import COMPILED, make_dataset
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from ltrbench.compilation import threads
from ltrbench.native.sampling import Sampler, SamplingSettings
from ltrbench.native.tree.binning import bin_features
from ltrbench.native.tree.grower import Grower, GrownTree
from ltrbench.native.tree.growth import ORDERS, best_first, by_deviance, depth_wise
from ltrbench.native.tree.histogram import quantise
from ltrbench.native.tree.nodes import NO_FEATURE, Tree
from ltrbench.native.tree.splitting import SplitSettings

LOOSE = SplitSettings(min_docs_in_leaf=1, cut_without_gain=True)


def gradients_of(seed: int, num_documents: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=num_documents) ** 3


def grow(seed: int, order: str, num_leaves: int, settings: SplitSettings = LOOSE) -> GrownTree:
    """A least-squares tree of random gradients, with features that follow some of them."""
    data = make_dataset(seed, num_queries=40)
    binned = bin_features(data.features, 255, np.random.default_rng(0))
    gradients = gradients_of(seed, data.num_documents)
    rows = np.arange(data.num_documents, dtype=np.uint32)
    used = np.ones(data.num_features, dtype=np.bool_)
    grower = Grower(binned, num_leaves, settings, ORDERS[order])
    return grower.grow(quantise(gradients, np.ones_like(gradients)), rows, used)


def nodes_in_the_order_of_cutting(tree: Tree) -> NDArray[np.int64]:
    inner = np.flatnonzero(tree.feature != NO_FEATURE)
    # The pair of new nodes tells when.
    return inner[np.argsort(tree.left[inner])]


def rows_of_nodes(grown: GrownTree) -> list[NDArray[np.uint32]]:
    """The documents of every node, an inner one's gathered from below."""
    tree = grown.tree
    rows = [np.empty(0, dtype=np.uint32)] * len(tree.feature)
    for leaf, node in enumerate(grown.leaf_node):
        rows[node] = grown.rows[grown.leaf_start[leaf] : grown.leaf_start[leaf + 1]]
    for node in reversed(range(len(rows))):
        if tree.feature[node] != NO_FEATURE:
            rows[node] = np.concatenate([rows[tree.left[node]], rows[tree.right[node]]])
    return rows


def depths(tree: Tree) -> NDArray[np.int64]:
    depth = np.zeros(len(tree.feature), dtype=np.int64)
    for node in np.flatnonzero(tree.feature != NO_FEATURE):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return depth


@pytest.mark.parametrize("seed", range(3))
def test_by_deviance_the_open_leaf_of_the_most_differing_gradients_is_cut_next(seed: int) -> None:
    grown = grow(seed, "by_deviance", 12)
    gradients = gradients_of(seed, len(grown.rows))
    deviance = [len(rows) * np.var(gradients[rows]) for rows in rows_of_nodes(grown)]
    order = nodes_in_the_order_of_cutting(grown.tree)
    assert len(order) == 11
    for step, node in enumerate(order):
        leaves_then = set(range(grown.tree.left[node])) - set(order[:step].tolist())
        assert deviance[node] == pytest.approx(max(deviance[leaf] for leaf in leaves_then), rel=1e-6)


def test_of_equal_deviances_the_leaf_made_last_is_cut_first() -> None:
    # The root's cut leaves two halves alike, whose own cuts gain alike.
    features = np.arange(8, dtype=np.float32)[:, None]
    gradients = np.array([5.0, 5, 7, 7, -5, -5, -7, -7])
    grower = Grower(bin_features(features, 255, np.random.default_rng(0)), 3, LOOSE, by_deviance)
    rows, used = np.arange(8, dtype=np.uint32), np.ones(1, dtype=np.bool_)
    last_first = grower.grow(quantise(gradients, np.ones(8)), rows.copy(), used).tree
    grower.order = best_first
    first_first = grower.grow(quantise(gradients, np.ones(8)), rows.copy(), used).tree
    assert nodes_in_the_order_of_cutting(last_first).tolist() == [0, last_first.right[0]]
    assert nodes_in_the_order_of_cutting(first_first).tolist() == [0, first_first.left[0]]


def test_depth_wise_a_level_is_whole_before_the_next_begins() -> None:
    grown = grow(0, "depth_wise", 11, SplitSettings(min_docs_in_leaf=5, cut_without_gain=True))
    depth = depths(grown.tree)
    assert (np.diff(depth[nodes_in_the_order_of_cutting(grown.tree)]) >= 0).all()
    sizes = np.array([len(rows) for rows in rows_of_nodes(grown)])
    leaves = grown.tree.feature == NO_FEATURE
    # Above the last level but one only what is too small was left out.
    assert (sizes[leaves & (depth < depth.max() - 1)] < 10).all()


@pytest.mark.parametrize("order", list(ORDERS))
def test_no_leaf_lies_deeper_than_max_depth(order: str) -> None:
    settings = SplitSettings(min_docs_in_leaf=1, max_depth=3)
    grown = grow(1, order, 31, settings)
    assert depths(grown.tree).max() == 3
    assert len(grown.leaf_node) == 8


def test_a_small_leaf_is_not_cut_but_may_be_left_over() -> None:
    grown = grow(2, "best_first", 31, SplitSettings(min_docs_in_leaf=1, min_docs_in_split=60))
    sizes = np.array([len(rows) for rows in rows_of_nodes(grown)])
    inner = grown.tree.feature != NO_FEATURE
    assert sizes[inner].min() >= 60
    assert sizes[~inner].min() < 30


def test_leaves_are_cut_without_gain_only_where_that_is_asked_for() -> None:
    # Either feature alone tells nothing: exclusive or.
    features = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    gradients = np.array([1.0, -1, -1, 1])
    rows, used = np.arange(4, dtype=np.uint32), np.ones(2, dtype=np.bool_)
    binned = bin_features(features, 255, np.random.default_rng(0))
    for settings, num_leaves in ((LOOSE, 4), (SplitSettings(min_docs_in_leaf=1), 1)):
        grown = Grower(binned, 8, settings).grow(quantise(gradients, np.ones(4)), rows.copy(), used)
        assert len(grown.leaf_node) == num_leaves


def test_a_leaf_whose_gradients_are_all_alike_is_never_cut() -> None:
    features = np.arange(6, dtype=np.float32)[:, None]
    rows, used = np.arange(6, dtype=np.uint32), np.ones(1, dtype=np.bool_)
    binned = bin_features(features, 255, np.random.default_rng(0))
    gradients = np.array([0.1, 0.1, 0.1, 3, 3, 3])
    for order in (best_first, by_deviance, depth_wise):
        grown = Grower(binned, 6, LOOSE, order).grow(quantise(gradients, np.ones(6)), rows.copy(), used)
        assert np.diff(grown.leaf_start).tolist() == [3, 3]


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_level_by_level_is_scikit_learns_tree(seed: int) -> None:
    """And so pyltr's, whose trees are those of friedman_mse down to depth 3.

    From 1.9 on scikit-learn says itself that friedman_mse and squared_error were always equivalent.
    """
    rng = np.random.default_rng(seed)
    features = np.round(2 * rng.normal(size=(400, 5))).astype(np.float32)
    gradients = features[:, 0] * features[:, 1] + rng.normal(size=400)
    settings = SplitSettings(min_docs_in_leaf=5, min_docs_in_split=14, max_depth=3, cut_without_gain=True)
    grower = Grower(bin_features(features, 255, np.random.default_rng(0)), 8, settings, depth_wise)
    grown = grower.grow(
        quantise(gradients, np.ones(400)), np.arange(400, dtype=np.uint32), np.ones(5, dtype=np.bool_)
    )
    peer = DecisionTreeRegressor(max_depth=3, min_samples_leaf=5, min_samples_split=14, random_state=0).fit(
        features, -gradients
    )
    predicted = peer.predict(features)
    assert peer.get_n_leaves() == len(grown.leaf_node)
    for first, end in zip(grown.leaf_start[:-1], grown.leaf_start[1:], strict=True):
        rows = grown.rows[first:end]
        np.testing.assert_allclose(predicted[rows], -gradients[rows].mean(), rtol=1e-9)


@COMPILED
@pytest.mark.parametrize("order", list(ORDERS))
def test_any_number_of_threads_grows_the_same_tree(order: str) -> None:
    trees = []
    for num_threads in (1, 2):
        with threads(num_threads):
            trees.append(grow(3, order, 12).tree)
    for one, other in zip(*trees, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [1 / 3, 3, "sqrt"])
def test_every_leaf_draws_the_features_that_it_may_be_cut_by(size: float | str) -> None:
    data = make_dataset(4, num_queries=80)
    sampler = Sampler(data, SamplingSettings(features_per_split=size), np.random.default_rng(0))
    drawn = []

    def draw(features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        drawn.append(sampler.features_of_leaf(features))
        return drawn[-1]

    used = np.arange(data.num_features) != 0
    gradients = gradients_of(4, data.num_documents)
    rows = np.arange(data.num_documents, dtype=np.uint32)
    grower = Grower(bin_features(data.features, 255, np.random.default_rng(0)), 9, LOOSE)
    tree = grower.grow(quantise(gradients, np.ones_like(gradients)), rows, used, draw).tree
    num_chosen = {1 / 3: 3, 3: 3, "sqrt": 3}[size]
    assert {int(features.sum()) for features in drawn} == {num_chosen}
    assert not any(features[0] for features in drawn)
    # The root is drawn for first.
    assert drawn[0][tree.feature[0]]
    assert len({tuple(features) for features in drawn}) > 1
