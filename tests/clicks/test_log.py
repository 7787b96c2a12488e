"""Logs: what is read, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ltrbench.clicks.log import compared_sessions, read_log
from ltrbench.errors import DataError


def _rows(**columns: Any) -> dict[str, list[Any]]:
    """Two lists of three documents of one query; the first document of the second list is clicked."""
    rows: dict[str, list[Any]] = {
        "session": ["s1", "s1", "s1", "s2", "s2", "s2"],
        "query": ["shoes"] * 6,
        "document": ["a", "b", "c", "c", "b", "a"],
        "position": [0, 1, 2, 0, 1, 2],
        "click": [0, 0, 0, 1, 0, 0],
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
    assert log.clicks.tolist() == [0, 0, 0, 1, 0, 0]
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


def test_only_days_with_several_rankers_say_how_positions_are_examined(
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


REFUSED: dict[str, tuple[dict[str, Any], int, list[str]]] = {
    "two documents at a position": ({"position": [0, 1, 1, 0, 1, 2]}, 4, ["'1'"]),
    "click on what was not shown": ({"position": [0, 1, 2, None, 0, 1]}, 5, ["click"]),
    "a base that cannot be told": ({"position": [3, 4, 5, 3, 4, 5]}, 2, ["3 and"]),
    "two bases": ({"position": [0, 1, 2, 1, 2, 3]}, 5, ["50 %", "first_position"]),
    "a high position": ({"position": [0, 1, 1500, 0, 1, 2]}, 4, ["1500", "1000"]),
    "a text as position": ({"position": ["top", 1, 2, 0, 1, 2]}, 2, ["'top'"]),
    "a click that is a count": ({"click": [0, 0, 2, 1, 0, 0]}, 4, ["click is 2"]),
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
    "no click": ({"click": [0] * 6}, 2, ["no click"]),
    "no position": ({"position": [None] * 6, "click": [0] * 6}, 2, ["position"]),
    "times of two kinds": (
        {"time": [1767225600, *["2026-01-01"] * 5]},
        2,
        ["'1767225600'", "'2026-01-01'"],
    ),
    "no time": ({"time": ["2026-01-01"] * 3 + ["soon"] * 3}, 5, ["'soon'"]),
    "no truth value": ({"randomised": ["perhaps"] * 6}, 2, ["'perhaps'"]),
}


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
