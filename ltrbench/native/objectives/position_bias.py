"""Position bias as a term of the score: clicks fall with the position shown, and a bias of it takes that up.

LightGBM's (lambdarank_position_bias_regularization): a document shown at position p has, in training alone,
the score s + bias[p]. Trees then need not explain by features what the position explains. The biases are
learned beside the trees, by a shrunk Newton step an iteration (Wang et al., 2018, "Position Bias Estimation
for Unbiased Learning to Rank in Personal Search", for why it must be estimated at all). With g and h summed
over the n documents shown at p, the learning rate eta and the penalty l2,

    bias[p] += eta (-g - l2 n bias[p]) / (|-h - l2 n| + 0.001)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native.objectives.lambdas import Values
from ltrbench.native.objectives.preparation import Objective, Queries
from ltrbench.shapes import Gradients, Hessians

Factors = dict[str, NDArray[np.float64]]  # "position" (P,), and by name what was learned of each, (P,)


class BiasCorrection(Protocol):
    """An `Objective` that learns of positions, an iteration a call."""

    def __call__(
        self, scores: Values, queries: Queries, rng: np.random.Generator
    ) -> tuple[Gradients, Hessians]: ...

    def factors(self, num_iterations: int) -> Factors:
        """What was known after so many iterations, so that it can be trimmed as trees are."""

    def resume(self, factors: Mapping[str, NDArray[np.float64]]) -> None:
        """Begins with what another fit has learned."""


LEAST_DIVISOR = 0.001
"""LightGBM's: keeps the step finite where a position has no hessian."""


class AdditiveBias:
    """An objective whose scores are corrected by the bias of each document's position.

    Args:
        objective: what is corrected.
        train: with positions.
        learning_rate: eta.
        l2: the penalty.

    Attributes:
        positions: (P,), the positions there are, rising.
        biases: (P,) for the beginning and after each iteration, the bias of each; 0 at first.
    """

    def __init__(self, objective: Objective, train: RankingDataset, learning_rate: float, l2: float) -> None:
        assert train.positions is not None  # whoever corrects a bias has made sure of it
        self._objective = objective
        self._learning_rate = learning_rate
        self._l2 = l2
        self._query_of_document = train.query_of_document
        self.positions, self._place = np.unique(train.positions, return_inverse=True)
        self.biases = [np.zeros(len(self.positions))]

    def __call__(
        self, scores: Values, queries: Queries, rng: np.random.Generator
    ) -> tuple[Gradients, Hessians]:
        gradients, hessians = self._objective(scores + self.biases[-1][self._place], queries, rng)
        self._step(gradients, hessians, self._place if queries is None else self._places_of(queries))
        return gradients, hessians

    def _step(self, gradients: Gradients, hessians: Hessians, places: NDArray[np.int64]) -> None:
        num_positions = len(self.positions)
        g = np.bincount(self._place, gradients, num_positions)
        h = np.bincount(self._place, hessians, num_positions)
        penalty = self._l2 * np.bincount(places, minlength=num_positions)
        step = (-g - penalty * self.biases[-1]) / (np.abs(-h - penalty) + LEAST_DIVISOR)
        self.biases.append(self.biases[-1] + self._learning_rate * step)

    def _places_of(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the documents that the gradients are of."""
        return self._place[np.isin(self._query_of_document, queries)]

    def factors(self, num_iterations: int) -> Factors:
        return {"position": self.positions.astype(np.float64), "bias": self.biases[num_iterations]}

    def resume(self, factors: Mapping[str, NDArray[np.float64]]) -> None:
        known = dict(zip(factors["position"], factors["bias"], strict=True))
        self.biases = [np.array([known.get(float(position), 0.0) for position in self.positions])]
