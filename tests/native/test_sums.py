"""Sums of documents do not depend on the order of documents, nor do the models that use them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from engine_cases import MAY_COMPILE, make_dataset
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native.histogram import (
    reference_parts,
    sum_by_group,
    sums_by_leaf,
    sums_of,
    units,
    units_of,
)
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Values

sizes = st.floats(0, 1e300) | st.floats(0, 1e-300) | st.sampled_from([0.0, 5e-324, 1e-310, 1.0, 1e16, 1e300])
values_of_any_size = arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.tuples(sizes, st.sampled_from([-1.0, 1.0])).map(lambda pair: pair[0] * pair[1]),
)


def sum_all(values: Values) -> float:
    (total,) = sums_of([values])
    return total


def exact_sum(values: Values) -> Fraction:
    return sum(map(Fraction, values.tolist()), Fraction(0))


def allowed_error(values: Values, exact: Fraction, count: int) -> Fraction:
    """Returns the bound in the docstring of `sums`; 2^-1074 is the distance of the smallest floats."""
    both = units(float(np.abs(values).max(initial=0.0)), count)
    rounding_of_low = Fraction(2) ** (both.exponent - 2 * both.bits) * count / 2
    rounding_of_sums = (abs(exact) + rounding_of_low) * Fraction(2) ** -51
    return rounding_of_low + rounding_of_sums + Fraction(2) ** -1074


@given(values_of_any_size)
@MAY_COMPILE
def test_a_sum_is_as_close_to_the_exact_sum_as_its_bound_says(values: Values) -> None:
    exact = exact_sum(values)
    assert abs(Fraction(sum_all(values)) - exact) <= allowed_error(values, exact, len(values))


@given(values_of_any_size)
@MAY_COMPILE
def test_the_kernels_do_what_the_reference_says(values: Values) -> None:
    (both,), zeros = units_of([values]), np.zeros(len(values), dtype=np.int64)
    parts = reference_parts(values, both)
    assert sum_all(values) == sum_by_group(zeros, values, 1)[0] == both.value(parts)
    rows = np.arange(len(values), dtype=np.uint32)
    (of_leaf,) = sums_by_leaf(rows, np.array([0, len(values)]), [values])
    assert of_leaf[0] == both.value(parts)


@given(values_of_any_size, st.randoms(use_true_random=False))
@MAY_COMPILE
def test_neither_the_order_nor_the_division_of_values_changes_a_sum(values: Values, random: Any) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    shuffled = values[order]
    assert sum_all(shuffled) == sum_all(values)
    (both,), cut = units_of([values]), random.randint(0, len(values))
    parts = reference_parts(shuffled[:cut], both) + reference_parts(shuffled[cut:], both)
    assert both.value(parts) == sum_all(values)


def with_queries_in_order(data: RankingDataset, order: NDArray[np.int64]) -> RankingDataset:
    starts = data.query_start
    rows = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in order])
    new_starts = np.concatenate([[0], np.cumsum(data.query_sizes[order])])
    return RankingDataset(
        features=np.asarray(data.features)[rows],
        labels=data.labels[rows],
        query_start=new_starts,
        query_weights=None if data.query_weights is None else data.query_weights[order],
        positions=np.arange(len(rows)) - np.repeat(new_starts[:-1], data.query_sizes[order]),
    )


def bytes_of_model(data: RankingDataset, **settings: Any) -> bytes:
    """Returns the values of a fitted model; the features' names do not depend on the fit."""
    ranker = NativeRanker(num_trees=6, num_leaves=7, min_docs_in_leaf=5, num_threads=1, **settings).fit(data)
    assert ranker._forest is not None
    arrays: list[Any] = [ranker._forest.roots, *ranker._forest.nodes, *ranker.position_factors.values()]
    return b"".join(array.tobytes() for array in arrays)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"growth": "by_deviance"},
        {"split_criterion": "least_squares", "leaf_value": "mean"},
        {"objective": "mart", "truncation": None},
        {"position_bias": "additive"},
        {"position_bias": "propensity"},
        {"drop_rate": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_queries_does_not_change_a_model(settings: dict[str, Any], seed: int) -> None:
    data = make_dataset(seed, weighted=True)
    same, order = np.arange(data.num_queries), np.random.default_rng(seed).permutation(data.num_queries)
    models = {bytes_of_model(with_queries_in_order(data, order), **settings) for order in (same, order)}
    assert len(models) == 1
