"""Features of tables: allocated once, filled block by block, and ordered in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import array_in_file, fits_on_disk, on_disk_remedy
from ltrbench.data.formats.letor.blocks import changed_between_passes
from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes
from ltrbench.shapes import Features

TABLE_BLOCK_BYTES = 1 << 22
"""Approximate memory of a block: small beside a large table, and large beside the overhead of a call."""

LENGTH_ROWS = 1000
"""Number of first rows that give an estimate of the length of ids."""

_BYTES_PER_ROW = 16  # a label and the query of a row
_BYTES_PER_TEXT = 16  # a text column of any length: offsets, and references to its texts
_BYTES_PER_CHARACTER = 8  # of an id in NumPy, 4 bytes, twice while pieces are joined; all ids have one width

_REMEDY = (
    "encode it as a number, or list the features without it in `features` (in a run data.features); if it is "
    "the time or the group of a query, set split_by or group_by to the column"
)


class TableBlock(Protocol):
    """Consecutive rows of a table, with some of its columns."""

    @property
    def name(self) -> str: ...

    @property
    def first_row(self) -> int: ...

    @property
    def num_rows(self) -> int: ...

    def place(self, row: int) -> str: ...

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]: ...


def allocate_features(
    names: Sequence[str], shape: tuple[int, int], lengths: Mapping[str, int], scratch: Path | None
) -> Features:
    """Returns an array for the features of tables.

    Args:
        names: names of the tables.
        shape: maximum number of rows of all tables, and number of features.
        lengths: role -> estimated number of characters in a cell of its column, for roles that are read.
        scratch: folder of a temporary file for features that do not fit into memory; None: they are refused.

    Raises:
        DataError: The features, with the columns of roles, do not fit into memory; or the columns of roles do
            not, or the features do not fit on the disk of `scratch`.
    """
    of_roles = shape[0] * (_BYTES_PER_ROW + _text_bytes(lengths))
    num_bytes, available = of_roles + 4 * shape[0] * shape[1], available_bytes()
    if num_bytes <= available:
        return np.empty(shape, dtype=np.float32)
    need = f"{', '.join(names)}: {shape[0]} rows with {shape[1]} features"
    if of_roles > available:
        raise DataError(
            f"{need} need {of_roles / 1e9:.1f} GB of memory for labels and ids (the first rows have "
            f"{_shown_lengths(lengths)}), even if the features are on the disk, but only "
            f"{available / 1e9:.1f} GB are available. Write shorter ids, remove the column of document ids, "
            "or use a machine or a container with more memory, or fewer rows."
        )
    if scratch is not None and fits_on_disk(scratch, shape):
        return array_in_file(scratch, shape, 0.0)
    remedy = f"{on_disk_remedy(shape, scratch)}; or use a machine or a container with more memory, fewer "
    raise DataError(
        f"{need} need {num_bytes / 1e9:.1f} GB of memory, {of_roles / 1e9:.1f} GB of it for labels and ids, "
        f"but only {available / 1e9:.1f} GB are available. {remedy[0].upper()}{remedy[1:]}rows, or fewer "
        "features (in a run data.features)."
    )


def _text_bytes(lengths: Mapping[str, int]) -> int:
    """Returns the memory of the text columns of a row; document ids also become an array of NumPy."""
    of_texts = sum(_BYTES_PER_TEXT + length for length in lengths.values())
    return of_texts + _BYTES_PER_CHARACTER * lengths.get("document", 0)


def _shown_lengths(lengths: Mapping[str, int]) -> str:
    columns = [f"{role} of {length} characters" for role, length in lengths.items() if role != "label"]
    return ", ".join(columns) or "none"


class FeatureRows:
    """Features of the tables of one split, filled table by table, each block by block.

    An invalid value does not end the filling, because another column, or another table, may have an error
    that is reported first, wherever the blocks end: that of the first table with an error, of the first such
    column, and of the first such row; among these, a cell that is not a number before an infinite one.
    """

    def __init__(self, chosen: Sequence[str], features: NDArray[np.float32]) -> None:
        """
        Args:
            chosen: feature columns, in the order of the features.
            features: (rows, F), filled from the first row; there may be more rows than the tables have.
        """
        self._features = features
        self._numbers: dict[str, list[int]] = {}
        for number, column in enumerate(chosen):
            self._numbers.setdefault(column, []).append(number)
        self._start = self._table = 0
        self._error: tuple[tuple[int, int, int], DataError] | None = None

    def take(self, block: TableBlock, columns: Sequence[str]) -> None:
        """Copies columns of a block of the current table.

        Raises:
            DataError: The table has more rows than before.
        """
        start = self._start + block.first_row
        rows = self._features[start : start + block.num_rows]
        if len(rows) != block.num_rows:
            raise changed_between_passes(Path(block.name))
        for column in columns:
            numbers = self._numbers[column]
            try:
                values = block.numbers(column, _REMEDY)
            except DataError as error:
                self._note((self._table, numbers[0], 0), error)
                continue
            # Values beyond float32 become infinite, an error below; a signalling NaN is "invalid".
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = values.astype(np.float32)
            infinite = np.flatnonzero(np.isinf(rounded))
            if infinite.size:
                row = int(infinite[0])
                self._note((self._table, numbers[0], 1), _infinite(block.place(row), column, values[row]))
            for number in numbers:
                rows[:, number] = rounded

    def end_table(self, num_rows: int) -> None:
        """Ends a table, with its number of rows."""
        self._start += num_rows
        self._table += 1

    def complete(self) -> Features:
        """Returns the (D, F) features of all tables.

        Raises:
            DataError: A cell is not a number, or is infinite in float32.
        """
        if self._error is not None:
            raise self._error[1]
        return self._features[: self._start]

    def _note(self, key: tuple[int, int, int], error: DataError) -> None:
        if self._error is None or key < self._error[0]:
            self._error = key, error


def _infinite(place: str, column: str, value: float) -> DataError:
    return DataError(
        f"{place}: column '{column}' is {value}; features must be finite in float32. Rescale the feature, "
        "and leave missing values empty."
    )


def order_rows(features: Features, order: NDArray[np.int64] | None) -> None:
    """Reorders the rows of (D, F) features in place: row i becomes row `order[i]`; None: the order stays.

    >>> features = np.arange(6, dtype=np.float32).reshape(3, 2)
    >>> order_rows(features, np.array([2, 0, 1]))
    >>> features.tolist()
    [[4.0, 5.0], [0.0, 1.0], [2.0, 3.0]]
    """
    if order is None:
        return
    num_rows, num_features = features.shape
    # Some columns at a time, so that the copy is at most a sixteenth of the features.
    width = max(num_features // 16, TABLE_BLOCK_BYTES // (4 * num_rows), 1)
    for start in range(0, num_features, width):
        columns = features[:, start : start + width]
        columns[:] = columns[order]
