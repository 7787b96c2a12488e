"""The lambdas of every pairwise objective, compiled; `pairs.py` is their specification.

The pairs of one upper rank i are taken together: first the change of the metric for each of them, by the
formula of its `Change`, then what each adds to g and h. With v_r the value of the document at rank r, w_r the
weight of the rank (`swaps.py` lays a metric out so), C_r = sum over t <= r of v_t, and j below i, the metric

    additive           sum of v_r w_r                                     changes by |v_i - v_j| times
                       |w_i - w_j|
    average precision  sum of v_r w_r C_r, v 0 or 1                       changes by |v_i - v_j| times
                       |(C_(i-1) + 1) w_i + (sum over i < r < j of v_r w_r) - C_j w_j|
    cascade            sum of v_r w_r product over t < r of (1 - v_t)     changes by |v_i - v_j| times
                       P |w_i - B - Q w_j|,  P = product over t < i of (1 - v_t),
                                             Q = product over i < r < j of (1 - v_r),
                       B = sum over i < r < j of v_r w_r product over i < t < r of (1 - v_t)

The second because each relevant document between i and j gains or loses a relevant one above it; the third
because nothing changes above i or below j. The cost is O(n T) of a query beside the sort, T the truncation,
or O(n P) where each document draws P partners (O(n^2) for the third, whose B and Q run through the ranks).
A query is one thread's, and its sums have a fixed order: the same bits on any number of threads.

With a `PairCorrection` the lambda and the hessian of a pair are divided by what its documents' positions say;
`position_bias.py` has the formulas. Without one, which is None, the loop is compiled without these lines.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.shapes import Labels, QueryStart, Values

Ranks = NDArray[np.int64]


class Change(IntEnum):
    """Which formula gives the change of the metric."""

    NONE = 0  # every pair weighs 1
    ADDITIVE = 1
    AVERAGE_PRECISION = 2
    CASCADE = 3


class Probability(IntEnum):
    """`PairSettings.sigmoid` for the kernel."""

    EXACT = 0
    TABLE = 1
    FLOAT32 = 2


class Compiled(NamedTuple):
    """`PairSettings` for the kernel; every field is of one type, which it is compiled for.

    Attributes:
        change: a `Change`.
        truncation: T; the longest query's length for none.
        sigma: slope of the sigmoid.
        probability: a `Probability`.
        distances_count: whether delta is divided by the distance of scores.
        distance_offset: what is added to that distance.
        log2_norm: whether a query's sums are brought to log2(1 + S).
        factor: what all lambdas and hessians are multiplied by.
        hessian_factor: what hessians are multiplied by beside it.
        least_hessian: a floor under p (1 - p).
        low_labels_first: 1 where tied documents are ranked by rising label, -1 by falling, 0 by row.
        float32_scores: whether differences of scores are rounded to float32.
        float32_sums: whether lambdas and hessians are added up in float32.
        float32_norm: whether S is that of lambdas in float32, and log2(1 + S) / S a float32.
    """

    change: int
    truncation: int
    sigma: float
    probability: int
    distances_count: bool
    distance_offset: float
    log2_norm: bool
    factor: float
    hessian_factor: float
    least_hessian: float
    low_labels_first: float
    float32_scores: bool
    float32_sums: bool
    float32_norm: bool


class PairData(NamedTuple):
    """What the lambdas need of a data set, and no iteration changes.

    Attributes:
        query_start: (Q + 1,).
        labels: (D,).
        document_values: (D,), v.
        rank_weights: (documents of the longest query,), w.
        scales: (Q,), what a query's changes are multiplied by; one of 0 has no lambdas.
        document_weights: (D,), factors of a document's gradient and hessian.
    """

    query_start: QueryStart
    labels: Labels
    document_values: Values
    rank_weights: Values
    scales: Values
    document_weights: Values


LEAST_RATIO = 1e-16
"""XGBoost's: a pair with a smaller t counts as it is, or its quotient would outweigh all others."""


class PairCorrection(NamedTuple):
    """The correction of pairs for position bias, and what propensities are learned from.

    Attributes:
        t_plus: (D,), t_plus at each document's position; NaN where the position has none.
        t_minus: (D,), likewise.
        cost_plus: (D,), zeros, to which the kernel adds L / t_minus for each pair with the document as hi.
        cost_minus: (D,), zeros, to which the kernel adds L / t_plus for each pair with the document as lo.
        cost_sign: 1 for the mirrored cost, -1 for the logistic one.
    """

    t_plus: Values
    t_minus: Values
    cost_plus: Values
    cost_minus: Values
    cost_sign: float


def pairwise_lambdas(
    data: PairData,
    scores: Values,
    draws: NDArray[np.float64],
    settings: Compiled,
    queries: NDArray[np.int64],
    correction: PairCorrection | None = None,
) -> tuple[Values, Values]:
    """Returns (D,) gradients and (D,) hessians; zero outside of `queries`.

    Args:
        data: the data set.
        scores: (D,).
        draws: (D, P) of [0, 1), what each document draws its partners by; (D, 0): all pairs count.
        settings: the dialect.
        queries: the queries that count.
        correction: of position bias; None: every pair counts as it is.
    """
    gradients, hessians = np.zeros(len(scores)), np.zeros(len(scores))
    _all_queries(data, scores, draws, settings, queries, correction, gradients, hessians)
    return gradients, hessians


@parallel_kernel
def _all_queries(
    data: PairData,
    scores: Values,
    draws: NDArray[np.float64],
    settings: Compiled,
    queries: NDArray[np.int64],
    correction: PairCorrection | None,
    gradients: Values,
    hessians: Values,
) -> None:
    for k in numba.prange(len(queries)):
        q = queries[k]
        if data.scales[q] > 0.0:
            first, end = data.query_start[q], data.query_start[q + 1]
            _one_query(
                (data.labels[first:end], data.document_values[first:end], data.document_weights[first:end]),
                data.rank_weights[: end - first],
                data.scales[q],
                scores[first:end],
                draws[first:end],
                settings,
                _correction_of_query(correction, first, end),
                gradients[first:end],
                hessians[first:end],
            )


@kernel
def _correction_of_query(correction: PairCorrection | None, first: int, end: int) -> PairCorrection | None:
    if correction is None:
        return None
    return PairCorrection(
        correction.t_plus[first:end],
        correction.t_minus[first:end],
        correction.cost_plus[first:end],
        correction.cost_minus[first:end],
        correction.cost_sign,
    )


@kernel
def _one_query(
    documents: tuple[Labels, Values, Values],
    rank_weights: Values,
    scale: float,
    scores: Values,
    draws: NDArray[np.float64],
    settings: Compiled,
    correction: PairCorrection | None,
    gradients: Values,
    hessians: Values,
) -> None:
    labels, document_values, weights = documents
    n = len(labels)
    order = _order(scores, labels, settings.low_labels_first)
    s, label, v = scores[order], labels[order], document_values[order]
    above, running = _running_sums(settings.change, v, rank_weights)
    start, end, partners = _partners(order, labels, draws, settings.truncation)
    g, h, total, delta = np.zeros(n), np.zeros(n), 0.0, np.empty(len(partners))
    for i in range(len(start)):
        below = partners[start[i] : end[i]]
        _changes(settings.change, i, below, v, rank_weights, above, running, delta)
        # The order of additions decides the last bits: rank by rank, and with a correction pair by pair.
        so_far = 0.0 if correction is None else total
        added = _add_pairs(i, below, delta, scale, s, label, order, settings, correction, so_far, g, h)
        total = total + added if correction is None else added
    factor = settings.factor
    if settings.log2_norm and total > 0.0:
        factor *= np.log2(1.0 + 2.0 * total) / (2.0 * total)
    if settings.float32_norm:
        factor = np.float64(np.float32(factor))
    for i in range(n):
        row = order[i]
        gradients[row] = _scaled(g[i], factor, weights[row], settings, correction)
        hessians[row] = _scaled(h[i], factor, weights[row], settings, correction)


@kernel
def _scaled(
    value: float, factor: float, weight: float, settings: Compiled, correction: PairCorrection | None
) -> float:
    """Returns the product, rounded after each factor where sums are in float32, as those of libraries are."""
    if correction is not None:  # sums are never in float32
        return value * (factor * weight)
    return _stored(_stored(value * factor, settings) * weight, settings)


@kernel
def _order(scores: Values, labels: Labels, low_labels_first: float) -> Ranks:
    """(n,), the document at each rank; a stable sort, so that ties keep the order that they come in."""
    if low_labels_first == 0.0:
        return np.argsort(-scores, kind="mergesort")
    by_label = np.argsort(low_labels_first * labels, kind="mergesort")
    return by_label[np.argsort(-scores[by_label], kind="mergesort")]


@kernel
def _partners(
    order: Ranks, labels: Labels, draws: NDArray[np.float64], truncation: int
) -> tuple[Ranks, Ranks, Ranks]:
    """(start, end, partners): rank i is paired with partners[start[i]:end[i]], rising, and all below it."""
    n = len(order)
    if draws.shape[1] == 0:
        depth = min(truncation, n - 1)
        return np.arange(1, depth + 1), np.full(depth, n), np.arange(n)
    uppers, lowers = _drawn(order, labels, draws)
    start = np.zeros(n + 1, dtype=np.int64)
    for upper in uppers:
        start[upper + 1] += 1
    start = np.cumsum(start)
    partners, end = np.empty(len(uppers), dtype=np.int64), start.copy()
    for k in range(len(uppers)):
        partners[end[uppers[k]]] = lowers[k]
        end[uppers[k]] += 1
    for i in range(n):
        partners[start[i] : start[i + 1]].sort()
    return start[:-1], end[:-1], partners


@kernel
def _drawn(order: Ranks, labels: Labels, draws: NDArray[np.float64]) -> tuple[Ranks, Ranks]:
    """The upper and the lower rank of each drawn pair."""
    n, num_draws = draws.shape
    ranks = np.empty(n, dtype=np.int64)
    ranks[order] = np.arange(n)
    best_first = np.argsort(-labels, kind="mergesort")
    uppers, lowers = np.empty(n * num_draws, dtype=np.int64), np.empty(n * num_draws, dtype=np.int64)
    count, first = 0, 0
    while first < n:
        end = first
        while end < n and labels[best_first[end]] == labels[best_first[first]]:
            end += 1
        others = n - (end - first)
        for k in range(first, end if others > 0 else first):
            document = best_first[k]
            for u in draws[document]:
                place = int(u * others)
                partner = best_first[place if place < first else place + end - first]
                uppers[count] = min(ranks[document], ranks[partner])
                lowers[count] = max(ranks[document], ranks[partner])
                count += 1
        first = end
    return uppers[:count], lowers[:count]


@kernel
def _running_sums(change: int, v: Values, w: Values) -> tuple[Values, Values]:
    """(n,), for each rank what the formulas take of the ranks above it, and down to it."""
    n = len(v)
    above, running = np.empty(n), np.empty(n)
    if change == Change.CASCADE:
        reach = 1.0
        for r in range(n):
            above[r], running[r] = reach, 0.0
            reach *= 1.0 - v[r]
    else:
        count, total = 0.0, 0.0
        for r in range(n):
            above[r] = count
            count += v[r]
            total += v[r] * w[r]
            running[r] = total
    return above, running


@kernel
def _changes(
    change: int, i: int, below: Ranks, v: Values, w: Values, above: Values, running: Values, delta: Values
) -> None:
    """The change of the metric for rank i and each rank of `below`, into `delta`."""
    if change == Change.ADDITIVE:
        _additive(i, below, v, w, delta)
    elif change == Change.AVERAGE_PRECISION:
        _average_precision(i, below, v, w, above, running, delta)
    elif change == Change.CASCADE:
        _cascade(i, below, v, w, above[i], delta)
    else:
        delta[: len(below)] = 1.0


@kernel
def _additive(i: int, below: Ranks, v: Values, w: Values, delta: Values) -> None:
    for m in range(len(below)):
        j = below[m]
        delta[m] = abs((v[i] - v[j]) * (w[i] - w[j]))


@kernel
def _average_precision(
    i: int, below: Ranks, v: Values, w: Values, above: Values, running: Values, delta: Values
) -> None:
    for m in range(len(below)):
        j = below[m]
        between = running[j] - v[j] * w[j] - running[i]
        moved = (above[i] + 1.0) * w[i] + between - (above[j] + v[j]) * w[j]
        delta[m] = abs((v[i] - v[j]) * moved)


@kernel
def _cascade(i: int, below: Ranks, v: Values, w: Values, reach: float, delta: Values) -> None:
    stopped, passed, r = 0.0, 1.0, i + 1
    for m in range(len(below)):
        j = below[m]
        while r < j:
            stopped += passed * v[r] * w[r]
            passed *= 1.0 - v[r]
            r += 1
        delta[m] = abs((v[i] - v[j]) * reach * (w[i] - stopped - passed * w[j]))


@kernel
def _add_pairs(
    i: int,
    below: Ranks,
    delta: Values,
    scale: float,
    s: Values,
    label: Labels,
    order: Ranks,
    settings: Compiled,
    correction: PairCorrection | None,
    total: float,
    g: Values,
    h: Values,
) -> float:
    """Adds the pairs of rank i to g and h, in the order of ranks; returns `total` plus their lambdas."""
    distances_count = settings.distances_count and s[0] != s[len(s) - 1]
    sigma = settings.sigma
    for m in range(len(below)):
        j = below[m]
        if label[i] != label[j] and delta[m] > 0.0:
            hi, lo = (i, j) if label[i] > label[j] else (j, i)
            difference = s[hi] - s[lo]
            if settings.float32_scores:
                difference = np.float64(np.float32(difference))
            weight = delta[m] * scale
            if distances_count:
                weight /= settings.distance_offset + abs(difference)
            p = _probability(difference, sigma, settings.probability)
            push = sigma * p * weight
            curvature = settings.hessian_factor * sigma * sigma * max(p * (1.0 - p), settings.least_hessian)
            bend = curvature * weight
            if correction is not None:
                divisor = _divisor(correction, order[hi], order[lo], sigma * difference, weight)
                push /= divisor
                bend /= divisor
            total += np.float64(np.float32(push)) if settings.float32_norm else push
            push = _stored(push, settings)
            g[hi] = _stored(g[hi] - push, settings)
            g[lo] = _stored(g[lo] + push, settings)
            bend = _stored(bend, settings)
            h[hi] = _stored(h[hi] + bend, settings)
            h[lo] = _stored(h[lo] + bend, settings)
    return total


@kernel
def _divisor(correction: PairCorrection, hi: int, lo: int, x: float, weight: float) -> float:
    """Returns what the lambda of a pair is divided by, and adds the pair to the costs of its documents.

    Args:
        x: sigma times the difference of scores.
        weight: the delta of the pair.
    """
    t_plus, t_minus = correction.t_plus[hi], correction.t_minus[lo]
    if np.isnan(t_plus) or np.isnan(t_minus):
        return 1.0
    cost = weight * (max(correction.cost_sign * x, 0.0) + np.log1p(np.exp(-abs(x))))
    has_plus, has_minus = t_plus >= LEAST_RATIO, t_minus >= LEAST_RATIO
    if has_minus:
        correction.cost_plus[hi] += cost / t_minus
    if has_plus:
        correction.cost_minus[lo] += cost / t_plus
    return t_plus * t_minus if has_plus and has_minus else 1.0


@kernel
def _stored(value: float, settings: Compiled) -> float:
    """The value as it is kept, in float32 or in full."""
    return np.float64(np.float32(value)) if settings.float32_sums else value


@kernel
def _probability(difference: float, sigma: float, probability: int) -> float:
    """p, of the wrong order; for the reasons of each see `pairs.py`."""
    if probability == Probability.FLOAT32:
        one, exponent = np.float32(1.0), np.float32(-sigma * difference)
        # The C library's expf, as in XGBoost; one in a thousand has another last bit in float64, rounded.
        e = np.exp(min(exponent, np.float32(88.7)))
        return 1.0 - np.float64(one / (e + one + np.float32(1e-16)))
    if probability == Probability.TABLE:
        bins, edge = 1048576.0, 25.0 / sigma
        bins_in_one = bins / (2.0 * edge)
        index = min(max(np.trunc((difference + edge) * bins_in_one), 0.0), bins - 1.0)
        difference = index / bins_in_one - edge
    p: float = 1.0 / (1.0 + np.exp(sigma * difference))
    return p
