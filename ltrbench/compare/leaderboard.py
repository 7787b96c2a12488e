"""The leaderboard of a comparison: values of the rows, their columns in tables, and their records in JSON.

`values_of` computes each value of a row once; table.csv, DataFrame and JSON contain these values. `_columns`
declares each shown column once, for tables (terminal, Markdown, LaTeX, notebook) and for the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ltrbench.compare.advice import family_of, recommend, verdict
from ltrbench.compare.cells import EvaluatedRun
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.fairness import search_totals
from ltrbench.compare.pairs import Pair
from ltrbench.compare.planning import next_step
from ltrbench.compare.slicing import across, interactions
from ltrbench.compare.views import Shown
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.plots import Ends
from ltrbench.runs.record import TIMES
from ltrbench.statistics import BETTER, SCOPES, WORSE, Interval
from ltrbench.tables import (
    DIFFERENCE,
    QUALITY,
    SIGNED,
    STRONG,
    CellValue,
    Form,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    format_interval,
    format_number,
)

if TYPE_CHECKING:
    import pandas as pd

MAIN_COLUMNS = 8
"""Number of columns of the table on a terminal, the first ones of `_columns`."""

_OF_QUERIES = ("effect_size", "wins", "ties", "losses", "num_queries")
"""Values of `PairStatistics` in table.csv and JSON."""

_OF_RESULTS = (
    *(
        "model",
        "ranker",
        "params",
        "own_settings",
        "seed",
        "seconds",
        "shared_machine",
        "peak_memory_mb",
    ),
    *("best_iteration", "versions", "commit"),
)
_OF_ROWS = (
    "baseline",
    "trainings",
    "difference",
    "scope",
    "claim",
    "peak_memory_mb",
    "model_mb",
    "trees",
)
_OF_PAIRS = ("a", "b", "metric", "scope", "claim", "reason", "difference")
"""Fields of `RunResult`, of `values_of` and of `Pair` in JSON."""

Cell = TableCell | CellValue


def values_of(comparison: Comparison, row: ModelRow) -> dict[str, CellValue]:
    """Returns column name of table.csv -> value, without the metrics and the times; None if not available."""
    pair = row.to_baseline
    # None has none of these attributes.
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
        **{name: getattr(statistics, name, None) for name in _OF_QUERIES},
        "note": None if pair is None else pair.reason or pair.statistics.note or None,
        "trees": row.trees,
        "peak_memory_mb": row.peak_memory_mb,
        "model_mb": row.model_mb,
    }


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """Returns the content of table.csv for one comparison; `NotebookComparison.to_frame` describes it."""
    import pandas as pd  # half a second to import

    frame = pd.DataFrame(in_full([comparison]).records()).drop(columns="data")
    claims = (f"claim in {metric}" for metric in comparison.declared)
    texts = ("model", "baseline", "note", "claim", "scope", "trainings", *claims)
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def in_full(comparisons: Sequence[Comparison]) -> Table:
    """Returns one row per model of each comparison, with all of its values: the content of table.csv."""
    metrics = list(
        dict.fromkeys(name for item in comparisons for name in item.rows[0].metrics)
    )
    runs = [run for item in comparisons for row in item.rows for run in row.runs]
    # Of all runs, so that the columns do not depend on which runs shared the machine.
    seconds = list(dict.fromkeys(kind for run in runs for kind in run.result.seconds))
    declared = list(
        dict.fromkeys(name for item in comparisons for name in item.declared)
    )
    rows: list[dict[str, CellValue]] = []
    for comparison in comparisons:
        for row in comparison.rows:
            pairs = {
                metric: comparison.claim(row.label, metric)
                for metric in comparison.declared
            }
            claims = {
                name: f"{pair.claim} ({SCOPES[pair.scope]})"
                for name, pair in pairs.items()
                if pair
            }
            rows.append(
                {"data": comparison.data, "model": row.label}
                | {metric: row.metrics.get(metric) for metric in metrics}
                | values_of(comparison, row)
                | {f"claim in {name}": claims.get(name) for name in declared}
                | {f"{kind}_seconds": row.seconds.get(kind) for kind in seconds}
            )
    return Table.of(list(rows[0]), [list(row.values()) for row in rows])


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard.

    Attributes:
        term: The entry of the glossary that explains the column.
        cell: Returns the cell of a row.
        in_tables, in_report: Outputs with the column: terminal, Markdown, LaTeX and notebook, or the report.
        optional: Whether the column is left out if no row has a value.
        is_cost: Whether the column is a time, a size or memory.
    """

    term: str
    column: TableColumn
    cell: Callable[[ModelRow], Cell]
    in_tables: bool = True
    in_report: bool = False
    optional: bool = False
    is_cost: bool = False


def leaderboard(
    shown: Shown, rows: Sequence[ModelRow], columns: Sequence[Column], caption: str = ""
) -> Table:
    """Returns one row per model; the mean of a row that is claimed to be better than all others is strong."""
    comparison = shown.comparison
    tags = {
        row.label: ["baseline"] * (row.label == comparison.baseline) for row in rows
    }
    if comparison.best in tags:
        tags[comparison.best].append("highest")
    cells: list[TableRow] = [
        [
            shown.cell_of(row.label, ", ".join(tags[row.label])),
            *(item.cell(row) for item in columns),
        ]
        for row in rows
    ]
    return Table(
        [TableColumn("model", left=True), *(item.column for item in columns)],
        cells,
        caption,
    )


def columns_of_report(comparison: Comparison) -> list[Column]:
    """Returns the columns of the report after the name of the model."""
    return [item for item in _columns(comparison) if item.in_report]


def columns_of_tables(comparison: Comparison) -> list[Column]:
    """Returns the columns of tables after the name of the model, the most important ones first."""
    return [item for item in _columns(comparison) if item.in_tables]


def _columns(comparison: Comparison) -> list[Column]:
    """Returns all columns but the first, without optional ones that no row has."""
    first, *others = comparison.rows[0].metrics
    declared = [name for name in others if name in comparison.declared]
    values = {row.label: values_of(comparison, row) for row in comparison.rows}
    scopes = {
        row.to_baseline.scope for row in comparison.rows if row.to_baseline is not None
    }
    scope = f" ({_short(scopes.pop())})" if len(scopes) == 1 else ""
    bars = _bars(comparison.rows)

    def value(name: str) -> Callable[[ModelRow], CellValue]:
        return lambda row: values[row.label][name]

    def of_pair(cell: Callable[[Pair], Cell]) -> Callable[[ModelRow], Cell]:
        return lambda row: None if row.to_baseline is None else cell(row.to_baseline)

    def metric(name: str) -> Column:
        column = TableColumn(name, QUALITY, with_notes=name != first)
        return Column(
            "metric", column, lambda row: _mean(row, name, comparison), in_report=True
        )

    def difference(row: ModelRow) -> TableCell:
        if row.to_baseline is None:
            return TableCell(
                text="baseline" if row.label == comparison.baseline else "not paired"
            )
        return difference_cell(row.to_baseline)

    def claim(pair: Pair) -> TableCell:
        return TableCell(pair.claim, note="" if scope else f"({_short(pair.scope)})")

    def cost(
        term: str, form: Form, cell: Callable[[ModelRow], Cell], optional: bool = True
    ) -> Column:
        return Column(
            term, TableColumn(term, form), cell, optional=optional, is_cost=True
        )

    def seconds(kind: str, form: Form, optional: bool = False) -> Column:
        return cost(
            f"{TIMES[kind]} s", form, lambda row: row.seconds.get(kind), optional
        )

    header = f"difference to {comparison.baseline} [{comparison.settings.confidence} interval]"
    interval = TableColumn("interval", left=True, sortable=False)
    claims = TableColumn(f"claim{scope}", left=True, with_notes=True)
    detectable = TableColumn("detectable", QUALITY)
    paired = [
        Column(
            "difference",
            TableColumn(header, DIFFERENCE, with_notes=True),
            difference,
            in_report=True,
        ),
        Column(
            "difference",
            interval,
            lambda row: bars.get(row.label),
            False,
            in_report=True,
        ),
        Column("claim", claims, of_pair(claim), in_report=True),
        Column(
            "minimum detectable difference",
            detectable,
            value("detectable"),
            in_report=True,
        ),
        *map(metric, declared),
        Column(
            "note",
            TableColumn("note", left=True),
            value("note"),
            in_report=True,
            optional=True,
        ),
    ]
    wins, effect = TableColumn("better/tied/worse"), TableColumn("effect size", SIGNED)
    compared = [
        Column(
            "better, tied, worse",
            wins,
            of_pair(wins_cell),
            in_report=True,
            optional=True,
        ),
        Column(
            "effect size", effect, value("effect_size"), in_tables=False, in_report=True
        ),
    ]
    several = len(comparison.rows) > 1
    columns = [
        metric(first),
        *(paired if several else []),
        seconds("fit", ".2f"),
        seconds("predict", ".3f"),
        cost("trees", ".0f", value("trees")),
        *(metric(name) for name in others if name not in declared),
        *(compared if several else []),
        Column("trainings", TableColumn("trainings"), value("trainings")),
        seconds("monitor", ".2f"),
        seconds("fit_clean", ".2f", optional=True),
        cost("memory MB", ".0f", value("peak_memory_mb")),
    ]
    return [
        item
        for item in columns
        if not item.optional
        or any(item.cell(row) is not None for row in comparison.rows)
    ]


def _short(scope: str) -> str:
    """Returns the name of a scope for a column; the paragraphs above the table have the full name."""
    return SCOPES[scope].replace(" of this collection", "")


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> TableCell:
    """Returns the mean, strong if the row is claimed to be better than every other row.

    The note has the interval of the primary metric, and the claim in another metric of the family.
    """
    mean = row.metrics[metric]
    if metric == comparison.metric:
        emphasis = STRONG if comparison.beats_all(row.label) else ""
        return TableCell(mean, note=between(row.interval, QUALITY), emphasis=emphasis)
    pair = (
        comparison.claim(row.label, metric) if metric in comparison.declared else None
    )
    if pair is None:
        return TableCell(mean)
    difference = format_number(pair.difference, DIFFERENCE)
    note = " ".join(filter(None, [difference, between(pair.interval), pair.claim]))
    return TableCell(mean, note=note)


def difference_cell(pair: Pair) -> TableCell:
    """Returns the difference with its interval, emphasised as its claim."""
    return TableCell(
        pair.difference, note=between(pair.interval), emphasis=emphasis_of(pair)
    )


def wins_cell(pair: Pair) -> TableCell:
    """Returns the numbers of queries on which the row is better, tied and worse."""
    statistics = pair.statistics
    text = f"{statistics.wins}/{statistics.ties}/{statistics.losses}"
    return TableCell(statistics.wins - statistics.losses, text)


def between(interval: Interval | None, form: Form = DIFFERENCE) -> str:
    """Returns an interval in brackets; empty for None."""
    return (
        "" if interval is None else format_interval(interval.low, interval.high, form)
    )


def emphasis_of(pair: Pair) -> str:
    """Returns the emphasis of the claims better and worse; empty for other claims."""
    return pair.claim if pair.claim in (BETTER, WORSE) else ""


def differences_of(rows: Sequence[ModelRow]) -> dict[str, Ends]:
    """Returns label -> lower end of the interval, difference to the baseline, upper end; without an interval,
    the ends are the difference. Rows without a difference are left out."""
    drawn: dict[str, Ends] = {}
    for row in rows:
        middle = None if row.to_baseline is None else row.to_baseline.difference
        if row.to_baseline is not None and middle is not None:
            low, high = _ends(row.to_baseline.interval) or (middle, middle)
            drawn[row.label] = (low, middle, high)
    return drawn


def _bars(rows: Sequence[ModelRow]) -> dict[str, TableCell]:
    """Returns label -> drawing of the difference and its interval, scaled by the largest distance from 0."""
    drawn = differences_of(rows)
    largest = (
        max((abs(end) for bar in drawn.values() for end in bar), default=0.0) or 1.0
    )
    return {
        label: TableCell(text="", bar=(low / largest, middle / largest, high / largest))
        for label, (low, middle, high) in drawn.items()
    }


# ---- JSON: the output of --json and the content of comparison.json.


def comparisons_as_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Returns the settings, and one record per run, row, pair of the family, slice and note.

    The metrics of a run hold the values that it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their
    bare names, the values on test that were computed for this comparison under its convention.
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
        "level": first.settings.level,
        "draws": {"number": first.settings.num_draws, "seed": first.settings.seed},
        "verdicts": {
            comparison.data: verdict(comparison) for comparison in comparisons
        },
        "runs": [
            _run_record(comparison, row, item)
            for comparison, row in rows
            for item in row.evaluated
        ],
        "rows": [_row_record(comparison, row) for comparison, row in rows],
        "claimed_metrics": [first.metric, *first.declared],
        "rope": first.settings.rope_of(first.metric),
        "pairs": [
            _pair_record(comparison, pair)
            for comparison in comparisons
            for pair in comparison.claims
        ],
        "slices": [
            {"data": item.data, **asdict(kind)}
            for item in comparisons
            for kind in item.slices
        ],
        "interactions": [
            {"data": item.data, **asdict(tested)}
            for item in comparisons
            for tested in interactions(item, item.slices)
        ],
        "across_data_sets": _fields(across(comparisons)),
        "notes": [note for comparison in comparisons for note in comparison.notes],
        "note_entries": [
            {"data": comparison.data, **asdict(note)}
            for comparison in comparisons
            for note in comparison.note_entries
        ],
    }


def values_by_name(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Returns flat name -> value, such as "native/ndcg@10" -> its mean over folds and seeds.

    Includes the difference to the baseline, its interval and its Holm-adjusted p-value.
    """
    by_name: dict[str, CellValue] = {}
    for comparison in comparisons:
        prefix = f"{comparison.data}/" if len(comparisons) > 1 else ""
        for row in comparison.rows:
            by_name |= {
                f"{prefix}{row.label}/{name}": value
                for name, value in row.metrics.items()
            }
            values = values_of(comparison, row)
            against = (
                f"{prefix}{row.label}/{comparison.metric} minus {comparison.baseline}"
            )
            by_name[against] = values["difference"]
            by_name[f"{against} low"] = values["difference_low"]
            by_name[f"{against} high"] = values["difference_high"]
            by_name[f"{against} p Holm"] = values["p_holm"]
    return {name: float(value) for name, value in by_name.items() if value is not None}


def _run_record(
    comparison: Comparison, row: ModelRow, evaluated: EvaluatedRun
) -> dict[str, Any]:
    result = evaluated.run.result
    computed = {
        name: None if math.isnan(mean) else mean
        for name, mean in evaluated.evaluation.means.items()
    }
    return {
        **{name: getattr(result, name) for name in _OF_RESULTS},
        "search": dict(result.search) or None,
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "split_seed": result.repeat,
        "resample": result.data.get("resample"),
        "fingerprints": evaluated.cell.fingerprints,
        "metrics": {**result.metrics, **computed},
        "path": str(evaluated.run.path),
    }


def _row_record(comparison: Comparison, row: ModelRow) -> dict[str, Any]:
    values = values_of(comparison, row)
    return {
        "data": comparison.data,
        "label": row.label,
        **{name: values[name] for name in _OF_ROWS},
        "search": _fields(search_totals(row)),
        "metrics": dict(row.metrics),
        "interval": _ends(row.interval),
        "difference_interval": None
        if row.to_baseline is None
        else _ends(row.to_baseline.interval),
        "num_queries": values["num_queries"] or 0,
        "seconds": dict(row.seconds),
    }


def _pair_record(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    statistics, over_folds = pair.statistics, _fields(pair.over_folds)
    if over_folds is not None:
        # `interval` is the only interval of a pair.
        del over_folds["frequentist"]["interval"]
    return {
        "data": comparison.data,
        **{name: getattr(pair, name) for name in _OF_PAIRS},
        "interval": _ends(pair.interval),
        "interval_method": None if pair.interval is None else pair.interval.method,
        "inference": _fields(pair.inference),
        "p_value": dict(statistics.p_values),
        "p_adjusted": {name: dict(values) for name, values in pair.p_adjusted.items()},
        **{name: getattr(statistics, name) for name in _OF_QUERIES},
        "note": statistics.note,
        "over_folds": over_folds,
        "power": asdict(pair.power),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _fields(record: Any) -> dict[str, Any] | None:
    return None if record is None else asdict(record)
