"""The members of a fit: the processes that fit one model together, each with a part of the training queries.

Every member grows the same trees. It computes the gradients of its queries and the histograms of its
documents; the members then add up their histograms. Random numbers are drawn for the whole training set, by
the number of the query or of the document in it, and each member takes its part. The model has the same bits
as that of a fit in one process, which has one member, `ALONE`.

Shapes: Q queries and D documents of the whole training set; q queries and d documents of this member.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Team(Protocol):
    """What one member exchanges with the others; every member must make the same calls in the same order.

    Attributes:
        rank: number of this member, from 0.
        size: number of members.
    """

    rank: int
    size: int

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the elementwise sum over all members."""

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the elementwise maximum over all members."""

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the one-dimensional arrays of all members by rank; their lengths may differ."""


class Alone:
    """The only member of a fit in one process: a `Team`."""

    rank = 0
    size = 1

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        return [values]


ALONE = Alone()


class DocumentDraws(Protocol):
    """Random numbers for the documents of this member; a `np.random.Generator` if it is the only one."""

    def random(self, size: Any, /) -> Any:
        """Returns uniform random numbers in [0, 1); the first dimension is that of documents."""

    def integers(self, high: int, /) -> Any:
        """Returns one random integer from 0 to below `high`, the same for every member."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The numbers of this member's queries and documents within the whole training set.

    Attributes:
        team: the members.
        queries: (q,), numbers of this member's queries, ascending.
        query_sizes: (Q,), number of documents of every query of the whole set.
        all_queries: (Q,), numbers of the queries of all members, by rank.
    """

    team: Team
    queries: NDArray[np.int64]
    query_sizes: NDArray[np.int64]
    all_queries: NDArray[np.int64]

    @classmethod
    def alone(cls, query_sizes: NDArray[np.int64]) -> Self:
        """Returns the placement of a fit in one process."""
        queries = np.arange(len(query_sizes))
        return cls(ALONE, queries, query_sizes, queries)

    @classmethod
    def among(
        cls, team: Team, queries: NDArray[np.int64], query_sizes: NDArray[np.int64]
    ) -> Self:
        """Returns the placement of a member; every member must call this.

        Args:
            team: the members.
            queries: (q,), numbers of this member's queries, ascending.
            query_sizes: (q,), number of documents of these queries.
        """
        all_queries, all_sizes = (
            np.concatenate(team.joined(part)) for part in (queries, query_sizes)
        )
        return cls(team, queries, all_sizes[np.argsort(all_queries)], all_queries)

    @property
    def is_alone(self) -> bool:
        return self.team.size == 1

    @property
    def num_queries(self) -> int:
        return len(self.query_sizes)

    @cached_property
    def num_documents(self) -> int:
        return int(self.query_sizes.sum())

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(d,), numbers of this member's documents in the whole set, ascending."""
        is_here = np.zeros(self.num_queries, dtype=np.bool_)
        is_here[self.queries] = True
        return np.flatnonzero(np.repeat(is_here, self.query_sizes))

    def queries_here(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices, among this member's queries, of queries of the whole set."""
        if self.is_alone:
            return queries
        return _indices_of(self.queries, queries, self.num_queries)

    def rows_here(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Returns the indices, among this member's documents, of documents of the whole set."""
        if self.is_alone:
            return rows
        return _indices_of(self.rows, rows, self.num_documents).astype(rows.dtype)

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the (D,) values of all documents, given the (d,) values of this member's documents."""
        if self.is_alone:
            return values
        joined = np.concatenate(self.team.joined(values))
        ordered = np.empty_like(joined)
        ordered[self._all_rows] = joined
        return ordered

    @cached_property
    def _all_rows(self) -> NDArray[np.int64]:
        """(D,), the rows of all members by rank."""
        query_start = np.cumsum(self.query_sizes) - self.query_sizes
        sizes = self.query_sizes[self.all_queries]
        start_by_rank = np.cumsum(sizes) - sizes
        shifts = query_start[self.all_queries] - start_by_rank
        of_documents: NDArray[np.int64] = np.repeat(shifts, sizes)
        return np.arange(self.num_documents) + of_documents

    def draws(self, rng: np.random.Generator) -> DocumentDraws:
        """Returns the random numbers of this member's documents."""
        if self.is_alone:
            return rng
        return _DrawsHere(self, rng)


def _indices_of(
    here: NDArray[np.int64], numbers: NDArray[Any], count: int
) -> NDArray[np.int64]:
    """Returns the ascending indices of `here` whose elements are in `numbers`, all below `count`."""
    is_in = np.zeros(count, dtype=np.bool_)
    is_in[numbers] = True
    return np.flatnonzero(is_in[here])


class _DrawsHere:
    """Draws for the whole training set, of which the rows of this member are returned."""

    def __init__(self, placement: Placement, rng: np.random.Generator) -> None:
        self._placement = placement
        self._rng = rng

    def random(self, size: int | tuple[int, ...], /) -> NDArray[np.float64]:
        shape = [self._placement.num_documents]
        if not isinstance(size, int):
            shape += size[1:]
        return self._rng.random(shape)[self._placement.rows]

    def integers(self, high: int, /) -> Any:
        return self._rng.integers(high)
