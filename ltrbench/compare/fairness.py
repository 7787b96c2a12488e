"""Fairness of a comparison: mismatched data are refused, other inequalities become notes.

Runs that were trained or evaluated on different documents are not compared; the error names the differing
splits. Differences that may matter (threads, machines, number of settings tried, a model stopped by the test
set) are notes under the table.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from ltrbench.compare.cells import (
    ON_BACKENDS,
    ON_CLAIMS,
    ON_CONVENTIONS,
    ON_COSTS,
    ON_DATA,
    DataCell,
    EvaluatedRow,
    EvaluatedRun,
    GroupedRuns,
    Note,
    cell_of,
    describe_cells,
    first_by,
    grouped,
    is_per_fold,
    reasons_against_folds,
    replicate_of,
    times_in_sets,
)
from ltrbench.data.dataset import QueryKeys
from ltrbench.errors import ResultError, UndefinedMetricError
from ltrbench.metrics import Convention, evaluate, parse_metric
from ltrbench.runs.record import NO_PARAMETERS, OWN, Run, RunResult
from ltrbench.tables import assignments, listed

SHOWN_DIGITS = 12
"""Number of digits of a fingerprint that are shown; enough to distinguish two."""


def mismatches(tables: Sequence[GroupedRuns]) -> list[str]:
    """Returns a sentence for each two groups of runs that must be paired and have different data.

    A sweep over a setting of the data, in which every model is run under each value, is no mismatch: it gives
    one table per value. Two models with the same data set and fold but without a common cell are a mismatch.
    """
    sentences: dict[tuple[str, str], str] = {}
    for rivals in grouped(tables, lambda table: cell_of(table.runs[0]).data).values():
        runs = dict.fromkeys(
            (label, table.name, cell_of(run))
            for table in rivals
            for label, of_row in table.rows.items()
            for run in of_row
        )
        of_label = grouped(runs, lambda item: item[0])
        cells_of = {
            label: {cell for _, _, cell in items} for label, items in of_label.items()
        }
        for (a, table_a, of_a), (b, table_b, of_b) in itertools.combinations(runs, 2):
            is_one_table = table_a == table_b and of_a.repeat == of_b.repeat
            are_apart = is_one_table or not cells_of[a] & cells_of[b]
            if of_a.fold == of_b.fold and of_a != of_b and are_apart:
                sentence = _difference(a, of_a, b, of_b)
                sentence += (
                    f" They are {table_a} and {table_b}." if table_a != table_b else ""
                )
                sentences.setdefault((a, b), sentence)
    return list(sentences.values())


def _difference(a: str, of_a: DataCell, b: str, of_b: DataCell) -> str:
    fold = "" if of_a.fold is None else f" fold {of_a.fold},"
    others = of_b.fingerprints
    differing = [
        f"{split} {(one or 'none')[:SHOWN_DIGITS]} and {(others[split] or 'none')[:SHOWN_DIGITS]}"
        for split, one in of_a.fingerprints.items()
        if one != others[split]
    ]
    return f"{of_a.data},{fold} {a} and {b}: the fingerprints of {', '.join(differing)} differ."


def warnings(
    rows: Sequence[EvaluatedRow], metric: str, convention: Convention
) -> list[Note]:
    """Returns the notes on how fairly the rows are compared."""
    evaluated = [item for row in rows for item in row.evaluated]
    results = [item.run.result for item in evaluated]
    untuned = [row for row in rows if not row.is_tuned]
    return [
        *_about_convention(convention.of(parse_metric(metric)[0]), evaluated, metric),
        *_about_seeds(rows),
        *_about_test_sets(evaluated, metric),
        *_circumstances(
            [result for result in results if result.seconds and not result.ensemble]
        ),
        *_about_shared_machine(rows),
        *_about_searches(rows),
        *_about_settings(untuned, metric, convention),
        *_about_choice_over_folds(rows),
        *_about_stopping_on_test(results),
        *_about_ensembles(rows),
        *_notes_of_runs(results),
    ]


def _about_convention(
    convention: Convention, items: Sequence[EvaluatedRun], metric: str
) -> Iterator[Note]:
    fields = convention.describe()
    ties = f"ties: {fields['ties'].replace('_', ' ')}"
    ties = (
        "ties count with their expected value" if fields["ties"] == "expected" else ties
    )
    sentence = (
        f"Convention: {fields['name']} ({fields['gain'].replace('_', ' ')}, {ties})."
    )
    yield Note(ON_CONVENTIONS, "convention", sentence)
    share = fmean(item.evaluation.share_without_relevant for item in items)
    value = convention.no_relevant.value
    counted = "are skipped" if value == "skip" else f"count {value}"
    counted += ", unless their lists are left out" * (
        value != "skip" and convention.filters != "none"
    )
    # Metrics of a column, and of plug-ins, may have a value without a relevant document.
    if value == "skip" and not any(item.evaluation.skipped[metric] for item in items):
        counted = f"count in {metric}"
    sentence = "Every test query has a relevant document."
    if share > 0:
        sentence = f"{100 * share:.1f} % of the test queries have no relevant document; they {counted}."
    yield Note(ON_CONVENTIONS, "skipped queries", sentence)


def _about_seeds(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    same = [row.label for row in rows if row.seeds_change_nothing]
    if same:
        sentence = (
            f"Seeds change nothing in {', '.join(same)}: every seed gave the same scores, and all seeds "
            "count as one training."
        )
        yield Note(ON_CLAIMS, "seeds that change nothing", sentence)


def _about_test_sets(evaluated: Sequence[EvaluatedRun], metric: str) -> Iterator[Note]:
    """Yields how often test queries repeat, and why test sets are not folds of a cross-validation."""
    # A fold has one test set, however many training sets.
    test_sets = first_by(evaluated, lambda item: item.cell.of_test)
    keys_of_cell = {
        cell: item.query_keys[~np.isnan(item.evaluation.per_query[metric])]
        for cell, item in test_sets.items()
    }
    num_distinct = len(times_in_sets([*keys_of_cell.values()]))
    num_queries = sum(map(len, keys_of_cell.values()))
    if num_distinct < num_queries:
        sentence = (
            f"Test queries repeat: the test sets contain {num_distinct:,} distinct queries (by "
            f"documents and labels) {num_queries:,} times; each counts once in tests."
        )
        yield Note(ON_DATA, "repeated queries", sentence)
    keys_of_fold = {
        cell: keys for cell, keys in keys_of_cell.items() if cell.fold is not None
    }
    if len(keys_of_fold) < 2:
        return
    folds = first_by(keys_of_fold, lambda cell: cell.fold).values()
    repeats = first_by(keys_of_fold, lambda cell: cell.repeat)
    wanted = [fold._replace(repeat=repeat) for repeat in repeats for fold in folds]
    present = {cell.fold_and_repeat for cell in keys_of_fold}
    if lacking := [cell for cell in wanted if cell.fold_and_repeat not in present]:
        sentence = f"No row counts {describe_cells(lacking)}: the queries count in the other repeats only."
        yield Note(ON_DATA, "missing runs", sentence)
    trains = {item.cell.of_test: item.cell for item in evaluated}
    reasons = reasons_against_folds(
        {trains[cell]: keys for cell, keys in keys_of_fold.items()}
    )
    if reasons:
        sentence = (
            f"{'. '.join(reasons)}: they are not folds of a cross-validation, and claims are about these "
            "trained models only."
        )
        yield Note(ON_CLAIMS, "not folds", sentence)


def _circumstances(trained: Sequence[RunResult]) -> Iterator[Note]:
    """Yields the notes on threads, parameters, machines and commits; none if nothing was trained here."""
    if not trained:
        return
    threads = _several(str(result.threads) for result in trained)
    differ = (
        ", which differ between runs: do not compare the times"
        if len(threads) > 1
        else ""
    )
    yield Note(ON_COSTS, "threads", f"Threads: {', '.join(threads)}{differ}.")
    if any(result.seconds.get("monitor") for result in trained):
        yield Note(
            ON_COSTS,
            "fit s",
            "The fit time includes the evaluation after each iteration.",
        )
    described = parameters(trained)
    if described:
        yield Note(ON_BACKENDS, "matched parameters", described)
    machines = _several(
        f"{item.machine.get('cpu')} ({item.machine.get('cores')} cores)"
        for item in trained
    )
    if len(machines) > 1:
        sentence = f"Machines differ: {'; '.join(machines)}. Do not compare the times."
        yield Note(ON_COSTS, "machines", sentence)
    commits = _several(
        str(item.commit or f"version {item.versions.get('ltrbench')}")
        for item in trained
    )
    if len(commits) > 1:
        sentence = f"The runs were made by different commits of the code: {', '.join(commits)}."
        yield Note(ON_DATA, "commits", sentence)


def _about_shared_machine(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields that times are left out because the command ran several jobs at a time."""
    counts = {
        row.label: sum(run.result.shared_machine for run in row.runs) for row in rows
    }
    words = [
        f"{counts[row.label]} of {len(row.runs)} run{'s' * (len(row.runs) > 1)} of {row.label}"
        for row in rows
        if counts[row.label]
    ]
    if words:
        sentence = (
            f"Several jobs of ltrbench ran at a time during {listed(words)}. Their times are left out of "
            "columns and figures. python -m ltrbench resume DIR --timing takes the times of a sweep again, "
            "one after another."
        )
        yield Note(ON_COSTS, "shared machine", sentence)


def parameters(results: Sequence[RunResult]) -> str:
    """Returns a sentence: the set of shared parameters, the models with other values, and the tuned models.

    Empty if all models are yardsticks, which have no parameters.
    """
    kinds = sorted({result.params for result in results} - {OWN, NO_PARAMETERS})
    tuned = dict.fromkeys(result.model for result in results if result.search)
    settings: dict[str, dict[str, None]] = {}
    for result in results:
        chosen = result.search.get("space", {})
        fixed = {
            name: value
            for name, value in result.own_settings.items()
            if name not in chosen
        }
        if fixed or (result.params == OWN and not result.search):
            settings.setdefault(result.model, {})[assignments(fixed)] = None
    texts = {
        model: "; ".join(filter(None, sets)) or "none"
        for model, sets in settings.items()
    }
    models = [
        f"{listed(alike)} ({text})"
        for text, alike in grouped(texts, texts.__getitem__).items()
    ]
    parts = []
    if kinds:
        parts.append(
            f"{', '.join(kinds)}{f', except in {listed(models)}' if models else ''}"
        )
    elif models:
        parts.append(f"each model's own, {listed(models)}")
    parts += [f"tuned by a search in {listed([*tuned])}"] if tuned else []
    return f"Parameters: {'; '.join(parts)}." if parts else ""


def _several(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=lambda text: (len(text), text))


def _about_settings(
    untuned: Sequence[EvaluatedRow], metric: str, convention: Convention
) -> Iterator[Note]:
    """Yields unequal numbers of settings, of which the best is partly lucky, and the best by validation."""
    tried = Counter(row.model for row in untuned if _is_trained(row.runs[0].result))
    if len(set(tried.values())) > 1:
        counts = ", ".join(f"{model} {count}" for model, count in tried.items())
        sentence = f"Tuning budgets differ; number of settings in this table: {counts}."
        yield Note(ON_CLAIMS, "tuning budget", sentence)
    for model, rows in grouped(untuned, lambda row: row.model).items():
        validated = (
            values_on_validation(rows, metric, convention) if len(rows) > 1 else {}
        )
        if validated:
            sentence = (
                f"Do not choose among the {len(rows)} settings of {model} by this table, which is on test; "
                f"the best by validation is {best_on_validation(validated)}."
            )
            yield Note(ON_CLAIMS, "choice by validation", sentence)


def _about_choice_over_folds(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields that validation queries that settings are chosen by are test queries of other folds."""
    counts = Counter(row.model for row in rows if not row.is_tuned)
    # A search that chooses per fold sees no other fold.
    chosen = [
        row
        for row in rows
        if (not is_per_fold(row.runs[0]) if row.is_tuned else counts[row.model] > 1)
    ]
    seen = seen_by_choice([item for row in chosen for item in row.evaluated])
    if seen:
        models = listed(list(dict.fromkeys(row.model for row in chosen)))
        sentence = f"Settings of {models}: {seen}. Choose a setting for each fold by its own validation."
        yield Note(ON_CLAIMS, "validation queries in test", sentence)


def seen_by_choice(evaluated: Sequence[EvaluatedRun]) -> str:
    """Returns which validation queries are test queries of other folds or repeats, in words; empty if none
    are."""
    first = first_by(evaluated, lambda item: item.cell)
    folds = {cell: item for cell, item in first.items() if cell.fold is not None}
    valid_keys: dict[DataCell, QueryKeys] = {}
    for item in evaluated:
        if item.cell in folds and item.cell not in valid_keys:
            # Not every run has scores of the validation set.
            with suppress(ResultError):
                valid_keys[item.cell] = item.run.scored("valid").query_keys
    leaking = dict.fromkeys(
        str(one.fold)
        for one, keys in valid_keys.items()
        if any(
            one.fold_and_repeat != other.fold_and_repeat
            and np.isin(keys, item.query_keys).any()
            for other, item in folds.items()
        )
    )
    if not leaking:
        return ""
    return (
        f"validation queries of fold{'s' * (len(leaking) > 1)} {listed([*leaking])} are test queries of "
        "other folds, so that one setting chosen by the validation of all folds has seen test data"
    )


def values_on_validation(
    rows: Sequence[EvaluatedRow], metric: str, convention: Convention
) -> dict[str, dict[int, float]]:
    """Returns row label -> index of a run in the row -> its metric on the validation set.

    Runs without a validation value are left out, and so are rows without any.
    """
    known = {}
    for row in rows:
        values = [_value_on_validation(run, metric, convention) for run in row.runs]
        known[row.label] = {
            number: value for number, value in enumerate(values) if value is not None
        }
    return {label: of_row for label, of_row in known.items() if of_row}


def best_on_validation(validated: Mapping[str, Mapping[int, float]]) -> str:
    """Returns the label of the row with the highest mean; the first one in case of ties."""
    return max(validated, key=lambda label: fmean(validated[label].values()))


def _value_on_validation(run: Run, metric: str, convention: Convention) -> float | None:
    """Returns the value that the run recorded, else computes it; None if neither is possible."""
    recorded = run.result.metrics.get(f"valid/{metric}")
    if recorded is not None and run.result.convention.get("name") == convention.name:
        return recorded
    try:
        scored = run.scored("valid")
        mean = evaluate(scored.judgments, scored.scores, [metric], convention).means[
            metric
        ]
    except (ResultError, UndefinedMetricError):
        return None
    return None if math.isnan(mean) else mean


def _about_stopping_on_test(results: Sequence[RunResult]) -> Iterator[Note]:
    for model, folds in stopped_on_test(results).items():
        known = ", ".join(
            str(fold) for fold in dict.fromkeys(folds) if fold is not None
        )
        where = f" in fold {known}" if known else ""
        sentence = (
            f"{model} was picked on test{where}: its validation set is the test set, and its metrics are too "
            "high. Give data.valid other queries."
        )
        yield Note(ON_CLAIMS, "picked on test", sentence)


def stopped_on_test(results: Iterable[RunResult]) -> dict[str, list[object]]:
    """Returns model -> the folds in which its validation set is the test set, None without folds."""
    folds: dict[str, list[object]] = {}
    for result in results:
        valid, test = (
            result.data.get(split, {}).get("fingerprint") for split in ("valid", "test")
        )
        if valid is not None and valid == test:
            folds.setdefault(result.model, []).append(result.data.get("fold"))
    return folds


def _about_ensembles(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields the mean weights of the members of each ensemble, and that their selection is a part of it."""
    for row in (row for row in rows if row.runs[0].result.ensemble):
        weights = [run.result.ensemble["weights"] for run in row.runs]
        means = {
            label: fmean(each.get(label, 0.0) for each in weights)
            for label in weights[0]
        }
        words = [f"{label} {mean:.2f}" for label, mean in means.items() if mean]
        sentence = (
            f"Members and weights were selected among {len(means)} rows on validation, in each fold, "
            "resample and seed; this selection is a part of the method that claims are about. Mean weights: "
            f"{', '.join(words)}. The fit time is the sum over all these rows, without their searches; the "
            "predict time is the sum over the members. Its pairs do not share the variance of other pairs."
        )
        yield Note(ON_CLAIMS, "choice by validation", sentence, row.label)


def _is_trained(result: RunResult) -> bool:
    """Returns whether a run was trained here: derived runs have no times, or are ensembles."""
    return bool(result.seconds) and not result.ensemble


def _notes_of_runs(results: Sequence[RunResult]) -> Iterator[Note]:
    """Yields each model's departures from the shared parameters, and the notes that its runs hold."""
    for model, of_model in grouped(results, lambda result: result.model).items():
        texts = [text for result in of_model for text in result.unmatched]
        losses = {
            text
            for text in texts
            if text.startswith(("The objective is ", "The loss is "))
        }
        differing = {text for text in losses if texts.count(text) < len(of_model)}
        differ = "The objectives of the runs differ: see the names of the rows, and what the searches chose."
        for sentence in dict.fromkeys(
            differ if text in differing else text for text in texts
        ):
            yield Note(ON_BACKENDS, "differences between backends", sentence, model)
        trained = [
            text for result in of_model if _is_trained(result) for text in result.notes
        ]
        # Values and names of features in a note differ between folds and resamples, its first words do not.
        for alike in grouped(trained, lambda text: tuple(text.split()[:4])).values():
            differ = " Other runs have other values." * (len(set(alike)) > 1)
            yield Note(ON_DATA, "notes of runs", alike[0] + differ, model)
        derived = (
            text
            for result in of_model
            if not _is_trained(result)
            for text in result.notes
        )
        for sentence in dict.fromkeys(derived):
            yield Note(ON_DATA, "imported and fused scores", sentence, model)


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
        failed = f" ({self.failed} failed)" if self.failed else ""
        return (
            f"settings: {len(self.space)}, searches: {self.searches}, trials: {trials}{failed}, iterations: "
            f"{self.iterations:,}, fits: {self.seconds:,.{int(self.seconds < 10)}f} s"
        )


def searched_runs(row: EvaluatedRow) -> list[Run]:
    """Returns one run for each search that chose the settings of a row.

    Folds can share a search, and several training seeds as well.
    """

    def search(run: Run) -> tuple[object, ...]:
        chosen_for = cell_of(run) if is_per_fold(run) else cell_of(run).data
        return chosen_for, replicate_of(run).resample, run.result.search.get("seed")

    return [*first_by([run for run in row.runs if run.result.search], search).values()]


def search_totals(row: EvaluatedRow) -> SearchTotals | None:
    """Returns the searches of a row; None if it was not tuned."""
    searches = [run.result.search for run in searched_runs(row)]
    if not searches:
        return None
    first, trials = searches[0], [search.get("trials", 0) for search in searches]
    return SearchTotals(
        name=first.get("name", ""),
        choose=first.get("choose", ""),
        metric=first.get("metric", ""),
        space=first.get("space", {}),
        searches=len(searches),
        trials=(min(trials), max(trials)),
        failed=sum(search.get("failed", 0) for search in searches),
        iterations=sum(search.get("iterations", 0) for search in searches),
        seconds=sum(search.get("seconds", 0.0) for search in searches),
    )


def _about_searches(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields the sizes of the searches, and sentences on models that were tuned less than others."""
    totals = {
        row.label: search for row in rows if (search := search_totals(row)) is not None
    }
    sentences = []
    of_kind = grouped(
        totals.items(), lambda item: (item[1].name, item[1].choose, item[1].metric)
    )
    for (name, choose, metric), searches in of_kind.items():
        sizes = "; ".join(f"{label} ({search})" for label, search in searches)
        how = choose.replace("_", " ")
        sentences.append(f"Search {name}, {how}, by {metric} on validation: {sizes}.")
    spaces = [search.space for search in totals.values()]
    common = {
        key
        for space in spaces
        for key in space
        if all(key in other for other in spaces)
    }
    of_some = grouped(
        totals,
        lambda row: ", ".join(key for key in totals[row].space if key not in common),
    )
    if len(of_some) > 1:
        varied = "; ".join(
            f"{names} ({listed(labels)})" for names, labels in of_some.items() if names
        )
        sentences.append(
            f"All searches vary {len(common)} common settings; some also vary {varied}."
        )
    models = {row.model for row in rows if row.label in totals}
    trials = [search.trials for search in totals.values()]
    budgets: dict[str, list[Any]] = {
        "trials": trials,
        "settings varied, or their ranges": spaces,
    }
    differences = [
        name
        for name, values in budgets.items()
        if any(value != values[0] for value in values)
    ]
    if differences and len(models) > 1:
        sentences.append(
            f"Tuning budgets differ in {'; in '.join(differences)}. A model with more of them has an "
            "advantage: repeat the searches with the same search.trials and search.space."
        )
    # Yardsticks have no parameters.
    others = [
        row
        for row in rows
        if row.model not in models and _is_trained(row.runs[0].result)
    ]
    untuned = [
        row.model for row in others if row.runs[0].result.params != NO_PARAMETERS
    ]
    if totals and untuned:
        example = next(iter(totals.values()))
        sentences.append(
            f"Tuned: {listed(sorted(models))}; not tuned: {listed(list(dict.fromkeys(untuned)))}, a "
            f"disadvantage. Tune all by the same search (search={example.name} "
            f"search.trials={example.trials[1]}), or none (search=none)."
        )
    yield from (Note(ON_CLAIMS, "tuning budget", sentence) for sentence in sentences)
