"""Size of LETOR text: counted in a first pass, so that arrays are allocated once and only if they fit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

from ltrbench.data.formats.compression import Blocks
from ltrbench.data.formats.letor.blocks import DocumentRows, in_order, with_line_feed
from ltrbench.data.formats.letor.line import MAX_FEATURES, LineFormat, document_id, parse_line
from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes

# Number, text, and entries of a tuple and a set for the name of one feature.
_BYTES_PER_NAME = 160


@dataclass(frozen=True, slots=True)
class Counts:
    """Size of a text with n documents, exact if every line is valid."""

    num_documents: int = 0
    largest: int = -1  # largest feature index; -1 if no line has a feature
    line: int = 0  # number of the first line that has it
    text: bytes = b""  # of this line
    second: int = -1  # largest feature index of the other lines
    longest_id: int = 0  # number of characters of the longest document id
    num_values: int = 0  # number of `index:value` pairs; 0 if they are not counted

    def __add__(self, other: Counts) -> Counts:
        """Returns the counts of both texts; this one comes first."""
        most, less = (other, self) if other.largest > self.largest else (self, other)
        return replace(
            most,
            num_documents=self.num_documents + other.num_documents,
            second=max(most.second, less.largest),
            longest_id=max(self.longest_id, other.longest_id),
            num_values=self.num_values + other.num_values,
        )


@dataclass(frozen=True, slots=True)
class FileSize:
    """Counts of each block of a file."""

    path: Path
    blocks: list[Counts]

    @property
    def total(self) -> Counts:
        return reduce(add, self.blocks, Counts())


def count_files(paths: Sequence[Path], texts: Sequence[Callable[[], Blocks]], sparse: bool) -> list[FileSize]:
    """Counts the documents of each file, up to the first place that cannot be read.

    The second pass raises the error of this place, unless it finds an invalid line before it.

    Args:
        sparse: whether to count the values.
    """
    count = count_with_values if sparse else count_block
    sizes = [FileSize(path, []) for path in paths]
    with contextlib.suppress(DataError):
        for size, text in zip(sizes, texts, strict=True):
            for counts in in_order(count, text()):
                size.blocks.append(counts)
    return sizes


def count_block(block: tuple[bytes, int]) -> Counts:
    """Returns the size of a block, given its text and the number of its first line."""
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data.formats.letor import kernels

    text, first_line = with_line_feed(block[0]), block[1]
    counts = kernels.count_lines(np.frombuffer(text, dtype=np.uint8), first_line).tolist()
    start, longest_id = counts[kernels.PLACE], counts[kernels.LONGEST_DOCUMENT_ID]
    if longest_id < 0:  # only Python decodes ids that are not ASCII
        parts = [line.partition(b"#") for line in text.split(b"\n")]
        longest_id = max(len(document_id(comment)) for content, _, comment in parts if content.strip())
    return Counts(
        num_documents=counts[kernels.DOCUMENTS],
        largest=counts[kernels.LARGEST_INDEX],
        line=counts[kernels.LINE],
        text=text[start : text.index(b"\n", start)],
        second=counts[kernels.SECOND_INDEX],
        longest_id=longest_id,
    )


def count_with_values(block: tuple[bytes, int]) -> Counts:
    """Returns the size of a block, including the number of values."""
    from ltrbench.data.formats.letor import kernels

    num_values = kernels.count_values(np.frombuffer(with_line_feed(block[0]), dtype=np.uint8))
    return replace(count_block(block), num_values=num_values)


def allocate(sizes: Sequence[FileSize], form: LineFormat, absent: float, sparse: bool) -> DocumentRows:
    """Returns arrays for the documents of all files.

    Args:
        sparse: whether to store only the values that the lines have, which `count_files` has counted.

    Raises:
        DataError: They do not fit into memory.
    """
    total = reduce(add, (size.total for size in sizes))
    # A line with a larger index is invalid; the second pass reports it.
    width = form.num_features or min(max(total.largest + 1 - form.first_index, 0), MAX_FEATURES)
    num_values = total.num_values if sparse else None
    num_bytes = DocumentRows.num_bytes(total.num_documents, width, total.longest_id, num_values)
    num_bytes += width * _BYTES_PER_NAME
    available = available_bytes()
    if num_bytes > available:
        # The widest line may be no document at all.
        place = f"{file_of_largest(sizes)}:{total.line}"
        parse_line(total.text, place, replace(form, needs_qid=False))
        with_values = f" and {num_values} values" if sparse else ""
        raise DataError(
            f"{place}: {_cause(total, width, form)}; with {total.num_documents} documents{with_values} "
            f"the data needs {num_bytes / 1e9:.1f} GB of memory as float32, but only "
            f"{available / 1e9:.1f} GB are available. {_remedy(total, width, form, sparse)}"
        )
    return DocumentRows.allocate(total.num_documents, width, total.longest_id, absent, num_values)


def file_of_largest(sizes: Sequence[FileSize]) -> Path:
    """Returns the first file with the largest feature index."""
    return max(sizes, key=lambda size: size.total.largest).path


def _cause(total: Counts, width: int, form: LineFormat) -> str:
    if form.num_features is not None:
        return f"num_features is {width}"
    return f"the largest feature index is on this line and requires {width} features"


def _remedy(total: Counts, width: int, form: LineFormat, sparse: bool) -> str:
    """Returns the remedy: for a mistake in one line, or for data that is too large for this machine."""
    if form.num_features is None and total.second + 1 - form.first_index <= width / 2:
        others = f"The largest index of all other lines is {total.second}. " if total.second >= 0 else ""
        return f"{others}Check that index, and number the features without gaps."
    only_stored = (
        "If the lines omit most features, set sparse=true (in a run data.sparse=true), which needs memory "
        "only for the values that they have. Otherwise "
    )
    only_stored = "" if sparse else only_stored
    smaller = "use a machine or a container with more memory, fewer documents or fewer features."
    remedy = f"{only_stored}{smaller}"
    return f"The indices of other lines are of the same size. {remedy[0].upper()}{remedy[1:]}"
