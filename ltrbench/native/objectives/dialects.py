"""Dialects: what LambdaMART implementations differ in, as named settings.

All dialects are one algorithm with other `PairSettings`. Those of libraries are the presets in conf/model,
native_lightgbm.yaml and others, held to the libraries' own lambdas by tests. `pairs.py` says what the
settings mean, for reading and testing; `pairwise.py` computes it for training, and `lambdas.py` native's own
choice, faster.

A difference that no setting reaches yet is one more field of `PairOptions`, with a line in `pairs.py` and one
in `pairwise.py`, which one test holds together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.native.settings import check, setting

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's literal is a float32, and its digits are seen at 1e-7."""

ORDERS_OF_TIES = {"row_order": 0.0, "worst": 1.0, "best": -1.0}
"""An order of documents with tied scores -> `Compiled.low_labels_first`."""

OF_LAMBDARANK = {"objective": ("lambdarank",)}
OF_PAIRS = {"objective": ("lambdarank", "ranknet")}
OF_GAINS = {**OF_LAMBDARANK, "metric": ("ndcg", "dcg")}
OF_RELEVANCE = {**OF_LAMBDARANK, "metric": ("map", "mrr", "precision")}
OF_ERR = {**OF_LAMBDARANK, "metric": ("err",)}


@dataclass(kw_only=True)
class ObjectiveOptions:
    """What the trees are fitted to: an objective, and the metric of lambdarank."""

    objective: str = setting("lambdarank", choices=("lambdarank", "ranknet", "xendcg", "mart"))
    """What the trees are fitted to. `lambdarank`: pairs, weighted by their change of `metric`; `ranknet`:
    pairs, all alike (XGBoost's rank:pairwise), so that the bottom of a list counts as much as its top;
    `xendcg`: the cross entropy of whole lists (LightGBM's rank_xendcg), which looks at no pair and costs
    less; `mart`: the squared error of each document by itself (RankLib's MART), which learns labels and not
    an order."""
    metric: str = setting("ndcg", only_with=OF_LAMBDARANK)
    """lambdarank: the metric whose change, when the two documents of a pair change places, weighs the pair.
    `ndcg`: with the discounts in full however deep the pair stands (LightGBM, XGBoost, RankLib), so that
    documents are pulled up from any depth; with a cutoff, as in ndcg@10: the true change, so that two
    documents below the cutoff do not matter (pyltr, QuickRank). Also dcg, map (XGBoost's rank:map), mrr, err
    (pyltr, RankLib), precision@k and wta."""
    gain: str = setting("exponential", choices=("exponential", "linear"), only_with=OF_GAINS)
    """The gain of a label in ndcg and dcg: `exponential`, 2^label - 1, or `linear`, the label, which gives
    the highest grades less weight (XGBoost's ndcg_exp_gain=false)."""
    label_gain: list[float] | None = setting(None, only_with=OF_GAINS)
    """The gains of label 0, 1, 2, ... instead (LightGBM)."""
    relevance_threshold: float = setting(1.0, above=0, only_with=OF_RELEVANCE)
    """map, mrr and precision: the lowest label of a relevant document."""
    highest_grade: float = setting(4.0, above=0, only_with=OF_ERR)
    """err: the highest possible label (RankLib's -gmax); the higher, the less a document satisfies."""


@dataclass(kw_only=True)
class PairOptions:
    """What a pair of documents adds to their gradients and hessians."""

    sigma: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Slope of the logistic function of a pair's score difference (LightGBM's sigmoid): the steeper, the
    sooner a pair in the right order is left alone."""
    sigmoid: str = setting("exact", choices=("exact", "table", "float32"), only_with=OF_PAIRS)
    """How that function, the probability p of the wrong order, is computed. `exact`: 1 / (1 + exp(sigma d))
    in float64; `table`: at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma] (LightGBM);
    `float32`: 1 - 1 / (1 + exp(-sigma d) + 1e-16) in float32 (XGBoost). It changes the last digits only."""
    normalize_distance: bool = setting(True, only_with=OF_PAIRS)
    """Divides a pair's weight by distance_offset + |score difference|, if not all scores of the query are
    equal: one half of LightGBM's lambdarank_norm, XGBoost's lambdarank_score_normalization. Close pairs then
    weigh up to 1 / distance_offset as much as pairs that are apart."""
    distance_offset: float | None = setting(None, above=0, only_with=OF_PAIRS)
    """Number that is added to that difference: the smaller, the more close pairs count; None: LightGBM's
    0.01, which is a float32's."""
    normalize_query: bool = setting(True, only_with=OF_PAIRS)
    """Multiplies a query's gradients and hessians by its query_norm, so that queries of many pairs outweigh
    others less: the other half of lambdarank_norm, XGBoost's lambdarank_normalization."""
    query_norm: str = setting("log2", choices=("log2", "pairs"), only_with=OF_PAIRS)
    """What that norm is. `log2`: log2(1 + S) / S, where S is the sum of 2 lambda over the pairs (LightGBM,
    XGBoost's topk); `pairs`: 1 / pairs_per_document (XGBoost's mean)."""
    hessian_factor: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Factor of hessians. XGBoost's is 2, so that its steps are half as long."""
    least_hessian: float = setting(0.0, at_least=0, only_with=OF_PAIRS)
    """Minimum of a pair's p (1 - p), which keeps the steps of pairs far apart small (XGBoost: 1e-16)."""
    ties: str = setting("row_order", choices=tuple(ORDERS_OF_TIES), only_with=OF_PAIRS)
    """The order of documents whose scores tie, as all do before the first tree. `row_order`: a stable sort's
    (most libraries), so that the order of the file teaches; `worst`: by rising label (pyltr), so that
    relevant documents are pulled up as if they stood last; `best`: by falling label."""
    pairs_per_document: int | None = setting(None, at_least=1, only_with=OF_PAIRS)
    """Number of partners that each document draws, anew for each tree, from those of other labels in the
    whole list (XGBoost's lambdarank_pair_method=mean): an estimate of all pairs, cheaper and noisier the
    fewer; needs truncation=null. None: all pairs above truncation count."""
    float32_scores: bool = setting(False, only_with=OF_PAIRS)
    """Keeps the scores that it learns from, and their differences, in float32 (XGBoost), so that more of them
    tie."""
    float32_sums: bool = setting(False, only_with=OF_PAIRS)
    """Adds up a document's gradients and hessians in float32, in the order of ranks (LightGBM, XGBoost). It
    changes the last digits only."""
    float32_norm: bool = setting(False, only_with=OF_PAIRS)
    """Multiplies a query's gradients by a float32, and takes S from lambdas in float32 (XGBoost). It changes
    the last digits only."""


@dataclass(kw_only=True)
class PairSettings(PairOptions):
    """The settings of pairs, as the engine computes them.

    Attributes:
        metric: the metric whose change is a pair's weight delta. `ndcg` has its discounts in full however
            deep the pair stands, and max_dcg over the first `truncation` ranks. Any other name, also with a
            cutoff as in ndcg@10 or err@10, has its true change. None: every pair weighs 1, which is RankNet.
        convention: gains, relevance and the rest of what the metric's name leaves open; not the order of tied
            documents, which is `ties`.
        truncation: a pair counts if one of its documents ranks above it. LightGBM's and XGBoost's lever on
            speed and on how much the top matters. None: every pair counts.

    Raises:
        ConfigError: on a metric that does not exist, a setting that is out of its range, or settings that
            contradict each other.
    """

    metric: str | None = "ndcg"
    convention: Convention = DEFAULT
    truncation: int | None = setting(30, at_least=1)
    distance_offset: float = setting(FLOAT32_OFFSET, above=0)

    def __post_init__(self) -> None:
        check(self)
        if self.metric is not None:
            parse_metric(self.metric)
        if self.pairs_per_document is not None and self.truncation is not None:
            raise ConfigError(
                f"pairs_per_document is {self.pairs_per_document} and truncation is {self.truncation}, but "
                "partners are drawn from the whole list; unset one of them."
            )
        if self.query_norm == "pairs" and self.pairs_per_document is None:
            raise ConfigError(
                "query_norm is pairs, which divides by pairs_per_document, and that is not set; set it, or "
                "query_norm=log2."
            )


NATIVE = PairSettings()
