"""Tests over several data sets, at least five; folds of one data set do not count."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairing.cells import first_of_cells
from ltrbench.compare.pairing.overlap import sharing
from ltrbench.statistics import DataSetTest, friedman
from ltrbench.statistics.datasets import FEWEST_DATA_SETS
from ltrbench.tables import Table

_SHOWN = 3
"""Number of pairs of data sets that a message names."""


@dataclass(frozen=True)
class Across:
    """Means of the models on each data set.

    Attributes:
        data: (N,), names of the data sets.
        labels: (M,), labels of the models that every data set has.
        means: (N, M).
        test: Friedman's test with Nemenyi's, and Wilcoxon's with Holm's; None if there is no test.
        reason: Why there is no test; empty if there is one.
    """

    data: tuple[str, ...]
    labels: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    test: DataSetTest | None
    reason: str


def across(comparisons: Sequence[Comparison]) -> Across | None:
    """Compares the models over data sets; None with a single data set.

    Rows are matched by their labels. Rows that are missing on a data set are left out.
    """
    if len(comparisons) < 2:
        return None
    known = [
        {row.label: row.metrics[comparison.metric] for row in comparison.rows} for comparison in comparisons
    ]
    labels = [label for label in known[0] if all(of_data.get(label) is not None for of_data in known)]
    means = np.array([[of_data[label] for label in labels] for of_data in known], dtype=np.float64)
    reason = _reason(comparisons, len(labels))
    return Across(
        data=tuple(comparison.data for comparison in comparisons),
        labels=tuple(labels),
        means=tuple(map(tuple, means.tolist())),
        test=None if reason else friedman(means),
        reason=reason,
    )


def across_in_words(comparison: Across | None) -> str:
    """Returns the test over data sets with a table of average ranks, or why there is none.

    Empty with a single data set.
    """
    if comparison is None:
        return ""
    test = comparison.test
    if test is None:
        return f"Over data sets: {comparison.reason}"
    header = ["model", f"average rank over {test.num_data_sets} data sets"]
    table = Table.of(header, zip(comparison.labels, test.average_ranks, strict=True), ".2f").markdown()
    if test.chi2_p is None or test.critical_difference is None:
        return f"Over data sets: {test.note}.\n\n{table}"
    return (
        f"Over data sets (methods on data sets like these, each counted once): Friedman's chi2 is "
        f"{test.chi2:.2f}, p {test.chi2_p:.4f}. Two models differ by Nemenyi's test at 5 % if their average "
        f"ranks differ by more than {test.critical_difference:.2f}.\n\n{table}"
    )


def _shared_queries(comparisons: Sequence[Comparison]) -> str:
    """Returns a sentence on data sets that share test queries; empty if there are none."""
    of_data = [
        first_of_cells(item for row in comparison.rows for item in row.evaluated).values()
        for comparison in comparisons
    ]
    queries = [np.concatenate([item.query_keys for item in cells]) for cells in of_data]
    counts = sharing(queries, queries)
    pairs = [
        f"{comparisons[a].data} and {comparisons[b].data} share {counts[a, b]:,} test queries"
        for a, b in itertools.combinations(range(len(comparisons)), 2)
        if counts[a, b]
    ]
    if not pairs:
        return ""
    more = f"; and {len(pairs) - _SHOWN} more pairs" if len(pairs) > _SHOWN else ""
    return (
        f"{'; '.join(pairs[:_SHOWN])}{more}. Data sets with common test queries are not independent: "
        "keep one of them."
    )


def _reason(comparisons: Sequence[Comparison], num_models: int) -> str:
    names = [str(comparison.rows[0].runs[0].result.data["name"]) for comparison in comparisons]
    num_data_sets = len(set(names))
    if num_data_sets < len(names):
        return (
            "Several tables are on one data set under different settings and are not independent data sets. "
            "Read the tables one by one."
        )
    shared = _shared_queries(comparisons)
    if shared:
        return shared
    if num_models < 2:
        return "There is no test: fewer than two models were run on all data sets."
    if num_data_sets < FEWEST_DATA_SETS:
        return (
            f"There are {num_data_sets} data sets; Friedman's test needs {FEWEST_DATA_SETS}, because it has "
            "almost no power with fewer. Read the table of each data set; folds are not data sets."
        )
    return ""
