"""Statistics on per-query values: arrays in, frozen results out; independent of runs, models and files.

    sample         PairedSample: values of M systems on the same Q queries, with their shares and folds
    resampling     sign flips and bootstrap draws of all rows at once, bit-identical on any machine
    intervals      BCa, Student's t, and simultaneous intervals
    paired         two systems: difference, interval, randomisation, t, Wilcoxon, effect size
    multiplicity   Holm, Benjamini-Hochberg
    repeated       repeated training: folds, seeds, resampled training sets; power
    search         settings of a search: intervals to the winner, expected best value by trials
    claims         claims from intervals, and the scopes of claims
    datasets       over data sets: Friedman, Nemenyi, Wilcoxon-Holm
    groups         over groups of queries: Welch's test of equal mean differences
    risk           losses relative to a baseline or an expectation: URisk, TRisk, GeoRisk

A result that cannot be computed is None, with the reason, never NaN. docs/concepts/statistics.md explains
when to use which test.
"""

from ltrbench.statistics.claims import (
    BETTER,
    EQUIVALENT,
    METHODS,
    MODELS,
    RETRAINED,
    RETUNED,
    SCOPES,
    TUNED_METHODS,
    UNDECIDED,
    WORSE,
    claim_of,
)
from ltrbench.statistics.datasets import DataSetTest, PairOfRanks, friedman
from ltrbench.statistics.groups import SMALLEST_GROUP, EqualMeans, Group, equal_means
from ltrbench.statistics.intervals import (
    CONFIDENCE,
    FEW_QUERIES,
    LEVEL,
    Interval,
    simultaneous_intervals,
)
from ltrbench.statistics.multiplicity import benjamini_hochberg, holm
from ltrbench.statistics.paired import TESTS, PairStatistics, compare_pairs, system_intervals
from ltrbench.statistics.repeated.folds import (
    ROPE,
    FoldTest,
    RopeProbabilities,
    bayesian_correlated_t,
    corrected_resampled_t,
)
from ltrbench.statistics.repeated.power import (
    Design,
    design_of_folds,
    design_of_replicates,
    fewest,
    minimum_detectable_difference,
    queries_needed,
)
from ltrbench.statistics.repeated.replicates import (
    FEWEST_REPLICATES,
    Inference,
    VarianceParts,
    fold_replicates,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.risk import Risk, geo_risk, risks, t_risk, u_risk
from ltrbench.statistics.sample import PairedSample
from ltrbench.statistics.search.expected_best import expected_best
from ltrbench.statistics.search.winner import winner_intervals

__all__ = [
    "BETTER",
    "CONFIDENCE",
    "EQUIVALENT",
    "FEWEST_REPLICATES",
    "FEW_QUERIES",
    "LEVEL",
    "METHODS",
    "MODELS",
    "RETRAINED",
    "RETUNED",
    "ROPE",
    "SCOPES",
    "SMALLEST_GROUP",
    "TESTS",
    "TUNED_METHODS",
    "UNDECIDED",
    "WORSE",
    "DataSetTest",
    "Design",
    "EqualMeans",
    "FoldTest",
    "Group",
    "Inference",
    "Interval",
    "PairOfRanks",
    "PairStatistics",
    "PairedSample",
    "Risk",
    "RopeProbabilities",
    "VarianceParts",
    "bayesian_correlated_t",
    "benjamini_hochberg",
    "claim_of",
    "compare_pairs",
    "corrected_resampled_t",
    "design_of_folds",
    "design_of_replicates",
    "equal_means",
    "expected_best",
    "fewest",
    "fold_replicates",
    "friedman",
    "geo_risk",
    "holm",
    "independent_replicates",
    "minimum_detectable_difference",
    "queries_needed",
    "resampling_factor",
    "risks",
    "shared_replicates",
    "simultaneous_intervals",
    "system_intervals",
    "t_risk",
    "u_risk",
    "winner_intervals",
]
