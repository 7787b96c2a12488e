"""XGBoost behind the Ranker contract.

The shared fields are in LightGBM's units. XGBoost's LambdaMART has the same gradient but twice the hessian,
so that a Newton step is half as long and a gain half as large; `_translated` makes up for it, and the two
libraries grow the same trees wherever their bins coincide. XGBoost cannot bound the documents in a leaf. It
gives the same bits on 1, 2 and 3 threads in all that was run, sampling included, but does not promise to.

XGBoost's metrics are off. Early stopping is fed XGBoost's own scores (float32) of a validation matrix in its
cache, to which a prediction adds the newest tree only: 1.7 ms an iteration for 10,000 x 136 [measured, beside
42 ms for the update; a validation matrix of bins instead of values takes ten times as long].
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.rankers.base import (
    BoostingRanker,
    FitSummary,
    check_features,
    check_fitted,
    resolve_threads,
)
from ltrbench.rankers.early_stopping import Monitor, OnIteration
from ltrbench.rankers.library import (
    SHARED_FIELDS,
    given,
    parsing,
    read_model,
    refuse_collisions,
    refuse_deep,
    ties_by_row,
    unset_fields,
    write_model,
)
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_below
from ltrbench.rankers.models.xgboost_ubjson import check_ubjson
from ltrbench.shapes import Features, Labels

try:
    import xgboost as xgb
except ImportError as error:
    raise ImportError("model=xgboost needs XGBoost: pip install xgboost") from error

MODEL_FILE = "model.ubj"
DEFAULT_ETA = 0.3
"""XGBoost's own learning rate."""
NO_CHILD = -1
MAX_GRADE = 31
"""The highest label that XGBoost's exponential gain, 2^l - 1, reaches."""

_FIELDS = {
    "learning_rate": "eta learning_rate",
    "num_leaves": "max_leaves",
    "min_sum_hessian": "min_child_weight",
    "min_split_gain": "gamma min_split_loss",
    "max_delta_step": "max_delta_step",
    "l2": "lambda reg_lambda",
    "max_bins": "max_bin",
    "seed": "seed random_state",
    "num_threads": "nthread n_jobs",
    "objective": "objective",
    "grow_policy": "grow_policy",
    "max_depth": "max_depth",
    "lambdarank_pair_method": "lambdarank_pair_method",
    "truncation or lambdarank_num_pair_per_sample": "lambdarank_num_pair_per_sample",
    "lambdarank_normalization": "lambdarank_normalization",
    "lambdarank_score_normalization": "lambdarank_score_normalization",
    "lambdarank_unbiased": "lambdarank_unbiased",
    "lambdarank_bias_norm": "lambdarank_bias_norm",
    "ndcg_exp_gain": "ndcg_exp_gain",
    "subsample": "subsample",
    "colsample_bytree": "colsample_bytree",
    "colsample_bylevel": "colsample_bylevel",
    "colsample_bynode": "colsample_bynode",
    "num_trees": "num_boost_round n_estimators",
    "early_stopping": "early_stopping_rounds",
}
"""A field -> XGBoost's names, with its aliases, of what the field decides."""

_INSTEAD = (
    {name: f"set the field {field} instead" for field, names in _FIELDS.items() for name in names.split()}
    | dict.fromkeys(
        ("eval_metric", "disable_default_eval_metric"),
        "XGBoost's metrics are off, because every backend is measured by the same ones; set metrics instead",
    )
    | {
        "num_parallel_tree": "an iteration grows one tree in every backend; set the field num_trees instead",
        "num_class": "a ranker has one score; leave it out",
        "validate_parameters": "a misspelt parameter is always refused; leave it out",
    }
)

_WITHOUT_SEED = {"alpha", "reg_alpha"}
"""Parameters of `extra` that are known to draw no random number."""


@dataclass(kw_only=True)
class XGBoostRanker(BoostingRanker):
    """XGBoost's LambdaMART on the queries of a data set, whose weights XGBoost scales to a mean of 1."""

    objective: str = "ndcg"
    """What a pair is weighted by: its change of "ndcg", or of "map" (labels 0 and 1 only); "pairwise": all
    alike."""
    lambdarank_pair_method: str | None = None
    """topk: pairs with a document of the top ranks; mean: partners drawn at random, but alike for every seed
    [run]. None: topk."""
    lambdarank_num_pair_per_sample: int | None = None
    """topk: how many ranks are the top, which `truncation` sets too; mean: partners drawn for a document."""
    lambdarank_normalization: bool = True
    """Scales a query's gradients: topk by log2(1 + S) / S, mean by 1 / number of pairs."""
    lambdarank_score_normalization: bool = True
    """Divides a pair's weight by 0.01 + |score difference|."""
    lambdarank_unbiased: bool = False
    """Learns position biases from clicks; a query's documents must stand in the order they were shown in."""
    lambdarank_bias_norm: float = 1.0
    """The norm that regularises those biases: a bias is raised to the power 1 / (1 + norm)."""
    ndcg_exp_gain: bool = True
    """Gain of a label: 2^label - 1; false: the label itself."""
    grow_policy: str | None = None
    """depthwise or lossguide; None: lossguide where num_leaves is set, XGBoost's default otherwise."""
    max_depth: int | None = None
    """Depth of a tree at the most, 0: no limit; None: no limit where num_leaves is set, else XGBoost's
    default."""
    subsample: float = 1.0
    """Share of the documents that a tree is grown on."""
    colsample_bytree: float = 1.0
    """Share of the features that a tree may use."""
    colsample_bylevel: float = 1.0
    """Share of those that a level of the tree may use."""
    colsample_bynode: float = 1.0
    """Share of those that a split may use."""

    score_dtype: ClassVar[type[np.floating[Any]]] = np.float32
    own_convention: ClassVar[str | None] = "xgboost"
    packages: ClassVar[tuple[str, ...]] = ("xgboost",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._booster: xgb.Booster | None = None
        self._is_deep = False  # of a loaded model only
        require_choice("objective", self.objective, ("ndcg", "map", "pairwise"))
        require_choice("lambdarank_pair_method", self.lambdarank_pair_method, ("topk", "mean"))
        require_choice("grow_policy", self.grow_policy, ("depthwise", "lossguide"))
        require("lambdarank_num_pair_per_sample", self.lambdarank_num_pair_per_sample, at_least=1)
        require("lambdarank_bias_norm", self.lambdarank_bias_norm, at_least=0)
        require("max_depth", self.max_depth, at_least=0)
        for share in ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"):
            require(share, getattr(self, share), above=0, at_most=1)
        self._refuse_what_cannot_be()
        self._check_extra()

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        self.check_data(train)
        monitor = self.monitor(valid, on_iteration)
        train_matrix = self._train_matrix(train)
        parameters = self._parameters(_weight_scale(train))
        if monitor.wants_scores:
            valid_matrix = None if valid is None else self._valid_matrix(valid)
            booster, num_iterations = self._boost_watched(parameters, train_matrix, valid_matrix, monitor)
        else:
            booster = xgb.Booster(parameters, [train_matrix])
            for iteration in range(self.num_trees):
                booster.update(train_matrix, iteration)
            num_iterations = self.num_trees
        kept = monitor.best_iteration or booster.num_boosted_rounds()
        # A slice holds the kept trees only, and lets go of the training data.
        self._booster, self._is_deep = self._with_threads(booster[:kept]), False
        self.summary = FitSummary(kept, num_iterations, monitor.seconds)
        return self

    def predict(self, features: Features) -> NDArray[np.float32]:
        booster = check_fitted(self._booster)
        features = check_features(features, booster.num_features())
        if not len(features):
            return np.empty(0, dtype=np.float32)
        scores: NDArray[np.float32] = booster.inplace_predict(features, predict_type="margin")
        return scores

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster = check_fitted(self._booster)
        names = [f"f{feature}" for feature in range(booster.num_features())]
        return {
            kind: np.array([of_feature.get(name, 0.0) for name in names], dtype=np.float64)
            for kind, of_feature in (
                ("split", booster.get_score(importance_type="weight")),
                ("gain", booster.get_score(importance_type="total_gain")),
            )
        }

    def contributions(self, features: Features) -> NDArray[np.float64]:
        """Its expectations weigh a tree's branches by their hessians, where the others count documents."""
        booster = check_fitted(self._booster)
        features = check_features(features, booster.num_features())
        refuse_deep(self._is_deep, "XGBoost")
        if not len(features):
            return np.empty((0, booster.num_features() + 1))
        matrix = xgb.DMatrix(features, nthread=resolve_threads(self.num_threads))
        return np.asarray(booster.predict(matrix, pred_contribs=True), dtype=np.float64)

    def trees(self) -> Ensemble:
        learner = json.loads(bytes(check_fitted(self._booster).save_raw("json")))["learner"]
        # A list from version 3.1 on.
        (base_score,) = np.ravel(json.loads(learner["learner_model_param"]["base_score"])).tolist()
        # The model does not say what its leaves were shrunk by.
        eta = _times(2.0, self.learning_rate) or DEFAULT_ETA
        return Ensemble(
            tuple(
                WeightedTree(eta, _subtree(tree, 0, eta))
                for tree in learner["gradient_booster"]["model"]["trees"]
            ),
            base_score,
        )

    def library_model(self) -> tuple[str, object]:
        return "xgboost", check_fitted(self._booster)

    def save(self, folder: Path) -> None:
        write_model(folder, self, MODEL_FILE, bytes(check_fitted(self._booster).save_raw("ubj")))

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, model = read_model(folder, cls, MODEL_FILE)
        with parsing(folder / MODEL_FILE, "XGBoost", xgb.core.XGBoostError):
            ranker._is_deep = check_ubjson(model)
            ranker._booster = ranker._with_threads(xgb.Booster(model_file=bytearray(model)))
        return ranker

    def warm_up(self) -> None:
        """Starts XGBoost's threads on a fit and a prediction of 4 documents."""
        features = np.arange(4, dtype=np.float32).reshape(4, 1)
        labels, query_start = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 4])
        tiny = RankingDataset(features=features, labels=labels, query_start=query_start)
        XGBoostRanker(num_trees=1, num_threads=self.num_threads).fit(tiny).predict(features)

    def seed_matters(self, num_documents: int) -> bool:
        shares = (self.subsample, self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)
        # mean draws pairs, and is not known to do so alike for every seed in every version.
        draws = min(shares) < 1 or self.lambdarank_pair_method == "mean"
        return draws or not self.extra.keys() <= _WITHOUT_SEED

    def unmatched(self) -> tuple[str, ...]:
        unset = unset_fields(self)
        if unset == SHARED_FIELDS:
            return ("XGBoost's own defaults are used, not the shared parameters.",)
        unset = tuple(name for name in unset if name != "min_docs_in_leaf")
        shares = (self.subsample, self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)
        sentences = {
            f"XGBoost's own defaults are used for {', '.join(unset)}.": bool(unset),
            "XGBoost cannot bound the documents in a leaf: min_docs_in_leaf is not applied.": True,
            "Bin edges are those of XGBoost's quantile sketch.": True,
            "A missing value goes right in a feature that had none in training.": True,
            "XGBoost adds up scores in float32, so that more of them tie.": True,
            "Rows and features are sampled in XGBoost's own way.": min(shares) < 1,
            f"rank:{self.objective} is another loss than LambdaMART's of NDCG.": self.objective != "ndcg",
        }
        return tuple(sentence for sentence, applies in sentences.items() if applies)

    def refusals(self, train: RankingDataset) -> Iterator[str]:
        yield from self._refused_labels(train.labels)
        yield from _varying_weights(train)
        if self.lambdarank_unbiased:
            yield from _other_order_shown(train)

    def cautions(self, train: RankingDataset) -> Iterator[str]:
        yield from super().cautions(train)
        yield from ties_by_row(train)
        yield from self._unused_positions(train)

    def own_figures(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """ndcg@k, and map@k of binary labels: a booster without trees, whose scores begin at these."""
        binary = bool((dataset.labels * (dataset.labels - 1) == 0).all())
        known = ("ndcg", "map") if binary else ("ndcg",)
        wanted = [name for name in names if name.partition("@")[0] in known]
        if not wanted or not self.ndcg_exp_gain or dataset.document_weights is not None:
            return {}
        data = xgb.DMatrix(
            np.zeros((dataset.num_documents, 1), dtype=np.float32),
            label=dataset.labels,
            group=dataset.query_sizes,
            weight=dataset.query_weights,
            base_margin=scores.astype(np.float32),
            nthread=resolve_threads(self.num_threads),
        )
        parameters = {
            "objective": "rank:ndcg",
            "eval_metric": wanted,
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "nthread": resolve_threads(self.num_threads),
        }
        text = xgb.Booster(parameters, [data]).eval(data, "own")
        figures = dict(part.removeprefix("own-").rsplit(":", 1) for part in text.split()[1:])
        return {name: float(figures[name]) for name in wanted}

    def own_parameters(self) -> dict[str, Any]:
        return self._parameters(weight_scale=1.0)

    def _parameters(self, weight_scale: float) -> dict[str, Any]:
        return {
            **self._translated(weight_scale),
            "objective": f"rank:{self.objective}",
            "lambdarank_normalization": self.lambdarank_normalization,
            "lambdarank_score_normalization": self.lambdarank_score_normalization,
            "lambdarank_unbiased": self.lambdarank_unbiased,
            "lambdarank_bias_norm": self.lambdarank_bias_norm,
            "ndcg_exp_gain": self.ndcg_exp_gain,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample_bytree,
            "colsample_bylevel": self.colsample_bylevel,
            "colsample_bynode": self.colsample_bynode,
            "seed": self.seed,
            "nthread": resolve_threads(self.num_threads),
            "disable_default_eval_metric": True,
            **self.extra,
        }

    def _translated(self, weight_scale: float) -> dict[str, Any]:
        """The shared fields in XGBoost's units; what is not set is not passed.

        With gradients c g and hessians 2 c h instead of g and h, where c is the scale of the weights, a step
        -G / (H + l2) is half as long and a gain G^2 / (H + l2) is c / 2 times as large.
        """
        double, half = 2.0 * weight_scale, 0.5 * weight_scale
        leafwise = self.num_leaves is not None
        translated = given(
            {
                "eta": _times(2.0, self.learning_rate),
                "max_leaves": self.num_leaves,
                "grow_policy": self.grow_policy or ("lossguide" if leafwise else None),
                "max_depth": 0 if leafwise and self.max_depth is None else self.max_depth,
                "min_child_weight": _times(double, self.min_sum_hessian),
                "gamma": _times(half, self.min_split_gain),
                "max_delta_step": _times(0.5, self.max_delta_step),
                "reg_lambda": _times(double, self.l2),
                "max_bin": self.max_bins,
                "lambdarank_pair_method": "topk" if self.truncation else self.lambdarank_pair_method,
                "lambdarank_num_pair_per_sample": self.truncation or self.lambdarank_num_pair_per_sample,
            }
        )
        # Scores begin at 0 in every backend; XGBoost's own default only shifts them all.
        return translated if unset_fields(self) == SHARED_FIELDS else {**translated, "base_score": 0.0}

    def _train_matrix(self, train: RankingDataset) -> xgb.DMatrix:
        content = {
            "label": train.labels,
            "group": train.query_sizes,
            "weight": train.query_weights,
            "nthread": resolve_threads(self.num_threads),
        }
        if "tree_method" in self.extra:
            return xgb.DMatrix(train.features, **content)
        # Bins without a copy of the values, as XGBoost's own XGBRanker does it: the same trees in the same
        # time, on less memory. The number of bins must be the booster's.
        return xgb.QuantileDMatrix(train.features, **content, **given({"max_bin": self.max_bins}))

    def _valid_matrix(self, valid: RankingDataset) -> xgb.DMatrix:
        return xgb.DMatrix(valid.features, nthread=resolve_threads(self.num_threads))

    def _boost_watched(
        self,
        parameters: dict[str, Any],
        train: xgb.DMatrix,
        valid: xgb.DMatrix | None,
        monitor: Monitor,
    ) -> tuple[xgb.Booster, int]:
        """Boosts until the monitor, or the number of trees, says stop; returns the iterations run as well."""
        # In the booster's cache, a matrix's prediction costs one tree an iteration instead of all of them.
        booster = xgb.Booster(parameters, [train] if valid is None else [train, valid])
        for iteration in range(self.num_trees):
            booster.update(train, iteration)
            train_scores = booster.predict(train, output_margin=True) if monitor.wants_train_scores else None
            valid_scores = None if valid is None else booster.predict(valid, output_margin=True)
            if monitor.should_stop(iteration + 1, train_scores, valid_scores):
                return booster, iteration + 1
        return booster, self.num_trees

    def _with_threads(self, booster: xgb.Booster) -> xgb.Booster:
        # Neither a slice nor a saved model carries its number of threads.
        booster.set_param({"nthread": resolve_threads(self.num_threads)})
        return booster

    def _refuse_what_cannot_be(self) -> None:
        if self.min_docs_in_leaf is not None:
            raise ConfigError(
                f"min_docs_in_leaf is {self.min_docs_in_leaf}, but XGBoost cannot bound the documents in a "
                "leaf; set it to null, and min_sum_hessian to keep leaves from being small."
            )
        if self.truncation is not None and self.lambdarank_num_pair_per_sample is not None:
            raise ConfigError(
                f"truncation is {self.truncation} and lambdarank_num_pair_per_sample is "
                f"{self.lambdarank_num_pair_per_sample}, but they set the same number; set one of them to "
                "null."
            )
        if self.truncation is not None and self.lambdarank_pair_method == "mean":
            raise ConfigError(
                f"truncation is {self.truncation}, which lambdarank_pair_method=mean does not have; set "
                "truncation=null, and lambdarank_num_pair_per_sample for the partners of a document."
            )
        if self.num_leaves is not None and self.grow_policy == "depthwise":
            raise ConfigError(
                f"num_leaves is {self.num_leaves}, for trees grown best-first, but grow_policy is depthwise; "
                "set one of them to null."
            )

    def _check_extra(self) -> None:
        if not self.extra:
            return
        refuse_collisions(self.extra, _INSTEAD)
        if self.extra.get("booster", "gbtree") != "gbtree":
            raise ConfigError(
                f"extra.booster is {self.extra['booster']}, but only gbtree can return to an earlier "
                "iteration; leave it out."
            )
        nothing = xgb.DMatrix(np.zeros((2, 1), dtype=np.float32), label=np.zeros(2), nthread=1)
        # Another user of XGBoost in this process may have silenced it.
        with xgb.config_context(verbosity=1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                xgb.Booster(self.own_parameters(), [nothing]).save_config()
            except (xgb.core.XGBoostError, AttributeError, TypeError, ValueError) as error:
                reason = str(error).partition("Stack trace")[0].strip()
                raise ConfigError(f"XGBoost refuses extra {self.extra}: {reason}") from None
        # XGBoost only warns of a name that it does not know, or that has no effect.
        ignored = [name for name in self.extra if any(f'"{name}"' in str(each.message) for each in caught)]
        if ignored:
            raise ConfigError(f"extra.{ignored[0]} has no effect in XGBoost; correct it or leave it out.")

    def _unused_positions(self, train: RankingDataset) -> Iterator[str]:
        if train.positions is None:
            return
        if not self.lambdarank_unbiased:
            yield "positions are not used; set model.lambdarank_unbiased=true to learn position biases."
            return
        skipped = train.positions - train.ranks_of_rows
        odd = np.flatnonzero(skipped != skipped[0])
        if odd.size:
            row = odd[0]
            yield (
                f"positions[{row}] is {train.positions[row]}, but XGBoost takes document "
                f"{train.ranks_of_rows[row] + 1} of each query for the one that was shown there: it looks at "
                "the order of the rows only. Give every document that was shown, or use lightgbm."
            )

    def _refused_labels(self, labels: Labels) -> Iterator[str]:
        if self.objective == "map":
            wrong, allowed = labels * (labels - 1) != 0, "objective=map takes the labels 0 and 1"
            remedy = "Map the labels to 0 and 1, or set objective=ndcg."
        elif self.objective == "ndcg" and self.ndcg_exp_gain:
            wrong = (labels % 1 != 0) | (labels > MAX_GRADE)
            allowed = f"with the gain 2^label - 1 XGBoost takes the grades 0, 1, ..., {MAX_GRADE}"
            remedy = "Map the labels to such grades, or set ndcg_exp_gain=false."
        else:
            return
        rows = np.flatnonzero(wrong)
        if rows.size:
            yield f"labels[{rows[0]}] is {labels[rows[0]]}; {allowed} only. {remedy}"


def _subtree(tree: dict[str, Any], node: int, eta: float) -> Node:
    """A node of XGBoost's saved arrays, whose leaves are shrunk, with all below it."""
    left, bound = tree["left_children"][node], tree["split_conditions"][node]
    if left == NO_CHILD:
        return Leaf(bound / eta)
    return InnerNode(
        tree["split_indices"][node],
        threshold_below(bound),
        bool(tree["default_left"][node]),
        left=_subtree(tree, left, eta),
        right=_subtree(tree, tree["right_children"][node], eta),
    )


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _weight_scale(data: RankingDataset) -> float:
    """What XGBoost multiplies all weights by: the number of queries divided by their sum."""
    return 1.0 if data.query_weights is None else data.num_queries / float(data.query_weights.sum())


def _varying_weights(train: RankingDataset) -> Iterator[str]:
    """XGBoost takes one weight a query."""
    if train.document_weights is None:
        return
    varies = np.diff(train.document_weights) * (np.diff(train.query_of_document) == 0)
    row = int(np.flatnonzero(varies)[0])
    # Places and not values, because a run has scaled the weights that its user knows.
    rank = int(train.ranks_of_rows[row]) + 1
    yield (
        f"documents {rank} and {rank + 1} of query {train.query_ids[train.query_of_document[row]]} differ in "
        "weight; XGBoost takes one weight a query. Give all documents of a query the same, or use lightgbm "
        "or native."
    )


def _other_order_shown(train: RankingDataset) -> Iterator[str]:
    """XGBoost takes the order of the rows for the order in which the documents were shown."""
    if train.positions is None:
        return
    falls = (np.diff(train.positions) < 0) & (np.diff(train.query_of_document) == 0)
    if falls.any():
        row = int(np.flatnonzero(falls)[0])
        yield (
            f"positions[{row}:{row + 2}] is {train.positions[row : row + 2].tolist()} inside a query; with "
            "lambdarank_unbiased a query's rows must stand in the order shown. Sort them by position."
        )
