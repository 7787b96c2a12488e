"""Random search and TPE: the same seed gives the same trials, however the search is run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from search_cases import DEFAULT, NUM_TREES, SPACE, quality, run

from ltrbench.errors import ConfigError
from ltrbench.search.base import OVERALL, Proposal, SearchedModel
from ltrbench.search.random import RandomSearch
from ltrbench.search.space import Range
from ltrbench.search.tpe import TpeSearch

SEARCHES = [RandomSearch, TpeSearch]
searches = pytest.mark.parametrize("kind", SEARCHES)
prunings = pytest.mark.parametrize("pruning", [None, "median", "hyperband"])


@searches
def test_the_first_trial_has_the_default_settings_even_outside_the_space(kind: type[RandomSearch]) -> None:
    default = {**DEFAULT, "learning_rate": None}
    first = kind(trials=3).propose(SearchedModel(SPACE, default, NUM_TREES), [])[0]
    assert first == Proposal(0, default)


@searches
@prunings
def test_the_same_seed_gives_the_same_search(kind: type[RandomSearch], pruning: str | None) -> None:
    assert run(kind(trials=20, pruning=pruning)) == run(kind(trials=20, pruning=pruning))


@searches
def test_another_seed_gives_other_trials(kind: type[RandomSearch]) -> None:
    first, second = (run(kind(trials=4, seed=seed)) for seed in (0, 1))
    assert first[0] == second[0]
    pairs = zip(first[1:], second[1:], strict=True)
    assert all(one.proposal.settings != other.proposal.settings for one, other in pairs)


@searches
@prunings
@pytest.mark.parametrize("num_ended", [0, 3, 8, 13])
def test_a_search_is_continued_from_any_trial(
    kind: type[RandomSearch], pruning: str | None, num_ended: int
) -> None:
    whole = run(kind(trials=20, pruning=pruning))
    assert run(kind(trials=20, pruning=pruning), trials=whole[:num_ended]) == whole


@searches
@prunings
def test_a_search_with_more_trials_begins_with_those_of_a_smaller_one(
    kind: type[RandomSearch], pruning: str | None
) -> None:
    small, large = (run(kind(trials=trials, pruning=pruning)) for trials in (13, 20))
    assert large[:13] == small
    assert run(kind(trials=20, pruning=pruning), trials=small) == large


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    low=st.integers(1, 50),
    width=st.integers(1, 1000),
    log=st.booleans(),
    kind=st.sampled_from(SEARCHES),
)
def test_values_stay_in_their_range_and_whole_numbers_whole(
    seed: int, low: int, width: int, log: bool, kind: type[RandomSearch]
) -> None:
    space = {
        "whole": Range(low, low + width, log=log),
        "part": Range(low / 7, (low + width) / 7, log=log),
        "listed": Range(values=[None, True, 3, 0.5, "word"]),
    }
    default = {"whole": low, "part": low / 7, "listed": None}
    search = TpeSearch(trials=11, batch=4, startup=4) if kind is TpeSearch else kind(trials=11)
    trials = run(
        search,
        space,
        default,
        lambda proposal: float(proposal.settings["whole"] or 0),
    )
    for trial in trials:
        assert all(trial.proposal.settings[name] in values for name, values in space.items())
        assert isinstance(trial.proposal.settings["whole"], int)
        assert isinstance(trial.proposal.settings["part"], float)


def test_backends_try_the_same_values_of_the_settings_that_they_share() -> None:
    part = {name: SPACE[name] for name in ("truncation", "learning_rate")}
    whole, partial = (run(RandomSearch(trials=5), space, DEFAULT, lambda _: 0.0) for space in (SPACE, part))
    for one, other in zip(whole[1:], partial[1:], strict=True):
        assert other.proposal.settings == {name: one.proposal.settings[name] for name in part}


def test_tpe_begins_as_random_search_and_then_proposes_better_settings() -> None:
    sums = dict.fromkeys(SEARCHES, 0.0)
    for seed in range(3):
        random, tpe = (run(kind(trials=40, seed=seed)) for kind in SEARCHES)
        assert [trial.proposal for trial in tpe[:8]] == [trial.proposal for trial in random[:8]]
        for kind, trials in zip(SEARCHES, (random, tpe), strict=True):
            sums[kind] += sum(trial.value or 0 for trial in trials[16:])
    assert sums[RandomSearch] < sums[TpeSearch]


def test_failed_trials_do_not_end_a_search() -> None:
    def fails(proposal: Proposal) -> float | None:
        return None if proposal.number % 3 == 0 or proposal.number < 9 else quality(proposal)

    assert len(run(TpeSearch(trials=20), value_of=fails)) == 20


@searches
def test_with_seconds_no_trial_begins_after_the_time(kind: type[RandomSearch]) -> None:
    trials = run(kind(trials=1, seconds=9.0))
    assert len(trials) == 16  # of one second each, in batches of 8


@searches
def test_with_seconds_a_search_whose_trials_all_fail_ends(kind: type[RandomSearch]) -> None:
    search = kind(seconds=9.0)
    failing = [*run(kind(trials=8), value_of=lambda _: None)]
    assert search.propose(SearchedModel(SPACE, DEFAULT, NUM_TREES), failing) == []


@searches
def test_a_model_without_settings_to_vary_has_one_trial(kind: type[RandomSearch]) -> None:
    assert [trial.proposal for trial in run(kind(trials=5), {}, {}, lambda _: 0.5)] == [Proposal(0, {})]


def test_wrong_settings_are_refused() -> None:
    for values, parts in [
        ({"batch": 0}, ("search.batch", 0)),
        ({"warm_up": 0}, ("search.warm_up", 0)),
        ({"trials": 0}, ("search.trials", 0)),
        ({"pruning": "medain"}, ("search.pruning", "'medain'", "'median'")),
        ({"pruning": "median", "choose": OVERALL}, ("search.pruning", "median", OVERALL, "per_fold", "null")),
    ]:
        with pytest.raises(ConfigError, match=naming(*parts)):
            RandomSearch(**values)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigError, match=naming("search.startup", 0)):
        TpeSearch(startup=0)
