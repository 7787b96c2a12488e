"""Tables, numbers and prose, as every output of ltrbench writes them.

    table      `Table`: columns and rows of raw values, written as Markdown, LaTeX, CSV, JSON records and
               HTML, and for a terminal
    numbers    `figure`, which writes a number or a dash, and the formats of the report
    prose      paragraphs of one width, lists of names, settings, and one-line reprs

A table states what it holds once: a column has a header and the format of its figures, a row has values.
Names in tables come from files of others; each writer escapes them as its output needs.
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
