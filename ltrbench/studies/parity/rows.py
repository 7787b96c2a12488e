"""The rows of the table: each one a claim that can fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ltrbench.markdown import markdown_table

NOT_AT_HAND = "not at hand"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim.

    Attributes:
        what: what of ours is held against theirs.
        on: the data.
        against: whose, with the version.
        tolerance: the largest difference that counts as agreement.
        reason: why it is not zero.
        difference: what was measured; None where what it needs is not there.
        detail: what else was seen, or what is not there.
    """

    what: str
    on: str
    against: str
    tolerance: float
    reason: str
    difference: float | None
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return NOT_AT_HAND
        return "agrees" if self.difference <= self.tolerance else "**departs**"


def render(rows: Iterable[Row]) -> str:
    """The rows as a table in Markdown.

    >>> row = Row(what="lambdas", on="12 queries", against="pyltr 0.2.6", tolerance=1e-9, reason="rounding",
    ...     difference=2e-12)
    >>> print(render([row]).splitlines()[-1])
    | lambdas | 12 queries | pyltr 0.2.6 |     1e-09 |      2e-12 | agrees |         | rounding           |
    """
    header = ["What", "On", "Against", "Tolerance", "Difference", "", "Besides", "Why this tolerance"]
    return markdown_table(header, [_cells(row) for row in rows], texts=(0, 1, 2, 5, 6, 7))


def _cells(row: Row) -> list[str]:
    measured = "" if row.difference is None else f"{row.difference:.2g}"
    claim = [row.what, row.on, row.against, f"{row.tolerance:g}", measured]
    return [*claim, row.verdict, row.detail, row.reason]
