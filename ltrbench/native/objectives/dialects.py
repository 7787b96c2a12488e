"""Dialects: what LambdaMART implementations differ in, pair by pair, as named settings.

All dialects are one algorithm with other `PairSettings`; `PRESETS` are those of libraries, held to the
libraries' own lambdas by tests. `pairs.py` says what the settings mean, for reading and testing;
`pairwise.py` computes it for training, and `lambdas.py` native's own choice, faster.

A difference that no setting reaches yet is one more field here, with a line in `pairs.py` and one in
`pairwise.py`, which one test holds together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.metrics.convention import Ties

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's literal is a float32, and its digits are seen at 1e-7."""


class Sigmoid(Enum):
    """How the probability p of the wrong order is computed."""

    EXACT = "exact"  # 1 / (1 + exp(sigma d)) in float64: native, RankLib, pyltr
    TABLE = "table"  # at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma]: LightGBM
    FLOAT32 = "float32"  # 1 - 1 / (1 + exp(-sigma d) + 1e-16) in float32: XGBoost


class QueryNorm(Enum):
    """What a query's lambdas and hessians are multiplied by."""

    LOG2 = "log2"  # log2(1 + S) / S, S the sum of 2 lambda: LightGBM, XGBoost's topk
    PAIRS = "pairs"  # 1 / pairs_per_document: XGBoost's mean


IN_ROW_ORDER = replace(DEFAULT, ties=Ties.ROW_ORDER)
"""Lambdas need one order: a stable sort's, as the engine and most libraries have it."""


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """What the dialects of LambdaMART differ in, where each comes from, and what it does to learning.

    Attributes:
        metric: whose change is a pair's weight delta, so that trees work on what the metric sees. `ndcg`:
            the discounts in full however deep the pair stands, and max_dcg over the first `truncation` ranks
            (LightGBM, XGBoost, RankLib): documents are pulled up from any depth as far as their gain goes.
            Any other name, also with a cutoff as in ndcg@10 or err@10: its true change, so that two documents
            below the cutoff do not matter (pyltr, QuickRank); map is XGBoost's rank:map. None: every pair
            weighs 1, which is RankNet and XGBoost's rank:pairwise, and minds the bottom as much as the top.
        convention: gains, relevance and the rest of what the metric's name leaves open, and the order of tied
            documents. Row order (most libraries) lets the order of the file teach while scores tie, as all
            do before the first tree; worst case (pyltr) pulls tied relevant documents as if they stood last.
        truncation: a pair counts if one of its documents ranks above it. LightGBM's and XGBoost's lever on
            speed and on how much the top matters. None: every pair counts.
        sigma: slope of the sigmoid (LightGBM's `sigmoid`): the larger, the sooner a pair in the right order
            is left alone.
        sigmoid: how p is computed; of no weight for learning, but for the digits of a library.
        normalize_distance: divide delta by the distance of the scores, if not all of the query are equal:
            one half of LightGBM's lambdarank_norm, XGBoost's lambdarank_score_normalization. Close pairs
            then weigh up to 1 / distance_offset as much as pairs that are apart.
        distance_offset: what is added to that distance.
        normalize_query: multiply a query's lambdas and hessians by its `query_norm`, so that queries of many
            pairs do not outweigh others: the other half of lambdarank_norm, XGBoost's
            lambdarank_normalization.
        query_norm: what that is.
        hessian_factor: 2 in XGBoost, whose steps are half as long for it.
        least_hessian: a floor under p (1 - p), so that a pair far apart does not make a leaf's step explode;
            XGBoost's is 1e-16.
        pairs_per_document: partners that each document draws, anew in every iteration, from those of other
            labels (XGBoost's lambdarank_pair_method=mean): a cheap estimate of all pairs, noisier the fewer.
            Such a pair counts wherever it stands, so that `truncation` must be None. None: no sampling.
        float32_scores: keep scores in float32, and round their differences to it (XGBoost), so that scores
            that hardly differ tie.
        float32_sums: add up a document's lambdas and hessians in float32, in the order of ranks (LightGBM,
            XGBoost); of no weight for learning, but for the digits of a library.
        float32_norm: take S from lambdas in float32, and multiply by a float32 (XGBoost); likewise of no
            weight but for the digits.
        weights_within_queries: whether documents of one query may weigh differently; XGBoost refuses it.

    Raises:
        ConfigError: on a metric that does not exist, or settings that contradict each other.
    """

    metric: str | None = "ndcg"
    convention: Convention = IN_ROW_ORDER
    truncation: int | None = 30
    sigma: float = 1.0
    sigmoid: Sigmoid = Sigmoid.EXACT
    normalize_distance: bool = True
    distance_offset: float = FLOAT32_OFFSET
    normalize_query: bool = True
    query_norm: QueryNorm = QueryNorm.LOG2
    hessian_factor: float = 1.0
    least_hessian: float = 0.0
    pairs_per_document: int | None = None
    float32_scores: bool = False
    float32_sums: bool = False
    float32_norm: bool = False
    weights_within_queries: bool = True

    def __post_init__(self) -> None:
        if self.metric is not None:
            parse_metric(self.metric)
        if self.pairs_per_document is not None and self.truncation is not None:
            raise ConfigError(
                f"pairs_per_document is {self.pairs_per_document} and truncation is {self.truncation}, but "
                "partners are drawn from the whole list; unset one of them."
            )
        if self.query_norm is QueryNorm.PAIRS and self.pairs_per_document is None:
            raise ConfigError(
                "query_norm is pairs, which divides by pairs_per_document, and that is not set; set it, or "
                "query_norm=log2."
            )
        if self.normalize_distance and self.distance_offset <= 0:
            raise ConfigError(
                f"distance_offset is {self.distance_offset:g}, so that a pair of equal scores would weigh "
                "infinitely; give a number above 0, or normalize_distance=false."
            )


NATIVE = PairSettings()

PRESETS: dict[str, PairSettings] = {
    "native": NATIVE,
    # LightGBM 4.7: src/objective/rank_objective.hpp.
    "lightgbm": PairSettings(
        convention=replace(IN_ROW_ORDER, name="lightgbm", largest_label=30.0),
        sigmoid=Sigmoid.TABLE,
        float32_sums=True,
    ),
    # XGBoost 3.2: src/objective/lambdarank_obj.h, rank:ndcg with lambdarank_pair_method=topk.
    "xgboost": PairSettings(
        convention=replace(IN_ROW_ORDER, name="xgboost", largest_label=31.0),
        truncation=32,
        sigmoid=Sigmoid.FLOAT32,
        distance_offset=0.01,
        hessian_factor=2.0,
        least_hessian=1e-16,
        float32_scores=True,
        float32_sums=True,
        float32_norm=True,
        weights_within_queries=False,
    ),
    # RankLib 2.x: ciir.umass.edu.learning.tree.LambdaMART with -metric2t NDCG@10, its default.
    "ranklib": PairSettings(truncation=10, normalize_distance=False, normalize_query=False),
    # pyltr 0.2.6: pyltr/models/lambdamart.py with NDCG(k=10).
    "pyltr": PairSettings(
        metric="ndcg@10",
        convention=replace(DEFAULT, ties=Ties.WORST),
        truncation=None,
        normalize_distance=False,
        normalize_query=False,
    ),
}
