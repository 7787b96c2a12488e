"""Where the differences are: query by query, and by kinds of queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.analysis.slices import ATTRIBUTES, InSlice, Interaction, Slice, interactions
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import (
    Cell,
    Column,
    Figure,
    Figures,
    Folded,
    Part,
    Prose,
    Section,
    Table,
    named,
)
from ltrbench.compare.output.report.shown import Shown, all_folds, measured
from ltrbench.compare.output.report.svg import PAGE, SQUARE_PAGE, inlined
from ltrbench.compare.pairing.cells import PairedQueries
from ltrbench.metrics import parse_metric
from ltrbench.plots.report.differences import Differences, sorted_differences
from ltrbench.plots.report.scatter import MOST_POINTS, QueryPairs, scatter

_MOST_WINS = 10


def section(shown: Shown) -> Section | None:
    """A figure and two lists for each model against the baseline; None where nothing can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    others = [label for label in shown.paired if label != comparison.baseline]
    if queries is None or comparison.baseline not in queries.labels or not others:
        return None
    values = {label: _values(queries, label, comparison.baseline) for label in others}
    reach = max(float(np.abs(own).max()) for own in values.values()) or 1.0
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
        f"Each model's {comparison.metric} minus {comparison.baseline}'s, one value a query, sorted: the "
        "areas show whether a few queries make the difference or many. A value is the mean over trainings. "
        "Below, both models' values: queries above the diagonal are those on which the model beats "
        f"{comparison.baseline}."
    )
    if queries.sample.num_queries > MOST_POINTS:
        lead += " A cell is the denser the more queries it holds, on a log scale."
    scattered = [
        _scattered(shown, queries, label, f"scatter-{number}") for number, label in enumerate(others)
    ]
    wins = Folded(f"The {_MOST_WINS} queries that each wins most", lists)
    parts: list[Part] = [Figures(figures), Figures(scattered), wins]
    return Section("queries", "Query by query", lead, parts)


def _differences(shown: Shown, label: str, values: NDArray[np.float64], reach: float) -> Differences:
    baseline = shown.comparison.baseline
    models = {item.label: item.model for item in shown.series}
    return Differences(label, baseline, (models[label], models[baseline]), values, reach)


def _scattered(shown: Shown, queries: PairedQueries, label: str, name: str) -> Figure:
    """Each query's value of the model against the baseline's."""
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
    """(Q,), of row a minus row b."""
    places = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.sample.differences(places).values[0]
    return values


def _wins(shown: Shown, queries: PairedQueries, winner: str, loser: str) -> Table | Prose:
    """The queries that one wins most over the other."""
    differences = _values(queries, winner, loser)
    best = np.argsort(-differences, kind="stable")[:_MOST_WINS]
    columns = [
        Column("query", numeric=False),
        Column("difference"),
        Column(winner),
        Column(loser),
        Column("documents"),
        Column("relevant"),
    ]
    won = [number for number in best.tolist() if differences[number] > 0]
    if not won:
        return Prose(f"{winner} wins no query over {loser}.")
    rows = [_query(shown, queries, number, (winner, loser)) for number in won]
    return Table(f"{winner} over {loser}", columns, rows, "compact")


def _query(shown: Shown, queries: PairedQueries, number: int, rivals: tuple[str, str]) -> list[Cell]:
    place, own = queries.cell_of_query[number], queries.query_in_cell[number]
    judgments, fold = queries.judgments[place], queries.cells[place].fold
    values = [float(queries.sample.values[queries.labels.index(label), number]) for label in rivals]
    start, end = judgments.query_start[own : own + 2]
    convention = shown.comparison.settings.convention.of(parse_metric(shown.comparison.metric)[0])
    relevant = int((judgments.labels[start:end] >= convention.relevance_threshold).sum())
    difference = values[0] - values[1]
    return [
        named(str(judgments.query_ids[own]), "" if fold is None else f"fold {fold}"),
        measured(difference, numbers.difference(difference)),
        *(measured(value, numbers.quality(value)) for value in values),
        measured(int(end - start), numbers.count(int(end - start))),
        measured(relevant, numbers.count(relevant)),
    ]


_TITLES = {
    "query_size": "Number of documents",
    "num_relevant": "Number of relevant documents",
    "label_entropy": "Entropy of the labels, bits",
}


def slices(shown: Shown) -> Section | None:
    """A table an attribute, and one of the interactions; None where queries were not sliced."""
    attributes = list(dict.fromkeys(item.attribute for item in shown.slices))
    if not attributes:
        return None
    tables = [
        _sliced(shown, attribute, [item for item in shown.slices if item.attribute == attribute])
        for attribute in attributes
    ]
    lead = (
        f"Mean {shown.comparison.metric} by kinds of queries{_all_folds(shown)}, with the difference to "
        f"{shown.comparison.baseline} and its 95 % interval. Many slices are looked at, and none is adjusted "
        "for that: a difference in one slice is a hint, not a finding."
    )
    tested = interactions(shown.comparison, shown.slices)
    if tested:
        lead += (
            " The last table has one test for each model and attribute: does the difference to "
            f"{shown.comparison.baseline} vary over the slices at all? The test is Welch's of equal means, "
            "adjusted by Holm over all rows of the table. Slices describe these trained models; they are no "
            "claim."
        )
        tables.append(_interactions(shown, tested))
    return Section("slices", "Kinds of queries", lead, tables)


def _interactions(shown: Shown, tested: list[Interaction]) -> Table:
    columns = [
        Column("model", numeric=False),
        Column("attribute", numeric=False),
        Column("slices tested"),
        Column("p"),
        Column("p (Holm)"),
        Column("note", numeric=False),
    ]
    rows = [
        [
            shown.of_row(item.label),
            named(_TITLES.get(item.attribute, item.attribute)),
            measured(item.num_slices, numbers.count(item.num_slices)),
            measured(item.p_value, numbers.p_value(item.p_value)),
            measured(item.p_adjusted, numbers.p_value(item.p_adjusted)),
            named(item.note),
        ]
        for item in tested
    ]
    title = f"Does the difference to {shown.comparison.baseline} vary over the slices?"
    return Table(title, columns, rows, "compact")


def _all_folds(shown: Shown) -> str:
    queries = shown.comparison.queries
    return "" if queries is None else all_folds(len(queries.cells))


def _sliced(shown: Shown, attribute: str, own: list[Slice]) -> Table:
    title = _TITLES.get(attribute, attribute)
    labels = shown.paired
    columns = [
        Column(attribute.replace("_", " ") if attribute in ATTRIBUTES else attribute),
        Column("queries"),
        *(Column(label) for label in labels),
    ]
    rows = [
        [
            Cell(item.name, float(number)),
            measured(item.num_queries, numbers.count(item.num_queries)),
            *(_in_slice(row) for label in labels for row in item.rows if row.label == label),
        ]
        for number, item in enumerate(own)
    ]
    return Table(title, columns, rows, "compact")


def _in_slice(row: InSlice) -> Cell:
    if row.difference is None:
        return measured(row.mean, numbers.quality(row.mean))
    between = numbers.interval(row.interval, numbers.difference)
    note = f"{numbers.difference(row.difference)} {between}".rstrip()
    return measured(row.mean, numbers.quality(row.mean), note)
