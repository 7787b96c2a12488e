"""Models of Apache Solr's Learning to Rank module, as JSON.

    {"class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel", "name", "store"?,
     "features": [{"name", "norm"?}], "params": {"trees": [{"weight", "root": node}]}}

A node is {"feature", "threshold", "left", "right"}, or a leaf {"value"}. Numbers of trees are texts, because
Solr has no setter for a JSON number (SolrPluginUtils.findSetter). From Solr 9.2 on, a node may have
"missing": "left" or "right", which counts with "params": {"isNullSameAsZero": false}; then each split needs
it. LinearModel has "params": {"weights": {name: number}}, with numbers.

Solr adds 1e-6 to each threshold, in float32, and a value goes left if it is at most the sum. The written
threshold w is the number for which the sum is the model's threshold t exactly. No such w exists for part of
the small thresholds, because w, which is near t - 1e-6, has larger rounding steps than t: all numbers below
1e-13, 4 % of the thresholds between 0 and 2e-5, and a few just above each -2^-k. Then the feature gets a
StandardNormalizer that divides it by a power of two, which is exact, and thresholds are scaled with it. Only
if the thresholds of a feature range over more than 40 orders of magnitude are the smallest ones written as
the closest number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    base_score_as_tree,
    float32_texts,
    float32_trees,
    nested_text,
    parse_float32,
    rounded_weights,
    tree_of,
    without_zero_missing,
)
from ltrbench.native import NO_FEATURE
from ltrbench.shipping.target import (
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
    json_file,
    limits_of_weights,
    limits_with_missing_as_zero,
    parsed_version,
)

SOLR_SLACK: Final = np.float32(1e-6)
"""What Solr adds to a threshold (NODE_SPLIT_SLACK)."""
TREES_CLASS: Final = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
LINEAR_CLASS: Final = "org.apache.solr.ltr.model.LinearModel"
NORMALIZER_CLASS: Final = "org.apache.solr.ltr.norm.StandardNormalizer"

_LARGEST = float(np.finfo(np.float32).max)
_MOST_DOUBLINGS = 126
"""2^-126 is the smallest normal float32."""
_NEIGHBOURS = 3


def write_solr_trees(
    ensemble: Ensemble,
    name: str,
    feature_names: Sequence[str],
    store: str = "",
    with_missing: bool = False,
) -> bytes:
    """Returns a MultipleAdditiveTreesModel; values of leaves contain the weights of the trees.

    Its features are those that the trees use, because Solr computes every feature of a model.

    Args:
        name: name of the model.
        feature_names: F names of the features.
        store: name of the feature store; empty: the default one.
        with_missing: whether splits say where missing values go, for Solr 9.2 and newer.

    Raises:
        ConfigError: A leaf value or the base score is beyond float32.
    """
    trees = list(float32_trees(base_score_as_tree(ensemble), "<="))
    doublings = {}
    for feature, thresholds in _thresholds_of(trees).items():
        doublings[feature] = _doublings_of(thresholds)
    features = [
        _feature(feature_names[feature], doublings[feature])
        for feature in sorted(doublings)
    ]
    names = [json.dumps(each) for each in feature_names]
    scales = np.ones(max(len(names), 1))
    for feature, number in doublings.items():
        scales[feature] = 2.0**number
    roots = (_nested(tree, names, scales, with_missing) for tree in trees)
    nodes = ",\n".join(f'{{"weight":"1.0","root":{root}}}' for root in roots)
    listed_features = features or [{"name": feature_names[0]}]
    head = _head(TREES_CLASS, name, listed_features, store)
    null = '"isNullSameAsZero":false,' if with_missing else ""
    return f'{head}"params":{{{null}"trees":[{nodes}]}}}}\n'.encode()


def write_solr_linear(
    weights: NDArray[np.floating],
    name: str,
    feature_names: Sequence[str],
    store: str = "",
) -> bytes:
    """Returns a LinearModel of the features with a weight other than 0.

    Args:
        weights: (F,).
        name, feature_names, store: as for `write_solr_trees`.

    Raises:
        ConfigError: A weight is beyond float32.
    """
    texts = float32_texts(rounded_weights(weights, feature_names))
    used = np.flatnonzero(weights).tolist() or [0]
    listed_features: list[dict[str, object]] = [
        {"name": feature_names[feature]} for feature in used
    ]
    head = _head(LINEAR_CLASS, name, listed_features, store)
    pairs = [f"{json.dumps(feature_names[each])}:{texts[each]}" for each in used]
    named = ",".join(pairs)
    return f'{head}"params":{{"weights":{{{named}}}}}}}\n'.encode()


def slack_corrected(
    thresholds: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns the w with w + 1e-6 closest to each threshold, in float32 arithmetic, and whether it is equal.

    Args:
        thresholds: (N,), which may be infinite.

    >>> slack_corrected(np.array([0.0, 1e-20], dtype=np.float32))
    (array([-1.e-06, -1.e-06], dtype=float32), array([ True, False]))
    """
    with np.errstate(over="ignore", invalid="ignore"):
        below = above = corrected = thresholds - SOLR_SLACK
        errors = np.abs(corrected + SOLR_SLACK - thresholds)
        for _ in range(_NEIGHBOURS):
            below = np.nextafter(below, np.float32(-np.inf))
            above = np.nextafter(above, np.float32(np.inf))
            for candidate in (below, above):
                error = np.abs(candidate + SOLR_SLACK - thresholds)
                corrected = np.where(error < errors, candidate, corrected)
                errors = np.fmin(error, errors)
    return corrected, corrected + SOLR_SLACK == thresholds


def _thresholds_of(trees: Sequence[FlatTree]) -> dict[int, list[NDArray[np.float32]]]:
    """Returns used feature -> its thresholds, an array for each tree."""
    thresholds: dict[int, list[NDArray[np.float32]]] = {}
    for tree in trees:
        for feature in set(tree.feature.tolist()) - {NO_FEATURE}:
            chosen = tree.threshold[tree.feature == feature].astype(np.float32)
            thresholds.setdefault(feature, []).append(chosen)
    return thresholds


def _doublings_of(thresholds: Sequence[NDArray[np.float32]]) -> int:
    """Returns a small k for which all thresholds of a feature, times 2^k, can be written.

    If there is none, it is the largest k for which the products are finite.
    """
    every = np.unique(np.concatenate(thresholds))
    if slack_corrected(every)[1].all():
        return 0
    is_used = np.isfinite(every) & (every != 0)
    magnitudes = np.abs(every[is_used]).astype(np.float64)
    most_finite = int(np.floor(np.log2(_LARGEST / magnitudes.max())))
    most = min(most_finite, _MOST_DOUBLINGS)
    # Below half the slack, w has larger rounding steps than the threshold.
    half_slack = 0.5 * float(SOLR_SLACK)
    first = max(int(np.log2(half_slack / magnitudes.min())), 1)
    for doublings in range(first, most + 1):
        if slack_corrected(_scaled(every, doublings))[1].all():
            return doublings
    return max(most, 0)


def _scaled(thresholds: NDArray[np.floating], doublings: int) -> NDArray[np.float32]:
    return (thresholds.astype(np.float64) * 2.0**doublings).astype(np.float32)


def _feature(name: str, doublings: int) -> dict[str, object]:
    if not doublings:
        return {"name": name}
    (std,) = float32_texts(np.array([2.0**-doublings]))
    return {
        "name": name,
        "norm": {"class": NORMALIZER_CLASS, "params": {"avg": "0.0", "std": std}},
    }


def _head(
    kind: str, name: str, features: Sequence[dict[str, object]], store: str
) -> str:
    """Returns the JSON up to the parameters."""
    record: dict[str, object] = {"class": kind, "name": name}
    if store:
        record["store"] = store
    record["features"] = [*features]
    return json.dumps(record, separators=(",", ":")).removesuffix("}") + ",\n"


def _nested(
    tree: FlatTree,
    names: Sequence[str],
    scales: NDArray[np.float64],
    with_missing: bool,
) -> str:
    """Returns the JSON of a tree.

    Args:
        names: F names as JSON.
        scales: (F,) factors of the thresholds.
        with_missing: whether splits say where missing values go.
    """
    sides = [
        '"missing":"left",' if left else '"missing":"right",'
        for left in tree.missing_left
    ]
    scaled = tree.threshold * scales[tree.feature]
    corrected = float32_texts(slack_corrected(scaled.astype(np.float32))[0])
    values = float32_texts(tree.value)
    is_leaf = tree.is_leaf.tolist()
    features = tree.feature.tolist()

    def text_of(node: int, _: int) -> str:
        if is_leaf[node]:
            return f'{{"value":"{values[node]}"}}'
        missing = sides[node] if with_missing else ""
        return f'{{"feature":{names[features[node]]},"threshold":"{corrected[node]}",{missing}"left":'

    return nested_text(is_leaf, text_of, between=',"right":')


def read_solr(
    record: Mapping[str, Any], indices: Mapping[str, int]
) -> tuple[Arithmetic, Ensemble | Weights]:
    """Returns how Solr scores a written model, and its trees or weights.

    Args:
        indices: name of a feature -> its index.
    """
    parameters = record["params"]
    if record["class"] == LINEAR_CLASS:
        weights = {
            indices[name]: weight for name, weight in parameters["weights"].items()
        }
        return Arithmetic("<=", missing="zero"), weights

    def read(node: Mapping[str, Any]) -> Node:
        if "value" in node:
            return Leaf(parse_float32(node["value"]))
        threshold = parse_float32(node["threshold"])
        is_left = node.get("missing") == "left"
        return InnerNode(
            indices[node["feature"]], threshold, is_left, node["left"], node["right"]
        )

    trees = []
    for tree in parameters["trees"]:
        root = tree_of(tree["root"], read)
        trees.append(WeightedTree(parse_float32(tree["weight"]), root))
    units = _units_of(record["features"], indices)
    missing: Literal["zero", "side"] = "side"
    if parameters.get("isNullSameAsZero", True):
        missing = "zero"
    arithmetic = Arithmetic("<=", missing=missing, shift=float(SOLR_SLACK), units=units)
    return arithmetic, Ensemble(tuple(trees))


def _units_of(
    features: Sequence[Mapping[str, Any]], indices: Mapping[str, int]
) -> dict[int, float]:
    """Returns feature -> its unit, of the features that the model scales."""
    units = {}
    for feature in features:
        if "norm" in feature:
            unit = parse_float32(feature["norm"]["params"]["std"])
            units[indices[feature["name"]]] = unit
    return units


# ---- Requests that score rows with the deployed model.
#
# Each row is a document, and each feature of the model a field of it that a FieldValueFeature reads. The
# model is uploaded again under another name, with these features. Documents have ids with a prefix, and a
# schema request creates the fields, so that nothing of the collection is replaced.
#
# Sources: apache/solr, solr/modules/ltr/src/java/org/apache/solr/ltr/feature/FieldValueFeature.java, commit
# 00f78545af5d7573a8f64c83f7266009337d0122 (a field without a value has the default value, 0); requests in
# solr/solr-ref-guide/modules/query-guide/pages/learning-to-rank.adoc, commit
# 0bc36c931ba18c84e33badf555c9e11014de152c, and the chapter on the Schema API.

ID_PREFIX: Final = "ltrbench-check-"
"""Before the id of a row in the id of its document."""

_FIELDS = "ltrbench_check_"
_TYPE = "ltrbench_check_float"


# The fields of the rows, which are added to the schema and removed again.
_SCHEMA = {
    "add-field-type": {
        "name": _TYPE,
        "class": "solr.FloatPointField",
        "docValues": True,
    },
    "add-dynamic-field": {
        "name": f"{_FIELDS}*",
        "type": _TYPE,
        "indexed": False,
        "stored": True,
    },
}
_ADDED = {
    "delete-dynamic-field": {"name": f"{_FIELDS}*"},
    "delete-field-type": {"name": _TYPE},
}


def _features_of_fields(
    used: Mapping[str, int], store: str, null_is_zero: bool
) -> list[dict[str, Any]]:
    """Returns the features of a model, which read the fields of the documents.

    Args:
        used: feature -> its index.
    """
    default = {} if null_is_zero else {"defaultValue": "NaN"}
    features = []
    for feature, index in used.items():
        features.append(
            {
                "name": feature,
                "class": "org.apache.solr.ltr.feature.FieldValueFeature",
                "params": {"field": _field(index), **default},
                "store": store,
            }
        )
    return features


def _search(server: str, model: str, num_rows: int) -> str:
    """Returns the command that scores all rows."""
    return (
        f"curl --fail-with-body \"{server}/select\" --data-urlencode 'defType=lucene' "
        f"--data-urlencode 'q={{!prefix f=id}}{ID_PREFIX}' "
        f"--data-urlencode 'rq={{!ltr model={model} reRankDocs={num_rows}}}' "
        f"--data-urlencode 'fl=id,score' --data-urlencode 'rows={num_rows}' "
        "--data-urlencode 'wt=json' > answers.json"
    )


def _documents(rows: CheckRows, used: Mapping[str, int]) -> list[dict[str, Any]]:
    written = set(used.values())
    documents = []
    for identity, values in rows.values():
        document: dict[str, Any] = {"id": f"{ID_PREFIX}{identity}"}
        for index, value in values.items():
            if index in written:
                document[_field(index)] = value
        documents.append(document)
    return documents


def _field(index: int) -> str:
    return f"{_FIELDS}{index + 1}"


# ---- The target. Its simulator follows apache/solr, solr/modules/ltr/src/java/org/apache/solr/ltr/:
#
#     store/rest/ManagedModelStore.java, commit 2ae07309ea31f08b548e798510f1c09b3f7055ec: the features of a
#     model are looked up by name, and a normalizer is applied to the value of its feature;
#     norm/StandardNormalizer.java, commit 9f5b2c7c27ed8d6cdcac2fc64c3c3f57ddf2e99d: (value - avg) / std,
#     float32;
#     feature/Feature.java, commit 14a135e927df081714240b117d802735e8e099e4: a feature without a value has its
#     defaultValue of the feature store, 0 if there is none;
#     model/MultipleAdditiveTreesModel.java, commit 1a87471fb43eca419c69441f30b85f0fd94855ec: the threshold is
#     Float.parseFloat of its text, plus 1e-6 in float32; a value goes left if it is at most that; NaN goes
#     right; the score is a float32 sum of weight times value, in the order of the trees;
#     the same file, commit b5a11798c0c69d4cea6aac1425e7ac2095f5cb47: from Solr 9.2 on (SOLR-16596), with
#     isNullSameAsZero false, NaN is not normalized, and goes left if missing is left, otherwise right; a
#     split without missing cannot have NaN;
#     model/LinearModel.java, commit 19c29c5025090521691c4118563cdcdc036174b3: weights are rounded to float32;
#     the score is a float32 sum of value times weight, in the order of the features;
#     LTRRescorer.java, commit 13c45ceb06a84b9437e5ec88e349a62f6f0d0399: documents are sorted by the score,
#     which may be negative.

MISSING_SINCE: Final = (9, 2)
"""First version of Solr in which splits say where missing values go."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MOST_ZOOKEEPER_BYTES = 2**20


@dataclass
class SolrTarget(Target):
    """Apache Solr with its Learning to Rank module, which is named `ltr` in Solr.

    Attributes:
        collection: collection whose results are ranked.
        store: feature store of the model; empty: the default one.
        version: version of Solr; 9.2 stands for all newer ones.
        absent: what a feature without a value stands for: "missing", which needs Solr 9.2, or "zero".
    """

    collection: str = "COLLECTION"
    store: str = ""
    version: str = "9.2"
    absent: Literal["missing", "zero"] = "zero"

    name = "solr"
    verified_against = (
        "MultipleAdditiveTreesModel of Solr's sources of 2017, run with OpenJDK 17 on 2026-11-23. The branch "
        "for missing values of Solr 9.2, and linear models: sources read, not run"
    )

    hits = ("response", "docs", "id", "score")

    def __post_init__(self) -> None:
        for field, value in (
            ("collection", self.collection),
            ("store", self.store or "x"),
        ):
            if not _NAME.fullmatch(value):
                raise ConfigError(
                    f"{field} is '{value}'; use letters, digits, '_', '.' and '-' only."
                )
        if (
            parsed_version(self.version, "Solr", "9.2") < MISSING_SINCE
            and self.absent == "missing"
        ):
            raise ConfigError(
                f"absent is 'missing', but trees have no branch for missing values in Solr {self.version}. "
                "Use Solr 9.2 or newer, or train with 0 for missing values."
            )

    def export(self, model: ShippedModel) -> Export:
        with_missing = self.absent == "missing"
        if isinstance(model.scorer, Linear):
            if with_missing:
                raise ConfigError(
                    f"absent is 'missing', but {model.name} is a linear model. Remove the option absent."
                )
            weights = model.scorer.weights
            content = write_solr_linear(
                weights, model.name, model.feature_names, self.store
            )
            limits = limits_of_weights(weights)
        else:
            original = model.trees(self.name)
            trees = without_zero_missing(original)
            content = write_solr_trees(
                trees, model.name, model.feature_names, self.store, with_missing
            )
            limits = {}
            if not with_missing:
                limits = limits_with_missing_as_zero(
                    original,
                    "A missing value is 0 in this file, but the model sends it elsewhere in a split. Export "
                    f"with {self.with_option('absent', 'missing')} for Solr 9.2 or newer, or train with 0 "
                    "for missing values.",
                )
        features = json.loads(content)["features"]
        store = [self._example(feature["name"]) for feature in features]
        schema = f"$SOLR/solr/{self.collection}/schema"
        upload = curl("PUT", f"{schema}/feature-store", "@features.json")
        upload_model = curl("PUT", f"{schema}/model-store", "@model.json")
        query = (
            f"Rank the first 100 results with the parameters rq={{!ltr model={model.name} "
            "reRankDocs=100} and fl=id,score."
        )
        return Export(
            {"model.json": content, "features.json": json_file(store)},
            request=f"{upload}\n{upload_model}",
            notes=(*_notes(content, features, model, with_missing), query),
            limits=limits,
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        record = json.loads(export.files["model.json"])
        arithmetic, scorer = read_solr(record, model.indices)
        return arithmetic.engine(scorer, "Apache Solr")

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests:
        """Returns the requests that add fields, documents, features and a model, and score the rows."""
        rows, left_out = rows.finite()
        name = f"{model.name}_check"
        server = f"$SOLR/solr/{self.collection}"
        record = json.loads(export.files["model.json"])
        indices = model.indices
        used = {
            feature["name"]: indices[feature["name"]] for feature in record["features"]
        }
        null_is_zero = record["params"].get("isNullSameAsZero", True)
        features = _features_of_fields(used, name, null_is_zero)
        delete = json.dumps({"delete": {"query": f"{{!prefix f=id}}{ID_PREFIX}"}})
        delete_fields = json.dumps(_ADDED)
        files = {
            "check_schema.json": json_file(_SCHEMA),
            "check_documents.json": json_file(_documents(rows, used)),
            "check_features.json": json_file(features),
            "check_model.json": json_file({**record, "name": name, "store": name}),
        }
        commands = (
            curl("POST", f"{server}/schema", "@check_schema.json"),
            curl("POST", f"{server}/update?commit=true", "@check_documents.json"),
            curl("PUT", f"{server}/schema/feature-store", "@check_features.json"),
            curl("PUT", f"{server}/schema/model-store", "@check_model.json"),
            _search(server, name, len(rows.ids)),
        )
        cleanup = (
            curl("POST", f"{server}/update?commit=true", f"'{delete}'"),
            f'curl -X DELETE "{server}/schema/model-store/{name}"',
            f'curl -X DELETE "{server}/schema/feature-store/{name}"',
            curl("POST", f"{server}/schema", f"'{delete_fields}'"),
        )
        notes = (
            "Use a collection for tests with the same configuration. Until the last commands remove "
            f"them, the rows are documents of the collection, with ids that begin with {ID_PREFIX}. It "
            "needs a managed schema and the unique key id.",
            f"The model {name} has the trees or weights of {model.name}, but features that read fields "
            "of the documents. The commands check the model and the engine, not the queries of your "
            "features.",
        )
        return CheckRequests(
            files, commands, cleanup=cleanup, notes=notes, left_out=left_out
        )

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        scores = super().answered_scores(answers)
        return {name.removeprefix(ID_PREFIX): score for name, score in scores.items()}

    def _example(self, name: str) -> dict[str, Any]:
        # Solr refuses an empty query, so that a feature that was forgotten cannot go unnoticed.
        params = {"q": ""}
        if self.absent == "missing":
            params["defaultValue"] = "NaN"
        feature = {
            "name": name,
            "class": "org.apache.solr.ltr.feature.SolrFeature",
            "params": params,
        }
        if self.store:
            feature["store"] = self.store
        return feature


def _notes(
    content: bytes,
    features: list[dict[str, Any]],
    model: ShippedModel,
    with_missing: bool,
) -> list[str]:
    absent = "0"
    if with_missing:
        absent = (
            "missing: keep its defaultValue NaN, or write 0 if it was 0 in training"
        )
    notes = [
        "features.json is an example: write the query of each feature, or another class of feature, before "
        f"the upload. A feature without a value is {absent}.",
        "A model cannot be replaced: delete it first, or export it under another name.",
    ]
    unused = model.num_features - len(features)
    if unused:
        notes.append(
            f"{unused} of {model.num_features} features are not listed, because no score needs them."
        )
    normalized = [feature["name"] for feature in features if "norm" in feature]
    if normalized:
        shown = ", ".join(normalized[:5])
        end = ", ..." if len(normalized) > 5 else "."
        notes.append(
            "Solr adds 1e-6 to thresholds, in which some small ones would be lost, so the model scales "
            f"{len(normalized)} features by a power of two (norm): {shown}{end} The features themselves "
            "stay as they are."
        )
    if len(content) > _MOST_ZOOKEEPER_BYTES:
        notes.append(
            f"The model has {len(content):,} bytes. SolrCloud stores it in ZooKeeper, where the limit is 1 "
            "MB by default: raise jute.maxbuffer, or use org.apache.solr.ltr.model.DefaultWrapperModel."
        )
    return notes
