"""Position bias as a weight of pairs: a click that was hard to come by says more, and is weighted so.

Hu, Wang, Peng and Li, 2019, "Unbiased LambdaMART: An Unbiased Pairwise Learning-to-Rank Algorithm"; XGBoost's
lambdarank_unbiased. In a pair let hi be the clicked document, shown at position p, and lo the other, shown at
q. That hi is clicked where it is relevant goes as t_plus[p], that lo is not clicked where it is irrelevant as
t_minus[q]; with L the pair's cost, times its delta:

    lambda and hessian of a pair are divided by t_plus[p] t_minus[q]
    t_plus[p]  = (sum of L / t_minus[q] over pairs with hi at p, over that of position 0)^e     (eq. 30)
    t_minus[q] = (sum of L / t_plus[p] over pairs with lo at q, over that of position 0)^e      (eq. 31)

where e = 1 / (1 + norm). Both are 1 at first and are learned anew from the pairs of each iteration. Positions
from the truncation on have none, and pairs with one of those count as they are. Of the cost there are two:

    logistic   log(1 + exp(-sigma (s_hi - s_lo))): the paper's
    mirrored   log(1 + exp(sigma (s_hi - s_lo))): what XGBoost 3.2 computes [run], which makes much of the
               pairs that the model is sure of
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.metrics.convention import Ties, logarithmic_discount
from ltrbench.native.objectives.dialects import PairSettings
from ltrbench.native.objectives.lambdas import Judgements, Values, judge
from ltrbench.native.objectives.pairs import logistic, pair_lambdas
from ltrbench.native.objectives.position_bias import Factors
from ltrbench.native.objectives.preparation import ObjectiveSettings, Queries
from ltrbench.shapes import Gradients, Hessians, Labels

Positions = NDArray[np.int64]  # (n,), from 0

LEAST_RATIO = 1e-16
"""XGBoost's: a pair with a smaller t counts as it is, or its quotient would outweigh all others."""


class Propensities(NamedTuple):
    """What is known of the first K positions.

    Attributes:
        t_plus: (K,).
        t_minus: (K,).
    """

    t_plus: Values
    t_minus: Values


class UnbiasedPairs:
    """The lambdas of NDCG, of pairs weighted by what their positions make of clicks: a `BiasCorrection`.

    Args:
        train: with positions.
        settings: of ndcg over all pairs; p is computed exactly, whatever its `sigmoid`.
        norm: the larger, the closer to 1 all t are.
        mirrored: which cost t is learned from.

    Attributes:
        propensities: at the beginning and after each iteration.

    Raises:
        ConfigError: on settings that cannot be corrected.
    """

    def __init__(
        self, train: RankingDataset, settings: ObjectiveSettings, norm: float, mirrored: bool
    ) -> None:
        settings = correctable(settings)
        assert train.positions is not None  # whoever corrects a bias has made sure of it
        depth = settings.truncation or int(train.query_sizes.max())
        self._judgements = judge(train, depth, settings.convention.of("ndcg").gain)
        self._positions = train.positions.copy()
        self._settings = settings
        self._terms = _terms(settings, depth, mirrored)
        self._exponent = 1.0 / (1.0 + norm)
        self.propensities = [Propensities(np.ones(depth), np.ones(depth))]

    def __call__(
        self, scores: Values, queries: Queries, rng: np.random.Generator
    ) -> tuple[Gradients, Hessians]:
        del rng
        if self._settings.float32_scores:
            scores = scores.astype(np.float32).astype(np.float64)
        if queries is None:
            queries = np.arange(len(self._judgements.inverse_max_dcg))
        sums = _Sums(*np.zeros((4, len(scores))))
        known = self.propensities[-1]
        _all_queries(self._judgements, self._positions, scores, known, self._terms, queries, sums)
        t_plus = self._learned(known.t_plus, sums.cost_plus)
        t_minus = self._learned(known.t_minus, sums.cost_minus)
        self.propensities.append(Propensities(t_plus, t_minus))
        return sums.gradients, sums.hessians

    def _learned(self, t: Values, costs: Values) -> Values:
        is_known = self._positions < len(t)
        by_position = np.bincount(self._positions[is_known], costs[is_known], len(t))
        if by_position[0] < LEAST_RATIO:
            return t
        learned: Values = (by_position / by_position[0]) ** self._exponent
        return learned

    def factors(self, num_iterations: int) -> Factors:
        known = self.propensities[num_iterations]
        return {"position": np.arange(len(known.t_plus), dtype=np.float64), **known._asdict()}

    def resume(self, factors: Mapping[str, NDArray[np.float64]]) -> None:
        begin = Propensities(*(t.copy() for t in self.propensities[0]))
        for name, t in begin._asdict().items():
            depth = min(len(t), len(factors[name]))
            t[:depth] = factors[name][:depth]
        self.propensities = [begin]


def correctable(settings: ObjectiveSettings) -> PairSettings:
    """The settings themselves; raises ConfigError where they are not of the pairs that are computed here."""
    if isinstance(settings, PairSettings):
        convention = settings.convention
        ranks_alike = convention.ties is Ties.ROW_ORDER and convention.discount is logarithmic_discount
        if settings.metric == "ndcg" and settings.pairs_per_document is None and ranks_alike:
            return settings
    raise ConfigError(
        "position_bias=propensity corrects the pairs of lambdarank on ndcg alone, all of them, with tied "
        "documents in the order of rows; set metric=ndcg, ties=row_order and pairs_per_document=null, or "
        "position_bias=additive, which corrects any objective."
    )


def reference_unbiased(
    labels: Labels,
    scores: Values,
    positions: Positions,
    propensities: Propensities,
    settings: PairSettings,
    mirrored: bool,
) -> tuple[Gradients, Hessians, Values, Values]:
    """The specification, of one query of weight 1: g, h, and each document's sums of L / t_minus and
    L / t_plus."""
    pairs = pair_lambdas(labels, scores, replace(settings, normalize_query=False))
    t_plus, t_minus = (np.append(t, np.nan) for t in propensities)
    place = np.minimum(positions, len(t_plus) - 1)
    t_hi, t_lo = np.meshgrid(t_plus[place], t_minus[place], indexing="ij")
    has_both = ~np.isnan(t_hi * t_lo)
    is_hi = labels[:, None] > labels[None, :]
    ratio = np.where(has_both & (np.minimum(t_hi, t_lo) >= LEAST_RATIO), t_hi * t_lo, 1.0)
    ratio = np.where(is_hi, ratio, ratio.T)

    difference = scores[:, None] - scores[None, :]
    p = logistic(difference, settings.sigma)
    push = np.where(is_hi, -pairs.lambda_matrix, 0.0)
    sign = 1.0 if mirrored else -1.0
    cost = np.logaddexp(0.0, sign * settings.sigma * difference) * push / (settings.sigma * p)
    cost_plus = np.divide(cost, t_lo, out=np.zeros_like(cost), where=has_both & (t_lo >= LEAST_RATIO))
    cost_minus = np.divide(cost, t_hi, out=np.zeros_like(cost), where=has_both & (t_hi >= LEAST_RATIO))

    total = 2.0 * (push / ratio).sum()
    scale = np.log2(1.0 + total) / total if settings.normalize_query and total > 0.0 else 1.0
    gradients, hessians = (
        (matrix / ratio).sum(axis=1) for matrix in (pairs.lambda_matrix, pairs.hessian_matrix)
    )
    return scale * gradients, scale * hessians, cost_plus.sum(axis=1), cost_minus.sum(axis=0)


class _Terms(NamedTuple):
    """`PairSettings` for the kernel; every field is of one type, which it is compiled for."""

    sigma: float
    truncation: int
    distances_count: bool
    distance_offset: float
    normalize_query: bool
    hessian_factor: float
    least_hessian: float
    cost_sign: float


def _terms(settings: PairSettings, depth: int, mirrored: bool) -> _Terms:
    return _Terms(
        sigma=float(settings.sigma),
        truncation=depth,
        distances_count=settings.normalize_distance,
        distance_offset=float(settings.distance_offset),
        normalize_query=settings.normalize_query,
        hessian_factor=float(settings.hessian_factor),
        least_hessian=float(settings.least_hessian),
        cost_sign=1.0 if mirrored else -1.0,
    )


class _Sums(NamedTuple):
    """What is added up, (D,) each, of a data set or of a query."""

    gradients: Gradients
    hessians: Hessians
    cost_plus: Values
    cost_minus: Values


@parallel_kernel
def _all_queries(
    judgements: Judgements,
    positions: Positions,
    scores: Values,
    propensities: Propensities,
    terms: _Terms,
    queries: NDArray[np.int64],
    sums: _Sums,
) -> None:
    for k in numba.prange(len(queries)):
        q = queries[k]
        if judgements.inverse_max_dcg[q] > 0.0:
            first, end = judgements.query_start[q], judgements.query_start[q + 1]
            _one_query(
                scores[first:end],
                judgements.gains[first:end],
                positions[first:end],
                (judgements.discounts[: end - first], judgements.inverse_max_dcg[q]),
                judgements.document_weights[first:end],
                propensities,
                terms,
                _Sums(
                    sums.gradients[first:end],
                    sums.hessians[first:end],
                    sums.cost_plus[first:end],
                    sums.cost_minus[first:end],
                ),
            )


@kernel
def _one_query(
    scores: Values,
    gains: Values,
    positions: Positions,
    of_ndcg: tuple[Values, float],
    weights: Values,
    propensities: Propensities,
    terms: _Terms,
    sums: _Sums,
) -> None:
    """The pairs in the order of ranks."""
    n, total = len(scores), 0.0
    discounts, inverse_max_dcg = of_ndcg
    order = np.argsort(-scores, kind="mergesort")  # stable
    distances_count = terms.distances_count and scores[order[0]] != scores[order[n - 1]]
    for i in range(min(terms.truncation, n - 1)):
        for j in range(i + 1, n):
            hi, lo = order[i], order[j]
            if gains[hi] == gains[lo]:
                continue
            if gains[hi] < gains[lo]:
                hi, lo = lo, hi
            distance = scores[hi] - scores[lo]
            delta = (gains[hi] - gains[lo]) * (discounts[i] - discounts[j]) * inverse_max_dcg
            if distances_count:
                delta /= terms.distance_offset + abs(distance)
            total += _add_pair(hi, lo, distance, delta, positions, propensities, terms, sums)
    scale = 1.0
    if terms.normalize_query and total > 0.0:
        scale = np.log2(1.0 + 2.0 * total) / (2.0 * total)
    for d in range(n):
        sums.gradients[d] *= scale * weights[d]
        sums.hessians[d] *= scale * weights[d]


@kernel
def _add_pair(
    hi: int,
    lo: int,
    distance: float,
    delta: float,
    positions: Positions,
    propensities: Propensities,
    terms: _Terms,
    sums: _Sums,
) -> float:
    """Adds what a pair is worth; returns its lambda."""
    x = terms.sigma * distance
    p = 1.0 / (1.0 + np.exp(x))
    push: float = terms.sigma * p * delta
    curvature = terms.hessian_factor * terms.sigma**2 * max(p * (1.0 - p), terms.least_hessian) * delta
    if max(positions[hi], positions[lo]) < len(propensities.t_plus):
        t_hi, t_lo = propensities.t_plus[positions[hi]], propensities.t_minus[positions[lo]]
        cost = delta * (max(terms.cost_sign * x, 0.0) + np.log1p(np.exp(-abs(x))))
        if t_lo >= LEAST_RATIO:
            sums.cost_plus[hi] += cost / t_lo
        if t_hi >= LEAST_RATIO:
            sums.cost_minus[lo] += cost / t_hi
        if min(t_hi, t_lo) >= LEAST_RATIO:
            push /= t_hi * t_lo
            curvature /= t_hi * t_lo
    sums.gradients[hi] -= push
    sums.gradients[lo] += push
    sums.hessians[hi] += curvature
    sums.hessians[lo] += curvature
    return push
