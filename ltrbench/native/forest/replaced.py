"""Scores of documents with other values of one feature, for many features and values at once.

Permutation importances score the same documents hundreds of times, each time with other values of one
feature. In most trees most documents then reach the same leaf as before. This file routes 64 documents
through a tree once, as in `scoring`, and repeats only what another value of the feature can change.

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

from functools import lru_cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.forest.bits import NUM_BITS, NUM_WORDS, above, blend, lowest
from ltrbench.native.forest.scoring import (
    ALL,
    Forest,
    PackedForest,
    columns_of_block,
    reference_scores,
    route,
)
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
