"""Unchecked rows of a log, from a table or from events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import OF_FLOATS, cell_text, is_exact
from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Codes = NDArray[np.int64]
"""(n,), number of the text of each row, from 0 in the order of their first rows."""

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

    def coded(self, role: str) -> tuple[Codes, NDArray[np.str_]]:
        """Returns the codes and the texts of a column of ids.

        Raises:
            DataError: A cell is empty, or a float that may stand for several ids.
        """
        import pandas as pd

        cells = self.frame[role]
        numbers, distinct = pd.factorize(cells)
        values = distinct.tolist()
        texts = [cell_text(value).strip() for value in values]
        are_given = [text != "" for text in texts]
        # For the number -1, a missing value.
        are_given.append(False)
        self.check(
            np.array(are_given)[numbers],
            lambda row: f"the {role} is empty; every row needs one.",
        )
        are_exact = [is_exact(value, cells.dtype) for value in values]
        self.check(
            np.array(are_exact)[numbers],
            lambda row: f"the {role} is {self.shown(role, row)}; {OF_FLOATS}.",
        )
        # Two cells can have one text, as 7 and "7 ".
        of_rows = pd.Index(texts, dtype=object)[numbers]
        codes, names = of_rows.factorize()
        return codes.astype(np.int64), np.array(names, dtype=np.str_)
