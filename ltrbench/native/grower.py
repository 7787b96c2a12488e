"""Growing one tree: cut one open leaf after another, in the order of `growth`, up to num_leaves leaves.

The documents of a leaf stand together in one array of row numbers, in rising order; cutting the leaf moves
those that go left to the front of its part. Of the two new leaves the histogram of the smaller is built, and
the larger's is parent minus smaller.

The steps are here as they read, for any order and any search. Most trees are grown best-first by the usual
search, and then `fast_growth` takes the same steps in one compiled loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.native.binning import BinnedFeatures, Rows
from ltrbench.native.fast_growth import Limits, Task, grow_best_first, seed_of_tree
from ltrbench.native.growth import OpenLeaf, Order, best_first
from ltrbench.native.histogram import (
    Histogram,
    Quantised,
    bin_starts,
    build_histogram,
)
from ltrbench.native.partition import partition
from ltrbench.native.splitting import (
    UNBOUNDED,
    Bounds,
    Leaf,
    PrepareSearch,
    Split,
    SplitSettings,
    may_be_cut,
    prepare_search,
    split_terms,
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
        features_of_leaf: FeatureDraw | None = None,
    ) -> GrownTree:
        """Grows a tree.

        Args:
            quantised: the gradients and hessians.
            rows: (n,), the documents to learn from, rising; they are put in the order of leaves.
            features: (F,), whether a feature may be used.
            features_of_leaf: which of these a leaf may be cut by, asked once for each; None: all.
        """
        growth = _Growth(self, quantised, _Nodes(rows), features, features_of_leaf)
        if features_of_leaf is None and self.is_compiled:
            return growth.grow_fast()
        growth.open_root()
        while growth.open_leaves and growth.nodes.num_leaves < self.num_leaves:
            growth.cut_next()
        return growth.nodes.grown(self.binned)

    @property
    def is_compiled(self) -> bool:
        """Whether trees grow as in `fast_growth`."""
        is_usual = self.order is best_first and self.search is prepare_search
        return is_usual and not self.settings.cut_without_gain


class _Growth:
    """One tree while it grows: its nodes, its open leaves in the order of cutting, and unused histograms."""

    def __init__(
        self,
        grower: Grower,
        quantised: Quantised,
        nodes: _Nodes,
        features: NDArray[np.bool_],
        features_of_leaf: FeatureDraw | None,
    ) -> None:
        self.grower = grower
        self.quantised = quantised
        self.nodes = nodes
        self.features = features
        self.features_of_leaf = features_of_leaf
        self.columns = features[grower.binned.feature_of_column]
        self.find_split = grower.search(grower.binned, grower.bin_start, quantised, grower.settings)
        self.unused = list(grower.histograms)
        self.open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

    def open_root(self) -> None:
        if self.may_cut(0):
            histogram = self.unused.pop()
            self.build(0, histogram)
            self.open(0, histogram)

    def grow_fast(self) -> GrownTree:
        """Makes all cuts as in `fast_growth`."""
        grower, rows = self.grower, self.nodes.rows
        binned, settings = grower.binned, grower.settings
        task = Task(
            words=binned.words,
            num_bins=binned.num_bins,
            bin_start=grower.bin_start,
            packed=self.quantised.packed,
            columns=self.columns,
            num_threads=numba.get_num_threads(),
        )
        terms = split_terms(settings, self.quantised)
        limits = Limits(grower.num_leaves, settings.least_docs, settings.max_depth)
        nodes = seed_of_tree(grower.num_leaves, len(rows))
        num_cuts = grow_best_first(task, terms, limits, nodes, rows, grower.scratch, grower.histograms)
        order, num_nodes = nodes.order[:num_cuts], 2 * num_cuts + 1
        column, last_bin, missing_left = nodes.cut[order].T
        cuts = _Cuts(order, column, last_bin, missing_left.astype(np.bool_), nodes.gain[order])
        bounds = np.tile(UNBOUNDED, (num_nodes, 1))
        return _grown(rows, nodes.first[:num_nodes], nodes.end[:num_nodes], bounds, cuts, binned)

    def cut_next(self) -> None:
        """Cuts the first of the open leaves, and opens those of the two new ones that may be cut."""
        grower, nodes = self.grower, self.nodes
        _, leaf, histogram = heapq.heappop(self.open_leaves)
        smaller, larger = nodes.cut(leaf, self.partition(leaf))
        candidates = [node for node in (smaller, larger) if self.may_cut(node)]
        histograms = {larger: histogram}
        if candidates and nodes.num_leaves < grower.num_leaves:
            histograms[smaller] = self.unused.pop()
            self.build(smaller, histograms[smaller], histogram)
            for node in candidates:
                self.open(node, histograms.pop(node))
        self.unused.extend(histograms.values())

    def build(self, node: int, *histograms: Histogram) -> None:
        """Fills the first histogram, and takes it from the second: that of the node above, if it has one."""
        binned, bin_start = self.grower.binned, self.grower.bin_start
        build_histogram(binned, bin_start, self.nodes.rows_of(node), self.quantised.packed, *histograms)

    def open(self, node: int, histogram: Histogram) -> None:
        """Searches a leaf for its best cut; one without a cut stays a leaf."""
        rows, bounds = self.nodes.rows_of(node), self.nodes.parts[node].bounds
        split = self.find_split(Leaf(histogram, rows, self.columns_of_leaf(), bounds))
        if split is None:
            self.unused.append(histogram)
        else:
            leaf = OpenLeaf(node, rows, split)
            heapq.heappush(self.open_leaves, (self.grower.order(leaf, self.quantised), leaf, histogram))

    def may_cut(self, node: int) -> bool:
        rows, depth = self.nodes.rows_of(node), self.nodes.parts[node].depth
        return may_be_cut(self.grower.settings, self.quantised, rows, depth)

    def columns_of_leaf(self) -> NDArray[np.bool_]:
        drawn = self.features if self.features_of_leaf is None else self.features_of_leaf(self.features)
        return self.columns if drawn is self.features else drawn[self.grower.binned.feature_of_column]

    def partition(self, leaf: OpenLeaf) -> int:
        _, column, last_bin, missing_left, *_ = leaf.split
        words, num_bins = self.grower.binned.words, self.grower.binned.num_bins
        scratch = self.grower.scratch
        return partition(
            words, num_bins, column, last_bin, missing_left, leaf.rows, scratch, numba.get_num_threads()
        )


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
        first, end = np.array([(part.first, part.end) for part in self.parts]).T
        bounds = np.array([part.bounds for part in self.parts])
        nodes, splits = [node for node, _ in self.cuts], [split for _, split in self.cuts]
        cuts = _Cuts(
            node=np.array(nodes, dtype=np.int64),
            column=np.array([split.column for split in splits], dtype=np.int64),
            bin=np.array([split.bin for split in splits], dtype=np.int64),
            missing_left=np.array([split.missing_left for split in splits], dtype=np.bool_),
            gain=np.array([split.gain for split in splits]),
        )
        return _grown(self.rows, first, end, bounds, cuts, binned)


class _Cuts(NamedTuple):
    """A tree's L - 1 cuts in the order in which they were made, each an array of one of their properties."""

    node: NDArray[np.int64]
    column: NDArray[np.int64]
    bin: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    gain: NDArray[np.float64]


def _grown(
    rows: Rows,
    first: NDArray[np.int64],
    end: NDArray[np.int64],
    bounds: NDArray[np.float64],
    cuts: _Cuts,
    binned: BinnedFeatures,
) -> GrownTree:
    """The tree of these cuts; node i has the rows first[i], ..., end[i] - 1, and its step bounds[i]."""
    num_nodes = len(first)
    tree = Tree(
        feature=np.full(num_nodes, NO_FEATURE, dtype=np.int32),
        threshold=np.zeros(num_nodes, dtype=np.float32),
        left=np.arange(num_nodes, dtype=np.int32),
        right=np.arange(num_nodes, dtype=np.int32),
        missing_left=np.zeros(num_nodes, dtype=np.bool_),
        gain=np.zeros(num_nodes),
        value=np.zeros(num_nodes),
        num_documents=end - first,
    )
    tree.feature[cuts.node] = binned.feature_of_column[cuts.column]
    tree.threshold[cuts.node] = binned.thresholds[cuts.column, cuts.bin]
    tree.left[cuts.node] = np.arange(1, num_nodes, 2)
    tree.right[cuts.node] = np.arange(2, num_nodes, 2)
    tree.missing_left[cuts.node] = cuts.missing_left
    tree.gain[cuts.node] = cuts.gain
    leaves = np.flatnonzero(tree.feature == NO_FEATURE)
    leaves = leaves[np.argsort(first[leaves])]
    return GrownTree(tree, rows, np.append(first[leaves], len(rows)), leaves, bounds[leaves])
