"""The verb ship: a folder that appears whole, a refusal that leaves no model, and checks of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_targets
import lightgbm as lgb
import numpy as np
import pytest
from shop_log import shop_log

import ltrbench
from ltrbench.cli import main
from ltrbench.data.sources import TableFiles
from ltrbench.data.synthetic import Synthetic
from ltrbench.experiment import Experiment, run
from ltrbench.rankers import Ranker
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs.record import RESULT_FILE, Run
from ltrbench.shipping import targets
from ltrbench.shipping.shipment import (
    CERTIFICATE_FILE,
    CHECK_FILE,
    README_FILE,
    UPLOAD_FILE,
    file_digest,
)

WRITTEN = {"model.json", "check.json", UPLOAD_FILE, README_FILE, CHECK_FILE}

Ship = Callable[..., tuple[int, str]]


def finished(folder: Path, ranker: Ranker, model: str) -> Run:
    source = Synthetic(name="synthetic", num_queries=40)
    return run(
        Experiment(model=model, ranker=ranker, source=source, importance=None), folder
    )


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(
        tmp_path_factory.mktemp("native"), NativeRanker(num_trees=5), "native"
    ).path


@pytest.fixture
def ship(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Ship:
    """Runs the verb with the targets of tests; returns the exit code and everything that was printed."""
    paths = [*targets.__path__, *fake_targets.__path__]
    monkeypatch.setattr(targets, "__path__", paths)
    monkeypatch.chdir(tmp_path)

    def ship(*words: object) -> tuple[int, str]:
        code = main(["ship", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return ship


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_a_run_is_shipped_with_a_certificate_of_every_file(
    ship: Ship, native: Path, tmp_path: Path
) -> None:
    code, text = ship(
        native, "--to", "faithful", "--output", "shipped", "--set", "offset=4"
    )
    assert code == 0, text
    folder = tmp_path / "shipped"
    assert names_in(folder) == {*WRITTEN, CERTIFICATE_FILE}
    certificate = read(folder, CERTIFICATE_FILE)
    assert (certificate["status"], certificate["offset"], certificate["model"]) == (
        "certified",
        4,
        "native",
    )
    assert certificate["verified_by"]["evaluator"] == "simulator of Faithful"
    assert certificate["files"] == {
        name: file_digest((folder / name).read_bytes()) for name in certificate["files"]
    }
    assert set(certificate["files"]) == WRITTEN
    assert (
        certificate["data"]["fingerprint"]
        == read(native, RESULT_FILE)["data"]["test"]["fingerprint"]
    )
    assert certificate["comparison"]["metric"]["loss"] == 0
    readme = (folder / README_FILE).read_text()
    assert all(
        part in readme
        for part in ("curl -T check.json", "A note on rows.", "curl -X DELETE")
    )


def test_a_refusal_leaves_only_the_certificate(
    ship: Ship, native: Path, tmp_path: Path
) -> None:
    words = (native, "--to", "faithful", "--output", "shipped")
    code, text = ship(*words, "--set", "fault=flip")
    assert code == 1
    assert "threshold" in text
    assert names_in(tmp_path / "shipped") == {CERTIFICATE_FILE}
    certificate = read(tmp_path / "shipped", CERTIFICATE_FILE)
    assert (certificate["status"], certificate["files"]) == ("refused", {})
    assert names_in(tmp_path) == {"shipped"}
    # The certificate of a refused model makes way for the next attempt.
    assert ship(*words)[0] == 0
    assert names_in(tmp_path / "shipped") == {*WRITTEN, CERTIFICATE_FILE}


@pytest.mark.slow
def test_columns_json_of_a_shipped_model_has_the_codes_of_its_categories(
    ship: Ship, tmp_path: Path
) -> None:
    log = shop_log(num_queries=60, num_brands=50)[
        ["query_id", "label", "text_match", "brand"]
    ]
    log.to_parquet(tmp_path / "log.parquet")
    source = TableFiles(train="log.parquet", name="log", categorical=["brand"])
    experiment = Experiment(
        model="native", ranker=NativeRanker(num_trees=5), source=source, importance=None
    )
    path = run(experiment, tmp_path / "run").path
    code, text = ship(path, "--to", "solr", "--output", "shipped")
    assert (code, "solr" in text, "brand" in text) == (2, True, True), text
    assert ship(path, "--to", "lightgbm", "--output", "shipped")[0] == 0
    codes = read(tmp_path / "shipped", "columns.json")["categories"]["brand"]
    encoded = log.assign(brand=log.brand.map(codes.index))[
        ["text_match", "brand"]
    ].astype(np.float32)
    booster = lgb.Booster(model_file=tmp_path / "shipped" / "model.txt")
    np.testing.assert_array_equal(
        booster.predict(encoded, raw_score=True), ltrbench.load(path).predict(log)
    )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--to", "faithfull", "--output", "x"), ("faithfull", "'faithful'")),
        (
            ("--to", "faithful", "--output", "x", "--set", "offzet=1"),
            ("offzet", "'offset'"),
        ),
        (
            ("--to", "faithful", "--output", "x", "--set", "offset=much"),
            ("offset", "much"),
        ),
        (("--to", "faithful"), ("--output DIR",)),
        (
            ("--to", "absent_package", "--output", "x"),
            ("pip install 'ltrbench[evaluator]'",),
        ),
    ],
)
def test_a_command_that_cannot_ship_is_refused_and_writes_nothing(
    ship: Ship,
    native: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    code, text = ship(native, *words)
    assert code == 2
    assert all(part in text for part in parts), text
    assert names_in(tmp_path) == set()


def test_best_ships_the_best_run_by_validation_and_says_why(
    ship: Ship, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    finished(runs / "few", NativeRanker(num_trees=1, num_leaves=2), "few")
    finished(runs / "many", NativeRanker(num_trees=8), "many")
    code, text = ship(runs, "--best", "--to", "faithful", "--output", "shipped")
    assert code == 0, text
    chosen = read(tmp_path / "shipped", CERTIFICATE_FILE)["run"]
    assert (chosen["model"], Path(chosen["path"]).name) == ("many", "many")
    assert chosen["chosen"] in text
    assert "validation" in chosen["chosen"]


def test_other_answers_fail_and_are_named(
    ship: Ship, native: Path, tmp_path: Path
) -> None:
    assert ship(native, "--to", "faithful", "--output", "shipped")[0] == 0
    shipped = tmp_path / "shipped"
    rows = read(shipped, CHECK_FILE)["rows"]
    scores = {row["id"]: row["score"] for row in rows}
    documents = [name for name in scores if name.startswith("q1-")]
    best = max(documents, key=scores.__getitem__)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({**scores, best: min(scores.values()) - 1}))
    code, text = ship(shipped, "--check", answers)
    query = next(row["query"] for row in rows if row["id"] == best)
    assert code == 1
    assert all(part in text for part in ("different", best, f"Query {query}"))
    del scores[best]
    answers.write_text(json.dumps(scores))
    code, text = ship(shipped, "--check", answers)
    assert (code, best in text) == (1, True)
