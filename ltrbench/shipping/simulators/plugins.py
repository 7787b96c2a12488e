"""Model definitions as the Learning to Rank plug-ins of Elasticsearch and OpenSearch read and score them.

The parsers accept what the plug-ins accept: known fields only, the fields of a split and of a leaf, children
in the order of their numbers, features of the feature set. Numbers are float32, and sums start with 0 and add
float32. D documents, F features, N nodes of a tree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, ResultError, require_choice
from ltrbench.models.float32 import float32_texts
from ltrbench.models.ranklib_file import write_ranklib_xml
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    WeightedTree,
    leaves_of,
    rebuilt,
    sends_zero_left,
)
from ltrbench.models.xgboost_files import base_score_as_tree, float32_trees, write_xgboost_dump
from ltrbench.native.nodes import NO_FEATURE
from ltrbench.shapes import Features
from ltrbench.shipping.plugin_requests import MOST_FEATURES_OF_SET, UploadedDefinition, plugin_requests
from ltrbench.shipping.probes import limits_of_infinity, limits_with_missing_as_zero, sends_missing_elsewhere
from ltrbench.shipping.simulators.ranklib import parse_ranklib
from ltrbench.shipping.target import (
    MISSING_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    Rule,
    ShippedModel,
    Target,
)

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


# ---- What the Learning to Rank plug-ins of Elasticsearch and OpenSearch have in common.
#
# The plug-in of OpenSearch is a fork of the one of Elasticsearch: they have the same REST API and model
# formats, and differ in the versions from which on an absent feature is a missing value. A feature is the
# score of a query; it is absent if the query does not match the document. Scores are float32 and must not
# be negative, as all scores in Lucene.

FORMS: Final = ("xgboost", "ranklib", "linear")
SAFE_LEVELS: Final = 45
"""Maximum depth of a tree for versions that read 100 levels of JSON; a level of a tree is two of JSON."""

_TYPES = {"xgboost": "model/xgboost+json", "ranklib": "model/ranklib", "linear": "model/linear"}
_FLOAT32_ROUNDING = 2.0**-24
"""Largest relative rounding error of a float32 operation."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


_RANKY = "o19s/RankyMcRankFace, src/ciir/umass/edu/"
RANKLIB_FORM_RULES: Final = (
    Rule(
        "RankyMcRankFace, the fork of RankLib in the plug-in, drops lines that start with # and joins the "
        "others without the tabs at their beginning.",
        f"{_RANKY}learning/tree/LambdaMART.java, commit 02825f017df3f5bd40a56443becda2c9e6ed748d, and "
        f"{_RANKY}parsing/ModelLineProducer.java, commit 6bf8f56a2621a34b76b614ad05d44c03ccd25c55",
    ),
    Rule(
        "Thresholds, outputs and weights are float32; each tree's output times its weight is added in "
        "float64, and the sum rounded to float32.",
        f"{_RANKY}learning/tree/Ensemble.java, commit 648622dc4f3c069d912b85b23de91ac9d3c67a4d",
    ),
    Rule(
        "A value goes left if it is at most the threshold.",
        f"{_RANKY}learning/tree/Split.java, commit 31a3fce9d8ed69b2815060148e2c9a02ceebdf25",
    ),
)
"""Rules of the form ranklib that both plug-ins have in common."""

ScoresOfFeatures = Callable[[Features], NDArray[np.float32]]
AbsentFeatures = Literal["zero", "right", "missing"]
"""What trees do with an absent feature, as in `PluginForest`."""


@dataclass
class LearningToRankPlugin(Target):
    """A search engine with a Learning to Rank plug-in.

    Attributes:
        form: format of the model: "xgboost" or "ranklib" for trees, "linear" for weights; None: "xgboost" or
            "linear". In "ranklib", an absent feature is 0 in every version.
        version: version of the engine, such as "8.17".
        absent: what an absent feature stands for: "zero" if the training data have 0 for it, or "missing";
            None: "zero" if the training data have no missing values. Otherwise a choice is required.
        offset: constant added to the scores of trees; None: a bound below which no score can be. A smaller
            one keeps more digits of float32, but must make the scores of all documents non-negative.
    """

    form: str | None = None
    version: str = ""
    absent: str | None = None
    offset: float | None = None

    engine_name: ClassVar[str]
    """Name of the engine in sentences."""
    address: ClassVar[str]
    """Variable with the address of the cluster in the curl line."""
    objectives: ClassVar[tuple[str, ...]]
    """Objectives that the plug-in knows and that do not transform the score."""
    absent_since: ClassVar[Mapping[tuple[int, int], AbsentFeatures]]
    """First version -> what trees do with absent features from it on, in ascending order."""
    rules_of_forms: ClassVar[Mapping[str, tuple[Rule, ...]]]
    """Form -> rules that its simulator follows."""

    def __post_init__(self) -> None:
        require_choice("form", self.form, FORMS)
        require_choice("absent", self.absent, ("missing", "zero"))
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?", self.version):
            raise ConfigError(
                f"version is '{self.version}', not a version of {self.engine_name} such as "
                f"{self._first_with_missing}."
            )
        if self.offset is not None and not (0 <= self.offset < float(np.finfo(np.float32).max)):
            raise ConfigError(f"offset is {self.offset}; it must be at least 0 and finite as float32.")
        if self.absent == "zero" and self.absent_features == "right":
            raise ConfigError(
                f"absent is 'zero', but {self.engine_name} {self.version} sends absent features right in "
                f"every split. Use {self.engine_name} {self._first_with_missing} or newer, or give each "
                "feature a value for every document."
            )

    @property
    def absent_features(self) -> AbsentFeatures:
        """What trees do with an absent feature in this version and form."""
        if self.form == "ranklib":
            return "zero"
        numbers = tuple(map(int, self.version.split(".")[:2]))
        return [meaning for first, meaning in self.absent_since.items() if first <= numbers][-1]

    @property
    def _first_with_missing(self) -> str:
        return ".".join(map(str, next(v for v, meaning in self.absent_since.items() if meaning == "missing")))

    @property
    def _absent_is_zero(self) -> bool:
        return self.absent == "zero" or self.absent_features == "zero"

    def _absent_in(self, model: ShippedModel) -> str:
        """Returns "zero" for training data without missing values.

        Raises:
            ConfigError: They have some, or it is unknown whether they do.
        """
        if model.has_missing_values is False:
            return "zero"
        data = "have missing values" if model.has_missing_values else "may have missing values"
        raise ConfigError(
            f"the training data of {model.name} {data}, so an absent feature in {self.engine_name} may stand "
            "for 0 or for a missing value. Choose --set absent=zero if a feature is 0 in the training data "
            "where its query does not match the document, or --set absent=missing if it is missing there."
        )

    def export(self, model: ShippedModel) -> Export:
        self._check_names(model)
        form = self._form_of(model)
        if form == "xgboost" and self.absent is None and self.absent_features == "missing":
            return replace(self, absent=self._absent_in(model)).export(model)
        convert = {"xgboost": self._forest, "ranklib": self._ranklib, "linear": self._linear}[form]
        definition, converted = convert(model)
        upload = {"model": {"name": model.name, "model": {"type": _TYPES[form], "definition": definition}}}
        files = {
            "model.xml" if form == "ranklib" else "model.json": definition.encode(),
            "upload.json": _json_file(upload),
            "featureset.json": _json_file(_feature_set(model)),
        }
        return replace(
            converted,
            files=files,
            request="\n".join(
                (
                    f'curl -X PUT "${self.address}/_ltr"',
                    _curl("PUT", self.address, _set_name(model), "featureset.json"),
                    _curl("POST", self.address, f"{_set_name(model)}/_createmodel", "upload.json"),
                )
            ),
            notes=(*converted.notes, *self._notes_on_features(model)),
            zeros_may_be_absent=form == "linear" or self._absent_is_zero or model.has_missing_values is False,
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        names = [
            each["name"] for each in json.loads(export.files["featureset.json"])["featureset"]["features"]
        ]
        record = json.loads(export.files["upload.json"])["model"]["model"]
        form = next(form for form, name in _TYPES.items() if name == record["type"])
        return Engine(
            self._scores(form, record["definition"], names),
            f"{self.engine_name} Learning to Rank",
            rules=self.rules_of_forms[form],
            score_dtype="float32",
        )

    def _scores(self, form: str, definition: str, names: Sequence[str]) -> ScoresOfFeatures:
        if form == "linear":
            return parse_linear(definition, names).scores
        if form == "ranklib":
            return parse_ranklib(definition.encode()).scores
        return parse_forest(definition, names, self.objectives, self.absent_features).scores

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests:
        record = json.loads(export.files["upload.json"])["model"]["model"]
        uploaded = UploadedDefinition(record["type"], record["definition"], self.address, self.engine_name)
        return plugin_requests(model, uploaded, rows)

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> score of a search whose only scoring query is `sltr`, or of an object."""
        if isinstance(answers, dict) and isinstance(answers.get("hits"), dict):
            hits = answers["hits"].get("hits")
            if not isinstance(hits, list) or not all(map(_is_hit, hits)):
                raise ValueError("expected hits.hits with _id and a number as _score of each hit")
            answers = {hit["_id"]: hit["_score"] for hit in hits}
        return super().answered_scores(answers)

    def _prepared(self, trees: Ensemble) -> Ensemble:
        """Returns the trees as they are written, which may send missing values elsewhere."""
        return with_absent_as_zero(trees) if self.absent == "zero" else trees

    def _form_of(self, model: ShippedModel) -> str:
        is_linear = isinstance(model.scorer, Linear)
        form = self.form or ("linear" if is_linear else "xgboost")
        if is_linear != (form == "linear"):
            kind = "linear model" if is_linear else "model of trees"
            raise ConfigError(f"form is '{form}', but {model.name} is a {kind}. Remove the option form.")
        return form

    def _check_names(self, model: ShippedModel) -> None:
        names = model.feature_names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(
                f"the feature name '{twice}' is given twice, but names in a feature set of "
                f"{self.engine_name} must be unique. Rename one of the features."
            )
        if len(names) > MOST_FEATURES_OF_SET:
            raise ConfigError(
                f"{model.name} has {len(names):,} features, but a feature set of {self.engine_name} has at "
                f"most {MOST_FEATURES_OF_SET:,}. Train with fewer features."
            )
        if not _NAME.fullmatch(model.name):
            raise ConfigError(
                f"the model's name is '{model.name}', but it becomes part of an address. Use letters, "
                "digits, '_', '.' and '-' only."
            )

    def _forest(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of trees, and the offset, notes and limits of the export."""
        original = model.trees(self.name)
        written = base_score_as_tree(self._prepared(original))
        offset, notes = self._offset(written)
        if offset:
            # Last, so that it rounds whole scores: rounding may make scores equal, but does not swap them.
            written = replace(written, trees=(*written.trees, WeightedTree(1.0, Leaf(offset))))
        definition = write_xgboost_dump(written, model.feature_names).decode()
        notes += [*self._notes_on_depth(model.name, definition), *self._notes_on_absent_features()]
        return definition, Export({}, "", offset, tuple(notes), self._limits(original))

    def _ranklib(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of trees as a text of RankLib, and the offset, notes and limits."""
        trees = model.trees(self.name)
        offset, notes = self._offset(base_score_as_tree(trees))
        notes.append(
            "The model knows features by their place in the feature set, not by name: keep their order in "
            "featureset.json."
        )
        definition = write_ranklib_xml(trees, offset).decode()
        limits = limits_with_missing_as_zero(trees, self.engine_name)
        return definition, Export({}, "", offset, tuple(notes), limits)

    def _offset(self, trees: Ensemble) -> tuple[float, list[str]]:
        """Returns the constant that is added to all scores, and notes on it."""
        bound = offset_above_zero(trees)
        offset = bound if self.offset is None else float(np.float32(self.offset))
        notes = []
        if offset:
            notes.append(
                f"The last tree adds {offset!r} to all scores, because {self.engine_name} does not allow "
                "negative scores. This swaps no documents, but close scores may become equal, fewer "
                "with a smaller offset."
            )
        if offset < bound:
            notes.append(
                f"The offset is {offset!r}, so documents whose score by the model is below {-offset!r} get a "
                f"negative score. No score can be negative with an offset of {bound!r}."
            )
        return offset, notes

    def _linear(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of a linear model, and the notes and limits of the export."""
        weights = model.scorer.weights if isinstance(model.scorer, Linear) else np.zeros(0)
        with np.errstate(over="ignore"):
            rounded = weights.astype(np.float32)
        if not np.isfinite(rounded).all():
            raise ConfigError(f"{model.name} has a weight that is not finite as float32. Scale the features.")
        named = zip(model.feature_names, float32_texts(rounded), strict=True)
        definition = "{" + ",\n".join(f"{json.dumps(name)}:{weight}" for name, weight in named) + "}"
        notes: tuple[str, ...] = ()
        if (rounded < 0).any():
            notes = (
                f"Weights are negative, so scores may be, which {self.engine_name} does not allow, and the "
                "format has no constant. Add a feature with a constant_score query and a large weight.",
            )
        limit = "An absent feature counts as 0 in a linear model, but a missing value has no score."
        return definition, Export({}, "", 0.0, notes, {MISSING_VALUES: limit})

    def _limits(self, original: Ensemble) -> dict[str, str]:
        limits = limits_of_infinity(original)
        if self.absent_features == "right":
            is_elsewhere = any(tree.missing_left[~tree.is_leaf].any() for tree in float32_trees(original))
        else:
            is_elsewhere = self._absent_is_zero and sends_missing_elsewhere(original)
        return {**limits, MISSING_VALUES: self._sentence_on_missing()} if is_elsewhere else limits

    def _sentence_on_missing(self) -> str:
        newer = f"{self.engine_name} {self._first_with_missing} or newer"
        if self.absent_features == "right":
            return (
                f"{self.engine_name} {self.version} sends absent features right, but the model sends missing "
                f"values left in a split. Use {newer}, or train with 0 for missing values."
            )
        return (
            "An absent feature would count as 0, but the model sends missing values elsewhere. Export with "
            f"--set absent=missing for {newer}, or train with 0 for missing values."
        )

    def _notes_on_absent_features(self) -> list[str]:
        if self._absent_is_zero:
            return ["A feature counts as 0 if its query does not match the document."]
        if self.absent_features == "right":
            return [
                f"{self.engine_name} {self.version} sends a feature whose query does not match the document "
                "to the right in every split. Give each feature a value for every document, or use "
                f"{self.engine_name} {self._first_with_missing} or newer."
            ]
        return [
            "A feature counts as missing, not as 0, if its query does not match the document. If such "
            "features are 0 in the training data, export again with --set absent=zero."
        ]

    def _notes_on_depth(self, name: str, definition: str) -> list[str]:
        levels = 1 + max(map(int, re.findall(r'"depth":(\d+),"split":', definition)), default=-1)
        if levels > MOST_TREE_LEVELS:
            raise ConfigError(
                f"a tree of {name} has {levels} levels, but {self.engine_name} reads at most 1,000 nested "
                f"levels of JSON. Limit the depth to {MOST_TREE_LEVELS} levels, for example with max_depth."
            )
        if levels > SAFE_LEVELS:
            return [
                f"A tree has {levels} levels, which are {2 * levels} levels of JSON. Versions of the engine "
                "that read only 100 refuse the model."
            ]
        return []

    def _notes_on_features(self, model: ShippedModel) -> tuple[str, ...]:
        return (
            "The commands create the feature store, which fails without harm if it exists, then the feature "
            "set, then the model.",
            "featureset.json is an example: before the upload, write the template of each feature, the query "
            "whose score was the feature in training.",
            "Models cannot be changed after the upload; export another one under another name.",
            "Do not set a boost on the query sltr: the plug-in multiplies the features by it.",
            f"{self.engine_name} does not allow negative scores of queries and scripts, so a feature "
            "with negative values needs a derived_expression, such as positive_part - negative_part.",
        )


def offset_above_zero(trees: Ensemble) -> float:
    """Returns a constant that makes every float32 score non-negative when it is added last; 0 if all are.

    The bound is the sum of the smallest leaf value of each tree, minus the largest rounding error of a
    float32 sum. It is rounded up to five binary digits.
    """
    smallest = magnitude = 0.0
    for tree in float32_trees(trees):
        values = tree.value[tree.is_leaf]
        smallest += float(values.min())
        magnitude += float(np.abs(values).max())
    needed = (len(trees.trees) + 1) * _FLOAT32_ROUNDING * magnitude - smallest
    if smallest >= 0:
        return 0.0
    unit = 2.0 ** (math.frexp(needed)[1] - 5)
    return math.ceil(needed / unit) * unit


def with_absent_as_zero(trees: Ensemble) -> Ensemble:
    """Returns trees in which a missing value goes where 0 goes."""

    def as_zero(node: InnerNode) -> dict[str, object]:
        is_left = node.missing_left if node.zero_missing else sends_zero_left(node, trees.comparison)
        return {"missing_left": is_left}

    return replace(
        trees,
        trees=tuple(
            replace(tree, root=rebuilt(tree.root, as_zero, lambda value: value)) for tree in trees.trees
        ),
    )


def _feature_set(model: ShippedModel) -> dict[str, Any]:
    # The engine refuses this query, so that a template that was forgotten cannot go unnoticed.
    return {
        "featureset": {
            "name": _set_name(model),
            "features": [
                {
                    "name": name,
                    "params": ["keywords"],
                    "template_language": "mustache",
                    "template": {"write_here_the_query_of_this_feature": {"query": "{{keywords}}"}},
                }
                for name in model.feature_names
            ],
        }
    }


def _set_name(model: ShippedModel) -> str:
    return f"{model.name}_features"


def _curl(method: str, address: str, path: str, file: str) -> str:
    header = "-H 'Content-Type: application/json'"
    url = f"${address}/_ltr/_featureset/{path}"
    return f'curl --fail-with-body -X {method} "{url}" {header} --data-binary @{file}'


def _json_file(record: Any) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


def _is_hit(hit: Any) -> bool:
    return isinstance(hit, dict) and "_id" in hit and type(hit.get("_score")) in (int, float)
