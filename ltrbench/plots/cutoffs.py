"""NDCG@k on test against k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.errors import ResultError
from ltrbench.metrics import DEFAULT, Convention, evaluate
from ltrbench.plots.panels import GRID, HEIGHT, PAPER, TEXT, Page, keys_of, titled_panels
from ltrbench.plots.series import Drawn, data_of, over
from ltrbench.plots.styles import styles_of
from ltrbench.results import Run, ScoredSplit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_K = 20


class OnTest(NamedTuple):
    """What a series is worth on test, means over folds of means over seeds.

    Attributes:
        metric: the comparison's; None where it is not a number.
        ndcg: NDCG@1, NDCG@2, ... up to the longest query; empty where it is not a number.
    """

    metric: float | None
    ndcg: list[float]


def means_on_test(item: Drawn, metric: str, convention: Convention = DEFAULT) -> OnTest:
    scored = [_scored(run) for run in item.runs]
    complete = [own for own in scored if own is not None]
    if len(complete) < len(scored):
        return OnTest(None, [])
    longest = max(int(own.judgments.query_sizes.max()) for own in complete)
    names = [f"ndcg@{k}" for k in range(1, min(LARGEST_K, longest) + 1)]
    runs = [evaluate(own.judgments, own.scores, [metric, *names], convention).means for own in complete]
    by_fold: dict[int | None, list[Mapping[str, float]]] = {}
    for run, values in zip(item.runs, runs, strict=True):
        by_fold.setdefault(run.result.data.get("fold"), []).append(values)
    # As in the tables: a fold counts once, however many seeds it has.
    means = {
        name: fmean(fmean(seed[name] for seed in own) for own in by_fold.values())
        for name in [metric, *names]
    }
    ndcg = [means[name] for name in names]
    return OnTest(
        metric=None if math.isnan(means[metric]) else means[metric],
        ndcg=[] if math.isnan(sum(ndcg)) else ndcg,
    )


def _scored(run: Run) -> ScoredSplit | None:
    try:
        return run.scored("test")
    except ResultError:
        # The comparison that stands beside the pictures says what is wrong with such a run.
        return None


def ndcg_by_cutoff(
    series: Sequence[Drawn], curves: Sequence[Sequence[float]], page: Page = PAPER
) -> Figure | None:
    """NDCG@k on test against k.

    Args:
        curves: of each series, NDCG@1, NDCG@2, ...; empty for one that is left out.
    """
    drawn = [item for item, own in zip(series, curves, strict=True) if own]
    values = [own for own in curves if own]
    if not drawn:
        return None
    ks = range(1, max(map(len, values)) + 1)
    figure, (axes,) = titled_panels(
        f"{data_of(drawn)}: NDCG@k on test{over(drawn)}", keys_of(drawn), page.height(HEIGHT), page
    )
    for own, style in zip(values, styles_of(drawn), strict=True):
        marks = {"markersize": 4.5, **style.points}
        axes.plot(ks[: len(own)], own, linewidth=1.3, linestyle=style.line, **marks)
    axes.set_xticks([k for k in ks if k == 1 or len(ks) <= 10 or k % 5 == 0])
    bottom, top = limits_of_ndcg([value for own in values for value in own])
    axes.set_ylim(bottom, top)
    axes.set_xlabel("k (documents from the top)", fontsize=TEXT)
    axes.set_ylabel(f"NDCG@k (the axis begins at {bottom:.2f})" if bottom else "NDCG@k", fontsize=TEXT)
    axes.grid(**GRID)
    return figure


def limits_of_ndcg(values: Sequence[float]) -> tuple[float, float]:
    """From 0, unless no value is below half of the highest; never so narrow that noise looks like a gap.

    >>> limits_of_ndcg([0.21, 0.62]), limits_of_ndcg([0.71, 0.72])
    ((0.0, 0.65), (0.55, 0.75))
    """
    low, high = min(values), max(values)
    bottom, top = math.floor(20 * low) / 20, math.ceil(20 * high + 0.2) / 20
    if low < high / 2:
        return 0.0, top
    return max(0.0, round(min(bottom, top - 0.2), 2)), top
