"""Features that are not one array give the rows, cells, segments and fingerprints of the same array.

They are views of rows, stacked parts and sparse rows, and all combinations of these.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ltrbench.data import RankingDataset, read_data
from ltrbench.data import features as matrix_module
from ltrbench.data.features import (
    AnyFeatures,
    FeatureMatrix,
    RowView,
    SparseRows,
    StackedRows,
    as_array,
    csr_of,
    merged_pair,
    row_blocks,
    row_segments,
    take_rows,
    with_one_nan,
)
from ltrbench.data.store import write_store
from ltrbench.errors import DataError
from ltrbench.experiment.loading import inspect_data
from ltrbench.rankers.random import RandomRanker
from ltrbench.shapes import Features

# Two NaNs with different bits, beside the bits of 0, -0, 1 and -2.5.
CELLS = np.array(
    [0x0, 0x0, 0x80000000, 0x3F800000, 0xC0200000, 0x7FC00000, 0xFFC00001],
    dtype=np.uint32,
)
ABSENT = (0.0, -0.0, np.nan)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two or three rows, so that results consist of several blocks."""
    monkeypatch.setattr(matrix_module, "BLOCK_BYTES", 24)
    monkeypatch.setattr(matrix_module, "_STORED", 2)


def assert_same_bits(actual: Any, expected: NDArray[Any]) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    one, other = (
        np.ascontiguousarray(values).view(np.uint32) for values in (actual, expected)
    )
    np.testing.assert_array_equal(one, other)


def random_array(
    rng: np.random.Generator, num_rows: int, num_features: int
) -> Features:
    return rng.choice(CELLS, (num_rows, num_features)).view(np.float32)


def sparse_of(
    rng: np.random.Generator, features: Features, absent: float
) -> SparseRows:
    """Returns the sparse form, in which also some cells are stored that have the absent value."""
    stored = features.view(np.uint32) != np.float32(absent).view(np.uint32)
    stored |= rng.random(features.shape) < 0.3
    row_start = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    columns = np.nonzero(stored)[1].astype(np.int32)
    return SparseRows(row_start, columns, features[stored], features.shape[1], absent)


def random_matrix(rng: np.random.Generator) -> tuple[AnyFeatures, Features]:
    """Returns a view of a view of stacked parts, or less, and the same rows by NumPy's indexing.

    The ranges of a view are in any order, also empty, overlapping and repeated.
    """
    num_features, absent = int(rng.integers(1, 5)), rng.choice(ABSENT)
    arrays = [
        random_array(rng, size, num_features)
        for size in rng.integers(0, 6, rng.integers(1, 5))
    ]
    parts = [
        array if rng.random() < 0.5 else sparse_of(rng, array, absent)
        for array in arrays
    ]
    features: AnyFeatures = parts[0] if len(parts) == 1 else StackedRows(parts)
    expected = np.concatenate(arrays)
    for _ in range(rng.integers(4)):
        ranges = np.sort(
            rng.integers(0, len(expected) + 1, (rng.integers(6), 2)), axis=1
        )
        rows = np.concatenate(
            [np.arange(0), *(np.arange(start, stop) for start, stop in ranges)]
        )
        features = take_rows(features, rows)
        expected = expected[rows]
        if rng.random() < 0.5:
            features, expected = (
                StackedRows([features, features]),
                np.concatenate([expected, expected]),
            )
    return features, expected


@given(seed=SEEDS)
def test_a_matrix_holds_the_rows_of_numpys_indexing(seed: int) -> None:
    features, expected = random_matrix(np.random.default_rng(seed))
    assert (len(features), features.ndim, features.size) == (
        len(expected),
        2,
        expected.size,
    )
    assert_same_bits(np.asarray(features), expected)
    assert_same_bits(as_array(features), expected)
    segments: list[list[int]] = [
        part for block in row_segments(features) for part in block.tolist()
    ]
    bits = with_one_nan(expected).view(np.uint32).tolist()
    by_value = [groupby(enumerate(row), key=lambda cell: cell[1]) for row in bits]
    assert segments == [
        [next(cells)[0], value] for groups in by_value for value, cells in groups
    ]


@given(seed=SEEDS)
def test_rows_columns_and_cells_are_those_of_an_array(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, expected = random_matrix(rng)
    num_rows, num_features = expected.shape
    column: Any = int(rng.integers(-num_features, num_features))
    start, stop = rng.integers(-9, 10, 2).tolist()
    step = int(rng.choice([1, 2, -1]))
    of_rows: list[Any] = [
        slice(start, stop, step),
        slice(None),
        rng.random(num_rows) < 0.5,
    ]
    if num_rows:
        drawn = rng.integers(-num_rows, num_rows, 9)
        of_rows += [drawn, drawn.astype(np.int32)]
        assert_same_bits(features[int(drawn[0])], expected[drawn[0]])
        pairs = drawn, np.full(len(drawn), column)
        assert_same_bits(features[pairs], expected[pairs])
    for rows in of_rows:
        assert_same_bits(features[rows], expected[rows])
        assert_same_bits(features[rows, column], expected[rows, column])
        assert_same_bits(features[rows, :column], expected[rows, :column])


@given(seed=SEEDS, size=st.one_of(st.none(), st.integers(1, 7)))
def test_blocks_are_all_rows_in_order_and_read_only(
    seed: int, size: int | None
) -> None:
    features, expected = random_matrix(np.random.default_rng(seed))
    blocks = list(row_blocks(features, size))
    num_rows = 0
    for start, block in blocks:
        assert start == num_rows
        assert type(block) is np.ndarray
        assert block.flags.c_contiguous
        assert not block.flags.writeable
        assert_same_bits(block, expected[start : start + len(block)])
        num_rows += len(block)
    assert num_rows == len(expected)
    most = size or matrix_module.rows_of_block(expected.shape[1])
    assert [len(block) for _, block in blocks[:-1]] == [most] * (len(blocks) - 1)


@given(seed=SEEDS)
def test_views_of_sparse_rows_stay_sparse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected, rows = random_array(rng, 9, 3), rng.integers(0, 9, rng.integers(1, 20))
    sparse = sparse_of(rng, expected, rng.choice(ABSENT))
    taken = csr_of(take_rows(take_rows(sparse, rows), np.arange(len(rows))[::-1]))
    assert taken is not None
    assert_same_bits(np.asarray(taken), expected[rows[::-1]])


def test_a_copy_that_does_not_fit_into_memory_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrix_module, "available_bytes", lambda: 1_500_000_000)
    part = np.broadcast_to(np.zeros(1, dtype=np.float32), (1_000_000, 400))
    view: FeatureMatrix = RowView(part, np.arange(1_000_000))
    named = ("1000000 documents", "1.6 GB", "1.5 GB", "model=native", "data.subset")
    with pytest.raises(DataError, match=naming(*named)):
        as_array(view)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_matrices_of_scipy_in_any_format_are_read(kind: str) -> None:
    array: NDArray[Any] = np.array([[0, 2, 0], [0, 0, 0], [4, 0, 5]])
    for absent in (0.0, np.nan):
        sparse = SparseRows.from_scipy(csr_matrix(array).asformat(kind), absent)
        assert_same_bits(
            np.asarray(sparse), np.where(array == 0, absent, array).astype(np.float32)
        )
    without_cells = csr_matrix((2, 3), dtype=np.float64).asformat(kind)
    assert not np.asarray(SparseRows.from_scipy(without_cells)).any()


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=12), seed=SEEDS)
def test_fingerprints_and_query_keys_are_those_of_the_array(
    sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    features = random_array(rng, sum(sizes), int(rng.integers(1, 5)))
    labels = rng.integers(0, 2, len(features)).astype(np.float64)
    dense = RankingDataset(
        features=features, labels=labels, query_start=np.cumsum([0, *sizes])
    )
    half = int(rng.integers(0, len(features) + 1))
    sparse = sparse_of(rng, features, rng.choice(ABSENT))
    queries = rng.permutation(len(sizes))[: len(sizes) // 2].tolist()
    expected = dense.take_queries(queries)
    for other in (
        sparse,
        StackedRows([take_rows(sparse, np.arange(half)), features[half:]]),
    ):
        stored = replace(dense, features=cast(Features, other))
        assert stored.fingerprint == dense.fingerprint
        assert stored.query_keys.tolist() == dense.query_keys.tolist()
        taken = stored.take_queries(queries)
        assert (
            taken.fingerprint == taken.in_memory().fingerprint == expected.fingerprint
        )
        assert taken.query_keys.tolist() == expected.query_keys.tolist()


# Different values that become equal in float32.

DATES = 20260100 + np.arange(1, 31)
READERS = ["csv", "parquet", "txt", "store", "frame", "fit", "array", "sparse"]


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_names_a_column_whose_values_become_equal(
    reader: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "query_id": np.arange(30) // 10,
            "label": np.arange(30) % 2,
            "a": rng.normal(size=30),
            "date": DATES,
        }
    )
    path, features = tmp_path / f"t.{reader}", table[["a", "date"]]
    arrays: Any = {"labels": table.label.to_numpy(), "query_start": [0, 10, 20, 30]}
    name = "date" if reader in ("csv", "parquet", "frame", "fit") else "2"
    read: RankingDataset | None = None
    match reader:
        case "csv":
            table.to_csv(path, index=False)
            read = read_data(path)
        case "parquet":
            table.to_parquet(path)
            read = read_data(path)
        case "txt":
            rows = table.to_numpy(dtype=object)
            lines = [f"{y} qid:{q} 1:{a} 2:{d} # d:1\n" for q, y, a, d in rows]
            path.write_text("".join(lines))
            read = read_data(path)
        case "store":
            write_store(path, RankingDataset(features=features.to_numpy(), **arrays))
            caplog.clear()
            read = read_data(path)
        case "frame":
            read = RankingDataset.from_frame(table)
        case "fit":
            fit: Any = RandomRanker().fit
            fit(features, table.label, qid=table.query_id)
        case "array":
            read = RankingDataset(features=features.to_numpy(), **arrays)
        case "sparse":
            SparseRows.from_scipy(csr_matrix(features.to_numpy()))
            name = "1 (202601"
    warned = [record.getMessage() for record in caplog.records]
    parts = ("minimum", "data.dates", name)
    assert [bool(re.search(naming(*parts), text)) for text in warned] == [True]
    if read is not None:
        assert read.take_queries([0]).merged == read.merged == (name,)
        inspection = inspect_data(read.take_queries([0, 1]), {})
        assert inspection.merged == (name,)
        assert inspection.feature_faults.constant_within_queries == ()


@pytest.mark.parametrize(
    ("values", "is_named"),
    [
        (DATES, True),
        (DATES - DATES[0], False),
        (DATES.astype(np.float32), False),
        (1_700_000_000 + np.arange(1000) * 60, True),
        (1_700_000_000_000 + np.arange(1000) * 60_000, True),
        (2**60 + np.arange(100), True),
        (1.7e9 + np.arange(1000) / 7, True),
        (np.random.default_rng(0).random(10**6), False),
        (np.random.default_rng(0).lognormal(0, 9, 10**5), False),
        # Rounding noise: 0.1 + 0.2 and 0.3 are the same value in different words.
        (np.tile([0.1 + 0.2, 0.3, 7.7], 99), False),
        (np.array([np.nan, np.inf, 3.0]), False),
        (np.array([]), False),
    ],
    ids=str,
)
def test_columns_are_named_if_they_lose_an_order_and_not_for_rounding(
    values: NDArray[Any], is_named: bool
) -> None:
    pair = merged_pair(values)
    assert (pair is not None) == is_named
    if pair is not None:
        assert pair[0] != pair[1]
        assert np.float32(pair[0]) == np.float32(pair[1])
