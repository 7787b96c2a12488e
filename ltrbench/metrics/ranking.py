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


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in ranked order: position i of every (D,) array is the i-th place of the concatenated
    rankings.

    Attributes:
        judgments: the ranked documents; row i of its arrays is a document, not a place.
        order: (D,), the row of the document at each place.
        tie_start: (T,), the first place of each of the T runs of tied scores.
    """

    judgments: Judgments
    order: NDArray[np.int64]
    tie_start: NDArray[np.int64]

    @property
    def query_start(self) -> QueryStart:
        return self.judgments.query_start

    @cached_property
    def labels(self) -> Labels:
        """(D,), the label of the document at each place."""
        return self.judgments.labels[self.order]

    @cached_property
    def has_ties(self) -> bool:
        return len(self.tie_start) < len(self.order)

    @cached_property
    def tie_size(self) -> NDArray[np.int64]:
        """(T,), the number of documents in each run of tied scores."""
        return np.diff(np.append(self.tie_start, len(self.order)))

    @cached_property
    def tie(self) -> NDArray[np.int64]:
        """(D,), the number of the run of tied scores that a place belongs to, from 0."""
        return np.repeat(np.arange(len(self.tie_start)), self.tie_size)

    @cached_property
    def run_end(self) -> NDArray[np.int64]:
        """(D,), the place after the last one of the run that a place belongs to."""
        return (self.tie_start + self.tie_size)[self.tie]

    def tie_mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(D,), each place's value replaced by the mean over its run of tied scores.

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
        return sum_first(values, self.judgments, k, factors)


def sum_first(
    values: NDArray[np.float64],
    judgments: Judgments,
    k: int | None,
    factors: NDArray[np.float64] | None = None,
) -> PerQuery:
    """(Q,), the sum over the first k of each query's (D,) values, times `factors` by rank where given."""
    starts, sizes = judgments.query_start[:-1], judgments.query_sizes
    if k is not None and k < sizes.max():
        # Only those places are looked at, which is most of the speed of a metric with a cutoff.
        sizes = np.minimum(sizes, k)
        first = np.cumsum(sizes) - sizes
        ranks = np.arange(sizes.sum()) - np.repeat(first, sizes)
        values = values[ranks + np.repeat(starts, sizes)]
    else:
        first, ranks = starts, judgments.ranks_of_rows
    sums: PerQuery = np.add.reduceat(values if factors is None else values * factors[ranks], first)
    return sums


def rank(judgments: Judgments, scores: Scores, ties: Ties = Ties.EXPECTED) -> Ranking:
    """Ranks the documents of every query by score, highest first.

    Args:
        scores: (D,), one a document, of any real dtype: values equal in that dtype are ties.
        ties: how tied documents are ranked.

    Raises:
        DataError: where the number of scores is not that of the documents, or a score is NaN.
        UndefinedMetricError: where ties go by document id and the documents have none.
    """
    # Imported here, because `--help` ranks nothing and would wait for numba.
    from ltrbench.metrics.kernels import order_within_queries

    scores = np.asarray(scores)
    _check_scores(judgments, scores)
    keys = np.ascontiguousarray(scores, dtype=np.float64)
    order = order_within_queries(keys, judgments.query_start, _tied_first(judgments, ties))
    in_order = keys[order]
    starts_run = np.ones(len(order), dtype=np.bool_)
    if ties is Ties.EXPECTED:
        starts_run[1:] = in_order[1:] != in_order[:-1]
        starts_run[judgments.query_start[:-1]] = True
    return Ranking(judgments, order, np.flatnonzero(starts_run))


def _tied_first(judgments: Judgments, ties: Ties) -> NDArray[np.int64]:
    """(D,), the rows of each query in the order in which they stand where their scores tie."""
    rows = np.arange(judgments.num_documents)
    if ties in (Ties.EXPECTED, Ties.ROW_ORDER):
        return rows
    if ties is Ties.DOCUMENT_ID:
        if judgments.document_ids is None:
            raise UndefinedMetricError(
                "ties go by document id here, but the data has no document ids; give them (in LETOR's "
                "format as a comment, # docid = ID), or take another convention."
            )
        # What sorts last comes first; lexsort is stable and rises, so the rows are turned round twice.
        falling = np.lexsort((judgments.document_ids, -judgments.query_of_document))[::-1]
        return np.ascontiguousarray(falling)  # a kernel is compiled anew for another layout
    sign = 1.0 if ties is Ties.WORST else -1.0
    return np.lexsort((sign * judgments.labels, judgments.query_of_document))


def _check_scores(judgments: Judgments, scores: Scores) -> None:
    if scores.shape != (judgments.num_documents,):
        raise DataError(
            f"scores have shape {scores.shape}, but the data set has {judgments.num_documents} documents; "
            "give one score a document, in the order of the rows."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(f"scores[{missing[0]}] is NaN; a document without a score cannot be ranked.")
