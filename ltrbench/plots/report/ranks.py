"""The critical-difference diagram: average ranks over data sets, with the result of the Nemenyi test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ltrbench.plots.drawing.panels import PAPER, SMALL, TEXT, Page, short_name, titled_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.24  # inches
_LONGEST_MODEL = 30  # characters
_BAR = 0.5  # rows between the bars of groups


def critical_difference_diagram(
    labels: Sequence[str],
    average_ranks: Sequence[float],
    critical_difference: float,
    groups: Sequence[Sequence[int]],
    page: Page = PAPER,
) -> Figure:
    """Draws models by average rank, the best on the left; a bar joins models that do not differ
    significantly.

    (Demsar, 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, figure 1.)

    Args:
        groups: indices of models; one bar per group.
    """
    order = sorted(range(len(labels)), key=lambda number: average_ranks[number])
    half = math.ceil(len(order) / 2)
    depth = 0.6 + _BAR * len(groups)
    title = "Average ranks over data sets; a bar joins models without a significant difference (Nemenyi, 5 %)"
    bottom = depth + half + 0.6
    figure, (axes,) = titled_panels(title, [], _ROW * (bottom + 3), page)
    _draw_axis(axes, len(labels), bottom)
    for place, group in enumerate(groups):
        ranks = [average_ranks[number] for number in group]
        axes.plot([min(ranks), max(ranks)], [0.4 + _BAR * place] * 2, color="black", linewidth=3)
    for place, number in enumerate(order):
        to_left = place < half
        row = depth + (place if to_left else len(order) - 1 - place) + 0.5
        _draw_label(axes, labels[number], average_ranks[number], row, to_left)
    _draw_width(axes, critical_difference, bottom)
    return figure


def _draw_axis(axes: Axes, num_models: int, bottom: float) -> None:
    """Draws the axis of ranks at the top, with room for labels on both sides."""
    room = 0.5 * (num_models - 1)
    axes.set_xlim(1 - room, num_models + room)
    axes.set_ylim(bottom, 0)
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, num_models + 1))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.spines["top"].set_bounds(1, num_models)
    axes.set_yticks([])
    axes.set_xlabel("average rank (1 is best)", fontsize=TEXT)
    axes.xaxis.set_label_position("top")


def _draw_width(axes: Axes, critical_difference: float, row: float) -> None:
    """Draws a line with the length of the critical difference, centered below the labels."""
    middle = sum(axes.get_xlim()) / 2
    ends = [middle - critical_difference / 2, middle + critical_difference / 2]
    axes.plot(ends, [row, row], color="#777777", marker="|", linewidth=1.2, clip_on=False)
    look: dict[str, Any] = {"fontsize": SMALL, "horizontalalignment": "center", "verticalalignment": "bottom"}
    axes.text(middle, row - 0.15, f"critical difference {critical_difference:.2f}", color="#555555", **look)


def _draw_label(axes: Axes, label: str, rank: float, row: float, to_left: bool) -> None:
    low, high = axes.get_xlim()
    edge = low if to_left else high
    axes.plot([rank, rank, edge], [0, row, row], color="#555555", linewidth=0.8, clip_on=False)
    axes.text(
        edge,
        row - 0.08,
        f"{short_name(label, _LONGEST_MODEL)}  {rank:.2f}",
        fontsize=SMALL,
        horizontalalignment="left" if to_left else "right",
        verticalalignment="bottom",
        parse_math=False,
    )
