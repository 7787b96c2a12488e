"""Layout of every picture: sizes, title, panels, legend, and names in characters of the font."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.plots.drawing.series import Series
from ltrbench.plots.drawing.styles import bar_fill, styles_of
from ltrbench.untrusted.escaping import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

DPI = 150
HEIGHT = 4.5  # inches
TEXT, SMALL = 9, 8  # points; no text is smaller
LONGEST_LABEL = 60  # characters
LONGEST_AXIS_LABEL = 28
GRID: dict[str, Any] = {"color": "#DDDDDD", "linewidth": 0.6}
_ROW_OF_LEGEND = 0.17  # inches
_LEGEND_CHARACTERS = 96 / 7  # characters of small text per inch
_TITLE_CHARACTERS = 90 / 7


@dataclass(frozen=True)
class Page:
    """The page that shows a picture.

    Attributes:
        width: width of the picture, inches.
        titled: whether the title is drawn; if not, the page shows it from the label of the figure.
    """

    width: float
    titled: bool = True

    def height(self, of_paper: float) -> float:
        """Scales a height on PAPER to this page, inches."""
        return of_paper * self.width / PAPER.width


PAPER = Page(7.0)


def titled_panels(
    title: str, keys: Sequence[Artist], height: float, page: Page, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with title and legend, and its panels. The legend is below, in columns, and adds to
    the height.

    Args:
        keys: entries of the legend.
        height: height without the legend, inches.
        page: the page of the picture.
        grid: arguments of matplotlib's Figure.subplots, such as ncols=2; default: one panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = [str(key.get_label()) for key in keys]
    columns = _columns_of_legend(labels, page.width)
    height += _ROW_OF_LEGEND * math.ceil(len(keys) / columns)
    figure = Figure((page.width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.set_label(title)
    if page.titled:
        heading = textwrap.fill(short_name(title, 180), int(_TITLE_CHARACTERS * page.width))
        figure.suptitle(heading, fontsize=TEXT + 1, x=0.01, horizontalalignment="left", parse_math=False)
    panels: list[Axes] = figure.subplots(squeeze=False, **grid).ravel().tolist()
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        axes.set_axisbelow(True)
    if keys:
        look = {"fontsize": SMALL, "frameon": False, "handlelength": 3.2}
        legend = figure.legend(keys, labels, loc="outside lower center", ncols=columns, **look)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure, panels


def _columns_of_legend(labels: Sequence[str], width: float) -> int:
    """Returns the number of columns: all labels in one row if they fit, else as many as the longest
    allows."""
    widths = [len(label) + 9 for label in labels]  # includes the line, and the gap before the next column
    room = int(_LEGEND_CHARACTERS * width)
    if sum(widths) <= room:
        return max(1, len(widths))
    return max(1, room // max(widths))


def keys_of(series: Sequence[Series]) -> list[Artist]:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            label=short_name(item.label, LONGEST_LABEL),
            linewidth=1.4,
            linestyle=style.line,
            markersize=5,
            **style.points,
        )
        for item, style in zip(series, styles_of(series), strict=True)
    ]


def keys_of_bars(series: Sequence[Series]) -> list[Artist]:
    from matplotlib.patches import Patch

    looks = zip(series, styles_of(series), strict=True)
    return [Patch(label=short_name(item.label, LONGEST_LABEL), **bar_fill(style)) for item, style in looks]


def short_name(text: str, most: int) -> str:
    """Returns a name on one line of at most `most` characters of the font; a long name loses its middle.

    >>> short_name("body_bm25_of_the_last_thirty_days_max", 24)
    'body_bm25_of…ty_days_max'
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    shown = "".join(
        letter if font.get_char_index(ord(letter)) else letter.encode("unicode_escape").decode()
        for letter in visible(" ".join(text.split()))
    )
    if len(shown) <= most:
        return shown
    return f"{shown[: most // 2]}…{shown[len(shown) - (most - most // 2 - 1) :]}"
