"""What a fused score is made of: a part from each run, comparable within a query, and weights.

The fused score of a document is the weighted sum of its parts (CombSUM: Fox and Shaw, 1994, "Combination of
multiple searches", TREC-2, where the weights are alike). D is the number of documents, M of runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank
from ltrbench.shapes import Scores

RRF_K = 60.0  # the paper's own

FusionPart = NDArray[np.float64]
"""(D,), what a run adds to the fused scores; of M runs, (M, D)."""

# Coordinate ascent: how finely a share is tried, from where else it starts, and when it gives up.
_SHARES = np.linspace(0.0, 1.0, 21)
_RESTARTS = 2
_MOST_ROUNDS = 10


def reciprocal_ranks(judgments: Judgments, scores: Scores, k: float = RRF_K) -> FusionPart:
    """(D,), 1 / (k + r) for the document at rank r of its query, from 1 (Cormack, Clarke and Buettcher, 2009,
    "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR).

    Tied documents share the mean of their ranks, so that the order of the rows says nothing. A score of minus
    infinity, of a document that was not retrieved, adds nothing, as in the paper.
    """
    ranking = rank(judgments, scores)
    ranks = np.empty(len(scores))
    ranks[ranking.order] = ranking.tie_mean(ranking.ranks.astype(np.float64) + 1.0)
    return np.where(np.isneginf(scores), 0.0, 1.0 / (k + ranks))


def z_scores(judgments: Judgments, scores: Scores) -> FusionPart:
    """(D,), (s - mean) / sd over the documents of the query; 0 where all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    centred = finite - np.repeat(np.add.reduceat(finite, start) / sizes, sizes)
    deviations = np.sqrt(np.add.reduceat(centred**2, start) / sizes)
    return _over(centred, np.repeat(deviations, sizes), ~_is_tied(judgments, finite))


def min_max(judgments: Judgments, scores: Scores) -> FusionPart:
    """(D,), (s - min) / (max - min) over the documents of the query; 0 where all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    lowest, highest = np.minimum.reduceat(finite, start), np.maximum.reduceat(finite, start)
    risen = finite - np.repeat(lowest, sizes)
    return _over(risen, np.repeat(highest - lowest, sizes), ~_is_tied(judgments, finite))


def _finite(judgments: Judgments, scores: Scores) -> FusionPart:
    """Infinite scores become the lowest and highest finite ones of their query, or 0 where there are none.

    So a document that was not retrieved adds as much as the last one that was (Fox and Shaw, 1994, give it
    nothing, which with min-max is the same).
    """
    given = np.asarray(scores, dtype=np.float64)
    if np.isfinite(given).all():
        return given
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    lowest = np.minimum.reduceat(np.where(np.isfinite(given), given, np.inf), start)
    highest = np.maximum.reduceat(np.where(np.isfinite(given), given, -np.inf), start)
    none = np.isinf(lowest)
    low, high = (np.repeat(np.where(none, 0.0, ends), sizes) for ends in (lowest, highest))
    # Where all are infinite, the two ends still differ.
    high = np.where(np.repeat(none, sizes), 1.0, high)
    return np.where(np.isneginf(given), low, np.where(np.isposinf(given), high, given))


def _is_tied(judgments: Judgments, scores: FusionPart) -> NDArray[np.bool_]:
    """(D,), whether all documents of the query have one score: rounding must not order them."""
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    same = np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)
    return np.repeat(same, sizes)


def _over(values: FusionPart, by: FusionPart, where: NDArray[np.bool_]) -> FusionPart:
    return np.divide(values, by, out=np.zeros_like(values), where=where & (by > 0))


def learn_weights(
    judgments: Judgments, parts: FusionPart, metric: str, convention: Convention = DEFAULT, seed: int = 0
) -> NDArray[np.float64]:
    """(M,), weights of 0 or more that add up to 1, under which the weighted sum reaches the highest metric.

    Coordinate ascent (Metzler and Croft, 2007, "Linear feature-based models for information retrieval",
    Information Retrieval 10): one weight at a time is tried at shares of 0, 0.05, ..., 1, the others keeping
    their proportions, and moved where the metric rises, until a round moves none. It starts from equal
    weights, and from random ones for other maxima; of equals the first is kept, so that equal weights stay
    where no others are better.

    Args:
        judgments: of the validation set.
        parts: (M, D), on it.

    Raises:
        ConfigError: where no query of the validation set counts.
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
    """One weight at a share of the whole, the others in proportion; alike where they were all 0.

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
