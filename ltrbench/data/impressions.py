"""Impressions: how often each document of a data set was shown and clicked at each position.

The source of click logs makes them, the run keeps them beside the judgments, and `ltrbench.clicks` estimates
from them. I impressions are alike if document, position, ranker and the other columns are the same: they are
one row, with counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data.features import read_only
from ltrbench.errors import DataError

UNKNOWN = -1
"""`Impressions.rankers` of a list whose ranker is not known."""
QUERY_TEXT = "query"
"""Kept column of the query of a document, if each session is a list."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Impressions:
    """I rows of impressions of the documents of Q queries, in ascending order of `rows`, at K positions.

    Attributes:
        rows: (I,), row of the document in the data set.
        positions: (I,), position at which it was shown, from 0.
        shown: (I,), number of times it was shown there.
        clicks: (I,), number of times it was clicked there.
        units: (I,), number of the query and the document; rows of several lists can be one unit.
        rankers: (I,), number of the ranker that made the list; `UNKNOWN`: not known.
        is_randomised: (I,), whether the order of the list was shuffled.
        is_compared: (I,), whether the ranker was in use together with others, so that a document moved for
            another reason than its attraction.
        propensities: (I,), probability of examination, by which clicks are divided; NaN: not known.
        theta: (K,), examination of each position, relative to the first one; 0: nothing was shown there; NaN:
            not known.
        influence: (Q, K), error of log theta that each query stands for, which sums to about 0 over queries;
            see `ltrbench.clicks.propensities.influence_of_split`.
        method: (1,), the estimator of theta; empty: not estimated.
    """

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    shown: NDArray[np.float64]
    clicks: NDArray[np.float64]
    units: NDArray[np.int64]
    rankers: NDArray[np.int64]
    is_randomised: NDArray[np.bool_]
    is_compared: NDArray[np.bool_]
    propensities: NDArray[np.float64]
    theta: NDArray[np.float64]
    influence: NDArray[np.float64]
    method: NDArray[np.str_]

    def __post_init__(self) -> None:
        """Raises DataError if the columns do not fit together, or rows are not in order."""
        sizes = {len(values) for values in self.columns.values()}
        if len(sizes) != 1 or self.method.shape != (1,):
            raise DataError(f"impressions: the columns have {sorted(sizes)} rows.")
        if self.influence.shape[1:] != self.theta.shape:
            raise DataError(
                f"impressions: influence has the shape {self.influence.shape}, and theta {self.theta.shape}."
            )
        if len(self) and self.positions.max() >= len(self.theta):
            raise DataError(
                f"impressions: position {self.positions.max()} has no examination."
            )
        steps = np.diff(self.rows, prepend=0)
        if (steps < 0).any():
            raise DataError("impressions: the rows are not in ascending order.")
        # All metrics of clicks read them.
        for name, values in vars(self).items():
            object.__setattr__(self, name, read_only(values))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The fields with one value for each row, by name."""
        columns = dict(vars(self))
        for name in ("theta", "influence", "method"):
            del columns[name]
        return columns

    @property
    def num_positions(self) -> int:
        return len(self.theta)

    def take(self, rows: NDArray[np.int64], queries: NDArray[np.int64]) -> Impressions:
        """Returns the impressions of a subset of the queries, whose documents are numbered anew.

        Args:
            rows: (D,), rows of the documents in the order of the subset; a row may be repeated.
            queries: their queries, in the same order.
        """
        starts = np.searchsorted(self.rows, rows, side="left")
        sizes = np.searchsorted(self.rows, rows, side="right") - starts
        firsts = np.cumsum(sizes) - sizes
        within = np.arange(sizes.sum()) - np.repeat(firsts, sizes)
        chosen = np.repeat(starts, sizes) + within
        columns = {name: of[chosen] for name, of in self.columns.items()}
        columns["rows"] = np.repeat(np.arange(len(rows)), sizes)
        return replace(self, **columns, influence=self.influence[queries])


def appended(parts: Sequence[Impressions], num_rows: Sequence[int]) -> Impressions:
    """Returns the impressions of data sets that follow each other, with the same examination.

    Args:
        num_rows: number of documents of each data set.
    """
    num_units = [_after_last(part.units) for part in parts]
    first_rows = np.cumsum([0, *num_rows])
    first_units = np.cumsum([0, *num_units])
    columns: dict[str, list[NDArray[Any]]] = {}
    for number, part in enumerate(parts):
        rows = part.rows + first_rows[number]
        units = part.units + first_units[number]
        shifted = replace(part, rows=rows, units=units)
        for name, values in shifted.columns.items():
            columns.setdefault(name, []).append(values)
    joined = {name: np.concatenate(values) for name, values in columns.items()}
    influence = np.concatenate([part.influence for part in parts])
    return replace(parts[0], **joined, influence=influence)


def _after_last(numbers: NDArray[np.int64]) -> int:
    return int(numbers.max(initial=-1)) + 1


def impressions_of(arrays: dict[str, ArrayLike]) -> Impressions:
    """Returns impressions from arrays in a file.

    Raises:
        DataError: A column is missing, or the columns do not fit together.
    """
    columns = {name: np.asarray(of) for name, of in arrays.items()}
    try:
        return Impressions(**columns)
    except TypeError as error:
        reason = str(error).removeprefix("Impressions.__init__() ")
        raise DataError(f"impressions: {reason}") from None
