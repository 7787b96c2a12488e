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
from dataclasses import replace
from statistics import fmean

import numpy as np

from ltrbench.compare.cells import (
    EvaluatedRow,
    EvaluatedRun,
    first_of_cells,
    no_folds_in_words,
    repeats_in_words,
    search_notes,
    seen_in_words,
    shared,
    sharing,
)
from ltrbench.compare.grouping import (
    DATA_SPLITS,
    ON_BACKENDS,
    ON_CLAIMS,
    ON_CONVENTIONS,
    ON_COSTS,
    ON_DATA,
    DataCell,
    GroupedRuns,
    Note,
    cell_of,
    grouped,
    is_per_fold,
)
from ltrbench.data.dataset import QueryKeys
from ltrbench.errors import ResultError, UndefinedMetricError
from ltrbench.metrics import Convention, evaluate, parse_metric
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.metrics.functions import METRICS
from ltrbench.runs import NO_PARAMETERS, OWN, Run, RunResult, ScoredSplit
from ltrbench.tables import assignments, format_number, listed

SHOWN_DIGITS = 12
"""Number of digits of a fingerprint that are shown; enough to distinguish two."""


def mismatches(tables: Sequence[GroupedRuns]) -> list[str]:
    """Returns a sentence for each two groups of runs that must be paired and have different data.

    A sweep over a setting of the data, in which every model is run under each value, is no mismatch: it gives
    one table per value. Two models with the same data set and fold but without a common cell are a mismatch.
    """
    sentences: list[str] = []
    for rivals in grouped(tables, lambda table: cell_of(table.runs[0]).data).values():
        for table in rivals:
            sentences += _within_table(table)
        if len(rivals) > 1:
            sentences += _across_tables(rivals)
    return list(dict.fromkeys(sentences))


def refusal(mismatched: Sequence[str]) -> str:
    """Returns the message of the error that refuses mismatched runs."""
    return (
        f"these runs were not made on the same data: {' '.join(mismatched)} Compare runs on one data set and "
        "split, or add --allow-mismatch to compare them anyway, with a note under the table."
    )


def _within_table(table: GroupedRuns) -> Iterator[str]:
    """Yields a sentence for each run whose data differ from another run on the same fold."""
    first: dict[int | None, tuple[str, DataCell]] = {}
    for run in table.runs:
        cell = cell_of(run)
        model, other = first.setdefault(cell.fold, (run.result.model, cell))
        if cell != other:
            yield _difference(model, other, run.result.model, cell)


def _across_tables(tables: Sequence[GroupedRuns]) -> Iterator[str]:
    """Yields a sentence for each two models with a common fold and without a common cell."""
    cells: dict[str, list[DataCell]] = {}
    for table in tables:
        for label, of_row in table.cells.items():
            cells.setdefault(label, []).extend(of_row)
    for (a, of_a), (b, of_b) in itertools.combinations(cells.items(), 2):
        facing = [(one, other) for one in of_a for other in of_b if one.fold == other.fold]
        if facing and not set(of_a) & set(of_b):
            names = " and ".join(
                next(table.name for table in tables if any(cell in row for row in table.cells.values()))
                for cell in facing[0]
            )
            yield f"{_difference(a, facing[0][0], b, facing[0][1])} They are {names}."


def _difference(a: str, of_a: DataCell, b: str, of_b: DataCell) -> str:
    fold = "" if of_a.fold is None else f" fold {of_a.fold},"
    differing = [
        f"{split} {_short(of_a.fingerprints[split])} and {_short(of_b.fingerprints[split])}"
        for split in DATA_SPLITS
        if of_a.fingerprints[split] != of_b.fingerprints[split]
    ]
    return f"{of_a.data},{fold} {a} and {b}: the fingerprints of {', '.join(differing)} differ."


def _short(fingerprint: str | None) -> str:
    return "none" if fingerprint is None else fingerprint[:SHOWN_DIGITS]


def warnings(rows: Sequence[EvaluatedRow], metric: str, convention: Convention) -> list[Note]:
    """Returns the notes on how fairly the rows are compared."""
    evaluated = [item for row in rows for item in row.evaluated]
    results = [item.run.result for item in evaluated]
    shares = [item.evaluation.share_without_relevant for item in evaluated]
    return [
        *_convention_notes(convention.of(parse_metric(metric)[0]), fmean(shares)),
        *_seed_notes(rows),
        *_missing_resamples(rows),
        *_overlaps(evaluated, metric),
        *_circumstances(results),
        *_shared_machine(rows),
        *_changed_plugins(evaluated),
        *search_notes(rows),
        *_budgets([row for row in rows if not row.is_tuned], metric, convention),
        *_chosen_over_folds(rows),
        *_chosen_on_test(results),
        *_backend_notes(results),
        *_drifts(results),
    ]


def _convention_notes(convention: Convention, share: float) -> Iterator[Note]:
    fields = convention.describe()
    ties = {"expected": "ties count with their expected value"}.get(
        fields["ties"], f"ties: {fields['ties'].replace('_', ' ')}"
    )
    counted = {"skip": "are skipped", "0": "count 0", "1": "count 1"}[fields["no_relevant"]]
    gain = fields["gain"].replace("_", " ")
    yield Note(ON_CONVENTIONS, "convention", f"Convention: {fields['name']} ({gain}, {ties}).")
    without = f"{100 * share:.1f} % of the test queries have no relevant document; they {counted}."
    sentence = without if share > 0 else "Every test query has a relevant document."
    yield Note(ON_CONVENTIONS, "skipped queries", sentence)


def _seed_notes(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    same = [row.label for row in rows if row.seeds_change_nothing]
    if same:
        yield Note(
            ON_CLAIMS,
            "seeds that change nothing",
            f"Seeds change nothing in {', '.join(same)}: every seed gave the same scores, and all seeds "
            "count as one training.",
        )


def _missing_resamples(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields a note for each row that was not trained on a resample that another row has."""
    resamples = {row.label: {item.replicate.resample for item in row.evaluated} - {None} for row in rows}
    every = set[int | None]().union(*resamples.values())
    for label, of_row in resamples.items():
        if of_row and of_row != every:
            absent = listed([str(number) for number in sorted(filter(None, every - of_row))])
            yield Note(
                ON_DATA,
                "missing runs",
                f"{label} was not trained on resample{'s' * (len(every - of_row) > 1)} {absent} of the "
                "training queries: its differences, intervals and claims use the resamples that both rows "
                "have.",
            )


def _overlaps(evaluated: Sequence[EvaluatedRun], metric: str) -> Iterator[Note]:
    """Yields notes on counted queries that are in several test sets, and on test sets that are not folds."""
    # A fold has one test set, however many training sets there are.
    test_sets = first_of_cells(replace(item, cell=item.cell.of_test) for item in evaluated)
    counting = [item.query_keys[~np.isnan(item.evaluation.per_query[metric])] for item in test_sets.values()]
    repeated = repeats_in_words(shared(counting))
    if repeated:
        yield Note(ON_DATA, "repeated queries", repeated)
    folds = {cell.fold: cell for cell in first_of_cells(evaluated) if cell.fold is not None}
    if len(folds) > 1:
        of_folds = [keys for cell, keys in zip(test_sets, counting, strict=True) if cell.fold is not None]
        training_sets = [cell.train for cell in folds.values()]
        reason = no_folds_in_words(list(folds), training_sets, shared(of_folds).in_several)
        if reason:
            yield Note(ON_CLAIMS, "not folds", reason)


def _circumstances(results: Sequence[RunResult]) -> Iterator[Note]:
    """Yields notes on threads, parameters, machines and commits; none if nothing was trained here."""
    trained = [result for result in results if result.seconds]
    if not trained:
        return
    threads = _several(str(result.threads) for result in trained)
    differ = ", which differ between runs: do not compare the times" if len(threads) > 1 else ""
    yield Note(ON_COSTS, "threads", f"Threads: {', '.join(threads)}{differ}.")
    yield Note(ON_COSTS, "fit s", "The fit time includes the evaluation after each iteration.")
    sentence = parameters(trained)
    if sentence:
        yield Note(ON_BACKENDS, "matched parameters", sentence)
    machines = _several(
        f"{result.machine.get('cpu')} ({result.machine.get('cores')} cores)" for result in trained
    )
    if len(machines) > 1:
        yield Note(ON_COSTS, "machines", f"Machines differ: {'; '.join(machines)}. Do not compare the times.")
    commits = _several(
        str(result.commit or f"version {result.versions.get('ltrbench')}") for result in trained
    )
    if len(commits) > 1:
        yield Note(
            ON_DATA, "commits", f"The runs were made by different commits of the code: {', '.join(commits)}."
        )


def _shared_machine(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields a note on the runs whose times are left out because the command ran several jobs at a time."""
    shared = {row.label: [run for run in row.runs if run.result.shared_machine] for row in rows}
    counts = [
        f"{len(shared[row.label])} of {len(row.runs)} run{'s' * (len(row.runs) > 1)} of {row.label}"
        for row in rows
        if shared[row.label]
    ]
    if not counts:
        return
    in_sweep = {run.result.sweep is not None for runs in shared.values() for run in runs}
    remedies = {
        True: "python -m ltrbench resume DIR --timing takes the times of a sweep again, one after another.",
        False: "Repeat a single run while no other job runs.",
    }
    yield Note(
        ON_COSTS,
        "shared machine",
        f"Several jobs of ltrbench ran at a time during {listed(counts)}. Their times are left out of "
        f"columns and figures. {' '.join(remedies[each] for each in sorted(in_sweep, reverse=True))}",
    )


def _changed_plugins(evaluated: Sequence[EvaluatedRun]) -> Iterator[Note]:
    """Yields a note for each metric whose plug-in has changed since the runs reported the metric."""
    loaded = plugin_versions()
    for name in dict.fromkeys(name for item in evaluated for name in item.evaluation.means):
        module = METRICS[parse_metric(name)[0]].function.__module__
        recorded = [
            item.run.result.versions[module]
            for item in evaluated
            if module in item.run.result.versions and f"test/{name}" in item.run.result.metrics
        ]
        others = [version for version in recorded if version != loaded.get(module)]
        if module in loaded and others:
            yield Note(
                ON_CONVENTIONS,
                "plug-in metrics",
                f"{name} is computed with {module} {loaded[module]}; {len(others)} "
                f"run{'s' * (len(others) > 1)} reported it with {listed(_several(others))}.",
            )


def parameters(results: Sequence[RunResult]) -> str:
    """Returns a sentence: the set of shared parameters, the models with other values, and the tuned models.

    Empty if all models are yardsticks, which have no parameters.
    """
    kinds = sorted({result.params for result in results} - {OWN, NO_PARAMETERS})
    tuned = dict.fromkeys(result.model for result in results if result.search)
    settings: dict[str, dict[str, Mapping[str, object]]] = {}
    for result in results:
        chosen = result.search.get("space", {})
        fixed = {name: value for name, value in result.own_settings.items() if name not in chosen}
        if fixed or (result.params == OWN and not result.search):
            settings.setdefault(result.model, {})[assignments(fixed)] = fixed
    models = _models_with_settings(settings)
    parts = []
    if kinds:
        parts.append(f"{', '.join(kinds)}{f', except in {listed(models)}' if models else ''}")
    elif models:
        parts.append(f"each model's own, {listed(models)}")
    parts += [f"tuned by a search in {listed([*tuned])}"] if tuned else []
    return f"Parameters: {'; '.join(parts)}." if parts else ""


def _models_with_settings(settings: Mapping[str, Mapping[str, Mapping[str, object]]]) -> list[str]:
    """Returns each model with its settings; models with equal settings are listed together.

    If a model has the setting names of the first model, and fewer than half of the values differ, only the
    values that differ are shown.

    Args:
        settings: model -> the text of each of its sets of settings -> the settings.
    """
    texts: dict[str, list[str]] = {}
    first = next(iter(settings), "")
    base = _only(settings.get(first, {}))
    for model, sets in settings.items():
        text = "; ".join(filter(None, sets)) or "none"
        variant = _only(sets)
        if variant and variant.keys() == base.keys():
            changed = {name: value for name, value in variant.items() if value != base[name]}
            if 0 < len(changed) < len(base) / 2:
                text = f"as {first}, but {assignments(changed)}"
        texts.setdefault(text, []).append(model)
    return [f"{listed(models)} ({text})" for text, models in texts.items()]


def _only(sets: Mapping[str, Mapping[str, object]]) -> Mapping[str, object]:
    """Returns the settings of a model with one set of them; empty for several."""
    return next(iter(sets.values())) if len(sets) == 1 else {}


def _several(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=lambda text: (len(text), text))


def _budgets(rows: Sequence[EvaluatedRow], metric: str, convention: Convention) -> Iterator[Note]:
    """Yields notes on models with several settings: the best of many is partly lucky.

    Args:
        rows: Rows that were not tuned; `search_notes` has those that were.
    """
    rows_of_model = grouped((row for row in rows if row.runs[0].result.seconds), lambda row: row.model)
    tried = {model: len(of_model) for model, of_model in rows_of_model.items()}
    if max(tried.values(), default=1) == 1:
        return
    if len(tried) > 1 and len(set(tried.values())) > 1:
        counts = ", ".join(f"{model} {count}" for model, count in tried.items())
        sentence = f"Tuning budgets differ; number of settings in this table: {counts}."
        yield Note(ON_CLAIMS, "tuning budget", sentence)
    for model, of_model in rows_of_model.items():
        validated = values_on_validation(of_model, metric, convention) if len(of_model) > 1 else {}
        if validated:
            yield Note(
                ON_CLAIMS,
                "choice by validation",
                f"Do not choose among the {len(of_model)} settings of {model} by this table, which is on "
                f"test; the best by validation is {best_on_validation(validated)}.",
            )


def _chosen_over_folds(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields a note if validation queries that settings are chosen by are test queries of other folds."""
    counts = Counter(row.model for row in rows if not row.is_tuned)
    # A search that chooses per fold sees no other fold.
    chosen = [
        row for row in rows if (not is_per_fold(row.runs[0]) if row.is_tuned else counts[row.model] > 1)
    ]
    several = list(dict.fromkeys(row.model for row in chosen))
    seen = seen_by_choice([item for row in chosen for item in row.evaluated])
    if seen:
        yield Note(
            ON_CLAIMS,
            "validation queries in test",
            f"Settings of {listed(several)}: {seen}. Choose a setting for each fold by its own validation.",
        )


def seen_by_choice(evaluated: Sequence[EvaluatedRun]) -> str:
    """Returns which test queries are validation queries of other folds, in words; empty if none are."""
    folds = {cell: item for cell, item in first_of_cells(evaluated).items() if cell.fold is not None}
    if len({cell.fold for cell in folds}) < 2:
        return ""
    valid_keys: dict[DataCell, QueryKeys] = {}
    for item in evaluated:
        scored = _valid_scores(item.run) if item.cell in folds and item.cell not in valid_keys else None
        if scored is not None:
            valid_keys[item.cell] = scored.query_keys
    num_shared = sharing(list(valid_keys.values()), [item.query_keys for item in folds.values()])
    common = dict(zip(valid_keys, num_shared, strict=True))
    leaks = {
        (one.fold, other.fold)
        for one in folds
        for place, other in enumerate(folds)
        if one.fold is not None and other.fold is not None and one.fold != other.fold
        if (one.valid is not None and one.valid == other.test) or (one in common and common[one][place] > 0)
    }
    return seen_in_words(sorted(leaks)) if leaks else ""


def _valid_scores(run: Run) -> ScoredSplit | None:
    """Returns the scores of the validation set; None if the run has none."""
    try:
        return run.scored("valid")
    except ResultError:
        return None


def values_on_validation(
    rows: Sequence[EvaluatedRow], metric: str, convention: Convention
) -> dict[str, dict[int, float]]:
    """Returns row label -> index of a run in the row -> its metric on the validation set.

    Runs without a validation value are left out, and so are rows without any.
    """
    values = {
        row.label: {
            number: _value_on_validation(run, metric, convention) for number, run in enumerate(row.runs)
        }
        for row in rows
    }
    known = {
        label: {number: value for number, value in of_row.items() if value is not None}
        for label, of_row in values.items()
    }
    return {label: of_row for label, of_row in known.items() if of_row}


def best_on_validation(validated: Mapping[str, Mapping[int, float]]) -> str:
    """Returns the label of the row with the highest mean; the first one in case of ties."""
    return max(validated, key=lambda label: fmean(validated[label].values()))


def _value_on_validation(run: Run, metric: str, convention: Convention) -> float | None:
    """Returns the value that the run recorded, else computes it; None if neither is possible."""
    reported = any(name.startswith("valid/") for name in run.result.metrics)
    recorded = run.result.metrics.get(f"valid/{metric}")
    if not reported or (recorded is not None and run.result.convention.get("name") == convention.name):
        return recorded
    try:
        scored = run.scored("valid")
        mean = evaluate(scored.judgments, scored.scores, [metric], convention).means[metric]
    except (ResultError, UndefinedMetricError):
        return None
    return None if math.isnan(mean) else mean


def _chosen_on_test(results: Sequence[RunResult]) -> Iterator[Note]:
    """Yields a note for each model that was stopped by the test set."""
    for model, folds in stopped_on_test(results).items():
        known = ", ".join(str(fold) for fold in dict.fromkeys(folds) if fold is not None)
        place = f" in fold {known}" if known else ""
        yield Note(
            ON_CLAIMS,
            "picked on test",
            f"{model} was picked on test{place}: its validation set is the test set, and its metrics are too "
            "high. Give data.valid other queries.",
        )


def stopped_on_test(results: Iterable[RunResult]) -> dict[str, list[object]]:
    """Returns model -> the folds in which its validation set is the test set, None without folds."""
    folds: dict[str, list[object]] = {}
    for result in results:
        valid, test = (result.data.get(split, {}).get("fingerprint") for split in ("valid", "test"))
        if valid is not None and valid == test:
            folds.setdefault(result.model, []).append(result.data.get("fold"))
    return folds


def _backend_notes(results: Sequence[RunResult]) -> Iterator[Note]:
    """Yields each model's departures from the shared parameters, and the notes that its runs hold."""
    for model in dict.fromkeys(result.model for result in results):
        of_model = [result for result in results if result.model == model]
        for sentence in dict.fromkeys(text for result in of_model for text in result.unmatched):
            yield Note(ON_BACKENDS, "differences between backends", sentence, model)
        # Only runs that were not trained here hold notes.
        for sentence in dict.fromkeys(text for result in of_model for text in result.notes):
            yield Note(ON_DATA, "imported and fused scores", sentence, model)


def _drifts(results: Sequence[RunResult]) -> Iterator[Note]:
    """Yields a note for each run whose library computes other values of its metrics than ltrbench does."""
    for result in results:
        if result.drift.get("drifted"):
            of_library, convention = result.drift["own"], result.drift["convention"]
            pairs = ", ".join(
                f"{name} {format_number(of_library[name], '.9f')} (ltrbench: {format_number(ours, '.9f')})"
                for name, ours in result.drift["ours"].items()
            )
            yield Note(
                ON_CONVENTIONS,
                "drift",
                f"drift: {convention} itself computes {pairs} under its convention. Do not rely on either.",
                result.model,
            )
