"""XGBoost behind the Ranker contract.

The shared fields are in LightGBM's units. XGBoost's LambdaMART has the same gradient but twice the hessian,
so that a Newton step is half as long and a gain half as large; `_parameters` makes up for it, and the two
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.rankers.base import check_fitted
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.rankers.early_stopping import Monitor
from ltrbench.rankers.library import (
    SHARED_FIELDS,
    LibraryRanker,
    first_change_of_weight,
    given,
    metrics_are_off,
    refused_labels,
    set_instead,
    ties_by_row,
    under_same_name,
    unset_fields,
)
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_below
from ltrbench.rankers.models.xgboost_ubjson import check_ubjson
from ltrbench.shapes import Features, Labels, Scores

try:
    import xgboost as xgb
except ImportError as error:
    raise ImportError("model=xgboost needs XGBoost: pip install xgboost") from error

DEFAULT_ETA = 0.3
"""XGBoost's own learning rate."""
NO_CHILD = -1
HIGHEST_GRADE_OF_GAIN = 31
"""The highest label that XGBoost's exponential gain, 2^l - 1, reaches."""

_NAMES = {
    "learning_rate": "eta learning_rate",
    "num_leaves": "max_leaves",
    **under_same_name("grow_policy max_depth"),
    "min_sum_hessian": "min_child_weight",
    "min_split_gain": "gamma min_split_loss",
    "max_delta_step": "max_delta_step",
    "l2": "reg_lambda lambda",
    "max_bins": "max_bin",
    **under_same_name(
        "lambdarank_pair_method lambdarank_num_pair_per_sample objective lambdarank_normalization "
        "lambdarank_score_normalization lambdarank_unbiased lambdarank_bias_norm ndcg_exp_gain subsample "
        "colsample_bytree colsample_bylevel colsample_bynode"
    ),
    "seed": "seed random_state",
    "num_threads": "nthread n_jobs",
}

_REFUSED_NAMES = (
    set_instead(
        {
            "num_trees": "num_boost_round n_estimators",
            "early_stopping": "early_stopping_rounds",
            "truncation or lambdarank_num_pair_per_sample": "lambdarank_num_pair_per_sample",
        }
    )
    | metrics_are_off("XGBoost", "eval_metric disable_default_eval_metric")
    | {
        "num_parallel_tree": "an iteration grows one tree in every backend; set the field num_trees instead",
        "num_class": "a ranker has one score; leave it out",
        "validate_parameters": "a misspelt parameter is always refused; leave it out",
    }
)

_WITHOUT_SEED = {"alpha", "reg_alpha"}
"""Parameters of `extra` that are known to draw no random number."""


@dataclass(kw_only=True)
class XGBoostRanker(LibraryRanker):
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

    library = "XGBoost"
    library_error = xgb.core.XGBoostError
    library_convention = "xgboost"
    packages = ("xgboost",)
    model_file = "model.ubj"
    names = _NAMES
    refused_names = _REFUSED_NAMES
    shares = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
    score_dtype = np.float32

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("objective", self.objective, ("ndcg", "map", "pairwise"))
        require_choice("lambdarank_pair_method", self.lambdarank_pair_method, ("topk", "mean"))
        require_choice("grow_policy", self.grow_policy, ("depthwise", "lossguide"))
        require("lambdarank_num_pair_per_sample", self.lambdarank_num_pair_per_sample, at_least=1)
        require("lambdarank_bias_norm", self.lambdarank_bias_norm, at_least=0)
        require("max_depth", self.max_depth, at_least=0)
        self._refuse_what_cannot_be()
        if self.extra:
            self._check_extra()

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
                xgb.Booster(self.library_parameters(), [nothing]).save_config()
            except (xgb.core.XGBoostError, AttributeError, TypeError, ValueError) as error:
                reason = str(error).partition("Stack trace")[0].strip()
                raise ConfigError(f"XGBoost refuses extra {self.extra}: {reason}") from None
        # XGBoost only warns of a name that it does not know, or that has no effect.
        ignored = [name for name in self.extra if any(f'"{name}"' in str(each.message) for each in caught)]
        if ignored:
            raise ConfigError(f"extra.{ignored[0]} has no effect in XGBoost; correct it or leave it out.")

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> tuple[xgb.Booster, int, int]:
        train_matrix, valid_matrix = self._train_matrix(train), None
        if valid is not None and monitor.wants_scores:
            valid_matrix = xgb.DMatrix(valid.features, nthread=self._threads)
        # In the booster's cache, a matrix's prediction costs one tree an iteration instead of all of them.
        cached = [train_matrix] if valid_matrix is None else [train_matrix, valid_matrix]
        booster = xgb.Booster(self._parameters(_weight_scale(train)), cached)

        def grow(iteration: int) -> int:
            booster.update(train_matrix, iteration - 1)
            return iteration

        def scores_of(matrix: xgb.DMatrix) -> Scores:
            return booster.predict(matrix, output_margin=True)

        num_iterations = self._boost(grow, scores_of, train_matrix, valid_matrix, monitor)
        kept = monitor.best_iteration or booster.num_boosted_rounds()
        # A slice holds the kept trees only, and lets go of the training data.
        return self._with_threads(booster[:kept]), kept, num_iterations

    def _train_matrix(self, train: RankingDataset) -> xgb.DMatrix:
        content = {
            "label": train.labels,
            "group": train.query_sizes,
            "weight": train.query_weights,
            "nthread": self._threads,
        }
        if "tree_method" in self.extra:
            return xgb.DMatrix(train.features, **content)
        # Bins without a copy of the values, as XGBoost's own XGBRanker does it: the same trees in the same
        # time, on less memory. The number of bins must be the booster's.
        return xgb.QuantileDMatrix(train.features, **content, **given({"max_bin": self.max_bins}))

    def _with_threads(self, booster: xgb.Booster) -> xgb.Booster:
        # Neither a slice nor a saved model carries its number of threads.
        booster.set_param({"nthread": self._threads})
        return booster

    def _num_features(self, model: xgb.Booster) -> int:
        return model.num_features()

    def _scores(self, model: xgb.Booster, features: Features) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = model.inplace_predict(features, predict_type="margin")
        return scores

    def _shap_values(self, model: xgb.Booster, features: Features) -> NDArray[np.float64]:
        """The expected scores weigh a tree's branches by their hessians, where the others count documents."""
        matrix = xgb.DMatrix(features, nthread=self._threads)
        return np.asarray(model.predict(matrix, pred_contribs=True), dtype=np.float64)

    def _to_bytes(self, model: xgb.Booster) -> bytes:
        return bytes(model.save_raw("ubj"))

    def _from_bytes(self, content: bytes) -> tuple[xgb.Booster, bool]:
        is_deep = check_ubjson(content)
        return self._with_threads(xgb.Booster(model_file=bytearray(content))), is_deep

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster: xgb.Booster = check_fitted(self._model)
        names = [f"f{feature}" for feature in range(booster.num_features())]
        return {
            kind: np.array([of_feature.get(name, 0.0) for name in names], dtype=np.float64)
            for kind, of_feature in (
                ("split", booster.get_score(importance_type="weight")),
                ("gain", booster.get_score(importance_type="total_gain")),
            )
        }

    def trees(self) -> Ensemble:
        learner = json.loads(bytes(check_fitted(self._model).save_raw("json")))["learner"]
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

    def seed_matters(self, num_documents: int) -> bool:
        # mean draws pairs, and is not known to do so alike for every seed in every version.
        draws = self._samples or self.lambdarank_pair_method == "mean"
        return draws or not self.extra.keys() <= _WITHOUT_SEED

    def _inapplicable(self) -> tuple[str, ...]:
        return ("min_docs_in_leaf",)

    def _departures(self) -> dict[str, bool]:
        return {
            "XGBoost cannot bound the documents in a leaf: min_docs_in_leaf is not applied.": True,
            "Bin edges are those of XGBoost's quantile sketch.": True,
            "A missing value goes right in a feature that had none in training.": True,
            "XGBoost adds up scores in float32, so that more of them tie.": True,
            "Rows and features are sampled in XGBoost's own way.": self._samples,
            f"rank:{self.objective} is another loss than LambdaMART's of NDCG.": self.objective != "ndcg",
        }

    def _refusals_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from self._refused_labels(train.labels)
        yield from _varying_weights(train)
        if self.lambdarank_unbiased:
            yield from _other_order_shown(train)

    def _cautions_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from ties_by_row(train)
        yield from self._unused_positions(train)

    def _refused_labels(self, labels: Labels) -> Iterator[Finding]:
        if self.objective == "map":
            wrong, allowed = labels * (labels - 1) != 0, "objective=map takes the labels 0 and 1"
            remedy = "Map the labels to 0 and 1, or set objective=ndcg."
        elif self.objective == "ndcg" and self.ndcg_exp_gain:
            wrong = (labels % 1 != 0) | (labels > HIGHEST_GRADE_OF_GAIN)
            allowed = f"with the gain 2^label - 1 XGBoost takes the grades 0, 1, ..., {HIGHEST_GRADE_OF_GAIN}"
            remedy = "Map the labels to such grades, or set ndcg_exp_gain=false."
        else:
            return
        yield from refused_labels(labels, wrong, f"{allowed} only. {remedy}")

    def _unused_positions(self, train: RankingDataset) -> Iterator[Finding]:
        if train.positions is None:
            return
        if not self.lambdarank_unbiased:
            sentence = "positions are not used; set model.lambdarank_unbiased=true to learn position biases."
            yield Finding(Severity.CAUTION, sentence)
            return
        skipped = train.positions - train.ranks_of_rows
        odd = np.flatnonzero(skipped != skipped[0])
        if odd.size:
            row = odd[0]
            yield Finding(
                Severity.CAUTION,
                f"positions[{row}] is {train.positions[row]}, but XGBoost takes document "
                f"{train.ranks_of_rows[row] + 1} of each query for the one that was shown there: it looks at "
                "the order of the rows only. Give every document that was shown, or use lightgbm.",
            )

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns ndcg, and map of binary labels, of a booster without trees, whose scores begin at these."""
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
            nthread=self._threads,
        )
        parameters = {
            "objective": "rank:ndcg",
            "eval_metric": wanted,
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "nthread": self._threads,
        }
        text = xgb.Booster(parameters, [data]).eval(data, "scores")
        figures = dict(part.removeprefix("scores-").rsplit(":", 1) for part in text.split()[1:])
        return {name: float(figures[name]) for name in wanted}

    def library_parameters(self) -> dict[str, Any]:
        return self._parameters(weight_scale=1.0)

    def _parameters(self, weight_scale: float) -> dict[str, Any]:
        """The shared fields in XGBoost's units.

        With gradients c g and hessians 2 c h instead of g and h, where c is the scale of the weights, a step
        -G / (H + l2) is half as long and a gain G^2 / (H + l2) is c / 2 times as large.
        """
        double, half = 2.0 * weight_scale, 0.5 * weight_scale
        leafwise = self.num_leaves is not None
        converted = {
            "learning_rate": _times(2.0, self.learning_rate),
            "grow_policy": self.grow_policy or ("lossguide" if leafwise else None),
            "max_depth": 0 if leafwise and self.max_depth is None else self.max_depth,
            "min_sum_hessian": _times(double, self.min_sum_hessian),
            "min_split_gain": _times(half, self.min_split_gain),
            "max_delta_step": _times(0.5, self.max_delta_step),
            "l2": _times(double, self.l2),
            "lambdarank_pair_method": "topk" if self.truncation else self.lambdarank_pair_method,
            "lambdarank_num_pair_per_sample": self.truncation or self.lambdarank_num_pair_per_sample,
            "objective": f"rank:{self.objective}",
        }
        # Scores begin at 0 in every backend; XGBoost's own default only shifts them all.
        start = {} if unset_fields(self) == SHARED_FIELDS else {"base_score": 0.0}
        no_metrics = {"disable_default_eval_metric": True}
        return {**self._under_library_names(converted), **start, **no_metrics, **self.extra}


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


def _varying_weights(train: RankingDataset) -> Iterator[Finding]:
    """XGBoost takes one weight a query."""
    row = first_change_of_weight(train)
    if row is None:
        return
    # Places and not values, because a run has scaled the weights that its user knows.
    rank = int(train.ranks_of_rows[row]) + 1
    yield Finding(
        Severity.REFUSED,
        f"documents {rank} and {rank + 1} of query {train.query_ids[train.query_of_document[row]]} differ in "
        "weight; XGBoost takes one weight a query. Give all documents of a query the same, or use lightgbm "
        "or native.",
    )


def _other_order_shown(train: RankingDataset) -> Iterator[Finding]:
    """XGBoost takes the order of the rows for the order in which the documents were shown."""
    if train.positions is None:
        return
    falls = (np.diff(train.positions) < 0) & (np.diff(train.query_of_document) == 0)
    if falls.any():
        row = int(np.flatnonzero(falls)[0])
        yield Finding(
            Severity.REFUSED,
            f"positions[{row}:{row + 2}] is {train.positions[row : row + 2].tolist()} inside a query; with "
            "lambdarank_unbiased a query's rows must stand in the order shown. Sort them by position.",
        )
