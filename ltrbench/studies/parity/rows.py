"""Rows of the table: each is a comparison that can fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ltrbench.tables import Table, TableColumn, TableRow

NOT_AVAILABLE = "not available"


@dataclass(frozen=True, kw_only=True)
class ParityRow:
    """A comparison with a library.

    Attributes:
        what: compared result.
        on: data.
        against: library, with its version.
        tolerance: largest difference that counts as agreement.
        reason: reason for the tolerance.
        difference: measured difference; None if data or a golden file are not available.
        detail: further figures, or the reason why the difference is not available.
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
            return NOT_AVAILABLE
        return "agrees" if self.difference <= self.tolerance else "**differs**"


def parity_table(rows: Iterable[ParityRow]) -> str:
    """Returns the rows as a Markdown table.

    >>> row = ParityRow(what="lambdas", on="12 queries", against="pyltr 0.2.6", tolerance=1e-9,
    ...     reason="rounding", difference=2e-12)
    >>> [cell.strip() for cell in parity_table([row]).splitlines()[-1].split("|")[4:7]]
    ['1e-09', '2e-12', 'agrees']
    """
    columns = [
        *(TableColumn(header, left=True) for header in ("Result", "Data", "Reference")),
        TableColumn("Tolerance", "g"),
        TableColumn("Difference"),
        *(TableColumn(header, left=True) for header in ("Verdict", "Details", "Reason for the tolerance")),
    ]
    return Table(columns, [_cells(row) for row in rows]).markdown()


def _cells(row: ParityRow) -> TableRow:
    # Infinite if the trees have different shapes, which is a valid result.
    difference = "" if row.difference is None else f"{row.difference:.2g}"
    names = (row.what, row.on, row.against)
    return [*names, row.tolerance, difference, row.verdict, row.detail, row.reason]
