"""The choice after a search: trials from runs, the best of them, its record, and leakage between folds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_runs

from ltrbench.metrics import evaluate
from ltrbench.runs import origin
from ltrbench.runs.record import FAILED, LearningCurve, Run
from ltrbench.search import Proposal, Trial
from ltrbench.sweep.searching import chosen, rows, trial_of

METRIC = "ndcg@10"


def curve(*values: float) -> LearningCurve:
    return LearningCurve(
        list(range(1, len(values) + 1)), {f"valid/{METRIC}": list(values)}
    )


def run_of_trial(
    folder: Path, fold: int = 1, skill: float = 1.0, seed: int = 0, **fields: Any
) -> Run:
    """A trial's run: its value is that of its scores of valid, which all trials judge alike."""
    validated = toy_runs.judgments(100 + fold, counted=150)
    run = toy_runs.write(
        folder,
        "native",
        fold=fold,
        skill=skill,
        seed=seed,
        validated=validated,
        origin=origin.Trial(),
        **fields,
    )
    if run.result.status == FAILED:
        return run
    value = evaluate(validated, run.scored("valid").scores, [METRIC]).means[METRIC]
    metrics = {**run.result.metrics, f"valid/{METRIC}": value}
    return replace(run, result=replace(run.result, metrics=metrics))


def trial(number: int, value: float | None, **fields: Any) -> Trial:
    return Trial(Proposal(number, {"l2": float(number)}), value, **fields)


def test_a_trial_is_the_mean_of_its_folds_and_the_sum_of_their_work(
    tmp_path: Path,
) -> None:
    runs = [
        run_of_trial(tmp_path / "1", 1, curve=curve(0.1, 0.3, 0.2)),
        run_of_trial(
            tmp_path / "2", 2, skill=0.1, curve=curve(0.2, 0.1), seconds={"fit": 2.5}
        ),
    ]
    ended = trial_of(Proposal(0, {}), runs, METRIC)
    assert ended.value == np.mean(
        [run.result.metrics[f"valid/{METRIC}"] for run in runs]
    )
    assert (ended.iterations, ended.seconds) == (5, 1.0 + 2.5)
    # The second fold ended earlier, and keeps its best value.
    assert ended.curve == {1: (0.1 + 0.2) / 2, 2: (0.3 + 0.2) / 2, 3: (0.3 + 0.2) / 2}
    assert ended.is_complete


@pytest.mark.parametrize(
    ("minimum", "is_pruned"), [({3: 0.35}, True), ({3: 0.3}, False), ({2: 0.9}, False)]
)
def test_a_fit_that_ended_at_a_minimum_above_its_best_value_is_pruned(
    tmp_path: Path, minimum: dict[int, float], is_pruned: bool
) -> None:
    run = run_of_trial(tmp_path / "1", curve=curve(0.1, 0.3, 0.2))
    ended = trial_of(Proposal(0, {}, minimum=minimum), [run], METRIC)
    assert ended.is_pruned == is_pruned
    assert ended.is_complete != is_pruned


def test_the_first_of_the_best_complete_trials_is_chosen() -> None:
    short = Trial(Proposal(9, {}, num_trees=10), 0.9)
    trials = [trial(0, 0.4), trial(1, 0.5), trial(2, 0.5), trial(3, None), short]
    assert chosen(trials).proposal.number == 1


def test_rows_have_intervals_of_complete_trials_against_the_winner(
    tmp_path: Path,
) -> None:
    skills = [0.2, 2.0, 1.9]
    runs = {
        number: [
            run_of_trial(tmp_path / f"{number}-{fold}", fold, skill, seed=number + 1)
            for fold in (1, 2)
        ]
        for number, skill in enumerate(skills)
    }
    trials = [
        *(
            trial_of(Proposal(number, {"l2": None}), of_trial, METRIC)
            for number, of_trial in runs.items()
        ),
        trial(3, None, iterations=7),
        Trial(Proposal(4, {"l2": 2}, num_trees=5), 0.1),
        Trial(Proposal(5, {"l2": True}), 0.1, is_pruned=True),
    ]
    winner = chosen(trials)
    written = rows(trials, winner, runs, METRIC)
    assert [row.state for row in written] == ["complete"] * 3 + [
        "failed",
        "partial",
        "pruned",
    ]
    assert [row.settings["l2"] for row in written] == ["null"] * 3 + [
        "3.0",
        "2",
        "true",
    ]
    # The intervals are around the differences of the values, although queries and folds were averaged.
    values = [ended.value or 0.0 for ended in trials[:3]]
    differences = [value - max(values) for value in values]
    assert [(row.low + row.high) / 2 for row in written[:3]] == pytest.approx(
        differences, abs=1e-12
    )
    assert written[0].high < 0
    assert [
        written[winner.proposal.number].low,
        written[winner.proposal.number].high,
    ] == [0, 0]
    assert all(math.isnan(row.low) and math.isnan(row.high) for row in written[3:])
    assert math.isnan(written[3].value)
    assert written[3].iterations == 7
