"""Blocks of LETOR lines, parsed into arrays.

`read_block_plainly` parses a block line by line with `parse_line`, the specification. `fill_block` uses a
kernel, and the specification for every line that the kernel does not accept. Results and errors are
therefore always those of the specification, and a test compares the two.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, SparseRows
from ltrbench.data.formats.letor.line import (
    OVERFLOWS,
    LineFormat,
    document_id,
    parse_line,
)
from ltrbench.errors import DataError
from ltrbench.measure.available import available_cores
from ltrbench.shapes import Features, Labels

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Arrays for the m `index:value` pairs of n consecutive documents with sparse features."""

    row_stop: NDArray[np.int64]  # (n,), position after the last value of each document
    columns: NDArray[np.int32]  # (m,)
    values: NDArray[np.float32]  # (m,)
    first: int = 0  # position of the first value in the arrays of all documents

    @classmethod
    def allocate(cls, num_documents: int, num_values: int) -> Stored:
        return cls(
            row_stop=np.empty(num_documents, dtype=np.int64),
            columns=np.empty(num_values, dtype=np.int32),
            values=np.empty(num_values, dtype=np.float32),
        )

    def part(self, rows: slice, values: slice) -> Stored:
        first = self.first + values.start
        return Stored(self.row_stop[rows], self.columns[values], self.values[values], first)

    def matrix(self, num_features: int, absent: float) -> SparseRows:
        """Returns all values, once they are written."""
        row_start = np.concatenate([np.zeros(1, np.int64), self.row_stop])
        return SparseRows(row_start, self.columns, self.values, num_features, absent)


@dataclass(frozen=True, slots=True, eq=False)
class DocumentRows:
    """Arrays for the content of n consecutive documents."""

    features: Features  # (n, F), filled with the value of absent features; (0, F) if sparse
    labels: Labels  # (n,), NaN if a line has none
    weights: NDArray[np.float64]  # (n,), NaN if a line has none
    lines: NDArray[np.int64]  # (n,), from one
    documents: NDArray[np.uint32]  # (n, L), code points of the document ids, filled with 0
    stored: Stored | None = None  # None: the features are dense

    @classmethod
    def allocate(
        cls,
        num_documents: int,
        num_features: int,
        longest_id: int,
        absent: float,
        num_values: int | None = None,
    ) -> DocumentRows:
        """Returns arrays for documents; `num_values` is None for dense features."""
        shape = (num_documents if num_values is None else 0, num_features)
        # The system only provides memory for zeros that are written or read.
        is_zero = absent == 0 and math.copysign(1.0, absent) > 0
        return cls(
            features=np.zeros(shape, np.float32) if is_zero else np.full(shape, absent, np.float32),
            labels=np.empty(num_documents),
            weights=np.empty(num_documents),
            lines=np.empty(num_documents, dtype=np.int64),
            documents=np.zeros((num_documents, longest_id), dtype=np.uint32),
            stored=None if num_values is None else Stored.allocate(num_documents, num_values),
        )

    @staticmethod
    def num_bytes(
        num_documents: int, num_features: int, longest_id: int, num_values: int | None = None
    ) -> int:
        """Returns the memory that `allocate` takes, and the result."""
        beside = num_documents * (8 + 8 + 8 + 4 * longest_id)
        if num_values is not None:
            return beside + 2 * 8 * num_documents + 8 * num_values
        return beside + 4 * num_documents * num_features

    def part(self, rows: slice, values: slice) -> DocumentRows:
        """Returns some rows and, if sparse, the given positions of their values, without a copy."""
        return DocumentRows(
            self.features[rows],
            self.labels[rows],
            self.weights[rows],
            self.lines[rows],
            self.documents[rows],
            None if self.stored is None else self.stored.part(rows, values),
        )

    def matrix(self, absent: float) -> AnyFeatures:
        """Returns the features, once they are written."""
        return self.features if self.stored is None else self.stored.matrix(self.features.shape[1], absent)


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yields the result of `work` for each item, in the order of the items.

    The work is spread over the available cores; it must release the global interpreter lock. About one item
    per core is in memory.

    Raises:
        DataError: The first error in the order of the items, of `work` or of the iterator.
    """
    num_threads = available_cores()
    if num_threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(num_threads) as pool:
        for future in _submitted(work, items, pool):
            waiting.append(future)
            if len(waiting) > num_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _submitted(
    work: Callable[[_Item], _Result], items: Iterable[_Item], pool: ThreadPoolExecutor
) -> Iterator[Future[_Result]]:
    try:
        for item in items:
            yield pool.submit(work, item)
    except DataError as error:  # comes after the errors of the items before it
        failed: Future[_Result] = Future()
        failed.set_exception(error)
        yield failed


QueryRun = tuple[int, str]
"""First row of consecutive documents of one query, and the query id, "" if the lines have no qid."""


def fill_block(
    text: bytes, first_line: int, form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses a block into the rows that were counted for it, and returns its queries.

    Raises:
        DataError: as `parse_line`; the block is not the one that was counted.
    """
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data.formats.letor import kernels

    text = with_line_feed(text)
    content, rules = np.frombuffer(text, dtype=np.uint8), _rules(form, rows)
    stored = rows.stored or Stored.allocate(0, 0)
    cursor = np.array([0, first_line, 0, 0, 0])  # position, line, row, number of runs and of values
    places = np.empty((len(rows.labels), 3), dtype=np.int64)
    runs: list[QueryRun] = []
    reason = kernels.ODD_LINE
    while reason != kernels.BLOCK_END:
        cursor[3] = 0
        reason = kernels.parse_lines(
            content,
            cursor,
            rules,
            rows.features,
            stored.row_stop,
            stored.columns,
            stored.values,
            rows.labels,
            rows.weights,
            rows.lines,
            rows.documents,
            places,
        )
        runs += [(row, text[start:stop].decode()) for row, start, stop in places[: cursor[3]].tolist()]
        if reason == kernels.ODD_LINE:
            runs += _fill_odd_line(text, cursor, form, absent, path, rows)
        elif reason == kernels.ODD_ID:
            _fill_odd_id(text, cursor, path, rows)
    if cursor[2] != len(rows.labels) or cursor[4] != len(stored.values):
        raise changed_between_passes(path)
    stored.row_stop[:] += stored.first
    return runs


def with_line_feed(text: bytes) -> bytes:
    """Returns a block whose last line has an end, as the kernels require."""
    return text if text.endswith(b"\n") else text + b"\n"


def _rules(form: LineFormat, rows: DocumentRows) -> NDArray[np.int64]:
    """Returns the line format, and whether the features are sparse, as `parse_lines` takes them."""
    overflow, needed = OVERFLOWS.index(form.overflow), (form.needs_label, form.needs_qid)
    return np.array([form.first_index, overflow, form.whole_labels, *needed, rows.stored is not None])


def _fill_odd_line(
    text: bytes, cursor: NDArray[np.int64], form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses the line at the cursor by the specification, and moves the cursor behind it."""
    position, number, row, _, num_values = cursor.tolist()
    stop = text.index(b"\n", position)
    line = parse_line(text[position:stop], f"{path}:{number}", form)
    cursor[:2] = stop + 1, number + 1
    if line is None:
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
    rows.weights[row] = math.nan if line.weight is None else line.weight
    rows.lines[row] = number
    _write_id(line.document, row, path, rows)
    cursor[2] = row + 1
    return [(row, line.query)]


def _fill_odd_id(text: bytes, cursor: NDArray[np.int64], path: Path, rows: DocumentRows) -> None:
    """Decodes the document id of the line before the cursor."""
    position, _, row, *_ = cursor.tolist()
    line = text[text.rfind(b"\n", 0, position - 1) + 1 : position]
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
