"""A store gives the data set from which it was built, whatever its shards and blocks."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from store_cases import content, data_sets, dataset_with, store_of
from store_cases import without_waiting_for_the_disk as without_waiting_for_the_disk

from ltrbench.cli import main
from ltrbench.data import (
    RankingDataset,
    letor,
    read_data,
    read_features,
    read_letor,
    read_table,
    tables,
    write_letor,
    write_store,
    write_table,
)
from ltrbench.data import store as cache_module
from ltrbench.data.sources import LetorFiles, StoreFiles, TableFiles
from ltrbench.data.store import (
    AUTO,
    AUTO_BYTES,
    MANIFEST_FILE,
    STORE_FORMAT,
    cache_folder,
    check_store,
    is_store,
    read_cached,
    read_manifest,
    read_store,
    shards_of,
)
from ltrbench.errors import DataError


@settings(max_examples=30)
@given(dataset=data_sets(), shard_bytes=st.integers(1, 60), again=st.integers(1, 60))
def test_a_store_gives_its_data_set_in_any_shards(
    tmp_path_factory: pytest.TempPathFactory,
    dataset: RankingDataset,
    shard_bytes: int,
    again: int,
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    store = store_of(dataset, folder / "a", shard_bytes)
    assert content(read_store(store)) == content(dataset)
    assert content(
        read_store(store_of(read_store(store), folder / "b", again))
    ) == content(dataset)
    check_store(store)
    manifest = read_manifest(store)
    assert manifest.fingerprint == dataset.fingerprint
    assert (
        sum(shard.queries for shard in manifest.shards) == dataset.num_queries
    )  # none is divided
    for shard in shards_of(store, manifest):
        size = sum(shard[name].num_bytes for name in manifest.feature_arrays)
        size -= 0 if manifest.absent is None else 8  # the end of the last row
        assert size <= shard_bytes or shard["query_ids"].shape == (1,)


# Files, stores and splits


@pytest.mark.parametrize("name", ["data.txt", "data.csv", "data.parquet"])
def test_text_tables_and_their_stores_are_one_data_set(
    tmp_path: Path, name: str
) -> None:
    rng = np.random.default_rng(0)
    dataset = dataset_with(
        features=rng.normal(size=(9, 3)),
        labels=[0, 1, 2] * 3,
        query_start=[0, 4, 9],
        document_ids=list("abcdefghi"),
        feature_names=("1", "2", "3")
        if name == "data.txt"
        else ("bm25", "clicks", "age"),
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
    stores = [
        store_of(read_data(text, sort_queries=True), text.with_suffix(".store"), 4)
        for text in texts
    ]
    assert content(read_data(stores)) == content(read_data(texts, sort_queries=True))
    for order in ([1, 0], [0, 1]):
        expected = read_features([texts[n] for n in order])
        assert (
            read_features([stores[n] for n in order])[:].tolist() == expected.tolist()
        )
    copy = shutil.copytree(stores[0], tmp_path / "copy")
    with pytest.raises(DataError, match=naming("query_ids", "'a'", stores[0], copy)):
        read_data([stores[0], copy])


def built(source: Path | list[Path], output: Path, *reading: str) -> Path:
    """Builds a store with the command, and returns its folder."""
    paths = source if isinstance(source, list) else [source]
    words = ["data", "build", *map(str, paths), "--output", str(output)]
    for option in reading:
        words += ["--read", option]
    assert main(words) == 0
    return output


def test_stores_of_files_without_query_ids_are_read_like_these_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = []
    stores = []
    for number, num_queries in enumerate((6, 4, 3)):
        text = tmp_path / f"{number}.txt"
        rows = [f"{q % 2} 1:{q} 2:{number}\n1 1:{-q}\n" for q in range(num_queries)]
        text.write_text("".join(rows))
        Path(f"{text}.query").write_text("2\n" * num_queries)
        texts.append(text)
        stores.append(built(text, text.with_suffix("")))
    expected = content(read_letor(texts[:2]))
    assert content(read_data(stores[:2])) == expected
    train = built(stores[:2], tmp_path / "train")
    assert content(read_data(train)) == expected
    test = str(stores[2])
    StoreFiles(name="mine", train=str(train), test=test, valid_share=0).load()
    assert caplog.messages == []


OPTIONS_OF_TEXT = [
    "first_index=0",
    "absent=nan",
    "overflow=cap",
    "overflow=missing",
    "nulls=missing",
    "missing=[-1]",
]


@pytest.mark.parametrize("option", OPTIONS_OF_TEXT)
def test_stores_that_were_read_with_other_options_are_not_used_together(
    tmp_path: Path, option: str
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("".join(f"{row % 2} qid:{row // 4} 1:{row}\n" for row in range(40)))
    if option.startswith("missing"):
        data = data.with_suffix(".csv")
        rows = [f"{row // 4},{row % 2},{row},1\n" for row in range(40)]
        data.write_text("query_id,label,bm25,age\n" + "".join(rows))
    name = option.partition("=")[0]
    train = built(data, tmp_path / "train", "num_features=2", option)
    plain = built(data, tmp_path / "plain", "num_features=2")
    for first, other in ((plain, train), (train, plain)):
        with pytest.raises(DataError, match=naming(other, first, "--read", name)):
            read_data([first, other])
        files = StoreFiles(name="mine", train=str(first), test=str(other))
        with pytest.raises(DataError, match=naming(other, "training", name)):
            files.load()


def test_a_store_of_stores_keeps_their_sources_and_how_they_were_read(
    tmp_path: Path,
) -> None:
    texts = []
    stores = []
    for name in "ab":
        text = tmp_path / f"{name}.txt"
        text.write_text(f"1 qid:{name} 1:1\n0 qid:{name} 2:2\n")
        texts.append(text)
        stores.append(built(text, text.with_suffix(""), "absent=nan", "sparse=true"))
    of_texts = read_manifest(built(texts, tmp_path / "t", "absent=nan", "sparse=true"))
    of_stores = read_manifest(built(stores, tmp_path / "s"))
    assert of_stores.sources == of_texts.sources
    assert of_stores.reading == of_texts.reading
    assert of_stores.reading["absent"] is None


@pytest.fixture
def families(tmp_path: Path) -> Path:
    """A table of 60 queries of one document, in families of four and on 20 days."""
    frame = pd.DataFrame(
        {
            "query_id": np.arange(60),
            "label": np.arange(60) % 2,
            "bm25": np.arange(60) / 7,
            "family": [f"f{query // 4}" for query in range(60)],
            "day": [f"2026-01-{1 + query % 20:02d}" for query in range(60)],
        }
    )
    frame.loc[0, "family"] = "ä b"
    frame.to_csv(tmp_path / "families.csv", index=False)
    return tmp_path / "families.csv"


@pytest.mark.parametrize(
    "columns",
    [{"group_by": "family"}, {"split_by": "day", "gap": "2d"}, {"split_by": "day"}],
)
def test_a_store_is_split_by_its_kept_columns_like_its_table(
    families: Path, tmp_path: Path, columns: dict[str, Any]
) -> None:
    store = built(families, tmp_path / "store", "keep=[family,day]")
    keep = [name for name in ("family", "day") if name not in columns.values()]
    table = TableFiles(name="mine", train=str(families), keep=keep, **columns)
    of_store = StoreFiles(name="mine", train=str(store), **columns).load()
    expected = table.load()
    assert (of_store.rule, of_store.spans) == (expected.rule, expected.spans)
    for (_, split), (_, of_table) in zip(of_store, expected, strict=True):
        assert split.query_ids.tolist() == of_table.query_ids.tolist()


def test_a_store_cannot_be_split_by_a_column_that_it_lacks_or_that_has_nulls(
    families: Path, tmp_path: Path
) -> None:
    frame = pd.read_csv(families)
    frame.loc[7, "family"] = None
    frame.to_csv(families, index=False)
    store = built(families, tmp_path / "store", "keep=[family]", "ignore=[day]")
    files = StoreFiles(name="mine", train=str(store), split_by="day")
    with pytest.raises(
        DataError, match=naming(store, "data.split_by=day", "keep=[day]")
    ):
        files.load()
    files = StoreFiles(name="mine", train=str(store), group_by="family")
    with pytest.raises(DataError, match=naming(store, "row 8", "'family'", "group")):
        files.load()


# The features of the training data


def test_columns_are_matched_by_name_unless_they_are_numbers(tmp_path: Path) -> None:
    named = dataset_with(
        features=[[1, 2]], labels=[1], query_start=[0, 1], feature_names=("bm25", "age")
    )
    store = store_of(named, tmp_path / "named", 4)
    assert read_data(store, 2, feature_names=["age", "bm25"]).features.tolist() == [
        [2, 1]
    ]
    assert read_data(store, 2, feature_names=["1", "2"]).features[:].tolist() == [
        [1, 2]
    ]
    with pytest.raises(DataError, match=naming(store, "'bm26'", "'bm25'", "build")):
        read_data(store, 2, feature_names=["age", "bm26"])
    with pytest.raises(DataError, match=naming(store, "'age'", "training", "build")):
        read_data(store, feature_names=["bm25"])
    with pytest.raises(
        DataError,
        match=naming(store, "2 features", "3 were expected", "num_features=3"),
    ):
        read_data(store, 3)


def test_another_table_gets_the_categories_of_the_training_store(
    tmp_path: Path,
) -> None:
    table = "query_id,label,brand\n1,0,{}\n1,1,ä\n"
    for name, brand in (("train", "x"), ("test", "b")):
        (tmp_path / f"{name}.csv").write_text(table.format(brand))
    files = {name: tmp_path / f"{name}.csv" for name in ("train", "test")}
    train = built(files["train"], tmp_path / "train", "categorical=[brand]")
    other = built(files["test"], tmp_path / "other", "categorical=[brand]")
    categories = read_manifest(train).categories
    with pytest.raises(DataError, match=naming(other, "'brand'", "categories={...}")):
        read_data(other, categories=categories)
    test = built(
        files["test"],
        tmp_path / "test",
        "categorical=[brand]",
        f"categories={json.dumps(categories)}",
    )
    of_table = read_table(files["test"], categories=categories, categorical=["brand"])
    write_store(str(tmp_path / "python"), of_table)
    for store in (test, tmp_path / "python"):
        features = read_data(store, categories=categories).features
        np.testing.assert_array_equal(features[:], of_table.features)


# Writing


def test_a_store_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    unpaired = dataset_with(
        features=[[1]], labels=[1], query_start=[0, 1], document_ids=["\ud800"]
    )
    with pytest.raises(UnicodeEncodeError):
        write_store(tmp_path / "store", unpaired)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_a_store_is_named(tmp_path: Path) -> None:
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
    (store / MANIFEST_FILE).write_text(
        json.dumps({**manifest, "format": STORE_FORMAT + 1})
    )
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
    check_store(store)
    file = damage(store)
    with pytest.raises(DataError, match=naming(file, "damaged", "data build")):
        read_store(store)
    assert main(["inspect", str(store)]) == 2
    assert file.name in capsys.readouterr().err


def test_the_fingerprint_of_a_store_is_that_of_its_format() -> None:
    """Stores keep the fingerprint: whoever changes its definition must also increase STORE_FORMAT."""
    dataset = dataset_with(
        features=FEATURES, labels=[0, 1, 2, 0, 1, 0, 0, 1], query_start=[0, 3, 5, 8]
    )
    assert (STORE_FORMAT, dataset.fingerprint) == (
        1,
        "8d56f2f42f6c00e777ea78644d95d1ba",
    )
    wide = dataset_with(
        features=np.eye(8, 20_000, dtype=np.float32),
        labels=dataset.labels,
        query_start=[0, 8],
    )
    assert (STORE_FORMAT, wide.fingerprint) == (1, "fdffec6cc61670df20fc37840226f3fd")


# The cache gives the data set that the files give, notices changes, and repairs itself.


TEXT = "2 qid:7 1:0.5 3:1 # docid = A\n0 qid:7 2:4 # docid = B\n1 qid:8 1:2 # docid = C\n1 qid:9 1:3\n"


class Reader:
    """Reads LETOR text and counts how often."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.count = 0

    def __call__(self) -> RankingDataset:
        self.count += 1
        return read_letor(self.file)

    def cached(self, folder: Path, **options: Any) -> RankingDataset:
        return read_cached(folder, {"0": self.file}, options, self)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    (tmp_path / "train.txt").write_text(TEXT)
    return Reader(tmp_path / "train.txt")


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_store(path))


def test_other_options_and_other_code_have_other_entries(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in (
        {"absent": 0.0},
        {"absent": float("nan")},
        {"absent": float("nan")},
    ):
        reader.cached(tmp_path / "cache", **options)
    assert reader.count == 2
    monkeypatch.setattr(cache_module, "_code", lambda: "of the next version")
    reader.cached(tmp_path / "cache", absent=0.0)
    assert reader.count == 3


def test_an_entry_depends_on_the_code_of_every_module_that_reads() -> None:
    used = set()
    for module in (letor, tables, cache_module):
        for value in vars(module).values():
            used.add(str(getattr(value, "__module__", "")))
    names = {
        f"{name.removeprefix('ltrbench.data.')}.py"
        for name in used
        if "ltrbench.data." in name
    }
    assert names <= {*cache_module._CODE}


def test_a_damaged_entry_is_built_again(
    reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader.cached(tmp_path / "cache")
    (entry,) = entries(tmp_path / "cache")
    shutil.rmtree(entry / "shard-00000")
    with caplog.at_level(logging.WARNING, "ltrbench"):
        dataset = reader.cached(tmp_path / "cache")
    assert content(dataset) == content(read_letor(reader.file))
    assert str(entry) in caplog.text
    assert reader.count == 2
    assert entries(tmp_path / "cache") == [entry]


# data.cache


def test_auto_caches_large_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (tmp_path / name for name in ("small", "large"))
    small.write_text(TEXT)
    with large.open("wb") as file:
        file.truncate(AUTO_BYTES)
    monkeypatch.delenv("LTRBENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of user"))
    expected = {
        AUTO: tmp_path / "of user" / "ltrbench",
        str(tmp_path): tmp_path,
        "none": None,
    }
    for setting, folder in expected.items():
        assert cache_folder(setting, {"0": large}) == folder
    assert cache_folder(AUTO, {"0": small}) is None
    monkeypatch.setenv("LTRBENCH_CACHE", str(tmp_path / "of variable"))
    assert cache_folder(AUTO, {"0": large}) == tmp_path / "of variable"


def sources_of(folder: Path) -> dict[str, Any]:
    """Sources of LETOR text with everything beside it, of a CSV file, and of a folder of Parquet."""
    (folder / "train.txt").write_text(
        "".join(f"{q % 2} 1:{q} 2:{q % 3}\n" for q in range(40))
    )
    (folder / "train.txt.query").write_text("4\n" * 10)
    (folder / "train.txt.weight").write_text("1\n2\n" * 20)
    (folder / "names.txt").write_text("bm25, 1\nage, 2\n")
    rows = "".join(f"{q // 4},{q % 2},{q},{q // 4}\n" for q in range(40))
    (folder / "train.csv").write_text(f"query_id,label,bm25,day\n{rows}")
    letor = LetorFiles(
        name="l", train=f"{folder}/train.txt", feature_names=f"{folder}/names.txt"
    )
    frame = pd.read_csv(folder / "train.csv")
    write_parts(folder / "train.parquet", frame)
    return {
        "letor": letor,
        "table": TableFiles(name="t", train=f"{folder}/train.csv"),
        "folder": TableFiles(name="f", train=f"{folder}/train.parquet"),
    }


def write_parts(folder: Path, frame: pd.DataFrame) -> None:
    """Writes a folder of two parts, as Spark does."""
    folder.mkdir(exist_ok=True)
    (folder / "_SUCCESS").write_text("")
    frame[:20].to_parquet(folder / "part-0.parquet")
    frame[20:].to_parquet(folder / "part-1.parquet")


@pytest.mark.parametrize("kind", ["letor", "table", "folder"])
def test_a_source_with_a_cache_gives_the_same_splits(tmp_path: Path, kind: str) -> None:
    source = sources_of(tmp_path)[kind]
    through_cache = replace(source, cache=str(tmp_path / "cache"))
    for _ in range(2):
        for (_, split), (_, expected) in zip(
            through_cache.load(), source.load(), strict=True
        ):
            assert content(split) == content(expected)
    assert len(entries(tmp_path / "cache")) == 1


@pytest.mark.parametrize(
    ("changed", "text"),
    [("train.txt.query", "2\n" * 20), ("names.txt", "a, 1\nb, 2\n")],
)
def test_a_change_of_a_file_beside_the_data_is_noticed(
    tmp_path: Path, changed: str, text: str
) -> None:
    source = replace(sources_of(tmp_path)["letor"], cache=str(tmp_path / "cache"))
    source.load()
    (tmp_path / changed).write_text(text)
    expected = replace(source, cache="none").load()
    assert content(source.load().train) == content(expected.train)


def test_the_parts_of_a_folder_are_the_sources_of_its_store_and_the_key_of_its_cache(
    tmp_path: Path,
) -> None:
    source = replace(sources_of(tmp_path)["folder"], cache=str(tmp_path / "cache"))
    folder = tmp_path / "train.parquet"
    before = source.load().train
    part = folder / "part-1.parquet"
    frame = pd.read_parquet(part)
    frame.assign(label=1 - frame["label"]).to_parquet(part)
    expected = replace(source, cache="none").load().train
    assert content(source.load().train) == content(expected) != content(before)
    output = tmp_path / "train.store"
    main(["data", "build", str(folder), "--output", str(output)])
    names = [Path(each.path).name for each in read_manifest(output).sources]
    assert names == ["part-0.parquet", "part-1.parquet"]


def test_what_is_no_regular_file_is_not_cached(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "train.csv").mkdir()
    source = TableFiles(name="t", train=f"{tmp_path}/train.csv", cache=str(cache))
    with pytest.raises(DataError, match=naming("train.csv")):
        source.load()
    assert not cache.exists()


# LETOR text whose features do not fit into memory becomes a store, through a temporary file.


NUM_DOCUMENTS, NUM_FEATURES = 200, 40


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Scattered queries, with features that lines omit."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(NUM_DOCUMENTS):
        indices = np.flatnonzero(rng.random(NUM_FEATURES) < 0.5) + 1
        values = " ".join(
            f"{index}:{rng.normal():.3f}"
            for index in [*indices.tolist(), NUM_FEATURES + 1]
        )
        lines.append(f"{row % 3} qid:{row % 7} {values} # docid = d{row}\n")
    (tmp_path / "train.txt").write_text("".join(lines))
    return tmp_path / "train.txt"


def test_build_writes_a_store_of_text_beyond_memory(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        letor, "available_bytes", lambda: 4 * NUM_DOCUMENTS * NUM_FEATURES
    )
    with pytest.raises(DataError, match="memory"):
        read_letor(text, sort_queries=True)
    store = tmp_path / "new" / "train.store"
    build = [
        "data",
        "build",
        str(text),
        "--output",
        str(store),
        "--read",
        "sort_queries=true",
    ]
    assert main([*build, "--shard-mb", "0.005"]) == 0
    assert [path.name for path in store.parent.iterdir()] == ["train.store"]
    check_store(store)
    monkeypatch.undo()
    assert content(read_data(store)) == content(read_letor(text, sort_queries=True))
