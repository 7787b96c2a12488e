"""Two methods over the folds of a cross-validation: what another training on other queries would give.

The folds' differences are not independent, as any two folds share most of their training queries; both tests
widen the error of their mean for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ltrbench.errors import ConfigError
from ltrbench.statistics.intervals import CONFIDENCE, IDENTICAL, Interval

ROPE = 0.005
"""Half the width of the region of practical equivalence, in NDCG: no user notices so small a difference."""

_ONE_FOLD = "under two folds"


@dataclass(frozen=True)
class FoldTest:
    """The mean difference over J folds with its corrected interval and two-sided p; `degrees` is J - 1."""

    difference: float | None
    interval: Interval | None
    p_value: float | None
    degrees: int
    note: str = ""

    def turned(self) -> FoldTest:
        """Of the second method against the first."""
        return replace(
            self,
            difference=None if self.difference is None else 0.0 - self.difference,
            interval=None if self.interval is None else self.interval.turned(),
        )


@dataclass(frozen=True)
class RopeProbabilities:
    """How probable it is that the difference is below -rope, within it, and above rope; they add up to 1."""

    left: float | None
    within: float | None
    right: float | None
    rope: float
    note: str = ""

    def turned(self) -> RopeProbabilities:
        """Of the second method against the first."""
        return replace(self, left=self.right, right=self.left)


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> FoldTest:
    """The corrected resampled t test (Nadeau and Bengio, 2003, Machine Learning 52, section 3).

    t = mean / sqrt((1/J + n_test/n_train) s^2) with J - 1 degrees of freedom, for the variance s^2 of the J
    differences. The term n_test/n_train stands for their correlation, taken to be n_test / (n_train +
    n_test): for J differences of a normal distribution with that correlation the level is exact.

    Assumes normal differences and that correlation, which is the authors' estimate: no unbiased one exists
    (Bengio and Grandvalet, 2004). Folds that all differ by 0 give p = 1; all by the same, no p.

    Args:
        differences: (J,), one mean difference a fold, seeds averaged.
        test_share: n_test / n_train, in queries.
    """
    values = _checked(differences, test_share)
    if len(values) < 2:
        return FoldTest(
            float(values[0]) if len(values) else None, None, None, max(len(values) - 1, 0), _ONE_FOLD
        )
    mean, error, degrees = _corrected(values, test_share)
    if error == 0:
        note, p_value = (IDENTICAL, 1.0) if mean == 0 else ("every fold differs by the same", None)
        return FoldTest(mean, Interval(mean, mean, "corrected-t"), p_value, degrees, note)
    half = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
    p_value = float(2 * stdtr(degrees, -abs(mean) / error))
    return FoldTest(mean, Interval(mean - half, mean + half, "corrected-t"), p_value, degrees)


def bayesian_correlated_t(
    differences: Sequence[float], test_share: float, rope: float = ROPE
) -> RopeProbabilities:
    """The Bayesian correlated t test (Benavoli, Corani, Demsar and Zaffalon, 2017, JMLR 18, section 3.1).

    With a flat prior the difference has the posterior of Student's t with J - 1 degrees of freedom around the
    mean, of scale sqrt((1/J + rho/(1 - rho)) s^2) and rho = n_test / (n_train + n_test), so that
    rho/(1 - rho) = n_test/n_train. Assumes what the corrected t test does. Where all folds differ by the same
    the whole probability is at that difference.

    Args:
        differences: (J,), one mean difference a fold, seeds averaged.
        test_share: n_test / n_train, in queries.
        rope: differences from -rope to rope are of no practical importance.
    """
    values = _checked(differences, test_share)
    if not np.isfinite(rope) or rope < 0:
        raise ConfigError(f"rope is {rope}; it must be a difference, 0 or more.")
    if len(values) < 2:
        return RopeProbabilities(None, None, None, rope, _ONE_FOLD)
    mean, error, degrees = _corrected(values, test_share)
    if error == 0:
        left, right = float(mean < -rope), float(mean > rope)
        note = IDENTICAL if mean == 0 else "every fold differs by the same"
        return RopeProbabilities(left, 1 - left - right, right, rope, note)
    left = float(stdtr(degrees, (-rope - mean) / error))
    right = float(stdtr(degrees, (mean - rope) / error))
    return RopeProbabilities(left, max(0.0, 1 - left - right), right, rope)


def _checked(differences: Sequence[float], test_share: float) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ConfigError(f"the folds' differences must be numbers, one a fold; they are {values}.")
    if not np.isfinite(test_share) or test_share <= 0:
        raise ConfigError(f"test_share is {test_share}; it must be n_test / n_train, above 0.")
    return values


def _corrected(values: NDArray[np.float64], test_share: float) -> tuple[float, float, int]:
    """The mean over J folds, its corrected standard error, and J - 1."""
    if values.min() == values.max():
        return float(values[0]), 0.0, len(values) - 1
    variance = (1 / len(values) + test_share) * values.var(ddof=1)
    return float(values.mean()), float(np.sqrt(variance)), len(values) - 1
