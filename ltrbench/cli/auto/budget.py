"""The times that the fits so far predict, and which models, settings and folds are left out for them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ltrbench.tables import duration

_FITS_AT_THE_END = 1.5
"""The chosen settings of all models are trained once more for the table, and those of one on all queries."""
_FINAL_FIT = 1.0
"""Time of the fit on all queries, as a multiple of a fit of the table: that one has two thirds of them, but
goes on until early stopping ends it."""
_SHORT_FIT = 0.1
"""Share of the time of the best model's fit up to which another model is trained again in any case."""
_FEWEST_TRIALS = 16
"""Number of settings of each model for which the slowest models are left out of the search."""
_FEWEST_TO_SEARCH = 2
"""Number of settings of each model without which there is no search: the default ones on all folds, and
others. If the time suffices only without them, the models with the lowest metric are left out."""


class TimedFit(NamedTuple):
    """A fit on one fold: its time, and the metric on validation."""

    seconds: float
    value: float | None

    @property
    def rank(self) -> float:
        """The metric, the lowest of all where there is none."""
        return -math.inf if self.value is None else self.value


class TriedSetting(NamedTuple):
    """A setting of a model that the search has tried, perhaps not yet on all folds.

    Attributes:
        fit: the mean of its fits.
        seconds: the time of each fit.
    """

    fit: TimedFit
    seconds: Sequence[float]


TriedSettings = Mapping[str, Sequence[TriedSetting]]
"""Model -> the settings that it has tried, in the order of the search."""


def seconds_of(settings: TriedSettings) -> float:
    """Returns the time of all fits of all settings."""
    total = 0.0
    for of_model in settings.values():
        total += sum(sum(setting.seconds) for setting in of_model)
    return total


def num_complete(settings: TriedSettings, num_folds: int) -> int:
    """Returns the number of settings that each model has tried on all folds."""
    numbers: list[int] = []
    for of_model in settings.values():
        are_complete = [len(setting.seconds) == num_folds for setting in of_model]
        numbers.append(sum(are_complete))
    return min(numbers)


def seconds_to_next(settings: TriedSettings, num_folds: int) -> float:
    """Returns the time of the fits after which each model has tried one more setting on all folds.

    >>> settings = {"a": [TriedSetting(TimedFit(2, 0.8), [2, 2])], "b": [TriedSetting(TimedFit(3, 0.7), [3])]}
    >>> seconds_to_next(settings, num_folds=2)
    3.0
    """
    number = num_complete(settings, num_folds)
    total = 0.0
    for of_model in settings.values():
        mean = fmean(setting.fit.seconds for setting in of_model)
        num_ended = 0
        if len(of_model) > number:
            mean = of_model[number].fit.seconds
            num_ended = len(of_model[number].seconds)
        total += (num_folds - num_ended) * mean
    return total


def best_settings(settings: TriedSettings, number: int) -> dict[str, TimedFit]:
    """Returns model -> the mean fit of the best of its first settings.

    Args:
        number: number of the first settings of each model.
    """
    best: dict[str, TimedFit] = {}
    for model, of_model in settings.items():
        fits = [setting.fit for setting in of_model[:number]]
        best[model] = max(fits, key=lambda fit: fit.rank)
    return best


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Times that the fits so far predict, seconds.

    Attributes:
        of_setting: one setting of each model on all folds.
        to_next: the fits after which each model has tried one more setting.
        at_the_end: the fits after the search.
    """

    of_setting: float
    to_next: float
    at_the_end: float


def predict(
    settings: TriedSettings, num_folds: int, overhead: float = 1.0
) -> Prediction:
    """Returns the times that the settings tried so far predict.

    Args:
        overhead: time of a round of the search divided by that of its fits.
    """
    of_one_fold = 0.0
    for of_model in settings.values():
        of_one_fold += fmean(setting.fit.seconds for setting in of_model)
    of_setting = overhead * num_folds * of_one_fold
    at_the_end = _FITS_AT_THE_END * of_setting
    number = num_complete(settings, num_folds)
    if number:
        best = best_settings(settings, number)
        of_best = overhead * seconds_at_the_end(best, num_folds)
        at_the_end = min(at_the_end, of_best)
    return Prediction(
        of_setting=of_setting,
        to_next=overhead * seconds_to_next(settings, num_folds),
        at_the_end=at_the_end,
    )


def num_in_time(
    settings: TriedSettings, number: int, left: float, num_folds: int
) -> int:
    """Returns the largest number of first settings of each model for which the best one of all can be trained
    again in time; all of them if there is no such number.

    A slow setting that is the best one can take more time than is left for the fits at the end.

    Args:
        number: number of first settings that each model has tried, at least 1.
        left: time that may be spent, seconds.
        num_folds: number of fits of each model, one for each fold.

    >>> fits = [TimedFit(1, 0.7), TimedFit(2, 0.8), TimedFit(30, 0.9)]
    >>> settings = {"a": [TriedSetting(fit, [fit.seconds]) for fit in fits]}
    >>> [num_in_time(settings, 3, left, num_folds=1) for left in (100, 10, 1)]
    [3, 2, 3]
    """
    for fewer in range(number, 0, -1):
        best = best_fit(best_settings(settings, fewer))
        if (num_folds + _FINAL_FIT) * best.seconds <= left:
            return fewer
    return number


def best_model(fits: Mapping[str, TimedFit]) -> str:
    """Returns the model with the highest metric."""
    return max(fits, key=lambda model: fits[model].rank)


def best_fit(fits: Mapping[str, TimedFit]) -> TimedFit:
    """Returns the fit with the highest metric of all models."""
    return fits[best_model(fits)]


def _fastest_after_best(fits: Mapping[str, TimedFit]) -> tuple[str, list[str]]:
    """Returns the model with the highest metric, and all models: this one first, then by time."""
    best = best_model(fits)
    others = [model for model in fits if model != best]
    others.sort(key=lambda model: fits[model].seconds)
    return best, [best, *others]


def seconds_at_the_end(chosen: Mapping[str, TimedFit], num_folds: int) -> float:
    """Returns the time of the fits at the end: of each model on each fold, and of the best on all queries.

    Args:
        chosen: model -> a fit with its chosen settings.
        num_folds: number of fits of each model, one for each fold.

    >>> seconds_at_the_end({"a": TimedFit(2, 0.8), "b": TimedFit(1, 0.7)}, num_folds=5)
    17.0
    """
    of_one_fold = sum(fit.seconds for fit in chosen.values())
    return num_folds * of_one_fold + _FINAL_FIT * best_fit(chosen).seconds


def num_folds_in_time(seconds: float, left: float, num_folds: int) -> int:
    """Returns the number of folds, at least 1, on which there is time to train a model, and once more on all
    queries.

    Args:
        seconds: time of a fit.
        left: time that may be spent, seconds.
        num_folds: number of all folds.

    >>> [num_folds_in_time(10, left, num_folds=5) for left in (100, 50, 10)]
    [5, 4, 1]
    """
    fitting = math.floor(left / max(seconds, 1e-3) - _FINAL_FIT)
    return max(1, min(fitting, num_folds))


def too_late(
    chosen: Mapping[str, TimedFit], left: float, num_folds: int
) -> dict[str, str]:
    """Returns model -> why it is left out, so that there is time for the fits at the end.

    The slowest are left out first; the best one stays, and is trained once more on all queries, and so do
    models whose fits are short beside its own.

    Args:
        chosen: model -> a fit with its chosen settings.
        left: time that may be spent, seconds.
        num_folds: number of fits of each model, one for each fold.

    >>> chosen = {"a": TimedFit(2, 0.8), "b": TimedFit(1, 0.7), "c": TimedFit(9, 0.6)}
    >>> [list(too_late(chosen, left, num_folds=5)) for left in (100, 20, 10)]
    [[], ['c'], ['c', 'b']]
    >>> list(too_late({"a": TimedFit(20, 0.8), "b": TimedFit(1, 0.7)}, 10, num_folds=5))
    []
    """
    best, kept = _fastest_after_best(chosen)
    reasons: dict[str, str] = {}
    while len(kept) > 1:
        fits = {model: chosen[model] for model in kept}
        slowest = chosen[kept[-1]].seconds
        is_short = slowest <= _SHORT_FIT * chosen[best].seconds
        if is_short or seconds_at_the_end(fits, num_folds) <= left:
            break
        again = duration(num_folds * slowest)
        reasons[kept.pop()] = (
            f"no time was left to train its chosen settings again, about {again}"
        )
    return reasons


def too_costly(first: Mapping[str, TimedFit], left: float) -> dict[str, str]:
    """Returns model -> why it is left out, so that there is time for a search of the others.

    The slowest are left out first; then those with the lowest value, if there is a search only without them.
    The best one and one other stay. None is left out if there is no time for a search of these two either.

    Args:
        first: model -> its first fit.
        left: time for all fits on one fold, seconds.

    >>> first = {"a": TimedFit(5, 0.8), "b": TimedFit(1, 0.7), "c": TimedFit(2, 0.6)}
    >>> [list(too_costly(first, left)) for left in (200, 100, 22, 10)]
    [[], [], ['c'], []]
    """

    def lasts(models: Collection[str], trials: int) -> bool:
        of_all = sum(first[model].seconds for model in models)
        return of_all * (trials + _FITS_AT_THE_END) <= left

    _, kept = _fastest_after_best(first)
    without = "without it each other model can try more settings"
    slow: dict[str, str] = {}
    while len(kept) > 2 and not lasts(kept, _FEWEST_TRIALS):
        seconds = first[kept[-1]].seconds
        if seconds < fmean(first[model].seconds for model in kept):
            break  # it is no slower than the others
        slow[kept.pop()] = f"a fit takes {seconds:.1f} s; {without}"
    kept.sort(key=lambda model: first[model].rank, reverse=True)
    weak: dict[str, str] = {}
    while len(kept) > 2 and not lasts(kept, _FEWEST_TO_SEARCH):
        lowest = "its metric on validation is the lowest of those left"
        weak[kept.pop()] = f"{lowest}; {without}"
    if not lasts(kept, _FEWEST_TO_SEARCH):
        return {}  # nothing is gained: there is no search in any case
    return slow | weak
