"""Parsers of blocks of LETOR lines.

`read_block_plainly` parses a block line by line with `parse_line`, the specification. `read_block_fast` uses
a regular expression and NumPy, and returns None if the block contains anything unusual, which
`read_block_plainly` then parses. Results and errors are therefore always those of the specification, and a
test compares the two.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.letor.line import (
    CONTROL,
    FLOAT32_OVERFLOW,
    LONGEST_ID,
    MAX_FEATURES,
    NUMBER,
    LineFormat,
    document_id,
    parse_line,
    within_float32,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels

_MEMORY = Path("/proc/meminfo")
_PLAIN_LINE = re.compile(
    rb"^(" + NUMBER + rb")"
    rb"(?:(?:[ \t]++(" + NUMBER + rb")(?=[ \t]++qid:))?+[ \t]++qid:([!-\"$-~]++))?+"
    rb"((?:[ \t]++(?:0|[1-9][0-9]{0,7}+):(?:" + NUMBER + rb"|[nN][aA][nN]))*+)"
    rb"[ \t]*+(?:#([^\r\n" + CONTROL + rb"]*+))?+\r?+$",
    re.MULTILINE,
)
_UNLABELLED = rb"(?=qid:|[0-9]++:)"
_UNLABELLED_FIRST = re.compile(_UNLABELLED)
_UNLABELLED_NEXT = re.compile(rb"\n" + _UNLABELLED)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive lines of a file with n documents, and their line numbers."""

    labels: Labels  # (n,), NaN if a line has none
    weights: NDArray[np.float64]  # (n,), NaN if a line has none
    queries: list[str]  # (n,), "" if a line has no qid
    documents: list[str]  # (n,), "" if a line has no comment
    features: Features  # (n, number of features up to the largest index)
    lines: NDArray[np.int64]  # (n,), from one
    widest: int  # line of the largest index


def read_block_plainly(text: bytes, first_line: int, form: LineFormat, absent: float, path: Path) -> Block:
    """Parses a block line by line, by the specification.

    Raises:
        DataError: as `parse_line`; the features do not fit into memory.
    """
    numbered = [
        (number, parsed)
        for number, line in enumerate(text.split(b"\n"), start=first_line)
        if (parsed := parse_line(line, f"{path}:{number}", form)) is not None
    ]
    with_features = [(parsed.indices[-1], -number) for number, parsed in numbered if parsed.indices]
    largest, widest = max(with_features, default=(form.first_index - 1, -first_line))
    width = largest - form.first_index + 1
    check_memory(len(numbered), width, f"{path}:{-widest}")
    features = np.full((len(numbered), width), absent, dtype=np.float32)
    for row, (_, parsed) in enumerate(numbered):
        features[row, np.array(parsed.indices, dtype=np.int64) - form.first_index] = parsed.values
    return Block(
        labels=np.array([parsed.label for _, parsed in numbered], dtype=np.float64),
        weights=np.array([parsed.weight for _, parsed in numbered], dtype=np.float64),
        queries=[parsed.query for _, parsed in numbered],
        documents=[parsed.document for _, parsed in numbered],
        features=features,
        lines=np.array([number for number, _ in numbered], dtype=np.int64),
        widest=-widest,
    )


def read_block_fast(text: bytes, first_line: int, form: LineFormat, absent: float) -> Block | None:
    """Parses a block at once if every line is an ordinary document; returns None for any other block."""
    num_lines = text.count(b"\n") + (not text.endswith(b"\n"))
    unlabelled = not form.needs_label and _UNLABELLED_FIRST.match(text) is not None
    if unlabelled:
        # Parsed as lines with label 0. A block in which only some lines have a label is not ordinary.
        text, num_others = _UNLABELLED_NEXT.subn(b"\n0 ", b"0 " + text)
        if num_others != num_lines - 1:
            return None
    matches: list[tuple[bytes, bytes, bytes, bytes, bytes]] = _PLAIN_LINE.findall(text)
    if len(matches) != num_lines:
        return None
    label_texts, weight_texts, queries, pairs, comments = zip(*matches, strict=True)
    numbers = _numbers(b"".join(pairs).replace(b":", b" ")).reshape(-1, 2)
    labels = _numbers(b" ".join(label_texts))
    weights = _numbers(b" ".join(weight or b"nan" for weight in weight_texts))
    if not (_ordinary(labels, weights, form) and _ordinary_queries(queries, form) and len(numbers)):
        return None
    rows = np.repeat(np.arange(num_lines), [of_line.count(b":") for of_line in pairs])
    columns = numbers[:, 0].astype(np.int64) - form.first_index
    beyond = np.abs(numbers[:, 1]) >= FLOAT32_OVERFLOW
    ascending = (np.diff(columns) > 0) | (np.diff(rows) > 0)
    width = int(columns.max()) + 1
    if (
        not ascending.all()
        or columns.min() < 0
        or width > (form.num_features or MAX_FEATURES)
        or (form.overflow == "refuse" and beyond.any())
        or not fits_into_memory(num_lines, width)
    ):
        return None
    features = np.full((num_lines, width), absent, dtype=np.float32)
    numbers[beyond, 1] = [within_float32(value, form.overflow) for value in numbers[beyond, 1].tolist()]
    features[rows, columns] = numbers[:, 1]
    return Block(
        labels=np.full(num_lines, np.nan) if unlabelled else labels,
        weights=weights,
        queries=[query.decode() for query in queries],
        documents=[document_id(comment) for comment in comments],
        features=features,
        lines=np.arange(first_line, first_line + num_lines),
        widest=first_line + int(rows[columns.argmax()]),
    )


def _numbers(text: bytes) -> NDArray[np.float64]:
    """Returns the blank-separated numbers of a text, which the regular expression has validated."""
    return np.fromstring(text, sep=" ") if text else np.empty(0)


def _ordinary(labels: Labels, weights: NDArray[np.float64], form: LineFormat) -> bool:
    weights_fit = (np.isnan(weights) | (np.isfinite(weights) & (weights >= 0))).all()
    labels_fit = (np.isfinite(labels) & (labels >= 0)).all()
    whole = not form.whole_labels or (labels == np.floor(labels)).all()
    return bool(weights_fit and labels_fit and whole)


def _ordinary_queries(queries: tuple[bytes, ...], form: LineFormat) -> bool:
    return (all(queries) or not form.needs_qid) and max(map(len, queries)) <= LONGEST_ID


def fits_into_memory(num_documents: int, num_features: int) -> bool:
    """Returns whether float32 features (D, F) fit into the available memory."""
    return _num_bytes(num_documents, num_features) <= _available_bytes()


def check_memory(num_documents: int, num_features: int, where: str) -> None:
    """Raises DataError before a matrix is allocated that does not fit into memory.

    Some systems allow any allocation and kill the process when it uses the memory.

    Args:
        where: `path:line` of the largest feature index, which is the likely mistake.
    """
    if not fits_into_memory(num_documents, num_features):
        raise DataError(
            f"{where}: the largest feature index is on this line and requires {num_features} features; with "
            f"{num_documents} documents they need {_num_bytes(num_documents, num_features) / 1e9:.1f} GB as "
            f"float32, but only {_available_bytes() / 1e9:.1f} GB of memory are available. Check that index, "
            "and number the features without gaps."
        )


def _num_bytes(num_documents: int, num_features: int) -> int:
    return num_documents * num_features * np.dtype(np.float32).itemsize


def _available_bytes() -> int:
    """Returns the memory available without swapping (Linux), else the physical memory of the machine."""
    if _MEMORY.exists():
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
