"""Growing one tree: cut one open leaf after another, up to num_leaves leaves.

The documents of a leaf stand together in one array of row numbers, in rising order; cutting the leaf moves
those that go left to the front of its part. Of the two new leaves the histogram of the smaller is built, and
the larger's is parent minus smaller. The open leaf of the least key is cut next. By name, that is

    best_first    the leaf whose cut gains most (LightGBM, XGBoost's lossguide); first among equals the leaf
                  that was made first
    by_deviance   the leaf whose gradients differ most, sum g^2 - (sum g)^2 / n, whatever its cut gains, so
                  that large leaves come first (RankLib); the leaf made last comes first among equals
    depth_wise    level by level (XGBoost's depthwise; pyltr, whose trees are bounded by depth alone)

Only where num_leaves ends the tree does the order matter. To add one, write a function and name it in ORDERS.

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

from ltrbench.native.tree.binning import BinnedFeatures, Rows
from ltrbench.native.tree.fast_growth import Limits, Nodes, Task, grow_best_first, seed_of_tree
from ltrbench.native.tree.histogram import Histogram, Quantised, bin_starts, build_histogram
from ltrbench.native.tree.nodes import NO_FEATURE, Tree
from ltrbench.native.tree.partition import partition
from ltrbench.native.tree.splitting import (
    LeafToCut,
    PrepareSearch,
    Split,
    SplitSettings,
    may_be_cut,
    prepare_search,
    split_terms,
)


class OpenLeaf(NamedTuple):
    """A leaf that can be cut.

    Attributes:
        node: its number; nodes are numbered as they are made, a left one before its right one.
        rows: (n,), its documents.
        split: its best cut.
    """

    node: int
    rows: Rows
    split: Split


CuttingOrder = Callable[[OpenLeaf, Quantised], tuple[float, int]]


def best_first(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    del quantised
    return -leaf.split.gain, leaf.node


def by_deviance(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    gradients = (quantised.packed[leaf.rows] >> 32) * quantised.gradient_unit
    # About their mean, because the difference of two large sums would leave mostly rounding.
    deviance = np.square(gradients - gradients.mean()).sum()
    return -float(deviance), -leaf.node


def depth_wise(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    del quantised
    # All nodes of a level are made before those of the next.
    return 0.0, leaf.node


ORDERS: dict[str, CuttingOrder] = {
    "best_first": best_first,
    "by_deviance": by_deviance,
    "depth_wise": depth_wise,
}


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


def fast_growth_computes(
    settings: SplitSettings, growth: str, is_constrained: bool, draws_features: bool
) -> bool:
    """Returns whether the compiled loop of `fast_growth` grows such trees; the steps here grow the others.

    Args:
        settings: what a cut must fulfil.
        growth: a name in ORDERS.
        is_constrained: whether cuts are searched under constraints.
        draws_features: whether each leaf draws the features that it may be cut by.
    """
    return (
        growth == "best_first" and not settings.cut_without_gain and not is_constrained and not draws_features
    )


class Grower:
    """Grows trees on one binned data set, and keeps the memory for it from tree to tree.

    Args:
        binned: the data set.
        num_leaves: maximum number of leaves of a tree.
        settings: what a cut must fulfil.
        growth: which leaf is cut next, a name in ORDERS.
        constrained_search: the search for cuts under constraints; None: that of `splitting`, without any.
    """

    def __init__(
        self,
        binned: BinnedFeatures,
        num_leaves: int,
        settings: SplitSettings,
        growth: str = "best_first",
        constrained_search: PrepareSearch | None = None,
    ) -> None:
        self.binned = binned
        self.num_leaves = num_leaves
        self.settings = settings
        self.growth = growth
        self.constrained_search = constrained_search
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
        nodes = seed_of_tree(self.num_leaves, len(rows))
        if self.num_leaves == 1:
            return _grown(self.binned, nodes, 0, rows)
        growth = _Growth(self, quantised, nodes, rows, features, features_of_leaf)
        is_compiled = fast_growth_computes(
            self.settings,
            self.growth,
            is_constrained=self.constrained_search is not None,
            draws_features=features_of_leaf is not None,
        )
        num_cuts = growth.cut_compiled() if is_compiled else growth.cut_by_steps()
        return _grown(self.binned, nodes, num_cuts, rows)


class _Growth:
    """One tree while it grows: its nodes, its open leaves in the order of cutting, and unused histograms."""

    def __init__(
        self,
        grower: Grower,
        quantised: Quantised,
        nodes: Nodes,
        rows: Rows,
        features: NDArray[np.bool_],
        features_of_leaf: FeatureDraw | None,
    ) -> None:
        self.grower = grower
        self.quantised = quantised
        self.nodes = nodes
        self.rows = rows
        self.features = features
        self.features_of_leaf = features_of_leaf
        self.columns = features[grower.binned.feature_of_column]
        self.order = ORDERS[grower.growth]
        prepare = grower.constrained_search or prepare_search
        self.find_split = prepare(grower.binned, grower.bin_start, quantised, grower.settings)
        self.unused = list(grower.histograms)
        self.open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

    def cut_compiled(self) -> int:
        """Makes all cuts as in `fast_growth`; returns how many."""
        grower, settings = self.grower, self.grower.settings
        task = Task(
            words=grower.binned.words,
            num_bins=grower.binned.num_bins,
            bin_start=grower.bin_start,
            packed=self.quantised.packed,
            columns=self.columns,
            num_threads=numba.get_num_threads(),
        )
        terms = split_terms(settings, self.quantised)
        limits = Limits(grower.num_leaves, settings.least_docs, settings.max_depth)
        return grow_best_first(task, terms, limits, self.nodes, self.rows, grower.scratch, grower.histograms)

    def cut_by_steps(self) -> int:
        """Makes all cuts; returns how many."""
        if self.may_cut(0):
            root = self.unused.pop()
            self.build(0, root)
            self.open(0, root)
        num_cuts = 0
        while self.open_leaves and num_cuts + 1 < self.grower.num_leaves:
            self.cut_next(num_cuts)
            num_cuts += 1
        return num_cuts

    def cut_next(self, number: int) -> None:
        """Cuts the first of the open leaves, and opens those of the two new ones that may be cut."""
        _, leaf, histogram = heapq.heappop(self.open_leaves)
        self.nodes.order[number] = leaf.node
        left = 2 * number + 1
        self.cut(leaf, left)
        # As long as one another, the left counts as the smaller.
        smaller, larger = sorted((left, left + 1), key=lambda node: len(self.rows_of(node)))
        candidates = [node for node in (smaller, larger) if self.may_cut(node)]
        histograms = {larger: histogram}
        if candidates and number + 2 < self.grower.num_leaves:
            histograms[smaller] = self.unused.pop()
            self.build(smaller, histograms[smaller], histogram)
            for node in candidates:
                self.open(node, histograms.pop(node))
        self.unused.extend(histograms.values())

    def cut(self, leaf: OpenLeaf, left: int) -> None:
        """Shares out a leaf's rows between the nodes left and left + 1."""
        nodes, (node, rows, split) = self.nodes, leaf
        words, num_bins = self.grower.binned.words, self.grower.binned.num_bins
        cut = split.column, split.bin, split.missing_left
        num_left = partition(words, num_bins, *cut, rows, self.grower.scratch, numba.get_num_threads())
        nodes.cut[node], nodes.gain[node] = cut, split.gain
        nodes.first[left] = nodes.first[node]
        nodes.end[left] = nodes.first[left + 1] = nodes.first[node] + num_left
        nodes.end[left + 1] = nodes.end[node]
        nodes.depth[left : left + 2] = nodes.depth[node] + 1
        nodes.bounds[left : left + 2] = split.left_bounds, split.right_bounds

    def build(self, node: int, *histograms: Histogram) -> None:
        """Fills the first histogram, and takes it from the second: that of the node above, if it has one."""
        binned, bin_start = self.grower.binned, self.grower.bin_start
        build_histogram(binned, bin_start, self.rows_of(node), self.quantised.packed, *histograms)

    def open(self, node: int, histogram: Histogram) -> None:
        """Searches a leaf for its best cut; one without a cut stays a leaf."""
        low, high = self.nodes.bounds[node]
        rows = self.rows_of(node)
        split = self.find_split(LeafToCut(histogram, rows, self.columns_of_leaf(), (low, high)))
        if split is None:
            self.unused.append(histogram)
        else:
            leaf = OpenLeaf(node, rows, split)
            heapq.heappush(self.open_leaves, (self.order(leaf, self.quantised), leaf, histogram))

    def may_cut(self, node: int) -> bool:
        depth = int(self.nodes.depth[node])
        return may_be_cut(self.grower.settings, self.quantised, self.rows_of(node), depth)

    def rows_of(self, node: int) -> Rows:
        return self.rows[self.nodes.first[node] : self.nodes.end[node]]

    def columns_of_leaf(self) -> NDArray[np.bool_]:
        drawn = self.features if self.features_of_leaf is None else self.features_of_leaf(self.features)
        return self.columns if drawn is self.features else drawn[self.grower.binned.feature_of_column]


def _grown(binned: BinnedFeatures, nodes: Nodes, num_cuts: int, rows: Rows) -> GrownTree:
    num_nodes, cut_nodes = 2 * num_cuts + 1, nodes.order[:num_cuts]
    first, end = nodes.first[:num_nodes], nodes.end[:num_nodes]
    column, last_bin, missing_left = nodes.cut[cut_nodes].T
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
    tree.feature[cut_nodes] = binned.feature_of_column[column]
    tree.threshold[cut_nodes] = binned.thresholds[column, last_bin]
    tree.left[cut_nodes] = np.arange(1, num_nodes, 2)
    tree.right[cut_nodes] = np.arange(2, num_nodes, 2)
    tree.missing_left[cut_nodes] = missing_left
    tree.gain[cut_nodes] = nodes.gain[cut_nodes]
    leaves = np.flatnonzero(tree.feature == NO_FEATURE)
    leaves = leaves[np.argsort(first[leaves])]
    return GrownTree(tree, rows, np.append(first[leaves], len(rows)), leaves, nodes.bounds[leaves])
