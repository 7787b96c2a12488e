"""The fields of NativeRanker: each setting of the engine, the library it comes from, and what it does.

A field that is None takes LightGBM's default: the engine follows LightGBM where the literature leaves a
choice. A new setting is a field in here, its check in `checks` and its way to the engine in `translation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ltrbench.rankers.base import BoostingRanker

OF_METRICS = {
    "gain": ("ndcg", "dcg"),
    "label_gain": ("ndcg", "dcg"),
    "relevance_threshold": ("map", "mrr", "precision"),
    "highest_grade": ("err",),
}
"""A field of lambdarank -> the metrics that look at it."""

OF_PAIRS = (
    "sigma",
    "sigmoid",
    "normalize_distance",
    "distance_offset",
    "normalize_query",
    "query_norm",
    "hessian_factor",
    "least_hessian",
    "ties",
    "pairs_per_document",
    "float32_scores",
    "float32_sums",
    "float32_norm",
)
"""Fields of lambdarank and ranknet."""

OF_POSITION_BIAS = {
    "additive": ("position_bias_l2",),
    "propensity": ("position_bias_norm", "position_bias_cost"),
}
"""A correction of position bias -> its fields."""


@dataclass(kw_only=True)
class NativeFields(BoostingRanker):
    """The settings of NativeRanker beside those that all boosted trees share."""

    preset: str | None = None
    """The library whose settings these are; only named, where results say what was not matched."""
    objective: str = "lambdarank"
    """What the trees are fitted to. `lambdarank`: pairs, weighted by their change of `metric`; `ranknet`:
    pairs, all alike (XGBoost's rank:pairwise), so that the bottom of a list counts as much as its top;
    `xendcg`: the cross entropy of whole lists (LightGBM's rank_xendcg), which looks at no pair and costs
    less; `mart`: the squared error of each document by itself (RankLib's MART), which learns labels and not
    an order."""
    metric: str = "ndcg"
    """lambdarank: what weighs a pair by its change when the two change places. `ndcg`: with every rank's
    discount in full (LightGBM, XGBoost, RankLib), so that documents are pulled up from any depth; with a
    cutoff, as in ndcg@10: the true change, so that two documents below it do not matter (pyltr, QuickRank).
    Also dcg, map (XGBoost's rank:map), mrr, err (pyltr, RankLib), precision@k and wta, for what is measured
    by them."""
    gain: str = "exponential"
    """The gain of a label in ndcg and dcg: `exponential`, 2^label - 1, or `linear`, the label, which minds
    the highest grades less (XGBoost's ndcg_exp_gain=false)."""
    label_gain: list[float] | None = None
    """The gains of label 0, 1, 2, ... instead (LightGBM)."""
    relevance_threshold: float = 1.0
    """map, mrr and precision: the label from which on a document is relevant."""
    highest_grade: float = 4.0
    """err: the highest label there can be (RankLib's -gmax); the higher, the less a document satisfies."""
    sigma: float = 1.0
    """Slope of the logistic function of a pair's score difference (LightGBM's sigmoid): the steeper, the
    sooner a pair in the right order is left alone."""
    sigmoid: str = "exact"
    """How that function is computed: `exact`; from a `table` of 2^20 steps (LightGBM); in `float32`
    (XGBoost). Of no weight but for a library's own digits."""
    normalize_distance: bool = True
    """Divides a pair's weight by distance_offset + |score difference|: one half of LightGBM's
    lambdarank_norm, XGBoost's lambdarank_score_normalization. Close pairs then count more."""
    distance_offset: float | None = None
    """What is added to that difference: the smaller, the more close pairs count; None: LightGBM's 0.01, which
    is a float32's."""
    normalize_query: bool = True
    """Scales a query's gradients by its query_norm: the other half, XGBoost's lambdarank_normalization.
    Queries of many pairs then outweigh others less."""
    query_norm: str = "log2"
    """By what: `log2`: log2(1 + S) / S, where S is the sum of its lambdas (LightGBM, XGBoost's topk);
    `pairs`: 1 / pairs_per_document (XGBoost's mean)."""
    hessian_factor: float = 1.0
    """A factor of hessians, and so one over that of steps (XGBoost: 2)."""
    least_hessian: float = 0.0
    """A floor under a pair's p (1 - p), which keeps the steps of pairs far apart small (XGBoost: 1e-16)."""
    ties: str = "row_order"
    """The order of documents whose scores tie, as all do before the first tree. `row_order`: a stable sort's
    (most libraries), so that the order of the file teaches; `worst`: by rising label (pyltr), so that
    relevant documents are pulled up as if they stood last; `best`: by falling label."""
    pairs_per_document: int | None = None
    """Partners that a document draws, anew for each tree, from those of other labels in the whole list
    (XGBoost's lambdarank_pair_method=mean): a cheap and noisy estimate of all pairs; needs truncation=null.
    None: all pairs above truncation count."""
    float32_scores: bool = False
    """Keeps the scores that it learns from in float32 (XGBoost), so that more of them tie."""
    float32_sums: bool = False
    """Adds up gradients and hessians in float32 (LightGBM, XGBoost). Of no weight but for a library's own
    digits."""
    float32_norm: bool = False
    """Scales a query's gradients by a float32, S taken from lambdas in float32 (XGBoost); likewise."""
    binning: str = "quantile"
    """Where a feature may be cut. `quantile`: between bins of equal weight (LightGBM, XGBoost, CatBoost);
    `equal_width`: at every value where there are fewer than max_bins, else at equal distances (RankLib)."""
    split_criterion: str = "newton"
    """What a cut is chosen by. `newton`: the second-order gain (LightGBM, XGBoost); `least_squares`: the same
    with every hessian 1 (RankLib, and the friedman_mse of pyltr), so that documents whose order the model is
    sure of already keep their say in where the cuts lie. min_sum_hessian then counts documents in a cut."""
    leaf_value: str = "newton"
    """What a leaf adds, before shrinkage. `newton`: -G / (H + l2), on which all libraries agree; `mean`: of
    the negative gradients, a plain gradient step, smaller where the hessians are below 1."""
    growth: str = "best_first"
    """Which leaf is cut next. `best_first`: that of the highest gain (LightGBM); `by_deviance`: that of the
    most differing gradients, whatever the gain (RankLib); `depth_wise`: level by level (XGBoost, pyltr)."""
    max_depth: int = 0
    """Levels of cuts in a tree at the most (XGBoost, LightGBM, pyltr), which bounds how many features may act
    together; 0: no limit."""
    min_docs_in_split: int = 2
    """Documents that a leaf must have to be cut (pyltr's min_samples_split)."""
    cut_without_gain: bool = False
    """Cuts a leaf by its best cut also where that gains nothing, unless all its gradients are alike (RankLib,
    pyltr), so that trees reach num_leaves; min_split_gain must then be 0."""
    l1: float = 0.0
    """Subtracted from a leaf's |G| before its step (LightGBM's lambda_l1, XGBoost's reg_alpha): where the
    gradients nearly cancel out, the leaf takes no step at all. In units of LightGBM's gradients."""
    monotone: dict[str, int] = field(default_factory=dict)
    """Name of a feature -> 1: scores may only rise with it, other features equal; -1: only fall (LightGBM's
    basic monotone_constraints, XGBoost's). For what is known beforehand; cuts that deny it are refused."""
    equal_cuts: str = "lowest"
    """Which of a feature's cuts that gain the same is made, as those do between which no document of the leaf
    lies: `lowest` (XGBoost, RankLib) or `highest` (LightGBM) threshold. Other documents may fall between."""
    document_counts: str = "exact"
    """How documents are counted for min_docs_in_leaf: `exact`; `by_hessian`: from the share of the leaf's
    hessian, as LightGBM does, which then makes smaller leaves of documents that weigh much."""
    queries_per_tree: int | float | str = 1.0
    """How many queries a tree learns from: a share up to 1, above 1 a count."""
    documents_per_tree: int | float | str = 1.0
    """How many of those queries' documents it learns from; the lambdas are those of whole queries."""
    features_per_tree: int | float | str = 1.0
    """How many features it may use; also sqrt or log2 of all."""
    features_per_split: int | float | str = 1.0
    """How many of these a leaf may be cut by, drawn for each (pyltr's max_features, feature_fraction_bynode,
    colsample_bynode), so that a strong feature does not hide the others; also sqrt or log2 of them."""
    resample_every: int = 1
    """How many trees in turn learn from one draw of queries and documents (LightGBM's bagging_freq)."""
    goss_top_rate: float | None = None
    """GOSS (LightGBM): the share of the documents that is kept for its large gradients; None: no GOSS."""
    goss_other_rate: float | None = None
    """GOSS: the share that is drawn from the other documents, whose gradients are amplified."""
    drop_rate: float = 0.0
    """DART: the chance of an earlier tree to be left out while a tree is learned; 0: no DART."""
    skip_drop: float = 0.0
    """DART: the chance of an iteration to leave none out (LightGBM's default: 0.5)."""
    max_drop: int = 0
    """DART: how many trees are left out at the most; 0: any number (LightGBM's default: 50)."""
    drop_by_weight: bool = False
    """DART: a tree's chance is proportional to its weight (LightGBM's default; XGBoost's
    sample_type=weighted)."""
    drop_normalize: str = "tree"
    """DART: how new and left out trees share their place: tree or forest (XGBoost), mean (LightGBM)."""
    position_bias: str | None = None
    """How clicks are corrected for the positions that they were made at, which the training data must have.
    `additive`: a position's bias is added to scores in training (LightGBM), with any objective; `propensity`:
    pairs are weighted (Unbiased LambdaMART, XGBoost's lambdarank_unbiased), lambdarank on ndcg only."""
    position_bias_l2: float = 0.0
    """additive: the penalty on biases (LightGBM's lambdarank_position_bias_regularization)."""
    position_bias_norm: float = 1.0
    """propensity: raises them to the power 1 / (1 + norm); the higher, the less is corrected (XGBoost's
    lambdarank_bias_norm)."""
    position_bias_cost: str = "logistic"
    """propensity: the cost of pairs that they are learned from: `logistic`, the paper's; `mirrored`:
    XGBoost's, of the opposite order."""
    warm_start: str | None = None
    """A saved native model, or the folder of its run, to continue from; its trees count among num_trees."""
