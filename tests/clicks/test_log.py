"""Logs: what is read, and what is refused with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from messages import naming

from ltrbench.clicks.log import (
    OtherColumns,
    compared_sessions,
    read_log,
    with_features,
)
from ltrbench.errors import ConfigError, DataError


def _rows(**columns: Any) -> dict[str, list[Any]]:
    """Two lists of three documents of one query; two documents of the second list are clicked."""
    rows: dict[str, list[Any]] = {
        "session": ["s1", "s1", "s1", "s2", "s2", "s2"],
        "query": ["shoes"] * 6,
        "document": ["a", "b", "c", "c", "b", "a"],
        "position": [0, 1, 2, 0, 1, 2],
        "click": [0, 0, 0, 1, 0, 1],
        "price": [1, 2, 3, 3, 2, 1],
    }
    return rows | columns


def _write(folder: Path, rows: dict[str, list[Any]]) -> Path:
    path = folder / "log.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_is_read(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame(_rows(position=[1, 2, None, 1, 2, 3], randomised=[True] * 6))
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    log = read_log(path)
    assert log.positions.tolist() == [0, 1, -1, 0, 1, 2]
    assert log.clicks.tolist() == [0, 0, 0, 1, 0, 1]
    assert log.units.tolist() == [0, 1, 2, 2, 1, 0]
    assert log.is_randomised.all()
    assert list(log.others) == ["price"]


def test_texts_and_names_of_columns_are_those_of_the_log(tmp_path: Path) -> None:
    rows = _rows(query=["NA"] * 3 + ["007"] * 3)
    rows["list"] = rows.pop("session")
    log = read_log(_write(tmp_path, rows), columns={"session": "list"})
    assert log.query_names.tolist() == ["NA", "007"]
    assert log.session_names.tolist() == ["s1", "s2"]


def test_each_application_has_its_own_first_position(tmp_path: Path) -> None:
    rows = _rows(position=[0, 1, 2, 1, 2, 3], application=["x"] * 3 + ["y"] * 3)
    assert read_log(_write(tmp_path, rows)).positions.tolist() == [0, 1, 2, 0, 1, 2]


def test_files_of_a_log_have_the_same_columns(tmp_path: Path) -> None:
    rows = _rows(session=["s3"] * 3 + ["s4"] * 3)
    paths = [_write(tmp_path, _rows()), tmp_path / "other.csv"]
    pd.DataFrame(rows).to_csv(paths[1], index=False)
    assert len(read_log(paths)) == 12
    pd.DataFrame(rows).rename(columns={"price": "Price"}).to_csv(paths[1], index=False)
    named = naming("'Price'", "other.csv has", "data.ignore=[Price]")
    with pytest.raises(DataError, match=named):
        read_log(paths)


def test_nulls_of_parquet_are_empty_cells(tmp_path: Path) -> None:
    rows = _rows(randomised=[True, True, True, None, None, None])
    path = tmp_path / "log.parquet"
    pd.DataFrame(rows).to_parquet(path)
    assert read_log(path).is_randomised.tolist() == [True] * 3 + [False] * 3


def test_days_with_several_rankers_and_randomised_lists_say_how_positions_are_examined(
    tmp_path: Path,
) -> None:
    rows = _rows(ranker=["A"] * 3 + ["B"] * 3, time=["2026-01-01"] * 6)
    log = read_log(_write(tmp_path, rows))
    is_compared, note = compared_sessions(log)
    assert is_compared.all()
    assert note == ""
    rows["time"] = [1767225600] * 3 + [1767398400] * 3
    later = read_log(_write(tmp_path, rows))
    with pytest.raises(DataError, match="rankers A and B were in use one after"):
        compared_sessions(later)
    rows["time"] = [20260101] * 3 + [20260103] * 3
    of_dates = read_log(_write(tmp_path, rows))
    assert of_dates.days is not None
    assert later.days is not None
    assert of_dates.days.tolist() == later.days.tolist()
    rows["randomised"] = [True] * 3 + [False] * 3
    is_compared, note = compared_sessions(read_log(_write(tmp_path, rows)))
    assert is_compared.tolist() == [True] * 3 + [False] * 3
    assert note.startswith("50 %")


REFUSED: dict[str, tuple[dict[str, Any], int, list[str]]] = {
    "two documents at a position": ({"position": [0, 1, 1, 0, 1, 2]}, 4, ["'1'"]),
    "click on what was not shown": ({"position": [0, 1, 2, None, 0, 1]}, 5, ["click"]),
    "a base that cannot be told": ({"position": [3, 4, 5, 3, 4, 5]}, 2, ["3 and"]),
    "two bases": ({"position": [0, 1, 2, 1, 2, 3]}, 5, ["50 %", "first_position"]),
    "a high position": ({"position": [0, 1, 1500, 0, 1, 2]}, 4, ["1500", "1000"]),
    "a text as position": ({"position": ["top", 1, 2, 0, 1, 2]}, 2, ["'top'"]),
    "a click that is a count": ({"click": [0, 0, 2, 1, 0, 0]}, 4, ["click is 2"]),
    "a session of floats": (
        {"session": ["s", *["9007199254740992.0"] * 5]},
        3,
        ["session", "'9007199254740992.0'", "integers"],
    ),
    "a document of floats": ({"document": ["a", *[1e18] * 5]}, 3, ["1e+18"]),
    "an empty session": ({"session": ["", *["s"] * 5]}, 2, ["session is empty"]),
    "one session for two lists": (
        {"session": ["s1"] * 6, "position": range(6)},
        5,
        ["document 'c'", "twice"],
    ),
    "two queries of a session": (
        {"query": ["shoes"] * 2 + ["hats"] * 4},
        4,
        ["'hats'", "'shoes'"],
    ),
    "two rankers of a session": ({"ranker": ["A", *"BBBBB"]}, 3, ["'B'", "'A'"]),
    "two users of a session": ({"user": ["u", *"vvvvv"]}, 3, ["'v'", "'u'"]),
    "no click": ({"click": [0] * 6}, 2, ["no click"]),
    "clicks at one position": ({"click": [1, 0, 0, 1, 0, 0]}, 2, ["position 0"]),
    "no position": ({"position": [None] * 6, "click": [0] * 6}, 2, ["position"]),
    "times of two kinds": (
        {"time": [1767225600, *["2026-01-01"] * 5]},
        2,
        ["'1767225600'", "'2026-01-01'"],
    ),
    "times of two units": (
        {"time": [1767225600, *[1767225600000] * 5]},
        3,
        ["'1767225600'", "'1767225600000'"],
    ),
    "a time in nanoseconds": (
        {"time": [1767225600000000000] * 6},
        2,
        ["'1767225600000000000'", "milliseconds"],
    ),
    "dates with hours": ({"time": [2026013110] * 6}, 2, ["'2026013110'", "T12:00"]),
    "dates with minutes": ({"time": [202601311030] * 6}, 2, ["'202601311030'"]),
    "no day of a month": ({"time": [20260131] * 3 + [20260231] * 3}, 5, ["'20260231'"]),
    "no time": ({"time": ["2026-01-01"] * 3 + ["soon"] * 3}, 5, ["'soon'"]),
    "no truth value": ({"randomised": ["perhaps"] * 6}, 2, ["'perhaps'"]),
}


def test_a_column_has_one_role_and_none_if_it_is_ignored(tmp_path: Path) -> None:
    path = _write(tmp_path, _rows(user=["u", None] * 3, time=["soon"] * 6))
    log = read_log(path, others=OtherColumns(ignore=["user", "tim*", "session"]))
    assert log.users is None
    assert log.days is None
    assert list(log.others) == ["price"]
    for role, other in (("user", "session"), ("document", "position")):
        with pytest.raises(ConfigError, match=naming(f"data.{role}", f"data.{other}")):
            read_log(path, columns={role: other})
    # A usual name that is given to another role is free.
    path = _write(tmp_path, _rows(team=["A"] * 3 + ["B"] * 3))
    log = read_log(path, columns={"ranker": "team"})
    assert log.ranker_names.tolist() == ["A", "B"]


@pytest.mark.parametrize("case", REFUSED)
def test_a_row_is_refused_with_file_and_line(tmp_path: Path, case: str) -> None:
    columns, line, named = REFUSED[case]
    path = _write(tmp_path, _rows(**columns))
    with pytest.raises(DataError) as caught:
        read_log(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    for part in named:
        assert part in message


def test_one_session_is_refused(tmp_path: Path) -> None:
    rows = {name: cells[:3] for name, cells in _rows().items()}
    rows["click"] = [1, 0, 0]
    with pytest.raises(DataError, match="one session"):
        read_log(_write(tmp_path, rows))


def test_a_log_without_a_column_names_those_that_it_has(tmp_path: Path) -> None:
    rows = _rows()
    rows["clik"] = rows.pop("click")
    with pytest.raises(DataError, match=r"'click' or 'clicked' \(click\).*'clik'"):
        read_log(_write(tmp_path, rows))


def _event(action: str | None, document: str = "a", **fields: Any) -> dict[str, Any]:
    position = fields.pop("position", 0)
    event: dict[str, Any] = {
        "application": "shop",
        "query_id": "q1",
        "user_query": "shoes",
        "client_id": "u1",
        "timestamp": "2026-01-01T10:00:00Z",
        "event_attributes": {
            "object": {"object_id": document},
            "position": {"ordinal": position},
        },
    }
    if action is not None:
        event["action_name"] = action
    return event | fields


def _write_events(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "events.ndjson"
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return path


SHOWN = [
    _event("impression", "a"),
    _event("impression", "b", position=1),
    _event("impression", "b", position=2, query_id="q2", timestamp=1767261600000),
    _event("impression", "a", position=1, query_id="q2"),
    _event("click", "b", query_id="q2"),
    _event("click", "a", query_id="q2"),
]


def test_events_become_lists(tmp_path: Path) -> None:
    more = [
        _event("click", "a"),
        {"index": {"_index": "ubi_events"}},
        _event("click", "z"),
        _event("search", event_attributes=None),
        _event("impression", "a"),
        _event("click", event_attributes=None),
    ]
    shop = [event | {"application": "other"} for event in SHOWN[2:]]
    log = read_log(_write_events(tmp_path, *SHOWN[:2], *more, *shop))
    assert log.session_names[log.sessions].tolist() == ["q1", "q1", "q2", "q2"]
    assert log.positions.tolist() == [0, 1, 1, 0]
    assert log.clicks.tolist() == [1, 0, 1, 1]
    assert log.days is not None
    assert len(set(log.days.tolist())) == 1
    said = " ".join(log.notes)
    for left_out in ("1 repeated impressions", "1 clicks on", "1 events without"):
        assert left_out in said


@pytest.mark.parametrize("applications", [None, ["shop"]])
def test_events_have_application_and_user_of_their_query(
    tmp_path: Path, applications: list[str] | None
) -> None:
    queries = [
        _event(None, query_id=name, client_id=None, query_response_hit_ids=["b", "a"])
        for name in ("q1", "q2")
    ]
    events = [event | {"application": None} for event in SHOWN]
    more = [_event("impression", "c", query_id="q3", application=None)]
    path = _write_events(
        tmp_path, *queries, *events, *more * (applications is not None)
    )
    log = read_log(path, applications=applications, first_position=0)
    assert log.positions.tolist() == [0, 1, 2, 1]
    assert log.clicks.tolist() == [0, 0, 1, 1]
    assert log.user_names.tolist() == ["u1"]


def test_without_impressions_the_documents_returned_are_shown(tmp_path: Path) -> None:
    returned = [
        _event(None, query_id=name, query_response_hit_ids=["a", "b", "c"])
        for name in ("q1", "q2")
    ]
    clicked = [_event("click", document) for document in "cb"]
    log = read_log(_write_events(tmp_path, *returned, *clicked))
    assert log.positions.tolist() == [0, 1, 2, 0, 1, 2]
    assert log.clicks.tolist() == [0, 1, 1, 0, 0, 0]
    assert "may not have seen" in log.notes[-1]


@pytest.mark.parametrize(
    ("event", "named"),
    [
        ("{", ["events.ndjson:7", "JSON"]),
        (
            json.dumps(_event("click", timestamp="soon", query_id="q9")),
            [":7", "'soon'"],
        ),
    ],
)
def test_a_line_of_events_is_refused(
    tmp_path: Path, event: str, named: list[str]
) -> None:
    path = _write_events(tmp_path, *SHOWN)
    path.write_text(path.read_text() + event + "\n")
    with pytest.raises(DataError) as caught:
        read_log(path)
    for part in named:
        assert part in str(caught.value)


def test_columns_of_events_are_refused(tmp_path: Path) -> None:
    path = _write_events(tmp_path, *SHOWN)
    with pytest.raises(ConfigError, match=naming(path.name, "data.session=visit")):
        read_log(path, columns={"session": "visit", "user": None})


@pytest.mark.parametrize("kind", ["events", "table"])
def test_an_application_that_the_log_does_not_have_is_named_with_those_it_has(
    tmp_path: Path, kind: str
) -> None:
    path = _write_events(tmp_path, *SHOWN)
    if kind == "table":
        rows = _rows()
        rows["application"] = ["shop"] * len(rows["click"])
        path = _write(tmp_path, rows)
    named = naming(path.name, "data.applications=[Shop]", "are: shop")
    with pytest.raises(DataError, match=named):
        read_log(path, applications=["Shop"])


def test_the_sample_of_ubi_is_read_by_application(
    letor_data: Callable[[str], Path],
) -> None:
    path = letor_data("clicks") / "ubi_queries_events.ndjson"
    log = read_log(path, applications=["esci_ubi_sample"])
    assert (len(log), log.clicks.sum(), len(log.session_names)) == (1000, 60, 200)
    with pytest.raises(DataError, match=r"ndjson:\d+: session .* position '3'"):
        read_log(path)


def test_features_are_joined_by_document(tmp_path: Path) -> None:
    log = read_log(_write_events(tmp_path, *SHOWN), first_position=0)
    table = tmp_path / "products.csv"
    table.write_text("document,price\na,1\n")
    joined = with_features(log, table)
    assert joined.others["price"].fillna(-1).tolist() == [1, -1, -1, 1]
    assert "2 rows of the log have no features" in joined.notes[-1]
    table.write_text("document,price\na,1\na,2\n")
    with pytest.raises(DataError, match=r"products.csv:3: document 'a'"):
        with_features(log, table)


def test_features_are_joined_by_the_text_of_an_id(tmp_path: Path) -> None:
    documents = [1.0, 2.0, 3.0, 3.0, 2.0, 1.0]
    path = tmp_path / "log.parquet"
    pd.DataFrame(_rows(document=documents)).drop(columns="price").to_parquet(path)
    table = tmp_path / "products.csv"
    table.write_text("document,price\n 1,5\n2 ,6\n3,7\n")
    joined = with_features(read_log(path), table)
    assert joined.others["price"].tolist() == [5, 6, 7, 7, 6, 5]
    table.write_text("document,price\n1,5\n1 ,6\n")
    with pytest.raises(DataError, match=naming("products.csv:3", "document '1'")):
        with_features(read_log(path), table)
