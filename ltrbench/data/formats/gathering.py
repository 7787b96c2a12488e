"""Grouping of rows by query: the last step of every reader.

A reader passes the place of each row (`PlaceOfRow`), so that an error about two rows names both places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, SparseRows, is_mapped, rows_in_order
from ltrbench.errors import DataError
from ltrbench.shapes import Features, QueryStart

_Column = TypeVar("_Column", bound=NDArray[Any])
PlaceOfRow = Callable[[int], str]  # row in the source, 0 to D - 1 -> `path:line`


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Rows grouped by query."""

    query_start: QueryStart  # (Q + 1,)
    query_ids: NDArray[np.str_]  # (Q,)
    file_rows: NDArray[np.int64] | None  # (D,), row in the source; None: same order as the source

    def take(self, column: _Column) -> _Column:
        """Reorders (D, ...) values from source order to query order, without a copy if the orders agree."""
        return column if self.file_rows is None else column[self.file_rows]  # type: ignore[return-value]

    def take_features(self, features: AnyFeatures) -> AnyFeatures:
        """Reorders (D, F) features likewise; features in a file stay there, and become read-only."""
        in_file = isinstance(features, np.ndarray) and is_mapped(features)
        if isinstance(features, np.ndarray) and in_file:
            features.flags.writeable = False  # so that blocks which were read need no memory
        if self.file_rows is None or not (in_file or isinstance(features, SparseRows)):
            return self.take(cast(Features, features))
        return rows_in_order(features, self.file_rows)


def gather(queries: Sequence[str], sort_queries: bool, place: PlaceOfRow) -> Gathered:
    """Groups rows by query, in the order of each query's first row.

    Args:
        queries: (D,), D at least 1, query id of each row of the source.
        sort_queries: whether the rows of a query may be scattered.

    Raises:
        DataError: The rows of a query are scattered, and `sort_queries` is false.
    """
    return gather_runs(queries, np.ones(len(queries), dtype=np.int64), sort_queries, place)


def gather_runs(
    queries: Sequence[str], sizes: NDArray[np.int64], sort_queries: bool, place: PlaceOfRow
) -> Gathered:
    """Groups rows by query like `gather`, given runs of consecutive rows of one query.

    Args:
        queries: (R,), R at least 1, query id of each run.
        sizes: (R,), number of rows of each run, at least 1.

    Raises:
        DataError: The rows of a query are scattered, and `sort_queries` is false.
    """
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(query, len(number_of)) for query in queries])
    # A query that occurs again has its first number, which is lower than the number of the run before.
    comes_back = np.flatnonzero(np.diff(numbers) < 0) + 1
    if comes_back.size and not sort_queries:
        run = int(comes_back[0])
        before = int(np.flatnonzero(numbers[:run] == numbers[run])[-1])
        raise DataError(
            f"{place(int(sizes[:run].sum()))}: query {queries[run]!r} occurs again after other queries; its "
            f"earlier rows end at {place(int(sizes[: before + 1].sum()) - 1)}. The rows of a query must be "
            "consecutive. Set sort_queries=true (in a run data.sort_queries=true) to group them, or use "
            "different ids if these are two queries."
        )
    query_sizes = np.zeros(len(number_of), dtype=np.int64)
    np.add.at(query_sizes, numbers, sizes)
    return Gathered(
        query_start=np.concatenate([[0], np.cumsum(query_sizes)]),
        query_ids=np.array(list(number_of)),
        file_rows=np.argsort(np.repeat(numbers, sizes), kind="stable") if comes_back.size else None,
    )


def check_some_weight(weights: NDArray[np.float64], gathered: Gathered, place: PlaceOfRow) -> None:
    """Raises DataError if all documents of a query have weight 0; weights are (D,), in query order."""
    nothing = np.flatnonzero(np.maximum.reduceat(weights, gathered.query_start[:-1]) == 0)
    if nothing.size:
        row = gathered.query_start[nothing[0]]
        first = int(row if gathered.file_rows is None else gathered.file_rows[row])
        query = str(gathered.query_ids[nothing[0]])
        raise DataError(
            f"{place(first)}: all documents of query {query!r}, which starts here, have weight 0. Remove "
            "the query, or set a positive weight for one of its documents."
        )
