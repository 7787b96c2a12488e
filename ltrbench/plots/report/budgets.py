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
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_TEST: dict[str, Any] = {"markersize": 9, "markeredgecolor": "black", "markeredgewidth": 1.2}
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
    """Draws one line per row, and a large mark for its value on test; None if no row has a line.

    Args:
        is_expected: whether the values are expected over the order of the trials, for the label of the axis.
    """
    shown = [item for item in drawn if any(map(math.isfinite, item.best))]
    if not shown:
        return None
    series = [item.series for item in shown]
    keys = [*keys_of(series), *([_key_of_test()] if any(item.test for item in shown) else [])]
    best = "expected best" if is_expected else "best"
    title = f"{data_of(series)}: {best} {metric} on validation by number of trials"
    figure, (axes,) = titled_panels(title, keys, page.height(HEIGHT), page)
    for item, style in zip(shown, styles_of(series), strict=True):
        marks = {"markersize": 4.5, "markevery": max(1, len(item.best) // _MOST_MARKS), **style.points}
        numbers = range(1, len(item.best) + 1)
        axes.plot(numbers, item.best, linewidth=1.4, linestyle=style.line, **marks)
        if item.test is not None:
            axes.plot(*item.test, linestyle="none", zorder=5, clip_on=False, **{**style.points, **_TEST})
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("number of trials", fontsize=TEXT)
    axes.set_ylabel(f"{best} {metric}", fontsize=TEXT)
    axes.margins(x=0.03)
    axes.grid(**GRID)
    return figure


def _key_of_test() -> Line2D:
    from matplotlib.lines import Line2D

    label = "chosen settings on test"
    return Line2D([], [], color="#777777", linestyle="none", marker="o", label=label, **_TEST)
