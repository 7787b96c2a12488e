"""Grid search: every combination, the corners of the space included."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from search_cases import DEFAULT, NUM_TREES, SPACE, run

from ltrbench.errors import ConfigError
from ltrbench.search.base import SearchedModel
from ltrbench.search.grid import FullGrid, spaced_values
from ltrbench.search.space import Range


def test_the_grid_has_every_combination_once_and_the_corners() -> None:
    trials = run(FullGrid(trials=54, levels=3))
    combinations = {tuple(trial.proposal.settings.values()) for trial in trials}
    assert len(trials) == len(combinations) == 3 * 3 * 3 * 2
    ends = [values.values or list(values.bounds) for values in SPACE.values()]
    assert combinations.issuperset(itertools.product(*ends))


@given(low=st.floats(0.001, 100), factor=st.floats(1.01, 1000), number=st.integers(2, 9), log=st.booleans())
def test_values_are_evenly_spaced(low: float, factor: float, number: int, log: bool) -> None:
    values = spaced_values(Range(low, low * factor, log=log), number)
    assert len(values) == number
    assert (values[0], values[-1]) == (low, low * factor)
    for place, value in enumerate(values):
        share = place / (number - 1)
        expected = low * factor**share if log else low * (1 + (factor - 1) * share)
        assert value == pytest.approx(expected, rel=1e-3)


@given(low=st.integers(1, 100), width=st.integers(1, 100), number=st.integers(2, 9), log=st.booleans())
def test_whole_numbers_are_distinct_and_in_the_range(low: int, width: int, number: int, log: bool) -> None:
    values = spaced_values(Range(low, low + width, log=log), number)
    assert all(isinstance(value, int) for value in values)
    assert values == sorted(set(values))  # type: ignore[type-var]  # all are whole numbers
    assert (values[0], values[-1]) == (low, low + width)
    assert len(values) <= number


def test_more_combinations_than_trials_are_refused() -> None:
    remedies = ("search.trials=54", "search.levels", "search.space", "3 num_leaves")
    with pytest.raises(ConfigError, match=naming(54, 53, *remedies)):
        FullGrid(trials=53).propose(SearchedModel(SPACE, DEFAULT, NUM_TREES), [])


def test_with_seconds_the_grid_ends_after_the_time() -> None:
    whole = run(FullGrid(trials=54))
    assert run(FullGrid(trials=1, seconds=9.0)) == whole[:16]
    assert run(FullGrid(trials=1, seconds=1000.0)) == whole


@pytest.mark.parametrize("num_ended", [0, 5, 54])
def test_it_is_continued_from_any_trial(num_ended: int) -> None:
    whole = run(FullGrid(trials=54))
    assert run(FullGrid(trials=54), trials=whole[:num_ended]) == whole


def test_one_level_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("search.levels", 1)):
        FullGrid(levels=1)
