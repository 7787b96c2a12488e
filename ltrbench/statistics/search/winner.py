"""Simultaneous intervals of each setting minus the winner of a search, on its validation queries."""

from __future__ import annotations

import numpy as np

# Quantiles from scipy.special, because importing scipy.stats takes most of a second.
from scipy.special import stdtrit

from ltrbench.statistics.intervals import (
    FEW,
    FEW_QUERIES,
    LEVEL,
    Interval,
    largest_t,
    unknown_spread,
)
from ltrbench.statistics.sample import PairedSample


def winner_intervals(
    sample: PairedSample, winner: int, num_draws: int = 10_000, seed: int = 0
) -> list[Interval | None]:
    """Returns simultaneous intervals of `values[t] - values[winner]` for the T rows t of a sample.

    The interval of row t is d_t -+ c SE_t. The winner was chosen on the same queries, so that intervals for
    T - 1 given pairs would be too short: c is therefore the quantile at 95 % over the bootstrap draws of
    max |d*_ab - d_ab| / SE_ab over all pairs (a, b), whichever row wins (max-T: Westfall and Young, 1993;
    all pairs: Tukey's method). If all settings are equal, all intervals contain 0 with a probability of 95 %.

    A setting whose interval contains 0 cannot be told apart from the winner on this validation set. These
    settings are not a confidence set of the best setting. The intervals hold for the models as they were
    trained, and say nothing of the same settings trained again. Each model was also stopped at its best
    iteration on the same queries, which no resampling of the queries repeats.

    Assumes the same as the bootstrap; the same bits on any number of threads. With fewer than 100 queries c
    is Student's quantile at the level divided by the number of pairs (Bonferroni). The interval of the winner
    is 0 to 0. All intervals are None if a stratum has fewer than two queries.

    Args:
        sample: (T, Q) values, the rows in the order of the trials.
        winner: number of the row with the highest mean.
    """
    num_rows = len(sample.values)
    if unknown_spread(sample):
        return [None] * num_rows
    differences = sample.differences([(row, winner) for row in range(num_rows)])
    num_pairs = num_rows * (num_rows - 1) // 2
    few = sample.num_queries < FEW_QUERIES
    method, note = ("bonferroni-t", FEW) if few else ("max-t", "")
    factor = 0.0 if few else _factor_of_all_pairs(sample, num_draws, seed)
    intervals: list[Interval | None] = []
    for mean, error, degrees in zip(
        differences.means, differences.standard_errors, differences.degrees, strict=True
    ):
        if few and error:
            factor = float(stdtrit(degrees, 1 - LEVEL / 2 / num_pairs))
        half = factor * error
        intervals.append(Interval(float(mean - half), float(mean + half), method, note))
    return intervals


def _factor_of_all_pairs(sample: PairedSample, num_draws: int, seed: int) -> float:
    """Returns c; the pairs of one row at a time, because all T^2 / 2 would need much memory."""
    largest = np.zeros(num_draws)
    for row in range(len(sample.values) - 1):
        pairs = [(row, other) for other in range(row + 1, len(sample.values))]
        of_row = largest_t(sample, sample.differences(pairs), pairs, num_draws, seed)
        np.maximum(largest, of_row, out=largest)
    return float(np.quantile(largest, 1 - LEVEL))
