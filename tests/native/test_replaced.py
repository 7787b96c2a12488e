"""Scores with other values of one feature have the bits of scores of changed documents."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import COMPILED, MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from test_forest import random_case, random_tree, scores_of, steps

from ltrbench.native.attribution import reference_replaced_scores, replaced_scores
from ltrbench.native.forest import plant


@given(st.integers(0, 2**32 - 1), st.integers(1, 140), st.permutations(range(4)), st.integers(0, 4))
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(
    seed: int, num_documents: int, order: list[int], num_columns: int
) -> None:
    forest, features = random_case(seed, num_documents)
    rng = np.random.default_rng(seed)
    # No tree splits on the last feature.
    features = np.concatenate([features, features[:, :1]], axis=1)
    columns = np.array(order[:num_columns], dtype=np.int64)
    values = steps(rng, (num_columns * 2, num_documents)).reshape(num_columns, 2, num_documents)
    values[rng.random(values.shape) < 0.2] = np.nan
    np.testing.assert_array_equal(
        replaced_scores(forest, features, columns, values),
        reference_replaced_scores(forest, features, columns, values),
    )


@pytest.mark.parametrize("num_leaves", [256, 257, 300])
@COMPILED
def test_a_tree_may_have_more_leaves_than_one_byte_counts(num_leaves: int) -> None:
    rng = np.random.default_rng(num_leaves)
    forest = plant([random_tree(rng, num_leaves, num_features=40) for _ in range(5)], rng.normal(size=5))
    features, values = steps(rng, (200, 40)), steps(rng, (40, 200))
    scores = replaced_scores(forest, features, np.arange(40), values.reshape(40, 1, 200))
    for column in range(40):
        changed = features.copy()
        changed[:, column] = values[column]
        np.testing.assert_array_equal(scores[column, 0], scores_of(forest, changed))


def test_values_that_do_not_change_give_the_scores_of_the_documents() -> None:
    forest, features = random_case(3)
    columns = np.array([2, 0])
    values = np.ascontiguousarray(features[:, columns].T).reshape(2, 1, -1)
    scores = replaced_scores(forest, features, columns, values)
    np.testing.assert_array_equal(scores, np.broadcast_to(scores_of(forest, features), scores.shape))
