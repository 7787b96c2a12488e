"""Section "Quality and cost": fit time, predict time, size and memory, with Pareto fronts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.output.report.parts import Figures, PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.plots.costs import FIT, Cost, metric_against_cost
from ltrbench.results import TIMES
from ltrbench.tables import Table, TableColumn, TableRow, numbers


def _micros_per_document(row: ModelRow) -> float | None:
    """Returns the predict time per document in µs, mean over the runs that did not share the machine.

    None if there is no such run, or one of them was not timed.
    """
    alone = [item for item in row.evaluated if not item.run.result.shared_machine]
    times = [
        1e6 * item.run.result.seconds["predict"] / item.judgments.num_documents
        for item in alone
        if "predict" in item.run.result.seconds
    ]
    return fmean(times) if times and len(times) == len(alone) else None


@dataclass(frozen=True)
class _Measure:
    caption: str
    cost: Cost
    of_row: Callable[[ModelRow], float | None]


_MEASURES = (
    _Measure("Against the fit time", FIT, lambda row: row.seconds.get("fit")),
    _Measure(
        "Against the predict time",
        Cost("predict time", "predict time per document, µs", 0.001),
        _micros_per_document,
    ),
    _Measure(
        "Against the model size",
        Cost("model size", "model size on disk, MB", 0.0001),
        lambda row: row.model_mb,
    ),
    _Measure(
        "Against the memory during the fit",
        Cost("memory of the fit", "peak memory increase during the fit, MB", 0.1),
        lambda row: row.peak_memory_mb,
    ),
)


@section(place=120)
def costs_section(shown: Shown) -> Section | None:
    """Returns the metric against each cost; None if no cost was measured, as for imported scores."""
    comparison = shown.comparison
    figures = []
    for number, measure in enumerate(_MEASURES):
        spent = [measure.of_row(row) for row in comparison.rows]
        figure = metric_against_cost(shown.series, spent, measure.cost, comparison.metric, PAGE)
        if figure is not None:
            figures.append(inlined(figure, f"{shown.name}-cost-{number}", measure.caption))
    if not figures:
        return None
    lead = (
        f"{comparison.metric} on test against cost. The dashed line is the Pareto front: no other model is "
        "both cheaper and better than a model on it. Times are wall times on the machine of the run; the "
        "whole test set is predicted at once. The clean fit time is measured only with timing=clean."
    )
    if any(run.result.shared_machine for row in comparison.rows for run in row.runs):
        lead += " Times of runs that shared the machine with another job are left out."
    parts: list[PagePart] = [Figures(figures), _table(shown)]
    return Section("costs", "Quality and cost", lead, parts, ("Pareto front", *_TERMS))


_TERMS = ("fit s", "evaluation s", "clean fit s", "predict s", "model size", "memory MB", "trees")


def _table(shown: Shown) -> Table:
    times = {
        TIMES["fit"]: "Wall time, evaluation included.",
        TIMES["monitor"]: "Evaluation during the fit; part of the fit time.",
        TIMES["fit_clean"]: "Another fit without evaluation, with timing=clean.",
        f"{TIMES['predict']} per document": "The whole test set is predicted at once.",
    }
    columns = [
        TableColumn("model", left=True),
        TableColumn(shown.comparison.metric, numbers.quality),
        *(TableColumn(header, numbers.duration, hint=hint) for header, hint in times.items()),
        TableColumn("model size", numbers.size, hint="On disk."),
        TableColumn("memory", numbers.size, hint="Increase of resident memory during the fit."),
        TableColumn("trees", numbers.significant),
    ]
    return Table(columns, [_cells(shown, row) for row in shown.rows], "Costs, means over runs")


def _cells(shown: Shown, row: ModelRow) -> TableRow:
    micros = _micros_per_document(row)
    return [
        shown.of_row(row.label),
        row.metrics[shown.comparison.metric],
        *(row.seconds.get(kind) for kind in ("fit", "monitor", "fit_clean")),
        None if micros is None else micros / 1e6,
        row.model_mb,
        row.peak_memory_mb,
        row.trees,
    ]
