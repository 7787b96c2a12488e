"""The verbs `explain` and `walkthrough`: the lambdas of one query as a tutorial prints them, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from messages import naming

from docs.walkthrough import walkthrough
from ltrbench.cli import main

LABELS = [0, 0, 0, 1, 1, 0, 1, 1, 0, 0]


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """RankLib's worked example behind another query."""
    lines = ["2 qid:7 1:1 # docid = A", "0 qid:7 1:2 # docid = B"]
    lines += [f"{label} qid:1830 1:{row}" for row, label in enumerate(LABELS)]
    path = tmp_path / "tutorial.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_worked_example_is_printed_as_the_tutorial_has_it(
    tutorial: Path, printed: Callable[..., str]
) -> None:
    text = printed("explain", tutorial, "--query", 1830, "--preset", "ranklib")
    assert re.search(
        naming("DCG = sum of G D = 1.466", "ideal DCG 2.562", "NDCG 0.572"), text
    )
    sums = [line.split() for line in text.partition("4. ")[2].splitlines()[3:]]
    lambdas_of_rows = {int(row): float(value) for _, row, _, value, _, _ in sums}
    expected = [
        -0.495,
        -0.206,
        -0.104,
        0.231,
        0.231,
        -0.033,
        0.240,
        0.247,
        -0.051,
        -0.061,
    ]
    assert [lambdas_of_rows[row] for row in range(1, 11)] == expected


def test_json_holds_rows_in_the_order_of_the_file_and_gradients_of_the_cost(
    tutorial: Path, tmp_path: Path, printed: Callable[..., str]
) -> None:
    scores = tmp_path / "scores.txt"
    scores.write_text("\n".join(map(str, [0.5, 1.5, *np.linspace(0, 1, 10)])) + "\n")
    record = json.loads(
        printed("explain", tutorial, "--query", 7, "--scores", scores, "--json")
    )
    assert [row["document"] for row in record["rows"]] == ["A", "B"]
    assert [row["rank"] for row in record["rows"]] == [1, 0]
    assert record["gradients"][0] < 0 < record["gradients"][1]
    assert np.sum(record["lambda_matrix"], axis=1) == pytest.approx(record["gradients"])


@pytest.mark.parametrize(
    "settings",
    [
        ["metric=err@3", "highest_grade=5", "ties=worst"],
        ["truncation=none", "pairs_per_document=3", "query_norm=pairs"],
    ],
    ids=str,
)
def test_the_engines_sums_are_those_of_the_matrix(
    tutorial: Path, settings: list[str], printed: Callable[..., str]
) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    record = json.loads(printed("explain", tutorial, "--query", 1830, *words, "--json"))
    assert record["gradients"] == pytest.approx(
        np.sum(record["lambda_matrix"], axis=1), rel=1e-9, abs=1e-12
    )
    assert (
        max(
            map(len, printed("explain", tutorial, "--query", 1830, *words).splitlines())
        )
        <= 100
    )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--query", "183"], ("query '183'", "'1830'")),
        (["--query", "7", "--set", "sigm=2"], ("--set", "'sigm'", "'sigma'")),
        (["--query", "7", "--set", "sigma=-1"], ("sigma is -1.0", "than 0")),
        (
            ["--query", "7", "--set", "truncation=1.5"],
            ("--set truncation=1.5", "integer"),
        ),
        (
            ["--query", "7", "--set", "normalize_query=never"],
            ("--set normalize_query=never", "boolean"),
        ),
    ],
)
def test_what_cannot_be_explained_is_refused(
    tutorial: Path,
    words: list[str],
    parts: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", str(tutorial), *words]) == 2
    assert re.search(naming(*parts), " ".join(capsys.readouterr().err.split()))


def test_the_walkthrough_prints_what_the_engine_computes(
    printed: Callable[..., str],
) -> None:
    assert printed("walkthrough") == f"{walkthrough()}\n", (
        "python docs/walkthrough.py writes it anew"
    )
