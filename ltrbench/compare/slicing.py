"""Slices of a comparison, and comparisons over several data sets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import first_by, runs_by_label
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import (
    Given,
    InSlice,
    Slice,
    kinds_of_values,
    values_of_attribute,
)
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import (
    ModelRow,
    PairedQueries,
    clustered,
)
from ltrbench.data.dataset import QueryKeys
from ltrbench.metrics import parse_metric
from ltrbench.statistics import Interval, PairedSample, simultaneous_intervals
from ltrbench.statistics.claims import (
    FEWEST_DATA_SETS,
    DataSetTest,
    friedman,
    holm,
    welch_anova,
)


@dataclass(frozen=True)
class Interaction:
    """One test whether the difference of a row to the baseline varies over the slices of an attribute.

    Attributes:
        label: Label of the row.
        num_slices: Number of slices in the test; the note names the others.
        p_value: p-value of the null hypothesis that the mean difference is the same in every slice; None if
            there is no test, with the reason in the note.
        p_adjusted: p-value adjusted by Holm over all interactions that are tested together.
    """

    attribute: str
    label: str
    num_slices: int
    p_value: float | None
    p_adjusted: float | None
    note: str


def slices(
    comparison: Comparison, names: Sequence[str], given: Given | None = None
) -> list[Slice]:
    """Returns the slices by each attribute; empty if nothing can be paired.

    Args:
        names: Names of attributes.
        given: Attributes of the user.

    Raises:
        ConfigError: An attribute is unknown.
        DataError: A test query has no value of an attribute of the user.
    """
    queries = comparison.queries
    sliced = list[Slice]()
    if queries is None:
        return sliced
    convention = comparison.settings.convention.of(parse_metric(comparison.metric)[0])
    for name in dict.fromkeys(names):
        values = values_of_attribute(queries, name, convention, given or {})
        for kind, inside in kinds_of_values(values):
            sliced.append(_slice(comparison, queries, name, kind, inside))
    return sliced


def _slice(
    comparison: Comparison,
    queries: PairedQueries,
    attribute: str,
    name: str,
    inside: NDArray[np.bool_],
) -> Slice:
    # All folds together, because a fold may have too few queries of a kind.
    whole = queries.sample
    of_all_folds = PairedSample.of(
        whole.values[:, inside],
        whole.weights[inside],
        are_clusters=whole.are_clusters,
    )
    sample = clustered(of_all_folds, queries.query_keys[inside])
    means = sample.means.tolist()
    rows = []
    for label, mean in zip(queries.labels, means, strict=True):
        rows.append(InSlice(label, mean, None, None))
    if comparison.baseline in queries.labels:
        base = queries.labels.index(comparison.baseline)
        to_base = [(number, base) for number in range(len(rows))]
        errors = sample.differences(to_base).standard_errors.tolist()
        intervals = _intervals_in_slice(sample, base, comparison.settings)
        for number, label in enumerate(queries.labels):
            pair = comparison.claim(label)
            if pair is None or pair.is_order_only:
                continue
            error = errors[number]
            mean = means[number]
            rows[number] = InSlice(
                label,
                mean,
                mean - means[base],
                None if pair.withheld else intervals[number],
                None if isnan(error) else error,
            )
    return Slice(attribute, name, sample.num_queries, tuple(rows))


def _intervals_in_slice(
    sample: PairedSample, base: int, settings: Settings
) -> list[Interval | None]:
    """Returns the simultaneous interval of each row minus the baseline, about these trained models.

    A baseline that was chosen by the same numbers needs intervals that hold for all pairs.
    """
    rows = range(len(sample.values))
    pairs = [(row, base) for row in rows if row != base]
    if not settings.names_baseline:
        others = [row for row in rows if row != base]
        pairs += list(itertools.combinations(others, 2))
    intervals = simultaneous_intervals(
        sample, pairs, settings.num_draws, settings.seed, settings.level
    )
    of_pair = dict(zip(pairs, intervals, strict=True))
    return [of_pair.get((row, base)) for row in rows]


SMALLEST_GROUP = 20
"""Minimum number of queries of a slice in the test. The variance estimates of smaller groups are often far
too small, and the test then rejects too often."""


_OfSlice = tuple[Slice, InSlice]


def interactions(comparison: Comparison, sliced: Sequence[Slice]) -> list[Interaction]:
    """Tests for each attribute and row whether the difference to the baseline is the same in every slice.

    p-values are adjusted over all returned tests, so that one call must get all slices of a table.
    """
    groups: dict[tuple[str, str], list[_OfSlice]] = {}
    for item in sliced:
        for row in item.rows:
            if row.difference is not None:
                group = (item.attribute, row.label)
                groups.setdefault(group, []).append((item, row))
    tests = [_equal_means(of_row) for of_row in groups.values()]
    adjusted = holm([p_value for _, p_value, _ in tests])
    tested = []
    for key, test, p_adjusted in zip(groups, tests, adjusted, strict=True):
        number, p_value, note = test
        tested.append(Interaction(*key, number, p_value, p_adjusted, note))
    return tested


def _equal_means(
    of_row: Sequence[tuple[Slice, InSlice]],
) -> tuple[int, float | None, str]:
    """Returns the number of slices in Welch's test, its p-value, and a note on the slices left out."""
    tested = []
    left_out = []
    for item, row in of_row:
        reason = _why_left_out(item, row)
        if reason:
            left_out.append(f"{item.name} ({reason})")
        else:
            tested.append((row.difference, row.standard_error, item.num_queries))
    notes = []
    if len(tested) < 2:
        notes.append("fewer than two groups to test")
    if left_out:
        notes.append(f"left out: {', '.join(left_out)}")
    p_value = None
    if len(tested) >= 2:
        p_value = welch_anova(*np.array(tested, dtype=np.float64).T)
    return len(tested), p_value, "; ".join(notes)


def _why_left_out(item: Slice, row: InSlice) -> str:
    """Returns the reason why a slice is not tested; empty if it is."""
    if item.num_queries < SMALLEST_GROUP:
        if item.num_queries == 1:
            return "1 query"
        return f"{item.num_queries} queries"
    if row.standard_error is None:
        return "standard error not available"
    return "" if row.standard_error > 0 else "no variance"


# ---- Tests over several data sets, at least five; folds of one data set do not count.


@dataclass(frozen=True)
class Across:
    """Means of the models on each data set.

    Attributes:
        data: (N,), names of the data sets.
        labels: (M,), labels of the models that are paired on every data set.
        left_out: Labels of the models that a data set lacks, or has without all of its test sets.
        means: (N, M).
        test: Friedman's test with Nemenyi's, and Wilcoxon's with Holm's; None if there is no test.
        reason: Why there is no test; empty if there is one.
        differing: Label -> data set -> label with the settings on it; of the models whose settings differ
            between the data sets.
    """

    data: tuple[str, ...]
    labels: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    test: DataSetTest | None
    reason: str
    left_out: tuple[str, ...]
    differing: Mapping[str, Mapping[str, str]]


def across(comparisons: Sequence[Comparison]) -> Across | None:
    """Compares the models over data sets; None with a single data set.

    A row counts only if it is paired on every data set: the mean of a row that lacks folds is over other
    queries than those of the others.
    """
    if len(comparisons) < 2:
        return None
    names = _labels_over_data_sets(comparisons)
    rows_of_label = _matched(comparisons, names)
    labels = tuple(rows_of_label)
    metric = comparisons[0].metric
    of_labels = [
        [row.metrics[metric] for row in rows] for rows in rows_of_label.values()
    ]
    shape = len(labels), len(comparisons)
    means = np.array(of_labels, dtype=np.float64).reshape(shape).T
    data = tuple(comparison.data for comparison in comparisons)
    differing = {}
    for label, rows in rows_of_label.items():
        of_data = [names[row] for row in rows]
        if len(set(of_data)) > 1:
            differing[label] = dict(zip(data, of_data, strict=True))
    matched = set(itertools.chain.from_iterable(rows_of_label.values()))
    reason = _reason(comparisons, len(labels))
    return Across(
        data=data,
        labels=labels,
        means=tuple(map(tuple, means.tolist())),
        test=None if reason else friedman(means),
        reason=reason,
        left_out=tuple(
            dict.fromkeys(name for row, name in names.items() if row not in matched)
        ),
        differing=differing,
    )


def _labels_over_data_sets(comparisons: Sequence[Comparison]) -> dict[ModelRow, str]:
    """Returns row -> its label among the rows of all data sets: rows with equal settings have equal ones."""
    rows = list(itertools.chain.from_iterable(item.rows for item in comparisons))
    runs = list(itertools.chain.from_iterable(row.runs for row in rows))
    label_of_run: dict[int, str] = {}
    for label, of_label in runs_by_label(runs).items():
        label_of_run |= {id(run): label for run in of_label}
    return {row: label_of_run[id(row.runs[0])] for row in rows}


def _matched(
    comparisons: Sequence[Comparison], names: Mapping[ModelRow, str]
) -> dict[str, list[ModelRow]]:
    """Returns label -> its row on each data set, for the rows that every data set has.

    Rows are matched by their settings, and those that are left by their labels: a model may have other
    settings on each data set.

    Args:
        names: Row -> its label among the rows of all data sets.
    """
    remaining = list(map(_paired_with_mean, comparisons))
    matched: dict[str, list[ModelRow]] = {}
    for label_of in (names.__getitem__, attrgetter("label")):
        of_data_sets = [first_by(rows, label_of) for rows in remaining]
        for label in of_data_sets[0]:
            if all(label in rows for rows in of_data_sets):
                matched[label] = [rows[label] for rows in of_data_sets]
        done = set(itertools.chain.from_iterable(matched.values()))
        remaining = [_without(rows, done) for rows in remaining]
    label_of_first = {rows[0]: label for label, rows in matched.items()}
    labels = [label_of_first.get(row) for row in comparisons[0].table.paired]
    return {label: matched[label] for label in labels if label is not None}


def _without(rows: Sequence[ModelRow], done: set[ModelRow]) -> list[ModelRow]:
    return [row for row in rows if row not in done]


def _paired_with_mean(comparison: Comparison) -> list[ModelRow]:
    """Returns the paired rows with a mean of the metric."""
    paired = comparison.table.paired
    return [row for row in paired if row.metrics[comparison.metric] is not None]


def _shared_queries(comparisons: Sequence[Comparison]) -> str:
    """Returns a sentence on data sets that share test queries; empty if there are none."""
    keys_of_data = {item.data: _query_keys(item) for item in comparisons}
    for a, b in itertools.combinations(keys_of_data, 2):
        count = len(np.intersect1d(keys_of_data[a], keys_of_data[b]))
        if count:
            return (
                f"{a} and {b} share {count:,} test queries. Data sets with common test queries are not "
                "independent: keep one of them."
            )
    return ""


def _query_keys(comparison: Comparison) -> QueryKeys:
    """Returns the keys of the test queries of all runs."""
    evaluated = itertools.chain.from_iterable(row.evaluated for row in comparison.rows)
    return np.concatenate([item.query_keys for item in evaluated])


def _reason(comparisons: Sequence[Comparison], num_models: int) -> str:
    first_runs = [comparison.rows[0].runs[0] for comparison in comparisons]
    names = [str(run.result.data["name"]) for run in first_runs]
    if len(set(names)) < len(names):
        return "Several tables are on one data set under different settings: read the tables one by one."
    if shared := _shared_queries(comparisons):
        return shared
    if num_models < 2:
        return "There is no test: fewer than two models have all test sets of all data sets."
    if len(names) < FEWEST_DATA_SETS:
        return (
            f"There are {len(names)} data sets; Friedman's test needs {FEWEST_DATA_SETS}. Read the table of "
            "each data set; folds are not data sets."
        )
    return ""
