"""Requests for the Learning to Rank plug-ins of Elasticsearch and OpenSearch.

Each row is a document of a new index, and each feature a float32 field of it. The features of a new feature
set read these fields, so that the uploaded definition scores the rows under another name. A query and a
script must not have a negative score (FieldValueFactorFunction and ScriptScoreFunction of both engines), but
a derived_expression of the plug-in may: of a feature with negative values, the positive and the negative
part are two fields and two additional features, and the feature is their difference, which is exact. Such
features are not made for several threads, so the index has one segment.

Sources: o19s/elasticsearch-learning-to-rank, src/main/java/com/o19s/es/ltr/, with the same files in
opensearch-project/opensearch-learning-to-rank-base:
    query/RankerQuery.java, commit 035a052b4b6a73df13ba0a9e1cab289ea7cb7900: features in their order;
    query/DerivedExpressionQuery.java (OpenSearch), commit 41442a3ab63934e4bae1af022a710feef3b3d4ff;
    feature/store/StoredFeature.java, commit 035a052b4b6a73df13ba0a9e1cab289ea7cb7900;
    rest/RestSimpleFeatureStore.java, commit 037e4f82eff8e43774d87635bfeeff08afe7652d.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ltrbench.shipping.target import CheckRequests, CheckRows, ShippedModel

MOST_FEATURES_OF_SET: Final = 10_000
"""Maximum number of features of a feature set (StoredFeatureSet.MAX_FEATURES)."""

_PARTS: Final = ("_positive", "_negative")
_RANKLIB_FEATURE = re.compile(r"<feature> ([0-9]+) </feature>")


@dataclass(frozen=True)
class UploadedDefinition:
    """A model definition as it was exported.

    Attributes:
        type: its format, such as "model/xgboost+json".
        address: variable with the address of the cluster in curl lines.
        engine_name: name of the engine in sentences.
    """

    type: str
    definition: str
    address: str
    engine_name: str


def plugin_requests(model: ShippedModel, uploaded: UploadedDefinition, rows: CheckRows) -> CheckRequests:
    """Returns the requests that create an index, a feature set and a model, and score the rows."""
    rows, left_out = _usable(model, uploaded, rows)
    signed = _signed_features(rows)
    name, index = f"{model.name}_check", f"ltrbench-check-{model.name.lower()}"
    definition = uploaded.definition
    if uploaded.type == "model/ranklib":  # knows features by their places, which the additional ones change
        definition = _with_features_moved(definition, 2 * len(signed))
    feature_set = {"featureset": {"name": f"{name}_set", "features": _features(model, signed)}}
    upload = {"model": {"name": name, "model": {"type": uploaded.type, "definition": definition}}}
    search = {
        "size": len(rows.ids),
        "_source": False,
        "query": {
            "bool": {
                "filter": [{"ids": {"values": list(rows.ids)}}],
                "must": [{"sltr": {"model": name, "params": {}}}],
            }
        },
    }
    return CheckRequests(
        files={
            "check_index.json": _json_file(_index(model.num_features, signed)),
            "check_documents.ndjson": _documents(rows, signed),
            "check_featureset.json": _json_file(feature_set),
            "check_upload.json": _json_file(upload),
            "check_search.json": _json_file(search),
        },
        commands=_commands(uploaded.address, index, name),
        cleanup=_cleanup(uploaded.address, index, name),
        notes=_notes(model, uploaded, signed),
        left_out=left_out,
    )


def _usable(
    model: ShippedModel, uploaded: UploadedDefinition, rows: CheckRows
) -> tuple[CheckRows, dict[str, str]]:
    """Returns the rows that documents can hold, and id -> reason of the others."""
    rows, left_out = rows.finite()
    reason = f"a negative score, which {uploaded.engine_name} does not allow"
    rows, negative_scores = rows.without(rows.scores < 0, reason)
    left_out |= negative_scores
    if model.num_features + 2 * len(_signed_features(rows)) > MOST_FEATURES_OF_SET:
        reason = (
            f"a negative value, for which a feature set of {uploaded.engine_name} with at most "
            f"{MOST_FEATURES_OF_SET:,} features has no room"
        )
        is_negative = np.asarray((rows.features[:, rows.columns] < 0).any(axis=1))
        rows, negative_values = rows.without(is_negative, reason)
        left_out |= negative_values
    return rows, left_out


def _signed_features(rows: CheckRows) -> dict[int, None]:
    """Returns the features with a negative value in a row, in their order."""
    columns = np.array(rows.columns, dtype=np.int64)
    return dict.fromkeys(columns[(rows.features[:, columns] < 0).any(axis=0)].tolist())


def _field(feature: int, part: str = "") -> str:
    # Numbered, because names of features may have dots and blanks, which fields cannot have.
    return f"f{feature + 1}{part}"


def _index(num_features: int, signed: Collection[int]) -> dict[str, Any]:
    fields = [_field(feature) for feature in range(num_features) if feature not in signed]
    fields += [_field(feature, part) for feature in signed for part in _PARTS]
    return {
        "settings": {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": "-1",  # with one shard and one bulk request, so that there is one segment
            "index.mapping.total_fields.limit": len(fields) + 100,
        },
        "mappings": {"dynamic": "strict", "properties": {name: {"type": "float"} for name in fields}},
    }


def _documents(rows: CheckRows, signed: Collection[int]) -> bytes:
    lines = []
    for identity, values in rows.values():
        document = {}
        for feature, value in values.items():
            if feature in signed:
                for part, side in zip(_PARTS, (value, -value), strict=True):
                    document[_field(feature, part)] = max(side, 0.0)
            else:
                document[_field(feature)] = value
        lines += [json.dumps({"index": {"_id": identity}}), json.dumps(document)]
    return "".join(f"{line}\n" for line in lines).encode()


def _features(model: ShippedModel, signed: Collection[int]) -> list[dict[str, Any]]:
    """Returns the features of the model, after those that a derived_expression needs before it."""
    prefix = "ltrbench"
    while any(name.startswith(prefix) for name in model.feature_names):
        prefix += "_"
    # Names of variables in an expression, which names of the model's features need not be.
    parts = {feature: [f"{prefix}_{feature + 1}{part}" for part in _PARTS] for feature in signed}
    features = [
        _reading(name, _field(feature, part))
        for feature, names in parts.items()
        for name, part in zip(names, _PARTS, strict=True)
    ]
    for feature, name in enumerate(model.feature_names):
        if feature in parts:
            difference = " - ".join(parts[feature])
            expression = {"template_language": "derived_expression", "template": difference}
            features.append({"name": name, "params": [], **expression})
        else:
            features.append(_reading(name, _field(feature)))
    return features


def _reading(name: str, field: str) -> dict[str, Any]:
    """Returns a feature that has the value of a field, and matches only documents that have the field."""
    query = {"query": {"exists": {"field": field}}, "field_value_factor": {"field": field}}
    template = {"function_score": {**query, "boost_mode": "replace"}}
    return {"name": name, "params": [], "template_language": "mustache", "template": template}


def _with_features_moved(definition: str, distance: int) -> str:
    """Returns a text of RankLib with higher numbers of features."""
    return _RANKLIB_FEATURE.sub(
        lambda match: f"<feature> {int(match.group(1)) + distance} </feature>", definition
    )


def _commands(address: str, index: str, name: str) -> str:
    features = f"_ltr/_featureset/{name}_set"
    return "\n".join(
        (
            _curl("PUT", address, index, "check_index.json"),
            _curl("POST", address, f"{index}/_bulk?refresh=true", "check_documents.ndjson", "x-ndjson"),
            _curl("PUT", address, features, "check_featureset.json"),
            _curl("POST", address, f"{features}/_createmodel", "check_upload.json"),
            f"{_curl('POST', address, f'{index}/_search', 'check_search.json')} > answers.json",
        )
    )


def _cleanup(address: str, index: str, name: str) -> str:
    paths = (f"_ltr/_model/{name}", f"_ltr/_featureset/{name}_set", index)
    return "\n".join(f'curl -X DELETE "${address}/{path}"' for path in paths)


def _curl(method: str, address: str, path: str, file: str, content: str = "json") -> str:
    header = f"-H 'Content-Type: application/{content}'"
    return f'curl --fail-with-body -X {method} "${address}/{path}" {header} --data-binary @{file}'


def _notes(model: ShippedModel, uploaded: UploadedDefinition, signed: Collection[int]) -> tuple[str, ...]:
    notes = [
        f"The commands create the index of the rows, the feature set {model.name}_check_set and the model "
        f"{model.name}_check, which has the definition of {model.name}, but features that read fields of the "
        "index. They check the model and the engine, not the templates of your features.",
    ]
    if signed:
        notes.append(
            f"Features with negative values: {len(signed)}. {uploaded.engine_name} allows no negative scores "
            "of queries, so each of them is the difference of two features (derived_expression)."
        )
        if uploaded.type == "model/ranklib":
            notes.append(
                f"These come first, so check_upload.json has feature numbers that are {2 * len(signed)} "
                "higher than in upload.json."
            )
    return tuple(notes)


def _json_file(record: Any) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
