"""Pictures, from run folders that the tests write by hand: what is drawn is what the runs hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_runs
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ltrbench.plots import (
    FIT,
    Series,
    best_by_trials,
    critical_difference_diagram,
    curves_by_iteration,
    importance_bars,
    metric_against_cost,
    pareto_front,
    styles_of,
    write_figures,
)
from ltrbench.rankers.importance import (
    ACROSS,
    GAIN,
    HIGH,
    LOW,
    SHAP,
    WITHIN,
    Importances,
    shares,
)
from ltrbench.runs.record import LearningCurve, Run

FEATURES = ("age", "bm25", "clicks")


def curve(fold: int, length: int) -> LearningCurve:
    rng = np.random.default_rng([fold, length])
    names = ("train/ndcg@5", "valid/ndcg@5", "valid/ndcg@10")
    return LearningCurve(
        [*range(1, length + 1)], {name: rng.random(length).tolist() for name in names}
    )


def importances_of(fold: int) -> Importances:
    rng = np.random.default_rng(fold)
    fall, half, across = rng.random((3, len(FEATURES)))
    falls = {
        WITHIN: fall,
        WITHIN + LOW: fall - half,
        WITHIN + HIGH: fall + half,
        ACROSS: across,
    }
    return Importances(
        FEATURES,
        {**falls, **{kind: shares(rng.random(len(FEATURES))) for kind in (SHAP, GAIN)}},
    )


def write(folder: Path, model: str = "native", *, fold: int = 1, **parts: Any) -> Run:
    """A finished run with every part; those given replace the defaults; None leaves a part out."""
    config = {"model": {}, "importance": {"metric": "ndcg@5"}}
    defaults = {
        "curve": curve(fold, 8),
        "importances": importances_of(fold),
        "best_iteration": 2,
        "config": config,
    }
    return toy_runs.write(folder, model, fold=fold, **{**defaults, **parts})


def series(*runs: Run, label: str | None = None, **values: Any) -> Series:
    """With values on test; those given replace the defaults."""
    model = runs[0].result.model
    return Series(label or model, model, runs, **{"value": 0.6, **values})


def points(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def pictures(
    given_series: Sequence[Series], seconds: float | None = 1.0
) -> dict[str, Figure | None]:
    return {
        "curves.png": curves_by_iteration(given_series, "ndcg@5"),
        "importances.png": importance_bars(given_series),
        "costs.png": metric_against_cost(
            given_series, [seconds] * len(given_series), FIT, "ndcg@5 on test"
        ),
    }


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    given_series = [series(write(tmp_path / name, name)) for name in ("native", "mine")]
    first, second = (
        write_figures(tmp_path / str(time), pictures(given_series)) for time in range(2)
    )
    assert len(first) == 3
    assert [path.read_bytes() for path in first] == [
        path.read_bytes() for path in second
    ]
    assert not any(
        word in path.read_bytes() for path in first for word in (b"tEXt", b"tIME")
    )


def test_the_axis_of_iterations_names_trees_and_shorter_runs_where_there_are_any(
    tmp_path: Path,
) -> None:
    network = {"class": "mlp", "fields": {"num_epochs": 8}}
    of_trees = series(write(tmp_path / "a", "native"))
    of_network = series(write(tmp_path / "b", "mlp", ranker=network))
    short = write(tmp_path / "c", "native", fold=2, curve=curve(2, 5))
    is_cut = series(*of_trees.runs, short)

    def words_of(*given: Series) -> str:
        return drawn(curves_by_iteration(given, "ndcg@5")).axes[-1].get_xlabel()

    assert ["tree" in words_of(of_trees), "shortest" in words_of(of_trees)] == [1, 0]
    assert "tree" not in words_of(of_trees, of_network)
    assert ["tree" in words_of(is_cut), "shortest" in words_of(is_cut)] == [1, 1]


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ({"curve": None}, "curves.png"),
        ({"curve": LearningCurve([1], {"valid/ndcg@5": [np.nan]})}, "curves.png"),
        ({"importances": None}, "importances.png"),
        (
            {"importances": Importances(("age",), {WITHIN: np.full(1, np.nan)})},
            "importances.png",
        ),
        ({"values": {"value": None}}, "costs.png"),
        ({"seconds": None}, "costs.png"),
    ],
)
def test_a_picture_without_data_is_left_out(
    tmp_path: Path, parts: dict[str, Any], missing: str
) -> None:
    values, seconds = parts.pop("values", {}), parts.pop("seconds", 1.0)
    figures = pictures([series(write(tmp_path / "run", **parts), **values)], seconds)
    assert [name for name, figure in figures.items() if figure is None] == [missing]


def named(*models: str) -> list[Series]:
    return [
        Series(f"{model} {number}", model, ()) for number, model in enumerate(models)
    ]


@given(
    st.lists(
        st.sampled_from(["native", "lightgbm", "xgboost", "random", "mine", "yours"]),
        min_size=1,
    )
)
def test_a_backend_has_one_colour_and_marker_whatever_stands_beside_it(
    models: list[str],
) -> None:
    for model, style in zip(models, styles_of(named(*models)), strict=True):
        (alone,) = styles_of(named(model))
        assert (style.colour, style.points["marker"]) == (
            alone.colour,
            alone.points["marker"],
        )


def bars(axes: Axes, number: int) -> list[float]:
    """The widths of the bars of a series, from the top."""
    return [bar.get_width() for bar in list(axes.containers)[number]]


def test_bars_are_means_over_runs_and_the_most_important_feature_is_first(
    tmp_path: Path,
) -> None:
    runs = [write(tmp_path / str(fold), fold=fold) for fold in (1, 2)]
    panels = drawn(importance_bars([series(*runs)])).axes
    kinds = {WITHIN: 1, ACROSS: 1, SHAP: 100}
    means = {
        kind: np.mean([run.importances().values[kind] for run in runs], axis=0)
        for kind in kinds
    }
    order = np.argsort(-means[WITHIN])
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [
        FEATURES[feature] for feature in order
    ]
    for axes, (kind, factor) in zip(panels, kinds.items(), strict=True):
        assert bars(axes, 0) == (factor * means[kind][order]).tolist()
    assert "ndcg@5" in panels[0].get_xlabel()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1))
def test_the_pareto_front_is_what_no_other_point_beats_in_cost_and_value(
    given_points: list[tuple[int, int]],
) -> None:
    front = pareto_front(given_points)
    beaten = {
        (cost, value)
        for cost, value in given_points
        for other, its in given_points
        if other <= cost and its >= value and (other, its) != (cost, value)
    }
    assert front == sorted(set(given_points) - beaten)


def test_names_that_are_neither_plain_nor_short_are_drawn_without_a_warning(
    tmp_path: Path,
) -> None:
    names = ("$x_1 {", "点击\nrate", "title_" * 20)
    features = Importances(names, {WITHIN: np.array([3.0, 2.0, 1.0])})
    runs = [
        write(tmp_path / str(n), "_model $", importances=features) for n in range(2)
    ]
    labelled = [
        series(run, label=f"_model $ 点 {'learning_rate=0.1 ' * 9}{n}")
        for n, run in enumerate(runs)
    ]
    assert len(write_figures(tmp_path / "pictures", pictures(labelled))) == 3
    shown = [
        label.get_text()
        for label in drawn(importance_bars(labelled)).axes[0].get_yticklabels()
    ]
    assert shown == [
        "$x_1 {",
        r"\u70b9\u51fb rate",
        f"{'title_' * 2}…{('title_' * 20)[-11:]}",
    ]


def test_a_line_has_the_best_values_and_a_mark_beside_it_the_value_on_test() -> None:
    curves = [
        replace(item, best=best, test=test)
        for item, best, test in zip(
            named("native", "lightgbm"),
            ([0.4, 0.45, 0.5], [0.4, 0.42]),
            ((3, 0.45), (2, 0.46)),
            strict=True,
        )
    ]
    left, right = drawn(best_by_trials(curves, "ndcg@10", is_expected=True)).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in left.lines] == [
        item.best for item in curves
    ]
    assert [point for line in right.lines for point in points(line)] == [
        (3, 0.45),
        (2, 0.46),
    ]
    assert "expected" in left.get_ylabel()
    assert "test" in right.get_ylabel()
    lengths = [high - low for low, high in (left.get_ylim(), right.get_ylim())]
    assert lengths[0] == pytest.approx(lengths[1])


def test_a_critical_difference_diagram_names_models_by_rank_and_joins_those_without_a_difference() -> (
    None
):
    names = ("native", "lightgbm", "random")
    (axes,) = critical_difference_diagram(names, (1.2, 1.8, 3.0), 0.9, [(0, 1)]).axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == [
        "native  1.20",
        "lightgbm  1.80",
        "random  3.00",
        "critical difference 0.90",
    ]
    (bar,) = (line for line in axes.lines if line.get_linewidth() == 3)
    assert [x for x, _ in points(bar)] == [1.2, 1.8]
