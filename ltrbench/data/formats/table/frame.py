"""DataFrames and Parquet files: typed columns, which must contain numbers or text."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import is_id
from ltrbench.data.formats.compression import without_compression_ending
from ltrbench.data.formats.table.cells import check_ids, check_no_repeat, not_a_number, number_of
from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PARQUET = ".parquet"


@dataclass(frozen=True, eq=False)
class FrameTable:
    """DataFrame with its column names as text; the index is ignored."""

    name: str
    frame: pd.DataFrame

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    @property
    def num_rows(self) -> int:
        return len(self.frame)

    def place(self, row: int) -> str:
        return f"{self.name}: row {row + 1}"

    def texts(self, column: str) -> list[str]:
        cells = self._column(column).astype(object).tolist()
        odd = next((row for row, cell in enumerate(cells) if not is_id(cell)), None)
        if odd is not None:
            raise DataError(
                f"{self.place(odd)}: column '{column}' is {cells[odd]!r}; every row needs an id, a string or "
                "a number."
            )
        texts = [str(cell) for cell in cells]
        check_ids(texts, column, self.place)
        return texts

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
        return self.frame.iloc[:, self.columns.index(column)]


def is_parquet(path: Path) -> bool:
    """Returns whether a path has the extension of a Parquet file.

    Raises:
        DataError: The path has the extension of a compression format after it.
    """
    plain = without_compression_ending(path)
    if plain.suffix.lower() == PARQUET and plain != path:
        raise DataError(
            f"{path}: a compressed Parquet file is not supported, because Parquet compresses its content. "
            f"Decompress it, or rename it to {plain.name}."
        )
    return path.suffix.lower() == PARQUET


def read_parquet(path: Path) -> FrameTable:
    """Reads a Parquet file, or a folder of its parts.

    The types come from the schema of the file. The metadata that pandas adds is used only to find its index.

    Raises:
        DataError: The file does not exist or cannot be read.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # pyarrow's error for a repeated column name is a dozen lines that do not give the reason.
        check_no_repeat(parquet.ParquetDataset(path).schema.names, str(path))
        table = parquet.read_table(path)
        # Otherwise invalid UTF-8 raises an error only when a cell is accessed.
        table.validate(full=True)
        rows = table.drop_columns(_index_columns(table.schema)).replace_schema_metadata(None)
        return FrameTable(str(path), rows.to_pandas(ignore_metadata=True))
    except FileNotFoundError:
        raise DataError(f"{path}: the file does not exist. Check the path.") from None
    # Base classes of the exceptions that pandas and pyarrow raise on damaged files.
    except (ValueError, OSError, EOFError, RuntimeError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: the file cannot be read as a Parquet table ({error}). Repair or replace the file."
        ) from None


def _index_columns(schema: pa.Schema) -> list[str]:
    """Returns the columns in which pandas stored the index of a DataFrame, which are not features.

    Raises:
        ValueError: The pandas metadata is damaged.
    """
    noted = (schema.metadata or {}).get(b"pandas", b"{}")
    try:
        columns = json.loads(noted).get("index_columns", [])
        # A plain row-number index has no column, and is described by an object.
        return [name for name in columns if isinstance(name, str) and name in schema.names]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"the pandas metadata about the index is damaged: {error}") from None
