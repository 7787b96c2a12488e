"""The leaderboard of a comparison: values of the rows, their columns in tables, and their records in JSON.

`values_of` computes each value of a row once; table.csv, DataFrame and JSON contain these values. `_columns`
declares each shown column once, for tables (terminal, Markdown, LaTeX, notebook) and for the report.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ltrbench.compare.answer import answer_of
from ltrbench.compare.claim_notes import family_of
from ltrbench.compare.claims import Claim, Pair
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.decision import decide
from ltrbench.compare.fairness import search_totals
from ltrbench.compare.remarks import notes_of
from ltrbench.compare.slicing import across, interactions
from ltrbench.compare.table import (
    EvaluatedRun,
    ModelRow,
)
from ltrbench.compare.views import Shown
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.plots import Ends
from ltrbench.runs.record import TIMES
from ltrbench.statistics import BETTER, WORSE, Interval
from ltrbench.tables import (
    DASH,
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

MAIN = "main"
ALL = "all"
"""Columns of a table: those of the answer, or all of them."""

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
    "models",
    "methods",
    "peak_memory_mb",
    "model_mb",
    "trees",
)
"""Fields of `RunResult` and of `values_of` in JSON."""

_LONGEST_NAME = 24
"""Number of characters of a baseline that the header of a column names."""

Cell = TableCell | CellValue


def values_of(comparison: Comparison, row: ModelRow) -> dict[str, CellValue]:
    """Returns column name of table.csv -> value, without the metrics and the times; None if not available."""
    ends = _ends(comparison.intervals.get(row.label))
    low, high = ends or (None, None)
    values: dict[str, CellValue] = {
        "low": low,
        "high": high,
        "baseline": comparison.baseline,
    }
    pair = comparison.claim(row.label)
    statistics = None if pair is None else pair.statistics
    values["difference"] = None if pair is None else pair.shown_difference
    for kind in KINDS:
        values |= _values_of_claim(kind, pair)
    values["trainings"] = comparison.replicates[row.label]
    values["p_holm"] = (
        None if pair is None else pair.p_adjusted["holm"]["randomisation"]
    )
    values |= _values_of_queries(pair)
    values["note"] = None if statistics is None else statistics.note or None
    values["trees"] = row.trees
    values["peak_memory_mb"] = row.peak_memory_mb
    values["model_mb"] = row.model_mb
    return values


def _values_of_queries(pair: Pair | None) -> dict[str, CellValue]:
    """Returns the values of `_OF_QUERIES`; None without a pair, and the size of an effect of unknown size."""
    values: dict[str, CellValue] = dict.fromkeys(_OF_QUERIES)
    if pair is None:
        return values
    for name in _OF_QUERIES:
        values[name] = getattr(pair.statistics, name)
    if pair.is_order_only:
        values["effect_size"] = None
    return values


KINDS = ("models", "methods")
"""The two claims of a pair: fields of `Pair`, and the first words of their columns in table.csv."""


def _values_of_claim(kind: str, pair: Pair | None) -> dict[str, CellValue]:
    """Returns the columns of a claim of a pair in table.csv; without one, all of them are None."""
    names = [f"{kind}{part}" for part in _PARTS_OF_A_CLAIM]
    values: dict[str, CellValue] = dict.fromkeys(names)
    if pair is None:
        return values
    claim: Claim = getattr(pair, kind)
    values[f"{kind}_scope"] = claim.scope.name
    values[f"{kind}_detectable"] = claim.power.detectable
    values[f"{kind}_reason"] = claim.reason or None
    if claim.interval is not None:
        values[kind] = claim.state
    interval = pair.shown_interval(claim)
    if interval is not None:
        values[f"{kind}_low"] = interval.low
        values[f"{kind}_high"] = interval.high
    return values


_PARTS_OF_A_CLAIM = ("", "_low", "_high", "_scope", "_detectable", "_reason")
"""Ends of the names of its columns in table.csv."""


def as_frame(comparison: Comparison) -> pd.DataFrame:
    """Returns the content of table.csv for one comparison; `NotebookComparison.to_frame` describes it."""
    import pandas as pd  # half a second to import

    records = in_full([comparison]).records()
    frame = pd.DataFrame(records).drop(columns="data")
    texts = ["model", "baseline", "note", "trainings"]
    for kind in KINDS:
        texts += [kind, f"{kind}_scope", f"{kind}_reason"]
    texts += [f"claim in {metric}" for metric in comparison.declared]
    numbers = [column for column in frame.columns if column not in texts]
    return frame.astype(dict.fromkeys(numbers, float))


def in_full(comparisons: Sequence[Comparison]) -> Table:
    """Returns one row per model of each comparison, with all of its values: the content of table.csv."""
    first_rows = [item.rows[0] for item in comparisons]
    metrics = dict.fromkeys(
        itertools.chain.from_iterable(row.metrics for row in first_rows)
    )
    declared = dict.fromkeys(
        itertools.chain.from_iterable(item.declared for item in comparisons)
    )
    all_rows = itertools.chain.from_iterable(item.rows for item in comparisons)
    runs = itertools.chain.from_iterable(row.runs for row in all_rows)
    # Of all runs, so that the columns do not depend on which runs shared the machine.
    kinds_of_time = dict.fromkeys(
        itertools.chain.from_iterable(run.result.seconds for run in runs)
    )
    rows: list[dict[str, CellValue]] = []
    for comparison in comparisons:
        for row in comparison.ranked:
            values: dict[str, CellValue] = {
                "data": comparison.data,
                "model": row.label,
            }
            values |= {name: row.metrics.get(name) for name in metrics}
            values |= values_of(comparison, row)
            for name in declared:
                pair = None
                if name in comparison.declared:
                    pair = comparison.claim(row.label, name)
                values[f"claim in {name}"] = pair.models.state if pair else None
            values |= {
                f"{kind}_seconds": row.seconds.get(kind) for kind in kinds_of_time
            }
            rows.append(values)
    columns = list(rows[0])
    return Table.of(columns, [list(row.values()) for row in rows])


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard.

    Attributes:
        term: The entry of the glossary that explains the column.
        cell: Returns the cell of a row.
        is_main: Whether the column belongs to the answer on a terminal.
        in_tables, in_report: Outputs with the column: terminal, Markdown, LaTeX and notebook, or the report.
        optional: Whether the column is left out if no row has a value.
        is_cost: Whether the column is a time, a size or memory.
    """

    term: str
    column: TableColumn
    cell: Callable[[ModelRow], Cell]
    _: KW_ONLY
    is_main: bool = False
    in_tables: bool = True
    in_report: bool = False
    optional: bool = False
    is_cost: bool = False


def leaderboard(
    shown: Shown, rows: Sequence[ModelRow], columns: Sequence[Column], caption: str = ""
) -> Table:
    """Returns one row per model; the mean of a row that is claimed to be better than all others is strong."""
    comparison = shown.comparison
    cells: list[TableRow] = []
    for row in rows:
        tags = []
        if row.label == comparison.baseline and comparison.settings.names_baseline:
            tags.append("baseline")
        if row.label == comparison.best and not comparison.unpaired:
            tags.append("highest")
        name = shown.cell_of(row.label, ", ".join(tags))
        cells.append([name, *(column.cell(row) for column in columns)])
    headers = [TableColumn("model", left=True), *(item.column for item in columns)]
    return Table(headers, cells, caption)


def columns_of_report(comparison: Comparison) -> list[Column]:
    """Returns the columns of the report after the name of the model."""
    return [item for item in _columns(comparison) if item.in_report]


def columns_of_tables(comparison: Comparison, which: str = ALL) -> list[Column]:
    """Returns the columns of tables after the name of the model, the most important ones first."""
    columns = [item for item in _columns(comparison) if item.in_tables]
    if which == MAIN:
        return [item for item in columns if item.is_main]
    return columns


def _columns(comparison: Comparison) -> list[Column]:
    """Returns all columns but the first, without optional ones that no row has."""
    columns = []
    for item in _possible_columns(comparison):
        if item.optional:
            cells = map(item.cell, comparison.rows)
            if not any(map(_is_known, cells)):
                continue
        columns.append(item)
    return columns


def _possible_columns(comparison: Comparison) -> Iterator[Column]:
    """Yields all columns but the first, with optional ones, in their order."""
    first, *others = comparison.rows[0].metrics
    declared = [name for name in others if name in comparison.declared]
    descriptive = [name for name in others if name not in comparison.declared]
    values = {row.label: values_of(comparison, row) for row in comparison.rows}

    def metric(name: str) -> Column:
        is_first = name == first
        return Column(
            "metric",
            TableColumn(name, QUALITY, with_notes=not is_first),
            lambda row: _mean(row, name, comparison),
            is_main=is_first,
            in_report=True,
        )

    yield metric(first)
    if len(comparison.rows) > 1:
        yield from _columns_of_differences(comparison)
    yield from map(metric, declared)
    yield replace(_seconds("fit", ".2f", optional=True), is_main=True)
    yield _seconds("predict", ".3f")
    yield _cost("trees", ".0f", lambda row: row.trees)
    yield from map(metric, descriptive)
    if len(comparison.rows) > 1:
        yield from _columns_of_queries(comparison, values)
    yield Column(
        "trainings",
        TableColumn("trainings"),
        lambda row: comparison.replicates[row.label],
    )
    yield _seconds("monitor", ".2f")
    yield _seconds("fit_clean", ".2f", optional=True)
    yield _cost("memory MB", ".0f", lambda row: row.peak_memory_mb)


def _cost(
    term: str, form: Form, cell: Callable[[ModelRow], Cell], optional: bool = True
) -> Column:
    return Column(term, TableColumn(term, form), cell, optional=optional, is_cost=True)


def _seconds(kind: str, form: Form, optional: bool = False) -> Column:
    def seconds(row: ModelRow) -> float | None:
        return row.seconds.get(kind)

    return _cost(f"{TIMES[kind]} s", form, seconds, optional)


def _is_known(cell: Cell) -> bool:
    if isinstance(cell, TableCell):
        return bool(cell.text) or cell.known is not None
    return cell is not None


def _columns_of_differences(comparison: Comparison) -> Iterator[Column]:
    """Yields the columns with the differences to the baseline and the two claims."""
    level = comparison.settings.confidence
    at_level = ""
    if level != "95 %":
        at_level = f" ({level})"
    base = comparison.baseline
    if len(base) > _LONGEST_NAME:
        base = "the baseline" if comparison.settings.names_baseline else "the best"
    header = f"difference to {base}{at_level}"

    def difference(row: ModelRow) -> TableCell:
        pair = comparison.claim(row.label)
        if pair is not None:
            return difference_cell(pair)
        if row.label != comparison.baseline:
            return TableCell(text="not paired")
        # The page sorts by values, and the baseline is between the better and the worse rows.
        return TableCell(
            0.0, text="baseline" if comparison.settings.names_baseline else DASH
        )

    def claim(kind: str) -> Callable[[ModelRow], Cell]:
        def cell(row: ModelRow) -> Cell:
            pair = comparison.claim(row.label)
            if pair is None:
                return None
            return claim_cell(getattr(pair, kind))

        return cell

    yield Column(
        "difference",
        TableColumn(header, SIGNED, left=True, with_notes=True),
        difference,
        is_main=True,
    )
    yield Column(
        "difference",
        TableColumn(header, SIGNED, with_notes=True),
        difference,
        in_tables=False,
        in_report=True,
    )
    yield Column(
        "these models",
        TableColumn("these models", left=True),
        claim("models"),
        is_main=True,
        in_report=True,
    )
    yield Column(
        "trained again",
        TableColumn("trained again", left=True),
        claim("methods"),
        is_main=True,
        in_report=True,
        optional=True,
    )


def _columns_of_queries(
    comparison: Comparison, values: Mapping[str, Mapping[str, CellValue]]
) -> Iterator[Column]:
    """Yields the columns that describe the paired queries."""

    def wins(row: ModelRow) -> Cell:
        pair = comparison.claim(row.label)
        if pair is None:
            return None
        return wins_cell(pair)

    yield Column(
        "better, tied, worse",
        TableColumn("better/tied/worse"),
        wins,
        in_report=True,
        optional=True,
    )
    yield Column(
        "effect size",
        TableColumn("effect size", SIGNED),
        lambda row: values[row.label]["effect_size"],
        in_tables=False,
        in_report=True,
    )
    yield Column(
        "minimum detectable difference",
        TableColumn("detectable", QUALITY),
        lambda row: values[row.label]["models_detectable"],
        in_report=True,
    )
    yield Column(
        "note",
        TableColumn("note", left=True),
        lambda row: values[row.label]["note"],
        in_report=True,
        optional=True,
    )


def _mean(row: ModelRow, metric: str, comparison: Comparison) -> TableCell:
    """Returns the mean, strong if the row is claimed to be better than every other row.

    The note has the interval of the primary metric, and the claim in another metric of the family.
    """
    mean = row.metrics[metric]
    if metric == comparison.metric:
        emphasis = ""
        if comparison.beats_all(row.label):
            emphasis = STRONG
        interval = comparison.intervals.get(row.label)
        return TableCell(mean, note=between(interval, QUALITY), emphasis=emphasis)
    pair = None
    if metric in comparison.declared:
        pair = comparison.claim(row.label, metric)
    if pair is None:
        return TableCell(mean)
    claim = pair.models
    parts = [between(pair.shown_interval(claim)), claim.state]
    if pair.shown_difference is not None:
        parts.insert(0, format_number(pair.shown_difference, DIFFERENCE))
    note = " ".join(filter(None, parts))
    return TableCell(mean, note=note)


def difference_cell(pair: Pair) -> TableCell:
    """Returns the difference of these models with its interval, emphasised as its claim."""
    claim = pair.models
    if pair.is_order_only:
        return TableCell(note="order only", emphasis=emphasis_of(claim))
    return TableCell(
        claim.difference,
        note=between(claim.interval, SIGNED),
        emphasis=emphasis_of(claim),
    )


def claim_cell(claim: Claim) -> TableCell:
    """Returns the state of a claim; a dash without an interval, with the reason as its note."""
    if claim.interval is None:
        return TableCell(note=claim.reason)
    return TableCell(claim.state, emphasis=emphasis_of(claim))


def wins_cell(pair: Pair) -> TableCell:
    """Returns the numbers of queries on which the row is better, tied and worse."""
    statistics = pair.statistics
    text = f"{statistics.wins}/{statistics.ties}/{statistics.losses}"
    return TableCell(statistics.wins - statistics.losses, text)


def between(interval: Interval | None, form: Form = DIFFERENCE) -> str:
    """Returns an interval in brackets; empty for None."""
    if interval is None:
        return ""
    return format_interval(interval.low, interval.high, form)


def emphasis_of(claim: Claim) -> str:
    """Returns the emphasis of the claims better and worse; empty for other claims."""
    if claim.state in (BETTER, WORSE):
        return claim.state
    return ""


def differences_of(pairs: Iterable[Pair]) -> dict[str, Ends]:
    """Returns label -> lower end of the interval, difference to the baseline, upper end; without an interval,
    the ends are the difference. Rows without a shown difference are left out.

    Args:
        pairs: Rows minus the baseline.
    """
    drawn: dict[str, Ends] = {}
    for pair in pairs:
        middle = pair.shown_difference
        if middle is not None:
            low, high = _ends(pair.models.interval) or (middle, middle)
            drawn[pair.a] = (low, middle, high)
    return drawn


# ---- JSON: the output of --json and the content of comparison.json.


def comparisons_as_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Returns the settings, and one record per run, row, pair of the family, slice and note.

    The metrics of a run hold the values that it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their
    bare names, the values on test that were computed for this comparison under its convention.
    """
    first = comparisons[0]
    # Lists with the records of all comparisons.
    joined: dict[str, list[Any]] = {
        "comparisons": [],
        "runs": [],
        "rows": [],
        "pairs": [],
        "slices": [],
        "interactions": [],
        "notes": [],
        "remarks": [],
    }
    for comparison in comparisons:
        for name, records in _records_of(comparison).items():
            joined[name].extend(records)
    settings = first.settings
    convention = settings.convention
    draws = {"number": settings.num_draws, "seed": settings.seed}
    return {
        "metric": first.metric,
        "convention": convention.name,
        "convention_fields": convention.describe(),
        "plugins": plugin_versions(),
        "family": family_of(first),
        "comparisons": joined["comparisons"],
        "level": settings.level,
        "draws": draws,
        "runs": joined["runs"],
        "rows": joined["rows"],
        "claimed_metrics": [first.metric, *first.declared],
        "rope": settings.rope_of(first.metric),
        "pairs": joined["pairs"],
        "slices": joined["slices"],
        "interactions": joined["interactions"],
        "across_data_sets": _fields(across(comparisons)),
        "notes": joined["notes"],
        "remarks": joined["remarks"],
    }


def _records_of(comparison: Comparison) -> dict[str, list[Any]]:
    """Returns the records of one comparison for the lists of comparison.json."""
    of_data: dict[str, Any] = {"data": comparison.data}
    about = of_data | {
        "baseline": comparison.baseline,
        "best": comparison.best,
        "family": family_of(comparison),
        "answer": _fields(answer_of(comparison)),
        "decision": _decision_record(comparison),
    }
    runs: list[dict[str, Any]] = []
    for row in comparison.ranked:
        runs.extend(_run_record(comparison, row, item) for item in row.evaluated)
    claims = comparison.claims
    tested = interactions(comparison, comparison.slices)
    notes = notes_of(comparison.remarks)
    return {
        "comparisons": [about],
        "runs": runs,
        "rows": [_row_record(comparison, row) for row in comparison.ranked],
        "pairs": [_pair_record(comparison, pair) for pair in claims],
        "slices": [of_data | asdict(each) for each in comparison.slices],
        "interactions": [of_data | asdict(each) for each in tested],
        "notes": list(comparison.notes),
        "remarks": [of_data | asdict(note) for note in notes],
    }


def _decision_record(comparison: Comparison) -> dict[str, Any] | None:
    """Returns the fields of the decision; checks of a metric whose order alone is claimed have no size."""
    record = _fields(decide(comparison))
    if record is None:
        return None
    for check in itertools.chain.from_iterable(record["checks"].values()):
        if comparison.is_order_only(check["name"]):
            check |= dict.fromkeys(("value", "low", "high"))
    return record


def values_by_name(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Returns flat name -> value, such as "native/ndcg@10" -> its mean over folds and seeds.

    Without differences and intervals, which other rows change: the files of the comparison have them.
    """
    by_name: dict[str, float] = {}
    for comparison in comparisons:
        prefix = ""
        if len(comparisons) > 1:
            prefix = f"{comparison.data}/"
        for row in comparison.rows:
            for name, mean in row.metrics.items():
                if mean is not None:
                    by_name[f"{prefix}{row.label}/{name}"] = float(mean)
    return by_name


def _run_record(
    comparison: Comparison, row: ModelRow, evaluated: EvaluatedRun
) -> dict[str, Any]:
    result = evaluated.run.result
    metrics: dict[str, float | None] = dict(result.metrics)
    for name, mean in evaluated.evaluation.means.items():
        metrics[name] = None if math.isnan(mean) else mean
    of_result = {name: getattr(result, name) for name in _OF_RESULTS}
    return {
        **of_result,
        **{name: getattr(result, name) for name in _OF_RESULTS},
        "search": dict(result.search) or None,
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "split_seed": result.repeat,
        "resample": result.data.get("resample"),
        "fingerprints": evaluated.cell.fingerprints,
        "metrics": metrics,
        "path": str(evaluated.run.path),
    }


def _row_record(comparison: Comparison, row: ModelRow) -> dict[str, Any]:
    values = values_of(comparison, row)
    pair = comparison.claim(row.label)
    of_row = {name: values[name] for name in _OF_ROWS}
    return {
        "data": comparison.data,
        "label": row.label,
        "model": row.model,
        **of_row,
        "search": _fields(search_totals(row)),
        "metrics": dict(row.metrics),
        "interval": _ends(comparison.intervals.get(row.label)),
        "difference_interval": pair and _ends(pair.shown_interval(pair.models)),
        "num_queries": values["num_queries"] or 0,
        "seconds": dict(row.seconds),
    }


def _pair_record(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    statistics = pair.statistics
    claims = {kind: _claim_record(pair, getattr(pair, kind)) for kind in KINDS}
    inference = None if pair.is_order_only else pair.inference
    p_adjusted = {name: dict(values) for name, values in pair.p_adjusted.items()}
    return {
        "data": comparison.data,
        "a": pair.a,
        "b": pair.b,
        "metric": pair.metric,
        **claims,
        "inference": _fields(inference),
        "folds": _fields(pair.variation),
        "p_value": dict(statistics.p_values),
        "p_adjusted": p_adjusted,
        **_values_of_queries(pair),
        "note": statistics.note,
    }


def _claim_record(pair: Pair, claim: Claim) -> dict[str, Any]:
    interval = claim.interval
    return {
        "scope": claim.scope.name,
        "difference": None if pair.is_order_only else claim.difference,
        "interval": _ends(pair.shown_interval(claim)),
        "method": None if interval is None else interval.method,
        "claim": claim.state,
        "reason": claim.reason,
        "detectable": claim.power.detectable,
    }


def _ends(interval: Interval | None) -> list[float] | None:
    if interval is None:
        return None
    return [interval.low, interval.high]


def _fields(record: Any) -> dict[str, Any] | None:
    return None if record is None else asdict(record)
