"""Parsing of table cells: numbers, ids and missing values.

Numbers may be padded with blanks. The texts in `MISSING`, in any case, are missing values, NaN; true and
false are 1 and 0.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import itertools
import math
import numbers
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import Blocks, PlaceOfRow
from ltrbench.data.features import array_in_file, fits_on_disk, on_disk_remedy
from ltrbench.data.letor_blocks import changed_between_passes
from ltrbench.data.letor_lines import LONGEST_ID, NUMBER
from ltrbench.errors import DataError
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "<na>", "null", "none"})

# pandas' NA and NaT, recognized by name because pandas may not be imported.
MISSING_TYPES = ("NAType", "NaTType")

_NUMBER = re.compile(NUMBER.decode() + "|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_SWITCHES = {"true": 1.0, "false": 0.0}


def number_of_text(cell: str) -> float:
    """Returns the number in a text cell.

    Raises:
        ValueError: The text is not a number.

    >>> [number_of_text(cell) for cell in ("1e3", " 0.5 ", "True", "N/A")]
    [1000.0, 0.5, 1.0, nan]
    """
    word = cell.strip().lower()
    if word in MISSING:
        return math.nan
    if word in _SWITCHES:
        return _SWITCHES[word]
    if not _NUMBER.fullmatch(word):
        raise ValueError
    return float(word)


def number_of(cell: Any) -> float:
    """Returns the number in a cell of any type.

    Raises:
        ValueError: The cell is not a number, for example a date, a complex number or a list.
    """
    if isinstance(cell, str):
        return number_of_text(cell)
    if isinstance(cell, (numbers.Real, Decimal, np.bool_)):
        try:
            return float(cell)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf
    if cell is None or type(cell).__name__ in MISSING_TYPES:
        return math.nan
    raise ValueError


def not_a_number(place: str, column: str, cell: object, remedy: str) -> DataError:
    """Returns the error for a cell that must be a number."""
    shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:37] + "..."
    return DataError(f"{place}: column '{column}' is {shown}, which is not a number; {remedy}.")


def check_no_repeat(columns: Sequence[str], name: str) -> None:
    """Raises DataError if two columns of the table `name` have the same name."""
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: two columns have the name '{twice}'; rename one of them.")


def joined_texts(pieces: Iterable[list[str]], column: str, place: PlaceOfRow) -> list[str]:
    """Joins the ids of a column, each distinct id once in memory.

    Raises:
        DataError: An id is too long.
    """
    distinct: dict[str, str] = {}
    texts = [distinct.setdefault(text, text) for piece in pieces for text in piece]
    row = max(range(len(texts)), key=lambda row: len(texts[row]), default=0)
    if texts:
        _check_length(len(texts[row]), column, place, row)
    return texts


def joined_ids(pieces: Iterable[list[str]], column: str, place: PlaceOfRow) -> NDArray[np.str_]:
    """Joins the ids of a column into an array: NumPy stores every id with the width of the longest.

    Raises:
        DataError: An id is too long.
    """
    arrays: deque[NDArray[np.str_]] = deque()
    longest = row_of_longest = num_rows = 0
    for piece in pieces:
        row = max(range(len(piece)), key=lambda row: len(piece[row]))
        if len(piece[row]) > longest:
            longest, row_of_longest = len(piece[row]), num_rows + row
        # The width of an id that is refused below would be that of its whole piece.
        arrays.append(np.array(piece, dtype=f"U{min(max(longest, 1), LONGEST_ID)}"))
        num_rows += len(piece)
    _check_length(longest, column, place, row_of_longest)
    ids = np.empty(num_rows, dtype=f"U{max(longest, 1)}")
    start = 0
    while arrays:  # each is freed when it has been copied
        array = arrays.popleft()
        ids[start : start + len(array)] = array
        start += len(array)
    return ids


def _check_length(length: int, column: str, place: PlaceOfRow, row: int) -> None:
    if length > LONGEST_ID:
        raise DataError(
            f"{place(row)}: column '{column}' has an id of {length} characters; the maximum is "
            f"{LONGEST_ID}. Use a shorter id, or check which column contains the ids."
        )


# ---- Text of CSV files in two passes: a check of all bytes, then blocks of lines and rows of cells.
#
# Python's csv module is the specification of a row. A row starts on a new line, and blank lines are
# skipped.

TEXT_BLOCK_BYTES = 1 << 20
"""Approximate size of a block: pyarrow needs about three times as much memory to parse it."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def checked_num_lines(blocks: Blocks, name: str) -> int:
    """Returns the number of lines of a text, which is the maximum number of its rows.

    Raises:
        DataError: The text has a null byte, or is not UTF-8.
    """
    lines, last = 0, b"\n"
    null: int | None = None  # line of the first null byte
    not_utf8: tuple[int, int] | None = None  # line and value of the first byte that is not UTF-8 text
    for text, first_line in blocks:
        lines += text.count(b"\n")
        if b"\r" in text:
            lines += text.count(b"\r") - text.count(b"\r\n")
        last = text[-1:]
        if null is None and (start := text.find(b"\0")) >= 0:
            null = first_line + text.count(b"\n", 0, start)
        if not_utf8 is None and not text.isascii():
            try:
                text.decode()
            except UnicodeDecodeError as error:
                not_utf8 = first_line + text.count(b"\n", 0, error.start), text[error.start]
    if null is not None:
        raise DataError(
            f"{name}:{null}: the line contains byte 0x00, which is not text. A CSV file must be UTF-8 text, "
            "plain or compressed as gz, bz2, xz or zst. Decompress or convert the file."
        )
    if not_utf8 is not None:
        raise DataError(
            f"{name}:{not_utf8[0]}: the line contains byte 0x{not_utf8[1]:02x}, which is not UTF-8 text. "
            "Convert the file to UTF-8."
        )
    return lines + (last not in (b"\n", b"\r"))


class CsvText:
    """Text of a CSV file, read by blocks of whole lines or by rows.

    Attributes:
        line: number of the next line.
    """

    def __init__(self, blocks: Blocks, name: str) -> None:
        self.line = 1
        self._blocks = blocks
        self._name = name
        self._waiting: deque[str] = deque()  # next lines, of a block that was read in part
        self._last = b""  # last block

    def header(self) -> tuple[int, list[str]]:
        """Returns the first row that is not blank, with the number of its first line; [] if there is none."""
        before = 0
        while self.line > before:
            before = self.line
            for row in self.rows():
                return row
        return self.line, []

    def block(self) -> bytes:
        """Returns the next lines; empty at the end."""
        self._last = "".join(self._waiting).encode() or self._next_block()
        self._waiting.clear()
        self.line += num_lines(self._last)
        return self._last

    def unread(self) -> None:
        """Returns to the first line of the last block, so that it is read by rows."""
        self.line -= num_lines(self._last)
        self._wait(self._last)

    def first_rows(self, count: int) -> list[list[str]]:
        """Returns the cells of the next rows, at most `count` of one block, without moving on.

        A row that cannot be parsed ends them; `rows` reports it.
        """
        lines = io.StringIO(self.block().decode(errors="replace"), newline="")
        self.unread()
        rows: list[list[str]] = []
        with contextlib.suppress(csv.Error):  # the rows before the error stay in the list
            rows.extend(itertools.islice(csv.reader(lines, strict=True), count))
        return rows

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the first line number and the cells of the next rows that are not blank.

        It ends after a row that ends where a block of lines ends, at the latest at the end of the text.

        Raises:
            DataError: A row cannot be parsed.
        """
        reader = csv.reader(self._lines(), strict=True)
        first = self.line
        while self._waiting or self.line == first:
            start = self.line
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataError(
                    f"{self._name}:{start}: the row that starts on this line cannot be parsed ({error}). "
                    "Close every quote, and double a quote inside a quoted cell."
                ) from None
            self.line = first + reader.line_num
            if row:
                yield start, row

    def _lines(self) -> Iterator[str]:
        while True:
            if not self._waiting:
                self._wait(self._next_block())
            if not self._waiting:
                return
            yield self._waiting.popleft()

    def _wait(self, block: bytes) -> None:
        try:
            self._waiting.extend(line.group() for line in _LINE.finditer(block.decode()))
        except UnicodeDecodeError:
            raise changed_between_passes(Path(self._name)) from None

    def _next_block(self) -> bytes:
        parts, size = [], 0
        for text, _ in self._blocks:
            parts.append(text)
            size += len(text)
            if size >= TEXT_BLOCK_BYTES:
                break
        return b"".join(parts)


def num_lines(block: bytes) -> int:
    """Returns the number of line feeds, and one for a last line without."""
    return block.count(b"\n") + (block[-1:] not in (b"\n", b""))


# ---- Features of tables: allocated once, filled block by block, and ordered in place.

TABLE_BLOCK_BYTES = 1 << 22
"""Approximate memory of a block: small beside a large table, and large beside the overhead of a call."""

LENGTH_ROWS = 1000
"""Number of first rows that give an estimate of the length of ids."""

_BYTES_PER_ROW = 16  # a label and the query of a row
_BYTES_PER_TEXT = 16  # a text column of any length: offsets, and references to its texts
_BYTES_PER_CHARACTER = 8  # of an id in NumPy, 4 bytes, twice while pieces are joined; all ids have one width

_REMEDY = (
    "encode it as a number, or list the features without it in `features` (in a run data.features); if it is "
    "the time or the group of a query, set split_by or group_by to the column"
)


class TableBlock(Protocol):
    """Consecutive rows of a table, with some of its columns."""

    @property
    def name(self) -> str: ...

    @property
    def first_row(self) -> int: ...

    @property
    def num_rows(self) -> int: ...

    def place(self, row: int) -> str: ...

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]: ...


def allocate_features(
    names: Sequence[str], shape: tuple[int, int], lengths: Mapping[str, int], scratch: Path | None
) -> Features:
    """Returns an array for the features of tables.

    Args:
        names: names of the tables.
        shape: maximum number of rows of all tables, and number of features.
        lengths: role -> estimated number of characters in a cell of its column, for roles that are read.
        scratch: folder of a temporary file for features that do not fit into memory; None: they are refused.

    Raises:
        DataError: The features, with the columns of roles, do not fit into memory; or the columns of roles do
            not, or the features do not fit on the disk of `scratch`.
    """
    of_roles = shape[0] * (_BYTES_PER_ROW + _text_bytes(lengths))
    num_bytes, available = of_roles + 4 * shape[0] * shape[1], available_bytes()
    if num_bytes <= available:
        return np.empty(shape, dtype=np.float32)
    need = f"{', '.join(names)}: {shape[0]} rows with {shape[1]} features"
    if of_roles > available:
        raise DataError(
            f"{need} need {of_roles / 1e9:.1f} GB of memory for labels and ids (the first rows have "
            f"{_shown_lengths(lengths)}), even if the features are on the disk, but only "
            f"{available / 1e9:.1f} GB are available. Write shorter ids, remove the column of document ids, "
            "or use a machine or a container with more memory, or fewer rows."
        )
    if scratch is not None and fits_on_disk(scratch, shape):
        return array_in_file(scratch, shape, 0.0)
    remedy = f"{on_disk_remedy(shape, scratch)}; or use a machine or a container with more memory, fewer "
    raise DataError(
        f"{need} need {num_bytes / 1e9:.1f} GB of memory, {of_roles / 1e9:.1f} GB of it for labels and ids, "
        f"but only {available / 1e9:.1f} GB are available. {remedy[0].upper()}{remedy[1:]}rows, or fewer "
        "features (in a run data.features)."
    )


def _text_bytes(lengths: Mapping[str, int]) -> int:
    """Returns the memory of the text columns of a row; document ids also become an array of NumPy."""
    of_texts = sum(_BYTES_PER_TEXT + length for length in lengths.values())
    return of_texts + _BYTES_PER_CHARACTER * lengths.get("document", 0)


def _shown_lengths(lengths: Mapping[str, int]) -> str:
    columns = [f"{role} of {length} characters" for role, length in lengths.items() if role != "label"]
    return ", ".join(columns) or "none"


class FeatureRows:
    """Features of the tables of one split, filled table by table, each block by block.

    An invalid value does not end the filling, because another column, or another table, may have an error
    that is reported first, wherever the blocks end: that of the first table with an error, of the first such
    column, and of the first such row; among these, a cell that is not a number before an infinite one.
    """

    def __init__(self, chosen: Sequence[str], features: NDArray[np.float32]) -> None:
        """
        Args:
            chosen: feature columns, in the order of the features.
            features: (rows, F), filled from the first row; there may be more rows than the tables have.
        """
        self._features = features
        self._numbers: dict[str, list[int]] = {}
        for number, column in enumerate(chosen):
            self._numbers.setdefault(column, []).append(number)
        self._start = self._table = 0
        self._error: tuple[tuple[int, int, int], DataError] | None = None

    def take(self, block: TableBlock, columns: Sequence[str]) -> None:
        """Copies columns of a block of the current table.

        Raises:
            DataError: The table has more rows than before.
        """
        start = self._start + block.first_row
        rows = self._features[start : start + block.num_rows]
        if len(rows) != block.num_rows:
            raise changed_between_passes(Path(block.name))
        for column in columns:
            numbers = self._numbers[column]
            try:
                values = block.numbers(column, _REMEDY)
            except DataError as error:
                self._note((self._table, numbers[0], 0), error)
                continue
            # Values beyond float32 become infinite, an error below; a signalling NaN is "invalid".
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = values.astype(np.float32)
            infinite = np.flatnonzero(np.isinf(rounded))
            if infinite.size:
                row = int(infinite[0])
                self._note((self._table, numbers[0], 1), _infinite(block.place(row), column, values[row]))
            for number in numbers:
                rows[:, number] = rounded

    def end_table(self, num_rows: int) -> None:
        """Ends a table, with its number of rows."""
        self._start += num_rows
        self._table += 1

    def complete(self) -> Features:
        """Returns the (D, F) features of all tables.

        Raises:
            DataError: A cell is not a number, or is infinite in float32.
        """
        if self._error is not None:
            raise self._error[1]
        return self._features[: self._start]

    def _note(self, key: tuple[int, int, int], error: DataError) -> None:
        if self._error is None or key < self._error[0]:
            self._error = key, error


def _infinite(place: str, column: str, value: float) -> DataError:
    return DataError(
        f"{place}: column '{column}' is {value}; features must be finite in float32. Rescale the feature, "
        "and leave missing values empty."
    )


def order_rows(features: Features, order: NDArray[np.int64] | None) -> None:
    """Reorders the rows of (D, F) features in place: row i becomes row `order[i]`; None: the order stays.

    >>> features = np.arange(6, dtype=np.float32).reshape(3, 2)
    >>> order_rows(features, np.array([2, 0, 1]))
    >>> features.tolist()
    [[4.0, 5.0], [0.0, 1.0], [2.0, 3.0]]
    """
    if order is None:
        return
    num_rows, num_features = features.shape
    # Some columns at a time, so that the copy is at most a sixteenth of the features.
    width = max(num_features // 16, TABLE_BLOCK_BYTES // (4 * num_rows), 1)
    for start in range(0, num_features, width):
        columns = features[:, start : start + width]
        columns[:] = columns[order]


# ---- CSV files, plain or compressed. Every row must have as many cells as the header.
#
# Each row starts on a new line, blank lines are skipped, and cells may be quoted. A file is read by blocks
# of lines, of which only the columns of roles are kept. Python's csv module is the specification
# (`CsvText.rows`). pyarrow reads an ordinary block in a fraction of the time; a block with anything unusual
# is read by the csv module. A test compares the two.

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


# ---- Columns of a table by which its queries are split: the time of a query, and its group of near-
# duplicates.
#
# A time is a number or a date in ISO 8601, the same in all rows of the column. A query has the latest time
# of its rows, so that no row of an earlier query is later. All rows of a query are in the same group.
# Groups are compared without blanks around them, and a whole number without its fraction: 7.0 is the group
# 7.

SPLIT_ROLES = ("split_by", "group_by")
"""Settings that name these columns, which are not features."""

_NUMBER_OF_SPLIT, _DATE, _DATE_IN_ZONE = "a number", "a date without a time zone", "a date with a time zone"
_MONTH = re.compile(r"\d{4}-\d{2}")
_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+")

_Time = float | np.datetime64


class _Table(Protocol):
    """The part of a table that is needed here."""

    def place(self, row: int) -> str: ...

    def texts(self, column: str) -> list[str]: ...

    def distinct(self, column: str) -> tuple[list[object], NDArray[np.int64]]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitColumns:
    """Values of the columns by which queries are split; None if a column is not set."""

    times: Mapping[str, _Time] | None  # query id -> time
    groups: Mapping[str, str] | None  # query id -> group


def split_columns(tables: Iterable[_Table], columns: Mapping[str, str]) -> SplitColumns:
    """Returns the times and groups of the queries in the tables of one split.

    Args:
        columns: role -> column, with "query" and possibly some of `SPLIT_ROLES`.

    Raises:
        DataError: A value is missing, is neither a number nor a date, or differs in kind from another row; or
            a query is in two groups.
    """
    query, split_by, group_by = (columns.get(role) for role in ("query", *SPLIT_ROLES))
    assert query is not None  # `read_table` checked it; repeated for the type checker
    return SplitColumns(
        times=None if split_by is None else _latest_times(tables, query, split_by),
        groups=None if group_by is None else _groups(tables, query, group_by),
    )


def _latest_times(tables: Iterable[_Table], query: str, column: str) -> dict[str, _Time]:
    """Returns query id -> the latest time of its rows."""
    latest: dict[str, Any] = {}
    first: tuple[str, str] | None = None
    for table in tables:
        cells, cell_of_row = table.distinct(column)
        _, rows = np.unique(cell_of_row, return_index=True)  # the first row of each cell
        times: list[Any] = []
        for cell, row in zip(cells, rows.tolist(), strict=True):
            kind, time = _time_of(cell, f"{table.place(row)}: column '{column}' is {cell!r}")
            first = first or (kind, table.place(row))
            if kind != first[0]:
                raise DataError(
                    f"{table.place(row)}: column '{column}' is {cell!r}, {kind}, but {first[1]} has "
                    f"{first[0]}; times of different kinds cannot be compared. Write all values of the "
                    "column alike."
                )
            times.append(time)
        for query_id, number in zip(table.texts(query), cell_of_row.tolist(), strict=True):
            latest[query_id] = max(times[number], latest.get(query_id, times[number]))
    return latest


def _time_of(cell: object, named: str) -> tuple[str, _Time]:
    """Returns the kind and the value of a time; `named` is its place and value in messages."""
    try:
        if isinstance(cell, str):
            kind, time = _of_text(cell)
        elif isinstance(cell, datetime.date) and cell == cell:  # pandas' NaT is a date that is not itself
            kind, time = _of_date(cell)
        else:
            kind, time = _NUMBER_OF_SPLIT, _finite(number_of(cell))
    except (ValueError, OverflowError):
        raise DataError(
            f"{named}, which is neither a finite number nor a date in ISO 8601, such as 2026-01-31. Convert "
            "the column, or choose another one with split_by (in a run data.split_by)."
        ) from None
    if time != time:
        raise DataError(
            f"{named}, but a split by time needs a time in every row. Add it, or remove the query."
        )
    return kind, time


def _of_text(cell: str) -> tuple[str, _Time]:
    try:
        return _NUMBER_OF_SPLIT, _finite(number_of(cell))
    except ValueError:
        text = cell.strip()
        return _of_date(datetime.datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text))


def _finite(number: float) -> float:
    """Returns a number or NaN, a missing value. Raises ValueError if it is infinite."""
    if math.isinf(number):
        raise ValueError
    return number


def _of_date(date: datetime.date) -> tuple[str, np.datetime64]:
    if not isinstance(date, datetime.datetime) or date.tzinfo is None:
        return _DATE, np.datetime64(date, "us")
    return _DATE_IN_ZONE, np.datetime64(date.astimezone(datetime.UTC).replace(tzinfo=None), "us")


def _groups(tables: Iterable[_Table], query: str, column: str) -> dict[str, str]:
    """Returns query id -> group."""
    groups: dict[str, str] = {}
    for table in tables:
        of_rows = zip(table.texts(query), table.texts(column), strict=True)
        for row, (query_id, cell) in enumerate(of_rows):
            group = _group_of(cell)
            if group.lower() in MISSING:
                raise DataError(
                    f"{table.place(row)}: column '{column}' is {cell!r}, but every query needs a group. "
                    "Give a query without near-duplicates a group of its own, such as its query id."
                )
            if groups.setdefault(query_id, group) != group:
                raise DataError(
                    f"{table.place(row)}: column '{column}' puts query {query_id!r} into group {group!r}, "
                    f"but an earlier row puts it into group {groups[query_id]!r}. Give all rows of a query "
                    "the same group, or choose another column with group_by (in a run data.group_by)."
                )
    return groups


def _group_of(cell: str) -> str:
    """Returns the group in a cell: 7 for 7.0, which pandas writes if the column once had missing values."""
    text = cell.strip()
    whole = _WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text
