"""Two systems on the same queries: the difference of their means, its interval, and three tests of it.

They are inference for the trained models at hand, on queries like these. What another training would give is
asked of folds: see `folds.py`.
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
    """System a against system b; what cannot be had is None, and `note` says why.

    Attributes:
        difference: mean of a minus mean of b; None without queries.
        interval: of 95 %, of the difference.
        p_values: randomisation, t and wilcoxon, two-sided, unadjusted.
        effect_size: mean over standard deviation of the paired differences.
        wins, ties, losses: queries on which a is better, equal, worse.
        num_queries: how many queries both were judged on.
        standard_error: of the difference.
        note: "identical", "few queries", the reason of what is None, or empty.
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
        """What `power.py` asks for: the standard error times sqrt(Q).

        Where all queries count alike that is the standard deviation of the paired differences; with weights
        or strata, the one which as many queries that count alike would need for the same standard error.
        """
        return None if self.standard_error is None else self.standard_error * self.num_queries**0.5

    def turned(self) -> PairStatistics:
        """Of b against a."""
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
    """`values[a] - values[b]` of each pair (a, b) of systems.

    All pairs share the signs and the resampled queries, and no pair's figures depend on the others. The same
    seed gives the same bits, on any number of threads.

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
    """Of each system's own mean, by the same rule: BCa bootstrap, or Student's t under 100 queries.

    Two such intervals may overlap although the paired difference is clear: compare by `compare_pairs`.
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
    """No query has a difference: nothing is to be estimated, even where a fold has one query."""
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
        return "every query of a fold differs by the same"
    return FEW if differences.num_queries < FEW_QUERIES else ""


def _t_p_value(differences: PairedSample, row: int) -> float | None:
    """Two-sided p of the paired t test: t = mean / SE (Student, 1908).

    Over several strata the degrees of freedom are Satterthwaite's. Assumes independent queries and a mean
    close to normal: the differences themselves need not be (Urbano, Lima and Hanjalic, 2019, SIGIR, found it
    to hold its level on retrieval data). None where the differences have no spread.
    """
    error = float(differences.standard_errors[row])
    if np.isnan(error) or error == 0:
        return None
    return float(2 * stdtr(differences.degrees[row], -abs(differences.means[row]) / error))


def _wilcoxon(values: PerQuery) -> float:
    """Two-sided p of Wilcoxon's signed-rank test (1945), as scipy.stats computes it.

    Queries without a difference are left out; every query counts alike, whatever its weight or fold. Assumes
    differences that are symmetric around their centre: it tests that centre, not the mean, and where the
    differences are skewed, as where a system wins rarely but by much, the two may have different signs.
    """
    # Late: importing scipy.stats takes most of a second.
    from scipy.stats import wilcoxon

    return float(wilcoxon(values).pvalue)


def _effect_size(values: PerQuery, weights: PerQuery) -> float | None:
    """mean / sd of the paired differences (Cohen's d_z, 1988); None where there is no spread.

    sd^2 = Q / (Q - 1) sum_i share_i (d_i - mean)^2: all queries around one mean, whatever their fold.
    """
    if values.min() == values.max():
        return None
    mean = weighted_sum(values, weights)
    variance = len(values) / (len(values) - 1) * weighted_sum((values - mean) ** 2, weights)
    return float(mean / np.sqrt(variance))
