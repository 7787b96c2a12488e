"""CSV: rows have the width of the header, errors name the line, and no file is read in part."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import read_table, table_files
from ltrbench.data.blocks import read_blocks
from ltrbench.data.table_files import CsvFile, CsvTable, number_of_text
from ltrbench.errors import DataError

Write = Callable[..., Path]


MISTAKES: list[tuple[str, list[str]]] = [
    ("label,query_id,a\n1,7,3,0.5\n0,7,5,0.1\n", [":2:", "4 cells", "3 columns", "Quote cells"]),
    ("label,query_id,a\n1,7,3,\n0,7,5,\n", [":2:", "4 cells", "3 columns", "Remove the commas"]),
    ("label,query_id,a,b\n1,q,1,2\n1,q2,1\n", [":3:", "3 cells", "4 columns", "missing cells"]),
    ("label,query_id,a\n1,q,1\n1,q", [":3:", "2 cells", "copy the file"]),
    ("label,query_id,a\n1,q,1\n  \n", [":3:", "1 cells", "3 columns"]),
    ("label,query_id,a,a\n1,7,3,3\n", [":", "'a'", "rename"]),
    (",label,query_id,a\n0,1,7,3\n", [":", "column 1", "('')", "index=False"]),
    ("\n\nlabel,query_id,a\n\n1,q,1\n\n-1,q,2\n", [":7:", "-1.0", "'label'", "0 or more"]),
    ('label,query_id,a\n1,"x\ny",1\n-1,q,2\n', [":4:", "-1.0", "'label'"]),
    ("label,query_id,a\n1,q,1\ngood,q,2\n", [":3:", "'label'", "'good'", "grades as numbers"]),
    ("label,query_id,a\n,q,1\n", [":2:", "nan", "'label'", "remove the document"]),
    ("label,query_id,a\n1,,1\n", [":2:", "'query_id'", "empty", "query id"]),
    ("label,query_id,a\n1,q,1_0\n", [":2:", "'a'", "'1_0'", "not a number"]),
    ("label,query_id,a\n1,q,-inf\n", [":2:", "'a'", "-inf", "Rescale"]),
    (f"label,query_id,a\n1,q,{'9' * 400}\n", [":2:", "'a'", "inf", "Rescale"]),
    ("label,query_id,weight,a\n1,p,1,1\n1,q,0,1\n", [":3:", "query 'q'", "weight 0", "Remove the query"]),
    ('label,query_id,a\n1,"q,1\n', [":2:", "Close every quote"]),
    ('label,query_id,a\n1,"q"x,1\n', [":2:", "double a quote"]),
    ("label,query_id,a\n1,q\0,1\n", [":2:", "byte 0x00", "not text", "convert"]),
    ("", [":", "empty", "copied completely"]),
    ("\n\n", [":", "empty"]),
    ("label,query_id,a\n", [":", "no rows", "at least one"]),
]


@pytest.mark.parametrize(("text", "parts"), MISTAKES)
def test_a_mistake_is_told_with_its_line(write: Write, text: str, parts: list[str]) -> None:
    place, *others = parts
    with pytest.raises(DataError, match=naming(*others)) as caught:
        read_table(write(text, "train.csv"))
    assert str(caught.value).startswith(f"{write(text, 'train.csv')}{place}")


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"label,query_id,a\n1,q,1\n1,\xff,1\n")
    with pytest.raises(DataError, match=naming("t.csv:3:", "byte 0xff", "UTF-8", "Convert")):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ends_of_lines_and_a_mark_of_utf8_change_nothing(write: Write, end: str, mark: str) -> None:
    read = read_table(write(mark + end.join(["label,query_id,a", "1,q,0.5", "0,q,2", ""]), "train.csv"))
    assert read.labels.tolist() == [1, 0]
    assert read.features.tolist() == [[0.5], [2]]


def test_missing_values_and_switches_are_numbers_and_ids_are_not(write: Write) -> None:
    read = read_table(write("label,query_id,a,b\n1,NA,NA,True\n0,null, +1 ,FALSE\n0,nan,,1\n", "train.csv"))
    np.testing.assert_array_equal(read.features, [[np.nan, 1], [1, 0], [np.nan, 1]])
    assert read.query_ids.tolist() == ["NA", "null", "nan"]


# pyarrow and the specification

ORDINARY = ["0", "1", "-0.5", "1e3", ".5", "5.", "", "7"]
ODD = [
    "+1",
    "1e400",
    "1e-400",
    " 7",
    "NA",
    "nan",
    "NaN(1)",
    "-inf",
    "inf",
    "infinity",
    "true",
    "1_0",
    "0x1p3",
]
CELLS = st.sampled_from([*ORDINARY, *ODD, "1e", "x", "\u0663", "é", "1,5", "a b"])
QUOTED = CELLS.map(lambda cell: f'"{cell}"')
ODD_TEXT = st.sampled_from(["\n", "\r", "\r\n", '"', '""', ",", "\0", "\ufeff", "\x0b", "\u2028", " "])


@st.composite
def csv_texts(draw: st.DrawFn) -> str:
    """Generates tables of a few rows, with some text inserted or removed."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    cells = CELLS.filter(lambda cell: "," not in cell) | QUOTED
    rows = draw(st.lists(st.tuples(cells, cells, cells).map(",".join), max_size=4))
    text = end.join(["label,query_id,a", *rows]) + draw(st.sampled_from(["", end]))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(ODD_TEXT) + text[start + draw(st.integers(0, 2)) :]
    return text


def read_csv(path: Path) -> CsvTable:
    """Returns all columns of a file as text."""
    file = CsvFile(path, lambda: read_blocks(path))
    return file.read(file.columns, [], lambda *_: None)


def cells_of(text: str, path: Path) -> tuple[tuple[str, ...], list[list[str]], list[str]] | str:
    """Returns columns, cells and places of a file, or its DataError; any other error fails the test."""
    path.write_bytes(text.encode())
    try:
        table = read_csv(path)
    except DataError as error:
        return str(error)
    names, columns = zip(*table.cells.to_pydict().items(), strict=True)
    return names, list(columns), [table.place(row) for row in range(table.num_rows)]


@given(text=csv_texts())
@example('a,b,c\n"1","2","3"\n')
@example('a,b,c\n"1,",2"\n')
@settings(deadline=None, max_examples=100)
def test_pyarrow_reads_what_the_specification_reads_or_leaves_it(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    usual = cells_of(text, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "_read_fast", lambda *_: None)
        assert cells_of(text, path) == usual
    if not isinstance(usual, str):
        # Python's csv module on the whole text.
        content = text.removeprefix("\ufeff")
        rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row]
        assert [list(row) for row in zip(*usual[1], strict=True)] == rows[1:]


@given(cells=st.lists(CELLS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=100)
def test_a_column_is_read_cell_by_cell(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("a,b\n" + "".join(f'"{cell}",\n' for cell in cells))
    expected = []
    for row, cell in enumerate(cells):
        try:
            expected.append(number_of_text(cell))
        except ValueError:
            with pytest.raises(DataError, match=naming(f"t.csv:{row + 2}:", "'a'", "not a number", "remedy")):
                read_csv(path).numbers("a", "remedy")
            return
    np.testing.assert_array_equal(read_csv(path).numbers("a", "remedy"), expected)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(deadline=None, max_examples=50)
def test_a_double_is_read_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("a,b\n" + "".join(f"{value!r},\n" for value in values))
    assert read_csv(path).numbers("a", "").tolist() == values


# Contents of a table, and the specification
