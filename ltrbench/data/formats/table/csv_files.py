"""CSV files, plain or compressed. Every row must have as many cells as the header.

Each row starts on a new line, blank lines are skipped, and cells may be quoted. Python's csv module is the
specification (`_read_plainly`). pyarrow reads an ordinary file in a fraction of the time; a file with
anything unusual is read by the csv module. A test compares the two.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.compression import read_blocks
from ltrbench.data.formats.table.cells import check_ids, not_a_number, number_of_text
from ltrbench.errors import DataError

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# The pattern starts with the quote and looks back from there, so that the search skips unquoted text.
_QUOTED_CELL = re.compile(rb'"(?<![^,\n]")[^"\r\n]*"(?=[,\r\n]|\Z)')


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """CSV file as a table of text cells."""

    name: str
    columns: tuple[str, ...]
    cells: Any  # a pyarrow.Table: (n,) strings per column
    lines: NDArray[np.int64] | None  # (n,), first line of each row; None: one line per row

    @property
    def num_rows(self) -> int:
        return int(self.cells.num_rows)

    def place(self, row: int) -> str:
        return f"{self.name}:{row + 2 if self.lines is None else self.lines[row]}"

    def texts(self, column: str) -> list[str]:
        texts: list[str] = self.cells.column(self.columns.index(column)).to_pylist()
        check_ids(texts, column, self.place)
        return texts

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        import pyarrow
        from pyarrow import compute

        cells = self.cells.column(self.columns.index(column))
        filled = compute.if_else(compute.equal(cells, ""), None, cells)
        try:
            numbers = np.asarray(filled.cast(pyarrow.float64()), dtype=np.float64)
        except pyarrow.ArrowInvalid:
            return self._distinct_numbers(column, remedy)
        # Cells that pyarrow reads as NaN or infinity are parsed by the specification.
        unusual = np.isnan(numbers).sum() > filled.null_count or np.isinf(numbers).any()
        if unusual:
            numbers = self._distinct_numbers(column, remedy)
        return numbers

    def _distinct_numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        """Parses the column with `number_of_text`, once for each distinct cell."""
        distinct, cell_of_row = self.distinct(column)
        numbers = np.empty(len(distinct))
        for number, cell in enumerate(distinct):
            try:
                numbers[number] = number_of_text(cell)
            except ValueError:
                row = int(np.flatnonzero(cell_of_row == number)[0])
                raise not_a_number(self.place(row), column, cell, remedy) from None
        return numbers[cell_of_row]

    def distinct(self, column: str) -> tuple[list[Any], NDArray[np.int64]]:
        """Returns the distinct cells, in the order of their first rows, and (n,) the cell of each row."""
        from pyarrow import compute

        cells = self.cells.column(self.columns.index(column))
        distinct = compute.unique(cells)
        cell_of_row = np.asarray(compute.index_in(cells, value_set=distinct), dtype=np.int64)
        return distinct.to_pylist(), cell_of_row


def read_csv(path: Path) -> CsvTable:
    """Reads a CSV file; its first row is the header.

    Raises:
        DataError: The file cannot be read, is empty or not UTF-8 text, or the number of cells of a row
            differs from the header (`path:line: ...`).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.csv")
    ...     _ = file.write_text("label,query_id,bm25\\n1,007,0.5\\n")
    ...     table = read_csv(file)
    >>> table.columns, table.texts("query_id"), table.numbers("bm25", "").tolist()
    (('label', 'query_id', 'bm25'), ['007'], [0.5])
    """
    content = b"".join(text for text, _ in read_blocks(path))
    text = _decoded(content, path)
    rows = _rows(text, path)
    header_line, header = next(rows, (1, []))
    if not header:
        raise DataError(f"{path}: the file is empty. Check that the file was written and copied completely.")
    cells = _read_fast(content, len(header)) if header_line == 1 else None
    if cells is not None:
        return CsvTable(str(path), tuple(header), cells, lines=None)
    cells, lines = _read_plainly(rows, header, path)
    return CsvTable(str(path), tuple(header), cells, lines)


def _decoded(content: bytes, path: Path) -> str:
    null = content.find(b"\0")
    if null >= 0:
        line = content.count(b"\n", 0, null) + 1
        raise DataError(
            f"{path}:{line}: the line contains byte 0x00, which is not text. A CSV file must be UTF-8 text, "
            "plain or compressed as gz, bz2, xz or zst. Decompress or convert the file."
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: the line contains byte 0x{content[error.start]:02x}, which is not UTF-8 text. "
            "Convert the file to UTF-8."
        ) from None


def _rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the first line number and the cells of each row that is not blank."""
    reader = csv.reader((line.group() for line in _LINE.finditer(text)), strict=True)
    end = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}:{end + 1}: the row that starts on this line cannot be parsed ({error}). Close every "
                "quote, and double a quote inside a quoted cell."
            ) from None
        if row:
            yield end + 1, row
        end = reader.line_num


def _read_fast(content: bytes, num_columns: int) -> Any | None:
    """Returns the cells below the header if every row is one line; None if the file has anything unusual."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    if content.count(b"\r") != content.count(b"\r\n"):
        return None
    # Quoted cells without inner quotes or line breaks mean the same to every reader; a stray quote does not.
    if 2 * sum(1 for _ in _QUOTED_CELL.finditer(content)) != content.count(b'"'):
        return None
    names = [str(column) for column in range(num_columns)]
    try:
        cells = arrow_csv.read_csv(
            pyarrow.BufferReader(content),
            arrow_csv.ReadOptions(column_names=names, skip_rows=1),
            arrow_csv.ParseOptions(),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    num_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    return cells if cells.num_rows == num_lines - 1 else None


def _read_plainly(
    rows: Iterator[tuple[int, list[str]]], header: list[str], path: Path
) -> tuple[Any, NDArray[np.int64]]:
    """Returns the cells of the rows after the header, and the first line number of each row."""
    import pyarrow

    lines, kept = [], []
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"{path}:{line}: the row has {len(row)} cells, but the header has {len(header)} "
                f"columns. {_remedy(row, header)}"
            )
        lines.append(line)
        kept.append(row)
    columns = zip(*kept, strict=True) if kept else [()] * len(header)
    cells = {str(number): pyarrow.array(column, pyarrow.string()) for number, column in enumerate(columns)}
    return pyarrow.table(cells), np.array(lines, dtype=np.int64)


def _remedy(row: list[str], header: list[str]) -> str:
    if len(row) < len(header):
        return (
            "Add the missing cells, with nothing between two commas for a missing value; or copy the file "
            "again."
        )
    if not any(row[len(header) :]):
        return "Remove the commas at the end of the rows."
    return "Quote cells that contain a comma, or name every column in the header, including row names."
