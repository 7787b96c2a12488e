"""Styles of series: a backend has one color, marker and hatch; its rows differ in line and fill style."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.plots.drawing.series import Series

LineStyle = tuple[int, tuple[float, ...]]
"""Matplotlib's line style: (offset, lengths of dashes and gaps in line widths); no lengths: a solid line."""

# Okabe and Ito (2008), "Color Universal Design"; the random baseline has the gray of R's palette.colors.
COLOURS = {
    "native": "#0072B2",
    "lightgbm": "#D55E00",
    "xgboost": "#009E73",
    "catboost": "#E69F00",
    "single_feature": "#CC79A7",
    "random": "#999999",
}
_MARKERS = dict(zip(COLOURS, "os^DvX", strict=True))
# The rest of the palette, without yellow, which is too pale for a line on white paper.
OTHER_COLOURS = ("#000000", "#56B4E9")
_OTHER_MARKERS = "Pp*h<>"
_LINES: tuple[LineStyle, ...] = (
    (0, ()),
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
)
_FILLINGS = ("full", "none", "left", "bottom")
_HATCHES = ("", "/////", ".....", "xxxxx", "-----", "\\\\\\\\\\")


@dataclass(frozen=True)
class Style:
    """Style of a series. Color, marker and hatch are the same for a backend; the rest differs between its
    rows.

    Attributes:
        filling: fill style of the marker, in matplotlib's names.
        hatch: hatch of a bar.
        tint: tint of a bar, from 1 for the full color towards 0 for white.
    """

    colour: str
    marker: str
    line: LineStyle
    filling: str
    hatch: str
    tint: float

    @property
    def stroke(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.line}

    @property
    def points(self) -> dict[str, Any]:
        return {"color": self.colour, "marker": self.marker, "fillstyle": self.filling}


def styles_of(series: Sequence[Series]) -> list[Style]:
    """Returns one style per series; all are different for up to a dozen rows of one color."""
    colours = [colour_of(item.model) for item in series]
    of_colour, seen = Counter(colours), Counter[str]()
    chosen = []
    for item, colour in zip(series, colours, strict=True):
        rank, variant = _rank(item.model), seen[colour]
        seen[colour] += 1
        style = Style(
            colour=colour,
            marker=_MARKERS.get(item.model) or _OTHER_MARKERS[rank // 2 % len(_OTHER_MARKERS)],
            # Each backend starts with a different line style, so that they differ in print without colors.
            line=_LINES[(rank + variant) % len(_LINES)],
            filling=_FILLINGS[variant % len(_FILLINGS)],
            hatch=_HATCHES[rank % len(_HATCHES)],
            tint=1 - 0.75 * variant / max(1, of_colour[colour] - 1),
        )
        chosen.append(style)
    return chosen


def bar_fill(style: Style) -> dict[str, Any]:
    """Returns the fill of a bar, as arguments of matplotlib."""
    from matplotlib.colors import to_rgb

    full = np.array(to_rgb(style.colour))
    tinted = tuple((1 - style.tint * (1 - full)).tolist())
    # The hatch has the color of the edge: white on the full color, the full color on a pale tint.
    edge = "white" if style.tint > 0.7 else style.colour
    return {"facecolor": tinted, "edgecolor": edge, "hatch": style.hatch, "linewidth": 0}


def _rank(model: str) -> int:
    """Returns the index of a known backend, or a number computed from the name of another one."""
    # Not hash(), which differs between processes.
    return [*COLOURS].index(model) if model in COLOURS else zlib.crc32(model.encode())


def colour_of(model: str) -> str:
    return COLOURS.get(model) or OTHER_COLOURS[_rank(model) % len(OTHER_COLOURS)]
