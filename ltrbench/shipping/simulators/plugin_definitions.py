"""Model definitions as the Learning to Rank plug-ins of Elasticsearch and OpenSearch read and score them.

The parsers accept what the plug-ins accept: known fields only, the fields of a split and of a leaf, children
in the order of their numbers, features of the feature set. Numbers are float32, and sums start with 0 and add
float32. D documents, F features, N nodes of a tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.scoring import FlatTree, leaves_of
from ltrbench.shapes import Features

MOST_TREE_LEVELS: Final = 400
"""Maximum depth of a tree. A level of a tree is two levels of JSON, of which the parser of the engines
(Jackson) reads 1,000 and Python's as many."""

_INTEGERS = ("nodeid", "depth", "yes", "no", "missing")
_OF_NODE = (*_INTEGERS, "split", "split_condition", "leaf", "children")
_OF_SPLIT = ("nodeid", "depth", "split", "split_condition", "yes", "no", "children")
_OF_DEFINITION = ("objective", "splits")


@dataclass(frozen=True)
class PluginForest:
    """Trees as a plug-in holds them.

    Attributes:
        trees: `missing_left` is where the field `missing` points, false without it.
        absent: what a feature counts as whose query does not match the document: 0, a value that goes right
            in every split, or a missing value that goes where `missing_left` says.
    """

    trees: tuple[FlatTree, ...]
    absent: Literal["zero", "right", "missing"]

    def leaves(self, features: Features) -> Iterator[NDArray[np.int64]]:
        """Yields for each tree the (D,) nodes of the leaves that (D, F) features reach."""
        values = _as_zeros(features) if self.absent == "zero" else features
        for tree in self.trees:
            if self.absent == "right":
                tree = tree._replace(missing_left=np.zeros_like(tree.missing_left))
            yield leaves_of(tree, values, "<", "float32")

    def scores(self, features: Features) -> NDArray[np.float32]:
        """Returns the (D,) scores of (D, F) features."""
        scores = np.zeros(len(features), dtype=np.float32)
        for tree, leaves in zip(self.trees, self.leaves(features), strict=True):
            scores += tree.value.astype(np.float32)[leaves]
        return scores


@dataclass(frozen=True)
class PluginLinear:
    """A linear model as a plug-in holds it.

    Attributes:
        weights: (F,).
    """

    weights: NDArray[np.float32]

    def scores(self, features: Features) -> NDArray[np.float32]:
        """Returns the (D,) scores of (D, F) features; an absent feature counts as 0."""
        scores, values = np.zeros(len(features), dtype=np.float32), _as_zeros(features)
        for feature, weight in enumerate(self.weights):
            scores += weight * values[:, feature]
        return scores


def parse_forest(
    definition: str,
    feature_names: Sequence[str],
    objectives: Sequence[str],
    absent: Literal["zero", "right", "missing"],
) -> PluginForest:
    """Returns the trees of a definition of the type model/xgboost+json.

    Args:
        feature_names: F names of the features in the feature set.
        objectives: objectives that the plug-in knows and that do not transform the score.
        absent: as in `PluginForest`.

    Raises:
        ResultError: The plug-in would refuse the definition.
    """
    model = _json(definition)
    if isinstance(model, dict):
        _check_fields(model, _OF_DEFINITION, "the model")
        if model.get("objective", objectives[0]) not in objectives:
            _refuse(f"the objective is {model['objective']!r}, not one of {', '.join(objectives)}")
        model = model.get("splits")
    if not isinstance(model, list) or not model:
        _refuse("it has no list of at least one tree")
    ordinals = {name: ordinal for ordinal, name in enumerate(feature_names)}
    return PluginForest(tuple(_tree(root, f"tree {n}", ordinals) for n, root in enumerate(model)), absent)


def parse_linear(definition: str, feature_names: Sequence[str]) -> PluginLinear:
    """Returns the weights of a definition of the type model/linear.

    Args:
        feature_names: F names of the features in the feature set.

    Raises:
        ResultError: The plug-in would refuse the definition.
    """
    model = _json(definition)
    if not isinstance(model, dict):
        _refuse("it is not an object")
    weights = np.zeros(len(feature_names), dtype=np.float32)
    ordinals = {name: ordinal for ordinal, name in enumerate(feature_names)}
    for name, weight in model.items():
        if name not in ordinals:
            _refuse(f"the feature {name!r} is not in the feature set")
        weights[ordinals[name]] = _float32(weight, f"the weight of {name!r}")
    return PluginLinear(weights)


def _tree(root: Any, place: str, ordinals: Mapping[str, int]) -> FlatTree:
    """Checks the nodes of a tree and returns them, each before its children, and left before right."""
    left: list[int] = []
    right: list[int] = []
    feature, threshold, value, missing_left = [], [], [], []
    waiting: list[tuple[Any, list[int], int]] = [(root, [0], 0)]
    while waiting:
        node, side, parent = waiting.pop()
        _check_node(node, place, ordinals)
        is_leaf, number = "leaf" in node, len(left)
        side[parent] = number
        left.append(number)
        right.append(number)
        feature.append(NO_FEATURE if is_leaf else ordinals[node["split"]])
        threshold.append(0.0 if is_leaf else _float32(node["split_condition"], place))
        value.append(_float32(node["leaf"], place) if is_leaf else 0.0)
        missing_left.append(not is_leaf and node.get("missing") == node["yes"])
        if not is_leaf:
            yes, no = node["children"]
            waiting += [(no, right, number), (yes, left, number)]
    return FlatTree(
        feature=np.array(feature, dtype=np.int64),
        threshold=np.array(threshold),
        left=np.array(left, dtype=np.int64),
        right=np.array(right, dtype=np.int64),
        missing_left=np.array(missing_left, dtype=np.bool_),
        zero_missing=np.zeros(len(left), dtype=np.bool_),
        value=np.array(value),
    )


def _check_node(node: Any, place: str, ordinals: Mapping[str, int]) -> None:
    """Refuses a node that the plug-ins refuse."""
    if not isinstance(node, dict):
        _refuse(f"{place} has a node that is not an object")
    _check_fields(node, _OF_NODE, f"a node of {place}")
    for name in _INTEGERS:
        if name in node and type(node[name]) is not int:
            _refuse(f"{name} of a node of {place} is {node[name]!r}, not an integer")
    if "nodeid" not in node:
        _refuse(f"{place} has a node without nodeid")
    place = f"node {node['nodeid']} of {place}"
    if "leaf" in node:
        return
    absent = [name for name in _OF_SPLIT if name not in node]
    if absent:
        _refuse(f"{place} has neither leaf nor {', '.join(absent)}")
    children = node["children"]
    if not isinstance(children, list) or len(children) != 2:
        _refuse(f"{place} does not have two children")
    below = [child.get("nodeid") if isinstance(child, dict) else None for child in children]
    if below != [node["yes"], node["no"]] or node.get("missing", node["no"]) not in below:
        _refuse(f"yes, no and missing of {place} are not the numbers of its children, {below}")
    if node["split"] not in ordinals:
        _refuse(f"the feature {node['split']!r} of {place} is not in the feature set")


def _check_fields(record: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    unknown = [name for name in record if name not in known]
    if unknown:
        _refuse(f"{place} has the unknown field {unknown[0]!r}")


def _float32(number: Any, place: str) -> np.float32:
    if type(number) not in (int, float):
        _refuse(f"{place} has {number!r} in place of a number")
    with np.errstate(over="ignore"):
        rounded = np.float32(number)
    if not np.isfinite(rounded):
        _refuse(f"{place} has the number {number!r}, which is not finite as float32")
    return rounded


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except RecursionError:
        _refuse("its lists and objects are nested too deep")
    except ValueError as error:
        _refuse(str(error))


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"a name is given twice among {', '.join(name for name, _ in pairs)[:200]}")
    return record


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _as_zeros(features: Features) -> Features:
    return np.where(np.isnan(features), np.float32(0), features)


def _refuse(reason: str) -> NoReturn:
    raise ResultError(
        f"the plug-in refuses the model definition: {reason}. Export the model again with ltrbench ship."
    ) from None
