"""Lambdas: the gradient and the hessian of NDCG's cost with respect to the score of every document.

Burges, 2010, "From RankNet to LambdaRank to LambdaMART: An Overview" (MSR-TR-2010-82), sections 4 and 7.
Ranks r start at 0, in the order of descending score; tied documents keep the order of rows. D(r) =
1 / log2(r + 2), G(l) = 2^l - 1, T is the truncation, and max_dcg is the best DCG@T of the query. For each
pair of documents with different labels, of which at least one has a rank r < T, let hi be the document with
the higher label and lo the other:

    delta   = (G(l_hi) - G(l_lo)) * |D(r_hi) - D(r_lo)| / max_dcg   change of NDCG when the two are swapped
    delta  /= 0.01 + |s_hi - s_lo|                                  if normalize_distance
    p       = 1 / (1 + exp(sigma * (s_hi - s_lo)))                  probability of the wrong order
    lambda  = sigma * p * delta                                     section 4: derivative of the cost
    g_hi   -= lambda;  g_lo += lambda
    h_hi   += sigma * (1 - p) * lambda;  h_lo += the same           section 7: second derivative
    S      += 2 * lambda

If normalize_query, the g and h of the query are multiplied by log2(1 + S) / S. Both normalisations are from
LightGBM (together they are its lambdarank_norm) and not in the paper. The query norm limits the weight of
queries with many pairs; the distance norm gives more weight to pairs with close scores. Trees are fitted to
-g / h. A query without a relevant document has no lambdas. In RankNet, delta is 1 before the distance norm.
`pairs.py` has the specification of the kernel, which computes the same pair by pair, and the dialects of
other libraries.

The cost for a query of n documents is O(n * T) plus sorting. One tree changes the ranks of few documents:
insertion sort, starting from the order of the previous iteration, takes half the time of sorting from scratch
[measured].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, disjoint_kernel, in_parts, kernel
from ltrbench.data import Judgments, RankingDataset
from ltrbench.native.objectives.base import (
    Objective,
    PreparedObjective,
    Queries,
    prepare_objective,
)
from ltrbench.native.objectives.pairs import (
    ADDITIVE,
    FLOAT32_OFFSET,
    ORDERS_OF_TIES,
    Change,
    Compiled,
    PairCorrection,
    PairData,
    PairSettings,
    Probability,
    lay_out,
    pairwise_lambdas,
    parse_layout,
)
from ltrbench.native.objectives.sorting import RankOrder, gather, sort_by_score
from ltrbench.native.team import DocumentDraws, Placement
from ltrbench.settings import changed, part
from ltrbench.shapes import Gradients, Hessians, Values


def any_order(data: PairData) -> RankOrder:
    """Returns the (D,) document indices within each query, starting at 0, in the order of rows."""
    sizes = np.diff(data.query_start)
    first_rows = np.repeat(data.query_start[:-1], sizes)
    return (np.arange(sizes.sum()) - first_rows).astype(np.uint32)


def lambdas(
    data: PairData,
    scores: Values,
    settings: Compiled,
    queries: NDArray[np.int64],
    order: RankOrder,
) -> tuple[Gradients, Hessians]:
    """Returns the (D,) gradients and (D,) hessians; 0 outside `queries`.

    Args:
        data: result of `pair_data`, in which values are gains, rank weights are discounts, and scales are 1 /
            max_dcg (lambdarank); or values are labels, and scales are 1 (RankNet).
        scores: (D,).
        settings: likewise.
        queries: indices of the queries to compute.
        order: result of `any_order`, updated in place to the order of these scores. Passing the order of the
            previous iteration saves time and does not change the result.
    """
    sums = np.zeros((2, len(scores)))
    arguments = data, scores, settings, order, sums
    in_parts(_some_queries, len(queries), queries, arguments)
    return sums[0], sums[1]


@kernel
def _some_queries(
    part: Part,
    queries: NDArray[np.int64],
    arguments: tuple[PairData, Values, Compiled, RankOrder, NDArray[np.float64]],
) -> None:
    data, scores, settings, orders, sums = arguments
    for q in queries[part[0] : part[1]]:
        if data.scales[q] > 0.0:
            _one_query(data, q, scores, settings, orders, sums[0], sums[1])


@kernel
def _one_query(
    data: PairData,
    q: int,
    scores: Values,
    settings: Compiled,
    orders: RankOrder,
    gradients: Gradients,
    hessians: Hessians,
) -> None:
    """Computes the pairs of one upper rank i at a time; local arrays are in the order of ranks."""
    first = data.query_start[q]
    after = data.query_start[q + 1]
    n = after - first
    sigma = settings.sigma
    order = orders[first:after]
    sort_by_score(scores[first:after], order)
    s = gather(scores[first:after], order)
    gain = gather(data.document_values[first:after], order)
    discounts = data.rank_weights
    is_weighted = settings.change != Change.NONE
    memory = np.zeros((5, n))  # at once, which takes less time for short queries
    g = memory[0]
    h = memory[1]
    lambda_sums = memory[2]
    push = memory[3]
    curvature = memory[4]
    # The divisor of delta is offset + slope * distance: both cases without a branch.
    distances_count = settings.distances_count and s[0] != s[n - 1]
    offset, slope = (FLOAT32_OFFSET, 1.0) if distances_count else (1.0, 0.0)
    base = 0
    exp_s = _exponentials(s, s[0], sigma)
    # Ranks from num_paired on have equal gains, usually 0: their pairs with each other are 0.
    num_paired = n
    while num_paired > 0 and gain[num_paired - 1] == gain[n - 1]:
        num_paired -= 1
    for i in range(min(settings.truncation, num_paired)):
        if sigma * (s[base] - s[i]) > 300.0:
            # exp underflows at a distance of 745 from the base: rank i becomes the base for the ranks below.
            base = i
            exp_s = _exponentials(s, s[i], sigma)
        end = n
        if gain[i] == gain[n - 1]:
            # Whole groups of four, so that `_sum` adds in the same order.
            end = min(n, i + 1 + (num_paired - i + 2) // 4 * 4)
        _add_pairs(
            (s[i], gain[i], discounts[i], 1.0 / exp_s[i]),
            (
                s[i + 1 : end],
                gain[i + 1 : end],
                discounts[i + 1 : end],
                exp_s[i + 1 : end],
            ),
            (sigma, sigma * data.scales[q], offset, slope),
            is_weighted,
            (push[i + 1 : end], curvature[i + 1 : end]),
            (g[i + 1 : end], h[i + 1 : end], lambda_sums[i + 1 : end]),
        )
        g[i] -= _sum(push[i + 1 : end])
        h[i] += _sum(curvature[i + 1 : end])
    total = 2.0 * _sum(lambda_sums)
    scale = np.log2(1.0 + total) / total if settings.log2_norm and total > 0.0 else 1.0
    for i in range(n):
        row = first + order[i]
        factor = data.document_weights[row] * scale
        gradients[row] = g[i] * factor
        hessians[row] = h[i] * factor


@kernel
def _exponentials(scores: Values, base: float, sigma: float) -> Values:
    """Returns exp(sigma * (s_j - base)) of every rank j, at most 1."""
    exponentials = np.empty(len(scores))
    for j in range(len(scores)):
        exponentials[j] = np.exp(min(sigma * (scores[j] - base), 0.0))
    return exponentials


@disjoint_kernel
def _add_pairs(
    upper: tuple[float, float, float, float],
    below: tuple[Values, Values, Values, Values],
    factors: tuple[float, float, float, float],
    is_weighted: bool,
    of_pairs: tuple[Values, Values],
    sums: tuple[Values, Values, Values],
) -> None:
    """Computes the pairs of rank i and each rank j below, and adds them to the sums of the ranks below.

    Writes `push`, the lambda, negative if j has the higher label, and `curvature`, the hessian.
    e = exp(-sigma * (s_i - s_j)) is a quotient of two exponentials, so that a query needs n exponentials
    instead of n * T. If i has the higher label, p = e / (1 + e); otherwise p = 1 / (1 + e). In both cases
    p * (1 - p) = e / (1 + e)^2. The loop has one division and no branch, so that it can be vectorised.
    """
    s_i, gain_i, discount_i, inverse_exp_s_i = upper
    s, gain, discount, exp_s = below
    sigma, factor, offset, slope = factors
    push, curvature = of_pairs
    gradients, hessians, lambda_sums = sums
    for j in range(len(s)):
        e = exp_s[j] * inverse_exp_s_i
        divisor = offset + slope * (s_i - s[j])
        inverse = 1.0 / ((1.0 + e) * divisor)
        moved = (gain_i - gain[j]) * (discount_i - discount[j])
        if not is_weighted:
            moved = np.sign(gain_i - gain[j])
        delta = moved * factor * inverse
        pushed = delta * (e if delta > 0.0 else 1.0)
        curved = sigma * abs(delta) * e * (inverse * divisor)
        push[j] = pushed
        curvature[j] = curved
        gradients[j] += pushed
        hessians[j] += curved
        lambda_sums[j] += abs(pushed)


@kernel
def _sum(values: Values) -> float:
    """Returns the sum in a fixed order: four interleaved sums, so that additions overlap."""
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    whole = len(values) // 4
    for i in range(whole):
        a += values[4 * i]
        b += values[4 * i + 1]
        c += values[4 * i + 2]
        d += values[4 * i + 3]
    for i in range(4 * whole, len(values)):
        a += values[i]
    return (a + b) + (c + d)


# ---- Objectives: a function from scores to gradients and hessians, for a data set and settings.
#
# `prepare` takes a data set and the settings of an objective, and computes once whatever does not change
# between iterations:
#
#     PairSettings   lambdarank on the change of a metric, in every dialect, and ranknet
#     Objective      all others: a class in a file of this folder, or outside the package
#
# If the kernel of this file supports the settings of pairs, as with native's defaults, it is used;
# otherwise the kernel of `pairs.py`, which takes five times as long [measured]. A new metric for lambdarank
# is one function in `pairs.py`.


ObjectiveSettings = PairSettings | Objective


def prepare(
    train: RankingDataset,
    settings: ObjectiveSettings,
    placement: Placement | None = None,
) -> PreparedObjective:
    """Returns the objective of these settings for a data set.

    Args:
        placement: where the queries are in the whole training set; None: they are all.

    Raises:
        ConfigError: If the metric is not available as an objective.
        DataError, UndefinedMetricError: If the objective is not defined for the labels.
    """
    if isinstance(settings, Objective):
        return prepare_objective(settings, train, placement)
    if _fast_kernel_computes(settings):
        return _fast_pairs(train, settings)
    return _all_pairs(train, settings)


def check_settings(settings: ObjectiveSettings) -> None:
    """Raises ConfigError if the metric is not available as an objective."""
    if isinstance(settings, PairSettings) and settings.metric is not None:
        parse_layout(settings.metric)


def check_labels(judgments: Judgments, settings: ObjectiveSettings) -> None:
    """Raises the errors of `prepare` if the objective is not defined for these labels."""
    if isinstance(settings, Objective):
        settings.check(judgments.labels, judgments.query_start)
    else:
        lay_out(judgments, settings)


def _fast_kernel_computes(settings: PairSettings) -> bool:
    """Returns whether the kernel of this file supports these settings; that of `pairs.py` supports all.

    The kernel supports RankNet, metrics that add up over ranks, and any value of some settings. All others
    must have their defaults.
    """
    free = {
        "metric",
        "convention",
        "sigma",
        "truncation",
        "normalize_distance",
        "normalize_query",
    }
    is_additive = (
        settings.metric is None or parse_layout(settings.metric)[0] in ADDITIVE
    )
    return is_additive and free.issuperset(changed(settings, PairSettings))


def _fast_pairs(train: RankingDataset, settings: PairSettings) -> PreparedObjective:
    data, compiled = pair_data(train, settings)
    order = any_order(data)

    def objective(
        scores: Values, queries: Queries, rng: DocumentDraws
    ) -> tuple[Gradients, Hessians]:
        numbers = np.arange(train.num_queries) if queries is None else queries
        return lambdas(data, scores, compiled, numbers, order)

    return objective


def _all_pairs(train: RankingDataset, settings: PairSettings) -> PreparedObjective:
    pairs = prepare_pairs(train, settings)
    num_draws = settings.pairs_per_document or 0

    def objective(
        scores: Values, queries: Queries, rng: DocumentDraws
    ) -> tuple[Gradients, Hessians]:
        return pairs(scores, queries, rng.random((len(scores), num_draws)), None)

    return objective


PairKernel = Callable[
    [Values, Queries, NDArray[np.float64], PairCorrection | None],
    tuple[Gradients, Hessians],
]
"""((D,) scores, queries to compute, (D, P) draws of partners, correction of position bias) -> (D,) gradients
and (D,) hessians."""


def prepare_pairs(train: RankingDataset, settings: PairSettings) -> PairKernel:
    """Returns the kernel of `pairs.py` for a data set; raises the same errors as `prepare`."""
    data, compiled = pair_data(train, settings)
    dtype = np.float32 if settings.float32_scores else np.float64

    def pairs(
        scores: Values,
        queries: Queries,
        draws: NDArray[np.float64],
        correction: PairCorrection | None,
    ) -> tuple[Gradients, Hessians]:
        rounded = scores.astype(dtype).astype(np.float64)
        numbers = np.arange(train.num_queries) if queries is None else queries
        return pairwise_lambdas(data, rounded, draws, compiled, numbers, correction)

    return pairs


def pair_data(
    train: RankingDataset, settings: PairSettings
) -> tuple[PairData, Compiled]:
    """Returns the data and the settings for both kernels; raises the same errors as `prepare`."""
    swaps = lay_out(train, settings)
    data = PairData(
        query_start=train.query_start.copy(),
        labels=train.labels,
        document_values=np.require(swaps.document_values, requirements=["C", "W"]),
        rank_weights=swaps.rank_weights,
        scales=swaps.scales,
        document_weights=train.weight_of_document.copy(),
    )
    by_pairs = settings.normalize_query and settings.query_norm == "pairs"
    # Swaps of two documents below the last rank with a weight do not change the metric.
    num_weighted = int(np.count_nonzero(swaps.rank_weights))
    truncation = min(settings.truncation or train.num_documents, num_weighted)
    factor = 1.0
    if by_pairs:
        factor = 1.0 / (settings.pairs_per_document or 1)
    compiled = part(
        settings,
        Compiled,
        change=int(swaps.change),
        truncation=truncation,
        probability=int(Probability[settings.sigmoid.upper()]),
        distances_count=settings.normalize_distance,
        log2_norm=settings.normalize_query and not by_pairs,
        factor=factor,
        low_labels_first=ORDERS_OF_TIES[settings.ties],
    )
    return data, compiled
