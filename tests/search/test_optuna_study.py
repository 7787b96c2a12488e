"""Importances of settings, and the journal for Optuna's dashboard."""

from __future__ import annotations

import json
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from search_cases import DEFAULT, SPACE, ended, run

from ltrbench.search import (
    Proposal,
    RandomSearch,
    Range,
    SuccessiveHalving,
    Trial,
    Value,
    ask,
    setting_importances,
    write_journal,
)


def of_leaves(proposal: Proposal) -> float:
    leaves = proposal.settings["num_leaves"]
    assert isinstance(leaves, int)
    return -abs(leaves - 40.0)


def loaded(path: Path) -> list[optuna.Study]:
    storage = JournalStorage(JournalFileBackend(str(path)))
    return [
        optuna.load_study(study_name=summary.study_name, storage=storage)
        for summary in optuna.get_all_study_summaries(storage)
    ]


def test_the_setting_that_decides_is_the_most_important() -> None:
    trials = run(RandomSearch(trials=50), value_of=of_leaves)
    importances = setting_importances(SPACE, trials)
    assert next(iter(importances)) == "num_leaves"
    assert importances["num_leaves"] > 0.5
    assert set(importances) == set(SPACE)
    assert sum(importances.values()) == pytest.approx(1)
    assert list(importances.values()) == sorted(importances.values(), reverse=True)
    assert setting_importances(SPACE, trials) == importances


def test_trials_of_a_batch_differ_and_do_not_depend_on_trials_outside_the_space() -> None:
    trials = run(RandomSearch(trials=16))
    proposed = ask(SPACE, 0, trials, range(16, 24))
    assert len({json.dumps(settings) for settings in proposed}) == 8
    outside = ended(Proposal(16, {**DEFAULT, "num_leaves": None}), lambda _: 9.0)
    assert ask(SPACE, 0, [*trials, outside], range(16, 24)) == proposed


def test_the_journal_has_every_trial(tmp_path: Path) -> None:
    space = {**SPACE, "norm": Range(values=[None, True, False])}
    default: dict[str, Value] = {**DEFAULT, "norm": None, "learning_rate": None}
    trials = run(SuccessiveHalving(trials=10), space, default, lambda proposal: 0.1 + 0.01 * proposal.number)
    trials = [*trials, Trial(Proposal(len(trials), default), None)]
    path = tmp_path / "optuna.log"
    path.write_text("an old journal")
    write_journal(path, {"native fold 1": (space, trials), "native fold 2": (SPACE, [])})

    assert [file.name for file in tmp_path.iterdir()] == ["optuna.log"]
    assert all(json.loads(line) for line in path.read_text().splitlines())
    first, second = sorted(loaded(path), key=lambda study: study.study_name)
    assert (first.study_name, second.study_name) == ("native fold 1", "native fold 2")
    assert second.trials == []
    assert first.best_value == max(trial.value or 0 for trial in trials if trial.is_complete)
    for trial, stored in zip(trials, first.trials, strict=True):
        assert {**stored.params, **stored.user_attrs} == trial.proposal.settings
        assert stored.intermediate_values == trial.curve
        assert stored.duration is not None
        assert stored.duration.total_seconds() == pytest.approx(trial.seconds)
    assert first.trials[0].user_attrs == {"learning_rate": None}  # outside its range
    assert first.trials[0].state == TrialState.COMPLETE
    assert first.trials[1].state == TrialState.PRUNED  # 15 trees only
    assert first.trials[-1].state == TrialState.FAIL
