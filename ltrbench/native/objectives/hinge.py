"""Squared hinge loss of pairs: with a linear model and an L2 penalty, a ranking SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import for_each_query
from ltrbench.shapes import Gradients, Hessians, Labels, Values


@dataclass(kw_only=True)
class Hinge(Objective):
    """With the slack m_ij = max(0, 1 - (s_i - s_j)) of a pair, and the weight w of a document:

    loss  = sum of w_i m_ij^2 / 2     over i and j with label i > label j
    g_i   = sum of -w_i m_ij over such j, plus sum of w_j m_ji over j with label j > label i
    h_i   = sum of the weights in g_i with a slack above 0

    The pairs are those of Joachims, 2002, "Optimizing Search Engines using Clickthrough Data" (KDD), equation
    13, whose slack is not squared. The square has a continuous gradient.
    """

    source = "Joachims, 2002 (KDD); squared as in Chapelle and Keerthi, 2010 (Information Retrieval 13)"

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _hinge(scores, data, seed, ())

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        is_pair = labels[:, None] > labels
        slack = np.maximum(1.0 - (scores[:, None] - scores), 0.0) * is_pair
        squares = np.square(slack).sum(axis=1)
        return float(weights @ squares / 2)


@for_each_query
def _hinge(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    for i in range(len(s)):
        for j in range(len(s)):
            slack = 1.0 - (s[i] - s[j])
            if labels[i] > labels[j] and slack > 0.0:
                g[i] -= weights[i] * slack
                g[j] += weights[i] * slack
                h[i] += weights[i]
                h[j] += weights[i]
