"""From runs to rows and cells: what may be set side by side, and what has to be said of the rest.

A table holds the runs of one data set with one way of splitting it. Its rows are models; where runs of a
model have different settings, a row is a model with its settings. The runs of a row are arranged in cells:
the fold, and what was trained on and judged by their fingerprints. Runs of a row in one cell are its
trainings there: they differ in their seed, or in the resample of the training queries. Their per-query values
are averaged where a mean is told, so that a query counts once.

Every value is computed anew from the stored raw scores, under the convention of the comparison, so that
what a run reported itself never stands in the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.pairing.overlap import clustered, keys_of_sets, same_sets
from ltrbench.data import Judgments
from ltrbench.data.query_keys import QueryKeys
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import Convention, Evaluation, evaluate, parse_metric
from ltrbench.metrics.evaluation import check_defined
from ltrbench.results import Run, ScoredSplit, naming
from ltrbench.statistics import PairedSample

SPLITS = ("train", "valid", "test")

# Runs of one row differ in their seed; and what every fold of a data set has of its own.
_NOT_A_SETTING = ("seed",)
_WORDS = {"_target_": "class"}
_OF_A_FOLD = ("fold", "train", "valid", "test")
# What a data set's YAML says to people, or where it lies on a machine.
_NOT_OF_THE_DOCUMENTS = {"_target_", "name", "root", "obtain"}


class Cell(NamedTuple):
    """What a run was trained on and judged by: the fold, and the fingerprints; None where there is none.

    Of a run on a resample, `train` is the training set that was resampled.
    """

    fold: int | None
    train: str | None
    valid: str | None
    test: str | None


@dataclass(frozen=True, eq=False)
class Judged:
    """A run with what its raw scores are worth on test.

    Attributes:
        judgments: of test; one object for all runs of a cell.
        scores: (D,), in the backend's own dtype.
        query_keys: (Q,), as the run stores them; None where it stores none.
    """

    run: Run
    cell: Cell
    judgments: Judgments
    scores: NDArray[np.floating[Any]]
    evaluation: Evaluation
    query_keys: QueryKeys | None = None


@dataclass(frozen=True, eq=False)
class Trainings:
    """The distinct trainings of one row in one cell.

    Attributes:
        values: (R, Q), of the queries of the cell that count, in the units of `PairedQueries.sample`.
        keys: (R,), the seed of each training; of resampled training sets, the number of the resample.
        resample: how training sets were resampled, without the number of one; None: they were not.
        is_constant: whether several seeds were tried and gave the same scores, which count as one training.
        ranker_class: what was trained.
        seconds: wall time of a training with all that its run does, the mean; 0 where none is known.
    """

    values: NDArray[np.float64]
    keys: tuple[int, ...]
    resample: Mapping[str, Any] | None
    is_constant: bool
    ranker_class: str
    seconds: float


@dataclass(frozen=True, eq=False)
class PairedQueries:
    """The queries that all of some rows were judged on and that count, with each row's values on them.

    Attributes:
        labels: (M,) of the rows.
        sample: their values, (M, Q), means over seeds, with the weights that the convention gives queries, so
            that its means are the means of the rows; see `Weighting.rescaled`.
        cells: what was judged.
        cell_of_query: (Q,), which of `cells` a query stands in.
        query_in_cell: (Q,), its number among the queries of the cell's judgments.
        judgments: of each of `cells`.
        test_share: n_test / n_train in queries, the mean over the cells; None where a run does not tell.
        trainings: of each of `labels`, of each of `cells`.
        query_keys: (Q,), by which a query is found in several cells.
    """

    labels: tuple[str, ...]
    sample: PairedSample
    cells: tuple[Cell, ...]
    cell_of_query: NDArray[np.int64]
    query_in_cell: NDArray[np.int64]
    judgments: tuple[Judgments, ...]
    test_share: float | None
    trainings: tuple[tuple[Trainings, ...], ...]
    query_keys: QueryKeys

    @cached_property
    def distinct(self) -> PairedSample:
        """The sample with each query once, however many cells it stands in: what varies over queries."""
        return clustered(self.sample, self.query_keys)

    @cached_property
    def num_distinct(self) -> int:
        """Number of queries, each counted once however many cells it stands in."""
        return len(set(self.query_keys.tolist()))

    @cached_property
    def repeats_a_cell(self) -> bool:
        """Whether two cells have the same queries."""
        places = range(len(self.cells))
        return bool(same_sets([self.query_keys[self.cell_of_query == place] for place in places]))

    def of_query(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """(Q,), from one array a cell with a value for each query of its judgments."""
        picked: NDArray[Any] = np.concatenate(
            [own[self.query_in_cell[self.cell_of_query == number]] for number, own in enumerate(values)]
        )
        return picked


def by_data(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Table name -> runs: a data set's name, with those of its settings that made other cells of it.

    What tells tables apart is the fingerprints: where every run of a fold saw the same documents there is one
    table, however and wherever its files were named.
    """
    tables: dict[str, list[Run]] = {}
    for name, group in by_name(runs).items():
        words = _settings_of_cells(group)
        for run in group:
            tables.setdefault(" ".join([name, *words[cell_of(run)]]), []).append(run)
    return tables


def by_name(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Data set -> its runs."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(str(run.result.data["name"]), []).append(run)
    return groups


def _settings_of_cells(runs: Sequence[Run]) -> dict[Cell, list[str]]:
    """Cell -> what names its table beside the data set; nothing where no fold has two cells."""
    first: dict[Cell, Run] = {}
    for run in runs:
        first.setdefault(cell_of(run), run)
    if len({cell.fold for cell in first}) == len(first):
        return {cell: [] for cell in first}
    settings = {cell: flatten(run.result.settings.get("data", {})) for cell, run in first.items()}
    # A run of an earlier version may lack a setting that there is now, which makes no other data.
    common = set.intersection(*(set(own) for own in settings.values()))
    known = {cell: {key: own[key] for key in common} for cell, own in settings.items()}
    not_settings = _NOT_OF_THE_DOCUMENTS | {key for key in common if key.startswith("published.")}
    if any(cell.fold is not None for cell in first):
        not_settings |= set(_OF_A_FOLD)
    rivals = list(known.values())
    return {
        cell: [f"data.{word}" for word in _varied(own, rivals, sorted(not_settings))]
        for cell, own in known.items()
    }


def by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Row label -> runs: a model's name, with those of its settings that vary between its runs."""
    settings = [flatten(run.result.settings.get("model", {})) | _resampled(run) for run in runs]
    kinds = [(run.result.model, run.result.params) for run in runs]
    groups: dict[str, list[Run]] = {}
    for run, own, kind in zip(runs, settings, kinds, strict=True):
        of_model = {params for model, params in kinds if model == kind[0]}
        says_params = len(of_model) > 1 and _has_params(run)
        words = [f"params={kind[1]}"] if says_params else []
        # Under library parameters every setting differs from the matched ones: the one word says it. Where it
        # is not said, all runs of the model are told apart by their settings.
        rivals = [
            other
            for other, its in zip(settings, kinds, strict=True)
            if its[0] == kind[0] and (its == kind or not says_params)
        ]
        words += _varied(own, rivals, _NOT_A_SETTING)
        groups.setdefault(" ".join([kind[0], *words]), []).append(run)
    return groups


def _resampled(run: Run) -> dict[str, Any]:
    """How training sets were resampled, as a setting of the row: such runs are no repetitions of others."""
    resample = resample_of(run)
    return {} if resample is None else {f"replicates.{key}": value for key, value in resample.items()}


def resample_of(run: Run) -> dict[str, Any] | None:
    """How the training set was resampled, without the number of the resample; None where it was not."""
    resample = run.result.data.get("resample")
    return None if resample is None else {key: resample[key] for key in ("kind", "share", "seed")}


def replicate_of(run: Run) -> tuple[int | None, int]:
    """The number of its resample, None for the training set itself; and the seed."""
    return run.result.data.get("resample", {}).get("index"), run.result.seed


def _has_params(run: Run) -> bool:
    """Not so a yardstick, which has none to match; but scores from elsewhere are told from a model's own."""
    return run.result.best_iteration is not None or not run.result.seconds


def newest(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Of runs that are one row, cell and replicate the one made last, and a sentence for each such."""
    same: dict[tuple[str, str, Cell, tuple[int | None, int]], list[Run]] = {}
    for label, group in by_label(runs).items():
        for run in group:
            key = label, str(run.result.data["name"]), cell_of(run), replicate_of(run)
            same.setdefault(key, []).append(run)
    last = {key: max(group, key=lambda run: run.result.started) for key, group in same.items()}
    notes = [
        f"{label} has {len(group)} runs of {replicate_in_words(*replicate)} with the same settings on "
        f"{_places([cell])}: only the "
        f"last, {last[key].path}, is counted, and not "
        f"{', '.join(str(run.path) for run in group if run is not last[key])}."
        for key, group in same.items()
        for label, _, cell, replicate in [key]
        if len(group) > 1
    ]
    kept = {id(run) for run in last.values()}
    return [run for run in runs if id(run) in kept], notes


def replicate_in_words(resample: int | None, seed: int) -> str:
    return f"seed {seed}" if resample is None else f"resample {resample} and seed {seed}"


def _varied(own: dict[str, Any], rivals: Sequence[dict[str, Any]], but: Sequence[str]) -> list[str]:
    """`key=value` of those settings that are not the same in all rivals, of which one has `own`."""
    keys = sorted({key for item in rivals for key in item} - set(but))
    return [
        f"{_WORDS.get(key, key)}={_first_equal(own[key], key, rivals)}"
        for key in keys
        if key in own and any(item.get(key) != own[key] for item in rivals)
    ]


def _first_equal(value: Any, key: str, rivals: Sequence[Mapping[str, Any]]) -> Any:
    """The value as the first of the rivals has it, so that 1 and 1.0 have one name."""
    return next(item[key] for item in rivals if key in item and item[key] == value)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings that lie in one another, each by its full name, such as early_stopping.metric."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_of(run: Run) -> Cell:
    """Where the run stands."""
    data = run.result.data
    train, valid, test = (data.get(split, {}).get("fingerprint") for split in SPLITS)
    return Cell(data.get("fold"), data.get("resample", {}).get("train", train), valid, test)


def test_cell_of(run: Run) -> Cell:
    """The same by its test set alone, so that runs which were trained on different data can be paired."""
    return cell_of(run)._replace(train=None, valid=None)


def judge(
    groups: Mapping[str, Sequence[Run]],
    claimed: Sequence[str],
    others: Sequence[str],
    convention: Convention,
    place: Callable[[Run], Cell],
) -> dict[str, list[Judged]]:
    """Evaluates the runs of each row on test.

    Args:
        claimed: the metrics that carry claims.
        others: further metrics, of which those count that the convention defines on these data.
        place: `cell_of`, or `test_cell_of`.

    Raises:
        UndefinedMetricError: where the convention does not define a metric that carries claims.
    """
    # The labels of a cell are read once, however many runs there are in it.
    known: dict[Cell, Judgments] = {}
    read = {label: [_read(run, place, known) for run in group] for label, group in groups.items()}
    # The first run of a cell is the one whose labels were read.
    readers: dict[Cell, Run] = {}
    for run, cell, _ in itertools.chain.from_iterable(read.values()):
        readers.setdefault(cell, run)
    judged_in = [(readers[cell], judgments) for cell, judgments in known.items()]
    defined = [*claimed, *(name for name in others if _is_defined(name, convention, judged_in))]

    def judged(run: Run, cell: Cell, scored: ScoredSplit) -> Judged:
        with naming(readers[cell]):
            evaluation = evaluate(known[cell], scored.scores, defined, convention)
        return Judged(run, cell, known[cell], scored.scores, evaluation, scored.query_keys)

    return {label: [judged(*item) for item in own] for label, own in read.items()}


def _read(
    run: Run, place: Callable[[Run], Cell], known: dict[Cell, Judgments]
) -> tuple[Run, Cell, ScoredSplit]:
    cell = place(run)
    scored = run.scored("test", known.get(cell))
    known.setdefault(cell, scored.judgments)
    return run, cell, scored


def _is_defined(name: str, convention: Convention, judged: Iterable[tuple[Run, Judgments]]) -> bool:
    metric, k = parse_metric(name)
    try:
        for run, judgments in judged:
            with naming(run):
                check_defined(metric, k, convention.of(metric), judgments)
    except UndefinedMetricError:
        return False
    return True


def by_cell(judged: Sequence[Judged]) -> dict[Cell, list[Judged]]:
    """The runs of one row, those that differ in their seed or resample only together."""
    cells: dict[Cell, list[Judged]] = {}
    for item in judged:
        cells.setdefault(item.cell, []).append(item)
    return cells


def one_of_each_cell(judged: Iterable[Judged]) -> dict[Cell, Judged]:
    """A run of each cell, one with keys of its queries where there is one."""
    first: dict[Cell, Judged] = {}
    for item in judged:
        if item.cell not in first or first[item.cell].query_keys is None:
            first[item.cell] = item
    return first


def keys_of_cells(judged: Iterable[Judged]) -> dict[Cell, QueryKeys]:
    """Cell -> the keys of its test queries, (Q,), by which they are found in the other cells."""
    first = one_of_each_cell(judged)
    keys = keys_of_sets([(item.judgments, item.query_keys) for item in first.values()])
    return dict(zip(first, keys, strict=True))


def seeds_change_nothing(judged: Sequence[Judged]) -> bool:
    """Whether a row has several seeds on the same training set, and every one gave the same scores."""
    trainings = [own for cell in by_cell(judged).values() for own in _by_resample(cell).values()]
    return any(len(own) > 1 for own in trainings) and all(map(_is_alike, trainings))


def _by_resample(judged: Sequence[Judged]) -> dict[int | None, list[Judged]]:
    """The runs of one cell, those on the same training queries together, in the order of the resamples."""
    groups: dict[int | None, list[Judged]] = {}
    for item in judged:
        groups.setdefault(replicate_of(item.run)[0], []).append(item)
    return dict(sorted(groups.items(), key=lambda item: item[0] or 0))


def _is_alike(judged: Sequence[Judged]) -> bool:
    return all(np.array_equal(judged[0].scores, item.scores) for item in judged[1:])


def trainings_of(judged: Sequence[Judged], metric: str) -> Trainings:
    """The trainings of one row in one cell, with the values of all of the cell's queries, NaN where none."""
    resamples, first = _by_resample(judged), judged[0]
    resample = resample_of(first.run)
    is_constant = resample is None and len(judged) > 1 and _is_alike(judged)
    if resample is not None:
        # Seeds of one resample are averaged: what varies is the training set.
        runs = {int(number or 0): own for number, own in resamples.items()}
    else:
        seeds = sorted(judged, key=lambda item: item.run.result.seed)
        runs = {item.run.result.seed: [item] for item in (seeds[:1] if is_constant else seeds)}
    values = [np.mean([item.evaluation.per_query[metric] for item in own], axis=0) for own in runs.values()]
    return Trainings(
        values=np.stack(values),
        keys=tuple(runs),
        resample=resample,
        is_constant=is_constant,
        ranker_class=str(first.run.result.ranker.get("class", first.run.result.model)),
        seconds=fmean(sum(item.run.result.total_seconds for item in own) for own in runs.values()),
    )


class Arranged(NamedTuple):
    """The rows of a table by what may be counted of them.

    Attributes:
        counted: row label -> the runs whose cells count.
        paired: the labels of the rows that paired tests may be made of; the others lack a cell.
        notes: what has to be said of the rest.
    """

    counted: dict[str, list[Judged]]
    paired: tuple[str, ...]
    notes: tuple[str, ...]


def arrange(judged: dict[str, list[Judged]]) -> Arranged:
    """Drops from paired tests, by name, each row that lacks a cell which others have.

    Where fewer than two rows have every cell, the cells that all rows share are counted instead, if any.
    """
    cells = {label: {item.cell for item in own} for label, own in judged.items()}
    everywhere, common = set().union(*cells.values()), set.intersection(*cells.values())
    whole = tuple(label for label, own in cells.items() if own == everywhere)
    notes = _missing_seeds(judged)
    if len(whole) == len(cells):
        return Arranged(judged, whole, tuple(notes))
    lacking = {
        label: sorted(everywhere - own, key=_order) for label, own in cells.items() if label not in whole
    }
    if len(whole) >= 2:
        notes += [
            f"{label} has no run on {_places(absent)}: it is left out of paired tests, and its means "
            "are over "
            "the test sets that it has."
            for label, absent in lacking.items()
        ]
        return Arranged(judged, whole, tuple(notes))
    if not common:
        notes.append("The rows have no test set in common: each mean is over the row's own.")
        return Arranged(judged, (), tuple(notes))
    notes += [
        f"{label} has no run on {_places(absent)}; only the {len(common)} of {len(everywhere)} test "
        "sets that "
        "every row has are counted."
        for label, absent in lacking.items()
    ]
    counted = {label: [item for item in own if item.cell in common] for label, own in judged.items()}
    return Arranged(counted, tuple(judged), tuple(notes))


def _order(cell: Cell) -> tuple[int, str]:
    return cell.fold or 0, cell.test or ""


def _places(cells: Sequence[Cell]) -> str:
    folds = [str(cell.fold) for cell in cells if cell.fold is not None]
    if len(folds) == len(cells):
        return f"fold{'s' * (len(folds) > 1)} {', '.join(folds)}"
    return "the test set" if len(cells) == 1 else f"{len(cells)} of the test sets"


def _missing_seeds(judged: Mapping[str, Sequence[Judged]]) -> list[str]:
    """A sentence for each row that has some replicates in one cell and not in another."""
    notes = []
    for label, own in judged.items():
        of_cell = {cell: {replicate_of(item.run) for item in items} for cell, items in by_cell(own).items()}
        every = set().union(*of_cell.values())
        absent = {cell: every - those for cell, those in of_cell.items() if those != every}
        notes += [
            f"{label} has no run of {', '.join(replicate_in_words(*one) for one in sorted(missing))} on "
            f"{_places([cell])}: its mean there is over the others."
            for cell, missing in absent.items()
        ]
    return notes


def pair_queries(
    counted: Mapping[str, Sequence[Judged]], labels: Sequence[str], metric: str
) -> PairedQueries | None:
    """The values of rows query by query, over all cells; None where no query counts in any."""
    cells = {label: by_cell(counted[label]) for label in labels}
    places = list(cells[labels[0]]) if labels else []
    of_place, strata, numbers, weights = [], [], [], []
    for place, cell in enumerate(places):
        weighting = cells[labels[0]][cell][0].evaluation.weightings[metric]
        found = [trainings_of(own[cell], metric) for own in cells.values()]
        counting = np.flatnonzero(~np.isnan(np.concatenate([own.values for own in found])).any(axis=0))
        of_place.append([replace(own, values=weighting.rescaled(own.values)[:, counting]) for own in found])
        numbers.append(counting)
        strata.append(np.full(len(counting), place))
        weights.append(weighting.weights[counting])
    if not sum(map(len, numbers)):
        return None
    means = [np.concatenate([own.values.mean(axis=0) for own in row]) for row in zip(*of_place, strict=True)]
    cell_of_query = np.concatenate(strata)
    keys = keys_of_cells(item for label in labels for item in counted[label])
    return PairedQueries(
        labels=tuple(labels),
        sample=PairedSample.of(np.stack(means), np.concatenate(weights), cell_of_query),
        cells=tuple(places),
        cell_of_query=cell_of_query,
        query_in_cell=np.concatenate(numbers),
        judgments=tuple(cells[labels[0]][cell][0].judgments for cell in places),
        test_share=_test_share([cells[labels[0]][cell][0].run for cell in places]),
        trainings=tuple(zip(*of_place, strict=True)),
        query_keys=np.concatenate([keys[cell][own] for cell, own in zip(places, numbers, strict=True)]),
    )


def _test_share(runs: Sequence[Run]) -> float | None:
    sizes = []
    for run in runs:
        data = run.result.data
        # The training set that was resampled stands for the method, not its resample.
        train = data.get("resample", data.get("train", {}))
        sizes.append((data.get("test", {}).get("queries"), train.get("queries")))
    if not all(all(pair) for pair in sizes):
        return None
    return fmean(test / train for test, train in sizes)
