"""Specification of the lambdas of one query, pair by pair, in every dialect of LambdaMART.

All dialects are the same algorithm with different settings, which `dialects.py` defines; `lambdas.py`
describes native's dialect. Ranks start at 0, and s are the scores. In a pair of documents with different
labels, hi is the document with the higher label and lo the other:

    delta   = absolute change of the metric when the two documents are swapped
    delta  /= distance_offset + |s_hi - s_lo|     if normalize_distance, unless all scores are equal
    p       = 1 / (1 + exp(sigma (s_hi - s_lo)))  computed as selected by `sigmoid`
    lambda  = sigma p delta                       pushes hi up and lo down
    hessian = hessian_factor sigma^2 max(p (1 - p), least_hessian) delta

If normalize_query, all lambdas and hessians of a query are multiplied by its norm: log2(1 + S) / S, where S
is the sum of 2 lambda, or 1 / pairs_per_document. A pair that is drawn twice counts twice.

The cost for a query of n documents is O(n^2), or more for a metric without a closed form. This module is for
reading and testing; training uses `pairwise.py`, which tests compare with this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.metrics import Convention, evaluate, parse_metric, rank
from ltrbench.metrics.convention import Ties
from ltrbench.metrics.evaluation import check_defined
from ltrbench.native.objectives.dialects import NATIVE, PairSettings
from ltrbench.shapes import Labels, Scores, Values

Pairs = NDArray[np.float64]  # (n, n), one value per pair of documents
Draws = NDArray[np.float64]  # (n, pairs_per_document), random numbers in [0, 1) that select the partners


@np.errstate(over="ignore")  # for distant scores in the right order, exp is infinite and p is 0
def logistic(differences: Pairs, sigma: float) -> Pairs:
    """Returns p = 1 / (1 + exp(sigma d))."""
    p: Pairs = 1.0 / (1.0 + np.exp(sigma * differences))
    return p


def logistic_from_table(differences: Pairs, sigma: float) -> Pairs:
    """Returns LightGBM's p: at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma], clamped."""
    bins, edge = 2**20, 25.0 / sigma
    # Division by the width of a bin would be rounded differently, and d = 0 is on the edge of a bin.
    bins_in_one = bins / (2.0 * edge)
    index = np.clip(np.trunc((differences + edge) * bins_in_one), 0, bins - 1)
    return logistic(index / bins_in_one - edge, sigma)


def logistic_in_float32(differences: Pairs, sigma: float) -> Pairs:
    """Returns XGBoost's p: 1 - 1 / (1 + exp(min(-sigma d, 88.7)) + 1e-16) in float32."""
    one = np.float32(1.0)
    exponent = np.minimum((-sigma * differences).astype(np.float32), np.float32(88.7))
    # exp in float64, because the last digits of float32's exp depend on the machine.
    e = np.exp(exponent.astype(np.float64)).astype(np.float32)
    p: Pairs = 1.0 - (one / (e + one + np.float32(1e-16))).astype(np.float64)
    return p


_SIGMOIDS: dict[str, Callable[[Pairs, float], Pairs]] = {
    "exact": logistic,
    "table": logistic_from_table,
    "float32": logistic_in_float32,
}


@dataclass(frozen=True, eq=False)
class PairLambdas:
    """Lambdas and hessians of all pairs of a query of n documents; arrays are in the order of rows.

    Attributes:
        ranks: (n,), starting at 0.
        gains: (n,), G(l).
        discounts: (n,), D at each document's rank.
        delta: (n, n), absolute change of the metric, symmetric; 0 for a pair that does not count.
        lambda_matrix: (n, n), contribution of the pair (i, j) to the gradient of document i; a negative value
            pushes i up.
        hessian_matrix: (n, n), contribution of the pair to the hessian of both documents.
        gradients: (n,), row sums of `lambda_matrix`: derivative of the cost with respect to each score; a
            negative value pushes a document up.
        hessians: (n,), row sums of `hessian_matrix`: second derivative, never negative.
    """

    ranks: NDArray[np.int64]
    gains: Values
    discounts: Values
    delta: Pairs
    lambda_matrix: Pairs
    hessian_matrix: Pairs
    gradients: Values
    hessians: Values


def pair_lambdas(
    labels: Labels, scores: Scores, settings: PairSettings = NATIVE, draws: Draws | None = None
) -> PairLambdas:
    """Computes the lambdas of one query of weight 1 by the formulas of the module docstring.

    Args:
        labels: (n,).
        scores: (n,).
        settings: the dialect.
        draws: (n, pairs_per_document), random numbers that select the partners; None: drawn with seed 0.

    Raises:
        UndefinedMetricError: If the library of the convention does not accept the labels.
        DataError: If a label has no gain or an infinite gain.

    >>> as_in_the_paper = PairSettings(normalize_distance=False, normalize_query=False)
    >>> pairs = pair_lambdas(np.array([0.0, 1.0]), np.zeros(2), as_in_the_paper)
    >>> pairs.gradients.round(4).tolist(), pairs.hessians.round(4).tolist()
    ([0.1845, -0.1845], [0.0923, 0.0923])
    """
    n = len(labels)
    query = Judgments(labels=labels, query_start=np.array([0, n]))
    dtype = np.float32 if settings.float32_scores else np.float64
    s = np.asarray(scores).astype(dtype).astype(np.float64)
    order = rank(query, s, Ties(settings.ties)).order
    ranks = np.empty(n, dtype=np.int64)
    ranks[order] = np.arange(n)

    counts = _counts(query.labels, ranks, settings, draws)
    delta = np.where(counts > 0, _change(query, ranks, settings), 0.0)
    difference = (s[:, None] - s[None, :]).astype(dtype).astype(np.float64)
    weight = counts * delta
    if settings.normalize_distance and s.max() != s.min():
        weight /= settings.distance_offset + np.abs(difference)
    higher = np.sign(query.labels[:, None] - query.labels[None, :])
    p = _SIGMOIDS[settings.sigmoid](higher * difference, settings.sigma)
    push = settings.sigma * p * weight
    scale = _query_scale(push, settings)
    lambda_matrix = -higher * push
    curvature = np.maximum(p * (1.0 - p), settings.least_hessian)
    hessian_matrix = settings.hessian_factor * settings.sigma**2 * curvature * weight
    return PairLambdas(
        ranks=ranks,
        gains=settings.convention.gain(query.labels),
        discounts=settings.convention.discount(ranks),
        delta=delta,
        lambda_matrix=lambda_matrix * scale,
        hessian_matrix=hessian_matrix * scale,
        gradients=_sums(lambda_matrix, order, scale, settings.float32_sums),
        hessians=_sums(hessian_matrix, order, scale, settings.float32_sums),
    )


def _sums(matrix: Pairs, order: NDArray[np.int64], scale: float, in_float32: bool) -> Values:
    """Returns the (n,) scaled row sums; in float32, terms are added in the order of ranks."""
    if not in_float32:
        return np.asarray(matrix.sum(axis=1) * scale)
    running = np.add.accumulate(matrix[:, order].astype(np.float32), axis=1)
    return (running[:, -1].astype(np.float64) * scale).astype(np.float32).astype(np.float64)


def _query_scale(push: Pairs, settings: PairSettings) -> float:
    """Returns the factor of the lambdas and hessians of a query."""
    if not settings.normalize_query:
        return 1.0
    if settings.query_norm == "pairs":
        scale = 1.0 / (settings.pairs_per_document or 1)
    else:
        # The matrix contains each pair twice, so that its sum is the sum of 2 lambda over the pairs.
        total = float((push.astype(np.float32) if settings.float32_norm else push).sum(dtype=np.float64))
        scale = float(np.log2(1.0 + total)) / total if total > 0.0 else 1.0
    return float(np.float32(scale)) if settings.float32_norm else scale


def _counts(labels: Labels, ranks: NDArray[np.int64], settings: PairSettings, draws: Draws | None) -> Pairs:
    """Returns the (n, n) number of times that a pair counts; 0 for equal labels."""
    if settings.pairs_per_document is not None:
        if draws is None:
            draws = np.random.default_rng(0).random((len(labels), settings.pairs_per_document))
        return _drawn(labels, draws)
    counts: Pairs = (labels[:, None] != labels[None, :]).astype(np.float64)
    if settings.truncation is not None:
        counts *= np.minimum(ranks[:, None], ranks[None, :]) < settings.truncation
    return counts


def _drawn(labels: Labels, draws: Draws) -> Pairs:
    """Returns the (n, n) number of times that either document of a pair drew the other.

    A draw u of a document selects number floor(u m) of the m documents with other labels, which are sorted by
    descending label and, for equal labels, in the order of rows.
    """
    counts = np.zeros((len(labels), len(labels)))
    best_first = np.argsort(-labels, kind="stable")
    for document, draws_of_document in enumerate(draws):
        others = best_first[labels[best_first] != labels[document]]
        for u in draws_of_document if others.size else ():
            partner = others[int(u * len(others))]
            counts[document, partner] += 1.0
            counts[partner, document] += 1.0
    return counts


def _change(query: Judgments, ranks: NDArray[np.int64], settings: PairSettings) -> Pairs:
    """Returns the (n, n) absolute change of the metric when two documents are swapped."""
    if settings.metric is None:
        return np.ones((len(ranks), len(ranks)))
    metric, k = parse_metric(settings.metric)
    check_defined(metric, k, settings.convention.of(metric), query)
    if settings.metric != "ndcg":
        return change_by_swapping(query.labels, ranks, settings.metric, settings.convention)
    gains = settings.convention.gain(query.labels)
    discounts = settings.convention.discount(ranks)
    best_first = settings.convention.gain(query.labels_best_first)[: settings.truncation]
    max_dcg = float(best_first @ settings.convention.discount(np.arange(len(best_first))))
    if max_dcg == 0.0:
        return np.zeros((len(gains), len(gains)))
    moved: Pairs = np.abs(gains[:, None] - gains[None, :]) * np.abs(discounts[:, None] - discounts[None, :])
    return moved / max_dcg


def change_by_swapping(
    labels: Labels, ranks: NDArray[np.int64], metric: str, convention: Convention
) -> Pairs:
    """Returns the (n, n) |metric after the swap - metric before|, by evaluating the metric of every swap.

    This is the definition, and serves for metrics without a closed form. All swaps of one document are
    evaluated at once, as queries of one data set; the first query is not swapped.
    """
    n, change = len(labels), np.zeros((len(labels), len(labels)))
    scores = -ranks.astype(np.float64)
    for i in range(n - 1):
        partners = np.arange(i, n)
        swapped = np.tile(labels, (len(partners), 1))
        swapped[:, i] = labels[partners]
        swapped[np.arange(len(partners)), partners] = labels[i]
        variants = Judgments(labels=swapped.ravel(), query_start=np.arange(0, swapped.size + 1, n))
        evaluation = evaluate(variants, np.tile(scores, len(partners)), [metric], convention)
        values = np.nan_to_num(evaluation.per_query[metric])
        change[i, i:] = change[i:, i] = np.abs(values - values[0])
    return change
