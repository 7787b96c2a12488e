"""Adjusted p-values: comparison with scipy, a published example, and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ltrbench.statistics import benjamini_hochberg, holm

P_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@settings(max_examples=50)
@given(P_VALUES)
def test_benjamini_and_hochberg_is_scipys(p_values: list[float | None]) -> None:
    given_ones = known(p_values)
    expected = stats.false_discovery_control(given_ones) if given_ones else []
    assert known(benjamini_hochberg(p_values)) == pytest.approx(list(expected))


@settings(max_examples=50)
@given(P_VALUES)
def test_holm_rejects_what_its_steps_reject(p_values: list[float | None]) -> None:
    adjusted = holm(p_values)
    given_ones = np.sort(known(p_values))
    for level in (0.01, 0.05, 0.5):
        # Step down from the smallest of m, against level / m, level / (m - 1), ..., to the first that fails.
        passes = given_ones * (len(given_ones) - np.arange(len(given_ones))) <= level
        rejected = len(passes) if passes.all() else int(np.argmin(passes))
        assert sum(value <= level for value in known(adjusted)) == rejected


def test_holms_example_of_demsar_2006_section_3_2_2_rejects_the_first_two() -> None:
    adjusted = holm([0.607, 0.016, 0.019])
    assert adjusted == pytest.approx([0.607, 3 * 0.016, 3 * 0.016])


@settings(max_examples=50)
@given(P_VALUES)
def test_unknown_p_values_stay_so_and_no_p_value_falls(p_values: list[float | None]) -> None:
    for adjusted in (holm(p_values), benjamini_hochberg(p_values)):
        for before, after in zip(p_values, adjusted, strict=True):
            assert (before is None) == (after is None)
            assert before is None or after is None or before <= after * (1 + 1e-15) <= 1 + 1e-15
