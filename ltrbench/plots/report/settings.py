"""The settings that a search varied: their importance, and the value on validation against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.plots.costs import decimal, log_ticks
from ltrbench.plots.drawing.panels import (
    GRID,
    PAPER,
    SMALL,
    TEXT,
    Page,
    keys_of_bars,
    short_name,
    titled_panels,
)
from ltrbench.plots.drawing.series import Series, data_of, to_one
from ltrbench.plots.drawing.styles import bar_fill, colour_of, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_LONGEST_SETTING = 26  # characters
_MOST_COLUMNS = 3
_PANEL, _EDGE = 1.7, 0.9  # inches
_TRIAL: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 4,
    "markeredgewidth": 0,
    "alpha": 0.6,
}
_CHOSEN: dict[str, Any] = {**_TRIAL, "markersize": 7, "markeredgecolor": "black", "markeredgewidth": 1.2}
_DEFAULT: dict[str, Any] = {**_TRIAL, "marker": "x", "markersize": 7, "markeredgewidth": 1.8, "alpha": 1}


def setting_importance_bars(
    shares: Sequence[tuple[Series, Mapping[str, float]]], page: Page = PAPER
) -> Figure | None:
    """Draws the share of the variance that each setting explains, one bar per row; None without shares.

    Args:
        shares: row -> setting -> share of the variance of the value on validation.
    """
    shown = [(item, of_row) for item, of_row in shares if of_row]
    if not shown:
        return None
    names = dict.fromkeys(name for _, of_row in shown for name in of_row)
    means = {name: fmean(of_row.get(name, 0.0) for _, of_row in shown) for name in names}
    settings = sorted(names, key=lambda name: -means[name])
    series = [item for item, _ in shown]
    title = f"{data_of(series)}: importance of the settings{to_one(series)}"
    height = 1.2 + len(settings) * (0.12 + 0.09 * len(series))
    figure, (axes,) = titled_panels(title, keys_of_bars(series) if len(series) > 1 else [], height, page)
    thickness = 0.84 / len(shown)
    for place, ((_, of_row), style) in enumerate(zip(shown, styles_of(series), strict=True)):
        rows = np.arange(len(settings)) + (place - (len(shown) - 1) / 2) * thickness
        widths = [100 * of_row.get(name, 0.0) for name in settings]
        axes.barh(rows, widths, thickness, **bar_fill(style))
        axes.barh(rows, widths, thickness, facecolor="none", edgecolor=style.colour, linewidth=0.5)
    axes.set_yticks(range(len(settings)))
    labels = [short_name(name, _LONGEST_SETTING) for name in settings]
    axes.set_yticklabels(labels, fontsize=SMALL, parse_math=False)
    axes.set_ylim(len(settings) - 0.4, -0.6)
    axes.set_xlabel("share of the variance of the value on validation, %", fontsize=TEXT)
    return figure


@dataclass(frozen=True)
class TrialPoint:
    """A complete trial.

    Attributes:
        settings: setting -> value, as text.
        value: value on validation minus that of the chosen trial of the same search.
        is_chosen, is_default: whether the trial was chosen; whether it has the default settings.
    """

    settings: Mapping[str, str]
    value: float
    is_chosen: bool
    is_default: bool


def values_by_setting(
    series: Series, space: Mapping[str, str], trials: Sequence[TrialPoint], metric: str, page: Page = PAPER
) -> Figure | None:
    """Draws one panel per setting with a point per trial; None without a setting or with fewer than two
    trials.

    Args:
        space: setting -> its range in words, "0.01 to 0.5 (log)" or a list of values.
    """
    if not space or len(trials) < 2:
        return None
    columns = min(_MOST_COLUMNS, len(space))
    rows = -(-len(space) // columns)
    title = f"{data_of([series])}: {metric} on validation by setting{to_one([series])}"
    colour = colour_of(series.model)
    figure, panels = titled_panels(
        title,
        _keys_of_trials(trials, colour),
        _EDGE + _PANEL * rows,
        page,
        nrows=rows,
        ncols=columns,
        sharey=True,
    )
    for axes, (setting, values) in zip(panels, space.items(), strict=False):
        _draw_slice(axes, setting, values, trials, colour)
        if axes.get_xscale() == "log":
            _label_log_axis(axes, page.width / columns)
    for axes in panels[::columns]:
        axes.set_ylabel("minus the chosen trial", fontsize=SMALL)
    for axes in panels[len(space) :]:
        axes.set_visible(False)
    return figure


def _draw_slice(axes: Axes, setting: str, values: str, trials: Sequence[TrialPoint], colour: str) -> None:
    """Draws one panel; a trial whose value has no place on the axis, as null, is left out."""
    texts = [trial.settings[setting] for trial in trials]
    places: list[float | None]
    if " to " in values:
        places = [_number(text) for text in texts]
        if values.endswith("(log)"):
            places = _on_log_axis(axes, places)
    else:
        categories = sorted(set(texts), key=lambda text: (_number(text) is None, _number(text) or 0.0, text))
        places = [float(categories.index(text)) for text in texts]
        axes.set_xticks(range(len(categories)))
        axes.set_xticklabels([short_name(name, 12) for name in categories], parse_math=False)
        axes.set_xlim(-0.5, len(categories) - 0.5)
    for place, trial in zip(places, trials, strict=True):
        if place is not None:
            look = _CHOSEN if trial.is_chosen else _DEFAULT if trial.is_default else _TRIAL
            shade = "black" if look is _DEFAULT else colour
            axes.plot(place, trial.value, color=shade, zorder=2 + trial.is_chosen, **look)
    axes.set_xlabel(short_name(setting, _LONGEST_SETTING), fontsize=SMALL, parse_math=False)
    axes.grid(**GRID)


def _on_log_axis(axes: Axes, places: Sequence[float | None]) -> list[float | None]:
    """Makes the axis logarithmic; returns the places without those of 0 or less, which only a default has."""
    positive = [place for place in places if place is not None and place > 0]
    if positive:
        low, high = min(positive), max(positive)
        margin = max(1.1, (high / low) ** 0.06)
        axes.set_xscale("log")
        axes.set_xlim(low / margin, high * margin)
    return [place if place is not None and place > 0 else None for place in places]


def _label_log_axis(axes: Axes, width: float) -> None:
    """Labels round numbers; `width` is the width of the panel with its labels, inches."""
    from matplotlib.ticker import NullLocator

    low, high = axes.get_xlim()
    ticks = log_ticks(low, high, width, low)
    axes.set_xticks(ticks, [decimal(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _keys_of_trials(trials: Sequence[TrialPoint], colour: str) -> list[Line2D]:
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], color=colour, label="trial", **_TRIAL)]
    if any(trial.is_chosen for trial in trials):
        keys.append(Line2D([], [], color=colour, label="chosen trial", **_CHOSEN))
    if any(trial.is_default and not trial.is_chosen for trial in trials):
        keys.append(Line2D([], [], color="black", label="default settings", **_DEFAULT))
    return keys
