"""Trees and numbers of formats that have float32 only. N nodes of a tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
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
#
# RankLib and Solr read each number with `Float.parseFloat`, which rounds the decimal number once.

LONGEST_NUMBER: Final = 100
"""Maximum length of a number's text; a float32 needs 16 characters at the most."""

_DECIMAL = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)[fFdD]?", re.ASCII)
_SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "+Infinity": np.inf, "-Infinity": -np.inf}
_VISIBLE = "".join(map(chr, range(33)))
"""What Java's `trim` removes: blanks and control characters."""
_SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
_DROPPED_BITS, _HALF = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
"""Bits of a float64 that float32 does not have, and their value halfway between two float32."""


def parse_float32(texts: Sequence[str]) -> NDArray[np.float32]:
    """Returns the numbers that Java's `Float.parseFloat` returns, except for hexadecimal ones.

    Raises:
        ValueError: A text is not a decimal number, or is longer than `LONGEST_NUMBER`.

    >>> parse_float32([" 0.1 ", "1e39", "-Infinity", "2f"])
    array([ 0.1,  inf, -inf,  2. ], dtype=float32)
    """
    doubles = np.array([_double(text) for text in texts], dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded = doubles.astype(np.float32)
    is_halfway = doubles.view(np.uint64) & _DROPPED_BITS == _HALF
    is_subnormal = (np.abs(doubles) < _SMALLEST_NORMAL) & (doubles != 0)
    for place in np.flatnonzero((is_halfway | is_subnormal) & np.isfinite(doubles)).tolist():
        rounded[place] = _nearest(texts[place], rounded[place])
    return rounded


def trimmed(text: str) -> str:
    """Returns the text without blanks and control characters at its ends, as Java's `trim`."""
    return text.strip(_VISIBLE)


def _double(text: str) -> float:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text):,} characters is longer than {LONGEST_NUMBER}")
    number = trimmed(text)
    if number in _SPECIAL:
        return _SPECIAL[number]
    match = _DECIMAL.fullmatch(number)
    if not match:
        raise ValueError(f"{text!r} is not a number")
    return float(match[1])


def _nearest(text: str, close: np.float32) -> np.float32:
    """Returns the float32 that is nearest to a decimal number, of two the even one."""
    match = _DECIMAL.fullmatch(trimmed(text))
    exact = Fraction(match[1] if match else text)
    infinity = np.float32(np.inf)
    neighbours = [np.nextafter(close, -infinity), close, np.nextafter(close, infinity)]

    def distance(candidate: np.float32) -> tuple[Fraction, int]:
        value = Fraction(float(candidate)) if np.isfinite(candidate) else _overflow(candidate)
        return abs(value - exact), int(candidate.view(np.uint32)) & 1

    return min(neighbours, key=distance)


def _overflow(infinity: np.float32) -> Fraction:
    """Returns the number that rounding takes infinity for: the one after the largest float32."""
    return Fraction(2) ** 128 * int(np.sign(infinity))
