"""Pictures, from run folders that the tests write by hand: what is drawn is what the runs hold."""

from __future__ import annotations

import itertools
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from numpy.typing import NDArray

from ltrbench.plots import Series, draw_run, draw_series, figures_of
from ltrbench.plots.costs import FIT, Cost, fit_seconds, metric_against_cost, pareto_front
from ltrbench.plots.cutoffs import limits_of_ndcg, ndcg_by_cutoff
from ltrbench.plots.drawing.panels import Page
from ltrbench.plots.drawing.styles import COLOURS, OTHER_COLOURS, styles_of
from ltrbench.plots.importances import importance_bars
from ltrbench.plots.learning_curves import curves_by_iteration
from ltrbench.plots.report.differences import Differences, sorted_differences, thinned
from ltrbench.plots.report.distributions import distribution_over_queries, evenly_thinned
from ltrbench.plots.report.ranks import critical_difference_diagram
from ltrbench.plots.report.scatter import MOST_POINTS, QueryPairs, scatter
from ltrbench.plots.report.variances import QUERY, TRAINING, TRAINING_BY_QUERY, ErrorParts, variance_shares
from ltrbench.rankers.models.importance import (
    ACROSS,
    DROP_COLUMN,
    GAIN,
    HIGH,
    LOW,
    SHAP,
    WITHIN,
    Importances,
    averaged,
    shares,
)
from ltrbench.results import FAILED, FINISHED, LearningCurve, Run, RunResult, write_run

PICTURES = ["learning_curves.png", "ndcg_at_k.png", "importances.png", "time_against_ndcg.png"]
FEATURES = ("age", "bm25", "clicks")
NDCG = (0.5, 0.55, 0.6, 0.6)


def curve(fold: int, length: int) -> LearningCurve:
    rng = np.random.default_rng([fold, length])
    names = ("train/ndcg@5", "valid/ndcg@5", "valid/ndcg@10")
    return LearningCurve([*range(1, length + 1)], {name: rng.random(length).tolist() for name in names})


def worth(fold: int) -> Importances:
    rng = np.random.default_rng(fold)
    fall, half, across = rng.random((3, len(FEATURES)))
    falls = {WITHIN: fall, WITHIN + LOW: fall - half, WITHIN + HIGH: fall + half, ACROSS: across}
    return Importances(
        FEATURES, {**falls, **{kind: shares(rng.random(len(FEATURES))) for kind in (SHAP, GAIN)}}
    )


def write(folder: Path, model: str = "native", *, fold: int = 1, **parts: Any) -> Run:
    """A finished run with every part; those given stand in for its own, None for none."""
    result = RunResult(
        status=FINISHED,
        model=model,
        params="matched",
        seed=0,
        data={
            "name": "toy",
            "fold": fold,
            "train": {"fingerprint": "a", "features": 3},
            "test": {"fingerprint": "b", "queries_without_relevant_document": 0.0},
        },
        metrics={"test/ndcg@5": 0.5},
        convention={"name": "default", "gain": "exponential_gain"},
        seconds={"fit": float(fold)},
        best_iteration=2,
        config={
            "model": {"early_stopping": {"metric": "ndcg@10"}},
            "importance": {"metric": "ndcg@5"},
        },
    )
    own = {
        "curve": curve(fold, 8),
        "importances": worth(fold),
        **parts,
    }
    return write_run(folder, replace(result, **own.pop("result", {})), **own)


def series(*runs: Run, label: str | None = None, **values: Any) -> Series:
    """With values on test; those given stand in for its own."""
    model = runs[0].result.model
    return Series(label or model, model, runs, **{"value": 0.6, "ndcg": NDCG, **values})


def lines_of(axes: Axes, *, wider_than: float = 1.0) -> list[Line2D]:
    """The lines of means, without edges of bands, train and marks."""
    return [
        line for line in axes.lines if line.get_linestyle() != "None" and line.get_linewidth() > wider_than
    ]


def points(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


# Files


def test_every_picture_is_drawn_into_a_folder_that_need_not_exist(tmp_path: Path) -> None:
    drawn_series = [series(write(tmp_path / name, name)) for name in ("native", "lightgbm")]
    folder = tmp_path / "some" / "pictures"
    assert draw_series(drawn_series, "ndcg@5", folder) == [folder / name for name in PICTURES]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())


def test_a_single_run_has_its_own_two_pictures(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    assert draw_run(run, tmp_path) == [tmp_path / "learning_curve.png", tmp_path / "importances.png"]


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    given_series = [series(write(tmp_path / name, name)) for name in ("native", "mine")]
    first, second = (draw_series(given_series, "ndcg@5", tmp_path / str(time)) for time in range(2))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert not any(word in path.read_bytes() for path in first for word in (b"tEXt", b"tIME"))


def test_neither_the_import_needs_matplotlib_nor_the_drawing_pyplot(tmp_path: Path) -> None:
    write(tmp_path / "run")
    code = f"""
import sys
from pathlib import Path
from ltrbench.plots import Series, draw_series
from ltrbench.results import read_run
assert "matplotlib" not in sys.modules
run = read_run(Path({str(tmp_path / "run")!r}))
drawn = Series("native", "native", (run,), 0.6, {NDCG})
assert len(draw_series([drawn], "ndcg@5", Path({str(tmp_path)!r}))) == 4
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# What is left out


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ({"curve": None}, ["learning_curves.png"]),
        ({"curve": LearningCurve([1], {"valid/ndcg@5": [np.nan]})}, ["learning_curves.png"]),
        ({"curve": LearningCurve([1], {"train/ndcg@5": [0.5]})}, ["learning_curves.png"]),
        ({"importances": None}, ["importances.png"]),
        ({"importances": Importances(("age",), {WITHIN: np.zeros(1)})}, ["importances.png"]),
        ({"importances": Importances(("age",), {WITHIN: np.full(1, np.nan)})}, ["importances.png"]),
        ({"importances": Importances(("age",), {"split": np.ones(1)})}, ["importances.png"]),
        ({"values": {"ndcg": ()}}, ["ndcg_at_k.png"]),
        ({"values": {"value": None}}, ["time_against_ndcg.png"]),
        ({"result": {"seconds": {}}}, ["time_against_ndcg.png"]),
    ],
)
def test_a_picture_without_data_is_left_out(
    tmp_path: Path, parts: dict[str, Any], missing: Sequence[str]
) -> None:
    values = parts.get("values", {})
    run = write(tmp_path / "run", **{name: part for name, part in parts.items() if name != "values"})
    figures = figures_of([series(run, **values)], "ndcg@5")
    assert [name for name, figure in figures.items() if figure is None] == missing


def test_a_series_without_data_leaves_the_others_in(tmp_path: Path) -> None:
    whole, without = write(tmp_path / "a", "native"), write(tmp_path / "b", "lightgbm", curve=None)
    figure = drawn(curves_by_iteration([series(whole), series(without)], "ndcg@5"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["native", "iteration kept"]


def test_failed_runs_are_not_drawn_and_make_no_folder(tmp_path: Path) -> None:
    failed = write(tmp_path / "run", result={"status": FAILED})
    assert draw_series([series(failed)], "ndcg@5", tmp_path / "pictures") == []
    assert draw_run(failed, tmp_path / "pictures") == []
    assert not (tmp_path / "pictures").exists()


# Styles


def named(*models: str) -> list[Series]:
    return [Series(f"{model} {number}", model, ()) for number, model in enumerate(models)]


@given(st.lists(st.sampled_from(["native", "lightgbm", "xgboost", "random", "mine", "yours"]), min_size=1))
def test_a_backend_has_one_colour_marker_and_hatch_whatever_stands_beside_it(models: list[str]) -> None:
    for model, style in zip(models, styles_of(named(*models)), strict=True):
        (alone,) = styles_of(named(model))
        assert (style.colour, style.marker, style.hatch) == (alone.colour, alone.marker, alone.hatch)


def test_the_known_backends_have_colours_of_their_own_and_another_takes_one_of_the_rest() -> None:
    known = ["native", "lightgbm", "xgboost", "catboost", "single_feature", "random"]
    colours = {style.colour for style in styles_of(named(*known))}
    (mine,) = styles_of(named("mine"))
    assert len(colours) == len(known)
    assert mine.colour == OTHER_COLOURS[zlib.crc32(b"mine") % 2]
    assert mine.colour not in colours


@pytest.mark.parametrize("count", [2, 8, 12])
def test_the_rows_of_a_backend_differ_in_line_or_filling_and_in_tint(count: int) -> None:
    styles = styles_of(named(*["lightgbm"] * count))
    assert len({(style.line, style.filling) for style in styles}) == count
    assert len({style.tint for style in styles}) == count


def test_models_of_one_colour_do_not_look_alike() -> None:
    models = ["mine", "yours", "linear", "neural", "a", "b", "c", "d"]
    looks = [(s.colour, s.marker, s.line, s.filling) for s in styles_of(named(*models))]
    assert len(set(looks)) == len(models)


# Learning curves


def test_a_curve_is_the_mean_over_runs_up_to_where_the_shortest_ends(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(n), fold=n, curve=curve(n, length)) for n, length in ((1, 9), (2, 6))]
    figure = drawn(curves_by_iteration([series(*runs)], "ndcg@10"))
    expected = np.mean([run.learning_curve().values["valid/ndcg@10"][:6] for run in runs], axis=0)
    (line,) = lines_of(figure.axes[-1])
    assert points(line) == list(zip(range(1, 7), expected.tolist(), strict=True))


def test_the_band_reaches_from_the_lowest_run_to_the_highest(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(fold), fold=fold) for fold in (1, 2, 3)]
    axes = drawn(curves_by_iteration([series(*runs)], "ndcg@5")).axes[-1]
    values = np.array([run.learning_curve().values["valid/ndcg@5"] for run in runs])
    (band,) = axes.collections
    corners = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (corners.min(), corners.max()) == (values.min(), values.max())


def test_each_run_is_marked_at_the_iteration_that_it_kept(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / str(fold), fold=fold, result={"best_iteration": best})
        for fold, best in ((1, 5), (2, 8), (3, None))
    ]
    axes = drawn(curves_by_iteration([series(*runs)], "ndcg@5")).axes[-1]
    (marks,) = marks_of(axes)
    values = [run.learning_curve().values["valid/ndcg@5"] for run in runs]
    assert points(marks) == [(5, values[0][4]), (8, values[1][7])]


def test_train_stands_above_validation_where_it_was_recorded(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    both = drawn(curves_by_iteration([series(run)], "ndcg@5")).axes
    assert [axes.get_ylabel() for axes in both] == ["ndcg@5, train", "ndcg@5, validation"]
    assert points(both[0].lines[0]) == list(enumerate(run.learning_curve().values["train/ndcg@5"], start=1))
    assert len(drawn(curves_by_iteration([series(run)], "ndcg@10")).axes) == 1


def test_a_metric_that_was_not_recorded_gives_way_to_the_first_that_was(tmp_path: Path) -> None:
    figure = drawn(curves_by_iteration([series(write(tmp_path / "run"))], "map"))
    assert figure.axes[-1].get_ylabel() == "ndcg@5, validation"


# NDCG by cutoff


def test_a_line_of_ndcg_runs_over_the_cutoffs_that_its_series_has(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    long, short = series(run, ndcg=(0.5, 0.6, 0.7)), series(run, ndcg=(0.4, 0.5))
    lines = drawn(ndcg_by_cutoff([long, series(run, ndcg=()), short])).axes[0].lines
    assert [points(line) for line in lines] == [[(1, 0.5), (2, 0.6), (3, 0.7)], [(1, 0.4), (2, 0.5)]]


@given(st.lists(st.floats(0, 1), min_size=1))
def test_the_axis_of_ndcg_holds_every_value_and_is_cut_only_below_half_of_the_highest(
    values: list[float],
) -> None:
    bottom, top = limits_of_ndcg(values)
    assert bottom <= min(values) <= max(values) < top
    assert bottom == 0 or (min(values) >= max(values) / 2 and top - bottom >= 0.2 - 1e-12)


def test_an_axis_that_does_not_begin_at_0_says_so(tmp_path: Path) -> None:
    axes = drawn(ndcg_by_cutoff([series(write(tmp_path / "run"))])).axes[0]
    bottom = axes.get_ylim()[0]
    assert bottom > 0
    assert f"{bottom:.2f}" in axes.get_ylabel()


# Importances


def bars(axes: Axes, number: int) -> list[float]:
    """The widths of the bars of a series, from the top; every series has fillings and outlines."""
    return [bar.get_width() for bar in list(axes.containers)[number]]


def test_bars_are_means_over_runs_and_the_feature_worth_most_stands_first(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(fold), fold=fold) for fold in (1, 2)]
    left, middle, right = drawn(importance_bars([series(*runs)])).axes
    permutation, shap, gain = (
        np.mean([run.importances().values[kind] for run in runs], axis=0) for kind in (WITHIN, SHAP, GAIN)
    )
    order = np.argsort(-permutation)
    assert [label.get_text() for label in left.get_yticklabels()] == [FEATURES[place] for place in order]
    assert bars(left, 0) == permutation[order].tolist()
    assert bars(middle, 0) == (100 * shap[order]).tolist()
    assert bars(right, 0) == (100 * gain[order]).tolist()
    assert "ndcg@5" in left.get_xlabel()


def test_whiskers_are_the_interval_of_the_mean_over_runs(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(fold), fold=fold) for fold in (1, 2)]
    mean = averaged([[run.importances()] for run in runs]).values
    axes, *_ = drawn(importance_bars([series(*runs)])).axes
    whiskers = next(item for item in axes.collections if isinstance(item, LineCollection)).get_segments()
    ends = [np.asarray(whisker)[:, 0] for whisker in whiskers]
    expected = np.array([mean[WITHIN + LOW], mean[WITHIN + HIGH]]).T[np.argsort(-mean[WITHIN])]
    np.testing.assert_allclose(ends, expected)


def test_a_dot_is_the_fall_across_queries_and_of_an_early_run_it_is_the_bar(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    axes, *_ = drawn(importance_bars([series(run)])).axes
    values = run.importances().values
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert [x for x, _ in points(dots)] == values[ACROSS][np.argsort(-values[WITHIN])].tolist()
    early = write(tmp_path / "early", importances=Importances(FEATURES, {ACROSS: values[ACROSS]}))
    (axes,) = drawn(importance_bars([series(early)])).axes
    assert bars(axes, 0) == sorted(values[ACROSS], reverse=True)
    assert "across queries" in axes.get_xlabel()


def test_drop_column_was_asked_for_and_takes_the_panel_of_the_gain(tmp_path: Path) -> None:
    values = worth(1).values
    dropped = Importances(FEATURES, {**values, DROP_COLUMN: values[WITHIN]})
    run = write(tmp_path / "run", importances=dropped)
    labels = [axes.get_xlabel() for axes in drawn(importance_bars([series(run)])).axes]
    assert ["within" in labels[0], "without" in labels[1], "SHAP" in labels[2]] == [True] * len(labels)


def test_yardsticks_have_no_bars(tmp_path: Path) -> None:
    runs = [write(tmp_path / name, name) for name in ("native", "single_feature", "random")]
    left, *_ = drawn(importance_bars([series(run) for run in runs])).axes
    alone, *_ = drawn(importance_bars([series(runs[0])])).axes
    assert bars(left, 0) == bars(alone, 0)
    assert len(left.containers) == len(alone.containers)


def test_without_permutation_the_gain_orders_the_features_and_stands_alone(tmp_path: Path) -> None:
    only = Importances(FEATURES, {"gain": np.array([0.2, 0.5, 0.3])})
    (axes,) = drawn(importance_bars([series(write(tmp_path / "run", importances=only))])).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bm25", "clicks", "age"]
    assert bars(axes, 0) == [50.0, 30.0, 20.0]


def test_of_many_features_the_fifteen_worth_most_are_shown(tmp_path: Path) -> None:
    values = np.arange(40.0)
    many = Importances(tuple(f"f{n}" for n in range(40)), {WITHIN: values})
    (axes,) = drawn(importance_bars([series(write(tmp_path / "run", importances=many))])).axes
    expected = [f"f{n}" for n in range(39, 24, -1)]
    assert [label.get_text() for label in axes.get_yticklabels()] == expected


# Time


def time_figure(given_series: Sequence[Series]) -> Figure:
    return drawn(metric_against_cost(given_series, [*map(fit_seconds, given_series)], FIT, "ndcg@5"))


def marks_of(axes: Axes) -> list[Line2D]:
    """The points of series, without the line of the Pareto front."""
    return [line for line in axes.lines if line.get_linestyle() == "None"]


def test_a_point_is_the_mean_time_and_the_value(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(fold), fold=fold) for fold in (1, 3)]
    (point,) = marks_of(time_figure([series(*runs, value=0.4)]).axes[0])
    assert points(point) == [((1 + 3) / 2, 0.4)]


@pytest.mark.parametrize(("slowest", "scale"), [(9.0, "linear"), (11.0, "log")])
def test_the_axis_of_time_is_logarithmic_above_a_tenfold_spread(
    tmp_path: Path, slowest: float, scale: str
) -> None:
    runs = [write(tmp_path / str(time), result={"seconds": {"fit": time}}) for time in (1.0, slowest)]
    axes = time_figure([series(run) for run in runs]).axes[0]
    assert axes.get_xscale() == scale
    assert ("log scale" in axes.get_xlabel()) == (scale == "log")


def test_a_fit_too_brief_to_time_stands_at_the_least_time_that_the_axis_shows(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(time), result={"seconds": {"fit": time}}) for time in (0.0, 1e-6, 1.0)]
    axes = time_figure([series(run) for run in runs]).axes[0]
    assert [points(line)[0][0] for line in marks_of(axes)] == [0.01, 0.01, 1.0]
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    assert "≤ 0.01" in [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize("width", [5.0, 7.0])
@pytest.mark.parametrize("most", [0.0011, 0.003, 0.02, 0.4, 30.0, 4e4])
def test_the_labels_of_a_logarithmic_axis_do_not_overlap_and_have_no_exponent(
    tmp_path: Path, width: float, most: float
) -> None:
    runs = [series(write(tmp_path / "a")), series(write(tmp_path / "b"))]
    size = Cost("the size of the model", "model on disk, MB", 0.0001)
    figure = drawn(metric_against_cost(runs, [0.00007, most], size, "ndcg@5", Page(width, titled=False)))
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_xlim()
    labels = figure.axes[0].get_xticklabels()
    shown = [label for label in labels if low <= label.get_position()[0] <= high]
    boxes = [label.get_window_extent() for label in shown]
    assert len(shown) >= 2
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    assert not any("e" in label.get_text() for label in shown)
    assert shown[0].get_text() == "≤ 0.0001"


def test_the_labels_of_crowded_points_do_not_overlap(tmp_path: Path) -> None:
    crowd = [
        series(
            write(tmp_path / str(n), result={"seconds": {"fit": 1 + n % 4 / 100}}),
            label=f"native num_leaves={n}",
        )
        for n in range(12)
    ]
    figure = time_figure(crowd)
    notes = [child for child in figure.axes[0].texts if isinstance(child, Annotation)]
    boxes = [Text.get_window_extent(note) for note in notes]
    assert len(boxes) == len(crowd)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1))
def test_the_pareto_front_is_what_no_other_point_beats_in_cost_and_worth(
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


def test_the_pareto_front_is_drawn_as_a_stair_from_the_cheapest_to_the_edge(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(time), result={"seconds": {"fit": time}}) for time in (1.0, 2.0)]
    axes = time_figure([series(run) for run in runs]).axes[0]
    (front,) = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert points(front)[0] == points(marks_of(axes)[0])[0]
    assert points(front)[-1][0] == axes.get_xlim()[1]


# Differences by query


@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=1, max_size=2000))
def test_a_thinned_curve_keeps_the_ends_and_the_shares_of_wins_and_losses(values: list[float]) -> None:
    descending = np.sort(np.array(values))[::-1]
    shares, thin = thinned(descending)
    assert len(thin) <= 2 * 260
    assert (thin[0], thin[-1], shares[0], shares[-1]) == (descending[0], descending[-1], 0, 1)
    widths = np.diff(shares)[::2]
    for sign in (1, -1):
        share = widths[sign * thin[::2] > 0].sum()
        assert share == pytest.approx((sign * descending > 0).mean(), abs=1e-12)


def test_the_areas_of_sorted_differences_are_the_queries_that_each_wins() -> None:
    drawn_pair = Differences("a", "b", ("native", "lightgbm"), np.array([-0.5, 0.25, 0.0, 0.75]), 1.0)
    axes = sorted_differences(drawn_pair, "ndcg@5").axes[0]
    assert axes.get_ylim() == (-1.15, 1.15)
    corners = [np.asarray(area.get_paths()[0].vertices) for area in axes.collections]
    assert [(own[:, 0].min(), own[:, 0].max()) for own in corners] == [(0, 50), (75, 100)]
    assert [text.get_text() for text in axes.texts] == ["a better: 2 of 4 (50%)", "b better: 1 of 4 (25%)"]


def query_pairs(values: NDArray[np.float64]) -> QueryPairs:
    sides = np.sign(values[0] - values[1]).astype(np.int64)
    return QueryPairs("a", "b", ("native", "lightgbm"), values, sides, (0.0, 1.0))


def test_a_query_is_a_point_at_the_baselines_and_the_models_value_in_the_winners_colour() -> None:
    values = np.array([[0.5, 0.25, 1.0, 0.0], [0.25, 0.75, 1.0, 0.5]])
    axes = scatter(query_pairs(values), "ndcg@5").axes[0]
    diagonal, *sides = axes.lines
    (start, end) = points(diagonal)
    assert start[0] == start[1] < 0
    assert end[0] == end[1] > 1
    by_colour = {str(line.get_color()): points(line) for line in sides}
    assert by_colour[COLOURS["native"]] == [(0.25, 0.5)]
    assert by_colour[COLOURS["lightgbm"]] == [(0.75, 0.25), (0.5, 0.0)]
    assert (1.0, 1.0) in [place for own in by_colour.values() for place in own]
    assert all(0 < (line.get_alpha() or 1) < 1 for line in sides)
    assert axes.get_xlim() == axes.get_ylim()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ndcg@5 of b", "ndcg@5 of a")


def test_many_queries_are_cells_that_hold_each_query_once_on_one_scale() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((2, MOST_POINTS + 1)).round(2)
    axes = scatter(query_pairs(values), "ndcg@5").axes[0]
    cells = [item for item in axes.collections if isinstance(item, PolyCollection)]
    counts = [np.asarray(own.get_array()) for own in cells]
    assert sum(own.sum() for own in counts) == MOST_POINTS + 1
    assert {own.norm.vmax for own in cells} == {max(own.max() for own in counts)}
    assert len(axes.lines) == 1


def test_cells_are_drawn_where_all_queries_tie() -> None:
    figure = scatter(query_pairs(np.ones((2, MOST_POINTS + 1))), "ndcg@5")
    figure.draw_without_rendering()
    (cells,) = figure.axes[0].collections
    assert np.asarray(cells.get_array()).tolist() == [MOST_POINTS + 1]


def test_a_distribution_is_the_share_of_queries_up_to_each_value(tmp_path: Path) -> None:
    values = np.array([0.0, 0.5, 0.0, 1.0, 0.25])
    run = write(tmp_path / "run")
    axes = distribution_over_queries([series(run)], [values], "ndcg@5").axes[0]
    steps, median = axes.lines
    corners = points(steps)
    for value in values:
        assert max(y for x, y in corners if x == value) == pytest.approx((values <= value).mean())
    assert points(median) == [(0.25, 0.5)]
    assert steps.get_drawstyle() == "steps-post"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3000))
def test_a_thinned_distribution_keeps_its_ends_and_its_shares(values: list[int]) -> None:
    ascending = np.sort(np.array(values, dtype=np.float64))
    thin = evenly_thinned(ascending)
    assert len(thin) <= 500
    assert thin[-1] == ascending[-1]
    if len(thin) > 1:
        assert thin[0] == ascending[0]
    for value in range(10):
        assert (thin <= value).mean() == pytest.approx((ascending <= value).mean(), abs=2 / len(thin))


# Parts of variances


def error_parts(number: int = 0) -> ErrorParts:
    return ErrorParts(f"a minus b{number}", {QUERY: 0.5, TRAINING: 0.3, TRAINING_BY_QUERY: 0.2}, 0.0123)


def test_the_shares_of_a_variance_are_one_bar_of_100_percent_with_its_standard_error() -> None:
    axes = variance_shares([error_parts(), error_parts(1)], "ndcg@5").axes[0]
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    first = [bar for bar in bars if bar.get_y() < 0 < bar.get_y() + bar.get_height()]
    assert [bar.get_width() for bar in first] == pytest.approx([50, 30, 20])
    assert [bar.get_x() for bar in first] == pytest.approx([0, 50, 80])
    assert len({bar.get_facecolor() for bar in first}) == len({bar.get_hatch() for bar in first}) == 3
    assert [text.get_text() for text in axes.texts] == ["SE 0.0123"] * 2
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a minus b0", "a minus b1"]


def test_a_part_that_no_pair_has_is_not_in_the_legend() -> None:
    (legend,) = variance_shares([error_parts()], "ndcg@5").legends
    assert [text.get_text() for text in legend.get_texts()] == [QUERY, TRAINING, TRAINING_BY_QUERY]


@pytest.mark.parametrize("width", [5.0, 7.0])
def test_from_one_to_fifteen_pairs_no_bar_is_thinner_than_its_text(width: float) -> None:
    for count in (1, 15):
        figure = variance_shares([error_parts(number) for number in range(count)], "ndcg@5", Page(width))
        figure.draw_without_rendering()
        (axes,) = figure.axes
        bar = next(bar for bar in axes.patches if isinstance(bar, Rectangle))
        assert bar.get_window_extent().height > axes.texts[0].get_window_extent().height
        assert axes.texts[0].get_window_extent().x1 <= figure.bbox.x1


# Ranks


def test_the_critical_difference_diagram_has_a_bar_a_group_and_a_label_a_model() -> None:
    figure = critical_difference_diagram(["a", "b", "c"], [1.25, 1.75, 3.0], 0.8, [(0, 1)])
    (axes,) = figure.axes
    bars_drawn = [line for line in axes.lines if line.get_linewidth() == 3]
    assert [[x for x, _ in points(line)] for line in bars_drawn] == [[1.25, 1.75]]
    assert {text.get_text() for text in axes.texts} >= {"a  1.25", "b  1.75", "c  3.00"}


# Text


def test_every_text_has_at_least_eight_points_and_every_axis_a_name(tmp_path: Path) -> None:
    given_series = [series(write(tmp_path / name, name)) for name in ("native", "lightgbm")]
    for figure in map(drawn, figures_of(given_series, "ndcg@5").values()):
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
        assert min(float(text.get_fontsize()) for text in texts) >= 8
        assert figure.get_suptitle().startswith("toy: ")
        assert figure.axes[-1].get_xlabel()
        assert figure.axes[0].get_ylabel()


def test_names_that_are_neither_plain_nor_short_are_drawn_without_a_warning(tmp_path: Path) -> None:
    names = ("$x_1 {", "点击\nrate", "title_" * 20)
    features = Importances(names, {WITHIN: np.array([3.0, 2.0, 1.0])})
    runs = [write(tmp_path / str(n), "_model $", importances=features) for n in range(2)]
    labelled = [series(run, label=f"_model $ 点 {'learning_rate=0.1 ' * 9}{n}") for n, run in enumerate(runs)]
    assert len(draw_series(labelled, "ndcg@5", tmp_path / "pictures")) == 4
    shown = [label.get_text() for label in drawn(importance_bars(labelled)).axes[0].get_yticklabels()]
    assert shown == ["$x_1 {", r"\u70b9\u51fb rate", f"{'title_' * 2}…{('title_' * 20)[-11:]}"]


def test_an_untitled_picture_is_as_wide_as_its_page_and_keeps_its_title_as_its_label(tmp_path: Path) -> None:
    figure = drawn(curves_by_iteration([series(write(tmp_path / "run"))], "ndcg@5", Page(5.0, titled=False)))
    assert figure.get_size_inches()[0] == 5.0
    assert figure.get_suptitle() == ""
    assert str(figure.get_label()).startswith("toy: ndcg@5 by iteration")


def test_the_legend_of_many_series_takes_nothing_from_the_panel(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    figures = [
        drawn(ndcg_by_cutoff([series(run, label=f"native n={n}") for n in range(count)])) for count in (2, 24)
    ]
    for figure in figures:
        figure.draw_without_rendering()
    heights = [figure.axes[0].get_window_extent().height for figure in figures]
    assert heights[1] == pytest.approx(heights[0], rel=0.1)
