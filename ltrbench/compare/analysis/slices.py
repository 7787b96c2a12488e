"""Where a difference comes from: the rows by kinds of queries, and one test an attribute whether it varies.

A kind is a value, or a range, of an attribute of queries. Those that every data set has are in `ATTRIBUTES`,
one function each: from judgments to a value a query. Others come from a table of the user's, a row a query.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairing.overlap import clustered
from ltrbench.compare.settings import BEST
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import Convention, parse_metric
from ltrbench.statistics import Group, Interval, PairedSample, equal_means, holm
from ltrbench.statistics.intervals import difference_intervals

QUERY_ID = "query_id"
"""The column that a table of attributes names its queries by."""

_MOST_VALUES = 6  # an attribute of no more values than this has a slice a value
_MOST_TEXTS, _OTHERS = 12, "others"
_NUM_RANGES = 4  # a finer one is cut at its quartiles


def query_size(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """(Q,), documents of the query."""
    del convention
    return judgments.query_sizes.astype(np.float64)


def num_relevant(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """(Q,), documents whose label reaches the convention's threshold of relevance."""
    relevant = judgments.labels >= convention.relevance_threshold
    return np.add.reduceat(relevant.astype(np.float64), judgments.query_start[:-1].astype(np.int64))


def label_entropy(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """(Q,), H = -sum_l p_l log2 p_l in bits, p_l the share of the query's documents with label l (Shannon,
    1948): 0 where all labels are alike and no ranking is better than another."""
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

Given = Mapping[str, Mapping[str, str]]
"""Attribute -> query id -> its value, as text."""


@dataclass(frozen=True)
class InSlice:
    """A row in a slice: its mean, and its difference to the baseline; None for the baseline itself.

    Attributes:
        standard_error: of the difference; None where the slice has one query.
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
        attribute: such as query_size.
        name: the value or range, such as "9 to 40".
        num_queries: of them.
        rows: each row that is in paired tests; its mean weighs queries as the whole comparison does.
    """

    attribute: str
    name: str
    num_queries: int
    rows: tuple[InSlice, ...]


@dataclass(frozen=True)
class Interaction:
    """One test of whether a row's difference to the baseline varies over the slices of an attribute.

    Attributes:
        label: of the row.
        num_slices: number of slices in the test; the note names the others.
        p_value: of the null hypothesis that the mean difference is the same in every slice; None where there
            is no test, and the note gives the reason.
        p_adjusted: by Holm, over all interactions that were tested together.
    """

    attribute: str
    label: str
    num_slices: int
    p_value: float | None
    p_adjusted: float | None
    note: str


def read_attributes(path: Path) -> Given:
    """Reads a CSV table with the column query_id and a column an attribute.

    Raises:
        DataError: where it cannot be read, has no such column, or names a query twice.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = [name for name in reader.fieldnames or () if name != QUERY_ID]
            if QUERY_ID not in (reader.fieldnames or ()) or not names:
                raise DataError(
                    f"{path}:1: the columns are {', '.join(reader.fieldnames or ()) or 'none'}; give "
                    f"{QUERY_ID} and at least one attribute."
                )
            attributes: dict[str, dict[str, str]] = {name: {} for name in names}
            for row in reader:
                _take_attributes(attributes, row, f"{path}:{reader.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV table ({error}).") from None
    return attributes


def _take_attributes(attributes: dict[str, dict[str, str]], row: Mapping[str, Any], place: str) -> None:
    query_id = row[QUERY_ID]
    for name, values in attributes.items():
        if row[name] is None:
            raise DataError(f"{place}: the line has fewer columns than the header; fill in {name}.")
        if query_id in values:
            raise DataError(f"{place}: query '{query_id}' stands here a second time; keep one line a query.")
        values[query_id] = row[name]


def slices(comparison: Comparison, names: Sequence[str], given: Given | None = None) -> list[Slice]:
    """The rows by each attribute's kinds of queries; empty where nothing can be paired.

    Args:
        names: of attributes.
        given: those of the user's own.

    Raises:
        ConfigError: on an unknown attribute.
        DataError: where a query of test has no value of an attribute of the user's.
    """
    sliced: list[Slice] = []
    for name in names:
        if name not in ATTRIBUTES and name not in (given or {}):
            known = [*ATTRIBUTES, *(given or {})]
            raise ConfigError(
                f"queries have no attribute '{name}'{did_you_mean(name, known)} There are "
                f"{', '.join(known)}; give your own as a CSV table with --attributes FILE."
            )
        if comparison.queries is not None:
            sliced += _slices(comparison, name, _values(comparison, name, given or {}))
    return sliced


def _values(comparison: Comparison, name: str, given: Given) -> NDArray[Any]:
    """(Q,), numbers, or texts where not all are numbers."""
    queries = comparison.queries
    assert queries is not None  # the caller made sure; for the type checker
    if name not in given:
        convention = comparison.settings.convention.of(parse_metric(comparison.metric)[0])
        return queries.of_query([ATTRIBUTES[name](judgments, convention) for judgments in queries.judgments])
    ids = queries.of_query([judgments.query_ids for judgments in queries.judgments]).tolist()
    missing = [query_id for query_id in ids if query_id not in given[name]]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(ids)} test queries have no {name}, such as query '{missing[0]}'; give "
            "each query a line."
        )
    texts = [given[name][query_id] for query_id in ids]
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts)
    return numbers if np.isfinite(numbers).all() else np.array(texts)


def _slices(comparison: Comparison, attribute: str, values: NDArray[Any]) -> list[Slice]:
    if values.dtype.kind == "U":
        values = _with_others(values)
    distinct = np.unique(values)
    if len(distinct) <= _MOST_VALUES or values.dtype.kind == "U":
        names = _names(distinct)
        return [_slice(comparison, attribute, names[value], values == value) for value in distinct.tolist()]
    # Each range ends at a value that occurs, so that the names say exactly what is in it.
    ends = np.unique(np.quantile(values, np.arange(1, _NUM_RANGES + 1) / _NUM_RANGES, method="lower"))
    kind = np.searchsorted(ends, values)
    ranges = [kind == number for number in range(len(ends))]
    limits = [(float(values[inside].min()), float(values[inside].max())) for inside in ranges]
    names = _names(np.unique(limits))
    return [
        _slice(comparison, attribute, " to ".join(dict.fromkeys((names[low], names[high]))), inside)
        for inside, (low, high) in zip(ranges, limits, strict=True)
    ]


def _with_others(texts: NDArray[np.str_]) -> NDArray[np.str_]:
    """The rarer texts as one, so that a table of them can be read."""
    distinct, counts = np.unique(texts, return_counts=True)
    if len(distinct) <= _MOST_TEXTS:
        return texts
    kept = distinct[np.argsort(-counts, kind="stable")[: _MOST_TEXTS - 1]]
    return np.where(np.isin(texts, kept), texts, _OTHERS)


_DIGITS = 3
_EXACT = 17  # digits, by which any two floats differ


def _names(distinct: NDArray[Any]) -> dict[Any, str]:
    """Each of distinct values as text: whole numbers in full, others with three significant digits, or
    with as many more as tell the values apart.

    >>> _names(np.array([0.0, 0.8112781244591328, 12345.0]))
    {0.0: '0', 0.8112781244591328: '0.811', 12345.0: '12345'}
    >>> _names(np.array([0.8112, 0.8114]))
    {0.8112: '0.8112', 0.8114: '0.8114'}
    """
    values = distinct.tolist()
    for digits in range(_DIGITS, _EXACT + 1):
        names = [_name(value, digits) for value in values]
        if len(set(names)) == len(values):
            break
    return dict(zip(values, names, strict=True))


def _name(value: Any, digits: int) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value.is_integer() else f"{value:.{digits}g}"


def _slice(comparison: Comparison, attribute: str, name: str, inside: NDArray[np.bool_]) -> Slice:
    queries, settings = comparison.queries, comparison.settings
    assert queries is not None  # as above
    # The queries of all folds together: a fold may have too few of a kind to be a mean of its own.
    of_all_folds = PairedSample.of(queries.sample.values[:, inside], queries.sample.weights[inside])
    sample = clustered(of_all_folds, queries.query_keys[inside])
    base = queries.labels.index(comparison.baseline) if comparison.baseline in queries.labels else None
    intervals: list[Interval | None] = [None] * len(queries.labels)
    errors = [float("nan")] * len(queries.labels)
    if base is not None:
        to_base = [(number, base) for number in range(len(queries.labels))]
        errors = sample.differences(to_base).standard_errors.tolist()
        # The best was found by these numbers: an interval that does not know of it would be too narrow.
        if settings.baseline != BEST:
            intervals = difference_intervals(sample, to_base, settings.num_draws, settings.seed)
    means = sample.means.tolist()
    rows = [
        InSlice(label, mean, None, None)
        if base in (None, number)
        else InSlice(label, mean, mean - means[base], intervals[number], None if isnan(error) else error)
        for number, (label, mean, error) in enumerate(zip(queries.labels, means, errors, strict=True))
    ]
    return Slice(attribute, name, sample.num_queries, tuple(rows))


CHOSEN = "the baseline was chosen by the same numbers"


def interactions(comparison: Comparison, sliced: Sequence[Slice]) -> list[Interaction]:
    """Tests for each attribute and row whether the difference to the baseline is the same in every slice.

    p-values are adjusted over all that are returned: one call takes all slices of a table.
    """
    groups: dict[tuple[str, str], list[Group]] = {}
    for item in sliced:
        for row in item.rows:
            if row.difference is not None:
                group = Group(item.name, row.difference, row.standard_error, item.num_queries)
                groups.setdefault((item.attribute, row.label), []).append(group)
    if comparison.settings.baseline == BEST:
        return [Interaction(*key, 0, None, None, CHOSEN) for key in groups]
    tests = [equal_means(of_row) for of_row in groups.values()]
    adjusted = holm([test.p_value for test in tests])
    return [
        Interaction(*key, test.num_groups, test.p_value, p_adjusted, test.note)
        for key, test, p_adjusted in zip(groups, tests, adjusted, strict=True)
    ]


def interaction_sentence(baseline: str, tested: Sequence[Interaction], attribute: str) -> str:
    """One sentence on an attribute, for a table in text: which differences vary over its slices.

    Args:
        tested: all interactions of the table, the family of the adjustment; empty where there is none.
    """
    num_tests = sum(item.p_value is not None for item in tested)
    words = [f"{item.label} {_p_in_words(item)}" for item in tested if item.attribute == attribute]
    if not words:
        return ""
    adjusted = f", p adjusted by Holm over {num_tests} tests" if num_tests > 1 else ""
    return (
        f"Does the difference to {baseline} vary over the slices of {attribute}? Welch's test{adjusted}: "
        f"{', '.join(words)}. Slices are a description, not a claim."
    )


def _p_in_words(item: Interaction) -> str:
    if item.p_adjusted is None:
        return f"not tested ({item.note})"
    value = "p < 0.0001" if item.p_adjusted < 0.0001 else f"p = {item.p_adjusted:.4f}"
    return f"{value} ({item.note})" if item.note else value
