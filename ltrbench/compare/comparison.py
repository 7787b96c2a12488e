"""Comparison of the models on one data set: rows with means, pairs of rows with claims and tests.

The compared value is the mean of the metric over queries (with folds, the mean of the means of the folds),
paired by query. Each pair has a claim about these trained models and one about the methods, trained again
(`ltrbench.compare.claims`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ltrbench.compare.cells import (
    DataCell,
    cell_of,
    fold_of,
    grouped,
    newest_runs,
    replicate_of,
    runs_by_data_set,
    runs_by_label,
    runs_by_table,
)
from ltrbench.compare.claims import Pair, against, all_pairs, decided
from ltrbench.compare.clicks import Evidence
from ltrbench.compare.derived import default_metric, reported_metrics, unknown_metrics
from ltrbench.compare.fairness import (
    best_on_validation,
    mean_on_validation,
    mismatches,
    seen_by_choice,
    values_on_validation,
    warnings,
)
from ltrbench.compare.feature_sets import with_common_data
from ltrbench.compare.groups import Slice, group_of_queries
from ltrbench.compare.remarks import Kind, LeftOut, Remark, leak_in_words, notes_of
from ltrbench.compare.settings import (
    BEST,
    Settings,
)
from ltrbench.compare.table import (
    ModelRow,
    PairedQueries,
    Table,
    evaluate_rows,
    pair_queries,
)
from ltrbench.errors import ConfigError, ResultError, require_choice
from ltrbench.metrics import bounds_of, parse_metric
from ltrbench.runs.origin import Final, Imported
from ltrbench.runs.record import (
    FINISHED,
    Run,
    refuse_trial,
)
from ltrbench.statistics import WORSE, Interval, largest_loss, system_intervals
from ltrbench.tables import listed, one_line

# ---- Number of trainings of a row: its folds, resamples and seeds, and how many are missing.
#
# 5 seeds                       every seed of the table
# 3 of 9 seeds                  another row has six more
# 9 of 10 folds (5 folds x 2 repeats) x 1 seed
# 1 (seeds change nothing)      several seeds gave the same scores
# 5 folds x 2 to 3 of 3 seeds   a seed is missing in some folds
# 3 of 5 resamples              resamples of the training queries


def replicate_counts(rows: Sequence[ModelRow]) -> dict[str, str]:
    """Returns label -> text of the column "trainings".

    Args:
        rows: All rows of a table, with the runs that count.
    """
    runs = list(itertools.chain.from_iterable(row.runs for row in rows))
    # Imported scores have the seed of the run that they replace.
    seeds = {
        run.result.seed for run in runs if not isinstance(run.result.origin, Imported)
    }
    folds, repeats = zip(*map(fold_of, runs), strict=True)
    num_folds = len(set(folds))
    num_repeats = len(set(repeats))
    return {row.label: _of_row(row, seeds, num_folds, num_repeats) for row in rows}


def _of_row(row: ModelRow, seeds: set[int], num_folds: int, num_repeats: int) -> str:
    """Returns the factors of the number of runs of a row, such as 5 folds x 2 repeats x 3 seeds.

    Args:
        seeds: Seeds of all rows.
        num_folds, num_repeats: Numbers of folds and of repeats of a cross-validation, of all rows.
    """
    training_sets = grouped(
        row.runs, lambda run: (fold_of(run), replicate_of(run).resample)
    )
    num_seeds = [
        len({run.result.seed for run in runs}) for runs in training_sets.values()
    ]
    are_imported = all(isinstance(run.result.origin, Imported) for run in row.runs)
    is_imported = are_imported and max(num_seeds) == 1
    num_resamples = Counter(
        fold for fold, resample in training_sets if resample is not None
    )
    num_present = len({fold for fold, _ in training_sets})
    parts = _folds_in_words(num_present, num_folds, num_repeats)
    if num_resamples and not is_imported:
        resamples = [run.result.data["resample"] for run in row.runs]
        planned = max(resample["number"] for resample in resamples)
        parts.append(_count([*num_resamples.values()], planned, "resample"))
    if row.seeds_change_nothing:
        parts.append("1 (seeds change nothing)")
    elif is_imported:
        parts.append("1 (imported)")
    elif not num_resamples or max(num_seeds) > 1:
        expected = len(seeds | {run.result.seed for run in row.runs})
        parts.append(_count(num_seeds, expected, "seed"))
    return " x ".join(parts)


def _folds_in_words(num_present: int, num_folds: int, num_repeats: int) -> list[str]:
    """Returns the folds and the repeats of a row as factors; empty for a single test set."""
    parts = []
    if num_folds > 1:
        parts.append(f"{num_folds} folds")
    if num_repeats > 1:
        parts.append(f"{num_repeats} repeats")
    planned = num_folds * num_repeats
    if num_present == planned:
        return parts
    of_repeats = ""
    if num_repeats > 1:
        of_repeats = f" ({' x '.join(parts)})"
    return [f"{num_present} of {planned} folds{of_repeats}"]


def _count(counts: Sequence[int], expected: int, noun: str) -> str:
    """Returns the number of replicates in words.

    >>> _count([3, 3], 3, "seed"), _count([1], 1, "seed"), _count([2, 3], 9, "seed")
    ('3 seeds', '1 seed', '2 to 3 of 9 seeds')
    """
    low = min(counts)
    high = max(counts)
    text = f"{low}" if low == high else f"{low} to {high}"
    if low < expected:
        text += f" of {expected}"
    plural = "s" if expected > 1 else ""
    return f"{text} {noun}{plural}"


class SweepState(NamedTuple):
    """What the plans of the sweeps of the compared runs say.

    Attributes:
        folders: Folders of the sweeps, absolute.
        unfinished: Folder of the sweep of each job that has not finished.
        num_jobs: Number of all jobs.
        is_selected: Whether planned trainings of the compared rows are left out.
        left_out: The rows that lack planned trainings.
        has_others: Whether runs of other data sets are compared as well.
    """

    folders: Sequence[Path] = ()
    unfinished: Sequence[Path] = ()
    num_jobs: int = 0
    is_selected: bool = False
    left_out: Sequence[LeftOut] = ()
    has_others: bool = False


_MOST_MISMATCHES = 3


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The rows of one data set.

    Attributes:
        data: Name of the data set.
        metric: Primary metric: differences are in this metric, and it carries claims.
        settings: Settings of the comparison, with defaults filled in.
        baseline: Label of the row that the other rows are compared with: the named one, or the best one.
        best: Label of the paired row with the highest mean; None with fewer than two paired rows.
        table: The rows, in the order of the runs, and which of them are paired.
        intervals: Label of a paired row -> 95 % interval of the mean of the primary metric, within the bounds
            of the metric.
        pairs: All pairs, each earlier row minus each later row, with claims over all pairs.
        family: The pairs that are decided together: the pairs with the named baseline, or all pairs.
        declared: Metric -> pairs of the family, for each further metric that carries claims.
        sweeps: What the plans of the sweeps of the runs say; `ltrbench.sweep.ledger` sets it.
        queries: The paired queries; None if no rows can be paired.
        remarks: Facts that a note tells: skipped queries, failed runs, unmatched parameters, and others.
        slices: Slices of the queries to show; the report adds those by the attributes of every data set.
        evidence: What claims in a metric of clicks rest on; None for other metrics.
    """

    data: str
    metric: str
    settings: Settings
    baseline: str
    best: str | None
    table: Table
    intervals: Mapping[str, Interval]
    pairs: tuple[Pair, ...]
    family: tuple[Pair, ...]
    queries: PairedQueries | None
    remarks: tuple[Remark, ...]
    declared: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    sweeps: SweepState = field(default_factory=SweepState)
    slices: Sequence[Slice] = ()
    evidence: Evidence | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes under the table as text."""
        return tuple(map(str, notes_of(self.remarks)))

    @property
    def rows(self) -> tuple[ModelRow, ...]:
        """All rows of the table, those that are not paired as well."""
        return self.table.rows

    @property
    def ranked(self) -> list[ModelRow]:
        """The rows in the order of all tables: the best first; rows without a value last."""
        return sorted(self.rows, key=lambda row: row.rank_by(self.metric))

    @property
    def unpaired(self) -> tuple[ModelRow, ...]:
        """The rows without some test sets, whose means are over other queries."""
        paired = () if self.queries is None else self.queries.labels
        return tuple(row for row in self.rows if row.label not in paired)

    @property
    def claims(self) -> tuple[Pair, ...]:
        """The pairs of the family, for every metric that carries claims."""
        return (
            *self.family,
            *itertools.chain.from_iterable(self.declared.values()),
        )

    def claim(self, label: str, metric: str | None = None) -> Pair | None:
        """Returns a row minus the baseline in a metric that carries claims, without a name the primary one.

        None for the baseline, and for a row that is not paired.

        Raises:
            ConfigError: There is no row with this label.
        """
        self._check_label(label)
        family = self.family
        if metric not in (None, self.metric):
            family = self.declared.get(metric, ())
        return next(
            (pair for pair in against(family, self.baseline) if pair.a == label), None
        )

    def is_order_only(self, metric: str) -> bool:
        """Returns whether only the signs of differences in a metric are claimed."""
        family = self.declared.get(metric, ())
        if metric == self.metric:
            family = self.family
        return any(pair.is_order_only for pair in family)

    def beats_all(self, label: str) -> bool:
        """Returns whether the family claims that a row is better than every other row."""
        others = against(self.family, label)
        if not others or len(others) < len(self.rows) - 1:
            return False
        return all(pair.models.state == WORSE for pair in others)

    def largest_loss(self, label: str) -> float | None:
        """Returns an upper bound of how much a paired row loses to any of the others; None if not available.

        See `ltrbench.statistics.largest_loss`; it is about these trained models, in the primary metric.
        """
        if self.queries is None or label not in self.queries.labels:
            return None
        if any(pair.withheld or pair.is_order_only for pair in self.pairs):
            return None
        if label not in self._losses:
            queries = self.queries.distinct
            settings = self.settings
            self._losses[label] = largest_loss(
                queries,
                self.queries.labels.index(label),
                settings.num_draws,
                settings.seed,
                settings.level_of(self.metric),
            )
        return self._losses[label]

    @cached_property
    def _losses(self) -> dict[str, float | None]:
        """Label -> its largest loss, which every output shows, and whose bootstrap takes seconds."""
        return {}

    @cached_property
    def replicates(self) -> dict[str, str]:
        """Label -> number of trainings, such as "5 seeds" or "3 of 9 seeds"."""
        return replicate_counts(self.rows)

    def __repr__(self) -> str:
        rows = []
        for row in self.rows:
            mean = row.metrics.get(self.metric)
            value = "" if mean is None else f" {mean:.4f}"
            rows.append(f"{row.label}{value}")
        return one_line(
            "Comparison", {"data": self.data, "metric": self.metric, "rows": rows}
        )

    def row(self, label: str) -> ModelRow:
        """Returns the row with a label.

        Raises:
            ConfigError: There is none.
        """
        self._check_label(label)
        return next(row for row in self.rows if row.label == label)

    def _check_label(self, label: str) -> None:
        require_choice("the label of a row", label, [row.label for row in self.rows])


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
    # A run may fail before its data set is known, so that every failure is a remark on the first table.
    failures = [_failure(run) for run in runs if not run.result.is_compared]
    finished = [run for run in runs if run.result.is_compared]
    if not finished:
        errors = "; ".join(str(failure.note) for failure in failures)
        raise ResultError(f"there is no finished run to compare. {errors}")
    finished, repeated = newest_runs(with_common_data(finished))
    tables = runs_by_table(finished)
    mismatched = mismatches(tables)
    if mismatched:
        if not settings.allow_mismatch:
            raise ResultError(_mismatches_in_words(mismatched))
        tables = runs_by_data_set(finished)
    metric = settings.claimed_metrics[0] or default_metric(finished)
    # Without a mismatch training sets are known, which the wider scopes of claims need.
    settings = replace(settings, metric=metric, allow_mismatch=bool(mismatched))
    labels = itertools.chain.from_iterable(map(runs_by_label, tables.values()))
    models = [run.result.model for run in finished]
    check_baseline(settings, [*labels, *models])
    comparisons: list[Comparison] = []
    for name, of_table in tables.items():
        remarks = [*mismatched, *repeated]
        if not comparisons:
            remarks += failures
        comparisons.append(_compare_on(name, of_table, metric, settings, remarks))
    return comparisons


def check_baseline(settings: Settings, names: Iterable[str]) -> None:
    """Checks the baseline of a comparison.

    Args:
        names: Labels of the rows, and names of the models.

    Raises:
        ConfigError: No row or model has the name, or a guard has no baseline.
    """
    if settings.names_baseline:
        require_choice("baseline", settings.baseline, dict.fromkeys(names))
    elif settings.guards and settings.baseline is None:
        raise ConfigError(
            "a guard compares with the ranker in use: name it, as in --baseline native (--baseline best is "
            "the row with the highest mean)."
        )


def _mismatches_in_words(mismatched: Sequence[Remark]) -> str:
    shown = [note.sentence for note in notes_of(mismatched[:_MOST_MISMATCHES])]
    more = len(mismatched) - _MOST_MISMATCHES
    if more > 0:
        shown.append(f"And {more} more.")
    return (
        f"these runs were not made on the same data: {' '.join(shown)} "
        "Compare runs on one data set and split, or add --allow-mismatch to compare them anyway, with a "
        "note under the table."
    )


def _compare_on(
    name_of_table: str,
    runs: Sequence[Run],
    metric: str,
    settings: Settings,
    first_remarks: Sequence[Remark],
) -> Comparison:
    table = Table.of(_evaluated_rows(runs, settings), settings.selected)
    queries = pair_in_group(table.paired, metric, settings)
    # The row with the highest mean, the first one in case of ties.
    best = None
    if queries is not None and len(queries.labels) > 1:
        best = queries.labels[int(np.argmax(queries.sample.means))]
    base, absent = _baseline_of(
        runs_by_label(runs), settings, best, table.paired or table.rows
    )
    if absent:
        settings = replace(settings, baseline=None, guards=())
    evidence = Evidence.of(table.paired, metric, settings.convention)
    pairs: tuple[Pair, ...] = ()
    family: tuple[Pair, ...] = ()
    if queries is not None:
        pairs = _pairs_with(evidence, queries, metric, settings)
        family = _family(pairs, queries, base, settings)
    remarks = [*first_remarks]
    remarks += unknown_metrics([run.result for run in runs])
    remarks += [*absent, *table.remarks]
    remarks += warnings(table.rows, metric, settings.convention)
    if evidence:
        remarks += evidence.remarks()
    return Comparison(
        data=name_of_table,
        metric=metric,
        settings=settings,
        baseline=base,
        best=best,
        table=table,
        intervals=_intervals(queries, metric),
        pairs=pairs,
        family=family,
        queries=queries,
        remarks=tuple(remarks),
        declared=_declared(table, metric, base, settings),
        evidence=evidence,
    )


def _declared(
    table: Table, metric: str, base: str, settings: Settings
) -> dict[str, tuple[Pair, ...]]:
    """Returns metric -> pairs of the family, for each metric that carries claims besides the primary one."""
    declared = {}
    for name in settings.claimed_metrics:
        if name is None or name == metric:
            continue
        queries = pair_in_group(table.paired, name, settings)
        if queries is not None:
            measured = settings.guard_of(name).metric
            evidence = Evidence.of(table.paired, measured, settings.convention)
            pairs = _pairs_with(evidence, queries, name, settings)
            declared[name] = _family(pairs, queries, base, settings)
    return declared


def _pairs_with(
    evidence: Evidence | None, queries: PairedQueries, metric: str, settings: Settings
) -> tuple[Pair, ...]:
    """Returns all pairs, with no more claims than the evidence of a metric of clicks allows."""
    pairs = all_pairs(queries, metric, settings)
    if evidence is None:
        return pairs
    reasons = evidence.against_claims()
    marked = []
    for pair in pairs:
        withheld = reasons.get(pair.a) or reasons.get(pair.b) or ""
        is_order_only = evidence.is_order_only
        marked.append(replace(pair, withheld=withheld, is_order_only=is_order_only))
    return decided(marked, queries, settings)


def _evaluated_rows(runs: Sequence[Run], settings: Settings) -> list[ModelRow]:
    """Returns the rows of a table, with the claimed metrics and all that the runs report."""
    claimed = [name for name in settings.claimed_metrics if name is not None]
    evaluated = dict.fromkeys(settings.guard_of(name).metric for name in claimed)
    reported = dict.fromkeys(itertools.chain.from_iterable(map(reported_metrics, runs)))
    others = [name for name in reported if name not in evaluated]

    def cell_of_run(run: Run) -> DataCell:
        if settings.allow_mismatch:
            return cell_of(run).of_test
        return cell_of(run)

    rows = runs_by_label(runs)
    return evaluate_rows(rows, [*evaluated], others, settings.convention, cell_of_run)


def pair_in_group(
    rows: Sequence[ModelRow], claimed: str, settings: Settings
) -> PairedQueries | None:
    """Returns the paired queries of a claimed metric, in the group of its guard; None if no query counts."""
    guard = settings.guard_of(claimed)
    queries = pair_queries(rows, guard.metric)
    if queries is None or not guard.group:
        return queries
    convention = settings.convention.of(parse_metric(guard.metric)[0])
    return pair_queries(
        rows, guard.metric, group_of_queries(queries, guard.group, convention)
    )


def with_level(
    comparison: Comparison,
    withheld: Mapping[str, str],
    level: float,
    remarks: Sequence[Remark] = (),
) -> Comparison:
    """Returns the comparison with all claims decided again at a level, and with further remarks.

    Args:
        withheld: Label of a row -> why its pairs carry no claim.
        level: As `Settings.level`.
    """
    settings = replace(comparison.settings, level=level)
    queries = comparison.queries

    def again(
        family: Sequence[Pair], queries: PairedQueries | None
    ) -> tuple[Pair, ...]:
        if queries is None:
            return ()
        marked = []
        for pair in family:
            of_rows = withheld.get(pair.a) or withheld.get(pair.b)
            reason = of_rows or pair.withheld
            marked.append(replace(pair, withheld=reason))
        return decided(marked, queries, settings)

    pairs = again(comparison.pairs, queries)
    family: tuple[Pair, ...] = ()
    if queries is not None:
        family = _family(pairs, queries, comparison.baseline, settings)
    declared = {}
    for name, of_metric in comparison.declared.items():
        queries_of_metric = pair_in_group(comparison.table.paired, name, settings)
        declared[name] = again(of_metric, queries_of_metric)
    return replace(
        comparison,
        settings=settings,
        pairs=pairs,
        family=family,
        declared=declared,
        remarks=(*remarks, *comparison.remarks),
    )


def _intervals(queries: PairedQueries | None, metric: str) -> dict[str, Interval]:
    """Returns label -> interval of the mean of a row, without values that the metric cannot have."""
    if queries is None:
        return {}
    of_rows = system_intervals(queries.distinct)
    bounds = bounds_of(metric)
    intervals = {}
    for label, interval in zip(queries.labels, of_rows, strict=True):
        if interval is not None:
            intervals[label] = interval if bounds is None else interval.within(*bounds)
    return intervals


def _family(
    pairs: Sequence[Pair], queries: PairedQueries, base: str, settings: Settings
) -> tuple[Pair, ...]:
    """Returns the pairs that are decided together.

    With a named baseline, these are its pairs, decided among themselves. Otherwise these are all pairs: the
    best row was chosen by the same numbers.
    """
    if not settings.names_baseline:
        return tuple(pairs)
    return decided(against(pairs, base), queries, settings)


def _baseline_of(
    rows: Mapping[str, Sequence[Run]],
    settings: Settings,
    best: str | None,
    paired: Sequence[ModelRow],
) -> tuple[str, list[Remark]]:
    """Returns the label of the baseline, and a remark if the first paired row replaces it."""
    baseline = settings.baseline
    has_guards = bool(settings.guards)
    matching = [label for label in rows if label == baseline]
    if not matching:
        matching = [
            label for label, runs in rows.items() if runs[0].result.model == baseline
        ]
    if len(matching) > 1:
        raise ConfigError(
            f"baseline '{baseline}' matches {len(matching)} rows; name one: {', '.join(matching)}."
        )
    is_named = baseline not in (None, BEST)
    wanted = next(iter(rows))
    if matching:
        wanted = matching[0]
    elif best is not None and not is_named:
        wanted = best
    if all(row.label != wanted for row in paired):
        first = paired[0].label
        return first, [
            Remark.of(
                Kind.INCOMPLETE_BASELINE,
                baseline=wanted,
                first=first,
                has_guards=has_guards,
            )
        ]
    if is_named and not matching:
        absent = Remark.of(
            Kind.ABSENT_BASELINE,
            baseline=baseline,
            first=wanted,
            has_guards=has_guards,
        )
        return wanted, [absent]
    return wanted, []


def only(comparisons: Sequence[Comparison]) -> Comparison:
    """Returns the comparison of the only data set.

    Raises:
        ResultError: There are several data sets.
    """
    if len(comparisons) != 1:
        names = ", ".join(comparison.data for comparison in comparisons)
        raise ResultError(
            f"the runs are on several data sets ({names}); name the folder of one, or in final one of them "
            "with --table."
        )
    return comparisons[0]


@dataclass(frozen=True)
class Choice:
    """The run to use, chosen by validation only.

    Attributes:
        row: Row with the highest mean of the metric on validation.
        run: Best run of the row.
        reason: The model and the reason of the choice, such as "lightgbm: best validation ndcg@10, 0.7188".
        metrics: Means over the runs of the row: "test/ndcg@10" and others, and the metric on validation.
    """

    row: ModelRow
    run: Run
    reason: str
    metrics: Mapping[str, float]


def best_by_validation(
    comparison: Comparison, rows: Sequence[ModelRow] | None = None
) -> Choice | None:
    """Returns the best run of the row with the highest mean of the metric on validation.

    Test scores are not used. None if no row has a validation set.

    Args:
        rows: The rows to choose from; None for all of them.
    """
    if rows is None:
        rows = comparison.rows
    metric = comparison.metric
    validated = values_on_validation(rows, metric, comparison.settings.convention)
    if not validated:
        return None
    best = best_on_validation(rows, validated)
    row = comparison.row(best)
    mean = mean_on_validation(row, validated[best])
    number = max(validated[best], key=validated[best].__getitem__)
    run = row.runs[number]
    superlative = "best " if len(validated) > 1 else ""
    reason = f"{best}: {superlative}validation {metric}, {mean:.4f}"
    if len(row.runs) > 1:
        value = f"{validated[best][number]:.4f}"
        reason += f", the mean of {len(row.runs)} runs; the best run is {_training_in_words(run)}, {value}"
    if len(validated) > 1:
        reason += _leak_by_choice(rows)
    reason += _not_chosen(rows, row)
    metrics = _known_on_test(row)
    metrics[f"valid/{metric}"] = mean
    return Choice(row=row, run=run, reason=reason, metrics=metrics)


def _leak_by_choice(rows: Sequence[ModelRow]) -> str:
    """Returns the folds whose validation queries are test queries of others, as the end of a sentence."""
    evaluated = itertools.chain.from_iterable(row.evaluated for row in rows)
    leaking = seen_by_choice(list(evaluated))
    return f"; {leak_in_words(leaking)}" if leaking else ""


def _not_chosen(rows: Sequence[ModelRow], best: ModelRow) -> str:
    """Returns which rows lack folds of the best one, as the end of a sentence."""
    num_folds = len(best.cells)
    lacking = [row.label for row in rows if len(row.cells) < num_folds]
    if not lacking:
        return ""
    return f"; {listed(lacking)} cannot be chosen without the missing folds"


def _known_on_test(row: ModelRow) -> dict[str, float]:
    metrics = {}
    for name, value in row.metrics.items():
        if value is not None:
            metrics[f"test/{name}"] = value
    return metrics


def _training_in_words(run: Run) -> str:
    """Returns text such as "fold=1 split_seed=7 seed=0"."""
    fold, split_seed = fold_of(run)
    words = []
    if fold is not None:
        words.append(f"fold={fold}")
    if split_seed is not None:
        words.append(f"split_seed={split_seed}")
    words.append(f"seed={run.result.seed}")
    return " ".join(words)


def _failure(run: Run) -> Remark:
    if isinstance(run.result.origin, Final) and run.result.status == FINISHED:
        return Remark.of(Kind.FINAL_MODEL, folder=str(run.path))
    # The first line is the message; a traceback may follow.
    message, _, _ = (run.result.error or "unknown").partition("\n")
    return Remark.of(
        Kind.FAILED_RUN,
        model=run.result.model,
        folder=str(run.path),
        error=message,
    )
