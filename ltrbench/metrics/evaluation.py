"""Evaluation of scores: parses names such as `ndcg@10`, computes values per query and their means.

A name is a metric of `functions.py` with or without a cutoff. Values that depend on the data set only (the
ideal ranking) are cached with the data set, so `evaluate` is fast enough to be called in every iteration.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.clicks.checks import Support, support
from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys
from ltrbench.errors import (
    ConfigError,
    DataError,
    LtrbenchError,
    UndefinedMetricError,
    did_you_mean,
)
from ltrbench.folders import files_of_module, import_user_module
from ltrbench.metrics.conventions import (
    DEFAULT,
    Aggregation,
    Convention,
    Gain,
    NoRelevant,
    TableGain,
    Ties,
    exponential_gain,
)
from ltrbench.metrics.functions import (
    BUILT_IN,
    CORRECTED,
    DENOMINATORS,
    METRICS,
    Metric,
    Ranking,
    click_gains,
    full_name,
    is_of_clicks,
    metric_of,
    parse_metric,
    rank,
)
from ltrbench.shapes import PerQuery, Scores

METRICS_OF_A_RUN = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr", "precision@10")
"""The metrics of conf/config.yaml, which only Hydra reads."""


class Weighting(NamedTuple):
    """Weights of Q queries in a mean: sum_q f_q v_q / sum_q w_q, over the queries that are not skipped.

    Under `Aggregation.RATIO_OF_SUMS` w is the weight of the query times the denominator of its value, so that
    the mean is the ratio, and paired statistics are about the difference of two ratios.

    f and w are equal, except under `Aggregation.UNWEIGHTED_EMPTY`: there a query without a relevant document
    adds its unweighted value (f = 1) to the sum, and its weight to the divisor.

    Attributes:
        factors: (Q,), f, factors of the values.
        weights: (Q,), w, positive.
    """

    factors: PerQuery
    weights: PerQuery

    def mean(self, values: PerQuery) -> float:
        """Returns the mean of (Q,) values, which are NaN for skipped queries; NaN if all are skipped."""
        counted = ~np.isnan(values)
        if not counted.any():
            return float("nan")
        total = (values * self.factors)[counted].sum()
        return float(total / self.weights[counted].sum())

    def rescaled(self, values: PerQuery) -> PerQuery:
        """Returns (Q,) v f / w, whose mean weighted by w is the convention's mean of v.

        Paired statistics use these values with the weights w. They equal v if f = w. If f differs from w, the
        query has the same value for every model, so its difference is 0.
        """
        return values * (self.factors / self.weights)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one score vector.

    Attributes:
        means: name -> mean over the queries that are not skipped; NaN if all are skipped.
        per_query: name -> (Q,) values; NaN for a skipped query.
        weightings: name -> weights of the queries in the mean.
        skipped: name -> number of queries left out of the mean.
        share_without_relevant: share of queries without a relevant document.
        convention: convention of the metrics.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, PerQuery]
    weightings: Mapping[str, Weighting]
    skipped: Mapping[str, int]
    share_without_relevant: float
    convention: Convention


def evaluate(
    dataset: Judgments,
    scores: Scores,
    names: Sequence[str],
    convention: Convention = DEFAULT,
) -> Evaluation:
    """Computes metrics of a ranking by scores.

    Args:
        dataset: documents with their labels; the features are not used.
        scores: (D,), in the order of the documents of the data set, higher is ranked earlier. After
            `sort_queries` it is not that of the source: pass `dataset.from_file_order(scores)`. Under
            trec_eval NaN means: not retrieved.
        names: such as `ndcg@10`, `map`, `mrr`, `precision@5`; `functions.py` has all.
        convention: everything that the names leave open; `preset("lightgbm")` is the one of LightGBM.

    Raises:
        ConfigError: If a metric is unknown, or a cutoff is not a positive whole number.
        UndefinedMetricError: If the convention does not define a metric, at all or for these data.
        DataError: If the number of scores is wrong; if a score is NaN under a convention other than
            trec_eval, or all are; if a label has no gain or an infinite gain, or is above the highest grade;
            if a value of a column is infinite, or negative and the metric is nvalue.

    Two queries of four and two documents; the second has no relevant document:

    >>> from ltrbench.data import RankingDataset
    >>> from ltrbench.metrics import preset
    >>> data = RankingDataset(
    ...     features=[[0.0]] * 6, labels=[3, 0, 1, 2, 0, 0], query_start=[0, 4, 6], query_ids=["a", "b"]
    ... )
    >>> scores = np.array([0.1, 0.2, 0.9, 0.3, 0.5, 0.5])
    >>> evaluation = evaluate(data, scores, ["ndcg@2", "mrr", "err@10"])
    >>> {name: round(mean, 6) for name, mean in evaluation.means.items()}
    {'ndcg@2': 0.325296, 'mrr': 1.0, 'err@10': 0.233704}
    >>> evaluation.per_query["ndcg@2"].round(6).tolist(), evaluation.skipped["ndcg@2"]
    ([0.325296, nan], 1)

    The same scores under LightGBM's convention, in which the second query has the value 1, and under
    scikit-learn's, in which the gain is the label and the second query has the value 0:

    >>> round(evaluate(data, scores, ["ndcg@2"], preset("lightgbm")).means["ndcg@2"], 6)
    0.662648
    >>> round(evaluate(data, scores, ["ndcg@2"], preset("sklearn")).means["ndcg@2"], 6)
    0.265361
    """
    if isinstance(names, str):
        raise ConfigError(
            f"names is the string '{names}'; give a list of names, as in ['{names}']."
        )
    requests = [_request_of(name, dataset, convention) for name in names]
    rankings = _rank(dataset, scores, requests)
    per_query = {}
    weightings = {}
    for request in requests:
        ranking = rankings[_policy(request.metric, request.convention)]
        values = _values_of(request, ranking, scores)
        per_query[request.name] = _filled(values, dataset, scores, request.convention)
        weightings[request.name] = _weighting(request, ranking, ~np.isnan(values))
    share = float(np.mean(~has_relevant_document(dataset, convention)))
    means = {}
    skipped = {}
    for name, of_name in per_query.items():
        means[name] = weightings[name].mean(of_name)
        skipped[name] = int(np.isnan(of_name).sum())
    return Evaluation(
        means=means,
        per_query=per_query,
        weightings=weightings,
        skipped=skipped,
        share_without_relevant=share,
        convention=convention,
    )


def support_of(
    ranked: Sequence[tuple[Judgments, Scores]],
    name: str,
    convention: Convention = DEFAULT,
    keys: QueryKeys | None = None,
) -> Support:
    """Returns on what the value of a ranker in a metric of clicks rests.

    Args:
        ranked: for each test set, its judgments with impressions, and (D,) the scores.
        keys: (Q,), keys of the lists of all test sets; None: each list is of another query.
    """
    logs = []
    for judgments, scores in ranked:
        ranking = rank(judgments, scores, convention.ties)
        logs.append(click_gains(ranking, name, convention))
    return support(logs, keys)


def _filled(
    values: PerQuery, dataset: Judgments, scores: Scores, convention: Convention
) -> PerQuery:
    """Returns the (Q,) values with those that the convention gives to queries without a relevant document or
    an answer; NaN for the queries that it skips."""
    filled = np.where(np.isnan(values), convention.no_relevant.value_of_query, values)
    if convention.unanswered is not None:
        is_unanswered = np.logical_and.reduceat(
            np.isnan(scores), dataset.query_start[:-1]
        )
        filled[is_unanswered] = convention.unanswered.value_of_query
    filled[_filtered(dataset, convention)] = np.nan
    return _rounded(filled, convention.value_dtype).astype(float)


def _weighting(
    request: _Request, ranking: Ranking, is_defined: NDArray[np.bool_]
) -> Weighting:
    aggregation = request.convention.aggregation
    denominators = None
    if aggregation is Aggregation.RATIO_OF_SUMS:
        denominator_of = DENOMINATORS[parse_metric(request.name)[0]]
        denominators = denominator_of(ranking, request.cutoff, request.convention)
    return weigh(ranking.judgments, is_defined, aggregation, denominators)


def upside_down(
    dataset: Judgments, scores: Scores, name: str, convention: Convention = DEFAULT
) -> str:
    """Returns a warning if constant scores would have a higher metric; empty otherwise.

    Args:
        scores: (D,), NaN for documents that were not retrieved, which rank last here.
    """
    expected = replace(convention, ties=Ties.EXPECTED, unanswered=None)
    is_missing = np.isnan(scores)
    means = []
    for each in (scores, np.zeros(len(scores)), -np.asarray(scores)):
        ranked_last = np.where(is_missing, -np.inf, each)
        evaluation = evaluate(dataset, ranked_last, [name], expected)
        means.append(evaluation.means[name])
    given, constant, reverse = means
    if not given < constant:
        return ""
    return (
        f"{name} is {given:.4f}, but {constant:.4f} with constant scores and "
        f"{reverse:.4f} in the reverse order. The order may be upside down: the highest score is "
        "the best, so negate ranks (1 = best)."
    )


class _Request(NamedTuple):
    name: str
    metric: Metric
    cutoff: int | None
    convention: Convention  # with the values for the metric


def _values_of(request: _Request, ranking: Ranking, scores: Scores) -> PerQuery:
    """Returns (Q,) values, NaN for a query without a relevant document.

    Raises:
        ConfigError: If the function, of a plug-in, fails, or does not return one number or NaN per query.
    """
    full = full_name(request.metric.function)
    num_queries = ranking.judgments.num_queries
    try:
        values = np.asarray(
            request.metric.function(ranking, request.cutoff, request.convention)
        )
    except Exception as error:
        if full.startswith("ltrbench."):
            raise
        _evaluate_each_query(request, ranking.judgments, scores)
        raise _failure(request, ranking.judgments, error) from error
    is_numeric = values.dtype.kind in "biuf"
    has_shape = values.shape == (num_queries,)
    if not has_shape or not is_numeric or np.isinf(values).any():
        raise ConfigError(
            f"the metric {request.name} ({full}) returned an array of shape {values.shape} and type "
            f"{values.dtype}; it must return shape ({num_queries},): finite numbers, or NaN without a "
            "relevant document."
        )
    return values.astype(np.float64, copy=False)


def _evaluate_each_query(
    request: _Request, judgments: Judgments, scores: Scores
) -> None:
    """Raises the error of the first query on which a metric fails alone."""
    if judgments.num_queries == 1:
        return
    for first, end in itertools.pairwise(judgments.query_start):
        rows = np.arange(first, end)
        of_query = left_out_judgments(judgments, rows)[1]
        scores_of_query = np.asarray(scores)[rows]
        evaluate(of_query, scores_of_query, [request.name], request.convention)


def _failure(
    request: _Request, judgments: Judgments, error: Exception
) -> LtrbenchError:
    """Returns the error of a metric with its name, its place in the code, and the query."""
    kind: type[LtrbenchError] = ConfigError
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, LtrbenchError):
        kind = type(error)
        text = str(error)
    # NumPy raises ValueError for many reasons, which only its text tells apart.
    if isinstance(error, ValueError) and "read-only" in text:
        text = f"{text}. All metrics share the arrays of a ranking: change a copy, as ranking.labels.copy()."
    which = "the queries together"
    if judgments.num_queries == 1:
        which = f"query {judgments.query_ids[0]}"
    # The first frame is `_values_of`, and the second the metric.
    place = traceback.extract_tb(error.__traceback__)[:2][-1]
    function = f"{full_name(request.metric.function)}, {place.filename}:{place.lineno}"
    return kind(f"the metric {request.name} ({function}) failed on {which}: {text}")


# Inputs of a ranking other than the scores: order of ties, type of the scores, whether NaN is allowed.
_Policy = tuple[Ties, str | None, bool]


def _request_of(name: str, dataset: Judgments, convention: Convention) -> _Request:
    word, k = parse_metric(name)
    metric = metric_of(word)
    of_metric = convention.of(word)
    check_defined(word, k, of_metric, dataset)
    cutoff = of_metric.default_cutoff if k is None and metric.no_cutoff is None else k
    return _Request(name, metric, cutoff, of_metric)


def _policy(metric: Metric, convention: Convention) -> _Policy:
    return (
        Ties.EXPECTED if metric.ties_in_formula else convention.ties,
        convention.score_dtype,
        convention.unanswered is not None,
    )


def _rank(
    dataset: Judgments, scores: Scores, requests: Iterable[_Request]
) -> dict[_Policy, Ranking]:
    """Returns one ranking per policy, as deep as its metrics need."""
    depths: dict[_Policy, int] = {}
    for request in requests:
        policy = _policy(request.metric, request.convention)
        depth = request.metric.depth(request.cutoff, request.convention)
        depths[policy] = max(depths.get(policy, 0), depth)
    rankings = {}
    for policy, depth in depths.items():
        ties, dtype, allows_missing = policy
        rounded = _rounded(scores, dtype)
        rankings[policy] = rank(dataset, rounded, ties, depth, allows_missing)
    return rankings


def warm_up_metrics() -> None:
    """Compiles the kernels of the built-in metrics, or loads them from the cache, before times are measured.

    Metrics of plug-ins are left out, because they may look up ids that these two documents do not have.
    """
    labels = np.array([1.0, 0.0])
    tied = Judgments(labels=labels, query_start=np.array([0, 2]))
    evaluate(tied, np.zeros(2), BUILT_IN)


def bounds_of(name: str) -> tuple[float, float] | None:
    """Returns the lowest and the highest value of a metric; None if they are not known.

    >>> bounds_of("ndcg@10"), bounds_of("dcg@10")
    ((0.0, 1.0), None)
    """
    return metric_of(parse_metric(name)[0]).bounds


def rope_of(name: str) -> float:
    """Returns half the width of the region of equivalence of a metric; 0 if it declares none.

    >>> rope_of("ndcg@10"), rope_of("dcg@10")
    (0.005, 0.0)
    """
    return metric_of(parse_metric(name)[0]).rope


def has_relevant_document(
    judgments: Judgments, convention: Convention = DEFAULT
) -> NDArray[np.bool_]:
    """Returns (Q,), whether each query has a document at or above the relevance threshold."""
    return judgments.best_labels >= convention.relevance_threshold


def _filtered(judgments: Judgments, convention: Convention) -> NDArray[np.bool_]:
    """Returns (Q,), whether the convention skips each query for its labels or its number of documents."""
    filtered = judgments.query_sizes < convention.skip_shorter_than
    if convention.skip_constant_labels:
        starts = judgments.query_start[:-1]
        worst_labels = np.minimum.reduceat(judgments.labels, starts)
        filtered |= worst_labels == judgments.best_labels
    return filtered


def check_defined(
    metric: str, k: int | None, convention: Convention, judgments: Judgments
) -> None:
    """Checks that the convention defines a metric for these data; no other definition is substituted.

    Args:
        convention: with the values for the metric.

    Raises:
        UndefinedMetricError: If the convention does not define the metric, or the column is that of corrected
            clicks and the metric has no error of the examination.
        DataError: If the metric uses gains and a label has no gain or an infinite gain; if the metric uses
            the highest grade and a label is above it; if the metric of a column is not defined for a value
            of the column.
    """
    for reason in _undefined(metric, k, convention, judgments.query_sizes):
        raise UndefinedMetricError(
            f"the convention {convention.name} does not define {metric} here: it {reason}. Choose another "
            "metric or convention."
        )
    _check_largest_label(metric, convention, judgments)
    of_metric = metric_of(metric)
    if of_metric.has_gain:
        _check_gains(judgments, convention.gain)
    if of_metric.has_highest_grade:
        _check_highest_grade(metric, convention, judgments)
    _check_column(metric, of_metric.lowest_in_column, judgments)


def _undefined(
    metric: str, k: int | None, convention: Convention, sizes: NDArray[np.int64]
) -> Iterator[str]:
    """Yields each reason for which a convention does not define a metric for queries of these sizes."""
    if convention.metrics is not None and metric not in convention.metrics:
        yield f"defines {', '.join(sorted(convention.metrics))} only"
    if metric in convention.uncut_metrics and k is not None:
        yield "defines it without a cutoff only"
    fewest = convention.fewest_documents
    if sizes.min() < fewest > convention.skip_shorter_than:
        yield f"refuses queries with fewer than {fewest} documents"
    most = convention.most_documents
    if most and sizes.max() > most:
        yield f"refuses queries with more than {most} documents"
    if convention.aggregation is not Aggregation.RATIO_OF_SUMS:
        return
    if metric not in DENOMINATORS:
        yield f"has ratios of sums of {', '.join(DENOMINATORS)} only"
    if convention.no_relevant is not NoRelevant.SKIP:
        yield (
            "leaves a query without a relevant document out of the sums, so no_relevant must be skip, and "
            f"not {convention.no_relevant.value}"
        )


def _check_largest_label(
    metric: str, convention: Convention, judgments: Judgments
) -> None:
    """Raises UndefinedMetricError if a label is above what the convention accepts for a metric."""
    is_binary = metric in convention.binary_metrics
    accepted = convention.largest_label
    if accepted is None:
        accepted = math.inf
    if is_binary:
        accepted = 1.0
    has_fractions = is_binary and not judgments.has_whole_labels
    if _largest_label(judgments) <= accepted and not has_fractions:
        return
    labels = "the labels 0 and 1 only" if is_binary else f"labels up to {accepted:g}"
    raise UndefinedMetricError(
        f"{_named_label(judgments, is_binary)}; {convention.name} accepts {labels} for {metric}. Map the "
        "labels to smaller grades, or choose another convention."
    )


def _check_highest_grade(
    metric: str, convention: Convention, judgments: Judgments
) -> None:
    """Raises DataError if a probability (2^label - 1) / 2^highest_grade is above 1."""
    bound = np.logaddexp2(0.0, convention.highest_grade) + 1e-12
    if _largest_label(judgments) > bound:
        raise DataError(
            f"{_named_label(judgments)}, above {convention.highest_grade:g}, the highest grade of "
            f"{metric.upper()} in the convention; set highest_grade, or map the labels to smaller grades."
        )


def _check_column(metric: str, lowest: float, judgments: Judgments) -> None:
    """Raises DataError if a value of the column of a metric is infinite, or below the lowest value."""
    word, _, column = metric.partition(":")
    if not column:
        return
    if column == CORRECTED and judgments.impressions is not None:
        _check_of_corrected(word, column)
        return  # they are computed from the log, where they are no column
    numbers = judgments.numbers(column)
    is_too_low = numbers < lowest
    is_refused = is_too_low | np.isinf(numbers)
    if not is_refused.any():
        return
    row = int(is_refused.argmax())
    expected = "finite numbers"
    remedy = "Correct the column"
    if is_too_low[row]:
        expected = f"numbers from {lowest:g}"
        remedy = f"Choose value@k:{column}, which allows negative values, or correct the column"
    query_id = str(judgments.query_ids[judgments.query_of_document[row]])
    value = f"{column}[{row}] (query {query_id!r}) is {numbers[row]:g}"
    raise DataError(
        f"{value}; {word}@k:{column} is defined for {expected} only. {remedy}."
    )


def _check_of_corrected(word: str, column: str) -> None:
    """Raises UndefinedMetricError for a metric whose values lack the error of the examination."""
    if is_of_clicks(f"{word}:{column}"):
        return
    raise UndefinedMetricError(
        f"{word}@k:{column} has no error of the estimated examination, and no check of a claim. Choose "
        f"clicks@k, the expected clicks on the first k documents, or dcv@k:{column}."
    )


def _check_gains(judgments: Judgments, gain: Gain) -> None:
    """Raises DataError if a label has no gain or an infinite gain."""
    num_gains = None
    if isinstance(gain, TableGain):
        num_gains = len(gain.gains)
    if (
        gain is exponential_gain or num_gains is not None
    ) and not judgments.has_whole_labels:
        raise DataError(
            f"{_named_label(judgments, whole=True)}; the gain 2^label - 1 and a table of gains need whole "
            "grades. Map the labels to 0, 1, 2, ..., or choose the gain linear: --set gain=linear for a "
            "metric; in a run model/objective=lambdarank model.objective.gain=linear for the loss, and "
            "metrics=[map,mrr] early_stopping.metric=map."
        )
    highest = _largest_label(judgments)
    if num_gains is not None and highest >= num_gains:
        raise DataError(
            f"{_named_label(judgments)}; the table of gains ends at label {num_gains - 1}."
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(gain(np.array([highest]))).all():
            raise DataError(
                f"{_named_label(judgments)}, with an infinite gain; map the labels to small grades."
            )


def _largest_label(judgments: Judgments) -> float:
    return float(judgments.best_labels.max())


def _named_label(judgments: Judgments, whole: bool = False) -> str:
    """Returns the row and value of the largest label; with `whole`, of the first label that is not whole."""
    labels = judgments.labels
    row = labels.argmax()
    if whole and not judgments.has_whole_labels:
        row = (labels != np.floor(labels)).argmax()
    return f"labels[{row}] is {labels[row]:g}"


def _rounded(values: Scores, dtype: str | None) -> Scores:
    if dtype is None:
        return values
    with np.errstate(over="ignore"):  # scores beyond float32 become infinite, and tie
        rounded: Scores = np.asarray(values).astype(dtype)
    return rounded


def weigh(
    judgments: Judgments,
    is_defined: NDArray[np.bool_],
    aggregation: Aggregation,
    denominators: PerQuery | None = None,
) -> Weighting:
    """Returns the weights of the queries in the mean of a metric, and in every statistic of that metric.

    Args:
        is_defined: (Q,), whether each query has a relevant document.
        denominators: (Q,), those of a ratio of sums; 0 where the value is not defined.
    """
    given = judgments.query_weights
    if denominators is not None:
        products = np.where(
            is_defined, denominators * (1.0 if given is None else given), 1.0
        )
        return Weighting(products, products)
    if given is None or aggregation is Aggregation.UNWEIGHTED:
        alike = np.ones(judgments.num_queries)
        return Weighting(alike, alike)
    if aggregation is Aggregation.UNWEIGHTED_EMPTY:
        return Weighting(np.where(is_defined, given, 1.0), given)
    return Weighting(given, given)


# ---- Out-of-bag improvement: the change of a metric in one iteration, on the queries it was not fitted on.
#
# Friedman, 2002, "Stochastic Gradient Boosting", and R's gbm use the change of the loss instead. If an
# iteration left out documents but no whole query, the left-out documents of each query are ranked.


def left_out_judgments(
    train: Judgments, left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Judgments]:
    """Returns the queries with left-out documents, and the judgments of these documents.

    Args:
        left_out: (n,), rows in ascending order, at least one.
    """
    queries_of_rows = train.query_of_document[left_out]
    queries, sizes = np.unique(queries_of_rows, return_counts=True)
    document_ids = None
    if train.document_ids is not None:
        document_ids = train.document_ids[left_out]
    query_weights = None
    if train.query_weights is not None:
        query_weights = train.query_weights[queries]
    judgments = Judgments(
        labels=train.labels[left_out],
        query_start=np.append(0, np.cumsum(sizes)),
        query_ids=train.query_ids[queries],
        document_ids=document_ids,
        kept={name: values[left_out] for name, values in train.columns.items()},
        query_weights=query_weights,
    )
    return queries, judgments


# ---- Metrics from outside the package: a plug-in is a module that decorates functions with `metric`.
#
# Only the user names a plug-in: on the command line, in a YAML file or by an import. The plug-ins recorded
# in a run folder are displayed and never imported.

log = logging.getLogger("ltrbench")

_HASH = "sha256:"
_loaded: set[str] = set()


def load_plugins(modules: Sequence[str], option: str) -> None:
    """Imports modules and registers the metrics they define. Each module is imported once.

    Args:
        option: setting or option that names the modules, for messages: "plugins" or "--plugin".

    Raises:
        ConfigError: If a module does not exist, or its import fails; the message gives file and line.
    """
    for name in modules:
        if name not in _loaded:
            _load(name, option)
            _loaded.add(name)


def plugin_versions() -> dict[str, str]:
    """Returns module -> version and hash of the source files, for each plug-in with metrics."""
    modules = sorted({metric.function.__module__ for metric in METRICS.values()})
    return {
        name: _version(name) for name in modules if not name.startswith("ltrbench.")
    }


def is_plugin_version(version: str) -> bool:
    """Returns whether a version in a result was written by `plugin_versions`."""
    return _HASH in version


def _load(name: str, option: str) -> None:
    num_metrics = len(METRICS)
    try:
        module = import_user_module(name)
    except (Exception, SystemExit) as error:
        here = [path.stem for path in Path.cwd().glob("*.py")]
        missing = "."
        if name not in here:
            missing = did_you_mean(Path(name).stem, here)
        raise ConfigError(
            f"{option}: the module '{name}' cannot be imported: {type(error).__name__}: {error}{missing} "
            "Name a module in the current folder or the environment (LTRBENCH_DEBUG=1 shows the traceback)."
        ) from error
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    has_class = any(each.__module__ == name for each in classes)
    if len(METRICS) == num_metrics and name not in plugin_versions() and not has_class:
        log.warning(
            "%s: the module %s defines no metric; decorate one with @metric(NAME).",
            option,
            name,
        )


def _version(name: str) -> str:
    package = sys.modules.get(name.partition(".")[0])
    stated = getattr(package, "__version__", None)
    source = "no source file"  # a notebook's cells
    files = files_of_module(name)
    if files:
        digest = hashlib.sha256()
        for module in sorted(files):
            digest.update(files[module].read_bytes())
        source = f"{_HASH}{digest.hexdigest()[:16]}"
    if stated is None:
        return source
    return f"{stated} {source}"
