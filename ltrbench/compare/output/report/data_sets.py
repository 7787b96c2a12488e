"""Chapter over several data sets: means side by side, and tests over data sets."""

from __future__ import annotations

from ltrbench.compare.analysis.across import Across
from ltrbench.compare.output.report.parts import Chapter, Figures, PagePart, Prose, Section
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.plots.report.ranks import critical_difference_diagram
from ltrbench.statistics import DataSetTest
from ltrbench.tables import Table, TableColumn, TableRow, numbers

_RANKS = "Tests over data sets"


def data_sets_chapter(across: Across, metric: str) -> Chapter:
    """Returns the means, and the test over data sets or the reason why there is none."""
    lead = f"Mean {metric} on test, one row per data set."
    parts: list[PagePart] = [_means(across)]
    sections = [Section("means", "Means", lead, parts)]
    if across.test is None:
        sections.append(Section("ranks", _RANKS, "", [Prose(across.reason)]))
    else:
        sections.append(_ranks(across, across.test))
    return Chapter("all-data", "All data sets", (), (), sections)


def _means(across: Across) -> Table:
    columns = [
        TableColumn("data set", left=True),
        *(TableColumn(label, numbers.quality) for label in across.labels),
    ]
    rows: list[TableRow] = [[data, *means] for data, means in zip(across.data, across.means, strict=True)]
    return Table(columns, rows, "Means by data set")


def _ranks(across: Across, test: DataSetTest) -> Section:
    lead = (
        "Each data set counts once, by the ranks of the models on it. Friedman's test: do any models differ? "
        "Nemenyi's test: which ones? Wilcoxon's signed rank test with Holm's adjustment does not depend on "
        "the other models in the table."
    )
    parts: list[PagePart] = []
    if test.note:
        parts.append(Prose(f"{test.note}."))
    if test.chi2 is not None:
        f = "infinite" if test.f is None else numbers.significant(test.f)
        parts.append(
            Prose(
                f"Friedman's χ² is {numbers.significant(test.chi2)}, p {numbers.p_value(test.chi2_p)}; Iman "
                f"and Davenport's F is {f}, p {numbers.p_value(test.f_p)}, over "
                f"{test.num_data_sets} data sets."
            )
        )
    if test.critical_difference is not None:
        drawing = critical_difference_diagram(
            across.labels, test.average_ranks, test.critical_difference, test.groups, PAGE
        )
        parts.append(Figures([inlined(drawing, "all-data-ranks", "Critical-difference diagram")]))
    return Section("ranks", _RANKS, lead, [*parts, *_tables(across, test)], ("tests over data sets",))


def _tables(across: Across, test: DataSetTest) -> list[Table]:
    ranks = list(zip(across.labels, test.average_ranks, strict=True))
    pairs: list[TableRow] = [
        [
            numbers.minus(across.labels[pair.a], across.labels[pair.b]),
            *(pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm),
        ]
        for pair in test.pairs
    ]
    p_values = [TableColumn(name, numbers.p_value) for name in ("Nemenyi", "Wilcoxon", "Wilcoxon, Holm")]
    columns = [TableColumn("model", left=True), TableColumn("average rank", ".2f")]
    return [
        Table(columns, ranks, "Average ranks", "compact"),
        Table([TableColumn("pair", left=True), *p_values], pairs, "p-values over data sets", "compact"),
    ]
