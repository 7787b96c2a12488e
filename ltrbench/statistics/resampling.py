"""Sign flips and bootstrap draws of all rows at once, with the same bits on any number of threads.

The draws are a matrix with one row per draw: the signs, or the number of times each query was drawn. Its
product with the values gives all draws of all rows. It is computed in blocks to bound the memory.

The summation order of a matrix product depends on threads and processor. The values are therefore first
rounded to a grid, as whole numbers small enough that no sum is rounded: such sums are equal in any order. The
rounding error is below 1e-9 of the largest value at a million queries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.shapes import Values
from ltrbench.statistics.sample import DECIMALS, PairedSample

_EXACT_BITS = 51
"""float64 is exact for whole numbers below 2^53; one bit is for doubling a sum, one for rounding."""

_BLOCK = 2**21
"""Number of signs or counts per block, 16 MB; measured, larger blocks exceed the processor's cache."""

_SIGNS, _COUNTS = 0, 1
"""Streams of random numbers of one seed."""


class Bootstrap(NamedTuple):
    """draws (B, M), means of resampled queries; point (M,), the mean itself, computed in the same way."""

    draws: NDArray[np.float64]
    point: NDArray[np.float64]

    def differences(self, pairs: Sequence[tuple[int, int]]) -> Bootstrap:
        """Returns the draws of row a minus row b for each pair (a, b); both rows have the same queries."""
        first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        # Two equal rows must tie even if the last bits of their sums differ.
        return Bootstrap(
            np.round(self.draws[:, first] - self.draws[:, second], DECIMALS),
            np.round(self.point[first] - self.point[second], DECIMALS),
        )


def sign_flip_p_values(differences: PairedSample, num_draws: int, seed: int) -> NDArray[np.float64]:
    """Returns (M,), two-sided p-values of the paired randomisation test, p = (b + 1) / (B + 1).

    b of B draws have |sum_i s_i share_i d_i| >= |sum_i share_i d_i|, where each sign s_i is +1 or -1 with
    probability 1/2 (Fisher, 1935; for retrieval Smucker, Allan and Carterette, 2007, CIKM). Adding 1 keeps p
    above 0 and the level valid for any B (Phipson and Smyth, 2010).

    Assumes independent queries, and that under the null hypothesis the values of the two systems on a query
    are exchangeable: a difference and its negative are equally likely. It does not assume a normal
    distribution. If all differences are 0, p = 1.
    """
    rng = _generator(num_draws, seed, _SIGNS)
    num_queries = differences.num_queries
    wholes, _ = _on_grid(differences.weights * differences.values)
    totals = wholes.sum(axis=1)
    # Tolerance for sums that differ only by the rounding to the grid: 1/2 per query, for each of the two
    # sums.
    least = np.abs(totals) - num_queries
    reached = np.zeros(len(wholes), dtype=np.int64)
    for num_rows in _blocks(num_draws, num_queries):
        words = rng.bit_generator.random_raw((num_rows, -(-num_queries // 64)))
        heads = np.unpackbits(words.view(np.uint8), axis=1, count=num_queries).astype(np.float64)
        reached += (np.abs(2 * (heads @ wholes.T) - totals) >= least).sum(axis=0)
    return (reached + 1) / (num_draws + 1)


@functools.lru_cache(maxsize=1)
def bootstrap(sample: PairedSample, num_draws: int, seed: int) -> Bootstrap:
    """Returns means of queries drawn with replacement within each stratum (Efron and Tibshirani, 1993, 8.3).

    The mean of a draw is sum_c S_c (sum_i k_i share_i x_i) / (sum_i k_i share_i) over the strata c, where
    query i was drawn k_i times and S_c is the share of the stratum. A query is drawn with the values of all
    systems. The draws of the last sample are cached, because several statistics use them and drawing is slow.
    """
    rng = _generator(num_draws, seed, _COUNTS)
    grids = [_on_grid(_weighted(sample, cell)) for cell in sample.cells]
    shares = [float(sample.weights[cell].sum()) for cell in sample.cells]
    draws = np.zeros((num_draws, len(sample.values)))
    start = 0
    for num_rows in _blocks(num_draws, sample.num_queries):
        block = draws[start : start + num_rows]
        for grid, share in zip(grids, shares, strict=True):
            block += share * _drawn_means(_counts(rng, num_rows, grid.wholes.shape[1]), grid)
        start += num_rows
    once = [_drawn_means(np.ones((1, grid.wholes.shape[1])), grid)[0] for grid in grids]
    point = np.zeros(len(sample.values))
    for share, means in zip(shares, once, strict=True):
        point += share * means
    return Bootstrap(draws, point)


def _generator(num_draws: int, seed: int, stream: int) -> np.random.Generator:
    if num_draws < 1:
        raise ConfigError(f"num_draws is {num_draws}; give at least 1; 10,000 is recommended.")
    return np.random.default_rng([seed, stream])


class _Grid(NamedTuple):
    """wholes (M, n), whole numbers, and units (M,), powers of two; wholes * units[:, None] are the values."""

    wholes: Values
    units: NDArray[np.float64]


def _on_grid(values: Values) -> _Grid:
    """Returns each row in the finest unit in which no sum of n of its values, repeated or not, is rounded."""
    bounds = values.shape[1] * np.abs(values).max(axis=1, initial=0)
    exponents = np.frexp(bounds)[1] - _EXACT_BITS
    return _Grid(np.rint(np.ldexp(values, -exponents[:, np.newaxis])), np.ldexp(1.0, exponents))


def _weighted(sample: PairedSample, cell: NDArray[np.intp]) -> Values:
    """Returns (M + 1, n): numerators of the weighted means of a stratum, and their common denominator."""
    return np.vstack([sample.values[:, cell], np.ones(len(cell))]) * sample.weights[cell]


def _drawn_means(counts: Values, grid: _Grid) -> NDArray[np.float64]:
    """Returns the means (B, M) from the counts (B, n)."""
    sums = counts @ grid.wholes.T * grid.units
    means: NDArray[np.float64] = sums[:, :-1] / sums[:, -1:]
    return means


def _counts(rng: np.random.Generator, num_rows: int, num_queries: int) -> Values:
    """Returns (num_rows, n), the number of times each of n queries was drawn in n draws."""
    counts = np.empty((num_rows, num_queries))
    for row, drawn in zip(counts, rng.integers(num_queries, size=(num_rows, num_queries)), strict=True):
        row[:] = np.bincount(drawn, minlength=num_queries)
    return counts


def _blocks(num_draws: int, num_queries: int) -> Iterator[int]:
    """Yields the number of draws of each block."""
    most = max(1, _BLOCK // max(num_queries, 1))
    for start in range(0, num_draws, most):
        yield min(most, num_draws - start)
