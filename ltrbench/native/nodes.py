"""Trees: the arrays of a grown tree.

A tree is a set of parallel arrays over its nodes. Node 0 is the root, and a node comes after its parent. At
an inner node, a document goes left if x <= threshold or, if x is missing, if `missing_left` is True.
`forest.scoring` computes the scores of many trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_FEATURE = -1


class Tree(NamedTuple):
    """One tree of N nodes.

    Attributes:
        feature: (N,), feature that an inner node splits on; -1 for a leaf.
        threshold: (N,), largest value that goes left.
        left: (N,), left child; for a leaf, the leaf itself.
        right: (N,), right child, likewise.
        missing_left: (N,), whether a missing value goes left.
        gain: (N,), gain of the split; 0 for a leaf.
        value: (N,), value of a leaf, before multiplication by the tree's weight; 0 for an inner node.
        num_documents: (N,), number of training documents that reached the node.
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
    """Returns the leaf that a document, (F,), reaches."""
    node = 0
    while tree.feature[node] != NO_FEATURE:
        x = document[tree.feature[node]]
        goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
        node = int(tree.left[node] if goes_left else tree.right[node])
    return node
