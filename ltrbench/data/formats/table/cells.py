"""Cells of tables: what is an id, what a number, and what is neither.

A cell of a number may be padded with blanks. One of `MISSING`, in any case, is a missing value, NaN; true and
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
    """The number that a cell of text is.

    Raises:
        ValueError: where it is none.

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
    """The number that a cell of any type is.

    Raises:
        ValueError: where it is none: a date, a complex number, a list.
    """
    if isinstance(cell, str):
        return number_of_text(cell)
    if isinstance(cell, (numbers.Real, Decimal, np.bool_)):
        try:
            return float(cell)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf
    # pandas' NA and NaT, which have no type to be told by without pandas.
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return math.nan
    raise ValueError


def not_a_number(place: str, column: str, cell: object, remedy: str) -> DataError:
    """The error for a cell that should be a number."""
    shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:37] + "..."
    return DataError(f"{place}: column '{column}' is {shown}, which is not a number; {remedy}.")


def check_no_repeat(columns: Sequence[str], name: str) -> None:
    """Raises DataError where two columns of the table `name` are called the same."""
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: the column '{twice}' is there twice; rename one.")


def check_ids(ids: Sequence[str], column: str, place: PlaceOfRow) -> None:
    """Raises DataError where an id is longer than one can be: NumPy gives each the room of the longest."""
    row = max(range(len(ids)), key=lambda row: len(ids[row]), default=0)
    if ids and len(ids[row]) > LONGEST_ID:
        raise DataError(
            f"{place(row)}: column '{column}' has an id of {len(ids[row])} characters, more than "
            f"{LONGEST_ID}. Give a shorter id, or check which column holds the ids."
        )
