"""LETOR text whose features do not fit into memory becomes a store, through a temporary file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_cases import content

from ltrbench.cli import main
from ltrbench.data import letor, read_data, read_letor
from ltrbench.data.features import arrays_of, is_mapped
from ltrbench.data.store import check_store

NUM_DOCUMENTS, NUM_FEATURES = 200, 40
FEATURE_BYTES = 4 * NUM_DOCUMENTS * NUM_FEATURES


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Scattered queries, with features that lines omit."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(NUM_DOCUMENTS):
        indices = np.flatnonzero(rng.random(NUM_FEATURES) < 0.5) + 1
        values = " ".join(f"{index}:{rng.normal():.3f}" for index in [*indices.tolist(), NUM_FEATURES + 1])
        lines.append(f"{row % 3} qid:{row % 7} {values} # docid = d{row}\n")
    (tmp_path / "train.txt").write_text("".join(lines))
    return tmp_path / "train.txt"


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for everything but the features."""
    monkeypatch.setattr(letor, "available_bytes", lambda: FEATURE_BYTES)


@pytest.mark.parametrize("absent", [0.0, float("nan")])
def test_features_in_a_temporary_file_are_the_same(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: float
) -> None:
    options: dict[str, Any] = {"absent": absent, "sort_queries": True}
    expected = content(read_letor(text, **options))
    monkeypatch.setattr(letor, "available_bytes", lambda: FEATURE_BYTES)
    dataset = read_letor(text, **options, scratch=tmp_path / "scratch")
    (array,) = arrays_of(dataset.features)
    assert is_mapped(array)
    assert not array.flags.writeable
    assert content(dataset) == expected
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.usefixtures("little_memory")
def test_build_writes_a_store_of_text_beyond_memory(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "new" / "train.store"
    build = ["data", "build", str(text), "--output", str(store), "--read", "sort_queries=true"]
    assert main([*build, "--shard-mb", "0.005"]) == 0
    assert [path.name for path in store.parent.iterdir()] == ["train.store"]
    check_store(store)
    monkeypatch.undo()
    assert content(read_data(store)) == content(read_letor(text, sort_queries=True))
