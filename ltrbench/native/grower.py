"""Growing one tree: cut one open leaf after another, in the order of `growth`, up to num_leaves leaves.

The documents of a leaf stand together in one array of row numbers, in rising order; cutting the leaf moves
those that go left to the front of its part. Of the two new leaves the histogram of the smaller is built, and
the larger's is parent minus smaller.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.native.binning import BinnedFeatures
from ltrbench.native.growth import OpenLeaf, Order, best_first
from ltrbench.native.histogram import Histogram, Quantised, Rows, bin_starts, build_histogram
from ltrbench.native.splitting import Split, SplitSettings, find_split
from ltrbench.native.tree import NO_FEATURE, Tree


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree without values yet, and the documents in its leaves.

    Attributes:
        tree: its structure; all values are 0.
        rows: (n,), the documents, those of a leaf together and rising.
        leaf_start: (L + 1,), where each leaf's documents begin in `rows`.
        leaf_node: (L,), each leaf's node.
    """

    tree: Tree
    rows: Rows
    leaf_start: NDArray[np.int64]
    leaf_node: NDArray[np.int64]


class Grower:
    """Grows trees on one binned data set, and keeps the memory for it from tree to tree."""

    def __init__(
        self, binned: BinnedFeatures, num_leaves: int, settings: SplitSettings, order: Order = best_first
    ) -> None:
        self.binned = binned
        self.num_leaves = num_leaves
        self.settings = settings
        self.order = order
        self.bin_start = bin_starts(binned)
        self._histograms = np.empty((num_leaves, int(self.bin_start[-1])), dtype=np.int64)
        self._scratch = np.empty(binned.num_documents, dtype=np.uint32)

    def grow(self, quantised: Quantised, rows: Rows, features: NDArray[np.bool_]) -> GrownTree:
        """Grows a tree.

        Args:
            quantised: the gradients and hessians.
            rows: (n,), the documents to learn from, rising; they are put in the order of leaves.
            features: (F,), whether a feature may be used.
        """
        nodes = _Nodes(self.num_leaves, rows)
        columns = features[self.binned.feature_of_column]
        free = list(self._histograms)
        open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

        def build(node: int, histogram: Histogram) -> None:
            build_histogram(self.binned, self.bin_start, nodes.rows_of(node), quantised.packed, histogram)

        def open_leaf(node: int, histogram: Histogram) -> None:
            split = self._find_split(nodes, node, histogram, quantised, columns)
            if split is None:
                free.append(histogram)
            else:
                leaf = OpenLeaf(node, nodes.rows_of(node), split)
                heapq.heappush(open_leaves, (self.order(leaf, quantised), leaf, histogram))

        root_histogram = free.pop()
        build(0, root_histogram)
        open_leaf(0, root_histogram)
        while open_leaves:
            _, leaf, histogram = heapq.heappop(open_leaves)
            split = leaf.split
            threshold = self.binned.thresholds[split.column, split.bin]
            feature = self.binned.feature_of_column[split.column]
            num_left = self._partition(leaf.rows, split)
            smaller, larger = nodes.cut(leaf.node, split, feature, threshold, num_left)
            if nodes.num_leaves == self.num_leaves:
                break
            if not self._allows_a_cut(nodes, larger):
                free.append(histogram)
                continue
            smaller_histogram = free.pop()
            build(smaller, smaller_histogram)
            histogram -= smaller_histogram
            open_leaf(smaller, smaller_histogram)
            open_leaf(larger, histogram)
        return nodes.grown()

    def _allows_a_cut(self, nodes: _Nodes, node: int) -> bool:
        return self.settings.allow_a_cut(len(nodes.rows_of(node)), int(nodes.depth[node]))

    def _find_split(
        self,
        nodes: _Nodes,
        node: int,
        histogram: Histogram,
        quantised: Quantised,
        columns: NDArray[np.bool_],
    ) -> Split | None:
        if not self._allows_a_cut(nodes, node):
            return None
        rows = nodes.rows_of(node)
        return find_split(self.binned, self.bin_start, histogram, rows, quantised, columns, self.settings)

    def _partition(self, rows: Rows, split: Split) -> int:
        return _partition(
            self.binned.words[split.column // 8],
            np.uint64(8 * (split.column % 8)),
            np.uint64(split.bin),
            np.uint64(self.binned.num_bins[split.column] - 1),
            split.missing_left,
            rows,
            self._scratch,
        )


class _Nodes:
    """The tree under construction, and which part of the rows each of its nodes has."""

    def __init__(self, num_leaves: int, rows: Rows) -> None:
        size = 2 * num_leaves - 1
        self.rows = rows
        self.num_nodes = 1
        self.feature = np.full(size, NO_FEATURE, dtype=np.int32)
        self.threshold = np.zeros(size, dtype=np.float32)
        self.left = np.arange(size, dtype=np.int32)
        self.right = np.arange(size, dtype=np.int32)
        self.missing_left = np.zeros(size, dtype=np.bool_)
        self.gain = np.zeros(size)
        self.depth = np.zeros(size, dtype=np.int64)
        self.first = np.zeros(size, dtype=np.int64)
        self.end = np.full(size, len(rows), dtype=np.int64)

    @property
    def num_leaves(self) -> int:
        return (self.num_nodes + 1) // 2

    def rows_of(self, node: int) -> Rows:
        return self.rows[self.first[node] : self.end[node]]

    def cut(
        self, node: int, split: Split, feature: int, threshold: np.float32, num_left: int
    ) -> tuple[int, int]:
        """Turns a leaf into an inner node with two leaves below; returns these, the smaller first."""
        left, right = self.num_nodes, self.num_nodes + 1
        self.num_nodes += 2
        self.feature[node] = feature
        self.threshold[node] = threshold
        self.left[node], self.right[node] = left, right
        self.missing_left[node] = split.missing_left
        self.gain[node] = split.gain
        self.depth[left] = self.depth[right] = self.depth[node] + 1
        middle = self.first[node] + num_left
        self.first[left], self.end[left] = self.first[node], middle
        self.first[right], self.end[right] = middle, self.end[node]
        return (left, right) if 2 * num_left <= self.end[node] - self.first[node] else (right, left)

    def grown(self) -> GrownTree:
        n = self.num_nodes
        tree = Tree(
            feature=self.feature[:n],
            threshold=self.threshold[:n],
            left=self.left[:n],
            right=self.right[:n],
            missing_left=self.missing_left[:n],
            gain=self.gain[:n],
            value=np.zeros(n),
        )
        leaves = np.flatnonzero(tree.feature == NO_FEATURE)
        leaves = leaves[np.argsort(self.first[leaves])]
        return GrownTree(tree, self.rows, np.append(self.first[leaves], len(self.rows)), leaves)


@kernel
def _partition(
    words: NDArray[np.uint64],
    shift: np.uint64,
    last_bin: np.uint64,
    missing_bin: np.uint64,
    missing_left: bool,
    rows: Rows,
    scratch: Rows,
) -> int:
    """Moves the documents that go left to the front, all in their order; returns how many they are."""
    num_left, num_right = np.uint64(0), np.uint64(0)
    for i in range(len(rows)):
        row = rows[i]
        b = (words[row] >> shift) & np.uint64(255)
        goes_left = np.uint64(missing_left if b == missing_bin else b <= last_bin)
        # Written to both sides and kept on one, so that there is no branch to guess.
        rows[num_left] = row
        scratch[num_right] = row
        num_left += goes_left
        num_right += np.uint64(1) - goes_left
    for i in range(num_right):
        rows[num_left + np.uint64(i)] = scratch[i]
    return int(num_left)
