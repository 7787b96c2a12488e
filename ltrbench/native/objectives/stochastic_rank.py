"""StochasticRank: the gradient of DCG or NDCG, smoothed by normal noise of the scores.

Ustimenko and Prokhorenkova, 2020, "StochasticRank: Global Optimization of Scale-Free Discrete Functions", as
implemented in CatBoost's TStochasticRankError (error_functions.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import (
    check_gains,
    discounts_of,
    draw_normal,
    for_each_query,
    gains_of,
)
from ltrbench.native.objectives.sorting import gather, order_of
from ltrbench.settings import NOT_0, setting
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values


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
    nu: float = setting(0.01, above=0, only_with={"lambda_reg": NOT_0})
    """Constant added to the norm of the scores in the projection, for queries with nearly equal scores."""
    lambda_reg: float = setting(1.0, at_least=0)
    """Share of the gradient along the scores that is removed, because it changes only their scale."""
    dialect: str = setting("exact", choices=("exact", "catboost"))
    """Conditional mean of a score: exact, or catboost, which is biased unless sigma is 1."""

    draws = True
    source = "CatBoost, TStochasticRankError in error_functions.cpp"

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        if self.dcg_type == "Exp":
            check_gains(labels, query_start)

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        of_metric = (
            self.dcg_type == "Exp",
            self.metric == "NDCG",
            self.top or len(scores),
        )
        of_noise = (
            self.dialect == "catboost",
            float(self.sigma),
            self.num_estimations,
            float(self.mu),
        )
        of_scale = (float(self.nu), float(self.lambda_reg))
        return _one_query(scores, data, seed, (*of_metric, *of_noise, *of_scale))


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
    (
        is_exponential,
        is_ndcg,
        top,
        is_catboost,
        sigma,
        num_estimations,
        mu,
        nu,
        lambda_reg,
    ) = settings
    n = len(s)
    h[:] = weights
    if n < 2:
        return
    gains = gains_of(labels, is_exponential, is_ndcg, top)
    discounts = discounts_of(n, top)
    # phi(x) = inverse / sqrt(pi) exp(-(inverse (x - m))^2), whose factor is in `steps`.
    inverse = np.sqrt((n - 1.0) / (2.0 * n)) / sigma
    steps = (discounts[:-1] - discounts[1:]) * (
        inverse / np.sqrt(np.pi) / num_estimations
    )
    z = s - sigma * mu * labels
    noise = np.empty(n)
    # Whole vectors of the CPU, whose zeros at the end are not used; rows of one array are not vectorised.
    padded = n + -n % 16
    mean = np.zeros(padded)
    gain = np.zeros(padded)
    sums = np.zeros(padded)
    for estimation in range(num_estimations):
        for i in range(n):
            noise[i] = draw_normal(seed, query, estimation * n + i)
        total = noise.sum()
        noisy = z + sigma * noise
        moved = total - sigma * noise if is_catboost else sigma * (total - noise)
        means = inverse * (z + moved / (n - 1.0))
        order = order_of(noisy)
        x = inverse * gather(noisy, order)
        mean[:n], gain[:n], sums[:] = gather(means, order), gather(gains, order), 0.0
        for other in range(min(n, top + 1)):
            # The document passes to the rank above `other`, or to that below.
            steps_past = steps[max(other - 1, 0)], steps[min(other, n - 2)]
            _add_passes((other, x[other], gain[other], *steps_past), mean, gain, sums)
        for rank in range(n):
            g[order[rank]] -= sums[rank]
    g -= g.sum() / n
    if n > 2:
        c = s - s.sum() / n
        g -= lambda_reg * (g * c).sum() / (np.sqrt((c * c).sum()) + nu) ** 2 * c
    g *= weights


@kernel
def _add_passes(passed: Any, mean: Values, gain: Values, sums: Values) -> None:
    """Adds the change of the metric by each document that passes another, times its density there.

    A loop with `np.exp` is not vectorised. Here, exp(-t / 128) is its series, which is squared seven times;
    the absolute error is below 2e-14.
    """
    rank, x, gain_of_x, upper, lower = passed
    for i in range(len(mean)):
        distance = x - mean[i]
        t = distance * distance
        y = t * (-1 / 128)
        p = 1 / 6 + y * (1 / 24 + y * (1 / 120 + y * (1 / 720 + y * (1 / 5040))))
        p = 1.0 + y * (1.0 + y * (0.5 + y * p))
        for _ in range(6):
            p *= p
        density = p * p if t < 64.0 else 0.0
        sums[i] += (gain[i] - gain_of_x) * (lower if i > rank else upper) * density
