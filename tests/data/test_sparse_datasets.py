"""A data set with sparse features is the data set with the same features as an array."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.data import RankingDataset
from ltrbench.data import dataset as dataset_module
from ltrbench.data import features as matrix_module
from ltrbench.data import features as segments_module
from ltrbench.data.features import AnyFeatures, SparseRows, StackedRows, take_rows
from ltrbench.shapes import Features


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_module, "BLOCK_BYTES", 24)
    monkeypatch.setattr(segments_module, "_STORED", 3)


@pytest.fixture(params=["by cell", "by segment"])
def hashed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests take the fingerprint of few features as that of few and as that of many features."""
    if request.param == "by segment":
        monkeypatch.setattr(dataset_module, "_HASHED_BY_CELL", 0)


def with_features(dataset: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return replace(dataset, features=cast(Features, features))


def stored_with_zeros(features: Features, absent: float, rng: np.random.Generator) -> SparseRows:
    """Returns the sparse form, in which also some cells are stored that have the value `absent`."""
    sparse = SparseRows.of(features, absent)
    stored = np.zeros(features.shape, dtype=np.bool_)
    stored[np.repeat(np.arange(len(features)), np.diff(sparse.row_start)), sparse.columns] = True
    stored |= rng.random(features.shape) < 0.3
    row_start = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return SparseRows(
        row_start, np.nonzero(stored)[1].astype(np.int32), features[stored], features.shape[1], absent
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[RankingDataset, RankingDataset]:
    """A data set of small queries, of which some are equal, and the same data set with sparse features."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=12))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    shape = sum(sizes), draw(st.integers(1, 4))
    features = rng.choice(np.array([0, 0, -0.0, 1, np.nan], np.float32), shape)
    dense = RankingDataset(
        features=features,
        labels=rng.integers(0, 2, shape[0]).astype(np.float64),
        query_start=np.cumsum([0, *sizes]),
    )
    absent = draw(st.sampled_from([0.0, -0.0, np.nan]))
    return dense, with_features(dense, stored_with_zeros(features, absent, rng))


@pytest.mark.usefixtures("hashed")
@given(pair=pairs(), data=st.data())
def test_fingerprints_and_query_keys_are_those_of_the_array(
    pair: tuple[RankingDataset, RankingDataset], data: st.DataObject
) -> None:
    dense, sparse = pair
    assert sparse.fingerprint == dense.fingerprint
    assert sparse.query_keys.tolist() == dense.query_keys.tolist()
    queries = data.draw(st.permutations(range(dense.num_queries)))[: max(dense.num_queries // 2, 1)]
    taken, expected = sparse.take_queries(queries), dense.take_queries(queries)
    assert taken.fingerprint == expected.fingerprint
    assert taken.query_keys.tolist() == expected.query_keys.tolist()
    assert taken.in_memory().fingerprint == expected.fingerprint
    half = data.draw(st.integers(0, dense.num_documents))
    for lower in (sparse.features, dense.features):
        upper = take_rows(sparse.features, [[0, half]])
        stacked = StackedRows([upper, take_rows(lower, [[half, dense.num_documents]])])
        assert with_features(dense, stacked).fingerprint == dense.fingerprint
        assert with_features(dense, stacked).take_queries(queries).fingerprint == expected.fingerprint
