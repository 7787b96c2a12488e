"""XE-NDCG: the cross entropy between the softmax of the scores and randomised gains.

Bruch, 2021, "An Alternative Cross Entropy Loss for Learning-to-Rank", sections 3 and 4, as implemented in
LightGBM's rank_xendcg. For a query of n > 1 documents, with gamma drawn uniformly from [0, 1) for each
document in every iteration:

    rho_i = exp(s_i) / sum exp(s)                  distribution of the model
    phi_i = 2^l_i - gamma_i, divided by its sum    distribution of the labels
    a_i   = rho_i - phi_i                          first order: the derivative of the cross entropy
    b_i   = a_i / (1 - rho_i)
    c_i   = rho_i (sum b - b_i)                    second order
    d_i   = c_i / (1 - rho_i)
    g_i   = a_i + c_i + rho_i (sum d - d_i)
    h_i   = rho_i (1 - rho_i)

The loss is a bound on NDCG, which is not proven for lambdarank. It uses no pairs, so that its cost is
O(n), and has neither truncation nor sigma. Because of the random draws, documents with equal labels have
different targets in each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import check_gains, for_each_query
from ltrbench.native.team import DocumentDraws
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values

EPSILON = 1e-15
"""LightGBM's kEpsilon: minimum of the sum of phi and of 1 - rho."""


@dataclass(kw_only=True)
class CrossEntropy(Objective):
    """xendcg: cross entropy against randomised gains; no loss, because of the terms of second order."""

    source = "Bruch, 2021; LightGBM's rank_xendcg"

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        # Its phi are NDCG's gains, apart from the random draw.
        check_gains(labels, query_start)

    def data_of_iteration(
        self, data: ObjectiveData, rng: DocumentDraws
    ) -> ObjectiveData:
        drawn = rng.random(len(data.labels))
        return data._replace(labels=np.exp2(data.labels) - drawn)

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _xendcg(scores, data, seed, ())


@for_each_query
def _xendcg(
    s: Values,
    phi: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    """Sums add one value after another, so that they have the same bits on every machine."""
    if len(s) > 1:
        rho = np.exp(s - s.max())
        rho /= _sum_in_order(rho)
        rest = np.maximum(1.0 - rho, EPSILON)
        a = rho - phi / max(_sum_in_order(phi), EPSILON)
        b = a / rest
        c = rho * (_sum_in_order(b) - b)
        d = c / rest
        g[:] = (a + c + rho * (_sum_in_order(d) - d)) * weights
        h[:] = (rho * (1.0 - rho)) * weights


@kernel
def _sum_in_order(values: Values) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
