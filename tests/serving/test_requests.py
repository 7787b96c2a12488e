"""Requests to rank documents: every error has a status and a place, and what is accepted is read exactly."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.serve import RefusedRequestError, RequestReader

NAMES = ("bm25", "age")
READER = RequestReader(NAMES, max_documents=4)
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
def test_a_wrong_request_is_refused_with_the_place_of_the_error(body: bytes, status: int, place: str) -> None:
    with pytest.raises(RefusedRequestError) as refused:
        READER.read(body)
    assert (refused.value.status, refused.value.place) == (status, place)
    assert 0 < len(str(refused.value)) < 300
    assert status == 400 or place in str(refused.value)


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
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["query", "documents", "id", "features", "bm25", "age", "x"]),
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
