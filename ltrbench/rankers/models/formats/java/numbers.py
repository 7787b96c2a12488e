"""Numbers in the files of engines in Java.

RankLib and Solr read each number with `Float.parseFloat`, which rounds the decimal number once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
