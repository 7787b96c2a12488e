"""The comparison that a user of Python holds: the values, with their report, their DataFrame and their HTML.

`Comparison` knows no output; this class adds what is convenient in a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ltrbench.compare.answer import answer_of
from ltrbench.compare.claim_notes import level_in_words
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.leaderboard import MAIN, as_frame, columns_of_tables, leaderboard
from ltrbench.compare.report import Report, as_report, next_step_views
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
        """Returns the answer: the table, and what it says, for a notebook."""
        answer = answer_of(self)
        shown = Shown(self)
        columns = columns_of_tables(self, MAIN)
        table = leaderboard(shown, shown.rows, columns, answer.title)
        steps = [view.text for view in next_step_views(answer)]
        level = filter(None, [level_in_words(self)])
        return table.html([*level, *answer.sentences, *steps])
