from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.native.boosting import DartSettings, choose_dropped, rescale

SOME = DartSettings(drop_rate=0.3)


def shares(weights: list[float], settings: DartSettings, times: int = 4000) -> np.ndarray:
    """Returns the (T,) share of draws in which each tree is dropped."""
    rng = np.random.default_rng(0)
    counts = np.zeros(len(weights))
    for _ in range(times):
        counts[choose_dropped(np.array(weights), settings, rng)] += 1
    return counts / times


def test_every_tree_has_the_chance_of_the_drop_rate() -> None:
    np.testing.assert_allclose(shares([0.1] * 5, SOME), 0.3, atol=0.03)


def test_by_weight_the_chance_follows_the_weight_and_is_the_drop_rate_in_the_mean() -> None:
    observed = shares([0.1, 0.2, 0.3], replace(SOME, drop_by_weight=True))
    np.testing.assert_allclose(observed, [0.15, 0.3, 0.45], atol=0.03)


def test_where_many_could_be_dropped_the_late_ones_are_dropped_as_often_as_the_early_ones() -> None:
    observed = shares([0.1] * 40, DartSettings(drop_rate=0.9, max_drop=4))
    assert observed[:20].mean() == pytest.approx(observed[20:].mean(), abs=0.01)


@given(num_dropped=st.integers(1, 50), learning_rate=st.floats(0.01, 1.0))
def test_a_new_tree_that_gives_what_the_dropped_ones_gave_changes_no_score(
    num_dropped: int, learning_rate: float
) -> None:
    for normalize in ("tree", "forest"):
        new, factor = rescale(num_dropped, learning_rate, normalize)
        assert new + factor == pytest.approx(1.0)
    # The paper has no learning rate.
    new, factor = rescale(num_dropped, 1.0, "mean")
    assert new + factor == pytest.approx(1.0)
