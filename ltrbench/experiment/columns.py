"""What the columns of a table are: labels, queries and other roles, features, and columns to leave out.

`propose` guesses what is not given, from names and contents, and leaves out columns that no model should
learn from, each for a reason. `DataPlan.yaml` is the YAML with which every later command reads the table.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, read_data
from ltrbench.data.blocks import read_blocks, without_compression_ending
from ltrbench.data.dataset import MISSING, NO_NAME, ROLE_OF_NAME, cell_text
from ltrbench.data.features import CheckedFeatures
from ltrbench.data.sources import FileSource, LetorFiles, TableFiles
from ltrbench.data.tables import (
    NEARLY_ALL,
    is_parquet,
    is_table,
    missing_words,
    numbers_of_cells,
    open_table,
    read_frame,
    read_split_columns,
    read_table,
    times_of_cells,
)
from ltrbench.errors import DataError, did_you_mean, require_choice
from ltrbench.experiment.data_warnings import (
    CELLS_OF_INSPECTION,
    clicked_labels,
    feature_warnings,
    repeated_documents,
    suspicions,
)
from ltrbench.experiment.loading import TIME_NAME, feature_faults
from ltrbench.folders import conf_dir
from ltrbench.shapes import Features
from ltrbench.tables import listed

if TYPE_CHECKING:
    import pandas as pd

USUAL_NAMES = {
    "label": ("label", "relevance", "grade", "clicked", "click", "purchased"),
    "query": (
        *("query_id", "qid", "search_id", "request_id"),
        *("session_id", "session", "query"),  # a session may have several searches
    ),
    "document": (
        *("document_id", "docid", "doc_id", "document", "product_id", "item_id"),
        *("product", "item"),
    ),
    "weight": ("weight",),
    "position": ("position",),
}
"""Role -> names of columns that have it if none is given, the most specific first."""

TIME = "split_by"

Roles = Mapping[str, str]
"""Role -> column."""

_ROWS_OF_CATEGORY = 5
"""Mean number of rows of a text from which the texts of a column are categories, not ids or descriptions."""
_LOOKED_AT = 1000
"""Number of cells whose types are looked at."""
_MOST_ENCODED = 50
"""Number of categories up to which each becomes a feature for a target that holds no categories."""
_WRITTEN_DATE = re.compile(
    r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2}|\d{1,2}/\d{1,2}/\d\d)([ T].*)?"
)
"""Dates in other forms than ISO 8601, whose days and months may be confused."""
_DAY = 86_400  # seconds
_NUMBERS = (Decimal, bool, int, float)
"""Types of cells that are numbers in a column of any objects."""
_GAP = 0.04
"""Part of the time that the table covers which lies between training and later queries."""
_MOST_SPREAD = 0.05
"""Part of the time that the table covers over which the rows of a query may extend, in the median, in a
column that is taken for the time of queries; otherwise it is one of documents, such as a date of release."""
_MOST_COPIES = 0.5
"""Part of the rows that may repeat a document of their query in a column that is taken for the documents."""


@dataclass(frozen=True, kw_only=True)
class DataPlan:
    """How a file is read.

    Attributes:
        name: name of the data set in commands and tables.
        path: the file.
        is_table: whether it has named columns; otherwise it is LETOR text.
        roles: role -> column; the time is `split_by`.
        guessed: the roles that were guessed.
        categorical, encode, dates: features of these kinds.
        features: all features, if the name of one is that of a role; otherwise empty.
        left_out: column that is no feature -> the reason.
        unusable: those of them that can be no feature in any case.
        times: columns named as times that are not those of queries; the queries are not split by them.
        missing: texts that are missing values, as `data.missing`; None: the usual ones.
        gap: time between training and later queries, as `data.gap`; None without times.
        reading: options of the reader of LETOR text.
        dataset: the rows as they are read, with the features that are not left out.
    """

    name: str
    path: Path
    is_table: bool
    roles: Roles = field(default_factory=dict)
    guessed: Set[str] = frozenset()
    categorical: Sequence[str] = ()
    encode: Sequence[str] = ()
    dates: Sequence[str] = ()
    features: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    unusable: Set[str] = frozenset()
    times: Sequence[str] = ()
    missing: Sequence[str] | None = None
    gap: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    dataset: RankingDataset = field(repr=False)

    def yaml(self) -> str:
        """Returns the text of conf/data/NAME.yaml."""
        lines = ["defaults:", f"  - {self._base}", "  - _self_", ""]
        for key, value in self._settings().items():
            lines.append(f"{key}: {_in_yaml(value)}")
            if key == "ignore":
                for column, reason in self.left_out.items():
                    comment = f"# {column}: {reason}"
                    lines.append(" ".join(comment.split()))
        return "\n".join(lines) + "\n"

    def source(self, **changes: Any) -> FileSource:
        """Returns the data source that the YAML describes, with changes of its settings."""
        kind = TableFiles if self.is_table else LetorFiles
        return kind(**{**self._settings(), **changes})

    @property
    def _base(self) -> str:
        return "table" if self.is_table else "letor"

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"name": self.name, "train": str(self.path)}
        settings["sort_queries"] = True
        settings |= self.roles
        settings |= self.reading
        named: dict[str, Any] = {
            "gap": self.gap,
            "categorical": list(self.categorical),
            "encode": list(self.encode),
            "dates": list(self.dates),
            "features": list(self.features),
            "ignore": list(self.left_out),
        }
        if self.missing is not None:
            settings["missing"] = list(self.missing)
        return settings | {key: value for key, value in named.items() if value}


def _in_yaml(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return ".nan"
    # JSON is YAML, and quotes every text; a backslash escapes what looks like an interpolation.
    return json.dumps(value).replace("${", "\\\\${")


def propose(
    path: Path,
    given: Mapping[str, str | None],
    kept: Set[str] = frozenset(),
    can_split_categories: bool = True,
    missing: Sequence[str] | None = None,
    *,
    reading: Mapping[str, Any] | None = None,
) -> DataPlan:
    """Returns how to read a file.

    Args:
        given: role -> column, of the roles that are known; None or no entry: to guess.
        kept: columns that stay features whatever speaks against them.
        can_split_categories: whether a model may split by categories; otherwise they are encoded as features
            of 0 and 1, or left out if they are many.
        missing: texts that are missing values; None: the usual ones, such as NA.
        reading: options of the reader of LETOR text; without first_index its features start from 0 if a line
            has the feature 0.

    Raises:
        DataError: The file cannot be read, has no column of a given name, or none that can be the label or
            the query, or no feature is left.
    """
    named = {role: column for role, column in given.items() if column}
    for role in named:
        require_choice("a role of a column", role, (*USUAL_NAMES, TIME))
    if not is_table(path):
        _check_is_plain(path, named, kept, missing)
        return _plan_of_letor(path, reading or {})
    words = missing_words(missing)
    frame = read_frame(path, words)
    roles = _roles(path, frame, named, kept)
    features = [name for name in frame.columns if name not in {*roles.values()}]
    _check_kept(path, kept, features)
    kinds = _Kinds(
        path, frame, features, query=roles["query"], kept=kept, missing=words
    )
    _check_left(path, kinds.left_out, features)
    options: dict[str, Any] = {
        **{role: column for role, column in roles.items() if role != TIME},
        "categorical": kinds.categorical,
        "dates": kinds.dates,
        "ignore": [*kinds.left_out, *_time_column(roles)],
        "missing": missing,
        "sort_queries": True,
    }
    if not kept.isdisjoint(ROLE_OF_NAME):
        # Otherwise their names would give them roles.
        options["features"] = _others(features, kinds.left_out)
    dataset = read_table(path, **options)
    left_out = kinds.left_out | _not_to_learn_from(dataset, kept)
    categorical = _others(kinds.categorical, left_out)
    encode: list[str] = []
    if not can_split_categories:
        many = _with_many(dataset, categorical, kept)
        left_out |= many
        encode = _others(categorical, many)
        categorical = []
    options["dates"] = _others(kinds.dates, left_out)
    if "features" in options:
        options["features"] = _others(options["features"], left_out)
    _check_left(path, left_out, features)
    dataset = _without(dataset, left_out)
    if encode:
        options["ignore"] = [*left_out, *_time_column(roles)]
        options["categorical"] = categorical
        dataset = read_table(path, **options, encode=encode)
    return DataPlan(
        name=_name_of(path),
        path=path,
        is_table=True,
        roles=roles,
        guessed=frozenset(roles).difference(named),
        categorical=categorical,
        encode=encode,
        features=options.get("features", ()),
        dates=options["dates"],
        left_out=left_out,
        unusable=kinds.unusable,
        times=[] if TIME in roles else _named_as_times(frame, features),
        missing=missing,
        gap=_gap(path, roles, missing),
        dataset=dataset,
    )


def _others(names: Iterable[str], left_out: Collection[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def _check_is_plain(
    path: Path, named: Roles, kept: Set[str], missing: Sequence[str] | None
) -> None:
    """Raises DataError if something is named that only a table has."""
    if named:
        raise DataError(
            f"{path} is no CSV or Parquet table, so that it has no columns to name; leave out "
            f"the {', '.join(named)}."
        )
    if kept:
        raise DataError(
            f"{path} is no CSV or Parquet table, and all its features are kept; leave out "
            f"{', '.join(sorted(kept))}."
        )
    if missing is not None:
        raise DataError(
            f"{path} is no CSV or Parquet table, so that no text in it can be a missing value; leave out "
            "missing."
        )


_FEATURE_0 = re.compile(rb"^[^#\n]*\s0:", re.MULTILINE)


def _plan_of_letor(path: Path, reading: Mapping[str, Any]) -> DataPlan:
    """Returns how LETOR text is read."""
    options = dict(reading)
    if "first_index" not in options and path.is_file():
        blocks = (block for block, _ in read_blocks(path))
        if any(map(_FEATURE_0.search, blocks)):
            options["first_index"] = 0
    return DataPlan(
        name=_name_of(path),
        path=path,
        is_table=False,
        reading=options,
        dataset=read_data(path, **{"sort_queries": True, **options}),
    )


def _check_kept(path: Path, kept: Set[str], features: Sequence[str]) -> None:
    for name in kept:
        if name not in features:
            raise DataError(
                f"{path}: '{name}' is to stay a feature, but is no column without a role"
                f"{did_you_mean(name, features)}"
            )


def _without(dataset: RankingDataset, left_out: Collection[str]) -> RankingDataset:
    """Returns the data set that is read if some features are left out."""
    places = []
    for place, name in enumerate(dataset.feature_names):
        if name not in left_out:
            places.append(place)
    names = [dataset.feature_names[place] for place in places]
    features = np.take(dataset.features, places, axis=1)
    categories = {
        name: texts for name, texts in dataset.categories.items() if name in names
    }
    return dataset.with_fields(
        features=cast(Features, CheckedFeatures(features)),
        feature_names=tuple(names),
        categories=categories,
        text_columns=None,  # those of the categories
        dates={name: day for name, day in dataset.dates.items() if name in names},
        merged=tuple(name for name in dataset.merged if name in names),
    )


_VALUES = ("true", "false", "null", "nan", "inf")
"""What Hydra takes for a value instead of a name."""


def _name_of(path: Path) -> str:
    """Returns a name for the data set that Hydra reads as a name, and that is no name of a YAML of ltrbench.

    >>> names = ("Café (1).csv.gz", "2026-01-31.csv", "true.csv", "магазин.parquet")
    >>> [_name_of(Path(name)) for name in names]
    ['cafe_1', 'data_2026_01_31', 'data_true', 'data']
    """
    stem = without_compression_ending(path).stem.lower()
    apart = unicodedata.normalize("NFKD", stem)  # letters and their accents
    ascii_only = apart.encode("ascii", "ignore").decode()
    words = re.findall("[a-z0-9]+", ascii_only)
    name = "_".join(words) or "data"
    if name in _VALUES or not name[0].isalpha():
        name = f"data_{name}"
    folder = conf_dir() / "data"
    is_taken = (folder / f"{name}.yaml").exists()
    return f"{name}_data" if is_taken else name


def _check_left(
    path: Path, left_out: Mapping[str, str], features: Sequence[str]
) -> None:
    """Raises DataError if all features are left out."""
    if len(left_out) < len(features):
        return
    reasons = [f"{column}: {reason}" for column, reason in left_out.items()]
    why = ""
    if reasons:
        why = f" ({'; '.join(reasons)}). Keep one with --keep-feature"
    raise DataError(f"{path}: no column is left as a feature{why}.")


def _time_column(roles: Roles) -> list[str]:
    return [roles[TIME]] if TIME in roles else []


# ---- Roles.


def _roles(
    path: Path, frame: pd.DataFrame, named: Roles, kept: Set[str]
) -> dict[str, str]:
    """Returns role -> column. Columns that are kept as features have no guessed role.

    Raises:
        DataError: There is no column of a given name, or it has two roles; or none can be the label or the
            query.
    """
    columns = list(frame.columns)
    _check_named(path, columns, named)
    roles = dict(named)
    for role in ("label", "query"):
        if role in roles:
            continue
        free = _free(USUAL_NAMES[role], columns, roles, kept)
        if not free:
            raise DataError(
                f"{path}: which column has the {role}? Name it, with --{role} of auto or with --read "
                f"{role}=COLUMN; the columns are {', '.join(columns)}."
            )
        roles[role] = free[0]
    queries = frame[roles["query"]]
    names_of_role = {**USUAL_NAMES, TIME: _named_as_times(frame, columns)}
    for role, is_fitting in _OF_ROLE.items():
        if role in roles:
            continue
        for name in _free(names_of_role[role], columns, roles, kept):
            if is_fitting(frame[name], queries):
                roles[role] = name
                break
    return roles


def _check_named(path: Path, columns: Sequence[str], named: Roles) -> None:
    """Raises DataError if there is no column of a given name, or if one has two roles."""
    for role, column in named.items():
        if column not in columns:
            option = "time" if role == TIME else role
            raise DataError(
                f"{path}: the table has no column '{column}' (the {option})"
                f"{did_you_mean(column, columns)} Its columns are {', '.join(columns)}."
            )
    counts = Counter(named.values())
    for column, number in counts.items():
        if number > 1:
            of_column = [role for role, name in named.items() if name == column]
            raise DataError(
                f"{path}: the column '{column}' is named as {listed(of_column)}; name another column for one "
                "of them."
            )


def _free(
    names: Iterable[str], columns: Collection[str], roles: Roles, kept: Set[str]
) -> list[str]:
    """Returns the names of columns without a role that are not kept as features."""
    taken = {*roles.values(), *kept}
    return [name for name in names if name in columns and name not in taken]


def _named_as_times(frame: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Returns the columns that have the name and the cells of times, nearly all of them present."""
    names = [name for name in columns if TIME_NAME.fullmatch(name)]
    return [name for name in names if _are_nearly_all_dates(frame[name])]


def _are_nearly_all_dates(cells: pd.Series[Any]) -> bool:
    share = cells.notna().mean()
    return bool(share >= NEARLY_ALL) and _are_dates(cells)


def _are_times_of_queries(cells: pd.Series[Any], queries: pd.Series[Any]) -> bool:
    """Returns whether the rows of a query have about the same time."""
    times, _ = times_of_cells(cells)
    of_queries = times.groupby(queries)
    spread = (of_queries.max() - of_queries.min()).median()
    return bool(spread <= _MOST_SPREAD * (times.max() - times.min()))


def _are_documents(cells: pd.Series[Any], queries: pd.Series[Any]) -> bool:
    """Returns whether most rows have a document that their query has once."""
    pairs = queries.astype(str) + "\n" + cells.astype(str)
    share = pairs.duplicated().mean()
    return bool(share <= _MOST_COPIES)


def _are_weights(cells: pd.Series[Any], queries: pd.Series[Any]) -> bool:
    """Returns whether each query has one weight, a positive number."""
    numbers, are_numbers = numbers_of_cells(cells)
    are_positive = numbers > 0
    numbers_of_query = cells.groupby(queries).nunique()
    return bool(
        are_numbers.all() and are_positive.all() and numbers_of_query.max() == 1
    )


def _are_positions(cells: pd.Series[Any], queries: pd.Series[Any]) -> bool:
    """Returns whether all rows have a whole number."""
    numbers, are_numbers = numbers_of_cells(cells)
    are_whole = numbers == np.floor(numbers)
    return bool(are_numbers.all() and are_whole.all())


_OF_ROLE: dict[str, Callable[[pd.Series[Any], pd.Series[Any]], bool]] = {
    "document": _are_documents,
    "weight": _are_weights,
    "position": _are_positions,
    TIME: _are_times_of_queries,
}
"""Role that a table may lack -> whether the cells of a column, and the queries of its rows, fit it."""


def _are_dates(cells: pd.Series[Any], missing: Collection[str] = MISSING) -> bool:
    if cells.dtype.kind in "bf":
        return False
    _, valid = times_of_cells(cells, missing)
    return bool(valid.all()) and bool(cells.notna().any())


def _gap(path: Path, roles: Roles, missing: Sequence[str] | None) -> str | None:
    """Returns a part of the time that the table covers, in whole days between dates.

    Raises:
        DataError: A row has no time by which its query can be split.
    """
    if TIME not in roles:
        return None
    read = read_split_columns(
        path, missing=missing, query=roles["query"], split_by=roles[TIME]
    )
    times = read["times"].values()
    gap = _GAP * (max(times) - min(times))
    if isinstance(gap, float):
        return np.format_float_positional(gap, trim="-")
    if gap.days < 1:
        return None
    days = gap.total_seconds() / _DAY
    return f"{round(days)}d"


# ---- Kinds of features, and what no model should learn from.


class _Kinds:
    """The kinds of the columns without a role.

    Attributes:
        categorical: columns of texts that are categories, and those with pandas' type of categories.
        dates: columns of dates.
        left_out: column that is no feature -> the reason.
        unusable: those of them that can be no feature in any case.
    """

    def __init__(
        self,
        path: Path,
        frame: pd.DataFrame,
        columns: Sequence[str],
        *,
        query: str,
        kept: Set[str],
        missing: Collection[str],
    ) -> None:
        self._path = path
        self._typed: Collection[str] = ()
        if is_parquet(path):  # a CSV file has no types
            self._typed = open_table(path).categorical
        self._queries = frame[query]
        self._missing = missing
        self.categorical: list[str] = []
        self.dates: list[str] = []
        self.left_out: dict[str, str] = {}
        self.unusable: set[str] = set()
        for name in columns:
            self._add(name, frame[name], name in kept)

    def _add(self, name: str, cells: pd.Series[Any], is_kept: bool) -> None:
        if NO_NAME.fullmatch(name):
            self._refuse(name, "it is probably an index that pandas wrote")
            return
        role = ROLE_OF_NAME.get(name)
        if role is not None and not is_kept:
            is_another = role in ("label", "query")
            has = "another column is it" if is_another else "its cells do not fit"
            self.left_out[name] = f"it has the name of the {role}, but {has}"
            return
        if str(cells.dtype) == "category":
            cells = cells.astype(object)
        if cells.dtype.kind not in "biuf":
            self._add_objects(name, cells, is_kept)
        elif name in self._typed:
            # Another file of the same columns need not have the type.
            self.categorical.append(name)

    def _add_objects(self, name: str, cells: pd.Series[Any], is_kept: bool) -> None:
        """Adds a column whose cells have no type of numbers."""
        known = cells.dropna()
        first = known.head(_LOOKED_AT)
        if known.empty:
            self._refuse(name, "it is empty")
        elif all(isinstance(cell, _NUMBERS) for cell in first):
            return
        elif self._has_dates(name, cells, known):
            self.dates.append(name)
        elif not _are_numbers_but_missing(cells, self._missing):
            mistake = "" if is_kept else _mistake(self._path, cells, self._missing)
            if mistake:
                self.left_out[name] = mistake
            elif all(isinstance(cell, str | bool) for cell in first):
                self._add_texts(name, known, is_kept)
            else:
                self._refuse(name, "its cells are neither numbers nor texts")

    def _has_dates(
        self, name: str, cells: pd.Series[Any], known: pd.Series[Any]
    ) -> bool:
        if cells.dtype.kind == "M":
            return True
        return _are_dates(cells, self._missing) and not _are_other_digits(name, known)

    def _add_texts(self, name: str, known: pd.Series[Any], is_kept: bool) -> None:
        """Adds categories, unless there are too many."""
        num_texts = known.nunique()
        num_rows = len(known)
        rows = "rows"
        of_queries = known.groupby(self._queries[known.index])
        if of_queries.nunique().max() == 1:
            num_rows = of_queries.ngroups
            rows = "queries"
        if is_kept or num_texts * _ROWS_OF_CATEGORY <= num_rows:
            self.categorical.append(name)
            return
        number = f"{num_texts:,} different texts in {num_rows:,} {rows}"
        self.left_out[name] = f"it has {number}, too many for categories"
        _, are_numbers = numbers_of_cells(known)
        if are_numbers.all():
            self.left_out[name] += "; all are numbers: store them as such"

    def _refuse(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        self.unusable.add(name)


def _are_other_digits(name: str, known: pd.Series[Any]) -> bool:
    """Returns whether texts that could be dates are digits alone, such as barcodes or postal codes."""
    digits = known.astype(str).str.strip()
    are_digits = digits.str.fullmatch(r"\d+").all()
    if not are_digits or TIME_NAME.fullmatch(name):
        return False
    return not digits.str.fullmatch(r"(19|20)\d{6}").all()


def _are_numbers_but_missing(cells: pd.Series[Any], missing: Collection[str]) -> bool:
    """Returns whether texts are numbers, and missing values other than the usual ones.

    A column of texts that are all numbers is one of categories, such as numbers of shops.
    """
    texts = cells.astype(object).map(cell_text)
    words = texts.str.strip().str.lower()
    if not words.isin({*missing} - MISSING).any():
        return False
    _, are_read = numbers_of_cells(cells, missing)
    return bool(are_read.all())


def _mistake(path: Path, cells: pd.Series[Any], missing: Collection[str]) -> str:
    """Returns the first cell that is no number or date, if nearly all others are; empty if they are not."""
    known = cells[cells.notna()]
    numbers, are_read = numbers_of_cells(known, missing)
    if _has_few_others(~np.isnan(numbers), are_read):
        row = known.index[int(are_read.argmin())]
        cell = str(cells[row])
        option = shlex.quote(cell)
        words = [*sorted({*missing} - {""}), cell]
        texts = json.dumps(words, ensure_ascii=False)
        reading = shlex.quote(f"missing={texts}")
        return (
            f"{_place(path, cells, row)}, but nearly all other cells are numbers. If it is a missing value, "
            f"leave such cells empty or name it, with --missing {option} of auto or --read {reading} of "
            "inspect; otherwise correct it, or keep the column as categories"
        )
    times, are_read = times_of_cells(known, missing)
    are_written = known.astype(str).str.strip().str.fullmatch(_WRITTEN_DATE)
    if _has_few_others((times.notna() | are_written).to_numpy(np.bool_), are_read):
        row = known.index[int(are_read.argmin())]
        return (
            f"{_place(path, cells, row)}, but nearly all cells are dates. Write dates as 2026-01-31 (ISO "
            "8601), and leave cells without one empty; until then queries are not split by this column"
        )
    return ""


def _has_few_others(are_right: NDArray[np.bool_], are_read: NDArray[np.bool_]) -> bool:
    """Returns whether a few cells cannot be read, and nearly all others are numbers, or look like dates.

    Args:
        are_right: (n,), cells that are or look like numbers or dates.
        are_read: (n,), cells that can be read as such or as missing values.
    """
    num_considered = np.count_nonzero(are_right | ~are_read)
    is_mixed = not are_read.all()
    return is_mixed and bool(are_right.sum() >= NEARLY_ALL * num_considered)


def _place(path: Path, cells: pd.Series[Any], row: int) -> str:
    return f"{open_table(path).location(row)} is {cells[row]!r:.60}"


def _not_to_learn_from(dataset: RankingDataset, kept: Set[str]) -> dict[str, str]:
    """Returns feature -> why no model should learn from it."""
    reasons = dict(_doubts(dataset))
    return {name: reason for name, reason in reasons.items() if name not in kept}


def _doubts(dataset: RankingDataset) -> Iterator[tuple[str, str]]:
    for name in feature_faults(dataset).constant:
        yield name, "it is constant"
    for name in dataset.merged:
        yield name, "different values of it are equal in 32-bit numbers"
    for suspicion in suspicions(dataset, CELLS_OF_INSPECTION):
        for name in suspicion.names:
            yield name, suspicion.reason


def _with_many(
    dataset: RankingDataset, categorical: Sequence[str], kept: Set[str]
) -> dict[str, str]:
    """Returns categorical feature -> why it is not encoded."""
    left_out = {}
    for name in categorical:
        number = len(dataset.categories[name])
        if number > _MOST_ENCODED and name not in kept:
            left_out[name] = (
                f"it has {number:,} categories, each of which the target needs as a feature"
            )
    return left_out


# ---- What is said about a plan.


def about_data(plan: DataPlan) -> Iterator[str]:
    """Yields sentences about what the columns of a table are taken for, and what speaks against the data."""
    dataset = plan.dataset
    yield (
        f"{plan.path}: {dataset.num_documents:,} documents of {dataset.num_queries:,} queries, "
        f"{dataset.num_features} features."
    )
    if plan.roles:
        yield (
            f"{_roles_in_words(plan)}. Name the column of a role to correct a guess; --keep-feature COLUMN "
            "makes it a feature."
        )
    if plan.times:
        yield (
            f"Queries are split at random: {listed(plan.times)} differs among the rows of a query. To split "
            f"by it nevertheless: --time {plan.times[0]} of auto, or --read {TIME}={plan.times[0]}."
        )
    if not plan.is_table:
        # Features of LETOR text cannot be left out by name.
        yield from feature_warnings(dataset, CELLS_OF_INSPECTION)
    for text in (*repeated_documents(dataset), *clicked_labels(dataset)):
        yield text[0].upper() + text[1:]


def _roles_in_words(plan: DataPlan) -> str:
    parts = []
    for role, column in plan.roles.items():
        guess = " (guessed)" if role in plan.guessed else ""
        name = "time" if role == TIME else role
        parts.append(f"the {name} is in {column}{guess}")
    text = listed(parts)
    return text[0].upper() + text[1:]


def about_columns(plan: DataPlan) -> Iterator[str]:
    """Yields a sentence about each column that is left out."""
    for column, reason in plan.left_out.items():
        sentence = f"The column {column or 'without a name'} is left out: {reason}."
        if column not in plan.unusable:
            sentence += f" --keep-feature {column} takes it back."
        yield sentence
