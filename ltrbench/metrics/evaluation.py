"""From scores to numbers: names such as `ndcg@10` parsed, per-query values and their mean.

A name is a metric of `functions.py` with or without a cutoff. What can be shared between calls on the same
data set (the ideal ranking) is cached on the data set, so that `evaluate` is cheap enough to be called at
every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics.convention import DEFAULT, Convention
from ltrbench.metrics.functions import METRICS
from ltrbench.metrics.ranking import rank
from ltrbench.shapes import PerQuery, Scores


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What metrics say of one score vector.

    Attributes:
        means: name -> mean over the queries that count, weighted by query_weights; NaN where none counts.
        per_query: name -> (Q,) values; NaN for a skipped query.
        skipped_share: the share of queries without a relevant document, which are skipped.
        convention: what the numbers were computed under.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, PerQuery]
    skipped_share: float
    convention: Convention


def evaluate(
    dataset: Judgments, scores: Scores, names: Sequence[str], convention: Convention = DEFAULT
) -> Evaluation:
    """Computes metrics of a ranking by scores.

    Args:
        dataset: the documents with their labels; the features are not looked at.
        scores: (D,), higher is ranked earlier.
        names: such as `ndcg@10`, `map`, `mrr`, `precision@5`.

    Raises:
        ConfigError: on an unknown metric or a cutoff that is not a positive whole number.
        DataError: on scores of another length, or NaN; on a label whose gain is infinite.

    >>> from ltrbench.data import RankingDataset
    >>> data = RankingDataset(features=[[0.0]] * 4, labels=[3, 0, 1, 2], query_start=[0, 4])
    >>> evaluation = evaluate(data, np.array([0.1, 0.2, 0.9, 0.3]), ["ndcg@2", "mrr"])
    >>> round(evaluation.means["ndcg@2"], 6), evaluation.means["mrr"]
    (0.325296, 1.0)
    """
    parsed = {name: parse_metric(name) for name in names}
    _check_gains(dataset, convention)
    ranking = rank(dataset, scores)
    counts = has_relevant_document(dataset, convention)
    per_query = {}
    for name, (metric, k) in parsed.items():
        per_query[name] = np.where(counts, METRICS[metric](ranking, k, convention), np.nan)
    return Evaluation(
        means={name: _mean(values, dataset) for name, values in per_query.items()},
        per_query=per_query,
        skipped_share=float(np.mean(~counts)),
        convention=convention,
    )


def _check_gains(judgments: Judgments, convention: Convention) -> None:
    with np.errstate(over="ignore"):
        overflows = ~np.isfinite(convention.gain(judgments.labels.max(keepdims=True)))
    if overflows.any():
        row = int(judgments.labels.argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}, whose {convention.gain.__name__.replace('_', ' ')} "
            "is infinite; map the labels to small grades."
        )


def parse_metric(name: str) -> tuple[str, int | None]:
    """`ndcg@10` -> ("ndcg", 10); `map` -> ("map", None).

    Raises:
        ConfigError: on an unknown metric or a cutoff that is not a positive whole number.

    >>> parse_metric("ndcg@10"), parse_metric("map")
    (('ndcg', 10), ('map', None))
    """
    metric, at, cutoff = name.partition("@")
    if metric not in METRICS:
        raise ConfigError(
            f"unknown metric '{name}'{did_you_mean(metric, METRICS)} Known are {', '.join(sorted(METRICS))}, "
            "each with or without a cutoff, as in ndcg@10."
        )
    if not at:
        return metric, None
    if not (cutoff.isascii() and cutoff.isdigit()) or int(cutoff) == 0:
        raise ConfigError(
            f"metric '{name}': the cutoff '{cutoff}' must be a whole number of 1 or more, as in ndcg@10."
        )
    return metric, int(cutoff)


def has_relevant_document(judgments: Judgments, convention: Convention = DEFAULT) -> NDArray[np.bool_]:
    """(Q,), whether a query has a document that reaches the relevance threshold."""
    best = np.maximum.reduceat(judgments.labels, judgments.query_start[:-1])
    return best >= convention.relevance_threshold


def _mean(values: PerQuery, judgments: Judgments) -> float:
    counted = ~np.isnan(values)
    if not counted.any():
        return float("nan")
    weights = None if judgments.query_weights is None else judgments.query_weights[counted]
    return float(np.average(values[counted], weights=weights))
