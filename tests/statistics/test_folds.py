"""Tests over folds: a published worked example, the plain t tests, and degenerate input."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from scipy import stats

from ltrbench.errors import ConfigError
from ltrbench.statistics import bayesian_correlated_t, corrected_resampled_t

# Accuracy of naive Bayes minus that of AODE on anneal over ten times ten folds, in units of 0.0001 -> folds:
# the example of Benavoli, Corani, Demsar and Zaffalon (2017), JMLR 18, with what the notebook of its
# repository (BayesianTestsML/tutorial, on the correlated t test) prints for it.
_FOLDS = {
    0: 16, -111: 30, -112: 3, -113: 3, -222: 15, -223: 5, -224: 1, -225: 5, -333: 6, -334: 2, -337: 3,
    -445: 3, -450: 2, -555: 1, -556: 1, -562: 1, -667: 2, -674: 1,
}  # fmt: skip
ANNEAL = np.repeat(list(_FOLDS), list(_FOLDS.values())) / 10_000
PRINTED = (0.9542966354882696, 0.04570306097263277, 3.0353909763469744e-07)

DIFFERENCES = st.lists(st.floats(-0.1, 0.1).map(lambda value: round(value, 4)), min_size=2, max_size=10)


def test_the_bayesian_test_prints_the_probabilities_of_the_authors_notebook() -> None:
    result = bayesian_correlated_t(ANNEAL.tolist(), test_share=1 / 9, rope=0.01)
    assert (result.left, result.within, result.right) == pytest.approx(PRINTED, rel=1e-9)


def test_with_hardly_any_test_queries_the_corrected_test_is_students() -> None:
    result, plain = corrected_resampled_t(ANNEAL.tolist(), 1e-12), stats.ttest_1samp(ANNEAL, 0)
    expected = plain.confidence_interval(0.95)
    assert result.interval is not None
    assert result.p_value == pytest.approx(plain.pvalue)
    assert (result.interval.low, result.interval.high) == pytest.approx((expected.low, expected.high))


def test_the_correction_is_nadeau_and_bengios_factor() -> None:
    folds = [0.01, 0.03, -0.01, 0.02, 0.02]
    result = corrected_resampled_t(folds, test_share=1 / 3)
    error = np.sqrt((1 / 5 + 1 / 3) * np.var(folds, ddof=1))
    assert result.difference == pytest.approx(np.mean(folds))
    assert result.degrees == 4
    assert result.p_value == pytest.approx(2 * stats.t.sf(np.mean(folds) / error, 4))
    assert result.interval is not None
    assert result.interval.high - result.interval.low == pytest.approx(2 * stats.t.ppf(0.975, 4) * error)


@settings(max_examples=50)
@given(DIFFERENCES)
def test_without_a_region_of_equivalence_the_bayesian_probability_is_half_the_p_value(
    folds: list[float],
) -> None:
    posterior, test = bayesian_correlated_t(folds, 0.25, rope=0), corrected_resampled_t(folds, 0.25)
    assert posterior.left is not None
    assert posterior.right is not None
    if test.p_value is not None and test.p_value < 1:
        assert 2 * min(posterior.left, posterior.right) == pytest.approx(test.p_value, abs=1e-9)


@settings(max_examples=50)
@given(DIFFERENCES)
def test_exchanging_the_systems_exchanges_left_and_right(folds: list[float]) -> None:
    one = bayesian_correlated_t(folds, 0.25)
    other = bayesian_correlated_t([-value for value in folds], 0.25)
    assert (one.left, one.within) == pytest.approx((other.right, other.within), abs=1e-9)


def test_folds_that_differ_by_the_same_have_a_difference_and_no_p_value() -> None:
    same, none = corrected_resampled_t([0.02] * 5, 0.25), corrected_resampled_t([0.0] * 5, 0.25)
    assert (same.difference, same.p_value, same.note) == (0.02, None, "the same difference in every fold")
    assert (none.difference, none.p_value, none.note) == (0, 1, "identical")
    for result in (same, none):
        assert result.interval is not None
        assert (result.interval.low, result.interval.high) == (result.difference, result.difference)
    sure, equal = bayesian_correlated_t([0.02] * 5, 0.25), bayesian_correlated_t([0.0] * 5, 0.25)
    assert (sure.left, sure.within, sure.right) == (0, 0, 1)
    assert (equal.left, equal.within, equal.right) == (0, 1, 0)


@pytest.mark.parametrize("folds", [[], [0.01]])
def test_with_fewer_than_two_folds_there_is_no_inference_but_a_reason(folds: list[float]) -> None:
    test, posterior = corrected_resampled_t(folds, 0.25), bayesian_correlated_t(folds, 0.25)
    assert (test.interval, test.p_value, posterior.left) == (None, None, None)
    assert test.note == posterior.note == "fewer than two folds"
    json.dumps([asdict(test), asdict(posterior)], allow_nan=False)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("differences", "one per fold")):
        corrected_resampled_t([0.1, float("nan")], 0.25)
    with pytest.raises(ConfigError, match=naming("test_share is ", "n_test / n_train")):
        corrected_resampled_t([0.1, 0.2], 0.0)
    with pytest.raises(ConfigError, match=naming("rope is ", "0 or more")):
        bayesian_correlated_t([0.1, 0.2], 0.25, rope=-0.1)
