"""Best-first growth of a tree in one compiled loop: the steps of `grower` without Python in between.

The open leaf with the highest gain is split next (the oldest one among equal gains), until the tree has
num_leaves leaves or no leaf is open. Split number i creates the nodes 2 i + 1 and 2 i + 2. Trees with another
order of growth, feature samples per leaf, or another search use the steps in `grower`, which are the
specification; a test compares both. For small leaves, Python between compiled steps took a third of the time
of a fit [measured on MQ2007, 255 leaves]. Shapes: N = 2 num_leaves - 1, the maximum number of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.tree.binning import Rows
from ltrbench.native.tree.histogram import Histogram, Packed, build_share, shares_of, words_of_share
from ltrbench.native.tree.partition import partition
from ltrbench.native.tree.sparse.layout import SparseLayout
from ltrbench.native.tree.sparse.sums import complete_defaults, sum_stored
from ltrbench.native.tree.splitting import UNBOUNDED, BestCut, SplitTerms, best_cuts, choose

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


class Task(NamedTuple):
    """Input of growing a tree.

    Attributes:
        words: as in BinnedFeatures or SparseBins.
        num_bins: likewise.
        bin_start: (C + 1,), as returned by `bin_starts`.
        packed: (D,), packed gradients and hessians.
        columns: (C,), mask of the columns that may be used.
        num_threads: number of threads.
    """

    words: NDArray[np.uint64]
    num_bins: NDArray[np.int64]
    bin_start: NDArray[np.int64]
    packed: Packed
    columns: NDArray[np.bool_]
    num_threads: int


class Nodes(NamedTuple):
    """The nodes of a tree during growth.

    Attributes:
        first: (N,), start of the node's part of the rows.
        end: (N,), end of the node's part of the rows.
        depth: (N,), depth of the node; 0 for the root.
        histogram: (N,), index of an open leaf's histogram.
        open_gain: (N,), gain of the best split of an open leaf; -inf for other nodes.
        gain: (N,), the same, but not reset when the leaf is split.
        cut: (N, 3), best split: column, last bin that goes left, whether missing values go left.
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


def seed_of_tree(num_leaves: int, num_rows: int) -> Nodes:
    """Returns the nodes of a new tree: a root with all rows."""
    size = 2 * num_leaves - 1
    first, end, depth, histogram = np.zeros((4, size), dtype=np.int64)
    end[0] = num_rows
    histogram[0] = num_leaves - 1
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
    rows: Rows,
    scratch: Rows,
    histograms: NDArray[np.int64],
) -> int:
    """Grows the tree of `nodes` in place; returns the number of splits.

    Args:
        task: input of the tree.
        layout: where sparse bins are stored; None for dense bins.
        terms: requirements of a split.
        limits: limits of the tree.
        nodes: result of `seed_of_tree`.
        rows: (n,), reordered by leaf in place.
        scratch: (n,) or longer, working memory.
        histograms: (num_leaves, B), working memory; the last row is the root's histogram.
    """
    _open_root(task, layout, terms, limits, nodes, rows, histograms)
    num_cuts, spare = 0, np.int64(0)
    while num_cuts + 1 < limits.num_leaves:
        node = int(np.argmax(nodes.open_gain[: 2 * num_cuts + 1]))  # the first of equal gains
        if nodes.open_gain[node] == -np.inf:
            break
        nodes.open_gain[node] = -np.inf
        nodes.order[num_cuts] = node
        left = 2 * num_cuts + 1
        _cut(task, layout, nodes, node, left, rows, scratch)
        num_cuts += 1
        if num_cuts + 1 < limits.num_leaves:
            spare += _open_below(task, layout, terms, limits, nodes, node, left, rows, histograms, spare)
    return num_cuts


@inlined_kernel
def _cut(
    task: Task, layout: SparseLayout | None, nodes: Nodes, node: int, left: int, rows: Rows, scratch: Rows
) -> None:
    """Partitions a node's rows between the nodes left and left + 1."""
    first, end = nodes.first[node], nodes.end[node]
    column, last_bin, missing_left = nodes.cut[node]
    part = rows[first:end]
    num_left = partition(
        task.words,
        layout,
        task.num_bins,
        column,
        last_bin,
        missing_left != 0,
        part,
        scratch,
        task.num_threads,
    )
    nodes.first[left], nodes.end[left] = first, first + num_left
    nodes.first[left + 1], nodes.end[left + 1] = first + num_left, end
    nodes.depth[left] = nodes.depth[left + 1] = nodes.depth[node] + 1


@inlined_kernel
def _open_root(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    limits: Limits,
    nodes: Nodes,
    rows: Rows,
    histograms: NDArray[np.int64],
) -> None:
    opens = _may_be_cut(limits, nodes, 0)
    if opens:
        root = histograms[nodes.histogram[0]]
        # Not the constants True and False, for which numba would compile the callee once more.
        best = build_and_search(task, layout, terms, (rows, rows[:0]), (root, root[:0]), (opens, not opens))
        _note(nodes, 0, best[0])


@inlined_kernel
def _open_below(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    limits: Limits,
    nodes: Nodes,
    node: int,
    left: int,
    rows: Rows,
    histograms: NDArray[np.int64],
    spare: np.int64,
) -> int:
    """Opens the children of a split that may be split themselves; returns how many spare histograms it used.

    The smaller child takes the spare histogram, and the larger child takes the histogram of the parent.
    """
    smaller, larger = left, left + 1
    if nodes.end[smaller] - nodes.first[smaller] > nodes.end[larger] - nodes.first[larger]:
        smaller, larger = larger, smaller
    opens_smaller, opens_larger = _may_be_cut(limits, nodes, smaller), _may_be_cut(limits, nodes, larger)
    if not opens_larger:
        return 0
    nodes.histogram[smaller], nodes.histogram[larger] = spare, nodes.histogram[node]
    rows_of_smaller = rows[nodes.first[smaller] : nodes.end[smaller]]
    rows_of_larger = rows[nodes.first[larger] : nodes.end[larger]]
    best = build_and_search(
        task,
        layout,
        terms,
        (rows_of_smaller, rows_of_larger),
        (histograms[spare], histograms[nodes.histogram[node]]),
        (opens_smaller, opens_larger),
    )
    _note(nodes, larger, best[1])
    if opens_smaller:
        _note(nodes, smaller, best[0])
    return int(nodes.open_gain[smaller] > -np.inf)


@parallel_kernel
def build_and_search(
    task: Task,
    layout: SparseLayout | None,
    terms: SplitTerms,
    rows: tuple[Rows, Rows],
    histograms: tuple[Histogram, Histogram],
    opens: tuple[bool, bool],
) -> tuple[BestCut, BestCut]:
    """Builds the first leaf's histogram, subtracts it from the second's, and finds the best split of both.

    Each thread does all three steps for its share of the columns while their bins are in its cache. Threads
    synchronise once per split.

    Args:
        task: input of the tree.
        layout: where sparse bins are stored; None for dense bins.
        terms: requirements of a split.
        rows: rows of the two leaves; the second may be empty.
        histograms: output for the first leaf; histogram of both leaves together, or empty.
        opens: whether each leaf is searched.
    """
    num_columns, num_words = len(task.num_bins), task.words.shape[1]
    gains, cuts = np.full((2, num_columns), -np.inf), np.empty((2, num_columns, 2), dtype=np.int64)
    if layout is None:
        num_shares = shares_of(num_words, task.num_threads)
        for share in numba.prange(num_shares):
            word_range = words_of_share(share, num_shares, num_words)
            _one_share(task, terms, word_range, rows[0], histograms, opens, gains, cuts)
    else:
        total = sum_stored(task.words, layout, rows[0], task.packed, histograms[0], task.num_threads)
        num_parts = PARTS_PER_THREAD * task.num_threads
        for part in numba.prange(num_parts):
            columns = part * num_columns // num_parts, (part + 1) * num_columns // num_parts
            _one_part(task, layout, terms, columns, total, histograms, opens, gains, cuts)
    words, bin_start = task.words, task.bin_start
    return (
        choose(words, layout, bin_start, histograms[0], rows[0], terms, gains[0], cuts[0]),
        choose(words, layout, bin_start, histograms[1], rows[1], terms, gains[1], cuts[1]),
    )


@kernel
def _one_share(
    task: Task,
    terms: SplitTerms,
    word_range: tuple[int, int],
    rows: Rows,
    histograms: tuple[Histogram, Histogram],
    opens: tuple[bool, bool],
    gains: NDArray[np.float64],
    cuts: NDArray[np.int64],
) -> None:
    """Runs `build_and_search` for a range of words; writes the (2, C) gains and their (2, C, 2) splits."""
    build_share(task.words, word_range, task.bin_start, rows, task.packed, histograms[0], histograms[1])
    columns = 8 * word_range[0], min(8 * word_range[1], len(task.columns))
    _search_columns(task, terms, columns, histograms, opens, gains, cuts)


@kernel
def _one_part(
    task: Task,
    layout: SparseLayout,
    terms: SplitTerms,
    columns: tuple[int, int],
    total: int,
    histograms: tuple[Histogram, Histogram],
    opens: tuple[bool, bool],
    gains: NDArray[np.float64],
    cuts: NDArray[np.int64],
) -> None:
    """Runs `build_and_search` for a range of columns of sparse bins, after their stored bins are summed."""
    complete_defaults(layout, columns, total, histograms[0], histograms[1])
    _search_columns(task, terms, columns, histograms, opens, gains, cuts)


@kernel
def _search_columns(
    task: Task,
    terms: SplitTerms,
    columns: tuple[int, int],
    histograms: tuple[Histogram, Histogram],
    opens: tuple[bool, bool],
    gains: NDArray[np.float64],
    cuts: NDArray[np.int64],
) -> None:
    for k in range(2):
        if opens[k]:
            best_cuts(columns, task.bin_start, histograms[k], task.columns, terms, gains[k], cuts[k])


@inlined_kernel
def _may_be_cut(limits: Limits, nodes: Nodes, node: int) -> bool:
    if nodes.end[node] - nodes.first[node] < limits.min_docs:
        return False
    return limits.max_depth == 0 or nodes.depth[node] < limits.max_depth


@inlined_kernel
def _note(nodes: Nodes, node: int, best: BestCut) -> None:
    """Stores the best split of a node; the node is open if a split was found."""
    nodes.open_gain[node] = nodes.gain[node] = best[0]
    nodes.cut[node, 0], nodes.cut[node, 1], nodes.cut[node, 2] = best[1], best[2], best[3]
