"""The members of a fit: the processes that fit one model together, each with a part of the training queries.

A fit in one process has one member, `ALONE`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Team(Protocol):
    """What one member exchanges with the others; every member must make the same calls in the same order.

    Attributes:
        rank: number of this member, from 0.
        size: number of members.
    """

    rank: int
    size: int

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the elementwise sum over all members."""

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the elementwise maximum over all members."""

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the one-dimensional arrays of all members by rank; their lengths may differ."""


class Alone:
    """The only member of a fit in one process: a `Team`."""

    rank = 0
    size = 1

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        return [values]


ALONE = Alone()
