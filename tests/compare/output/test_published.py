"""Published values: alone without a convention, beside the rows of the comparison under a convention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_cases import METRICS
from toy_runs import mentions, write

from ltrbench.compare import Comparison, Settings, compare, render
from ltrbench.compare.output.published import about_published, published_table
from ltrbench.metrics import preset

FIGURES = {"A": {"ndcg@5": 0.25}, "B": {"ndcg@10": 0.5}}


def comparison_of(folder: Path, settings: Settings | None = None, **published: Any) -> Comparison:
    """Two models over two folds, of a data set with published values."""
    data = {"published": {"source": "A paper.", "figures": FIGURES, **published}}
    runs = [
        write(folder / f"{model}{fold}", model, fold=fold, skill=skill, data_settings=data)
        for model, skill in (("native", 2.0), ("xgboost", 1.0))
        for fold in (1, 2)
    ]
    (comparison,) = compare(runs, settings)
    return comparison


def lines_of(comparison: Comparison) -> list[str]:
    assert comparison.published is not None
    return published_table(comparison, comparison.published, ".4f").markdown().splitlines()


def test_values_without_a_convention_are_shown_alone(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    assert lines_of(comparison) == [
        "| published | ndcg@5 | ndcg@10 |",
        "|:----------|-------:|--------:|",
        "| A         | 0.2500 |       - |",
        "| B         |      - |  0.5000 |",
    ]
    assert comparison.published is not None
    assert about_published(comparison.published) == "A paper."


@pytest.mark.parametrize("convention", ["default", "lightgbm", "letor4"])
def test_rows_stand_beside_published_values_under_their_convention(convention: str, tmp_path: Path) -> None:
    # The convention of the comparison is another one.
    comparison = comparison_of(tmp_path, Settings(convention=preset("xgboost")), convention=convention)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines_of(comparison)]
    assert [row[:2] for row in rows[2:]] == [
        ["published", "A"],
        ["published", "B"],
        ["here, folds 1, 2", "native"],
        ["here, folds 1, 2", "xgboost"],
    ]
    evaluated = comparison.row("native").group.under(preset(convention), METRICS)
    assert rows[4][2:] == [f"{evaluated.mean(metric):.4f}" for metric in METRICS]
    assert mentions(render(comparison), "A paper.", "same convention", convention)


def test_a_metric_that_is_unknown_or_not_defined_is_not_available_for_the_rows(tmp_path: Path) -> None:
    figures = {"A": {"rbp@10": 0.25, "mrr": 0.5, "ndcg@0": 0.75}}
    # LightGBM has no mrr.
    lines = lines_of(comparison_of(tmp_path, figures=figures, convention="lightgbm"))
    assert [cell.strip() for cell in lines[-1].split("|")[3:-1]] == ["-", "-", "-"]
