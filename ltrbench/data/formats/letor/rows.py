"""Arrays for the content of all documents, allocated once the text is counted and only if they fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, SparseRows, array_in_file, fits_on_disk, on_disk_remedy
from ltrbench.data.formats.letor.line import MAX_FEATURES, LineFormat, parse_line
from ltrbench.data.formats.letor.sizes import Counts, FileSize
from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes
from ltrbench.shapes import Features, Labels

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
