from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.forest import above, lowest, reference_above, reference_lowest

floats = st.floats(width=32) | st.integers(-2, 2).map(np.float32)


@MAY_COMPILE
@given(values=arrays(np.float32, 64, elements=floats), threshold=floats)
def test_a_bit_tells_whose_value_is_above_the_threshold(
    values: NDArray[np.float32], threshold: float
) -> None:
    word = above(values, np.float32(threshold))
    bits = np.unpackbits(np.array([word], dtype=np.uint64).view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(bits, values > np.float32(threshold))
    assert word == reference_above(values, np.float32(threshold))


@MAY_COMPILE
@given(st.integers(0, 63), st.integers(0, 2**64 - 1))
def test_the_lowest_bit_is_the_one_below_which_none_is_set(number: int, higher: int) -> None:
    word = np.uint64((1 << number) | (higher >> number << number))
    assert lowest(word) == reference_lowest(word) == number
