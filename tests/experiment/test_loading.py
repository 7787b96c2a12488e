"""A process loads each data set once, notices changed files, and shares data that no run can change."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ltrbench import measure
from ltrbench.data import Splits
from ltrbench.data.features import FeatureMatrix
from ltrbench.data.letor import write_letor
from ltrbench.data.sources import DataSource, LetorFiles, TableFiles
from ltrbench.data.synthetic import Synthetic, make_synthetic
from ltrbench.experiment import loading
from ltrbench.experiment.loading import forget, load_once
from ltrbench.measure import available_bytes


@dataclass(kw_only=True)
class Counted(DataSource):
    """A small data set that counts its loadings."""

    name: str = "counted"
    setting: Any = None
    loadings: ClassVar[int] = 0

    def load(self) -> Splits:
        Counted.loadings += 1
        return Synthetic(name="synthetic", num_queries=12).load()


@pytest.fixture(autouse=True)
def nothing_loaded() -> Iterator[None]:
    forget()
    yield
    forget()


def loadings_of(*sources: Counted) -> int:
    before = Counted.loadings
    for source in sources:
        load_once(source)
    return Counted.loadings - before


def test_equal_sources_are_loaded_once() -> None:
    for setting in (
        None,
        1,
        math.nan,
        "a",
        ["a", {"b": 2}],
        Path("a"),
        Synthetic(name="a"),
    ):
        forget()
        assert loadings_of(Counted(setting=setting), Counted(setting=setting)) == 1, (
            setting
        )
    first, second = load_once(Counted()), load_once(Counted())
    assert first[0] is second[0]
    assert first[1] == second[1] > 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (math.nan, None),
        (np.array([1, 2]), np.array([1, 3])),
        (Counted(setting=1), Counted(setting=2)),
    ],
)
def test_sources_that_differ_are_loaded_separately(one: object, other: object) -> None:
    assert loadings_of(Counted(setting=one), Counted(setting=other)) == 2


def files(folder: Path) -> LetorFiles:
    return LetorFiles(name="files", train=str(folder / "train.txt"))


def rewrite(folder: Path) -> None:
    """Other labels, in a file of the same size and with the same time of modification."""
    file = folder / "train.txt"
    status, lines = file.stat(), file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        b"".join(b"%d%s" % (1 - min(int(line[:1]), 1), line[1:]) for line in lines)
    )
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def weigh(folder: Path) -> None:
    """A companion file of LightGBM, which no setting names."""
    num_lines = len((folder / "train.txt").read_bytes().splitlines())
    (folder / "train.txt.weight").write_text(
        "".join(f"{1 + line % 2}\n" for line in range(num_lines))
    )


@pytest.mark.parametrize("change", [rewrite, weigh])
def test_a_changed_file_is_read_again(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    write_letor(make_synthetic(12), tmp_path / "train.txt")
    before, _ = load_once(files(tmp_path))
    assert load_once(files(tmp_path))[0] is before
    change(tmp_path)
    after, _ = load_once(files(tmp_path))
    assert (
        after.train.fingerprint
        == files(tmp_path).load().train.fingerprint
        != before.train.fingerprint
    )


def test_a_rewritten_part_of_a_folder_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "train.parquet"
    folder.mkdir()
    frame = make_synthetic(12).to_frame()
    half = len(frame) // 2
    frame[:half].to_parquet(folder / "part-0.parquet")
    frame[half:].to_parquet(folder / "part-1.parquet")
    source = TableFiles(name="parts", train=str(folder), sort_queries=True)
    before, _ = load_once(source)
    assert load_once(source)[0] is before
    frame[half:].assign(label=1).to_parquet(folder / "part-1.parquet")
    after, _ = load_once(source)
    expected = source.load().train.fingerprint
    assert after.train.fingerprint == expected != before.train.fingerprint


def test_the_least_recently_used_data_sets_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, c = (Counted(setting=setting) for setting in "abc")
    load_once(a, in_memory=True)
    size = sum(loaded.num_bytes for loaded in loading._loaded.values())
    # A quarter of the free memory and of three data sets is enough for two of them.
    monkeypatch.setattr(loading, "available_bytes", lambda: int(6.5 * size))
    assert loadings_of(b, a, c) == 2
    assert loadings_of(a, c) == 0
    assert loadings_of(b) == 1
    monkeypatch.setattr(loading, "available_bytes", lambda: 0)
    forget()
    assert loadings_of(a, a, b, b) == 2


def test_arrays_replace_the_splits_that_the_process_keeps() -> None:
    views = load_once(Counted())[0]
    arrays, seconds = load_once(Counted(), in_memory=True)
    assert isinstance(views.train.features, FeatureMatrix)
    for (name, view), (other, split) in zip(views, arrays, strict=True):
        assert name == other
        assert type(split.features) is np.ndarray
        assert split.fingerprint == view.fingerprint
    assert load_once(Counted()) == (arrays, seconds)
    assert loadings_of(Counted()) == 0


def test_available_memory_respects_the_limit_of_each_group_that_contains_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_GROUPS", tmp_path)
    monkeypatch.setattr(measure, "_GROUPS_OF_PROCESS", tmp_path / "groups")
    of_machine = available_bytes()
    (tmp_path / "groups").write_text("5:devices:/other\n0::/batch/job\n")
    job = tmp_path / "batch" / "job"
    job.mkdir(parents=True)
    for group in (tmp_path, job):
        (group / "memory.max").write_text("1000000\n")
        (group / "memory.current").write_text("700000\n")
        (group / "memory.stat").write_text(
            "".join(f"{key} 150000\n" for key in measure._CACHE)
        )
        assert available_bytes() == 600_000
        (group / "memory.max").write_text("300000\n")
        assert available_bytes() == 0
        (group / "memory.max").write_text("max\n")
        assert available_bytes() == pytest.approx(of_machine, rel=0.5)
