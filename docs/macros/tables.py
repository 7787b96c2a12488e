"""Markdown that macros share: tables, code, headings, and blocks that open on a click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltrbench.metrics.conventions import ABOVE_HALF


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table. Cells may contain bars and new lines.

    >>> print(table(["key", "is"], [["a", "x | y"]]))
    | key | is |
    | --- | --- |
    | a | x \\| y |
    """

    ruler = ["---" for _ in header]
    return "\n".join(map(_line, [header, ruler, *rows]))


def _line(cells: Sequence[str]) -> str:
    in_one_line = [" ".join(cell.split()) for cell in cells]
    return f"| {' | '.join(map(_escaped, in_one_line))} |"


def _escaped(cell: str) -> str:
    """Escapes bars, which end a cell, and braces outside of code, which start attributes in Markdown."""
    parts = cell.replace("|", r"\|").split("`")
    outside_of_code = parts[::2]
    parts[::2] = [part.replace("{", r"\{") for part in outside_of_code]
    return "`".join(parts)


def code(value: object) -> str:
    text = str(value)
    return f"`{text}`" if text else ""


def words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value == ABOVE_HALF:
        return "above 0.5"
    return "none" if value is None else str(value)


def heading(level: int, title: str, anchor: str) -> str:
    """Returns a heading with an anchor of its own, on the site and on a forge."""
    return f'<a id="{anchor}"></a>\n\n{"#" * level} {title}'


def folded(title: str, block: str) -> str:
    """Returns a block that opens on a click, on the site and on a forge."""
    return (
        f'<details markdown="1">\n<summary>{title}</summary>\n\n{block}\n\n</details>'
    )
