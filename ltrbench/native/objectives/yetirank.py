"""YetiRank and YetiLoss: pairs of neighbours in random orders near the order of the model.

Gulin, Kuralenok and Pavlov, 2011, "Winning The Transfer Learning Track of Yahoo!'s Learning To Rank Challenge
with YetiRank"; Lyzhin, Ustimenko, Gulin and Prokhorenkova, 2023, "Which Tricks Are Important for Learning to
Rank?" (YetiLoss); as implemented in CatBoost's yetirank_helpers.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import borrowing_kernel, disjoint_kernel, kernel
from ltrbench.errors import DataError
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import (
    FAR,
    check_gains,
    discounts_of,
    draw,
    draw_normal,
    exponentials,
    for_each_query,
    gains_of,
)
from ltrbench.native.objectives.sorting import (
    RankOrder,
    gather,
    memory_for_sorting,
    write_order,
    write_order_from_buckets,
)
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values

Mode = IntEnum("Mode", "Classic DCG NDCG MRR ERR MAP")
MODES = tuple(Mode.__members__)
NOISES = ("Gumbel", "Gauss", "No")
_WITH_NEIGHBORS = {"mode": MODES[1:]}


@dataclass(kw_only=True)
class YetiRank(Objective):
    """In each of P random orders, sorted by score plus noise, a document at rank a, starting at 1, is paired
    with the `num_neighbors` documents below it; b is the rank of such a document, and y are labels:

        Classic    0.15 decay^(a - 1) |y_a - y_b|, only neighbours
        DCG, NDCG  |(G(y_a) - G(y_b)) (D(a) - D(b))|, for NDCG divided by the best DCG; D is 0 below `top`
        MRR        1 / a - 1 / b, if one of the two is relevant and all documents above rank a are not
        ERR        absolute change of ERR by a swap; labels are probabilities
        MAP        1 / a + sum of 1 / c over the relevant ranks c between, if one of the two is relevant; not
                   divided by the number of relevant documents

    A pair with the weight w, the higher label at hi and p = 1 / (1 + exp(s_hi - s_lo)), of the scores without
    noise, adds w p to the gradient of lo, -w p to that of hi, and w p (1 - p) to both hessians. Sums are
    divided by P. CatBoost's name Gumbel stands for logistic noise, log(u / (1.000001 - u)) with u uniform.
    """

    mode: str = setting("Classic", choices=MODES)
    """Weight of a pair: Classic (YetiRank), or DCG, NDCG, MRR, ERR or MAP (YetiLoss). In MRR and MAP, labels
    above 0 are relevant."""
    noise: str = setting("Gumbel", choices=NOISES)
    """Noise of the scores: Gumbel, which is logistic as in CatBoost, Gauss or No."""
    noise_power: float = setting(1.0, above=0, only_with={"noise": ("Gauss",)})
    """Standard deviation of the Gaussian noise. More noise gives pairs of distant ranks more weight."""
    permutations: int = setting(10, at_least=1, only_with={"noise": NOISES[:2]})
    """Number of random orders per query and iteration. More orders give less variance and take longer."""
    num_neighbors: int | None = setting(1, at_least=1, only_with=_WITH_NEIGHBORS)
    """Number of documents below that a document is paired with; None: all (CatBoost's -1)."""
    top: int | None = setting(None, at_least=1, only_with=_WITH_NEIGHBORS)
    """Lowest rank of the upper document of a pair, and cutoff of DCG; None: no limit."""
    decay: float = setting(
        0.85, at_least=0, at_most=1, only_with={"mode": ("Classic",)}
    )
    """Factor of the weight of a pair per rank (0.85 in CatBoost's code, 0.99 in older versions)."""
    dcg_type: str = setting(
        "Base", choices=("Base", "Exp"), only_with={"mode": MODES[1:3]}
    )
    """Gain of a label in DCG: Base, the label itself, or Exp, 2^label - 1."""

    source = "CatBoost, GenerateYetiRankPairsForQuery in yetirank_helpers.cpp"

    @property
    def draws(self) -> bool:
        return self.noise != "No"

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        wrong = np.flatnonzero(labels > 1)
        if self.mode == "ERR" and wrong.size:
            place = f"labels[{wrong[0]}] is {labels[wrong[0]]}"
            raise DataError(
                f"{place}; mode=ERR takes probabilities from 0 to 1. Scale them, or set mode=NDCG."
            )
        if self.dcg_type == "Exp":
            check_gains(labels, query_start)

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        # Without noise, all orders are equal.
        n = len(scores)
        permutations = self.permutations if self.draws else 1
        noise = (
            permutations,
            self.noise == "Gumbel",
            float(self.noise_power) if self.draws else 0.0,
        )
        longest = int(np.diff(data.query_start).max())
        reach = 0.15 * self.decay ** np.arange(longest)  # of the mode Classic
        pairs = (
            Mode[self.mode].value,
            self.num_neighbors or n,
            self.top or n,
            reach,
        )
        is_exponential = self.dcg_type == "Exp"
        return _one_query(scores, data, seed, (*noise, is_exponential, *pairs))


@for_each_query
def _one_query(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    permutations, is_gumbel, power, is_exponential, mode, neighbors, top, reach = (
        settings
    )
    n = len(s)
    pairs = (mode, neighbors, top)
    highest = s.max()
    is_far = highest - s.min() > FAR
    e = exponentials(s, highest)
    of_query = (s, e, is_far, labels)
    typical = e.mean()
    keys = np.empty(n)
    memory = memory_for_sorting(n)
    order, bucket_of, _ = memory
    of_ranks = np.zeros((4, n + 1))
    if mode != Mode.Classic:
        gains = gains_of(labels, is_exponential, mode == Mode.NDCG, top)
        dcg = (gains, discounts_of(n, top))
    for permutation in range(permutations):
        first = permutation * n
        if is_gumbel and not is_far:
            for i in range(n):
                u = draw(seed, query, first + i)
                keys[i] = e[i] * (u / (1.000001 - u))
            _write_buckets(keys, typical, bucket_of)
            write_order_from_buckets(keys, memory)
        else:
            for i in range(n):
                noise = 0.0
                if is_gumbel:
                    u = draw(seed, query, first + i)
                    noise = np.log(u / (1.000001 - u))
                elif power > 0.0:
                    noise = power * draw_normal(seed, query, first + i)
                keys[i] = s[i] + noise
            write_order(keys, memory)
        if mode == Mode.Classic:
            _add_neighbors(order, of_query, reach, of_ranks, (g, h))
        else:
            _add_pairs(order, of_query, dcg, pairs, (g, h))
    g *= weights / permutations
    h *= weights / permutations


@borrowing_kernel
def _write_buckets(keys: Values, typical: float, bucket_of: NDArray[np.uint32]) -> None:
    """Writes buckets of about equal size for the keys exp(score) u / (1 - u).

    If all scores are equal, typical / (key + typical) is 1 - u, which is uniform.
    """
    num_buckets = 2.0 * len(keys)
    scale = num_buckets * typical
    for i in range(len(keys)):
        bucket = scale / (keys[i] + typical)
        if not bucket < num_buckets:
            bucket = 0.0  # a key that is rounded away; its row moves to its place later
        bucket_of[i] = np.uint32(bucket)


@kernel
def _add_neighbors(
    order: RankOrder,
    of_query: Any,
    reach: Values,
    of_ranks: NDArray[np.float64],
    sums: Any,
) -> None:
    """Adds the pairs of each rank and the next one, of the mode Classic, to the gradients and hessians.

    With e = exp(s), p is e_lo / (e_lo + e_hi): a query needs n exponentials instead of one for each pair.

    Args:
        of_ranks: (4, n + 1), memory, initially 0: allocations for each order would take a third of the time.
    """
    s, e, is_far, labels = of_query
    n = len(order)
    # Of each rank and the one above it; 0 for the first rank, and below the last one.
    push = of_ranks[0]
    curvature = of_ranks[1]
    y = of_ranks[2, :n]
    upper = of_ranks[3, :n]
    for a in range(n):
        y[a] = labels[order[a]]
        upper[a] = e[order[a]]
    lower = upper[1:]
    if is_far:
        in_order = gather(s, order)
        lower = exponentials(in_order[1:] - in_order[:-1], 0.0)
        upper[:] = 1.0
    _compute_neighbors(y, (upper, lower), reach, (push[1:n], curvature[1:n]))
    _add_to_documents(order, push, curvature, sums)


@borrowing_kernel
def _add_to_documents(
    order: RankOrder, push: Values, curvature: Values, sums: Any
) -> None:
    g, h = sums
    for a in range(len(order)):
        i = order[a]
        below = a + 1
        g[i] += push[a] - push[below]
        h[i] += curvature[a] + curvature[below]


@disjoint_kernel
def _compute_neighbors(
    y: Values,
    exponentials_of_pairs: tuple[Values, Values],
    reach: Values,
    pairs: tuple[Values, Values],
) -> None:
    """Writes w p of each rank and the next one, negative if the next one has the higher label, and
    w p (1 - p). The loop has no branch, so that it can be vectorised.

    Args:
        exponentials_of_pairs: exp(s) of each rank and of the next one, both times any factor.
    """
    upper, lower = exponentials_of_pairs
    push, curvature = pairs
    for a in range(len(push)):
        inverse = 1.0 / (upper[a] + lower[a])
        difference = y[a] - y[a + 1]
        is_in_order = difference > 0.0
        e_lo = lower[a] if is_in_order else upper[a]
        e_hi = upper[a] if is_in_order else lower[a]
        pushed = reach[a] * difference * (e_lo * inverse)
        push[a] = pushed
        curvature[a] = abs(pushed) * (e_hi * inverse)


@kernel
def _add_pairs(
    order: RankOrder, of_query: Any, dcg: Any, pairs: Any, sums: Any
) -> None:
    """Adds the pairs of one order to the gradients and hessians, in all modes but Classic; ranks a and b
    start at 0, and p is computed as for neighbours."""
    n = len(order)
    (s, e, is_far, labels) = of_query
    (mode, neighbors, top) = pairs
    (gains, discounts) = dcg
    (g, h) = sums
    reach = 1.0
    for a in range(min(n, top)):
        i = order[a]
        y = labels[i]
        if is_far:
            e = exponentials(s, s[i])
        between = 1.0 / (a + 1.0)
        passed = 1.0
        end = min(n, a + 1 + neighbors)
        for b in range(a + 1, end):
            j = order[b]
            if labels[j] != y:
                weight = 0.0
                if mode == Mode.ERR:
                    gain = abs(between - passed / (b + 1.0))
                    weight = reach * abs(y - labels[j]) * gain
                elif mode == Mode.DCG or mode == Mode.NDCG:
                    weight = abs((gains[i] - gains[j]) * (discounts[a] - discounts[b]))
                elif y <= 0.0 or labels[j] <= 0.0:
                    weight = between
                    if mode == Mode.MRR:
                        weight -= 1.0 / (b + 1.0)
                hi, lo = (i, j) if y > labels[j] else (j, i)
                inverse = 1.0 / (e[hi] + e[lo])
                push = weight * (e[lo] * inverse)
                curvature = push * (e[hi] * inverse)
                g[hi] -= push
                g[lo] += push
                h[hi] += curvature
                h[lo] += curvature
            if mode == Mode.ERR:
                between -= passed * labels[j] / (b + 1.0)
                passed *= 1.0 - labels[j]
            elif mode == Mode.MAP and labels[j] > 0.0:
                between += 1.0 / (b + 1.0)
        if mode == Mode.MRR and y > 0.0:
            return
        reach *= 1.0 - y
