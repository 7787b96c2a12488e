"""Ranking: the documents of every query put in order of their scores, with the runs of tied scores marked.

All metrics read this one structure, so that a score vector is sorted once however many metrics are asked for.
A policy that puts tied documents in some order leaves every run with one document; only under EXPECTED has a
run more, and a metric counts the expected value over all orders of them. So a metric is written once.
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
"""No list is longer, and a kernel's integers hold it: the cutoff that cuts nothing."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in ranked order, the P places of all queries one after another.

    Attributes:
        judgments: the ranked documents; row i of its arrays is a document, not a place.
        order: (P,), the row of the document at each place.
        place_start: (Q + 1,), the first place of each query, and P at the end.
        tie_start: (T,), the first place of each of the T runs of tied scores.
    """

    judgments: Judgments
    order: NDArray[np.int64]
    place_start: QueryStart
    tie_start: NDArray[np.int64]

    @cached_property
    def labels(self) -> Labels:
        """(P,), the label of the document at each place."""
        return self.judgments.labels[self.order]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """(P,), how far each place lies from the top of its query, from 0."""
        return _ranks(self.place_start)

    @cached_property
    def has_ties(self) -> bool:
        return len(self.tie_start) < len(self.order)

    @cached_property
    def tie_size(self) -> NDArray[np.int64]:
        """(T,), the number of documents in each run of tied scores."""
        return np.diff(np.append(self.tie_start, len(self.order)))

    @cached_property
    def tie(self) -> NDArray[np.int64]:
        """(P,), the number of the run of tied scores that a place belongs to, from 0."""
        return np.repeat(np.arange(len(self.tie_start)), self.tie_size)

    @cached_property
    def run_end(self) -> NDArray[np.int64]:
        """(P,), the place after the last one of the run that a place belongs to."""
        return (self.tie_start + self.tie_size)[self.tie]

    def tie_mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P,), each place's value replaced by the mean over its run of tied scores.

        This is the expected value at a place when all orders of tied documents are equally likely.
        """
        if not self.has_ties:
            return values
        from ltrbench.metrics.kernels import run_means

        return run_means(values, self.tie_start)

    def sum_first(
        self, values: NDArray[np.float64], k: int | None, factors: NDArray[np.float64] | None = None
    ) -> PerQuery:
        """(Q,), the sum of a value over the first k places of each query, or over all for None.

        Args:
            factors: (largest query,), what the value at each rank is multiplied by.
        """
        return sum_queries(*first_of_queries(values, self.place_start, k), factors)


def first_of_queries(
    values: NDArray[np.float64], start: QueryStart, k: int | None
) -> tuple[NDArray[np.float64], QueryStart]:
    """The first k of each query's values, or all for None, and (Q + 1,) where each query starts in them."""
    sizes = np.diff(start)
    if k is None or k >= sizes.max():
        return values, start
    # Only those places are looked at, which is most of the speed of a metric with a cutoff.
    kept_start = np.concatenate([[0], np.cumsum(np.minimum(sizes, k))])
    places = _ranks(kept_start) + np.repeat(start[:-1], np.diff(kept_start))
    return values[places], kept_start


def sum_queries(
    values: NDArray[np.float64], start: QueryStart, factors: NDArray[np.float64] | None = None
) -> PerQuery:
    """(Q,), the sum of each query's values, times `factors` by rank where given."""
    weighted = values if factors is None else values * factors[_ranks(start)]
    sums: PerQuery = np.add.reduceat(weighted, start[:-1])
    return sums


def _ranks(start: QueryStart) -> NDArray[np.int64]:
    return np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))


def rank(judgments: Judgments, scores: Scores, ties: Ties = Ties.EXPECTED, depth: int = LONGEST) -> Ranking:
    """Ranks the documents of every query by score, highest first.

    Args:
        scores: (D,), one a document, of any real dtype: values equal in that dtype are ties.
        ties: how tied documents are ranked.
        depth: how many of its first places are read of a query: those behind are left out, except of the run
            of tied scores that reaches across. Ten of a hundred take a fifth of the time of all.

    Raises:
        DataError: where the number of scores is not that of the documents, or a score is NaN.
        UndefinedMetricError: where ties go by document id and the documents have none.
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
    """(D,), the rows of each query in the order in which ties leave them; None: that of the rows."""
    if ties in (Ties.EXPECTED, Ties.ROW_ORDER):
        return None
    if ties is Ties.DOCUMENT_ID:
        if judgments.document_ids is None:
            raise UndefinedMetricError(
                "ties go by document id here, but the data has no document ids; give them (in LETOR's "
                "format as a comment, # docid = ID), or take another convention."
            )
        # What sorts last comes first; lexsort is stable and rises, so the rows are turned round twice.
        return np.lexsort((judgments.document_ids, -judgments.query_of_document))[::-1]
    keys = -judgments.labels if ties is Ties.WORST else judgments.labels
    return _order(keys, judgments.query_start, LONGEST)[0]


def _order(
    keys: NDArray[np.float64], query_start: QueryStart, depth: int
) -> tuple[NDArray[np.int64], QueryStart]:
    # Imported here, because `--help` ranks nothing and would wait for numba.
    from ltrbench.metrics.kernels import order_within_queries

    keys = keys.view()
    keys.flags.writeable = False  # a kernel is compiled once for read-only arrays, once for others
    return order_within_queries(keys, query_start, depth)


def _check_scores(judgments: Judgments, scores: Scores) -> None:
    if scores.shape != (judgments.num_documents,):
        raise DataError(
            f"scores have shape {scores.shape}, but the data set has {judgments.num_documents} documents; "
            "give one score a document, in the order of the rows."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(f"scores[{missing[0]}] is NaN; a document without a score cannot be ranked.")
