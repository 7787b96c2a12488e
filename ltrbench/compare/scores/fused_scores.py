"""Parts and weights of a fused score: each run contributes a part that is comparable within a query.

The fused score of a document is the weighted sum of its parts (CombSUM with equal weights: Fox and Shaw,
1994, "Combination of multiple searches", TREC-2). D is the number of documents, M the number of runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank
from ltrbench.shapes import Scores

RRF_K = 60.0  # the value of the paper

FusionPart = NDArray[np.float64]
"""(D,), contribution of a run to the fused scores; (M, D) for M runs."""

# Coordinate ascent: grid of shares, number of random restarts, maximum number of rounds.
_SHARES = np.linspace(0.0, 1.0, 21)
_RESTARTS = 2
_MOST_ROUNDS = 10


def reciprocal_ranks(judgments: Judgments, scores: Scores, k: float = RRF_K) -> FusionPart:
    """Returns 1 / (k + r) for the document at rank r of its query, counted from 1, (D,).

    Source: Cormack, Clarke and Buettcher (2009), "Reciprocal rank fusion outperforms Condorcet and individual
    rank learning methods", SIGIR. Tied documents get the mean of their ranks, so that the order of the rows
    has no influence. A score of minus infinity (not retrieved) contributes 0, as in the paper.
    """
    ranking = rank(judgments, scores)
    ranks = np.empty(len(scores))
    ranks[ranking.order] = ranking.tie_mean(ranking.ranks.astype(np.float64) + 1.0)
    return np.where(np.isneginf(scores), 0.0, 1.0 / (k + ranks))


def z_scores(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - mean) / sd over the documents of the query, (D,); 0 if all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    centred = finite - np.repeat(np.add.reduceat(finite, start) / sizes, sizes)
    deviations = np.sqrt(np.add.reduceat(centred**2, start) / sizes)
    return _over(centred, np.repeat(deviations, sizes), ~_is_tied(judgments, finite))


def min_max(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - min) / (max - min) over the documents of the query, (D,); 0 if all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    lowest, highest = np.minimum.reduceat(finite, start), np.maximum.reduceat(finite, start)
    risen = finite - np.repeat(lowest, sizes)
    return _over(risen, np.repeat(highest - lowest, sizes), ~_is_tied(judgments, finite))


def _finite(judgments: Judgments, scores: Scores) -> FusionPart:
    """Replaces infinite scores by the lowest or highest finite score of the query, or 0 without one.

    A document that was not retrieved thus contributes as much as the last retrieved one. Fox and Shaw (1994)
    give it 0, which is the same for min-max.
    """
    given = np.asarray(scores, dtype=np.float64)
    if np.isfinite(given).all():
        return given
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    lowest = np.minimum.reduceat(np.where(np.isfinite(given), given, np.inf), start)
    highest = np.maximum.reduceat(np.where(np.isfinite(given), given, -np.inf), start)
    none = np.isinf(lowest)
    low, high = (np.repeat(np.where(none, 0.0, ends), sizes) for ends in (lowest, highest))
    # If all scores are infinite, plus and minus infinity still differ.
    high = np.where(np.repeat(none, sizes), 1.0, high)
    return np.where(np.isneginf(given), low, np.where(np.isposinf(given), high, given))


def _is_tied(judgments: Judgments, scores: FusionPart) -> NDArray[np.bool_]:
    """Returns whether all documents of the query have the same score, (D,): rounding must not order them."""
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    same = np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)
    return np.repeat(same, sizes)


def _over(values: FusionPart, by: FusionPart, where: NDArray[np.bool_]) -> FusionPart:
    return np.divide(values, by, out=np.zeros_like(values), where=where & (by > 0))


def learn_weights(
    judgments: Judgments, parts: FusionPart, metric: str, convention: Convention = DEFAULT, seed: int = 0
) -> NDArray[np.float64]:
    """Returns nonnegative weights with sum 1 that maximise the metric of the weighted sum, (M,).

    Coordinate ascent (Metzler and Croft, 2007, "Linear feature-based models for information retrieval",
    Information Retrieval 10): one weight at a time is tried at shares of 0, 0.05, ..., 1, with fixed
    proportions of the others, and changed if the metric increases, until a round changes none. It starts from
    equal weights and from random weights; ties keep the first, so that equal weights stay unless others are
    better.

    Args:
        judgments: Judgments of the validation set.
        parts: (M, D), parts on the validation set.

    Raises:
        ConfigError: No query of the validation set counts.
    """

    def reached(weights: NDArray[np.float64]) -> float:
        return evaluate(judgments, weights @ parts, [metric], convention).means[metric]

    rng, count = np.random.default_rng(seed), len(parts)
    best = np.full(count, 1.0 / count)
    highest = reached(best)
    if np.isnan(highest):
        raise ConfigError(
            f"weights cannot be learned: no query of the validation set counts in {metric}. Fuse by zscore."
        )
    for start in [best, *rng.dirichlet(np.ones(count), _RESTARTS)]:
        weights, value = _ascend(start, reached, rng)
        if value > highest:
            best, highest = weights, value
    return best


def _ascend(
    weights: NDArray[np.float64],
    reached: Callable[[NDArray[np.float64]], float],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], float]:
    highest = reached(weights)
    for _ in range(_MOST_ROUNDS):
        moved = False
        for member in rng.permutation(len(weights)):
            tried = [_with_share(weights, member, share) for share in _SHARES]
            values = [reached(each) for each in tried]
            number = int(np.argmax(values))
            if values[number] > highest:
                weights, highest, moved = tried[number], values[number], True
        if not moved:
            break
    return weights, highest


def _with_share(weights: NDArray[np.float64], member: int, share: float) -> NDArray[np.float64]:
    """Returns weights with one weight at a share, and the others in proportion, or equal if all were 0.

    >>> _with_share(np.array([0.5, 0.375, 0.125]), 0, 0.0).tolist()
    [0.0, 0.75, 0.25]
    >>> _with_share(np.array([1.0, 0.0]), 0, 0.5).tolist()
    [0.5, 0.5]
    """
    others = weights.copy()
    others[member] = 0.0
    if not others.any():
        others = np.where(np.arange(len(weights)) == member, 0.0, 1.0)
    moved: NDArray[np.float64] = (1.0 - share) * others / others.sum()
    moved[member] = share
    return moved
