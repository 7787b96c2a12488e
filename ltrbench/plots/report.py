"""Pictures of the report only: searches, differences and distributions over queries, ranks over data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.plots.drawing import (
    HEIGHT,
    PAPER,
    SMALL,
    TEXT,
    Floats,
    Page,
    Series,
    colour_of,
    data_of,
    draw_bars,
    keys_of,
    keys_of_bars,
    name_axes,
    short_name,
    styles_of,
    titled_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# ---- Searches: the best value by number of trials, and the importance of the settings.

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
    # A common axis would flatten the lines, because validation and test have different queries.
    grid = {"ncols": 2, "width_ratios": (3, 1)}
    figure, (left, right) = titled_panels(title, keys_of(series), page.height(HEIGHT), page, **grid)
    for item, style in zip(shown, styles_of(series), strict=True):
        marks = {"markersize": 4.5, "markevery": max(1, len(item.best) // _MOST_MARKS), **style.points}
        left.plot(range(1, len(item.best) + 1), item.best, linewidth=1.4, linestyle=style.line, **marks)
        if item.test is not None:
            right.plot(*item.test, linestyle="none", **{**style.points, **_TEST})
    name_axes(left, "number of trials", f"{best} {metric} on validation")
    name_axes(right, "trials", f"{metric} of the chosen settings on test")
    left.locator_params(axis="x", integer=True)
    budgets = sorted({item.test[0] for item in shown if item.test is not None})
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
        axes.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)


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
    title = f"{data_of(series)}: importance of the settings"
    height = 1.2 + len(settings) * (0.12 + 0.09 * len(series))
    figure, (axes,) = titled_panels(title, keys_of_bars(series), height, page)
    widths = [np.array([100 * of_row.get(name, 0.0) for name in settings]) for _, of_row in shown]
    draw_bars(axes, settings, widths, styles_of(series))
    axes.set_xlabel("share of the variance of the value on validation, %", fontsize=TEXT)
    return figure


# ---- Differences of two rows by query, sorted: how many queries each row wins, and by how much.

_MOST_POINTS = 400  # on a line
_LONGEST_AXIS_LABEL = 28  # characters


@dataclass(frozen=True, eq=False)
class Differences:
    """Row `a` minus row `b`.

    Attributes:
        values: (Q,), one difference per query.
        reach: maximum absolute value of the axis, so that several pictures can share it.
    """

    a: Series
    b: Series
    values: Floats
    reach: float


def sorted_differences(drawn: Differences, metric: str, page: Page = PAPER) -> Figure:
    """Draws the differences in descending order: an area above 0 where `a` wins, below 0 where `b` wins."""
    title = f"{drawn.a.label} minus {drawn.b.label}: {metric} of each query, sorted"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    # Evenly spaced order statistics keep the file small.
    shares = np.linspace(0, 1, _MOST_POINTS)
    descending = np.quantile(drawn.values, 1 - shares, method="nearest")
    count, corners = len(drawn.values), ((0.96, "top"), (0.04, "bottom"))
    look: dict[str, Any] = {"fontsize": SMALL, "horizontalalignment": "right", "parse_math": False}
    for sign, row, (height, side) in zip((1, -1), (drawn.a, drawn.b), corners, strict=True):
        won, wins = np.maximum(sign * descending, 0), int((sign * drawn.values > 0).sum())
        axes.fill_between(100 * shares, sign * won, color=colour_of(row.model), alpha=0.55, linewidth=0)
        text = (
            f"{short_name(row.label, _LONGEST_AXIS_LABEL)} better: {wins:,} of {count:,} ({wins / count:.0%})"
        )
        axes.text(0.98, height, text, transform=axes.transAxes, verticalalignment=side, **look)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlim(0, 100)
    axes.set_ylim(-1.15 * drawn.reach, 1.15 * drawn.reach)
    name_axes(axes, "share of the queries, %", f"difference in {metric}")
    return figure


# ---- The distribution of a metric over queries, one line per row.


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
        kept = np.quantile(per_query, np.linspace(0, 1, min(len(per_query), _MOST_POINTS)), method="nearest")
        axes.ecdf(kept, linewidth=1.4, color=style.colour, linestyle=style.line)
        axes.plot([np.median(per_query)], [0.5], linestyle="none", markersize=5, **style.points)
    low, high = min(map(np.min, values)), max(map(np.max, values))
    margin = 0.03 * (high - low or 1.0)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f}")
    name_axes(axes, f"{metric} of a query", "share of queries up to this value, %")
    return figure


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
    bottom = depth + half + 0.6
    title = "Average ranks over data sets; a bar joins models without a significant difference (Nemenyi, 5 %)"
    figure, (axes,) = titled_panels(title, [], _ROW * (bottom + 3), page)
    room = 0.5 * (len(labels) - 1)  # for the labels on both sides
    axes.set_xlim(1 - room, len(labels) + room)
    axes.set_ylim(bottom, 0)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("average rank (1 is best)", fontsize=TEXT)
    axes.set_xticks(range(1, len(labels) + 1))
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, bounds=(1, len(labels)))
    for row, group in enumerate(groups):
        ranks = [average_ranks[number] for number in group]
        axes.plot([min(ranks), max(ranks)], [0.4 + _BAR * row] * 2, color="black", linewidth=3)
    look: dict[str, Any] = {"fontsize": SMALL, "verticalalignment": "bottom", "parse_math": False}
    for position, number in enumerate(order):
        is_left, rank = position < half, average_ranks[number]
        row_of_label = depth + (position if is_left else len(order) - 1 - position) + 0.5
        edge, side = (1 - room, "left") if is_left else (len(labels) + room, "right")
        corners = [rank, rank, edge], [0, row_of_label, row_of_label]
        axes.plot(*corners, color="#555555", linewidth=0.8, clip_on=False)
        text = f"{short_name(labels[number], _LONGEST_MODEL)}  {rank:.2f}"
        axes.text(edge, row_of_label - 0.08, text, horizontalalignment=side, **look)
    middle = (1 + len(labels)) / 2
    ends = [middle - critical_difference / 2, middle + critical_difference / 2]
    axes.plot(ends, [bottom, bottom], color="#777777", marker="|", linewidth=1.2, clip_on=False)
    text = f"critical difference {critical_difference:.2f}"
    axes.text(middle, bottom - 0.15, text, color="#555555", horizontalalignment="center", **look)
    return figure
