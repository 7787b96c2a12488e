"""A fitted model's trees in one form for every backend that has trees.

With leaf_t(x) the value of the leaf that a document x reaches in tree t, its score is

    base_score + sum over t of weight_t leaf_t(x)

An adapter translates what its library saves, in its `trees`; tests/rankers/test_conformance.py
holds the sum to `predict`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Leaf:
    """A leaf with its value before the tree's weight shrinks it."""

    value: float


@dataclass(frozen=True)
class InnerNode:
    """A node that asks a question of a document.

    Attributes:
        feature: the feature it asks for, from 0.
        threshold: the largest value that goes left; a finite float32, as features are.
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
    """A tree, and what its leaves' values are multiplied by: the learning rate, in most models."""

    weight: float
    root: Node


@dataclass(frozen=True)
class Ensemble:
    """The trees in the order in which they were learned, and the score that all documents start from."""

    trees: tuple[WeightedTree, ...]
    base_score: float = 0.0


def threshold_at_most(bound: float) -> float:
    """The largest finite float32 that is not above a bound: the same cut of float32 values.

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
    """The largest float32 below a float32 bound: where values that equal the bound go right."""
    return float(np.nextafter(np.float32(bound), np.float32(-np.inf)))
