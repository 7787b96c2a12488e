"""Per-query differences of two rows, sorted: shows how many queries each row wins, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.plots.drawing.panels import (
    GRID,
    HEIGHT,
    LONGEST_AXIS_LABEL,
    PAPER,
    SMALL,
    TEXT,
    Floats,
    Page,
    short_name,
    titled_panels,
)
from ltrbench.plots.drawing.styles import colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    axes.set_xlabel("share of the queries, %", fontsize=TEXT)
    axes.set_ylabel(f"difference in {metric}", fontsize=TEXT)
    axes.grid(**GRID)
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
