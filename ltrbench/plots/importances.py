"""What features are worth to each model: permutation, and share of gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.importance import PERMUTATION, PERMUTATION_SD
from ltrbench.plots.panels import HEIGHT, LONGEST_LABEL, SMALL, TEXT, short_name, titled_panels
from ltrbench.plots.series import Drawn, data_of, over, to_one
from ltrbench.plots.styles import Style, styles_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAGE = 9.0  # inches
_MOST_FEATURES = 15
_LONGEST_FEATURE = 24  # characters
_GAIN = "gain"

# Left out of importances: what a shuffle costs a ranker by lot is noise, which would push features up the
# list, and what it costs a ranker by one feature is so much that all other bars would be stubs.
_YARDSTICKS = ("random", "single_feature")

_Worth = dict[str, dict[str, float]]
"""Kind of importance -> feature -> its value over the runs of a series."""

_AXIS_OF_KIND = {
    PERMUTATION: "fall of test {metric} when shuffled\n(whisker: one sd of the shuffles)",
    _GAIN: "share of the gain of all splits, %",
}


def importance_bars(series: Sequence[Drawn]) -> Figure | None:
    """The features worth most, by mean permutation importance; by mean gain where there is none."""
    worths = [(item, _worth(item)) for item in series if item.model not in _YARDSTICKS]
    shown = [(item, worth) for item, worth in worths if worth]
    if not shown:
        return None
    kinds = [kind for kind in (PERMUTATION, _GAIN) if any(kind in worth for _, worth in shown)]
    features = _best_features([worth[kinds[0]] for _, worth in shown if kinds[0] in worth])
    drawn = [item for item, _ in shown]
    # A bar of five points shows its hatch; a page may have no room for it.
    height = min(_PAGE, max(HEIGHT, 1.2 + len(features) * (0.08 + 0.07 * len(drawn))))
    figure, panels = titled_panels(
        f"{data_of(drawn)}: features worth most{to_one(drawn)}{over(drawn)}",
        _keys_of_bars(drawn) if len(drawn) > 1 else [],
        height,
        ncols=len(kinds),
        sharey=True,
    )
    for axes, kind in zip(panels, kinds, strict=True):
        for place, ((_, worth), style) in enumerate(zip(shown, styles_of(drawn), strict=True)):
            if kind in worth:
                _bars(axes, worth, kind, features, (place, len(shown)), style)
        axes.set_xlabel(_AXIS_OF_KIND[kind].format(metric=_shuffled_metric(drawn)), fontsize=TEXT)
        axes.axvline(0, color="black", linewidth=0.6)
    panels[0].set_yticks(range(len(features)))
    names = [short_name(feature, _LONGEST_FEATURE) for feature in features]
    panels[0].set_yticklabels(names, fontsize=SMALL, parse_math=False)
    panels[0].set_ylim(len(features) - 0.4, -0.6)
    panels[0].set_ylabel("feature", fontsize=TEXT)
    return figure


def _bars(
    axes: Axes, worth: _Worth, kind: str, features: Sequence[str], place: tuple[int, int], style: Style
) -> None:
    """One series' bars; `place` is its number among how many, from the top of each feature's group."""
    number, count = place
    thickness = 0.84 / count
    rows = np.arange(len(features)) + (number - (count - 1) / 2) * thickness
    percent = 100 if kind == _GAIN else 1
    widths = percent * np.array([worth[kind].get(feature, 0.0) for feature in features])
    axes.barh(rows, widths, thickness, **_fill(style))
    axes.barh(rows, widths, thickness, facecolor="none", edgecolor=style.colour, linewidth=0.5)
    if kind == PERMUTATION and PERMUTATION_SD in worth:
        sds = np.array([worth[PERMUTATION_SD].get(feature, 0.0) for feature in features])
        # A feature that the model does not look at was not shuffled, and has no whisker.
        some = sds > 0
        axes.errorbar(widths[some], rows[some], xerr=sds[some], fmt="none", ecolor="black", elinewidth=0.7)


def _fill(style: Style) -> dict[str, Any]:
    from matplotlib.colors import to_rgb

    full = np.array(to_rgb(style.colour))
    tinted = tuple((1 - style.tint * (1 - full)).tolist())
    # The hatch takes the colour of the edge: white on a full colour, the full colour on a pale one.
    edge = "white" if style.tint > 0.7 else style.colour
    return {"facecolor": tinted, "edgecolor": edge, "hatch": style.hatch, "linewidth": 0}


def _keys_of_bars(series: Sequence[Drawn]) -> list[Artist]:
    from matplotlib.patches import Patch

    looks = zip(series, styles_of(series), strict=True)
    return [Patch(label=short_name(item.label, LONGEST_LABEL), **_fill(style)) for item, style in looks]


def _worth(item: Drawn) -> _Worth:
    """The kinds of importance that every run of a series recorded, numbers throughout and not all 0.

    The sd is that of all shuffles of all runs: sqrt(mean of sd^2 + variance of the runs' means).
    """
    runs = [run.importances() for run in item.runs]
    names = runs[0].feature_names
    worth: _Worth = {}
    for kind in (PERMUTATION, _GAIN):
        if any(run.feature_names != names or kind not in run.values for run in runs):
            continue
        values = np.array([run.values[kind] for run in runs])
        if not values.any() or not np.isfinite(values).all():
            continue
        worth[kind] = dict(zip(names, values.mean(axis=0).tolist(), strict=True))
        if kind == PERMUTATION and all(PERMUTATION_SD in run.values for run in runs):
            within = np.array([run.values[PERMUTATION_SD] for run in runs])
            sds = np.sqrt((within**2).mean(axis=0) + values.var(axis=0))
            worth[PERMUTATION_SD] = dict(zip(names, sds.tolist(), strict=True))
    return worth


def _best_features(values: Sequence[Mapping[str, float]]) -> list[str]:
    """The features with the highest mean over series, the best first; none that is worth 0 to all."""
    names = dict.fromkeys(name for own in values for name in own if any(each.get(name) for each in values))
    means = {name: fmean(own.get(name, 0.0) for own in values) for name in names}
    return sorted(names, key=lambda name: -means[name])[:_MOST_FEATURES]


def _shuffled_metric(series: Sequence[Drawn]) -> str:
    """What permutation importance was taken in, where the runs say so."""
    settings = [run.result.config.get("permutation_importance") or {} for item in series for run in item.runs]
    names = {str(own.get("metric", "metric")) for own in settings}
    return names.pop() if len(names) == 1 else "metric"
