"""Two methods trained several times: inference over the variation of training and of queries.

R replicates of a model are R trainings, with different seeds or on different resamples of the training
queries. Their values on the same Q queries form a two-way table, training x query. Shapes: values (R, Q);
shares (Q,), the share of each query in a mean, which sum to 1.

    independent_replicates    each model has its own trainings, as with seeds of two libraries
    shared_replicates         models share each training: a seed that draws the same sample, or a resample
    fold_variations           folds of a cross-validation: how much wider an interval over queries must be

Sources: Obuchowski and Rockette (1995), Communications in Statistics 24; Gallas (2006), Academic Radiology
13; Hillis (2007), Statistics in Medicine 26; for retrieval Voorhees, Samarov and Soboroff (2017), TOIS 36(2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery
from ltrbench.statistics.paired import (
    DECIMALS,
    FEWEST_QUERIES,
    IDENTICAL,
    LEVEL,
    Differing,
    Interval,
    PairedSample,
    effective_size,
    largest_plausible,
    squared_errors,
    weighted_sum,
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
    """

    query: float
    training: float
    training_by_query: float

    @property
    def total(self) -> float:
        return self.query + self.training + self.training_by_query


@dataclass(frozen=True)
class Inference:
    """Mean difference of method a minus method b, with its standard error.

    Attributes:
        difference: mean over queries of the mean over replicates.
        standard_error: standard error of the difference, over all sources of variation; None if not
            available.
        degrees: (share, degrees of freedom) of each part of the squared standard error; the shares sum to 1.
        num_replicates: number of replicates of a and of b.
        num_queries: Q.
        parts: parts of the squared standard error.
        method: name of the interval: mrmc-t, paired-mrmc-t or resampled-t.
        differing: queries with a difference of the means over trainings.
        note: reason why the standard error is None, "identical", or empty.
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

    def interval(self, level: float) -> Interval | None:
        """Returns difference -+ sum_i share_i t(degrees_i) SE, at confidence 1 - level; None without SE.

        If few queries differ, it is the interval of `Differing`.

        The mean of t quantiles is from Cochran and Cox (1957, "Experimental Designs", section 4.14). With one
        part it is Student's interval.
        """
        if self.standard_error is None:
            return None
        if self.differing.are_few:
            return self.differing.interval(level)
        quantile = 0.0
        for share, degrees in self.degrees:
            of_degrees = float(scipy.special.stdtrit(degrees, 1 - level / 2))
            quantile += share * of_degrees
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
    of_query = np.round(a.mean(axis=0) - b.mean(axis=0), DECIMALS)
    trainings = []
    interaction = 0.0
    for model in (a, b):
        num_trainings = len(model)
        means = (model * shares).sum(axis=1)
        trainings.append((_variance(means) / num_trainings, num_trainings - 1))
        interaction += _interaction(model, shares) / num_trainings
    return _two_way(
        of_query=of_query,
        shares=shares,
        trainings=trainings,
        interaction=interaction,
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
    means = (differences * shares).sum(axis=1)
    trainings = [(scale * _variance(means), len(a) - 1)]
    return _two_way(
        of_query=differences.mean(axis=0),
        shares=shares,
        trainings=trainings,
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


@dataclass(frozen=True)
class FoldVariation:
    """Variation of the mean difference of two methods over the test sets of a cross-validation.

    An interval about the methods, trained on other queries, is the interval over queries times `factor`, and
    at least as wide as the t intervals of the standard errors `of_round` and `floor`.

    Attributes:
        factor: sqrt(1 + a), with `training_allowance` a of J folds.
        free: degrees of freedom over the queries of one round of folds, sum_j (n_j - 1).
        degrees: degrees of freedom over the means of all folds, J R - 1.
        of_round: `factor` times the standard error over queries of one round of folds, as the mean over the
            rounds; 0 without repeats.
        statistic: F, the variance of the fold means over the variance that the queries of a fold explain;
            None if the difference has no variance over queries.
        p_value: p-value of F, under the null hypothesis that training sets do not matter.
        floor: sqrt((1 / (J R) + rho) s^2) if training sets matter (p below `LEVEL`), s^2 the variance of the
            J R fold means; otherwise 0.
    """

    _: KW_ONLY
    factor: float
    free: float
    degrees: int
    of_round: float = 0.0
    statistic: float | None = None
    p_value: float | None = None
    floor: float = 0.0

    @property
    def matters(self) -> bool:
        """Whether the folds differ more than their queries explain, so that training sets matter."""
        return self.floor > 0

    def interval(self, over_queries: Interval | None, level: float) -> Interval | None:
        """Returns the interval about the methods; None without an interval over queries.

        Args:
            over_queries: Interval of the trained models, whatever its method.
            level: Error level of this pair alone, for the floor.
        """
        if over_queries is None:
            return None
        middle = (over_queries.low + over_queries.high) / 2
        half = self.factor * (over_queries.high - middle)
        method = "inflated"
        for name, degrees, standard_error in (
            ("inflated", self.free, self.of_round),
            ("corrected-t", self.degrees, self.floor),
        ):
            quantile = float(scipy.special.stdtrit(degrees, 1 - level / 2))
            at_least = quantile * standard_error
            if at_least > half:
                half = at_least
                method = name
        return Interval(middle - half, middle + half, method, over_queries.note)


def fold_variations(
    differences: PairedSample, *, num_folds: int, test_share: float
) -> list[FoldVariation]:
    """Returns for each pair how much training sets add to the error of its mean difference over folds.

    The trained models of J folds, each tested on its own queries, have the squared standard error

        S = sum_j s_j^2 / n_j / J^2

    over queries. For methods that are trained again on other queries it is inflated to

        V = (1 + a) S,    a = J rho with up to five folds (`training_allowance`),    rho = n_test / n_train

    which is the correction of Nadeau and Bengio (2003, Machine Learning 52), (1/J + rho) s^2, with the
    variance s^2 of the fold means replaced by what the queries say about it, J S. Hundreds of queries
    estimate it, instead of J numbers: no quantile of t with J - 1 degrees of freedom inflates it again.

    R repeats average S over the trained models, but not the effect of the queries that all of their training
    sets are drawn from. V is therefore at least the mean of V over the R rounds of folds.

    V is too small if training sets add more than a S. An F test of the fold means against the query noise
    detects the part of it that the folds do not share:

        F = s^2 / mean_j(s_j^2 / n_j),    J R - 1 and sum_j (n_j - 1) degrees of freedom

    If p < 5 %, V is at least (1 / (J R) + rho) s^2 (Bouckaert and Frank, 2004, PAKDD, section 3.2).
    results/calibration has the measured rates of false claims.

    Args:
        differences: (P, Q), difference of each pair on each query, averaged over seeds; its strata are the
            test sets of the J folds of each of R repeats.
        num_folds: J.
        test_share: rho.
    """
    means = []
    errors = []
    for cell in differences.cells:
        shares = differences.weights[cell] / differences.weights[cell].sum()
        values = np.take(differences.values, cell, axis=1)
        means.append(weighted_sum(values, shares))
        errors.append(squared_errors(values, shares, differences.are_clusters))
    num_sets = len(means)
    num_repeats = num_sets / num_folds
    # Repeats have no new queries.
    free = float((differences.effective_sizes - 1).sum()) / num_repeats
    return [
        _fold_variation(
            of_pair,
            float(of_queries),
            free,
            num_folds=num_folds,
            test_share=test_share,
        )
        for of_pair, of_queries in zip(
            np.array(means).T, np.mean(errors, axis=0), strict=True
        )
    ]


def training_allowance(num_folds: int, test_share: float) -> float:
    """Returns a, the variance that training sets may add to a mean over folds, as a multiple of S.

        a = max(J rho, 5/4 sqrt(J / 5))

    J rho, of Nadeau and Bengio, is 1.5, 1.25 and 1.1 for three, five and ten folds. It decreases although
    folds share more training queries, so that their mean averages less of the variance of training: for a
    learner that selects one of 20 features it was .7, 1.1, 1.4, 1.8 and 2.8 S over 3, 5, 7, 10 and 20 folds.
    From five folds on the allowance therefore grows, with the square root of J.

    >>> [round(training_allowance(folds, 1 / (folds - 1)), 2) for folds in (3, 5, 10)]
    [1.5, 1.25, 1.77]
    """
    return max(num_folds * test_share, 1.25 * math.sqrt(num_folds / 5))


def _fold_variation(
    means: NDArray[np.float64],
    of_queries: float,
    free: float,
    *,
    num_folds: int,
    test_share: float,
) -> FoldVariation:
    """Returns the variation of one pair.

    Args:
        means: (J R,), mean difference in each test set.
        of_queries: mean over the test sets of the squared error of their mean over queries.
        free: degrees of freedom of one round of folds.
    """
    factor = math.sqrt(1 + training_allowance(num_folds, test_share))
    degrees = len(means) - 1
    if not of_queries > 0:
        return FoldVariation(factor=factor, free=free, degrees=degrees)
    of_round = 0.0
    if len(means) > num_folds:
        of_round = factor * math.sqrt(of_queries / num_folds)
    variance = _variance(means)
    statistic = variance / of_queries
    p_value = float(scipy.special.fdtrc(degrees, free, statistic))
    floor = 0.0
    if p_value < LEVEL:
        floor = math.sqrt((1 / len(means) + test_share) * variance)
    return FoldVariation(
        factor=factor,
        free=free,
        degrees=degrees,
        of_round=of_round,
        statistic=statistic,
        p_value=p_value,
        floor=floor,
    )


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
    standard_error = None
    if note in ("", IDENTICAL):
        standard_error = float(np.sqrt(training + query))
    of_trainings = [term for term in trainings if term[0] > 0]
    of_queries = (query, effective_size(shares) - 1)
    return Inference(
        difference=float((of_query * shares).sum()),
        standard_error=standard_error,
        degrees=_degrees(of_trainings, of_queries),
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
    terms: list[tuple[float, float]] = [*trainings, queries]
    parts = [part for part in terms if part[0] > 0]
    total = sum(variance for variance, _ in parts)
    if len(trainings) > 1:
        squares = sum(variance**2 / free for variance, free in parts)
        return ((1.0, total**2 / squares),)
    return tuple((variance / total, free) for variance, free in parts)


def _reason(
    num_queries: int, num_replicates: tuple[int, int], total: float, of_query: PerQuery
) -> str:
    """Returns the reason why there is no claim; `IDENTICAL` if the methods do not differ; otherwise empty."""
    fewest = min(
        (number for number in num_replicates if number > 1), default=FEWEST_REPLICATES
    )
    if num_queries < FEWEST_QUERIES:
        if num_queries == 1:
            return "one query only"
        return f"{num_queries} queries; a claim needs {FEWEST_QUERIES}"
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
    if np.ptp(values) > 0:
        return float(values.var(ddof=1))
    return 0.0


def _interaction(values: ReplicateValues, shares: PerQuery) -> float:
    """Returns sum_t SE^2(x_tq - mean_t x_tq) / (R - 1); 0 for one training."""
    if len(values) < 2 or len(shares) < 2:
        return 0.0
    centred = values - values.mean(axis=0)
    errors = [_squared_error(row, shares) for row in centred]
    return sum(errors) / (len(values) - 1)


def _squared_error(values: PerQuery, shares: PerQuery) -> float:
    """Returns SE^2, as in `PairedSample.standard_errors`."""
    if np.ptp(values) > 0:
        return float(squared_errors(values[np.newaxis], shares)[0])
    return 0.0


def _check(shares: PerQuery, *models: ReplicateValues) -> None:
    for values in models:
        has_shape = values.ndim == 2 and values.shape[1] == len(shares)
        if not has_shape or not np.isfinite(values).all():
            raise ConfigError(
                f"values must be finite and have the shape (trainings, {len(shares)} queries), not "
                f"{values.shape}; leave out the queries on which the metric is not defined."
            )


ROPE = 0.005
"""Half the width of the region of practical equivalence, in NDCG: users do not notice such a difference."""
