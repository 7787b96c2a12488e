"""Ranking: a query's documents in the order of falling scores, ties in the order of rows.

One tree makes few documents of a query change places. Inserting each where it belongs, from the order of the
last iteration, then takes half the time of sorting [measured]. Where it takes long, they are sorted: by a
sort of our own, because NumPy's takes seconds to compile. Shapes: n documents of the query.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel

Order = NDArray[np.uint32]  # (n,) or for each query of (D,): the numbers of its documents, from 0, best first
Values = NDArray[np.float64]


def reference_order(scores: Values) -> Order:
    """The specification."""
    return np.argsort(-scores, kind="stable").astype(np.uint32)


@kernel
def rank(scores: Values, order: Order) -> None:
    """Brings `order`, in which the documents stand in any other, into that of falling scores."""
    moves_left = 16 * len(order)
    for i in range(1, len(order)):
        row, j = order[i], i
        while j > 0 and _comes_first(scores, row, order[j - 1]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = row
        moves_left -= i - j
        if moves_left < 0:
            _merge_sort(scores, order)
            return


@kernel
def _comes_first(scores: Values, a: int, b: int) -> bool:
    return scores[a] > scores[b] or (scores[a] == scores[b] and a < b)


@kernel
def _merge_sort(scores: Values, order: Order) -> None:
    """Merges neighbouring runs of 1, 2, 4, ... documents."""
    n, width, merged = len(order), 1, np.empty(len(order), dtype=np.uint32)
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            a, b = first, middle
            for i in range(first, end):
                if b == end or (a < middle and _comes_first(scores, order[a], order[b])):
                    merged[i] = order[a]
                    a += 1
                else:
                    merged[i] = order[b]
                    b += 1
        for i in range(n):
            order[i] = merged[i]
        width *= 2
