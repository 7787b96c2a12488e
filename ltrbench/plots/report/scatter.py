"""Two rows query by query: one point per query, or density cells for many queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.plots.drawing.panels import (
    GRID,
    HEIGHT,
    LONGEST_AXIS_LABEL,
    PAPER,
    TEXT,
    Floats,
    Page,
    short_name,
    titled_panels,
)
from ltrbench.plots.drawing.styles import colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

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
    axes.set_ylabel(f"{metric} of {names[0]}", fontsize=TEXT, parse_math=False)
    axes.set_xlabel(f"{metric} of {names[1]}", fontsize=TEXT, parse_math=False)
    axes.grid(**GRID)
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
