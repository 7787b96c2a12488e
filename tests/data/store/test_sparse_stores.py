"""A store of sparse features gives the data set of the text and of the dense store, and keeps only values."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_cases import content, data_sets, dataset_with, store_of
from store_cases import without_waiting_for_the_disk as without_waiting_for_the_disk

from ltrbench.cli import main
from ltrbench.data import RankingDataset, read_data, read_features
from ltrbench.data.features import SparseRows
from ltrbench.data.store import read_manifest, read_store

TEXT = "2 qid:7 1:0.5 3:1 # docid = A\n0 qid:7 2:4 4:0 # docid = B\n1 qid:8 1:2 # docid = C\n0 qid:9\n"


WORDS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["1", "0", "-0", "nan", "0.5"])),
    unique_by=lambda word: word[0],
    max_size=3,
)


@given(
    lines=st.lists(st.tuples(st.sampled_from(string.ascii_lowercase[:3]), WORDS), min_size=1, max_size=8),
    absent=st.sampled_from([0.0, float("nan")]),
    shard_bytes=st.integers(1, 80),
)
def test_text_dense_store_and_sparse_store_are_one_data_set(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], absent: float, shard_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("text")
    text = "".join(
        f"{number % 3} qid:{query} {' '.join(f'{index}:{value}' for index, value in sorted(words))}\n"
        for number, (query, words) in enumerate(lines)
    )
    (folder / "train.txt").write_text(text)
    options: dict[str, Any] = {"num_features": 6, "absent": absent, "sort_queries": True}
    of_text = read_data(folder / "train.txt", **options)
    for kind in (False, True):
        of_kind = read_data(folder / "train.txt", **options, sparse=kind)
        store = read_store(store_of(of_kind, folder / f"{kind}", shard_bytes))
        assert content(store) == content(of_text)
        assert isinstance(store.features, SparseRows) == kind


@given(
    dataset=data_sets().filter(lambda data: isinstance(data.features, SparseRows)),
    shard_bytes=st.integers(1, 80),
)
def test_shards_have_the_given_size_of_stored_values(
    tmp_path_factory: pytest.TempPathFactory, dataset: RankingDataset, shard_bytes: int
) -> None:
    store = store_of(dataset, tmp_path_factory.mktemp("s") / "a", shard_bytes)
    shards = read_manifest(store)["shards"]
    for number, shard in enumerate(shards):
        files = [store / f"shard-{number:05d}" / f"{name}.npy" for name in ("row_start", "columns", "values")]
        size = sum(file.stat().st_size - 128 for file in files) - 8  # without the end of the last row
        assert size == 8 * shard["documents"] + 8 * shard["values"]
        assert size <= shard_bytes or shard["queries"] == 1


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    features = SparseRows.of(np.array([[1, 0, 3], [0, np.nan, -0.0], [0, 0, 0]], dtype=np.float32))
    names = ("bm25", "age", "clicks")
    data = dataset_with(features=features, labels=[1, 0, 0], query_start=[0, 2, 3], feature_names=names)
    store = store_of(data, tmp_path / "named", 4)
    taken = read_data(store, feature_names=["clicks", "bm25", "age"])
    assert isinstance(taken.features, SparseRows)
    assert taken.feature_names == ("clicks", "bm25", "age")
    expected = dataset_with(
        features=np.asarray(features)[:, [2, 0, 1]], labels=[1, 0, 0], query_start=[0, 2, 3]
    )
    assert taken.fingerprint == expected.fingerprint


def test_features_for_prediction_stay_sparse_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 qid:a 1:1\n0 qid:b 1:2\n0 qid:a 1:3\n2 qid:b 1:4\n")
    data = read_data(tmp_path / "train.txt", sparse=True, sort_queries=True)
    features = read_features(store_of(data, tmp_path / "store", 8))
    assert isinstance(features, SparseRows)
    assert features[:].tolist() == [[1], [2], [3], [4]]


def test_build_and_info_of_sparse_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.txt").write_text(TEXT)
    build = ["data", "build", str(tmp_path / "train.txt"), "--output", str(tmp_path / "store")]
    assert main([*build, "--read", "sparse=true", "--read", "absent=nan"]) == 0
    assert main(["data", "check", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    assert main(["data", "info", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    for part in ("4: 1, 2, 3, 4", "5 values", "nan", "sparse=True", "document_ids"):
        assert part in printed
    assert "columns" not in printed
