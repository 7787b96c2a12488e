"""Quality by cutoff, and by iteration."""

from __future__ import annotations

from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Column, Figures, Folded, Prose, Section, Table
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots.cutoffs import ndcg_by_cutoff
from ltrbench.plots.learning_curves import curves_by_iteration


def cutoffs(shown: Shown) -> Section:
    """NDCG@k under the comparison's convention."""
    title = "NDCG@k"
    try:
        found = shown.comparison.ndcg_by_cutoff
    except (UndefinedMetricError, DataError) as error:
        return Section("cutoffs", title, "", [Prose(f"NDCG is not defined here: {error}")])
    figure = ndcg_by_cutoff(shown.series, PAGE)
    if figure is None:
        return Section("cutoffs", title, "", [Prose("No query counts in NDCG.")])
    largest = max(map(len, found.values()))
    columns = [Column("model", numeric=False), *(Column(f"@{k}") for k in range(1, largest + 1))]
    rows = [
        [shown.of_row(row.label), *(measured(value, numbers.quality(value)) for value in found[row.label])]
        for row in shown.rows
    ]
    lead = f"NDCG of the first k documents, k = 1 to {largest}: does the order of models hang on the cutoff?"
    drawn = inlined(figure, f"{shown.name}-cutoffs", "NDCG@k on test")
    return Section(
        "cutoffs", title, lead, [Figures([drawn]), Folded("The numbers", [Table("NDCG@k", columns, rows)])]
    )


def learning(shown: Shown) -> Section | None:
    """None where no run recorded a curve."""
    figure = curves_by_iteration(shown.series, shown.comparison.metric, PAGE)
    if figure is None:
        return None
    lead = (
        "Validation by iteration, and train above it where it was recorded: who overfits, and who stopped "
        "while still rising? Means over runs, as they were recorded, under the convention of the runs."
    )
    drawn = inlined(figure, f"{shown.name}-learning", "By iteration")
    return Section("learning", "Learning curves", lead, [Figures([drawn])])
