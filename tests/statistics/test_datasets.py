"""Systems over data sets: worked example of Demsar (2006), comparison with scipy, degenerate input."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from messages import naming
from scipy import stats

from ltrbench.errors import ConfigError
from ltrbench.statistics import friedman, holm
from ltrbench.statistics.datasets import nemenyi_critical_difference, not_different

# Table 6 of Demsar (2006), JMLR 7: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets. On the last but
# one the article ranks C4.5+cf before C4.5+m+cf, which its three digits do not show; a fourth digit is added.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_friedman_and_nemenyi_are_those_of_demsars_worked_example() -> None:
    result = friedman(DEMSAR)
    assert result.average_ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=5e-4)
    assert result.chi2 == pytest.approx(9.28, abs=5e-3)
    assert result.f == pytest.approx(3.69, abs=5e-3)
    assert result.f_p == pytest.approx(stats.f.sf(result.f, 3, 39))
    assert result.critical_difference == pytest.approx(1.25, abs=5e-3)
    # The best and the worst system are within the critical difference: one group.
    assert result.groups == ((3, 1, 2, 0),)
    assert nemenyi_critical_difference(4, 14, level=0.10) == pytest.approx(1.12, abs=5e-3)
    ranks = np.array(result.average_ranks)
    assert not_different(ranks, nemenyi_critical_difference(4, 14, level=0.10)) == ((3, 1, 2), (2, 0))


@pytest.mark.parametrize(("num_systems", "quantile"), [(3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_values_are_those_of_demsars_table_5(num_systems: int, quantile: float) -> None:
    unit = np.sqrt(num_systems * (num_systems + 1) / (6 * 8))
    assert nemenyi_critical_difference(num_systems, 8) / unit == pytest.approx(quantile, abs=1e-3)


def test_without_ties_friedmans_test_is_scipys() -> None:
    means = np.random.default_rng(0).random((9, 4))
    result, theirs = friedman(means), stats.friedmanchisquare(*means.T)
    assert (result.chi2, result.chi2_p) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_nemenyis_p_is_a_half_tenth_at_the_critical_difference() -> None:
    result = friedman(DEMSAR)
    assert result.critical_difference is not None
    for pair in result.pairs:
        apart = abs(result.average_ranks[pair.a] - result.average_ranks[pair.b])
        assert (pair.nemenyi < 0.05) == (apart > result.critical_difference)
        z = apart / np.sqrt(4 * 5 / (6 * 14))
        assert pair.nemenyi == pytest.approx(stats.studentized_range.sf(z * np.sqrt(2), 4, np.inf))


def test_wilcoxon_is_scipys_and_adjusted_over_all_pairs() -> None:
    result = friedman(DEMSAR)
    for pair in result.pairs:
        difference = np.round(DEMSAR[:, pair.a] - DEMSAR[:, pair.b], 12)
        assert pair.wilcoxon == pytest.approx(stats.wilcoxon(difference).pvalue)
    assert [pair.wilcoxon_holm for pair in result.pairs] == pytest.approx(
        holm([pair.wilcoxon for pair in result.pairs])
    )


def test_under_five_data_sets_there_are_ranks_and_a_reason() -> None:
    result = friedman(DEMSAR[:4])
    assert all(part in result.note for part in ("4 data sets", "needs 5"))
    assert len(result.average_ranks) == 4
    assert (result.chi2, result.critical_difference, result.pairs) == (None, None, ())


def test_two_systems_are_compared_by_wilcoxons_test_alone() -> None:
    result = friedman(DEMSAR[:, :2])
    assert result.chi2 is None
    assert len(result.pairs) == 1
    assert "three systems" in result.note


def test_systems_that_never_differ_have_p_1_and_those_that_always_rank_alike_no_finite_f() -> None:
    same = friedman(np.ones((6, 3)))
    assert (same.chi2, same.chi2_p, same.f_p) == (0, 1, 1)
    assert {pair.wilcoxon for pair in same.pairs} == {1}
    assert same.groups == ((0, 1, 2),)
    always = friedman(np.tile([0.3, 0.2, 0.1], (6, 1)) + np.arange(6)[:, np.newaxis] / 10)
    assert (always.f, always.f_p) == (None, 0)
    assert always.average_ranks == (1, 2, 3)


@pytest.mark.parametrize("shape", [(0, 3), (4, 2), (5, 1), (7, 2), (6, 3), (8, 5)])
def test_the_result_is_json_without_nan(shape: tuple[int, int]) -> None:
    json.dumps(asdict(friedman(np.random.default_rng(1).random(shape))), allow_nan=False)


def test_an_invalid_table_of_means_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("means", "row", "column")):
        friedman([[0.1, float("nan")]])
