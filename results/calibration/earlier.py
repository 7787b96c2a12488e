"""The earlier procedure for methods over folds, which the present one is measured against.

The difference of two methods had the standard error of the corrected resampled t test, from the variance of
the differences of the folds; three or more methods shared a variance, and Tukey's quantile was used if it was
smaller. The sources are in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from ltrbench.statistics.paired import LEVEL, Interval


@dataclass(frozen=True)
class SharedVariance:
    """Variance over folds of the difference of two models, estimated from M models.

    Attributes:
        variance: sum of `shared_variances` of the two models.
        num_models: M.
        num_pairs: number of pairs that are decided together with this variance.
    """

    variance: float
    num_models: int
    num_pairs: int


def interval_over_folds(
    differences: Sequence[float] | NDArray[np.float64],
    test_share: float,
    level: float,
    shared: SharedVariance | None = None,
) -> Interval | None:
    """Returns the interval of the mean over J folds; None if all differences are equal.

        V = (1/J + n_test/n_train) var_j(d_j)

    with J - 1 degrees of freedom (Nadeau and Bengio, 2003), or with the variance of M models and
    (M - 1) (J - 1) degrees of freedom.
    """
    values = np.asarray(differences)
    num_folds = len(values)
    variance = float(values.var(ddof=1)) if shared is None else shared.variance
    if variance == 0:
        return None
    degrees = num_folds - 1
    if shared is not None:
        degrees *= shared.num_models - 1
    error = math.sqrt((1 / num_folds + test_share) * variance)
    half = quantile_of(degrees, level, shared) * error
    mean = float(values.mean())
    return Interval(mean - half, mean + half, "corrected-t")


def intervals_over_folds(
    means: NDArray[np.float64], test_share: float, pairs: Sequence[tuple[int, int]]
) -> list[Interval | None]:
    """Returns the intervals of pairs of methods, each at `LEVEL` divided by the number of pairs.

    Args:
        means: (M, K), means of the methods over the test sets.
        test_share: n_test / n_train.
    """
    variances = shared_variances(means) if len(means) > 2 else None
    intervals = []
    for a, b in pairs:
        shared = None
        if variances is not None:
            variance = float(variances[a] + variances[b])
            shared = SharedVariance(variance, len(means), len(pairs))
        differences = means[a] - means[b]
        intervals.append(
            interval_over_folds(differences, test_share, LEVEL / len(pairs), shared)
        )
    return intervals


def shared_variances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (M,), the part of each model in the variance over folds of a difference, for M >= 3.

    For values x of the shape (M, J) and

        S_m = sum_j (x_mj - mean_j x_mj - mean_m x_mj + mean_mj x_mj)^2 / (J - 1)

    the variance of the interaction of model m and fold is estimated by

        v_m = (M S_m - mean v) / (M - 2),    mean v = sum_m S_m / (M - 1)

    (Grubbs, 1948, JASA 43; Shukla, 1972, Heredity 29). Returns max(v_m, mean v): a model that varies more
    than the others keeps its own variance, which limits false claims (results/calibration).
    """
    num_models = len(values)
    interaction = values - values.mean(axis=0)
    squares = interaction.var(axis=1, ddof=1)
    mean = squares.sum() / (num_models - 1)
    own = (num_models * squares - mean) / (num_models - 2)
    of_models: NDArray[np.float64] = np.maximum(own, mean)
    return of_models


def quantile_of(
    degrees: float, level: float, shared: SharedVariance | None = None
) -> float:
    """Returns the half-width of the interval of one pair, in standard errors.

    It is Student's quantile at 1 - level / 2. With a shared variance it is the smaller of this and Tukey's
    (1953): that of the studentised range at 1 - num_pairs level, divided by sqrt(2), which is valid for all
    pairs of the M models together.
    """
    student = float(stdtrit(degrees, 1 - level / 2))
    if shared is None:
        return student
    of_range = studentised_range(level * shared.num_pairs, shared.num_models, degrees)
    return min(student, of_range / math.sqrt(2))


@lru_cache(maxsize=4096)
def studentised_range(level: float, num_models: int, degrees: float) -> float:
    """Returns the quantile at 1 - level of the studentised range of M normal values.

        P(range < q) = E_s M integral phi(z) (Phi(z) - Phi(z - q s))^(M - 1) dz

    for s^2 = chi^2(degrees) / degrees. Both integrals are sums at equal steps of z and log s, which converge
    fast because the integrands vanish at both ends. scipy.stats.studentized_range needs 0.2 s for a value.
    """
    z = np.linspace(-8, 8, 81)
    # log s has the density exp(degrees (u - exp(2 u) / 2)); e^-40 of its maximum is left out.
    width = math.sqrt(40 / degrees)
    log_s = np.linspace(-width - 40 / degrees, width, 120)
    density = np.exp(degrees * (log_s - np.expm1(2 * log_s) / 2))
    probability = (density / density.sum())[:, np.newaxis]
    s = np.exp(log_s)[:, np.newaxis]
    step = num_models * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    weights = step * np.exp(-(z**2) / 2) * probability

    def probability_below(q: float) -> float:
        inner = ndtr(z) - ndtr(z - q * s)
        return float((weights * inner ** (num_models - 1)).sum())

    # The quantile is between those of one pair and of all pairs by Bonferroni.
    num_pairs = num_models * (num_models - 1) / 2
    low = math.sqrt(2) * float(stdtrit(degrees, 1 - level / 2))
    high = math.sqrt(2) * float(stdtrit(degrees, 1 - level / 2 / num_pairs))
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        if probability_below(middle) < 1 - level:
            low = middle
        else:
            high = middle
    return high
