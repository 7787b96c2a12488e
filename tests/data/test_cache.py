"""The cache gives the data set that the files give, notices changes, and repairs itself."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from store_cases import content

from ltrbench.data import RankingDataset, read_letor
from ltrbench.data import store as cache_module
from ltrbench.data.sources import LetorFiles, TableFiles
from ltrbench.data.store import AUTO, AUTO_BYTES, cache_folder, is_store, read_cached

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
    for options in ({"absent": 0.0}, {"absent": float("nan")}, {"absent": float("nan")}):
        reader.cached(tmp_path / "cache", **options)
    assert reader.count == 2
    monkeypatch.setattr(cache_module, "_code", lambda: "of the next version")
    reader.cached(tmp_path / "cache", absent=0.0)
    assert reader.count == 3


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


def test_auto_caches_large_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (tmp_path / name for name in ("small", "large"))
    small.write_text(TEXT)
    with large.open("wb") as file:
        file.truncate(AUTO_BYTES)
    monkeypatch.delenv("LTRBENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of user"))
    expected = {AUTO: tmp_path / "of user" / "ltrbench", str(tmp_path): tmp_path, "none": None}
    for setting, folder in expected.items():
        assert cache_folder(setting, {"0": large}) == folder
    assert cache_folder(AUTO, {"0": small}) is None
    monkeypatch.setenv("LTRBENCH_CACHE", str(tmp_path / "of variable"))
    assert cache_folder(AUTO, {"0": large}) == tmp_path / "of variable"


def sources_of(folder: Path) -> dict[str, Any]:
    """A source of LETOR text with everything beside it, and one of tables."""
    (folder / "train.txt").write_text("".join(f"{q % 2} 1:{q} 2:{q % 3}\n" for q in range(40)))
    (folder / "train.txt.query").write_text("4\n" * 10)
    (folder / "train.txt.weight").write_text("1\n2\n" * 20)
    (folder / "names.txt").write_text("bm25, 1\nage, 2\n")
    rows = "".join(f"{q // 4},{q % 2},{q},{q // 4}\n" for q in range(40))
    (folder / "train.csv").write_text(f"query_id,label,bm25,day\n{rows}")
    letor = LetorFiles(name="l", train=f"{folder}/train.txt", feature_names=f"{folder}/names.txt")
    return {"letor": letor, "table": TableFiles(name="t", train=f"{folder}/train.csv")}


@pytest.mark.parametrize("kind", ["letor", "table"])
def test_a_source_with_a_cache_gives_the_same_splits(tmp_path: Path, kind: str) -> None:
    source = sources_of(tmp_path)[kind]
    through_cache = replace(source, cache=str(tmp_path / "cache"))
    for _ in range(2):
        for (_, split), (_, expected) in zip(through_cache.load(), source.load(), strict=True):
            assert content(split) == content(expected)
    assert len(entries(tmp_path / "cache")) == 1


@pytest.mark.parametrize(
    ("changed", "text"), [("train.txt.query", "2\n" * 20), ("names.txt", "a, 1\nb, 2\n")]
)
def test_a_change_of_a_file_beside_the_data_is_noticed(tmp_path: Path, changed: str, text: str) -> None:
    source = replace(sources_of(tmp_path)["letor"], cache=str(tmp_path / "cache"))
    source.load()
    (tmp_path / changed).write_text(text)
    expected = replace(source, cache="none").load()
    assert content(source.load().train) == content(expected.train)
