"""Several systems over several data sets, each of which counts once (Demsar, 2006, JMLR 7).

Data sets, not folds: folds of one data set are no independent draws of what there is to rank.
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
    """Systems a and b over all data sets: Nemenyi's p, Wilcoxon's, and that Holm-adjusted over all pairs."""

    a: int
    b: int
    nemenyi: float
    wilcoxon: float
    wilcoxon_holm: float


@dataclass(frozen=True)
class DataSetTest:
    """M systems over N data sets; all but the ranks None or empty where `note` says why.

    Attributes:
        average_ranks: (M,), 1 is best.
        num_data_sets: N.
        chi2, chi2_p: Friedman's statistic, M - 1 degrees of freedom, and its p.
        f, f_p: Iman and Davenport's, with M - 1 and (M - 1)(N - 1) degrees of freedom; f is None where every
            data set ranks alike, as it is infinite there.
        critical_difference: average ranks further apart than this differ by Nemenyi's test at 5 %.
        groups: systems in order of rank whose ranks are not apart, as the bars of the critical-difference
            diagram: no bar lies in another.
        pairs: each pair of systems.
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
    """Friedman's test with Nemenyi's after it, and Wilcoxon's with Holm's adjustment beside it.

    Args:
        means: (N, M), each data set's mean of each system, higher is better.

    Friedman and Nemenyi ask only which system is better on a data set, so that data sets of any scale are
    comparable; Wilcoxon's compares also by how much. They assume independent data sets. A Nemenyi comparison
    of two systems depends on the others in the table, Wilcoxon's does not (Benavoli, Corani and Mangili,
    2016), which is why both are given. Chi2 and F are without a correction for ties, as in Demsar's article:
    with ties they err towards no difference.
    """
    values = np.asarray(means, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ConfigError("means must be numbers, one row a data set and one column a system.")
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
    """(M,), over data sets; systems that tie on one share the mean of their ranks."""
    from scipy.stats import rankdata

    if len(values) == 0:
        return np.zeros(0)
    ranks: NDArray[np.float64] = rankdata(-values, axis=1).mean(axis=0)
    return ranks


def friedman_chi2(average_ranks: NDArray[np.float64], num_data_sets: int) -> float:
    """12 N / (M (M + 1)) (sum_j R_j^2 - M (M + 1)^2 / 4) for the average ranks R_j (Friedman, 1937)."""
    m = len(average_ranks)
    spread = (average_ranks**2).sum() - m * (m + 1) ** 2 / 4
    return float(max(0.0, 12 * num_data_sets / (m * (m + 1)) * spread))


def iman_davenport_f(chi2: float, num_data_sets: int, num_systems: int) -> float | None:
    """(N - 1) chi2 / (N (M - 1) - chi2) (Iman and Davenport, 1980); None where it is infinite."""
    left = num_data_sets * (num_systems - 1) - chi2
    return float((num_data_sets - 1) * chi2 / left) if left > 1e-9 else None


def nemenyi_critical_difference(num_systems: int, num_data_sets: int, level: float = LEVEL) -> float:
    """q sqrt(M (M + 1) / (6 N)), q the studentised range's quantile over sqrt(2) (Demsar, 2006, 3.2.2)."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - level, num_systems, np.inf) / np.sqrt(2)
    return float(quantile * _rank_error(num_systems, num_data_sets))


def not_different(
    average_ranks: NDArray[np.float64], critical_difference: float
) -> tuple[tuple[int, ...], ...]:
    """The largest groups of two systems or more whose average ranks are within the critical difference.

    >>> not_different(np.array([1.0, 3.0, 1.8, 2.6]), 1.0)
    ((0, 2), (2, 3), (3, 1))
    """
    order = np.argsort(average_ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    reached = 0
    for first in range(len(order)):
        within = average_ranks[order] <= average_ranks[order[first]] + critical_difference
        last = int(np.flatnonzero(within)[-1]) + 1
        # A group that ends where an earlier one does lies within that one.
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
