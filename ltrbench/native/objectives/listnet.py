"""ListNet and the softmax loss: cross entropy between targets of a list and the softmax of its scores.

With rho = softmax(s), the weight a_i and the target t_i of a document, y_i = a_i t_i, and m the sum of y:

    loss = - sum y_i log rho_i
    g_i  = m rho_i - y_i
    h_i  = m rho_i (1 - rho_i)     diagonal of the hessian, exact

Two losses have this form:

    listnet   t = softmax(labels). Cao, Qin, Liu, Tsai and Li, 2007, "Learning to Rank: From Pairwise Approach
              to Listwise Approach" (ICML), with top-one probabilities; allRank (listNet.py), without 1e-10 in
              its logarithm. A list with equal labels draws its scores together.
    softmax   t = labels: lists with more relevant documents count more. RAX (`softmax_loss`) and TF-Ranking
              (`SoftmaxLoss`, which weights each list by its sum of labels). A list with labels of 0 has no
              gradients.

The cost for a query of n documents is O(n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import for_each_query
from ltrbench.settings import setting
from ltrbench.shapes import Gradients, Hessians, Labels, Values


@dataclass(kw_only=True)
class ListNet(Objective):
    """Cross entropy between targets and the softmax of the scores; the module has the formulas."""

    targets: str = setting("softmax", choices=("softmax", "labels"))
    """Targets: softmax: softmax of the labels (ListNet), or labels: the labels themselves (softmax loss)."""

    source = "listnet: Cao et al., 2007 (ICML), allRank; softmax_loss: RAX, TF-Ranking"

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        return _listnet(scores, data, seed, (self.targets == "softmax",))

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        targets = softmax(labels) if self.targets == "softmax" else labels
        return float((weights * targets) @ (np.logaddexp.reduce(scores) - scores))


@kernel
def softmax(values: Values) -> Values:
    """Returns the (n,) softmax."""
    e = np.exp(values - values.max())
    shares: Values = e / e.sum()
    return shares


@for_each_query
def _listnet(
    s: Values,
    labels: Values,
    weights: Values,
    seed: int,
    query: int,
    settings: Any,
    g: Values,
    h: Values,
) -> None:
    y = weights * (softmax(labels) if settings[0] else labels)
    m = y.sum()
    rho = softmax(s)
    g[:] = m * rho - y
    h[:] = m * rho * (1.0 - rho)
