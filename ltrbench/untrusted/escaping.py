r"""Names from data files and run folders, as each output format shows them.

    visible       terminal, messages, pictures, HTML, MLflow: control characters as \x1b, \n, \u202e
    in_markdown   Markdown: no HTML, no links, no images; in a cell of a table, no end of the cell
    in_latex      LaTeX: its special characters
    in_csv        CSV for people: no cell that a spreadsheet runs as a formula
    (JSON)        json.dumps escapes control characters, and all else that is not ASCII

HTML itself is escaped by the report's template, mathematics in pictures is switched off where text is drawn.
The CSV files of a run folder keep names as they are, because they are read back.
"""

from __future__ import annotations

import re

# What moves a cursor, changes the direction of text, ends a line, or is half a character.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
_UNSEEN_BUT_LINES = re.compile(rf"(?!\n){_UNSEEN.pattern}")

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_BAR = re.compile(r"(\\*)\|")

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # Behind the end of a line it would begin that command's optional argument.
        "[": "{[}",
    }
)

_FORMULA = ("=", "+", "-", "@")


def visible(text: str, lines: bool = False) -> str:
    r"""Text without control characters, which are written as Python writes them.

    Args:
        lines: keep ends of lines.

    >>> print(visible("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    unseen = _UNSEEN_BUT_LINES if lines else _UNSEEN
    return unseen.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def in_markdown(text: str, cell: bool = False) -> str:
    r"""Text that Markdown shows as it is.

    Args:
        cell: of a table, which a bar would end.

    >>> print(in_markdown("<img src=x> p < 0.05 [a](b)"))
    &lt;img src=x> p < 0.05 [a]\(b)
    >>> print(in_markdown(r"a\|b", cell=True))
    a\\\|b
    """
    shown = _TAG.sub("&lt;", _ENTITY.sub("&amp;", visible(text))).replace("](", r"]\(")
    return _in_cell(shown) if cell else shown


def in_table(text: str) -> str:
    """Text in a cell of an aligned table on a terminal."""
    return _in_cell(visible(text))


def _in_cell(text: str) -> str:
    # A backslash before the bar's would make that one a character, and the bar the end of the cell.
    return _BAR.sub(lambda match: f"{match[1] * 2}\\|", text)


def in_latex(text: str) -> str:
    """Text as LaTeX prints it.

    >>> in_latex("50%_of")
    '50\\\\%\\\\_of'
    """
    return visible(text).translate(_LATEX)


def in_csv(text: str) -> str:
    """Text in a cell, an apostrophe before what a spreadsheet would take for a formula; numbers stay.

    >>> [in_csv(text) for text in ("native", "=1+1", "-5", "-a")]
    ['native', "'=1+1", '-5', "'-a"]
    """
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
