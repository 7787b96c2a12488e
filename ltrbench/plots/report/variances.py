"""The components of the variance of each difference: one stacked bar per pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.plots.drawing.panels import PAPER, SMALL, TEXT, Page, short_name, titled_panels
from ltrbench.plots.drawing.styles import COLOURS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

QUERY, TRAINING, TRAINING_BY_QUERY, FOLD = "queries", "training", "training x query", "folds"
_LOOKS = {
    QUERY: (COLOURS["native"], ""),
    TRAINING: (COLOURS["catboost"], "///"),
    TRAINING_BY_QUERY: (COLOURS["single_feature"], "..."),
    FOLD: (COLOURS["xgboost"], "\\\\\\"),
}
"""Component -> (color, hatch), in the order of drawing."""

_ROW, _AXIS, _TITLE = 0.3, 0.55, 0.4  # inches
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
    height = _AXIS + _TITLE * page.titled + _ROW * len(drawn)
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
