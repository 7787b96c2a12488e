"""Swaps: the change of a metric when the documents at two ranks are swapped, in closed form.

For each metric, one function of this file computes the input of the compiled formulas in `pairwise.py`: the
value v of each document, the weight w of each rank, the scale of each query, and the formula, a `Change`.
With C_r = sum over t <= r of v_t:

    additive           sum over r of v_r w_r                                    DCG, NDCG, precision, WTA
    average precision  sum over r of v_r w_r C_r, v 0 or 1                      AP
    cascade            sum over r of v_r w_r product over t < r of (1 - v_t)    ERR, and RR with v 0 or 1

To add a metric, write its function here and add it to `LAYOUTS` under its name in `ltrbench.metrics`. A
metric of another form also needs a formula in `pairwise.py`. A property test compares every metric with the
definition: swap, evaluate again, subtract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import Convention, parse_metric
from ltrbench.metrics.convention import Denominator
from ltrbench.metrics.evaluation import check_defined
from ltrbench.native.objectives.dialects import PairSettings
from ltrbench.native.objectives.pairwise import Change
from ltrbench.shapes import PerQuery


class Swaps(NamedTuple):
    """The parts of a metric on a data set that do not depend on scores.

    Attributes:
        change: the formula.
        document_values: (D,), v of each document.
        rank_weights: (documents of the longest query,), w of each rank.
        scales: (Q,), factor of the changes of a query; 0 for a query without a relevant document.
    """

    change: Change
    document_values: NDArray[np.float64]
    rank_weights: NDArray[np.float64]
    scales: PerQuery


Layout = Callable[[Judgments, int | None, Convention, int | None], Swaps]
"""(judgments, cutoff, convention, truncation) -> Swaps of the metric."""


def ndcg_swaps(judgments: Judgments, k: int | None, convention: Convention, truncation: int | None) -> Swaps:
    """NDCG@k = sum over r < k of G(l_r) D(r) / max_dcg, where max_dcg is the best DCG@k of the query.

    Without a cutoff, all ranks count in the sum, and max_dcg is the best DCG of the first `truncation` ranks.
    """
    discounts = convention.discount(_ranks(judgments))
    best_gains = convention.gain(judgments.labels_best_first)
    depth = truncation if k is None else k
    max_dcg = _sums(best_gains * _first(depth, discounts)[judgments.ranks_of_rows], judgments)
    _refuse_infinite(max_dcg, judgments)
    scales = np.divide(1.0, max_dcg, out=np.zeros_like(max_dcg), where=max_dcg > 0)
    if convention.zero_if_shorter_than_k and k is not None:
        scales[judgments.query_sizes < k] = 0.0
    return Swaps(Change.ADDITIVE, convention.gain(judgments.labels), _first(k, discounts), scales)


def dcg_swaps(judgments: Judgments, k: int | None, convention: Convention, truncation: int | None) -> Swaps:
    """DCG@k = sum over r < k of G(l_r) D(r): queries with high labels have more weight than in NDCG."""
    normalised = ndcg_swaps(judgments, k, convention, truncation)
    return normalised._replace(scales=(normalised.scales > 0.0).astype(np.float64))


def precision_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """P@k = sum over r < k of rel_r / k, or / min(k, n), depending on the convention; k is never None."""
    sizes = judgments.query_sizes
    places = np.full(len(sizes), k)
    if convention.precision_denominator is Denominator.K_UP_TO_SIZE:
        places = np.minimum(places, sizes)
    weights = _first(k, np.ones(sizes.max()))
    return Swaps(Change.ADDITIVE, _relevance(judgments, convention), weights, 1.0 / places)


def winner_takes_all_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """WTA = 1 if the document at rank 0 has the highest label of its query, otherwise 0."""
    highest = np.repeat(judgments.labels_best_first[judgments.query_start[:-1]], judgments.query_sizes)
    wins = (judgments.labels == highest).astype(np.float64)
    weights = _first(1, np.ones(judgments.query_sizes.max()))
    return Swaps(Change.ADDITIVE, wins, weights, np.ones(judgments.num_queries))


def average_precision_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """AP@k = sum over r < k of rel_r C_r / (r + 1), divided by min(R, k), or by R in some conventions."""
    k = k if convention.average_precision_cutoff else None
    relevance = _relevance(judgments, convention)
    possible = _sums(relevance, judgments)
    if k is not None and convention.average_precision_denominator is Denominator.RELEVANT_UP_TO_K:
        possible = np.minimum(possible, k)
    scales = np.divide(1.0, possible, out=np.zeros_like(possible), where=possible > 0)
    return Swaps(Change.AVERAGE_PRECISION, relevance, _reciprocal(judgments, k), scales)


def reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """RR@k = 1 / (r + 1) for the first relevant rank r < k: a cascade that stops at a relevant document."""
    relevance = _relevance(judgments, convention)
    return Swaps(Change.CASCADE, relevance, _reciprocal(judgments, k), np.ones(judgments.num_queries))


def expected_reciprocal_rank_swaps(
    judgments: Judgments, k: int | None, convention: Convention, truncation: int | None
) -> Swaps:
    """ERR@k = sum over r < k of 1 / (r + 1) p_r product over t < r of (1 - p_t), p = (2^l - 1) / 2^l_max."""
    stop = np.expm1(judgments.labels * np.log(2.0)) / 2.0**convention.highest_grade
    if stop.max() > 1.0 + 1e-12:
        row = int(judgments.labels.argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}, above ERR's highest grade, "
            f"{convention.highest_grade:g}; set highest_grade to the highest grade of the judgments."
        )
    return Swaps(Change.CASCADE, stop, _reciprocal(judgments, k), np.ones(judgments.num_queries))


LAYOUTS: dict[str, Layout] = {
    "ndcg": ndcg_swaps,
    "dcg": dcg_swaps,
    "precision": precision_swaps,
    "wta": winner_takes_all_swaps,
    "map": average_precision_swaps,
    "mrr": reciprocal_rank_swaps,
    "err": expected_reciprocal_rank_swaps,
}


def lay_out(judgments: Judgments, settings: PairSettings) -> Swaps:
    """Returns the Swaps of the settings' metric on these judgments.

    Raises:
        ConfigError: If the metric has no formula here.
        UndefinedMetricError: If the convention does not accept the labels.
        DataError: If the metric is not defined for the labels.
    """
    if settings.metric is None:
        nothing = np.zeros(judgments.num_documents)
        return Swaps(Change.NONE, nothing, _reciprocal(judgments, None), np.ones(judgments.num_queries))
    metric, k = parse_layout(settings.metric)
    convention = settings.convention.of(metric)
    check_defined(metric, k, convention, judgments)
    return LAYOUTS[metric](judgments, k, convention, settings.truncation)


def parse_layout(name: str) -> tuple[str, int | None]:
    """Returns the metric and the cutoff of a name: `err@10` -> ("err", 10).

    Raises:
        ConfigError: If the name is not a metric, or the metric has no formula here.
    """
    metric, k = parse_metric(name)
    if metric == "precision" and k is None:
        raise ConfigError(
            f"metric '{name}' has the same value for every order; give a cutoff, as in {name}@5."
        )
    if metric not in LAYOUTS:
        raise ConfigError(
            f"metric '{name}' is not available as an objective{did_you_mean(metric, LAYOUTS)} Set metric to "
            f"one of {', '.join(LAYOUTS)}; most of them also take a cutoff, as in ndcg@10."
        )
    return metric, k


def _ranks(judgments: Judgments) -> NDArray[np.int64]:
    return np.arange(judgments.query_sizes.max())


def _first(k: int | None, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rank weights, with 0 from rank k on."""
    return weights if k is None else np.where(np.arange(len(weights)) < k, weights, 0.0)


def _reciprocal(judgments: Judgments, k: int | None) -> NDArray[np.float64]:
    reciprocals = np.reciprocal(_ranks(judgments) + 1.0)
    return _first(k, reciprocals)


def _relevance(judgments: Judgments, convention: Convention) -> NDArray[np.float64]:
    return (judgments.labels >= convention.relevance_threshold).astype(np.float64)


def _sums(values: NDArray[np.float64], judgments: Judgments) -> PerQuery:
    """Returns the (Q,) sums over each query of (D,) values."""
    with np.errstate(over="ignore"):  # `_refuse_infinite` raises an error instead
        sums: PerQuery = np.add.reduceat(values, judgments.query_start[:-1])
    return sums


def _refuse_infinite(max_dcg: PerQuery, judgments: Judgments) -> None:
    queries = np.flatnonzero(~np.isfinite(max_dcg))
    if queries.size:
        raise DataError(
            f"the gains of query {judgments.query_ids[queries[0]]} add up to infinity; map the labels to "
            "smaller grades, or set gain=linear."
        )
