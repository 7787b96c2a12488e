"""RankingDataset: validation at construction, and the properties that all other code relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.errors import DataError


def dataset(**changes: Any) -> RankingDataset:
    """Returns three queries of 2, 1 and 3 documents with every optional field, except for `changes`."""
    parts: dict[str, Any] = {
        "features": np.arange(12, dtype=np.float32).reshape(6, 2),
        "labels": [0, 2, 1, 4, 0, 3],
        "query_start": [0, 2, 3, 6],
        "query_ids": ["a", "b", "c"],
        "document_ids": ["a1", "a2", "b1", "c1", "c2", "c3"],
        "query_weights": [1.0, 2.0, 0.5],
        "positions": [1, 2, 1, 3, 1, 2],
        "feature_names": ("bm25", "pagerank"),
    }
    return RankingDataset(**(parts | changes))


def test_arrays_are_converted_once_and_cannot_be_written() -> None:
    data = dataset()
    assert data.features.dtype == np.float32
    assert data.labels.dtype == np.float64
    assert data.query_start.dtype == np.int64
    for name in (
        "features",
        "labels",
        "query_start",
        "query_ids",
        "document_ids",
        "positions",
    ):
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[0] = getattr(data, name)[1]
    with pytest.raises(AttributeError):
        data.labels = np.zeros(6)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"labels": [0, 2, -1, 4, 0, 3]}, ["labels[2]", -1.0, "grade"]),
        ({"labels": [0, np.nan, 1, 4, 0, 3]}, ["labels[1]", "nan", "finite"]),
        ({"labels": [0, 2, 1, 4, 0]}, ["labels", "5 values", "ends with 6"]),
        ({"query_start": [1, 2, 6]}, ["query_start", "[1 2 6]", "start with 0"]),
        ({"query_start": [0, 2, 2, 6]}, ["query_start[1]", 2, "without documents"]),
        (
            {"query_ids": ["a", "b", "a"]},
            ["query_ids[0]", "query_ids[2]", "'a'", "consecutive"],
        ),
        ({"document_ids": ["a"]}, ["document_ids", "(1,)", "6"]),
        ({"query_weights": [1, 0, 1]}, ["query_weights[1]", "positive", "remove"]),
        ({"document_weights": [1, 1, -1, 1, 1, 1]}, ["document_weights[2]", -1.0]),
        (
            {"feature_names": ("a", "a")},
            ["feature_names[0]", "feature_names[1]", "'a'", "rename"],
        ),
        ({"features": np.full((6, 2), np.inf)}, ["features[0, 0]", "inf", "finite"]),
        ({"features": np.zeros((5, 2))}, ["5 rows", "6 labels"]),
        ({"kept": {"price": [1.0]}}, ["kept['price']", "(1,)", "6"]),
        (
            {"kept": {"brand": ["x"] * 5 + [None]}},
            ["kept['brand'][5]", "None", "string"],
        ),
        ({"kept": {"bm25": np.zeros(6)}}, ["kept", "'bm25'", "feature"]),
        ({"categories": {"bm52": ("x",)}}, ["categories", "'bm52'", "'bm25'?"]),
        ({"categories": {"bm25": ("x", "x")}}, ["categories['bm25'][0]", "'x'"]),
        ({"categories": {"bm25": ("x", "y")}}, ["'bm25'", "[1]", 2.0, "0 to 1", "NaN"]),
    ],
)
def test_an_invalid_value_is_named_with_its_field_and_row(
    changes: dict[str, Any], parts: list[object]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        dataset(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"features": np.arange(12).reshape(6, 2).T.reshape(6, 2)},
        {"labels": [0, 2, 1, 4, 0, 2]},
        {"query_start": [0, 1, 3, 6]},
        {"query_weights": None},
        {"positions": None},
        {"kept": {"price": np.zeros(6)}},
        {"categories": {"pagerank": tuple(map(str, range(12)))}},
        {"categories": {"pagerank": tuple(map(str, reversed(range(12))))}},
    ],
)
def test_whatever_a_backend_or_metric_can_see_changes_the_fingerprint(
    changes: dict[str, Any],
) -> None:
    assert dataset(**changes).fingerprint != dataset().fingerprint


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), data=st.data())
@settings(deadline=None)
def test_taken_queries_keep_every_document_with_all_that_belongs_to_it(
    sizes: list[int], data: st.DataObject
) -> None:
    num_documents, num_queries = sum(sizes), len(sizes)
    whole = RankingDataset(
        features=np.arange(num_documents * 2, dtype=np.float32).reshape(-1, 2),
        labels=np.arange(num_documents, dtype=np.float64),
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=np.array([f"q{query}" for query in range(num_queries)]),
        document_ids=np.array([f"d{row}" for row in range(num_documents)]),
        query_weights=np.arange(1.0, num_queries + 1),
        positions=np.arange(num_documents),
        feature_names=("even", "odd"),
        kept={
            "price": np.arange(num_documents) / 3,
            "title": np.array([f"t{row}" for row in range(num_documents)]),
        },
        categories={"odd": tuple(f"c{code}" for code in range(2 * num_documents))},
    )
    queries = data.draw(
        st.lists(st.integers(0, num_queries - 1), min_size=1, unique=True)
    )
    taken: Any = whole.take_queries(queries)
    rows = [
        row
        for query in queries
        for row in range(whole.query_start[query], whole.query_start[query + 1])
    ]
    assert taken.labels.tolist() == taken.positions.tolist() == rows
    assert taken.document_ids.tolist() == [f"d{row}" for row in rows]
    assert taken.features[:, 1].tolist() == [2 * row + 1 for row in rows]
    assert taken.column("price").tolist() == [row / 3 for row in rows]
    assert taken.column("title").tolist() == [f"t{row}" for row in rows]
    assert taken.column("odd").tolist() == [f"c{2 * row + 1}" for row in rows]
    assert (
        taken.column("query_id").tolist()
        == whole.query_ids[whole.query_of_document[rows]].tolist()
    )
    assert taken.query_sizes.tolist() == [sizes[query] for query in queries]
    assert taken.query_ids.tolist() == [f"q{query}" for query in queries]
    with pytest.raises(DataError, match="queries"):
        whole.take_queries([])
    assert taken.query_weights.tolist() == [query + 1 for query in queries]


# Of the first version that had fingerprints: results of earlier runs refer to them.
FINGERPRINTS = {
    (0, 1, 2): "fa1463d829311da8c0d1c9508d341938",
    (1, 2): "86efd6789578601d98426e35faaae191",
    (2, 0): "4b86bd0c84fad95e21fc1adc57f407a2",
}


# Results of earlier runs also refer to these. The key of the second query depends on its id.
QUERY_KEYS = [
    "ce23f0bb09efbc24041c1198d4d94e0d",
    "6dff791a17ea092f7f34d604d4412b20",
    "3801e9836f65d40f4848c26d6f303c44",
]


@pytest.mark.parametrize("queries", FINGERPRINTS)
def test_fingerprints_and_query_keys_never_change(queries: tuple[int, ...]) -> None:
    data = dataset(
        features=np.array(
            [[0.5, np.nan], [-0.0, 1e-40], [3, 4], [5, 6], [7, 8], [9, 10]]
        )
    )
    taken = data.take_queries(queries)
    assert taken.fingerprint == FINGERPRINTS[queries]
    assert taken.query_keys.tolist() == [QUERY_KEYS[query] for query in queries]


@pytest.mark.parametrize("num_features", [2, 12_000])
def test_every_nan_has_the_same_fingerprint(num_features: int) -> None:
    fingerprints = set()
    for bits in (0x7FC00000, 0xFFC00000, 0x7FC00001, 0xFFFFFFFF):
        features = np.ones((6, num_features), dtype=np.float32)
        features[1:4, 1] = np.nan
        features.view(np.uint32)[2, :2] = bits
        given = features.copy()
        sparse = [SparseRows.of(features, absent) for absent in (0.0, -np.nan)]
        for form in (features, *sparse):
            fingerprints.add(dataset(features=form, feature_names=()).fingerprint)
        assert features.tobytes() == given.tobytes()
    assert len(fingerprints) == 1


def test_weights_alike_within_each_query_are_query_weights() -> None:
    sizes = dataset().query_sizes
    given = dataset(
        query_weights=None, document_weights=np.repeat([1.0, 2.0, 3.0], sizes)
    )
    assert given.document_weights is None
    assert given.query_weights is not None
    assert given.query_weights.tolist() == [1.0, 2.0, 3.0]


def test_weights_that_vary_give_a_query_their_mean_and_go_with_their_rows() -> None:
    weights = np.arange(6.0)
    whole = dataset(query_weights=None, document_weights=weights)
    queries = [
        weights[a:b]
        for a, b in zip(whole.query_start[:-1], whole.query_start[1:], strict=True)
    ]
    assert whole.query_weights is not None
    np.testing.assert_allclose(
        whole.query_weights, [query.mean() for query in queries], rtol=1e-15
    )
    np.testing.assert_array_equal(
        whole.take_queries([2, 1]).weight_of_document,
        np.concatenate([queries[2], queries[1]]),
    )
    assert whole.fingerprint != dataset(query_weights=whole.query_weights).fingerprint


@given(rows=st.permutations(range(6)))
def test_what_follows_the_file_follows_the_rows_and_back(rows: list[int]) -> None:
    data = dataset(file_rows=rows)
    in_file = np.arange(6) * 10.0
    in_rows = data.from_file_order(in_file)
    assert in_rows.tolist() == [row * 10.0 for row in rows]
    np.testing.assert_array_equal(data.to_file_order(in_rows), in_file)
    assert dataset().from_file_order(in_file) is in_file
