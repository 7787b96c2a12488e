"""Native LambdaMART, written to be read; `python -m ltrbench walkthrough` shows it on ten documents.

Start with the reference: the algorithm with its default settings on one page of NumPy, independent of all
other files. A test requires that the engine grows the same trees.

    reference      bins, lambdas, splits, trees, boosting, prediction

For the engine itself start at the loop in `boosting` and follow its calls. The core has about 1,200 lines of
code without docstrings and comments. Each file imports only from files above it:

    objectives/lambdas  gradients and hessians of NDCG
    bins                feature values to small integers; the documents of a leaf moved to its children
    histogram           sums of gradients and hessians per bin, which do not depend on the order of documents
    splitting           the best split of a leaf
    growing             growing one tree
    boosting            the loop over trees, samples of queries and documents, DART

Objectives and the growth of trees do not import each other. Other files:

    objectives     gradients and hessians of every objective, in the dialect of every library
    sparse         bins of sparse features; exclusive feature bundling
    forest         scores of many trees
    attribution    TreeSHAP
    team           the members of a fit, among which the queries are divided

A file with a compiled loop contains, in this order, the formula, the plain NumPy reference, the public
function and the loop. A test compares reference and loop. Stored results have the same bits on any number of
threads: threads only compute independent outputs. Sums over the documents of several queries are sums of
integers, so that they do not depend on the order of queries; sums over a query have a fixed order.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# ---- Trees: the arrays of a grown tree.

NO_FEATURE = -1


class Tree(NamedTuple):
    """One tree of N nodes.

    Attributes:
        feature: (N,), feature that an inner node splits on; -1 for a leaf.
        threshold: (N,), largest value that goes left; NaN for a split on a categorical feature.
        left: (N,), left child; for a leaf, the leaf itself.
        right: (N,), right child, likewise.
        missing_left: (N,), whether a missing value goes left.
        gain: (N,), gain of the split; 0 for a leaf.
        value: (N,), value of a leaf, before multiplication by the tree's weight; 0 for an inner node.
        num_documents: (N,), number of training documents that reached the node.
        left_categories: (N, S), codes of the categories that go left, padded with NaN; all other values of a
            categorical feature go right, as do missing ones.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]
    num_documents: NDArray[np.int64]
    left_categories: NDArray[np.float32]


def reference_leaf(tree: Tree, document: NDArray[np.float32]) -> int:
    """Returns the leaf that a document, (F,), reaches."""
    node = 0
    while tree.feature[node] != NO_FEATURE:
        is_left = goes_left(tree, node, document[tree.feature[node]])
        node = int(tree.left[node] if is_left else tree.right[node])
    return node


def goes_left(tree: Tree, node: int, x: np.float32) -> bool:
    """Returns whether the value of the feature that a node splits on goes left."""
    if np.isnan(tree.threshold[node]):
        return bool((tree.left_categories[node] == x).any())
    if np.isnan(x):
        return bool(tree.missing_left[node])
    return bool(x <= tree.threshold[node])
