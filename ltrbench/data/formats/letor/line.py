"""One line of LETOR text: the specification of the format, with an error for each mistake.

    label [weight] qid:ID index:value index:value ... # comment

A line that is only to be scored needs neither label nor qid. `weight` says how much the document counts in
training. Indices ascend and count from one, or from zero. A value may be `nan`: it is missing. In LightGBM's
form there is no qid; a file beside says which lines make a query.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from ltrbench.data.formats.options import check_switch, check_whole
from ltrbench.errors import DataError

# A larger index is a damaged file or a hashed feature space; neither fits into a dense (D, F) matrix.
MAX_FEATURES = 2**24

# From here on a double rounds to infinity in float32: half a unit above its largest number, 2^128 - 2^104.
FLOAT32_OVERFLOW = float.fromhex("0x1.ffffffp+127")

_LARGEST = float(np.finfo(np.float32).max)

# NumPy gives each id of a data set the room of the longest: one of a megabyte would cost terabytes.
LONGEST_ID = 1000

# What becomes of a value that float32 cannot hold.
OVERFLOWS = ("refuse", "cap", "missing")

_TABLE = "A table, CSV or Parquet, is read with data=table, in Python with read_table."
_PARQUET = b"PAR1"  # how its files begin

# The remedy where data to learn from or to judge by has no labels.
UNLABELLED = (
    "Give every document a label; only predict, in Python read_features, takes documents without labels."
)

SYNTAX = "A line reads 'label [weight] qid:ID index:value index:value ... # comment'."

# Possessive quantifiers (`++`), so that no line, however odd, makes the match backtrack.
NUMBER = rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"
CONTROL = rb"\x00-\x08\x0e-\x1f\x7f"
_NUMBER_ONLY = re.compile(NUMBER)
_NOT_TEXT = re.compile(rb"[" + CONTROL + rb"]")
_RETURN_WITHIN = re.compile(rb"\r\s*+\S")
_MISSING = re.compile(rb"[+-]?nan", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DOCUMENT_ID = re.compile(rb"\s*docid\s*=\s*(\S+)")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """What a reader expects of every line.

    Args:
        num_features: how many features there may be; None: MAX_FEATURES.
        first_index: what the first feature is called, 0 or 1.
        whole_labels: whether a label that is not whole is a mistake.
        needs_qid: whether a line without qid is a mistake.
        needs_label: whether a line without label is a mistake.
        overflow: what becomes of a value that float32 cannot hold: "refuse", "cap" (the largest float32 of
            its sign) or "missing" (NaN).
        width_reason: why there may be no more than num_features, and the remedy, for messages.
    """

    num_features: int | None = None
    first_index: int = 1
    whole_labels: bool = False
    needs_qid: bool = True
    needs_label: bool = True
    overflow: str = "refuse"
    width_reason: str = (
        "as many as in training. Leave out what training does not have, or set num_features to the full width"
    )

    def __post_init__(self) -> None:
        if self.num_features is not None:
            check_whole("num_features", self.num_features)
        check_whole("first_index", self.first_index)
        check_switch("whole_labels", self.whole_labels)
        if self.overflow not in OVERFLOWS:
            raise DataError(f"overflow is {self.overflow!r}; it must be one of {', '.join(OVERFLOWS)}.")
        if self.num_features is not None and not 1 <= self.num_features <= MAX_FEATURES:
            raise DataError(f"num_features is {self.num_features}; it must lie between 1 and {MAX_FEATURES}.")
        if self.first_index not in (0, 1):
            raise DataError(f"first_index is {self.first_index}; features are counted from 0 or from 1.")


@dataclass(frozen=True, slots=True)
class Line:
    """One document as its line says it: feature `indices[i]`, as the file counts, is `values[i]`."""

    label: float  # NaN where the line has none
    weight: float | None
    query: str  # "" where the line has no qid
    indices: list[int]
    values: list[float]
    document: str  # "" where the line has no comment


def parse_line(line: bytes, where: str, form: LineFormat) -> Line | None:
    """One line of LETOR text. None where it holds no document.

    Args:
        line: with or without its end of line.
        where: `path:line`, for messages.

    Raises:
        DataError: naming `where`, the value, what was expected and what to do.

    >>> parse_line(b"2 qid:7 1:0.05 3:1 #docid = GX008-86 inc = 1", "train.txt:1", LineFormat())
    Line(label=2.0, weight=None, query='7', indices=[1, 3], values=[0.05, 1.0], document='GX008-86')
    >>> parse_line(b"# a comment", "train.txt:2", LineFormat())
    """
    _check_text(line, where)
    content, _, comment = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    if b":" in tokens[0] and not form.needs_label:
        label, rest = math.nan, tokens
    else:
        label, rest = _parse_label(tokens[0], where, form.whole_labels), tokens[1:]
    weight = None
    if len(rest) > 1 and rest[1].startswith(b"qid:") and is_number(rest[0]):
        weight = _parse_weight(rest.pop(0), where)
    query = ""
    if form.needs_qid or (rest and rest[0].startswith(b"qid:")):
        query = _parse_query(rest.pop(0) if rest else b"", where)
    indices, values = _parse_features(rest, where, form)
    return Line(label, weight, query, indices, values, document_id(comment))


def _check_text(line: bytes, where: str) -> None:
    control = _NOT_TEXT.search(line)
    if control:
        remedy = _TABLE if line.startswith(_PARQUET) else "Unpack or convert the file."
        raise DataError(
            f"{where}: byte 0x{control.group().hex()} is not text. LETOR files are text, plain or as gz, "
            f"bz2, xz or zst. {remedy}"
        )
    # Behind a comment all further lines would be taken for a part of it.
    if _RETURN_WITHIN.search(line):
        raise DataError(
            f"{where}: a carriage return stands within the line. Lines end with a line feed; convert the "
            "file, as `tr '\\r' '\\n'` does."
        )


def document_id(comment: bytes) -> str:
    """What a comment calls its document: the word after `docid =`, else the whole comment.

    >>> document_id(b"docid = GX008-86 inc = 1"), document_id(b" page 7 ")
    ('GX008-86', 'page 7')
    """
    match = _DOCUMENT_ID.match(comment)
    # A comment is free text in any encoding: it must not stop the reader, nor lose what it says.
    return (match[1] if match else comment.strip())[:LONGEST_ID].decode(errors="backslashreplace")


def is_text(token: bytes) -> bool:
    """Whether a line may hold these bytes."""
    return not (_NOT_TEXT.search(token) or _RETURN_WITHIN.search(token) or b"\n" in token)


def quote(token: bytes) -> str:
    """A token in quotes as a message can bear it: escaped, and not longer than a line."""
    text = token.decode(errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def is_number(token: bytes) -> bool:
    """Whether a token is a number, nan or infinite ones among them."""
    return bool(_NUMBER_ONLY.fullmatch(token) or _NOT_FINITE.fullmatch(token))


def _parse_label(token: bytes, where: str, whole_labels: bool) -> float:
    if _NOT_FINITE.fullmatch(token):
        raise DataError(f"{where}: label {quote(token)} is not a grade. Judge the document or leave it out.")
    if not _NUMBER_ONLY.fullmatch(token):
        remedy = _TABLE if b"," in token else f"{SYNTAX} {UNLABELLED}" if b":" in token else SYNTAX
        raise DataError(f"{where}: {quote(token)} stands where a number, the label, was expected. {remedy}")
    label = float(token)
    check_label(label, quote(token), where, whole_labels)
    return label


def check_label(label: float, shown: str, where: str, whole_labels: bool) -> None:
    """Raises DataError where a number is no grade.

    Args:
        shown: the label as the file has it.
    """
    if math.isnan(label):
        raise DataError(f"{where}: label {shown} is not a grade. Judge the document or leave it out.")
    if not 0 <= label < math.inf:
        raise DataError(
            f"{where}: label {shown} is out of range; a label is a finite grade of 0 or more. "
            "Shift the grades so that irrelevant is 0, or leave out what is not judged."
        )
    if whole_labels and label != math.floor(label):
        raise DataError(
            f"{where}: label {shown} is not a whole number, which the gain 2^label - 1 is made for. "
            "Round the labels to grades; or keep them with whole_labels=false (in a run "
            "data.whole_labels=false) and use a linear gain."
        )


def _parse_weight(token: bytes, where: str) -> float:
    weight = float(token)
    check_weight(weight, quote(token), where)
    return weight


def check_weight(weight: float, shown: str, where: str) -> None:
    """Raises DataError where a number is no weight of a document."""
    if not 0 <= weight < math.inf:
        raise DataError(
            f"{where}: weight {shown} is out of range; a weight is a finite number of 0 or more. "
            "Mend it, or leave out the document."
        )


def _parse_query(token: bytes, where: str) -> str:
    prefix, _, query = token.partition(b":")
    if prefix != b"qid" or not query:
        what = f"{quote(token)} stands" if token else "the line ends"
        raise DataError(
            f"{where}: {what} where 'qid:ID', the query of the document, was expected. {SYNTAX} Give every "
            "line the id of its query, after the label; or, as LightGBM has it, put the sizes of the queries "
            "into a file beside this one, of the same name with .query at its end."
        )
    if len(query) > LONGEST_ID:
        raise DataError(
            f"{where}: the query id {quote(query)} has {len(query)} bytes, more than {LONGEST_ID}. "
            "Give the query a shorter id, or check that the file is LETOR text."
        )
    try:
        return query.decode()
    except UnicodeDecodeError:
        raise DataError(
            f"{where}: the query id {quote(query)} is not UTF-8 text. Convert the file to UTF-8."
        ) from None


def _parse_features(tokens: list[bytes], where: str, form: LineFormat) -> tuple[list[int], list[float]]:
    indices: list[int] = []
    values: list[float] = []
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon or not index_text.isdigit():
            raise DataError(f"{where}: {quote(token)} stands where 'index:value' was expected. {SYNTAX}")
        index = _parse_index(index_text, where, form)
        if indices and index <= indices[-1]:
            problem = "is repeated" if index in indices else f"follows {indices[-1]}"
            raise DataError(
                f"{where}: feature index {index} {problem}; the indices of a line must ascend. "
                "Sort them, and keep one value for each."
            )
        indices.append(index)
        values.append(_parse_value(value_text, index, where, form.overflow))
    return indices, values


def _parse_index(token: bytes, where: str, form: LineFormat) -> int:
    # int() refuses thousands of digits, so the length comes first.
    index = int(token) if len(token) <= 20 else MAX_FEATURES + 1
    if index < form.first_index:
        raise DataError(
            f"{where}: feature index 0, where features are counted from 1. If the file counts them from 0, "
            "say so with first_index=0 (in a run data.first_index=0); otherwise mend the line."
        )
    number = index - form.first_index + 1
    if number > MAX_FEATURES:
        raise DataError(
            f"{where}: feature index {quote(token)} is beyond {MAX_FEATURES} features, the most a dense "
            "matrix is made for. Number the features without gaps."
        )
    if form.num_features is not None and number > form.num_features:
        raise DataError(
            f"{where}: feature index {index} is beyond the {form.num_features} features that were expected, "
            f"{form.width_reason}."
        )
    return index


def _parse_value(token: bytes, index: int, where: str, overflow: str) -> float:
    if not token:
        raise DataError(
            f"{where}: feature {index} has no value after its colon. Leave the feature out, or write "
            f"{index}:nan, where its value is unknown."
        )
    if _MISSING.fullmatch(token):
        return math.nan
    if _NOT_FINITE.fullmatch(token):
        raise DataError(
            f"{where}: feature {index} is {quote(token)}; values must be finite, or nan where one is "
            "missing. Cap the value, or write nan."
        )
    if not _NUMBER_ONLY.fullmatch(token):
        raise DataError(f"{where}: feature {index} is {quote(token)}, which is not a number. {SYNTAX}")
    value = float(token)
    if abs(value) >= FLOAT32_OVERFLOW and overflow == "refuse":
        raise DataError(
            f"{where}: feature {index} is {quote(token)}, which float32 cannot hold (at most 3.4e38). "
            "Rescale the feature; or read the file with overflow=cap, or with overflow=missing where such a "
            "number stands for a missing value (in a run data.overflow=...)."
        )
    return within_float32(value, overflow)


def within_float32(value: float, overflow: str) -> float:
    """A value as `overflow` has it; one that float32 can hold as it is.

    >>> [within_float32(value, "cap") for value in (-1e300, 0.5)]
    [-3.4028234663852886e+38, 0.5]
    """
    if abs(value) < FLOAT32_OVERFLOW:
        return value
    return math.copysign(_LARGEST, value) if overflow == "cap" else math.nan
