"""Thresholds rounded down to float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.models.trees import float32_thresholds, threshold_at_most

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("comparison", ["<=", "<"])
@given(threshold=FLOATS | st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float32_goes_where_it_went(comparison: str, threshold: float) -> None:
    (rounded,) = float32_thresholds(np.array([threshold]), comparison)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(threshold)
        around = [near, *(np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)), rounded]
    for value in (*around, np.float32(np.inf), np.float32(-np.inf), np.float32(0), np.float32(-0.0)):
        goes_left = float(value) <= threshold if comparison == "<=" else float(value) < threshold
        assert (value <= rounded) == goes_left


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_float32_bounds_are_those_of_single_thresholds(bounds: list[float]) -> None:
    thresholds = np.array(bounds)
    assert float32_thresholds(thresholds, "<=").tolist() == [threshold_at_most(bound) for bound in bounds]
