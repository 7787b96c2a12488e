"""Fairness of a comparison: mismatched data are refused, other inequalities become notes.

Runs that were trained or evaluated on different documents are not compared; the error names the differing
splits. Differences that may matter (threads, machines, number of settings tried, a model stopped by the test
set) are notes under the table.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from ltrbench.compare.cells import (
    DataCell,
    cell_of,
    describe_cells,
    first_by,
    grouped,
    is_per_fold,
    replicate_of,
    runs_by_label,
)
from ltrbench.compare.clicks import CLICKS
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.compare.table import (
    EvaluatedRun,
    ModelRow,
    reasons_against_folds,
    times_in_sets,
)
from ltrbench.data.dataset import QueryKeys
from ltrbench.errors import ResultError, UndefinedMetricError
from ltrbench.metrics import Convention, evaluate, parse_metric
from ltrbench.metrics.functions import CLICK_METRICS
from ltrbench.runs.origin import Ensemble
from ltrbench.runs.record import NO_PARAMETERS, OWN, Run, RunResult


def mismatches(tables: Mapping[str, Sequence[Run]]) -> list[Remark]:
    """Returns a remark for each two groups of runs that must be paired and have different data.

    A sweep over a setting of the data, in which every model is run under each value, is no mismatch: it gives
    one table per value. Two models with the same data set and fold but without a common cell are a mismatch.

    Args:
        tables: Name -> runs.
    """
    remarks: dict[tuple[str, str], Remark] = {}
    by_data = grouped(tables, lambda name: cell_of(tables[name][0]).data)
    for names in by_data.values():
        placed: dict[_Placed, None] = {}
        for name in names:
            for label, of_row in runs_by_label(tables[name]).items():
                placed |= dict.fromkeys(
                    _Placed(label, name, cell_of(run)) for run in of_row
                )
        cells_of: dict[str, set[DataCell]] = {}
        for item in placed:
            cells_of.setdefault(item.label, set()).add(item.cell)
        for one, other in itertools.combinations(placed, 2):
            if one.cell.fold != other.cell.fold or one.cell == other.cell:
                continue
            is_one_table = one.table == other.table
            is_one_repeat = is_one_table and one.cell.repeat == other.cell.repeat
            if is_one_repeat or not cells_of[one.label] & cells_of[other.label]:
                labels = (one.label, other.label)
                both = () if is_one_table else (one.table, other.table)
                remark = _mismatch(labels, (one.cell, other.cell), both)
                remarks.setdefault(labels, remark)
    return list(remarks.values())


class _Placed(NamedTuple):
    """Runs of a row of a table in one cell."""

    label: str
    table: str
    cell: DataCell


def _mismatch(
    labels: tuple[str, str],
    cells: tuple[DataCell, DataCell],
    tables: Sequence[str],
) -> Remark:
    one, other = cells
    differing = {}
    for split, fingerprint in one.fingerprints.items():
        pair = (fingerprint, other.fingerprints[split])
        if pair[0] != pair[1]:
            differing[split] = pair
    return Remark.of(
        Kind.MISMATCHED_DATA,
        data=one.data,
        fold=one.fold,
        labels=labels,
        fingerprints=differing,
        tables=tables,
    )


def warnings(
    rows: Sequence[ModelRow], metric: str, convention: Convention
) -> list[Remark]:
    """Returns the remarks on how fairly the rows are compared."""
    return list(_warnings(rows, metric, convention))


def _warnings(
    rows: Sequence[ModelRow], metric: str, convention: Convention
) -> Iterator[Remark]:
    evaluated = list(itertools.chain.from_iterable(row.evaluated for row in rows))
    results = [item.run.result for item in evaluated]
    fitted = [result for result in results if result.origin.was_fitted]
    untuned = [row for row in rows if not row.is_tuned]
    convention_of_metric = convention.of(parse_metric(metric)[0])
    yield from _about_convention(convention_of_metric, evaluated, metric)
    yield from _about_seeds(rows)
    yield from _about_clicks(results, metric)
    yield from _about_test_sets(evaluated, metric)
    yield from _circumstances(fitted)
    yield from _about_shared_machine(rows)
    yield from _about_searches(rows)
    yield from _about_settings(untuned, metric, convention)
    yield from _about_choice_over_folds(rows)
    yield from _about_stopping_on_test(results)
    yield from _about_ensembles(rows)
    yield from _recorded_notes(results)


def _about_convention(
    convention: Convention, items: Sequence[EvaluatedRun], metric: str
) -> Iterator[Remark]:
    fields = convention.describe()
    yield Remark.of(
        Kind.CONVENTION, name=fields["name"], gain=fields["gain"], ties=fields["ties"]
    )
    evaluations = [item.evaluation for item in items]
    yield Remark.of(
        Kind.SKIPPED_QUERIES,
        share=fmean(each.share_without_relevant for each in evaluations),
        value=convention.no_relevant.value,
        metric=metric,
        are_skipped=any(each.skipped[metric] for each in evaluations),
        are_filtered=convention.filters != "none",
    )


def _about_seeds(rows: Sequence[ModelRow]) -> Iterator[Remark]:
    same = [row.label for row in rows if row.seeds_change_nothing]
    if same:
        yield Remark.of(Kind.CONSTANT_SEEDS, labels=same)


def _about_clicks(results: Sequence[RunResult], metric: str) -> Iterator[Remark]:
    """Yields that a metric measures clicks without a correction: of labels that are clicks, or of the clicks
    of a log; a metric of another column has values of its own."""
    name = parse_metric(metric)[0]
    _, _, column = name.partition(":")
    logs = [result.data.get("facts") or {} for result in results]
    is_of_log = any(facts.get("kind") == CLICKS for facts in logs)
    if is_of_log and column == CLICKS:
        yield Remark.of(Kind.RAW_CLICKS, metric=metric)
    if ":" in name or name in CLICK_METRICS:  # a metric of a column or of a log
        return
    tests = [result.data.get("test") or {} for result in results]
    if any(of_test.get("are_clicks") for of_test in tests):
        yield Remark.of(Kind.CLICKS, metric=metric)


def _about_test_sets(
    evaluated: Sequence[EvaluatedRun], metric: str
) -> Iterator[Remark]:
    """Yields how often test queries repeat, and why test sets are not folds of a cross-validation."""
    # A fold has one test set, however many training sets.
    test_sets = first_by(evaluated, lambda item: item.cell.of_test)
    keys_of_cell = {}
    for cell, item in test_sets.items():
        counts = ~np.isnan(item.evaluation.per_query[metric])
        keys_of_cell[cell] = item.query_keys[counts]
    num_distinct = len(times_in_sets([*keys_of_cell.values()]))
    num_queries = sum(map(len, keys_of_cell.values()))
    if num_distinct < num_queries:
        yield Remark.of(
            Kind.REPEATED_QUERIES, num_distinct=num_distinct, num_queries=num_queries
        )
    cells = [cell for cell in keys_of_cell if cell.fold is not None]
    if len(cells) < 2:
        return
    lacking = _lacking(cells)
    if lacking:
        yield Remark.of(Kind.MISSING_CELLS, where=describe_cells(lacking))
    whole = {item.cell.of_test: item.cell for item in evaluated}
    reasons = reasons_against_folds({whole[cell]: keys_of_cell[cell] for cell in cells})
    if reasons:
        yield Remark.of(Kind.NOT_FOLDS, reasons=reasons)


def _lacking(cells: Sequence[DataCell]) -> list[DataCell]:
    """Returns the folds of a repeat that only other repeats have."""
    folds = first_by(cells, lambda cell: cell.fold).values()
    repeats = first_by(cells, lambda cell: cell.repeat)
    present = {cell.fold_and_repeat for cell in cells}
    lacking = []
    for repeat, fold in itertools.product(repeats, folds):
        cell = fold._replace(repeat=repeat)
        if cell.fold_and_repeat not in present:
            lacking.append(cell)
    return lacking


def _circumstances(trained: Sequence[RunResult]) -> Iterator[Remark]:
    """Yields the remarks on threads, parameters, machines and commits; none if nothing was trained here."""
    if not trained:
        return
    threads = _several(str(result.threads) for result in trained)
    yield Remark.of(Kind.THREADS, counts=threads)
    if any(result.seconds.get("monitor") for result in trained):
        yield Remark.of(Kind.MONITORED)
    yield from parameters(trained)
    machines = _several(map(machine_in_words, trained))
    if len(machines) > 1:
        yield Remark.of(Kind.MACHINES, machines=machines)
    commits = _several(map(_version_in_words, trained))
    if len(commits) > 1:
        yield Remark.of(Kind.COMMITS, commits=commits)


def machine_in_words(result: RunResult) -> str:
    """Returns the processor and the number of cores of a run."""
    cpu = result.machine.get("cpu")
    cores = result.machine.get("cores")
    return f"{cpu} ({cores} cores)"


def _version_in_words(result: RunResult) -> str:
    return str(result.commit or f"version {result.versions.get('ltrbench')}")


def _about_shared_machine(rows: Sequence[ModelRow]) -> Iterator[Remark]:
    """Yields that times are left out because the command ran several jobs at a time."""
    counts = {}
    for row in rows:
        shared = sum(run.result.shared_machine for run in row.runs)
        if shared:
            counts[row.label] = (shared, len(row.runs))
    if counts:
        yield Remark.of(Kind.SHARED_MACHINE, counts=counts)


def parameters(results: Sequence[RunResult]) -> Iterator[Remark]:
    """Yields the set of shared parameters, the models with other values, and the tuned models.

    Yields nothing if all models are yardsticks, which have no parameters.
    """
    kinds = sorted({result.params for result in results} - {OWN, NO_PARAMETERS})
    tuned = dict.fromkeys(result.model for result in results if result.search)
    settings: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        searched = result.search.get("space", {})
        own = result.own_settings.items()
        fixed = {name: value for name, value in own if name not in searched}
        if fixed or (result.params == OWN and not result.search):
            settings.setdefault(result.model, []).append(fixed)
    if kinds or settings or tuned:
        is_tuned = list(tuned)
        yield Remark.of(Kind.PARAMETERS, kinds=kinds, settings=settings, tuned=is_tuned)


def _several(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=lambda text: (len(text), text))


def _about_settings(
    untuned: Sequence[ModelRow], metric: str, convention: Convention
) -> Iterator[Remark]:
    """Yields unequal numbers of settings, of which the best is partly lucky, and the best by validation."""
    tried = Counter(row.model for row in untuned if _was_fitted(row))
    if len(set(tried.values())) > 1:
        yield Remark.of(Kind.NUMBERS_OF_SETTINGS, counts=tried)
    for source, rows in grouped(untuned, lambda row: row.source).items():
        if len(rows) < 2:
            continue
        validated = values_on_validation(rows, metric, convention)
        if validated:
            yield Remark.of(
                Kind.BEST_BY_VALIDATION,
                count=len(rows),
                model=str(source),
                best=best_on_validation(rows, validated),
            )


def _was_fitted(row: ModelRow) -> bool:
    return row.runs[0].result.origin.was_fitted


def _about_choice_over_folds(rows: Sequence[ModelRow]) -> Iterator[Remark]:
    """Yields that validation queries that settings are chosen by are test queries of other folds."""
    counts = Counter(row.source for row in rows if not row.is_tuned)
    chosen = []
    for row in rows:
        is_chosen = counts[row.source] > 1
        if row.is_tuned:
            # A search that chooses per fold sees no other fold.
            is_chosen = not is_per_fold(row.runs[0])
        if is_chosen:
            chosen.append(row)
    seen = seen_by_choice(
        list(itertools.chain.from_iterable(row.evaluated for row in chosen))
    )
    if seen:
        models = list(dict.fromkeys(str(row.source) for row in chosen))
        yield Remark.of(Kind.VALIDATION_IN_TEST, models=models, folds=seen)


def seen_by_choice(evaluated: Sequence[EvaluatedRun]) -> list[str]:
    """Returns the folds whose validation queries are test queries of other folds or repeats."""
    first = first_by(evaluated, lambda item: item.cell)
    numbered = [cell for cell in first if cell.fold is not None]
    folds = {cell: first[cell] for cell in numbered}
    valid_keys: dict[DataCell, QueryKeys] = {}
    for item in evaluated:
        if item.cell in folds and item.cell not in valid_keys:
            # Not every run has scores of the validation set.
            with suppress(ResultError):
                valid_keys[item.cell] = item.run.scored("valid").query_keys
    leaking: dict[str, None] = {}
    for cell, keys in valid_keys.items():
        folds_of_others = [
            item
            for other, item in folds.items()
            if other.fold_and_repeat != cell.fold_and_repeat
        ]
        others = (item.query_keys for item in folds_of_others)
        if any(np.isin(keys, other).any() for other in others):
            leaking[str(cell.fold)] = None
    return [*leaking]


def values_on_validation(
    rows: Sequence[ModelRow], metric: str, convention: Convention
) -> dict[str, dict[int, float]]:
    """Returns row label -> index of a run in the row -> its metric on the validation set.

    Runs without a validation value are left out, and so are rows without any. Means over other folds cannot
    be compared: rows that lack a fold of others are left out if some lack none. Otherwise the values are
    those of the folds that all have, if there are any.
    """
    known: dict[str, dict[int, float]] = {}
    for row in rows:
        for number, run in enumerate(row.runs):
            value = _value_on_validation(run, metric, convention)
            if value is not None:
                known.setdefault(row.label, {})[number] = value
    cells = {}
    for row in rows:
        cells[row.label] = [item.cell for item in row.evaluated]
    return _on_the_same_folds(known, cells)


def _on_the_same_folds(
    known: dict[str, dict[int, float]],
    cells: Mapping[str, Sequence[DataCell]],
) -> dict[str, dict[int, float]]:
    """Returns the values of the rows that have all folds; without such rows, those of the common folds.

    Args:
        known: row label -> index of a run in the row -> value.
        cells: row label -> the cell of each of its runs.
    """
    folds_of: dict[str, set[DataCell]] = {}
    for label, values in known.items():
        folds_of[label] = {cells[label][number] for number in values}
    everywhere = set[DataCell]().union(*folds_of.values())
    whole = [label for label in known if folds_of[label] == everywhere]
    if whole:
        return {label: known[label] for label in whole}
    common = everywhere.intersection(*folds_of.values())
    if not common:
        return known
    shared: dict[str, dict[int, float]] = {}
    for label, values in known.items():
        of_row = cells[label]
        in_common = [number for number in values if of_row[number] in common]
        shared[label] = {number: values[number] for number in in_common}
    return shared


def best_on_validation(
    rows: Sequence[ModelRow], validated: Mapping[str, Mapping[int, float]]
) -> str:
    """Returns the label of the row with the highest mean; the first one in case of ties."""
    means = {}
    for row in rows:
        if row.label in validated:
            means[row.label] = mean_on_validation(row, validated[row.label])
    return max(means, key=means.__getitem__)


def mean_on_validation(row: ModelRow, values: Mapping[int, float]) -> float:
    """Returns the mean over cells, so that a cell that lacks runs weighs as much as the others.

    Args:
        values: index of a run in the row -> its value.
    """
    return fmean(row.means_by_cell(values).values())


def _value_on_validation(run: Run, metric: str, convention: Convention) -> float | None:
    """Returns the value that the run recorded, else computes it; None if neither is possible."""
    recorded = run.result.metrics.get(f"valid/{metric}")
    if recorded is not None and run.result.convention.get("name") == convention.name:
        return recorded
    try:
        scored = run.scored("valid")
        evaluation = evaluate(scored.judgments, scored.scores, [metric], convention)
    except (ResultError, UndefinedMetricError):
        return None
    mean = evaluation.means[metric]
    return None if math.isnan(mean) else mean


def _about_stopping_on_test(results: Sequence[RunResult]) -> Iterator[Remark]:
    for model, folds in stopped_on_test(results).items():
        different = list(dict.fromkeys(folds))
        yield Remark.of(Kind.PICKED_ON_TEST, model=model, folds=different)


def stopped_on_test(results: Iterable[RunResult]) -> dict[str, list[object]]:
    """Returns model -> the folds in which its validation set is the test set, None without folds."""
    folds: dict[str, list[object]] = {}
    for result in results:
        test = result.data.get("test", {}).get("fingerprint")
        valid = result.data.get("valid", {}).get("fingerprint")
        if valid is not None and valid == test:
            folds.setdefault(result.model, []).append(result.data.get("fold"))
    return folds


def started_from_test(rows: Iterable[ModelRow]) -> dict[str, str]:
    """Returns label -> the model of `warm_start` that may have learned from test queries."""
    leaks = {}
    for row in rows:
        for run in row.runs:
            if "leaks_from" in run.result.data:
                leaks[row.label] = str(run.result.data["leaks_from"])
    return leaks


def _about_ensembles(rows: Sequence[ModelRow]) -> Iterator[Remark]:
    """Yields the mean weights of the members of each ensemble, and that their selection is a part of it."""
    for row in rows:
        origins = [run.result.origin for run in row.runs]
        weights = [each.weights for each in origins if isinstance(each, Ensemble)]
        if not weights:
            continue
        means = {}
        for label in weights[0]:
            means[label] = fmean(each.get(label, 0.0) for each in weights)
        yield Remark.of(Kind.ENSEMBLE, subject=row.label, weights=means)


def _recorded_notes(results: Sequence[RunResult]) -> Iterator[Remark]:
    """Yields each model's departures from the shared parameters, and the notes that its runs hold."""
    for model, of_model in grouped(results, lambda result: result.model).items():
        departures = [result.unmatched for result in of_model]
        yield from _counted(Kind.DEPARTURE, model, departures)
        trained = [result.notes for result in of_model if result.origin.was_fitted]
        yield from _counted(Kind.OF_RUNS, model, trained)
        derived = [result.notes for result in of_model if not result.origin.was_fitted]
        yield from _counted(Kind.OF_SCORES, model, derived)


_MOST_NOTES = 8
"""Number of notes of a kind about one model: values in a note may differ between all runs."""


_NUMBER = re.compile(r"\d[\d.,e+-]*")


def _counted(
    kind: Kind, model: str, notes_of_runs: Sequence[Sequence[str]]
) -> Iterator[Remark]:
    """Yields the notes of the runs of a model, those of most runs first, and the number of further ones.

    Notes that differ in numbers only, as of folds with other data, are one: the first of them.
    """
    counts: Counter[str] = Counter()
    first_of: dict[str, str] = {}
    for notes in notes_of_runs:
        words_of_run = set()
        for note in notes:
            words = _NUMBER.sub("", note)
            words_of_run.add(words)
            first_of.setdefault(words, note)
        counts.update(words_of_run)
    # Notes with equal counts stay in their order.
    ordered = sorted(first_of, key=counts.__getitem__, reverse=True)
    for words in ordered[:_MOST_NOTES]:
        yield Remark.of(
            kind,
            subject=model,
            sentence=first_of[words],
            count=counts[words],
            num_runs=len(notes_of_runs),
        )
    further = len(ordered) - _MOST_NOTES
    if further > 0:
        yield Remark.of(Kind.FURTHER, subject=model, count=further)


# ---- Searches that chose the settings of tuned rows: their sizes, and notes on unequal budgets.


@dataclass(frozen=True)
class SearchTotals:
    """The searches that chose the settings of a row.

    Attributes:
        name, choose, metric: As in `SearchRecord`.
        space: Setting -> its range in words.
        searches: Number of searches.
        trials: Smallest and largest number of trials of a search.
        failed: Number of failed trials of all searches.
        iterations: Number of iterations fitted in all searches.
        seconds: Time of the fits of all searches.
    """

    name: str
    choose: str
    metric: str
    space: Mapping[str, str]
    searches: int
    trials: tuple[int, int]
    failed: int
    iterations: int
    seconds: float

    def __str__(self) -> str:
        """Returns text such as "settings: 6, searches: 5, trials: 16, iterations: 18,204, fits: 61 s"."""
        low, high = self.trials
        trials = f"{low}" if low == high else f"{low} to {high}"
        failed = ""
        if self.failed:
            failed = f" ({self.failed} failed)"
        seconds = (
            f"{self.seconds:,.1f}" if self.seconds < 10 else f"{self.seconds:,.0f}"
        )
        return (
            f"settings: {len(self.space)}, searches: {self.searches}, trials: {trials}{failed}, "
            f"iterations: {self.iterations:,}, fits: {seconds} s"
        )


def searched_runs(row: ModelRow) -> list[Run]:
    """Returns one run for each search that chose the settings of a row.

    Folds can share a search, and several training seeds as well.
    """

    def search(run: Run) -> tuple[object, ...]:
        chosen_for = cell_of(run) if is_per_fold(run) else cell_of(run).data
        return chosen_for, replicate_of(run).resample, run.result.search.get("seed")

    searched = [run for run in row.runs if run.result.search]
    return list(first_by(searched, search).values())


def search_totals(row: ModelRow) -> SearchTotals | None:
    """Returns the searches of a row; None if it was not tuned."""
    searches = [run.result.search for run in searched_runs(row)]
    if not searches:
        return None
    first = searches[0]
    trials = [search.get("trials", 0) for search in searches]
    failed = [search.get("failed", 0) for search in searches]
    iterations = [search.get("iterations", 0) for search in searches]
    seconds = [search.get("seconds", 0.0) for search in searches]
    return SearchTotals(
        name=first.get("name", ""),
        choose=first.get("choose", ""),
        metric=first.get("metric", ""),
        space=first.get("space", {}),
        searches=len(searches),
        trials=(min(trials), max(trials)),
        failed=sum(failed),
        iterations=sum(iterations),
        seconds=sum(seconds),
    )


def _about_searches(rows: Sequence[ModelRow]) -> Iterator[Remark]:
    """Yields the sizes of the searches, and sentences on models that were tuned less than others."""
    totals = {}
    for row in rows:
        search = search_totals(row)
        if search is not None:
            totals[row.label] = search
    if not totals:
        return
    yield from _sizes_of_searches(totals)
    yield from _about_spaces(totals)
    models = {row.model for row in rows if row.label in totals}
    differences = _unequal(list(totals.values()))
    if differences and len(models) > 1:
        yield Remark.of(Kind.UNEQUAL_SEARCHES, differences=differences)
    # Yardsticks have no parameters.
    untuned = []
    for row in rows:
        has_parameters = row.runs[0].result.params != NO_PARAMETERS
        if has_parameters and row.model not in models and _was_fitted(row):
            untuned.append(row.model)
    if untuned:
        example = next(iter(totals.values()))
        yield Remark.of(
            Kind.UNTUNED,
            tuned=sorted(models),
            untuned=[*dict.fromkeys(untuned)],
            search=example.name,
            trials=example.trials[1],
        )


def _sizes_of_searches(totals: Mapping[str, SearchTotals]) -> Iterator[Remark]:
    """Yields a remark for each kind of search."""

    def kind(label: str) -> tuple[str, str, str]:
        search = totals[label]
        return search.name, search.choose, search.metric

    for (name, choose, metric), labels in grouped(totals, kind).items():
        sizes = {label: str(totals[label]) for label in labels}
        yield Remark.of(
            Kind.SEARCHES, name=name, choose=choose, metric=metric, sizes=sizes
        )


def _about_spaces(totals: Mapping[str, SearchTotals]) -> Iterator[Remark]:
    """Yields which settings only some of the searches vary."""
    spaces = [search.space for search in totals.values()]
    common = set(spaces[0]).intersection(*spaces)

    def further(label: str) -> str:
        return ", ".join(key for key in totals[label].space if key not in common)

    others = grouped(totals, further)
    if len(others) > 1:
        yield Remark.of(Kind.VARIED_SETTINGS, common=len(common), others=others)


def _unequal(searches: Sequence[SearchTotals]) -> list[str]:
    """Returns in which of their budgets the searches differ."""
    first = searches[0]
    differences = []
    if any(search.trials != first.trials for search in searches):
        differences.append("trials")
    if any(search.space != first.space for search in searches):
        differences.append("settings varied, or their ranges")
    return differences
