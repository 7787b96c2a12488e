"""Growing one tree: splits one open leaf after another, up to num_leaves leaves.

One array of row numbers contains the documents of all leaves. The documents of a leaf are adjacent and in
ascending order; splitting the leaf moves the documents that go left to the front of its part. Of the two
children, the histogram of the smaller one is built, and that of the larger one is parent minus smaller. Split
number i creates the nodes 2 i + 1 and 2 i + 2. The open leaf with the smallest key is split next:

    best_first    the leaf with the highest gain (LightGBM, XGBoost's lossguide); among equal gains the
                  oldest leaf
    by_deviance   the leaf with the largest deviance of gradients, sum g^2 - (sum g)^2 / n, whatever its gain,
                  so that large leaves come first (RankLib); among equal deviances the newest leaf
    depth_wise    level by level (XGBoost's depthwise; pyltr, whose trees are only limited by depth)

The order only matters if num_leaves ends the growth. To add an order, write a function and add it to ORDERS.

An open leaf keeps its histogram, which its children will need. If n splits are left, only the first n open
leaves in this order can still be split, because each split takes the first one, and new leaves only come in
between. The others are closed, so that histograms of half of the leaves suffice.

`_Growth` makes the splits one by one. It supports every order and every search, and several members, of which
each has a part of the documents: they add up the histogram of the smaller child, and all search the same
histograms. Most trees are grown in one process, best-first, without constraints; for these, `grow_best_first`
runs the same steps in one compiled loop. For small leaves, Python between compiled steps took a third of the
time of a fit [measured on MQ2007, 255 leaves]. A test compares both. Shapes: N = 2 num_leaves - 1, the
maximum number of nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.data.features import require_memory
from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.bins import AnyBins, Rows, SparseLayout, partition
from ltrbench.native.histogram import (
    Histogram,
    Quantised,
    Task,
    bin_starts,
    build_categories,
    build_share,
    num_numeric,
    shares_of,
    task_of,
    words_of_share,
)
from ltrbench.native.sparse import complete_defaults, sum_stored
from ltrbench.native.splitting import (
    UNBOUNDED,
    BestCut,
    Leaf,
    Search,
    Signs,
    Split,
    SplitSettings,
    SplitTerms,
    best_category_cut,
    best_cuts,
    choose,
    constraints_of,
    find_splits,
    leaf_to_search,
    may_be_cut,
    search,
    sides_of_bins,
    split_terms,
)
from ltrbench.native.team import ALONE, Team

PARTS_PER_THREAD = 4
"""Number of ranges of columns per thread that are searched; columns have different numbers of bins."""


class Limits(NamedTuple):
    """Limits of the size of a tree.

    Attributes:
        num_leaves: maximum number of leaves.
        min_docs: minimum number of documents a leaf needs to be split.
        max_depth: maximum depth of a leaf; 0: no limit.
    """

    num_leaves: int
    min_docs: int
    max_depth: int


class Memory(NamedTuple):
    """Arrays that change during growth, and the columns that may be used.

    Attributes:
        rows: (n,), reordered by leaf in place.
        scratch: (n,) or longer.
        histograms: (num_histograms(num_leaves), B); the last row is the root's histogram.
        columns: (C,), mask of the columns that the tree may use.
        is_left: (num_leaves - 1, M), mask of the bins that go left at each split on a categorical column, of
            which the largest has M bins.
    """

    rows: Rows
    scratch: Rows
    histograms: NDArray[np.int64]
    columns: NDArray[np.bool_]
    is_left: NDArray[np.bool_]


class Nodes(NamedTuple):
    """The nodes of a tree during growth.

    Attributes:
        first: (N,), start of the node's part of the rows.
        end: (N,), end of the node's part of the rows.
        depth: (N,), depth of the node; 0 for the root.
        histogram: (N,), index of an open leaf's histogram.
        open_gain: (N,), gain of the best split of an open leaf; -inf for other nodes.
        gain: (N,), the same, but not reset when the leaf is split.
        cut: (N, 3), best split: column, last bin that goes left, whether missing values go left, or a
            `CategoryCut` in their place.
        bounds: (N, 2), minimum and maximum step of a leaf; the compiled loop does not use them.
        order: (num_leaves - 1,), nodes in the order in which they are split.
    """

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int64]
    histogram: NDArray[np.int64]
    open_gain: NDArray[np.float64]
    gain: NDArray[np.float64]
    cut: NDArray[np.int64]
    bounds: NDArray[np.float64]
    order: NDArray[np.int64]


def num_histograms(num_leaves: int) -> int:
    """Returns the maximum number of histograms during growth.

    After c splits there are at most c + 1 open leaves, of which the L - 1 - c that can still be split keep
    their histograms. The smaller of both numbers is at most L / 2; a further histogram is that of a new leaf.
    """
    return num_leaves // 2 + 1


def seed_of_tree(num_leaves: int, num_rows: int) -> Nodes:
    """Returns the nodes of a new tree: a root with all rows."""
    size = 2 * num_leaves - 1
    numbers = np.zeros((4, size), dtype=np.int64)
    first, end, depth, histogram = numbers
    end[0] = num_rows
    histogram[0] = num_histograms(num_leaves) - 1
    return Nodes(
        first,
        end,
        depth,
        histogram,
        open_gain=np.full(size, -np.inf),
        gain=np.zeros(size),
        cut=np.zeros((size, 3), dtype=np.int64),
        bounds=np.tile(UNBOUNDED, (size, 1)),
        order=np.zeros(num_leaves - 1, dtype=np.int64),
    )


@kernel
def grow_best_first(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    limits: Limits,
    nodes: Nodes,
    memory: Memory,
) -> int:
    """Grows the tree of `nodes`, the result of `seed_of_tree`, in place; returns the number of splits."""
    _open_root(task, layout, terms, limits, nodes, memory)
    num_cuts = 0
    # The first num_unused entries are unused histograms.
    unused = np.arange(len(memory.histograms))
    num_unused = len(unused) - 1
    while num_cuts + 1 < limits.num_leaves:
        # The first of equal gains.
        node = int(np.argmax(nodes.open_gain[: 2 * num_cuts + 1]))
        if nodes.open_gain[node] == -np.inf:
            break
        nodes.open_gain[node] = -np.inf
        nodes.order[num_cuts] = node
        left = 2 * num_cuts + 1
        leaf = _leaf(nodes, node, memory, memory.columns)
        cut_node(task, layout, terms, nodes, node, left, leaf, memory)
        num_cuts += 1
        num_remaining = limits.num_leaves - 1 - num_cuts
        if num_remaining > 0:
            num_unused -= 1
            spare = unused[num_unused]
            _open_below(task, layout, terms, limits, nodes, node, left, memory, spare)
            for child in (left, left + 1):
                if nodes.open_gain[child] == -np.inf:
                    unused[num_unused] = nodes.histogram[child]
                    num_unused += 1
            while len(unused) - num_unused > num_remaining:
                last = _last_open(nodes, left + 2)
                nodes.open_gain[last] = -np.inf
                unused[num_unused] = nodes.histogram[last]
                num_unused += 1
    return num_cuts


@inlined_kernel
def _last_open(nodes: Nodes, num_nodes: int) -> int:
    """Returns the open leaf with the smallest gain; the last one of equal gains."""
    last = -1
    for node in range(num_nodes):
        gain = nodes.open_gain[node]
        if gain > -np.inf and (last < 0 or gain <= nodes.open_gain[last]):
            last = node
    return last


@inlined_kernel
def cut_node(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    nodes: Nodes,
    node: int,
    left: int,
    leaf: Leaf,
    memory: Memory,
) -> int:
    """Partitions a node's rows between the nodes left and left + 1; returns how many go left."""
    column, last_bin, missing_left = nodes.cut[node]
    num_bins = task.bin_start[column + 1] - task.bin_start[column]
    cut = (column, last_bin, num_bins - 1, missing_left)
    is_left = memory.is_left[(left - 1) // 2, :0]
    if column >= num_numeric(task):
        cut = (column - num_numeric(task), 0, 1, 0)
        is_left = memory.is_left[(left - 1) // 2, :num_bins]
        chosen = (column, last_bin, missing_left)
        sides = sides_of_bins(task.categories, task.bin_start, chosen, leaf, terms)
        for b in range(len(sides)):
            is_left[b] = sides[b]
    scratch = memory.scratch
    num_threads = task.num_threads
    num_left = partition(
        task.words,
        layout,
        cut,
        leaf.rows,
        scratch,
        num_threads,
        task.categories,
        is_left,
    )
    nodes.depth[left] = nodes.depth[left + 1] = nodes.depth[node] + 1
    divide(nodes, node, left, num_left)
    return num_left


@inlined_kernel
def divide(nodes: Nodes, node: int, left: int, num_left: int) -> None:
    """Divides the part of a node between the nodes left and left + 1."""
    middle = nodes.first[node] + num_left
    nodes.first[left] = nodes.first[node]
    nodes.end[left] = middle
    nodes.first[left + 1], nodes.end[left + 1] = middle, nodes.end[node]


@inlined_kernel
def _open_root(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    limits: Limits,
    nodes: Nodes,
    memory: Memory,
) -> None:
    if _may_be_cut(limits, nodes, 0):
        root = _leaf(nodes, 0, memory, memory.columns)
        none = leaf_to_search(root.histogram[:0], root.rows[:0], memory.columns[:0], 0)
        _note(nodes, 0, build_and_search(task, layout, terms, root, none)[0])


@inlined_kernel
def _open_below(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    limits: Limits,
    nodes: Nodes,
    node: int,
    left: int,
    memory: Memory,
    spare: np.int64,
) -> None:
    """Opens the children of a split that may be split themselves.

    The smaller child takes the spare histogram, and the larger child takes the histogram of the parent.
    """
    smaller = left
    larger = left + 1
    if (
        nodes.end[smaller] - nodes.first[smaller]
        > nodes.end[larger] - nodes.first[larger]
    ):
        smaller, larger = larger, smaller
    nodes.histogram[smaller] = spare
    nodes.histogram[larger] = nodes.histogram[node]
    if not _may_be_cut(limits, nodes, larger):
        return
    searched = (
        memory.columns if _may_be_cut(limits, nodes, smaller) else memory.columns[:0]
    )
    one = _leaf(nodes, smaller, memory, searched)
    other = _leaf(nodes, larger, memory, memory.columns)
    best_of_smaller, best_of_larger = build_and_search(task, layout, terms, one, other)
    _note(nodes, larger, best_of_larger)
    _note(nodes, smaller, best_of_smaller)


@inlined_kernel
def _leaf(nodes: Nodes, node: int, memory: Memory, columns: NDArray[np.bool_]) -> Leaf:
    rows = memory.rows[nodes.first[node] : nodes.end[node]]
    return leaf_to_search(
        memory.histograms[nodes.histogram[node]], rows, columns, len(rows)
    )


@parallel_kernel
def build_and_search(
    task: Task, layout: SparseLayout | None, terms: SplitTerms, one: Leaf, other: Leaf
) -> tuple[BestCut, BestCut]:
    """Builds the first leaf's histogram, subtracts it from the second's, and finds the best split of both.

    Each thread does all three steps for its share of the columns while their bins are in its cache. Threads
    synchronise once per split.

    Args:
        task: input of the tree.
        layout: where sparse bins are stored; None for dense bins.
        terms: requirements of a split.
        one: a leaf, whose histogram is written.
        other: its sibling with the histogram of both together; an empty histogram: there is none.
    """
    num_columns = num_numeric(task)
    num_words = task.words.shape[1]
    if layout is None:
        num_shares = shares_of(max(num_words, 1), task.num_threads)
        for share in numba.prange(num_shares):
            # In a loop over prange, an index is unsigned; one type of it compiles the callee once.
            word_range = words_of_share(np.int64(share), num_shares, num_words)
            build_share(task, word_range, one.rows, one.histogram, other.histogram)
            columns = 8 * word_range[0], min(8 * word_range[1], num_columns)
            _search_both(columns, task.bin_start, one, other, terms)
            categorical = int(num_columns + np.int64(share)), num_shares
            leaves = one, other
            _search_categories(task.categories, task, categorical, terms, leaves)
    else:
        total = sum_stored(task, layout, one.rows, one.histogram)
        num_parts = PARTS_PER_THREAD * task.num_threads
        for part in numba.prange(num_parts):
            columns = (
                part * num_columns // num_parts,
                (part + 1) * num_columns // num_parts,
            )
            complete_defaults(layout, columns, total, one.histogram, other.histogram)
            _search_both(columns, task.bin_start, one, other, terms)
    return choose(task, layout, one, terms), choose(task, layout, other, terms)


def build_histogram(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    rows: Rows,
    histogram: Histogram,
) -> None:
    """Writes the sums over `rows` to the (B,) histogram; `terms` have no effect."""
    no_columns = np.zeros(0, dtype=np.bool_)
    one = leaf_to_search(histogram, rows, no_columns, len(rows))
    none = leaf_to_search(histogram[:0], rows[:0], no_columns, 0)
    build_and_search(task, layout, terms, one, none)


@kernel
def _search_both(
    columns: tuple[int, int],
    bin_start: NDArray[np.int64],
    one: Leaf,
    other: Leaf,
    terms: SplitTerms,
) -> None:
    if len(one.columns) > 0:
        best_cuts(columns, bin_start, one, terms, None)
    if len(other.columns) > 0:
        best_cuts(columns, bin_start, other, terms, None)


@kernel
def _search_categories(
    categories: NDArray[np.uint16] | None,
    task: Task,
    columns: tuple[int, int],
    terms: SplitTerms,
    leaves: tuple[Leaf, Leaf],
) -> None:
    """Builds the histograms of categorical columns, and finds their best splits."""
    if categories is not None:
        one, other = leaves
        uncounted = np.zeros(0, dtype=np.int64)
        build_categories(task, columns, one.rows, one.histogram, other.histogram)
        first, step = columns
        end = len(task.bin_start) - 1
        for column in range(first, end, step):
            best_category_cut(column, task.bin_start, one, uncounted, terms, None)
            best_category_cut(column, task.bin_start, other, uncounted, terms, None)


@inlined_kernel
def _may_be_cut(limits: Limits, nodes: Nodes, node: int) -> bool:
    if nodes.end[node] - nodes.first[node] < limits.min_docs:
        return False
    return limits.max_depth == 0 or nodes.depth[node] < limits.max_depth


@inlined_kernel
def _note(nodes: Nodes, node: int, best: BestCut) -> None:
    """Stores the best split of a node; the node is open if a split was found."""
    nodes.open_gain[node] = nodes.gain[node] = best[0]
    nodes.cut[node, 0] = best[1]
    nodes.cut[node, 1] = best[2]
    nodes.cut[node, 2] = best[3]


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


def best_first(leaf: OpenLeaf, quantised: Quantised, team: Team) -> tuple[float, int]:
    del quantised, team
    return -leaf.split.gain, leaf.node


def by_deviance(leaf: OpenLeaf, quantised: Quantised, team: Team) -> tuple[float, int]:
    gradients = quantised.packed[leaf.rows] >> 32
    # Squares of 16-bit halves, whose sums fit into 64 bits. Python's integers have no limit: the difference
    # of the two large sums below is exact.
    high = gradients >> 16
    low = gradients & 0xFFFF
    sums = [
        len(gradients),
        gradients.sum(),
        (high * high).sum(),
        (high * low).sum(),
        (low * low).sum(),
    ]
    totals = team.total(np.array(sums))
    count, total, high_high, high_low, low_low = map(int, totals)
    squares = (high_high << 32) + (high_low << 17) + low_low
    deviance = (count * squares - total * total) / count
    return -deviance * quantised.gradient_unit**2, -leaf.node


def depth_wise(leaf: OpenLeaf, quantised: Quantised, team: Team) -> tuple[float, int]:
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
        leaf_l2: (L,), L2 penalty of each leaf in addition to l2.
    """

    tree: Tree
    rows: Rows
    leaf_start: NDArray[np.int64]
    leaf_node: NDArray[np.int64]
    leaf_bounds: NDArray[np.float64]
    leaf_l2: NDArray[np.float64]


FeatureDraw = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""(F,) mask of the features that a tree may use -> (F,) mask of those that one leaf may be split on."""


@dataclass(eq=False)
class Grower:
    """Grows trees on one binned data set; reuses its working memory for every tree.

    Args:
        binned: the data set.
        num_leaves: maximum number of leaves per tree.
        settings: requirements of a split.
        growth: order in which leaves are split, a name in ORDERS.
        signs: (F,), monotone constraints; None: no constraint.
        team: the members of the fit, of which each has a part of the documents.
    """

    binned: AnyBins
    num_leaves: int
    settings: SplitSettings
    growth: str = "best_first"
    signs: Signs | None = None
    team: Team = ALONE

    def __post_init__(self) -> None:
        binned = self.binned
        num_leaves = self.num_leaves
        self.is_constrained = self.signs is not None or self.settings.l1 > 0
        no_signs = np.zeros(binned.num_columns, dtype=np.int8)
        self.signs_of_columns = (
            no_signs if self.signs is None else self.signs[binned.feature_of_column]
        )
        self.bin_start = bin_starts(binned)
        num_cells = int(self.bin_start[-1])
        require_memory(
            f"the histograms of {num_leaves} leaves with {num_cells} bins",
            8 * num_histograms(num_leaves) * num_cells,
            "Set num_leaves or max_bins lower, or, for sparse features, min_docs_in_leaf higher.",
        )
        shape = num_histograms(num_leaves), num_cells
        self.histograms = np.empty(shape, dtype=np.int64)
        self.scratch = np.empty(binned.num_documents, dtype=np.uint32)
        most_categories = max(map(len, binned.categories.codes), default=0)
        self.is_left = np.zeros((num_leaves - 1, most_categories), dtype=np.bool_)

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
            return self._grown(nodes, whole, 0, rows)
        columns = features[self.binned.feature_of_column]
        memory = Memory(rows, self.scratch, self.histograms, columns, self.is_left)
        growth = _Growth(
            self, quantised, nodes, whole, memory, features, features_of_leaf
        )
        is_default = self.growth == "best_first" and not (
            self.settings.cut_without_gain or self.is_constrained
        )
        is_compiled = is_default and features_of_leaf is None and self.team.size == 1
        num_cuts = growth.cut_compiled() if is_compiled else growth.cut_by_steps()
        return self._grown(nodes, whole, num_cuts, rows)

    def _grown(
        self, nodes: Nodes, whole: Nodes, num_cuts: int, rows: Rows
    ) -> GrownTree:
        binned = self.binned
        num_nodes = 2 * num_cuts + 1
        cut_nodes = nodes.order[:num_cuts]
        # This member's part of a leaf may be empty: only the parts of all members define the order of leaves.
        first = whole.first[:num_nodes]
        end = whole.end[:num_nodes]
        column, last_bin, missing_left = nodes.cut[cut_nodes].T
        num_numeric = binned.num_columns - len(binned.categories.codes)
        is_category = column >= num_numeric
        numbers = (column - num_numeric).tolist()
        of_cuts = zip(numbers, self.is_left, strict=False)
        sets = [self._codes_on_left(*of_cut) for of_cut in of_cuts]
        tree = _leaves(end - first, max(map(len, sets), default=0))
        tree.feature[cut_nodes] = binned.feature_of_column[column]
        last_bin = np.where(is_category, 0, last_bin)
        tree.threshold[cut_nodes] = binned.upper_edges(column, last_bin)
        tree.left[cut_nodes] = np.arange(1, num_nodes, 2)
        tree.right[cut_nodes] = np.arange(2, num_nodes, 2)
        tree.missing_left[cut_nodes] = missing_left & ~is_category
        tree.gain[cut_nodes] = nodes.gain[cut_nodes]
        for node, codes in zip(cut_nodes, sets, strict=True):
            tree.left_categories[node, : len(codes)] = codes
        has_many = binned.num_bins[column] > self.settings.max_cat_to_onehot
        l2_of_children = (is_category & has_many) * self.settings.cat_l2
        more_l2 = np.append(0.0, np.repeat(l2_of_children, 2))
        leaves = np.flatnonzero(tree.feature == NO_FEATURE)
        leaves = leaves[np.argsort(first[leaves])]
        leaf_start = np.append(nodes.first[leaves], len(rows))
        return GrownTree(
            tree, rows, leaf_start, leaves, nodes.bounds[leaves], more_l2[leaves]
        )

    def _codes_on_left(
        self, number: int, is_left: NDArray[np.bool_]
    ) -> NDArray[np.float32] | tuple[()]:
        """Returns the categories that go left in a split.

        Args:
            number: number of the column among the categorical ones; negative for a numeric column.
            is_left: whether each bin goes left.
        """
        if number < 0:
            return ()
        codes = self.binned.categories.codes[number]
        return codes[is_left[: len(codes)]]


def _leaves(num_documents: NDArray[np.int64], most_categories: int) -> Tree:
    """Returns a tree whose (N,) nodes are leaves of the value 0."""
    num_nodes = len(num_documents)
    no_categories = np.full((num_nodes, most_categories), np.nan, dtype=np.float32)
    return Tree(
        feature=np.full(num_nodes, NO_FEATURE, dtype=np.int32),
        threshold=np.zeros(num_nodes, dtype=np.float32),
        left=np.arange(num_nodes, dtype=np.int32),
        right=np.arange(num_nodes, dtype=np.int32),
        missing_left=np.zeros(num_nodes, dtype=np.bool_),
        gain=np.zeros(num_nodes),
        value=np.zeros(num_nodes),
        num_documents=num_documents,
        left_categories=no_categories,
    )


@dataclass(eq=False)
class _Growth:
    """A tree during growth: its nodes, a priority queue of open leaves, and unused histograms.

    `nodes` has the parts of this member's rows. `whole` has the parts of the rows of all members, as if they
    were in one array, for the numbers of documents; it is the same object if the fit has one member.
    """

    grower: Grower
    quantised: Quantised
    nodes: Nodes
    whole: Nodes
    memory: Memory
    features: NDArray[np.bool_]
    features_of_leaf: FeatureDraw | None

    def __post_init__(self) -> None:
        self.team = self.grower.team
        self.task = task_of(self.grower.binned, self.quantised)
        self.terms = split_terms(self.grower.settings, self.quantised)
        self.unused = list(self.grower.histograms)
        self.open_leaves: list[tuple[tuple[float, int], OpenLeaf, Histogram]] = []

    def cut_compiled(self) -> int:
        """Makes all splits with `grow_best_first`; returns their number."""
        grower = self.grower
        settings = self.grower.settings
        limits = Limits(grower.num_leaves, settings.least_docs, settings.max_depth)
        return grow_best_first(
            self.task, grower.binned.layout, self.terms, limits, self.nodes, self.memory
        )

    def cut_by_steps(self) -> int:
        """Makes all splits step by step; returns their number."""
        if self.may_cut(0):
            root = self.unused.pop()
            self.build(0, root, root[:0])
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
        self.cut(leaf, left, histogram)
        # If both have the same size, the left one counts as the smaller.
        smaller, larger = sorted((left, left + 1), key=self.size)
        candidates = [node for node in (smaller, larger) if self.may_cut(node)]
        histograms = {larger: histogram}
        if candidates and number + 2 < self.grower.num_leaves:
            histograms[smaller] = self.unused.pop()
            self.build(smaller, histograms[smaller], histogram)
            self.open({node: histograms.pop(node) for node in candidates})
        self.unused.extend(histograms.values())
        num_remaining = self.grower.num_leaves - 2 - number
        while len(self.open_leaves) > num_remaining:
            self.close_last()

    def close_last(self) -> None:
        """Closes the last open leaf in the order of splits."""
        keys = [key for key, _, _ in self.open_leaves]
        last = keys.index(max(keys))
        _, _, histogram = self.open_leaves.pop(last)
        heapq.heapify(self.open_leaves)
        self.unused.append(histogram)

    def cut(self, leaf: OpenLeaf, left: int, histogram: Histogram) -> None:
        """Partitions a leaf's rows between the nodes left and left + 1."""
        nodes = self.nodes
        (node, _, split) = leaf
        nodes.cut[node] = (split.column, split.bin, split.missing_left)
        nodes.gain[node] = split.gain
        searched = leaf_to_search(
            histogram, leaf.rows, self.memory.columns, self.size(node)
        )
        layout = self.grower.binned.layout
        num_left = cut_node(
            self.task, layout, self.terms, nodes, node, left, searched, self.memory
        )
        if self.whole is not nodes:
            counted = split.num_left
            if counted is None:
                total = self.team.total(np.array([num_left]))
                counted = int(total[0])
            divide(self.whole, node, left, counted)
        nodes.bounds[left : left + 2] = split.left_bounds, split.right_bounds

    def build(self, node: int, histogram: Histogram, parent: Histogram) -> None:
        """Builds a histogram, and subtracts it from the parent's, which may be empty."""
        build_histogram(
            self.task,
            self.grower.binned.layout,
            self.terms,
            self.rows_of(node),
            histogram,
        )
        histogram[:] = self.team.total(histogram)
        if len(parent):
            parent -= histogram

    def open(self, histograms: dict[int, Histogram]) -> None:
        """Searches for the best splits of leaves; a leaf without a split is not opened."""
        searches = [
            self.search(node, histogram) for node, histogram in histograms.items()
        ]
        splits = find_splits(searches, self.team)
        for (node, histogram), split in zip(histograms.items(), splits, strict=True):
            if split is None:
                self.unused.append(histogram)
            else:
                leaf = OpenLeaf(node, self.rows_of(node), split)
                key = ORDERS[self.grower.growth](leaf, self.quantised, self.team)
                heapq.heappush(self.open_leaves, (key, leaf, histogram))

    def search(self, node: int, histogram: Histogram) -> Search:
        grower = self.grower
        constraints = None
        if grower.is_constrained:
            low, high = self.nodes.bounds[node]
            signs = grower.signs_of_columns
            constraints = constraints_of(
                grower.settings, self.quantised, signs, (low, high)
            )
        leaf = leaf_to_search(
            histogram, self.rows_of(node), self.columns_of_leaf(), self.size(node)
        )
        return search(self.task, grower.binned.layout, leaf, self.terms, constraints)

    def may_cut(self, node: int) -> bool:
        depth = int(self.nodes.depth[node])
        rows = self.rows_of(node)
        settings = self.grower.settings
        return may_be_cut(
            settings, self.quantised, rows, depth, self.size(node), self.team
        )

    def size(self, node: int) -> int:
        """Returns the number of documents of all members in a node."""
        return int(self.whole.end[node] - self.whole.first[node])

    def rows_of(self, node: int) -> Rows:
        first = self.nodes.first[node]
        return self.memory.rows[first : self.nodes.end[node]]

    def columns_of_leaf(self) -> NDArray[np.bool_]:
        drawn = (
            self.features
            if self.features_of_leaf is None
            else self.features_of_leaf(self.features)
        )
        if drawn is self.features:
            return self.memory.columns
        return drawn[self.grower.binned.feature_of_column]
