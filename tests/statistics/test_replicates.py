# mypy: strict-optional=False
"""Inference over trainings and queries: sums of squares by loops, and plain t tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    BETTER,
    LEVEL,
    WORSE,
    Inference,
    Interval,
    PairedSample,
    claim_of,
    fold_variations,
    independent_replicates,
    shared_replicates,
)
from ltrbench.statistics.claims import EQUIVALENT, UNDECIDED
from ltrbench.statistics.paired import student_intervals

Values = NDArray[np.float64]
SIZES = st.tuples(
    st.integers(3, 5), st.integers(3, 5), st.integers(6, 12), st.integers(0, 10_000)
)


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
                of_both += (
                    model[t, q] - model[t].mean() - model[:, q].mean() + model.mean()
                ) ** 2
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
def test_the_variance_is_that_of_the_split_plot_designs_mean_squares(
    num_trainings: int, seed: int
) -> None:
    num_queries = 15
    a, b = (trained(num_trainings, num_queries, 2 * seed + model) for model in (0, 1))
    training, query, both = mean_squares([a, b])
    inference = independent_replicates(a, b, equal(num_queries))
    expected = 2 / (num_trainings * num_queries) * (training + max(query - both, 0))
    assert squared(inference) == pytest.approx(expected)
    assert inference.difference == pytest.approx(a.mean() - b.mean())


@settings(max_examples=60, deadline=None)
@given(SIZES)
def test_the_parts_add_up_to_the_squared_standard_error(
    sizes: tuple[int, int, int, int],
) -> None:
    num_a, num_b, num_queries, seed = sizes
    a, b = trained(num_a, num_queries, seed), trained(num_b, num_queries, seed + 1)
    inferences = [
        independent_replicates(a, b, unequal(num_queries)),
        shared_replicates(a[:3], b[:3], unequal(num_queries), factor=1.2),
    ]
    for inference in inferences:
        parts = inference.parts
        assert parts.total == pytest.approx(squared(inference))
        assert min(parts.query, parts.training, parts.training_by_query) >= 0
        assert sum(share for share, _ in inference.degrees) == pytest.approx(1)


@pytest.mark.parametrize("analysis", [independent_replicates, shared_replicates])
def test_two_trainings_give_no_claim_but_a_reason(
    analysis: Callable[..., Inference],
) -> None:
    inference = analysis(trained(2, 20, seed=15), trained(2, 20, seed=16), equal(20))
    assert (inference.standard_error, inference.interval(0.05)) == (None, None)
    assert all(part in inference.note for part in ("2 trainings", "needs 3"))


def over_folds(
    training: float, seed: int, num_folds: int = 5, repeats: int = 1
) -> PairedSample:
    """Returns the differences of one pair on 60 queries in each fold; training sets add to whole folds."""
    rng = np.random.default_rng(seed)
    sets = num_folds * repeats
    values = 0.1 * rng.normal(size=(sets, 60)) + training * rng.normal(size=(sets, 1))
    return PairedSample.of(values.ravel(), strata=np.repeat(np.arange(sets), 60))


@pytest.mark.parametrize("training", [0.0, 0.1])
@pytest.mark.parametrize(("num_folds", "repeats"), [(5, 1), (5, 3), (10, 1)])
def test_folds_widen_the_interval_over_queries_and_more_if_training_sets_matter(
    training: float, num_folds: int, repeats: int
) -> None:
    sample = over_folds(training, seed=1, num_folds=num_folds, repeats=repeats)
    rho = 1 / (num_folds - 1)
    (variation,) = fold_variations(sample, num_folds=num_folds, test_share=rho)
    by_fold = sample.values.reshape(num_folds * repeats, 60)
    means = by_fold.mean(axis=1)
    noise = (by_fold.var(axis=1, ddof=1) / 60).mean()
    f = means.var(ddof=1) / noise
    p_value = stats.f.sf(f, len(means) - 1, num_folds * 59)
    assert (variation.statistic, variation.p_value) == pytest.approx((f, p_value))
    assert variation.matters == (training > 0)

    (over_queries,) = student_intervals(sample)
    interval = variation.interval(over_queries, LEVEL)
    allowance = num_folds * rho if num_folds == 5 else 1.25 * np.sqrt(num_folds / 5)
    factor = np.sqrt(1 + allowance)
    half = factor * (over_queries.high - over_queries.low) / 2
    if repeats > 1:
        of_round = factor * np.sqrt(noise / num_folds)
        half = max(half, stats.t.ppf(0.975, num_folds * 59) * of_round)
    if training:
        corrected = np.sqrt((1 / len(means) + rho) * means.var(ddof=1))
        half = max(half, stats.t.ppf(0.975, len(means) - 1) * corrected)
    assert (interval.low, interval.high) == pytest.approx(
        (means.mean() - half, means.mean() + half)
    )


def test_equal_values_in_every_fold_leave_nothing_to_inflate() -> None:
    sample = PairedSample.of(np.zeros(30), strata=np.repeat(np.arange(3), 10))
    (variation,) = fold_variations(sample, num_folds=3, test_share=0.5)
    assert (variation.statistic, variation.matters) == (None, False)
    assert variation.interval(None, LEVEL) is None


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


ROPE = 0.005
