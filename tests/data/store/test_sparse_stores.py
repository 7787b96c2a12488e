"""A store of sparse features gives the data set of the text and of the dense store, and keeps only values."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_cases import content, data_sets, store_of
from store_cases import without_waiting_for_the_disk as without_waiting_for_the_disk

from ltrbench.cli import main
from ltrbench.data import RankingDataset, read_data
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
