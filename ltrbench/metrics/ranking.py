"""Ranking: the documents of every query in descending order of score, with runs of tied scores marked.

All metrics read this structure, so scores are sorted once for any number of metrics. Under a policy that
orders tied documents every run has one document. Only under EXPECTED a run can have more; a metric is then
the expected value over all orders of the run. One implementation of a metric therefore serves all policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics.convention import Ties
from ltrbench.shapes import Labels, PerQuery, QueryStart, Scores

LONGEST = 2**31 - 1
"""Cutoff without effect: no list is longer, and it fits the integers of the kernels."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in ranked order: the P places of all queries, one query after another.

    Attributes:
        judgments: ranked documents; row i of its arrays is a document, not a place.
        order: (P,), row of the document at each place.
        place_start: (Q + 1,), first place of each query, then P.
        tie_start: (T,), first place of each run of tied scores.
    """

    judgments: Judgments
    order: NDArray[np.int64]
    place_start: QueryStart
    tie_start: NDArray[np.int64]

    @cached_property
    def labels(self) -> Labels:
        """(P,), label of the document at each place."""
        return self.judgments.labels[self.order]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """(P,), rank of each place in its query, from 0."""
        return _ranks(self.place_start)

    @cached_property
    def has_ties(self) -> bool:
        return len(self.tie_start) < len(self.order)

    @cached_property
    def tie_size(self) -> NDArray[np.int64]:
        """(T,), number of documents in each run of tied scores."""
        return np.diff(np.append(self.tie_start, len(self.order)))

    @cached_property
    def tie(self) -> NDArray[np.int64]:
        """(P,), index of the run of tied scores that contains each place, from 0."""
        return np.repeat(np.arange(len(self.tie_start)), self.tie_size)

    @cached_property
    def run_end(self) -> NDArray[np.int64]:
        """(P,), place after the end of the run that contains each place."""
        return (self.tie_start + self.tie_size)[self.tie]

    def tie_mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns (P,) values, each replaced by the mean over its run of tied scores.

        This is the expected value at a place if all orders of tied documents are equally likely.
        """
        if not self.has_ties:
            return values
        from ltrbench.metrics.kernels import run_means

        return run_means(values, self.tie_start)

    def sum_first(
        self, values: NDArray[np.float64], k: int | None, factors: NDArray[np.float64] | None = None
    ) -> PerQuery:
        """Returns (Q,), the sum of the values over the first k places of each query; k=None: all places.

        Args:
            factors: (largest query,), factor of the value at each rank.
        """
        return sum_queries(*first_of_queries(values, self.place_start, k), factors)


def first_of_queries(
    values: NDArray[np.float64], start: QueryStart, k: int | None
) -> tuple[NDArray[np.float64], QueryStart]:
    """Returns the first k values of each query (None: all) and (Q + 1,), the start of each query in them."""
    sizes = np.diff(start)
    if k is None or k >= sizes.max():
        return values, start
    # Selecting the first k places first is most of the speed of a metric with a cutoff.
    kept_start = np.concatenate([[0], np.cumsum(np.minimum(sizes, k))])
    places = _ranks(kept_start) + np.repeat(start[:-1], np.diff(kept_start))
    return values[places], kept_start


def sum_queries(
    values: NDArray[np.float64], start: QueryStart, factors: NDArray[np.float64] | None = None
) -> PerQuery:
    """Returns (Q,), the sum of the values of each query, multiplied by `factors` by rank if given."""
    weighted = values if factors is None else values * factors[_ranks(start)]
    sums: PerQuery = np.add.reduceat(weighted, start[:-1])
    return sums


def _ranks(start: QueryStart) -> NDArray[np.int64]:
    return np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))


def rank(judgments: Judgments, scores: Scores, ties: Ties = Ties.EXPECTED, depth: int = LONGEST) -> Ranking:
    """Ranks the documents of every query by score, highest first.

    Args:
        scores: (D,), one per document, of any real dtype: values equal in that dtype are ties.
        ties: order of tied documents.
        depth: number of places needed per query. Later places are left out, except those of a run of tied
            scores that crosses the limit. Ten of a hundred places take a fifth of the time of all.

    Raises:
        DataError: If the number of scores differs from the number of documents, or a score is NaN.
        UndefinedMetricError: If ties are ordered by document id and the documents have no ids.
    """
    scores = np.asarray(scores)
    _check_scores(judgments, scores)
    keys = np.ascontiguousarray(scores, dtype=np.float64)
    tied_first = _tied_first(judgments, ties)
    if tied_first is None:
        order, place_start = _order(keys, judgments.query_start, depth)
    else:
        order, place_start = _order(keys[tied_first], judgments.query_start, depth)
        order = tied_first[order]
    in_order = keys[order]
    starts_run = np.ones(len(order), dtype=np.bool_)
    if ties is Ties.EXPECTED:
        starts_run[1:] = in_order[1:] != in_order[:-1]
        starts_run[place_start[:-1]] = True
    return Ranking(judgments, order, place_start, np.flatnonzero(starts_run))


def _tied_first(judgments: Judgments, ties: Ties) -> NDArray[np.int64] | None:
    """Returns (D,), the rows of each query in the order of the tie policy; None: in row order."""
    if ties in (Ties.EXPECTED, Ties.ROW_ORDER):
        return None
    if ties is Ties.DOCUMENT_ID:
        if judgments.document_ids is None:
            raise UndefinedMetricError(
                "the convention orders ties by document id, but the data set has no document ids; add them "
                "(LETOR format: the comment # docid = ID), or choose another convention."
            )
        # Descending ids within ascending queries: lexsort ascends, so queries are negated and rows reversed.
        return np.lexsort((judgments.document_ids, -judgments.query_of_document))[::-1]
    keys = -judgments.labels if ties is Ties.WORST else judgments.labels
    return _order(keys, judgments.query_start, LONGEST)[0]


def _order(
    keys: NDArray[np.float64], query_start: QueryStart, depth: int
) -> tuple[NDArray[np.int64], QueryStart]:
    # Imported here because importing numba is slow and `--help` does not need it.
    from ltrbench.metrics.kernels import order_within_queries

    keys = keys.view()
    keys.flags.writeable = False  # numba compiles a second version for writeable arrays
    return order_within_queries(keys, query_start, depth)


def _check_scores(judgments: Judgments, scores: Scores) -> None:
    if scores.shape != (judgments.num_documents,):
        raise DataError(
            f"scores have shape {scores.shape}, but the data set has {judgments.num_documents} documents; "
            "give one score per document, in row order."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(f"scores[{missing[0]}] is NaN; give every document a score.")
