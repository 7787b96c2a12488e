"""NDCG@k on test against k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ltrbench.plots.drawing.panels import GRID, HEIGHT, PAPER, TEXT, Page, keys_of, titled_panels
from ltrbench.plots.drawing.series import Series, data_of, over
from ltrbench.plots.drawing.styles import styles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ndcg_by_cutoff(series: Sequence[Series], page: Page = PAPER) -> Figure | None:
    """Draws one line per series with values; returns None if no series has values."""
    drawn = [item for item in series if item.ndcg]
    if not drawn:
        return None
    values = [item.ndcg for item in drawn]
    ks = range(1, max(map(len, values)) + 1)
    figure, (axes,) = titled_panels(
        f"{data_of(drawn)}: NDCG@k on test{over(drawn)}", keys_of(drawn), page.height(HEIGHT), page
    )
    for ndcg, style in zip(values, styles_of(drawn), strict=True):
        marks = {"markersize": 4.5, **style.points}
        axes.plot(ks[: len(ndcg)], ndcg, linewidth=1.3, linestyle=style.line, **marks)
    axes.set_xticks([k for k in ks if k == 1 or len(ks) <= 10 or k % 5 == 0])
    bottom, top = limits_of_ndcg([value for ndcg in values for value in ndcg])
    axes.set_ylim(bottom, top)
    axes.set_xlabel("cutoff k", fontsize=TEXT)
    axes.set_ylabel(f"NDCG@k (axis starts at {bottom:.2f})" if bottom else "NDCG@k", fontsize=TEXT)
    axes.grid(**GRID)
    return figure


def limits_of_ndcg(values: Sequence[float]) -> tuple[float, float]:
    """Returns the limits of the axis: from 0 if a value is below half of the highest; otherwise at least 0.2
    wide, so that noise does not look like a difference.

    >>> limits_of_ndcg([0.21, 0.62]), limits_of_ndcg([0.71, 0.72])
    ((0.0, 0.65), (0.55, 0.75))
    """
    low, high = min(values), max(values)
    bottom, top = math.floor(20 * low) / 20, math.ceil(20 * high + 0.2) / 20
    if low < high / 2:
        return 0.0, top
    return max(0.0, round(min(bottom, top - 0.2), 2)), top
