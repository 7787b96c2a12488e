"""Sections on claims and on queries: leaderboard, pairs, single queries, slices, several data sets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.claim_notes import family_of
from ltrbench.compare.claims import Claim, against
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import InSlice
from ltrbench.compare.leaderboard import (
    between,
    columns_of_report,
    differences_of,
    emphasis_of,
    leaderboard,
)
from ltrbench.compare.slicing import (
    SMALLEST_GROUP,
    Across,
    Interaction,
    across,
    interactions,
)
from ltrbench.compare.table import PairedQueries
from ltrbench.compare.views import (
    Chapter,
    Figure,
    Figures,
    Folded,
    Picture,
    Prose,
    Section,
    Shown,
    View,
    drawn,
)
from ltrbench.metrics import parse_metric
from ltrbench.plots import (
    critical_difference_diagram,
    differences_by_row,
    sorted_differences,
)
from ltrbench.statistics.claims import DataSetTest, Scope, Varied
from ltrbench.tables import (
    COUNT,
    DIFFERENCE,
    QUALITY,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    columns_of,
    format_number,
    listed,
    minus,
    p_value,
    significant,
)


def leaderboard_section(shown: Shown) -> Section:
    """Returns one row per model, the best first."""
    caption = f"Test means on {shown.comparison.data}, the best first"
    table = leaderboard(shown, shown.rows, columns_of_report(shown.comparison), caption)
    terms = (
        *(
            "model",
            "metric",
            "difference",
            "baseline",
            "claim",
            "these models",
            "trained again",
            "minimum detectable difference",
        ),
        *("better, tied, worse", "effect size", "yardstick"),
    )
    return Section(
        "leaderboard", "Leaderboard", "", [table, *_differences_by_row(shown)], terms
    )


def _differences_by_row(shown: Shown) -> list[View]:
    """Returns the picture of the differences to the baseline; empty without intervals."""
    comparison = shown.comparison
    series = {item.label: item for item in shown.series}
    has_interval = [
        pair
        for pair in against(comparison.family, comparison.baseline)
        if pair.models.interval
    ]
    ends = {comparison.baseline: (0.0, 0.0, 0.0), **differences_of(has_interval)}
    both = [row.label for row in shown.rows if row.label in series]
    shared = [label for label in both if label in ends]
    if shared in ([], [comparison.baseline]):
        return []
    of_rows = [series[label] for label in shared]
    ends_of_rows = [ends[label] for label in shared]
    level = comparison.settings.confidence
    title = (
        f"{comparison.data}: {comparison.metric} minus that of {comparison.baseline}, with simultaneous "
        f"{level} intervals"
    )
    figure = partial(differences_by_row, of_rows, ends_of_rows, title)
    return [Figures(drawn(figure, "Differences to the baseline", Picture.DIFFERENCES))]


# ---- Section "Pairwise claims": a matrix of all pairs for each kind of claim.


def pairs_section(shown: Shown) -> Section | None:
    """Returns the matrices of all pairs; None if the leaderboard has all claims, as with a named baseline."""
    comparison = shown.comparison
    if len(comparison.pairs) < 2 or comparison.settings.names_baseline:
        return None
    lead = (
        f"{comparison.metric} of the row minus that of the column, with the claims of simultaneous "
        f"{comparison.settings.confidence} intervals over {family_of(comparison)}. ▲: better; ▼: worse."
    )
    tables: list[View] = [_matrix(shown, "models", Scope(Varied.MODELS).in_words)]
    methods = [pair.methods for pair in comparison.family]
    scopes = {claim.scope for claim in methods if claim.interval is not None}
    if scopes:
        by_name = sorted(scopes, key=lambda scope: scope.name)
        words = "; ".join(scope.in_words for scope in by_name)
        tables.append(_matrix(shown, "methods", words))
    terms = ("simultaneous interval", "region of equivalence", "trained again")
    return Section("pairs", "Pairwise claims", lead, tables, terms)


def _matrix(shown: Shown, kind: str, scope: str) -> Table:
    """Returns the differences of all paired rows, with one of the two kinds of claims."""
    comparison = shown.comparison
    labels = shown.paired
    pairs = {}
    for label in labels:
        for pair in against(comparison.family, label):
            pairs[pair.a, pair.b] = pair

    def cell(a: str, b: str) -> TableCell:
        if a == b:
            return TableCell(text="")
        claim: Claim = getattr(pairs[a, b], kind)
        if claim.interval is None:
            return TableCell(claim.difference, note=claim.reason)
        emphasis = emphasis_of(claim)
        if pairs[a, b].is_order_only:
            return TableCell(text=claim.state, emphasis=emphasis)
        return TableCell(claim.difference, note=claim.state, emphasis=emphasis)

    columns = [TableColumn("", left=True, sortable=False)]
    columns += [TableColumn(b, DIFFERENCE, sortable=False) for b in labels]
    rows: list[TableRow] = []
    for a in labels:
        cells = [cell(a, b) for b in labels]
        rows.append([shown.cell_of(a), *cells])
    return Table(columns, rows, f"Row minus column: {scope}")


# ---- Chapter over several data sets: means side by side, and tests over data sets.


def data_sets_chapters(comparisons: Sequence[Comparison]) -> list[Chapter]:
    """Returns a chapter with the means, and the test over data sets or the reason why there is none; empty
    with a single data set."""
    over = across(comparisons)
    if over is None:
        return []
    ranks = Section("ranks", "Tests over data sets", "", [Prose(over.reason)])
    if over.test is not None:
        ranks = _ranks_section(over.labels, over.test)
    sections = [_means_section(comparisons[0].metric, over), ranks]
    return [Chapter("all-data", "All data sets", sections)]


def _means_section(metric: str, over: Across) -> Section:
    """Returns the means of the models that every data set has, if there are any."""
    lead = f"Mean {metric} on test, one row per data set."
    if not over.labels:
        lead = "No model is on every data set."
    if over.left_out:
        lead += (
            f" Without {listed(over.left_out)}: a data set lacks a row with these settings or one of its "
            "test sets."
        )
    views: list[View] = []
    for label, of_data in over.differing.items():
        words = [f"{name} on {data}" for data, name in of_data.items()]
        views.append(
            Prose(f"{label} has different settings on the data sets: {listed(words)}.")
        )
    if over.labels:
        columns = [TableColumn("data set", left=True)]
        columns += [TableColumn(label, QUALITY) for label in over.labels]
        rows: list[TableRow] = []
        for data, means in zip(over.data, over.means, strict=True):
            rows.append([data, *means])
        views.append(Table(columns, rows, "Means by data set"))
    return Section("means", "Means", lead, views)


def _ranks_section(labels: Sequence[str], test: DataSetTest) -> Section:
    lead = (
        "Each data set counts once, by the ranks of the models on it. Friedman's test: do any models differ? "
        "Nemenyi's test: which ones? Wilcoxon's signed rank test with Holm's adjustment does not depend on "
        "the other models in the table."
    )
    parts: list[View] = []
    if test.note:
        parts.append(Prose(f"{test.note}."))
    if test.chi2 is not None and test.chi2_p is not None:
        chi2 = significant(test.chi2)
        p = p_value(test.chi2_p)
        parts.append(
            Prose(
                f"Friedman's χ² is {chi2}, p {p}, over {test.num_data_sets} data sets."
            )
        )
    if test.critical_difference is not None:
        sentence = (
            "Two models differ by Nemenyi's test at 5 % if their average ranks differ by more than "
            f"{test.critical_difference:.2f}."
        )
        diagram = partial(
            critical_difference_diagram,
            labels,
            test.average_ranks,
            test.critical_difference,
            test.groups,
        )
        figures = drawn(diagram, "Critical-difference diagram")
        parts += [Prose(sentence), Figures(figures)]
    parts += [_table_of_ranks(labels, test), _table_of_p_values(labels, test)]
    return Section(
        "ranks", "Tests over data sets", lead, parts, ("tests over data sets",)
    )


def _table_of_ranks(labels: Sequence[str], test: DataSetTest) -> Table:
    rows: list[TableRow] = []
    for label, average_rank in zip(labels, test.average_ranks, strict=True):
        rows.append([label, average_rank])
    columns = columns_of({"model": None, "average rank": ".2f"})
    return Table(columns, rows, "Average ranks", "compact")


def _table_of_p_values(labels: Sequence[str], test: DataSetTest) -> Table:
    rows: list[TableRow] = []
    for pair in test.pairs:
        name = minus(labels[pair.a], labels[pair.b])
        rows.append([name, pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm])
    columns = columns_of(
        {
            "pair": None,
            "Nemenyi": p_value,
            "Wilcoxon": p_value,
            "Wilcoxon, Holm": p_value,
        }
    )
    return Table(columns, rows, "p-values over data sets", "compact")


# ---- Section "Query by query": which queries make the differences.

_MOST_WINS = 10


def queries_section(shown: Shown) -> Section | None:
    """Returns a figure and two lists for each model against the baseline; None if nothing can be paired."""
    comparison = shown.comparison
    queries = comparison.queries
    baseline = comparison.baseline
    drawn_labels = {item.label for item in shown.series}
    labels = [label for label in shown.paired if label in drawn_labels]
    others = [label for label in labels if label != baseline]
    if queries is None or not others:
        return None
    if baseline not in queries.labels or baseline not in drawn_labels:
        return None
    wins = []
    for label in others:
        wins += _wins(shown, queries, label, baseline)
        wins += _wins(shown, queries, baseline, label)
    lead = (
        f"{comparison.metric} of each model minus that of {baseline}, one value per query, sorted: the areas "
        "show whether a few queries make the difference or many. A value is the mean over trainings."
    )
    summary = f"The {_MOST_WINS} queries with the largest differences in each direction"
    figures = _figures_of_differences(shown, queries, others)
    parts: list[View] = [Figures(figures), Folded(summary, wins)]
    return Section("queries", "Query by query", lead, parts)


def _figures_of_differences(
    shown: Shown, queries: PairedQueries, labels: Sequence[str]
) -> list[Figure]:
    """Returns a figure for each model against the baseline, all on the same scale."""
    baseline = shown.comparison.baseline
    series = {item.label: item for item in shown.series}
    differences = {label: _differences(queries, label, baseline) for label in labels}
    largest = [np.abs(of_label).max() for of_label in differences.values()]
    reach = float(max(largest)) or 1.0
    figures = []
    for label, of_label in differences.items():
        draw = partial(
            sorted_differences,
            series[label],
            series[baseline],
            of_label,
            reach=reach,
            metric=shown.comparison.metric,
        )
        figures += drawn(draw, f"{label} against {baseline}")
    return figures


def _differences(queries: PairedQueries, a: str, b: str) -> NDArray[np.float64]:
    """Returns row a minus row b, (Q,)."""
    rows = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.distinct.differences(rows).values[0]
    return values


def _wins(shown: Shown, queries: PairedQueries, winner: str, loser: str) -> list[Table]:
    """Returns the queries on which one model is better than the other by most; empty if there are none."""
    won = _largest_wins(_differences(queries, winner, loser))
    if not won:
        return []
    of_winner = queries.distinct.values[queries.labels.index(winner)]
    of_loser = queries.distinct.values[queries.labels.index(loser)]
    firsts = _first_of_each_key(queries)
    rows: list[TableRow] = []
    for number in won:
        a = float(of_winner[number])
        b = float(of_loser[number])
        values = (a - b, a, b)
        name, *counts = _query_in_row(shown, queries, firsts[number])
        rows.append([name, *values, *counts])
    columns = columns_of(
        {"query": None, "difference": DIFFERENCE},
        {winner: QUALITY, loser: QUALITY},
        {"documents": COUNT, "relevant": COUNT},
    )
    return [Table(columns, rows, f"{winner} better than {loser}", "compact")]


def _largest_wins(differences: NDArray[np.float64]) -> list[int]:
    """Returns the numbers of the queries with the largest differences above 0, the largest first."""
    order = np.argsort(-differences, kind="stable").tolist()
    return [number for number in order[:_MOST_WINS] if differences[number] > 0]


def _first_of_each_key(queries: PairedQueries) -> NDArray[np.intp]:
    """Returns the number of the first query of each key, in the order of `distinct`."""
    _, firsts = np.unique(queries.query_keys, return_index=True)
    return np.sort(firsts)


class _QueryInRow(NamedTuple):
    """The id of a query with its fold, and its numbers of documents and of relevant ones."""

    name: TableCell
    num_documents: int
    num_relevant: int


def _query_in_row(shown: Shown, queries: PairedQueries, number: int) -> _QueryInRow:
    metric, _ = parse_metric(shown.comparison.metric)
    convention = shown.comparison.settings.convention.of(metric)
    cell = queries.cell_of_query[number]
    query = queries.query_in_cell[number]
    judgments = queries.judgments[cell]
    start, end = judgments.query_start[query : query + 2]
    is_relevant = judgments.labels[start:end] >= convention.relevance_threshold
    fold = queries.cells[cell].fold
    note = "" if fold is None else f"fold {fold}"
    name = TableCell(str(judgments.query_ids[query]), note=note)
    return _QueryInRow(name, int(end - start), int(is_relevant.sum()))


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
    tables = [_slice_table(shown, attribute) for attribute in attributes]
    # Tests have the same adjusted p-values whether or not the report adds attributes.
    tested = interactions(shown.comparison, shown.comparison.slices)
    added = interactions(shown.comparison, shown.added_slices)
    sentences = [_about_slices(shown)]
    all_tests = [*tested, *added]
    if any(item.p_value is not None for item in all_tests):
        adjusted = "over all rows"
        if tested and added:
            adjusted = "over the rows of the requested attributes, and over those of the others"
        sentences.append(
            "The last table tests for each model and attribute whether the difference to "
            f"{shown.comparison.baseline} varies over the slices: Welch's test of equal means, adjusted by "
            f"Holm {adjusted}. It leaves out slices with fewer than {SMALLEST_GROUP} queries."
        )
        tables.append(_interactions_table(shown, all_tests))
    elif all_tests:
        sentences.append(
            "Whether the difference varies over the slices is not tested: no attribute has two slices with "
            f"at least {SMALLEST_GROUP} queries and a variance above 0."
        )
    sentences.append("Slices are about these trained models.")
    return Section(
        "slices", "Kinds of queries", " ".join(sentences), tables, ("slice",)
    )


def _about_slices(shown: Shown) -> str:
    """Returns the sentences on the numbers in the tables of the slices."""
    comparison = shown.comparison
    lead = (
        f"Mean {comparison.metric} by slice, the queries of one kind{shown.all_folds}"
    )
    if comparison.is_order_only(comparison.metric):
        return f"{lead}. The sizes of differences are not claimed, and not shown."
    rows = list(itertools.chain.from_iterable(item.rows for item in shown.slices))
    if any(row.interval is not None for row in rows):
        return (
            f"{lead}, with the difference to {comparison.baseline} and its interval, simultaneous over the "
            "models. The intervals are not adjusted for the number of slices: a difference in one slice is "
            "a hint, not a finding."
        )
    if any(row.difference is not None for row in rows):
        return f"{lead}, with the difference to {comparison.baseline}."
    return f"{lead}."


def _interactions_table(shown: Shown, tested: Sequence[Interaction]) -> Table:
    columns = columns_of(
        {
            "model": None,
            "attribute": None,
            "slices tested": COUNT,
            "p": p_value,
            "p (Holm)": p_value,
            "note": None,
        }
    )
    rows: list[TableRow] = []
    for item in tested:
        name = shown.cell_of(item.label)
        attribute = _TITLES.get(item.attribute, item.attribute)
        values = (item.num_slices, item.p_value, item.p_adjusted, item.note)
        rows.append([name, attribute, *values])
    baseline = shown.comparison.baseline
    caption = f"Does the difference to {baseline} vary over the slices?"
    return Table(columns, rows, caption, "compact")


def _slice_table(shown: Shown, attribute: str) -> Table:
    slices = [item for item in shown.slices if item.attribute == attribute]
    of_labels = [TableColumn(label, QUALITY, with_notes=True) for label in shown.paired]
    columns = [
        TableColumn("slice", left=True),
        TableColumn("queries", COUNT),
        *of_labels,
    ]
    rows: list[TableRow] = []
    for number, item in enumerate(slices):
        of_label = {row.label: _in_slice(row) for row in item.rows}
        name = TableCell(float(number), item.name)
        cells = [of_label[label] for label in shown.paired]
        rows.append([name, item.num_queries, *cells])
    return Table(columns, rows, _TITLES.get(attribute, attribute), "compact")


def _in_slice(row: InSlice) -> TableCell:
    if row.difference is None:
        return TableCell(row.mean)
    note = (
        f"{format_number(row.difference, DIFFERENCE)} {between(row.interval)}".rstrip()
    )
    return TableCell(row.mean, note=note)
