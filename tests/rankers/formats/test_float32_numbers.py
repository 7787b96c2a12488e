"""Trees and numbers of formats that have float32 only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ensemble_cases import around_thresholds, ensemble_for_java
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.models.trees import flat, float32_texts, float32_trees, leaves_of, parse_float32
from ltrbench.rankers import Ensemble, Leaf, WeightedTree

LARGEST = float(np.finfo(np.float32).max)
float32s = st.floats(width=32, allow_nan=False)


@given(st.lists(float32s, min_size=1))
def test_a_text_is_read_as_the_number_it_was_written_from(numbers: list[float]) -> None:
    values = np.array(numbers, dtype=np.float32)
    texts = float32_texts(values)
    np.testing.assert_array_equal(list(map(parse_float32, texts)), values)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.array(texts, dtype=np.float64).astype(np.float32), values)


@given(float32s.filter(lambda number: abs(number) < LARGEST), st.sampled_from([-1, 0, 1]), st.booleans())
def test_a_decimal_number_is_rounded_once(number: float, side: int, is_far: bool) -> None:
    low = np.float32(number)
    high = np.nextafter(low, np.float32(np.inf))
    middle = (Fraction(float(low)) + Fraction(float(high))) / 2
    numerator, exponent = middle.numerator, middle.denominator.bit_length() - 1
    digits = str(numerator * 5**exponent)  # the middle is digits / 10^exponent
    text = f"{digits}e-{exponent}" if side == 0 else f"{int(digits) * 1000 + side}e-{exponent + 3}"
    is_even = int(low.view(np.uint32)) % 2 == 0
    expected = {-1: low, 0: low if is_even else high, 1: high}[side]
    assert parse_float32(text) == expected


@pytest.mark.parametrize("text", ["", "one", "0x1p3", "1e", ".", "1 2"])
def test_what_is_no_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=naming(repr(text)[:20])):
        parse_float32(text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_float32_values_go_where_they_went(comparison: str, dtype: str) -> None:
    ensemble = ensemble_for_java(comparison=comparison, dtype=dtype)
    features = around_thresholds(ensemble, 3)
    for weighted, tree in zip(ensemble.trees, float32_trees(ensemble, "<="), strict=True):
        expected = leaves_of(flat(weighted.root), features, comparison, dtype)
        np.testing.assert_array_equal(leaves_of(tree, features), expected)


@pytest.mark.parametrize(
    "ensemble",
    [
        Ensemble((WeightedTree(1.0, Leaf(1.0)), WeightedTree(1e30, Leaf(1e10)))),
        Ensemble((WeightedTree(1.0, Leaf(np.inf)),)),
    ],
)
def test_a_leaf_value_beyond_float32_is_refused(ensemble: Ensemble) -> None:
    with pytest.raises(ConfigError, match=naming(f"tree {len(ensemble.trees) - 1}", "float32")):
        list(float32_trees(ensemble, "<="))
