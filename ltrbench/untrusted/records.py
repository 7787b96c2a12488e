"""Records of files that anybody may have written, held against their declared types.

    mistake       the first value of a JSON object that does not have the type which annotations declare
    read_run_table    a CSV file with one header and rows of its width
    RunTable          its texts, and its columns of numbers

A field is declared once, by its annotation: `threads: Annotated[int, Must("0 or more", ...)]`. TypedDicts
declare objects within objects; keys that they do not name may hold anything finite.
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
"""Numbers are at most so large: means and squares of them stay finite."""
LONGEST_NAME = 1000
"""Characters of a name at the most, as of a key."""
_MOST_CSV_BYTES = 2**28
_LARGEST_INTEGER = 2**63 - 1

_NOUNS: dict[object, str] = {
    **{str: "a text", float: "a finite number", int: "a whole number", bool: "true or false"},
    **{type(None): "null", Mapping: "an object", Sequence: "a list"},
}


@dataclass(frozen=True)
class Must:
    """What a value must be beside its type: in words, and as a test."""

    be: str
    holds: Callable[[Any], bool]


Name = Annotated[
    str, Must(f"a text of at most {LONGEST_NAME} characters", lambda text: len(text) <= LONGEST_NAME)
]
Count = Annotated[
    int, Must("a whole number from 0 to 1,000,000,000", lambda number: 0 <= number <= 1_000_000_000)
]
Amount = Annotated[float, Must("0 or more", lambda number: number >= 0)]


def mistake(value: Any, declared: Any, place: str) -> str | None:
    """What is wrong with a JSON value: the first place in it, what stands there, and what was expected.

    Args:
        declared: a type annotation.
        place: the value's, such as `metrics`; "" for a whole object.

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
        items = ((item, arguments[0], f"{place}[{number}]") for number, item in enumerate(value))
        return _first(items)
    return None


@cache
def types_of(record: type) -> Mapping[str, Any]:
    """Field -> its annotation, of a dataclass or a TypedDict."""
    return get_type_hints(record, include_extras=True)


def _unmet(value: Any, demands: Sequence[Any], place: str) -> str | None:
    """What is asked of a value beside its type: a `Must`, or a TypedDict that declares its keys."""
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
        return f"{place} is beyond the numbers of float64"
    return None


def _mistake_in_object(value: Mapping[str, Any], declared: Any, place: str) -> str | None:
    long = next((key for key in value if len(key) > LONGEST_NAME), None)
    if long is not None:
        return f"{place} has a key of {len(long)} characters; at most {LONGEST_NAME} were expected"
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
    """A CSV file's header, (C,), its rows of C cells, at least one, and the line that each row ends on."""

    path: Path
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]
    remedy: str

    def texts(self, column: int) -> tuple[str, ...]:
        return tuple(row[column] for row in self.rows)

    def numbers(self, column: int) -> NDArray[np.float64]:
        """(rows,), NaN where a cell is empty or says so.

        Raises:
            ResultError: where a cell is no finite number.
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
        """The error to raise for a row, or for the file; it names the file and the line."""
        place = "" if row is None else f":{self.lines[row]}"
        return ResultError(f"{self.path}{place}: {reason}. {self.remedy}.")


def read_run_table(path: Path, first: Sequence[str], remedy: str) -> RunTable:
    """Reads a CSV file in UTF-8.

    Args:
        first: the names that its first columns must have.

    Raises:
        ResultError: where it is not a regular file, is no such table, or names a column twice.
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
            f"its columns are {reprlib.repr(header)}; {', '.join(first)} and others, each once, were expected"
        )
    odd = next((row for row, cells in enumerate(rows) if len(cells) != len(header)), None)
    if odd is not None:
        raise table.refusal(f"{len(rows[odd])} cells, where the header has {len(header)}", odd)
    return RunTable(path, tuple(header), rows, lines, remedy)
