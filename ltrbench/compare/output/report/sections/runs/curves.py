"""Sections "NDCG@k" and "Learning curves"."""

from __future__ import annotations

from ltrbench.compare.output.report.parts import Figures, Folded, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots.cutoffs import ndcg_by_cutoff
from ltrbench.plots.learning_curves import curves_by_iteration
from ltrbench.tables import Table, TableColumn, numbers


@section(place=100)
def cutoffs_section(shown: Shown) -> Section:
    """Returns NDCG@k under the convention of the comparison."""
    title = "NDCG@k"
    try:
        ndcg = shown.comparison.ndcg_by_cutoff
    except (UndefinedMetricError, DataError) as error:
        return Section("cutoffs", title, "", [Prose(f"NDCG is not defined here: {error}")])
    figure = ndcg_by_cutoff(shown.series, PAGE)
    if figure is None:
        return Section("cutoffs", title, "", [Prose("No query counts in NDCG.")])
    largest = max(map(len, ndcg.values()))
    cutoffs = [TableColumn(f"@{k}", numbers.quality) for k in range(1, largest + 1)]
    rows = [[shown.of_row(row.label), *ndcg[row.label]] for row in shown.rows]
    table = Table([TableColumn("model", left=True), *cutoffs], rows, "NDCG@k")
    lead = f"NDCG of the first k documents, k = 1 to {largest}: does the order of models depend on k?"
    drawn = inlined(figure, f"{shown.name}-cutoffs", "NDCG@k on test")
    return Section("cutoffs", title, lead, [Figures([drawn]), Folded("Table of NDCG@k", [table])])


@section(place=110)
def learning_section(shown: Shown) -> Section | None:
    """Returns the learning curves; None if no run recorded one."""
    figure = curves_by_iteration(shown.series, shown.comparison.metric, PAGE)
    if figure is None:
        return None
    lead = (
        "The metric on validation by iteration, and on train if it was recorded: which models overfit, and "
        "which stopped while the metric was still increasing? Values are means over runs, which recorded "
        "them under their own convention."
    )
    drawn = inlined(figure, f"{shown.name}-learning", "By iteration")
    return Section("learning", "Learning curves", lead, [Figures([drawn])])
