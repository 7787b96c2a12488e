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
import json
import re
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
    refuse_unknown,
    ties_by_row,
    unset_fields,
    write_model,
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

MODEL_FILE = "model.txt"
MAX_GRADE = 30
"""The highest label that LightGBM's default gains, 2^l - 1, reach."""
MAX_QUERY_SIZE = 10_000
"""The documents of a query that lambdarank takes at the most."""

MOST_DOCUMENTS_BINNED = 200_000
"""Number of documents that bins are chosen from; of more a sample is drawn (bin_construct_sample_cnt)."""

_FIELDS = {
    "num_trees": "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds "
    "num_boost_round n_estimators max_iter",
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
    "early_stopping": "early_stopping_round early_stopping_rounds early_stopping n_iter_no_change "
    "early_stopping_min_delta first_metric_only",
    "seed": "seed random_seed random_state",
    "num_threads": "num_threads num_thread nthread nthreads n_jobs",
    "objective": "objective objective_type app application loss num_class num_classes",
    "label_gain": "label_gain",
    "lambdarank_norm": "lambdarank_norm",
    "sigmoid": "sigmoid",
    "lambdarank_position_bias_regularization": "lambdarank_position_bias_regularization",
    "bagging_fraction": "bagging_fraction sub_row subsample bagging",
    "bagging_freq": "bagging_freq subsample_freq",
    "bagging_by_query": "bagging_by_query",
    "feature_fraction": "feature_fraction sub_feature colsample_bytree",
    "feature_fraction_bynode": "feature_fraction_bynode sub_feature_bynode colsample_bynode",
    "deterministic": "deterministic",
}
"""A field -> LightGBM's names, with its aliases, of what the field decides."""

_INSTEAD = {
    name: f"set the field {field} instead" for field, names in _FIELDS.items() for name in names.split()
} | dict.fromkeys(
    ("metric", "metrics", "metric_types", "eval_at", "ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at"),
    "LightGBM's metrics are off, because every backend is measured by the same ones; set metrics instead",
)

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
class LightGBMRanker(BoostingRanker):
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

    own_convention: ClassVar[str | None] = "lightgbm"
    packages: ClassVar[tuple[str, ...]] = ("lightgbm",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._booster: lgb.Booster | None = None
        self._is_deep = False  # of a loaded model only
        require_choice("objective", self.objective, ("lambdarank", "rank_xendcg"))
        require("sigmoid", self.sigmoid, above=0)
        require(
            "lambdarank_position_bias_regularization",
            self.lambdarank_position_bias_regularization,
            at_least=0,
        )
        require("bagging_freq", self.bagging_freq, at_least=0)
        for share in ("bagging_fraction", "feature_fraction", "feature_fraction_bynode"):
            require(share, getattr(self, share), above=0, at_most=1)
        if self.bagging_fraction < 1 and self.bagging_freq == 0:
            raise ConfigError(
                f"bagging_fraction is {self.bagging_fraction} but bagging_freq is 0, so that nothing would "
                "be sampled; set bagging_freq=1 for a new sample in every iteration."
            )
        if self.objective == "rank_xendcg":
            self._refuse_lambdarank_fields()
        self._check_extra()

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        self.check_data(train)
        if self.lambdarank_position_bias_regularization is not None and train.positions is None:
            raise ConfigError(
                "lambdarank_position_bias_regularization is set, but the training data has no positions; "
                "give RankingDataset(positions=...), or set it to null."
            )
        monitor = self.monitor(valid, on_iteration)
        booster, train_set = self._start(train)
        if monitor.wants_scores:
            valid_set = None if valid is None else self._dataset(valid, reference=train_set)
            num_iterations = self._boost_watched(booster, train_set, valid_set, monitor)
        else:
            for _ in range(self.num_trees):
                booster.update()
            num_iterations = self.num_trees
        kept = monitor.best_iteration or booster.current_iteration()
        # Through the text, as lgb.train does: it drops the trimmed trees and lets go of the training data.
        self._booster = lgb.Booster(model_str=booster.model_to_string(num_iteration=kept))
        self._is_deep = False
        self.summary = FitSummary(kept, num_iterations, monitor.seconds)
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        booster = check_fitted(self._booster)
        features = check_features(features, booster.num_feature())
        if not len(features):
            return np.empty(0)
        return np.asarray(booster.predict(features, num_threads=resolve_threads(self.num_threads)))

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster = check_fitted(self._booster)
        return {
            kind: booster.feature_importance(importance_type=kind).astype(np.float64)
            for kind in ("split", "gain")
        }

    def contributions(self, features: Features) -> NDArray[np.float64] | None:
        booster = check_fitted(self._booster)
        features = check_features(features, booster.num_feature())
        refuse_deep(self._is_deep, "LightGBM")
        if self.extra.get("linear_tree"):
            return None  # LightGBM has none of linear leaves
        if not len(features):
            return np.empty((0, booster.num_feature() + 1))
        threads = resolve_threads(self.num_threads)
        # A random forest predicts the mean of its trees, but explains their sum.
        divisor = booster.num_trees() if self.extra.get("boosting") == "rf" else 1
        return np.asarray(booster.predict(features, pred_contrib=True, num_threads=threads)) / divisor

    def trees(self) -> Ensemble:
        booster = check_fitted(self._booster)
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

    def library_model(self) -> tuple[str, object]:
        return "lightgbm", check_fitted(self._booster)

    def save(self, folder: Path) -> None:
        write_model(folder, self, MODEL_FILE, check_fitted(self._booster).model_to_string().encode())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, model = read_model(folder, cls, MODEL_FILE)
        with parsing(folder / MODEL_FILE, "LightGBM", lgb.basic.LightGBMError):
            ranker._is_deep = check_text(model.decode())
            ranker._booster = lgb.Booster(model_str=model.decode())
        return ranker

    def warm_up(self) -> None:
        """Starts LightGBM's threads on a fit and a prediction of 4 documents."""
        features = np.arange(4, dtype=np.float32).reshape(4, 1)
        labels, query_start = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 4])
        tiny = RankingDataset(features=features, labels=labels, query_start=query_start)
        ranker = LightGBMRanker(num_trees=1, min_docs_in_leaf=1, num_threads=self.num_threads)
        ranker.fit(tiny).predict(features)

    def seed_matters(self, num_documents: int) -> bool:
        samples = min(self.bagging_fraction, self.feature_fraction, self.feature_fraction_bynode) < 1
        return (
            samples
            or self.objective == "rank_xendcg"
            or not self.deterministic
            or num_documents > MOST_DOCUMENTS_BINNED
            or not self.extra.keys() <= _WITHOUT_SEED
        )

    def unmatched(self) -> tuple[str, ...]:
        unset = unset_fields(self)
        if unset == SHARED_FIELDS:
            own = "LightGBM's own defaults are used, not the shared parameters"
            return (f"{own}; but deterministic is on." if self.deterministic else f"{own}.",)
        forgets = max(self.l2 or 0.0, self.min_split_gain or 0.0, self.max_delta_step or 0.0) > 0
        sampled = min(self.bagging_fraction, self.feature_fraction, self.feature_fraction_bynode) < 1
        sentences = {
            f"LightGBM's own defaults are used for {', '.join(unset)}.": bool(unset),
            "Bin edges are LightGBM's own, with at least 3 documents in a bin.": True,
            "A missing value counts as 0 in a feature that had none in training.": True,
            # Seen with l2=5: LightGBM marks a feature as not splittable, and its children never look at it.
            "Where no split on a feature gains enough, no split below is tried on it.": forgets,
            "Rows and features are sampled in LightGBM's own way.": sampled,
            "rank_xendcg is another loss than LambdaMART's.": self.objective == "rank_xendcg",
        }
        return tuple(sentence for sentence, applies in sentences.items() if applies)

    def refusals(self, train: RankingDataset) -> Iterator[str]:
        highest = MAX_GRADE if self.label_gain is None else len(self.label_gain) - 1
        wrong = np.flatnonzero((train.labels % 1 != 0) | (train.labels > highest))
        if wrong.size:
            yield (
                f"labels[{wrong[0]}] is {train.labels[wrong[0]]}; LightGBM takes the grades 0, 1, ..., "
                f"{highest} only. Map the labels to such grades; label_gain gives each grade its gain."
            )
        largest = int(train.query_sizes.argmax())
        if self.objective == "lambdarank" and train.query_sizes[largest] > MAX_QUERY_SIZE:
            yield (
                f"query {train.query_ids[largest]} has {train.query_sizes[largest]} documents; LightGBM's "
                f"lambdarank takes {MAX_QUERY_SIZE} at the most. Leave some out, or set "
                "objective=rank_xendcg."
            )

    def cautions(self, train: RankingDataset) -> Iterator[str]:
        yield from super().cautions(train)
        yield from ties_by_row(train)
        if train.positions is not None and self.lambdarank_position_bias_regularization is None:
            yield (
                "positions are not used; set model.lambdarank_position_bias_regularization to learn position "
                "biases."
            )

    def own_figures(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """ndcg@k and map@k of `names`: a booster without trees, whose scores begin at these, is evaluated."""
        wanted = [name for name in names if name.partition("@")[0] in ("ndcg", "map") and "@" in name]
        if not wanted or self.label_gain is not None:
            return {}
        parameters = {
            "objective": "lambdarank",
            "metric": ["ndcg", "map"],
            "eval_at": sorted({int(name.partition("@")[2]) for name in wanted}),
            "num_threads": resolve_threads(self.num_threads),
            "verbosity": -1,
        }
        data = lgb.Dataset(
            # LightGBM takes no data without a feature, and its metrics look at none.
            np.zeros((dataset.num_documents, 1), dtype=np.float32),
            label=dataset.labels,
            group=dataset.query_sizes,
            weight=None if dataset.query_weights is None else dataset.weight_of_document,
            init_score=scores.astype(np.float64),
            params=parameters,
        )
        figures = {each[1]: each[2] for each in lgb.Booster(parameters, data).eval_train()}
        return {name: float(figures[name]) for name in wanted}

    def own_parameters(self) -> dict[str, Any]:
        own = given(
            {
                "learning_rate": self.learning_rate,
                "num_leaves": self.num_leaves,
                "min_data_in_leaf": self.min_docs_in_leaf,
                "min_sum_hessian_in_leaf": self.min_sum_hessian,
                "min_gain_to_split": self.min_split_gain,
                "max_delta_step": self.max_delta_step,
                "lambda_l2": self.l2,
                "max_bin": self.max_bins,
                "lambdarank_truncation_level": self.truncation,
                "label_gain": self.label_gain,
                "lambdarank_position_bias_regularization": self.lambdarank_position_bias_regularization,
            }
        )
        return {
            **own,
            "objective": self.objective,
            "lambdarank_norm": self.lambdarank_norm,
            "sigmoid": self.sigmoid,
            "bagging_fraction": self.bagging_fraction,
            "bagging_freq": self.bagging_freq,
            "bagging_by_query": self.bagging_by_query,
            "feature_fraction": self.feature_fraction,
            "feature_fraction_bynode": self.feature_fraction_bynode,
            "deterministic": self.deterministic,
            # LightGBM otherwise times both ways of building histograms, and takes the one that won.
            "force_col_wise": self.deterministic and "force_row_wise" not in self.extra,
            "seed": self.seed,
            "num_threads": resolve_threads(self.num_threads),
            "metric": "none",
            "verbosity": -1,
            **self.extra,
        }

    def _start(self, train: RankingDataset) -> tuple[lgb.Booster, lgb.Dataset]:
        """A booster without trees, and the data that it will grow them on."""
        try:
            train_set = self._dataset(train)
            return lgb.Booster(self.own_parameters(), train_set), train_set
        except lgb.basic.LightGBMError as error:
            if not self.extra:
                raise
            raise ConfigError(f"LightGBM refuses extra {self.extra}: {error}") from None

    def _dataset(self, data: RankingDataset, reference: lgb.Dataset | None = None) -> lgb.Dataset:
        learns_bias = self.lambdarank_position_bias_regularization is not None
        return lgb.Dataset(
            data.features,
            label=data.labels,
            group=data.query_sizes,
            weight=None if data.query_weights is None else data.weight_of_document,
            position=data.positions if learns_bias and reference is None else None,
            reference=reference,
            params=self.own_parameters(),
        ).construct()

    def _boost_watched(
        self,
        booster: lgb.Booster,
        train_set: lgb.Dataset,
        valid_set: lgb.Dataset | None,
        monitor: Monitor,
    ) -> int:
        """Boosts until the monitor, or the number of trees, says stop; returns the iterations run."""
        if valid_set is not None:
            booster.add_valid(valid_set, "valid")
        num_trees = 0
        for iteration in range(1, self.num_trees + 1):
            booster.update()
            if booster.current_iteration() == num_trees:
                # No leaf could be split, and LightGBM dropped the tree; under sampling the next may stay.
                continue
            num_trees = booster.current_iteration()
            train_scores = _running_scores(booster, train_set) if monitor.wants_train_scores else None
            valid_scores = None if valid_set is None else _running_scores(booster, valid_set)
            if monitor.should_stop(num_trees, train_scores, valid_scores):
                return iteration
        return self.num_trees

    def _refuse_lambdarank_fields(self) -> None:
        neutral: dict[str, Any] = {
            "truncation": None,
            "label_gain": None,
            "lambdarank_position_bias_regularization": None,
            "lambdarank_norm": True,
            "sigmoid": 1.0,
        }
        for name, value in neutral.items():
            if getattr(self, name) != value:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, which objective=rank_xendcg does not have; set "
                    f"{name}={json.dumps(value)}, or objective=lambdarank."
                )

    def _check_extra(self) -> None:
        if not self.extra:
            return
        refuse_collisions(self.extra, _INSTEAD)
        refuse_unknown("LightGBM", self.extra, _parameter_names() - _OF_FILES)
        if self.extra.get("boosting") == "dart" and self.early_stopping is not None:
            raise ConfigError(
                "extra.boosting is dart, which rescales earlier trees, so that no earlier iteration can be "
                "returned to; set early_stopping=null."
            )


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
