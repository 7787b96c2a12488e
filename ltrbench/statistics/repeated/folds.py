"""Two methods over the folds of a cross-validation: inference for training on other queries.

The differences of the folds are not independent, because any two folds share most of their training queries.
Both tests increase the standard error of the mean accordingly.
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
"""Half the width of the region of practical equivalence, in NDCG: users do not notice such a difference."""

_ONE_FOLD = "fewer than two folds"
_SAME_DIFFERENCE = "the same difference in every fold"


@dataclass(frozen=True)
class FoldTest:
    """Mean difference over J folds, its corrected interval and two-sided p-value; `degrees` is J - 1."""

    difference: float | None
    interval: Interval | None
    p_value: float | None
    degrees: int
    note: str = ""

    def turned(self) -> FoldTest:
        """Returns the result for the second method minus the first."""
        return replace(
            self,
            difference=None if self.difference is None else 0.0 - self.difference,
            interval=None if self.interval is None else self.interval.turned(),
        )


@dataclass(frozen=True)
class RopeProbabilities:
    """Probabilities of a difference below -rope, from -rope to rope, and above rope; they sum to 1."""

    left: float | None
    within: float | None
    right: float | None
    rope: float
    note: str = ""

    def turned(self) -> RopeProbabilities:
        """Returns the result for the second method minus the first."""
        return replace(self, left=self.right, right=self.left)


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> FoldTest:
    """Computes the corrected resampled t test (Nadeau and Bengio, 2003, Machine Learning 52, section 3).

    t = mean / sqrt((1/J + n_test/n_train) s^2) with J - 1 degrees of freedom, for the variance s^2 of the J
    differences. The term n_test/n_train corresponds to a correlation of n_test / (n_train + n_test) between
    folds: for J normal differences with that correlation the level is exact.

    Assumes normal differences and that correlation, which is the authors' estimate: no unbiased one exists
    (Bengio and Grandvalet, 2004). If all differences are 0, p = 1; if all are equal and not 0, p is None.

    Args:
        differences: (J,), one mean difference per fold, averaged over seeds.
        test_share: n_test / n_train, in queries.

    Raises:
        ConfigError: If a difference is not finite, or the test share is not positive.
    """
    values = _checked(differences, test_share)
    if len(values) < 2:
        return FoldTest(
            float(values[0]) if len(values) else None, None, None, max(len(values) - 1, 0), _ONE_FOLD
        )
    mean, error, degrees = _corrected(values, test_share)
    if error == 0:
        note, p_value = (IDENTICAL, 1.0) if mean == 0 else (_SAME_DIFFERENCE, None)
        return FoldTest(mean, Interval(mean, mean, "corrected-t"), p_value, degrees, note)
    half = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
    p_value = float(2 * stdtr(degrees, -abs(mean) / error))
    return FoldTest(mean, Interval(mean - half, mean + half, "corrected-t"), p_value, degrees)


def bayesian_correlated_t(
    differences: Sequence[float], test_share: float, rope: float = ROPE
) -> RopeProbabilities:
    """Computes the Bayesian correlated t test.

    (Benavoli, Corani, Demsar and Zaffalon, 2017, JMLR 18, section 3.1.) With a flat prior the posterior of
    the difference is Student's t with J - 1 degrees of freedom, centred at the mean, with scale sqrt((1/J +
    rho/(1 - rho)) s^2) and rho = n_test / (n_train + n_test), so rho/(1 - rho) = n_test/n_train. The
    assumptions are those of the corrected t test. If all differences are equal, the posterior is a point.

    Args:
        differences: (J,), one mean difference per fold, averaged over seeds.
        test_share: n_test / n_train, in queries.
        rope: differences from -rope to rope count as practically zero.

    Raises:
        ConfigError: If a difference is not finite, the test share is not positive, or rope is negative.
    """
    values = _checked(differences, test_share)
    if not np.isfinite(rope) or rope < 0:
        raise ConfigError(f"rope is {rope}; it must be a finite number, 0 or more.")
    if len(values) < 2:
        return RopeProbabilities(None, None, None, rope, _ONE_FOLD)
    mean, error, degrees = _corrected(values, test_share)
    if error == 0:
        left, right = float(mean < -rope), float(mean > rope)
        note = IDENTICAL if mean == 0 else _SAME_DIFFERENCE
        return RopeProbabilities(left, 1 - left - right, right, rope, note)
    left = float(stdtr(degrees, (-rope - mean) / error))
    right = float(stdtr(degrees, (mean - rope) / error))
    return RopeProbabilities(left, max(0.0, 1 - left - right), right, rope)


def _checked(differences: Sequence[float], test_share: float) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ConfigError(f"the differences must be finite numbers, one per fold; they are {values}.")
    if not np.isfinite(test_share) or test_share <= 0:
        raise ConfigError(f"test_share is {test_share}; it must be n_test / n_train, a number above 0.")
    return values


def _corrected(values: NDArray[np.float64], test_share: float) -> tuple[float, float, int]:
    """Returns the mean over J folds, its corrected standard error, and J - 1."""
    if values.min() == values.max():
        return float(values[0]), 0.0, len(values) - 1
    variance = (1 / len(values) + test_share) * values.var(ddof=1)
    return float(values.mean()), float(np.sqrt(variance)), len(values) - 1
