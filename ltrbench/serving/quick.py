"""Reads usual requests in a fraction of the time of `RequestReader`, which reads all others.

Almost all bytes of a request are features, and Python's `json` needs a string and a number object for each. A
compiled loop reads them into an array, and they are cut out of the body: 0 takes their place. What is left is
short, and goes through the same checks as any other request. Everything unusual, also every wrong request, is
left to `RequestReader`, so that a refusal does not depend on the way in which a request is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.data.letor_kernels import (
    BLANK,
    COLON,
    DIGIT_ZERO,
    LINE_FEED,
    MINUS,
    NOWHERE,
    ONE,
    POINT,
    RETURN,
    TEN,
    TWO,
    ZERO,
    Position,
    TextBytes,
    as_feature,
    read_decimal,
    starts_with,
)
from ltrbench.serving.requests import RankRequest, RefusedRequestError, RequestReader, read_fields
from ltrbench.shapes import Features

# ---- Compiled loop that reads the features in the bytes of a request.
#
# It looks for the values of the name "features" and reads them if they are the usual ones: an object with
# each feature of the model once, or a list of as many values, where a value is a number in the range of
# float32 or null. It stops at everything else, for which the caller uses `requests.RequestReader`, the
# specification.
#
# Only strings are followed outside of these values, so that a name is not searched in a text. Whether the
# rest is a request is for the caller to check.
#
# Shapes: a text is the bytes of a body and at least two zeros, at which every loop ends.

UNUSUAL = -1
"""Result of `scan_features` for a body that it does not read."""
_TAB = 9
_QUOTE, _BACKSLASH, _COMMA, _OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = b'"\\,{}[]'
_FEATURES = np.frombuffer(b'features"', dtype=np.uint8)
_NULL = np.frombuffer(b"null", dtype=np.uint8)
_Names = tuple[TextBytes, NDArray[np.uint64], NDArray[np.uint64]]


@kernel
def scan_features(
    text: TextBytes, end: int, names: _Names, features: Features, spans: NDArray[np.uint64]
) -> int:
    """Reads the features of all documents.

    Args:
        end: number of bytes of the body.
        names: the names of the features sorted by their bytes, all in one array; the start of each, and the
            end of the last, (F + 1,); the column of each in the model, (F,).
        features: (n, F), output; NaN for missing values.
        spans: (n, 2), output: start and end of the values of each document in the text.

    Returns:
        Number of documents, D <= n; UNUSUAL if there are more, or if the features of one are unusual.
    """
    num_features = features.shape[1]
    order = np.arange(num_features).astype(np.uint64)
    document_of = np.full(num_features, -1, dtype=np.int64)
    at, last, num_documents = ZERO, np.uint64(end), 0
    while at < last:
        if text[at] != _QUOTE:
            at += ONE
            continue
        start = at + ONE
        at = _after_string(text, start, last)
        if at == NOWHERE:
            return UNUSUAL
        if not starts_with(text, start, _FEATURES):
            continue
        value = _after_space(text, at)
        if text[value] != COLON:
            continue
        if num_documents == len(spans):
            return UNUSUAL
        value = _after_space(text, value + ONE)
        row = features[num_documents]
        if text[value] == _OPEN_OBJECT:
            at = _read_object(text, value + ONE, names, order, document_of, num_documents, row)
        elif text[value] == _OPEN_LIST:
            at = _read_list(text, value + ONE, row)
        else:
            return UNUSUAL
        if at == NOWHERE:
            return UNUSUAL
        spans[num_documents, 0], spans[num_documents, 1] = value, at
        num_documents += 1
    return num_documents


@kernel
def _after_string(text: TextBytes, at: Position, last: Position) -> Position:
    """Returns the position after the quote that ends a string."""
    while at < last:
        if text[at] == _QUOTE:
            return at + ONE
        at += TWO if text[at] == _BACKSLASH else ONE
    return NOWHERE


@kernel
def _after_space(text: TextBytes, at: Position) -> Position:
    while text[at] == BLANK or text[at] == LINE_FEED or text[at] == RETURN or text[at] == _TAB:
        at += ONE
    return at


@kernel
def _read_list(text: TextBytes, at: Position, row: NDArray[np.float32]) -> Position:
    """Writes the values of a list, and returns the position after it."""
    for column in range(len(row)):
        at = _read_value(text, at, row, np.uint64(column))
        if at == NOWHERE or text[at] != (_COMMA if column + 1 < len(row) else _CLOSE_LIST):
            return NOWHERE
        at += ONE
    return at


@kernel
def _read_object(
    text: TextBytes,
    at: Position,
    names: _Names,
    order: NDArray[np.uint64],
    document_of: NDArray[np.int64],
    document: int,
    row: NDArray[np.float32],
) -> Position:
    """Writes the values of an object, and returns the position after it.

    Args:
        order: (F,), the names in the order of the document before; output: the order of this document.
        document_of: (F,), the last document that has each name; output.
    """
    for place in range(len(row)):
        at = _after_space(text, at)
        if text[at] != _QUOTE:
            return NOWHERE
        at += ONE
        name = order[place]
        stop = _after_name(text, at, names, name)
        if stop == NOWHERE:
            name = _search(text, at, names)
            if name == NOWHERE:
                return NOWHERE
            stop = _after_name(text, at, names, name)
            order[place] = name
        if stop == NOWHERE or document_of[name] == document:
            return NOWHERE
        document_of[name] = document
        at = _after_space(text, stop)
        if text[at] != COLON:
            return NOWHERE
        at = _read_value(text, at + ONE, row, names[2][name])
        if at == NOWHERE or text[at] != (_COMMA if place + 1 < len(row) else _CLOSE_OBJECT):
            return NOWHERE
        at += ONE
    return at


@kernel
def _after_name(text: TextBytes, at: Position, names: _Names, name: Position) -> Position:
    """Returns the position after a name and its quote, if it is this one."""
    letters, starts, _ = names
    for place in range(starts[name], starts[name + ONE]):
        if text[at] != letters[place]:
            return NOWHERE
        at += ONE
    return at + ONE if text[at] == _QUOTE else NOWHERE


@kernel
def _search(text: TextBytes, at: Position, names: _Names) -> Position:
    """Returns the number of the name at a position, found by bisection; NOWHERE if it is no feature."""
    starts = names[1]
    low, high = ZERO, np.uint64(len(starts) - 1)
    while low < high:
        middle = (low + high) // TWO
        order = _compare(text, at, names, middle)
        if order == 0:
            return middle
        if order < 0:
            high = middle
        else:
            low = middle + ONE
    return NOWHERE


@kernel
def _compare(text: TextBytes, at: Position, names: _Names, name: Position) -> int:
    """Returns -1 if the text is before a name, 0 if it is this name, 1 if it is behind it."""
    letters, starts, _ = names
    for place in range(starts[name], starts[name + ONE]):
        if text[at] == _QUOTE:
            return -1  # the text is the beginning of the name
        if text[at] != letters[place]:
            return -1 if text[at] < letters[place] else 1
        at += ONE
    return 0 if text[at] == _QUOTE else 1


@kernel
def _read_value(text: TextBytes, at: Position, row: NDArray[np.float32], column: Position) -> Position:
    """Writes the number or null after white space, and returns the position of the next byte behind it."""
    at = _after_space(text, at)
    if starts_with(text, at, _NULL):
        row[column] = np.nan
        return _after_space(text, at + np.uint64(len(_NULL)))
    whole = at + ONE if text[at] == MINUS else at
    if not _is_digit(text[whole]) or (text[whole] == DIGIT_ZERO and _is_digit(text[whole + ONE])):
        return NOWHERE
    stop, mantissa, exponent, is_negative = read_decimal(text, at)
    if stop == NOWHERE:
        return NOWHERE
    for place in range(whole, stop):
        if text[place] == POINT and not _is_digit(text[place + ONE]):
            return NOWHERE
    value = np.float32(as_feature(mantissa, exponent))
    if not np.isfinite(value):
        return NOWHERE
    # Of -0.0 the sign is kept, but -0 is a whole number, which has no negative zero.
    is_whole_zero = mantissa == ZERO and stop == at + TWO
    row[column] = -value if is_negative and not is_whole_zero else value
    return _after_space(text, stop)


@kernel
def _is_digit(byte: Any) -> bool:
    return bool(np.uint64(byte) - DIGIT_ZERO < TEN)


_END = bytes(8)
"""Zeros after a body, at which the compiled loops end."""
_FEWEST_BYTES = 2
"""Minimum number of bytes of a value and of the comma or bracket behind it."""


class QuickReader:
    """Reads requests as `exact` does: the same requests, or the same refusals."""

    def __init__(self, exact: RequestReader) -> None:
        self.exact = exact
        self._can_scan = _are_plain(exact.feature_names)
        self._names = _sorted_names(exact.feature_names) if self._can_scan else None

    def read(self, body: bytes) -> RankRequest:
        """Returns the request in the body of a POST.

        Raises:
            RefusedRequestError: the body is not JSON, or not a request to rank documents.
        """
        request = self.read_usual(body)
        return self.exact.read(body) if request is None else request

    def read_usual(self, body: bytes) -> RankRequest | None:
        """Returns the request, or None for a body that `exact` must read or refuse."""
        if self._names is None:
            return None
        num_features, limit = len(self.exact.feature_names), self.exact.limits.num_documents
        # No more rows than the body can have, because a row of thousands of features is large.
        num_rows = min(limit, len(body) // (_FEWEST_BYTES * num_features))
        features = np.empty((num_rows, num_features), dtype=np.float32)
        spans = np.empty((num_rows, 2), dtype=np.uint64)
        text = np.frombuffer(body + _END, dtype=np.uint8)
        num_documents = scan_features(text, len(body), self._names, features, spans)
        if num_documents == UNUSUAL:
            return None
        try:
            query, ids, _ = read_fields(_without(body, spans[:num_documents]), limit)
        except RefusedRequestError:
            return None
        # Each document has the name "features" once, so that none was cut out of another place.
        if len(ids) != num_documents:
            return None
        return RankRequest(query, ids, features[:num_documents])


def _without(body: bytes, spans: NDArray[np.uint64]) -> bytes:
    """Returns a body with 0 in the place of each span."""
    edges = [0, *spans.ravel().tolist(), len(body)]
    parts = [body[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    return b"0".join(parts)


def _are_plain(names: Sequence[str]) -> bool:
    """Returns whether JSON can have all names in quotes as they are, and whether they are all different.

    >>> _are_plain(["bm25", "age"]), _are_plain(["2 inches", 'a "quote"'])
    (True, False)
    """
    return 0 < len(names) == len(set(names)) and all(
        name.isprintable() and '"' not in name and "\\" not in name for name in names
    )


def _sorted_names(
    names: Sequence[str],
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Returns the bytes of the sorted names, (F + 1,) where each begins, and (F,) its column."""
    encoded = [name.encode() for name in names]
    columns = sorted(range(len(names)), key=lambda column: encoded[column])
    starts = np.cumsum([0] + [len(encoded[column]) for column in columns]).astype(np.uint64)
    letters = np.frombuffer(b"".join(encoded[column] for column in columns), dtype=np.uint8)
    return letters, starts, np.array(columns, dtype=np.uint64)
