"""How a series looks: a backend has one colour, marker and hatch; lines and fillings tell its rows apart."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ltrbench.plots.drawing.series import Series

LineStyle = tuple[int, tuple[float, ...]]
"""Matplotlib's: an offset, and the lengths of dashes and gaps in line widths; none for a solid line."""

# Okabe and Ito (2008), "Color Universal Design", with the grey of R's palette.colors for knowing nothing.
COLOURS = {
    "native": "#0072B2",
    "lightgbm": "#D55E00",
    "xgboost": "#009E73",
    "catboost": "#E69F00",
    "single_feature": "#CC79A7",
    "random": "#999999",
}
_MARKERS = dict(zip(COLOURS, "os^DvX", strict=True))
# What is left of the palette; its yellow is too pale for a line on white paper.
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
    """How a series looks. Colour, marker and hatch are the backend's; the rest tells its rows apart.

    Attributes:
        filling: of the marker, one of matplotlib's fill styles.
        hatch: of a bar.
        tint: of a bar, from 1 for the full colour towards 0 for white.
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
    """One style a series; no two are alike up to a dozen rows of one colour."""
    colours = [colour_of(item.model) for item in series]
    of_colour, seen = Counter(colours), Counter[str]()
    chosen = []
    for item, colour in zip(series, colours, strict=True):
        rank, variant = _rank(item.model), seen[colour]
        seen[colour] += 1
        style = Style(
            colour=colour,
            marker=_MARKERS.get(item.model) or _OTHER_MARKERS[rank // 2 % len(_OTHER_MARKERS)],
            # Each backend begins with another line, so that they differ where the print has no colours.
            line=_LINES[(rank + variant) % len(_LINES)],
            filling=_FILLINGS[variant % len(_FILLINGS)],
            hatch=_HATCHES[rank % len(_HATCHES)],
            tint=1 - 0.75 * variant / max(1, of_colour[colour] - 1),
        )
        chosen.append(style)
    return chosen


def _rank(model: str) -> int:
    """A backend's place among the known ones; that of another comes from its name."""
    # Not hash(), which differs from process to process.
    return [*COLOURS].index(model) if model in COLOURS else zlib.crc32(model.encode())


def colour_of(model: str) -> str:
    return COLOURS.get(model) or OTHER_COLOURS[_rank(model) % len(OTHER_COLOURS)]
