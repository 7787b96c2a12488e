"""Over several data sets: the means side by side, and whether the models differ in general."""

from __future__ import annotations

from ltrbench.compare.analysis.across import Across
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import (
    Chapter,
    Column,
    Figures,
    Part,
    Prose,
    Section,
    Table,
    named,
)
from ltrbench.compare.output.report.shown import measured
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.plots.report.ranks import critical_difference_diagram
from ltrbench.statistics import DataSetTest


def chapter(found: Across, metric: str) -> Chapter:
    lead = f"Mean {metric} on test, a row a data set; the highest of each stands out."
    parts: list[Part] = [_means(found)]
    sections = [Section("means", "Means", lead, parts)]
    if found.test is None:
        sections.append(Section("ranks", "Over data sets", "", [Prose(found.reason)]))
    else:
        sections.append(_ranks(found, found.test))
    return Chapter("all-data", "All data sets", "", (), sections)


def _means(found: Across) -> Table:
    columns = [Column("data set", numeric=False), *map(Column, found.labels)]
    rows = [
        [
            named(data),
            *(measured(mean, numbers.quality(mean)) for mean in own),
        ]
        for data, own in zip(found.data, found.means, strict=True)
    ]
    return Table("Means by data set", columns, rows)


def _ranks(found: Across, test: DataSetTest) -> Section:
    lead = (
        "Data sets count once each, by the ranks of the models on them: Friedman's test whether any differ, "
        "Nemenyi's which; Wilcoxon's signed rank test with Holm's adjustment beside it, which does not "
        "depend on the other models of the table."
    )
    parts: list[Part] = []
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
            found.labels, test.average_ranks, test.critical_difference, test.groups, PAGE
        )
        parts.append(Figures([inlined(drawing, "all-data-ranks", "Critical-difference diagram")]))
    return Section("ranks", "Over data sets", lead, [*parts, *_tables(found, test)])


def _tables(found: Across, test: DataSetTest) -> list[Table]:
    ranks = [
        [named(label), measured(rank, f"{rank:.2f}")]
        for label, rank in zip(found.labels, test.average_ranks, strict=True)
    ]
    pairs = [
        [
            named(numbers.minus(found.labels[pair.a], found.labels[pair.b])),
            *(measured(p, numbers.p_value(p)) for p in (pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm)),
        ]
        for pair in test.pairs
    ]
    columns = [Column("pair", numeric=False), *map(Column, ("Nemenyi", "Wilcoxon", "Wilcoxon, Holm"))]
    return [
        Table("Average ranks", [Column("model", numeric=False), Column("average rank")], ranks, "compact"),
        Table("p-values over data sets", columns, pairs, "compact"),
    ]
