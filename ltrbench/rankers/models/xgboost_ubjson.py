"""XGBoost's UBJSON model files: the parser, and the checks of files of our own runs.

A model has parameters as texts, and trees as arrays over their nodes.

XGBoost refuses invalid UBJSON, but does not check the indices of children and features. This file checks what
XGBoost's reader relies on: the lengths of a tree's arrays, child and feature indices, and finite numbers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.splits import check_split_features, is_deep

_DEPTH = 20
_NUMBERS = {"i": "b", "U": "B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_CONSTANTS = {"T": True, "F": False, "Z": None, "N": None}
_FLOAT = r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?"
_OF_NODES = {
    "left_children": np.int32,
    "right_children": np.int32,
    "parents": np.int32,
    "split_indices": np.int32,
    "split_conditions": np.float32,
    "default_left": np.uint8,
    "base_weights": np.float32,
    "loss_changes": np.float32,
    "sum_hessian": np.float32,
    "split_type": np.uint8,
}
_OF_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


def check_ubjson(content: bytes) -> bool:
    """Checks the content of a ranking model written by `Booster.save_raw("ubj")`.

    Returns:
        Whether a tree `is_deep`.

    Raises:
        ValueError: the content is not such a model.
    """
    learner = _part(parse_ubjson(content), "learner", dict)
    parameters = _part(learner, "learner_model_param", dict)
    num_features = _whole(parameters, "num_feature")
    if _whole(parameters, "num_class") not in (0, 1) or _whole(parameters, "num_target") != 1:
        raise ValueError("the model has more than one score per document")
    if not re.fullmatch(rf"\[?{_FLOAT}\]?", str(parameters.get("base_score"))):
        raise ValueError("base_score is not a number")
    if not str(_part(learner, "objective", dict).get("name")).startswith("rank:"):
        raise ValueError("the objective is not a ranking objective")
    booster = _part(learner, "gradient_booster", dict)
    forest = _part(booster, "model", dict)
    trees = _part(forest, "trees", list)
    if booster.get("name") != "gbtree" or _whole(
        _part(forest, "gbtree_model_param", dict), "num_trees"
    ) != len(trees):
        raise ValueError("the declared number of trees differs from the actual number")
    _check_rounds(forest, len(trees))
    base_score = abs(float(str(parameters["base_score"]).strip("[]")))
    largest = base_score + sum(_largest(tree, number, num_features) for number, tree in enumerate(trees))
    if not largest < np.finfo(np.float32).max:
        raise ValueError("the sum of the largest value of each tree is not finite")
    return any(is_deep(tree["left_children"], tree["right_children"]) for tree in trees)


def parse_ubjson(content: bytes) -> Any:
    """Returns the value of a UBJSON file: dictionaries, lists, texts, numbers, and arrays of numbers.

    Raises:
        ValueError: the content is not UBJSON, or is nested too deeply.
    """
    reader = _Reader(content)
    value = reader.value(reader.marker(), _DEPTH)
    if reader.place != len(content):
        raise ValueError("the file has further content after the model")
    return value


def _check_rounds(forest: Mapping[str, Any], num_trees: int) -> None:
    """Checks the assignment of trees to iterations, and to the only output."""
    rounds, outputs = (np.asarray(forest.get(name)) for name in ("iteration_indptr", "tree_info"))
    if len(outputs.shape) != 1 or len(outputs) != num_trees or outputs.any():
        raise ValueError("tree_info is not 0 for every tree")
    rising = len(rounds.shape) == 1 and len(rounds) > 1 and rounds[0] == 0 and rounds[-1] == num_trees
    if not rising or not (rounds[1:] > rounds[:-1]).all():
        raise ValueError("iteration_indptr does not increase from 0 to the number of trees")


def _largest(tree: Any, number: int, num_features: int) -> float:
    """Checks a tree; returns the largest absolute value of a leaf."""
    parameters = _part(tree, "tree_param", dict)
    num_nodes = _whole(parameters, "num_nodes")
    if _whole(parameters, "num_feature") != num_features or _whole(parameters, "size_leaf_vector") > 1:
        raise ValueError(f"tree {number} has another number of features or outputs than the model")
    if tree.get("id") != number or num_nodes < 1:
        raise ValueError(f"tree {number} has another id or no nodes")
    for name, dtype in _OF_NODES.items():
        values = _part(tree, name, np.ndarray)
        if values.shape != (num_nodes,) or values.dtype != dtype:
            raise ValueError(f"{name} of tree {number} is not an array of {num_nodes} {np.dtype(dtype)}")
    if tree["split_type"].any() or any(len(tree.get(name, ())) for name in _OF_CATEGORIES):
        raise ValueError(f"tree {number} has categorical splits")
    is_leaf = tree["left_children"] == -1
    _check_nodes(tree["left_children"], tree["right_children"], tree["parents"], is_leaf)
    check_split_features(tree["split_indices"][~is_leaf], num_features)
    if np.isnan(tree["split_conditions"]).any() or not np.isfinite(tree["split_conditions"][is_leaf]).all():
        raise ValueError(f"tree {number} has a threshold that is not a number, or a leaf value not finite")
    return float(np.abs(tree["split_conditions"][is_leaf]).max(initial=0.0))


def _check_nodes(
    left: NDArray[np.int32], right: NDArray[np.int32], parents: NDArray[np.int32], is_leaf: NDArray[np.bool_]
) -> None:
    """Checks that each node has at most one parent and the root has none, so that no path from the root
    returns to a node. Nodes that pruning has removed have no parent either."""
    inner = np.flatnonzero(~is_leaf)
    children = np.concatenate([left[inner], right[inner]])
    if (right[is_leaf] != -1).any() or ((children < 1) | (children >= len(left))).any():
        raise ValueError("a child index is out of range")
    if len(np.unique(children)) != len(children) or (parents[children] != np.tile(inner, 2)).any():
        raise ValueError("a child and its parent do not refer to each other")


def _part(place: Any, name: str, kind: type[Any]) -> Any:
    part = place.get(name) if isinstance(place, dict) else None
    if not isinstance(part, kind):
        raise ValueError(f"{name} is missing or has another type than in XGBoost's files")
    return part


def _whole(parameters: Mapping[str, Any], name: str) -> int:
    text = parameters.get(name)
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{name} is not a non-negative integer")
    return int(text)


class _Reader:
    """Reads UBJSON from a position; raises ValueError on truncated or unknown content."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def take(self, length: int) -> bytes:
        taken = self.content[self.place : self.place + length]
        if len(taken) != length:
            raise ValueError("the file is truncated")
        self.place += length
        return taken

    def marker(self) -> str:
        return self.take(1).decode("ascii")

    def number(self, marker: str) -> Any:
        if marker not in _NUMBERS:
            raise ValueError(f"{marker!r} is not the type of a number")
        form = _NUMBERS[marker]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self, marker: str) -> int:
        length = self.number(marker)
        if not isinstance(length, int) or length < 0:
            raise ValueError(f"{length} is not a length")
        return length

    def text(self) -> str:
        return self.take(self.length(self.marker())).decode()

    def value(self, marker: str, depth: int) -> Any:
        if depth == 0:
            raise ValueError("the file is nested too deeply")
        if marker == "{":
            return self.table(depth)
        if marker == "[":
            return self.array(depth)
        if marker == "S":
            return self.text()
        return _CONSTANTS[marker] if marker in _CONSTANTS else self.number(marker)

    def table(self, depth: int) -> dict[str, Any]:
        table: dict[str, Any] = {}
        while (marker := self.marker()) != "}":
            name = self.take(self.length(marker)).decode()
            if name in table:
                raise ValueError(f"{name} is given twice")
            table[name] = self.value(self.marker(), depth - 1)
        return table

    def array(self, depth: int) -> Any:
        marker = self.marker()
        if marker == "$":
            kind, hash_sign = self.marker(), self.marker()
            length = self.length(self.marker())
            if kind not in _NUMBERS or hash_sign != "#":
                raise ValueError("an array has values that are not numbers")
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(length * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if marker == "#":
            return [self.value(self.marker(), depth - 1) for _ in range(self.length(self.marker()))]
        items = []
        while marker != "]":
            items.append(self.value(marker, depth - 1))
            marker = self.marker()
        return items
