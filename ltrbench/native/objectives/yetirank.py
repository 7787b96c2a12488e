"""YetiRank and YetiLoss: pairs of neighbours in random orders near the order of the model.

Gulin, Kuralenok and Pavlov, 2011, "Winning The Transfer Learning Track of Yahoo!'s Learning To Rank Challenge
with YetiRank"; Lyzhin, Ustimenko, Gulin and Prokhorenkova, 2023, "Which Tricks Are Important for Learning to
Rank?" (YetiLoss); as implemented in CatBoost's yetirank_helpers.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.errors import ConfigError, DataError
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdas import RankOrder, sort_by_score
from ltrbench.native.objectives.query_kernels import draw, draw_normal, for_each_query, gains_and_discounts
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values

Mode = IntEnum("Mode", "Classic DCG NDCG MRR ERR MAP")
Noise = IntEnum("Noise", "Gumbel Gauss No")

MODES, NOISES = tuple(Mode.__members__), tuple(Noise.__members__)
_OF_DCG = {"mode": ("DCG", "NDCG")}
_WITH_NEIGHBORS = {"mode": MODES[1:]}


def _refuse_no_neighbors(name: str, value: int) -> None:
    if value != -1 and value < 1:
        raise ConfigError(f"{name} is {value}; set it to at least 1, or to -1 for all documents below.")


class _Settings(NamedTuple):
    mode: int
    noise: int
    noise_power: float
    permutations: int
    num_neighbors: int
    top: int
    decay: float
    is_exponential: bool


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
    """Weight of a pair: Classic (YetiRank), or DCG, NDCG, MRR, ERR or MAP (YetiLoss)."""
    noise: str = setting("Gumbel", choices=NOISES)
    """Noise of the scores: Gumbel, which is logistic as in CatBoost, Gauss or No."""
    noise_power: float = setting(1.0, above=0, only_with={"noise": ("Gauss",)})
    """Standard deviation of the Gaussian noise. More noise gives pairs of distant ranks more weight."""
    permutations: int = setting(10, at_least=1, only_with={"noise": NOISES[:2]})
    """Number of random orders per query and iteration. More orders give less variance and take longer."""
    num_neighbors: int = setting(1, refuse=_refuse_no_neighbors, only_with=_WITH_NEIGHBORS)
    """Number of documents below that a document is paired with; -1: all."""
    top: int | None = setting(None, at_least=1, only_with=_WITH_NEIGHBORS)
    """Lowest rank of the upper document of a pair, and cutoff of DCG; None: no limit."""
    decay: float = setting(0.85, at_least=0, at_most=1, only_with={"mode": ("Classic",)})
    """Factor of the weight of a pair per rank (0.85 in CatBoost's code, 0.99 in older versions)."""
    dcg_type: str = setting("Base", choices=("Base", "Exp"), only_with=_OF_DCG)
    """Gain of a label in DCG: Base, the label itself, or Exp, 2^label - 1."""

    is_loss = False
    source = "CatBoost, GenerateYetiRankPairsForQuery in yetirank_helpers.cpp"

    @property
    def draws(self) -> bool:
        return self.noise != "No"

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        wrong = np.flatnonzero(labels > 1)
        if self.mode == "ERR" and wrong.size:
            raise DataError(
                f"labels[{wrong[0]}] is {labels[wrong[0]]}; mode=ERR takes probabilities from 0 to 1. Scale "
                "the labels, or set mode=NDCG."
            )

    def gradients(self, scores: Values, data: ObjectiveData, seed: int) -> tuple[Gradients, Hessians]:
        longest = int(np.diff(data.query_start).max(initial=0))
        settings = _Settings(
            mode=Mode[self.mode].value,
            noise=Noise[self.noise].value,
            noise_power=float(self.noise_power),
            permutations=self.permutations if self.draws else 1,  # without noise, all orders are equal
            num_neighbors=longest if self.num_neighbors == -1 else self.num_neighbors,
            top=longest if self.top is None else self.top,
            decay=float(self.decay),
            is_exponential=self.dcg_type == "Exp",
        )
        return _yetirank(scores, data, seed, settings)


# ---- Specification, with arrays by rank.


def reference(
    objective: YetiRank, scores: Values, labels: Values, noise: NDArray[np.float64]
) -> tuple[Values, Values]:
    """Specification: returns the (n,) gradients and hessians of one query of weight 1.

    Args:
        noise: (P, n), added to the scores.
    """
    gradients, hessians = np.zeros(len(scores)), np.zeros(len(scores))
    for row in noise:
        order = np.argsort(-(scores + row), kind="stable")
        y, s = labels[order], scores[order]
        weights = reference_weights(objective, y)
        above = np.where(y[:, None] > y, 1.0, -1.0)  # 1 if the upper document has the higher label
        p = 1.0 / (1.0 + np.exp(above * (s[:, None] - s)))
        push, bend = weights * p * above, weights * p * (1.0 - p)
        gradients[order] += push.sum(axis=0) - push.sum(axis=1)
        hessians[order] += bend.sum(axis=0) + bend.sum(axis=1)
    return gradients / len(noise), hessians / len(noise)


def reference_weights(objective: YetiRank, y: Labels) -> NDArray[np.float64]:
    """Specification: returns the (n, n) weights of the pairs of ranks a < b; y are the labels by rank."""
    ranks, relevant = np.arange(1, len(y) + 1), y > 0
    a, b = ranks[:, None], ranks
    top = objective.top or len(y)
    differ = relevant[:, None] != relevant
    if objective.mode == "Classic":
        weights = 0.15 * objective.decay ** (a - 1.0) * np.abs(y[:, None] - y)
    elif objective.mode == "MRR":
        is_first: NDArray[np.bool_] = np.cumsum(relevant) - relevant == 0
        weights = differ * is_first[:, None] * (1.0 / a - 1.0 / b)
    elif objective.mode == "MAP":
        through = np.cumsum(relevant / ranks)
        weights = differ * (1.0 / a + (through - relevant / ranks) - through[:, None])
    elif objective.mode == "ERR":
        value = [[_err(_swapped(y, i, j)) for j in range(len(y))] for i in range(len(y))]
        weights = np.abs(np.array(value) - _err(y))
    else:
        gains = np.exp2(y) - 1.0 if objective.dcg_type == "Exp" else y
        discounts = np.where(ranks <= top, 1.0 / np.log2(ranks + 1.0), 0.0)
        best = np.sort(gains)[::-1] @ discounts if objective.mode == "NDCG" else 1.0
        weights = np.abs((gains[:, None] - gains) * (discounts[:, None] - discounts)) / (best or 1.0)
    neighbors = len(y) if objective.num_neighbors == -1 else objective.num_neighbors
    counts = (y[:, None] != y) & (a < b) & (b <= a + neighbors) & (a <= top)
    return np.where(counts, weights, 0.0)


def _err(y: Labels) -> float:
    return float((y * np.cumprod(np.concatenate([[1.0], 1.0 - y[:-1]])) / np.arange(1, len(y) + 1)).sum())


def _swapped(y: Labels, i: int, j: int) -> Labels:
    swapped = y.copy()
    swapped[[i, j]] = y[[j, i]]
    return swapped


# ---- Kernel.


@for_each_query
def _yetirank(
    scores: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: _Settings,
    gradients: Values,
    hessians: Values,
) -> None:
    n = len(scores)
    noisy, order = np.empty(n), np.empty(n, dtype=np.uint32)
    gains, discounts = gains_and_discounts(
        labels, settings.is_exponential, settings.mode == Mode.NDCG, settings.top
    )
    for permutation in range(settings.permutations):
        for i in range(n):
            noisy[i] = scores[i] + _noise(seed, query, permutation * n + i, settings)
            order[i] = i
        sort_by_score(noisy, order)
        _add_pairs(order, scores, labels, gains, discounts, settings, gradients, hessians)
    for i in range(n):
        gradients[i] *= weights[i] / settings.permutations
        hessians[i] *= weights[i] / settings.permutations


@kernel
def _noise(seed: int, query: int, index: int, settings: _Settings) -> float:
    if settings.noise == Noise.Gumbel:
        u = draw(seed, query, index)
        logistic: float = np.log(u / (1.000001 - u))
        return logistic
    if settings.noise == Noise.Gauss:
        return settings.noise_power * draw_normal(seed, query, index)
    return 0.0


@kernel
def _add_pairs(
    order: RankOrder,
    scores: Values,
    labels: Values,
    gains: Values,
    discounts: Values,
    settings: Any,
    gradients: Values,
    hessians: Values,
) -> None:
    """Adds the pairs of one order; a and b are ranks that start at 0."""
    n, mode = len(order), settings.mode
    neighbors = 1 if mode == Mode.Classic else settings.num_neighbors
    reach = 0.15 if mode == Mode.Classic else 1.0
    for a in range(min(n, settings.top)):
        i = order[a]
        y = labels[i]
        between, passed = 1.0 / (a + 1.0), 1.0
        for b in range(a + 1, min(n, a + 1 + neighbors)):
            j = order[b]
            if labels[j] != y:
                if mode == Mode.Classic:
                    weight = reach * abs(y - labels[j])
                elif mode == Mode.DCG or mode == Mode.NDCG:
                    weight = abs((gains[i] - gains[j]) * (discounts[a] - discounts[b]))
                elif mode == Mode.ERR:
                    weight = reach * abs((y - labels[j]) * (between - passed / (b + 1.0)))
                elif (y > 0.0) == (labels[j] > 0.0):
                    weight = 0.0
                else:
                    weight = between if mode == Mode.MAP else 1.0 / (a + 1.0) - 1.0 / (b + 1.0)
                hi, lo = (i, j) if y > labels[j] else (j, i)
                p = 1.0 / (1.0 + np.exp(scores[hi] - scores[lo]))
                gradients[hi] -= weight * p
                gradients[lo] += weight * p
                hessians[hi] += weight * p * (1.0 - p)
                hessians[lo] += weight * p * (1.0 - p)
            if mode == Mode.ERR:
                between -= passed * labels[j] / (b + 1.0)
                passed *= 1.0 - labels[j]
            elif mode == Mode.MAP and labels[j] > 0.0:
                between += 1.0 / (b + 1.0)
        if mode == Mode.Classic:
            reach *= settings.decay
        elif mode == Mode.ERR:
            reach *= 1.0 - y
        elif mode == Mode.MRR and y > 0.0:
            return
