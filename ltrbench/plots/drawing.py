"""Pictures of runs (costs, NDCG by cutoff, importances, learning curves), and what all pictures share.

A picture shows series: each is a row of a comparison with its runs, and has a style of its own.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.importance import ACROSS, DROP_COLUMN, GAIN, HIGH, SHAP, WITHIN, YARDSTICKS
from ltrbench.runs import FINISHED, LearningCurve, Run, mean_importances
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
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


def name_axes(axes: Axes, x: str = "", y: str = "") -> None:
    """Labels the axes and draws the grid."""
    axes.set_xlabel(x, fontsize=TEXT, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, parse_math=False)
    axes.grid(**GRID)


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


# ---- A test metric against a cost, with the Pareto front.

Point = tuple[float, float]
"""(cost, metric) of a series."""

_LABEL_WIDTH = 0.6
"""Maximum width of a tick label in inches, for `≤ 0.0001`."""
_AXIS_SHARE = 0.8
"""Minimum share of the page width that the axis takes."""

_FRONT: dict[str, Any] = {
    "color": "#777777",
    "linewidth": 1.0,
    "linestyle": (0, (4, 2)),
    "label": "Pareto front",
}


@dataclass(frozen=True)
class Cost:
    """A cost on the horizontal axis.

    Attributes:
        name: name in the title, such as "fit time".
        axis: label of the axis with its unit, such as "fit time, seconds".
        least: smaller costs are drawn at this value, because they would stretch a logarithmic axis by
            decades.
    """

    name: str
    axis: str
    least: float


FIT = Cost("fit time", "fit time including evaluation, seconds", 0.01)


def metric_against_cost(
    series: Sequence[Series],
    costs: Sequence[float | None],
    cost: Cost,
    metric: str,
    page: Page = PAPER,
) -> Figure | None:
    """Draws one point per series; returns None if no series has both a cost and a value."""
    known = [
        (item, (max(cost.least, spent), item.value))
        for item, spent in zip(series, costs, strict=True)
        if spent is not None and item.value is not None
    ]
    if not known:
        return None
    drawn, points = [item for item, _ in known], [point for _, point in known]
    title = f"{data_of(drawn)}: {metric} on test against {cost.name}{over(drawn)}"
    figure, (axes,) = titled_panels(title, [], page.height(HEIGHT), page)
    axes.margins(0.12)
    for (spent, value), style in zip(points, styles_of(drawn), strict=True):
        axes.plot(spent, value, linestyle="none", markersize=8, **style.points)
    highest, lowest = (extreme(spent for spent, _ in points) for extreme in (max, min))
    logarithmic = highest > 10 * lowest
    if logarithmic:
        _make_logarithmic(axes, page.width, cost.least)
    name_axes(axes, f"{cost.axis}{' (log scale)' * logarithmic}", f"{metric} on test")
    label_points(figure, axes, points, [item.label for item in drawn], _draw_front(axes, points))
    return figure


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Returns the Pareto front in ascending order of cost: no other point is both cheaper and as good.

    >>> pareto_front([(3.0, 0.5), (1.0, 0.4), (2.0, 0.3), (3.0, 0.2)])
    [(1.0, 0.4), (3.0, 0.5)]
    """
    front: list[Point] = []
    for cost, value in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or value > front[-1][1]:
            front.append((cost, value))
    return front


def _draw_front(axes: Axes, points: Sequence[Point]) -> list[Point]:
    """Draws the Pareto front as steps and returns their corners; empty for a single point."""
    if len(points) < 2:
        return []
    right = axes.get_xlim()[1]
    front = pareto_front(points)
    corners = [front[0]]
    for cost, value in [*front[1:], (right, front[-1][1])]:
        corners += [(cost, corners[-1][1]), (cost, value)]
    axes.plot(*zip(*corners, strict=True), zorder=1, **_FRONT)
    axes.set_xlim(right=right)
    axes.legend(loc="best", fontsize=SMALL, frameon=False)
    return corners


def fit_seconds(item: Series) -> float | None:
    """Returns the mean fit time over the runs that did not share the machine with another job.

    None if there is no such run, or one of them has no time.
    """
    alone = [run.result for run in item.runs if not run.result.shared_machine]
    times = [result.seconds.get("fit", math.nan) for result in alone]
    return fmean(times) if times and not math.isnan(fmean(times)) else None


def _make_logarithmic(axes: Axes, width: float, least: float) -> None:
    """Makes the cost axis logarithmic; `width` is the width of the page in inches."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    ticks = log_ticks(*axes.get_xlim(), width, least)
    axes.set_xticks(ticks, [f"{'≤ ' * (tick == least)}{decimal(tick)}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float, width: float, least: float) -> list[float]:
    """Returns as many round numbers as fit with their labels on a logarithmic axis from `low` to `high`.

    No tick is below `least`, where nothing is drawn.

    >>> log_ticks(0.8, 12, 5.0, 0.01), log_ticks(0.00005, 0.3, 5.0, 0.0001)
    ([1.0, 2.0, 5.0, 10.0], [0.0001, 0.001, 0.01, 0.1])
    """
    first, last = math.floor(math.log10(max(low, least))), math.ceil(math.log10(high))
    inches_of_decade = _AXIS_SHARE * width / math.log10(high / low)
    ticks: list[float] = []
    for step, factors in (
        (1, (1, 2, 5)),
        (1, (1, 3)),
        *((step, (1,)) for step in range(1, last - first + 1)),
    ):
        powers = range(first, last + 1, step)
        # Parsed, because 10.0**-4 is not the float 0.0001.
        candidates = [float(f"{factor}e{power}") for power in powers for factor in factors]
        ticks = [tick for tick in candidates if max(low, least) <= tick <= high]
        gaps = [math.log10(b / a) * inches_of_decade for a, b in pairwise(ticks)]
        if min(gaps, default=math.inf) >= _LABEL_WIDTH:
            break
    return ticks


def decimal(number: float) -> str:
    """
    >>> decimal(5e-05), decimal(1000.0)
    ('0.00005', '1000')
    """
    return np.format_float_positional(number, trim="-")


# ---- NDCG@k on test against k.


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
    name_axes(axes, "cutoff k", f"NDCG@k (axis starts at {bottom:.2f})" if bottom else "NDCG@k")
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


# ---- Feature importances of each model: permutation, SHAP, and share of gain.

_PAGE = 9.0  # inches
_MOST_FEATURES = 15
_MOST_PANELS = 3
_LONGEST_FEATURE = 24  # characters
_Importances = dict[str, dict[str, float]]
"""Kind of importance -> feature -> its mean over the runs of a series."""

_AXIS_OF_KIND = {
    WITHIN: "drop of test {metric} when\nshuffled within queries",
    ACROSS: "drop of test {metric} when\nshuffled across queries",
    DROP_COLUMN: "drop of test {metric} when\nfitted without the feature",
    SHAP: "share of\nmean |SHAP|, %",
    GAIN: "share of the gain\nof all splits, %",
}
_DOT: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 3,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
}
_WHISKERS: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 0.7}
# On separate lines, because three panels on a narrow page leave no room for longer lines.
_WHISKER, _MARK = "whisker: 95 %", "dot: across queries"


def importance_bars(series: Sequence[Series], page: Page = PAPER) -> Figure | None:
    """Draws the most important features, with up to three kinds: permutation, drop-column, SHAP or gain.

    The features are sorted by the first kind. If both permutation importances are available, the bars show
    the permutation within queries and the dots the permutation across queries. Returns None if no run
    recorded importances.
    """
    recorded = [(item, _importances(item)) for item in series if item.model not in YARDSTICKS]
    shown = [(item, importances) for item, importances in recorded if importances]
    if not shown:
        return None
    kinds = [kind for kind in _AXIS_OF_KIND if any(kind in importances for _, importances in shown)]
    marked = WITHIN in kinds and ACROSS in kinds
    if marked:
        kinds.remove(ACROSS)
    kinds = kinds[:_MOST_PANELS]
    features = _best_features([importances[kinds[0]] for _, importances in shown if kinds[0] in importances])
    drawn = [item for item, _ in shown]
    # About five points per bar show its hatch; the height of the page limits it.
    height = min(_PAGE, max(HEIGHT, 1.2 + len(features) * (0.08 + 0.07 * len(drawn))))
    figure, panels = titled_panels(
        f"{data_of(drawn)}: most important features{to_one(drawn)}{over(drawn)}",
        keys_of_bars(drawn) if len(drawn) > 1 else [],
        height,
        page,
        ncols=len(kinds),
        sharey=True,
    )
    for axes, kind in zip(panels, kinds, strict=True):
        for place, ((_, importances), style) in enumerate(zip(shown, styles_of(drawn), strict=True)):
            if kind in importances:
                _bars(axes, importances, kind, features, (place, len(shown)), style)
        axes.set_xlabel(_label(kind, drawn, [importances for _, importances in shown], marked), fontsize=TEXT)
        axes.axvline(0, color="black", linewidth=0.6)
        axes.locator_params(axis="x", nbins=5)
    _name_features(panels[0], features)
    return figure


def _name_features(axes: Axes, features: Sequence[str]) -> None:
    """Labels the shared feature axis from the top."""
    axes.set_yticks(range(len(features)))
    names = [short_name(feature, _LONGEST_FEATURE) for feature in features]
    axes.set_yticklabels(names, fontsize=SMALL, parse_math=False)
    axes.set_ylim(len(features) - 0.4, -0.6)
    axes.set_ylabel("feature", fontsize=TEXT)


def _bars(
    axes: Axes,
    importances: _Importances,
    kind: str,
    features: Sequence[str],
    place: tuple[int, int],
    style: Style,
) -> None:
    """Draws the bars of one series; `place` is (its number from the top of each group, number of series)."""
    number, count = place
    thickness = 0.84 / count
    rows = np.arange(len(features)) + (number - (count - 1) / 2) * thickness
    percent = 100 if kind in (SHAP, GAIN) else 1

    def of(kind: str) -> Floats:
        return percent * np.array([importances[kind].get(feature, 0.0) for feature in features])

    widths = of(kind)
    axes.barh(rows, widths, thickness, **bar_fill(style))
    axes.barh(rows, widths, thickness, facecolor="none", edgecolor=style.colour, linewidth=0.5)
    if kind + HIGH in importances:
        halves = of(kind + HIGH) - widths
        # A feature that the model does not use was not shuffled, so it has no whisker.
        shuffled = halves > 0
        axes.errorbar(widths[shuffled], rows[shuffled], xerr=halves[shuffled], **_WHISKERS)
    if kind == WITHIN and ACROSS in importances:
        across = of(ACROSS)
        shuffled = across != 0
        axes.plot(across[shuffled], rows[shuffled], **_DOT)


def _label(kind: str, series: Sequence[Series], recorded: Sequence[_Importances], marked: bool) -> str:
    label = _AXIS_OF_KIND[kind].format(metric=_metric_of(series))
    keys = [_WHISKER] if any(kind + HIGH in importances for importances in recorded) else []
    if marked and kind == WITHIN:
        keys.append(_MARK)
    return "\n".join([label, *keys])


def _importances(item: Series) -> _Importances:
    """Returns the kinds of importance that every run of a series recorded and that are not all 0."""
    means = mean_importances(item.runs)
    kinds = [kind for kind in _AXIS_OF_KIND if kind in means.values and means.values[kind].any()]
    return {
        name: dict(zip(means.feature_names, means.values[name].tolist(), strict=True))
        for kind in kinds
        for name in (kind, kind + HIGH)
        if name in means.values
    }


def _best_features(values: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns the features with the highest mean over series, in descending order, without features of
    importance 0 in every series."""
    names = dict.fromkeys(
        name for of_series in values for name in of_series if any(each.get(name) for each in values)
    )
    means = {name: fmean(of_series.get(name, 0.0) for of_series in values) for name in names}
    return sorted(names, key=lambda name: -means[name])[:_MOST_FEATURES]


def _metric_of(series: Sequence[Series]) -> str:
    """Returns the metric of the permutation importances; "metric" if it is unknown or differs between
    runs."""
    names = {run.result.importance_metric for item in series for run in item.runs}
    return names.pop() or "metric" if len(names) == 1 else "metric"


# ---- Learning curves: the validation metric by iteration, and the train metric in a smaller panel above
# it.

_KEPT: dict[str, Any] = {"markersize": 7.5, "markeredgecolor": "black", "markeredgewidth": 1.2}
_HEIGHT = 5.0  # inches
_LOWEST = 4.2  # inches; minimum height at which the panel of train has room for its axis label
_MOST_BANDS = 4  # more bands, or more large marks per series, are not readable


@dataclass(frozen=True, eq=False)
class _Curve:
    """A metric by iteration over the runs of a series, up to the last iteration of the shortest run.

    Attributes:
        iterations: (n,)
        mean: (n,), mean of the metric over the runs.
        low: (n,), minimum over the runs.
        high: (n,), maximum over the runs.
        kept: (iteration, value of the run) for each run with a kept iteration.
    """

    iterations: NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats
    kept: tuple[tuple[int, float], ...]


def curves_by_iteration(series: Sequence[Series], metric: str, page: Page = PAPER) -> Figure | None:
    """Draws validation by iteration, and train in a smaller panel above it; None without validation
    curves."""
    recorded = [[run.learning_curve() for run in item.runs] for item in series]
    name = _curve_name([curve for curves in recorded for curve in curves], metric)
    both = [
        (item, _curve(item, curves, f"valid/{name}"), _curve(item, curves, f"train/{name}"))
        for item, curves in zip(series, recorded, strict=True)
    ]
    shown = [(item, valid, train) for item, valid, train in both if valid is not None]
    if not shown:
        return None
    drawn = [item for item, _, _ in shown]
    trained = any(train is not None for _, _, train in shown)
    # Train is far above validation; on a common axis the differences in validation would not be visible.
    grid = {"nrows": 2, "height_ratios": (1, 2.6), "sharex": True} if trained else {}
    keys = [*keys_of(drawn), *_keys_of_curves(drawn)]
    title = f"{data_of(drawn)}: {name} by iteration{over(drawn)}"
    figure, panels = titled_panels(
        title,
        keys,
        max(page.height(_HEIGHT), _LOWEST),
        page,
        **grid,
    )
    for place, ((_, valid, train), style) in enumerate(zip(shown, styles_of(drawn), strict=True)):
        if train is not None:
            panels[0].plot(train.iterations, train.mean, linewidth=0.8, **style.stroke)
        _plot_validation(panels[-1], valid, style, place / len(shown), len(shown) <= _MOST_BANDS)
    for axes, split in zip(panels[::-1], ("validation", "train"), strict=False):
        axes.set_ylabel(f"{name}, {split}", fontsize=TEXT)
        axes.grid(**GRID)
        axes.margins(x=0.02)
    panels[-1].set_xlabel("iteration (one tree each)", fontsize=TEXT)
    panels[-1].set_ylim(_limits_after_start([valid for _, valid, _ in shown]))
    return figure


def _plot_validation(axes: Axes, curve: _Curve, style: Style, shift: float, band: bool) -> None:
    """Draws one series; `shift`, from 0 to 1, offsets its markers so that series do not cover each other."""
    step = max(1, len(curve.iterations) // 5)
    marks = {"markersize": 4.5, "markevery": (int(shift * step), step), **style.points}
    axes.plot(curve.iterations, curve.mean, linewidth=1.4, linestyle=style.line, **marks)
    if band and (curve.low < curve.high).any():
        axes.fill_between(
            curve.iterations, curve.low, curve.high, color=style.colour, alpha=0.07, linewidth=0
        )
        for edge in (curve.low, curve.high):
            axes.plot(curve.iterations, edge, linewidth=0.6, alpha=0.6, **style.stroke)
    if curve.kept:
        iterations, values = zip(*curve.kept, strict=True)
        look = {**style.points, **_KEPT, "markersize": 7.5 if len(curve.kept) <= _MOST_BANDS else 5}
        axes.plot(iterations, values, linestyle="none", zorder=5, **look)


def _limits_after_start(curves: Sequence[_Curve]) -> tuple[float, float]:
    """Returns the limits of the axis, without the first 5 % of the iterations, whose steep rise would flatten
    the rest."""
    kept = [value for curve in curves for _, value in curve.kept]
    low = min([float(curve.low[len(curve.low) // 20 :].min()) for curve in curves] + kept)
    high = max([float(curve.high.max()) for curve in curves] + kept)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


def _keys_of_curves(series: Sequence[Series]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    several = any(len(item.runs) > 1 for item in series)
    mark = "iteration kept by a run" if several else "iteration kept"
    keys = [Line2D([], [], color="#777777", linestyle="none", marker="o", label=mark, **_KEPT)]
    if several and len(series) <= _MOST_BANDS:
        keys.append(Line2D([], [], color="#777777", alpha=0.3, linewidth=6, label="lowest to highest run"))
    return keys


def _curve_name(curves: Sequence[LearningCurve], metric: str) -> str:
    """Returns the metric if a run recorded it on validation, otherwise the first recorded one."""
    names = [name for curve in curves for name in curve.values if name.startswith("valid/")]
    return metric if f"valid/{metric}" in names or not names else names[0].removeprefix("valid/")


def _curve(item: Series, curves: Sequence[LearningCurve], name: str) -> _Curve | None:
    """Returns the curve of a series; None if a run did not record the metric, or a value is not finite."""
    if not all(curve.values.get(name) for curve in curves):
        return None
    length = min(len(curve.iterations) for curve in curves)
    values = np.array([curve.values[name][:length] for curve in curves])
    if not np.isfinite(values).all():
        return None
    kept = [
        (best, curve.values[name][curve.iterations.index(best)])
        for best, curve in zip([run.result.best_iteration for run in item.runs], curves, strict=True)
        if best in curve.iterations
    ]
    return _Curve(
        iterations=np.array(curves[0].iterations[:length]),
        mean=values.mean(axis=0),
        low=values.min(axis=0),
        high=values.max(axis=0),
        kept=tuple((best, value) for best, value in kept if best is not None),
    )
