"""Text around tables: paragraphs of fixed width, lists of names, settings, and one-line reprs."""

from __future__ import annotations

import reprlib
import textwrap
from collections.abc import Mapping, Sequence

from ltrbench.untrusted.escaping import in_markdown, visible

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
        return in_markdown(text)
    return textwrap.fill(
        visible(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def assignments(settings: Mapping[str, object]) -> str:
    """Returns settings in the notation of overrides.

    >>> assignments({"num_leaves": 8, "l2": None})
    'num_leaves=8, l2=null'
    """
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in settings.items())


def listed(names: Sequence[str]) -> str:
    """Returns an enumeration of names.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def one_line(name: str, fields: Mapping[str, object]) -> str:
    """Returns a repr of the fields that are not None, with long values and lists shortened.

    >>> one_line("Run", {"model": "native", "fold": None, "ndcg@10": 0.71877})
    "Run(model='native', ndcg@10=0.7188)"
    """
    values = (
        f"{field}={value:.4f}" if isinstance(value, float) else f"{field}={_SHORT.repr(value)}"
        for field, value in fields.items()
        if value is not None
    )
    return f"{name}({', '.join(values)})"
