"""Shuffles of the values of a feature, in a compiled loop.

`importance` imports this module when it needs the kernel, because importing numba is slow and `--help` does
not need it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.shapes import QueryStart


def reference_order_of_keys(keys: NDArray[np.float64], query_start: QueryStart) -> NDArray[np.int64]:
    """Specification: returns (D,), the rows of each query by ascending key; equal keys stay in row order.

    Args:
        keys: (D,), each from 0 to below 1.
    """
    query = np.repeat(np.arange(len(query_start) - 1), np.diff(query_start))
    return np.lexsort((keys, query))


@kernel
def order_of_keys(keys: NDArray[np.float64], query_start: QueryStart) -> NDArray[np.int64]:
    """As `reference_order_of_keys`: a bucket sort, with one bucket per document of the query.

    For random keys, each bucket has about one document, and the insertion sort that follows moves few.
    """
    order = np.empty(len(keys), dtype=np.int64)
    largest = 0
    for query in range(len(query_start) - 1):
        largest = max(largest, query_start[query + 1] - query_start[query])
    place = np.empty(largest + 1, dtype=np.uint64)
    for query in range(len(query_start) - 1):
        first, end = np.uint64(query_start[query]), np.uint64(query_start[query + 1])
        size = end - first
        place[: size + np.uint64(1)] = np.uint64(0)
        # A product below `size` may be rounded up to it: the last bucket is for these.
        for row in range(first, end):
            place[np.uint64(keys[np.uint64(row)] * float(size))] += np.uint64(1)
        total = first
        for b in range(size + np.uint64(1)):
            total, place[np.uint64(b)] = total + place[np.uint64(b)], total
        for row in range(first, end):
            bucket = np.uint64(keys[np.uint64(row)] * float(size))
            order[place[bucket]] = np.int64(row)
            place[bucket] += np.uint64(1)
        for i in range(first + np.uint64(1), end):
            row, j = order[np.uint64(i)], np.uint64(i)
            while j > first and keys[order[j - np.uint64(1)]] > keys[row]:
                order[j] = order[j - np.uint64(1)]
                j -= np.uint64(1)
            order[j] = row
    return order
