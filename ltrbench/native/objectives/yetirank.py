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

from ltrbench.compilation import kernel
from ltrbench.errors import DataError
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdas import RankOrder, order_of
from ltrbench.native.objectives.query_kernels import (
    check_gains,
    draw,
    draw_normal,
    for_each_query,
    gains_and_discounts,
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
        pairs = (
            Mode[self.mode].value,
            self.num_neighbors or n,
            self.top or n,
            float(self.decay),
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
    permutations, is_gumbel, power, is_exponential, mode, neighbors, top, decay = (
        settings
    )
    n = len(s)
    pairs = (mode, neighbors, top, decay)
    noisy = np.empty(n)
    dcg = gains_and_discounts(labels, is_exponential, mode == Mode.NDCG, top)
    for permutation in range(permutations):
        first = permutation * n
        for i in range(n):
            noise = 0.0
            if is_gumbel:
                u = draw(seed, query, first + i)
                noise = np.log(u / (1.000001 - u))
            elif power > 0.0:
                noise = power * draw_normal(seed, query, first + i)
            noisy[i] = s[i] + noise
        _add_pairs(order_of(noisy), s, labels, dcg, pairs, (g, h))
    g *= weights / permutations
    h *= weights / permutations


@kernel
def _add_pairs(
    order: RankOrder, s: Values, labels: Values, dcg: Any, pairs: Any, sums: Any
) -> None:
    """Adds the pairs of one order to the gradients and hessians; ranks a and b start at 0."""
    n = len(order)
    (mode, neighbors, top, decay) = pairs
    (gains, discounts) = dcg
    (g, h) = sums
    neighbors, reach = (1, 0.15) if mode == Mode.Classic else (neighbors, 1.0)
    for a in range(min(n, top)):
        i = order[a]
        y = labels[i]
        between = 1.0 / (a + 1.0)
        passed = 1.0
        for b in range(a + 1, min(n, a + 1 + neighbors)):
            j = order[b]
            if labels[j] != y:
                weight = reach * abs(y - labels[j])  # of the mode Classic
                if mode == Mode.ERR:
                    weight *= abs(between - passed / (b + 1.0))
                elif mode == Mode.DCG or mode == Mode.NDCG:
                    weight = abs((gains[i] - gains[j]) * (discounts[a] - discounts[b]))
                elif mode != Mode.Classic and y > 0.0 and labels[j] > 0.0:
                    weight = 0.0
                elif mode != Mode.Classic:
                    weight = (
                        between
                        if mode == Mode.MAP
                        else 1.0 / (a + 1.0) - 1.0 / (b + 1.0)
                    )
                hi, lo = (i, j) if y > labels[j] else (j, i)
                p = 1.0 / (1.0 + np.exp(s[hi] - s[lo]))
                g[hi] -= weight * p
                g[lo] += weight * p
                h[hi] += weight * p * (1.0 - p)
                h[lo] += weight * p * (1.0 - p)
            if mode == Mode.ERR:
                between -= passed * labels[j] / (b + 1.0)
                passed *= 1.0 - labels[j]
            elif mode == Mode.MAP and labels[j] > 0.0:
                between += 1.0 / (b + 1.0)
        if mode == Mode.MRR and y > 0.0:
            return
        reach *= decay if mode == Mode.Classic else 1.0 - y
