# mypy: strict-optional=False
"""Two systems on the same queries: comparison with scipy, properties, and degenerate input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from paired_samples import folded, ndcg_like
from scipy import stats

from ltrbench.statistics import (
    LEVEL,
    TESTS,
    Interval,
    PairedSample,
    PairStatistics,
    claim_of,
    compare_pairs,
    independent_replicates,
    largest_loss,
    simultaneous_intervals,
    system_intervals,
)
from ltrbench.statistics.claims import EQUIVALENT, UNDECIDED
from ltrbench.statistics.paired import FEW_QUERIES, excludes, largest_t

DRAWS = 2000


def compared(first: object, second: object, **options: int) -> PairStatistics:
    (pair,) = compare_pairs(
        PairedSample.of(np.array([first, second], dtype=np.float64)),
        [(0, 1)],
        **options,
    )
    return pair


def interval_of(pair: PairStatistics) -> Interval:
    assert pair.interval is not None
    return pair.interval


def test_t_is_scipys() -> None:
    a, b = ndcg_like(2, 300)
    pair = compared(a, b)
    assert pair.p_values["t"] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert pair.standard_error == pytest.approx(stats.sem(a - b))
    assert pair.effect_size == pytest.approx((a - b).mean() / (a - b).std(ddof=1))


@pytest.mark.parametrize("count", [2, 7, 13, 14, 40, 50, 51, 300])
@pytest.mark.parametrize(  # many, few and no ties and zeros
    ("decimals", "centre"), [(0, 1.0), (1, 2.0), (12, 0.0)]
)
def test_wilcoxon_is_scipys(count: int, decimals: int, centre: float) -> None:
    differences = np.random.default_rng(count).normal(centre, 1, count).round(decimals)
    assert differences.any()
    sample = PairedSample.of(np.array([differences, 0 * differences]))
    (pair,) = compare_pairs(sample, [(0, 1)])
    expected = stats.wilcoxon(differences).pvalue
    assert pair.p_values["wilcoxon"] == pytest.approx(expected, rel=1e-12)


def test_the_randomisation_test_is_scipys_permutation_test_of_paired_samples() -> None:
    a, b = ndcg_like(2, 12)
    exact = stats.permutation_test(
        (a, b), lambda x, y: (x - y).mean(), permutation_type="samples"
    ).pvalue
    p_value = compared(a, b, num_draws=100_000).p_values["randomisation"]
    # Four standard errors of a share of 100,000 draws.
    assert p_value == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / 100_000)
    )


def test_the_p_value_is_never_zero() -> None:
    base = ndcg_like(1, 200)[0]
    assert compared(base + 1, base, num_draws=999).p_values["randomisation"] == 1 / 1000


@pytest.mark.parametrize("num_queries", [FEW_QUERIES - 1, FEW_QUERIES, 400])
def test_the_interval_of_a_difference_is_students(num_queries: int) -> None:
    a, b = ndcg_like(2, num_queries)
    pair = compared(a, b)
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (interval_of(pair).low, interval_of(pair).high) == pytest.approx(
        (expected.low, expected.high)
    )
    assert (interval_of(pair).method, pair.note) == (
        "t",
        "few queries" if num_queries < FEW_QUERIES else "",
    )


def test_a_difference_is_the_mean_over_strata_of_the_weighted_mean_over_their_queries() -> (
    None
):
    sample = folded(2, 40, 3)
    rng = np.random.default_rng([0, 1])
    strata, weights = np.sort(rng.integers(3, size=40)), rng.uniform(0.5, 2, 40)
    difference = sample.values[0] - sample.values[1]
    expected = np.mean(
        [
            np.average(difference[strata == fold], weights=weights[strata == fold])
            for fold in range(3)
        ]
    )
    (pair,) = compare_pairs(sample, [(0, 1)], num_draws=DRAWS)
    assert pair.difference == pytest.approx(expected)
    assert interval_of(pair).low < expected < interval_of(pair).high


def test_identical_systems_differ_by_nothing() -> None:
    for num_queries in (5, 150):
        values = ndcg_like(1, num_queries)[0]
        pair = compared(values, values)
        assert pair.difference == 0
        bound = 1 - 0.05 ** (1 / num_queries)  # about 3 / n: the rule of three
        assert (interval_of(pair).low, interval_of(pair).high) == pytest.approx(
            (-bound, bound)
        )
        assert pair.p_values == dict.fromkeys(TESTS, 1.0)
        assert (pair.effect_size, pair.note) == (0, "identical")
        assert (pair.wins, pair.ties, pair.losses) == (0, num_queries, 0)


@pytest.mark.parametrize(
    ("num_queries", "claim"), [(500, UNDECIDED), (600, EQUIVALENT)]
)
def test_no_difference_is_equivalent_only_if_three_in_n_queries_may_differ_by_1(
    num_queries: int, claim: str
) -> None:
    sample = PairedSample.of(np.repeat(ndcg_like(1, num_queries), 2, axis=0))
    (interval,) = simultaneous_intervals(sample, [(0, 1)])
    assert claim_of(interval, rope=0.005) == claim
    trainings = np.repeat(sample.values[:1], 3, axis=0)
    inference = independent_replicates(
        trainings, trainings, np.full(num_queries, 1 / num_queries)
    )
    assert claim_of(inference.interval(0.05), rope=0.005) == claim


@pytest.mark.parametrize("num_differing", [1, 2, 5])
def test_few_queries_with_a_difference_are_no_basis_for_a_claim(
    num_differing: int,
) -> None:
    values = np.zeros((2, 200))
    values[0, :num_differing] = 0.5
    (pair,) = compare_pairs(PairedSample.of(values), [(0, 1)])
    low, high = stats.binomtest(num_differing, 200, alternative="less").proportion_ci(
        0.95
    )
    assert (low, pair.note) == (0, "few queries differ")
    assert (interval_of(pair).low, interval_of(pair).high) == pytest.approx(
        (-high, high)
    )
    (interval,) = simultaneous_intervals(PairedSample.of(values), [(0, 1)])
    assert claim_of(interval, 0.005) == UNDECIDED


def false_claims(weights: NDArray[np.float64], num_samples: int) -> float:
    rng = np.random.default_rng(5)
    claims = []
    for _ in range(num_samples):
        values = np.vstack([rng.normal(scale=0.1, size=len(weights)), 0 * weights])
        (interval,) = simultaneous_intervals(PairedSample.of(values, weights), [(0, 1)])
        claims.append(excludes(interval))
    return float(np.mean(claims))


def test_weighted_queries_that_do_not_differ_are_claimed_in_at_most_one_in_twenty() -> (
    None
):
    for seed in range(3):
        weights = np.random.default_rng(seed).zipf(1.5, 200).astype(np.float64)
        # Three standard errors of a share of 5 % of 500 are 3 %.
        assert false_claims(weights, 500) < 0.08
    assert false_claims(1 / np.arange(1, 201), 500) < 0.08


def test_weights_give_students_interval_with_the_effective_number_of_queries() -> None:
    weights = np.array([4.0, 2, 2, 1, 1, 1, 1, 1, 1, 1])
    values = np.vstack([ndcg_like(1, 10), np.zeros(10)])
    sample = PairedSample.of(values, weights)
    n_eff = weights.sum() ** 2 / (weights**2).sum()
    assert sample.effective_sizes == pytest.approx([n_eff])
    (pair,) = compare_pairs(sample, [(0, 1)])
    assert pair.standard_error is not None
    half = stats.t.ppf(0.975, n_eff - 1) * pair.standard_error
    assert interval_of(pair).high - interval_of(pair).low == pytest.approx(2 * half)


def test_with_fewer_than_two_queries_there_is_no_inference_but_a_reason() -> None:
    one = compared([0.5], [0.2])
    assert one.difference == pytest.approx(0.3)
    assert (one.wins, one.note) == (1, "one query only")
    assert (one.interval, one.effect_size, one.p_values) == (
        None,
        None,
        dict.fromkeys(TESTS),
    )
    assert system_intervals(PairedSample.of(np.array([[0.5]]))) == [None]
    assert simultaneous_intervals(
        PairedSample.of(np.array([[0.5], [0.2]])), [(0, 1)]
    ) == [None]


def test_simultaneous_intervals_are_wider_than_each_by_itself_and_narrower_than_bonferronis() -> (
    None
):
    sample = PairedSample.of(ndcg_like(4, 400))
    best = int(np.argmax(sample.means))
    others = [system for system in range(4) if system != best]
    pairs = [(system, best) for system in others] + list(
        itertools.combinations(others, 2)
    )
    together = simultaneous_intervals(sample, pairs, DRAWS)
    alone = compare_pairs(sample, pairs, DRAWS)
    for interval, pair in zip(together, alone, strict=True):
        error = pair.standard_error
        assert error is not None
        assert interval.method == "max-t"
        half = (interval.high - interval.low) / 2
        assert (
            stats.norm.ppf(0.975) * error < half < stats.norm.ppf(1 - 0.025 / 6) * error
        )
        assert (interval.low + interval.high) / 2 == pytest.approx(pair.difference)


def test_each_draw_of_max_t_is_divided_by_its_own_standard_error() -> None:
    """Against the definition: the queries of each draw, written out."""
    values, num_draws = ndcg_like(2, 30), 50
    differences = PairedSample.of(values).differences([(0, 1)])
    drawn = np.random.default_rng([3, 1]).integers(30, size=(num_draws, 30))
    of_draws = differences.values[0][drawn]
    t = (of_draws.mean(axis=1) - differences.means[0]) / stats.sem(of_draws, axis=1)
    assert largest_t(differences, num_draws, seed=3) == pytest.approx(
        np.abs(t), rel=1e-6
    )


def largest_loss_by_definition(
    sample: PairedSample, chosen: int, level: float
) -> float:
    """Hsu's upper end with the draws of max-T written out; all queries have one weight."""
    num_systems = len(sample.values)
    bound = 0.0
    for best in range(num_systems):
        if best == chosen:
            continue
        others = [other for other in range(num_systems) if other != best]
        highest = np.full(DRAWS, -np.inf)
        for other in others:
            difference = sample.values[best] - sample.values[other]
            drawn = np.random.default_rng([0, 1]).integers(
                len(difference), size=(DRAWS, len(difference))
            )
            of_draws = difference[drawn]
            t = (of_draws.mean(axis=1) - difference.mean()) / stats.sem(
                of_draws, axis=1
            )
            highest = np.maximum(highest, -t)
        factor = np.quantile(highest, 1 - level, method="higher")
        difference = sample.values[best] - sample.values[chosen]
        bound = max(bound, difference.mean() + factor * stats.sem(difference))
    return bound


def test_the_largest_loss_is_hsus_bound_and_never_above_that_of_two_sided_intervals() -> (
    None
):
    sample = PairedSample.of(ndcg_like(4, 150))
    for chosen in range(4):
        loss = largest_loss(sample, chosen, DRAWS)
        assert loss == pytest.approx(
            largest_loss_by_definition(sample, chosen, LEVEL), rel=1e-6
        )
        others = [other for other in range(4) if other != chosen]
        pairs = [(other, chosen) for other in others]
        pairs += list(itertools.combinations(others, 2))
        two_sided = simultaneous_intervals(sample, pairs, DRAWS)
        assert loss <= max(interval.high for interval in two_sided[:3])


def test_the_largest_loss_covers_what_the_leader_loses_in_nineteen_of_twenty_draws() -> (
    None
):
    rng = np.random.default_rng(3)
    means = np.array([0.0, 0.01, 0.01, 0.02])
    covered = []
    for _ in range(300):
        values = means[:, None] + 0.1 * rng.normal(size=(4, 120))
        sample = PairedSample.of(values)
        leader = int(np.argmax(sample.means))
        loss = largest_loss(sample, leader, num_draws=200)
        covered.append(loss >= means.max() - means[leader])
    assert np.mean(covered) >= 0.93


def test_nearly_equal_weights_keep_max_t_and_clearly_unequal_ones_do_not() -> None:
    values = ndcg_like(3, 200)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for spread, method in ((0.01, "max-t"), (2.0, "bonferroni-t")):
        weights = 1 + spread * np.random.default_rng(0).random(200)
        intervals = simultaneous_intervals(
            PairedSample.of(values, weights), pairs, DRAWS
        )
        assert {interval.method for interval in intervals} == {method}
