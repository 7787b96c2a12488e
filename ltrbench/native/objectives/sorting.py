"""Sorts the documents of a query by descending score; tied documents keep the order of rows.

Insertion sort starts from an order in which few documents have to move: that of the previous iteration, as
one tree changes the ranks of few documents, or that of buckets, two per document, whose scores descend. If it
needs too many moves, a merge sort takes over. It is implemented here because NumPy's sort takes seconds to
compile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.shapes import Values

# (n,), or (D,) query by query: document indices within the query, best first.
RankOrder = NDArray[np.uint32]
Buckets = NDArray[np.uint32]
SortingMemory = tuple[RankOrder, Buckets, Buckets]


@kernel
def sort_by_score(scores: Values, order: RankOrder) -> None:
    """Sorts `order`, in place, by descending score; tied documents keep the order of rows."""
    moves_left = 16 * len(order)
    for i in range(1, len(order)):
        row = order[i]
        j = i
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
    comes_first: bool = scores[a] > scores[b]
    if scores[a] == scores[b]:
        comes_first = a < b
    return comes_first


@kernel
def _merge_sort(scores: Values, order: RankOrder) -> None:
    """Sorts by merging neighbouring runs of 1, 2, 4, ... documents."""
    n = len(order)
    width = 1
    merged = np.empty(len(order), dtype=np.uint32)
    while width < n:
        for first in range(0, n, 2 * width):
            middle = min(first + width, n)
            end = min(first + 2 * width, n)
            a = first
            b = middle
            for i in range(first, end):
                if b == end or (
                    a < middle and _comes_first(scores, order[a], order[b])
                ):
                    merged[i] = order[a]
                    a += 1
                else:
                    merged[i] = order[b]
                    b += 1
        for i in range(n):
            order[i] = merged[i]
        width *= 2


@kernel
def order_of(scores: Values) -> RankOrder:
    """Returns the (n,) rows by descending score; tied documents keep the order of rows."""
    memory = memory_for_sorting(len(scores))
    write_order(scores, memory)
    return memory[0]


@kernel
def memory_for_sorting(n: int) -> SortingMemory:
    """Returns the (n,) order, the (n,) bucket of each row and the (2 n,) starts of buckets, unwritten."""
    return (
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.uint32),
        np.empty(2 * n, dtype=np.uint32),
    )


@kernel
def write_order(scores: Values, memory: SortingMemory) -> None:
    """Writes the order of `order_of`, from buckets of equally wide ranges of scores."""
    _, bucket_of, _ = memory
    num_buckets = 2.0 * len(scores)
    highest = scores.max()
    scale = (num_buckets - 1.0) / (highest - scores.min())
    for i in range(len(scores)):
        bucket = (highest - scores[i]) * scale
        if not bucket < num_buckets:
            bucket = 0.0  # for all scores, if all are equal
        bucket_of[i] = np.uint32(bucket)
    write_order_from_buckets(scores, memory)


@kernel
def write_order_from_buckets(scores: Values, memory: SortingMemory) -> None:
    """Writes the order of `order_of`. No score is higher than those of earlier buckets."""
    order, bucket_of, starts = memory
    starts[:] = 0
    for i in range(len(scores)):
        starts[bucket_of[i]] += 1
    num_before = 0
    for bucket in range(len(starts)):
        num_of_bucket = starts[bucket]
        starts[bucket] = num_before
        num_before += num_of_bucket
    for i in range(len(scores)):
        order[starts[bucket_of[i]]] = i
        starts[bucket_of[i]] += 1
    sort_by_score(scores, order)


@kernel
def gather(values: Values, order: RankOrder) -> Values:
    """Returns values[order]; a loop, because NumPy's indexing takes seconds to compile."""
    gathered = np.empty(len(order))
    for i in range(len(order)):
        gathered[i] = values[order[i]]
    return gathered
