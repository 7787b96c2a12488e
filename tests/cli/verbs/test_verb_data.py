"""data build and inspect; and that a store is a data set for every verb and for runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ltrbench.cli import main
from ltrbench.data import read_data
from ltrbench.data.store import STORE_FORMAT


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(0, 3)} qid:{row // 5} 1:{rng.random():.3f} 2:{rng.random():.3f} # docid = d{row}\n"
        for row in range(100)
    ]
    (tmp_path / "train.txt").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.txt"


@pytest.mark.usefixtures("text")
def test_build_writes_a_store_that_inspect_describes(
    printed: Callable[..., str],
) -> None:
    build = [
        "data",
        "build",
        "train.txt",
        "--output",
        "train.store",
        "--shard-mb",
        "0.0003",
    ]
    built = printed(*build, "--read", "num_features=3", "--read", "absent=nan")
    fingerprint = read_data("train.txt", 3, absent=float("nan")).fingerprint
    assert read_data("train.store").fingerprint == fingerprint
    counts = (
        "100 documents",
        "20 queries",
        "3 features",
        "shards: 4",
        fingerprint[-8:],
    )
    assert all(part in built for part in ("train.store", *counts))
    info = printed("inspect", "train.store")
    parts = (
        "100",
        "20",
        "document_ids",
        "train.txt",
        "SHA-256",
        "num_features=3",
        f"format {STORE_FORMAT}",
    )
    assert all(part in info for part in parts)
    record = json.loads(printed("inspect", "train.store", "--json"))
    (manifest,) = record["stores"].values()
    assert (record["documents"], record["fingerprint"]) == (100, fingerprint)
    assert (manifest["documents"], manifest["fingerprint"]) == (100, fingerprint)


@pytest.mark.usefixtures("text")
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    for words, parts in (
        (["--output", "full"], ["full", "delete", "--output"]),
        (
            ["--output", "a.store", "--shard-mb", "0"],
            ["--shard-mb", "0", "more than 0"],
        ),
        (["--output", "a.store", "--read", "first_index=2"], ["first_index", "2"]),
        (["full", "--output", "a.store"], ["full", "folder"]),
        (
            ["--output", "a.store", "--read", "group_by=family"],
            ["group_by=family", "keep=[family]", "data.group_by=family"],
        ),
        (["--output", "a.store", "--read", "split_by=day"], ["data.split_by=day"]),
    ):
        assert main(["data", "build", "train.txt", *words]) == 2
        printed = capsys.readouterr().err
        assert all(part in printed for part in parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "train.txt"]


@pytest.mark.usefixtures("text")
@pytest.mark.parametrize(
    ("verb", "words"),
    [
        pytest.param("inspect", [], marks=pytest.mark.slow),
        ("evaluate", ["s.txt"]),
        ("conventions", ["s.txt"]),
        ("explain", ["--query", "3"]),
    ],
)
def test_a_verb_prints_the_same_for_text_and_store(
    tmp_path: Path, printed: Callable[..., str], verb: str, words: list[str]
) -> None:
    (tmp_path / "s.txt").write_text("".join(f"{row % 7}\n" for row in range(100)))
    build = [
        "data",
        "build",
        "train.txt",
        "--output",
        "train.store",
        "--shard-mb",
        "0.0003",
    ]
    printed(*build, "--read", "sparse=true")
    of_text = printed(verb, "train.txt", *words, "--read", "sparse=true")
    of_store = printed(verb, "train.store", *words)
    assert of_store.startswith(of_text.replace("train.txt", "train.store").rstrip())
