"""Requests for Vespa: an application of its own, whose documents are the rows.

Each row is a document, and each feature of the model an attribute of it. The model is written again with
these attributes as features.

Sources: the pages of docs.vespa.ai on application packages, on schemas, on the document JSON format and on
the commands `vespa feed` and `vespa query`. Nothing was run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ltrbench.shipping.target import CheckRequests, CheckRows

DOCUMENT_TYPE: Final = "ltrbench_check"
"""Type of the documents, and name of their schema."""

_SERVICES = f"""\
<services version="1.0">
  <container id="default" version="1.0">
    <document-api/>
    <search/>
    <nodes count="1"/>
  </container>
  <content id="{DOCUMENT_TYPE}" version="1.0">
    <min-redundancy>1</min-redundancy>
    <documents>
      <document type="{DOCUMENT_TYPE}" mode="index"/>
    </documents>
    <nodes count="1"/>
  </content>
</services>
"""
_APPLICATION = "check_application"


def vespa_requests(rows: CheckRows, name: str, files: Mapping[str, bytes]) -> CheckRequests:
    """Returns the application, its documents, and the commands that deploy it and score the rows.

    Args:
        name: name of the rank profile.
        files: the export of the model whose features are `attribute_of` their places.
    """
    rows, left_out = rows.finite()
    models = {file: content for file, content in files.items() if file == f"{name}.json"}
    return CheckRequests(
        files={
            "check_services.xml": _SERVICES.encode(),
            "check_schema.sd": _schema(rows, files[f"{name}.profile"].decode()).encode(),
            **models,
            "check_documents.jsonl": "".join(f"{json.dumps(each)}\n" for each in _documents(rows)).encode(),
        },
        commands=_commands(list(models), name, len(rows.ids)),
        cleanup=f"rm -r {_APPLICATION}",
        notes=(
            "vespa is the command-line client of Vespa. Use an instance for tests, such as a container of "
            "vespaengine/vespa: the application that is deployed replaces the one that is there.",
            f"The rank profile {name} has the model, but its features read attributes of the documents. The "
            "commands check the model and the engine, not the expressions of your features.",
        ),
        left_out=left_out,
    )


def attribute_of(place: int) -> str:
    """Returns the rank feature that reads a feature of a row.

    >>> attribute_of(0)
    'attribute(f1)'
    """
    return f"attribute({_field(place)})"


def _schema(rows: CheckRows, profile: str) -> str:
    fields = "".join(
        f"        field {_field(place)} type float {{\n            indexing: attribute\n        }}\n"
        for place in rows.columns
    )
    indented = "".join(f"    {line}\n" for line in profile.splitlines())
    return f"schema {DOCUMENT_TYPE} {{\n    document {DOCUMENT_TYPE} {{\n{fields}    }}\n{indented}}}\n"


def _documents(rows: CheckRows) -> list[dict[str, Any]]:
    return [
        {
            "put": f"id:{DOCUMENT_TYPE}:{DOCUMENT_TYPE}::{identity}",
            "fields": {_field(place): value for place, value in values.items()},
        }
        for identity, values in rows.values()
    ]


def _field(place: int) -> str:
    return f"f{place + 1}"


def _commands(models: Sequence[str], profile: str, num_rows: int) -> str:
    return "\n".join(
        (
            f"mkdir -p {_APPLICATION}/schemas {_APPLICATION}/models",
            f"cp check_services.xml {_APPLICATION}/services.xml",
            f"cp check_schema.sd {_APPLICATION}/schemas/{DOCUMENT_TYPE}.sd",
            *(f"cp {name} {_APPLICATION}/models/" for name in models),
            f"vespa deploy --wait 300 {_APPLICATION}",
            "vespa feed check_documents.jsonl",
            f"vespa query 'yql=select * from {DOCUMENT_TYPE} where true' 'ranking={profile}' "
            f"'hits={num_rows}' > answers.json",
        )
    )
