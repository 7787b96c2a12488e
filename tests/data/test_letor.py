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

from ltrbench.data import RankingDataset, blocks, letor, read_letor
from ltrbench.data.features import SparseRows
from ltrbench.data.letor import read_letor_features
from ltrbench.data.letor_lines import LineFormat, parse_line
from ltrbench.errors import ConfigError, DataError

Write = Callable[..., Path]


def same(one: RankingDataset, other: RankingDataset) -> bool:
    documents = [None if data.document_ids is None else data.document_ids.tolist() for data in (one, other)]
    return one.fingerprint == other.fingerprint and documents[0] == documents[1]


# What is read


def test_a_file_becomes_features_labels_queries_and_document_ids(write: Write) -> None:
    data = read_letor(
        write(b"2 qid:7 1:0.5 3:1 #docid = A\n0 qid:7 2:-4 #docid = B\n1 qid:x 1:2e1 # third \n")
    )
    assert data.features.dtype == np.float32
    assert data.features.tolist() == [[0.5, 0, 1], [0, -4, 0], [20, 0, 0]]
    assert data.labels.tolist() == [2, 0, 1]
    assert data.query_start.tolist() == [0, 2, 3]
    assert data.query_ids.tolist() == ["7", "x"]
    assert data.document_ids is not None
    assert data.document_ids.tolist() == ["A", "B", "third"]
    assert data.feature_names == ("1", "2", "3")


@pytest.mark.parametrize(
    ("comment", "document"),
    [
        (b"#docid = GX008-86-4444840 inc = 1 prob = 0.08", "GX008-86-4444840"),
        (b"# docid = clueweb09-en0003-55-31884 ", "clueweb09-en0003-55-31884"),
        (b"#docid=d7", "d7"),
        (b"# anything else, kept whole ", "anything else, kept whole"),
        (b"# Stra\xc3\x9fe", "Straße"),
        (b"# Stra\xdfe", "Stra\\xdfe"),  # Latin-1
        (b"#", ""),
        (b"", ""),
    ],
)
def test_the_comment_names_the_document(comment: bytes, document: str) -> None:
    line = parse_line(b"1 qid:1 1:1 " + comment, "f:1", LineFormat())
    assert line is not None
    assert line.document == document


def test_blank_lines_and_comment_lines_are_skipped_and_still_counted(write: Write) -> None:
    file = write(b"# made by hand\n\n1 qid:1 1:1\n  \t\n0 qid:1 1:0\n# the end\nx qid:1 1:1\n")
    with pytest.raises(DataError, match=naming("train.txt:7:", "'x'", "label")):
        read_letor(file)
    file.write_bytes(file.read_bytes().replace(b"x qid:1 1:1\n", b""))
    assert read_letor(file).labels.tolist() == [1, 0]


def test_features_are_counted_from_zero_where_that_is_asked_for(write: Write) -> None:
    data = read_letor(write(b"1 qid:1 0:5 2:7\n"), first_index=0)
    assert data.features.tolist() == [[5, 0, 7]]
    assert data.feature_names == ("0", "1", "2")


def test_an_absent_feature_is_zero_or_missing_and_nan_is_always_missing(write: Write) -> None:
    file = write(b"1 qid:1 1:nan 3:0\n0 qid:1 2:4\n")
    for absent in (0.0, math.nan):
        expected = [[math.nan, absent, 0], [absent, 4, absent]]
        np.testing.assert_array_equal(read_letor(file, absent=absent).features, expected)


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


def test_whole_labels_are_asked_for_where_gains_need_them(write: Write) -> None:
    file = write(b"1 qid:1 1:1\n0.5 qid:1 1:1\n")
    assert read_letor(file).labels.tolist() == [1, 0.5]
    with pytest.raises(DataError, match=naming("train.txt:2:", "label is '0.5'", "whole_labels=false")):
        read_letor(file, whole_labels=True)
    assert read_letor(write(b"1.0 qid:1 1:1\n2 qid:1 1:1\n"), whole_labels=True).labels.tolist() == [1, 2]


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(("overflow", "value"), [("cap", LARGEST), ("missing", math.nan)])
@pytest.mark.parametrize("text", ["1.79769313486232e+308", "1e999"])
def test_a_value_beyond_float32_is_capped_or_missing_where_that_is_asked_for(
    write: Write, overflow: str, value: float, text: str
) -> None:
    content = f"1 qid:1 1:{text} 2:0.5\n0 qid:1 1:-{text} 2:1\n".encode()
    read = read_letor(write(content), overflow=overflow)
    np.testing.assert_array_equal(read.features, [[value, 0.5], [-value, 1]])


def test_a_value_written_as_null_is_missing_where_that_is_asked_for(write: Write) -> None:
    content = b"1 qid:1 1:NULL 2:0.5\n0 qid:1 1:1 2:null\n"
    read = read_letor(write(content), nulls="missing")
    np.testing.assert_array_equal(read.features, [[math.nan, 0.5], [1, math.nan]])
    np.testing.assert_array_equal(read_letor_features(write(content), nulls="missing"), read.features)


def test_names_from_a_file_say_how_many_features_there_are(write: Write) -> None:
    names = write(b"bm25, 0\npagerank, 2\n", "names.txt")
    data = read_letor(write(b"1 qid:1 0:5\n"), first_index=0, feature_names=names)
    assert data.feature_names == ("bm25", "1", "pagerank")
    with pytest.raises(DataError, match=naming("train.txt:1:", "index is 3", "3 features", names)):
        read_letor(write(b"1 qid:1 3:5\n"), first_index=0, feature_names=names)
    with pytest.raises(DataError, match=naming("names.txt:", "3 features", "4 were", "num_features")):
        read_letor(write(b"1 qid:1 3:5\n"), 4, first_index=0, feature_names=names)


@pytest.mark.parametrize("num_cores", [1, 3])
def test_the_number_of_cores_changes_nothing(
    write: Write, monkeypatch: pytest.MonkeyPatch, num_cores: int
) -> None:
    monkeypatch.setattr(blocks, "UNIT_BYTES", 50)
    content = b"".join(b"%d qid:%d 1:%d # %d\n" % (row % 3, row // 7, row, row) for row in range(200))
    usual = read_letor(write(content))
    monkeypatch.setattr(blocks, "available_cores", lambda: num_cores)
    assert same(read_letor(write(content)), usual)
    wrong = content.replace(b"1:150", b"1:x").replace(b"1:151", b"1:y")
    with pytest.raises(DataError, match=naming("train.txt:151:", "'x'")):
        read_letor(write(wrong))


# Several files


def test_several_files_are_read_as_one_and_a_query_may_run_on(write: Write, tmp_path: Path) -> None:
    lines = [b"1 qid:a 2:1 # p\n", b"0 qid:b 1:2\n", b"2 qid:b 3:3 # q\n"]
    one = read_letor(write(b"".join(lines)))
    for cut in (1, 2):
        (tmp_path / "first").write_bytes(b"".join(lines[:cut]))
        (tmp_path / "second").write_bytes(gzip.compress(b"".join(lines[cut:])))
        assert same(read_letor([tmp_path / "first", str(tmp_path / "second")]), one)


# Sparse features

SPARSE_LINES = (
    b"0 qid:1 1:0.5 3:2 # docid = a\n",
    b"2 qid:2 2:nan 7:0 # docid = b\n",
    b"# comment 1:2 3:4\n",
    b"1 qid:1 # docid = c\n",
    b"1 qid:q:3 4:0.30000000000000004 5:1 6:-0.0\n",
)


@pytest.mark.parametrize("absent", [0.0, -0.0, np.nan])
@pytest.mark.parametrize("unit_bytes", [7, 60, 1 << 22])
def test_several_files_with_scattered_queries_are_the_same_data_set(
    write: Write, monkeypatch: pytest.MonkeyPatch, unit_bytes: int, absent: float
) -> None:
    monkeypatch.setattr(blocks, "UNIT_BYTES", unit_bytes)
    files = [write(b"".join(SPARSE_LINES)), write(b"".join(SPARSE_LINES[::-1]), "more.txt")]
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


# Documents without labels


@pytest.mark.parametrize(
    "content",
    [
        b"qid:7 1:0.5 3:1 # A\nqid:7 2:4\nqid:8 1:2\n",
        b"1:0.5 3:1 # A\n2:4\n1:2\n",
        b"2 qid:7 1:0.5 3:1 # A\n0 qid:7 2:4\n1 qid:8 1:2\n",
        b"2 1:0.5 3:1 # A\n0 2:4\n1 1:2\n",
        b"1 0.5 qid:7 1:0.5 3:1\n0 1 qid:8 2:4\n1 1 qid:7 1:2\n",
    ],
    ids=["without labels", "without labels and qids", "labelled", "without qids", "scattered and weighted"],
)
def test_features_alone_are_read_with_labels_and_qids_or_without(write: Write, content: bytes) -> None:
    features = read_letor_features(write(content))
    assert features.dtype == np.float32
    assert features.tolist() == [[0.5, 0, 1], [0, 4, 0], [2, 0, 0]]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"-1 qid:1 1:1\n", ["new.txt:1:", "label is '-1'", "0 or more"]),
        (b"good qid:1 1:1\n", ["new.txt:1:", "'good'", "label", "number"]),
        (b"qid:1 1:1\nqid:1 4:1\n", ["new.txt:2:", "index is 4", "3 features"]),
        (b"", ["new.txt:", "empty"]),
    ],
)
def test_a_mistake_in_a_file_that_is_only_to_be_scored_is_named(
    write: Write, content: bytes, parts: list[str]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        read_letor_features(write(content, "new.txt"), 3)


# Mistakes

# All other lines of the file are ordinary, so that the kernel must detect the mistake itself.
MISTAKES: list[tuple[bytes, list[str]]] = [
    (b"qid:1 1:1", ["'qid:1'", "label", "'label [weight] qid:ID", "Add a label", "predict", "read_features"]),
    (b"good qid:1 1:1", ["'good'", "label", "'label [weight] qid:ID"]),
    (b"nan qid:1 1:1", ["label is 'nan'", "remove documents"]),
    (b"1e999 qid:1 1:1", ["label is '1e999'", "finite"]),
    (b"-1 qid:1 1:1", ["label is '-1'", "0 or more", "Shift the grades"]),
    (b"1 1:1", ["'1:1'", "qid:ID", ".query"]),
    (b"1 qid: 1:1", ["'qid:'", "qid:ID"]),
    (b"1", ["line ends", "qid:ID"]),
    (b"1 qid:\xff 1:1", ["\\\\xff", "UTF-8"]),
    (b"1 qid:1 qid:2 1:1", ["'qid:2'", "index:value"]),
    (b"1 qid:1 1:1 oops", ["'oops'", "index:value"]),
    (b"1 qid:1 -1:1", ["'-1:1'", "index:value"]),
    (b"1 qid:1 0:1 1:2", ["index is 0", "from 1", "data.first_index=0"]),
    (b"1 qid:1 1:1 4:2 4:3", ["index 4 follows 4", "keep one"]),
    (b"1 qid:1 5:1 2:2", ["index 2 follows 5", "ascend", "Sort"]),
    (b"1 qid:1 16777217:1", ["'16777217'", "16777216", "without gaps"]),
    (b"1 qid:1 " + b"9" * 5000 + b":1", ["'9999", "...'", "16777216"]),
    (b"1 -2 qid:1 1:1", ["weight is '-2'", "0 or more", "Correct"]),
    (b"1 nan qid:1 1:1", ["weight is 'nan'", "finite"]),
    (b"1 1e400 qid:1 1:1", ["weight is '1e400'", "finite"]),
    (b"1 heavy qid:1 1:1", ["'heavy'", "qid:ID", "[weight]"]),
    (b"1 2 qid:1 1:1", ["a weight", "have none", "remove"]),
    (b"1 qid:" + b"a" * 1001 + b" 1:1", ["1001 bytes", "1000", "shorter id"]),
    (b"1 qid:1 3: 4:1", ["feature 3 is ''", "3:nan"]),
    (b"1 qid:1 1::2", ["feature 1 is ':2'", "number"]),
    (b"1 qid:1 2:NULL", ["feature 2 is 'NULL'", "data.nulls=missing"]),
    (b"1 qid:1 2:-Infinity", ["feature 2 is '-Infinity'", "finite"]),
    (b"1 qid:1 2:1.7976931348623157e308", ["1.797", "float32", "Rescale", "overflow=cap"]),
    (b"1 qid:1 1:3.4028235677973366e38", ["float32", "Rescale"]),
    (b"1 qid:1 1:1_000", ["'1_000'", "number"]),
    (b"label,qid,a", ["'label,qid,a'", "label", "data=table"]),
    (b"label\tqid\tbm25", ["'label'", "CSV", "data=table"]),
    (b"1\t7\t0.5", ["'7'", "qid:ID", "CSV", "data=table"]),
    (b"PAR1\x15\x04", ["byte 0x15", "text", "data=table"]),
    (b"1 qid:1 1:1 # d\r0 qid:1 1:2", ["byte 0x0d", "line feeds", "Convert"]),
    (b"1 qid:1 1:1 # d\x00", ["byte 0x00", "text", "Convert"]),
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
        (b"\n  \n# nothing\n", {}, ["train.txt:", "comments", "Check"]),
        (b"1 qid:1\n0 qid:1\n", {}, ["train.txt:", "feature", "set num_features"]),
        (b"1 qid:1 3:1\n1 qid:1 5:1\n", {"num_features": 3}, [":2:", "index is 5", "3 features"]),
        (b"1 qid:1 2:7\n", {"num_features": 2, "first_index": 0}, [":1:", "index is 2", "2 features"]),
        (b"1 2 qid:1 1:1\n0 qid:1 1:1\n", {}, ["train.txt:2:", "no weight", "Add a weight"]),
        (b"1 0 qid:1 1:1\n0 2 qid:2 1:1\n", {}, [":1:", "query '1'", "weight 0", "Remove the query"]),
        (b"1 qid:1 1:1\n", {"num_features": 0}, ["num_features is 0"]),
        (b"1 qid:1 1:1\n", {"num_features": 2**24 + 1}, ["num_features is 16777217"]),
        (b"1 qid:1 1:1\n", {"first_index": 2}, ["first_index is 2"]),
        (b"1 qid:1 1:1\n", {"absent": 1.0}, ["absent is 1.0"]),
        (b"1 qid:1 1:1\n", {"overflow": "clip"}, ["overflow is 'clip'", "refuse, cap, missing"]),
        (b"1 qid:1 1:1\n", {"nulls": "zero"}, ["nulls is 'zero'", "refuse, missing"]),
        (b"1 qid:1 1:1\n", {"first_index": 1.0}, ["first_index is 1.0", "must be"]),
        (b"1 qid:1 1:1\n", {"num_features": "3"}, ["num_features is '3'", "must be"]),
        (b"1 qid:1 1:1\n", {"absent": None}, ["absent is None", "must be"]),
        (b"1 qid:1 1:1\n", {"sort_queries": "False"}, ["sort_queries is 'False'", "must be"]),
        (b"1 qid:1 1:1\n", {"whole_labels": "no"}, ["whole_labels is 'no'", "must be"]),
        (b"1 qid:1 1:1\n", {"sparse": "auto"}, ["sparse is 'auto'", "must be"]),
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


# Real data


@pytest.mark.parametrize(("name", "num_documents", "num_queries"), [("MQ2008", 15_211, 784)])
def test_the_five_test_folds_hold_the_published_numbers(
    letor_data: Callable[[str], Path], name: str, num_documents: int, num_queries: int
) -> None:
    folds = [read_letor(letor_data(name) / f"Fold{fold}" / "test.txt") for fold in range(1, 6)]
    assert sum(fold.num_documents for fold in folds) == num_documents
    assert sum(fold.num_queries for fold in folds) == num_queries
    assert {fold.num_features for fold in folds} == {46}
    assert {label for fold in folds for label in fold.labels.tolist()} == {0, 1, 2}
