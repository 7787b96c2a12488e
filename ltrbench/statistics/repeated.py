"""Two methods trained several times: inference over the variation of training and of queries.

R replicates of a model are R trainings, with different seeds or on different resamples of the training
queries. Their values on the same Q queries form a two-way table, training x query. Shapes: values (R, Q);
shares (Q,), the share of each query in a mean, which sum to 1.

    independent_replicates    each model has its own trainings, as with seeds of two libraries
    shared_replicates         models share each training: a seed that draws the same sample, or a resample
    fold_replicates           folds of a cross-validation, with seeds within folds
    with_shared_variance      the same, with variances over folds estimated from several models

Sources: Obuchowski and Rockette (1995), Communications in Statistics 24; Gallas (2006), Academic Radiology
13; Hillis (2007), Statistics in Medicine 26; for retrieval Voorhees, Samarov and Soboroff (2017), TOIS 36(2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery
from ltrbench.statistics.claims import BETTER, EQUIVALENT, WORSE, claim_of
from ltrbench.statistics.paired import (
    CONFIDENCE,
    DECIMALS,
    FEWEST_QUERIES,
    IDENTICAL,
    LEVEL,
    Differing,
    Interval,
    PairedSample,
    effective_size,
    excludes,
    largest_plausible,
    squared_errors,
    student_intervals,
)

FEWEST_REPLICATES = 3
"""Minimum number of trainings for a claim: the variance of two has only one degree of freedom."""

ReplicateValues = NDArray[np.float64]  # (R, Q)


@dataclass(frozen=True)
class VarianceParts:
    """Parts of the variance of a mean difference; they sum to it.

    Attributes:
        query: variance over queries.
        training: variance over trainings on the same queries.
        training_by_query: interaction: trainings differ in which queries they rank well.
        fold: additional variance over folds; None without folds.
    """

    query: float
    training: float
    training_by_query: float
    fold: float | None = None

    @property
    def total(self) -> float:
        return self.query + self.training + self.training_by_query + (self.fold or 0.0)


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


@dataclass(frozen=True)
class Inference:
    """Mean difference of method a minus method b, with its standard error.

    Attributes:
        difference: mean over queries of the mean over replicates.
        standard_error: standard error of the difference, over all sources of variation; None if not
            available.
        degrees: (share, degrees of freedom) of each part of the squared standard error; the shares sum to 1.
        num_replicates: number of replicates of a and of b; over folds, the number of folds for both.
        num_queries: Q.
        parts: parts of the squared standard error.
        method: name of the interval: mrmc-t, paired-mrmc-t, resampled-t, corrected-t or shared-corrected-t.
        differing: queries with a difference of the means over trainings.
        note: reason why the standard error is None, "identical", or empty.
        shared: the variance from several models; None if the variance is that of the pair.
    """

    difference: float
    standard_error: float | None
    degrees: tuple[tuple[float, float], ...]
    num_replicates: tuple[int, int]
    num_queries: int
    parts: VarianceParts
    method: str
    differing: Differing
    note: str = ""
    shared: SharedVariance | None = None

    def interval(self, level: float) -> Interval | None:
        """Returns difference -+ sum_i share_i t(degrees_i) SE, at confidence 1 - level; None without SE.

        If few queries differ, it is the interval of `Differing`. With a shared variance t is `quantile_of`.

        The mean of t quantiles is from Cochran and Cox (1957, "Experimental Designs", section 4.14). With one
        part it is Student's interval.
        """
        if self.standard_error is None:
            return None
        if self.differing.are_few:
            return self.differing.interval(level)
        quantile = sum(
            share * quantile_of(degrees, level, self.shared)
            for share, degrees in self.degrees
        )
        half = quantile * self.standard_error
        return Interval(self.difference - half, self.difference + half, self.method)

    def turned(self) -> Inference:
        """Returns the inference for b minus a."""
        a, b = self.num_replicates
        return replace(self, difference=0.0 - self.difference, num_replicates=(b, a))


def independent_replicates(
    a: ReplicateValues, b: ReplicateValues, shares: PerQuery
) -> Inference:
    """Multi-reader multi-case analysis, trainings nested in models (Hillis, 2007, split-plot design).

    x_mtq are the values, R_m is the number of trainings of model m, d_q the difference of the models' means
    on query q, and SE^2(y) the squared standard error of the weighted mean of y over queries:

        S_T  = sum_m var_t(mean_q x_mtq) / R_m                             MS_T, trainings
        S_q  = SE^2(d_q)                                                   MS_mQ, queries
        S_TQ = sum_m sum_t SE^2(x_mtq - mean_t x_mtq) / (R_m (R_m - 1))    MS_TQ, training x query
        V    = S_T + max(S_q - S_TQ, 0)

    For equal R and equal shares V is 2 / (R Q) (MS_T + max(MS_mQ - MS_TQ, 0)). The degrees of freedom are
    those of Hillis, with one term per model for its trainings, because their variances may differ
    (Satterthwaite, 1946), and one term for the queries:

        V^2 / (sum_m (S_T of m)^2 / (R_m - 1) + max(S_q - S_TQ, 0)^2 / (Q - 1))

    If the training of only one model varies, the interval is that of `shared_replicates`.

    Args:
        a, b: (R_a, Q) and (R_b, Q). A single training means that the training is known not to vary.
        shares: (Q,).

    Raises:
        ConfigError: If the shape of an array does not match, or a value is not finite.
    """
    _check(shares, a, b)
    return _two_way(
        of_query=np.round(a.mean(axis=0) - b.mean(axis=0), DECIMALS),
        shares=shares,
        trainings=[
            (_variance((model * shares).sum(axis=1)) / len(model), len(model) - 1)
            for model in (a, b)
        ],
        interaction=sum(_interaction(model, shares) / len(model) for model in (a, b)),
        num_replicates=(len(a), len(b)),
        method="mrmc-t",
        largest=largest_plausible(a, b),
    )


def shared_replicates(
    a: ReplicateValues,
    b: ReplicateValues,
    shares: PerQuery,
    factor: float | None = None,
) -> Inference:
    """Analysis of trainings shared by both models, as paired differences D_tq = a_tq - b_tq.

        S_T  = factor var_t(mean_q D_tq)
        S_TQ = factor sum_t SE^2(D_tq - mean_t D_tq) / (R - 1)
        V    = S_T + max(SE^2(mean_t D_tq) - S_TQ, 0)

    The t quantile is the mean of the quantiles with R - 1 and Q - 1 degrees of freedom, weighted by S_T and
    V - S_T. With R = 3 the formula of Hillis would give up to 7.1 % false claims at 5 %
    (results/calibration).

    Args:
        a, b: (R, Q), row t of both from the same training.
        factor: `resampling_factor` for resamples of one training set; None: 1 / R, for independent trainings
            such as seeds.

    Raises:
        ConfigError: If the shape of an array does not match, or a value is not finite.
    """
    _check(shares, a, b)
    differences = np.round(a - b, DECIMALS)
    scale = 1 / len(a) if factor is None else factor
    return _two_way(
        of_query=differences.mean(axis=0),
        shares=shares,
        trainings=[(scale * _variance((differences * shares).sum(axis=1)), len(a) - 1)],
        interaction=scale * _interaction(differences, shares),
        num_replicates=(len(a), len(b)),
        method="paired-mrmc-t" if factor is None else "resampled-t",
        largest=largest_plausible(a, b),
    )


def resampling_factor(kind: str, num_resamples: int, share: float = 1.0) -> float:
    """Returns the factor from the variance over R resamples to the variance over other training sets.

    1 + 1/R for bootstrap samples: their variance around the training set estimates the variance of training
    sets around the population (Efron, 1979). 1/R + p / (1 - p) for subsamples of share p: the delete-d
    jackknife (Shao and Wu, 1989, Annals of Statistics 17). Both assume a smooth learner.

    >>> resampling_factor("bootstrap", 5), resampling_factor("subsample", 5, share=0.5)
    (1.2, 1.2)
    """
    if kind == "bootstrap":
        return 1 + 1 / num_resamples
    return 1 / num_resamples + share / (1 - share)


def fold_replicates(
    folds: Sequence[Inference],
    query_parts: Sequence[float],
    test_share: float,
    times: float = 1.0,
    folds_of_repeat: int | None = None,
) -> Inference:
    """Corrected resampled t test with the variance of seeds within folds (Nadeau and Bengio, 2003).

        V = (1/J + n_test/n_train) var_j(d_j) + sum_j W_j / J^2

    for the differences d_j of J folds and the variance W_j of the trainings within fold j, with J - 1 degrees
    of freedom. var_j already contains a part of the W_j, so V is conservative. J counts the folds of all
    repeats of a cross-validation (Bouckaert and Frank, 2004, PAKDD, section 3.2).

    Assumes that test queries matter more than training sets: folds share most of their training queries, and
    hardly show the variation of training sets. If that variation dominates, false claims are frequent
    (results/calibration).

    Args:
        folds: inference within each fold, from its trainings; a single training adds no W_j.
        query_parts: (J,), squared standard error over the queries of each fold.
        test_share: n_test / n_train, in queries.
        times: mean number of folds that a query is in: the number of repeats. Repeats have no new queries,
            and do not reduce the variance over queries.
        folds_of_repeat: number of folds of a repeat, of which a claim needs `FEWEST_REPLICATES`; None: J.
    """
    values = np.array([fold.difference for fold in folds])
    num_folds = len(folds)
    within = (
        sum(fold.parts.training + fold.parts.training_by_query for fold in folds)
        / num_folds**2
    )
    between = (1 / num_folds + test_share) * _variance(values)
    query = min(times * sum(query_parts) / num_folds**2, between)
    error = float(np.sqrt(between + within))
    note = "" if error else _SAME_DIFFERENCE if values.any() else IDENTICAL
    folds_of_repeat = folds_of_repeat or num_folds
    if folds_of_repeat < FEWEST_REPLICATES:
        note = f"{folds_of_repeat} folds; a claim needs {FEWEST_REPLICATES}"
    counts = [fold.differing for fold in folds]
    return Inference(
        difference=float(values.mean()),
        standard_error=error if note in ("", IDENTICAL) else None,
        degrees=((1.0, num_folds - 1),),
        num_replicates=(num_folds, num_folds),
        num_queries=round(sum(fold.num_queries for fold in folds) / times),
        parts=VarianceParts(query, within, 0.0, between - query),
        method="corrected-t",
        differing=Differing(
            num_queries=sum(count.num_queries for count in counts) / times,
            num_differing=sum(count.num_differing for count in counts) / times,
            share=sum(count.share for count in counts) / num_folds,
            largest=max(count.largest for count in counts),
        ),
        note=note,
    )


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
    of_models: NDArray[np.float64] = np.maximum(
        (num_models * squares - mean) / (num_models - 2), mean
    )
    return of_models


def with_shared_variance(
    inference: Inference, shared: SharedVariance, test_share: float
) -> Inference:
    """Returns an inference of `fold_replicates` with var_j(d_j) replaced by the variance of the two models.

    The degrees of freedom are those of the mean variance, (M - 1) (J - 1).

    Args:
        test_share: as in `fold_replicates`.
    """
    parts, num_folds = inference.parts, inference.num_replicates[0]
    between = (1 / num_folds + test_share) * shared.variance
    query = min(parts.query, between)
    parts = replace(parts, query=query, fold=between - query)
    note = "" if inference.note == _SAME_DIFFERENCE else inference.note
    return replace(
        inference,
        standard_error=math.sqrt(parts.total) if note in ("", IDENTICAL) else None,
        degrees=((1.0, (num_folds - 1) * (shared.num_models - 1)),),
        parts=parts,
        method="shared-corrected-t",
        note=note,
        shared=shared,
    )


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
    step = num_models * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    outer = step * np.exp(-(z**2) / 2) * (density / density.sum())[:, np.newaxis]
    s = np.exp(log_s)[:, np.newaxis]
    # The quantile is between those of one pair and of all pairs by Bonferroni.
    num_pairs = num_models * (num_models - 1) / 2
    low, high = (
        math.sqrt(2) * float(stdtrit(degrees, 1 - level / 2 / n))
        for n in (1, num_pairs)
    )
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        inside = float(
            (outer * (ndtr(z) - ndtr(z - middle * s)) ** (num_models - 1)).sum()
        )
        low, high = (middle, high) if inside < 1 - level else (low, middle)
    return high


def _two_way(
    *,
    of_query: PerQuery,
    shares: PerQuery,
    trainings: Sequence[tuple[float, int]],
    interaction: float,
    num_replicates: tuple[int, int],
    method: str,
    largest: float,
) -> Inference:
    """Returns the inference with V = S_T + max(S_q - S_TQ, 0) and its degrees of freedom.

    Args:
        of_query: (Q,), difference on each query, averaged over trainings.
        trainings: (variance, degrees of freedom) of each term of S_T.
        interaction: S_TQ.
        largest: largest plausible difference on a query.
    """
    num_queries = len(shares)
    training = sum(variance for variance, _ in trainings)
    query = max(_squared_error(of_query, shares) - interaction, 0.0)
    main = max(training - interaction, 0.0)
    note = _reason(num_queries, num_replicates, training + query, of_query)
    return Inference(
        difference=float((of_query * shares).sum()),
        standard_error=float(np.sqrt(training + query))
        if note in ("", IDENTICAL)
        else None,
        degrees=_degrees(
            [term for term in trainings if term[0] > 0],
            (query, effective_size(shares) - 1),
        ),
        num_replicates=num_replicates,
        num_queries=num_queries,
        parts=VarianceParts(query, main, training - main),
        method=method,
        differing=Differing.of(of_query, shares, largest),
        note=note,
    )


def _degrees(
    trainings: Sequence[tuple[float, int]], queries: tuple[float, float]
) -> tuple[tuple[float, float], ...]:
    """Returns `Inference.degrees`: of Hillis if the trainings of both models vary, otherwise of each part."""
    parts: list[tuple[float, float]] = [
        part for part in (*trainings, queries) if part[0] > 0
    ]
    total = sum(variance for variance, _ in parts)
    if len(trainings) > 1:
        return ((1.0, total**2 / sum(variance**2 / free for variance, free in parts)),)
    return tuple((variance / total, free) for variance, free in parts)


def _reason(
    num_queries: int, num_replicates: tuple[int, int], total: float, of_query: PerQuery
) -> str:
    """Returns the reason why there is no claim; `IDENTICAL` if the methods do not differ; otherwise empty."""
    fewest = min(
        (number for number in num_replicates if number > 1), default=FEWEST_REPLICATES
    )
    if num_queries < FEWEST_QUERIES:
        return (
            "one query only"
            if num_queries == 1
            else f"{num_queries} queries; a claim needs {FEWEST_QUERIES}"
        )
    if fewest < FEWEST_REPLICATES:
        return f"{fewest} trainings of a model; a claim needs {FEWEST_REPLICATES}"
    if total > 0:
        return ""
    return (
        "the same difference on every query and in every training"
        if of_query.any()
        else IDENTICAL
    )


def _variance(values: NDArray[np.float64]) -> float:
    """Returns the sample variance, with n - 1; exactly 0 for one value and for equal values."""
    return float(values.var(ddof=1)) if np.ptp(values) > 0 else 0.0


def _interaction(values: ReplicateValues, shares: PerQuery) -> float:
    """Returns sum_t SE^2(x_tq - mean_t x_tq) / (R - 1); 0 for one training."""
    if len(values) < 2 or len(shares) < 2:
        return 0.0
    centred = values - values.mean(axis=0)
    return sum(_squared_error(row, shares) for row in centred) / (len(values) - 1)


def _squared_error(values: PerQuery, shares: PerQuery) -> float:
    """Returns SE^2, as in `PairedSample.standard_errors`."""
    return (
        float(squared_errors(values[np.newaxis], shares)[0])
        if np.ptp(values) > 0
        else 0.0
    )


def _check(shares: PerQuery, *models: ReplicateValues) -> None:
    for values in models:
        if (
            values.ndim != 2
            or values.shape[1] != len(shares)
            or not np.isfinite(values).all()
        ):
            raise ConfigError(
                f"values must be finite and have the shape (trainings, {len(shares)} queries), not "
                f"{values.shape}; leave out the queries on which the metric is not defined."
            )


# ---- Two methods over the folds of a cross-validation: inference for training on other queries.
#
# The differences of the folds are not independent, because any two folds share most of their training
# queries. Both tests increase the standard error of the mean accordingly.

ROPE = 0.005
"""Half the width of the region of practical equivalence, in NDCG: users do not notice such a difference."""

_SAME_DIFFERENCE = "the same difference in every fold"


@dataclass(frozen=True)
class FoldTest:
    """Mean difference over J folds, its corrected interval and two-sided p-value; `degrees` is J - 1."""

    difference: float
    interval: Interval
    p_value: float | None
    degrees: int
    note: str = ""

    def turned(self) -> FoldTest:
        """Returns the result for the second method minus the first."""
        return replace(
            self, difference=0.0 - self.difference, interval=self.interval.turned()
        )


@dataclass(frozen=True)
class RopeProbabilities:
    """Probabilities of a difference below -rope, from -rope to rope, and above rope; they sum to 1."""

    left: float
    within: float
    right: float
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

    """
    mean, error, degrees = _corrected(differences, test_share)
    if error == 0:
        note, p_value = (IDENTICAL, 1.0) if mean == 0 else (_SAME_DIFFERENCE, None)
        return FoldTest(
            mean, Interval(mean, mean, "corrected-t"), p_value, degrees, note
        )
    half = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
    p_value = float(2 * stdtr(degrees, -abs(mean) / error))
    return FoldTest(
        mean, Interval(mean - half, mean + half, "corrected-t"), p_value, degrees
    )


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
    """
    mean, error, degrees = _corrected(differences, test_share)
    if error == 0:
        left, right = float(mean < -rope), float(mean > rope)
        note = IDENTICAL if mean == 0 else _SAME_DIFFERENCE
        return RopeProbabilities(left, 1 - left - right, right, rope, note)
    left = float(stdtr(degrees, (-rope - mean) / error))
    right = float(stdtr(degrees, (mean - rope) / error))
    return RopeProbabilities(left, max(0.0, 1 - left - right), right, rope)


def _corrected(
    differences: Sequence[float], test_share: float
) -> tuple[float, float, int]:
    """Returns the mean over J folds, its corrected standard error, and J - 1."""
    values = np.array(differences)
    if len(values) < 2:
        raise ConfigError(
            "a test over folds needs the differences of two folds or more."
        )
    if values.min() == values.max():
        return float(values[0]), 0.0, len(values) - 1
    variance = (1 / len(values) + test_share) * values.var(ddof=1)
    return float(values.mean()), float(np.sqrt(variance)), len(values) - 1


# ---- A/A test: rate of claims between a model and itself, where there is no difference.
#
# The replicates of a model are split into two halves, which are compared like two models. No half is
# better, so every interval that excludes 0 is wrong; about 5 % are expected. The halvings of one set of
# replicates are not independent: each has the same lucky training in one half. A rate therefore describes
# this set only and has no standard error; over many models the rates have a mean of about 5 %.
#
# On one split of the data, `independent_replicates` compares the halves, for seeds and for resamples of the
# training queries. Halves of resamples share the resampled training set, whose effect cancels: the claim is
# about trainings on its resamples.
#
# With folds, a half has the same replicates in every fold, and `fold_replicates` compares the halves like
# two models. It is conservative here: the halves share the training set of each fold, so the variance over
# folds already contains the variance of the trainings, which is added.

FEWEST_TO_HALVE = 8
"""Minimum number of replicates. With fewer, a half has fewer than four, and there are at most 35 halvings."""

MOST_HALVINGS = 1_000

Halving = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Indices of the replicates of each half."""


@dataclass(frozen=True)
class SelfComparison:
    """Counts of claims between two halves of the replicates of one model.

    Attributes:
        num_halvings: number of halvings compared.
        num_distinct: number of distinct halvings.
        num_intervals: number of halvings with an interval that excludes 0.
        num_different, num_equivalent: number of halvings with the claim better or worse, or equivalent, given
            the region of equivalence; the other halvings are undecided.
        num_by_queries: number of halvings for which Student's interval over queries alone, of the means of
            the halves, excludes 0: the claims if the variation of training were ignored.
    """

    num_halvings: int
    num_distinct: int
    num_intervals: int
    num_different: int
    num_equivalent: int
    num_by_queries: int


def against_itself(
    values: ReplicateValues,
    sample: PairedSample,
    *,
    test_share: float | None = None,
    rope: float,
    seed: int = 0,
) -> SelfComparison:
    """Compares halves of the replicates of one model.

    Args:
        values: (R, Q).
        sample: sample of the same Q queries, with their shares and folds; its values are not used.
        test_share: n_test / n_train; required with several folds.
        seed: draws `MOST_HALVINGS` halvings if there are more.
    """
    judged, by_queries = [], 0
    for first, second in halvings(len(values), MOST_HALVINGS, seed):
        judged.append(
            _inference(values[first], values[second], sample, test_share).interval(
                LEVEL
            )
        )
        difference = values[first].mean(axis=0) - values[second].mean(axis=0)
        of_means = PairedSample(difference[None], sample.weights, sample.strata)
        by_queries += excludes(student_intervals(of_means)[0])
    claims = [claim_of(interval, rope) for interval in judged]
    return SelfComparison(
        num_halvings=len(judged),
        num_distinct=num_distinct_halvings(len(values)),
        num_intervals=sum(map(excludes, judged)),
        num_different=sum(claim in (BETTER, WORSE) for claim in claims),
        num_equivalent=claims.count(EQUIVALENT),
        num_by_queries=by_queries,
    )


def num_distinct_halvings(num_replicates: int) -> int:
    """Returns the number of ways to split replicates into two unordered halves.

    >>> num_distinct_halvings(8), num_distinct_halvings(9)
    (35, 126)
    """
    count = math.comb(num_replicates, num_replicates // 2)
    return count if num_replicates % 2 else count // 2


def halvings(num_replicates: int, most: int, seed: int) -> list[Halving]:
    """Returns all distinct halvings, in order, or `most` of them, drawn by `seed`, if there are more.

    For odd R the halves have (R - 1) / 2 and (R + 1) / 2 replicates.
    """
    size = num_replicates // 2
    if num_distinct_halvings(num_replicates) <= most:
        firsts = itertools.combinations(range(num_replicates), size)
        # Of two halves of equal size, the half with replicate 0 is the first.
        chosen = [first for first in firsts if num_replicates % 2 or first[0] == 0]
    else:
        chosen = _drawn(num_replicates, most, seed)
    everything = np.arange(num_replicates)
    return [(np.array(first), np.setdiff1d(everything, first)) for first in chosen]


def _drawn(num_replicates: int, count: int, seed: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    size = num_replicates // 2
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < count:
        order = rng.permutation(num_replicates).tolist()
        half = order[:size]
        if num_replicates % 2 == 0 and 0 not in half:
            half = order[size:]
        drawn[tuple(sorted(half))] = None
    return list(drawn)


def _inference(
    a: ReplicateValues,
    b: ReplicateValues,
    sample: PairedSample,
    test_share: float | None,
) -> Inference:
    """Returns the inference for the difference of two halves."""
    folds, query_parts = [], []
    for cell in sample.cells:
        shares = sample.weights[cell] / sample.weights[cell].sum()
        of_fold = a[:, cell], b[:, cell]
        folds.append(independent_replicates(*of_fold, shares))
        means = tuple(half.mean(axis=0)[None] for half in of_fold)
        query_parts.append(
            independent_replicates(means[0], means[1], shares).parts.query
        )
    return (
        folds[0]
        if len(folds) == 1
        else fold_replicates(folds, query_parts, test_share or 0.0)
    )
