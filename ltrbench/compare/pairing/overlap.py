"""Queries that stand in several sets: found by their keys, and counted once.

A query is known by its key (`ltrbench.data.query_keys`). Everything here works on arrays of keys and knows no
runs.
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
    """How often queries repeat.

    Attributes:
        num_queries: of all sets, each as often as it stands in them.
        num_distinct: the same, each query once.
        in_several: distinct queries that stand in more than one set.
    """

    num_queries: int
    num_distinct: int
    in_several: int


def shared(keys_of_set: Sequence[QueryKeys]) -> Shared:
    """Counts the queries of the sets, at least one, and those that stand in several of them."""
    of_set = [np.unique(keys) for keys in keys_of_set]
    _, counts = np.unique(np.concatenate(of_set), return_counts=True)
    return Shared(sum(map(len, keys_of_set)), len(counts), int((counts > 1).sum()))


def clustered(sample: PairedSample, keys: QueryKeys) -> PairedSample:
    """Returns the sample with each distinct query once; the sample itself where no query repeats.

    A query's share is the sum of its shares, and its value the mean of its values, weighted by them. The
    means of the sample stay what they are. Where a query stands in several strata, there is one stratum.

    Args:
        keys: (Q,), of the sample's queries.
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
    """Returns the numbers of the sets that have the same queries, a list for each two or more of them.

    Sets without a query are not compared.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for number, keys in enumerate(keys_of_set):
        groups.setdefault(frozenset(keys.tolist()), []).append(number)
    return [numbers for queries, numbers in groups.items() if queries and len(numbers) > 1]


def sharing(ours: Sequence[QueryKeys], theirs: Sequence[QueryKeys]) -> NDArray[np.int64]:
    """(len(ours), len(theirs)), the number of distinct queries that each two sets share."""
    of_ours, of_theirs = ([set(keys.tolist()) for keys in sets] for sets in (ours, theirs))
    return np.array([[len(a & b) for b in of_theirs] for a in of_ours], dtype=np.int64)


def repeats_in_words(counts: Shared) -> str:
    """The sentence on queries that repeat in test sets; empty where none does."""
    if counts.in_several:
        return (
            f"Test sets overlap: {counts.num_distinct:,} distinct queries stand in them "
            f"{counts.num_queries:,} times; each counts once in tests."
        )
    if counts.num_distinct < counts.num_queries:
        return (
            f"Queries repeat: {counts.num_distinct:,} distinct queries, by their documents and labels, stand "
            f"in the test set {counts.num_queries:,} times under different ids; each counts once in tests."
        )
    return ""


def same_folds_in_words(groups: Sequence[Sequence[int]]) -> list[str]:
    """A sentence for each group of fold numbers that have one test set."""
    return [
        f"Folds {listed([str(fold) for fold in folds])} have one test set: they are not folds, and there is "
        "no test over folds."
        for folds in groups
    ]


def seen_in_words(leaks: Sequence[tuple[int, int]]) -> str:
    """Which folds' validation queries are test queries of which others, and what follows from it.

    Args:
        leaks: (fold of the validation set, fold of the test set).

    >>> seen_in_words([(1, 5), (2, 1), (2, 3)])
    'validation queries of fold 1 are test queries of fold 5, of fold 2 those of folds 1 and 3: one setting \
chosen by the validation of all folds has seen test data'
    """
    of_fold: dict[int, list[str]] = {}
    for valid, test in leaks:
        of_fold.setdefault(valid, []).append(str(test))
    first, *others = [
        (valid, f"fold{'s' * (len(tests) > 1)} {listed(tests)}") for valid, tests in of_fold.items()
    ]
    parts = [
        f"validation queries of fold {first[0]} are test queries of {first[1]}",
        *(f"of fold {valid} those of {tests}" for valid, tests in others),
    ]
    return f"{', '.join(parts)}: one setting chosen by the validation of all folds has seen test data"
