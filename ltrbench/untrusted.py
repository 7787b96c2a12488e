"""Reads untrusted files: those of run folders and of saved models.

    read_bytes   whole file of bounded size
    read_json    JSON of bounded size and depth
    load_npz     arrays, whose size in the file is checked before memory is allocated

All functions raise ResultError with one paragraph: the file, the reason, and the remedy, which the caller may
set. Nothing is unpickled, and no module is imported because a file names it. Models of LightGBM, XGBoost,
CatBoost and scikit-learn are read by these libraries: load only models that you trust.
"""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from ltrbench.errors import ResultError

REMEDY = "Copy it again from its source, or rerun the command that wrote it"

MOST_BYTES = 4 * 2**30
"""Maximum size of a file and of its arrays, and thus of the memory allocated for them."""
MOST_JSON_BYTES = 16 * 2**20


def read_bytes(path: Path, remedy: str = REMEDY, most: int = MOST_BYTES) -> bytes:
    """Reads a regular file.

    Raises:
        ResultError: The file cannot be read, or has more than `most` bytes.
    """
    try:
        size = path.stat().st_size
        if size > most:
            raise ValueError(f"it has {size:,} bytes; the maximum is {most:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        _refuse(path, _reason(error), remedy)


def read_json(path: Path, remedy: str = REMEDY, *, finite: bool = True) -> Any:
    """Reads JSON.

    Args:
        finite: reject NaN and Infinity, which Python's reader accepts.

    Raises:
        ResultError: The file is not such JSON.
    """
    content = read_bytes(path, remedy, MOST_JSON_BYTES)
    try:
        return json.loads(content, parse_constant=_not_finite if finite else None)
    except RecursionError:
        _refuse(path, "its lists and objects are nested too deep", remedy)
    except ValueError as error:
        _refuse(path, str(error), remedy)


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"it contains the number {name}, which is not finite")


def load_npz(
    path: Path,
    content: bytes | None = None,
    is_wanted: Callable[[str], bool] = lambda _: True,
    remedy: str = REMEDY,
) -> dict[str, NDArray[Any]]:
    """Reads the arrays of a file that `numpy.savez` or `savez_compressed` wrote: name -> array.

    Arrays of Python objects, which are pickled, are an error.

    Args:
        content: content of the file if it has been read already; `path` is then used in messages only.
        is_wanted: whether to read the array of this name.

    Raises:
        ResultError: The file is damaged or is not such a file, or has more than `MOST_BYTES` of arrays.
    """
    try:
        with np.load(
            path if content is None else io.BytesIO(content), allow_pickle=False
        ) as stored:
            size = sum(member.file_size for member in stored.zip.infolist())
            if size > MOST_BYTES:
                raise ValueError(
                    f"its arrays have {size:,} bytes; the maximum is {MOST_BYTES:,}"
                )
            return {name: stored[name] for name in stored.files if is_wanted(name)}
    except Exception as error:  # zipfile and numpy raise many on damaged files
        _refuse(path, _reason(error), remedy)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _refuse(path: Path, reason: str, remedy: str) -> NoReturn:
    raise ResultError(f"{path} cannot be read: {reason}. {remedy}.") from None


# ---- Escapes names from data files and run folders for each output format.
#
#     visible       terminal, messages, plots, HTML, CSV, MLflow: control characters as \x1b, \n, \u202e
#     in_markdown   Markdown: no markup; inside a table no end of the cell
#     in_latex      LaTeX: its special characters
#     (JSON)        json.dumps escapes control characters and all characters outside ASCII
#
# The template of the report escapes HTML; plots disable mathematical notation where they draw text. The CSV
# files of a run folder contain the original names, because they are read again.

# Characters that move the cursor, change the text direction or end a line, and lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
_UNSEEN_BUT_LINES = re.compile(rf"(?!\n){_UNSEEN.pattern}")

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_BAR = re.compile(r"(\\*)(\|)")
# Inside a word, an underscore is no emphasis.
_MARK = re.compile(r"(\\*)([*`]|(?<![^\W_])_|_(?![^\W_]))")

_AFTER_BACKSLASH = {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX = str.maketrans(
    _AFTER_BACKSLASH
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # After a line break, [ would start the optional argument of the command.
        "[": "{[}",
    }
)


def visible(text: str, lines: bool = False) -> str:
    r"""Returns the text with control characters as Python escapes.

    Args:
        lines: keep line breaks.

    >>> print(visible("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    # No character of _UNSEEN is printable; most texts end here.
    if text.isprintable():
        return text
    unseen = _UNSEEN_BUT_LINES if lines else _UNSEEN
    return unseen.sub(_as_escape, text)


def _as_escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def in_markdown(text: str, cell: bool = False) -> str:
    r"""Returns the text escaped for Markdown, which then displays it literally.

    Args:
        cell: escape for a table cell, where a vertical bar would end the cell.

    >>> print(in_markdown("<img src=x> p < 0.05 [a](b)"))
    &lt;img src=x> p < 0.05 [a]\(b)
    >>> print(in_markdown("**x** `y` __z__ num_leaves"))
    \*\*x\*\* \`y\` \_\_z\_\_ num_leaves
    >>> print(in_markdown(r"a\|b", cell=True))
    a\\\|b
    """
    shown = _MARK.sub(_with_backslash, prose_in_markdown(text))
    return _in_cell(shown) if cell else shown


def prose_in_markdown(text: str) -> str:
    """Returns prose for Markdown without HTML, links and images; code in backticks and emphasis stay."""
    without_entities = _ENTITY.sub("&amp;", visible(text))
    return _TAG.sub("&lt;", without_entities).replace("](", r"]\(")


def in_table(text: str) -> str:
    """Returns the text escaped for a cell of an aligned table on a terminal."""
    return _in_cell(visible(text))


def _in_cell(text: str) -> str:
    return _BAR.sub(_with_backslash, text)


def _with_backslash(match: re.Match[str]) -> str:
    """Returns a character after its backslash: an earlier backslash would escape that of the character."""
    return f"{match[1] * 2}\\{match[2]}"


def in_latex(text: str) -> str:
    """Returns the text escaped for LaTeX.

    >>> in_latex("50%_of")
    '50\\\\%\\\\_of'
    """
    return visible(text).translate(_LATEX)


# ---- Checks the values of a record against its declared types, with pydantic.

LONGEST_NAME = 1000
_MOST_CSV_BYTES = 2**28

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Amount = Annotated[float, Field(ge=0, le=1e15)]


def validation_error(value: Any, declared: Any, name: str) -> str | None:
    """Returns the first error in a JSON value: its key, the value and what is wrong; None if it is valid.

    Args:
        declared: type annotation. `Annotated[Mapping[str, Any], Record]` declares the keys of a TypedDict
            that may also be empty.
        name: name of the value, such as `metrics`; "" for a whole object.

    >>> validation_error({"fit": None}, Mapping[str, float], "seconds")
    'seconds.fit is None; it should be a valid number'
    >>> validation_error([1, 2], Sequence[int], "folds") is None
    True
    """
    record = None
    if get_origin(declared) is Annotated:
        _, *records = get_args(declared)
        if is_typeddict(records[0]):
            record = records[0]
    if record is not None and value == {}:
        return None
    try:
        _validator(record or declared).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = name
        for key in first["loc"]:
            where += f"[{key}]" if isinstance(key, int) else f".{key}"
        where = where.removeprefix(".")
        if first["type"] == "missing":
            return f"{where} is missing"
        reason = first["msg"].removeprefix("Input ")
        return f"{where} is {reprlib.repr(first['input'])}; it {reason}"
    return None


@cache
def _validator(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)


def type_error(values: Mapping[str, object], types: Mapping[str, Any]) -> str | None:
    """Returns the first error in values read from JSON: a name without a type, or a value of another type.

    >>> type_error({"num_leaves": 31, "l2": 1}, {"num_leaves": int, "l2": float | None})
    >>> type_error({"num_leaves": "31"}, {"num_leaves": int})
    "num_leaves is '31'; it should be a valid integer"
    """
    for name in values:
        if name not in types:
            return f"there is no field '{name}'"
    for name, value in values.items():
        error = validation_error(value, types[name], name)
        if error:
            return error
    return None


@cache
def types_of(record: type) -> Mapping[str, Any]:
    """Returns field -> annotation of a dataclass or a TypedDict."""
    return get_type_hints(record, include_extras=True)


@dataclass(frozen=True)
class RunTable:
    """CSV file with a header, (C,), and rows of C cells."""

    path: Path
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    remedy: str = REMEDY

    def texts(self, column: int) -> tuple[str, ...]:
        return tuple(row[column] for row in self.rows)

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Returns a (rows,) column of numbers, with NaN for an empty cell or nan.

        Raises:
            ResultError: A cell is not a number.
        """
        try:
            cells = self.texts(column)
            return np.array([float(cell or "nan") for cell in cells])
        except ValueError as error:
            raise self.refusal(f"column '{self.header[column]}': {error}") from None

    def refusal(self, reason: str, row: int | None = None) -> ResultError:
        """Returns the error for a row or for the file; the message has the file and the line."""
        line = ""
        if row is not None:
            line = f":{row + 2}"
        return ResultError(f"{self.path}{line}: {reason}. {self.remedy}.")


def read_run_table(path: Path, first: Sequence[str], remedy: str) -> RunTable:
    """Reads a CSV file in UTF-8.

    Args:
        first: required names of the first columns.

    Raises:
        ResultError: The file is not such a table, or repeats a column name.
    """
    content = read_bytes(path, remedy, _MOST_CSV_BYTES)
    try:
        header, *rows = csv.reader(
            io.StringIO(content.decode("utf-8"), newline=""), strict=True
        )
    except (ValueError, csv.Error) as error:
        _refuse(path, f"it is not CSV in UTF-8 ({error})", remedy)
    table = RunTable(path, tuple(header), rows, remedy)
    are_distinct = len(set(header)) == len(header)
    if header[: len(first)] != list(first) or not are_distinct:
        raise table.refusal(
            f"its columns are {reprlib.repr(header)}; expected {', '.join(first)}, and none repeated"
        )
    for row, cells in enumerate(rows):
        if len(cells) != len(header):
            lengths = f"{len(cells)} cells, but the header has {len(header)}"
            raise table.refusal(f"the row has {lengths}", row)
    return table
