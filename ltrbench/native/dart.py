"""DART: each tree is fitted with some earlier trees dropped, and all of them are rescaled afterwards.

Vinayak and Gilad-Bachrach, 2015, "DART: Dropouts meet Multiple Additive Regression Trees". In plain boosting
the first trees determine most of the ranking, and later trees correct a few documents. Before each iteration,
DART drops k random trees and computes the lambdas from the scores of the remaining trees. It then rescales
the new tree and the dropped trees so that their sum does not overshoot. With the learning rate eta:

    drop_normalize  new tree's weight  factor of dropped weights  source
    mean            eta / (k + 1)      k / (k + 1)                paper, algorithm 1 (eta = 1); LightGBM
    tree            eta / (k + eta)    k / (k + eta)              XGBoost, normalize_type=tree
    forest          eta / (1 + eta)    1 / (1 + eta)              XGBoost, normalize_type=forest

If no tree is dropped, the weight is eta. If the new tree predicts exactly what the dropped trees predicted,
the scores do not change. drop_rate=1 is close to a random forest; drop_rate=0 is plain boosting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.native.settings import setting

Weights = NDArray[np.float64]  # (T,), factor of each tree's values


class Rescaling(NamedTuple):
    """Weights after an iteration.

    Attributes:
        new: weight of the new tree.
        factor: factor of the weights of the dropped trees.
    """

    new: float
    factor: float


def _mean(num_dropped: int, learning_rate: float) -> Rescaling:
    return Rescaling(learning_rate / (num_dropped + 1), num_dropped / (num_dropped + 1))


def _tree(num_dropped: int, learning_rate: float) -> Rescaling:
    return Rescaling(
        learning_rate / (num_dropped + learning_rate), num_dropped / (num_dropped + learning_rate)
    )


def _forest(num_dropped: int, learning_rate: float) -> Rescaling:
    return Rescaling(learning_rate / (1.0 + learning_rate), 1.0 / (1.0 + learning_rate))


NORMALIZATIONS: dict[str, Callable[[int, float], Rescaling]] = {
    "mean": _mean,
    "tree": _tree,
    "forest": _forest,
}


@dataclass(kw_only=True)
class DartSettings:
    """Settings of DART."""

    drop_rate: float = setting(0.0, at_least=0, at_most=1)
    """DART: probability that an earlier tree is dropped while a new tree is fitted; 0: no DART."""
    skip_drop: float = setting(0.0, at_least=0, at_most=1)
    """DART: probability that an iteration drops no tree (LightGBM's default: 0.5)."""
    max_drop: int = setting(0, at_least=0)
    """DART: maximum number of dropped trees per iteration; 0: no limit (LightGBM's default: 50)."""
    drop_by_weight: bool = setting(False)
    """DART: the drop probability of a tree is proportional to its weight, with drop_rate as the mean
    (LightGBM's default; XGBoost's sample_type=weighted)."""
    drop_normalize: str = setting("tree", choices=tuple(NORMALIZATIONS))
    """DART: rescaling of the new tree and the dropped trees: tree or forest (XGBoost), mean (LightGBM)."""


def rescale(num_dropped: int, learning_rate: float, normalize: str) -> Rescaling:
    """Returns the weight of a new tree and the factor of the dropped trees' weights; see the table above.
    >>> rescale(3, 1.0, "mean")
    Rescaling(new=0.25, factor=0.75)
    >>> rescale(0, 0.1, "mean")
    Rescaling(new=0.1, factor=1.0)
    """
    if num_dropped == 0:
        return Rescaling(learning_rate, 1.0)
    return NORMALIZATIONS[normalize](num_dropped, learning_rate)


def choose_dropped(weights: Weights, settings: DartSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns the trees to drop, ascending, given the (T,) weights of all trees so far.

    As in LightGBM, the probabilities are reduced if the expected number of dropped trees exceeds `max_drop`.
    If more are drawn nevertheless, a random `max_drop` of them are dropped; LightGBM drops the earliest.
    """
    if settings.drop_rate == 0 or len(weights) == 0 or rng.random() < settings.skip_drop:
        return np.empty(0, dtype=np.int64)
    chances = np.full(len(weights), settings.drop_rate)
    if settings.drop_by_weight:
        chances *= weights / weights.mean()
    if settings.max_drop:
        chances *= min(1.0, settings.max_drop / chances.sum())
    dropped = np.flatnonzero(rng.random(len(weights)) < chances)
    if settings.max_drop and len(dropped) > settings.max_drop:
        dropped = np.sort(rng.choice(dropped, settings.max_drop, replace=False))
    return dropped
