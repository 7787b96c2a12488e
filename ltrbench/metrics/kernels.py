"""Compiled loops of the metrics, where NumPy is too slow: sorting of each query, and sums along a ranking.

Functions import this module when they need a kernel, because importing numba is slow and `--help` does not
need it. Each kernel follows its plain reference, which is its specification; a test compares the two. Queries
are independent, so the result is the same on any number of threads. `Values` are (D,), one per position or
one per document.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.shapes import PerQuery, QueryStart, Values

_MOST_SELECTED = 64
"""Largest depth of a selection, which moves up to this many keys per document [measured, random keys: at this
depth 1.5 times as fast as sorting]."""

_MOST_COUNTED = 64
"""Largest query whose pairs are all compared [measured, 40 documents and a depth of 10: 1.5 times as fast as
selecting, which mispredicts branches]."""


def reference_order(
    keys: Values, query_start: QueryStart, depth: int
) -> tuple[NDArray[np.int64], QueryStart]:
    """Sorts the rows of each query by descending key (stable), down to a depth.

    Args:
        depth: number of rows kept per query, plus the rows that tie with the last one.

    Returns:
        (P,), row at each kept position, and (Q + 1,), first position of each query.
    """
    kept = []
    for first, end in itertools.pairwise(query_start):
        rows = first + np.argsort(-keys[first:end], kind="stable")
        if depth < len(rows):
            last_key = keys[rows[depth - 1]]
            rows = rows[keys[rows] >= last_key]
        kept.append(rows)
    start = np.cumsum([0, *map(len, kept)])
    return np.concatenate(kept), start


@kernel
def order_within_queries(
    keys: Values, query_start: QueryStart, depth: int
) -> tuple[NDArray[np.int64], QueryStart]:
    """As `reference_order`; only the rows of the `depth` largest keys are sorted, and those that tie with the
    last one if there are any."""
    order = np.empty(len(keys), dtype=np.int64)
    position_start = np.zeros(len(query_start), dtype=np.int64)
    largest = 0
    for query in range(len(query_start) - 1):
        largest = max(largest, query_start[query + 1] - query_start[query])
    key = np.empty(largest)
    best = np.empty(largest)
    row = np.empty(largest, dtype=np.int64)
    rank = np.empty(_MOST_COUNTED, dtype=np.int64)
    num_equal = np.empty(_MOST_COUNTED, dtype=np.int64)
    for query in range(len(query_start) - 1):
        first = query_start[query]
        n = query_start[query + 1] - query_start[query]
        start = position_start[query]
        lowest = -np.inf
        if n <= _MOST_COUNTED:
            _count_above(keys[first : first + n], rank)
            num_equal[:n] = 0
            num_kept = 0
            for i in range(n):
                if rank[i] < depth:
                    order[start + rank[i] + num_equal[rank[i]]] = first + i
                    num_equal[rank[i]] += 1
                    num_kept += 1
            position_start[query + 1] = start + num_kept
            continue
        k = min(depth, n)
        if k <= _MOST_SELECTED:
            # Into `order`, which the query fills from `start` on.
            num_kept = _select_largest(keys[first : first + n], k, best, order[start:])
            lowest = best[k - 1]
            if num_kept == k:
                for i in range(start, start + k):
                    order[i] += first
                position_start[query + 1] = start + k
                continue
        num_sorted = 0
        for i in range(first, first + n):
            # Writes always and advances conditionally: the branch would be mispredicted often.
            key[num_sorted] = -keys[i]
            row[num_sorted] = i
            num_sorted += keys[i] >= lowest
        falling = np.argsort(key[:num_sorted], kind="mergesort")
        num_kept = num_sorted
        if depth < num_sorted:
            num_kept = depth
            while (
                num_kept < num_sorted
                and key[falling[num_kept]] == key[falling[depth - 1]]
            ):
                num_kept += 1
        # A loop, because assigning one slice to another compiles the text of NumPy's error, for two seconds.
        for i in range(num_kept):
            order[start + i] = row[falling[i]]
        position_start[query + 1] = start + num_kept
    return order[: position_start[-1]], position_start


@kernel
def _count_above(keys: Values, counts: NDArray[np.int64]) -> None:
    """Sets `counts` to the number of keys above each key, which is its rank from 0."""
    n = len(keys)
    counts[:n] = 0
    for j in range(n):
        for i in range(n):
            counts[i] += keys[j] > keys[i]


@kernel
def _select_largest(keys: Values, k: int, best: Values, rows: NDArray[np.int64]) -> int:
    """Selects the k largest keys, in descending order: `best` becomes the keys and `rows` their indices; of
    equal keys the first ones come first.

    Returns:
        The number of keys that are not below the k-th largest one: more than k if keys tie with it.
    """
    best[:k] = -np.inf
    for i in range(len(keys)):
        key = keys[i]
        if key > best[k - 1] or i < k:
            rank = min(i, k - 1)
            while rank > 0 and best[rank - 1] < key:
                best[rank] = best[rank - 1]
                rows[rank] = rows[rank - 1]
                rank -= 1
            best[rank] = key
            rows[rank] = i
    num_kept = 0
    for i in range(len(keys)):
        num_kept += keys[i] >= best[k - 1]
    return num_kept


def reference_run_means(values: Values, run_start: NDArray[np.int64]) -> Values:
    """Returns (D,) values, each replaced by the mean over its run; a run ends where the next one starts."""
    sizes = np.diff(np.append(run_start, len(values)))
    means: Values = np.repeat(np.add.reduceat(values, run_start) / sizes, sizes)
    return means


@kernel
def run_means(values: Values, run_start: NDArray[np.int64]) -> Values:
    """As `reference_run_means`, in one pass."""
    means = np.empty(len(values))
    for run in range(len(run_start)):
        first = run_start[run]
        end = run_start[run + 1] if run + 1 < len(run_start) else len(values)
        total = 0.0
        for position in range(first, end):
            total += values[position]
        for position in range(first, end):
            means[position] = total / (end - first)
    return means


def reference_expected_stop(stop: Values, run_end: NDArray[np.int64], k: int) -> float:
    """Returns, for one query, the expected 1 / rank at which the user stops, with ranks from 1 up to k.

    A user reads the ranking from the top and stops at document i with probability p_i = stop[i]. All orders
    of the documents of a run, which ends before run_end[i], are equally likely. The mean probability over
    these orders of passing the first j documents of a run of t is A_j = e_j(1 - p) / C(t, j), where e_j is
    the elementary symmetric polynomial. The user stops at the j-th document, from 0, with probability
    A_j - A_{j + 1}. Adding the documents one at a time, m of them so far, updates A by

        A_j  <-  ((m - j) / m) A_j + (j / m) (1 - p_m) A_{j - 1}
    """
    value = 0.0
    passed_before = 1.0
    first = 0
    while first < min(len(stop), k):
        end = int(run_end[first])
        passed = np.zeros(end - first + 1)  # A
        passed[0] = 1.0
        for m, p in enumerate(stop[first:end], start=1):
            j = np.arange(1, m + 1)
            one_more = (m - j) * passed[1 : m + 1] + j * (1.0 - p) * passed[:m]
            passed[1 : m + 1] = one_more / m
        for offset in range(min(end, k) - first):
            value += (
                passed_before
                * (passed[offset] - passed[offset + 1])
                / (first + offset + 1)
            )
        passed_before *= float(passed[-1])
        first = end
    return value


@kernel
def expected_stop(
    stop: Values, run_end: NDArray[np.int64], query_start: QueryStart, k: int
) -> PerQuery:
    """Returns (Q,), `reference_expected_stop` of each query; run_end counts over the whole data set."""
    values = np.zeros(len(query_start) - 1)
    for query in range(len(values)):
        start = query_start[query]
        last = min(query_start[query + 1], start + k)
        passed_before = 1.0
        first = start
        while first < last:
            end = run_end[first]
            # In a run that crosses the cutoff only the A up to the cutoff are needed: t k steps, not t^2.
            num_seen = min(end, last) - first
            passed = np.zeros(num_seen + 1)
            passed[0] = 1.0
            for m in range(1, end - first + 1):
                left = 1.0 - stop[first + m - 1]
                for j in range(min(m, num_seen), 0, -1):
                    passed[j] = ((m - j) * passed[j] + j * left * passed[j - 1]) / m
            for j in range(num_seen):
                values[query] += (
                    passed_before
                    * (passed[j] - passed[j + 1])
                    / (first + j + 1 - start)
                )
            passed_before *= passed[num_seen]
            first = end
    return values


def reference_count_pairs(
    grades: NDArray[np.int64], run_end: NDArray[np.int64]
) -> tuple[int, int, int, int]:
    """Returns, for one ranked query, the number of pairs ordered correctly, ordered wrongly, tied in score
    with different grades, and tied in score."""
    right = wrong = tied_differing = tied = 0
    for i in range(len(grades)):
        for j in range(i + 1, len(grades)):
            if j < run_end[i]:
                tied += 1
                tied_differing += grades[i] != grades[j]
            else:
                right += grades[i] > grades[j]
                wrong += grades[i] < grades[j]
    return right, wrong, tied_differing, tied


@kernel
def count_pairs(
    grades: NDArray[np.int64],
    num_grades: int,
    run_end: NDArray[np.int64],
    query_start: QueryStart,
) -> Values:
    """Returns (Q, 4), `reference_count_pairs` of each query, in n G steps instead of n^2.

    Args:
        grades: (D,), grade at each position, from 0 to num_grades - 1.

    The loop runs from the last run to the first and counts the documents below by grade.
    """
    counts = np.zeros((len(query_start) - 1, 4))
    below = np.zeros(num_grades, dtype=np.int64)
    in_run = np.zeros(num_grades, dtype=np.int64)
    for query in range(len(counts)):
        below[:] = 0
        end = query_start[query + 1]
        while end > query_start[query]:
            first = end - 1
            alike = 0
            while first > query_start[query] and run_end[first - 1] == end:
                first -= 1
            for i in range(first, end):
                counts[query, 0] += below[: grades[i]].sum()
                counts[query, 1] += below[grades[i] + 1 :].sum()
                alike += in_run[grades[i]]
                in_run[grades[i]] += 1
            for i in range(first, end):
                in_run[grades[i]] = 0
                below[grades[i]] += 1
            num_pairs = (end - first) * (end - first - 1) // 2
            counts[query, 2] += num_pairs - alike
            counts[query, 3] += num_pairs
            end = first
    return counts
