"""The rows of a source brought together by query: what every reader ends in.

A reader knows where each row stands (`PlaceOfRow`), so that an error about two rows names both places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError
from ltrbench.shapes import QueryStart

_Column = TypeVar("_Column", bound=NDArray[Any])
PlaceOfRow = Callable[[int], str]  # a row, from 0 to D - 1 as it was read -> `path:line`


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Which rows make which query."""

    query_start: QueryStart  # (Q + 1,)
    query_ids: NDArray[np.str_]  # (Q,)
    file_rows: NDArray[np.int64] | None  # (D,), the row as it was read; None: as it stands

    def take(self, column: _Column) -> _Column:
        """(D, ...) values as they were read -> by query; no copy where that is the same."""
        return column if self.file_rows is None else column[self.file_rows]  # type: ignore[return-value]


def gather(queries: Sequence[str], sort_queries: bool, place: PlaceOfRow) -> Gathered:
    """Gathers the rows of each query, in the order of each query's first row.

    Args:
        queries: (D,), D at least 1, the query of each row as it was read.
        sort_queries: whether the rows of a query may be scattered.

    Raises:
        DataError: where they are scattered and may not be.
    """
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(query, len(number_of)) for query in queries])
    # A query that comes back has the number of its first run, which is lower than that of the row before.
    comes_back = np.flatnonzero(np.diff(numbers) < 0) + 1
    if comes_back.size and not sort_queries:
        row = int(comes_back[0])
        last = int(np.flatnonzero(numbers[:row] == numbers[row])[-1])
        raise DataError(
            f"{place(row)}: query {queries[row]!r} comes back after another one; its documents ended at "
            f"{place(last)}. The rows of a query must stand together: bring them together with "
            "sort_queries=true (in a run data.sort_queries=true), or give the two runs of rows different ids "
            "if they are two queries."
        )
    return Gathered(
        query_start=np.concatenate([[0], np.cumsum(np.bincount(numbers))]),
        query_ids=np.array(list(number_of)),
        file_rows=np.argsort(numbers, kind="stable") if comes_back.size else None,
    )


def check_some_weight(weights: NDArray[np.float64], gathered: Gathered, place: PlaceOfRow) -> None:
    """Raises DataError where all documents of a query weigh nothing; weights are (D,), by query."""
    nothing = np.flatnonzero(np.maximum.reduceat(weights, gathered.query_start[:-1]) == 0)
    if nothing.size:
        row = gathered.query_start[nothing[0]]
        first = int(row if gathered.file_rows is None else gathered.file_rows[row])
        query = str(gathered.query_ids[nothing[0]])
        raise DataError(
            f"{place(first)}: query {query!r} begins here, and all its documents have the weight "
            "0. Leave out a query that should not count, or give one of its documents a weight."
        )
