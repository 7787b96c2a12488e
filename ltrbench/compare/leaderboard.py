"""The leaderboard of a comparison: the values of a row, and the columns that show them.

Every output of the leaderboard is made here. `values_of` computes each value of a row once; table.csv,
DataFrame and JSON contain these values. `_columns` declares each shown column once, with its cell in tables
(terminal, Markdown, LaTeX, notebook) and in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from ltrbench.compare.advice import claim_with_scope
from ltrbench.runs import TIMES
from ltrbench.statistics import BETTER, SCOPES, WORSE, Interval
from ltrbench.tables import STRONG, CellValue, Table, TableCell, TableColumn, TableRow, figure, numbers
from ltrbench.tables.numbers import Form

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison, ModelRow
    from ltrbench.compare.pairs import Pair

MAIN_COLUMNS = 8
"""Number of columns of the table on a terminal, the first ones of `_columns`."""

_QUALITY = ".4f"

Cell = TableCell | CellValue


def values_of(comparison: Comparison, row: ModelRow) -> dict[str, CellValue]:
    """Returns column name of table.csv -> value, without the metrics and the times; None if not available."""
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
        "note": None if pair is None else pair.reason or pair.statistics.note or None,
        "trees": row.trees,
        "peak_memory_mb": row.peak_memory_mb,
        "model_mb": row.model_mb,
    }


def in_full(comparisons: Sequence[Comparison]) -> Table:
    """Returns one row per model of each comparison, with all of its values."""
    metrics = list(dict.fromkeys(name for item in comparisons for name in item.rows[0].metrics))
    runs = [run for item in comparisons for row in item.rows for run in row.runs]
    # Of all runs, so that the columns do not depend on which runs shared the machine.
    seconds = list(dict.fromkeys(kind for run in runs for kind in run.result.seconds))
    declared = list(dict.fromkeys(name for item in comparisons for name in item.declared))
    rows: list[dict[str, CellValue]] = []
    for comparison in comparisons:
        for row in comparison.rows:
            claims = {metric: _declared(row, metric, comparison) for metric in declared}
            rows.append(
                {"data": comparison.data, "model": row.label}
                | {metric: row.metrics.get(metric) for metric in metrics}
                | values_of(comparison, row)
                | {
                    f"claim in {name}": None if pair is None else claim_with_scope(pair)
                    for name, pair in claims.items()
                }
                | {f"{kind}_seconds": row.seconds.get(kind) for kind in seconds}
            )
    return Table.of(list(rows[0]), [list(row.values()) for row in rows])


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard.

    Attributes:
        term: The entry of the glossary that explains the column.
        form: Format of its numbers in tables; None if it is in the report only.
        cell: Returns the cell of a row in tables.
        optional: Whether the column is left out of tables if no row has a value.
        is_cost: Whether the column is a time, a size or memory.
        report: The column in the report; None if it is not in the table of the report.
        report_cell: Returns the cell of a row in the report.
    """

    term: str
    header: str
    form: Form | None = ""
    cell: Callable[[ModelRow], Cell] = lambda row: None
    optional: bool = False
    is_cost: bool = False
    report: TableColumn | None = None
    report_cell: Callable[[ModelRow], Cell] = lambda row: None


def main_table(comparison: Comparison, columns: Sequence[Column], caption: str) -> Table:
    """Returns one row per model; the mean of a row that is claimed to be better than all others is strong."""
    rows: list[TableRow] = [[row.label, *(item.cell(row) for item in columns)] for row in comparison.rows]
    shown = [TableColumn(item.header, item.form or "") for item in columns]
    return Table([TableColumn("model", left=True), *shown], rows, caption)


def report_table(
    comparison: Comparison, rows: Sequence[ModelRow], names: Mapping[str, TableCell], caption: str
) -> Table:
    """Returns the table of the report.

    Args:
        names: Label of a row -> its first cell.
    """
    columns = [(item.report, item.report_cell) for item in _columns(comparison, rows) if item.report]
    cells: list[TableRow] = [[names[row.label], *(cell(row) for _, cell in columns)] for row in rows]
    return Table([TableColumn("model", left=True), *(column for column, _ in columns)], cells, caption)


def shown_columns(comparison: Comparison) -> list[Column]:
    """Returns the columns of tables after the name of the model, the most important ones first."""
    return [
        item
        for item in _columns(comparison, comparison.rows)
        if item.form is not None
        and (not item.optional or any(item.cell(row) is not None for row in comparison.rows))
    ]


def column_terms(comparison: Comparison) -> list[str]:
    """Returns the term of each column of the table, once each."""
    return list(dict.fromkeys(["model", *(item.term for item in shown_columns(comparison))]))


def _columns(comparison: Comparison, rows: Sequence[ModelRow]) -> list[Column]:
    """Returns all columns but the first; `rows` of the report determine the scale of its drawings."""
    first, *others = comparison.rows[0].metrics
    declared = [name for name in others if name in comparison.declared]
    values = {row.label: values_of(comparison, row) for row in comparison.rows}
    reach = _reach(rows)

    def value(name: str) -> Callable[[ModelRow], CellValue]:
        return lambda row: values[row.label][name]

    def metric(name: str) -> Column:
        return Column("metric", name, _QUALITY, lambda row: _mean(row, name, comparison))

    def metric_in_report(name: str, hint: str = "") -> Column:
        column = TableColumn(name, numbers.quality, hint=hint)
        note = _interval if name == first else _claimed
        return Column(
            *("metric", name, None),
            report=column,
            report_cell=lambda row: _strong(row, name, comparison, note=note(row, name, comparison)),
        )

    def cost(term: str, form: Form, cell: Callable[[ModelRow], Cell], optional: bool = True) -> Column:
        return Column(term, term, form, cell, optional, is_cost=True)

    def seconds(kind: str, form: Form, optional: bool = False) -> Column:
        return cost(f"{TIMES[kind]} s", form, lambda row: row.seconds.get(kind), optional)

    to_baseline = f"difference to {comparison.baseline}"
    scopes = {row.to_baseline.scope for row in comparison.rows if row.to_baseline is not None}
    scope = f" ({SCOPES[scopes.pop()]})" if len(scopes) == 1 else ""
    paired = [
        Column(
            "difference",
            f"{to_baseline} [95 % interval]",
            cell=lambda row: _difference(row, comparison),
            report=TableColumn(to_baseline, numbers.difference, hint="With its simultaneous 95 % interval."),
            report_cell=lambda row: _of_pair(row, _difference_cell),
        ),
        Column(
            "difference",
            "interval",
            None,
            report=TableColumn("interval", left=True, hint=_DRAWN, sortable=False),
            report_cell=lambda row: _of_pair(row, lambda pair: _drawing(pair, reach)),
        ),
        Column(
            "claim",
            f"claim{scope}",
            cell=value("claim") if scope else lambda row: _of_pair(row, claim_with_scope),
            report=TableColumn("claim", left=True, hint=_CLAIM),
            report_cell=lambda row: _of_pair(row, _claim_cell),
        ),
        Column(
            "minimum detectable difference",
            "detectable",
            _QUALITY,
            value("detectable"),
            report=TableColumn("detectable", numbers.quality, hint=_POWER),
            report_cell=value("detectable"),
        ),
        *map(metric, declared),
        Column("note", "note", cell=value("note"), optional=True),
    ]
    in_report = [
        Column(
            "better, tied, worse",
            "better/tied/worse",
            cell=lambda row: _of_pair(row, _wins),
            optional=True,
            report=TableColumn("better/tied/worse", hint=_WINS),
            report_cell=lambda row: _of_pair(row, wins_cell),
        ),
        Column(
            "effect size",
            "effect size",
            None,
            report=TableColumn("effect size", numbers.signed, hint=_EFFECT),
            report_cell=value("effect_size"),
        ),
    ]
    several = len(comparison.rows) > 1
    return [
        metric(first),
        metric_in_report(first, _MEAN),
        *(paired if several else []),
        seconds("fit", ".2f"),
        seconds("predict", ".3f"),
        cost("trees", ".0f", value("trees")),
        *(metric(name) for name in others if name not in declared),
        *(in_report if several else []),
        *map(metric_in_report, others),
        Column("trainings", "trainings", cell=value("trainings")),
        seconds("monitor", ".2f"),
        seconds("fit_clean", ".2f", optional=True),
        cost("memory MB", ".0f", value("peak_memory_mb")),
    ]


_MEAN = "Mean over test queries; in brackets its 95 % interval over queries, not simultaneous."
_DRAWN = "Drawing of the difference and its interval; the line marks a difference of 0."
_WINS = "Number of queries on which the model is better than, tied with, and worse than the baseline."
_CLAIM = "The claim that follows from the interval, and its scope."
_POWER = "True difference that would be claimed with a probability of 80 %."
_EFFECT = "Mean divided by standard deviation of the differences by query."


def _of_pair(row: ModelRow, cell: Callable[[Pair], Cell]) -> Cell:
    return None if row.to_baseline is None else cell(row.to_baseline)


def _declared(row: ModelRow, metric: str, comparison: Comparison) -> Pair | None:
    """Returns the pair of a further metric that carries claims."""
    return comparison.claim(row.label, metric) if metric in comparison.declared else None


def _strong(
    row: ModelRow, metric: str, comparison: Comparison, text: str | None = None, note: str = ""
) -> TableCell:
    """Returns the mean, strong if the row is claimed to be better than every other row."""
    is_strong = metric == comparison.metric and comparison.beats_all(row.label)
    return TableCell(row.metrics[metric], text, note, STRONG if is_strong else "")


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> TableCell:
    """Returns the mean; for a further metric that carries claims also the difference and the claim."""
    pair = _declared(row, metric, comparison)
    if pair is None:
        return _strong(row, metric, comparison)
    difference = with_interval(pair.difference, pair.interval)
    text = f"{figure(row.metrics[metric], _QUALITY)}, {difference} {claim_with_scope(pair)}"
    return _strong(row, metric, comparison, text)


def _interval(row: ModelRow, metric: str, comparison: Comparison) -> str:
    return between(row.interval, numbers.quality)


def _claimed(row: ModelRow, metric: str, comparison: Comparison) -> str:
    """Returns difference and claim of a further metric that carries claims."""
    pair = _declared(row, metric, comparison)
    if pair is None:
        return ""
    difference = f"{numbers.difference(pair.difference)} {between(pair.interval)}".rstrip()
    return f"{difference} {claim_with_scope(pair)}"


def _difference(row: ModelRow, comparison: Comparison) -> str:
    if row.label == comparison.baseline:
        return "baseline"
    if row.to_baseline is None:
        return "not paired"
    return with_interval(row.to_baseline.difference, row.to_baseline.interval)


def _difference_cell(pair: Pair) -> TableCell:
    return TableCell(pair.difference, note=between(pair.interval), emphasis=emphasis_of(pair))


def _claim_cell(pair: Pair) -> TableCell:
    note = "; ".join(filter(None, (SCOPES[pair.scope], pair.reason or pair.statistics.note)))
    return TableCell(pair.claim, note=note)


def _wins(pair: Pair) -> str:
    """Returns the numbers of queries on which the row is better, tied and worse."""
    statistics = pair.statistics
    return f"{statistics.wins}/{statistics.ties}/{statistics.losses}"


def wins_cell(pair: Pair) -> TableCell:
    statistics = pair.statistics
    counts = " / ".join(map(numbers.count, (statistics.wins, statistics.ties, statistics.losses)))
    return TableCell(statistics.wins - statistics.losses, counts)


def with_interval(difference: float | None, ends: Interval | None) -> str:
    # z: no minus sign on values that round to 0.
    text = figure(difference, "+z.4f")
    return text if ends is None else f"{text} {between(ends, '+.4f')}"


def between(interval: Interval | None, form: Form = numbers.difference) -> str:
    """Returns an interval in brackets; empty for None."""
    return "" if interval is None else numbers.interval(interval.low, interval.high, form)


def emphasis_of(pair: Pair) -> str:
    """Returns the emphasis of the claims better and worse; empty for other claims."""
    return pair.claim if pair.claim in (BETTER, WORSE) else ""


_WIDTH, _HEIGHT, _MARGIN = 100, 16, 6  # size of a drawn interval in pixels


def _reach(rows: Sequence[ModelRow]) -> float:
    """Returns the largest distance of an interval from 0, so that all are drawn on one scale."""
    pairs = [row.to_baseline for row in rows if row.to_baseline is not None]
    ends = [abs(pair.difference or 0.0) for pair in pairs]
    ends += [abs(end) for pair in pairs for end in _ends_of(pair)]
    return max(ends, default=0.0) or 1.0


def _ends_of(pair: Pair) -> tuple[float, ...]:
    return () if pair.interval is None else (pair.interval.low, pair.interval.high)


def _drawing(pair: Pair, reach: float) -> TableCell:
    """Draws a point with its interval as a bar, and a line at 0."""
    difference, interval = pair.difference, pair.interval
    if difference is None:
        return TableCell(text="")
    half = _WIDTH / 2
    low, high = (difference, difference) if interval is None else (interval.low, interval.high)
    left, right, x = (f"{half + end / reach * (half - _MARGIN):.1f}" for end in (low, high, difference))
    drawing = Markup(
        '<svg class="interval" viewBox="0 0 {w} {h}" width="{w}" height="{h}" aria-hidden="true">'
        '<path class="zero" d="M{zero} 0V{h}"/><path class="bar" d="M{low} {m}H{high}"/>'
        '<circle cx="{x}" cy="{m}" r="3.5"/></svg>'
    ).format(w=_WIDTH, h=_HEIGHT, m=_HEIGHT // 2, zero=half, low=left, high=right, x=x)
    return TableCell(text="", drawing=drawing)
