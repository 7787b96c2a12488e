"""StackedRows: arrays or matrices one below the other as one matrix, such as the shards of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features.matrix import (
    AnyFeatures,
    FeatureMatrix,
    arrays_of,
    gather_rows,
    read_only,
    read_rows,
    release,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features


class StackedRows(FeatureMatrix):
    """The rows of all parts, in the order of the parts.

    Args:
        parts: at least one float32 array in C order or matrix, each (any number of rows, F).

    Raises:
        DataError: There is no part, or a part has another type, order or number of features.

    >>> upper, lower = np.zeros((2, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
    >>> StackedRows([upper, lower])[1:].tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """

    def __init__(self, parts: Sequence[AnyFeatures]) -> None:
        if not parts:
            raise DataError("parts: the list is empty; a matrix needs at least one part.")
        for number, part in enumerate(parts):
            _check_part(part, f"parts[{number}]", parts[0].shape[-1])
        self.parts = tuple(part if isinstance(part, FeatureMatrix) else read_only(part) for part in parts)
        self.row_start = np.concatenate([[0], np.cumsum([len(part) for part in parts])])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.row_start[-1]), int(self.parts[0].shape[1])

    @property
    def memory_remedy(self) -> str:
        part = self.parts[0]
        return part.memory_remedy if isinstance(part, FeatureMatrix) else super().memory_remedy

    def rows(self, start: int, stop: int) -> Features:
        first = int(np.searchsorted(self.row_start[1:-1], start, side="right"))
        last = max(int(np.searchsorted(self.row_start[1:-1], stop, side="left")), first)
        pieces = []
        for part, row_start in zip(self.parts[first : last + 1], self.row_start[first:], strict=False):
            begin, end = max(start - int(row_start), 0), min(stop - int(row_start), len(part))
            pieces.append(read_rows(part, begin, end))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        number = np.searchsorted(self.row_start[1:-1], rows, side="right")
        for of_part in np.unique(number):
            places = np.flatnonzero(number == of_part)
            part = self.parts[of_part]
            gathered[places] = gather_rows(part, rows[places] - self.row_start[of_part])
            release(part)
        return gathered

    def arrays(self) -> Iterator[NDArray[Any]]:
        for part in self.parts:
            yield from arrays_of(part)


def _check_part(part: AnyFeatures, name: str, num_features: int) -> None:
    if part.ndim != 2 or part.dtype != np.float32 or part.shape[1] != num_features:
        raise DataError(
            f"{name} has the dtype {part.dtype} and the shape {part.shape}; each part must be float32 with "
            f"two dimensions and {num_features} columns, as the first part."
        )
    if isinstance(part, np.ndarray) and not part.flags.c_contiguous:
        raise DataError(f"{name} is not in C order; pass numpy.ascontiguousarray of it.")
