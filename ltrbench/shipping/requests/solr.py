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
from collections.abc import Mapping
from typing import Any, Final

from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.target import CheckRequests, CheckRows

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
    return CheckRequests(
        files={
            "check_schema.json": _json_file(_schema()),
            "check_documents.json": _json_file(_documents(rows, used)),
            "check_features.json": _json_file([_feature(*item, name) for item in used.items()]),
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


def _feature(name: str, place: int, store: str) -> dict[str, Any]:
    reads_field = "org.apache.solr.ltr.feature.FieldValueFeature"
    return {"name": name, "class": reads_field, "params": {"field": _field(place)}, "store": store}


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
