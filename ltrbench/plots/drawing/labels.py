"""Places labels beside their points, so that they cover neither points nor each other."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ltrbench.plots.drawing.panels import DPI, LONGEST_LABEL, SMALL, Floats, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

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
