"""Comparison of two rankers with common bins, node by node.

Each library bins features differently, and different bins give different trees. Both rankers therefore get
the
bin indices of native as features: at most 255 whole numbers per feature, each of which every library puts in
its own bin. The remaining differences are differences of the algorithms.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.native.tree.binning import COLUMN_BINS, bin_features, reference_bins
from ltrbench.rankers.models.trees import Leaf, Node, WeightedTree


def in_bins(train: RankingDataset, *others: RankingDataset) -> list[RankingDataset]:
    """Returns the data sets with native's bin indices, fitted on train, as features."""
    binned = bin_features(train.features, COLUMN_BINS, np.random.default_rng(0))
    return [
        replace(data, features=np.ascontiguousarray(reference_bins(data.features, binned).T, np.float32))
        for data in (train, *others)
    ]


def cuts_apart(one: Node, other: Node) -> int:
    """Returns the number of nodes at which two trees on bins start to differ: another split, or a leaf."""
    if isinstance(one, Leaf) or isinstance(other, Leaf):
        return int(type(one) is not type(other))
    # All thresholds between two bins are the same split.
    if (one.feature, math.floor(one.threshold)) != (other.feature, math.floor(other.threshold)):
        return 1
    return cuts_apart(one.left, other.left) + cuts_apart(one.right, other.right)


def leaves_apart(one: Node, other: Node) -> float:
    """Returns the largest difference of leaf values, before shrinkage; infinite if the splits differ."""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return abs(one.value - other.value)
    if isinstance(one, Leaf) or isinstance(other, Leaf) or cuts_apart(one, other):
        return math.inf
    return max(leaves_apart(one.left, other.left), leaves_apart(one.right, other.right))


def num_cuts(node: Node) -> int:
    """Returns the number of inner nodes of a tree."""
    return 0 if isinstance(node, Leaf) else 1 + num_cuts(node.left) + num_cuts(node.right)


def trees_alike(first: tuple[WeightedTree, ...], second: tuple[WeightedTree, ...]) -> int:
    """Returns the number of leading trees of two models with identical splits."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if cuts_apart(one.root, other.root):
            return number
    return len(first)
