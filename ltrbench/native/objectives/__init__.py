"""Objectives: functions from scores to gradients and hessians, in the dialect of every library.

In reading order:

    lambdas        gradients and hessians of NDCG, with the fast kernel for native's default settings
    dialects       settings in which implementations of LambdaMART differ
    pairs          specification: the lambdas of one query, pair by pair
    pairwise       compiled kernel for all pairwise objectives and dialects
    swaps          closed forms for the change of a metric when two documents are swapped, for `pairwise`
    xendcg         cross entropy of whole lists instead of pairs
    preparation    objective function for a data set and settings
    position_bias  correction of clicks for position bias, by a bias term or by weights of pairs

This package also exports the names of `preparation`.
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
