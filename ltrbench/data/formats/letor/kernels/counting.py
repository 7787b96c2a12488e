"""The first pass over LETOR text: counts, which determine the arrays that the second pass fills."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.data.formats.letor.kernels.text import (
    COLON,
    COLONS,
    COMMENT,
    COMMENTS,
    DIGIT_ZERO,
    EIGHT,
    HIGH_BITS,
    LAST_BYTE,
    LINE_FEED,
    LINE_FEEDS,
    LOW_BITS,
    ONE,
    QID,
    SEVEN,
    TEN,
    ZERO,
    Position,
    TextBytes,
    after_spaces,
    document_id_span,
    eight_bytes,
    is_space,
    starts_with,
)

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
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


@kernel
def count_lines(text: TextBytes) -> NDArray[np.int64]:
    """Returns the `COUNTS` of whole lines. They are exact if the specification accepts every line."""
    counts = np.zeros(COUNTS, dtype=np.int64)
    counts[LARGEST_INDEX] = counts[SECOND_INDEX] = -1
    start, end = ZERO, np.uint64(len(text))
    while start < end:
        content_stop = _after_content(text, start, end)
        stop = content_stop
        while text[stop] != LINE_FEED:
            stop = _after_content(text, stop + ONE, end)
        first = after_spaces(text, start)
        if first < content_stop:
            counts[DOCUMENTS] += 1
            _count_index(_last_index(text, first, content_stop), int(start), counts)
            num_words, content = _after_query(text, first, content_stop)
            counts[WEIGHTS] += num_words == 2  # a label and a weight
            counts[VALUES] += _count_colons(text, content, content_stop)
            if stop > content_stop and counts[LONGEST_DOCUMENT_ID] >= 0:
                id_start, id_stop, is_ascii = document_id_span(text, content_stop + ONE, stop)
                longest = max(counts[LONGEST_DOCUMENT_ID], int(id_stop - id_start))
                counts[LONGEST_DOCUMENT_ID] = longest if is_ascii else -1
        counts[LINES] += 1
        start = stop + ONE
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
def _after_content(text: TextBytes, at: Position, end: Position) -> Position:
    """Returns the position of the next line feed or "#"."""
    while at + np.uint64(32) <= end:
        ends = _ends(eight_bytes(text, at)) | _ends(eight_bytes(text, at + EIGHT))
        at += np.uint64(16)
        ends |= _ends(eight_bytes(text, at)) | _ends(eight_bytes(text, at + EIGHT))
        at += np.uint64(16)
        if ends:
            at -= np.uint64(32)
            while not _ends(eight_bytes(text, at)):
                at += EIGHT
            break
    while text[at] != LINE_FEED and text[at] != COMMENT:
        at += ONE
    return at


@kernel
def _ends(word: Position) -> Position:
    """Returns a number that is not 0 if one of eight bytes is a line feed or "#"."""
    # Subtracting 1 from each byte sets the highest bit of a byte that was 0, and of others only above it.
    feeds, comments = word ^ LINE_FEEDS, word ^ COMMENTS
    return ((feeds - LOW_BITS) & ~feeds | (comments - LOW_BITS) & ~comments) & HIGH_BITS


@kernel
def _after_query(text: TextBytes, at: Position, stop: Position) -> tuple[int, Position]:
    """Returns the number of words before the first that has a colon, and the start of the first pair."""
    num_words = 0
    while at < stop:
        start, has_colon = at, False
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
    """Returns the number of colons: of `index:value` pairs, each of which has one."""
    num_colons = ZERO
    while at + EIGHT <= stop:
        others = eight_bytes(text, at) ^ COLONS
        others = ((others & _SEVEN_BITS) + _SEVEN_BITS | others) & HIGH_BITS  # of each byte that is not 0
        num_colons += EIGHT - ((others >> SEVEN) * LOW_BITS >> LAST_BYTE)
        at += EIGHT
    while at < stop:
        num_colons += np.uint64(text[at] == COLON)
        at += ONE
    return int(num_colons)


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
