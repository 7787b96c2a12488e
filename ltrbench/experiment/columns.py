"""What the columns of a table are: labels, queries and other roles, features, and columns to leave out.

`propose` guesses what is not given, from names and contents, and leaves out columns that no model should
learn from, each for a reason. `DataPlan.yaml` is the YAML with which every later command reads the table.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, read_data
from ltrbench.data.blocks import without_compression_ending
from ltrbench.data.dataset import MISSING, cell_text
from ltrbench.data.features import CheckedFeatures
from ltrbench.data.sources import FileSource, LetorFiles, TableFiles
from ltrbench.data.tables import (
    NEARLY_ALL,
    PARQUET,
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
        *("query_id", "qid", "session_id", "session", "search_id", "request_id"),
        "query",
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

_TABLES = (".csv", PARQUET)
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
_FEWEST_SECONDS = 1e8
"""Number from which dates written as numbers are seconds since 1970; below, they are as 20260131."""
_GAP = 0.04
"""Part of the time that the table covers which lies between training and later queries."""


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
        left_out: column that is no feature -> the reason.
        missing: texts that are missing values, as `data.missing`; None: the usual ones.
        gap: time between training and later queries, as `data.gap`; None without times.
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
    left_out: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] | None = None
    gap: str | float | None = None
    dataset: RankingDataset = field(repr=False)

    def yaml(self) -> str:
        """Returns the text of conf/data/NAME.yaml."""
        lines = ["defaults:", f"  - {self._base}", "  - _self_", ""]
        for key, value in self._settings().items():
            # JSON is YAML, and quotes every text.
            lines.append(f"{key}: {json.dumps(value)}")
            if key == "ignore":
                reasons = self.left_out.items()
                lines += [f"# {column}: {reason}" for column, reason in reasons]
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
        named: dict[str, Any] = {
            "gap": self.gap,
            "categorical": list(self.categorical),
            "encode": list(self.encode),
            "dates": list(self.dates),
            "ignore": list(self.left_out),
        }
        if self.missing is not None:
            settings["missing"] = list(self.missing)
        return settings | {key: value for key, value in named.items() if value}


def is_table(path: Path) -> bool:
    """Returns whether a file has named columns: CSV, plain or compressed, or Parquet."""
    return without_compression_ending(path).suffix.lower() in _TABLES


def propose(
    path: Path,
    given: Mapping[str, str | None],
    kept: Set[str] = frozenset(),
    can_split_categories: bool = True,
    missing: Sequence[str] | None = None,
) -> DataPlan:
    """Returns how to read a file.

    Args:
        given: role -> column, of the roles that are known; None or no entry: to guess.
        kept: columns that stay features whatever speaks against them.
        can_split_categories: whether a model may split by categories; otherwise they are encoded as features
            of 0 and 1, or left out if they are many.
        missing: texts that are missing values; None: the usual ones, such as NA.

    Raises:
        DataError: The file cannot be read, has no column of a given name, or none that can be the label or
            the query, or no feature is left.
    """
    named = {role: column for role, column in given.items() if column}
    for role in named:
        require_choice("a role of a column", role, (*USUAL_NAMES, TIME))
    if not is_table(path):
        return _plan_of_letor(path, named, missing)
    words = missing_words(missing)
    frame = read_frame(path, words)
    roles = _roles(path, frame, named)
    features = [name for name in frame.columns if name not in {*roles.values()}]
    _check_kept(path, kept, features)
    kinds = _Kinds(path, frame, features, kept=kept, missing=words)
    options: dict[str, Any] = {
        **{role: column for role, column in roles.items() if role != TIME},
        "categorical": kinds.categorical,
        "dates": kinds.dates,
        "ignore": [*kinds.left_out, *_time_column(roles)],
        "missing": missing,
        "sort_queries": True,
    }
    dataset = read_table(path, **options)
    left_out = kinds.left_out | _not_to_learn_from(dataset, kept)
    categorical = [name for name in kinds.categorical if name not in left_out]
    encode: list[str] = []
    if not can_split_categories:
        many = _with_many(dataset, categorical, kept)
        left_out |= many
        encode = [name for name in categorical if name not in many]
        categorical = []
    options["dates"] = [name for name in kinds.dates if name not in left_out]
    if len(left_out) == len(features):
        raise DataError(
            f"{path}: no column is left as a feature ({_reasons(left_out)}). Keep one with --keep-feature."
        )
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
        dates=options["dates"],
        left_out=left_out,
        missing=missing,
        gap=_gap(path, frame, roles),
        dataset=dataset,
    )


def _plan_of_letor(path: Path, named: Roles, missing: Sequence[str] | None) -> DataPlan:
    """Returns how LETOR text is read.

    Raises:
        DataError: Something is named that only a table has.
    """
    if named:
        raise DataError(
            f"{path} is no CSV or Parquet table, so that it has no columns to name; leave out "
            f"the {', '.join(named)}."
        )
    if missing is not None:
        raise DataError(
            f"{path} is no CSV or Parquet table, so that no text in it can be a missing value; leave out "
            "missing."
        )
    return DataPlan(
        name=_name_of(path),
        path=path,
        is_table=False,
        dataset=read_data(path, sort_queries=True),
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


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{column}: {reason}" for column, reason in left_out.items())


def _time_column(roles: Roles) -> list[str]:
    return [roles[TIME]] if TIME in roles else []


# ---- Roles.


def _roles(path: Path, frame: pd.DataFrame, named: Roles) -> dict[str, str]:
    """Returns role -> column.

    Raises:
        DataError: There is no column of a given name, or none that can be the label or the query.
    """
    columns = list(frame.columns)
    for role, column in named.items():
        if column not in columns:
            option = "time" if role == TIME else role
            raise DataError(
                f"{path}: the table has no column '{column}' (the {option})"
                f"{did_you_mean(column, columns)} Its columns are {', '.join(columns)}."
            )
    roles = dict(named)
    for role, names in USUAL_NAMES.items():
        free = [
            name for name in names if name in columns and name not in roles.values()
        ]
        if role not in roles and free:
            roles[role] = free[0]
    for role in ("label", "query"):
        if role not in roles:
            raise DataError(
                f"{path}: which column has the {role}? Name it, with --{role} of auto or with --read "
                f"{role}=COLUMN; the columns are {', '.join(columns)}."
            )
    if TIME not in roles:
        times = [name for name in columns if _is_time(frame, name, roles)]
        if times:
            roles[TIME] = times[0]
    return roles


def _is_time(frame: pd.DataFrame, name: str, roles: Roles) -> bool:
    """Returns whether a column without a role has the times of queries, by its name and its cells."""
    if name in roles.values() or not TIME_NAME.fullmatch(name):
        return False
    return _are_dates(frame[name])


def _are_dates(cells: pd.Series[Any], missing: Collection[str] = MISSING) -> bool:
    if cells.dtype.kind in "bf":
        return False
    _, valid = times_of_cells(cells, missing)
    return bool(valid.all()) and bool(cells.notna().any())


def _gap(path: Path, frame: pd.DataFrame, roles: Roles) -> str | float | None:
    """Returns a part of the time that the table covers, in whole days between dates.

    Raises:
        DataError: A cell is neither a number nor a date.
    """
    if TIME not in roles:
        return None
    cells = frame[roles[TIME]]
    numbers, are_numbers = numbers_of_cells(cells)
    are_dates = _are_dates(cells)
    if are_numbers.all():
        latest = np.nanmax(numbers)
        if not are_dates or latest >= _FEWEST_SECONDS:
            return float(_GAP * (latest - np.nanmin(numbers)))
    if not are_dates:
        check_times(path, roles)
    times, _ = times_of_cells(cells)
    days = (times.max() - times.min()).days
    return f"{round(_GAP * days)}d" if _GAP * days >= 1 else None


def check_times(path: Path, roles: Roles) -> None:
    """Raises DataError if a row has no time by which its query can be split."""
    read_split_columns(path, query=roles["query"], split_by=roles[TIME])


# ---- Kinds of features, and what no model should learn from.


class _Kinds:
    """The kinds of the columns without a role.

    Attributes:
        categorical: columns of texts that are categories.
        dates: columns of dates.
        left_out: column that can be no feature -> the reason.
    """

    def __init__(
        self,
        path: Path,
        frame: pd.DataFrame,
        columns: Sequence[str],
        *,
        kept: Set[str],
        missing: Collection[str],
    ) -> None:
        self._path = path
        self._missing = missing
        self.categorical: list[str] = []
        self.dates: list[str] = []
        self.left_out: dict[str, str] = {}
        for name in columns:
            self._add(name, frame[name], name in kept)

    def _add(self, name: str, cells: pd.Series[Any], is_kept: bool) -> None:
        if str(cells.dtype) == "category":
            self.categorical.append(name)
            return
        if cells.dtype.kind in "biuf":
            return
        if cells.dtype.kind == "M" or _are_dates(cells, self._missing):
            self.dates.append(name)
            return
        if _are_numbers_but_missing(cells, self._missing):
            return
        mistake = "" if is_kept else _mistake(self._path, cells)
        if mistake:
            self.left_out[name] = mistake
            return
        known = cells.dropna()
        first = known.head(_LOOKED_AT)
        if not all(isinstance(cell, str | bool) for cell in first):
            self.left_out[name] = "its cells are neither numbers nor texts"
            return
        num_texts = known.nunique()
        if num_texts == 0:
            self.left_out[name] = "it is empty"
            return
        if num_texts * _ROWS_OF_CATEGORY > len(known) and not is_kept:
            rows = f"{num_texts:,} different texts in {len(known):,} rows"
            self.left_out[name] = f"it has {rows}, too many for categories"
            return
        self.categorical.append(name)


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


def _mistake(path: Path, cells: pd.Series[Any]) -> str:
    """Returns the first cell that is no number or date, if nearly all others are; empty if they are not."""
    known = cells[cells.notna()]
    numbers, are_read = numbers_of_cells(known)
    if _has_few_others(~np.isnan(numbers), are_read):
        row = known.index[int(are_read.argmin())]
        cell = str(cells[row])
        option = shlex.quote(cell)
        texts = json.dumps([cell], ensure_ascii=False)
        reading = shlex.quote(f"missing={texts}")
        return (
            f"{_place(path, cells, row)}, but nearly all other cells are numbers. If it is a missing value, "
            f"leave such cells empty or name it, with --missing {option} of auto or --read {reading} of "
            "inspect; otherwise correct it, or keep the column as categories"
        )
    times, are_read = times_of_cells(known)
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
        yield f"{_roles_in_words(plan)}. Name the column of a role to correct a guess."
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
        yield f"The column {column} is left out: {reason}. --keep-feature {column} takes it back."
