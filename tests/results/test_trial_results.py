"""Trials of a search on disk: trials.csv of the final run, and the run folders of trials among other runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from search_records import search_record

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ResultError
from ltrbench.experiment.run import Experiment, run
from ltrbench.rankers.random import RandomRanker
from ltrbench.results import (
    RESULT_FILE,
    TRIALS_FILE,
    Run,
    TrialRow,
    find_runs,
    find_runs_and_trials,
    read_run,
    write_run,
)
from ltrbench.results.run import TRIAL_COLUMNS

SEARCH = search_record()
TRIALS = (
    TrialRow(0, "complete", 0.5, 30, 1.5, -0.25, 0.125, {"l2": "0.0", 'a "b",\nc': "x,\r\ny"}),
    TrialRow(1, "complete", 1 / 3, 12, 0.5, 0.0, 0.0, {"l2": "0.5", 'a "b",\nc': ""}),
    TrialRow(2, "failed", float("nan"), 0, 0.0, float("nan"), float("nan"), {"l2": "é", 'a "b",\nc': "|"}),
)


def experiment(**settings: Any) -> Experiment:
    source = Synthetic(name="synthetic", num_queries=20)
    return Experiment(model="random", ranker=RandomRanker(), source=source, importance=None, **settings)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep with a final run and two trials."""
    run(experiment(search=SEARCH, trials=TRIALS), tmp_path / "sweep/0")
    for number in (0, 1):
        run(experiment(is_trial=True), tmp_path / f"sweep/trials/{number}")
    return tmp_path / "sweep"


def test_trials_are_read_as_they_were_written_and_written_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(experiment(search=SEARCH, trials=TRIALS), tmp_path / name)
    assert (tmp_path / "a" / TRIALS_FILE).read_bytes() == (tmp_path / "b" / TRIALS_FILE).read_bytes()
    header, *_ = (tmp_path / "a" / TRIALS_FILE).read_text().splitlines()
    assert header.replace('"', "").startswith(",".join([*TRIAL_COLUMNS, "l2"]))
    done = read_run(tmp_path / "a")
    assert done.result.search == SEARCH
    assert [replace(row, value=0, low=0, high=0) for row in done.trials()] == [
        replace(row, value=0, low=0, high=0) for row in TRIALS
    ]
    for name in ("value", "low", "high"):
        np.testing.assert_array_equal(
            [getattr(row, name) for row in done.trials()], [getattr(row, name) for row in TRIALS]
        )


def test_a_setting_that_a_trial_lacks_is_an_empty_text(tmp_path: Path) -> None:
    rows = (replace(TRIALS[0], settings={"a": "1"}), replace(TRIALS[1], settings={"b": "2"}))
    result = read_run(run(experiment(), tmp_path / "run").path).result
    written = write_run(tmp_path / "other", result, trials=rows)
    assert [row.settings for row in written.trials()] == [{"a": "1", "b": ""}, {"a": "", "b": "2"}]


def test_a_run_without_a_search_has_no_trials(tmp_path: Path) -> None:
    done = run(experiment(), tmp_path)
    assert not (tmp_path / TRIALS_FILE).exists()
    assert done.trials() == []


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("2.5,complete,0.5,3,1,0,0", ("trial", "2.5", "integer")),
        ("1,complete,0.5,3,1,0,0", ("trial", "1", "integer")),
        ("-1,complete,0.5,3,1,0,0", ("trial", "-1", "integer")),
        (",complete,0.5,3,1,0,0", ("trial", "integer")),
        ("2,running,0.5,3,1,0,0", ("state", "running", "complete", "partial", "pruned", "failed")),
        ("2,complete,,3,1,0,0", ("value", "failed")),
        ("2,failed,0.5,3,1,,", ("value", "0.5", "failed")),
        ("2,complete,best,3,1,0,0", ("value", "best", "number")),
        ("2,complete,0.5,3.5,1,0,0", ("iterations", "3.5")),
        ("2,complete,0.5,-3,1,0,0", ("iterations", "-3")),
        ("2,complete,0.5,3,-1,0,0", ("seconds", "-1")),
        ("2,complete,0.5,3,,0,0", ("seconds",)),
        ("2,complete,0.5,3,1,0.5,0.25", ("low", "0.5", "high")),
        ("2,complete,0.5,3,1,0.5,", ("low", "0.5", "high")),
        ("2,complete,0.5,3,1,0", ("6 cells", "7")),
    ],
)
def test_a_damaged_row_is_refused_with_its_line(tmp_path: Path, row: str, parts: tuple[str, ...]) -> None:
    done = run(experiment(), tmp_path)
    lines = [",".join(TRIAL_COLUMNS), "1,complete,0.5,3,1,0,0", row]
    (tmp_path / TRIALS_FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(ResultError, match=naming(f"{TRIALS_FILE}:3", *parts, "Run it again")):
        done.trials()


def test_a_file_without_the_chosen_trial_is_refused(sweep: Path) -> None:
    path = sweep / "0" / RESULT_FILE
    record = json.loads(path.read_text())
    record["search"]["chosen"] = 7
    path.write_text(json.dumps(record))
    with pytest.raises(ResultError, match=naming(TRIALS_FILE, "trial 7", "search.chosen", "Run it again")):
        read_run(sweep / "0").trials()


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Changes the record of a run."""
    path = folder / RESULT_FILE
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda record: record["metrics"].update({"test/ndcg@10": 0.5}), ("trial", "test/ndcg@10", "valid")),
        (lambda record: record.update(metrics={}), ("incomplete", "metrics", "valid")),
        (lambda record: record["data"].pop("valid"), ("incomplete", "data.valid.fingerprint")),
        (lambda record: record.update(trial="yes"), ("trial", "yes")),
        (lambda record: record.update(trial=False), ("incomplete", "metrics", "test")),
    ],
)
def test_a_damaged_trial_is_refused(
    sweep: Path, change: Callable[[dict[str, Any]], object], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ResultError, match=naming(RESULT_FILE, *parts, "Run it again")):
        read_run(changed(sweep / "trials/0", change))


@pytest.mark.parametrize("name", SEARCH)
def test_a_record_of_a_search_without_one_of_its_fields_is_refused(sweep: Path, name: str) -> None:
    with pytest.raises(ResultError, match=naming(RESULT_FILE, f"search.{name}", "Run it again")):
        read_run(changed(sweep / "0", lambda record: record["search"].pop(name)))


def test_a_failed_trial_may_lack_all_metrics(sweep: Path) -> None:
    folder = changed(sweep / "trials/0", lambda record: record.update(status="failed", metrics={}))
    assert read_run(folder).result.trial


def paths(runs: list[Run], sweep: Path) -> list[str]:
    return [str(each.path.relative_to(sweep)) for each in runs]


def test_trials_are_found_only_where_they_are_wanted(sweep: Path) -> None:
    assert paths(find_runs([sweep]), sweep) == ["0"]
    assert paths(find_runs_and_trials([sweep]), sweep) == ["0", "trials/0", "trials/1"]


@pytest.mark.parametrize("folder", ["trials", "trials/0"])
def test_a_folder_with_only_trials_is_refused_by_name(sweep: Path, folder: str) -> None:
    with pytest.raises(ResultError, match=naming(sweep / folder, "only trials", "final runs")):
        find_runs([sweep / "0", sweep / folder])


VERBS = {
    "compare": (["compare", "{trial}"], "metrics of test"),
    "predict": (["predict", "{trial}", "{scores}"], "model"),
    "trees": (["trees", "{trial}"], "model"),
    "export": (["export", "{trial}", "--format", "scores"], "scores of test"),
    "import": (
        ["import", "a", "{scores}", "--like", "{trial}", "--output", "{scores}.run"],
        "judgments of test",
    ),
    "reproduce": (["reproduce", "{trial}", "{trial}"], "metrics of test"),
    "aa": (["aa", "{trial}"], "metrics of test"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_needs_test_scores_or_a_model_refuses_a_trial_by_name(
    verb: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, (words, needed) = tmp_path / "scores.txt", VERBS[verb]
    scores.touch()
    trial = sweep / "trials/1"
    assert main([word.format(trial=trial, scores=scores) for word in words]) == 2
    error = capsys.readouterr().err
    assert all(part in " ".join(error.split()) for part in (needed, "of a search", "final run")), error
    assert str(trial) in error.replace("\n", "")
    assert error.count("\n\n") == 0


def test_scores_of_valid_of_a_trial_are_exported(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(sweep / "trials/1"), "--format", "scores", "--split", "valid"]) == 0
    scores = read_run(sweep / "trials/1").scored("valid").scores
    assert len(capsys.readouterr().out.splitlines()) == len(scores)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_trial_is_shown_with_its_validation_metrics(
    form: list[str], sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(sweep / "trials/1"), *form]) == 0
    output = capsys.readouterr().out
    value = read_run(sweep / "trials/1").result.metrics["valid/ndcg@10"]
    assert value is not None
    assert f"{value:.4f}"[:-1] in output
    if form:
        assert json.loads(output)["trial"] is True


def test_a_comparison_never_takes_a_trial(sweep: Path) -> None:
    with pytest.raises(ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")):
        compare([read_run(sweep / "0"), read_run(sweep / "trials/1")])
    with pytest.raises(ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")):
        read_run(sweep / "trials/1").to_frame()


def test_a_final_run_is_shown_with_its_search(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sweep / "0")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    parts = ("search random", "seed 0", "3 trials", "40 iterations", "ndcg@10", "trial 1")
    assert all(part in text for part in parts)
    assert main(["show", str(sweep / "trials/0")]) == 0
    title, *_ = capsys.readouterr().out.splitlines()
    assert title.endswith("finished, a trial of a search")
