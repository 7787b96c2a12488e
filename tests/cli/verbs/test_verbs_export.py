"""The verb export: what it writes is what trec_eval and RankLib's tools read, and we read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from messages import naming
from run_cases import finished_run
from toy_runs import keys_of

from ltrbench.cli import main
from ltrbench.data import Judgments
from ltrbench.data.score_files import read_score_file
from ltrbench.data.sources import read_ids
from ltrbench.errors import DataError
from ltrbench.metrics import evaluate, preset
from ltrbench.runs.record import Run, ScoredSplit
from ltrbench.runs.writing import write_run

JUDGMENTS = Judgments(
    labels=np.array([0, 2, 1, 0, 0]),
    query_start=np.array([0, 3, 5]),
    query_ids=np.array(["q1", "q2"]),
    document_ids=np.array(["a", "b", "c", "a", "b"]),
)
SCORES = np.array([0.5, 1 / 3, 0.5, -1e-30, 7], dtype=np.float32)


def write(
    folder: Path, judgments: Judgments = JUDGMENTS, file_rows: list[int] | None = None
) -> Run:
    rows = None if file_rows is None else np.array(file_rows)
    scored = ScoredSplit(judgments, SCORES, keys_of(judgments), rows)
    data = {
        "name": "toy",
        "train": {"fingerprint": "a", "features": 1},
        "test": {"fingerprint": "b"},
    }
    result = replace(finished_run(folder, "native").result, data=data)
    return write_run(folder, result, scored={"test": scored, "valid": scored})


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Path]:
    """The file that `export` writes of the run in the current folder."""

    def run(kind: str, *options: str) -> Path:
        output = tmp_path / kind
        words = [
            "export",
            str(tmp_path),
            "--format",
            kind,
            "--output",
            str(output),
            *options,
        ]
        assert main(words) == 0
        return output

    return run


def test_trec_eval_reads_the_run_and_the_qrels_and_its_values_are_ours(
    tmp_path: Path, exported: Callable[..., Path]
) -> None:
    write(tmp_path)
    with exported("qrels").open() as qrels, exported("trec-run").open() as run:
        evaluator = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(qrels), {"ndcg_cut.10"}
        )
        values = evaluator.evaluate(pytrec_eval.parse_run(run))
    ours = evaluate(JUDGMENTS, SCORES, ["ndcg@10"], preset("trec_eval")).per_query[
        "ndcg@10"
    ]
    assert [values[query]["ndcg_cut_10"] for query in ("q1", "q2")] == pytest.approx(
        ours.tolist()
    )


@pytest.mark.parametrize("kind", ["trec-run", "scores"])
@pytest.mark.parametrize("document_ids", [JUDGMENTS.document_ids, None])
def test_scores_read_back_to_the_same_bits_also_where_queries_stand_apart_in_the_file(
    tmp_path: Path,
    exported: Callable[..., Path],
    kind: str,
    document_ids: np.ndarray | None,
) -> None:
    judgments, file_rows = (
        replace(JUDGMENTS, document_ids=document_ids),
        [0, 2, 4, 1, 3],
    )
    write(tmp_path, judgments, file_rows)
    read = read_score_file(exported(kind))
    np.testing.assert_array_equal(
        read.match(judgments, np.array(file_rows), "test").scores, SCORES
    )


def test_values_of_queries_are_those_of_ranklib_and_end_with_their_mean(
    tmp_path: Path, exported: Callable[..., Path]
) -> None:
    write(tmp_path)
    lines = [
        line.split("   ") for line in exported("ranklib-idv").read_text().splitlines()
    ]
    evaluation = evaluate(JUDGMENTS, SCORES, ["ndcg@10"], preset("ranklib"))
    first, second = evaluation.per_query["ndcg@10"].tolist()
    assert [(name, query, float(value)) for name, query, value in lines] == [
        ("NDCG@10", "q1", first),
        ("NDCG@10", "q2", second),
        ("NDCG@10", "all", evaluation.means["ndcg@10"]),
    ]


def test_a_file_of_a_run_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    record = tmp_path / "result.json"
    before = record.read_bytes()
    words = ["export", str(tmp_path), "--format", "scores", "--output", str(record)]
    assert main(words) == 2
    assert re.search(naming("--output", record), capsys.readouterr().err)
    assert record.read_bytes() == before


@pytest.mark.parametrize("name", ["score", "label", "query_id", "document_id"])
def test_a_kept_column_with_the_name_of_another_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    kept = {name: np.arange(5.0)}
    write(tmp_path, replace(JUDGMENTS, kept=kept))
    assert main(["export", str(tmp_path), "--format", "csv"]) == 2
    said = capsys.readouterr().err
    assert re.search(naming(str(tmp_path), f"'{name}'", "data.keep"), said)


def test_predict_refuses_a_kept_column_with_the_name_of_an_id(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("session,query_id,price\na,1,2.5\n")
    options: dict[str, Any] = {"query": "session", "feature_names": ["price"]}
    assert read_ids(path, **options, ignore=["query_id"])["query_id"] == "a"
    with pytest.raises(DataError, match=naming("'query_id'", "--read")):
        read_ids(path, **options, keep=["query_id"])
