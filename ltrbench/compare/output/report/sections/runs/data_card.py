"""What the models were trained and judged on, and what others reported on it."""

from __future__ import annotations

import numpy as np

from ltrbench.compare.grouping import DATA_SPLITS
from ltrbench.compare.output.report.parts import Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, all_folds
from ltrbench.compare.pairing.fairness import SHOWN_DIGITS
from ltrbench.data import Judgments
from ltrbench.results import Run
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers


@section(place=160)
def data_section(shown: Shown) -> Section:
    """The splits, and the labels and query sizes of test."""
    comparison = shown.comparison
    cells = {item.cell: item for row in comparison.rows for item in row.evaluated}
    splits = [row for item in cells.values() for row in _splits(item.run)]
    judged = [item.judgments for item in cells.values()]
    lead = (
        "Splits by their fingerprints: two runs with the same fingerprint saw the same documents. Labels and "
        f"sizes are those of the test queries{all_folds(len(cells))}."
    )
    columns = [
        TableColumn("split", left=True),
        *(TableColumn(name, numbers.count) for name in ("documents", "queries", "features")),
        TableColumn(
            "without relevant", numbers.share, hint="The share of queries without a relevant document."
        ),
        TableColumn("fingerprint", left=True),
    ]
    tables = [Table(columns, splits, "Splits", "compact"), _grades(judged), _sizes(judged)]
    return Section("data", "Data card", lead, tables)


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
    shares = {"fewest": 0.0, "a quarter has at most": 0.25, "half": 0.5, "three quarters": 0.75, "most": 1.0}
    quantiles = [float(np.quantile(sizes, share)) for share in shares.values()]
    columns = [
        TableColumn("of a query", left=True, sortable=False),
        *(TableColumn(name, numbers.count, sortable=False) for name in shares),
    ]
    return Table(columns, [[TableCell(text="documents"), *quantiles]], "Sizes of test queries", "compact")


@section(place=170)
def published_section(shown: Shown) -> Section | None:
    """What others reported on the data set; None where its YAML names nothing."""
    source = shown.comparison.published
    if source is None:
        return None
    names = list(dict.fromkeys(name for figures in source.figures.values() for name in figures))
    rows = [[model, *(figures.get(name) for name in names)] for model, figures in source.figures.items()]
    columns = [TableColumn("published", left=True), *(TableColumn(name, numbers.quality) for name in names)]
    table = Table(columns, rows, "Published figures", "compact")
    return Section("published", "Published figures", "", [Prose(source.source), table])
