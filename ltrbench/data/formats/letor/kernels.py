"""Compiled loops over the bytes of LETOR text.

`count_lines` is the first pass over a block of lines; it measures the arrays that the second pass fills.
`parse_lines` is the second pass. It accepts a line only if it certainly reads what `line.parse_line`, the
specification, reads; it stops at any other line, for which the caller uses the specification.

A block is whole lines, each with a line feed at its end. Because of the line feed, no loop over blanks,
digits or names needs to check for the end of the block. Positions are unsigned, so that an index costs no
test for negative values.

A number is a mantissa of up to 19 digits times a power of ten. Up to 2^53 and 10^22 both are doubles, so that
one operation rounds correctly (Clinger, 1990, "How to Read Floating Point Numbers Accurately"). The double of
any other feature is known within 4 units in the last place. It is accepted if the bounds round to the same
float32: rounding is monotonic, so that the correctly rounded double rounds to this float32 as well.

Callers import this module late, because `--help` should not wait for numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import inlined_kernel, kernel
from ltrbench.data.formats.letor.line import FLOAT32_OVERFLOW, LONGEST_ID
from ltrbench.shapes import Features, Labels

_Text = NDArray[np.uint8]
_Byte = Any  # uint8
_Position = Any  # uint64
_Row = Any  # uint64

_ZERO, _ONE, _TEN = np.uint64(0), np.uint64(1), np.uint64(10)
_FAILED = np.uint64(2**64 - 1)  # instead of the position after a part of the line
_TAB, _LINE_FEED, _RETURN, _BLANK, _DELETE = 9, 10, 13, 32, 127
_COMMENT, _PLUS, _MINUS, _POINT, _COLON, _EQUALS = b"#+-.:="
_EXPONENT = ord("e")
_DIGIT_ZERO = np.uint64(ord("0"))
_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
_ID_LENGTH = np.uint64(LONGEST_ID)
_LONGEST_INDEX = np.uint64(9)  # digits

_TWO, _FOUR, _SEVEN, _EIGHT = np.uint64(2), np.uint64(4), np.uint64(7), np.uint64(8)
_ZERO_DIGITS, _BEYOND_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_HIGH_BITS, _LOW_BITS = np.uint64(0x8080808080808080), np.uint64(0x0101010101010101)
_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LINE_FEEDS, _COMMENTS, _COLONS = (_LOW_BITS * np.uint64(byte) for byte in (_LINE_FEED, _COMMENT, _COLON))
_BLANKS, _DELETES = _LOW_BITS * np.uint64(_BLANK), _LOW_BITS * np.uint64(_DELETE)
_LAST_BYTE = np.uint64(56)
_TWO_DIGITS, _FOUR_DIGITS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_EIGHT_DIGITS = np.uint64(0xFFFFFFFF)
_INTEGER_POWERS = np.array([10**exponent for exponent in range(9)], dtype=np.uint64)
_EIGHT_ZEROS = np.uint64(10**8)
_ROOM_FOR_SEVEN = np.uint64(10**12)  # below it, seven more digits fit into the mantissa
_LOOKAHEAD = np.uint64(33)  # bytes that the longest usual pair reads: 7 + 1 + 1 + 7 + 1 + 8 + 8

_ROOM = np.uint64(10**18)  # below it, another digit fits into the mantissa
_EXACT = np.uint64(2**53)
_EXACT_EXPONENT = 22
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(309)])
_LARGEST_EXPONENT = 308
# A mantissa has at most 19 digits: below 10^-61, less than half of the smallest float32.
_ZERO_EXPONENT = -80
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
# Each of the mantissa, the power and their product is off by half a unit, 2^-53; the 20th digit by less.
_ERROR = 2.0**-50

COUNTS = 9
(
    DOCUMENTS,
    LINES,
    LARGEST_INDEX,
    PLACE,
    LINE,
    SECOND_INDEX,
    LONGEST_DOCUMENT_ID,
    WEIGHTS,
    VALUES,
) = range(COUNTS)
"""Results of `count_lines`: the numbers of documents and lines, the largest index (-1: none), start and
number (from 0) of the first line that has it, the largest index of the other lines, the length of the longest
document id (-1: one is not ASCII), and the numbers of weights and of `index:value` pairs."""

BLOCK_END, ODD_LINE, ODD_ID = range(3)
"""Reasons why `parse_lines` stops: the block ends; the specification must read the next line; it must read
the document id of the line before."""

CURSOR = 6
POSITION, LINE_NUMBER, ROW, NUM_RUNS, NUM_STORED, NUM_SKIPPED = range(CURSOR)
"""State of `parse_lines` between two calls: position in the text, number of the next line, row of the next
document, and the numbers of runs, of stored values and of lines without a document."""

_REFUSE, _CAP, _MISSING = range(3)
"""Treatment of values beyond float32, in the order of `line.OVERFLOWS`."""


@kernel
def count_lines(text: _Text) -> NDArray[np.int64]:
    """Returns the `COUNTS` of whole lines. They are exact if the specification accepts every line."""
    counts = np.zeros(COUNTS, dtype=np.int64)
    counts[LARGEST_INDEX] = counts[SECOND_INDEX] = -1
    start, end = _ZERO, np.uint64(len(text))
    while start < end:
        content_stop = _after_content(text, start, end)
        stop = content_stop
        while text[stop] != _LINE_FEED:
            stop = _after_content(text, stop + _ONE, end)
        first = _after_spaces(text, start)
        if first < content_stop:
            counts[DOCUMENTS] += 1
            _count_index(_last_index(text, first, content_stop), int(start), counts)
            num_words, content = _after_query(text, first, content_stop)
            counts[WEIGHTS] += num_words == 2  # a label and a weight
            counts[VALUES] += _count_colons(text, content, content_stop)
            if stop > content_stop and counts[LONGEST_DOCUMENT_ID] >= 0:
                id_start, id_stop, is_ascii = _document_id(text, content_stop + _ONE, stop)
                longest = max(counts[LONGEST_DOCUMENT_ID], int(id_stop - id_start))
                counts[LONGEST_DOCUMENT_ID] = longest if is_ascii else -1
        counts[LINES] += 1
        start = stop + _ONE
    return counts


@kernel
def _count_index(index: int, start: int, counts: NDArray[np.int64]) -> None:
    """Counts the largest index of the line at `start`."""
    if index > counts[LARGEST_INDEX]:
        counts[SECOND_INDEX], counts[LARGEST_INDEX] = counts[LARGEST_INDEX], index
        counts[PLACE], counts[LINE] = start, counts[LINES]
    elif index > counts[SECOND_INDEX]:
        counts[SECOND_INDEX] = index


@kernel
def _after_content(text: _Text, at: _Position, end: _Position) -> _Position:
    """Returns the position of the next line feed or "#"."""
    while at + np.uint64(32) <= end:
        ends = _ends(_eight_bytes(text, at)) | _ends(_eight_bytes(text, at + _EIGHT))
        at += np.uint64(16)
        ends |= _ends(_eight_bytes(text, at)) | _ends(_eight_bytes(text, at + _EIGHT))
        at += np.uint64(16)
        if ends:
            at -= np.uint64(32)
            while not _ends(_eight_bytes(text, at)):
                at += _EIGHT
            break
    while text[at] != _LINE_FEED and text[at] != _COMMENT:
        at += _ONE
    return at


@kernel
def _ends(word: _Position) -> _Position:
    """Returns a number that is not 0 if one of eight bytes is a line feed or "#"."""
    # Subtracting 1 from each byte sets the highest bit of a byte that was 0, and of others only above it.
    feeds, comments = word ^ _LINE_FEEDS, word ^ _COMMENTS
    return ((feeds - _LOW_BITS) & ~feeds | (comments - _LOW_BITS) & ~comments) & _HIGH_BITS


@kernel
def _after_query(text: _Text, at: _Position, stop: _Position) -> tuple[int, _Position]:
    """Returns the number of words before the first that has a colon, and the start of the first pair."""
    num_words = 0
    while at < stop:
        start, has_colon = at, False
        while at < stop and not _is_space(text[at]):
            has_colon |= text[at] == _COLON
            at += _ONE
        if has_colon:
            return num_words, at if _starts_with(text, start, _QID) else start
        num_words += 1
        while at < stop and _is_space(text[at]):
            at += _ONE
    return num_words, stop


@kernel
def _count_colons(text: _Text, at: _Position, stop: _Position) -> int:
    """Returns the number of colons: of `index:value` pairs, each of which has one."""
    num_colons = _ZERO
    while at + _EIGHT <= stop:
        others = _eight_bytes(text, at) ^ _COLONS
        others = ((others & _SEVEN_BITS) + _SEVEN_BITS | others) & _HIGH_BITS  # of each byte that is not 0
        num_colons += _EIGHT - ((others >> _SEVEN) * _LOW_BITS >> _LAST_BYTE)
        at += _EIGHT
    while at < stop:
        num_colons += np.uint64(text[at] == _COLON)
        at += _ONE
    return int(num_colons)


@kernel
def _last_index(text: _Text, first: _Position, stop: _Position) -> int:
    """Returns the index of the last `index:value` before `stop`; -1 if there is none, capped at 2^32."""
    at = stop
    while at > first and text[at - _ONE] != _COLON:
        at -= _ONE
    if at == first:
        return -1
    start = at - _ONE
    while start > first and np.uint64(text[start - _ONE]) - _DIGIT_ZERO < _TEN:
        start -= _ONE
    if start == at - _ONE or (start > first and not _is_space(text[start - _ONE])):
        return -1
    index = 0
    while text[start] != _COLON:
        index = min(10 * index + int(text[start]) - 48, 2**32)
        start += _ONE
    return index


@kernel
def parse_lines(
    text: _Text,
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
    """Parses lines from the cursor on, until the block ends or a line is not ordinary.

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
    query, query_stop, has_query = _ZERO, _ZERO, False
    reason = BLOCK_END
    while reason == BLOCK_END and at < end:
        start = at
        at = _after_blanks(text, at)
        comment, is_document = at, not _ends_content(text[at])
        if is_document:
            at = _FAILED if row == num_rows else _read_label(text, at, rules, row, labels, weights)
            last, last_stop = query, query_stop
            at, query, query_stop, is_ascii = _read_query(text, at, rules)
            same = has_query and _same(text, last, last_stop, query, query_stop)
            if at != _FAILED and (is_ascii or same):
                at, after = _read_features(text, at, rules, row, features, columns, values, num_values)
                comment = at
            else:
                at = _FAILED
        elif num_skipped == len(skipped):
            at = _FAILED
        stop = _FAILED if at == _FAILED else _read_end(text, comment)
        if stop == _FAILED:
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
            if text[comment] == _COMMENT and not _write_id(text, comment + _ONE, stop, row, documents):
                reason = ODD_ID
            row += _ONE
        else:
            skipped[num_skipped] = row
            num_skipped += 1
        at = stop + _ONE
        line += 1
    cursor[POSITION], cursor[LINE_NUMBER], cursor[ROW] = at, line, row
    cursor[NUM_RUNS], cursor[NUM_STORED], cursor[NUM_SKIPPED] = num_runs, num_values, num_skipped
    return reason


@kernel
def _read_label(
    text: _Text,
    at: _Position,
    rules: NDArray[np.int64],
    row: _Row,
    labels: Labels,
    weights: NDArray[np.float64],
) -> _Position:
    """Writes the label and the weight, NaN if there is none, and returns the position after them."""
    labels[row] = np.nan
    if len(weights):
        weights[row] = np.nan
    stop, mantissa, exponent, negative = _read_number(text, at)
    if stop != _FAILED and _ends_token(text[stop]):
        label = _as_double(mantissa, exponent)
        if negative or np.isnan(label) or (rules[2] and label != np.floor(label)):
            return _FAILED
        labels[row] = label
        at = _after_blanks(text, stop)
    elif rules[3]:
        return _FAILED
    stop, mantissa, exponent, negative = _read_number(text, at)
    if stop != _FAILED and _is_blank(text[stop]):
        after = _after_blanks(text, stop)
        if _starts_with(text, after, _QID):
            weight = _as_double(mantissa, exponent)
            if negative or np.isnan(weight) or not len(weights):
                return _FAILED
            weights[row] = weight
            return after
    return at


@kernel
def _read_query(
    text: _Text, at: _Position, rules: NDArray[np.int64]
) -> tuple[_Position, _Position, _Position, bool]:
    """Returns the position after `qid:ID`, the start and end of the id, and whether it is ASCII.

    Without a qid the id is empty.
    """
    if at == _FAILED or not _starts_with(text, at, _QID):
        return _FAILED if rules[4] else at, _ZERO, _ZERO, True
    start = stop = at + np.uint64(len(_QID))
    every = 0
    while text[stop] > _BLANK and text[stop] != _COMMENT and text[stop] != _DELETE:
        every |= text[stop]
        stop += _ONE
    if stop == start or stop - start > _ID_LENGTH or not _ends_token(text[stop]):
        return _FAILED, _ZERO, _ZERO, True
    return stop, start, stop, every < 128


@kernel
def _read_features(
    text: _Text,
    at: _Position,
    rules: NDArray[np.int64],
    row: _Row,
    features: Features,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    num_values: _Position,
) -> tuple[_Position, _Position]:
    """Writes `index:value` pairs in ascending order.

    Returns the position after them, and the number of stored values including them if sparse.
    """
    first_index, overflow, is_sparse = np.uint64(rules[0]), rules[1], rules[5]
    space = np.uint64(len(columns))
    lowest, width = _ZERO, np.uint64(features.shape[1])
    while True:
        start = at = _after_blanks(text, at)
        if np.uint64(text[at]) - _DIGIT_ZERO >= _TEN:
            return at, num_values
        stop, index, value = _read_usual_pair(text, start)
        if stop == _FAILED:
            stop, index, value = _read_pair(text, start, overflow)
        column = index - first_index  # index 0 of a file that starts from 1: a huge number
        if stop == _FAILED or column < lowest or column >= width:
            return _FAILED, num_values
        lowest = column + _ONE
        if is_sparse:
            if num_values == space:
                return _FAILED, num_values
            columns[num_values], values[num_values] = column, value
            num_values += _ONE
        else:
            features[row, column] = value
        at = stop


@kernel
def _read_pair(text: _Text, at: _Position, overflow: int) -> tuple[_Position, _Position, float]:
    """Returns the position after `index:value`, the index, and a double that rounds to the float32 value."""
    at, index = _read_index(text, at)
    if at == _FAILED:
        return _FAILED, _ZERO, 0.0
    stop, mantissa, exponent, negative = _read_number(text, at)
    if stop == _FAILED:
        stop, value = _after_nan(text, at), np.nan
    else:
        value = _as_feature(mantissa, exponent)
        if np.isnan(value) or (value >= FLOAT32_OVERFLOW and overflow == _REFUSE):
            return _FAILED, _ZERO, 0.0
        if value >= FLOAT32_OVERFLOW:
            value = _LARGEST_FLOAT32 if overflow == _CAP else np.nan
        if negative:
            value = np.nan if np.isnan(value) else -value
    return (stop if stop != _FAILED and _ends_token(text[stop]) else _FAILED), index, value


@kernel
def _read_index(text: _Text, at: _Position) -> tuple[_Position, _Position]:
    """Returns the position after `index:`, and the index."""
    start = at
    index, digit = _ZERO, np.uint64(text[at]) - _DIGIT_ZERO
    while digit < _TEN:
        index = index * _TEN + digit
        at += _ONE
        digit = np.uint64(text[at]) - _DIGIT_ZERO
    if text[at] != _COLON or at - start > _LONGEST_INDEX:
        return _FAILED, _ZERO
    return at + _ONE, index


@inlined_kernel
def _read_usual_pair(text: _Text, at: _Position) -> tuple[_Position, _Position, float]:
    """Returns what `_read_pair` returns, in half the time [measured], for a pair in the usual notation.

    It leaves every other pair to `_read_pair`: exponents, 16 decimals or more, 8 digits or more before the
    point, a mantissa above 2^53, `nan`, and pairs at the end of the block. The lengths of an index and of a
    whole part are mostly those of the line before, so that their branches are predicted; the number of
    decimals is not.
    """
    if at + _LOOKAHEAD > np.uint64(len(text)):
        return _FAILED, _ZERO, 0.0
    index, second = np.uint64(text[at]) - _DIGIT_ZERO, np.uint64(text[at + _ONE]) - _DIGIT_ZERO
    if text[at + _ONE] == _COLON:
        at += _TWO
    elif second < _TEN and text[at + _TWO] == _COLON:
        index = index * _TEN + second
        at += _TWO + _ONE
    else:
        third = np.uint64(text[at + _TWO]) - _DIGIT_ZERO
        if second < _TEN and third < _TEN and text[at + _TWO + _ONE] == _COLON:
            index = (index * _TEN + second) * _TEN + third
            at += _FOUR
        else:
            index, num_digits = _leading_digits(text, at)
            at += num_digits + _ONE
            if num_digits == _EIGHT or text[at - _ONE] != _COLON:
                return _FAILED, _ZERO, 0.0
    negative = text[at] == _MINUS
    if negative:
        at += _ONE
    mantissa = np.uint64(text[at]) - _DIGIT_ZERO
    if mantissa < _TEN and text[at + _ONE] == _POINT:
        at += _ONE
    else:
        mantissa, num_digits = _leading_digits(text, at)
        at += num_digits
        if num_digits == _ZERO or num_digits == _EIGHT:  # noqa: SIM109  # as numba compiles it
            return _FAILED, _ZERO, 0.0
    if text[at] == _POINT:
        at += _ONE
        word = _eight_bytes(text, at) ^ _ZERO_DIGITS
        others = _not_digits(word)
        if others:
            # As if zeros followed up to the 8th decimal: a number below 2^53, divided by 10^8.
            digits = (others ^ (others - _ONE)) >> _EIGHT  # all bits of the bytes before the first other one
            at += ((digits & _LOW_BITS) * _LOW_BITS) >> _LAST_BYTE
            value = np.float64(mantissa * _EIGHT_ZEROS + _number_of_digits(word & digits)) / 1e8
        else:
            at, value = _with_many_decimals(text, at, mantissa)
            if at == _FAILED:
                return _FAILED, _ZERO, 0.0
    else:
        value = np.float64(mantissa)
    if not _ends_token(text[at]):
        return _FAILED, _ZERO, 0.0
    if negative:
        value = -value
    return at, index, value


@kernel
def _with_many_decimals(text: _Text, at: _Position, whole: _Position) -> tuple[_Position, Any]:
    """Returns the position after 8 to 15 decimals, and the value with this whole part."""
    first, _ = _leading_digits(text, at)
    second, num_digits = _leading_digits(text, at + _EIGHT)
    mantissa = whole * _EIGHT_ZEROS + first
    if num_digits == _EIGHT or mantissa >= _ROOM_FOR_SEVEN:
        return _FAILED, 0.0
    mantissa = mantissa * _INTEGER_POWERS[num_digits] + second
    if mantissa > _EXACT:
        return _FAILED, 0.0
    return at + _EIGHT + num_digits, np.float64(mantissa) / _POWERS[_EIGHT + num_digits]


@kernel
def _leading_digits(text: _Text, at: _Position) -> tuple[_Position, _Position]:
    """Returns the number that the digits at the beginning of the next eight bytes form, and their number."""
    word = _eight_bytes(text, at) ^ _ZERO_DIGITS  # the digits become 0 to 9
    others = _not_digits(word)
    below = (((others & (~others + _ONE)) >> _SEVEN) - _ONE) & _LOW_BITS  # a bit for each byte before them
    num_digits = (below * _LOW_BITS) >> _LAST_BYTE
    # The digits move to the highest bytes, behind zeros, in two steps because the distance may be 64.
    word = (word << _FOUR * (_EIGHT - num_digits)) << _FOUR * (_EIGHT - num_digits)
    return _number_of_digits(word), num_digits


@kernel
def _not_digits(word: _Position) -> _Position:
    """Returns the highest bit of each of eight bytes that is above 9."""
    return ((word + _BEYOND_NINE) | word) & _HIGH_BITS


@kernel
def _number_of_digits(word: _Position) -> _Position:
    """Returns the number that eight bytes of 0 to 9 form; the first digit is in the lowest bits.

    All bytes are treated at once (Lemire, 2021, "Number Parsing at a Gigabyte per Second", section 4): pairs
    of digits become numbers below 100, pairs of these become numbers below 10^4, and the last two the result.
    """
    word = (word * _TEN + (word >> _EIGHT)) & _TWO_DIGITS
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & _FOUR_DIGITS
    return (word * np.uint64(10_000) + (word >> np.uint64(32))) & _EIGHT_DIGITS


@kernel
def _eight_bytes(text: _Text, at: _Position) -> _Position:
    """Returns the next eight bytes as a word; the compiler makes one load of these."""
    low = (
        np.uint64(text[at])
        | np.uint64(text[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(text[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(text[at + np.uint64(3)]) << np.uint64(24)
    )
    return (
        low
        | np.uint64(text[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(text[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(text[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(text[at + np.uint64(7)]) << np.uint64(56)
    )


@kernel
def _read_end(text: _Text, at: _Position) -> _Position:
    """Returns the position of the line feed after the content and its comment."""
    if text[at] == _COMMENT:
        at += _ONE
        while at + _EIGHT <= np.uint64(len(text)) and not _controls(_eight_bytes(text, at)):
            at += _EIGHT
        # Any line end, blank or printable byte, in any encoding.
        while text[at] != _LINE_FEED and text[at] != _RETURN:
            if text[at] == _DELETE or (text[at] < _BLANK and not _is_space(text[at])):
                return _FAILED
            at += _ONE
    if text[at] == _RETURN:
        at += _ONE
    return at if text[at] == _LINE_FEED else _FAILED


@kernel
def _controls(word: _Position) -> _Position:
    """Returns a number that is not 0 if one of eight bytes is below a blank, or 127."""
    deletes = word ^ _DELETES  # as in `_ends`
    return ((word - _BLANKS) & ~word | (deletes - _LOW_BITS) & ~deletes) & _HIGH_BITS


@kernel
def _write_id(
    text: _Text, start: _Position, stop: _Position, row: _Row, documents: NDArray[np.uint32]
) -> bool:
    """Writes the document id of a comment; returns False if it is not ASCII."""
    start, stop, is_ascii = _document_id(text, start, stop)
    if not is_ascii or stop - start > np.uint64(documents.shape[1]):
        return False
    for offset in range(stop - start):
        documents[row, offset] = text[start + np.uint64(offset)]
    return True


@kernel
def _document_id(text: _Text, start: _Position, stop: _Position) -> tuple[_Position, _Position, bool]:
    """Returns the start and the end of `line.document_id` in a comment, and whether it is ASCII."""
    start = min(_after_spaces(text, start), stop)
    while stop > start and _is_space(text[stop - _ONE]):
        stop -= _ONE
    if _starts_with(text, start, _DOCID):
        word = _after_spaces(text, start + np.uint64(len(_DOCID)))
        word = _after_spaces(text, word + _ONE) if text[word] == _EQUALS else stop
        if word < stop:
            start = word
            while word < stop and not _is_space(text[word]):
                word += _ONE
            stop = word
    stop = min(stop, start + _ID_LENGTH)
    every = 0
    for offset in range(stop - start):
        every |= text[start + np.uint64(offset)]
    return start, stop, every < 128


@kernel
def _read_number(text: _Text, at: _Position) -> tuple[_Position, _Position, int, bool]:
    """Returns the position after a number, its mantissa, decimal exponent, and whether it is negative.

    Digits after the 19th are cut off.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += _ONE
    mantissa, exponent = _ZERO, 0
    digit = np.uint64(text[at]) - _DIGIT_ZERO
    start = at
    while digit < _TEN:
        if mantissa < _ROOM:
            mantissa = mantissa * _TEN + digit
        else:
            exponent += 1
        at += _ONE
        digit = np.uint64(text[at]) - _DIGIT_ZERO
    num_digits = at - start
    if text[at] == _POINT:
        at += _ONE
        start = at
        digit = np.uint64(text[at]) - _DIGIT_ZERO
        while digit < _TEN:
            if mantissa < _ROOM:
                mantissa = mantissa * _TEN + digit
                exponent -= 1
            at += _ONE
            digit = np.uint64(text[at]) - _DIGIT_ZERO
        num_digits += at - start
    if num_digits == _ZERO:
        return _FAILED, _ZERO, 0, False
    if text[at] | 32 == _EXPONENT:
        at, written = _read_exponent(text, at + _ONE)
        exponent += written
    return at, mantissa, exponent, negative


@kernel
def _read_exponent(text: _Text, at: _Position) -> tuple[_Position, int]:
    """Returns the position after an exponent, and its value, capped at 10^9."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += _ONE
    start, exponent = at, 0
    while np.uint64(text[at]) - _DIGIT_ZERO < _TEN:
        exponent = min(10 * exponent + int(text[at]) - 48, 10**9)
        at += _ONE
    return _FAILED if at == start else at, -exponent if negative else exponent


@kernel
def _as_double(mantissa: _Position, exponent: int) -> float:
    """Returns mantissa * 10^exponent, correctly rounded; NaN if one operation is not enough for that."""
    if mantissa > _EXACT or exponent < -_EXACT_EXPONENT or exponent > _EXACT_EXPONENT:
        return np.nan
    if exponent < 0:
        return float(np.float64(mantissa) / _POWERS[-exponent])
    return float(np.float64(mantissa) * _POWERS[exponent])


@kernel
def _as_feature(mantissa: _Position, exponent: int) -> float:
    """Returns a double that rounds to the right float32; NaN if that is not certain."""
    value = _as_double(mantissa, exponent)
    if not np.isnan(value):
        return value
    if mantissa == _ZERO or exponent < _ZERO_EXPONENT:
        return 0.0
    if exponent > _LARGEST_EXPONENT:
        return np.inf
    if exponent < 0:
        value = float(np.float64(mantissa) / _POWERS[-exponent])
    else:
        value = float(np.float64(mantissa) * _POWERS[exponent])
    same = np.float32(value * (1.0 - _ERROR)) == np.float32(value * (1.0 + _ERROR))
    return value if same else np.nan


@kernel
def _after_nan(text: _Text, at: _Position) -> _Position:
    """Returns the position after `nan`, with any sign and in any case."""
    if text[at] == _MINUS or text[at] == _PLUS:
        at += _ONE
    for letter in _NAN:
        if text[at] | 32 != letter:  # in lower case
            return _FAILED
        at += _ONE
    return at


@kernel
def _starts_with(text: _Text, at: _Position, word: _Text) -> bool:
    for letter in word:
        if text[at] != letter:
            return False
        at += _ONE
    return True


@kernel
def _same(text: _Text, start: _Position, stop: _Position, other: _Position, other_stop: _Position) -> bool:
    """Returns whether two parts of the text are equal."""
    if stop - start != other_stop - other:
        return False
    for offset in range(stop - start):
        if text[start + np.uint64(offset)] != text[other + np.uint64(offset)]:
            return False
    return True


@kernel
def _after_blanks(text: _Text, at: _Position) -> _Position:
    while _is_blank(text[at]):
        at += _ONE
    return at


@kernel
def _after_spaces(text: _Text, at: _Position) -> _Position:
    """Returns the position of the next byte that is no whitespace, or of the line feed."""
    while text[at] != _LINE_FEED and _is_space(text[at]):
        at += _ONE
    return at


@kernel
def _is_blank(byte: _Byte) -> bool:
    return bool(byte == _BLANK or byte == _TAB)  # noqa: SIM109


@kernel
def _is_space(byte: _Byte) -> bool:
    return bool(byte == _BLANK or _TAB <= byte <= _RETURN)


@kernel
def _ends_content(byte: _Byte) -> bool:
    return bool(byte == _LINE_FEED or byte == _COMMENT or byte == _RETURN)  # noqa: SIM109


@kernel
def _ends_token(byte: _Byte) -> bool:
    return _is_blank(byte) or _ends_content(byte)
