"""Scores of many trees: 64-document bitmasks, stored values, binned features, checks of trees.

Operations on 64-bit words that have one bit per document, using processor instructions via LLVM.

Each operation has a plain Python function, which is its specification and runs if numba is disabled. Compiled
code uses LLVM instructions instead. For the comparison of 64 values, a loop compiled by numba takes 2.6 times
as long, and for the values of the reached leaves 2 times [measured].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, inlined_kernel, kernel
from ltrbench.data.features import SparseRows
from ltrbench.native import NO_FEATURE, Tree, reference_leaf
from ltrbench.native.bins import BinnedFeatures
from ltrbench.shapes import Features, Values

NUM_BITS = 64

_AT_ONCE = 32
"""Number of documents whose values `add_reached` keeps in registers."""

FEWEST_SUMS = 10
"""Number of documents of a block from which the values of leaves are added to all sums at once."""


@kernel
def num_places(num_documents: int) -> int:
    """Returns the number of places of a block: half of the bits suffice for a short list."""
    if num_documents <= _AT_ONCE:
        return _AT_ONCE
    return NUM_BITS


@kernel
def above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    """Returns a word in which bit d is set if values[d] > threshold; NaN is never above.

    Args:
        values: (32,) or (64,).
    """
    return reference_above(values, threshold)


@kernel
def lowest(word: np.uint64) -> np.uint64:
    """Returns the index of the lowest set bit; the word must not be 0."""
    return reference_lowest(word)


@kernel
def add_reached(sums: Values, values: Values, words: NDArray[np.uint64]) -> None:
    """Adds to each sum the value of the leaf whose word has its bit; no bit is in two words.

    Args:
        sums: (32,) or (64,).
        values, words: (L,), the value of each leaf, and the documents that reach it.
    """
    reference_add_reached(sums, values, words)


def reference_add_reached(
    sums: Values, values: Values, words: NDArray[np.uint64]
) -> None:
    for leaf, word in enumerate(words.tolist()):
        reached = [d for d in range(len(sums)) if word >> d & 1]
        for d in reached:
            sums[d] += values[leaf]


def reference_above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    bits = [1 << d for d, value in enumerate(values) if value > threshold]
    return np.uint64(sum(bits))


def reference_lowest(word: np.uint64) -> np.uint64:
    lowest_alone = int(word) & -int(word)
    return np.uint64(lowest_alone.bit_length() - 1)


def _type_above(context: Any, values: Any, threshold: Any) -> Any:
    return types.uint64(values, threshold), _generate_above


def _generate_above(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generates a comparison of two vectors of all floats; its result bits form an integer."""
    make = context.make_array(signature.args[0])
    array = make(context, builder, arguments[0])
    word = cgutils.alloca_once(builder, ir.IntType(NUM_BITS))  # type: ignore[no-untyped-call]

    def compare(num_values: int) -> None:
        vector = ir.VectorType(ir.FloatType(), num_values)
        of_documents = builder.load(
            builder.bitcast(array.data, vector.as_pointer()), align=4
        )
        is_above = builder.fcmp_ordered(
            ">", of_documents, _splat(builder, arguments[1], vector)
        )
        bits = builder.bitcast(is_above, ir.IntType(num_values))
        builder.store(builder.zext(bits, ir.IntType(NUM_BITS)), word)

    num_values = builder.extract_value(array.shape, 0)
    is_short = builder.icmp_signed("<=", num_values, num_values.type(_AT_ONCE))
    with builder.if_else(is_short) as (if_short, otherwise):
        with if_short:
            compare(_AT_ONCE)
        with otherwise:
            compare(NUM_BITS)
    return builder.load(word)


def _type_lowest(context: Any, word: Any) -> Any:
    return types.uint64(word), _generate_lowest


def _generate_lowest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.IntType(1)(1))


def _type_add_reached(context: Any, sums: Any, values: Any, words: Any) -> Any:
    return types.void(sums, values, words), _generate_add_reached


def _generate_add_reached(
    context: Any, builder: Any, signature: Any, arguments: Any
) -> Any:
    """Generates a loop over leaves for each part of the documents, whose values fit into registers."""
    made = []
    for kind, argument in zip(signature.args, arguments, strict=True):
        make = context.make_array(kind)
        made.append(make(context, builder, argument))
    sums, values, words = made
    vector = ir.VectorType(ir.DoubleType(), _AT_ONCE)
    num_sums = builder.extract_value(sums.shape, 0)
    for first in range(0, NUM_BITS, _AT_ONCE):
        has_sums = builder.icmp_signed("<", num_sums.type(first), num_sums)
        with builder.if_then(has_sums):
            reached = _reached_values(builder, values, words, first)
            of_part = builder.gep(sums.data, [ir.IntType(64)(first)])
            target = builder.bitcast(of_part, vector.as_pointer())
            before = builder.load(target, align=8)
            builder.store(builder.fadd(before, reached), target, align=8)
    return context.get_dummy_value()


def _reached_values(builder: Any, values: Any, words: Any, first: int) -> Any:
    """Generates the loop over leaves; returns the values that documents from `first` on reach."""
    vector = ir.VectorType(ir.DoubleType(), _AT_ONCE)
    zeros = ir.Constant(vector, None)
    reached: Any = cgutils.alloca_once_value(builder, zeros)  # type: ignore[no-untyped-call]
    num_leaves = builder.extract_value(values.shape, 0)
    with cgutils.for_range(builder, num_leaves) as leaf:
        value = _splat(builder, _loaded(builder, values, leaf.index), vector)
        word = _loaded(builder, words, leaf.index)
        of_part = builder.lshr(word, word.type(first))
        bits = builder.trunc(of_part, ir.IntType(_AT_ONCE))
        is_reached = builder.bitcast(bits, ir.VectorType(ir.IntType(1), _AT_ONCE))
        others = builder.load(reached)
        builder.store(builder.select(is_reached, value, others), reached)
    return builder.load(reached)


def _loaded(builder: Any, array: Any, index: Any) -> Any:
    return builder.load(builder.gep(array.data, [index]))


def _splat(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    """Returns a vector of one value."""
    index = ir.IntType(32)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, index(0))
    # All zeros: each element is the first one.
    everywhere = ir.Constant(ir.VectorType(index, vector.count), None)
    return builder.shuffle_vector(first, first, everywhere)


_above: Any = intrinsic(_type_above)
_add_reached: Any = intrinsic(_type_add_reached)
_lowest: Any = intrinsic(_type_lowest)
overload(reference_above, strict=False)(
    lambda values, threshold: lambda values, threshold: _above(values, threshold)
)
overload(reference_add_reached, strict=False)(
    lambda sums, values, words: (
        lambda sums, values, words: _add_reached(sums, values, words)
    )
)
overload(reference_lowest, strict=False)(lambda word: lambda word: _lowest(word))

# ---- Forests: sequences of weighted trees, and the scores of documents.
#
# Let leaf_t(x) be the value of the leaf that document x reaches in tree t. The score of x is
#
#     sum over t of weight_t leaf_t(x)
#
# added in the order of the trees: it has the same bits in every batch and on any number of threads.
#
# For speed, 64 documents are routed through a tree together. For each node, a 64-bit word contains one bit
# per document: whether the document reaches the node. All documents reach the root. A split compares the
# feature values of all 64 documents with the threshold. Let `right` be the word of the documents that go
# right:
#
#     reached[left child] = reached[node] & ~right,   reached[right child] = reached[node] & right.
#
# This evaluates every split of a tree, whereas a single document only needs the splits on its path. But it
# has no unpredictable branches, no step waits for the previous step of the same document, and 8 or 16
# values are compared at once. QuickScorer also uses bitmasks, with one bit per leaf instead of one per
# document (Lucchese et al., 2015, "QuickScorer: A Fast Algorithm to Rank Documents with Additive Ensembles
# of Regression Trees").


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
        roots = self.roots[: num_trees + 1]
        end = roots[-1]
        nodes = Tree._make(array[:end] for array in self.nodes)
        return Forest(roots, nodes, self.weights[:num_trees])

    def trees(self) -> list[Tree]:
        """Returns the trees as separate arrays, the inverse of `plant`."""
        trees = []
        for root, end in pairwise(self.roots):
            tree = Tree._make(array[root:end] for array in self.nodes)
            left = tree.left - np.int32(root)
            right = tree.right - np.int32(root)
            trees.append(tree._replace(left=left, right=right))
        return trees


def plant(
    trees: Sequence[Tree], weights: Sequence[float] | NDArray[np.float64]
) -> Forest:
    """Joins one or more trees into a forest."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=roots[1:])
    left_categories = _padded_categories(trees, roots)
    other_arrays = [tree[:-1] for tree in trees]
    joined = map(np.concatenate, zip(*other_arrays, strict=True))
    nodes = Tree._make([*joined, left_categories])
    shift = np.repeat(roots[:-1].astype(np.int32), sizes)
    left = nodes.left + shift
    right = nodes.right + shift
    nodes = nodes._replace(left=left, right=right)
    return Forest(roots, nodes, np.array(weights, dtype=np.float64))


def _padded_categories(trees: Sequence[Tree], roots: NDArray[np.int64]) -> Features:
    """Returns the categories of all nodes, padded with NaN to the largest number of them."""
    width = max(tree.left_categories.shape[1] for tree in trees)
    shape = (roots[-1], width)
    padded = np.full(shape, np.nan, dtype=np.float32)
    for tree, (first, end) in zip(trees, pairwise(roots), strict=True):
        num_categories = tree.left_categories.shape[1]
        padded[first:end, :num_categories] = tree.left_categories
    return padded


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
    in_parts(_add_to_blocks, _num_blocks(scores), forest.packed, features, scores)


def _num_blocks(scores: Values) -> int:
    return (len(scores) + NUM_BITS - 1) // NUM_BITS


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
        categorical: (K + 1,), splits on categorical features, ascending, followed by I.
        left_categories: (K, S), codes of the categories that they send left, padded with NaN.
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
    categorical: NDArray[np.uint64]
    left_categories: NDArray[np.float32]


def _pack(forest: Forest) -> PackedForest:
    """Converts a forest to the layout that the scoring kernel reads."""
    nodes = forest.nodes
    is_cut = forest.nodes.feature != NO_FEATURE
    num_nodes = np.diff(forest.roots)
    tree = np.repeat(np.arange(forest.num_trees), num_nodes)
    cuts_before = np.append(0, np.cumsum(is_cut))
    first_cut = cuts_before[forest.roots]
    first_leaf = forest.roots - first_cut
    cut = np.cumsum(is_cut) - 1 - first_cut[tree]
    leaf = np.cumsum(~is_cut) - 1 - first_leaf[tree]
    num_cuts = np.diff(first_cut)
    number = np.where(is_cut, cut, num_cuts[tree] + leaf)
    number = number.astype(np.uint32)
    features, column = np.unique(nodes.feature[is_cut], return_inverse=True)
    values = forest.weights[tree] * nodes.value
    threshold = nodes.threshold[is_cut]
    by_categories = np.flatnonzero(np.isnan(threshold))
    categorical = np.append(by_categories, first_cut[-1])
    missing_left = nodes.missing_left[is_cut]
    left_categories = nodes.left_categories[np.isnan(nodes.threshold)]
    return PackedForest(
        features=features.astype(np.uint32),
        first_cut=first_cut.astype(np.uint64),
        most_cuts=int(num_cuts.max()),
        column=column.astype(np.uint32),
        threshold=threshold,
        missing_right=np.where(missing_left, np.uint64(0), ALL),
        left=number[nodes.left[is_cut]],
        right=number[nodes.right[is_cut]],
        value=values[~is_cut],
        categorical=categorical.astype(np.uint64),
        left_categories=left_categories,
    )


@kernel
def _add_to_blocks(
    part: Part, forest: PackedForest, features: Features, scores: Values
) -> None:
    for block in range(part[0], part[1]):
        first = block * NUM_BITS
        end = min((block + 1) * NUM_BITS, len(scores))
        columns, missing = columns_of_block(forest.features, features[first:end])
        add_trees(forest, columns, missing, scores[first:end])


@kernel
def add_trees(
    forest: PackedForest, columns: Features, missing: NDArray[np.uint64], scores: Values
) -> None:
    """Adds the values of all trees to the scores of a block of at most 64 documents.

    Args:
        forest: the trees.
        columns: (C, 32) or (C, 64), values of the features in `forest.features`.
        missing: (C,), word of the missing values of each of these features.
        scores: (n,), scores of the documents.
    """
    reached = np.empty(2 * forest.most_cuts + 1, dtype=np.uint64)
    num_before = np.uint64(0)
    # In a short list most of the sums would be of no document.
    sums = np.zeros(columns.shape[1])
    copy_values(scores, sums)
    for t in range(len(forest.first_cut) - 1):
        first = forest.first_cut[t]
        end = forest.first_cut[t + 1]
        reached[0] = ALL >> np.uint64(NUM_BITS - len(scores))
        start = first
        while start < end:
            stop = min(end, forest.categorical[num_before])
            for i in range(start, stop):
                cut = np.uint64(i)
                here = reached[cut - first]
                column = np.uint64(forest.column[cut])
                goes_right = above(columns[column], forest.threshold[cut])
                goes_right |= missing[column] & forest.missing_right[cut]
                reached[np.uint64(forest.left[cut])] = here & ~goes_right
                reached[np.uint64(forest.right[cut])] = here & goes_right
            if stop < end:
                here = reached[stop - first]
                values = columns[np.uint64(forest.column[stop])]
                goes_right = _in_no_category(
                    forest.left_categories[num_before], values, here
                )
                reached[np.uint64(forest.left[stop])] = here & ~goes_right
                reached[np.uint64(forest.right[stop])] = goes_right
                num_before += np.uint64(1)
            start = stop + np.uint64(1)
        # Every earlier tree has one more leaf than splits.
        leaves = first + np.uint64(t), end - first + np.uint64(1)
        _add_leaves(forest.value, leaves, reached, sums, scores)
    if len(scores) >= FEWEST_SUMS:
        copy_values(sums[: len(scores)], scores)


@kernel
def copy_values(source: Values, target: Values) -> None:
    """Copies the source to the front of the target; compiles in less time than an assignment to a slice."""
    for i in range(len(source)):
        target[i] = source[i]


@inlined_kernel
def _add_leaves(
    value: Values,
    leaves: tuple[np.uint64, np.uint64],
    reached: NDArray[np.uint64],
    sums: Values,
    scores: Values,
) -> None:
    """Adds the values of a tree's leaves to the sums, or to the scores of a short list.

    Args:
        leaves: the first leaf in `value`, and the number of leaves, whose words follow those of the splits.
    """
    first, num_leaves = leaves
    num_cuts = num_leaves - np.uint64(1)
    if len(scores) >= FEWEST_SUMS:
        of_tree = value[first : first + num_leaves]
        add_reached(sums, of_tree, reached[num_cuts : num_cuts + num_leaves])
    else:
        for i in range(num_leaves):
            leaf = np.uint64(i)
            _add(value[first + leaf], reached[num_cuts + leaf], scores)


@kernel
def _in_no_category(
    categories: NDArray[np.float32], values: NDArray[np.float32], here: np.uint64
) -> np.uint64:
    """Returns the word of the documents of `here` with a value that is none of the categories."""
    goes_right = here
    rest = here
    while rest != 0:
        d = lowest(rest)
        is_left = False
        for i in range(len(categories)):
            is_left |= categories[np.uint64(i)] == values[d]
        goes_right ^= np.uint64(is_left) << d
        rest &= rest - np.uint64(1)
    return goes_right


@kernel
def columns_of_block(
    used: NDArray[np.uint32], features: Features
) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the (C, places) used features of a block, and (C,) for each the word of its missing values."""
    shape = (len(used), num_places(len(features)))
    columns = np.empty(shape, dtype=np.float32)
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


# ---- Scores of sparse documents from their stored values, without dense rows.
#
# Only the features that the trees split on are read: for a block of 64 documents, their values start as the
# absent value, and the stored values replace it. The time is proportional to the number of stored values,
# also for 10^6 features, and the scores have the same bits as float features.

_NOT_USED = -1


class _Stored(NamedTuple):
    """The stored values of all documents.

    Attributes:
        row_start: (D + 1,), position of each document's first value, followed by n.
        features: (n,), feature of each value.
        values: (n,).
        slot: (F,), index of each feature among those of the forest, or _NOT_USED.
        absent: value of all other features, 0 or NaN.
    """

    row_start: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    slot: NDArray[np.int32]
    absent: float


def add_stored_scores(forest: Forest, sparse: SparseRows, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place."""
    slot = np.full(sparse.num_features, _NOT_USED, dtype=np.int32)
    slot[forest.packed.features] = np.arange(len(forest.packed.features))
    stored = _Stored(
        sparse.row_start, sparse.columns, sparse.values, slot, sparse.absent
    )
    num_blocks = _num_blocks(scores)
    in_parts(_add_to_stored_blocks, num_blocks, forest.packed, stored, scores)


@kernel
def _add_to_stored_blocks(
    part: Part, forest: PackedForest, stored: _Stored, scores: Values
) -> None:
    for block in range(part[0], part[1]):
        first = block * NUM_BITS
        end = min((block + 1) * NUM_BITS, len(scores))
        columns, missing = _columns(len(forest.features), stored, first, end - first)
        add_trees(forest, columns, missing, scores[first:end])


@kernel
def _columns(
    num_used: int, stored: _Stored, first: int, num_documents: int
) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the (U, places) used features of a block, and (U,) for each the word of its missing values."""
    shape = (num_used, num_places(num_documents))
    columns = np.full(shape, stored.absent, dtype=np.float32)
    missing = np.full(
        num_used, np.uint64(0) if stored.absent == 0 else ALL, dtype=np.uint64
    )
    for i in range(num_documents):
        d = np.uint64(first + i)
        bit = np.uint64(1) << np.uint64(i)
        for j in range(stored.row_start[d], stored.row_start[d + np.uint64(1)]):
            slot = stored.slot[np.uint64(stored.features[np.uint64(j)])]
            if slot != _NOT_USED:
                c = np.uint64(slot)
                x = stored.values[np.uint64(j)]
                columns[c, np.uint64(i)] = x
                missing[c] = missing[c] | bit if x != x else missing[c] & ~bit
    return columns, missing


# ---- Checks of a forest that was read from a file; kernels use its indices without bounds checks.
#
# They take time proportional to the number of nodes and only use NumPy, so that loading a model compiles
# nothing. For every forest without flaws, kernels stay within their arrays, and every path ends at a leaf.

_DTYPES = {
    "roots": np.int64,
    "weights": np.float64,
    "feature": np.int32,
    "threshold": np.float32,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "gain": np.float64,
    "value": np.float64,
    "num_documents": np.int64,
    "left_categories": np.float32,
}


def first_flaw(forest: Forest, num_features: int) -> str | None:
    """Returns the first flaw of a forest on F features, as a sentence; None if there is none."""
    # The checks of nodes rely on those of arrays.
    return next(chain(_wrong_arrays(forest), _wrong_nodes(forest, num_features)), None)


def _wrong_arrays(forest: Forest) -> Iterator[str]:
    """Checks the shape and the dtype of every array, and the roots."""
    num_nodes = len(forest.nodes.feature)
    roots = forest.roots
    arrays = {"roots": roots, "weights": forest.weights, **forest.nodes._asdict()}
    num_trees = len(forest.weights)
    sizes = {"roots": num_trees + 1, "weights": num_trees}
    for name, dtype in _DTYPES.items():
        array = arrays[name]
        shape: tuple[int, ...] = (sizes.get(name, num_nodes),)
        if name == "left_categories":
            shape += array.shape[1:2]
        if array.shape != shape or array.dtype != dtype:
            is_now = f"shape {array.shape} of {array.dtype}"
            yield f"{name} has {is_now}, not {shape} of {np.dtype(dtype)}"
    is_whole = len(roots) > 1 and roots[0] == 0 and roots[-1] == num_nodes
    if not is_whole or np.diff(roots).min() <= 0:
        yield f"roots do not rise strictly from 0 to the number of nodes, {num_nodes}"


def _wrong_nodes(forest: Forest, num_features: int) -> Iterator[str]:
    """Checks that features exist, that numbers are finite, and that every other node is one node's child."""
    nodes = forest.nodes
    is_cut = nodes.feature != NO_FEATURE
    is_known = (nodes.feature >= 0) & (nodes.feature < num_features)
    reason = f"not one of the {num_features} features"
    yield from _at(is_cut & ~is_known, "feature", nodes.feature, reason)
    # A threshold of infinity is valid: that split sends all values left and missing values right.
    # A split on a categorical feature has categories instead, and sends missing values right.
    has_categories = ~np.isnan(nodes.left_categories).all(axis=1)
    is_wrong = np.isnan(nodes.threshold) != has_categories
    yield from _at(
        is_wrong, "threshold", nodes.threshold, "not a threshold or beside categories"
    )
    is_wrong = nodes.missing_left & has_categories
    yield from _at(
        is_wrong, "missing_left", nodes.missing_left, "not false beside categories"
    )
    numbers = {"gain": nodes.gain, "value": nodes.value, "weights": forest.weights}
    for name, array in numbers.items():
        yield from _at(~np.isfinite(array), name, array, "not finite")
    yield from _wrong_children(forest)


def _wrong_children(forest: Forest) -> Iterator[str]:
    """Checks that each node except the roots is the child of one node before it in the same tree."""
    nodes = forest.nodes
    node = np.arange(len(nodes.feature))
    is_cut = nodes.feature != NO_FEATURE
    num_nodes = np.diff(forest.roots)
    end = np.repeat(forest.roots[1:], num_nodes)
    for name, child in (("left", nodes.left), ("right", nodes.right)):
        yield from _at(~is_cut & (child != node), name, child, "not the leaf itself")
        is_below = (child > node) & (child < end)
        yield from _at(
            is_cut & ~is_below, name, child, "not after its parent in the same tree"
        )
    children = np.concatenate([nodes.left[is_cut], nodes.right[is_cut]])
    parents = np.bincount(children, minlength=len(node))
    is_root = np.isin(node, forest.roots[:-1])
    yield from _at(
        parents != ~is_root, "node", node, "not the child of exactly one other node"
    )


def _at(
    wrong: NDArray[np.bool_], name: str, array: NDArray[np.generic], reason: str
) -> Iterator[str]:
    """Yields the first wrong element of an array with its index, its value and the reason."""
    if wrong.any():
        index = int(wrong.argmax())
        yield f"{name}[{index}] is {array[index]}, {reason}"


# ---- Scores of documents from their bins, during a fit: without the features, in a quarter of their
# memory.
#
# The thresholds of the trees of a fit are thresholds of its bins. All values of a bin go the same way at
# such a threshold, so that the largest of them, the threshold at the end of the bin, stands for the others:
#
#     x <= t  if and only if  thresholds[bin(x)] <= t
#
# The last bin of values has no threshold at its end; infinity stands for its values. A feature with several
# columns of bins has the smallest of the values of its columns. The scores have the same bits as those of
# float features. Shapes: D documents, F features, C columns, W words per document.


class BinValues(NamedTuple):
    """The bins of documents, and the values that stand for the bins of the features that a forest uses.

    Attributes:
        words: (D, W), as in BinnedFeatures.
        first_column: (U,), first column of each used feature.
        end_column: (U,), end of the columns of each used feature.
        thresholds: (C, 255), as in BinnedFeatures.
        missing_bins: (C,), bin of missing values.
    """

    words: NDArray[np.uint64]
    first_column: NDArray[np.uint64]
    end_column: NDArray[np.uint64]
    thresholds: NDArray[np.float32]
    missing_bins: NDArray[np.uint64]


def add_binned_scores(forest: Forest, binned: BinnedFeatures, scores: Values) -> None:
    """Adds the values of all trees to the (D,) scores, in place.

    Args:
        forest: trees whose thresholds are thresholds of the bins.
        binned: bins of the documents.
    """
    used = forest.packed.features
    features = binned.feature_of_column
    first_column = np.searchsorted(features, used, side="left")
    end_column = np.searchsorted(features, used, side="right")
    missing_bins = binned.num_bins - 1
    bins = BinValues(
        words=binned.words,
        first_column=first_column.astype(np.uint64),
        end_column=end_column.astype(np.uint64),
        thresholds=binned.thresholds,
        missing_bins=missing_bins.astype(np.uint64),
    )
    num_blocks = _num_blocks(scores)
    in_parts(_add_to_binned_blocks, num_blocks, forest.packed, bins, scores)


def reference_values(binned: BinnedFeatures, num_features: int) -> Features:
    """Specification: returns the (D, F) values that stand for the bins; NaN for the bin of missing values."""
    everyone = np.arange(binned.num_documents, dtype=np.uint32)
    values = np.full((binned.num_documents, num_features), np.inf, dtype=np.float32)
    for column, feature in enumerate(binned.feature_of_column):
        bins = binned.bins_of(column, everyone)
        of_bins = np.append(binned.thresholds[column], np.float32(np.nan))
        of_bins[binned.num_bins[column] - 1] = np.nan
        of_feature = values[:, feature]
        np.minimum(of_feature, of_bins[bins], out=of_feature)
    return values


@kernel
def _add_to_binned_blocks(
    part: Part, forest: PackedForest, bins: BinValues, scores: Values
) -> None:
    for block in range(part[0], part[1]):
        first = block * NUM_BITS
        end = min((block + 1) * NUM_BITS, len(scores))
        columns, missing = _values(bins, bins.words[first:end])
        add_trees(forest, columns, missing, scores[first:end])


@kernel
def _values(
    bins: BinValues, words: NDArray[np.uint64]
) -> tuple[Features, NDArray[np.uint64]]:
    """Returns the (U, places) values of used features, and (U,) for each the word of its missing values."""
    thresholds = bins.thresholds
    shape = (len(bins.first_column), num_places(len(words)))
    columns = np.full(shape, np.inf, dtype=np.float32)
    missing = np.zeros(len(bins.first_column), dtype=np.uint64)
    for i in range(len(words)):
        d = np.uint64(i)
        for j in range(len(bins.first_column)):
            u = np.uint64(j)
            for k in range(bins.first_column[u], bins.end_column[u]):
                c = np.uint64(k)
                bin_of = (
                    words[d, c >> np.uint64(3)] >> (np.uint64(8) * (c & np.uint64(7)))
                ) & np.uint64(255)
                if bin_of == bins.missing_bins[c]:
                    missing[u] |= np.uint64(1) << d
                    columns[u, d] = np.nan
                else:
                    columns[u, d] = min(columns[u, d], thresholds[c, bin_of])
    return columns, missing
