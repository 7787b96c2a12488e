"""Position bias: two corrections of clicks for the position shown, estimated together with the trees.

Wang et al., 2018, "Position Bias Estimation for Unbiased Learning to Rank in Personal Search", explains why
the bias must be estimated. `AdditiveBias` corrects the scores of any objective, as LightGBM does
(lambdarank_position_bias_regularization): during training only, a document shown at position p has the score
s + bias[p], so that the trees do not have to explain the effect of the position by features. In each
iteration, the bias takes a shrunken Newton step. Let g and h be sums over the n documents shown at p, eta the
learning rate, and l2 the penalty:

    bias[p] += eta (-g - l2 n bias[p]) / (|-h - l2 n| + 0.001)

`UnbiasedPairs` corrects the pairs of NDCG: Hu, Wang, Peng and Li, 2019, "Unbiased LambdaMART: An Unbiased
Pairwise Learning-to-Rank Algorithm"; XGBoost's lambdarank_unbiased. In a pair, let hi be the clicked
document, shown at position p, and lo the other document, shown at position q. t_plus[p] is proportional to
the probability of a click on a relevant document at p; t_minus[q] is proportional to the probability of no
click on an irrelevant document at q. Let L be the cost of the pair times its delta:

    lambda and hessian of a pair are divided by t_plus[p] t_minus[q]
    t_plus[p]  = (sum of L / t_minus[q] over pairs with hi at p / same sum for the reference)^e  (eq. 30)
    t_minus[q] = (sum of L / t_plus[p] over pairs with lo at q / same sum for the reference)^e   (eq. 31)

where e = 1 / (1 + norm). The reference is the first position with a document that can be hi, or lo: the first
position shown, unless it has no clicks, as a sponsored slot. All t are 1 initially and are estimated again
from the pairs of each iteration. Positions are counted from the lowest one in the training set; those at or
below the truncation have no t, and pairs with such a position are not corrected. There are two costs:

    logistic   log(1 + exp(-sigma (s_hi - s_lo))): the cost of the paper and of its authors' code
    mirrored   log(1 + exp(sigma (s_hi - s_lo))): the cost of XGBoost 3.2 [run], the default

The logistic cost confirms a bias that the features can explain. Trees that have learned the order shown give
its pairs a low cost, so that t_minus falls far below 1 at low positions, although a document that is not
relevant is hardly clicked anywhere, and t_plus stays near 1. The pairs of the order shown then count more
than without a correction. The mirrored cost of these pairs is high, so that they count less.

NDCG@10 by the true labels, means of three simulations of 500 queries of 20 documents, shown mainly by a
feature that is not relevant. Users examine rank r with the probability 1 / r^severity (by position), or from
the top until a click satisfies them or they give up (cascade):

    clicks                    none   logistic   mirrored   additive
    by position, 0.5         0.810      0.793      0.840      0.854
    by position, 1.0         0.724      0.682      0.744      0.802
    by position, 1.5         0.657      0.621      0.672      0.718
    cascade, 0.5             0.725      0.677      0.769      0.840
    cascade, 1.0             0.650      0.618      0.683      0.791
    cascade, 1.5             0.616      0.583      0.627      0.749

If the documents are shown by a relevant feature instead, by position, mirrored is within 0.007 of no
correction, and additive 0.006 to 0.036 below.

`pairs.py` computes the pairs, divides them, and sums the costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.metrics.conventions import logarithmic_discount
from ltrbench.native.histogram import grouped, sums_by_leaf
from ltrbench.native.objectives.base import PreparedObjective, Queries
from ltrbench.native.objectives.lambdas import ObjectiveSettings, prepare_pairs
from ltrbench.native.objectives.pairs import (
    LEAST_RATIO,
    PairCorrection,
    PairSettings,
    logistic,
    pair_lambdas,
)
from ltrbench.native.team import DocumentDraws, Placement
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, Values

# "position" (P,), and by name the estimates per position, (P,).
Factors = dict[str, NDArray[np.float64]]


@dataclass(kw_only=True)
class PositionBiasSettings:
    """Settings of the correction for position bias."""

    position_bias: str | None = setting(None, choices=("additive", "propensity"))
    """additive: bias term of the score (LightGBM); propensity: weights of pairs; None: no correction.
    Corrects clicks for position bias; requires positions in the training data. `additive` works with any
    objective; `propensity` (Unbiased LambdaMART, XGBoost's lambdarank_unbiased) only for lambdarank on
    ndcg."""
    position_bias_l2: float = setting(
        0.0, at_least=0, only_with={"position_bias": ("additive",)}
    )
    """additive: L2 penalty on biases (LightGBM's lambdarank_position_bias_regularization)."""
    position_bias_norm: float = setting(
        1.0, at_least=0, only_with={"position_bias": ("propensity",)}
    )
    """propensity: propensities are raised to 1 / (1 + norm); XGBoost's lambdarank_bias_norm. A higher norm is
    a weaker correction."""
    position_bias_cost: str = setting(
        "mirrored",
        choices=("mirrored", "logistic"),
        only_with={"position_bias": ("propensity",)},
    )
    """propensity: cost for estimating propensities: mirrored (XGBoost) or logistic (the paper). `mirrored` is
    the cost of the opposite order; `logistic` ranks worse than no correction where features explain the
    order shown."""


LEAST_DIVISOR = 0.001
"""Constant in the divisor of a step (LightGBM); keeps the step finite if the hessians of a position are 0."""


class AdditiveBias:
    """An objective whose scores include the bias of each document's position: a `BiasCorrection`.

    Args:
        objective: objective to correct.
        train: data set with positions.
        learning_rate: eta.
        l2: L2 penalty on biases.
        placement: where the queries are in the whole training set; None: they are all.

    Attributes:
        positions: (P,), distinct positions, ascending.
        biases: list of (P,) biases, initially (all 0) and after each iteration.
    """

    def __init__(
        self,
        objective: PreparedObjective,
        train: RankingDataset,
        learning_rate: float,
        l2: float,
        placement: Placement | None = None,
    ) -> None:
        assert train.positions is not None  # checked by the caller
        self._placement = placement or Placement.alone(train.query_sizes)
        self._objective = objective
        self._learning_rate = learning_rate
        self._l2 = l2
        self._query_of_document = train.query_of_document
        positions = self._placement.team.joined(np.unique(train.positions))
        self.positions = np.unique(np.concatenate(positions))
        self._index = np.searchsorted(self.positions, train.positions)
        self._by_position = grouped(self._index, len(self.positions))
        self.biases = [np.zeros(len(self.positions))]

    def __call__(
        self, scores: Values, queries: Queries, rng: DocumentDraws
    ) -> tuple[Gradients, Hessians]:
        biased = scores + self.biases[-1][self._index]
        gradients, hessians = self._objective(biased, queries, rng)
        shown = self._index
        if queries is not None:
            shown = shown[np.isin(self._query_of_document, queries)]
        self._step(gradients, hessians, shown)
        return gradients, hessians

    def _step(
        self, gradients: Gradients, hessians: Hessians, indices: NDArray[np.int64]
    ) -> None:
        team = self._placement.team
        count = self._placement.num_documents
        g, h = sums_by_leaf(*self._by_position, [gradients, hessians], team, count)
        counts = np.bincount(indices, minlength=len(self.positions))
        penalty = self._l2 * team.total(counts)
        before = self.biases[-1]
        step = (-g - penalty * before) / (np.abs(-h - penalty) + LEAST_DIVISOR)
        self.biases.append(before + self._learning_rate * step)

    def factors(self, num_iterations: int) -> Factors:
        """Returns the estimates after `num_iterations`, for models that keep only their first trees."""
        return {
            "position": self.positions.astype(np.float64),
            "bias": self.biases[num_iterations],
        }

    def resume(self, factors: Mapping[str, NDArray[np.float64]]) -> None:
        """Starts from the estimates of another fit."""
        known = dict(zip(factors["position"], factors["bias"], strict=True))
        biases = [known.get(float(position), 0.0) for position in self.positions]
        self.biases = [np.array(biases)]


class Propensities(NamedTuple):
    """Propensities t of the K positions from the lowest one.

    Attributes:
        t_plus: (K,).
        t_minus: (K,).
    """

    t_plus: Values
    t_minus: Values


class UnbiasedPairs:
    """The lambdas of NDCG, with each pair divided by its propensities: a `BiasCorrection`.

    Args:
        train: data set with positions.
        settings: pair settings with metric ndcg. p and all sums are float64 in every dialect.
        norm: a larger value moves all t closer to 1.
        mirrored: whether t is estimated from the mirrored cost instead of the logistic cost.
        placement: where the queries are in the whole training set; None: they are all.

    Attributes:
        lowest: lowest position of the whole training set.
        propensities: list of propensities, initially and after each iteration.

    Raises:
        ConfigError: If these settings cannot be corrected.
    """

    def __init__(
        self,
        train: RankingDataset,
        settings: ObjectiveSettings,
        norm: float,
        mirrored: bool,
        placement: Placement | None = None,
    ) -> None:
        settings = correctable(settings)
        assert train.positions is not None  # checked by the caller
        self._placement = placement or Placement.alone(train.query_sizes)
        depth = settings.truncation or int(self._placement.query_sizes.max())
        exact = replace(
            settings,
            sigmoid="exact",
            float32_scores=False,
            float32_sums=False,
            float32_norm=False,
        )
        self._pairs = prepare_pairs(train, exact)
        self._score_dtype = np.float32 if settings.float32_scores else np.float64
        lowest_here = np.unique(train.positions)[:1]
        lowest_of_members = self._placement.team.joined(lowest_here)
        self.lowest = int(np.concatenate(lowest_of_members).min())
        self._index = np.minimum(train.positions - self.lowest, depth)
        self._by_position = grouped(self._index, depth + 1)
        starts = train.query_start[:-1]
        lowest_labels = np.minimum.reduceat(train.labels, starts)
        sizes = train.query_sizes
        can_be_hi = train.labels > np.repeat(lowest_labels, sizes)
        can_be_lo = train.labels < np.repeat(train.best_labels, sizes)
        self._reference_of_plus = self._first_of(can_be_hi, depth)
        self._reference_of_minus = self._first_of(can_be_lo, depth)
        self._cost_sign = 1.0 if mirrored else -1.0
        self._exponent = 1.0 / (1.0 + norm)
        self.propensities = [Propensities(np.ones(depth), np.ones(depth))]

    def __call__(
        self, scores: Values, queries: Queries, rng: DocumentDraws
    ) -> tuple[Gradients, Hessians]:
        del rng
        scores = scores.astype(self._score_dtype).astype(np.float64)
        before = self.propensities[-1]
        t_plus = np.append(before.t_plus, np.nan)[self._index]
        t_minus = np.append(before.t_minus, np.nan)[self._index]
        cost_plus, cost_minus = np.zeros((2, len(scores)))
        correction = PairCorrection(
            t_plus, t_minus, cost_plus, cost_minus, self._cost_sign
        )
        no_draws = np.empty((len(scores), 0))
        lambdas = self._pairs(scores, queries, no_draws, correction)
        learned_plus = self._learned(before.t_plus, cost_plus, self._reference_of_plus)
        learned_minus = self._learned(
            before.t_minus, cost_minus, self._reference_of_minus
        )
        self.propensities.append(Propensities(learned_plus, learned_minus))
        return lambdas

    def _first_of(self, is_chosen: NDArray[np.bool_], depth: int) -> int:
        """Returns the index of the first position with a chosen document of any member; 0 without one."""
        here = np.bincount(self._index[is_chosen], minlength=depth + 1)
        counts = self._placement.team.total(here)
        return int(np.argmax(counts[:depth] > 0))

    def _learned(self, t: Values, costs: Values, reference: int) -> Values:
        team = self._placement.team
        count = self._placement.num_documents
        (sums,) = sums_by_leaf(*self._by_position, [costs], team, count)
        by_position = sums[:-1]
        if by_position[reference] < LEAST_RATIO:
            return t
        learned: Values = (by_position / by_position[reference]) ** self._exponent
        return learned

    def factors(self, num_iterations: int) -> Factors:
        """Returns the estimates after `num_iterations`, as AdditiveBias does."""
        known = self.propensities[num_iterations]
        return {
            "position": self.lowest + np.arange(len(known.t_plus), dtype=np.float64),
            **known._asdict(),
        }

    def resume(self, factors: Mapping[str, NDArray[np.float64]]) -> None:
        """Starts from the estimates of another fit."""
        positions = self.factors(0)["position"]
        _, here, there = np.intersect1d(
            positions, factors["position"], return_indices=True
        )
        start = Propensities(*(t.copy() for t in self.propensities[0]))
        for name, t in start._asdict().items():
            t[here] = factors[name][there]
        self.propensities = [start]


BiasCorrection = AdditiveBias | UnbiasedPairs
"""A `PreparedObjective` that also estimates position bias; each call is one iteration."""


def correctable(settings: ObjectiveSettings) -> PairSettings:
    """Returns the settings; raises ConfigError if `UnbiasedPairs` does not support them."""
    chosen = "ranknet" if isinstance(settings, PairSettings) else settings
    remedy = f"set objective=lambdarank instead of {chosen}"
    if isinstance(settings, PairSettings) and settings.metric is not None:
        remedy = "set metric=ndcg, ties=row_order and pairs_per_document=null"
        ranks_alike = (
            settings.ties == "row_order"
            and settings.convention.discount is logarithmic_discount
        )
        if (
            settings.metric == "ndcg"
            and settings.pairs_per_document is None
            and ranks_alike
        ):
            return settings
    raise ConfigError(
        "position_bias=propensity corrects lambdarank on ndcg alone, without sampling of pairs and with tied "
        f"documents in the order of rows; {remedy}, or position_bias=additive, which corrects any objective."
    )


def reference_unbiased(
    labels: Labels,
    scores: Values,
    positions: NDArray[np.int64],
    propensities: Propensities,
    settings: PairSettings,
    mirrored: bool,
) -> tuple[Gradients, Hessians, Values, Values]:
    """Specification for one query of weight 1.

    Returns:
        Four (n,) arrays: gradients, hessians, and per document the sums of L / t_minus and of L / t_plus.
    """
    pairs = pair_lambdas(labels, scores, replace(settings, normalize_query=False))
    t_plus, t_minus = (np.append(t, np.nan) for t in propensities)
    index = np.minimum(positions, len(t_plus) - 1)
    of_documents = (t_plus[index], t_minus[index])
    t_hi, t_lo = np.meshgrid(*of_documents, indexing="ij")
    has_both = ~np.isnan(t_hi * t_lo)
    is_hi = labels[:, None] > labels[None, :]
    has_ratio = has_both & (np.minimum(t_hi, t_lo) >= LEAST_RATIO)
    ratio = np.where(has_ratio, t_hi * t_lo, 1.0)
    ratio = np.where(is_hi, ratio, ratio.T)

    difference = scores[:, None] - scores[None, :]
    p = logistic(difference, settings.sigma)
    push = np.where(is_hi, -pairs.lambda_matrix, 0.0)
    sign = 1.0 if mirrored else -1.0
    loss = np.logaddexp(0.0, sign * settings.sigma * difference)
    cost = loss * push / (settings.sigma * p)
    zeros = np.zeros_like(cost)
    has_lo = has_both & (t_lo >= LEAST_RATIO)
    has_hi = has_both & (t_hi >= LEAST_RATIO)
    cost_plus = np.divide(cost, t_lo, out=zeros.copy(), where=has_lo)
    cost_minus = np.divide(cost, t_hi, out=zeros, where=has_hi)

    total = 2.0 * (push / ratio).sum()
    scale = 1.0
    if settings.normalize_query and total > 0.0:
        scale = np.log2(1.0 + total) / total
    gradients = (pairs.lambda_matrix / ratio).sum(axis=1)
    hessians = (pairs.hessian_matrix / ratio).sum(axis=1)
    return (
        scale * gradients,
        scale * hessians,
        cost_plus.sum(axis=1),
        cost_minus.sum(axis=0),
    )
