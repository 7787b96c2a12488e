"""The sections of the report on a data set, registered by a decorator.

A section is a function from `Shown` to a `Section`, or to None if there is nothing to show:

    @section(place=125)
    def energy_section(shown: Shown) -> Section | None: ...

`place` is its position on the page, in steps of ten, from 10 for the leaderboard downwards. To add a section,
write such a function in a file of this folder; nothing else changes:

    evidence   claims and their evidence
    queries    single queries and kinds of queries
    runs       quality by cutoff and iteration, costs, features, settings, data, notes, searches
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.grouping import Note
from ltrbench.compare.groups import Slice
from ltrbench.compare.pairs import Pair
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots import Series
from ltrbench.plots.drawing import Page, styles_of
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.tables import Table, TableCell, TableColumn, TableRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# ---- Parts of the report: chapters, sections, tables, figures, paragraphs, lists, code.
#
# The template has a macro for each class of parts, named after the class. It escapes all texts; only the
# drawings as SVG and of the leaderboard are markup.


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
        next_step: Parts below the first paragraph.
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


# ---- Matplotlib figures as small inline SVG in the colours of the page.

PAGE = Page(width=5.0, titled=False)
"""Figure width in inches at which 8-point text is readable on a phone."""
SQUARE_PAGE = Page(width=4.0, titled=False)
"""For figures with the same scale on both axes."""
WIDE_PAGE = Page(width=7.0, titled=False)
"""For figures with several panels, which scroll on a phone."""

# Colour of the drawing -> colour of the style sheet.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#dddddd": "var(--grid)",
    "#777777": "var(--muted)",
    "#555555": "var(--muted)",
    "#0072b2": "var(--blue)",
}
_COLOUR = re.compile("|".join(_COLOURS), re.IGNORECASE)
_FONTS = re.compile(r"font-family: [^;]*;?|(?<=px) '[^;]*")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_PLACES = ("d", "height", "points", "transform", "width", "x", "y")


def inlined(figure: Drawing, name: str, caption: str) -> Figure:
    """Returns the figure as inline SVG; its label becomes the alternative text.

    Args:
        name: Unique name of the figure in the page.
    """
    import matplotlib as mpl

    stream = io.BytesIO()
    # Text stays text, and output is deterministic: no random ids, no date, no version.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    return Figure(_fitted(stream.getvalue(), name), caption, str(figure.get_label()))


def _fitted(svg: bytes, name: str) -> Markup:
    """Returns the SVG without namespaces, unused ids and invisible decimals."""
    root = ElementTree.fromstring(svg)
    referred = set(re.findall(rb'(?:href="|url\()#([\w.-]+)', svg))
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        if attributes.get("id", "").encode() not in referred:
            attributes.pop("id", None)
        element.attrib = {key: _attribute(key, value, name) for key, value in attributes.items()}
        element.text, element.tail = _without_blanks(element.text), _without_blanks(element.tail)
    box = root.attrib["viewBox"]
    root.attrib = {"viewBox": box, "style": f"--width: {box.split()[2]}", "aria-hidden": "true"}
    # ElementTree escapes the texts.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}"
    if key in _PLACES:
        return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", " ".join(value.split()))
    if key == "style":
        value = _FONTS.sub("", css_colour(value))
    return value.replace("url(#", f"url(#{name}-")


def css_colour(text: str) -> str:
    """Returns the text with colours replaced by those of the style sheet."""
    return _COLOUR.sub(lambda colour: _COLOURS[colour[0].lower()], text)


def _without_blanks(text: str | None) -> str | None:
    return text if text and text.strip() else None


# ---- The comparison of one data set as the sections of the report need it.


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

    @cached_property
    def drawn(self) -> list[Series]:
        """The series of the figures, without yardsticks."""
        return without_yardsticks(self.series)

    @property
    def yardsticks(self) -> list[ModelRow]:
        """The rows that are not drawn, the best first."""
        drawn = {item.label for item in self.drawn}
        return [row for row in self.rows if row.label not in drawn]

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


def without_yardsticks(series: Sequence[Series]) -> list[Series]:
    """Returns the series of the models, whose differences the scale of a yardstick would hide.

    If there are only yardsticks, all of them are returned.
    """
    return [item for item in series if item.model not in YARDSTICKS] or list(series)


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


MakeSection = Callable[[Shown], Section | None]

_MAKERS: dict[int, MakeSection] = {}
"""Place -> function that makes the section."""


def section(place: int) -> Callable[[MakeSection], MakeSection]:
    """Registers a function as a section of the report.

    Args:
        place: Position on the page, from its top; unique.

    Raises:
        ValueError: Another section has this place.
    """

    def register(make: MakeSection) -> MakeSection:
        if place in _MAKERS:
            raise ValueError(f"{make.__name__} and {_MAKERS[place].__name__} are both sections at {place}.")
        _MAKERS[place] = make
        return make

    return register


def sections_by_place() -> dict[int, MakeSection]:
    """Returns place -> function that makes the section, from the top of the page downwards."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_MAKERS.items()))
