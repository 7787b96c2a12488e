"""How often a claim appears between a model and itself, where it has enough replicates for two halves."""

from __future__ import annotations

from ltrbench.compare.analysis.aa import OF_RESAMPLES, READING, AgainstItself, row_against_itself
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Cell, Column, Section, Table
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.statistics.repeated.aa import SelfComparison

_MOST_HALVINGS = 200
"""That nobody asked for: enough to tell 5 % from 10 %. The verb `aa` judges more."""


def section(shown: Shown) -> Section | None:
    """A table with a row a model; None where none can be split into halves."""
    comparison = shown.comparison
    judged = [
        row_against_itself(comparison.data, row.group, comparison.metric, comparison.settings, _MOST_HALVINGS)
        for row in shown.rows
    ]
    rows = [(row, row.halved) for row in judged if row.halved is not None]
    if not rows:
        return None
    columns = [
        Column("model", numeric=False),
        Column("replicates", "in every fold"),
        Column("halvings", "judged, of all that there are"),
        Column("interval excludes 0"),
        Column("better or worse", f"beyond ±{comparison.settings.rope:g}"),
        Column("equivalent", f"within ±{comparison.settings.rope:g}"),
        Column("by queries alone", "Student's interval over queries excludes 0"),
    ]
    lead = f"{READING} {OF_RESAMPLES}" if any(row.kind == "resamples" for row, _ in rows) else READING
    table = Table("Models against themselves", columns, [_cells(shown, *row) for row in rows])
    return Section("aa", "A model against itself", lead, [table])


def _cells(shown: Shown, row: AgainstItself, halved: SelfComparison) -> list[Cell]:
    counts = (halved.num_intervals, halved.num_different, halved.num_equivalent, halved.num_by_queries)
    shares = (count / halved.num_halvings for count in counts)
    return [
        shown.of_row(row.label),
        measured(row.num_replicates, numbers.count(row.num_replicates), row.kind),
        measured(
            halved.num_halvings,
            numbers.count(halved.num_halvings),
            f"of {numbers.count(halved.num_distinct)}",
        ),
        *(measured(share, numbers.share(share)) for share in shares),
    ]
