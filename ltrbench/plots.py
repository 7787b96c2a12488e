"""Pictures of finished runs, as PNG files that print well: at 150 dpi, and readable without colours.

    learning_curves.png     the validation metric by iteration, the kept iterations marked, and train above
    ndcg_at_k.png           NDCG@k on test against k
    importances.png         what features are worth to each model: permutation, and share of gain
    time_against_ndcg.png   the test metric against the seconds that a fit took

A picture shows series: one is a row of a comparison, with its runs (folds and seeds). A backend has one
colour and one marker in every picture of every sweep; the rows of one backend differ by their line, their
filling and their tint. A series without the data for a picture is left out of it, and a picture without any
series is not drawn. The same runs give the same bytes.

A new picture is a function from series to a Figure, or None, and a line in `_figures`. Matplotlib is imported
by the functions that draw, so that `--help` need not wait for it, and never through pyplot, whose state is
global.
"""

from __future__ import annotations

import math
import textwrap
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.importance import PERMUTATION, PERMUTATION_SD
from ltrbench.metrics import evaluate
from ltrbench.results import FINISHED, LearningCurve, Run, ScoredSplit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox

_Floats = NDArray[np.float64]
_LineStyle = tuple[int, tuple[float, ...]]
"""Matplotlib's: an offset, and the lengths of dashes and gaps in line widths; none for a solid line."""

_LARGEST_K = 20
_MOST_FEATURES = 15
_GAIN = "gain"

_DPI = 150
_WIDTH, _HEIGHT, _PAGE = 7.0, 4.5, 9.0  # inches
_TEXT, _SMALL = 9, 8  # points; nothing is smaller
_ROW_OF_LEGEND = 0.17  # inches
_LEGEND_CHARACTERS = 96  # of small text across the width
_LONGEST_LABEL, _LONGEST_FEATURE = 60, 24  # characters

# Okabe and Ito (2008), "Color Universal Design", with the grey of R's palette.colors for knowing nothing.
_COLOURS = {
    "native": "#0072B2",
    "lightgbm": "#D55E00",
    "xgboost": "#009E73",
    "catboost": "#E69F00",
    "single_feature": "#CC79A7",
    "random": "#999999",
}
_MARKERS = dict(zip(_COLOURS, "os^DvX", strict=True))
# What is left of the palette; its yellow is too pale for a line on white paper.
_OTHER_COLOURS = ("#000000", "#56B4E9")
_OTHER_MARKERS = "Pp*h<>"
_LINES: tuple[_LineStyle, ...] = (
    (0, ()),
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
)
_FILLINGS = ("full", "none", "left", "bottom")
_HATCHES = ("", "/////", ".....", "xxxxx", "-----", "\\\\\\\\\\")

_GRID: dict[str, Any] = {"color": "#DDDDDD", "linewidth": 0.6}
_KEPT: dict[str, Any] = {"markersize": 7.5, "markeredgecolor": "black", "markeredgewidth": 1.2}
_MOST_BANDS = 4  # more of them, or of large marks a series, are mud

# Left out of importances: what a shuffle costs a ranker by lot is noise, which would push features up the
# list, and what it costs a ranker by one feature is so much that all other bars would be stubs.
_YARDSTICKS = ("random", "single_feature")

# Seconds; less is no fit to speak of, and would stretch a logarithmic axis by decades.
_BRIEF = 0.01

# The sides of a point in the order in which a label is tried there: right, left, above, below, then between.
_SIDES = np.pi * np.array([0, 8, 4, 12, 1, 15, 7, 9, 2, 14, 6, 10]) / 8


@dataclass(frozen=True)
class Drawn:
    """What a picture shows as one series.

    Attributes:
        label: a row of the comparison, such as "lightgbm num_leaves=15".
        model: the backend's name, which decides the colour.
        runs: its runs: folds and seeds.
    """

    label: str
    model: str
    runs: tuple[Run, ...]


def draw(series: Sequence[Drawn], metric: str, folder: Path) -> list[Path]:
    """Draws every picture for which the runs hold data.

    Args:
        metric: of the learning curves where it was recorded, and of the test set in time_against_ndcg.png.
        folder: made where it does not exist.

    Returns:
        The files written.

    Raises:
        ConfigError: on an unknown metric.
    """
    return _write(folder, _figures(_finished(series), metric))


def draw_run(run: Run, folder: Path) -> list[Path]:
    """Draws learning_curve.png, of the metric that decided when to stop, and importances.png of one run.

    Args:
        folder: made where it does not exist.

    Returns:
        The files written; none for a run that recorded neither.
    """
    series = _finished([Drawn(run.result.model, run.result.model, (run,))])
    stopping = run.result.config.get("model", {}).get("early_stopping") or {}
    figures = {
        "learning_curve.png": _learning_curves(series, stopping.get("metric", "")),
        "importances.png": _importances(series),
    }
    return _write(folder, figures)


def _figures(series: Sequence[Drawn], metric: str) -> dict[str, Figure | None]:
    means = [_means_on_test(item, metric) for item in series]
    return {
        "learning_curves.png": _learning_curves(series, metric),
        "ndcg_at_k.png": _ndcg_at_k(series, means),
        "importances.png": _importances(series),
        "time_against_ndcg.png": _time_against_metric(series, means, metric),
    }


def _finished(series: Sequence[Drawn]) -> list[Drawn]:
    own = [
        replace(item, runs=tuple(run for run in item.runs if run.result.status == FINISHED))
        for item in series
    ]
    return [item for item in own if item.runs]


def _write(folder: Path, figures: Mapping[str, Figure | None]) -> list[Path]:
    written = []
    for name, figure in figures.items():
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # Neither a date nor a version stands in the file, so that the same data give the same bytes.
            figure.savefig(folder / name, dpi=_DPI, metadata={"Software": None})
            written.append(folder / name)
    return written


# How a series looks


@dataclass(frozen=True)
class _Style:
    """How a series looks. Colour, marker and hatch are the backend's; the rest tells its rows apart.

    Attributes:
        filling: of the marker, one of matplotlib's fill styles.
        hatch: of a bar.
        tint: of a bar, from 1 for the full colour towards 0 for white.
    """

    colour: str
    marker: str
    line: _LineStyle
    filling: str
    hatch: str
    tint: float

    @property
    def stroke(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.line}

    @property
    def points(self) -> dict[str, Any]:
        return {"color": self.colour, "marker": self.marker, "fillstyle": self.filling}


def _styles(series: Sequence[Drawn]) -> list[_Style]:
    """One style a series; no two are alike up to a dozen rows of one colour."""
    colours = [_colour(item.model) for item in series]
    of_colour, seen = Counter(colours), Counter[str]()
    chosen = []
    for item, colour in zip(series, colours, strict=True):
        rank, variant = _rank(item.model), seen[colour]
        seen[colour] += 1
        style = _Style(
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
    return [*_COLOURS].index(model) if model in _COLOURS else zlib.crc32(model.encode())


def _colour(model: str) -> str:
    return _COLOURS.get(model) or _OTHER_COLOURS[_rank(model) % len(_OTHER_COLOURS)]


# Learning curves


@dataclass(frozen=True, eq=False)
class _Curve:
    """A metric by iteration over the runs of a series, up to where the shortest run ends.

    Attributes:
        iterations: (n,)
        mean, low, high: (n,), of the metric over the runs.
        kept: for each run that kept an iteration, which one and the run's own value there.
    """

    iterations: NDArray[np.int64]
    mean: _Floats
    low: _Floats
    high: _Floats
    kept: tuple[tuple[int, float], ...]


def _learning_curves(series: Sequence[Drawn], metric: str) -> Figure | None:
    """Validation by iteration, and train in a smaller panel above it."""
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
    # Train climbs far above validation, whose differences would be pressed flat on one axis with it.
    grid = {"nrows": 2, "height_ratios": (1, 2.6), "sharex": True} if trained else {}
    keys = [*_keys(drawn), *_keys_of_curves(drawn)]
    figure, panels = _panels(f"{_data(drawn)}: {name} by iteration{_over(drawn)}", keys, 5.0, **grid)
    for place, ((_, valid, train), style) in enumerate(zip(shown, _styles(drawn), strict=True)):
        if train is not None:
            panels[0].plot(train.iterations, train.mean, linewidth=0.8, **style.stroke)
        _plot_validation(panels[-1], valid, style, place / len(shown), len(shown) <= _MOST_BANDS)
    for axes, split in zip(panels[::-1], ("validation", "train"), strict=False):
        axes.set_ylabel(f"{name}, {split}", fontsize=_TEXT)
        axes.grid(**_GRID)
        axes.margins(x=0.02)
    panels[-1].set_xlabel("iteration (one tree each)", fontsize=_TEXT)
    panels[-1].set_ylim(_limits_after_start([valid for _, valid, _ in shown]))
    return figure


def _plot_validation(axes: Axes, curve: _Curve, style: _Style, shift: float, band: bool) -> None:
    """One series; `shift`, from 0 to 1, moves its markers along, lest they cover those of another."""
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
    """Of the axis: all but the first twentieth, whose steep steps would press everything else flat."""
    kept = [value for curve in curves for _, value in curve.kept]
    low = min([float(curve.low[len(curve.low) // 20 :].min()) for curve in curves] + kept)
    high = max([float(curve.high.max()) for curve in curves] + kept)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


def _keys_of_curves(series: Sequence[Drawn]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    several = any(len(item.runs) > 1 for item in series)
    mark = "iteration kept by a run" if several else "iteration kept"
    keys = [Line2D([], [], color="#777777", linestyle="none", marker="o", label=mark, **_KEPT)]
    if several and len(series) <= _MOST_BANDS:
        keys.append(Line2D([], [], color="#777777", alpha=0.3, linewidth=6, label="lowest to highest run"))
    return keys


def _curve_name(curves: Sequence[LearningCurve], metric: str) -> str:
    """The metric where a run recorded it on validation, otherwise the first that one recorded."""
    names = [name for curve in curves for name in curve.values if name.startswith("valid/")]
    return metric if f"valid/{metric}" in names or not names else names[0].removeprefix("valid/")


def _curve(item: Drawn, curves: Sequence[LearningCurve], name: str) -> _Curve | None:
    """None where a run did not record it, or a value is not a number."""
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


# NDCG by cutoff


class _OnTest(NamedTuple):
    """What a series is worth on test, means over its runs.

    Attributes:
        metric: the comparison's; None where it is not a number.
        ndcg: NDCG@1, NDCG@2, ... up to the longest query; empty where it is not a number.
    """

    metric: float | None
    ndcg: list[float]


def _means_on_test(item: Drawn, metric: str) -> _OnTest:
    scored = [_scored(run) for run in item.runs]
    complete = [own for own in scored if own is not None]
    if len(complete) < len(scored):
        return _OnTest(None, [])
    longest = max(int(own.judgments.query_sizes.max()) for own in complete)
    names = [f"ndcg@{k}" for k in range(1, min(_LARGEST_K, longest) + 1)]
    runs = [evaluate(own.judgments, own.scores, [metric, *names]).means for own in complete]
    means = {name: fmean(run[name] for run in runs) for name in [metric, *names]}
    ndcg = [means[name] for name in names]
    return _OnTest(
        metric=None if math.isnan(means[metric]) else means[metric],
        ndcg=[] if math.isnan(sum(ndcg)) else ndcg,
    )


def _scored(run: Run) -> ScoredSplit | None:
    try:
        return run.scored("test")
    except ResultError:
        # The comparison that stands beside the pictures says what is wrong with such a run.
        return None


def _ndcg_at_k(series: Sequence[Drawn], means: Sequence[_OnTest]) -> Figure | None:
    """NDCG@k on test against k."""
    drawn = [item for item, own in zip(series, means, strict=True) if own.ndcg]
    values = [own.ndcg for own in means if own.ndcg]
    if not drawn:
        return None
    ks = range(1, max(map(len, values)) + 1)
    figure, (axes,) = _panels(f"{_data(drawn)}: NDCG@k on test{_over(drawn)}", _keys(drawn), _HEIGHT)
    for own, style in zip(values, _styles(drawn), strict=True):
        marks = {"markersize": 4.5, **style.points}
        axes.plot(ks[: len(own)], own, linewidth=1.3, linestyle=style.line, **marks)
    axes.set_xticks([k for k in ks if k == 1 or len(ks) <= 10 or k % 5 == 0])
    bottom, top = _limits_of_ndcg([value for own in values for value in own])
    axes.set_ylim(bottom, top)
    axes.set_xlabel("k (documents from the top)", fontsize=_TEXT)
    axes.set_ylabel(f"NDCG@k (the axis begins at {bottom:.2f})" if bottom else "NDCG@k", fontsize=_TEXT)
    axes.grid(**_GRID)
    return figure


def _limits_of_ndcg(values: Sequence[float]) -> tuple[float, float]:
    """From 0, unless no value is below half of the highest; never so narrow that noise looks like a gap.

    >>> _limits_of_ndcg([0.21, 0.62]), _limits_of_ndcg([0.71, 0.72])
    ((0.0, 0.65), (0.55, 0.75))
    """
    low, high = min(values), max(values)
    bottom, top = math.floor(20 * low) / 20, math.ceil(20 * high + 0.2) / 20
    if low < high / 2:
        return 0.0, top
    return max(0.0, round(min(bottom, top - 0.2), 2)), top


# Importances

_Worth = dict[str, dict[str, float]]
"""Kind of importance -> feature -> its value over the runs of a series."""

_AXIS_OF_KIND = {
    PERMUTATION: "fall of test {metric} when shuffled\n(whisker: one sd of the shuffles)",
    _GAIN: "share of the gain of all splits, %",
}


def _importances(series: Sequence[Drawn]) -> Figure | None:
    """The features worth most, by mean permutation importance; by mean gain where there is none."""
    worths = [(item, _worth(item)) for item in series if item.model not in _YARDSTICKS]
    shown = [(item, worth) for item, worth in worths if worth]
    if not shown:
        return None
    kinds = [kind for kind in (PERMUTATION, _GAIN) if any(kind in worth for _, worth in shown)]
    features = _best_features([worth[kinds[0]] for _, worth in shown if kinds[0] in worth])
    drawn = [item for item, _ in shown]
    # A bar of five points shows its hatch; a page may have no room for it.
    height = min(_PAGE, max(_HEIGHT, 1.2 + len(features) * (0.08 + 0.07 * len(drawn))))
    figure, panels = _panels(
        f"{_data(drawn)}: features worth most{_to_one(drawn)}{_over(drawn)}",
        _keys_of_bars(drawn) if len(drawn) > 1 else [],
        height,
        ncols=len(kinds),
        sharey=True,
    )
    for axes, kind in zip(panels, kinds, strict=True):
        for place, ((_, worth), style) in enumerate(zip(shown, _styles(drawn), strict=True)):
            if kind in worth:
                _bars(axes, worth, kind, features, (place, len(shown)), style)
        axes.set_xlabel(_AXIS_OF_KIND[kind].format(metric=_shuffled_metric(drawn)), fontsize=_TEXT)
        axes.axvline(0, color="black", linewidth=0.6)
    panels[0].set_yticks(range(len(features)))
    names = [short_name(feature, _LONGEST_FEATURE) for feature in features]
    panels[0].set_yticklabels(names, fontsize=_SMALL, parse_math=False)
    panels[0].set_ylim(len(features) - 0.4, -0.6)
    panels[0].set_ylabel("feature", fontsize=_TEXT)
    return figure


def _bars(
    axes: Axes, worth: _Worth, kind: str, features: Sequence[str], place: tuple[int, int], style: _Style
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


def _fill(style: _Style) -> dict[str, Any]:
    from matplotlib.colors import to_rgb

    full = np.array(to_rgb(style.colour))
    tinted = tuple((1 - style.tint * (1 - full)).tolist())
    # The hatch takes the colour of the edge: white on a full colour, the full colour on a pale one.
    edge = "white" if style.tint > 0.7 else style.colour
    return {"facecolor": tinted, "edgecolor": edge, "hatch": style.hatch, "linewidth": 0}


def _keys_of_bars(series: Sequence[Drawn]) -> list[Artist]:
    from matplotlib.patches import Patch

    looks = zip(series, _styles(series), strict=True)
    return [Patch(label=short_name(item.label, _LONGEST_LABEL), **_fill(style)) for item, style in looks]


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


# Time


def _time_against_metric(series: Sequence[Drawn], means: Sequence[_OnTest], metric: str) -> Figure | None:
    """The test metric against the time to fit."""
    pairs = [(_fit_seconds(item), own.metric) for item, own in zip(series, means, strict=True)]
    points = [(max(_BRIEF, time), value) for time, value in pairs if time is not None and value is not None]
    drawn = [item for item, pair in zip(series, pairs, strict=True) if None not in pair]
    if not drawn:
        return None
    title = f"{_data(drawn)}: {metric} on test against the time to fit{_over(drawn)}"
    figure, (axes,) = _panels(title, [], _HEIGHT)
    for (time, value), style in zip(points, _styles(drawn), strict=True):
        axes.plot(time, value, linestyle="none", markersize=8, **style.points)
    spread = max(time for time, _ in points) / min(time for time, _ in points)
    if spread > 10:
        _make_logarithmic(axes, spread)
    scale = " (log scale)" if spread > 10 else ""
    axes.set_xlabel(f"time to fit, its evaluator included, seconds{scale}", fontsize=_TEXT)
    axes.set_ylabel(f"{metric} on test", fontsize=_TEXT)
    axes.grid(**_GRID)
    axes.margins(0.12)
    _label_points(figure, axes, points, [item.label for item in drawn])
    return figure


def _fit_seconds(item: Drawn) -> float | None:
    """Mean over runs; None where one of them has no time."""
    times = [run.result.seconds.get("fit", math.nan) for run in item.runs]
    return None if math.isnan(fmean(times)) else fmean(times)


def _make_logarithmic(axes: Axes, spread: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    def name(seconds: float, _: int | None) -> str:
        return f"≤ {seconds:g}" if seconds == _BRIEF else f"{seconds:g}"

    axes.set_xscale("log")
    # The powers of ten alone would leave a short axis with a label or two.
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if spread < 500 else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(name))


def _label_points(
    figure: Figure, axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str]
) -> None:
    """Writes each label beside its point, as near as it covers no point and no other label."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # lays the axes out, and so fixes where in pixels the points are
    figure.set_layout_engine("none")
    pixels = axes.transData.transform(points)
    half = 6 * _DPI / 72
    taken = [Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half) for x, y in pixels]
    for number, (point, label) in enumerate(zip(points, labels, strict=True)):
        note = axes.annotate(
            textwrap.fill(short_name(label, _LONGEST_LABEL), 32),
            point,
            xytext=(0, 0),
            textcoords="offset pixels",
            fontsize=_SMALL,
            verticalalignment="bottom",
            parse_math=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#555555", "shrinkA": 0, "shrinkB": 5},
        )
        size = np.array(note.get_window_extent().size)
        box = _free_place(number, pixels, size, taken, axes.get_window_extent())
        taken.append(box)
        note.set_position(tuple(box.min - pixels[number]))
        if note.arrow_patch is not None:
            note.arrow_patch.set_visible(_distance(box, pixels[number]) > 1.5 * half)


def _free_place(number: int, points: _Floats, size: _Floats, taken: Sequence[Bbox], frame: Bbox) -> Bbox:
    """The nearest box to a point that lies free in the frame, and closer to this point than to the others.

    Args:
        points: (n, 2), pixels.
        size: (2,), width and height, pixels.
        taken: boxes that may not be covered.
    """
    places = _places(points[number], size)
    free = [
        box
        for box in places
        if frame.contains(*box.min) and frame.contains(*box.max) and not box.count_overlaps(taken)
    ]
    near = [box for box in free if min(range(len(points)), key=lambda i: _distance(box, points[i])) == number]
    return [*near, *free, *places][0]


def _places(point: _Floats, size: _Floats) -> list[Bbox]:
    from matplotlib.transforms import Bbox

    ways = np.column_stack([np.cos(_SIDES), np.sin(_SIDES)])
    distances = np.arange(8, 140, 6) * _DPI / 72
    corners = [point + way * (distance + size / 2) - size / 2 for distance in distances for way in ways]
    return [Bbox.from_bounds(*corner, *size) for corner in corners]


def _distance(box: Bbox, point: _Floats) -> float:
    """From a point to the nearest edge of a box, pixels; 0 inside."""
    return float(np.hypot(*(point - np.clip(point, box.min, box.max))))


# What all pictures share


def _panels(title: str, keys: Sequence[Artist], height: float, **grid: Any) -> tuple[Figure, list[Axes]]:
    """A titled figure with its panels; the legend stands below in columns, not at the panels' cost.

    Args:
        height: without the legend, inches.
        grid: what matplotlib's Figure.subplots takes, such as ncols=2; by default one panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = [str(key.get_label()) for key in keys]
    columns = _columns_of_legend(labels)
    height += _ROW_OF_LEGEND * math.ceil(len(keys) / columns)
    figure = Figure((_WIDTH, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    heading = textwrap.fill(short_name(title, 180), 90)
    figure.suptitle(heading, fontsize=_TEXT + 1, x=0.01, horizontalalignment="left", parse_math=False)
    panels: list[Axes] = figure.subplots(squeeze=False, **grid).ravel().tolist()
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=_SMALL)
        axes.set_axisbelow(True)
    if keys:
        look = {"fontsize": _SMALL, "frameon": False, "handlelength": 3.2}
        legend = figure.legend(keys, labels, loc="outside lower center", ncols=columns, **look)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure, panels


def _columns_of_legend(labels: Sequence[str]) -> int:
    """All in a row where they fit, otherwise as many columns as the longest label allows."""
    widths = [len(label) + 9 for label in labels]  # with the line, and the gap before the next column
    if sum(widths) <= _LEGEND_CHARACTERS:
        return max(1, len(widths))
    return max(1, _LEGEND_CHARACTERS // max(widths))


def _keys(series: Sequence[Drawn]) -> list[Artist]:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            label=short_name(item.label, _LONGEST_LABEL),
            linewidth=1.4,
            linestyle=style.line,
            markersize=5,
            **style.points,
        )
        for item, style in zip(series, _styles(series), strict=True)
    ]


def _data(series: Sequence[Drawn]) -> str:
    """The names of the runs' data sets."""
    return ", ".join(dict.fromkeys(str(run.result.data.get("name")) for item in series for run in item.runs))


def _to_one(series: Sequence[Drawn]) -> str:
    """The name of the only series, which then needs no legend."""
    return f" to {series[0].label}" if len(series) == 1 else ""


def _over(series: Sequence[Drawn]) -> str:
    """What a value is the mean of, such as ", mean over 5 folds"; empty where there is one run a series."""
    if max(len(item.runs) for item in series) == 1:
        return ""
    results = [run.result for item in series for run in item.runs]
    counts = {
        "folds": len({result.data.get("fold") for result in results}),
        "seeds": len({result.seed for result in results}),
    }
    several = [f"{count} {what}" for what, count in counts.items() if count > 1]
    return f", mean over {' and '.join(several) or 'runs'}"


def short_name(text: str, most: int) -> str:
    """A name on one line of at most so many characters, in what the font can show; its middle is left out.

    >>> short_name("body_bm25_of_the_last_thirty_days_max", 24)
    'body_bm25_of…ty_days_max'
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    shown = "".join(
        letter if font.get_char_index(ord(letter)) else letter.encode("unicode_escape").decode()
        for letter in " ".join(text.split())
    )
    if len(shown) <= most:
        return shown
    return f"{shown[: most // 2]}…{shown[len(shown) - (most - most // 2 - 1) :]}"
