"""Sparse features give the same rows, views and fingerprints as the dense array that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ltrbench.data import features as matrix_module
from ltrbench.data.features import (
    AnyFeatures,
    SparseRows,
    StackedRows,
    csr_of,
    take_rows,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two or three rows, so that results consist of several."""
    monkeypatch.setattr(matrix_module, "BLOCK_BYTES", 24)


CELLS = st.sampled_from([0.0, 0.0, 0.0, -0.0, np.nan, np.nan, 1.0, -2.5])
ABSENT = st.sampled_from([0.0, -0.0, np.nan])


def same_bits(actual: NDArray[Any], expected: NDArray[Any]) -> None:
    """Checks that arrays are equal, where -0 is not 0 and NaN is NaN."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@st.composite
def dense(draw: st.DrawFn) -> Features:
    shape = draw(st.integers(0, 9)), draw(st.integers(1, 4))
    size = shape[0] * shape[1]
    cells = draw(st.lists(CELLS, min_size=size, max_size=size))
    return np.array(cells, dtype=np.float32).reshape(shape)


@st.composite
def ranges_of(draw: st.DrawFn, num_rows: int) -> NDArray[np.int64]:
    row = st.integers(0, num_rows)
    pairs = draw(st.lists(st.tuples(row, row), max_size=5))
    return np.sort(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=1)


@given(expected=dense(), absent=ABSENT, data=st.data())
def test_rows_and_gathered_rows_are_those_of_the_array(
    expected: Features, absent: float, data: st.DataObject
) -> None:
    sparse = SparseRows.of(expected, absent)
    num_rows = len(expected)
    same_bits(np.asarray(sparse), expected)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, num_rows), st.integers(0, num_rows))))
    same_bits(sparse.rows(start, stop), expected[start:stop])
    numbers = data.draw(st.lists(st.integers(0, max(num_rows - 1, 0)), max_size=9 if num_rows else 0))
    rows = np.array(numbers, dtype=np.int64)
    same_bits(sparse.gather(rows), expected[rows])
    same_bits(sparse[:, 0], expected[:, 0])
    same_bits(sparse[rows, [0] * len(rows)], expected[rows, 0])


@given(expected=dense(), absent=ABSENT, data=st.data())
def test_a_view_has_the_same_rows_densely_and_as_csr(
    expected: Features, absent: float, data: st.DataObject
) -> None:
    middle = data.draw(st.integers(0, len(expected)))
    parts = [SparseRows.of(expected[:middle], absent), SparseRows.of(expected[middle:], absent)]
    features: AnyFeatures = (
        StackedRows(parts) if data.draw(st.booleans()) else SparseRows.of(expected, absent)
    )
    for _ in range(data.draw(st.integers(0, 2))):
        ranges = data.draw(ranges_of(len(expected)))
        features = take_rows(features, ranges)
        expected = np.concatenate([expected[:0], *[expected[start:stop] for start, stop in ranges]])
    same_bits(np.asarray(features), expected)
    taken = csr_of(features)
    assert taken is not None
    same_bits(np.asarray(taken), expected)
    again = SparseRows.of(features, absent)
    for name in ("row_start", "columns", "values"):
        same_bits(getattr(taken, name), getattr(again, name))


@given(expected=dense(), absent=ABSENT, data=st.data())
def test_taken_columns_are_those_of_the_array(expected: Features, absent: float, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(0, expected.shape[1] - 1)))
    columns = np.array(sorted(numbers), dtype=np.int64)
    taken = SparseRows.of(expected, absent).take_columns(columns)
    same_bits(np.asarray(taken), expected[:, columns])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32])
def test_matrices_of_scipy_in_any_format_are_read(kind: str, dtype: type) -> None:
    array: NDArray[Any] = np.array([[0, 2, 0], [0, 0, 0], [4, 0, 5]], dtype=dtype)
    sparse = SparseRows.from_scipy(csr_matrix(array).asformat(kind))
    same_bits(np.asarray(sparse), array.astype(np.float32))
    missing = SparseRows.from_scipy(csr_matrix(array).asformat(kind), absent=np.nan)
    same_bits(np.asarray(missing), np.where(array == 0, np.nan, array).astype(np.float32))


@pytest.mark.parametrize(
    ("row_start", "columns", "values"),
    [
        ([0, 2], [1, 0], [1, 1]),
        ([0, 2], [1, 1], [1, 1]),
        ([0, 1], [3], [1]),
        ([1, 1], [0], [1]),
        ([0, 1], [0], []),
    ],
    ids=["descending", "repeated", "out of bounds", "not from 0", "without value"],
)
def test_arrays_that_are_not_compressed_rows_are_refused(
    row_start: list[int], columns: list[int], values: list[int]
) -> None:
    arrays = np.array(row_start), np.array(columns, np.int32), np.array(values, np.float32)
    with pytest.raises(DataError, match="sparse rows"):
        SparseRows(*arrays, num_features=3)
