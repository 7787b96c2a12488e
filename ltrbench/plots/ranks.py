"""The critical-difference diagram: average ranks over data sets, and which of them Nemenyi's test parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ltrbench.plots.panels import PAPER, SMALL, TEXT, Page, short_name, titled_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.24  # inches
_LONGEST_LABEL = 30  # characters
_BAR = 0.5  # rows between the bars of groups


def critical_difference_diagram(
    labels: Sequence[str],
    average_ranks: Sequence[float],
    critical_difference: float,
    groups: Sequence[Sequence[int]],
    page: Page = PAPER,
) -> Figure:
    """Models by average rank, the best to the left; a bar joins those that are not shown to differ.

    (Demsar, 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, figure 1.)

    Args:
        groups: numbers of models, a bar each.
    """
    order = sorted(range(len(labels)), key=lambda number: average_ranks[number])
    half = math.ceil(len(order) / 2)
    depth = 1.0 + _BAR * len(groups)
    height = _ROW * (4 + depth + half)
    title = "Average ranks over data sets; a bar joins models that Nemenyi's test does not part at 5 %"
    figure, (axes,) = titled_panels(title, [], height, page)
    lowest, highest = 1, len(labels)
    axes.set_xlim(lowest - 0.05 * (highest - lowest), highest + 0.05 * (highest - lowest))
    axes.set_ylim(depth + half, -1.6)
    axes.xaxis.tick_top()
    axes.set_xticks(range(lowest, highest + 1))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.set_yticks([])
    axes.set_xlabel("average rank (1 is best)", fontsize=TEXT)
    axes.xaxis.set_label_position("top")
    _draw_width(axes, lowest, critical_difference)
    for place, own in enumerate(groups):
        ranks = [average_ranks[number] for number in own]
        axes.plot([min(ranks), max(ranks)], [0.4 + _BAR * place] * 2, color="black", linewidth=3)
    for place, number in enumerate(order):
        to_left = place < half
        row = depth + (place if to_left else len(order) - 1 - place)
        _draw_label(axes, labels[number], average_ranks[number], row, to_left)
    return figure


def _draw_width(axes: Axes, start: float, critical_difference: float) -> None:
    axes.plot([start, start + critical_difference], [-0.9, -0.9], color="#777777", marker="|", linewidth=1.2)
    text = f"critical difference {critical_difference:.2f}"
    axes.text(start, -1.1, text, fontsize=SMALL, verticalalignment="bottom", color="#555555")


def _draw_label(axes: Axes, label: str, rank: float, row: float, to_left: bool) -> None:
    low, high = axes.get_xlim()
    edge = low if to_left else high
    axes.plot([rank, rank, edge], [-1.6, row, row], color="#555555", linewidth=0.8, clip_on=False)
    axes.text(
        edge,
        row - 0.08,
        f"{short_name(label, _LONGEST_LABEL)}  {rank:.2f}",
        fontsize=SMALL,
        horizontalalignment="left" if to_left else "right",
        verticalalignment="bottom",
        parse_math=False,
    )
