"""The trees of a model as text and as JSON.

In both a document goes to the left branch (the upper one in text) if its value is at most the threshold. The
value of a leaf is before shrinkage: multiplied by the weight of the tree, it is added to the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ltrbench.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree

_LARGEST = float(np.finfo(np.float32).max)


def as_nested(ensemble: Ensemble) -> list[dict[str, Any]]:
    """Returns one record per tree: its nested nodes, with its weight in the record of the root.

    An initial score that is not 0 is added as a last tree with one leaf, so that the leaf values times the
    weights always sum to the score.
    """
    trees = list(ensemble.trees)
    if ensemble.base_score != 0:
        trees.append(WeightedTree(1.0, Leaf(ensemble.base_score)))
    return [{"weight": tree.weight, **_record(tree.root)} for tree in trees]


def _record(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"value": node.value}
    return {
        "feature": node.feature,
        "threshold": node.threshold,
        "missing": "left" if node.missing_left else "right",
        **({"zero": "missing"} if node.zero_missing else {}),
        "left": _record(node.left),
        "right": _record(node.right),
    }


def as_lines(ensemble: Ensemble, feature_names: Sequence[str]) -> Iterator[str]:
    """Yields the lines of all trees.

    >>> tree = InnerNode(0, 0.5, True, left=Leaf(-0.25), right=Leaf(1.0))
    >>> print(*as_lines(Ensemble((WeightedTree(0.1, tree),)), ["bm25"]), sep="\\n")
    tree 1, weight 0.1
    bm25 <= 0.5 or missing
    |- yes: -0.25
    `- no:  +1
    """
    if ensemble.base_score != 0:
        yield f"initial score {_number(ensemble.base_score)}"
        yield ""
    for number, tree in enumerate(ensemble.trees):
        if number > 0:
            yield ""
        yield _title(number, tree)
        yield from _lines(tree.root, feature_names)


def _lines(node: Node, feature_names: Sequence[str], first: str = "", margin: str = "") -> Iterator[str]:
    """Yields the line of a node, which begins with `first`, and of its descendants, which begin with
    `margin`."""
    yield f"{first}{_words(node, feature_names)}"
    if isinstance(node, InnerNode):
        yield from _lines(node.left, feature_names, f"{margin}|- yes: ", f"{margin}|  ")
        yield from _lines(node.right, feature_names, f"{margin}`- no:  ", f"{margin}   ")


def _title(number: int, tree: WeightedTree) -> str:
    return f"tree {number + 1}, weight {tree.weight:.6g}"


def _words(node: Node, feature_names: Sequence[str]) -> str:
    """Returns the condition of a node, or the value of a leaf."""
    if isinstance(node, Leaf):
        return _number(node.value)
    name = feature_names[node.feature]
    name = f"feature {name}" if name.isdigit() else name  # LETOR features have only numbers
    if node.threshold == _LARGEST and not node.zero_missing:
        return f"{name} is not missing"
    words = f"{name} <= {node.threshold:.6g}"
    if node.zero_missing:
        return f"{words} or 0 or missing" if node.missing_left else f"{words} and not 0"
    return f"{words} or missing" if node.missing_left else words


def _number(value: float) -> str:
    return f"{value:+.6g}"
