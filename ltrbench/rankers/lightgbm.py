"""LightGBM behind the Ranker contract.

LightGBM sets the units of the shared fields: they are its own parameters under other names, and the other
backends translate. Its metrics are off. Early stopping is fed LightGBM's own running sums of scores (float64)
through `Booster.eval`, the one public way to them.

Watching a fit is cheap [measured: 30,000 x 136 to train, 10,000 to validate, 2 cores]. Of an iteration's
21 ms at most 1 goes into the validation scores and 0.3 into handing them over; the evaluator adds 1.1. A fit
that takes whole seconds longer has another cause: LightGBM's threads spin while they wait for each other.
With another process on one of the two cores, 40 iterations took 8 to 28 s instead of 0.9, watched or not, and
1.0 under OMP_WAIT_POLICY=passive, which has to be in the environment before LightGBM is imported, and costs
up to a tenth on idle cores.
"""

from __future__ import annotations

import functools
import re
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
    LibraryRanker,
    metrics_are_off,
    refuse_deep,
    refuse_unknown,
    refused_labels,
    set_instead,
    ties_by_row,
    under_same_name,
    weights_of_documents,
)
from ltrbench.rankers.models.lightgbm_text import check_text
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_at_most
from ltrbench.shapes import Features, Scores

try:
    import lightgbm as lgb
except ImportError as error:
    raise ImportError("model=lightgbm needs LightGBM: pip install lightgbm") from error
except OSError as error:
    # LightGBM's wheel links the system's OpenMP runtime instead of bringing one.
    raise ImportError(
        f"LightGBM is installed but not its OpenMP runtime ({error}): apt install libgomp1"
    ) from error

HIGHEST_GRADE = 30
"""The highest label that LightGBM's default gains, 2^l - 1, reach."""
MAX_QUERY_SIZE = 10_000
"""The documents of a query that lambdarank takes at the most."""

MOST_DOCUMENTS_BINNED = 200_000
"""Number of documents that bins are chosen from; of more a sample is drawn (bin_construct_sample_cnt)."""

_NAMES = {
    "learning_rate": "learning_rate shrinkage_rate eta",
    "num_leaves": "num_leaves num_leaf max_leaves max_leaf max_leaf_nodes",
    "min_docs_in_leaf": "min_data_in_leaf min_data_per_leaf min_data min_child_samples min_samples_leaf",
    "min_sum_hessian": "min_sum_hessian_in_leaf min_sum_hessian_per_leaf min_sum_hessian min_hessian "
    "min_child_weight",
    "min_split_gain": "min_gain_to_split min_split_gain",
    "max_delta_step": "max_delta_step max_tree_output max_leaf_output",
    "l2": "lambda_l2 reg_lambda lambda l2_regularization",
    "max_bins": "max_bin max_bins",
    "truncation": "lambdarank_truncation_level",
    "objective": "objective objective_type app application loss num_class num_classes",
    "bagging_fraction": "bagging_fraction sub_row subsample bagging",
    "bagging_freq": "bagging_freq subsample_freq",
    "feature_fraction": "feature_fraction sub_feature colsample_bytree",
    "feature_fraction_bynode": "feature_fraction_bynode sub_feature_bynode colsample_bynode",
    **under_same_name(
        "label_gain lambdarank_position_bias_regularization lambdarank_norm sigmoid bagging_by_query "
        "deterministic"
    ),
    "seed": "seed random_seed random_state",
    "num_threads": "num_threads num_thread nthread nthreads n_jobs",
}

_REFUSED_NAMES = set_instead(
    {
        "num_trees": "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds "
        "num_boost_round n_estimators max_iter",
        "early_stopping": "early_stopping_round early_stopping_rounds early_stopping n_iter_no_change "
        "early_stopping_min_delta first_metric_only",
    }
) | metrics_are_off("LightGBM", "metric metrics metric_types eval_at ndcg_eval_at ndcg_at map_eval_at map_at")

_WITHOUT_SEED = {"lambda_l1", "max_depth", "min_data_in_bin", "path_smooth"}
"""Parameters of `extra` that are known to draw no random number."""

_OF_FILES = {
    "categorical_feature",
    "data",
    "group_column",
    "header",
    "ignore_column",
    "label_column",
    "parser_config_file",
    "pre_partition",
    "precise_float_parser",
    "two_round",
    "valid",
    "weight_column",
}
"""Parameters of the files that LightGBM's command line reads; they do nothing to arrays."""


@dataclass(kw_only=True)
class LightGBMRanker(LibraryRanker):
    """LightGBM's LambdaMART, or its cross-entropy NDCG, on the queries of a data set.

    A query's weight is the weight of each of its documents; weights may vary within a query.
    """

    objective: str = "lambdarank"
    """lambdarank: pairs weighted by their change of NDCG; rank_xendcg: cross entropy against NDCG's gains."""
    label_gain: list[float] | None = None
    """The gain of label 0, 1, 2, ...; None: 2^label - 1, for labels up to 30."""
    lambdarank_norm: bool = True
    """Divides a pair's weight by 0.01 + |score difference|; scales a query's gradients by log2(1 + S) / S,
    where S is the sum of its pairs' gradients."""
    sigmoid: float = 1.0
    """Slope of the logistic function of a pair's score difference."""
    lambdarank_position_bias_regularization: float | None = None
    """Learns a bias of each of `RankingDataset.positions`, with this L2 penalty; None: positions unused."""
    bagging_fraction: float = 1.0
    """Share of the documents, or queries, that a tree is grown on; needs bagging_freq."""
    bagging_freq: int = 0
    """A new sample is drawn every so many iterations; 0: every tree sees everything."""
    bagging_by_query: bool = False
    """Samples whole queries instead of documents."""
    feature_fraction: float = 1.0
    """Share of the features that a tree may use."""
    feature_fraction_bynode: float = 1.0
    """Share of those that a split may use."""
    deterministic: bool = True
    """The same bits on any number of threads: sums are taken in one order, and histograms are built by column
    instead of in whichever of two ways was faster in a trial at the start."""

    library = "LightGBM"
    library_error = lgb.basic.LightGBMError
    library_convention = "lightgbm"
    packages = ("lightgbm",)
    model_file = "model.txt"
    names = _NAMES
    refused_names = _REFUSED_NAMES
    shares = ("bagging_fraction", "feature_fraction", "feature_fraction_bynode")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("objective", self.objective, ("lambdarank", "rank_xendcg"))
        require("sigmoid", self.sigmoid, above=0)
        require(
            "lambdarank_position_bias_regularization",
            self.lambdarank_position_bias_regularization,
            at_least=0,
        )
        require("bagging_freq", self.bagging_freq, at_least=0)
        if self.bagging_fraction < 1 and self.bagging_freq == 0:
            raise ConfigError(
                f"bagging_fraction is {self.bagging_fraction} but bagging_freq is 0, so that nothing would "
                "be sampled; set bagging_freq=1 for a new sample in every iteration."
            )
        if self.objective == "rank_xendcg":
            neutral = {
                "truncation": None,
                "label_gain": None,
                "lambdarank_position_bias_regularization": None,
                "lambdarank_norm": True,
                "sigmoid": 1.0,
            }
            self._refuse_fields_without_effect(neutral, "objective=rank_xendcg", "objective=lambdarank")
        if self.extra:
            self._check_extra()

    def _check_extra(self) -> None:
        refuse_unknown("LightGBM", self.extra, _parameter_names() - _OF_FILES)
        if self.extra.get("boosting") == "dart" and self.early_stopping is not None:
            raise ConfigError(
                "extra.boosting is dart, which rescales earlier trees, so that no earlier iteration can be "
                "returned to; set early_stopping=null."
            )

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> tuple[lgb.Booster, int, int]:
        if self.lambdarank_position_bias_regularization is not None and train.positions is None:
            raise ConfigError(
                "lambdarank_position_bias_regularization is set, but the training data has no positions; "
                "give RankingDataset(positions=...), or set it to null."
            )
        with self._refusing_extra():
            train_set = self._dataset(train)
            booster = lgb.Booster(self.library_parameters(), train_set)
        valid_set = None
        if valid is not None and monitor.wants_scores:
            valid_set = self._dataset(valid, reference=train_set)
            booster.add_valid(valid_set, "valid")

        def grow(_: int) -> int:
            # Without a leaf that can be split LightGBM drops the tree; under sampling the next may stay.
            booster.update()
            return booster.current_iteration()

        def scores_of(data: lgb.Dataset) -> Scores:
            return _running_scores(booster, data)

        num_iterations = self._boost(grow, scores_of, train_set, valid_set, monitor)
        kept = monitor.best_iteration or booster.current_iteration()
        # Through the text, as lgb.train does: it drops the trimmed trees and lets go of the training data.
        model = lgb.Booster(model_str=booster.model_to_string(num_iteration=kept))
        return model, kept, num_iterations

    def _dataset(self, data: RankingDataset, reference: lgb.Dataset | None = None) -> lgb.Dataset:
        learns_bias = self.lambdarank_position_bias_regularization is not None
        return lgb.Dataset(
            data.features,
            label=data.labels,
            group=data.query_sizes,
            weight=weights_of_documents(data),
            position=data.positions if learns_bias and reference is None else None,
            reference=reference,
            params=self.library_parameters(),
        ).construct()

    def _num_features(self, model: lgb.Booster) -> int:
        return model.num_feature()

    def _scores(self, model: lgb.Booster, features: Features) -> NDArray[np.float64]:
        return np.asarray(model.predict(features, num_threads=self._threads))

    def _shap_values(self, model: lgb.Booster, features: Features) -> NDArray[np.float64] | None:
        if self.extra.get("linear_tree"):
            return None  # LightGBM has none of linear leaves
        # A random forest predicts the mean of its trees, but explains their sum.
        divisor = model.num_trees() if self.extra.get("boosting") == "rf" else 1
        return np.asarray(model.predict(features, pred_contrib=True, num_threads=self._threads)) / divisor

    def _to_bytes(self, model: lgb.Booster) -> bytes:
        return model.model_to_string().encode()

    def _from_bytes(self, content: bytes) -> tuple[lgb.Booster, bool]:
        is_deep = check_text(content.decode())
        return lgb.Booster(model_str=content.decode()), is_deep

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster: lgb.Booster = check_fitted(self._model)
        return {
            kind: booster.feature_importance(importance_type=kind).astype(np.float64)
            for kind in ("split", "gain")
        }

    def trees(self) -> Ensemble:
        booster: lgb.Booster = check_fitted(self._model)
        refuse_deep(self._is_deep, "LightGBM")
        model = booster.dump_model()
        # A random forest (extra.boosting=rf) takes the mean of its trees.
        divisor = len(model["tree_info"]) if model["average_output"] else 1
        return Ensemble(
            tuple(
                WeightedTree(tree["shrinkage"] / divisor, _subtree(tree["tree_structure"], tree["shrinkage"]))
                for tree in model["tree_info"]
            )
        )

    def seed_matters(self, num_documents: int) -> bool:
        return (
            self._samples
            or self.objective == "rank_xendcg"
            or not self.deterministic
            or num_documents > MOST_DOCUMENTS_BINNED
            or not self.extra.keys() <= _WITHOUT_SEED
        )

    def _departure_from_defaults(self) -> str:
        return "; but deterministic is on" if self.deterministic else ""

    def _departures(self) -> dict[str, bool]:
        forgets = max(self.l2 or 0.0, self.min_split_gain or 0.0, self.max_delta_step or 0.0) > 0
        return {
            "Bin edges are LightGBM's own, with at least 3 documents in a bin.": True,
            "A missing value counts as 0 in a feature that had none in training.": True,
            # Seen with l2=5: LightGBM marks a feature as not splittable, and its children never look at it.
            "Where no split on a feature gains enough, no split below is tried on it.": forgets,
            "Rows and features are sampled in LightGBM's own way.": self._samples,
            "rank_xendcg is another loss than LambdaMART's.": self.objective == "rank_xendcg",
        }

    def _refusals_in(self, train: RankingDataset) -> Iterator[Finding]:
        highest = HIGHEST_GRADE if self.label_gain is None else len(self.label_gain) - 1
        yield from refused_labels(
            train.labels,
            (train.labels % 1 != 0) | (train.labels > highest),
            f"LightGBM takes the grades 0, 1, ..., {highest} only. Map the labels to such grades; label_gain "
            "gives each grade its gain.",
        )
        largest = int(train.query_sizes.argmax())
        if self.objective == "lambdarank" and train.query_sizes[largest] > MAX_QUERY_SIZE:
            yield Finding(
                Severity.REFUSED,
                f"query {train.query_ids[largest]} has {train.query_sizes[largest]} documents; LightGBM's "
                f"lambdarank takes {MAX_QUERY_SIZE} at the most. Leave some out, or set "
                "objective=rank_xendcg.",
            )

    def _cautions_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from ties_by_row(train)
        if train.positions is not None and self.lambdarank_position_bias_regularization is None:
            yield Finding(
                Severity.CAUTION,
                "positions are not used; set model.lambdarank_position_bias_regularization to learn position "
                "biases.",
            )

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns ndcg@k and map@k of a booster without trees, whose scores begin at these."""
        wanted = [name for name in names if name.partition("@")[0] in ("ndcg", "map") and "@" in name]
        if not wanted or self.label_gain is not None:
            return {}
        parameters = {
            "objective": "lambdarank",
            "metric": ["ndcg", "map"],
            "eval_at": sorted({int(name.partition("@")[2]) for name in wanted}),
            "num_threads": self._threads,
            "verbosity": -1,
        }
        data = lgb.Dataset(
            # LightGBM takes no data without a feature, and its metrics look at none.
            np.zeros((dataset.num_documents, 1), dtype=np.float32),
            label=dataset.labels,
            group=dataset.query_sizes,
            weight=weights_of_documents(dataset),
            init_score=scores.astype(np.float64),
            params=parameters,
        )
        figures = {each[1]: each[2] for each in lgb.Booster(parameters, data).eval_train()}
        return {name: float(figures[name]) for name in wanted}

    def library_parameters(self) -> dict[str, Any]:
        return {
            **self._under_library_names({}),
            # LightGBM otherwise times both ways of building histograms, and takes the one that won.
            "force_col_wise": self.deterministic and "force_row_wise" not in self.extra,
            "metric": "none",
            "verbosity": -1,
            **self.extra,
        }


def _subtree(node: dict[str, Any], shrinkage: float) -> Node:
    """A node of LightGBM's dump, whose leaves are shrunk, with all below it."""
    if "leaf_value" in node:
        # A linear tree's leaf is a sum of features on top of its constant.
        if node.get("leaf_features"):
            raise ConfigError("extra.linear_tree puts linear models into leaves, which a tree does not show.")
        return Leaf(node["leaf_value"] / shrinkage)
    if node["missing_type"] == "Zero":
        raise ConfigError(
            "extra.zero_as_missing sends the value 0 another way than its neighbours, which one threshold "
            "does not show."
        )
    # Where none was missing in training, LightGBM reads a missing value as 0.
    zero_left = node["threshold"] >= 0
    return InnerNode(
        node["split_feature"],
        threshold_at_most(node["threshold"]),
        missing_left=zero_left if node["missing_type"] == "None" else node["default_left"],
        left=_subtree(node["left_child"], shrinkage),
        right=_subtree(node["right_child"], shrinkage),
    )


def _running_scores(booster: lgb.Booster, data: lgb.Dataset) -> Scores:
    """(D,), the scores that LightGBM has added up so far."""
    seen: list[Scores] = []

    def keep(scores: Scores, _: lgb.Dataset) -> tuple[str, float, bool]:
        # A copy, because LightGBM writes the next iteration's scores into the same array.
        seen.append(scores.copy())
        return "scores", 0.0, True

    booster.eval(data, "scores", keep)
    return seen[0]


@functools.cache
def _parameter_names() -> frozenset[str]:
    """Every parameter that this version of LightGBM knows: it lists them in a model's text."""
    quiet = {"verbosity": -1, "num_threads": 1}
    empty = lgb.Dataset(np.zeros((2, 1), dtype=np.float32), label=np.zeros(2), params=quiet)
    return frozenset(re.findall(r"^\[(\w+):", lgb.Booster(quiet, empty).model_to_string(), re.MULTILINE))
