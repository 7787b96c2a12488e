"""Section "Distribution over queries": the metric over the queries of each model."""

from __future__ import annotations

import numpy as np

from ltrbench.compare.output.report.parts import Figures, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, all_folds
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.plots.report.distributions import distribution_over_queries
from ltrbench.shapes import PerQuery
from ltrbench.statistics.sample import DECIMALS
from ltrbench.tables import Table, TableColumn, TableRow, numbers

_QUARTERS = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}


@section(place=60)
def distribution_section(shown: Shown) -> Section | None:
    """Returns a figure and a table for all models; None if nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None:
        return None
    # Means over seeds in another order differ in the last bits.
    rounded = np.round(queries.sample.values, DECIMALS)
    values = dict(zip(queries.labels, rounded, strict=True))
    series = [item for item in shown.series if item.label in values]
    figure = distribution_over_queries(
        series, [values[item.label] for item in series], comparison.metric, PAGE
    )
    bounded = float(rounded.max()) <= 1
    columns = [
        TableColumn("model", left=True),
        _share_at(0, comparison.metric),
        *(TableColumn(name, numbers.quality) for name in _QUARTERS),
        *([_share_at(1, comparison.metric)] if bounded else []),
    ]
    rows = [[shown.of_row(label), *_spread(values[label], bounded)] for label in shown.paired]
    lead = (
        f"Share of the {numbers.count(queries.sample.num_queries)} queries with {comparison.metric} at or "
        f"below the value on the axis{all_folds(len(queries.cells))}. Where a line is below another, its "
        "model has fewer poor queries. The mark is the median."
    )
    drawn = inlined(figure, f"{shown.name}-distribution", f"{comparison.metric} over queries")
    table = Table(columns, rows, f"{comparison.metric} of a query", "compact")
    return Section("distribution", "Distribution over queries", lead, [Figures([drawn]), table])


def _share_at(value: int, metric: str) -> TableColumn:
    hint = f"share of the queries whose {metric} is {value}"
    return TableColumn(f"at {value}", numbers.share, hint=hint)


def _spread(values: PerQuery, bounded: bool) -> TableRow:
    at_0, at_1 = float((values == 0).mean()), float((values == 1).mean())
    quarters = np.quantile(values, [*_QUARTERS.values()]).tolist()
    return [at_0, *quarters, *([at_1] if bounded else [])]
