"""Section "Distribution over queries": the metric over the queries of each model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import PairedQueries
from ltrbench.compare.groups import CHOSEN, InSlice, Interaction, Slice, interactions
from ltrbench.compare.leaderboard import between
from ltrbench.compare.sections import (
    PAGE,
    SQUARE_PAGE,
    Figure,
    Figures,
    Folded,
    PagePart,
    Prose,
    Section,
    Shown,
    all_folds,
    inlined,
    section,
)
from ltrbench.metrics import parse_metric
from ltrbench.plots.report import (
    MOST_POINTS,
    Differences,
    QueryPairs,
    distribution_over_queries,
    scatter,
    sorted_differences,
)
from ltrbench.shapes import PerQuery
from ltrbench.statistics import SMALLEST_GROUP, Risk, risks
from ltrbench.statistics.paired import DECIMALS
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, listed, numbers
from ltrbench.tables.numbers import Form

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
    series = [item for item in shown.drawn if item.label in values] or shown.series
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


# ---- Sections "Query by query" and "Kinds of queries": which queries make the differences.

_MOST_WINS = 10


@section(place=70)
def queries_section(shown: Shown) -> Section | None:
    """Returns a figure and two lists for each model against the baseline; None if nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    others = [label for label in shown.paired if label != comparison.baseline]
    if queries is None or comparison.baseline not in queries.labels or not others:
        return None
    yardsticks = {row.label for row in shown.yardsticks}
    models = [label for label in others if label not in yardsticks] or others
    rivals = [(label, comparison.baseline) for label in others]
    lists = [_wins(shown, queries, *pair) for a, b in rivals for pair in ((a, b), (b, a))]
    lead = (
        f"{comparison.metric} of each model minus that of {comparison.baseline}, one value per query, "
        "sorted: the areas show whether a few queries make the difference or many. A value is the mean over "
        "trainings. The second row of figures shows both values: on queries above the diagonal the model is "
        f"better than {comparison.baseline}."
    )
    if queries.sample.num_queries > MOST_POINTS:
        lead += " The colour is the number of queries in a cell, on a log scale."
    wins = Folded(f"The {_MOST_WINS} queries with the largest differences in each direction", lists)
    parts: list[PagePart] = [*_figures(shown, queries, models), wins]
    if yardsticks and models != others:
        rest = [label for label in others if label in yardsticks]
        parts.append(Folded(f"Yardsticks: {listed(rest)}", _figures(shown, queries, rest)))
    return Section("queries", "Query by query", lead, parts)


def _figures(shown: Shown, queries: PairedQueries, labels: Sequence[str]) -> list[Figures]:
    """Returns both figures of each model against the baseline, on one scale."""
    baseline, metric = shown.comparison.baseline, shown.comparison.metric
    values = {label: _values(queries, label, baseline) for label in labels}
    reach = max(float(np.abs(of_label).max()) for of_label in values.values()) or 1.0
    figures = [
        inlined(
            sorted_differences(_differences(shown, label, values[label], reach), metric, PAGE),
            f"{shown.name}-difference-{queries.labels.index(label)}",
            f"{label} against {baseline}",
        )
        for label in labels
    ]
    return [Figures(figures), Figures([_scattered(shown, queries, label) for label in labels])]


def _differences(shown: Shown, label: str, values: NDArray[np.float64], reach: float) -> Differences:
    baseline = shown.comparison.baseline
    models = {item.label: item.model for item in shown.series}
    return Differences(label, baseline, (models[label], models[baseline]), values, reach)


def _scattered(shown: Shown, queries: PairedQueries, label: str) -> Figure:
    """Returns a scatter plot of the model against the baseline, one point per query."""
    comparison = shown.comparison
    models = {item.label: item.model for item in shown.series}
    baseline = comparison.baseline
    values = queries.sample.values[[queries.labels.index(label), queries.labels.index(baseline)]]
    sides = np.sign(_values(queries, label, baseline)).astype(np.int64)
    pair = QueryPairs(
        a=label,
        b=baseline,
        models=(models[label], models[baseline]),
        values=values,
        sides=sides,
        limits=(min(0.0, float(values.min())), float(values.max()) or 1.0),
    )
    above, on, below = (numbers.count(int((sides == side).sum())) for side in (1, 0, -1))
    caption = f"{label} against {baseline}: {above} above the diagonal, {below} below, {on} on it"
    name = f"{shown.name}-scatter-{queries.labels.index(label)}"
    return inlined(scatter(pair, comparison.metric, SQUARE_PAGE), name, caption)


def _values(queries: PairedQueries, a: str, b: str) -> NDArray[np.float64]:
    """Returns row a minus row b, (Q,)."""
    rows = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.sample.differences(rows).values[0]
    return values


def _wins(shown: Shown, queries: PairedQueries, winner: str, loser: str) -> Table | Prose:
    """Returns the queries on which one model is better than the other by most."""
    differences = _values(queries, winner, loser)
    best = np.argsort(-differences, kind="stable")[:_MOST_WINS]
    columns = [
        TableColumn("query", left=True),
        TableColumn("difference", numbers.difference),
        TableColumn(winner, numbers.quality),
        TableColumn(loser, numbers.quality),
        TableColumn("documents", numbers.count),
        TableColumn("relevant", numbers.count),
    ]
    won = [number for number in best.tolist() if differences[number] > 0]
    if not won:
        return Prose(f"{winner} is better than {loser} on no query.")
    rows = [_query(shown, queries, number, (winner, loser)) for number in won]
    return Table(columns, rows, f"{winner} better than {loser}", "compact")


def _query(shown: Shown, queries: PairedQueries, number: int, rivals: tuple[str, str]) -> TableRow:
    cell, query = queries.cell_of_query[number], queries.query_in_cell[number]
    judgments, fold = queries.judgments[cell], queries.cells[cell].fold
    values = [float(queries.sample.values[queries.labels.index(label), number]) for label in rivals]
    start, end = judgments.query_start[query : query + 2]
    convention = shown.comparison.settings.convention.of(parse_metric(shown.comparison.metric)[0])
    relevant = int((judgments.labels[start:end] >= convention.relevance_threshold).sum())
    name = TableCell(str(judgments.query_ids[query]), note="" if fold is None else f"fold {fold}")
    return [name, values[0] - values[1], *values, int(end - start), relevant]


_TITLES = {
    "query_size": "Number of documents",
    "num_relevant": "Number of relevant documents",
    "label_entropy": "Entropy of the labels, bits",
}


@section(place=90)
def slices_section(shown: Shown) -> Section | None:
    """Returns one table per attribute, and the interactions; None without slices."""
    attributes = list(dict.fromkeys(item.attribute for item in shown.slices))
    if not attributes:
        return None
    tables = [
        _sliced(shown, attribute, [item for item in shown.slices if item.attribute == attribute])
        for attribute in attributes
    ]
    lead = (
        f"Mean {shown.comparison.metric} by slice, the queries of one kind{_all_folds(shown)}, with the "
        f"difference to {shown.comparison.baseline} and its 95 % interval. The intervals are not adjusted "
        "for the number of slices: a difference in one slice is a hint, not a finding."
    )
    tested = interactions(shown.comparison, shown.slices)
    if any(item.p_value is not None for item in tested):
        lead += (
            " The last table tests for each model and attribute whether the difference to "
            f"{shown.comparison.baseline} varies over the slices: Welch's test of equal means, adjusted by "
            f"Holm over all rows. It leaves out slices with fewer than {SMALLEST_GROUP} queries."
        )
        tables.append(_interactions(shown, tested))
    elif tested:
        lead += f" Whether the difference varies over the slices is not tested: {_why_not_tested(tested)}."
    lead += " Slices describe these trained models; no claim rests on them."
    return Section("slices", "Kinds of queries", lead, tables, ("slice",))


def _why_not_tested(interactions_without_test: list[Interaction]) -> str:
    if any(item.note == CHOSEN for item in interactions_without_test):
        return CHOSEN
    return f"no attribute has two slices with at least {SMALLEST_GROUP} queries and a variance above 0"


def _interactions(shown: Shown, tested: list[Interaction]) -> Table:
    columns = [
        TableColumn("model", left=True),
        TableColumn("attribute", left=True),
        TableColumn("slices tested", numbers.count),
        TableColumn("p", numbers.p_value),
        TableColumn("p (Holm)", numbers.p_value),
        TableColumn("note", left=True),
    ]
    rows = [
        [
            shown.of_row(item.label),
            _TITLES.get(item.attribute, item.attribute),
            item.num_slices,
            item.p_value,
            item.p_adjusted,
            item.note,
        ]
        for item in tested
    ]
    title = f"Does the difference to {shown.comparison.baseline} vary over the slices?"
    return Table(columns, rows, title, "compact")


def _all_folds(shown: Shown) -> str:
    queries = shown.comparison.queries
    return "" if queries is None else all_folds(len(queries.cells))


def _sliced(shown: Shown, attribute: str, slices_of_attribute: list[Slice]) -> Table:
    labels = shown.paired
    columns = [
        TableColumn("slice"),
        TableColumn("queries", numbers.count),
        *(TableColumn(label, numbers.quality) for label in labels),
    ]
    rows: list[TableRow] = [
        [
            TableCell(float(number), item.name),
            item.num_queries,
            *(_in_slice(row) for label in labels for row in item.rows if row.label == label),
        ]
        for number, item in enumerate(slices_of_attribute)
    ]
    return Table(columns, rows, _TITLES.get(attribute, attribute), "compact")


def _in_slice(row: InSlice) -> TableCell:
    if row.difference is None:
        return TableCell(row.mean)
    note = f"{numbers.difference(row.difference)} {between(row.interval)}".rstrip()
    return TableCell(row.mean, note=note)


# ---- Section "Risk": URisk, TRisk and GeoRisk of each model.

_ALPHAS = (1, 5)


@section(place=80)
def risk_section(shown: Shown) -> Section | None:
    """Returns one row per model; None with fewer than two models that can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None or len(queries.labels) < 2:
        return None
    base = queries.labels.index(comparison.baseline) if comparison.baseline in queries.labels else None
    of_alpha = [risks(queries.sample, base, alpha) for alpha in _ALPHAS]
    gains = f"mean gain over {comparison.baseline}; losses are multiplied by"
    columns = [
        TableColumn("model", left=True),
        *_columns("URisk", numbers.difference, [f"{gains} {1 + alpha}" for alpha in _ALPHAS]),
        *_columns("TRisk", numbers.signed, ["URisk divided by its standard error"] * len(_ALPHAS)),
        *_columns("GeoRisk", numbers.quality, ["depends on all models of the table"] * len(_ALPHAS)),
    ]
    of_label = dict(zip(queries.labels, zip(*of_alpha, strict=True), strict=True))
    rows = [[_name(shown, label, of_label[label]), *_risk_values(of_label[label])] for label in shown.paired]
    lead = (
        f"URisk is the mean gain in {comparison.metric} over {comparison.baseline}, with losses multiplied "
        "by 1 + alpha; TRisk is URisk divided by its standard error. Below 0 the losses outweigh the gains "
        "at this alpha. GeoRisk needs no baseline: it increases with the mean of a model, and decreases with "
        "each query on which the model is below its expected value. That value follows from its mean and "
        "from the other models in the table. Risks describe these trained models; no claim rests on "
        "them."
    )
    table = Table(columns, rows, "Risk on single queries")
    return Section("risk", "Risk", lead, [table], ("URisk", "TRisk", "GeoRisk"))


def _columns(name: str, form: Form, hints: Sequence[str]) -> list[TableColumn]:
    """Returns one column per alpha."""
    return [
        TableColumn(f"{name}, alpha {alpha}", form, hint=hint)
        for alpha, hint in zip(_ALPHAS, hints, strict=True)
    ]


def _name(shown: Shown, label: str, risks_of_row: Sequence[Risk]) -> TableCell:
    """Returns the cell of the model, with the reason why a value is not available."""
    note = "baseline" if label == shown.comparison.baseline else ""
    return shown.of_row(label, "; ".join(filter(None, [note, risks_of_row[0].note])))


def _risk_values(risks_of_row: Sequence[Risk]) -> TableRow:
    return [
        *(risk.u_risk for risk in risks_of_row),
        *(risk.t_risk for risk in risks_of_row),
        *(risk.geo_risk for risk in risks_of_row),
    ]
