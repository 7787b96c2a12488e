"""inspect: what it counts is what is there."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from messages import naming

from ltrbench.cli import main
from ltrbench.conf_folder import conf_dir
from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows, matrix
from ltrbench.experiment.inspection import inspect_data
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.rankers.random import RandomRanker

pytestmark = pytest.mark.slow  # every backend of conf/model looks at the data

NAN = float("nan")

# Queries of 3, 2 and 1 documents: best label first, all relevant, nothing relevant.
DATA = RankingDataset(
    features=np.array(
        [
            [1, 0, 7, NAN, NAN],
            [1, 1, 7, NAN, 4],
            [1, 2, 7, NAN, 4],
            [1, 0, 8, NAN, 4],
            [1, 0, 8, NAN, 4],
            [1, 0, 9, NAN, 4],
        ],
        dtype=np.float32,
    ),
    labels=np.array([2.0, 1, 0, 1, 1, 0]),
    query_start=np.array([0, 3, 5, 6]),
    feature_names=("one", "useful", "of_query", "empty", "gappy"),
)


def test_documents_labels_and_queries_are_counted() -> None:
    report = inspect_data(DATA, {})
    assert (report.documents, report.queries, report.features) == (6, 3, 5)
    assert report.labels == {"0": 2, "1": 3, "2": 1}
    assert (report.without_relevant, report.only_relevant, report.single_document) == (1, 1, 1)
    assert report.query_sizes["0"] == 1
    assert report.query_sizes["0.5"] == 2
    assert report.query_sizes["1"] == 3
    assert report.query_sizes["mean"] == 6 / 3
    assert report.fingerprint == DATA.fingerprint


def test_labels_that_differ_little_are_counted_apart() -> None:
    labels = np.array([0.1234567, 0.1234568, 0, 0, 0, 0])
    assert inspect_data(replace(DATA, labels=labels), {}).labels == {"0": 4, "0.1234567": 1, "0.1234568": 1}


def test_labels_that_are_not_whole_are_counted() -> None:
    assert inspect_data(DATA, {}).fractional_labels == 0
    labels = np.array([0.5, 1.5, 2, 0, 0, 1])
    assert inspect_data(replace(DATA, labels=labels), {}).fractional_labels == 2


def test_features_that_order_nothing_are_named() -> None:
    faults = inspect_data(DATA, {}).feature_faults
    assert faults.missing == {"empty": 6, "gappy": 1}
    assert faults.constant == ("one", "empty")
    assert faults.constant_within_queries == ("of_query",)


def test_a_feature_that_is_missing_in_some_documents_only_is_not_constant() -> None:
    assert "gappy" not in inspect_data(DATA, {}).feature_faults.constant


def test_looking_at_the_features_in_parts_finds_what_looking_at_all_at_once_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = inspect_data(DATA, {}).feature_faults
    for rows in (1, 2, 4, 5):
        monkeypatch.setattr(matrix, "BLOCK_BYTES", rows * DATA.num_features * 4)
        assert inspect_data(DATA, {}).feature_faults == whole


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    data=st.data(),
    absent=st.sampled_from([0.0, -0.0, np.nan]),
)
def test_sparse_features_have_the_faults_of_the_array(
    sizes: list[int], data: st.DataObject, absent: float
) -> None:
    values = st.sampled_from([0.0, 0.0, -0.0, 1.0, np.nan])
    features = data.draw(arrays(np.float32, (sum(sizes), 3), elements=values))
    # Cells with a value that equals `absent` may be stored as well.
    stored = features.view(np.uint32) != np.float32(absent).view(np.uint32)
    stored |= data.draw(arrays(np.bool_, features.shape))
    row_start = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    sparse: Any = SparseRows(row_start, np.nonzero(stored)[1].astype(np.int32), features[stored], 3, absent)
    query_start = np.cumsum([0, *sizes])
    dense = RankingDataset(features=features, labels=np.zeros(sum(sizes)), query_start=query_start)
    expected = inspect_data(dense, {}).feature_faults
    assert inspect_data(replace(dense, features=sparse), {}).feature_faults == expected


@pytest.mark.parametrize(
    ("labels", "best_first", "worst_first"),
    [([2, 1, 0, 3, 0, 0], 2, 0), ([0, 0, 1, 0, 3, 0], 0, 2), ([1, 0, 1, 0, 0, 0], 0, 0)],
)
def test_queries_sorted_by_label_are_counted(labels: list[int], best_first: int, worst_first: int) -> None:
    order = inspect_data(replace(DATA, labels=np.array(labels, dtype=np.float64)), {}).row_order
    assert (order.best_first, order.worst_first) == (best_first, worst_first)


@pytest.mark.parametrize(
    ("query_ids", "ascend"),
    [(["2", "9", "10"], True), (["10", "9", "2"], False), (["a", "b", "c"], True), (["b", "a", "c"], False)],
)
def test_query_ids_ascend_as_numbers_where_all_are(query_ids: list[str], ascend: bool) -> None:
    assert inspect_data(replace(DATA, query_ids=np.array(query_ids)), {}).row_order.query_ids_ascend is ascend


def test_weights_and_positions_are_told_where_there_are_some() -> None:
    assert inspect_data(DATA, {}).query_weights is None
    assert inspect_data(DATA, {}).positions is None
    weighted = replace(DATA, query_weights=np.array([1.0, 2.0, 6.0]), positions=np.array([1, 2, 3, 1, 2, 1]))
    report = inspect_data(weighted, {})
    assert report.query_weights == {"min": 1, "mean": (1 + 2 + 6) / 3, "max": 6}
    assert not report.weights_vary_within_queries
    assert report.positions == {"min": 1, "max": 3}
    uneven = replace(DATA, document_weights=np.array([1.0, 2.0, 3.0, 1.0, 1.0, 1.0]))
    assert inspect_data(uneven, {}).weights_vary_within_queries


class Choosy(RandomRanker):
    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        if train is not None:
            yield Finding(Severity.CAUTION, f"{train.num_documents} documents are too many.")


def test_each_backend_says_its_own_concerns() -> None:
    assert inspect_data(DATA, {"choosy": Choosy()}).concerns == {"choosy": ("6 documents are too many.",)}


@pytest.fixture
def sorted_file(tmp_path: Path) -> Path:
    """Thirty features without a value that differs, and queries whose best document stands first."""
    path = tmp_path / "sorted.txt"
    features = " ".join(f"{index}:1" for index in range(1, 31))
    path.write_text("".join(f"{label} qid:{query} {features}\n" for query in (1, 2) for label in (40, 0)))
    return path


def test_the_verb_asks_every_backend_of_conf_model_and_its_json_is_whole(
    sorted_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sorted_file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    models = [path.stem for path in conf_dir().glob("model/*.yaml") if not path.stem.startswith("_")]
    assert sorted(report["concerns"]) == sorted(models)
    assert report["feature_faults"]["constant"] == [str(index) for index in range(1, 31)]
    assert any("40" in sentence for sentence in report["concerns"]["lightgbm"])


def test_the_verbs_text_warns_of_sorted_rows_and_cuts_long_lists(
    sorted_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sorted_file)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\b2 queries\b.*\b2 are sorted best label first", shown)
    assert re.search(naming("row order", "shuffle the rows", "ties=expected"), shown)
    assert re.search(r"constant +30 features [^:]*: 1, 2, 3", shown)
    assert re.search(naming("18 more", "--json"), shown)


def test_the_verb_takes_several_files_as_one_split_and_remarks_what_is_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, query in zip(paths, "ab", strict=True):
        path.write_text(f"0.5 qid:{query} 1:1\n0 qid:{query} 1:2\n")
        Path(f"{path}.position").write_text("1\n2\n")
    words = ["inspect", *map(str, paths)]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["data"] == words[1:]
    assert (report["documents"], report["queries"], report["fractional_labels"]) == (4, 2, 2)
    for model in ("lightgbm", "xgboost"):
        assert any("positions" in each and "model.lambdarank" in each for each in report["concerns"][model])
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(naming("labels of 2 documents", "2^label - 1", "data.whole_labels=false"), shown)
    assert re.search(naming("positions", "1 to 2", "training"), shown)


def test_the_verb_reads_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=["1 qid:a 1:1\n0 qid:a 1:2\n"])
    writer.start()
    assert main(["inspect", str(pipe), "--json"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["documents"] == 2


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("sort_queries=no", ("sort_queries is 'no'", "true or false")),
        ("num_features=5", ("sorted.txt", "6", "5 features")),
        ("first_index=1.0", ("first_index is 1.0",)),
        ("absent=null", ("absent is None", "0 or nan")),
        ("overflow=nan", ("overflow is nan",)),
        ("feature_names=names.txt", ("names.txt",)),
    ],
)
def test_an_option_of_reading_that_cannot_be_is_told_in_one_paragraph(
    sorted_file: Path, option: str, parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sorted_file), "--read", option]) == 2
    assert re.search(naming(*parts), " ".join(capsys.readouterr().err.split()))


@pytest.mark.parametrize(("value", "accepted"), [("TRUE", True), ("True", True), ("False", False)])
def test_a_switch_of_reading_is_read_in_any_case(
    tmp_path: Path, value: str, accepted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scattered.txt"
    path.write_text("1 qid:a 1:1\n0 qid:b 1:2\n0 qid:a 1:3\n")
    assert (main(["inspect", str(path), "--read", f"sort_queries={value}"]) == 0) is accepted
    capsys.readouterr()


def test_a_column_of_a_number_is_named_by_the_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("3,qid,bm25\n1,a,0.5\n")
    assert main(["inspect", str(path), "--read", "label=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == {"1": 1}
