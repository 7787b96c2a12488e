"""Squared error of each document, so that scores approach labels."""

from __future__ import annotations

from dataclasses import dataclass

from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.shapes import Gradients, Hessians, Values


@dataclass(kw_only=True)
class SquaredError(Objective):
    """mart: the cost of each document is (s - l)^2 / 2.

    Friedman, 2001, "Greedy Function Approximation: A Gradient Boosting Machine", section 4.1.
    """

    is_loss = True
    source = "Friedman, 2001; RankLib's MART"

    def gradients(self, scores: Values, data: ObjectiveData, seed: int) -> tuple[Gradients, Hessians]:
        return (scores - data.labels) * data.weights, data.weights

    def loss(self, scores: Values, data: ObjectiveData, seed: int) -> float:
        return float((data.weights * (scores - data.labels) ** 2).sum() / 2)
