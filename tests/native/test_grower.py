from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from engine_cases import COMPILED, MAY_COMPILE, dataset, make_dataset
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native.forest.scoring import add_scores, plant
from ltrbench.native.objectives.lambdas import LambdaSettings, judge, lambdas
from ltrbench.native.tree.binning import bin_features
from ltrbench.native.tree.grower import FeatureDraw, Grower, GrownTree
from ltrbench.native.tree.histogram import quantise
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.native.tree.splitting import SplitSettings


def grow(
    data: RankingDataset,
    num_leaves: int,
    settings: SplitSettings | None = None,
    rows: NDArray[np.uint32] | None = None,
    features_of_leaf: FeatureDraw | None = None,
) -> GrownTree:
    """The first tree of LambdaMART."""
    gradients, hessians = lambdas(judge(data, 30), np.zeros(data.num_documents), LambdaSettings())
    binned = bin_features(data.features, 255, np.random.default_rng(0))
    grower = Grower(binned, num_leaves, settings or SplitSettings(min_docs_in_leaf=3))
    all_rows = np.arange(data.num_documents, dtype=np.uint32)
    return grower.grow(
        quantise(gradients, hessians),
        all_rows if rows is None else rows,
        np.ones(data.num_features, dtype=np.bool_),
        features_of_leaf,
    )


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 20))
@MAY_COMPILE
def test_leaves_share_out_the_documents_and_keep_their_bounds(
    seed: int, num_leaves: int, min_docs: int
) -> None:
    data = make_dataset(seed, num_queries=12)
    rows = np.flatnonzero(np.random.default_rng(seed).random(data.num_documents) < 0.8).astype(np.uint32)
    grown = grow(data, num_leaves, SplitSettings(min_docs_in_leaf=min_docs), rows.copy())
    assert 1 <= len(grown.leaf_node) <= num_leaves
    np.testing.assert_array_equal(np.sort(grown.rows), rows)
    sizes = np.diff(grown.leaf_start)
    assert sizes.sum() == len(rows)
    if len(sizes) > 1:
        assert sizes.min() >= min_docs
    for first, end in zip(grown.leaf_start[:-1], grown.leaf_start[1:], strict=True):
        assert (np.diff(grown.rows[first:end].astype(np.int64)) > 0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 20), st.sampled_from([0, 1, 4]))
@MAY_COMPILE
def test_the_compiled_loop_grows_the_tree_of_the_steps(
    seed: int, num_leaves: int, min_docs: int, max_depth: int
) -> None:
    data = make_dataset(seed, num_queries=12)
    settings = SplitSettings(min_docs_in_leaf=min_docs, max_depth=max_depth, l2=0.1 * (seed % 2))
    rows = np.flatnonzero(np.random.default_rng(seed).random(data.num_documents) < 0.8).astype(np.uint32)
    compiled = grow(data, num_leaves, settings, rows.copy())
    # A tree whose leaves may draw features of their own grows by the steps.
    by_steps = grow(data, num_leaves, settings, rows.copy(), features_of_leaf=lambda features: features)
    for one, other in zip(compiled.tree, by_steps.tree, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    for name in ("rows", "leaf_start", "leaf_node", "leaf_bounds"):
        np.testing.assert_array_equal(getattr(compiled, name), getattr(by_steps, name))


@given(st.integers(0, 2**32 - 1))
@MAY_COMPILE
def test_raw_features_lead_to_the_leaf_that_bins_led_to(seed: int) -> None:
    data = make_dataset(seed, num_queries=12)
    grown = grow(data, num_leaves=8)
    tree = grown.tree._replace(value=np.arange(len(grown.tree.feature), dtype=np.float64))
    reached = np.zeros(data.num_documents)
    add_scores(plant([tree], [1.0]), data.features, reached)
    for leaf, node in enumerate(grown.leaf_node):
        rows = grown.rows[grown.leaf_start[leaf] : grown.leaf_start[leaf + 1]]
        np.testing.assert_array_equal(reached[rows], node)


def test_a_tree_of_more_leaves_begins_as_the_tree_of_fewer() -> None:
    data = make_dataset(0)
    small, large = grow(data, 5).tree, grow(data, 9).tree
    cut = small.feature != NO_FEATURE
    for name in ("feature", "threshold", "left", "right", "gain"):
        np.testing.assert_array_equal(getattr(small, name)[cut], getattr(large, name)[: len(cut)][cut])


def test_the_open_leaf_of_the_highest_gain_is_cut_first() -> None:
    tree = grow(make_dataset(1), 12).tree
    inner = np.flatnonzero(tree.feature != NO_FEATURE)
    # In the order of cutting: the pair of new nodes tells when.
    order = inner[np.argsort(tree.left[inner])]
    for step, node in enumerate(order):
        open_then = [other for other in order[step:] if other < tree.left[node]]
        assert tree.gain[node] == max(tree.gain[other] for other in open_then)


def test_memory_kept_from_tree_to_tree_leaves_no_trace() -> None:
    data = make_dataset(2)
    gradients, hessians = lambdas(judge(data, 30), np.zeros(data.num_documents), LambdaSettings())
    grower = Grower(bin_features(data.features, 255, np.random.default_rng(0)), 7, SplitSettings(3))
    used = np.ones(data.num_features, dtype=np.bool_)
    trees = []
    for g in (gradients, -gradients, gradients):
        rows = np.arange(data.num_documents, dtype=np.uint32)
        trees.append(grower.grow(quantise(g, hessians), rows, used).tree)
    for first, last in zip(trees[0], trees[2], strict=True):
        np.testing.assert_array_equal(first, last)


def few_valued(seed: int) -> RankingDataset:
    """Features of few values, so that LightGBM's bins and ours are the same."""
    rng = np.random.default_rng(seed)
    # All above zero, which LightGBM parts from other values by 1e-35 and not halfway.
    features = np.round(3 * rng.normal(size=(3_000, 8))) + 20
    utility = features[:, 0] + features[:, 1] * (features[:, 2] > 20) - 30 + rng.normal(size=3_000)
    features[rng.random(features.shape) < 0.05] = np.nan
    return dataset(features, np.digitize(utility, [2.0, 6.0, 12.0]), [30] * 100)


@COMPILED
@pytest.mark.parametrize("seed", range(4))
def test_the_first_tree_is_lightgbms(seed: int) -> None:
    data = few_valued(seed)
    parameters = {
        "objective": "lambdarank",
        "num_leaves": 15,
        "learning_rate": 1.0,
        "min_data_in_leaf": 1,  # because LightGBM estimates counts from hessians
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 0.5,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    train_set = lgb.Dataset(data.features, data.labels, group=data.query_sizes)
    model = lgb.train(parameters, train_set, 1)
    table = model.trees_to_dataframe()
    theirs = table[table["split_feature"].notna()]
    grown = grow(data, 15, SplitSettings(min_docs_in_leaf=1, min_sum_hessian=0.5))
    tree = grown.tree
    inner = np.flatnonzero(tree.feature != NO_FEATURE)
    order = inner[np.argsort(tree.left[inner])]
    number = theirs["node_index"].str.extract(r"S(\d+)")[0].astype(int)
    by_cut = theirs.iloc[np.argsort(number)]
    assert [f"Column_{f}" for f in tree.feature[order]] == list(by_cut["split_feature"])
    # LightGBM's gradients are float32 and its sigmoid comes from a table.
    np.testing.assert_allclose(tree.gain[order], by_cut["split_gain"], rtol=1e-3)
    # Thresholds between which a leaf has no document are as good as each other, so hold the leaves together.
    reached = np.asarray(model.predict(data.features, pred_leaf=True))[:, 0]
    for first, end in zip(grown.leaf_start[:-1], grown.leaf_start[1:], strict=True):
        assert len(set(reached[grown.rows[first:end]])) == 1
    assert len(set(reached)) == len(grown.leaf_node)
