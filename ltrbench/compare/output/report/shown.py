"""The comparison of one data set as the sections of the report need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from ltrbench.compare.analysis.slices import Slice
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.output.report.parts import Folded, PagePart
from ltrbench.compare.output.report.svg import css_colour
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots import Series
from ltrbench.plots.drawing.styles import styles_of
from ltrbench.statistics import BETTER, WORSE, Interval
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers
from ltrbench.tables.numbers import Form


@dataclass(frozen=True, eq=False)
class Shown:
    """A comparison for the sections of the report.

    Attributes:
        name: Anchor of the chapter, and prefix of the names of its figures.
        slices: Slices of the queries.
    """

    comparison: Comparison
    name: str
    slices: Sequence[Slice]

    @cached_property
    def rows(self) -> list[ModelRow]:
        """The rows, the best first; rows without a value last."""
        metric = self.comparison.metric

        def order(row: ModelRow) -> tuple[bool, float]:
            value = row.metrics[metric]
            return value is None, -(value or 0.0)

        return sorted(self.comparison.rows, key=order)

    @cached_property
    def series(self) -> list[Series]:
        """The rows for figures, in the order of the comparison, which determines colours and markers."""
        return series_of(self.comparison)

    @property
    def paired(self) -> list[str]:
        """Labels of the paired rows, the best first."""
        queries = self.comparison.queries
        return [] if queries is None else [row.label for row in self.rows if row.label in queries.labels]

    @property
    def with_baseline(self) -> list[Pair]:
        """The pairs with the baseline, in the order of the leaderboard."""
        return [row.to_baseline for row in self.rows if row.to_baseline is not None]

    @property
    def without_baseline(self) -> list[Pair]:
        """The other pairs of the family."""
        baseline = self.comparison.baseline
        return [pair for pair in self.comparison.family if baseline not in (pair.a, pair.b)]

    def of_row(self, label: str, note: str = "") -> TableCell:
        """Returns the cell with the label of a row and its colour."""
        return TableCell(label, note=note, drawing=self._swatches[label])

    @cached_property
    def _swatches(self) -> dict[str, Markup]:
        drawing = Markup('<i class="swatch" style="background: {}"></i>')
        return {
            item.label: drawing.format(css_colour(style.colour))
            for item, style in zip(self.series, styles_of(self.series), strict=True)
        }


def series_of(comparison: Comparison) -> list[Series]:
    """Returns the rows for figures."""
    try:
        ndcg = comparison.ndcg_by_cutoff
    except (UndefinedMetricError, DataError):  # the section "NDCG@k" shows the error
        ndcg = {}
    return [
        Series(
            label=row.label,
            model=row.runs[0].result.model,
            runs=row.runs,
            value=row.metrics[comparison.metric],
            ndcg=tuple(value for value in ndcg.get(row.label, []) if value is not None),
        )
        for row in comparison.rows
    ]


def emphasis_of(pair: Pair) -> str:
    """Returns the emphasis of the claims better and worse; empty for other claims."""
    return pair.claim if pair.claim in (BETTER, WORSE) else ""


def pair_tables(
    shown: Shown,
    caption: str,
    columns: Sequence[TableColumn],
    cells: Callable[[Pair], TableRow],
) -> list[PagePart]:
    """Returns one row per pair: those with the baseline in the order of the leaderboard, others folded."""
    first, rest = shown.with_baseline, shown.without_baseline
    tables = [Table(columns, [cells(pair) for pair in pairs], caption) for pairs in (first, rest) if pairs]
    if len(tables) < 2:
        return [*tables]
    baseline = shown.comparison.baseline
    return [tables[0], Folded(f"The {len(rest)} pairs without {baseline}", tables[1:])]


def all_folds(num_test_sets: int) -> str:
    """Returns the remark that all folds are counted together; empty with one test set.

    >>> all_folds(5), all_folds(1)
    (', all folds together', '')
    """
    return ", all folds together" if num_test_sets > 1 else ""


def between(interval: Interval | None, form: Form = numbers.difference) -> str:
    """Returns an interval in brackets; empty for None."""
    return "" if interval is None else numbers.interval(interval.low, interval.high, form)
