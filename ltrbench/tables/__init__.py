"""Tables, numbers and text in all outputs of ltrbench.

    table      `Table`: columns and rows of raw values, written as Markdown, LaTeX, CSV, JSON records, HTML,
               and for a terminal
    numbers    `figure`, which formats a number or writes a dash, and the formats of the report
    prose      paragraphs of fixed width, lists of names, settings, and one-line reprs

A table is defined once: a column has a header and a number format, a row has values. Names in tables can come
from untrusted files; each writer escapes them for its output.
"""

from ltrbench.tables.numbers import figure, is_available
from ltrbench.tables.prose import assignments, listed, one_line, paragraph
from ltrbench.tables.table import CHANGED, STRONG, CellValue, Table, TableCell, TableColumn, TableRow

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
