"""Searches that draw settings: random search, TPE and successive halving, with Optuna.

Optuna: draws settings, computes importances, and writes a file for Optuna's dashboard.

Optuna has no state here. Each call builds a study in memory from the trials in the order of their numbers,
and the random state of a trial depends on the seed of the search and the number of the trial only. So the
same trials give the same proposals, whatever the number of workers and however often a search was
interrupted.

Akiba et al., 2019, "Optuna: A Next-generation Hyperparameter Optimization Framework".
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ltrbench.errors import ConfigError, require, require_choice

try:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.samplers import RandomSampler, TPESampler
    from optuna.storages import BaseStorage, JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial, TrialState, create_trial
except ImportError as error:
    raise ConfigError("search needs Optuna: pip install 'ltrbench[search]'") from error

import numpy as np

from ltrbench.search.base import (
    BATCH,
    PER_FOLD,
    Proposal,
    Range,
    Search,
    SearchedModel,
    Trial,
    Value,
    median_minima,
)

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
    with _quiet():
        study = _study({}, [], seed, number)
        settings = {}
        for name, values in space.items():
            study.sampler = RandomSampler(seed=_seed(seed, number, zlib.crc32(name.encode())))
            settings[name] = study.ask({name: _distribution(values)}).params[name]
        return _rounded(space, settings)


def ask(
    space: Mapping[str, Range], seed: int, trials: Sequence[Trial], numbers: Sequence[int]
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
    with _quiet():
        study = _study(space, trials, seed, numbers[0])
        distributions = {name: _distribution(values) for name, values in space.items()}
        proposed = []
        for number in numbers:
            study.sampler = _tpe(seed, number)
            trial = study.ask(distributions)
            proposed.append(_rounded(space, {name: trial.params[name] for name in space}))
        return proposed


def setting_importances(space: Mapping[str, Range], trials: Sequence[Trial]) -> dict[str, float]:
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
    used = [trial for trial in trials if trial.is_complete and _is_inside(space, trial)]
    if len(used) < LEAST_TRIALS or len(space) < 2 or len({trial.value for trial in used}) == 1:
        return {}
    share = min(0.5, max(0.1, LEAST_IN_TARGET / len(used)))
    with _quiet():
        study = _study(space, used, 0, 0)
        values = optuna.importance.get_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(target_quantile=share)
        )
    return {name: float(value) for name, value in values.items()}


def write_journal(path: Path, searches: Mapping[str, tuple[Mapping[str, Range], Sequence[Trial]]]) -> None:
    """Writes a journal file for Optuna's dashboard: `optuna-dashboard PATH`. ltrbench never reads it.

    The file is written to a folder of its own and moved, so that a reader never sees half of it, and commands
    that work on the same sweep do not write to the same draft.

    Args:
        searches: name of a search -> its space and its trials, in the order of their numbers.
    """
    with _quiet(), tempfile.TemporaryDirectory(dir=path.parent, prefix=".partial-") as scratch:
        draft = Path(scratch, path.name)
        storage = JournalStorage(JournalFileBackend(str(draft)))
        for name, (space, trials) in searches.items():
            study = _empty_study(storage, name)
            for trial in trials:
                study.add_trial(_frozen(space, trial))
        draft.replace(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences Optuna's log, and its warnings about experimental features."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _empty_study(storage: BaseStorage | None, name: str | None) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name=name, direction="maximize")


def _study(space: Mapping[str, Range], trials: Sequence[Trial], seed: int, number: int) -> optuna.Study:
    """Returns a study in memory with the trials that are within the space."""
    study = _empty_study(None, None)
    study.sampler = RandomSampler(seed=_seed(seed, number))  # no random state of the operating system
    study.add_trials([_frozen(space, trial) for trial in trials if _is_inside(space, trial)])
    return study


def _tpe(seed: int, number: int) -> TPESampler:
    # The first trials are drawn by `draw`; one trial is enough for a density, because TPE adds a prior.
    return TPESampler(seed=_seed(seed, number), n_startup_trials=1, multivariate=True, constant_liar=True)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def _distribution(values: Range) -> BaseDistribution:
    if values.values is not None:
        return CategoricalDistribution(values.values)
    low, high = values.bounds
    if values.is_integer:
        return IntDistribution(int(low), int(high), log=values.log)
    return FloatDistribution(low, high, log=values.log)


def _rounded(space: Mapping[str, Range], settings: Mapping[str, Value]) -> dict[str, Value]:
    return {name: _round(space[name], value) for name, value in settings.items()}


def _round(values: Range, value: Value) -> Value:
    if values.values is not None or not isinstance(value, float) or value == 0:
        return value
    low, high = values.bounds
    rounded = round(value, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value))))
    return float(min(max(rounded, low), high))


def _is_inside(space: Mapping[str, Range], trial: Trial) -> bool:
    return all(_has_inside(name, values, trial.proposal.settings) for name, values in space.items())


def _has_inside(name: str, values: Range, settings: Mapping[str, Value]) -> bool:
    return name in settings and settings[name] in values


def _frozen(space: Mapping[str, Range], trial: Trial) -> FrozenTrial:
    """Returns a trial in Optuna's form: with part of the trees or folds it is pruned, with its curve.

    Settings outside their range are attributes, not parameters.
    """
    settings = trial.proposal.settings
    inside = {name: values for name, values in space.items() if _has_inside(name, values, settings)}
    state = TrialState.COMPLETE if trial.is_complete else TrialState.PRUNED
    curve = trial.curve
    if not curve and trial.value is not None:
        curve = {trial.iterations: trial.value}
    frozen = create_trial(
        state=TrialState.FAIL if trial.value is None else state,
        value=trial.value if trial.is_complete else None,
        params={name: settings[name] for name in inside},
        distributions={name: _distribution(values) for name, values in inside.items()},
        intermediate_values=dict(curve),
        user_attrs={name: settings[name] for name in settings if name not in inside},
    )
    if frozen.datetime_complete is not None:
        frozen.datetime_start = frozen.datetime_complete - timedelta(seconds=trial.seconds)
    return frozen


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

    batch: int = BATCH
    pruning: str | None = None
    warm_up: int = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.batch", self.batch, at_least=1)
        require("search.warm_up", self.warm_up, at_least=1)
        require_choice("search.pruning", self.pruning, ["median"])
        if self.pruning is not None and self.choose != PER_FOLD:
            raise ConfigError(
                f"search.pruning is {self.pruning}, which compares fits on one fold, but search.choose is "
                f"{self.choose}. Set search.choose={PER_FOLD} or search.pruning=null; search=halving ends "
                "trials early on several folds."
            )

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        if not model.space:
            return [] if trials else [Proposal(0, dict(model.default))]
        numbers = self.next_numbers(trials, self._size_of_batch())
        settings = self._settings(model.space, trials, numbers)
        return [
            Proposal(
                number,
                settings[number] if number > 0 else dict(model.default),
                minimum=self._minimum(number, trials, model.num_trees),
            )
            for number in numbers
        ]

    def _size_of_batch(self) -> int | None:
        """Returns None if no trial depends on an earlier one."""
        return None if self.seconds is None and self.pruning is None else self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        """Returns number of a trial -> its settings."""
        return {number: draw(space, self.seed, number) for number in numbers}

    def _minimum(self, number: int, trials: Sequence[Trial], num_trees: int) -> dict[int, float]:
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

    startup: int = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.startup", self.startup, at_least=1)

    def _size_of_batch(self) -> int | None:
        return self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        begin = numbers.start - numbers.start % self.batch
        # Also the trials of this batch that have ended: the others depend on what was proposed before them.
        batch = range(begin, numbers.stop)
        settings = {number: draw(space, self.seed, number) for number in batch if number < self.startup}
        modelled = [number for number in batch if number >= self.startup]
        if modelled:
            settings |= zip(modelled, ask(space, self.seed, trials[:begin], modelled), strict=True)
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
# are 25 % of the iterations of 64 full fits; if they stop after 140, 36 %. results/halving has
# measurements: a first rung of 15 trees is cheaper, but its regret was not below that of a shorter random
# search.


@dataclass(frozen=True)
class Rung:
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

    min_trees: int = 20
    eta: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.min_trees", self.min_trees, at_least=1)
        require("search.eta", self.eta, at_least=2)
        if self.seconds is not None:
            raise ConfigError(
                f"search.seconds is {self.seconds}, but successive halving must know its number of settings. "
                "Set search.trials and search.seconds=null, or use search=tpe."
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
            proposals += [
                Proposal(number, dict(values), rung.num_trees, rung.num_folds)
                for number, values in enumerate(settings, start=begin)
            ]
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
        while (next_trees := self.min_trees * self.eta ** len(trees)) * 2 <= num_trees:
            trees.append(next_trees)
        if not trees:
            raise ConfigError(
                f"search.min_trees is {self.min_trees}, more than half of the model's {num_trees} trees, so "
                f"that no fit would be shorter. Set search.min_trees to at most {num_trees // 2}, or more "
                "params.num_trees."
            )
        folds = [math.ceil(num_folds / 2 ** (len(trees) - place)) for place in range(len(trees))]
        return [
            *(
                Rung(of_rung, number if number < num_folds else None)
                for of_rung, number in zip(trees, folds, strict=True)
            ),
            Rung(None, None),
        ]


def _best(trials: Sequence[Trial], number: int) -> list[Trial]:
    """Returns the best trials, of equal ones those with lower numbers, in the order of their numbers."""
    succeeded = [(trial.value, trial) for trial in trials if trial.value is not None]
    ranked = sorted(succeeded, key=lambda pair: (-pair[0], pair[1].proposal.number))
    return sorted((trial for _, trial in ranked[:number]), key=lambda trial: trial.proposal.number)
