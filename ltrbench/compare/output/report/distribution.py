"""How a metric is spread over the queries."""

from __future__ import annotations

import numpy as np

from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Cell, Column, Figures, Section, Table
from ltrbench.compare.output.report.shown import Shown, all_folds, measured
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.plots.report.distributions import distribution_over_queries
from ltrbench.shapes import PerQuery
from ltrbench.statistics.sample import DECIMALS

_QUARTERS = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}


def section(shown: Shown) -> Section | None:
    """A figure and a table for all models; None where nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None:
        return None
    # As below for ties: seeds averaged in another order part values in the last bits.
    rounded = np.round(queries.sample.values, DECIMALS)
    values = dict(zip(queries.labels, rounded, strict=True))
    series = [item for item in shown.series if item.label in values]
    figure = distribution_over_queries(
        series, [values[item.label] for item in series], comparison.metric, PAGE
    )
    bounded = float(rounded.max()) <= 1
    columns = [
        Column("model", numeric=False),
        Column("at 0", f"share of the queries whose {comparison.metric} is 0"),
        *map(Column, _QUARTERS),
        *([Column("at 1", f"share of the queries whose {comparison.metric} is 1")] if bounded else []),
    ]
    rows = [[shown.of_row(label), *_spread(values[label], bounded)] for label in shown.paired]
    lead = (
        f"Share of the {numbers.count(queries.sample.num_queries)} queries whose {comparison.metric} is at "
        f"most the value below, each query counted once{all_folds(len(queries.cells))}: the lower of two "
        "lines has fewer queries of poor quality. The mark is the median."
    )
    drawn = inlined(figure, f"{shown.name}-distribution", f"{comparison.metric} over queries")
    table = Table(f"{comparison.metric} of a query", columns, rows, "compact")
    return Section("distribution", "Distribution over queries", lead, [Figures([drawn]), table])


def _spread(values: PerQuery, bounded: bool) -> list[Cell]:
    at_0, at_1 = float((values == 0).mean()), float((values == 1).mean())
    quarters = np.quantile(values, [*_QUARTERS.values()]).tolist()
    return [
        measured(at_0, numbers.share(at_0)),
        *(measured(value, numbers.quality(value)) for value in quarters),
        *([measured(at_1, numbers.share(at_1))] if bounded else []),
    ]
