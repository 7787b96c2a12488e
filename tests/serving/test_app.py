"""The application, called through ASGI without a socket: answers, errors, and bodies that are too large."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from served_runs import NAMES, finished_run, small_model

from ltrbench.rankers.linear import LinearRanker
from ltrbench.runs import load
from ltrbench.serve import RefusedRequestError, RequestReader, ranking_app


def call(
    app: Any, method: str, path: str, parts: Iterable[bytes] = ()
) -> tuple[int, dict[str, str], Any]:
    """Returns status, headers and JSON of the answer to a request whose body comes in parts."""
    left = iter(parts)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = next(left, None)
        return {
            "type": "http.request",
            "body": part or b"",
            "more_body": part is not None,
        }

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(app(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return (
        sent[0]["status"],
        answered,
        json.loads(b"".join(message["body"] for message in sent[1:])),
    )


def rank(app: Any, request: Any) -> Any:
    status, _, answer = call(app, "POST", "/rank", [json.dumps(request).encode()])
    assert status == 200, answer
    return answer


def test_a_list_that_the_model_refuses_is_refused(tmp_path: Path) -> None:
    ranker = LinearRanker(missing="refuse")
    app = ranking_app(load(finished_run(tmp_path / "run", ranker).path))
    documents = [{"id": "a", "features": [None, 1, 2, 3]}]
    body = json.dumps({"query": "q", "documents": documents}).encode()
    status, _, answer = call(app, "POST", "/rank", [body])
    assert status == 422
    assert re.search(naming(NAMES[0], "missing"), str(answer))


@pytest.mark.hypothesis
@given(
    st.lists(
        st.lists(
            st.none() | st.floats(-5, 5, width=32) | st.integers(-9, 9),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    ),
    st.permutations(range(4)),
)
def test_any_list_has_the_scores_and_the_order_of_the_ranker(
    rows: list[list[float | None]], order_of_names: list[int]
) -> None:
    documents = [
        {"id": d, "features": {NAMES[f]: row[f] for f in order_of_names}}
        for d, row in enumerate(rows)
    ]
    answer = rank(ranking_app(small_model()), {"query": 1, "documents": documents})
    features = np.array(
        [[np.nan if value is None else value for value in row] for row in rows]
    )
    scores = small_model().ranker.predict(features.astype(np.float32))
    expected = sorted(range(len(rows)), key=lambda d: -scores[d])  # sorted is stable
    assert [
        (document["id"], document["score"]) for document in answer["documents"]
    ] == [(d, scores[d]) for d in expected]


def test_an_error_is_json_with_its_place() -> None:
    body = json.dumps({"documents": [{"id": 1, "features": {"bm25": 1}}]}).encode()
    status, headers, answer = call(ranking_app(small_model()), "POST", "/rank", [body])
    assert (status, headers["content-type"]) == (422, "application/json")
    assert answer["place"] == "documents[0].features.age"
    assert answer["error"].startswith(answer["place"])


def test_other_routes_and_methods_are_refused_with_the_routes() -> None:
    app = ranking_app(small_model())
    for method, path, expected in (
        ("GET", "/rank", 405),
        ("POST", "/model", 405),
        ("POST", "/rank/", 404),
    ):
        status, _, answer = call(app, method, path)
        assert status == expected
        assert "POST /rank" in answer["error"]


def test_the_model_is_described_with_features_versions_and_metrics() -> None:
    status, _, described = call(ranking_app(small_model()), "GET", "/model")
    assert status == 200
    assert described["features"] == list(NAMES)
    assert described["metrics"] == dict(small_model().run.result.metrics)
    assert (
        described["convention"]["name"] == small_model().run.result.convention["name"]
    )
    assert described["versions"]["of_run"] == dict(small_model().run.result.versions)
    assert call(ranking_app(small_model()), "GET", "/health")[2] == {
        "status": "ok",
        "model": "small",
    }


def test_a_body_that_has_not_arrived_when_the_service_ends_is_refused() -> None:
    def half() -> Iterator[bytes]:
        yield b'{"docum'
        raise asyncio.CancelledError  # as uvicorn ends a request

    status, headers, answer = call(ranking_app(small_model()), "POST", "/rank", half())
    assert (status, headers["connection"]) == (503, "close")
    assert re.search(naming("again"), answer["error"])


def test_a_body_is_limited_while_it_arrives() -> None:
    app = ranking_app(small_model(), max_bytes=100)
    status, headers, answer = call(app, "POST", "/rank", [b" " * 60, b" " * 60])
    assert status == 413
    assert "100" in answer["error"]
    assert headers["connection"] == "close"


# Requests to rank documents: every error has a status and a place, and what is accepted is read exactly.


TWO_NAMES = ("bm25", "age")
READER = RequestReader(TWO_NAMES, max_documents=4)
GOOD = {"id": "d0", "features": {"bm25": 1.5, "age": None}}


def body_of(*documents: Any, **fields: Any) -> bytes:
    return json.dumps({"query": "q", "documents": documents, **fields}).encode()


def features_of(features: Any) -> bytes:
    return body_of(GOOD, {"id": "d1", "features": features})


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        (b"{", 400, ""),
        (b"[" * 1_000_000, 400, ""),
        (b'{"documents": [{"id": 1, "features": [NaN, 0]}]}', 400, ""),
        (b"[]", 422, ""),
        (b"{}", 422, "documents"),
        (b'{"documents": 1}', 422, "documents"),
        (body_of(GOOD, limit=3), 422, "limit"),
        (body_of(GOOD, query=1.5), 422, "query"),
        (body_of(GOOD, 1), 422, "documents[1]"),
        (body_of(GOOD, {"id": 1}), 422, "documents[1].features"),
        (body_of(GOOD, {"id": True, "features": [0, 0]}), 422, "documents[1].id"),
        (body_of(GOOD, GOOD), 422, "documents[1].id"),
        (body_of(*({"id": d, "features": [0, 0]} for d in range(5))), 422, "documents"),
        (features_of("high"), 422, "documents[1].features"),
        (features_of([1.0]), 422, "documents[1].features"),
        (features_of([1.0, "2"]), 422, "documents[1].features[1]"),
        (features_of([1.0, True]), 422, "documents[1].features[1]"),
        (features_of([1.0, 1e39]), 422, "documents[1].features[1]"),
        (features_of({"bm25": 1.0}), 422, "documents[1].features.age"),
        (features_of({"bm25": 1.0, "agee": 2.0}), 422, "documents[1].features.agee"),
        (features_of({"bm25": 1e39, "age": 1}), 422, "documents[1].features.bm25"),
    ],
)
def test_a_wrong_request_is_refused_with_the_place_of_the_error(
    body: bytes, status: int, place: str
) -> None:
    with pytest.raises(RefusedRequestError) as refused:
        READER.read(body)
    assert (refused.value.status, refused.value.place) == (status, place)
    assert 0 < len(str(refused.value)) < 300
    assert status == 400 or place in str(refused.value)


def test_a_category_is_a_text_a_number_or_a_boolean_and_others_are_missing() -> None:
    reader = RequestReader(
        ("sold", "shop"), 4, {"sold": ("false", "true"), "shop": ("9", "10")}
    )
    values = [[True, 10], ["TRUE", "10"], [None, "new"], ["True ", "10.0"]]
    read = reader.read(
        body_of(*({"id": d, "features": each} for d, each in enumerate(values)))
    )
    np.testing.assert_array_equal(
        read.features, [[1, 1], [1, 1], [np.nan] * 2, [np.nan] * 2]
    )
    with pytest.raises(
        RefusedRequestError, match=naming("features[1]", "whole number")
    ):
        reader.read(body_of({"id": 0, "features": [True, 9.5]}))


def test_features_by_name_and_as_a_list_are_the_same() -> None:
    documents = [
        {"id": 1, "features": {"age": 2**70, "bm25": -1}},
        {"id": "1", "features": [-1, 2**70]},
    ]
    read = READER.read(body_of(*documents))
    assert (read.query, read.ids) == ("q", [1, "1"])
    np.testing.assert_array_equal(read.features, [[-1, 2**70]] * 2)


@pytest.mark.hypothesis
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["query", "documents", "id", "features", "bm25", "age", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    with contextlib.suppress(RefusedRequestError):  # no other exception
        read = READER.read(json.dumps(value).encode())
        assert read.features.shape == (len(read.ids), 2)
        assert not np.isinf(read.features).any()


def test_a_one_hot_encoded_column_is_one_value_of_a_document() -> None:
    reader = RequestReader(
        feature_names=("price", "size"),
        max_documents=10,
        categories={"size": ("S", "L")},
        encoded={"size": ("S", "L")},
    )
    given = [{"price": 1, "size": "L"}, [2, "XL"], [3, None]]
    documents = [
        {"id": number, "features": features} for number, features in enumerate(given)
    ]
    read = reader.read(json.dumps({"documents": documents}).encode())
    assert read.features.tolist() == [[1, 0, 1], [2, 0, 0], [3, 0, 0]]
