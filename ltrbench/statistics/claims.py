"""Claims and what they need: multiplicity, tests over data sets and groups, risk, winners of searches.

Claims about a difference, derived from its interval, and the scopes of claims.

The scope of a claim is the set of sources of variation in its data. A claim about trained models is not a
claim about the methods that trained them: trained again, the models may be in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

from ltrbench.statistics.paired import (
    FEW,
    FEW_QUERIES,
    LEVEL,
    Interval,
    PairedSample,
    max_t_factor,
    student_intervals,
    unknown_spread,
)
from ltrbench.statistics.ranks import mean_ranks, signed_rank_p_value

BETTER = "better"
WORSE = "worse"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"


class Varied(Enum):
    """What varies in the data of a claim; the value is its name in records.

    MODELS          queries; training does not
    RETRAINED       queries and training randomness (seeds)
    METHODS         queries and training sets
    LATER           queries and training sets, in order of time
    RETUNED         as `RETRAINED`, and the seeds of the searches that chose the settings
    TUNED_METHODS   as `METHODS`, and the seeds of the searches that chose the settings
    """

    MODELS = "models"
    RETRAINED = "retrained"
    RETUNED = "retuned"
    METHODS = "methods"
    TUNED_METHODS = "tuned methods"
    LATER = "later"

    @property
    def with_tuning(self) -> Varied:
        """What varies if the searches that chose the settings have several seeds as well."""
        tuned = {Varied.RETRAINED: Varied.RETUNED, Varied.METHODS: Varied.TUNED_METHODS}
        return tuned.get(self, self)


@dataclass(frozen=True)
class Scope:
    """What a claim is about.

    Attributes:
        varied: What varies in its data.
        has_imported: Whether a model is imported, which was not trained again.
    """

    varied: Varied
    has_imported: bool = False

    @property
    def name(self) -> str:
        """The name in records."""
        if self.has_imported:
            return f"{self.varied.value}, imported"
        return self.varied.value

    @property
    def in_words(self) -> str:
        """The name in sentences and tables."""
        words = _IN_WORDS[self.varied]
        if self.has_imported:
            return f"{words}, against imported scores"
        return words


_IN_WORDS = {
    Varied.MODELS: "these trained models",
    Varied.RETRAINED: "trained again on these queries",
    Varied.RETUNED: "trained and tuned again on these queries",
    Varied.METHODS: "trained on other queries of this collection",
    Varied.TUNED_METHODS: "trained and tuned again on other queries of this collection",
    Varied.LATER: "trained on earlier queries, tested on later queries",
}


def claim_of(interval: Interval | None, rope: float) -> str:
    """Returns the claim that follows from a simultaneous interval of a difference.

    `EQUIVALENT`: the interval is inside the region of practical equivalence, from -rope to rope, whether or
    not it contains 0. `BETTER` or `WORSE`: any other interval that excludes 0. `UNDECIDED`: otherwise, and
    None.

    >>> claim_of(Interval(0.001, 0.004, "t"), rope=0.005), claim_of(Interval(0.001, 0.02, "t"), rope=0.005)
    ('equivalent', 'better')
    """
    if interval is None:
        return UNDECIDED
    if -rope <= interval.low and interval.high <= rope:
        return EQUIVALENT
    if interval.low > 0:
        return BETTER
    return WORSE if interval.high < 0 else UNDECIDED


# ---- P-values adjusted for multiple tests.
#
# A p-value of None stays None and does not count as a test. Adjusted p-values are at least as large as the
# given ones, at most 1, and in the same order.


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns, for the i-th smallest of m, the maximum over j <= i of (m - j + 1) p_(j) (Holm, 1979).

    Rejecting at adjusted p-values up to 5 % gives at least one false rejection in at most 5 % of studies,
    under any dependence of the tests.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    given = np.array(
        [value for value in p_values if value is not None], dtype=np.float64
    )
    order = np.argsort(given, kind="stable")
    num_left = len(given) - np.arange(len(given))
    stepped = num_left * given[order]
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1)
    known = iter(adjusted.tolist())
    return [None if value is None else next(known) for value in p_values]


# ---- Comparison of several systems over several data sets, each counted once (Demsar, 2006, JMLR 7).
#
# Folds of one data set do not count as data sets, because they are not independent samples.

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
    critical_difference: float | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[PairOfRanks, ...] = ()
    note: str = ""


def friedman(means: Sequence[Sequence[float]] | NDArray[np.float64]) -> DataSetTest:
    """Computes Friedman's test, Nemenyi's post-hoc test, and Wilcoxon's test with Holm's adjustment.

    Args:
        means: (N, M), mean of each system on each data set, higher is better; N is at least
            `FEWEST_DATA_SETS`.

    Friedman's and Nemenyi's tests use only the ranks within a data set, so the scales of data sets may
    differ; Wilcoxon's test also uses the sizes of differences. All assume independent data sets. Nemenyi's
    result for two systems depends on the other systems, Wilcoxon's does not (Benavoli, Corani and Mangili,
    2016); therefore both are reported.

        chi2 = 12 N / (M (M + 1)) (sum_j R_j^2 - M (M + 1)^2 / 4), R_j the average ranks (Friedman, 1937)

    It has no correction for ties, as in Demsar's article: with ties it is conservative.
    """
    values = np.asarray(means, dtype=np.float64)
    num_data_sets, num_systems = values.shape
    ranks = np.mean([mean_ranks(-row) for row in values], axis=0)
    known = tuple(ranks.tolist())
    if num_systems < 3:
        return DataSetTest(
            known,
            num_data_sets,
            pairs=_pairs(values, ranks),
            note="Friedman's test needs three systems",
        )
    m = num_systems
    squares = (ranks**2).sum()
    spread = squares - m * (m + 1) ** 2 / 4
    scale = 12 * num_data_sets / (m * (m + 1))
    chi2 = float(max(0.0, scale * spread))
    critical = nemenyi_critical_difference(num_systems, num_data_sets)
    return DataSetTest(
        average_ranks=known,
        num_data_sets=num_data_sets,
        chi2=chi2,
        chi2_p=float(scipy.special.chdtrc(num_systems - 1, chi2)),
        critical_difference=critical,
        groups=not_different(ranks, critical),
        pairs=_pairs(values, ranks),
    )


def nemenyi_critical_difference(
    num_systems: int, num_data_sets: int, level: float = LEVEL
) -> float:
    """Returns q sqrt(M (M + 1) / (6 N)), q the studentised range quantile / sqrt(2) (Demsar, 2006, 3.2.2)."""
    from scipy.stats import studentized_range

    two_sided = studentized_range.ppf(1 - level, num_systems, np.inf)
    quantile = two_sided / np.sqrt(2)
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
        within = (
            average_ranks[order] <= average_ranks[order[first]] + critical_difference
        )
        last = int(np.flatnonzero(within)[-1]) + 1
        # A group with the same end as an earlier group is contained in it.
        if last - first > 1 and last > reached:
            groups.append(tuple(order[first:last].tolist()))
            reached = last
    return tuple(groups)


def _rank_error(num_systems: int, num_data_sets: int) -> float:
    variance = num_systems * (num_systems + 1) / (6 * num_data_sets)
    return float(np.sqrt(variance))


def _pairs(
    values: NDArray[np.float64], ranks: NDArray[np.float64]
) -> tuple[PairOfRanks, ...]:
    from scipy.stats import studentized_range

    num_data_sets, num_systems = values.shape
    pairs = list(combinations(range(num_systems), 2))
    between = [abs(ranks[a] - ranks[b]) for a, b in pairs]
    apart = np.array(between) / _rank_error(num_systems, num_data_sets)
    nemenyi = studentized_range.sf(apart * np.sqrt(2), num_systems, np.inf)
    signed_rank = [_signed_rank(values[:, a] - values[:, b]) for a, b in pairs]
    adjusted = holm(signed_rank)
    of_pairs = []
    for number, (a, b) in enumerate(pairs):
        of_pair = PairOfRanks(
            a=a,
            b=b,
            nemenyi=float(nemenyi[number]),
            wilcoxon=signed_rank[number],
            wilcoxon_holm=float(adjusted[number] or 0),
        )
        of_pairs.append(of_pair)
    return tuple(of_pairs)


def _signed_rank(differences: NDArray[np.float64]) -> float:
    """Returns the p-value of Wilcoxon's test; 1 if all differences are 0 but for rounding."""
    rounded = np.round(differences, 12)
    if not rounded.any():
        return 1.0
    return signed_rank_p_value(rounded)


# ---- Test of whether a mean difference varies over groups of queries, one test for all groups.


def welch_anova(
    means: NDArray[np.float64],
    standard_errors: NDArray[np.float64],
    sizes: NDArray[np.float64],
) -> float:
    """Returns the p-value of Welch's test that k means are equal; the variances may differ.

    F = sum_g w_g (m_g - m)^2 / (k - 1) / (1 + 2 (k - 2) / (k^2 - 1) lambda), with w_g = 1 / SE_g^2,
    m = sum_g w_g m_g / W, W = sum_g w_g, and lambda = sum_g (1 - w_g / W)^2 / (n_g - 1), is compared with the
    F distribution of k - 1 and (k^2 - 1) / (3 lambda) degrees of freedom (Welch, 1951, "On the comparison of
    several mean values", Biometrika 38). Assumes independent queries and means close to normal.

    Args:
        means, standard_errors: (k,), of the groups.
        sizes: (k,), numbers n_g of queries.

    >>> welch_anova(np.array([0.25, 0.25]), np.array([0.125, 0.0625]), np.array([20.0, 30.0]))
    1.0
    """
    k = len(means)
    weights = standard_errors**-2.0
    total = weights.sum()
    mean = (weights * means).sum() / total
    spread = ((1 - weights / total) ** 2 / (sizes - 1)).sum()
    between = (weights * (means - mean) ** 2).sum() / (k - 1)
    correction = 1 + 2 * (k - 2) / (k**2 - 1) * spread
    degrees = (k**2 - 1) / (3 * spread)
    return float(scipy.special.fdtrc(k - 1, degrees, between / correction))


# ---- Expected validation performance of a search against its number of trials.


def expected_best(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (N,), the expected maximum of n = 1, ..., N of N values (Dodge et al., 2019, EMNLP).

    Dodge et al., "Show Your Work", section 3, estimate the expected maximum of n draws from the empirical
    distribution function F of the values of N trials, thus with replacement:

        E[max of n] = sum_v v (F(v)^n - F(v-)^n)

    That estimator is too low, because a drawn maximum repeats values (Tang et al., 2020, ACL, "Showing Your
    Work Doesn't Always Work"). This function has their correction, the mean over all subsets of n values
    drawn without replacement. It is unbiased, and its variance is a little larger (Dodge et al., 2021, EMNLP
    Findings). With the values v_1 <= ... <= v_N:

        E[max of n] = sum_(i >= n) v_i C(i - 1, n - 1) / C(N, n)

    Assumes trials drawn independently from one distribution, as by a random search; for other searches the
    order of the trials matters, and this is not defined.

    >>> expected_best(np.array([0.0, 1.0, 2.0])).round(3).tolist()
    [1.0, 1.667, 2.0]
    """
    num_values = len(values)
    ascending = np.sort(values)
    sizes = np.arange(1, num_values + 1)
    # C(i - 1, n - 1) / C(N, n) is n / N for i = N, and (i - n) / (i - 1) times that of i for i - 1.
    weights = sizes / num_values
    expected: NDArray[np.float64] = weights * ascending[-1]
    for i in range(num_values, 1, -1):
        num_left = np.maximum(i - sizes, 0)
        weights = weights * num_left / (i - 1)
        expected += weights * ascending[i - 2]
    return expected


# ---- Simultaneous intervals of each setting minus the winner of a search, on its validation queries.


def winner_intervals(
    sample: PairedSample, winner: int, num_draws: int = 10_000, seed: int = 0
) -> list[Interval | None]:
    """Returns simultaneous intervals of `values[t] - values[winner]` for the T rows t of a sample.

    The interval of row t is d_t -+ c SE_t. The winner was chosen on the same queries, so that intervals for
    T - 1 given pairs would be too short: c is therefore the quantile at 95 % over the bootstrap draws of
    max |d*_ab - d_ab| / SE*_ab over all pairs (a, b), whichever row wins (max-T: Westfall and Young, 1993;
    all pairs: Tukey's method). If all settings are equal, all intervals contain 0 with a probability of 95 %.

    A setting whose interval contains 0 cannot be told apart from the winner on this validation set. These
    settings are not a confidence set of the best setting. The intervals hold for the models as they were
    trained, and say nothing of the same settings trained again. Each model was also stopped at its best
    iteration on the same queries, which no resampling of the queries repeats.

    The same bits on any number of threads. With fewer than 100 queries, or queries of different weights, c
    is Student's quantile at the level divided by the number of pairs (Bonferroni). The interval of the winner
    is 0 to 0. All intervals are None with fewer than three queries, or a stratum of one.

    Args:
        sample: (T, Q) values, the rows in the order of the trials.
        winner: number of the row with the highest mean.
    """
    num_rows = len(sample.values)
    if unknown_spread(sample):
        return [None] * num_rows
    differences = sample.differences([(row, winner) for row in range(num_rows)])
    # c over all pairs that vary; None for Bonferroni's correction.
    pairs = list(combinations(range(num_rows), 2))
    varying = sample.differences(pairs)
    varying = replace(varying, values=varying.values[varying.standard_errors > 0])
    factor: float | None = 0.0
    if len(varying.values):
        factor = max_t_factor(varying, LEVEL, num_draws, seed)
    method = "bonferroni-t" if factor is None else "max-t"
    note = ""
    if sample.num_queries < FEW_QUERIES:
        note = FEW
    students = student_intervals(differences, LEVEL / max(len(pairs), 1))
    intervals: list[Interval | None] = []
    means = differences.means.tolist()
    errors = differences.standard_errors.tolist()
    for mean, error, student in zip(means, errors, students, strict=True):
        half = student.high - mean
        if factor is not None:
            half = factor * error
        intervals.append(Interval(mean - half, mean + half, method, note))
    return intervals
