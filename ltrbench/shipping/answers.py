"""Compares what a deployed engine answered with the expected scores in check_rows.json. n rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltrbench.errors import ResultError
from ltrbench.shipping.certificate.check_rows import CHECK_FORMAT
from ltrbench.shipping.folder import CHECK_FILE, read_shipped


@dataclass(frozen=True)
class ExpectedRow:
    """A row of check_rows.json.

    Attributes:
        rounding: largest difference that rounding can make.
    """

    id: str
    query: str | None
    score: float
    rounding: float


@dataclass(frozen=True)
class WrongAnswer:
    """A row with another score."""

    row: ExpectedRow
    answered: float


@dataclass(frozen=True)
class AnswerCheck:
    """Answered scores against expected scores.

    Attributes:
        num_rows: number of expected rows.
        missing: ids without an answer.
        unknown: answered ids that are no row.
        largest_difference: largest absolute difference.
        wrong: rows whose scores differ by more than rounding, the largest difference first.
        changed: queries whose order changed, each with the two rows, the first of which was higher.
    """

    num_rows: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    largest_difference: float
    wrong: tuple[WrongAnswer, ...]
    changed: Mapping[str, tuple[str, str]]

    def is_passed(self, tolerance: int = 0) -> bool:
        """Returns whether all rows were answered, and at most `tolerance` queries changed their order; with
        a tolerance of 0 also whether all scores are equal but for rounding."""
        if self.missing or len(self.changed) > tolerance:
            return False
        return tolerance > 0 or not self.wrong


def read_expected(folder: Path) -> list[ExpectedRow]:
    """Reads the expected rows of a shipped model.

    Raises:
        ResultError: check_rows.json is missing or damaged.
    """
    content = read_shipped(folder, CHECK_FILE)
    rows = content.get("rows")
    remedy = "Copy the folder again from its source, or ship the model again."
    if content.get("format") != CHECK_FORMAT or not isinstance(rows, list) or not rows:
        raise ResultError(
            f"{folder / CHECK_FILE} has no rows of format {CHECK_FORMAT}, which this version reads. {remedy}"
        )
    expected = []
    for number, row in enumerate(rows, start=1):
        if not _is_row(row):
            raise ResultError(
                f"{folder / CHECK_FILE}: row {number} lacks id, query, score or rounding. {remedy}"
            )
        expected.append(ExpectedRow(row["id"], row["query"], float(row["score"]), float(row["rounding"])))
    return expected


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("id"), str)
        and isinstance(row.get("query", 0), str | None)
        and all(
            isinstance(row.get(name), int | float) and not isinstance(row.get(name), bool)
            for name in ("score", "rounding")
        )
    )


def check_answers(expected: Sequence[ExpectedRow], answered: Mapping[str, float]) -> AnswerCheck:
    """Compares answered scores, by id, with the expected rows."""
    known = {row.id for row in expected}
    rows = [row for row in expected if row.id in answered]
    differences = {row.id: _difference(row.score, answered[row.id]) for row in rows}
    wrong = [WrongAnswer(row, answered[row.id]) for row in rows if differences[row.id] > row.rounding]
    return AnswerCheck(
        num_rows=len(expected),
        missing=tuple(row.id for row in expected if row.id not in answered),
        unknown=tuple(name for name in answered if name not in known),
        largest_difference=max(differences.values(), default=0.0),
        wrong=tuple(sorted(wrong, key=lambda answer: -differences[answer.row.id])),
        changed=_changed_orders(rows, answered),
    )


def _difference(expected: float, answered: float) -> float:
    difference = abs(answered - expected)
    return math.inf if math.isnan(difference) else difference


def _changed_orders(rows: Sequence[ExpectedRow], answered: Mapping[str, float]) -> dict[str, tuple[str, str]]:
    """Returns query -> the first pair whose expected scores differ by more than rounding, and whose answers
    are equal or in the other order."""
    changed: dict[str, tuple[str, str]] = {}
    for first in rows:
        for second in rows:
            if first.query is None or first.query != second.query or first.query in changed:
                continue
            is_ordered = first.score - second.score > first.rounding + second.rounding
            if is_ordered and not answered[first.id] > answered[second.id]:
                changed[first.query] = (first.id, second.id)
    return changed
