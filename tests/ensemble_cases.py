"""Trees of every backend and of every convention, with features that reach their special cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tree_cases import grown

from ltrbench.models.trees import flat, with_splits
from ltrbench.rankers import Ensemble, InnerNode, WeightedTree
from ltrbench.shapes import Features

LARGEST = float(np.finfo(np.float32).max)


def around_thresholds(ensemble: Ensemble, num_features: int) -> Features:
    """Returns features whose values are thresholds, their float32 neighbours, and special values."""
    thresholds = [flat(tree.root).threshold for tree in ensemble.trees]
    with np.errstate(over="ignore"):
        values = np.unique(np.concatenate(thresholds)).astype(np.float32)
        below, above = (
            np.nextafter(values, np.float32(-np.inf)),
            np.nextafter(values, np.float32(np.inf)),
        )
    special = [0, -0.0, 1, -1, 1e-45, -1e-45, 1e-35, -1e-35, 1.7e12, np.nan]
    every = np.concatenate([values, below, above, np.array(special, dtype=np.float32)])
    rng = np.random.default_rng(1)
    return np.stack(
        [
            rng.permutation(np.clip(every, -LARGEST, LARGEST))
            for _ in range(num_features)
        ],
        axis=1,
    )


def random_ensemble(
    num_trees: int = 20,
    comparison: str = "<=",
    dtype: str = "float64",
    num_leaves: int = 8,
) -> Ensemble:
    """Returns random trees on three features, of which the third is never used, with weights."""
    rng, number = np.random.default_rng(2), np.dtype(dtype).type
    weights = [float(number(rng.random())) for _ in range(num_trees)]
    roots = [
        grown(rng, num_leaves, lambda: float(number(rng.normal())), 2) for _ in weights
    ]
    trees = tuple(map(WeightedTree, weights, roots))
    return Ensemble(trees, 0.25, comparison, dtype, dtype)  # type: ignore[arg-type]


def ensemble_for_java(
    comparison: str = "<=", dtype: str = "float32", scale: float = 1.0
) -> Ensemble:
    """Returns trees of float32 numbers in which a missing value goes where 0 goes.

    Args:
        scale: standard deviation of the thresholds.
    """

    def scaled(node: InnerNode) -> InnerNode:
        threshold = float(np.float32(scale * node.threshold))
        return replace(node, threshold=threshold, missing_left=node.threshold > 0)

    ensemble = random_ensemble(comparison=comparison, dtype=dtype)
    return with_splits(ensemble, scaled)


def without_missing(features: Features) -> Features:
    """Returns the features with 0 for missing values, as the engines in Java read them."""
    return np.where(np.isnan(features), np.float32(0), features)
