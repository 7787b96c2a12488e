"""Bytes of LETOR text: blanks, ends, words and document ids.

Text is whole lines, each with a line feed at its end. Because of the line feed, no loop over blanks, digits
or names needs to check for the end of the text. Positions are unsigned, so that an index costs no test for
negative values.

Eight bytes are often compared at once, as a word with the first byte in its lowest bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.data.formats.letor.line import LONGEST_ID

TextBytes = NDArray[np.uint8]
_Byte = Any  # uint8
Position = Any  # uint64
ZERO, ONE, TEN = np.uint64(0), np.uint64(1), np.uint64(10)
_TAB, LINE_FEED, RETURN, BLANK, DELETE = 9, 10, 13, 32, 127
COMMENT, PLUS, MINUS, POINT, COLON, _EQUALS = b"#+-.:="
DIGIT_ZERO = np.uint64(ord("0"))
QID = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
ID_LENGTH = np.uint64(LONGEST_ID)
TWO, FOUR, SEVEN, EIGHT = np.uint64(2), np.uint64(4), np.uint64(7), np.uint64(8)
HIGH_BITS, LOW_BITS = np.uint64(0x8080808080808080), np.uint64(0x0101010101010101)
LINE_FEEDS, COMMENTS, COLONS = (LOW_BITS * np.uint64(byte) for byte in (LINE_FEED, COMMENT, COLON))
LAST_BYTE = np.uint64(56)


@kernel
def eight_bytes(text: TextBytes, at: Position) -> Position:
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
def document_id_span(text: TextBytes, start: Position, stop: Position) -> tuple[Position, Position, bool]:
    """Returns the start and the end of `line.document_id` in a comment, and whether it is ASCII."""
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
    stop = min(stop, start + ID_LENGTH)
    every = 0
    for offset in range(stop - start):
        every |= text[start + np.uint64(offset)]
    return start, stop, every < 128


@kernel
def starts_with(text: TextBytes, at: Position, word: TextBytes) -> bool:
    for letter in word:
        if text[at] != letter:
            return False
        at += ONE
    return True


@kernel
def same_bytes(
    text: TextBytes, start: Position, stop: Position, other: Position, other_stop: Position
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
