"""Names with control characters, HTML and reserved characters, in every output format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import toy_runs

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.compare.publish import publish
from ltrbench.data import Judgments
from ltrbench.rankers.importance import Importances
from ltrbench.runs.record import LearningCurve, Run, read_run
from ltrbench.runs.writing import write_run
from ltrbench.tracking.mlflow.entities import (
    model_name,
    run_inputs,
    run_name,
    run_params,
    run_tags,
)

HOSTILE = "=a\x1b[31m\u202e\r\n<img src=x onerror=alert(1)>|\\|$x^$&lt;![p](http://x)_%"
"""Cursor movement, text direction, line breaks, HTML, the end of a cell, mathematics, an image, a formula."""
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Returns two runs in which every name is hostile."""
    folder = tmp_path_factory.mktemp("runs")
    judged = toy_runs.judgments(1)
    ids = [f"{HOSTILE}{number}" for number in range(judged.num_queries)]
    judged = Judgments(
        labels=judged.labels, query_start=judged.query_start, query_ids=np.array(ids)
    )
    written = []
    for number, model in enumerate((f"{HOSTILE} 1", f"{HOSTILE} 2")):
        run = toy_runs.write(
            folder / str(number),
            model,
            name=HOSTILE,
            judged=judged,
            settings={"early_stopping": {"metric": "ndcg@10"}, HOSTILE: HOSTILE},
            curve=LearningCurve([1, 2], {"valid/ndcg@10": [0.1, 0.2]}),
            notes=(HOSTILE,),
            unmatched=(HOSTILE,),
            overrides=(HOSTILE,),
            sweep=HOSTILE,
            machine={"cpu": HOSTILE, "cores": 2, "system": HOSTILE},
            versions={"python": HOSTILE},
        )
        sizes = {
            "features": 2,
            "documents": judged.num_documents,
            "queries": judged.num_queries,
        }
        data = {**run.result.data, "test": {**run.result.data["test"], **sizes}}
        data["train"] = {
            **data["train"],
            "features": 2,
            "feature_names": [HOSTILE, "b"],
        }
        names = (HOSTILE, "b")
        importances = Importances(
            names, {"gain": np.array([0.25 + number / 4, 0.75 - number / 4])}
        )
        scored = {"test": run.scored("test")}
        curve = run.learning_curve()
        write_run(
            run.path,
            replace(run.result, data=data),
            scored=scored,
            curve=curve,
            importances=importances,
        )
        written.append(read_run(run.path))
    return written


@pytest.fixture(scope="module")
def published(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    publish(compare(runs), folder)
    return folder


@pytest.mark.parametrize(
    "words", [["show"], ["show", "--json"], ["export", "--format", "ranklib-idv"]]
)
def test_a_verb_on_a_run_prints_no_control_character(
    runs: list[Run], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *options = words
    code = main([verb, str(runs[0].path), *options])
    printed = capsys.readouterr()
    assert verb == "export" or code == 0, printed.err
    assert not UNSEEN.search(printed.err)
    assert verb == "export" or not UNSEEN.search(printed.out)


def cells_of_markdown(line: str) -> list[str]:
    """Returns the cells as GitHub's parser splits them: a backslash escapes the next character."""
    return re.findall(r"((?:\\.|[^|\\])+)\|", line.strip().removeprefix("|"))


def test_markdown_has_no_html_no_image_and_tables_of_as_many_cells_as_columns(
    published: Path,
) -> None:
    for file in ("table.md", "importances.md"):
        text = (published / file).read_text()
        assert "<img" not in text
        assert "](http" not in text
        assert not UNSEEN.search(text)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            widths = {len(cells_of_markdown(line)) for line in table.splitlines()}
            assert len(widths) == 1, table


def test_latex_has_neither_open_commands_nor_lines_that_names_began(
    published: Path,
) -> None:
    text = (published / "table.tex").read_text()
    assert not UNSEEN.search(text)
    rows = [
        line
        for line in text.splitlines()
        if "img src" in line and not line.startswith("%")
    ]
    assert len(rows) == 2  # two models
    for row in rows:
        assert not re.search(r"(?<!\\)[$_%#<]", row)


def cells_of_csv(file: Path) -> Iterator[str]:
    for row in csv.reader(io.StringIO(file.read_text(), newline="")):
        yield from row


def test_no_cell_of_a_csv_table_holds_a_control_character(published: Path) -> None:
    for name in ("table.csv", "per_query.csv", "importances.csv"):
        for cell in cells_of_csv(published / name):
            assert not UNSEEN.search(cell)


def test_the_report_shows_names_as_text(published: Path) -> None:
    text = (published / "report.html").read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert not UNSEEN.search(text)
    assert r"=a\x1b[31m\u202e" in text


def test_mlflow_is_given_no_control_character(runs: list[Run]) -> None:
    run = runs[0]
    texts = [run_name(run.result), model_name(run.result), *run_tags(run, "").values()]
    texts += [
        text for param in run_params(run.result) for text in (param.key, param.value)
    ]
    texts += [
        text
        for item in run_inputs(run.result)
        for text in (item.dataset.name, item.dataset.digest)
    ]
    for text in texts:
        assert not UNSEEN.search(text)
    assert not re.search("[/:.%\"']", model_name(run.result))
