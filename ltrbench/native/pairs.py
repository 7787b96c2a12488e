"""The lambdas of one query pair by pair, in every dialect of LambdaMART: the specification, not the engine.

All dialects are one algorithm (`lambdas.py` tells it for native's) with other settings, which `PairSettings`
names. Documents stand in ranked order, ranks from 0; of a pair of different labels hi is the document of the
higher one, s the scores:

    delta   = how much the metric changes when the two documents change places
    delta  /= distance_offset + |s_hi - s_lo|     where normalize_distance, and not all scores are equal
    p       = 1 / (1 + exp(sigma (s_hi - s_lo)))  as `sigmoid` computes it
    lambda  = sigma p delta                       pushes hi up and lo down
    hessian = hessian_factor sigma^2 max(p (1 - p), least_hessian) delta

and where normalize_query, all of a query's are multiplied by log2(1 + S) / S, with S the sum of 2 lambda.

The presets are held to the libraries' own lambdas by tests. A dialect that no setting reaches yet is one more
field here, and one more test. The cost is O(n^2) of a query of n documents, or more for a change of a metric
without a formula: for reading and testing, never for training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.metrics import DEFAULT, Convention, evaluate, parse_metric, rank
from ltrbench.metrics.convention import Ties
from ltrbench.metrics.evaluation import check_defined
from ltrbench.shapes import Labels, Scores

Values = NDArray[np.float64]  # (n,), one a document of the query
Pairs = NDArray[np.float64]  # (n, n), one for each pair of its documents
Sigmoid = Callable[[Pairs, float], Pairs]

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's literal is a float32, and its digits are seen at 1e-7."""


@np.errstate(over="ignore")  # of two far apart in the right order, exp is infinite and p is 0
def logistic(differences: Pairs, sigma: float) -> Pairs:
    """p = 1 / (1 + exp(sigma d))."""
    p: Pairs = 1.0 / (1.0 + np.exp(sigma * differences))
    return p


def logistic_from_table(differences: Pairs, sigma: float) -> Pairs:
    """LightGBM's: p at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma], clamped."""
    bins, edge = 2**20, 25.0 / sigma
    width = 2.0 * edge / bins
    index = np.clip(np.trunc((differences + edge) / width), 0, bins - 1)
    return logistic(index * width - edge, sigma)


def logistic_in_float32(differences: Pairs, sigma: float) -> Pairs:
    """XGBoost's: 1 / (1 + exp(min(sigma d, 88.7)) + 1e-16), in float32 throughout."""
    exponent = np.minimum((sigma * differences).astype(np.float32), np.float32(88.7))
    p = np.float32(1.0) / (np.float32(1.0) + np.exp(exponent) + np.float32(1e-16))
    return p.astype(np.float64)


IN_ROW_ORDER = replace(DEFAULT, ties=Ties.ROW_ORDER)
"""Lambdas need one order: a stable sort's, as the engine and most libraries have it."""


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """What the dialects of LambdaMART differ in.

    Attributes:
        metric: whose change is delta. `ndcg`: |G_i - G_j| |D_i - D_j| / max_dcg, with the discounts in full
            however deep the pair stands (LightGBM, XGBoost, RankLib). Any name of `ltrbench.metrics`, also
            with a cutoff as in ndcg@10 or err@10: its true change, so that it is 0 for a pair below the
            cutoff (pyltr, QuickRank).
        convention: gains, ties and the rest of what the metric's name leaves open; ties also make the order.
        truncation: a pair counts if one of its documents ranks above it, and max_dcg is the best DCG there;
            None: every pair counts.
        sigma: slope of the sigmoid.
        sigmoid: how p is computed.
        normalize_distance: divide delta by the distance of the scores.
        distance_offset: what is added to that distance.
        normalize_query: bring the sum S of a query's lambdas to log2(1 + S).
        hessian_factor: XGBoost doubles the hessian.
        least_hessian: a floor under p (1 - p).
        score_dtype: what scores are rounded to first.
        weights_within_queries: whether documents of one query may weigh differently.
    """

    metric: str = "ndcg"
    convention: Convention = IN_ROW_ORDER
    truncation: int | None = 30
    sigma: float = 1.0
    sigmoid: Sigmoid = logistic
    normalize_distance: bool = True
    distance_offset: float = FLOAT32_OFFSET
    normalize_query: bool = True
    hessian_factor: float = 1.0
    least_hessian: float = 0.0
    score_dtype: str = "float64"
    weights_within_queries: bool = True


NATIVE = PairSettings()

PRESETS: dict[str, PairSettings] = {
    "native": NATIVE,
    # LightGBM 4.7: src/objective/rank_objective.hpp.
    "lightgbm": PairSettings(
        convention=replace(IN_ROW_ORDER, name="lightgbm", largest_label=30.0),
        sigmoid=logistic_from_table,
    ),
    # XGBoost 3.2: src/objective/lambdarank_obj.h, rank:ndcg with lambdarank_pair_method=topk.
    "xgboost": PairSettings(
        convention=replace(IN_ROW_ORDER, name="xgboost", largest_label=31.0),
        truncation=32,
        sigmoid=logistic_in_float32,
        distance_offset=0.01,
        hessian_factor=2.0,
        least_hessian=1e-16,
        score_dtype="float32",
        weights_within_queries=False,
    ),
    # RankLib 2.x: ciir.umass.edu.learning.tree.LambdaMART with -metric2t NDCG@10, its default.
    "ranklib": PairSettings(truncation=10, normalize_distance=False, normalize_query=False),
    # pyltr 0.2.6: pyltr/models/lambdamart.py with NDCG(k=10).
    "pyltr": PairSettings(
        metric="ndcg@10",
        convention=replace(DEFAULT, ties=Ties.WORST),
        truncation=None,
        normalize_distance=False,
        normalize_query=False,
    ),
}


@dataclass(frozen=True, eq=False)
class PairLambdas:
    """What the pairs of one query of n documents come to; arrays in the order of rows, not of ranks.

    Attributes:
        ranks: (n,), from 0.
        gains: (n,), G(l).
        discounts: (n,), D at each document's rank.
        delta: (n, n), the change of the metric, symmetric; 0 for a pair that does not count.
        lambda_matrix: (n, n), what the pair of row i and column j adds to the gradient of i: negative where
            it pushes i up; the gradients are its sums by row.
        hessian_matrix: (n, n), what the pair adds to the hessian of either document.
    """

    ranks: NDArray[np.int64]
    gains: Values
    discounts: Values
    delta: Pairs
    lambda_matrix: Pairs
    hessian_matrix: Pairs

    @property
    def gradients(self) -> Values:
        """(n,), the derivative of the cost by each score: negative pushes a document up."""
        sums: Values = self.lambda_matrix.sum(axis=1)
        return sums

    @property
    def hessians(self) -> Values:
        """(n,), the second derivative, never negative."""
        sums: Values = self.hessian_matrix.sum(axis=1)
        return sums


def pair_lambdas(labels: Labels, scores: Scores, settings: PairSettings = NATIVE) -> PairLambdas:
    """The lambdas of one query of weight 1, by the formulas of the module's docstring.

    Args:
        labels: (n,).
        scores: (n,).

    Raises:
        ConfigError: on a metric that does not exist.
        UndefinedMetricError: where the library whose convention it is does not take the labels.
        DataError: on a label that has no gain, or an infinite one.

    >>> pairs = pair_lambdas(np.array([0.0, 1.0]), np.zeros(2), PRESETS["ranklib"])
    >>> pairs.gradients.round(4).tolist(), pairs.hessians.round(4).tolist()
    ([0.1845, -0.1845], [0.0923, 0.0923])
    """
    n = len(labels)
    query = Judgments(labels=labels, query_start=np.array([0, n]))
    metric, k = parse_metric(settings.metric)
    check_defined(metric, k, settings.convention.of(metric), query)
    s = np.asarray(scores).astype(settings.score_dtype).astype(np.float64)
    order = rank(query, s, settings.convention.ties).order
    ranks = np.empty(n, dtype=np.int64)
    ranks[order] = np.arange(n)
    gains = settings.convention.gain(query.labels)
    discounts = settings.convention.discount(ranks)

    delta = np.where(_counts(query.labels, ranks, settings.truncation), _change(query, ranks, settings), 0.0)
    difference = s[:, None] - s[None, :]
    weight = delta
    if settings.normalize_distance and s.max() != s.min():
        weight = delta / (settings.distance_offset + np.abs(difference))
    higher = np.sign(query.labels[:, None] - query.labels[None, :])
    p = settings.sigmoid(higher * difference, settings.sigma)
    push = settings.sigma * p * weight
    curvature = np.maximum(p * (1.0 - p), settings.least_hessian)
    hessian = settings.hessian_factor * settings.sigma**2 * curvature * weight
    # Each pair stands in the matrix twice, so that the sum of all is that of 2 lambda over the pairs.
    total = push.sum()
    scale = np.log2(1.0 + total) / total if settings.normalize_query and total > 0.0 else 1.0
    return PairLambdas(ranks, gains, discounts, delta, -higher * push * scale, hessian * scale)


def _counts(labels: Labels, ranks: NDArray[np.int64], truncation: int | None) -> NDArray[np.bool_]:
    """(n, n), whether a pair is one of different labels with a document above the truncation."""
    counts: NDArray[np.bool_] = labels[:, None] != labels[None, :]
    if truncation is not None:
        counts &= np.minimum(ranks[:, None], ranks[None, :]) < truncation
    return counts


def _change(query: Judgments, ranks: NDArray[np.int64], settings: PairSettings) -> Pairs:
    """(n, n), the change of the metric when two documents change places, never negative."""
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
    """(n, n), |metric after the swap - metric before|: the definition, for a metric without a formula.

    The swaps of one document are the queries of one data set, evaluated at once; the first is unswapped.
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
