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


@kernel
def above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    """Returns a word in which bit d is set if values[d] > threshold; 64 values; NaN is never above."""
    return reference_above(values, threshold)


@kernel
def lowest(word: np.uint64) -> np.uint64:
    """Returns the index of the lowest set bit; the word must not be 0."""
    return reference_lowest(word)


def reference_above(values: NDArray[np.float32], threshold: np.float32) -> np.uint64:
    return np.uint64(sum(1 << d for d in range(NUM_BITS) if values[d] > threshold))


def reference_lowest(word: np.uint64) -> np.uint64:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


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


_above: Any = intrinsic(_type_above)
_lowest: Any = intrinsic(_type_lowest)
overload(reference_above, strict=False)(
    lambda values, threshold: lambda values, threshold: _above(values, threshold)
)
overload(reference_lowest, strict=False)(lambda word: lambda word: _lowest(word))
