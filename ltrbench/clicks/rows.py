"""Unchecked rows of a log, from a table or from events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Rows:
    """Unchecked columns of a log, before `checked`.

    Attributes:
        frame: columns named by their roles; texts, or numbers for `NUMBERS`.
        others: columns without a role.
    """

    frame: pd.DataFrame
    others: pd.DataFrame
    location: Callable[[int], str]
    notes: tuple[str, ...] = ()

    def check(self, is_valid: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Raises DataError for the first row that is not valid, with its place."""
        if not is_valid.all():
            row = int(is_valid.argmin())
            raise DataError(f"{self.location(row)}: {message(row)}")

    def shown(self, role: str, row: int) -> str:
        """Returns a cell as it is shown in messages."""
        text = str(self.frame[role].iloc[row])
        return repr(text[:_LONGEST_SHOWN])

    def texts(self, role: str) -> pd.Series[str]:
        """Returns the texts of a column, empty for a missing one: Parquet has nulls."""
        cells = self.frame[role]
        return cells.astype(str).where(cells.notna(), "").str.strip()

    def words(self, role: str) -> pd.Series[str]:
        """Returns the texts of a column in lower case."""
        return self.texts(role).str.lower()
