"""Scores and rankings of a converted model against those of the original. D documents, Q queries.

A pair of documents of a query is ordered if its original scores differ by more than the rounding bounds of
the two documents together (`rounding`); otherwise it counts as tied. The ranking of a query has changed if
the converted scores of an ordered pair are equal or in the other order. An engine that makes the same
decisions in all trees never changes a ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.metrics import Convention, evaluate
from ltrbench.shapes import Scores
from ltrbench.statistics import PairedSample, compare_pairs

METRIC = "ndcg@10"

_CELLS = 1 << 22
"""Number of pairs that are compared at a time."""


@dataclass(frozen=True)
class ChangedPair:
    """Two documents of a query that the converted model orders in another way; the first was ranked higher.

    Attributes:
        query: index of the query.
        first, second: rows of the documents.
    """

    query: int
    first: int
    second: int


@dataclass(frozen=True)
class MetricLoss:
    """The metric of both models, and the loss: original minus converted.

    Attributes:
        original, converted: means over queries.
        loss: 0 for equal rankings.
        low, high: 95 % interval of the loss, paired over queries; None if it is not available.
        note: why there is no interval, or "identical".
    """

    original: float
    converted: float
    loss: float
    low: float | None
    high: float | None
    note: str


@dataclass(frozen=True)
class RankingComparison:
    """Converted scores against original scores.

    Attributes:
        num_documents, num_queries: what was compared.
        num_equal: documents with exactly the same score.
        largest_difference: largest absolute difference of two scores.
        beyond_rounding: rows of the documents whose scores differ by more than rounding.
        changed_queries: indices of the queries whose ranking has changed.
        reversed_pairs: ordered pairs in the other order.
        tied_pairs: ordered pairs with equal converted scores.
        reversed_within_rounding: pairs that count as tied, in the other order.
        tied_within_rounding: pairs that count as tied, and have different original and equal converted
            scores.
        example: a pair of the first changed query, the one with the largest difference of original scores.
        metric: NDCG@10 of both; None if no query counts or there are no labels.
    """

    num_documents: int
    num_queries: int
    num_equal: int
    largest_difference: float
    beyond_rounding: NDArray[np.int64]
    changed_queries: tuple[int, ...] = ()
    reversed_pairs: int = 0
    tied_pairs: int = 0
    reversed_within_rounding: int = 0
    tied_within_rounding: int = 0
    example: ChangedPair | None = None
    metric: MetricLoss | None = None


def compare_scores(
    judgments: Judgments,
    original: Scores,
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
    convention: Convention,
) -> RankingComparison:
    """Compares (D,) converted scores, without their offset, with (D,) original scores.

    Args:
        bounds: (D,), rounding bounds of the documents.
        convention: convention of NDCG@10.
    """
    scores = original.astype(np.float64)
    differences = difference_of(scores, converted)
    counts = _Counts()
    for query in _reordered_queries(judgments, scores, converted):
        counts.add(query, judgments, scores, converted, bounds)
    return RankingComparison(
        num_documents=judgments.num_documents,
        num_queries=judgments.num_queries,
        num_equal=int((differences == 0).sum()),
        largest_difference=float(differences.max()),
        beyond_rounding=np.flatnonzero(differences > bounds),
        changed_queries=tuple(counts.changed),
        reversed_pairs=counts.reversed_pairs,
        tied_pairs=counts.tied_pairs,
        reversed_within_rounding=counts.reversed_within,
        tied_within_rounding=counts.tied_within,
        example=counts.example,
        metric=_metric_loss(judgments, original, converted, convention),
    )


def difference_of(original: NDArray[np.float64], converted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the absolute differences; 0 for equal infinities, infinity if only one score is a number."""
    with np.errstate(invalid="ignore"):
        differences = np.abs(converted - original)
    same = (converted == original) | (np.isnan(converted) & np.isnan(original))
    return np.where(same, 0.0, np.where(np.isfinite(differences), differences, np.inf))


def constant_difference(
    original: NDArray[np.float64], converted: NDArray[np.float64], bounds: NDArray[np.float64]
) -> float:
    """Returns the constant by which all converted scores differ; 0 if they are equal or do not differ by a
    constant.

    A constant changes no ranking: many formats have no place for the initial score.

    >>> constant_difference(np.array([1.0, 2.0]), np.array([1.5, 2.5]), np.full(2, 1e-9))
    0.5
    """
    with np.errstate(invalid="ignore"):
        differences = converted - original
    finite = np.isfinite(differences)
    if not finite.any() or (np.abs(differences[finite]) <= bounds[finite]).all():
        return 0.0
    # Every constant c with |difference - c| <= bound for all documents.
    lowest = float((differences[finite] - bounds[finite]).max())
    highest = float((differences[finite] + bounds[finite]).min())
    return min(max(float(np.median(differences[finite])), lowest), highest) if lowest <= highest else 0.0


@dataclass
class _Counts:
    """Pairs counted so far."""

    changed: list[int] = field(default_factory=list)
    reversed_pairs: int = 0
    tied_pairs: int = 0
    reversed_within: int = 0
    tied_within: int = 0
    example: ChangedPair | None = None

    def add(self, query: int, judgments: Judgments, *of_documents: NDArray[np.float64]) -> None:
        """Counts the pairs of a query; `of_documents` are original scores, converted scores and bounds."""
        start, stop = judgments.query_start[query : query + 2].tolist()
        original, converted, bounds = (array[start:stop] for array in of_documents)
        largest, pair = -1.0, None
        for first, gap, is_ordered, after in _pairs(original, converted, bounds):
            wrong = is_ordered & ~(after > 0)
            self.reversed_pairs += int((is_ordered & (after < 0)).sum())
            self.tied_pairs += int((is_ordered & (after == 0)).sum())
            within = (gap > 0) & ~is_ordered
            self.reversed_within += int((within & (after < 0)).sum())
            self.tied_within += int((within & (after == 0)).sum())
            if wrong.any():
                place = np.unravel_index(int(np.where(wrong, gap, -1.0).argmax()), gap.shape)
                if gap[place] > largest:
                    largest = float(gap[place])
                    pair = ChangedPair(query, start + first + int(place[0]), start + int(place[1]))
        if pair is not None:
            self.changed.append(query)
            self.example = self.example or pair


def _pairs(
    original: NDArray[np.float64], converted: NDArray[np.float64], bounds: NDArray[np.float64]
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]]:
    """Yields blocks of the pairs (i, j) of a query: first i, original s_i - s_j, whether the pair is
    ordered with i first, and the sign of the converted difference (NaN if a score is no number)."""
    size = max(_CELLS // len(original), 1)
    for first in range(0, len(original), size):
        rows = slice(first, first + size)
        with np.errstate(invalid="ignore"):
            gap = np.nan_to_num(original[rows, None] - original, nan=0.0, posinf=np.inf, neginf=-np.inf)
            after = np.where(
                converted[rows, None] == converted, 0.0, np.sign(converted[rows, None] - converted)
            )
            is_ordered = gap > bounds[rows, None] + bounds
        yield first, gap, is_ordered, after


def _reordered_queries(
    judgments: Judgments, original: NDArray[np.float64], converted: NDArray[np.float64]
) -> list[int]:
    """Returns the queries in which the converted scores do not have exactly the order and the ties of the
    original scores; only their pairs need to be counted."""
    query = judgments.query_of_document
    order = np.lexsort((-original, query))
    same_query = query[order][1:] == query[order][:-1]
    goes_down = original[order][1:] < original[order][:-1]
    with np.errstate(invalid="ignore"):
        as_before = np.where(
            goes_down,
            converted[order][1:] < converted[order][:-1],
            converted[order][1:] == converted[order][:-1],
        )
    is_unordered = np.isnan(converted)
    changed = np.concatenate([query[order][1:][same_query & ~as_before], query[is_unordered]])
    return [int(number) for number in np.unique(changed)]


def _metric_loss(
    judgments: Judgments, original: Scores, converted: NDArray[np.float64], convention: Convention
) -> MetricLoss | None:
    """Returns NDCG@10 of both; None if no query counts."""
    ranked = np.where(np.isnan(converted), -np.inf, converted)
    evaluations = [
        evaluate(judgments, scores, [METRIC], convention) for scores in (original.astype(np.float64), ranked)
    ]
    values = np.array([evaluation.per_query[METRIC] for evaluation in evaluations])
    counted = ~np.isnan(values).any(axis=0)
    if not counted.any():
        return None
    weighting = evaluations[0].weightings[METRIC]
    sample = PairedSample.of(
        np.array([weighting.rescaled(of_model) for of_model in values])[:, counted],
        weighting.weights[counted],
    )
    pair = compare_pairs(sample, [(0, 1)])[0]
    before, after = (evaluation.means[METRIC] for evaluation in evaluations)
    interval = pair.interval
    return MetricLoss(
        original=before,
        converted=after,
        loss=float(pair.difference or 0.0),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        note=pair.note,
    )
