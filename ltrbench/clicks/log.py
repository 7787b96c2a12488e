"""Logs of clicks: one row for each document of each shown list, from a table or from UBI events.

    session       one shown list; required
    query         text of the query, the same text is the same query; required
    document      id of the document; required
    position      position where it was shown, from 0 or from 1; empty: a candidate that was not shown
    click         1 if it was clicked, otherwise 0; required
    ranker        ranker, or its version, that made the list
    randomised    whether the list was shuffled
    propensity    known probability that the position is examined
    time          when the list was shown: a date (2026-01-31 or 20260131), a date and time, or Unix seconds
    user          user, for intervals by user instead of by query
    application   part of the log with its own first position
    team          of interleaved lists: the ranker that placed the document; no feature

`read_log` reads the columns and checks every row; all other columns are features, or are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.clicks.rows import Codes, Rows
from ltrbench.clicks.ubi import absent_applications, is_ubi, read_ubi
from ltrbench.data.blocks import as_paths
from ltrbench.data.tables import (
    Table,
    are_dates_with_hours,
    missing_words,
    open_table,
)
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.shapes import Values

if TYPE_CHECKING:
    import pandas as pd

ROLES: Mapping[str, tuple[str, ...]] = {
    "session": ("session", "session_id"),
    "query": ("query", "query_id", "query_text"),
    "document": ("document", "document_id"),
    "position": ("position",),
    "click": ("click", "clicked"),
    "ranker": ("ranker",),
    "randomised": ("randomised", "randomized"),
    "propensity": ("propensity",),
    "time": ("time", "timestamp"),
    "user": ("user", "user_id"),
    "application": ("application",),
    "team": ("team",),
}
"""Role -> default names of its column."""
REQUIRED = ("session", "query", "document", "position", "click")
NUMBERS = ("position", "click", "propensity")

NOT_SHOWN = -1
"""Position of a candidate that was not shown."""
HIGHEST_POSITION = 1000
_SECONDS_OF_A_DAY = 86_400
_DATE = "%Y%m%d"
_MILLISECONDS = "ms"
_RANGES = {
    _DATE: (1e7, 1e8),
    "s": (1e8, 1e10),
    _MILLISECONDS: (1e12, 1e13),
}
"""Form of a time that is a number -> its range: 20260131, seconds of 1973 to 2286, and milliseconds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Log:
    """N checked rows of a log.

    Attributes:
        location: returns file and line of a row.
        sessions, queries, documents, units: (N,) codes; a unit is a query and a document.
        session_names, query_names, document_names: text of each code.
        positions: (N,), from 0; `NOT_SHOWN` for a candidate.
        clicks: (N,), 0 or 1.
        rankers: (N,) codes; None without rankers.
        ranker_names: text of each code.
        is_randomised: (N,).
        propensities: (N,), NaN if not given.
        days: (N,), day of the list; None without times.
        users: (N,) codes; None without users.
        others: columns without a role.
        notes: what was done with rows, one sentence each.
    """

    location: Callable[[int], str]
    sessions: Codes
    queries: Codes
    documents: Codes
    units: Codes
    session_names: NDArray[np.str_]
    query_names: NDArray[np.str_]
    document_names: NDArray[np.str_]
    positions: NDArray[np.int64]
    clicks: NDArray[np.int64]
    rankers: Codes | None
    ranker_names: NDArray[np.str_]
    is_randomised: NDArray[np.bool_]
    propensities: Values
    days: NDArray[np.int64] | None
    users: Codes | None
    user_names: NDArray[np.str_]
    others: pd.DataFrame
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def is_shown(self) -> NDArray[np.bool_]:
        return self.positions >= 0


@dataclass(frozen=True, kw_only=True)
class OtherColumns:
    """How the columns without a role are read.

    Attributes:
        texts: names or patterns of columns that are read as text.
        categorical: names or patterns of columns with categories.
        ignore: names or patterns of columns that are not read, also if they are usual for optional roles.
        missing: texts that are missing values beside empty cells, as for `read_table`.
    """

    texts: Collection[str] = ()
    categorical: Collection[str] = ()
    ignore: Collection[str] = ()
    missing: Sequence[str] | None = None

    def read(
        self, table: Table, texts: Sequence[str], numbers: Sequence[str]
    ) -> pd.DataFrame:
        """Reads columns with a role, as texts and as numbers, and then the others."""
        of_roles = {*texts, *numbers}
        as_text = [*texts]
        as_numbers = [*numbers]
        words: dict[str, Sequence[str]] = {}
        left = [column for column in table.columns if column not in of_roles]
        left = [column for column in left if not _matches(column, self.ignore)]
        for column in left:
            if _matches(column, self.categorical):
                words[column] = ()
            if column in words or _matches(column, self.texts):
                as_text.append(column)
            else:
                as_numbers.append(column)
        missing = missing_words(self.missing)
        read = table.rows(as_text, as_numbers, missing, words)
        return read[[*texts, *numbers, *left]]


def read_log(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Mapping[str, str | None] | None = None,
    others: OtherColumns | None = None,
    first_position: int | None = None,
    applications: Collection[str] | None = None,
) -> Log:
    """Reads and checks a log.

    Args:
        source: a table (.csv, plain or compressed, or .parquet), or UBI events (.ndjson, .json), or several
            files of one kind.
        columns: role -> column; None, or absent: the default names in `ROLES`.
        others: how columns without a role are read; None: as numbers.
        first_position: number of the first position, 0 or 1; None: found from the log.
        applications: applications that are read; None: all.

    Raises:
        ConfigError: Two roles have one column, or a role of UBI events has one.
        DataError: A file cannot be read, a column is missing, files have other columns, or a row is invalid.
    """
    paths = [Path(path).expanduser() for path in as_paths(source)]
    for path in paths:
        if not path.exists():
            raise DataError(f"{path} does not exist. Check the path in data.log.")
    given = dict(columns or {})
    are_events = [is_ubi(path) for path in paths]
    if all(are_events):
        _refuse_columns(paths[0], given)
        return checked(read_ubi(paths, applications), first_position)
    if any(are_events):
        raise DataError(
            f"data.log has tables and UBI events ({', '.join(map(str, paths))}); name files of one kind."
        )
    others = others or OtherColumns()
    parts = [_read_table(path, given, others) for path in paths]
    _check_columns(dict(zip(paths, parts, strict=True)))
    rows = _joined(parts)
    if applications is not None:
        rows = _of_applications(rows, applications)
    return checked(rows, first_position)


def _refuse_columns(path: Path, given: Mapping[str, str | None]) -> None:
    """Raises ConfigError if a role of UBI events has a column."""
    for role, column in given.items():
        if column is not None:
            setting = (
                "data.propensity_column" if role == "propensity" else f"data.{role}"
            )
            raise ConfigError(
                f"{path}: {setting}={column} has no effect on UBI events, whose fields have fixed names. "
                "Leave it out, or write a table with the column."
            )


def _of_applications(rows: Rows, applications: Collection[str]) -> Rows:
    """Returns the rows of some applications."""
    kept = np.zeros(len(rows.frame), dtype=np.bool_)
    present: set[str] = set()
    if "application" in rows.frame:
        names = rows.frame["application"].astype(str)
        kept = names.isin(applications).to_numpy()
        present = {*names}
    chosen = np.flatnonzero(kept)
    if not len(chosen):
        raise absent_applications(rows.location(0), applications, present)
    return Rows(
        rows.frame.iloc[chosen].reset_index(drop=True),
        rows.others.iloc[chosen].reset_index(drop=True),
        lambda row: rows.location(int(chosen[row])),
        rows.notes,
    )


def _read_table(
    path: Path, given: Mapping[str, str | None], others: OtherColumns
) -> Rows:
    table = open_table(path)
    by_role = _columns_of_roles(str(path), table.columns, given, others.ignore)
    texts: list[str] = []
    numbers: list[str] = []
    for role, column in by_role.items():
        (numbers if role in NUMBERS else texts).append(column)
    read = others.read(table, texts, numbers)
    role_of = {column: role for role, column in by_role.items()}
    frame = read[list(role_of)].rename(columns=role_of)
    return Rows(frame, read.drop(columns=list(role_of)), table.location)


def _matches(column: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(column, pattern) for pattern in patterns)


def _columns_of_roles(
    name: str,
    columns: Sequence[str],
    given: Mapping[str, str | None],
    ignore: Collection[str],
) -> dict[str, str]:
    """Returns role -> column, for the roles that the log has.

    An optional role has its usual column unless this is ignored, or named for another role.
    """
    by_role = {}
    left = [column for column in columns if not _matches(column, ignore)]
    left = [column for column in left if column not in given.values()]
    for role, usual in ROLES.items():
        wanted = given.get(role)
        names = [wanted] if wanted else list(usual)
        among = columns if wanted or role in REQUIRED else left
        present = [column for column in names if column in among]
        if present:
            by_role[role] = present[0]
        elif role in REQUIRED or wanted:
            missing = " or ".join(map(repr, names))
            hint = did_you_mean(names[0], columns)
            listed = ", ".join(columns)[:200]
            raise DataError(
                f"{name}: the log has no column {missing} ({role}){hint} Its columns are {listed}. Set "
                f"data.{role}=COLUMN."
            )
    _check_one_role(name, by_role)
    return by_role


def _check_one_role(name: str, by_role: Mapping[str, str]) -> None:
    """Raises ConfigError if two roles have one column."""
    role_of: dict[str, str] = {}
    for role, column in by_role.items():
        other = role_of.setdefault(column, role)
        if other != role:
            raise ConfigError(
                f"{name}: the column '{column}' is that of {other} and of {role}; set data.{other} or "
                f"data.{role} to another column."
            )


def _check_columns(parts: Mapping[Path, Rows]) -> None:
    """Raises DataError unless all files have the columns without a role of the first one, and no others."""
    first, *others = parts
    for path in others:
        _check_has(first, parts, path)
        _check_has(path, parts, first)


def _check_has(path: Path, parts: Mapping[Path, Rows], other: Path) -> None:
    """Raises DataError unless a file has the columns without a role of another file."""
    columns = list(map(str, parts[path].others))
    wanted = map(str, parts[other].others)
    lacking = [name for name in wanted if name not in columns]
    if lacking:
        name = lacking[0]
        raise DataError(
            f"{path}: the log has no column '{name}', which {other} has{did_you_mean(name, columns)} The "
            f"files of a log have the same columns: add it, or ignore it with data.ignore=[{name}]."
        )


def _joined(parts: Sequence[Rows]) -> Rows:
    """Returns the rows of several files, one file after the other."""
    if len(parts) == 1:
        return parts[0]
    import pandas as pd

    ends = np.cumsum([len(part.frame) for part in parts])

    def location(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        start = int(ends[number - 1]) if number else 0
        return parts[number].location(row - start)

    frames = [part.frame for part in parts]
    others = [part.others for part in parts]
    notes = itertools.chain.from_iterable(part.notes for part in parts)
    return Rows(
        pd.concat(frames, ignore_index=True),
        pd.concat(others, ignore_index=True),
        location,
        tuple(notes),
    )


# ---- Checks of the rows.


def checked(rows: Rows, first_position: int | None = None) -> Log:
    """Checks the rows of a log, and numbers sessions, queries and documents.

    Raises:
        DataError: A cell is invalid, a session has two queries, rankers or users, or two documents at one
            position, what was clicked was not shown, or the first position cannot be told.
    """
    fields: dict[str, Any] = {}
    for role in ("session", "query", "document"):
        fields |= _coded_fields(rows, role)
    for role in ("ranker", "user"):
        fields |= _coded_fields(rows, role)
    sessions = fields["sessions"]
    documents = fields["documents"]
    num_documents = len(fields["document_names"])
    fields["units"] = _numbered(fields["queries"] * num_documents + documents)
    positions = _positions(rows, sessions, first_position)
    _check_one_of_each(rows, "query", sessions, fields["queries"])
    _check_distinct(rows, sessions, documents, positions)
    for role in ("ranker", "user"):
        if role in rows.frame:
            _check_one_of_each(rows, role, sessions, fields[f"{role}s"])
    fields["propensities"] = np.full(len(rows.frame), np.nan)
    if "propensity" in rows.frame:
        fields["propensities"] = _cells(rows, "propensity")
    log = Log(
        location=rows.location,
        positions=positions,
        clicks=_clicks(rows, positions),
        is_randomised=_flags(rows, "randomised"),
        days=_days(rows),
        others=rows.others,
        notes=rows.notes,
        **fields,
    )
    _check_size(log)
    return log


_CODES = {"query": "queries"}
"""Role -> name of its codes in `Log`, if that is not the role with an s."""


def _coded_fields(rows: Rows, role: str) -> dict[str, Any]:
    """Returns the codes and the texts of a column, by the names of their fields in `Log`."""
    codes: Codes | None = None
    names = np.zeros(0, dtype=np.str_)
    if role in rows.frame:
        codes, names = rows.coded(role)
    return {_CODES.get(role, f"{role}s"): codes, f"{role}_names": names}


def _check_size(log: Log) -> None:
    where = log.location(0)
    if len(log.session_names) < 2:
        raise DataError(
            f"{where}: the log has one session; log more lists, or name the column that numbers them: "
            "data.session=COLUMN."
        )
    if not log.is_shown.any():
        raise DataError(f"{where}: no row has a position; log what was shown where.")
    if not log.clicks.any():
        raise DataError(
            f"{where}: the log has no click; log more lists, or name the column of clicks: "
            "data.click=COLUMN."
        )
    clicked = np.unique(log.positions[log.clicks > 0])
    if len(clicked) == 1 and log.positions.max() > 0:
        raise DataError(
            f"{where}: all clicks are at position {clicked[0]}, so that it is not known how the others are "
            "examined. Log more lists."
        )


def _numbered(keys: NDArray[np.int64]) -> Codes:
    """Returns the codes of whole numbers."""
    import pandas as pd

    codes, _ = pd.factorize(keys)
    return codes.astype(np.int64)


def _cells(rows: Rows, role: str) -> Values:
    """Returns the numbers of a column, NaN for an empty cell."""
    import pandas as pd

    cells = rows.frame[role]
    if cells.dtype == object:
        words = rows.words(role)
        are_booleans = words.isin(["true", "false"])
        cells = cells.where(~are_booleans, words == "true")
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    is_empty = cells.isna() | (cells == "")
    is_valid = ~np.isnan(numbers) | is_empty.to_numpy()
    rows.check(
        is_valid, lambda row: f"the {role} is {rows.shown(role, row)}; write a number."
    )
    return numbers


_TRUE = ("true", "1", "1.0", "yes")
_FALSE = ("false", "0", "0.0", "no", "", "nan")


def _flags(rows: Rows, role: str) -> NDArray[np.bool_]:
    if role not in rows.frame:
        return np.zeros(len(rows.frame), dtype=np.bool_)
    words = rows.words(role)
    is_known = words.isin([*_TRUE, *_FALSE]).to_numpy()

    def message(row: int) -> str:
        return f"{role} is {rows.shown(role, row)}; write true or false."

    rows.check(is_known, message)
    return words.isin(_TRUE).to_numpy()


def _positions(rows: Rows, sessions: Codes, first: int | None) -> NDArray[np.int64]:
    """Returns the positions from 0."""
    numbers = _cells(rows, "position")
    is_shown = ~np.isnan(numbers)
    whole = np.where(is_shown, np.floor(numbers), 0.0)
    is_whole = ~is_shown | (whole == numbers)
    is_inside = (whole >= 0) & (whole <= HIGHEST_POSITION)

    def message(row: int) -> str:
        return (
            f"the position is {numbers[row]:g}; write a whole number from 0 to {HIGHEST_POSITION}, or "
            "nothing for a candidate that was not shown."
        )

    rows.check(is_whole & is_inside, message)
    positions = np.where(is_shown, whole, NOT_SHOWN).astype(np.int64)
    applications = np.zeros(len(sessions), dtype=np.int64)
    if "application" in rows.frame:
        applications, _ = rows.coded("application")
    for application in np.unique(applications[is_shown]).tolist():
        inside = np.flatnonzero(is_shown & (applications == application))
        base = first
        if base is None:
            base = _first_position(rows, inside, sessions[inside], positions[inside])
        positions[inside] -= base
    rows.check(
        (positions >= 0) | ~is_shown,
        lambda row: (
            f"the position is {numbers[row]:g}, below data.first_position={first}."
        ),
    )
    return positions


_CLEAR = 0.9
"""Share of the lists that start at one number, from which it is the first position."""
_SOME = 0.1


def _first_position(
    rows: Rows, inside: NDArray[np.int64], sessions: Codes, positions: NDArray[np.int64]
) -> int:
    """Returns 0 or 1, the number at which the positions of an application start.

    Raises:
        DataError: Lists start at both numbers, or at neither.
    """
    first_of = np.full(sessions.max() + 1, HIGHEST_POSITION + 1)
    np.minimum.at(first_of, sessions, positions)
    firsts = first_of[first_of <= HIGHEST_POSITION]
    from_zero = float((firsts == 0).mean())
    from_one = float((firsts == 1).mean())
    if from_zero == 0 and from_one >= _SOME:
        return 1
    is_clear = from_zero >= _CLEAR * (from_zero + from_one)
    if from_zero > 0 and is_clear:
        return 0
    remedy = "Set data.first_position to 0 or 1, or name the applications (data.application=COLUMN)."
    where = rows.location(int(inside[0]))
    if from_zero == 0:
        lowest = int(firsts.min())
        raise DataError(
            f"{where}: it cannot be told whether positions start at 0 or 1, because the first of them are "
            f"{lowest} and above. {remedy}"
        )
    at_one = int(inside[np.argmax(first_of[sessions] == 1)])
    shares = f"{100 * from_zero:.0f} % of the lists start at position 0 and {100 * from_one:.0f} %"
    raise DataError(
        f"{rows.location(at_one)}: {shares} at 1: the log mixes two ways to count. {remedy}"
    )


def _clicks(rows: Rows, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = _cells(rows, "click")
    is_shown = positions >= 0
    numbers = np.where(np.isnan(numbers) & ~is_shown, 0.0, numbers)
    rows.check(
        np.isin(numbers, (0.0, 1.0)),
        lambda row: (
            f"the click is {numbers[row]:g}; write 1 for a clicked document, else 0."
        ),
    )

    def message(row: int) -> str:
        return (
            "a click on a document without a position, which was not shown. Add its position, or remove the "
            "click."
        )

    rows.check(is_shown | (numbers == 0), message)
    return numbers.astype(np.int64)


_NUMBER = "A session is one shown list: number each list."
_LEAVE = "Or leave its application out (data.applications)."


def _check_one_of_each(
    rows: Rows, role: str, sessions: Codes, values: NDArray[np.int64]
) -> None:
    """Raises DataError if a session has two values of a column."""
    firsts = first_rows(sessions)[sessions]

    def message(row: int) -> str:
        session = rows.shown("session", row)
        value = rows.shown(role, row)
        before = rows.shown(role, int(firsts[row]))
        return (
            f"session {session} has the {role} {value}, and {before} before. {_NUMBER}"
        )

    rows.check(values == values[firsts], message)


def first_rows(codes: Codes) -> NDArray[np.int64]:
    """Returns the first row of each code."""
    _, firsts = np.unique(codes, return_index=True)
    return firsts


def _check_distinct(
    rows: Rows, sessions: Codes, documents: Codes, positions: NDArray[np.int64]
) -> None:
    """Raises DataError if a session has a document twice, or two documents at one position."""
    num_documents = documents.max() + 1
    pairs = sessions * num_documents + documents

    def of_document(row: int) -> str:
        session = rows.shown("session", row)
        return f"document {rows.shown('document', row)} is in session {session} twice. {_NUMBER}"

    rows.check(~_are_repeated(pairs), of_document)
    places = sessions * (HIGHEST_POSITION + 1) + positions

    def of_position(row: int) -> str:
        session = rows.shown("session", row)
        position = rows.shown("position", row)
        remedy = _NUMBER
        if "application" in rows.frame:
            remedy = f"{_NUMBER} {_LEAVE}"
        return f"session {session} has two documents at position {position}. {remedy}"

    candidates = -1 - np.arange(len(places))
    of_shown = np.where(positions >= 0, places, candidates)
    rows.check(~_are_repeated(of_shown), of_position)


def _are_repeated(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns whether each number occurred before."""
    import pandas as pd

    return np.asarray(pd.Series(keys).duplicated())


def _days(rows: Rows) -> NDArray[np.int64] | None:
    """Returns the day of each row, since 1970-01-01; None without times.

    Raises:
        DataError: A time is empty or is no time, or times are of two kinds.
    """
    if "time" not in rows.frame:
        return None
    import pandas as pd

    texts = rows.frame["time"].astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce")
    is_number = numbers.notna().to_numpy()
    if is_number.all():
        return _days_of_numbers(rows, numbers.to_numpy(np.float64))

    def of_two_kinds(row: int) -> str:
        other = rows.shown("time", int(is_number.argmin()))
        return f"the time is {rows.shown('time', row)}, and {other} in another row: write all in one form."

    rows.check(~is_number, of_two_kinds)
    times = pd.to_datetime(texts, errors="coerce", utc=True, format="ISO8601")
    return _days_of_dates(rows, times)


def _days_of_numbers(rows: Rows, numbers: Values) -> NDArray[np.int64]:
    """Returns the day of each time that is a number, since 1970-01-01.

    Raises:
        DataError: A number is in none of the ranges of `_RANGES`, or two are in different ones.
    """
    import pandas as pd

    forms = np.full(len(numbers), "", dtype=object)
    for form, (lowest, end) in _RANGES.items():
        is_below = numbers < end
        forms[is_below & (numbers >= lowest)] = form
    _check_times(rows, forms != "")
    form = forms[0]

    def of_two_forms(row: int) -> str:
        other = rows.shown("time", 0)
        return (
            f"the time is {rows.shown('time', row)}, and {other} in another row: write dates, seconds or "
            "milliseconds in all rows."
        )

    rows.check(forms == form, of_two_forms)
    texts = pd.Series(numbers).map("{:.0f}".format)
    if are_dates_with_hours(texts):
        _check_times(rows, np.zeros(len(numbers), dtype=np.bool_))
    if form == _DATE:
        times = pd.to_datetime(texts, errors="coerce", utc=True, format=_DATE)
        return _days_of_dates(rows, times)
    seconds = numbers / 1000 if form == _MILLISECONDS else numbers
    return np.floor(seconds / _SECONDS_OF_A_DAY).astype(np.int64)


def _check_times(rows: Rows, is_time: NDArray[np.bool_]) -> None:
    def message(row: int) -> str:
        return (
            f"the time is {rows.shown('time', row)}; write 2026-01-31T12:00:00Z, 20260131, or seconds or "
            "milliseconds since 1970."
        )

    rows.check(is_time, message)


def _days_of_dates(rows: Rows, times: pd.Series[Any]) -> NDArray[np.int64]:
    import pandas as pd

    _check_times(rows, times.notna().to_numpy())
    since = times - pd.Timestamp("1970-01-01", tz="UTC")
    return np.asarray(since.dt.days, dtype=np.int64)


def check_propensities(log: Log) -> None:
    """Raises DataError if a shown document has no probability above 0 and at most 1."""
    shown = np.flatnonzero(log.is_shown)
    values = log.propensities[shown]
    is_valid = (values > 0) & (values <= 1)
    if is_valid.all():
        return
    if np.isnan(values).all():
        raise DataError(
            f"{log.location(0)}: the log has no propensities, but data.propensity is column. Name their "
            "column: data.propensity_column=COLUMN."
        )
    row = int(is_valid.argmin())
    wrong = "empty" if np.isnan(values[row]) else f"{values[row]:g}"
    raise DataError(
        f"{log.location(int(shown[row]))}: the propensity is {wrong}; write the probability of examination, "
        "above 0 and at most 1, for every shown document."
    )


# ---- Features in a table of their own.


def with_features(log: Log, path: Path, others: OtherColumns | None = None) -> Log:
    """Returns the log with columns of a table, joined by document, and by query if the table has queries.

    Args:
        others: as in `read_log`.

    Raises:
        DataError: The table cannot be read, has a document twice or a column of the log, or has no document
            of the log.
    """
    import pandas as pd

    features, keys = _read_features(path, others or OtherColumns())
    columns = [name for name in features if name not in keys]
    both = [name for name in columns if name in log.others]
    if both:
        raise DataError(
            f"{path}: the column '{both[0]}' is in the log, too; ignore or rename one of them."
        )
    wanted = pd.DataFrame({"document": log.document_names[log.documents]})
    if "query" in keys:
        wanted["query"] = log.query_names[log.queries]
    joined = wanted.merge(features, how="left", on=keys, indicator=True)
    is_lost = (joined["_merge"] != "both").to_numpy()
    if is_lost.all():
        raise DataError(f"{path}: the table has no document of the log.")
    notes = log.notes
    if is_lost.any():
        notes = (*notes, f"{path}: {is_lost.sum()} rows of the log have no features")
    joined_columns = pd.concat([log.others, joined[columns]], axis=1)
    return replace(log, others=joined_columns, notes=notes)


def _read_features(path: Path, others: OtherColumns) -> tuple[pd.DataFrame, list[str]]:
    """Returns a table of features, and the columns by which it is joined: document, and query if any."""
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the path in data.documents.")
    table = open_table(path)
    role_of: dict[str, str] = {}
    for role in ("document", "query"):
        columns = [name for name in ROLES[role] if name in table.columns]
        role_of |= dict.fromkeys(columns[:1], role)
    keys = list(role_of.values())
    if "document" not in keys:
        raise _no_documents(path, table.columns)
    read = others.read(table, list(role_of), []).rename(columns=role_of)
    rows = Rows(read, read, table.location)
    for role in keys:
        codes, names = rows.coded(role)
        read[role] = names[codes]
    rows.check(
        ~read.duplicated(keys).to_numpy(),
        lambda row: f"document {rows.shown('document', row)} is twice; keep one row.",
    )
    return read, keys


def _no_documents(path: Path, columns: Sequence[str]) -> DataError:
    names = " or ".join(ROLES["document"])
    return DataError(
        f"{path}: the table has no column {names}, by which features are joined. Its columns are "
        f"{', '.join(columns)[:200]}."
    )


_OF_ROWS = (
    "documents",
    "positions",
    "clicks",
    "rankers",
    "is_randomised",
    "propensities",
    "days",
    "users",
)
"""Columns that keep their values when rows are taken."""


def taken(log: Log, rows: NDArray[np.int64], queries: Codes) -> Log:
    """Returns rows of a log, which may be repeated, in other queries.

    Args:
        queries: (n,), number of the new query of each row, whose sessions are distinct.
    """
    columns: dict[str, Any] = {}
    for name in _OF_ROWS:
        values = getattr(log, name)
        columns[name] = None if values is None else values[rows]
    of_sessions = queries * len(log.session_names)
    sessions = _numbered(of_sessions + log.sessions[rows])
    of_units = queries * len(log.document_names)
    units = _numbered(of_units + columns["documents"])
    num_sessions = sessions.max() + 1
    num_queries = queries.max() + 1
    return replace(
        log,
        location=lambda row: log.location(int(rows[row])),
        sessions=sessions,
        queries=queries,
        units=units,
        session_names=np.arange(num_sessions).astype(np.str_),
        query_names=np.arange(num_queries).astype(np.str_),
        others=log.others.iloc[rows].reset_index(drop=True),
        **columns,
    )


# ---- What a log says about its rankers.


def compared_sessions(log: Log) -> tuple[NDArray[np.bool_], str]:
    """Returns (N,), whether each row's ranker was in use on that day together with another one.

    If the shop replaces a ranker because relevance changed, documents move for the reason that they are
    clicked, so that only days with several rankers say how a position is examined.

    Returns:
        Also a sentence on what is left out; empty if nothing is. Without times, or with one ranker, all rows
        count.

    Raises:
        DataError: No two rankers were in use on the same day.
    """
    every = np.ones(len(log), dtype=np.bool_)
    if log.rankers is None or log.days is None:
        return every, ""
    if len(log.ranker_names) < 2:
        return every, ""
    days = _numbered(log.days)
    num_rankers = len(log.ranker_names)
    rankers_of_days = np.unique(days * num_rankers + log.rankers)
    days_with_ranker = rankers_of_days // num_rankers
    num_of_day = np.bincount(days_with_ranker, minlength=days.max() + 1)
    is_compared = (num_of_day > 1)[days] | log.is_randomised
    if not is_compared.any():
        first, second = log.ranker_names[:2]
        raise DataError(
            f"{log.location(0)}: the rankers {first} and {second} were in use one after the other, so that "
            "documents may have moved because their attraction changed: examination cannot be estimated. "
            "Show both in the same days, or set data.propensity=power:1 for an analysis of sensitivity."
        )
    share = float(1 - is_compared.mean())
    if share == 0:
        return every, ""
    return is_compared, (
        f"{100 * share:.0f} % of the impressions are of days with one ranker, and are left out where the "
        "examination is estimated"
    )
