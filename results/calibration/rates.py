"""Rates of events in independent draws, with upper bounds of their probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from ltrbench.shapes import PerQuery
from ltrbench.statistics import Interval, PairedSample
from ltrbench.statistics.paired import student_intervals
from ltrbench.statistics.repeated import ReplicateValues
from ltrbench.tables import Table, TableColumn, TableRow, share

CONFIDENCE_OF_BOUND = 0.95

RateRow = dict[
    str, object
]  # column -> cell: a rate, a share as a float, or a property of the draws
Tables = dict[str, Sequence[RateRow]]  # title -> rows, all with the same columns


@dataclass(frozen=True)
class Rate:
    """Number of draws with an event, and number of independent draws."""

    count: int
    num_draws: int

    @property
    def share(self) -> float:
        return self.count / self.num_draws

    @property
    def upper(self) -> float:
        """Returns the one-sided 95 % upper bound of the probability (Clopper and Pearson, 1934)."""
        if self.count == self.num_draws:
            return 1.0
        num_without = self.num_draws - self.count
        return float(betaincinv(self.count + 1, num_without, CONFIDENCE_OF_BOUND))

    @property
    def lower(self) -> float:
        """Returns the one-sided 95 % lower bound of the probability (Clopper and Pearson, 1934)."""
        if self.count == 0:
            return 0.0
        num_without = self.num_draws - self.count
        return float(betaincinv(self.count, num_without + 1, 1 - CONFIDENCE_OF_BOUND))

    def record(self) -> dict[str, float]:
        return {
            "count": self.count,
            "draws": self.num_draws,
            "rate": self.share,
            "upper": self.upper,
        }


def rates(draws: Iterable[Mapping[str, bool]]) -> dict[str, Rate]:
    """Returns event -> rate; each draw maps the same events to whether they happened."""
    counts: Counter[str] = Counter()
    num_draws = 0
    for draw in draws:
        num_draws += 1
        counts.update({name: int(happened) for name, happened in draw.items()})
    return {name: Rate(count, num_draws) for name, count in counts.items()}


def over_queries(a: ReplicateValues, b: ReplicateValues) -> Interval:
    """Returns Student's interval over queries of the difference of two means over trainings, (R, Q) each.

    This is the interval of trained models: the variation of training is ignored.
    """
    difference = a.mean(axis=0) - b.mean(axis=0)
    (interval,) = student_intervals(PairedSample.of(difference))
    return interval


def equal_shares(num_queries: int) -> PerQuery:
    """Returns (Q,) equal shares."""
    return np.full(num_queries, 1 / num_queries)


def recorded(tables: Tables) -> dict[str, list[dict[str, object]]]:
    """Returns the tables as JSON values: count, draws, rate and upper bound of each rate."""
    return {title: list(map(_record, rows)) for title, rows in tables.items()}


def _record(row: RateRow) -> dict[str, object]:
    return {
        name: cell.record() if isinstance(cell, Rate) else cell
        for name, cell in row.items()
    }


def rendered(tables: Tables, *, bounds: bool = False) -> str:
    """Returns the tables in Markdown, with shares in per cent.

    Args:
        bounds: whether rates are shown with their upper bounds.
    """
    return "\n\n".join(
        f"## {title}\n\n{_table(rows, bounds)}" for title, rows in tables.items()
    )


def _table(rows: Sequence[RateRow], bounds: bool) -> str:
    columns = [
        TableColumn(name, left=place == 0 or isinstance(cell, str))
        for place, (name, cell) in enumerate(rows[0].items())
    ]
    return Table(columns, [_texts(row, bounds) for row in rows]).markdown()


def _texts(row: RateRow, bounds: bool) -> TableRow:
    return [_text(cell, bounds) for cell in row.values()]


def _text(cell: object, bounds: bool) -> str:
    if isinstance(cell, float):
        return share(cell)
    if not isinstance(cell, Rate):
        return str(cell)
    if bounds:
        return f"{share(cell.share)} (at most {share(cell.upper)})"
    return share(cell.share)
