"""DART: each tree is learned as if some of those before it were not there, and shares their place with them.

Vinayak and Gilad-Bachrach, 2015, "DART: Dropouts meet Multiple Additive Regression Trees". In plain boosting
the first trees decide the ranking and late ones mend a few documents. DART drops k trees at random before an
iteration, takes the lambdas of the scores that the others give, and weighs the new tree and the dropped ones
so that together they do not overshoot. With the learning rate eta, by `drop_normalize`:

    name     new tree's weight   dropped trees' times   of
    mean     eta / (k + 1)       k / (k + 1)            the paper, algorithm 1 (eta = 1); LightGBM
    tree     eta / (k + eta)     k / (k + eta)          XGBoost, normalize_type=tree
    forest   eta / (1 + eta)     1 / (1 + eta)          XGBoost, normalize_type=forest

Where none was dropped the weight is eta. A new tree that gives just what the dropped ones gave leaves the sum
as it was. DART with drop_rate 1 is close to a random forest, with 0 it is plain boosting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.native.settings import setting

Weights = NDArray[np.float64]  # (T,), what each tree's values are multiplied by


class Rescaling(NamedTuple):
    """What the weights become.

    Attributes:
        new: the new tree's weight.
        factor: what the dropped trees' weights are multiplied by.
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
    """Which trees are left out."""

    drop_rate: float = setting(0.0, at_least=0, at_most=1)
    """DART: probability that an earlier tree is left out while a tree is learned; 0: no DART."""
    skip_drop: float = setting(0.0, at_least=0, at_most=1)
    """DART: probability that an iteration leaves none out (LightGBM's default: 0.5)."""
    max_drop: int = setting(0, at_least=0)
    """DART: maximum number of trees that are left out; 0: no limit (LightGBM's default: 50)."""
    drop_by_weight: bool = setting(False)
    """DART: the probability that a tree is left out is proportional to its weight, drop_rate in the mean
    (LightGBM's default; XGBoost's sample_type=weighted)."""
    drop_normalize: str = setting("tree", choices=tuple(NORMALIZATIONS))
    """DART: how new and left out trees share their place: tree or forest (XGBoost), mean (LightGBM)."""


def rescale(num_dropped: int, learning_rate: float, normalize: str) -> Rescaling:
    """The weights of a new tree and of those that were dropped for it, as the table says.

    >>> rescale(3, 1.0, "mean")
    Rescaling(new=0.25, factor=0.75)
    >>> rescale(0, 0.1, "mean")
    Rescaling(new=0.1, factor=1.0)
    """
    if num_dropped == 0:
        return Rescaling(learning_rate, 1.0)
    return NORMALIZATIONS[normalize](num_dropped, learning_rate)


def choose_dropped(weights: Weights, settings: DartSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """The trees to drop, rising; weights (T,) are those so far.

    As LightGBM does, the chances are lowered where more than `max_drop` would be dropped in the mean; of yet
    more than that, which of them stay is drawn, where LightGBM drops the earliest.
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
