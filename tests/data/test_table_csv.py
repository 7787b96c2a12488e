"""CSV: every row is as wide as the header, a mistake is told with its line, and nothing is read by half."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ltrbench.data import read_table, table_csv
from ltrbench.data.table_cells import number_of_text
from ltrbench.data.table_csv import read_csv
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
        ":2: the row has 4 cells, but the header has 3 columns. Quote a cell that holds a comma",
    ),
    "a comma at the end of every row": (
        "label,query_id,a\n1,7,3,\n0,7,5,\n",
        ":2: the row has 4 cells, but the header has 3 columns. Remove the commas at the end",
    ),
    "fewer cells than columns": (
        "label,query_id,a,b\n1,q,1,2\n1,q2,1\n",
        ":3: the row has 3 cells, but the header has 4 columns. Fill the row in",
    ),
    "a file that was cut off": ("label,query_id,a\n1,q,1\n1,q", ":3: the row has 2 cells"),
    "a line of blanks": ("label,query_id,a\n1,q,1\n  \n", ":3: the row has 1 cells"),
    "a column twice": ("label,query_id,a,a\n1,7,3,3\n", ": the column 'a' is there twice; rename one"),
    "the index of pandas": (",label,query_id,a\n0,1,7,3\n", ": column 1 has no name ('')"),
    "a bad label": ("label,query_id,a\n1,q,1\n-1,q,2\n", ":3: label -1.0 in column 'label'"),
    "a bad label below blank lines": (
        "\n\nlabel,query_id,a\n\n1,q,1\n\n-1,q,2\n",
        ":7: label -1.0 in column 'label'",
    ),
    "a bad label below a cell of two lines": (
        'label,query_id,a\n1,"x\ny",1\n-1,q,2\n',
        ":4: label -1.0 in column 'label'",
    ),
    "a label that is a word": (
        "label,query_id,a\n1,q,1\ngood,q,2\n",
        ":3: column 'label' is 'good', which is not a number; grade documents by numbers",
    ),
    "a label that is absent": ("label,query_id,a\n,q,1\n", ":2: label nan in column 'label' is not a grade"),
    "a query that is absent": ("label,query_id,a\n1,,1\n", ":2: column 'query_id' is empty; give each row"),
    "a word for a number": ("label,query_id,a\n1,q,x\n", ":2: column 'a' is 'x', which is not a number"),
    "an underscore in a number": ("label,query_id,a\n1,q,1_0\n", ":2: column 'a' is '1_0'"),
    "an infinite number": ("label,query_id,a\n1,q,-inf\n", ":2: column 'a' is -inf; it must be finite"),
    "a number of 400 digits": (f"label,query_id,a\n1,q,{'9' * 400}\n", ":2: column 'a' is inf; it must be"),
    "no weight": (
        "label,query_id,weight,a\n1,p,1,1\n1,q,0,1\n",
        ":3: query 'q' begins here, and all its documents have the weight 0",
    ),
    "an open quote": ('label,query_id,a\n1,"q,1\n', ":2: the row that begins here cannot be read"),
    "a quote within a cell": ('label,query_id,a\n1,"q"x,1\n', ":2: the row that begins here cannot be read"),
    "a null byte": ("label,query_id,a\n1,q\0,1\n", ":2: byte 0x00 is not text"),
    "nothing": ("", ": is empty. Check that the file was written and copied whole"),
    "blank lines only": ("\n\n", ": is empty"),
    "a header alone": ("label,query_id,a\n", ": the table has no rows"),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_line(write: Write, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_table(write(text))
    assert str(caught.value).startswith(f"{write(text)}{message}")


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"label,query_id,a\n1,q,1\n1,\xff,1\n")
    with pytest.raises(DataError, match=r"t\.csv:3: byte 0xff is not UTF-8 text\. Convert"):
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
    """Tables of a few rows, with some texts put in or taken out."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    cells = CELLS.filter(lambda cell: "," not in cell) | QUOTED
    rows = draw(st.lists(st.tuples(cells, cells, cells).map(",".join), max_size=4))
    text = end.join(["label,query_id,a", *rows]) + draw(st.sampled_from(["", end]))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(ODD_TEXT) + text[start + draw(st.integers(0, 2)) :]
    return text


def cells_of(text: str, path: Path) -> tuple[tuple[str, ...], list[list[str]], list[str]] | str:
    """All that is read of a file, and where; or its error. Any error but a DataError fails the test."""
    path.write_bytes(text.encode())
    try:
        table = read_csv(path)
    except DataError as error:
        return str(error)
    columns = [table.cells.column(number).to_pylist() for number in range(len(table.columns))]
    return table.columns, columns, [table.place(row) for row in range(table.num_rows)]


@given(text=csv_texts())
@example('a,b,c\n"1","2","3"\n')
@example('a,b,c\n"1,",2"\n')
@settings(deadline=None, max_examples=400)
def test_pyarrow_reads_what_the_specification_reads_or_leaves_it(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    usual = cells_of(text, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_csv, "_read_fast", lambda *_: None)
        assert cells_of(text, path) == usual
    if not isinstance(usual, str):
        # Python's csv module itself, for which a file is one text.
        content = text.removeprefix("\ufeff")
        rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row]
        assert [list(row) for row in zip(*usual[1], strict=True)] == rows[1:]


@given(cells=st.lists(CELLS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
def test_a_column_is_read_cell_by_cell(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("a,b\n" + "".join(f'"{cell}",\n' for cell in cells))
    expected = []
    for row, cell in enumerate(cells):
        try:
            expected.append(number_of_text(cell))
        except ValueError:
            with pytest.raises(DataError, match=f"t.csv:{row + 2}: column 'a' is .*not a number; mend it"):
                read_csv(path).numbers("a", "mend it")
            return
    np.testing.assert_array_equal(read_csv(path).numbers("a", "mend it"), expected)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(deadline=None)
def test_a_double_is_read_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("a,b\n" + "".join(f"{value!r},\n" for value in values))
    assert read_csv(path).numbers("a", "").tolist() == values


@given(content=st.binary(max_size=100) | csv_texts().map(str.encode))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(content)
    with suppress(DataError):  # any other error fails the test
        read = read_table(path)
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
        assert read.num_documents == sum(1 for row in rows if row) - 1
        assert not math.isnan(read.labels.sum())
