"""Reads and writes tables with named columns: pandas DataFrames, CSV (plain or compressed) and Parquet.

One row is one document. The columns in `ROLES` contain its label, query, document id, weight and position;
every other column is a feature, named after the column. The rows of a query are consecutive. An empty cell of
a feature is a missing value, NaN; `cells` lists the other forms. Messages give the line of a CSV file, with
the header as line 1, or the row of another table, from one.

A table is read by blocks of rows (`FeatureRows`), so that reading needs little more memory than the result.

To support another kind of table, write classes like `CsvFile` and `CsvTable` of `table_files`.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import numbers
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    Gathered,
    PlaceOfRow,
    as_paths,
    check_names,
    check_some_weight,
    check_switch,
    check_whole,
    gather_runs,
    read_twice,
    without_compression_ending,
    write_whole,
)
from ltrbench.data.dataset import RankingDataset, is_id
from ltrbench.data.features import AnyFeatures, CheckedFeatures, is_mapped
from ltrbench.data.frames import NO_NAME, ROLE_OF_NAME, ROLES, to_frame
from ltrbench.data.letor_lines import LONGEST_ID, UNLABELLED, check_label, check_weight, conversion_to_csv
from ltrbench.data.table_files import (
    LENGTH_ROWS,
    MISSING_TYPES,
    SPLIT_ROLES,
    TABLE_BLOCK_BYTES,
    CsvFile,
    CsvTable,
    FeatureRows,
    SplitColumns,
    TableBlock,
    allocate_features,
    check_no_repeat,
    joined_ids,
    joined_texts,
    not_a_number,
    number_of,
    order_rows,
    split_columns,
)
from ltrbench.errors import DataError, did_you_mean
from ltrbench.shapes import Features, Labels

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# ---- DataFrames: typed columns, which must contain numbers or text.

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


# ---- Parquet files, or folders of their parts, read by row groups and by some columns at a time.
#
# The types of the columns come from the schema of the file. The metadata that pandas adds is used only to
# find its index.

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


AnyFile = CsvFile | ParquetFile | FrameTable
AnyTable = CsvTable | FrameTable

_SHOWN = 8  # maximum number of columns in a message
_SHOWN_CHARACTERS = 80  # of a column name, which may be a whole line of another format


def read_table(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    label: str | None = None,
    query: str | None = None,
    document: str | None = None,
    weight: str | None = None,
    position: str | None = None,
    split_by: str | None = None,
    group_by: str | None = None,
    features: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    sort_queries: bool = False,
    whole_labels: bool = False,
    scratch: str | Path | None = None,
) -> RankingDataset:
    """Reads a table into a RankingDataset.

    Args:
        source: a DataFrame; or the path of a .parquet file or a .csv file, plain or compressed; or several
            paths that form one split, where a query may continue in the next file.
        num_features: required number of features; None: any number.
        label, query, document, weight, position: column of each role; None: the name in `ROLES` that the
            table has.
        split_by, group_by: columns of the times and groups of queries, by which a run splits them; validated,
            and no features.
        features: feature columns, in this order; None: all columns without a role. A column listed here has
            no role unless one is assigned above.
        feature_names: features of the training data; the table must have exactly these, in any order.
        sort_queries: group scattered rows by query, in the order of each query's first row; `file_rows` of
            the data set then has the original row of each document.
        whole_labels: reject labels that are not whole numbers.
        scratch: folder of a temporary file for features that do not fit into memory; None: they are an error.

    Raises:
        DataError: The file cannot be read, a row has too few or too many cells, a column is missing, repeated
            or not numeric, or a value is invalid; the message names the file, the line, the column, the value
            and the remedy.
        ConfigError: An option has the wrong type.
    """
    columns = {"label": label, "query": query, "document": document, "weight": weight, "position": position}
    dataset, _ = read_table_to_split(
        source,
        {**columns, "split_by": split_by, "group_by": group_by},
        num_features=num_features,
        features=features,
        feature_names=feature_names,
        sort_queries=sort_queries,
        whole_labels=whole_labels,
        scratch=scratch,
    )
    return dataset


def read_table_to_split(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    given: Mapping[str, str | None],
    *,
    num_features: int | None = None,
    features: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    sort_queries: bool = False,
    whole_labels: bool = False,
    scratch: str | Path | None = None,
) -> tuple[RankingDataset, SplitColumns]:
    """Reads a table, and the columns by which its queries are split.

    Args:
        given: role -> column, for the roles and split columns of `read_table`; the other arguments are those
            of `read_table`.

    Raises:
        DataError, ConfigError: as `read_table`.
    """
    check_switch("sort_queries", sort_queries)
    check_switch("whole_labels", whole_labels)
    _check_lists(features, feature_names)
    with _opened(source) as tables:
        for role in ("label", "query"):
            _check_there(tables[0], role, given[role], features or ())
        columns = _find_columns(tables[0], given, features or ())
        chosen = _find_features(tables[0], columns, features, feature_names, num_features)
        loaded, filled = _read(tables, columns, chosen, scratch)
    dataset = _join(loaded, columns, chosen, filled, sort_queries, whole_labels)
    return dataset, split_columns(loaded, columns)


def read_table_features(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    label: str | None = None,
    query: str | None = None,
    document: str | None = None,
    weight: str | None = None,
    position: str | None = None,
    split_by: str | None = None,
    group_by: str | None = None,
    features: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> Features:
    """Reads the features of a table, which needs neither a label column nor a query column.

    The options are those of `read_table`, but columns of roles may be missing. Labels are validated if there
    are any; columns of the other roles are ignored.

    Returns:
        (D, F), the documents in the order of the rows; the features in the order of `feature_names`, else of
        `features`, else of the table.

    Raises:
        DataError: as `read_table`; only some rows have a label.
        ConfigError: An option has the wrong type.

    >>> import pandas as pd
    >>> read_table_features(pd.DataFrame({"query_id": ["a", "b"], "bm25": [0.5, 1.5]})).tolist()
    [[0.5], [1.5]]
    """
    _check_lists(features, feature_names)
    given = {"label": label, "query": query, "document": document, "weight": weight, "position": position}
    given |= {"split_by": split_by, "group_by": group_by}
    with _opened(source) as tables:
        there = {role: column for role, column in given.items() if column in (None, *tables[0].columns)}
        columns = _find_columns(tables[0], there, features or ())
        chosen = _find_features(tables[0], columns, features, feature_names, num_features)
        labels = {role: column for role, column in columns.items() if role == "label"}
        loaded, filled = _read(tables, labels, chosen, None)
    for table in loaded if labels else ():
        _check_labels_if_any(table, labels["label"])
    return filled.complete()


def _check_lists(features: object, feature_names: object) -> None:
    for option, names in (("features", features), ("feature_names", feature_names)):
        if names is not None:
            check_names(option, names)


def write_table(dataset: RankingDataset, path: str | Path) -> None:
    """Writes a table for `read_table`: Parquet for the extension .parquet, else CSV, which .gz etc. compress.

    Raises:
        DataError: A feature has the name of a role, a name or an id is not valid text, or the file cannot be
            written.
    """
    path = Path(path)
    as_parquet = is_parquet(path)
    try:
        frame = to_frame(dataset)
        with write_whole(path) as stream:
            if as_parquet:
                frame.to_parquet(stream, index=False)
            else:
                # The line endings of RFC 4180; with them pandas quotes an id that contains one.
                frame.to_csv(stream, index=False, lineterminator="\r\n")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path}: an id or a feature name contains {error.object[error.start : error.end]!r}, which is "
            "not valid text. Rename it."
        ) from None


@contextlib.contextmanager
def _opened(source: pd.DataFrame | str | Path | Sequence[str | Path]) -> Iterator[list[AnyFile]]:
    """Yields the tables of one split, which must have the same columns."""
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    with contextlib.ExitStack() as stack:
        if isinstance(source, pd.DataFrame):
            yield _checked([FrameTable("the DataFrame", source)])
        else:
            yield _checked([_open(path, stack) for path in as_paths(source)])


def _open(path: Path, stack: contextlib.ExitStack) -> AnyFile:
    if is_parquet(path):
        return open_parquet(path)
    return CsvFile(path, stack.enter_context(read_twice(path)).blocks)


def _checked(tables: list[AnyFile]) -> list[AnyFile]:
    for table in tables:
        check_no_repeat(table.columns, table.name)
        odd = sorted(set(table.columns) ^ set(tables[0].columns))
        if odd:
            raise DataError(
                f"{table.name}: the columns {', '.join(odd)} are not in both this table and "
                f"{tables[0].name}; the tables of one split must have the same columns."
            )
        _check_rows(table.name, table.max_rows)
    return tables


def _check_rows(name: str, num_rows: int) -> None:
    if num_rows == 0:
        raise DataError(f"{name}: the table has no rows; a data set needs at least one document.")


def _read(
    tables: Sequence[AnyFile],
    columns: Mapping[str, str],
    chosen: Sequence[str],
    scratch: str | Path | None,
) -> tuple[list[AnyTable], FeatureRows]:
    """Returns the columns of roles of each table, and the features of all tables.

    Args:
        columns: role -> column.
    """
    shape = sum(table.max_rows for table in tables), len(chosen)
    names = [table.name for table in tables]
    folder = None if scratch is None else Path(scratch)
    lengths = {
        role: min(max(table.id_length(column) for table in tables), LONGEST_ID)
        for role, column in columns.items()
    }
    filled = FeatureRows(chosen, allocate_features(names, shape, lengths, folder))
    roles = sorted({*columns.values()})
    loaded: list[AnyTable] = []
    for table in tables:
        loaded.append(table.read(roles, list(dict.fromkeys(chosen)), filled.take))
        _check_rows(table.name, loaded[-1].num_rows)
        filled.end_table(loaded[-1].num_rows)
    return loaded, filled


def _find_columns(table: AnyFile, given: Mapping[str, str | None], features: Sequence[str]) -> dict[str, str]:
    """Returns role -> column, for the roles that the table has."""
    listed = set(map(str, features))
    columns = {}
    for role, name in given.items():
        usual = [column for column in ROLES.get(role, ()) if column in table.columns and column not in listed]
        if name is not None and str(name) not in table.columns:
            close = did_you_mean(str(name), table.columns)
            raise DataError(
                f"{table.name}: the table has no column '{name}' for {role}{close} {_listed(table.columns)}"
            )
        if role in SPLIT_ROLES and name in listed:
            raise DataError(
                f"{table.name}: the column '{name}' is in features (in a run data.features) and set as "
                f"{role}; remove it from one of the two, or give the feature a column of its own."
            )
        if name is None and len(usual) > 1:
            raise DataError(
                f"{table.name}: the columns {' and '.join(usual)} are both default names of the {role}; "
                f"choose one with {role}=COLUMN, and remove the other or list the features."
            )
        if name is not None or usual:
            columns[role] = str(name) if name is not None else usual[0]
    _check_one_role_each(table, columns)
    return columns


def _check_there(table: AnyFile, role: str, name: str | None, features: Sequence[str]) -> None:
    """Raises DataError if no column is assigned to a role and none has one of its default names."""
    usual = set(ROLES[role]) & set(table.columns) - set(map(str, features))
    if name is None and not usual:
        if len(table.columns) == 1:
            _check_separator(table)
        unlabelled = f" {UNLABELLED}" if role == "label" else ""
        raise DataError(
            f"{table.name}: the table has no column {' or '.join(ROLES[role])}; set the column of the {role} "
            f"with {role}=COLUMN. {_listed(table.columns)}{unlabelled}"
        )


def _check_separator(table: AnyFile) -> None:
    """Raises DataError if the name of the only column of a table has the separator of other tables."""
    for separator, plural in (("\t", "tabs"), (";", "semicolons")):
        if separator in table.columns[0]:
            header = table.columns[0][:_SHOWN_CHARACTERS]
            raise DataError(
                f"{table.name}: the header {header!r} has {plural}, but cells of a CSV file are separated "
                f"by commas. {conversion_to_csv(separator)}"
            )


def _listed(columns: Sequence[str]) -> str:
    """Returns a sentence with the column names of a table, for messages about a missing column."""
    names = ", ".join(map(repr, columns[:_SHOWN])) + (", ..." if len(columns) > _SHOWN else "")
    if len(columns) == 1:
        return f"Its only column is {names[:_SHOWN_CHARACTERS]}; cells of a CSV file are separated by commas."
    return f"Its columns are {names}."


def _check_one_role_each(table: AnyFile, columns: Mapping[str, str]) -> None:
    role_of: dict[str, str] = {}
    for role, column in columns.items():
        if role not in SPLIT_ROLES and role_of.setdefault(column, role) != role:
            raise DataError(
                f"{table.name}: the column '{column}' is assigned to {role_of[column]} and to {role}; assign "
                "a different column to each."
            )


def _find_features(
    table: AnyFile,
    columns: Mapping[str, str],
    features: Sequence[str] | None,
    feature_names: Sequence[str] | None,
    num_features: int | None,
) -> list[str]:
    """Returns the feature columns, in the order of `feature_names` if they are given."""
    left = [column for column in table.columns if column not in columns.values()]
    chosen = left if features is None else [str(column) for column in features]
    wanted = chosen if feature_names is None else [str(column) for column in feature_names]
    missing = [column for column in wanted if column not in left]
    if missing:
        close = did_you_mean(missing[0], left)
        remedy = (
            ""
            if feature_names is None
            else " The training data has this feature; add the column, with empty cells for missing values."
        )
        raise DataError(f"{table.name}: the table has no feature column '{missing[0]}'{close}{remedy}")
    if features is None and feature_names is None:
        for column in chosen:
            _check_feature(table, column)
    more = [column for column in chosen if column not in wanted]
    if more:
        raise DataError(
            f"{table.name}: the columns {', '.join(more)} are not features of the training data; remove "
            "them, or list the features in data.features."
        )
    if not wanted:
        raise DataError(
            f"{table.name}: the table has no feature column, only {', '.join(columns.values())}; add at "
            "least one feature column."
        )
    if num_features is not None:
        _check_width(table, wanted, num_features)
    return wanted


def _check_feature(table: AnyFile, column: str) -> None:
    """Raises DataError for an unlisted column that is unlikely to be a feature."""
    if NO_NAME.fullmatch(column):
        raise DataError(
            f"{table.name}: column {table.columns.index(column) + 1} has no name ('{column}'), like an index "
            "that pandas wrote. Write the table with index=False, name the column, or list the features."
        )
    if column in ROLE_OF_NAME:
        raise DataError(
            f"{table.name}: the column '{column}' would be read as a feature, but it is a default name of "
            f"the {ROLE_OF_NAME[column]}, for which another column is set. Remove it, or list the features."
        )


def _check_width(table: AnyFile, chosen: Sequence[str], num_features: int) -> None:
    check_whole("num_features", num_features)
    if len(chosen) != num_features:
        raise DataError(
            f"{table.name}: the table has {len(chosen)} feature columns, but {num_features} were expected; "
            "list the features in `features`."
        )


def _join(
    tables: Sequence[AnyTable],
    columns: Mapping[str, str],
    chosen: Sequence[str],
    filled: FeatureRows,
    sort_queries: bool,
    whole_labels: bool,
) -> RankingDataset:
    """Joins the tables into one data set, its rows in the order of `gather_runs`."""
    ends = np.cumsum([table.num_rows for table in tables])

    def place(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return tables[number].place(row - int(ends[number]) + tables[number].num_rows)

    def of_role(role: str, read: Callable[[AnyTable, str], NDArray[Any]]) -> NDArray[Any] | None:
        if role not in columns:
            return None
        parts = [read(table, columns[role]) for table in tables]
        # Ids may take as much memory as the features; they are not copied, but numbers may be views.
        whole = parts[0] if len(parts) == 1 and role == "document" else np.concatenate(parts)
        return gathered.take(whole)

    gathered = _gather(tables, columns["query"], sort_queries, place)
    weights = of_role("weight", _weights)
    if weights is not None:
        check_some_weight(weights, gathered, place)
    parts: dict[str, Any] = {
        "labels": of_role("label", partial(_labels, whole_labels=whole_labels)),
        "document_ids": of_role("document", lambda table, column: table.ids(column)),
        "document_weights": weights,
        "positions": of_role("position", _positions),
    }
    array = filled.complete()
    features: AnyFeatures = array
    if is_mapped(array):
        features = gathered.take_features(array)
    else:
        order_rows(array, gathered.file_rows)
    try:
        return RankingDataset(
            query_start=gathered.query_start,
            query_ids=gathered.query_ids,
            file_rows=gathered.file_rows,
            feature_names=tuple(chosen),
            features=cast(Features, CheckedFeatures(features)),
            **parts,
        )
    except DataError as error:
        # Errors that involve several rows, such as weights of too different magnitude.
        raise DataError(f"{', '.join(table.name for table in tables)}: {error}") from None


def _gather(tables: Sequence[AnyTable], column: str, sort_queries: bool, place: PlaceOfRow) -> Gathered:
    """Groups the rows of all tables by query; see `gather_runs`."""
    queries: list[str] = []
    sizes: list[int] = []
    for table in tables:
        for query, rows in itertools.groupby(_queries(table, column)):
            queries.append(query)
            sizes.append(sum(1 for _ in rows))
    return gather_runs(queries, np.array(sizes), sort_queries, place)


def _queries(table: AnyTable, column: str) -> list[str]:
    queries = table.texts(column)
    if "" in queries:
        raise DataError(
            f"{table.place(queries.index(''))}: column '{column}' is empty; every row needs a query id."
        )
    return queries


def _labels(table: AnyTable, column: str, whole_labels: bool) -> Labels:
    remedy = "write grades as numbers, with 0 for irrelevant"
    labels = table.numbers(column, remedy)
    bad = ~np.isfinite(labels) | (labels < 0) | (whole_labels & (labels != np.floor(labels)))
    for row in np.flatnonzero(bad)[:1]:
        check_label(float(labels[row]), _shown(labels[row], column), table.place(int(row)), whole_labels)
    return labels


def _check_labels_if_any(table: AnyTable, column: str) -> None:
    """Raises DataError if only some rows have a label, or a label is invalid."""
    remedy = "write grades as numbers, with 0 for irrelevant, or clear the whole column"
    without = np.isnan(table.numbers(column, remedy))
    if without.all():
        return
    for row in np.flatnonzero(without)[:1]:
        raise DataError(
            f"{table.place(int(row))}: column '{column}' is empty, but other rows have a label. Add a label "
            "to every row, or clear the whole column."
        )
    _labels(table, column, whole_labels=False)


def _weights(table: AnyTable, column: str) -> NDArray[np.float64]:
    weights = table.numbers(column, "write a number of 0 or more for each document")
    for row in np.flatnonzero(~np.isfinite(weights) | (weights < 0))[:1]:
        check_weight(float(weights[row]), _shown(weights[row], column), table.place(int(row)))
    return weights


def _positions(table: AnyTable, column: str) -> NDArray[np.int64]:
    positions = table.numbers(column, "write the rank at which each document was shown")
    # Above 2^53 a double does not represent every whole number.
    bad = np.flatnonzero(~((positions >= 0) & (positions < 2**53) & (positions == np.floor(positions))))
    if bad.size:
        raise DataError(
            f"{table.place(int(bad[0]))}: the position is {_shown(positions[bad[0]], column)}; write the "
            "rank at which the document was shown, a whole number of 0 or more."
        )
    return positions.astype(np.int64)


def _shown(value: float, column: str) -> str:
    return f"{float(value)} in column '{column}'"
