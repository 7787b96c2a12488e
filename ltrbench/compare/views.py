"""Views of a comparison: tables, figures and prose, independent of the format of an output.

A section of the report is a function from `Shown` to a `Section` of views (`ltrbench.compare.sections`). It
is rendered as text and as Markdown by `section_text`, and as HTML by `ltrbench.compare.report`; a `Table`
also has LaTeX, CSV and records for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ltrbench.compare.cells import Note
from ltrbench.compare.comparison import Pair
from ltrbench.compare.groups import Slice
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots import Page, Series, colour_of
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, paragraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from ltrbench.compare.comparison import Comparison, ModelRow

PAGE = Page(width=5.0, titled=False)
"""Figure width in inches at which 8-point text is readable on a phone."""
WIDE_PAGE = Page(width=7.0, titled=False)
"""For figures with several panels, which scroll on a phone."""


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption; the label of the drawing is the alternative text.

    Attributes:
        draw: Draws it for another page.
        file: Name of the PNG file in the folder of a comparison; empty if there is none.
    """

    drawing: Drawing
    caption: str
    draw: Callable[[Page], Drawing | None]
    file: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as many as fit on the page."""

    figures: Sequence[Figure]


def drawn(
    draw: Callable[[Page], Drawing | None], caption: str, file: str = "", page: Page = PAGE
) -> list[Figure]:
    """Returns the figure for a page of the report; empty if there is nothing to draw."""
    drawing = draw(page)
    return [] if drawing is None else [Figure(drawing, caption, draw, file)]


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class GroupedNotes:
    """Notes of one group, each with a link to its entry in the glossary."""

    group: str
    notes: Sequence[Note]


@dataclass(frozen=True)
class Definitions:
    """Entries of the glossary, term -> text."""

    entries: Mapping[str, str]


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Parts that the report shows after a click and on paper; text leaves them out."""

    summary: str
    parts: Sequence[Table | Figures | Prose | Bullets | GroupedNotes | Definitions | Code]


View = Table | Figures | Prose | Bullets | GroupedNotes | Definitions | Code | Folded


@dataclass(frozen=True)
class Section:
    """One question of the reader.

    Attributes:
        name: Name of its anchor, such as "leaderboard".
        lead: Content of the section and how to read it.
        terms: Entries of the glossary that are linked below the lead.
    """

    name: str
    title: str
    lead: str
    parts: Sequence[View]
    terms: Sequence[str] = ()


@dataclass(frozen=True)
class Chapter:
    """The sections of a data set, of all data sets together, or about the report itself.

    Attributes:
        name: Name of its anchor, unique in the page.
        answer: Paragraphs at the top: models to take, certainty, claims.
        next_step: Parts below the first paragraph.
        facts: A few numbers, name -> value.
        terms: Entries of the glossary that are linked below the answer.
    """

    name: str
    title: str
    sections: Sequence[Section]
    answer: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    next_step: Sequence[View] = ()
    terms: Sequence[str] = ()


def section_text(section: Section, width: int | None) -> str:
    """Returns the title, the lead, the tables and the paragraphs of a section, without figures.

    Args:
        width: Width of the terminal in columns; None for Markdown with long lines.
    """
    title = paragraph(section.title, width)
    texts = [title if width is not None else f"### {title}", paragraph(section.lead, width)]
    for part in section.parts:
        match part:
            case Table():
                texts += [paragraph(part.caption, width), part.markdown(width)]
            case Prose(text):
                texts.append(paragraph(text, width))
    return "\n\n".join(filter(None, texts))


@dataclass(frozen=True, eq=False)
class Shown:
    """A comparison for its sections, with slices of its queries."""

    comparison: Comparison
    slices: Sequence[Slice] = ()

    @cached_property
    def rows(self) -> list[ModelRow]:
        """The rows, the best first; rows without a value last."""
        metric = self.comparison.metric

        def order(row: ModelRow) -> tuple[bool, float]:
            value = row.metrics[metric]
            return value is None, -(value or 0.0)

        return sorted(self.comparison.rows, key=order)

    @property
    def models(self) -> list[ModelRow]:
        """The rows without yardsticks, the best first; yardsticks if there is nothing else."""
        return [row for row in self.rows if _model_of(row) not in YARDSTICKS] or self.rows

    @property
    def yardsticks(self) -> list[ModelRow]:
        """The other rows, the best first."""
        return [row for row in self.rows if row not in self.models]

    @cached_property
    def series(self) -> list[Series]:
        """The models for figures, in the order of the comparison; the scale of a yardstick would hide their
        differences."""
        try:
            ndcg = self.comparison.ndcg_by_cutoff
        except (UndefinedMetricError, DataError):  # the section "NDCG@k" shows the error
            ndcg = {}
        return [
            Series(
                label=row.label,
                model=_model_of(row),
                runs=row.runs,
                value=row.metrics[self.comparison.metric],
                ndcg=tuple(value for value in ndcg.get(row.label, []) if value is not None),
            )
            for row in self.comparison.rows
            if row in self.models
        ]

    @property
    def paired(self) -> list[str]:
        """Labels of the paired rows, the best first."""
        queries = self.comparison.queries
        return [] if queries is None else [row.label for row in self.rows if row.label in queries.labels]

    def cell_of(self, label: str, note: str = "") -> TableCell:
        """Returns the cell with the label of a row and its colour."""
        return TableCell(label, note=note, colour=colour_of(_model_of(self.comparison.row(label))))

    def pair_tables(
        self, caption: str, columns: Sequence[TableColumn], cells: Callable[[Pair], TableRow]
    ) -> list[View]:
        """Returns one row per pair: those with the baseline first, others folded."""
        baseline = self.comparison.baseline
        first = [row.to_baseline for row in self.rows if row.to_baseline is not None]
        rest = [pair for pair in self.comparison.family if baseline not in (pair.a, pair.b)]
        tables = [Table(columns, [cells(pair) for pair in some], caption) for some in (first, rest) if some]
        if len(tables) < 2:
            return [*tables]
        return [tables[0], Folded(f"Pairs without {baseline}: {len(rest)}", tables[1:])]

    @property
    def all_folds(self) -> str:
        """The remark that all folds are counted together; empty with one test set."""
        cells = {item.cell for row in self.comparison.rows for item in row.evaluated}
        return ", all folds together" if len(cells) > 1 else ""


def _model_of(row: ModelRow) -> str:
    return row.runs[0].result.model
