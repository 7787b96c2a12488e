"""Objectives: what the trees are fitted to, as a function from scores to gradients and hessians.

`prepare` takes a data set and an objective's settings, and does once what no iteration changes:

    PairSettings   lambdarank on the change of a metric, in every dialect, and ranknet
    CrossEntropy   xendcg
    SquaredError   mart

Pairs whose settings say what the kernel of `lambdas.py` computes, as native's defaults do, get that kernel,
and otherwise that of `pairwise.py`. To add an objective, give it a settings class here and a line in
`prepare`; a new metric for lambdarank is one function in `swaps.py`.
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
from ltrbench.shapes import Gradients, Hessians, Values

Queries = NDArray[np.int64] | None  # the queries that count, rising; None: all

Objective = Callable[[Values, Queries, np.random.Generator], tuple[Gradients, Hessians]]
"""(D,) scores, the queries that count, and what to draw from -> (D,) gradients and hessians, 0 outside of
those queries."""


@dataclass(frozen=True)
class CrossEntropy:
    """xendcg: cross entropy against randomised gains; see `xendcg.py`."""


@dataclass(frozen=True)
class SquaredError:
    """mart: each document for itself, the cost (s - l)^2 / 2; scores approach labels.

    Friedman, 2001, "Greedy Function Approximation: A Gradient Boosting Machine", section 4.1; RankLib's MART.
    """


ObjectiveSettings = PairSettings | CrossEntropy | SquaredError


def prepare(train: RankingDataset, settings: ObjectiveSettings) -> Objective:
    """The objective of these settings on these judgments.

    Raises:
        ConfigError: on a metric that the engine does not learn from.
        DataError, UndefinedMetricError: on labels that the objective has no meaning for.
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
    """Raises ConfigError on a metric that only the specification computes."""
    if isinstance(settings, PairSettings) and settings.metric is not None:
        parse_layout(settings.metric)


def check_labels(judgments: Judgments, settings: ObjectiveSettings) -> None:
    """Makes sure that the objective has a meaning for these labels; raises as `prepare` does."""
    match settings:
        case PairSettings():
            lay_out(judgments, settings)
        case CrossEntropy():
            # Its phi are the gains of NDCG, but for a draw.
            check_defined("ndcg", None, DEFAULT, judgments)


def fast_kernel_computes(settings: PairSettings) -> bool:
    """Returns whether the kernel of `lambdas.py` computes these settings; `pairwise.py` computes the others.

    It takes any value of the fields of `LambdaSettings`, and any gain; all else must have its default.
    """
    is_free = {*LambdaSettings._fields, "convention"}.issuperset(changed(settings, PairSettings))
    return is_free and settings.convention.discount is logarithmic_discount


def _fast_pairs(train: RankingDataset, settings: PairSettings) -> Objective:
    fast = part(settings, LambdaSettings, truncation=_depth(train, settings))
    data = ndcg_data(train, fast.truncation, settings.convention.of("ndcg").gain)
    order = any_order(data)

    def objective(scores: Values, queries: Queries, rng: np.random.Generator) -> tuple[Gradients, Hessians]:
        return lambdas(data, scores, fast, queries, order)

    return objective


def _all_pairs(train: RankingDataset, settings: PairSettings) -> Objective:
    pairs, num_draws = prepare_pairs(train, settings), settings.pairs_per_document or 0

    def objective(scores: Values, queries: Queries, rng: np.random.Generator) -> tuple[Gradients, Hessians]:
        return pairs(scores, queries, rng.random((len(scores), num_draws)), None)

    return objective


PairKernel = Callable[
    [Values, Queries, NDArray[np.float64], PairCorrection | None], tuple[Gradients, Hessians]
]
"""(D,) scores, the queries that count, (D, P) draws of partners, and a correction of position bias -> (D,)
gradients and hessians."""


def prepare_pairs(train: RankingDataset, settings: PairSettings) -> PairKernel:
    """Returns the kernel of `pairwise.py` on a data set; raises as `prepare` does."""
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
    """The settings for the kernel: those of the same name, and what is computed from others."""
    by_pairs = settings.normalize_query and settings.query_norm == "pairs"
    return part(
        settings,
        Compiled,
        change=int(swaps.change),
        # Below the last rank of weight no change of places changes the metric.
        truncation=min(_depth(train, settings), int(np.count_nonzero(swaps.rank_weights))),
        probability=int(Probability[settings.sigmoid.upper()]),
        distances_count=settings.normalize_distance,
        log2_norm=settings.normalize_query and not by_pairs,
        factor=1.0 / (settings.pairs_per_document or 1) if by_pairs else 1.0,
        low_labels_first=ORDERS_OF_TIES[settings.ties],
    )


def _depth(train: RankingDataset, settings: PairSettings) -> int:
    """T, or the documents of the longest query where there is none."""
    longest = int(train.query_sizes.max())
    return longest if settings.truncation is None else settings.truncation


def _cross_entropy(train: RankingDataset) -> Objective:
    query_start, grades = train.query_start.copy(), np.exp2(train.labels)
    weights = train.weight_of_document.copy()

    def objective(scores: Values, queries: Queries, rng: np.random.Generator) -> tuple[Gradients, Hessians]:
        draws = rng.random(len(scores))
        return xendcg(query_start, grades, weights, scores, draws, _numbers(train, queries))

    return objective


def _squared_error(train: RankingDataset) -> Objective:
    labels, weights = train.labels, train.weight_of_document

    def objective(scores: Values, queries: Queries, rng: np.random.Generator) -> tuple[Gradients, Hessians]:
        counts = np.ones(len(scores))
        if queries is not None:
            counts = np.isin(train.query_of_document, queries).astype(np.float64)
        hessians = weights * counts
        return (scores - labels) * hessians, hessians

    return objective


def _numbers(train: RankingDataset, queries: Queries) -> NDArray[np.int64]:
    return np.arange(train.num_queries) if queries is None else queries
