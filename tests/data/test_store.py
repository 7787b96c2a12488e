"""A store gives the data set from which it was built, whatever its shards and blocks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from store_cases import content, data_sets, dataset_with, store_of
from store_cases import without_waiting_for_the_disk as without_waiting_for_the_disk

from ltrbench.cli import main
from ltrbench.data import RankingDataset, read_data, read_features, write_letor, write_table
from ltrbench.data.sources import StoreFiles
from ltrbench.data.store import (
    MANIFEST_FILE,
    STORE_FORMAT,
    check_store,
    read_manifest,
    read_store,
    shards_of,
    write_store,
)
from ltrbench.errors import DataError


@settings(max_examples=30)
@given(dataset=data_sets(), shard_bytes=st.integers(1, 60), again=st.integers(1, 60))
def test_a_store_gives_its_data_set_in_any_shards(
    tmp_path_factory: pytest.TempPathFactory, dataset: RankingDataset, shard_bytes: int, again: int
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    store = store_of(dataset, folder / "a", shard_bytes)
    assert content(read_store(store)) == content(dataset)
    assert content(read_store(store_of(read_store(store), folder / "b", again))) == content(dataset)
    check_store(store)
    manifest = read_manifest(store)
    assert manifest.fingerprint == dataset.fingerprint
    assert sum(shard.queries for shard in manifest.shards) == dataset.num_queries  # none is divided
    for shard in shards_of(store, manifest):
        size = sum(shard[name].num_bytes for name in manifest.feature_arrays)
        size -= 0 if manifest.absent is None else 8  # the end of the last row
        assert size <= shard_bytes or shard["query_ids"].shape == (1,)


# Files, stores and splits


@pytest.mark.parametrize("name", ["data.txt", "data.csv", "data.parquet"])
def test_text_tables_and_their_stores_are_one_data_set(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    dataset = dataset_with(
        features=rng.normal(size=(9, 3)),
        labels=[0, 1, 2] * 3,
        query_start=[0, 4, 9],
        document_ids=list("abcdefghi"),
        feature_names=("1", "2", "3") if name == "data.txt" else ("bm25", "clicks", "age"),
    )
    (write_letor if name == "data.txt" else write_table)(dataset, tmp_path / name)
    from_file = read_data(tmp_path / name)
    store = store_of(from_file, tmp_path / "store", shard_bytes=50)
    assert content(read_data(store)) == content(from_file)
    assert read_features(store)[:].tolist() == read_features(tmp_path / name).tolist()


def test_several_stores_are_one_split(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:a 1:1\n0 qid:b 1:2\n0 qid:a 1:3\n")
    (tmp_path / "b.txt").write_text("1 qid:c 1:4\n0 qid:d 1:5\n")
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    stores = [store_of(read_data(text, sort_queries=True), text.with_suffix(".store"), 4) for text in texts]
    assert content(read_data(stores)) == content(read_data(texts, sort_queries=True))
    for order in ([1, 0], [0, 1]):
        expected = read_features([texts[n] for n in order])
        assert read_features([stores[n] for n in order])[:].tolist() == expected.tolist()
    copy = shutil.copytree(stores[0], tmp_path / "copy")
    with pytest.raises(DataError, match=naming("query_ids", "'a'", stores[0], copy)):
        read_data([stores[0], copy])
    with pytest.raises(DataError, match=naming(stores[1], texts[0], "one format")):
        read_data([texts[0], stores[1]])


# The features of the training data


def test_columns_are_matched_by_name_unless_they_are_numbers(tmp_path: Path) -> None:
    named = dataset_with(features=[[1, 2]], labels=[1], query_start=[0, 1], feature_names=("bm25", "age"))
    store = store_of(named, tmp_path / "named", 4)
    assert read_data(store, 2, feature_names=["age", "bm25"]).features.tolist() == [[2, 1]]
    assert read_data(store, 2, feature_names=["1", "2"]).features[:].tolist() == [[1, 2]]
    with pytest.raises(DataError, match=naming(store, "'bm26'", "'bm25'", "build")):
        read_data(store, 2, feature_names=["age", "bm26"])
    with pytest.raises(DataError, match=naming(store, "'age'", "training", "build")):
        read_data(store, feature_names=["bm25"])
    with pytest.raises(DataError, match=naming(store, "2 features", "3 were expected", "num_features=3")):
        read_data(store, 3)


# Writing


def test_a_store_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    unpaired = dataset_with(features=[[1]], labels=[1], query_start=[0, 1], document_ids=["\ud800"])
    with pytest.raises(UnicodeEncodeError):
        write_store(tmp_path / "store", unpaired)
    assert list(tmp_path.iterdir()) == []


def test_a_source_names_the_store_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=naming("data=mine", tmp_path / "no", "data.train")):
        StoreFiles(name="mine", train=f"{tmp_path}/no").load()
    with pytest.raises(DataError, match=naming(tmp_path, "not a store", "data build")):
        StoreFiles(name="mine", train=str(tmp_path)).load()


# Damage


def damage_values(store: Path) -> Path:
    file = store / "shard-00001" / "weights.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    return file


def remove_array(store: Path) -> Path:
    (store / "shard-00000" / "labels.npy").unlink()
    return store / "shard-00000" / "labels.npy"


def change_format(store: Path) -> Path:
    manifest = json.loads((store / MANIFEST_FILE).read_text())
    (store / MANIFEST_FILE).write_text(json.dumps({**manifest, "format": STORE_FORMAT + 1}))
    return store / MANIFEST_FILE


FEATURES = np.arange(24, dtype=np.float32).reshape(8, 3)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three shards."""
    dataset = dataset_with(
        features=FEATURES,
        labels=[0, 1, 2, 0, 1, 0, 0, 1],
        query_start=[0, 3, 5, 8],
        document_weights=[1, 2, 1, 1, 1, 3, 1, 1],
    )
    return store_of(dataset, tmp_path / "store", 12)


@pytest.mark.parametrize("damage", [damage_values, remove_array, change_format])
def test_a_damaged_store_is_refused_with_the_file_and_the_remedy(
    store: Path, damage: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", str(store)]) == 0
    assert "no problems" in capsys.readouterr().out
    file = damage(store)
    with pytest.raises(DataError, match=naming(file, "damaged", "data build")):
        read_store(store)
    assert main(["data", "check", str(store)]) == 2
    assert file.name in capsys.readouterr().err


def test_the_fingerprint_of_a_store_is_that_of_its_format() -> None:
    """Stores keep the fingerprint: whoever changes its definition must also increase STORE_FORMAT."""
    dataset = dataset_with(features=FEATURES, labels=[0, 1, 2, 0, 1, 0, 0, 1], query_start=[0, 3, 5, 8])
    assert (STORE_FORMAT, dataset.fingerprint) == (3, "8d56f2f42f6c00e777ea78644d95d1ba")
    wide = dataset_with(
        features=np.eye(8, 20_000, dtype=np.float32), labels=dataset.labels, query_start=[0, 8]
    )
    assert (STORE_FORMAT, wide.fingerprint) == (3, "fdffec6cc61670df20fc37840226f3fd")
