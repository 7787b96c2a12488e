"""The rows of the table: each one a claim that can fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ltrbench.tables import Table, TableColumn, TableRow

NOT_AT_HAND = "not at hand"


@dataclass(frozen=True, kw_only=True)
class ParityRow:
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


def parity_table(rows: Iterable[ParityRow]) -> str:
    """Returns the rows as a table in Markdown.

    >>> row = ParityRow(what="lambdas", on="12 queries", against="pyltr 0.2.6", tolerance=1e-9,
    ...     reason="rounding", difference=2e-12)
    >>> print(parity_table([row]).splitlines()[-1])
    | lambdas | 12 queries | pyltr 0.2.6 |     1e-09 |      2e-12 | agrees |         | rounding           |
    """
    columns = [
        *(TableColumn(header, left=True) for header in ("What", "On", "Against")),
        TableColumn("Tolerance", "g"),
        TableColumn("Difference"),
        *(TableColumn(header, left=True) for header in ("", "Besides", "Why this tolerance")),
    ]
    return Table(columns, [_cells(row) for row in rows]).markdown()


def _cells(row: ParityRow) -> TableRow:
    # Infinite where trees differ in shape, which is a result too.
    difference = "" if row.difference is None else f"{row.difference:.2g}"
    names = (row.what, row.on, row.against)
    return [*names, row.tolerance, difference, row.verdict, row.detail, row.reason]
