"""Tables: a comparison as aligned text that is Markdown as well, as LaTeX, HTML, CSV and a DataFrame.

A column is one line in `_columns`, and stands in the first three; CSV and DataFrame have numbers in full.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ltrbench.compare.analysis.methods import (
    about_folds,
    how_tested,
    what_draws_cannot_show,
    what_queries_can_show,
)
from ltrbench.compare.analysis.next_step import as_note, in_one_line
from ltrbench.compare.analysis.slices import Slice, interaction_sentence, interactions
from ltrbench.compare.analysis.verdict import about_training, claim_with_scope, verdict
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.markdown import markdown_table, wrapped
from ltrbench.notebook import html_table
from ltrbench.results import TIMES
from ltrbench.statistics import SCOPES, Interval
from ltrbench.untrusted.escaping import in_csv, in_latex, visible

if TYPE_CHECKING:
    import pandas as pd

_NOTHING = "-"


def render(comparison: Comparison, width: int | None = None, slices: Sequence[Slice] = ()) -> str:
    """The table with a heading above; below it the verdict, notes, folds, slices, and published figures.

    Args:
        width: of the terminal that it has to fit into; None: Markdown, with every line as long as it is.
    """
    columns = _shown_columns(comparison)
    cells = [[column.cell(row) for column in columns] for row in comparison.rows]
    table = markdown_table([column.header for column in columns], cells, width)
    title = _title(comparison)
    said = [*_methods(comparison), *comparison.notes]
    notes = "\n".join(wrapped(f"- {note}", width, "  ") for note in said)
    parts = [wrapped(title, width), table]
    if len(comparison.rows) > 1:
        parts.append(wrapped(verdict(comparison), width))
    parts += [notes, *as_note(comparison, width)]
    if any(row.to_baseline is not None and row.to_baseline.over_folds is not None for row in comparison.rows):
        parts += [wrapped(about_folds(comparison), width), _fold_table(comparison, width)]
    tested = interactions(comparison, slices)
    for attribute, own in _by_attribute(slices).items():
        parts.append(_slice_table(own, width))
        sentence = interaction_sentence(comparison.baseline, tested, attribute)
        parts += [wrapped(sentence, width)] if sentence else []
    if comparison.published is not None:
        parts.append(wrapped(comparison.published.source, width))
        parts.append(_published_table(comparison.published.figures, width))
    return "\n\n".join(parts) + "\n"


def as_html(comparison: Comparison) -> str:
    """The table with its title, the verdict and the notes, for a notebook."""
    columns = _shown_columns(comparison)
    rows = [[column.cell(row) for column in columns] for row in comparison.rows]
    judged = [verdict(comparison)] if len(comparison.rows) > 1 else []
    notes = [*judged, *_methods(comparison), *comparison.notes, *in_one_line(comparison)]
    return html_table(_title(comparison), rows, [column.header for column in columns], notes)


def _title(comparison: Comparison) -> str:
    return f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """A row a model, numbers in full, the columns of `as_csv`; NaN or None where there is none."""
    # Late, because pandas takes half a second that --help does not have.
    import pandas as pd

    records = [
        {
            "model": row.label,
            **row.metrics,
            **dict(zip(_CSV_COLUMNS, _csv_cells(comparison, row), strict=True)),
            **{_claim_column(name): declared_claim(row, name, comparison) for name in comparison.declared},
            **{f"{kind}_seconds": value for kind, value in row.seconds.items()},
        }
        for row in comparison.rows
    ]
    frame = pd.DataFrame(records)
    claims = map(_claim_column, comparison.declared)
    texts = ("model", "baseline", "note", "claim", "scope", "trainings", *claims)
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def as_latex(comparison: Comparison) -> str:
    """The table for a paper, with the rules of the package booktabs.

    A mean in bold is claimed to be better than every other row's. The table needs \\usepackage{booktabs}.
    Times, sizes and memory are left out.
    """
    columns = [column for column in _shown_columns(comparison) if column.of_quality]
    header = " & ".join(in_latex(column.header) for column in columns)
    lines = [
        " & ".join(_latex_cell(column, row, comparison) for column in columns) for row in comparison.rows
    ]
    body = " \\\\\n".join(lines)
    how = (
        " ".join(filter(None, [how_tested(comparison), about_training(comparison)]))
        if comparison.pairs
        else ""
    )
    return (
        f"% {visible(comparison.data)}, {_counts(comparison)}. {visible(how)}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}\n\\toprule\n{header} "
        f"\\\\\n\\midrule\n{body} \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """A row a model, numbers in full; empty where there is none."""
    metrics = list(dict.fromkeys(name for item in comparisons for name in item.rows[0].metrics))
    seconds = list(dict.fromkeys(kind for item in comparisons for row in item.rows for kind in row.seconds))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    declared = list(dict.fromkeys(name for item in comparisons for name in item.declared))
    columns = [*metrics, *_CSV_COLUMNS, *map(_claim_column, declared)]
    head = ["data", "model", *columns, *(f"{kind}_seconds" for kind in seconds)]
    writer.writerow(map(in_csv, head))
    for comparison in comparisons:
        for row in comparison.rows:
            figures = [row.metrics.get(metric) for metric in metrics]
            times = [row.seconds.get(kind) for kind in seconds]
            claims = [declared_claim(row, name, comparison) for name in declared]
            cells = [comparison.data, row.label, *figures, *_csv_cells(comparison, row), *claims, *times]
            writer.writerow([in_csv(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()


_CSV_COLUMNS = (
    "low",
    "high",
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "claim",
    "scope",
    "trainings",
    "p_holm",
    "effect_size",
    "wins",
    "ties",
    "losses",
    "num_queries",
    "note",
    "trees",
    "peak_memory_mb",
    "model_mb",
)


def _csv_cells(comparison: Comparison, row: ModelRow) -> list[object]:
    own = row.interval
    ends = [None, None] if own is None else [own.low, own.high]
    tail = [row.trees, row.peak_memory_mb, row.model_mb]
    if row.to_baseline is None:
        return [*ends, comparison.baseline, *[None] * 5, comparison.replicates[row.label], *[None] * 7, *tail]
    pair, said = row.to_baseline, row.to_baseline.statistics
    between = [None, None] if pair.interval is None else [pair.interval.low, pair.interval.high]
    claimed = [pair.claim, pair.scope, comparison.replicates[row.label]]
    tested = [pair.p_adjusted["holm"]["randomisation"], said.effect_size]
    counts = [said.wins, said.ties, said.losses, said.num_queries, _note(row) or None]
    return [*ends, comparison.baseline, pair.difference, *between, *claimed, *tested, *counts, *tail]


def _claim_column(metric: str) -> str:
    """Of a metric that was declared to carry claims beside the primary one."""
    return f"claim in {metric}"


def declared_claim(row: ModelRow, metric: str, comparison: Comparison) -> str | None:
    """With its scope; None where nothing is claimed by the metric."""
    pair = comparison.claim(row.label, metric) if metric in comparison.declared else None
    return None if pair is None else claim_with_scope(pair)


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[ModelRow], str]
    optional: bool = False
    of_quality: bool = True
    metric: str | None = None

    def is_shown(self, rows: Sequence[ModelRow]) -> bool:
        """An optional column stands only where some row has something to say in it."""
        return not self.optional or any(self.cell(row) != _NOTHING for row in rows)


def _shown_columns(comparison: Comparison) -> list[_Column]:
    return [column for column in _columns(comparison) if column.is_shown(comparison.rows)]


def _columns(comparison: Comparison) -> list[_Column]:
    first, *others = comparison.rows[0].metrics

    def metric(name: str) -> _Column:
        return _Column(name, lambda row: _mean(row, name, comparison), metric=name)

    def cost(
        header: str, value: Callable[[ModelRow], float | None], spec: str, optional: bool = True
    ) -> _Column:
        return _Column(header, lambda row: _format(value(row), spec), optional, of_quality=False)

    def seconds(kind: str, spec: str, optional: bool = False) -> _Column:
        return cost(f"{TIMES[kind]} s", lambda row: row.seconds.get(kind), spec, optional)

    difference = f"difference to {comparison.baseline} [95 % interval]"
    paired = [
        _Column(difference, lambda row: _difference(row, comparison)),
        _Column(f"claim{_common_scope(comparison)}", lambda row: _claim(row, comparison)),
        _Column("better/tied/worse", _wins, optional=True),
        _Column("note", lambda row: _note(row) or _NOTHING, optional=True),
    ]
    return [
        _Column("model", lambda row: row.label),
        metric(first),
        *(paired if len(comparison.rows) > 1 else []),
        *map(metric, others),
        _Column("trainings", lambda row: comparison.replicates[row.label]),
        cost("trees", lambda row: row.trees, ".0f"),
        seconds("fit", ".2f"),
        seconds("monitor", ".2f"),
        seconds("fit_clean", ".2f", optional=True),
        seconds("predict", ".3f"),
        cost("memory MB", lambda row: row.peak_memory_mb, ".0f"),
    ]


def _methods(comparison: Comparison) -> list[str]:
    if not comparison.pairs:
        return []
    said = (how_tested, what_draws_cannot_show, what_queries_can_show)
    return [sentence for sentence in (say(comparison) for say in said) if sentence]


def _fold_table(comparison: Comparison, width: int | None) -> str:
    header = [
        "model",
        f"difference to {comparison.baseline} [95 % interval]",
        "p",
        "worse",
        "equal",
        "better",
    ]
    rows = []
    for row in comparison.rows:
        found = None if row.to_baseline is None else row.to_baseline.over_folds
        if found is not None:
            test, bayes = found.frequentist, found.bayesian
            difference = _with_interval(test.difference, test.interval)
            chances = [_format(value, ".2f") for value in (bayes.left, bayes.within, bayes.right)]
            rows.append([row.label, difference, _format(test.p_value, ".4f"), *chances])
    return markdown_table(header, rows, width)


def _with_interval(difference: float | None, interval: Interval | None) -> str:
    # Rounded first, so that a small negative difference has no sign.
    shown = _format(None if difference is None else round(difference, 4) + 0.0, "+.4f")
    return shown if interval is None else f"{shown} [{interval.low:+.4f}, {interval.high:+.4f}]"


def _by_attribute(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    groups: dict[str, list[Slice]] = {}
    for item in slices:
        groups.setdefault(item.attribute, []).append(item)
    return groups


def _slice_table(slices: Sequence[Slice], width: int | None) -> str:
    """A row a slice: its queries, and each model's mean with its difference to the baseline."""
    labels = [item.label for item in slices[0].rows]
    rows = [
        [own.name, str(own.num_queries), *(_in_slice(item.mean, item.difference) for item in own.rows)]
        for own in slices
    ]
    return markdown_table([slices[0].attribute, "queries", *labels], rows, width)


def _in_slice(mean: float, difference: float | None) -> str:
    return f"{mean:.4f}" if difference is None else f"{mean:.4f} ({difference:+.4f})"


def _published_table(figures: Mapping[str, Mapping[str, float]], width: int | None) -> str:
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    rows = [
        [model, *(_format(values.get(name), ".4f") for name in names)] for model, values in figures.items()
    ]
    return markdown_table(["published", *names], rows, width)


def _difference(row: ModelRow, comparison: Comparison) -> str:
    if row.label == comparison.baseline:
        return "baseline"
    if row.to_baseline is None:
        return "not paired"
    return _with_interval(row.to_baseline.difference, row.to_baseline.interval)


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> str:
    """The mean; with difference and claim for a metric that was declared beside the primary one."""
    mean = _format(row.metrics[metric], ".4f")
    pair = comparison.claim(row.label, metric) if metric in comparison.declared else None
    if pair is None:
        return mean
    difference = _with_interval(pair.difference, pair.interval)
    return f"{mean}, {difference} {claim_with_scope(pair)}"


def _claim(row: ModelRow, comparison: Comparison) -> str:
    pair = row.to_baseline
    if pair is None:
        return _NOTHING
    return pair.claim if _common_scope(comparison) else claim_with_scope(pair)


def _common_scope(comparison: Comparison) -> str:
    """The scope of all claims in the table, for its header; empty where they have several."""
    scopes = {row.to_baseline.scope for row in comparison.rows if row.to_baseline is not None}
    return f" ({SCOPES[scopes.pop()]})" if len(scopes) == 1 else ""


def _wins(row: ModelRow) -> str:
    """On how many queries."""
    if row.to_baseline is None:
        return _NOTHING
    said = row.to_baseline.statistics
    return f"{said.wins}/{said.ties}/{said.losses}"


def _note(row: ModelRow) -> str:
    """What to know of the difference: identical, few queries, or why there is no interval."""
    pair = row.to_baseline
    return "" if pair is None else pair.reason or pair.statistics.note


def _latex_cell(column: _Column, row: ModelRow, comparison: Comparison) -> str:
    text = in_latex(column.cell(row))
    is_bold = column.metric == comparison.metric and comparison.beats_all(row.label)
    return f"\\textbf{{{text}}}" if is_bold else text


def _counts(comparison: Comparison) -> str:
    folds = {item.cell.fold for row in comparison.rows for item in row.evaluated} - {None}
    queries = 0 if comparison.queries is None else comparison.queries.num_distinct
    parts = []
    if len(folds) == 1:
        parts.append(f"fold {next(iter(folds))}")
    elif folds:
        parts.append(f"mean over {len(folds)} folds")
    if queries and len(comparison.rows) > 1:
        parts.append(f"differences over {queries} queries{' of all folds' if len(folds) > 1 else ''}")
    return ", ".join(parts) or "one model"


def _format(value: float | None, spec: str) -> str:
    return _NOTHING if value is None else format(value, spec)
