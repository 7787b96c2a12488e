"""Reads and writes tables with named columns: pandas DataFrames, CSV (plain or compressed) and Parquet.

One row is one document. The columns in `ROLES` contain its label, query, document id, weight and position;
every other column is a feature, named after the column. The rows of a query are consecutive. Texts in
`MISSING`, such as empty cells, are missing values, NaN; true and false are 1 and 0. Messages give the line of
a CSV file, with the header as line 1, or the row of another table, from one.

A table is read into memory as a whole. To support another kind of table, write a function like `_open_csv`.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import math
import numbers
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    as_paths,
    check_names,
    check_some_weight,
    check_switch,
    check_whole,
    gather,
    read_blocks,
    without_compression_ending,
    write_whole,
)
from ltrbench.data.dataset import NO_NAME, ROLE_OF_NAME, ROLES, RankingDataset, is_id
from ltrbench.data.features import CheckedFeatures
from ltrbench.data.letor_lines import (
    LONGEST_ID,
    NUMBER,
    UNLABELLED,
    check_label,
    check_weight,
    conversion_to_csv,
)
from ltrbench.errors import DataError, did_you_mean
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features, Labels

if TYPE_CHECKING:
    import pandas as pd

SPLIT_ROLES = ("split_by", "group_by")
"""Settings that name the columns by which queries are split, which are not features."""

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "<na>", "null", "none"})

_MISSING_IN_CSV = sorted({form(word) for word in MISSING for form in (str, str.upper, str.title)} | {"NaN"})
_MISSING_TYPES = ("NAType", "NaTType")  # of pandas, which is imported late
_NUMBER = re.compile(NUMBER.decode() + "|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_SWITCHES = {"true": 1.0, "false": 0.0}


def number_of_text(cell: str) -> float:
    """Returns the number in a text cell.

    Raises:
        ValueError: The text is not a number.

    >>> [number_of_text(cell) for cell in ("1e3", " 0.5 ", "True", "N/A")]
    [1000.0, 0.5, 1.0, nan]
    """
    word = cell.strip().lower()
    if word in MISSING:
        return math.nan
    if word in _SWITCHES:
        return _SWITCHES[word]
    if not _NUMBER.fullmatch(word):
        raise ValueError
    return float(word)


def number_of(cell: Any) -> float:
    """Returns the number in a cell of any type.

    Raises:
        ValueError: The cell is not a number, for example a date, a complex number or a list.
    """
    if isinstance(cell, str):
        return number_of_text(cell)
    if isinstance(cell, (numbers.Real, Decimal, np.bool_)):
        try:
            return float(cell)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf
    if cell is None or type(cell).__name__ in _MISSING_TYPES:
        return math.nan
    raise ValueError


_BYTES_PER_CELL = 12  # a double, and its float32
_CSV_BLOCK_BYTES = 1 << 24  # at least a row of the widest tables
_SHOWN = 8  # maximum number of columns in a message
_SHOWN_CHARACTERS = 80  # of a column name, which may be a whole line of another format
_FEATURE_REMEDY = (
    "encode it as a number, or list the features without it in `features` (in a run data.features); if it is "
    "the time or the group of a query, set split_by or group_by to the column"
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory, with the columns that are needed."""

    name: str
    frame: pd.DataFrame
    csv_text: bytes | None = None  # for the line numbers in messages

    @property
    def num_rows(self) -> int:
        return len(self.frame)

    def place(self, row: int) -> str:
        if self.csv_text is None:
            return f"{self.name}: row {row + 1}"
        return f"{self.name}:{self._lines[row]}"

    @cached_property
    def _lines(self) -> list[int]:
        return [line for line, _ in _csv_rows(self.csv_text or b"", self.name)][1:]

    def cells(self, column: str) -> list[Any]:
        return self._column(column).astype(object).tolist()

    def ids(self, column: str) -> list[str]:
        """Returns the ids of a column as text.

        Raises:
            DataError: A row has no id, or one that is too long.
        """
        cells = self.cells(column)
        for row, cell in enumerate(cells):
            if not is_id(cell):
                raise _no_id(self.place(row), column, cell)
            if len(str(cell)) > LONGEST_ID:
                raise DataError(
                    f"{self.place(row)}: column '{column}' has an id of {len(str(cell))} characters; the "
                    f"maximum is {LONGEST_ID}. Use a shorter id, or check which column contains the ids."
                )
        return list(map(str, cells))

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        from pandas.api import types

        values = self._column(column)
        if types.is_numeric_dtype(values) and not types.is_complex_dtype(values):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        numbers = np.empty(len(values))
        for row, cell in enumerate(self.cells(column)):
            try:
                numbers[row] = number_of(cell)
            except ValueError:
                shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:37] + "..."
                raise DataError(
                    f"{self.place(row)}: column '{column}' is {shown}, which is not a number; {remedy}."
                ) from None
        return numbers

    def _column(self, column: str) -> pd.Series[Any]:
        return self.frame.iloc[:, list(map(str, self.frame.columns)).index(column)]


def _no_id(place: str, column: str, cell: object) -> DataError:
    """Returns the error for a cell that cannot be an id."""
    named = f"{place}: column '{column}' is {cell!r}"
    # A number that is no id is NaN.
    if cell is None or isinstance(cell, numbers.Real | Decimal) or type(cell).__name__ in _MISSING_TYPES:
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


@dataclass(frozen=True, eq=False)
class _Opened:
    """Table of which only the names of its columns are known."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str], Sequence[str]], Table]  # columns of text, and of numbers


def _check_memory(name: str, num_bytes: int) -> None:
    available = available_bytes()
    if num_bytes > available:
        raise DataError(
            f"{name}: reading the table takes about {num_bytes / 1e9:.1f} GB of memory, but only "
            f"{available / 1e9:.1f} GB are available. Split the table into several files, write a store of "
            "each with `python -m ltrbench data build`, and read the list of stores with data=store; or use "
            "a machine with more memory, or fewer features (in a run data.features)."
        )


# ---- CSV. pyarrow parses the text; the csv module finds the header, and the lines that messages name.


def _open_csv(path: Path) -> _Opened:
    """Reads the text of a CSV file and its header.

    Raises:
        DataError: The file cannot be read, is empty or not UTF-8 text, or does not fit into memory.
    """
    pieces, available = [], available_bytes()
    num_bytes = 0
    for piece, _ in read_blocks(path):
        pieces.append(piece)
        # The text, and for each cell a double and its float32.
        num_bytes += len(piece) + _BYTES_PER_CELL * (piece.count(b",") + piece.count(b"\n"))
        if num_bytes > available:
            _check_memory(str(path), num_bytes)
    text = b"".join(pieces)
    _check_text(text, str(path))
    header = next((row for _, row in _csv_rows(text, str(path))), None)
    if header is None:
        raise DataError(f"{path}: the file is empty. Check that the file was written and copied completely.")
    return _Opened(str(path), tuple(header), partial(_read_csv, str(path), text, header))


def _check_text(text: bytes, name: str) -> None:
    def line(at: int) -> str:
        return f"{name}:{text.count(10, 0, at) + 1}"  # 10 is a line feed

    null = text.find(0)
    if null >= 0:
        raise DataError(
            f"{line(null)}: the line contains byte 0x00, which is not text. A CSV file must be UTF-8 text, "
            "plain or compressed as gz, bz2, xz or zst. Decompress or convert the file."
        )
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{line(error.start)}: the line contains byte 0x{text[error.start]:02x}, which is not UTF-8 "
            "text. Convert the file to UTF-8."
        ) from None


def _read_csv(
    name: str, text: bytes, header: Sequence[str], texts: Sequence[str], numbers: Sequence[str]
) -> Table:
    import pyarrow
    from pyarrow import csv as arrow_csv

    try:
        # Columns of numbers have the type of their cells, and are text if one of them is unusual.
        cells = arrow_csv.read_csv(
            pyarrow.BufferReader(text),
            arrow_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pyarrow.string()),
                include_columns=list(dict.fromkeys([*texts, *numbers])),
                null_values=_MISSING_IN_CSV,
                strings_can_be_null=False,
            ),
        )
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError) as error:
        raise _csv_error(name, text, header, str(error)) from None
    return Table(name, cells.to_pandas(split_blocks=True), text)


def _csv_rows(text: bytes, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the first line and the cells of each row that is not blank.

    Raises:
        DataError: A row cannot be parsed.
    """
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{name}:{line}: the row that starts on this line cannot be parsed ({error}). Close every "
                "quote, and double a quote inside a quoted cell."
            ) from None
        if row:
            yield line, row


def _csv_error(name: str, text: bytes, header: Sequence[str], problem: str) -> DataError:
    """Returns the error for a text that pyarrow cannot parse."""
    for line, row in _csv_rows(text, name):
        if len(row) != len(header):
            return DataError(
                f"{name}:{line}: the row has {len(row)} cells, but the header has {len(header)} "
                f"columns. {_remedy_of_width(row, header)}"
            )
    return DataError(
        f"{name}: the file cannot be read as a CSV table ({problem}). Repair or replace the file."
    )


def _remedy_of_width(row: Sequence[str], header: Sequence[str]) -> str:
    if len(row) < len(header):
        return (
            "Add the missing cells, with nothing between two commas for a missing value; or copy the file "
            "again."
        )
    if not any(row[len(header) :]):
        return "Remove the commas at the end of the rows."
    return "Quote cells that contain a comma, or name every column in the header, including row names."


# ---- Parquet files, or folders of their parts.

PARQUET = ".parquet"


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


def _open_parquet(path: Path) -> _Opened:
    """Reads the metadata of a Parquet file, or of a folder of its parts.

    Raises:
        DataError: The file does not exist or cannot be read, or two columns have the same name.
    """
    from pyarrow import parquet

    with _naming_damage(str(path)):
        dataset = parquet.ParquetDataset(path)
        # pyarrow's error for a repeated column name is a dozen lines that do not give the reason.
        _check_no_repeat(dataset.schema.names, str(path))
        # A plain row-number index has no column, and is described by an object.
        index = (dataset.schema.pandas_metadata or {}).get("index_columns", [])
        columns = tuple(name for name in dataset.schema.names if name not in index)
        num_rows = sum(fragment.count_rows() for fragment in dataset.fragments)

    def read(texts: Sequence[str], numbers: Sequence[str]) -> Table:
        needed = list(dict.fromkeys([*texts, *numbers]))
        _check_memory(str(path), _BYTES_PER_CELL * num_rows * len(needed))
        with _naming_damage(str(path)):
            table = dataset.read(columns=needed, use_pandas_metadata=False)
            table.validate(full=True)  # otherwise invalid UTF-8 raises an error only when a cell is accessed
            return Table(str(path), table.to_pandas(ignore_metadata=True, split_blocks=True))

    return _Opened(str(path), columns, read)


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


# ---- Data sets and features in tables.


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
    opened = _open_all(source)
    for role in ("label", "query"):
        _check_there(opened[0], role, given[role], features or ())
    columns = _find_columns(opened[0], given, features or ())
    chosen = _find_features(opened[0], columns, features, feature_names, num_features)
    tables = _read(opened, columns, chosen)
    dataset = _join(tables, columns, chosen, sort_queries, whole_labels)
    return dataset, _split_columns(tables, columns)


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
    opened = _open_all(source)
    there = {role: column for role, column in given.items() if column in (None, *opened[0].columns)}
    columns = _find_columns(opened[0], there, features or ())
    chosen = _find_features(opened[0], columns, features, feature_names, num_features)
    labels = {role: column for role, column in columns.items() if role == "label"}
    tables = _read(opened, labels, chosen)
    for table in tables if labels else ():
        _check_labels_if_any(table, labels["label"])
    return _features(tables, chosen)


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
        frame = dataset.to_frame()
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


def _open_all(source: pd.DataFrame | str | Path | Sequence[str | Path]) -> list[_Opened]:
    """Opens the tables of one split, which must have the same columns."""
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        whole = Table("the DataFrame", source)
        tables = [_Opened(whole.name, tuple(map(str, source.columns)), lambda *_: whole)]
    else:
        tables = [_open_parquet(path) if is_parquet(path) else _open_csv(path) for path in as_paths(source)]
    for table in tables:
        _check_no_repeat(table.columns, table.name)
        odd = sorted(set(table.columns) ^ set(tables[0].columns))
        if odd:
            raise DataError(
                f"{table.name}: the columns {', '.join(odd)} are not in both this table and "
                f"{tables[0].name}; the tables of one split must have the same columns."
            )
    return tables


def _check_no_repeat(columns: Sequence[str], name: str) -> None:
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: two columns have the name '{twice}'; rename one of them.")


def _read(opened: Sequence[_Opened], columns: Mapping[str, str], chosen: Sequence[str]) -> list[Table]:
    """Returns the rows of all tables, with the columns of roles (role -> column) and the features."""
    texts = [column for role, column in columns.items() if role in ("query", "document", *SPLIT_ROLES)]
    numbers = [column for column in columns.values() if column not in texts]
    tables = [table.read(texts, [*numbers, *chosen]) for table in opened]
    for table in tables:
        if table.num_rows == 0:
            raise DataError(f"{table.name}: the table has no rows; a data set needs at least one document.")
    return tables


def _features(tables: Sequence[Table], chosen: Sequence[str]) -> Features:
    """Returns the (D, F) features of all tables."""
    features = np.empty((sum(table.num_rows for table in tables), len(chosen)), dtype=np.float32)
    start = 0
    for table in tables:
        rows = features[start : start + table.num_rows]
        for number, column in enumerate(chosen):
            values = table.numbers(column, _FEATURE_REMEDY)
            # Values beyond float32 become infinite; a signalling NaN is "invalid".
            with np.errstate(over="ignore", invalid="ignore"):
                rows[:, number] = values
            for row in np.flatnonzero(np.isinf(rows[:, number]))[:1]:
                raise DataError(
                    f"{table.place(int(row))}: column '{column}' is {values[row]}; features must be finite "
                    "in float32. Rescale the feature, and leave missing values empty."
                )
        start += table.num_rows
    return features


def _find_columns(table: _Opened, given: Mapping[str, str | None], features: Sequence[str]) -> dict[str, str]:
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
    role_of: dict[str, str] = {}
    for role, column in columns.items():
        if role not in SPLIT_ROLES and role_of.setdefault(column, role) != role:
            raise DataError(
                f"{table.name}: the column '{column}' is assigned to {role_of[column]} and to {role}; assign "
                "a different column to each."
            )
    return columns


def _check_there(table: _Opened, role: str, name: str | None, features: Sequence[str]) -> None:
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


def _check_separator(table: _Opened) -> None:
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


def _find_features(
    table: _Opened,
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
        check_whole("num_features", num_features)
        if len(wanted) != num_features:
            raise DataError(
                f"{table.name}: the table has {len(wanted)} feature columns, but {num_features} were "
                "expected; list the features in `features`."
            )
    return wanted


def _check_feature(table: _Opened, column: str) -> None:
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


def _join(
    tables: Sequence[Table],
    columns: Mapping[str, str],
    chosen: Sequence[str],
    sort_queries: bool,
    whole_labels: bool,
) -> RankingDataset:
    """Joins the tables into one data set, its rows in the order of `gather`."""
    ends = np.cumsum([table.num_rows for table in tables])

    def place(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return tables[number].place(row - int(ends[number]) + tables[number].num_rows)

    def of_role(role: str, read: Callable[[Table, str], NDArray[Any]]) -> NDArray[Any] | None:
        if role not in columns:
            return None
        return gathered.take(np.concatenate([read(table, columns[role]) for table in tables]))

    queries = [query for table in tables for query in _queries(table, columns["query"])]
    gathered = gather(queries, sort_queries, place)
    weights = of_role("weight", _weights)
    if weights is not None:
        check_some_weight(weights, gathered, place)
    parts: dict[str, Any] = {
        "labels": of_role("label", partial(_labels, whole_labels=whole_labels)),
        "document_ids": of_role("document", lambda table, column: np.array(table.ids(column))),
        "document_weights": weights,
        "positions": of_role("position", _positions),
    }
    features = cast(Features, CheckedFeatures(gathered.take(_features(tables, chosen))))
    try:
        return RankingDataset(
            query_start=gathered.query_start,
            query_ids=gathered.query_ids,
            file_rows=gathered.file_rows,
            feature_names=tuple(chosen),
            features=features,
            **parts,
        )
    except DataError as error:
        # Errors that involve several rows, such as weights of too different magnitude.
        raise DataError(f"{', '.join(table.name for table in tables)}: {error}") from None


def _queries(table: Table, column: str) -> list[str]:
    queries = table.ids(column)
    if "" in queries:
        raise DataError(
            f"{table.place(queries.index(''))}: column '{column}' is empty; every row needs a query id."
        )
    return queries


def _labels(table: Table, column: str, whole_labels: bool) -> Labels:
    remedy = "write grades as numbers, with 0 for irrelevant"
    labels = table.numbers(column, remedy)
    bad = ~np.isfinite(labels) | (labels < 0) | (whole_labels & (labels != np.floor(labels)))
    for row in np.flatnonzero(bad)[:1]:
        check_label(float(labels[row]), _shown(labels[row], column), table.place(int(row)), whole_labels)
    return labels


def _check_labels_if_any(table: Table, column: str) -> None:
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


def _weights(table: Table, column: str) -> NDArray[np.float64]:
    weights = table.numbers(column, "write a number of 0 or more for each document")
    for row in np.flatnonzero(~np.isfinite(weights) | (weights < 0))[:1]:
        check_weight(float(weights[row]), _shown(weights[row], column), table.place(int(row)))
    return weights


def _positions(table: Table, column: str) -> NDArray[np.int64]:
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


# ---- Columns of a table by which its queries are split: the time of a query, and its group of near-
# duplicates.
#
# A time is a number or a date in ISO 8601, the same in all rows of the column. A query has the latest time
# of its rows, so that no row of an earlier query is later. All rows of a query are in the same group.
# Groups are compared without blanks around them, and a whole number without its fraction: 7.0 is the group
# 7.

_NUMBER_OF_SPLIT, _DATE, _DATE_IN_ZONE = "a number", "a date without a time zone", "a date with a time zone"
_MONTH = re.compile(r"\d{4}-\d{2}")
_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+")

_Time = float | np.datetime64


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitColumns:
    """Values of the columns by which queries are split; None if a column is not set."""

    times: Mapping[str, _Time] | None  # query id -> time
    groups: Mapping[str, str] | None  # query id -> group


def _split_columns(tables: Sequence[Table], columns: Mapping[str, str]) -> SplitColumns:
    """Returns the times and groups of the queries in the tables of one split.

    Args:
        columns: role -> column, with "query" and possibly some of `SPLIT_ROLES`.

    Raises:
        DataError: A value is missing, is neither a number nor a date, or differs in kind from another row; or
            a query is in two groups.
    """
    query, split_by, group_by = (columns.get(role) for role in ("query", *SPLIT_ROLES))
    assert query is not None  # `read_table` checked it; repeated for the type checker
    return SplitColumns(
        times=None if split_by is None else _latest_times(tables, query, split_by),
        groups=None if group_by is None else _groups(tables, query, group_by),
    )


def _latest_times(tables: Sequence[Table], query: str, column: str) -> dict[str, _Time]:
    """Returns query id -> the latest time of its rows."""
    latest: dict[str, Any] = {}
    first: tuple[str, Table, int] | None = None
    for table in tables:
        time_of_cell: dict[Any, Any] = {}
        for row, (query_id, cell) in enumerate(zip(table.ids(query), table.cells(column), strict=True)):
            if not isinstance(cell, Hashable):
                raise DataError(
                    f"{table.place(row)}: column '{column}' is {cell!r}; every row needs a single value. "
                    "Convert the column, or choose another one."
                )
            if cell not in time_of_cell:
                kind, time_of_cell[cell] = _time_of(cell, table, row, column)
                first = first or (kind, table, row)
                if kind != first[0]:
                    raise DataError(
                        f"{table.place(row)}: column '{column}' is {cell!r}, {kind}, but "
                        f"{first[1].place(first[2])} has {first[0]}; times of different kinds cannot be "
                        "compared. Write all values of the column alike."
                    )
            latest[query_id] = max(time_of_cell[cell], latest.get(query_id, time_of_cell[cell]))
    return latest


def _time_of(cell: object, table: Table, row: int, column: str) -> tuple[str, _Time]:
    """Returns the kind and the value of a time in a row of a table."""
    try:
        if isinstance(cell, str):
            kind, time = _of_text(cell)
        elif isinstance(cell, datetime.date) and cell == cell:  # pandas' NaT is a date that is not itself
            kind, time = _of_date(cell)
        else:
            kind, time = _NUMBER_OF_SPLIT, _finite(number_of(cell))
    except (ValueError, OverflowError):
        raise DataError(
            f"{table.place(row)}: column '{column}' is {cell!r}, which is neither a finite number nor a date "
            "in ISO 8601, such as 2026-01-31. Convert the column, or choose another one with split_by (in a "
            "run data.split_by)."
        ) from None
    if time != time:
        raise DataError(
            f"{table.place(row)}: column '{column}' is {cell!r}, but a split by time needs a time in every "
            "row. Add it, or remove the query."
        )
    return kind, time


def _of_text(cell: str) -> tuple[str, _Time]:
    try:
        return _NUMBER_OF_SPLIT, _finite(number_of(cell))
    except ValueError:
        text = cell.strip()
        return _of_date(datetime.datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text))


def _finite(number: float) -> float:
    """Returns a number or NaN, a missing value. Raises ValueError if it is infinite."""
    if math.isinf(number):
        raise ValueError
    return number


def _of_date(date: datetime.date) -> tuple[str, np.datetime64]:
    if not isinstance(date, datetime.datetime) or date.tzinfo is None:
        return _DATE, np.datetime64(date, "us")
    return _DATE_IN_ZONE, np.datetime64(date.astimezone(datetime.UTC).replace(tzinfo=None), "us")


def _groups(tables: Sequence[Table], query: str, column: str) -> dict[str, str]:
    """Returns query id -> group."""
    groups: dict[str, str] = {}
    for table in tables:
        of_rows = zip(table.ids(query), table.ids(column), strict=True)
        for row, (query_id, cell) in enumerate(of_rows):
            group = _group_of(cell)
            if group.lower() in MISSING:
                raise DataError(
                    f"{table.place(row)}: column '{column}' is {cell!r}, but every query needs a group. "
                    "Give a query without near-duplicates a group of its own, such as its query id."
                )
            if groups.setdefault(query_id, group) != group:
                raise DataError(
                    f"{table.place(row)}: column '{column}' puts query {query_id!r} into group {group!r}, "
                    f"but an earlier row puts it into group {groups[query_id]!r}. Give all rows of a query "
                    "the same group, or choose another column with group_by (in a run data.group_by)."
                )
    return groups


def _group_of(cell: str) -> str:
    """Returns the group in a cell: 7 for 7.0, which pandas writes if the column once had missing values."""
    text = cell.strip()
    whole = _WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text
