"""StochasticRank: the gradient of DCG or NDCG, smoothed by normal noise of the scores.

Ustimenko and Prokhorenkova, 2020, "StochasticRank: Global Optimization of Scale-Free Discrete Functions", as
implemented in CatBoost's TStochasticRankError (error_functions.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdas import sort_by_score
from ltrbench.native.objectives.query_kernels import draw_normal, for_each_query, gains_and_discounts
from ltrbench.settings import part, setting
from ltrbench.shapes import Gradients, Hessians, Values


class _Settings(NamedTuple):
    is_ndcg: bool
    is_exponential: bool
    is_catboost: bool
    top: int
    sigma: float
    num_estimations: int
    mu: float
    nu: float
    lambda_reg: float


@dataclass(kw_only=True)
class StochasticRank(Objective):
    """Each estimation draws standard normal e and sorts x_i = z_i + sigma e_i, z_i = s_i - sigma mu y_i.
    Document i, removed and inserted again, passes document j, which has the rank k, starting at 0, among the
    other n - 1 documents; this changes the metric by (G_i - G_j) (D_k - D_(k + 1)). With phi, the normal
    density with the mean m_i and the standard deviation sigma sqrt(n / (n - 1)),

        m_i   = z_i + sigma (sum e - e_i) / (n - 1)       z_i, moved as the other documents are on average
        g_i   = -sum_j (G_i - G_j) (D_k - D_(k + 1)) phi(x_j), mean over the estimations
        g    -= lambda_reg (g . c) / (|c| + nu)^2 c       c = s - mean(s), if n > 2, after g -= mean(g)
        h_i   = 1                                         so that leaves are mean gradients

    With mu = lambda_reg = 0, g is an unbiased estimate of the negative gradient of the smoothed metric.
    CatBoost's conditional mean is m_i = z_i + (sum e - sigma e_i) / (n - 1), which is biased unless sigma is
    1; dialect=catboost reproduces it.
    """

    metric: str = setting("NDCG", choices=("NDCG", "DCG"))
    """Smoothed metric: NDCG or DCG."""
    top: int | None = setting(None, at_least=1)
    """Cutoff of the metric; None: no cutoff."""
    dcg_type: str = setting("Base", choices=("Base", "Exp"))
    """Gain of a label: Base, the label itself, or Exp, 2^label - 1."""
    sigma: float = setting(1.0, above=0)
    """Standard deviation of the noise. With less noise, only documents with close scores have gradients."""
    num_estimations: int = setting(1, at_least=1)
    """Number of random orders per query and iteration. More orders give less variance and take longer."""
    mu: float = setting(0.0, at_least=0)
    """Factor of the labels by which scores are reduced, in units of sigma, against ties in wrong order."""
    nu: float = setting(0.01, above=0)
    """Constant added to the norm of the scores in the projection, for queries with nearly equal scores."""
    lambda_reg: float = setting(1.0, at_least=0)
    """Share of the gradient along the scores that is removed, because it changes only their scale."""
    dialect: str = setting("exact", choices=("exact", "catboost"))
    """Conditional mean of a score: exact, or catboost, which is biased unless sigma is 1."""

    draws = True
    is_loss = False
    source = "CatBoost, TStochasticRankError in error_functions.cpp"

    def gradients(self, scores: Values, data: ObjectiveData, seed: int) -> tuple[Gradients, Hessians]:
        settings = part(
            self,
            _Settings,
            is_ndcg=self.metric == "NDCG",
            is_exponential=self.dcg_type == "Exp",
            is_catboost=self.dialect == "catboost",
            top=len(scores) if self.top is None else self.top,
        )
        return _stochastic_rank(scores, data, seed, settings)


@for_each_query
def _stochastic_rank(
    scores: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: _Settings,
    gradients: Values,
    hessians: Values,
) -> None:
    n, sigma = len(scores), settings.sigma
    hessians[:] = weights
    if n < 2:
        return
    noise, noisy, order = np.empty(n), np.empty(n), np.empty(n, dtype=np.uint32)
    gains, discounts = gains_and_discounts(labels, settings.is_exponential, settings.is_ndcg, settings.top)
    deviation = sigma * np.sqrt(n / (n - 1.0))
    density = 1.0 / (deviation * np.sqrt(2.0 * np.pi))
    for estimation in range(settings.num_estimations):
        total = 0.0
        for i in range(n):
            noise[i] = draw_normal(seed, query, estimation * n + i)
            total += noise[i]
            noisy[i] = scores[i] - sigma * settings.mu * labels[i] + sigma * noise[i]
            order[i] = i
        sort_by_score(noisy, order)
        for rank in range(n):
            i = order[rank]
            if settings.is_catboost:
                moved = (total - sigma * noise[i]) / (n - 1.0)
            else:
                moved = sigma * (total - noise[i]) / (n - 1.0)
            mean = noisy[i] - sigma * noise[i] + moved
            for other in range(n):
                k = other if other < rank else other - 1
                j = order[other]
                if k < settings.top and gains[i] != gains[j]:
                    x = (noisy[j] - mean) / deviation
                    change = (gains[i] - gains[j]) * (discounts[k] - discounts[k + 1])
                    gradients[i] -= change * density * np.exp(-0.5 * x * x)
    mean_gradient, mean_score = gradients.sum() / n, scores.sum() / n
    product, square = 0.0, 0.0
    for i in range(n):
        gradients[i] = (gradients[i] - mean_gradient) / settings.num_estimations
        product += gradients[i] * (scores[i] - mean_score)
        square += (scores[i] - mean_score) ** 2
    along = settings.lambda_reg * product / (np.sqrt(square) + settings.nu) ** 2 if n > 2 else 0.0
    for i in range(n):
        gradients[i] = weights[i] * (gradients[i] - along * (scores[i] - mean_score))
