# mypy: strict-optional=False
"""Importances side by side, and interactions of models and slices of queries."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import toy_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import spearmanr

from ltrbench.compare import (
    Comparison,
    Settings,
    compare,
    compare_importances,
    interactions,
    slices,
)
from ltrbench.compare.importances import importances_csv, spearman
from ltrbench.compare.leaderboard import comparisons_as_json
from ltrbench.compare.report import chapters_of
from ltrbench.data import Judgments
from ltrbench.plots import Series, importance_bars
from ltrbench.rankers.importance import GAIN, SHAP, SPLIT, WITHIN, Importances
from ltrbench.runs import Run
from ltrbench.runs.writing import _write_importances
from ltrbench.tables import Table

NAMES = ("title", "body", "clicks", "age")


def write(
    folder: Path,
    model: str,
    values: dict[str, list[float]],
    fold: int = 1,
    seed: int = 0,
    names: tuple[str, ...] = NAMES,
) -> Run:
    """A finished run with these importances."""
    run = toy_runs.write(folder, model, fold=fold, seed=seed)
    if values:
        importances = Importances(
            names, {kind: np.array(column) for kind, column in values.items()}
        )
        _write_importances(folder / "importances.csv", importances)
    return run


def split(*shares: float) -> dict[str, list[float]]:
    return {SPLIT: [*shares], SHAP: [*shares]}


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (2, 6), elements=st.sampled_from([0.0, 0.1, 0.25, 3.0])))
def test_spearman_is_scipys_and_unknown_where_all_is_worth_the_same(
    values: NDArray[np.float64],
) -> None:
    a, b = values
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert spearman(a, b) is None
    else:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-11)
    assert spearman(a, None) is None


def test_rows_are_means_over_folds_of_means_over_seeds(tmp_path: Path) -> None:
    runs = [
        write(
            tmp_path / f"{fold}-{seed}",
            "native",
            {GAIN: [share, 1 - share, 0, 0]},
            fold,
            seed,
        )
        for fold, seed, share in ((1, 0, 0.1), (1, 1, 0.3), (2, 0, 0.6))
    ]
    found = compare_importances({"native": runs})
    np.testing.assert_allclose(found.rows["native"].values[GAIN], [0.4, 0.6, 0, 0])
    assert found.feature_names == NAMES
    assert found.order == (1, 0, 2, 3)
    assert found.correlations == {}


def test_a_feature_that_one_uses_and_another_ignores_is_named_with_who_uses_it_most(
    tmp_path: Path,
) -> None:
    found = compare_importances(
        {
            "native": [write(tmp_path / "a", "native", split(0.5, 0.3, 0.2, 0))],
            "lightgbm": [write(tmp_path / "b", "lightgbm", split(0.6, 0, 0, 0.4))],
            "xgboost": [
                write(tmp_path / "c", "xgboost", split(0.5, 0.1, 0.0004, 0.3996))
            ],
        }
    )
    of_native, of_lightgbm, *_ = found.notes
    assert toy_runs.mentions(of_native, "native ignores", "age (40.0 % by lightgbm's")
    parts = ("2 features", "body (30.0 % by native's", "clicks (20.0 % by native's")
    assert toy_runs.mentions(of_lightgbm, "lightgbm ignores", *parts)


def test_correlations_are_of_each_kind_that_two_have(tmp_path: Path) -> None:
    values_of = {
        "native": [4.0, 3, 2, 1],
        "lightgbm": [4.0, 3, 1, 2],
        "xgboost": [1.0, 2, 3, 4],
    }
    runs = {
        model: [write(tmp_path / model, model, {WITHIN: values})]
        for model, values in values_of.items()
    }
    runs["native"] = [
        write(
            tmp_path / "again",
            "native",
            {WITHIN: values_of["native"], GAIN: [1, 0, 0, 0]},
        )
    ]
    found = compare_importances(runs)
    assert found.correlations == {WITHIN: ((1, 0.8, -1), (0.8, 1, -0.8), (-1, -0.8, 1))}


def test_columns_in_another_order_are_the_same_features(tmp_path: Path) -> None:
    names = ("d", "a", "c", "b")
    in_order = tuple(sorted(names))
    second = split(1, 2, 3, 4)
    runs = {
        "native": [
            write(tmp_path / "first", "native", split(4, 1, 3, 2), names=names),
            write(tmp_path / "second", "native", second, fold=2, names=in_order),
        ],
        "lightgbm": [
            write(tmp_path / "third", "lightgbm", split(1, 2, 3, 4), names=in_order)
        ],
    }
    found = compare_importances(runs)
    assert found.left_out == ()
    assert found.feature_names == names
    for row in found.rows.values():
        assert row.values[SPLIT].tolist() == [4, 1, 3, 2]


def ablation(folder: Path, **further: list[float]) -> dict[str, list[Run]]:
    """Returns a model without a feature, and one with all of them and with further kinds."""
    names = tuple(name for name in NAMES if name != "body")
    of_part = split(0.5, 0.3, 0.2)
    of_all = split(0.1, 0.6, 0.2, 0.1) | further
    return {
        "ablated": [write(folder / "a", "native", of_part, names=names)],
        "full": [write(folder / "b", "native", of_all)],
    }


def test_a_feature_that_a_model_does_not_have_is_missing_and_not_ignored(
    tmp_path: Path,
) -> None:
    found = compare_importances(ablation(tmp_path))
    assert found.left_out == ()
    assert found.feature_names == ("title", "clicks", "age", "body")
    assert np.isnan(found.rows["ablated"].values[SHAP]).tolist() == [0, 0, 0, 1]
    # By the mean over the models that have the feature.
    assert [found.feature_names[number] for number in found.order[:2]] == [
        "body",
        "title",
    ]
    about_ablated, about_both, *_ = found.notes
    assert toy_runs.mentions(about_ablated, "ablated", "body")
    assert "ablated" not in about_both
    expected = spearmanr([0.5, 0.3, 0.2], [0.1, 0.2, 0.1]).statistic
    assert found.correlations[SHAP][0][1] == pytest.approx(expected)
    body = {
        row["feature"]: row
        for row in csv.DictReader(io.StringIO(importances_csv({"toy": found})))
    }["body"]
    assert (body["ablated shap"], body["full shap"]) == ("", "0.6")


def test_a_bar_is_missing_where_a_model_lacks_the_feature_or_the_kind(
    tmp_path: Path,
) -> None:
    series = [
        Series(label=label, model="native", runs=tuple(runs))
        for label, runs in ablation(tmp_path, **{WITHIN: [0.1, 0.2, 0.3, 0]}).items()
    ]
    of_kinds = []
    for axes in importance_bars(series).axes:
        widths = [[bar.get_width() for bar in bars] for bars in axes.containers]
        of_kinds.append([int(np.isnan(of_row).sum()) for of_row in widths])
    by_within, by_shap, *_ = of_kinds
    assert by_within[0] == 3
    assert by_shap[0] == 1
    assert (by_within[1], by_shap[1]) == (0, 0)


def test_yardsticks_and_runs_that_recorded_nothing_are_left_out(tmp_path: Path) -> None:
    runs = {
        "native": [write(tmp_path / "native", "native", split(1, 0, 0, 0))],
        "random": [write(tmp_path / "random", "random", {WITHIN: [1, 1, 1, 1]})],
        "single_feature": [
            write(tmp_path / "single", "single_feature", split(0, 1, 0, 0))
        ],
        "imported": [write(tmp_path / "imported", "imported", {})],
        "other": [
            write(
                tmp_path / "other",
                "other",
                split(0, 1, 0, 0),
                names=("a", "b", "c", "d"),
            )
        ],
    }
    found = compare_importances(runs)
    assert list(found.rows) == ["native"]
    assert toy_runs.mentions(found.notes[0], "other is", "left out", "names")
    nothing = compare_importances({"imported": runs["imported"]})
    assert (nothing.rows, nothing.kinds, nothing.order, nothing.notes) == (
        {},
        (),
        (),
        (),
    )


NUM_QUERIES = 200


def judged() -> Judgments:
    """Queries of four documents and of twelve, in turn."""
    sizes = np.tile([4, 12], NUM_QUERIES // 2)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    labels = np.random.default_rng(0).integers(0, 3, starts[-1]).astype(np.float64)
    labels[starts[:-1]] = 2
    return Judgments(labels=labels, query_start=starts)


def compared(folder: Path) -> Comparison:
    models = {"native": 3.0, "xgboost": 2.9, "random_": 0.0}
    runs = [
        toy_runs.write(folder / model, model, fold=None, skill=skill, judged=judged())
        for model, skill in models.items()
    ]
    settings = Settings(metric="ndcg@10", baseline="native", num_draws=20)
    (comparison,) = compare(runs, settings=settings)
    return comparison


def test_an_interaction_of_two_slices_is_welchs_t_test_of_their_differences(
    tmp_path: Path,
) -> None:
    comparison = compared(tmp_path)
    base, *others = comparison.queries.sample.values
    sliced = slices(comparison, ["query_size", "query_size"])
    assert [item.name for item in sliced] == ["4", "12"]
    # The two sizes take turns.
    expected = [
        stats.ttest_ind(
            (values - base)[::2], (values - base)[1::2], equal_var=False
        ).pvalue
        for values in others
    ]
    assert [item.p_value for item in interactions(comparison, sliced)] == pytest.approx(
        expected
    )


def test_the_report_and_the_record_adjust_an_interaction_alike(tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    requested = slices(comparison, ["query_size"])
    sliced = replace(comparison, slices=requested)
    chapter, *_ = chapters_of([sliced])
    (section,) = [each for each in chapter.sections if each.name == "slices"]
    table = section.parts[-1]
    assert isinstance(table, Table)
    of_report = [row["p (Holm)"] for row in table.records()]
    of_record = [
        row["p_adjusted"] for row in comparisons_as_json([sliced])["interactions"]
    ]
    assert of_report[: len(of_record)] == of_record
    assert len(of_report) > len(of_record) == len(comparison.rows) - 1
