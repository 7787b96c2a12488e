"""Columns of a table by which its queries are split: the time of a query, and its group of near-duplicates.

A time is a number or a date in ISO 8601, the same in all rows of the column. A query has the latest time of
its rows, so that no row of an earlier query is later. All rows of a query are in the same group. Groups are
compared without blanks around them, and a whole number without its fraction: 7.0 is the group 7.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.table.cells import MISSING, number_of
from ltrbench.errors import DataError

SPLIT_ROLES = ("split_by", "group_by")
"""Settings that name these columns, which are not features."""

_NUMBER, _DATE, _DATE_IN_ZONE = "a number", "a date without a time zone", "a date with a time zone"
_MONTH = re.compile(r"\d{4}-\d{2}")
_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+")

_Time = float | np.datetime64


class _Table(Protocol):
    """The part of a table that is needed here."""

    def place(self, row: int) -> str: ...

    def texts(self, column: str) -> list[str]: ...

    def distinct(self, column: str) -> tuple[list[object], NDArray[np.int64]]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitColumns:
    """Values of the columns by which queries are split; None if a column is not set."""

    times: Mapping[str, _Time] | None  # query id -> time
    groups: Mapping[str, str] | None  # query id -> group


def split_columns(tables: Iterable[_Table], columns: Mapping[str, str]) -> SplitColumns:
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


def _latest_times(tables: Iterable[_Table], query: str, column: str) -> dict[str, _Time]:
    """Returns query id -> the latest time of its rows."""
    latest: dict[str, Any] = {}
    first: tuple[str, str] | None = None
    for table in tables:
        cells, cell_of_row = table.distinct(column)
        _, rows = np.unique(cell_of_row, return_index=True)  # the first row of each cell
        times: list[Any] = []
        for cell, row in zip(cells, rows.tolist(), strict=True):
            kind, time = _time_of(cell, f"{table.place(row)}: column '{column}' is {cell!r}")
            first = first or (kind, table.place(row))
            if kind != first[0]:
                raise DataError(
                    f"{table.place(row)}: column '{column}' is {cell!r}, {kind}, but {first[1]} has "
                    f"{first[0]}; times of different kinds cannot be compared. Write all values of the "
                    "column alike."
                )
            times.append(time)
        for query_id, number in zip(table.texts(query), cell_of_row.tolist(), strict=True):
            latest[query_id] = max(times[number], latest.get(query_id, times[number]))
    return latest


def _time_of(cell: object, named: str) -> tuple[str, _Time]:
    """Returns the kind and the value of a time; `named` is its place and value in messages."""
    try:
        if isinstance(cell, str):
            kind, time = _of_text(cell)
        elif isinstance(cell, datetime.date) and cell == cell:  # pandas' NaT is a date that is not itself
            kind, time = _of_date(cell)
        else:
            kind, time = _NUMBER, _finite(number_of(cell))
    except (ValueError, OverflowError):
        raise DataError(
            f"{named}, which is neither a finite number nor a date in ISO 8601, such as 2026-01-31. Convert "
            "the column, or choose another one with split_by (in a run data.split_by)."
        ) from None
    if time != time:
        raise DataError(
            f"{named}, but a split by time needs a time in every row. Add it, or remove the query."
        )
    return kind, time


def _of_text(cell: str) -> tuple[str, _Time]:
    try:
        return _NUMBER, _finite(number_of(cell))
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


def _groups(tables: Iterable[_Table], query: str, column: str) -> dict[str, str]:
    """Returns query id -> group."""
    groups: dict[str, str] = {}
    for table in tables:
        of_rows = zip(table.texts(query), table.texts(column), strict=True)
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
