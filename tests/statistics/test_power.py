"""Detectable differences and needed queries: against scipy's noncentral t, and each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ltrbench.errors import ConfigError
from ltrbench.statistics import minimum_detectable_difference, queries_needed


@pytest.mark.parametrize(("num_queries", "power"), [(3, 0.8), (20, 0.8), (150, 0.9), (30_000, 0.5)])
def test_the_t_test_finds_the_detectable_difference_with_that_power(num_queries: int, power: float) -> None:
    difference = minimum_detectable_difference(0.2, num_queries, power)
    assert difference is not None
    degrees, noncentrality = num_queries - 1, difference * num_queries**0.5 / 0.2
    assert stats.nct.sf(stats.t.ppf(0.975, degrees), degrees, noncentrality) == pytest.approx(power, abs=1e-6)


def test_among_many_queries_it_is_the_normal_formula() -> None:
    normal = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert minimum_detectable_difference(1.0, 1_000_000) == pytest.approx(normal / 1000, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 1), st.floats(0.001, 1))
def test_the_queries_needed_are_the_fewest_that_detect_the_difference(sd: float, difference: float) -> None:
    needed = queries_needed(sd, difference)
    assert needed is not None
    enough = minimum_detectable_difference(sd, needed)
    assert enough is not None
    assert enough <= difference
    fewer = minimum_detectable_difference(sd, needed - 1)
    assert fewer is None or fewer > difference


def test_without_spread_two_queries_do_and_under_two_nothing_is_detectable() -> None:
    assert queries_needed(0.0, 0.005) == 2
    assert minimum_detectable_difference(0.2, 1) is None
    assert queries_needed(1.0, 1e-9) is None


def test_the_sign_of_the_difference_does_not_matter() -> None:
    assert queries_needed(0.2, -0.01) == queries_needed(0.2, 0.01)


def test_what_no_power_can_be_had_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="such as"):
        queries_needed(0.2, 0.0)
    with pytest.raises(ConfigError, match="power"):
        minimum_detectable_difference(0.2, 100, power=1.0)
    with pytest.raises(ConfigError, match="no data are needed"):
        minimum_detectable_difference(0.2, 100, power=0.05)
    with pytest.raises(ConfigError, match="standard deviation"):
        minimum_detectable_difference(-0.2, 100)
