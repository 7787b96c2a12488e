"""Pictures of the searches of a comparison, for its folder and for the report:

    search.png               best value on validation by number of trials; chosen settings on test
    setting_importances.png  importance of the settings
    settings_ROW.png         value on validation against each setting, one picture per row

They are not written without a search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ltrbench.compare.analysis.tuning import Tuning
from ltrbench.plots import Series
from ltrbench.plots.drawing.panels import PAPER, Page
from ltrbench.plots.report.budgets import BudgetCurve, best_by_trials
from ltrbench.plots.report.settings import TrialPoint, setting_importance_bars, values_by_setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST_NAME = 60
"""Number of characters of a row in the name of a file."""


def search_pictures(searched: Sequence[Tuning]) -> dict[str, Figure | None]:
    """Returns file name -> picture; None for a picture without data."""
    pictures = {"search.png": budget_picture(searched), "setting_importances.png": share_picture(searched)}
    for number, item in enumerate(searched):
        name = re.sub(r"[^\w.-]+", "_", item.label)[:_LONGEST_NAME]
        # Two labels may have the same letters.
        place = f"settings_{name}.png"
        pictures[place if place not in pictures else f"settings_{name}_{number}.png"] = slice_picture(item)
    return pictures


def budget_picture(searched: Sequence[Tuning], page: Page = PAPER) -> Figure | None:
    """Returns the best value by number of trials; None without searches in one metric."""
    metrics = {item.metric for item in searched}
    if len(metrics) != 1:
        return None
    curves = [
        BudgetCurve(
            series_of_search(item),
            item.best_by_trials,
            None if item.test_value is None else (item.trials, item.test_value),
        )
        for item in searched
    ]
    return best_by_trials(curves, metrics.pop(), all(item.is_expected for item in searched), page)


def share_picture(searched: Sequence[Tuning], page: Page = PAPER) -> Figure | None:
    """Returns the importance of the settings; None if no search recorded it."""
    return setting_importance_bars([(series_of_search(item), item.importance) for item in searched], page)


def slice_picture(item: Tuning, page: Page = PAPER) -> Figure | None:
    """Returns the values of the complete trials of a row against each setting."""
    points = [
        TrialPoint(
            settings=trial.settings,
            value=trial.value - search.chosen.value,
            is_chosen=trial is search.chosen,
            is_default=trial is search.default,
        )
        for search in item.searches
        if search.chosen is not None
        for trial in search.complete
    ]
    return values_by_setting(
        series_of_search(item), item.searches[0].record["space"], points, item.metric, page
    )


def series_of_search(item: Tuning) -> Series:
    """Returns a row with a search for pictures."""
    return Series(label=item.label, model=item.row.group.model, runs=item.row.runs)
