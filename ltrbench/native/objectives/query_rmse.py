"""QueryRMSE: squared error of the label, up to a constant of the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import for_each_query
from ltrbench.shapes import Gradients, Hessians, Values


@dataclass(kw_only=True)
class QueryRMSE(Objective):
    """With the residual r_i = l_i - s_i and m, the mean of the residuals with the weights w of the documents:

    loss  = sum w_i (r_i - m)^2 / 2
    g_i   = -w_i (r_i - m)
    h_i   = w_i                      CatBoost's; the second derivative is w_i (1 - w_i / sum w)

    A document of weight 0 has no loss.
    """

    source = "CatBoost, TQueryRmseError in error_functions.h"

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _query_rmse(scores, data, seed, ())

    def loss(self, scores: Values, data: ObjectiveData, seed: int) -> float:
        gradients, _ = self.gradients(scores, data, seed)
        counted = data.weights > 0
        weights = data.weights[counted]
        losses = gradients[counted] ** 2 / weights
        return float(losses.sum() / 2)


@for_each_query
def _query_rmse(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    residuals = labels - s
    mean = (weights * residuals).sum() / weights.sum()
    g[:] = weights * (mean - residuals)
    h[:] = weights
