"""What a report is made of: sections of tables, figures, sentences, code.

The template shows each kind in one way. Texts are plain, and it escapes them: only what `svg.py` and the
leaderboard draw is markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from ltrbench.compare.output.report.numbers import NOTHING

BETTER, WORSE, CHANGED, STRONG = "better", "worse", "changed", "strong"
"""What a cell can stand out as; each is shown by more than its colour."""


NO_DRAWING = Markup()


@dataclass(frozen=True)
class Column:
    """A column's header, and what a reader has to know of it.

    Attributes:
        numeric: set to the right, in figures of one width.
        sortable: by a click on the header.
    """

    header: str
    hint: str = ""
    numeric: bool = True
    sortable: bool = True


@dataclass(frozen=True)
class Cell:
    """
    Attributes:
        text: what is read.
        key: what it is sorted by; None where there is nothing, which always comes last.
        note: a second, smaller line.
        emphasis: one of those above, or empty.
        drawing: stands before the text.
    """

    text: str = NOTHING
    key: float | str | None = None
    note: str = ""
    emphasis: str = ""
    drawing: Markup = NO_DRAWING


@dataclass(frozen=True)
class Table:
    """Rows begin with the cell that names them. `kind` is a class for the style sheet."""

    KIND: ClassVar[str] = "table"

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    kind: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing with the sentence that stands for it where it cannot be seen."""

    KIND: ClassVar[str] = "figure"

    drawing: Markup
    caption: str
    alternative: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as many as the page has room for."""

    KIND: ClassVar[str] = "figures"

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    KIND: ClassVar[str] = "prose"

    text: str


@dataclass(frozen=True)
class Bullets:
    KIND: ClassVar[str] = "bullets"

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Lines to be copied."""

    KIND: ClassVar[str] = "code"

    text: str


@dataclass(frozen=True)
class Folded:
    """Parts that are out of the way until they are asked for; on paper they are there."""

    KIND: ClassVar[str] = "folded"

    summary: str
    parts: Sequence[Table | Figures | Prose | Bullets | Code]


Part = Table | Figures | Prose | Bullets | Code | Folded


@dataclass(frozen=True)
class Section:
    """One question of the reader's.

    Attributes:
        name: of its anchor, such as "leaderboard".
        lead: what is shown, and how to read it.
    """

    name: str
    title: str
    lead: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Chapter:
    """The sections of a data set; or those about all data sets, or about the report itself.

    Attributes:
        name: of its anchor, unlike any other's.
        verdict: in one sentence; empty where there is none.
        next_step: what stands below it.
        facts: a few figures, name -> value.
    """

    name: str
    title: str
    verdict: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    next_step: Sequence[Part] = ()


def named(text: str, note: str = "", drawing: Markup = NO_DRAWING) -> Cell:
    """The cell that names its row."""
    return Cell(text, text, note, drawing=drawing)
