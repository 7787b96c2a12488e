"""Validates records in untrusted files against their declared types.

    mistake           first value of a JSON object that does not have its annotated type
    read_run_table    CSV file with a header and rows of the same width
    RunTable          text columns and numeric columns of such a file

A field is declared once, by its annotation: `threads: Annotated[int, Must("0 or more", ...)]`. TypedDicts
declare nested objects; undeclared keys may have any finite value.
"""

from __future__ import annotations

import csv
import io
import math
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.untrusted.reading import read_bytes

LARGEST = 1e15
"""Maximum absolute value of a number, so that means and squares stay finite."""
LONGEST_NAME = 1000
"""Maximum number of characters of a name or a key."""
_MOST_CSV_BYTES = 2**28
_LARGEST_INTEGER = 2**63 - 1

_NOUNS: dict[object, str] = {
    **{str: "a string", float: "a finite number", int: "a whole number", bool: "true or false"},
    **{type(None): "null", Mapping: "an object", Sequence: "a list"},
}


@dataclass(frozen=True)
class Must:
    """Constraint on a value in addition to its type: description and predicate."""

    be: str
    holds: Callable[[Any], bool]


Name = Annotated[
    str, Must(f"a string of at most {LONGEST_NAME} characters", lambda text: len(text) <= LONGEST_NAME)
]
Count = Annotated[
    int, Must("a whole number from 0 to 1,000,000,000", lambda number: 0 <= number <= 1_000_000_000)
]
Amount = Annotated[float, Must("0 or more", lambda number: number >= 0)]


def mistake(value: Any, declared: Any, place: str) -> str | None:
    """Returns the first error in a JSON value: its place, the value and the expected type; None if valid.

    Args:
        declared: type annotation.
        place: place of the value, such as `metrics`; "" for a whole object.

    >>> mistake({"fit": None}, Mapping[str, float], "seconds")
    'seconds.fit is None; a finite number was expected'
    >>> mistake([1, 2], Sequence[int], "folds") is None
    True
    """
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return mistake(value, arguments[0], place) or _unmet(value, arguments[1:], place)
    if origin in (Union, types.UnionType):
        fitting = next((kind for kind in arguments if _has_type(value, kind)), None)
        return _odd(value, declared, place) if fitting is None else mistake(value, fitting, place)
    if declared is Any:
        return _mistake_in_any(value, place)
    if not _has_type(value, declared):
        return _odd(value, declared, place)
    if isinstance(value, dict):
        return _mistake_in_object(value, declared, place)
    if isinstance(value, list):
        if arguments[0] is str and all(type(item) is str for item in value):
            return None  # the common case, such as feature names, in a fraction of the time
        items = ((item, arguments[0], f"{place}[{number}]") for number, item in enumerate(value))
        return _first(items)
    return None


@cache
def types_of(record: type) -> Mapping[str, Any]:
    """Returns field -> annotation of a dataclass or a TypedDict."""
    return get_type_hints(record, include_extras=True)


def _unmet(value: Any, demands: Sequence[Any], place: str) -> str | None:
    """Returns the first violated constraint: a `Must`, or a TypedDict that declares keys."""
    for demand in demands:
        if not isinstance(demand, Must):
            return mistake(value, demand, place)
        if not demand.holds(value):
            return f"{place} is {reprlib.repr(value)}; {demand.be} was expected"
    return None


def _mistake_in_any(value: Any, place: str) -> str | None:
    if isinstance(value, dict):
        return _mistake_in_object(value, Mapping[str, Any], place)
    if isinstance(value, list):
        return _first((item, Any, f"{place}[{number}]") for number, item in enumerate(value))
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}; a finite number was expected"
    if isinstance(value, int) and value.bit_length() > 1023:
        return f"{place} is a whole number beyond float64; a finite number was expected"
    return None


def _mistake_in_object(value: Mapping[str, Any], declared: Any, place: str) -> str | None:
    long = next((key for key in value if len(key) > LONGEST_NAME), None)
    if long is not None:
        return f"{place} has a key of {len(long)} characters; the maximum is {LONGEST_NAME}"
    if is_typeddict(declared):
        known = dict(types_of(declared))
        lacking = sorted(declared.__required_keys__ - value.keys())
        if lacking:
            return f"{place} has no {lacking[0]}"
    else:
        arguments = get_args(declared)
        known = dict.fromkeys(value, arguments[1] if arguments else Any)
    before = f"{place}." if place else ""
    return _first((item, known.get(key, Any), f"{before}{key}") for key, item in value.items())


def _first(items: Any) -> str | None:
    return next((mistaken for each in items if (mistaken := mistake(*each)) is not None), None)


def _has_type(value: Any, declared: Any) -> bool:
    if get_origin(declared) is Annotated:
        return _has_type(value, get_args(declared)[0])
    if is_typeddict(declared):
        return isinstance(value, dict)
    kind = get_origin(declared) or declared
    if kind is Mapping:
        return isinstance(value, dict)
    if kind is Sequence:
        return isinstance(value, list)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_INTEGER
    return kind is Any or isinstance(value, kind)


def _odd(value: Any, declared: Any, place: str) -> str:
    return f"{place} is {reprlib.repr(value)}; {_type_in_words(declared)} was expected"


def _type_in_words(declared: Any) -> str:
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return _type_in_words(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(map(_type_in_words, arguments))
    return "an object" if is_typeddict(declared) else _NOUNS[origin or declared]


@dataclass(frozen=True)
class RunTable:
    """CSV file with a header, (C,), at least one row of C cells, and the last line number of each row."""

    path: Path
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]
    remedy: str

    def texts(self, column: int) -> tuple[str, ...]:
        return tuple(row[column] for row in self.rows)

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Returns a (rows,) column of numbers, with NaN for an empty cell or nan.

        Raises:
            ResultError: A cell is not a finite number.
        """
        numbers = np.empty(len(self.rows))
        for row, cell in enumerate(self.texts(column)):
            try:
                numbers[row] = float(cell or "nan")
            except ValueError:
                numbers[row] = math.inf
            if abs(numbers[row]) > np.finfo(np.float32).max:
                shown = reprlib.repr(cell)
                raise self.refusal(f"column '{self.header[column]}' is {shown}, not a finite number", row)
        return numbers

    def refusal(self, reason: str, row: int | None = None) -> ResultError:
        """Returns the error for a row or for the file; the message has the file and the line."""
        place = "" if row is None else f":{self.lines[row]}"
        return ResultError(f"{self.path}{place}: {reason}. {self.remedy}.")


def read_run_table(path: Path, first: Sequence[str], remedy: str) -> RunTable:
    """Reads a CSV file in UTF-8.

    Args:
        first: required names of the first columns.

    Raises:
        ResultError: The file is not a regular file, is not such a table, or repeats a column name.
    """
    content = read_bytes(path, remedy, _MOST_CSV_BYTES)
    rows: list[list[str]] = []
    lines: list[int] = []
    table = RunTable(path, (), rows, lines, remedy)
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        for row in reader:
            rows.append(row)
            lines.append(reader.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        raise table.refusal(f"it is not CSV in UTF-8 ({error})") from None
    if len(rows) < 2:
        raise table.refusal("it has no rows")
    header = rows.pop(0)
    lines.pop(0)
    if header[: len(first)] != list(first) or len(set(header)) != len(header):
        raise table.refusal(
            f"its columns are {reprlib.repr(header)}; expected {', '.join(first)} and further columns, "
            "without repetition"
        )
    odd = next((row for row, cells in enumerate(rows) if len(cells) != len(header)), None)
    if odd is not None:
        raise table.refusal(f"the row has {len(rows[odd])} cells, but the header has {len(header)}", odd)
    return RunTable(path, tuple(header), rows, lines, remedy)
