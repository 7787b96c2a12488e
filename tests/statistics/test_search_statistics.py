# mypy: strict-optional=False
"""Statistics of a search: the expected best value, and settings that cannot be told apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ltrbench.statistics import PairedSample
from ltrbench.statistics.claims import expected_best, winner_intervals
from ltrbench.statistics.paired import excludes

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
