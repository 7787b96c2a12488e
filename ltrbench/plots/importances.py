"""Feature importances of each model: permutation, SHAP, and share of gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.plots.drawing.panels import (
    HEIGHT,
    PAPER,
    SMALL,
    TEXT,
    Page,
    keys_of_bars,
    short_name,
    titled_panels,
)
from ltrbench.plots.drawing.series import Series, data_of, over, to_one
from ltrbench.plots.drawing.styles import Style, bar_fill, styles_of
from ltrbench.rankers.models.importance import ACROSS, DROP_COLUMN, GAIN, HIGH, SHAP, WITHIN, YARDSTICKS
from ltrbench.results import mean_importances

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

    def of(kind: str) -> NDArray[np.float64]:
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
