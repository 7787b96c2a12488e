"""What may stand in one table: cells, mismatches, and the warnings under it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_runs import NUM_QUERIES, write

from ltrbench.compare import Settings, compare
from ltrbench.errors import ResultError
from ltrbench.metrics import evaluate, preset
from ltrbench.results import Run


def test_runs_of_two_models_on_different_files_are_refused_with_the_fingerprints(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", train="another")]
    with pytest.raises(
        ResultError, match=r"toy, fold 1, native and xgboost: .* train train of fol and another"
    ):
        compare(runs)


def test_a_mismatch_that_is_allowed_is_paired_by_its_test_set_and_said_under_the_table(
    tmp_path: Path,
) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", train="another")]
    (comparison,) = compare(runs, Settings(allow_mismatch=True))
    assert len(comparison.pairs) == 1
    assert any("fingerprints of train" in note for note in comparison.notes)


def test_models_that_were_split_by_different_seeds_are_refused(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / model, model, fold=None, train=model, data_settings={"split_seed": seed})
        for seed, model in enumerate(("native", "xgboost"))
    ]
    with pytest.raises(ResultError, match=r"toy data\.split_seed=0 and toy data\.split_seed=1"):
        compare(runs)


def test_a_sweep_over_a_setting_of_the_data_makes_a_table_a_value(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{share}", model, fold=None, train=share, data_settings={"subset": share})
        for share in ("0.5", "1.0")
        for model in ("native", "xgboost")
    ]
    assert [item.data for item in compare(runs)] == ["toy data.subset=0.5", "toy data.subset=1.0"]
    # A job that failed leaves a model in one table only, which is no mismatch.
    assert len(compare(runs[:-1])) == 2


def test_a_model_that_lacks_a_fold_is_left_out_of_paired_tests_and_the_others_keep_theirs(
    tmp_path: Path,
) -> None:
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold)
        for model in ("native", "lightgbm")
        for fold in (1, 2, 3)
    ]
    runs.append(write(tmp_path / "x", "xgboost", fold=2))
    (comparison,) = compare(runs)
    assert [(pair.a, pair.b) for pair in comparison.pairs] == [("native", "lightgbm")]
    assert comparison.pairs[0].statistics.num_queries == 3 * (NUM_QUERIES - 1)
    assert comparison.row("xgboost").to_baseline is None
    assert any(
        note.startswith("xgboost has no run on folds 1, 3: it is left out") for note in comparison.notes
    )


def test_a_seed_that_is_missing_in_one_fold_is_named(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{fold}{seed}", "native", fold=fold, seed=seed)
        for fold, seed in ((1, 0), (1, 1), (2, 0))
    ]
    (comparison,) = compare(runs)
    assert any(note.startswith("native has no run of seed 1 on fold 2") for note in comparison.notes)


@pytest.mark.parametrize("same", [False, True])
def test_seeds_that_change_nothing_are_said_to(tmp_path: Path, same: bool) -> None:
    first, second = (write(tmp_path / str(seed), "native", seed=seed) for seed in (0, 1))
    (comparison,) = compare([first, Run(first.path if same else second.path, second.result)])
    assert any(note.startswith("Seeds change nothing in native") for note in comparison.notes) is same


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"threads": 1}, r"Threads: 1, 2, which differ"),
        ({"machine": {"cpu": "other", "cores": 8}}, r"Machines differ.*some \(2 cores\); other \(8 cores\)"),
        ({"commit": "def"}, r"different commits of the code: abc, def"),
    ],
)
def test_circumstances_that_differ_are_told(tmp_path: Path, fields: dict[str, Any], warning: str) -> None:
    (comparison,) = compare([write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", **fields)])
    assert re.search(warning, " ".join(comparison.notes))


def test_a_model_that_was_stopped_by_the_test_set_is_told(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native", valid="test of fold 1")]
    (comparison,) = compare(runs)
    assert any(note.startswith("native was picked on test") for note in comparison.notes)


def test_more_settings_of_one_model_are_a_larger_budget_and_validation_names_the_best(tmp_path: Path) -> None:
    runs = []
    for leaves, valid in ((15, 0.7), (31, 0.9), (63, 0.8)):
        run = write(tmp_path / str(leaves), "native", settings={"num_leaves": leaves})
        metrics = {**run.result.metrics, "valid/ndcg@10": valid}
        runs.append(Run(run.path, replace(run.result, metrics=metrics)))
    runs.append(write(tmp_path / "x", "xgboost"))
    (comparison,) = compare(runs)
    notes = " ".join(comparison.notes)
    assert "Tuning budgets differ: settings in this table are native 3, xgboost 1." in notes
    assert "the best of the 3 settings of native by this table is to pick on test" in notes
    assert "by validation it is native num_leaves=31." in notes


def test_every_figure_is_computed_anew_under_the_convention_that_is_asked_for(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")]
    convention = preset("lightgbm")
    (comparison,) = compare(runs, Settings(convention=convention))
    for run, row in zip(runs, comparison.rows, strict=True):
        scored = run.scored("test")
        expected = evaluate(scored.judgments, scored.scores, ["ndcg@10"], convention).means["ndcg@10"]
        assert row.metrics["ndcg@10"] == pytest.approx(expected, abs=1e-15)
    # LightGBM counts a query without a relevant document as 1, where the default skips it.
    assert comparison.pairs[0].statistics.num_queries == NUM_QUERIES


def test_a_metric_that_the_convention_lacks_is_left_out_of_the_table(tmp_path: Path) -> None:
    run = write(tmp_path / "a", "native")
    with_err = Run(run.path, replace(run.result, metrics={**run.result.metrics, "test/err@10": 0.5}))
    (comparison,) = compare([with_err], Settings(convention=preset("lightgbm")))
    assert set(comparison.rows[0].metrics) == {"ndcg@5", "ndcg@10"}


def test_the_same_documents_are_one_table_wherever_their_files_lie(tmp_path: Path) -> None:
    places = {"native": {"root": "/here"}, "xgboost": {"root": "/there", "whole_labels": True}}
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold, data_settings=settings)
        for model, settings in places.items()
        for fold in (1, 2)
    ]
    (comparison,) = compare(runs)
    assert (comparison.data, len(comparison.pairs)) == ("toy", 1)


def test_of_a_run_that_was_made_twice_the_last_is_counted_and_the_other_named(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / name, "native", skill=skill, started=name)
        for name, skill in (("1", 0.5), ("2", 2.0))
    ]
    (comparison,) = compare(runs)
    assert comparison.rows[0].runs == (runs[1],)
    said = f"native has 2 runs of seed 0 on fold 1: only the last, {tmp_path / '2'}, is counted."
    assert said in comparison.notes


def test_a_fold_in_which_no_query_counts_is_left_out_of_means(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold, counted=counted)
        for model in ("native", "xgboost")
        for fold, counted in ((1, NUM_QUERIES - 1), (2, 0))
    ]
    (comparison,) = compare(runs)
    first = evaluate(judged := runs[0].scored("test").judgments, runs[0].scored("test").scores, ["ndcg@10"])
    assert comparison.rows[0].metrics["ndcg@10"] == first.means["ndcg@10"]
    assert judged.num_queries == NUM_QUERIES


def test_two_test_sets_of_one_fold_are_no_two_folds(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{valid}", model, valid=valid)
        for model in ("native", "xgboost")
        for valid in ("a", "b")
    ]
    (comparison,) = compare(runs, Settings(allow_mismatch=True))
    assert comparison.pairs[0].over_folds is None


def test_a_model_that_was_picked_on_test_in_one_fold_only_is_told(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / "1", "native", fold=1, valid="test of fold 1"),
        write(tmp_path / "2", "native", fold=2),
    ]
    (comparison,) = compare(runs)
    assert any(note.startswith("native was picked on test in fold 1") for note in comparison.notes)


def test_a_baseline_that_a_table_lacks_is_said_there_and_makes_no_family(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{name}{model}", model, name=name)
        for name, models in (("one", ("native", "xgboost")), ("two", ("native", "catboost")))
        for model in models
    ]
    one, two = compare(runs, Settings(baseline="xgboost"))
    assert (one.baseline, two.baseline) == ("xgboost", "native")
    assert two.notes[0] == (
        "There is no run of the baseline xgboost here: differences are to native, the first row."
    )
    assert two.settings.baseline is None
