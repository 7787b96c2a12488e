"""Shards: whole queries, about equal numbers of documents, and references to the files of a store."""

from __future__ import annotations

import pickle
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, read_data
from ltrbench.data.features import SparseRows
from ltrbench.data.store import write_store
from ltrbench.distributed import QueryShard, contiguous, divide_queries
from ltrbench.errors import ConfigError, DataError

NUM_QUERIES, NUM_FEATURES = 200, 50


def data_set() -> RankingDataset:
    rng = np.random.default_rng(0)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(1, 60, NUM_QUERIES))])
    num_documents = int(query_start[-1])
    return RankingDataset(
        features=rng.normal(size=(num_documents, NUM_FEATURES)).astype(np.float32),
        labels=rng.integers(0, 5, num_documents).astype(np.float64),
        query_start=query_start,
        query_ids=np.array([f"query {number}" for number in range(NUM_QUERIES)]),
        document_weights=rng.uniform(0.5, 2.0, num_documents),
        positions=rng.integers(1, 9, num_documents),
        feature_names=tuple(f"feature {number}" for number in range(NUM_FEATURES)),
    )


def every_second(
    query_sizes: NDArray[np.int64], num_shards: int
) -> list[NDArray[np.int64]]:
    return [np.arange(rank, len(query_sizes), num_shards) for rank in range(num_shards)]


def in_store(dataset: RankingDataset, folder: Path) -> RankingDataset:
    """The data set as a store of several shards."""
    write_store(folder, dataset, shard_bytes=dataset.features.nbytes // 3)
    return read_data(folder)


def assert_equal(shard: QueryShard, expected: RankingDataset) -> None:
    assert shard.dataset.fingerprint == expected.fingerprint
    assert shard.dataset.feature_names == expected.feature_names
    assert shard.dataset.query_ids.tolist() == expected.query_ids.tolist()


@given(
    sizes=st.lists(st.integers(1, 40), min_size=4, max_size=60),
    num_shards=st.integers(1, 4),
)
def test_contiguous_shards_are_balanced_and_never_empty(
    sizes: list[int], num_shards: int
) -> None:
    dealt = contiguous(np.array(sizes), num_shards)
    assert np.concatenate(dealt).tolist() == list(range(len(sizes)))
    documents = [sum(sizes[query] for query in queries) for queries in dealt]
    assert min(len(queries) for queries in dealt) >= 1
    # A cut is at most half a query away, unless a shard would be empty.
    assert max(documents) <= sum(sizes) / num_shards + max(sizes) * num_shards


@pytest.mark.parametrize("deal", [contiguous, every_second])
@pytest.mark.parametrize("kind", ["array", "store", "sparse"])
def test_a_pickled_shard_is_the_same_data_set(
    deal: Callable[[NDArray[np.int64], int], list[NDArray[np.int64]]],
    kind: str,
    tmp_path: Path,
) -> None:
    dataset = data_set()
    if kind == "store":
        dataset = in_store(dataset, tmp_path / "store")
    if kind == "sparse":
        dataset = dataset.with_fields(
            features=SparseRows.of(np.asarray(dataset.features))
        )
    for shard in divide_queries(dataset, 3, deal):
        again = pickle.loads(pickle.dumps(shard))
        assert again.queries.tolist() == shard.queries.tolist()
        assert_equal(again, dataset.take_queries(shard.queries))
        with pytest.raises(ValueError, match="read-only"):
            again.dataset.labels[0] = 1.0


def test_there_are_at_most_as_many_shards_as_queries() -> None:
    dataset = data_set().take_queries(np.arange(3))
    assert [shard.queries.tolist() for shard in divide_queries(dataset, 3)] == [
        [0],
        [1],
        [2],
    ]
    with pytest.raises(
        ConfigError, match=naming("distributed.workers is 4", "3 queries")
    ):
        divide_queries(dataset, 4)


def test_a_pickled_shard_has_no_other_rows_and_no_features_of_a_store(
    tmp_path: Path,
) -> None:
    dataset = data_set()
    stored = in_store(dataset, tmp_path / "store")
    for shard in divide_queries(dataset, 4, every_second):
        assert (
            len(pickle.dumps(shard))
            < 1.3 * 4 * NUM_FEATURES * shard.dataset.num_documents
        )
    for shard in divide_queries(stored, 4, every_second):
        # Labels, weights, positions and row numbers take 32 bytes per document; a row of features takes 200.
        others = 32 * shard.dataset.num_documents + 4 * 20 * len(shard.queries)
        assert len(pickle.dumps(shard)) < others + 6000


def test_a_worker_with_another_store_is_an_error(tmp_path: Path) -> None:
    dataset = data_set()
    (shard,) = divide_queries(in_store(dataset, tmp_path / "store"), 1)
    pickled = pickle.dumps(shard)
    shutil.rmtree(tmp_path / "store")
    in_store(
        dataset.with_fields(features=np.asarray(dataset.features) + 1),
        tmp_path / "store",
    )
    with pytest.raises(
        DataError,
        match=naming(socket.gethostname(), tmp_path / "store", "checksum", "same path"),
    ):
        pickle.loads(pickled)
