"""Tables of a comparison as aligned text, Markdown, LaTeX, HTML, CSV and DataFrame.

Each column of the shown table is one entry in `_columns`, with its term of the glossary. CSV and DataFrame
are written from `_in_full`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ltrbench.compare.analysis.methods import about_claims, about_folds, about_intervals, all_notes
from ltrbench.compare.analysis.next_step import as_paragraphs, in_one_line
from ltrbench.compare.analysis.recommendation import recommend
from ltrbench.compare.analysis.slices import Slice, interaction_sentence, interactions
from ltrbench.compare.analysis.verdict import about_training, about_tuning, claim_with_scope, verdict
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.notes import by_group
from ltrbench.compare.output.published import about_published, published_table
from ltrbench.glossary import anchor
from ltrbench.results import TIMES
from ltrbench.statistics import SCOPES, Interval
from ltrbench.tables import STRONG, CellValue, Table, TableCell, TableColumn, TableRow, figure, paragraph
from ltrbench.tables.numbers import Form, interval
from ltrbench.untrusted.escaping import visible

if TYPE_CHECKING:
    import pandas as pd

_QUALITY = ".4f"


def render(
    comparison: Comparison,
    width: int | None = None,
    slices: Sequence[Slice] = (),
    glossary_file: str | None = None,
) -> str:
    """Returns the comparison as text: title, recommendation, table, notes, folds, slices, published values.

    Args:
        width: Width of the terminal in columns; None for Markdown with long lines.
        glossary_file: File that notes and columns link to. Without it, each group of notes lists its terms,
            for the command `glossary`.
    """
    parts = [paragraph(text, width) for text in (_title(comparison), *answer(comparison))]
    parts += [*as_paragraphs(comparison, width), _main_table(comparison).markdown(width)]
    parts += _grouped_notes(comparison, width, glossary_file)
    if any(row.to_baseline is not None and row.to_baseline.over_folds is not None for row in comparison.rows):
        parts += [paragraph(about_folds(comparison), width), _fold_table(comparison).markdown(width)]
    tested = interactions(comparison, slices)
    for attribute, slices_of_attribute in _by_attribute(slices).items():
        parts.append(_slice_table(slices_of_attribute).markdown(width))
        sentence = interaction_sentence(comparison.baseline, tested, attribute)
        parts += [paragraph(sentence, width)] if sentence else []
    if comparison.published is not None:
        parts.append(paragraph(about_published(comparison.published), width))
        parts.append(published_table(comparison, comparison.published, _QUALITY).markdown(width))
    return "\n\n".join([*parts, _about_columns(comparison, width, glossary_file)]) + "\n"


def answer(comparison: Comparison) -> list[str]:
    """Returns the paragraphs above the table: models to take, certainty, claims; empty with a single row."""
    recommended = recommend(comparison)
    return [] if recommended is None else [*recommended.paragraphs, verdict(comparison)]


def _grouped_notes(comparison: Comparison, width: int | None, glossary_file: str | None) -> list[str]:
    """Returns a heading and a list for each group of notes; both name the terms of the glossary."""
    parts = []
    for group, notes in by_group(all_notes(comparison)).items():
        heading = group if width is not None else f"**{group}**"
        if glossary_file is None:
            heading += f" (glossary: {', '.join(dict.fromkeys(note.term for note in notes))})"
        links = [f" ({_linked(note.term, glossary_file)})" if glossary_file else "" for note in notes]
        # After `paragraph`, which shows the brackets of a link in a name as text.
        lines = [
            f"{paragraph(f'- {note}', width, '  ')}{link}" for note, link in zip(notes, links, strict=True)
        ]
        parts += [paragraph(heading, width), "\n".join(lines)]
    return parts


def _linked(term: str, glossary_file: str) -> str:
    return f"[{term}]({glossary_file}#{anchor(term)})"


def _about_columns(comparison: Comparison, width: int | None, glossary_file: str | None) -> str:
    """Returns the last line: links to the columns in the glossary, or the command that prints an entry."""
    if glossary_file is not None:
        columns = [_linked(term, glossary_file) for term in column_terms(comparison)]
        return f"Columns: {', '.join(columns)}."
    return paragraph("Meaning of a column or term: python -m ltrbench glossary TERM", width)


def terms_of(comparison: Comparison) -> list[str]:
    """Returns the terms of the glossary that the table and its notes use."""
    return [*column_terms(comparison), *(note.term for note in all_notes(comparison))]


def column_terms(comparison: Comparison) -> list[str]:
    """Returns the term of each column of the table, once each."""
    return list(dict.fromkeys(item.term for item in _shown_columns(comparison)))


def as_html(comparison: Comparison) -> str:
    """Returns the table with title, recommendation, claims and notes, for a notebook."""
    notes = [str(note) for of_group in by_group(all_notes(comparison)).values() for note in of_group]
    return _main_table(comparison).html([*answer(comparison), *in_one_line(comparison), *notes])


def as_latex(comparison: Comparison) -> str:
    """Returns the table for a paper; it needs \\usepackage{booktabs}.

    A mean is bold if its row is claimed to be better than every other row. Times, sizes and memory are left
    out.
    """
    sentences = [
        about_intervals(comparison),
        about_claims(comparison),
        about_training(comparison),
        about_tuning(comparison),
    ]
    how = " ".join(filter(None, sentences)) if comparison.pairs else ""
    heading = f"% {visible(comparison.data)}, {_counts(comparison)}. {visible(how)}\n"
    return heading + _main_table(comparison, with_costs=False).latex()


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """Returns one row per model, with numbers in full precision; empty if not available."""
    return _in_full(comparisons).csv()


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """Returns one row per model with the columns of `as_csv`; NaN or None if not available."""
    # Imported here, because pandas takes half a second to import.
    import pandas as pd

    frame = pd.DataFrame(_in_full([comparison]).records()).drop(columns="data")
    claims = (f"claim in {metric}" for metric in comparison.declared)
    texts = ("model", "baseline", "note", "claim", "scope", "trainings", *claims)
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def _title(comparison: Comparison) -> str:
    return f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"


def _in_full(comparisons: Sequence[Comparison]) -> Table:
    """Returns one row per model of each comparison, with all of its values."""
    metrics = list(dict.fromkeys(name for item in comparisons for name in item.rows[0].metrics))
    runs = [run for item in comparisons for row in item.rows for run in row.runs]
    # Of all runs, so that the columns do not depend on which runs shared the machine.
    seconds = list(dict.fromkeys(kind for run in runs for kind in run.result.seconds))
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
    """Returns column name -> value for everything but the means and times of a row."""
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
    """Returns the claim with its scope in a further metric that carries claims."""
    pair = comparison.claim(row.label, metric) if metric in comparison.declared else None
    return None if pair is None else claim_with_scope(pair)


@dataclass(frozen=True)
class _Shown:
    """A column and the cells of the rows.

    Attributes:
        term: The entry of the glossary that explains the column.
        cell: Returns the cell of a row.
        optional: Whether the column is left out if no row has a value.
        is_cost: Whether the column is a time, a size or memory.
    """

    term: str
    column: TableColumn
    cell: Callable[[ModelRow], TableCell | CellValue]
    optional: bool = False
    is_cost: bool = False

    def has_values(self, rows: Sequence[ModelRow]) -> bool:
        return any(self.cell(row) is not None for row in rows)


def _main_table(comparison: Comparison, with_costs: bool = True) -> Table:
    """Returns one row per model; the mean of a row that is claimed to be better than all others is strong."""
    columns = _shown_columns(comparison, with_costs)
    rows = [[item.cell(row) for item in columns] for row in comparison.rows]
    return Table([item.column for item in columns], rows, _title(comparison))


def _shown_columns(comparison: Comparison, with_costs: bool = True) -> list[_Shown]:
    return [
        item
        for item in _columns(comparison)
        if (with_costs or not item.is_cost) and (not item.optional or item.has_values(comparison.rows))
    ]


def _columns(comparison: Comparison) -> list[_Shown]:
    first, *others = comparison.rows[0].metrics

    def metric(name: str) -> _Shown:
        return _Shown("metric", TableColumn(name, _QUALITY), lambda row: _mean(row, name, comparison))

    def cost(
        header: str, value: Callable[[ModelRow], float | None], form: Form, optional: bool = True
    ) -> _Shown:
        return _Shown(header, TableColumn(header, form), value, optional, is_cost=True)

    def seconds(kind: str, form: Form, optional: bool = False) -> _Shown:
        return cost(f"{TIMES[kind]} s", lambda row: row.seconds.get(kind), form, optional)

    difference = f"difference to {comparison.baseline} [95 % interval]"
    claim = f"claim{_common_scope(comparison)}"
    paired = [
        _Shown("difference", TableColumn(difference), lambda row: _difference(row, comparison)),
        _Shown("claim", TableColumn(claim), lambda row: _claim(row, comparison)),
        _Shown("better, tied, worse", TableColumn("better/tied/worse"), _wins, optional=True),
        _Shown("note", TableColumn("note"), lambda row: _note(row) or None, optional=True),
    ]
    return [
        _Shown("model", TableColumn("model", left=True), lambda row: row.label),
        metric(first),
        *(paired if len(comparison.rows) > 1 else []),
        *map(metric, others),
        _Shown("trainings", TableColumn("trainings"), lambda row: comparison.replicates[row.label]),
        cost("trees", lambda row: row.trees, ".0f"),
        seconds("fit", ".2f"),
        seconds("monitor", ".2f"),
        seconds("fit_clean", ".2f", optional=True),
        seconds("predict", ".3f"),
        cost("memory MB", lambda row: row.peak_memory_mb, ".0f"),
    ]


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
    # z: no minus sign on values that round to 0.
    text = figure(difference, "+z.4f")
    return text if ends is None else f"{text} {interval(ends.low, ends.high, '+.4f')}"


def _by_attribute(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    groups: dict[str, list[Slice]] = {}
    for item in slices:
        groups.setdefault(item.attribute, []).append(item)
    return groups


def _slice_table(slices: Sequence[Slice]) -> Table:
    """Returns one row per slice: number of queries, mean and difference to the baseline of each model."""
    labels = [item.label for item in slices[0].rows]
    rows: list[TableRow] = [
        [slice_.name, slice_.num_queries, *(_in_slice(item.mean, item.difference) for item in slice_.rows)]
        for slice_ in slices
    ]
    return Table.of([slices[0].attribute, "queries", *labels], rows)


def _in_slice(mean: float, difference: float | None) -> str:
    return f"{mean:.4f}" if difference is None else f"{mean:.4f} ({difference:+.4f})"


def _difference(row: ModelRow, comparison: Comparison) -> str:
    if row.label == comparison.baseline:
        return "baseline"
    if row.to_baseline is None:
        return "not paired"
    return _with_interval(row.to_baseline.difference, row.to_baseline.interval)


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> TableCell:
    """Returns the mean; for a further metric that carries claims also the difference and the claim."""
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
    """Returns the scope of all claims, for the header; empty if claims have different scopes."""
    scopes = {row.to_baseline.scope for row in comparison.rows if row.to_baseline is not None}
    return f" ({SCOPES[scopes.pop()]})" if len(scopes) == 1 else ""


def _wins(row: ModelRow) -> str | None:
    """Returns the numbers of queries on which the row is better, tied and worse."""
    if row.to_baseline is None:
        return None
    statistics = row.to_baseline.statistics
    return f"{statistics.wins}/{statistics.ties}/{statistics.losses}"


def _note(row: ModelRow) -> str:
    """Returns a note on the difference: identical, few queries, or why there is no interval."""
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
