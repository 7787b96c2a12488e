"""Tables: a comparison as aligned text that is Markdown as well, for the terminal and for results/."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.comparison import Comparison, Row

_NOTHING = "-"


def render(comparison: Comparison, *, with_costs: bool = True) -> str:
    """The table with a heading above and the notes below.

    Args:
        with_costs: whether seconds and memory stand in it; without them the same runs give the same bytes.
    """
    names = list(comparison.rows[0].metrics)
    header = [
        "model",
        comparison.metric,
        f"difference to {comparison.baseline} [95 % interval]",
        *names[1:],
        "trees",
    ]
    cells = [_quality_cells(row, comparison, names) for row in comparison.rows]
    if with_costs:
        header += ["fit s", "predict s", "memory MB"]
        if any("fit_clean" in row.seconds for row in comparison.rows):
            header.append("fit clean s")
        cells = [
            quality + _cost_cells(row, len(header) - len(quality))
            for quality, row in zip(cells, comparison.rows, strict=True)
        ]
    title = f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"
    notes = "\n".join(f"- {note}" for note in comparison.notes)
    return f"{title}\n\n{markdown_table(header, cells)}\n\n{notes}\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An aligned Markdown table: the first column to the left, all others to the right.

    >>> print(markdown_table(["model", "ndcg@10"], [["native", "0.5"]]))
    | model  | ndcg@10 |
    |:-------|--------:|
    | native |     0.5 |
    """
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join([first, *others])} |"

    rule = "|".join([":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([line(header), f"|{rule}|", *map(line, rows)])


def _quality_cells(row: Row, comparison: Comparison, names: Sequence[str]) -> list[str]:
    others = [_format(row.metrics[name], ".4f") for name in names[1:]]
    return [
        row.label,
        _format(row.metrics[names[0]], ".4f"),
        _difference(row, comparison),
        *others,
        _trees(row),
    ]


def _trees(row: Row) -> str:
    return _format(row.trees, ".0f")


def _cost_cells(row: Row, count: int) -> list[str]:
    cells = [
        _format(row.seconds.get("fit"), ".2f"),
        _format(row.seconds.get("predict"), ".3f"),
        _format(row.peak_memory_mb, ".0f"),
        _format(row.seconds.get("fit_clean"), ".2f"),
    ]
    return cells[:count]


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
    parts = (
        [f"fold {next(iter(folds))}"]
        if len(folds) == 1
        else [f"mean over {len(folds)} folds"]
        if folds
        else []
    )
    parts += [f"{queries} paired queries"] if queries else []
    return ", ".join(parts) or "one model"


def _format(value: float | None, spec: str) -> str:
    return _NOTHING if value is None else format(value, spec)
