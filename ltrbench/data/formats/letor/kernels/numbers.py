"""Numbers in LETOR text.

A number is a mantissa of up to 19 digits times a power of ten. Up to 2^53 and 10^22 both are doubles, so that
one operation rounds correctly (Clinger, 1990, "How to Read Floating Point Numbers Accurately"). The double of
any other feature is known within 4 units in the last place. It is accepted if the bounds round to the same
float32: rounding is monotonic, so that the correctly rounded double rounds to this float32 as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.data.formats.letor.kernels.text import (
    DIGIT_ZERO,
    EIGHT,
    FOUR,
    HIGH_BITS,
    LAST_BYTE,
    LOW_BITS,
    MINUS,
    ONE,
    PLUS,
    POINT,
    SEVEN,
    TEN,
    ZERO,
    Position,
    TextBytes,
    eight_bytes,
)

NOWHERE = np.uint64(2**64 - 1)  # instead of the position after a part of the line
_EXPONENT = ord("e")
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
ZERO_DIGITS, _BEYOND_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_TWO_DIGITS, _FOUR_DIGITS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_EIGHT_DIGITS = np.uint64(0xFFFFFFFF)
_INTEGER_POWERS = np.array([10**exponent for exponent in range(9)], dtype=np.uint64)
EIGHT_ZEROS = np.uint64(10**8)
_ROOM_FOR_SEVEN = np.uint64(10**12)  # below it, seven more digits fit into the mantissa
_ROOM = np.uint64(10**18)  # below it, another digit fits into the mantissa
_EXACT = np.uint64(2**53)
_EXACT_EXPONENT = 22
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(309)])
_LARGEST_EXPONENT = 308
# A mantissa has at most 19 digits: below 10^-61, less than half of the smallest float32.
_ZERO_EXPONENT = -80
# Each of the mantissa, the power and their product is off by half a unit, 2^-53; the 20th digit by less.
_ERROR = 2.0**-50


@kernel
def with_many_decimals(text: TextBytes, at: Position, whole: Position) -> tuple[Position, Any]:
    """Returns the position after 8 to 15 decimals, and the value with this whole part."""
    first, _ = leading_digits(text, at)
    second, num_digits = leading_digits(text, at + EIGHT)
    mantissa = whole * EIGHT_ZEROS + first
    if num_digits == EIGHT or mantissa >= _ROOM_FOR_SEVEN:
        return NOWHERE, 0.0
    mantissa = mantissa * _INTEGER_POWERS[num_digits] + second
    if mantissa > _EXACT:
        return NOWHERE, 0.0
    return at + EIGHT + num_digits, np.float64(mantissa) / _POWERS[EIGHT + num_digits]


@kernel
def leading_digits(text: TextBytes, at: Position) -> tuple[Position, Position]:
    """Returns the number that the digits at the beginning of the next eight bytes form, and their number."""
    word = eight_bytes(text, at) ^ ZERO_DIGITS  # the digits become 0 to 9
    others = not_digits(word)
    below = (((others & (~others + ONE)) >> SEVEN) - ONE) & LOW_BITS  # a bit for each byte before them
    num_digits = (below * LOW_BITS) >> LAST_BYTE
    # The digits move to the highest bytes, behind zeros, in two steps because the distance may be 64.
    word = (word << FOUR * (EIGHT - num_digits)) << FOUR * (EIGHT - num_digits)
    return number_of_digits(word), num_digits


@kernel
def not_digits(word: Position) -> Position:
    """Returns the highest bit of each of eight bytes that is above 9."""
    return ((word + _BEYOND_NINE) | word) & HIGH_BITS


@kernel
def number_of_digits(word: Position) -> Position:
    """Returns the number that eight bytes of 0 to 9 form; the first digit is in the lowest bits.

    All bytes are treated at once (Lemire, 2021, "Number Parsing at a Gigabyte per Second", section 4): pairs
    of digits become numbers below 100, pairs of these become numbers below 10^4, and the last two the result.
    """
    word = (word * TEN + (word >> EIGHT)) & _TWO_DIGITS
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & _FOUR_DIGITS
    return (word * np.uint64(10_000) + (word >> np.uint64(32))) & _EIGHT_DIGITS


@kernel
def read_decimal(text: TextBytes, at: Position) -> tuple[Position, Position, int, bool]:
    """Returns the position after a number, its mantissa, decimal exponent, and whether it is negative.

    Digits after the 19th are cut off.
    """
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += ONE
    mantissa, exponent = ZERO, 0
    digit = np.uint64(text[at]) - DIGIT_ZERO
    start = at
    while digit < TEN:
        if mantissa < _ROOM:
            mantissa = mantissa * TEN + digit
        else:
            exponent += 1
        at += ONE
        digit = np.uint64(text[at]) - DIGIT_ZERO
    num_digits = at - start
    if text[at] == POINT:
        at += ONE
        start = at
        digit = np.uint64(text[at]) - DIGIT_ZERO
        while digit < TEN:
            if mantissa < _ROOM:
                mantissa = mantissa * TEN + digit
                exponent -= 1
            at += ONE
            digit = np.uint64(text[at]) - DIGIT_ZERO
        num_digits += at - start
    if num_digits == ZERO:
        return NOWHERE, ZERO, 0, False
    if text[at] | 32 == _EXPONENT:
        at, written = _read_exponent(text, at + ONE)
        exponent += written
    return at, mantissa, exponent, negative


@kernel
def _read_exponent(text: TextBytes, at: Position) -> tuple[Position, int]:
    """Returns the position after an exponent, and its value, capped at 10^9."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += ONE
    start, exponent = at, 0
    while np.uint64(text[at]) - DIGIT_ZERO < TEN:
        exponent = min(10 * exponent + int(text[at]) - 48, 10**9)
        at += ONE
    return NOWHERE if at == start else at, -exponent if negative else exponent


@kernel
def as_double(mantissa: Position, exponent: int) -> float:
    """Returns mantissa * 10^exponent, correctly rounded; NaN if one operation is not enough for that."""
    if mantissa > _EXACT or exponent < -_EXACT_EXPONENT or exponent > _EXACT_EXPONENT:
        return np.nan
    if exponent < 0:
        return float(np.float64(mantissa) / _POWERS[-exponent])
    return float(np.float64(mantissa) * _POWERS[exponent])


@kernel
def as_feature(mantissa: Position, exponent: int) -> float:
    """Returns a double that rounds to the right float32; NaN if that is not certain."""
    value = as_double(mantissa, exponent)
    if not np.isnan(value):
        return value
    if mantissa == ZERO or exponent < _ZERO_EXPONENT:
        return 0.0
    if exponent > _LARGEST_EXPONENT:
        return np.inf
    if exponent < 0:
        value = float(np.float64(mantissa) / _POWERS[-exponent])
    else:
        value = float(np.float64(mantissa) * _POWERS[exponent])
    same = np.float32(value * (1.0 - _ERROR)) == np.float32(value * (1.0 + _ERROR))
    return value if same else np.nan


@kernel
def after_nan(text: TextBytes, at: Position) -> Position:
    """Returns the position after `nan`, with any sign and in any case."""
    if text[at] == MINUS or text[at] == PLUS:
        at += ONE
    for letter in _NAN:
        if text[at] | 32 != letter:  # in lower case
            return NOWHERE
        at += ONE
    return at
