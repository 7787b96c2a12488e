"""The contract of a search: it proposes trials, and sees how they end.

A trial trains a model on the training set and evaluates it on the validation set; it never sees the test set.
To add a search, write one dataclass derived from `Search` and one YAML in conf/search whose `_target_` names
it.

`Search.propose` is a function of the settings of the search and of the trials that have ended, in the order
of their numbers. It is called again when all proposed trials have ended. A search therefore proposes the same
trials whatever the number of workers, and an interrupted search continues from the run folders of its trials.
"""

from __future__ import annotations

import itertools
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any, TypeGuard

import numpy as np

from ltrbench.errors import ConfigError, did_you_mean, require, require_choice
from ltrbench.metrics import parse_metric
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.untrusted import validation_error

# ---- The search space: the settings that a search varies, and their ranges, one space for all backends.

Value = bool | int | float | str | None
"""Value of a setting of a ranker."""


# Not frozen, because OmegaConf makes the fields of a frozen dataclass read-only.
@dataclass
class Range:
    """The values of one setting: an interval, or a list of values.

    Attributes:
        low, high: smallest and largest value. The range has whole numbers only if both are whole.
        log: whether small values are as likely as large ones, on a logarithmic scale.
        values: all values instead of an interval.

    `Space` checks its ranges.
    """

    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    values: list[Any] | None = None

    def check(self, key: str) -> None:
        """
        Args:
            key: the setting, for the message.

        Raises:
            ConfigError: the range has both or neither of the two forms, is empty, or has no logarithm.
        """
        if self.values is not None:
            is_valid = isinstance(self.values, list) and bool(self.values)
            is_valid &= (self.low, self.high, self.log) == (None, None, False)
        else:
            is_valid = _is_number(self.low) and _is_number(self.high) and self.low < self.high
            is_valid = is_valid and not (self.log and self.bounds[0] <= 0)
        if not is_valid:
            given = ", ".join(f"{name}: {value}" for name, value in vars(self).items() if value)
            raise ConfigError(
                f"{key} is {{{given}}}. Set low below high, two finite numbers, above 0 with log: true; or "
                "only values, a list that is not empty."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of an interval."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def is_integer(self) -> bool:
        """Whether an interval has whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: Value) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.bounds
        return _is_number(value) and low <= value <= high

    def __str__(self) -> str:
        if self.values is not None:
            return ", ".join(map(str, self.values))
        return f"{self.low} to {self.high}{' (log)' if self.log else ''}"


@dataclass
class Space:
    """Ranges of settings.

    Attributes:
        shared: shared parameter -> its range, the same for every model.
        models: model -> setting of its own -> its range.

    Raises:
        ConfigError: a name in `shared` is not a shared parameter, or a range is not valid.
    """

    shared: dict[str, Range] = field(default_factory=dict)
    models: dict[str, dict[str, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.shared:
            if name not in SHARED:
                raise ConfigError(
                    f"search.space.shared.{name}: '{name}' is not a shared parameter"
                    f"{did_you_mean(name, list(SHARED))} Ranges of other settings belong to "
                    f"search.space.models.MODEL.{name}."
                )
            self.shared[name].check(f"search.space.shared.{name}")
        # OmegaConf leaves the values of a dict in a dict as they are.
        self.models = {
            model: {
                name: _range(f"search.space.models.{model}.{name}", values) for name, values in ranges.items()
            }
            for model, ranges in self.models.items()
        }

    def of(self, model: str, ranker: Ranker) -> dict[str, Range]:
        """Returns setting -> range of the settings that a model can vary.

        A shared parameter that the backend does not have is left out, so that models may vary different
        numbers of settings.

        Raises:
            ConfigError: `models` names a setting that the model does not have, or a range has a value that
                the model refuses.
        """
        if ranker.is_yardstick:
            return {}
        known = {item.name for item in fields(ranker) if item.init and item.name not in OF_EVERY_RANKER}
        shared = {
            name: values
            for name, values in self.shared.items()
            if name in known and _takes(ranker, name, values, f"search.space.shared.{name}")
        }
        of_model = self.models.get(model, {})
        for name, values in of_model.items():
            key = f"search.space.models.{model}.{name}"
            if name not in known:
                raise ConfigError(
                    f"{key}: {model} has no setting '{name}' that a search can vary"
                    f"{did_you_mean(name, sorted(known))}"
                )
            _takes(ranker, name, values, key, must=True)
        return {**shared, **of_model}


def _range(key: str, given: Range | Mapping[str, Any]) -> Range:
    """Returns a valid range, from a range or from its fields.

    Raises:
        ConfigError: a field does not exist, or a value is not valid.
    """
    try:
        values = given if isinstance(given, Range) else Range(**given)
    except TypeError as error:
        raise ConfigError(
            f"{key} is {given!r} ({error}); set {{low: ..., high: ...}} or {{values: [...]}}."
        ) from None
    values.check(key)
    return values


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _takes(ranker: Ranker, name: str, values: Range, key: str, must: bool = False) -> bool:
    """Returns whether a backend takes the ends or values of a range; it refuses all of them for a shared
    parameter without effect.

    Raises:
        ConfigError: a value has the wrong type, or the backend refuses one value and takes another.
    """
    hint = typing.get_type_hints(type(ranker))[name]
    tried: list[Any] = list(values.bounds) if values.values is None else values.values
    refused: list[str] = []
    for value in tried:
        if validation_error(value, hint, key):
            kind = getattr(hint, "__name__", str(hint))
            raise ConfigError(
                f"{key} contains {value!r}, but the setting has the type {kind}. Write whole numbers "
                "without a point, or list values of that type."
            )
        try:
            replace(ranker, **{name: value})
        except ConfigError as error:
            refused.append(f"{key} contains {value}: {error}")
    if refused and (must or len(refused) < len(tried)):
        raise ConfigError(refused[0])
    return not refused


def settings_of(ranker: Ranker, space: Mapping[str, Range]) -> dict[str, Value]:
    """Returns the present values of the settings that a search varies: the default trial."""
    return {name: getattr(ranker, name) for name in space}


CHOICES = PER_FOLD, OVERALL, ACROSS_DATA = "per_fold", "overall", "across"
"""Values of `Search.choose`."""

BATCH = 8
"""Number of trials that are proposed together, if a search does not propose all of them at once."""


@dataclass(frozen=True)
class Proposal:
    """A trial that a search wants.

    Attributes:
        number: number of the trial, from 0.
        settings: setting of the ranker -> value.
        num_trees: maximum number of trees; None: that of the ranker.
        num_folds: number of folds to train on, in the order of the sweep; None: all. Only for a search that
            chooses one setting for several folds.
        minimum: number of trees -> the fit ends there if its best value so far is below this one.
    """

    number: int
    settings: Mapping[str, Value]
    num_trees: int | None = None
    num_folds: int | None = None
    minimum: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """A trial that has ended. For several folds: means of the values, sums of iterations and seconds.

    Attributes:
        value: metric on validation at the best iteration; None: the trial failed.
        iterations: number of iterations fitted.
        seconds: time of the fits.
        curve: number of trees -> best value so far, in order.
        is_pruned: whether `Proposal.minimum` ended a fit.
    """

    proposal: Proposal
    value: float | None
    iterations: int = 0
    seconds: float = 0.0
    curve: Mapping[int, float] = field(default_factory=dict)
    is_pruned: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the setting was trained fully, on all folds, so that it may be chosen."""
        proposal = self.proposal
        is_whole = proposal.num_trees is None and proposal.num_folds is None and not self.is_pruned
        return is_whole and self.value is not None


@dataclass(frozen=True)
class SearchedModel:
    """A model whose settings are searched.

    Attributes:
        space: the settings that the model can vary.
        default: their present values, which need not be in their ranges.
        num_trees: maximum number of trees.
        num_folds: number of folds that share the choice.
    """

    space: Mapping[str, Range]
    default: Mapping[str, Value]
    num_trees: int
    num_folds: int = 1


@dataclass(kw_only=True)
class Search(ABC):
    """Base class of searches.

    Attributes:
        space: the settings to vary.
        trials: number of trials for each model and fold. The first one has the default settings.
        seconds: instead of a number of trials, the time of all fits after which no trial begins; the result
            then depends on the machine. None: no limit.
        seed: random seed of the search, and of the models of its trials.
        metric: metric on the validation set, under the default convention.
        choose: per_fold: a setting for each fold, by its own validation set; overall: one setting for all
            folds of a data set; across: one setting for all folds and data sets. A search is refused if the
            choice would see test queries.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    space: Space = field(default_factory=Space)
    trials: int = 50
    seconds: float | None = None
    seed: int = 0
    metric: str = "ndcg@10"
    choose: str = PER_FOLD

    def __post_init__(self) -> None:
        require("search.trials", self.trials, at_least=1)
        require("search.seed", self.seed, at_least=0)
        if self.seconds is not None:
            require("search.seconds", self.seconds, above=0)
        parse_metric(self.metric)
        require_choice("search.choose", self.choose, CHOICES)

    @abstractmethod
    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        """Returns the next proposals; none if the search has ended.

        Args:
            model: the model whose settings are searched.
            trials: all trials so far, in the order of their numbers.

        Raises:
            ConfigError: the search does not fit the space.
        """

    def has_time(self, trials: Sequence[Trial]) -> bool:
        """Returns whether another trial may begin."""
        return self.seconds is None or sum(trial.seconds for trial in trials) < self.seconds

    def next_numbers(self, trials: Sequence[Trial], batch: int | None) -> range:
        """Returns the numbers of the next trials: the rest of a batch.

        Batches begin at multiples of their size, wherever a search was interrupted.

        With `seconds`, `trials` is no limit; the search then ends also after a batch in which every trial
        failed, because failed trials take no time.

        Args:
            batch: number of trials of a batch; None: one batch with all trials.
        """
        begin = len(trials)
        if self.seconds is None:
            end = self.trials
        else:
            batch = batch or BATCH
            last = trials[-batch:]
            has_failed = len(last) == batch and all(trial.value is None for trial in last)
            end = begin if has_failed or not self.has_time(trials) else begin + batch
        return range(begin, end if batch is None else min(end, begin - begin % batch + batch))


@dataclass(kw_only=True)
class NoSearch(Search):
    """No search: `resolved` of the configuration turns it into null."""

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        return []


# ---- Pruning: ends the fits of trials without prospect, by the learning curves of earlier trials.
#
# `Monitor` ends a fit at a number of trees if its best value so far is below a minimum. The curve of a trial
# that early stopping ended stays at its last value; that of a pruned trial ends.

CHECKPOINTS = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the maximum number of trees after which the median rule looks at a fit. A fit that is ended by
the first look has cost an eighth; after the last one it would save little."""


def median_minima(trials: Sequence[Trial], num_trees: int) -> dict[int, float]:
    """Returns, for each checkpoint s, the median of the best values so far of the trials that reached it.

    A fit ends at s if its best value so far is below. Golovin et al., 2017, "Google Vizier: A Service for
    Black-Box Optimization", section 3.2 (median stopping rule), which takes the median of running averages.

    Args:
        trials: trials of earlier batches.
        num_trees: maximum number of trees.
    """
    checkpoints = sorted({math.ceil(share * num_trees) for share in CHECKPOINTS} - {num_trees})
    values = {trees: [_value(trial, trees) for trial in trials] for trees in checkpoints}
    known = {trees: [value for value in reached if value is not None] for trees, reached in values.items()}
    return {trees: median(reached) for trees, reached in known.items() if reached}


def _value(trial: Trial, trees: int) -> float | None:
    """Returns the best value so far at a number of trees; None if the trial failed or did not reach it."""
    if trial.value is None or (trial.is_pruned and max(trial.curve) < trees):
        return None
    reached = [value for number, value in trial.curve.items() if number <= trees]
    return max(reached, default=None)


# ---- Grid search: every combination of evenly spaced values.


@dataclass(kw_only=True)
class FullGrid(Search):
    """Proposes the Cartesian product of the values of each setting. The default is not a trial.

    Attributes:
        levels: number of values of an interval, from its smallest to its largest value, with a constant ratio
            on a logarithmic range. Fewer if whole numbers coincide. A range with `values` has those.

    Raises:
        ConfigError: a value is out of range.
    """

    levels: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.levels", self.levels, at_least=2)

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        levels = {name: spaced_values(values, self.levels) for name, values in model.space.items()}
        size = math.prod(map(len, levels.values()))
        if self.seconds is None and size > self.trials:
            counts = " x ".join(f"{len(values)} {name}" for name, values in levels.items())
            raise ConfigError(
                f"the grid has {size} combinations ({counts}), but search.trials is {self.trials}. Set "
                f"search.trials={size}, fewer search.levels, or a smaller search.space."
            )
        numbers = range(len(trials), size)
        if self.seconds is not None:
            numbers = numbers[: len(self.next_numbers(trials, None))]
        grid = itertools.product(*levels.values())
        combinations = itertools.islice(grid, numbers.start, numbers.stop)
        return [
            Proposal(number, dict(zip(levels, values, strict=True)))
            for number, values in zip(numbers, combinations, strict=True)
        ]


def spaced_values(values: Range, number: int) -> list[Value]:
    """Returns evenly spaced values of a range, both ends included.

    >>> spaced_values(Range(1, 100, log=True), 3)
    [1, 10, 100]
    >>> spaced_values(Range(0.0, 1.0), 3)
    [0.0, 0.5, 1.0]
    >>> spaced_values(Range(1, 2), 3)
    [1, 2]
    """
    if values.values is not None:
        return values.values
    low, high = values.bounds
    spaced = np.geomspace(low, high, number) if values.log else np.linspace(low, high, number)
    if values.is_integer:
        return [int(value) for value in np.unique(np.rint(spaced).astype(np.int64))]
    # The ends exactly; values between them with few digits, because a table shows them.
    return [float(low), *(float(f"{value:.4g}") for value in spaced[1:-1]), float(high)]
