"""Queries in several sets: found by their keys, and counted once.

A query is identified by its key (`ltrbench.data.query_keys`). All functions take arrays of keys, not runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.query_keys import QueryKeys
from ltrbench.statistics import PairedSample
from ltrbench.tables import listed


@dataclass(frozen=True)
class Shared:
    """Number of repeated queries.

    Attributes:
        num_queries: Number of queries in all sets, with repetitions.
        num_distinct: Number of distinct queries in all sets.
        in_several: Number of distinct queries that are in more than one set.
    """

    num_queries: int
    num_distinct: int
    in_several: int


def shared(keys_of_set: Sequence[QueryKeys]) -> Shared:
    """Counts the queries of one or more sets, and those that are in several sets."""
    of_set = [np.unique(keys) for keys in keys_of_set]
    _, counts = np.unique(np.concatenate(of_set), return_counts=True)
    return Shared(sum(map(len, keys_of_set)), len(counts), int((counts > 1).sum()))


def clustered(sample: PairedSample, keys: QueryKeys) -> PairedSample:
    """Returns the sample with each distinct query once; the sample itself if no query repeats.

    The weight of a query is the sum of its weights, and its value is the weighted mean of its values, so that
    the means of the sample do not change. If a query is in several strata, the result has one stratum.

    Args:
        keys: (Q,), keys of the queries of the sample.
    """
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(firsts) == len(keys):
        return sample
    order = np.argsort(firsts)
    number = np.argsort(order)[inverse]
    firsts = firsts[order]
    weights = np.bincount(number, sample.weights)
    sums = np.array([np.bincount(number, row * sample.weights) for row in sample.values], dtype=np.float64)
    strata = sample.strata[firsts]
    if (strata[number] != sample.strata).any():
        strata = np.zeros_like(strata)
    return PairedSample(sums / weights, weights.astype(np.float64), strata)


def same_sets(keys_of_set: Sequence[QueryKeys]) -> list[list[int]]:
    """Returns a list of indices for each group of two or more sets with the same queries.

    Empty sets are left out.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for number, keys in enumerate(keys_of_set):
        groups.setdefault(frozenset(keys.tolist()), []).append(number)
    return [numbers for queries, numbers in groups.items() if queries and len(numbers) > 1]


def sharing(ours: Sequence[QueryKeys], theirs: Sequence[QueryKeys]) -> NDArray[np.int64]:
    """Returns the number of distinct queries that each two sets share, (len(ours), len(theirs))."""
    of_ours, of_theirs = ([set(keys.tolist()) for keys in sets] for sets in (ours, theirs))
    return np.array([[len(a & b) for b in of_theirs] for a in of_ours], dtype=np.int64)


def repeats_in_words(counts: Shared) -> str:
    """Returns a sentence on repeated queries in test sets; empty if there are none."""
    if counts.in_several:
        return (
            f"Test sets overlap: they contain {counts.num_distinct:,} distinct queries "
            f"{counts.num_queries:,} times; each counts once in tests."
        )
    if counts.num_distinct < counts.num_queries:
        return (
            f"Queries repeat: the test set contains {counts.num_distinct:,} distinct queries (by documents "
            f"and labels) {counts.num_queries:,} times under different ids; each counts once in tests."
        )
    return ""


def same_folds_in_words(groups: Sequence[Sequence[int]]) -> list[str]:
    """Returns a sentence for each group of folds with one test set."""
    return [
        f"Folds {listed([str(fold) for fold in folds])} have the same test set: they are not folds of a "
        "cross-validation, and there is no test over folds."
        for folds in groups
    ]


def seen_in_words(leaks: Sequence[tuple[int, int]]) -> str:
    """Returns which validation queries are test queries of other folds, and the consequence.

    Args:
        leaks: (fold of the validation set, fold of the test set).

    >>> seen_in_words([(1, 5), (2, 1), (2, 3)])
    'validation queries of fold 1 are test queries of fold 5, and of fold 2 test queries of folds 1 and 3: \
one setting chosen by the validation of all folds has seen test data'
    """
    of_fold: dict[int, list[str]] = {}
    for valid, test in leaks:
        of_fold.setdefault(valid, []).append(str(test))
    first, *others = [
        (valid, f"fold{'s' * (len(tests) > 1)} {listed(tests)}") for valid, tests in of_fold.items()
    ]
    parts = [
        f"validation queries of fold {first[0]} are test queries of {first[1]}",
        *(f"and of fold {valid} test queries of {tests}" for valid, tests in others),
    ]
    return f"{', '.join(parts)}: one setting chosen by the validation of all folds has seen test data"
