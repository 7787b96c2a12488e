"""Whether runs may stand in one table, and what a reader of it has to be warned of.

A table of runs that were trained or judged on different documents is refused, with what differs. What only
may matter (threads, machines, settings tried, a model chosen by test) is a note under the table.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from ltrbench.compare.pairing.cells import (
    SPLITS,
    Cell,
    Judged,
    by_data,
    by_label,
    by_name,
    cell_of,
    keys_of_cells,
    one_of_each_cell,
    replicate_of,
    seeds_change_nothing,
)
from ltrbench.compare.pairing.overlap import (
    keys_of_sets,
    repeats_in_words,
    same_folds_in_words,
    same_sets,
    seen_in_words,
    shared,
    sharing,
)
from ltrbench.errors import ResultError, UndefinedMetricError
from ltrbench.markdown import assignments, listed
from ltrbench.metrics import Convention, evaluate, parse_metric
from ltrbench.metrics.functions import METRICS
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.results import NO_PARAMETERS, OWN, Run, RunResult, ScoredSplit

SHOWN = 12
"""Characters of a fingerprint that are shown; enough to tell two apart."""


def mismatches(runs: Sequence[Run]) -> list[str]:
    """A sentence for each two sets of runs that would have to be paired, and were made on different data.

    A sweep over a setting of the data, where every model is run under each value, is no mismatch: it makes a
    table a value. But two models that share a data set and a fold and no cell of it were never given the
    same.
    """
    found: list[str] = []
    for group in by_name(runs).values():
        tables = by_data(group)
        for own in tables.values():
            found += _within_table(own)
        if len(tables) > 1:
            found += _across_tables(tables)
    return list(dict.fromkeys(found))


def refusal(found: Sequence[str]) -> str:
    """What to say of mismatches that nobody allowed."""
    return (
        f"these runs were not made on the same data: {' '.join(found)} Compare runs of one data set "
        "and split, or say --allow-mismatch to see them side by side all the same, with this said "
        "under the table."
    )


def _within_table(runs: Sequence[Run]) -> Iterator[str]:
    """Runs of one fold whose files were not the same."""
    first: dict[int | None, tuple[str, Cell]] = {}
    for run in runs:
        cell = cell_of(run)
        label, other = first.setdefault(cell.fold, (run.result.model, cell))
        if cell != other:
            yield _difference(runs[0].result, label, other, run.result.model, cell)


def _across_tables(tables: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """Models that have a fold in common, and no cell."""
    cells: dict[str, list[Cell]] = {}
    for runs in tables.values():
        for label, own in by_label(runs).items():
            cells.setdefault(label, []).extend(map(cell_of, own))
    for (a, of_a), (b, of_b) in itertools.combinations(cells.items(), 2):
        facing = [(one, other) for one in of_a for other in of_b if one.fold == other.fold]
        if facing and not set(of_a) & set(of_b):
            settings = " and ".join(
                next(name for name, runs in tables.items() if cell in map(cell_of, runs))
                for cell in facing[0]
            )
            result = next(iter(tables.values()))[0].result
            yield f"{_difference(result, a, facing[0][0], b, facing[0][1])} They are {settings}."


def _difference(result: RunResult, a: str, of_a: Cell, b: str, of_b: Cell) -> str:
    fold = "" if of_a.fold is None else f" fold {of_a.fold},"
    differing = [
        f"{split} {_short(ours)} and {_short(theirs)}"
        for split, ours, theirs in zip(SPLITS, of_a[1:], of_b[1:], strict=True)
        if ours != theirs
    ]
    return f"{result.data['name']},{fold} {a} and {b}: the fingerprints of {', '.join(differing)} differ."


def _short(fingerprint: str | None) -> str:
    return "none" if fingerprint is None else fingerprint[:SHOWN]


def warnings(counted: Mapping[str, Sequence[Judged]], metric: str, convention: Convention) -> list[str]:
    """What a reader of the table must know, a sentence each."""
    runs = [item.run for own in counted.values() for item in own]
    results = [run.result for run in runs]
    shares = [item.evaluation.share_without_relevant for own in counted.values() for item in own]
    return [
        _convention_note(convention.of(parse_metric(metric)[0]), fmean(shares)),
        *_seed_notes(counted),
        *_resamples_apart(counted),
        *_overlaps(counted, metric),
        *_circumstances(results),
        *_changed_plugins(counted),
        *_budgets(counted, metric, convention),
        *_chosen_over_folds(counted),
        *_chosen_on_test(results),
        *_unmatched(results),
        *_drifts(results),
    ]


def _convention_note(convention: Convention, share: float) -> str:
    said = convention.describe()
    ties = {"expected": "ties count with their expected value"}.get(
        said["ties"], f"ties: {said['ties'].replace('_', ' ')}"
    )
    counted = {"skip": "are skipped", "0": "count 0", "1": "count 1"}[said["no_relevant"]]
    return (
        f"Convention {said['name']}: {said['gain'].replace('_', ' ')}, {ties}; the {100 * share:.1f} "
        "% of test "
        f"queries without a relevant document {counted}."
    )


def _seed_notes(counted: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    same = [label for label, own in counted.items() if seeds_change_nothing(own)]
    if same:
        yield (
            f"Seeds change nothing in {', '.join(same)}: every seed gave the same scores, so that "
            "several seeds "
            "say no more than one."
        )


def _resamples_apart(counted: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    """Rows without a resample that other rows have: pairs are compared over those that both have."""
    numbers = {label: {replicate_of(item.run)[0] for item in own} - {None} for label, own in counted.items()}
    every = set().union(*numbers.values())
    for label, own in numbers.items():
        if own and own != every:
            absent = listed([str(number) for number in sorted(filter(None, every - own))])
            yield (
                f"{label} was not trained on resample{'s' * (len(every - own) > 1)} {absent} of the training "
                "queries: differences, claims and intervals of it are over the resamples that both rows have."
            )


def _overlaps(counted: Mapping[str, Sequence[Judged]], metric: str) -> Iterator[str]:
    """Queries that stand in several test sets, of those that count, and folds that are one."""
    # A fold's test set is one, however many training sets there are.
    judged = [
        replace(item, cell=item.cell._replace(train=None, valid=None))
        for own in counted.values()
        for item in own
    ]
    keys = keys_of_cells(judged)
    counting = {item.cell: ~np.isnan(item.evaluation.per_query[metric]) for item in judged}
    said = repeats_in_words(shared([own[counting[cell]] for cell, own in keys.items()]))
    if said:
        yield said
    folds = {cell.fold: own for cell, own in keys.items() if cell.fold is not None}
    numbers = list(folds)
    groups = [[numbers[place] for place in group] for group in same_sets(list(folds.values()))]
    yield from same_folds_in_words(groups)


def _circumstances(results: Sequence[RunResult]) -> Iterator[str]:
    """Threads, parameters, machines and versions."""
    trained = [result for result in results if result.seconds]
    if not trained:
        return
    threads = _several(str(result.threads) for result in trained)
    differ = ", which differ: set times side by side with care" if len(threads) > 1 else ""
    sentences = [
        f"Threads: {', '.join(threads)}{differ}.",
        parameters(trained),
        "Fit includes its evaluator.",
    ]
    yield " ".join(filter(None, sentences))
    machines = _several(
        f"{result.machine.get('cpu')} ({result.machine.get('cores')} cores)" for result in trained
    )
    if len(machines) > 1:
        yield f"Machines differ, and with them times: {'; '.join(machines)}."
    commits = _several(
        str(result.commit or f"version {result.versions.get('ltrbench')}") for result in trained
    )
    if len(commits) > 1:
        yield f"The runs were made by different commits of the code: {', '.join(commits)}."


def _changed_plugins(counted: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    """Metrics whose plug-in is not what it was when the runs reported them."""
    judged = [item for own in counted.values() for item in own]
    loaded = plugin_versions()
    for name in dict.fromkeys(name for item in judged for name in item.evaluation.means):
        module = METRICS[parse_metric(name)[0]].function.__module__
        recorded = [
            item.run.result.versions[module]
            for item in judged
            if module in item.run.result.versions and f"test/{name}" in item.run.result.metrics
        ]
        others = [version for version in recorded if version != loaded.get(module)]
        if module in loaded and others:
            yield (
                f"{name} is computed with {module} {loaded[module]}; {len(others)} "
                f"run{'s' * (len(others) > 1)} reported it with {listed(_several(others))}."
            )


def parameters(results: Sequence[RunResult]) -> str:
    """Which shared parameters the models took, and what each has instead, in a sentence; empty where there
    are only yardsticks, which have none."""
    kinds = sorted({result.params for result in results} - {OWN, NO_PARAMETERS})
    settings: dict[str, dict[str, None]] = {}
    for result in results:
        if result.own_settings or result.params == OWN:
            settings.setdefault(result.model, {})[assignments(result.own_settings)] = None
    own = [f"{model} ({'; '.join(filter(None, texts)) or 'none'})" for model, texts in settings.items()]
    if kinds:
        return f"Parameters: {', '.join(kinds)}{f', except in {listed(own)}' if own else ''}."
    return f"Parameters: each model's own, {listed(own)}." if own else ""


def _several(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=lambda text: (len(text), text))


def _budgets(counted: Mapping[str, Sequence[Judged]], metric: str, convention: Convention) -> Iterator[str]:
    """Models of which more settings were tried than of others; the best of many is partly lucky."""
    settings: dict[str, list[str]] = {}
    for label, own in counted.items():
        if own[0].run.result.seconds:
            settings.setdefault(own[0].run.result.model, []).append(label)
    tried = {model: len(labels) for model, labels in settings.items()}
    if max(tried.values(), default=1) == 1:
        return
    if len(tried) > 1 and len(set(tried.values())) > 1:
        counts = ", ".join(f"{model} {count}" for model, count in tried.items())
        yield f"Tuning budgets differ: settings in this table are {counts}."
    for model, labels in settings.items():
        chosen = (
            _best_setting({label: counted[label] for label in labels}, metric, convention)
            if len(labels) > 1
            else None
        )
        if chosen is not None:
            yield (
                f"To take the best of the {len(labels)} settings of {model} by this table is to pick "
                "on test; by "
                f"validation it is {chosen}."
            )


def _chosen_over_folds(counted: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    """Models of which one setting may be chosen by validation queries that are test queries too."""
    models = Counter(own[0].run.result.model for own in counted.values())
    several = [model for model, count in models.items() if count > 1]
    judged = [item for own in counted.values() for item in own if item.run.result.model in several]
    seen = seen_by_choice(judged)
    if seen:
        yield f"Settings of {listed(several)}: {seen}. Choose a setting for each fold by its own validation."


def seen_by_choice(judged: Sequence[Judged]) -> str:
    """What a choice by the validation sets of all folds has seen of their test sets; empty: nothing."""
    folds = {cell: item for cell, item in one_of_each_cell(judged).items() if cell.fold is not None}
    if len({cell.fold for cell in folds}) < 2:
        return ""
    valid: dict[Cell, ScoredSplit] = {}
    for item in judged:
        scored = _valid_scores(item.run) if item.cell in folds and item.cell not in valid else None
        if scored is not None:
            valid[item.cell] = scored
    sets = [(scored.judgments, scored.query_keys) for scored in valid.values()]
    keys = keys_of_sets([*sets, *((item.judgments, item.query_keys) for item in folds.values())])
    common = dict(zip(valid, sharing(keys[: len(sets)], keys[len(sets) :]), strict=True))
    leaks = {
        (one.fold, other.fold)
        for one in folds
        for place, other in enumerate(folds)
        if one.fold is not None and other.fold is not None and one.fold != other.fold
        if (one.valid is not None and one.valid == other.test) or (one in common and common[one][place] > 0)
    }
    return seen_in_words(sorted(leaks)) if leaks else ""


def _valid_scores(run: Run) -> ScoredSplit | None:
    """The scores of validation; None where the run has none."""
    try:
        return run.scored("valid")
    except ResultError:
        return None


def _best_setting(rows: Mapping[str, Sequence[Judged]], metric: str, convention: Convention) -> str | None:
    reached = {
        label: validation_means([item.run for item in own], metric, convention) for label, own in rows.items()
    }
    known = {label: fmean(values.values()) for label, values in reached.items() if values}
    return max(known, key=known.__getitem__) if known else None


def validation_means(runs: Sequence[Run], metric: str, convention: Convention) -> dict[int, float]:
    """The number of a run -> what it reaches on validation, of those that have it and may be judged by it."""
    values = {number: _on_validation(run, metric, convention) for number, run in enumerate(runs)}
    return {number: value for number, value in values.items() if value is not None}


def _on_validation(run: Run, metric: str, convention: Convention) -> float | None:
    """As the run recorded it, or else computed from its scores."""
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


def _chosen_on_test(results: Sequence[RunResult]) -> Iterator[str]:
    """Models whose validation set, by which they stopped, is the test set."""
    folds: dict[str, list[object]] = {}
    for result in results:
        valid, test = (result.data.get(split, {}).get("fingerprint") for split in ("valid", "test"))
        if valid is not None and valid == test:
            folds.setdefault(result.model, []).append(result.data.get("fold"))
    for model, own in folds.items():
        known = ", ".join(str(fold) for fold in dict.fromkeys(own) if fold is not None)
        place = f" in fold {known}" if known else ""
        yield (
            f"{model} was picked on test{place}: its validation set is the test set, so that its figures "
            "flatter it. Give data.valid other queries."
        )


def _unmatched(results: Sequence[RunResult]) -> Iterator[str]:
    for model in dict.fromkeys(result.model for result in results):
        sentences = dict.fromkeys(
            sentence
            for result in results
            if result.model == model
            for sentence in (*result.unmatched, *result.notes)
        )
        yield from (f"{model}: {sentence}" for sentence in sentences)


def _drifts(results: Sequence[RunResult]) -> Iterator[str]:
    """Where a library's own figures on its own scores are not ours."""
    for result in results:
        if result.drift.get("drifted"):
            convention, own = result.drift["convention"], result.drift["own"]
            pairs = ", ".join(
                f"{name} {_figure(own[name])} against {_figure(ours)}"
                for name, ours in result.drift["ours"].items()
            )
            yield (
                f"{result.model} drifts: {convention} itself computes {pairs} of ours under its "
                "convention. Do "
                "not rely on either."
            )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.9f}"
