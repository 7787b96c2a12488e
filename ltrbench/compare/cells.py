"""Evaluated rows and paired queries: every value is computed from the stored raw scores.

`evaluate_rows` evaluates the runs of each row on test under the convention of the comparison; metrics that a
run reported are not used. `EvaluatedRow` holds the runs of one row by cell, `arrange` selects the rows that
can be paired, and `pair_queries` returns their values query by query. Values of one row in one cell are
averaged, so that each query counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.grouping import (
    ON_DATA,
    DataCell,
    Note,
    Replicate,
    cell_of,
    describe_cells,
    first_by,
    grouped,
    is_per_fold,
    replicate_of,
    resample_of,
)
from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import Convention, Evaluation, evaluate, parse_metric
from ltrbench.metrics.evaluation import check_defined
from ltrbench.runs import NO_PARAMETERS, Run, ScoredSplit, naming
from ltrbench.shapes import PerQuery
from ltrbench.statistics import PairedSample
from ltrbench.tables import listed

# ---- Queries in several sets: found by their keys, and counted once.
#
# A query is identified by its key (`ltrbench.data.dataset`). All functions take arrays of keys, not runs.


@dataclass(frozen=True)
class Shared:
    """Number of repeated queries.

    Attributes:
        num_queries: Number of queries in all sets, with repetitions.
        num_distinct: Number of distinct queries in all sets.
        in_several: Number of distinct queries that are in more than one set.
    """

    num_queries: int
    num_distinct: int
    in_several: int


def shared(keys_of_set: Sequence[QueryKeys]) -> Shared:
    """Counts the queries of one or more sets, and those that are in several sets."""
    of_set = [np.unique(keys) for keys in keys_of_set]
    _, counts = np.unique(np.concatenate(of_set), return_counts=True)
    return Shared(sum(map(len, keys_of_set)), len(counts), int((counts > 1).sum()))


def clustered(sample: PairedSample, keys: QueryKeys) -> PairedSample:
    """Returns the sample with each distinct query once; the sample itself if no query repeats.

    The weight of a query is the sum of its weights, and its value is the weighted mean of its values, so that
    the means of the sample do not change. If a query is in several strata, the result has one stratum.

    Args:
        keys: (Q,), keys of the queries of the sample.
    """
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(firsts) == len(keys):
        return sample
    order = np.argsort(firsts)
    number = np.argsort(order)[inverse]
    firsts = firsts[order]
    weights = np.bincount(number, sample.weights)
    sums = np.array([np.bincount(number, row * sample.weights) for row in sample.values], dtype=np.float64)
    strata = sample.strata[firsts]
    if (strata[number] != sample.strata).any():
        strata = np.zeros_like(strata)
    return PairedSample(sums / weights, weights.astype(np.float64), strata)


def sharing(ours: Sequence[QueryKeys], theirs: Sequence[QueryKeys]) -> NDArray[np.int64]:
    """Returns the number of distinct queries that each two sets share, (len(ours), len(theirs))."""
    of_ours, of_theirs = ([set(keys.tolist()) for keys in sets] for sets in (ours, theirs))
    return np.array([[len(a & b) for b in of_theirs] for a in of_ours], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """A run with the evaluation of its raw scores on test.

    Attributes:
        judgments: Judgments of the test set; one object for all runs of a cell.
        scores: (D,), in the dtype of the backend.
        query_keys: (Q,), as stored by the run.
    """

    run: Run
    cell: DataCell
    judgments: Judgments
    scores: NDArray[np.floating[Any]]
    evaluation: Evaluation
    query_keys: QueryKeys

    @property
    def replicate(self) -> Replicate:
        return replicate_of(self.run)


@dataclass(frozen=True, eq=False)
class EvaluatedRow:
    """The evaluated runs of one row of a table.

    Attributes:
        evaluated: In the order of the runs.
    """

    label: str
    evaluated: tuple[EvaluatedRun, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(item.run for item in self.evaluated)

    @property
    def model(self) -> str:
        return self.evaluated[0].run.result.model

    @property
    def is_tuned(self) -> bool:
        """Whether a search chose the settings."""
        return bool(self.evaluated[0].run.result.search)

    @cached_property
    def cells(self) -> dict[DataCell, list[EvaluatedRun]]:
        """Cell -> its runs, which differ only in the seed or the resample."""
        return grouped(self.evaluated, lambda item: item.cell)

    @cached_property
    def seeds_change_nothing(self) -> bool:
        """Whether the row has several seeds on one training set, and all of them gave the same scores.

        Searches with several seeds can choose one setting by chance, which does not show that seeds have no
        effect.
        """
        if any(len(_search_seeds(items)) > 1 for items in self.cells.values()):
            return False
        repeated = [runs for items in self.cells.values() for runs in _by_resample(items).values()]
        return any(len(runs) > 1 for runs in repeated) and all(map(_have_same_scores, repeated))

    def mean(self, metric: str) -> float | None:
        """Returns the mean over cells of the mean over runs; None if no query counts in any cell."""
        means = [fmean(item.evaluation.means[metric] for item in items) for items in self.cells.values()]
        known = [mean for mean in means if not isnan(mean)]
        return fmean(known) if known else None

    def within(self, cells: Collection[DataCell]) -> EvaluatedRow:
        """Returns the row with only the runs in these cells."""
        return replace(self, evaluated=tuple(item for item in self.evaluated if item.cell in cells))

    def under(self, convention: Convention, metrics: Sequence[str]) -> EvaluatedRow:
        """Returns the row evaluated by other metrics or under another convention.

        Raises:
            UndefinedMetricError, DataError: The convention does not define a metric on these data.
        """
        evaluated = tuple(
            replace(item, evaluation=evaluate(item.judgments, item.scores, metrics, convention))
            for item in self.evaluated
        )
        return replace(self, evaluated=evaluated)


@dataclass(frozen=True, eq=False)
class Trainings:
    """The distinct trainings of one row in one cell.

    Attributes:
        values: (R, Q), for the queries of the cell that count, in the units of `PairedQueries.sample`.
        keys: (R,), seed of each training; with resampled training sets, number of the resample.
        resample: Kind of resampling, without the number of the resample; None without resampling.
        is_constant: Whether several seeds gave the same scores, which count as one training.
        ranker_class: Class of the trained ranker.
        seconds: Mean wall time of a run with one training, and of its search if each training has another
            one; 0 if not available. It is for estimates, to which runs that shared the machine contribute.
        search_seeds: Seeds of the searches that chose the settings; empty for an untuned row.
    """

    values: NDArray[np.float64]
    keys: tuple[int, ...]
    resample: Mapping[str, Any] | None
    is_constant: bool
    ranker_class: str
    seconds: float
    search_seeds: frozenset[int]

    def values_of(self, keys: Iterable[int]) -> NDArray[np.float64]:
        """Returns the values of the trainings with these keys, (len(keys), Q)."""
        return self.values[[self.keys.index(key) for key in keys]]


@dataclass(frozen=True, eq=False)
class PairedQueries:
    """The queries that count for all rows, with the values of each row.

    Attributes:
        labels: (M,), labels of the rows.
        sample: Values (M, Q), means over trainings, with the weights of the queries under the convention; its
            means are the means of the rows (see `Weighting.rescaled`).
        cells: Cells in which the rows were evaluated.
        cell_of_query: (Q,), index into `cells`.
        query_in_cell: (Q,), index into the queries of the cell's judgments.
        judgments: One for each of `cells`.
        test_share: n_test / n_train in queries, mean over the cells; None if not available.
        trainings: For each of `labels`, one for each of `cells`.
        query_keys: (Q,), keys that identify a query across cells.
    """

    labels: tuple[str, ...]
    sample: PairedSample
    cells: tuple[DataCell, ...]
    cell_of_query: NDArray[np.int64]
    query_in_cell: NDArray[np.int64]
    judgments: tuple[Judgments, ...]
    test_share: float | None
    trainings: tuple[tuple[Trainings, ...], ...]
    query_keys: QueryKeys

    @cached_property
    def distinct(self) -> PairedSample:
        """The sample with each query once, however many cells it is in."""
        return clustered(self.sample, self.query_keys)

    @cached_property
    def num_distinct(self) -> int:
        """Number of distinct queries, over all cells."""
        return len(set(self.query_keys.tolist()))

    @cached_property
    def counting_cells(self) -> dict[int, NDArray[np.bool_]]:
        """Index of a cell -> (Q,), whether a query is in it; only cells in which a query counts."""
        return {int(number): self.cell_of_query == number for number in np.unique(self.cell_of_query)}

    @cached_property
    def repeats_queries(self) -> bool:
        """Whether a query is in two cells."""
        return shared([self.query_keys[inside] for inside in self.counting_cells.values()]).in_several > 0

    def of_query(self, values_of_cell: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns (Q,) values, given one array per cell with a value for each query of its judgments."""
        picked: NDArray[Any] = np.concatenate(
            [
                values_of_cell[number][self.query_in_cell[inside]]
                for number, inside in self.counting_cells.items()
            ]
        )
        return picked


def evaluate_rows(
    rows: Mapping[str, Sequence[Run]],
    claimed: Sequence[str],
    others: Sequence[str],
    convention: Convention,
    cell_of_run: Callable[[Run], DataCell],
) -> list[EvaluatedRow]:
    """Evaluates the runs of each row on test.

    Args:
        claimed: Metrics that carry claims.
        others: Further metrics; those that the convention does not define on these data are left out.
        cell_of_run: `cell_of`, or `test_cell_of`.

    Raises:
        UndefinedMetricError: The convention does not define a metric that carries claims.
    """
    # The labels of a cell are read once, from its first run.
    first: dict[DataCell, tuple[Run, Judgments]] = {}
    scored_runs: dict[str, list[tuple[Run, ScoredSplit]]] = {label: [] for label in rows}
    for label, runs in rows.items():
        for run in runs:
            cell = cell_of_run(run)
            scored = run.scored("test", first[cell][1] if cell in first else None)
            first.setdefault(cell, (run, scored.judgments))
            scored_runs[label].append((run, scored))
    defined = [*claimed, *(name for name in others if _is_defined(name, convention, first.values()))]

    def evaluated(run: Run, scored: ScoredSplit) -> EvaluatedRun:
        cell = cell_of_run(run)
        reader, judgments = first[cell]
        with naming(reader):
            evaluation = evaluate(judgments, scored.scores, defined, convention)
        return EvaluatedRun(run, cell, judgments, scored.scores, evaluation, scored.query_keys)

    return [
        EvaluatedRow(label, tuple(evaluated(run, scored) for run, scored in items))
        for label, items in scored_runs.items()
    ]


def _is_defined(name: str, convention: Convention, readers: Iterable[tuple[Run, Judgments]]) -> bool:
    metric, k = parse_metric(name)
    try:
        for run, judgments in readers:
            with naming(run):
                check_defined(metric, k, convention.of(metric), judgments)
    except UndefinedMetricError:
        return False
    return True


def first_of_cells(evaluated: Iterable[EvaluatedRun]) -> dict[DataCell, EvaluatedRun]:
    """Returns cell -> its first run."""
    return first_by(evaluated, lambda item: item.cell)


def _by_resample(items: Sequence[EvaluatedRun]) -> dict[int | None, list[EvaluatedRun]]:
    """Returns resample -> its runs, given the runs of one cell; in the order of the resamples."""
    resamples = grouped(items, lambda item: item.replicate.resample)
    return dict(sorted(resamples.items(), key=lambda resample: resample[0] or 0))


def _have_same_scores(items: Sequence[EvaluatedRun]) -> bool:
    return all(np.array_equal(items[0].scores, item.scores) for item in items[1:])


def _search_seeds(items: Sequence[EvaluatedRun]) -> frozenset[int]:
    """Returns the seeds of the searches that chose the settings of runs; empty for untuned runs."""
    searches = [item.run.result.search for item in items if item.run.result.search]
    return frozenset(int(search.get("seed", 0)) for search in searches)


def _trainings(row: EvaluatedRow, cell: DataCell, metric: str) -> Trainings:
    """Returns the trainings of one row in one cell; values are NaN for queries that do not count."""
    items = row.cells[cell]
    first = items[0].run
    search_seeds = _search_seeds(items)
    resample = resample_of(first)
    # As in `EvaluatedRow.seeds_change_nothing`.
    may_be_constant = resample is None and len(items) > 1 and len(search_seeds) < 2
    is_constant = may_be_constant and _have_same_scores(items)
    if resample is not None:
        # Seeds of one resample are averaged, because a replicate is a training set.
        by_key = {int(number or 0): runs for number, runs in _by_resample(items).items()}
    else:
        by_seed = sorted(items, key=lambda item: item.run.result.seed)
        by_key = {item.run.result.seed: [item] for item in (by_seed[:1] if is_constant else by_seed)}
    values = [np.mean([run.evaluation.per_query[metric] for run in runs], axis=0) for runs in by_key.values()]
    return Trainings(
        values=np.stack(values),
        keys=tuple(by_key),
        resample=resample,
        is_constant=is_constant,
        ranker_class=str(first.result.ranker.get("class", first.result.model)),
        seconds=fmean(
            sum(_seconds(run.run, search_seeds, len(row.cells)) for run in runs) for runs in by_key.values()
        ),
        search_seeds=search_seeds,
    )


def _seconds(run: Run, search_seeds: Collection[int], num_cells: int) -> float:
    """Returns the time of a run, with its part of its search if a further training needs another search."""
    search = run.result.search if len(search_seeds) > 1 else {}
    shared_by = 1 if is_per_fold(run) else num_cells
    return run.result.total_seconds + float(search.get("seconds", 0.0)) / shared_by


class Arranged(NamedTuple):
    """The rows of a table, and which of them can be paired.

    Attributes:
        counted: All rows, with the runs in the cells that count.
        paired: The rows in paired tests; the other rows lack a cell.
        notes: What is left out.
    """

    counted: list[EvaluatedRow]
    paired: list[EvaluatedRow]
    notes: list[Note]


def arrange(rows: list[EvaluatedRow]) -> Arranged:
    """Excludes each row that lacks a cell from paired tests.

    If fewer than two rows have every cell, only the cells that all rows have are counted, if there are any.
    """
    everywhere = set[DataCell]().union(*(row.cells for row in rows))
    common = everywhere.intersection(*(row.cells for row in rows))
    whole = [row for row in rows if row.cells.keys() == everywhere]
    sentences = list(_missing_replicates(rows))
    lacking = {
        row.label: describe_cells(sorted(everywhere - row.cells.keys(), key=str))
        for row in rows
        if row not in whole
    }
    counted, paired = rows, whole
    consequence = "it is left out of paired tests, and its means are over its other test sets"
    if len(whole) < 2 and lacking:
        counted = paired = [row.within(common) for row in rows] if common else []
        consequence = f"only the {len(common)} of {len(everywhere)} test sets that every row has are counted"
    if not common and len(whole) < 2:
        counted = rows
        sentences.append("The rows have no common test set: each mean is over its own test sets.")
    else:
        sentences += [f"{label} has no run on {cells}: {consequence}." for label, cells in lacking.items()]
    notes = [Note(ON_DATA, "missing runs", sentence) for sentence in sentences]
    return Arranged(counted, paired, notes)


def _missing_replicates(rows: Sequence[EvaluatedRow]) -> Iterator[str]:
    """Yields a sentence for each row and cell without a replicate that the row has in another cell, and for
    each row without a resample that another row has."""
    resamples = {row.label: {item.replicate.resample for item in row.evaluated} - {None} for row in rows}
    every_resample = set[int | None]().union(*resamples.values())
    for row in rows:
        replicates = {cell: {item.replicate for item in items} for cell, items in row.cells.items()}
        every = set[Replicate]().union(*replicates.values())
        for cell, present in replicates.items():
            if present != every:
                absent = ", ".join(map(str, sorted(every - present)))
                yield (
                    f"{row.label} has no run with {absent} on {describe_cells([cell])}: its mean there is "
                    "over the other runs."
                )
        if resamples[row.label] and resamples[row.label] != every_resample:
            absent = listed(sorted(map(str, every_resample - resamples[row.label])))
            yield (
                f"{row.label} was not trained on resamples {absent} of the training queries: its "
                "differences, intervals and claims use the resamples that both rows have."
            )


class _CellQueries(NamedTuple):
    """The queries of one cell that count for all rows.

    Attributes:
        first: First run of the first row in the cell.
        numbers: Indices of the queries in the judgments of the cell.
        trainings: One for each row, with the values of these queries.
    """

    first: EvaluatedRun
    numbers: NDArray[np.int64]
    weights: PerQuery
    trainings: list[Trainings]


def pair_queries(rows: Sequence[EvaluatedRow], metric: str) -> PairedQueries | None:
    """Returns the values of the rows query by query, over all cells; None if no query counts."""
    cells = [_queries_of_cell(rows, cell, metric) for cell in rows[0].cells] if rows else []
    sizes = [len(cell.numbers) for cell in cells]
    if not sum(sizes):
        return None
    trainings = tuple(zip(*(cell.trainings for cell in cells), strict=True))
    means = [np.concatenate([training.values.mean(axis=0) for training in of_row]) for of_row in trainings]
    weights = np.concatenate([cell.weights for cell in cells])
    cell_of_query = np.repeat(np.arange(len(cells)), sizes)
    return PairedQueries(
        labels=tuple(row.label for row in rows),
        sample=PairedSample.of(np.stack(means), weights, cell_of_query),
        cells=tuple(cell.first.cell for cell in cells),
        cell_of_query=cell_of_query,
        query_in_cell=np.concatenate([cell.numbers for cell in cells]),
        judgments=tuple(cell.first.judgments for cell in cells),
        test_share=_test_share([cell.first.run for cell in cells]),
        trainings=trainings,
        query_keys=np.concatenate([cell.first.query_keys[cell.numbers] for cell in cells]),
    )


def _queries_of_cell(rows: Sequence[EvaluatedRow], cell: DataCell, metric: str) -> _CellQueries:
    first = rows[0].cells[cell][0]
    weighting = first.evaluation.weightings[metric]
    trainings = [_trainings(row, cell, metric) for row in rows]
    values = np.concatenate([training.values for training in trainings])
    numbers = np.flatnonzero(~np.isnan(values).any(axis=0))
    counting = [
        replace(training, values=weighting.rescaled(training.values)[:, numbers]) for training in trainings
    ]
    return _CellQueries(first, numbers, weighting.weights[numbers], counting)


def _test_share(runs: Sequence[Run]) -> float | None:
    sizes = []
    for run in runs:
        data = run.result.data
        # The size of the whole training set counts, not the size of its resample.
        train = data.get("resample", data.get("train", {}))
        sizes.append((data.get("test", {}).get("queries"), train.get("queries")))
    if not all(all(pair) for pair in sizes):
        return None
    return fmean(test / train for test, train in sizes)


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

    @property
    def describe_trials(self) -> str:
        """Number of trials of a search, such as "16", or "16 to 32" if searches differ."""
        low, high = self.trials
        return f"{low}" if low == high else f"{low} to {high}"


def distinct_searches(runs: Iterable[Run]) -> list[Mapping[str, Any]]:
    """Returns the records of the searches that chose the settings of runs, each once.

    Folds can share a search, and several training seeds as well.
    """
    tuned = [run for run in runs if run.result.search]
    return [run.result.search for run in first_by(tuned, identity_of_search).values()]


def identity_of_search(run: Run) -> tuple[object, ...]:
    """Returns what identifies the search of a run among the runs of a row."""
    search, cell = run.result.search, cell_of(run)
    place = cell if is_per_fold(run) else cell.data
    return place, replicate_of(run).resample, search.get("seed")


def search_totals(row: EvaluatedRow) -> SearchTotals | None:
    """Returns the searches of a row; None if it was not tuned."""
    searches = distinct_searches(row.runs)
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


def search_notes(rows: Sequence[EvaluatedRow]) -> Iterator[str]:
    """Yields the sizes of the searches, and sentences on models that were tuned less than others."""
    totals = {row.label: search for row in rows if (search := search_totals(row)) is not None}
    for (name, choose, metric), labels in grouped(
        totals, lambda label: (totals[label].name, totals[label].choose, totals[label].metric)
    ).items():
        sizes = "; ".join(f"{label} ({_size(totals[label])})" for label in labels)
        yield f"Search {name}, {choose.replace('_', ' ')}, by {metric} on validation: {sizes}."
    tuned = [row for row in rows if row.label in totals]
    models = {row.model for row in tuned}
    budgets: dict[str, set[Any]] = {
        "trials": {search.trials for search in totals.values()},
        "settings varied, or their ranges": {
            tuple(sorted(search.space.items())) for search in totals.values()
        },
    }
    differences = [name for name, values in budgets.items() if len(values) > 1]
    if differences and len(models) > 1:
        yield (
            f"Tuning budgets differ in {'; in '.join(differences)}. A model with more of them has an "
            "advantage: repeat the searches with the same search.trials and search.space."
        )
    untuned = [row.model for row in rows if row.model not in models and _has_parameters(row)]
    if tuned and untuned:
        example = totals[tuned[0].label]
        yield (
            f"Tuned: {listed(sorted(models))}; not tuned: {listed(list(dict.fromkeys(untuned)))}, a "
            f"disadvantage. Tune all by the same search (search={example.name} "
            f"search.trials={example.trials[1]}), or none (search=none)."
        )


def _size(search: SearchTotals) -> str:
    """Returns text such as "settings: 6, searches: 5, trials: 16, iterations: 18,204, fits: 61 s"."""
    failed = f" ({search.failed} failed)" if search.failed else ""
    return (
        f"settings: {len(search.space)}, searches: {search.searches}, trials: "
        f"{search.describe_trials}{failed}, iterations: {search.iterations:,}, fits: "
        f"{search.seconds:,.{int(search.seconds < 10)}f} s"
    )


def _has_parameters(row: EvaluatedRow) -> bool:
    """Returns whether a row was trained here and has parameters; yardsticks have none."""
    first = row.runs[0].result
    return bool(first.seconds) and first.params != NO_PARAMETERS
