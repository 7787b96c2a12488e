"""From scores to numbers: names such as `ndcg@10` parsed, per-query values and their mean.

A name is a metric of `functions.py` with or without a cutoff. What can be shared between calls on the same
data set (the ideal ranking) is kept with the data set, so that `evaluate` is cheap enough to be called at
every iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, UndefinedMetricError, did_you_mean
from ltrbench.metrics.convention import (
    DEFAULT,
    Aggregation,
    Convention,
    TableGain,
    Ties,
    exponential_gain,
)
from ltrbench.metrics.functions import ALIASES, BUILT_IN, METRICS, Metric
from ltrbench.metrics.ranking import LONGEST, Ranking, rank
from ltrbench.shapes import PerQuery, Scores


class Weighting(NamedTuple):
    """Weights of Q queries in a mean: sum_q f_q v_q / sum_q w_q, over the queries that are not skipped.

    f and w are equal, except under `Aggregation.UNWEIGHTED_EMPTY`: a query without anything to find then adds
    its value unweighted (f = 1), but its weight to the divisor.

    Attributes:
        factors: (Q,), f, of the queries' values.
        weights: (Q,), w, positive.
    """

    factors: PerQuery
    weights: PerQuery

    def mean(self, values: PerQuery) -> float:
        """Of (Q,) values, NaN where a query is skipped; NaN where all are."""
        counted = ~np.isnan(values)
        if not counted.any():
            return float("nan")
        return float((values * self.factors)[counted].sum() / self.weights[counted].sum())

    def rescaled(self, values: PerQuery) -> PerQuery:
        """Returns (Q,) v f / w: their mean weighted by w is the convention's mean of v.

        Paired statistics use these values with the weights w. They equal v where f is w; each other query has
        the same value for every model, so that its difference is 0.
        """
        return values * (self.factors / self.weights)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What metrics say of one score vector.

    Attributes:
        means: name -> mean over the queries that count; NaN where none counts.
        per_query: name -> (Q,) values; NaN for a skipped query.
        weightings: name -> how its mean weighs the queries.
        skipped: name -> the number of queries left out of the mean.
        share_without_relevant: the share of queries without a relevant document.
        convention: what the numbers were computed under.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, PerQuery]
    weightings: Mapping[str, Weighting]
    skipped: Mapping[str, int]
    share_without_relevant: float
    convention: Convention


def evaluate(
    dataset: Judgments, scores: Scores, names: Sequence[str], convention: Convention = DEFAULT
) -> Evaluation:
    """Computes metrics of a ranking by scores.

    Args:
        dataset: the documents with their labels; the features are not looked at.
        scores: (D,), higher is ranked earlier.
        names: such as `ndcg@10`, `map`, `mrr`, `precision@5`; see `functions.py` for all.
        convention: what the names leave open; `preset("lightgbm")` and its like are those of libraries.

    Raises:
        ConfigError: on an unknown metric or a cutoff that is not a positive whole number.
        UndefinedMetricError: where the convention does not define a metric, at all or on these data.
        DataError: on scores of another length, or NaN; on a label that has no gain, or an infinite one, or is
            above the highest grade.

    Two queries of four and two documents; in the second there is nothing to find:

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

    The same scores as LightGBM, which counts the second query 1, and as scikit-learn, whose gain is the label
    and which counts it 0:

    >>> round(evaluate(data, scores, ["ndcg@2"], preset("lightgbm")).means["ndcg@2"], 6)
    0.662648
    >>> round(evaluate(data, scores, ["ndcg@2"], preset("sklearn")).means["ndcg@2"], 6)
    0.265361
    """
    _check_arguments(names, convention)
    requests = {name: _request_of(name, dataset, convention) for name in names}
    rankings = _rank(dataset, scores, requests.values())
    per_query, weightings, means, skipped = {}, {}, {}, {}
    for name, (metric, cutoff, of_metric) in requests.items():
        values = _values_of(name, metric, rankings[_policy(metric, of_metric)], cutoff, of_metric)
        is_defined = ~np.isnan(values)
        filled = np.where(is_defined, values, of_metric.no_relevant.value_of_query)
        per_query[name] = _rounded(filled, of_metric.value_dtype).astype(float)
        weightings[name] = weigh(dataset, is_defined, of_metric.aggregation)
        means[name] = weightings[name].mean(per_query[name])
        _check_mean(name, means[name], of_metric)
        skipped[name] = int(np.isnan(per_query[name]).sum())
    share = float(np.mean(~has_relevant_document(dataset, convention)))
    return Evaluation(means, per_query, weightings, skipped, share, convention)


def _values_of(
    name: str, metric: Metric, ranking: Ranking, cutoff: int | None, convention: Convention
) -> PerQuery:
    """(Q,), NaN where there is nothing to find.

    Raises:
        ConfigError: where the function returns anything but one number or NaN a query; a plug-in's may.
    """
    values = np.asarray(metric.function(ranking, cutoff, convention))
    num_queries = ranking.judgments.num_queries
    returned = f"the metric {name} ({metric.function.__module__}.{metric.function.__qualname__}) returned"
    if values.shape != (num_queries,) or values.dtype.kind not in "biuf":
        raise ConfigError(
            f"{returned} an array of shape {values.shape} and type {values.dtype}; it must return one number "
            f"a query, of shape ({num_queries},)."
        )
    if np.isinf(values).any():
        query = ranking.judgments.query_ids[np.isinf(values).argmax()]
        raise ConfigError(
            f"{returned} an infinite value for query {query}; it must return a finite number, or NaN where "
            "there is nothing to find."
        )
    return values.astype(np.float64, copy=False)


class _Request(NamedTuple):
    metric: Metric
    cutoff: int | None
    convention: Convention  # as it stands for the metric


_Policy = tuple[Ties, str | None]  # what a ranking depends on beside the scores


def _request_of(name: str, dataset: Judgments, convention: Convention) -> _Request:
    word, k = parse_metric(name)
    metric, of_metric = METRICS[word], convention.of(word)
    check_defined(word, k, of_metric, dataset)
    cutoff = of_metric.default_cutoff if k is None and metric.no_cutoff is None else k
    return _Request(metric, cutoff, of_metric)


def _policy(metric: Metric, convention: Convention) -> _Policy:
    return Ties.EXPECTED if metric.ties_in_formula else convention.ties, convention.score_dtype


def _rank(dataset: Judgments, scores: Scores, requests: Iterable[_Request]) -> dict[_Policy, Ranking]:
    """One ranking for each policy, as deep as the metric that reads it deepest."""
    depths: dict[_Policy, int] = {}
    for metric, cutoff, convention in requests:
        policy = _policy(metric, convention)
        depths[policy] = max(depths.get(policy, 0), metric.depth(cutoff, convention))
    return {
        (ties, dtype): rank(dataset, _rounded(scores, dtype), ties, depth)
        for (ties, dtype), depth in depths.items()
    }


def warm_up_metrics(names: Sequence[str] = ()) -> None:
    """Compiles the evaluator's kernels, or loads them where this machine has compiled them: off the clock.

    Args:
        names: metrics that will be computed, whose own kernels a plug-in may have to compile.
    """
    tied = Judgments(labels=np.array([1.0, 0.0]), query_start=np.array([0, 2]))
    evaluate(tied, np.zeros(2), [*BUILT_IN, *names])


def parse_metric(name: str) -> tuple[str, int | None]:
    """`ndcg@10` -> ("ndcg", 10); `map` -> ("map", None).

    Raises:
        ConfigError: on an unknown metric, a cutoff that is not a positive whole number, or a cutoff of a
            metric that takes none.

    >>> parse_metric("ndcg@10"), parse_metric("ap")
    (('ndcg', 10), ('map', None))
    """
    word, at, cutoff = name.partition("@")
    metric = ALIASES.get(word, word)
    if metric not in METRICS:
        known = sorted([*METRICS, *ALIASES])
        raise ConfigError(
            f"unknown metric '{name}'{did_you_mean(word, known)} Known are {', '.join(known)}, "
            "most of them with or without a cutoff, as in ndcg@10. To use a metric of your own, name its "
            "module: plugins=[MODULE] in a run, --plugin MODULE in a verb, import MODULE in Python."
        )
    if not at:
        return metric, None
    if not (cutoff.isascii() and cutoff.isdigit()) or int(cutoff) == 0:
        raise ConfigError(
            f"metric '{name}': the cutoff '{cutoff}' must be a whole number of 1 or more, as in ndcg@10."
        )
    if int(cutoff) > LONGEST:
        raise ConfigError(f"metric '{name}': a cutoff may be {LONGEST} at most; write {word} for none.")
    if METRICS[metric].no_cutoff:
        raise ConfigError(f"metric '{name}' takes no cutoff: {METRICS[metric].no_cutoff}. Write {word}.")
    return metric, int(cutoff)


def is_metric(name: str) -> bool:
    """Whether a metric has this name; one of a plug-in that is not loaded is not known.

    >>> is_metric("ndcg@10"), is_metric("rbp@10")
    (True, False)
    """
    word = name.partition("@")[0]
    return ALIASES.get(word, word) in METRICS


def has_relevant_document(judgments: Judgments, convention: Convention = DEFAULT) -> NDArray[np.bool_]:
    """(Q,), whether a query has a document that reaches the relevance threshold."""
    return judgments.best_labels >= convention.relevance_threshold


def _check_arguments(names: Sequence[str], convention: Convention) -> None:
    """Raises ConfigError on a text where a list, or a convention, was meant."""
    if isinstance(names, str):
        raise ConfigError(f"names is the text '{names}'; give a list of names, as in ['{names}'].")
    if isinstance(convention, str):
        raise ConfigError(f"convention is the text '{convention}'; give preset('{convention}').")


def _check_mean(name: str, mean: float, convention: Convention) -> None:
    largest = convention.largest_mean
    # What XGBoost itself leaves for rounding, kRtEps.
    if largest is not None and mean > largest + 1e-6:
        raise UndefinedMetricError(
            f"the mean of {name} is {mean:.6f}; {convention.name} stops where it is above {largest:g}, as "
            "the weights of queries without a relevant document make it. Take another convention."
        )


def check_defined(metric: str, k: int | None, convention: Convention, judgments: Judgments) -> None:
    """Makes sure that a metric is defined on these data: another definition is never put in its place.

    Args:
        convention: as it stands for the metric.

    Raises:
        UndefinedMetricError: where the convention does not define it.
        DataError: on a label that has no gain, or an infinite one, where the metric looks at gains; on one
            above the highest grade, where the metric looks at that grade.
    """
    if convention.metrics is not None and metric not in convention.metrics:
        raise UndefinedMetricError(
            f"the convention {convention.name} does not define {metric}; it has "
            f"{', '.join(sorted(convention.metrics))}. Ask for one of these, or take another convention."
        )
    if metric in convention.uncut_metrics and k is not None:
        raise UndefinedMetricError(
            f"the convention {convention.name} defines {metric} over the whole list only; ask for {metric} "
            f"without @{k}, or take another convention."
        )
    labels = judgments.labels
    if metric in convention.binary_metrics:
        _refuse_labels(
            labels * (labels - 1.0) != 0,
            judgments,
            f"{convention.name} defines {metric} for the labels 0 and 1 only; map them, or take another "
            "convention.",
        )
    if convention.largest_label is not None:
        _refuse_labels(
            labels > convention.largest_label,
            judgments,
            f"{convention.name} takes labels up to {convention.largest_label:g} for {metric}; map them to "
            "smaller grades.",
        )
    short = np.flatnonzero(judgments.query_sizes < convention.fewest_documents)
    if short.size:
        raise UndefinedMetricError(
            f"query {judgments.query_ids[short[0]]} has {judgments.query_sizes[short[0]]} document; "
            f"{convention.name} refuses queries of fewer than {convention.fewest_documents} documents. Leave "
            "them out, or take another convention."
        )
    most = convention.most_documents
    if most is not None and judgments.query_sizes.max() > most:
        long = int(judgments.query_sizes.argmax())
        raise UndefinedMetricError(
            f"query {judgments.query_ids[long]} has {judgments.query_sizes[long]} documents; "
            f"{convention.name} refuses queries of more than {most} in {metric}. Leave some out, or take "
            "another convention."
        )
    if METRICS[metric].has_gain:
        _check_gains(judgments, convention)
    if METRICS[metric].has_highest_grade:
        _check_highest_grade(metric, judgments, convention)


def _refuse_labels(refused: NDArray[np.bool_], judgments: Judgments, reason: str) -> None:
    rows = np.flatnonzero(refused)
    if rows.size:
        raise UndefinedMetricError(f"labels[{rows[0]}] is {judgments.labels[rows[0]]:g}; {reason}")


def _check_gains(judgments: Judgments, convention: Convention) -> None:
    """Raises DataError where a label has no gain, or an infinite one. A data set is looked at once."""
    gain = convention.gain

    def check() -> PerQuery:
        labels = judgments.labels
        of_grades = gain is exponential_gain or isinstance(gain, TableGain)
        if of_grades and not judgments.has_whole_labels:
            row = int((labels != np.floor(labels)).argmax())
            raise DataError(
                f"labels[{row}] is {labels[row]:g}; the gain 2^label - 1, or one from a table, is meant for "
                "whole grades. Map the labels to 0, 1, 2, ..., or take the gain linear."
            )
        highest = judgments.best_labels.max()
        if isinstance(gain, TableGain) and highest >= len(gain.gains):
            raise DataError(
                f"labels[{labels.argmax()}] is {highest:g}, but the table of gains ends with label "
                f"{len(gain.gains) - 1}; give a gain for each label."
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(gain(np.array([highest]))).all():
                raise DataError(
                    f"labels[{labels.argmax()}] is {highest:g}, whose gain is infinite; map the labels to "
                    "small grades."
                )
        return np.empty(0)

    judgments.remember(("gains", gain), check)


def _check_highest_grade(metric: str, judgments: Judgments, convention: Convention) -> None:
    """Raises DataError where (2^label - 1) / 2^highest_grade, a probability, is above 1."""
    highest = judgments.best_labels.max()
    if highest <= np.logaddexp2(0.0, convention.highest_grade) + 1e-12:
        return
    row = int(judgments.labels.argmax())
    raise DataError(
        f"labels[{row}] is {highest:g}, above {metric.upper()}'s highest grade, "
        f"{convention.highest_grade:g}, in the convention {convention.name}; set highest_grade to that of "
        "the scale of the judgments, or map the labels to its grades."
    )


def _rounded(values: Scores, dtype: str | None) -> Scores:
    if dtype is None:
        return values
    with np.errstate(over="ignore"):  # a score beyond float32 is infinite there, and ties with its like
        rounded: Scores = np.asarray(values).astype(dtype)
    return rounded


def weigh(judgments: Judgments, is_defined: NDArray[np.bool_], aggregation: Aggregation) -> Weighting:
    """The weights of the queries in the mean of a metric, and so in every statistic of that metric.

    Args:
        is_defined: (Q,), whether there is anything to find in a query.
    """
    given = judgments.query_weights
    if given is None or aggregation is Aggregation.UNWEIGHTED:
        alike = np.ones(judgments.num_queries)
        return Weighting(alike, alike)
    if aggregation is Aggregation.UNWEIGHTED_EMPTY:
        return Weighting(np.where(is_defined, given, 1.0), given)
    return Weighting(given, given)
