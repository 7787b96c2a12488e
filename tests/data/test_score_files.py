"""Score files: written files restore the data, trec_eval agrees, and errors name the line."""

from __future__ import annotations

import gzip
import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.score_files import (
    QRELS_LINE,
    RUN_LINE,
    document_names,
    qrels_lines,
    read_qrels,
    read_score_file,
    read_scores,
    read_trec_run,
    trec_run_lines,
)
from ltrbench.data.tables import write_frame
from ltrbench.errors import DataError
from ltrbench.shapes import Scores


def judged(sizes: tuple[int, ...] = (3, 1, 4), names: bool = True) -> Judgments:
    start = np.concatenate([[0], np.cumsum(sizes)])
    rng = np.random.default_rng(len(sizes))
    documents = np.array([f"d{row}" for row in rng.permutation(start[-1])])
    return Judgments(
        labels=rng.integers(0, 3, start[-1]),
        query_start=start,
        query_ids=np.array([f"q{number}" for number in range(len(sizes))]),
        document_ids=documents if names else None,
    )


def write_run(path: Path, judgments: Judgments, scores: Scores) -> Path:
    path.write_text(
        "".join(
            trec_run_lines(judgments, scores, document_names(judgments)[0], "a system")
        )
    )
    return path


@given(
    st.lists(st.floats(allow_nan=False), min_size=8, max_size=8),
    st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=50)
def test_a_run_that_is_written_reads_back_with_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[float],
    dtype: type[np.floating],
) -> None:
    with np.errstate(over="ignore"):
        scores = np.array(values).astype(dtype)
    path = write_run(tmp_path_factory.getbasetemp() / "run.trec", judged(), scores)
    np.testing.assert_array_equal(
        read_score_file(path).match(judged(), None, "test").scores, scores
    )


def test_what_is_not_retrieved_has_no_score_and_what_is_not_judged_is_kept_apart(
    tmp_path: Path,
) -> None:
    judgments = judged((3, 2))
    (first, *_), file = judgments.document_ids, tmp_path / "run.trec"  # type: ignore[misc]
    file.write_text(
        f"q0 Q0 {first} 1 -7 x\nq0 Q0 stranger 2 -8 x\nq9 Q0 {first} 1 3 x\n"
    )
    matched = read_score_file(file).match(judgments, None, "test")
    np.testing.assert_array_equal(matched.scores, [-7.0, *[np.nan] * 4])
    missing, unjudged = matched.notes
    assert re.search(
        naming(
            "4 of 5 documents", "test", "nothing", "1 of 2 queries", "unanswered=skip"
        ),
        missing,
    )
    parts = ("1 of 2 retrieved documents", "test", "judged_only=true")
    assert re.search(naming(*parts), unjudged)
    assert matched.unjudged is not None
    assert matched.unjudged.document_ids.tolist() == ["stranger"]


@pytest.mark.parametrize("ending", ["trec", "csv"])
def test_a_document_that_is_twice_in_its_query_has_its_score_in_both_rows(
    tmp_path: Path, ending: str
) -> None:
    ids = np.array(["2", "1", "2", "1", "red shoes"])
    judgments = replace(judged((3, 2)), document_ids=ids)
    of_ids = {"q0": {"2": 7.0, "1": 5.0}, "q1": {"1": 4.0, "red shoes": 1.0}}
    file = tmp_path / f"scores.{ending}"
    if ending == "csv":
        lines = ["query_id,document_id,score\n"]
        form = "{},{},{}\n"
    else:
        lines = []
        form = "{}\tQ0\t{}\t1\t{}\tx\n"
    for query, documents in of_ids.items():
        for document, score in documents.items():
            lines.append(form.format(query, document, score))
    file.write_text("".join(lines))
    matched = read_score_file(file).match(judgments, None, "test")
    assert matched.scores.tolist() == [7.0, 5.0, 7.0, 4.0, 1.0]
    assert matched.unjudged is None
    (note,) = matched.notes
    assert re.search(naming("1 rows", "test", "'2'", "query 'q0'"), note)


def test_a_run_by_row_numbers_is_matched_by_them_although_some_are_ids_too(
    tmp_path: Path,
) -> None:
    ids = np.array(["2", "1", "2", "1", "2"])
    judgments = replace(judged((3, 2)), document_ids=ids)
    scores = np.arange(5.0)
    path = write_run(tmp_path / "run.trec", judgments, scores)
    matched = read_score_file(path).match(judgments, None, "test")
    np.testing.assert_array_equal(matched.scores, scores)
    (note,) = matched.notes
    assert re.search(naming("row numbers", "'2'", "query 'q0'"), note)


def test_qrels_that_are_written_read_back_also_packed_and_with_queries_that_stand_apart(
    tmp_path: Path,
) -> None:
    judgments = judged((2, 2))
    lines = list(qrels_lines(judgments, document_names(judgments)[0]))
    (tmp_path / "qrels.gz").write_bytes(
        gzip.compress("".join(lines[i] for i in (0, 2, 1, 3)).encode())
    )
    read = read_qrels(tmp_path / "qrels.gz")
    for name in ("labels", "query_start", "query_ids", "document_ids"):
        np.testing.assert_array_equal(getattr(read, name), getattr(judgments, name))


def test_ranks_are_those_that_trec_eval_gives_tied_documents() -> None:
    judgments = Judgments(
        labels=[0, 1, 2],  # type: ignore[arg-type]
        query_start=[0, 3],  # type: ignore[arg-type]
        document_ids=["b", "é", "a"],  # type: ignore[arg-type]
    )
    lines = trec_run_lines(
        judgments, np.array([1.0, 1.0, 2.0]), document_names(judgments)[0], "x"
    )
    assert [line.split()[2:4] for line in lines] == [["a", "1"], ["é", "2"], ["b", "3"]]


def test_ranklibs_score_file_is_matched_by_query_and_counts_a_query_that_stands_apart_anew(
    tmp_path: Path,
) -> None:
    (tmp_path / "scores").write_text(
        "red shoes\t0\t4.5\nq0\t0\t1\nred shoes\t0\t2\nred shoes\t1\t3\n"
    )
    judgments = Judgments(
        labels=[0, 0, 0, 0],  # type: ignore[arg-type]
        query_start=[0, 1, 4],  # type: ignore[arg-type]
        query_ids=["q0", "red shoes"],  # type: ignore[arg-type]
    )
    matched = read_score_file(tmp_path / "scores").match(judgments, None, "test")
    assert matched.scores.tolist() == [1, 4.5, 2, 3]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_scores_in_a_table_join_by_query_and_document_whatever_their_order(
    tmp_path: Path, ending: str
) -> None:
    judgments = replace(judged(), query_ids=np.array(["red shoes", "b", "c"]))
    scores = np.random.default_rng(0).normal(size=8)
    rows = {
        "query": judgments.query_ids[judgments.query_of_document],
        "docid": judgments.document_ids,
    }
    frame = pd.DataFrame({**rows, "score": scores, "shop": "x"}).sample(
        frac=1, random_state=0
    )
    others = frame.assign(query="of another split")
    write_frame(pd.concat([others, frame]), tmp_path / f"scores.{ending}")
    matched = read_score_file(tmp_path / f"scores.{ending}").match(
        judgments, None, "test"
    )
    np.testing.assert_array_equal(matched.scores, scores)
    (note,) = matched.notes
    assert re.search(naming("8 of 16", "test", "ignored"), note)
    write_frame(
        frame.assign(score=frame.score.where(np.arange(8) != 1)),
        tmp_path / f"scores.{ending}",
    )
    with pytest.raises(DataError, match=naming("row 2", "''", "below all other")):
        read_score_file(tmp_path / f"scores.{ending}")


def test_ids_that_a_merge_in_pandas_made_floats_are_whole_numbers(
    tmp_path: Path,
) -> None:
    ids = {"query_id": np.repeat([1000, 1001], 2), "document_id": np.arange(5000, 5004)}
    frame = pd.DataFrame(ids).astype(np.float64)
    data = RankingDataset.from_frame(frame.assign(label=0, a=[1, 2, 3, 4]))
    write_frame(frame.assign(score=data.features[:, 0]), tmp_path / "scores.parquet")
    read = read_score_file(tmp_path / "scores.parquet")
    matched = read.match(data, None, "test")
    assert matched.scores.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("content", "names", "parts"),
    [
        ("query_id,document_id\n1,a\n", True, ["", "no column 'score'"]),
        ("query_id,score\n1,2\n", True, ["", "'document_id' or 'docid'"]),
        ("qid,docid,score\nq0,a,high\n", True, [": row 1", "'high'"]),
        (
            "qid,docid,score\nq0,a,1\nq0,b,\n",
            True,
            [": row 2", "''", "below all other"],
        ),
        (
            "qid,docid,score\nq0,a,1\nq0,a,2\n",
            True,
            [": row 2", "'a'", "query 'q0'", "Keep one"],
        ),
        (
            "qid,docid,score\nq1,stranger,1\n",
            True,
            ["", "8 of 8", "of query 'q0'", "'stranger'"],
        ),
        (
            "qid,docid,score\nq0,a,1\n",
            False,
            ["", "'1' of query 'q0'", "data.document"],
        ),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused(
    tmp_path: Path, content: str, names: bool, parts: list[str]
) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(DataError, match=naming(f"{file}{parts[0]}", *parts[1:])):
        read_score_file(file).match(judged(names=names), None, "test")


def matched(path: Path) -> object:
    return read_score_file(path).match(judged(), None, "test")


def three(path: Path) -> object:
    return read_scores(path, 3)


@pytest.mark.parametrize(
    ("read", "content", "parts"),
    [
        (
            read_trec_run,
            "1 Q0 a 1 0.5\n",
            [":1:", "'1 Q0 a 1 0.5'", "5 columns", RUN_LINE],
        ),
        (
            read_trec_run,
            "1 Q0 a 1 0.5 x\n\n1 Q0 b 2 high x\n",
            [":3:", "'high'", "not a number", RUN_LINE],
        ),
        (
            read_trec_run,
            "1 Q0 a 1 0.5 x\n1 Q0 a 2 0.4 x\n",
            [":2:", "'a'", "query '1'", "Keep one"],
        ),
        (read_qrels, "1 0 a\n", [":1:", "'1 0 a'", "3 columns", QRELS_LINE]),
        (
            read_qrels,
            "1 0 a 1\n1 0 b -2\n",
            [":2:", "'-2'", "0 or more", "remove the lines"],
        ),
        (matched, "0.5\n1\n", [":", "2 scores", "test has 8 documents", "one score"]),
        (
            matched,
            "q0\t0\t1\n",
            [":", "1 scores", "query 'q0'", "3 documents in test", "-rank FILE"],
        ),
        (
            matched,
            "query score\n1 2\n",
            [":1:", "'query score'", "-score", RUN_LINE, "a header"],
        ),
        (
            matched,
            "7 Q0 stranger 1 0.5 x\n",
            ["'stranger'", "query '7'", "'d", "query 'q0'", "qrels"],
        ),
        (matched, "q 0 1\nq 2 1\n", [":2:", "'q 2 1'", "RankLib", "in order"]),
        (three, "1\n2\nNaN\n", [":3:", "'NaN'", "not a number"]),
        (three, "1\nq1 0 0.5\n3\n", [":2:", "'q1 0 0.5'", "3 columns", "one score"]),
        (three, "1\n2\n", [":", "2 scores", "3 documents", "one score"]),
    ],
)
def test_a_line_that_does_not_belong_into_its_file_is_named(
    tmp_path: Path, read: Callable[[Path], object], content: str, parts: list[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    place = parts[0] if parts[0].startswith(":") else ""
    with pytest.raises(
        DataError, match=naming(f"{file}{place}", *parts[bool(place) :])
    ):
        read(file)


@given(
    st.lists(st.floats(allow_nan=False), min_size=1),
    st.sampled_from(["\n", "\r\n", " \n"]),
)
def test_scores_printed_in_full_read_back_as_they_were(
    scores: list[float], end: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        text = "".join(f"{score!r}{end}" for score in scores)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        np.testing.assert_array_equal(read_scores("-", len(scores)), scores)
