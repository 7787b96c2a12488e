"""Objectives: functions from scores to gradients and hessians, in the dialect of every library.

In reading order:

    lambdas        gradients and hessians of NDCG, with the fast kernel for default settings; `prepare`
    pairs          specification: the lambdas of one query, pair by pair, and the change of a metric by a swap
    pairwise       dialects of implementations, and the compiled kernel for all pairwise objectives
    xendcg         cross entropy of whole lists instead of pairs
    position_bias  correction of clicks for position bias, by a bias term or by weights of pairs

This package also exports `prepare` and its classes.
"""

from ltrbench.native.objectives.lambdas import (
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
