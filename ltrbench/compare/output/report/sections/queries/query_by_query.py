"""Sections "Query by query" and "Kinds of queries": which queries make the differences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.analysis.slices import CHOSEN, InSlice, Interaction, Slice, interactions
from ltrbench.compare.output.report.parts import Figure, Figures, Folded, PagePart, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, all_folds, between
from ltrbench.compare.output.report.svg import PAGE, SQUARE_PAGE, inlined
from ltrbench.compare.pairing.cells import PairedQueries
from ltrbench.metrics import parse_metric
from ltrbench.plots.report.differences import Differences, sorted_differences
from ltrbench.plots.report.scatter import MOST_POINTS, QueryPairs, scatter
from ltrbench.statistics import SMALLEST_GROUP
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers

_MOST_WINS = 10


@section(place=70)
def queries_section(shown: Shown) -> Section | None:
    """Returns a figure and two lists for each model against the baseline; None if nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    others = [label for label in shown.paired if label != comparison.baseline]
    if queries is None or comparison.baseline not in queries.labels or not others:
        return None
    values = {label: _values(queries, label, comparison.baseline) for label in others}
    reach = max(float(np.abs(of_label).max()) for of_label in values.values()) or 1.0
    figures = [
        inlined(
            sorted_differences(_differences(shown, label, values[label], reach), comparison.metric, PAGE),
            f"{shown.name}-difference-{number}",
            f"{label} against {comparison.baseline}",
        )
        for number, label in enumerate(others)
    ]
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
    scattered = [
        _scattered(shown, queries, label, f"scatter-{number}") for number, label in enumerate(others)
    ]
    wins = Folded(f"The {_MOST_WINS} queries with the largest differences in each direction", lists)
    parts: list[PagePart] = [Figures(figures), Figures(scattered), wins]
    return Section("queries", "Query by query", lead, parts)


def _differences(shown: Shown, label: str, values: NDArray[np.float64], reach: float) -> Differences:
    baseline = shown.comparison.baseline
    models = {item.label: item.model for item in shown.series}
    return Differences(label, baseline, (models[label], models[baseline]), values, reach)


def _scattered(shown: Shown, queries: PairedQueries, label: str, name: str) -> Figure:
    """Returns a scatter plot of the model against the baseline, one point per query."""
    comparison = shown.comparison
    models = {item.label: item.model for item in shown.series}
    baseline, values = comparison.baseline, queries.sample.values
    sides = np.sign(_values(queries, label, baseline)).astype(np.int64)
    pair = QueryPairs(
        a=label,
        b=baseline,
        models=(models[label], models[baseline]),
        values=values[[queries.labels.index(label), queries.labels.index(baseline)]],
        sides=sides,
        limits=(min(0.0, float(values.min())), float(values.max()) or 1.0),
    )
    above, on, below = (numbers.count(int((sides == side).sum())) for side in (1, 0, -1))
    caption = f"{label} against {baseline}: {above} above the diagonal, {below} below, {on} on it"
    return inlined(scatter(pair, comparison.metric, SQUARE_PAGE), f"{shown.name}-{name}", caption)


def _values(queries: PairedQueries, a: str, b: str) -> NDArray[np.float64]:
    """Returns row a minus row b, (Q,)."""
    places = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.sample.differences(places).values[0]
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
    place, query = queries.cell_of_query[number], queries.query_in_cell[number]
    judgments, fold = queries.judgments[place], queries.cells[place].fold
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
