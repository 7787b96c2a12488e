"""One representation of trees for all backends.

The score of a document x is, with leaf_t(x) the value of its leaf in tree t,

    base_score + sum over t of weight_t leaf_t(x)

An adapter's `trees` translates its library's model; tests/rankers/test_conformance.py compares the sum with
`predict`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Leaf:
    """A leaf, with its value before it is multiplied by the tree's weight."""

    value: float


@dataclass(frozen=True)
class InnerNode:
    """A split on one feature.

    Attributes:
        feature: index of the feature, from 0.
        threshold: largest value that goes left; a finite float32, like the features.
        missing_left: whether a missing value goes left.
    """

    feature: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node


Node = Leaf | InnerNode


@dataclass(frozen=True)
class WeightedTree:
    """A tree with the factor on its leaf values: the learning rate in most models."""

    weight: float
    root: Node


@dataclass(frozen=True)
class Ensemble:
    """The trees in the order of training, and the initial score of all documents."""

    trees: tuple[WeightedTree, ...]
    base_score: float = 0.0


def threshold_at_most(bound: float) -> float:
    """Returns the largest finite float32 that is not above a bound: the same split of float32 values.

    >>> threshold_at_most(0.1) <= 0.1 < threshold_at_most(0.1) + 1e-8
    True
    >>> threshold_at_most(1e300)
    3.4028234663852886e+38
    """
    with np.errstate(over="ignore"):
        rounded = np.float32(bound)
    if float(rounded) > bound:
        rounded = np.nextafter(rounded, np.float32(-np.inf))
    return float(min(rounded, _LARGEST))


def threshold_below(bound: float) -> float:
    """Returns the largest float32 below a float32 bound, for splits where values equal to the bound go
    right."""
    return float(np.nextafter(np.float32(bound), np.float32(-np.inf)))
