"""Segments of equal cells are those of their definition, and determine the cells."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ltrbench.data import features as matrix_module
from ltrbench.data import features as segments_module
from ltrbench.data.features import SparseRows, StackedRows, row_segments, take_rows
from ltrbench.shapes import Features

# Two NaNs with different bits, beside the bits of -0, 0 and 1.
CELLS = st.sampled_from([0x0, 0x80000000, 0x3F800000, 0x7FC00000, 0xFFC00001])
ROWS = arrays(np.uint32, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=CELLS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_module, "BLOCK_BYTES", 24)
    monkeypatch.setattr(segments_module, "_STORED", 2)


def segments_of(features: Features | SparseRows | StackedRows) -> list[list[int]]:
    segments: list[list[int]] = np.concatenate(list(row_segments(features))).tolist()
    return segments


def by_definition(bits: list[list[int]]) -> list[list[int]]:
    segments = []
    for row in bits:
        for value, cells in groupby(enumerate(row), key=lambda cell: cell[1]):
            segments.append([next(cells)[0], value])
    return segments


@given(bits=ROWS, absent=st.sampled_from([0.0, -0.0, float("nan")]), data=st.data())
@example(bits=np.zeros((2, 3), np.uint32), absent=0.0, data=None)
def test_segments_are_those_of_their_definition(
    bits: np.ndarray[tuple[int, int], np.dtype[np.uint32]], absent: float, data: st.DataObject | None
) -> None:
    features = bits.view(np.float32)
    # Every cell with another value than `absent` is stored, and any other cells.
    stored = bits != np.float32(absent).view(np.uint32)
    if data is not None:
        stored |= data.draw(arrays(np.bool_, bits.shape))
    row_start = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    columns = np.nonzero(stored)[1].astype(np.int32)
    sparse = SparseRows(row_start, columns, features[stored], features.shape[1], absent)
    expected = by_definition(bits.tolist())
    assert segments_of(features) == expected
    assert segments_of(sparse) == expected
    assert segments_of(StackedRows([sparse, sparse])) == 2 * expected
    last_first = [[row, row + 1] for row in reversed(range(len(bits)))]
    expected = by_definition(bits[::-1].tolist())
    assert segments_of(take_rows(sparse, last_first)) == expected  # type: ignore[arg-type]
    assert segments_of(take_rows(StackedRows([sparse, features]), last_first)) == expected  # type: ignore[arg-type]
