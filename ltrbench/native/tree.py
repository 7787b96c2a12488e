"""Trees: what growing leaves behind, and the scores that many of them give to documents.

A tree is a set of parallel arrays over its nodes; node 0 is the root. A document at an inner node goes left
if x <= threshold or, where x is missing, if `missing_left` says so. With leaf_t(x) the value of the leaf
that x reaches in tree t, its score is

    sum over t of weight_t leaf_t(x)

in the order of the trees: the same bits in every batch, and on any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
        value: (N,), a leaf's value before the tree's weight shrinks it; 0 at an inner node.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]


class Forest(NamedTuple):
    """Trees, at least one, with their nodes one after the other.

    Attributes:
        roots: (T + 1,), the first node of each tree, and the number of nodes.
        nodes: of all trees; `left` and `right` count from the first node of the first tree.
        weights: (T,), what a tree's values are multiplied by: the learning rate, unless trees are weighed
            one by one.
    """

    roots: NDArray[np.int64]
    nodes: Tree
    weights: NDArray[np.float64]

    @property
    def num_trees(self) -> int:
        return len(self.weights)

    def first(self, num_trees: int) -> Forest:
        """The first so many trees."""
        end = self.roots[num_trees]
        nodes = Tree._make(array[:end] for array in self.nodes)
        return Forest(self.roots[: num_trees + 1], nodes, self.weights[:num_trees])

    def trees(self) -> list[Tree]:
        """What was planted."""
        parts = [Tree._make(array[first:end] for array in self.nodes) for first, end in pairwise(self.roots)]
        return [
            tree._replace(left=tree.left - np.int32(root), right=tree.right - np.int32(root))
            for tree, root in zip(parts, self.roots[:-1], strict=True)
        ]


def plant(trees: Sequence[Tree], weights: Sequence[float] | NDArray[np.float64]) -> Forest:
    """Joins trees, at least one, into a forest."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = Tree(*(np.concatenate(arrays) for arrays in zip(*trees, strict=True)))
    shift = np.repeat(roots[:-1], sizes).astype(np.int32)
    nodes = nodes._replace(left=nodes.left + shift, right=nodes.right + shift)
    return Forest(roots, nodes, np.array(weights, dtype=np.float64))


def reference_scores(forest: Forest, features: Features) -> Scores:
    """The specification: each document walks down each tree."""
    scores = np.zeros(len(features))
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        for d, document in enumerate(features):
            node = 0
            while tree.feature[node] != NO_FEATURE:
                x = document[tree.feature[node]]
                goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
                node = tree.left[node] if goes_left else tree.right[node]
            scores[d] += weight * tree.value[node]
    return scores


def add_scores(forest: Forest, features: Features, scores: Scores) -> None:
    """Adds to each document's score what the trees give it; features (D, F) in C order."""
    # Read-only for all, so that one compilation serves a data set's arrays and a caller's own.
    features = features.view()
    features.flags.writeable = False
    _all_documents(forest.roots, forest.nodes, forest.weights, features, scores)


BLOCK = 64
"""Documents that walk down a tree together, while its nodes are in the nearest cache."""


@parallel_kernel
def _all_documents(
    roots: NDArray[np.int64], nodes: Tree, weights: NDArray[np.float64], features: Features, scores: Scores
) -> None:
    for block in numba.prange((len(scores) + BLOCK - 1) // BLOCK):
        documents = slice(block * BLOCK, min((block + 1) * BLOCK, len(scores)))
        for t in range(len(weights)):
            _one_tree(roots[t], nodes, weights[t], features[documents], scores[documents])


@kernel
def _one_tree(root: np.int64, nodes: Tree, weight: float, features: Features, scores: Scores) -> None:
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
        scores[d] += weight * nodes.value[node[d]]
