"""Growing one tree: cut one open leaf after another, in the order of `growth`, up to num_leaves leaves.

The documents of a leaf stand together in one array of row numbers, in rising order; cutting the leaf moves
those that go left to the front of its part. Of the two new leaves the histogram of the smaller is built, and
the larger's is parent minus smaller.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.native.binning import BinnedFeatures
from ltrbench.native.growth import OpenLeaf, Order, best_first
from ltrbench.native.histogram import (
    Histogram,
    Quantised,
    Rows,
    bin_starts,
    build_and_subtract,
    build_histogram,
)
from ltrbench.native.splitting import (
    UNBOUNDED,
    Bounds,
    Leaf,
    PrepareSearch,
    Split,
    SplitSettings,
    may_be_cut,
    prepare_search,
)
from ltrbench.native.tree import NO_FEATURE, Tree


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree without values yet, and the documents in its leaves.

    Attributes:
        tree: its structure; all values are 0.
        rows: (n,), the documents, those of a leaf together and rising.
        leaf_start: (L + 1,), where each leaf's documents begin in `rows`.
        leaf_node: (L,), each leaf's node.
        leaf_bounds: (L, 2), the least and the largest step that a leaf may take.
    """

    tree: Tree
    rows: Rows
    leaf_start: NDArray[np.int64]
    leaf_node: NDArray[np.int64]
    leaf_bounds: NDArray[np.float64]


FeatureDraw = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""(F,) whether a tree may use a feature -> (F,) whether a leaf of it may be cut by it."""


def _all_of_the_trees(features: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return features


class Grower:
    """Grows trees on one binned data set, and keeps the memory for it from tree to tree."""

    def __init__(
        self,
        binned: BinnedFeatures,
        num_leaves: int,
        settings: SplitSettings,
        order: Order = best_first,
        search: PrepareSearch = prepare_search,
    ) -> None:
        self.binned = binned
        self.num_leaves = num_leaves
        self.settings = settings
        self.order = order
        self.search = search
        self.bin_start = bin_starts(binned)
        self.histograms = np.empty((num_leaves, int(self.bin_start[-1])), dtype=np.int64)
        self.scratch = np.empty(binned.num_documents, dtype=np.uint32)

    def grow(
        self,
        quantised: Quantised,
        rows: Rows,
        features: NDArray[np.bool_],
        features_of_leaf: FeatureDraw = _all_of_the_trees,
    ) -> GrownTree:
        """Grows a tree.

        Args:
            quantised: the gradients and hessians.
            rows: (n,), the documents to learn from, rising; they are put in the order of leaves.
            features: (F,), whether a feature may be used.
            features_of_leaf: which of these a leaf may be cut by; asked once for each.
        """
        growth = _Growth(self, quantised, _Nodes(rows), features, features_of_leaf)
        growth.open_root()
        while growth.open_leaves and growth.nodes.num_leaves < self.num_leaves:
            growth.cut_next()
        return growth.nodes.grown(self.binned)


class _Growth:
    """One tree while it grows: its nodes, its open leaves in the order of cutting, and unused histograms."""

    def __init__(
        self,
        grower: Grower,
        quantised: Quantised,
        nodes: _Nodes,
        features: NDArray[np.bool_],
        features_of_leaf: FeatureDraw,
    ) -> None:
        self.grower = grower
        self.quantised = quantised
        self.nodes = nodes
        self.features = features
        self.features_of_leaf = features_of_leaf
        self.columns = features[grower.binned.feature_of_column]
        self.find_splits = grower.search(grower.binned, grower.bin_start, quantised, grower.settings)
        self.unused = list(grower.histograms)
        self.open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

    def open_root(self) -> None:
        if self.may_cut(0):
            grower, histogram = self.grower, self.unused.pop()
            build_histogram(
                grower.binned, grower.bin_start, self.nodes.rows, self.quantised.packed, histogram
            )
            self.open([(0, histogram)])

    def cut_next(self) -> None:
        """Cuts the first of the open leaves, and opens those of the two new ones that may be cut."""
        grower, nodes = self.grower, self.nodes
        _, leaf, histogram = heapq.heappop(self.open_leaves)
        smaller, larger = nodes.cut(leaf, self.partition(leaf))
        candidates = [node for node in (smaller, larger) if self.may_cut(node)]
        histograms = {larger: histogram}
        if candidates and nodes.num_leaves < grower.num_leaves:
            histograms[smaller] = self.unused.pop()
            build_and_subtract(
                grower.binned,
                grower.bin_start,
                nodes.rows_of(smaller),
                self.quantised.packed,
                histograms[smaller],
                histogram,
            )
            self.open([(node, histograms.pop(node)) for node in candidates])
        self.unused.extend(histograms.values())

    def open(self, candidates: Sequence[tuple[int, Histogram]]) -> None:
        """Searches one or two leaves for their best cuts; one without a cut stays a leaf."""
        leaves = [
            Leaf(histogram, self.nodes.rows_of(node), self.columns_of_leaf(), self.nodes.parts[node].bounds)
            for node, histogram in candidates
        ]
        splits = self.find_splits(leaves)
        for (node, histogram), leaf, split in zip(candidates, leaves, splits, strict=True):
            if split is None:
                self.unused.append(histogram)
            else:
                open_leaf = OpenLeaf(node, leaf.rows, split)
                key = self.grower.order(open_leaf, self.quantised)
                heapq.heappush(self.open_leaves, (key, open_leaf, histogram))

    def may_cut(self, node: int) -> bool:
        rows, depth = self.nodes.rows_of(node), self.nodes.parts[node].depth
        return may_be_cut(self.grower.settings, self.quantised, rows, depth)

    def columns_of_leaf(self) -> NDArray[np.bool_]:
        drawn = self.features_of_leaf(self.features)
        return self.columns if drawn is self.features else drawn[self.grower.binned.feature_of_column]

    def partition(self, leaf: OpenLeaf) -> int:
        _, column, last_bin, missing_left, *_ = leaf.split
        words, num_bins = self.grower.binned.words, self.grower.binned.num_bins
        scratch = self.grower.scratch
        return _partition(words, num_bins, column, last_bin, missing_left, leaf.rows, scratch)


class _Part(NamedTuple):
    """A node's part of the rows, first, ..., end - 1; its cuts above; and the bounds of its step."""

    first: int
    end: int
    depth: int
    bounds: Bounds


class _Nodes:
    """The tree under construction: a part for each node, and the cuts as they were made, each with its node.

    Nodes are numbered as they are made: cut number i makes the nodes 2 i + 1 and 2 i + 2.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.parts = [_Part(0, len(rows), 0, UNBOUNDED)]
        self.cuts: list[tuple[int, Split]] = []

    @property
    def num_leaves(self) -> int:
        return len(self.cuts) + 1

    def rows_of(self, node: int) -> Rows:
        first, end, *_ = self.parts[node]
        return self.rows[first:end]

    def cut(self, leaf: OpenLeaf, num_left: int) -> tuple[int, int]:
        """Turns a leaf into an inner node with two leaves below; returns these, the smaller first."""
        node, rows, split = leaf
        first, end, depth, _ = self.parts[node]
        middle = first + num_left
        self.cuts.append((node, split))
        self.parts.append(_Part(first, middle, depth + 1, split.left_bounds))
        self.parts.append(_Part(middle, end, depth + 1, split.right_bounds))
        right = len(self.parts) - 1
        return (right - 1, right) if 2 * num_left <= len(rows) else (right, right - 1)

    def grown(self, binned: BinnedFeatures) -> GrownTree:
        first, end = np.array([part[:2] for part in self.parts]).T
        tree = _tree(self.cuts, end - first, binned)
        leaves = np.flatnonzero(tree.feature == NO_FEATURE)
        leaves = leaves[np.argsort(first[leaves])]
        leaf_start = np.append(first[leaves], len(self.rows))
        bounds = np.array([self.parts[leaf].bounds for leaf in leaves])
        return GrownTree(tree, self.rows, leaf_start, leaves, bounds)


def _tree(
    cuts: Sequence[tuple[int, Split]], num_documents: NDArray[np.int64], binned: BinnedFeatures
) -> Tree:
    """The tree of these cuts, numbered as in `_Nodes`, and the (N,) documents of its nodes."""
    num_nodes = len(num_documents)
    tree = Tree(
        feature=np.full(num_nodes, NO_FEATURE, dtype=np.int32),
        threshold=np.zeros(num_nodes, dtype=np.float32),
        left=np.arange(num_nodes, dtype=np.int32),
        right=np.arange(num_nodes, dtype=np.int32),
        missing_left=np.zeros(num_nodes, dtype=np.bool_),
        gain=np.zeros(num_nodes),
        value=np.zeros(num_nodes),
        num_documents=num_documents,
    )
    nodes = [node for node, _ in cuts]
    columns = [split.column for _, split in cuts]
    tree.feature[nodes] = binned.feature_of_column[columns]
    tree.threshold[nodes] = binned.thresholds[columns, [split.bin for _, split in cuts]]
    tree.left[nodes] = np.arange(1, num_nodes, 2)
    tree.right[nodes] = np.arange(2, num_nodes, 2)
    tree.missing_left[nodes] = [split.missing_left for _, split in cuts]
    tree.gain[nodes] = [split.gain for _, split in cuts]
    return tree


@kernel
def _partition(
    words: NDArray[np.uint64],
    num_bins: NDArray[np.int64],
    column: int,
    last_bin: int,
    missing_left: bool,
    rows: Rows,
    scratch: Rows,
) -> int:
    """Moves the documents that go left to the front, all in their order; returns how many they are."""
    words_of_column, shift = words[column // 8], np.uint64(8 * (column % 8))
    last, missing_bin = np.uint64(last_bin), np.uint64(num_bins[column] - 1)
    num_left, num_right = np.uint64(0), np.uint64(0)
    for i in range(len(rows)):
        row = rows[i]
        b = (words_of_column[row] >> shift) & np.uint64(255)
        goes_left = np.uint64(missing_left if b == missing_bin else b <= last)
        # Written to both sides and kept on one, so that there is no branch to guess.
        rows[num_left] = row
        scratch[num_right] = row
        num_left += goes_left
        num_right += np.uint64(1) - goes_left
    for i in range(num_right):
        rows[num_left + np.uint64(i)] = scratch[i]
    return int(num_left)
