"""RankingDataset: documents with features and graded labels, in queries. Checked once, here, then trusted.

Every reader returns one, every backend takes one. It is frozen and its arrays are read-only, so that no
backend can change what the next one sees. Its part without features, `Judgments`, is what metrics take.
"""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.query_keys import content_keys
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels, PerQuery, QueryStart
from ltrbench.tables import Table, one_line

if TYPE_CHECKING:
    import pandas as pd

Scalar = TypeVar("Scalar", bound=np.generic)

_NO_NUMBERS = "cmM"  # complex, durations and dates, which NumPy would turn into numbers
_SHOWN = 12  # names in a notebook
_MANY_GRADES = 31  # as many as exponential gains are used for


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Judgments:
    """The labels of Q queries' documents: all that a metric looks at.

    Args:
        labels: (D,), graded relevance; finite and not negative.
        query_start: (Q + 1,), the first row of each query, from 0 to D at the end; no query is empty.
        query_ids: (Q,) text, each another, what the file calls each query; by default "1", "2", ...
        document_ids: (D,) text, what the file calls each document; None where it names none.
        query_weights: (Q,), positive; how much a query counts in training and in means. None: all alike.

    Raises:
        DataError: where a shape or a value is not as said above; the message names the row and the value.
    """

    labels: Labels
    query_start: QueryStart
    query_ids: NDArray[np.str_] = field(default=None)  # type: ignore[arg-type]  # filled in __post_init__
    document_ids: NDArray[np.str_] | None = None
    query_weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        labels = _as_array("labels", self.labels, np.float64)
        query_start = _as_array("query_start", self.query_start, np.int64)
        _check_query_start(query_start, len(labels))
        _check_labels(labels)
        num_queries = len(query_start) - 1
        query_ids = _numbered(num_queries) if self.query_ids is None else self.query_ids
        self._set("labels", labels)
        self._set("query_start", query_start)
        self._set("query_ids", _texts("query_ids", query_ids, num_queries, "queries"))
        _check_no_repeat(self.query_ids)
        if self.document_ids is not None:
            self._set("document_ids", _texts("document_ids", self.document_ids, len(labels), "documents"))
        if self.query_weights is not None:
            weights = _as_array("query_weights", self.query_weights, np.float64)
            _check_length("query_weights", weights, num_queries, "queries")
            _check_weights(weights)
            self._set("query_weights", weights)

    def _set(self, name: str, value: object) -> None:
        if isinstance(value, np.ndarray):
            # A view, so that the caller's own array stays writable.
            value = value.view()
            value.flags.writeable = False
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, object]:
        # Adding 0 turns -0 into 0.
        labels = f"{self.labels.min() + 0.0:g} to {self.labels.max() + 0.0:g}"
        return {"documents": self.num_documents, "queries": self.num_queries, "labels": labels}

    @property
    def num_documents(self) -> int:
        return len(self.labels)

    @property
    def num_queries(self) -> int:
        return len(self.query_start) - 1

    @cached_property
    def query_sizes(self) -> NDArray[np.int64]:
        """(Q,), the number of documents of each query."""
        return np.diff(self.query_start)

    @cached_property
    def query_of_document(self) -> NDArray[np.int64]:
        """(D,), the number of the query that each document belongs to."""
        return np.repeat(np.arange(self.num_queries), self.query_sizes)

    @cached_property
    def ranks_of_rows(self) -> NDArray[np.int64]:
        """(D,), how far each row lies into its query, from 0."""
        return np.arange(self.num_documents) - np.repeat(self.query_start[:-1], self.query_sizes)

    @cached_property
    def best_labels(self) -> PerQuery:
        """(Q,), the highest label of each query."""
        best: PerQuery = np.maximum.reduceat(self.labels, self.query_start[:-1])
        return best

    @cached_property
    def has_whole_labels(self) -> bool:
        """Whether every label is a whole number."""
        # Imported here, because `--help` looks at no label and would wait for numba.
        from ltrbench.data.grades import are_whole

        return are_whole(self.labels)

    @cached_property
    def grades(self) -> tuple[NDArray[np.int64], int]:
        """(D,), how many other labels of the data set are lower than each document's; and how many there
        are."""
        distinct, grades = np.unique(self.labels, return_inverse=True)
        return grades, len(distinct)

    @cached_property
    def labels_best_first(self) -> Labels:
        """(D,), the labels of each query from the highest to the lowest: what the ideal ranking shows."""
        from ltrbench.data.grades import grades_best_first

        highest = self.best_labels.max()
        if highest > _MANY_GRADES or not self.has_whole_labels:
            return self.labels[np.lexsort((-self.labels, self.query_of_document))]
        return grades_best_first(self.labels, self.query_start, int(highest))

    @cached_property
    def _remembered(self) -> dict[Hashable, PerQuery]:
        return {}

    def remember(self, key: Hashable, compute: Callable[[], PerQuery]) -> PerQuery:
        """What `compute` gives, computed once for each key: for what every evaluation needs anew, such as
        the ideal DCG. The oldest of 32 is forgotten."""
        if key not in self._remembered:
            if len(self._remembered) == 32:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[key] = compute()
        return self._remembered[key]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RankingDataset(Judgments):
    """Judged documents with their features, the documents of a query in consecutive rows.

    Args:
        features: (D, F), converted to float32; a missing value is NaN, infinity is refused.
        document_weights: (D,), not negative; how much a document counts in training. Where they are alike
            within each query they become `query_weights`; where not, `query_weights` are their means.
        positions: (D,) int of 0 or more, the rank at which each document was shown when it was clicked; None:
            unknown.
        feature_names: (F,) text, each another; by default "1", "2", ..., as LETOR counts features.
        file_rows: (D,) int, the row, from 0, at which each document stood in what was read, where a reader
            brought the rows of queries together; None: in this order.

    Raises:
        DataError: where a shape or a value is not as said above; the message names the row and the value.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._take_document_weights()
        features = _as_array("features", self.features, np.float32, dimensions=2)
        _check_features(features)
        num_documents, num_features = features.shape
        if num_documents != self.num_documents:
            raise DataError(
                f"features: {num_documents} rows for {self.num_documents} labels; give one row a document."
            )
        names = tuple(str(name) for name in self.feature_names) or _numbered(num_features)
        if len(names) != num_features:
            raise DataError(f"feature_names: {len(names)} names for {num_features} features; give one each.")
        _check_names(names)
        self._set("features", features)
        self._set("feature_names", names)
        if self.positions is not None:
            self._set("positions", _positions(self.positions, num_documents))
        if self.file_rows is not None:
            self._set("file_rows", check_file_rows(self.file_rows, num_documents))

    def _facts(self) -> dict[str, object]:
        facts = super()._facts()
        labels = facts.pop("labels")
        return {**facts, "features": self.num_features, "labels": labels}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        sizes = self.query_sizes
        labels, counts = np.unique(self.labels + 0.0, return_counts=True)
        kinds = {"weights": self.query_weights, "positions": self.positions, "ids": self.document_ids}
        facts = {
            "documents of a query": f"min {sizes.min()}, median {np.median(sizes):g}, max {sizes.max()}",
            "features": _first(self.feature_names),
            "label: documents": _first([f"{label:g}: {n}" for label, n in zip(labels, counts, strict=True)]),
            "also known": ", ".join(kind for kind, values in kinds.items() if values is not None) or "-",
        }
        return Table.of(["", ""], list(facts.items()), caption=repr(self)).html()

    def to_frame(self) -> pd.DataFrame:
        """A row a document: query_id, document_id, label, weight and position as far as they are known, and a
        column a feature. `read_table` reads it back to the same fingerprint.

        Raises:
            DataError: where a feature has the name of one of the other columns, or none.
        """
        # Late, because the readers of tables make data sets.
        from ltrbench.data.formats.table.tables import to_frame

        return to_frame(self)

    def _take_document_weights(self) -> None:
        if self.document_weights is None:
            return
        if self.query_weights is not None:
            raise DataError(
                "query_weights and document_weights are both given; give one of them: the other follows."
            )
        weights = _as_array("document_weights", self.document_weights, np.float64)
        _check_length("document_weights", weights, self.num_documents, "documents")
        bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
        if bad.size:
            raise DataError(
                f"document_weights[{bad[0]}] is {weights[bad[0]]}; a document's weight must be finite, "
                "and 0 or more."
            )
        firsts = weights[self.query_start[:-1]]
        varies = bool((weights != firsts[self.query_of_document]).any())
        with np.errstate(over="ignore"):
            means = np.add.reduceat(weights, self.query_start[:-1]) / self.query_sizes if varies else firsts
        _check_weights(means)
        self._set("query_weights", means)
        self._set("document_weights", weights if varies else None)

    @cached_property
    def weight_of_document(self) -> NDArray[np.float64]:
        """(D,), how much each document counts in training: its own weight, its query's, or 1."""
        if self.document_weights is not None:
            return self.document_weights
        if self.query_weights is not None:
            return self.query_weights[self.query_of_document]
        return np.ones(self.num_documents)

    def with_mean_weight_one(self) -> RankingDataset:
        """The same documents, their weights scaled so that the queries' mean is 1; itself where it is."""
        if self.query_weights is None:
            return self
        scale = 1.0 / self.query_weights.mean()
        if scale == 1.0:
            return self
        if self.document_weights is not None:
            return replace(self, query_weights=None, document_weights=self.document_weights * scale)
        return replace(self, query_weights=self.query_weights * scale)

    def with_feature_names(self, names: Sequence[str]) -> RankingDataset:
        """The same documents, their features under (F,) other names."""
        query_weights = self.query_weights if self.document_weights is None else None
        return replace(self, query_weights=query_weights, feature_names=tuple(names))

    def from_file_order(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """(D,) a value a document in the order of what was read -> in the order of these rows."""
        return values if self.file_rows is None else values[self.file_rows]

    def to_file_order(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """(D,) a value a row -> in the order of what was read."""
        return values if self.file_rows is None else values[np.argsort(self.file_rows)]

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE2b over everything that a backend or a metric can see: the same content, the same fingerprint.

        Document ids and feature names are labels for people and stay out of it.
        """
        digest = hashlib.blake2b(digest_size=16)
        for name in ("features", "labels", "query_start", "query_weights", "document_weights", "positions"):
            array = getattr(self, name)
            if array is not None:
                digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        digest.update("\n".join(self.query_ids.tolist()).encode())
        return digest.hexdigest()

    @cached_property
    def query_keys(self) -> NDArray[np.str_]:
        """(Q,), what each query is by its documents; see `content_keys`."""
        return content_keys(self)

    def take_queries(self, queries: ArrayLike, query_ids: ArrayLike | None = None) -> RankingDataset:
        """The same documents, of the given queries only, in the given order.

        Args:
            queries: (n,) int, numbers of queries, at least one.
            query_ids: (n,) text, each another, what they are called; None: as before, and then each query may
                be taken once only.

        Raises:
            DataError: where there is none, one that does not exist, or two of the same id.
        """
        chosen = _as_array("queries", queries, np.int64)
        if chosen.size == 0:
            raise DataError("A subset of no queries was asked for; a data set needs at least one query.")
        unknown = chosen[(chosen < 0) | (chosen >= self.num_queries)]
        if unknown.size:
            raise DataError(
                f"queries: there is no query {unknown[0]}; they count from 0 to {self.num_queries - 1}."
            )
        sizes = self.query_sizes[chosen]
        query_start = np.concatenate([[0], np.cumsum(sizes)])
        # Row i of the subset lies as far into its query as it did before.
        rows = np.arange(query_start[-1]) + np.repeat(self.query_start[chosen] - query_start[:-1], sizes)
        by_document = self.document_weights is not None
        return RankingDataset(
            features=self.features[rows],
            labels=self.labels[rows],
            query_start=query_start,
            query_ids=self.query_ids[chosen] if query_ids is None else np.asarray(query_ids),
            document_ids=None if self.document_ids is None else self.document_ids[rows],
            query_weights=None if self.query_weights is None or by_document else self.query_weights[chosen],
            document_weights=None if self.document_weights is None else self.document_weights[rows],
            positions=None if self.positions is None else self.positions[rows],
            feature_names=self.feature_names,
            file_rows=None if self.file_rows is None else _ranks(self.file_rows[rows]),
        )


def _ranks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,), how many of the values are lower than each, or equal and before it."""
    return np.argsort(np.argsort(values, kind="stable"))


def _first(names: Sequence[str]) -> str:
    left = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {left} more" if left > 0 else "")


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, count + 1))


def _as_array(name: str, value: ArrayLike, dtype: type[Scalar], dimensions: int = 1) -> NDArray[Scalar]:
    try:
        # What does not fit is not warned of here, but refused further on.
        with np.errstate(over="ignore", invalid="ignore"):
            given = np.asarray(value)
            if given.dtype.kind in _NO_NUMBERS:
                raise TypeError(f"it holds {given.dtype}, not numbers")
            array = np.ascontiguousarray(given, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name}: cannot be read as an array of {np.dtype(dtype).name} ({error}).") from None
    if array.ndim != dimensions:
        raise DataError(f"{name}: has shape {array.shape}; {dimensions} dimension(s) were expected.")
    if np.issubdtype(dtype, np.integer) and given.dtype.kind in "fu" and (array != given).any():
        raise DataError(f"{name}: holds {given[array != given][0]}; whole numbers below 2^63 were expected.")
    return array


def _texts(name: str, value: ArrayLike, count: int, what: str) -> NDArray[np.str_]:
    given = np.asarray(value) if isinstance(value, np.ndarray) else np.asarray(value, dtype=object)
    _check_length(name, given, count, what)
    if given.dtype.kind != "U":
        odd = next((row for row, each in enumerate(given.tolist()) if not is_id(each)), None)
        if odd is not None:
            raise DataError(
                f"{name}[{odd}] is {given[odd]!r}; an id is a text or a number. Give each its id."
            )
    return given.astype(np.str_)


def is_id(value: object) -> bool:
    """Whether a value names something: texts and numbers do, None and NaN do not."""
    # Decimal is no Real to Python; databases export whole numbers as such.
    return isinstance(value, str) or (isinstance(value, (numbers.Real, Decimal)) and value == value)


def _check_no_repeat(query_ids: NDArray[np.str_]) -> None:
    ids, counts = np.unique(query_ids, return_counts=True)
    if (counts > 1).any():
        twice = str(ids[counts > 1][0])
        rows = np.flatnonzero(query_ids == twice)
        raise DataError(
            f"query_ids[{rows[0]}] and query_ids[{rows[1]}] are both {twice!r}; bring the documents of "
            "a query together, or give two queries two ids."
        )


def _check_names(names: tuple[str, ...]) -> None:
    seen: dict[str, int] = {}
    for column, name in enumerate(names):
        if seen.setdefault(name, column) != column:
            raise DataError(
                f"feature_names[{seen[name]}] and feature_names[{column}] are both {name!r}; rename one."
            )


def _positions(value: ArrayLike, num_documents: int) -> NDArray[np.int64]:
    positions = _as_array("positions", value, np.int64)
    _check_length("positions", positions, num_documents, "documents")
    negative = np.flatnonzero(positions < 0)
    if negative.size:
        raise DataError(
            f"positions[{negative[0]}] is {positions[negative[0]]}; a position is a rank, of 0 or more."
        )
    return positions


def check_file_rows(value: ArrayLike, num_documents: int) -> NDArray[np.int64]:
    """The rows at which documents stood in what was read, (D,).

    Raises:
        DataError: where they are not each row once.
    """
    rows = _as_array("file_rows", value, np.int64)
    if not np.array_equal(np.sort(rows), np.arange(num_documents)):
        raise DataError(f"file_rows: must hold each row from 0 to {num_documents - 1} once.")
    return rows


def _check_length(name: str, array: NDArray[Any], count: int, what: str) -> None:
    if array.shape != (count,):
        raise DataError(
            f"{name}: has shape {array.shape}, but there are {count} {what}; give one value each."
        )


def _check_query_start(query_start: QueryStart, num_documents: int) -> None:
    if len(query_start) < 2 or query_start[0] != 0 or query_start[-1] != num_documents:
        raise DataError(
            f"query_start must begin with 0 and end with the number of documents, {num_documents}; "
            f"it is {np.array2string(query_start, threshold=6)}."
        )
    empty = np.flatnonzero(np.diff(query_start) <= 0)
    if empty.size:
        query = int(empty[0])
        raise DataError(
            f"query_start[{query}:{query + 2}] is {query_start[query : query + 2].tolist()}: query {query} "
            "has no document. query_start must increase; leave out empty queries."
        )


def _check_features(features: Features) -> None:
    if features.shape[1] == 0:
        raise DataError("features: there is no feature column; a ranker needs at least one.")
    infinite = np.isinf(features)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise DataError(
            f"features[{row}, {column}] is {features[row, column]} in float32; features must be finite. "
            "Write NaN for a missing value and rescale what exceeds float32."
        )


def _check_labels(labels: Labels) -> None:
    bad = np.flatnonzero(~np.isfinite(labels) | (labels < 0))
    if bad.size:
        raise DataError(f"labels[{bad[0]}] is {labels[bad[0]]}; a label is a finite grade of 0 or more.")


def _check_weights(weights: NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~np.isfinite(weights) | (weights <= 0))
    if bad.size:
        raise DataError(
            f"query_weights[{bad[0]}] is {weights[bad[0]]}; a weight must be positive and finite. "
            "Leave out a query that should not count."
        )
    # Runs scale weights to a mean of 1, which must leave each one what it is.
    with np.errstate(over="ignore", divide="ignore"):
        scaled = weights * (1.0 / weights.mean())
    bad = np.flatnonzero(~np.isfinite(scaled) | (scaled <= 0))
    if bad.size:
        raise DataError(
            f"query_weights[{bad[0]}] is {weights[bad[0]]}, which scaled to a mean of 1 is {scaled[bad[0]]} "
            "in double precision. Give weights nearer to 1."
        )
