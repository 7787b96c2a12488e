"""The power of a pair: its minimum detectable difference, and the numbers that a named difference needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ltrbench.statistics import Design

QUERIES, REPEATS, SEEDS, RESAMPLES = "queries", "repeats", "seeds", "resamples"

MOST = {REPEATS: 10, SEEDS: 30, RESAMPLES: 20}
"""The largest numbers that a plan considers."""


@dataclass(frozen=True)
class Need:
    """The number of queries, repeats, seeds or resamples that detects a difference with 80 % power.

    Attributes:
        kind: "queries", "repeats" (of a cross-validation), "seeds" or "resamples" (of the training queries).
        present: The present number.
        low: The number from the estimated variances; None if no number is enough.
        high: The number from the upper limits of the variances (`Design.at_limit`); None if no number is.
        note: Why there is no number; empty if there may be one.
    """

    kind: str
    present: int
    low: int | None
    high: int | None
    note: str = ""

    def __str__(self) -> str:
        """Returns text such as "4 to 9 repeats", or the note.

        >>> print(Need(REPEATS, 1, 4, None), Need(QUERIES, 90, 400, None), sep=", ")
        4 to more than 10 repeats, 400 or more queries
        """
        if self.note:
            return self.note
        if self.kind == QUERIES and self.high is None:
            return f"{self.low:,} or more {self.kind}"
        ends = [
            f"{end:,}" if end else f"more than {MOST[self.kind]}"
            for end in (self.low, self.high)
        ]
        return f"{' to '.join(dict.fromkeys(ends))} {self.kind.removesuffix('s' * (ends == ['1', '1']))}"


class PlannedPair(NamedTuple):
    """What the plan of a pair depends on.

    Attributes:
        design: The present study, with the estimated variances.
        level: Level of the pair in a further look at its sweep.
        present_level: Level of the pair in this look.
    """

    design: Design
    level: float
    present_level: float


@dataclass(frozen=True)
class Power:
    """Power of a pair. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power) in the scope of the pair, at the level of the
            pair in its family; None if the error is not known, or if the metric cannot differ so much.
        detect: The difference named by the user.
        needs: For `detect`: the queries alone, with everything else unchanged; and the repeats, seeds or
            resamples of the cheapest study on these queries. Empty if none is named, the error is not known,
            or the pair is decided or lacks trainings.
        planned: None if the error is not known.
    """

    detectable: float | None = None
    detect: float | None = None
    needs: tuple[Need, ...] = ()
    planned: PlannedPair | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the present data detect the difference named by the user."""
        return any(
            need.high is not None and need.high <= need.present
            for need in self.needs[:1]
        )


def needs_of(power: Power) -> str:
    """Returns what detects the named difference, such as "4 to 9 repeats x 3 seeds or 2,300 queries"."""
    if power.is_enough:
        return "no more data"
    queries, *study = power.needs
    repeated = " x ".join(map(str, study))
    if queries.note:
        return f"{repeated} ({queries.note})" if repeated else queries.note
    return " or ".join(filter(None, [repeated, str(queries)]))
