"""Shared by all pictures: series, styles, labels and panels.

The series of a picture: each is a row of a comparison with its runs.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.runs import FINISHED, Run
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox


@dataclass(frozen=True)
class Series:
    """A row of a comparison in a picture.

    Attributes:
        label: name of the row, such as "lightgbm num_leaves=15".
        model: name of the backend, which determines the color.
        runs: runs of the row: folds and seeds.
        value: the metric of the comparison on test; None if not available.
        ndcg: NDCG@1, NDCG@2, ... on test; empty if not available.
    """

    label: str
    model: str
    runs: tuple[Run, ...]
    value: float | None = None
    ndcg: Sequence[float] = ()


def finished(series: Sequence[Series]) -> list[Series]:
    kept = [
        replace(item, runs=tuple(run for run in item.runs if run.result.status == FINISHED))
        for item in series
    ]
    return [item for item in kept if item.runs]


def data_of(series: Sequence[Series]) -> str:
    """Returns the names of the data sets of the runs."""
    return ", ".join(dict.fromkeys(str(run.result.data.get("name")) for item in series for run in item.runs))


def to_one(series: Sequence[Series]) -> str:
    """Returns the name of the only series for the title, which replaces the legend; empty for several
    series."""
    return f" in {series[0].label}" if len(series) == 1 else ""


def over(series: Sequence[Series]) -> str:
    """Returns the scope of a mean, such as ", mean over 5 folds"; empty if each series has one run."""
    if max(len(item.runs) for item in series) == 1:
        return ""
    results = [run.result for item in series for run in item.runs]
    counts = {
        "folds": len({result.data.get("fold") for result in results}),
        "seeds": len({result.seed for result in results}),
    }
    several = [f"{count} {what}" for what, count in counts.items() if count > 1]
    return f", mean over {' and '.join(several) or 'runs'}"


# ---- Styles of series: a backend has one color, marker and hatch; its rows differ in line and fill style.

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


# ---- Layout of every picture: sizes, title, panels, legend, and names in characters of the font.

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


# ---- Places labels beside their points, so that they cover neither points nor each other.

_CLEAR = 3  # pixels between a line and a label

# Angles around a point, in the order in which they are tried: right, left, above, below, then in between.
_SIDES = np.pi * np.array([0, 8, 4, 12, 1, 15, 7, 9, 2, 14, 6, 10]) / 8


def label_points(
    figure: Figure,
    axes: Axes,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    line: Sequence[tuple[float, float]] = (),
) -> None:
    """Writes each label as close to its point as possible without covering a point, a label or the line.

    Args:
        line: corners of a line whose segments are parallel to the axes.
    """
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # computes the layout, which fixes the pixel positions of the points
    figure.set_layout_engine("none")
    pixels = axes.transData.transform(points)
    half = 6 * DPI / 72
    taken = [Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half) for x, y in pixels]
    corners = axes.transData.transform(np.reshape(line, (-1, 2)))
    taken += [Bbox([start, end]).padded(_CLEAR) for start, end in itertools.pairwise(corners)]
    for number, (point, label) in enumerate(zip(points, labels, strict=True)):
        note = axes.annotate(
            textwrap.fill(short_name(label, LONGEST_LABEL), 32),
            point,
            xytext=(0, 0),
            # In typographic points, so that the layout is the same at another resolution and in SVG.
            textcoords="offset points",
            fontsize=SMALL,
            verticalalignment="bottom",
            parse_math=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#555555", "shrinkA": 0, "shrinkB": 5},
        )
        size = np.array(note.get_window_extent().size)
        box = _free_place(number, pixels, size, taken, axes.get_window_extent())
        taken.append(box)
        note.set_position(tuple((box.min - pixels[number]) * 72 / DPI))
        if note.arrow_patch is not None:
            note.arrow_patch.set_visible(_distance(box, pixels[number]) > 1.5 * half)


def _free_place(number: int, points: Floats, size: Floats, taken: Sequence[Bbox], frame: Bbox) -> Bbox:
    """Returns the nearest free box inside the frame, if possible closer to this point than to all others.

    Args:
        number: index of the point in `points`.
        points: (n, 2), pixels.
        size: (2,), width and height, pixels.
        taken: boxes that must not be covered.
    """
    places = _places(points[number], size)
    free = [
        box
        for box in places
        if frame.contains(*box.min) and frame.contains(*box.max) and not box.count_overlaps(taken)
    ]
    near = [box for box in free if min(range(len(points)), key=lambda i: _distance(box, points[i])) == number]
    return [*near, *free, *places][0]


def _places(point: Floats, size: Floats) -> list[Bbox]:
    from matplotlib.transforms import Bbox

    ways = np.column_stack([np.cos(_SIDES), np.sin(_SIDES)])
    distances = np.arange(8, 140, 6) * DPI / 72
    corners = [point + way * (distance + size / 2) - size / 2 for distance in distances for way in ways]
    return [Bbox.from_bounds(*corner, *size) for corner in corners]


def _distance(box: Bbox, point: Floats) -> float:
    """Returns the distance from a point to the nearest edge of a box in pixels; 0 inside the box."""
    return float(np.hypot(*(point - np.clip(point, box.min, box.max))))
