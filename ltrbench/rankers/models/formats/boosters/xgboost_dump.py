"""XGBoost's dump: the JSON of `Booster.dump_model`, which search engines read.

A file is a list of trees, and a tree is its root:

    {"nodeid", "depth", "split": feature name, "split_condition", "yes", "no", "missing", "children"}
    {"nodeid", "leaf"}

A value goes to `yes` if it is smaller than `split_condition`, and a missing value to `missing`. The dump has
neither a base score nor tree weights. Here leaf values contain the weights, and `base_score_as_tree` turns
the base score into a tree. N nodes of a tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.formats.float32 import float32_leaf_values, float32_texts
from ltrbench.rankers.models.scoring import FlatTree, flat
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, nodes_of

NumberTexts = Callable[[NDArray[np.floating]], list[str]]
"""Returns the texts of (N,) float32 numbers."""

_LARGEST = float(np.finfo(np.float32).max)
_BELOW_ALL = -1e39
"""A threshold below all finite float32, for either comparison."""


def write_xgboost_dump(
    ensemble: Ensemble, feature_names: Sequence[str], texts: NumberTexts | None = None
) -> bytes:
    """Returns the trees as XGBoost dumps them, with numbers that are exact as float32.

    Args:
        feature_names: F names of the features.
        texts: returns the texts of float32 numbers; None: `float32_texts`.

    Raises:
        ConfigError: A leaf value is beyond float32.
    """
    names = [json.dumps(name) for name in feature_names]
    trees = (_nested(tree, names, texts or float32_texts) for tree in float32_trees(ensemble))
    return ("[" + ",\n".join(trees) + "]\n").encode()


def base_score_as_tree(ensemble: Ensemble) -> Ensemble:
    """Returns the same model with base score 0, for formats without one: the first tree is one leaf.

    A sum that starts with 0 then has the same rounding as before.

    >>> base_score_as_tree(Ensemble((WeightedTree(0.1, Leaf(2.0)),), base_score=0.5)).trees[0]
    WeightedTree(weight=1.0, root=Leaf(value=0.5), shrinkage=1.0)
    """
    if ensemble.base_score == 0 and ensemble.trees:
        return ensemble
    first = WeightedTree(1.0, Leaf(ensemble.base_score))
    return replace(ensemble, trees=(first, *ensemble.trees), base_score=0.0)


def float32_trees(ensemble: Ensemble) -> Iterator[FlatTree]:
    """Yields the trees in XGBoost's arithmetic: `<`, float32 thresholds, float32 leaf values with weights.

    A finite float32 value goes where it went before, for any comparison and dtype of the ensemble. So does
    infinity, unless `divides_by_presence`.

    Raises:
        ConfigError: A leaf value is beyond float32.
    """
    for number, weighted in enumerate(ensemble.trees):
        tree = flat(without_infinite_thresholds(weighted.root, ensemble.comparison))
        thresholds = _smallest_right(tree.threshold, ensemble.comparison)
        yield tree._replace(
            threshold=np.where(tree.is_leaf, 0.0, thresholds),
            value=float32_leaf_values(tree, weighted.weight, ensemble.score_dtype, number),
        )


def divides_by_presence(ensemble: Ensemble) -> bool:
    """Returns whether a split sends every finite value left, so that only missing values can go right."""
    return any(
        isinstance(node, InnerNode) and _sends_all_left(node, ensemble.comparison)
        for tree in ensemble.trees
        for node in nodes_of(tree.root)
    )


def without_infinite_thresholds(root: Node, comparison: str) -> Node:
    """Returns a tree with finite thresholds of `<`, because JSON has no infinity.

    A split that sends every finite value left gets its children exchanged, and a threshold below all of them:
    finite values go right, to the same child as before, and missing values to the other side. Only an
    infinite value may go elsewhere.
    """
    done: dict[int, Node] = {}
    for node in reversed(nodes_of(root)):  # children come before their parent
        if isinstance(node, Leaf):
            done[id(node)] = node
            continue
        left, right = done[id(node.left)], done[id(node.right)]
        if _sends_all_left(node, comparison):
            left, right = right, left
            node_changes = {"threshold": _BELOW_ALL, "missing_left": not node.missing_left}
        else:
            node_changes = {}
        done[id(node)] = replace(node, left=left, right=right, **node_changes)  # type: ignore[arg-type]
    return done[id(root)]


def _sends_all_left(node: InnerNode, comparison: str) -> bool:
    return node.threshold > _LARGEST if comparison == "<" else node.threshold >= _LARGEST


def float64_text(values: NDArray[np.floating]) -> list[str]:
    """Returns the shortest decimal numbers of float32 numbers as float64, for readers that do not round.

    >>> float64_text(np.array([0.1], dtype=np.float32))
    ['0.10000000149011612']
    """
    return [repr(value) for value in values.astype(np.float32).astype(np.float64).tolist()]


def breadth_first(tree: FlatTree) -> NDArray[np.int64]:
    """Returns the (N,) nodes level by level, as XGBoost numbers them: a right child follows the left one."""
    levels, level = [], np.zeros(1, dtype=np.int64)
    while len(level):
        levels.append(level)
        inner = level[~tree.is_leaf[level]]
        level = np.stack([tree.left[inner], tree.right[inner]], axis=1).ravel()
    return np.concatenate(levels)


def _smallest_right(bounds: NDArray[np.float64], comparison: str) -> NDArray[np.float32]:
    """Returns the smallest float32 that goes right, at most the largest finite one, (N,)."""
    with np.errstate(all="ignore"):
        rounded = bounds.astype(np.float32)
        above = np.nextafter(rounded, np.float32(np.inf))
    stays_left = rounded <= bounds if comparison == "<=" else rounded < bounds
    return np.clip(np.where(stays_left, above, rounded), -_LARGEST, _LARGEST)


def _nested(tree: FlatTree, names: Sequence[str], texts: NumberTexts) -> str:
    """Returns the JSON of a tree, written from left to right, so that its depth is not limited."""
    order = breadth_first(tree)
    ids = np.empty_like(order)
    ids[order] = np.arange(len(order))
    numbers = texts(np.where(tree.is_leaf, tree.value, tree.threshold))
    is_leaf = tree.is_leaf.tolist()
    feature, left, right = tree.feature.tolist(), ids[tree.left].tolist(), ids[tree.right].tolist()
    missing = ids[np.where(tree.missing_left, tree.left, tree.right)].tolist()
    parts: list[str] = []
    children_to_come: list[int] = []  # of each split above the node
    for node, (nodeid, number) in enumerate(zip(ids.tolist(), numbers, strict=True)):
        if not is_leaf[node]:
            parts.append(
                f'{{"nodeid":{nodeid},"depth":{len(children_to_come)},"split":{names[feature[node]]},'
                f'"split_condition":{number},"yes":{left[node]},"no":{right[node]},'
                f'"missing":{missing[node]},"children":['
            )
            children_to_come.append(2)
            continue
        parts.append(f'{{"nodeid":{nodeid},"leaf":{number}}}')
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                parts.append(",")
                break
            children_to_come.pop()
            parts.append("]}")
    return "".join(parts)
