"""Sections on claims and on queries: leaderboard, pairs, single queries, slices, several data sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
    Interaction,
    across,
    interactions,
)
from ltrbench.compare.table import (
    PairedQueries,
)
from ltrbench.compare.views import (
    Chapter,
    Figures,
    Folded,
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
    return [Figures(drawn(figure, "Differences to the baseline", "differences.png"))]


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
        return TableCell(
            claim.difference, note=claim.state, emphasis=emphasis_of(claim)
        )

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
    columns = [TableColumn("data set", left=True)]
    columns += [TableColumn(label, QUALITY) for label in over.labels]
    rows: list[TableRow] = []
    for data, means in zip(over.data, over.means, strict=True):
        rows.append([data, *means])
    table = Table(columns, rows, "Means by data set")
    lead = f"Mean {comparisons[0].metric} on test, one row per data set."
    ranks = Section("ranks", "Tests over data sets", "", [Prose(over.reason)])
    if over.test is not None:
        ranks = _ranks_section(over.labels, over.test)
    sections = [Section("means", "Means", lead, [table]), ranks]
    return [Chapter("all-data", "All data sets", sections)]


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
        sentence = f"Friedman's χ² is {chi2}, p {p_value(test.chi2_p)}, over {test.num_data_sets} data sets."
        parts.append(Prose(sentence))
    if test.critical_difference is not None:
        ranks = labels, test.average_ranks, test.critical_difference, test.groups
        sentence = (
            "Two models differ by Nemenyi's test at 5 % if their average ranks differ by more than "
            f"{test.critical_difference:.2f}."
        )
        diagram = partial(critical_difference_diagram, *ranks)
        figures = drawn(diagram, "Critical-difference diagram")
        parts += [Prose(sentence), Figures(figures)]
    by_label = zip(labels, test.average_ranks, strict=True)
    average: list[TableRow] = [[label, rank] for label, rank in by_label]
    pairs: list[TableRow] = []
    for pair in test.pairs:
        name = minus(labels[pair.a], labels[pair.b])
        pairs.append([name, pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm])
    of_ranks = columns_of({"model": None, "average rank": ".2f"})
    tests = ("Nemenyi", "Wilcoxon", "Wilcoxon, Holm")
    of_pairs = columns_of({"pair": None, **dict.fromkeys(tests, p_value)})
    parts += [
        Table(of_ranks, average, "Average ranks", "compact"),
        Table(of_pairs, pairs, "p-values over data sets", "compact"),
    ]
    return Section(
        "ranks", "Tests over data sets", lead, parts, ("tests over data sets",)
    )


# ---- Section "Query by query": which queries make the differences.

_MOST_WINS = 10


def queries_section(shown: Shown) -> Section | None:
    """Returns a figure and two lists for each model against the baseline; None if nothing can be paired."""
    comparison = shown.comparison
    queries = comparison.queries
    baseline = comparison.baseline
    series = {item.label: item for item in shown.series}
    labels = [label for label in shown.paired if label in series and label != baseline]
    if queries is None or not labels:
        return None
    if baseline not in queries.labels or baseline not in series:
        return None
    values = {label: _differences(queries, label, baseline) for label in labels}
    largest = [float(np.abs(of_label).max()) for of_label in values.values()]
    reach = max(largest) or 1.0
    figures = []
    wins = []
    for label, of_label in values.items():
        draw = partial(
            sorted_differences,
            series[label],
            series[baseline],
            of_label,
            reach=reach,
            metric=comparison.metric,
        )
        figures += drawn(draw, f"{label} against {baseline}")
        wins += _wins(shown, queries, label, baseline)
        wins += _wins(shown, queries, baseline, label)
    lead = (
        f"{comparison.metric} of each model minus that of {baseline}, one value per query, sorted: the areas "
        "show whether a few queries make the difference or many. A value is the mean over trainings."
    )
    summary = f"The {_MOST_WINS} queries with the largest differences in each direction"
    parts: list[View] = [Figures(figures), Folded(summary, wins)]
    return Section("queries", "Query by query", lead, parts)


def _differences(queries: PairedQueries, a: str, b: str) -> NDArray[np.float64]:
    """Returns row a minus row b, (Q,)."""
    rows = [(queries.labels.index(a), queries.labels.index(b))]
    values: NDArray[np.float64] = queries.distinct.differences(rows).values[0]
    return values


def _wins(shown: Shown, queries: PairedQueries, winner: str, loser: str) -> list[Table]:
    """Returns the queries on which one model is better than the other by most; empty if there are none."""
    differences = _differences(queries, winner, loser)
    best = np.argsort(-differences, kind="stable")[:_MOST_WINS]
    won = [number for number in best.tolist() if differences[number] > 0]
    if not won:
        return []
    comparison = shown.comparison
    metric, _ = parse_metric(comparison.metric)
    convention = comparison.settings.convention.of(metric)
    places = [queries.labels.index(label) for label in (winner, loser)]
    values = [queries.distinct.values[place] for place in places]
    firsts = np.sort(np.unique(queries.query_keys, return_index=True)[1])
    rows: list[TableRow] = []
    for number in won:
        a, b = (float(of_row[number]) for of_row in values)
        query = _query_cells(queries, firsts[number], convention.relevance_threshold)
        name, *counts = query
        rows.append([name, a - b, a, b, *counts])
    forms = {"query": None, "difference": DIFFERENCE, winner: QUALITY, loser: QUALITY}
    columns = columns_of({**forms, "documents": COUNT, "relevant": COUNT})
    return [Table(columns, rows, f"{winner} better than {loser}", "compact")]


def _query_cells(
    queries: PairedQueries, number: int, threshold: float
) -> tuple[TableCell, int, int]:
    """Returns the id of a query with its fold, and its numbers of documents and of relevant ones."""
    cell = queries.cell_of_query[number]
    query = queries.query_in_cell[number]
    judgments = queries.judgments[cell]
    start, end = judgments.query_start[query : query + 2]
    num_relevant = int((judgments.labels[start:end] >= threshold).sum())
    fold = queries.cells[cell].fold
    note = "" if fold is None else f"fold {fold}"
    name = TableCell(str(judgments.query_ids[query]), note=note)
    return name, int(end - start), num_relevant


# ---- Section "Kinds of queries": means and differences by slice.

_TITLES = {
    "query_size": "Number of documents",
    "num_relevant": "Number of relevant documents",
    "label_entropy": "Entropy of the labels, bits",
}


def slices_section(shown: Shown) -> Section | None:
    """Returns one table per attribute, and the interactions; None without slices."""
    attributes = list(dict.fromkeys(item.attribute for item in shown.comparison.slices))
    if not attributes:
        return None
    baseline = shown.comparison.baseline
    tables = [_slice_table(shown, attribute) for attribute in attributes]
    lead = (
        f"Mean {shown.comparison.metric} by slice, the queries of one kind{shown.all_folds}, with the "
        f"difference to {baseline} and its interval, simultaneous over the models. The intervals are not "
        "adjusted for the number of slices: a difference in one slice is a hint, not a finding."
    )
    tested = interactions(shown.comparison, shown.comparison.slices)
    if any(item.p_value is not None for item in tested):
        lead += (
            " The last table tests for each model and attribute whether the difference to "
            f"{baseline} varies over the slices: Welch's test of equal means, adjusted by "
            f"Holm over all rows. It leaves out slices with fewer than {SMALLEST_GROUP} queries."
        )
        tables.append(_interactions_table(shown, tested))
    elif tested:
        lead += (
            " Whether the difference varies over the slices is not tested: no attribute has two slices with "
            f"at least {SMALLEST_GROUP} queries and a variance above 0."
        )
    lead += " Slices are about these trained models."
    return Section("slices", "Kinds of queries", lead, tables, ("slice",))


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
    slices = [item for item in shown.comparison.slices if item.attribute == attribute]
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
