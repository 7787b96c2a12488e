# mypy: strict-optional=False
"""Tests over data sets and groups of queries, and adjusted p-values: published examples and scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from ltrbench.statistics import PairedSample
from ltrbench.statistics.claims import (
    friedman,
    holm,
    nemenyi_critical_difference,
    not_different,
    welch_anova,
)

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
    assert result.critical_difference == pytest.approx(1.25, abs=5e-3)
    # The best and the worst system are within the critical difference: one group.
    assert result.groups == ((3, 1, 2, 0),)
    assert nemenyi_critical_difference(4, 14, level=0.10) == pytest.approx(
        1.12, abs=5e-3
    )
    ranks = np.array(result.average_ranks)
    assert not_different(ranks, nemenyi_critical_difference(4, 14, level=0.10)) == (
        (3, 1, 2),
        (2, 0),
    )


def test_wilcoxon_is_scipys_and_adjusted_over_all_pairs() -> None:
    result = friedman(DEMSAR)
    for pair in result.pairs:
        difference = np.round(DEMSAR[:, pair.a] - DEMSAR[:, pair.b], 12)
        assert pair.wilcoxon == pytest.approx(stats.wilcoxon(difference).pvalue)
    assert [pair.wilcoxon_holm for pair in result.pairs] == pytest.approx(
        holm([pair.wilcoxon for pair in result.pairs])
    )


P_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@settings(max_examples=50)
@given(P_VALUES)
def test_holm_rejects_what_its_steps_reject(p_values: list[float | None]) -> None:
    adjusted = holm(p_values)
    given_ones = np.sort(known(p_values))
    for level in (0.01, 0.05, 0.5):
        # Step down from the smallest of m, against level / m, level / (m - 1), ..., to the first that fails.
        passes = given_ones * (len(given_ones) - np.arange(len(given_ones))) <= level
        rejected = len(passes) if passes.all() else int(np.argmin(passes))
        assert sum(value <= level for value in known(adjusted)) == rejected


SIZES = (30, 60, 25, 200)


def drawn(
    seed: int, sizes: Sequence[int] = SIZES, shift: float = 0.0
) -> list[NDArray[np.float64]]:
    """Returns groups with equal means and different variances; `shift` is added to the last mean."""
    rng = np.random.default_rng(seed)
    groups = [
        rng.normal(scale=0.1 + 0.1 * place, size=size)
        for place, size in enumerate(sizes)
    ]
    return [*groups[:-1], groups[-1] + shift]


@pytest.mark.parametrize("seed", range(5))
def test_several_groups_are_compared_by_scipys_welch_anova(seed: int) -> None:
    samples = drawn(seed)
    try:
        expected = stats.f_oneway(*samples, equal_var=False).pvalue
    except TypeError:
        pytest.skip("this scipy has no Welch ANOVA")
    groups = [PairedSample.of(sample) for sample in samples]
    means = np.concatenate([group.means for group in groups])
    errors = np.concatenate([group.standard_errors for group in groups])
    assert welch_anova(
        means, errors, np.array(SIZES, dtype=np.float64)
    ) == pytest.approx(expected)
