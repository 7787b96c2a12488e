"""Tables read by blocks: every result and every message is that of one frame, wherever the blocks end."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from one_frame import read_in_one_frame

from ltrbench.data import RankingDataset, blocks, read_table, table_files
from ltrbench.data import tables as frame
from ltrbench.data import tables as parquet_files
from ltrbench.data.features import arrays_of, is_mapped
from ltrbench.data.table_files import SplitColumns
from ltrbench.data.tables import read_table_to_split
from ltrbench.errors import DataError

Read = Callable[..., tuple[RankingDataset, SplitColumns]]
ROLES = dict.fromkeys(["label", "query", "document", "weight", "position", "split_by", "group_by"])


@pytest.fixture(autouse=True, scope="module")
def tiny_blocks() -> Iterator[None]:
    """Blocks of a line of text, of one column of a row group, and of two ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_BLOCK_BYTES", 5)
        patch.setattr(table_files, "TEXT_BLOCK_BYTES", 1)
        for module in (table_files, frame, parquet_files):
            patch.setattr(module, "TABLE_BLOCK_BYTES", 1)
        for module in (table_files, frame):
            patch.setattr(module, "_ROWS_OF_PIECE", 2)
        yield


def outcome(read: Read, *arguments: Any, **options: Any) -> dict[str, Any] | str:
    """Returns everything that a reader returns, or its message; any other error fails the test."""
    try:
        dataset, columns = read(*arguments, **options)
    except DataError as error:
        return str(error)
    names = ("labels", "query_start", "query_ids", "document_ids", "query_weights", "document_weights")
    arrays = {name: getattr(dataset, name) for name in (*names, "positions", "file_rows")}
    return {
        "fingerprint": dataset.fingerprint,
        "features": np.asarray(dataset.features).tobytes(),
        "feature_names": dataset.feature_names,
        "times": columns.times,
        "groups": columns.groups,
        **{name: None if array is None else (array.dtype, array.tolist()) for name, array in arrays.items()},
    }


LABELS = ["0", "1", "2", "4.0", " 3"]
WEIGHTS = ["1", "0.5", "2e0", "0"]
NUMBERS = ["0", "1", "-0.5", "1e3", "", "", "NA", "nan", "true", " 7", "1e-400", "0.1", "16777217"]
IDS = ["7", "007", "7.0", "a", "q x", "1e3", "NA", "a,b", 'say "x"', "two\nlines", "é"]
MISTAKEN = ["", "x", "-1", "inf", "1e400", "1e39", "0.5", "1_0", "nan(1)", "z" * 1001]
CELLS = {
    "label": LABELS,
    "query_id": IDS[:4],
    "docid": ["", *IDS],
    "weight": WEIGHTS,
    "position": ["0", "1", "3.0", "12"],
    "when": ["2026-01-01", "2026-02", "2026-01-09T09:30"],
    "group": ["g", "g", "g", "h"],
    "a": NUMBERS,
    "b": NUMBERS,
}


@st.composite
def csv_tables(draw: st.DrawFn) -> tuple[list[str], dict[str, str | None]]:
    """Generates the texts of one or two files with the same columns, and their roles."""
    optional = ("docid", "weight", "position", "when", "group", "b")
    names = ["label", "query_id", "a", *(name for name in optional if draw(st.booleans()))]
    names = draw(st.permutations(names))
    mistakes = draw(st.sampled_from([0.0, 0.0, 0.1]))
    quote = draw(st.sampled_from(["never", "sometimes", "always"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    texts = []
    for _ in range(draw(st.integers(1, 2))):
        rows = [
            names,
            *([drawn(draw, name, mistakes) for name in names] for _ in range(draw(st.integers(1, 6)))),
        ]
        lines = [",".join(quoted(draw, cell, quote) for cell in row) for row in rows]
        endings = ["", "", "", end, ","] if mistakes else ["", "", end]
        rest = [line + draw(st.sampled_from(endings)) for line in lines[1:]]
        texts.append(end.join([lines[0], *rest]) + draw(st.sampled_from(["", end])))
    split = {
        "split_by": "when" if "when" in names else None,
        "group_by": "group" if "group" in names else None,
    }
    return texts, {**ROLES, **split}


def drawn(draw: st.DrawFn, name: str, mistakes: float) -> str:
    wrong = draw(st.floats(0, 1)) < mistakes
    return draw(st.sampled_from(MISTAKEN if wrong else CELLS[name]))


def quoted(draw: st.DrawFn, cell: str, quote: str) -> str:
    needed = any(character in cell for character in ',"\n\r')
    if needed or quote == "always" or (quote == "sometimes" and draw(st.booleans())):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@given(tables=csv_tables(), sort_queries=st.booleans(), whole_labels=st.booleans(), packed=st.booleans())
@settings(deadline=None, max_examples=200)
def test_a_csv_file_is_read_as_in_one_frame(
    tmp_path_factory: pytest.TempPathFactory,
    tables: tuple[list[str], dict[str, str | None]],
    sort_queries: bool,
    whole_labels: bool,
    packed: bool,
) -> None:
    texts, roles = tables
    folder = tmp_path_factory.mktemp("csv")
    paths = [folder / f"{number}.csv{'.gz' if packed else ''}" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    options = {"sort_queries": sort_queries, "whole_labels": whole_labels}
    assert outcome(read_table_to_split, paths, roles, **options) == outcome(
        read_in_one_frame, paths, roles, **options
    )


# Column -> types of Arrow, and the values of each.
TYPES: dict[str, list[tuple[pyarrow.DataType, list[Any]]]] = {
    "label": [
        (pyarrow.int64(), [0, 1, 3]),
        (pyarrow.float32(), [0, 1.5, 2]),
        (pyarrow.string(), ["0", "2"]),
        (pyarrow.bool_(), [True, False]),
        (pyarrow.int64(), [0, 1, None, -1]),
    ],
    "query_id": [
        (pyarrow.int64(), [7, 8, 2**60 + 1]),
        (pyarrow.string(), ["7", "007", "a"]),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), ["7", "007", "a"]),
        (pyarrow.decimal128(20, 0), [Decimal(7), Decimal(8)]),
        (pyarrow.float64(), [7, 0.1]),
        (pyarrow.int64(), [7, 7, 8, None]),
        (pyarrow.string(), ["7", "7", "a", "", None, "z" * 1001]),
    ],
    "weight": [
        (pyarrow.float64(), [1, 0.5, 2]),
        (pyarrow.int8(), [0, 1]),
        (pyarrow.float32(), [1, None, -1]),
    ],
    "position": [(pyarrow.int32(), [0, 1, 12]), (pyarrow.float64(), [0, 2, 0.5, None])],
    "docid": [
        (pyarrow.int64(), [1, 2**60 + 1]),
        (pyarrow.string(), ["", "d1", "long " * 9]),
        (pyarrow.int64(), [1, None]),
    ],
    "when": [
        (pyarrow.date32(), [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]),
        (pyarrow.timestamp("ms"), [datetime(2026, 1, 1), datetime(2026, 1, 2, 3)]),
        (pyarrow.int64(), [1, 2, 3]),
        (pyarrow.string(), ["2026-01-01", "2026-02", "5", "x", None]),
        (pyarrow.float64(), [1, 2, None]),
    ],
    "group": [(pyarrow.string(), ["g", "g", "h"]), (pyarrow.int64(), [1, 1, 2, None])],
}
FEATURE_TYPES = [
    (pyarrow.float32(), [0.5, -1, None, float("nan")]),
    (pyarrow.float64(), [0.1, 1e-300, None]),
    (pyarrow.int64(), [0, 2**60 + 1, None]),
    (pyarrow.uint8(), [0, 255]),
    (pyarrow.bool_(), [True, False, None]),
    (pyarrow.bool_(), [True, False]),
    (pyarrow.string(), ["1", " 2 ", "NA", None]),
    (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), ["1", "2", None]),
    (pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()), [1, 2, None]),
    (pyarrow.decimal128(5, 2), [Decimal("0.25"), None]),
    (pyarrow.null(), [None]),
    (pyarrow.float64(), [0, 1e39, float("inf")]),
    (pyarrow.string(), ["1", "x"]),
    (pyarrow.date32(), [date(2026, 1, 1), date(2026, 1, 2)]),
]


@st.composite
def parquet_tables(draw: st.DrawFn) -> tuple[list[tuple[pyarrow.Table, int]], dict[str, str | None]]:
    """Generates one or two tables with the same columns and the sizes of row groups, and their roles."""
    optional = ("weight", "position", "docid", "when", "group")
    names = ["label", "query_id", *(name for name in optional if draw(st.booleans()))]
    columns = {name: draw(st.sampled_from(TYPES[name])) for name in names}
    columns |= {
        name: draw(st.sampled_from(FEATURE_TYPES)) for name in draw(st.sampled_from(["a", "ab", "abc"]))
    }
    tables = []
    for _ in range(draw(st.integers(1, 2))):
        size = draw(st.integers(1, 7))
        arrays = {
            name: array_of([draw(st.sampled_from(values)) for _ in range(size)], kind)
            for name, (kind, values) in columns.items()
        }
        tables.append((pyarrow.table(arrays), draw(st.integers(1, 4))))
    split = {
        "split_by": "when" if "when" in names else None,
        "group_by": "group" if "group" in names else None,
    }
    return tables, {**ROLES, **split}


def array_of(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if pyarrow.types.is_dictionary(kind):
        return pyarrow.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pyarrow.array(values, kind)


@given(tables=parquet_tables(), sort_queries=st.booleans(), whole_labels=st.booleans())
@settings(deadline=None, max_examples=200)
def test_a_parquet_file_is_read_as_in_one_frame(
    tmp_path_factory: pytest.TempPathFactory,
    tables: tuple[list[tuple[pyarrow.Table, int]], dict[str, str | None]],
    sort_queries: bool,
    whole_labels: bool,
) -> None:
    folder, (contents, roles) = tmp_path_factory.mktemp("parquet"), tables
    paths = [folder / f"{number}.parquet" for number in range(len(contents))]
    for path, (table, size) in zip(paths, contents, strict=True):
        pyarrow.parquet.write_table(table, path, row_group_size=size)
    options = {"sort_queries": sort_queries, "whole_labels": whole_labels}
    assert outcome(read_table_to_split, paths, roles, **options) == outcome(
        read_in_one_frame, paths, roles, **options
    )


def write_csv(path: Path, num_rows: int) -> Path:
    rows = "".join(f"{row % 3},q{row // 2},{row},{row / 4}\n\n" for row in range(num_rows))
    path.write_text(f"label,query_id,a,b\n{rows}")
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("scattered", [False, True])
def test_features_in_a_temporary_file_are_the_same(
    tmp_path: Path, ending: str, scattered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    queries = rng.integers(4, size=50) if scattered else np.arange(50) // 5
    frame = pd.DataFrame(
        {"label": rng.integers(3, size=50), "query_id": queries, "a": rng.random(50), "b": 1.5}
    )
    path = tmp_path / f"t.{ending}"
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    expected = read_table(path, sort_queries=scattered)
    # Memory for labels and ids: 16 bytes a row, and 17 for the one character of each of two text columns.
    monkeypatch.setattr(table_files, "available_bytes", lambda: 50 * (16 + 2 * 17))
    dataset = read_table(path, sort_queries=scattered, scratch=tmp_path / "scratch")
    (array,) = arrays_of(dataset.features)
    assert is_mapped(array)
    assert dataset.fingerprint == expected.fingerprint
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_that_does_not_fit_into_memory_is_refused_before_it_is_read(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "t.csv", 9)
    if ending == "parquet":
        frame_of_table = read_table(path).to_frame()
        path = tmp_path / "t.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame_of_table), path)
    rows = 18 if ending == "csv" else 9
    # Memory for labels and queries of up to three characters, not for the features.
    monkeypatch.setattr(table_files, "available_bytes", lambda: rows * (16 + 2 * 19))
    with pytest.raises(
        DataError,
        match=naming(f"{path}:", f"{rows} rows", "2 features", "0.0 GB", "more memory", "data.features"),
    ):
        read_table(path)


@pytest.mark.parametrize("ending", ["csv", "parquet", None])
@pytest.mark.parametrize("with_scratch", [False, True])
def test_ids_that_do_not_fit_into_memory_are_refused_before_they_are_read(
    tmp_path: Path, ending: str | None, with_scratch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"document {number:021}" for number in range(100)]
    table: Any = pd.DataFrame({"label": 0, "query_id": "q", "document_id": ids, "a": range(100)})
    source = table if ending is None else tmp_path / f"t.{ending}"
    if ending is not None:
        table.to_parquet(source) if ending == "parquet" else table.to_csv(source, index=False)
    # A row: 16 bytes, 16 and the characters of each of three columns, and the document id in NumPy.
    needed = 100 * (16 + 3 * 16 + 1 + 1 + 30 + 8 * 30)
    scratch = tmp_path / "scratch" if with_scratch else None
    monkeypatch.setattr(table_files, "available_bytes", lambda: needed - 1)
    parts = ("100 rows", "document of 30 characters", "0.0 GB", "shorter ids")
    with pytest.raises(DataError, match=naming(*parts)):
        read_table(source, scratch=scratch)
    monkeypatch.setattr(table_files, "available_bytes", lambda: needed + 4 * 100)
    assert read_table(source, scratch=scratch).document_ids is not None


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"1,q,1,1\n1,\xff,1,1\n1,q\0,1,1\n", [":4:", "byte 0x00"]),
        (b'1,"q,1,1\n1,q,1,1\n1,\xc3,1,1\n', [":4:", "byte 0xc3", "UTF-8"]),
        (b'1,q,1,1\n1,"q,1,1\n1,q,1,1\n', [":3:", "Close every quote"]),
        (b"1,q,x,1\n1,q,1\n", [":3:", "3 cells", "4 columns"]),
        (b"1,q,1,1e39\n1,q,1,x\n1,q,inf,1\n", [":4:", "'a'", "inf"]),
        (b"1,q,1e39,1\n1,q,x,1\n", [":3:", "'a'", "'x'", "not a number"]),
        (b"-1,q,x,1\n", [":2:", "-1.0", "'label'"]),
    ],
)
def test_the_first_of_several_mistakes_is_the_same_wherever_blocks_end(
    tmp_path: Path, content: bytes, parts: list[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"label,query_id,a,b\n" + content)
    with pytest.raises(DataError, match=naming("t.csv", *parts)):
        read_table(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_BLOCK_BYTES", 1 << 18)
        patch.setattr(table_files, "TEXT_BLOCK_BYTES", 1 << 20)
        with pytest.raises(DataError, match=naming("t.csv", *parts)):
            read_table(path)


def test_a_folder_of_parquet_files_with_values_in_its_paths_is_one_table(tmp_path: Path) -> None:
    table = pyarrow.table(
        {"label": [0, 1, 2], "query_id": ["a", "b", "b"], "a": [0.5, 1, 2], "a.b": [1, 2, 3]}
    )
    for part in range(2):
        folder = tmp_path / "t.parquet" / f"part={part}"
        folder.mkdir(parents=True)
        pyarrow.parquet.write_table(table, folder / "0.parquet", row_group_size=2)
    read = read_table(tmp_path / "t.parquet", query="part", features=["a.b", "a"])
    assert read.query_ids.tolist() == ["0", "1"]
    assert read.features.tolist() == [[1, 0.5], [2, 1], [3, 2]] * 2


def test_a_csv_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", 2)
    texts = iter([path.read_bytes(), path.read_bytes() + b"1,q9,1,1\n" * 9])
    file = table_files.CsvFile(path, lambda: iter([(next(texts), 1)]))
    rows = table_files.FeatureRows(["a"], np.empty((file.max_rows, 1), dtype=np.float32))
    with pytest.raises(DataError, match=naming("t.csv:", "changed", "read it again")):
        file.read(["label"], ["a"], rows.take)
