"""The application, called through ASGI without a socket: answers, errors, and bodies that are too large."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_runs import NAMES, NamedFeatures, small_model

from ltrbench.serve import ranking_app

TEST = NamedFeatures().load().test


def call(app: Any, method: str, path: str, parts: Iterable[bytes] = ()) -> tuple[int, dict[str, str], Any]:
    """Returns status, headers and JSON of the answer to a request whose body comes in parts."""
    left = iter(parts)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = next(left, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], answered, json.loads(b"".join(message["body"] for message in sent[1:]))


def rank(app: Any, request: Any) -> Any:
    status, _, answer = call(app, "POST", "/rank", [json.dumps(request).encode()])
    assert status == 200, answer
    return answer


def test_documents_of_equal_scores_stay_in_the_order_of_the_request() -> None:
    ids = ["z", "a", 5, "m", -1]
    documents = [{"id": identifier, "features": [0.0] * 4} for identifier in ids]
    answer = rank(ranking_app(small_model()), {"documents": documents})
    assert [document["id"] for document in answer["documents"]] == ids
    assert len({document["score"] for document in answer["documents"]}) == 1


@pytest.mark.hypothesis
@given(
    st.lists(
        st.lists(st.none() | st.floats(-5, 5, width=32) | st.integers(-9, 9), min_size=4, max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.permutations(range(4)),
)
def test_any_list_has_the_scores_and_the_order_of_the_ranker(
    rows: list[list[float | None]], order_of_names: list[int]
) -> None:
    documents = [
        {"id": d, "features": {NAMES[f]: row[f] for f in order_of_names}} for d, row in enumerate(rows)
    ]
    answer = rank(ranking_app(small_model()), {"query": 1, "documents": documents})
    features = np.array([[np.nan if value is None else value for value in row] for row in rows])
    scores = small_model().ranker.predict(features.astype(np.float32))
    expected = sorted(range(len(rows)), key=lambda d: -scores[d])  # sorted is stable
    assert [(document["id"], document["score"]) for document in answer["documents"]] == [
        (d, scores[d]) for d in expected
    ]


def test_an_error_is_json_with_its_place() -> None:
    body = json.dumps({"documents": [{"id": 1, "features": {"bm25": 1}}]}).encode()
    status, headers, answer = call(ranking_app(small_model()), "POST", "/rank", [body])
    assert (status, headers["content-type"]) == (422, "application/json")
    assert answer["place"] == "documents[0].features.age"
    assert answer["error"].startswith(answer["place"])


def test_other_routes_and_methods_are_refused_with_the_routes() -> None:
    app = ranking_app(small_model())
    for method, path, expected in (("GET", "/rank", 405), ("POST", "/model", 405), ("POST", "/rank/", 404)):
        status, _, answer = call(app, method, path)
        assert status == expected
        assert "POST /rank" in answer["error"]


def test_the_model_is_described_with_features_versions_and_metrics() -> None:
    status, _, described = call(ranking_app(small_model()), "GET", "/model")
    assert status == 200
    assert described["features"] == list(NAMES)
    assert described["metrics"] == dict(small_model().run.result.metrics)
    assert described["convention"]["name"] == small_model().run.result.convention["name"]
    assert described["versions"]["of_run"] == dict(small_model().run.result.versions)
    assert call(ranking_app(small_model()), "GET", "/health")[2] == {"status": "ok", "model": "small"}


def test_a_body_is_limited_while_it_arrives() -> None:
    app = ranking_app(small_model(), max_bytes=100)
    status, headers, answer = call(app, "POST", "/rank", [b" " * 60, b" " * 60])
    assert status == 413
    assert "100" in answer["error"]
    assert headers["connection"] == "close"
