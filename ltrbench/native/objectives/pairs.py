"""The lambdas of one query, pair by pair, in every dialect of LambdaMART: settings, specification, kernel.

All dialects are the same algorithm with different settings, which `PairSettings` defines; `lambdas.py`
describes native's dialect. Ranks start at 0, and s are the scores. In a pair of documents with different
labels, hi is the document with the higher label and lo the other:

    delta   = absolute change of the metric when the two documents are swapped
    delta  /= distance_offset + |s_hi - s_lo|     if normalize_distance, unless all scores are equal
    p       = 1 / (1 + exp(sigma (s_hi - s_lo)))  computed as selected by `sigmoid`
    lambda  = sigma p delta                       pushes hi up and lo down
    hessian = hessian_factor sigma^2 max(p (1 - p), least_hessian) delta

If normalize_query, all lambdas and hessians of a query are multiplied by its norm: log2(1 + S) / S, where S
is the sum of 2 lambda, or 1 / pairs_per_document. A pair that is drawn twice counts twice.

The specification, `pair_lambdas`, takes O(n^2) for a query of n documents, or more for a metric without a
closed form. It is for reading and testing; training uses the kernel, `pairwise_lambdas`, which tests compare
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, kernel
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, evaluate, parse_metric, rank
from ltrbench.metrics.conventions import Denominator, Ties
from ltrbench.metrics.evaluation import check_defined
from ltrbench.settings import IS_ON, check, setting
from ltrbench.shapes import Labels, PerQuery, QueryStart, Scores, Values

# ---- Dialects: the settings in which implementations of LambdaMART differ.
#
# All dialects are the same algorithm with different `PairSettings`. The presets in conf/model
# (native_lightgbm.yaml and others) contain the settings of the libraries; tests compare them with the
# lambdas of the libraries. `lambdas.py` has a faster kernel for native's default settings.
#
# To add a difference that no setting covers yet, add a field to `PairOptions`, and a line to the
# specification and to the kernel below. An existing test compares the two.

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's constant 0.01 is a float32, which is visible in results at 1e-7."""

ORDERS_OF_TIES = {"row_order": 0.0, "worst": 1.0, "best": -1.0}
"""Name of an order of tied documents -> `Compiled.low_labels_first`."""

OF_GAINS = {"metric": ("ndcg", "dcg")}


@dataclass(kw_only=True)
class MetricOptions:
    """The metric of lambdarank."""

    metric: str = setting("ndcg")
    """lambdarank: ndcg, dcg, map, mrr, err, precision@k or wta; ndcg@10: no weight below the cutoff. The
    weight of a pair is the change of the metric when its two documents are swapped. ndcg has full discounts
    at every rank (LightGBM, XGBoost, RankLib), so that documents are pushed up from any rank; with a cutoff,
    the change is exact, so that a pair below the cutoff has no weight (pyltr, QuickRank). map is XGBoost's
    rank:map; err is in pyltr and RankLib."""
    gain: str = setting(
        "exponential", choices=("exponential", "linear"), only_with=OF_GAINS
    )
    """Gain of a label in ndcg and dcg: exponential: 2^label - 1; linear: the label itself. A linear gain
    gives less weight to the highest grades (XGBoost's ndcg_exp_gain=false)."""
    label_gain: list[float] | None = setting(None, only_with=OF_GAINS)
    """Gains of labels 0, 1, 2, ..., which replace `gain` (LightGBM's label_gain); None: use `gain`."""
    relevance_threshold: float = setting(
        1.0, above=0, only_with={"metric": ("map", "mrr", "precision")}
    )
    """map, mrr and precision: lowest label of a relevant document."""
    highest_grade: float = setting(4.0, above=0, only_with={"metric": ("err",)})
    """err: highest possible label (RankLib's -gmax). A higher value lowers the probability that a document
    satisfies the user."""


@dataclass(kw_only=True)
class PairOptions:
    """Settings of the gradients and hessians of a pair of documents."""

    sigma: float = setting(1.0, above=0)
    """Slope of the logistic function of a pair's score difference (LightGBM's sigmoid). With a steeper slope,
    gradients of correctly ordered pairs vanish at smaller differences."""
    sigmoid: str = setting("exact", choices=("exact", "table", "float32"))
    """Computation of that function: exact, table (LightGBM's 2^20 steps) or float32 (XGBoost's). It gives the
    probability p of the wrong order. `exact`: 1 / (1 + exp(sigma d)) in float64; `table`: p at the left edge
    of one of 2^20 bins over [-25 / sigma, 25 / sigma]; `float32`: 1 - 1 / (1 + exp(-sigma d) + 1e-16) in
    float32. Only the last digits differ."""
    normalize_distance: bool = setting(True)
    """Divides a pair's weight by distance_offset + |score difference|. If all scores of the query are equal,
    it is not divided. One half of LightGBM's lambdarank_norm, XGBoost's lambdarank_score_normalization. Pairs
    with close scores have up to 1 / distance_offset times their weight."""
    distance_offset: float | None = setting(
        None, above=0, only_with={"normalize_distance": IS_ON}
    )
    """Offset of the score difference in normalize_distance; None: LightGBM's 0.01, as float32. A smaller
    offset gives more weight to pairs with close scores."""
    normalize_query: bool = setting(True)
    """Multiplies gradients and hessians of a query by query_norm: other half of lambdarank_norm. This reduces
    the weight of queries with many pairs (XGBoost's lambdarank_normalization)."""
    query_norm: str = setting(
        "log2", choices=("log2", "pairs"), only_with={"normalize_query": IS_ON}
    )
    """log2: log2(1 + S) / S, with S the sum of 2 lambda over pairs; pairs: 1 / pairs_per_document. LightGBM
    and XGBoost's topk have log2, XGBoost's mean has pairs."""
    hessian_factor: float = setting(1.0, above=0)
    """Factor of all hessians (XGBoost: 2, which halves its steps)."""
    least_hessian: float = setting(0.0, at_least=0)
    """Minimum of p (1 - p) of a pair (XGBoost: 1e-16). It keeps steps small for pairs with a large score
    difference."""
    ties: str = setting("row_order", choices=tuple(ORDERS_OF_TIES))
    """Order of tied documents: row_order (most libraries), worst (ascending label, pyltr) or best. Before the
    first tree all scores are tied. `row_order` is the order of a stable sort, so that the order of the file
    affects the model; `worst` ranks relevant documents last, so that they are pushed up; `best` is by
    descending label."""
    pairs_per_document: int | None = setting(None, at_least=1)
    """Number of partners drawn per document and tree (requires truncation=null); None: all pairs. Partners
    are drawn from all documents of the query with another label (XGBoost's lambdarank_pair_method=mean): an
    estimate of the sum over all pairs; fewer partners are cheaper and noisier. None: all pairs within
    truncation count."""
    float32_scores: bool = setting(False)
    """Rounds training scores and their differences to float32 (XGBoost). More scores are then tied."""
    float32_sums: bool = setting(False)
    """Sums gradients and hessians of a document in float32, by rank (LightGBM, XGBoost). Only the last digits
    differ."""
    float32_norm: bool = setting(False)
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

# ---- Specification of the lambdas of one query.

Pairs = NDArray[np.float64]  # (n, n), one value per pair of documents
# (n, pairs_per_document), random numbers in [0, 1) that select the partners.
Draws = NDArray[np.float64]


# For distant scores in the right order, exp is infinite and p is 0.
@np.errstate(over="ignore")
def logistic(differences: Pairs, sigma: float) -> Pairs:
    """Returns p = 1 / (1 + exp(sigma d))."""
    p: Pairs = 1.0 / (1.0 + np.exp(sigma * differences))
    return p


def logistic_from_table(differences: Pairs, sigma: float) -> Pairs:
    """Returns LightGBM's p: at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma], clamped."""
    bins = 2**20
    edge = 25.0 / sigma
    # Division by the width of a bin would be rounded differently, and d = 0 is on the edge of a bin.
    bins_in_one = bins / (2.0 * edge)
    index = np.trunc((differences + edge) * bins_in_one)
    index = np.clip(index, 0, bins - 1)
    return logistic(index / bins_in_one - edge, sigma)


def logistic_in_float32(differences: Pairs, sigma: float) -> Pairs:
    """Returns XGBoost's p: 1 - 1 / (1 + exp(min(-sigma d, 88.7)) + 1e-16) in float32."""
    one = np.float32(1.0)
    scaled = (-sigma * differences).astype(np.float32)
    exponent = np.minimum(scaled, np.float32(88.7))
    # exp in float64, because the last digits of float32's exp depend on the machine.
    e = np.exp(exponent.astype(np.float64)).astype(np.float32)
    right_order = one / (e + one + np.float32(1e-16))
    p: Pairs = 1.0 - right_order.astype(np.float64)
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
    labels: Labels,
    scores: Scores,
    settings: PairSettings = NATIVE,
    draws: Draws | None = None,
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
    difference = s[:, None] - s[None, :]
    difference = difference.astype(dtype).astype(np.float64)
    weight = counts * delta
    if settings.normalize_distance and s.max() != s.min():
        weight /= settings.distance_offset + np.abs(difference)
    labels = query.labels
    higher = np.sign(labels[:, None] - labels[None, :])
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


def _sums(
    matrix: Pairs, order: NDArray[np.int64], scale: float, in_float32: bool
) -> Values:
    """Returns the (n,) scaled row sums; in float32, terms are added in the order of ranks."""
    if not in_float32:
        return np.asarray(matrix.sum(axis=1) * scale)
    in_order = matrix[:, order].astype(np.float32)
    sums = np.add.accumulate(in_order, axis=1)[:, -1]
    scaled = (sums.astype(np.float64) * scale).astype(np.float32)
    return scaled.astype(np.float64)


def _query_scale(push: Pairs, settings: PairSettings) -> float:
    """Returns the factor of the lambdas and hessians of a query."""
    if not settings.normalize_query:
        return 1.0
    if settings.query_norm == "pairs":
        scale = 1.0 / (settings.pairs_per_document or 1)
    else:
        # The matrix contains each pair twice, so that its sum is the sum of 2 lambda over the pairs.
        if settings.float32_norm:
            push = push.astype(np.float32)
        total = float(push.sum(dtype=np.float64))
        scale = 1.0
        if total > 0.0:
            scale = float(np.log2(1.0 + total)) / total
    if settings.float32_norm:
        return float(np.float32(scale))
    return scale


def _counts(
    labels: Labels,
    ranks: NDArray[np.int64],
    settings: PairSettings,
    draws: Draws | None,
) -> Pairs:
    """Returns the (n, n) number of times that a pair counts; 0 for equal labels."""
    if settings.pairs_per_document is not None:
        if draws is None:
            draws = np.random.default_rng(0).random(
                (len(labels), settings.pairs_per_document)
            )
        return _times_drawn(labels, draws)
    is_pair = labels[:, None] != labels[None, :]
    counts: Pairs = is_pair.astype(np.float64)
    if settings.truncation is not None:
        upper_ranks = np.minimum(ranks[:, None], ranks[None, :])
        counts *= upper_ranks < settings.truncation
    return counts


def _times_drawn(labels: Labels, draws: Draws) -> Pairs:
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


def _change(
    query: Judgments, ranks: NDArray[np.int64], settings: PairSettings
) -> Pairs:
    """Returns the (n, n) absolute change of the metric when two documents are swapped."""
    if settings.metric is None:
        return np.ones((len(ranks), len(ranks)))
    metric, k = parse_metric(settings.metric)
    check_defined(metric, k, settings.convention.of(metric), query)
    if settings.metric != "ndcg":
        return change_by_swapping(
            query.labels, ranks, settings.metric, settings.convention
        )
    gains = settings.convention.gain(query.labels)
    discounts = settings.convention.discount(ranks)
    best_first = settings.convention.gain(query.labels_best_first)[
        : settings.truncation
    ]
    max_dcg = float(
        best_first @ settings.convention.discount(np.arange(len(best_first)))
    )
    if max_dcg == 0.0:
        return np.zeros((len(gains), len(gains)))
    of_gains = np.abs(gains[:, None] - gains[None, :])
    of_discounts = np.abs(discounts[:, None] - discounts[None, :])
    moved: Pairs = of_gains * of_discounts
    return moved / max_dcg


def change_by_swapping(
    labels: Labels, ranks: NDArray[np.int64], metric: str, convention: Convention
) -> Pairs:
    """Returns the (n, n) |metric after the swap - metric before|, by evaluating the metric of every swap.

    This is the definition, and serves for metrics without a closed form. All swaps of one document are
    evaluated at once, as queries of one data set; the first query is not swapped.
    """
    n = len(labels)
    change = np.zeros((len(labels), len(labels)))
    scores = -ranks.astype(np.float64)
    for i in range(n - 1):
        partners = np.arange(i, n)
        swapped = np.tile(labels, (len(partners), 1))
        swapped[:, i] = labels[partners]
        swapped[np.arange(len(partners)), partners] = labels[i]
        variants = Judgments(
            labels=swapped.ravel(), query_start=np.arange(0, swapped.size + 1, n)
        )
        evaluation = evaluate(
            variants, np.tile(scores, len(partners)), [metric], convention
        )
        values = np.nan_to_num(evaluation.per_query[metric])
        changes = np.abs(values - values[0])
        change[i, i:] = changes
        change[i:, i] = changes
    return change


class Change(IntEnum):
    """Formula for the change of the metric."""

    NONE = 0  # every pair has weight 1
    ADDITIVE = 1
    AVERAGE_PRECISION = 2
    CASCADE = 3


# ---- Swaps: the change of a metric when the documents at two ranks are swapped, in closed form.
#
# For each metric, one function computes the input of the compiled formulas of the kernel:
# the value v of each document, the weight w of each rank, the scale of each query, and the formula, a
# `Change`. With C_r = sum over t <= r of v_t:
#
#     additive           sum over r of v_r w_r                                    DCG, NDCG, precision, WTA
#     average precision  sum over r of v_r w_r C_r, v 0 or 1                      AP
#     cascade            sum over r of v_r w_r product over t < r of (1 - v_t)    ERR, and RR with v 0 or 1
#
# To add a metric, write its function here and add it to `LAYOUTS` under its name in `ltrbench.metrics`. A
# metric of another form also needs a formula in the kernel. A property test compares every metric with
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


def ndcg_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """NDCG@k = sum over r < k of G(l_r) D(r) / max_dcg, where max_dcg is the best DCG@k of the query.

    Without a cutoff, all ranks count in the sum, and max_dcg is the best DCG of the first `truncation` ranks.
    """
    discounts = convention.discount(_ranks(judgments))
    best_gains = convention.gain(judgments.sort_labels())
    depth = truncation if k is None else k
    max_dcg = _sums_of_swaps(
        best_gains * _first(depth, discounts)[judgments.ranks_of_rows], judgments
    )
    _refuse_infinite(max_dcg, judgments)
    has_gain = max_dcg > 0
    zeros = np.zeros_like(max_dcg)
    scales = np.divide(1.0, max_dcg, out=zeros, where=has_gain)
    if convention.zero_if_shorter_than_k and k is not None:
        scales[judgments.query_sizes < k] = 0.0
    return Swaps(
        Change.ADDITIVE, convention.gain(judgments.labels), _first(k, discounts), scales
    )


def dcg_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """DCG@k = sum over r < k of G(l_r) D(r): queries with high labels have more weight than in NDCG."""
    normalised = ndcg_swaps(judgments, k, convention, truncation)
    return normalised._replace(scales=(normalised.scales > 0.0).astype(np.float64))


def precision_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """P@k = sum over r < k of rel_r / k, or / min(k, n), depending on the convention; k is never None."""
    sizes = judgments.query_sizes
    num_ranks = np.full(len(sizes), k)
    if convention.precision_denominator is Denominator.K_UP_TO_SIZE:
        num_ranks = np.minimum(num_ranks, sizes)
    weights = _first(k, np.ones(sizes.max()))
    return Swaps(
        Change.ADDITIVE, _relevance(judgments, convention), weights, 1.0 / num_ranks
    )


def winner_takes_all_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """WTA = 1 if the document at rank 0 has the highest label of its query, otherwise 0."""
    highest = np.repeat(judgments.best_labels, judgments.query_sizes)
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
    if (
        k is not None
        and convention.average_precision_denominator is Denominator.RELEVANT_UP_TO_K
    ):
        possible = np.minimum(possible, k)
    has_relevant = possible > 0
    zeros = np.zeros_like(possible)
    scales = np.divide(1.0, possible, out=zeros, where=has_relevant)
    return Swaps(Change.AVERAGE_PRECISION, relevance, _reciprocal(judgments, k), scales)


def reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """RR@k = 1 / (r + 1) for the first relevant rank r < k: a cascade that stops at a relevant document."""
    relevance = _relevance(judgments, convention)
    return Swaps(
        Change.CASCADE,
        relevance,
        _reciprocal(judgments, k),
        np.ones(judgments.num_queries),
    )


def expected_reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """ERR@k = sum over r < k of 1 / (r + 1) p_r product over t < r of (1 - p_t), p = (2^l - 1) / 2^l_max."""
    gains = np.expm1(judgments.labels * np.log(2.0))
    stop = gains / 2.0**convention.highest_grade
    if stop.max() > 1.0 + 1e-12:
        row = int(judgments.labels.argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}, above ERR's highest grade, "
            f"{convention.highest_grade:g}; set highest_grade to the highest grade of the judgments."
        )
    return Swaps(
        Change.CASCADE, stop, _reciprocal(judgments, k), np.ones(judgments.num_queries)
    )


ADDITIVE: dict[str, Layout] = {
    "ndcg": ndcg_swaps,
    "dcg": dcg_swaps,
    "precision": precision_swaps,
    "wta": winner_takes_all_swaps,
}
"""Metrics that add up over ranks: those whose `Swaps` have `Change.ADDITIVE`."""

LAYOUTS: dict[str, Layout] = {
    **ADDITIVE,
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
        scales = np.ones(judgments.num_queries)
        return Swaps(
            Change.NONE, judgments.labels, _reciprocal(judgments, None), scales
        )
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
    if k is None:
        return weights
    return np.where(np.arange(len(weights)) < k, weights, 0.0)


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


# ---- Compiled lambdas of every pairwise objective.
#
# The pairs of one upper rank i are computed together: first the change of the metric for each pair, by the
# formula of its `Change`, then the contributions to g and h. Let v_r be the value of the document at rank
# r, w_r the weight of the rank (the Swaps of a metric have both), and C_r = sum over t <= r of v_t.
# Swapping the documents at ranks i and j > i changes the metric by |v_i - v_j| times
#
#     additive           |w_i - w_j|
#                        metric: sum of v_r w_r
#     average precision  |(C_(i-1) + 1) w_i + (sum over i < r < j of v_r w_r) - C_j w_j|
#                        metric: sum of v_r w_r C_r, where v is 0 or 1
#     cascade            P |w_i - B - Q w_j|
#                        metric: sum of v_r w_r product over t < r of (1 - v_t)
#                        P = product over t < i of (1 - v_t),  Q = product over i < r < j of (1 - v_r),
#                        B = sum over i < r < j of v_r w_r product over i < t < r of (1 - v_t)
#
# For average precision, each relevant document between i and j has one relevant document more or less above
# it. For the cascade, nothing changes above i or below j. The cost for a query is O(n T) plus sorting,
# where T is the truncation, or O(n P) if each document draws P partners (O(n^2) for the cascade, because B
# and Q run over all ranks). One thread computes a query in a fixed order: results have the same bits on any
# number of threads.
#
# With a `PairCorrection`, the lambda and the hessian of a pair are divided by the propensities of its
# positions; `position_bias.py` has the formulas. Without one, the loop is compiled without these lines.

Ranks = NDArray[np.int64]


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
    correction: PairCorrection | None,
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
    sums = np.zeros((2, len(scores)))
    arguments = data, scores, draws, settings, correction, sums
    in_parts(_some_queries, len(queries), queries, arguments)
    return sums[0], sums[1]


@kernel
def _some_queries(
    part: Part,
    queries: NDArray[np.int64],
    arguments: tuple[PairData, Values, Values, Compiled, PairCorrection | None, Values],
) -> None:
    data, scores, draws, settings, correction, sums = arguments
    g = sums[0]
    h = sums[1]
    for q in queries[part[0] : part[1]]:
        if data.scales[q] > 0.0:
            _one_query(data, q, scores, draws, settings, correction, g, h)


@kernel
def _one_query(
    data: PairData,
    q: int,
    scores: Values,
    draws: NDArray[np.float64],
    settings: Compiled,
    correction: PairCorrection | None,
    gradients: Values,
    hessians: Values,
) -> None:
    first = data.query_start[q]
    after = data.query_start[q + 1]
    labels = data.labels[first:after]
    n = after - first
    order = _order(scores[first:after], labels, settings.low_labels_first)
    rows = first + order
    w = data.rank_weights[:n]
    s = scores[rows]
    label = data.labels[rows]
    v = data.document_values[rows]
    above, running = _running_sums(settings.change, v, w)
    start, end, partners = _partners(
        order, labels, draws[first:after], settings.truncation
    )
    g = np.zeros(n)
    h = np.zeros(n)
    total = 0.0
    delta = np.empty(len(partners))
    for i in range(len(start)):
        below = partners[start[i] : end[i]]
        _changes(settings.change, i, below, v, w, above, running, delta)
        # The order of additions affects the last bits: rank by rank, or pair by pair with a correction.
        so_far = 0.0 if correction is None else total
        scale = data.scales[q]
        added = _add_pairs(
            i, below, delta, scale, s, label, rows, settings, correction, so_far, g, h
        )
        total = total + added if correction is None else added
    factor = settings.factor
    if settings.log2_norm and total > 0.0:
        factor *= np.log2(1.0 + 2.0 * total) / (2.0 * total)
    if settings.float32_norm:
        factor = np.float64(np.float32(factor))
    for i in range(n):
        row = rows[i]
        gradients[row] = _scaled(
            g[i], factor, data.document_weights[row], settings, correction
        )
        hessians[row] = _scaled(
            h[i], factor, data.document_weights[row], settings, correction
        )


@kernel
def _scaled(
    value: float,
    factor: float,
    weight: float,
    settings: Compiled,
    correction: PairCorrection | None,
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
    partners = np.empty(len(uppers), dtype=np.int64)
    end = start.copy()
    for k in range(len(uppers)):
        partners[end[uppers[k]]] = lowers[k]
        end[uppers[k]] += 1
    for i in range(n):
        partners[start[i] : start[i + 1]].sort()
    return start[:-1], end[:-1], partners


@kernel
def _drawn(
    order: Ranks, labels: Labels, draws: NDArray[np.float64]
) -> tuple[Ranks, Ranks]:
    """Returns the upper and the lower rank of each drawn pair."""
    n, num_draws = draws.shape
    ranks = np.empty(n, dtype=np.int64)
    ranks[order] = np.arange(n)
    best_first = np.argsort(-labels, kind="mergesort")
    uppers = np.empty(n * num_draws, dtype=np.int64)
    lowers = np.empty(n * num_draws, dtype=np.int64)
    count = 0
    first = 0
    while first < n:
        end = first
        while end < n and labels[best_first[end]] == labels[best_first[first]]:
            end += 1
        others = n - (end - first)
        for k in range(first, end if others > 0 else first):
            document = best_first[k]
            for u in draws[document]:
                number = int(u * others)
                partner = best_first[number if number < first else number + end - first]
                uppers[count] = min(ranks[document], ranks[partner])
                lowers[count] = max(ranks[document], ranks[partner])
                count += 1
        first = end
    return uppers[:count], lowers[:count]


@kernel
def _running_sums(change: int, v: Values, w: Values) -> tuple[Values, Values]:
    """Returns two (n,) arrays of running values over ranks: excluding each rank, and including it."""
    n = len(v)
    above = np.empty(n)
    running = np.empty(n)
    if change == Change.CASCADE:
        reach = 1.0
        for r in range(n):
            above[r] = reach
            running[r] = 0.0
            reach *= 1.0 - v[r]
    else:
        count = 0.0
        total = 0.0
        for r in range(n):
            above[r] = count
            count += v[r]
            total += v[r] * w[r]
            running[r] = total
    return above, running


@kernel
def _changes(
    change: int,
    i: int,
    below: Ranks,
    v: Values,
    w: Values,
    above: Values,
    running: Values,
    delta: Values,
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
    i: int,
    below: Ranks,
    v: Values,
    w: Values,
    above: Values,
    running: Values,
    delta: Values,
) -> None:
    for m in range(len(below)):
        j = below[m]
        between = running[j] - v[j] * w[j] - running[i]
        moved = (above[i] + 1.0) * w[i] + between - (above[j] + v[j]) * w[j]
        delta[m] = abs((v[i] - v[j]) * moved)


@kernel
def _cascade(
    i: int, below: Ranks, v: Values, w: Values, reach: float, delta: Values
) -> None:
    stopped = 0.0
    passed = 1.0
    r = i + 1
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
    rows: Ranks,
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
            curvature = (
                settings.hessian_factor
                * sigma
                * sigma
                * max(p * (1.0 - p), settings.least_hessian)
            )
            bend = curvature * weight
            if correction is not None:
                divisor = _divisor(
                    correction, rows[hi], rows[lo], sigma * difference, weight
                )
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
def _divisor(
    correction: PairCorrection, hi: int, lo: int, x: float, weight: float
) -> float:
    """Returns the divisor of a pair's lambda, and adds the pair's cost to its two documents.

    Args:
        hi: row of the document with the higher label.
        lo: row of the other document.
        x: sigma times the score difference.
        weight: delta of the pair.
    """
    t_plus = correction.t_plus[hi]
    t_minus = correction.t_minus[lo]
    if np.isnan(t_plus) or np.isnan(t_minus):
        return 1.0
    cost = weight * (max(correction.cost_sign * x, 0.0) + np.log1p(np.exp(-abs(x))))
    has_plus = t_plus >= LEAST_RATIO
    has_minus = t_minus >= LEAST_RATIO
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
    """Returns the probability p of the wrong order; the specification explains each variant."""
    if probability == Probability.FLOAT32:
        one = np.float32(1.0)
        exponent = np.float32(-sigma * difference)
        # The C library's expf, as in XGBoost; rounding a float64 exp differs in one of a thousand last bits.
        e = np.exp(min(exponent, np.float32(88.7)))
        return 1.0 - np.float64(one / (e + one + np.float32(1e-16)))
    if probability == Probability.TABLE:
        bins = 1048576.0
        edge = 25.0 / sigma
        bins_in_one = bins / (2.0 * edge)
        index = min(max(np.trunc((difference + edge) * bins_in_one), 0.0), bins - 1.0)
        difference = index / bins_in_one - edge
    p: float = 1.0 / (1.0 + np.exp(sigma * difference))
    return p
