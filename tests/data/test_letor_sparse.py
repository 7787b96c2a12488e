"""LETOR text read with sparse=True: the same data set as without it, in the memory of its values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from messages import naming

from ltrbench.data import blocks, letor, read_letor
from ltrbench.data.features import SparseRows
from ltrbench.data.letor import read_letor_features
from ltrbench.errors import DataError

Write = Callable[..., Path]

LINES = (
    b"0 qid:1 1:0.5 3:2 # docid = a\n",
    b"2 qid:2 2:nan 7:0 # docid = b\n",
    b"# comment 1:2 3:4\n",
    b"1 qid:1 # docid = c\n",
    b"1 qid:q:3 4:0.30000000000000004 5:1 6:-0.0\n",
)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: bytes, name: str = "train.txt") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write_file


@pytest.mark.parametrize("absent", [0.0, -0.0, np.nan])
@pytest.mark.parametrize("unit_bytes", [7, 60, 1 << 22])
def test_several_files_with_scattered_queries_are_the_same_data_set(
    write: Write, monkeypatch: pytest.MonkeyPatch, unit_bytes: int, absent: float
) -> None:
    monkeypatch.setattr(blocks, "UNIT_BYTES", unit_bytes)
    files = [write(b"".join(LINES)), write(b"".join(LINES[::-1]), "more.txt")]
    dense = read_letor(files, absent=absent, sort_queries=True)
    sparse = read_letor(files, absent=absent, sort_queries=True, sparse=True)
    assert isinstance(sparse.features, SparseRows)
    assert np.asarray(sparse.features).tobytes() == dense.features.tobytes()
    assert len(sparse.features.values) == 14
    assert sparse.fingerprint == dense.fingerprint
    assert sparse.document_ids is not None
    assert dense.document_ids is not None
    assert sparse.document_ids.tolist() == dense.document_ids.tolist()
    assert sparse.feature_names == dense.feature_names
    features = read_letor_features(files, absent=absent, sparse=True)
    assert np.asarray(features).tobytes() == read_letor_features(files, absent=absent).tobytes()


def test_a_file_whose_matrix_does_not_fit_is_read_by_its_values(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    width, names = 50_000, 160 * 50_000
    content = b"".join(b"1 qid:%d %d:1 %d:2\n" % (row // 9, row + 1, width - row) for row in range(1000))
    monkeypatch.setattr(letor, "available_bytes", lambda: names + 1000 * (8 + 2 * 8 + 2 * 8))
    file = write(content)
    with pytest.raises(
        DataError, match=naming("train.txt:1:", "50000 features", "0.2 GB", "data.sparse=true")
    ):
        read_letor(file)
    data = read_letor(file, sparse=True)
    assert data.features.shape == (1000, width)
    monkeypatch.setattr(letor, "available_bytes", lambda: names)
    with pytest.raises(DataError, match=naming("train.txt:1:", "50000 features", "1000 documents")):
        read_letor(file, sparse=True)
