r"""Escapes names from data files and run folders for each output format.

    visible       terminal, messages, plots, HTML, MLflow: control characters as \x1b, \n, \u202e
    in_markdown   Markdown: no HTML, links or images; inside a table no end of the cell
    in_latex      LaTeX: its special characters
    in_csv        published CSV tables: no cell that a spreadsheet evaluates as a formula
    (JSON)        json.dumps escapes control characters and all characters outside ASCII

The template of the report escapes HTML; plots disable mathematical notation where they draw text. The CSV
files of a run folder contain the original names, because they are read again.
"""

from __future__ import annotations

import re

# Characters that move the cursor, change the text direction or end a line, and lone surrogates.
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
        # After a line break, [ would start the optional argument of the command.
        "[": "{[}",
    }
)

_FORMULA = ("=", "+", "-", "@")


def visible(text: str, lines: bool = False) -> str:
    r"""Returns the text with control characters as Python escapes.

    Args:
        lines: keep line breaks.

    >>> print(visible("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    unseen = _UNSEEN_BUT_LINES if lines else _UNSEEN
    return unseen.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def in_markdown(text: str, cell: bool = False) -> str:
    r"""Returns the text escaped for Markdown, which then displays it literally.

    Args:
        cell: escape for a table cell, where a vertical bar would end the cell.

    >>> print(in_markdown("<img src=x> p < 0.05 [a](b)"))
    &lt;img src=x> p < 0.05 [a]\(b)
    >>> print(in_markdown(r"a\|b", cell=True))
    a\\\|b
    """
    shown = _TAG.sub("&lt;", _ENTITY.sub("&amp;", visible(text))).replace("](", r"]\(")
    return _in_cell(shown) if cell else shown


def in_table(text: str) -> str:
    """Returns the text escaped for a cell of an aligned table on a terminal."""
    return _in_cell(visible(text))


def _in_cell(text: str) -> str:
    # A preceding backslash would escape the backslash of the bar, and the bar would end the cell.
    return _BAR.sub(lambda match: f"{match[1] * 2}\\|", text)


def in_latex(text: str) -> str:
    """Returns the text escaped for LaTeX.

    >>> in_latex("50%_of")
    '50\\\\%\\\\_of'
    """
    return visible(text).translate(_LATEX)


def in_csv(text: str) -> str:
    """Returns the text of a CSV cell, with an apostrophe before a formula; numbers stay unchanged.

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
