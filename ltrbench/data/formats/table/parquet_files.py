"""Parquet files, or folders of their parts, read by row groups and by some columns at a time.

The types of the columns come from the schema of the file. The metadata that pandas adds is used only to find
its index.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltrbench.data.formats.compression import without_compression_ending
from ltrbench.data.formats.table.cells import check_no_repeat
from ltrbench.data.formats.table.filling import LENGTH_ROWS, TABLE_BLOCK_BYTES, TableBlock
from ltrbench.data.formats.table.frame import FrameTable
from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PARQUET = ".parquet"
_BYTES_PER_CELL = 12  # of the file, of pyarrow's column and of NumPy's, for float32 values


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


@dataclass(frozen=True, eq=False)
class ParquetFile:
    """Parquet file, or folder of its parts, whose metadata has been read.

    Attributes:
        name: path, for messages.
        columns: names of the columns, without the index of a DataFrame.
        max_rows: number of rows.
    """

    name: str
    columns: tuple[str, ...]
    max_rows: int
    _schema: pa.Schema
    _row_groups: tuple[Any, ...]  # a pyarrow.dataset.Fragment each, in the order of the rows

    def read(
        self, roles: Sequence[str], features: Sequence[str], take: Callable[[TableBlock, Sequence[str]], None]
    ) -> FrameTable:
        """Reads columns of the file; the others are not read.

        Args:
            roles: columns of any type.
            features: columns of numbers.
            take: called with each block of rows and some of the columns `features`.

        Returns:
            The columns `roles` of all rows.

        Raises:
            DataError: The file cannot be read.
        """
        import pyarrow as pa

        with _naming_damage(self.name):
            first_row = 0
            for part in self._row_groups:
                num_rows = _num_rows(part)
                size = max(TABLE_BLOCK_BYTES // (_BYTES_PER_CELL * num_rows), 1)
                for start in range(0, len(features), size):
                    columns = features[start : start + size]
                    frame = _frame(self._table(part, columns))
                    FrameTable(self.name, frame, first_row).read((), columns, take)
                first_row += num_rows
            # At last, so that they use the memory of the features' blocks.
            frame = _frame(pa.concat_tables([self._table(part, roles) for part in self._row_groups]))
            # A DataFrame without columns has no rows.
            return FrameTable(self.name, frame if roles else frame.reindex(range(self.max_rows)))

    def id_length(self, column: str) -> int:
        """Returns the number of characters of the longest cell of a column in the first rows.

        Raises:
            DataError: The file cannot be read.
        """
        with _naming_damage(self.name):
            first = self._row_groups[0]
            scanner = first.scanner(schema=self._schema, columns=[column], batch_size=LENGTH_ROWS)
            rows = scanner.head(LENGTH_ROWS)
            rows.validate(full=True)  # see `_table`
            return FrameTable(self.name, _frame(rows)).id_length(column)

    def _table(self, part: Any, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        table = part.to_table(schema=self._schema, columns=list(columns))
        # Otherwise invalid UTF-8 raises an error only when a cell is accessed.
        table.validate(full=True)
        if table.num_rows != _num_rows(part):
            raise ValueError(f"a row group has {table.num_rows} rows instead of {_num_rows(part)}")
        # pyarrow keeps freed memory for a while, several times that of a block.
        pa.default_memory_pool().release_unused()
        return table.replace_schema_metadata(None)


def open_parquet(path: Path) -> ParquetFile:
    """Reads the metadata of a Parquet file, or of a folder of its parts.

    Raises:
        DataError: The file does not exist or cannot be read, or two columns have the same name.
    """
    from pyarrow import parquet

    with _naming_damage(str(path)):
        dataset = parquet.ParquetDataset(path)
        schema = dataset.schema
        # pyarrow's error for a repeated column name is a dozen lines that do not give the reason.
        check_no_repeat(schema.names, str(path))
        index = _index_columns(schema)
        parts = [part for fragment in dataset.fragments for part in fragment.split_by_row_group()]
        parts = [part for part in parts if _num_rows(part) > 0]
        columns = tuple(name for name in schema.names if name not in index)
        return ParquetFile(str(path), columns, sum(map(_num_rows, parts)), schema, tuple(parts))


def _frame(table: pa.Table) -> pd.DataFrame:
    # Each column is an array of its own, which is not copied if NumPy has its type.
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, split_blocks=True)
    return frame


def _num_rows(part: Any) -> int:
    return int(part.row_groups[0].num_rows)


@contextlib.contextmanager
def _naming_damage(name: str) -> Iterator[None]:
    """Turns the exceptions of pyarrow and pandas for a damaged file into a DataError."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name}: the file does not exist. Check the path.") from None
    # Base classes of the exceptions that pandas and pyarrow raise on damaged files.
    except (ValueError, OSError, EOFError, RuntimeError, pa.ArrowException) as error:
        raise DataError(
            f"{name}: the file cannot be read as a Parquet table ({error}). Repair or replace the file."
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
