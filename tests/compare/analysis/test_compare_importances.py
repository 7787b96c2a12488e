"""Importances side by side: means over folds and seeds, rank correlations, and who ignores what."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import toy_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ltrbench.compare import compare, compare_importances
from ltrbench.compare.analysis.importances import importances_csv, importances_markdown, spearman
from ltrbench.compare.output.publish import publish
from ltrbench.rankers.models.importance import GAIN, HIGH, LOW, SHAP, SPLIT, WITHIN, Importances
from ltrbench.results import Run
from ltrbench.results.writing import _write_importances

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
        own = Importances(names, {kind: np.array(column) for kind, column in values.items()})
        _write_importances(folder / "importances.csv", own)
    return run


def split(*shares: float) -> dict[str, list[float]]:
    return {SPLIT: [*shares], SHAP: [*shares]}


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (2, 6), elements=st.sampled_from([0.0, 0.1, 0.25, 3.0])))
def test_spearman_is_scipys_and_unknown_where_all_is_worth_the_same(values: NDArray[np.float64]) -> None:
    a, b = values
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert spearman(a, b) is None
    else:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-11)
    assert spearman(a, None) is None


def test_rows_are_means_over_folds_of_means_over_seeds(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{fold}-{seed}", "native", {GAIN: [worth, 1 - worth, 0, 0]}, fold, seed)
        for fold, seed, worth in ((1, 0, 0.1), (1, 1, 0.3), (2, 0, 0.6))
    ]
    found = compare_importances({"native": runs})
    np.testing.assert_allclose(found.rows["native"].values[GAIN], [0.4, 0.6, 0, 0])
    assert found.feature_names == NAMES
    assert found.order == (1, 0, 2, 3)
    assert found.correlations == {}
    assert found.notes == ()


def test_a_feature_that_one_uses_and_another_ignores_is_named_with_who_uses_it_most(tmp_path: Path) -> None:
    found = compare_importances(
        {
            "native": [write(tmp_path / "a", "native", split(0.5, 0.3, 0.2, 0))],
            "lightgbm": [write(tmp_path / "b", "lightgbm", split(0.6, 0, 0, 0.4))],
            "xgboost": [write(tmp_path / "c", "xgboost", split(0.5, 0.1, 0.0004, 0.3996))],
        }
    )
    assert [(item.by, item.feature, item.used_by, item.importance) for item in found.ignored] == [
        ("native", "age", "lightgbm", 0.4),
        ("lightgbm", "body", "native", 0.3),
        ("lightgbm", "clicks", "native", 0.2),
    ]
    of_native, of_lightgbm, *_ = found.notes
    assert toy_runs.mentions(of_native, "native ignores", "age (40.0 % by lightgbm's")
    parts = ("2 features", "body (30.0 % by native's", "clicks (20.0 % by native's")
    assert toy_runs.mentions(of_lightgbm, "lightgbm ignores", *parts)


def test_what_is_split_on_in_any_fold_is_used(tmp_path: Path) -> None:
    lightgbm = [
        write(tmp_path / str(fold), "lightgbm", split(*shares), fold)
        for fold, shares in ((1, (1, 0, 0, 0)), (2, (0.5, 0.5, 0, 0)))
    ]
    native = [write(tmp_path / "native", "native", split(0.5, 0.5, 0, 0))]
    found = compare_importances({"native": native, "lightgbm": lightgbm})
    assert found.ignored == ()
    assert toy_runs.mentions(found.notes[0], "No feature", "ignored")


def test_without_trees_a_feature_is_ignored_that_is_worth_nothing_in_any_kind(tmp_path: Path) -> None:
    linear = write(tmp_path / "linear", "linear", {WITHIN: [0.2, -0.01, 0, 0.1]})
    native = write(tmp_path / "native", "native", {SPLIT: [0.5, 0.2, 0.3, 0.0], WITHIN: [0.2, 0.1, 0.1, 0]})
    found = compare_importances({"linear": [linear], "native": [native]})
    assert [str(item) for item in found.ignored] == [
        "clicks (30.0 % by native's splits)",
        "age (+0.1000 by linear's permutation within queries)",
    ]


def test_many_ignored_features_are_counted_and_the_most_used_named(tmp_path: Path) -> None:
    names = tuple(f"f{number}" for number in range(15))
    shares = np.arange(15.0) / np.arange(15).sum()
    one, other = (
        write(tmp_path / model, model, {SPLIT: values}, names=names)
        for model, values in (("native", shares.tolist()), ("lightgbm", [1.0, *[0.0] * 14]))
    )
    note = compare_importances({"native": [one], "lightgbm": [other]}).notes[1]
    assert toy_runs.mentions(
        note, "lightgbm ignores 14 features", "f14 (13.3 % by native's", "f13 (", "and 4"
    )
    assert note.index("f14 (") < note.index("f13 (") < note.index("and 4")


def test_correlations_are_of_each_kind_that_two_have_and_the_least_is_told(tmp_path: Path) -> None:
    worth = {"native": [4.0, 3, 2, 1], "lightgbm": [4.0, 3, 1, 2], "xgboost": [1.0, 2, 3, 4]}
    runs = {model: [write(tmp_path / model, model, {WITHIN: values})] for model, values in worth.items()}
    runs["native"] = [write(tmp_path / "again", "native", {WITHIN: worth["native"], GAIN: [1, 0, 0, 0]})]
    found = compare_importances(runs)
    assert found.correlations == {WITHIN: ((1, 0.8, -1), (0.8, 1, -0.8), (-1, -0.8, 1))}
    parts = ("permutation within queries", "native and xgboost", "-1.00", "lowest")
    assert toy_runs.mentions(found.notes[-1], *parts)


def test_yardsticks_and_runs_that_recorded_nothing_are_left_out(tmp_path: Path) -> None:
    runs = {
        "native": [write(tmp_path / "native", "native", split(1, 0, 0, 0))],
        "random": [write(tmp_path / "random", "random", {WITHIN: [1, 1, 1, 1]})],
        "single_feature": [write(tmp_path / "single", "single_feature", split(0, 1, 0, 0))],
        "imported": [write(tmp_path / "imported", "imported", {})],
        "other": [write(tmp_path / "other", "other", split(0, 1, 0, 0), names=("a", "b", "c", "d"))],
    }
    found = compare_importances(runs)
    assert list(found.rows) == ["native"]
    assert toy_runs.mentions(found.notes[0], "other is", "left out", "names")
    nothing = compare_importances({"imported": runs["imported"]})
    assert (nothing.rows, nothing.kinds, nothing.order, nothing.notes) == ({}, (), (), ())


def test_the_folder_of_a_comparison_has_them_as_a_table_and_in_words(tmp_path: Path) -> None:
    fall = {WITHIN: [0.1, 0.2, 0, 0], WITHIN + LOW: [0.05, 0.1, 0, 0], WITHIN + HIGH: [0.15, 0.3, 0, 0]}
    runs = [
        write(tmp_path / "native", "native", fall | split(0.5, 0.5, 0, 0)),
        write(tmp_path / "lightgbm", "lightgbm", split(0.9, 0, 0.1, 0)),
    ]
    publish(compare(runs), tmp_path / "out")
    with (tmp_path / "out" / "importances.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["feature"] for row in rows] == ["body", "title", "clicks", "age"]
    assert (rows[0]["data"], rows[0]["native permutation_within_high"]) == ("toy", "0.3")
    assert "lightgbm permutation_within" not in rows[0]
    assert rows[1]["lightgbm shap"] == "0.9"
    text = (tmp_path / "out" / "importances.md").read_text()
    assert "| body    | +0.2000 |        - |" in text
    assert toy_runs.mentions(text, "- lightgbm ignores", "body (50.0 % by native's")
    assert (tmp_path / "out" / "importances.png").exists()
    page = (tmp_path / "out" / "report.html").read_text()
    assert toy_runs.mentions(page, "lightgbm ignores", "body (50.0 % by native")
    assert toy_runs.mentions(page, "Spearman&#39;s", "by mean |SHAP|")
    assert "[+0.1000, +0.3000]" in page


def test_of_two_data_sets_a_model_that_one_lacks_has_empty_cells(tmp_path: Path) -> None:
    first = compare_importances({"native": [write(tmp_path / "a", "native", split(1, 0, 0, 0))]})
    second = compare_importances({"lightgbm": [write(tmp_path / "b", "lightgbm", split(0, 1, 0, 0))]})
    rows = list(csv.DictReader(importances_csv({"one": first, "two": second}).splitlines()))
    assert (rows[0]["native split"], rows[0]["lightgbm split"]) == ("1", "")
    assert importances_markdown("one", first).startswith(
        "## one\n\nBy mean |SHAP|:\n\n| feature |  native |\n"
    )
