"""Trees: what growing leaves behind.

A tree is a set of parallel arrays over its nodes; node 0 is the root, and a node stands after its parent. A
document at an inner node goes left if x <= threshold or, where x is missing, if `missing_left` says so. What
many trees give to a document is in `forest.scoring`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_FEATURE = -1


class Tree(NamedTuple):
    """One tree of N nodes.

    Attributes:
        feature: (N,), the feature that an inner node cuts; -1 at a leaf.
        threshold: (N,), the largest value that goes left.
        left: (N,), the node of those that go left; at a leaf, the leaf itself.
        right: (N,), likewise.
        missing_left: (N,), whether a missing value goes left.
        gain: (N,), what the cut gained; 0 at a leaf.
        value: (N,), a leaf's value before the tree's weight shrinks it; 0 at an inner node.
        num_documents: (N,), the documents that reached the node while the tree was learned.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]
    num_documents: NDArray[np.int64]


def reference_leaf(tree: Tree, document: NDArray[np.float32]) -> int:
    """The leaf that a document, (F,), reaches."""
    node = 0
    while tree.feature[node] != NO_FEATURE:
        x = document[tree.feature[node]]
        goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
        node = int(tree.left[node] if goes_left else tree.right[node])
    return node
