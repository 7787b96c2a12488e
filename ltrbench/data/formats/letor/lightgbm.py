"""What LightGBM keeps in files beside a data file: FILE.query, FILE.weight and FILE.position.

`.query` holds a line a query, its number of documents; `.weight` and `.position` hold a line a document.
Beside a compressed file they bear the name of the unpacked one, packed or not themselves. Positions are
categories to LightGBM: whole numbers are taken as they are, words are numbered from 0 in the order in which
they first occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.compression import COMPRESSIONS, read_blocks, without_compression_ending
from ltrbench.data.formats.letor.line import is_number, quote
from ltrbench.errors import DataError

ENDINGS = (".query", ".weight", ".position")

_SIZE = re.compile(rb"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class Companions:
    """The content of the files beside a data file; None for one that is not there."""

    query_sizes: NDArray[np.int64] | None  # (Q,), each at least 1
    weights: NDArray[np.float64] | None  # (D,)
    positions: list[str] | None  # (D,)


NOTHING_BESIDE = Companions(query_sizes=None, weights=None, positions=None)


def companion(path: Path, ending: str) -> Path:
    """The file beside `path` that holds its queries, weights or positions.

    >>> companion(Path("rank.train.gz"), ".query").name
    'rank.train.query'
    """
    return Path(f"{without_compression_ending(path)}{ending}")


def read_companions(path: Path) -> Companions:
    """Reads the files beside `path` that are there.

    Raises:
        DataError: where a line is not one value (`.query`: a whole number from 1; `.weight`: a number of 0 or
            more; `.position`: a whole number of 0 or more, or a word), or is empty; where a file lies beside
            under a name by which it would be passed over.
    """
    _check_names(path)
    query, weight, position = (companion(path, ending) for ending in ENDINGS)
    return Companions(
        query_sizes=np.array(_read_sizes(query), dtype=np.int64) if query.exists() else None,
        weights=np.array(_read_weights(weight), dtype=np.float64) if weight.exists() else None,
        positions=_read_positions(position) if position.exists() else None,
    )


def check_companions(companions: Companions, path: Path, num_documents: int) -> None:
    """Raises a DataError where a file beside `path` is not made for its number of documents."""
    sizes = companions.query_sizes
    if sizes is not None and sizes.sum() != num_documents:
        where = f"{companion(path, '.query')}:{_line_of_sum(sizes, num_documents)}"
        raise DataError(
            f"{where}: the sizes add up to {sizes.sum()} documents in {len(sizes)} lines, but {path} has "
            f"{num_documents} documents. Take the .query file that belongs to this data file."
        )
    for ending, column in ((".weight", companions.weights), (".position", companions.positions)):
        if column is not None and len(column) != num_documents:
            raise DataError(
                f"{companion(path, ending)}: has {len(column)} lines, but {path} has {num_documents} "
                f"documents. Give one line a document: take the {ending} file that belongs to this data file."
            )


def number_positions(positions: list[str]) -> NDArray[np.int64]:
    """(D,), each position's number: itself where all are whole numbers, else from 0 as they first occur.

    >>> number_positions(["3", "1", "3"]).tolist(), number_positions(["top", "side", "top"]).tolist()
    ([3, 1, 3], [0, 1, 0])
    """
    if all(position.isascii() and position.isdigit() for position in positions):
        return np.array([int(position) for position in positions], dtype=np.int64)
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(position, len(number_of)) for position in positions])


def _read_sizes(path: Path) -> list[int]:
    sizes = []
    for where, token in _lines(path):
        if not _SIZE.fullmatch(token):
            raise DataError(
                f"{where}: {quote(token)} stands where the number of documents of a query, a whole number "
                "from 1, was expected. Give a line a query; leave out empty queries."
            )
        sizes.append(int(token))
    # In Python's whole numbers, which have no end: a sum that wraps around would look like any other.
    if sum(sizes) >= 2**63:
        raise DataError(
            f"{path}: its sizes add up to {sum(sizes)} documents; check that it is a .query file."
        )
    return sizes


def _read_weights(path: Path) -> list[float]:
    weights = []
    for where, token in _lines(path):
        weight = float(token) if is_number(token) else float("nan")
        if not 0 <= weight < float("inf"):
            raise DataError(
                f"{where}: {quote(token)} stands where a document's weight, a finite number of 0 or more, "
                "was expected. Give a line a document."
            )
        weights.append(weight)
    return weights


def _read_positions(path: Path) -> list[str]:
    positions = []
    for where, token in _lines(path):
        number = float(token) if is_number(token) else 0.0
        # From 2^53 on doubles do not tell whole numbers apart.
        if not (0 <= number < 2**53 and number.is_integer()):
            raise DataError(
                f"{where}: {quote(token)} stands where the position of a document, a whole number of 0 or "
                "more or a word, was expected. Give a line a document."
            )
        positions.append(str(int(number)) if is_number(token) else token.decode(errors="backslashreplace"))
    return positions


def _check_names(path: Path) -> None:
    """Refuses FILE.query.gz and FILE.gz.query, which their owner takes for FILE.query."""
    for ending in ENDINGS:
        right = companion(path, ending)
        packed = [Path(f"{right}{kind.ending}") for kind in COMPRESSIONS]
        odd = next(
            (file for file in [*packed, Path(f"{path}{ending}")] if file != right and file.exists()), None
        )
        if odd is not None:
            raise DataError(
                f"{odd}: lies beside {path}, but would be passed over; a file beside is called {right.name}, "
                "packed or not. Rename or remove it."
            )


def _line_of_sum(sizes: NDArray[np.int64], num_documents: int) -> int:
    """The line at which the sizes exceed the documents, or the last one."""
    return min(int(np.searchsorted(np.cumsum(sizes), num_documents, side="right")) + 1, max(len(sizes), 1))


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Each line without its blanks, and where it stands; blank lines are an error but for the last ones."""
    blank = None
    for text, first_line in read_blocks(path):
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), first_line):
            token = line.strip()
            if token and blank is not None:
                raise DataError(f"{path}:{blank}: the line is empty; give every line a value.")
            if token:
                yield f"{path}:{number}", token
            elif blank is None:
                blank = number
