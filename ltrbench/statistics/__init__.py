"""Statistics on per-query values: numbers in, frozen results out; nothing of runs, models or files.

    sample.py         PairedSample: M systems' values of the same Q queries, their shares and folds
    resampling.py     sign flips and bootstrap draws of all rows at once, the same bits everywhere
    intervals.py      BCa, Student's t, and simultaneous intervals
    paired.py         two systems: difference, interval, randomisation, t, Wilcoxon, effect size
    multiplicity.py   Holm, Benjamini-Hochberg
    folds.py          over folds: corrected resampled t, Bayesian correlated t
    datasets.py       over data sets: Friedman, Nemenyi, Wilcoxon-Holm
    power.py          the minimum detectable difference, the queries that one needs

What cannot be computed is None with its reason, never NaN. docs/statistics.md says when to use which.
"""

from ltrbench.statistics.datasets import DataSetTest, PairOfRanks, friedman
from ltrbench.statistics.folds import (
    ROPE,
    FoldTest,
    RopeProbabilities,
    bayesian_correlated_t,
    corrected_resampled_t,
)
from ltrbench.statistics.intervals import CONFIDENCE, FEW_QUERIES, Interval, simultaneous_intervals
from ltrbench.statistics.multiplicity import benjamini_hochberg, holm
from ltrbench.statistics.paired import TESTS, PairStatistics, compare_pairs, system_intervals
from ltrbench.statistics.power import minimum_detectable_difference, queries_needed
from ltrbench.statistics.sample import PairedSample

__all__ = [
    "CONFIDENCE",
    "FEW_QUERIES",
    "ROPE",
    "TESTS",
    "DataSetTest",
    "FoldTest",
    "Interval",
    "PairOfRanks",
    "PairStatistics",
    "PairedSample",
    "RopeProbabilities",
    "bayesian_correlated_t",
    "benjamini_hochberg",
    "compare_pairs",
    "corrected_resampled_t",
    "friedman",
    "holm",
    "minimum_detectable_difference",
    "queries_needed",
    "simultaneous_intervals",
    "system_intervals",
]
