"""Tables: cells, mismatches, and the notes under the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from toy_runs import NUM_QUERIES, keys_of, mentions, write

from ltrbench.compare import Settings, compare
from ltrbench.compare.analysis.slices import slices
from ltrbench.data import Judgments
from ltrbench.errors import ResultError
from ltrbench.metrics import DEFAULT, PRESETS, Convention, evaluate, preset
from ltrbench.metrics.convention import Aggregation, NoRelevant
from ltrbench.results import FINISHED, Run, RunResult, ScoredSplit


def test_runs_of_two_models_on_different_files_are_refused_with_the_fingerprints(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", train="another")]
    with pytest.raises(
        ResultError,
        match=naming("toy, fold 1", "native and xgboost", "train of fol", "another", "--allow-mismatch"),
    ):
        compare(runs)


def test_a_mismatch_that_is_allowed_is_paired_by_its_test_set_and_said_under_the_table(
    tmp_path: Path,
) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", train="another")]
    (comparison,) = compare(runs, Settings(allow_mismatch=True))
    assert len(comparison.pairs) == 1
    assert any(mentions(note, "fingerprints", "train of fol", "another") for note in comparison.notes)


def test_models_that_were_split_by_different_seeds_are_refused(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / model, model, fold=None, train=model, data_settings={"split_seed": seed})
        for seed, model in enumerate(("native", "xgboost"))
    ]
    with pytest.raises(ResultError, match=naming("data.split_seed=0 and toy data.split_seed=1")):
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
    assert any(mentions(note, "xgboost", "folds 1, 3", "left out") for note in comparison.notes)


def test_a_seed_that_is_missing_in_one_fold_is_named(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{fold}{seed}", "native", fold=fold, seed=seed)
        for fold, seed in ((1, 0), (1, 1), (2, 0))
    ]
    (comparison,) = compare(runs)
    assert any(mentions(note, "native", "seed 1", "fold 2") for note in comparison.notes)


@pytest.mark.parametrize("same", [False, True])
def test_seeds_that_change_nothing_are_said_to(tmp_path: Path, same: bool) -> None:
    first, second = (write(tmp_path / str(seed), "native", seed=seed) for seed in (0, 1))
    (comparison,) = compare([first, Run(first.path if same else second.path, second.result)])
    notes = [note for note in comparison.note_entries if note.term == "seeds that change nothing"]
    assert [mentions(note, "native") for note in notes] == [True] * same


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"threads": 1}, ("threads", "1, 2", "differ")),
        ({"machine": {"cpu": "other", "cores": 8}}, ("machines", "some (2 cores)", "other (8 cores)")),
        ({"commit": "def"}, ("commits", "abc, def")),
    ],
)
def test_circumstances_that_differ_are_told(
    tmp_path: Path, fields: dict[str, Any], warning: tuple[str, ...]
) -> None:
    (comparison,) = compare([write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", **fields)])
    term, *parts = warning
    (note,) = (note for note in comparison.note_entries if note.term == term)
    assert mentions(note, *parts)


def test_a_model_that_was_stopped_by_the_test_set_is_told(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native", valid="test of fold 1")]
    (comparison,) = compare(runs)
    assert any(mentions(note, "native", "picked on test", "data.valid") for note in comparison.notes)


def test_more_settings_of_one_model_are_a_larger_budget_and_validation_names_the_best(tmp_path: Path) -> None:
    runs = []
    for leaves, valid in ((15, 0.7), (31, 0.9), (63, 0.8)):
        run = write(tmp_path / str(leaves), "native", settings={"num_leaves": leaves})
        metrics = {**run.result.metrics, "valid/ndcg@10": valid}
        runs.append(Run(run.path, replace(run.result, metrics=metrics)))
    runs.append(write(tmp_path / "x", "xgboost"))
    (comparison,) = compare(runs)
    assert any(mentions(note, "budgets differ", "native 3, xgboost 1") for note in comparison.notes)
    (note,) = (note for note in comparison.note_entries if note.term == "choice by validation")
    assert mentions(note, "3 settings of native", "validation", "native num_leaves=31")


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
    (note,) = (note for note in comparison.note_entries if note.term == "repeated runs")
    counted, ignored = str(note).split("ignored")
    assert mentions(counted, "native", "2 runs", "seed 0", "fold 1", tmp_path / "2")
    assert mentions(ignored, tmp_path / "1")


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
    assert any(mentions(note, "native", "picked on test", "fold 1:") for note in comparison.notes)


def test_a_baseline_that_a_table_lacks_is_said_there_and_makes_no_family(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{name}{model}", model, name=name)
        for name, models in (("one", ("native", "xgboost")), ("two", ("native", "catboost")))
        for model in models
    ]
    one, two = compare(runs, Settings(baseline="xgboost"))
    assert (one.baseline, two.baseline) == ("xgboost", "native")
    assert mentions(two.notes[0], "baseline xgboost", "no run", "native")
    assert two.settings.baseline is None


# Every library's convention, and every way to weigh queries with every worth of an empty one.
CONVENTIONS = [
    *PRESETS.values(),
    *(
        replace(DEFAULT, name=f"{way.value} {empty.value}", aggregation=way, no_relevant=empty)
        for way in Aggregation
        for empty in NoRelevant
    ),
]


def weighted_run(model: str, fold: int, judged: Judgments, scores: np.ndarray[Any, Any]) -> Run:
    """Held in memory."""
    splits = {split: {"fingerprint": f"{split} {fold}"} for split in ("train", "valid", "test")}
    result = RunResult(
        status=FINISHED,
        model=model,
        params="matched",
        seed=0,
        data={"name": "toy", "fold": fold, **splits},
        metrics={"test/ndcg@2": 0.0},
    )
    return Run(
        Path(model, str(fold)), result, held={"test": ScoredSplit(judged, scores, query_keys=keys_of(judged))}
    )


@pytest.mark.slow
@given(
    convention=st.sampled_from(CONVENTIONS),
    metric=st.sampled_from(["ndcg@2", "map", "precision@2", "mrr"]),
    queries=st.lists(
        st.tuples(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), st.floats(0.01, 100)),
        min_size=2,
        max_size=12,
    ),
    seed=st.integers(0, 1000),
)
def test_a_difference_is_that_of_the_means_under_every_convention_with_weights_and_empty_queries(
    convention: Convention, metric: str, queries: list[tuple[list[float], float]], seed: int
) -> None:
    word = metric.partition("@")[0]
    if (
        convention.metrics is not None and word not in convention.metrics
    ) or word in convention.uncut_metrics:
        metric = "ndcg@2"
    # XGBoost refuses a mean above 1, which odd weights can make of empty queries.
    convention = replace(convention, largest_mean=None, by_metric=without_largest_mean(convention))
    rng = np.random.default_rng(seed)
    runs: list[Run] = []
    for fold, own in enumerate((queries, queries[::-1][1:]), start=1):
        judged = Judgments(
            labels=np.array([label for labels, _ in own for label in labels]),
            query_start=np.arange(len(own) + 1) * 3,
            document_ids=np.arange(len(own) * 3).astype(str),
            query_weights=np.array([weight for _, weight in own]),
        )
        scores = {model: rng.permutation(np.arange(3.0 * len(own))) for model in ("a", "b")}
        runs += [weighted_run(model, fold, judged, own_scores) for model, own_scores in scores.items()]
    (comparison,) = compare(runs, Settings(metric=metric, convention=convention, num_draws=20))
    a, b = comparison.rows
    if a.metrics[metric] is None or comparison.queries is None:
        return  # no query counts in some fold
    means = np.array([a.metrics[metric], b.metrics[metric]], dtype=float)
    np.testing.assert_allclose(comparison.queries.sample.means, means, rtol=1e-12)
    (pair,) = comparison.pairs
    assert pair.statistics.difference == pytest.approx(means[0] - means[1], abs=1e-11)
    if abs(means[0] - means[1]) > 1e-9:
        assert comparison.best == ("a" if means[0] > means[1] else "b")


def without_largest_mean(convention: Convention) -> dict[str, dict[str, Any]]:
    return {
        metric: {key: value for key, value in departures.items() if key != "largest_mean"}
        for metric, departures in convention.by_metric.items()
    }


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_the_best_row_of_weighted_queries_has_the_highest_weighted_mean(name: str) -> None:
    """Row a is right on the one query that weighs much, row b on the two that do not; the last is empty."""
    judged = Judgments(
        labels=np.array([1.0, 0.0] * 3 + [0.0, 0.0]),
        query_start=np.arange(5) * 2,
        query_weights=np.array([10.0, 1.0, 1.0, 5.0]),
    )
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    runs = [
        weighted_run("a", 1, judged, np.array(right + wrong + wrong + right)),
        weighted_run("b", 1, judged, np.array(wrong + right + right + right)),
    ]
    settings = Settings(metric="ndcg@1", convention=preset(name), num_draws=20)
    (comparison,) = compare(runs, settings)
    a, b = comparison.rows
    assert [a.metrics["ndcg@1"], b.metrics["ndcg@1"]] == pytest.approx([(10 + 1) / 17, (2 + 1) / 17])
    assert comparison.best == "a"
    assert b.to_baseline is not None
    assert b.to_baseline.statistics.difference == pytest.approx((2 - 10) / 17)
    empty, others = slices(comparison, ["num_relevant"])
    assert [row.mean for row in others.rows] == pytest.approx([10 / 12, 2 / 12])
    assert [row.mean for row in empty.rows] == pytest.approx([1 / 5, 1 / 5])
