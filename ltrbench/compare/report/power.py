"""What differences these queries could have shown."""

from __future__ import annotations

from ltrbench.compare.pairs import Pair
from ltrbench.compare.report import numbers
from ltrbench.compare.report.parts import Cell, Column, Section, named
from ltrbench.compare.report.shown import Shown, measured, pair_tables


def section(shown: Shown) -> Section | None:
    """None where nothing is paired."""
    comparison = shown.comparison
    if not any(pair.power.detectable is not None for pair in comparison.family):
        return None
    detect = comparison.settings.detect
    lead = (
        "The least true difference that so many queries find with a probability of 80 % at 5 %, by the "
        "spread of the differences and not by their mean: where nothing is shown, what could have been?"
    )
    columns = [Column("pair", numeric=False), Column("queries"), Column("detectable difference")]
    if detect is not None:
        columns.append(Column(f"queries needed for {detect:g}"))
    parts = pair_tables(shown, "Minimum detectable difference", columns, _cells)
    return Section("power", "What these queries can show", lead, parts)


def _cells(pair: Pair) -> list[Cell]:
    found, queries = pair.power, pair.statistics.num_queries
    cells = [
        named(numbers.minus(pair.a, pair.b)),
        measured(queries, numbers.count(queries)),
        measured(found.detectable, numbers.quality(found.detectable)),
    ]
    if found.detect is not None:
        cells.append(measured(found.queries_needed, numbers.count(found.queries_needed)))
    return cells
