"""Elasticsearch with the Learning to Rank plug-in of o19s, and what OpenSearch has in common with it.

The plug-in of OpenSearch is a fork of the one of Elasticsearch: they have the same REST API and model
formats, and differ in the versions from which on an absent feature is a missing value. A feature is the
score of a query; it is absent if the query does not match the document. Scores are float32 and must not
be negative, as all scores in Lucene.

The upload is an object with the model's name, type and definition, a text. A definition of trees is a list of
trees as XGBoost dumps them, or a text of RankLib, in which features are numbered from 1 in the order of the
feature set; a definition of weights is an object. Fields that are not known are refused.

The simulators follow o19s/elasticsearch-learning-to-rank, src/main/java/com/o19s/es/ltr/; the file of
OpenSearch has its commits:
    rest/RestCreateModelFromSet.java, commit e167d1c9baff9f945acc582541937a2a82b428e5: the upload;
    ranker/parser/XGBoostJsonParser.java, commit 9d3682782b780886f1fecb4ffa7d8cb6f00d8d3c: thresholds and leaf
    values are float32, and a base score is not read;
    ranker/dectree/NaiveAdditiveDecisionTree.java, commit a3c8a49c2f10c3abf14c2b7f2adb9e6ed86a59a7: a value
    goes left if the threshold is above it; the score is a float32 sum in the order of the trees;
    ranker/SparseFeatureVector.java, commit da938c10bf9c45261fada123d4024c59a0f5d981, pull requests 480 and
    482, and the evaluator in the fork cdmbr/elasticsearch-learning-to-rank, commit
    7f6f8b0a21a674e60b006b8bf2579d5d563421fe: from plug-in 1.5.9 on, for Elasticsearch 8.11.4, an absent
    feature is NaN, which goes left if missing is yes, otherwise right;
    query/RankerQuery.java, commit f7c77e6af14a240a4d4645e33a27910687af842b, and
    ranker/DenseFeatureVector.java, commit b163434853fcf87f3c88d5d8d0807876a6d8070b: before, it is 0, and
    missing is ignored;
    ranker/ranklib/RanklibModelParser.java, commit 2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe,
    RanklibRanker.java, commit ce9d18211affbc3e90eb75f025139ddc6158f36a, and DenseProgramaticDataPoint.java,
    commit b163434853fcf87f3c88d5d8d0807876a6d8070b: an absent feature is 0 in all versions;
    ranker/parser/LinearRankerParser.java, commit 2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe, and
    ranker/linear/LinearRanker.java, commit 4784e3ecd73269b00f28693e064c60ef91cf0490: weights are float32; the
    score is a float32 sum in the order of the feature set, in which an absent feature is 0.
Models of RankLib are evaluated by o19s/RankyMcRankFace, src/ciir/umass/edu/learning/tree/: Ensemble.java,
commit 648622dc4f3c069d912b85b23de91ac9d3c67a4d, and Split.java, commit
31a3fce9d8ed69b2815060148e2c9a02ceebdf25.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.models.files import read_ranklib_xml, write_ranklib_xml
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    WeightedTree,
    base_score_as_tree,
    float32_texts,
    float32_trees,
    rounded_weights,
    sends_zero_left,
    with_splits,
)
from ltrbench.models.xgboost_files import (
    read_xgboost_dump,
    write_xgboost_dump,
    xgboost_trees,
)
from ltrbench.shipping.target import (
    MISSING_VALUES,
    RANKLIB_ARITHMETIC,
    Arithmetic,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
    Weights,
    curl,
    form_for,
    json_file,
    limits_of_infinity,
    limits_of_weights,
    limits_with_missing_as_zero,
    parsed_version,
)

_TYPES = {
    "xgboost": "model/xgboost+json",
    "ranklib": "model/ranklib",
    "linear": "model/linear",
}
_FLOAT32_ROUNDING = 2.0**-24
"""Largest relative rounding error of a float32 operation."""

AbsentFeatures = Literal["zero", "right", "missing"]
"""What trees do with an absent feature: it is 0, goes right in every split, or is a missing value."""


@dataclass
class ElasticsearchTarget(Target):
    """Elasticsearch with the Learning to Rank plug-in.

    An absent feature is missing from plug-in 1.5.9 on, whose first release is for Elasticsearch 8.11.4, and 0
    in older versions.

    Attributes:
        form: format of the model: "xgboost" or "ranklib" for trees, "linear" for weights; None: "xgboost" or
            "linear". In "ranklib", an absent feature is 0 in every version.
        version: version of the engine, such as "8.17".
        absent: what an absent feature stands for: "zero" if the training data have 0 for it, or "missing";
            None: "zero" if the training data have no missing values. Otherwise a choice is required.
    """

    form: Literal["xgboost", "ranklib", "linear"] | None = None
    version: str = "9.0"
    absent: Literal["missing", "zero"] | None = None

    name = "elasticsearch"
    verified_against = (
        "the classes of the o19s plug-in (head of 2026, tag v1.5.8-es7.17.8) and RankyMcRankFace, run with "
        "OpenJDK 17 on 2026-11-23, missing values with the head only. Linear models: sources read, not run"
    )
    hits = ("hits", "hits", "_id", "_score")
    engine_name: ClassVar[str] = "Elasticsearch"
    """Name of the engine in sentences."""
    address: ClassVar[str] = "ELASTICSEARCH"
    """Variable with the address of the cluster in the curl line."""
    absent_since: ClassVar[Mapping[tuple[int, int], AbsentFeatures]] = {
        (0, 0): "zero",
        (8, 11): "missing",
    }
    """First version -> what trees do with absent features from it on, in ascending order."""

    def __post_init__(self) -> None:
        if self.absent_features == "right" and self.absent == "zero":
            raise ConfigError(
                f"absent is 'zero', but {self.engine_name} {self.version} sends absent features right in "
                f"every split. Use {self.engine_name} {self._first_with_missing} or newer, or give each "
                "feature a value for every document."
            )

    @property
    def absent_features(self) -> AbsentFeatures:
        """What trees do with an absent feature in this version and form."""
        numbers = parsed_version(
            self.version, self.engine_name, self._first_with_missing
        )
        if self.form == "ranklib":
            return "zero"
        *_, meaning = [
            meaning for first, meaning in self.absent_since.items() if first <= numbers
        ]
        return meaning

    @property
    def _first_with_missing(self) -> str:
        return ".".join(map(str, list(self.absent_since)[-1]))

    @property
    def _absent_is_zero(self) -> bool:
        return self.absent == "zero" or self.absent_features == "zero"

    def export(self, model: ShippedModel) -> Export:
        """Returns the files of the converted model.

        Raises:
            ConfigError: The training data have missing values, or may have some, and `absent` is not set.
        """
        form = self._form(model)
        is_open = self.absent is None and self.absent_features == "missing"
        if form == "xgboost" and is_open:
            if model.has_missing_values is False:
                with_zeros = copy.copy(self)  # also its `setting`
                with_zeros.absent = "zero"
                return with_zeros.export(model)
            data = "may have missing values"
            if model.has_missing_values:
                data = "have missing values"
            raise ConfigError(
                f"the training data of {model.name} {data}, so an absent feature in {self.engine_name} may "
                f"stand for 0 or for a missing value. Choose {self.with_option('absent', 'zero')} if a "
                "feature is 0 in the training data where its query does not match the document, or "
                f"{self.with_option('absent', 'missing')} if it is missing there."
            )
        # The engine refuses this query, so that a template that was forgotten cannot go unnoticed.
        template = {"write_here_the_query_of_this_feature": {"query": "{{keywords}}"}}
        example = {
            "params": ["keywords"],
            "template_language": "mustache",
            "template": template,
        }
        features = [{"name": name, **example} for name in model.feature_names]
        feature_set = {
            "featureset": {"name": f"{model.name}_features", "features": features}
        }
        url = f"${self.address}/_ltr/_featureset/{model.name}_features"
        if form == "ranklib":
            definition, converted = self._ranklib(model)
        elif form == "linear":
            definition, converted = self._linear(model)
        else:
            definition, converted = self._forest(model)
        content = {"type": _TYPES[form], "definition": definition}
        files = {
            "model.xml" if form == "ranklib" else "model.json": definition.encode(),
            "upload.json": json_file({"model": {"name": model.name, "model": content}}),
            "featureset.json": json_file(feature_set),
        }
        requests = (
            f'curl -X PUT "${self.address}/_ltr"',
            curl("PUT", url, "@featureset.json"),
            curl("POST", f"{url}/_createmodel", "@upload.json"),
        )
        has_no_missing = model.has_missing_values is False
        return replace(
            converted,
            files=files,
            request="\n".join(requests),
            notes=(*converted.notes, *self._notes_on_features(model)),
            zeros_may_be_absent=(
                form == "linear" or self._absent_is_zero or has_no_missing
            ),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        definition = json.loads(export.files["upload.json"])["model"]["model"][
            "definition"
        ]
        arithmetic, scorer = self.read(self._form(model), definition, model.indices)
        return arithmetic.engine(scorer, f"{self.engine_name} Learning to Rank")

    def read(
        self, form: str, definition: str, indices: Mapping[str, int]
    ) -> tuple[Arithmetic, Ensemble | Weights]:
        """Returns how this version scores a definition, and its trees or weights.

        Args:
            indices: name of a feature -> its index in the feature set.
        """
        if form == "linear":
            named = json.loads(definition)
            return Arithmetic("<", missing="zero"), {
                indices[name]: named[name] for name in named
            }
        if form == "ranklib":
            return RANKLIB_ARITHMETIC, read_ranklib_xml(definition.encode()).trees
        absent = self.absent_features
        missing = "side" if absent == "missing" else absent
        return Arithmetic("<", missing=missing), read_xgboost_dump(definition, indices)

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests:
        """Returns the requests that create an index, a feature set and a model, and score the rows."""
        uploaded = json.loads(export.files["upload.json"])["model"]["model"]
        rows, infinite = rows.finite()
        reason = f"a negative score, which {self.engine_name} does not allow"
        rows, negative = rows.without(rows.scores < 0, reason)
        # Features with a negative value in a row, in their order.
        columns = np.array(rows.columns, dtype=np.int64)
        is_negative = rows.features[:, columns] < 0
        signed = columns[is_negative.any(axis=0)].tolist()
        name = f"{model.name}_check"
        index = f"ltrbench-check-{model.name.lower()}"
        server = f"${self.address}"
        features = f"_ltr/_featureset/{name}_set"
        definition = uploaded["definition"]
        if uploaded["type"] == "model/ranklib":
            # It knows features by their numbers, which the additional ones change.
            definition = _with_shifted_features(definition, 2 * len(signed))
        feature_set = {
            "featureset": {"name": f"{name}_set", "features": _features(model, signed)}
        }
        upload = {
            "model": {
                "name": name,
                "model": {"type": uploaded["type"], "definition": definition},
            }
        }
        scored = {
            "filter": [{"ids": {"values": list(rows.ids)}}],
            "must": [{"sltr": {"model": name, "params": {}}}],
        }
        search = {"size": len(rows.ids), "_source": False, "query": {"bool": scored}}
        files = {
            "check_index.json": json_file(_index(model.num_features, signed)),
            "check_documents.ndjson": _documents(rows, signed),
            "check_featureset.json": json_file(feature_set),
            "check_upload.json": json_file(upload),
            "check_search.json": json_file(search),
        }
        bulk = f"{server}/{index}/_bulk?refresh=true"
        searched = curl("POST", f"{server}/{index}/_search", "@check_search.json")
        commands = (
            curl("PUT", f"{server}/{index}", "@check_index.json"),
            curl("POST", bulk, "@check_documents.ndjson", "x-ndjson"),
            curl("PUT", f"{server}/{features}", "@check_featureset.json"),
            curl("POST", f"{server}/{features}/_createmodel", "@check_upload.json"),
            f"{searched} > answers.json",
        )
        created = (f"_ltr/_model/{name}", features, index)
        return CheckRequests(
            files,
            commands,
            cleanup=[f'curl -X DELETE "{server}/{path}"' for path in created],
            notes=_notes(model, self.engine_name, uploaded, signed),
            left_out=infinite | negative,
        )

    def _form(self, model: ShippedModel) -> str:
        return form_for(model, self.form, of_linear="linear", of_trees="xgboost")

    def _forest(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of trees, and the offset, notes and limits of the export."""
        original = model.trees(self.name)
        written, offset = above_zero(
            with_absent_as_zero(original) if self.absent == "zero" else original
        )
        definition = write_xgboost_dump(written, model.feature_names).decode()
        notes = (*self._note_on_offset(offset), self._note_on_absent_features())
        return definition, Export({}, "", offset, notes, self._limits(original))

    def _ranklib(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of trees as a text of RankLib, and the offset, notes and limits."""
        trees = model.trees(self.name)
        written, offset = above_zero(trees)
        notes = (
            *self._note_on_offset(offset),
            "The model knows features by their place in featureset.json: keep their order.",
        )
        definition = write_ranklib_xml(written).decode()
        limits = limits_with_missing_as_zero(
            trees,
            f"A missing value is 0 in {self.engine_name}, but the model sends it elsewhere in a split. Train "
            "with 0 instead of missing values.",
        )
        return definition, Export({}, "", offset, notes, limits)

    def _note_on_offset(self, offset: float) -> list[str]:
        if not offset:
            return []
        return [
            f"The last tree adds {offset!r} to all scores, because {self.engine_name} does not allow "
            "negative scores. This swaps no documents, but close scores may become equal."
        ]

    def _linear(self, model: ShippedModel) -> tuple[str, Export]:
        """Returns the definition of a linear model, and the limits of the export."""
        weights = np.zeros(0)
        if isinstance(model.scorer, Linear):
            weights = model.scorer.weights
        rounded = rounded_weights(weights, model.feature_names).astype(np.float32)
        named = zip(model.feature_names, float32_texts(rounded), strict=True)
        lines = [f"{json.dumps(name)}:{weight}" for name, weight in named]
        definition = "{" + ",\n".join(lines) + "}"
        negative = (
            f"{self.engine_name} allows no negative scores, and its linear models have no constant. Train "
            "trees, to which a constant is added, or choose --to solr or vespa, or the verb serve."
        )
        return definition, Export(
            {}, "", limits=limits_of_weights(weights), negative_scores=negative
        )

    def _limits(self, original: Ensemble) -> dict[str, str]:
        limits = limits_of_infinity(original)
        newer = f"{self.engine_name} {self._first_with_missing} or newer"
        if self.absent_features == "right":
            of_trees = xgboost_trees(original)
            if any(tree.missing_left[~tree.is_leaf].any() for tree in of_trees):
                limits[MISSING_VALUES] = (
                    f"{self.engine_name} {self.version} sends absent features right, but the model sends "
                    f"missing values left in a split. Use {newer}, or train with 0 for missing values."
                )
        elif self._absent_is_zero:
            limits |= limits_with_missing_as_zero(
                original,
                "An absent feature would count as 0, but the model sends missing values elsewhere. Export "
                f"with {self.with_option('absent', 'missing')} for {newer}, or train with 0 for "
                "missing values.",
            )
        return limits

    def _note_on_absent_features(self) -> str:
        meaning = {
            "zero": "counts as 0",
            "right": "goes right in every split: give each feature a value for every document",
            "missing": "counts as missing: if it is 0 in the training data, export with --set absent=zero",
        }["zero" if self._absent_is_zero else self.absent_features]
        return f"A feature whose query does not match the document {meaning}."

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


def above_zero(ensemble: Ensemble) -> tuple[Ensemble, float]:
    """Returns the same model with a last tree of one leaf that makes every float32 score non-negative, and
    the value of this leaf; 0 without such a tree if all scores are non-negative.

    Added last, it rounds whole scores: it may make scores equal, but does not swap them. The value is the
    largest rounding error of a float32 sum minus the sum of the smallest leaf values of the trees, rounded up
    to five binary digits.
    """
    ensemble = base_score_as_tree(ensemble)
    smallest = magnitude = 0.0
    for tree in float32_trees(ensemble, "<"):
        values = tree.value[tree.is_leaf]
        smallest += float(values.min())
        magnitude += float(np.abs(values).max())
    if smallest >= 0:
        return ensemble, 0.0
    needed = (len(ensemble.trees) + 1) * _FLOAT32_ROUNDING * magnitude - smallest
    unit = 2.0 ** (math.frexp(needed)[1] - 5)
    offset = math.ceil(needed / unit) * unit
    above = WeightedTree(1.0, Leaf(offset))
    return replace(ensemble, trees=(*ensemble.trees, above)), offset


def with_absent_as_zero(trees: Ensemble) -> Ensemble:
    """Returns trees in which a missing value goes where 0 goes."""

    def as_zero(node: InnerNode) -> InnerNode:
        is_left = (
            node.missing_left
            if node.zero_missing
            else sends_zero_left(node, trees.comparison)
        )
        return replace(node, missing_left=is_left)

    return with_splits(trees, as_zero)


# ---- Requests for the Learning to Rank plug-ins of Elasticsearch and OpenSearch.
#
# Each row is a document of a new index, and each feature a float32 field of it. The features of a new feature
# set read these fields, so that the uploaded definition scores the rows under another name. A query and a
# script must not have a negative score (FieldValueFactorFunction and ScriptScoreFunction of both engines),
# but a derived_expression of the plug-in may: of a feature with negative values, the positive and the
# negative part are two fields and two additional features, and the feature is their difference, which is
# exact. Such features are not made for several threads, so the index has one segment.
#
# Sources: o19s/elasticsearch-learning-to-rank, src/main/java/com/o19s/es/ltr/, with the same files in
# opensearch-project/opensearch-learning-to-rank-base:
#     query/RankerQuery.java, commit 035a052b4b6a73df13ba0a9e1cab289ea7cb7900: features in their order;
#     query/DerivedExpressionQuery.java (OpenSearch), commit 41442a3ab63934e4bae1af022a710feef3b3d4ff;
#     feature/store/StoredFeature.java, commit 035a052b4b6a73df13ba0a9e1cab289ea7cb7900;
#     rest/RestSimpleFeatureStore.java, commit 037e4f82eff8e43774d87635bfeeff08afe7652d.

_PARTS: Final = ("_positive", "_negative")
_RANKLIB_FEATURE = re.compile(r"<feature> ([0-9]+) </feature>")


def _field(feature: int, part: str = "") -> str:
    # Numbered, because names of features may have dots and blanks, which fields cannot have.
    return f"f{feature + 1}{part}"


def _with_shifted_features(definition: str, shift: int) -> str:
    """Returns RankLib's XML with higher numbers of features."""

    def shifted(match: re.Match[str]) -> str:
        return f"<feature> {int(match.group(1)) + shift} </feature>"

    return _RANKLIB_FEATURE.sub(shifted, definition)


def _index(num_features: int, signed: Collection[int]) -> dict[str, Any]:
    fields = [
        _field(feature) for feature in range(num_features) if feature not in signed
    ]
    for feature in signed:
        fields += [_field(feature, part) for part in _PARTS]
    return {
        "settings": {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": "-1",  # with one shard and one bulk request, so that there is one segment
            "index.mapping.total_fields.limit": len(fields) + 100,
        },
        "mappings": {
            "dynamic": "strict",
            "properties": {name: {"type": "float"} for name in fields},
        },
    }


def _documents(rows: CheckRows, signed: Collection[int]) -> bytes:
    lines = ""
    for identity, values in rows.values():
        document: dict[str, float] = {}
        for feature, value in values.items():
            if feature in signed:
                positive, negative = (_field(feature, part) for part in _PARTS)
                document |= {positive: max(value, 0.0), negative: max(-value, 0.0)}
            else:
                document[_field(feature)] = value
        action = {"index": {"_id": identity}}
        lines += f"{json.dumps(action)}\n{json.dumps(document)}\n"
    return lines.encode()


def _features(model: ShippedModel, signed: Collection[int]) -> list[dict[str, Any]]:
    """Returns the features of the model, after those that a derived_expression needs before it."""
    prefix = "ltrbench"
    while any(name.startswith(prefix) for name in model.feature_names):
        prefix += "_"
    # Names of variables in an expression, which names of the model's features need not be.
    parts = {}
    features = []
    for feature in signed:
        parts[feature] = [f"{prefix}_{feature + 1}{part}" for part in _PARTS]
        for name, part in zip(parts[feature], _PARTS, strict=True):
            features.append(_reading(name, _field(feature, part)))
    for feature, name in enumerate(model.feature_names):
        of_feature = _reading(name, _field(feature))
        if feature in parts:
            of_feature |= {
                "template_language": "derived_expression",
                "template": " - ".join(parts[feature]),
            }
        features.append(of_feature)
    return features


def _reading(name: str, field: str) -> dict[str, Any]:
    """Returns a feature that has the value of a field, and matches only documents that have the field."""
    query = {
        "query": {"exists": {"field": field}},
        "field_value_factor": {"field": field},
    }
    template = {"function_score": {**query, "boost_mode": "replace"}}
    return {
        "name": name,
        "params": [],
        "template_language": "mustache",
        "template": template,
    }


def _notes(
    model: ShippedModel,
    engine_name: str,
    uploaded: Mapping[str, str],
    signed: Collection[int],
) -> tuple[str, ...]:
    notes = [
        f"The commands create the index of the rows, the feature set {model.name}_check_set and the model "
        f"{model.name}_check, which has the definition of {model.name}, but features that read fields of the "
        "index. They check the model and the engine, not the templates of your features.",
    ]
    if signed:
        notes.append(
            f"Features with negative values: {len(signed)}. {engine_name} allows no negative scores "
            "of queries, so each of them is the difference of two features (derived_expression)."
        )
        if uploaded["type"] == "model/ranklib":
            notes.append(
                f"These come first, so check_upload.json has feature numbers that are {2 * len(signed)} "
                "higher than in upload.json."
            )
    return tuple(notes)
