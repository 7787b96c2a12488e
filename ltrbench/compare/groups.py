"""Slices of queries, several data sets, and comparisons of a model with itself.

Slices: means and differences by kinds of queries, and one test per attribute whether differences vary.

A slice has one value, or one range of values, of an attribute of queries. `ATTRIBUTES` has the attributes of
every data set, one function each, from judgments to one value per query. Kept columns and categorical
features are attributes, too. Other attributes come from a table of the user with one row per query.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import (
    BEST,
    EvaluatedRow,
    PairedQueries,
    Settings,
    cell_of,
    clustered,
    evaluate_rows,
    group_runs,
    newest_runs,
    pair_queries,
)
from ltrbench.compare.derived import default_metric
from ltrbench.errors import ConfigError, DataError, ResultError, did_you_mean, require_choice
from ltrbench.metrics import Convention, parse_metric
from ltrbench.runs.record import Run
from ltrbench.statistics import Interval, PairedSample
from ltrbench.statistics.claims import FEWEST_DATA_SETS, DataSetTest, friedman, holm, welch_anova
from ltrbench.statistics.paired import system_intervals, unknown_spread
from ltrbench.statistics.repeated import FEWEST_TO_HALVE, SelfComparison, against_itself

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison
    from ltrbench.data import Judgments

QUERY_ID = "query_id"
"""Column with the query id in a table of attributes."""

_MOST_VALUES = 6  # attributes with at most this number of values have one slice per value
_MOST_TEXTS, _OTHERS = 12, "others"
_NUM_RANGES = 4  # attributes with more values are split at the quartiles


def query_size(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the number of documents of each query, (Q,)."""
    del convention
    return judgments.query_sizes.astype(np.float64)


def num_relevant(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the number of documents with a label at or above the relevance threshold, (Q,)."""
    relevant = judgments.labels >= convention.relevance_threshold
    return np.add.reduceat(relevant.astype(np.float64), judgments.query_start[:-1].astype(np.int64))


def label_entropy(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the entropy of the labels of each query in bits, (Q,).

    H = -sum_l p_l log2 p_l, with p_l the share of the documents with label l (Shannon, 1948). It is 0 if all
    labels are equal, so that every ranking is equally good.
    """
    del convention
    starts, sizes = judgments.query_start[:-1].astype(np.int64), judgments.query_sizes
    entropy = np.zeros(judgments.num_queries)
    for label in np.unique(judgments.labels):
        share = np.add.reduceat((judgments.labels == label).astype(np.float64), starts) / sizes
        entropy -= share * np.log2(share, where=share > 0, out=np.zeros_like(share))
    return entropy


ATTRIBUTES: dict[str, Callable[[Judgments, Convention], NDArray[np.float64]]] = {
    "query_size": query_size,
    "num_relevant": num_relevant,
    "label_entropy": label_entropy,
}


def column_of_queries(judgments: Judgments, name: str) -> NDArray[Any]:
    """Returns one value of a column for each query, (Q,).

    Numbers are means over the documents that have one. Texts, and numbers that a query lacks, are the most
    frequent value of these documents, of several the first; "missing" if no document has one.
    """
    values, starts = judgments.column(name), judgments.query_start[:-1]
    if values.dtype.kind == "f":
        known = ~np.isnan(values)
        counts = np.add.reduceat(known.astype(np.float64), starts)
        if counts.all():
            return np.asarray(np.add.reduceat(np.where(known, values, 0), starts) / counts)
        values = np.where(known, values.astype(str), "")
    split = np.split(values, starts[1:])
    return np.array([mode([*filter(None, of_query.tolist())] or ["missing"]) for of_query in split])


Given = Mapping[str, Mapping[str, str]]
"""Attribute -> query id -> value as text."""


@dataclass(frozen=True)
class InSlice:
    """A row in a slice: its mean, and its difference to the baseline; None for the baseline.

    Attributes:
        standard_error: Standard error of the difference; None if the slice has one query.
    """

    label: str
    mean: float
    difference: float | None
    interval: Interval | None
    standard_error: float | None = None


@dataclass(frozen=True)
class Slice:
    """The queries of one kind.

    Attributes:
        attribute: Name of the attribute, such as query_size.
        name: Value or range, such as "9 to 40".
        num_queries: Number of queries.
        rows: The paired rows; means use the weights of the comparison.
    """

    attribute: str
    name: str
    num_queries: int
    rows: tuple[InSlice, ...]


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


def read_attributes(path: Path) -> Given:
    """Reads a CSV table with the column query_id and one column per attribute.

    Raises:
        DataError: The file cannot be read, lacks the column, or has a query twice.
    """
    import pandas as pd  # half a second to import

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False).fillna("")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a CSV table ({error}).") from None
    names = [name for name in table.columns if name != QUERY_ID]
    if QUERY_ID not in table.columns or not names:
        raise DataError(
            f"{path}:1: the columns are {', '.join(table.columns)}; give {QUERY_ID} and at least one "
            "attribute."
        )
    ids = table[QUERY_ID].tolist()
    repeated = table[QUERY_ID].duplicated().to_numpy()
    if repeated.any():
        row = int(repeated.argmax())
        raise DataError(f"{path}:{row + 2}: query '{ids[row]}' is repeated; keep one line per query.")
    return {name: dict(zip(ids, table[name], strict=True)) for name in names}


def slices(comparison: Comparison, names: Sequence[str], given: Given | None = None) -> list[Slice]:
    """Returns the slices by each attribute; empty if nothing can be paired.

    Args:
        names: Names of attributes.
        given: Attributes of the user.

    Raises:
        ConfigError: An attribute is unknown.
        DataError: A test query has no value of an attribute of the user.
    """
    queries, sliced = comparison.queries, list[Slice]()
    if queries is None:
        return sliced
    convention = comparison.settings.convention.of(parse_metric(comparison.metric)[0])
    for name in names:
        kinds = _kinds(_values(queries, name, convention, given or {}))
        sliced += [_slice(comparison, queries, name, kind, inside) for kind, inside in kinds]
    return sliced


TRAFFIC = ("head", "torso", "tail")
"""The queries with the first, the second and the last third of the sum of weights, by descending weight."""


def group_of_queries(queries: PairedQueries, group: str, convention: Convention) -> NDArray[np.bool_]:
    """Returns which queries are in a group, (Q,), at least one.

    Args:
        group: "head", "torso" or "tail", or attribute=value, with the values that `--slice` shows.

    Raises:
        ConfigError: There is no such group.
    """
    name, equals, value = group.partition("=")
    if equals:
        kinds = dict(_kinds(_values(queries, name, convention, {})))
        require_choice(f"the group of queries by {name}", value, kinds)
        return kinds[value]
    known = [(item.query_weights, item.num_queries) for item in queries.judgments]
    weights = queries.of_query([np.ones(count) if each is None else each for each, count in known])
    _, place = np.unique(-weights, return_inverse=True)
    shares = np.bincount(place, weights) / weights.sum()
    # Queries of equal weight are in one part, that of the middle of their shares.
    parts = np.array(TRAFFIC)[(3 * (shares.cumsum() - shares / 2)).astype(np.int64)[place]]
    if group not in parts:
        raise ConfigError(
            f"no query is in the group '{group}'{did_you_mean(group, {*TRAFFIC} - {group})} Name "
            "ATTRIBUTE=VALUE, or head, torso or tail of queries with different weights (column `weight`)."
        )
    return np.asarray(parts == group)


def _values(queries: PairedQueries, name: str, convention: Convention, given: Given) -> NDArray[Any]:
    """Returns the values of an attribute, (Q,): numbers, or texts if not all are numbers."""
    known = [*ATTRIBUTES, *given, *queries.judgments[0].columns]
    if name not in known:
        raise ConfigError(
            f"queries have no attribute '{name}'{did_you_mean(name, known)} Known attributes: "
            f"{', '.join(known)}; add others as a CSV table with --attributes FILE, or train with the "
            f"column of a table in data.keep."
        )
    if name in ATTRIBUTES and name not in given:
        return queries.of_query([ATTRIBUTES[name](judgments, convention) for judgments in queries.judgments])
    if name not in given:
        return queries.of_query([column_of_queries(judgments, name) for judgments in queries.judgments])
    ids = queries.of_query([judgments.query_ids for judgments in queries.judgments]).tolist()
    missing = [query_id for query_id in ids if query_id not in given[name]]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(ids)} test queries have no {name}, such as query '{missing[0]}'; add "
            "one line for each query."
        )
    texts = [given[name][query_id] for query_id in ids]
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts)
    return numbers if np.isfinite(numbers).all() else np.array(texts)


def _kinds(values: NDArray[Any]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Returns name and queries of each slice: one value, or one range of values of numbers."""
    is_text = values.dtype.kind == "U"
    if is_text:
        values = _with_others(values)
    ends = np.unique(values)
    if not is_text and len(ends) > _MOST_VALUES:
        # Each range ends at a value that occurs, so that its name is exact.
        ends = np.unique(np.quantile(values, np.arange(1, _NUM_RANGES + 1) / _NUM_RANGES, method="lower"))
    kind = np.searchsorted(ends, values)
    limits = np.array([np.sort(values[kind == number])[[0, -1]] for number in range(len(ends))])
    names = _names(np.unique(limits))
    return [
        (" to ".join(dict.fromkeys((names[low], names[high]))), kind == number)
        for number, (low, high) in enumerate(limits.tolist())
    ]


def _with_others(texts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Returns the texts with the rarest ones replaced by "others"."""
    distinct, counts = np.unique(texts, return_counts=True)
    if len(distinct) <= _MOST_TEXTS:
        return texts
    kept = distinct[np.argsort(-counts, kind="stable")[: _MOST_TEXTS - 1]]
    return np.where(np.isin(texts, kept), texts, _OTHERS)


def _names(distinct: NDArray[Any]) -> dict[Any, str]:
    """Returns value -> text: integers in full, others with at least three significant digits and as many as
    distinguish the values.

    >>> _names(np.array([0.0, 0.8112781244591328, 12345.0]))
    {0.0: '0', 0.8112781244591328: '0.811', 12345.0: '12345'}
    >>> _names(np.array([0.8112, 0.8114]))
    {0.8112: '0.8112', 0.8114: '0.8114'}
    """
    values = distinct.tolist()
    for digits in range(3, 18):  # 17 digits distinguish any two floats
        names = [_name(value, digits) for value in values]
        if len(set(names)) == len(values):
            break
    return dict(zip(values, names, strict=True))


def _name(value: Any, digits: int) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value.is_integer() else f"{value:.{digits}g}"


def _slice(
    comparison: Comparison, queries: PairedQueries, attribute: str, name: str, inside: NDArray[np.bool_]
) -> Slice:
    # All folds together, because a fold may have too few queries of a kind.
    of_all_folds = PairedSample.of(queries.sample.values[:, inside], queries.sample.weights[inside])
    sample = clustered(of_all_folds, queries.query_keys[inside])
    base = queries.labels.index(comparison.baseline) if comparison.baseline in queries.labels else None
    intervals: list[Interval | None] = [None] * len(queries.labels)
    errors = [float("nan")] * len(queries.labels)
    if base is not None:
        to_base = [(number, base) for number in range(len(queries.labels))]
        errors = sample.differences(to_base).standard_errors.tolist()
        # The best row was chosen by these numbers, so that an unadjusted interval would be too narrow.
        if comparison.settings.baseline != BEST:
            intervals = system_intervals(sample.differences(to_base))
    means = sample.means.tolist()
    rows = [
        InSlice(label, mean, None, None)
        if base in (None, number)
        else InSlice(label, mean, mean - means[base], intervals[number], None if isnan(error) else error)
        for number, (label, mean, error) in enumerate(zip(queries.labels, means, errors, strict=True))
    ]
    return Slice(attribute, name, sample.num_queries, tuple(rows))


CHOSEN = "the baseline was chosen by the same numbers"
SMALLEST_GROUP = 20
"""Minimum number of queries of a slice in the test. The variance estimates of smaller groups are often far
too small, and the test then rejects too often."""


def interactions(comparison: Comparison, sliced: Sequence[Slice]) -> list[Interaction]:
    """Tests for each attribute and row whether the difference to the baseline is the same in every slice.

    p-values are adjusted over all returned tests, so that one call must get all slices of a table.
    """
    groups: dict[tuple[str, str], list[tuple[Slice, InSlice]]] = {}
    for item in sliced:
        for row in item.rows:
            if row.difference is not None:
                groups.setdefault((item.attribute, row.label), []).append((item, row))
    if comparison.settings.baseline == BEST:
        return [Interaction(*key, 0, None, None, CHOSEN) for key in groups]
    tests = [_equal_means(of_row) for of_row in groups.values()]
    adjusted = holm([p_value for _, p_value, _ in tests])
    return [
        Interaction(*key, number, p_value, p_adjusted, note)
        for key, (number, p_value, note), p_adjusted in zip(groups, tests, adjusted, strict=True)
    ]


def _equal_means(of_row: Sequence[tuple[Slice, InSlice]]) -> tuple[int, float | None, str]:
    """Returns the number of slices in Welch's test, its p-value, and a note on the slices left out."""
    reasons = {item.name: _why_left_out(item, row) for item, row in of_row}
    tested = [
        (row.difference, row.standard_error, item.num_queries)
        for item, row in of_row
        if not reasons[item.name]
    ]
    left_out = ", ".join(f"{name} ({reason})" for name, reason in reasons.items() if reason)
    note = f"left out: {left_out}" if left_out else ""
    if len(tested) < 2:
        return len(tested), None, "; ".join(filter(None, ["fewer than two groups to test", note]))
    return len(tested), welch_anova(*np.array(tested, dtype=np.float64).T), note


def _why_left_out(item: Slice, row: InSlice) -> str:
    """Returns the reason why a slice is not tested; empty if it is."""
    if item.num_queries < SMALLEST_GROUP:
        return "1 query" if item.num_queries == 1 else f"{item.num_queries} queries"
    if row.standard_error is None:
        return "standard error not available"
    return "" if row.standard_error > 0 else "no variance"


# ---- Tests over several data sets, at least five; folds of one data set do not count.


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


def _shared_queries(comparisons: Sequence[Comparison]) -> str:
    """Returns a sentence on data sets that share test queries; empty if there are none."""
    keys_of_data = {
        comparison.data: np.concatenate(
            [item.query_keys for row in comparison.rows for item in row.evaluated]
        )
        for comparison in comparisons
    }
    for (a, keys_of_a), (b, keys_of_b) in itertools.combinations(keys_of_data.items(), 2):
        count = len(np.intersect1d(keys_of_a, keys_of_b))
        if count:
            return (
                f"{a} and {b} share {count:,} test queries. Data sets with common test queries are not "
                "independent: keep one of them."
            )
    return ""


def _reason(comparisons: Sequence[Comparison], num_models: int) -> str:
    names = [str(comparison.rows[0].runs[0].result.data["name"]) for comparison in comparisons]
    if len(set(names)) < len(names):
        return "Several tables are on one data set under different settings: read the tables one by one."
    if shared := _shared_queries(comparisons):
        return shared
    if num_models < 2:
        return "There is no test: fewer than two models were run on all data sets."
    if len(names) < FEWEST_DATA_SETS:
        return (
            f"There are {len(names)} data sets; Friedman's test needs {FEWEST_DATA_SETS}. Read the table of "
            "each data set; folds are not data sets."
        )
    return ""


# ---- Models against themselves: the replicates of each row in two halves, compared like two models.
#
# `ltrbench.statistics.repeated` has the computation and the limits of its result.

READING = (
    "Each model is compared with itself: its replicates are split into two halves, which are compared like "
    "two models. About 5 % of the intervals should exclude 0, and fewer over folds. Intervals over queries "
    "alone ignore the variation of training: they show how often two trainings of one method look like "
    "different methods. The halvings are not independent: a share describes these trainings."
)
OF_RESAMPLES = (
    "The halves are resamples of one training set, whose effect cancels: their claims are about trainings on "
    "its resamples."
)


@dataclass(frozen=True)
class AgainstItself:
    """One row against itself.

    Attributes:
        data: Name of the data set.
        kind: Kind of replicates, "seeds" or "resamples".
        num_folds: Number of folds; 1 without cross-validation.
        num_replicates: Number of replicates in every fold.
        halved: Result over the halvings; None if there is a reason against it.
        reason: Why there is no result; empty if there is one.
    """

    data: str
    label: str
    metric: str
    kind: str
    num_folds: int
    num_replicates: int
    halved: SelfComparison | None
    reason: str = ""


def each_against_itself(runs: Sequence[Run], settings: Settings) -> list[AgainstItself]:
    """Returns each row of all data sets against itself, in the primary metric.

    Raises:
        ResultError: No run is finished.
    """
    finished, _ = newest_runs([run for run in runs if run.result.is_compared])
    if not finished:
        raise ResultError("there is no finished run with replicates to split into halves.")
    metric = settings.claimed_metrics[0] or default_metric(finished)
    return [
        row_against_itself(table.name, row, metric, settings)
        for table in group_runs(finished)
        for row in evaluate_rows(table.rows, [metric], [], settings.convention, cell_of)
    ]


def row_against_itself(data: str, row: EvaluatedRow, metric: str, settings: Settings) -> AgainstItself:
    """Returns one row of a data set against itself."""
    queries = pair_queries([row], metric)
    if queries is None:
        return AgainstItself(data, row.label, metric, "seeds", 1, 0, None, "no query counts")
    trainings = queries.trainings[0]
    keys = sorted(set(trainings[0].keys).intersection(*(fold.keys for fold in trainings)))
    kind = "resamples" if any(fold.resample is not None for fold in trainings) else "seeds"
    if len(keys) < FEWEST_TO_HALVE:
        are_constant = any(fold.is_constant for fold in trainings)
        more = " (seeds change nothing)" if are_constant else ", or with more seeds"
        reason = (
            f"{len(keys)} replicate{'s' * (len(keys) != 1)}; at least {FEWEST_TO_HALVE} are needed. Train "
            f"with replicates={FEWEST_TO_HALVE}{more}"
        )
    elif len(queries.cells) > 1 and not queries.are_folds:
        reason = f"{len(queries.cells)} test sets that are not folds of a cross-validation"
    elif queries.distinct is not queries.sample and len(queries.cells) > 1:
        reason = "repeats of a cross-validation; name the runs of one data.split_seed"
    else:
        reason = unknown_spread(queries.sample)
    halved = None if reason else _halved(queries, keys, metric, settings)
    return AgainstItself(data, row.label, metric, kind, len(queries.cells), len(keys), halved, reason)


def _halved(queries: PairedQueries, keys: Sequence[int], metric: str, settings: Settings) -> SelfComparison:
    trainings = queries.trainings[0]
    sample = queries.sample
    if len(queries.cells) == 1:
        sample, trainings = queries.distinct, (queries.distinct_trainings(0),)
    return against_itself(
        np.concatenate([fold.values_of(keys) for fold in trainings], axis=1),
        sample,
        test_share=queries.test_share,
        rope=settings.rope_of(metric),
        seed=settings.seed,
    )
