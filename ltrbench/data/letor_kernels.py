"""Bytes of LETOR text: blanks, ends, words and document ids.

Text is whole lines, each with a line feed at its end. Because of the line feed, no loop over blanks, digits
or names needs to check for the end of the text. Positions are unsigned, so that an index costs no test for
negative values.

Eight bytes are often compared at once, as a word with the first byte in its lowest bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import borrowing_kernel, inlined_kernel, kernel
from ltrbench.data.blocks import LONGEST_ID
from ltrbench.data.features import FLOAT32_OVERFLOW
from ltrbench.shapes import Features, Labels

TextBytes = NDArray[np.uint8]
_Byte = Any  # uint8
Position = Any  # uint64
ZERO = np.uint64(0)
ONE = np.uint64(1)
TEN = np.uint64(10)
_TAB = 9
LINE_FEED = 10
RETURN = 13
BLANK = 32
DELETE = 127
COMMENT, PLUS, MINUS, POINT, COLON, _EQUALS = b"#+-.:="
DIGIT_ZERO = np.uint64(ord("0"))
QID = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
ID_LENGTH = np.uint64(LONGEST_ID)
FOUR = np.uint64(4)
SEVEN = np.uint64(7)
EIGHT = np.uint64(8)
SIXTEEN = np.uint64(16)
HIGH_BITS = np.uint64(0x8080808080808080)
LOW_BITS = np.uint64(0x0101010101010101)
LINE_FEEDS = LOW_BITS * np.uint64(LINE_FEED)
COMMENTS = LOW_BITS * np.uint64(COMMENT)
LAST_BYTE = np.uint64(56)


@kernel
def eight_bytes(text: TextBytes, at: Position) -> Position:
    """Returns the next eight bytes as a word; the compiler makes one load of these."""
    word = ZERO
    for number in range(8):
        word |= np.uint64(text[at + np.uint64(number)]) << np.uint64(8 * number)
    return word


@kernel
def document_id_span(
    text: TextBytes, start: Position, stop: Position
) -> tuple[Position, Position]:
    """Returns the start and the end of `letor.document_id` in a comment."""
    start = min(after_spaces(text, start), stop)
    while stop > start and is_space(text[stop - ONE]):
        stop -= ONE
    if starts_with(text, start, _DOCID):
        word = after_spaces(text, start + np.uint64(len(_DOCID)))
        word = after_spaces(text, word + ONE) if text[word] == _EQUALS else stop
        if word < stop:
            start = word
            while word < stop and not is_space(text[word]):
                word += ONE
            stop = word
    return start, min(stop, start + ID_LENGTH)


@kernel
def starts_with(text: TextBytes, at: Position, word: TextBytes) -> bool:
    for letter in word:
        if text[at] != letter:
            return False
        at += ONE
    return True


@kernel
def same_bytes(
    text: TextBytes,
    start: Position,
    stop: Position,
    other: Position,
    other_stop: Position,
) -> bool:
    """Returns whether two parts of the text are equal."""
    if stop - start != other_stop - other:
        return False
    for offset in range(stop - start):
        if text[start + np.uint64(offset)] != text[other + np.uint64(offset)]:
            return False
    return True


@kernel
def after_blanks(text: TextBytes, at: Position) -> Position:
    while is_blank(text[at]):
        at += ONE
    return at


@kernel
def after_spaces(text: TextBytes, at: Position) -> Position:
    """Returns the position of the next byte that is no whitespace, or of the line feed."""
    while text[at] != LINE_FEED and is_space(text[at]):
        at += ONE
    return at


@kernel
def is_blank(byte: _Byte) -> bool:
    return bool(byte == BLANK or byte == _TAB)  # noqa: SIM109


@kernel
def is_space(byte: _Byte) -> bool:
    return bool(byte == BLANK or _TAB <= byte <= RETURN)


@kernel
def ends_content(byte: _Byte) -> bool:
    return bool(byte == LINE_FEED or byte == COMMENT or byte == RETURN)  # noqa: SIM109


@kernel
def ends_token(byte: _Byte) -> bool:
    return is_blank(byte) or ends_content(byte)


# ---- The first pass over LETOR text: counts, which determine the arrays that the second pass fills.

COUNTS = 8
DOCUMENTS, LINES, BYTES, WEIGHTS, VALUES, LARGEST_INDEX, LINE, LONGEST_DOCUMENT_ID = (
    range(COUNTS)
)
"""Results of `count_lines`: the numbers of documents, lines, bytes, weights and `index:value` pairs, the
largest index (-1: none) and the number (from 0) of the first line that has it, and the number of bytes of the
longest document id."""


@kernel
def count_lines(text: TextBytes) -> NDArray[np.int64]:
    """Returns the `COUNTS` of whole lines. They are exact if the specification accepts every line."""
    counts = np.zeros(COUNTS, dtype=np.int64)
    counts[BYTES] = len(text)
    counts[LARGEST_INDEX] = -1
    start = ZERO
    end = np.uint64(len(text))
    while start < end:
        content_stop = _after_content(text, start, end)
        stop = content_stop
        while text[stop] != LINE_FEED:
            stop = _after_content(text, stop + ONE, end)
        first = after_spaces(text, start)
        if first < content_stop:
            counts[DOCUMENTS] += 1
            index = _last_index(text, first, content_stop)
            if index > counts[LARGEST_INDEX]:
                counts[LARGEST_INDEX], counts[LINE] = index, counts[LINES]
            num_words, content = _after_query(text, first, content_stop)
            counts[WEIGHTS] += num_words == 2  # a label and a weight
            counts[VALUES] += _count_colons(text, content, content_stop)
            if stop > content_stop:
                id_start, id_stop = document_id_span(text, content_stop + ONE, stop)
                counts[LONGEST_DOCUMENT_ID] = max(
                    counts[LONGEST_DOCUMENT_ID], int(id_stop - id_start)
                )
        counts[LINES] += 1
        start = stop + ONE
    return counts


@kernel
def _after_content(text: TextBytes, at: Position, end: Position) -> Position:
    """Returns the position of the next line feed or "#"."""
    while at + SIXTEEN <= end and not _ends(eight_bytes(text, at)) | _ends(
        eight_bytes(text, at + EIGHT)
    ):
        at += SIXTEEN
    while text[at] != LINE_FEED and text[at] != COMMENT:
        at += ONE
    return at


@kernel
def _ends(word: Position) -> Position:
    """Returns a number that is not 0 if one of eight bytes is a line feed or "#"."""
    # Subtracting 1 from each byte sets the highest bit of a byte that was 0, and of others only above it.
    feeds = word ^ LINE_FEEDS
    comments = word ^ COMMENTS
    return ((feeds - LOW_BITS) & ~feeds | (comments - LOW_BITS) & ~comments) & HIGH_BITS


@kernel
def _after_query(text: TextBytes, at: Position, stop: Position) -> tuple[int, Position]:
    """Returns the number of words before the first that has a colon, and the start of the first pair."""
    num_words = 0
    while at < stop:
        start = at
        has_colon = False
        while at < stop and not is_space(text[at]):
            has_colon |= text[at] == COLON
            at += ONE
        if has_colon:
            return num_words, at if starts_with(text, start, QID) else start
        num_words += 1
        while at < stop and is_space(text[at]):
            at += ONE
    return num_words, stop


@kernel
def _count_colons(text: TextBytes, at: Position, stop: Position) -> int:
    """Returns the number of colons, and so of `index:value` pairs; the compiler reads many bytes at once."""
    num_colons = 0
    for offset in range(stop - at):
        num_colons += text[at + np.uint64(offset)] == COLON
    return num_colons


@kernel
def _last_index(text: TextBytes, first: Position, stop: Position) -> int:
    """Returns the index of the last `index:value` before `stop`; -1 if there is none, capped at 2^32."""
    at = stop
    while at > first and text[at - ONE] != COLON:
        at -= ONE
    if at == first:
        return -1
    start = at - ONE
    while start > first and np.uint64(text[start - ONE]) - DIGIT_ZERO < TEN:
        start -= ONE
    if start == at - ONE or (start > first and not is_space(text[start - ONE])):
        return -1
    index = 0
    while text[start] != COLON:
        index = min(10 * index + int(text[start]) - 48, 2**32)
        start += ONE
    return index


# ---- Numbers in LETOR text.
#
# A number is a mantissa of up to 19 digits times a power of ten. Up to 2^53 and 10^22 both are doubles, so
# that one operation rounds correctly (Clinger, 1990, "How to Read Floating Point Numbers Accurately"). The
# double of any other feature is known within 4 units in the last place. It is accepted if the bounds round
# to the same float32: rounding is monotonic, so that the correctly rounded double rounds to this float32 as
# well. Features in float64 need the correctly rounded double itself: then the product of mantissa and power
# is computed with twice the digits (Dekker, 1971, "A Floating-Point Technique for Extending the Available
# Precision"), and accepted if its error bounds round to the same double.

NOWHERE = np.uint64(2**64 - 1)  # instead of the position after a part of the line
_EXPONENT = ord("e")
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
ZERO_DIGITS = np.uint64(0x3030303030303030)
_BEYOND_NINE = np.uint64(0x7676767676767676)
_TWO_DIGITS = np.uint64(0x00FF00FF00FF00FF)
_FOUR_DIGITS = np.uint64(0x0000FFFF0000FFFF)
_EIGHT_DIGITS = np.uint64(0xFFFFFFFF)
_INTEGER_POWERS = np.array([10**exponent for exponent in range(9)], dtype=np.uint64)
EIGHT_ZEROS = np.uint64(10**8)
_ROOM_FOR_SEVEN = np.uint64(10**12)  # below it, seven more digits fit into the mantissa
_ROOM = np.uint64(10**18)  # below it, another digit fits into the mantissa
_EXACT = np.uint64(2**53)
_EXACT_EXPONENT = 22
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(309)])
_LARGEST_EXPONENT = 308
# A mantissa has at most 19 digits: below 10^-61, less than half of the smallest float32.
_ZERO_EXPONENT = -80
# Each of the mantissa, the power and their product is off by half a unit, 2^-53; the 20th digit by less.
_ERROR = 2.0**-50
_LARGEST_POWER = 250  # without subnormal numbers and infinities on the way
_DECIMAL_POWERS = [
    Fraction(10) ** exponent for exponent in range(-_LARGEST_POWER, _LARGEST_POWER + 1)
]
_POWER_HIGH = np.array([float(power) for power in _DECIMAL_POWERS])
_POWER_LOW = np.array(
    [float(power - Fraction(float(power))) for power in _DECIMAL_POWERS]
)
_HALVES = 2.0**27 + 1.0  # divides a double into halves whose products are exact
_ERROR_OF_BOTH = 2.0**-98  # a hundred times that of the sums and products below


@kernel
def with_many_decimals(
    text: TextBytes, at: Position, whole: Position
) -> tuple[Position, Any]:
    """Returns the position after 8 to 15 decimals, and the value with this whole part."""
    first, _ = leading_digits(text, at)
    second, num_digits = leading_digits(text, at + EIGHT)
    mantissa = whole * EIGHT_ZEROS + first
    if num_digits == EIGHT or mantissa >= _ROOM_FOR_SEVEN:
        return NOWHERE, 0.0
    mantissa = mantissa * _INTEGER_POWERS[num_digits] + second
    if mantissa > _EXACT:
        return NOWHERE, 0.0
    return at + EIGHT + num_digits, np.float64(mantissa) / _POWERS[EIGHT + num_digits]


@kernel
def leading_digits(text: TextBytes, at: Position) -> tuple[Position, Position]:
    """Returns the number that the digits at the beginning of the next eight bytes form, and their number."""
    word = eight_bytes(text, at) ^ ZERO_DIGITS  # the digits become 0 to 9
    others = not_digits(word)
    below = (
        ((others & (~others + ONE)) >> SEVEN) - ONE
    ) & LOW_BITS  # a bit for each byte before them
    num_digits = (below * LOW_BITS) >> LAST_BYTE
    # The digits move to the highest bytes, behind zeros, in two steps because the distance may be 64.
    word = (word << FOUR * (EIGHT - num_digits)) << FOUR * (EIGHT - num_digits)
    return number_of_digits(word), num_digits


@kernel
def not_digits(word: Position) -> Position:
    """Returns the highest bit of each of eight bytes that is above 9."""
    return ((word + _BEYOND_NINE) | word) & HIGH_BITS


@kernel
def number_of_digits(word: Position) -> Position:
    """Returns the number that eight bytes of 0 to 9 form; the first digit is in the lowest bits.

    All bytes are treated at once (Lemire, 2021, "Number Parsing at a Gigabyte per Second", section 4): pairs
    of digits become numbers below 100, pairs of these become numbers below 10^4, and the last two the result.
    """
    word = (word * TEN + (word >> EIGHT)) & _TWO_DIGITS
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & _FOUR_DIGITS
    return (word * np.uint64(10_000) + (word >> np.uint64(32))) & _EIGHT_DIGITS


@kernel
def read_decimal(text: TextBytes, at: Position) -> tuple[Position, Position, int, bool]:
    """Returns the position after a number, its mantissa, decimal exponent, and whether it is negative.

    Digits after the 19th are cut off.
    """
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += ONE
    mantissa = ZERO
    exponent = 0
    num_digits = ZERO
    has_point = False
    while True:
        digit = np.uint64(text[at]) - DIGIT_ZERO
        if digit < TEN:
            num_digits += ONE
            if mantissa < _ROOM:
                mantissa = mantissa * TEN + digit
                exponent -= has_point
            else:
                exponent += not has_point
        elif text[at] == POINT and not has_point:
            has_point = True
        else:
            break
        at += ONE
    if num_digits == ZERO:
        return NOWHERE, ZERO, 0, False
    if text[at] | 32 == _EXPONENT:
        at, written = _read_exponent(text, at + ONE)
        exponent += written
    return at, mantissa, exponent, negative


@kernel
def _read_exponent(text: TextBytes, at: Position) -> tuple[Position, int]:
    """Returns the position after an exponent, and its value, capped at 10^9."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += ONE
    start = at
    exponent = 0
    while np.uint64(text[at]) - DIGIT_ZERO < TEN:
        exponent = min(10 * exponent + int(text[at]) - 48, 10**9)
        at += ONE
    return NOWHERE if at == start else at, -exponent if negative else exponent


@kernel
def as_double(mantissa: Position, exponent: int) -> float:
    """Returns mantissa * 10^exponent, correctly rounded; NaN if one operation is not enough for that."""
    if mantissa > _EXACT or exponent < -_EXACT_EXPONENT or exponent > _EXACT_EXPONENT:
        return np.nan
    if exponent < 0:
        return float(np.float64(mantissa) / _POWERS[-exponent])
    return float(np.float64(mantissa) * _POWERS[exponent])


@kernel
def as_feature(mantissa: Position, exponent: int) -> float:
    """Returns a double that rounds to the right float32; NaN if that is not certain."""
    value = as_double(mantissa, exponent)
    if not np.isnan(value):
        return value
    if mantissa == ZERO or exponent < _ZERO_EXPONENT:
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
def as_exact(mantissa: Position, exponent: int) -> float:
    """Returns mantissa * 10^exponent, correctly rounded; NaN if that is not certain."""
    value = as_double(mantissa, exponent)
    if not np.isnan(value):
        return value
    if mantissa == ZERO:
        return 0.0
    # From _ROOM on, digits may have been cut off.
    if mantissa >= _ROOM or exponent < -_LARGEST_POWER or exponent > _LARGEST_POWER:
        return np.nan
    high = float(np.float64(mantissa))
    low = float(np.int64(mantissa - np.uint64(high)))
    power_high = _POWER_HIGH[exponent + _LARGEST_POWER]
    power_low = _POWER_LOW[exponent + _LARGEST_POWER]
    product = high * power_high
    rest = _rest_of_product(high, power_high, product)
    rest += high * power_low + low * power_high
    value = product + rest
    rest -= value - product
    bound = value * _ERROR_OF_BOTH
    is_certain = value + (rest - bound) == value and value + (rest + bound) == value
    return value if is_certain else np.nan


@kernel
def _rest_of_product(a: float, b: float, product: float) -> float:
    """Returns a * b - product, exactly."""
    a_high = _upper_half(a)
    b_high = _upper_half(b)
    a_low = a - a_high
    b_low = b - b_high
    error = a_high * b_high - product
    error += a_high * b_low
    error += a_low * b_high
    return error + a_low * b_low


@kernel
def _upper_half(value: float) -> float:
    scaled = _HALVES * value
    return scaled - (scaled - value)


@kernel
def after_nan(text: TextBytes, at: Position) -> Position:
    """Returns the position after `nan`, with any sign and in any case."""
    if text[at] == MINUS or text[at] == PLUS:
        at += ONE
    for letter in _NAN:
        if text[at] | 32 != letter:  # in lower case
            return NOWHERE
        at += ONE
    return at


# ---- The second pass over LETOR text: `parse_lines` writes the content of lines into arrays.
#
# It accepts a line only if it certainly reads what `letor.parse_line`, the specification, reads; it stops at
# any other line, for which the caller uses the specification.

_Row = Any  # uint64
_BLANKS = LOW_BITS * np.uint64(BLANK)
_DELETES = LOW_BITS * np.uint64(DELETE)
_LONGEST_INDEX = np.uint64(9)  # digits
# Bytes that the longest usual value reads: 1 + 7 + 1 + 8 + 8.
_LOOKAHEAD = np.uint64(25)
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
CURSOR = 5
POSITION, LINE_NUMBER, ROW, NUM_RUNS, NUM_STORED = range(CURSOR)
"""State of `parse_lines` between two calls: position in the text, number of the next line, row of the next
document, and the numbers of runs and of stored values."""
_REFUSE, _CAP, _MISSING = range(3)
"""Treatment of values beyond float32, in the order of `letor.OVERFLOWS`."""


class Rules(NamedTuple):
    """The options of `letor.LineFormat` that the kernel needs."""

    first_index: int
    overflow: int
    whole_labels: bool
    needs_label: bool
    needs_qid: bool
    sparse: bool
    exact: bool


class DocumentRows(NamedTuple):
    """Arrays for the content of D documents with m `index:value` pairs."""

    # (D, F), filled with the value of absent features; (0, F) if sparse. float64 if exact.
    features: Features
    # (D,) if sparse, else (0,): position after the last value of each document.
    row_stop: NDArray[np.int64]
    columns: NDArray[np.int32]  # (m,) if sparse, else (0,)
    values: NDArray[np.float32]  # likewise
    labels: Labels  # (D,), NaN if a line has none
    # (D,), NaN if a line has none; (0,) if no line has one.
    weights: NDArray[np.float64]
    line_numbers: NDArray[np.int64]  # (D,), in the file of the document, from 1
    # (D, L), bytes of the document ids, each as a code point, filled with 0.
    documents: NDArray[np.uint32]


@borrowing_kernel
def parse_lines(
    text: TextBytes,
    cursor: NDArray[np.int64],
    rules: Rules,
    rows: DocumentRows,
    runs: NDArray[np.int64],
) -> bool:
    """Parses whole lines from the cursor on, until the text ends or a line is not ordinary.

    Args:
        cursor: (CURSOR,), state; output.
        rows: output; features that a line omits are not written.
        runs: (n, 3), output: first row of consecutive documents of one query, start and end of its id.

    Returns:
        Whether the cursor is at a line that is not ordinary, whose row in `rows` may be written in part.
    """
    # Not the tuple: each call with it copies all arrays, which took a seventh of the time [measured].
    features, row_stop, columns, values, labels, weights, line_numbers, documents = rows
    at = np.uint64(cursor[POSITION])
    line = cursor[LINE_NUMBER]
    row = np.uint64(cursor[ROW])
    num_runs = cursor[NUM_RUNS]
    num_values = np.uint64(cursor[NUM_STORED])
    end = np.uint64(len(text))
    num_rows = np.uint64(len(labels))
    query = ZERO
    query_stop = ZERO
    has_query = False
    is_odd = False
    while not is_odd and at < end:
        start = at
        at = after_blanks(text, at)
        comment = at
        is_document = not ends_content(text[at])
        if is_document:
            at = (
                NOWHERE
                if row == num_rows
                else _read_label(text, at, rules, row, labels, weights)
            )
            last = query
            last_stop = query_stop
            at, query, query_stop = _read_query(text, at, rules)
            if at != NOWHERE:
                at, after = _read_features(
                    text, at, rules, row, features, columns, values, num_values
                )
                comment = at
        stop = NOWHERE if at == NOWHERE else _read_end(text, comment)
        if stop == NOWHERE:
            is_odd = True
            at = start
            break
        if is_document:
            if not (has_query and same_bytes(text, last, last_stop, query, query_stop)):
                runs[num_runs, 0] = row
                runs[num_runs, 1] = query
                runs[num_runs, 2] = query_stop
                num_runs += 1
            has_query = True
            if rules.sparse:
                num_values = after
                row_stop[row] = num_values
            line_numbers[row] = line
            if text[comment] == COMMENT:
                _write_id(text, comment + ONE, stop, row, documents)
            row += ONE
        at = stop + ONE
        line += 1
    cursor[POSITION] = at
    cursor[LINE_NUMBER] = line
    cursor[ROW] = row
    cursor[NUM_RUNS] = num_runs
    cursor[NUM_STORED] = num_values
    return is_odd


@borrowing_kernel
def _read_label(
    text: TextBytes,
    at: Position,
    rules: Rules,
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
        if (
            negative
            or np.isnan(label)
            or (rules.whole_labels and label != np.floor(label))
        ):
            return NOWHERE
        labels[row] = label
        at = after_blanks(text, stop)
    elif rules.needs_label:
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


@borrowing_kernel
def _read_query(
    text: TextBytes, at: Position, rules: Rules
) -> tuple[Position, Position, Position]:
    """Returns the position after `qid:ID`, and the start and end of the id, which is empty without a qid."""
    if at == NOWHERE or not starts_with(text, at, QID):
        return NOWHERE if rules.needs_qid else at, ZERO, ZERO
    start = stop = at + np.uint64(len(QID))
    while text[stop] > BLANK and text[stop] != COMMENT and text[stop] != DELETE:
        stop += ONE
    if stop == start or stop - start > ID_LENGTH or not ends_token(text[stop]):
        return NOWHERE, ZERO, ZERO
    return stop, start, stop


_INDICES = [f"{index}:".encode() for index in range(1000)]
_NUMBERS = [int.from_bytes(text, "little") for text in _INDICES]
_SIZES = np.array([*map(len, _INDICES)], dtype=np.uint64)
_WORDS = np.array(_NUMBERS, dtype=np.uint64)
_MASKS = (ONE << (EIGHT * _SIZES)) - ONE
_LENGTHS = _SIZES + ONE
_NUM_INDICES = np.uint64(len(_INDICES))
"""The texts `0:`, `1:`, ... as words, the bits of these words, and the lengths with a blank before."""


@borrowing_kernel
def _is_next(text: TextBytes, at: Position, index: Position) -> bool:
    """Returns whether a blank and `index:` are next, as in lines without gaps; False for a large index."""
    if index >= _NUM_INDICES or text[at] != BLANK:
        return False
    length = np.uint64(len(text))
    if at + SIXTEEN > length:
        return False
    differs = eight_bytes(text, at + ONE) ^ _WORDS[index]
    return bool(differs & _MASKS[index] == ZERO)


@borrowing_kernel
def _read_features(
    text: TextBytes,
    at: Position,
    rules: Rules,
    row: _Row,
    features: Features,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    num_values: Position,
) -> tuple[Position, Position]:
    """Writes `index:value` pairs in ascending order.

    Returns the position after them, and the number of stored values including them if sparse.
    """
    first_index = np.uint64(rules.first_index)
    space = np.uint64(len(columns))
    lowest = ZERO
    width = np.uint64(features.shape[1])
    while True:
        index = lowest + first_index
        if lowest < width and _is_next(text, at, index):
            column = lowest
            at += _LENGTHS[index]
        else:
            at = after_blanks(text, at)
            if np.uint64(text[at]) - DIGIT_ZERO >= TEN:
                return at, num_values
            at, index = _read_index(text, at)
            # Index 0 of a file that starts from 1: a huge number.
            column = index - first_index
            if at == NOWHERE or column < lowest or column >= width:
                return NOWHERE, num_values
        stop, value = _read_usual_value(text, at)
        if stop == NOWHERE:
            stop, value = _read_value(text, at, rules.overflow, rules.exact)
            if stop == NOWHERE:
                return NOWHERE, num_values
        lowest = column + ONE
        if rules.sparse:
            if num_values == space:
                return NOWHERE, num_values
            columns[num_values] = column
            values[num_values] = value
            num_values += ONE
        else:
            features[row, column] = value
        at = stop


@borrowing_kernel
def _read_value(
    text: TextBytes, at: Position, overflow: int, exact: bool
) -> tuple[Position, float]:
    """Returns the position after a value, and the value if `exact`, else a double that rounds to the same
    float32."""
    stop, mantissa, exponent, negative = read_decimal(text, at)
    if stop == NOWHERE:
        stop = after_nan(text, at)
        value = np.nan
    else:
        value = (
            as_exact(mantissa, exponent) if exact else as_feature(mantissa, exponent)
        )
        if np.isnan(value) or (value >= FLOAT32_OVERFLOW and overflow == _REFUSE):
            return NOWHERE, 0.0
        if value >= FLOAT32_OVERFLOW:
            value = _LARGEST_FLOAT32 if overflow == _CAP else np.nan
        if negative:
            value = np.nan if np.isnan(value) else -value
    return (stop if stop != NOWHERE and ends_token(text[stop]) else NOWHERE), value


@borrowing_kernel
def _read_index(text: TextBytes, at: Position) -> tuple[Position, Position]:
    """Returns the position after `index:`, and the index."""
    start = at
    index = ZERO
    digit = np.uint64(text[at]) - DIGIT_ZERO
    while digit < TEN:
        index = index * TEN + digit
        at += ONE
        digit = np.uint64(text[at]) - DIGIT_ZERO
    if text[at] != COLON or at - start > _LONGEST_INDEX:
        return NOWHERE, ZERO
    return at + ONE, index


@inlined_kernel
def _read_usual_value(text: TextBytes, at: Position) -> tuple[Position, float]:
    """Returns what `_read_value` returns for a value in the usual notation, in less time.

    The second pass takes half of the time that it takes with `_read_value` alone [measured on dense text, on
    sparse text and on text with comments].

    It leaves every other value to `_read_value`: exponents, 16 decimals or more, 8 digits or more before the
    point, a mantissa above 2^53, `nan`, and values at the end of the text. Most whole parts have one digit,
    so that this branch is predicted; up to 7 decimals are read without a branch.
    """
    if at + _LOOKAHEAD > np.uint64(len(text)):
        return NOWHERE, 0.0
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
            return NOWHERE, 0.0
    if text[at] == POINT:
        at += ONE
        word = eight_bytes(text, at) ^ ZERO_DIGITS
        others = not_digits(word)
        if others:
            # As if zeros followed up to the 8th decimal: a number below 2^53, divided by 10^8.
            digits = (
                others ^ (others - ONE)
            ) >> EIGHT  # all bits of the bytes before the first other one
            at += ((digits & LOW_BITS) * LOW_BITS) >> LAST_BYTE
            value = (
                np.float64(mantissa * EIGHT_ZEROS + number_of_digits(word & digits))
                / 1e8
            )
        else:
            at, value = with_many_decimals(text, at, mantissa)
            if at == NOWHERE:
                return NOWHERE, 0.0
    else:
        value = np.float64(mantissa)
    if not ends_token(text[at]):
        return NOWHERE, 0.0
    if negative:
        value = -value
    return at, value


@borrowing_kernel
def _read_end(text: TextBytes, at: Position) -> Position:
    """Returns the position of the line feed after the content and its comment."""
    if text[at] == COMMENT:
        at += ONE
        while at + EIGHT <= np.uint64(len(text)) and not _controls(
            eight_bytes(text, at)
        ):
            at += EIGHT
        # Any line end, blank or printable byte, in any encoding.
        while text[at] != LINE_FEED and text[at] != RETURN:
            if text[at] == DELETE or (text[at] < BLANK and not is_space(text[at])):
                return NOWHERE
            at += ONE
    if text[at] == RETURN:
        at += ONE
    return at if text[at] == LINE_FEED else NOWHERE


@borrowing_kernel
def _controls(word: Position) -> Position:
    """Returns a number that is not 0 if one of eight bytes is below a blank, or 127."""
    deletes = word ^ _DELETES  # as in `_ends`
    return ((word - _BLANKS) & ~word | (deletes - LOW_BITS) & ~deletes) & HIGH_BITS


@borrowing_kernel
def _write_id(
    text: TextBytes,
    start: Position,
    stop: Position,
    row: _Row,
    documents: NDArray[np.uint32],
) -> None:
    """Writes the document id of a comment."""
    start, stop = document_id_span(text, start, stop)
    for offset in range(min(stop - start, np.uint64(documents.shape[1]))):
        documents[row, offset] = text[start + np.uint64(offset)]
