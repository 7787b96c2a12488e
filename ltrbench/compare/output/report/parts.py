"""What a report is made of: sections of tables, figures, sentences, code.

The template has a macro for each class of parts, of the same name. Texts are plain, and it escapes them: only
what `svg.py` and the leaderboard draw is markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ltrbench.tables import Table


@dataclass(frozen=True)
class Figure:
    """A drawing with the sentence that stands for it where it cannot be seen."""

    drawing: Markup
    caption: str
    alternative: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as many as the page has room for."""

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
class Code:
    """Lines to be copied."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Parts that are out of the way until they are asked for; on paper they are there."""

    summary: str
    parts: Sequence[Table | Figures | Prose | Bullets | Code]


PagePart = Table | Figures | Prose | Bullets | Code | Folded


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
    parts: Sequence[PagePart]


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
    next_step: Sequence[PagePart] = ()
