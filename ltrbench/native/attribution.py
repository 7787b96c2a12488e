"""Scores of documents with other values of one feature, for many features and values at once.

Permutation importances score the same documents hundreds of times, each time with other values of one
feature. In most trees most documents then reach the same leaf as before. This file routes 64 documents
through a tree once, as in `forest`, and repeats only what another value of the feature can change.

The leaves of a tree are numbered. For a node i, let leaf[i] be the numbers of the leaves that the documents
reach from i, whether they reach i or not. They are stored by binary digits: in word b of leaf[i], bit d is
digit b of the number of document d. A node comes after its parent, so a loop from the last node to the first
computes

    leaf[i] = right[i] & leaf[right child]  |  ~right[i] & leaf[left child]

where `right[i]` is the word of the documents that split i sends to the right. With other values of feature j,
this changes at the splits on j and at their ancestors only. The ancestors of all splits on j send every
document where it went before. The steps of a tree and a feature are therefore

    every split on j, and every split between two splits on j,

and a document has another leaf if leaf[i] has changed at the first split i on j that it reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import combinations
from math import factorial
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.forest import (
    ALL,
    NUM_BITS,
    NUM_WORDS,
    Forest,
    PackedForest,
    above,
    blend,
    columns_of_block,
    lowest,
    reference_scores,
    route,
)
from ltrbench.native.nodes import NO_FEATURE, Tree
from ltrbench.shapes import Features, Values

_TREES = 4
"""Number of trees that are added to the scores together, which saves reading and writing the scores."""


def reference_replaced_scores(
    forest: Forest, features: Features, columns: NDArray[np.int64], values: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Specification: scores copies of the documents."""
    scores = np.empty(values.shape)
    for c, column in enumerate(columns):
        for i, others in enumerate(values[c]):
            replaced = features.copy()
            replaced[:, column] = others
            scores[c, i] = reference_scores(forest, replaced)
    return scores


def replaced_scores(
    forest: Forest, features: Features, columns: NDArray[np.int64], values: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Returns (C, n, D) scores, with the bits of `add_scores`: scores[c, i] are the scores of the documents
    if feature columns[c] had the values values[c, i].

    Args:
        features: (D, F) in C order.
        columns: (C,), different features.
        values: (C, n, D).
    """
    steps = _steps(forest)
    rows = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, values.shape[2])
    scores = np.empty(rows.shape)
    for array in (features := features.view(), rows := rows.view()):
        array.flags.writeable = False  # so that one compilation serves read-only and writable arrays
    pairs = _pairs(forest.packed, steps, columns)
    _all_blocks(forest.packed, steps, features, pairs, rows, scores)
    return scores.reshape(values.shape)


def _pairs(forest: PackedForest, steps: _Steps, columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns (T, C), the place in `steps.first_step` of each tree and feature; -1 if the tree does not split
    on the feature."""
    num_trees = len(forest.first_cut) - 1
    pairs = np.full((num_trees, len(columns)), -1)
    tree = np.repeat(np.arange(num_trees), np.diff(steps.first_pair).astype(np.int64))
    feature = forest.features[steps.pair_column].astype(np.int64)
    place_of_feature = np.full(1 + max(feature.max(initial=0), columns.max(initial=0)), -1)
    place_of_feature[columns] = np.arange(len(columns))
    place = place_of_feature[feature]
    kept = np.flatnonzero(place >= 0)
    pairs[tree[kept], place[kept]] = kept
    return pairs


class _Steps(NamedTuple):
    """N steps, sorted by tree, then by feature, then by split from the last to the first.

    A row is an index in the array of leaf[i]: the leaves of a tree come first, then its splits, then its
    splits with other values of the feature.

    Attributes:
        left_row: (I,), row of the left child of each split of the forest.
        right_row: (I,), row of the right child, likewise.
        first_pair: (T + 1,), index of each tree's first feature in `pair_column`, followed by their number.
        pair_column: (P,), index in `PackedForest.features` of each feature of a tree.
        first_step: (P + 1,), index of the first step of each feature of a tree, followed by N.
        cut: (N,), split of the step, as an index within the tree.
        new_left: (N,), row of its left child, with other values of the feature if they matter.
        new_right: (N,), row of its right child, likewise.
        is_first: (N,), whether it is a split on the feature without an ancestor on the feature.
    """

    left_row: NDArray[np.uint32]
    right_row: NDArray[np.uint32]
    first_pair: NDArray[np.uint64]
    pair_column: NDArray[np.uint32]
    first_step: NDArray[np.uint64]
    cut: NDArray[np.uint32]
    new_left: NDArray[np.uint32]
    new_right: NDArray[np.uint32]
    is_first: NDArray[np.bool_]


@lru_cache(maxsize=1)
def _steps(whole: Forest) -> _Steps:
    forest = whole.packed
    first_cut = forest.first_cut.astype(np.int64)
    num_trees, num_features, most = len(first_cut) - 1, max(len(forest.features), 1), max(forest.most_cuts, 1)
    tree = np.repeat(np.arange(num_trees), np.diff(first_cut))
    num_cuts = np.diff(first_cut)[tree]
    cut = np.arange(len(tree)) - first_cut[tree]
    children = [side.astype(np.int64) for side in (forest.left, forest.right)]
    rows = [np.where(child < num_cuts, most + 1 + child, child - num_cuts) for child in children]
    column = forest.column.astype(np.int64)
    split, of_column, is_first = _splits_of_steps(column, _parents(first_cut[tree], num_cuts, children))

    def key(column: NDArray[np.int64], cut: NDArray[np.int64]) -> NDArray[np.int64]:
        return (tree[split] * num_features + column) * most + most - 1 - cut

    keys, kept = np.unique(key(of_column, cut[split]), return_index=True)
    split, of_column = split[kept], of_column[kept]
    new = []
    for child, row in zip(children, rows, strict=True):
        is_step = (child < num_cuts)[split] & np.isin(key(of_column, child[split]), keys)
        new.append(row[split] + most * is_step)
    pairs, first_step = np.unique(keys // most, return_index=True)
    return _Steps(
        left_row=rows[0].astype(np.uint32),
        right_row=rows[1].astype(np.uint32),
        first_pair=np.searchsorted(pairs // num_features, np.arange(num_trees + 1)).astype(np.uint64),
        pair_column=(pairs % num_features).astype(np.uint32),
        first_step=np.append(first_step, len(keys)).astype(np.uint64),
        cut=cut[split].astype(np.uint32),
        new_left=new[0].astype(np.uint32),
        new_right=new[1].astype(np.uint32),
        is_first=is_first[split] & (of_column == column[split]),
    )


def _parents(
    first: NDArray[np.int64], num_cuts: NDArray[np.int64], children: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Returns (I,), the parent of each split of the forest; -1 for a root."""
    parent = np.full(len(first), -1)
    for child in children:
        splits = np.flatnonzero(child < num_cuts)
        parent[(first + child)[splits]] = splits
    return parent


def _splits_of_steps(
    column: NDArray[np.int64], parent: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the split and the feature of each step, some of them repeated, and (I,), whether a split has no
    ancestor on the same feature."""
    is_first = np.ones(len(column), dtype=np.bool_)
    below, at = np.arange(len(column)), parent
    passed_below, passed = [below], [below]
    while len(below):
        below, at = below[at >= 0], at[at >= 0]
        is_same = column[at] == column[below]
        is_first[below[is_same]] = False
        below, at = below[~is_same], at[~is_same]
        passed_below.append(below)
        passed.append(at)
        at = parent[at]
    starts, splits = np.concatenate(passed_below), np.concatenate(passed)
    # Of the splits above, those between two splits on the feature.
    kept = (starts == splits) | ~is_first[starts]
    return splits[kept], column[starts[kept]], is_first


@parallel_kernel
def _all_blocks(
    forest: PackedForest,
    steps: _Steps,
    features: Features,
    pairs: NDArray[np.int64],
    values: NDArray[np.float32],
    scores: Values,
) -> None:
    for block in numba.prange((len(features) + NUM_BITS - 1) // NUM_BITS):
        _one_block(forest, steps, features, pairs, values, scores, block * NUM_BITS)


@kernel
def _one_block(
    forest: PackedForest,
    steps: _Steps,
    features: Features,
    pairs: NDArray[np.int64],
    values: NDArray[np.float32],
    scores: Values,
    start: int,
) -> None:
    """Computes the scores of 64 documents from `start` on, or of the documents that are left."""
    end, num_trees = min(start + NUM_BITS, len(features)), len(pairs)
    columns, missing = columns_of_block(forest.features, features[start:end])
    new, new_missing = _new_values(values[:, start:end])
    block, sums = _empty_block(forest.most_cuts), np.zeros((len(values), NUM_BITS))
    num_values = len(values) // max(pairs.shape[1], 1)
    for first in range(0, num_trees, _TREES):
        num_batch = min(_TREES, num_trees - first)
        for k in range(_TREES):
            if k < num_batch:
                route(forest, first + k, columns, missing, end - start, block.reached[k], block.right[k])
                _set_leaves(forest, steps, first + k, block.right[k], block.leaf[k])
                _set_values(forest, first + k, block.leaf[k], block.number, block.value[k])
            else:
                block.value[k] = 0.0
        for column in range(pairs.shape[1]):
            for k in range(_TREES):
                has_splits = k < num_batch and pairs[first + k, column] >= 0
                block.source[k] = _TREES + k if has_splits else k
            for row in range(column * num_values, (column + 1) * num_values):
                for k in range(num_batch):
                    if block.source[k] != k:
                        pair = pairs[first + k, column]
                        _replace(forest, steps, first + k, pair, new[row], new_missing[row], block, k)
                _add_trees(block.value, block.source, sums[row])
    for row in range(len(values)):
        for d in range(end - start):
            scores[np.uint64(row), np.uint64(start + d)] = sums[np.uint64(row), np.uint64(d)]


class _Block(NamedTuple):
    """Arrays for 64 documents and B trees with at most C splits.

    Attributes:
        reached: (B, 2 C + 1), word of the documents that reach each split and leaf.
        right: (B, C), word of the documents that each split sends to the right.
        leaf: (B, (3 C + 1) digits), leaf[i] of each row.
        number: (64,), number of the leaf that each document reaches in one of the trees.
        value: (2 B, 64), value of this leaf in each tree; then the same with other values of a feature.
        source: (B,), row of `value` of each tree for a feature.
    """

    reached: NDArray[np.uint64]
    right: NDArray[np.uint64]
    leaf: NDArray[np.uint64]
    number: NDArray[np.uint64]
    value: Values
    source: NDArray[np.int64]


@inlined_kernel
def _empty_block(most_cuts: int) -> _Block:
    num_digits = NUM_WORDS
    while most_cuts >> num_digits:
        num_digits += NUM_WORDS
    leaf = np.zeros((_TREES, (3 * most_cuts + 1) * num_digits), dtype=np.uint64)
    for number in range(most_cuts + 1):
        for digit in range(num_digits):
            if (number >> digit) & 1:
                leaf[:, number * num_digits + digit] = ALL
    return _Block(
        np.empty((_TREES, 2 * most_cuts + 1), dtype=np.uint64),
        np.empty((_TREES, most_cuts), dtype=np.uint64),
        leaf,
        np.empty(NUM_BITS, dtype=np.uint64),
        np.empty((2 * _TREES, NUM_BITS)),
        np.empty(_TREES, dtype=np.int64),
    )


@inlined_kernel
def _new_values(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
    """Returns the values of a block, (R, 64), and the words of its missing values, (R,)."""
    new = np.zeros((len(values), NUM_BITS), dtype=np.float32)
    missing = np.zeros(len(values), dtype=np.uint64)
    for i in range(len(values)):
        row = np.uint64(i)
        for j in range(values.shape[1]):
            d = np.uint64(j)
            x = values[row, d]
            new[row, d] = x
            missing[row] |= np.uint64(x != x) << d
    return new, missing


@inlined_kernel
def _set_leaves(
    forest: PackedForest, steps: _Steps, t: int, right: NDArray[np.uint64], leaf: NDArray[np.uint64]
) -> None:
    """Computes leaf[i] of all splits of a tree."""
    first = forest.first_cut[t]
    num_cuts, split_row = forest.first_cut[t + 1] - first, np.uint64(forest.most_cuts + 1)
    num_digits = np.uint64(len(leaf) // (3 * forest.most_cuts + 1))
    for i in range(num_cuts):
        cut = num_cuts - np.uint64(1) - np.uint64(i)
        left_row, right_row = steps.left_row[first + cut], steps.right_row[first + cut]
        _blend(leaf, num_digits, split_row + cut, np.uint64(left_row), np.uint64(right_row), right[cut])


@inlined_kernel
def _blend(
    leaf: NDArray[np.uint64],
    num_digits: np.uint64,
    row: np.uint64,
    left: np.uint64,
    right: np.uint64,
    goes_right: np.uint64,
) -> None:
    """Computes leaf[i] of a split from those of its children."""
    for start in range(0, num_digits, NUM_WORDS):
        b = np.uint64(start)
        blend(leaf, row * num_digits + b, left * num_digits + b, right * num_digits + b, goes_right)


@inlined_kernel
def _set_values(
    forest: PackedForest, t: int, leaf: NDArray[np.uint64], number: NDArray[np.uint64], value: Values
) -> None:
    """Computes the value of the leaf of a tree that each document reaches."""
    has_splits = forest.first_cut[t + 1] > forest.first_cut[t]
    root = np.uint64(forest.most_cuts + 1) if has_splits else np.uint64(0)
    num_digits = np.uint64(len(leaf) // (3 * forest.most_cuts + 1))
    number[:] = np.uint64(0)
    for digit in range(num_digits):
        b = np.uint64(digit)
        word = leaf[root * num_digits + b]
        for document in range(NUM_BITS):
            d = np.uint64(document)
            number[d] |= ((word >> d) & np.uint64(1)) << b
    # Every earlier tree has one more leaf than splits.
    first_leaf = forest.first_cut[t] + np.uint64(t)
    for document in range(NUM_BITS):
        d = np.uint64(document)
        value[d] = forest.value[first_leaf + number[d]]


@inlined_kernel
def _add_trees(value: Values, source: NDArray[np.int64], sums: Values) -> None:
    first, second, third, fourth = value[source[0]], value[source[1]], value[source[2]], value[source[3]]
    for document in range(NUM_BITS):
        d = np.uint64(document)
        sums[d] = (((sums[d] + first[d]) + second[d]) + third[d]) + fourth[d]


@inlined_kernel
def _replace(
    forest: PackedForest,
    steps: _Steps,
    t: int,
    pair: int,
    new: NDArray[np.float32],
    new_missing: np.uint64,
    block: _Block,
    k: int,
) -> None:
    """Computes the value of the leaf of a tree that each document reaches with other values of a feature.

    Args:
        t: tree; tree k of the block.
        pair: place of the tree and the feature in `steps.first_step`.
        new: (64,), values of the feature.
        new_missing: word of the missing ones.
    """
    reached, right, leaf = block.reached[k], block.right[k], block.leaf[k]
    value, new_value = block.value[k], block.value[_TREES + k]
    num_digits = np.uint64(len(leaf) // (3 * forest.most_cuts + 1))
    for document in range(NUM_BITS):
        new_value[np.uint64(document)] = value[np.uint64(document)]
    column, first = steps.pair_column[pair], forest.first_cut[t]
    split_row, new_row = np.uint64(forest.most_cuts + 1), np.uint64(2 * forest.most_cuts + 1)
    for i in range(steps.first_step[pair], steps.first_step[pair + 1]):
        step = np.uint64(i)
        cut = np.uint64(steps.cut[step])
        goes_right = right[cut]
        if forest.column[first + cut] == column:
            goes_right = above(new, forest.threshold[first + cut])
            goes_right |= new_missing & forest.missing_right[first + cut]
        left_row, right_row = np.uint64(steps.new_left[step]), np.uint64(steps.new_right[step])
        _blend(leaf, num_digits, new_row + cut, left_row, right_row, goes_right)
        if steps.is_first[step]:
            before, after = (split_row + cut) * num_digits, (new_row + cut) * num_digits
            values_of_leaves = forest.value[first + np.uint64(t) :]
            _set_changed(values_of_leaves, leaf, num_digits, before, after, reached[cut], new_value)


@inlined_kernel
def _set_changed(
    values_of_leaves: Values,
    leaf: NDArray[np.uint64],
    num_digits: np.uint64,
    before: np.uint64,
    after: np.uint64,
    reached: np.uint64,
    new_value: Values,
) -> None:
    """Computes the value of the documents that reach a split and whose leaf differs.

    Args:
        before: place in `leaf` of leaf[i] of the split.
        after: place in `leaf` of the same with other values of the feature.
        reached: word of the documents that reach the split.
    """
    differs = np.uint64(0)
    for digit in range(num_digits):
        differs |= leaf[before + np.uint64(digit)] ^ leaf[after + np.uint64(digit)]
    differs &= reached
    while differs != 0:
        d = lowest(differs)
        number = np.uint64(0)
        for digit in range(num_digits):
            b = np.uint64(digit)
            number |= ((leaf[after + b] >> d) & np.uint64(1)) << b
        new_value[d] = values_of_leaves[number]
        differs &= differs - np.uint64(1)


# ---- TreeSHAP: the contribution of each feature to the difference between a score and the expected score.
#
# Let S be the set of known features of a document x. The expected value v(S) of a tree is computed as
# follows: at a node whose feature is in S, follow x; at any other node take both branches, weighted by
# their shares of the training documents (Lundberg, Erion and Lee, 2018, "Consistent Individualized Feature
# Attribution for Tree Ensembles", Algorithm 1). The contribution of a feature is its Shapley value in this
# game of F features:
#
#     phi_j = sum over S without j of |S|! (F - |S| - 1)! / F! (v(S + j) - v(S))
#
# For the path from the root to a leaf, let m be the number of features on the path, o_i = 1 if x follows
# the path at all nodes that split on feature i and 0 otherwise, and z_i the product of the shares of
# training documents that follow the path at these nodes. Then
#
#     v(S) = sum over leaves of value prod_{i in S} o_i prod_{i not in S} z_i
#
# Lundberg's Algorithm 2 turns the sum over subsets into a recursion on the coefficients of a polynomial,
# and removes a feature from the polynomial by subtraction. Here, each path is a separate game, as in
# GPUTreeShap (Mitchell, Frank and Holmes, 2022), and the polynomial is integrated over the probability t
# that a feature is known (Owen, 1972, "Multilinear Extensions of Games", theorem 5):
#
#     phi_j = sum over leaves of value (o_j - z_j) integral_0^1 prod_{i != j} (t o_i + (1 - t) z_i) dt
#
# The integrand has degree m - 1, so that Gauss-Legendre quadrature with ceil(m / 2) points is exact. The
# result equals that of Algorithm 2 at the same cost, without cancellation: the integral contains no
# subtraction.

Contributions = NDArray[np.float64]
"""(D, F + 1), one column per feature, then the expected score; the sum of a row is the document's score."""


def reference_contributions(forest: Forest, features: Features) -> Contributions:
    """Specification: the sum over all subsets of features; exponential in their number."""
    num_documents, num_features = features.shape
    contributions = np.zeros((num_documents, num_features + 1))
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        contributions[:, -1] += weight * _expected(tree, features[0], frozenset(), 0)
        for d, document in enumerate(features):
            for j in range(num_features):
                contributions[d, j] += weight * _shapley_value(tree, document, j)
    return contributions


def _shapley_value(tree: Tree, document: NDArray[np.float32], j: int) -> float:
    num_features, total = len(document), 0.0
    others = [feature for feature in range(num_features) if feature != j]
    for size in range(num_features):
        share = factorial(size) * factorial(num_features - size - 1) / factorial(num_features)
        for subset in map(frozenset, combinations(others, size)):
            with_j = _expected(tree, document, subset | {j}, 0)
            total += share * (with_j - _expected(tree, document, subset, 0))
    return total


def _expected(tree: Tree, document: NDArray[np.float32], known: frozenset[int], node: int) -> float:
    """Returns v(known) of the subtree at a node: Algorithm 1."""
    feature, left, right = int(tree.feature[node]), int(tree.left[node]), int(tree.right[node])
    if feature == NO_FEATURE:
        return float(tree.value[node])
    if feature in known:
        x = document[feature]
        goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
        return _expected(tree, document, known, left if goes_left else right)
    shares = tree.num_documents[[left, right]] / tree.num_documents[node]
    of_left, of_right = (_expected(tree, document, known, below) for below in (left, right))
    return float(shares[0] * of_left + shares[1] * of_right)


def tree_shap(forest: Forest, features: Features) -> Contributions:
    """Returns the contributions for documents with features (D, F) in C order.

    The result has the same bits in every batch and on any number of threads: contributions of a document are
    added path by path. Features that no tree uses take memory in the result only.
    """
    paths, used = _paths(forest)
    contributions = np.zeros((len(features), features.shape[1] + 1))
    longest = int(np.diff(paths.first).max())
    # Always read-only, so that one compilation serves read-only and writable arrays.
    of_used = features.take(used, axis=1)
    of_used.flags.writeable = False
    sums = np.zeros((len(features), len(used) + 1))
    _all_shap_blocks(paths, *_rules((longest + 1) // 2), of_used, sums)
    contributions[:, [*used, -1]] = sums
    return contributions


class _Paths(NamedTuple):
    """P paths from a root to a leaf with E steps in total; a path has one step per feature it splits on.

    x follows a step if low < x <= high, or if x is missing and `missing` is True.

    Attributes:
        first: (P + 1,), index of each path's first step, followed by E.
        feature: (E,), place of the step's feature among the features in use.
        low: (E,), exclusive lower bound of x; NaN: no bound.
        high: (E,), inclusive upper bound of x.
        missing: (E,), whether a missing value follows the step.
        share: (E,), z: share of the training documents at the step's nodes that follow the step.
        value: (P,), leaf value times the weight of the tree.
    """

    first: NDArray[np.uint64]
    feature: NDArray[np.uint32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    missing: NDArray[np.bool_]
    share: NDArray[np.float64]
    value: NDArray[np.float64]


class _Step(NamedTuple):
    low: float = np.nan
    high: float = np.inf
    missing: bool = True
    share: float = 1.0


@lru_cache(maxsize=1)  # for consecutive blocks of documents
def _paths(forest: Forest) -> tuple[_Paths, NDArray[np.intp]]:
    """Returns the paths, and the features that they use in ascending order."""
    first, values = [0], []
    features: list[int] = []
    steps: list[_Step] = []
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        for path, value in _paths_below_root(Tree._make(array.tolist() for array in tree)):
            features += path.keys()
            steps += path.values()
            first.append(len(steps))
            values.append(weight * value)
    low, high, missing, share = zip(*steps, strict=True) if steps else ((), (), (), ())
    used, places = np.unique(np.array(features, dtype=np.intp), return_inverse=True)
    paths = _Paths(
        first=np.array(first, dtype=np.uint64),
        feature=places.astype(np.uint32),
        low=np.array(low, dtype=np.float32),
        high=np.array(high, dtype=np.float32),
        missing=np.array(missing, dtype=np.bool_),
        share=np.array(share, dtype=np.float64),
        value=np.array(values, dtype=np.float64),
    )
    return paths, used


def _paths_below_root(tree: Tree) -> Iterator[tuple[dict[int, _Step], float]]:
    """Yields for each leaf, from left to right, its path as feature -> step, and its value.

    The arrays of `tree` are lists here.
    """
    # An explicit stack, because recursion would limit the depth of trees.
    open_nodes: list[tuple[int, dict[int, _Step]]] = [(0, {})]
    while open_nodes:
        node, path = open_nodes.pop()
        feature, threshold = tree.feature[node], tree.threshold[node]
        if feature == NO_FEATURE:
            yield path, tree.value[node]
            continue
        step = path.get(feature, _Step())
        for below, goes_left in ((tree.right[node], False), (tree.left[node], True)):
            taken = _Step(
                low=step.low if goes_left else np.fmax(step.low, threshold),
                high=min(step.high, threshold) if goes_left else step.high,
                missing=step.missing and tree.missing_left[node] == goes_left,
                share=step.share * tree.num_documents[below] / tree.num_documents[node],
            )
            open_nodes.append((below, {**path, feature: taken}))


@cache
def _rules(most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns Gauss-Legendre points and weights on [0, 1]; row n - 1 contains the rule with n points."""
    points, weights = np.zeros((most, most)), np.zeros((most, most))
    for n in range(1, most + 1):
        points_on_both_sides, weights_of_rule = np.polynomial.legendre.leggauss(n)
        points[n - 1, :n], weights[n - 1, :n] = (points_on_both_sides + 1) / 2, weights_of_rule / 2
    return points, weights


LANES = 32
"""Number of documents per block; the innermost loops run over these documents and are vectorised."""


@parallel_kernel
def _all_shap_blocks(
    paths: _Paths,
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    features: Features,
    contributions: Contributions,
) -> None:
    for block in numba.prange((len(features) + LANES - 1) // LANES):
        documents = slice(block * LANES, min((block + 1) * LANES, len(features)))
        _one_shap_block(paths, points, weights, features[documents], contributions[documents])


@kernel
def _one_shap_block(
    paths: _Paths,
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    features: Features,
    contributions: Contributions,
) -> None:
    columns = np.zeros((features.shape[1], LANES), dtype=np.float32)
    columns[:, : len(features)] = features.T
    sums = np.zeros((contributions.shape[1], LANES))
    longest = 2 * len(points)
    along, before = np.empty((longest, LANES)), np.empty((longest, LANES))
    integral = np.empty((longest, LANES))
    for p in range(len(paths.value)):
        path = np.uint64(p)
        first, m = paths.first[path], paths.first[path + np.uint64(1)] - paths.first[path]
        expected = paths.value[path]
        for k in range(m):
            i = np.uint64(k)
            _go_along(paths, first + i, columns, along[i])
            integral[i] = 0.0
            expected *= paths.share[first + i]
        sums[len(sums) - 1] += expected
        rule = (m + np.uint64(1)) // np.uint64(2)
        share = paths.share[first : first + m]
        for k in range(rule):
            row, point = rule - np.uint64(1), np.uint64(k)
            _add_products(share, along, points[row, point], weights[row, point], before, integral)
        for k in range(m):
            i = np.uint64(k)
            _add_step(paths.value[path], share[i], along[i], integral[i], sums[paths.feature[first + i]])
    contributions[:] = sums[:, : len(features)].T


@kernel
def _go_along(
    paths: _Paths, step: np.uint64, columns: NDArray[np.float32], along: NDArray[np.float64]
) -> None:
    """Writes 1.0 for each document that follows a step, and 0.0 for the others."""
    values = columns[np.uint64(paths.feature[step])]
    low, high, missing = paths.low[step], paths.high[step], paths.missing[step]
    for d in range(LANES):
        x = values[np.uint64(d)]
        along[np.uint64(d)] = (x <= high and not x <= low) or (x != x and missing)


@kernel
def _add_products(
    share: NDArray[np.float64],
    along: NDArray[np.float64],
    t: float,
    weight: float,
    before: NDArray[np.float64],
    integral: NDArray[np.float64],
) -> None:
    """Adds one quadrature point to the integral of each step: weight times the factors of all other steps."""
    product = np.full(LANES, weight)
    for k in range(len(share)):
        i = np.uint64(k)
        known, unknown = along[i], (1.0 - t) * share[i]
        for lane in range(LANES):
            d = np.uint64(lane)
            before[i, d] = product[d]
            product[d] *= t * known[d] + unknown
    product[:] = 1.0
    for k in range(len(share)):
        i = np.uint64(len(share) - 1 - k)
        known, unknown = along[i], (1.0 - t) * share[i]
        for lane in range(LANES):
            d = np.uint64(lane)
            integral[i, d] += before[i, d] * product[d]
            product[d] *= t * known[d] + unknown


@kernel
def _add_step(
    value: float,
    share: float,
    along: NDArray[np.float64],
    integral: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    for lane in range(LANES):
        d = np.uint64(lane)
        sums[d] += value * (along[d] - share) * integral[d]
