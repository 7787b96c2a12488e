"""LightGBM's form: companion files are part of the data, and LightGBM reads the same data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from messages import naming

from ltrbench.data import read_letor
from ltrbench.errors import DataError

LINES = b"0 1:1 2:5\n2 1:3\n# between\n1 2:4\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_files(content: bytes = LINES, **beside: bytes) -> Path:
        for ending, values in beside.items():
            (tmp_path / f"rank.train.{ending}").write_bytes(values)
        (tmp_path / "rank.train").write_bytes(content)
        return tmp_path / "rank.train"

    return write_files


def test_the_files_beside_give_queries_weights_and_positions(write: Write) -> None:
    data = read_letor(write(query=b"2\n1\n", weight=b"1\n0.5\n2\n", position=b"3.0\n1\n7e0\n"))
    assert data.features.tolist() == [[1, 5], [3, 0], [0, 4]]
    assert data.query_start.tolist() == [0, 2, 3]
    assert data.query_ids.tolist() == ["1", "2"]
    assert data.document_weights is not None
    assert data.document_weights.tolist() == [1, 0.5, 2]
    assert data.positions is not None
    assert data.positions.tolist() == [3, 1, 7]


QIDS = b"0 qid:a 1:1\n1 qid:a 1:2\n1 qid:b 1:3\n"


@pytest.mark.parametrize(
    ("content", "beside", "parts"),
    [
        (QIDS, {"query": b"2\n1\n"}, ["rank.train:", "rank.train.query", "queries", "Remove"]),
        (b"0 1 qid:a 1:1\n", {"weight": b"1\n"}, ["rank.train:", "rank.train.weight", "Remove"]),
        (b"0 1:1\n0 qid:a 1:1\n", {"query": b"2\n"}, ["rank.train:2:", "a qid", "have none"]),
        (LINES, {"position": b"1\n1.5\n2\n"}, [".position:2:", "'1.5'", "whole number"]),
        (LINES, {"position": b"-1\n2\n1\n"}, [".position:1:", "'-1'"]),
        (LINES, {"query": b"1\n1\n"}, [".query:", "2 documents", "rank.train has 3 documents"]),
        (LINES, {"query": b"2\n0\n1\n"}, [".query:2:", "'0'", "number of documents"]),
        (LINES, {"weight": b"1\n-1\n1\n"}, [".weight:2:", "'-1'", "0 or more"]),
        (LINES, {"weight": b"1\n1\nnan\n"}, [".weight:3:", "'nan'", "0 or more"]),
    ],
)
def test_a_mistake_in_a_file_or_beside_it_is_named(
    write: Write, content: bytes, beside: dict[str, bytes], parts: list[str]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        read_letor(write(content, **(({"query": b"3\n"} if content == LINES else {}) | beside)))


# Beside LightGBM


def test_lightgbms_example_is_read_as_lightgbm_reads_it(letor_data: Callable[[str], Path]) -> None:
    folder = letor_data("lightgbm-example")
    train = read_letor(folder / "rank.train")
    test = read_letor(folder / "rank.test", train.num_features)
    assert (train.features.shape, train.num_queries) == ((3005, 300), 201)
    assert (test.features.shape, test.num_queries) == ((768, 300), 50)
    theirs: Any = lightgbm.Dataset(str(folder / "rank.train"), params={"verbose": -1}).construct()
    assert np.array_equal(theirs.get_label(), train.labels)
    assert np.array_equal(theirs.get_group(), train.query_sizes)
    # LightGBM counts from zero: its column i is the feature with index i, and its column 0 is empty.
    from_zero = read_letor(folder / "rank.train", 301, first_index=0)
    assert theirs.get_feature_name() == [f"Column_{name}" for name in from_zero.feature_names]
    assert np.array_equal(from_zero.features[:, 1:], train.features)
