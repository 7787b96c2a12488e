"""Text of CSV files in two passes: a check of all bytes, then blocks of lines and rows of cells.

Python's csv module is the specification of a row. A row starts on a new line, and blank lines are skipped.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ltrbench.data.formats.compression import Blocks
from ltrbench.data.formats.letor.blocks import changed_between_passes
from ltrbench.errors import DataError

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
