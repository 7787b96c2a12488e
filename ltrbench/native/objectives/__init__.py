"""What the trees are fitted to, in every library's dialect: functions from scores to gradients.

In reading order:

    lambdas        the gradients of NDCG: which way each document should move, and how far
    dialects       what implementations differ in, as named settings, and what the libraries have there
    pairs          the specification: the lambdas of one query pair by pair
    pairwise       the same compiled, for every pairwise objective; `lambdas` is native's own, faster
    swaps          what a metric changes by when two documents change places, laid out for `pairwise`
    xendcg         a cross entropy instead of pairs
    preparation    a data set and any of these settings to a function from scores to gradients
    position_bias  clicks corrected for the position shown, by a term of the score or a divisor of pairs

The names of `preparation` are those of this package too.
"""

from ltrbench.native.objectives.preparation import (
    CrossEntropy,
    Objective,
    ObjectiveSettings,
    Queries,
    SquaredError,
    check_labels,
    check_settings,
    prepare,
)

__all__ = [
    "CrossEntropy",
    "Objective",
    "ObjectiveSettings",
    "Queries",
    "SquaredError",
    "check_labels",
    "check_settings",
    "prepare",
]
