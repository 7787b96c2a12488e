"""Features that are not one array: views of rows and stacked parts give the same rows as NumPy's indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import features as matrix_module
from ltrbench.data.features import (
    AnyFeatures,
    FeatureMatrix,
    RowView,
    StackedRows,
    as_array,
    row_blocks,
    take_rows,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two or three rows, so that results consist of several blocks."""
    monkeypatch.setattr(matrix_module, "BLOCK_BYTES", 24)


def numbered(num_rows: int, num_features: int = 3) -> Features:
    return np.arange(num_rows * num_features, dtype=np.float32).reshape(num_rows, num_features)


@st.composite
def ranges_of(draw: st.DrawFn, num_rows: int) -> list[tuple[int, int]]:
    """Ranges of rows, in any order, also empty, overlapping and repeated."""
    row = st.integers(0, num_rows)
    pairs = draw(st.lists(st.tuples(row, row), max_size=6))
    return [(min(pair), max(pair)) for pair in pairs]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[AnyFeatures, Features]:
    """A view of a view of stacked parts, or less, and the same rows by NumPy's indexing."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    expected = numbered(sum(sizes), draw(st.integers(1, 4)))
    parts = np.split(expected, np.cumsum(sizes)[:-1])
    features: AnyFeatures = StackedRows(parts) if draw(st.booleans()) else expected
    for _ in range(draw(st.integers(0, 3))):
        ranges = draw(ranges_of(len(expected)))
        features = take_rows(features, ranges)
        rows = [row for start, stop in ranges for row in range(start, stop)]
        expected = expected[np.array(rows, dtype=np.int64)]
        if draw(st.booleans()):
            features, expected = StackedRows([features, features]), np.concatenate([expected, expected])
    return features, expected


@given(pair=matrices())
def test_a_view_of_a_view_of_stacked_parts_holds_the_rows_of_numpys_indexing(
    pair: tuple[AnyFeatures, Features],
) -> None:
    features, expected = pair
    assert features.shape == expected.shape
    assert len(features) == len(expected)
    assert (features.dtype, features.ndim, features.size) == (expected.dtype, 2, expected.size)
    assert features.nbytes == expected.nbytes
    np.testing.assert_array_equal(np.asarray(features), expected)
    np.testing.assert_array_equal(as_array(features), expected)


@given(pair=matrices(), data=st.data())
def test_rows_columns_and_cells_are_those_of_an_array(
    pair: tuple[AnyFeatures, Features], data: st.DataObject
) -> None:
    features, expected = pair
    num_rows, num_features = expected.shape
    column: Any = data.draw(st.integers(-num_features, num_features - 1))
    start, stop, step = data.draw(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([1, 1, 2, -1]))
    )
    slices: list[Any] = [slice(start, stop, step), slice(None), slice(start, stop)]
    mask = data.draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows))
    of_rows = [*slices, np.array(mask, dtype=np.bool_)]
    if num_rows:
        drawn = data.draw(st.lists(st.integers(-num_rows, num_rows - 1), max_size=9))
        of_rows += [np.array(drawn, dtype=np.int64), np.array(drawn, dtype=np.int32), drawn]
        one = data.draw(st.integers(-num_rows, num_rows - 1))
        np.testing.assert_array_equal(features[one], expected[one])
        assert features[one, column] == expected[one, column]
        pairs = np.array(drawn, dtype=np.int64), np.full(len(drawn), column)
        np.testing.assert_array_equal(features[pairs], expected[pairs])
    for rows in of_rows:
        rows_of_array = np.array(rows, dtype=np.int64) if isinstance(rows, list) else rows
        np.testing.assert_array_equal(features[rows], expected[rows_of_array])
        np.testing.assert_array_equal(features[rows, column], expected[rows_of_array, column])
        np.testing.assert_array_equal(features[rows, :column], expected[rows_of_array, :column])
    columns = np.array([column, 0])
    np.testing.assert_array_equal(
        features[slice(start, stop), columns], expected[slice(start, stop), columns]
    )


@given(pair=matrices(), size=st.one_of(st.none(), st.integers(1, 7)))
def test_blocks_are_all_rows_in_order_and_read_only(
    pair: tuple[AnyFeatures, Features], size: int | None
) -> None:
    features, expected = pair
    blocks = list(row_blocks(features, size))
    num_rows = 0
    for start, block in blocks:
        assert start == num_rows
        assert type(block) is np.ndarray
        assert block.flags.c_contiguous
        assert not block.flags.writeable
        np.testing.assert_array_equal(block, expected[start : start + len(block)])
        num_rows += len(block)
    assert num_rows == len(expected)
    most = size or matrix_module.rows_of_block(expected.shape[1])
    assert [len(block) for _, block in blocks[:-1]] == [most] * (len(blocks) - 1)


def test_a_copy_that_does_not_fit_into_memory_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrix_module, "available_bytes", lambda: 1_500_000_000)
    part = np.broadcast_to(np.zeros(1, dtype=np.float32), (1_000_000, 1))
    view: FeatureMatrix = RowView(part, np.tile([[0, 1_000_000]], (400, 1)))
    named = ("400000000 documents", "1.6 GB", "1.5 GB", "model=native", "data.subset")
    with pytest.raises(DataError, match=naming(*named)):
        as_array(view)
    with pytest.raises(ValueError, match=naming("row_blocks", "copy")):
        np.asarray(view, copy=False)
