"""Risk on single queries: comparison with loops over the papers' formulas, tiny cases, degenerate input."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from paired_samples import folded, ndcg_like
from scipy.stats import norm, sem

from ltrbench.statistics import PairedSample, geo_risk, risks, t_risk, u_risk
from ltrbench.statistics.risk import NEGATIVE, NO_SPREAD

ALPHAS = (0, 1, 5)


def u_risk_by_loop(own: NDArray[np.float64], base: NDArray[np.float64], alpha: float) -> float:
    """Returns (1 / Q) (sum of wins - (1 + alpha) sum of losses)."""
    wins = sum(x - b for x, b in zip(own, base, strict=True) if x > b)
    losses = sum(b - x for x, b in zip(own, base, strict=True) if x < b)
    return float(wins - (1 + alpha) * losses) / len(own)


def geo_risk_by_loop(values: NDArray[np.float64], i: int, alpha: float) -> float:
    """Returns sqrt(S_i / Q Phi(ZRisk_i / Q)), with e_iq = S_i T_q / N."""
    num_queries, total = values.shape[1], values.sum()
    z_risk = 0.0
    for q in range(num_queries):
        expected = values[i].sum() * values[:, q].sum() / total
        z = (values[i, q] - expected) / sqrt(expected)
        z_risk += z if z > 0 else (1 + alpha) * z
    return sqrt(values[i].sum() / num_queries * norm.cdf(z_risk / num_queries))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_u_risk_is_wins_minus_losses_times_one_plus_alpha(alpha: float) -> None:
    values = ndcg_like(4, 50)
    expected = [u_risk_by_loop(own, values[2], alpha) for own in values]
    assert u_risk(PairedSample.of(values), 2, alpha) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_geo_risk_is_the_loop_over_expected_values(alpha: float) -> None:
    values = ndcg_like(4, 50) + 0.01  # no expected value is 0
    expected = [geo_risk_by_loop(values, i, alpha) for i in range(len(values))]
    assert geo_risk(PairedSample.of(values), alpha) == pytest.approx(expected)


def test_t_risk_is_u_risk_in_standard_errors_of_the_weighted_gains() -> None:
    a, b = ndcg_like(2, 50)
    gains = np.where(a < b, 6 * (a - b), a - b)
    (found, of_baseline) = t_risk(PairedSample.of(np.array([a, b])), 1, alpha=5)
    assert found == pytest.approx(gains.mean() / sem(gains))
    assert of_baseline is None


def test_a_hand_computed_case() -> None:
    # S = (1, 1), T = (0.5, 1.5), N = 2: every expected value is T_q / 2.
    sample = PairedSample.of(np.array([[0.0, 1.0], [0.5, 0.5]]))
    first, second = (-0.25 / sqrt(0.25), 0.25 / sqrt(0.75)), (0.25 / sqrt(0.25), -0.25 / sqrt(0.75))
    z_risks = (2 * first[0] + first[1], second[0] + 2 * second[1])
    expected = [sqrt(0.5 * norm.cdf(z_risk / 2)) for z_risk in z_risks]
    assert geo_risk(sample, alpha=1) == pytest.approx(expected)
    assert u_risk(sample, 1, alpha=1) == [(0.5 - 2 * 0.5) / 2, 0]


def test_alpha_0_is_the_mean_difference() -> None:
    sample = folded(3, 60, 4)
    assert u_risk(sample, 0, alpha=0) == pytest.approx(sample.means - sample.means[0])


def test_a_query_of_twice_the_weight_counts_as_two_queries() -> None:
    values = ndcg_like(3, 20) + 0.01
    repeats = np.array([1, 2] * 10)
    weighted = PairedSample.of(values, repeats.astype(np.float64))
    repeated = PairedSample.of(np.repeat(values, repeats, axis=1))
    for alpha in ALPHAS:
        assert u_risk(weighted, 0, alpha) == pytest.approx(u_risk(repeated, 0, alpha))
        assert geo_risk(weighted, alpha) == pytest.approx(geo_risk(repeated, alpha))


def test_the_larger_alpha_is_the_lower_is_the_risk_adjusted_value() -> None:
    sample = folded(3, 60, 4)
    for low, high in ((0, 1), (1, 5)):
        assert (np.array(u_risk(sample, 0, low)) >= u_risk(sample, 0, high)).all()
        assert (np.array(geo_risk(sample, low)) > np.array(geo_risk(sample, high))).all()


def test_queries_and_systems_of_zeros_have_a_geo_risk() -> None:
    values = np.array([[0.0, 0.5, 0.25], [0.0, 0.25, 0.5], [0.0, 0.0, 0.0]])
    found = geo_risk(PairedSample.of(values), alpha=1)
    # A query with zeros only has no deviation but counts in Q; a system with zeros only has the mean 0.
    assert found is not None
    assert found[0] == pytest.approx(found[1])
    assert found[2] == 0
    assert geo_risk(PairedSample.of(np.zeros((2, 3))), alpha=1) == [0, 0]


def test_one_system_alone_is_as_expected() -> None:
    values = ndcg_like(1, 20)
    assert geo_risk(PairedSample.of(values), alpha=5) == pytest.approx([sqrt(values.mean() / 2)], abs=1e-9)


def test_a_value_that_is_not_available_has_a_reason() -> None:
    same, other = [0.5, 0.25, 0.75], [0.25, 0.5, 1.0]
    identical, worse, base = risks(PairedSample.of(np.array([same, other, same])), 2, alpha=1)
    assert (identical.u_risk, identical.t_risk, identical.note) == (0, None, NO_SPREAD)
    assert worse.t_risk is not None
    assert worse.note == ""
    assert (base.u_risk, base.t_risk, base.note) == (None, None, "")
    sample = PairedSample.of(np.array([[-0.5, 0.5], [0.5, 0.25]]))
    assert geo_risk(sample, alpha=1) is None
    assert [item.note for item in risks(sample, 1, alpha=1)] == [NEGATIVE, NEGATIVE]
    one_query = risks(PairedSample.of(np.array([[0.5], [0.25]])), 1, alpha=1)[0]
    assert (one_query.u_risk, one_query.t_risk, one_query.note) == (0.25, None, "one query only")


def test_without_a_baseline_there_is_geo_risk_alone() -> None:
    sample = folded(3, 60, 4)
    with_baseline = risks(sample, 0, alpha=1)
    assert risks(sample, None, alpha=1) == [
        replace(item, u_risk=None, t_risk=None, note="") for item in with_baseline
    ]
