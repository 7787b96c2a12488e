"""QuerySoftMax: cross entropy between the labels of a query and the softmax of its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import for_each_query
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, Values


@dataclass(kw_only=True)
class QuerySoftMax(Objective):
    """With the weights w, the labels l and S = sum w_i l_i of a query:

        p_i   = w_i exp(beta s_i) / sum_j w_j exp(beta s_j)
        loss  = -sum w_i l_i log(p_i / w_i)
        g_i   = beta (S p_i - w_i l_i)
        h_i   = beta S (beta p_i (1 - p_i) + softmax_lambda)

    A query without a relevant document has no gradients, and a document of weight 0 has neither gradient
    nor hessian, as in CatBoost.
    """

    beta: float = setting(1.0, above=0)
    """Factor of the scores in the softmax (CatBoost's beta). A larger value makes the softmax steeper."""
    softmax_lambda: float = setting(0.01, at_least=0)
    """Regularisation, added to hessians (CatBoost's lambda, `lambda_reg` in model=catboost). It keeps steps
    small where p is near 0 or 1. With softmax_lambda=0 and beta=1, query_softmax is softmax_loss, unless
    weights vary within a query."""

    source = (
        "CatBoost, TQuerySoftMaxError::CalcDersForSingleQuery in error_functions.cpp"
    )

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _query_softmax(
            scores, data, seed, (float(self.beta), float(self.softmax_lambda))
        )

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        counted = weights > 0
        w = weights[counted]
        relevance = (weights * labels)[counted]
        s = self.beta * (scores[counted] - scores[counted].max())
        log_sum = np.log((w * np.exp(s)).sum())
        return float((relevance * (log_sum - s)).sum())


@for_each_query
def _query_softmax(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    beta, softmax_lambda = settings
    highest = s[weights > 0.0].max()
    # A document of weight 0 may have a higher score, which must not overflow.
    p = weights * np.exp(beta * np.minimum(s - highest, 0.0))
    p /= p.sum()
    relevance = weights * labels
    total = relevance.sum()
    g[:] = beta * (total * p - relevance)
    h[:] = beta * total * (beta * p * (1.0 - p) + softmax_lambda) * (weights > 0.0)
