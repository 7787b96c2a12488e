"""Test of differences over groups of queries: comparison with scipy, its level, and degenerate groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ltrbench.statistics import SMALLEST_GROUP, Group, PairedSample, equal_means

SIZES = (30, 60, 25, 200)


def group(values: NDArray[np.float64], name: str = "", weights: NDArray[np.float64] | None = None) -> Group:
    sample = PairedSample.of(values, weights)
    error = float(sample.standard_errors[0])
    return Group(name, float(sample.means[0]), None if np.isnan(error) else error, sample.num_queries)


def drawn(seed: int, sizes: Sequence[int] = SIZES, shift: float = 0.0) -> list[NDArray[np.float64]]:
    """Returns groups with equal means and different variances; `shift` is added to the last mean."""
    rng = np.random.default_rng(seed)
    groups = [rng.normal(scale=0.1 + 0.1 * place, size=size) for place, size in enumerate(sizes)]
    return [*groups[:-1], groups[-1] + shift]


def alexander_govern(samples: list[NDArray[np.float64]]) -> float:
    result: Any = stats.alexandergovern(*samples)
    return float(result.pvalue)


@pytest.mark.parametrize("seed", range(5))
def test_two_groups_are_compared_by_welchs_t_test(seed: int) -> None:
    samples = drawn(seed, (30, 60))
    expected = stats.ttest_ind(*samples, equal_var=False).pvalue
    assert equal_means([*map(group, samples)]).p_value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_several_groups_are_compared_nearly_as_by_alexander_and_govern(seed: int) -> None:
    samples = drawn(seed, shift=0.1)
    # Two approximations of the same null distribution.
    expected = alexander_govern(samples)
    assert equal_means([*map(group, samples)]).p_value == pytest.approx(expected, rel=0.15, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_several_groups_are_compared_by_scipys_welch_anova(seed: int) -> None:
    samples = drawn(seed)
    try:
        expected = stats.f_oneway(*samples, equal_var=False).pvalue
    except TypeError:
        pytest.skip("this scipy has no Welch ANOVA")
    assert equal_means([*map(group, samples)]).p_value == pytest.approx(expected)


def test_one_true_null_hypothesis_in_twenty_is_rejected() -> None:
    studies = 2000
    p_values = [equal_means([*map(group, drawn(seed))]).p_value for seed in range(studies)]
    rejected = sum(p_value is not None and p_value <= 0.05 for p_value in p_values)
    # Four standard errors of a share.
    assert rejected / studies == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / studies))


def test_a_difference_in_one_group_is_detected() -> None:
    p_value = equal_means([*map(group, drawn(0, shift=0.3))]).p_value
    assert p_value is not None
    assert p_value < 1e-4


def test_weights_count_as_they_do_in_the_means() -> None:
    samples = drawn(0)
    weights = [np.random.default_rng(len(values)).uniform(0.5, 2, len(values)) for values in samples]
    scaled = [group(values, weights=7 * its) for values, its in zip(samples, weights, strict=True)]
    weighted = [group(values, weights=its) for values, its in zip(samples, weights, strict=True)]
    p_value = equal_means(weighted).p_value
    assert equal_means(scaled).p_value == pytest.approx(p_value)
    assert equal_means([*map(group, samples)]).p_value != pytest.approx(p_value)


def test_groups_that_cannot_be_tested_are_left_out_by_name() -> None:
    samples = drawn(0)
    tested = [group(values, f"kind {place}") for place, values in enumerate(samples)]
    others = [
        group(np.array([0.5]), "single"),
        group(np.linspace(0, 1, SMALLEST_GROUP - 1), "small"),
        group(np.full(50, 0.1), "constant"),
        Group("unknown", 0.1, None, 50),
    ]
    result = equal_means([*others, *tested])
    assert (result.p_value, result.num_groups) == (equal_means(tested).p_value, len(tested))
    for reason in ("single (1 query)", f"small ({SMALLEST_GROUP - 1} queries)", "constant (no variance)"):
        assert reason in result.note
    assert "unknown" in result.note


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_fewer_than_two_groups_with_spread_have_a_reason_in_place_of_a_p_value(spread: float) -> None:
    groups = [group(np.zeros(50), "same"), group(spread * np.arange(50.0), "other")]
    result = equal_means(groups)
    assert result.p_value is None
    assert all(part in result.note for part in ("fewer than two", "same (no variance)"))


def test_no_group_has_a_reason() -> None:
    assert equal_means([]).p_value is None
    assert equal_means([]).note
