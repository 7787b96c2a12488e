"""The scores of an `Ensemble` for many documents, in a compiled loop.

`rankers.models.scoring.ensemble_scores` is the specification: the scores have the same bits.

D documents, F features, T trees, N nodes of all trees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.rankers.models.scoring import flat
from ltrbench.rankers.models.trees import LARGEST_ZERO, Ensemble
from ltrbench.shapes import Features

FEW_VISITS = 1 << 15
"""Number of documents times trees below which more threads are slower than one."""

_BLOCK = 64
"""Number of documents that go down a tree one after another, while its nodes are in the cache."""


class FlatTrees(NamedTuple):
    """The nodes of all trees as arrays; the children of a node come after it.

    Attributes:
        roots: (T,), index of the root of each tree.
        feature: (N,), feature of an inner node; -1 for a leaf.
        threshold: (N,), rounded to the dtype of the ensemble; float64 compares float32 numbers alike.
        left: (N,), left child.
        right: (N,), right child.
        missing_left: (N,), whether a missing value goes left.
        zero_missing: (N,), whether 0 counts as missing.
        value: (N,), value of a leaf times the weight of its tree, in the dtype of the sum.
        base_score: (1,), in the same dtype.
        is_strict: whether a value equal to the threshold goes right.
    """

    roots: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    zero_missing: NDArray[np.bool_]
    value: NDArray[np.floating[Any]]
    base_score: NDArray[np.floating[Any]]
    is_strict: bool


def flat_trees(ensemble: Ensemble) -> FlatTrees:
    """Returns the nodes of all trees as arrays."""
    dtype = np.dtype(ensemble.score_dtype)
    trees = [flat(tree.root) for tree in ensemble.trees]
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)
    shift = np.repeat(roots, sizes)
    values = [
        tree.value.astype(dtype) * dtype.type(weighted.weight)
        for tree, weighted in zip(trees, ensemble.trees, strict=True)
    ]
    return FlatTrees(
        roots=roots,
        feature=_joined([tree.feature for tree in trees], np.int64),
        threshold=_joined([tree.threshold for tree in trees], ensemble.threshold_dtype).astype(np.float64),
        left=_joined([tree.left for tree in trees], np.int64) + shift,
        right=_joined([tree.right for tree in trees], np.int64) + shift,
        missing_left=_joined([tree.missing_left for tree in trees], np.bool_),
        zero_missing=_joined([tree.zero_missing for tree in trees], np.bool_),
        value=_joined(values, dtype),
        base_score=np.array([ensemble.base_score], dtype=dtype),
        is_strict=ensemble.comparison == "<",
    )


def _joined(arrays: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype)


def flat_scores(trees: FlatTrees, features: Features) -> NDArray[np.floating[Any]]:
    """Returns the (D,) scores of (D, F) features, in the dtype of the sum."""
    scores = np.full(len(features), trees.base_score[0])
    # Always read-only, so that one compilation serves read-only and writable arrays.
    given = np.ascontiguousarray(features).view()
    given.flags.writeable = False
    _all_blocks(trees, given, scores)
    return scores


@parallel_kernel
def _all_blocks(trees: FlatTrees, features: Features, scores: NDArray[np.floating[Any]]) -> None:
    for block in numba.prange((len(scores) + _BLOCK - 1) // _BLOCK):
        documents = slice(block * _BLOCK, min((block + 1) * _BLOCK, len(scores)))
        _one_block(trees, features[documents], scores[documents])


@kernel
def _one_block(trees: FlatTrees, features: Features, scores: NDArray[np.floating[Any]]) -> None:
    """Adds the values of all trees to the scores of a block of documents, in the order of the trees."""
    for t in range(len(trees.roots)):
        root = np.uint64(trees.roots[t])
        for d in range(len(scores)):
            document, node = np.uint64(d), root
            while trees.feature[node] >= 0:
                x = np.float64(features[document, np.uint64(trees.feature[node])])
                if x != x or (trees.zero_missing[node] and abs(x) <= LARGEST_ZERO):
                    goes_left = trees.missing_left[node]
                elif trees.is_strict:
                    goes_left = x < trees.threshold[node]
                else:
                    goes_left = x <= trees.threshold[node]
                node = np.uint64(trees.left[node] if goes_left else trees.right[node])
            scores[document] += trees.value[node]
