# mypy: strict-optional=False
"""Risk on single queries, and statistics of a search: loops over the papers' formulas."""

from __future__ import annotations

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from paired_samples import ndcg_like
from scipy.stats import norm, sem

from ltrbench.statistics import PairedSample
from ltrbench.statistics.claims import expected_best, geo_risk, risks, winner_intervals
from ltrbench.statistics.paired import excludes

ALPHAS = (0, 1, 5)


def u_risk_by_loop(
    values: NDArray[np.float64], base: NDArray[np.float64], alpha: float
) -> float:
    """Returns (1 / Q) (sum of wins - (1 + alpha) sum of losses)."""
    wins = sum(x - b for x, b in zip(values, base, strict=True) if x > b)
    losses = sum(b - x for x, b in zip(values, base, strict=True) if x < b)
    return float(wins - (1 + alpha) * losses) / len(values)


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
    expected = [u_risk_by_loop(row, values[2], alpha) for row in values]
    found = [risk.u_risk for risk in risks(PairedSample.of(values), 2, alpha)]
    assert found[2] is None
    assert [value or 0.0 for value in found] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_geo_risk_is_the_loop_over_expected_values(alpha: float) -> None:
    values = ndcg_like(4, 50) + 0.01  # no expected value is 0
    expected = [geo_risk_by_loop(values, i, alpha) for i in range(len(values))]
    assert geo_risk(PairedSample.of(values), alpha) == pytest.approx(expected)


def test_t_risk_is_u_risk_in_standard_errors_of_the_weighted_gains() -> None:
    a, b = ndcg_like(2, 50)
    gains = np.where(a < b, 6 * (a - b), a - b)
    found, of_baseline = risks(PairedSample.of(np.array([a, b])), 1, alpha=5)
    assert found.t_risk == pytest.approx(gains.mean() / sem(gains))
    assert of_baseline.t_risk is None


def test_a_query_of_twice_the_weight_counts_as_two_queries() -> None:
    values = ndcg_like(3, 20) + 0.01
    repeats = np.array([1, 2] * 10)
    weighted = PairedSample.of(values, repeats.astype(np.float64))
    repeated = PairedSample.of(np.repeat(values, repeats, axis=1))
    for alpha in ALPHAS:
        for one, other in zip(
            risks(weighted, 0, alpha), risks(repeated, 0, alpha), strict=True
        ):
            assert (one.u_risk or 0) == pytest.approx(other.u_risk or 0)
            assert one.geo_risk == pytest.approx(other.geo_risk)


NUM_SETTINGS = 8


def equal_settings(seed: int, num_queries: int = 300) -> PairedSample:
    """Settings without a true difference, on queries whose difficulty they share."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=num_queries) + rng.exponential(
        size=(NUM_SETTINGS, num_queries)
    )
    return PairedSample.of(values, strata=np.arange(num_queries) % 2)


@pytest.mark.slow
def test_equal_settings_cannot_be_told_apart_from_the_winner_in_95_percent_of_searches() -> (
    None
):
    num_samples = 80
    samples = [equal_settings(seed) for seed in range(num_samples)]
    told_apart = [
        any(map(excludes, winner_intervals(sample, int(np.argmax(sample.means)), 600)))
        for sample in samples
    ]
    error = np.sqrt(0.95 * 0.05 / num_samples)
    assert 1 - np.mean(told_apart) == pytest.approx(0.95, abs=3 * error)


def test_worse_settings_are_told_apart_and_the_intervals_hold_the_differences() -> None:
    sample = equal_settings(1)
    values = sample.values.copy()
    values[3] -= 5
    shifted = PairedSample.of(values, strata=sample.strata)
    winner = int(np.argmax(shifted.means))
    intervals = [
        interval
        for interval in winner_intervals(shifted, winner)
        if interval is not None
    ]
    assert [row for row, interval in enumerate(intervals) if excludes(interval)] == [3]
    centres = [(interval.low + interval.high) / 2 for interval in intervals]
    assert centres == pytest.approx(
        (shifted.means - shifted.means[winner]).tolist(), abs=1e-12
    )
    assert (intervals[winner].low, intervals[winner].high) == (0, 0)


@pytest.mark.parametrize("num_values", [1, 2, 5, 8])
def test_the_expected_best_is_the_mean_maximum_over_all_subsets(
    num_values: int,
) -> None:
    values = (
        np.random.default_rng(num_values).integers(0, 5, num_values).astype(np.float64)
    )
    subsets = [
        np.mean([max(subset) for subset in combinations(values.tolist(), size)])
        for size in range(1, num_values + 1)
    ]
    assert expected_best(values) == pytest.approx(np.array(subsets), rel=1e-12)
