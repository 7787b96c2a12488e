"""Search for hyperparameters on validation data, with equal budgets for all models.

A search proposes trials, and sees how they end. A trial trains a model on the training set and evaluates it
on the validation set; it never sees the test set. To add a search, write one dataclass derived from `Search`
and one YAML in conf/search whose `_target_` names it.

`Search.propose` is a function of the settings of the search and of the trials that have ended, in the order
of their numbers. It is called again when all proposed trials have ended. A search therefore proposes the same
trials whatever the number of workers, and an interrupted search continues from the run folders of its trials.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import tempfile
import typing
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.metrics import parse_metric
from ltrbench.native.objectives.base import Objective, yamls
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.settings import check, replaced, setting, without_effect
from ltrbench.untrusted import validation_error

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

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

    def _is_valid(self) -> bool:
        if self.values is not None:
            has_no_bounds = (self.low, self.high, self.log) == (None, None, False)
            return isinstance(self.values, list) and self.values != [] and has_no_bounds
        if not _is_number(self.low) or not _is_number(self.high):
            return False
        if self.low >= self.high:
            return False
        return not self.log or self.bounds[0] > 0

    def check(self, key: str) -> None:
        """
        Args:
            key: the setting, for the message.

        Raises:
            ConfigError: the range has both or neither of the two forms, is empty, or has no logarithm.
        """
        if not self._is_valid():
            set_values = {name: value for name, value in vars(self).items() if value}
            given = ", ".join(f"{name}: {value}" for name, value in set_values.items())
            raise ConfigError(
                f"{key} is {{{given}}}. Set low below high, finite, above 0 with log: true; or only values, "
                "not empty."
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


_FIELDS_OF_RANGE = {item.name for item in fields(Range)}


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
                    f"search.space.shared.{name} is not a shared parameter{did_you_mean(name, SHARED)} Set "
                    f"search.space.models.MODEL.{name} for a setting of one model."
                )
            self.shared[name].check(f"search.space.shared.{name}")
        for model, ranges in self.models.items():
            named: dict[str, Any] = {}
            for name, values in dict[str, Any](ranges).items():
                # The command line nests the settings of an objective, which may also have a range itself.
                is_nested = name == "objective" and isinstance(values, Mapping)
                if is_nested and not values.keys() <= _FIELDS_OF_RANGE:
                    named |= {f"{name}.{key}": values[key] for key in values}
                else:
                    named[name] = values
            # OmegaConf leaves the values of a dict in a dict as they are.
            key = f"search.space.models.{model}"
            ranges = {}
            for name, values in named.items():
                ranges[name] = _range(f"{key}.{name}", values)
            self.models[model] = ranges

    def of(self, model: str, ranker: Ranker) -> dict[str, Range]:
        """Returns setting -> range of the settings that a model can vary; `objective.NAME` is a setting of
        its objective.

        A shared parameter that the backend does not have is left out, and so is a setting that belongs to
        another objective or loss, so that models may vary different numbers of settings.

        Raises:
            ConfigError: `models` names a setting that the model does not have, or a range has a value that
                the model refuses.
        """
        if ranker.is_yardstick:
            return {}
        known = _settings_of(ranker)
        ranges: dict[str, Range] = {}
        for name, values in self.shared.items():
            key = f"search.space.shared.{name}"
            if name in known and _takes(ranker, name, values, key):
                ranges[name] = values
        of_others = _settings_of_others(ranker, known)
        for name, values in self.models.get(model, {}).items():
            if name in of_others:
                continue
            key = f"search.space.models.{model}.{name}"
            if name not in known:
                close = did_you_mean(name, sorted(known))
                raise ConfigError(
                    f"{key}: {model} has no setting '{name}' that a search can vary{close}"
                )
            _takes(ranker, name, values, key, must=True)
            ranges[name] = values
        return ranges


def _settings_of(ranker: Ranker) -> set[str]:
    """Returns the names of the settings that a search can vary, with those of the objective."""
    known = {item.name for item in fields(ranker) if item.init}
    known.difference_update(OF_EVERY_RANKER)
    objective = vars(ranker).get("objective")
    if isinstance(objective, Objective):
        for item in fields(objective):
            known.add(f"objective.{item.name}")
    return known


def _settings_of_others(ranker: Ranker, known: Set[str]) -> set[str]:
    """Returns the names of settings that belong to another objective or loss than the ranker's.

    Args:
        known: the names of `_settings_of`.
    """
    of_ranker = vars(ranker)
    names = [name for name in ("objective", "loss") if of_ranker.get(name)]
    losses = {name: of_ranker[name] for name in names}
    of_others = {item.name for item, *_ in without_effect(ranker, losses)}
    if "objective" in known:
        of_yamls = set(itertools.chain.from_iterable(yamls().values()))
        of_others |= {f"objective.{name}" for name in of_yamls} - known
    return of_others


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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def _takes(
    ranker: Ranker, name: str, values: Range, key: str, must: bool = False
) -> bool:
    """Returns whether a backend takes the ends or values of a range; it refuses all of them for a shared
    parameter without effect.

    Raises:
        ConfigError: a value has the wrong type or is out of the range of the setting, or the backend refuses
            one value and takes another.
    """
    part, _, field_name = name.rpartition(".")
    owner = attrgetter(part)(ranker) if part else ranker
    hint = typing.get_type_hints(type(owner))[field_name]
    refuse = type(owner).__dataclass_fields__[field_name].metadata.get("refuse")
    tried: list[Any] = list(values.bounds) if values.values is None else values.values
    refused: list[str] = []
    for value in tried:
        if validation_error(value, hint, key):
            kind = getattr(hint, "__name__", str(hint))
            remedy = "Write values of this type, or leave out the setting."
            if isinstance(value, float):
                remedy = "Write whole numbers without a point."
            raise ConfigError(f"{key} contains {value!r}, not of type {kind}. {remedy}")
        try:
            if refuse:
                refuse(field_name, value)
        except ConfigError as error:
            raise ConfigError(f"{key} contains {value}: {error}") from None
        try:
            replaced(ranker, {name: value})
        except ConfigError as error:
            refused.append(f"{key} contains {value}: {error}")
    if refused and (must or len(refused) < len(tried)):
        raise ConfigError(refused[0])
    return not refused


def settings_of(ranker: Ranker, space: Mapping[str, Range]) -> dict[str, Value]:
    """Returns the present values of the settings that a search varies: the default trial."""
    return {name: attrgetter(name)(ranker) for name in space}


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
        is_whole = (
            proposal.num_trees is None
            and proposal.num_folds is None
            and not self.is_pruned
        )
        return is_whole and self.value is not None


@dataclass(frozen=True)
class SearchedModel:
    """A model whose settings are searched.

    Attributes:
        space: the settings that the model can vary.
        default: their present values, which need not be in their ranges.
        num_trees: maximum number of trees; 1 for a model without iterations.
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
        trials: number of trials for each model and fold. The first one has the default settings, except in a
            grid.
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
    trials: int = setting(50, at_least=1)
    seconds: float | None = setting(None, above=0)
    seed: int = setting(0, at_least=0)
    metric: str = "ndcg@10"
    choose: str = setting(PER_FOLD, choices=CHOICES)

    def __post_init__(self) -> None:
        try:
            import optuna as optuna
        except ImportError as error:
            raise ConfigError(
                "search needs Optuna: pip install 'ltrbench[search]'"
            ) from error
        check(self, "search.")
        parse_metric(self.metric)

    @abstractmethod
    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        """Returns the next proposals; none if the search has ended.

        Args:
            model: the model whose settings are searched.
            trials: all trials so far, in the order of their numbers.

        Raises:
            ConfigError: the search does not fit the space.
        """

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
            are_failed = [trial.value is None for trial in last]
            has_failed = len(last) == batch and all(are_failed)
            is_late = sum(trial.seconds for trial in trials) >= self.seconds
            end = begin if has_failed or is_late else begin + batch
        if batch is not None:
            end_of_batch = begin - begin % batch + batch
            end = min(end, end_of_batch)
        return range(begin, end)


@dataclass(kw_only=True)
class NoSearch(Search):
    """No search: `resolved` of the configuration turns it into null, and builds none."""

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
    numbers = {math.ceil(share * num_trees) for share in CHECKPOINTS}
    medians = {}
    for trees in sorted(numbers - {num_trees}):
        values = [_value(trial, trees) for trial in trials]
        reached = [value for value in values if value is not None]
        if reached:
            medians[trees] = median(reached)
    return medians


def _value(trial: Trial, trees: int) -> float | None:
    """Returns the best value so far at a number of trees; None if the trial failed or did not reach it."""
    if trial.value is None:
        return None
    if trial.is_pruned and max(trial.curve) < trees:
        return None
        return None
    reached = [value for number, value in trial.curve.items() if number <= trees]
    return max(reached, default=None)


# ---- Optuna draws settings, computes importances, and writes a file for Optuna's dashboard.
#
# Optuna has no state here. Each call builds a study in memory from the trials in the order of their numbers,
# and the random state of a trial depends on the seed of the search and the number of the trial only. So the
# same trials give the same proposals. Optuna is imported late, because only searches need it. Akiba et al.,
# 2019, "Optuna: A Next-generation Hyperparameter Optimization Framework".

SIGNIFICANT_DIGITS = 4
"""Digits of a drawn number, so that a table can show exactly the value that was trained."""
LEAST_TRIALS = 8
"""Minimum number of complete trials for importances."""
LEAST_IN_TARGET = 5
"""Minimum number of trials that Optuna advises for the best trials of PED-ANOVA."""


def draw(space: Mapping[str, Range], seed: int, number: int) -> dict[str, Value]:
    """Returns random settings for a trial: each value is drawn from its range, independently of the others.

    The value of a setting depends on the seed, the number of the trial, and the name and range of the setting
    only. So all backends try the same values of the settings that they share.
    """
    from optuna.samplers import RandomSampler

    with _quiet():
        study = _study({}, [], seed, number)
        settings = {}
        for name, values in space.items():
            of_setting = _seed(seed, number, zlib.crc32(name.encode()))
            study.sampler = RandomSampler(seed=of_setting)
            trial = study.ask({name: _distribution(values)})
            settings[name] = _round(values, trial.params[name])
    return settings


def ask(
    space: Mapping[str, Range],
    seed: int,
    trials: Sequence[Trial],
    numbers: Sequence[int],
) -> list[dict[str, Value]]:
    """Returns the settings of a batch of trials, proposed by a tree-structured Parzen estimator (TPE).

    TPE models the settings of the best trials by a density l(x), those of the others by a density g(x), and
    proposes the x with the largest l(x) / g(x) among candidates drawn from l. Bergstra et al., 2011,
    "Algorithms for Hyper-Parameter Optimization", section 4; here with joint densities of all settings, as in
    Falkner et al., 2018, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale". The trials of the
    batch that have been proposed already count as bad (the constant liar of Ginsbourger et al., 2010), so
    that the trials of a batch differ.

    Args:
        trials: the trials before the batch.
        numbers: the numbers of the batch, in ascending order.
    """
    from optuna.samplers import TPESampler

    with _quiet():
        study = _study(space, trials, seed, numbers[0])
        distributions = {name: _distribution(values) for name, values in space.items()}
        proposed = []
        for number in numbers:
            # `draw` draws the first trials; one trial is enough for a density, because TPE adds a prior.
            study.sampler = TPESampler(
                seed=_seed(seed, number),
                n_startup_trials=1,
                multivariate=True,
                constant_liar=True,
            )
            params = study.ask(distributions).params
            settings = {}
            for name, values in space.items():
                settings[name] = _round(values, params[name])
            proposed.append(settings)
        return proposed


def setting_importances(
    space: Mapping[str, Range], trials: Sequence[Trial]
) -> dict[str, float]:
    """Returns setting -> its importance for a good value, most important first; the sum is 1.

    PED-ANOVA compares, for each setting, the density p of its values among the best trials with the density q
    of its values among all trials, by the Pearson divergence

        sum over x of q(x) (p(x) / q(x) - 1)^2.

    Watanabe et al., 2023, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
    Subspaces". The best trials are the best tenth, but at least 5 trials and at most half of all.

    Args:
        trials: trials of one search. Only those that are complete and within the space are used.

    Returns:
        An empty dict with fewer than 8 such trials, with one setting only, or if all values are equal.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = [trial for trial in trials if trial.is_complete]
    used = [trial for trial in complete if _inside(space, trial) == space]
    if len(used) < LEAST_TRIALS or len(space) < 2:
        return {}
    if len({trial.value for trial in used}) == 1:
        return {}
    share = min(0.5, max(0.1, LEAST_IN_TARGET / len(used)))
    with _quiet():
        study = _study(space, used, 0, 0)
        values = get_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(target_quantile=share)
        )
    return {name: float(value) for name, value in values.items()}


def write_journal(
    path: Path,
    searches: Mapping[str, tuple[Mapping[str, Range], Sequence[Trial]]],
) -> None:
    """Writes a journal file for Optuna's dashboard: `optuna-dashboard PATH`. ltrbench never reads it.

    The file is written to a folder of its own and moved, so that a reader never sees half of it, and commands
    that work on the same sweep do not write to the same draft.

    Args:
        searches: name of a search -> its space and its trials, in the order of their numbers.
    """
    from optuna import create_study
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with (
        _quiet(),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".partial-") as scratch,
    ):
        draft = Path(scratch, path.name)
        storage = JournalStorage(JournalFileBackend(str(draft)))
        for name, (space, trials) in searches.items():
            study = create_study(storage=storage, study_name=name, direction="maximize")
            for trial in trials:
                study.add_trial(_frozen(space, trial))
        draft.replace(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences Optuna's log, and its warnings about experimental features."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _study(
    space: Mapping[str, Range], trials: Sequence[Trial], seed: int, number: int
) -> optuna.Study:
    """Returns a study in memory with the trials that are within the space."""
    from optuna import create_study
    from optuna.samplers import RandomSampler

    # The sampler, because the default one has the random state of the operating system.
    study = create_study(
        direction="maximize", sampler=RandomSampler(seed=_seed(seed, number))
    )
    inside = [trial for trial in trials if _inside(space, trial) == space]
    study.add_trials([_frozen(space, trial) for trial in inside])
    return study


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def _distribution(values: Range) -> BaseDistribution:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if values.values is not None:
        return CategoricalDistribution(values.values)
    low, high = values.bounds
    if values.is_integer:
        return IntDistribution(int(low), int(high), log=values.log)
    return FloatDistribution(low, high, log=values.log)


def _round(values: Range, value: Value) -> Value:
    if values.values is not None or not isinstance(value, float) or value == 0:
        return value
    low, high = values.bounds
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, SIGNIFICANT_DIGITS - 1 - exponent)
    return float(min(max(rounded, low), high))


def _inside(space: Mapping[str, Range], trial: Trial) -> dict[str, Range]:
    """Returns the ranges that contain the settings of a trial."""
    settings = trial.proposal.settings
    set_here = [name for name in space if name in settings]
    return {name: space[name] for name in set_here if settings[name] in space[name]}


def _frozen(space: Mapping[str, Range], trial: Trial) -> FrozenTrial:
    """Returns a trial in Optuna's form: with part of the trees or folds it is pruned, with its curve.

    Settings outside their range are attributes, not parameters.
    """
    from optuna.trial import TrialState, create_trial

    settings = trial.proposal.settings
    inside = _inside(space, trial)
    outside = {name: settings[name] for name in settings if name not in inside}
    curve = trial.curve
    if not curve and trial.value is not None:
        curve = {trial.iterations: trial.value}
    if trial.value is None:
        state = TrialState.FAIL
    else:
        state = TrialState.COMPLETE if trial.is_complete else TrialState.PRUNED
    distributions = {}
    for name, values in inside.items():
        distributions[name] = _distribution(values)
    frozen = create_trial(
        state=state,
        value=trial.value if trial.is_complete else None,
        params={name: settings[name] for name in inside},
        distributions=distributions,
        intermediate_values=dict(curve),
        user_attrs=outside,
    )
    if frozen.datetime_complete is not None:
        taken = timedelta(seconds=trial.seconds)
        frozen.datetime_start = frozen.datetime_complete - taken
    return frozen


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

    levels: int = setting(3, at_least=2)

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        levels = {
            name: spaced_values(values, self.levels)
            for name, values in model.space.items()
        }
        size = math.prod(map(len, levels.values()))
        if self.seconds is None and size > self.trials:
            sizes = [f"{len(values)} {name}" for name, values in levels.items()]
            counts = " x ".join(sizes)
            raise ConfigError(
                f"the grid has {size} combinations ({counts}), but search.trials is {self.trials}. Set "
                f"search.trials={size}, fewer search.levels, or a smaller search.space."
            )
        numbers = range(len(trials), size)
        if self.seconds is not None:
            numbers = numbers[: len(self.next_numbers(trials, None))]
        grid = itertools.product(*levels.values())
        combinations = itertools.islice(grid, numbers.start, numbers.stop)
        proposals = []
        for number, values in zip(numbers, combinations, strict=True):
            settings = dict(zip(levels, values, strict=True))
            proposals.append(Proposal(number, settings))
        return proposals


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
    spaced = (
        np.geomspace(low, high, number)
        if values.log
        else np.linspace(low, high, number)
    )
    if values.is_integer:
        whole = np.rint(spaced).astype(np.int64)
        return [int(value) for value in np.unique(whole)]
    # The ends exactly; values between them with few digits, because a table shows them.
    between = [float(f"{value:.4g}") for value in spaced[1:-1]]
    return [float(low), *between, float(high)]


# ---- Random search: every setting is drawn from its range, independently of the others and of other
# trials.
#
# Bergstra and Bengio, 2012, "Random Search for Hyper-Parameter Optimization": few settings matter, and
# random trials try more values of each of them than a grid of the same size.


@dataclass(kw_only=True)
class RandomSearch(Search):
    """Proposes random settings; all backends try the same values of the settings that they share.

    Attributes:
        batch: number of trials that are proposed together. Without `seconds` and `pruning`, random search
            proposes all trials at once.
        pruning: rule that ends fits without prospect, by the learning curves of earlier batches: median;
            None: no pruning. It needs choose=per_fold, because folds differ in difficulty.
        warm_up: number of trials that are not pruned, the first ones.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    batch: int = setting(BATCH, at_least=1)
    pruning: str | None = setting(None, choices=["median"])
    warm_up: int = setting(BATCH, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pruning is not None and self.choose != PER_FOLD:
            raise ConfigError(
                f"search.pruning is {self.pruning}, which compares fits on one fold, but search.choose is "
                f"{self.choose}. Set search.choose={PER_FOLD}, search.pruning=null or search=halving."
            )

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        if not model.space:
            if trials:
                return []
            return [Proposal(0, dict(model.default))]
        numbers = self.next_numbers(trials, self._size_of_batch())
        settings = self._settings(model.space, trials, numbers)
        proposals = []
        for number in numbers:
            proposed = settings[number] if number > 0 else dict(model.default)
            minimum = self._minimum(number, trials, model.num_trees)
            proposals.append(Proposal(number, proposed, minimum=minimum))
        return proposals

    def _size_of_batch(self) -> int | None:
        """Returns None if no trial depends on an earlier one."""
        if self.seconds is None and self.pruning is None:
            return None
        return self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        """Returns number of a trial -> its settings."""
        return {number: draw(space, self.seed, number) for number in numbers}

    def _minimum(
        self, number: int, trials: Sequence[Trial], num_trees: int
    ) -> dict[int, float]:
        if self.pruning is None or number < self.warm_up:
            return {}
        # Not the trials of the same batch, so that a trial does not depend on where a search was interrupted.
        earlier = trials[: number - number % self.batch]
        return median_minima(earlier, num_trees)


# ---- Search with a tree-structured Parzen estimator (TPE), which learns from the trials so far.
#
# Trials are proposed in batches of fixed size. A batch depends on the trials of earlier batches only, so
# that the same seed gives the same search whatever the number of workers. The smaller the batch, the more
# each trial learns from the others, and the fewer trials run at the same time.


@dataclass(kw_only=True)
class TpeSearch(RandomSearch):
    """Proposes the settings that are most likely among the best trials, compared with the others.

    Attributes:
        startup: number of trials with random settings, the first ones; those of `RandomSearch` with the same
            seed.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    startup: int = setting(BATCH, at_least=1)

    def _size_of_batch(self) -> int | None:
        return self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        begin = numbers.start - numbers.start % self.batch
        # Also the trials of this batch that have ended: the others depend on what was proposed before them.
        batch = range(begin, numbers.stop)
        drawn = [number for number in batch if number < self.startup]
        settings = {number: draw(space, self.seed, number) for number in drawn}
        modelled = [number for number in batch if number >= self.startup]
        if modelled:
            settings |= zip(
                modelled, ask(space, self.seed, trials[:begin], modelled), strict=True
            )
        return settings


# ---- Successive halving: many settings get few trees and folds, and only the best of them get more.
#
# Jamieson and Talwalkar, 2016, "Non-stochastic Best Arm Identification and Hyperparameter Optimization".
# With n settings, rungs k = 0, ..., K - 1 and the settings S_0 of the first one,
#
#     S_{k+1} = the ceil(|S_k| / eta) best of S_k, trained anew with r_{k+1} trees,
#
# where r_k = min_trees eta^k, and the last rung has all R trees of the model. Rungs above R / 2 are left
# out, because the last one would hardly differ from them.
#
# With n = 64, eta = 4, min_trees = 20 and R = 300, the rungs have 63 fits of 20 trees, 16 of 80, and 4 of
# 300, and the default settings are trained fully. If full fits stop after 230 iterations on average, these
# are 25 % of the iterations of 64 full fits; if they stop after 140, 36 %.


class Rung(NamedTuple):
    """Number of trees and folds of the trials of a rung; None: all."""

    num_trees: int | None
    num_folds: int | None


@dataclass(kw_only=True)
class SuccessiveHalving(Search):
    """Proposes random settings, those of `RandomSearch` with the same seed, and trains the best ones longer.

    `trials` is the number of settings. A setting that is kept is a new trial with a new number. Trial 0, with
    the default settings, is trained fully and does not take part, so that every search can be compared with
    it.

    With several folds, early rungs use fewer of them: rung k of K trains on the first ceil(F / 2^(K - 1 - k))
    of F folds. Of five folds with three rungs: 2, 3 and 5.

    Attributes:
        min_trees: number of trees of the first rung.
        eta: one of this many settings is kept at each rung, which has this many times the trees of the rung
            before.

    Raises:
        ConfigError: a value is out of range, or the search has a time limit.
    """

    min_trees: int = setting(20, at_least=1)
    eta: int = setting(4, at_least=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seconds is not None:
            raise ConfigError(
                f"search.seconds is {self.seconds}, but halving needs a number of settings. Set "
                "search.trials and search.seconds=null, or use search=tpe."
            )

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        rungs = self.rungs(model.num_trees, model.num_folds)
        proposals = [Proposal(0, dict(model.default))]
        settings: list[Mapping[str, Value]] = []
        if model.space:
            settings = [trial.proposal.settings for trial in trials[1 : self.trials]]
            numbers = range(1 + len(settings), self.trials)
            settings += [draw(model.space, self.seed, number) for number in numbers]
        for rung in rungs:
            begin = len(proposals)
            for number, values in enumerate(settings, start=begin):
                chosen = dict(values)
                proposal = Proposal(number, chosen, rung.num_trees, rung.num_folds)
                proposals.append(proposal)
            if len(trials) < len(proposals):
                break
            num_kept = math.ceil(len(settings) / self.eta)
            best = _best(trials[begin : len(proposals)], num_kept)
            settings = [trial.proposal.settings for trial in best]
        return proposals[len(trials) :]

    def rungs(self, num_trees: int, num_folds: int) -> list[Rung]:
        """Returns the rungs of a model with a number of trees, on a number of folds.

        Raises:
            ConfigError: there would be only one rung, of full fits.
        """
        trees: list[int] = []
        next_trees = self.min_trees
        while next_trees * 2 <= num_trees:
            trees.append(next_trees)
            next_trees *= self.eta
        if num_trees < 2:
            raise ConfigError(
                "search=halving begins with few trees, but the model has none. Search it with search=tpe, in "
                "a command with the same hydra.sweep.dir."
            )
        if not trees:
            raise ConfigError(
                f"search.min_trees is {self.min_trees}, more than half of the model's {num_trees} trees. Set "
                f"search.min_trees to at most {num_trees // 2}, or more params.num_trees."
            )
        rungs = []
        for rung, num_trees_of_rung in enumerate(trees):
            folds = math.ceil(num_folds / 2 ** (len(trees) - rung))
            rungs.append(Rung(num_trees_of_rung, folds if folds < num_folds else None))
        return [*rungs, Rung(None, None)]


def _best(trials: Sequence[Trial], number: int) -> list[Trial]:
    """Returns the best trials, of equal ones those with lower numbers, in the order of their numbers."""
    succeeded = [(trial.value, trial) for trial in trials if trial.value is not None]

    def best_first(pair: tuple[float, Trial]) -> tuple[float, int]:
        value, trial = pair
        return -value, trial.proposal.number

    ranked = sorted(succeeded, key=best_first)
    best = [trial for _, trial in ranked[:number]]
    return sorted(best, key=lambda trial: trial.proposal.number)
