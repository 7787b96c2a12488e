"""LambdaLoss: pairs weighted by a bound on NDCG, in the three formulas that libraries have under this name.

Wang, Li, Golbandi, Bendersky and Najork, 2018, "The LambdaLoss Framework for Ranking Metric Optimization"
(CIKM). Ranks r start at 1, D(r) = 1 / log2(1 + r), G = 2^label - 1, T is the truncation, max_dcg is the best
DCG at T, n is the number of documents of the query, and a_i is the weight of a document:

    u    = D(|r_i - r_j|) - D(|r_i - r_j| + 1)     NDCG-Loss2
    v    = |D(r_i) - D(r_j)|                       LambdaRank
    loss = c * sum of a_i w_ij log(1 + exp(-sigma (s_i - s_j)))     over i and j with label i > label j

    variant     weighting   c         w_ij                                      pairs with a truncation
    tf_ranking  ndcg2       n         |G_i - G_j| ((1 - f) u + f v) / max_dcg   min r <= T; in v, D = 0 below
    rax         ndcg2       n         |G_i - G_j| u / max_dcg                   all; if max r > T,
                dcg2        n         |G_i - G_j| u                             u / (1 - D(max r))
    allrank     ndcg2       1 / ln 2  |G_i - G_j| u / max_dcg                   max r <= T
                ndcg2++     1 / ln 2  |G_i - G_j| (mu u + v) / max_dcg          max r <= T
                ndcg1       1 / ln 2  G_i D(r_i) / max_dcg, over all i != j     max r <= T
                lambdarank  1 / ln 2  |G_i - G_j| v / max_dcg                   max r <= T
                ranknet     1 / ln 2  1                                         max r <= T

f is smooth_fraction. The code: TF-Ranking (`DCGLambdaWeight` of `create_ndcg_lambda_weight`, in
`PairwiseLogisticLoss`), RAX 0.4 (`dcg2_lambdaweight`, in `pairwise_logistic_loss`, summed) and allRank
(lambdaLoss.py, summed, with log2). allRank's ndcg1 also has the pairs i = j, which are constant; it
has gradients for equal labels, because it weights each document by its rank, whatever the other is. allRank
clips probabilities at 1e-10, so that a pair far in the wrong order has no gradient; here it has one. RAX also
multiplies gains by the weights of documents, so that its weights count twice; here they count once.

The weights treat ranks as constants: the gradient is that of the loss with fixed ranks, of which it is the
exact gradient, and h is the exact diagonal of its hessian. The cost for a query of n documents is O(n^2) or,
with a truncation, O(n T) in tf_ranking and O(T^2) in allrank.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ltrbench.compilation import borrowing_kernel, disjoint_kernel, kernel
from ltrbench.errors import ConfigError, require_choice
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.pairs import Pairs
from ltrbench.native.objectives.query_kernels import (
    FAR,
    check_gains,
    exponentials,
    for_each_query,
    gains_of,
)
from ltrbench.native.objectives.sorting import gather, order_of
from ltrbench.settings import check_effects, setting
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Scores, Values

Kind = IntEnum("Kind", "DISTANCES RANKS ORDERED EQUAL")
"""Weights of pairs, for the kernel: |G_i - G_j| u; any with |G_i - G_j|; those of ndcg1; or 1."""

WEIGHTINGS = {
    "tf_ranking": ("ndcg2",),
    "rax": ("ndcg2", "dcg2"),
    "allrank": ("ndcg2", "ndcg2++", "ndcg1", "lambdarank", "ranknet"),
}
"""Variant -> weightings that its library has."""


class ByRanks(NamedTuple):
    """The settings of the kernel.

    Attributes:
        sigma: slope of the logistic function.
        c: factor of the loss; 0: number of documents.
        kind: a `Kind`.
        num_upper: number of ranks of which a pair has at least one.
        is_normalized: whether gains are divided by the best DCG.
        cutoff: number of ranks in the best DCG.
        by_distance: (2 n + 1,), u of r_i - r_j from -n to n, for the longest query.
        at_rank: (n,), D in v.
        of_lower: factor of a pair by its lower rank; pairs with a lower rank beyond do not count.
    """

    sigma: float
    c: float
    kind: int
    num_upper: int
    is_normalized: bool
    cutoff: int
    by_distance: Values
    at_rank: Values
    of_lower: Values


class OfRanks(NamedTuple):
    """The (n,) arrays of one query, in the order of ranks.

    Attributes:
        gain: G, normalised.
        a: weights of documents.
        value: a G D, the weights of ndcg1.
        ones: ones.
        lower: memory, initially `of_lower`: factor of a pair of the present rank.
        delta: memory: weights of the pairs of the present rank.
        gradients: gradients without c and sigma.
        hessians: hessians without c and sigma.
    """

    gain: Values
    a: Values
    value: Values
    ones: Values
    lower: Values
    delta: Values
    gradients: Values
    hessians: Values


@dataclass(kw_only=True)
class LambdaLoss(Objective):
    """LambdaLoss: a bound on NDCG as a weighted sum over pairs; the module has the formulas."""

    variant: str = setting("tf_ranking", choices=tuple(WEIGHTINGS))
    """Library whose formula it is: tf_ranking, rax or allrank."""
    weighting: str = setting("ndcg2")
    """Weight of a pair: ndcg2; rax also: dcg2; allrank also: ndcg2++, ndcg1, lambdarank or ranknet."""
    smooth_fraction: float = setting(
        0.0, at_least=0, at_most=1, only_with={"variant": ("tf_ranking",)}
    )
    """tf_ranking: share of LambdaRank's weight in the weight of a pair; the rest is that of NDCG-Loss2."""
    mu: float = setting(10.0, at_least=0, only_with={"weighting": ("ndcg2++",)})
    """ndcg2++: factor of NDCG-Loss2's weight, to which LambdaRank's is added."""
    sigma: float = setting(1.0, above=0)
    """Slope of the logistic function of a pair's score difference (1 / TF-Ranking's temperature)."""
    truncation: int | None = setting(None, at_least=1)
    """Number of top ranks (topn, allRank's k), by the rule of the variant; null: all ranks."""

    source = "Wang et al., 2018 (CIKM); TF-Ranking, RAX, allRank"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice(
            f"weighting with variant={self.variant}",
            self.weighting,
            WEIGHTINGS[self.variant],
        )
        check_effects(self, {"variant": self.variant, "weighting": self.weighting})
        if self.variant == "allrank" and self.truncation == 1:
            raise ConfigError(
                "truncation is 1, but with variant=allrank both documents of a pair are in the top ranks, so "
                "that there is no pair. Set truncation to 2 or more, or variant=tf_ranking."
            )

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        check_gains(labels, query_start)

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        longest = int(np.diff(data.query_start).max())
        return _lambdaloss(scores, data, seed, self._by_ranks(longest))

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        w = weights[:, None] * self.pair_weights(labels, scores)
        losses = np.logaddexp(0.0, self.sigma * (scores - scores[:, None]))
        return float((w * losses).sum())

    def pair_weights(self, labels: Labels, scores: Scores) -> Pairs:
        """Returns the (n, n) c w_ij of one query: the specification of the kernel."""
        n = len(labels)
        cutoff = self.truncation or len(labels)
        f = self.smooth_fraction
        r = np.empty(n)
        order = np.argsort(-scores, kind="stable")
        r[order] = np.arange(1, n + 1)
        upper = np.minimum(r[:, None], r)
        lower = np.maximum(r[:, None], r)
        # Pairs i = j have no weight, because their labels are equal; any distance serves for them.
        distance = np.maximum(lower - upper, 1.0)
        at_rank = discount(r) * ((r <= cutoff) | (self.variant != "tf_ranking"))
        u = discount(distance) - discount(distance + 1.0)
        v = np.abs(at_rank[:, None] - at_rank)
        gains = gains_of(labels, True, self.weighting != "dcg2", cutoff)
        is_pair = labels[:, None] > labels
        change = is_pair * (gains[:, None] - gains)
        if self.variant == "tf_ranking":
            mixed = (1.0 - f) * u + f * v
            return np.asarray(n * change * mixed * (upper <= cutoff))
        if self.variant == "rax":
            below_cutoff = np.where(lower > cutoff, discount(lower), 0.0)
            return np.asarray(n * change * u / (1.0 - below_cutoff))
        upper_gains = (gains * at_rank)[:, None]
        w = {
            "ndcg2": change * u,
            "ndcg2++": change * (self.mu * u + v),
            "ndcg1": upper_gains * (1.0 - np.eye(n)),
            "lambdarank": change * v,
            "ranknet": is_pair,
        }[self.weighting]
        return np.asarray(w * (lower <= cutoff) / np.log(2.0))

    def _by_ranks(self, longest: int) -> ByRanks:
        """Returns the settings of the kernel; its ranks and distances of ranks are indices of arrays."""
        cutoff = self.truncation or longest
        d = discount(np.arange(longest + 1) + 1.0)
        u = np.append(0.0, -np.diff(d))
        at_rank = d[:-1].copy()
        of_lower = np.ones(longest)
        u = np.append(u[:0:-1], u)  # distances from -longest to longest
        of_u = 1.0
        of_v = 0.0
        c = 0.0
        num_upper = longest
        if self.variant == "tf_ranking":
            of_u = 1.0 - self.smooth_fraction
            of_v = self.smooth_fraction
            num_upper = cutoff
            at_rank[cutoff:] = 0.0
        elif self.variant == "rax":
            of_lower[cutoff:] /= 1.0 - at_rank[cutoff:]
        else:
            c = 1.0 / np.log(2.0)
            of_lower = of_lower[:cutoff]
            of_changes = {"ndcg2": (1.0, 0.0), "ndcg2++": (self.mu, 1.0)}
            of_u, of_v = of_changes.get(self.weighting, (0.0, 1.0))
        kind = {"ndcg1": Kind.ORDERED, "ranknet": Kind.EQUAL}.get(
            self.weighting, Kind.RANKS
        )
        if kind == Kind.RANKS and of_v == 0.0 and (of_lower == 1.0).all():
            kind = Kind.DISTANCES
        return ByRanks(
            sigma=self.sigma,
            c=c,
            kind=kind.value,
            num_upper=num_upper,
            is_normalized=self.weighting != "dcg2",
            cutoff=cutoff,
            by_distance=of_u * u,
            at_rank=of_v * at_rank,
            of_lower=of_lower,
        )


def discount(ranks: Any) -> Values:
    """Returns D(r) of ranks that start at 1."""
    return np.asarray(1.0 / np.log2(1.0 + ranks))


@kernel
def num_paired(gain: Values) -> int:
    """Returns the number of ranks down to the last with a gain; documents below it form no pairs."""
    n = len(gain)
    while n > 0 and gain[n - 1] == 0.0:
        n -= 1
    return n


@for_each_query
def _lambdaloss(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    order = order_of(s)
    n = len(s)
    gains = gains_of(labels, True, settings.is_normalized, settings.cutoff)
    gain = gather(gains, order)
    a = gather(weights, order)
    x = settings.sigma * gather(s, order)
    e = exponentials(x, x[0])
    ranks = OfRanks(
        gain,
        a,
        a * gain * settings.at_rank[:n],
        np.ones(n),
        settings.of_lower[:n].copy(),
        np.empty(n),
        np.zeros(n),
        np.zeros(n),
    )
    num_lower = len(ranks.lower)
    if x[0] - x[n - 1] > FAR:
        for j in range(num_lower):
            e = exponentials(x, x[j])
            _add_ranks(j, j + 1, e, ranks, settings)
    else:
        _add_ranks(0, num_lower, e, ranks, settings)
    factor = settings.sigma * (settings.c if settings.c > 0.0 else n)
    for i in range(n):
        g[order[i]] = factor * ranks.gradients[i]
        h[order[i]] = factor * settings.sigma * ranks.hessians[i]


@borrowing_kernel
def _add_ranks(
    first: int, after: int, e: Values, ranks: OfRanks, settings: ByRanks
) -> None:
    """Adds the pairs of the ranks j = first, ..., after - 1 to the gradients and hessians of all ranks."""
    gain, a, value, ones, lower, delta, g, h = ranks
    last = num_paired(gain)
    for j in range(first, after):
        end = len(lower)
        if j >= settings.num_upper:
            end = min(settings.num_upper, end)
        if gain[j] == 0.0:
            end = min(end, last)
        u = settings.by_distance[len(settings.by_distance) // 2 - j :]
        if settings.kind == Kind.ORDERED:
            _add_ordered_pairs(value[j], e[j], value[: min(j, end)], e, g, h)
            k = j + 1
            _add_ordered_pairs(value[j], e[j], value[k:end], e[k:], g[k:], h[k:])
        elif settings.kind == Kind.DISTANCES:
            _add_pairs(gain[j], a[j], e[j], gain[:end], u, a, e, g, h)
        else:
            _write_changes(j, gain[:end], u, ranks, settings)
            _add_pairs(0.0, a[j], e[j], delta[:end], ones, a, e, g, h)


@borrowing_kernel
def _write_changes(
    j: int, gain: Values, u: Values, ranks: OfRanks, settings: ByRanks
) -> None:
    """Writes the `delta` of the pairs of rank j with each rank of `gain`."""
    gain_j = ranks.gain[j]
    lower = ranks.lower
    if settings.kind == Kind.EQUAL:
        _write_signs(gain_j, gain, ranks.delta)
    else:
        lower[:j] = settings.of_lower[j]
        at = settings.at_rank
        _changes(gain_j, at[j], gain, at, u, lower, ranks.delta)


@disjoint_kernel
def _write_signs(gain_j: float, gain: Values, delta: Values) -> None:
    for i in range(len(gain)):
        delta[i] = np.sign(gain[i] - gain_j)


@disjoint_kernel
def _changes(
    gain_j: float,
    at_j: float,
    gain: Values,
    at: Values,
    u: Values,
    lower: Values,
    delta: Values,
) -> None:
    """Writes w of the pairs of rank j with each rank i; negative if j should be above i."""
    for i in range(len(gain)):
        delta[i] = (gain[i] - gain_j) * (u[i] + abs(at[i] - at_j)) * lower[i]


@disjoint_kernel
def _add_pairs(
    gain_j: float,
    a_j: float,
    e_j: float,
    gain: Values,
    w: Values,
    a: Values,
    e: Values,
    gradients: Values,
    hessians: Values,
) -> None:
    """Adds the pairs of rank j with each rank i to the gradients and hessians of i, without c and sigma.

    Each pair is computed for both documents: there are no sums over ranks, which cannot be vectorised.
    """
    for i in range(len(gain)):
        delta = (gain[i] - gain_j) * w[i]
        inverse = 1.0 / (e[i] + e_j)
        weighted = delta * (a[i] if delta > 0.0 else a_j)
        gradients[i] -= weighted * (e_j if delta > 0.0 else e[i]) * inverse
        hessians[i] += abs(weighted) * (e[i] * inverse) * (e_j * inverse)


@disjoint_kernel
def _add_ordered_pairs(
    value_j: float,
    e_j: float,
    value: Values,
    e: Values,
    gradients: Values,
    hessians: Values,
) -> None:
    """Adds the pairs (i, j) and (j, i) of NDCG-Loss1, as `_add_pairs` does."""
    for i in range(len(value)):
        inverse = 1.0 / (e[i] + e_j)
        gradients[i] += (value_j * e[i] - value[i] * e_j) * inverse
        hessians[i] += (value_j + value[i]) * (e[i] * inverse) * (e_j * inverse)
