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

The loss is a bound on NDCG, which is not proven for lambdarank. It uses no pairs, so that its cost is O(n),
and has neither truncation nor sigma. Because of the random draws, documents with equal labels have different
targets in each iteration.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.shapes import Labels, QueryStart, Values

EPSILON = 1e-15
"""LightGBM's kEpsilon: minimum of the sum of phi and of 1 - rho."""


def reference_xendcg(labels: Labels, scores: Values, draws: Values) -> tuple[Values, Values]:
    """Specification: returns the (n,) gradients and hessians of one query of weight 1."""
    if len(labels) < 2:
        return np.zeros(len(labels)), np.zeros(len(labels))
    e = np.exp(scores - scores.max())
    rho = e / e.sum()
    rest = np.maximum(1.0 - rho, EPSILON)
    phi = np.exp2(labels) - draws
    a = rho - phi / max(phi.sum(), EPSILON)
    b = a / rest
    c = rho * (b.sum() - b)
    d = c / rest
    return a + c + rho * (d.sum() - d), rho * (1.0 - rho)


def xendcg(
    query_start: QueryStart,
    grades: Values,
    weights: Values,
    scores: Values,
    draws: Values,
    queries: NDArray[np.int64],
) -> tuple[Values, Values]:
    """Returns the (D,) gradients and (D,) hessians; 0 outside `queries`.

    Args:
        query_start: (Q + 1,).
        grades: (D,), 2^l.
        weights: (D,), factor of each document's gradient and hessian.
        scores: (D,).
        draws: (D,), gamma.
        queries: indices of the queries to compute.
    """
    gradients, hessians = np.zeros(len(scores)), np.zeros(len(scores))
    _all_queries(query_start, grades, weights, scores, draws, queries, gradients, hessians)
    return gradients, hessians


@parallel_kernel
def _all_queries(
    query_start: QueryStart,
    grades: Values,
    weights: Values,
    scores: Values,
    draws: Values,
    queries: NDArray[np.int64],
    gradients: Values,
    hessians: Values,
) -> None:
    for k in numba.prange(len(queries)):
        first, end = query_start[queries[k]], query_start[queries[k] + 1]
        if end - first > 1:
            g, h = _one_query(grades[first:end], draws[first:end], scores[first:end])
            for i in range(end - first):
                gradients[first + i] = g[i] * weights[first + i]
                hessians[first + i] = h[i] * weights[first + i]


@kernel
def _one_query(grades: Values, draws: Values, scores: Values) -> tuple[Values, Values]:
    """Returns the (n,) gradients and hessians of one query.

    Sums add one value after another, so that they have the same bits on every machine.
    """
    phi = grades - draws
    rho = np.exp(scores - scores.max())
    rho /= _sum(rho)
    rest = np.maximum(1.0 - rho, EPSILON)
    a = rho - phi / max(_sum(phi), EPSILON)
    b = a / rest
    c = rho * (_sum(b) - b)
    d = c / rest
    return a + c + rho * (_sum(d) - d), rho * (1.0 - rho)


@kernel
def _sum(values: Values) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
