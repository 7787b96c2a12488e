"""ApproxNDCG: NDCG of smooth ranks.

Qin, Liu and Li, 2010, "A General Approximation Framework for Direct Optimization of Information Retrieval
Measures" (Information Retrieval 13); Bruch, Zoghi, Bendersky and Najork, 2019, "Revisiting Approximate Metric
Optimization in the Age of Deep Neural Networks" (SIGIR). TF-Ranking (`ApproxNDCGLoss`), RAX (`approx_t12n` of
`ndcg_metric`) and allRank (approxNDCG.py) have this formula, with different temperatures t. With G_i =
(2^label_i - 1) / max_dcg and the weight a_i of a document:

    q_ij = 1 / (1 + exp((s_i - s_j) / t))               for j != i: near 1 if j is far above i
    r_i  = 1 + sum over j of q_ij                       smooth rank
    loss = - sum of a_i G_i / log2(1 + r_i)
    c_i  = a_i G_i / (ln 2 (1 + r_i) log2(1 + r_i)^2)   derivative of the loss with respect to r_i
    g_i  = sum over j of (c_j - c_i) q_ij (1 - q_ij) / t
    h_i  = sum over j of |c_j - c_i| q_ij (1 - q_ij) / t^2

The gradient is exact. The second derivative is often negative; h is a positive substitute, in the form of
LambdaMART's hessian. It is an upper bound of the size of the second derivative if c is fixed, because that of
q_ij is at most q_ij (1 - q_ij) / t^2. The cost for a query of n documents is O(n^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.errors import ConfigError
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdaloss import discount
from ltrbench.native.objectives.pairs import logistic
from ltrbench.native.objectives.query_kernels import (
    FAR,
    check_gains,
    exponentials,
    for_each_query,
    gains_of,
)
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values


@dataclass(kw_only=True)
class ApproxNDCG(Objective):
    """ApproxNDCG: NDCG of smooth ranks; the module has the formulas."""

    temperature: float | None = setting(None, above=0)
    """Score difference over which ranks are smooth; required: 0.1 in TF-Ranking, 1 in RAX and allRank. The
    steps of trees are proportional to it: it changes scores, and rankings only relative to l2 and
    min_sum_hessian."""

    source = (
        "Qin, Liu and Li, 2010; Bruch et al., 2019 (SIGIR); TF-Ranking, RAX, allRank"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature is None:
            raise ConfigError(
                "The objective approx_ndcg needs a temperature, for which there is no common default: 0.1 "
                "as in TF-Ranking, or 1 as in RAX and allRank. Set model/objective=approx_ndcg "
                "model.objective.temperature=0.1; in Python, pass ApproxNDCG(temperature=0.1)."
            )

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        check_gains(labels, query_start)

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _approx_ndcg(scores, data, seed, self.temperature)

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        # q_ii is 1 / 2, but does not count.
        r = 0.5 + logistic(
            scores[:, None] - scores, 1.0 / (self.temperature or 0.0)
        ).sum(axis=1)
        gains = gains_of(labels, True, True, len(labels))
        return float(-(weights * gains) @ discount(r))


@for_each_query
def _approx_ndcg(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    n = len(s)
    t = settings
    x = s / t
    gain = weights * gains_of(labels, True, True, n)
    r = np.full(n, 0.5)
    e = exponentials(x, x.max())
    is_far = x.max() - x.min() > FAR
    for j in range(n):
        if is_far:
            e = exponentials(x, x[j])
        _add_counts(e[j], e, r)
    c = gain / (np.log(2.0) * (1.0 + r) * np.log2(1.0 + r) ** 2)
    for j in range(n):
        if is_far:
            e = exponentials(x, x[j])
        _add_slopes(c[j], e[j], c, e, t, g, h)


@kernel
def _add_counts(e_j: float, e: Values, r: Values) -> None:
    """Adds q_ij to the ranks of all documents i."""
    for i in range(len(r)):
        r[i] += e_j / (e[i] + e_j)


@kernel
def _add_slopes(
    c_j: float, e_j: float, c: Values, e: Values, t: float, g: Values, h: Values
) -> None:
    """Adds the terms of document j to the gradients and hessians of all documents i."""
    for i in range(len(g)):
        inverse = 1.0 / (e[i] + e_j)
        slope = (c_j - c[i]) * (e[i] * inverse) * (e_j * inverse) / t
        g[i] += slope
        h[i] += abs(slope) / t
