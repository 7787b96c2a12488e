"""Searches for settings: budgets, what a search improved, which settings matter, and which are as good.

A search sees train and validation only. Values on test are those of the chosen settings, trained once for
each model and fold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from ltrbench.compare.cells import (
    cell_of,
    grouped,
    is_per_fold,
    settings_without_search,
)
from ltrbench.compare.claims import Pair, against
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.fairness import searched_runs
from ltrbench.compare.table import EvaluatedRun, ModelRow
from ltrbench.metrics import DEFAULT
from ltrbench.plots import PAPER, Page, Series, best_by_trials
from ltrbench.runs.record import COMPLETE, UNSUCCESSFUL, TrialRow
from ltrbench.statistics.claims import expected_best
from ltrbench.tables import format_setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INDEPENDENT = ("random",)
"""Searches that draw their trials independently, by the name of their YAML."""


@dataclass(frozen=True)
class SearchedRun:
    """One search.

    Attributes:
        fold: Fold that it chose settings for, in words; empty without folds, and for a search over all folds.
        record: `RunResult.search`.
        trials: All trials, in the order of their numbers; empty if they are not recorded.
    """

    fold: str
    record: Mapping[str, Any]
    trials: tuple[TrialRow, ...]

    @property
    def chosen(self) -> TrialRow | None:
        """The chosen trial; None if the trials are not recorded."""
        number = self.record.get("chosen")
        return next((trial for trial in self.trials if trial.trial == number), None)

    @property
    def default(self) -> TrialRow | None:
        """The first complete trial with the default settings; None without one, as in most grids."""
        return next(filter(self._has_default_settings, self.complete), None)

    def _has_default_settings(self, trial: TrialRow) -> bool:
        defaults = self.record["default"].items()
        return all(
            _is_setting(trial.settings.get(name, ""), value) for name, value in defaults
        )

    @property
    def complete(self) -> list[TrialRow]:
        """The trials that were trained fully, in order."""
        return [trial for trial in self.trials if trial.state == COMPLETE]

    @property
    def alike(self) -> list[TrialRow]:
        """The complete trials that cannot be told apart from the chosen one on its validation set."""
        return [trial for trial in self.complete if trial.low <= 0 <= trial.high]

    @property
    def cheapest(self) -> TrialRow | None:
        """The trial of `alike` with the fewest iterations; with the shortest time in case of ties."""
        return min(
            self.alike,
            key=lambda trial: (trial.iterations, trial.seconds),
            default=None,
        )

    @property
    def draws_independently(self) -> bool:
        """Whether the trials were drawn independently and trained fully, as `expected_best` assumes."""
        whole = all(trial.state in (COMPLETE, UNSUCCESSFUL) for trial in self.trials)
        return whole and self.record.get("name") in _INDEPENDENT

    @property
    def best_by_trials(self) -> list[float]:
        """Best value on validation after 1, 2, ... trials; NaN before the first complete one.

        With independent draws it is the expected value over their order (`expected_best`); their first trial,
        with the default settings, is always the first one. Otherwise it is the best value so far.
        """
        values = np.array(
            [trial.value if trial.state == COMPLETE else nan for trial in self.trials]
        )
        if not len(values):
            return []
        if len(values) < 2 or not self.draws_independently or isnan(values[0]):
            return [float(value) for value in np.fmax.accumulate(values)]
        # A trial that failed leaves the default settings as the best ones.
        drawn = np.fmax(values[1:], values[0])
        return [float(values[0]), *expected_best(drawn).tolist()]


def _is_setting(text: str, value: object) -> bool:
    """Returns whether the text of a setting in trials.csv is a value.

    >>> _is_setting("0.0", 0), _is_setting("null", None), _is_setting("31", 63)
    (True, True, False)
    """
    if text == format_setting(value):
        return True
    try:
        return float(text) == value
    except ValueError:
        return False


@dataclass(frozen=True)
class Tuning:
    """The searches of one row of a comparison.

    Attributes:
        row: The row.
        metric: Metric of the searches on validation, under the default convention.
        searches: The searches, in the order of the runs; one that chose for several runs counts once.
        num_settings: Number of settings that the model could vary.
        trials, iterations, seconds: Means over the searches.
        default_value, chosen_value: Values on validation of the default and the chosen settings: means over
            folds of the means over runs; None if not available, as if no trial has the default settings.
        test_value: The same metric on test, of the chosen settings; None if the comparison does not have it
            or has another convention.
        sd_over_searches: Standard deviation of the value on test over searches with different seeds; None
            with fewer than two, or under another convention.
        untuned: This row minus the row with the default settings on test; None if the table has no such row
            or several, the rows are not paired, or the comparison has another metric or convention.
    """

    row: ModelRow
    metric: str
    searches: tuple[SearchedRun, ...]
    num_settings: int
    trials: float
    iterations: float
    seconds: float
    default_value: float | None
    chosen_value: float | None
    test_value: float | None
    sd_over_searches: float | None
    untuned: Pair | None

    @property
    def label(self) -> str:
        return self.row.label

    @property
    def begins_with_default(self) -> bool:
        """Whether the first trial of each search has the default settings; not so in a grid."""
        firsts = [search.default for search in self.searches]
        return all(trial is not None and trial.trial == 0 for trial in firsts)

    @property
    def tunability(self) -> float | None:
        """Chosen minus default settings on validation.

        The tunability of a model on a data set (Probst, Boulesteix and Bischl, 2019, JMLR 20(53)): the gain
        of the best settings over a default, here the settings without the search. The chosen value is the
        highest of many on the same queries, and therefore too high.
        """
        if self.chosen_value is None or self.default_value is None:
            return None
        return self.chosen_value - self.default_value

    @property
    def gap(self) -> float | None:
        """Validation minus test of the chosen settings."""
        if self.chosen_value is None or self.test_value is None:
            return None
        return self.chosen_value - self.test_value

    @property
    def importance(self) -> dict[str, float]:
        """Setting -> share of the variance that it explains, mean over the searches; descending."""
        recorded = [
            search.record["importance"]
            for search in self.searches
            if search.record["importance"]
        ]
        names = dict.fromkeys(itertools.chain.from_iterable(recorded))
        means = {
            name: fmean(shares.get(name, 0.0) for shares in recorded) for name in names
        }
        largest_first = sorted(means, key=means.__getitem__, reverse=True)
        return {name: means[name] for name in largest_first}

    @property
    def best_by_trials(self) -> list[float]:
        """Mean over the searches of `SearchedRun.best_by_trials`, up to the shortest one."""
        curves = [search.best_by_trials for search in self.searches]
        return [fmean(values) for values in zip(*curves, strict=False)]

    @property
    def is_expected(self) -> bool:
        """Whether `best_by_trials` is an expected value; if not, it is the best value so far."""
        return all(search.draws_independently for search in self.searches)


def tunings(comparison: Comparison) -> list[Tuning]:
    """Returns the searches of each row that has any, in the order of the rows."""
    searched = [
        row for row in comparison.rows if any(run.result.search for run in row.runs)
    ]
    return [_tuning(comparison, row) for row in searched]


def _tuning(comparison: Comparison, row: ModelRow) -> Tuning:
    searches = []
    for run in searched_runs(row):
        fold = cell_of(run).words if is_per_fold(run) else ""
        trials = tuple(run.trials())
        searches.append(SearchedRun(fold, run.result.search, trials))
    records = [search.record for search in searches]
    metric = str(records[0]["metric"])
    # The values of a search are under the default convention, and a difference needs one convention.
    is_default = comparison.settings.convention.name == DEFAULT.name
    test_value = None
    sd_over_searches = None
    untuned = None
    if is_default:
        test_value = row.metrics.get(metric)
        sd_over_searches = _sd_over_searches(row, metric)
    if is_default and metric == comparison.metric:
        untuned = _against_untuned(comparison, row)
    default_values = [(search.fold, search.default) for search in searches]
    chosen_values = [(search.fold, search.chosen) for search in searches]
    return Tuning(
        row=row,
        metric=metric,
        searches=tuple(searches),
        num_settings=max(len(record["space"]) for record in records),
        trials=fmean(record["trials"] for record in records),
        iterations=fmean(record["iterations"] for record in records),
        seconds=fmean(record["seconds"] for record in records),
        default_value=_over_folds(default_values),
        chosen_value=_over_folds(chosen_values),
        test_value=test_value,
        sd_over_searches=sd_over_searches,
        untuned=untuned,
    )


def _sd_over_searches(row: ModelRow, metric: str) -> float | None:
    """Returns the standard deviation of the test means by seed of the search; None with fewer than two."""
    if metric not in row.metrics:
        return None

    def seed(item: EvaluatedRun) -> object:
        return item.run.result.search.get("seed")

    seeds = grouped(row.evaluated, seed)
    known = []
    for items in seeds.values():
        mean = replace(row, evaluated=tuple(items)).mean(metric)
        if mean is not None:
            known.append(mean)
    return stdev(known) if len(known) > 1 else None


def _over_folds(trial_of_fold: Iterable[tuple[str, TrialRow | None]]) -> float | None:
    """Returns the mean over folds of the means over searches; None if a search has no such trial."""
    values: dict[str, list[float]] = {}
    for fold, trial in trial_of_fold:
        if trial is None:
            return None
        values.setdefault(fold, []).append(trial.value)
    return fmean(map(fmean, values.values()))


def _against_untuned(comparison: Comparison, row: ModelRow) -> Pair | None:
    """Returns a row minus the row that differs from it in the search alone; None unless there is one."""
    in_same_cells = [
        other for other in comparison.rows if other.cells.keys() == row.cells.keys()
    ]
    fitting = [other for other in in_same_cells if _is_untuned(other, row)]
    if len(fitting) != 1:
        return None
    pairs = against(comparison.pairs, fitting[0].label)
    return next((pair for pair in pairs if pair.a == row.label), None)


def _is_untuned(other: ModelRow, tuned: ModelRow) -> bool:
    """Returns whether a row without a search has the default settings of a search and else equal settings."""
    if other.source != tuned.source or other.is_tuned:
        return False
    chosen = tuned.runs[0]
    default = chosen.result.search["default"]
    expected = settings_without_search(chosen)
    for run in other.runs:
        settings = settings_without_search(run)
        given = _settings_apart_from(settings, default)
        equal = given == _settings_apart_from(expected, default)
        if not equal or run.result.params != chosen.result.params:
            return False
        for name, value in default.items():
            of_objective = settings.get(f"objective.{name}")
            if value not in (settings.get(name), of_objective):
                return False
    return True


def _settings_apart_from(
    settings: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Returns settings without those with these names, of the model or of its objective."""
    of_objective = {f"objective.{name}" for name in names}
    kept = settings.keys() - {*names} - of_objective
    return {name: settings[name] for name in kept}


# ---- The picture of the searches of a comparison.


def budget_picture(searched: Sequence[Tuning], page: Page = PAPER) -> Figure | None:
    """Returns the best value by number of trials; None without searches in one metric."""
    metrics = {item.metric for item in searched}
    if len(metrics) != 1:
        return None
    curves = []
    for item in searched:
        test = None
        if item.test_value is not None:
            test = (item.trials, item.test_value)
        series = series_of_search(item)
        curves.append(replace(series, best=item.best_by_trials, test=test))
    are_expected = all(item.is_expected for item in searched)
    return best_by_trials(curves, metrics.pop(), are_expected, page)


def series_of_search(item: Tuning) -> Series:
    """Returns a row with a search for pictures."""
    return Series(label=item.label, model=item.row.model, runs=item.row.runs)
