"""Sums of documents do not depend on the order of documents, nor do the models that use them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ltrbench.native.histogram import (
    grouped,
    reference_parts,
    sums_by_leaf,
    sums_of,
    units,
    units_of,
)
from ltrbench.shapes import Values

sizes = (
    st.floats(0, 1e300)
    | st.floats(0, 1e-300)
    | st.sampled_from([0.0, 5e-324, 1e-310, 1.0, 1e16, 1e300])
)
values_of_any_size = arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.tuples(sizes, st.sampled_from([-1.0, 1.0])).map(
        lambda pair: pair[0] * pair[1]
    ),
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
    assert abs(Fraction(sum_all(values)) - exact) <= allowed_error(
        values, exact, len(values)
    )


@given(values_of_any_size)
@MAY_COMPILE
def test_the_kernels_do_what_the_reference_says(values: Values) -> None:
    (both,) = units_of([values])
    parts = reference_parts(values, both)
    assert sum_all(values) == both.value(parts)
    rows = np.arange(len(values), dtype=np.uint32)
    (of_leaf,) = sums_by_leaf(rows, np.array([0, len(values)]), [values])
    assert of_leaf[0] == both.value(parts)
    groups = np.arange(len(values)) % 3
    (of_groups,) = sums_by_leaf(*grouped(groups, 4), [values])
    for group, total in enumerate(of_groups):
        assert total == both.value(reference_parts(values[groups == group], both))


@given(values_of_any_size, st.randoms(use_true_random=False))
@MAY_COMPILE
def test_neither_the_order_nor_the_division_of_values_changes_a_sum(
    values: Values, random: Any
) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    shuffled = values[order]
    assert sum_all(shuffled) == sum_all(values)
    (both,), cut = units_of([values]), random.randint(0, len(values))
    parts = reference_parts(shuffled[:cut], both) + reference_parts(
        shuffled[cut:], both
    )
    assert both.value(parts) == sum_all(values)
