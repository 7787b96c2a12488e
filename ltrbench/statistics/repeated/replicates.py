"""Two methods trained several times: inference over the variation of training and of queries.

R replicates of a model are R trainings, with different seeds or on different resamples of the training
queries. Their values on the same Q queries form a two-way table, training x query. Shapes: values (R, Q);
shares (Q,), the share of each query in a mean, which sum to 1.

    independent_replicates    each model has its own trainings, as with seeds of two libraries
    shared_replicates         models share each training: a seed that draws the same sample, or a resample
    fold_replicates           folds of a cross-validation, with seeds within folds

Sources: Obuchowski and Rockette (1995), Communications in Statistics 24; Gallas (2006), Academic Radiology
13; Hillis (2007), Statistics in Medicine 26; for retrieval Voorhees, Samarov and Soboroff (2017), TOIS 36(2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery
from ltrbench.statistics.intervals import IDENTICAL, Interval
from ltrbench.statistics.sample import DECIMALS

FEWEST_REPLICATES = 3
"""Minimum number of trainings for a claim: the variance of two has only one degree of freedom."""

_BOOTSTRAP, _SUBSAMPLE = "bootstrap", "subsample"

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
        method: name of the interval: mrmc-t, paired-mrmc-t, resampled-t or corrected-t.
        note: reason why the standard error is None, "identical", or empty.
    """

    difference: float
    standard_error: float | None
    degrees: tuple[tuple[float, float], ...]
    num_replicates: tuple[int, int]
    num_queries: int
    parts: VarianceParts
    method: str
    note: str = ""

    def interval(self, level: float) -> Interval | None:
        """Returns difference -+ sum_i share_i t(degrees_i) SE, at confidence 1 - level; None without SE.

        The mean of t quantiles is from Cochran and Cox (1957, "Experimental Designs", section 4.14). With one
        part it is Student's interval.
        """
        if self.standard_error is None:
            return None
        quantile = sum(share * float(stdtrit(degrees, 1 - level / 2)) for share, degrees in self.degrees)
        half = quantile * self.standard_error
        return Interval(self.difference - half, self.difference + half, self.method)

    def turned(self) -> Inference:
        """Returns the inference for b minus a."""
        a, b = self.num_replicates
        return replace(self, difference=0.0 - self.difference, num_replicates=(b, a))


def independent_replicates(a: ReplicateValues, b: ReplicateValues, shares: PerQuery) -> Inference:
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
        ConfigError: If the shapes of the arrays do not match, or a value is not finite.
    """
    _check(shares, a, b)
    return _two_way(
        of_query=np.round(a.mean(axis=0) - b.mean(axis=0), DECIMALS),
        shares=shares,
        trainings=[
            (_variance((model * shares).sum(axis=1)) / len(model), len(model) - 1) for model in (a, b)
        ],
        interaction=sum(_interaction(model, shares) / len(model) for model in (a, b)),
        num_replicates=(len(a), len(b)),
        method="mrmc-t",
    )


def shared_replicates(
    a: ReplicateValues, b: ReplicateValues, shares: PerQuery, factor: float | None = None
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
        ConfigError: If the shapes of the arrays do not match, or a value is not finite.
    """
    _check(shares, a, b)
    if len(a) != len(b):
        raise ConfigError(
            f"models that share trainings have {len(a)} and {len(b)} trainings; give equally many for both."
        )
    differences = np.round(a - b, DECIMALS)
    scale = 1 / len(a) if factor is None else factor
    return _two_way(
        of_query=differences.mean(axis=0),
        shares=shares,
        trainings=[(scale * _variance((differences * shares).sum(axis=1)), len(a) - 1)],
        interaction=scale * _interaction(differences, shares),
        num_replicates=(len(a), len(b)),
        method="paired-mrmc-t" if factor is None else "resampled-t",
    )


def resampling_factor(kind: str, num_resamples: int, share: float = 1.0) -> float:
    """Returns the factor from the variance over R resamples to the variance over other training sets.

    1 + 1/R for bootstrap samples: their variance around the training set estimates the variance of training
    sets around the population (Efron, 1979). 1/R + p / (1 - p) for subsamples of share p: the delete-d
    jackknife (Shao and Wu, 1989, Annals of Statistics 17). Both assume a smooth learner.

    Raises:
        ConfigError: If the kind is unknown, or the share is not between 0 and 1.

    >>> resampling_factor("bootstrap", 5), resampling_factor("subsample", 5, share=0.5)
    (1.2, 1.2)
    """
    if kind == _BOOTSTRAP:
        return 1 + 1 / num_resamples
    if kind != _SUBSAMPLE or not 0 < share < 1:
        raise ConfigError(
            f"training sets are resampled by '{kind}' with a share of {share}; the kind must be {_BOOTSTRAP} "
            f"or {_SUBSAMPLE}, the latter with a share above 0 and below 1."
        )
    return 1 / num_resamples + share / (1 - share)


def fold_replicates(folds: Sequence[Inference], query_parts: Sequence[float], test_share: float) -> Inference:
    """Corrected resampled t test with the variance of seeds within folds (Nadeau and Bengio, 2003).

        V = (1/J + n_test/n_train) var_j(d_j) + sum_j W_j / J^2

    for the differences d_j of J folds and the variance W_j of the trainings within fold j, with J - 1 degrees
    of freedom. var_j already contains a part of the W_j, so V is conservative.

    Assumes that test queries matter more than training sets: folds share most of their training queries, and
    hardly show the variation of training sets. If that variation dominates, false claims are frequent
    (results/calibration).

    Args:
        folds: inference within each fold, from its trainings; a single training adds no W_j.
        query_parts: (J,), squared standard error over the queries of each fold.
        test_share: n_test / n_train, in queries.
    """
    values = np.array([fold.difference for fold in folds])
    num_folds = len(folds)
    within = sum(fold.parts.training + fold.parts.training_by_query for fold in folds) / num_folds**2
    between = (1 / num_folds + test_share) * _variance(values)
    query = min(sum(query_parts) / num_folds**2, between)
    error = float(np.sqrt(between + within))
    note = "" if error else "the same difference in every fold" if values.any() else IDENTICAL
    return Inference(
        difference=float(values.mean()),
        standard_error=error if note in ("", IDENTICAL) else None,
        degrees=((1.0, num_folds - 1),),
        num_replicates=(num_folds, num_folds),
        num_queries=sum(fold.num_queries for fold in folds),
        parts=VarianceParts(query, within, 0.0, between - query),
        method="corrected-t",
        note=note,
    )


def _two_way(
    *,
    of_query: PerQuery,
    shares: PerQuery,
    trainings: Sequence[tuple[float, int]],
    interaction: float,
    num_replicates: tuple[int, int],
    method: str,
) -> Inference:
    """Returns the inference with V = S_T + max(S_q - S_TQ, 0) and its degrees of freedom.

    Args:
        of_query: (Q,), difference on each query, averaged over trainings.
        trainings: (variance, degrees of freedom) of each term of S_T.
        interaction: S_TQ.
    """
    num_queries = len(shares)
    training = sum(variance for variance, _ in trainings)
    query = max(_squared_error(of_query, shares) - interaction, 0.0)
    main = max(training - interaction, 0.0)
    note = _reason(num_queries, num_replicates, training + query, of_query)
    return Inference(
        difference=float((of_query * shares).sum()),
        standard_error=float(np.sqrt(training + query)) if note in ("", IDENTICAL) else None,
        degrees=_degrees([term for term in trainings if term[0] > 0], (query, num_queries - 1)),
        num_replicates=num_replicates,
        num_queries=num_queries,
        parts=VarianceParts(query, main, training - main),
        method=method,
        note=note,
    )


def _degrees(
    trainings: Sequence[tuple[float, int]], queries: tuple[float, int]
) -> tuple[tuple[float, float], ...]:
    """Returns `Inference.degrees`: of Hillis if the trainings of both models vary, otherwise of each part."""
    parts = [part for part in (*trainings, queries) if part[0] > 0]
    total = sum(variance for variance, _ in parts)
    if len(trainings) > 1:
        return ((1.0, total**2 / sum(variance**2 / free for variance, free in parts)),)
    return tuple((variance / total, free) for variance, free in parts)


def _reason(num_queries: int, num_replicates: tuple[int, int], total: float, of_query: PerQuery) -> str:
    """Returns the reason why there is no claim; `IDENTICAL` if the methods do not differ; otherwise empty."""
    fewest = min((number for number in num_replicates if number > 1), default=FEWEST_REPLICATES)
    if num_queries < 2:
        return "one query only"
    if fewest < FEWEST_REPLICATES:
        return f"{fewest} trainings of a model; a claim needs {FEWEST_REPLICATES}"
    if total > 0:
        return ""
    return "the same difference on every query and in every training" if of_query.any() else IDENTICAL


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
    """Returns SE^2 = n / (n - 1) sum_i (share_i (x_i - mean))^2, as in `PairedSample.standard_errors`."""
    if np.ptp(values) == 0:
        return 0.0
    deviations = shares * (values - (values * shares).sum())
    return float(len(values) / (len(values) - 1) * (deviations**2).sum())


def _check(shares: PerQuery, *models: ReplicateValues) -> None:
    for values in models:
        if values.ndim != 2 or values.shape[1] != len(shares) or len(values) == 0:
            raise ConfigError(
                f"values must have the shape (trainings, {len(shares)} queries), not {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ConfigError(
                "values must be finite; leave out the queries on which the metric is not defined."
            )
