"""The second pass over LETOR text: `parse_lines` writes the content of lines into arrays.

It accepts a line only if it certainly reads what `line.parse_line`, the specification, reads; it stops at any
other line, for which the caller uses the specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel
from ltrbench.data.formats.letor.kernels.numbers import (
    EIGHT_ZEROS,
    NOWHERE,
    ZERO_DIGITS,
    after_nan,
    as_double,
    as_feature,
    leading_digits,
    not_digits,
    number_of_digits,
    read_decimal,
    with_many_decimals,
)
from ltrbench.data.formats.letor.kernels.text import (
    BLANK,
    COLON,
    COMMENT,
    DELETE,
    DIGIT_ZERO,
    EIGHT,
    FOUR,
    HIGH_BITS,
    ID_LENGTH,
    LAST_BYTE,
    LINE_FEED,
    LOW_BITS,
    MINUS,
    ONE,
    POINT,
    QID,
    RETURN,
    TEN,
    TWO,
    ZERO,
    Position,
    TextBytes,
    after_blanks,
    document_id_span,
    eight_bytes,
    ends_content,
    ends_token,
    is_blank,
    is_space,
    same_bytes,
    starts_with,
)
from ltrbench.data.formats.letor.line import FLOAT32_OVERFLOW
from ltrbench.shapes import Features, Labels

_Row = Any  # uint64
_LONGEST_INDEX = np.uint64(9)  # digits
_BLANKS, _DELETES = LOW_BITS * np.uint64(BLANK), LOW_BITS * np.uint64(DELETE)
_LOOKAHEAD = np.uint64(33)  # bytes that the longest usual pair reads: 7 + 1 + 1 + 7 + 1 + 8 + 8
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
BLOCK_END, ODD_LINE, ODD_ID = range(3)
"""Reasons why `parse_lines` stops: the text ends; the specification must read the next line; it must read
the document id of the line before."""
CURSOR = 6
POSITION, LINE_NUMBER, ROW, NUM_RUNS, NUM_STORED, NUM_SKIPPED = range(CURSOR)
"""State of `parse_lines` between two calls: position in the text, number of the next line, row of the next
document, and the numbers of runs, of stored values and of lines without a document."""
_REFUSE, _CAP, _MISSING = range(3)
"""Treatment of values beyond float32, in the order of `line.OVERFLOWS`."""


@kernel
def parse_lines(
    text: TextBytes,
    cursor: NDArray[np.int64],
    rules: NDArray[np.int64],
    features: Features,
    row_stop: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    labels: Labels,
    weights: NDArray[np.float64],
    skipped: NDArray[np.int64],
    documents: NDArray[np.uint32],
    runs: NDArray[np.int64],
) -> int:
    """Parses whole lines from the cursor on, until the text ends or a line is not ordinary.

    Args:
        cursor: (CURSOR,), state; output.
        rules: (6,), first index, treatment of overflow, whether labels must be whole, whether a label and a
            qid are needed, and whether the features are sparse.
        features: (n, F), output, in which values that a line omits are not written; (0, F) if sparse.
        row_stop: (n,), columns: (m,), values: (m,), output if sparse: for each document the position after
            its last value; column and value of each `index:value`.
        labels: (n,), weights: (n,), or (0,) if no line has one; output.
        skipped: (S,), row of the next document at each line without a document; output.
        documents: (n, L), document ids as code points; output.
        runs: (n, 3), output: first row of consecutive documents of one query, start and end of its id.

    Returns:
        BLOCK_END, ODD_LINE or ODD_ID. After ODD_LINE the cursor is at this line, whose row in `features`
        may be written in part.
    """
    at, line, row = np.uint64(cursor[POSITION]), cursor[LINE_NUMBER], np.uint64(cursor[ROW])
    num_runs, num_values, num_skipped = cursor[NUM_RUNS], np.uint64(cursor[NUM_STORED]), cursor[NUM_SKIPPED]
    end, num_rows = np.uint64(len(text)), np.uint64(len(labels))
    query, query_stop, has_query = ZERO, ZERO, False
    reason = BLOCK_END
    while reason == BLOCK_END and at < end:
        start = at
        at = after_blanks(text, at)
        comment, is_document = at, not ends_content(text[at])
        if is_document:
            at = NOWHERE if row == num_rows else _read_label(text, at, rules, row, labels, weights)
            last, last_stop = query, query_stop
            at, query, query_stop, is_ascii = _read_query(text, at, rules)
            same = has_query and same_bytes(text, last, last_stop, query, query_stop)
            if at != NOWHERE and (is_ascii or same):
                at, after = _read_features(text, at, rules, row, features, columns, values, num_values)
                comment = at
            else:
                at = NOWHERE
        elif num_skipped == len(skipped):
            at = NOWHERE
        stop = NOWHERE if at == NOWHERE else _read_end(text, comment)
        if stop == NOWHERE:
            reason, at = ODD_LINE, start
            break
        if is_document:
            if not same:
                runs[num_runs, 0], runs[num_runs, 1], runs[num_runs, 2] = row, query, query_stop
                num_runs += 1
            has_query = True
            if rules[5]:
                num_values = after
                row_stop[row] = num_values
            if text[comment] == COMMENT and not _write_id(text, comment + ONE, stop, row, documents):
                reason = ODD_ID
            row += ONE
        else:
            skipped[num_skipped] = row
            num_skipped += 1
        at = stop + ONE
        line += 1
    cursor[POSITION], cursor[LINE_NUMBER], cursor[ROW] = at, line, row
    cursor[NUM_RUNS], cursor[NUM_STORED], cursor[NUM_SKIPPED] = num_runs, num_values, num_skipped
    return reason


@kernel
def _read_label(
    text: TextBytes,
    at: Position,
    rules: NDArray[np.int64],
    row: _Row,
    labels: Labels,
    weights: NDArray[np.float64],
) -> Position:
    """Writes the label and the weight, NaN if there is none, and returns the position after them."""
    labels[row] = np.nan
    if len(weights):
        weights[row] = np.nan
    stop, mantissa, exponent, negative = read_decimal(text, at)
    if stop != NOWHERE and ends_token(text[stop]):
        label = as_double(mantissa, exponent)
        if negative or np.isnan(label) or (rules[2] and label != np.floor(label)):
            return NOWHERE
        labels[row] = label
        at = after_blanks(text, stop)
    elif rules[3]:
        return NOWHERE
    stop, mantissa, exponent, negative = read_decimal(text, at)
    if stop != NOWHERE and is_blank(text[stop]):
        after = after_blanks(text, stop)
        if starts_with(text, after, QID):
            weight = as_double(mantissa, exponent)
            if negative or np.isnan(weight) or not len(weights):
                return NOWHERE
            weights[row] = weight
            return after
    return at


@kernel
def _read_query(
    text: TextBytes, at: Position, rules: NDArray[np.int64]
) -> tuple[Position, Position, Position, bool]:
    """Returns the position after `qid:ID`, the start and end of the id, and whether it is ASCII.

    Without a qid the id is empty.
    """
    if at == NOWHERE or not starts_with(text, at, QID):
        return NOWHERE if rules[4] else at, ZERO, ZERO, True
    start = stop = at + np.uint64(len(QID))
    every = 0
    while text[stop] > BLANK and text[stop] != COMMENT and text[stop] != DELETE:
        every |= text[stop]
        stop += ONE
    if stop == start or stop - start > ID_LENGTH or not ends_token(text[stop]):
        return NOWHERE, ZERO, ZERO, True
    return stop, start, stop, every < 128


@kernel
def _read_features(
    text: TextBytes,
    at: Position,
    rules: NDArray[np.int64],
    row: _Row,
    features: Features,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    num_values: Position,
) -> tuple[Position, Position]:
    """Writes `index:value` pairs in ascending order.

    Returns the position after them, and the number of stored values including them if sparse.
    """
    first_index, overflow, is_sparse = np.uint64(rules[0]), rules[1], rules[5]
    space = np.uint64(len(columns))
    lowest, width = ZERO, np.uint64(features.shape[1])
    while True:
        start = at = after_blanks(text, at)
        if np.uint64(text[at]) - DIGIT_ZERO >= TEN:
            return at, num_values
        stop, index, value = _read_usual_pair(text, start)
        if stop == NOWHERE:
            stop, index, value = _read_pair(text, start, overflow)
        column = index - first_index  # index 0 of a file that starts from 1: a huge number
        if stop == NOWHERE or column < lowest or column >= width:
            return NOWHERE, num_values
        lowest = column + ONE
        if is_sparse:
            if num_values == space:
                return NOWHERE, num_values
            columns[num_values], values[num_values] = column, value
            num_values += ONE
        else:
            features[row, column] = value
        at = stop


@kernel
def _read_pair(text: TextBytes, at: Position, overflow: int) -> tuple[Position, Position, float]:
    """Returns the position after `index:value`, the index, and a double that rounds to the float32 value."""
    at, index = _read_index(text, at)
    if at == NOWHERE:
        return NOWHERE, ZERO, 0.0
    stop, mantissa, exponent, negative = read_decimal(text, at)
    if stop == NOWHERE:
        stop, value = after_nan(text, at), np.nan
    else:
        value = as_feature(mantissa, exponent)
        if np.isnan(value) or (value >= FLOAT32_OVERFLOW and overflow == _REFUSE):
            return NOWHERE, ZERO, 0.0
        if value >= FLOAT32_OVERFLOW:
            value = _LARGEST_FLOAT32 if overflow == _CAP else np.nan
        if negative:
            value = np.nan if np.isnan(value) else -value
    return (stop if stop != NOWHERE and ends_token(text[stop]) else NOWHERE), index, value


@kernel
def _read_index(text: TextBytes, at: Position) -> tuple[Position, Position]:
    """Returns the position after `index:`, and the index."""
    start = at
    index, digit = ZERO, np.uint64(text[at]) - DIGIT_ZERO
    while digit < TEN:
        index = index * TEN + digit
        at += ONE
        digit = np.uint64(text[at]) - DIGIT_ZERO
    if text[at] != COLON or at - start > _LONGEST_INDEX:
        return NOWHERE, ZERO
    return at + ONE, index


@inlined_kernel
def _read_usual_pair(text: TextBytes, at: Position) -> tuple[Position, Position, float]:
    """Returns what `_read_pair` returns for a pair in the usual notation, in less time.

    The second pass takes half of the time that it takes with `_read_pair` alone [measured on dense text, on
    sparse text and on text with comments].

    It leaves every other pair to `_read_pair`: exponents, 16 decimals or more, 8 digits or more before the
    point, a mantissa above 2^53, `nan`, and pairs at the end of the text. The lengths of an index and of a
    whole part are mostly those of the line before, so that their branches are predicted; the number of
    decimals is not, so that up to 7 decimals are read without a branch.
    """
    if at + _LOOKAHEAD > np.uint64(len(text)):
        return NOWHERE, ZERO, 0.0
    index, second = np.uint64(text[at]) - DIGIT_ZERO, np.uint64(text[at + ONE]) - DIGIT_ZERO
    if text[at + ONE] == COLON:
        at += TWO
    elif second < TEN and text[at + TWO] == COLON:
        index = index * TEN + second
        at += TWO + ONE
    else:
        third = np.uint64(text[at + TWO]) - DIGIT_ZERO
        if second < TEN and third < TEN and text[at + TWO + ONE] == COLON:
            index = (index * TEN + second) * TEN + third
            at += FOUR
        else:
            index, num_digits = leading_digits(text, at)
            at += num_digits + ONE
            if num_digits == EIGHT or text[at - ONE] != COLON:
                return NOWHERE, ZERO, 0.0
    negative = text[at] == MINUS
    if negative:
        at += ONE
    mantissa = np.uint64(text[at]) - DIGIT_ZERO
    if mantissa < TEN and text[at + ONE] == POINT:
        at += ONE
    else:
        mantissa, num_digits = leading_digits(text, at)
        at += num_digits
        if num_digits == ZERO or num_digits == EIGHT:  # noqa: SIM109  # as numba compiles it
            return NOWHERE, ZERO, 0.0
    if text[at] == POINT:
        at += ONE
        word = eight_bytes(text, at) ^ ZERO_DIGITS
        others = not_digits(word)
        if others:
            # As if zeros followed up to the 8th decimal: a number below 2^53, divided by 10^8.
            digits = (others ^ (others - ONE)) >> EIGHT  # all bits of the bytes before the first other one
            at += ((digits & LOW_BITS) * LOW_BITS) >> LAST_BYTE
            value = np.float64(mantissa * EIGHT_ZEROS + number_of_digits(word & digits)) / 1e8
        else:
            at, value = with_many_decimals(text, at, mantissa)
            if at == NOWHERE:
                return NOWHERE, ZERO, 0.0
    else:
        value = np.float64(mantissa)
    if not ends_token(text[at]):
        return NOWHERE, ZERO, 0.0
    if negative:
        value = -value
    return at, index, value


@kernel
def _read_end(text: TextBytes, at: Position) -> Position:
    """Returns the position of the line feed after the content and its comment."""
    if text[at] == COMMENT:
        at += ONE
        while at + EIGHT <= np.uint64(len(text)) and not _controls(eight_bytes(text, at)):
            at += EIGHT
        # Any line end, blank or printable byte, in any encoding.
        while text[at] != LINE_FEED and text[at] != RETURN:
            if text[at] == DELETE or (text[at] < BLANK and not is_space(text[at])):
                return NOWHERE
            at += ONE
    if text[at] == RETURN:
        at += ONE
    return at if text[at] == LINE_FEED else NOWHERE


@kernel
def _controls(word: Position) -> Position:
    """Returns a number that is not 0 if one of eight bytes is below a blank, or 127."""
    deletes = word ^ _DELETES  # as in `_ends`
    return ((word - _BLANKS) & ~word | (deletes - LOW_BITS) & ~deletes) & HIGH_BITS


@kernel
def _write_id(
    text: TextBytes, start: Position, stop: Position, row: _Row, documents: NDArray[np.uint32]
) -> bool:
    """Writes the document id of a comment; returns False if it is not ASCII."""
    start, stop, is_ascii = document_id_span(text, start, stop)
    if not is_ascii or stop - start > np.uint64(documents.shape[1]):
        return False
    for offset in range(stop - start):
        documents[row, offset] = text[start + np.uint64(offset)]
    return True
