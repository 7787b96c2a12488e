"""Successive halving: the best settings of each rung are trained longer, at a third of the cost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from search_cases import DEFAULT, NUM_TREES, SPACE, quality, run

from ltrbench.errors import ConfigError
from ltrbench.search.base import OVERALL, Proposal, SearchedModel
from ltrbench.search.halving import Rung, SuccessiveHalving
from ltrbench.search.random import RandomSearch


def rung_sizes(number: int, eta: int, num_rungs: int) -> list[int]:
    sizes = [number]
    while len(sizes) < num_rungs:
        sizes.append(math.ceil(sizes[-1] / eta))
    return sizes


@settings(max_examples=15, deadline=None)
@given(
    number=st.integers(1, 40), eta=st.integers(2, 5), min_trees=st.integers(1, 150), seed=st.integers(0, 999)
)
def test_each_rung_keeps_the_best_of_the_one_before(number: int, eta: int, min_trees: int, seed: int) -> None:
    search = SuccessiveHalving(trials=number, eta=eta, min_trees=min_trees, seed=seed)
    rungs = search.rungs(NUM_TREES, 1)
    trials = run(search)
    assert trials[0].proposal == Proposal(0, DEFAULT)
    begin = 1
    drawn = RandomSearch(seed=seed, trials=number).propose(SearchedModel(SPACE, {}, NUM_TREES), [])[1:]
    expected = [proposal.settings for proposal in drawn]
    for rung, size in zip(rungs, rung_sizes(number - 1, eta, len(rungs)), strict=True):
        of_rung = trials[begin : begin + size]
        assert [trial.proposal.settings for trial in of_rung] == expected
        assert {trial.proposal.num_trees for trial in of_rung} <= {rung.num_trees}
        best = sorted(of_rung, key=lambda trial: -(trial.value or 0))[: math.ceil(size / eta)]
        expected = [trial.proposal.settings for trial in of_rung if trial in best]
        begin += size
    assert begin == len(trials)


def test_the_best_setting_is_trained_fully_if_the_order_of_settings_never_changes() -> None:
    trials = run(SuccessiveHalving(trials=64))
    complete = [trial for trial in trials if trial.is_complete]
    assert len(complete) == 1 + 4
    drawn = trials[1:64]
    assert max(quality(trial.proposal) for trial in drawn) == max(trial.value or 0 for trial in complete[1:])


def test_64_settings_take_at_most_35_percent_of_the_iterations_of_full_fits() -> None:
    trials = run(SuccessiveHalving(trials=64))
    # Mean iterations of a full fit; results/halving has the share with fits that stop sooner.
    for full in (160, 230, 300):
        # Good settings may run longer.
        spent = sum(trial.proposal.num_trees or 1.2 * full for trial in trials)
        assert spent <= 0.35 * 64 * full


def test_of_equal_trials_the_lower_number_is_kept() -> None:
    trials = run(SuccessiveHalving(trials=9, eta=2, min_trees=100), value_of=lambda _: 0.5)
    first = [trial.proposal.settings for trial in trials[1:5]]
    assert [trial.proposal.settings for trial in trials[9:]] == first


def test_early_rungs_use_fewer_folds() -> None:
    search = SuccessiveHalving(choose=OVERALL)
    assert search.rungs(300, 5) == [Rung(20, 2), Rung(80, 3), Rung(None, None)]
    assert search.rungs(300, 1) == [Rung(20, None), Rung(80, None), Rung(None, None)]
    assert run(search, num_folds=5)[1].proposal.num_folds == 2


def test_no_rung_is_close_to_the_full_number_of_trees() -> None:
    assert [rung.num_trees for rung in SuccessiveHalving(min_trees=20).rungs(319, 1)] == [20, 80, None]
    assert [rung.num_trees for rung in SuccessiveHalving(min_trees=10).rungs(319, 1)] == [10, 40, None]
    assert [rung.num_trees for rung in SuccessiveHalving(min_trees=10).rungs(320, 1)] == [10, 40, 160, None]


@pytest.mark.parametrize("num_ended", [0, 1, 5, 63, 64, 70, 80])
def test_it_is_continued_from_any_trial(num_ended: int) -> None:
    whole = run(SuccessiveHalving(trials=64))
    assert run(SuccessiveHalving(trials=64), trials=whole[:num_ended]) == whole


def test_failed_trials_are_not_promoted() -> None:
    def fails(proposal: Proposal) -> float | None:
        return None if proposal.number not in (0, 3, 7) and proposal.number < 64 else quality(proposal)

    trials = run(SuccessiveHalving(trials=64), value_of=fails)
    assert [trial.proposal.settings for trial in trials[64:66]] == [
        trials[3].proposal.settings,
        trials[7].proposal.settings,
    ]
    assert sum(trial.is_complete for trial in trials) == 2  # the default, and the better of both
    assert len(run(SuccessiveHalving(trials=64), value_of=lambda _: None)) == 64


def test_a_setting_that_was_kept_is_a_new_trial() -> None:
    trials = run(SuccessiveHalving(trials=20))
    assert [trial.proposal.number for trial in trials] == list(range(len(trials)))
    last = trials[-1].proposal
    first = next(trial.proposal for trial in trials[1:] if trial.proposal.settings == last.settings)
    assert first == replace(last, number=first.number, num_trees=20)


def test_what_halving_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("search.seconds", 60, "search.trials", "search=tpe")):
        SuccessiveHalving(seconds=60)
    with pytest.raises(ConfigError, match=naming("search.min_trees", 20, 30, "at most 15")):
        SuccessiveHalving().propose(SearchedModel(SPACE, DEFAULT, 30), [])
    with pytest.raises(ConfigError, match=naming("search.min_trees", 0)):
        SuccessiveHalving(min_trees=0)
    with pytest.raises(ConfigError, match=naming("search.eta", 1)):
        SuccessiveHalving(eta=1)
