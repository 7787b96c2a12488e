"""The parity study: its parts on small data, and first trees on real data if it is available."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from composed_jobs import composer

from ltrbench.config import build
from ltrbench.data import RankingDataset
from ltrbench.data.letor import read_letor
from ltrbench.models.trees import InnerNode, Leaf, WeightedTree
from ltrbench.rankers import BoostingRanker
from ltrbench.rankers.base import trees_of
from ltrbench.rankers.native import NativeRanker
from results.parity.run import (
    FOLLOWED,
    FOLLOWED_LATER,
    PEERS,
    cuts_apart,
    in_bins,
    leaves_apart,
    num_cuts,
    trees_alike,
    with_setting,
)

pytestmark = pytest.mark.slow


def make(name: str, num_trees: int, **fields: object) -> BoostingRanker:
    overrides = [f"params.num_trees={num_trees}", "early_stopping=null"]
    overrides += [f"study.models.{name}.{key}={value}" for key, value in fields.items()]
    config, _ = composer().composed(["experiment=parity", *overrides])
    return build(config.study.models, name, BoostingRanker)


def made_up() -> RankingDataset:
    rng = np.random.default_rng(0)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 60, 60))])
    features = rng.normal(size=(query_start[-1], 8)).astype(np.float32)
    utility = (
        features[:, 0]
        + features[:, 1] * features[:, 2]
        + rng.normal(size=len(features))
    )
    labels = np.digitize(utility, [0.0, 1.0, 2.0]).astype(np.float64)
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def cut(feature: int, threshold: float, left: float, right: float) -> InnerNode:
    return InnerNode(feature, threshold, False, Leaf(left), Leaf(right))


def test_on_bins_a_cut_is_a_feature_and_the_last_bin_on_the_left() -> None:
    tree = cut(3, 5.5, -1.0, 2.0)
    assert cuts_apart(tree, cut(3, math.nextafter(6.0, 0.0), -1.0, 2.0)) == 0
    assert cuts_apart(tree, cut(3, 6.0, -1.0, 2.0)) == 1
    assert cuts_apart(tree, cut(2, 5.5, -1.0, 2.0)) == 1
    assert cuts_apart(tree, Leaf(-1.0)) == 1
    assert leaves_apart(tree, cut(3, 5.9, -1.5, 2.25)) == 0.5
    assert leaves_apart(tree, cut(3, 6.0, -1.0, 2.0)) == math.inf
    assert num_cuts(tree) == 1
    first, second = (
        (WeightedTree(0.1, tree),) * 3,
        (*(WeightedTree(0.1, tree),) * 2, WeightedTree(0.1, Leaf(0.0))),
    )
    assert trees_alike(first, second) == 2


def test_bins_are_numbered_by_training_values_and_bin_to_themselves() -> None:
    train = made_up()
    once, of_itself = in_bins(train, train)
    np.testing.assert_array_equal(once.features, of_itself.features)
    np.testing.assert_array_equal(in_bins(once)[0].features, once.features)
    # Bin indices increase with the values.
    order = np.argsort(train.features[:, 0])
    assert (np.diff(once.features[order, 0]) >= 0).all()


def real_or_made_up(name: str, letor_data: Callable[[str], Path]) -> RankingDataset:
    if name == "made up":
        return made_up()
    folder = letor_data(name)
    return read_letor(
        folder / "rank.train"
        if name == "lightgbm-example"
        else folder / "Fold1" / "train.txt"
    )


@pytest.mark.parametrize("data", ["made up", "MQ2008", "lightgbm-example"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_the_first_tree_is_the_librarys(
    library: str, data: str, letor_data: Callable[[str], Path]
) -> None:
    (train,) = in_bins(real_or_made_up(data, letor_data))
    native, peer = (
        trees_of(make(name, 1).fit(train)).trees[0].root
        for name in (f"native_{library}", library)
    )
    assert num_cuts(peer) > 20
    # The libraries' gradients and leaf values are float32.
    assert leaves_apart(native, peer) < 1e-6


def test_many_trees_are_lightgbms_on_made_up_data() -> None:
    (train,) = in_bins(made_up())
    native, peer = (
        make(name, 15).fit(train) for name in ("native_lightgbm", "lightgbm")
    )
    np.testing.assert_allclose(
        native.predict(train.features), peer.predict(train.features), atol=1e-6
    )


@pytest.mark.parametrize("data", ["made up", "MQ2008"])
def test_many_trees_are_xgboosts(data: str, letor_data: Callable[[str], Path]) -> None:
    (train,) = in_bins(real_or_made_up(data, letor_data))
    native, peer = (make(name, 40).fit(train) for name in ("native_xgboost", "xgboost"))
    assert trees_alike(trees_of(native).trees, trees_of(peer).trees) == 40
    # XGBoost sums the leaf values of a document in float32.
    np.testing.assert_allclose(
        native.predict(train.features), peer.predict(train.features), atol=1e-5
    )


@pytest.mark.parametrize("library", PEERS)
def test_a_setting_that_follows_a_library_has_another_value_in_its_preset(
    library: str,
) -> None:
    preset = NativeRanker.from_preset(PEERS[library])
    for name, value in (FOLLOWED[library] | FOLLOWED_LATER[library]).items():
        assert with_setting(preset, name, value) != preset
