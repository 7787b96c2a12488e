"""RankingDataset: features and graded labels of documents, grouped by query, validated at construction.

Every reader returns one and every backend takes one. The object is frozen and its arrays are read-only, so
that no backend can change the data of the next backend. Metrics take `Judgments`, the part without features.

The features are an array or a FeatureMatrix, which stands for an array that is not in memory as a whole, such
as some of the rows of another array. A subset of queries therefore never copies features.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import numbers
import operator
import re
import reprlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    FeatureMatrix,
    SparseRows,
    as_array,
    csr_of,
    in_float32,
    log,
    merged_columns,
    merged_in_words,
    read_only,
    row_blocks,
    row_segments,
    stacked,
    take_rows,
    with_one_nan,
)
from ltrbench.data.impressions import Impressions, appended
from ltrbench.errors import DataError, did_you_mean
from ltrbench.shapes import Features, Indices, Labels, PerQuery, QueryStart
from ltrbench.tables import one_line

if TYPE_CHECKING:
    import pandas as pd

# ---- Content-based keys of queries: queries with the same documents have the same key, whatever their id.
#
# A key is 128 bits, written as 32 hexadecimal digits. It depends on the features and labels of the query's
# documents, not on their order and not on the query id. A document's hash is a linear function of the bits
# of its features modulo 2^64 (Carter and Wegman, 1979, "Universal classes of hash functions"), followed by
# the finaliser of SplitMix64 (Steele, Lea and Flood, 2014, OOPSLA). A query's hash is the sum over its
# documents. A key consists of two such hashes with different constants. The arithmetic uses integers only,
# so that keys are the same on every machine.

QueryKeys = NDArray[np.str_]
"""(Q,), key of each query; queries with equal keys are the same query."""

DIGITS = 32
"""Number of characters of a key."""

_Hashes = NDArray[np.uint64]  # (n, 2), one column per hash

_STEP = 0x9E3779B97F4A7C15  # SplitMix64's increment, 2^64 over the golden ratio
_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of pi
_BLOCK = 2**16
"""Number of feature values hashed at a time, with eight bytes of memory each, so that they fit the cache."""
_FRACTION = 13
"""Number of binary digits after the point of the logarithm of a feature in `rounded_keys`."""


def content_keys(dataset: RankingDataset) -> QueryKeys:
    """Returns the key of each query.

    If all documents of a query have the same features, as with a single document, the features do not
    identify the query: its key then depends on the query id as well.
    """
    features = _linear_of_features(
        dataset.features, _feature_words, _constants(dataset.num_features)
    )
    label_bits = (dataset.labels + 0.0).view(np.uint64)
    seeds = np.array(_SEEDS, dtype=np.uint64)
    labels = splitmix(label_bits[:, np.newaxis] + seeds)
    starts = dataset.query_start[:-1]
    keys = np.add.reduceat(_mixed(features + labels), starts, axis=0)

    features_of_first = np.repeat(features[starts], dataset.query_sizes, axis=0)
    is_like_first = (features == features_of_first).all(axis=1)
    are_alike = np.logical_and.reduceat(is_like_first, starts)
    if are_alike.any():
        words = _spread(_characters(dataset.query_ids[are_alike]))
        ids = words @ _constants(words.shape[1])
        keys[are_alike] += _mixed(ids)
    return _as_text(_mixed(keys))


def keys_of_texts(texts: NDArray[np.str_]) -> QueryKeys:
    """Returns the key of each text."""
    words = _spread(_characters(texts))
    return _as_text(_mixed(words @ _constants(words.shape[1])))


def rounded_keys(dataset: RankingDataset) -> NDArray[np.uint64]:
    """Returns the (D,) key of each document: the same key for the same label and features up to rounding.

    Each feature x becomes sign(x) log2(1 + 32 |x|), interpolated linearly between powers of 2. Four sums of
    these values with random weights are rounded, each to a multiple of 2^-9 of its typical size. Sums cross
    the border of such a cell less often than single features do, of which a document may have hundreds.
    Noise of 1e-6 of each feature, or of 1e-6 itself, changes the keys of about 3 % of the documents; noise of
    1e-4 of each feature changes those of 10 to 30 %, and of 1e-3 most of them.
    """
    weights = _pairs_of_weights(dataset.num_features)
    sums = _linear_of_features(dataset.features, _log_words, weights)
    typical = 18.5 * 2**_FRACTION * dataset.num_features**0.5
    exponent = round(np.log2(typical / 2**9))
    rounded = _with_rounded_halves(sums, 2**exponent)
    labels = splitmix((dataset.labels + 0.0).view(np.uint64))
    return splitmix(_mixed(rounded).sum(axis=1) + labels)


def _pairs_of_weights(num_features: int) -> _Hashes:
    """Returns (F, 2) words with two random weights of 32 bits each, which give two sums in one word."""
    random = _constants(num_features)
    low = _odd_below_32(random >> np.uint64(8))
    high = _odd_below_32(random >> np.uint64(40))
    return low + (high << np.uint64(32))


def _odd_below_32(random: _Hashes) -> _Hashes:
    """Returns odd numbers from -31 to 31, modulo 2^64, from five bits of each word."""
    even = random & np.uint64(62)
    return even - np.uint64(31)


def _with_rounded_halves(sums: _Hashes, step: int) -> _Hashes:
    """Returns the words with both halves of 32 bits rounded to multiples of a power of 2."""
    both = np.uint64(2**32 + 1)
    # Half a step is added, so that 0 is in the middle of a cell.
    centred = sums + np.uint64(step // 2) * both
    below_step = np.uint64(step - 1) * both
    return centred & ~below_step


def _linear_of_features(
    features: AnyFeatures,
    words: Callable[[NDArray[Any]], NDArray[np.uint64]],
    constants: _Hashes,
) -> _Hashes:
    """Returns sum_j b_ij k_j modulo 2^64 for the words b_i of each document i and the constants k_j."""
    features = in_float32(features)
    sparse = csr_of(features)
    size = max(_BLOCK // features.shape[1], 1)
    if sparse is not None:
        return _linear_of_sparse(sparse, words, constants)
    hashes = []
    for _, block in row_blocks(features, size):
        hashes.append(words(block) @ constants)
    of_documents: _Hashes = np.concatenate(hashes)
    return of_documents


def _linear_of_sparse(
    sparse: SparseRows,
    words: Callable[[NDArray[Any]], NDArray[np.uint64]],
    constants: _Hashes,
) -> _Hashes:
    """Returns `_linear_of_features` from the stored values.

    With the word a of cells that are not stored, the sum over all cells is a sum_j k_j, plus the sum of
    (b_ij - a) k_j over the stored ones.
    """
    absent = words(np.array([sparse.absent], dtype=np.float32))
    hashes = np.empty((len(sparse), 2), dtype=np.uint64)
    # Rows with about _BLOCK values.
    num_stored = max(len(sparse.values), 1)
    size = max(_BLOCK * len(sparse) // num_stored, 1)
    for begin in range(0, len(sparse), size):
        row_start = sparse.row_start[begin : begin + size + 1]
        stored = slice(row_start[0], row_start[-1])
        differences = words(sparse.values[stored]) - absent
        constants_of_cells = constants[sparse.columns[stored]]
        terms = differences[:, np.newaxis] * constants_of_cells
        starts_in_block = row_start - row_start[0]
        hashes[begin : begin + size] = _sums_of_rows(terms, starts_in_block)
    hashes += absent * constants.sum(axis=0)
    return hashes


def _sums_of_rows(terms: _Hashes, row_start: NDArray[np.int64]) -> _Hashes:
    """Returns the sums of the terms of each row modulo 2^64, which may have none."""
    nothing = np.zeros((1, 2), dtype=np.uint64)
    sums = np.concatenate([nothing, np.cumsum(terms, axis=0)])
    return np.diff(sums[row_start], axis=0)


@cache
def _constants(num_words: int) -> _Hashes:
    """Returns the (num_words, 2) constants k_j, one column per hash; all are odd."""
    numbers = np.arange(1, num_words + 1, dtype=np.uint64)
    numbers *= np.uint64(_STEP)
    seeds = np.array(_SEEDS, dtype=np.uint64)
    random = splitmix(numbers[:, np.newaxis] + seeds)
    return random | np.uint64(1)


def _spread(words: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Returns the words with the high bits mixed into the low bits, which a product modulo 2^64 preserves."""
    return (words ^ (words >> np.uint32(16))).astype(np.uint64)


def _feature_words(features: NDArray[Any]) -> NDArray[np.uint64]:
    values: Features = features + np.float32(0)  # -0 becomes 0
    values[np.isnan(values)] = np.nan  # the bits of a NaN differ between machines
    return _spread(values.view(np.uint32))


def _log_words(features: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns sign(x) log2(1 + 32 |x|) in units of 2^-_FRACTION; a missing value is a large number."""
    # The bits of a positive float32 are its logarithm: the exponent, and 23 digits that interpolate.
    unit = np.array(1 / 32, dtype=np.float32)
    size = np.abs(features)
    np.fmin(size, np.finfo(np.float32).max, out=size)
    size += unit
    logs = size.view(np.int32)
    logs -= unit.view(np.int32)
    logs >>= 23 - _FRACTION
    np.negative(logs, out=logs, where=features < 0)
    words: NDArray[np.uint64] = logs.astype(np.int64).view(np.uint64)
    return words


def _characters(texts: NDArray[Any]) -> NDArray[np.uint32]:
    codes = np.ascontiguousarray(texts).view(np.uint32)
    of_texts: NDArray[np.uint32] = codes.reshape(len(texts), -1)
    return of_texts


def _mixed(hashes: _Hashes) -> _Hashes:
    return splitmix(hashes ^ np.array(_SEEDS, dtype=np.uint64))


def splitmix(hashes: _Hashes) -> _Hashes:
    """Returns SplitMix64's finaliser of each word (Steele, Lea and Flood, 2014): each input bit changes half
    of the output bits on average."""
    mixed: _Hashes = hashes ^ (hashes >> np.uint64(30))
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    mixed = mixed ^ (mixed >> np.uint64(27))
    mixed = mixed * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _as_text(hashes: _Hashes) -> QueryKeys:
    # Big-endian, so that the digits are the same on every machine.
    digits = hashes.astype(">u8").tobytes().hex().encode()
    return np.frombuffer(digits, dtype=f"S{DIGITS}").astype(f"U{DIGITS}")


# ---- Data sets, and the names of their columns in a table.

# Role -> default column names, first the name that `to_frame` writes. Only label and query are required.
ROLES = {
    "label": ("label", "relevance"),
    "query": ("query_id", "qid"),
    "document": ("document_id", "docid"),
    "weight": ("weight",),
    "position": ("position",),
}

ROLE_OF_NAME: dict[str, str] = {}
for _role, _names in ROLES.items():
    ROLE_OF_NAME |= dict.fromkeys(_names, _role)
# pandas' name for a column without a name, usually an index that it wrote.
NO_NAME = re.compile(r"(Unnamed: \d+)?")

Scalar = TypeVar("Scalar", bound=np.generic)

_ROUNDING_OF_MEAN = 1e-12
"""Rounding error of a mean of float64 values around 1."""

MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "<na>", "null", "none", "nat"}
)
"""Lower-case texts that are missing values where a number is expected."""

FRACTIONS_REMEDY = (
    "Round the labels to grades 0, 1, 2, ..., or keep them, in a run with data.whole_labels=false "
    "metrics=[map,mrr] early_stopping.metric=map and, for native, lightgbm, xgboost and mlp, "
    "model/objective=lambdarank model.objective.gain=linear (in Python whole_labels=False)."
)
"""Remedy for labels that are not whole numbers, for which the gain 2^label - 1 is not defined."""

_HASHED_BY_CELL = 10_000
"""Maximum number of features whose fingerprint is a hash of all cells.

Of more features, which may be sparse, the segments of equal cells are hashed: 20,000 sparse rows of 10^6
features take less than a second instead of 100 s. Fewer features keep the hash that results were recorded
with.
"""


def joined_columns(
    first: Mapping[str, NDArray[Any]],
    second: Mapping[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Returns the columns of a table of scores.

    Raises:
        DataError: A kept column has the name of another one.
    """
    for name in second:
        if name in first:
            raise DataError(
                f"the kept column '{name}' has the name of another column of a table of scores. Rename it in "
                "the data, or leave it out of data.keep (predict: --read 'keep=[...]')."
            )
    return {**first, **second}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Judgments:
    """Labels of D documents in Q queries: the input of every metric.

    Args:
        labels: (D,), graded relevance; finite and not negative.
        query_start: (Q + 1,), first row of each query; starts with 0, ends with D; no query is empty.
        query_ids: (Q,) unique text, ids of the queries in the file; by default "1", "2", ...
        document_ids: (D,) text, ids of the documents in the file; None if the file has none.
        query_weights: (Q,), positive; weight of each query in training and in means. None: equal weights.
        kept: name -> (D,) numbers as they were typed, NaN for missing, or texts as they were written, empty
            for missing: columns that are no features, for metrics and slices. See `numbers`.
        text_columns: (any number,), columns that are texts even if these are numbers: categorical features.
        impressions: where the documents were shown and clicked, for metrics of clicks; None: not known.

    Raises:
        DataError: A shape or a value violates the above; the message names the row and the value.
    """

    labels: Labels
    query_start: QueryStart
    query_ids: NDArray[np.str_] = field(default=None)  # type: ignore[arg-type]  # filled in __post_init__
    document_ids: NDArray[np.str_] | None = None
    query_weights: NDArray[np.float64] | None = None
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    text_columns: NDArray[np.str_] | None = None
    impressions: Impressions | None = None

    def __post_init__(self) -> None:
        labels = _as_array("labels", self.labels, np.float64)
        _check(
            "labels",
            labels,
            np.isfinite(labels) & (labels >= 0),
            "a finite grade of 0 or more",
        )
        query_start = _checked_starts(self.query_start, len(labels))
        sizes = np.diff(query_start)
        query_ids = numbered(len(sizes)) if self.query_ids is None else self.query_ids
        self._set("labels", labels)
        self._set("query_start", query_start)
        self._set("query_ids", _texts("query_ids", query_ids, len(sizes)))
        _check_no_repeat(
            "query_ids",
            self.query_ids,
            "put the documents of a query into consecutive rows",
        )
        if self.document_ids is not None:
            ids = _texts("document_ids", self.document_ids, len(labels))
            self._set("document_ids", ids)
        if self.query_weights is not None:
            self._set_query_weights(len(sizes))
        kept = {}
        for given_name, values in self.kept.items():
            name = str(given_name)
            kept[name] = _kept(name, values, len(labels))
        self._set("kept", kept)

    @property
    def columns_of_queries(self) -> dict[str, NDArray[Any]]:
        """Names and (Q,) columns that stand before values by query: with their weights, the means can be
        computed from the values."""
        columns = {"query_id": self.query_ids, "num_documents": self.query_sizes}
        if self.query_weights is not None:
            columns["weight"] = self.query_weights
        return columns

    def _set_query_weights(self, num_queries: int) -> None:
        name = "query_weights"
        weights = _as_array(name, self.query_weights, np.float64, num_queries)
        valid = np.isfinite(weights) & (weights > 0)
        _check(
            name, weights, valid, "positive and finite; remove queries without weight"
        )
        self._set(name, weights)

    def _set(self, name: str, value: object) -> None:
        # The caller's array stays writable; the runs of a process share their data sets.
        if isinstance(value, np.ndarray):
            value = read_only(value)
        object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays are writable after unpickling; their values were checked before.
        for name, value in state.items():
            self._set(name, value)

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, object]:
        # Adding 0 turns -0 into 0.
        lowest = self.labels.min() + 0.0
        highest = self.labels.max() + 0.0
        labels = f"{lowest:g} to {highest:g}"
        return {
            "documents": self.num_documents,
            "queries": self.num_queries,
            "labels": labels,
        }

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Name -> (D,) numbers or texts: the columns that metrics and slices read."""
        return self.kept

    @property
    def beside(self) -> dict[str, NDArray[Any]]:
        """Name -> (D,) values: query_id, document_id and kept columns, which tables have beside scores.

        Raises:
            DataError: A kept column has the name of an id.
        """
        beside = {"query_id": self.query_ids[self.query_of_document]}
        if self.document_ids is not None:
            beside["document_id"] = self.document_ids
        return joined_columns(beside, self.kept)

    def column(self, name: str) -> NDArray[Any]:
        """Returns the (D,) values of one of `columns`, or the ids: "query_id", "document_id".

        Raises:
            DataError: The data have no such column.
        """
        known = self.beside if name in ("query_id", "document_id") else self.columns
        if name not in known:
            raise DataError(
                f"the data have no column '{name}'{did_you_mean(name, self.columns)} data.keep=[{name}] (in "
                "Python keep=[...]) keeps a column of a table; documents have ids if the file has them."
            )
        return known[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Returns the (D,) values of a column as numbers, for a metric; a missing value is NaN.

        Raises:
            DataError: The data have no such column, or a cell of it is not a number.
        """
        return self.remember(("numbers", name), lambda: self._numbers(name))

    def _numbers(self, name: str) -> NDArray[np.float64]:
        values = self.column(name)
        if values.dtype.kind != "U":
            return values.astype(np.float64)
        distinct, codes = np.unique(values, return_inverse=True)
        numbers = [_number(text) for text in distinct.tolist()]
        if None in numbers:
            text = str(distinct[numbers.index(None)])
            raise DataError(
                f"the column '{name}' has texts, such as {text[:60]!r}: name one of numbers."
            )
        return np.array(numbers, dtype=np.float64)[codes]

    def has_numbers(self, name: str) -> bool:
        """Returns whether a column has numbers that float64 tells apart; 007 is a text, and so is 2^60."""
        values = self.column(name)
        if self.text_columns is not None and name in self.text_columns:
            return False
        if values.dtype.kind in "iu":
            sizes = np.abs(values.astype(np.float64))
            return bool((sizes < EXACT_FLOAT).all())
        if values.dtype.kind != "U":
            return True
        texts = np.unique(values).tolist()
        return all(map(_is_plain_number, filter(None, texts)))

    @property
    def num_documents(self) -> int:
        return len(self.labels)

    @property
    def num_queries(self) -> int:
        return len(self.query_start) - 1

    @cached_property
    def query_sizes(self) -> NDArray[np.int64]:
        """(Q,), number of documents of each query."""
        return read_only(np.diff(self.query_start))

    @cached_property
    def query_of_document(self) -> NDArray[np.int64]:
        """(D,), index of the query of each document."""
        return read_only(np.repeat(np.arange(self.num_queries), self.query_sizes))

    @property
    def ranks_of_rows(self) -> NDArray[np.int64]:
        """(D,), index of each row within its query, from 0. Not kept, because it is used once or never."""
        firsts = np.repeat(self.query_start[:-1], self.query_sizes)
        return read_only(np.arange(self.num_documents) - firsts)

    @cached_property
    def best_labels(self) -> PerQuery:
        """(Q,), highest label of each query."""
        best: PerQuery = np.maximum.reduceat(self.labels, self.query_start[:-1])
        return read_only(best)

    @cached_property
    def has_whole_labels(self) -> bool:
        """Whether every label is a whole number."""
        return bool((self.labels == np.floor(self.labels)).all())

    @cached_property
    def grades(self) -> tuple[NDArray[np.int64], int]:
        """(D,), rank of each document's label among the distinct labels, from 0; and their number."""
        distinct, grades = np.unique(self.labels, return_inverse=True)
        return read_only(grades), len(distinct)

    def sort_labels(self) -> Labels:
        """Returns the (D,) labels of each query in descending order. Not kept, as a fit uses them once."""
        # Not `query_of_document`, which would keep 8 bytes a document during a fit.
        queries = np.repeat(np.arange(self.num_queries), self.query_sizes)
        best_first = np.lexsort((-self.labels, queries))
        return self.labels[best_first]

    @cached_property
    def labels_best_first(self) -> Labels:
        """(D,), result of `sort_labels`: the ideal ranking. Kept for further evaluations."""
        return read_only(self.sort_labels())

    @cached_property
    def _remembered(self) -> dict[Hashable, PerQuery]:
        return {}

    def remember(self, key: Hashable, compute: Callable[[], PerQuery]) -> PerQuery:
        """Returns `compute()`, cached by key, for values that every evaluation needs, as the ideal DCG."""
        if key not in self._remembered:
            self._remembered[key] = read_only(compute())
        return self._remembered[key]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RankingDataset(Judgments):
    """Judged documents with their features; the documents of a query are consecutive rows.

    Args:
        features: (D, F), converted to float32; NaN is a missing value, infinity is an error. A FeatureMatrix
            stays as it is. It has the shape and the indexing of an array, and `row_blocks` reads both. Sparse
            features are SparseRows.
            CheckedFeatures are not searched for infinities, and may be float64: a reader returns them for
            models that compare in float64 (`exact`). Fingerprints and keys are those of float32.
        document_weights: (D,), not negative; weight of each document in training. If they are constant within
            each query they become `query_weights`; otherwise `query_weights` are their means per query.
        positions: (D,) int of 0 or more, rank at which each document was shown when it was clicked; None:
            unknown.
        feature_names: (F,) unique text; by default "1", "2", ..., as in LETOR files.
        file_rows: (D,) int, row of each document in its source, from 0, if a reader grouped scattered rows by
            query; None: same order as the source.
        dates: name of a feature of dates -> the day from which its values are counted, in days.
        encoded: name of a column of categories -> its categories, if a reader made a feature of 0 and 1 of
            each, named `column=category`.
        clusters: (Q,) text, such as the query of a session: lists of one cluster are one unit of statistics,
            whose key is that of the cluster. None: each list is a unit, whose key is that of its content.
        merged: names of features whose different values became equal in float32; see `merged_pair`.
        categories: name of a categorical feature -> its categories in the order of their codes. The values of
            the feature are codes from 0; NaN: missing, or a category that training does not have.

    Raises:
        DataError: A shape or a value violates the above; the message names the row and the value.

    >>> data = RankingDataset(features=[[0.1], [0.9], [0.4]], labels=[0, 2, 1], query_start=[0, 2, 3])
    >>> data
    RankingDataset(documents=3, queries=2, features=1, labels='0 to 2')
    >>> data.num_documents, data.num_queries, data.num_features
    (3, 2, 1)
    """

    features: Features
    document_weights: NDArray[np.float64] | None = None
    positions: NDArray[np.int64] | None = None
    feature_names: tuple[str, ...] = ()
    file_rows: NDArray[np.int64] | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    encoded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clusters: NDArray[np.str_] | None = None

    from_frame: ClassVar[Callable[..., RankingDataset]]
    """`read_table` of a DataFrame; `ltrbench.data.tables` sets it."""

    def __post_init__(self) -> None:
        if self.document_weights is not None:
            object.__setattr__(self, "query_weights", None)  # derived below
        super().__post_init__()
        is_checked = isinstance(self.features, CheckedFeatures)
        given: Any = self.features
        self._set_features()
        if not is_checked and not isinstance(given, FeatureMatrix):
            self._set_merged(np.asarray(given))
        if self.document_weights is not None:
            self._set_document_weights()
        if self.positions is not None:
            ranks = self._of_documents("positions")
            _check("positions", ranks, ranks >= 0, "a rank of 0 or more")
            self._set("positions", ranks)
        if self.file_rows is not None:
            self._set("file_rows", self._of_documents("file_rows"))
        for name in self.kept:
            if name in self.feature_names:
                raise DataError(
                    f"kept: '{name}' is a feature as well; a kept column is none. Rename it."
                )
        self._set_categories()
        if not is_checked:
            for name, categories in self.categories.items():
                self._check_codes(name, len(categories) - 1)

    def _set_features(self) -> None:
        features = _checked_features(self.features)
        num_documents, num_features = features.shape
        if num_documents != self.num_documents:
            raise DataError(
                f"features: {num_documents} rows for {self.num_documents} labels; pass one per document."
            )
        names = tuple(map(str, self.feature_names)) or numbered(num_features)
        texts = _texts("feature_names", np.array(names), num_features)
        _check_no_repeat("feature_names", texts, "rename one of them")
        self._set("features", features)
        self._set("feature_names", names)

    def _of_documents(self, name: str) -> NDArray[np.int64]:
        """Returns the whole numbers of a field, one for each document."""
        return _as_array(name, getattr(self, name), np.int64, self.num_documents)

    def _set_categories(self) -> None:
        """Sets the categories of features as text; their columns are texts."""
        texts = {}
        for name, categories in self.categories.items():
            texts[str(name)] = tuple(map(str, categories))
        self._set("categories", texts)
        if texts:
            self._set("text_columns", np.array(list(texts), dtype=np.str_))
        for name, categories in texts.items():
            if name not in self.feature_names:
                raise DataError(
                    f"categories: there is no feature '{name}'{did_you_mean(name, self.feature_names)}"
                )
            _check_no_repeat(
                f"categories['{name}']", np.array(categories), "remove one of them"
            )

    def _facts(self) -> dict[str, object]:
        facts = super()._facts()
        labels = facts.pop("labels")
        return {**facts, "features": self.num_features, "labels": labels}

    def to_frame(self) -> pd.DataFrame:
        """Returns a DataFrame with one row per document and one column per feature.

        The columns query_id, document_id, label, weight and position come first, as far as they are known,
        and kept columns last. Categorical features are pandas categoricals. `read_table` restores a data set
        with the same fingerprint, given `categories` and the names in `kept`.

        Raises:
            DataError: A feature or a kept column has the name of one of these columns, or an empty name.
        """
        # Imported here, because pandas takes half a second, too long for --help.
        import pandas as pd

        others = (*self.feature_names, *self.kept)
        clash = [
            name for name in others if name in ROLE_OF_NAME or NO_NAME.fullmatch(name)
        ]
        if clash:
            raise DataError(
                f"feature_names: '{clash[0]}' is the name of another column. Rename the feature."
            )
        known: dict[str, NDArray[Any]] = {}
        known["query_id"] = self.query_ids[self.query_of_document]
        if self.document_ids is not None:
            known["document_id"] = self.document_ids
        known["label"] = self.labels
        if self.query_weights is not None:
            known["weight"] = self.weight_of_document
        if self.positions is not None:
            known["position"] = self.positions
        features = pd.DataFrame(
            as_array(self.features), columns=list(self.feature_names)
        )
        for name, categories in self.categories.items():
            codes = features[name].fillna(-1).astype(np.int64)
            index = pd.Index(categories, dtype=object)
            features[name] = pd.Categorical.from_codes(codes, index)
        kept = pd.DataFrame(dict(self.kept))
        return pd.concat([pd.DataFrame(known), features, kept], axis=1)

    def _check_codes(self, name: str, highest: int) -> None:
        """Raises DataError if a categorical feature has a value that is no code."""
        codes = self._codes(name)
        is_whole = codes == np.floor(codes)
        is_code = is_whole & (codes >= 0) & (codes <= highest)
        _check(
            f"feature '{name}'",
            codes,
            np.isnan(codes) | is_code,
            f"a code from 0 to {highest}, or NaN for missing",
        )

    def _set_merged(self, given: NDArray[Any]) -> None:
        """Sets and logs the features whose different values became equal."""
        found = merged_columns(given)
        merged = {self.feature_names[column]: pair for column, pair in found.items()}
        self._set("merged", tuple(merged))
        if merged:
            log.warning(merged_in_words("features", merged))

    def _set_document_weights(self) -> None:
        """Sets the weights of the queries, and those of the documents if they vary within a query."""
        weights = _as_array(
            "document_weights", self.document_weights, np.float64, self.num_documents
        )
        _check(
            "document_weights",
            weights,
            np.isfinite(weights) & (weights >= 0),
            "finite, 0 or more",
        )
        firsts = weights[self.query_start[:-1]]
        varies = bool((weights != firsts[self.query_of_document]).any())
        means = firsts
        if varies:
            sums = np.add.reduceat(weights, self.query_start[:-1])
            means = sums / self.query_sizes
        names = self.query_ids if means.all() else self.query_ids[means == 0]
        _check(
            "query_weights",
            means,
            means > 0,
            f"positive; remove query {str(names[0])!r}",
        )
        self._set("query_weights", means)
        self._set("document_weights", weights if varies else None)

    @cached_property
    def weight_of_document(self) -> NDArray[np.float64]:
        """(D,), weight of each document in training: its document weight, its query weight, or 1."""
        if self.document_weights is not None:
            return self.document_weights
        if self.query_weights is not None:
            return read_only(self.query_weights[self.query_of_document])
        return np.broadcast_to(1.0, self.num_documents)

    def with_mean_weight_one(self) -> RankingDataset:
        """Returns the data set with weights scaled to a mean of 1 over queries; self if it is 1 already."""
        if self.query_weights is None:
            return self
        mean = self.query_weights.mean()
        # Weights that are scaled already keep their bits.
        if abs(mean - 1.0) < _ROUNDING_OF_MEAN:
            return self
        name = "query_weights" if self.document_weights is None else "document_weights"
        scaled = getattr(self, name) * (1.0 / mean)
        return self.with_fields(**{name: scaled})

    def with_fields(self, **changes: Any) -> RankingDataset:
        """Returns the data set with other values of some fields; the same features are not checked again."""
        return replace(self, **{"features": _checked(self.features), **changes})

    def in_memory(self, keep_sparse: bool = False) -> RankingDataset:
        """Returns the data set with its features as one array; self if they are one already.

        Args:
            keep_sparse: whether sparse features become SparseRows instead, which need no more memory than
                the stored values.

        Raises:
            DataError: The array does not fit into the available memory.
        """
        if not isinstance(self.features, FeatureMatrix):
            return self
        sparse = csr_of(self.features) if keep_sparse else None
        if sparse is self.features:
            return self
        # A copy keeps what is cached, such as the fingerprint.
        dataset = copy.copy(self)
        dataset._set("features", as_array(self.features) if sparse is None else sparse)
        return dataset

    def from_file_order(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Reorders (D,) values from the order of the source, as of a file of scores, to that of the rows.

        >>> from ltrbench.data import read_table
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"query_id": ["a", "b", "a"], "label": [0, 1, 2], "bm25": [1.5, 2.5, 3.5]})
        >>> data = read_table(frame, sort_queries=True)
        >>> data.from_file_order(frame["bm25"].to_numpy()).tolist()
        [1.5, 3.5, 2.5]
        """
        if self.file_rows is None:
            return values
        return values[self.file_rows]

    def to_file_order(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Reorders (D,) values from the order of the rows to the order of the source."""
        if self.file_rows is None:
            return values
        return values[np.argsort(self.file_rows)]

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def categorical_features(self) -> tuple[int, ...]:
        """Indices of the categorical features, ascending."""
        return tuple(sorted(map(self.feature_names.index, self.categories)))

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Name -> (D,) kept columns, and the texts of categorical features; an empty text is missing."""
        columns = dict(self.kept)
        for name, categories in self.categories.items():
            # The code -1 of a missing value is the last text.
            texts = np.array([*categories, ""])
            codes = np.nan_to_num(self._codes(name), nan=-1)
            columns[name] = read_only(texts[codes.astype(np.int64)])
        return columns

    def _codes(self, name: str) -> NDArray[np.float32]:
        column = self.feature_names.index(name)
        blocks = row_blocks(self.features)
        return np.concatenate([block[:, column] for _, block in blocks])

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE2b hash of everything that a backend reads: equal content, equal fingerprint.

        Document ids and feature names are not part of it, but of `digest_of_names`: no ranking depends on
        them. A metric depends on the ids where they break ties between equal scores, as in the conventions of
        trec_eval. Categories and kept columns are part of it if there are any.
        """
        digest = hashlib.blake2b(digest_size=16)
        # Bits of float32, so that -0 differs from 0, and one NaN; the same for an array, a view and sparse
        # rows.
        features = in_float32(self.features)
        digest.update(_type_and_shape("features", features))
        if self.num_features <= _HASHED_BY_CELL:
            for _, block in row_blocks(features):
                digest.update(with_one_nan(block).data)
        else:
            for segment in row_segments(features):
                digest.update(segment.data)
        for name in (
            "labels",
            "query_start",
            "query_weights",
            "document_weights",
            "positions",
        ):
            array = getattr(self, name)
            if array is not None:
                digest.update(_type_and_shape(name, array))
                digest.update(np.ascontiguousarray(array).data)
        digest.update("\n".join(self.query_ids.tolist()).encode())
        if self.categories:
            digest.update(json.dumps(self.categories).encode())
        if self.kept:
            kept = {name: as_written(values) for name, values in self.kept.items()}
            digest.update(json.dumps(kept).encode())
        return digest.hexdigest()

    @cached_property
    def digest_of_names(self) -> str:
        """BLAKE2b hash of the feature names and, if there are any, the document ids."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps(self.feature_names).encode())
        if self.document_ids is not None:
            # In parts, because the width of the texts differs between an array and its copy from a store.
            for begin in range(0, self.num_documents, _BLOCK):
                part = self.document_ids[begin : begin + _BLOCK]
                digest.update(json.dumps(part.tolist()).encode())
        return digest.hexdigest()

    @cached_property
    def query_keys(self) -> NDArray[np.str_]:
        """(Q,), key of the cluster of each query; without clusters, of its content (see `content_keys`)."""
        if self.clusters is not None:
            return read_only(keys_of_texts(self.clusters))
        return read_only(content_keys(self))

    @cached_property
    def rounded_keys(self) -> NDArray[np.uint64]:
        """(D,), key of each document's label and rounded features; see `rounded_keys`."""
        return read_only(rounded_keys(self))

    def take_queries(
        self, queries: ArrayLike, query_ids: ArrayLike | None = None
    ) -> RankingDataset:
        """Returns the subset of the given queries, in the given order; their features are not copied.

        Args:
            queries: (n,) int, indices of queries, at least one.
            query_ids: (n,) unique text, new ids of these queries; None: the ids stay, and no query may
                be repeated.

        Raises:
            DataError: The list is empty, or an id is repeated.
            IndexError: A query does not exist.
        """
        chosen = _chosen(queries)
        sizes = self.query_sizes[chosen]
        query_start = np.concatenate([[0], np.cumsum(sizes)])
        # Each row keeps its offset within its query.
        shift_of_query = self.query_start[chosen] - query_start[:-1]
        shift_of_row = np.repeat(shift_of_query, sizes)
        rows = np.arange(query_start[-1]) + shift_of_row
        fields: dict[str, Any] = {}
        if query_ids is None:
            fields["query_ids"] = self.query_ids[chosen]
        else:
            fields["query_ids"] = np.asarray(query_ids)
        if self.query_weights is not None:
            fields["query_weights"] = self.query_weights[chosen]
        if self.file_rows is not None:
            # Ranks of the rows, because the others are left out.
            fields["file_rows"] = np.argsort(np.argsort(self.file_rows[rows]))
        for name in ("labels", "document_ids", "document_weights", "positions"):
            values = getattr(self, name)
            if values is not None:
                fields[name] = values[rows]
        if self.impressions is not None:
            fields["impressions"] = self.impressions.take(rows, chosen)
        if self.clusters is not None:
            fields["clusters"] = self.clusters[chosen]
        taken = self.with_fields(
            features=_checked(take_rows(self.features, rows)),
            query_start=query_start,
            kept={name: values[rows] for name, values in self.kept.items()},
            **fields,
        )
        if "query_keys" in self.__dict__ and query_ids is None:
            taken.__dict__["query_keys"] = read_only(self.query_keys[chosen])
        if "rounded_keys" in self.__dict__:
            taken.__dict__["rounded_keys"] = read_only(self.rounded_keys[rows])
        return taken


def _chosen(queries: ArrayLike) -> Indices:
    """Returns the (n,) indices of queries; raises DataError if there are none."""
    chosen: Indices = _as_array("queries", queries, np.int64)
    if not chosen.size:
        raise DataError("no queries were chosen; pass the index of at least one.")
    return chosen


@dataclass(frozen=True, eq=False)
class Unjudged:
    """U documents that a system retrieved for queries of a split, but that are not in the split.

    Attributes:
        queries: (U,), index of the query of each document.
        document_ids: (U,), their ids.
        scores: (U,), their scores.
    """

    queries: NDArray[np.int64]
    document_ids: NDArray[np.str_]
    scores: NDArray[np.float64]

    def added_to(
        self, judgments: Judgments, scores: NDArray[np.floating[Any]]
    ) -> tuple[Judgments, NDArray[np.floating[Any]]]:
        """Returns judgments and scores with these documents as not relevant ones."""
        of_query = np.concatenate([judgments.query_of_document, self.queries])
        order = np.argsort(of_query, kind="stable")
        not_relevant = np.zeros(len(self.scores))
        labels = np.concatenate([judgments.labels, not_relevant])
        ids = judgments.document_ids
        if ids is not None:
            ids = np.concatenate([ids, self.document_ids])[order]
        sizes = np.bincount(of_query, minlength=judgments.num_queries)
        extended = Judgments(
            labels=labels[order],
            query_start=np.concatenate([[0], np.cumsum(sizes)]),
            query_ids=judgments.query_ids,
            document_ids=ids,
            query_weights=judgments.query_weights,
        )
        return extended, np.concatenate([scores, self.scores])[order]


class FeaturesOfTraining(Protocol):
    """What a training set, or a ranker fitted to it, knows about its features."""

    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def categories(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def dates(self) -> Mapping[str, str]: ...


def check_same_features(
    name: str, dataset: RankingDataset, train: FeaturesOfTraining
) -> None:
    """Raises DataError unless a data set has the features of the training data, in the same order.

    If the names of either are numbers, as in LETOR files and without names, only the same names in another
    order are an error. Otherwise names, codes of categories and first days of dates must be equal.

    Args:
        name: the data set in messages.
    """
    names = dataset.feature_names
    expected = train.feature_names
    if len(names) != len(expected):
        raise DataError(
            f"{name} has {len(names)} features, but train has {len(expected)}; all splits must have the same."
        )
    remedy = (
        f"Read {name} with the features of train: from_frame(frame, feature_names=train.feature_names, "
        "categories=train.categories, dates=train.dates, encode=train.encoded)."
    )
    if names != expected:
        if _are_comparable(names, expected):
            differs = [*map(operator.ne, names, expected)]
            first = differs.index(True)
            raise DataError(
                f"feature {first + 1} of {name} is {names[first]!r}, "
                f"but {expected[first]!r} in train; names and order must be the same. {remedy}"
            )
        return
    for kind in ("categories", "dates"):
        given = getattr(dataset, kind)
        wanted = getattr(train, kind)
        for feature in (*wanted, *given):
            shown = reprlib.repr(given.get(feature))
            shown_of_train = reprlib.repr(wanted.get(feature))
            if given.get(feature) != wanted.get(feature):
                raise DataError(
                    f"{kind} of the feature {feature!r} are {shown} in {name}, but {shown_of_train} in "
                    f"train, so that equal numbers mean different values. {remedy}"
                )


def _are_comparable(names: Sequence[str], expected: Sequence[str]) -> bool:
    """Returns whether different names are those of different features."""
    if set(names) == set(expected):
        return True
    are_numbers = [all(map(str.isdecimal, each)) for each in (names, expected)]
    return not any(are_numbers)


def joined(parts: Sequence[RankingDataset]) -> RankingDataset:
    """Returns the queries of all parts, at least one; the sources of the parts follow each other.

    Ids, positions and kept columns of documents that a part lacks are left out.
    """
    first = parts[0]
    if len(parts) == 1:
        return first

    def of_all(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            return None
        return np.concatenate(values)

    fields: dict[str, Any] = {}
    for name in ("labels", "query_ids", "document_ids", "positions", "clusters"):
        fields[name] = of_all(name)
    if any(part.query_weights is not None for part in parts):
        fields["document_weights"] = of_all("weight_of_document")
    if any(part.file_rows is not None for part in parts):
        fields["file_rows"] = _joined_file_rows(parts)
    merged = dict.fromkeys(itertools.chain.from_iterable(part.merged for part in parts))
    return first.with_fields(
        features=_checked(stacked([part.features for part in parts])),
        query_start=np.cumsum([0, *of_all("query_sizes")]),
        query_weights=None,
        kept=_joined_kept(parts),
        impressions=_joined_impressions(parts),
        merged=tuple(merged),
        **fields,
    )


def numbered(count: int, first: int = 1) -> tuple[str, ...]:
    """Returns the names of features or queries without names: from 1, as in LETOR files.

    >>> numbered(3), numbered(3, first=0)
    (('1', '2', '3'), ('0', '1', '2'))
    """
    return tuple(str(number) for number in range(first, first + count))


def _type_and_shape(name: str, array: AnyFeatures) -> bytes:
    return f"{name}{array.dtype.str}{array.shape}".encode()


def _as_array(
    name: str,
    value: ArrayLike | None,
    dtype: type[Scalar],
    length: int | None = None,
    dimensions: int = 1,
) -> NDArray[Scalar]:
    """Returns an array of one dimension and this length, or of several dimensions."""
    try:
        # Overflow is an error further on, so that a warning here would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            given = np.asarray(value)
            array = np.ascontiguousarray(given, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name}: this is no array of {np.dtype(dtype).name} ({error}); pass equal rows of numbers."
        ) from None
    if array.ndim != dimensions or length not in (None, len(array)):
        expected = f"{dimensions} dimensions" if length is None else f"{length} values"
        raise DataError(
            f"{name}: the shape is {array.shape}; pass an array of {expected}."
        )
    if np.issubdtype(dtype, np.integer) and given.dtype.kind in "fu":
        _check(name, given, array == given, "a whole number below 2^63")
    return array


def _check(
    name: str, values: NDArray[Any], valid: NDArray[np.bool_], expected: str
) -> None:
    """Raises DataError for the first of the (n,) values that is not valid."""
    if valid.all():
        return
    first = int(np.argmin(valid))
    raise DataError(f"{name}[{first}] is {values[first]}; it must be {expected}.")


def _kept(name: str, value: ArrayLike, count: int) -> NDArray[Any]:
    """Returns the (D,) values of a kept column: texts, or numbers; real numbers as float64."""
    dtype = np.asarray(value).dtype
    if dtype.kind in "UOM":
        return read_only(_texts(f"kept['{name}']", value, count))
    kept_type: Any = dtype if dtype.kind in "biu" else np.float64
    return read_only(_as_array(f"kept['{name}']", value, kept_type, count))


def as_written(values: NDArray[Any]) -> list[str]:
    """Returns the texts of a column in a CSV file, so that a table and its CSV file are the same data."""
    texts = [*map(str, values.tolist())]
    if values.dtype.kind != "f":
        return texts
    return ["" if text == "nan" else text for text in texts]


def _joined_kept(parts: Sequence[RankingDataset]) -> dict[str, NDArray[Any]]:
    """Returns the kept columns that all parts have."""
    kept = {}
    for name in parts[0].kept:
        if all(name in part.kept for part in parts):
            kept[name] = _concatenated([part.kept[name] for part in parts])
    return kept


def _joined_impressions(parts: Sequence[RankingDataset]) -> Impressions | None:
    given = [part.impressions for part in parts if part.impressions is not None]
    if len(given) < len(parts):
        return None
    return appended(given, [part.num_documents for part in parts])


def _joined_file_rows(parts: Sequence[RankingDataset]) -> NDArray[np.int64]:
    """Returns the row of each document in the sources, which follow each other."""
    rows = []
    start = 0
    for part in parts:
        rows.append(start + part.from_file_order(np.arange(part.num_documents)))
        start += part.num_documents
    return np.concatenate(rows)


def _concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Returns the values of a kept column of all parts: texts if the parts have other types of numbers."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [np.array(as_written(part), dtype=np.str_) for part in parts]
    return np.concatenate(parts)


def _number(text: str) -> float | None:
    """Returns the number in a text, NaN for a missing value; None: the text is not a number."""
    word = text.strip().lower()
    if word in MISSING:
        return np.nan
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)


def _is_plain_number(text: str) -> bool:
    if text.strip().lower() in MISSING:
        return True
    number = None
    if _PLAIN_NUMBER.fullmatch(text.strip()):
        number = _number(text)
    return number is not None and abs(number) < EXACT_FLOAT


def _texts(name: str, value: ArrayLike, count: int) -> NDArray[np.str_]:
    dtype = None if isinstance(value, np.ndarray) else object
    given = np.asarray(value, dtype=dtype)
    if given.shape != (count,):
        raise DataError(
            f"{name}: the shape is {given.shape}; pass an array of {count} values."
        )
    if given.dtype.kind == "U":
        return given
    cells = given.tolist()
    are_ids = np.array([is_id(each) for each in cells])
    _check(name, given, are_ids, "a string or a number")
    are_exact = np.array([is_exact(each, given.dtype) for each in cells])
    _check(name, given, are_exact, f"an integer or a text: {OF_FLOATS}")
    return np.array([*map(cell_text, cells)], dtype=np.str_)


def is_id(value: object) -> bool:
    """Whether a value can be an id: strings and numbers can, None and NaN cannot."""
    # Decimal is not a numbers.Real; databases export whole numbers as Decimal.
    if isinstance(value, str):
        return True
    return isinstance(value, (numbers.Real, Decimal)) and value == value


EXACT_FLOAT = 2.0**53
"""Smallest float64 that does not differ from every other whole number."""

OF_FLOATS = (
    "a float from 2^53 on (float32: 2^24) may stand for several whole numbers; write integers or texts (in "
    "pandas dtype Int64, because integers with missing values become floats)"
)


_FLOAT_TEXT = re.compile(r"[+-]?\d+(\.0+|(\.\d*)?e\+\d+)", re.IGNORECASE)
"""Whole numbers as programs write floats; 1e3 is a text."""


def is_exact(cell: object, dtype: Any) -> bool:
    """Returns whether a cell can be told apart as text: all can, except large floats, also as a CSV file has
    them.

    Args:
        dtype: that of NumPy or pandas which the column of the cell has.

    >>> [is_exact(cell, object) for cell in ("9007199254740993", "9007199254740992.0", "1e+16", "1e16")]
    [True, False, False, True]
    """
    if isinstance(cell, str):
        # Fast tests first: most ids have neither character.
        if "." not in cell and "+" not in cell:
            return True
        is_float = _FLOAT_TEXT.fullmatch(cell.strip()) is not None
        return not is_float or abs(float(cell)) < EXACT_FLOAT
    if not isinstance(cell, float):
        return True
    given = getattr(dtype, "numpy_dtype", dtype)
    if given == np.float32 or given == np.float16:
        return abs(cell) < 2.0**24
    return abs(cell) < EXACT_FLOAT


def cell_text(cell: object) -> str:
    """Returns a cell of a table as text: pandas makes 7.0 of the 7 of a column with missing values.

    >>> [cell_text(cell) for cell in ("7.0", 7.0, 7, 0.5, 2**60 + 1)]
    ['7.0', '7', '7', '0.5', '1152921504606846977']
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _checked_starts(value: ArrayLike, num_documents: int) -> NDArray[np.int64]:
    """Returns query_start; raises DataError if it does not divide the documents into queries."""
    query_start = _as_array("query_start", value, np.int64)
    if len(query_start) < 2 or query_start[0] != 0:
        raise DataError(
            f"query_start is {query_start}; it must start with 0 and end with {num_documents}."
        )
    if query_start[-1] != num_documents:
        raise DataError(
            f"labels has {num_documents} values, but query_start ends with {query_start[-1]}; pass one label "
            "per document, and end query_start with the number of documents."
        )
    _check(
        "query_start",
        query_start[:-1],
        np.diff(query_start) > 0,
        "below the next: remove queries without documents",
    )
    return query_start


def _check_no_repeat(name: str, texts: NDArray[np.str_], remedy: str) -> None:
    different, counts = np.unique(texts, return_counts=True)
    if len(different) < len(texts):
        twice = str(different[counts > 1][0])
        first, second, *_ = np.flatnonzero(texts == twice).tolist()
        raise DataError(
            f"{name}[{first}] and {name}[{second}] are both {twice!r}; {remedy}."
        )


def _checked(features: AnyFeatures) -> Features:
    """Returns the features of a data set in the form that the next data set does not check again."""
    return cast(Features, CheckedFeatures(features))


def _checked_features(given: object) -> Features:
    """Returns an array or a FeatureMatrix; raises DataError if a value or the shape is invalid."""
    if isinstance(given, CheckedFeatures):
        return cast(Features, given.values)
    if hasattr(given, "tocsr"):
        raise DataError(
            f"features is a {type(given).__name__}; pass features.SparseRows.from_scipy of ltrbench.data."
        )
    if isinstance(given, FeatureMatrix):
        features = cast(Features, given)
    else:
        features = _as_array(
            "features", cast(ArrayLike, given), np.float32, dimensions=2
        )
    if features.shape[1] == 0:
        raise DataError(
            "features: the array has no columns; a ranker needs at least one feature."
        )
    sparse = csr_of(features)
    if sparse is not None and not np.isinf(sparse.values).any():
        return features
    for start, block in row_blocks(features):
        infinite = np.argwhere(np.isinf(block)).tolist()
        if infinite:
            row, column = infinite[0]
            value = block[row, column]
            raise DataError(
                f"features[{start + row}, {column}] is {value} in float32, which is not finite. "
                "Use NaN for a missing value, and rescale features beyond float32 (3.4e38)."
            )
    return features
