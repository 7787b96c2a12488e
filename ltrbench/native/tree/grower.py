"""Growing one tree: splits one open leaf after another, up to num_leaves leaves.

One array of row numbers contains the documents of all leaves. The documents of a leaf are adjacent and in
ascending order; splitting the leaf moves the documents that go left to the front of its part. Of the two
children, the histogram of the smaller one is built, and that of the larger one is parent minus smaller. The
open leaf with the smallest key is split next:

    best_first    the leaf with the highest gain (LightGBM, XGBoost's lossguide); among equal gains the
                  oldest leaf
    by_deviance   the leaf with the largest deviance of gradients, sum g^2 - (sum g)^2 / n, whatever its gain,
                  so that large leaves come first (RankLib); among equal deviances the newest leaf
    depth_wise    level by level (XGBoost's depthwise; pyltr, whose trees are only limited by depth)

The order only matters if num_leaves ends the growth. To add an order, write a function and add it to ORDERS.

The steps in this file support every order and every search, and several members, of which each has a part of
the documents: they add up the histogram of the smaller child, and all search the same histograms. Most trees
are grown in one process, best-first, with the default search; for these, `fast_growth` runs the same steps in
one compiled loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import require_memory
from ltrbench.native.team import ALONE, Team
from ltrbench.native.tree.binning import BinnedFeatures, Rows
from ltrbench.native.tree.fast_growth import Limits, Nodes, Task, grow_best_first, seed_of_tree
from ltrbench.native.tree.histogram import Histogram, Quantised, bin_starts, build_histogram
from ltrbench.native.tree.joint import FindSplits, prepare_joint_search
from ltrbench.native.tree.nodes import NO_FEATURE, Tree
from ltrbench.native.tree.partition import partition
from ltrbench.native.tree.sparse.layout import AnyBins
from ltrbench.native.tree.sparse.sums import build_sparse_histogram
from ltrbench.native.tree.splitting import (
    LeafToCut,
    PrepareSearch,
    Split,
    SplitSettings,
    may_be_cut,
    prepare_search,
    split_terms,
)

LARGE_HISTOGRAMS = 1 << 28
"""Number of bytes of all histograms above which the available memory is checked; usually they have less."""


class OpenLeaf(NamedTuple):
    """A leaf that can be split.

    Attributes:
        node: index of the node, in the order of creation; a left child comes before the right child.
        rows: (n,), this member's documents in the leaf.
        split: best split of the leaf.
    """

    node: int
    rows: Rows
    split: Split


CuttingOrder = Callable[[OpenLeaf, Quantised, Team], tuple[float, int]]
"""(leaf, gradients of the tree, members of the fit) -> key of the leaf."""


def best_first(leaf: OpenLeaf, quantised: Quantised, team: Team = ALONE) -> tuple[float, int]:
    del quantised, team
    return -leaf.split.gain, leaf.node


def by_deviance(leaf: OpenLeaf, quantised: Quantised, team: Team = ALONE) -> tuple[float, int]:
    gradients = quantised.packed[leaf.rows] >> 32
    # Squares of 16-bit halves, whose sums fit into 64 bits. Python's integers have no limit: the difference
    # of the two large sums below is exact.
    high, low = gradients >> 16, gradients & 0xFFFF
    sums = [len(gradients), gradients.sum(), (high * high).sum(), (high * low).sum(), (low * low).sum()]
    count, total, high_high, high_low, low_low = map(int, team.total(np.array(sums)))
    squares = (high_high << 32) + (high_low << 17) + low_low
    deviance = (count * squares - total * total) / count
    return -deviance * quantised.gradient_unit**2, -leaf.node


def depth_wise(leaf: OpenLeaf, quantised: Quantised, team: Team = ALONE) -> tuple[float, int]:
    del quantised, team
    # All nodes of a level are created before those of the next level.
    return 0.0, leaf.node


ORDERS: dict[str, CuttingOrder] = {
    "best_first": best_first,
    "by_deviance": by_deviance,
    "depth_wise": depth_wise,
}


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree without leaf values, and the documents in its leaves.

    Attributes:
        tree: structure of the tree; all values are 0.
        rows: (n,), this member's documents, grouped by leaf and ascending within each leaf.
        leaf_start: (L + 1,), start of each leaf's documents in `rows`, followed by n.
        leaf_node: (L,), node of each leaf.
        leaf_bounds: (L, 2), minimum and maximum step of each leaf.
    """

    tree: Tree
    rows: Rows
    leaf_start: NDArray[np.int64]
    leaf_node: NDArray[np.int64]
    leaf_bounds: NDArray[np.float64]


FeatureDraw = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""(F,) mask of the features that a tree may use -> (F,) mask of those that one leaf may be split on."""


def fast_growth_computes(
    settings: SplitSettings, growth: str, is_constrained: bool, draws_features: bool, is_alone: bool = True
) -> bool:
    """Returns whether the compiled loop of `fast_growth` supports these settings; the steps here support all.

    Args:
        settings: requirements of a split.
        growth: a name in ORDERS.
        is_constrained: whether the search has constraints.
        draws_features: whether features are sampled for each leaf.
        is_alone: whether the fit has one member.
    """
    is_default = growth == "best_first" and not settings.cut_without_gain
    return is_default and not is_constrained and not draws_features and is_alone


class Grower:
    """Grows trees on one binned data set; reuses its working memory for every tree.

    Args:
        binned: the data set.
        num_leaves: maximum number of leaves per tree.
        settings: requirements of a split.
        growth: order in which leaves are split, a name in ORDERS.
        constrained_search: search for splits with constraints; None: the search of `splitting`, or of `joint`
            with several members.
        team: the members of the fit, of which each has a part of the documents.
    """

    def __init__(
        self,
        binned: AnyBins,
        num_leaves: int,
        settings: SplitSettings,
        growth: str = "best_first",
        constrained_search: PrepareSearch | None = None,
        team: Team = ALONE,
    ) -> None:
        self.binned = binned
        self.num_leaves = num_leaves
        self.settings = settings
        self.growth = growth
        self.constrained_search = constrained_search
        self.team = team
        self.bin_start = bin_starts(binned)
        histogram_bytes = 8 * num_leaves * int(self.bin_start[-1])
        if histogram_bytes > LARGE_HISTOGRAMS:
            require_memory(
                f"the histograms of {num_leaves} leaves with {self.bin_start[-1]} bins",
                histogram_bytes,
                "Set num_leaves or max_bins lower, or, for sparse features, min_docs_in_leaf higher.",
            )
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
            quantised: gradients and hessians.
            rows: (n,), documents to fit, ascending; reordered by leaf in place.
            features: (F,), mask of the features that may be used.
            features_of_leaf: sampler of the features for a leaf, called once per leaf; None: all features.
        """
        nodes = whole = seed_of_tree(self.num_leaves, len(rows))
        if self.team.size > 1:
            num_rows = self.team.total(np.array([len(rows)]))
            whole = seed_of_tree(self.num_leaves, int(num_rows[0]))
        if self.num_leaves == 1:
            return _grown(self.binned, nodes, whole, 0, rows)
        growth = _Growth(self, quantised, nodes, whole, rows, features, features_of_leaf)
        is_compiled = fast_growth_computes(
            self.settings,
            self.growth,
            is_constrained=self.constrained_search is not None,
            draws_features=features_of_leaf is not None,
            is_alone=self.team.size == 1,
        )
        num_cuts = growth.cut_compiled() if is_compiled else growth.cut_by_steps()
        return _grown(self.binned, nodes, whole, num_cuts, rows)


class _Growth:
    """A tree during growth: its nodes, a priority queue of open leaves, and unused histograms.

    `nodes` has the parts of this member's rows. `whole` has the parts of the rows of all members, as if they
    were in one array, for the numbers of documents; it is the same object if the fit has one member.
    """

    def __init__(
        self,
        grower: Grower,
        quantised: Quantised,
        nodes: Nodes,
        whole: Nodes,
        rows: Rows,
        features: NDArray[np.bool_],
        features_of_leaf: FeatureDraw | None,
    ) -> None:
        self.grower = grower
        self.team = grower.team
        self.quantised = quantised
        self.nodes = nodes
        self.whole = whole
        self.rows = rows
        self.features = features
        self.features_of_leaf = features_of_leaf
        self.columns = features[grower.binned.feature_of_column]
        self.order = ORDERS[grower.growth]
        self.find_splits = self.search()
        self.unused = list(grower.histograms)
        self.open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

    def cut_compiled(self) -> int:
        """Makes all splits with `fast_growth`; returns their number."""
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
        return grow_best_first(
            task,
            grower.binned.layout,
            terms,
            limits,
            self.nodes,
            self.rows,
            grower.scratch,
            grower.histograms,
        )

    def cut_by_steps(self) -> int:
        """Makes all splits step by step; returns their number."""
        if self.may_cut(0):
            root = self.unused.pop()
            self.build(0, root)
            self.open({0: root})
        num_cuts = 0
        while self.open_leaves and num_cuts + 1 < self.grower.num_leaves:
            self.cut_next(num_cuts)
            num_cuts += 1
        return num_cuts

    def cut_next(self, number: int) -> None:
        """Splits the first open leaf, and opens the children that may be split themselves."""
        _, leaf, histogram = heapq.heappop(self.open_leaves)
        self.nodes.order[number] = leaf.node
        left = 2 * number + 1
        self.cut(leaf, left)
        # If both have the same size, the left one counts as the smaller.
        smaller, larger = sorted((left, left + 1), key=self.size)
        candidates = [node for node in (smaller, larger) if self.may_cut(node)]
        histograms = {larger: histogram}
        if candidates and number + 2 < self.grower.num_leaves:
            histograms[smaller] = self.unused.pop()
            self.build(smaller, histograms[smaller], histogram)
            self.open({node: histograms.pop(node) for node in candidates})
        self.unused.extend(histograms.values())

    def cut(self, leaf: OpenLeaf, left: int) -> None:
        """Partitions a leaf's rows between the nodes left and left + 1."""
        nodes, (node, rows, split) = self.nodes, leaf
        words, layout = self.grower.binned.words, self.grower.binned.layout
        cut = split.column, split.bin, split.missing_left
        task = words, layout, self.grower.binned.num_bins, *cut, rows, self.grower.scratch
        num_left = partition(*task, numba.get_num_threads())
        nodes.cut[node], nodes.gain[node] = cut, split.gain
        _divide(nodes, node, left, num_left)
        if self.whole is not nodes:
            counted = split.num_left
            _divide(self.whole, node, left, self.total(num_left) if counted is None else counted)
        nodes.depth[left : left + 2] = nodes.depth[node] + 1
        nodes.bounds[left : left + 2] = split.left_bounds, split.right_bounds

    def build(self, node: int, *histograms: Histogram) -> None:
        """Builds the first histogram, and subtracts it from the second, the parent's, if one is given."""
        binned, rows, packed = self.grower.binned, self.rows_of(node), self.quantised.packed
        if self.team.size > 1:
            self.build_together(node, *histograms)
        elif isinstance(binned, BinnedFeatures):
            build_histogram(binned, self.grower.bin_start, rows, packed, *histograms)
        else:
            build_sparse_histogram(binned, rows, packed, *histograms)

    def build_together(self, node: int, histogram: Histogram, *parents: Histogram) -> None:
        """Runs `build` with several members, who have dense bins."""
        grower = self.grower
        assert isinstance(grower.binned, BinnedFeatures)
        build_histogram(grower.binned, grower.bin_start, self.rows_of(node), self.quantised.packed, histogram)
        histogram[:] = self.team.total(histogram)
        for parent in parents:
            parent -= histogram

    def open(self, histograms: dict[int, Histogram]) -> None:
        """Searches for the best splits of leaves; a leaf without a split is not opened."""
        leaves = [self.leaf_to_cut(node, histogram) for node, histogram in histograms.items()]
        splits = self.find_splits(leaves)
        for (node, histogram), split in zip(histograms.items(), splits, strict=True):
            if split is None:
                self.unused.append(histogram)
            else:
                leaf = OpenLeaf(node, self.rows_of(node), split)
                key = self.order(leaf, self.quantised, self.team)
                heapq.heappush(self.open_leaves, (key, leaf, histogram))

    def leaf_to_cut(self, node: int, histogram: Histogram) -> LeafToCut:
        low, high = self.nodes.bounds[node]
        columns = self.columns_of_leaf()
        return LeafToCut(histogram, self.rows_of(node), columns, (low, high), self.size(node))

    def search(self) -> FindSplits:
        """Returns the search for the splits of leaves."""
        grower = self.grower
        task = grower.binned, grower.bin_start, self.quantised, grower.settings, self.team
        if grower.constrained_search is None and self.team.size > 1:
            return prepare_joint_search(*task)
        find_split = (grower.constrained_search or prepare_search)(*task)
        return lambda leaves: [find_split(leaf) for leaf in leaves]

    def may_cut(self, node: int) -> bool:
        depth, rows = int(self.nodes.depth[node]), self.rows_of(node)
        settings = self.grower.settings
        return may_be_cut(settings, self.quantised, rows, depth, self.size(node), self.team)

    def size(self, node: int) -> int:
        """Returns the number of documents of all members in a node."""
        return int(self.whole.end[node] - self.whole.first[node])

    def total(self, count: int) -> int:
        return int(self.team.total(np.array([count]))[0])

    def rows_of(self, node: int) -> Rows:
        return self.rows[self.nodes.first[node] : self.nodes.end[node]]

    def columns_of_leaf(self) -> NDArray[np.bool_]:
        drawn = self.features if self.features_of_leaf is None else self.features_of_leaf(self.features)
        return self.columns if drawn is self.features else drawn[self.grower.binned.feature_of_column]


def _divide(nodes: Nodes, node: int, left: int, num_left: int) -> None:
    """Divides the part of a node between the nodes left and left + 1."""
    middle = nodes.first[node] + num_left
    nodes.first[left], nodes.end[left] = nodes.first[node], middle
    nodes.first[left + 1], nodes.end[left + 1] = middle, nodes.end[node]


def _grown(binned: AnyBins, nodes: Nodes, whole: Nodes, num_cuts: int, rows: Rows) -> GrownTree:
    num_nodes, cut_nodes = 2 * num_cuts + 1, nodes.order[:num_cuts]
    # This member's part of a leaf may be empty: only the parts of all members define the order of leaves.
    first, end = whole.first[:num_nodes], whole.end[:num_nodes]
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
    tree.threshold[cut_nodes] = binned.upper_edges(column, last_bin)
    tree.left[cut_nodes] = np.arange(1, num_nodes, 2)
    tree.right[cut_nodes] = np.arange(2, num_nodes, 2)
    tree.missing_left[cut_nodes] = missing_left
    tree.gain[cut_nodes] = nodes.gain[cut_nodes]
    leaves = np.flatnonzero(tree.feature == NO_FEATURE)
    leaves = leaves[np.argsort(first[leaves])]
    leaf_start = np.append(nodes.first[leaves], len(rows))
    return GrownTree(tree, rows, leaf_start, leaves, nodes.bounds[leaves])
