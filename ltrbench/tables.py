"""Tables, numbers and text in all outputs of ltrbench.

`Table` is written as Markdown, LaTeX, CSV, JSON records, HTML, and for a terminal. Text around tables:
paragraphs, lists of names, and one-line reprs. The module `numbers` has the number formats.

A table is defined once: a column has a header and a number format, a row has values. Names in tables can come
from untrusted files; each writer escapes them for its output.
"""

from __future__ import annotations

import csv
import html
import io
import itertools
import math
import re
import reprlib
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.untrusted import (
    in_latex,
    in_markdown,
    in_table,
    prose_in_markdown,
    visible,
)

# ---- Number formats.

DASH = "-"
"""Text of a number that is not available."""

OptionalNumber = float | int | None
Form = str | Callable[[Any], str]
"""Format of a number: a format specification or a function."""

QUALITY = ".4f"  # a metric
# z: no minus sign on values that round to 0
DIFFERENCE = "+z.4f"
SIGNED = "+z.3f"
COUNT = ",.0f"


def is_available(value: OptionalNumber) -> bool:
    """Returns whether there is a finite number."""
    return value is not None and math.isfinite(value)


def duration(seconds: float) -> str:
    """Returns a duration as text.

    >>> [duration(seconds) for seconds in (0.4, 61, 3600)]
    ['0:00', '1:01', '1:00:00']
    """
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{whole:02}"
    return f"{minutes}:{whole:02}"


def format_number(value: OptionalNumber | str, form: Form, missing: str = DASH) -> str:
    """Returns a formatted number, a text unchanged, or `missing` for a number that is not available.

    >>> format_number(0.68964, QUALITY), format_number(None, QUALITY), format_number("baseline", QUALITY)
    ('0.6896', '-', 'baseline')
    """
    if isinstance(value, str):
        return value
    if not is_available(value):
        return missing
    if isinstance(form, str):
        return format(value, form)
    return form(value)


def minus(a: str, b: str) -> str:
    """Returns the text of a difference of two names."""
    return f"{a} \N{MINUS SIGN} {b}"


def format_interval(low: float, high: float, form: Form = QUALITY) -> str:
    """Returns an interval with both ends in one format.

    >>> format_interval(-0.1, 0.25, DIFFERENCE)
    '[-0.1000, +0.2500]'
    """
    return f"[{format_number(low, form)}, {format_number(high, form)}]"


def p_value(value: float) -> str:
    """Returns a p-value with 4 decimals.

    >>> p_value(0.00001), p_value(0.0412)
    ('< 0.0001', '0.0412')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def share(value: float) -> str:
    """Returns a share in per cent.

    >>> share(0.2807)
    '28.1 %'
    """
    return f"{100 * value:.1f} %"


def significant(value: float) -> str:
    """Returns a number with three significant figures, for times and sizes.

    >>> significant(0.0012345), significant(1234.5), significant(2)
    ('0.00123', '1,234', '2')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def format_setting(value: object) -> str:
    """Returns a hyperparameter or a name in almost YAML notation.

    >>> format_setting(None), format_setting(True), format_setting(0.1), format_setting({})
    ('null', 'true', '0.1', '-')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple) and not value:
        return DASH
    return str(value)


def size(megabytes: float) -> str:
    """Returns a size in MB, kB or B.

    >>> size(0.00007), size(1.5)
    ('70 B', '1.5 MB')
    """
    return _in_units(1e6 * megabytes, (("MB", 1e6), ("kB", 1e3), ("B", 1)))


def format_duration(seconds: float) -> str:
    """Returns a time in s, ms or µs.

    >>> format_duration(3e-7), format_duration(0.012), format_duration(75)
    ('0.3 µs', '12 ms', '75 s')
    """
    return _in_units(seconds, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)))


def _in_units(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Returns the value in the largest unit not above it, or in the smallest unit."""
    if value == 0:
        return f"0 {units[0][0]}"
    name, factor = units[-1]
    for unit in units:
        if value >= unit[1]:
            name, factor = unit
            break
    if value < 1000 * factor:
        return f"{value / factor:,.3g} {name}"
    return f"{value / factor:,.0f} {name}"


# ---- Tables and text.

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80  # characters
_SHORT.maxlist = 6


def paragraph(text: str, width: int | None, indent: str = "") -> str:
    """Returns a paragraph in lines of at most `width` columns; lines after the first are indented.

    Control characters are shown as escapes. A longer word, such as a path, is not broken.

    Args:
        width: None: one line of Markdown.
    """
    if width is None:
        return prose_in_markdown(text)
    return textwrap.fill(
        visible(text),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def assignments(settings: Mapping[str, object]) -> str:
    """Returns settings in the notation of overrides.

    >>> assignments({"num_leaves": 8, "l2": None})
    'num_leaves=8, l2=null'
    """
    texts = []
    for name, value in settings.items():
        texts.append(f"{name}={'null' if value is None else value}")
    return ", ".join(texts)


def listed(names: Sequence[str]) -> str:
    """Returns an enumeration of names.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def one_line(name: str, fields: Mapping[str, object]) -> str:
    """Returns a repr of the fields that are not None, with long values and lists shortened.

    >>> one_line("Run", {"model": "native", "fold": None, "ndcg@10": 0.71877})
    "Run(model='native', ndcg@10=0.7188)"
    """
    known = {field: value for field, value in fields.items() if value is not None}
    texts = []
    for field, value in known.items():
        text = f"{value:.4f}" if isinstance(value, float) else _SHORT.repr(value)
        texts.append(f"{field}={text}")
    return f"{name}({', '.join(texts)})"


# ---- A table: columns, and rows of raw values, with one writer per output format.
#
#     table.markdown()         aligned Markdown for a file
#     table.markdown(width)    the same for a terminal of this width; wide tables are split into blocks
#     table.plain(width)       columns without lines between them, for a terminal
#     table.latex()            a tabular with booktabs rules
#     table.csv()              raw values in full precision; empty if not available
#     table.records()          raw values for JSON: header -> value, None if not available
#     table.html(notes)        for a notebook, with a caption above and a list of notes below
#
# The report (`ltrbench.compare.report`) renders `table.cells()` with the template page.html.j2.

CHANGED = "changed"
STRONG = "strong"
"""Emphasis of a cell, besides the claims "better" and "worse"; strong is also bold in LaTeX."""

CellValue = OptionalNumber | str
"""Value of a cell. Text is shown unchanged, also in a column of numbers."""


@dataclass(frozen=True)
class TableColumn:
    """Header, number format and alignment of a column.

    Attributes:
        form: format of the numbers.
        left: left-aligned, as for text; numbers are right-aligned.
        hint: explanation for readers of the report.
        sortable: whether a click on the header in the report sorts the rows.
        with_notes: whether all outputs show the notes of the cells, after the values.
    """

    header: str
    form: Form = ""
    left: bool = False
    hint: str = ""
    sortable: bool = True
    with_notes: bool = False


def columns_of(*forms: Mapping[str, Form | None]) -> list[TableColumn]:
    """Returns a column for each header; without a format it has text, which is left-aligned.

    Headers that users name, such as labels of models, are a mapping of their own: one may equal a header of
    the table.
    """
    columns = []
    for header, form in itertools.chain.from_iterable(each.items() for each in forms):
        has_text = form is None
        columns.append(TableColumn(header, form or "", left=has_text))
    return columns


@dataclass(frozen=True)
class TableCell:
    """A value with its presentation.

    Attributes:
        value: value for sorting, CSV and JSON.
        text: displayed text; None: the value in the format of the column.
        note: second, smaller line in the report; see also `TableColumn.with_notes`.
        emphasis: emphasis of the cell; empty for none.
        colour: colour of a disc before the text in the report; empty for none.
    """

    value: CellValue = None
    text: str | None = None
    note: str = ""
    emphasis: str = ""
    colour: str = ""

    @property
    def known(self) -> CellValue:
        """The value; None if it is a number that is not available."""
        return _known(self.value)


TableRow = Sequence[TableCell | CellValue]
"""Cells of a row; the first one names the row."""


@dataclass(frozen=True)
class Table:
    """Columns and rows of raw values.

    Attributes:
        look: CSS class in the report.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    caption: str = ""
    look: str = ""

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        rows: Iterable[TableRow],
        form: Form = "",
        caption: str = "",
    ) -> Table:
        """Returns a table with row names in the first column and numbers of one format in the others.

        >>> print(Table.of(["model", "ndcg@10"], [["native", 0.5]], ".2f").markdown())
        | model  | ndcg@10 |
        |:-------|--------:|
        | native |    0.50 |
        """
        columns = [
            TableColumn(name, form, left=number == 0)
            for number, name in enumerate(header)
        ]
        return cls(columns, list(rows), caption)

    @property
    def header(self) -> list[str]:
        return [column.header for column in self.columns]

    def cells(self, missing: str = DASH) -> list[list[TableCell]]:
        """Returns the rows as cells with text.

        Args:
            missing: text of a number that is not available.
        """
        cells = []
        for row in self.rows:
            by_column = zip(row, self.columns, strict=True)
            in_row = [_with_text(cell, column, missing) for cell, column in by_column]
            cells.append(in_row)
        return cells

    def markdown(self, width: int | None = None) -> str:
        """Returns an aligned Markdown table.

        Args:
            width: width of the terminal; columns that do not fit follow in further tables, which repeat the
                first column. None: Markdown for a file, with HTML escaped.
        """
        escape = in_table if width is not None else partial(in_markdown, cell=True)
        lines = [[escape(text) for text in line] for line in self._lines()]
        widths = _longest_texts(lines)
        blocks = []
        for block in _blocks(widths, width):
            of_block = [[line[column] for column in block] for line in lines]
            widths_of_block = [widths[column] for column in block]
            to_left = [self.columns[column].left for column in block]
            blocks.append(_block(of_block, widths_of_block, to_left))
        return "\n\n".join(blocks)

    def plain(self, width: int) -> str:
        """Returns aligned columns for a terminal; columns that do not fit follow below, as in `markdown`.

        If the table is too wide, its headers are wrapped, and the texts of its first column.

        >>> table = Table.of(["model", "ndcg@10"], [["native", 0.5]], ".2f")
        >>> print(table.plain(80))
        model   ndcg@10
        native     0.50
        >>> long = Table.of(["model", "these models"], [["native", "better"]])
        >>> print(long.plain(16))
                 these
        model   models
        native  better
        """
        texts = [[in_table(text) for text in line] for line in self._lines()]
        header, *rows = texts
        widths = _longest_texts(texts)
        if _width_of(widths) > width:
            words = [max(map(len, name.split()), default=0) for name in header]
            widths = _longest_texts(rows) or words
            widths = [*map(max, words, widths)]
            excess = max(_width_of(widths) - width, 0)
            narrowest = min(widths[0], _NARROWEST_LABEL)
            widths[0] = max(widths[0] - excess, narrowest)
        blocks = []
        for block in _blocks(widths, width, gap=2, edges=0):
            lines = self._plain_lines(header, widths, block, is_header=True)
            for row in rows:
                lines += self._plain_lines(row, widths, block)
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def _plain_lines(
        self,
        texts: Sequence[str],
        widths: Sequence[int],
        block: Sequence[int],
        *,
        is_header: bool = False,
    ) -> list[str]:
        """Returns the lines of a row, with each text wrapped to the width of its column."""
        wrapped = []
        for column in block:
            width = max(widths[column], 1)
            lines = textwrap.wrap(texts[column], width, break_on_hyphens=False)
            wrapped.append(lines)
        height = max(1, *map(len, wrapped))
        columns = []
        for column, lines in zip(block, wrapped, strict=True):
            missing = [""] * (height - len(lines))
            padded = [*missing, *lines] if is_header else [*lines, *missing]
            side = ">"
            if self.columns[column].left:
                side = "<"
            columns.append([f"{line:{side}{widths[column]}}" for line in padded])
        rows = zip(*columns, strict=True)
        return ["  ".join(row).rstrip() for row in rows]

    def latex(self) -> str:
        """Returns a LaTeX tabular, which needs \\usepackage{booktabs}; strong cells are bold."""
        rows = []
        for texts, row in zip(self._texts(), self.cells(), strict=True):
            in_row = []
            for text, cell in zip(texts, row, strict=True):
                escaped = in_latex(text)
                if cell.emphasis == STRONG:
                    escaped = f"\\textbf{{{escaped}}}"
                in_row.append(escaped)
            rows.append(" & ".join(in_row))
        body = " \\\\\n".join(rows)
        alignment = "".join("l" if column.left else "r" for column in self.columns)
        return (
            f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{' & '.join(map(in_latex, self.header))} "
            f"\\\\\n\\midrule\n{body} \\\\\n"
            "\\bottomrule\n\\end{tabular}\n"
        )

    def csv(self) -> str:
        """Returns header and rows as CSV, numbers in full precision; empty if not available.

        >>> Table.of(["model", "ndcg@10"], [["=1+1", 0.12345], ["random", None]], ".2f").csv()
        'model,ndcg@10\\n=1+1,0.12345\\nrandom,\\n'
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(visible, self.header))
        for values in self._values():
            writer.writerow(
                [
                    visible(value) if isinstance(value, str) else value
                    for value in values
                ]
            )
        return text.getvalue()

    def records(self) -> list[dict[str, CellValue]]:
        """Returns the rows for JSON: header -> value, None if not available.

        Raises:
            ValueError: Two columns have one header, so that a value would be lost.

        >>> Table.of(["model", "ndcg@10"], [["native", 0.5], ["random", float("nan")]]).records()
        [{'model': 'native', 'ndcg@10': 0.5}, {'model': 'random', 'ndcg@10': None}]
        """
        if len(set(self.header)) < len(self.header):
            raise ValueError(f"two columns have one header: {', '.join(self.header)}")
        return [
            dict(zip(self.header, values, strict=True)) for values in self._values()
        ]

    def html(self, notes: Iterable[str] = ()) -> str:
        """Returns the table as HTML for a notebook; without a header row if all headers are empty.

        >>> Table.of(["", ""], [["model", "a & b"]], caption="<b>").html()
        '<table><caption>&lt;b&gt;</caption><tbody><tr><td>model</td><td>a &amp; b</td></tr></tbody></table>'
        """
        head = ""
        if any(self.header):
            head = f"<thead>{_html_row('th', self.header)}</thead>"
        body = "".join(_html_row("td", texts) for texts in self._texts())
        caption = f"<caption>{_in_html(self.caption)}</caption>"
        table = f"<table>{caption}{head}<tbody>{body}</tbody></table>"
        items = "".join(f"<li>{_in_html(note)}</li>" for note in notes)
        if not items:
            return table
        return f"{table}<ul>{items}</ul>"

    def _lines(self) -> list[Sequence[str]]:
        """Returns the header and the texts of the rows."""
        return [self.header, *self._texts()]

    def _texts(self) -> list[list[str]]:
        """Returns the texts of the cells, with the notes that all outputs show."""
        texts = []
        for row in self.cells():
            in_row = []
            for cell, column in zip(row, self.columns, strict=True):
                text = cell.text or ""
                if column.with_notes:
                    text = f"{cell.text} {cell.note}".rstrip()
                in_row.append(text)
            texts.append(in_row)
        return texts

    def _values(self) -> list[list[CellValue]]:
        return [[_known(cell) for cell in row] for row in self.rows]


def _known(cell: TableCell | CellValue) -> CellValue:
    if isinstance(cell, TableCell):
        return cell.known
    if isinstance(cell, str) or is_available(cell):
        return cell
    return None


def _as_cell(cell: TableCell | CellValue) -> TableCell:
    if isinstance(cell, TableCell):
        return cell
    return TableCell(cell)


def _with_text(
    cell: TableCell | CellValue, column: TableColumn, missing: str
) -> TableCell:
    whole = _as_cell(cell)
    if whole.text is not None:
        return whole
    return replace(whole, text=format_number(whole.value, column.form, missing))


_NARROWEST_LABEL = 24
"""Width in characters from which the first column of a table is not wrapped further."""


def _width_of(widths: Sequence[int]) -> int:
    """Returns the width of a plain table, with two spaces between its columns."""
    return sum(widths) + 2 * (len(widths) - 1)


def _blocks(
    widths: Sequence[int], width: int | None, *, gap: int = 3, edges: int = 4
) -> list[list[int]]:
    """Returns the columns of each block, the first column in all; a column that is too wide is alone in
    its block.

    Args:
        gap: Width between two columns, by default of " | " in Markdown.
        edges: Width of both ends of a line, by default of "| " and " |".

    >>> _blocks([6, 7, 7, 7], width=30)
    [[0, 1, 2], [0, 3]]
    """
    room = None
    if width is not None:
        room = width - (widths[0] + edges)
    blocks = [[0]]
    used = 0
    for column in range(1, len(widths)):
        needed = widths[column] + gap
        is_alone = len(blocks[-1]) == 1
        if room is not None and not is_alone and used + needed > room:
            blocks.append([0])
            used = 0
        blocks[-1].append(column)
        used += needed
    return blocks


def _block(
    lines: Sequence[Sequence[str]], widths: Sequence[int], to_left: Sequence[bool]
) -> str:
    """Returns one Markdown table; the first line is the header."""
    sides = list(zip(widths, to_left, strict=True))
    in_rows = []
    for line in lines:
        padded = []
        for text, (width, left) in zip(line, sides, strict=True):
            padded.append(f"{text:<{width}}" if left else f"{text:>{width}}")
        in_rows.append(f"| {' | '.join(padded)} |")
    rules = []
    for width, left in sides:
        dashes = "-" * (width + 1)
        rules.append(f":{dashes}" if left else f"{dashes}:")
    header, *rows = in_rows
    return "\n".join([header, f"|{'|'.join(rules)}|", *rows])


def _longest_texts(lines: Sequence[Sequence[str]]) -> list[int]:
    """Returns the number of characters of the longest text of each column; empty without lines."""
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _html_row(tag: str, texts: Iterable[str]) -> str:
    cells = [f"<{tag}>{_in_html(text)}</{tag}>" for text in texts]
    return f"<tr>{''.join(cells)}</tr>"


def _in_html(text: str) -> str:
    return html.escape(visible(text))


# ---- The glossary of the terms of a comparison, read from glossary.md beside this file.

GLOSSARY_FILE = "glossary.md"
"""Name of the file in this package, and of the extract beside a table in Markdown."""

_ENTRY = re.compile(r"^## (?P<term>.+)\n+(?P<text>(?:(?!## ).*\n?)+)", re.MULTILINE)


@cache
def glossary() -> dict[str, str]:
    """Returns term -> text, in the order of the file."""
    content = Path(__file__).with_name(GLOSSARY_FILE).read_text(encoding="utf-8")
    return {
        entry["term"]: " ".join(entry["text"].split())
        for entry in _ENTRY.finditer(content)
    }


def anchor(term: str) -> str:
    """Returns the anchor of a term, the same in the report, in mkdocs and on GitHub.

    >>> anchor("better, tied, worse")
    'better-tied-worse'
    """
    return re.sub(r"[^\w-]", "", term.lower().replace(" ", "-"))


def find_term(text: str) -> str:
    """Returns the term that the text names, in any case, with spaces or as an anchor.

    Raises:
        ConfigError: The glossary has no such term; the message suggests the closest one.

    >>> find_term("Simultaneous-Interval")
    'simultaneous interval'
    """
    terms = {anchor(term): term for term in glossary()}
    wanted = anchor(text.strip())
    if wanted not in terms:
        closest = did_you_mean(text, glossary())
        raise ConfigError(
            f"the glossary has no term '{text}'{closest} `python -m ltrbench glossary` lists all terms."
        )
    return terms[wanted]


def extract(terms: Iterable[str]) -> str:
    """Returns the entries of terms as Markdown, each once, in the order of the glossary."""
    wanted = set(terms)
    entries = []
    for term, text in glossary().items():
        if term in wanted:
            entries.append(f"## {term}\n\n{text}\n")
    return "\n".join(["# Glossary\n", *entries])
