"""Pictures of searches: what is drawn is what the trials hold."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltrbench.plots import Series
from ltrbench.plots.drawing.panels import Page
from ltrbench.plots.report.budgets import BudgetCurve, best_by_trials
from ltrbench.plots.report.settings import TrialPoint, setting_importance_bars, values_by_setting

METRIC = "ndcg@10"
SPACE = {"num_leaves": "4 to 64", "l2": "0.1 to 100 (log)", "criterion": "gain, squares"}


def series(label: str) -> Series:
    return Series(label, label.partition(" ")[0], ())


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def points(axes: Axes) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for line in axes.lines for x, y in np.asarray(line.get_xydata())]


def test_a_line_has_the_best_values_and_a_mark_beside_it_the_value_on_test() -> None:
    curves = [
        BudgetCurve(series("native"), [0.4, 0.45, 0.5], (3, 0.45)),
        BudgetCurve(series("lightgbm"), [0.4, 0.42], (2, 0.46)),
    ]
    left, right = drawn(best_by_trials(curves, METRIC, is_expected=True)).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in left.lines] == [item.best for item in curves]
    assert points(right) == [(3, 0.45), (2, 0.46)]
    assert "expected" in left.get_ylabel()
    assert "test" in right.get_ylabel()
    lengths = [high - low for low, high in (left.get_ylim(), right.get_ylim())]
    assert lengths[0] == pytest.approx(lengths[1])


def test_without_values_on_test_there_is_one_panel_and_the_best_so_far_is_not_expected() -> None:
    curves = [BudgetCurve(series("native"), [math.nan, 0.45], None)]
    (axes,) = drawn(best_by_trials(curves, METRIC, is_expected=False)).axes
    assert "expected" not in axes.get_ylabel()


@pytest.mark.parametrize("best", [[], [math.nan]])
def test_without_a_complete_trial_there_is_no_picture(best: list[float]) -> None:
    assert best_by_trials([BudgetCurve(series("native"), best, None)], METRIC, is_expected=True) is None


def test_bars_are_shares_in_percent_with_the_most_important_setting_first() -> None:
    shares: list[tuple[Series, Mapping[str, float]]] = [
        (series("native"), {"l2": 0.3, "num_leaves": 0.7}),
        (series("lightgbm"), {"l2": 0.2}),
        (series("random"), {}),
    ]
    figure = drawn(setting_importance_bars(shares))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["num_leaves", "l2"]
    # Each row has fillings and outlines.
    widths = [[bar.get_width() for bar in bars] for bars in axes.containers]
    assert widths[::2] == [[70, 30], [0, 20]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["native", "lightgbm"]


def test_without_shares_there_are_no_bars() -> None:
    assert setting_importance_bars([(series("native"), {})]) is None


def point(leaves: object, l2: object, criterion: str, value: float, **flags: bool) -> TrialPoint:
    settings = {"num_leaves": str(leaves), "l2": str(l2), "criterion": criterion}
    return TrialPoint(settings, value, **{"is_chosen": False, "is_default": False, **flags})


TRIALS = [
    point(31, 0.0, "gain", -0.02, is_default=True),
    point(8, 50.0, "squares", 0.0, is_chosen=True),
    point(60, 0.2, "gain", -0.01),
]


@pytest.mark.parametrize("page", [Page(5.0), Page(7.0)])
def test_a_panel_has_a_point_for_each_trial_on_the_scale_of_its_range(page: Page) -> None:
    figure = drawn(values_by_setting(series("native"), SPACE, TRIALS, METRIC, page))
    leaves, l2, criterion = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == list(SPACE)
    assert [axes.get_xscale() for axes in figure.axes] == ["linear", "log", "linear"]
    assert points(leaves) == [(31, -0.02), (8, 0), (60, -0.01)]
    assert points(l2) == [(50, 0), (0.2, -0.01)], "0 has no place on a logarithmic axis"
    assert points(criterion) == [(0, -0.02), (1, 0), (0, -0.01)]
    assert [label.get_text() for label in criterion.get_xticklabels()] == ["gain", "squares"]
    keys = [text.get_text() for text in figure.legends[0].get_texts()]
    assert keys == ["trial", "chosen trial", "default settings"]


def test_values_of_a_list_are_in_the_order_of_their_numbers() -> None:
    trials = [point(leaves, 1, "gain", 0.0) for leaves in (31, 127, 8, "null")]
    (axes,) = drawn(values_by_setting(series("native"), {"num_leaves": "8, 31, 127"}, trials, METRIC)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "31", "127", "null"]


def test_a_default_that_is_no_number_is_left_out_of_the_panel_of_an_interval() -> None:
    trials = [point("null", 1, "gain", -0.1, is_default=True), *TRIALS[1:]]
    axes, *_ = drawn(values_by_setting(series("native"), SPACE, trials, METRIC)).axes
    assert points(axes) == [(8, 0), (60, -0.01)]


@pytest.mark.parametrize(("space", "trials"), [({}, TRIALS), (SPACE, TRIALS[:1]), (SPACE, [])])
def test_without_settings_or_with_one_trial_there_are_no_slices(
    space: dict[str, str], trials: list[TrialPoint]
) -> None:
    assert values_by_setting(series("native"), space, trials, METRIC) is None
