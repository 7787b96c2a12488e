"""Notes on the searches of tuned models: their sizes, and how their budgets differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claim_cases import only
from toy_runs import SPACE, judgments, mentions, searched, tuned, write

from ltrbench.compare import Comparison
from ltrbench.compare.pairing.fairness import parameters
from ltrbench.compare.pairing.searches import search_totals
from ltrbench.results import Run

SIZES = "Search "


def notes(comparison: Comparison, term: str) -> list[str]:
    return [str(note) for note in comparison.note_entries if note.term == term]


def sizes(comparison: Comparison) -> list[str]:
    """The notes on the sizes of the searches."""
    return [note for note in notes(comparison, "tuning budget") if note.startswith(SIZES)]


def inequalities(comparison: Comparison) -> list[str]:
    """The notes on unequal budgets."""
    return [note for note in notes(comparison, "tuning budget") if not note.startswith(SIZES)]


def compared(folder: Path, rival: dict[str, Any], **fields: Any) -> Comparison:
    """A tuned native beside a tuned xgboost with another search."""
    return only([tuned(folder / "n", **fields), tuned(folder / "x", "xgboost", search=searched(**rival))])


def test_the_sizes_of_all_searches_are_one_note(tmp_path: Path) -> None:
    space = {"num_leaves": SPACE["num_leaves"]}
    comparison = compared(tmp_path, {"space": space, "trials": 3, "seconds": 7.5})
    (note,) = sizes(comparison)
    assert mentions(note, "random", "per fold", "ndcg@10")
    assert "native (2 settings, 16 trials, 1,600 iterations in 40 s" in note
    assert "xgboost (1 setting, 3 trials, 300 iterations in 7.5 s" in note


def test_failed_trials_are_counted(tmp_path: Path) -> None:
    (note,) = sizes(compared(tmp_path, {"failed": 2}))
    assert "native (2 settings, 16 trials, 1,600" in note
    assert "xgboost (2 settings, 16 trials of which 2 failed, 1,600" in note


def test_other_searches_have_notes_of_their_own(tmp_path: Path) -> None:
    first, second = sizes(compared(tmp_path, {"name": "tpe"}))
    assert mentions(first, "random", "native")
    assert mentions(second, "tpe", "xgboost")


@pytest.mark.parametrize(("choose", "searches"), [("per_fold", 3), ("overall", 1), ("across", 1)])
def test_a_search_that_folds_share_counts_once(tmp_path: Path, choose: str, searches: int) -> None:
    runs = [tuned(tmp_path / f"{fold}", fold=fold, search=searched(choose=choose)) for fold in (1, 2, 3)]
    totals = search_totals(only(runs).rows[0].group)
    assert totals is not None
    assert (totals.searches, totals.iterations, totals.seconds) == (
        searches,
        searches * 1600,
        searches * 40.0,
    )


def test_a_search_that_training_seeds_share_counts_once(tmp_path: Path) -> None:
    runs = [tuned(tmp_path / f"{seed}", seed=seed, search=searched(seed=0)) for seed in (1, 2)]
    totals = search_totals(only(runs).rows[0].group)
    assert totals is not None
    assert totals.searches == 1


def test_an_untuned_row_has_no_totals(tmp_path: Path) -> None:
    comparison = only([write(tmp_path / "n", "native")])
    assert search_totals(comparison.rows[0].group) is None
    assert sizes(comparison) == []


def test_equal_budgets_need_no_note(tmp_path: Path) -> None:
    assert inequalities(compared(tmp_path, {})) == []


def test_unequal_trials_are_named(tmp_path: Path) -> None:
    (note,) = inequalities(compared(tmp_path, {"trials": 32}))
    assert mentions(note, "trials (native 16, xgboost 32)", "search.trials")
    assert "settings varied" not in note


def test_settings_that_only_one_model_varies_are_named(tmp_path: Path) -> None:
    (note,) = inequalities(compared(tmp_path, {"space": {"num_leaves": SPACE["num_leaves"]}}))
    assert mentions(note, "native 2, xgboost 1", "learning_rate", "search.space")


def test_unequal_ranges_are_named(tmp_path: Path) -> None:
    (note,) = inequalities(compared(tmp_path, {"space": {**SPACE, "num_leaves": "2 to 8"}}))
    assert mentions(note, "range of num_leaves", f"native {SPACE['num_leaves']}", "xgboost 2 to 8")


def test_budgets_that_one_model_sweeps_are_no_inequality(tmp_path: Path) -> None:
    swept = {"search.trials": ["16", "32"]}
    runs = [tuned(tmp_path / f"{n}", search=searched(trials=n), swept=swept) for n in (16, 32)]
    assert inequalities(only(runs)) == []


def test_an_untuned_model_beside_a_tuned_one_is_named_with_the_remedy(tmp_path: Path) -> None:
    runs = [tuned(tmp_path / "n"), write(tmp_path / "x", "xgboost"), write(tmp_path / "l", "lightgbm")]
    yardstick = write(tmp_path / "r", "random", params="none")
    (note,) = inequalities(only([*runs, yardstick]))
    assert mentions(
        note, "Tuned: native", "xgboost and lightgbm", "search=random search.trials=16", "search=none"
    )
    assert "random," not in note
    assert inequalities(only([runs[0], yardstick])) == []


def test_the_settings_of_a_tuned_and_an_untuned_row_of_one_model_are_no_inequality(tmp_path: Path) -> None:
    comparison = only([tuned(tmp_path / "t"), write(tmp_path / "u", "native")])
    assert len(comparison.rows) == 2
    assert inequalities(comparison) == []


def validated(run: Run) -> dict[str, Any]:
    return {**run.result.metrics, "valid/ndcg@10": 0.5}


def test_rows_with_searches_need_no_warning_against_choosing_by_the_table(tmp_path: Path) -> None:
    metrics = validated(write(tmp_path / "first", "native"))
    tuned_rows = [
        tuned(tmp_path / name, search=searched(name=name), metrics=metrics) for name in ("random", "tpe")
    ]
    untuned = [write(tmp_path / f"{l2}", "native", settings={"l2": l2}, metrics=metrics) for l2 in (0.0, 1.0)]
    assert notes(only(tuned_rows), "choice by validation") == []
    assert notes(only([*tuned_rows, untuned[0]]), "choice by validation") == []
    (note,) = notes(only([*tuned_rows, *untuned]), "choice by validation")
    assert mentions(note, "2 settings of native", "l2=")


@pytest.mark.parametrize(("choose", "is_leak"), [("per_fold", False), ("overall", True)])
def test_only_a_search_over_folds_can_see_their_test_queries(
    tmp_path: Path, choose: str, is_leak: bool
) -> None:
    # The validation set of a fold is the test set of the next one, as in LETOR.
    runs = [
        tuned(
            tmp_path / f"{fold}",
            fold=fold,
            validated=judgments(fold % 3 + 1),
            search=searched(choose=choose),
        )
        for fold in (1, 2, 3)
    ]
    leaks = notes(only(runs), "validation queries in test")
    assert bool(leaks) == is_leak
    assert all(mentions(note, "native") for note in leaks)


def test_the_parameters_of_tuned_models_are_not_listed(tmp_path: Path) -> None:
    runs = [
        tuned(tmp_path / f"{leaves}", fold=leaves, leaves=leaves, own_settings={"num_leaves": leaves})
        for leaves in (4, 8)
    ]
    sentence = parameters([run.result for run in runs])
    assert mentions(sentence, "matched", "tuned", "native")
    assert "num_leaves" not in sentence
    other = tuned(tmp_path / "x", "xgboost", own_settings={"num_leaves": 3, "l2": 2.0})
    assert mentions(parameters([runs[0].result, other.result]), "xgboost (l2=2.0)", "native and xgboost")
    alone = tuned(tmp_path / "o", "mine", params="own", own_settings={"num_leaves": 3})
    assert mentions(parameters([alone.result]), "tuned", "mine")


def test_variants_of_a_model_show_the_settings_that_differ(tmp_path: Path) -> None:
    base = {"num_leaves": 8, "l2": 0.5, "truncation": 35}
    models = {"best": base, "best l2=0": {**base, "l2": 0.0}, "best sigma=1": base, "mine": {"num_leaves": 3}}
    results = [
        tuned(tmp_path / name, name, search={}, params="own", own_settings=settings).result
        for name, settings in models.items()
    ]
    assert parameters(results) == (
        "Parameters: each model's own, best and best sigma=1 (num_leaves=8, l2=0.5, truncation=35), "
        "best l2=0 (as best, but l2=0.0) and mine (num_leaves=3)."
    )


def test_the_time_of_another_training_has_that_of_its_search(tmp_path: Path) -> None:
    def seconds(name: str, **fields: Any) -> float:
        runs = [
            tuned(tmp_path / name / f"{model}{seed}", model, seed=seed, seconds={"fit": 1.0}, **fields)
            for model in ("native", "xgboost")
            for seed in (1, 2)
        ]
        queries = only(runs).queries
        assert queries is not None
        return float(np.mean([of_cell.seconds for of_cell in queries.trainings[0]]))

    assert seconds("one", search=searched(seed=0)) == 1.0
    assert seconds("many") == 1.0 + 2.5 * 16
