"""Trees and numbers of formats that have float32 only. N nodes of a tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.rankers.models.scoring import FlatTree, flat, float32_thresholds, weighted_values
from ltrbench.rankers.models.trees import Ensemble, Leaf


def at_most_trees(ensemble: Ensemble, offset: float = 0.0) -> Iterator[FlatTree]:
    """Yields the trees with `<=`, float32 thresholds, and float32 leaf values that contain the weights.

    A base score is a first tree with one leaf, so that a float32 sum has the same rounding as before. An
    offset is a last tree: it may make scores equal, but does not swap them. A float32 value goes where it
    went before, for any comparison and dtype of the ensemble; a threshold may be infinite.

    Raises:
        ConfigError: A leaf value, the base score or the offset is beyond float32.
    """
    if ensemble.base_score or not ensemble.trees:
        yield _one_leaf(ensemble.base_score, "the base score")
    for number, weighted in enumerate(ensemble.trees):
        tree = flat(weighted.root)
        with np.errstate(over="ignore"):
            bounds = tree.threshold.astype(ensemble.threshold_dtype).astype(np.float64)
        largest_left = float32_thresholds(bounds, ensemble.comparison).astype(np.float64)
        yield tree._replace(
            threshold=np.where(tree.is_leaf, 0.0, largest_left),
            value=float32_leaf_values(tree, weighted.weight, ensemble.score_dtype, number),
        )
    if offset:
        yield _one_leaf(offset, "the offset")


def float32_leaf_values(tree: FlatTree, weight: float, score_dtype: str, number: int) -> NDArray[np.float64]:
    """Returns the (N,) values that the leaves of a tree add to the score, as float32.

    Args:
        score_dtype: dtype in which values are multiplied by the weight.
        number: number of the tree in messages.

    Raises:
        ConfigError: A leaf value is beyond float32.
    """
    with np.errstate(over="ignore"):
        values = weighted_values(tree, weight, score_dtype)
    return rounded_to_float32(values, f"a leaf value of tree {number}")


def rounded_to_float32(values: NDArray[np.floating], name: str) -> NDArray[np.float64]:
    """Returns numbers rounded to float32.

    Args:
        name: what the numbers are, in messages.

    Raises:
        ConfigError: A number is beyond float32.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ConfigError(
            f"{name} is not finite as float32, but the format has float32 numbers only. Train the model "
            "again with labels or weights of a smaller scale."
        )
    return rounded.astype(np.float64)


def float32_texts(values: NDArray[np.floating]) -> list[str]:
    """Returns the shortest decimal numbers that every reader rounds to the same float32.

    Java's parseFloat rounds once, a reader of JSON numbers rounds to float64 first. The two differ for a few
    numbers, which get more digits.

    >>> float32_texts(np.array([0.1, 1e-45, -np.inf], dtype=np.float32))
    ['0.1', '1e-45', '-Infinity']
    """
    rounded = values.astype(np.float32)
    texts: list[str] = rounded.astype(str).tolist()
    with np.errstate(over="ignore"):
        rounded_twice = np.array(texts, dtype=np.float64).astype(np.float32)
    for place in np.flatnonzero(rounded_twice != rounded).tolist():
        texts[place] = repr(float(rounded[place]))
    for place in np.flatnonzero(np.isinf(rounded)).tolist():
        texts[place] = "Infinity" if rounded[place] > 0 else "-Infinity"
    return texts


def _one_leaf(value: float, name: str) -> FlatTree:
    leaf = flat(Leaf(value))
    return leaf._replace(value=rounded_to_float32(leaf.value, name))
