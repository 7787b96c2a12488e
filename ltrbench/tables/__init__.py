"""Tables, numbers and text in all outputs of ltrbench.

    tables     `Table`: columns and rows of raw values, written as Markdown, LaTeX, CSV, JSON records, HTML,
               and for a terminal; paragraphs, lists of names, and one-line reprs
    numbers    `figure`, which formats a number or writes a dash, and the formats of the report

A table is defined once: a column has a header and a number format, a row has values. Names in tables can come
from untrusted files; each writer escapes them for its output.
"""

from ltrbench.tables.numbers import figure, is_available
from ltrbench.tables.tables import (
    CHANGED,
    STRONG,
    CellValue,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    assignments,
    listed,
    one_line,
    paragraph,
)

__all__ = [
    "CHANGED",
    "STRONG",
    "CellValue",
    "Table",
    "TableCell",
    "TableColumn",
    "TableRow",
    "assignments",
    "figure",
    "is_available",
    "listed",
    "one_line",
    "paragraph",
]
