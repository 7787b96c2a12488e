"""Requests for Apache Solr with its Learning to Rank module.

Each row is a document, and each feature of the model a field of it that a FieldValueFeature reads. The model
is uploaded again under another name, with these features. Documents have ids with a prefix, and a schema
request creates the fields, so that nothing of the collection is replaced.

Sources: apache/solr, solr/modules/ltr/src/java/org/apache/solr/ltr/feature/FieldValueFeature.java, commit
00f78545af5d7573a8f64c83f7266009337d0122 (a field without a value has the default value, 0); requests in
solr/solr-ref-guide/modules/query-guide/pages/learning-to-rank.adoc, commit
0bc36c931ba18c84e33badf555c9e11014de152c, and the chapter on the Schema API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ltrbench.errors import ConfigError, require_choice
from ltrbench.models.solr_file import lossy_features, write_solr_linear, write_solr_trees
from ltrbench.models.trees import Ensemble, without_zero_missing
from ltrbench.shipping.probes import limits_with_missing_as_zero
from ltrbench.shipping.simulators.solr import parse_solr
from ltrbench.shipping.target import (
    MISSING_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
)

ID_PREFIX: Final = "ltrbench-check-"
"""Before the id of a row in the id of its document."""

_FIELDS, _TYPE = "ltrbench_check_", "ltrbench_check_float"


def solr_requests(model: ShippedModel, content: bytes, rows: CheckRows, collection: str) -> CheckRequests:
    """Returns the requests that add fields, documents, features and a model, and score the rows.

    Args:
        content: the exported model.json.
    """
    rows, left_out = rows.finite()
    name, record = f"{model.name}_check", json.loads(content)
    places = {feature_name: place for place, feature_name in enumerate(model.feature_names)}
    used = {feature["name"]: places[feature["name"]] for feature in record["features"]}
    default = {} if record["params"].get("isNullSameAsZero", True) else {"defaultValue": "NaN"}
    return CheckRequests(
        files={
            "check_schema.json": _json_file(_schema()),
            "check_documents.json": _json_file(_documents(rows, used)),
            "check_features.json": _json_file([_feature(*item, name, default) for item in used.items()]),
            "check_model.json": _json_file({**record, "name": name, "store": name}),
        },
        commands=_commands(collection, name, len(rows.ids)),
        cleanup=_cleanup(collection, name),
        notes=(
            "Use a collection for tests with the same configuration. Until the last commands remove them, "
            f"the rows are documents of the collection, with ids that begin with {ID_PREFIX}. It needs a "
            "managed schema and the unique key id.",
            f"The model {name} has the trees or weights of {model.name}, but features that read fields of "
            "the documents. The commands check the model and the engine, not the queries of your features.",
        ),
        left_out=left_out,
    )


def _schema() -> dict[str, Any]:
    return {
        "add-field-type": {"name": _TYPE, "class": "solr.FloatPointField", "docValues": True},
        "add-dynamic-field": {"name": f"{_FIELDS}*", "type": _TYPE, "indexed": False, "stored": True},
    }


def _documents(rows: CheckRows, used: Mapping[str, int]) -> list[dict[str, Any]]:
    written = set(used.values())
    return [
        {
            "id": f"{ID_PREFIX}{identity}",
            **{_field(place): value for place, value in values.items() if place in written},
        }
        for identity, values in rows.values()
    ]


def _feature(name: str, place: int, store: str, default: Mapping[str, str]) -> dict[str, Any]:
    reads_field = "org.apache.solr.ltr.feature.FieldValueFeature"
    return {"name": name, "class": reads_field, "params": {"field": _field(place), **default}, "store": store}


def _field(place: int) -> str:
    return f"{_FIELDS}{place + 1}"


def _commands(collection: str, name: str, num_rows: int) -> str:
    query = (
        "'defType=lucene'",
        f"'q={{!prefix f=id}}{ID_PREFIX}'",
        f"'rq={{!ltr model={name} reRankDocs={num_rows}}}'",
        "'fl=id,score'",
        f"'rows={num_rows}'",
        "'wt=json'",
    )
    parameters = " ".join(f"--data-urlencode {parameter}" for parameter in query)
    return "\n".join(
        (
            _curl("POST", f"{collection}/schema", "@check_schema.json"),
            _curl("POST", f"{collection}/update?commit=true", "@check_documents.json"),
            _curl("PUT", f"{collection}/schema/feature-store", "@check_features.json"),
            _curl("PUT", f"{collection}/schema/model-store", "@check_model.json"),
            f'curl --fail-with-body "$SOLR/solr/{collection}/select" {parameters} > answers.json',
        )
    )


def _cleanup(collection: str, name: str) -> str:
    delete = {"delete": {"query": f"{{!prefix f=id}}{ID_PREFIX}"}}
    schema = {"delete-dynamic-field": {"name": f"{_FIELDS}*"}, "delete-field-type": {"name": _TYPE}}
    return "\n".join(
        (
            _curl("POST", f"{collection}/update?commit=true", f"'{json.dumps(delete)}'"),
            f'curl -X DELETE "$SOLR/solr/{collection}/schema/model-store/{name}"',
            f'curl -X DELETE "$SOLR/solr/{collection}/schema/feature-store/{name}"',
            _curl("POST", f"{collection}/schema", f"'{json.dumps(schema)}'"),
        )
    )


def _curl(method: str, path: str, data: str) -> str:
    header = "-H 'Content-Type: application/json'"
    return f'curl --fail-with-body -X {method} "$SOLR/solr/{path}" {header} --data-binary {data}'


def _json_file(record: Any) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


# ---- Apache Solr with its Learning to Rank module.

MISSING_SINCE: Final = (9, 2)
"""First version of Solr in which splits say where missing values go."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,3})?")
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
    absent: str = "zero"

    name = "solr"
    verified_against = (
        "MultipleAdditiveTreesModel of Solr's sources of 2017, run with OpenJDK 17 on 2026-11-23. The branch "
        "for missing values of Solr 9.2, and linear models: sources read, not run"
    )

    def __post_init__(self) -> None:
        for field, value in (("collection", self.collection), ("store", self.store or "x")):
            if not _NAME.fullmatch(value):
                raise ConfigError(f"{field} is '{value}'; use letters, digits, '_', '.' and '-' only.")
        require_choice("absent", self.absent, ("missing", "zero"))
        version = _VERSION.fullmatch(self.version)
        if not version:
            raise ConfigError(f"version is '{self.version}', not a version of Solr such as '9.2'.")
        if self.absent == "missing" and (int(version[1]), int(version[2])) < MISSING_SINCE:
            raise ConfigError(
                f"absent is 'missing', but trees have no branch for missing values in Solr {self.version}. "
                "Use Solr 9.2 or newer, or train with 0 for missing values."
            )

    def export(self, model: ShippedModel) -> Export:
        _check_names(model)
        lossy: list[str] = []
        with_missing = self.absent == "missing"
        if isinstance(model.scorer, Linear):
            if with_missing:
                raise ConfigError(
                    f"absent is 'missing', but {model.name} is a linear model. Remove the option absent."
                )
            weights = model.scorer.weights
            content = write_solr_linear(weights, model.name, model.feature_names, self.store)
            limits = {MISSING_VALUES: "A missing value is 0 in Solr, but has no score in a linear model."}
        else:
            trees = without_zero_missing(model.scorer)
            content = write_solr_trees(trees, model.name, model.feature_names, self.store, with_missing)
            limits = {} if with_missing else _limits(model.scorer)
            lossy = [model.feature_names[feature] for feature in lossy_features(trees)]
        features = json.loads(content)["features"]
        store = [self._example(feature["name"]) for feature in features]
        return Export(
            {
                "model.json": content,
                "features.json": (json.dumps(store, ensure_ascii=False, indent=1) + "\n").encode(),
            },
            request="\n".join(
                (self._curl("feature-store", "features.json"), self._curl("model-store", "model.json"))
            ),
            notes=(
                *_notes(content, features, model, with_missing),
                *_notes_on_lossy(lossy),
                self._note_on_query(model.name),
            ),
            limits=limits,
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        parsed = parse_solr(export.files["model.json"], export.files["features.json"], model.feature_names)
        return Engine(parsed.scores, "Apache Solr", rules=parsed.rules, score_dtype="float32")

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests:
        return solr_requests(model, export.files["model.json"], rows, self.collection)

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> score of a query with fl=id,score, or of an object."""
        if isinstance(answers, dict) and isinstance(answers.get("response"), dict):
            documents = answers["response"].get("docs")
            if not isinstance(documents, list) or not all(map(_has_score, documents)):
                raise ValueError("expected response.docs with id and score of each document; use fl=id,score")
            answers = {
                str(document["id"]).removeprefix(ID_PREFIX): document["score"] for document in documents
            }
        return super().answered_scores(answers)

    def _example(self, name: str) -> dict[str, Any]:
        # Solr refuses an empty query, so that a feature that was forgotten cannot go unnoticed.
        params = {"q": ""} | ({"defaultValue": "NaN"} if self.absent == "missing" else {})
        feature = {"name": name, "class": "org.apache.solr.ltr.feature.SolrFeature", "params": params}
        return feature | ({"store": self.store} if self.store else {})

    def _curl(self, store: str, file: str) -> str:
        url = f"$SOLR/solr/{self.collection}/schema/{store}"
        return (
            f"curl --fail-with-body -X PUT \"{url}\" -H 'Content-Type: application/json' "
            f"--data-binary @{file}"
        )

    def _note_on_query(self, name: str) -> str:
        return (
            f"Rank the first 100 results with the parameters rq={{!ltr model={name} reRankDocs=100}} and "
            "fl=id,score."
        )


def _check_names(model: ShippedModel) -> None:
    names = model.feature_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"the feature name '{twice}' is given twice, but names in Solr's feature store must be unique. "
            "Rename one of the features."
        )
    if not _NAME.fullmatch(model.name):
        raise ConfigError(
            f"the model's name is '{model.name}', but it becomes part of a query. Use letters, digits, '_', "
            "'.' and '-' only."
        )


def _limits(trees: Ensemble) -> dict[str, str]:
    """Returns the limits of a model in which a feature without a value is 0."""
    limits = limits_with_missing_as_zero(trees, "Solr")
    if MISSING_VALUES in limits:
        limits[MISSING_VALUES] = (
            "A missing value is 0 in this file, but the model sends it elsewhere in a split. Export with "
            "absent=missing for Solr 9.2 or newer, or train with 0 for missing values."
        )
    return limits


def _notes(
    content: bytes, features: list[dict[str, Any]], model: ShippedModel, with_missing: bool
) -> list[str]:
    absent = "missing: keep its defaultValue NaN, or write 0 if it was 0 in training" if with_missing else "0"
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
        notes.append(
            "Solr adds 1e-6 to thresholds, in which some small ones would be lost, so the model scales "
            f"{len(normalized)} features by a power of two (norm): {', '.join(normalized[:5])}"
            f"{', ...' if len(normalized) > 5 else '.'} The features themselves stay as they are."
        )
    if len(content) > _MOST_ZOOKEEPER_BYTES:
        notes.append(
            f"The model has {len(content):,} bytes. SolrCloud stores it in ZooKeeper, where the limit is 1 "
            "MB by default: raise jute.maxbuffer, or use org.apache.solr.ltr.model.DefaultWrapperModel."
        )
    return notes


def _notes_on_lossy(names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f"Thresholds of {', '.join(names[:5])} range over too many orders of magnitude to be written "
        "exactly: the smallest ones are the closest numbers that Solr can have."
    ]


def _has_score(document: Any) -> bool:
    return isinstance(document, dict) and "id" in document and type(document.get("score")) in (int, float)
