"""Groups of queries, by attributes.

A slice has one value, or one range of values, of an attribute of queries. `ATTRIBUTES` has the attributes of
every data set, one function each, from judgments to one value per query. Kept columns and categorical
features are attributes, too. Other attributes come from a table of the user with one row per query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mode
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean, require_choice
from ltrbench.metrics import Convention
from ltrbench.statistics import Interval

QUERY_ID = "query_id"
"""Column with the query id in a table of attributes."""

_MOST_VALUES = (
    6  # attributes with at most this number of values have one slice per value
)
_MOST_TEXTS = 12
_OTHERS = "others"
_MISSING = "missing"
_NUM_RANGES = 4  # attributes with more values are split at the quartiles


def query_size(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the number of documents of each query, (Q,)."""
    del convention
    return judgments.query_sizes.astype(np.float64)


def num_relevant(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the number of documents with a label at or above the relevance threshold, (Q,)."""
    relevant = judgments.labels >= convention.relevance_threshold
    starts = judgments.query_start[:-1].astype(np.int64)
    return np.add.reduceat(relevant.astype(np.float64), starts)


def label_entropy(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    """Returns the entropy of the labels of each query in bits, (Q,).

    H = -sum_l p_l log2 p_l, with p_l the share of the documents with label l (Shannon, 1948). It is 0 if all
    labels are equal, so that every ranking is equally good.
    """
    del convention
    starts = judgments.query_start[:-1].astype(np.int64)
    sizes = judgments.query_sizes
    entropy = np.zeros(judgments.num_queries)
    for label in np.unique(judgments.labels):
        has_label = (judgments.labels == label).astype(np.float64)
        share = np.add.reduceat(has_label, starts) / sizes
        zeros = np.zeros_like(share)
        entropy -= share * np.log2(share, where=share > 0, out=zeros)
    return entropy


OfQueries = Callable[[Judgments, Convention], NDArray[np.float64]]
ATTRIBUTES: dict[str, OfQueries] = {
    "query_size": query_size,
    "num_relevant": num_relevant,
    "label_entropy": label_entropy,
}


def column_of_queries(judgments: Judgments, name: str) -> NDArray[Any]:
    """Returns one value of a column for each query, (Q,).

    Numbers are means over the documents that have one; NaN if no document has. Texts are the most frequent
    value of the documents that have one, of several the first; "missing" if no document has.
    """
    starts = judgments.query_start[:-1]
    if judgments.has_numbers(name):
        return _means_by_query(judgments.numbers(name), starts)
    texts = judgments.column(name).astype(np.str_)
    split = np.split(texts, starts[1:])
    most_frequent = []
    for of_query in split:
        given = list(filter(None, of_query.tolist()))
        most_frequent.append(mode(given or [_MISSING]))
    return np.array(most_frequent)


def _means_by_query(numbers: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    """Returns (Q,), the means of known numbers; NaN for a query without any."""
    known = ~np.isnan(numbers)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    means = np.add.reduceat(np.where(known, numbers, 0), starts)
    has_number = counts > 0
    means[has_number] /= counts[has_number]
    means[~has_number] = np.nan
    return np.asarray(means)


Given = Mapping[str, Mapping[str, str]]
"""Attribute -> query id -> value as text."""


@dataclass(frozen=True)
class InSlice:
    """A row in a slice: its mean, and its difference to the baseline.

    Attributes:
        difference: None for the baseline, and if only the sign of a difference is claimed.
        interval: None without a difference, and if the pair carries no claim.
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
        raise DataError(
            f"{path}:{row + 2}: query '{ids[row]}' is repeated; keep one line per query."
        )
    attributes = {}
    for name in names:
        attributes[name] = dict(zip(ids, table[name], strict=True))
    return attributes


TRAFFIC = ("head", "torso", "tail")
"""The queries with the first, the second and the last third of the sum of weights, by descending weight."""


class QueriesOfCells(Protocol):
    """Queries of one or several test sets, the cells of a table, such as `PairedQueries`."""

    @property
    def judgments(self) -> Sequence[Judgments]:
        """The judgments of each cell."""

    def of_query(self, values_of_cell: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns (Q,) values, given one array per cell with a value for each query of its judgments."""


def group_of_queries(
    queries: QueriesOfCells, group: str, convention: Convention
) -> NDArray[np.bool_]:
    """Returns which queries are in a group, (Q,), at least one.

    Args:
        group: "head", "torso" or "tail", or attribute=value, with the values that `--slice` shows.

    Raises:
        ConfigError: There is no such group.
    """
    name, equals, value = group.partition("=")
    if equals:
        kinds = dict(
            kinds_of_values(values_of_attribute(queries, name, convention, {}))
        )
        require_choice(f"the group of queries by {name}", value, kinds)
        return kinds[value]
    of_cells = []
    for item in queries.judgments:
        weights_of_cell = item.query_weights
        if weights_of_cell is None:
            weights_of_cell = np.ones(item.num_queries)
        of_cells.append(weights_of_cell)
    weights = queries.of_query(of_cells)
    _, place = np.unique(-weights, return_inverse=True)
    shares = np.bincount(place, weights) / weights.sum()
    # Queries of equal weight are in one part, that of the middle of their shares.
    middles = shares.cumsum() - shares / 2
    parts = np.array(TRAFFIC)[(3 * middles).astype(np.int64)[place]]
    if group not in parts:
        raise ConfigError(
            f"no query is in the group '{group}'{did_you_mean(group, {*TRAFFIC} - {group})} Name "
            "ATTRIBUTE=VALUE, or head, torso or tail of queries with different weights (column `weight`)."
        )
    return np.asarray(parts == group)


def values_of_attribute(
    queries: QueriesOfCells, name: str, convention: Convention, given: Given
) -> NDArray[Any]:
    """Returns the values of an attribute, (Q,): numbers, NaN where one is missing; or texts if a value is no
    number."""
    known = [*ATTRIBUTES, *given, *queries.judgments[0].columns]
    if name not in known:
        raise ConfigError(
            f"queries have no attribute '{name}'{did_you_mean(name, known)} Known attributes: "
            f"{', '.join(known)}; add others as a CSV table with --attributes FILE, or train with the "
            f"column of a table in data.keep."
        )
    if name in ATTRIBUTES and name not in given:
        return queries.of_query(
            [ATTRIBUTES[name](judgments, convention) for judgments in queries.judgments]
        )
    if name not in given:
        return queries.of_query(
            [column_of_queries(judgments, name) for judgments in queries.judgments]
        )
    ids = queries.of_query(
        [judgments.query_ids for judgments in queries.judgments]
    ).tolist()
    missing = [query_id for query_id in ids if query_id not in given[name]]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(ids)} test queries have no {name}, such as query '{missing[0]}'; add "
            "one line for each query."
        )
    texts = [given[name][query_id] or _MISSING for query_id in ids]
    try:
        numbers = np.array([_number_or_nan(text) for text in texts])
    except ValueError:
        return np.array(texts)
    if np.isinf(numbers).any():
        return np.array(texts)
    return numbers


def _number_or_nan(text: str) -> float:
    return math.nan if text == _MISSING else float(text)


NamedQueries = tuple[str, NDArray[np.bool_]]
"""Name of a slice; and which queries are in it, (Q,)."""


def kinds_of_values(values: NDArray[Any]) -> list[NamedQueries]:
    """Returns the slices: one value, or one range of values of numbers; and "missing"."""
    if values.dtype.kind == "U":
        values = _with_others(values)
        names_of_texts = sorted(set(values.tolist()), key=_as_number)
        return [(name, values == name) for name in names_of_texts]
    is_missing = np.isnan(values)
    if is_missing.any():
        return _with_missing(values, is_missing)
    if not len(values):
        return []
    ends = np.unique(values)
    if len(ends) > _MOST_VALUES:
        # Each range ends at a value that occurs, so that its name is exact.
        shares = np.arange(1, _NUM_RANGES + 1) / _NUM_RANGES
        ends = np.unique(np.quantile(values, shares, method="lower"))
    kind = np.searchsorted(ends, values)
    limits = []
    for number in range(len(ends)):
        of_range = np.sort(values[kind == number])
        limits.append(of_range[[0, -1]])
    names = _names(np.unique(limits))
    ranges = []
    for number, (low, high) in enumerate(np.array(limits).tolist()):
        ends_of_range = dict.fromkeys((names[low], names[high]))
        ranges.append((" to ".join(ends_of_range), kind == number))
    return ranges


def _with_missing(
    values: NDArray[np.float64], is_missing: NDArray[np.bool_]
) -> list[NamedQueries]:
    """Returns the slices of the known numbers, and that of the others."""
    kinds = []
    for name, of_known in kinds_of_values(values[~is_missing]):
        inside = np.zeros_like(is_missing)
        inside[~is_missing] = of_known
        kinds.append((name, inside))
    return [*kinds, (_MISSING, is_missing)]


def _as_number(text: str) -> tuple[float, str]:
    """Returns a key that sorts texts of numbers as numbers, before other texts."""
    try:
        number = float(text)
    except ValueError:
        return math.inf, text
    # No order of numbers has a place for NaN.
    return math.inf if math.isnan(number) else number, text


def _with_others(texts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Returns the texts with the rarest ones replaced by "others"."""
    distinct, counts = np.unique(texts, return_counts=True)
    if len(distinct) <= _MOST_TEXTS:
        return texts
    by_count = np.argsort(-counts, kind="stable")
    kept = distinct[by_count[: _MOST_TEXTS - 1]]
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
    if value.is_integer():
        return f"{value:.0f}"
    return f"{value:.{digits}g}"
