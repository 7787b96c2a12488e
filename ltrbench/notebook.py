"""How objects look in Python: their repr in one line, and their HTML in a notebook.

Names come from files of others. A repr shows them as Python shows texts, HTML has them escaped.
"""

from __future__ import annotations

import html
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from ltrbench.untrusted.escaping import visible

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80  # characters
_SHORT.maxlist = 6


def one_line(name: str, fields: Mapping[str, object]) -> str:
    """A repr of the fields that are not None; long values and lists are cut.

    >>> one_line("Run", {"model": "native", "fold": None, "ndcg@10": 0.71877})
    "Run(model='native', ndcg@10=0.7188)"
    """
    shown = (
        f"{field}={value:.4f}" if isinstance(value, float) else f"{field}={_SHORT.repr(value)}"
        for field, value in fields.items()
        if value is not None
    )
    return f"{name}({', '.join(shown)})"


def html_table(
    title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = (), notes: Iterable[str] = ()
) -> str:
    """A table with a title above, a list of notes below, and without a header where none is given.

    >>> html_table("<b>", [["model", "a & b"]])
    '<table><caption>&lt;b&gt;</caption><tbody><tr><td>model</td><td>a &amp; b</td></tr></tbody></table>'
    """
    head = f"<thead>{_line('th', header)}</thead>" if header else ""
    body = "".join(_line("td", row) for row in rows)
    items = "".join(f"<li>{_escaped(note)}</li>" for note in notes)
    table = f"<table><caption>{_escaped(title)}</caption>{head}<tbody>{body}</tbody></table>"
    return f"{table}<ul>{items}</ul>" if items else table


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(visible(text))
