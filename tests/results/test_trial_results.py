"""Trials of a search on disk: trials.csv of the final run, and the run folders of trials among other runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from toy_runs import search_record

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ResultError
from ltrbench.experiment import Experiment, run
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.record import (
    TRIAL_COLUMNS,
    TRIALS_FILE,
    Run,
    TrialRow,
    find_runs,
    find_runs_and_trials,
    read_run,
)

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


def paths(runs: list[Run], sweep: Path) -> list[str]:
    return [str(each.path.relative_to(sweep)) for each in runs]


def test_trials_are_found_only_where_they_are_wanted(sweep: Path) -> None:
    assert paths(find_runs([sweep]), sweep) == ["0"]
    assert paths(find_runs_and_trials([sweep]), sweep) == ["0", "trials/0", "trials/1"]


VERBS = {
    "predict": (["predict", "{trial}", "{scores}"], "model"),
    "export": (["export", "{trial}", "--format", "scores"], "scores of test"),
    "reproduce": (["reproduce", "{trial}", "{trial}"], "metrics of test"),
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


def test_a_comparison_never_takes_a_trial(sweep: Path) -> None:
    with pytest.raises(ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")):
        compare([read_run(sweep / "0"), read_run(sweep / "trials/1")])
    with pytest.raises(ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")):
        read_run(sweep / "trials/1").to_frame()
