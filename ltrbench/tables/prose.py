"""Text around tables: paragraphs of one width, lists of names, settings, and the repr of an object."""

from __future__ import annotations

import reprlib
import textwrap
from collections.abc import Mapping, Sequence

from ltrbench.untrusted.escaping import in_markdown, visible

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80  # characters
_SHORT.maxlist = 6


def paragraph(text: str, width: int | None, indent: str = "") -> str:
    """Returns a paragraph in lines of at most `width` columns, later ones indented.

    Control characters are shown as escapes. A word that is longer, such as a path, is left whole.

    Args:
        width: None: Markdown, in one line.
    """
    if width is None:
        return in_markdown(text)
    return textwrap.fill(
        visible(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def assignments(settings: Mapping[str, object]) -> str:
    """Returns settings as overrides are written.

    >>> assignments({"num_leaves": 8, "l2": None})
    'num_leaves=8, l2=null'
    """
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in settings.items())


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def one_line(name: str, fields: Mapping[str, object]) -> str:
    """Returns a repr of the fields that are not None; long values and lists are cut.

    >>> one_line("Run", {"model": "native", "fold": None, "ndcg@10": 0.71877})
    "Run(model='native', ndcg@10=0.7188)"
    """
    values = (
        f"{field}={value:.4f}" if isinstance(value, float) else f"{field}={_SHORT.repr(value)}"
        for field, value in fields.items()
        if value is not None
    )
    return f"{name}({', '.join(values)})"
