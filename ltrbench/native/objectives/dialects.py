"""Dialects: the settings in which implementations of LambdaMART differ.

All dialects are the same algorithm with different `PairSettings`. The presets in conf/model
(native_lightgbm.yaml and others) contain the settings of the libraries; tests compare them with the lambdas
of the libraries. `pairs.py` is the specification of the settings, for reading and testing. `pairwise.py`
computes them for training, and `lambdas.py` is a faster kernel for native's default settings.

To add a difference that no setting covers yet, add a field to `PairOptions`, a line to `pairs.py` and a line
to `pairwise.py`. An existing test compares the two files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.native.settings import check, setting

FLOAT32_OFFSET = float(np.float32(0.01))
"""LightGBM's constant 0.01 is a float32, which is visible in results at 1e-7."""

ORDERS_OF_TIES = {"row_order": 0.0, "worst": 1.0, "best": -1.0}
"""Name of an order of tied documents -> `Compiled.low_labels_first`."""

OF_LAMBDARANK = {"objective": ("lambdarank",)}
OF_PAIRS = {"objective": ("lambdarank", "ranknet")}
OF_GAINS = {**OF_LAMBDARANK, "metric": ("ndcg", "dcg")}
OF_RELEVANCE = {**OF_LAMBDARANK, "metric": ("map", "mrr", "precision")}
OF_ERR = {**OF_LAMBDARANK, "metric": ("err",)}


@dataclass(kw_only=True)
class ObjectiveOptions:
    """The objective, and the metric of lambdarank."""

    objective: str = setting("lambdarank", choices=("lambdarank", "ranknet", "xendcg", "mart"))
    """Objective that the trees are fitted to. `lambdarank`: pairs of documents, weighted by the change of
    `metric` when they are swapped; `ranknet`: pairs with equal weights (XGBoost's rank:pairwise), so that the
    bottom of a list matters as much as the top; `xendcg`: cross entropy of whole lists (LightGBM's
    rank_xendcg), which uses no pairs and is cheaper; `mart`: squared error of each document (RankLib's
    MART), which predicts labels instead of an order."""
    metric: str = setting("ndcg", only_with=OF_LAMBDARANK)
    """lambdarank: metric whose change, when the two documents of a pair are swapped, is the weight of the
    pair. `ndcg`: with full discounts at every rank (LightGBM, XGBoost, RankLib), so that documents are pushed
    up from any rank; with a cutoff, as in ndcg@10: the exact change, so that a pair below the cutoff has no
    weight (pyltr, QuickRank). Also dcg, map (XGBoost's rank:map), mrr, err (pyltr, RankLib), precision@k and
    wta."""
    gain: str = setting("exponential", choices=("exponential", "linear"), only_with=OF_GAINS)
    """Gain of a label in ndcg and dcg. `exponential`: 2^label - 1; `linear`: the label itself, which gives
    less weight to the highest grades (XGBoost's ndcg_exp_gain=false)."""
    label_gain: list[float] | None = setting(None, only_with=OF_GAINS)
    """Gains of labels 0, 1, 2, ..., which replace `gain` (LightGBM's label_gain); None: use `gain`."""
    relevance_threshold: float = setting(1.0, above=0, only_with=OF_RELEVANCE)
    """map, mrr and precision: lowest label of a relevant document."""
    highest_grade: float = setting(4.0, above=0, only_with=OF_ERR)
    """err: highest possible label (RankLib's -gmax); a higher value lowers the probability that a document
    satisfies the user."""


@dataclass(kw_only=True)
class PairOptions:
    """Settings of the gradients and hessians of a pair of documents."""

    sigma: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Slope of the logistic function of a pair's score difference (LightGBM's sigmoid): with a steeper
    slope, gradients of correctly ordered pairs vanish at smaller differences."""
    sigmoid: str = setting("exact", choices=("exact", "table", "float32"), only_with=OF_PAIRS)
    """Computation of that function, the probability p of the wrong order. `exact`: 1 / (1 + exp(sigma d)) in
    float64; `table`: p at the left edge of one of 2^20 bins over [-25 / sigma, 25 / sigma] (LightGBM);
    `float32`: 1 - 1 / (1 + exp(-sigma d) + 1e-16) in float32 (XGBoost). Only the last digits differ."""
    normalize_distance: bool = setting(True, only_with=OF_PAIRS)
    """Divides a pair's weight by distance_offset + |score difference|, unless all scores of the query are
    equal: one half of LightGBM's lambdarank_norm, XGBoost's lambdarank_score_normalization. Pairs with close
    scores then have up to 1 / distance_offset times their weight."""
    distance_offset: float | None = setting(None, above=0, only_with=OF_PAIRS)
    """Offset of the score difference in normalize_distance; a smaller offset gives more weight to pairs with
    close scores. None: LightGBM's 0.01, rounded to float32."""
    normalize_query: bool = setting(True, only_with=OF_PAIRS)
    """Multiplies the gradients and hessians of a query by its query_norm, which reduces the weight of queries
    with many pairs: the other half of LightGBM's lambdarank_norm, XGBoost's lambdarank_normalization."""
    query_norm: str = setting("log2", choices=("log2", "pairs"), only_with=OF_PAIRS)
    """Norm of a query. `log2`: log2(1 + S) / S, where S is the sum of 2 lambda over the pairs (LightGBM,
    XGBoost's topk); `pairs`: 1 / pairs_per_document (XGBoost's mean)."""
    hessian_factor: float = setting(1.0, above=0, only_with=OF_PAIRS)
    """Factor of all hessians (XGBoost: 2, which halves its steps)."""
    least_hessian: float = setting(0.0, at_least=0, only_with=OF_PAIRS)
    """Minimum of p (1 - p) of a pair, which keeps steps small for pairs with a large score difference
    (XGBoost: 1e-16)."""
    ties: str = setting("row_order", choices=tuple(ORDERS_OF_TIES), only_with=OF_PAIRS)
    """Order of documents with tied scores; before the first tree all scores are tied. `row_order`: the order
    of the rows, as in a stable sort (most libraries), so that the order of the file affects the model;
    `worst`: by ascending label (pyltr), so that relevant documents are ranked last and pushed up; `best`: by
    descending label."""
    pairs_per_document: int | None = setting(None, at_least=1, only_with=OF_PAIRS)
    """Number of partners drawn for each document and tree, from all documents of the query with another
    label (XGBoost's lambdarank_pair_method=mean): an estimate of the sum over all pairs; fewer partners are
    cheaper and noisier. Requires truncation=null. None: all pairs within truncation count."""
    float32_scores: bool = setting(False, only_with=OF_PAIRS)
    """Rounds the training scores and their differences to float32 (XGBoost), so that more scores are tied."""
    float32_sums: bool = setting(False, only_with=OF_PAIRS)
    """Sums the gradients and hessians of a document in float32, in the order of ranks (LightGBM, XGBoost).
    Only the last digits differ."""
    float32_norm: bool = setting(False, only_with=OF_PAIRS)
    """Rounds the norm of a query and the lambdas in S to float32 (XGBoost). Only the last digits differ."""


@dataclass(kw_only=True)
class PairSettings(PairOptions):
    """Settings of pairs in the form that the engine uses.

    Attributes:
        metric: metric whose change is the weight delta of a pair. `ndcg` has full discounts at every rank,
            and max_dcg over the first `truncation` ranks. Other names, including those with a cutoff such as
            ndcg@10 and err@10, have their exact change. None: every pair has weight 1 (RankNet).
        convention: gains, relevance and other choices that the name of a metric leaves open; the order of
            tied documents is `ties` instead.
        truncation: a pair counts if at least one of its documents is among this many top ranks (LightGBM,
            XGBoost). A smaller value is faster and focuses on the top. None: every pair counts.

    Raises:
        ConfigError: If the metric does not exist, a setting is out of range, or settings contradict each
            other.
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
                "partners are drawn from the whole list; set one of the two to null."
            )
        if self.query_norm == "pairs" and self.pairs_per_document is None:
            raise ConfigError(
                "query_norm is pairs, which divides by pairs_per_document, but pairs_per_document is not "
                "set; set it, or set query_norm=log2."
            )


NATIVE = PairSettings()
