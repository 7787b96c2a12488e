"""A metric of test against what it costs, with the Pareto front drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ltrbench.plots.labels import label_points
from ltrbench.plots.panels import GRID, HEIGHT, PAPER, SMALL, TEXT, Page, titled_panels
from ltrbench.plots.series import Drawn, data_of, over
from ltrbench.plots.styles import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""What a series costs, and what it is worth."""

_FRONT: dict[str, Any] = {
    "color": "#777777",
    "linewidth": 1.0,
    "linestyle": (0, (4, 2)),
    "label": "Pareto front",
}


@dataclass(frozen=True)
class Cost:
    """What is on the axis across.

    Attributes:
        name: in the title, such as "the time to fit".
        axis: with its unit, such as "time to fit, seconds".
        least: less is nothing to speak of, and would stretch a logarithmic axis by decades.
    """

    name: str
    axis: str
    least: float


FIT = Cost("the time to fit", "time to fit, its evaluator included, seconds", 0.01)


def metric_against_cost(
    series: Sequence[Drawn],
    costs: Sequence[float | None],
    cost: Cost,
    metric: str,
    page: Page = PAPER,
) -> Figure | None:
    """A point a series; None where no series has both a cost and a value."""
    known = [
        (item, (max(cost.least, own), item.value))
        for item, own in zip(series, costs, strict=True)
        if own is not None and item.value is not None
    ]
    if not known:
        return None
    drawn, points = [item for item, _ in known], [point for _, point in known]
    title = f"{data_of(drawn)}: {metric} on test against {cost.name}{over(drawn)}"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    for (own, value), style in zip(points, styles_of(drawn), strict=True):
        axes.plot(own, value, linestyle="none", markersize=8, **style.points)
    highest, lowest = (extreme(own for own, _ in points) for extreme in (max, min))
    logarithmic = highest > 10 * lowest
    if logarithmic:
        _make_logarithmic(axes, highest / lowest, cost.least)
    axes.set_xlabel(f"{cost.axis}{' (log scale)' * logarithmic}", fontsize=TEXT)
    axes.set_ylabel(f"{metric} on test", fontsize=TEXT)
    axes.grid(**GRID)
    axes.margins(0.12)
    label_points(figure, axes, points, [item.label for item in drawn], _draw_front(axes, points))
    return figure


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Those than which no other costs less and is worth as much, the cheapest first.

    >>> pareto_front([(3.0, 0.5), (1.0, 0.4), (2.0, 0.3), (3.0, 0.2)])
    [(1.0, 0.4), (3.0, 0.5)]
    """
    front: list[Point] = []
    for cost, value in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or value > front[-1][1]:
            front.append((cost, value))
    return front


def _draw_front(axes: Axes, points: Sequence[Point]) -> list[Point]:
    """A stair, whose corners it returns: its height is what so much buys. A point alone has none."""
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


def fit_seconds(item: Drawn) -> float | None:
    """Mean over runs; None where one of them has no time."""
    times = [run.result.seconds.get("fit", math.nan) for run in item.runs]
    return None if math.isnan(fmean(times)) else fmean(times)


def _make_logarithmic(axes: Axes, spread: float, least: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    def name(cost: float, _: int | None) -> str:
        return f"≤ {cost:g}" if cost == least else f"{cost:g}"

    axes.set_xscale("log")
    # The powers of ten alone would leave a short axis with a label or two.
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if spread < 500 else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(name))
