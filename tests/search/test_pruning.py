"""Pruning: the median rule and Hyperband, on curves given by hand."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest
from search_cases import DEFAULT, NUM_TREES, SPACE, ended, quality, run

from ltrbench.search.base import Proposal, SearchedModel, Trial
from ltrbench.search.pruning import Minima, bracket_of, hyperband_minima, median_minima
from ltrbench.search.random import RandomSearch
from ltrbench.search.tpe import TpeSearch


def trial(number: int, curve: dict[int, float], is_pruned: bool = False) -> Trial:
    return Trial(Proposal(number, {}), max(curve.values()), curve=curve, is_pruned=is_pruned)


def flat(number: int, value: float, last: int = 80, is_pruned: bool = False) -> Trial:
    return trial(number, dict.fromkeys(range(1, last + 1), value), is_pruned)


def test_the_median_rule_compares_best_values_so_far_at_the_checkpoints() -> None:
    rising = trial(0, {5: 0.1, 10: 0.2, 15: 0.3, 40: 0.4, 60: 0.5})
    others = [flat(1, 0.25), flat(2, 0.15)]
    assert median_minima(3, [rising, *others], 80) == {
        10: median([0.2, 0.25, 0.15]),
        20: median([0.3, 0.25, 0.15]),
        40: median([0.4, 0.25, 0.15]),
    }


def test_a_fit_that_early_stopping_ended_keeps_its_best_value_and_a_pruned_one_does_not_count() -> None:
    stopped, pruned = flat(0, 0.3, last=15), flat(1, 0.1, last=15, is_pruned=True)
    assert median_minima(3, [stopped, pruned, Trial(Proposal(2, {}), None)], 80) == {
        10: 0.2,
        20: 0.3,
        40: 0.3,
    }


@pytest.mark.parametrize("rule", [median_minima, hyperband_minima])
def test_without_earlier_trials_there_is_no_minimum(rule: Minima) -> None:
    assert rule(5, [], 300) == {}
    assert rule(5, [Trial(Proposal(0, {}), None)], 300) == {}


def test_few_trees_give_no_checkpoint_at_the_last_tree() -> None:
    assert median_minima(1, [flat(0, 0.5)], 1) == {}
    assert list(median_minima(1, [flat(0, 0.5)], 2)) == [1]


def test_hyperband_keeps_the_best_third_of_the_bracket() -> None:
    numbers = [number for number in range(34) if bracket_of(number) == 2]
    peers = [flat(number, place / 10, last=300) for place, number in enumerate(numbers[:7])]
    others = [flat(number, 9.0, last=300) for number in range(34) if bracket_of(number) == 1]
    minima = hyperband_minima(numbers[7], [*peers, *others], 300)
    assert minima == {34: 0.4, 100: 0.4}  # 300 / 9 and 300 / 3; the third best of seven
    assert hyperband_minima(numbers[7], peers[:2], 300) == {}


def test_hyperband_never_prunes_its_first_bracket() -> None:
    numbers = [number for number in range(51) if bracket_of(number) == 0]
    assert hyperband_minima(numbers[-1], [flat(number, 0.9) for number in numbers[:-1]], 300) == {}


def test_brackets_have_as_many_trials_as_in_the_paper() -> None:
    # n_s = ceil((s_max + 1) eta^s / (s + 1)) with s_max = 2 and eta = 3
    for begin in (0, 1, 20):
        assert Counter(map(bracket_of, range(begin, begin + 17))) == {0: 3, 1: 5, 2: 9}
    assert len({bracket_of(number) for number in range(1, 7)}) == 3


@pytest.mark.parametrize("pruning", ["median", "hyperband"])
@pytest.mark.parametrize("kind", [RandomSearch, TpeSearch])
def test_pruning_saves_iterations_and_the_best_trial_stays(kind: type[RandomSearch], pruning: str) -> None:
    trials = run(kind(trials=40, pruning=pruning))
    assert not any(trial.proposal.minimum for trial in trials[:8])
    spent = sum(trial.iterations for trial in trials)
    assert spent < 0.9 * len(trials) * NUM_TREES
    best = max(trials, key=lambda trial: quality(trial.proposal))
    assert best.is_complete


def test_warm_up_trials_are_not_pruned() -> None:
    trials = run(RandomSearch(trials=24, pruning="median", warm_up=20))
    assert [bool(trial.proposal.minimum) for trial in trials] == [False] * 20 + [True] * 4


def test_a_minimum_depends_on_earlier_batches_only() -> None:
    search = RandomSearch(trials=16, pruning="median", batch=8)
    trials = run(search)
    changed = [*trials[:8], *(ended(trial.proposal, lambda _: 0.9) for trial in trials[8:12])]
    proposal = search.propose(SearchedModel(SPACE, DEFAULT, NUM_TREES), changed)[0]
    assert proposal.minimum == trials[12].proposal.minimum
