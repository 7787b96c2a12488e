"""Size of LETOR text, counted in a first pass over its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from pathlib import Path

from ltrbench.data.formats.compression import Text
from ltrbench.data.formats.letor.line import document_id
from ltrbench.data.formats.units import Unit, for_each_unit


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
    from ltrbench.data.formats.letor.kernels import counting

    counts = counting.count_lines(unit.content).tolist()
    start, longest_id = counts[counting.PLACE], counts[counting.LONGEST_DOCUMENT_ID]
    if longest_id < 0:  # only Python decodes ids that are not ASCII
        parts = [line.partition(b"#") for line in unit.memory[: unit.size].split(b"\n")]
        longest_id = max(len(document_id(bytes(comment))) for content, _, comment in parts if content.strip())
    return Counts(
        num_documents=counts[counting.DOCUMENTS],
        num_lines=counts[counting.LINES],
        num_bytes=unit.size,
        largest=counts[counting.LARGEST_INDEX],
        line=counts[counting.LINE] + 1,
        text=bytes(unit.memory[start : unit.memory.index(b"\n", start)]),
        second=counts[counting.SECOND_INDEX],
        longest_id=longest_id,
        num_weights=counts[counting.WEIGHTS],
        num_values=counts[counting.VALUES],
    )


def file_of_largest(sizes: Sequence[FileSize]) -> Path:
    """Returns the first file with the largest feature index."""
    return max(sizes, key=lambda size: size.total.largest).path
