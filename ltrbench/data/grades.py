"""Compiled loops over grades (labels that are small whole numbers), where NumPy is too slow.

Callers import this module late, because `--help` should not wait for numba. Each kernel follows its plain
NumPy reference; a test compares the two.
"""

from __future__ import annotations

import itertools

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.shapes import Labels, QueryStart


def reference_are_whole(labels: Labels) -> bool:
    """Returns whether every label is a whole number."""
    return bool((labels == np.floor(labels)).all())


@kernel
def are_whole(labels: Labels) -> bool:
    """Computes `reference_are_whole` without allocating the array of floors, which dominates its time."""
    num_between = 0
    for label in labels:
        num_between += label != np.floor(label)
    return num_between == 0


def reference_best_first(labels: Labels, query_start: QueryStart) -> Labels:
    """Returns (D,), the labels of each query in descending order."""
    return np.concatenate([-np.sort(-labels[first:end]) for first, end in itertools.pairwise(query_start)])


@kernel
def grades_best_first(grades: Labels, query_start: QueryStart, highest: int) -> Labels:
    """Computes `reference_best_first` for whole labels up to `highest` by counting, ten times as fast."""
    best_first = np.empty(len(grades))
    counts = np.zeros(highest + 1, dtype=np.int64)
    for query in range(len(query_start) - 1):
        counts[:] = 0
        for row in range(query_start[query], query_start[query + 1]):
            counts[int(grades[row])] += 1
        place = query_start[query]
        for grade in range(highest, -1, -1):
            best_first[place : place + counts[grade]] = grade
            place += counts[grade]
    return best_first
