"""Pruning: ends the fits of trials without prospect, by the learning curves of earlier trials.

A rule returns number of trees -> value; `Monitor` ends a fit there if its best value so far is below. The
curve of a trial that early stopping ended stays at its last value; that of a pruned trial ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ltrbench.search.base import Trial

Minima = Callable[[int, Sequence[Trial], int], dict[int, float]]
"""Rule: number of the trial, trials of earlier batches, maximum number of trees -> minimum values."""

CHECKPOINTS = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the maximum number of trees after which the median rule looks at a fit. A fit that is ended by
the first look has cost an eighth; after the last one it would save little."""
ETA = 3
"""Hyperband keeps one of this many trials at each rung; the default of the paper."""
BRACKETS = 3
"""Number of brackets, s_max + 1: the first rung of the last one has R / 9 trees."""


def median_minima(number: int, trials: Sequence[Trial], num_trees: int) -> dict[int, float]:
    """Returns, for each checkpoint s, the median of the best values so far of the trials that reached it.

    A fit ends at s if its best value so far is below. Golovin et al., 2017, "Google Vizier: A Service for
    Black-Box Optimization", section 3.2 (median stopping rule), which takes the median of running averages.
    """
    checkpoints = sorted({math.ceil(share * num_trees) for share in CHECKPOINTS} - {num_trees})
    values = {trees: _values(trials, trees) for trees in checkpoints}
    return {trees: median(reached) for trees, reached in values.items() if reached}


def hyperband_minima(number: int, trials: Sequence[Trial], num_trees: int) -> dict[int, float]:
    """Returns, for each rung of the trial's bracket, the lowest value with which a fit goes on.

    With R trees and s_max = 2, bracket s = 0, 1, 2 has the rungs R eta^-s, ..., R eta^-1. Of the m earlier
    trials of its bracket that reached the rung, a fit must be at least as good as the ceil(m / eta)-th; below
    m = eta there is no minimum. So bracket 2 tries many settings, and bracket 0 trains every setting fully,
    in case early values mislead. Of 17 consecutive trials, bracket s has

        n_s = ceil((s_max + 1) eta^s / (s + 1)),

    that is 3, 5 and 9, so that the brackets cost about the same.

    Li et al., 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", algorithm 1.
    Trials are compared with earlier trials only, as in its asynchronous version: Li et al., 2020, "A System
    for Massively Parallel Hyperparameter Tuning", algorithm 2.
    """
    bracket = bracket_of(number)
    peers = [trial for trial in trials if bracket_of(trial.proposal.number) == bracket]
    minima = {}
    for power in range(bracket, 0, -1):
        trees = math.ceil(num_trees / ETA**power)
        values = sorted(_values(peers, trees), reverse=True)
        if len(values) >= ETA and trees < num_trees:
            minima[trees] = values[math.ceil(len(values) / ETA) - 1]
    return minima


MINIMA: Mapping[str, Minima] = {"median": median_minima, "hyperband": hyperband_minima}
"""The rules, by the names of `search.pruning`."""


def bracket_of(number: int) -> int:
    """Returns the bracket of a trial: 0, 1 or 2. Brackets are spread evenly over the numbers."""
    return _DEAL[number % len(_DEAL)]


def _deal() -> list[int]:
    """Returns the bracket of each number, until it repeats."""
    sizes = {s: math.ceil(BRACKETS * ETA**s / (s + 1)) for s in range(BRACKETS)}
    places = ((((i + 0.5) / size), s) for s, size in sizes.items() for i in range(size))
    return [s for _, s in sorted(places, key=lambda place: (place[0], -place[1]))]


_DEAL = _deal()


def _values(trials: Sequence[Trial], trees: int) -> list[float]:
    """Returns the best values so far at a number of trees, of the trials that reached it."""
    values = (_value(trial, trees) for trial in trials if trial.value is not None)
    return [value for value in values if value is not None]


def _value(trial: Trial, trees: int) -> float | None:
    if not trial.curve or (trial.is_pruned and max(trial.curve) < trees):
        return None
    reached = [value for number, value in trial.curve.items() if number <= trees]
    return max(reached, default=None)
