"""What features are worth to each model, on one scale."""

from __future__ import annotations

from ltrbench.compare.analysis.importances import ImportanceComparison, compare_importances
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import (
    Bullets,
    Cell,
    Column,
    Figures,
    Folded,
    Part,
    Section,
    Table,
    named,
)
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.compare.output.report.svg import WIDE_PAGE, inlined
from ltrbench.plots.importances import importance_bars
from ltrbench.rankers.models.importance import HIGH, LOW, NAMES, SHARES
from ltrbench.statistics import Interval

MOST_FEATURES = 100
"""Of a table; importances.csv has all."""


def section(shown: Shown) -> Section | None:
    """None where no run recorded any."""
    found = compare_importances({row.label: row.runs for row in shown.comparison.rows})
    if not found.rows:
        return None
    parts: list[Part] = []
    figure = importance_bars(shown.series, WIDE_PAGE)
    if figure is not None:
        parts.append(Figures([inlined(figure, f"{shown.name}-importances", "Features worth most")]))
    if found.notes:
        parts.append(Bullets(found.notes))
    parts += [_correlations(shown, found, kind) for kind in found.correlations]
    parts.append(Folded("Features, by every kind", [_features(found, kind) for kind in found.kinds]))
    return Section("importances", "Importances", _LEAD, parts)


_LEAD = (
    "The same kinds of importance of every model, means over folds and seeds: how far the metric on test "
    "falls when a feature is shuffled, with 95 % intervals over queries, and shares of what the model says "
    "itself. Falls were recorded by the runs, in their own metric and convention. Models of equal "
    "quality that rank features differently have found different ways to the same ranking."
)


def _correlations(shown: Shown, found: ImportanceComparison, kind: str) -> Table:
    labels = list(found.rows)
    rows = [
        [shown.of_row(label), *(measured(value, numbers.signed(value)) for value in row)]
        for label, row in zip(labels, found.correlations[kind], strict=True)
    ]
    columns = [
        Column("", numeric=False, sortable=False),
        *(Column(label, sortable=False) for label in labels),
    ]
    return Table(f"Spearman's rank correlation by {NAMES[kind]}", columns, rows, "compact")


def _features(found: ImportanceComparison, kind: str) -> Table:
    labels = [label for label, row in found.rows.items() if kind in row.values]
    rows = [
        [named(found.feature_names[feature]), *(_cell(found, label, kind, feature) for label in labels)]
        for feature in found.order[:MOST_FEATURES]
    ]
    columns = [Column("feature", numeric=False), *map(Column, labels)]
    few = len(found.order) > MOST_FEATURES
    return Table(f"By {NAMES[kind]}{f', the first {MOST_FEATURES} features' if few else ''}", columns, rows)


def _cell(found: ImportanceComparison, label: str, kind: str, feature: int) -> Cell:
    values = found.rows[label].values
    value, write = float(values[kind][feature]), numbers.share if kind in SHARES else numbers.difference
    note = ""
    if kind + HIGH in values:
        ends = Interval(float(values[kind + LOW][feature]), float(values[kind + HIGH][feature]), "t")
        note = numbers.interval(ends, numbers.difference)
    return measured(value, write(value), note)
