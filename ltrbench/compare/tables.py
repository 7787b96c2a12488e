"""Tables: a comparison as aligned text that is Markdown as well, for the terminal and for results/."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ltrbench.compare.comparison import Comparison, Row

_NOTHING = "-"


def render(comparison: Comparison, width: int | None = None) -> str:
    """The table with a heading above, the notes below, and published figures where the data set has some.

    Args:
        width: of the terminal that it has to fit into; None: Markdown, with every line as long as it is.
    """
    columns = [column for column in _columns(comparison) if column.is_shown(comparison.rows)]
    cells = [[column.cell(row) for column in columns] for row in comparison.rows]
    table = markdown_table([column.header for column in columns], cells, width)
    title = f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"
    notes = "\n".join(wrapped(f"- {note}", width, "  ") for note in comparison.notes)
    parts = [wrapped(title, width), table, notes]
    if comparison.published is not None:
        parts.append(wrapped(comparison.published.source, width))
        parts.append(_published_table(comparison.published.figures, width))
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[Row], str]
    optional: bool = False

    def is_shown(self, rows: Sequence[Row]) -> bool:
        """An optional column stands only where some row has something to say in it."""
        return not self.optional or any(self.cell(row) != _NOTHING for row in rows)


def _columns(comparison: Comparison) -> list[_Column]:
    first, *others = comparison.rows[0].metrics

    def metric(name: str) -> _Column:
        return _Column(name, lambda row: _format(row.metrics[name], ".4f"))

    def seconds(header: str, kind: str, spec: str, optional: bool = False) -> _Column:
        return _Column(header, lambda row: _format(row.seconds.get(kind), spec), optional)

    difference = f"difference to {comparison.baseline} [95 % interval]"
    return [
        _Column("model", lambda row: row.label),
        metric(first),
        *(
            [_Column(difference, lambda row: _difference(row, comparison))]
            if len(comparison.rows) > 1
            else []
        ),
        *map(metric, others),
        _Column("trees", lambda row: _format(row.trees, ".0f"), optional=True),
        seconds("fit s", "fit", ".2f"),
        seconds("of it evaluator", "monitor", ".2f"),
        seconds("clean fit s", "fit_clean", ".2f", optional=True),
        seconds("predict s", "predict", ".3f"),
        _Column("memory MB", lambda row: _format(row.peak_memory_mb, ".0f"), optional=True),
    ]


def _published_table(figures: Mapping[str, Mapping[str, float]], width: int | None) -> str:
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    rows = [
        [model, *(_format(values.get(name), ".4f") for name in names)] for model, values in figures.items()
    ]
    return markdown_table(["published", *names], rows, width)


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """A paragraph in lines of at most `width` columns, later ones indented; None: in one line.

    A word that is longer, such as a path, is left whole.
    """
    if width is None:
        return text
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """An aligned Markdown table: the first column to the left, all others to the right.

    Args:
        width: columns; what does not fit in follows in further tables, which repeat the first column.

    >>> print(markdown_table(["model", "ndcg@10"], [["native", "0.5"]]))
    | model  | ndcg@10 |
    |:-------|--------:|
    | native |     0.5 |
    """
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    return "\n\n".join(
        _table([[line[column] for column in block] for line in (header, *rows)], [widths[c] for c in block])
        for block in _blocks(widths, width)
    )


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


def _table(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """The first of the lines is the header."""

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join([first, *others])} |"

    rule = "|".join([":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([line(lines[0]), f"|{rule}|", *map(line, lines[1:])])


def _difference(row: Row, comparison: Comparison) -> str:
    if row.label == comparison.baseline:
        return "baseline"
    if row.difference is None:
        return "no common test set"
    if row.interval is None:
        return f"{row.difference:+.4f}"
    low, high = row.interval
    return f"{row.difference:+.4f} [{low:+.4f}, {high:+.4f}]"


def _counts(comparison: Comparison) -> str:
    folds = {item.cell[0] for row in comparison.rows for item in row.judged} - {None}
    queries = max(row.num_queries for row in comparison.rows)
    parts = []
    if len(folds) == 1:
        parts.append(f"fold {next(iter(folds))}")
    elif folds:
        parts.append(f"mean over {len(folds)} folds")
    if queries:
        parts.append(f"differences over {queries} queries{' of all folds' if len(folds) > 1 else ''}")
    return ", ".join(parts) or "one model"


def _format(value: float | None, spec: str) -> str:
    return _NOTHING if value is None else format(value, spec)
