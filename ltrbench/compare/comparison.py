"""Comparison of the models on one data set: rows with means, pairs of rows with tests.

The compared value is the mean of the metric over queries (with folds, the mean of the means of the folds),
paired by query. `Pair.claim` is the claim about a difference, `Pair.scope` is its scope: these trained
models, or the methods trained again. `Pair.statistics` describes the trained models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ltrbench.compare.cells import (
    EvaluatedRow,
    EvaluatedRun,
    PairedQueries,
    arrange,
    evaluate_rows,
    pair_queries,
)
from ltrbench.compare.fairness import (
    best_on_validation,
    mismatches,
    refusal,
    seen_by_choice,
    values_on_validation,
    warnings,
)
from ltrbench.compare.fusion import default_metric, reported_metrics, unknown_metrics
from ltrbench.compare.grouping import (
    BEST,
    ON_CLAIMS,
    ON_CONVENTIONS,
    ON_DATA,
    GroupedRuns,
    Note,
    Settings,
    cell_of,
    fold_of,
    group_by_data_set,
    group_runs,
    grouped,
    newest_runs,
    replicate_of,
    test_cell_of,
)
from ltrbench.compare.pairs import Pair, against, all_pairs, decided
from ltrbench.data.sources import Published
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.runs import FINISHED, IMPORTED, MODEL_FOLDER, Run, RunResult, refuse_trial
from ltrbench.statistics import WORSE, Interval, system_intervals
from ltrbench.tables import one_line

if TYPE_CHECKING:
    import pandas as pd

# ---- Number of trainings of a row: its folds, resamples and seeds, and how many are missing.
#
# 5 seeds                       every seed of the table
# 3 of 9 seeds                  another row has six more
# 1 (seeds change nothing)      several seeds gave the same scores
# 5 folds x 2 to 3 of 3 seeds   a seed is missing in some folds
# 3 of 5 resamples              resamples of the training queries


def replicate_counts(rows: Sequence[EvaluatedRow]) -> dict[str, str]:
    """Returns label -> text of the column "trainings".

    Args:
        rows: All rows of a table, with the runs that count.
    """
    runs = [run for row in rows for run in row.runs]
    # Imported scores have the seed of the run that they replace.
    seeds = {run.result.seed for run in runs if run.result.params != IMPORTED}
    num_folds = len({fold_of(run) for run in runs})
    return {row.label: _of_row(row, seeds, num_folds) for row in rows}


def _of_row(row: EvaluatedRow, seeds: set[int], num_folds: int) -> str:
    """Returns the factors of the number of runs of a row, such as 5 folds x 3 seeds.

    Args:
        seeds: Seeds of all rows.
        num_folds: Number of folds of all rows.
    """
    runs = row.runs
    by_fold = grouped(runs, fold_of)
    resamples_of_fold = {
        fold: {replicate_of(run).resample for run in items} - {None} for fold, items in by_fold.items()
    }
    by_place = grouped(runs, lambda run: (fold_of(run), replicate_of(run).resample))
    num_seeds = [len({run.result.seed for run in items}) for items in by_place.values()]
    parts = [] if num_folds == 1 else [_count([len(resamples_of_fold)], num_folds, "fold")]
    num_resamples = [*map(len, resamples_of_fold.values())]
    if any(num_resamples):
        planned = max(run.result.data["resample"]["number"] for run in runs if "resample" in run.result.data)
        parts.append(_count(num_resamples, planned, "resample"))
    if row.seeds_change_nothing:
        parts.append("1 (seeds change nothing)")
    elif all(run.result.params == IMPORTED for run in runs) and max(num_seeds) == 1:
        parts.append("1 (imported)")
    elif not any(num_resamples) or max(num_seeds) > 1:
        parts.append(_count(num_seeds, len(seeds | {run.result.seed for run in runs}), "seed"))
    return " x ".join(parts)


def _count(counts: Sequence[int], expected: int, noun: str) -> str:
    """Returns the number of replicates in words.

    >>> _count([3, 3], 3, "seed"), _count([1], 1, "seed"), _count([2, 3], 9, "seed")
    ('3 seeds', '1 seed', '2 to 3 of 9 seeds')
    """
    low, high = min(counts), max(counts)
    span = f"{low}" if low == high else f"{low} to {high}"
    of = f" of {expected}" if low < expected else ""
    return f"{span}{of} {noun}{'s' * (expected > 1)}"


LARGEST_CUTOFF = 20
_BYTES_IN_MB = 1e6


@dataclass(frozen=True)
class ModelRow:
    """One model with one set of settings on one data set.

    Attributes:
        group: The runs that count, with their evaluations.
        metrics: Name -> mean over cells of the mean over queries; None if no query counts.
        interval: 95 % interval of the mean of the primary metric; None for a row that is not paired.
        to_baseline: This row minus the baseline; None for the baseline and for a row that is not paired.
        to_best: Interval of this row minus the best row, simultaneous over all pairs; None for the best row.
        seconds: Kind of time -> mean over the runs that did not share the machine with another job; empty if
            all did.
        peak_memory_mb, trees, model_mb: Means over the runs that have a value; None if no run has one.
    """

    group: EvaluatedRow
    metrics: Mapping[str, float | None]
    interval: Interval | None
    to_baseline: Pair | None
    to_best: Interval | None
    seconds: Mapping[str, float]
    peak_memory_mb: float | None
    trees: float | None
    model_mb: float | None

    @property
    def label(self) -> str:
        """Name of the model, with the settings that distinguish it from other rows of the model."""
        return self.group.label

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that count, in order."""
        return self.group.runs

    @property
    def evaluated(self) -> tuple[EvaluatedRun, ...]:
        """The runs with their evaluations, in order."""
        return self.group.evaluated


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The rows of one data set.

    Attributes:
        data: Name of the data set.
        metric: Primary metric: differences are in this metric, and it carries claims.
        settings: Settings of the comparison, with defaults filled in.
        baseline: Label of the row that the other rows are compared with.
        best: Label of the paired row with the highest mean; None with fewer than two paired rows.
        rows: In the order of the runs.
        pairs: All pairs, each earlier row minus each later row, with claims over all pairs.
        declared: Metric -> pairs of the family, for each further metric that carries claims.
        queries: The paired queries; None if no rows can be paired.
        note_entries: Notes under the table: skipped queries, failed runs, unmatched parameters, and others.
        published: Published values on the data set; None if its YAML has none.
    """

    data: str
    metric: str
    settings: Settings
    baseline: str
    best: str | None
    rows: tuple[ModelRow, ...]
    pairs: tuple[Pair, ...]
    queries: PairedQueries | None
    note_entries: tuple[Note, ...]
    published: Published | None = None
    declared: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes under the table as text."""
        return tuple(map(str, self.note_entries))

    @property
    def family(self) -> tuple[Pair, ...]:
        """The pairs that are decided together: the pairs with the named baseline, or all pairs."""
        if not self.settings.names_baseline:
            return self.pairs
        return tuple(row.to_baseline for row in self.rows if row.to_baseline is not None)

    @property
    def claims(self) -> tuple[Pair, ...]:
        """The pairs of the family, for every metric that carries claims."""
        return (*self.family, *(pair for pairs in self.declared.values() for pair in pairs))

    def claim(self, label: str, metric: str) -> Pair | None:
        """Returns a row minus the baseline in a metric that carries claims; None if there is no claim."""
        if metric == self.metric:
            return self.row(label).to_baseline
        pairs = self.declared.get(metric, ())
        return next((pair for pair in against(pairs, self.baseline) if pair.a == label), None)

    def beats_all(self, label: str) -> bool:
        """Returns whether the family claims that a row is better than every other row."""
        others = against(self.family, label)
        return len(others) == len(self.rows) - 1 > 0 and all(pair.claim == WORSE for pair in others)

    @cached_property
    def replicates(self) -> dict[str, str]:
        """Label -> number of trainings, such as "5 seeds" or "3 of 9 seeds"."""
        return replicate_counts([row.group for row in self.rows])

    @cached_property
    def ndcg_by_cutoff(self) -> dict[str, list[float | None]]:
        """Label -> NDCG@1, NDCG@2, ... up to NDCG@20 or the longest query; means as in `ModelRow.metrics`.

        Raises:
            UndefinedMetricError, DataError: The convention does not define NDCG on these data.
        """
        longest = max(int(item.judgments.query_sizes.max()) for row in self.rows for item in row.evaluated)
        names = [f"ndcg@{k}" for k in range(1, min(LARGEST_CUTOFF, longest) + 1)]
        rows = [row.group.under(self.settings.convention, names) for row in self.rows]
        return {row.label: [row.mean(name) for name in names] for row in rows}

    def __repr__(self) -> str:
        means = [(row.label, row.metrics.get(self.metric)) for row in self.rows]
        rows = [label if mean is None else f"{label} {mean:.4f}" for label, mean in means]
        return one_line("Comparison", {"data": self.data, "metric": self.metric, "rows": rows})

    def _repr_html_(self) -> str:
        """Returns the table of `render` as HTML, for a notebook."""
        # Imported here, because tables import this module.
        from ltrbench.compare.tables import as_html

        return as_html(self)

    def to_frame(self) -> pd.DataFrame:
        """Returns one row per model with numbers in full precision.

        Columns: model, one per metric, the interval of the primary metric (low, high), the difference to the
        baseline with its interval and p-value, wins, ties and losses, trees, memory, and seconds by kind. NaN
        or None if not available.
        """
        from ltrbench.compare.tables import as_frame

        return as_frame(self)

    def row(self, label: str) -> ModelRow:
        """Returns the row with a label."""
        return next(row for row in self.rows if row.label == label)


def compare(runs: Sequence[Run], settings: Settings | None = None) -> list[Comparison]:
    """Compares finished runs; returns one Comparison per data set.

    Raises:
        ConfigError: The metric or the baseline is unknown.
        ResultError: No run is finished, a run is a trial of a search, or runs have different data or splits
            and `settings.allow_mismatch` is not set.
    """
    settings = settings or Settings()
    for run in runs:
        refuse_trial(run, "metrics of test")
    finished = [run for run in runs if run.result.status == FINISHED]
    if not finished:
        errors = "; ".join(str(_failure(run)) for run in runs)
        raise ResultError(f"there is no finished run to compare. {errors}")
    finished, repeated = newest_runs(finished)
    tables = group_runs(finished)
    mismatched = mismatches(tables)
    if mismatched and not settings.allow_mismatch:
        raise ResultError(refusal(mismatched))
    # Without a mismatch training sets are known, which the wider scopes of claims need.
    settings = replace(settings, allow_mismatch=bool(mismatched))
    if mismatched:
        tables = group_by_data_set(finished)
    metric = settings.claimed_metrics[0] or default_metric(finished)
    if settings.names_baseline:
        _check_baseline(tables, str(settings.baseline))
    notes = [*(Note(ON_DATA, "mismatched data", sentence) for sentence in mismatched), *repeated]
    # A run may fail before its data set is known, so that every failure is a note under the first table.
    failures = [_failure(run) for run in runs if run.result.status != FINISHED]
    return [
        _compare_on(table, metric, settings, [*notes, *(failures if number == 0 else [])])
        for number, table in enumerate(tables)
    ]


def _compare_on(
    table: GroupedRuns, metric: str, settings: Settings, first_notes: Sequence[Note]
) -> Comparison:
    reported = (name for run in table.runs for name in reported_metrics(run))
    claimed = dict.fromkeys([metric, *settings.family])
    others = [name for name in dict.fromkeys(reported) if name not in claimed]
    cell_of_run = test_cell_of if settings.allow_mismatch else cell_of
    arranged = arrange(evaluate_rows(table.rows, [*claimed], others, settings.convention, cell_of_run))
    paired = {name: pair_queries(arranged.paired, name) for name in claimed}
    queries = paired[metric]
    best = _best(queries)
    base, absent = _baseline_of(table.rows, settings.baseline, best)
    if absent:
        settings = replace(settings, baseline=None)
    pairs = () if queries is None else all_pairs(queries, metric, settings)
    declared = {
        name: _family(all_pairs(queries_of_metric, name, settings), queries_of_metric, base, settings)
        for name, queries_of_metric in paired.items()
        if name != metric and queries_of_metric is not None
    }
    unknown = unknown_metrics(run.result for run in table.runs)
    return Comparison(
        data=table.name,
        metric=metric,
        settings=settings,
        baseline=base,
        best=best,
        rows=tuple(_rows(arranged.counted, queries, pairs, base, best, settings)),
        pairs=pairs,
        queries=queries,
        note_entries=(
            *first_notes,
            *(Note(ON_CONVENTIONS, "plug-in metrics", sentence) for sentence in unknown),
            *absent,
            *arranged.notes,
            *warnings(arranged.counted, metric, settings.convention),
        ),
        published=_published(table.runs[0]),
        declared=declared,
    )


def _published(run: Run) -> Published | None:
    """Returns the published values on the data set of a run; None if its YAML has none."""
    record = run.result.settings.get("data", {}).get("published")
    if not record:
        return None
    # Runs of earlier versions have no convention.
    return Published(source=record["source"], figures=record["figures"], convention=record.get("convention"))


def _rows(
    groups: Sequence[EvaluatedRow],
    queries: PairedQueries | None,
    pairs: Sequence[Pair],
    base: str,
    best: str | None,
    settings: Settings,
) -> list[ModelRow]:
    intervals: dict[str, Interval | None] = {}
    to_base: dict[str, Pair] = {}
    if queries is not None:
        of_rows = system_intervals(queries.distinct)
        intervals = dict(zip(queries.labels, of_rows, strict=True))
        to_base = {pair.a: pair for pair in against(_family(pairs, queries, base, settings), base)}
    to_best = {} if best is None else {pair.a: pair.interval for pair in against(pairs, best)}
    return [
        _row(group, intervals.get(group.label), to_base.get(group.label), to_best.get(group.label))
        for group in groups
    ]


def _family(pairs: Sequence[Pair], queries: PairedQueries, base: str, settings: Settings) -> tuple[Pair, ...]:
    """Returns the pairs that are decided together.

    With a named baseline, these are its pairs, decided among themselves. With the baseline "best" or without
    one, these are all pairs: the best row was chosen by the same numbers.
    """
    if not settings.names_baseline:
        return tuple(pairs)
    return decided(against(pairs, base), queries, settings)


def _row(
    group: EvaluatedRow, interval: Interval | None, to_baseline: Pair | None, to_best: Interval | None
) -> ModelRow:
    results = [run.result for run in group.runs]
    return ModelRow(
        group=group,
        metrics={name: group.mean(name) for name in group.evaluated[0].evaluation.means},
        interval=interval,
        to_baseline=to_baseline,
        to_best=to_best,
        seconds=_mean_seconds(results),
        peak_memory_mb=_mean_known(result.peak_memory_mb for result in results),
        trees=_mean_known(result.best_iteration for result in results),
        model_mb=_mean_known(map(_model_mb, group.runs)),
    )


def _best(queries: PairedQueries | None) -> str | None:
    """Returns the label with the highest mean, the first one in case of ties."""
    if queries is None or len(queries.labels) < 2:
        return None
    return queries.labels[int(np.argmax(queries.sample.means))]


def _check_baseline(tables: Sequence[GroupedRuns], baseline: str) -> None:
    """Raises ConfigError if no table has a row or a model of that name."""
    labels = [label for table in tables for label in table.rows]
    models = [run.result.model for table in tables for run in table.runs]
    if baseline not in (*labels, *models):
        known = list(dict.fromkeys(labels))
        raise ConfigError(
            f"no finished run of baseline '{baseline}'{did_you_mean(baseline, known)} "
            f"The rows are {', '.join(known)}."
        )


def _baseline_of(
    rows: Mapping[str, Sequence[Run]], baseline: str | None, best: str | None
) -> tuple[str, list[Note]]:
    """Returns the label of the baseline, and a note if the first row replaces a baseline without a run."""
    of_model = [label for label, runs in rows.items() if runs[0].result.model == baseline]
    matching = [label for label in rows if label == baseline] or of_model
    if len(matching) > 1:
        raise ConfigError(
            f"baseline '{baseline}' matches {len(matching)} rows; name one: {', '.join(matching)}."
        )
    if matching:
        return matching[0], []
    if baseline == BEST and best is not None:
        return best, []
    first = next(iter(rows))
    sentence = f"The baseline {baseline} has no run here: differences are to {first}, the first row."
    return first, [Note(ON_CLAIMS, "baseline", sentence)] if baseline not in (None, BEST) else []


def _mean_seconds(results: Sequence[RunResult]) -> dict[str, float]:
    alone = [result for result in results if not result.shared_machine]
    kinds = dict.fromkeys(kind for result in alone for kind in result.seconds)
    return {kind: fmean(item.seconds[kind] for item in alone if kind in item.seconds) for kind in kinds}


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _model_mb(run: Run) -> float | None:
    files = [file for file in (run.path / MODEL_FOLDER).rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / _BYTES_IN_MB if files else None


@dataclass(frozen=True)
class Choice:
    """The run to use, chosen by validation only.

    Attributes:
        run: Best run of the row with the highest mean of the metric on validation.
        reason: The model and the reason of the choice, such as "lightgbm: best validation ndcg@10, 0.7188".
        figures: Means over the runs of the row: "test/ndcg@10" and others, and the metric on validation.
    """

    run: Run
    reason: str
    figures: Mapping[str, float]


def best_by_validation(comparison: Comparison) -> Choice | None:
    """Returns the best run of the row with the highest mean of the metric on validation.

    Test scores are not used. None if no row has a validation set.
    """
    rows = [row.group for row in comparison.rows]
    validated = values_on_validation(rows, comparison.metric, comparison.settings.convention)
    if not validated:
        return None
    best = best_on_validation(validated)
    number = max(validated[best], key=validated[best].__getitem__)
    row, mean = comparison.row(best), fmean(validated[best].values())
    run = row.runs[number]
    reason = f"{best}: {'best ' * (len(validated) > 1)}validation {comparison.metric}, {mean:.4f}"
    if len(row.runs) > 1:
        fold = "" if fold_of(run) is None else f"fold={fold_of(run)} "
        reason += (
            f", the mean of {len(row.runs)} runs; the best run is {fold}seed={run.result.seed}, "
            f"{validated[best][number]:.4f}"
        )
    seen = seen_by_choice([item for row in rows for item in row.evaluated]) if len(validated) > 1 else ""
    of_test = {f"test/{name}": mean for name, mean in row.metrics.items() if mean is not None}
    return Choice(
        run=run,
        reason="; ".join(filter(None, [reason, seen])),
        figures={**of_test, f"valid/{comparison.metric}": mean},
    )


def _failure(run: Run) -> Note:
    # The first line is the message; a traceback may follow.
    reason = (run.result.error or "unknown").partition("\n")[0]
    return Note(ON_DATA, "failed runs", f"{run.result.model} failed ({run.path}): {reason}")
