"""Objectives: a function from scores to gradients and hessians, for a data set and settings.

`prepare` takes a data set and the settings of an objective, and computes once whatever does not change
between iterations:

    PairSettings   lambdarank on the change of a metric, in every dialect, and ranknet
    CrossEntropy   xendcg
    SquaredError   mart

If the kernel of `lambdas.py` supports the settings of pairs, as with native's defaults, it is used; otherwise
the kernel of `pairwise.py`. To add an objective, add a settings class here and a line in `prepare`. A new
metric for lambdarank is one function in `swaps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.metrics import DEFAULT
from ltrbench.metrics.convention import logarithmic_discount
from ltrbench.metrics.evaluation import check_defined
from ltrbench.native.objectives.dialects import ORDERS_OF_TIES, PairSettings
from ltrbench.native.objectives.lambdas import LambdaSettings, any_order, lambdas, ndcg_data
from ltrbench.native.objectives.pairwise import (
    Compiled,
    PairCorrection,
    PairData,
    Probability,
    pairwise_lambdas,
)
from ltrbench.native.objectives.swaps import Swaps, lay_out, parse_layout
from ltrbench.native.objectives.xendcg import xendcg
from ltrbench.native.settings import changed, part
from ltrbench.native.team import DocumentDraws
from ltrbench.shapes import Gradients, Hessians, Values

Queries = NDArray[np.int64] | None  # indices of the queries to compute, ascending; None: all

Objective = Callable[[Values, Queries, DocumentDraws], tuple[Gradients, Hessians]]
"""((D,) scores, queries to compute, random numbers) -> (D,) gradients and (D,) hessians, 0 outside these
queries."""


@dataclass(frozen=True)
class CrossEntropy:
    """xendcg: cross entropy against randomised gains; see `xendcg.py`."""


@dataclass(frozen=True)
class SquaredError:
    """mart: the cost of each document is (s - l)^2 / 2, so that scores approach labels.

    Friedman, 2001, "Greedy Function Approximation: A Gradient Boosting Machine", section 4.1; RankLib's MART.
    """


ObjectiveSettings = PairSettings | CrossEntropy | SquaredError


def prepare(train: RankingDataset, settings: ObjectiveSettings) -> Objective:
    """Returns the objective of these settings for a data set.

    Raises:
        ConfigError: If the metric is not available as an objective.
        DataError, UndefinedMetricError: If the objective is not defined for the labels.
    """
    check_settings(settings)
    check_labels(train, settings)
    match settings:
        case CrossEntropy():
            return _cross_entropy(train)
        case SquaredError():
            return _squared_error(train)
    return _fast_pairs(train, settings) if fast_kernel_computes(settings) else _all_pairs(train, settings)


def check_settings(settings: ObjectiveSettings) -> None:
    """Raises ConfigError if the metric is not available as an objective."""
    if isinstance(settings, PairSettings) and settings.metric is not None:
        parse_layout(settings.metric)


def check_labels(judgments: Judgments, settings: ObjectiveSettings) -> None:
    """Raises the errors of `prepare` if the objective is not defined for these labels."""
    match settings:
        case PairSettings():
            lay_out(judgments, settings)
        case CrossEntropy():
            # Its phi are NDCG's gains, apart from the random draw.
            check_defined("ndcg", None, DEFAULT, judgments)


def fast_kernel_computes(settings: PairSettings) -> bool:
    """Returns whether the kernel of `lambdas.py` supports these settings; `pairwise.py` supports all.

    The kernel supports any gain and any value of the fields of `LambdaSettings`. All other settings must have
    their defaults.
    """
    is_free = {*LambdaSettings._fields, "convention"}.issuperset(changed(settings, PairSettings))
    return is_free and settings.convention.discount is logarithmic_discount


def _fast_pairs(train: RankingDataset, settings: PairSettings) -> Objective:
    fast = part(settings, LambdaSettings, truncation=_depth(train, settings))
    data = ndcg_data(train, fast.truncation, settings.convention.of("ndcg").gain)
    order = any_order(data)

    def objective(scores: Values, queries: Queries, rng: DocumentDraws) -> tuple[Gradients, Hessians]:
        return lambdas(data, scores, fast, queries, order)

    return objective


def _all_pairs(train: RankingDataset, settings: PairSettings) -> Objective:
    pairs, num_draws = prepare_pairs(train, settings), settings.pairs_per_document or 0

    def objective(scores: Values, queries: Queries, rng: DocumentDraws) -> tuple[Gradients, Hessians]:
        return pairs(scores, queries, rng.random((len(scores), num_draws)), None)

    return objective


PairKernel = Callable[
    [Values, Queries, NDArray[np.float64], PairCorrection | None], tuple[Gradients, Hessians]
]
"""((D,) scores, queries to compute, (D, P) draws of partners, correction of position bias) -> (D,) gradients
and (D,) hessians."""


def prepare_pairs(train: RankingDataset, settings: PairSettings) -> PairKernel:
    """Returns the kernel of `pairwise.py` for a data set; raises the same errors as `prepare`."""
    swaps = lay_out(train, settings)
    data = PairData(
        query_start=train.query_start.copy(),
        labels=train.labels.copy(),
        document_values=swaps.document_values.copy(),
        rank_weights=swaps.rank_weights,
        scales=swaps.scales,
        document_weights=train.weight_of_document.copy(),
    )
    compiled = _compiled(train, settings, swaps)
    dtype = np.float32 if settings.float32_scores else np.float64

    def pairs(
        scores: Values, queries: Queries, draws: NDArray[np.float64], correction: PairCorrection | None
    ) -> tuple[Gradients, Hessians]:
        rounded = scores.astype(dtype).astype(np.float64)
        return pairwise_lambdas(data, rounded, draws, compiled, _numbers(train, queries), correction)

    return pairs


def _compiled(train: RankingDataset, settings: PairSettings, swaps: Swaps) -> Compiled:
    """Returns the settings for the kernel: fields of the same name, and fields derived from others."""
    by_pairs = settings.normalize_query and settings.query_norm == "pairs"
    return part(
        settings,
        Compiled,
        change=int(swaps.change),
        # Swaps of two documents below the last rank with a weight do not change the metric.
        truncation=min(_depth(train, settings), int(np.count_nonzero(swaps.rank_weights))),
        probability=int(Probability[settings.sigmoid.upper()]),
        distances_count=settings.normalize_distance,
        log2_norm=settings.normalize_query and not by_pairs,
        factor=1.0 / (settings.pairs_per_document or 1) if by_pairs else 1.0,
        low_labels_first=ORDERS_OF_TIES[settings.ties],
    )


def _depth(train: RankingDataset, settings: PairSettings) -> int:
    """Returns T, or the length of the longest query without truncation."""
    longest = int(train.query_sizes.max())
    return longest if settings.truncation is None else settings.truncation


def _cross_entropy(train: RankingDataset) -> Objective:
    query_start, grades = train.query_start.copy(), np.exp2(train.labels)
    weights = train.weight_of_document.copy()

    def objective(scores: Values, queries: Queries, rng: DocumentDraws) -> tuple[Gradients, Hessians]:
        draws = rng.random(len(scores))
        return xendcg(query_start, grades, weights, scores, draws, _numbers(train, queries))

    return objective


def _squared_error(train: RankingDataset) -> Objective:
    labels, weights = train.labels, train.weight_of_document

    def objective(scores: Values, queries: Queries, rng: DocumentDraws) -> tuple[Gradients, Hessians]:
        counts = np.ones(len(scores))
        if queries is not None:
            counts = np.isin(train.query_of_document, queries).astype(np.float64)
        hessians = weights * counts
        return (scores - labels) * hessians, hessians

    return objective


def _numbers(train: RankingDataset, queries: Queries) -> NDArray[np.int64]:
    return np.arange(train.num_queries) if queries is None else queries
