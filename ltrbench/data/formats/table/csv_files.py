"""CSV files, plain or compressed. Every row must have as many cells as the header.

Each row starts on a new line, blank lines are skipped, and cells may be quoted. A file is read by blocks of
lines, of which only the columns of roles are kept. Python's csv module is the specification
(`CsvText.rows`). pyarrow reads an ordinary block in a fraction of the time; a block with anything unusual is
read by the csv module. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.compression import Blocks
from ltrbench.data.formats.table.cells import (
    MISSING,
    joined_ids,
    joined_texts,
    not_a_number,
    number_of_text,
)
from ltrbench.data.formats.table.csv_text import CsvText, checked_num_lines, num_lines
from ltrbench.data.formats.table.filling import LENGTH_ROWS, TableBlock
from ltrbench.errors import DataError

# The pattern starts with the quote and looks back from there, so that the search skips unquoted text.
_QUOTED_CELL = re.compile(rb'"(?<![^,\n]")[^"\r\n]*"(?=[,\r\n]|\Z)')
_MISSING = sorted({form(word) for word in MISSING for form in (str, str.upper, str.title)} | {"NaN"})
_ROWS_OF_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """Rows of a CSV file with some of its columns."""

    name: str
    cells: Any  # a pyarrow.Table: per column (n,) strings, or doubles for a column that has only numbers
    num_rows: int
    lines: int | NDArray[np.int64]  # (n,), first line of each row; or that of the first row, one line per row
    first_row: int = 0  # number of rows of the file before these

    def place(self, row: int) -> str:
        return f"{self.name}:{self.lines + row if isinstance(self.lines, int) else self.lines[row]}"

    def texts(self, column: str) -> list[str]:
        return joined_texts(self._pieces(column), column, self.place)

    def ids(self, column: str) -> NDArray[np.str_]:
        return joined_ids(self._pieces(column), column, self.place)

    def _pieces(self, column: str) -> Iterator[list[str]]:
        cells = self.cells.column(column)
        for start in range(0, self.num_rows, _ROWS_OF_PIECE):
            yield cells.slice(start, _ROWS_OF_PIECE).to_pylist()

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        numbers = _plain_numbers(self.cells.column(column))
        return self._distinct_numbers(column, remedy) if numbers is None else numbers

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

        cells = self.cells.column(column)
        distinct = compute.unique(cells)
        cell_of_row = np.asarray(compute.index_in(cells, value_set=distinct), dtype=np.int64)
        return distinct.to_pylist(), cell_of_row


def joined(parts: Sequence[CsvTable], columns: Sequence[str]) -> CsvTable:
    """Joins consecutive rows of a file, at least one part, with some of their columns."""
    import pyarrow

    lines: int | NDArray[np.int64] = parts[0].lines
    if any(not isinstance(part.lines, int) or part.lines != lines + part.first_row for part in parts):
        lines = np.concatenate(
            [
                part.lines + np.arange(part.num_rows) if isinstance(part.lines, int) else part.lines
                for part in parts
            ]
        )
    cells = pyarrow.concat_tables([part.cells.select(list(columns)) for part in parts])
    return CsvTable(parts[0].name, cells, sum(part.num_rows for part in parts), lines)


def _plain_numbers(cells: Any) -> NDArray[np.float64] | None:
    """Returns the numbers of a column; None if the specification has to read one of its cells."""
    import pyarrow
    from pyarrow import compute

    if cells.type == pyarrow.string():
        cells = compute.if_else(compute.equal(cells, ""), None, cells)
        try:
            cells = cells.cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return None
    numbers = np.asarray(cells, dtype=np.float64)
    # Cells that pyarrow reads as NaN or infinity are parsed by the specification.
    return numbers if np.isfinite(numbers).sum() == len(numbers) - cells.null_count else None


class CsvFile:
    """CSV file whose header has been read.

    Attributes:
        name: path of the file, for messages.
        columns: cells of the header.
        max_rows: maximum number of rows; blank lines, and line breaks within cells, make it too large.
    """

    def __init__(self, path: Path, text: Callable[[], Blocks]) -> None:
        """Checks that the file is text, and reads its header.

        Args:
            text: opens the text for one pass.

        Raises:
            DataError: The file cannot be read, is empty or not UTF-8 text.
        """
        self.name = str(path)
        count = checked_num_lines(text(), self.name)
        self._text = CsvText(text(), self.name)
        _, header = self._text.header()
        if not header:
            raise DataError(
                f"{path}: the file is empty. Check that the file was written and copied completely."
            )
        self.columns = tuple(header)
        self.max_rows = count - (self._text.line - 1)
        self._first_rows = self._text.first_rows(LENGTH_ROWS)
        self._never_numbers: set[str] = set()  # columns with a cell that pyarrow does not read as a number

    def read(
        self, roles: Sequence[str], features: Sequence[str], take: Callable[[TableBlock, Sequence[str]], None]
    ) -> CsvTable:
        """Reads the rows; can be called once.

        Args:
            roles: columns to keep as text.
            features: columns of numbers.
            take: called with each block of rows and the columns `features`.

        Returns:
            The columns `roles` of all rows.

        Raises:
            DataError: The number of cells of a row differs from the header, or a row cannot be parsed.
        """
        import pyarrow

        parts = [CsvTable(self.name, _table({column: [] for column in roles}), 0, self._text.line)]
        num_rows = 0
        while text := self._text.block():
            # pyarrow keeps freed memory for a while, several times that of a block.
            pyarrow.default_memory_pool().release_unused()
            block = self._block(text, roles, features, num_rows)
            take(block, features)
            num_rows += block.num_rows
            parts.append(replace(block, cells=block.cells.select(list(roles))))
        return joined(parts, roles)

    def id_length(self, column: str) -> int:
        """Returns the number of characters of the longest cell of a column in the first rows."""
        number = self.columns.index(column)
        return max((len(row[number]) for row in self._first_rows if number < len(row)), default=0)

    def _block(self, text: bytes, roles: Sequence[str], features: Sequence[str], first_row: int) -> CsvTable:
        first_line = self._text.line - num_lines(text)
        cells = self._ordinary_cells(text, roles, features)
        if cells is not None:
            return CsvTable(self.name, cells, cells.num_rows, first_line, first_row)
        self._text.unread()
        cells, lines = _read_plainly(self._text.rows(), self.columns, {*roles, *features}, self.name)
        return CsvTable(self.name, cells, len(lines), lines, first_row)

    def _ordinary_cells(self, text: bytes, roles: Sequence[str], features: Sequence[str]) -> Any | None:
        """Returns the cells of a block if every row is one line; None if it has anything unusual."""
        if not _is_ordinary(text):
            return None
        numbers = [column for column in features if column not in self._never_numbers]
        others = [*roles, *(column for column in features if column in self._never_numbers)]
        cells = _read_fast(text, self.columns, others, numbers)
        if cells is None or any(_plain_numbers(cells.column(column)) is None for column in numbers):
            cells = _read_fast(text, self.columns, [*others, *numbers], [])
            if cells is not None:
                self._never_numbers |= {
                    column for column in numbers if _plain_numbers(cells.column(column)) is None
                }
        return cells


def _is_ordinary(text: bytes) -> bool:
    """Returns whether every reader reads the same rows, if each line has the right number of cells."""
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return False
    # Quoted cells without inner quotes or line breaks mean the same to every reader; a stray quote does not.
    return 2 * sum(1 for _ in _QUOTED_CELL.finditer(text)) == text.count(b'"')


def _read_fast(
    text: bytes, columns: Sequence[str], texts: Sequence[str], numbers: Sequence[str]
) -> Any | None:
    """Returns columns of the rows; None if a line is no row, or a cell of `numbers` is not a number.

    Args:
        columns: all columns of the file.
        texts: columns to return as text.
        numbers: columns to return as numbers.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    types = dict.fromkeys(texts, pyarrow.string()) | dict.fromkeys(numbers, pyarrow.float64())
    try:
        cells = arrow_csv.read_csv(
            pyarrow.BufferReader(text),
            arrow_csv.ReadOptions(column_names=list(columns), block_size=max(len(text), 2)),
            arrow_csv.ParseOptions(),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=_MISSING,
                strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    return cells if cells.num_rows == num_lines(text) else None


def _read_plainly(
    rows: Iterator[tuple[int, list[str]]], header: Sequence[str], wanted: Set[str], name: str
) -> tuple[Any, NDArray[np.int64]]:
    """Returns columns of the rows, and the first line number of each row."""
    lines, kept = [], []
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"{name}:{line}: the row has {len(row)} cells, but the header has {len(header)} "
                f"columns. {_remedy(row, header)}"
            )
        lines.append(line)
        kept.append(row)
    columns = zip(*kept, strict=True) if kept else [()] * len(header)
    cells = {column: cells for column, cells in zip(header, columns, strict=True) if column in wanted}
    return _table(cells), np.array(lines, dtype=np.int64)


def _table(columns: Mapping[str, Sequence[str]]) -> Any:
    """Returns a pyarrow.Table of strings."""
    import pyarrow

    return pyarrow.table(
        {column: pyarrow.array(cells, pyarrow.string()) for column, cells in columns.items()}
    )


def _remedy(row: Sequence[str], header: Sequence[str]) -> str:
    if len(row) < len(header):
        return (
            "Add the missing cells, with nothing between two commas for a missing value; or copy the file "
            "again."
        )
    if not any(row[len(header) :]):
        return "Remove the commas at the end of the rows."
    return "Quote cells that contain a comma, or name every column in the header, including row names."
