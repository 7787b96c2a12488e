"""Views of a comparison: tables, figures and prose, independent of the format of an output.

A section of the report is a function from `Shown` to a `Section` of views. `section_text` and `as_text`
render it as text and as Markdown, `ltrbench.compare.report` as HTML; a `Table` also has LaTeX, CSV and
records for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import Slice
from ltrbench.compare.remarks import Note
from ltrbench.compare.table import ModelRow
from ltrbench.plots import Page, Series, colour_of
from ltrbench.tables import Table, TableCell, anchor, paragraph
from ltrbench.untrusted import prose_in_markdown, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAGE = Page(width=5.0, titled=False)
"""Figure width in inches at which 8-point text is readable on a phone."""
WIDE_PAGE = Page(width=7.0, titled=False)
"""For figures with several panels, which scroll on a phone."""


class Picture(StrEnum):
    """Files of the pictures in the folder of a comparison."""

    DIFFERENCES = "differences.png"
    LEARNING_CURVES = "learning_curves.png"
    IMPORTANCES = "importances.png"
    TIME = "time_against_ndcg.png"
    SEARCH = "search.png"
    SETTING_IMPORTANCES = "setting_importances.png"
    EXAMINATION = "examination.png"


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
    draw: Callable[[Page], Drawing | None],
    caption: str,
    file: str = "",
    page: Page = PAGE,
) -> list[Figure]:
    """Returns the figure for a page of the report; empty if there is nothing to draw."""
    drawing = draw(page)
    if drawing is None:
        return []
    return [Figure(drawing, caption, draw, file)]


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
    parts: Sequence[View]


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

    @property
    def figures(self) -> list[Figure]:
        return [
            figure
            for view in self.parts
            if isinstance(view, Figures)
            for figure in view.figures
        ]


@dataclass(frozen=True)
class Chapter:
    """The sections of a data set, of all data sets together, or about the report itself.

    Attributes:
        name: Name of its anchor, unique in the page.
        headline: The answer in one or two short sentences, in large type.
        answer: Paragraphs below the headline.
        next_step: Parts below them.
        facts: A few numbers, name -> value.
        terms: Entries of the glossary that are linked below the answer.
    """

    name: str
    title: str
    sections: Sequence[Section]
    headline: str = ""
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
    heading = title if width is not None else f"### {title}"
    parts = [as_text(part, width) for part in section.parts]
    return joined([heading, paragraph(section.lead, width), *parts])


def joined(texts: Iterable[str]) -> str:
    """Returns the texts that are not empty, with an empty line between them."""
    return "\n\n".join(filter(None, texts))


def as_text(view: View, width: int | None, glossary_file: str | None = None) -> str:
    """Returns a view as text; empty for figures, lists, and what the report folds.

    Args:
        width: As for `section_text`.
        glossary_file: File that notes link to. Without it, their heading lists their terms, for the command
            `glossary`.
    """
    match view:
        case Table():
            return joined([paragraph(view.caption, width), view.markdown(width)])
        case Prose(text):
            return paragraph(text, width)
        case Code(text):
            # Viewers without code blocks would interpret markup. Four spaces make a code block.
            is_block = width is None and "<" in text
            return f"    {prose_in_markdown(text) if is_block else visible(text)}"
        case GroupedNotes(group, notes):
            heading = group if width is not None else f"**{group}**"
            if glossary_file is None:
                terms = dict.fromkeys(note.term for note in notes)
                heading += f" (glossary: {', '.join(terms)})"
            # After `paragraph`, which shows the brackets of a link in a name as text.
            lines = []
            for note in notes:
                line = paragraph(f"- {note}", width, "  ")
                if glossary_file:
                    line += f" ({link_to(note.term, glossary_file)})"
                lines.append(line)
            return joined([paragraph(heading, width), "\n".join(lines)])
    return ""


def link_to(term: str, glossary_file: str) -> str:
    """Returns a link in Markdown to a term of the glossary."""
    return f"[{term}]({glossary_file}#{anchor(term)})"


@dataclass(frozen=True, eq=False)
class Shown:
    """A comparison for its sections.

    Attributes:
        added_slices: Slices of the report by attributes that were not requested.
    """

    comparison: Comparison
    added_slices: Sequence[Slice] = ()

    @property
    def slices(self) -> list[Slice]:
        """All slices, the requested ones first."""
        return [*self.comparison.slices, *self.added_slices]

    @cached_property
    def rows(self) -> list[ModelRow]:
        """The rows, the best first; rows without a value last."""
        return self.comparison.ranked

    @cached_property
    def series(self) -> list[Series]:
        """The models for figures, in the order of the comparison; the scale of a yardstick would hide their
        differences."""
        rows = self.comparison.rows
        metric = self.comparison.metric
        series = []
        others = [row for row in rows if not row.is_yardstick]
        for row in others or rows:
            of_row = Series(
                label=row.label,
                model=row.model,
                runs=row.runs,
                value=row.metrics[metric],
            )
            series.append(of_row)
        return series

    @property
    def paired(self) -> list[str]:
        """Labels of the paired rows, the best first."""
        queries = self.comparison.queries
        if queries is None:
            return []
        return [row.label for row in self.rows if row.label in queries.labels]

    def cell_of(self, label: str, note: str = "") -> TableCell:
        """Returns the cell with the label of a row and its colour."""
        return TableCell(
            label, note=note, colour=colour_of(self.comparison.row(label).model)
        )

    @property
    def all_folds(self) -> str:
        """The remark that all folds are counted together; empty with one test set."""
        cells = {item.cell for row in self.comparison.rows for item in row.evaluated}
        return ", all folds together" if len(cells) > 1 else ""
