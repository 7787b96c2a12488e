"""CSV: rows have the width of the header, errors name the line, and no file is read in part."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import read_table
from ltrbench.data.formats.compression import read_blocks
from ltrbench.data.formats.table import csv_files
from ltrbench.data.formats.table.cells import number_of_text
from ltrbench.data.formats.table.csv_files import CsvFile, CsvTable
from ltrbench.data.formats.table.tables import ROLES
from ltrbench.errors import DataError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        (tmp_path / "train.csv").write_bytes(text.encode())
        return tmp_path / "train.csv"

    return write_file


MISTAKES = {
    "more cells than columns": (
        "label,query_id,a\n1,7,3,0.5\n0,7,5,0.1\n",
        [":2:", "4 cells", "3 columns", "Quote cells"],
    ),
    "a comma at the end of every row": (
        "label,query_id,a\n1,7,3,\n0,7,5,\n",
        [":2:", "4 cells", "3 columns", "Remove the commas"],
    ),
    "fewer cells than columns": (
        "label,query_id,a,b\n1,q,1,2\n1,q2,1\n",
        [":3:", "3 cells", "4 columns", "missing cells"],
    ),
    "a file that was cut off": ("label,query_id,a\n1,q,1\n1,q", [":3:", "2 cells", "copy the file"]),
    "a line of blanks": ("label,query_id,a\n1,q,1\n  \n", [":3:", "1 cells", "3 columns"]),
    "a column twice": ("label,query_id,a,a\n1,7,3,3\n", [":", "'a'", "rename"]),
    "the index of pandas": (",label,query_id,a\n0,1,7,3\n", [":", "column 1", "('')", "index=False"]),
    "a bad label": ("label,query_id,a\n1,q,1\n-1,q,2\n", [":3:", "-1.0", "'label'", "0 or more"]),
    "a bad label below blank lines": (
        "\n\nlabel,query_id,a\n\n1,q,1\n\n-1,q,2\n",
        [":7:", "-1.0", "'label'"],
    ),
    "a bad label below a cell of two lines": (
        'label,query_id,a\n1,"x\ny",1\n-1,q,2\n',
        [":4:", "-1.0", "'label'"],
    ),
    "a label that is a word": (
        "label,query_id,a\n1,q,1\ngood,q,2\n",
        [":3:", "'label'", "'good'", "grades as numbers"],
    ),
    "a label that is absent": ("label,query_id,a\n,q,1\n", [":2:", "nan", "'label'", "remove the document"]),
    "a query that is absent": ("label,query_id,a\n1,,1\n", [":2:", "'query_id'", "empty", "query id"]),
    "a word for a number": ("label,query_id,a\n1,q,x\n", [":2:", "'a'", "'x'", "not a number"]),
    "an underscore in a number": ("label,query_id,a\n1,q,1_0\n", [":2:", "'a'", "'1_0'"]),
    "an infinite number": ("label,query_id,a\n1,q,-inf\n", [":2:", "'a'", "-inf", "Rescale"]),
    "a number of 400 digits": (f"label,query_id,a\n1,q,{'9' * 400}\n", [":2:", "'a'", "inf", "Rescale"]),
    "no weight": (
        "label,query_id,weight,a\n1,p,1,1\n1,q,0,1\n",
        [":3:", "query 'q'", "weight 0", "Remove the query"],
    ),
    "an open quote": ('label,query_id,a\n1,"q,1\n', [":2:", "Close every quote"]),
    "a quote within a cell": ('label,query_id,a\n1,"q"x,1\n', [":2:", "double a quote"]),
    "a null byte": ("label,query_id,a\n1,q\0,1\n", [":2:", "byte 0x00", "not text", "convert"]),
    "nothing": ("", [":", "empty", "copied completely"]),
    "blank lines only": ("\n\n", [":", "empty"]),
    "a header alone": ("label,query_id,a\n", [":", "no rows", "at least one"]),
}


@pytest.mark.parametrize(("text", "parts"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_line(write: Write, text: str, parts: list[str]) -> None:
    place, *others = parts
    with pytest.raises(DataError, match=naming(*others)) as caught:
        read_table(write(text))
    assert str(caught.value).startswith(f"{write(text)}{place}")


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"label,query_id,a\n1,q,1\n1,\xff,1\n")
    with pytest.raises(DataError, match=naming("t.csv:3:", "byte 0xff", "UTF-8", "Convert")):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ends_of_lines_and_a_mark_of_utf8_change_nothing(write: Write, end: str, mark: str) -> None:
    read = read_table(write(mark + end.join(["label,query_id,a", "1,q,0.5", "0,q,2", ""])))
    assert read.labels.tolist() == [1, 0]
    assert read.features.tolist() == [[0.5], [2]]


def test_missing_values_and_switches_are_numbers_and_ids_are_not(write: Write) -> None:
    read = read_table(write("label,query_id,a,b\n1,NA,NA,True\n0,null, +1 ,FALSE\n0,nan,,1\n"))
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
        patch.setattr(csv_files, "_read_fast", lambda *_: None)
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

# Tables of `write_table` and pandas, of spreadsheets, with quotes, and typed by hand.
REAL_TABLES = (
    b"query_id,document_id,label,weight,position,bm25,pagerank\r\n"
    b"10,GX000-24-123,0.0,0.5,1,0.031310,1e-05\r\n10,GX8,2.0,0.5,2,0.5,\r\n11,,1.0,2.0,1,3,0.25\r\n",
    b'\xef\xbb\xbf"relevance","qid","title ""a"", body"\n"2","007","0.5"\n"0","007","-14.73"\n',
    b"label,qid,bm25,is_new\n3,a,7,True\n\n0,b,NA,FALSE\n1,b,nan,0\n",
)


@st.composite
def mutated_real_tables(draw: st.DrawFn) -> bytes:
    """Generates a real table with cells or lines repeated or lost, and bytes changed, removed or inserted."""
    text = draw(st.sampled_from(REAL_TABLES))
    for separator in (b",", b"\n"):
        parts = text.split(separator)
        place = draw(st.integers(0, len(parts) - 1))
        change = draw(st.sampled_from(["none", "none", "doubled", "lost"]))
        kept = {"none": [parts[place]], "doubled": [parts[place]] * 2, "lost": []}[change]
        text = separator.join([*parts[:place], *kept, *parts[place + 1 :]])
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        put_in = draw(ODD_TEXT.map(str.encode) | st.binary(max_size=2))
        text = text[:start] + put_in + text[start + draw(st.integers(0, 3)) :]
    return text


def specified(content: bytes) -> dict[str, Any]:
    """Returns the contents of a table, read by the simplest implementation.

    Raises:
        ValueError: The file is not text, is not a table, or has invalid values.
    """
    rows = _rows_of(content)
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    named = {role: [name for name in names if name in columns] for role, names in ROLES.items()}
    names = {role: present[0] for role, present in named.items() if present}
    features = [name for name in columns if name not in names.values()]
    _require(max(map(len, named.values())) == 1 and {"label", "query"} <= set(names) and bool(features))
    _require(all(name and not name.startswith("Unnamed: ") for name in features))
    contents: dict[str, Any] = {role: columns[name] for role, name in names.items()}
    for role in {"label", "weight", "position"} & set(names):
        contents[role] = [number_of_text(cell) for cell in contents[role]]
        _require(all(0 <= number < math.inf for number in contents[role]))
    _require(all(number.is_integer() and number < 2**53 for number in contents.get("position", ())))
    runs = [query for query, _ in itertools.groupby(contents["query"])]
    _require("" not in runs and len(runs) == len(set(runs)))
    for query in runs if "weight" in contents else ():
        _require(
            any(
                weight
                for each, weight in zip(contents["query"], contents["weight"], strict=True)
                if each == query
            )
        )
    with np.errstate(over="ignore"):
        contents["features"] = np.array(
            [[number_of_text(cell) for cell in columns[name]] for name in features], np.float32
        ).T
    _require(not np.isinf(contents["features"]).any())
    return contents


def _rows_of(content: bytes) -> list[list[str]]:
    """Returns the non-blank rows: a header and at least one more row of the same width."""
    text = content.decode("utf-8-sig")
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        raise ValueError from None
    _require("\0" not in text and len(rows) > 1 and len(set(rows[0])) == len(rows[0]))
    return rows


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


@given(content=mutated_real_tables() | csv_texts().map(str.encode) | st.binary(max_size=100))
@example(REAL_TABLES[0])
@example(REAL_TABLES[1])
@example(REAL_TABLES[2])
@settings(deadline=None, max_examples=100)
def test_a_table_is_read_as_specified_or_refused_as_specified(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(content)
    try:
        contents = specified(content)
    except ValueError:
        with pytest.raises(DataError):  # any other error fails the test
            read_table(path)
        return
    read = read_table(path)
    np.testing.assert_array_equal(read.features, contents["features"])
    assert read.labels.tolist() == list(contents["label"])
    assert read.query_ids[read.query_of_document].tolist() == list(contents["query"])
    if "document" in contents:
        assert read.document_ids is not None
        assert read.document_ids.tolist() == list(contents["document"])
    if "weight" in contents:
        assert read.weight_of_document.tolist() == contents["weight"]
    if "position" in contents:
        assert read.positions is not None
        assert read.positions.tolist() == contents["position"]


def test_real_tables_are_read() -> None:
    assert [len(specified(content)["label"]) for content in REAL_TABLES] == [3, 2, 3]
