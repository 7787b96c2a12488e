"""What the models were trained and judged on, and what others reported on it."""

from __future__ import annotations

import numpy as np

from ltrbench.compare.grouping import DATA_SPLITS
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Cell, Column, Prose, Section, Table, named
from ltrbench.compare.output.report.shown import Shown, all_folds, measured
from ltrbench.compare.pairing.fairness import SHOWN_DIGITS
from ltrbench.data import Judgments
from ltrbench.results import Run


def section(shown: Shown) -> Section:
    comparison = shown.comparison
    cells = {item.cell: item for row in comparison.rows for item in row.evaluated}
    splits = [row for item in cells.values() for row in _splits(item.run)]
    judged = [item.judgments for item in cells.values()]
    lead = (
        "Splits by their fingerprints: two runs with the same fingerprint saw the same documents. Labels and "
        f"sizes are those of the test queries{all_folds(len(cells))}."
    )
    columns = [
        Column("split", numeric=False),
        Column("documents"),
        Column("queries"),
        Column("features"),
        Column("without relevant", "The share of queries without a relevant document."),
        Column("fingerprint", numeric=False),
    ]
    tables = [Table("Splits", columns, splits, "compact"), _grades(judged), _sizes(judged)]
    return Section("data", "Data card", lead, tables)


def _splits(run: Run) -> list[list[Cell]]:
    data = run.result.data
    fold = "" if data.get("fold") is None else f" of fold {data['fold']}"
    rows = []
    for split in DATA_SPLITS:
        own = data.get(split) or {}
        if own.get("fingerprint") is not None:
            counts = [own.get(name) for name in ("documents", "queries", "features")]
            without = own.get("queries_without_relevant_document")
            rows.append(
                [
                    named(f"{split}{fold}"),
                    *(measured(count, numbers.count(count)) for count in counts),
                    measured(without, numbers.share(without)),
                    Cell(own["fingerprint"][:SHOWN_DIGITS], own["fingerprint"]),
                ]
            )
    return rows


def _grades(judged: list[Judgments]) -> Table:
    labels, counts = np.unique(np.concatenate([own.labels for own in judged]), return_counts=True)
    total = int(counts.sum())
    rows = [
        [
            Cell(f"{label:g}", label),
            measured(count, numbers.count(count)),
            measured(count / total, numbers.share(count / total)),
        ]
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
    ]
    return Table("Labels of test", [Column("label"), Column("documents"), Column("share")], rows, "compact")


def _sizes(judged: list[Judgments]) -> Table:
    sizes = np.concatenate([own.query_sizes for own in judged])
    shares = {"fewest": 0.0, "a quarter has at most": 0.25, "half": 0.5, "three quarters": 0.75, "most": 1.0}
    found = {name: float(np.quantile(sizes, share)) for name, share in shares.items()}
    rows = [[Cell("documents"), *(measured(size, numbers.count(size)) for size in found.values())]]
    columns = [Column("of a query", numeric=False, sortable=False)]
    columns += [Column(name, sortable=False) for name in found]
    return Table("Sizes of test queries", columns, rows, "compact")


def published(shown: Shown) -> Section | None:
    """What others reported on the data set; None where its YAML names nothing."""
    source = shown.comparison.published
    if source is None:
        return None
    names = list(dict.fromkeys(name for figures in source.figures.values() for name in figures))
    rows = [
        [named(model), *(measured(own.get(name), numbers.quality(own.get(name))) for name in names)]
        for model, own in source.figures.items()
    ]
    columns = [Column("published", numeric=False), *map(Column, names)]
    table = Table("Published figures", columns, rows, "compact")
    return Section("published", "Published figures", "", [Prose(source.source), table])
