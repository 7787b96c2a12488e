"""The sections of a comparison, in the order of the report.

A section is a function from `Shown` to a `Section` of views, or to None if there is nothing to show. To add a
section, write such a function in a file of this folder, and add it to `SECTIONS`:

    claims     claims and their evidence
    queries    single queries and kinds of queries
    runs       quality by cutoff and iteration, costs, features, settings, data, notes, searches
"""

from __future__ import annotations

from collections.abc import Callable

from ltrbench.compare.sections.claims import (
    conventions_section,
    folds_section,
    leaderboard_section,
    pairs_section,
    power_section,
)
from ltrbench.compare.sections.queries import (
    distribution_section,
    queries_section,
    risk_section,
    slices_section,
)
from ltrbench.compare.sections.runs import (
    alike_section,
    costs_section,
    cutoffs_section,
    data_section,
    hyperparameters_section,
    importances_section,
    learning_section,
    notes_section,
    published_section,
    search_section,
    settings_section,
)
from ltrbench.compare.views import Section, Shown

SECTIONS: tuple[Callable[[Shown], Section | None], ...] = (
    leaderboard_section,
    pairs_section,
    folds_section,
    power_section,
    distribution_section,
    queries_section,
    risk_section,
    slices_section,
    cutoffs_section,
    learning_section,
    costs_section,
    conventions_section,
    importances_section,
    search_section,
    settings_section,
    alike_section,
    hyperparameters_section,
    data_section,
    published_section,
    notes_section,
)
"""All sections of the report."""

OF_TEXT = (folds_section, slices_section, published_section)
"""The sections below the table on a terminal and in table.md."""
