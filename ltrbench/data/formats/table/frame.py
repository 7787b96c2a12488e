"""DataFrames and Parquet files: columns of any type, of which those of numbers and texts are taken."""

from __future__ import annotations

import json
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
    """A DataFrame. Columns are called by the text of their names; its index is not looked at."""

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
                f"{self.place(odd)}: column '{column}' is {cells[odd]!r}; give each row its id, a "
                "text or a number."
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

    def _column(self, column: str) -> pd.Series[Any]:
        return self.frame.iloc[:, self.columns.index(column)]


def is_parquet(path: Path) -> bool:
    """Whether a path names a Parquet file; compression around one is refused.

    Raises:
        DataError: where the name has the ending of a compression as well.
    """
    plain = without_compression_ending(path)
    if plain.suffix.lower() == PARQUET and plain != path:
        raise DataError(f"{path}: a Parquet file is compressed within; unpack it, or name it {plain.name}.")
    return path.suffix.lower() == PARQUET


def read_parquet(path: Path) -> FrameTable:
    """Reads a Parquet file, or a folder of its parts.

    What pandas noted of its own types is not needed, and not looked at where it may be damaged: the file's
    schema says what the columns hold.

    Raises:
        DataError: where it is absent or cannot be read.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # pyarrow reports a column that is there twice in a dozen lines, none of which says so.
        check_no_repeat(parquet.ParquetDataset(path).schema.names, str(path))
        table = parquet.read_table(path)
        # Otherwise text that is not UTF-8 raises only where a cell is looked at.
        table.validate(full=True)
        rows = table.drop_columns(_index_columns(table.schema)).replace_schema_metadata(None)
        return FrameTable(str(path), rows.to_pandas(ignore_metadata=True))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path.") from None
    # What pandas and pyarrow raise on damaged files has these bases in common.
    except (ValueError, OSError, EOFError, RuntimeError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as a table ({error}); mend or replace the file.") from None


def _index_columns(schema: pa.Schema) -> list[str]:
    """The columns in which pandas wrote a DataFrame's index, which is no feature.

    Raises:
        ValueError: where pandas' note of them is damaged.
    """
    noted = (schema.metadata or {}).get(b"pandas", b"{}")
    try:
        columns = json.loads(noted).get("index_columns", [])
        # An index that only counts rows has no column, and is noted as an object.
        return [name for name in columns if isinstance(name, str) and name in schema.names]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"its note on pandas' index is damaged: {error}") from None
