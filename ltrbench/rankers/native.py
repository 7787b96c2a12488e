"""The native LambdaMART of `ltrbench.native` behind the Ranker contract.

A field that is None takes LightGBM's default: the engine follows LightGBM where the literature leaves a
choice.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import announcing_compilation, threads
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, ResultError, UndefinedMetricError
from ltrbench.metrics import Convention
from ltrbench.metrics.convention import TableGain, Ties, exponential_gain, linear_gain
from ltrbench.native.binning import COLUMN_BINS
from ltrbench.native.boosting import BINNINGS, BoostingSettings, boost
from ltrbench.native.dart import NORMALIZATIONS, DartSettings
from ltrbench.native.dialects import FLOAT32_OFFSET, IN_ROW_ORDER, PairSettings, QueryNorm, Sigmoid
from ltrbench.native.goss import GossSettings
from ltrbench.native.growth import ORDERS
from ltrbench.native.objectives import (
    ORDERS_OF_TIES,
    CrossEntropy,
    ObjectiveSettings,
    SquaredError,
    check_labels,
    check_settings,
    prepare,
)
from ltrbench.native.position_bias import AdditiveBias, BiasCorrection, Factors
from ltrbench.native.propensity import UnbiasedPairs, correctable
from ltrbench.native.sampling import ROOTS, SampleSize, SamplingSettings
from ltrbench.native.splitting import SplitSettings
from ltrbench.native.swaps import parse_layout
from ltrbench.native.tree import NO_FEATURE, Forest, Tree, add_scores
from ltrbench.native.tree_shap import tree_shap
from ltrbench.rankers.base import (
    BoostingRanker,
    FitSummary,
    check_features,
    check_fitted,
    require,
    resolve_threads,
)
from ltrbench.rankers.early_stopping import OnIteration
from ltrbench.rankers.library import SETTINGS_FILE, read_model, require_choice, unset_fields, write_model
from ltrbench.rankers.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_at_most
from ltrbench.shapes import Features, Scores

MODEL_FILE = "model.npz"
FEW_DOCUMENTS = 256
"""So many are scored on one thread: that takes about a millisecond, in which a busy machine may not yet have
woken another [measured, 100 documents, 300 trees, both cores busy: 0.8 ms on one thread, 9 on two]."""

_OF_METRICS = {
    "gain": ("ndcg", "dcg"),
    "label_gain": ("ndcg", "dcg"),
    "relevance_threshold": ("map", "mrr", "precision"),
    "highest_grade": ("err",),
}
"""A field of lambdarank -> the metrics that look at it."""

_OF_PAIRS = (
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
)
"""Fields of lambdarank and ranknet."""

_OF_POSITION_BIAS = {
    "additive": ("position_bias_l2",),
    "propensity": ("position_bias_norm", "position_bias_cost"),
}
"""A correction of position bias -> its fields."""

_POSITIONS = "position_bias_"
"""What the names of arrays in a saved model begin with that hold what was learned of positions."""

Number = TypeVar("Number", int, float)

_LIKE_CRITERION_LIKE_VALUE = (("newton", "newton"), ("least_squares", "mean"))

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class NativeRanker(BoostingRanker):
    """Boosted trees on the lambdas of NDCG, or on another objective."""

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
    """Rounds scores to float32 before pairs are looked at (XGBoost), so that more of them tie."""
    float32_sums: bool = False
    """Adds up gradients and hessians in float32 (LightGBM, XGBoost). Of no weight but for a library's own
    digits."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forest: Forest | None = None
        self.feature_names: tuple[str, ...] = ()
        self.position_factors: Factors = {}
        self._check_objective()
        self._check_trees()
        self._check_sampling()
        self._check_dart()
        self._check_position_bias()
        if self.extra:
            raise ConfigError(
                f"extra.{next(iter(self.extra))} has no effect: the native engine has no parameters but its "
                f"fields, which are {', '.join(field.name for field in fields(self) if field.init)}."
            )

    def _check_objective(self) -> None:
        require_choice("objective", self.objective, ["lambdarank", "ranknet", "xendcg", "mart"])
        require_choice("gain", self.gain, ["exponential", "linear"])
        require_choice("sigmoid", self.sigmoid, [item.value for item in Sigmoid])
        require_choice("query_norm", self.query_norm, [item.value for item in QueryNorm])
        require_choice("ties", self.ties, [item.value for item in ORDERS_OF_TIES])
        require("sigma", self.sigma, above=0)
        require("distance_offset", self.distance_offset, above=0)
        require("hessian_factor", self.hessian_factor, above=0)
        require("least_hessian", self.least_hessian, at_least=0)
        require("relevance_threshold", self.relevance_threshold, above=0)
        require("highest_grade", self.highest_grade, above=0)
        require("pairs_per_document", self.pairs_per_document, at_least=1)
        if self.label_gain is not None and (self.gain != "exponential" or len(self.label_gain) < 2):
            raise ConfigError(
                f"label_gain is {self.label_gain} beside gain={self.gain}; give the gains of two labels or "
                "more, and leave gain at exponential."
            )
        self._refuse_idle_fields()
        check_settings(self._objective())

    def _refuse_idle_fields(self) -> None:
        """Raises ConfigError where something is set that the objective does not look at."""
        neutral = {field.name: field.default for field in fields(self)}
        metric = parse_layout(self.metric)[0]
        idle = [name for name, metrics in _OF_METRICS.items() if metric not in metrics]
        chosen = f"metric={self.metric}"
        if self.objective != "lambdarank":
            idle, chosen = ["metric", *_OF_METRICS], f"objective={self.objective}"
        if self.objective not in ("lambdarank", "ranknet"):
            idle += ["truncation", *_OF_PAIRS]
        for name in idle:
            if getattr(self, name) != neutral[name]:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, which {chosen} does not look at; set "
                    f"{name}={json.dumps(neutral[name])}, or another {chosen.partition('=')[0]}."
                )

    def _check_trees(self) -> None:
        require_choice("binning", self.binning, list(BINNINGS))
        require_choice("split_criterion", self.split_criterion, ["newton", "least_squares"])
        require_choice("leaf_value", self.leaf_value, ["newton", "mean"])
        require_choice("growth", self.growth, list(ORDERS))
        require_choice("equal_cuts", self.equal_cuts, ["lowest", "highest"])
        require_choice("document_counts", self.document_counts, ["exact", "by_hessian"])
        require("max_depth", self.max_depth, at_least=0)
        require("min_docs_in_split", self.min_docs_in_split, at_least=2)
        require("l1", self.l1, at_least=0)
        self._check_monotone()
        if self.equal_cuts == "highest" and _or(self.max_bins, 255) > COLUMN_BINS:
            raise ConfigError(
                f"max_bins is {self.max_bins}, but equal_cuts=highest can only tell {COLUMN_BINS} bins of a "
                f"feature apart; set max_bins={COLUMN_BINS} or equal_cuts=lowest."
            )
        if self.cut_without_gain and self.min_split_gain:
            raise ConfigError(
                f"min_split_gain is {self.min_split_gain}, but cut_without_gain takes every cut; set "
                "min_split_gain=0 or cut_without_gain=false."
            )

    def _check_monotone(self) -> None:
        for name, sign in self.monotone.items():
            if sign not in (-1, 0, 1):
                raise ConfigError(f"monotone.{name} is {sign}; it must be 1, -1 or, for neither, 0.")
        if self.monotone and (self.split_criterion, self.leaf_value) not in _LIKE_CRITERION_LIKE_VALUE:
            raise ConfigError(
                f"monotone is set beside split_criterion={self.split_criterion} and "
                f"leaf_value={self.leaf_value}; cuts bound values of their own kind only: set newton and "
                "newton, or least_squares and mean."
            )

    def _check_sampling(self) -> None:
        _require_size("queries_per_tree", self.queries_per_tree)
        _require_size("documents_per_tree", self.documents_per_tree)
        _require_size("features_per_tree", self.features_per_tree, tuple(ROOTS))
        _require_size("features_per_split", self.features_per_split, tuple(ROOTS))
        require("resample_every", self.resample_every, at_least=1)
        top, other = self.goss_top_rate, self.goss_other_rate
        require("goss_top_rate", top, above=0, at_most=1)
        require("goss_other_rate", other, above=0, at_most=1)
        if (top is None) != (other is None):
            raise ConfigError(
                f"goss_top_rate is {top} and goss_other_rate is {other}; set both for GOSS, or neither."
            )
        if top is not None and other is not None:
            require("goss_top_rate + goss_other_rate", top + other, at_most=1)
            if (self.queries_per_tree, self.documents_per_tree) != (1, 1):
                raise ConfigError(
                    "goss_top_rate is set beside queries_per_tree or documents_per_tree; GOSS draws the "
                    "documents of a tree itself: leave those at 1.0."
                )

    def _check_dart(self) -> None:
        require("drop_rate", self.drop_rate, at_least=0, at_most=1)
        require("skip_drop", self.skip_drop, at_least=0, at_most=1)
        require("max_drop", self.max_drop, at_least=0)
        require_choice("drop_normalize", self.drop_normalize, tuple(NORMALIZATIONS))

    def _check_position_bias(self) -> None:
        require_choice("position_bias", self.position_bias, list(_OF_POSITION_BIAS))
        require_choice("position_bias_cost", self.position_bias_cost, ["logistic", "mirrored"])
        require("position_bias_l2", self.position_bias_l2, at_least=0)
        require("position_bias_norm", self.position_bias_norm, at_least=0)
        neutral = {field.name: field.default for field in fields(self)}
        for correction, names in _OF_POSITION_BIAS.items():
            for name in names:
                if self.position_bias != correction and getattr(self, name) != neutral[name]:
                    raise ConfigError(
                        f"{name} is {getattr(self, name)}, which has no effect without "
                        f"position_bias={correction}; set that, or {name}={neutral[name]}."
                    )
        if self.position_bias == "propensity":
            correctable(self._objective())

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        monitor = self.monitor(valid, on_iteration)
        valid_features = None
        if monitor.wants_scores and valid is not None:
            check_features(valid.features, train.num_features)
            valid_features = valid.features
        start = self._model_to_continue(train)
        correction = self._correction(train)
        if correction is not None and start is not None and start.position_factors:
            correction.resume(start.position_factors)
        with threads(resolve_threads(self.num_threads)):
            ensemble = boost(
                train,
                self._settings(),
                valid_features,
                monitor.should_stop if monitor.wants_scores else None,
                None if start is None else start._forest,
                correction,
            )
        kept = monitor.best_iteration or ensemble.num_trees
        self._forest = ensemble.first(kept)
        self.position_factors = {} if correction is None else correction.factors(kept - ensemble.num_start)
        self.feature_names = train.feature_names
        self.summary = FitSummary(kept, ensemble.num_trees, monitor.seconds)
        return self

    def _correction(self, train: RankingDataset) -> BiasCorrection | None:
        if self.position_bias is None:
            return None
        for reason in self._refused_positions(train):
            raise DataError(reason)
        if self.position_bias == "propensity":
            mirrored = self.position_bias_cost == "mirrored"
            return UnbiasedPairs(train, self._objective(), float(self.position_bias_norm), mirrored)
        objective = prepare(train, self._objective())
        return AdditiveBias(objective, train, _or(self.learning_rate, 0.1), self.position_bias_l2)

    def _model_to_continue(self, train: RankingDataset) -> Self | None:
        """The model of `warm_start`, which must be of the features of train and have fewer than num_trees
        trees."""
        if self.warm_start is None:
            return None
        folder = Path(self.warm_start)
        model = type(self).load(folder if (folder / SETTINGS_FILE).exists() else folder / "model")
        forest = check_fitted(model._forest)
        if model.feature_names != train.feature_names:
            difference = _difference(model.feature_names, train.feature_names)
            raise DataError(
                f"warm_start: {folder} was fitted on {difference}; continue with the features that it knows, "
                "in their order."
            )
        if forest.num_trees >= self.num_trees:
            raise ConfigError(
                f"num_trees is {self.num_trees}, but the model of warm_start has {forest.num_trees} trees "
                "already, which count among them; set params.num_trees higher."
            )
        return model

    def predict(self, features: Features) -> Scores:
        forest = check_fitted(self._forest)
        check_features(features, len(self.feature_names))
        scores = np.zeros(len(features))
        with threads(resolve_threads(self.num_threads) if len(features) > FEW_DOCUMENTS else 1):
            add_scores(forest, np.ascontiguousarray(features, dtype=np.float32), scores)
        return scores

    def importance(self) -> dict[str, NDArray[np.float64]]:
        nodes = check_fitted(self._forest).nodes
        used, gain = nodes.feature[nodes.feature != NO_FEATURE], nodes.gain[nodes.feature != NO_FEATURE]
        return {
            kind: np.bincount(used, weights, minlength=len(self.feature_names)).astype(np.float64)
            for kind, weights in (("split", np.ones(len(used))), ("gain", gain))
        }

    def contributions(self, features: Features) -> NDArray[np.float64] | None:
        forest = check_fitted(self._forest)
        check_features(features, len(self.feature_names))
        if (forest.nodes.num_documents[forest.roots[:-1]] == 0).any():
            return None  # saved, or continued from what was, before trees counted their documents
        with threads(resolve_threads(self.num_threads)):
            return tree_shap(forest, np.ascontiguousarray(features, dtype=np.float32))

    def trees(self) -> Ensemble:
        forest = check_fitted(self._forest)
        return Ensemble(
            tuple(
                WeightedTree(float(weight), _subtree(tree, 0))
                for weight, tree in zip(forest.weights, forest.trees(), strict=True)
            )
        )

    def save(self, folder: Path) -> None:
        forest = check_fitted(self._forest)
        content = io.BytesIO()
        arrays: dict[str, Any] = {
            "feature_names": np.array(self.feature_names),
            "roots": forest.roots,
            "weights": forest.weights,
            **forest.nodes._asdict(),
            **{f"{_POSITIONS}{name}": values for name, values in self.position_factors.items()},
        }
        np.savez(content, **arrays)
        write_model(folder, self, MODEL_FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, MODEL_FILE)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            if "weights" not in arrays:
                raise ResultError(
                    f"{folder / MODEL_FILE} was saved by an earlier version of ltrbench, whose trees had no "
                    "weights; load it with that version, or fit again."
                )
            # Earlier versions did not count the documents at a node.
            counts = {"num_documents": np.zeros(len(arrays["feature"]), dtype=np.int64)}
            nodes = Tree(**counts | {name: arrays[name] for name in Tree._fields if name in arrays})
            ranker._forest = Forest(arrays["roots"], nodes, arrays["weights"])
            ranker.feature_names = tuple(arrays["feature_names"].tolist())
            ranker.position_factors = {
                name.removeprefix(_POSITIONS): arrays[name]
                for name in arrays.files
                if name.startswith(_POSITIONS)
            }
        return ranker

    def warm_up(self) -> None:
        """Compiles the engine by fitting four documents, or loads it where this machine has compiled it."""
        train = RankingDataset(
            features=np.eye(4, 3, dtype=np.float32),
            labels=np.array([0.0, 1.0, 0.0, 1.0]),
            query_start=np.array([0, 2, 4]),
            positions=np.array([0, 1, 0, 1]),
        )
        settings = BoostingSettings(
            num_trees=1,
            num_leaves=3,
            objective=self._objective(),
            splits=SplitSettings(min_docs_in_leaf=1),
        )
        with announcing_compilation(_announce), threads(resolve_threads(self.num_threads)):
            boost(train, settings, objective=self._correction(train))
            # Rows that a tree has not learned from take another way to their score, which is also predict's.
            boost(train, replace(settings, sampling=SamplingSettings(documents=0.5)))

    def unmatched(self) -> tuple[str, ...]:
        unset = tuple(name for name in unset_fields(self) if name != "truncation" or self._truncates())
        sizes = (
            self.queries_per_tree,
            self.documents_per_tree,
            self.features_per_tree,
            self.features_per_split,
        )
        departures = self._departures()
        sentences = {
            f"Native takes LightGBM's defaults for {', '.join(unset)}.": bool(unset),
            f"Learning continues from the model in {self.warm_start}.": self.warm_start is not None,
            f"{self.preset}'s own settings stand in for the shared parameters, num_trees apart.": bool(
                self.preset
            ),
            f"{self._trained_on()} is another objective than LambdaMART's of NDCG.": (
                self.objective != "lambdarank" or parse_layout(self.metric)[0] != "ndcg"
            ),
            f"A pair weighs the true change of {self.metric}: nothing below its cutoff.": "@" in self.metric,
            f"Lambdas depart from native's defaults in {', '.join(departures)}.": bool(departures),
            "Bin edges are native's own quantiles, and missing values have a bin beside max_bins.": (
                self.binning == "quantile"
            ),
            "Features are cut at equal distances, with missing values beside max_bins.": (
                self.binning == "equal_width"
            ),
            "Cuts are chosen by least squares: for min_split_gain and min_sum_hessian, hessians are 1.": (
                self.split_criterion == "least_squares"
            ),
            "A leaf's value is a mean and no Newton step.": self.leaf_value == "mean",
            "Leaves are shrunk by l1, too.": self.l1 > 0,
            f"Scores are monotone in {', '.join(self.monotone)}.": bool(self.monotone),
            f"Trees are grown {self.growth.replace('_', ' ')}, and not best-first.": (
                self.growth != "best_first"
            ),
            "Queries, documents and features are sampled in native's own way.": sizes != (1, 1, 1, 1),
            "Documents are sampled by GOSS.": self.goss_top_rate is not None,
            "DART leaves trees out and weighs them anew.": self.drop_rate > 0,
            f"Position bias is corrected: {self.position_bias}.": self.position_bias is not None,
        }
        return tuple(sentence for sentence, applies in sentences.items() if applies)

    def refusals(self, train: RankingDataset) -> Iterator[str]:
        try:
            check_labels(train, self._objective())
        except (DataError, UndefinedMetricError) as error:
            yield str(error)

        yield from self._refused_positions(train)

    def cautions(self, train: RankingDataset) -> Iterator[str]:
        yield from super().cautions(train)
        if train.positions is not None and self.position_bias is None:
            yield "positions are not used; set model.position_bias to additive or propensity to use them."

    def _refused_positions(self, train: RankingDataset) -> Iterator[str]:
        if self.position_bias is not None and train.positions is None:
            yield (
                f"position_bias is {self.position_bias}, but the training data has no positions; give "
                "RankingDataset(positions=...), or set it to null."
            )

    def _truncates(self) -> bool:
        return self.objective in ("lambdarank", "ranknet") and self.pairs_per_document is None

    def _trained_on(self) -> str:
        return f"lambdarank on {self.metric}" if self.objective == "lambdarank" else self.objective

    def _departures(self) -> list[str]:
        neutral = {field.name: field.default for field in fields(self)}
        return [name for name in (*_OF_METRICS, *_OF_PAIRS) if getattr(self, name) != neutral[name]]

    def _objective(self) -> ObjectiveSettings:
        if self.objective == "xendcg":
            return CrossEntropy()
        if self.objective == "mart":
            return SquaredError()
        return PairSettings(
            metric=None if self.objective == "ranknet" else self.metric,
            convention=self._convention(),
            truncation=_or(self.truncation, 30) if self._truncates() else self.truncation,
            sigma=float(self.sigma),
            sigmoid=Sigmoid(self.sigmoid),
            normalize_distance=self.normalize_distance,
            distance_offset=float(_or(self.distance_offset, FLOAT32_OFFSET)),
            normalize_query=self.normalize_query,
            query_norm=QueryNorm(self.query_norm),
            hessian_factor=float(self.hessian_factor),
            least_hessian=float(self.least_hessian),
            pairs_per_document=self.pairs_per_document,
            float32_scores=self.float32_scores,
            float32_sums=self.float32_sums,
        )

    def _convention(self) -> Convention:
        """What the name of the metric leaves open."""
        gain = linear_gain if self.gain == "linear" else exponential_gain
        return replace(
            IN_ROW_ORDER,
            gain=gain if self.label_gain is None else TableGain(tuple(self.label_gain)),
            ties=Ties(self.ties),
            relevance_threshold=float(self.relevance_threshold),
            highest_grade=float(self.highest_grade),
        )

    def _goss(self, learning_rate: float) -> GossSettings | None:
        if self.goss_top_rate is None or self.goss_other_rate is None:
            return None
        return GossSettings(self.goss_top_rate, self.goss_other_rate, num_warm_up=int(1.0 / learning_rate))

    def own_parameters(self) -> dict[str, Any]:
        return _flat(self._settings())

    def _settings(self) -> BoostingSettings:
        """The engine's settings, with LightGBM's defaults for what is None.

        A whole number given for a float becomes one: kernels are compiled for the types of their arguments.
        """
        learning_rate = float(_or(self.learning_rate, 0.1))
        return BoostingSettings(
            num_trees=self.num_trees,
            learning_rate=learning_rate,
            num_leaves=_or(self.num_leaves, 31),
            max_bins=_or(self.max_bins, 255),
            binning=self.binning,
            growth=self.growth,
            split_criterion=self.split_criterion,
            leaf_value=self.leaf_value,
            monotone=dict(self.monotone),
            seed=self.seed,
            objective=self._objective(),
            splits=SplitSettings(
                min_docs_in_leaf=_or(self.min_docs_in_leaf, 20),
                min_sum_hessian=float(_or(self.min_sum_hessian, 1e-3)),
                min_split_gain=float(_or(self.min_split_gain, 0.0)),
                max_delta_step=float(_or(self.max_delta_step, 0.0)),
                l2=float(_or(self.l2, 0.0)),
                l1=float(self.l1),
                min_docs_in_split=self.min_docs_in_split,
                max_depth=self.max_depth,
                cut_without_gain=self.cut_without_gain,
                highest_of_equals=self.equal_cuts == "highest",
                counts_by_hessian=self.document_counts == "by_hessian",
            ),
            sampling=SamplingSettings(
                queries=self.queries_per_tree,
                documents=self.documents_per_tree,
                features=self.features_per_tree,
                features_per_split=self.features_per_split,
                every=self.resample_every,
            ),
            goss=self._goss(learning_rate),
            dart=DartSettings(
                drop_rate=self.drop_rate,
                skip_drop=self.skip_drop,
                max_drop=self.max_drop,
                by_weight=self.drop_by_weight,
                normalize=self.drop_normalize,
            ),
        )


def _difference(fitted: tuple[str, ...], given: tuple[str, ...]) -> str:
    """In what the names of features differ, as the end of a sentence.

    >>> _difference(("a", "b"), ("a", "c"))
    "feature 'b', where train has 'c'"
    """
    if len(fitted) != len(given):
        return f"{len(fitted)} features, but train has {len(given)}"
    first = next(pair for pair in zip(fitted, given, strict=True) if pair[0] != pair[1])
    return f"feature '{first[0]}', where train has '{first[1]}'"


def _require_size(name: str, size: SampleSize, words: tuple[str, ...] = ()) -> None:
    """Raises ConfigError on what is no size of a sample."""
    if not _is_size(size, words):
        alternatives = "".join(f" or {word}" for word in words)
        raise ConfigError(
            f"{name} is {size}; it must be a share above 0 and up to 1, or a count from 2{alternatives}."
        )


def _is_size(size: SampleSize, words: tuple[str, ...]) -> bool:
    if isinstance(size, str):
        return size in words
    return 0 < size <= 1 or (size > 1 and float(size).is_integer())


def _subtree(tree: Tree, node: int) -> Node:
    """A node with all below it."""
    feature = int(tree.feature[node])
    if feature == NO_FEATURE:
        return Leaf(float(tree.value[node]))
    return InnerNode(
        feature,
        threshold_at_most(float(tree.threshold[node])),
        bool(tree.missing_left[node]),
        left=_subtree(tree, int(tree.left[node])),
        right=_subtree(tree, int(tree.right[node])),
    )


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value


def _announce() -> None:
    log.info("compiling the native engine, once per machine; this takes half a minute, off the clock")


def _flat(settings: Any) -> dict[str, Any]:
    """The engine's settings in words, out of their groups, whose names tell a reader nothing."""
    flat: dict[str, Any] = {}
    for name, value in (settings._asdict() if hasattr(settings, "_asdict") else vars(settings)).items():
        if isinstance(value, Convention):
            flat |= {policy: value.describe()[policy] for policy in ("gain", "discount", "ties")}
        elif is_dataclass(value) or hasattr(value, "_asdict"):
            flat |= _flat(value)
        else:
            word = value.value if isinstance(value, Enum) else value
            flat[name] = word.__name__ if callable(word) else word
    return flat
