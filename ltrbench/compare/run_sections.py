"""Sections on runs: quality by iteration, costs, features, settings, data, notes, searches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan, nan
from statistics import fmean
from typing import Any

import numpy as np

from ltrbench.compare.cells import (
    DATA_SPLITS,
    cell_of,
    flatten,
)
from ltrbench.compare.claim_notes import all_notes
from ltrbench.compare.fairness import parameters
from ltrbench.compare.groups import ATTRIBUTES, Slice
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.leaderboard import difference_cell
from ltrbench.compare.remarks import SHOWN_DIGITS, Note, by_group, notes_of
from ltrbench.compare.table import ModelRow
from ltrbench.compare.tuning import (
    SearchedRun,
    Tuning,
    budget_picture,
    series_of_search,
    tunings,
)
from ltrbench.compare.views import (
    WIDE_PAGE,
    Bullets,
    Figures,
    Folded,
    GroupedNotes,
    Picture,
    Prose,
    Section,
    Shown,
    View,
    drawn,
)
from ltrbench.data import Judgments
from ltrbench.plots import (
    FIT,
    Cost,
    curves_by_iteration,
    examination_by_position,
    importance_bars,
    metric_against_cost,
    setting_importance_bars,
)
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.rankers.importance import HIGH, LOW, NAMES, OF_LINEAR, SHARES
from ltrbench.runs.record import TIMES, Run
from ltrbench.tables import (
    CHANGED,
    COUNT,
    DIFFERENCE,
    QUALITY,
    SIGNED,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    columns_of,
    format_duration,
    format_interval,
    format_setting,
    listed,
    minus,
    share,
    significant,
    size,
)

# ---- Section "Quality and cost": times, size and memory, with Pareto fronts.


def _micros_per_document(row: ModelRow) -> float | None:
    """Returns the predict time per document in µs, mean over the runs that did not share the machine.

    None if there is no such run, or one of them was not timed.
    """
    alone = [item for item in row.evaluated if not item.run.result.shared_machine]
    times = []
    for item in alone:
        seconds = item.run.result.seconds.get("predict", nan)
        times.append(seconds / item.judgments.num_documents)
    if times and not isnan(fmean(times)):
        return 1e6 * fmean(times)
    return None


_PREDICT = Cost("predict time", "predict time per document, µs", 0.001)
_SIZE = Cost("model size", "model size on disk, MB", 0.0001)
_MEMORY = Cost("memory of the fit", "peak memory increase during the fit, MB", 0.1)
_COSTS: Mapping[Cost, Callable[[ModelRow], float | None]] = {
    FIT: lambda row: row.seconds.get("fit"),
    _PREDICT: _micros_per_document,
    _SIZE: lambda row: row.model_mb,
    _MEMORY: lambda row: row.peak_memory_mb,
}


def costs_section(shown: Shown) -> Section | None:
    """Returns the metric against each cost; None if no cost was measured, as for imported scores."""
    metric = shown.comparison.metric
    rows = [shown.comparison.row(item.label) for item in shown.series]
    figures = []
    for cost, of_row in _COSTS.items():
        values = [*map(of_row, rows)]
        draw = partial(
            metric_against_cost, shown.series, values, cost, f"{metric} on test"
        )
        file = Picture.TIME if cost is FIT else ""
        figures += drawn(draw, f"Against the {cost.name}", file)
    if not figures:
        return None
    lead = (
        f"{metric} on test against cost. The dashed line is the Pareto front: no other model is "
        "both cheaper and better than a model on it. Times are wall times on the machine of the run."
    )
    parts: list[View] = [Figures(figures), _costs_table(shown)]
    return Section("costs", "Quality and cost", lead, parts, _COSTS_TERMS)


_COSTS_TERMS = (
    "Pareto front",
    "fit s",
    "evaluation s",
    "clean fit s",
    "predict s",
    "model size",
    "memory MB",
    "trees",
)


def _costs_table(shown: Shown) -> Table:
    metric = shown.comparison.metric
    kinds = ("fit", "monitor", "fit_clean")
    times = [*(TIMES[kind] for kind in kinds), f"{TIMES['predict']} per document"]
    columns = columns_of(
        {"model": None},
        {metric: QUALITY},
        dict.fromkeys(times, format_duration),
        {"model size": size, "memory": size, "trees": significant},
    )
    rows: list[TableRow] = []
    for row in shown.rows:
        seconds = [row.seconds.get(kind) for kind in kinds]
        micros = _micros_per_document(row)
        seconds.append(None if micros is None else micros / 1e6)
        name = shown.cell_of(row.label)
        others = (row.model_mb, row.peak_memory_mb, row.trees)
        rows.append([name, row.metrics[metric], *seconds, *others])
    return Table(columns, rows, "Costs, means over runs")


# ---- Section "Learning curves".


def learning_section(shown: Shown) -> Section | None:
    """Returns the learning curves; None if no run recorded one."""
    draw = partial(curves_by_iteration, shown.series, shown.comparison.metric)
    figures = drawn(draw, "By iteration", Picture.LEARNING_CURVES)
    lead = (
        "The metric on validation by iteration, and on train if it was recorded: which models overfit, and "
        "which stopped while the metric was still increasing? Values are means over runs."
    )
    if figures:
        return Section("learning", "Learning curves", lead, [Figures(figures)])
    return None


# ---- Section "Data card".


def data_section(shown: Shown) -> Section:
    """Returns the splits and their rule, the labels and query sizes of the test set, and the slices of the
    user's attributes."""
    of_cells = {}
    for row in shown.comparison.rows:
        of_cells.update({item.cell: item for item in row.evaluated})
    runs = [item.run for item in of_cells.values()]
    rules = dict.fromkeys(run.result.data.get("rule", "") for run in runs)
    judged = [item.judgments for item in of_cells.values()]
    lead = (
        "Runs with the same fingerprint of a split have the same documents in it. Labels and sizes are those "
        f"of all test queries, including those that the metric skips{shown.all_folds}."
    )
    views: list[View] = [
        Prose(f"Rule of the splits: {rule}.") for rule in rules if rule
    ]
    views += [_splits_table(runs), _grades(judged), _sizes(judged)]
    slices = shown.comparison.slices
    of_user = [item for item in slices if item.attribute not in ATTRIBUTES]
    if of_user:
        views.append(_slices(of_user))
    return Section("data", "Data card", lead, views, ("fingerprint", "skipped queries"))


def _splits_table(runs: Sequence[Run]) -> Table:
    columns = columns_of(
        {
            "split": None,
            "documents": COUNT,
            "queries": COUNT,
            "features": COUNT,
            "queries without relevant": share,
            "one document": COUNT,
            "equal labels": COUNT,
            "fingerprint": None,
        }
    )
    rows = list(itertools.chain.from_iterable(map(_splits, runs)))
    return Table(columns, rows, "Splits", "compact")


def examination_section(shown: Shown) -> Section | None:
    """Returns the examination of positions; None for data that are no log of clicks."""
    row = shown.comparison.rows[0]
    facts = row.runs[0].result.data.get("facts") or {}
    if "errors_of_log_theta" not in facts:
        return None
    draw = partial(
        examination_by_position,
        facts["theta"],
        facts["errors_of_log_theta"],
        f"{shown.comparison.data}: examination of positions",
    )
    figures = drawn(draw, "Examination by position", Picture.EXAMINATION)
    lead = (
        "How likely users examine a position, relative to the first one, with its 95 % interval: clicks are "
        f"divided by it (data.propensity={facts.get('propensity')})."
    )
    if figures:
        return Section("examination", "Examination", lead, [Figures(figures)])
    return None


def _splits(run: Run) -> list[TableRow]:
    words = cell_of(run).words
    fold = f" of {words}" if words else ""
    names = ("documents", "queries", "features", "queries_without_relevant_document")
    counted = ("queries_with_one_document", "queries_with_equal_labels")
    rows: list[TableRow] = []
    for split in DATA_SPLITS:
        facts = run.result.data.get(split) or {}
        fingerprint = facts.get("fingerprint")
        if not fingerprint:
            continue
        span = " to ".join(facts.get("span", ()))
        cells = [TableCell(f"{split}{fold}", note=span)]
        numbers = [facts.get(name) for name in names]
        shares = [_counted(facts, name) for name in counted]
        shown_digits = TableCell(fingerprint, fingerprint[:SHOWN_DIGITS])
        rows.append([*cells, *numbers, *shares, shown_digits])
    return rows


def _counted(facts: Mapping[str, Any], name: str) -> TableCell | None:
    """Returns a number of queries with its share; None if it was not recorded."""
    if name not in facts:
        return None
    number = facts[name]
    return TableCell(number, note=share(number / facts["queries"]))


def _slices(slices: Sequence[Slice]) -> Table:
    columns = columns_of({"attribute": None, "slice": None, "queries": COUNT})
    rows: list[TableRow] = [
        [item.attribute, item.name, item.num_queries] for item in slices
    ]
    return Table(columns, rows, "Slices of test", "compact")


def _grades(judged: list[Judgments]) -> Table:
    joined = np.concatenate([item.labels for item in judged])
    labels, counts = np.unique(joined, return_counts=True)
    shares = counts / counts.sum()
    columns = columns_of({"label": "g", "documents": COUNT, "share": share})
    rows = zip(labels.tolist(), counts.tolist(), shares.tolist(), strict=True)
    return Table(columns, list(rows), "Labels of test", "compact")


def _sizes(judged: list[Judgments]) -> Table:
    sizes = np.concatenate([item.query_sizes for item in judged])
    names = (
        "per query",
        "minimum",
        "lower quartile",
        "median",
        "upper quartile",
        "maximum",
    )
    quantiles = np.quantile(sizes, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return Table.of(names, [["documents", *quantiles]], COUNT, "Sizes of test queries")


# ---- Section "Hyperparameters": settings side by side, those that differ first and highlighted.

SettingOfClass = tuple[str, str]
SettingsByRow = Mapping[SettingOfClass, Mapping[str, str]]
"""(setting, class of the ranker; "" for settings of every class) -> label -> value."""

_OF_THE_RUN = ("_target_", "seed")
_OF_EVERY_CLASS = {*OF_EVERY_RANKER, *SHARED, "early_stopping"}


def hyperparameters_section(shown: Shown) -> Section | None:
    """Returns the settings of all models; None if no run has settings, as with imported scores."""
    fitted = [row for row in shown.rows if row.runs[0].result.settings.get("model")]
    settings = _settings(fitted)
    if not settings:
        return None
    labels = [row.label for row in shown.rows]
    differing, same, alone = _by_agreement(settings, len(labels))
    num_shared = len(differing) + len(same)
    lead = (
        f"{len(differing)} of {num_shared} settings differ between the models that have them. A dash means: "
        "the model does not have the setting; null: it is not set. Settings of one backend only are not "
        "compared with those of another."
    )
    lead = " ".join([*_parameters_in_words(shown), lead])
    first: View = Prose("No shared setting differs.")
    if differing:
        first = _settings_table("Settings that differ", labels, differing, CHANGED)
    parts = [first]
    for group, caption in (
        (same, "settings that are equal"),
        (alone, "settings that only one model has"),
    ):
        if group:
            summary = f"{len(group)} {caption}"
            parts.append(Folded(summary, [_settings_table(summary, labels, group)]))
    return Section(
        "hyperparameters", "Hyperparameters", lead, parts, ("matched parameters",)
    )


def _parameters_in_words(shown: Shown) -> list[str]:
    runs = itertools.chain.from_iterable(row.runs for row in shown.rows)
    results = [run.result for run in runs if run.result.seconds]
    return [note.sentence for note in notes_of(parameters(results))]


def _by_agreement(
    settings: SettingsByRow, num_rows: int
) -> tuple[SettingsByRow, SettingsByRow, SettingsByRow]:
    """Returns the settings with several values, those with equal values, and those of one of several rows."""
    differing = {}
    same = {}
    alone = {}
    for key, values in settings.items():
        if len(values) == 1 and num_rows > 1:
            alone[key] = values
        elif len(set(values.values())) > 1:
            differing[key] = values
        else:
            same[key] = values
    return differing, same, alone


def _settings(rows: Sequence[ModelRow]) -> SettingsByRow:
    """Returns the settings of all rows; the values of a row are joined if its runs differ."""
    settings: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        runs = [flatten(run.result.settings["model"]) for run in row.runs]
        names = dict.fromkeys(itertools.chain.from_iterable(runs))
        for name in names:
            if name in _OF_THE_RUN:
                continue
            of_runs = [run[name] for run in runs if name in run]
            values = ", ".join(dict.fromkeys(map(format_setting, of_runs)))
            is_of_every_class = name.partition(".")[0] in _OF_EVERY_CLASS
            of_class = ""
            if not is_of_every_class:
                of_class = str(runs[0].get("_target_"))
            settings.setdefault((name, of_class), {})[row.label] = values
    return settings


def _settings_table(
    caption: str, labels: Sequence[str], settings: SettingsByRow, emphasis: str = ""
) -> Table:
    columns = columns_of({"setting": None}, dict.fromkeys(labels))
    rows: list[TableRow] = []
    for (name, _), values in settings.items():
        cells = []
        for label in labels:
            has_setting = label in values
            cells.append(
                TableCell(values.get(label), emphasis=emphasis if has_setting else "")
            )
        rows.append([name, *cells])
    return Table(columns, rows, caption, "settings")


# ---- Section "Importances": importances of the features for each model, on one scale.

_MOST_ROWS = 100
"""Number of features in a table; importances.csv has all of them."""


def importances_section(shown: Shown) -> Section | None:
    """Returns figures and tables; None if no run recorded importances."""
    importances = compare_importances(
        {row.label: row.runs for row in shown.comparison.rows}
    )
    if not importances.rows:
        return None
    lead = (
        "Importances that the runs recorded, as means over folds and seeds. Gain, splits and SHAP are shares "
        "within one model. Permutation importances are decreases of the metric on test, with 95 % intervals "
        "over queries; coefficients of linear models have intervals over trainings."
    )
    draw = partial(importance_bars, shown.series)
    figures = drawn(draw, "Most important features", Picture.IMPORTANCES, WIDE_PAGE)
    parts: list[View] = [Figures(figures)]
    if importances.notes:
        parts.append(Bullets(importances.notes))
    labels = list(importances.rows)
    of_labels = [TableColumn(label, SIGNED, sortable=False) for label in labels]
    columns = [TableColumn("", left=True, sortable=False), *of_labels]
    for kind, matrix in importances.correlations.items():
        rows = []
        for label, row in zip(labels, matrix, strict=True):
            rows.append([shown.cell_of(label), *row])
        caption = f"Spearman's rank correlation by {NAMES[kind]}"
        parts.append(Table(columns, rows, caption, "compact"))
    tables = [_feature_table(importances, kind) for kind in importances.kinds]
    parts.append(Folded("Importances of every kind", tables))
    return Section("importances", "Importances", lead, parts, ("importances",))


def _feature_table(importances: ImportanceComparison, kind: str) -> Table:
    compared = importances.rows
    labels = [label for label in compared if kind in compared[label].values]
    digits = "+.4g" if kind in OF_LINEAR else DIFFERENCE

    def cell(label: str, feature: int) -> TableCell:
        """Returns the value, with its 95 % interval if the kind has one; a dash without the feature."""
        values = compared[label].values
        value = float(values[kind][feature])
        if isnan(value):
            return TableCell(None)
        low = values.get(kind + LOW)
        high = values.get(kind + HIGH)
        note = ""
        if not (low is None or high is None):
            note = format_interval(low[feature], high[feature], digits)
        return TableCell(value, note=note)

    rows: list[TableRow] = []
    for feature in importances.order[:_MOST_ROWS]:
        cells = [cell(label, feature) for label in labels]
        rows.append([importances.feature_names[feature], *cells])
    form = share if kind in SHARES else digits
    columns = columns_of({"feature": None}, dict.fromkeys(labels, form))
    few = ""
    if len(importances.order) > _MOST_ROWS:
        few = f", the first {_MOST_ROWS} features"
    return Table(columns, rows, f"By {NAMES[kind]}{few}")


# ---- Section "Notes": the notes of the table by group, each with a link to the glossary.


def notes_section(shown: Shown) -> Section | None:
    """Returns the notes, folded by group; None if there are none."""
    groups = grouped_notes(all_notes(shown.comparison))
    if not groups:
        return None
    folded = []
    for each in groups:
        summary = f"{each.group}: {len(each.notes)}"
        folded.append(Folded(summary, [each]))
    return Section("notes", "Notes", "", folded)


def grouped_notes(notes: Iterable[Note]) -> list[GroupedNotes]:
    """Returns a view for each group of notes."""
    return [
        GroupedNotes(group, of_group) for group, of_group in by_group(notes).items()
    ]


# ---- Section "Search": the budget of each model, and what the search improved on validation and on test.


def search_section(shown: Shown) -> Section | None:
    """Returns budgets and results of the searches; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    lead = (
        "A search chooses settings on the validation set and never sees test. Compare models with equal "
        "budgets only. The value on validation of the chosen settings is the highest of many, and therefore "
        "too high."
    )
    parts: list[View] = [_budgets(shown, searched), _results(shown, searched)]
    figures = drawn(
        partial(budget_picture, searched),
        "Best value by number of trials",
        Picture.SEARCH,
    )
    if figures:
        parts += [Figures(figures), Prose(_reading(searched))]
    terms = (
        "search",
        "trial",
        "settings varied",
        "iterations fitted",
        "tunability",
        "expected best value",
    )
    return Section("search", "Search", lead, parts, terms)


def _reading(searched: Sequence[Tuning]) -> str:
    """Returns how to read the picture of the searches, and where its lines have the default settings."""
    sentences = [
        "Lines are the best value on validation so far, means over folds and searches; marks are the values "
        "on test of the chosen settings, on an axis of the same scale."
    ]
    without = [item.label for item in searched if item.default_value is None]
    if without:
        sentences.append(
            f"Some search of {listed(without)} has no fully trained trial with the default settings, so "
            "there is no default value."
        )
    elif all(item.begins_with_default for item in searched):
        sentences.append("The first trial has the default settings.")
    return " ".join(sentences)


def _budgets(shown: Shown, searched: Sequence[Tuning]) -> Table:
    columns = columns_of(
        {
            "model": None,
            "search": None,
            "settings varied": COUNT,
            "searches": COUNT,
            "trials": significant,
            "iterations fitted": significant,
            "fit time": format_duration,
        }
    )
    rows: list[TableRow] = []
    for item in searched:
        names = dict.fromkeys(str(search.record["name"]) for search in item.searches)
        name = shown.cell_of(item.label)
        numbers = (item.num_settings, len(item.searches))
        means = (item.trials, item.iterations, item.seconds)
        rows.append([name, ", ".join(names), *numbers, *means])
    return Table(columns, rows, "Budgets, means over searches")


def _results(shown: Shown, searched: Sequence[Tuning]) -> Table:
    metric = ", ".join(dict.fromkeys(item.metric for item in searched))
    forms = {
        "model": None,
        "default, validation": QUALITY,
        "chosen, validation": QUALITY,
        "tunability": DIFFERENCE,
        "chosen, test": QUALITY,
        minus("validation", "test"): DIFFERENCE,
        "sd over searches": QUALITY,
        minus("tuned", "default"): DIFFERENCE,
        "claim": None,
    }
    columns = columns_of(forms)
    rows: list[TableRow] = []
    for item in searched:
        row: TableRow = [
            shown.cell_of(item.label),
            item.default_value,
            item.chosen_value,
            item.tunability,
            item.test_value,
            item.gap,
            item.sd_over_searches,
        ]
        pair = item.untuned
        if pair is None:
            rows.append([*row, None, None])
        else:
            rows.append([*row, difference_cell(pair), pair.models.state])
    return Table(columns, rows, f"{metric} under the default convention")


# ---- Section "Settings": which settings matter, and what was chosen.

_SETTINGS_TERMS = ("setting importance", "chosen settings", "not told apart")

_LONGEST_NUMBER = 6
"""Number of characters of a setting that is not shortened."""


def settings_section(shown: Shown) -> Section | None:
    """Returns importance, slices of the space and chosen settings; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    lead = (
        "The share of the variance of the value on validation that each setting explains, in this space and "
        "these trials. A chosen value at the end of its range suggests a wider range. You may take the "
        "cheapest settings that cannot be told apart from the chosen ones."
    )
    shares = [(series_of_search(item), item.importance) for item in searched]
    draw = partial(setting_importance_bars, shares)
    figures = drawn(draw, "Importance of the settings", Picture.SETTING_IMPORTANCES)
    parts: list[View] = [Figures(figures), *map(_chosen, searched)]
    return Section("settings", "Settings", lead, parts, _SETTINGS_TERMS)


def _chosen(item: Tuning) -> Table:
    """Returns the chosen settings of each search, and the cheapest that cannot be told apart from them."""
    first = item.searches[0].record
    columns = [
        TableColumn("search", left=True),
        TableColumn("trial", COUNT),
        TableColumn(f"{item.metric} on validation", QUALITY),
        TableColumn("iterations", COUNT, hint="Fitted in the trial."),
    ]
    for name, values in first["space"].items():
        columns.append(TableColumn(name, left=True, hint=values))
    default = _setting_cells(first, first["default"])
    rows: list[TableRow] = [["default", None, item.default_value, None, *default]]
    for search in item.searches:
        rows.extend(_rows_of_search(search))
    return Table(columns, rows, f"{item.label}: chosen settings", "settings")


def _rows_of_search(search: SearchedRun) -> Iterator[TableRow]:
    """Yields the row of the chosen trial and, if it is another one, of the cheapest not told apart."""
    name = f"seed {search.record['seed']}"
    if search.fold:
        name = f"{search.fold}, {name}"
    chosen = search.chosen
    of_trial = [None, None] if chosen is None else [chosen.value, chosen.iterations]
    settings = _setting_cells(search.record, search.record["settings"])
    yield [name, search.record["chosen"], *of_trial, *settings]
    cheapest = search.cheapest
    if cheapest is None or cheapest is chosen:
        return
    interval = format_interval(cheapest.low, cheapest.high, DIFFERENCE)
    value = TableCell(cheapest.value, note=f"minus chosen: {interval}")
    settings = _setting_cells(search.record, cheapest.settings)
    name = f"{name}, cheapest not told apart"
    yield [name, cheapest.trial, value, cheapest.iterations, *settings]


def _setting_cells(
    record: Mapping[str, Any], settings: Mapping[str, object]
) -> list[TableCell]:
    """Returns the settings of a trial; those that differ from the default are emphasised."""
    cells = []
    for name in record["space"]:
        value = format_setting(settings.get(name))
        default = format_setting(record["default"].get(name))
        emphasis = CHANGED if value != default else ""
        cells.append(TableCell(value, short_setting(value), emphasis=emphasis))
    return cells


def short_setting(value: object) -> str:
    """Returns a setting with four significant figures; trials.csv and result.json have all digits.

    >>> short_setting(0.0857272), short_setting("0.0857272"), short_setting("31"), short_setting(None)
    ('0.08573', '0.08573', '31', 'null')
    """
    text = format_setting(value)
    try:
        if len(text) <= _LONGEST_NUMBER:
            return text
        return f"{float(text):.4g}"
    except ValueError:
        return text
