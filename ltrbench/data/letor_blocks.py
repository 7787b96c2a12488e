"""LETOR text read by blocks: its size, its rows, and the columns of features.

Size of LETOR text, counted in a first pass over its lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import Text, Unit, for_each_unit
from ltrbench.data.features import AnyFeatures, SparseRows, array_in_file, fits_on_disk, on_disk_remedy
from ltrbench.data.letor_lines import MAX_FEATURES, OVERFLOWS, LineFormat, document_id, parse_line
from ltrbench.errors import DataError
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features, Labels


@dataclass(frozen=True, slots=True)
class Counts:
    """Size of a text with n documents, exact if every line is valid."""

    num_documents: int = 0
    num_lines: int = 0
    num_bytes: int = 0
    largest: int = -1  # largest feature index; -1 if no line has a feature
    line: int = 0  # number of the first line that has it, from one
    text: bytes = b""  # of this line
    second: int = -1  # largest feature index of the other lines
    longest_id: int = 0  # number of characters of the longest document id
    num_weights: int = 0
    num_values: int = 0  # number of `index:value` pairs

    def __add__(self, other: Counts) -> Counts:
        """Returns the counts of both texts; this one comes first."""
        is_wider = other.largest > self.largest
        most, less = (other, self) if is_wider else (self, other)
        return Counts(
            num_documents=self.num_documents + other.num_documents,
            num_lines=self.num_lines + other.num_lines,
            num_bytes=self.num_bytes + other.num_bytes,
            largest=most.largest,
            line=self.num_lines + other.line if is_wider else self.line,
            text=most.text,
            second=max(most.second, less.largest),
            longest_id=max(self.longest_id, other.longest_id),
            num_weights=self.num_weights + other.num_weights,
            num_values=self.num_values + other.num_values,
        )

    @property
    def num_skipped(self) -> int:
        """Number of lines without a document: blank lines and comment lines."""
        return self.num_lines - self.num_documents


@dataclass(frozen=True)
class FileSize:
    """Counts of each unit of a file."""

    path: Path
    units: list[Counts]

    @cached_property
    def total(self) -> Counts:
        return reduce(add, self.units, Counts())


def count_files(texts: Sequence[Text]) -> list[FileSize]:
    """Counts the documents of each file, up to the first place that cannot be read.

    The second pass raises the error of this place, unless it finds an invalid line before it.
    """
    sizes: list[FileSize] = []
    error = None
    for text in texts:
        units, error = ([], error) if error else for_each_unit(text, lambda _, unit: count_unit(unit))
        sizes.append(FileSize(text.path, units))
    return sizes


def count_unit(unit: Unit) -> Counts:
    """Returns the size of whole lines; the first has the number 1."""
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels

    counts = letor_kernels.count_lines(unit.content).tolist()
    start, longest_id = counts[letor_kernels.PLACE], counts[letor_kernels.LONGEST_DOCUMENT_ID]
    if longest_id < 0:  # only Python decodes ids that are not ASCII
        parts = [line.partition(b"#") for line in unit.memory[: unit.size].split(b"\n")]
        longest_id = max(len(document_id(bytes(comment))) for content, _, comment in parts if content.strip())
    return Counts(
        num_documents=counts[letor_kernels.DOCUMENTS],
        num_lines=counts[letor_kernels.LINES],
        num_bytes=unit.size,
        largest=counts[letor_kernels.LARGEST_INDEX],
        line=counts[letor_kernels.LINE] + 1,
        text=bytes(unit.memory[start : unit.memory.index(b"\n", start)]),
        second=counts[letor_kernels.SECOND_INDEX],
        longest_id=longest_id,
        num_weights=counts[letor_kernels.WEIGHTS],
        num_values=counts[letor_kernels.VALUES],
    )


def file_of_largest(sizes: Sequence[FileSize]) -> Path:
    """Returns the first file with the largest feature index."""
    return max(sizes, key=lambda size: size.total.largest).path


# ---- Arrays for the content of all documents, allocated once the text is counted and only if they fit.

# Number, text, and entries of a tuple and a set for the name of one feature.
_BYTES_PER_NAME = 160

# A dense matrix beyond both limits is more likely a wrong index than data. Lines of 100 values and 1000
# bytes, with indices up to 100,000, give a matrix of only 400 times the text.
_IMPLAUSIBLE_RATIO, _IMPLAUSIBLE_BYTES = 1000, 10**9


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
    weights: NDArray[np.float64]  # (n,), NaN if a line has none; (0,) if no line has one
    skipped: NDArray[np.int64]  # (S,), number of documents before each line that has none
    documents: NDArray[np.uint32]  # (n, L), code points of the document ids, filled with 0
    stored: Stored | None = None  # None: the features are dense

    @classmethod
    def allocate(
        cls,
        counts: Counts,
        num_features: int,
        absent: float,
        sparse: bool = False,
        features: Features | None = None,
    ) -> DocumentRows:
        """Returns arrays for the counted documents.

        Args:
            features: array for the features; None: a new one in memory.
        """
        num_documents = counts.num_documents
        if features is None:
            shape = (0 if sparse else num_documents, num_features)
            # The system only provides memory for zeros that are written or read.
            is_zero = absent == 0 and math.copysign(1.0, absent) > 0
            features = np.zeros(shape, np.float32) if is_zero else np.full(shape, absent, np.float32)
        return cls(
            features=features,
            labels=np.empty(num_documents),
            weights=np.empty(num_documents if counts.num_weights else 0),
            skipped=np.empty(counts.num_skipped, dtype=np.int64),
            documents=np.zeros((num_documents, counts.longest_id), dtype=np.uint32),
            stored=Stored.allocate(num_documents, counts.num_values) if sparse else None,
        )

    @staticmethod
    def num_bytes(counts: Counts, num_features: int, sparse: bool) -> int:
        """Returns the memory that `allocate` takes, and the result."""
        numbers = 8 * (counts.num_documents + counts.num_skipped)
        numbers += 8 * counts.num_documents * (counts.num_weights > 0)
        ids = 4 * counts.num_documents * counts.longest_id
        if sparse:
            return numbers + ids + 2 * 8 * counts.num_documents + 8 * counts.num_values
        return numbers + ids + 4 * counts.num_documents * num_features

    def part(self, before: Counts, counts: Counts) -> DocumentRows:
        """Returns the rows of a text without a copy, given the counts of the text before it and of itself."""
        after = before + counts
        rows = slice(before.num_documents, after.num_documents)
        values = slice(before.num_values, after.num_values)
        return DocumentRows(
            self.features[rows],
            self.labels[rows],
            self.weights[rows],
            self.skipped[before.num_skipped : after.num_skipped],
            self.documents[rows],
            None if self.stored is None else self.stored.part(rows, values),
        )

    def line(self, row: int) -> int:
        """Returns the number of the line of a document, from one, if these are the rows of a file."""
        return row + 1 + int(np.searchsorted(self.skipped, row, side="right"))

    def matrix(self, absent: float) -> AnyFeatures:
        """Returns the features, once they are written."""
        return self.features if self.stored is None else self.stored.matrix(self.features.shape[1], absent)


def allocate(
    sizes: Sequence[FileSize], form: LineFormat, absent: float, sparse: bool, scratch: Path | None = None
) -> DocumentRows:
    """Returns arrays for the documents of all files.

    Args:
        sparse: whether to store only the values that the lines have.
        scratch: folder of a temporary file for dense features that do not fit into memory; None: they are
            refused.

    Raises:
        DataError: They do not fit into memory, or dense features do not fit on the disk of `scratch`; or the
            number of features is the largest index, and a dense matrix of this width takes more than 1 GB and
            more than 1000 times the memory of its text.
    """
    total = reduce(add, (size.total for size in sizes))
    # A line with a larger index is invalid; the second pass reports it.
    width = form.num_features or min(max(total.largest + 1 - form.first_index, 0), MAX_FEATURES)
    num_bytes = DocumentRows.num_bytes(total, width, sparse) + width * _BYTES_PER_NAME
    is_chosen = sparse or form.num_features is not None
    if not is_chosen and num_bytes > max(_IMPLAUSIBLE_BYTES, _IMPLAUSIBLE_RATIO * total.num_bytes):
        raise DataError(
            f"{_need(sizes, total, width, num_bytes, form, sparse)}, more than {_IMPLAUSIBLE_RATIO} times "
            f"the {total.num_bytes} bytes of text. {_others(total)}Check that index. If it is correct, set "
            f"sparse=true (in a run data.sparse=true), or num_features={width} (in a run "
            f"data.num_features={width}) to accept the size."
        )
    available, shape = available_bytes(), (total.num_documents, width)
    in_file = scratch is not None and not sparse and num_bytes > available and fits_on_disk(scratch, shape)
    if num_bytes - in_file * 4 * math.prod(shape) > available:
        raise DataError(
            f"{_need(sizes, total, width, num_bytes, form, sparse)}, but only {available / 1e9:.1f} GB are "
            f"available. {_remedy(total, width, form, sparse, scratch)}"
        )
    features = array_in_file(scratch, shape, absent) if in_file and scratch else None
    return DocumentRows.allocate(total, width, absent, sparse, features)


def _need(
    sizes: Sequence[FileSize], total: Counts, width: int, num_bytes: int, form: LineFormat, sparse: bool
) -> str:
    """Returns the beginning of a message: the place of the largest index, and the memory that is needed.

    Raises:
        DataError: The line at this place is invalid, so that its index is no reason.
    """
    widest = max(sizes, key=lambda size: size.total.largest)
    place = f"{widest.path}:{widest.total.line}"
    # The widest line may be no document at all.
    parse_line(total.text, place, replace(form, needs_qid=False))
    with_values = f" and {total.num_values} values" if sparse else ""
    return (
        f"{place}: {_cause(width, form)}; with {total.num_documents} documents{with_values} the data needs "
        f"{num_bytes / 1e9:.1f} GB of memory as float32"
    )


def _cause(width: int, form: LineFormat) -> str:
    if form.num_features is not None:
        return f"num_features is {width}"
    return f"the largest feature index is on this line and requires {width} features"


def _remedy(total: Counts, width: int, form: LineFormat, sparse: bool, scratch: Path | None) -> str:
    """Returns the remedy: for a mistake in one line, or for data that is too large for this machine."""
    if form.num_features is None and total.second + 1 - form.first_index <= width / 2:
        return f"{_others(total)}Check that index, and number the features without gaps."
    only_stored = (
        "If the lines omit most features, set sparse=true (in a run data.sparse=true), which needs memory "
        "only for the values that they have. Otherwise "
    )
    only_stored = "" if sparse else only_stored
    smaller = "use a machine or a container with more memory, fewer documents or fewer features."
    on_disk = "" if sparse else f"{on_disk_remedy((total.num_documents, width), scratch)}; or "
    remedy = f"{only_stored}{on_disk}{smaller}"
    return f"The indices of other lines are of the same size. {remedy[0].upper()}{remedy[1:]}"


def _others(total: Counts) -> str:
    return f"The largest index of all other lines is {total.second}. " if total.second >= 0 else ""


# ---- Blocks of LETOR lines, parsed into arrays.
#
# `read_block_plainly` parses a block line by line with `parse_line`, the specification. `fill_block` uses a
# kernel, and the specification for every line that the kernel does not accept. Results and errors are
# therefore always those of the specification, and a test compares the two.


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
    from ltrbench.data import letor_kernels

    content, rules = unit.content, _rules(form, rows)
    stored = rows.stored or Stored.allocate(0, 0)
    cursor = np.zeros(letor_kernels.CURSOR, dtype=np.int64)
    cursor[letor_kernels.LINE_NUMBER] = first_line
    places = np.empty((len(rows.labels), 3), dtype=np.int64)
    runs: list[QueryRun] = []
    reason = letor_kernels.ODD_LINE
    while reason != letor_kernels.BLOCK_END:
        cursor[letor_kernels.NUM_RUNS] = 0
        reason = letor_kernels.parse_lines(
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
        new = places[: cursor[letor_kernels.NUM_RUNS]].tolist()
        runs += [(row, unit.memory[start:stop].decode()) for row, start, stop in new]
        if reason == letor_kernels.ODD_LINE:
            runs += _fill_odd_line(unit, cursor, form, absent, path, rows)
        elif reason == letor_kernels.ODD_ID:
            _fill_odd_id(unit, cursor, rows)
    expected = len(rows.labels), len(stored.values), len(rows.skipped)
    if cursor[[letor_kernels.ROW, letor_kernels.NUM_STORED, letor_kernels.NUM_SKIPPED]].tolist() != list(
        expected
    ):
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
        rows.skipped[num_skipped] = row
        cursor[5] = num_skipped + 1
        return []
    columns = np.array(line.indices, dtype=np.int64) - form.first_index
    if rows.stored is None:
        rows.features[row] = absent
        rows.features[row, columns] = line.values
    else:
        cursor[4] = rows.stored.row_stop[row] = num_values + len(columns)
        rows.stored.columns[num_values : cursor[4]] = columns
        rows.stored.values[num_values : cursor[4]] = line.values
    rows.labels[row] = line.label
    if len(rows.weights):
        rows.weights[row] = math.nan if line.weight is None else line.weight
    _write_id(line.document, row, rows)
    cursor[2] = row + 1
    return [(row, line.query)]


def _fill_odd_id(unit: Unit, cursor: NDArray[np.int64], rows: DocumentRows) -> None:
    """Decodes the document id of the line before the cursor."""
    position, _, row, *_ = cursor.tolist()
    line = bytes(unit.memory[unit.memory.rfind(b"\n", 0, position - 1) + 1 : position])
    _write_id(document_id(line.partition(b"#")[2]), row - 1, rows)


def _write_id(document: str, row: int, rows: DocumentRows) -> None:
    rows.documents[row, : len(document)] = [ord(character) for character in document]


def changed_between_passes(path: Path) -> DataError:
    """Returns the error for a file whose second reading does not match the first."""
    return DataError(
        f"{path}: the file changed while it was read. Wait until it is written completely, and read it again."
    )
