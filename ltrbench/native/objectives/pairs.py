"""Specification of the lambdas of one query, pair by pair, in every dialect of LambdaMART.

All dialects are the same algorithm with different settings, which `pairwise.py` defines; `lambdas.py`
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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import Convention, evaluate, parse_metric, rank
from ltrbench.metrics.conventions import Denominator, Ties
from ltrbench.metrics.evaluation import check_defined
from ltrbench.native.objectives.pairwise import NATIVE, Change, PairSettings
from ltrbench.shapes import Labels, PerQuery, Scores, Values

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


# ---- Swaps: the change of a metric when the documents at two ranks are swapped, in closed form.
#
# For each metric, one function of this file computes the input of the compiled formulas in `pairwise.py`:
# the value v of each document, the weight w of each rank, the scale of each query, and the formula, a
# `Change`. With C_r = sum over t <= r of v_t:
#
#     additive           sum over r of v_r w_r                                    DCG, NDCG, precision, WTA
#     average precision  sum over r of v_r w_r C_r, v 0 or 1                      AP
#     cascade            sum over r of v_r w_r product over t < r of (1 - v_t)    ERR, and RR with v 0 or 1
#
# To add a metric, write its function here and add it to `LAYOUTS` under its name in `ltrbench.metrics`. A
# metric of another form also needs a formula in `pairwise.py`. A property test compares every metric with
# the definition: swap, evaluate again, subtract.


class Swaps(NamedTuple):
    """The parts of a metric on a data set that do not depend on scores.

    Attributes:
        change: the formula.
        document_values: (D,), v of each document.
        rank_weights: (documents of the longest query,), w of each rank.
        scales: (Q,), factor of the changes of a query; 0 for a query without a relevant document.
    """

    change: Change
    document_values: NDArray[np.float64]
    rank_weights: NDArray[np.float64]
    scales: PerQuery


Layout = Callable[[Judgments, int | None, Convention, int | None], Swaps]
"""(judgments, cutoff, convention, truncation) -> Swaps of the metric."""


def ndcg_swaps(judgments: Judgments, k: int | None, convention: Convention, truncation: int | None) -> Swaps:
    """NDCG@k = sum over r < k of G(l_r) D(r) / max_dcg, where max_dcg is the best DCG@k of the query.

    Without a cutoff, all ranks count in the sum, and max_dcg is the best DCG of the first `truncation` ranks.
    """
    discounts = convention.discount(_ranks(judgments))
    best_gains = convention.gain(judgments.labels_best_first)
    depth = truncation if k is None else k
    max_dcg = _sums_of_swaps(best_gains * _first(depth, discounts)[judgments.ranks_of_rows], judgments)
    _refuse_infinite(max_dcg, judgments)
    scales = np.divide(1.0, max_dcg, out=np.zeros_like(max_dcg), where=max_dcg > 0)
    if convention.zero_if_shorter_than_k and k is not None:
        scales[judgments.query_sizes < k] = 0.0
    return Swaps(Change.ADDITIVE, convention.gain(judgments.labels), _first(k, discounts), scales)


def dcg_swaps(judgments: Judgments, k: int | None, convention: Convention, truncation: int | None) -> Swaps:
    """DCG@k = sum over r < k of G(l_r) D(r): queries with high labels have more weight than in NDCG."""
    normalised = ndcg_swaps(judgments, k, convention, truncation)
    return normalised._replace(scales=(normalised.scales > 0.0).astype(np.float64))


def precision_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """P@k = sum over r < k of rel_r / k, or / min(k, n), depending on the convention; k is never None."""
    sizes = judgments.query_sizes
    places = np.full(len(sizes), k)
    if convention.precision_denominator is Denominator.K_UP_TO_SIZE:
        places = np.minimum(places, sizes)
    weights = _first(k, np.ones(sizes.max()))
    return Swaps(Change.ADDITIVE, _relevance(judgments, convention), weights, 1.0 / places)


def winner_takes_all_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """WTA = 1 if the document at rank 0 has the highest label of its query, otherwise 0."""
    highest = np.repeat(judgments.labels_best_first[judgments.query_start[:-1]], judgments.query_sizes)
    wins = (judgments.labels == highest).astype(np.float64)
    weights = _first(1, np.ones(judgments.query_sizes.max()))
    return Swaps(Change.ADDITIVE, wins, weights, np.ones(judgments.num_queries))


def average_precision_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """AP@k = sum over r < k of rel_r C_r / (r + 1), divided by min(R, k), or by R in some conventions."""
    k = k if convention.average_precision_cutoff else None
    relevance = _relevance(judgments, convention)
    possible = _sums_of_swaps(relevance, judgments)
    if k is not None and convention.average_precision_denominator is Denominator.RELEVANT_UP_TO_K:
        possible = np.minimum(possible, k)
    scales = np.divide(1.0, possible, out=np.zeros_like(possible), where=possible > 0)
    return Swaps(Change.AVERAGE_PRECISION, relevance, _reciprocal(judgments, k), scales)


def reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """RR@k = 1 / (r + 1) for the first relevant rank r < k: a cascade that stops at a relevant document."""
    relevance = _relevance(judgments, convention)
    return Swaps(Change.CASCADE, relevance, _reciprocal(judgments, k), np.ones(judgments.num_queries))


def expected_reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """ERR@k = sum over r < k of 1 / (r + 1) p_r product over t < r of (1 - p_t), p = (2^l - 1) / 2^l_max."""
    stop = np.expm1(judgments.labels * np.log(2.0)) / 2.0**convention.highest_grade
    if stop.max() > 1.0 + 1e-12:
        row = int(judgments.labels.argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}, above ERR's highest grade, "
            f"{convention.highest_grade:g}; set highest_grade to the highest grade of the judgments."
        )
    return Swaps(Change.CASCADE, stop, _reciprocal(judgments, k), np.ones(judgments.num_queries))


LAYOUTS: dict[str, Layout] = {
    "ndcg": ndcg_swaps,
    "dcg": dcg_swaps,
    "precision": precision_swaps,
    "wta": winner_takes_all_swaps,
    "map": average_precision_swaps,
    "mrr": reciprocal_rank_swaps,
    "err": expected_reciprocal_rank_swaps,
}


def lay_out(judgments: Judgments, settings: PairSettings) -> Swaps:
    """Returns the Swaps of the settings' metric on these judgments.

    Raises:
        ConfigError: If the metric has no formula here.
        UndefinedMetricError: If the convention does not accept the labels.
        DataError: If the metric is not defined for the labels.
    """
    if settings.metric is None:
        nothing = np.zeros(judgments.num_documents)
        return Swaps(Change.NONE, nothing, _reciprocal(judgments, None), np.ones(judgments.num_queries))
    metric, k = parse_layout(settings.metric)
    convention = settings.convention.of(metric)
    check_defined(metric, k, convention, judgments)
    return LAYOUTS[metric](judgments, k, convention, settings.truncation)


def parse_layout(name: str) -> tuple[str, int | None]:
    """Returns the metric and the cutoff of a name: `err@10` -> ("err", 10).

    Raises:
        ConfigError: If the name is not a metric, or the metric has no formula here.
    """
    metric, k = parse_metric(name)
    if metric == "precision" and k is None:
        raise ConfigError(
            f"metric '{name}' has the same value for every order; give a cutoff, as in {name}@5."
        )
    if metric not in LAYOUTS:
        raise ConfigError(
            f"metric '{name}' is not available as an objective{did_you_mean(metric, LAYOUTS)} Set metric to "
            f"one of {', '.join(LAYOUTS)}; most of them also take a cutoff, as in ndcg@10."
        )
    return metric, k


def _ranks(judgments: Judgments) -> NDArray[np.int64]:
    return np.arange(judgments.query_sizes.max())


def _first(k: int | None, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rank weights, with 0 from rank k on."""
    return weights if k is None else np.where(np.arange(len(weights)) < k, weights, 0.0)


def _reciprocal(judgments: Judgments, k: int | None) -> NDArray[np.float64]:
    reciprocals = np.reciprocal(_ranks(judgments) + 1.0)
    return _first(k, reciprocals)


def _relevance(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    return (judgments.labels >= convention.relevance_threshold).astype(np.float64)


def _sums_of_swaps(values: NDArray[np.float64], judgments: Judgments) -> PerQuery:
    """Returns the (Q,) sums over each query of (D,) values."""
    with np.errstate(over="ignore"):  # `_refuse_infinite` raises an error instead
        sums: PerQuery = np.add.reduceat(values, judgments.query_start[:-1])
    return sums


def _refuse_infinite(max_dcg: PerQuery, judgments: Judgments) -> None:
    queries = np.flatnonzero(~np.isfinite(max_dcg))
    if queries.size:
        raise DataError(
            f"the gains of query {judgments.query_ids[queries[0]]} add up to infinity; map the labels to "
            "smaller grades, or set gain=linear."
        )
