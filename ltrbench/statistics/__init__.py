"""Statistics on per-query values: arrays in, frozen results out; independent of runs, models and files.

    paired     values of systems on the same queries: difference, intervals, resampling, tests, effect size
    repeated   repeated training: folds, seeds, resampled training sets
    planning   minimum detectable difference, and the data that a difference needs
    claims     claims and their scopes; multiplicity; data sets, groups of queries, risk, searches
    ranks      ranks of values, and Wilcoxon's signed-rank test
    drift      distances of new data from training data, with simultaneous intervals over queries

A result that cannot be computed is None, with the reason, never NaN. docs/concepts/statistics.md explains
when to use which test.
"""

from ltrbench.statistics.claims import BETTER, WORSE, Scope, claim_of
from ltrbench.statistics.paired import (
    LEVEL,
    TESTS,
    Interval,
    PairedSample,
    PairStatistics,
    compare_pairs,
    largest_loss,
    simultaneous_intervals,
    system_intervals,
)
from ltrbench.statistics.planning import Design, fewest
from ltrbench.statistics.repeated import (
    FEWEST_REPLICATES,
    ROPE,
    FoldVariation,
    Inference,
    fold_variations,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)

__all__ = [
    "BETTER",
    "FEWEST_REPLICATES",
    "LEVEL",
    "ROPE",
    "TESTS",
    "WORSE",
    "Design",
    "FoldVariation",
    "Inference",
    "Interval",
    "PairStatistics",
    "PairedSample",
    "Scope",
    "claim_of",
    "compare_pairs",
    "fewest",
    "fold_variations",
    "independent_replicates",
    "largest_loss",
    "resampling_factor",
    "shared_replicates",
    "simultaneous_intervals",
    "system_intervals",
]
