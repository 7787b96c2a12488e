"""Two rankers side by side: the same bins for both, and their trees node for node.

Libraries bin features each in their own way, and other bins are other trees. Both rankers are therefore given
the numbers of native's bins as features: at most 255 whole numbers a feature, which every library bins one by
one. What then differs is the algorithm.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.native.tree.binning import COLUMN_BINS, bin_features, reference_bins
from ltrbench.rankers.models.trees import Leaf, Node, WeightedTree


def in_bins(train: RankingDataset, *others: RankingDataset) -> list[RankingDataset]:
    """All the data sets with the numbers of the bins that native makes of train as features."""
    binned = bin_features(train.features, COLUMN_BINS, np.random.default_rng(0))
    return [
        replace(data, features=np.ascontiguousarray(reference_bins(data.features, binned).T, np.float32))
        for data in (train, *others)
    ]


def cuts_apart(one: Node, other: Node) -> int:
    """The nodes at which two trees on bins stop to be the same: one is a leaf, or another bin is cut."""
    if isinstance(one, Leaf) or isinstance(other, Leaf):
        return int(type(one) is not type(other))
    # Between two bins every threshold is the same cut.
    if (one.feature, math.floor(one.threshold)) != (other.feature, math.floor(other.threshold)):
        return 1
    return cuts_apart(one.left, other.left) + cuts_apart(one.right, other.right)


def leaves_apart(one: Node, other: Node) -> float:
    """The largest difference of two leaves' values, before shrinkage; infinite where the cuts differ."""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return abs(one.value - other.value)
    if isinstance(one, Leaf) or isinstance(other, Leaf) or cuts_apart(one, other):
        return math.inf
    return max(leaves_apart(one.left, other.left), leaves_apart(one.right, other.right))


def num_cuts(node: Node) -> int:
    """The inner nodes of a tree."""
    return 0 if isinstance(node, Leaf) else 1 + num_cuts(node.left) + num_cuts(node.right)


def trees_alike(first: tuple[WeightedTree, ...], second: tuple[WeightedTree, ...]) -> int:
    """Number of trees of two models that are cut alike, up to the first that is not."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if cuts_apart(one.root, other.root):
            return number
    return len(first)
