"""Sums of floats that depend neither on the order of the values nor on their division among members.

Every addition of floats rounds, so that the last bits of a sum depend on the order. Additions of integers are
exact. Each value is therefore divided into two integers, and the integers are added. Let 2^e be a power of
two above all |x|, n the number of values, and b = 62 - ceil(log2 n):

    x    = 2^(e - b) (high + low / 2^b)
    high = x / 2^(e - b), rounded towards 0;   low = the rest, rounded to an integer
    sum  = 2^(e - b) (sum of high + sum of low / 2^b)

|high| and |low| are at most 2^b, so that n of them fit into 62 bits. The rounding of low adds an error of at
most n 2^(e - 2b) / 2, which is 2^-65 of the largest value for a million values; the conversion of the sum to
float64 rounds twice. e and n belong to the whole training set, and so every member uses the same ones, also
for sums over some of the documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel, parallel_kernel
from ltrbench.native.team import ALONE, Team
from ltrbench.shapes import Values

SumParts = NDArray[np.int64]  # (2, ...), sums of high and sums of low
Scales = tuple[float, float, float]
"""Two factors whose product is 2^(b - e), because one float cannot represent it for the smallest e; 2^b."""


class Units(NamedTuple):
    """The units of the two integers of a value: 2^(exponent - bits) and 2^(exponent - 2 bits).

    Attributes:
        exponent: e.
        bits: b.
    """

    exponent: int
    bits: int

    @property
    def scales(self) -> Scales:
        power = self.bits - self.exponent
        return math.ldexp(1.0, power // 2), math.ldexp(1.0, power - power // 2), math.ldexp(1.0, self.bits)

    def value(self, parts: SumParts) -> NDArray[np.float64]:
        """Returns the (...) sums as floats, given their (2, ...) parts."""
        high, low = parts.astype(np.float64)
        power = self.exponent - self.bits
        return np.asarray(np.ldexp(high, power) + np.ldexp(low, power - self.bits))


def units(max_abs: float, count: int) -> Units:
    """Returns the units for at most `count` values of at most `max_abs`."""
    return Units(math.frexp(max_abs)[1], 62 - (count - 1).bit_length())


def units_of(arrays: Sequence[Values], team: Team = ALONE, count: int | None = None) -> list[Units]:
    """Returns the units for each array of this member's values; members exchange them at once.

    Args:
        arrays: (n,) each.
        team: the members.
        count: number of values of all members in an array; None: those of this member are all.
    """
    sizes = [max(values.max(initial=0.0), -values.min(initial=0.0)) for values in arrays]
    largest = team.largest(np.array(sizes)).tolist()
    counts = [len(values) if count is None else count for values in arrays]
    return [units(*pair) for pair in zip(largest, counts, strict=True)]


def reference_parts(values: Values, units: Units) -> SumParts:
    """Specification: returns the (2,) parts of the sum."""
    first, second, low_scale = units.scales
    scaled = values * first * second
    high = np.trunc(scaled)
    low = np.rint((scaled - high) * low_scale)
    return np.array([high.astype(np.int64).sum(), low.astype(np.int64).sum()])


VALUES_SUMMED = 8192
"""Number of values per block of a sum."""


def sums_of(arrays: Sequence[Values], team: Team = ALONE, count: int | None = None) -> list[float]:
    """Returns the sum over the values of all members in each array; arguments as in `units_of`."""
    units = units_of(arrays, team, count)
    parts = np.empty((len(arrays), 2), dtype=np.int64)
    for i, values in enumerate(arrays):
        of_blocks = np.empty((-(-len(values) // VALUES_SUMMED), 2), dtype=np.int64)
        _sum_blocks(values, units[i].scales, of_blocks)
        parts[i] = of_blocks.sum(axis=0)
    return [float(each.value(part)) for each, part in zip(units, team.total(parts), strict=True)]


def sum_by_group(
    groups: NDArray[np.int64],
    values: Values,
    num_groups: int,
    team: Team = ALONE,
    count: int | None = None,
) -> NDArray[np.float64]:
    """Returns the (num_groups,) sums of the values of each group, for the (n,) groups of the values."""
    (units,) = units_of([values], team, count)
    parts = np.zeros((2, num_groups), dtype=np.int64)
    _sum_groups(groups, values, units.scales, parts)
    return units.value(team.total(parts))


def sums_by_leaf(
    rows: NDArray[np.uint32],
    leaf_start: NDArray[np.int64],
    arrays: Sequence[Values],
    team: Team = ALONE,
    count: int | None = None,
) -> list[NDArray[np.float64]]:
    """Returns the (L,) sums over the documents of all members in each leaf, for each array of values.

    Args:
        rows: (n,), documents of this member, grouped by leaf.
        leaf_start: (L + 1,), start of each leaf's documents in `rows`, followed by n.
        arrays: (D,) each.
        team: the members.
        count: as in `units_of`.
    """
    units = units_of(arrays, team, count)
    parts = np.empty((len(arrays), 2, len(leaf_start) - 1), dtype=np.int64)
    for values, each, part in zip(arrays, units, parts, strict=True):
        _sum_leaves(rows, leaf_start, values, each.scales, part)
    return [each.value(part) for each, part in zip(units, team.total(parts), strict=True)]


@inlined_kernel
def _divided(value: float, scales: Scales) -> tuple[np.int64, np.int64]:
    scaled = value * scales[0] * scales[1]
    high = np.int64(scaled)
    return high, np.int64(np.rint((scaled - np.float64(high)) * scales[2]))


@parallel_kernel
def _sum_blocks(values: Values, scales: Scales, parts: NDArray[np.int64]) -> None:
    for block in numba.prange(len(parts)):
        part = values[block * VALUES_SUMMED : (block + 1) * VALUES_SUMMED]
        parts[block, 0], parts[block, 1] = _sum_block(part, scales)


@kernel
def _sum_block(values: Values, scales: Scales) -> tuple[np.int64, np.int64]:
    sum_high, sum_low = np.int64(0), np.int64(0)
    for value in values:
        high, low = _divided(value, scales)
        sum_high += high
        sum_low += low
    return sum_high, sum_low


@kernel
def _sum_groups(groups: NDArray[np.int64], values: Values, scales: Scales, parts: SumParts) -> None:
    for i in range(len(values)):
        high, low = _divided(values[i], scales)
        parts[0, groups[i]] += high
        parts[1, groups[i]] += low


@parallel_kernel
def _sum_leaves(
    rows: NDArray[np.uint32], leaf_start: NDArray[np.int64], values: Values, scales: Scales, parts: SumParts
) -> None:
    for leaf in numba.prange(len(leaf_start) - 1):
        rows_of_leaf = rows[leaf_start[leaf] : leaf_start[leaf + 1]]
        parts[0, leaf], parts[1, leaf] = _sum_rows(rows_of_leaf, values, scales)


@kernel
def _sum_rows(rows: NDArray[np.uint32], values: Values, scales: Scales) -> tuple[np.int64, np.int64]:
    sum_high, sum_low = np.int64(0), np.int64(0)
    for row in rows:
        high, low = _divided(values[row], scales)
        sum_high += high
        sum_low += low
    return sum_high, sum_low
