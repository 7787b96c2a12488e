"""What the Learning to Rank plug-ins of Elasticsearch and OpenSearch have in common.

The plug-in of OpenSearch is a fork of the one of Elasticsearch: they have the same REST API and model
formats, and differ in the versions from which on an absent feature is a missing value. A feature is the
score of a query; it is absent if the query does not match the document. Scores are float32 and must not be
negative, as all scores in Lucene.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, require_choice
from ltrbench.rankers.models.formats.boosters.xgboost_dump import (
    base_score_as_tree,
    float32_trees,
    write_xgboost_dump,
)
from ltrbench.rankers.models.formats.float32 import float32_texts
from ltrbench.rankers.models.formats.java.ranklib_xml import write_ranklib_xml
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, WeightedTree, rebuilt, sends_zero_left
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.limits import (
    limits_of_infinity,
    limits_of_zeros,
    limits_with_missing_as_zero,
)
from ltrbench.shipping.model import Linear, ShippedModel
from ltrbench.shipping.requests.plugins import MOST_FEATURES_OF_SET, UploadedDefinition, plugin_requests
from ltrbench.shipping.simulators.plugin_definitions import MOST_TREE_LEVELS, parse_forest, parse_linear
from ltrbench.shipping.simulators.ranklib import parse_ranklib
from ltrbench.shipping.target import (
    MISSING_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Rule,
    Target,
)

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
        absent: what an absent feature stands for: "missing", or "zero" if the training data have 0 for it.
        offset: constant added to the scores of trees; None: a bound below which no score can be. A smaller
            one keeps more digits of float32, but must make the scores of all documents non-negative.
    """

    form: str | None = None
    version: str = ""
    absent: str = "missing"
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

    def export(self, model: ShippedModel) -> Export:
        self._check_names(model)
        form = self._form_of(model)
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
            request=_curl("POST", self.address, f"{_set_name(model)}/_createmodel", "upload.json"),
            notes=(*converted.notes, *self._notes_on_features(model)),
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
        prepared = self._prepared(original)
        trees = [*zip(float32_trees(original), float32_trees(prepared), strict=True)]
        zero_left = [model.threshold > 0 for model, _ in trees]
        sides = {"zero": zero_left, "right": [np.zeros_like(left) for left in zero_left]}
        sides["missing"] = [written.missing_left for _, written in trees]
        if any(
            (~model.is_leaf & (side != model.missing_left)).any()
            for (model, _), side in zip(trees, sides[self.absent_features], strict=True)
        ):
            limits[MISSING_VALUES] = self._sentence_on_missing()
        return limits | limits_of_zeros(original)

    def _sentence_on_missing(self) -> str:
        newer = f"{self.engine_name} {self._first_with_missing} or newer"
        if self.absent_features == "right":
            return (
                f"{self.engine_name} {self.version} sends absent features right, but the model sends missing "
                f"values left in a split. Use {newer}, or train with 0 for missing values."
            )
        return (
            "An absent feature would count as 0, but the model sends missing values elsewhere. Export with "
            f"absent=missing for {newer}, or train with 0 for missing values."
        )

    def _notes_on_absent_features(self) -> list[str]:
        if self.absent_features == "zero" or self.absent == "zero":
            return []
        if self.absent_features == "right":
            return [
                f"{self.engine_name} {self.version} sends a feature whose query does not match the document "
                "to the right in every split. Give each feature a value for every document, or use "
                f"{self.engine_name} {self._first_with_missing} or newer."
            ]
        return [
            "A feature counts as missing, not as 0, if its query does not match the document. If such "
            "features are 0 in the training data, export again with absent=zero."
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
        upload = _curl("PUT", self.address, _set_name(model), "featureset.json")
        return (
            f'Create the feature store once: curl -X PUT "${self.address}/_ltr"',
            "featureset.json is an example: write the template of each feature, the query whose score was "
            f"the feature in training, then upload it before the model: {upload}",
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
        return {"missing_left": sends_zero_left(node, trees.comparison)}

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
