"""LETOR reader: the data set has the content of the file, and every error names its place and value."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from store_cases import data_sets

from ltrbench.data import (
    RankingDataset,
    letor,
    read_data,
    read_features,
    read_letor,
    read_table,
)
from ltrbench.data.letor import read_letor_features, write_letor
from ltrbench.errors import ConfigError, DataError

Write = Callable[..., Path]


def same(one: RankingDataset, other: RankingDataset) -> bool:
    documents = [
        None if data.document_ids is None else data.document_ids.tolist()
        for data in (one, other)
    ]
    return one.fingerprint == other.fingerprint and documents[0] == documents[1]


# What is read


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("content", "options", "features", "labels"),
    [
        (
            b"# by hand\n\n1 qid:1 1:1\n  \t\n0 qid:1 1:0\n# the end\n",
            {},
            [[1], [0]],
            [1, 0],
        ),
        (
            b"1.0 qid:1 0:5 2:7\n",
            {"first_index": 0, "whole_labels": True},
            [[5, 0, 7]],
            [1],
        ),
        (b"1 qid:1 1:nan 3:0\n", {}, [[math.nan, 0, 0]], [1]),
        (
            b"0.5 qid:1 1:nan 3:0\n",
            {"absent": math.nan},
            [[math.nan, math.nan, 0]],
            [0.5],
        ),
        (
            b"1 qid:1 1:1.79769313486232e+308 2:-1e999\n",
            {"overflow": "cap"},
            [[LARGEST, -LARGEST]],
            [1],
        ),
        (b"1 qid:1 1:1e999 2:0.5\n", {"overflow": "missing"}, [[math.nan, 0.5]], [1]),
        (b"1 qid:1 1:NULL 2:null\n", {"nulls": "missing"}, [[math.nan, math.nan]], [1]),
    ],
)
def test_options_of_the_reader(
    write: Write,
    content: bytes,
    options: dict[str, Any],
    features: list[list[float]],
    labels: list[float],
) -> None:
    file = write(content)
    data = read_letor(file, **options)
    np.testing.assert_array_equal(data.features, features)
    assert data.labels.tolist() == labels
    options.pop("whole_labels", None)
    np.testing.assert_array_equal(read_letor_features(file, **options), features)


@given(
    numbers=st.lists(st.integers(0, 3), min_size=1, max_size=12), weighted=st.booleans()
)
@settings(deadline=None, max_examples=40)
def test_sorted_queries_are_those_of_a_stable_sort(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], weighted: bool
) -> None:
    file = tmp_path_factory.mktemp("letor") / "train.txt"
    lines = [
        f"0 {row + 1 if weighted else ''} qid:{q} 1:{row} # {row}\n"
        for row, q in enumerate(numbers)
    ]
    file.write_text("".join(lines))
    scattered = read_letor(file, sort_queries=True)
    order = sorted(range(len(lines)), key=lambda row: numbers.index(numbers[row]))
    file.write_text("".join(lines[row] for row in order))
    assert same(scattered, read_letor(file))
    assert order == (
        sorted(order) if scattered.file_rows is None else scattered.file_rows.tolist()
    )


def test_names_from_a_file_say_how_many_features_there_are(write: Write) -> None:
    names = write(b"bm25, 0\npagerank, 2\n", "names.txt")
    data = read_letor(write(b"1 qid:1 0:5\n"), first_index=0, feature_names=names)
    assert data.feature_names == ("bm25", "1", "pagerank")
    with pytest.raises(
        DataError,
        match=naming("train.txt:1:", "index is 3", "3 features", "feature_names"),
    ):
        read_letor(write(b"1 qid:1 3:5\n"), first_index=0, feature_names=names)


# Several files


def test_several_files_are_read_as_one_and_a_query_may_run_on(
    write: Write, tmp_path: Path
) -> None:
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
    content = b"".join(
        b"1 qid:%d %d:1 %d:2\n" % (row // 9, row + 1, width - row)
        for row in range(1000)
    )
    monkeypatch.setattr(
        letor, "available_bytes", lambda: names + 1000 * (8 + 2 * 8 + 2 * 8)
    )
    file = write(content)
    with pytest.raises(
        DataError,
        match=naming(
            "train.txt:1:",
            "50000 features",
            "0.2 GB",
            "data build",
            "data.cache",
            "data.sparse=true",
        ),
    ):
        read_letor(file)
    data = read_letor(file, sparse=True)
    assert data.features.shape == (1000, width)
    monkeypatch.setattr(letor, "available_bytes", lambda: names)
    with pytest.raises(
        DataError, match=naming("train.txt:1:", "50000 features", "1000 documents")
    ):
        read_letor(file, sparse=True)


# Mistakes

# All other lines of the file are ordinary, so that the kernel must detect the mistake itself.
MISTAKES: list[tuple[bytes, list[str]]] = [
    (
        b"qid:1 1:1",
        [
            "'qid:1'",
            "label",
            "'label [weight] qid:ID",
            "Add a label",
            "predict",
            "read_features",
        ],
    ),
    (b"good qid:1 1:1", ["'good'", "label", "'label [weight] qid:ID"]),
    (b"-1 qid:1 1:1", ["label is '-1'", "0 or more"]),
    (b"1 1:1", ["'1:1'", "qid:ID", ".query"]),
    (b"1 qid:\xff 1:1", ["\\\\xff", "UTF-8"]),
    (b"1 qid:1 1:1 oops", ["'oops'", "index:value"]),
    (b"1 qid:1 0:1 1:2", ["index is 0", "first_index=0"]),
    (b"1 qid:1 1:1 4:2 4:3", ["index 4 follows 4", "ascend"]),
    (b"1 qid:1 5:1 2:2", ["index 2 follows 5", "ascend"]),
    (b"1 qid:1 16777217:1", ["'16777217'", "16777216", "without gaps"]),
    (b"1 -2 qid:1 1:1", ["weight is '-2'", "0 or more"]),
    (b"1 1e400 qid:1 1:1", ["weight is '1e400'", "finite"]),
    (b"1 2 qid:1 1:1", ["a weight", "have none"]),
    (b"1 qid:" + b"a" * 1001 + b" 1:1", ["too long", "1000 bytes"]),
    (b"1 qid:1 3: 4:1", ["feature 3 is ''", "3:nan"]),
    (b"1 qid:1 2:NULL", ["feature 2 is 'NULL'", "data.nulls=missing"]),
    (b"1 qid:1 2:-Infinity", ["feature 2 is '-Infinity'", "finite"]),
    (
        b"1 qid:1 2:1.7976931348623157e308",
        ["1.797", "float32", "Rescale", "overflow=cap"],
    ),
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
        (b"", {}, ["train.txt:", "no documents"]),
        (b"1 qid:1\n0 qid:1\n", {}, ["train.txt:", "feature", "set num_features"]),
        # No line has a feature that the kernel counts.
        (b"\nquery_id,label,x\na,1,2\n", {}, [":2:", "label", "data=table"]),
        (b"query_id\tlabel\tx\na\t1\t2\n", {}, [":1:", "label", "data=table"]),
        (b"1 qid:1 0:1\n0 qid:1 0:2\n", {}, [":1:", "index is 0", "first_index=0"]),
        (b"1 qid:1\n0 qid:1 -1:2\n", {}, [":2:", "'-1:2'", "index:value"]),
        (b"1 qid:1 1 :1\n", {}, [":1:", "'1'", "index:value"]),
        (
            b"1 qid:1 3:1\n1 qid:1 5:1\n",
            {"num_features": 3},
            [":2:", "index is 5", "3 features"],
        ),
        (
            b"1 qid:1 1:1\n0.5 qid:1 1:1\n",
            {"whole_labels": True},
            [":2:", "is '0.5'", "whole_labels=false"],
        ),
        (
            b"1 2 qid:1 1:1\n0 qid:1 1:1\n",
            {},
            ["train.txt:2:", "no weight", "have one"],
        ),
        (
            b"1 0 qid:1 1:1\n0 2 qid:2 1:1\n",
            {},
            ["train.txt:", "query_weights[0]", "remove query '1'"],
        ),
        (b"1 qid:1 1:1\n", {"num_features": 2**24 + 1}, ["num_features is 16777217"]),
        (
            b"1 qid:1 1:1\n",
            {"overflow": "clip"},
            ["overflow is 'clip'", "refuse, cap, missing"],
        ),
        (b"1 qid:1 1:1\n", {"nulls": "zero"}, ["nulls is 'zero'", "refuse, missing"]),
        (b"1 qid:1 1:1\n", {"num_features": "3"}, ["num_features is '3'", "must be"]),
    ],
)
def test_a_file_or_an_option_that_cannot_be_used_is_named(
    write: Write, content: bytes, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises((DataError, ConfigError), match=naming(*parts)):
        read_letor(write(content), **options)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_a_pipe_is_refused_because_it_can_be_read_only_once(
    pack: Callable[[bytes], bytes],
) -> None:
    reader, writer = os.pipe()
    os.write(writer, pack(b"1 qid:1 1:1\n"))
    os.close(writer)
    try:
        with pytest.raises(DataError, match=naming(f"/dev/fd/{reader}", "twice")):
            read_letor(f"/dev/fd/{reader}")
    finally:
        os.close(reader)


@pytest.mark.parametrize("read", [read_data, read_letor, read_table, read_features])
def test_an_empty_list_of_paths_is_refused(read: Callable[[Any], Any]) -> None:
    with pytest.raises(DataError, match=naming("empty", "at least one")):
        read([])


def test_a_query_in_two_runs_is_an_error_that_names_both_places(write: Write) -> None:
    file = write(
        b"1 qid:a 1:1\n0 qid:a 1:2\n# between\n1 qid:b 1:1\n1 qid:c 1:1\n0 qid:a 1:3\n"
    )
    with pytest.raises(DataError) as caught:
        read_letor(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:6: query 'a'")
    assert all(
        part in message
        for part in (f"{file}:2", "sort_queries=true", "data.sort_queries=true")
    )


def test_the_five_test_folds_hold_the_published_numbers(
    letor_data: Callable[[str], Path],
) -> None:
    folds = [
        read_letor(letor_data("MQ2008") / f"Fold{fold}" / "test.txt")
        for fold in range(1, 6)
    ]
    assert sum(fold.num_documents for fold in folds) == 15_211
    assert sum(fold.num_queries for fold in folds) == 784
    assert {fold.num_features for fold in folds} == {46}


# LightGBM's form: companion files are part of the data, and LightGBM reads the same data.


LINES = b"0 1:1 2:5\n2 1:3\n# between\n1 2:4\n"


@pytest.fixture
def write_beside(tmp_path: Path) -> Write:
    def write_files(content: bytes = LINES, **beside: bytes) -> Path:
        for ending, values in beside.items():
            (tmp_path / f"rank.train.{ending}").write_bytes(values)
        (tmp_path / "rank.train").write_bytes(content)
        return tmp_path / "rank.train"

    return write_files


def test_the_files_beside_give_queries_weights_and_positions(
    write_beside: Write,
) -> None:
    data = read_letor(
        write_beside(query=b"2\n1\n", weight=b"1\n0.5\n2\n", position=b"3.0\n1\n7e0\n")
    )
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
        (QIDS, {"init": b"1\n2\n3\n"}, ["rank.train.init", "initial scores", "Move"]),
        (QIDS, {"query": b"2\n1\n"}, ["rank.train:", "rank.train.query", "both"]),
        (
            b"0 1 qid:a 1:1\n",
            {"weight": b"1\n"},
            ["rank.train:", "rank.train.weight", "both"],
        ),
        (
            b"0 1:1\n0 qid:a 1:1\n",
            {"query": b"2\n"},
            ["rank.train:2:", "a qid", "have none"],
        ),
        (
            LINES,
            {"position": b"1\n1.5\n2\n"},
            [".position:2:", "'1.5'", "whole number"],
        ),
        (LINES, {"position": b"-1\n2\n1\n"}, [".position:1:", "'-1'"]),
        (
            LINES,
            {"query": b"1\n1\n"},
            [".query is for 2 documents", "rank.train has 3"],
        ),
        (LINES, {"query": b"2\n0\n1\n"}, [".query:2:", "'0'", "number of documents"]),
        (LINES, {"weight": b"1\n-1\n1\n"}, [".weight:2:", "'-1'", "0 or more"]),
        (LINES, {"weight": b"1\n1\nnan\n"}, [".weight:3:", "'nan'", "0 or more"]),
    ],
)
def test_a_mistake_in_a_file_or_beside_it_is_named(
    write_beside: Write, content: bytes, beside: dict[str, bytes], parts: list[str]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        read_letor(
            write_beside(
                content, **(({"query": b"3\n"} if content == LINES else {}) | beside)
            )
        )


# Beside LightGBM


def test_lightgbms_example_is_read_as_lightgbm_reads_it(
    letor_data: Callable[[str], Path],
) -> None:
    folder = letor_data("lightgbm-example")
    train = read_letor(folder / "rank.train")
    test = read_letor(folder / "rank.test", train.num_features)
    assert (train.features.shape, train.num_queries) == ((3005, 300), 201)
    assert (test.features.shape, test.num_queries) == ((768, 300), 50)
    theirs: Any = lightgbm.Dataset(
        str(folder / "rank.train"), params={"verbose": -1}
    ).construct()
    assert np.array_equal(theirs.get_label(), train.labels)
    assert np.array_equal(theirs.get_group(), train.query_sizes)
    # LightGBM counts from zero: its column i is the feature with index i, and its column 0 is empty.
    from_zero = read_letor(folder / "rank.train", 301, first_index=0)
    assert theirs.get_feature_name() == [
        f"Column_{name}" for name in from_zero.feature_names
    ]
    assert np.array_equal(from_zero.features[:, 1:], train.features)


# Written files restore the same data with the default reader options, or writing is an error.


NAMES = st.text(max_size=8)


@given(
    data=data_sets(of_table=False),
    absent=st.sampled_from([0.0, math.nan]),
    ending=st.sampled_from(["", ".gz", ".zst"]),
)
@settings(deadline=None, max_examples=50)
def test_letor_text_is_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    data: RankingDataset,
    absent: float,
    ending: str,
) -> None:
    file = tmp_path_factory.mktemp("written") / f"train.txt{ending}"
    data = data.with_fields(
        query_ids=[f"ä{number}" for number in range(data.num_queries)],
        document_ids=None,
    )
    write_letor(data, file)
    assert read_letor(file, absent=absent).fingerprint == data.fingerprint


@pytest.mark.parametrize(
    "columns", [{"kept": {"price": [2.5]}}, {"categories": {"1": ("a", "b")}}], ids=str
)
def test_what_has_no_place_in_letor_text_is_refused(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    data = one_document(**columns)
    ((name, *_),) = columns.values()
    file = tmp_path / "train.txt"
    with pytest.raises(DataError, match=naming("train.txt", name, "write_table")):
        write_letor(data, file)
    assert not file.exists()
    rest = data.with_fields(categories={}, kept={})
    write_letor(rest, file)
    assert read_letor(file).fingerprint == rest.fingerprint


def one_document(**fields: object) -> RankingDataset:
    return RankingDataset(features=[[1.0]], labels=[0], query_start=[0, 1], **fields)  # type: ignore[arg-type]


ODD_NAMES = st.sampled_from(
    [
        "docid = x",
        "docid=",
        "a b",
        " a",
        "a\nb",
        "",
        "#",
        "a#",
        "\x00",
        "\udc80",
        "\u00a0",
        "a" * 2000,
    ]
)


@pytest.mark.parametrize("field", ["query_ids", "document_ids"])
@given(name=NAMES | ODD_NAMES)
@settings(deadline=None, max_examples=80)
def test_an_id_is_read_back_or_refused(
    tmp_path_factory: pytest.TempPathFactory, field: str, name: str
) -> None:
    file = tmp_path_factory.mktemp("written") / "train.txt"
    data = one_document(**{field: [name]})
    ids = getattr(data, field).tolist()
    try:
        write_letor(data, file)
    except DataError as error:
        refusal = str(error)
    else:
        again = getattr(read_letor(file), field)
        refusal = ""
        assert ([""] if again is None else again.tolist()) == ids
    assert file.exists() or f"{field}: {ids[0]!r}" in refusal
