"""Two systems on the same queries: comparison with scipy, properties, and degenerate input."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from paired_samples import folded, ndcg_like
from scipy import stats

from ltrbench.errors import ConfigError
from ltrbench.statistics import (
    FEW_QUERIES,
    TESTS,
    Interval,
    PairedSample,
    PairStatistics,
    compare_pairs,
    simultaneous_intervals,
    system_intervals,
)

DRAWS = 2000


def compared(first: object, second: object, **options: int) -> PairStatistics:
    (pair,) = compare_pairs(PairedSample.of(np.array([first, second], dtype=np.float64)), [(0, 1)], **options)
    return pair


def interval_of(pair: PairStatistics) -> Interval:
    assert pair.interval is not None
    return pair.interval


def test_t_and_wilcoxon_are_scipys() -> None:
    a, b = ndcg_like(2, 300)
    pair = compared(a, b)
    assert pair.p_values["t"] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert pair.p_values["wilcoxon"] == pytest.approx(stats.wilcoxon(np.round(a - b, 12)).pvalue)
    assert pair.standard_error == pytest.approx(stats.sem(a - b))
    assert pair.effect_size == pytest.approx((a - b).mean() / (a - b).std(ddof=1))
    assert pair.sd_of_differences == pytest.approx((a - b).std(ddof=1))


def test_the_randomisation_test_is_scipys_permutation_test_of_paired_samples() -> None:
    a, b = ndcg_like(2, 12)
    exact = stats.permutation_test((a, b), lambda x, y: (x - y).mean(), permutation_type="samples").pvalue
    p_value = compared(a, b, num_draws=100_000).p_values["randomisation"]
    # Four standard errors of a share of 100,000 draws.
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 100_000))


def test_the_bca_interval_is_scipys_up_to_the_draws() -> None:
    a, b = ndcg_like(2, 150)
    interval = interval_of(compared(a, b, num_draws=20_000))
    theirs = stats.bootstrap((a - b,), np.mean, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    assert interval.method == "bca"
    width = theirs.high - theirs.low
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high), abs=0.02 * width)


def test_the_bca_interval_of_strata_is_scipys_of_several_samples() -> None:
    sample = PairedSample.of(ndcg_like(2, 160), strata=np.repeat([0, 1], [60, 100]))
    difference = sample.values[0] - sample.values[1]
    theirs = stats.bootstrap(
        (difference[:60], difference[60:]),
        lambda x, y, axis: (x.mean(axis=axis) + y.mean(axis=axis)) / 2,
        n_resamples=20_000,
        method="BCa",
        rng=1,
    ).confidence_interval
    (pair,) = compare_pairs(sample, [(0, 1)], num_draws=20_000)
    interval = interval_of(pair)
    assert (interval.low, interval.high) == pytest.approx(
        tuple(theirs), abs=0.02 * (theirs.high - theirs.low)
    )


def test_under_a_hundred_queries_the_interval_is_students_with_a_note() -> None:
    a, b = ndcg_like(2, FEW_QUERIES - 1)
    pair = compared(a, b)
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (interval_of(pair).low, interval_of(pair).high) == pytest.approx((expected.low, expected.high))
    assert (interval_of(pair).method, pair.note) == ("t", "few queries")
    assert interval_of(compared(*ndcg_like(2, FEW_QUERIES))).method == "bca"


def test_a_difference_is_the_mean_over_strata_of_the_weighted_mean_over_their_queries() -> None:
    sample = folded(2, 40, 3)
    rng = np.random.default_rng([0, 1])
    strata, weights = np.sort(rng.integers(3, size=40)), rng.uniform(0.5, 2, 40)
    difference = sample.values[0] - sample.values[1]
    expected = np.mean(
        [np.average(difference[strata == fold], weights=weights[strata == fold]) for fold in range(3)]
    )
    (pair,) = compare_pairs(sample, [(0, 1)], num_draws=DRAWS)
    assert pair.difference == pytest.approx(expected)
    assert interval_of(pair).low < expected < interval_of(pair).high


def test_a_query_of_weight_two_counts_in_the_t_interval_like_two_of_its_kind() -> None:
    values = np.array([[0.1, -0.2, 0.4, 0.3], [0, 0, 0, 0]])
    (twice,) = compare_pairs(PairedSample.of(values, np.array([2.0, 1, 1, 1])), [(0, 1)])
    (scaled,) = compare_pairs(PairedSample.of(values, np.array([20.0, 10, 10, 10])), [(0, 1)])
    assert twice.difference == pytest.approx(np.mean([0.1, 0.1, -0.2, 0.4, 0.3]))
    assert scaled.standard_error == pytest.approx(twice.standard_error)
    assert interval_of(scaled).low == pytest.approx(interval_of(twice).low)


def test_the_t_interval_over_strata_of_equal_spread_is_that_of_independent_means() -> None:
    values = np.random.default_rng(0).normal(size=(1, 95))
    strata = np.repeat(np.arange(5), 19)
    sample = PairedSample.of(np.vstack([values, np.zeros((1, 95))]), strata=strata)
    (pair,) = compare_pairs(sample, [(0, 1)])
    error = np.sqrt(sum(values[0, strata == s].var(ddof=1) / 19 for s in range(5))) / 5
    assert pair.standard_error == pytest.approx(error)


def test_weights_that_are_all_alike_change_nothing() -> None:
    values = ndcg_like(3, 200)
    pairs = [(0, 1), (2, 0)]
    plain = compare_pairs(PairedSample.of(values), pairs, DRAWS)
    weighted = compare_pairs(PairedSample.of(values, np.full(200, 7.0)), pairs, DRAWS)
    for one, other in zip(plain, weighted, strict=True):
        assert one.p_values == pytest.approx(other.p_values)
        assert interval_of(one).low == pytest.approx(interval_of(other).low, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 150), st.integers(1, 4), st.integers(0, 1000))
def test_exchanging_two_systems_negates_the_difference_and_nothing_else(
    num_queries: int, num_folds: int, seed: int
) -> None:
    sample = folded(2, num_queries, num_folds, seed)
    one, other = compare_pairs(sample, [(0, 1), (1, 0)], num_draws=200)
    assert one.p_values == other.p_values
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert one.difference == pytest.approx(-(other.difference or 0))
    if one.interval is not None:
        assert one.interval.low == pytest.approx(-interval_of(other).high)


@settings(max_examples=25, deadline=None)
@given(st.integers(14, 150), st.integers(0, 1000))
def test_a_constant_added_to_both_systems_changes_nothing(num_queries: int, seed: int) -> None:
    values = ndcg_like(2, num_queries, seed)
    plain, shifted = compared(*values, num_draws=200), compared(*(values + 1), num_draws=200)
    assert plain.p_values == pytest.approx(shifted.p_values)
    assert plain.difference == pytest.approx(shifted.difference, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 90), st.integers(0, 1000))
def test_the_order_of_queries_does_not_matter_where_nothing_is_drawn(num_queries: int, seed: int) -> None:
    sample = folded(2, num_queries, 2, seed)
    order = np.random.default_rng(seed).permutation(num_queries)
    moved = PairedSample(sample.values[:, order], sample.weights[order], sample.strata[order])
    (one,), (other,) = (compare_pairs(each, [(0, 1)], num_draws=50) for each in (sample, moved))
    assert one.difference == pytest.approx(other.difference)
    assert one.p_values["t"] == pytest.approx(other.p_values["t"])
    assert one.p_values["wilcoxon"] == pytest.approx(other.p_values["wilcoxon"])
    assert (one.wins, one.losses, one.note) == (other.wins, other.losses, other.note)


def test_a_pairs_figures_do_not_depend_on_the_other_systems() -> None:
    sample = folded(4, 120, 2)
    alone = PairedSample(sample.values[[2, 0]], sample.weights, sample.strata)
    assert (
        compare_pairs(sample, [(0, 1), (2, 0), (3, 1)], DRAWS)[1] == compare_pairs(alone, [(0, 1)], DRAWS)[0]
    )


def test_identical_systems_differ_by_nothing() -> None:
    for num_queries in (5, 150):
        values = ndcg_like(1, num_queries)[0]
        pair = compared(values, values)
        assert pair.difference == 0
        assert (interval_of(pair).low, interval_of(pair).high) == (0, 0)
        assert pair.p_values == dict.fromkeys(TESTS, 1.0)
        assert (pair.effect_size, pair.note) == (0, "identical")
        assert (pair.wins, pair.ties, pair.losses) == (0, num_queries, 0)


def test_identical_systems_have_difference_0_even_with_a_fold_of_one_query() -> None:
    sample = PairedSample.of(np.full((2, 3), 0.5), strata=np.array([0, 0, 1]))
    (pair,) = compare_pairs(sample, [(0, 1)])
    assert (interval_of(pair).low, interval_of(pair).high, pair.note) == (0, 0, "identical")


def test_values_that_part_in_their_last_bits_are_ties() -> None:
    values = ndcg_like(1, 150)[0]
    assert compared(values, np.nextafter(values, 2)).note == "identical"


def test_with_fewer_than_two_queries_there_is_no_inference_but_a_reason() -> None:
    one, none = compared([0.5], [0.2]), compared([], [])
    assert one.difference == pytest.approx(0.3)
    assert one.note == "one query only"
    assert (none.difference, none.note) == (None, "no query")
    for pair in (one, none):
        assert pair.interval is None
        assert pair.effect_size is None
        assert pair.p_values == dict.fromkeys(TESTS)
    assert (one.wins, none.num_queries) == (1, 0)
    assert system_intervals(PairedSample.of(np.array([[0.5]]))) == [None]
    assert simultaneous_intervals(PairedSample.of(np.array([[0.5], [0.2]])), [(0, 1)]) == [None]


def test_with_a_fold_of_one_query_there_is_no_interval_and_no_t_test() -> None:
    sample = PairedSample.of(ndcg_like(2, 4), strata=np.array([0, 0, 0, 1]))
    (pair,) = compare_pairs(sample, [(0, 1)])
    assert (pair.interval, pair.standard_error, pair.p_values["t"]) == (None, None, None)
    assert pair.p_values["randomisation"] is not None
    assert pair.note == "a fold of one query"


@pytest.mark.parametrize("num_queries", [10, 150])
def test_a_difference_that_is_the_same_on_every_query_has_no_t(num_queries: int) -> None:
    values = ndcg_like(1, num_queries)[0]
    pair = compared(values + 0.25, values)
    assert pair.difference == pytest.approx(0.25)
    assert (interval_of(pair).low, interval_of(pair).high) == pytest.approx((0.25, 0.25))
    assert pair.p_values["t"] is None
    assert pair.effect_size is None
    assert pair.p_values["randomisation"] == pytest.approx(max(1 / 10_001, 2 / 2**num_queries), rel=0.5)
    assert pair.note == "the same difference on every query of a fold"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=6),
    st.booleans(),
)
def test_the_result_is_json_without_nan(values: list[tuple[float, float]], many: bool) -> None:
    both = np.array(values * (40 if many else 1), dtype=np.float64).reshape(-1, 2).T
    (pair,) = compare_pairs(PairedSample.of(both), [(0, 1)], num_draws=100)
    assert json.loads(json.dumps(asdict(pair), allow_nan=False))["num_queries"] == both.shape[1]


def test_systems_that_differ_on_one_query_tie_with_every_flip() -> None:
    values = ndcg_like(1, 3000)[0]
    other = values.copy()
    other[7] += 1e-4
    assert compared(values, other, num_draws=500).p_values["randomisation"] == 1


def test_the_p_value_is_never_zero() -> None:
    assert (
        compared(np.full(200, 0.9), np.linspace(0, 0.5, 200), num_draws=99).p_values["randomisation"] == 0.01
    )


def test_an_interval_of_a_systems_own_mean_is_that_of_its_difference_to_zero() -> None:
    values = np.vstack([ndcg_like(2, 150), np.zeros(150)])
    sample = PairedSample.of(values)
    own = system_intervals(sample, DRAWS)
    to_zero = compare_pairs(sample, [(0, 2), (1, 2)], DRAWS)
    for interval, pair in zip(own, to_zero, strict=False):
        assert interval is not None
        assert (interval.low, interval.high) == pytest.approx((interval_of(pair).low, interval_of(pair).high))
    assert own[2] == Interval(0.0, 0.0, "bca")


def test_simultaneous_intervals_are_wider_than_each_by_itself_and_narrower_than_bonferronis() -> None:
    sample = PairedSample.of(ndcg_like(4, 400))
    best = int(np.argmax(sample.means))
    others = [system for system in range(4) if system != best]
    pairs = [(system, best) for system in others] + list(itertools.combinations(others, 2))
    together = simultaneous_intervals(sample, pairs, DRAWS)
    alone = compare_pairs(sample, pairs, DRAWS)
    for interval, pair in zip(together, alone, strict=True):
        error = pair.standard_error
        assert interval is not None
        assert error is not None
        assert interval.method == "max-t"
        half = (interval.high - interval.low) / 2
        assert stats.norm.ppf(0.975) * error < half < stats.norm.ppf(1 - 0.025 / 6) * error
        assert (interval.low + interval.high) / 2 == pytest.approx(pair.difference)


def test_a_family_of_one_pair_has_the_interval_of_its_difference() -> None:
    sample = PairedSample.of(ndcg_like(2, 400))
    (pair,) = compare_pairs(sample, [(0, 1)], DRAWS)
    assert simultaneous_intervals(sample, [(0, 1)], DRAWS) == [pair.interval]


def test_few_queries_and_identical_systems_have_simultaneous_intervals_too() -> None:
    values = ndcg_like(2, 30)
    same, other, _ = simultaneous_intervals(PairedSample.of(values[[1, 0, 1]]), [(0, 2), (1, 2), (0, 1)])
    assert same is not None
    assert (same.low, same.high) == (0, 0)
    assert other is not None
    factor = stats.t.ppf(1 - 0.025 / 3, 29)
    half = factor * stats.sem(values[0] - values[1])
    assert other.high - other.low == pytest.approx(2 * half)
    assert (other.method, other.note) == ("bonferroni-t", "few queries")


def test_the_bits_do_not_depend_on_threads() -> None:
    code = (
        "from ltrbench.statistics import *; from paired_samples import folded; s = folded(3, 4000, 2); "
        "print(repr((compare_pairs(s, [(0, 1), (2, 1)], 300), system_intervals(s, 300), "
        "simultaneous_intervals(s, [(0, 1), (0, 2)], 300))))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(printed) == 1


def test_another_seed_gives_other_draws_and_the_same_seed_the_same() -> None:
    a, b = ndcg_like(2, 150)
    assert compared(a, b, num_draws=DRAWS) == compared(a, b, num_draws=DRAWS)
    assert compared(a, b, num_draws=DRAWS) != compared(a, b, num_draws=DRAWS, seed=1)


def test_zero_draws_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("num_draws is 0", "10,000")):
        compared([0.1, 0.2], [0.3, 0.1], num_draws=0)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((np.array([[0.5, np.nan]]),), ["system 0", "query 1", "nan", "leave out"]),
        ((np.ones((1, 2)), np.array([1.0, 0.0])), ["weights", "positive", "leave out"]),
        ((np.ones((1, 2)), np.array([1.0])), ["2 queries", "shape (1,)", "shape (2,)"]),
        ((np.ones((1, 2, 2)),), ["(systems, queries)", "(1, 2, 2)"]),
    ],
)
def test_an_invalid_sample_is_refused(arguments: tuple[np.ndarray, ...], parts: list[str]) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        PairedSample.of(*arguments)
