"""Sections on queries: distribution, differences by query, risk, and kinds of queries."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import PairedQueries
from ltrbench.compare.groups import CHOSEN, InSlice, interactions
from ltrbench.compare.leaderboard import between
from ltrbench.compare.views import Figures, Folded, Prose, Section, Shown, View, drawn
from ltrbench.metrics import parse_metric
from ltrbench.plots import Differences, distribution_over_queries, sorted_differences
from ltrbench.statistics import SMALLEST_GROUP, risks
from ltrbench.statistics.paired import DECIMALS
from ltrbench.tables import (
    COUNT,
    DIFFERENCE,
    QUALITY,
    SIGNED,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    format_number,
    p_value,
    share,
)

_QUARTERS = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}


def distribution_section(shown: Shown) -> Section | None:
    """Returns a figure and a table for all models; None if nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None:
        return None
    metric = comparison.metric
    # Means over seeds in another order differ in the last bits.
    rounded = np.round(queries.sample.values, DECIMALS)
    values = dict(zip(queries.labels, rounded, strict=True))
    ends = (0, 1) if float(rounded.max()) <= 1 else (0,)
    columns = [
        TableColumn("model", left=True),
        *(TableColumn(name, QUALITY) for name in _QUARTERS),
        *(
            TableColumn(f"at {end}", share, hint=f"share of the queries whose {metric} is {end}")
            for end in ends
        ),
    ]
    rows: list[TableRow] = [
        [
            shown.cell_of(label),
            *np.quantile(values[label], [*_QUARTERS.values()]).tolist(),
            *(float((values[label] == end).mean()) for end in ends),
        ]
        for label in shown.paired
    ]
    parts: list[View] = [Table(columns, rows, f"{metric} of a query", "compact")]
    series = [item for item in shown.series if item.label in values]
    if series:
        of_series = [values[item.label] for item in series]
        draw = partial(distribution_over_queries, series, of_series, metric)
        parts.insert(0, Figures(drawn(draw, f"{metric} over queries")))
    lead = (
        f"Share of the {queries.sample.num_queries:,} queries with {metric} at or below the value on the "
        f"axis{shown.all_folds}. Where a line is below another, its model has fewer poor queries. The mark "
        "is the median."
    )
    return Section("distribution", "Distribution over queries", lead, parts)


# ---- Section "Query by query": which queries make the differences.

_MOST_WINS = 10


def queries_section(shown: Shown) -> Section | None:
    """Returns a figure and two lists for each model against the baseline; None if nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    baseline = comparison.baseline
    if queries is None or baseline not in queries.labels:
        return None
    series = {item.label: item for item in shown.series}
    labels = [label for label in shown.paired if label in series and label != baseline]
    if baseline not in series or not labels:
        return None
    values = {label: _differences(queries, label, baseline) for label in labels}
    reach = max(float(np.abs(of_label).max()) for of_label in values.values()) or 1.0
    figures = []
    for label, of_label in values.items():
        differences = Differences(series[label], series[baseline], of_label, reach)
        draw = partial(sorted_differences, differences, comparison.metric)
        figures += drawn(draw, f"{label} against {baseline}")
    lists = [
        _wins(shown, queries, *pair) for label in labels for pair in ((label, baseline), (baseline, label))
    ]
    lead = (
        f"{comparison.metric} of each model minus that of {baseline}, one value per query, sorted: the areas "
        "show whether a few queries make the difference or many. A value is the mean over trainings."
    )
    wins = Folded(f"The {_MOST_WINS} queries with the largest differences in each direction", lists)
    return Section("queries", "Query by query", lead, [Figures(figures), wins])


def _differences(queries: PairedQueries, a: str, b: str) -> NDArray[np.float64]:
    """Returns row a minus row b, (Q,)."""
    rows = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.sample.differences(rows).values[0]
    return values


def _wins(shown: Shown, queries: PairedQueries, winner: str, loser: str) -> Table | Prose:
    """Returns the queries on which one model is better than the other by most."""
    differences = _differences(queries, winner, loser)
    best = np.argsort(-differences, kind="stable")[:_MOST_WINS]
    won = [number for number in best.tolist() if differences[number] > 0]
    if not won:
        return Prose(f"{winner} is better than {loser} on no query.")
    convention = shown.comparison.settings.convention.of(parse_metric(shown.comparison.metric)[0])

    def row(number: int) -> TableRow:
        cell, query = queries.cell_of_query[number], queries.query_in_cell[number]
        judgments, fold = queries.judgments[cell], queries.cells[cell].fold
        values = [float(queries.sample.values[queries.labels.index(a), number]) for a in (winner, loser)]
        start, end = judgments.query_start[query : query + 2]
        relevant = int((judgments.labels[start:end] >= convention.relevance_threshold).sum())
        name = TableCell(str(judgments.query_ids[query]), note="" if fold is None else f"fold {fold}")
        return [name, values[0] - values[1], *values, int(end - start), relevant]

    columns = [
        TableColumn("query", left=True),
        TableColumn("difference", DIFFERENCE),
        TableColumn(winner, QUALITY),
        TableColumn(loser, QUALITY),
        TableColumn("documents", COUNT),
        TableColumn("relevant", COUNT),
    ]
    return Table(columns, [row(number) for number in won], f"{winner} better than {loser}", "compact")


# ---- Section "Kinds of queries": means and differences by slice.

_TITLES = {
    "query_size": "Number of documents",
    "num_relevant": "Number of relevant documents",
    "label_entropy": "Entropy of the labels, bits",
}


def slices_section(shown: Shown) -> Section | None:
    """Returns one table per attribute, and the interactions; None without slices."""
    attributes = list(dict.fromkeys(item.attribute for item in shown.slices))
    if not attributes:
        return None
    baseline = shown.comparison.baseline
    tables = [_slice_table(shown, attribute) for attribute in attributes]
    lead = (
        f"Mean {shown.comparison.metric} by slice, the queries of one kind{shown.all_folds}, with the "
        f"difference to {baseline} and its 95 % interval. The intervals are not adjusted "
        "for the number of slices: a difference in one slice is a hint, not a finding."
    )
    tested = interactions(shown.comparison, shown.slices)
    if any(item.p_value is not None for item in tested):
        lead += (
            " The last table tests for each model and attribute whether the difference to "
            f"{baseline} varies over the slices: Welch's test of equal means, adjusted by "
            f"Holm over all rows. It leaves out slices with fewer than {SMALLEST_GROUP} queries."
        )
        columns = [
            TableColumn("model", left=True),
            TableColumn("attribute", left=True),
            TableColumn("slices tested", COUNT),
            TableColumn("p", p_value),
            TableColumn("p (Holm)", p_value),
            TableColumn("note", left=True),
        ]
        rows: list[TableRow] = [
            [
                shown.cell_of(item.label),
                _TITLES.get(item.attribute, item.attribute),
                *(item.num_slices, item.p_value, item.p_adjusted, item.note),
            ]
            for item in tested
        ]
        caption = f"Does the difference to {baseline} vary over the slices?"
        tables.append(Table(columns, rows, caption, "compact"))
    elif tested:
        few = f"no attribute has two slices with at least {SMALLEST_GROUP} queries and a variance above 0"
        reason = CHOSEN if any(item.note == CHOSEN for item in tested) else few
        lead += f" Whether the difference varies over the slices is not tested: {reason}."
    lead += " Slices describe these trained models; no claim rests on them."
    return Section("slices", "Kinds of queries", lead, tables, ("slice",))


def _slice_table(shown: Shown, attribute: str) -> Table:
    slices = [item for item in shown.slices if item.attribute == attribute]
    columns = [
        TableColumn("slice", left=True),
        TableColumn("queries", COUNT),
        *(TableColumn(label, QUALITY, with_notes=True) for label in shown.paired),
    ]
    rows: list[TableRow] = []
    for number, item in enumerate(slices):
        of_label = {row.label: _in_slice(row) for row in item.rows}
        name = TableCell(float(number), item.name)
        rows.append([name, item.num_queries, *(of_label[label] for label in shown.paired)])
    return Table(columns, rows, _TITLES.get(attribute, attribute), "compact")


def _in_slice(row: InSlice) -> TableCell:
    if row.difference is None:
        return TableCell(row.mean)
    note = f"{format_number(row.difference, DIFFERENCE)} {between(row.interval)}".rstrip()
    return TableCell(row.mean, note=note)


# ---- Section "Risk": URisk, TRisk and GeoRisk of each model.

_ALPHAS = (1, 5)


def risk_section(shown: Shown) -> Section | None:
    """Returns one row per model; None with fewer than two models that can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None or len(queries.labels) < 2:
        return None
    baseline = comparison.baseline
    base = queries.labels.index(baseline) if baseline in queries.labels else None
    of_alpha = [risks(queries.sample, base, alpha) for alpha in _ALPHAS]
    of_label = dict(zip(queries.labels, zip(*of_alpha, strict=True), strict=True))
    kinds = {"URisk": DIFFERENCE, "TRisk": SIGNED, "GeoRisk": QUALITY}
    columns = [
        TableColumn("model", left=True),
        *(TableColumn(f"{kind}, alpha {alpha}", form) for kind, form in kinds.items() for alpha in _ALPHAS),
    ]
    rows: list[TableRow] = []
    for label in shown.paired:
        of_row = of_label[label]
        note = "; ".join(filter(None, ["baseline" * (label == baseline), of_row[0].note]))
        values = ([risk.u_risk, risk.t_risk, risk.geo_risk] for risk in of_row)
        rows.append(
            [shown.cell_of(label, note), *(value for kind in zip(*values, strict=True) for value in kind)]
        )
    lead = (
        f"URisk is the mean gain in {comparison.metric} over {baseline}, with losses multiplied "
        "by 1 + alpha; TRisk is URisk divided by its standard error. Below 0 the losses outweigh the gains "
        "at this alpha. GeoRisk needs no baseline: it increases with the mean of a model, and decreases with "
        "each query on which the model is below its expected value. That value follows from its mean and "
        "from the other models in the table. Risks describe these trained models; no claim rests on "
        "them."
    )
    table = Table(columns, rows, "Risk on single queries")
    return Section("risk", "Risk", lead, [table], ("URisk", "TRisk", "GeoRisk"))
