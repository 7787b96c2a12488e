"""A comparison as text, Markdown, LaTeX, HTML for notebooks, CSV, DataFrame and JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ltrbench.compare.advice import (
    NextStep,
    Recommendation,
    about_claims,
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
from ltrbench.compare.cells import EvaluatedRun, Note, by_group
from ltrbench.compare.fairness import SearchTotals, search_totals
from ltrbench.compare.groups import Across, Slice, across, interactions
from ltrbench.compare.leaderboard import (
    MAIN_COLUMNS,
    column_terms,
    columns_of_tables,
    in_full,
    leaderboard,
    values_of,
)
from ltrbench.compare.sections import OF_TEXT
from ltrbench.compare.sections.claims import data_sets_chapter
from ltrbench.compare.views import Shown, section_text
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.statistics import Inference, Interval
from ltrbench.tables import anchor, paragraph
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    import pandas as pd

    from ltrbench.compare.comparison import Comparison, ModelRow, OverFolds, Pair

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
        prefix = f"{comparison.data}/" if len(comparisons) > 1 else ""
        for row in comparison.rows:
            figures |= {f"{prefix}{row.label}/{name}": value for name, value in row.metrics.items()}
            if row.to_baseline is not None:
                against = f"{prefix}{row.label}/{comparison.metric} minus {comparison.baseline}"
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
    values = values_of(comparison, row)
    difference_interval = None if row.to_baseline is None else _ends(row.to_baseline.interval)
    costs = ("peak_memory_mb", "model_mb", "trees")
    return {
        "data": comparison.data,
        "label": row.label,
        "trainings": values["trainings"],
        "search": _fields(search_totals(row.group)),
        "baseline": values["baseline"],
        "metrics": dict(row.metrics),
        "interval": _ends(row.interval),
        "difference": values["difference"],
        "difference_interval": difference_interval,
        "scope": values["scope"],
        "claim": values["claim"],
        "num_queries": values["num_queries"] or 0,
        "difference_to_best_interval": _ends(row.to_best),
        "seconds": dict(row.seconds),
        **{name: values[name] for name in costs},
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
    shown = Shown(comparison, slices)
    columns = columns_of_tables(comparison)
    main = columns[: None if most_columns is None else most_columns - 1]
    first, *rest = [paragraph(text, width) for text in (*answer(comparison), "")]
    parts = [paragraph(_title(comparison), width), first, *as_paragraphs(comparison, width), *rest]
    parts.append(leaderboard(shown, comparison.rows, main).markdown(width))
    notes = [note for note in all_notes(comparison) if note not in shown_notes]
    parts += _grouped_notes(notes, width, glossary_file)
    sections = (make(shown) for make in OF_TEXT)
    parts += [section_text(section, width) for section in sections if section is not None]
    if glossary_file is not None:
        links = [_linked(term, glossary_file) for term in column_terms(comparison)]
        parts.append(f"Columns: {', '.join(links)}.")
    else:
        more = len(columns) - len(main)
        parts.append(f"{more} more columns: python -m ltrbench compare DIR --columns all" if more else "")
        parts.append("Meaning of a column or term: python -m ltrbench glossary TERM")
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
    return "\n\n".join(filter(None, [*parts, text_over_data_sets(comparisons, width)]))


def text_over_data_sets(comparisons: Sequence[Comparison], width: int | None) -> str:
    """Returns means and tests over data sets; empty with a single data set."""
    over = across(comparisons)
    if over is None:
        return ""
    chapter = data_sets_chapter(over, comparisons[0].metric)
    return "\n\n".join(section_text(section, width) for section in chapter.sections)


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


def terms_of(comparison: Comparison) -> list[str]:
    """Returns the terms of the glossary that the table and its notes use."""
    return [*column_terms(comparison), *(note.term for note in all_notes(comparison))]


def as_html(comparison: Comparison) -> str:
    """Returns the table with title, recommendation, claims and notes, for a notebook."""
    notes = [str(note) for of_group in by_group(all_notes(comparison)).values() for note in of_group]
    paragraphs = answer(comparison)
    lines = [*paragraphs[:1], *in_one_line(comparison), *paragraphs[1:], *notes]
    return leaderboard(
        Shown(comparison), comparison.rows, columns_of_tables(comparison), _title(comparison)
    ).html(lines)


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
    columns = [item for item in columns_of_tables(comparison) if not item.is_cost]
    return heading + leaderboard(Shown(comparison), comparison.rows, columns).latex()


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """Returns one row per model, with numbers in full precision; empty if not available."""
    return in_full(comparisons).csv()


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """Returns one row per model with the columns of `as_csv`; NaN or None if not available."""
    # Imported here, because pandas takes half a second to import.
    import pandas as pd

    frame = pd.DataFrame(in_full([comparison]).records()).drop(columns="data")
    claims = (f"claim in {metric}" for metric in comparison.declared)
    texts = ("model", "baseline", "note", "claim", "scope", "trainings", *claims)
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def _title(comparison: Comparison) -> str:
    return f"{comparison.data}: test {comparison.metric} and others, {_counts(comparison)}"


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
