"""Optuna: draws settings, computes importances, and writes a file for Optuna's dashboard.

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
from datetime import timedelta
from pathlib import Path

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.search.base import Trial
from ltrbench.search.space import Range, Value

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
