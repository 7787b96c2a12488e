from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.forest import above, blend, lowest, reference_above, reference_blend, reference_lowest

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


@MAY_COMPILE
@given(words=arrays(np.uint64, 24), is_second=st.integers(0, 2**64 - 1))
def test_each_bit_is_chosen_from_one_of_two_groups_of_words(
    words: NDArray[np.uint64], is_second: int
) -> None:
    chosen, expected = words.copy(), words.copy()
    places, mask = (np.uint64(8), np.uint64(0), np.uint64(16)), np.uint64(is_second)
    blend(chosen, *places, mask)
    reference_blend(expected, *places, mask)
    np.testing.assert_array_equal(chosen, expected)
    bits = np.unpackbits(np.stack([words[:8], words[16:], chosen[8:16]]).view(np.uint8), axis=1)
    of_mask = np.unpackbits(np.full(8, mask).view(np.uint8))
    np.testing.assert_array_equal(bits[2], np.where(of_mask == 1, bits[1], bits[0]))
