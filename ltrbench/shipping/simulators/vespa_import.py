"""Vespa's import of models: dumps of LightGBM and XGBoost as the terms of a ranking expression.

An importer prints a model as a text, in which a feature is the text of its name, and reads this text as a
ranking expression: a sum of if(feature < number, ..., ...) and !(feature >= number) for splits that send
missing values left. What would be an exception, or another expression than a sum of trees, is a ResultError
here. F features, N nodes of a tree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.scoring import FlatTree

_FIELDS_OF_XGBOOST: Final = (
    *("nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "leaf", "children"),
)
_SIGMOID, _EXP = ("cross_entropy",), ("poisson", "gamma", "tweedie")
_FUNCTION = re.compile(r"^ *function +([A-Za-z_][A-Za-z0-9_]*)\(\) *\{", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A tree of the sum, or a constant: a tree without splits.

    Attributes:
        tree: a value goes left if it is smaller than the threshold, a missing value by `missing_left`.
        average_depth: mean number of splits above a leaf.
    """

    tree: FlatTree
    average_depth: float

    @property
    def num_leaves(self) -> int:
        return int(self.tree.is_leaf.sum())

    @property
    def is_constant(self) -> bool:
        return len(self.tree.value) == 1


@dataclass(frozen=True)
class ImportedSum:
    """A ranking expression.

    Attributes:
        terms: at least one.
        transformation: of the sum.
    """

    terms: tuple[Term, ...]
    transformation: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class _Split:
    """A split of a dump as the importer reads it; None in place of it is a leaf."""

    feature: str
    threshold: float
    missing_left: bool
    left: Any
    right: Any


def import_lightgbm(content: bytes, features: Mapping[str, int]) -> ImportedSum:
    """Returns a file of `Booster.dump_model` of LightGBM.

    Args:
        features: name of a rank feature or function -> index of the feature.

    Raises:
        ResultError: Vespa would refuse the file, or read a name as something else than a feature.
    """
    root = _json(content)
    fields = ("objective", "feature_names", "tree_info", "pandas_categorical")
    absent = [name for name in fields if not isinstance(root, dict) or name not in root]
    if absent:
        _refuse(f"it has no {absent[0]}")
    names, trees = ([*(root[name] or ())] for name in ("feature_names", "tree_info"))
    reading = _Reading(features, lambda node: _split_of_lightgbm(node, names), "leaf_value")
    roots = [tree.get("tree_structure") if isinstance(tree, dict) else None for tree in trees]
    return ImportedSum(reading.terms(roots), _transformation(str(root["objective"])))


def import_xgboost(content: bytes, features: Mapping[str, int]) -> ImportedSum:
    """Returns a file of `Booster.dump_model` of XGBoost; arguments and errors are those of
    `import_lightgbm`."""
    if not content.lstrip().startswith(b"["):
        _refuse("its first line does not begin with [")
    return ImportedSum(_Reading(features, _split_of_xgboost, "leaf").terms(_json(content)))


def functions_of_profile(profile: str) -> list[str]:
    """Returns the names of the functions that a rank profile defines."""
    return _FUNCTION.findall(profile)


@dataclass(frozen=True)
class _Reading:
    """How the nodes of a format are read."""

    features: Mapping[str, int]
    split_of: Callable[[Mapping[str, Any]], _Split | None]
    leaf_field: str

    def terms(self, trees: Any) -> tuple[Term, ...]:
        if not isinstance(trees, list) or not trees:
            _refuse("it has no list of at least one tree")
        return tuple(self._term(root) for root in trees)

    def _term(self, root: Any) -> Term:
        """Returns a tree with its nodes each before its children, and left before right."""
        left: list[int] = []
        right: list[int] = []
        feature, threshold, value, missing_left, depths = [], [], [], [], []
        waiting: list[tuple[Any, list[int], int, int]] = [(root, [0], 0, 0)]
        while waiting:
            node, side, parent, depth = waiting.pop()
            if not isinstance(node, dict):
                _refuse("a node is not an object")
            split, number = self.split_of(node), len(left)
            side[parent] = number
            left.append(number)
            right.append(number)
            feature.append(NO_FEATURE if split is None else self._feature(split.feature))
            threshold.append(0.0 if split is None else split.threshold)
            value.append(_double(node.get(self.leaf_field, 0.0)) if split is None else 0.0)
            missing_left.append(split is not None and split.missing_left)
            if split is None:
                depths.append(depth)
            else:
                waiting += [(split.right, right, number, depth + 1), (split.left, left, number, depth + 1)]
        tree = FlatTree(
            feature=np.array(feature, dtype=np.int64),
            threshold=np.array(threshold),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            missing_left=np.array(missing_left, dtype=np.bool_),
            zero_missing=np.zeros(len(left), dtype=np.bool_),
            value=np.array(value),
        )
        return Term(tree, sum(depths) / len(depths))

    def _feature(self, name: Any) -> int:
        if name not in self.features:
            _refuse(
                f"{name!r} is neither a rank feature nor a function of the profile; Vespa would read this "
                "text as an expression"
            )
        return self.features[name]


def _split_of_lightgbm(node: Mapping[str, Any], names: list[str]) -> _Split | None:
    left, right = node.get("left_child"), node.get("right_child")
    if left is None and right is None:
        return None
    feature = node.get("split_feature", 0)
    if type(feature) is not int or not 0 <= feature < len(names):
        _refuse(f"split_feature is {feature!r}, not the index of one of {len(names)} features")
    if node.get("decision_type") in (None, "=="):
        _refuse(f"decision_type is {node.get('decision_type')!r}; a split of numbers has <=")
    threshold = _double(node.get("threshold"))
    return _Split(names[feature], threshold, bool(node.get("default_left", False)), left, right)


def _split_of_xgboost(node: Mapping[str, Any]) -> _Split | None:
    unknown = [name for name in node if name not in _FIELDS_OF_XGBOOST]
    if unknown:
        _refuse(f"a node has the unknown field {unknown[0]!r}")
    children = node.get("children")
    if children is None:
        return None
    if not isinstance(children, list) or len(children) != 2 or not isinstance(children[0], dict):
        _refuse("a split does not have two children")
    yes = node.get("yes", 0)
    left, right = children if children[0].get("nodeid", 0) == yes else reversed(children)
    with np.errstate(over="ignore"):
        threshold = np.float32(_double(node.get("split_condition", 0.0)))
    return _Split(
        str(node.get("split")), _double(float(threshold)), node.get("missing", 0) == yes, left, right
    )


def _transformation(objective: str) -> Callable[[NDArray[np.float64]], NDArray[np.float64]] | None:
    if objective.startswith("binary") or objective in _SIGMOID:
        return lambda sums: 1.0 / (1.0 + np.exp(-sums))
    return np.exp if objective in _EXP else None


def _double(number: Any) -> float:
    """Returns a number that is printed and read back; Infinity and NaN would be read as features."""
    try:
        value = float(number)
    except (TypeError, ValueError):
        _refuse(f"{number!r} is not a number")
    if not math.isfinite(value):
        _refuse(f"{number!r} is not finite, and would be read as the name of a feature")
    return value


def _json(content: bytes) -> Any:
    try:
        return json.loads(content, parse_constant=_double)
    except (RecursionError, ValueError) as error:
        _refuse(f"it cannot be read as JSON: {error}")


def _refuse(reason: str) -> NoReturn:
    raise ResultError(
        f"Vespa would refuse the model: {reason}. Export the model again with ltrbench ship."
    ) from None
