"""Checks of a forest that was read from a file; kernels use its indices without bounds checks.

`flaws` takes time proportional to the number of nodes and only uses NumPy, so that loading a model compiles
nothing. For every forest without flaws, kernels stay within their arrays, every path ends at a leaf, and all
scores are finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ltrbench.native.forest.scoring import Forest
from ltrbench.native.tree.nodes import NO_FEATURE

_NODE_DTYPES = {
    "feature": np.int32,
    "threshold": np.float32,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "gain": np.float64,
    "value": np.float64,
    "num_documents": np.int64,
}
_FOREST_DTYPES = {"roots": np.int64, "weights": np.float64}


def flaws(forest: Forest, num_features: int) -> Iterator[str]:
    """Yields the flaws of a forest on F features, one sentence each.

    Use only the first one: each check relies on all earlier checks.
    """
    yield from _wrong_arrays(forest)
    yield from _wrong_roots(forest)
    yield from _wrong_values(forest, num_features)
    yield from _wrong_children(forest)
    yield from _wrong_sums(forest)


def first_flaw(forest: Forest, num_features: int) -> str | None:
    """Returns the first of the `flaws`; None if there is none."""
    return next(islice(flaws(forest, num_features), 1), None)


def _wrong_arrays(forest: Forest) -> Iterator[str]:
    """Checks that every array has one dimension, its dtype, and the same length as the others."""
    arrays = {"roots": forest.roots, "weights": forest.weights, **forest.nodes._asdict()}
    for name, dtype in (_FOREST_DTYPES | _NODE_DTYPES).items():
        array = arrays[name]
        if array.ndim != 1 or array.dtype != dtype:
            yield f"{name} has {array.ndim} dimensions of {array.dtype}, not 1 of {np.dtype(dtype)}"
    num_nodes = len(forest.nodes.feature)
    for name, array in forest.nodes._asdict().items():
        if len(array) != num_nodes:
            yield f"{name} has {len(array)} nodes, but feature has {num_nodes}"


def _wrong_roots(forest: Forest) -> Iterator[str]:
    """Checks that there are T + 1 roots, strictly increasing from 0 to the number of nodes."""
    roots, num_nodes = forest.roots, len(forest.nodes.feature)
    if len(forest.weights) == 0 or len(roots) != len(forest.weights) + 1:
        yield f"roots has length {len(roots)} and weights {len(forest.weights)}, not T + 1 and T for T trees"
    if roots[0] != 0 or roots[-1] != num_nodes or not (roots[1:] > roots[:-1]).all():
        yield f"roots do not rise strictly from 0 to the number of nodes, {num_nodes}"


def _wrong_values(forest: Forest, num_features: int) -> Iterator[str]:
    """Checks that features exist and that numbers are finite and in range."""
    nodes = forest.nodes
    is_cut = nodes.feature != NO_FEATURE
    yield from _at(
        is_cut & ((nodes.feature < 0) | (nodes.feature >= num_features)),
        "feature",
        nodes.feature,
        f"neither {NO_FEATURE} nor one of the {num_features} features",
    )
    # A threshold of infinity is valid: that split sends all values left and missing values right.
    limits = np.isnan(nodes.threshold) | (nodes.threshold == -np.inf)
    yield from _at(limits, "threshold", nodes.threshold, "which is not a valid threshold")
    for name, array in (("gain", nodes.gain), ("value", nodes.value), ("weights", forest.weights)):
        yield from _at(~np.isfinite(array), name, array, "not finite")
    yield from _at(nodes.num_documents < 0, "num_documents", nodes.num_documents, "negative")


def _wrong_children(forest: Forest) -> Iterator[str]:
    """Checks that a child comes after its only parent, in the same tree, and that a leaf is its own child."""
    nodes, node = forest.nodes, np.arange(len(forest.nodes.feature))
    is_cut, end = nodes.feature != NO_FEATURE, np.repeat(forest.roots[1:], np.diff(forest.roots))
    for name, child in (("left", nodes.left), ("right", nodes.right)):
        yield from _at(~is_cut & (child != node), name, child, "not the leaf itself")
        yield from _at(is_cut & (child <= node), name, child, "not after its parent")
        yield from _at(is_cut & (child >= end), name, child, "beyond its tree")
    parents = np.bincount(np.concatenate([nodes.left[is_cut], nodes.right[is_cut]]), minlength=len(node))
    is_root = np.zeros(len(node), dtype=np.bool_)
    is_root[forest.roots[:-1]] = True
    yield from _at(parents != ~is_root, "node", node, "not the child of exactly one other node")


def _wrong_sums(forest: Forest) -> Iterator[str]:
    """Checks that scores and total gains are finite, and that document counts add up."""
    with np.errstate(over="ignore"):
        largest = np.maximum.reduceat(np.abs(forest.nodes.value), forest.roots[:-1])
        if not np.isfinite(np.abs(forest.weights * largest).sum()):
            yield "the sum of the largest value of each tree times its weight is not finite"
        if not np.isfinite(np.abs(forest.nodes.gain).sum()):
            yield "the sum of the gains is not finite"
    yield from _wrong_counts(forest)


def _wrong_counts(forest: Forest) -> Iterator[str]:
    """Checks that a split node has documents, as many as both its children together."""
    nodes, documents = forest.nodes, forest.nodes.num_documents
    is_cut = nodes.feature != NO_FEATURE
    below = np.zeros(len(documents))
    below[is_cut] = documents[nodes.left[is_cut]].astype(np.float64) + documents[nodes.right[is_cut]]
    yield from _at(is_cut & (documents != below), "num_documents", documents, "not the sum of its children's")
    yield from _at(is_cut & (documents == 0), "num_documents", documents, "none to be split")


def _at(wrong: NDArray[np.bool_], name: str, array: NDArray[np.generic], reason: str) -> Iterator[str]:
    """Yields the first wrong element of an array with its index, its value and the reason."""
    if wrong.any():
        place = int(wrong.argmax())
        yield f"{name}[{place}] is {array[place]}, {reason}"
