"""Text that reads well in a terminal and is Markdown in a file: paragraphs, and aligned tables."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

from ltrbench.untrusted.escaping import in_markdown, in_table, visible


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """A paragraph in lines of at most `width` columns, later ones indented; None: Markdown, in one line.

    Control characters are shown as escapes. A word that is longer, such as a path, is left whole.
    """
    if width is None:
        return in_markdown(text)
    return textwrap.fill(
        visible(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def assignments(settings: Mapping[str, object]) -> str:
    """Settings as one writes them.

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


def markdown_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    texts: Collection[int] = (0,),
) -> str:
    """An aligned Markdown table: columns of text to the left, all others, of figures, to the right.

    Args:
        width: columns; what does not fit in follows in further tables, which repeat the first column. None:
            Markdown, in which HTML is escaped as well.
        texts: the numbers of the columns of text.

    >>> print(markdown_table(["model", "ndcg@10"], [["native", "0.5"]]))
    | model  | ndcg@10 |
    |:-------|--------:|
    | native |     0.5 |
    """
    header, rows = _escaped(header, width), [_escaped(row, width) for row in rows]
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    return "\n\n".join(
        _table(
            [[line[column] for column in block] for line in (header, *rows)],
            [widths[column] for column in block],
            [column in texts for column in block],
        )
        for block in _blocks(widths, width)
    )


def _escaped(cells: Sequence[str], width: int | None) -> list[str]:
    return [in_markdown(cell, cell=True) if width is None else in_table(cell) for cell in cells]


def _blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """The columns of each table, the first in every one; a single column that is too wide stands alone.

    >>> _blocks([6, 7, 7, 7], width=30)
    [[0, 1, 2], [0, 3]]
    """
    # A cell has " | " before it, or "| " at the left edge, and the last has " |" behind it.
    room = None if width is None else width - (widths[0] + 4)
    blocks, used = [[0]], 0
    for column in range(1, len(widths)):
        needed = widths[column] + 3
        if room is not None and len(blocks[-1]) > 1 and used + needed > room:
            blocks.append([0])
            used = 0
        blocks[-1].append(column)
        used += needed
    return blocks


def _table(lines: Sequence[Sequence[str]], widths: Sequence[int], to_left: Sequence[bool]) -> str:
    """The first of the lines is the header."""

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, to_left, strict=True)
        ]
        return f"| {' | '.join(aligned)} |"

    rule = "|".join(
        ":" + "-" * (width + 1) if left else "-" * (width + 1) + ":"
        for width, left in zip(widths, to_left, strict=True)
    )
    return "\n".join([line(lines[0]), f"|{rule}|", *map(line, lines[1:])])
