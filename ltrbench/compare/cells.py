"""The compared data: tables, rows and cells of runs, their evaluated scores, and the queries that rows share.

A table holds the runs on one data set with one set of splits. A row is a model, or a model with its settings
if its runs have different settings. The settings that a search chose distinguish no rows: a tuned row is a
model with its search, whatever setting each fold chose. A cell is a fold with the fingerprints of its
training, validation and test sets. In a repeated cross-validation each fold of each repeat is a cell, and all
of them are in one table. The runs of a row in one cell are its replicates: they differ in the seed, or in the
resample of the training queries.

`evaluate_rows` evaluates the runs of each row on test under the convention of the comparison; metrics that a
run reported are not used. `arrange` selects the rows that can be paired, and `pair_queries` returns their
values query by query. Values of one row in one cell are averaged, so that each query counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import isnan
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.feature_sets import feature_settings
from ltrbench.compare.guards import COSTS, Guard
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys
from ltrbench.data.sources import FORWARD
from ltrbench.errors import ConfigError, UndefinedMetricError, require
from ltrbench.folders import find_class
from ltrbench.metrics import (
    DEFAULT,
    Convention,
    Evaluation,
    evaluate,
    parse_metric,
    rope_of,
)
from ltrbench.metrics.evaluation import check_defined
from ltrbench.metrics.functions import check_scored
from ltrbench.native.objectives.base import yamls
from ltrbench.rankers.base import is_ours
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.runs.origin import Copied, Ensemble, Imported, Variant
from ltrbench.runs.record import Run, ScoredSplit, naming
from ltrbench.settings import without_effect
from ltrbench.shapes import PerQuery
from ltrbench.statistics import LEVEL, PairedSample
from ltrbench.statistics.claims import LATER, METHODS
from ltrbench.tables import listed

DATA_SPLITS = ("train", "valid", "test")

# Settings that differ between the runs of one row: the seed, and the limit that ends a trial of a search
# early, which a compared run does not have.
_OF_A_REPLICATE = {"seed", "early_stopping.minimum"}
# Settings that differ between the folds of one data set.
_OF_A_FOLD = {"fold", "train", "valid", "test"}
# Settings of a data set that do not change its documents: descriptions and paths.
_NOT_OF_THE_DOCUMENTS = {"_target_", "name", "root", "obtain", "fetch"}
# The value of a setting that a search chose, and of a setting of a search that a run does not have: it
# differs from no other value.
_ANY = object()

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], _Key]
) -> dict[_Key, list[_Item]]:
    """Returns key -> its items, in the order of the items."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def first_by(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, _Item]:
    """Returns key -> its first item."""
    return {value: group[0] for value, group in grouped(items, key).items()}


class DataCell(NamedTuple):
    """Data set, fold, fingerprints of the splits, and `RunResult.repeat`; None if not available.

    For a run on a resample, `train` is the training set that was resampled.
    """

    data: str
    fold: int | None
    train: str | None
    valid: str | None
    test: str | None
    repeat: int | None = None

    @property
    def of_test(self) -> DataCell:
        """Returns the cell without its training and validation sets."""
        return self._replace(train=None, valid=None)

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Fingerprint of each split."""
        return dict(zip(DATA_SPLITS, (self.train, self.valid, self.test), strict=True))

    @property
    def words(self) -> str:
        """The fold, such as "fold 1 of data.split_seed=7"; empty without folds."""
        return "" if self.fold is None else describe_cells([self])

    @property
    def fold_and_repeat(self) -> tuple[int | None, int | None]:
        """Number of the fold, and its repeat."""
        return self.fold, self.repeat


class Replicate(NamedTuple):
    """Number of the resample, None for the whole training set; and the seed."""

    resample: int | None
    seed: int

    def __str__(self) -> str:
        return (
            f"seed {self.seed}"
            if self.resample is None
            else f"resample {self.resample} and seed {self.seed}"
        )


@dataclass(frozen=True, eq=False)
class GroupedRuns:
    """The runs of one table.

    Attributes:
        name: Name of the data set, with the settings that distinguish its tables.
        runs: In the order of the input.
    """

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """Row label -> runs."""
        return runs_by_label(self.runs)


def group_runs(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns one table per data set, and per setting of the data that changes its documents.

    Fingerprints decide: runs on the same documents are in one table, whatever the paths and names of the
    files. The repeats of a cross-validation are in one table if all other settings of the data are equal.
    """
    tables: dict[str, list[Run]] = {}
    for data_set in group_by_data_set(runs):
        words = _settings_of_cells(data_set.runs)
        for run in data_set.runs:
            tables.setdefault(
                " ".join([data_set.name, *words[cell_of(run)]]), []
            ).append(run)
    return [GroupedRuns(name, tuple(of_table)) for name, of_table in tables.items()]


def group_by_data_set(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns one table per data set, whatever its settings."""
    of_data_set = grouped(runs, lambda run: cell_of(run).data)
    return [GroupedRuns(name, tuple(of_data)) for name, of_data in of_data_set.items()]


def _settings_of_cells(runs: Sequence[Run]) -> dict[DataCell, list[str]]:
    """Returns cell -> the settings in the name of its table; no settings if no fold has two cells."""
    first = first_by(runs, cell_of)
    folds = {cell.fold for cell in first}
    # A split without folds is not a further fold.
    if len(folds) == len(first) and (None not in folds or len(folds) == 1):
        return {cell: [] for cell in first}
    settings = {}
    for cell, run in first.items():
        of_a_fold = _OF_A_FOLD if cell.fold is not None else set[str]()
        excluded = of_a_fold if cell.repeat is None else {"fold", "split_seed"}
        settings[cell] = _settings_of(run, "data", _NOT_OF_THE_DOCUMENTS | excluded)
    rivals = list(settings.values())
    return {
        cell: [f"data.{word}" for word in _varied(of_cell, rivals)]
        for cell, of_cell in settings.items()
    }


def _settings_of(run: Run, part: str, excluded: set[str]) -> dict[str, Any]:
    """Returns full name -> value of the settings in the part "model" or "data" of a run."""
    flat = flatten(run.result.settings.get(part, {}))
    return {
        key: value
        for key, value in flat.items()
        if not {key, key.partition(".")[0]} & excluded
    }


def settings_of_model(run: Run) -> dict[str, Any]:
    """Returns full name -> value of the settings of the model of a run, without those of a replicate.

    `objective` is the name of its YAML in conf/model/objective; without one, of its class.
    """
    settings, searched = (
        _settings_of(run, "model", _OF_A_REPLICATE),
        run.result.search.get("space", {}),
    )
    target = settings.pop("objective._target_", None)
    if target is None:
        return settings
    # Several YAMLs may name one class: the one with the most equal settings is that of the run.
    fixed = settings | dict.fromkeys(searched)
    equal = {
        name: sum(
            fixed.get(f"objective.{key}") == value for key, value in of_yaml.items()
        )
        for name, of_yaml in yamls().items()
        if of_yaml.get("_target_") == target
    }
    return settings | {
        "objective": max(
            equal, key=equal.__getitem__, default=target.rpartition(".")[2]
        )
    }


def runs_by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns row label -> runs; a label is the model's name and the settings that vary between its runs.

    The label of an imported model says so, as in "production (imported)".
    """
    label_of_run: dict[int, str] = {}
    for (model, is_imported), of_model in grouped(
        runs, lambda run: (run.result.model, isinstance(run.result.origin, Imported))
    ).items():
        settings = _settings_of_rows(of_model)
        has_several = len({run.result.params for run in of_model}) > 1
        for run, of_run in zip(of_model, settings, strict=True):
            # Library parameters differ from matched ones in every setting, so that `params=` alone is named.
            params = run.result.params if has_several else None
            rivals = [
                of_rival
                for rival, of_rival in zip(of_model, settings, strict=True)
                if params in (None, rival.result.params)
            ]
            words = [] if params is None else [f"params={params}"]
            if is_imported:
                words = ["(imported)"]
            label_of_run[id(run)] = " ".join([model, *words, *_varied(of_run, rivals)])
    return grouped(runs, lambda run: label_of_run[id(run)])


def _settings_of_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns the settings that distinguish the rows of one model, for each run.

    They are the settings of the model, of its search, and the kind of resampling, so that resampled and other
    runs are different rows.
    """
    swept = {name for run in runs for name in run.result.swept}
    searches = [_settings_of_search(run, swept) for run in runs]
    keys = {key for search in searches for key in search}
    # An untuned run differs from a tuned one in `search` alone.
    untuned = dict.fromkeys(keys, _ANY) | ({"search": "none"} if keys else {})
    absent = {key: "fixed" if key.startswith("search.space.") else _ANY for key in keys}
    return [
        settings_of_model(run)
        # Settings that a search chose differ from no other value.
        | {
            f"{part}{key}": _ANY
            for key in run.result.search.get("space", ())
            for part in ("", "objective.")
        }
        | {
            f"replicates.{key}": value
            for key, value in (resample_of(run) or {}).items()
        }
        | {f"data.{key}": value for key, value in feature_settings(run).items()}
        | (absent | search if search else untuned)
        for run, search in zip(runs, searches, strict=True)
    ]


def _settings_of_search(run: Run, swept: Collection[str]) -> dict[str, Any]:
    """Returns the settings of a search; its budget and seed only if a sweep names them."""
    search = run.result.search
    if not search:
        return {}
    optional = {"seed": search.get("seed"), **search.get("budget", {})}
    settings = {key: search.get(key) for key in ("metric", "choose", "space")}
    settings |= {
        key: value for key, value in optional.items() if f"search.{key}" in swept
    }
    return {"search": search.get("name"), **flatten(settings, "search.")}


def resample_of(run: Run) -> dict[str, Any] | None:
    """Returns the kind of resampling without the number of the resample; None without resampling."""
    resample = run.result.data.get("resample")
    return (
        None
        if resample is None
        else {key: resample[key] for key in ("kind", "share", "seed")}
    )


def replicate_of(run: Run) -> Replicate:
    """Returns the resample and the seed of a run."""
    return Replicate(run.result.data.get("resample", {}).get("index"), run.result.seed)


def is_per_fold(run: Run) -> bool:
    """Returns whether a search chose the settings by the validation set of the run's fold."""
    return run.result.search.get("choose") == "per_fold"


def fold_of(run: Run) -> tuple[int | None, int | None]:
    """Returns the number of the fold, None without folds, and `RunResult.repeat`."""
    return run.result.data.get("fold"), run.result.repeat


def newest_runs(runs: Sequence[Run]) -> tuple[list[Run], list[Remark]]:
    """Returns the run that counts for each row, cell and replicate, the last one, and remarks on others."""
    kept: set[int] = set()
    remarks = []
    for label, of_row in runs_by_label(runs).items():
        for (cell, replicate), repeated in grouped(
            of_row, lambda run: (cell_of(run), replicate_of(run))
        ).items():
            last = max(repeated, key=lambda run: run.result.started)
            kept.add(id(last))
            ignored = [str(run.path) for run in repeated if run is not last]
            if ignored:
                remarks.append(
                    Remark.of(
                        Kind.REPEATED_RUNS,
                        label=label,
                        replicate=str(replicate),
                        where=describe_cells([cell]),
                        last=str(last.path),
                        ignored=ignored,
                    )
                )
    return [run for run in runs if id(run) in kept], remarks


def _varied(
    settings: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns each setting that differs between the rivals, which include these settings, as `key=value`.

    An objective is named without its key and before its settings, as in `yetirank mode=NDCG`. Next to other
    objectives, its settings that differ from its YAML are named, too; settings without effect never are.
    """
    of_yaml = flatten(yamls().get(str(settings.get("objective")), {}), "objective.")
    default = [{**settings, **of_yaml}] * any(
        _loss(rival) != _loss(settings) for rival in rivals
    )
    names = {
        key
        for key in settings
        if any(_differ(key, settings, rival) for rival in [*rivals, *default])
    }
    if not names:
        return []
    names -= _without_effect(settings, "", str(settings.get("_target_")))
    names -= _without_effect(
        settings, "objective.", str(of_yaml.get("objective._target_"))
    )
    is_named = any(key.startswith("objective") for key in names)
    return [str(settings.get("objective"))] * is_named + [
        f"{key.removeprefix('objective.').replace('_target_', 'class')}={settings[key]}"
        for key in sorted(
            names - {"objective"},
            key=lambda key: (not key.startswith("objective."), key),
        )
    ]


def _differ(key: str, settings: Mapping[str, Any], rival: Mapping[str, Any]) -> bool:
    """Returns whether a setting distinguishes a row from a rival."""
    values = settings[key], rival.get(key)
    # The settings of an objective belong to it alone, and others may not apply to it.
    is_apart = key.startswith("objective.") or None in values or "fixed" in values
    if (
        is_apart
        and key not in ("objective", "loss")
        and _loss(settings) != _loss(rival)
    ):
        return False
    return _ANY not in values and values[0] != values[1]


def _loss(settings: Mapping[str, Any]) -> Any:
    return settings.get("objective", settings.get("loss"))


def _without_effect(settings: Mapping[str, Any], prefix: str, target: str) -> set[str]:
    """Returns the settings with a prefix that have no effect by the declarations of their class."""
    values = {
        key.removeprefix(prefix): value
        for key, value in settings.items()
        if key.startswith(prefix)
    }
    # Without the cutoff of a metric.
    chosen = {
        key: value.partition("@")[0]
        for key, value in values.items()
        if isinstance(value, str)
    }
    with suppress(
        ConfigError
    ):  # a library that is not installed, a class of an old record
        if prefix or is_ours(target):
            unmet = without_effect(
                find_class(target, object, "model"), chosen, target.split(".")[-2]
            )
            return {f"{prefix}{item.name}" for item, *_ in unmet}
    return set()


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings by their full names, such as early_stopping.metric."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_of(run: Run) -> DataCell:
    """Returns the cell of a run."""
    data = run.result.data
    train, valid, test = (
        data.get(split, {}).get("fingerprint") for split in DATA_SPLITS
    )
    whole_train = data.get("resample", {}).get("train", train)
    return DataCell(
        str(data["name"]), data.get("fold"), whole_train, valid, test, run.result.repeat
    )


def describe_cells(cells: Sequence[DataCell]) -> str:
    """Returns the folds of the cells as text, such as "folds 1, 3", or "the test set".

    >>> describe_cells([DataCell("mine", fold, None, None, None, 7) for fold in (1, 3)])
    'folds 1, 3 of data.split_seed=7'
    """
    if any(cell.fold is None for cell in cells):
        return "the test set" if len(cells) == 1 else f"{len(cells)} of the test sets"
    return listed(
        [
            f"fold{'s' * (len(of_repeat) > 1)} {', '.join(str(cell.fold) for cell in of_repeat)}"
            + (f" of data.split_seed={repeat}" if repeat is not None else "")
            for repeat, of_repeat in grouped(cells, lambda cell: cell.repeat).items()
        ]
    )


# ---- Settings of a comparison.

BEST = "best"
"""Baseline name for the row with the highest mean. Its intervals are simultaneous over all pairs, because the
same numbers chose it."""


def percent(level: float) -> str:
    """Returns an error level in percent.

    >>> percent(0.05), percent(0.05 / 4), percent(0.05 / 6)
    ('5 %', '1.25 %', '0.833 %')
    """
    return f"{100 * level:.3g} %"


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        metric: Primary metric, which carries claims; None for the ndcg with the largest cutoff that the runs
            report.
        guards: Conditions on a model that replaces the baseline. Their metrics carry claims, too.
        latency: Returns the time to score a list with the model of a row, in ms, for the guard of latency;
            None without a model.
        family: Metrics that carry claims together with the primary metric, corrected for their number. The
            first one is the primary metric if `metric` is None.
        baseline: Label of a row or name of a model; "best" or None for the row with the highest mean.
        convention: Convention of every metric.
        allow_mismatch: Whether runs on different data or splits may be in one table.
        rope: Half the width of the region of practical equivalence, in units of the claimed metrics, which
            must declare the same one; None for the region that each metric declares.
        detect: Difference for which queries are planned; None for the width of the region of equivalence.
        level: Error level of all claims of the comparison together. Divide it by the number of comparisons of
            the same runs that you make; the command line does so (`ltrbench.sweep.ledger`).
        selected: Reason why runs are left out. With a reason, a row that lacks test sets is paired with the
            others over the common test sets; without one, it is left out of paired tests.
        num_draws: Number of draws of the bootstrap and of the randomisation test.
        seed: Seed of both.
    """

    metric: str | None = None
    family: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    latency: Callable[[EvaluatedRow], float | None] | None = None
    baseline: str | None = None
    convention: Convention = DEFAULT
    allow_mismatch: bool = False
    rope: float | None = None
    detect: float | None = None
    level: float = LEVEL
    selected: str = ""
    num_draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError if a metric is unknown, a number is out of range, or `rope` has no unit."""
        for name, value in (
            ("rope", self.rope),
            ("detect", self.detect),
            ("level", self.level),
        ):
            require(name, value, above=0)
        for name in filter(None, self.claimed_metrics):
            self.rope_of(name)

    def rope_of(self, metric: str) -> float:
        """Returns half the width of the region of practical equivalence of a metric; 0: it declares none.

        Raises:
            ConfigError: `rope` is set, but a metric declares no region, or they have different ones, so the
                unit of `rope` is not known.
        """
        names = (name for name in (*self.claimed_metrics, metric) if name is not None)
        regions = {name: rope_of(self.guard_of(name).metric) for name in names}
        if self.rope is None:
            return regions[metric]
        if len(set(regions.values())) > 1 or not regions[metric]:
            declared = ", ".join(
                f"{rope:g} of {name}" for name, rope in regions.items()
            )
            raise ConfigError(
                f"rope is {self.rope}, but its unit is not clear: the metrics declare the regions of "
                f"equivalence {declared} (0: none). Leave out rope, or declare it: @metric(NAME, rope=2.0)."
            )
        return self.rope

    def detect_of(self, metric: str) -> float:
        """Returns the difference for which queries are planned: `detect`, or the width of the region of
        practical equivalence; 0 if the metric declares none."""
        return self.detect or 2 * self.rope_of(metric)

    @property
    def confidence(self) -> str:
        """The confidence of the simultaneous intervals, such as "95 %", which is 100 % minus the level."""
        return f"{100 - float(percent(self.level).split()[0]):g} %"

    @property
    def names_baseline(self) -> bool:
        """Whether the baseline is a named row or model, and not the row with the highest mean."""
        return self.baseline not in (None, BEST)

    def level_of(self, metric: str) -> float:
        """Returns the error level of all claims in a metric.

        The primary metric and those of `family` share the level, because any of them may lead to a claim. A
        guard has the whole level: a model is shipped only if every guard holds, so that several guards make a
        false decision less likely, not more (intersection-union test: Berger, 1982, Technometrics 24).
        """
        primary = self.metric or next(iter(self.family), None)
        sharing = dict.fromkeys((primary, *self.family))
        return self.level / len(sharing) if metric in sharing else self.level

    @property
    def claimed_metrics(self) -> tuple[str | None, ...]:
        """The metrics that carry claims, the primary one first; None for the default metric."""
        primary = self.metric or next(iter(self.family), None)
        guards = (guard.name for guard in self.guards if guard.metric not in COSTS)
        return tuple(dict.fromkeys((primary, *self.family, *guards)))

    def guard_of(self, claimed: str) -> Guard:
        """Returns the guard of a claimed metric, with its metric and group; without one, the metric alone."""
        return next(
            (guard for guard in self.guards if guard.name == claimed),
            Guard(claimed, 0.0),
        )


# ---- Queries in several sets: found by their keys, and counted once.
#
# A query is identified by its key (`ltrbench.data.dataset`). All functions take arrays of keys, not runs.


def times_in_sets(keys_of_set: Sequence[QueryKeys]) -> NDArray[np.int64]:
    """Returns the number of sets that contain it, for each distinct query of one or more sets."""
    _, times = np.unique(
        np.concatenate([np.unique(keys) for keys in keys_of_set]), return_counts=True
    )
    return times


def reasons_against_folds(keys_of_cell: Mapping[DataCell, QueryKeys]) -> list[str]:
    """Returns why test sets are not the folds of a cross-validation, repeated or not; empty if they are."""
    known = [cell.train for cell in keys_of_cell if cell.train is not None]
    repeats = grouped(keys_of_cell, lambda cell: cell.repeat).values()
    keys_of_repeats = [[keys_of_cell[cell] for cell in cells] for cells in repeats]
    common = sum(int((times_in_sets(keys) > 1).sum()) for keys in keys_of_repeats)
    first, *others = map(np.concatenate, keys_of_repeats)
    reasons = (
        ["Folds have the same training set"] if len(set(known)) < len(known) else []
    )
    reasons += (
        [f"The test sets of folds have {common:,} queries in common"] if common else []
    )
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
    sums = np.array(
        [np.bincount(number, row * sample.weights) for row in sample.values],
        dtype=np.float64,
    )
    strata = sample.strata[firsts]
    if (strata[number] != sample.strata).any():
        strata = np.zeros_like(strata)
    return PairedSample(sums / weights, weights.astype(np.float64), strata)


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
        repeated = [
            runs
            for items in self.cells.values()
            for runs in _by_resample(items).values()
        ]
        return any(len(runs) > 1 for runs in repeated) and all(
            map(_have_same_scores, repeated)
        )

    def mean(self, metric: str) -> float | None:
        """Returns the mean over cells of the mean over runs; None if no query counts in any cell."""
        means = [
            fmean(item.evaluation.means[metric] for item in items)
            for items in self.cells.values()
        ]
        known = [mean for mean in means if not isnan(mean)]
        return fmean(known) if known else None


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
        is_yardstick: Whether the model is a yardstick, such as a random ranker, or an ensemble, whose
            differences to its members vary less than those between other models.
    """

    values: NDArray[np.float64]
    keys: tuple[int, ...]
    resample: Mapping[str, Any] | None
    is_constant: bool
    ranker_class: str
    seconds: float
    search_seeds: frozenset[int]
    is_imported: bool
    is_yardstick: bool

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
        scope_of_folds: Scope of a claim over the cells if they are folds: `LATER` with `cv_split=forward`.
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
    scope_of_folds: str = METHODS

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
        keys = {
            self.cells[number]: self.query_keys[inside]
            for number, inside in self.counting_cells.items()
        }
        return (
            all(cell.fold is not None for cell in self.cells)
            and len({cell.fold_and_repeat for cell in self.cells}) == len(self.cells)
            # The training set is None if models have different ones.
            and all(cell.train is not None for cell in self.cells)
            and not reasons_against_folds(keys)
            and self.test_share is not None
            and len(keys) > 1
        )

    @property
    def num_folds(self) -> int:
        """Number of folds of each repeat of a cross-validation, of those in which a query counts."""
        return len({self.cells[number].fold for number in self.counting_cells})

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
        cell_of_run: Cell of a run; without its training set, runs with different ones can be paired.

    Raises:
        UndefinedMetricError: The convention does not define a metric that carries claims.
    """
    # The labels of a cell are read once, from its first run.
    first: dict[DataCell, tuple[Run, Judgments]] = {}
    scored_runs: dict[str, list[tuple[Run, ScoredSplit]]] = {
        label: [] for label in rows
    }
    for label, runs in rows.items():
        for run in runs:
            cell = cell_of_run(run)
            scored = run.scored("test", first[cell][1] if cell in first else None)
            first.setdefault(cell, (run, scored.judgments))
            scored_runs[label].append((run, scored))
    defined = [
        *claimed,
        *(name for name in others if _is_defined(name, convention, first.values())),
    ]

    def evaluated(run: Run, scored: ScoredSplit) -> EvaluatedRun:
        cell = cell_of_run(run)
        reader, judgments = first[cell]
        if convention.unanswered is None:
            with naming(run):
                check_scored(judgments, scored.scores)
        ranked, scores = judgments, scored.scores
        if scored.unjudged is not None and not convention.judged_only:
            ranked, scores = scored.unjudged.added_to(judgments, scores)
        with naming(reader):
            evaluation = evaluate(ranked, scores, defined, convention)
        return EvaluatedRun(
            run, cell, judgments, scored.scores, evaluation, scored.query_keys
        )

    return [
        EvaluatedRow(label, tuple(evaluated(run, scored) for run, scored in items))
        for label, items in scored_runs.items()
    ]


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
    return dict(sorted(resamples.items(), key=lambda resample: resample[0] or 0))


def _have_same_scores(items: Sequence[EvaluatedRun]) -> bool:
    first, *others = (item.scores for item in items)
    return all(np.array_equal(first, scores, equal_nan=True) for scores in others)


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
        by_key = {
            int(number or 0): runs for number, runs in _by_resample(items).items()
        }
    else:
        by_seed = sorted(items, key=lambda item: item.run.result.seed)
        by_key = {
            item.run.result.seed: [item]
            for item in (by_seed[:1] if is_constant else by_seed)
        }
    values = [
        np.mean([run.evaluation.per_query[metric] for run in runs], axis=0)
        for runs in by_key.values()
    ]
    origin, ranker_class = first.result.origin, first.result.ranker.get("class")
    if isinstance(origin, Variant):
        ranker_class = origin.ranker
    return Trainings(
        values=np.stack(values),
        keys=tuple(by_key),
        resample=resample,
        is_constant=is_constant,
        ranker_class=str(ranker_class or first.result.model),
        seconds=fmean(
            sum(_seconds(run.run, len(row.cells)) for run in runs)
            for runs in by_key.values()
        ),
        search_seeds=search_seeds,
        is_imported=origin.is_imported,
        is_yardstick=first.result.model in YARDSTICKS or not origin.is_independent,
    )


def _seconds(run: Run, num_cells: int) -> float:
    """Returns the time of a run from start to finish without warm-up, with its part of its search."""
    result, shared_by = run.result, 1 if is_per_fold(run) else num_cells
    # The members of an ensemble are other rows.
    seconds = 0.0 if isinstance(result.origin, Ensemble) else result.total_seconds
    # `started` and `finished` of a copied run are those of the copy.
    is_copied = isinstance(result.origin, Copied)
    if result.started and result.finished and not is_copied:
        whole = datetime.fromisoformat(result.finished) - datetime.fromisoformat(
            result.started
        )
        seconds = max(
            seconds, whole.total_seconds() - result.seconds.get("warm_up", 0.0)
        )
    return seconds + float(result.search.get("seconds", 0.0)) / shared_by


def arrange(
    rows: list[EvaluatedRow], selected: str = ""
) -> tuple[list[EvaluatedRow], list[EvaluatedRow], list[Remark]]:
    """Excludes each row that lacks a cell from paired tests; none is paired if fewer than two have all.

    With a reason, all rows are paired over the cells that all of them have, if there are any.

    Args:
        selected: As `Settings.selected`.

    Returns:
        All rows, with the runs in the cells that count; the rows in paired tests; a remark on those left out.
    """
    everywhere = set[DataCell]().union(*(row.cells for row in rows))
    common = everywhere.intersection(*(row.cells for row in rows))
    whole = [row for row in rows if row.cells.keys() == everywhere]
    if len(whole) == len(rows):
        return rows, rows, []
    cells_of = {
        row.label: sorted(everywhere - row.cells.keys(), key=_by_fold)
        for row in rows
        if row not in whole
    }
    lacking = grouped(cells_of, lambda label: describe_cells(cells_of[label]))
    counted, paired = rows, whole if len(whole) > 1 else []
    is_selected = bool(selected and common)
    if is_selected:
        counted = paired = [
            replace(
                row,
                evaluated=tuple(item for item in row.evaluated if item.cell in common),
            )
            for row in rows
        ]
    missing = Remark.of(
        Kind.MISSING_RUNS,
        lacking=lacking,
        common=len(common),
        num_sets=len(everywhere),
        selected=selected if is_selected else "",
        are_paired=bool(paired),
    )
    return counted, paired, [missing]


def _by_fold(cell: DataCell) -> tuple[str, int, int, str]:
    """Returns a key that sorts cells by data set and fold, fold 2 before fold 10."""
    return cell.data, cell.repeat or 0, cell.fold or 0, str(cell)


def pair_queries(
    rows: Sequence[EvaluatedRow], metric: str, inside: NDArray[np.bool_] | None = None
) -> PairedQueries | None:
    """Returns the values of the rows query by query, over all cells; None if no query counts.

    Args:
        inside: (Q,), which of the queries that count are in a group; None for all of them.
    """
    firsts = [items[0] for items in rows[0].cells.values()] if rows else []
    numbers: list[NDArray[np.int64]] = []
    weights: list[PerQuery] = []
    trainings: list[list[Trainings]] = []
    for first in firsts:
        weighting = first.evaluation.weightings[metric]
        of_cell = [_trainings(row, first.cell, metric) for row in rows]
        counts = ~np.isnan(
            np.concatenate([training.values for training in of_cell])
        ).any(axis=0)
        if inside is not None:
            counts[counts], inside = np.split(inside, [counts.sum()])
        numbers.append(np.flatnonzero(counts))
        weights.append(weighting.weights[counts])
        trainings.append(
            [
                replace(item, values=weighting.rescaled(item.values)[:, counts])
                for item in of_cell
            ]
        )
    if not any(map(len, numbers)):
        return None
    of_rows = tuple(zip(*trainings, strict=True))
    means = [
        np.concatenate([training.values.mean(axis=0) for training in of_row])
        for of_row in of_rows
    ]
    cell_of_query = np.repeat(np.arange(len(firsts)), [*map(len, numbers)])
    keys = [
        first.query_keys[of_cell]
        for first, of_cell in zip(firsts, numbers, strict=True)
    ]
    kinds_of_folds = {
        first.run.result.source.get("fields", {}).get("cv_split") for first in firsts
    }
    return PairedQueries(
        labels=tuple(row.label for row in rows),
        sample=PairedSample.of(np.stack(means), np.concatenate(weights), cell_of_query),
        cells=tuple(first.cell for first in firsts),
        cell_of_query=cell_of_query,
        query_in_cell=np.concatenate(numbers),
        judgments=tuple(first.judgments for first in firsts),
        test_share=_test_share([first.run for first in firsts]),
        trainings=of_rows,
        query_keys=np.concatenate(keys),
        scope_of_folds=LATER if kinds_of_folds == {FORWARD} else METHODS,
    )


def is_tuned(queries: PairedQueries, row: int) -> bool:
    """Returns whether searches chose the settings of a row."""
    return all(of_cell.search_seeds for of_cell in queries.trainings[row])


def is_tuned_again(queries: PairedQueries, row: int) -> bool:
    """Returns whether a row has searches with several seeds in each cell."""
    return all(len(of_cell.search_seeds) > 1 for of_cell in queries.trainings[row])


def tuned_once(queries: PairedQueries | None) -> list[str]:
    """Returns the labels of the paired rows that were tuned, but not again with other search seeds."""
    if queries is None:
        return []
    return [
        label
        for number, label in enumerate(queries.labels)
        if is_tuned(queries, number) and not is_tuned_again(queries, number)
    ]


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
