"""Section "A model against itself": rate of claims between two halves of a model's replicates."""

from __future__ import annotations

from ltrbench.compare.analysis.aa import OF_RESAMPLES, READING, AgainstItself, row_against_itself
from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.statistics.repeated.aa import SelfComparison
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers

_MOST_HALVINGS = 200
"""Number of halvings: enough to distinguish 5 % from 10 %. The verb `aa` uses more."""


@section(place=40)
def aa_section(shown: Shown) -> Section | None:
    """Returns one row per model; None if no model has enough replicates for two halves."""
    comparison = shown.comparison
    judged = [
        row_against_itself(comparison.data, row.group, comparison.metric, comparison.settings, _MOST_HALVINGS)
        for row in shown.rows
    ]
    rows = [(row, row.halved) for row in judged if row.halved is not None]
    if not rows:
        return None
    columns = [
        TableColumn("model", left=True),
        TableColumn("replicates", numbers.count, hint="in every fold"),
        TableColumn("halvings", numbers.count, hint="used here, and possible"),
        TableColumn("interval excludes 0", numbers.share),
        TableColumn("better or worse", numbers.share, hint=f"beyond ±{comparison.settings.rope:g}"),
        TableColumn("equivalent", numbers.share, hint=f"within ±{comparison.settings.rope:g}"),
        TableColumn("by queries alone", numbers.share, hint="Student's interval over queries excludes 0"),
    ]
    lead = f"{READING} {OF_RESAMPLES}" if any(row.kind == "resamples" for row, _ in rows) else READING
    table = Table(columns, [_cells(shown, *row) for row in rows], "Models against themselves")
    return Section("aa", "A model against itself", lead, [table], ("a model against itself",))


def _cells(shown: Shown, row: AgainstItself, halved: SelfComparison) -> TableRow:
    counts = (halved.num_intervals, halved.num_different, halved.num_equivalent, halved.num_by_queries)
    return [
        shown.of_row(row.label),
        TableCell(row.num_replicates, note=row.kind),
        TableCell(halved.num_halvings, note=f"of {numbers.count(halved.num_distinct)}"),
        *(count / halved.num_halvings for count in counts),
    ]
