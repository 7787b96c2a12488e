"""The table of a comparison: rows of cells of runs, with their scores on test and their common queries.

`evaluate_rows` evaluates the runs of each row on test under the convention of the comparison; metrics that a
run reported are not used. `Table.of` selects the rows that can be paired, and `pair_queries` returns their
values query by query. Values of one row in one cell are averaged, so that each query counts once.

    Table            rows, with those in paired tests; it belongs to no metric
    ModelRow         a row: its runs, and means over them
    EvaluatedRun     a run in a cell: scores, judgments and their evaluation under the convention
    PairedQueries    values of the paired rows on each query (M, Q); one for each claimed metric
    Trainings        the part of them of one row in one cell, by training (R, Q): R differs between rows
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import isnan
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import (
    DataCell,
    Source,
    describe_cells,
    grouped,
    is_per_fold,
    replicate_of,
    resample_of,
)
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys
from ltrbench.data.sources import FORWARD
from ltrbench.errors import UndefinedMetricError
from ltrbench.measure import available_cores
from ltrbench.metrics import (
    Convention,
    Evaluation,
    evaluate,
    parse_metric,
)
from ltrbench.metrics.evaluation import check_defined
from ltrbench.metrics.functions import are_built_in, check_scored, is_of_clicks
from ltrbench.runs.origin import Copied, Ensemble, Variant
from ltrbench.runs.record import MODEL_FOLDER, Run, RunResult, ScoredSplit, naming
from ltrbench.shapes import PerQuery
from ltrbench.statistics import PairedSample
from ltrbench.statistics.claims import Varied

_BYTES_IN_MB = 1e6

# ---- Queries in several sets: found by their keys, and counted once.
#
# A query is identified by its key (`ltrbench.data.dataset`). All functions take arrays of keys, not runs.


def times_in_sets(keys_of_set: Sequence[QueryKeys]) -> NDArray[np.int64]:
    """Returns the number of sets that contain it, for each distinct query of one or more sets."""
    distinct = [np.unique(keys) for keys in keys_of_set]
    _, times = np.unique(np.concatenate(distinct), return_counts=True)
    return times


def reasons_against_folds(keys_of_cell: Mapping[DataCell, QueryKeys]) -> list[str]:
    """Returns why test sets are not the folds of a cross-validation, repeated or not; empty if they are."""
    known = [cell.train for cell in keys_of_cell if cell.train is not None]
    repeats = grouped(keys_of_cell, lambda cell: cell.repeat).values()
    keys_of_repeats = [[keys_of_cell[cell] for cell in cells] for cells in repeats]
    common = 0
    for keys in keys_of_repeats:
        common += int((times_in_sets(keys) > 1).sum())
    first, *others = map(np.concatenate, keys_of_repeats)
    reasons = []
    if len(set(known)) < len(known):
        reasons.append("Folds have the same training set")
    if common:
        reasons.append(f"The test sets of folds have {common:,} queries in common")
    if not all(np.isin(first, keys).any() for keys in others):
        reasons.append("Repeats of the cross-validation have no query in common")
    return reasons


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
    weighted = sample.values * sample.weights
    sums = np.array([np.bincount(number, row) for row in weighted], dtype=np.float64)
    strata = sample.strata[firsts]
    if (strata[number] != sample.strata).any():
        strata = np.zeros_like(strata)
    return PairedSample(
        sums / weights, weights.astype(np.float64), strata, sample.are_clusters
    )


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

    def weight_of_cell(self, metric: str) -> float:
        """Returns the weight of the test set in a mean over test sets: 1, or the number of its lists."""
        if not _is_over_lists(self.judgments, metric):
            return 1.0
        is_counted = ~np.isnan(self.evaluation.per_query[metric])
        weights = self.evaluation.weightings[metric].weights
        return float(weights[is_counted].sum())


def _is_over_lists(judgments: Judgments, metric: str) -> bool:
    """Returns whether a mean is over the lists of a log of clicks, whatever fold they are in."""
    return judgments.impressions is not None and is_of_clicks(metric)


@dataclass(frozen=True, eq=False)
class ModelRow:
    """One model with one set of settings on one data set: the runs that count, evaluated.

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
    def source(self) -> Source:
        """The model, and whether it is imported: what the settings of a row are settings of."""
        return Source.of(self.evaluated[0].run)

    @property
    def is_yardstick(self) -> bool:
        """Whether its model is a yardstick, such as a random ranker."""
        return self.evaluated[0].run.result.is_yardstick

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
        of_cells = list(self.cells.values())
        if any(len(_search_seeds(items)) > 1 for items in of_cells):
            return False
        training_sets = list(
            itertools.chain.from_iterable(
                _by_resample(items).values() for items in of_cells
            )
        )
        has_several_seeds = any(len(runs) > 1 for runs in training_sets)
        return has_several_seeds and all(map(_have_same_scores, training_sets))

    def within(self, cells: Collection[DataCell]) -> ModelRow:
        """Returns the row with its runs in these cells only."""
        kept = [item for item in self.evaluated if item.cell in cells]
        return ModelRow(self.label, tuple(kept))

    def rank_by(self, metric: str) -> float:
        """Returns a key that sorts rows by the mean of a metric, the highest first, rows without one last."""
        value = self.metrics[metric]
        if value is None:
            return math.inf
        return -value

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Name -> mean over cells of the mean over queries; None if no query counts."""
        return {name: self.mean(name) for name in self.evaluated[0].evaluation.means}

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Kind of time -> mean over the runs that did not share the machine with another job; empty if all
        did."""
        return mean_seconds([run.result for run in self.runs])

    @cached_property
    def peak_memory_mb(self) -> float | None:
        """Mean over the runs that have a value; None if no run has one."""
        return _mean_known(run.result.peak_memory_mb for run in self.runs)

    @cached_property
    def trees(self) -> float | None:
        """Mean over the runs with trees; None without any."""
        return _mean_known(run.result.num_trees for run in self.runs)

    @cached_property
    def model_mb(self) -> float | None:
        """Mean size of the saved models in MB; None without any."""
        return _mean_known(map(_model_mb, self.runs))

    def mean(self, metric: str) -> float | None:
        """Returns the mean over cells of `mean_over_runs`; None if no query counts in any cell.

        The weight of a cell in a metric of clicks is its number of lists.
        """
        known = []
        weights = []
        for items in self.cells.values():
            of_runs = [item.evaluation.means[metric] for item in items]
            mean = mean_over_runs(items, of_runs)
            if not isnan(mean):
                known.append(mean)
                weights.append(items[0].weight_of_cell(metric))
        if not known:
            return None
        if len(set(weights)) == 1:
            return fmean(known)
        return fmean(known, weights)

    def means_by_cell(self, values: Mapping[int, float]) -> dict[DataCell, float]:
        """Returns cell -> `mean_over_runs`, of the cells with a value.

        Args:
            values: index of a run in the row -> its value.
        """
        numbers = grouped(values, lambda number: self.evaluated[number].cell)
        means = {}
        for cell, of_cell in numbers.items():
            items = [self.evaluated[number] for number in of_cell]
            means[cell] = mean_over_runs(items, [values[number] for number in of_cell])
        return means


def mean_over_runs(items: Sequence[EvaluatedRun], values: Sequence[float]) -> float:
    """Returns the mean over resamples of the mean over the seeds of each one.

    Args:
        items: runs of a row in one cell.
        values: one for each run.
    """
    of_resamples: dict[int | None, list[float]] = {}
    for item, value in zip(items, values, strict=True):
        of_resamples.setdefault(replicate_of(item.run).resample, []).append(value)
    return fmean(map(fmean, of_resamples.values()))


def mean_seconds(results: Sequence[RunResult]) -> dict[str, float]:
    """Returns kind -> mean time, without runs that shared the machine."""
    alone = [result for result in results if not result.shared_machine]
    kinds = dict.fromkeys(
        itertools.chain.from_iterable(result.seconds for result in alone)
    )
    means = {}
    for kind in kinds:
        means[kind] = fmean(
            result.seconds[kind] for result in alone if kind in result.seconds
        )
    return means


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _model_mb(run: Run) -> float | None:
    paths = (run.path / MODEL_FOLDER).rglob("*")
    sizes = [path.stat().st_size for path in paths if path.is_file()]
    return sum(sizes) / _BYTES_IN_MB if sizes else None


@dataclass(frozen=True, eq=False)
class Table:
    """The compared data of one data set.

    Attributes:
        rows: All rows, with their runs in the cells that count.
        paired: Rows in paired tests.
        remarks: What is left out.
    """

    rows: tuple[ModelRow, ...]
    paired: tuple[ModelRow, ...]
    remarks: tuple[Remark, ...] = ()

    @classmethod
    def of(cls, rows: Sequence[ModelRow], selected: str = "") -> Table:
        """Excludes each row that lacks a cell from paired tests; none is paired if fewer than two have all.

        With a reason, all rows are paired over the cells that all of them have, if there are any.

        Args:
            selected: As `Settings.selected`.
        """
        everywhere = set[DataCell]().union(*(row.cells for row in rows))
        common = everywhere.intersection(*(row.cells for row in rows))
        whole = [row for row in rows if row.cells.keys() == everywhere]
        if len(whole) == len(rows):
            return cls(tuple(rows), tuple(rows))
        counted = rows
        paired = whole if len(whole) > 1 else []
        if not common:
            selected = ""
        if selected:
            counted = [row.within(common) for row in rows]
            paired = counted
        lacking: dict[str, list[str]] = {}
        for row in rows:
            cells = sorted(everywhere - row.cells.keys(), key=_by_fold)
            if cells:
                lacking.setdefault(describe_cells(cells), []).append(row.label)
        missing = Remark.of(
            Kind.MISSING_RUNS,
            lacking=lacking,
            common=len(common),
            num_sets=len(everywhere),
            selected=selected,
            are_paired=bool(paired),
        )
        return cls(tuple(counted), tuple(paired), (missing,))


@dataclass(frozen=True, eq=False)
class Trainings:
    """The distinct trainings of one row in one cell.

    Attributes:
        values: (R, Q), for the queries of the cell that count, in the units of `PairedQueries.sample`.
        keys: (R,), seed of each training; with resampled training sets, number of the resample.
        resample: Kind of resampling, without the number of the resample; None without resampling.
        is_constant: Whether several seeds gave the same scores, which count as one training.
        ranker_class: Class of the trained ranker.
        seconds: Mean wall time of a run with one training, and of its search; 0 if not available. It is for
            estimates, to which runs that shared the machine contribute.
        search_seeds: Seeds of the searches that chose the settings; empty for an untuned row.
        is_imported: Whether the scores, or some of those that were fused, were imported: it is not known what
            the model was trained on.
    """

    values: NDArray[np.float64]
    keys: tuple[int, ...]
    resample: Mapping[str, Any] | None
    is_constant: bool
    ranker_class: str
    seconds: float
    search_seeds: frozenset[int]
    is_imported: bool

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
        varied_by_folds: What varies over the cells if they are folds: `LATER` with `cv_split=forward`.
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
    varied_by_folds: Varied = Varied.METHODS

    @cached_property
    def by_cell(self) -> PairedSample:
        """The sample with the cells as strata, also if its mean is over the lists of all cells together."""
        return replace(self.sample, strata=self.cell_of_query)

    @cached_property
    def distinct(self) -> PairedSample:
        """The sample with each query once, however many cells it is in."""
        return clustered(self.sample, self.query_keys)

    def distinct_trainings(self, row: int) -> Trainings:
        """Returns the trainings of a row in the only cell, on the queries of `distinct`."""
        (trainings,) = self.trainings[row]
        if self.distinct is self.sample:
            return trainings
        sample = replace(self.sample, values=trainings.values)
        return replace(trainings, values=clustered(sample, self.query_keys).values)

    @cached_property
    def counting_cells(self) -> dict[int, NDArray[np.bool_]]:
        """Index of a cell -> (Q,), whether a query is in it; only cells in which a query counts."""
        return {
            int(number): self.cell_of_query == number
            for number in np.unique(self.cell_of_query)
        }

    @cached_property
    def are_folds(self) -> bool:
        """Whether the cells are the folds of a cross-validation, repeated or not: they have numbers and
        different training sets, and the test sets of a repeat have no common query."""
        # The training set is None if models have different ones.
        if any(cell.fold is None or cell.train is None for cell in self.cells):
            return False
        folds = {cell.fold_and_repeat for cell in self.cells}
        if len(folds) < len(self.cells) or self.test_share is None:
            return False
        keys = {}
        for number, inside in self.counting_cells.items():
            keys[self.cells[number]] = self.query_keys[inside]
        return len(keys) > 1 and not reasons_against_folds(keys)

    @property
    def num_folds(self) -> int:
        """Number of folds of each repeat of a cross-validation, of those in which a query counts."""
        return len({self.cells[number].fold for number in self.counting_cells})

    def of_query(self, values_of_cell: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Returns (Q,) values, given one array per cell with a value for each query of its judgments."""
        picked = []
        for number, inside in self.counting_cells.items():
            picked.append(values_of_cell[number][self.query_in_cell[inside]])
        return np.concatenate(picked)


def evaluate_rows(
    rows: Mapping[str, Sequence[Run]],
    claimed: Sequence[str],
    others: Sequence[str],
    convention: Convention,
    cell_of_run: Callable[[Run], DataCell],
) -> list[ModelRow]:
    """Evaluates the runs of each row on test.

    Args:
        claimed: Metrics that carry claims.
        others: Further metrics; those that the convention does not define on these data are left out.
        cell_of_run: Cell of a run; without its training set, runs with different ones can be paired.

    Raises:
        UndefinedMetricError: The convention does not define a metric that carries claims.
    """
    # The labels of a cell are read once, from its first run.
    first: dict[DataCell, tuple[Run, ScoredSplit]] = {}
    all_runs = list(itertools.chain.from_iterable(rows.values()))
    for run in all_runs:
        cell = cell_of_run(run)
        if cell not in first:
            first[cell] = run, run.scored("test")
    readers = [(run, scored.judgments) for run, scored in first.values()]
    metrics = list(claimed)
    metrics += [name for name in others if _is_defined(name, convention, readers)]

    def evaluated(run: Run) -> EvaluatedRun:
        cell = cell_of_run(run)
        reader, scored = first[cell]
        judgments = scored.judgments
        if run is not reader:
            scored = run.scored("test", judgments)
        evaluation = _evaluated(
            scored, judgments, metrics, convention, run=run, reader=reader
        )
        return EvaluatedRun(
            run, cell, judgments, scored.scores, evaluation, scored.query_keys
        )

    num_threads = available_cores() if are_built_in(metrics) else 1
    with ThreadPoolExecutor(num_threads) as pool:
        every = pool.map(evaluated, all_runs)
        return [
            ModelRow(label, tuple(itertools.islice(every, len(runs))))
            for label, runs in rows.items()
        ]


def _evaluated(
    scored: ScoredSplit,
    judgments: Judgments,
    metrics: Sequence[str],
    convention: Convention,
    *,
    run: Run,
    reader: Run,
) -> Evaluation:
    """Returns the evaluation of the scores of a run.

    Args:
        run: Named in errors about the scores.
        reader: Run that the judgments were read from, named in other errors.
    """
    if convention.unanswered is None:
        with naming(run):
            check_scored(judgments, scored.scores)
    ranked = judgments
    scores = scored.scores
    if scored.unjudged is not None and not convention.judged_only:
        ranked, scores = scored.unjudged.added_to(judgments, scores)
    with naming(reader):
        return evaluate(ranked, scores, metrics, convention)


def _is_defined(
    name: str, convention: Convention, readers: Iterable[tuple[Run, Judgments]]
) -> bool:
    metric, k = parse_metric(name)
    try:
        for run, judgments in readers:
            with naming(run):
                check_defined(metric, k, convention.of(metric), judgments)
    except UndefinedMetricError:
        return False
    return True


def _by_resample(items: Sequence[EvaluatedRun]) -> dict[int | None, list[EvaluatedRun]]:
    """Returns resample -> its runs, given the runs of one cell; in the order of the resamples."""
    resamples = grouped(items, lambda item: replicate_of(item.run).resample)
    return dict(sorted(resamples.items(), key=lambda item: item[0] or 0))


def _have_same_scores(items: Sequence[EvaluatedRun]) -> bool:
    first, *others = (item.scores for item in items)
    return all(np.array_equal(first, scores, equal_nan=True) for scores in others)


def _search_seeds(items: Sequence[EvaluatedRun]) -> frozenset[int]:
    """Returns the seeds of the searches that chose the settings of runs; empty for untuned runs."""
    searches = [item.run.result.search for item in items if item.run.result.search]
    return frozenset(int(search.get("seed", 0)) for search in searches)


def _trainings(row: ModelRow, cell: DataCell, metric: str) -> Trainings:
    """Returns the trainings of one row in one cell; values are NaN for queries that do not count."""
    items = row.cells[cell]
    first = items[0].run.result
    search_seeds = _search_seeds(items)
    resample = resample_of(items[0].run)
    # As in `ModelRow.seeds_change_nothing`.
    may_be_constant = resample is None and len(search_seeds) < 2
    is_constant = may_be_constant and len(items) > 1 and _have_same_scores(items)
    by_key = _by_key(items)
    if is_constant:
        by_key = dict(itertools.islice(by_key.items(), 1))
    values = []
    seconds = []
    for runs in by_key.values():
        per_query = [run.evaluation.per_query[metric] for run in runs]
        values.append(np.mean(per_query, axis=0))
        of_runs = [_seconds(run.run, len(row.cells)) for run in runs]
        seconds.append(sum(of_runs))
    return Trainings(
        values=np.stack(values),
        keys=tuple(by_key),
        resample=resample,
        is_constant=is_constant,
        ranker_class=_ranker_class(first),
        seconds=fmean(seconds),
        search_seeds=search_seeds,
        is_imported=first.origin.is_imported,
    )


def _ranker_class(result: RunResult) -> str:
    """Returns the class that was fitted; the name of the model if it was not recorded."""
    if isinstance(result.origin, Variant):
        return str(result.origin.ranker or result.model)
    return str(result.ranker.get("class") or result.model)


def _by_key(items: Sequence[EvaluatedRun]) -> dict[int, list[EvaluatedRun]]:
    """Returns seed -> its last run; with resamples, number of the resample -> its runs, in this order.

    Seeds of one resample are averaged, because a replicate is a training set.
    """
    if resample_of(items[0].run) is not None:
        resamples = _by_resample(items)
        return {int(number or 0): runs for number, runs in resamples.items()}
    by_seed = sorted(items, key=lambda item: item.run.result.seed)
    return {item.run.result.seed: [item] for item in by_seed}


def _seconds(run: Run, num_cells: int) -> float:
    """Returns the time of a run from start to finish without warm-up, with its part of its search."""
    result = run.result
    # The members of an ensemble are other rows.
    seconds = 0.0
    if not isinstance(result.origin, Ensemble):
        seconds = result.total_seconds
    # `started` and `finished` of a copied run are those of the copy.
    is_copied = isinstance(result.origin, Copied)
    if result.started and result.finished and not is_copied:
        started = datetime.fromisoformat(result.started)
        whole = datetime.fromisoformat(result.finished) - started
        warm_up = result.seconds.get("warm_up", 0.0)
        seconds = max(seconds, whole.total_seconds() - warm_up)
    shared_by = 1 if is_per_fold(run) else num_cells
    return seconds + float(result.search.get("seconds", 0.0)) / shared_by


def _by_fold(cell: DataCell) -> tuple[str, int, int, str]:
    """Returns a key that sorts cells by data set and fold, fold 2 before fold 10."""
    repeat = cell.repeat or 0
    fold = cell.fold or 0
    return cell.data, repeat, fold, str(cell)


def pair_queries(
    rows: Sequence[ModelRow], metric: str, inside: NDArray[np.bool_] | None = None
) -> PairedQueries | None:
    """Returns the values of the rows query by query, over all cells; None if no query counts.

    Args:
        inside: (Q,), which of the queries that count are in a group; None for all of them.
    """
    if not rows:
        return None
    firsts = [items[0] for items in rows[0].cells.values()]
    cells = [_PairedCell.of(rows, first, metric) for first in firsts]
    if inside is not None:
        cells = _within(cells, inside)
    sizes = [len(cell.numbers) for cell in cells]
    if not any(sizes):
        return None
    trainings = tuple(zip(*(cell.trainings for cell in cells), strict=True))
    means = [_mean_over_trainings(of_row) for of_row in trainings]
    weights = np.concatenate([cell.weights for cell in cells])
    cell_of_query = np.repeat(np.arange(len(cells)), sizes)
    keys = []
    for first, cell in zip(firsts, cells, strict=True):
        keys.append(first.query_keys[cell.numbers])
    impressions = [first.judgments.impressions for first in firsts]
    are_clusters = any(each is not None for each in impressions)
    strata = cell_of_query
    if any(_is_over_lists(first.judgments, metric) for first in firsts):
        # Folds differ in their numbers of lists, and frequent queries would count less in a mean over folds.
        strata = np.zeros_like(cell_of_query)
    sample = PairedSample.of(np.stack(means), weights, strata, are_clusters)
    return PairedQueries(
        labels=tuple(row.label for row in rows),
        sample=sample,
        cells=tuple(first.cell for first in firsts),
        cell_of_query=cell_of_query,
        query_in_cell=np.concatenate([cell.numbers for cell in cells]),
        judgments=tuple(first.judgments for first in firsts),
        test_share=_test_share([first.run for first in firsts]),
        trainings=trainings,
        query_keys=np.concatenate(keys),
        varied_by_folds=_varied_by_folds([first.run for first in firsts]),
    )


def _varied_by_folds(runs: Sequence[Run]) -> Varied:
    """Returns what varies over the cells of the runs if they are folds."""
    sources = [run.result.source.get("fields", {}) for run in runs]
    kinds_of_folds = {fields.get("cv_split") for fields in sources}
    return Varied.LATER if kinds_of_folds == {FORWARD} else Varied.METHODS


def _within(
    cells: Sequence[_PairedCell], inside: NDArray[np.bool_]
) -> list[_PairedCell]:
    """Returns the queries of each cell in a group, given (Q,) for the queries of all cells."""
    ends = np.cumsum([len(cell.numbers) for cell in cells])
    of_cells = np.split(inside, ends[:-1])
    pairs = zip(cells, of_cells, strict=True)
    return [cell.within(of_cell) for cell, of_cell in pairs]


def _mean_over_trainings(of_cells: Sequence[Trainings]) -> NDArray[np.float64]:
    """Returns (Q,), the mean over the trainings of a row for each query of all cells."""
    return np.concatenate([of_cell.values.mean(axis=0) for of_cell in of_cells])


@dataclass(frozen=True, eq=False)
class _PairedCell:
    """The part of `PairedQueries` in one cell.

    Attributes:
        numbers: (Q,), indices of the queries that count.
        weights: (Q,).
        trainings: One for each row.
    """

    numbers: NDArray[np.int64]
    weights: PerQuery
    trainings: list[Trainings]

    @classmethod
    def of(
        cls, rows: Sequence[ModelRow], first: EvaluatedRun, metric: str
    ) -> _PairedCell:
        """Returns the queries that count for all rows in the cell of a run."""
        weighting = first.evaluation.weightings[metric]
        trainings = [_trainings(row, first.cell, metric) for row in rows]
        every = np.concatenate([of_row.values for of_row in trainings])
        counts = ~np.isnan(every).any(axis=0)
        kept = []
        for of_row in trainings:
            values = weighting.rescaled(of_row.values)[:, counts]
            kept.append(replace(of_row, values=values))
        return cls(np.flatnonzero(counts), weighting.weights[counts], kept)

    def within(self, inside: NDArray[np.bool_]) -> _PairedCell:
        """Returns the queries in a group, (Q,)."""
        kept = []
        for of_row in self.trainings:
            values = of_row.values[:, inside]
            kept.append(replace(of_row, values=values))
        return _PairedCell(self.numbers[inside], self.weights[inside], kept)


def is_tuned(queries: PairedQueries, row: int) -> bool:
    """Returns whether searches chose the settings of a row."""
    return all(of_cell.search_seeds for of_cell in queries.trainings[row])


def is_tuned_again(queries: PairedQueries, row: int) -> bool:
    """Returns whether a row has searches with several seeds in each cell."""
    seeds_of_cells = [of_cell.search_seeds for of_cell in queries.trainings[row]]
    return all(len(seeds) > 1 for seeds in seeds_of_cells)


def tuned_once(queries: PairedQueries | None) -> list[str]:
    """Returns the labels of the paired rows that were tuned, but not again with other search seeds."""
    if queries is None:
        return []
    labels = []
    for number, label in enumerate(queries.labels):
        if is_tuned(queries, number) and not is_tuned_again(queries, number):
            labels.append(label)
    return labels


def _test_share(runs: Sequence[Run]) -> float | None:
    sizes = []
    for run in runs:
        data = run.result.data
        # The size of the whole training set counts, not the size of its resample.
        train = data.get("resample", data.get("train", {}))
        test = data.get("test", {})
        sizes.append((test.get("queries"), train.get("queries")))
    if not all(all(pair) for pair in sizes):
        return None
    return fmean(test / train for test, train in sizes)
