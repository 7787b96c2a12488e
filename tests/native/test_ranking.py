from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.objectives.ranking import rank, reference_order


@MAY_COMPILE
@given(
    scores=arrays(np.float64, st.integers(1, 60), elements=st.integers(-5, 5) | st.floats(-1e3, 1e3)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_order_becomes_that_of_falling_scores(scores: NDArray[np.float64], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(scores)).astype(np.uint32)
    rank(scores, order)
    np.testing.assert_array_equal(order, reference_order(scores))


def test_an_order_turned_round_is_merged() -> None:
    scores = np.repeat(np.arange(40.0), 2)
    order = reference_order(-scores)
    rank(scores, order)  # takes some 3,000 steps by insertion, above 16 a document
    np.testing.assert_array_equal(order, reference_order(scores))
