"""Tables of a comparison: aligned text that is Markdown as well, LaTeX, HTML, CSV and a DataFrame.

A column of what is shown is one line in `_columns`; CSV and DataFrame are `_in_full`.
"""

from __future__ import annotations

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
from ltrbench.results import TIMES
from ltrbench.statistics import SCOPES, Interval
from ltrbench.tables import STRONG, CellValue, Table, TableCell, TableColumn, TableRow, figure, paragraph
from ltrbench.tables.numbers import Form, interval
from ltrbench.untrusted.escaping import visible

if TYPE_CHECKING:
    import pandas as pd

_QUALITY = ".4f"


def render(comparison: Comparison, width: int | None = None, slices: Sequence[Slice] = ()) -> str:
    """The table with a heading above; below it the verdict, notes, folds, slices, and published figures.

    Args:
        width: of the terminal that it has to fit into; None: Markdown, with every line as long as it is.
    """
    sentences = [*_methods(comparison), *comparison.notes]
    notes = "\n".join(paragraph(f"- {sentence}", width, "  ") for sentence in sentences)
    parts = [paragraph(_title(comparison), width), _main_table(comparison).markdown(width)]
    if len(comparison.rows) > 1:
        parts.append(paragraph(verdict(comparison), width))
    parts += [notes, *as_note(comparison, width)]
    if any(row.to_baseline is not None and row.to_baseline.over_folds is not None for row in comparison.rows):
        parts += [paragraph(about_folds(comparison), width), _fold_table(comparison).markdown(width)]
    tested = interactions(comparison, slices)
    for attribute, slices_of_attribute in _by_attribute(slices).items():
        parts.append(_slice_table(slices_of_attribute).markdown(width))
        sentence = interaction_sentence(comparison.baseline, tested, attribute)
        parts += [paragraph(sentence, width)] if sentence else []
    if comparison.published is not None:
        parts.append(paragraph(comparison.published.source, width))
        parts.append(_published_table(comparison.published.figures).markdown(width))
    return "\n\n".join(parts) + "\n"


def as_html(comparison: Comparison) -> str:
    """Returns the table with its title, the verdict and the notes, for a notebook."""
    judged = [verdict(comparison)] if len(comparison.rows) > 1 else []
    notes = [*judged, *_methods(comparison), *comparison.notes, *in_one_line(comparison)]
    return _main_table(comparison).html(notes)


def as_latex(comparison: Comparison) -> str:
    """Returns the table for a paper, with the rules of the package booktabs.

    A mean in bold is claimed to be better than every other row's. The table needs \\usepackage{booktabs}.
    Times, sizes and memory are left out.
    """
    how = (
        " ".join(filter(None, [how_tested(comparison), about_training(comparison)]))
        if comparison.pairs
        else ""
    )
    heading = f"% {visible(comparison.data)}, {_counts(comparison)}. {visible(how)}\n"
    return heading + _main_table(comparison, with_costs=False).latex()


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """Returns a row a model, numbers in full; empty where there is none."""
    return _in_full(comparisons).csv()


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """Returns a row a model, numbers in full, the columns of `as_csv`; NaN or None where there is none."""
    # Late, because pandas takes half a second that --help does not have.
    import pandas as pd

    frame = pd.DataFrame(_in_full([comparison]).records()).drop(columns="data")
    claims = (f"claim in {metric}" for metric in comparison.declared)
    texts = ("model", "baseline", "note", "claim", "scope", "trainings", *claims)
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def _title(comparison: Comparison) -> str:
    return f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"


def _in_full(comparisons: Sequence[Comparison]) -> Table:
    """A row a model of each comparison, with everything that is known of it."""
    metrics = list(dict.fromkeys(name for item in comparisons for name in item.rows[0].metrics))
    seconds = list(dict.fromkeys(kind for item in comparisons for row in item.rows for kind in row.seconds))
    declared = list(dict.fromkeys(name for item in comparisons for name in item.declared))
    rows = [
        [
            ("data", comparison.data),
            ("model", row.label),
            *((metric, row.metrics.get(metric)) for metric in metrics),
            *_against_baseline(comparison, row).items(),
            *((f"claim in {metric}", _declared_claim(row, metric, comparison)) for metric in declared),
            *((f"{kind}_seconds", row.seconds.get(kind)) for kind in seconds),
        ]
        for comparison in comparisons
        for row in comparison.rows
    ]
    return Table.of([name for name, _ in rows[0]], [[value for _, value in row] for row in rows])


def _against_baseline(comparison: Comparison, row: ModelRow) -> dict[str, CellValue]:
    """What is known of a row beside its means, under the names of its columns."""
    pair = row.to_baseline
    statistics = None if pair is None else pair.statistics
    between = None if pair is None else pair.interval
    return {
        "low": None if row.interval is None else row.interval.low,
        "high": None if row.interval is None else row.interval.high,
        "baseline": comparison.baseline,
        "difference": None if pair is None else pair.difference,
        "difference_low": None if between is None else between.low,
        "difference_high": None if between is None else between.high,
        "claim": None if pair is None else pair.claim,
        "scope": None if pair is None else pair.scope,
        "trainings": comparison.replicates[row.label],
        "p_holm": None if pair is None else pair.p_adjusted["holm"]["randomisation"],
        "effect_size": None if statistics is None else statistics.effect_size,
        "wins": None if statistics is None else statistics.wins,
        "ties": None if statistics is None else statistics.ties,
        "losses": None if statistics is None else statistics.losses,
        "num_queries": None if statistics is None else statistics.num_queries,
        "note": _note(row) or None,
        "trees": row.trees,
        "peak_memory_mb": row.peak_memory_mb,
        "model_mb": row.model_mb,
    }


def _declared_claim(row: ModelRow, metric: str, comparison: Comparison) -> str | None:
    """The claim by a metric that was declared to carry claims beside the primary one, with its scope."""
    pair = comparison.claim(row.label, metric) if metric in comparison.declared else None
    return None if pair is None else claim_with_scope(pair)


@dataclass(frozen=True)
class _Shown:
    """A column, and its cell of each row.

    Attributes:
        optional: it stands only where some row has a value in it.
        is_cost: a time, a size or memory.
    """

    column: TableColumn
    cell: Callable[[ModelRow], TableCell | CellValue]
    optional: bool = False
    is_cost: bool = False

    def has_values(self, rows: Sequence[ModelRow]) -> bool:
        return any(self.cell(row) is not None for row in rows)


def _main_table(comparison: Comparison, with_costs: bool = True) -> Table:
    """A row a model; a mean that is claimed to be better than every other is strong."""
    columns = [
        item
        for item in _columns(comparison)
        if (with_costs or not item.is_cost) and (not item.optional or item.has_values(comparison.rows))
    ]
    rows = [[item.cell(row) for item in columns] for row in comparison.rows]
    return Table([item.column for item in columns], rows, _title(comparison))


def _columns(comparison: Comparison) -> list[_Shown]:
    first, *others = comparison.rows[0].metrics

    def metric(name: str) -> _Shown:
        return _Shown(TableColumn(name, _QUALITY), lambda row: _mean(row, name, comparison))

    def cost(
        header: str, value: Callable[[ModelRow], float | None], form: Form, optional: bool = True
    ) -> _Shown:
        return _Shown(TableColumn(header, form), value, optional, is_cost=True)

    def seconds(kind: str, form: Form, optional: bool = False) -> _Shown:
        return cost(f"{TIMES[kind]} s", lambda row: row.seconds.get(kind), form, optional)

    difference = f"difference to {comparison.baseline} [95 % interval]"
    claim = f"claim{_common_scope(comparison)}"
    paired = [
        _Shown(TableColumn(difference), lambda row: _difference(row, comparison)),
        _Shown(TableColumn(claim), lambda row: _claim(row, comparison)),
        _Shown(TableColumn("better/tied/worse"), _wins, optional=True),
        _Shown(TableColumn("note"), lambda row: _note(row) or None, optional=True),
    ]
    return [
        _Shown(TableColumn("model", left=True), lambda row: row.label),
        metric(first),
        *(paired if len(comparison.rows) > 1 else []),
        *map(metric, others),
        _Shown(TableColumn("trainings"), lambda row: comparison.replicates[row.label]),
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
    sentences = (how_tested, what_draws_cannot_show, what_queries_can_show)
    return [sentence for sentence in (write(comparison) for write in sentences) if sentence]


def _fold_table(comparison: Comparison) -> Table:
    columns = [
        TableColumn("model", left=True),
        TableColumn(f"difference to {comparison.baseline} [95 % interval]"),
        TableColumn("p", ".4f"),
        *(TableColumn(chance, ".2f") for chance in ("worse", "equal", "better")),
    ]
    rows: list[TableRow] = []
    for row in comparison.rows:
        over_folds = None if row.to_baseline is None else row.to_baseline.over_folds
        if over_folds is not None:
            test, bayes = over_folds.frequentist, over_folds.bayesian
            difference = _with_interval(test.difference, test.interval)
            rows.append([row.label, difference, test.p_value, bayes.left, bayes.within, bayes.right])
    return Table(columns, rows)


def _with_interval(difference: float | None, ends: Interval | None) -> str:
    # z: what rounds to 0 has no minus.
    text = figure(difference, "+z.4f")
    return text if ends is None else f"{text} {interval(ends.low, ends.high, '+.4f')}"


def _by_attribute(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    groups: dict[str, list[Slice]] = {}
    for item in slices:
        groups.setdefault(item.attribute, []).append(item)
    return groups


def _slice_table(slices: Sequence[Slice]) -> Table:
    """A row a slice: its queries, and each model's mean with its difference to the baseline."""
    labels = [item.label for item in slices[0].rows]
    rows: list[TableRow] = [
        [slice_.name, slice_.num_queries, *(_in_slice(item.mean, item.difference) for item in slice_.rows)]
        for slice_ in slices
    ]
    return Table.of([slices[0].attribute, "queries", *labels], rows)


def _in_slice(mean: float, difference: float | None) -> str:
    return f"{mean:.4f}" if difference is None else f"{mean:.4f} ({difference:+.4f})"


def _published_table(figures: Mapping[str, Mapping[str, float]]) -> Table:
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    rows: list[TableRow] = [
        [model, *(values.get(name) for name in names)] for model, values in figures.items()
    ]
    return Table.of(["published", *names], rows, _QUALITY)


def _difference(row: ModelRow, comparison: Comparison) -> str:
    if row.label == comparison.baseline:
        return "baseline"
    if row.to_baseline is None:
        return "not paired"
    return _with_interval(row.to_baseline.difference, row.to_baseline.interval)


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> TableCell:
    """The mean; with difference and claim for a metric that was declared beside the primary one."""
    mean = row.metrics[metric]
    is_strong = metric == comparison.metric and comparison.beats_all(row.label)
    pair = comparison.claim(row.label, metric) if metric in comparison.declared else None
    text = None
    if pair is not None:
        difference = _with_interval(pair.difference, pair.interval)
        text = f"{figure(mean, _QUALITY)}, {difference} {claim_with_scope(pair)}"
    return TableCell(mean, text, emphasis=STRONG if is_strong else "")


def _claim(row: ModelRow, comparison: Comparison) -> str | None:
    pair = row.to_baseline
    if pair is None:
        return None
    return pair.claim if _common_scope(comparison) else claim_with_scope(pair)


def _common_scope(comparison: Comparison) -> str:
    """The scope of all claims in the table, for its header; empty where they have several."""
    scopes = {row.to_baseline.scope for row in comparison.rows if row.to_baseline is not None}
    return f" ({SCOPES[scopes.pop()]})" if len(scopes) == 1 else ""


def _wins(row: ModelRow) -> str | None:
    """On how many queries."""
    if row.to_baseline is None:
        return None
    statistics = row.to_baseline.statistics
    return f"{statistics.wins}/{statistics.ties}/{statistics.losses}"


def _note(row: ModelRow) -> str:
    """What to know of the difference: identical, few queries, or why there is no interval."""
    pair = row.to_baseline
    return "" if pair is None else pair.reason or pair.statistics.note


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
