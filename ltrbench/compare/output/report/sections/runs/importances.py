"""Section "Importances": importances of the features for each model, on one scale."""

from __future__ import annotations

from ltrbench.compare.analysis.importances import ImportanceComparison, compare_importances
from ltrbench.compare.output.report.parts import Bullets, Figures, Folded, PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, between
from ltrbench.compare.output.report.svg import WIDE_PAGE, inlined
from ltrbench.plots.importances import importance_bars
from ltrbench.rankers.models.importance import HIGH, LOW, NAMES, SHARES
from ltrbench.statistics import Interval
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers

_MOST_ROWS = 100
"""Number of features in a table; importances.csv has all of them."""


@section(place=140)
def importances_section(shown: Shown) -> Section | None:
    """Returns figures and tables; None if no run recorded importances."""
    importances = compare_importances({row.label: row.runs for row in shown.comparison.rows})
    if not importances.rows:
        return None
    parts: list[PagePart] = []
    figure = importance_bars(shown.series, WIDE_PAGE)
    if figure is not None:
        parts.append(Figures([inlined(figure, f"{shown.name}-importances", "Most important features")]))
    if importances.notes:
        parts.append(Bullets(importances.notes))
    parts += [_correlations(shown, importances, kind) for kind in importances.correlations]
    features = [_features(importances, kind) for kind in importances.kinds]
    parts.append(Folded("Importances of every kind", features))
    return Section("importances", "Importances", _LEAD, parts, ("importances",))


_LEAD = (
    "The same kinds of importance for every model, means over folds and seeds: the decrease of the metric on "
    "test when a feature is permuted, with 95 % intervals over queries, and the importances that the model "
    "itself computes, as shares. Decreases were recorded by the runs, in their metric and convention. Models "
    "of equal quality can use different features."
)


def _correlations(shown: Shown, importances: ImportanceComparison, kind: str) -> Table:
    labels = list(importances.rows)
    rows = [
        [shown.of_row(label), *row] for label, row in zip(labels, importances.correlations[kind], strict=True)
    ]
    columns = [
        TableColumn("", left=True, sortable=False),
        *(TableColumn(label, numbers.signed, sortable=False) for label in labels),
    ]
    return Table(columns, rows, f"Spearman's rank correlation by {NAMES[kind]}", "compact")


def _features(importances: ImportanceComparison, kind: str) -> Table:
    labels = [label for label, row in importances.rows.items() if kind in row.values]
    rows: list[TableRow] = [
        [
            importances.feature_names[feature],
            *(_cell(importances, label, kind, feature) for label in labels),
        ]
        for feature in importances.order[:_MOST_ROWS]
    ]
    form = numbers.share if kind in SHARES else numbers.difference
    columns = [TableColumn("feature", left=True), *(TableColumn(label, form) for label in labels)]
    few = len(importances.order) > _MOST_ROWS
    return Table(columns, rows, f"By {NAMES[kind]}{f', the first {_MOST_ROWS} features' if few else ''}")


def _cell(importances: ImportanceComparison, label: str, kind: str, feature: int) -> TableCell:
    """Returns the value, with its 95 % interval if the kind has one."""
    values = importances.rows[label].values
    note = ""
    if kind + HIGH in values:
        ends = Interval(float(values[kind + LOW][feature]), float(values[kind + HIGH][feature]), "t")
        note = between(ends)
    return TableCell(float(values[kind][feature]), note=note)
