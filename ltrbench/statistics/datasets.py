"""Comparison of several systems over several data sets, each counted once (Demsar, 2006, JMLR 7).

Folds of one data set do not count as data sets, because they are not independent samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc

from ltrbench.errors import ConfigError
from ltrbench.statistics.intervals import LEVEL
from ltrbench.statistics.multiplicity import holm

FEWEST_DATA_SETS = 5


@dataclass(frozen=True)
class PairOfRanks:
    """P-values for systems a and b over all data sets: Nemenyi, Wilcoxon, and Wilcoxon adjusted by Holm."""

    a: int
    b: int
    nemenyi: float
    wilcoxon: float
    wilcoxon_holm: float


@dataclass(frozen=True)
class DataSetTest:
    """Tests of M systems over N data sets. If a test is not available, its fields are None or empty.

    Attributes:
        average_ranks: (M,), 1 is best.
        num_data_sets: N.
        chi2, chi2_p: Friedman's statistic with M - 1 degrees of freedom, and its p-value.
        f, f_p: Iman and Davenport's statistic with M - 1 and (M - 1)(N - 1) degrees of freedom, and its
            p-value; f is None if all data sets rank the systems equally, because it is infinite then.
        critical_difference: smallest significant difference of average ranks by Nemenyi's test at 5 %.
        groups: groups of systems, in order of rank, without a significant difference: the bars of the
            critical-difference diagram. No group contains another.
        pairs: all pairs of systems.
        note: reason why a test is not available; empty if all are.
    """

    average_ranks: tuple[float, ...]
    num_data_sets: int
    chi2: float | None = None
    chi2_p: float | None = None
    f: float | None = None
    f_p: float | None = None
    critical_difference: float | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[PairOfRanks, ...] = ()
    note: str = ""


def friedman(means: Sequence[Sequence[float]] | NDArray[np.float64]) -> DataSetTest:
    """Computes Friedman's test, Nemenyi's post-hoc test, and Wilcoxon's test with Holm's adjustment.

    Args:
        means: (N, M), mean of each system on each data set, higher is better.

    Friedman's and Nemenyi's tests use only the ranks within a data set, so the scales of data sets may
    differ; Wilcoxon's test also uses the sizes of differences. All assume independent data sets. Nemenyi's
    result for two systems depends on the other systems, Wilcoxon's does not (Benavoli, Corani and Mangili,
    2016); therefore both are reported. Chi2 and F have no correction for ties, as in Demsar's article: with
    ties they are conservative.

    Raises:
        ConfigError: If `means` is not a matrix of finite numbers.
    """
    values = np.asarray(means, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ConfigError("means must be finite numbers, one row per data set and one column per system.")
    num_data_sets, num_systems = values.shape
    ranks = _average_ranks(values)
    known = tuple(ranks.tolist())
    if num_data_sets < FEWEST_DATA_SETS:
        return DataSetTest(
            known, num_data_sets, note=f"{num_data_sets} data sets; a test over them needs {FEWEST_DATA_SETS}"
        )
    if num_systems < 3:
        return DataSetTest(
            known, num_data_sets, pairs=_pairs(values, ranks), note="Friedman's test needs three systems"
        )
    chi2 = friedman_chi2(ranks, num_data_sets)
    f = iman_davenport_f(chi2, num_data_sets, num_systems)
    critical = nemenyi_critical_difference(num_systems, num_data_sets)
    free = num_systems - 1
    return DataSetTest(
        average_ranks=known,
        num_data_sets=num_data_sets,
        chi2=chi2,
        chi2_p=float(chdtrc(free, chi2)),
        f=f,
        f_p=0.0 if f is None else float(fdtrc(free, free * (num_data_sets - 1), f)),
        critical_difference=critical,
        groups=not_different(ranks, critical),
        pairs=_pairs(values, ranks),
    )


def _average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (M,) ranks averaged over data sets; tied systems get the mean of their ranks."""
    from scipy.stats import rankdata

    if len(values) == 0:
        return np.zeros(0)
    ranks: NDArray[np.float64] = rankdata(-values, axis=1).mean(axis=0)
    return ranks


def friedman_chi2(average_ranks: NDArray[np.float64], num_data_sets: int) -> float:
    """Returns 12 N / (M (M + 1)) (sum_j R_j^2 - M (M + 1)^2 / 4), R_j the average ranks (Friedman, 1937)."""
    m = len(average_ranks)
    spread = (average_ranks**2).sum() - m * (m + 1) ** 2 / 4
    return float(max(0.0, 12 * num_data_sets / (m * (m + 1)) * spread))


def iman_davenport_f(chi2: float, num_data_sets: int, num_systems: int) -> float | None:
    """Returns (N - 1) chi2 / (N (M - 1) - chi2) (Iman and Davenport, 1980); None if it is infinite."""
    left = num_data_sets * (num_systems - 1) - chi2
    return float((num_data_sets - 1) * chi2 / left) if left > 1e-9 else None


def nemenyi_critical_difference(num_systems: int, num_data_sets: int, level: float = LEVEL) -> float:
    """Returns q sqrt(M (M + 1) / (6 N)), q the studentised range quantile / sqrt(2) (Demsar, 2006, 3.2.2)."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - level, num_systems, np.inf) / np.sqrt(2)
    return float(quantile * _rank_error(num_systems, num_data_sets))


def not_different(
    average_ranks: NDArray[np.float64], critical_difference: float
) -> tuple[tuple[int, ...], ...]:
    """Returns the maximal groups of two or more systems with average ranks within the critical difference.

    >>> not_different(np.array([1.0, 3.0, 1.8, 2.6]), 1.0)
    ((0, 2), (2, 3), (3, 1))
    """
    order = np.argsort(average_ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    reached = 0
    for first in range(len(order)):
        within = average_ranks[order] <= average_ranks[order[first]] + critical_difference
        last = int(np.flatnonzero(within)[-1]) + 1
        # A group with the same end as an earlier group is contained in it.
        if last - first > 1 and last > reached:
            groups.append(tuple(order[first:last].tolist()))
            reached = last
    return tuple(groups)


def _rank_error(num_systems: int, num_data_sets: int) -> float:
    return float(np.sqrt(num_systems * (num_systems + 1) / (6 * num_data_sets)))


def _pairs(values: NDArray[np.float64], ranks: NDArray[np.float64]) -> tuple[PairOfRanks, ...]:
    from scipy.stats import studentized_range, wilcoxon

    num_data_sets, num_systems = values.shape
    pairs = list(itertools.combinations(range(num_systems), 2))
    apart = np.array([abs(ranks[a] - ranks[b]) for a, b in pairs]) / _rank_error(num_systems, num_data_sets)
    nemenyi = studentized_range.sf(apart * np.sqrt(2), num_systems, np.inf)
    differences = [np.round(values[:, a] - values[:, b], 12) for a, b in pairs]
    signed_rank = [float(wilcoxon(of_pair).pvalue) if of_pair.any() else 1.0 for of_pair in differences]
    adjusted = holm(signed_rank)
    return tuple(
        PairOfRanks(a, b, float(of_ranks), of_values, float(over_all or 0))
        for (a, b), of_ranks, of_values, over_all in zip(pairs, nemenyi, signed_rank, adjusted, strict=True)
    )
