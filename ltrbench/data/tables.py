"""Reads and writes tables with named columns: pandas DataFrames, CSV (plain or compressed) and Parquet.

One row is one document. The columns in `ROLES` contain its label, query, document id, weight and position;
every other column is a feature, named after the column, unless it is kept beside the features or ignored. The
categories of a feature become codes, in the order of the training data. The rows of a query are consecutive.
Texts in `MISSING`, such as empty cells, are missing values, NaN; true and false are 1 and 0. Messages give
the line of a CSV file, with the header as line 1, or the row of another table, from one.

A table is opened (`_Table`: the names of its columns), its columns are assigned to roles and features, and
the needed columns are read (`_Rows`). To support another kind of table, write a function like `_open_csv`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import LONGEST_ID, as_paths, check_option, gather, read_blocks, write_whole
from ltrbench.data.dataset import NO_NAME, ROLE_OF_NAME, ROLES, RankingDataset, is_id
from ltrbench.data.features import CheckedFeatures
from ltrbench.data.store import Categories, codes_of
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.shapes import Features

if TYPE_CHECKING:
    import pandas as pd

SPLIT_ROLES = ("split_by", "group_by")
"""Settings that name the columns by which queries are split, which are not features."""

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "<na>", "null", "none", "nat"})

_MISSING_IN_CSV = sorted({form(word) for word in MISSING for form in (str, str.upper, str.title)} | {"NaN"})
_CSV_BLOCK_BYTES = 1 << 24  # at least a row of the widest tables
PARQUET = ".parquet"
_SHOWN = 8  # maximum number of columns in a message

log = logging.getLogger("ltrbench")


@dataclass(frozen=True, eq=False)
class _Table:
    """Table of which the columns are known.

    Attributes:
        read: returns the rows, given the columns to read as text and the columns to read as numbers.
        csv_text: content of a CSV file, for the line numbers in messages.
    """

    name: str
    columns: Sequence[str]
    read: Callable[[Sequence[str], Sequence[str]], pd.DataFrame]
    csv_text: bytes | None = None

    def location(self, row: int) -> str:
        if self.csv_text is None:
            return f"{self.name}: row {row + 1}"
        rows = _csv_rows(self.csv_text)
        lines = (rows.line_num for cells in rows if cells)
        return f"{self.name}:{next(islice(lines, row + 1, None))}"


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of the tables of one split, one table after the other."""

    tables: Sequence[_Table]
    frames: Sequence[pd.DataFrame]

    def __len__(self) -> int:
        return sum(map(len, self.frames))

    def location(self, row: int) -> str:
        for table, frame in zip(self.tables, self.frames, strict=True):
            if row < len(frame):
                return table.location(row)
            row -= len(frame)
        raise IndexError(row)

    def check(self, column: str, valid: NDArray[np.bool_], expected: str) -> None:
        """Raises DataError for the first cell of a column that is not valid: (D,)."""
        if not valid.all():
            row = int(np.argmin(valid))
            cell = repr(self.cells(column)[row])[:60]
            raise DataError(f"{self.location(row)}: column '{column}' is {cell}; {expected}.")

    def cells(self, column: str) -> list[Any]:
        return [cell for frame in self.frames for cell in frame[column].astype(object).tolist()]

    def ids(self, column: str) -> list[str]:
        cells = self.cells(column)
        self.check(
            column,
            np.array([is_id(cell) for cell in cells]),
            "an id is a string or a number: write the column as text, add the id, or remove the row",
        )
        return list(map(str, cells))

    def is_text(self, column: str) -> bool:
        """Whether a column has a cell among its first ones that is no number."""
        return not all(_numbers(frame[column].head(1000))[1].all() for frame in self.frames)

    def numbers(self, column: str, expected: str) -> NDArray[np.float64]:
        """Returns the (D,) numbers of a column; missing values are NaN."""
        parts = [_numbers(frame[column]) for frame in self.frames]
        numbers, valid = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.check(column, valid, f"this is not a number: {expected}")
        return numbers

    def categories(self, column: str) -> tuple[str, ...]:
        """Returns the categories of a column: in the order of its pandas categories, else sorted."""
        columns = [frame[column] for frame in self.frames]
        occurring = {text for cells in columns for text in _distinct(cells)[1] if text is not None}
        declared = {tuple(getattr(getattr(cells, "cat", None), "categories", ())) for cells in columns}
        if len(declared) == 1 and declared != {()}:
            texts = map(_category, declared.pop())
            return tuple(dict.fromkeys(text for text in texts if text in occurring))
        are_numbers = all(map(str.isdecimal, occurring))  # 9 before 10
        return tuple(sorted(occurring, key=lambda text: (len(text) if are_numbers else 0, text)))

    def codes(self, column: str, categories: Sequence[str]) -> tuple[NDArray[np.float64], int]:
        """Returns the (D,) codes of a column, and how many cells have another category; these are NaN."""
        code_of: dict[str | None, float] = {text: code for code, text in enumerate(categories)}
        parts, num_unseen = [], 0
        for frame in self.frames:
            numbers, texts = _distinct(frame[column])
            # The last one is for the number -1, a missing value.
            codes = np.array([*(code_of.get(text, np.nan) for text in texts), np.nan])
            unseen = [number for number, text in enumerate(texts) if text is not None and text not in code_of]
            num_unseen += int(np.isin(numbers, unseen).sum())
            parts.append(codes[numbers])
        return np.concatenate(parts), num_unseen

    def kept(self, column: str) -> NDArray[Any]:
        """Returns the (D,) values of a kept column: numbers, or texts if a cell is no number."""
        import pandas as pd

        cells = pd.concat([frame[column] for frame in self.frames], ignore_index=True)
        if pd.api.types.infer_dtype(cells, skipna=True) in _NUMBERS:
            return _numbers(cells)[0]
        texts = ["" if pd.isna(cell) else str(cell) for cell in cells.astype(object)]
        is_short = np.array([len(text) <= LONGEST_ID for text in texts])
        self.check(column, is_short, f"a kept text has up to {LONGEST_ID} characters: shorten or ignore it")
        return np.array(texts, dtype=np.str_)


_NUMBERS = ("integer", "floating", "boolean", "decimal", "mixed-integer-float")


def _distinct(cells: pd.Series[Any]) -> tuple[NDArray[np.int64], list[str | None]]:
    """Returns the (D,) number of each cell among the distinct values, -1 if it is missing, and their texts,
    None if a text is a missing value."""
    numbers, distinct = cells.factorize()
    return numbers, list(map(_category, distinct))


def _category(cell: object) -> str | None:
    text = str(cell)
    if text.strip().lower() in MISSING:
        return None
    # pandas writes 7.0 for the category 7 if the column has missing values.
    return re.sub(r"^(-?\d+)\.0$", r"\1", text)


def _numbers(cells: pd.Series[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the (D,) numbers in cells of any type, and which cells are numbers or missing values."""
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(cells):
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.ones(len(cells), dtype=np.bool_)
    numbers, valid = np.full(len(cells), np.nan), np.ones(len(cells), dtype=np.bool_)
    for row, cell in enumerate(cells):
        word = str(cell).strip().lower()
        if word in ("true", "false"):
            numbers[row] = word == "true"
        elif word not in MISSING:
            try:
                numbers[row] = float(word)
                valid[row] = "_" not in word  # 1_000 is a number in Python only
            except ValueError:
                valid[row] = False
    return numbers, valid


# ---- Opens tables: a function for each kind.


def _open(source: pd.DataFrame | str | Path | Sequence[str | Path]) -> list[_Table]:
    """Opens the tables of one split; the first one determines the columns."""
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        frame = source.set_axis(list(map(str, source.columns)), axis=1)
        tables = [_Table("the DataFrame", list(frame.columns), lambda *_: frame)]
    else:
        tables = [
            _open_parquet(path) if path.suffix.lower() == PARQUET else _open_csv(path)
            for path in as_paths(source)
        ]
    for table in tables:
        twice = [column for column in table.columns if table.columns.count(column) > 1]
        if twice:
            raise DataError(f"{table.name}: two columns have the name '{twice[0]}'; rename one of them.")
    return tables


def _open_csv(path: Path) -> _Table:
    import pyarrow
    from pyarrow import csv as arrow_csv

    text = b"".join(block for block, _ in read_blocks(path))

    def read(texts: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
        with _naming(path):
            table = arrow_csv.read_csv(
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
        return cast("pd.DataFrame", table.to_pandas(split_blocks=True))

    with _naming(path):
        header = next(filter(None, _csv_rows(text)), None)
    if header is None:
        raise DataError(f"{path}: the file is empty. Check that the file was written and copied completely.")
    return _Table(str(path), header, read, text)


def _csv_rows(text: bytes) -> Any:
    """Returns a reader of the rows of a CSV file, which counts its lines."""
    return csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline=""))


def _open_parquet(path: Path) -> _Table:
    """Opens a Parquet file, or a folder of its parts."""
    from pyarrow import parquet

    with _naming(path):
        dataset = parquet.ParquetDataset(path)
        # Without the index that pandas wrote, which is no feature.
        columns = list(dataset.schema.empty_table().to_pandas().columns)

    def read(texts: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
        with _naming(path):
            table = dataset.read(columns=list(dict.fromkeys([*texts, *numbers])))
            return cast("pd.DataFrame", table.to_pandas(ignore_metadata=True, split_blocks=True))

    return _Table(str(path), columns, read)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the file in the exceptions of pyarrow, pandas and csv for a file that is not such a table."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, csv.Error) as error:
        raise DataError(
            f"{path}: the table cannot be read ({error}). Check the path and the file; a CSV file is UTF-8 "
            "text, whose rows have as many cells as the header."
        ) from None


# ---- Assigns the columns to roles and features.


def _columns_of_roles(
    table: _Table, given: Mapping[str, str | None], features: Collection[str], required: Iterable[str] = ()
) -> dict[str, str]:
    """Returns role -> column, for the roles that the table has.

    Raises:
        DataError: A given or a required column is missing, or several columns have default names of a role.
    """
    columns: dict[str, str] = {}
    for role, name in given.items():
        usual = [column for column in ROLES.get(role, ()) if column not in features]
        choices = [column for column in ([name] if name else usual) if column in table.columns]
        if len(choices) > 1:
            raise DataError(
                f"{table.name}: the columns {' and '.join(choices)} are both default names of the {role}; "
                f"choose one with {role}=COLUMN, and remove the other or list the features."
            )
        if choices:
            columns[role] = choices[0]
        elif name or role in required:
            raise _no_column(table, role, repr(name) if name else " or ".join(usual))
    return columns


def _no_column(table: _Table, role: str, name: str) -> DataError:
    columns = ", ".join(map(repr, table.columns[:_SHOWN])) + (", ..." if len(table.columns) > _SHOWN else "")
    remedy = f"set the column of the {role} with {role}=COLUMN"
    if role == "label":
        remedy += ", or read the features alone with read_features or the verb predict"
    if len(table.columns) == 1:
        remedy = "separate the cells of a CSV file by commas"
    return DataError(
        f"{table.name}: the table has no column {name} ({role}){did_you_mean(name, table.columns)} Its "
        f"columns are {columns[:200]}; {remedy}."
    )


@dataclass(frozen=True)
class _Columns:
    """The columns of a table that are read.

    Attributes:
        roles: role -> column.
        features: feature columns, in order.
        categorical: those with categories.
        kept: columns beside the features.
    """

    roles: Mapping[str, str]
    features: Sequence[str]
    categorical: Sequence[str]
    kept: Sequence[str]


def _columns_of(
    table: _Table,
    roles: Mapping[str, str | None],
    num_features: int | None,
    categories: Mapping[str, tuple[str, ...]],
    features: Sequence[str] | None,
    feature_names: Sequence[str] | None,
    categorical: Sequence[str],
    keep: Sequence[str],
    ignore: Sequence[str],
    required: Iterable[str] = (),
) -> _Columns:
    """Assigns the columns of a table to roles and features; the arguments are those of `read_table`.

    Args:
        roles: role -> given column.
        required: roles that the table must have; without any it need not have the kept columns either.

    Raises:
        DataError: A column is missing, is no feature of the training data, or is unlikely to be a feature.
    """
    if feature_names is not None:
        check_option("feature_names", feature_names, list)
    is_training = feature_names is None
    kept = _matching(table, "keep", keep, table.columns, bool(required))
    aside = {*kept, *_matching(table, "ignore", ignore, table.columns, is_training)}
    no_role = {column for column in aside if ROLE_OF_NAME.get(column) not in ("label", "query")}
    by_role = _columns_of_roles(table, roles, {*(features or ()), *no_role}, required)
    left = [column for column in table.columns if column not in {*by_role.values(), *aside}]
    of_categories = [
        *_matching(table, "categorical", categorical, left, is_training),
        *(column for column in left if column in categories),
    ]
    chosen = left if features is None else _matching(table, "features", features, left, is_training)
    chosen = [*dict.fromkeys([*chosen, *of_categories])]
    names = chosen if feature_names is None else list(map(str, feature_names))
    for column in names:
        if column not in left:
            raise _no_column_for("features", table, column, left)
    odd = [column for column in chosen if column not in names]
    if odd:
        raise DataError(
            f"{table.name}: the columns {', '.join(odd)} are not features of the training data; remove "
            "them, or list the features in data.features, or these columns in data.ignore."
        )
    for column in names if features is None and is_training else ():
        if column in ROLE_OF_NAME or NO_NAME.fullmatch(column):
            raise DataError(
                f"{table.name}: column {table.columns.index(column) + 1}, '{column}', would be read as a "
                "feature, but has the name of an index or a default name of a role. Remove it (pandas: "
                "index=False), rename it, or list the features."
            )
    if not names or num_features not in (None, len(names)):
        raise DataError(
            f"{table.name}: the table has {len(names)} feature columns, but {num_features or 'at least 1'} "
            "were expected; add columns, or list the features in `features`."
        )
    return _Columns(by_role, names, [name for name in names if name in of_categories], kept)


def _matching(
    table: _Table, option: str, patterns: Sequence[str], columns: Sequence[str], must_match: bool
) -> list[str]:
    """Returns the columns with these names, or that match these shell patterns, in the order of the patterns.

    Raises:
        DataError: A name or a pattern matches no column, although it must.
        ConfigError: The patterns are not a list.
    """
    check_option(option, patterns, list)
    matching: list[str] = []
    for pattern in map(str, patterns):
        is_name = pattern in columns
        matched = [pattern] if is_name else [column for column in columns if fnmatchcase(column, pattern)]
        if must_match and not matched:
            raise _no_column_for(option, table, pattern, columns)
        matching += matched
    return list(dict.fromkeys(matching))


def _no_column_for(option: str, table: _Table, name: str, columns: Sequence[str]) -> DataError:
    return DataError(
        f"{table.name}: the table has no column '{name}' for {option}{did_you_mean(name, columns)} Add it, a "
        f"feature with empty cells for missing values, or correct {option}, in a run data.{option}. A column "
        "with a role, or in data.keep or data.ignore, is no feature."
    )


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
    categorical: Sequence[str] = (),
    keep: Sequence[str] = (),
    ignore: Sequence[str] = (),
    categories: Categories | None = None,
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
        split_by, group_by: columns of the times and groups of queries, by which a run splits them, which
            are no features; see `read_split_columns`.
        features: feature columns, in this order, as names or shell patterns such as bm25_*; None: all columns
            that are not named elsewhere. A column listed here has no role unless one is assigned above.
        feature_names: features of the training data; the table must have exactly these, in any order.
        categorical: names or patterns of features with categories: texts, whole numbers, booleans or pandas
            categoricals. Texts in `MISSING` are missing values.
        keep: names or patterns of columns that are no features, for metrics and slices; see `Judgments.kept`.
        ignore: names or patterns of columns that are not read.
        categories: those of the training data, or the path of its store; a category that it does not have
            becomes a missing value, and is counted in the log. None: the categories of this table.
        sort_queries: group scattered rows by query, in the order of each query's first row; `file_rows` of
            the data set then has the original row of each document.
        whole_labels: reject labels that are not whole numbers.

    Raises:
        DataError: The file cannot be read, a column is missing, repeated or not numeric, or a value is
            invalid; the message names the file, the line or row, the column, the value and the remedy.
        ConfigError: An option has the wrong type.
    """
    check_option("sort_queries", sort_queries, bool)
    check_option("whole_labels", whole_labels, bool)
    columns = {"label": label, "query": query, "document": document, "weight": weight, "position": position}
    given = {**columns, "split_by": split_by, "group_by": group_by}
    tables = _open(source)
    known = codes_of(categories)
    named = (features, feature_names, categorical, keep, ignore)
    chosen = _columns_of(tables[0], given, num_features, known, *named, required=("label", "query"))
    roles = chosen.roles
    rows = _read(tables, chosen)
    queries = rows.ids(roles["query"])
    rows.check(roles["query"], np.array([query != "" for query in queries]), "every row needs a query id")
    gathered = gather(queries, sort_queries, rows.location)
    parts: dict[str, Any] = {
        field: gathered.take(_values(rows, role, roles[role], whole_labels))
        for role, (field, _) in _FIELDS.items()
        if role in roles
    }
    in_order = {name: known[name] if name in known else rows.categories(name) for name in chosen.categorical}
    return RankingDataset(
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        file_rows=gathered.file_rows,
        feature_names=tuple(chosen.features),
        features=cast(Features, CheckedFeatures(gathered.take(_features(rows, chosen.features, in_order)))),
        categories=in_order,
        kept={name: gathered.take(rows.kept(name)) for name in chosen.kept},
        **parts,
    )


RankingDataset.from_frame = staticmethod(read_table)


def read_table_features(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    features: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    keep: Sequence[str] = (),
    ignore: Sequence[str] = (),
    categories: Categories | None = None,
    **columns: str | None,
) -> Features:
    """Reads the features of a table, which needs no column of any role.

    Args:
        columns: role -> column, as in `read_table`; these columns are no features, and are not read.

    Returns:
        (D, F), the documents in the order of the rows; the features in the order of `feature_names`, else of
        `features`, else of the table.

    Raises:
        DataError, ConfigError: as `read_table`.

    >>> import pandas as pd
    >>> read_table_features(pd.DataFrame({"query_id": ["a", "b"], "bm25": [0.5, 1.5]})).tolist()
    [[0.5], [1.5]]
    """
    tables = _open(source)
    given = dict.fromkeys(ROLES) | columns
    known = codes_of(categories)
    there = {role: name for role, name in given.items() if name in (None, *tables[0].columns)}
    named = (features, feature_names, categorical, keep, ignore)
    chosen = _columns_of(tables[0], there, num_features, known, *named)
    rows = _read(tables, replace(chosen, roles={}, kept=()))
    in_order = {name: known[name] if name in known else rows.categories(name) for name in chosen.categorical}
    return _features(rows, chosen.features, in_order)


def read_beside(path: Path, keep: Sequence[str] = (), **roles: str | None) -> dict[str, NDArray[Any]]:
    """Reads what is written beside scores, as far as a table has it: query_id, document_id, kept columns.

    Args:
        keep: as in `read_table`.
        roles: "query", "document" -> column; None: the name in `ROLES` that the table has.

    Returns:
        Name -> (D,) ids, or values of a kept column, in the order of the rows.
    """
    (table,) = tables = _open(path)
    there = {role: name for role, name in roles.items() if name in (None, *table.columns)}
    kept = _matching(table, "keep", keep, table.columns, False)
    by_role = _columns_of_roles(table, there, kept)
    rows = _read(tables, _Columns(by_role, (), (), kept))
    ids = {ROLES[role][0]: np.array(rows.ids(column)) for role, column in by_role.items()}
    return {**ids, **{name: rows.kept(name) for name in kept}}


def read_texts(path: Path, names: Mapping[str, Sequence[str]]) -> dict[str, NDArray[np.str_]]:
    """Reads columns of a table as text.

    Args:
        names: key -> possible names of its column, the first of which that the table has is read.

    Returns:
        Key -> (D,) texts, in the order of the rows; without keys whose column the table does not have.
    """
    (table,) = _open(path)
    given = {key: [name for name in of_key if name in table.columns] for key, of_key in names.items()}
    columns = {key: of_key[0] for key, of_key in given.items() if of_key}
    frame = table.read(list(columns.values()), ())
    return {key: frame[column].astype(str).to_numpy(np.str_) for key, column in columns.items()}


def write_table(dataset: RankingDataset, path: str | Path) -> None:
    """Writes a table for `read_table`: Parquet for the extension .parquet, else CSV, which .gz etc. compress.

    Raises:
        DataError: A feature has the name of a role, or the file cannot be written.
    """
    write_frame(dataset.to_frame(), Path(path))


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Writes a DataFrame: Parquet for the extension .parquet, else CSV, which .gz etc. compress.

    Raises:
        DataError: The file cannot be written.
    """
    with write_whole(path) as stream:
        if path.suffix.lower() == PARQUET:
            frame.to_parquet(stream, index=False)
        else:
            # The line endings of RFC 4180; with them pandas quotes an id that contains one.
            frame.to_csv(stream, index=False, lineterminator="\r\n")


def _read(tables: Sequence[_Table], columns: _Columns) -> _Rows:
    as_text = ("query", "document", *SPLIT_ROLES)
    texts = [column for role, column in columns.roles.items() if role in as_text]
    numbers = [column for column in columns.roles.values() if column not in texts]
    texts += columns.categorical
    numbers += [column for column in (*columns.features, *columns.kept) if column not in texts]
    rows = _Rows(tables, [table.read(texts, numbers) for table in tables])
    for table, frame in zip(tables, rows.frames, strict=True):
        if frame.empty:
            raise DataError(f"{table.name}: the table has no rows; a data set needs at least one document.")
    return rows


def _features(rows: _Rows, names: Sequence[str], categories: Mapping[str, tuple[str, ...]]) -> Features:
    features = np.empty((len(rows), len(names)), dtype=np.float32)
    unseen = {}
    texts = [name for name in names if name not in categories and rows.is_text(name)]
    listed = ",".join(texts[:_SHOWN]) + (",..." if len(texts) > _SHOWN else "")
    for number, column in enumerate(names):
        if column in categories:
            features[:, number], unseen[column] = rows.codes(column, categories[column])
            continue
        values = rows.numbers(
            column,
            f"the columns [{listed}] have texts or times: add each to categorical, keep or ignore (in a run "
            "data.categorical etc.), list the features in data.features, or set split_by or group_by for a "
            "time or a group of queries",
        )
        # Values beyond float32 become infinite; a signalling NaN is "invalid".
        with np.errstate(over="ignore", invalid="ignore"):
            features[:, number] = values
        rows.check(
            column,
            ~np.isinf(features[:, number]),
            "features must be finite in float32. Rescale the feature, and leave missing values empty",
        )
    if any(unseen.values()):
        counts = ", ".join(f"{column} in {count} documents" for column, count in unseen.items() if count)
        log.warning(
            f"{rows.tables[0].name}: categories that training does not have are missing values: {counts}"
        )
    return features


_FIELDS = {
    "label": (
        "labels",
        "write a finite grade of 0 or more, with 0 for irrelevant; remove documents without a label",
    ),
    "document": ("document_ids", ""),
    "weight": ("document_weights", "write a finite number of 0 or more for each document"),
    "position": ("positions", "write the rank at which the document was shown, a whole number of 0 or more"),
}
"""Role -> field of RankingDataset, and what a cell must be."""


def _values(rows: _Rows, role: str, column: str, whole_labels: bool) -> NDArray[Any]:
    """Returns the (D,) values of a role."""
    if role == "document":
        return np.array(rows.ids(column))
    _, expected = _FIELDS[role]
    numbers = rows.numbers(column, expected)
    is_whole = numbers == np.floor(numbers)
    # Above 2^53 a double does not represent every whole number.
    valid = is_whole & (numbers < 2**53) if role == "position" else np.isfinite(numbers)
    rows.check(column, valid & (numbers >= 0), expected)
    if role == "label" and whole_labels:
        remedy = "write whole numbers, or set whole_labels=false (in a run data.whole_labels=false)"
        rows.check(column, is_whole, remedy)
    return numbers.astype(np.int64) if role == "position" else numbers


# ---- Columns by which queries are split: the time of a query, and its group of near-duplicates.


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitColumns:
    """Values of the columns by which queries are split; None if a column is not set.

    Attributes:
        times: query id -> the latest time of its rows, a number or a date.
        groups: query id -> group.
    """

    times: Mapping[str, Any] | None = None
    groups: Mapping[str, str] | None = None


def read_split_columns(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    *,
    query: str | None = None,
    split_by: str | None = None,
    group_by: str | None = None,
    features: Sequence[str] | None = None,
) -> SplitColumns:
    """Reads the columns of a table by which its queries are split; the arguments are those of `read_table`.

    Raises:
        DataError: A column is missing, or a value is; a value is neither a number nor a date; or a query is
            in two groups.
    """
    tables = _open(source)
    given = {"query": query, "split_by": split_by, "group_by": group_by}
    roles = _columns_of_roles(tables[0], given, features or (), required=("query",))
    rows = _read(tables, _Columns(roles, (), (), ()))
    queries = rows.ids(roles["query"])
    return SplitColumns(
        times=_latest_times(rows, queries, roles["split_by"]) if "split_by" in roles else None,
        groups=_groups(rows, queries, roles["group_by"]) if "group_by" in roles else None,
    )


def _latest_times(rows: _Rows, queries: Sequence[str], column: str) -> dict[str, Any]:
    """Returns query id -> the latest time of its rows, so that no row of an earlier query is later.

    The times of a column are all numbers, or all dates in ISO 8601; those without a zone are in UTC.
    """
    import pandas as pd

    cells = pd.Series(rows.cells(column), dtype=object)
    numbers, valid = _numbers(cells)
    times: pd.Series[Any] = pd.Series(numbers)
    if valid[0]:
        valid &= np.isfinite(numbers)
    else:
        times = pd.to_datetime(cells.map(str), format="ISO8601", utc=True, errors="coerce")
        valid = times.notna().to_numpy()
    rows.check(
        column,
        valid,
        "a split by time needs a time in every row, all finite numbers or all dates in ISO 8601 such as "
        "2026-01-31. Convert the column, remove the query, or choose another column with data.split_by",
    )
    return cast("dict[str, Any]", times.groupby(np.array(queries)).max().to_dict())


def gap_between(gap: str | float, times: Mapping[str, Any]) -> Any:
    """Returns a gap in the units of times: 7d, 12h and 2w between dates, 7 between numbers.

    Raises:
        ConfigError: The gap has another form, or the units of the other kind of times.
    """
    import pandas as pd

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw]?)", str(gap))
    units: dict[str, Any] = {"h": "h", "d": "D", "w": "W"}
    is_of_dates = isinstance(next(iter(times.values())), pd.Timestamp)
    if match is None or bool(match[2]) != is_of_dates:
        form = "dates: write 12h, 7d or 2w" if is_of_dates else "numbers: write a number of 0 or more"
        raise ConfigError(f"data.gap is {gap!r}; the times of data.split_by are {form}.")
    number = float(match[1])
    return pd.Timedelta(number, units[match[2]]) if is_of_dates else number


def spans_of(
    splits: Mapping[str, RankingDataset | None], times: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Returns split -> first and last time of its queries, as text."""
    of_splits = {
        name: [times[query_id] for query_id in split.query_ids.tolist()]
        for name, split in splits.items()
        if split is not None
    }
    return {name: (_time_text(min(each)), _time_text(max(each))) for name, each in of_splits.items()}


def _time_text(time: Any) -> str:
    return f"{time:.15g}" if isinstance(time, float) else f"{time:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _groups(rows: _Rows, queries: Sequence[str], column: str) -> dict[str, str]:
    """Returns query id -> group."""
    # pandas writes 7.0 for the group 7 if the column once had missing values.
    groups = [str(cell).strip().removesuffix(".0") for cell in rows.cells(column)]
    rows.check(
        column,
        np.array([group.lower() not in MISSING for group in groups]),
        "every query needs a group. A query without near-duplicates is a group, such as its id",
    )
    group_of: dict[str, str] = {}
    same = [group_of.setdefault(query, group) == group for query, group in zip(queries, groups, strict=True)]
    rows.check(
        column,
        np.array(same),
        "an earlier row of the query has another group. Give all rows of a query the same group, or choose "
        "another column with data.group_by",
    )
    return group_of
