"""Slices: means and differences by kinds of queries, and one test per attribute whether differences vary.

A slice has one value, or one range of values, of an attribute of queries. `ATTRIBUTES` has the attributes of
every data set, one function each, from judgments to one value per query. Other attributes come from a table
of the user with one row per query.
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
            raise DataError(f"{place}: query '{query_id}' is repeated; keep one line per query.")
        values[query_id] = row[name]


def slices(comparison: Comparison, names: Sequence[str], given: Given | None = None) -> list[Slice]:
    """Returns the slices by each attribute; empty if nothing can be paired.

    Args:
        names: Names of attributes.
        given: Attributes of the user.

    Raises:
        ConfigError: An attribute is unknown.
        DataError: A test query has no value of an attribute of the user.
    """
    sliced: list[Slice] = []
    for name in names:
        if name not in ATTRIBUTES and name not in (given or {}):
            known = [*ATTRIBUTES, *(given or {})]
            raise ConfigError(
                f"queries have no attribute '{name}'{did_you_mean(name, known)} Known attributes: "
                f"{', '.join(known)}; add others as a CSV table with --attributes FILE."
            )
        if comparison.queries is not None:
            sliced += _slices(comparison, name, _values(comparison, name, given or {}))
    return sliced


def _values(comparison: Comparison, name: str, given: Given) -> NDArray[Any]:
    """Returns the values of an attribute, (Q,): numbers, or texts if not all are numbers."""
    queries = comparison.queries
    assert queries is not None  # checked by the caller
    if name not in given:
        convention = comparison.settings.convention.of(parse_metric(comparison.metric)[0])
        return queries.of_query([ATTRIBUTES[name](judgments, convention) for judgments in queries.judgments])
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


def _slices(comparison: Comparison, attribute: str, values: NDArray[Any]) -> list[Slice]:
    if values.dtype.kind == "U":
        values = _with_others(values)
    distinct = np.unique(values)
    if len(distinct) <= _MOST_VALUES or values.dtype.kind == "U":
        names = _names(distinct)
        return [_slice(comparison, attribute, names[value], values == value) for value in distinct.tolist()]
    # Each range ends at a value that occurs, so that its name is exact.
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
    """Returns the texts with the rarest ones replaced by "others"."""
    distinct, counts = np.unique(texts, return_counts=True)
    if len(distinct) <= _MOST_TEXTS:
        return texts
    kept = distinct[np.argsort(-counts, kind="stable")[: _MOST_TEXTS - 1]]
    return np.where(np.isin(texts, kept), texts, _OTHERS)


_DIGITS = 3
_EXACT = 17  # digits that distinguish any two floats


def _names(distinct: NDArray[Any]) -> dict[Any, str]:
    """Returns value -> text: integers in full, others with at least three significant digits and as many as
    distinguish the values.

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
    assert queries is not None  # checked by the caller
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

    p-values are adjusted over all returned tests, so that one call must get all slices of a table.
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
    """Returns a sentence on whether differences vary over the slices of an attribute; empty without tests.

    Args:
        tested: All interactions of the table, the family of the adjustment.
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
