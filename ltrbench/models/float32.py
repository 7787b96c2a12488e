"""Trees and numbers of formats that have float32 only. N nodes of a tree."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    Leaf,
    flat,
    float32_thresholds,
    weighted_values,
    without_zero_missing,
)

ABOVE_FLOAT32: Final = 2.0**128
"""Threshold above every finite float32: as float32 it is infinite, so that infinity goes right."""


def at_most_trees(ensemble: Ensemble, offset: float = 0.0) -> Iterator[FlatTree]:
    """Yields the trees with `<=`, float32 thresholds, and float32 leaf values that contain the weights.

    A base score is a first tree with one leaf, so that a float32 sum has the same rounding as before. An
    offset is a last tree: it may make scores equal, but does not swap them. A float32 value goes where it
    went before, for any comparison and dtype of the ensemble; a threshold may be infinite.

    Raises:
        ConfigError: A leaf value, the base score or the offset is beyond float32, or too many splits count
            zeros as missing.
    """
    if ensemble.base_score or not ensemble.trees:
        yield _one_leaf(ensemble.base_score, "the base score")
    for number, weighted in enumerate(without_zero_missing(ensemble).trees):
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


def smallest_right(thresholds: NDArray[np.float64], comparison: str) -> NDArray[np.float64]:
    """Returns the (N,) float32 above the largest ones that go left, at most `ABOVE_FLOAT32`: thresholds for
    the comparison `<`.

    >>> float(smallest_right(np.array([0.0]), "<=")[0]) == 2.0**-149
    True
    """
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(float32_thresholds(thresholds, comparison), np.float32(np.inf))
    return np.minimum(above.astype(np.float64), ABOVE_FLOAT32)


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


# ---- Trees as nested JSON, written from left to right. N nodes of a tree.


def nested_json(
    is_leaf: Sequence[bool], text_of: Callable[[int, int], str], between: str, end: str = "}"
) -> str:
    """Returns the JSON of a tree; its depth is not limited.

    Args:
        is_leaf: (N,); a node comes before its children, and the left subtree before the right one.
        text_of: node, depth -> the text of a leaf, or of a split up to its left child.
        between: the text between the children of a split.
        end: the text after its right child.

    >>> nested_json([False, True, True], lambda node, depth: "[" if node == 0 else str(node), ", ", "]")
    '[1, 2]'
    """
    parts: list[str] = []
    children_to_come: list[int] = []  # of each split above the node
    for node, ends in enumerate(is_leaf):
        parts.append(text_of(node, len(children_to_come)))
        if not ends:
            children_to_come.append(2)
            continue
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                parts.append(between)
                break
            children_to_come.pop()
            parts.append(end)
    return "".join(parts)


# ---- Numbers in the files of engines in Java.

_strtof = ctypes.CDLL(None).strtof
_strtof.argtypes, _strtof.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_float


def parse_float32(text: str) -> float:
    """Returns a decimal number as Java's `Float.parseFloat` does, which rounds once.

    Raises:
        ValueError: The text is not a number.

    >>> parse_float32(" 0.1 "), parse_float32("1e39"), parse_float32("-Infinity")
    (0.10000000149011612, inf, -inf)
    """
    float(text)  # raises ValueError
    number: float = _strtof(text.encode(), None)
    return number
