"""Scores of an `Ensemble`, in its own arithmetic.

D documents, F features, N nodes of a tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.trees import LARGEST_ZERO, Ensemble, InnerNode, Leaf, Node, nodes_of
from ltrbench.shapes import Features


class FlatTree(NamedTuple):
    """The nodes of a tree as arrays; node 0 is the root, and a node comes after its parent.

    Attributes:
        feature: (N,), feature of an inner node; -1 for a leaf.
        threshold: (N,), as in `InnerNode`; 0 for a leaf.
        left: (N,), left child; for a leaf, the leaf itself.
        right: (N,), right child, likewise.
        missing_left: (N,), whether a missing value goes left.
        zero_missing: (N,), whether 0 counts as missing.
        value: (N,), value of a leaf, before it is multiplied by the tree's weight; 0 for an inner node.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    zero_missing: NDArray[np.bool_]
    value: NDArray[np.float64]

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether a node is a leaf, (N,)."""
        is_leaf: NDArray[np.bool_] = self.feature == NO_FEATURE
        return is_leaf


def flat(root: Node) -> FlatTree:
    """Returns the nodes of a tree as arrays, each before its children, and left before right.

    >>> flat(InnerNode(3, 0.5, True, left=Leaf(-1.0), right=Leaf(2.0))).value
    array([ 0., -1.,  2.])
    """
    nodes = nodes_of(root)
    tree = FlatTree(
        feature=np.full(len(nodes), NO_FEATURE, dtype=np.int64),
        threshold=np.zeros(len(nodes)),
        left=np.arange(len(nodes)),
        right=np.arange(len(nodes)),
        missing_left=np.zeros(len(nodes), dtype=np.bool_),
        zero_missing=np.zeros(len(nodes), dtype=np.bool_),
        value=np.zeros(len(nodes)),
    )
    parents: list[int] = []  # whose right child is still to come
    for number, node in enumerate(nodes):
        if number and isinstance(nodes[number - 1], InnerNode):
            tree.left[number - 1] = number
        elif number:
            tree.right[parents.pop()] = number
        if isinstance(node, Leaf):
            tree.value[number] = node.value
            continue
        parents.append(number)
        tree.feature[number], tree.threshold[number] = node.feature, node.threshold
        tree.missing_left[number], tree.zero_missing[number] = node.missing_left, node.zero_missing
    return tree


def leaves_of(
    tree: FlatTree, features: Features, comparison: str = "<=", threshold_dtype: str = "float32"
) -> NDArray[np.int64]:
    """Returns the (D,) leaf nodes that documents reach.

    Args:
        features: (D, F); NaN is a missing value.
        comparison: "<=" or "<".
        threshold_dtype: dtype in which values are compared with thresholds.
    """
    goes_left = np.less_equal if comparison == "<=" else np.less
    threshold = tree.threshold.astype(threshold_dtype)
    node = np.zeros(len(features), dtype=np.int64)
    rows = np.flatnonzero(~tree.is_leaf[node])
    while len(rows):
        here = node[rows]
        x = features[rows, tree.feature[here]]
        is_missing = np.isnan(x) | (tree.zero_missing[here] & (np.abs(x) <= LARGEST_ZERO))
        left = np.where(is_missing, tree.missing_left[here], goes_left(x, threshold[here]))
        node[rows] = np.where(left, tree.left[here], tree.right[here])
        rows = rows[~tree.is_leaf[node[rows]]]
    return node


def weighted_values(tree: FlatTree, weight: float, score_dtype: str) -> NDArray[np.floating[Any]]:
    """Returns the (N,) numbers that leaves add to the score: the values times the tree's weight, in its
    dtype."""
    dtype = np.dtype(score_dtype)
    values: NDArray[np.floating[Any]] = tree.value.astype(dtype) * dtype.type(weight)
    return values


def float32_thresholds(thresholds: NDArray[np.floating[Any]], comparison: str) -> NDArray[np.float32]:
    """Returns the (N,) largest float32 that go left: splits `<=` of float32 values, for either comparison.

    >>> below = float32_thresholds(np.array([0.5]), "<")
    >>> bool(below[0] < 0.5), bool(np.nextafter(below, np.float32(1))[0] == 0.5)
    (True, True)
    """
    with np.errstate(over="ignore", under="ignore"):
        largest = np.nextafter(thresholds, -np.inf) if comparison == "<" else thresholds
        rounded = largest.astype(np.float32)
        return np.where(rounded > largest, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def ensemble_scores(ensemble: Ensemble, features: Features) -> NDArray[np.floating[Any]]:
    """Returns the (D,) scores of (D, F) features: the specification of what an ensemble means."""
    dtype = np.dtype(ensemble.score_dtype)
    scores = np.full(len(features), ensemble.base_score, dtype=dtype)
    for weighted in ensemble.trees:
        tree = flat(weighted.root)
        values = weighted_values(tree, weighted.weight, ensemble.score_dtype)
        scores += values[leaves_of(tree, features, ensemble.comparison, ensemble.threshold_dtype)]
    return scores
