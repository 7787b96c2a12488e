"""Forests: sequences of weighted trees, and the scores of documents.

Let leaf_t(x) be the value of the leaf that document x reaches in tree t. The score of x is

    sum over t of weight_t leaf_t(x)

added in the order of the trees: it has the same bits in every batch and on any number of threads.

For speed, 64 documents are routed through a tree together. For each node, a 64-bit word contains one bit per
document: whether the document reaches the node. All documents reach the root. A split compares the feature
values of all 64 documents with the threshold. Let `right` be the word of the documents that go right:

    reached[left child] = reached[node] & ~right,   reached[right child] = reached[node] & right.

This evaluates every split of a tree, whereas a single document only needs the splits on its path. But it has
no unpredictable branches, no step waits for the previous step of the same document, and 8 or 16 values are
compared at once. QuickScorer also uses bitmasks, with one bit per leaf instead of one per document (Lucchese
et al., 2015, "QuickScorer: A Fast Algorithm to Rank Documents with Additive Ensembles of Regression Trees").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.forest.bits import NUM_BITS, above, lowest
from ltrbench.native.tree.nodes import NO_FEATURE, Tree, reference_leaf
from ltrbench.shapes import Features, Values


@dataclass(frozen=True, eq=False)
class Forest:
    """One or more trees, with the nodes of all trees in one set of arrays.

    Attributes:
        roots: (T + 1,), index of the root of each tree, followed by the total number of nodes.
        nodes: nodes of all trees; `left` and `right` are indices into the joint arrays.
        weights: (T,), factor of each tree's values: the learning rate, unless DART rescales trees.
    """

    roots: NDArray[np.int64]
    nodes: Tree
    weights: NDArray[np.float64]

    @property
    def num_trees(self) -> int:
        return len(self.weights)

    @cached_property
    def packed(self) -> PackedForest:
        """The forest in the layout that the scoring kernel reads."""
        return _pack(self)

    def first(self, num_trees: int) -> Forest:
        """Returns a forest of the first `num_trees` trees."""
        end = self.roots[num_trees]
        nodes = Tree._make(array[:end] for array in self.nodes)
        return Forest(self.roots[: num_trees + 1], nodes, self.weights[:num_trees])

    def trees(self) -> list[Tree]:
        """Returns the trees as separate arrays, the inverse of `plant`."""
        parts = [Tree._make(array[first:end] for array in self.nodes) for first, end in pairwise(self.roots)]
        return [
            tree._replace(left=tree.left - np.int32(root), right=tree.right - np.int32(root))
            for tree, root in zip(parts, self.roots[:-1], strict=True)
        ]


def plant(trees: Sequence[Tree], weights: Sequence[float] | NDArray[np.float64]) -> Forest:
    """Joins one or more trees into a forest."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = Tree(*(np.concatenate(arrays) for arrays in zip(*trees, strict=True)))
    shift = np.repeat(roots[:-1], sizes).astype(np.int32)
    nodes = nodes._replace(left=nodes.left + shift, right=nodes.right + shift)
    return Forest(roots, nodes, np.array(weights, dtype=np.float64))


def reference_scores(forest: Forest, features: Features) -> Values:
    """Specification: routes each document through each tree. Returns the (D,) scores."""
    scores = np.zeros(len(features))
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        for d, document in enumerate(features):
            scores[d] += weight * tree.value[reference_leaf(tree, document)]
    return scores


def add_scores(forest: Forest, features: Features, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place; features are (D, F) in C order."""
    # Always read-only, so that one compilation serves read-only and writable arrays.
    features = features.view()
    features.flags.writeable = False
    _all_blocks(forest.packed, features, scores)


ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""The word of all 64 documents of a block; document d is bit d."""


class PackedForest(NamedTuple):
    """T trees with I splits and L = I + T leaves for the kernel; in each tree, splits come before leaves.

    Attributes:
        features: (C,), features that at least one tree splits on, ascending.
        first_cut: (T + 1,), index of each tree's first split, followed by I.
        most_cuts: maximum number of splits of a tree.
        column: (I,), index in `features` of the feature of a split.
        threshold: (I,), largest value that goes left.
        missing_right: (I,), the word ALL if missing values go right, 0 if they go left.
        left: (I,), left child, as an index within the tree; a child comes after its parent.
        right: (I,), right child, likewise.
        value: (L,), leaf value times the weight of the tree.
    """

    features: NDArray[np.uint32]
    first_cut: NDArray[np.uint64]
    most_cuts: int
    column: NDArray[np.uint32]
    threshold: NDArray[np.float32]
    missing_right: NDArray[np.uint64]
    left: NDArray[np.uint32]
    right: NDArray[np.uint32]
    value: NDArray[np.float64]


def _pack(forest: Forest) -> PackedForest:
    """Converts a forest to the layout that the scoring kernel reads."""
    nodes, is_cut = forest.nodes, forest.nodes.feature != NO_FEATURE
    tree = np.repeat(np.arange(forest.num_trees), np.diff(forest.roots))
    first_cut = np.concatenate([[0], np.cumsum(is_cut)])[forest.roots]
    first_leaf = forest.roots - first_cut
    cut = np.cumsum(is_cut) - 1 - first_cut[tree]
    leaf = np.cumsum(~is_cut) - 1 - first_leaf[tree]
    number = np.where(is_cut, cut, np.diff(first_cut)[tree] + leaf).astype(np.uint32)
    features, column = np.unique(nodes.feature[is_cut], return_inverse=True)
    return PackedForest(
        features=features.astype(np.uint32),
        first_cut=first_cut.astype(np.uint64),
        most_cuts=int(np.diff(first_cut).max()),
        column=column.astype(np.uint32),
        threshold=nodes.threshold[is_cut],
        missing_right=np.where(nodes.missing_left[is_cut], np.uint64(0), ALL),
        left=number[nodes.left[is_cut]],
        right=number[nodes.right[is_cut]],
        value=(forest.weights[tree] * nodes.value)[~is_cut],
    )


@parallel_kernel
def _all_blocks(forest: PackedForest, features: Features, scores: Values) -> None:
    for block in numba.prange((len(scores) + NUM_BITS - 1) // NUM_BITS):
        documents = slice(block * NUM_BITS, min((block + 1) * NUM_BITS, len(scores)))
        _one_block(forest, features[documents], scores[documents])


@kernel
def _one_block(forest: PackedForest, features: Features, scores: Values) -> None:
    columns, missing = columns_of_block(forest.features, features)
    add_trees(forest, columns, missing, scores)


@kernel
def add_trees(forest: PackedForest, columns: Features, missing: NDArray[np.uint64], scores: Values) -> None:
    """Adds the values of all trees to the scores of a block of at most 64 documents.

    Args:
        forest: the trees.
        columns: (C, 64), values of the features in `forest.features`.
        missing: (C,), word of the missing values of each of these features.
        scores: (n,), scores of the documents.
    """
    reached = np.empty(2 * forest.most_cuts + 1, dtype=np.uint64)
    right = np.empty(forest.most_cuts, dtype=np.uint64)
    for t in range(len(forest.first_cut) - 1):
        route(forest, t, columns, missing, len(scores), reached, right)
        # Every earlier tree has one more leaf than splits.
        num_cuts = forest.first_cut[t + 1] - forest.first_cut[t]
        first_leaf = forest.first_cut[t] + np.uint64(t)
        for i in range(num_cuts + np.uint64(1)):
            leaf = np.uint64(i)
            _add(forest.value[first_leaf + leaf], reached[num_cuts + leaf], scores)


@inlined_kernel
def route(
    forest: PackedForest,
    t: int,
    columns: Features,
    missing: NDArray[np.uint64],
    num_documents: int,
    reached: NDArray[np.uint64],
    right: NDArray[np.uint64],
) -> None:
    """Routes a block of documents through tree t.

    Args:
        columns: (C, 64), as in `add_trees`.
        missing: (C,), likewise.
        num_documents: number of documents, at most 64.
        reached: (2 most_cuts + 1,), becomes the word of the documents that reach each split and leaf.
        right: (most_cuts,), becomes the word of the documents that each split sends to the right.
    """
    first, end = forest.first_cut[t], forest.first_cut[t + 1]
    reached[0] = ALL >> np.uint64(NUM_BITS - num_documents)
    for i in range(first, end):
        cut = np.uint64(i)
        here, column = reached[cut - first], np.uint64(forest.column[cut])
        goes_right = above(columns[column], forest.threshold[cut])
        goes_right |= missing[column] & forest.missing_right[cut]
        reached[np.uint64(forest.left[cut])] = here & ~goes_right
        reached[np.uint64(forest.right[cut])] = here & goes_right
        right[cut - first] = goes_right


@inlined_kernel
def columns_of_block(used: NDArray[np.uint32], features: Features) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the used features of a block, (C, 64), and for each the word of its missing values, (C,)."""
    columns = np.empty((len(used), NUM_BITS), dtype=np.float32)
    missing = np.zeros(len(used), dtype=np.uint64)
    for i in range(len(features)):
        d = np.uint64(i)
        for j in range(len(used)):
            c = np.uint64(j)
            x = features[d, np.uint64(used[c])]
            columns[c, d] = x
            missing[c] |= np.uint64(x != x) << d
    return columns, missing


@inlined_kernel
def _add(value: np.float64, reached: np.uint64, scores: Values) -> None:
    """Adds a leaf's value to the scores of the documents that reached the leaf."""
    while reached != 0:
        scores[lowest(reached)] += value
        reached &= reached - np.uint64(1)  # clears the lowest bit
