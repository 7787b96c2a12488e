"""Histograms of gradients, and sums that do not depend on the order of documents.

Histograms: the sums of a leaf's gradients and hessians for every bin of every column.

    histogram[bin_start[c] + b] = sum of packed[d] over the leaf's documents d whose bin in column c is b

The gradient and the hessian of a document are rounded to integers and packed into one 64-bit integer, with
the signed gradient in the upper 32 bits and the unsigned hessian in the lower 32 bits:

    packed[d] = round(g_d / gradient_unit) * 2^32 + round(h_d / hessian_unit)
    gradient_unit = sum |g| / (2^31 - 1 - D),   hessian_unit = sum h / (2^32 - 1 - D)

Rounding adds at most 1/2 per document, so that the sum over any set of documents fits into 32 bits. Compared
with two float64 sums, packing has three advantages: one addition per cell instead of two, which takes 0.6 of
the time [measured on 200,000 x 136]; sums that do not depend on the order of documents or threads; and a
sibling that is exactly parent minus child. A unit is about 1e-9 of the sum, so that splits equal those of
float64 except for near ties. Leaf values are computed from unrounded gradients.

Histograms do not count documents, because a second addition per cell would take 50 % more time [measured].
`splitting` counts documents for the few columns that need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, inlined_kernel, kernel
from ltrbench.native.bins import AnyBins, Rows
from ltrbench.native.team import ALONE, Team
from ltrbench.shapes import Gradients, Hessians, Values

# ---- Sums of floats that depend neither on the order of the values nor on their division among members.
#
# Every addition of floats rounds, so that the last bits of a sum depend on the order. Additions of integers
# are exact. Each value is therefore divided into two integers, and the integers are added. Let 2^e be a
# power of two above all |x|, n the number of values, and b = 62 - ceil(log2 n):
#
#     x    = 2^(e - b) (high + low / 2^b)
#     high = x / 2^(e - b), rounded towards 0;   low = the rest, rounded to an integer
#     sum  = 2^(e - b) (sum of high + sum of low / 2^b)
#
# |high| and |low| are at most 2^b, so that n of them fit into 62 bits. The rounding of low adds an error of
# at most n 2^(e - 2b) / 2, which is 2^-65 of the largest value for a million values; the conversion of the
# sum to float64 rounds twice. e and n belong to the whole training set, and so every member uses the same
# ones, also for sums over some of the documents.

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
        half = power // 2
        first = math.ldexp(1.0, half)
        second = math.ldexp(1.0, power - half)
        return first, second, math.ldexp(1.0, self.bits)

    def value(self, parts: SumParts) -> NDArray[np.float64]:
        """Returns the (...) sums as floats, given their (2, ...) parts."""
        high, low = parts.astype(np.float64)
        power = self.exponent - self.bits
        of_low = np.ldexp(low, power - self.bits)
        return np.asarray(np.ldexp(high, power) + of_low)


def units(max_abs: float, count: int) -> Units:
    """Returns the units for at most `count` values of at most `max_abs`."""
    _, exponent = math.frexp(max_abs)
    return Units(exponent, 62 - (count - 1).bit_length())


def units_of(
    arrays: Sequence[Values], team: Team = ALONE, count: int | None = None
) -> list[Units]:
    """Returns the units for each array of this member's values; members exchange them at once.

    Args:
        arrays: (n,) each.
        team: the members.
        count: number of values of all members in an array; None: those of this member are all.
    """
    sizes = []
    for values in arrays:
        highest = values.max(initial=0.0)
        sizes.append(max(highest, -values.min(initial=0.0)))
    largest = team.largest(np.array(sizes)).tolist()
    counts = [len(values) if count is None else count for values in arrays]
    return [units(*pair) for pair in zip(largest, counts, strict=True)]


VALUES_SUMMED = 8192
"""Number of values per block of a sum."""


def reference_parts(values: Values, units: Units) -> SumParts:
    """Specification: returns the (2,) parts of the sum."""
    first, second, low_scale = units.scales
    scaled = values * first * second
    high = np.trunc(scaled)
    low = np.rint((scaled - high) * low_scale)
    parts = [part.astype(np.int64).sum() for part in (high, low)]
    return np.array(parts)


def sums_of(
    arrays: Sequence[Values], team: Team = ALONE, count: int | None = None
) -> list[float]:
    """Returns the sum over the values of all members in each array; arguments as in `units_of`."""
    units = units_of(arrays, team, count)
    parts = np.empty((len(arrays), 2), dtype=np.int64)
    for i, values in enumerate(arrays):
        starts = np.arange(0, len(values), VALUES_SUMMED)
        starts = np.append(starts, len(values))
        of_blocks = np.empty((2, len(starts) - 1), dtype=np.int64)
        num_blocks = len(starts) - 1
        scaled = values, units[i].scales
        in_parts(_sum_parts, num_blocks, None, starts, scaled, of_blocks)
        parts[i] = of_blocks.sum(axis=1)
    totals = zip(units, team.total(parts), strict=True)
    return [float(each.value(total)) for each, total in totals]


def grouped(
    groups: NDArray[np.int64], num_groups: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Returns the first arguments of `sums_by_leaf` for values in groups: the (n,) indices of the values by
    group, and the (num_groups + 1,) start of each group, followed by n."""
    rows = np.argsort(groups, kind="stable").astype(np.uint32)
    start = np.searchsorted(groups[rows], np.arange(num_groups + 1))
    return rows, start


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
    num_leaves = len(leaf_start) - 1
    parts = np.empty((len(arrays), 2, num_leaves), dtype=np.int64)
    for values, each, part in zip(arrays, units, parts, strict=True):
        scaled = values, each.scales
        in_parts(_sum_parts, num_leaves, rows, leaf_start, scaled, part)
    totals = zip(units, team.total(parts), strict=True)
    return [each.value(total) for each, total in totals]


@inlined_kernel
def _divided(value: float, scales: Scales) -> tuple[np.int64, np.int64]:
    scaled = value * scales[0] * scales[1]
    high = np.int64(scaled)
    return high, np.int64(np.rint((scaled - np.float64(high)) * scales[2]))


@kernel
def _sum_parts(
    of_thread: Part,
    rows: Rows | None,
    starts: NDArray[np.int64],
    scaled: tuple[Values, Scales],
    parts: SumParts,
) -> None:
    """Writes the sums of parts of the values: part i has the elements starts[i], ..., starts[i + 1] - 1 of
    `values`, or of values[rows]."""
    values, scales = scaled
    for part in range(of_thread[0], of_thread[1]):
        first = starts[part]
        end = starts[part + 1]
        if rows is None:
            parts[0, part], parts[1, part] = _sum_values(values[first:end], scales)
        else:
            parts[0, part], parts[1, part] = _sum_rows(rows[first:end], values, scales)


@kernel
def _sum_values(values: Values, scales: Scales) -> tuple[np.int64, np.int64]:
    sum_high = np.int64(0)
    sum_low = np.int64(0)
    for value in values:
        high, low = _divided(value, scales)
        sum_high += high
        sum_low += low
    return sum_high, sum_low


@kernel
def _sum_rows(rows: Rows, values: Values, scales: Scales) -> tuple[np.int64, np.int64]:
    sum_high = np.int64(0)
    sum_low = np.int64(0)
    for row in rows:
        high, low = _divided(values[row], scales)
        sum_high += high
        sum_low += low
    return sum_high, sum_low


Packed = NDArray[np.int64]  # (D,), gradient and hessian packed into one integer
Histogram = NDArray[np.int64]  # (B,), sums of Packed; concatenated bins of all columns


class Quantised(NamedTuple):
    """The gradients and hessians of all documents as integers.

    Attributes:
        packed: (D,).
        gradient_unit: gradient that the integer 1 represents.
        hessian_unit: hessian that the integer 1 represents.
    """

    packed: Packed
    gradient_unit: float
    hessian_unit: float


def quantise(
    gradients: Gradients,
    hessians: Hessians,
    team: Team = ALONE,
    num_documents: int | None = None,
) -> Quantised:
    """Rounds gradients and hessians to multiples of the smallest units whose sums fit into 32 bits.

    Args:
        gradients: (D,), of this member's documents.
        hessians: (D,).
        team: the members of the fit.
        num_documents: number of documents of all members; None: those of this member are all.
    """
    count = len(gradients) if num_documents is None else num_documents
    sum_gradients, sum_hessians = sums_of([np.abs(gradients), hessians], team, count)
    gradient_unit = _unit(sum_gradients, 2**31, count)
    hessian_unit = _unit(sum_hessians, 2**32, count)
    packed = np.empty(len(gradients), dtype=np.int64)
    units = gradient_unit, hessian_unit
    arguments = gradients, hessians, units, packed
    in_parts(_pack, len(packed), *arguments, fewest=FEWEST_PACKED)
    return Quantised(packed, gradient_unit, hessian_unit)


def _unit(sum_of_sizes: float, limit: int, count: int) -> float:
    unit = sum_of_sizes / (limit - 1 - count)
    # If all sizes are 0, or too small to divide by, any unit is valid.
    if unit >= np.finfo(np.float64).tiny:
        return unit
    return 1.0


FEWEST_PACKED = 8192
"""Minimum number of documents that a thread packs."""


@kernel
def _pack(
    part: Part,
    gradients: Gradients,
    hessians: Hessians,
    units: tuple[float, float],
    packed: Packed,
) -> None:
    for d in range(part[0], part[1]):
        gradient = np.rint(gradients[d] / units[0])
        hessian = np.rint(hessians[d] / units[1])
        packed[d] = (np.int64(gradient) << 32) + np.int64(hessian)


def bin_starts(binned: AnyBins) -> NDArray[np.int64]:
    """Returns the (C + 1,) start of each column's bins in a histogram, followed by B."""
    return np.concatenate([[0], np.cumsum(binned.num_bins)])


class Task(NamedTuple):
    """Input of growing a tree, apart from the layout of sparse bins.

    Attributes:
        words: as in BinnedFeatures or SparseBins.
        bin_start: (C + 1,), result of `bin_starts`.
        packed: (D,), packed gradients and hessians.
        categories: (K, D), bins of the last K columns, which are categorical; None: all columns are numeric,
            and the kernels for categories are not compiled.
        num_threads: number of threads; an argument, because numba does not cache a kernel that queries it.
    """

    words: NDArray[np.uint64]
    bin_start: NDArray[np.int64]
    packed: Packed
    categories: NDArray[np.uint16] | None
    num_threads: int


def task_of(binned: AnyBins, quantised: Quantised) -> Task:
    """Returns the input of growing a tree to these gradients and hessians."""
    categories = None
    if len(binned.categories.codes) > 0:
        categories = binned.categories.bins
    return Task(
        binned.words,
        bin_starts(binned),
        quantised.packed,
        categories,
        numba.get_num_threads(),
    )


@kernel
def num_numeric(task: Task) -> int:
    """Returns the number of columns that are not categorical; they come first."""
    return len(task.bin_start) - 1 - _num_categorical(task.categories)


@kernel
def _num_categorical(categories: NDArray[np.uint16] | None) -> int:
    if categories is None:
        return 0
    return len(categories)


DOCUMENTS_SUMMED = 512
"""Number of documents per block. A word of each takes 4 kB together, which fits into the L1 cache beside the
histograms of the word."""
WORDS_AT_ONCE = 32
"""Maximum number of words whose sums one thread computes at a time: 512 kB, which fit the L2 cache."""


@kernel
def shares_of(num_words: int, num_threads: int) -> int:
    """Returns the number of shares of the words: a multiple of num_threads; at most WORDS_AT_ONCE each."""
    return num_threads * ((num_words - 1) // (num_threads * WORDS_AT_ONCE) + 1)


@kernel
def words_of_share(
    share: int | np.int64, num_shares: int, num_words: int
) -> tuple[int, int]:
    """Returns the first word of a share, and the end of the share."""
    return int(share * num_words // num_shares), int(
        (share + 1) * num_words // num_shares
    )


@kernel
def build_share(
    task: Task,
    word_range: tuple[int, int],
    rows: Rows,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """Writes the sums over `rows` to the histogram of a range of words of dense bins, and subtracts them from
    a parent's histogram that is not empty."""
    first, end = word_range
    sums = sum_words(task.words, word_range, rows, task.packed)
    for c in range(8 * first, min(8 * end, num_numeric(task))):
        start = task.bin_start[c]
        num_bins = task.bin_start[c + 1] - task.bin_start[c]
        sums_of_column = sums[c // 8 - first, 256 * (c % 8) :][:num_bins]
        _put(sums_of_column, histogram[start:])
        _take(sums_of_column, parent[start:])


@kernel
def build_categories(
    task: Task,
    columns: tuple[int, int],
    rows: Rows,
    histogram: Histogram,
    parent: Histogram,
) -> None:
    """Does what `build_share` does, for categorical columns.

    Args:
        columns: the first column, and the step to each next one; the last column of the task is the end.
    """
    first, step = columns
    end = len(task.bin_start) - 1
    for column in range(first, end, step):
        _sums_of(task, column, histogram)[:] = 0
    values = np.empty(DOCUMENTS_SUMMED, dtype=np.int64)
    for start in range(0, len(rows), DOCUMENTS_SUMMED):
        block = rows[start : start + DOCUMENTS_SUMMED]
        for i in range(len(block)):
            values[i] = task.packed[np.uint64(block[i])]
        for column in range(first, end, 2 * step):
            other = column + step
            if other < end:
                _add_categories(task, (column, other), block, values, histogram)
            else:
                _add_category(task, column, block, values, histogram)
    for column in range(first, end, step):
        sums = _sums_of(task, column, histogram)
        _take(sums, parent[task.bin_start[column] :])


@inlined_kernel
def _add_categories(
    task: Task,
    columns: tuple[int, int],
    rows: Rows,
    values: Packed,
    histogram: Histogram,
) -> None:
    """Adds the values of `rows` to the histograms of two columns in turns: in frequent categories, an
    addition would otherwise wait for the one before."""
    bins = _bins_of_category(task, columns[0])
    bins_of_other = _bins_of_category(task, columns[1])
    sums = _sums_of(task, columns[0], histogram)
    sums_of_other = _sums_of(task, columns[1], histogram)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        value = values[i]
        sums[np.uint64(bins[row])] += value
        sums_of_other[np.uint64(bins_of_other[row])] += value


@inlined_kernel
def _add_category(
    task: Task, column: int, rows: Rows, values: Packed, histogram: Histogram
) -> None:
    bins = _bins_of_category(task, column)
    sums = _sums_of(task, column, histogram)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        sums[np.uint64(bins[row])] += values[i]


@inlined_kernel
def _bins_of_category(task: Task, column: int) -> NDArray[np.uint16]:
    number = column - num_numeric(task)
    bins: NDArray[np.uint16] = task.categories[number]  # type: ignore[index]
    return bins


@inlined_kernel
def _sums_of(task: Task, column: int, histogram: Histogram) -> Histogram:
    return histogram[task.bin_start[column] : task.bin_start[column + 1]]


def reference_fetch(values: NDArray[Any], index: np.uint64) -> None:
    """Begins to load the cache line of values.ravel()[index], without waiting for it; changes nothing."""


def _type_fetch(context: Any, values: Any, index: Any) -> Any:
    return types.void(values, index), _generate_fetch


def _generate_fetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    make = context.make_array(signature.args[0])
    array = make(context, builder, arguments[0])
    number = ir.IntType(32)
    byte = ir.IntType(8).as_pointer()
    address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
    # For reading, to stay in all caches, data.
    how = number(0), number(3), number(1)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
    builder.call(fetch, [address, *how])
    return context.get_dummy_value()


_fetch: Any = intrinsic(_type_fetch)
overload(reference_fetch, strict=False)(
    lambda values, index: lambda values, index: _fetch(values, index)
)


DOCUMENTS_AHEAD = 16
"""Distance, in documents, at which words begin to be loaded into the cache before they are read."""
WORDS_PER_LINE = 8
"""Number of words in a cache line of 64 bytes."""


@inlined_kernel
def _fetch_document(
    words: NDArray[np.uint64],
    word_range: tuple[int, int],
    row: np.uint64,
    packed: Packed,
) -> None:
    """Begins to load the words and the packed gradient of a document."""
    start = row * np.uint64(words.shape[1])
    reference_fetch(packed, row)
    for word in range(word_range[0], word_range[1], WORDS_PER_LINE):
        reference_fetch(words, start + np.uint64(word))


@inlined_kernel
def _read_document(
    words: NDArray[np.uint64],
    word_range: tuple[int, int],
    row: np.uint64,
    read: NDArray[np.uint64],
    index: np.uint64,
) -> None:
    """Writes read[:, index] = words[row, first:end]."""
    first, end = word_range
    for word in range(end - first):
        of_range = np.uint64(first + word)
        read[np.uint64(word), index] = words[row, of_range]


@kernel
def sum_words(
    words: NDArray[np.uint64], word_range: tuple[int, int], rows: Rows, packed: Packed
) -> NDArray[np.int64]:
    """Returns the (words, 8 * 256) sums for every byte value of the columns in a range of words.

    The words of a document are read at once, so that its cache lines are needed only once.
    """
    num_words = word_range[1] - word_range[0]
    sums = np.zeros((num_words, 8 * 256), dtype=np.int64)
    values = np.empty(DOCUMENTS_SUMMED, dtype=np.int64)
    # One more cache line: words at distances of 4 kB would compete for a few places in the L1 cache.
    read = np.empty((num_words, DOCUMENTS_SUMMED + WORDS_PER_LINE), dtype=np.uint64)
    for start in range(0, len(rows), DOCUMENTS_SUMMED):
        block = rows[start : start + DOCUMENTS_SUMMED]
        for i in range(len(block)):
            ahead = min(start + i + DOCUMENTS_AHEAD, len(rows) - 1)
            _fetch_document(words, word_range, np.uint64(rows[ahead]), packed)
            row = np.uint64(block[i])
            values[i] = packed[row]
            _read_document(words, word_range, row, read, np.uint64(i))
        for word in range(num_words):
            _add(read[word, : len(block)], values, sums[word])
    return sums


@inlined_kernel
def _add(ahead: NDArray[np.uint64], values: Packed, sums: NDArray[np.int64]) -> None:
    """Adds values to the histograms of a word's eight columns of 256 bins: 16 kB, which fit the L1 cache."""
    for i in range(len(ahead)):
        word = ahead[i]
        value = values[i]
        for lane in range(8):
            # Unsigned, because a signed index is checked for wrap-around at every access.
            sums[np.uint64(256 * lane) + (word & np.uint64(255))] += value
            word >>= np.uint64(8)


@inlined_kernel
def _put(sums: Histogram, histogram: Histogram) -> None:
    for b in range(min(len(sums), len(histogram))):
        histogram[b] = sums[b]


@inlined_kernel
def _take(sums: Histogram, parent: Histogram) -> None:
    for b in range(min(len(sums), len(parent))):
        parent[b] -= sums[b]
