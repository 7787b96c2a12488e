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
no longer that of the weights. RankLib chooses the restart by validation data if it has some.

Shapes: D documents, C columns of features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import Scores, Values

_FIRST_STEP = 0.001


class AscentSettings(NamedTuple):
    """Settings of coordinate ascent, described at `ltrbench.rankers.linear.LinearRanker`."""

    restarts: int
    iterations: int
    step_base: float
    step_scale: float
    tolerance: float
    dialect: str


def coordinate_ascent(
    columns: NDArray[np.float64],
    measure: Callable[[Scores], float],
    settings: AscentSettings,
    order: Callable[[], NDArray[np.int64]],
    is_nonnegative: NDArray[np.bool_],
) -> Values:
    """Returns the (C,) weights of the best restart.

    Args:
        columns: (C, D).
        measure: returns the training metric of (D,) scores; NaN if no query counts.
        order: returns the (C,) columns in the order of the next pass.
        is_nonnegative: (C,), whether a weight must not be below 0.
    """
    restarts = (_ascend(columns, measure, settings, order, is_nonnegative) for _ in range(settings.restarts))
    return max(restarts, key=lambda restart: restart[1])[0]


def _ascend(
    columns: NDArray[np.float64],
    measure: Callable[[Scores], float],
    settings: AscentSettings,
    order: Callable[[], NDArray[np.int64]],
    is_nonnegative: NDArray[np.bool_],
) -> tuple[Values, float]:
    """Returns the weights of one restart, and the training metric that it has computed for them."""
    # In float32 as in RankLib.
    weights = np.full(len(columns), np.float32(1) / np.float32(len(columns)), dtype=np.float64)
    scores = np.einsum("cd,c->d", columns, weights)
    start = best = measure(scores)
    num_failed = 0
    while num_failed < max(len(columns) - 1, 1):
        for column in order():
            weight, x = float(weights[column]), columns[column]
            lowest, others = (0.0 if is_nonnegative[column] else -np.inf), np.abs(weights).sum() - abs(weight)
            num_failed += 1
            for direction in _directions(weight, settings):
                kept = None
                for step, moved in direction:
                    if weight + step < lowest or others + abs(weight + step) == 0:
                        continue
                    value = measure(scores + moved * x)
                    if value > best:
                        best, kept = value, (step, moved)
                if kept is not None:
                    weights[column] = weight + kept[0]
                    size = np.abs(weights).sum()
                    weights, scores, num_failed = weights / size, (scores + kept[1] * x) / size, 0
                    break
            else:
                if settings.dialect == "ranklib":
                    scores = scores + weight * x
        if best - start < settings.tolerance:
            break
    return weights, best


def _directions(weight: float, settings: AscentSettings) -> Iterator[Sequence[tuple[float, float]]]:
    """Yields the changes of a weight in each direction, each with that of its factor in the scores."""
    is_ranklib = settings.dialect == "ranklib"
    for sign in (1, -1):
        step = sign * _FIRST_STEP
        if weight and abs(step) > 0.5 * abs(weight):
            step = settings.step_base * abs(weight) * (1 if is_ranklib else sign)
        steps = np.cumsum(step * settings.step_scale ** np.arange(settings.iterations)).tolist()
        yield list(zip(steps, steps, strict=True))
    yield [(-weight, 0.0 if is_ranklib else -weight)]
