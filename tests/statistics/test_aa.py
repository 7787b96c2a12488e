"""A/A test: distinct halvings, each compared like two models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.statistics import LEVEL, PairedSample, claim_of, fold_replicates, independent_replicates
from ltrbench.statistics.intervals import student_intervals
from ltrbench.statistics.repeated.aa import against_itself, halvings, num_distinct_halvings

ROPE = 0.005
NUM_QUERIES = 40


def trainings(count: int, seed: int = 0, training: float = 0.03, queries: int = NUM_QUERIES) -> np.ndarray:
    """Returns (R, Q) values of trainings with different means and different values on single queries."""
    rng = np.random.default_rng(seed)
    of_query, of_training = rng.normal(0.5, 0.2, queries), rng.normal(0, training, (count, 1))
    return of_query + of_training + rng.normal(0, 0.05, (count, queries))


def on_one_split(values: np.ndarray) -> PairedSample:
    return PairedSample.of(values[:1])


@given(num_replicates=st.integers(2, 11))
def test_all_halvings_are_distinct_and_each_splits_the_replicates(num_replicates: int) -> None:
    result = halvings(num_replicates, most=10_000, seed=0)
    splits = {frozenset((frozenset(first.tolist()), frozenset(second.tolist()))) for first, second in result}
    size = num_replicates // 2
    expected = math.comb(num_replicates, size) / (1 if num_replicates % 2 else 2)
    assert len(splits) == len(result) == num_distinct_halvings(num_replicates) == expected
    for first, second in result:
        assert (len(first), len(second)) == (size, num_replicates - size)
        assert sorted([*first, *second]) == list(range(num_replicates))


@pytest.mark.parametrize("num_replicates", [12, 13])
def test_drawn_halvings_are_distinct_and_follow_from_the_seed(num_replicates: int) -> None:
    drawn = halvings(num_replicates, most=300, seed=5)
    assert len({frozenset((tuple(first), tuple(second))) for first, second in drawn}) == 300
    again, others = (halvings(num_replicates, most=300, seed=seed) for seed in (5, 6))
    assert [first.tolist() for first, _ in drawn] == [first.tolist() for first, _ in again]
    assert [first.tolist() for first, _ in drawn] != [first.tolist() for first, _ in others]


def test_halves_are_compared_like_two_models_with_independent_trainings() -> None:
    values = trainings(8, seed=3, training=0.05)
    shares = np.full(NUM_QUERIES, 1 / NUM_QUERIES)
    intervals, by_queries = [], 0
    # The half with the first training is the first one.
    for others in itertools.combinations(range(1, 8), 3):
        first = [0, *others]
        second = [place for place in range(8) if place not in first]
        intervals.append(independent_replicates(values[first], values[second], shares).interval(LEVEL))
        means = values[first].mean(axis=0) - values[second].mean(axis=0)
        (of_queries,) = student_intervals(PairedSample.of(means[None]))
        by_queries += of_queries.low > 0 or of_queries.high < 0
    result = against_itself(values, on_one_split(values), rope=ROPE)
    assert (result.num_halvings, result.num_distinct, result.num_replicates) == (35, 35, 8)
    known = [interval for interval in intervals if interval is not None]
    assert result.num_intervals == sum(interval.low > 0 or interval.high < 0 for interval in known)
    claims = [claim_of(interval, ROPE) for interval in intervals]
    assert result.num_different == claims.count("better") + claims.count("worse")
    assert result.num_equivalent == claims.count("equivalent")
    assert result.num_by_queries == by_queries > 0


def test_trainings_that_are_the_same_are_equivalent_in_every_halving() -> None:
    values = np.repeat(trainings(1), 8, axis=0)
    result = against_itself(values, on_one_split(values), rope=ROPE)
    assert (result.num_intervals, result.num_different, result.num_equivalent) == (0, 0, 35)


def test_about_five_percent_of_intervals_exclude_zero_where_queries_alone_claim_far_more() -> None:
    models = [trainings(8, seed, queries=400) for seed in range(60)]
    result = [against_itself(values, on_one_split(values), rope=ROPE) for values in models]
    num_halvings = sum(item.num_halvings for item in result)
    assert sum(item.num_intervals for item in result) / num_halvings == pytest.approx(LEVEL, abs=0.03)
    assert sum(item.num_by_queries for item in result) / num_halvings > 0.5


def test_halves_of_folds_are_the_same_replicates_in_every_fold() -> None:
    values, test_share = trainings(8, seed=4), 1 / 3
    strata = np.arange(NUM_QUERIES) % 4
    sample = PairedSample.of(values[:1], strata=strata)
    intervals = []
    for first, second in halvings(8, 100, 0):
        folds, parts = [], []
        for fold in range(4):
            a, b = (values[half][:, strata == fold] for half in (first, second))
            shares = np.full(NUM_QUERIES // 4, 4 / NUM_QUERIES)
            folds.append(independent_replicates(a, b, shares))
            parts.append(
                independent_replicates(a.mean(axis=0)[None], b.mean(axis=0)[None], shares).parts.query
            )
        intervals.append(fold_replicates(folds, parts, test_share).interval(LEVEL))
    result = against_itself(values, sample, test_share=test_share, rope=0.05)
    assert (
        result.num_equivalent == [claim_of(interval, 0.05) for interval in intervals].count("equivalent") > 0
    )
    known = [interval for interval in intervals if interval is not None]
    assert result.num_intervals == sum(interval.low > 0 or interval.high < 0 for interval in known)


def test_too_few_replicates_and_invalid_arguments_are_refused() -> None:
    values = trainings(8)
    with pytest.raises(ConfigError, match=naming("7 replicates", "at least 8")):
        against_itself(values[:7], on_one_split(values), rope=ROPE)
    with pytest.raises(ConfigError, match=naming("halvings is 0", "at least 1")):
        against_itself(values, on_one_split(values), rope=ROPE, num_halvings=0)
    with pytest.raises(ConfigError, match=naming("one query")):
        against_itself(values[:, :1], on_one_split(values[:, :1]), rope=ROPE)
    folds = PairedSample.of(values[:1], strata=np.arange(NUM_QUERIES) % 4)
    with pytest.raises(ConfigError, match=naming("test_share", "n_test / n_train")):
        against_itself(values, folds, rope=ROPE)
