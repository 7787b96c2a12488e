"""Apache Solr's Learning to Rank module: parses a model as it does, and scores as it does.

The rules, with their sources, are in `SOLR_TREE_RULES` and `SOLR_LINEAR_RULES`. What would be an exception in
Solr is a ResultError here. D documents, F features; M features of a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.models.float32 import parse_float32
from ltrbench.models.solr_file import LINEAR_CLASS, NORMALIZER_CLASS, SOLR_SLACK, TREES_CLASS
from ltrbench.models.trees import FlatTree, leaves_of
from ltrbench.native.nodes import NO_FEATURE
from ltrbench.shapes import Features
from ltrbench.shipping.target import Rule

_FILES = "apache/solr, solr/modules/ltr/src/java/org/apache/solr/ltr/"
_TREES = f"{_FILES}model/MultipleAdditiveTreesModel.java, commit 1a87471fb43eca419c69441f30b85f0fd94855ec"
_NULL = f"{_FILES}model/MultipleAdditiveTreesModel.java, commit b5a11798c0c69d4cea6aac1425e7ac2095f5cb47"
_LINEAR = f"{_FILES}model/LinearModel.java, commit 19c29c5025090521691c4118563cdcdc036174b3"

_COMMON_RULES = (
    Rule(
        "The features of a model are looked up by name in the feature store; a normalizer is applied to the "
        "value of its feature.",
        f"{_FILES}store/rest/ManagedModelStore.java, commit 2ae07309ea31f08b548e798510f1c09b3f7055ec",
    ),
    Rule(
        "StandardNormalizer: (value - avg) / std, in float32.",
        f"{_FILES}norm/StandardNormalizer.java, commit 9f5b2c7c27ed8d6cdcac2fc64c3c3f57ddf2e99d",
    ),
    Rule(
        "A feature without a value has its defaultValue of the feature store, 0 if there is none.",
        f"{_FILES}feature/Feature.java, commit 14a135e927df081714240b117d802735e8e099e4",
    ),
    Rule(
        "Documents are sorted by the score, which may be negative.",
        f"{_FILES}LTRRescorer.java, commit 13c45ceb06a84b9437e5ec88e349a62f6f0d0399; a score of -120 in "
        "solr/modules/ltr/src/test/org/apache/solr/ltr/model/TestMultipleAdditiveTreesModel.java, "
        "commit 1a87471fb43eca419c69441f30b85f0fd94855ec",
    ),
)
SOLR_TREE_RULES: Final = (
    *_COMMON_RULES,
    Rule(
        "Each key of a tree or node has a setter. Numbers are texts, because no setter takes a Double.",
        "apache/solr, solr/core/src/java/org/apache/solr/util/SolrPluginUtils.java (findSetter), "
        "commit 06799eb6d4b3e1c56a3178c15537bc30e7484529",
    ),
    Rule("The threshold is Float.parseFloat of its text, plus 1e-6 in float32.", _TREES),
    Rule("A value goes left if it is at most that; NaN goes right.", _TREES),
    Rule(
        "From Solr 9.2 on (SOLR-16596), with isNullSameAsZero false (a boolean, true by default), NaN is not "
        "normalized, and goes left if missing is left, otherwise right; a split without missing cannot have "
        "NaN.",
        _NULL,
    ),
    Rule("A feature that the model does not list ends the tree with 0.", _TREES),
    Rule("The score is a float32 sum of weight times value, in the order of the trees.", _TREES),
)
SOLR_LINEAR_RULES: Final = (
    *_COMMON_RULES,
    Rule("Weights are numbers of JSON, rounded to float32; each feature has one.", _LINEAR),
    Rule("The score is a float32 sum of value times weight, in the order of the features.", _LINEAR),
)

_NODE_KEYS = frozenset(("value", "feature", "threshold", "left", "right", "missing"))
_NULL_KEY = "isNullSameAsZero"


@dataclass(frozen=True)
class SolrModel:
    """A model as Solr holds it.

    Attributes:
        columns: (M,), which features of the documents are the features of the model.
        averages, deviations: (M,) float32 of the normalizers.
        defaults: (M,) float32 of features without a value.
        trees: their features are positions in `columns`; empty for a linear model.
        tree_weights: weights of the trees, float32.
        weights: (M,) float32 weights of a linear model.
    """

    columns: tuple[int, ...]
    averages: NDArray[np.float32]
    deviations: NDArray[np.float32]
    defaults: NDArray[np.float32]
    trees: tuple[FlatTree, ...] = ()
    tree_weights: NDArray[np.float32] | None = None
    weights: NDArray[np.float32] | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        return SOLR_TREE_RULES if self.weights is None else SOLR_LINEAR_RULES

    def scores(self, features: Features) -> NDArray[np.float32]:
        """Returns the (D,) scores of (D, F) features; NaN is a feature without a value."""
        values = features[:, self.columns]
        present = np.where(np.isnan(values), self.defaults, values)
        with np.errstate(over="ignore", invalid="ignore"):
            normalized = (present - self.averages) / self.deviations
            scores = np.zeros(len(features), dtype=np.float32)
            if self.weights is not None:
                for position, weight in enumerate(self.weights):
                    scores += normalized[:, position] * weight
            for number, tree in enumerate(self.trees):
                assert self.tree_weights is not None
                values = tree.value.astype(np.float32) * self.tree_weights[number]
                scores += values[leaves_of(tree, normalized)]
        return scores


def parse_solr(model: bytes, store: bytes, feature_names: Sequence[str]) -> SolrModel:
    """Returns the model of a file.

    Args:
        model: JSON for /schema/model-store.
        store: JSON for /schema/feature-store.
        feature_names: F names of the features of documents.

    Raises:
        ResultError: Solr would refuse the file.
    """
    try:
        record, stored = _object(json.loads(model)), json.loads(store)
        listed = [_object(each) for each in _list(record.get("features"))]
        in_store = [_feature_in_store(each, record, stored) for each in listed]
        names = [_text(feature["name"]) for feature in in_store]
        if not names or len(set(names)) != len(names):
            raise ValueError("the model has no features, or has one twice")
        norms = [_normalizer(each.get("norm")) for each in listed]
        places = {name: column for column, name in enumerate(feature_names)}
        columns = tuple(places[name] for name in names)
        averages, deviations = (np.array(each, dtype=np.float32) for each in zip(*norms, strict=True))
        defaults = parse_float32([_default(feature) for feature in in_store])
        return _with_parameters(SolrModel(columns, averages, deviations, defaults), record, names)
    except RecursionError:
        reason = "its objects are nested too deep"
    except KeyError as error:
        reason = f"documents have no feature {error}"
    except ValueError as error:
        reason = str(error)
    raise ResultError(f"Solr would refuse the model: {reason}. Export the model again.")


def _with_parameters(model: SolrModel, record: Mapping[str, Any], names: Sequence[str]) -> SolrModel:
    parameters = _object(record.get("params"))
    kind = record.get("class")
    if not isinstance(record.get("name"), str) or kind not in (TREES_CLASS, LINEAR_CLASS):
        raise ValueError(f"the model has no name, or its class is {kind!r}")
    key = "trees" if kind == TREES_CLASS else "weights"
    null_is_zero = parameters.get(_NULL_KEY, True)
    if _keys(parameters, {key, _NULL_KEY} if key == "trees" else {key}) - {_NULL_KEY} != {key}:
        raise ValueError(f"its params have no {key}")
    if not isinstance(null_is_zero, bool):
        raise ValueError(f"{_NULL_KEY} is {null_is_zero!r}, not a boolean")
    if key == "weights":
        weights = _object(parameters[key])
        numbers = np.array([_number(weights.get(name)) for name in names])
        with np.errstate(over="ignore"):
            return replace(model, weights=numbers.astype(np.float32))
    trees, tree_weights = [], []
    for tree in map(_object, _list(parameters[key])):
        if _keys(tree, {"weight", "root"}) != {"weight", "root"}:
            raise ValueError("a tree has no weight or no root")
        tree_weights.append(_text(tree["weight"]))
        places = {name: place for place, name in enumerate(names)}
        trees.append(_as_tree(_object(tree["root"]), places, null_is_zero))
    return replace(model, trees=tuple(trees), tree_weights=parse_float32(tree_weights))


def _as_tree(root: Mapping[str, Any], places: Mapping[str, int], null_is_zero: bool) -> FlatTree:
    """Returns the nodes of a tree, each before its children.

    Args:
        places: name -> position among the features of the model.
        null_is_zero: whether NaN goes right in every split.
    """
    features: list[int] = []
    texts: list[str] = []
    missing_left: list[bool] = []
    children: list[list[int]] = []
    waiting: list[tuple[Mapping[str, Any], int]] = [(root, NO_FEATURE)]
    while waiting:
        node, parent = waiting.pop()
        number = len(features)
        children.append([])
        if parent >= 0:
            children[parent].append(number)
        keys = _keys(node, _NODE_KEYS)
        if "feature" not in keys:
            if {"left", "right"} & keys:
                raise ValueError("a leaf has children")
            features.append(NO_FEATURE)
            texts.append(_text(node.get("value", "0")))
            missing_left.append(False)
            continue
        if not {"threshold", "left", "right"} <= keys:
            raise ValueError("a split has no threshold, no left or no right")
        features.append(places.get(_text(node["feature"]), NO_FEATURE))
        texts.append(_text(node["threshold"]))
        if not null_is_zero and "missing" not in keys:
            raise ValueError("a split has no missing, which a missing value needs")
        missing_left.append(not null_is_zero and _text(node["missing"]) == "left")
        waiting += [(_object(node["right"]), number), (_object(node["left"]), number)]
    return _flat_tree(np.array(features), parse_float32(texts), children, np.array(missing_left))


def _flat_tree(
    features: NDArray[np.int64],
    numbers: NDArray[np.float32],
    children: Sequence[Sequence[int]],
    missing_left: NDArray[np.bool_],
) -> FlatTree:
    is_leaf = np.array([not each for each in children])
    is_unknown = ~is_leaf & (features == NO_FEATURE)
    places = np.arange(len(features))
    no_feature = features == NO_FEATURE
    left = np.array([each[0] if each else number for number, each in enumerate(children)])
    right = np.array([each[1] if each else number for number, each in enumerate(children)])
    return FlatTree(
        feature=features,
        threshold=np.where(is_leaf, 0, numbers + SOLR_SLACK).astype(np.float64),
        left=np.where(no_feature, places, left),
        right=np.where(no_feature, places, right),
        missing_left=missing_left,
        zero_missing=np.zeros(len(features), dtype=np.bool_),
        value=np.where(is_leaf & ~is_unknown, numbers, 0).astype(np.float64),
    )


def _feature_in_store(
    feature: Mapping[str, Any], record: Mapping[str, Any], stored: Any
) -> Mapping[str, Any]:
    """Returns a listed feature as the feature store of the model has it."""
    name = feature.get("name")
    for each in map(_object, _list(stored)):
        if each.get("name") == name and each.get("store") == record.get("store"):
            return each
    raise ValueError(f"the feature store has no feature {name!r}")


def _default(feature: Mapping[str, Any]) -> str:
    """Returns the value of a feature without a value, as a text."""
    return str(_object(feature.get("params") or {}).get("defaultValue", 0))


def _normalizer(norm: Any) -> tuple[np.float32, np.float32]:
    """Returns average and standard deviation of a normalizer, 0 and 1 if there is none."""
    if norm is None:
        return np.float32(0), np.float32(1)
    if _object(norm).get("class") != NORMALIZER_CLASS:
        raise ValueError(f"the normalizer {norm.get('class')!r} is not simulated")
    parameters = _object(norm.get("params"))
    if _keys(parameters, {"avg", "std"}) != {"avg", "std"}:
        raise ValueError("a normalizer has no avg or no std")
    average, deviation = parse_float32([_text(parameters["avg"]), _text(parameters["std"])])
    if deviation <= 0:
        raise ValueError(f"a normalizer has the standard deviation {deviation}")
    return average, deviation


def _keys(record: Mapping[str, Any], known: set[str] | frozenset[str]) -> set[str]:
    for key in record:
        if key not in known:
            raise ValueError(f"no setter corresponds to {key!r}")
    return set(record)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:60]!r} is not an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:60]!r} is not a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:60]!r} is not a text, and no setter takes it")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:60]!r} is not a weight")
    return float(value)
