"""LETOR reader: the data set has the content of the file, and every error names its place and value."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import RankingDataset, letor, read_letor
from ltrbench.data.letor import read_letor_features
from ltrbench.errors import ConfigError, DataError

Write = Callable[..., Path]


def same(one: RankingDataset, other: RankingDataset) -> bool:
    documents = [None if data.document_ids is None else data.document_ids.tolist() for data in (one, other)]
    return one.fingerprint == other.fingerprint and documents[0] == documents[1]


# What is read


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("content", "options", "features", "labels"),
    [
        (b"# by hand\n\n1 qid:1 1:1\n  \t\n0 qid:1 1:0\n# the end\n", {}, [[1], [0]], [1, 0]),
        (b"1.0 qid:1 0:5 2:7\n", {"first_index": 0, "whole_labels": True}, [[5, 0, 7]], [1]),
        (b"1 qid:1 1:nan 3:0\n", {}, [[math.nan, 0, 0]], [1]),
        (b"0.5 qid:1 1:nan 3:0\n", {"absent": math.nan}, [[math.nan, math.nan, 0]], [0.5]),
        (b"1 qid:1 1:1.79769313486232e+308 2:-1e999\n", {"overflow": "cap"}, [[LARGEST, -LARGEST]], [1]),
        (b"1 qid:1 1:1e999 2:0.5\n", {"overflow": "missing"}, [[math.nan, 0.5]], [1]),
        (b"1 qid:1 1:NULL 2:null\n", {"nulls": "missing"}, [[math.nan, math.nan]], [1]),
    ],
)
def test_options_of_the_reader(
    write: Write, content: bytes, options: dict[str, Any], features: list[list[float]], labels: list[float]
) -> None:
    file = write(content)
    data = read_letor(file, **options)
    np.testing.assert_array_equal(data.features, features)
    assert data.labels.tolist() == labels
    options.pop("whole_labels", None)
    np.testing.assert_array_equal(read_letor_features(file, **options), features)


@given(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=12), weighted=st.booleans())
@settings(deadline=None, max_examples=40)
def test_sorted_queries_are_those_of_a_stable_sort(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], weighted: bool
) -> None:
    file = tmp_path_factory.mktemp("letor") / "train.txt"
    lines = [f"0 {row + 1 if weighted else ''} qid:{q} 1:{row} # {row}\n" for row, q in enumerate(numbers)]
    file.write_text("".join(lines))
    scattered = read_letor(file, sort_queries=True)
    order = sorted(range(len(lines)), key=lambda row: numbers.index(numbers[row]))
    file.write_text("".join(lines[row] for row in order))
    assert same(scattered, read_letor(file))
    assert order == (sorted(order) if scattered.file_rows is None else scattered.file_rows.tolist())


def test_names_from_a_file_say_how_many_features_there_are(write: Write) -> None:
    names = write(b"bm25, 0\npagerank, 2\n", "names.txt")
    data = read_letor(write(b"1 qid:1 0:5\n"), first_index=0, feature_names=names)
    assert data.feature_names == ("bm25", "1", "pagerank")
    with pytest.raises(DataError, match=naming("train.txt:1:", "index is 3", "3 features", "feature_names")):
        read_letor(write(b"1 qid:1 3:5\n"), first_index=0, feature_names=names)
    with pytest.raises(DataError, match=naming("names.txt:", "3 features", "4 were", "num_features")):
        read_letor(write(b"1 qid:1 3:5\n"), 4, first_index=0, feature_names=names)


# Several files


def test_several_files_are_read_as_one_and_a_query_may_run_on(write: Write, tmp_path: Path) -> None:
    lines = [b"1 qid:a 2:1 # p\n", b"0 qid:b 1:2\n", b"2 qid:b 3:3 # q\n"]
    one = read_letor(write(b"".join(lines)))
    for cut in (1, 2):
        (tmp_path / "first").write_bytes(b"".join(lines[:cut]))
        (tmp_path / "second").write_bytes(gzip.compress(b"".join(lines[cut:])))
        assert same(read_letor([tmp_path / "first", str(tmp_path / "second")]), one)


# Sparse features


def test_a_file_whose_matrix_does_not_fit_is_read_by_its_values(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    width, names = 50_000, 160 * 50_000
    content = b"".join(b"1 qid:%d %d:1 %d:2\n" % (row // 9, row + 1, width - row) for row in range(1000))
    monkeypatch.setattr(letor, "available_bytes", lambda: names + 1000 * (8 + 2 * 8 + 2 * 8))
    file = write(content)
    with pytest.raises(
        DataError,
        match=naming(
            "train.txt:1:", "50000 features", "0.2 GB", "data build", "data.cache", "data.sparse=true"
        ),
    ):
        read_letor(file)
    data = read_letor(file, sparse=True)
    assert data.features.shape == (1000, width)
    monkeypatch.setattr(letor, "available_bytes", lambda: names)
    with pytest.raises(DataError, match=naming("train.txt:1:", "50000 features", "1000 documents")):
        read_letor(file, sparse=True)


# Mistakes

# All other lines of the file are ordinary, so that the kernel must detect the mistake itself.
MISTAKES: list[tuple[bytes, list[str]]] = [
    (b"qid:1 1:1", ["'qid:1'", "label", "'label [weight] qid:ID", "Add a label", "predict", "read_features"]),
    (b"good qid:1 1:1", ["'good'", "label", "'label [weight] qid:ID"]),
    (b"-1 qid:1 1:1", ["label is '-1'", "0 or more", "Shift the grades"]),
    (b"1 1:1", ["'1:1'", "qid:ID", ".query"]),
    (b"1 qid:\xff 1:1", ["\\\\xff", "UTF-8"]),
    (b"1 qid:1 1:1 oops", ["'oops'", "index:value"]),
    (b"1 qid:1 0:1 1:2", ["index is 0", "from 1", "data.first_index=0"]),
    (b"1 qid:1 1:1 4:2 4:3", ["index 4 follows 4", "keep one"]),
    (b"1 qid:1 5:1 2:2", ["index 2 follows 5", "ascend", "Sort"]),
    (b"1 qid:1 16777217:1", ["'16777217'", "16777216", "without gaps"]),
    (b"1 -2 qid:1 1:1", ["weight is '-2'", "0 or more", "Correct"]),
    (b"1 1e400 qid:1 1:1", ["weight is '1e400'", "finite"]),
    (b"1 2 qid:1 1:1", ["a weight", "have none", "remove"]),
    (b"1 qid:" + b"a" * 1001 + b" 1:1", ["1001 bytes", "1000", "shorter id"]),
    (b"1 qid:1 3: 4:1", ["feature 3 is ''", "3:nan"]),
    (b"1 qid:1 2:NULL", ["feature 2 is 'NULL'", "data.nulls=missing"]),
    (b"1 qid:1 2:-Infinity", ["feature 2 is '-Infinity'", "finite"]),
    (b"1 qid:1 2:1.7976931348623157e308", ["1.797", "float32", "Rescale", "overflow=cap"]),
    (b"label,qid,a", ["'label,qid,a'", "label", "data=table"]),
    (b"1\t7\t0.5", ["'7'", "qid:ID", "CSV", "data=table"]),
    (b"1 qid:1 1:1 # d\r0 qid:1 1:2", ["byte 0x0d", "line feeds", "Convert"]),
]


@pytest.mark.parametrize(("line", "parts"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_bad_line_is_named_with_its_place_its_value_and_the_remedy(
    write: Write, line: bytes, parts: list[str]
) -> None:
    file = write(b"0 qid:1 1:1\n2 qid:1 2:1\n" + line + b"\n2 qid:1 1:1\n")
    with pytest.raises(DataError, match=naming(*parts)) as caught:
        read_letor(file)
    assert str(caught.value).startswith(f"{file}:3: ")


@pytest.mark.parametrize(
    ("content", "options", "parts"),
    [
        (b"", {}, ["train.txt:", "empty", "Check"]),
        (b"1 qid:1\n0 qid:1\n", {}, ["train.txt:", "feature", "set num_features"]),
        (b"1 qid:1 3:1\n1 qid:1 5:1\n", {"num_features": 3}, [":2:", "index is 5", "3 features"]),
        (b"1 qid:1 1:1\n0.5 qid:1 1:1\n", {"whole_labels": True}, [":2:", "is '0.5'", "whole_labels=false"]),
        (b"1 2 qid:1 1:1\n0 qid:1 1:1\n", {}, ["train.txt:2:", "no weight", "Add a weight"]),
        (b"1 0 qid:1 1:1\n0 2 qid:2 1:1\n", {}, ["train.txt:", "query_weights[0]", "remove query '1'"]),
        (b"1 qid:1 1:1\n", {"num_features": 2**24 + 1}, ["num_features is 16777217"]),
        (b"1 qid:1 1:1\n", {"overflow": "clip"}, ["overflow is 'clip'", "refuse, cap, missing"]),
        (b"1 qid:1 1:1\n", {"nulls": "zero"}, ["nulls is 'zero'", "refuse, missing"]),
        (b"1 qid:1 1:1\n", {"num_features": "3"}, ["num_features is '3'", "must be"]),
    ],
)
def test_a_file_or_an_option_that_cannot_be_used_is_named(
    write: Write, content: bytes, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises((DataError, ConfigError), match=naming(*parts)):
        read_letor(write(content), **options)


def test_a_query_in_two_runs_is_an_error_that_names_both_places(write: Write) -> None:
    file = write(b"1 qid:a 1:1\n0 qid:a 1:2\n# between\n1 qid:b 1:1\n1 qid:c 1:1\n0 qid:a 1:3\n")
    with pytest.raises(DataError) as caught:
        read_letor(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:6: query 'a'")
    assert all(part in message for part in (f"{file}:2", "sort_queries=true", "data.sort_queries=true"))


def test_a_document_to_be_scored_may_lack_a_label_but_not_have_a_wrong_one(write: Write) -> None:
    with pytest.raises(DataError, match=naming("new.txt:1:", "label is '-1'", "0 or more")):
        read_letor_features(write(b"-1 qid:1 1:1\n", "new.txt"), 3)


def test_the_five_test_folds_hold_the_published_numbers(letor_data: Callable[[str], Path]) -> None:
    folds = [read_letor(letor_data("MQ2008") / f"Fold{fold}" / "test.txt") for fold in range(1, 6)]
    assert sum(fold.num_documents for fold in folds) == 15_211
    assert sum(fold.num_queries for fold in folds) == 784
    assert {fold.num_features for fold in folds} == {46}
