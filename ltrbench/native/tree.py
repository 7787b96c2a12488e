"""Trees: what growing leaves behind, and the scores that many of them give to documents.

A tree is a set of parallel arrays over its nodes; node 0 is the root. A document at an inner node goes left
if x <= threshold or, where x is missing, if `missing_left` says so. Its score is the sum of its leaves'
values in the order of the trees: the same bits in every batch, and on any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.shapes import Features

Scores = NDArray[np.float64]  # (D,), the engine's own are float64

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
        value: (N,), what a leaf adds to a score, shrunk already; 0 at an inner node.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]


class Forest(NamedTuple):
    """Trees with their nodes one after the other.

    Attributes:
        roots: (T + 1,), the first node of each tree, and the number of nodes.
        nodes: of all trees; `left` and `right` count from the first node of the first tree.
    """

    roots: NDArray[np.int64]
    nodes: Tree


def plant(trees: Sequence[Tree]) -> Forest:
    """Joins trees, at least one, into a forest."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = Tree(*(np.concatenate(arrays) for arrays in zip(*trees, strict=True)))
    shift = np.repeat(roots[:-1], sizes).astype(np.int32)
    return Forest(roots, nodes._replace(left=nodes.left + shift, right=nodes.right + shift))


def reference_scores(trees: Sequence[Tree], features: Features) -> Scores:
    """The specification: each document walks down each tree."""
    scores = np.zeros(len(features))
    for tree in trees:
        for d, document in enumerate(features):
            node = 0
            while tree.feature[node] != NO_FEATURE:
                x = document[tree.feature[node]]
                goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
                node = tree.left[node] if goes_left else tree.right[node]
            scores[d] += tree.value[node]
    return scores


def add_scores(forest: Forest, features: Features, scores: Scores) -> None:
    """Adds to each document's score what the trees give it; features (D, F) in C order."""
    # Read-only for all, so that one compilation serves a data set's arrays and a caller's own.
    features = features.view()
    features.flags.writeable = False
    _all_documents(forest.roots, forest.nodes, features, scores)


BLOCK = 64
"""Documents that walk down a tree together, while its nodes are in the nearest cache."""


@parallel_kernel
def _all_documents(roots: NDArray[np.int64], nodes: Tree, features: Features, scores: Scores) -> None:
    for block in numba.prange((len(scores) + BLOCK - 1) // BLOCK):
        documents = slice(block * BLOCK, min((block + 1) * BLOCK, len(scores)))
        for root in roots[:-1]:
            _one_tree(root, nodes, features[documents], scores[documents])


@kernel
def _one_tree(root: np.int64, nodes: Tree, features: Features, scores: Scores) -> None:
    """Takes all documents one step down, then those that are not at a leaf yet another, until none is left.

    A document waits for the value that its next step depends on; steps of different documents wait together.
    """
    node = np.full(len(scores), np.uint64(root))
    walking = np.arange(len(scores)).astype(np.uint64)
    while len(walking) > 0 and nodes.feature[root] >= 0:
        num_walking = np.uint64(0)
        for i in range(len(walking)):
            d, here = walking[i], node[walking[i]]
            x = features[d, np.uint64(nodes.feature[here])]
            goes_left = (x <= nodes.threshold[here]) | ((x != x) & nodes.missing_left[here])
            below = np.uint64(nodes.left[here] if goes_left else nodes.right[here])
            node[d] = below
            # Written in any case and kept if it walks on, so that there is no branch to guess.
            walking[num_walking] = d
            num_walking += np.uint64(nodes.feature[below] >= 0)
        walking = walking[:num_walking]
    for d in range(len(scores)):
        scores[d] += nodes.value[node[d]]
