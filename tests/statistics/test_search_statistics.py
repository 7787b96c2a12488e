"""Statistics of a search: intervals to the winner, and the expected best value by number of trials."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.statistics import PairedSample, expected_best, simultaneous_intervals, winner_intervals
from ltrbench.statistics.intervals import Interval, excludes

NUM_SETTINGS = 8


def equal_settings(seed: int, num_queries: int = 300) -> PairedSample:
    """Settings without a true difference, on queries whose difficulty they share."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=num_queries) + rng.exponential(size=(NUM_SETTINGS, num_queries))
    return PairedSample.of(values, strata=np.arange(num_queries) % 2)


def share_without_error(num_samples: int, all_pairs: bool) -> float:
    """Returns how often no interval to the winner excludes 0."""
    kept = 0
    for seed in range(num_samples):
        sample = equal_settings(seed)
        winner = int(np.argmax(sample.means))
        pairs = [(row, winner) for row in range(NUM_SETTINGS) if row != winner]
        intervals = (
            winner_intervals(sample, winner, 600) if all_pairs else simultaneous_intervals(sample, pairs, 600)
        )
        kept += not any(map(excludes, intervals))
    return kept / num_samples


def test_equal_settings_cannot_be_told_apart_from_the_winner_in_95_percent_of_searches() -> None:
    num_samples = 300
    error = np.sqrt(0.95 * 0.05 / num_samples)
    assert share_without_error(num_samples, all_pairs=True) == pytest.approx(0.95, abs=3 * error)


def test_intervals_for_given_pairs_are_too_short_for_a_winner_of_the_same_queries() -> None:
    assert share_without_error(100, all_pairs=False) < 0.9


def test_worse_settings_are_told_apart_and_the_intervals_hold_the_differences() -> None:
    sample = equal_settings(1)
    values = sample.values.copy()
    values[3] -= 5
    shifted = PairedSample.of(values, strata=sample.strata)
    winner = int(np.argmax(shifted.means))
    intervals = [interval for interval in winner_intervals(shifted, winner) if interval is not None]
    assert [row for row, interval in enumerate(intervals) if excludes(interval)] == [3]
    centres = [(interval.low + interval.high) / 2 for interval in intervals]
    assert centres == pytest.approx((shifted.means - shifted.means[winner]).tolist(), abs=1e-12)
    assert (intervals[winner].low, intervals[winner].high) == (0, 0)


def test_the_intervals_are_the_same_bits_with_one_seed_and_contain_those_of_given_pairs() -> None:
    sample = equal_settings(2)
    winner = int(np.argmax(sample.means))
    wide = winner_intervals(sample, winner, seed=4)
    again = winner_intervals(PairedSample.of(sample.values, strata=sample.strata), winner, seed=4)
    assert wide == again
    others = [row for row in range(NUM_SETTINGS) if row != winner]
    narrow = simultaneous_intervals(sample, [(row, winner) for row in others], seed=4)
    for row, interval in zip(others, narrow, strict=True):
        of_all = wide[row]
        assert of_all is not None
        assert interval is not None
        assert of_all.low < interval.low < interval.high < of_all.high


def test_two_settings_have_the_interval_of_their_only_pair() -> None:
    sample = PairedSample.of(equal_settings(3).values[:2])
    first, second = winner_intervals(sample, 1)
    both = simultaneous_intervals(sample, [(0, 1), (1, 0)])
    assert (first, second) == (both[0], Interval(0.0, 0.0, "max-t"))


def test_few_queries_have_bonferroni_intervals_and_one_query_has_none() -> None:
    few = winner_intervals(PairedSample.of(equal_settings(4, 20).values), 0)
    assert {(interval.method, interval.note) for interval in few if interval} == {
        ("bonferroni-t", "few queries")
    }
    assert winner_intervals(PairedSample.of(np.ones((3, 1))), 0) == [None] * 3


def test_a_single_setting_and_equal_values_have_the_interval_0_to_0() -> None:
    sample = equal_settings(5)
    for values in (sample.values[:1], np.repeat(sample.values[:1], 3, axis=0)):
        intervals = winner_intervals(PairedSample.of(values), 0)
        assert intervals == [Interval(0.0, 0.0, "max-t")] * len(values)


@pytest.mark.parametrize("num_values", [1, 2, 5, 8])
def test_the_expected_best_is_the_mean_maximum_over_all_subsets(num_values: int) -> None:
    values = np.random.default_rng(num_values).integers(0, 5, num_values).astype(np.float64)
    subsets = [
        np.mean([max(subset) for subset in combinations(values.tolist(), size)])
        for size in range(1, num_values + 1)
    ]
    assert expected_best(values) == pytest.approx(np.array(subsets), rel=1e-12)


def test_the_expected_best_is_unbiased_and_the_estimate_with_replacement_is_too_low() -> None:
    """Over all samples of four throws of a die with three sides, for the best of three throws."""
    size, sides = 3, [0.0, 1.0, 2.0]
    truth = np.mean([max(throws) for throws in product(sides, repeat=size)])
    samples = [np.array(throws) for throws in product(sides, repeat=4)]
    assert np.mean([expected_best(sample)[size - 1] for sample in samples]) == pytest.approx(truth)

    def with_replacement(sample: NDArray[np.float64]) -> float:
        shares = [((sample <= side).mean() ** size, (sample < side).mean() ** size) for side in sides]
        return sum(side * float(at - below) for side, (at, below) in zip(sides, shares, strict=True))

    assert np.mean([with_replacement(sample) for sample in samples]) < truth - 0.01


def test_the_expected_best_of_many_values_is_finite_and_ends_at_the_maximum() -> None:
    values = np.random.default_rng(0).normal(size=3000)
    expected = expected_best(values)
    assert (np.diff(expected) > -1e-12).all()
    assert expected[0] == pytest.approx(values.mean())
    assert expected[-1] == values.max()
