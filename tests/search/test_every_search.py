"""Every search satisfies the contract; the grid, the rungs of halving, the minima of pruning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from search_cases import DEFAULT, NUM_TREES, SPACE, quality, run

from ltrbench.errors import ConfigError
from ltrbench.search import (
    OVERALL,
    FullGrid,
    Proposal,
    RandomSearch,
    Range,
    Rung,
    Search,
    SearchedModel,
    SuccessiveHalving,
    TpeSearch,
    Trial,
    median_minima,
)

SEARCHES = [RandomSearch, TpeSearch]


MODEL = SearchedModel(SPACE, DEFAULT, NUM_TREES)
COMPLETE: list[Callable[..., Search]] = [
    RandomSearch,
    TpeSearch,
    partial(RandomSearch, pruning="median"),
    partial(TpeSearch, pruning="median"),
    partial(FullGrid, trials=54),
    partial(SuccessiveHalving, trials=20),
]


@pytest.mark.parametrize("kind", COMPLETE, ids=repr)
def test_a_search_is_continued_from_any_trial_with_the_same_trials(kind: Callable[..., Search]) -> None:
    given = {} if isinstance(kind, partial) and "trials" in kind.keywords else {"trials": 20}
    whole = run(kind(**given))
    for num_ended in (0, 3, 8, 13, 20, len(whole)):
        assert run(kind(**given), trials=whole[:num_ended]) == whole


@pytest.mark.parametrize("kind", [RandomSearch, TpeSearch, FullGrid])
def test_with_seconds_no_trial_begins_after_the_time(kind: type[Search]) -> None:
    assert len(run(kind(trials=1, seconds=9.0))) == 16  # of one second each, in batches of 8
    failing = run(RandomSearch(trials=8), value_of=lambda _: None)
    assert kind is FullGrid or kind(seconds=9.0).propose(MODEL, failing * 2) == []


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: RandomSearch(batch=0), ("search.batch", 0)),
        (lambda: RandomSearch(pruning="median", choose=OVERALL), ("search.pruning", OVERALL, "per_fold")),
        (lambda: FullGrid(trials=53).propose(MODEL, []), (54, 53, "search.trials=54", "3 num_leaves")),
        (lambda: SuccessiveHalving(seconds=60), ("search.seconds", 60, "search.trials", "search=tpe")),
        (
            lambda: SuccessiveHalving().propose(SearchedModel(SPACE, DEFAULT, 30), []),
            ("search.min_trees", 20, 30, "at most 15"),
        ),
    ],
)
def test_wrong_settings_of_a_search_are_refused(
    call: Callable[[], Search], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        call()


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
    trials = run(search, space, default, lambda proposal: float(proposal.settings["whole"] or 0))
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


def test_the_grid_has_every_combination_once_and_the_corners() -> None:
    trials = run(FullGrid(trials=54, levels=3))
    combinations = {tuple(trial.proposal.settings.values()) for trial in trials}
    assert len(trials) == len(combinations) == 3 * 3 * 3 * 2
    ends = [values.values or list(values.bounds) for values in SPACE.values()]
    assert combinations.issuperset(itertools.product(*ends))


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


def test_early_rungs_use_fewer_folds() -> None:
    search = SuccessiveHalving(choose=OVERALL)
    assert search.rungs(300, 5) == [Rung(20, 2), Rung(80, 3), Rung(None, None)]
    assert search.rungs(300, 1) == [Rung(20, None), Rung(80, None), Rung(None, None)]
    assert run(search, num_folds=5)[1].proposal.num_folds == 2


def trial(number: int, curve: dict[int, float], is_pruned: bool = False) -> Trial:
    return Trial(Proposal(number, {}), max(curve.values()), curve=curve, is_pruned=is_pruned)


def flat(number: int, value: float, last: int = 80, is_pruned: bool = False) -> Trial:
    return trial(number, dict.fromkeys(range(1, last + 1), value), is_pruned)


def test_the_median_rule_compares_best_values_so_far_at_the_checkpoints() -> None:
    rising = trial(0, {5: 0.1, 10: 0.2, 15: 0.3, 40: 0.4, 60: 0.5})
    others = [flat(1, 0.25), flat(2, 0.15)]
    assert median_minima([rising, *others], 80) == {
        10: median([0.2, 0.25, 0.15]),
        20: median([0.3, 0.25, 0.15]),
        40: median([0.4, 0.25, 0.15]),
    }


def test_a_fit_that_early_stopping_ended_keeps_its_best_value_and_a_pruned_one_does_not_count() -> None:
    stopped, pruned = flat(0, 0.3, last=15), flat(1, 0.1, last=15, is_pruned=True)
    assert median_minima([stopped, pruned, Trial(Proposal(2, {}), None)], 80) == {
        10: 0.2,
        20: 0.3,
        40: 0.3,
    }


@pytest.mark.parametrize("kind", [RandomSearch, TpeSearch])
def test_pruning_saves_iterations_and_the_best_trial_stays(kind: type[RandomSearch]) -> None:
    trials = run(kind(trials=40, pruning="median"))
    assert not any(trial.proposal.minimum for trial in trials[:8])
    spent = sum(trial.iterations for trial in trials)
    assert spent < 0.9 * len(trials) * NUM_TREES
    best = max(trials, key=lambda trial: quality(trial.proposal))
    assert best.is_complete
