"""Best value on validation against the number of trials of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ltrbench.plots.drawing.panels import GRID, HEIGHT, PAPER, TEXT, Page, keys_of, titled_panels
from ltrbench.plots.drawing.series import Series, data_of
from ltrbench.plots.drawing.styles import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
