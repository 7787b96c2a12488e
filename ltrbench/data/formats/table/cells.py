"""Parsing of table cells: numbers, ids and missing values.

Numbers may be padded with blanks. The texts in `MISSING`, in any case, are missing values, NaN; true and
false are 1 and 0.
"""

from __future__ import annotations

import math
import numbers
import re
from collections import deque
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.gathering import PlaceOfRow
from ltrbench.data.formats.letor.line import LONGEST_ID, NUMBER
from ltrbench.errors import DataError

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
