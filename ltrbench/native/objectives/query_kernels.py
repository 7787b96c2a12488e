"""What objectives of queries share: the loop over queries, random numbers, and gains.

An objective that is one function of a query decorates this function with `for_each_query`:

    @for_each_query
    def centred(scores, labels, weights, seed, query, settings, gradients, hessians):
        mean = 0.0
        for i in range(len(scores)):
            ...
            gradients[i], hessians[i] = ..., ...

`centred(scores, data, seed, settings)` then returns the gradients and hessians of all queries, which are
computed in parallel. All arrays are (n,), the documents of one query; `gradients` and `hessians` are 0 at the
beginning. `settings` is a number, or a tuple of numbers and arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ltrbench.compilation import Part, in_parts, kernel
from ltrbench.data import Judgments
from ltrbench.metrics import DEFAULT
from ltrbench.metrics.evaluation import check_defined
from ltrbench.native.objectives.base import ObjectiveData
from ltrbench.native.objectives.sorting import gather, order_of
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values

FAR = 300.0
"""Difference of scores from which exponentials need a base near each document."""


def for_each_query(
    one_query: Callable[..., None],
) -> Callable[..., tuple[Gradients, Hessians]]:
    """Compiles the function of one query, and returns the function of all queries."""
    # A copy of the loop with the function as a global: numba does not cache loops with it as an argument.
    scope = {"one_query": kernel(one_query), "__name__": __name__}
    loop = FunctionType(_loop.__code__, scope)
    loop.__qualname__ = f"{one_query.__module__}.{one_query.__qualname__}"
    compiled = kernel(loop)

    @functools.wraps(one_query)
    def all_queries(
        scores: Values, data: ObjectiveData, seed: int, settings: Any
    ) -> tuple[Gradients, Hessians]:
        sums = np.zeros((2, len(scores)))
        arguments = scores, seed, settings, sums
        in_parts(compiled, len(data.queries), data, arguments)
        return sums[0], sums[1]

    return all_queries


def _loop(
    part: Part, data: ObjectiveData, arguments: tuple[Values, int, Any, Values]
) -> None:
    scores, seed, settings, sums = arguments
    g = sums[0]
    h = sums[1]
    for q in range(part[0], part[1]):
        a = data.query_start[q]
        b = data.query_start[q + 1]
        arrays = scores[a:b], data.labels[a:b], data.weights[a:b]
        one_query(*arrays, seed, data.queries[q], settings, g[a:b], h[a:b])  # type: ignore[name-defined]  # noqa: F821


@kernel
def draw(seed: int, query: int, index: int) -> float:
    """Returns a uniform random number in (0, 1), a function of its arguments alone.

    Steele, Lea and Flood, 2014, "Fast Splittable Pseudorandom Number Generators": the finalizer of
    SplitMix64, applied to each argument.
    """
    bits = _mixed(np.uint64(seed))
    bits = _mixed(bits ^ np.uint64(query))
    bits = _mixed(bits ^ np.uint64(index))
    return (np.float64(bits >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel
def draw_normal(seed: int, query: int, index: int) -> float:
    """Returns a standard normal random number, a function of its arguments alone (Box and Muller, 1958)."""
    radius = np.sqrt(-2.0 * np.log(draw(seed, query, 2 * index)))
    normal: float = radius * np.cos(2.0 * np.pi * draw(seed, query, 2 * index + 1))
    return normal


@kernel
def exponentials(s: Values, base: float) -> Values:
    """Returns exp(s - base), between exp(-300) and exp(300), whose products do not overflow."""
    above_lowest = np.maximum(s - base, -FAR)
    return np.exp(np.minimum(above_lowest, FAR))


def check_gains(labels: Labels, query_start: QueryStart) -> None:
    """Raises DataError if a label has no gain 2^label - 1 or an infinite one."""
    check_defined(
        "ndcg", None, DEFAULT, Judgments(labels=labels, query_start=query_start)
    )


@kernel
def gains_of(
    labels: Values, is_exponential: bool, is_normalized: bool, top: int
) -> Values:
    """Returns the (n,) gains of DCG.

    Args:
        is_exponential: whether the gain of a label is 2^label - 1 instead of the label.
        is_normalized: whether gains are divided by the best DCG of the first `top` ranks, as in NDCG.
    """
    gains = labels.copy()
    if is_exponential:
        for i in range(len(labels)):
            gains[i] = _power_of_two(labels[i]) - 1.0
    if is_normalized:
        best_first = gather(gains, order_of(gains))
        best = 0.0
        for r in range(min(top, len(labels))):
            if best_first[r] <= 0.0:
                break
            best += best_first[r] * (1.0 / np.log2(r + 2.0))
        if best > 0.0:
            gains /= best
    return gains


@kernel
def _power_of_two(x: float) -> float:
    """Returns 2^x; for an integer, such as most labels, by a shift of bits instead of a call."""
    whole = np.int64(x)
    if whole == x and 0 <= whole < 63:
        return np.float64(np.int64(1) << whole)
    power: float = np.exp2(x)
    return power


@kernel
def discounts_of(n: int, top: int) -> Values:
    """Returns the (n,) discounts of DCG by rank, which are 0 below `top`."""
    discounts: Values = 1.0 / np.log2(np.arange(n) + 2.0)
    discounts[top:] = 0.0
    return discounts


@kernel
def _mixed(bits: Any) -> Any:
    bits += np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
