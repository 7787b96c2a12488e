"""Pictures of the report: searches, differences, distributions, ranks, scatter, settings, variances.

Best value on validation against the number of trials of a search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.plots.drawing import (
    COLOURS,
    GRID,
    HEIGHT,
    LONGEST_AXIS_LABEL,
    PAPER,
    SMALL,
    TEXT,
    Floats,
    Page,
    Series,
    bar_fill,
    colour_of,
    data_of,
    decimal,
    keys_of,
    keys_of_bars,
    log_ticks,
    name_axes,
    short_name,
    styles_of,
    titled_panels,
    to_one,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_TEST: dict[str, Any] = {"markersize": 8, "markeredgecolor": "black", "markeredgewidth": 1.2}
_MOST_MARKS = 8  # on a line


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """A row with a search.

    Attributes:
        best: best value on validation after 1, 2, ... trials; NaN before the first complete trial.
        test: (number of trials, value on test of the chosen settings); None if not available.
    """

    series: Series
    best: Sequence[float]
    test: tuple[float, float] | None


def best_by_trials(
    drawn: Sequence[BudgetCurve], metric: str, is_expected: bool, page: Page = PAPER
) -> Figure | None:
    """Draws one line per row, and its value on test in a panel beside it; None if no row has a line.

    Args:
        is_expected: whether the values are expected over the order of the trials, for the label of the axis.
    """
    shown = [item for item in drawn if any(map(math.isfinite, item.best))]
    if not shown:
        return None
    series = [item.series for item in shown]
    best = "expected best" if is_expected else "best"
    title = f"{data_of(series)}: {best} {metric} on validation by number of trials, and {metric} on test"
    tested = any(item.test for item in shown)
    # A common axis would flatten the lines, because validation and test have different queries.
    grid = {"ncols": 2, "width_ratios": (3, 1)} if tested else {}
    figure, panels = titled_panels(title, keys_of(series), page.height(HEIGHT), page, **grid)
    for item, style in zip(shown, styles_of(series), strict=True):
        marks = {"markersize": 4.5, "markevery": max(1, len(item.best) // _MOST_MARKS), **style.points}
        numbers = range(1, len(item.best) + 1)
        panels[0].plot(numbers, item.best, linewidth=1.4, linestyle=style.line, **marks)
        if item.test is not None:
            panels[1].plot(*item.test, linestyle="none", **{**style.points, **_TEST})
    panels[0].locator_params(axis="x", integer=True)
    panels[0].set_ylabel(f"{best} {metric} on validation", fontsize=TEXT)
    if tested:
        budgets = {item.test[0] for item in shown if item.test}
        panels[1].set_xticks(sorted(budgets), [f"{budget:g}" for budget in sorted(budgets)])
        panels[1].set_ylabel(f"{metric} of the chosen settings on test", fontsize=TEXT)
        panels[1].margins(x=0.3)
        _give_one_scale(panels)
    for axes in panels:
        axes.set_xlabel("number of trials" if axes is panels[0] else "trials", fontsize=TEXT)
        axes.grid(**GRID)
    return figure


def _give_one_scale(panels: Sequence[Axes]) -> None:
    """Gives all vertical axes the same length in the metric, each around its own values."""
    ends = [axes.get_ylim() for axes in panels]
    half = max(high - low for low, high in ends) / 2
    for axes, (low, high) in zip(panels, ends, strict=True):
        axes.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)


# ---- Per-query differences of two rows, sorted: shows how many queries each row wins, and by how much.

_MOST_POINTS = 250


@dataclass(frozen=True, eq=False)
class Differences:
    """Row `a` minus row `b`.

    Attributes:
        models: backends of the two rows, which determine the colors.
        values: (Q,), one difference per query.
        reach: maximum absolute value of the axis, so that several pictures can share it.
    """

    a: str
    b: str
    models: tuple[str, str]
    values: Floats
    reach: float


def sorted_differences(drawn: Differences, metric: str, page: Page = PAPER) -> Figure:
    """Draws the differences in descending order: an area above 0 where `a` wins, below 0 where `b` wins."""
    descending = np.sort(drawn.values)[::-1]
    a, b = short_name(drawn.a, LONGEST_AXIS_LABEL), short_name(drawn.b, LONGEST_AXIS_LABEL)
    title = f"{drawn.a} minus {drawn.b}: {metric} of each query, sorted"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    shares, values = thinned(descending)
    for side, model in zip((values > 0, values < 0), drawn.models, strict=True):
        axes.fill_between(100 * shares[side], values[side], color=colour_of(model), alpha=0.55, linewidth=0)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlim(0, 100)
    axes.set_ylim(-1.15 * drawn.reach, 1.15 * drawn.reach)
    name_axes(axes, "share of the queries, %", f"difference in {metric}")
    count = len(descending)
    wins, losses = int((descending > 0).sum()), int((descending < 0).sum())
    _say(axes, (0.98, 0.96), "top", f"{a} better: {wins:,} of {count:,} ({wins / count:.0%})")
    _say(axes, (0.98, 0.04), "bottom", f"{b} better: {losses:,} of {count:,} ({losses / count:.0%})")
    return figure


def thinned(descending: Floats) -> tuple[Floats, Floats]:
    """Returns shares of the queries and the values at these shares, thinned evenly to a drawable number.

    The ends and all sign changes are kept, so that the shares of wins and losses stay exact.

    >>> thinned(np.array([0.5, 0.0]))
    (array([0. , 0.5, 0.5, 1. ]), array([0.5, 0.5, 0. , 0. ]))
    """
    count = len(descending)
    changes = np.flatnonzero(np.diff(np.sign(descending)))
    even = np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(np.int64)
    kept = np.unique(np.concatenate([even, changes, changes + 1]))
    # Each kept query is drawn as a step that ends where the next kept query starts.
    starts, ends = kept / count, np.append(kept[1:], count) / count
    return np.column_stack([starts, ends]).ravel(), np.repeat(descending[kept], 2)


def _say(axes: Axes, place: tuple[float, float], side: str, text: str) -> None:
    look: dict[str, Any] = {
        "fontsize": SMALL,
        "horizontalalignment": "right",
        "verticalalignment": side,
        "parse_math": False,
    }
    axes.text(*place, text, transform=axes.transAxes, **look)


# ---- The distribution of a metric over queries, one line per row.

_MOST_STEPS = 500


def distribution_over_queries(
    series: Sequence[Series], values: Sequence[Floats], metric: str, page: Page = PAPER
) -> Figure:
    """Draws the empirical distribution function of each series, with its median marked.

    Args:
        values: (Q,) for each series, one value per query.
    """
    title = f"{data_of(series)}: cumulative distribution of {metric} over queries"
    figure, (axes,) = titled_panels(title, keys_of(series), page.height(HEIGHT), page)
    for per_query, style in zip(values, styles_of(series), strict=True):
        ascending = evenly_thinned(np.sort(per_query))
        axes.ecdf(ascending, linewidth=1.4, **style.stroke)
        axes.plot([np.median(per_query)], [0.5], linestyle="none", markersize=5, **style.points)
    low, high = min(map(np.min, values)), max(map(np.max, values))
    margin = 0.03 * (high - low or 1.0)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f}")
    name_axes(axes, f"{metric} of a query", "share of queries up to this value, %")
    return figure


def evenly_thinned(ascending: Floats) -> Floats:
    """Returns evenly spaced order statistics; the error of a share is at most their distance.

    >>> evenly_thinned(np.arange(3.0))
    array([0., 1., 2.])
    """
    places = np.linspace(0, len(ascending) - 1, min(len(ascending), _MOST_STEPS)).round()
    thinned: Floats = ascending[places.astype(np.int64)]
    return thinned


# ---- The critical-difference diagram: average ranks over data sets, with the result of the Nemenyi test.

_ROW = 0.24  # inches
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
    order = sorted(range(len(labels)), key=lambda number: average_ranks[number])
    half = math.ceil(len(order) / 2)
    depth = 0.6 + _BAR * len(groups)
    title = "Average ranks over data sets; a bar joins models without a significant difference (Nemenyi, 5 %)"
    bottom = depth + half + 0.6
    figure, (axes,) = titled_panels(title, [], _ROW * (bottom + 3), page)
    _draw_axis(axes, len(labels), bottom)
    for place, group in enumerate(groups):
        ranks = [average_ranks[number] for number in group]
        axes.plot([min(ranks), max(ranks)], [0.4 + _BAR * place] * 2, color="black", linewidth=3)
    for place, number in enumerate(order):
        to_left = place < half
        row = depth + (place if to_left else len(order) - 1 - place) + 0.5
        _draw_label(axes, labels[number], average_ranks[number], row, to_left)
    _draw_width(axes, critical_difference, bottom)
    return figure


def _draw_axis(axes: Axes, num_models: int, bottom: float) -> None:
    """Draws the axis of ranks at the top, with room for labels on both sides."""
    room = 0.5 * (num_models - 1)
    axes.set_xlim(1 - room, num_models + room)
    axes.set_ylim(bottom, 0)
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, num_models + 1))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.spines["top"].set_bounds(1, num_models)
    axes.set_yticks([])
    axes.set_xlabel("average rank (1 is best)", fontsize=TEXT)
    axes.xaxis.set_label_position("top")


def _draw_width(axes: Axes, critical_difference: float, row: float) -> None:
    """Draws a line with the length of the critical difference, centered below the labels."""
    middle = sum(axes.get_xlim()) / 2
    ends = [middle - critical_difference / 2, middle + critical_difference / 2]
    axes.plot(ends, [row, row], color="#777777", marker="|", linewidth=1.2, clip_on=False)
    look: dict[str, Any] = {"fontsize": SMALL, "horizontalalignment": "center", "verticalalignment": "bottom"}
    axes.text(middle, row - 0.15, f"critical difference {critical_difference:.2f}", color="#555555", **look)


def _draw_label(axes: Axes, label: str, rank: float, row: float, to_left: bool) -> None:
    low, high = axes.get_xlim()
    edge = low if to_left else high
    axes.plot([rank, rank, edge], [0, row, row], color="#555555", linewidth=0.8, clip_on=False)
    axes.text(
        edge,
        row - 0.08,
        f"{short_name(label, _LONGEST_MODEL)}  {rank:.2f}",
        fontsize=SMALL,
        horizontalalignment="left" if to_left else "right",
        verticalalignment="bottom",
        parse_math=False,
    )


# ---- Two rows query by query: one point per query, or density cells for many queries.

MOST_POINTS = 2000
"""Above this number of queries, hexagonal cells replace the points."""
_FEW_POINTS = 200
_CELLS = 24  # from left to right
_ON_DIAGONAL = "#777777"


@dataclass(frozen=True, eq=False)
class QueryPairs:
    """The values of rows `a` and `b` on the same queries.

    Attributes:
        models: backends of the two rows, which determine the colors.
        values: (2, Q), the values of `a` and of `b`.
        sides: (Q,), 1 if `a` is better, -1 if `b` is better, 0 for a tie.
        limits: limits of both axes, so that several pictures can share them.
    """

    a: str
    b: str
    models: tuple[str, str]
    values: Floats
    sides: NDArray[np.int64]
    limits: tuple[float, float]


def scatter(drawn: QueryPairs, metric: str, page: Page = PAPER) -> Figure:
    """Draws `b` on the horizontal axis, `a` on the vertical axis, and the diagonal of ties; each side has the
    color of its winner.

    Points and cells are translucent. The density of a cell shows its number of queries on a log scale.
    """
    title = f"{drawn.a} against {drawn.b}: {metric} of each query"
    figure, (axes,) = titled_panels(title, [], max(page.height(HEIGHT), page.width), page)
    margin = 0.03 * (drawn.limits[1] - drawn.limits[0])
    ends = (drawn.limits[0] - margin, drawn.limits[1] + margin)
    axes.plot(ends, ends, color="black", linewidth=0.6, zorder=3)
    (_draw_points if drawn.values.shape[1] <= MOST_POINTS else _draw_cells)(axes, drawn)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_box_aspect(1)
    names = [short_name(label, LONGEST_AXIS_LABEL) for label in (drawn.a, drawn.b)]
    name_axes(axes, f"{metric} of {names[1]}", f"{metric} of {names[0]}")
    return figure


def _sides(drawn: QueryPairs) -> list[tuple[NDArray[np.bool_], str]]:
    """Returns masks of the queries that tie, that `b` wins and that `a` wins, each with its color."""
    first, second = map(colour_of, drawn.models)
    return [(drawn.sides == side, colour) for side, colour in ((0, _ON_DIAGONAL), (-1, second), (1, first))]


def _draw_points(axes: Axes, drawn: QueryPairs) -> None:
    few = drawn.values.shape[1] <= _FEW_POINTS
    look: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "markersize": 4.5 if few else 3,
        "markeredgewidth": 0,
        "alpha": 0.6 if few else 0.4,
        "clip_on": False,
    }
    for inside, colour in _sides(drawn):
        axes.plot(drawn.values[1, inside], drawn.values[0, inside], color=colour, **look)


def _draw_cells(axes: Axes, drawn: QueryPairs) -> None:
    from matplotlib.colors import LogNorm

    grid: dict[str, Any] = {"gridsize": _CELLS, "extent": (*drawn.limits, *drawn.limits), "mincnt": 1}
    cells: list[PolyCollection] = [
        axes.hexbin(*drawn.values[::-1, inside], cmap=_fading(colour), linewidths=0, **grid)
        for inside, colour in _sides(drawn)
        if inside.any()
    ]
    # The same scale for all sides, so that their densities can be compared.
    most = max(float(np.max(np.asarray(side.get_array()))) for side in cells)
    for side in cells:
        side.set_norm(LogNorm(1, max(most, 2)))


def _fading(colour: str) -> Colormap:
    """Returns a colormap from nearly transparent to opaque, readable on light and dark backgrounds."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    return LinearSegmentedColormap.from_list(colour, [to_rgba(colour, 0.2), to_rgba(colour, 0.95)], N=16)


# ---- The settings that a search varied: their importance, and the value on validation against each.

_LONGEST_SETTING = 26  # characters
_MOST_COLUMNS = 3
_PANEL, _EDGE = 1.7, 0.9  # inches
_TRIAL: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 4,
    "markeredgewidth": 0,
    "alpha": 0.6,
}
_CHOSEN: dict[str, Any] = {**_TRIAL, "markersize": 7, "markeredgecolor": "black", "markeredgewidth": 1.2}
_DEFAULT: dict[str, Any] = {**_TRIAL, "marker": "x", "markersize": 7, "markeredgewidth": 1.8, "alpha": 1}


def setting_importance_bars(
    shares: Sequence[tuple[Series, Mapping[str, float]]], page: Page = PAPER
) -> Figure | None:
    """Draws the share of the variance that each setting explains, one bar per row; None without shares.

    Args:
        shares: row -> setting -> share of the variance of the value on validation.
    """
    shown = [(item, of_row) for item, of_row in shares if of_row]
    if not shown:
        return None
    names = dict.fromkeys(name for _, of_row in shown for name in of_row)
    means = {name: fmean(of_row.get(name, 0.0) for _, of_row in shown) for name in names}
    settings = sorted(names, key=lambda name: -means[name])
    series = [item for item, _ in shown]
    title = f"{data_of(series)}: importance of the settings{to_one(series)}"
    height = 1.2 + len(settings) * (0.12 + 0.09 * len(series))
    figure, (axes,) = titled_panels(title, keys_of_bars(series) if len(series) > 1 else [], height, page)
    thickness = 0.84 / len(shown)
    for place, ((_, of_row), style) in enumerate(zip(shown, styles_of(series), strict=True)):
        rows = np.arange(len(settings)) + (place - (len(shown) - 1) / 2) * thickness
        widths = [100 * of_row.get(name, 0.0) for name in settings]
        axes.barh(rows, widths, thickness, **bar_fill(style))
        axes.barh(rows, widths, thickness, facecolor="none", edgecolor=style.colour, linewidth=0.5)
    axes.set_yticks(range(len(settings)))
    labels = [short_name(name, _LONGEST_SETTING) for name in settings]
    axes.set_yticklabels(labels, fontsize=SMALL, parse_math=False)
    axes.set_ylim(len(settings) - 0.4, -0.6)
    axes.set_xlabel("share of the variance of the value on validation, %", fontsize=TEXT)
    return figure


@dataclass(frozen=True)
class TrialPoint:
    """A complete trial.

    Attributes:
        settings: setting -> value, as text.
        value: value on validation minus that of the chosen trial of the same search.
        is_chosen, is_default: whether the trial was chosen; whether it has the default settings.
    """

    settings: Mapping[str, str]
    value: float
    is_chosen: bool
    is_default: bool


def values_by_setting(
    series: Series, space: Mapping[str, str], trials: Sequence[TrialPoint], metric: str, page: Page = PAPER
) -> Figure | None:
    """Draws one panel per setting with a point per trial; None without a setting or with fewer than two
    trials.

    Args:
        space: setting -> its range in words, "0.01 to 0.5 (log)" or a list of values.
    """
    if not space or len(trials) < 2:
        return None
    columns = min(_MOST_COLUMNS, len(space))
    rows = -(-len(space) // columns)
    title = f"{data_of([series])}: {metric} on validation by setting{to_one([series])}"
    colour = colour_of(series.model)
    figure, panels = titled_panels(
        title,
        _keys_of_trials(trials, colour),
        _EDGE + _PANEL * rows,
        page,
        nrows=rows,
        ncols=columns,
        sharey=True,
    )
    for axes, (setting, values) in zip(panels, space.items(), strict=False):
        _draw_slice(axes, setting, values, trials, colour)
        if axes.get_xscale() == "log":
            _label_log_axis(axes, page.width / columns)
    for axes in panels[::columns]:
        axes.set_ylabel("minus the chosen trial", fontsize=SMALL)
    for axes in panels[len(space) :]:
        axes.set_visible(False)
    return figure


def _draw_slice(axes: Axes, setting: str, values: str, trials: Sequence[TrialPoint], colour: str) -> None:
    """Draws one panel; a trial whose value has no place on the axis, as null, is left out."""
    texts = [trial.settings[setting] for trial in trials]
    places: list[float | None]
    if " to " in values:
        places = [_number(text) for text in texts]
        if values.endswith("(log)"):
            places = _on_log_axis(axes, places)
    else:
        categories = sorted(set(texts), key=lambda text: (_number(text) is None, _number(text) or 0.0, text))
        places = [float(categories.index(text)) for text in texts]
        axes.set_xticks(range(len(categories)))
        axes.set_xticklabels([short_name(name, 12) for name in categories], parse_math=False)
        axes.set_xlim(-0.5, len(categories) - 0.5)
    for place, trial in zip(places, trials, strict=True):
        if place is not None:
            look = _CHOSEN if trial.is_chosen else _DEFAULT if trial.is_default else _TRIAL
            shade = "black" if look is _DEFAULT else colour
            axes.plot(place, trial.value, color=shade, zorder=2 + trial.is_chosen, **look)
    axes.set_xlabel(short_name(setting, _LONGEST_SETTING), fontsize=SMALL, parse_math=False)
    axes.grid(**GRID)


def _on_log_axis(axes: Axes, places: Sequence[float | None]) -> list[float | None]:
    """Makes the axis logarithmic; returns the places without those of 0 or less, which only a default has."""
    positive = [place for place in places if place is not None and place > 0]
    if positive:
        low, high = min(positive), max(positive)
        margin = max(1.1, (high / low) ** 0.06)
        axes.set_xscale("log")
        axes.set_xlim(low / margin, high * margin)
    return [place if place is not None and place > 0 else None for place in places]


def _label_log_axis(axes: Axes, width: float) -> None:
    """Labels round numbers; `width` is the width of the panel with its labels, inches."""
    from matplotlib.ticker import NullLocator

    low, high = axes.get_xlim()
    ticks = log_ticks(low, high, width, low)
    axes.set_xticks(ticks, [decimal(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _keys_of_trials(trials: Sequence[TrialPoint], colour: str) -> list[Line2D]:
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], color=colour, label="trial", **_TRIAL)]
    if any(trial.is_chosen for trial in trials):
        keys.append(Line2D([], [], color=colour, label="chosen trial", **_CHOSEN))
    if any(trial.is_default and not trial.is_chosen for trial in trials):
        keys.append(Line2D([], [], color="black", label="default settings", **_DEFAULT))
    return keys


# ---- The components of the variance of each difference: one stacked bar per pair.

QUERY, TRAINING, TRAINING_BY_QUERY, FOLD = "queries", "training", "training x query", "folds"
_LOOKS = {
    QUERY: (COLOURS["native"], ""),
    TRAINING: (COLOURS["catboost"], "///"),
    TRAINING_BY_QUERY: (COLOURS["single_feature"], "..."),
    FOLD: (COLOURS["xgboost"], "\\\\\\"),
}
"""Component -> (color, hatch), in the order of drawing."""

_VARIANCE_ROW, _AXIS, _TITLE = 0.3, 0.55, 0.4  # inches
_LONGEST_PAIR = 34  # characters
_THICKNESS = 0.62


@dataclass(frozen=True)
class ErrorParts:
    """The variance of one difference.

    Attributes:
        label: name of the pair.
        shares: component -> its share of the variance; the shares sum to 1.
        standard_error: standard error of the difference.
    """

    label: str
    shares: Mapping[str, float]
    standard_error: float


def variance_shares(drawn: Sequence[ErrorParts], metric: str, page: Page = PAPER) -> Figure:
    """Draws one bar of 100 % per pair, from the top, with the standard error beside it."""
    parts = [name for name in _LOOKS if any(item.shares.get(name) for item in drawn)]
    title = f"Shares of the variance of each difference in {metric}, with its standard error (SE)"
    # The height does not scale with the page, because the text does not.
    height = _AXIS + _TITLE * page.titled + _VARIANCE_ROW * len(drawn)
    figure, (axes,) = titled_panels(title, _keys(parts), height, page)
    rows, left = np.arange(len(drawn)), np.zeros(len(drawn))
    for name in parts:
        widths = np.array([100 * item.shares.get(name, 0.0) for item in drawn])
        axes.barh(rows, widths, _THICKNESS, left=left, **_look(name))
        left += widths
    look: dict[str, Any] = {"fontsize": SMALL, "verticalalignment": "center"}
    for row, item in enumerate(drawn):
        axes.text(102, row, f"SE {item.standard_error:.4f}", **look)
    axes.set_yticks(rows)
    names = [short_name(item.label, _LONGEST_PAIR) for item in drawn]
    axes.set_yticklabels(names, fontsize=SMALL, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlabel("share of the variance, %", fontsize=TEXT)
    return figure


def _look(name: str) -> dict[str, Any]:
    colour, hatch = _LOOKS[name]
    # The hatch has the color of the edge.
    return {"facecolor": colour, "edgecolor": "white", "hatch": hatch, "linewidth": 0.5}


def _keys(parts: Sequence[str]) -> list[Artist]:
    from matplotlib.patches import Patch

    return [Patch(label=name, **_look(name)) for name in parts]
