"""Trees of every convention, and features at their thresholds, for engines in Java."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ltrbench.models.trees import Node, flat
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shapes import Features


def without_missing(features: Features) -> Features:
    """Returns the features with 0 for missing values, as the engines read them."""
    return np.where(np.isnan(features), np.float32(0), features)


def deep(depth: int) -> Node:
    """Returns a tree whose left branch has `depth` splits, with another leaf value for each level."""
    root: Node = Leaf(-1.0)
    for level in range(depth):
        root = InnerNode(level % 3, float(level), True, left=root, right=Leaf(float(level)))
    return root


def around_thresholds(ensemble: Ensemble, num_features: int) -> Features:
    """Returns features whose values are every threshold and its float32 neighbours, and special values."""
    every = np.unique(np.concatenate([flat(tree.root).threshold for tree in ensemble.trees]))
    with np.errstate(over="ignore"):
        values = every.astype(np.float32)
        below, above = np.nextafter(values, np.float32(-np.inf)), np.nextafter(values, np.float32(np.inf))
    special = [0, -0.0, 1, -1, 1e-45, -1e-45, 1e-35, -1e-35, 3e38, -3e38, 1.7e12, np.inf, -np.inf]
    candidates = np.concatenate([values, below, above, np.array(special, dtype=np.float32)])
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(candidates) for _ in range(num_features)], axis=1)


def random_tree(rng: np.random.Generator, num_leaves: int, num_features: int, scale: float) -> Node:
    """Returns a tree with random splits, in which a missing value goes where 0 goes."""
    nodes: list[Node] = [Leaf(float(np.float32(value))) for value in rng.normal(size=num_leaves)]
    while len(nodes) > 1:
        place = int(rng.integers(len(nodes) - 1))
        threshold = float(np.float32(rng.normal() * scale))
        feature = int(rng.integers(num_features))
        left, right = nodes[place : place + 2]
        nodes[place : place + 2] = [InnerNode(feature, threshold, threshold > 0, left, right)]
    return nodes[0]


def random_ensemble(
    num_trees: int = 20,
    comparison: Literal["<=", "<"] = "<=",
    dtype: Literal["float32", "float64"] = "float32",
    num_leaves: int = 8,
    scale: float = 1.0,
) -> Ensemble:
    """Returns random trees on two of three features, with weights, and float32 thresholds and values.

    Args:
        scale: standard deviation of the thresholds.
    """
    rng = np.random.default_rng(2)
    return Ensemble(
        tuple(
            WeightedTree(float(np.float32(rng.random())), random_tree(rng, num_leaves, 2, scale))
            for _ in range(num_trees)
        ),
        base_score=0.25,
        comparison=comparison,
        threshold_dtype=dtype,
        score_dtype=dtype,
    )
