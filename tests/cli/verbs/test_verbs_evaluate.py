"""The verbs evaluate and conventions, on the score file of any system."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from omegaconf import OmegaConf

from ltrbench.cli import main
from ltrbench.data import read_letor
from ltrbench.metrics import PRESETS, evaluate, preset

SCORES = (0.1, 0.2, 0.9, 0.3, 0.5, 0.5, 1.0)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Queries a, b and c of 4, 2 and 1 documents, of which b has no relevant one; and their scores."""
    labels = [(3, "a"), (0, "a"), (1, "a"), (2, "a"), (0, "b"), (0, "b"), (1, "c")]
    data, scores = tmp_path / "data.txt", tmp_path / "scores.txt"
    data.write_text("".join(f"{label} qid:{query} 1:0.5\n" for label, query in labels))
    scores.write_text("".join(f"{score!r}\n" for score in SCORES))
    return [str(data), str(scores)]


def test_the_json_of_evaluate_holds_what_evaluate_computes(
    files: list[str], printed: Callable[..., str]
) -> None:
    record = json.loads(
        printed("evaluate", *files, "--metrics", "ndcg@2,map", "--json")
    )
    expected = evaluate(read_letor(files[0]), np.array(SCORES), ["ndcg@2", "map"])
    assert record == {
        "convention": "default",
        "queries": 3,
        "share_without_relevant": expected.share_without_relevant,
        "skipped": {"ndcg@2": 1, "map": 1},
        "metrics": dict(expected.means),
    }


def test_a_convention_is_chosen_by_name_and_varied_by_setting(
    files: list[str], printed: Callable[..., str]
) -> None:
    def mean(*words: str) -> Any:
        return json.loads(
            printed("evaluate", *files, "--metrics", "ndcg@2", "--json", *words)
        )

    dataset, scores = read_letor(files[0]), np.array(SCORES)
    for name in ("lightgbm", "catboost"):
        expected = evaluate(dataset, scores, ["ndcg@2"], preset(name)).means["ndcg@2"]
        assert mean("--convention", name)["metrics"]["ndcg@2"] == expected
    varied = mean("--set", "no_relevant=0")
    assert varied["convention"] == "default with no_relevant=0"
    assert varied["metrics"]["ndcg@2"] == pytest.approx(
        mean()["metrics"]["ndcg@2"] * 2 / 3, rel=1e-15
    )


@pytest.mark.parametrize("name", ["default", "lightgbm", "catboost", "sklearn"])
def test_ranks_in_place_of_scores_are_said_to_be_upside_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data, ranks = tmp_path / "data.txt", tmp_path / "ranks.txt"
    data.write_text("".join(f"{label} qid:1 1:0.5\n" for label in (2, 1, 0)))
    for lines, is_reversed in (("1\n2\n3\n", True), ("3\n2\n1\n", False)):
        ranks.write_text(lines)
        words = ["--metrics", "ndcg", "--convention", name]
        assert main(["evaluate", str(data), str(ranks), *words]) == 0
        said = capsys.readouterr().err
        found = re.search(naming("ranks.txt", "1.0000 in the reverse", "negate"), said)
        assert bool(found) == is_reversed


def test_per_query_writes_a_row_a_query_with_an_empty_cell_where_it_is_skipped(
    files: list[str], printed: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "queries.csv"
    printed("evaluate", *files, "--metrics", "ndcg@2,mrr", "--per-query", str(path))
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["query", "documents", "ndcg@2", "mrr"]
    assert [row[:2] for row in rows] == [["a", "4"], ["b", "2"], ["c", "1"]]
    assert rows[1][2:] == ["", ""]
    values = evaluate(read_letor(files[0]), np.array(SCORES), ["ndcg@2"]).per_query[
        "ndcg@2"
    ]
    assert [float(rows[0][2]), float(rows[2][2])] == [values[0], values[2]]


def test_an_output_that_is_the_data_is_refused_and_the_data_stay(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(files[0]).read_bytes()
    assert main(["evaluate", *files, "--per-query", files[0]]) == 2
    assert re.search(naming("--per-query", files[0]), capsys.readouterr().err)
    assert Path(files[0]).read_bytes() == before


def test_inspect_keeps_a_yaml_that_was_edited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.csv"
    rows = [f"{row // 4},{row % 3},{row * row}\n" for row in range(80)]
    data.write_text("query_id,label,bm25\n" + "".join(rows))
    path = tmp_path / "shop.yaml"
    words = ["inspect", str(data), "--yaml", str(path)]
    assert [main(words), main(words)] == [0, 0]
    edited = f"{path.read_text()}# edited\n"
    path.write_text(edited)
    assert main(words) == 2
    assert re.search(naming("--yaml", path), capsys.readouterr().err)
    assert path.read_text() == edited


def test_inspect_writes_a_yaml_of_letor_text_whose_features_start_from_0(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    data = tmp_path / "train ${x}.txt"
    rows = [f"{row % 3} qid:{row // 4} 0:{row * row} 1:{-row}\n" for row in range(80)]
    data.write_text("".join(rows))
    path = tmp_path / "shop.yaml"
    printed("inspect", str(data), "--yaml", str(path), "--read", "absent=nan")
    settings = OmegaConf.load(path)
    assert settings.train == str(data)
    assert settings.first_index == 0
    assert np.isnan(settings.absent)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--convention", "lightgmb"], ("'lightgmb'", "'lightgbm'")),
        (["--set", "tie=worst"], ("'tie'", "'ties'")),
        (["--set", "worst"], ("--set worst", "--set key=value")),
        (
            ["--set", "ties=worst", "--set", "ties=best"],
            ("--set ties", "'worst'", "'best'"),
        ),
        (["--metrics", "ndgc@3"], ("'ndgc@3'", "'ndcg'")),
        (["--convention", "lightgbm", "--metrics", "mrr"], ("lightgbm", "mrr")),
        (["--read", "sort=true"], ("data.txt", "'sort'")),
        (
            ["--per-query", "/nowhere/queries.csv"],
            ("/nowhere/queries.csv", "cannot be written"),
        ),
        (["--mtrics", "map"], ("No such option", "--mtrics")),
    ],
)
def test_a_users_mistake_is_one_line(
    files: list[str],
    words: list[str],
    parts: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", *files, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert re.search(naming(*parts), err)


def test_conventions_is_a_row_a_preset_and_leaves_undefined_what_one_does_not_define(
    files: list[str], printed: Callable[..., str]
) -> None:
    record = json.loads(
        printed("conventions", *files, "--metrics", "ndcg@2,map,mrr", "--json")
    )
    assert record["share_without_relevant"] == 1 / 3
    assert [row["convention"] for row in record["rows"]] == list(PRESETS)
    rows = {row["convention"]: row for row in record["rows"]}
    for row in record["rows"]:
        assert list(row["metrics"]) == ["ndcg@2", "map", "mrr"]
        nulls = {name for name, value in row["metrics"].items() if value is None}
        assert nulls == set(row["undefined"])
    assert re.search(naming("lightgbm", "mrr"), rows["lightgbm"]["undefined"]["mrr"])
    assert re.search(
        naming("xgboost", "labels 0 and 1"), rows["xgboost"]["undefined"]["map"]
    )
    skipped, zero, one = (
        rows[name]["metrics"]["ndcg@2"] for name in ("default", "xgboost-", "lightgbm")
    )
    assert zero == pytest.approx(
        (1 - 1 / 3) * skipped, rel=1e-6
    )  # xgboost's scores are float32
    assert one == pytest.approx((1 - 1 / 3) * skipped + 1 / 3, rel=1e-15)
