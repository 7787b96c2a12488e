"""The comparison that a user of Python holds: the values, with their report, their DataFrame and their HTML.

`Comparison` knows no output; this class adds what is convenient in a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ltrbench.compare.advice import all_notes
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.leaderboard import as_frame, columns_of_tables, leaderboard
from ltrbench.compare.report import Report, answer, as_report, next_step_views, title
from ltrbench.compare.run_sections import grouped_notes
from ltrbench.compare.views import Shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class NotebookComparison(Comparison):
    """A comparison with its outputs as methods."""

    @classmethod
    def of(cls, comparison: Comparison) -> NotebookComparison:
        """Returns the same comparison with outputs."""
        return cls(
            **{each.name: getattr(comparison, each.name) for each in fields(comparison)}
        )

    def report(self) -> Report:
        """Returns the report, which a notebook shows and `save` writes."""
        return as_report(self)

    def to_frame(self) -> pd.DataFrame:
        """Returns one row per model with numbers in full precision.

        Columns: model, one per metric, the interval of the primary metric (low, high), the difference to the
        baseline with its interval and p-value, wins, ties and losses, trees, memory, and seconds by kind. NaN
        or None if not available.
        """
        return as_frame(self)

    def _repr_html_(self) -> str:
        """Returns the table with title, recommendation, claims and notes, for a notebook."""
        first, *rest = [*answer(self), ""]
        step = " ".join(view.text for view in next_step_views(self))
        notes = [
            str(note)
            for of_group in grouped_notes(all_notes(self))
            for note in of_group.notes
        ]
        table = leaderboard(
            Shown(self), self.rows, columns_of_tables(self), title(self)
        )
        return table.html(filter(None, [first, step, *rest, *notes]))
