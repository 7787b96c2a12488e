"""Compiled lambdas of every pairwise objective; `pairs.py` is the specification.

The pairs of one upper rank i are computed together: first the change of the metric for each pair, by the
formula of its `Change`, then the contributions to g and h. Let v_r be the value of the document at rank r,
w_r the weight of the rank (`pairs.py` computes both for a metric), and C_r = sum over t <= r of v_t. Swapping
the documents at ranks i and j > i changes the metric by |v_i - v_j| times

    additive           |w_i - w_j|
                       metric: sum of v_r w_r
    average precision  |(C_(i-1) + 1) w_i + (sum over i < r < j of v_r w_r) - C_j w_j|
                       metric: sum of v_r w_r C_r, where v is 0 or 1
    cascade            P |w_i - B - Q w_j|
                       metric: sum of v_r w_r product over t < r of (1 - v_t)
                       P = product over t < i of (1 - v_t),  Q = product over i < r < j of (1 - v_r),
                       B = sum over i < r < j of v_r w_r product over i < t < r of (1 - v_t)

For average precision, each relevant document between i and j has one relevant document more or less above it.
For the cascade, nothing changes above i or below j. The cost for a query is O(n T) plus sorting, where T is
the truncation, or O(n P) if each document draws P partners (O(n^2) for the cascade, because B and Q run over
all ranks). One thread computes a query in a fixed order: results have the same bits on any number of threads.

With a `PairCorrection`, the lambda and the hessian of a pair are divided by the propensities of its
positions; `position_bias.py` has the formulas. Without one, the loop is compiled without these lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.settings import check, setting
from ltrbench.shapes import Labels, QueryStart, Values

Ranks = NDArray[np.int64]


class Change(IntEnum):
    """Formula for the change of the metric."""

    NONE = 0  # every pair has weight 1
    ADDITIVE = 1
    AVERAGE_PRECISION = 2
    CASCADE = 3


class Probability(IntEnum):
    """`PairSettings.sigmoid` for the kernel."""

    EXACT = 0
    TABLE = 1
    FLOAT32 = 2


class Compiled(NamedTuple):
    """`PairSettings` for the kernel, which is compiled for exactly these field types.

    Attributes:
        change: a `Change`.
        truncation: T; without truncation, the length of the longest query.
        sigma: slope of the sigmoid.
        probability: a `Probability`.
        distances_count: whether delta is divided by the score difference.
        distance_offset: offset of the score difference in that division.
        log2_norm: whether the lambdas of a query are scaled to log2(1 + S).
        factor: factor of all lambdas and hessians.
        hessian_factor: additional factor of hessians.
        least_hessian: minimum of p (1 - p).
        low_labels_first: order of tied documents: 1: ascending label; -1: descending label; 0: row.
        float32_scores: whether score differences are rounded to float32.
        float32_sums: whether lambdas and hessians are summed in float32.
        float32_norm: whether the lambdas in S, and the norm log2(1 + S) / S, are rounded to float32.
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
    """Data for the lambdas that does not change between iterations.

    Attributes:
        query_start: (Q + 1,).
        labels: (D,).
        document_values: (D,), v.
        rank_weights: (documents of the longest query,), w.
        scales: (Q,), factor of the changes of a query; a query with scale 0 has no lambdas.
        document_weights: (D,), factor of each document's gradient and hessian.
    """

    query_start: QueryStart
    labels: Labels
    document_values: Values
    rank_weights: Values
    scales: Values
    document_weights: Values


LEAST_RATIO = 1e-16
"""Minimum t for a correction (XGBoost); a pair with a smaller t is not corrected, because the quotient would
outweigh all other pairs."""


class PairCorrection(NamedTuple):
    """Correction of pairs for position bias, and the costs from which propensities are estimated.

    Attributes:
        t_plus: (D,), t_plus of each document's position; NaN if the position has none.
        t_minus: (D,), likewise.
        cost_plus: (D,), initially 0; the kernel adds L / t_minus for each pair with the document as hi.
        cost_minus: (D,), initially 0; the kernel adds L / t_plus for each pair with the document as lo.
        cost_sign: 1 for the mirrored cost, -1 for the logistic cost.
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
    """Returns the (D,) gradients and (D,) hessians; 0 outside `queries`.

    Args:
        data: the data set.
        scores: (D,).
        draws: (D, P), random numbers in [0, 1) that select P partners per document; (D, 0): all pairs count.
        settings: the dialect.
        queries: indices of the queries to compute.
        correction: correction of position bias; None: pairs are not corrected.
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
        # The order of additions affects the last bits: rank by rank, or pair by pair with a correction.
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
    """Returns the product; with float32_sums, it is rounded after each factor, as in the libraries."""
    if correction is not None:  # which always has float64 sums
        return value * (factor * weight)
    return _stored(_stored(value * factor, settings) * weight, settings)


@kernel
def _order(scores: Values, labels: Labels, low_labels_first: float) -> Ranks:
    """Returns the (n,) document at each rank; the sort is stable, so that tied documents keep their order."""
    if low_labels_first == 0.0:
        return np.argsort(-scores, kind="mergesort")
    by_label = np.argsort(low_labels_first * labels, kind="mergesort")
    return by_label[np.argsort(-scores[by_label], kind="mergesort")]


@kernel
def _partners(
    order: Ranks, labels: Labels, draws: NDArray[np.float64], truncation: int
) -> tuple[Ranks, Ranks, Ranks]:
    """Returns (start, end, partners): rank i is paired with the ranks partners[start[i]:end[i]].

    These ranks are ascending and below rank i in the list.
    """
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
    """Returns the upper and the lower rank of each drawn pair."""
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
    """Returns two (n,) arrays of running values over ranks: excluding each rank, and including it."""
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
    """Writes to `delta` the change of the metric for rank i and each rank of `below`."""
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
    """Adds the pairs of rank i to g and h, in the order of ranks; returns `total` plus the sum of lambdas."""
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
    """Returns the divisor of a pair's lambda, and adds the pair's cost to its two documents.

    Args:
        correction: correction of the query.
        hi: document with the higher label.
        lo: the other document.
        x: sigma times the score difference.
        weight: delta of the pair.
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
    """Returns the value, rounded to float32 with float32_sums."""
    return np.float64(np.float32(value)) if settings.float32_sums else value


@kernel
def _probability(difference: float, sigma: float, probability: int) -> float:
    """Returns the probability p of the wrong order; `pairs.py` explains each variant."""
    if probability == Probability.FLOAT32:
        one, exponent = np.float32(1.0), np.float32(-sigma * difference)
        # The C library's expf, as in XGBoost; rounding a float64 exp differs in one of a thousand last bits.
        e = np.exp(min(exponent, np.float32(88.7)))
        return 1.0 - np.float64(one / (e + one + np.float32(1e-16)))
    if probability == Probability.TABLE:
        bins, edge = 1048576.0, 25.0 / sigma
        bins_in_one = bins / (2.0 * edge)
        index = min(max(np.trunc((difference + edge) * bins_in_one), 0.0), bins - 1.0)
        difference = index / bins_in_one - edge
    p: float = 1.0 / (1.0 + np.exp(sigma * difference))
    return p


# ---- Dialects: the settings in which implementations of LambdaMART differ.
#
# All dialects are the same algorithm with different `PairSettings`. The presets in conf/model
# (native_lightgbm.yaml and others) contain the settings of the libraries; tests compare them with the
# lambdas of the libraries. `pairs.py` is the specification of the settings, for reading and testing. The
# kernel computes them for training, and `lambdas.py` is a faster kernel for native's default settings.
#
# To add a difference that no setting covers yet, add a field to `PairOptions`, a line to `pairs.py` and a
# line to `pairwise.py`. An existing test compares the two files.

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's constant 0.01 is a float32, which is visible in results at 1e-7."""

ORDERS_OF_TIES = {"row_order": 0.0, "worst": 1.0, "best": -1.0}
"""Name of an order of tied documents -> `Compiled.low_labels_first`."""

OF_LAMBDARANK = {"objective": ("lambdarank",)}
OF_PAIRS = {"objective": ("lambdarank", "ranknet")}
OF_GAINS = {**OF_LAMBDARANK, "metric": ("ndcg", "dcg")}
OF_RELEVANCE = {**OF_LAMBDARANK, "metric": ("map", "mrr", "precision")}
OF_ERR = {**OF_LAMBDARANK, "metric": ("err",)}


@dataclass(kw_only=True)
class ObjectiveOptions:
    """The objective, and the metric of lambdarank."""

    objective: str = setting("lambdarank", choices=("lambdarank", "ranknet", "xendcg", "mart"))
    """Objective that the trees are fitted to. `lambdarank`: pairs of documents, weighted by the change of
    `metric` when they are swapped; `ranknet`: pairs with equal weights (XGBoost's rank:pairwise), so that the
    bottom of a list matters as much as the top; `xendcg`: cross entropy of whole lists (LightGBM's
    rank_xendcg), which uses no pairs and is cheaper; `mart`: squared error of each document (RankLib's
    MART), which predicts labels instead of an order."""
    metric: str = setting("ndcg", only_with=OF_LAMBDARANK)
    """lambdarank: metric whose change, when the two documents of a pair are swapped, is the weight of the
    pair. `ndcg`: with full discounts at every rank (LightGBM, XGBoost, RankLib), so that documents are pushed
    up from any rank; with a cutoff, as in ndcg@10: the exact change, so that a pair below the cutoff has no
    weight (pyltr, QuickRank). Also dcg, map (XGBoost's rank:map), mrr, err (pyltr, RankLib), precision@k and
    wta."""
    gain: str = setting("exponential", choices=("exponential", "linear"), only_with=OF_GAINS)
    """Gain of a label in ndcg and dcg. `exponential`: 2^label - 1; `linear`: the label itself, which gives
    less weight to the highest grades (XGBoost's ndcg_exp_gain=false)."""
    label_gain: list[float] | None = setting(None, only_with=OF_GAINS)
    """Gains of labels 0, 1, 2, ..., which replace `gain` (LightGBM's label_gain); None: use `gain`."""
    relevance_threshold: float = setting(1.0, above=0, only_with=OF_RELEVANCE)
    """map, mrr and precision: lowest label of a relevant document."""
    highest_grade: float = setting(4.0, above=0, only_with=OF_ERR)
    """err: highest possible label (RankLib's -gmax); a higher value lowers the probability that a document
    satisfies the user."""


@dataclass(kw_only=True)
class PairOptions:
    """Settings of the gradients and hessians of a pair of documents."""

    sigma: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Slope of the logistic function of a pair's score difference (LightGBM's sigmoid): with a steeper
    slope, gradients of correctly ordered pairs vanish at smaller differences."""
    sigmoid: str = setting("exact", choices=("exact", "table", "float32"), only_with=OF_PAIRS)
    """Computation of that function, the probability p of the wrong order. `exact`: 1 / (1 + exp(sigma d)) in
    float64; `table`: p at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma] (LightGBM);
    `float32`: 1 - 1 / (1 + exp(-sigma d) + 1e-16) in float32 (XGBoost). Only the last digits differ."""
    normalize_distance: bool = setting(True, only_with=OF_PAIRS)
    """Divides a pair's weight by distance_offset + |score difference|, unless all scores of the query are
    equal: one half of LightGBM's lambdarank_norm, XGBoost's lambdarank_score_normalization. Pairs with close
    scores then have up to 1 / distance_offset times their weight."""
    distance_offset: float | None = setting(None, above=0, only_with=OF_PAIRS)
    """Offset of the score difference in normalize_distance; a smaller offset gives more weight to pairs with
    close scores. None: LightGBM's 0.01, rounded to float32."""
    normalize_query: bool = setting(True, only_with=OF_PAIRS)
    """Multiplies the gradients and hessians of a query by its query_norm, which reduces the weight of queries
    with many pairs: the other half of LightGBM's lambdarank_norm, XGBoost's lambdarank_normalization."""
    query_norm: str = setting("log2", choices=("log2", "pairs"), only_with=OF_PAIRS)
    """Norm of a query. `log2`: log2(1 + S) / S, where S is the sum of 2 lambda over the pairs (LightGBM,
    XGBoost's topk); `pairs`: 1 / pairs_per_document (XGBoost's mean)."""
    hessian_factor: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Factor of all hessians (XGBoost: 2, which halves its steps)."""
    least_hessian: float = setting(0.0, at_least=0, only_with=OF_PAIRS)
    """Minimum of p (1 - p) of a pair, which keeps steps small for pairs with a large score difference
    (XGBoost: 1e-16)."""
    ties: str = setting("row_order", choices=tuple(ORDERS_OF_TIES), only_with=OF_PAIRS)
    """Order of documents with tied scores; before the first tree all scores are tied. `row_order`: the order
    of the rows, as in a stable sort (most libraries), so that the order of the file affects the model;
    `worst`: by ascending label (pyltr), so that relevant documents are ranked last and pushed up; `best`: by
    descending label."""
    pairs_per_document: int | None = setting(None, at_least=1, only_with=OF_PAIRS)
    """Number of partners drawn for each document and tree, from all documents of the query with another
    label (XGBoost's lambdarank_pair_method=mean): an estimate of the sum over all pairs; fewer partners are
    cheaper and noisier. Requires truncation=null. None: all pairs within truncation count."""
    float32_scores: bool = setting(False, only_with=OF_PAIRS)
    """Rounds the training scores and their differences to float32 (XGBoost), so that more scores are tied."""
    float32_sums: bool = setting(False, only_with=OF_PAIRS)
    """Sums the gradients and hessians of a document in float32, in the order of ranks (LightGBM, XGBoost).
    Only the last digits differ."""
    float32_norm: bool = setting(False, only_with=OF_PAIRS)
    """Rounds the norm of a query and the lambdas in S to float32 (XGBoost). Only the last digits differ."""


@dataclass(kw_only=True)
class PairSettings(PairOptions):
    """Settings of pairs in the form that the engine uses.

    Attributes:
        metric: metric whose change is the weight delta of a pair. `ndcg` has full discounts at every rank,
            and max_dcg over the first `truncation` ranks. Other names, including those with a cutoff such as
            ndcg@10 and err@10, have their exact change. None: every pair has weight 1 (RankNet).
        convention: gains, relevance and other choices that the name of a metric leaves open; the order of
            tied documents is `ties` instead.
        truncation: a pair counts if at least one of its documents is among this many top ranks (LightGBM,
            XGBoost). A smaller value is faster and focuses on the top. None: every pair counts.

    Raises:
        ConfigError: If the metric does not exist, a setting is out of range, or settings contradict each
            other.
    """

    metric: str | None = "ndcg"
    convention: Convention = DEFAULT
    truncation: int | None = setting(30, at_least=1)
    distance_offset: float = setting(FLOAT32_OFFSET, above=0)

    def __post_init__(self) -> None:
        check(self)
        if self.metric is not None:
            parse_metric(self.metric)
        if self.pairs_per_document is not None and self.truncation is not None:
            raise ConfigError(
                f"pairs_per_document is {self.pairs_per_document} and truncation is {self.truncation}, but "
                "partners are drawn from the whole list; set one of the two to null."
            )
        if self.query_norm == "pairs" and self.pairs_per_document is None:
            raise ConfigError(
                "query_norm is pairs, which divides by pairs_per_document, but pairs_per_document is not "
                "set; set it, or set query_norm=log2."
            )


NATIVE = PairSettings()
