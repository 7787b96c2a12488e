"""Coordinate ascent: maximises a ranking metric by one weight of a linear model at a time.

Metzler and Croft, 2007, "Linear feature-based models for information retrieval", Information Retrieval 10,
as in RankLib's CoorAscent.java (codelibs/ranklib, commit 0cc17c81574469ef7d2d7df0e0e387038a55b969). A pass
begins with equal weights and visits all features in a random order. For a feature with the weight w it tries

    w + t,  w - t,  0        for t = d, 3 d, 7 d, ... (each step is `step_scale` times the one before)

and keeps the value with the highest metric of the first of these three directions that increases the metric.
d is 0.001, or step_base |w| if |w| is below 0.002. Then the weights are divided by the sum of their absolute
values. Passes end when no weight but one improves the metric, or after a pass if the metric has increased by
less than `tolerance` since the beginning. Restarts differ in the order of the features; the best is kept.

The dialect `ranklib` repeats three errors of RankLib. For a small weight the second direction is the first
again, because the sign of d is lost. In the third direction RankLib computes the metric of the scores before
the weight became 0. If all directions fail, it then adds w x to the scores once more, so that the metric is
no longer that of the weights.

Shapes: D documents, C columns of features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import Scores, Values

_FIRST_STEP = 0.001

Measure = Callable[[Scores], float]
"""(D,) scores -> metric; NaN if no query counts."""
Order = Callable[[], NDArray[np.int64]]
"""Returns the (C,) columns in the order of the next pass."""


class AscentSettings(NamedTuple):
    """Settings of coordinate ascent, described at `ltrbench.rankers.linear.LinearRanker`."""

    restarts: int
    iterations: int
    step_base: float
    step_scale: float
    tolerance: float
    slack: float
    dialect: str


def coordinate_ascent(
    columns: NDArray[np.float64],
    measure: Measure,
    settings: AscentSettings,
    order: Order,
    is_nonnegative: NDArray[np.bool_],
    choose: Callable[[Values], float] | None = None,
) -> Values:
    """Returns the (C,) weights of the best restart.

    Args:
        columns: (C, D).
        measure: computes the training metric.
        is_nonnegative: (C,), whether a weight must not be below 0.
        choose: value of weights that decides between the restarts; None: the training metric.
    """
    best: tuple[Values, float] | None = None
    for _ in range(settings.restarts):
        weights, value = _Ascent(columns, measure, settings, is_nonnegative).run(order)
        value = value if choose is None else choose(weights)
        if best is None or value > best[1]:
            best = weights, value
    assert best is not None  # there is a restart
    return best[0]


def weighted_sum(weights: Values, columns: NDArray[np.float64]) -> Scores:
    """Returns the (D,) scores, summed over the columns in their order: the same bits for every batch."""
    scores = np.zeros(columns.shape[1])
    for weight, column in zip(weights, columns, strict=True):
        scores += weight * column
    return scores


class _Ascent:
    """One restart: the weights, their scores, and the highest metric so far."""

    def __init__(
        self,
        columns: NDArray[np.float64],
        measure: Measure,
        settings: AscentSettings,
        is_nonnegative: NDArray[np.bool_],
    ) -> None:
        self.columns, self.measure, self.settings = columns, measure, settings
        self.is_nonnegative, self.is_ranklib = is_nonnegative, settings.dialect == "ranklib"
        # In float32 as in RankLib.
        self.weights = np.full(len(columns), np.float32(1) / np.float32(len(columns)), dtype=np.float64)
        self.scores = weighted_sum(self.weights, columns)
        self.best = measure(self.scores)

    def run(self, order: Order) -> tuple[Values, float]:
        start, num_failed = self.best, 0
        while num_failed < max(len(self.weights) - 1, 1):
            for column in order():
                num_failed = 0 if self._improves(int(column)) else num_failed + 1
            if self.best - start < self.settings.tolerance:
                break
        return self.weights, self.best

    def _improves(self, column: int) -> bool:
        """Changes a weight to the best of the values tried; returns whether one was better."""
        weight, x = self.weights[column], self.columns[column]
        for direction in (1, -1, 0):
            kept = None
            for step in self._steps(float(weight), direction):
                # RankLib's third direction does not move the scores.
                moved = 0.0 if self.is_ranklib and direction == 0 else step
                if not self._is_allowed(column, weight + step):
                    continue
                value = self.measure(self.scores + moved * x) - self._penalty(column, weight + step)
                if value > self.best:
                    self.best, kept = value, (step, moved)
            if kept is not None:
                self.weights[column] = weight + kept[0]
                size = np.abs(self.weights).sum()
                self.weights /= size
                self.scores = (self.scores + kept[1] * x) / size
                return True
        if self.is_ranklib:
            self.scores = self.scores + weight * x
        return False

    def _steps(self, weight: float, direction: int) -> Values:
        if direction == 0:
            return np.array([-weight])
        step = _FIRST_STEP * direction
        if weight and abs(step) > 0.5 * abs(weight):
            step = self.settings.step_base * abs(weight) * (1 if self.is_ranklib else direction)
        return np.cumsum(step * self.settings.step_scale ** np.arange(self.settings.iterations))

    def _is_allowed(self, column: int, weight: float) -> bool:
        others = np.abs(self.weights).sum() - abs(self.weights[column])
        is_signed = weight < 0 and self.is_nonnegative[column]
        return not is_signed and others + abs(weight) > 0

    def _penalty(self, column: int, weight: float) -> float:
        """Returns slack times the distance of the normalised weights from equal weights."""
        if not self.settings.slack:
            return 0.0
        weights = self.weights.copy()
        weights[column] = weight
        distances = weights / np.abs(weights).sum() - 1.0 / len(weights)
        return self.settings.slack * float(np.sqrt(np.square(distances).sum()))
