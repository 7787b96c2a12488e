"""Grades, the labels that are small whole numbers: loops over them that NumPy would take too long for.

Imported by whoever needs a kernel, when it does, because `--help` needs none and would wait for numba. Each
kernel stands below its plain reference; a test holds the two together.
"""

from __future__ import annotations

import itertools

import numpy as np

from ltrbench.compilation import kernel
from ltrbench.shapes import Labels, QueryStart


def reference_are_whole(labels: Labels) -> bool:
    """Whether every label is a whole number."""
    return bool((labels == np.floor(labels)).all())


@kernel
def are_whole(labels: Labels) -> bool:
    """As `reference_are_whole`, without the memory of the floors, which takes longer to get than to fill."""
    num_between = 0
    for label in labels:
        num_between += label != np.floor(label)
    return num_between == 0


def reference_best_first(labels: Labels, query_start: QueryStart) -> Labels:
    """(D,), the labels of each query from the highest to the lowest."""
    return np.concatenate([-np.sort(-labels[first:end]) for first, end in itertools.pairwise(query_start)])


@kernel
def grades_best_first(grades: Labels, query_start: QueryStart, highest: int) -> Labels:
    """As `reference_best_first`, of whole labels up to `highest`: counted, which is a tenth of a sort."""
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
