"""Parsing of table cells: numbers, ids and missing values.

Numbers may be padded with blanks. The texts in `MISSING`, in any case, are missing values, NaN; true and
false are 1 and 0.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ltrbench.data.formats.gathering import PlaceOfRow
from ltrbench.data.formats.letor.line import LONGEST_ID, NUMBER
from ltrbench.errors import DataError

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "<na>", "null", "none"})

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
    # pandas' NA and NaT, recognized by name because pandas may not be imported.
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
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


def check_ids(ids: Sequence[str], column: str, place: PlaceOfRow) -> None:
    """Raises DataError if an id is too long: NumPy stores every id with the width of the longest."""
    row = max(range(len(ids)), key=lambda row: len(ids[row]), default=0)
    if ids and len(ids[row]) > LONGEST_ID:
        raise DataError(
            f"{place(row)}: column '{column}' has an id of {len(ids[row])} characters; the maximum is "
            f"{LONGEST_ID}. Use a shorter id, or check which column contains the ids."
        )
