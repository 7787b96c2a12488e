"""Sections "Data card" and "Published values"."""

from __future__ import annotations

import numpy as np

from ltrbench.compare.grouping import DATA_SPLITS
from ltrbench.compare.output.published import about_published, published_table
from ltrbench.compare.output.report.parts import PagePart, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, all_folds
from ltrbench.compare.pairing.fairness import SHOWN_DIGITS
from ltrbench.data import Judgments
from ltrbench.results import Run
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers


@section(place=160)
def data_section(shown: Shown) -> Section:
    """Returns the splits, and the labels and query sizes of the test set."""
    comparison = shown.comparison
    cells = {item.cell: item for row in comparison.rows for item in row.evaluated}
    splits = [row for item in cells.values() for row in _splits(item.run)]
    judged = [item.judgments for item in cells.values()]
    lead = (
        "Runs with the same fingerprint of a split have the same documents in it. Labels and sizes are those "
        f"of all test queries, including those that the metric skips{all_folds(len(cells))}."
    )
    columns = [
        TableColumn("split", left=True),
        *(TableColumn(name, numbers.count) for name in ("documents", "queries", "features")),
        TableColumn("queries without relevant", numbers.share, hint="Queries without a relevant document."),
        TableColumn("fingerprint", left=True),
    ]
    tables = [Table(columns, splits, "Splits", "compact"), _grades(judged), _sizes(judged)]
    return Section("data", "Data card", lead, tables, ("fingerprint", "skipped queries"))


def _splits(run: Run) -> list[TableRow]:
    data = run.result.data
    fold = "" if data.get("fold") is None else f" of fold {data['fold']}"
    rows: list[TableRow] = []
    for split in DATA_SPLITS:
        facts = data.get(split) or {}
        fingerprint = facts.get("fingerprint")
        if fingerprint is not None:
            names = ("documents", "queries", "features", "queries_without_relevant_document")
            shown = TableCell(fingerprint, fingerprint[:SHOWN_DIGITS])
            rows.append([f"{split}{fold}", *(facts.get(name) for name in names), shown])
    return rows


def _grades(judged: list[Judgments]) -> Table:
    labels, counts = np.unique(np.concatenate([item.labels for item in judged]), return_counts=True)
    total = int(counts.sum())
    rows = [
        [label, count, count / total] for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
    ]
    columns = [
        TableColumn("label", "g"),
        TableColumn("documents", numbers.count),
        TableColumn("share", numbers.share),
    ]
    return Table(columns, rows, "Labels of test", "compact")


def _sizes(judged: list[Judgments]) -> Table:
    sizes = np.concatenate([item.query_sizes for item in judged])
    shares = {"minimum": 0.0, "lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "maximum": 1.0}
    quantiles = [float(np.quantile(sizes, share)) for share in shares.values()]
    columns = [
        TableColumn("per query", left=True, sortable=False),
        *(TableColumn(name, numbers.count, sortable=False) for name in shares),
    ]
    return Table(columns, [[TableCell(text="documents"), *quantiles]], "Sizes of test queries", "compact")


@section(place=170)
def published_section(shown: Shown) -> Section | None:
    """Returns published values on the data set; None if its YAML has none."""
    published = shown.comparison.published
    if published is None:
        return None
    table = published_table(shown.comparison, published, numbers.quality)
    parts: list[PagePart] = [Prose(about_published(published)), table]
    return Section("published", "Published values", "", parts, ("published values",))
