"""Ensembles whose trees are hard to convert, and features on both sides of all of their thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    nodes_of,
)

NUM_FEATURES = 6
"""Trees do not split on the last feature."""


def grown(
    rng: np.random.Generator,
    num_leaves: int,
    threshold: Callable[[], float],
    num_features: int = NUM_FEATURES - 1,
) -> Node:
    """Returns a random tree."""
    if num_leaves == 1:
        return Leaf(float(rng.normal()))
    num_left = int(rng.integers(1, num_leaves))
    left = grown(rng, num_left, threshold, num_features)
    right = grown(rng, num_leaves - num_left, threshold, num_features)
    feature = int(rng.integers(0, num_features))
    return InnerNode(feature, threshold(), bool(rng.random() < 0.5), left, right)


def forest(
    num_trees: int, num_leaves: int = 8, seed: int = 0, **fields: Any
) -> Ensemble:
    """Returns random trees with thresholds that are no float32, unless `threshold_dtype` is float32."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(fields.setdefault("threshold_dtype", "float64"))
    trees = (
        grown(rng, num_leaves, lambda: float(dtype.type(rng.normal())))
        for _ in range(num_trees)
    )
    return Ensemble(tuple(WeightedTree(0.1, tree) for tree in trees), **fields)


def zeros_as_missing(ensemble: Ensemble, least_feature: int = 0) -> Ensemble:
    """Returns the ensemble with zeros as missing values in the splits on features of at least this number,
    and on feature 0 where it is the root."""

    def marked(node: Node) -> Node:
        if isinstance(node, Leaf):
            return node
        zero_missing = node.feature >= least_feature
        return replace(
            node,
            zero_missing=zero_missing,
            left=marked(node.left),
            right=marked(node.right),
        )

    def root_of(tree: WeightedTree) -> Node:
        root = marked(tree.root)
        return (
            replace(root, zero_missing=True)
            if isinstance(root, InnerNode) and not root.feature
            else root
        )

    trees = tuple(replace(tree, root=root_of(tree)) for tree in ensemble.trees)
    return replace(ensemble, trees=trees)


def deep(depth: int) -> Ensemble:
    """Returns one tree that is a path, with the smallest thresholds at the bottom."""
    root: Node = Leaf(0.0)
    for level in range(depth):
        root = InnerNode(
            0, level / 7, level % 2 == 0, left=root, right=Leaf(float(level))
        )
    return Ensemble((WeightedTree(1.0, root),), threshold_dtype="float64")


def symmetric(depth: int) -> Ensemble:
    """Returns a tree with the same split in all nodes of a level, as CatBoost's."""

    def level(number: int, leaf: int) -> Node:
        if number == depth:
            return Leaf(leaf / 3)
        left, right = level(number + 1, 2 * leaf), level(number + 1, 2 * leaf + 1)
        return InnerNode(number % (NUM_FEATURES - 1), number / 3, True, left, right)

    return Ensemble(
        (WeightedTree(1.0, level(0, 0)),), base_score=0.1, threshold_dtype="float64"
    )


def timestamps(scale: float) -> Ensemble:
    """Returns stumps with thresholds in the middle between two float32 values near a time, as LightGBM's.

    Half of them would be rounded up to the nearest float32, which would then go left.
    """
    values = np.unique(
        np.float32(scale)
        + np.arange(64, dtype=np.float32) * np.spacing(np.float32(scale))
    )
    middles = (values[:-1].astype(np.float64) + values[1:].astype(np.float64)) / 2
    stumps = (
        InnerNode(0, float(middle), False, Leaf(0.0), Leaf(1.0)) for middle in middles
    )
    return Ensemble(
        tuple(WeightedTree(1.0, stump) for stump in stumps), threshold_dtype="float64"
    )


def collapsing() -> Ensemble:
    """Returns a tree with three thresholds between the same two float32 values: two leaves are empty."""
    gap = np.spacing(np.float32(0.5)) / 8
    thresholds = [0.5 + number * float(gap) for number in (1, 2, 3)]
    low = InnerNode(0, thresholds[0], True, Leaf(1.0), Leaf(2.0))
    high = InnerNode(0, thresholds[2], True, Leaf(4.0), Leaf(8.0))
    root = InnerNode(0, thresholds[1], True, low, high)
    return Ensemble((WeightedTree(1.0, root),), threshold_dtype="float64")


def beyond_float32() -> Ensemble:
    """Returns splits with thresholds that only infinite values pass, and zeros of both signs."""
    thresholds = [
        1e300,
        -1e300,
        float(np.finfo(np.float32).max),
        float(np.finfo(np.float32).min),
        0.0,
        -0.0,
    ]
    stumps = [
        InnerNode(0, bound, False, Leaf(0.0), Leaf(2.0**n))
        for n, bound in enumerate(thresholds)
    ]
    return Ensemble(
        tuple(WeightedTree(1.0, stump) for stump in stumps), threshold_dtype="float64"
    )


def dart(num_trees: int) -> Ensemble:
    """Returns trees with a weight each."""
    ensemble = forest(num_trees)
    trees = (
        replace(tree, weight=1 / (3 + number))
        for number, tree in enumerate(ensemble.trees)
    )
    return replace(ensemble, trees=tuple(trees))


XGBOOST: dict[str, Any] = {
    "comparison": "<",
    "threshold_dtype": "float32",
    "score_dtype": "float32",
}

CASES: dict[str, Ensemble] = {
    "LightGBM's arithmetic": forest(30, base_score=0.3),
    "CatBoost's arithmetic": forest(30, base_score=0.3, threshold_dtype="float32"),
    "XGBoost's arithmetic": forest(30, base_score=float(np.float32(0.1)), **XGBOOST),
    "< in float64": forest(30, comparison="<"),
    "float64 thresholds, float32 scores": forest(
        30, score_dtype="float32", base_score=0.25
    ),
    "float64 thresholds, float32 scores, <": forest(
        30, score_dtype="float32", comparison="<"
    ),
    "zeros as missing values": zeros_as_missing(forest(30, num_leaves=5)),
    "zeros as missing values, <": zeros_as_missing(forest(30, num_leaves=5, **XGBOOST)),
    "zeros as missing values in part of the splits": zeros_as_missing(
        forest(30, num_leaves=5), 2
    ),
    "dart": dart(30),
    "symmetric": symmetric(6),
    "depth 60": deep(60),
    "one tree": forest(1),
    "one leaf": Ensemble((WeightedTree(0.1, Leaf(0.7)),), base_score=0.3),
    "one leaf among trees": replace(
        forest(9),
        trees=(
            *forest(4).trees,
            WeightedTree(0.1, Leaf(0.7)),
            *forest(4, seed=1).trees,
        ),
    ),
    "no tree": Ensemble((), base_score=0.3),
    "no tree and no base score": Ensemble(()),
    "timestamps in seconds": timestamps(1.6e9),
    "timestamps in milliseconds": timestamps(1.6e12),
    "collapsing thresholds": collapsing(),
    "thresholds beyond float32": beyond_float32(),
    "thresholds beyond float32, <": replace(beyond_float32(), comparison="<"),
}


def values_around(ensemble: Ensemble, num_documents: int = 400) -> NDArray[np.float32]:
    """Returns (D, F) features: float32 neighbours of thresholds, missing values, zeros, subnormal numbers,
    infinities, and ties (the second half repeats the first)."""
    nodes = [node for tree in ensemble.trees for node in nodes_of(tree.root)]
    splits = [node.threshold for node in nodes if isinstance(node, InnerNode)]
    with np.errstate(over="ignore"):
        nearest = np.unique(splits).astype(np.float32)
        around = [np.nextafter(nearest, np.float32(side)) for side in (-np.inf, np.inf)]
    special = np.array([0, 1e-45, 1e-35, 1.1e-35, 1, np.inf], dtype=np.float32)
    missing = np.full(2 + len(splits) // 8, np.nan, dtype=np.float32)
    values = np.concatenate([nearest, *around, special, -special, missing])
    half = np.random.default_rng(0).choice(values, (num_documents // 2, NUM_FEATURES))
    return np.concatenate([half, half])
