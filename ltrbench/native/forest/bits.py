"""Operations on 64-bit words that have one bit per document, using processor instructions via LLVM.

Each operation has a plain Python function, which is its specification and runs if numba is disabled. Compiled
code uses LLVM instructions instead. For the comparison of 64 values, a loop compiled by numba takes 2.6 times
as long [measured].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from ltrbench.compilation import kernel

NUM_BITS = 64
NUM_WORDS = 8
"""Number of words that `blend` combines at once: many processors have instructions for 512 bits."""


@kernel
def above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    """Returns a word in which bit d is set if values[d] > threshold; 64 values; NaN is never above."""
    return reference_above(values, threshold)


@kernel
def lowest(word: np.uint64) -> np.uint64:
    """Returns the index of the lowest set bit; the word must not be 0."""
    return reference_lowest(word)


@kernel
def blend(
    words: NDArray[np.uint64], target: np.uint64, first: np.uint64, second: np.uint64, is_second: np.uint64
) -> None:
    """Combines two groups of 8 words bit by bit: a bit comes from the second group if `is_second` has it set.

    Args:
        words: (n,), in which each group is 8 consecutive words.
        target: index of the first word of the result, which must not overlap the groups.
        first: index of the first word of the first group.
        second: likewise, of the second group.
    """
    reference_blend(words, target, first, second, is_second)


def reference_above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    return np.uint64(sum(1 << d for d in range(NUM_BITS) if values[d] > threshold))


def reference_lowest(word: np.uint64) -> np.uint64:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


def reference_blend(
    words: NDArray[np.uint64], target: np.uint64, first: np.uint64, second: np.uint64, is_second: np.uint64
) -> None:
    for word in range(NUM_WORDS):
        i = np.uint64(word)
        words[target + i] = (words[first + i] & ~is_second) | (words[second + i] & is_second)


def _type_above(context: Any, values: Any, threshold: Any) -> Any:
    return types.uint64(values, threshold), _generate_above


def _generate_above(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generates one comparison of two vectors of 64 floats; its 64 result bits form an integer."""
    vector, index = ir.VectorType(ir.FloatType(), NUM_BITS), ir.IntType(32)
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    of_documents = builder.load(builder.bitcast(array.data, vector.as_pointer()), align=4)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[1], index(0))
    everywhere = ir.Constant(ir.VectorType(index, NUM_BITS), [0] * NUM_BITS)
    thresholds = builder.shuffle_vector(first, first, everywhere)
    return builder.bitcast(builder.fcmp_ordered(">", of_documents, thresholds), ir.IntType(NUM_BITS))


def _type_lowest(context: Any, word: Any) -> Any:
    return types.uint64(word), _generate_lowest


def _generate_lowest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.IntType(1)(1))


def _type_blend(context: Any, words: Any, target: Any, first: Any, second: Any, is_second: Any) -> Any:
    return types.void(words, types.uintp, types.uintp, types.uintp, types.uint64), _generate_blend


def _generate_blend(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generates two reads, the combination and one write of a vector of 8 words."""
    vector, index = ir.VectorType(ir.IntType(64), NUM_WORDS), ir.IntType(32)
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    target, first, second = (
        builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer()) for place in arguments[1:4]
    )
    in_lane = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[4], index(0))
    mask = builder.shuffle_vector(
        in_lane, in_lane, ir.Constant(ir.VectorType(index, NUM_WORDS), [0] * NUM_WORDS)
    )
    kept = builder.and_(builder.load(first, align=8), builder.not_(mask))
    taken = builder.and_(builder.load(second, align=8), mask)
    builder.store(builder.or_(kept, taken), target, align=8)
    return context.get_dummy_value()


_above: Any = intrinsic(_type_above)
_lowest: Any = intrinsic(_type_lowest)
_blend: Any = intrinsic(_type_blend)
overload(reference_above, strict=False)(
    lambda values, threshold: lambda values, threshold: _above(values, threshold)
)
overload(reference_lowest, strict=False)(lambda word: lambda word: _lowest(word))
overload(reference_blend, strict=False)(
    lambda words, target, first, second, is_second: (
        lambda words, target, first, second, is_second: _blend(words, target, first, second, is_second)
    )
)
