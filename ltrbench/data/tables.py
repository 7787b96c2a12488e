"""Reads and writes tables with named columns: pandas DataFrames, CSV (plain or compressed) and Parquet.

One row is one document. The columns in `ROLES` contain its label, query, document id, weight and position;
every other column is a feature, named after the column, unless it is kept beside the features or ignored. The
categories of a feature become codes, in the order of the training data. The rows of a query are consecutive.
Ids, kept columns and categories are read as they are written: texts of a CSV file, and texts or whole numbers
of another table. Features, labels and weights are numbers; true and false are 1 and 0. Nulls are missing
values, and so are texts such as NA in a CSV file or in a column of numbers, and in features of all tables
numbers such as -1 that the option `missing` names. Messages give the line of a CSV file, with the header as
line 1, or the row of another table, from one.

A table is opened (`Table`: the names of its columns), its columns are assigned to roles and features
(`_rows_of`), and the needed columns are read (`_Rows`). To support another kind of table, write a function
like `_open_csv`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import re
import shlex
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.blocks import (
    LONGEST_ID,
    as_paths,
    check_option,
    gather,
    read_blocks,
    refuse_initial_scores,
    without_compression_ending,
    write_whole,
)
from ltrbench.data.dataset import (
    FRACTIONS_REMEDY,
    MISSING,
    NO_NAME,
    OF_FLOATS,
    ROLE_OF_NAME,
    ROLES,
    RankingDataset,
    as_written,
    cell_text,
    is_exact,
    is_id,
    joined_columns,
)
from ltrbench.data.features import (
    CheckedFeatures,
    Pair,
    merged_in_words,
    merged_pair,
)
from ltrbench.errors import ConfigError, DataError, did_you_mean, require_choice
from ltrbench.shapes import Features

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    from pyarrow.dataset import FileSystemDataset
    from pyarrow.parquet import ParquetDataset

SPLIT_ROLES = ("split_by", "group_by")
"""Settings that name the columns by which queries are split, which are not features."""

_CSV_BLOCK_BYTES = 1 << 24  # at least a row of the widest tables
PARQUET = ".parquet"
_MAGIC = b"PAR1"
"""First and last bytes of a Parquet file."""
NEARLY_ALL = 0.95
"""Part of the cells of a column from which the others are taken for mistakes."""
_SHOWN = 8  # maximum number of columns in a message

log = logging.getLogger("ltrbench")


@dataclass(frozen=True, eq=False)
class Table:
    """Table of which the columns are known.

    Attributes:
        read: returns the rows, given the columns to read as text, the columns to read as numbers, and the
            texts that are missing numbers.
        csv_text: content of a CSV file, for the line numbers in messages.
        categorical: columns with pandas' dtype `category`.
    """

    name: str
    columns: Sequence[str]
    read: Callable[[Sequence[str], Sequence[str], Collection[str]], pd.DataFrame]
    csv_text: bytes | None = None
    categorical: Collection[str] = ()

    def rows(
        self,
        texts: Sequence[str],
        numbers: Sequence[str],
        missing: Collection[str] = MISSING,
        words: _Categories | None = None,
    ) -> pd.DataFrame:
        """Reads columns.

        Args:
            words: columns of `texts` in which missing values of a CSV file become nulls -> texts that are no
                missing values, whatever `missing` has.
        """
        frame = self.read(texts, numbers, missing)
        if len(frame) == 0:
            raise DataError(
                f"{self.name}: the table has no rows; write at least one document."
            )
        if self.csv_text is not None:
            for column, known in (words or {}).items():
                cells = frame[column]
                frame[column] = _with_nulls(self.name, cells, missing, known)
        return frame

    def check_has(self, columns: Sequence[str], tables: Sequence[Table]) -> None:
        """Raises DataError unless the table has these columns of the tables of its split."""
        lacking = [name for name in columns if name not in self.columns]
        if lacking:
            have = [table.name for table in tables if lacking[0] in table.columns]
            listed = ", ".join(map(repr, lacking[:_SHOWN]))
            raise DataError(
                f"{self.name}: the table has no column {listed}, which "
                f"{have[0]} has. The files of a split have the same columns: add it, or ignore it (in a run "
                "data.ignore)."
            )

    def location(self, row: int) -> str:
        if self.csv_text is None:
            return f"{self.name}: row {row + 1}"
        rows = _csv_rows(self.csv_text)
        lines = (rows.line_num for cells in rows if cells)
        return f"{self.name}:{next(islice(lines, row + 1, None))}"


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rows:
    """Rows of the tables of one split, one table after the other.

    Attributes:
        roles: role -> column.
        features: feature columns, in order.
        categories: categorical feature -> its categories; None: those of these rows.
        keep: columns beside the features.
        missing: lower-case texts that are missing values.
        dates: feature of dates -> the day from which days are counted; None: the earliest of these rows.
        encoded: categorical feature that becomes a feature for each category -> maximum number of its
            categories; None: any number.
    """

    tables: Sequence[Table]
    roles: Mapping[str, str]
    features: Sequence[str] = ()
    categories: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    keep: Sequence[str] = ()
    missing: Collection[str] = MISSING
    dates: Mapping[str, str | None] = field(default_factory=dict)
    encoded: Mapping[str, int | None] = field(default_factory=dict)

    @cached_property
    def frames(self) -> list[pd.DataFrame]:
        """The rows of each table, with the columns above only."""
        as_text = ("query", "document", *SPLIT_ROLES)
        texts = [column for role, column in self.roles.items() if role in as_text]
        texts += [*self.categories, *self.dates, *self.keep]
        columns = (*self.roles.values(), *self.features)
        numbers = [name for name in columns if name not in texts]
        first, *others = self.tables
        for table in (*others, first):
            table.check_has([*texts, *numbers], self.tables)
        words = {name: known or () for name, known in self.categories.items()}
        if "group_by" in self.roles:
            words[self.roles["group_by"]] = ()
        return [
            table.rows(texts, numbers, self.missing, words) for table in self.tables
        ]

    @cached_property
    def missing_numbers(self) -> tuple[float, ...]:
        return missing_numbers(self.missing)

    def __len__(self) -> int:
        return sum(map(len, self.frames))

    def location(self, row: int) -> str:
        for table, frame in zip(self.tables, self.frames, strict=True):
            if row < len(frame):
                return table.location(row)
            row -= len(frame)
        raise IndexError(row)

    def check(self, column: str, valid: ArrayLike, expected: str) -> None:
        """Raises DataError for the first cell of a column that is not valid: (D,)."""
        if np.all(valid):
            return
        row = int(np.argmin(valid))
        cell = self.cells(column).tolist()[row]
        raise DataError(
            f"{self.location(row)}: column '{column}' is {cell!r:.60}; {expected}."
        )

    def cells(self, column: str) -> pd.Series[Any]:
        """Returns the (D,) cells of a column."""
        import pandas as pd

        parts = [frame[column] for frame in self.frames]
        if len(parts) == 1:
            return parts[0]
        read_as_text = {*self.categories, *self.dates, *self.keep}
        read_as_text.update(self.roles.values())
        dtypes = {str(part.dtype) for part in parts}
        if column in read_as_text and len(dtypes) > 1:
            # Whole numbers beside real ones would become real.
            parts = [part.astype(object) for part in parts]
        return pd.concat(parts, ignore_index=True)

    def ids(self, column: str) -> list[str]:
        cells = self.cells(column)
        values = cells.tolist()
        self.check(
            column,
            [is_id(value) for value in values],
            "an id is a string or a number: write it as text, or remove the row",
        )
        if cells.dtype.kind in "iu":
            return list(map(str, values))
        are_exact = [is_exact(value, cells.dtype) for value in values]
        self.check(column, are_exact, OF_FLOATS)
        return list(map(cell_text, values))

    def numbers(self, column: str, expected: str) -> NDArray[np.float64]:
        """Returns the (D,) numbers of a column; missing values are NaN."""
        numbers, valid = numbers_of_cells(self.cells(column), self.missing)
        self.check(column, valid, f"this is not a number: {expected}")
        return numbers

    def feature(self, column: str, expected: str) -> NDArray[np.float64]:
        """Returns the (D,) numbers of a feature; missing values are NaN."""
        cells = self.cells(column)
        numbers, valid = numbers_of_cells(cells, self.missing)
        if NEARLY_ALL <= valid.mean() < 1:
            word = str(cells.iloc[int(np.argmin(valid))])
            missing = f"\"data.missing=['{word:.60}']\""
            expected = (
                f"if it is a missing value, leave the cell empty, or add it to missing (in a run {missing}). "
                f"Otherwise {expected}"
            )
        self.check(column, valid, f"this is not a number: {expected}")
        if not self.missing_numbers:
            return numbers
        of_missing = np.array(self.missing_numbers)
        dtype: Any = cells.dtype
        if dtype.kind == "f":
            # A column of float32 has the number that is nearest to the text.
            of_missing = of_missing.astype(f"f{dtype.itemsize}").astype(np.float64)
        return np.where(np.isin(numbers, of_missing), np.nan, numbers)

    def days(self, column: str) -> tuple[NDArray[np.float64], str]:
        """Returns the (D,) days of a column of dates since a day, and this day; missing dates are NaN."""
        cells = self.cells(column)
        times, valid = times_of_cells(cells, self.missing)
        self.check(
            column,
            valid,
            "data.dates takes dates as 2026-01-31 or 2026-01-31T10:30 (ISO 8601), 20260131, Unix seconds, or "
            "milliseconds of 13 digits: write a date with hours in the second form",
        )
        first = self.dates[column]
        if not first:
            first = str(times.min())[:10]
        return _days_since(times, first, column), first

    def codes(
        self,
        column: str,
    ) -> tuple[NDArray[np.float64], tuple[str, ...]]:
        """Returns the (D,) codes of a column, and its categories.

        Categories that are not given are in the order of the pandas categories, which Parquet keeps for
        texts only, else sorted. Cells with other categories are counted in the log.
        """
        cells = self.cells(column)
        self._check_categories(column, cells)
        has_order = str(cells.dtype) == "category"
        numbers, distinct = cells.factorize(sort=has_order)
        are_exact = [*(is_exact(cell, cells.dtype) for cell in distinct), True]
        self.check(column, np.array(are_exact)[numbers], OF_FLOATS)
        texts = self._category_texts(column, distinct)
        categories = self._all_categories(column, texts, has_order)
        of_category = codes_of_categories(categories)
        codes = np.array([of_category.get(text, -1) for text in texts])
        is_unseen = (codes < 0) & texts.notna()
        num_unseen = is_unseen[numbers].sum()
        if num_unseen:
            self._log_unseen(column, num_unseen, texts[is_unseen][0])
        code_of_number = np.where(codes < 0, np.nan, codes)
        return code_of_number[numbers], tuple(categories)

    def _all_categories(
        self, column: str, texts: pd.Index[Any], has_order: bool
    ) -> Sequence[str]:
        """Returns the categories that are given, and those of the texts as far as they count.

        Args:
            has_order: whether the texts are in their order.
        """
        given = self.categories[column]
        if given is None:
            categories: list[str] = texts.dropna().unique().tolist()
            if not has_order:
                _sort_categories(categories)
            return categories
        if isinstance(given, OpenCategories):
            known = codes_of_categories(given)
            new = set(texts.dropna()).difference(known)
            return [*given, *sorted(new)]
        return given

    def _category_texts(self, column: str, cells: Iterable[object]) -> pd.Index[Any]:
        """Returns the texts of categories; None for a null, and for a number that is a missing value.

        One more text, the last one, is None, for the number -1 of a missing value.
        """
        import pandas as pd

        known = self.categories[column] or ()
        texts = []
        for cell in cells:
            text = category_text(cell)
            is_number = isinstance(cell, Real) and not isinstance(cell, bool)
            if is_number and cell in self.missing_numbers and text not in known:
                text = None
            texts.append(text)
        return pd.Index([*texts, None], dtype=object)

    def _check_categories(self, column: str, cells: pd.Series[Any]) -> None:
        """Raises DataError for a cell that can be no category, such as a list."""
        import pandas as pd

        if cells.dtype == object:
            is_one = [*map(pd.api.types.is_hashable, cells)]
            self.check(
                column, is_one, "a category is a text, a whole number or a boolean"
            )
        self._check_no_bytes(column, cells)

    def _check_no_bytes(self, column: str, cells: pd.Series[Any]) -> None:
        """Raises DataError for bytes, whose text depends on an encoding."""
        if cells.dtype == object:
            is_text = [not isinstance(cell, bytes) for cell in cells]
            self.check(
                column,
                is_text,
                "these are bytes: write a column of texts (pandas: .str.decode('utf-8')), or ignore it",
            )

    def _log_unseen(self, column: str, num_documents: int, example: str) -> None:
        """Logs the number of documents with a category that is not in the training data."""
        outcome = "0 in each feature" if column in self.encoded else "missing"
        log.warning(
            f"{self.tables[0].name}: {column} in {num_documents} documents is not in training, such as "
            f"{example[:60]!r}: {outcome}"
        )

    def kept(self, column: str) -> NDArray[Any]:
        """Returns the (D,) values of a kept column as they are written: typed numbers, or texts.

        A column of whole numbers with nulls has texts, which are empty for a null.
        """
        cells = self.cells(column)
        self._check_no_bytes(column, cells)
        kind = cells.dtype.kind
        if kind == "f":
            return self._kept_floats(column, cells)
        if kind in "biu" and not cells.isna().any():
            return cells.to_numpy(_NUMPY_TYPES[kind])
        texts = cells.astype(object).map(cell_text)
        texts = texts.where(cells.notna(), "")
        is_short = texts.str.len() <= LONGEST_ID
        self.check(
            column,
            is_short,
            f"a kept text has up to {LONGEST_ID} characters: shorten or ignore it",
        )
        return texts.to_numpy(np.str_)

    def _kept_floats(self, column: str, cells: pd.Series[Any]) -> NDArray[np.float64]:
        """Returns (D,) floats; large whole ones only would be ids that are no longer exact."""
        values = cells.to_numpy(np.float64, na_value=np.nan)
        known = values[np.isfinite(values)]
        if (known == np.floor(known)).all():
            are_exact = [is_exact(cell, cells.dtype) for cell in known.tolist()]
            valid = np.ones(len(values), dtype=np.bool_)
            valid[np.isfinite(values)] = are_exact
            self.check(column, valid, OF_FLOATS)
        return values


class OpenCategories(tuple[str, ...]):
    """Categories of the training data, which the others of a table follow; these are sorted."""


def _with_nulls(
    table: str,
    cells: pd.Series[Any],
    missing: Collection[str],
    known: Sequence[str],
) -> pd.Series[Any]:
    """Returns the texts of a CSV file with nulls for missing values, and logs which words these are.

    Args:
        known: categories of the training data, which are no missing values.
    """
    codes, distinct = cells.factorize()
    is_word = _are_missing(distinct, missing, codes_of_categories(known))
    words = [text for text in distinct[is_word] if text.strip()]
    if words:
        num_rows = int(cells.isin(words).sum())
        listed = " or ".join(map(repr, words))
        log.warning(
            f"{table}: {cells.name} is {listed} in {num_rows} rows, which are "
            "read as missing values. If these are values, set data.missing=[]: then only empty cells are "
            "missing."
        )
    return cells.mask(is_word[codes])


def _are_missing(
    texts: Iterable[str], missing: Collection[str], known: Collection[str]
) -> NDArray[np.bool_]:
    """Returns which texts are missing values and not known as others; numbers are compared as numbers."""
    numbers = missing_numbers(missing)
    are_missing = []
    for text in texts:
        word = text.strip().lower()
        is_missing = word in missing or _number(word) in numbers
        are_missing.append(is_missing and text not in known)
    return np.array(are_missing, dtype=np.bool_)


def missing_numbers(missing: Collection[str]) -> tuple[float, ...]:
    """Returns the numbers among texts that are missing values.

    >>> missing_numbers(["na", "nan", "-1", "-1.0"])
    (-1.0,)
    """
    numbers = set(map(_number, missing))
    return tuple(sorted(number for number in numbers if number is not None))


def _number(word: str) -> float | None:
    """Returns the number in a text; None if it is none, or NaN."""
    try:
        number = float(word)
    except ValueError:
        return None
    return None if "_" in word or np.isnan(number) else number


_NUMPY_TYPES = {"b": np.bool_, "i": np.int64, "u": np.uint64}


def category_text(cell: object) -> str | None:
    """Returns the text of a category; None for a null.

    >>> [category_text(cell) for cell in (7.0, "7.0", True, "True", "NA", None)]
    ['7', '7.0', 'true', 'True', 'NA', None]
    """
    if cell is None or cell != cell:
        return None
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    return cell_text(cell)


def codes_of_categories(categories: Sequence[str]) -> dict[str, int]:
    """Returns the text of a cell -> the code of its category.

    A boolean has another text in each kind of file: all that are no category themselves have its code.

    >>> codes_of_categories(["True", "new"])
    {'True': 0, 'new': 1, 'TRUE': 0, 'true': 0}
    """
    codes = {text: code for code, text in enumerate(categories)}
    for code, text in enumerate(categories):
        if text.lower() in ("false", "true"):
            for spelling in (text.title(), text.upper(), text.lower()):
                codes.setdefault(spelling, code)
    return codes


def numbers_of_cells(
    cells: pd.Series[Any], missing: Collection[str] = MISSING
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the (D,) numbers in cells of any type, NaN for a missing one, and which cells are numbers or
    missing values."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells.to_numpy(np.float64, na_value=np.nan)
        return numbers, np.ones(len(cells), dtype=np.bool_)
    texts = cells.astype(object).map(str)
    words = texts.str.strip().str.lower()
    words = words.replace({"true": "1", "false": "0"})
    is_number = pd.to_numeric(words, errors="coerce").notna()
    is_missing = words.isin(missing) | cells.isna()
    # Python rounds a text to the nearest number, which to_numeric does not promise.
    numbers = words.where(is_number, "nan").to_numpy(np.float64)
    return numbers, (is_number | is_missing).to_numpy()


_FIRST_DATE = 1900_01_01
_LAST_DATE = 2200_12_31
"""Range of the numbers that are dates in a column of times."""
_FORMS_OF_NUMBERS = {
    r"\d{8}(\.0*)?": "%Y%m%d",
    r"\d{9,10}(\.\d*)?": "s",
    r"\d{13}(\.0*)?": "ms",
}
"""Form of a number -> its format, or the unit since 1970. A fraction of zeros is that of a column of whole
numbers with missing cells, as pandas writes it. Numbers of 12 digits may be dates with minutes."""


def times_of_cells(
    cells: pd.Series[Any], missing: Collection[str] = MISSING
) -> tuple[pd.Series[Any], NDArray[np.bool_]]:
    """Returns the (D,) times in cells, NaT for a missing one, and which cells are times or missing."""
    import pandas as pd

    if cells.dtype.kind == "M":
        times = pd.to_datetime(cells, utc=True)
        return times, np.ones(len(cells), dtype=np.bool_)
    texts = cells.astype(object).map(cell_text).str.strip()
    is_missing = cells.isna() | texts.str.lower().isin(missing)
    if of_missing := missing_numbers(missing):
        is_missing |= pd.to_numeric(texts, errors="coerce").isin(of_missing)
    texts = texts.mask(is_missing)
    known = texts[~is_missing]
    if len(known) and are_dates_with_hours(known):
        times = pd.Series(pd.NaT, index=cells.index)
        return times, is_missing.to_numpy()
    options: dict[str, Any] = {"format": "ISO8601"}
    given: pd.Series[Any] = texts
    for form, way in _FORMS_OF_NUMBERS.items():
        if not len(known) or not known.str.fullmatch(form).all():
            continue
        if way in ("s", "ms"):
            options = {"unit": way}
            given = texts.astype(np.float64)
        else:
            options = {"format": way}
            given = texts.str.slice(stop=8)
    times = pd.to_datetime(given, utc=True, errors="coerce", **options)
    return times, (times.notna() | is_missing).to_numpy()


def are_dates_with_hours(texts: pd.Series[Any]) -> bool:
    """Returns whether all numbers are dates with hours, as 2026013110, and hardly seconds since 1970.

    As seconds they would be of 2030 and later.
    """
    import pandas as pd

    if not texts.str.fullmatch(r"(19|20|21)\d{8}(\.0*)?").all():
        return False
    digits = texts.str.slice(stop=10)
    times = pd.to_datetime(digits, format="%Y%m%d%H", errors="coerce")
    return bool(times.notna().all())


def _days_since(times: pd.Series[Any], first: str, column: str) -> NDArray[np.float64]:
    import pandas as pd

    try:
        start = pd.to_datetime(first, format="ISO8601", utc=True)
        days = (times - start) / pd.Timedelta(days=1)
    except ValueError:
        raise ConfigError(
            f"data.dates: the first day of {column} is {first!r}; write a date such as 2026-01-31."
        ) from None
    return np.asarray(days, dtype=np.float64)


def days_of(cells: Sequence[object], first: str, column: str) -> NDArray[np.float64]:
    """Returns the (n,) days of dates since a day, for a model that was trained on `data.dates`.

    Raises:
        DataError: A cell is not a date.

    >>> days_of(["2026-02-01", None], "2026-01-31", "date").tolist()
    [1.0, nan]
    """
    import pandas as pd

    series = pd.Series([*cells], dtype=object)
    times, valid = times_of_cells(series, MISSING)
    if not valid.all():
        cell = cells[int(np.argmin(valid))]
        raise DataError(f"{column} is {cell!r:.60}; write a date such as 2026-01-31.")
    return _days_since(times, first, column)


# ---- Opens tables: a function for each kind.

_Categories: TypeAlias = Mapping[str, Sequence[str]]  # of each feature
_Source: TypeAlias = "pd.DataFrame | str | Path | Sequence[str | Path]"


def _open(source: _Source) -> list[Table]:
    """Opens the tables of one split."""
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        frame = source.set_axis(list(map(str, source.columns)), axis=1)
        table = Table(
            "the DataFrame",
            list(frame.columns),
            lambda *_: frame,
            categorical=_categorical_columns(frame),
        )
        tables = [table]
    else:
        tables = list(map(open_table, as_paths(source)))
    for table in tables:
        for column in table.columns:
            if table.columns.count(column) > 1:
                raise DataError(
                    f"{table.name}: two columns have the name '{column}'; rename one of them."
                )
    return tables


def read_frame(path: Path, missing: Collection[str] = MISSING) -> pd.DataFrame:
    """Returns all columns of a CSV or Parquet table, with the types of their cells.

    Args:
        missing: lower-case texts that are missing numbers in a CSV file.

    Raises:
        DataError: The table cannot be read, has no rows, or two columns of a name.
    """
    (table,) = _open(path)
    return table.rows([], table.columns, missing)


def is_table(path: Path) -> bool:
    """Returns whether a path has named columns: CSV, plain or compressed, or Parquet."""
    ending = without_compression_ending(path).suffix.lower()
    return ending in (".csv", PARQUET) or is_parquet(path)


def is_parquet(path: Path) -> bool:
    """Returns whether a path is a Parquet file or a folder of its parts, by its name or its content."""
    if path.suffix.lower() == PARQUET:
        return True
    if path.is_dir():
        return any(path.rglob(f"*{PARQUET}"))
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.read(len(_MAGIC))
        if first != _MAGIC:
            return False
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC


def open_table(path: Path) -> Table:
    """Opens a CSV or Parquet file, of which rows are read later."""
    if is_parquet(path):
        return _open_parquet(path)
    return _open_csv(path)


def _categorical_columns(frame: pd.DataFrame) -> list[str]:
    return list(frame.columns[frame.dtypes == "category"])


def _open_csv(path: Path) -> Table:
    import pyarrow
    from pyarrow import csv as arrow_csv

    text = b"".join(block for block, _ in read_blocks(path))

    def read(
        texts: Sequence[str], numbers: Sequence[str], missing: Collection[str]
    ) -> pd.DataFrame:
        forms = (str, str.upper, str.title)
        words = {"nan", "NaN"}
        # A number is a missing value in features only.
        texts_only = [word for word in missing if _number(word) is None]
        for form in forms:
            words.update(map(form, texts_only))
        reading = arrow_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
        parsing = arrow_csv.ParseOptions(newlines_in_values=True)
        conversion = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(texts, pyarrow.string()),
            include_columns=list(dict.fromkeys([*texts, *numbers])),
            null_values=sorted(words),
            strings_can_be_null=False,
        )
        with _naming(path):
            stream = pyarrow.BufferReader(text)
            table = arrow_csv.read_csv(stream, reading, parsing, conversion)
        return cast("pd.DataFrame", table.to_pandas(split_blocks=True))

    with _naming(path):
        header, row = _first_rows(text)
    if not header:
        raise DataError(
            f"{path}: the file is empty. Check that the file was written and copied completely."
        )
    if len(header) == 1:
        _check_separator(path, header[0], row)
    return Table(str(path), header, read, text)


def _first_rows(text: bytes) -> tuple[list[str], list[str]]:
    """Returns the header of a CSV file and its first row; a row that it does not have is empty."""
    rows: Iterator[list[str]] = filter(None, _csv_rows(text))
    header = next(rows, [])
    # In a table of several columns, cells may be longer than this reader takes.
    row = next(rows, []) if len(header) == 1 else []
    return header, row


def _check_separator(path: Path, header: str, row: Sequence[str]) -> None:
    """Raises DataError if a header of one column and the first row have another separator than commas."""
    line = ",".join(row)  # numbers may have decimal commas
    for separator in (";", "\t", "|"):
        if header.count(separator) == line.count(separator) > 0:
            raise DataError(
                f"{path}: the header is one column, {header[:200]!r}. Separate the cells of a CSV file by "
                f"commas, not by {separator!r}."
            )


def _csv_rows(text: bytes) -> Any:
    """Returns a reader of the rows of a CSV file, which counts its lines."""
    return csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline=""))


def _open_parquet(path: Path) -> Table:
    """Opens a Parquet file, or a folder of its parts."""
    import pandas as pd
    from pyarrow import parquet

    with _naming(path):
        found = parquet.ParquetDataset(path)
        parts = {each.path: each.physical_schema.names for each in found.fragments}
        dataset = _with_columns_of_parts(found)
        # Without the index that pandas wrote, which is no feature.
        empty = dataset.schema.empty_table().to_pandas()

    def read(
        texts: Sequence[str], numbers: Sequence[str], _: Collection[str]
    ) -> pd.DataFrame:
        with _naming(path):
            names = list(dict.fromkeys([*texts, *numbers]))
            _check_parts(parts, names)
            table = dataset.to_table(columns=names)
            # Whole numbers with nulls would become floats.
            of_texts = table.select(list(dict.fromkeys(texts))).to_pandas(
                ignore_metadata=True, integer_object_nulls=True
            )
            of_numbers = table.select(list(dict.fromkeys(numbers))).to_pandas(
                ignore_metadata=True, split_blocks=True
            )
            frame = pd.concat([of_texts, of_numbers], axis=1)
            return cast("pd.DataFrame", frame)

    return Table(
        str(path),
        list(empty.columns),
        read,
        categorical=_categorical_in_parquet(dataset.schema, empty),
    )


def _categorical_in_parquet(schema: pyarrow.Schema, empty: pd.DataFrame) -> list[str]:
    """Returns the columns that had the dtype `category` in pandas.

    Categories of whole numbers and booleans become columns of these types, and are in pandas' metadata alone.

    Args:
        empty: a table of this schema.
    """
    of_pandas = schema.pandas_metadata or {}
    names = set(_categorical_columns(empty))
    for column in of_pandas.get("columns", ()):
        if column.get("pandas_type") == "categorical":
            names.add(column["name"])
    return [name for name in empty.columns if name in names]


def _with_columns_of_parts(given: ParquetDataset) -> FileSystemDataset:
    """Returns a folder with the columns of all parts; pyarrow takes those of the first part."""
    from pyarrow import dataset as arrow_dataset

    schema = given.schema
    for fragment in given.fragments:
        for column in fragment.physical_schema:
            if column.name not in schema.names:
                schema = schema.append(column)
    form = arrow_dataset.ParquetFileFormat()
    return arrow_dataset.FileSystemDataset(given.fragments, schema, form)


def _check_parts(parts: Mapping[str, Sequence[str]], names: Sequence[str]) -> None:
    """Raises DataError if a part of a Parquet folder lacks a column, which pyarrow would fill with nulls.

    Args:
        parts: path of each part -> its columns, without those that the names of folders give.
    """
    for name in names:
        lacking = [path for path, columns in parts.items() if name not in columns]
        if lacking and len(lacking) < len(parts):
            raise DataError(
                f"{lacking[0]}: the part has no column {name!r}, which other parts of the folder have. Write "
                "all parts with the same columns, or ignore it (in a run data.ignore)."
            )


def parts_of(folder: Path) -> list[Path]:
    """Returns the files of a Parquet folder, in the order in which pyarrow reads them; none for another."""
    if not is_parquet(folder):
        return []
    parts = []
    for path in sorted(folder.rglob("*")):
        names = path.relative_to(folder).parts
        # pyarrow leaves these out, as Spark's _SUCCESS.
        is_hidden = any(name.startswith((".", "_")) for name in names)
        if path.is_file() and not is_hidden:
            parts.append(path)
    return parts


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
    table: Table,
    given: Mapping[str, str | None],
    features: Collection[str],
    required: Collection[str],
) -> dict[str, str]:
    """Returns role -> column, for the roles that the table has.

    Args:
        required: roles that the table must have; without the label, it may lack the given columns, too.

    Raises:
        DataError: A column is missing, or several columns have default names of a role.
    """
    columns: dict[str, str] = {}
    for role, name in given.items():
        usual = [column for column in ROLES.get(role, ()) if column not in features]
        names = [name] if name else usual
        choices = [column for column in names if column in table.columns]
        if len(choices) > 1:
            raise DataError(
                f"{table.name}: the columns {' and '.join(choices)} are both default names of the {role}; "
                f"choose one with {_as_set(role)}, and remove the other or list the features."
            )
        if choices:
            columns[role] = choices[0]
        elif role in required or ("label" in required and name):
            remedy = f"Set the column of the {role} with {_as_set(role)}"
            if role == "label":
                remedy += ", or read the features alone with read_features or the verb predict"
            raise _no_column(table, names, role, remedy, table.columns)
    return columns


def _as_set(role: str) -> str:
    """Returns how a user names the column of a role, wherever the table is read."""
    return (
        f"data.{role}=COLUMN (--read {role}=COLUMN of a verb, {role}=COLUMN in Python)"
    )


def _no_column(
    table: Table, names: Sequence[str], use: str, remedy: str, columns: Sequence[str]
) -> DataError:
    wanted = " or ".join(map(repr, names))
    listed = ", ".join(map(repr, columns[:_SHOWN]))
    if len(columns) > _SHOWN:
        listed += ", ..."
    return DataError(
        f"{table.name}: the table has no column {wanted} ({use})"
        f"{did_you_mean(names[0], columns)} Its columns are {listed[:200]}. {remedy}."
    )


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The options of `read_table` on features and kept columns."""

    features: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    categorical: Sequence[str] = ()
    keep: Sequence[str] = ()
    ignore: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] | None = None
    missing: Sequence[str] | None = None
    dates: Sequence[str] | Mapping[str, str] | None = None
    encode: str | Sequence[str] | _Categories | None = None
    num_features: int | None = None

    def __post_init__(self) -> None:
        check_option("feature_names", self.feature_names or [], list)
        check_option("categories", self.categories or {}, dict)

    @property
    def is_training(self) -> bool:
        """Whether the table determines the features; otherwise the training data do."""
        return self.feature_names is None

    @property
    def known_encoded(self) -> Mapping[str, Sequence[str]]:
        """Encoded column -> its categories in the training data."""
        return self.encode if isinstance(self.encode, Mapping) else {}

    @property
    def known_categories(self) -> Mapping[str, Sequence[str]]:
        """Column -> its categories in the training data, encoded or not."""
        return {**(self.categories or {}), **self.known_encoded}


def _options_and_roles(**given: Any) -> tuple[_Options, dict[str, str | None]]:
    """Returns the options of `read_table`, and role -> column."""
    names = {each.name for each in fields(_Options)}
    options = {name: value for name, value in given.items() if name in names}
    roles = {name: value for name, value in given.items() if name not in names}
    return _Options(**options), roles


def _rows_of(
    source: _Source,
    options: _Options,
    roles: Mapping[str, str | None],
    required: Collection[str] = (),
) -> _Rows:
    """Opens tables and assigns their columns; each table must have those that are read.

    Args:
        roles: role -> given column.
        required: as in `_columns_of_roles`; without the label, the table may lack the kept columns, too.

    Raises:
        DataError: A column is missing, is no feature of the training data, or is unlikely to be a feature.
    """
    tables = _open(source)
    first_days = _first_days(options.dates, options.is_training)
    columns = _Columns.of(_united(tables), options, roles, required)
    features = columns.features
    _check_number(columns.table, options, features)
    categories = {}
    for name in features:
        if name in columns.categorical:
            categories[name] = options.known_categories.get(name)
    # Metrics and predictions have the ids anyway.
    ids = {"query_id", "document_id"} & set(columns.roles.values())
    return _Rows(
        tables=tables,
        roles=columns.roles,
        features=features,
        categories=categories,
        keep=[column for column in columns.kept if column not in ids],
        missing=missing_words(options.missing),
        dates={name: first_days.get(name) for name in columns.dates},
        encoded=columns.encoded(list(categories)),
    )


def _united(tables: Sequence[Table]) -> Table:
    """Returns the first table with the columns of all tables, to assign columns; its rows are not read."""
    names = [tables[0].name]
    columns = [*tables[0].columns]
    for table in tables[1:]:
        added = [column for column in table.columns if column not in columns]
        if added:
            names.append(table.name)
            columns += added
    name = " and ".join(names[:_SHOWN])
    return replace(tables[0], name=name, columns=columns)


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The columns of a table by their use.

    Attributes:
        roles: role -> column.
        kept: columns beside the features.
        left: columns without a role that are neither kept nor ignored.
    """

    table: Table
    options: _Options
    roles: Mapping[str, str]
    kept: Sequence[str]
    left: Sequence[str]

    @classmethod
    def of(
        cls,
        table: Table,
        options: _Options,
        roles: Mapping[str, str | None],
        required: Collection[str],
    ) -> _Columns:
        must_have_kept = "label" in required
        kept = _matching(table, "keep", options.keep, table.columns, must_have_kept)
        ignored = _matching(
            table, "ignore", options.ignore, table.columns, options.is_training
        )
        without_role = {*(options.features or ()), *_without_role(kept, ignored)}
        given = {**dict.fromkeys(ROLES), **roles}
        by_role = _columns_of_roles(table, given, without_role, required)
        used = {*by_role.values(), *kept, *ignored}
        return cls(
            table=table,
            options=options,
            roles=by_role,
            kept=kept,
            left=[column for column in table.columns if column not in used],
        )

    def _matching(self, option: str, patterns: Sequence[str]) -> list[str]:
        return _matching(
            self.table, option, patterns, self.left, self.options.is_training
        )

    @cached_property
    def _listed(self) -> Sequence[str]:
        """The columns of the option `features`, or else all that are left."""
        if self.options.features is None:
            return self.left
        return self._matching("features", self.options.features)

    @cached_property
    def _to_encode(self) -> list[str]:
        """The columns that the option `encode` names."""
        encode = self.options.encode
        if encode is None or isinstance(encode, str | Mapping):
            return []
        return self._matching("encode", [*encode])

    @cached_property
    def categorical(self) -> list[str]:
        to_encode = self._to_encode
        patterns = self.options.categorical
        if self.options.categories is not None and not self.options.is_training:
            patterns = ()  # another setting does not change those of training
        names = self._matching("categorical", patterns)
        names += [name for name in self.left if name in self.options.known_categories]
        names += to_encode
        if self.options.categories is None:
            names += [name for name in self._listed if name in self.table.categorical]
        return names

    @cached_property
    def dates(self) -> list[str]:
        dates = self.options.dates
        if not isinstance(dates, str):  # a text is an error
            dates = [*(dates or ())]
        return self._matching("dates", dates)

    @cached_property
    def features(self) -> list[str]:
        options = self.options
        columns = [*self._listed, *self.categorical, *self.dates]
        chosen = list(dict.fromkeys(columns))
        names = chosen
        if options.feature_names is not None:
            of_training = columns_of_features(
                options.feature_names, options.known_encoded, self.table.columns
            )
            names = _matching(self.table, "features", of_training, self.left, True)
        _check_of_training(self.table, chosen, names, options.ignore)
        if options.features is None and options.is_training:
            _check_unlisted(self.table, names)
        return names

    def encoded(self, categorical: Sequence[str]) -> dict[str, int | None]:
        """Returns the features that are encoded -> the maximum number of their categories; None: any number.

        Args:
            categorical: the categorical features.
        """
        encode = self.options.encode
        if not isinstance(encode, str):
            known = [name for name in categorical if name in self.options.known_encoded]
            return dict.fromkeys([*self._to_encode, *known])
        require_choice("encode", encode, (ONE_HOT,))
        if not categorical:
            raise ConfigError(
                f"{self.table.name}: encode is {encode}, but no feature has categories. Name them in "
                "categorical (in a run data.categorical), or leave out encode."
            )
        return dict.fromkeys(categorical, MOST_ENCODED)


def _check_number(table: Table, options: _Options, features: Sequence[str]) -> None:
    """Raises DataError if the table has another number of features than expected."""
    expected = options.num_features
    if expected is not None:
        expected -= _num_added(options.known_encoded, table.columns)
    if not features or expected not in (None, len(features)):
        raise DataError(
            f"{table.name}: the table has {len(features)} feature columns, but {expected or 'at least 1'} "
            "were expected; add columns, or list the features in `features`."
        )


def _first_days(
    dates: Sequence[str] | Mapping[str, str] | None, is_training: bool
) -> Mapping[str, str]:
    """Returns feature of dates -> its first day in the training data.

    Raises:
        ConfigError: The data are not those of training, and have no first days.
    """
    if isinstance(dates, Mapping) and dates:
        return dates
    if dates and not is_training:
        raise ConfigError(
            f"dates is {list(dates)}; pass those of the training data (dates=train.dates), which have the "
            "first day."
        )
    return {}


def _without_role(kept: Sequence[str], ignored: Sequence[str]) -> set[str]:
    """Returns the kept and ignored columns whose names give them no role.

    The names of the label and of the query always do, and that of the document does if it is kept.
    """
    columns = {*kept, *ignored}
    always = {name for name in columns if ROLE_OF_NAME.get(name) in ("label", "query")}
    documents = {name for name in kept if ROLE_OF_NAME.get(name) == "document"}
    return columns - always - documents


def _num_added(encoded: Mapping[str, Sequence[str]], columns: Collection[str]) -> int:
    """Returns how many more features than columns a table has, because of columns that are encoded."""
    num_added = 0
    for column, categories in encoded.items():
        if column in columns:
            num_added += len(categories) - 1
    return num_added


def _check_of_training(
    table: Table,
    columns: Sequence[str],
    features: Sequence[str],
    ignored: Sequence[str],
) -> None:
    """Raises DataError if columns that would be features are not features of the training data."""
    odd = [column for column in columns if column not in features]
    for column in odd:
        if NO_NAME.fullmatch(column):
            number = table.columns.index(column) + 1
            raise DataError(
                f"{table.name}: column {number}, '{column}', is not a feature of the training data, but "
                "probably an index that pandas wrote. Remove it (pandas: index=False)."
            )
    if odd:
        # The option of the command line replaces the columns that the run ignores.
        word = shlex.quote(f"ignore={_as_list([*ignored, *odd])}")
        raise DataError(
            f"{table.name}: the columns {', '.join(odd)} are not features of the training data; remove "
            f"them, or leave them out with --read {word} (Python: ignore). In a run that trains, list the "
            "features in data.features."
        )


def _as_list(names: Sequence[str]) -> str:
    """Returns names as a list in the syntax of overrides.

    >>> _as_list(["a", "b c"]), _as_list(["a", "b,c"])
    ('[a,b c]', '["a", "b,c"]')
    """
    if all(re.fullmatch(r"\w[\w .:*-]*", name) for name in names):
        return f"[{','.join(names)}]"
    return json.dumps([*names], ensure_ascii=False)


def _check_unlisted(table: Table, features: Sequence[str]) -> None:
    """Raises DataError if a column that nobody named as a feature is unlikely to be one."""
    for column in features:
        if column in ROLE_OF_NAME or NO_NAME.fullmatch(column):
            number = table.columns.index(column) + 1
            raise DataError(
                f"{table.name}: column {number}, '{column}', would be a feature, "
                "with the name of an index or a role. Remove it (pandas: index=False), or list the features."
            )


# ---- One-hot encoding: a categorical feature becomes a feature of 0 and 1 for each category.

ONE_HOT = "onehot"
MOST_ENCODED = 20
"""Maximum number of categories of a feature that is encoded without being named."""


def _sort_categories(texts: list[str]) -> None:
    """Sorts categories in place: whole numbers as numbers, 9 before 10, else as texts."""
    if all(map(str.isdecimal, texts)):
        texts.sort(key=lambda text: (len(text), text))
    else:
        texts.sort()


def columns_of_features(
    feature_names: Sequence[str],
    encoded: Mapping[str, Sequence[str]],
    columns: Collection[str],
) -> tuple[str, ...]:
    """Returns the columns of a table from which features are read: an encoded column is one, unless the table
    has the features of its categories instead.

    >>> columns_of_features(["price", "size=S", "size=L"], {"size": ["S", "L"]}, ["size", "price"])
    ('price', 'size')
    """
    column_of = {}
    for column, categories in encoded.items():
        for name in encoded_names(column, categories):
            if column in columns or name not in columns:
                column_of[name] = column
    of_features = [column_of.get(name, name) for name in feature_names]
    return tuple(dict.fromkeys(of_features))


def encoded_names(column: str, categories: Sequence[str]) -> list[str]:
    """Returns the names of the features of an encoded column, one for each category.

    >>> encoded_names("size", ["S", "L"])
    ['size=S', 'size=L']
    """
    return [f"{column}={category}" for category in categories]


def one_hot(
    values: Features, columns: Sequence[str], encoded: Mapping[str, Sequence[str]]
) -> Features:
    """Returns (D, F) features, with a feature of 0 and 1 for each category of an encoded column.

    Args:
        values: (D, C), the codes of the categories in encoded columns; a missing category is 0 in each
            feature.

    >>> codes = np.array([[1.5, 1.0], [2.5, np.nan]], dtype=np.float32)
    >>> one_hot(codes, ["price", "size"], {"size": ["S", "L"]}).tolist()
    [[1.5, 0.0, 1.0], [2.5, 0.0, 0.0]]
    """
    parts = []
    for index, column in enumerate(columns):
        of_column = values[:, index : index + 1]
        if column in encoded:
            of_column = of_column == np.arange(len(encoded[column]))
        parts.append(of_column.astype(values.dtype))
    return np.concatenate(parts, axis=1)


def missing_words(missing: Sequence[str] | None) -> frozenset[str]:
    """Returns the lower-case texts of missing values, which include the empty text; None: `MISSING`."""
    if missing is None:
        return MISSING
    check_option("missing", missing, list)
    words = [str(word).strip().lower() for word in missing]
    return frozenset({"", *words})


def _matching(
    table: Table,
    option: str,
    patterns: Sequence[str],
    columns: Sequence[str],
    must_match: bool,
) -> list[str]:
    """Returns the columns with these names, or that match these shell patterns, in the order of the patterns.

    Raises:
        DataError: A name or a pattern matches no column, although it must.
        ConfigError: The patterns are not a list.
    """
    check_option(option, patterns, list)
    matching: list[str] = []
    for pattern in map(str, patterns):
        matched = [pattern]
        if pattern not in columns:
            matched = [column for column in columns if fnmatchcase(column, pattern)]
        if must_match and not matched:
            if pattern in table.columns:
                raise DataError(
                    f"{table.name}: column '{pattern}' is in {option}, but has a role or is in keep or "
                    f"ignore, too. Remove it from one of them (in a run data.{option})."
                )
            remedy = f"Add it, its cells may be empty, or correct {option} (in a run data.{option})"
            raise _no_column(table, [pattern], option, remedy, columns)
        matching += matched
    return list(dict.fromkeys(matching))


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
    categories: Mapping[str, Sequence[str]] | None = None,
    missing: Sequence[str] | None = None,
    dates: Sequence[str] | Mapping[str, str] | None = None,
    encode: str | Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    sort_queries: bool = False,
    whole_labels: bool = False,
    labelled: bool = True,
    exact: bool = False,
) -> RankingDataset:
    """Reads a table into a RankingDataset.

    Args:
        source: a DataFrame; or the path of a .parquet file or a .csv file, plain or compressed; or several
            paths that form one split, where a query may continue in the next file; each has the columns that
            are read, and so has each part of a Parquet folder.
        num_features: required number of features; None: any number.
        label, query, document, weight, position: column of each role; None: the name in `ROLES` that the
            table has.
        split_by, group_by: columns of the times and groups of queries, by which a run splits them, which
            are no features; see `read_split_columns`.
        features: feature columns, in this order, as names or shell patterns such as bm25_*; None: all columns
            that are not named elsewhere. A column listed here has no role unless one is assigned above.
        feature_names: features of the training data; the table must have exactly these, in any order.
        categorical: names or patterns of features with categories: texts, whole numbers or booleans, besides
            the features with pandas' dtype `category`. They are read as they are written: the texts 1 and 1.0
            are two categories. Nulls are missing. In later tables true, True and TRUE are the category that
            the training data have of them.
        keep: names or patterns of columns that are no features, for metrics and slices; see `Judgments.kept`.
        ignore: names or patterns of columns that are not read.
        categories: those of the training data, which are no missing values, whatever their text; another
            category becomes a missing value, and is counted in the log. None: the categories of this table.
        missing: texts that are missing values in numbers, and in categories and groups of a CSV file; upper
            and lower case are the same, and an empty cell always is one. None: NA, N/A, NaN, null, None and
            the like (`MISSING`). In other tables the missing categories are the nulls. A number such as -1 is
            a missing value in features of every table, also if it is typed or written as -1.0, and never in
            labels, weights and groups. A ranker does not know these numbers: pass it NaN instead.
        dates: names or patterns of features of dates, as 2026-01-31 (ISO 8601), 20260131, Unix seconds,
            milliseconds of 13 digits (since 2001) or typed, which become days since the earliest; or name ->
            first day, that of the training data (`RankingDataset.dates`) for other tables. None: no features
            of dates.
        encode: categorical features that become a feature of 0 and 1 for each category, named
            `column=category`: "onehot": all, with at most 20 categories each; names or patterns, with any
            number of categories; or name -> categories, those of the training data
            (`RankingDataset.encoded`) for other tables. None: no feature.
        sort_queries: group scattered rows by query, in the order of each query's first row; `file_rows` of
            the data set then has the original row of each document, and `from_file_order` brings scores in
            the order of the source into that of the data set, as `evaluate` takes them.
        whole_labels: reject labels that are not whole numbers.
        labelled: whether the table must have labels, kept columns, and the columns that are named above;
            without labels all labels are 0.
        exact: whether features are float64, for models that compare in float64.

    Raises:
        DataError: The file cannot be read, a column is missing, repeated or not numeric, or a value is
            invalid; the message names the file, the line or row, the column, the value and the remedy.
        ConfigError: An option has the wrong type.
    """
    check_option("sort_queries", sort_queries, bool)
    check_option("whole_labels", whole_labels, bool)
    if isinstance(source, str | Path | Sequence):
        refuse_initial_scores(as_paths(source))
    roles = {
        "label": label,
        "query": query,
        "document": document,
        "weight": weight,
        "position": position,
        "split_by": split_by,
        "group_by": group_by,
    }
    options = _Options(
        features=features,
        feature_names=feature_names,
        categorical=categorical,
        keep=keep,
        ignore=ignore,
        categories=categories,
        missing=missing,
        dates=dates,
        encode=encode,
        num_features=num_features,
    )
    required = ("label", "query") if labelled else ("query",)
    rows = _rows_of(source, options, roles, required)
    queries = rows.ids(rows.roles["query"])
    has_id = [query != "" for query in queries]
    rows.check(rows.roles["query"], has_id, "every row needs a query id")
    gathered = gather(queries, sort_queries, rows.location)
    parts: dict[str, Any] = {}
    for role, (field_name, _) in _FIELDS.items():
        if role in rows.roles:
            parts[field_name] = gathered.take(_values(rows, role, whole_labels))
    described = _features(rows, exact)
    values = gathered.take(described.values)
    parts.setdefault("labels", np.zeros(len(rows)))
    return RankingDataset(
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        file_rows=gathered.file_rows,
        features=cast(Features, CheckedFeatures(values)),
        feature_names=described.names,
        categories=described.categories,
        dates=described.dates,
        encoded=described.encoded,
        merged=described.merged,
        kept={name: gathered.take(rows.kept(name)) for name in rows.keep},
        **parts,
    )


RankingDataset.from_frame = staticmethod(read_table)


def read_table_features(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    exact: bool = False,
    **options: Any,
) -> Features:
    """Reads the features of a table, which needs no column of any role.

    Args:
        exact: whether features are float64.
        options: options of `read_table`, by name. Columns with a role are no features, and are not read.

    Returns:
        (D, F), the documents in the order of the rows; the features in the order of `feature_names`, else of
        `features`, else of the table.

    Raises:
        DataError, ConfigError: as `read_table`.

    >>> import pandas as pd
    >>> read_table_features(pd.DataFrame({"query_id": ["a", "b"], "bm25": [0.5, 1.5]})).tolist()
    [[0.5], [1.5]]
    """
    rows = _rows_of(source, *_options_and_roles(num_features=num_features, **options))
    return _features(replace(rows, roles={}, keep=()), exact).values


def read_beside(path: Path, **options: Any) -> dict[str, NDArray[Any]]:
    """Reads what is written beside scores, as far as a table has it: query_id, document_id, kept columns.

    Args:
        options: as in `read_table_features`.

    Returns:
        Name -> (D,) ids, or values of a kept column, in the order of the rows.

    Raises:
        DataError: A kept column has the name of an id.
    """
    rows = _rows_of(path, *_options_and_roles(**options))
    roles = {}
    for role in ("query", "document"):
        if role in rows.roles:
            roles[role] = rows.roles[role]
    no_features: dict[str, Any] = {"categories": {}, "dates": {}, "encoded": {}}
    rows = replace(rows, roles=roles, features=(), **no_features)
    beside = {}
    for role, column in roles.items():
        usual_name = ROLES[role][0]
        beside[usual_name] = np.array(rows.ids(column))
    return joined_columns(beside, {name: rows.kept(name) for name in rows.keep})


def read_texts(
    path: Path, names: Mapping[str, Sequence[str]], scores: str
) -> list[NDArray[np.str_]]:
    """Reads columns of ids and scores as text.

    Args:
        names: use of a column -> its possible names, the first of which that the table has is read.
        scores: the use of the column of scores; the others are those of ids.

    Returns:
        (D,) texts of each column, in the order of the rows.

    Raises:
        DataError: The table cannot be read, or does not have a column.
    """
    (table,) = _open(path)
    columns = []
    for use, of_use in names.items():
        column = next(filter(table.columns.__contains__, of_use), None)
        if not column:
            raise _no_column(table, of_use, use, "Add it", table.columns)
        columns.append(column)
    rows = _Rows(tables=[table], roles={}, keep=columns)
    texts = []
    for use, column in zip(names, columns, strict=True):
        as_text = _scores_as_text if use == scores else _Rows.ids
        texts.append(np.array(as_text(rows, column), dtype=np.str_))
    return texts


def _scores_as_text(rows: _Rows, column: str) -> list[str]:
    cells = rows.cells(column)
    if cells.dtype.kind == "f":
        return as_written(cells.to_numpy(np.float64))
    return as_written(rows.kept(column))


def write_table(dataset: RankingDataset, path: str | Path) -> None:
    """Writes a table for `read_table`: Parquet for the extension .parquet, else CSV, which .gz etc. compress.

    Raises:
        DataError: A feature has the name of a role, or the file cannot be written.
    """
    write_frame(dataset.to_frame(), Path(path))


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Writes a DataFrame: Parquet for the extension .parquet, else CSV, which .gz etc. compress.

    Raises:
        DataError: The file cannot be written, or the cells of a column have types that Parquet cannot hold.
    """
    import pyarrow

    with write_whole(path) as stream:
        if path.suffix.lower() == PARQUET:
            try:
                frame.to_parquet(stream, index=False)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                _check_cells(frame)
                raise
        else:
            # The line endings of RFC 4180; with them pandas quotes an id that contains one.
            frame.to_csv(stream, index=False, lineterminator="\r\n")


def _check_cells(frame: pd.DataFrame) -> None:
    """Raises DataError for a cell of the rarest type in a column that Parquet cannot hold."""
    import pyarrow

    for column in frame.columns:
        cells = frame[column]
        try:
            pyarrow.array(cells, from_pandas=True)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            types = cells.map(type).where(cells.notna())
            rarest = types.value_counts().index[-1]
            row = int(np.argmax(types.to_numpy() == rarest))
            raise DataError(
                f"the DataFrame: row {row + 1}: column '{column}' is {cells.iloc[row]!r:.60}; Parquet needs "
                "cells of one type. Convert the column to numbers, texts or dates; NaN and None are missing "
                "values."
            ) from None


@dataclass(frozen=True, kw_only=True)
class _DescribedFeatures:
    """(D, F) features, and the fields of RankingDataset that describe them."""

    values: Features
    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    dates: Mapping[str, str]
    encoded: Mapping[str, tuple[str, ...]]
    merged: tuple[str, ...]


def _features(rows: _Rows, exact: bool = False) -> _DescribedFeatures:
    """Reads the features.

    Args:
        exact: as in `read_table`.
    """
    dtype: Any = np.float64 if exact else np.float32
    shape = (len(rows), len(rows.features))
    features = np.empty(shape, dtype=dtype)
    categories = {}
    first_days = {}
    merged: dict[str, Pair] = {}
    expected = _expected_of_numbers(rows)
    for number, column in enumerate(rows.features):
        if column in rows.categories:
            values, of_column = rows.codes(column)
            categories[column] = of_column
        elif column in rows.dates:
            values, first_day = rows.days(column)
            first_days[column] = first_day
        else:
            values = rows.feature(column, expected)
            if pair := _merged_of(rows, column, values):
                merged[column] = pair
            _check_finite(rows, column, values)
        with np.errstate(invalid="ignore"):  # for a signalling NaN
            features[:, number] = values
    if merged and not exact:
        log.warning(merged_in_words(rows.tables[0].name, merged))
    encoded = {name: categories.pop(name) for name in rows.encoded}
    _check_encoded(rows, encoded)
    return _DescribedFeatures(
        values=one_hot(features, rows.features, encoded) if encoded else features,
        names=_names_of_features(rows.features, encoded),
        categories=categories,
        dates=first_days,
        encoded=encoded,
        merged=tuple(merged),
    )


def _expected_of_numbers(rows: _Rows) -> str:
    """Returns what the cells of a feature must be that is a number, for messages."""
    from pandas.api.types import is_numeric_dtype

    first = rows.frames[0]
    texts = []
    for name in rows.features:
        is_coded = name in rows.categories or name in rows.dates
        if not is_coded and not is_numeric_dtype(first[name]):
            texts.append(name)
    listed = ",".join(texts[:_SHOWN])
    if len(texts) > _SHOWN:
        listed += ",..."
    return (
        f"the columns [{listed}] have texts or times: add each to categorical, dates, keep or ignore "
        "(in a run data.categorical etc.), list data.features, or set split_by or group_by"
    )


def _check_finite(rows: _Rows, column: str, numbers: NDArray[np.float64]) -> None:
    """Raises DataError if a number of a feature is infinite in float32."""
    # Values beyond float32 become infinite; a signalling NaN is "invalid".
    with np.errstate(over="ignore", invalid="ignore"):
        singles = numbers.astype(np.float32)
    rows.check(
        column,
        ~np.isinf(singles),
        "features must be finite in float32. Rescale it, or leave the cell empty",
    )


def _merged_of(rows: _Rows, column: str, numbers: NDArray[np.float64]) -> Pair | None:
    """Returns an example of different cells of a column that become equal in float32.

    Args:
        numbers: (D,), the cells as numbers, for cells that have no type of NumPy.
    """
    cells = rows.cells(column)
    if not isinstance(cells.dtype, np.dtype):
        return merged_pair(numbers)
    typed = cells.to_numpy()
    if rows.missing_numbers:
        typed = typed[~np.isnan(numbers)]
    return merged_pair(numbers if typed.dtype == object else typed)


def _check_encoded(rows: _Rows, encoded: Mapping[str, Sequence[str]]) -> None:
    """Raises DataError if an encoded column has too many categories."""
    for column, categories in encoded.items():
        most = rows.encoded[column]
        if most is not None and len(categories) > most:
            name = rows.tables[0].name
            named = ",".join(rows.encoded)
            raise DataError(
                f"{name}: {column} has {len(categories):,} categories; data.encode=onehot "
                f"encodes up to {most}. Add it to data.ignore, or name the columns to encode whatever "
                f"their number, as in 'data.encode=[{named}]'."
            )


def _names_of_features(
    columns: Sequence[str], encoded: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        if column in encoded:
            names += encoded_names(column, encoded[column])
        else:
            names.append(column)
    return tuple(names)


_FIELDS = {
    "label": (
        "labels",
        "write a finite grade of 0 or more, with 0 for irrelevant; remove documents without a label",
    ),
    "document": ("document_ids", ""),
    "weight": (
        "document_weights",
        "write a finite number of 0 or more for each document",
    ),
    "position": (
        "positions",
        "write the rank at which the document was shown, a whole number of 0 or more",
    ),
}
"""Role -> field of RankingDataset, and what a cell must be."""


def _values(rows: _Rows, role: str, whole_labels: bool) -> NDArray[Any]:
    """Returns the (D,) values of a role."""
    column = rows.roles[role]
    _, expected = _FIELDS[role]
    if role == "document":
        return np.array(rows.ids(column))
    numbers = rows.numbers(column, expected)
    is_whole = numbers == np.floor(numbers)
    valid = np.isfinite(numbers)
    if role == "position":
        # Above 2^53 a double does not represent every whole number.
        valid = is_whole & (numbers < 2**53)
    rows.check(column, valid & (numbers >= 0), expected)
    if role == "label" and whole_labels:
        remedy = f"the gain 2^label - 1 needs whole numbers. {FRACTIONS_REMEDY}"
        rows.check(column, is_whole, remedy.removesuffix("."))
    if role == "position":
        return numbers.astype(np.int64)
    return numbers


# ---- Columns by which queries are split: the time of a query, and its group of near-duplicates.


def read_split_columns(
    source: _Source,
    features: Sequence[str] | None = None,
    missing: Sequence[str] | None = None,
    **roles: str | None,
) -> dict[str, Any]:
    """Reads the columns of a table by which its queries are split; the arguments are those of `read_table`.

    Args:
        roles: "query", "split_by" and "group_by" -> column.

    Returns:
        With split_by "times": query id -> the latest time of its rows, a number or a date, and "num_varying":
        number of queries with several times; with group_by "groups": query id -> group.

    Raises:
        DataError: A column is missing, or a value is; a value is neither a number nor a date; or a query is
            in two groups.
    """
    tables = _open(source)
    columns = _columns_of_roles(tables[0], roles, features or (), required=("query",))
    rows = _Rows(tables=tables, roles=columns, missing=missing_words(missing))
    queries = rows.ids(columns["query"])
    found: dict[str, Any] = {}
    if "split_by" in columns:
        found = _latest_times(rows, queries)
    if "group_by" in columns:
        found["groups"] = _groups(rows, queries)
    return found


def _latest_times(rows: _Rows, queries: Sequence[str]) -> dict[str, Any]:
    """Returns the latest time of each query, so that no row of an earlier query is later, and "num_varying".

    The times of a column are all numbers, or all dates in ISO 8601 or as 20260131; those without a zone are
    in UTC.
    """
    import pandas as pd

    column = rows.roles["split_by"]
    cells = rows.cells(column).astype(object)
    numbers, valid = numbers_of_cells(cells, rows.missing)
    times: pd.Series[Any] = pd.Series(numbers)
    if valid[0]:
        valid = valid & np.isfinite(numbers)
        if valid.all():
            times = _dates_of_numbers(times)
    else:
        times = pd.to_datetime(
            cells.map(str), format="ISO8601", utc=True, errors="coerce"
        )
        valid = times.notna().to_numpy()
    rows.check(
        column,
        valid,
        "a split by time needs a time in every row, all finite numbers or all dates, as 2026-01-31 (ISO "
        "8601) or 20260131. Convert the column, remove the query, or choose another one with data.split_by",
    )
    of_queries = times.groupby(np.array(queries))
    num_varying = int((of_queries.nunique() > 1).sum())
    return {"times": of_queries.max().to_dict(), "num_varying": num_varying}


def _dates_of_numbers(numbers: pd.Series[Any]) -> pd.Series[Any]:
    """Returns numbers as 20260131 as dates, so that a gap counts days; other numbers as they are."""
    import pandas as pd

    if numbers.min() < _FIRST_DATE or numbers.max() > _LAST_DATE:
        return numbers
    texts = numbers.map("{:.15g}".format)
    dates = pd.to_datetime(texts, format="%Y%m%d", utc=True, errors="coerce")
    return dates if dates.notna().all() else numbers


def _groups(rows: _Rows, queries: Sequence[str]) -> dict[str, str]:
    """Returns query id -> group."""
    column = rows.roles["group_by"]
    cells = rows.cells(column)
    are_exact = cells.map(lambda cell: is_exact(cell, cells.dtype))
    rows.check(column, cells.isna() | are_exact, OF_FLOATS)
    groups = cells.astype(object).map(cell_text).str.strip()
    has_group = cells.notna() & (groups != "")
    rows.check(
        column,
        has_group,
        "every query needs a group: without near-duplicates, a group of its own",
    )
    is_first = groups == groups.groupby(np.array(queries)).transform("first")
    rows.check(
        column,
        is_first,
        "an earlier row has another group: give all rows of a query the same group",
    )
    return dict(zip(queries, groups, strict=True))


def gap_between(gap: str | float, times: Mapping[str, Any]) -> Any:
    """Returns a gap in the units of times: 7d, 12h and 2w between dates, 7 between numbers.

    Raises:
        ConfigError: The gap has another form, the units of the other kind of times, or over 290 years.
    """
    import pandas as pd

    kind: Callable[[str], Any] = float
    units = ""
    form = "numbers: write a number of 0 or more"
    if isinstance(next(iter(times.values())), pd.Timestamp):
        kind = pd.Timedelta
        units = "[hdw]"
        form = "dates: write 12h, 7d or 2w"
    if re.fullmatch(rf"\d+(\.\d+)?{units}", str(gap)) is None:
        raise ConfigError(
            f"data.gap is {gap!r}; the times of data.split_by are {form}."
        )
    try:
        return kind(str(gap).replace("d", "D").replace("w", "W"))
    except ValueError:
        raise ConfigError(
            f"data.gap is {gap!r:.60}; set a gap shorter than the times of data.split_by, such as 7d."
        ) from None


def span_of(split: RankingDataset, times: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the first and the last time of the queries of a split, as text."""
    of_split = [times[query_id] for query_id in split.query_ids.tolist()]
    return time_text(min(of_split)), time_text(max(of_split))


def time_text(time: Any) -> str:
    if isinstance(time, float):
        return f"{time:.15g}"
    return f"{time:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
