from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.native.goss import GossSettings, one_side_sample

RNG = np.random.default_rng(0)
GRADIENTS, HESSIANS = RNG.normal(size=1000), RNG.uniform(0.1, 1.0, size=1000)
SETTINGS = GossSettings(top_rate=0.2, other_rate=0.1)


def test_the_largest_are_kept_as_they_are_and_the_drawn_amplified() -> None:
    rows, factors = one_side_sample(GRADIENTS, HESSIANS, SETTINGS, np.random.default_rng(1))
    largest = np.argsort(-np.abs(GRADIENTS * HESSIANS))[:200]
    drawn = np.setdiff1d(rows, largest)
    assert len(rows) == 200 + 100
    assert np.isin(largest, rows).all()
    assert (factors[largest] == 1.0).all()
    assert (factors[drawn] == (1 - 0.2) / 0.1).all()


def test_sums_over_the_sample_are_in_the_mean_those_over_all() -> None:
    rng = np.random.default_rng(2)
    sums = []
    for _ in range(400):
        rows, factors = one_side_sample(GRADIENTS, HESSIANS, SETTINGS, rng)
        sums.append([(factors * values)[rows].sum() for values in (GRADIENTS, HESSIANS)])
    mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(mean - [GRADIENTS.sum(), HESSIANS.sum()]) < 4 * error).all()


@given(
    sizes=st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=40),
    top_rate=st.floats(0.01, 0.99),
    other_rate=st.floats(0.01, 0.99),
)
def test_of_equal_gradients_no_more_are_taken_than_asked_for(
    sizes: list[float], top_rate: float, other_rate: float
) -> None:
    g = np.array(sizes)
    settings = GossSettings(top_rate, other_rate)
    rows, _ = one_side_sample(g, np.ones(len(g)), settings, np.random.default_rng(0))
    num_top = max(1, int(top_rate * len(g)))
    assert len(rows) == min(len(g), num_top + max(1, int(other_rate * len(g))))
    # No document that was left out is larger than the smallest of those kept for their size.
    left_out = np.setdiff1d(np.arange(len(g)), rows)
    assert (g[left_out] <= np.sort(g)[len(g) - num_top]).all()
    assert (np.diff(rows.astype(np.int64)) > 0).all()
