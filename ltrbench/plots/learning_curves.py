"""Learning curves: the validation metric by iteration, and the train metric in a smaller panel above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.plots.drawing.panels import GRID, PAPER, TEXT, Floats, Page, keys_of, titled_panels
from ltrbench.plots.drawing.series import Series, data_of, over
from ltrbench.plots.drawing.styles import Style, styles_of
from ltrbench.results import LearningCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

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
