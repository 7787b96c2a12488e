"""Tables of a comparison, its JSON record, and published figures.

Tables of a comparison as aligned text, Markdown, LaTeX, HTML, CSV and DataFrame.

Each column of the shown table is one entry in `_columns`, with its term of the glossary. CSV and DataFrame
are written from `_in_full`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ltrbench.compare.advice import (
    NextStep,
    Recommendation,
    about_claims,
    about_folds,
    about_intervals,
    about_training,
    about_tuning,
    all_notes,
    as_paragraphs,
    claim_with_scope,
    family_of,
    in_one_line,
    next_step,
    recommend,
    verdict,
)
from ltrbench.compare.cells import EvaluatedRun, SearchTotals, search_totals
from ltrbench.compare.grouping import Note, by_group, cells_in_words
from ltrbench.compare.groups import Across, Slice, across, across_in_words, interaction_sentence, interactions
from ltrbench.errors import ConfigError, DataError
from ltrbench.glossary import anchor
from ltrbench.metrics import Convention, preset
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.runs import TIMES
from ltrbench.statistics import SCOPES, Inference, Interval
from ltrbench.tables import STRONG, CellValue, Table, TableCell, TableColumn, TableRow, figure, paragraph
from ltrbench.tables.numbers import Form, interval
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    import pandas as pd

    from ltrbench.compare.comparison import Comparison, ModelRow
    from ltrbench.compare.pairs import OverFolds, Pair
    from ltrbench.data.sources import Published

# ---- A comparison as one JSON object: the output of --json and the content of comparison.json; null for
# NaN.


def comparisons_as_json(
    comparisons: Sequence[Comparison], slices: Mapping[str, Sequence[Slice]] | None = None
) -> dict[str, Any]:
    """Returns the settings, and one record per run, row, pair of the family, slice and note.

    The metrics of a run hold the values that it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their
    bare names, the values on test that were computed for this comparison under its convention.

    Args:
        slices: Data set -> its slices.
    """
    first = comparisons[0]
    rows = [(comparison, row) for comparison in comparisons for row in comparison.rows]
    return {
        "metric": first.metric,
        "convention": first.settings.convention.name,
        "convention_fields": first.settings.convention.describe(),
        "plugins": plugin_versions(),
        "family": family_of(first),
        "comparisons": [
            {
                "data": comparison.data,
                "baseline": comparison.baseline,
                "best": comparison.best,
                "family": family_of(comparison),
                "next_step": _fields(next_step(comparison)),
                "recommendation": _fields(recommend(comparison)),
            }
            for comparison in comparisons
        ],
        "draws": {"number": first.settings.num_draws, "seed": first.settings.seed},
        "verdicts": {comparison.data: verdict(comparison) for comparison in comparisons},
        "runs": [_run_record(comparison, row, item) for comparison, row in rows for item in row.evaluated],
        "rows": [_row_record(comparison, row) for comparison, row in rows],
        "claimed_metrics": [first.metric, *first.declared],
        "rope": first.settings.rope,
        "pairs": [_pair_record(comparison, pair) for comparison in comparisons for pair in comparison.claims],
        "slices": [
            {"data": data, **asdict(item)} for data, kinds in (slices or {}).items() for item in kinds
        ],
        "interactions": [
            {"data": item.data, **asdict(tested)}
            for item in comparisons
            for tested in interactions(item, (slices or {}).get(item.data, ()))
        ],
        "across_data_sets": _fields(across(comparisons)),
        "notes": [note for comparison in comparisons for note in comparison.notes],
        "note_entries": [
            {"data": comparison.data, **asdict(note)}
            for comparison in comparisons
            for note in comparison.note_entries
        ],
    }


def figures_by_name(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Returns flat name -> value, such as "native/ndcg@10" -> its mean over folds and seeds.

    Includes the difference to the baseline, its interval and its Holm-adjusted p-value.
    """
    figures: dict[str, float | None] = {}
    for comparison in comparisons:
        place = f"{comparison.data}/" if len(comparisons) > 1 else ""
        for row in comparison.rows:
            figures |= {f"{place}{row.label}/{name}": value for name, value in row.metrics.items()}
            if row.to_baseline is not None:
                against = f"{place}{row.label}/{comparison.metric} minus {comparison.baseline}"
                low, high = _ends(row.to_baseline.interval) or (None, None)
                figures |= {
                    against: row.to_baseline.difference,
                    f"{against} low": low,
                    f"{against} high": high,
                }
                figures[f"{against} p Holm"] = row.to_baseline.p_adjusted["holm"]["randomisation"]
    return {name: value for name, value in figures.items() if value is not None}


def claims(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Returns pair -> claim with scope: "native vs lightgbm, ndcg@10" -> "better (these trained models)"."""
    return {
        f"{f'{comparison.data}: ' if len(comparisons) > 1 else ''}{pair.a} vs {pair.b}, {pair.metric}": (
            claim_with_scope(pair)
        )
        for comparison in comparisons
        for pair in comparison.claims
    }


def _run_record(comparison: Comparison, row: ModelRow, evaluated: EvaluatedRun) -> dict[str, Any]:
    result = evaluated.run.result
    computed = {name: None if math.isnan(mean) else mean for name, mean in evaluated.evaluation.means.items()}
    return {
        "model": result.model,
        "ranker": dict(result.ranker),
        "params": result.params,
        "own_settings": dict(result.own_settings),
        "search": dict(result.search) or None,
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "resample": result.data.get("resample"),
        "seed": result.seed,
        "fingerprints": evaluated.cell.fingerprints,
        "metrics": {**result.metrics, **computed},
        "seconds": dict(result.seconds),
        "shared_machine": result.shared_machine,
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
        "versions": dict(result.versions),
        "commit": result.commit,
        "path": str(evaluated.run.path),
    }


def _row_record(comparison: Comparison, row: ModelRow) -> dict[str, Any]:
    pair = row.to_baseline
    return {
        "data": comparison.data,
        "label": row.label,
        "trainings": comparison.replicates[row.label],
        "search": _fields(search_totals(row.group)),
        "baseline": comparison.baseline,
        "metrics": dict(row.metrics),
        "interval": _ends(row.interval),
        "difference": None if pair is None else pair.difference,
        "difference_interval": None if pair is None else _ends(pair.interval),
        "scope": None if pair is None else pair.scope,
        "claim": None if pair is None else pair.claim,
        "num_queries": 0 if pair is None else pair.statistics.num_queries,
        "difference_to_best_interval": _ends(row.to_best),
        "seconds": dict(row.seconds),
        "peak_memory_mb": row.peak_memory_mb,
        "model_mb": row.model_mb,
        "trees": row.trees,
    }


def _pair_record(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    statistics = pair.statistics
    return {
        "data": comparison.data,
        "a": pair.a,
        "b": pair.b,
        "metric": pair.metric,
        "scope": pair.scope,
        "claim": pair.claim,
        "reason": pair.reason,
        "difference": pair.difference,
        "interval": _ends(pair.interval),
        "interval_method": None if pair.interval is None else pair.interval.method,
        "inference": _fields(pair.inference),
        "models_interval": _ends(statistics.interval),
        "models_interval_method": None if statistics.interval is None else statistics.interval.method,
        "p_value": dict(statistics.p_values),
        "p_adjusted": {name: dict(values) for name, values in pair.p_adjusted.items()},
        "effect_size": statistics.effect_size,
        "wins": statistics.wins,
        "ties": statistics.ties,
        "losses": statistics.losses,
        "num_queries": statistics.num_queries,
        "note": statistics.note,
        "over_folds": _fields(pair.over_folds),
        "power": asdict(pair.power),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _fields(
    item: Across | NextStep | Recommendation | Inference | OverFolds | SearchTotals | None,
) -> dict[str, Any] | None:
    return None if item is None else asdict(item)


# ---- Published values of a data set, beside the rows of a comparison if their convention is known.


def published_table(comparison: Comparison, published: Published, form: Form) -> Table:
    """Returns a table of the published values.

    If they have a convention, the rows of the comparison follow, evaluated under it and not under the
    convention of the comparison.

    Args:
        form: format of the values.
    """
    metrics = list(dict.fromkeys(name for values in published.figures.values() for name in values))
    figures = [(model, [values.get(name) for name in metrics]) for model, values in published.figures.items()]
    columns = [TableColumn(name, form) for name in metrics]
    first = TableColumn("published", left=True)
    if published.convention is None:
        rows: list[TableRow] = [[model, *values] for model, values in figures]
        return Table([first, *columns], rows, "Published values", "compact")
    convention = preset(published.convention)
    rows = [["published", model, *values] for model, values in figures]
    rows += [
        [f"here, {_test_sets(row)}", row.label, *_means(row, metrics, convention)] for row in comparison.rows
    ]
    origin = TableColumn("origin", left=True)
    model = TableColumn("model", left=True)
    caption = f"Published values, and this comparison under the convention {convention.name}"
    return Table([origin, model, *columns], rows, caption, "compact")


def about_published(published: Published) -> str:
    """Returns the source of the published values, and how the rows of the comparison are evaluated."""
    source = published.source.strip()
    if published.convention is None:
        return source
    return (
        f"{source} The rows of this comparison are evaluated under the same convention, "
        f"{published.convention}."
    )


def _test_sets(row: ModelRow) -> str:
    return cells_in_words(sorted(row.group.cells, key=lambda cell: cell.fold or 0))


def _means(row: ModelRow, metrics: Sequence[str], convention: Convention) -> list[float | None]:
    return [_published_mean(row, metric, convention) for metric in metrics]


def _published_mean(row: ModelRow, metric: str, convention: Convention) -> float | None:
    """Returns a mean; None if the metric is unknown, or the convention does not define it on these data."""
    try:
        return row.group.under(convention, [metric]).mean(metric)
    except (ConfigError, DataError):
        return None


_QUALITY = ".4f"
MAIN_COLUMNS = 8
"""Number of columns of the table on a terminal, the first ones of `_columns`."""


def render(
    comparison: Comparison,
    width: int | None = None,
    slices: Sequence[Slice] = (),
    glossary_file: str | None = None,
    most_columns: int | None = MAIN_COLUMNS,
    shown_notes: Collection[Note] = (),
) -> str:
    """Returns the comparison as text: title, recommendation, table, notes, folds, slices, published values.

    Args:
        width: Width of the terminal in columns; None for Markdown with long lines.
        glossary_file: File that notes and columns link to. Without it, each group of notes lists its terms,
            for the command `glossary`.
        most_columns: Number of columns of the main table; None for all of them.
        shown_notes: Notes that another table has shown.
    """
    first, *rest = [paragraph(text, width) for text in (*answer(comparison), "")]
    parts = [paragraph(_title(comparison), width), first, *as_paragraphs(comparison, width), *rest]
    parts += [_main_table(comparison, _shown_columns(comparison)[:most_columns]).markdown(width)]
    notes = [note for note in all_notes(comparison) if note not in shown_notes]
    parts += _grouped_notes(notes, width, glossary_file)
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
    parts += _about_columns(comparison, width, glossary_file, most_columns)
    return "\n\n".join(filter(None, parts)) + "\n"


def render_all(
    comparisons: Sequence[Comparison],
    width: int | None,
    slices: Mapping[str, Sequence[Slice]] | None = None,
    most_columns: int | None = MAIN_COLUMNS,
) -> str:
    """Returns the tables of all data sets, with each note once, and the tests over data sets."""
    parts: list[str] = []
    shown: set[Note] = set()
    for comparison in comparisons:
        of_data = (slices or {}).get(comparison.data, ())
        parts.append(render(comparison, width, of_data, None, most_columns, shown).rstrip())
        shown |= {*all_notes(comparison)}
    return "\n\n".join([*parts, *filter(None, [across_in_words(across(comparisons))])])


def answer(comparison: Comparison) -> list[str]:
    """Returns the paragraphs above the table: models to take, certainty, claims; empty with a single row."""
    recommended = recommend(comparison)
    return [] if recommended is None else [*recommended.paragraphs, verdict(comparison)]


def _grouped_notes(notes_of_table: Sequence[Note], width: int | None, glossary_file: str | None) -> list[str]:
    """Returns a heading and a list for each group of notes; both name the terms of the glossary."""
    parts = []
    for group, notes in by_group(notes_of_table).items():
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


def _about_columns(
    comparison: Comparison, width: int | None, glossary_file: str | None, most_columns: int | None
) -> list[str]:
    """Returns the last lines: links to the columns in the glossary, or the commands that show more."""
    if glossary_file is not None:
        columns = [_linked(term, glossary_file) for term in column_terms(comparison)]
        return [f"Columns: {', '.join(columns)}."]
    shown = _shown_columns(comparison)
    more = len(shown) - len(shown[:most_columns])
    sentences = [f"{more} more columns: python -m ltrbench compare DIR --columns all"] * (more > 0)
    sentences += ["Meaning of a column or term: python -m ltrbench glossary TERM"]
    return [paragraph(sentence, width) for sentence in sentences]


def terms_of(comparison: Comparison) -> list[str]:
    """Returns the terms of the glossary that the table and its notes use."""
    return [*column_terms(comparison), *(note.term for note in all_notes(comparison))]


def column_terms(comparison: Comparison) -> list[str]:
    """Returns the term of each column of the table, once each."""
    return list(dict.fromkeys(item.term for item in _shown_columns(comparison)))


def as_html(comparison: Comparison) -> str:
    """Returns the table with title, recommendation, claims and notes, for a notebook."""
    notes = [str(note) for of_group in by_group(all_notes(comparison)).values() for note in of_group]
    paragraphs = answer(comparison)
    lines = [*paragraphs[:1], *in_one_line(comparison), *paragraphs[1:], *notes]
    return _main_table(comparison, _shown_columns(comparison)).html(lines)


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
    columns = [item for item in _shown_columns(comparison) if not item.is_cost]
    return heading + _main_table(comparison, columns).latex()


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
        "detectable": None if pair is None else pair.power.detectable,
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


def _main_table(comparison: Comparison, columns: Sequence[_Shown]) -> Table:
    """Returns one row per model; the mean of a row that is claimed to be better than all others is strong."""
    rows = [[item.cell(row) for item in columns] for row in comparison.rows]
    return Table([item.column for item in columns], rows, _title(comparison))


def _shown_columns(comparison: Comparison) -> list[_Shown]:
    return [item for item in _columns(comparison) if not item.optional or item.has_values(comparison.rows)]


def _columns(comparison: Comparison) -> list[_Shown]:
    """Returns all columns, the most important ones first."""
    first, *others = comparison.rows[0].metrics
    declared = [name for name in others if name in comparison.declared]

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
        _Shown(
            "minimum detectable difference",
            TableColumn("detectable", _QUALITY),
            lambda row: None if row.to_baseline is None else row.to_baseline.power.detectable,
        ),
        *map(metric, declared),
        _Shown("note", TableColumn("note"), lambda row: _note(row) or None, optional=True),
    ]
    return [
        _Shown("model", TableColumn("model", left=True), lambda row: row.label),
        metric(first),
        *(paired if len(comparison.rows) > 1 else []),
        seconds("fit", ".2f"),
        seconds("predict", ".3f"),
        cost("trees", lambda row: row.trees, ".0f"),
        *(metric(name) for name in others if name not in declared),
        _Shown("better, tied, worse", TableColumn("better/tied/worse"), _wins, optional=True),
        _Shown("trainings", TableColumn("trainings"), lambda row: comparison.replicates[row.label]),
        seconds("monitor", ".2f"),
        seconds("fit_clean", ".2f", optional=True),
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
