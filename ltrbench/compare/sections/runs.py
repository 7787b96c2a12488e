"""Section "Quality and cost": fit time, predict time, size and memory, with Pareto fronts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ltrbench.compare.advice import all_notes
from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.fairness import SHOWN_DIGITS, parameters
from ltrbench.compare.grouping import DATA_SPLITS, by_group, flatten, fold_of
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.leaderboard import between, emphasis_of
from ltrbench.compare.sections import (
    PAGE,
    WIDE_PAGE,
    Bullets,
    Figures,
    Folded,
    GroupedNotes,
    PagePart,
    Prose,
    Section,
    Shown,
    all_folds,
    inlined,
    section,
)
from ltrbench.compare.tables import about_published, published_table
from ltrbench.compare.tuning import SearchedRun, Tuning, budget_picture, share_picture, slice_picture, tunings
from ltrbench.data import Judgments
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.plots.drawing import (
    FIT,
    Cost,
    curves_by_iteration,
    importance_bars,
    metric_against_cost,
    ndcg_by_cutoff,
)
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.rankers.importance import HIGH, LOW, NAMES, SHARES
from ltrbench.runs import TIMES, Run
from ltrbench.statistics import Interval
from ltrbench.tables import CHANGED, Table, TableCell, TableColumn, TableRow, assignments, numbers


def _micros_per_document(row: ModelRow) -> float | None:
    """Returns the predict time per document in µs, mean over the runs that did not share the machine.

    None if there is no such run, or one of them was not timed.
    """
    alone = [item for item in row.evaluated if not item.run.result.shared_machine]
    times = [
        1e6 * item.run.result.seconds["predict"] / item.judgments.num_documents
        for item in alone
        if "predict" in item.run.result.seconds
    ]
    return fmean(times) if times and len(times) == len(alone) else None


@dataclass(frozen=True)
class _Measure:
    caption: str
    cost: Cost
    of_row: Callable[[ModelRow], float | None]


_MEASURES = (
    _Measure("Against the fit time", FIT, lambda row: row.seconds.get("fit")),
    _Measure(
        "Against the predict time",
        Cost("predict time", "predict time per document, µs", 0.001),
        _micros_per_document,
    ),
    _Measure(
        "Against the model size",
        Cost("model size", "model size on disk, MB", 0.0001),
        lambda row: row.model_mb,
    ),
    _Measure(
        "Against the memory during the fit",
        Cost("memory of the fit", "peak memory increase during the fit, MB", 0.1),
        lambda row: row.peak_memory_mb,
    ),
)


@section(place=120)
def costs_section(shown: Shown) -> Section | None:
    """Returns the metric against each cost; None if no cost was measured, as for imported scores."""
    comparison = shown.comparison
    figures = []
    for number, measure in enumerate(_MEASURES):
        spent = [measure.of_row(comparison.row(item.label)) for item in shown.drawn]
        figure = metric_against_cost(shown.drawn, spent, measure.cost, comparison.metric, PAGE)
        if figure is not None:
            figures.append(inlined(figure, f"{shown.name}-cost-{number}", measure.caption))
    if not figures:
        return None
    lead = (
        f"{comparison.metric} on test against cost. The dashed line is the Pareto front: no other model is "
        "both cheaper and better than a model on it. Times are wall times on the machine of the run; the "
        "whole test set is predicted at once. The clean fit time is measured only with timing=clean."
    )
    if any(run.result.shared_machine for row in comparison.rows for run in row.runs):
        lead += " Times of runs that shared the machine with another job are left out."
    parts: list[PagePart] = [Figures(figures), _table(shown)]
    return Section("costs", "Quality and cost", lead, parts, ("Pareto front", *_TERMS))


_TERMS = ("fit s", "evaluation s", "clean fit s", "predict s", "model size", "memory MB", "trees")


def _table(shown: Shown) -> Table:
    times = {
        TIMES["fit"]: "Wall time, evaluation included.",
        TIMES["monitor"]: "Evaluation during the fit; part of the fit time.",
        TIMES["fit_clean"]: "Another fit without evaluation, with timing=clean.",
        f"{TIMES['predict']} per document": "The whole test set is predicted at once.",
    }
    columns = [
        TableColumn("model", left=True),
        TableColumn(shown.comparison.metric, numbers.quality),
        *(TableColumn(header, numbers.duration, hint=hint) for header, hint in times.items()),
        TableColumn("model size", numbers.size, hint="On disk."),
        TableColumn("memory", numbers.size, hint="Increase of resident memory during the fit."),
        TableColumn("trees", numbers.significant),
    ]
    return Table(columns, [_cells(shown, row) for row in shown.rows], "Costs, means over runs")


def _cells(shown: Shown, row: ModelRow) -> TableRow:
    micros = _micros_per_document(row)
    return [
        shown.of_row(row.label),
        row.metrics[shown.comparison.metric],
        *(row.seconds.get(kind) for kind in ("fit", "monitor", "fit_clean")),
        None if micros is None else micros / 1e6,
        row.model_mb,
        row.peak_memory_mb,
        row.trees,
    ]


# ---- Sections "NDCG@k" and "Learning curves".


@section(place=100)
def cutoffs_section(shown: Shown) -> Section:
    """Returns NDCG@k under the convention of the comparison."""
    title = "NDCG@k"
    try:
        ndcg = shown.comparison.ndcg_by_cutoff
    except (UndefinedMetricError, DataError) as error:
        return Section("cutoffs", title, "", [Prose(f"NDCG is not defined here: {error}")])
    figure = ndcg_by_cutoff(shown.drawn, PAGE)
    if figure is None:
        return Section("cutoffs", title, "", [Prose("No query counts in NDCG.")])
    largest = max(map(len, ndcg.values()))
    cutoffs = [TableColumn(f"@{k}", numbers.quality) for k in range(1, largest + 1)]
    rows = [[shown.of_row(row.label), *ndcg[row.label]] for row in shown.rows]
    table = Table([TableColumn("model", left=True), *cutoffs], rows, "NDCG@k")
    lead = f"NDCG of the first k documents, k = 1 to {largest}: does the order of models depend on k?"
    drawn = inlined(figure, f"{shown.name}-cutoffs", "NDCG@k on test")
    return Section("cutoffs", title, lead, [Figures([drawn]), Folded("Table of NDCG@k", [table])])


@section(place=110)
def learning_section(shown: Shown) -> Section | None:
    """Returns the learning curves; None if no run recorded one."""
    figure = curves_by_iteration(shown.drawn, shown.comparison.metric, PAGE)
    if figure is None:
        return None
    lead = (
        "The metric on validation by iteration, and on train if it was recorded: which models overfit, and "
        "which stopped while the metric was still increasing? Values are means over runs, which recorded "
        "them under their own convention."
    )
    drawn = inlined(figure, f"{shown.name}-learning", "By iteration")
    return Section("learning", "Learning curves", lead, [Figures([drawn])])


# ---- Sections "Data card" and "Published values".


@section(place=160)
def data_section(shown: Shown) -> Section:
    """Returns the splits, and the labels and query sizes of the test set."""
    comparison = shown.comparison
    cells = {item.cell: item for row in comparison.rows for item in row.evaluated}
    splits = [row for item in cells.values() for row in _splits(item.run)]
    judged = [item.judgments for item in cells.values()]
    lead = (
        "Runs with the same fingerprint of a split have the same documents in it. Labels and sizes are those "
        f"of all test queries, including those that the metric skips{all_folds(len(cells))}."
    )
    columns = [
        TableColumn("split", left=True),
        *(TableColumn(name, numbers.count) for name in ("documents", "queries", "features")),
        TableColumn("queries without relevant", numbers.share, hint="Queries without a relevant document."),
        TableColumn("fingerprint", left=True),
    ]
    tables = [Table(columns, splits, "Splits", "compact"), _grades(judged), _sizes(judged)]
    return Section("data", "Data card", lead, tables, ("fingerprint", "skipped queries"))


def _splits(run: Run) -> list[TableRow]:
    data = run.result.data
    fold = "" if data.get("fold") is None else f" of fold {data['fold']}"
    rows: list[TableRow] = []
    for split in DATA_SPLITS:
        facts = data.get(split) or {}
        fingerprint = facts.get("fingerprint")
        if fingerprint is not None:
            names = ("documents", "queries", "features", "queries_without_relevant_document")
            shown = TableCell(fingerprint, fingerprint[:SHOWN_DIGITS])
            rows.append([f"{split}{fold}", *(facts.get(name) for name in names), shown])
    return rows


def _grades(judged: list[Judgments]) -> Table:
    labels, counts = np.unique(np.concatenate([item.labels for item in judged]), return_counts=True)
    total = int(counts.sum())
    rows = [
        [label, count, count / total] for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
    ]
    columns = [
        TableColumn("label", "g"),
        TableColumn("documents", numbers.count),
        TableColumn("share", numbers.share),
    ]
    return Table(columns, rows, "Labels of test", "compact")


def _sizes(judged: list[Judgments]) -> Table:
    sizes = np.concatenate([item.query_sizes for item in judged])
    shares = {"minimum": 0.0, "lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "maximum": 1.0}
    quantiles = [float(np.quantile(sizes, share)) for share in shares.values()]
    columns = [
        TableColumn("per query", left=True, sortable=False),
        *(TableColumn(name, numbers.count, sortable=False) for name in shares),
    ]
    return Table(columns, [[TableCell(text="documents"), *quantiles]], "Sizes of test queries", "compact")


@section(place=170)
def published_section(shown: Shown) -> Section | None:
    """Returns published values on the data set; None if its YAML has none."""
    published = shown.comparison.published
    if published is None:
        return None
    table = published_table(shown.comparison, published, numbers.quality)
    parts: list[PagePart] = [Prose(about_published(published)), table]
    return Section("published", "Published values", "", parts, ("published values",))


# ---- Section "Hyperparameters": settings side by side, those that differ first and highlighted.

SettingsByRow = Mapping[tuple[str, str], Mapping[str, str]]
"""(setting, class of the ranker; "" for settings of every class) -> label -> value."""

_OF_THE_RUN = ("_target_", "seed")
_OF_EVERY_CLASS = {*OF_EVERY_RANKER, *SHARED, "early_stopping"}


@section(place=150)
def hyperparameters_section(shown: Shown) -> Section | None:
    """Returns the settings of all models; None if no run has settings, as with imported scores."""
    settings = _settings([row for row in shown.rows if row.runs[0].result.settings.get("model")])
    if not settings:
        return None
    labels = [row.label for row in shown.rows]
    shared = {key: values for key, values in settings.items() if len(values) > 1 or len(labels) == 1}
    alone = {key: values for key, values in settings.items() if key not in shared}
    differing = [key for key, values in shared.items() if len(set(values.values())) > 1]
    same = [key for key in shared if key not in differing]
    lead = (
        f"{len(differing)} of {len(shared)} settings differ between the models that have them. A dash means: "
        "the model does not have the setting; null: it is not set. Other settings than the shared parameters "
        "are compared only between models of one backend, because a name may have several meanings."
    )
    results = [run.result for row in shown.rows for run in row.runs if run.result.seconds]
    lead = " ".join(filter(None, [parameters(results), lead]))
    parts: list[PagePart] = [Prose("No shared setting differs.")]
    if differing:
        parts = [
            _parameter_table("Settings that differ", labels, {key: shared[key] for key in differing}, CHANGED)
        ]
    if same:
        rest = {key: shared[key] for key in same}
        parts.append(
            Folded(f"{len(same)} settings that are equal", [_parameter_table("Equal settings", labels, rest)])
        )
    if alone:
        summary = f"{len(alone)} settings that only one model has"
        parts.append(Folded(summary, [_parameter_table("Settings of one model", labels, alone)]))
    return Section("hyperparameters", "Hyperparameters", lead, parts, ("matched parameters",))


def _settings(rows: Sequence[ModelRow]) -> SettingsByRow:
    """Returns the settings of all rows; the values of a row are joined if its runs differ."""
    settings: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        runs = [flatten(run.result.settings["model"]) for run in row.runs]
        for name in dict.fromkeys(name for run in runs for name in run if name not in _OF_THE_RUN):
            values = dict.fromkeys(numbers.setting_in_words(run[name]) for run in runs if name in run)
            is_of_every_class = name.partition(".")[0] in _OF_EVERY_CLASS
            of_class = "" if is_of_every_class else str(runs[0].get("_target_"))
            settings.setdefault((name, of_class), {})[row.label] = ", ".join(values)
    return settings


def _parameter_table(
    caption: str, labels: Sequence[str], settings: SettingsByRow, emphasis: str = ""
) -> Table:
    columns = [TableColumn(header, left=True) for header in ("setting", *labels)]
    rows: list[TableRow] = [
        [name, *(_cell(values.get(label), emphasis) for label in labels)]
        for (name, _), values in settings.items()
    ]
    return Table(columns, rows, caption, "settings")


def _cell(value: str | None, emphasis: str) -> TableCell:
    return TableCell(value, emphasis="" if value is None else emphasis)


# ---- Section "Importances": importances of the features for each model, on one scale.

_MOST_ROWS = 100
"""Number of features in a table; importances.csv has all of them."""


@section(place=140)
def importances_section(shown: Shown) -> Section | None:
    """Returns figures and tables; None if no run recorded importances."""
    importances = compare_importances({row.label: row.runs for row in shown.comparison.rows})
    if not importances.rows:
        return None
    parts: list[PagePart] = []
    figure = importance_bars(shown.series, WIDE_PAGE)
    if figure is not None:
        parts.append(Figures([inlined(figure, f"{shown.name}-importances", "Most important features")]))
    if importances.notes:
        parts.append(Bullets(importances.notes))
    parts += [_correlations(shown, importances, kind) for kind in importances.correlations]
    features = [_features(importances, kind) for kind in importances.kinds]
    parts.append(Folded("Importances of every kind", features))
    return Section("importances", "Importances", _LEAD, parts, ("importances",))


_LEAD = (
    "The kinds of importance that the runs recorded, as means over folds and seeds. Gain, splits and SHAP "
    "are shares within one model. Permutation importances are decreases of the metric on test, with 95 % "
    "intervals over queries, in the metric and convention of the runs. Models of equal quality can use "
    "different features."
)


def _correlations(shown: Shown, importances: ImportanceComparison, kind: str) -> Table:
    labels = list(importances.rows)
    rows = [
        [shown.of_row(label), *row] for label, row in zip(labels, importances.correlations[kind], strict=True)
    ]
    columns = [
        TableColumn("", left=True, sortable=False),
        *(TableColumn(label, numbers.signed, sortable=False) for label in labels),
    ]
    return Table(columns, rows, f"Spearman's rank correlation by {NAMES[kind]}", "compact")


def _features(importances: ImportanceComparison, kind: str) -> Table:
    labels = [label for label, row in importances.rows.items() if kind in row.values]
    rows: list[TableRow] = [
        [
            importances.feature_names[feature],
            *(_importance_cell(importances, label, kind, feature) for label in labels),
        ]
        for feature in importances.order[:_MOST_ROWS]
    ]
    form = numbers.share if kind in SHARES else numbers.difference
    columns = [TableColumn("feature", left=True), *(TableColumn(label, form) for label in labels)]
    few = len(importances.order) > _MOST_ROWS
    return Table(columns, rows, f"By {NAMES[kind]}{f', the first {_MOST_ROWS} features' if few else ''}")


def _importance_cell(importances: ImportanceComparison, label: str, kind: str, feature: int) -> TableCell:
    """Returns the value, with its 95 % interval if the kind has one."""
    values = importances.rows[label].values
    note = ""
    if kind + HIGH in values:
        ends = Interval(float(values[kind + LOW][feature]), float(values[kind + HIGH][feature]), "t")
        note = between(ends)
    return TableCell(float(values[kind][feature]), note=note)


# ---- Section "Notes": the notes of the table by group, each with a link to the glossary.


@section(place=180)
def notes_section(shown: Shown) -> Section | None:
    """Returns the notes by group; None if there are none."""
    groups = by_group(all_notes(shown.comparison))
    parts = [GroupedNotes(group, notes) for group, notes in groups.items()]
    return Section("notes", "Notes", "", parts) if parts else None


# ---- Section "Search": the budget of each model, and what the search improved on validation and on test.

_BUDGETS_LEAD = (
    "A search chooses settings on the validation set and never sees test: each value on test is that of the "
    "chosen settings, trained once for each model and fold. Compare models with equal budgets only. The "
    "value on validation of the chosen settings is the highest of many on the same queries, and therefore "
    "too high; validation minus test also contains the difference between the two sets of queries."
)


@section(place=142)
def search_section(shown: Shown) -> Section | None:
    """Returns budgets and results of the searches; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    parts: list[PagePart] = [_budgets(shown, searched), _results(shown, searched)]
    untuned = [item for item in searched if item.untuned is not None]
    if untuned:
        parts.append(_against_default(shown, untuned))
    figure = budget_picture(searched, PAGE)
    if figure is not None:
        parts.append(Figures([inlined(figure, f"{shown.name}-search", "Best value by number of trials")]))
        parts.append(Prose(_reading(searched)))
    return Section("search", "Search", _BUDGETS_LEAD, parts, _BUDGETS_TERMS)


_BUDGETS_TERMS = (
    "search",
    "trial",
    "settings varied",
    "iterations fitted",
    "tunability",
    "expected best value",
)


def _reading(searched: Sequence[Tuning]) -> str:
    kind = (
        "Each line is the expected best value on validation after so many trials, over the order of the "
        "random trials; the first trial has the default settings."
        if all(item.is_expected for item in searched)
        else "Each line is the best value on validation so far, in the order of the trials; an expected "
        "value is not defined, because not every search drew its trials independently and trained them fully."
    )
    return (
        f"{kind} Lines are means over folds and searches. The marks beside them are the values on test of "
        "the chosen settings, on an axis of the same scale; there is no line for test, because trials are "
        "not evaluated on test."
    )


def _budgets(shown: Shown, searched: Sequence[Tuning]) -> Table:
    columns = [
        TableColumn("model", left=True),
        TableColumn("search", left=True),
        TableColumn("settings varied", numbers.count, hint="Settings of the space that the model has."),
        TableColumn("searches", numbers.count, hint="One per fold and search seed, or one for all folds."),
        TableColumn("trials", numbers.significant, hint="Of one search."),
        TableColumn("iterations fitted", numbers.significant, hint="In all trials of one search."),
        TableColumn("fit time", numbers.duration, hint="Of all trials of one search, evaluation included."),
    ]
    rows: list[TableRow] = [
        [
            shown.of_row(item.label),
            ", ".join(dict.fromkeys(str(search.record["name"]) for search in item.searches)),
            item.num_settings,
            len(item.searches),
            item.trials,
            item.iterations,
            item.seconds,
        ]
        for item in searched
    ]
    return Table(columns, rows, "Budgets, means over searches")


def _results(shown: Shown, searched: Sequence[Tuning]) -> Table:
    metric = ", ".join(dict.fromkeys(item.metric for item in searched))
    columns = [
        TableColumn("model", left=True),
        TableColumn("default, validation", numbers.quality, hint="Settings without the search."),
        TableColumn("chosen, validation", numbers.quality, hint="The highest of many, therefore too high."),
        TableColumn("tunability", numbers.difference, hint="Chosen minus default settings on validation."),
        TableColumn("chosen, test", numbers.quality),
        TableColumn(numbers.minus("validation", "test"), numbers.difference, hint="Chosen settings."),
        TableColumn(
            "sd over searches", numbers.quality, hint="Of the value on test, over searches with other seeds."
        ),
    ]
    rows: list[TableRow] = [
        [
            shown.of_row(item.label),
            item.default_value,
            item.chosen_value,
            item.tunability,
            item.test_value,
            item.gap,
            item.sd_over_searches,
        ]
        for item in searched
    ]
    return Table(columns, rows, f"{metric} under the default convention")


def _against_default(shown: Shown, searched: Sequence[Tuning]) -> Table:
    columns = [
        TableColumn("tuned", left=True),
        TableColumn("default settings", left=True),
        TableColumn(shown.comparison.metric, numbers.difference, hint="Tuned minus default, on test."),
        TableColumn("claim", left=True),
    ]
    rows: list[TableRow] = []
    for item in searched:
        untuned = item.untuned
        if untuned is not None:
            names = [shown.of_row(item.label), shown.of_row(untuned.label)]
            pair = untuned.pair
            if pair is None:
                rows.append([*names, None, ""])
            else:
                difference = TableCell(pair.difference, note=between(pair.interval))
                rows.append([*names, difference, TableCell(pair.claim, emphasis=emphasis_of(pair))])
    return Table(columns, rows, "Tuned against default settings on test")


# ---- Section "Settings": which settings matter, and what was chosen.

_LONGEST_NUMBER = 6
"""Number of characters of a setting that is not shortened."""

_SETTINGS_LEAD = (
    "Which settings matter: the share of the variance of the value on validation that each setting explains, "
    "and the value of each complete trial against each setting, minus the value of the chosen trial of the "
    "same search. Both describe this space and these trials. A default setting without a place on the axis, "
    "as 0 on a logarithmic one, is not drawn. A chosen value at the end of its range suggests a wider range."
)


@section(place=144)
def settings_section(shown: Shown) -> Section | None:
    """Returns importance, slices of the space and chosen settings; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    parts: list[PagePart] = []
    shares = share_picture(searched, PAGE)
    if shares is not None:
        parts.append(Figures([inlined(shares, f"{shown.name}-shares", "Importance of the settings")]))
    for number, item in enumerate(searched):
        figure = slice_picture(item, WIDE_PAGE)
        if figure is not None:
            drawn = inlined(figure, f"{shown.name}-slices-{number}", f"{item.label}: value by setting")
            parts.append(Folded(f"{item.label}: value by setting", [Figures([drawn])]))
    parts += [_chosen(item) for item in searched]
    return Section("settings", "Settings", _SETTINGS_LEAD, parts, ("setting importance", "chosen settings"))


def _chosen(item: Tuning) -> Table:
    space = item.searches[0].record["space"]
    columns = [
        TableColumn("search", left=True),
        TableColumn("trial", numbers.count),
        TableColumn(f"{item.metric} on validation", numbers.quality),
        *(TableColumn(name, left=True, hint=values) for name, values in space.items()),
    ]
    rows: list[TableRow] = [
        ["default", None, item.default_value, *_setting_cells(item.searches[0], "default")]
    ]
    for search in item.searches:
        value = None if search.chosen is None else search.chosen.value
        rows.append(
            [
                name_of_search(item, search),
                search.record["chosen"],
                value,
                *_setting_cells(search, "settings"),
            ]
        )
    return Table(columns, rows, f"{item.label}: chosen settings", "settings")


def _setting_cells(search: SearchedRun, which: str) -> list[TableCell]:
    """Returns the default or the chosen settings; chosen ones that differ from the default are emphasised."""
    record = search.record
    return [
        TableCell(
            numbers.setting_in_words(record[which].get(name)),
            text=short_setting(record[which].get(name)),
            emphasis="" if record[which].get(name) == record["default"].get(name) else CHANGED,
        )
        for name in record["space"]
    ]


def short_setting(value: object) -> str:
    """Returns a setting with four significant figures; trials.csv and result.json have all digits.

    >>> short_setting(0.0857272), short_setting("0.0857272"), short_setting("31"), short_setting(None)
    ('0.08573', '0.08573', '31', 'null')
    """
    text = numbers.setting_in_words(value)
    try:
        return text if len(text) <= _LONGEST_NUMBER else f"{float(text):.4g}"
    except ValueError:
        return text


def name_of_search(item: Tuning, search: SearchedRun) -> str:
    """Returns fold and seed of a search, as far as they distinguish it."""
    words = []
    if search.fold is not None:
        words.append(f"fold {search.fold}")
    elif len({fold_of(run) for run in item.row.runs}) > 1:
        words.append("all folds")
    if item.repeated > 1:
        words.append(f"seed {search.record['seed']}")
    return ", ".join(words) or "search"


# ---- Section "Settings that cannot be told apart" from the chosen ones, and the cheapest of them.

_ALIKE_LEAD = (
    "A fully trained trial cannot be told apart from the chosen one if the simultaneous 95 % interval of its "
    "difference contains 0, over the queries of the validation set. A user may take the cheapest of these "
    "settings. The intervals hold for these trained models on these queries: they are no confidence set of "
    "the best settings, and say nothing of the same settings trained again."
)


@section(place=146)
def alike_section(shown: Shown) -> Section | None:
    """Returns the settings that are as good as the chosen ones; None without intervals."""
    searched = [item for item in tunings(shown.comparison) if any(search.alike for search in item.searches)]
    if not searched:
        return None
    parts: list[PagePart] = [_alike_table(item) for item in searched]
    return Section("alike", "Settings that cannot be told apart", _ALIKE_LEAD, parts, ("not told apart",))


def _alike_table(item: Tuning) -> Table:
    columns = [
        TableColumn("search", left=True),
        TableColumn("complete trials", numbers.count),
        TableColumn("not told apart", numbers.count, hint="The chosen trial included."),
        TableColumn("chosen: iterations", numbers.count, hint="Fitted in the chosen trial."),
        TableColumn("cheapest: iterations", numbers.count, hint="Fitted in the cheapest trial."),
        TableColumn("cheapest: fit time", numbers.duration),
        TableColumn("minus chosen", numbers.difference, hint="The cheapest minus the chosen, on validation."),
        TableColumn("settings of the cheapest", left=True),
    ]
    rows: list[TableRow] = []
    for search in item.searches:
        chosen, cheapest = search.chosen, search.cheapest
        if chosen is not None and cheapest is not None:
            settings = {name: short_setting(value) for name, value in cheapest.settings.items()}
            ends = numbers.interval(cheapest.low, cheapest.high, numbers.difference)
            rows.append(
                [
                    name_of_search(item, search),
                    len(search.complete),
                    len(search.alike),
                    chosen.iterations,
                    cheapest.iterations,
                    cheapest.seconds,
                    TableCell(cheapest.value - chosen.value, note="" if cheapest is chosen else ends),
                    "the chosen ones" if cheapest is chosen else assignments(settings),
                ]
            )
    return Table(columns, rows, item.label)
