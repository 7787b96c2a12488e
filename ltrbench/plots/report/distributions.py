"""The distribution of a metric over queries, one line per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ltrbench.plots.drawing.panels import GRID, HEIGHT, PAPER, TEXT, Floats, Page, keys_of, titled_panels
from ltrbench.plots.drawing.series import Series, data_of
from ltrbench.plots.drawing.styles import styles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    axes.set_xlabel(f"{metric} of a query", fontsize=TEXT)
    axes.set_ylabel("share of queries up to this value, %", fontsize=TEXT)
    axes.grid(**GRID)
    return figure


def evenly_thinned(ascending: Floats) -> Floats:
    """Returns evenly spaced order statistics; the error of a share is at most their distance.

    >>> evenly_thinned(np.arange(3.0))
    array([0., 1., 2.])
    """
    places = np.linspace(0, len(ascending) - 1, min(len(ascending), _MOST_STEPS)).round()
    thinned: Floats = ascending[places.astype(np.int64)]
    return thinned
