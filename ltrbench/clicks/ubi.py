"""User Behavior Insights (UBI): events of search engines as JSON lines, also in the bulk format.

A list is a query_id. What was shown are its events `impression`; without any of an application, the documents
that the engine returned (`query_response_hit_ids`), which the user may not have seen. Application, user and
time are those of the first event of the query_id that has them. Clicks on documents that were not shown are
counted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ltrbench.clicks.rows import Rows
from ltrbench.data.blocks import read_blocks, without_compression_ending
from ltrbench.errors import DataError

ENDINGS = (".ndjson", ".jsonl", ".json")
IMPRESSION = "impression"
CLICKED = ("click", "item_click")
_BULK = frozenset({"index", "create", "update", "delete"})
_LARGEST_SECONDS = 1e11
"""Above it a time is in milliseconds since 1970."""

_MOST_NAMED = 10
"""Maximum number of applications that an error names."""


def is_ubi(path: Path) -> bool:
    return without_compression_ending(path).suffix.lower() in ENDINGS


@dataclass(frozen=True)
class _Shown:
    """A document of a list, with the file and line that say so."""

    query_id: str
    document: str
    position: Any
    application: str
    location: str


@dataclass
class _Events:
    """What a file says.

    Attributes:
        texts: query_id -> text of the query.
        facts: query_id -> user and time of the list.
        applications: query_id -> its application, which events without one inherit.
        returned: query_id -> application and documents that the engine returned, with their place.
        shown: impressions.
        clicks: query_id and document of each click.
        unclear: number of events of impressions and clicks without a query or a document.
    """

    texts: dict[str, str] = field(default_factory=dict)
    facts: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    applications: dict[str, str] = field(default_factory=dict)
    returned: dict[str, tuple[str, list[str], str]] = field(default_factory=dict)
    shown: list[_Shown] = field(default_factory=list)
    clicks: set[tuple[str, str]] = field(default_factory=set)
    unclear: int = 0


def read_ubi(paths: Sequence[Path], applications: Collection[str] | None) -> Rows:
    """Reads the lists and clicks of files of UBI events and queries.

    Args:
        applications: applications that are read; None: all.

    Raises:
        DataError: A file cannot be read, a line is no JSON object, or there is no list.
    """
    events = _Events()
    present: set[str] = set()
    for path in paths:
        for line, document in _documents(path):
            application = _text(document.get("application"))
            present.add(application)
            if not application or applications is None or application in applications:
                _add(events, document, f"{path}:{line}")
    if applications is not None and present.isdisjoint(applications):
        raise absent_applications(str(paths[0]), applications, present)
    _inherit_applications(events)
    if applications is not None:
        _leave_out_others(events, applications)
    return _rows_of(events, str(paths[0]))


def absent_applications(
    place: str, applications: Collection[str], present: Collection[str]
) -> DataError:
    """Returns the error that a log has none of the applications that are read."""
    names = [name for name in sorted(present) if name]
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f" and {len(names) - _MOST_NAMED} more"
    return DataError(
        f"{place}: no row has an application of data.applications=[{', '.join(applications)}]. The "
        f"applications of the log are: {shown or 'none'}. Correct data.applications, or leave it out."
    )


def _documents(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields line number and content of each document, without the action lines of the bulk format."""
    for text, first_line in read_blocks(path):
        for line, words in enumerate(text.split(b"\n"), first_line):
            if not words.strip():
                continue
            try:
                document = json.loads(words)
            except ValueError:
                document = None
            if not isinstance(document, dict):
                start = words[:40].decode(errors="replace")
                raise DataError(
                    f"{path}:{line}: {start!r} is no JSON object; write one event or query in each line."
                )
            if not _is_action(document):
                yield line, document


def _is_action(document: Mapping[str, Any]) -> bool:
    """Returns whether a line is an action of the bulk format, and not a document."""
    return len(document) == 1 and not _BULK.isdisjoint(document)


def _add(events: _Events, document: Mapping[str, Any], location: str) -> None:
    query_id = _text(document.get("query_id"))
    if query_id:
        _add_facts(events, query_id, document, location)
    action = document.get("action_name")
    application = _text(document.get("application"))
    if action is None:
        hits = document.get("query_response_hit_ids")
        if query_id and isinstance(hits, list):
            events.returned[query_id] = (application, list(map(str, hits)), location)
        return
    if action != IMPRESSION and action not in CLICKED:
        return
    attributes = _mapping(document.get("event_attributes"))
    shown = _text(_mapping(attributes.get("object")).get("object_id"))
    if not query_id or not shown:
        events.unclear += 1
    elif action == IMPRESSION:
        position = _mapping(attributes.get("position")).get("ordinal")
        events.shown.append(_Shown(query_id, shown, position, application, location))
    else:
        events.clicks.add((query_id, shown))


def _add_facts(
    events: _Events, query_id: str, document: Mapping[str, Any], location: str
) -> None:
    """Adds what a document says about its list, where no document before did."""
    text = _text(document.get("user_query"))
    if text:
        events.texts.setdefault(query_id, text)
    application = _text(document.get("application"))
    if application:
        events.applications.setdefault(query_id, application)
    user, time = events.facts.get(query_id, ("", None))
    if not user:
        user = _text(document.get("client_id"))
    if time is None:
        time = _seconds(document.get("timestamp"), location)
    events.facts[query_id] = (user, time)


def _inherit_applications(events: _Events) -> None:
    """Gives events and queries without an application that of their query_id."""
    for number, each in enumerate(events.shown):
        if not each.application:
            application = events.applications.get(each.query_id, "")
            events.shown[number] = replace(each, application=application)
    for query_id, (own, documents, location) in events.returned.items():
        application = own or events.applications.get(query_id, "")
        events.returned[query_id] = (application, documents, location)


def _leave_out_others(events: _Events, applications: Collection[str]) -> None:
    """Leaves out events and queries of no application that is read."""
    events.shown = [each for each in events.shown if each.application in applications]
    events.returned = {
        query_id: returned
        for query_id, returned in events.returned.items()
        if returned[0] in applications
    }
    events.clicks = {each for each in events.clicks if each[0] in events.applications}


def _mapping(value: object) -> Mapping[str, Any]:
    """Returns a JSON object; empty for null and anything else."""
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _seconds(value: object, location: str) -> float | None:
    """Returns a time as seconds since 1970: of an ISO 8601 text, or a number of seconds or milliseconds.

    Raises:
        DataError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, int | float):
        return value / 1000 if value > _LARGEST_SECONDS else float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise DataError(
            f"{location}: the timestamp is {str(value)[:40]!r}; write 2026-01-31T12:00:00Z, or milliseconds "
            "since 1970."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


# ---- From events to rows.


def _rows_of(events: _Events, name: str) -> Rows:
    import pandas as pd

    shown, num_repeated = _without_repeats(events.shown)
    returned = _returned(events, {each.application for each in shown})
    every = [*shown, *returned]
    lists = [each for each in every if each.query_id in events.texts]
    if not lists:
        raise DataError(
            f"{name}: there is no impression and no query_response_hit_ids with a user_query; log what was "
            "shown where, for which query."
        )
    is_shown = {(each.query_id, each.document) for each in lists}
    counts = {
        "repeated impressions": num_repeated,
        "impressions of lists without a user_query": len(every) - len(lists),
        "clicks on documents that were not shown": len(events.clicks - is_shown),
        "events without a query_id or an object_id": events.unclear,
    }
    notes = []
    for what, number in counts.items():
        if number:
            notes.append(f"{name}: {number} {what} are left out")
    if returned:
        notes.append(
            f"{name}: some lists have no impressions: what the engine returned counts as shown, although "
            "users may not have seen it"
        )
    frame = pd.DataFrame([_row(each, events) for each in lists])
    for column in ("time", "user", "application"):
        is_empty = frame[column].isna() | (frame[column] == "")
        if is_empty.any():
            frame = frame.drop(columns=column)
    places = [each.location for each in lists]
    return Rows(frame, frame[[]], places.__getitem__, tuple(notes))


def _row(shown: _Shown, events: _Events) -> dict[str, Any]:
    """Returns a row by the roles of its columns."""
    user, time = events.facts.get(shown.query_id, ("", None))
    return {
        "session": shown.query_id,
        "query": events.texts.get(shown.query_id, ""),
        "document": shown.document,
        "position": shown.position,
        "click": int((shown.query_id, shown.document) in events.clicks),
        "time": time,
        "user": user,
        "application": shown.application,
    }


def _without_repeats(shown: list[_Shown]) -> tuple[list[_Shown], int]:
    """Returns the first impression of each document of a list, and the number of the others."""
    firsts: dict[tuple[str, str], _Shown] = {}
    for each in shown:
        firsts.setdefault((each.query_id, each.document), each)
    return [*firsts.values()], len(shown) - len(firsts)


def _returned(events: _Events, with_impressions: Collection[str]) -> list[_Shown]:
    """Returns the documents that the engine returned, of applications without impressions."""
    returned = []
    for query_id, (application, documents, location) in events.returned.items():
        if application in with_impressions:
            continue
        for position, document in enumerate(dict.fromkeys(documents)):
            each = _Shown(query_id, document, position, application, location)
            returned.append(each)
    return returned
