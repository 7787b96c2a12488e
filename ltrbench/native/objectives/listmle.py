"""ListMLE: likelihood of the order by labels, if documents are drawn one after another by their scores.

Xia, Liu, Wang, Zhang and Li, 2008, "Listwise Approach to Learning to Rank: Theory and Algorithm" (ICML);
allRank (listMLE.py) and TF-Ranking (`ListMLELoss`). Number the documents by descending label; documents with
equal labels are in random order, which is drawn again in every iteration. With the weight a_i of a document
and p_ik = exp(s_k) / sum over j >= i of exp(s_j), the probability that k is drawn at rank i:

    loss = - sum over i of a_i log p_ii
    g_k  = sum over i <= k of a_i p_ik  -  a_k
    h_k  = sum over i <= k of a_i p_ik (1 - p_ik)     diagonal of the hessian, exact

Only the order of labels counts. Documents with equal labels have gradients too, towards their random order,
whose mean over draws pulls their scores together. The cost for a query of n documents is O(n) plus sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import draw, for_each_query
from ltrbench.native.objectives.sorting import RankOrder, order_of
from ltrbench.shapes import Gradients, Hessians, Labels, Values


@dataclass(kw_only=True)
class ListMLE(Objective):
    """ListMLE: negative log likelihood of the order by labels; the module has the formulas."""

    source = "Xia et al., 2008 (ICML); allRank, TF-Ranking"
    draws = True

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _listmle(scores, data, seed, ())

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        order = random_order(labels, seed, query)
        last_first = scores[order[::-1]]
        log_sums = np.logaddexp.accumulate(last_first)[::-1]
        return float(weights[order] @ (log_sums - scores[order]))


@kernel
def random_order(labels: Labels, seed: int, query: int) -> RankOrder:
    """Returns the (n,) rows by descending label; equal labels are shuffled (Fisher and Yates)."""
    order = order_of(labels)
    end = 0
    for i in range(len(order)):
        while end < len(order) and labels[order[end]] == labels[order[i]]:
            end += 1
        j = i + int(draw(seed, query, i) * (end - i))
        order[i], order[j] = order[j], order[i]
    return order


@for_each_query
def _listmle(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    # Sums of exponentials are relative to their largest term, so that distant scores do not underflow.
    n = len(s)
    order = random_order(labels, seed, query)
    log_sums = np.empty(n)
    highest = -np.inf
    tail = 0.0
    for i in range(n - 1, -1, -1):
        x = s[order[i]]
        if x > highest:
            highest, tail = x, tail * np.exp(highest - x) + 1.0
        else:
            tail += np.exp(x - highest)
        log_sums[i] = highest + np.log(tail)
    # The sums over i <= k of a_i p_ik and of a_i p_ik^2 are p first and p^2 second, with p = p_kk.
    first = 0.0
    second = 0.0
    for k in range(n):
        row = order[k]
        decay = np.exp(log_sums[k] - log_sums[max(k - 1, 0)])
        first = first * decay + weights[row]
        second = second * decay * decay + weights[row]
        p = np.exp(min(s[row] - log_sums[k], 0.0))
        g[row] = p * first - weights[row]
        h[row] = max(p * (first - p * second), 0.0)
