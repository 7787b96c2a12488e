"""The verb `auto`: from a table to a model, with everything that a careful person would have typed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml  # type: ignore[import-untyped]
from command_line import COMMAND, run
from forked import run_forked
from messages import naming
from paths import USER_BACKEND

import ltrbench
from ltrbench.cli.auto.steps import candidates
from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir, models

TARGET = ("--target", "elasticsearch")
ENGINE = (*TARGET, "--minutes", "0.25", "--missing", "non spécifié")


def clicks(num_queries: int = 240, noise: float = 0.3) -> pd.DataFrame:
    """Returns a table of eight products for each query, whose clicks two of its columns explain together."""
    rng = np.random.default_rng(0)
    num_rows = 8 * num_queries
    price, rating, age = rng.normal(size=(3, num_rows))
    is_clicked = price + rating + noise * rng.normal(size=num_rows) > 1
    return pd.DataFrame(
        {
            "session": np.repeat(np.arange(num_queries), 8),
            "product": np.tile(np.arange(8), num_queries),
            "day": np.repeat(
                pd.date_range("2026-01-01", periods=num_queries // 4), 32
            ).astype(str),
            "clicked": is_clicked.astype(int),
            "price": price,
            "rating": rating,
            "age": age,
            "kind": rng.choice(["shoe", "hat", "coat"], num_rows),
            "revenue": is_clicked * rng.uniform(5, 50, num_rows),
            "row_id": np.arange(num_rows),
        }
    )


def test_a_backend_is_tried_as_soon_as_its_yaml_is_in_conf_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(conf_dir(), conf)
    shutil.copy(USER_BACKEND / "conf/model/mean_feature.yaml", conf / "model")
    monkeypatch.setattr("ltrbench.folders.conf_dir", lambda: conf)
    monkeypatch.syspath_prepend(str(USER_BACKEND))
    rankers, unavailable = candidates()
    assert "mean_feature" in rankers
    assert not unavailable
    left_out = {"random", "single_feature"}
    for model in models():
        content = yaml.safe_load((conf / f"model/{model}.yaml").read_text())
        bases = [base for base in content["defaults"] if isinstance(base, str)]
        if {*models()}.intersection(bases):
            left_out.add(model)  # settings of another model
    assert {*models()}.difference(rankers) == left_out
    is_slow = [ranker.is_slow for ranker in rankers.values()]
    assert is_slow == sorted(is_slow)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished command."""
    folder = tmp_path_factory.mktemp("made")
    table = clicks()
    with_text = table.astype({"price": object})
    with_text.loc[5, "price"] = "non spécifié"
    with_text.to_csv(folder / "shop.csv", index=False)
    scores = table.rename(columns={"session": "query_id", "product": "document_id"})
    scores = scores.assign(score=scores.age)[["query_id", "document_id", "score"]]
    scores.to_csv(folder / "production.csv", index=False)
    run("auto", "shop.csv", *ENGINE, "--production", "production.csv", folder=folder)
    return folder


@pytest.mark.slow
def test_a_table_becomes_a_certified_model_without_columns_that_tell_the_label(
    made: Path,
) -> None:
    certificate = json.loads((made / "shop-auto/shipped/certificate.json").read_text())
    assert certificate["status"] == "certified"
    features = (made / "shop-auto/shipped/featureset.json").read_text()
    assert all(f'"{name}"' in features for name in ("price", "rating", "kind=hat"))
    assert "revenue" not in features
    data = (made / "shop-auto/conf/data/shop.yaml").read_text()
    assert 'ignore: ["revenue", "row_id"]' in data
    assert 'split_by: "day"' in data
    answer = (made / "shop-auto/answer.md").read_text()
    assert "is better than production (imported)" in answer.splitlines()[0]
    looks = (made / "shop-auto/sweep/looks.jsonl").read_text().splitlines()
    assert len(looks) == 1


KEEP_WORDS = """#!/bin/sh
printf '%s\\0' "$@" > "$CALLS/$(ls "$CALLS" | wc -l)"
"""
"""A `python` that writes the words of each call to a file of its own, and runs nothing."""


def run_script(script: str, folder: Path) -> int:
    """Runs a script as `sh SCRIPT again`, with its commands in forked processes; returns their number."""
    python = folder / "bin/python"
    calls = folder / "calls"
    python.parent.mkdir()
    calls.mkdir()
    python.write_text(KEEP_WORDS)
    python.chmod(0o755)
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "CALLS": str(calls)}
    subprocess.run(["sh", script, "again"], cwd=folder, check=True, env=environment)
    numbers = sorted(int(file.name) for file in calls.iterdir())
    for number in numbers:
        words = (calls / str(number)).read_text().split("\0")[:-1]
        assert words[:2] == ["-m", "ltrbench"]
        run(*words[2:], folder=folder)
    return len(numbers)


@pytest.mark.slow
def test_the_commands_give_the_same_model(made: Path) -> None:
    assert run_script("shop-auto/commands.sh", made) == 5
    for file in (made / "shop-auto/shipped").iterdir():
        if file.name != "certificate.json":  # has the time
            same = (made / "again/shipped" / file.name).read_bytes()
            assert file.read_bytes().replace(b"shop-auto", b"again") == same, file


@pytest.mark.slow
def test_the_same_command_shows_the_answer_and_another_one_is_refused(
    made: Path,
) -> None:
    words = ("auto", "shop.csv", "--production", "production.csv")
    again = run(*words, *ENGINE, folder=made)
    assert again.stdout == (made / "shop-auto/answer.md").read_text()
    other = run(*words, *ENGINE, "--seed", "1", folder=made, check=2)
    assert "seed" in other.stderr
    assert "--output" in other.stderr
    clicks(noise=0.4).to_csv(made / "shop.csv", index=False)
    changed = run(*words, *ENGINE, folder=made, check=2)
    assert "content of table" in changed.stderr


@pytest.mark.slow
def test_an_interrupted_search_is_finished_with_what_it_has(tmp_path: Path) -> None:
    clicks(120, noise=0).to_csv(tmp_path / "shop.csv", index=False)
    words = ("auto", "shop.csv", *TARGET, "--minutes", "30")
    with subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "searching" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 130, said
    assert "--finish" in said
    other = run(*words, "--label", "age", folder=tmp_path, check=2)
    assert "different columns" in other.stderr
    done = run(*words, "--finish", folder=tmp_path)
    trials = json.loads((tmp_path / "shop-auto/auto.json").read_text())["trials"]
    assert "is better than single_feature" in done.stdout
    assert trials >= 1
    script = (tmp_path / "shop-auto/commands.sh").read_text()
    assert (f"search.trials={trials} " in script) == (trials > 1)


@pytest.mark.slow
def test_files_of_validation_and_test_are_the_splits(tmp_path: Path) -> None:
    table = clicks()
    parts = {"train": table.session < 120, "a valid": table.session.between(120, 179)}
    parts["test"] = table.session >= 180
    parts["it's, é (1)"] = parts.pop("train")
    for name, rows in parts.items():
        table[rows].to_csv(tmp_path / f"{name}.csv", index=False)
    words = ("auto", "it's, é (1).csv", "--valid", "a valid.csv", "--test", "test.csv")
    refused = run(*words, "--time", "day", folder=tmp_path, check=2)
    assert "--time day" in refused.stderr
    target = ("--target", "vespa", "--set", "fast_forest=true")
    done = run(*words, *target, "--minutes", "0.1", folder=tmp_path)
    said = " ".join(done.stdout.split())
    assert "valid: a valid.csv; test: test.csv" in said
    results = tmp_path / "it's, é (1)-auto"
    report = shlex.quote("it's, é (1)-auto/comparison/report.html")
    assert report in (results / "answer.md").read_text()
    run_of_test = json.loads(next(results.glob("sweep/*/result.json")).read_text())
    assert run_of_test["data"]["test"]["queries"] == 60
    shipped = json.loads((results / "shipped/certificate.json").read_text())
    assert "fast_forest" in json.dumps(shipped)
    run_script(str(results / "commands.sh"), tmp_path)
    for name in ("model", "shipped"):
        assert (tmp_path / "again" / name).exists()


IN_PYTHON = """
import ltrbench, pandas as pd
table = pd.read_parquet("noise.parquet")
result = ltrbench.auto(table, minutes=0.1, output="made")
print(result.answer.splitlines()[0])
print(result.comparison.best)
try:
    result.model
except ltrbench.LtrbenchError as error:
    print("refused:", error)
result = ltrbench.auto(table, minutes=0.1, output="made", anyway=True)
print(result.model.predict(table).shape)
"""


@pytest.mark.slow
def test_nothing_is_made_of_noise_unless_it_is_asked_for(tmp_path: Path) -> None:
    clicks(60, noise=1000.0).to_parquet(tmp_path / "noise.parquet")
    # In a process of its own, because Hydra closes the log handlers of pytest.
    done = run_forked(IN_PYTHON, [""], tmp_path, os.environ)
    assert done.returncode == 0, done.stderr
    headline, best, refusal, shape = done.stdout.splitlines()
    assert "is not shown to be better" in headline
    assert best
    assert refusal.startswith("refused: ")
    assert shape == "(480,)"


def test_a_data_frame_with_other_types_is_another_table(tmp_path: Path) -> None:
    table = clicks(4)
    as_text = table["product"].astype(str)
    tables = [
        table,
        table.copy(),
        table.astype({"product": "category"}),
        table.assign(product=as_text),
        table.assign(product=as_text.astype("category")),
    ]
    for each in tables:
        # The setting is refused after the table is written.
        with pytest.raises(ConfigError, match=naming("highest")):
            ltrbench.auto(each, metric="highest", output=tmp_path / "made")
    assert len([*tmp_path.iterdir()]) == len(tables) - 1


def refused(table: pd.DataFrame, folder: Path, *words: str) -> str:
    table.to_csv(folder / "t.csv", index=False)
    done = run("auto", "t.csv", *words, folder=folder, check=2)
    error = [line for line in done.stderr.splitlines() if "error: " in line]
    assert len(error) == 1
    assert not list(folder.glob("t-auto/sweep"))
    return error[0]


def test_data_from_which_nothing_can_be_learnt_are_refused_in_one_sentence(
    tmp_path: Path,
) -> None:
    table = clicks(40)
    assert "nothing to learn" in refused(table.assign(clicked=1), tmp_path)
    assert "--query" in refused(table.assign(session=1), tmp_path)
    assert "nothing to learn" in refused(table.head(3).assign(clicked=0), tmp_path)
    texts = table.assign(clicked=np.where(table.clicked == 1, "yes", "no"))
    assert "t.csv:2: column 'clicked'" in refused(texts, tmp_path)
    assert "--label" in refused(table.drop(columns="clicked"), tmp_path)
    assert "'sesion'" in refused(table, tmp_path, "--query", "sesion")
    days = table.assign(day="28/03/2026")
    no_iso = refused(days, tmp_path, "--time", "day")
    assert "t.csv:2: column 'day' is '28/03/2026'" in no_iso
    assert "2026-01-31" in no_iso
    halves = table.assign(clicked=table.clicked / 2)
    assert "column 'clicked' is 0.5" in refused(halves, tmp_path)
    no_time = table.assign(day=table.day.where(table.index != 3))
    assert "t.csv:5: column 'day'" in refused(no_time, tmp_path)
    scores = pd.DataFrame({"query_id": ["q"], "document_id": ["d"], "score": [1.0]})
    scores.to_csv(tmp_path / "production.csv", index=False)
    other_ids = refused(table, tmp_path, "--production", "production.csv")
    assert "production.csv: " in other_ids
    assert "'d' of query 'q'" in other_ids
    few = table[["session", "clicked", "row_id"]]
    assert "--keep-feature" in refused(few, tmp_path)
    assert "elastic" in refused(table, tmp_path, "--target", "elastic")
