"""Ranking: the documents of every query put in order of their scores, with the runs of tied scores marked.

All metrics read this one structure, so that a score vector is sorted once however many metrics are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import DataError
from ltrbench.shapes import Labels, QueryStart, Scores


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in ranked order: position i of every (D,) array is the i-th place of the concatenated
    rankings.

    Attributes:
        labels: (D,), the label of the document at each place.
        ideal_labels: (D,), the label at each place of the best possible ranking.
        query_start: (Q + 1,), as in the data set.
        query: (D,), the query of each place.
        ranks: (D,), the rank of each place in its query, from 0.
        tie: (D,), the number of the run of tied scores that a place belongs to, from 0.
        tie_start: (T,), the first place of each of the T runs of tied scores.
    """

    labels: Labels
    ideal_labels: Labels
    query_start: QueryStart
    query: NDArray[np.int64]
    ranks: NDArray[np.int64]
    tie: NDArray[np.int64]
    tie_start: NDArray[np.int64]

    @cached_property
    def tie_size(self) -> NDArray[np.int64]:
        """(T,), the number of documents in each run of tied scores."""
        return np.diff(np.append(self.tie_start, len(self.labels)))

    def tie_mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(D,), each value replaced by the mean over its run of tied scores.

        This is the expected value at a place when all orders of tied documents are equally likely.
        """
        if len(self.tie_start) == len(values):
            return values
        means: NDArray[np.float64] = np.add.reduceat(values, self.tie_start) / self.tie_size
        return means[self.tie]

    def sum_by_query(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(Q,), the sum of a value over the places of each query."""
        return np.add.reduceat(values, self.query_start[:-1])


def rank(judgments: Judgments, scores: Scores) -> Ranking:
    """Ranks the documents of every query by score, highest first.

    Args:
        scores: (D,), one a document, of any real dtype: values equal in that dtype are ties.

    Raises:
        DataError: where the number of scores is not that of the documents, or a score is NaN.
    """
    scores = np.asarray(scores)
    if not np.issubdtype(scores.dtype, np.floating):
        scores = scores.astype(np.float64)  # so that unsigned scores can be negated
    _check_scores(judgments, scores)
    by_score = np.argsort(-scores)
    # A stable sort of the queries keeps the order by score inside each; it is a radix sort where 16 bits
    # suffice.
    query_of_document = judgments.query_of_document
    if judgments.num_queries <= np.iinfo(np.uint16).max:
        query_of_document = query_of_document.astype(np.uint16)
    order = by_score[np.argsort(query_of_document[by_score], kind="stable")]

    sorted_scores = scores[order]
    starts_run = np.ones(len(order), dtype=np.bool_)
    starts_run[1:] = sorted_scores[1:] != sorted_scores[:-1]
    starts_run[judgments.query_start[:-1]] = True
    query = judgments.query_of_document
    return Ranking(
        labels=judgments.labels[order],
        ideal_labels=judgments.labels_best_first,
        query_start=judgments.query_start,
        query=query,
        ranks=np.arange(len(order)) - judgments.query_start[query],
        tie=np.cumsum(starts_run) - 1,
        tie_start=np.flatnonzero(starts_run),
    )


def _check_scores(judgments: Judgments, scores: Scores) -> None:
    if scores.shape != (judgments.num_documents,):
        raise DataError(
            f"scores have shape {scores.shape}, but the data set has {judgments.num_documents} documents; "
            "give one score a document, in the order of the rows."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(f"scores[{missing[0]}] is NaN; a document without a score cannot be ranked.")
