"""A test metric against a cost, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.plots.drawing.labels import label_points
from ltrbench.plots.drawing.panels import GRID, HEIGHT, PAPER, SMALL, TEXT, Page, titled_panels
from ltrbench.plots.drawing.series import Series, data_of, over
from ltrbench.plots.drawing.styles import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""(cost, metric) of a series."""

_LABEL_WIDTH = 0.6
"""Maximum width of a tick label in inches, for `≤ 0.0001`."""
_AXIS_SHARE = 0.8
"""Minimum share of the page width that the axis takes."""

_FRONT: dict[str, Any] = {
    "color": "#777777",
    "linewidth": 1.0,
    "linestyle": (0, (4, 2)),
    "label": "Pareto front",
}


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
    """Draws one point per series; returns None if no series has both a cost and a value."""
    known = [
        (item, (max(cost.least, spent), item.value))
        for item, spent in zip(series, costs, strict=True)
        if spent is not None and item.value is not None
    ]
    if not known:
        return None
    drawn, points = [item for item, _ in known], [point for _, point in known]
    title = f"{data_of(drawn)}: {metric} on test against {cost.name}{over(drawn)}"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    axes.margins(0.12)
    for (spent, value), style in zip(points, styles_of(drawn), strict=True):
        axes.plot(spent, value, linestyle="none", markersize=8, **style.points)
    highest, lowest = (extreme(spent for spent, _ in points) for extreme in (max, min))
    logarithmic = highest > 10 * lowest
    if logarithmic:
        _make_logarithmic(axes, page.width, cost.least)
    axes.set_xlabel(f"{cost.axis}{' (log scale)' * logarithmic}", fontsize=TEXT)
    axes.set_ylabel(f"{metric} on test", fontsize=TEXT)
    axes.grid(**GRID)
    label_points(figure, axes, points, [item.label for item in drawn], _draw_front(axes, points))
    return figure


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Returns the Pareto front in ascending order of cost: no other point is both cheaper and as good.

    >>> pareto_front([(3.0, 0.5), (1.0, 0.4), (2.0, 0.3), (3.0, 0.2)])
    [(1.0, 0.4), (3.0, 0.5)]
    """
    front: list[Point] = []
    for cost, value in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or value > front[-1][1]:
            front.append((cost, value))
    return front


def _draw_front(axes: Axes, points: Sequence[Point]) -> list[Point]:
    """Draws the Pareto front as steps and returns their corners; empty for a single point."""
    if len(points) < 2:
        return []
    right = axes.get_xlim()[1]
    front = pareto_front(points)
    corners = [front[0]]
    for cost, value in [*front[1:], (right, front[-1][1])]:
        corners += [(cost, corners[-1][1]), (cost, value)]
    axes.plot(*zip(*corners, strict=True), zorder=1, **_FRONT)
    axes.set_xlim(right=right)
    axes.legend(loc="best", fontsize=SMALL, frameon=False)
    return corners


def fit_seconds(item: Series) -> float | None:
    """Returns the mean fit time over the runs that did not share the machine with another job.

    None if there is no such run, or one of them has no time.
    """
    alone = [run.result for run in item.runs if not run.result.shared_machine]
    times = [result.seconds.get("fit", math.nan) for result in alone]
    return fmean(times) if times and not math.isnan(fmean(times)) else None


def _make_logarithmic(axes: Axes, width: float, least: float) -> None:
    """Makes the cost axis logarithmic; `width` is the width of the page in inches."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    ticks = log_ticks(*axes.get_xlim(), width, least)
    axes.set_xticks(ticks, [f"{'≤ ' * (tick == least)}{decimal(tick)}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float, width: float, least: float) -> list[float]:
    """Returns as many round numbers as fit with their labels on a logarithmic axis from `low` to `high`.

    No tick is below `least`, where nothing is drawn.

    >>> log_ticks(0.8, 12, 5.0, 0.01), log_ticks(0.00005, 0.3, 5.0, 0.0001)
    ([1.0, 2.0, 5.0, 10.0], [0.0001, 0.001, 0.01, 0.1])
    """
    first, last = math.floor(math.log10(max(low, least))), math.ceil(math.log10(high))
    inches_of_decade = _AXIS_SHARE * width / math.log10(high / low)
    ticks: list[float] = []
    for step, factors in (
        (1, (1, 2, 5)),
        (1, (1, 3)),
        *((step, (1,)) for step in range(1, last - first + 1)),
    ):
        powers = range(first, last + 1, step)
        # Parsed, because 10.0**-4 is not the float 0.0001.
        candidates = [float(f"{factor}e{power}") for power in powers for factor in factors]
        ticks = [tick for tick in candidates if max(low, least) <= tick <= high]
        gaps = [math.log10(b / a) * inches_of_decade for a, b in pairwise(ticks)]
        if min(gaps, default=math.inf) >= _LABEL_WIDTH:
            break
    return ticks


def decimal(number: float) -> str:
    """
    >>> decimal(5e-05), decimal(1000.0)
    ('0.00005', '1000')
    """
    return np.format_float_positional(number, trim="-")
