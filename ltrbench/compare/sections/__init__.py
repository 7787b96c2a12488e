"""The sections of a comparison, in the order of the report.

A section is a function from `Shown` to a `Section` of views, or to None if there is nothing to show. To add a
section, write such a function in a file of this folder, and add it to `SECTIONS`:

    claims     claims and their evidence
    queries    single queries and kinds of queries
    runs       quality by cutoff and iteration, costs, features, settings, data, notes, searches
"""

from __future__ import annotations

from collections.abc import Callable

from ltrbench.compare.sections import claims, queries, runs
from ltrbench.compare.views import Section, Shown

SECTIONS: tuple[Callable[[Shown], Section | None], ...] = (
    claims.leaderboard_section,
    claims.pairs_section,
    claims.folds_section,
    claims.power_section,
    queries.distribution_section,
    queries.queries_section,
    queries.risk_section,
    queries.slices_section,
    runs.cutoffs_section,
    runs.learning_section,
    runs.costs_section,
    claims.conventions_section,
    runs.importances_section,
    runs.search_section,
    runs.settings_section,
    runs.alike_section,
    runs.hyperparameters_section,
    runs.data_section,
    runs.published_section,
    runs.notes_section,
)
"""All sections of the report."""

OF_TEXT = (claims.folds_section, queries.slices_section, runs.published_section)
"""The sections below the table on a terminal and in table.md."""
