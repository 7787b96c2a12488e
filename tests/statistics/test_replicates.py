"""Inference over trainings and queries: sums of squares by loops, plain t tests, and invariances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray
from scipy import stats

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    BETTER,
    EQUIVALENT,
    UNDECIDED,
    WORSE,
    Inference,
    Interval,
    claim_of,
    corrected_resampled_t,
    fold_replicates,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.intervals import IDENTICAL

Values = NDArray[np.float64]
SIZES = st.tuples(st.integers(3, 5), st.integers(3, 5), st.integers(2, 12), st.integers(0, 10_000))


def trained(num_trainings: int, num_queries: int, seed: int) -> Values:
    """Returns (R, Q) values with variances over trainings and queries drawn by the seed."""
    rng = np.random.default_rng(seed)
    by_training, by_both = 10 ** rng.uniform(-3, -0.5, 2)
    values: Values = (
        np.random.default_rng(num_queries).normal(0.5, 0.2, num_queries)
        + rng.normal(scale=0.05, size=num_queries)
        + rng.normal(scale=by_training, size=(num_trainings, 1))
        + rng.normal(scale=by_both, size=(num_trainings, num_queries))
    )
    return values


def equal(num_queries: int) -> PerQuery:
    return np.full(num_queries, 1 / num_queries)


def unequal(num_queries: int) -> PerQuery:
    weights = np.random.default_rng(num_queries).uniform(0.5, 2, num_queries)
    shares: PerQuery = weights / weights.sum()
    return shares


def squared(inference: Inference) -> float:
    assert inference.standard_error is not None
    return inference.standard_error**2


def mean_squares(models: list[Values]) -> tuple[float, float, float]:
    """Returns MS_T, MS_mQ and MS_TQ of the split-plot design with equal R, by definition."""
    num_models, (num_trainings, num_queries) = len(models), models[0].shape
    of_training = of_query = of_both = 0.0
    for model in models:
        for t in range(num_trainings):
            of_training += num_queries * (model[t].mean() - model.mean()) ** 2
            for q in range(num_queries):
                of_both += (model[t, q] - model[t].mean() - model[:, q].mean() + model.mean()) ** 2
        for q in range(num_queries):
            all_of_query = np.mean([other[:, q].mean() for other in models])
            over_all = np.mean([other.mean() for other in models])
            apart = model[:, q].mean() - model.mean() - all_of_query + over_all
            of_query += num_trainings * apart**2
    return (
        of_training / (num_models * (num_trainings - 1)),
        of_query / ((num_models - 1) * (num_queries - 1)),
        of_both / (num_models * (num_trainings - 1) * (num_queries - 1)),
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("num_trainings", [3, 6])
def test_the_variance_is_that_of_the_split_plot_designs_mean_squares(num_trainings: int, seed: int) -> None:
    num_queries = 15
    a, b = (trained(num_trainings, num_queries, 2 * seed + model) for model in (0, 1))
    training, query, both = mean_squares([a, b])
    inference = independent_replicates(a, b, equal(num_queries))
    expected = 2 / (num_trainings * num_queries) * (training + max(query - both, 0))
    assert squared(inference) == pytest.approx(expected)
    assert inference.difference == pytest.approx(a.mean() - b.mean())


def test_the_degrees_of_freedom_have_a_term_for_each_models_trainings_and_one_for_queries() -> None:
    a, b, num_queries = trained(4, 30, seed=1), trained(6, 30, seed=2), 30
    inference = independent_replicates(a, b, equal(num_queries))
    of_a, of_b = (model.mean(axis=1).var(ddof=1) / len(model) for model in (a, b))
    of_queries = squared(inference) - of_a - of_b
    assert of_queries > 0
    degrees = squared(inference) ** 2 / (of_a**2 / 3 + of_b**2 / 5 + of_queries**2 / (num_queries - 1))
    ((_, num_degrees),) = inference.degrees
    assert num_degrees == pytest.approx(degrees)
    interval = inference.interval(0.05)
    assert interval is not None
    half = stats.t.ppf(0.975, degrees) * inference.standard_error
    assert (interval.low, interval.high) == pytest.approx(
        (inference.difference - half, inference.difference + half)
    )


@pytest.mark.parametrize("factor", [None, 1.2])
def test_shared_trainings_are_compared_by_the_variance_of_their_differences(factor: float | None) -> None:
    a, b, num_queries = trained(4, 25, seed=3), trained(4, 25, seed=4), 25
    inference = shared_replicates(a, b, equal(num_queries), factor)
    scale, differences = factor or 1 / 4, a - b
    of_training = scale * differences.mean(axis=1).var(ddof=1)
    centred = differences - differences.mean(axis=0)
    of_both = scale * sum(row.var(ddof=1) / num_queries for row in centred) / 3
    of_queries = max(differences.mean(axis=0).var(ddof=1) / num_queries - of_both, 0)
    assert squared(inference) == pytest.approx(of_training + of_queries)
    interval = inference.interval(0.05)
    assert interval is not None
    quantile = of_training * stats.t.ppf(0.975, 3) + of_queries * stats.t.ppf(0.975, num_queries - 1)
    half = quantile / squared(inference) * inference.standard_error
    assert interval.high - interval.low == pytest.approx(2 * half)


def test_where_no_training_varies_the_interval_is_students_over_queries() -> None:
    a, b = trained(1, 40, seed=5), trained(1, 40, seed=6)
    expected = stats.ttest_rel(a[0], b[0]).confidence_interval(0.95)
    interval = independent_replicates(a, b, equal(40)).interval(0.05)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_where_one_models_training_varies_the_quantile_is_that_of_each_part() -> None:
    a, b = trained(5, 40, seed=7), trained(1, 40, seed=8)
    inference = independent_replicates(a, b, equal(40))
    share = a.mean(axis=1).var(ddof=1) / 5 / squared(inference)
    (of_training, of_query) = inference.degrees
    assert of_training == pytest.approx((share, 4))
    assert of_query == pytest.approx((1 - share, 39))
    assert inference.num_replicates == (5, 1)


def test_more_trainings_of_no_variance_change_nothing() -> None:
    a, b = trained(5, 40, seed=9), trained(1, 40, seed=10)
    once, thrice = (independent_replicates(a, np.repeat(b, times, axis=0), equal(40)) for times in (1, 3))
    assert once.interval(0.05) == thrice.interval(0.05)


@pytest.mark.parametrize("analysis", [independent_replicates, shared_replicates])
def test_a_query_that_weighs_twice_moves_mean_and_training_variance_as_two_queries_do(
    analysis: Callable[..., Inference],
) -> None:
    a, b, twice = trained(4, 10, seed=11), trained(4, 10, seed=12), np.array([2] * 5 + [1] * 5)
    weighed = analysis(a, b, twice / twice.sum())
    repeated = analysis(*(np.repeat(model, twice, axis=1) for model in (a, b)), equal(twice.sum()))
    assert weighed.difference == pytest.approx(repeated.difference)
    of_training = [
        inference.parts.training + inference.parts.training_by_query for inference in (weighed, repeated)
    ]
    assert of_training[0] == pytest.approx(of_training[1])


@settings(max_examples=60, deadline=None)
@given(SIZES)
def test_the_parts_add_up_to_the_squared_standard_error(sizes: tuple[int, int, int, int]) -> None:
    num_a, num_b, num_queries, seed = sizes
    a, b = trained(num_a, num_queries, seed), trained(num_b, num_queries, seed + 1)
    inferences = [
        independent_replicates(a, b, unequal(num_queries)),
        shared_replicates(a[:3], b[:3], unequal(num_queries), factor=1.2),
    ]
    # Folds with a much larger error over queries than their differences suggest; this can happen by chance.
    inferences.append(fold_replicates(inferences, [1.0, 1.0], 0.5))
    for inference in inferences:
        parts = inference.parts
        assert parts.total == pytest.approx(squared(inference))
        assert min(parts.query, parts.training, parts.training_by_query, parts.fold or 0) >= 0
        assert sum(share for share, _ in inference.degrees) == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(SIZES)
def test_the_models_the_other_way_round_are_the_same_inference_turned(
    sizes: tuple[int, int, int, int],
) -> None:
    num_a, num_b, num_queries, seed = sizes
    a, b = trained(num_a, num_queries, seed), trained(num_b, num_queries, seed + 1)
    shares = unequal(num_queries)
    there, back = independent_replicates(a, b, shares), independent_replicates(b, a, shares)
    assert back.num_replicates == there.turned().num_replicates == (num_b, num_a)
    assert_alike(there.turned(), back)
    assert_alike(shared_replicates(a[:3], b[:3], shares).turned(), shared_replicates(b[:3], a[:3], shares))


@settings(max_examples=60, deadline=None)
@given(SIZES, st.floats(-0.3, 0.3))
def test_a_constant_moves_the_interval_and_does_not_widen_it(
    sizes: tuple[int, int, int, int], constant: float
) -> None:
    num_a, num_b, num_queries, seed = sizes
    a, b = trained(num_a, num_queries, seed), trained(num_b, num_queries, seed + 1)
    for analysis, rows in ((independent_replicates, slice(None)), (shared_replicates, slice(3))):
        before = analysis(a[rows], b[rows], unequal(num_queries))
        after = analysis(a[rows] + constant, b[rows], unequal(num_queries))
        assert after.difference == pytest.approx(before.difference + constant, abs=1e-9)
        assert after.standard_error == pytest.approx(before.standard_error, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(SIZES)
def test_the_order_of_trainings_and_queries_does_not_matter(sizes: tuple[int, int, int, int]) -> None:
    num_a, num_b, num_queries, seed = sizes
    rng = np.random.default_rng(seed)
    a, b = trained(num_a, num_queries, seed), trained(num_b, num_queries, seed + 1)
    shares, queries = unequal(num_queries), rng.permutation(num_queries)
    moved = independent_replicates(
        a[rng.permutation(num_a)][:, queries], b[rng.permutation(num_b)][:, queries], shares[queries]
    )
    assert_alike(independent_replicates(a, b, shares), moved)
    # With shared trainings, row t of both models is the same training.
    rows = rng.permutation(3)
    assert_alike(shared_replicates(a[:3], b[:3], shares), shared_replicates(a[rows], b[rows], shares))


def assert_alike(first: Inference, second: Inference) -> None:
    one, other = first.interval(0.05), second.interval(0.05)
    assert one is not None
    assert other is not None
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


@pytest.mark.parametrize("analysis", [independent_replicates, shared_replicates])
def test_methods_with_the_same_values_differ_by_nothing(analysis: Callable[..., Inference]) -> None:
    same = np.repeat(trained(1, 20, seed=13), 3, axis=0)
    inference = analysis(same, same, equal(20))
    assert (inference.note, inference.standard_error, inference.difference) == (IDENTICAL, 0, 0)
    assert inference.interval(0.05) == Interval(0, 0, inference.method)


def test_the_last_bits_of_a_mean_of_equal_trainings_are_no_difference() -> None:
    three, seven = (np.repeat(trained(1, 50, seed=13), times, axis=0) for times in (3, 7))
    assert (three.mean(axis=0) != seven.mean(axis=0)).any()
    assert independent_replicates(three, seven, equal(50)).note == IDENTICAL


def test_shared_trainings_with_the_same_values_differ_by_nothing_though_each_varies() -> None:
    a = trained(3, 20, seed=14)
    assert shared_replicates(a, a, equal(20)).note == IDENTICAL
    assert independent_replicates(a, a, equal(20)).standard_error != 0


@pytest.mark.parametrize("analysis", [independent_replicates, shared_replicates])
def test_two_trainings_give_no_claim_but_a_reason(analysis: Callable[..., Inference]) -> None:
    inference = analysis(trained(2, 20, seed=15), trained(2, 20, seed=16), equal(20))
    assert (inference.standard_error, inference.interval(0.05)) == (None, None)
    assert all(part in inference.note for part in ("2 trainings", "needs 3"))


def test_the_fewest_trainings_of_either_model_decide() -> None:
    many, two, one = (trained(number, 20, seed=17 + number) for number in (5, 2, 1))
    assert independent_replicates(many, two, equal(20)).interval(0.05) is None
    assert independent_replicates(one, two, equal(20)).interval(0.05) is None
    assert independent_replicates(many, one, equal(20)).interval(0.05) is not None


def test_one_query_gives_no_claim() -> None:
    inference = independent_replicates(trained(5, 1, seed=23), trained(5, 1, seed=24), equal(1))
    assert (inference.standard_error, inference.note) == (None, "one query only")


def test_a_difference_that_never_varies_has_no_error() -> None:
    a = np.repeat(trained(1, 20, seed=25), 3, axis=0)
    inference = shared_replicates(a + 0.25, a, equal(20))
    assert inference.standard_error is None
    assert inference.difference == pytest.approx(0.25)
    assert all(part in inference.note for part in ("same difference", "query", "training"))


@pytest.mark.parametrize("num_resamples", [3, 5, 10])
def test_resampling_factors_are_those_of_the_bootstrap_and_the_delete_d_jackknife(num_resamples: int) -> None:
    assert resampling_factor("bootstrap", num_resamples) == 1 + 1 / num_resamples
    for share in (0.5, 0.8):
        # The variance of a mean of n points is the variance of subsample means around it times p / (1 - p).
        expected = 1 / num_resamples + share / (1 - share)
        assert resampling_factor("subsample", num_resamples, share) == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "share"), [("jackknife", 0.5), ("subsample", 0.0), ("subsample", 1.0)])
def test_a_resampling_that_has_no_factor_is_refused_by_its_name_and_share(kind: str, share: float) -> None:
    with pytest.raises(ConfigError, match=naming(f"'{kind}'", f"share of {share}", "bootstrap", "subsample")):
        resampling_factor(kind, 5, share)


@pytest.mark.parametrize("subsample", [0.5, 0.8])
def test_the_factor_of_subsamples_gives_the_variance_of_a_mean(subsample: float) -> None:
    rng, points, num_resamples = np.random.default_rng(26), 60, 4000
    training = rng.normal(size=points)
    size = round(subsample * points)
    means = [rng.permutation(training)[:size].mean() for _ in range(num_resamples)]
    factor = resampling_factor("subsample", num_resamples, subsample)
    assert factor * np.var(means, ddof=1) == pytest.approx(training.var(ddof=1) / points, rel=0.1)


def folds_of(num_folds: int, num_seeds: int) -> list[Inference]:
    return [
        independent_replicates(
            trained(num_seeds, 20, seed=100 + fold), trained(num_seeds, 20, seed=200 + fold), equal(20)
        )
        for fold in range(num_folds)
    ]


@pytest.mark.parametrize("num_folds", [2, 5, 10])
def test_folds_with_one_training_use_the_corrected_resampled_t_test(num_folds: int) -> None:
    folds, test_share = folds_of(num_folds, num_seeds=1), 1 / (num_folds - 1)
    inference = fold_replicates(folds, [fold.parts.query for fold in folds], test_share)
    test = corrected_resampled_t([fold.difference for fold in folds], test_share)
    interval = inference.interval(0.05)
    assert interval is not None
    assert test.interval is not None
    assert (interval.low, interval.high) == pytest.approx((test.interval.low, test.interval.high))
    # At a level equal to the p-value one end of the interval is 0.
    assert test.p_value is not None
    at_p = inference.interval(test.p_value)
    assert at_p is not None
    assert min(abs(at_p.low), abs(at_p.high)) == pytest.approx(0, abs=1e-9)


def test_seeds_in_folds_add_their_mean_variance() -> None:
    folds = folds_of(5, num_seeds=4)
    inference = fold_replicates(folds, [fold.parts.query for fold in folds], 0.25)
    between = (1 / 5 + 0.25) * np.var([fold.difference for fold in folds], ddof=1)
    of_seeds = sum(fold.parts.training + fold.parts.training_by_query for fold in folds) / 5**2
    assert of_seeds > 0
    assert squared(inference) == pytest.approx(between + of_seeds)
    assert (inference.num_replicates, inference.num_queries) == ((5, 5), 100)


def test_folds_that_all_differ_by_the_same_have_no_error() -> None:
    a = trained(1, 20, seed=27)
    fold = independent_replicates(a + 0.1, a, equal(20))
    inference = fold_replicates([fold] * 5, [0.0] * 5, 0.25)
    assert (inference.standard_error, inference.note) == (None, "the same difference in every fold")
    nothing = fold_replicates([independent_replicates(a, a, equal(20))] * 5, [0.0] * 5, 0.25)
    assert (nothing.standard_error, nothing.note) == (0, IDENTICAL)


@pytest.mark.parametrize("values", [np.zeros((3, 4)), np.zeros(5), np.zeros((0, 5))])
def test_values_of_another_shape_are_refused_by_it(values: Values) -> None:
    with pytest.raises(ConfigError, match=naming("(trainings, 5 queries)")):
        independent_replicates(values, trained(3, 5, seed=28), equal(5))


def test_values_that_are_not_finite_are_refused() -> None:
    values = trained(3, 5, seed=29)
    values[1, 2] = np.nan
    with pytest.raises(ConfigError, match=naming("finite", "leave out")):
        shared_replicates(values, trained(3, 5, seed=30), equal(5))


def test_shared_trainings_must_be_as_many() -> None:
    with pytest.raises(ConfigError, match=naming("3 and 4")):
        shared_replicates(trained(3, 5, seed=31), trained(4, 5, seed=32), equal(5))


@pytest.mark.parametrize(
    ("low", "high", "claim"),
    [
        (0.001, 0.02, BETTER),
        (-0.02, -0.001, WORSE),
        (-0.001, 0.02, UNDECIDED),
        (0.0, 0.02, UNDECIDED),
        (-0.004, 0.005, EQUIVALENT),
        (0.001, 0.005, EQUIVALENT),
        (-0.005, -0.001, EQUIVALENT),
        (0.0, 0.0, EQUIVALENT),
    ],
)
def test_an_interval_allows_one_claim(low: float, high: float, claim: str) -> None:
    interval = Interval(low, high, "t")
    assert claim_of(interval, rope=0.005) == claim
    turned = {BETTER: WORSE, WORSE: BETTER}.get(claim, claim)
    assert claim_of(interval.turned(), rope=0.005) == turned


def test_without_an_interval_nothing_is_claimed() -> None:
    assert claim_of(None, rope=0.005) == UNDECIDED
