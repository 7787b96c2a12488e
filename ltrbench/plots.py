"""Pictures of finished runs: figures for the page of the report and for PNG files, readable without colors.

A picture shows one series per row of a comparison, with the runs (folds and seeds) of the row. A backend has
the same color and marker in every picture of every sweep; the rows of one backend differ in line style, fill
style and hatch. A series without data for a picture is left out, and a picture without series is not drawn.
The same runs give the same bytes.

To add a picture, write a function from series and a page to a figure or None, and show it in a section of the
report. The drawing functions import matplotlib themselves, so that `--help` is fast. pyplot is never
imported, because its state is global.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.importance import (
    ACROSS,
    DROP_COLUMN,
    GAIN,
    HIGH,
    SHAP,
    WITHIN,
    Importances,
    aligned,
)
from ltrbench.runs.record import TREES, LearningCurve, Run, mean_importances
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """A row of a comparison in a picture.

    Attributes:
        label: name of the row, such as "lightgbm num_leaves=15".
        model: name of the backend, which determines the color.
        runs: runs of the row: folds and seeds.
        value: the metric of the comparison on test; None if not available.
        best: best value on validation after 1, 2, ... trials of its search; NaN before one is complete.
        test: (number of trials, value on test of the chosen settings); None if not available.
    """

    label: str
    model: str
    runs: tuple[Run, ...]
    value: float | None = None
    best: Sequence[float] = ()
    test: tuple[float, float] | None = None


def data_of(series: Sequence[Series]) -> str:
    """Returns the names of the data sets of the runs."""
    runs = itertools.chain.from_iterable(item.runs for item in series)
    names = [str(run.result.data.get("name")) for run in runs]
    return ", ".join(dict.fromkeys(names))


# ---- Styles of series: a backend has one color and marker; its rows differ in line, fill style and hatch.

LineStyle = tuple[int, tuple[float, ...]]
"""Matplotlib's line style: (offset, lengths of dashes and gaps in line widths); no lengths: a solid line."""

# Okabe and Ito (2008), "Color Universal Design"; the random baseline has the gray of R's palette.colors.
COLOURS = {
    "native": "#0072B2",
    "lightgbm": "#D55E00",
    "xgboost": "#009E73",
    "catboost": "#E69F00",
    "single_feature": "#CC79A7",
    "random": "#999999",
}
_MARKERS = dict(zip(COLOURS, "os^DvX", strict=True))
# The rest of the palette, without yellow, which is too pale for a line on white paper.
OTHER_COLOURS = ("#000000", "#56B4E9")
_OTHER_MARKERS = "Pp*h<>"
_LINES: tuple[LineStyle, ...] = (
    (0, ()),
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
)
_FILLINGS = ("full", "none", "left", "bottom")
_HATCHES = ("", "/////", ".....", "xxxxx", "-----", "\\\\\\\\\\")


@dataclass(frozen=True)
class Style:
    """Style of a series: arguments of matplotlib for its points and its bars."""

    colour: str
    line: LineStyle
    points: dict[str, Any]
    bar: dict[str, Any]


def styles_of(series: Sequence[Series]) -> list[Style]:
    """Returns one style per series; all are different for up to a dozen rows of one color."""
    seen = Counter[str]()
    chosen = []
    for item in series:
        colour = colour_of(item.model)
        rank = _rank(item.model)
        marker = _MARKERS.get(item.model)
        if marker is None:
            marker = _OTHER_MARKERS[rank // 2 % len(_OTHER_MARKERS)]
        variant = seen[colour]
        seen[colour] += 1
        # Each backend starts with a different line and hatch, so that they differ in print without colors.
        line = _LINES[(rank + variant) % len(_LINES)]
        hatch = _HATCHES[(rank + variant) % len(_HATCHES)]
        points = {
            "color": colour,
            "marker": marker,
            "fillstyle": _FILLINGS[variant % len(_FILLINGS)],
        }
        bar = {
            "facecolor": colour,
            "edgecolor": "white",
            "hatch": hatch,
            "linewidth": 0,
        }
        chosen.append(Style(colour, line, points, bar))
    return chosen


def _rank(model: str) -> int:
    """Returns the index of a known backend, or a number computed from the name of another one."""
    # Not hash(), which differs between processes.
    if model in COLOURS:
        return [*COLOURS].index(model)
    return zlib.crc32(model.encode())


def colour_of(model: str) -> str:
    other = OTHER_COLOURS[_rank(model) % len(OTHER_COLOURS)]
    return COLOURS.get(model, other)


# ---- Layout of every picture: sizes, title, panels, legend, and names in characters of the font.

DPI = 150
HEIGHT = 4.5  # inches
TEXT = 9
SMALL = 8  # points; no text is smaller
LONGEST_LABEL = 60  # characters
GRID: dict[str, Any] = {"color": "#DDDDDD", "linewidth": 0.6}
_ROW_OF_LEGEND = 0.17  # inches
_CHARACTERS = 13  # of small text, per inch


@dataclass(frozen=True)
class Page:
    """The page that shows a picture.

    Attributes:
        width: width of the picture, inches.
        titled: whether the title is drawn; if not, the page shows it from the label of the figure.
    """

    width: float
    titled: bool = True

    def height(self, of_paper: float) -> float:
        """Scales a height on PAPER to this page, inches."""
        return of_paper * self.width / PAPER.width


PAPER = Page(7.0)


def titled_panels(
    title: str, keys: Sequence[Artist], height: float, page: Page, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with title and legend, and its panels. The legend is below, in columns, and adds to
    the height.

    Args:
        keys: entries of the legend.
        height: height without the legend, inches.
        page: the page of the picture.
        grid: arguments of matplotlib's Figure.subplots, such as ncols=2; default: one panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = [str(key.get_label()) for key in keys]
    # A column also has the line, and the gap before the next column.
    characters = int(_CHARACTERS * page.width)
    longest = max(map(len, labels), default=0)
    columns = max(1, characters // (longest + 9))
    height += _ROW_OF_LEGEND * math.ceil(len(keys) / columns)
    figure = Figure((page.width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.set_label(title)
    if page.titled:
        heading = textwrap.fill(short_name(title, 180), characters)
        figure.suptitle(
            heading,
            fontsize=TEXT + 1,
            x=0.01,
            horizontalalignment="left",
            parse_math=False,
        )
    panels: list[Axes] = figure.subplots(squeeze=False, **grid).ravel().tolist()
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        axes.set_axisbelow(True)
    if keys:
        look = {"fontsize": SMALL, "frameon": False, "handlelength": 3.2}
        legend = figure.legend(
            keys, labels, loc="outside lower center", ncols=columns, **look
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure, panels


def name_axes(axes: Axes, x: str = "", y: str = "") -> None:
    """Labels the axes and draws the grid."""
    axes.set_xlabel(x, fontsize=TEXT, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, parse_math=False)
    axes.grid(**GRID)


def keys_of(series: Sequence[Series]) -> list[Artist]:
    """Returns the entries of the legend for lines."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"linewidth": 1.4, "markersize": 5}
    keys: list[Artist] = []
    for label, style in _labelled(series):
        line = {"linestyle": style.line, **style.points, **look}
        keys.append(Line2D([], [], label=label, **line))
    return keys


def keys_of_bars(series: Sequence[Series]) -> list[Artist]:
    """Returns the entries of the legend for bars."""
    from matplotlib.patches import Patch

    labelled = _labelled(series)
    return [Patch(label=label, **style.bar) for label, style in labelled]


def _labelled(series: Sequence[Series]) -> Iterator[tuple[str, Style]]:
    labels = (short_name(item.label, LONGEST_LABEL) for item in series)
    return zip(labels, styles_of(series), strict=True)


def short_name(text: str, most: int) -> str:
    """Returns a name on one line of at most `most` characters of the font; a long name loses its middle.

    >>> short_name("body_bm25_of_the_last_thirty_days_max", 24)
    'body_bm25_of…ty_days_max'
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    letters = []
    for letter in visible(" ".join(text.split())):
        if not font.get_char_index(ord(letter)):
            letter = letter.encode("unicode_escape").decode()
        letters.append(letter)
    shown = "".join(letters)
    if len(shown) <= most:
        return shown
    num_first = most // 2
    num_last = most - num_first - 1
    return f"{shown[:num_first]}…{shown[len(shown) - num_last :]}"


_LONGEST_NAME = 24  # characters


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    widths: Sequence[Floats],
    styles: Sequence[Style],
    errors: Sequence[Floats] = (),
) -> None:
    """Draws horizontal bars in one group per name, from the top.

    Args:
        widths: (names,) for each series.
        errors: (names,) for each series, half lengths of the whiskers; a whisker of length 0 is not drawn.
    """
    thickness = 0.84 / len(styles)
    for number, (of_series, style) in enumerate(zip(widths, styles, strict=True)):
        offset = (number - (len(styles) - 1) / 2) * thickness
        rows = np.arange(len(names)) + offset
        axes.barh(rows, of_series, thickness, **style.bar)
        if errors:
            there = errors[number] > 0
            look: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 0.7}
            lengths = errors[number][there]
            axes.errorbar(of_series[there], rows[there], xerr=lengths, **look)
    _name_rows(axes, [short_name(name, _LONGEST_NAME) for name in names])
    axes.locator_params(axis="x", nbins=5)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Labels the rows of a drawing, from the top, and draws the line at 0."""
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(names, fontsize=SMALL, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.axvline(0, color="black", linewidth=0.6)


# ---- A test metric against a cost, with the Pareto front.

Point = tuple[float, float]
"""(cost, metric) of a series."""


@dataclass(frozen=True)
class Cost:
    """A cost on the horizontal axis.

    Attributes:
        name: name in the title, such as "fit time".
        axis: label of the axis with its unit, such as "fit time, seconds".
        least: smaller costs are drawn at this value, because they would stretch a logarithmic axis by
            decades.
    """

    name: str
    axis: str
    least: float


FIT = Cost("fit time", "fit time including evaluation, seconds", 0.01)


def metric_against_cost(
    series: Sequence[Series],
    costs: Sequence[float | None],
    cost: Cost,
    metric: str,
    page: Page = PAPER,
) -> Figure | None:
    """Draws one point per series; returns None if no series has both a cost and a value.

    A series with an empty label is a small gray point that the legend leaves out.

    Args:
        metric: name of the values, such as "ndcg@10 on test".
    """
    known = []
    for item, spent in zip(series, costs, strict=True):
        if spent is not None and item.value is not None:
            known.append((item, max(cost.least, spent), item.value))
    if not known:
        return None
    # Points without a name use no style of the others.
    known.sort(key=lambda each: not each[0].label)
    drawn = [item for item, *_ in known]
    points = [(spent, value) for _, spent, value in known]
    title = f"{data_of(drawn)}: {metric} against {cost.name}"
    keys = keys_of([item for item in drawn if item.label])
    figure, (axes,) = titled_panels(title, keys, page.height(HEIGHT), page)
    axes.margins(0.12)
    for item, point, style in zip(drawn, points, styles_of(drawn), strict=True):
        look = {"markersize": 8, **style.points} if item.label else _WITHOUT_LABEL
        axes.plot(*point, linestyle="none", **look)
    lowest = min(points)[0]
    highest = max(points)[0]
    label = cost.axis
    if highest > 10 * lowest:
        _make_logarithmic(axes)
        label += " (log scale)"
    if lowest == cost.least:
        label += f", at least {cost.least:g}"
    name_axes(axes, label, metric)
    if len(points) > 1:
        _draw_front(axes, points)
    return figure


_WITHOUT_LABEL: dict[str, Any] = {
    "color": "#777777",
    "markersize": 4,
    "marker": "o",
    "zorder": 1,
}


def _draw_front(axes: Axes, points: Sequence[Point]) -> None:
    """Draws the Pareto front up to the right end of the axis."""
    right = axes.get_xlim()[1]
    costs, values = zip(*pareto_front(points), strict=True)
    look: dict[str, Any] = {
        "color": "#777777",
        "linewidth": 1.0,
        "linestyle": (0, (4, 2)),
    }
    axes.step(
        [*costs, right],
        [*values, values[-1]],
        where="post",
        label="Pareto front",
        zorder=1,
        **look,
    )
    axes.set_xlim(right=right)
    axes.legend(loc="best", fontsize=SMALL, frameon=False)


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Returns the Pareto front in ascending order of cost: no other point is both cheaper and as good.

    >>> pareto_front([(3.0, 0.5), (1.0, 0.4), (2.0, 0.3), (3.0, 0.2)])
    [(1.0, 0.4), (3.0, 0.5)]
    """
    front: list[Point] = []

    def cheapest_then_best(point: Point) -> Point:
        cost, value = point
        return cost, -value

    for cost, value in sorted(set(points), key=cheapest_then_best):
        if not front or value > front[-1][1]:
            front.append((cost, value))
    return front


def _make_logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 5) if high < 100 * low else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(lambda cost, _: f"{cost:g}")
    axes.xaxis.set_minor_locator(NullLocator())


# ---- Feature importances of each model, on one scale.

_PAGE = 9.0  # inches
_MOST_FEATURES = 15
_MOST_PANELS = 3
_AXIS_OF_KIND = {
    WITHIN: "drop of test {metric} when\nshuffled within queries",
    ACROSS: "drop of test {metric} when\nshuffled across queries",
    DROP_COLUMN: "drop of test {metric} when\nfitted without the feature",
    SHAP: "share of\nmean |SHAP|, %",
    GAIN: "share of the gain\nof all splits, %",
}
_PERCENT = {SHAP: 100, GAIN: 100}
_Importances = dict[str, dict[str, float]]
"""Kind of importance, and kind + HIGH for the high end of its interval -> feature -> mean over runs."""


def importance_bars(series: Sequence[Series], page: Page = PAPER) -> Figure | None:
    """Draws the most important features by the first three kinds that the runs recorded, one panel each.

    The features are sorted by the first kind. Returns None if no run recorded importances.
    """
    drawn, rows = _with_importances(series)
    if not drawn:
        return None
    recorded = [kind for kind in _AXIS_OF_KIND if any(kind in row for row in rows)]
    kinds = recorded[:_MOST_PANELS]
    features = _most_important(kinds[0], rows)
    title = f"{data_of(drawn)}: most important features"
    height = _height_of_bars(len(features), len(drawn))
    grid = {"ncols": len(kinds), "sharey": True}
    figure, panels = titled_panels(title, keys_of_bars(drawn), height, page, **grid)
    for axes, kind in zip(panels, kinds, strict=True):
        _draw_importances(axes, kind, features, rows, styles_of(drawn))
        label = _AXIS_OF_KIND[kind].format(metric=_metric_of_importances(drawn))
        if _has_whiskers(kind, rows):
            label = f"{label}\nwhisker: 95 %"
        axes.set_xlabel(label, fontsize=TEXT)
    panels[0].set_ylabel("feature", fontsize=TEXT)
    return figure


def _most_important(kind: str, rows: Sequence[_Importances]) -> list[str]:
    of_kind = [row[kind] for row in rows if kind in row]
    return _by_mean(of_kind)[:_MOST_FEATURES]


def _height_of_bars(num_features: int, num_series: int) -> float:
    """Returns the height of a drawing of importances, inches."""
    # About five points per bar show its hatch; the height of the page limits it.
    height_of_feature = 0.08 + 0.07 * num_series
    height = 1.2 + num_features * height_of_feature
    return min(_PAGE, max(HEIGHT, height))


def _draw_importances(
    axes: Axes,
    kind: str,
    features: Sequence[str],
    rows: Sequence[_Importances],
    styles: Sequence[Style],
) -> None:
    """Draws the importances of one kind, with whiskers up to the high end of their intervals if known."""
    factor = _PERCENT.get(kind, 1)
    means = [_values(row.get(kind, {}), features) for row in rows]
    widths = [factor * mean for mean in means]
    errors: list[Floats] = []
    if _has_whiskers(kind, rows):
        for row, width in zip(rows, widths, strict=True):
            # A feature that the model does not use was not shuffled, so it has no whisker.
            high = factor * _values(row.get(kind + HIGH, {}), features)
            errors.append(high - width)
    draw_bars(axes, features, widths, styles, errors)


def _has_whiskers(kind: str, rows: Sequence[_Importances]) -> bool:
    return any(kind + HIGH in row for row in rows)


def _metric_of_importances(series: Sequence[Series]) -> str:
    """Returns the metric whose fall the runs recorded; "metric" if they differ."""
    runs = itertools.chain.from_iterable(item.runs for item in series)
    metrics = {run.result.importance_metric for run in runs}
    return str(metrics.pop()) if len(metrics) == 1 else "metric"


def _values(of_name: Mapping[str, float], names: Sequence[str]) -> Floats:
    """Returns the values in the order of the names; NaN, no bar, for names without a value."""
    return np.array([of_name.get(name, math.nan) for name in names])


def _with_importances(
    series: Sequence[Series],
) -> tuple[list[Series], list[_Importances]]:
    """Returns the series whose runs recorded importances, without yardsticks, and their importances."""
    having = []
    importances = []
    for item in series:
        trained = [run for run in item.runs if not run.result.is_yardstick]
        if not trained:
            continue
        means = mean_importances(trained)
        if _kinds_drawn(means):
            having.append(item)
            importances.append(means)
    return having, list(map(_by_feature, aligned(importances)))


def _kinds_drawn(means: Importances) -> list[str]:
    """Returns the kinds with an importance other than 0 that the picture can have."""
    return [
        kind
        for kind in _AXIS_OF_KIND
        if kind in means.values and np.nan_to_num(means.values[kind]).any()
    ]


def _by_feature(means: Importances) -> _Importances:
    """Returns the importances that are drawn, by kind and feature."""
    importances = {}
    for kind in _kinds_drawn(means):
        for name in (kind, kind + HIGH):
            if name in means.values:
                values = means.values[name].tolist()
                importances[name] = dict(zip(means.feature_names, values, strict=True))
    return importances


def _by_mean(values: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns the names with the highest mean first, over the series that have a value, without those that
    are 0 in every series."""
    means = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(values)):
        of_name = [of_series.get(name, math.nan) for of_series in values]
        known = [value for value in of_name if not math.isnan(value)]
        if any(known):
            means[name] = fmean(known)
    return sorted(means, key=lambda name: -means[name])


# ---- Learning curves: the validation metric by iteration, and the train metric in a smaller panel above
# it.

_KEPT: dict[str, Any] = {
    "markersize": 7,
    "markeredgecolor": "black",
    "markeredgewidth": 1.2,
}
_LOWEST = 4.2  # inches; minimum height at which the panel of train has room for its axis label
_MOST_BANDS = 4  # more bands are not readable


@dataclass(frozen=True, eq=False)
class _Curve:
    """A metric by iteration over the runs of a series, up to the last iteration of the shortest run.

    Attributes:
        iterations: (n,)
        values: (runs, n)
        kept: (iteration, value of the run) for each run with a kept iteration.
        is_cut: Whether a run has more iterations than the shortest one.
    """

    iterations: Sequence[int]
    values: Floats
    kept: Sequence[tuple[int, float]]
    is_cut: bool


@dataclass(frozen=True, eq=False)
class _Curves:
    """The curves of a series on validation and, if its runs recorded it, on train."""

    series: Series
    valid: _Curve
    train: _Curve | None


def curves_by_iteration(
    series: Sequence[Series], metric: str, page: Page = PAPER
) -> Figure | None:
    """Draws validation by iteration, and train in a smaller panel above it; None without validation
    curves.

    Args:
        metric: drawn if a run recorded it on validation; otherwise the first recorded metric is drawn.
    """
    recorded = [[run.learning_curve() for run in item.runs] for item in series]
    name = _shown_metric(itertools.chain.from_iterable(recorded), metric)
    drawn: list[_Curves] = []
    for item, of_runs in zip(series, recorded, strict=True):
        valid = _curve(item, of_runs, f"valid/{name}")
        if valid is not None:
            train = _curve(item, of_runs, f"train/{name}")
            drawn.append(_Curves(item, valid, train))
    if not drawn:
        return None
    figure, panels = _panels_of_curves(drawn, name, page)
    styles = styles_of([curves.series for curves in drawn])
    with_band = len(drawn) <= _MOST_BANDS
    for curves, style in zip(drawn, styles, strict=True):
        if curves.train is not None:
            _draw_train(panels[0], curves.train, style)
        _draw_curve(panels[-1], curves.valid, style, with_band)
    panels[-1].set_ylim(_limits_after_start([curves.valid for curves in drawn]))
    return figure


def _panels_of_curves(
    drawn: Sequence[_Curves], metric: str, page: Page
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with a panel of validation, and one of train above it if a series has its curve."""
    from matplotlib.lines import Line2D

    series = [curves.series for curves in drawn]
    look = {"color": "#777777", "linestyle": "none", "marker": "o", **_KEPT}
    mark = Line2D([], [], label="iteration kept", **look)
    keys = [*keys_of(series), mark]
    title = f"{data_of(series)}: {metric} by iteration"
    height = max(page.height(HEIGHT), _LOWEST)
    # Train is far above validation; on a common axis the differences in validation would not be visible.
    grid = {}
    has_train = any(curves.train is not None for curves in drawn)
    if has_train:
        grid = {"nrows": 2, "height_ratios": (1, 2.6), "sharex": True}
    figure, panels = titled_panels(title, keys, height, page, **grid)
    name_axes(panels[-1], _iterations_in_words(drawn), f"{metric}, validation")
    if has_train:
        name_axes(panels[0], y=f"{metric}, train")
    for axes in panels:
        axes.margins(x=0.02)
    return figure, panels


def _iterations_in_words(drawn: Sequence[_Curves]) -> str:
    """Returns the label of the axis of iterations."""
    words = "iteration"
    runs = itertools.chain.from_iterable(curves.series.runs for curves in drawn)
    if all(run.result.unit_of_iterations == TREES for run in runs):
        words = "iteration (one tree each)"
    if any(curves.valid.is_cut for curves in drawn):
        words += "; a curve ends with the shortest of its runs"
    return words


def _draw_train(axes: Axes, curve: _Curve, style: Style) -> None:
    """Draws the mean over the runs."""
    means = curve.values.mean(axis=0)
    axes.plot(
        curve.iterations,
        means,
        linewidth=0.8,
        color=style.colour,
        linestyle=style.line,
    )


def _shown_metric(curves: Iterable[LearningCurve], metric: str) -> str:
    """Returns a metric if a curve has it on validation, otherwise the first one on validation."""
    recorded = itertools.chain.from_iterable(curve.values for curve in curves)
    on_valid = [name for name in recorded if name.startswith("valid/")]
    names = [name.removeprefix("valid/") for name in on_valid]
    if metric in names or not names:
        return metric
    return names[0]


def _draw_curve(axes: Axes, curve: _Curve, style: Style, with_band: bool) -> None:
    """Draws the mean over the runs, a band from the lowest to the highest run, and the kept iterations."""
    marks = {
        "markersize": 4.5,
        "markevery": max(1, len(curve.iterations) // 5),
        **style.points,
    }
    means = curve.values.mean(axis=0)
    axes.plot(
        curve.iterations,
        means,
        linewidth=1.4,
        linestyle=style.line,
        **marks,
    )
    if with_band and len(curve.values) > 1:
        low = curve.values.min(axis=0)
        high = curve.values.max(axis=0)
        axes.fill_between(
            curve.iterations, low, high, color=style.colour, alpha=0.12, linewidth=0
        )
    if curve.kept:
        iterations, values = zip(*curve.kept, strict=True)
        look = style.points | _KEPT
        axes.plot(iterations, values, linestyle="none", zorder=5, **look)


def _limits_after_start(curves: Sequence[_Curve]) -> tuple[float, float]:
    """Returns the limits of the axis, without the first 5 % of the iterations, whose steep rise would flatten
    the rest."""
    lowest = []
    highest = []
    for curve in curves:
        later = curve.values[:, len(curve.iterations) // 20 :]
        kept = [value for _, value in curve.kept]
        lowest += [float(later.min()), *kept]
        highest += [float(curve.values.max()), *kept]
    low = min(lowest)
    high = max(highest)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


def _curve(item: Series, curves: Sequence[LearningCurve], name: str) -> _Curve | None:
    """Returns the curve of a series; None if a run did not record the metric, or a value is not finite."""
    if not all(curve.values.get(name) for curve in curves):
        return None
    lengths = [len(curve.iterations) for curve in curves]
    length = min(lengths)
    of_runs = [curve.values[name] for curve in curves]
    values = np.array([of_run[:length] for of_run in of_runs])
    kept = []
    for run, curve in zip(item.runs, curves, strict=True):
        iteration = run.result.best_iteration
        if iteration in curve.iterations:
            value = curve.values[name][curve.iterations.index(iteration)]
            kept.append((iteration, value))
    if np.isfinite(values).all():
        iterations = curves[0].iterations[:length]
        return _Curve(iterations, values, kept, is_cut=max(lengths) > length)
    return None


# ---- Searches: the best value by number of trials, and the importance of the settings.

_TEST: dict[str, Any] = {
    "markersize": 8,
    "markeredgecolor": "black",
    "markeredgewidth": 1.2,
}
_MOST_MARKS = 8  # on a line


def best_by_trials(
    series: Sequence[Series], metric: str, is_expected: bool, page: Page = PAPER
) -> Figure | None:
    """Draws one line per row, and its value on test in a panel beside it; None if no row has a line.

    Args:
        is_expected: whether the values are expected over the order of the trials, for the label of the axis.
    """
    series = [item for item in series if any(map(math.isfinite, item.best))]
    if not series:
        return None
    best = "expected best" if is_expected else "best"
    title = f"{data_of(series)}: {best} {metric} on validation by number of trials, and {metric} on test"
    # A common axis would flatten the lines, because validation and test have different queries.
    grid = {"ncols": 2, "width_ratios": (3, 1)}
    keys = keys_of(series)
    budgets: list[float] = []
    figure, (left, right) = titled_panels(
        title, keys, page.height(HEIGHT), page, **grid
    )
    for item, style in zip(series, styles_of(series), strict=True):
        look: dict[str, Any] = {"markersize": 4.5, **style.points}
        look |= {"linewidth": 1.4, "linestyle": style.line}
        every = max(1, len(item.best) // _MOST_MARKS)
        trials = range(1, len(item.best) + 1)
        left.plot(trials, item.best, markevery=every, **look)
        if item.test is not None:
            right.plot(*item.test, linestyle="none", **{**style.points, **_TEST})
            budgets.append(item.test[0])
    name_axes(left, "number of trials", f"{best} {metric} on validation")
    name_axes(right, "trials", f"{metric} of the chosen settings on test")
    left.locator_params(axis="x", integer=True)
    budgets = sorted(set(budgets))
    right.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    right.margins(x=0.3)
    _give_one_scale((left, right))
    right.set_visible(bool(budgets))
    return figure


def _give_one_scale(panels: Sequence[Axes]) -> None:
    """Gives all vertical axes the same length in the metric, each around its own values."""
    ends = [axes.get_ylim() for axes in panels]
    half = max(high - low for low, high in ends) / 2
    for axes, (low, high) in zip(panels, ends, strict=True):
        middle = (low + high) / 2
        axes.set_ylim(middle - half, middle + half)


def setting_importance_bars(
    shares: Sequence[tuple[Series, Mapping[str, float]]],
    page: Page = PAPER,
) -> Figure | None:
    """Draws the share of the variance that each setting explains, one bar per row; None without shares.

    Args:
        shares: row -> setting -> share of the variance of the value on validation.
    """
    shown = [(item, of_row) for item, of_row in shares if of_row]
    if not shown:
        return None
    settings = _by_mean([of_row for _, of_row in shown])
    series = [item for item, _ in shown]
    title = f"{data_of(series)}: importance of the settings"
    height_of_setting = 0.12 + 0.09 * len(series)
    height = 1.2 + len(settings) * height_of_setting
    figure, (axes,) = titled_panels(title, keys_of_bars(series), height, page)
    widths = []
    for _, of_row in shown:
        widths.append(100 * _values(of_row, settings))
    draw_bars(axes, settings, widths, styles_of(series))
    axes.set_xlabel(
        "share of the variance of the value on validation, %", fontsize=TEXT
    )
    return figure


# ---- Differences of two rows by query, sorted: how many queries each row wins, and by how much.

_MOST_POINTS = 400  # on a line
_LONGEST_AXIS_LABEL = 28  # characters


def sorted_differences(
    a: Series,
    b: Series,
    values: Floats,
    page: Page = PAPER,
    *,
    reach: float,
    metric: str,
) -> Figure:
    """Draws differences in descending order: an area above 0 where `a` wins, below 0 where `b` wins.

    Args:
        values: (Q,), `a` minus `b` for each query.
        reach: maximum absolute value of the axis, so that several pictures can share it.
    """
    title = f"{a.label} minus {b.label}: {metric} of each query, sorted"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    _draw_wins(axes, a, values, 1)
    _draw_wins(axes, b, values, -1)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlim(0, 100)
    axes.set_ylim(-1.15 * reach, 1.15 * reach)
    name_axes(axes, "share of the queries, %", f"difference in {metric}")
    return figure


def _draw_wins(axes: Axes, row: Series, values: Floats, sign: int) -> None:
    """Draws the area of the queries that a row wins, and their number.

    Args:
        values: (Q,), differences.
        sign: sign of the differences where the row wins.
    """
    # Evenly spaced order statistics keep the file small.
    shares = np.linspace(0, 1, _MOST_POINTS)
    descending = np.quantile(values, 1 - shares, method="nearest")
    won = sign * np.maximum(sign * descending, 0)
    colour = colour_of(row.model)
    axes.fill_between(100 * shares, won, color=colour, alpha=0.55, linewidth=0)
    name = short_name(row.label, _LONGEST_AXIS_LABEL)
    num_wins = int((sign * values > 0).sum())
    share = f"{num_wins / len(values):.0%}"
    height, side = (0.96, "top") if sign > 0 else (0.04, "bottom")
    axes.text(
        0.98,
        height,
        f"{name} better: {num_wins:,} of {len(values):,} ({share})",
        transform=axes.transAxes,
        verticalalignment=side,
        fontsize=SMALL,
        horizontalalignment="right",
        parse_math=False,
    )


# ---- Differences to the baseline, one row per model.

_ROW = 0.24  # inches
Ends = tuple[float, float, float]
"""(lower end of the interval, difference, upper end)."""


def differences_by_row(
    series: Sequence[Series], ends: Sequence[Ends], title: str, page: Page = PAPER
) -> Figure:
    """Draws the difference of each row to the baseline and its interval, from the top.

    Args:
        ends: one per row; those of the baseline are 0.
    """
    height = 0.6 + _ROW * (len(series) + 2)
    figure, (axes,) = titled_panels(title, [], height, page)
    names = []
    for number, (item, of_row) in enumerate(zip(series, ends, strict=True)):
        low, middle, high = of_row
        colour = colour_of(item.model)
        axes.plot([low, high], [number, number], color=colour, linewidth=1.6)
        axes.plot(middle, number, color=colour, marker="o", markersize=4.5)
        name = short_name(item.label, LONGEST_LABEL)
        names.append(f"{name}  {item.value:.4f}")
    _name_rows(axes, names)
    axes.locator_params(axis="x", nbins=5)
    name_axes(axes, "difference")
    return figure


def examination_by_position(
    theta: Sequence[float | None],
    errors: Sequence[float],
    title: str,
    page: Page = PAPER,
) -> Figure | None:
    """Draws the examination of each position of a log of clicks, with its 95 % interval; None without one.

    Args:
        theta: relative to the first position; None: not known.
        errors: standard errors of the logarithms.
    """
    every = np.array(theta, dtype=np.float64)  # NaN for None
    known = np.flatnonzero(every > 0)
    if not len(known):
        return None
    values = every[known]
    factors = np.exp(_NORMAL_QUANTILE * np.array(errors)[known])
    below = values - values / factors
    above = values * factors - values
    figure, (axes,) = titled_panels(title, [], page.height(_HEIGHT_OF_CURVE), page)
    look: dict[str, Any] = {"color": colour_of("native"), "marker": "o", "capsize": 3}
    axes.errorbar(known, values, [below, above], markersize=4.5, **look)
    axes.set_ylim(bottom=0)
    name_axes(axes, "position, from 0", "examination")
    return figure


_HEIGHT_OF_CURVE = 2.8  # inches
_NORMAL_QUANTILE = 1.96


# ---- The critical-difference diagram: average ranks over data sets, with the result of the Nemenyi test.

_LONGEST_MODEL = 30  # characters
_BAR = 0.5  # rows between the bars of groups


def critical_difference_diagram(
    labels: Sequence[str],
    average_ranks: Sequence[float],
    critical_difference: float,
    groups: Sequence[Sequence[int]],
    page: Page = PAPER,
) -> Figure:
    """Draws models by average rank, the best on the left; a bar joins models that do not differ
    significantly.

    (Demsar, 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, figure 1.)

    Args:
        groups: indices of models; one bar per group.
    """
    title = "Average ranks over data sets; a bar joins models without a significant difference (Nemenyi, 5 %)"
    layout = _Layout(len(labels), len(groups))
    height = _ROW * (layout.bottom + 3)
    figure, (axes,) = titled_panels(title, [], height, page)
    _draw_axis_of_ranks(axes, layout)
    for row, group in enumerate(groups):
        ranks = [average_ranks[number] for number in group]
        ends = [min(ranks), max(ranks)]
        height = 0.4 + _BAR * row
        axes.plot(ends, [height, height], color="black", linewidth=3)
    order = sorted(range(len(labels)), key=average_ranks.__getitem__)
    for position, number in enumerate(order):
        rank = average_ranks[number]
        name = short_name(labels[number], _LONGEST_MODEL)
        _draw_name_at_rank(axes, layout, position, name, rank)
    _draw_critical_difference(axes, layout, critical_difference)
    return figure


@dataclass(frozen=True)
class _Layout:
    """Where the parts of the diagram are, in ranks from the left and in rows from the top."""

    num_models: int
    num_groups: int

    @property
    def half(self) -> int:
        """Number of the models with their names on the left."""
        return math.ceil(self.num_models / 2)

    @property
    def depth(self) -> float:
        """Height of the first name, below the bars of the groups."""
        return 0.6 + _BAR * self.num_groups

    @property
    def bottom(self) -> float:
        return self.depth + self.half + 0.6

    @property
    def left(self) -> float:
        return 1 - self._room

    @property
    def right(self) -> float:
        return self.num_models + self._room

    @property
    def _room(self) -> float:
        """For the names on both sides."""
        return 0.5 * (self.num_models - 1)


_TEXT_ABOVE: dict[str, Any] = {
    "fontsize": SMALL,
    "verticalalignment": "bottom",
    "parse_math": False,
}


def _draw_axis_of_ranks(axes: Axes, layout: _Layout) -> None:
    axes.set_xlim(layout.left, layout.right)
    axes.set_ylim(layout.bottom, 0)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("average rank (1 is best)", fontsize=TEXT)
    axes.set_xticks(range(1, layout.num_models + 1))
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    top = axes.spines["top"]
    top.set(visible=True, bounds=(1, layout.num_models))


def _draw_name_at_rank(
    axes: Axes, layout: _Layout, position: int, name: str, rank: float
) -> None:
    """Draws the name of a model beside the axis, and a line from it to its average rank.

    Args:
        position: position of the model by rank, from 0.
    """
    edge = layout.left
    side = "left"
    row = position
    if position >= layout.half:
        edge = layout.right
        side = "right"
        row = layout.num_models - 1 - position
    height = layout.depth + row + 0.5
    axes.plot(
        [rank, rank, edge],
        [0, height, height],
        color="#555555",
        linewidth=0.8,
        clip_on=False,
    )
    text = f"{name}  {rank:.2f}"
    axes.text(edge, height - 0.08, text, horizontalalignment=side, **_TEXT_ABOVE)


def _draw_critical_difference(
    axes: Axes, layout: _Layout, critical_difference: float
) -> None:
    middle = (1 + layout.num_models) / 2
    half = critical_difference / 2
    bar: dict[str, Any] = {"color": "#777777", "marker": "|", "linewidth": 1.2}
    axes.plot(
        [middle - half, middle + half],
        [layout.bottom, layout.bottom],
        clip_on=False,
        **bar,
    )
    axes.text(
        middle,
        layout.bottom - 0.15,
        f"critical difference {critical_difference:.2f}",
        color="#555555",
        horizontalalignment="center",
        **_TEXT_ABOVE,
    )


# ---- Files.


def draw_run(run: Run, folder: Path) -> list[Path]:
    """Draws learning_curve.png, with the metric of early stopping, and importances.png of one run.

    Args:
        folder: created if it does not exist.

    Returns:
        The files written; empty for a run that recorded neither.
    """
    series = [Series(run.result.model, run.result.model, (run,))]
    stopping = run.result.settings.get("model", {}).get("early_stopping")
    # A user's backend may have an `early_stopping` of another type.
    metric = ""
    if isinstance(stopping, Mapping):
        metric = str(stopping.get("metric", ""))
    curves = curves_by_iteration(series, metric)
    return write_figures(
        folder,
        {"learning_curve.png": curves, "importances.png": importance_bars(series)},
    )


def write_figures(folder: Path, figures: Mapping[str, Figure | None]) -> list[Path]:
    """Writes figures by file name, without those that are None; returns the files written."""
    drawn = {}
    for name, figure in figures.items():
        if figure is not None:
            drawn[folder / name] = figure
    for path, figure in drawn.items():
        folder.mkdir(parents=True, exist_ok=True)
        # Without a date and a version in the file, so that the same data give the same bytes.
        save_figure(figure, path, dpi=DPI, metadata={"Software": None})
    return [*drawn]


def save_figure(figure: Figure, target: Path | IO[str], **options: Any) -> None:
    """Writes a figure, as `Figure.savefig`, which would draw it a second time only to lay it out."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(target, **options)
