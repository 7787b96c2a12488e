"""CSV: rows have the width of the header, errors name the line, and no file is read in part."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import read_table
from ltrbench.data.tables import number_of_text
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


# Cells as the csv module and Python read them.

LABELS = ["0", "1", "2", "4.0", " 3"]
NUMBERS = [
    "0",
    "1",
    "-0.5",
    "1e3",
    ".5",
    "5.",
    "",
    "NA",
    "nan",
    "true",
    "+1",
    " 7",
    "1e-400",
    "0.1",
    "16777217",
]
IDS = ["7", "007", "7.0", "a", "q x", "1e3", "NA", "a,b", 'say "x"', "two\nlines", "é", "2026-01-01"]
COLUMNS = {"label": LABELS, "query_id": IDS, "docid": ["", *IDS], "a": NUMBERS, "b": NUMBERS}


@given(
    rows=st.lists(st.tuples(*map(st.sampled_from, COLUMNS.values())), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    blank=st.booleans(),
    packed=st.booleans(),
)
@settings(deadline=None, max_examples=100)
def test_every_cell_is_read_as_python_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    end: str,
    quoting: Any,
    blank: bool,
    packed: bool,
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end * 2 if blank else end, quoting=quoting)
    writer.writerows([tuple(COLUMNS), *rows])
    path = tmp_path_factory.mktemp("csv") / f"t.csv{'.gz' if packed else ''}"
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    read = read_table(path, sort_queries=True)
    order = np.arange(len(rows)) if read.file_rows is None else read.file_rows
    columns = dict(zip(COLUMNS, zip(*(rows[row] for row in order), strict=True), strict=True))
    assert read.query_ids[read.query_of_document].tolist() == list(columns["query_id"])
    assert read.document_ids is not None
    assert read.document_ids.tolist() == list(columns["docid"])
    assert read.labels.tolist() == [float(cell) for cell in columns["label"]]
    expected = np.array([[number_of_text(cell) for cell in columns[name]] for name in "ab"], np.float32).T
    np.testing.assert_array_equal(np.asarray(read.features), expected)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(deadline=None, max_examples=50)
def test_a_label_is_read_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    labels = [abs(value) for value in values]
    path.write_text("label,query_id,a\n" + "".join(f"{label!r},q,1\n" for label in labels))
    assert read_table(path).labels.tolist() == labels
