"""Parts of the report: chapters, sections, tables, figures, paragraphs, lists, code.

The template has a macro for each class of parts, named after the class. It escapes all texts; only the
drawings of `svg.py` and of the leaderboard are markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ltrbench.compare.notes import Note
from ltrbench.tables import Table


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption and its alternative text."""

    drawing: Markup
    caption: str
    alternative: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as many as fit on the page."""

    figures: Sequence[Figure]


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
    """Parts that are hidden until the summary is clicked; printed on paper."""

    summary: str
    parts: Sequence[Table | Figures | Prose | Bullets | GroupedNotes | Definitions | Code]


PagePart = Table | Figures | Prose | Bullets | GroupedNotes | Definitions | Code | Folded


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
    parts: Sequence[PagePart]
    terms: Sequence[str] = ()


@dataclass(frozen=True)
class Chapter:
    """The sections of a data set, of all data sets together, or about the report itself.

    Attributes:
        name: Name of its anchor, unique in the page.
        answer: Paragraphs at the top: models to take, certainty, claims; empty for other chapters.
        next_step: Parts below the answer.
        facts: A few numbers, name -> value.
        terms: Entries of the glossary that are linked below the answer.
    """

    name: str
    title: str
    answer: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    next_step: Sequence[PagePart] = ()
    terms: Sequence[str] = ()
