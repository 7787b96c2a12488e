"""Two systems on the same queries: the difference of their means, its interval, and three tests.

The inference is valid for these trained models, on queries like these. Inference about methods needs repeated
training: see `repeated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr

from ltrbench.shapes import PerQuery
from ltrbench.statistics.intervals import (
    FEW,
    FEW_QUERIES,
    IDENTICAL,
    Interval,
    difference_intervals,
    mean_intervals,
    unknown_spread,
)
from ltrbench.statistics.resampling import sign_flip_p_values
from ltrbench.statistics.sample import PairedSample, weighted_sum

TESTS = ("randomisation", "t", "wilcoxon")


@dataclass(frozen=True)
class PairStatistics:
    """System a compared with system b. A result that is not available is None; `note` gives the reason.

    Attributes:
        difference: mean of a minus mean of b; None without queries.
        interval: 95 % interval of the difference.
        p_values: randomisation, t and wilcoxon, two-sided, unadjusted.
        effect_size: mean over standard deviation of the paired differences.
        wins, ties, losses: number of queries on which a is better, equal, worse.
        num_queries: number of queries with values of both systems.
        standard_error: standard error of the difference.
        note: "identical", "few queries", the reason why a result is None, or empty.
    """

    difference: float | None
    interval: Interval | None
    p_values: Mapping[str, float | None]
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    num_queries: int
    standard_error: float | None = None
    note: str = ""

    @property
    def sd_of_differences(self) -> float | None:
        """Returns the standard error times sqrt(Q), as needed by `power.py`.

        With equal weights in one stratum it is the standard deviation of the paired differences. Otherwise it
        is the standard deviation that gives the same standard error with Q queries of equal weight.
        """
        return None if self.standard_error is None else self.standard_error * self.num_queries**0.5

    def turned(self) -> PairStatistics:
        """Returns the statistics of b compared with a."""
        return replace(
            self,
            difference=None if self.difference is None else 0.0 - self.difference,
            interval=None if self.interval is None else self.interval.turned(),
            effect_size=None if self.effect_size is None else 0.0 - self.effect_size,
            wins=self.losses,
            losses=self.wins,
        )


def compare_pairs(
    sample: PairedSample, pairs: Sequence[tuple[int, int]], num_draws: int = 10_000, seed: int = 0
) -> list[PairStatistics]:
    """Returns statistics of `values[a] - values[b]` for each pair (a, b) of systems.

    All pairs share the signs and the resampled queries. The statistics of a pair do not depend on the other
    pairs. The same seed gives the same bits on any number of threads.

    >>> sample = PairedSample.of(np.array([[0.5, 0.25, 0.75], [0.5, 0.25, 0.75]]))
    >>> compare_pairs(sample, [(0, 1)])[0].note
    'identical'
    """
    if not pairs:
        return []
    differences = sample.differences(pairs)
    if differences.num_queries < 2:
        return [_too_few(differences, row) for row in range(len(pairs))]
    intervals = difference_intervals(sample, pairs, num_draws, seed)
    randomisation = sign_flip_p_values(differences, num_draws, seed)
    return [
        _statistics(differences, row, interval, float(p_value))
        for row, (interval, p_value) in enumerate(zip(intervals, randomisation, strict=True))
    ]


def system_intervals(sample: PairedSample, num_draws: int = 10_000, seed: int = 0) -> list[Interval | None]:
    """Returns the interval of the mean of each system: BCa bootstrap, or Student's t under 100 queries.

    Two such intervals can overlap even if the paired difference is significant; use `compare_pairs` to
    compare.
    """
    return mean_intervals(sample, num_draws, seed)


def _statistics(
    differences: PairedSample, row: int, interval: Interval | None, randomisation: float
) -> PairStatistics:
    values, error = differences.values[row], float(differences.standard_errors[row])
    if not values.any():
        return _identical(values, interval)
    return PairStatistics(
        difference=float(differences.means[row]),
        interval=interval,
        p_values={
            "randomisation": randomisation,
            "t": _t_p_value(differences, row),
            "wilcoxon": _wilcoxon(values),
        },
        effect_size=_effect_size(values, differences.weights),
        **_counts(values),
        standard_error=None if np.isnan(error) else error,
        note=_note(differences, row),
    )


def _identical(values: PerQuery, interval: Interval | None) -> PairStatistics:
    """Returns the statistics if no query has a difference, also if a fold has a single query."""
    return PairStatistics(
        difference=0.0,
        interval=interval or Interval(0.0, 0.0, "t"),
        p_values=dict.fromkeys(TESTS, 1.0),
        effect_size=0.0,
        **_counts(values),
        standard_error=0.0,
        note=IDENTICAL,
    )


def _too_few(differences: PairedSample, row: int) -> PairStatistics:
    values = differences.values[row]
    return PairStatistics(
        difference=float(values[0]) if len(values) else None,
        interval=None,
        p_values=dict.fromkeys(TESTS),
        effect_size=None,
        **_counts(values),
        note=unknown_spread(differences),
    )


def _counts(values: PerQuery) -> dict[str, int]:
    return {
        "wins": int((values > 0).sum()),
        "ties": int((values == 0).sum()),
        "losses": int((values < 0).sum()),
        "num_queries": len(values),
    }


def _note(differences: PairedSample, row: int) -> str:
    if reason := unknown_spread(differences):
        return reason
    if differences.standard_errors[row] == 0:
        return "the same difference on every query of a fold"
    return FEW if differences.num_queries < FEW_QUERIES else ""


def _t_p_value(differences: PairedSample, row: int) -> float | None:
    """Returns the two-sided p-value of the paired t test: t = mean / SE (Student, 1908).

    With several strata the degrees of freedom are Satterthwaite's. Assumes independent queries and a mean
    close to normal; the differences themselves need not be normal. (Urbano, Lima and Hanjalic, 2019, SIGIR,
    found that the test keeps its level on retrieval data.) None if the differences have no variance.
    """
    error = float(differences.standard_errors[row])
    if np.isnan(error) or error == 0:
        return None
    return float(2 * stdtr(differences.degrees[row], -abs(differences.means[row]) / error))


def _wilcoxon(values: PerQuery) -> float:
    """Returns the two-sided p-value of Wilcoxon's signed-rank test (1945), from scipy.stats.

    Queries without a difference are left out; weights and folds are ignored. Assumes differences that are
    symmetric around their centre: it tests that centre, not the mean. For skewed differences, as of a system
    that wins rarely but by a large margin, the two can have different signs.
    """
    # Imported here because importing scipy.stats takes most of a second.
    from scipy.stats import wilcoxon

    return float(wilcoxon(values).pvalue)


def _effect_size(values: PerQuery, weights: PerQuery) -> float | None:
    """Returns mean / sd of the paired differences (Cohen's d_z, 1988); None if the variance is 0.

    sd^2 = Q / (Q - 1) sum_i share_i (d_i - mean)^2, with one mean over the queries of all folds.
    """
    if values.min() == values.max():
        return None
    mean = weighted_sum(values, weights)
    variance = len(values) / (len(values) - 1) * weighted_sum((values - mean) ** 2, weights)
    return float(mean / np.sqrt(variance))
