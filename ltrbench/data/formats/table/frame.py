"""DataFrames: typed columns, which must contain numbers or text."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import is_id
from ltrbench.data.formats.table.cells import (
    MISSING_TYPES,
    joined_ids,
    joined_texts,
    not_a_number,
    number_of,
)
from ltrbench.data.formats.table.filling import LENGTH_ROWS, TABLE_BLOCK_BYTES, TableBlock
from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_ROWS_OF_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class FrameTable:
    """DataFrame with its column names as text; the index is ignored."""

    name: str
    frame: pd.DataFrame
    first_row: int = 0  # number of rows of the table before these

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    @cached_property
    def _numbers_of_columns(self) -> dict[str, int]:
        return {column: number for number, column in enumerate(self.columns)}

    @property
    def num_rows(self) -> int:
        return len(self.frame)

    @property
    def max_rows(self) -> int:
        return self.num_rows

    def read(
        self, roles: Sequence[str], features: Sequence[str], take: Callable[[TableBlock, Sequence[str]], None]
    ) -> FrameTable:
        """Calls `take` with each block of rows and the columns `features`, and returns the table itself."""
        size = max(TABLE_BLOCK_BYTES // (8 * len(self.columns)), 1)
        for start in range(0, self.num_rows, size):
            take(
                FrameTable(self.name, self.frame.iloc[start : start + size], self.first_row + start), features
            )
        return self

    def place(self, row: int) -> str:
        return f"{self.name}: row {self.first_row + row + 1}"

    def texts(self, column: str) -> list[str]:
        return joined_texts(self._pieces(column), column, self.place)

    def ids(self, column: str) -> NDArray[np.str_]:
        return joined_ids(self._pieces(column), column, self.place)

    def _pieces(self, column: str) -> Iterator[list[str]]:
        """Yields the ids of consecutive rows; raises DataError if a row has none."""
        values = self._column(column)
        for start in range(0, self.num_rows, _ROWS_OF_PIECE):
            cells = values.iloc[start : start + _ROWS_OF_PIECE].astype(object).tolist()
            odd = next((row for row, cell in enumerate(cells) if not is_id(cell)), None)
            if odd is not None:
                raise _no_id(self.place(start + odd), column, cells[odd])
            yield [str(cell) for cell in cells]

    def id_length(self, column: str) -> int:
        """Returns the number of characters of the longest cell of a column in the first rows."""
        cells = self._column(column).iloc[:LENGTH_ROWS].astype(object).tolist()
        return max((len(str(cell)) for cell in cells), default=0)

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        from pandas.api import types

        values = self._column(column)
        if types.is_numeric_dtype(values) and not types.is_complex_dtype(values):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        numbers = np.empty(len(values))
        for row, cell in enumerate(values.astype(object).tolist()):
            try:
                numbers[row] = number_of(cell)
            except ValueError:
                raise not_a_number(self.place(row), column, cell, remedy) from None
        return numbers

    def distinct(self, column: str) -> tuple[list[Any], NDArray[np.int64]]:
        """Returns the distinct cells, in the order of their first rows, and (n,) the cell of each row."""
        import pandas as pd

        try:
            cell_of_row, distinct = pd.factorize(self._column(column), use_na_sentinel=False)
        except TypeError:  # cells that cannot be compared, such as lists
            cells = self._column(column).astype(object).tolist()
            odd = next((row for row, cell in enumerate(cells) if not isinstance(cell, Hashable)), 0)
            raise DataError(
                f"{self.place(odd)}: column '{column}' is {cells[odd]!r}; every row needs a single value. "
                "Convert the column, or choose another one."
            ) from None
        return pd.Index(distinct).astype(object).tolist(), np.asarray(cell_of_row, dtype=np.int64)

    def _column(self, column: str) -> pd.Series[Any]:
        return self.frame.iloc[:, self._numbers_of_columns[column]]


def _no_id(place: str, column: str, cell: object) -> DataError:
    """Returns the error for a cell that cannot be an id."""
    named = f"{place}: column '{column}' is {cell!r}"
    # A number that is no id is NaN.
    if cell is None or isinstance(cell, numbers.Real | Decimal) or type(cell).__name__ in MISSING_TYPES:
        return DataError(f"{named}; every row needs an id, a string or a number. Add it, or remove the row.")
    if isinstance(cell, datetime.date | datetime.time):
        return DataError(
            f"{named}, a date or time, whose text as an id would depend on the file format. Write the column "
            "as text, for example in pandas with frame[column].astype(str), or choose another column."
        )
    return DataError(
        f"{named}; every row needs an id, a string or a number. Write the column as text, or choose another "
        "column."
    )
