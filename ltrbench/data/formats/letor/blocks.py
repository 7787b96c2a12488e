"""Blocks of LETOR lines, parsed into arrays.

`read_block_plainly` parses a block line by line with `parse_line`, the specification. `fill_block` uses a
kernel, and the specification for every line that the kernel does not accept. Results and errors are
therefore always those of the specification, and a test compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.letor.line import OVERFLOWS, LineFormat, document_id, parse_line
from ltrbench.data.formats.letor.rows import DocumentRows, Stored
from ltrbench.data.formats.units import Unit
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels


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
        DataError: as `parse_line`.
    """
    numbered = [
        (number, parsed)
        for number, line in enumerate(text.split(b"\n"), start=first_line)
        if (parsed := parse_line(line, f"{path}:{number}", form)) is not None
    ]
    with_features = [(parsed.indices[-1], -number) for number, parsed in numbered if parsed.indices]
    largest, widest = max(with_features, default=(form.first_index - 1, -first_line))
    width = largest - form.first_index + 1
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


QueryRun = tuple[int, str]
"""First row of consecutive documents of one query, and the query id, "" if the lines have no qid."""


def fill_block(
    unit: Unit, first_line: int, form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses lines into the rows that were counted for them, and returns their queries.

    Raises:
        DataError: as `parse_line`; the lines are not the ones that were counted.
    """
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data.formats.letor.kernels import parsing

    content, rules = unit.content, _rules(form, rows)
    stored = rows.stored or Stored.allocate(0, 0)
    cursor = np.zeros(parsing.CURSOR, dtype=np.int64)
    cursor[parsing.LINE_NUMBER] = first_line
    places = np.empty((len(rows.labels), 3), dtype=np.int64)
    runs: list[QueryRun] = []
    reason = parsing.ODD_LINE
    while reason != parsing.BLOCK_END:
        cursor[parsing.NUM_RUNS] = 0
        reason = parsing.parse_lines(
            content,
            cursor,
            rules,
            rows.features,
            stored.row_stop,
            stored.columns,
            stored.values,
            rows.labels,
            rows.weights,
            rows.skipped,
            rows.documents,
            places,
        )
        new = places[: cursor[parsing.NUM_RUNS]].tolist()
        runs += [(row, unit.memory[start:stop].decode()) for row, start, stop in new]
        if reason == parsing.ODD_LINE:
            runs += _fill_odd_line(unit, cursor, form, absent, path, rows)
        elif reason == parsing.ODD_ID:
            _fill_odd_id(unit, cursor, path, rows)
    expected = len(rows.labels), len(stored.values), len(rows.skipped)
    if cursor[[parsing.ROW, parsing.NUM_STORED, parsing.NUM_SKIPPED]].tolist() != list(expected):
        raise changed_between_passes(path)
    stored.row_stop[:] += stored.first
    return runs


def _rules(form: LineFormat, rows: DocumentRows) -> NDArray[np.int64]:
    """Returns the line format, and whether the features are sparse, as `parse_lines` takes them."""
    overflow, needed = OVERFLOWS.index(form.overflow), (form.needs_label, form.needs_qid)
    return np.array([form.first_index, overflow, form.whole_labels, *needed, rows.stored is not None])


def _fill_odd_line(
    unit: Unit, cursor: NDArray[np.int64], form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses the line at the cursor by the specification, and moves the cursor behind it."""
    position, number, row, _, num_values, num_skipped = cursor.tolist()
    stop = unit.memory.index(b"\n", position)
    line = parse_line(bytes(unit.memory[position:stop]), f"{path}:{number}", form)
    cursor[:2] = stop + 1, number + 1
    if line is None:
        if num_skipped == len(rows.skipped):
            raise changed_between_passes(path)
        rows.skipped[num_skipped] = row
        cursor[5] = num_skipped + 1
        return []
    columns = np.array(line.indices, dtype=np.int64) - form.first_index
    if row == len(rows.labels) or (columns >= rows.features.shape[1]).any():
        raise changed_between_passes(path)
    if rows.stored is None:
        rows.features[row] = absent
        rows.features[row, columns] = line.values
    else:
        cursor[4] = rows.stored.row_stop[row] = num_values + len(columns)
        if cursor[4] > len(rows.stored.values):
            raise changed_between_passes(path)
        rows.stored.columns[num_values : cursor[4]] = columns
        rows.stored.values[num_values : cursor[4]] = line.values
    rows.labels[row] = line.label
    if len(rows.weights):
        rows.weights[row] = math.nan if line.weight is None else line.weight
    elif line.weight is not None:
        raise changed_between_passes(path)
    _write_id(line.document, row, path, rows)
    cursor[2] = row + 1
    return [(row, line.query)]


def _fill_odd_id(unit: Unit, cursor: NDArray[np.int64], path: Path, rows: DocumentRows) -> None:
    """Decodes the document id of the line before the cursor."""
    position, _, row, *_ = cursor.tolist()
    line = bytes(unit.memory[unit.memory.rfind(b"\n", 0, position - 1) + 1 : position])
    _write_id(document_id(line.partition(b"#")[2]), row - 1, path, rows)


def _write_id(document: str, row: int, path: Path, rows: DocumentRows) -> None:
    if len(document) > rows.documents.shape[1]:
        raise changed_between_passes(path)
    rows.documents[row, : len(document)] = [ord(character) for character in document]


def changed_between_passes(path: Path) -> DataError:
    """Returns the error for a file whose second reading does not match the first."""
    return DataError(
        f"{path}: the file changed while it was read. Wait until it is written completely, and read it again."
    )
