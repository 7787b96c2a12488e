"""LightGBM's companion files of a data file: FILE.query, FILE.weight and FILE.position.

`.query` has one line per query, its number of documents; `.weight` and `.position` have one line per
document. For a compressed data file the companion files have the name of the uncompressed file; their content
may be compressed. LightGBM treats positions as categories: whole numbers are used unchanged, words are
numbered from 0 in the order of their first occurrence.
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
    """Contents of the companion files; None for a file that does not exist."""

    query_sizes: NDArray[np.int64] | None  # (Q,), each at least 1
    weights: NDArray[np.float64] | None  # (D,)
    positions: list[str] | None  # (D,)


NOTHING_BESIDE = Companions(query_sizes=None, weights=None, positions=None)


def companion(path: Path, ending: str) -> Path:
    """Returns the path of the companion file with query sizes, weights or positions.

    >>> companion(Path("rank.train.gz"), ".query").name
    'rank.train.query'
    """
    return Path(f"{without_compression_ending(path)}{ending}")


def read_companions(path: Path) -> Companions:
    """Reads the existing companion files of `path`.

    Raises:
        DataError: A line is empty or is not one value (`.query`: a whole number from 1; `.weight`: a number
            of 0 or more; `.position`: a whole number of 0 or more, or a word); a companion file has a name
            under which it would be ignored.
    """
    _check_names(path)
    query, weight, position = (companion(path, ending) for ending in ENDINGS)
    return Companions(
        query_sizes=np.array(_read_sizes(query), dtype=np.int64) if query.exists() else None,
        weights=np.array(_read_weights(weight), dtype=np.float64) if weight.exists() else None,
        positions=_read_positions(position) if position.exists() else None,
    )


def check_companions(companions: Companions, path: Path, num_documents: int) -> None:
    """Raises DataError if a companion file does not match the number of documents in `path`."""
    sizes = companions.query_sizes
    if sizes is not None and sizes.sum() != num_documents:
        where = f"{companion(path, '.query')}:{_line_of_sum(sizes, num_documents)}"
        raise DataError(
            f"{where}: the {len(sizes)} query sizes sum to {sizes.sum()} documents, but {path} has "
            f"{num_documents} documents. Use the .query file that belongs to this data file."
        )
    for ending, column in ((".weight", companions.weights), (".position", companions.positions)):
        if column is not None and len(column) != num_documents:
            raise DataError(
                f"{companion(path, ending)}: the file has {len(column)} lines, but {path} has "
                f"{num_documents} documents. Use the {ending} file that belongs to this data file, with one "
                "line per document."
            )


def number_positions(positions: list[str]) -> NDArray[np.int64]:
    """Returns (D,) position numbers: the values if all are whole numbers, else indices by first occurrence.

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
                f"{where}: the query size is {quote(token)}; write the number of documents of the query, a "
                "whole number from 1, one line per query, and remove empty queries."
            )
        sizes.append(int(token))
    # Python integers do not overflow; a NumPy sum could wrap around unnoticed.
    if sum(sizes) >= 2**63:
        raise DataError(
            f"{path}: the query sizes sum to {sum(sizes)} documents, more than 2^63. Check that this is a "
            ".query file."
        )
    return sizes


def _read_weights(path: Path) -> list[float]:
    weights = []
    for where, token in _lines(path):
        weight = float(token) if is_number(token) else float("nan")
        if not 0 <= weight < float("inf"):
            raise DataError(
                f"{where}: the weight is {quote(token)}; write a finite number of 0 or more, one line per "
                "document."
            )
        weights.append(weight)
    return weights


def _read_positions(path: Path) -> list[str]:
    positions = []
    for where, token in _lines(path):
        number = float(token) if is_number(token) else 0.0
        # Above 2^53 a double does not represent every whole number.
        if not (0 <= number < 2**53 and number.is_integer()):
            raise DataError(
                f"{where}: the position is {quote(token)}; write a whole number of 0 or more, or a word, one "
                "line per document."
            )
        positions.append(str(int(number)) if is_number(token) else token.decode(errors="backslashreplace"))
    return positions


def _check_names(path: Path) -> None:
    """Raises DataError for FILE.query.gz and FILE.gz.query, which are mistaken for FILE.query."""
    for ending in ENDINGS:
        right = companion(path, ending)
        packed = [Path(f"{right}{kind.ending}") for kind in COMPRESSIONS]
        odd = next(
            (file for file in [*packed, Path(f"{path}{ending}")] if file != right and file.exists()), None
        )
        if odd is not None:
            raise DataError(
                f"{odd}: this companion file of {path} would be ignored, because its name is not "
                f"{right.name}. Rename it to {right.name}, compressed or not, or remove it."
            )


def _line_of_sum(sizes: NDArray[np.int64], num_documents: int) -> int:
    """Returns the line at which the cumulative sizes exceed the number of documents, or the last line."""
    return min(int(np.searchsorted(np.cumsum(sizes), num_documents, side="right")) + 1, max(len(sizes), 1))


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yields `path:line` and the stripped text of each line; only trailing lines may be blank."""
    blank = None
    for text, first_line in read_blocks(path):
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), first_line):
            token = line.strip()
            if token and blank is not None:
                raise DataError(f"{path}:{blank}: the line is empty; write one value on every line.")
            if token:
                yield f"{path}:{number}", token
            elif blank is None:
                blank = number
