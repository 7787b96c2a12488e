"""LightGBM behind the Ranker contract.

The shared fields are in LightGBM's units: they are LightGBM's parameters under other names, and the other
backends translate them. LightGBM's metrics are off. Early stopping uses LightGBM's running scores (float64),
which only `Booster.eval` makes public.

Monitoring costs little [measured: 30,000 x 136 training documents, 10,000 validation documents, 2 cores]: an
iteration takes 21 ms, of which the validation scores take at most 1 ms and passing them on 0.3 ms; the
evaluator adds 1.1 ms. If a fit takes seconds longer, the cause is another one: LightGBM's threads spin while
they wait for each other. With another process on one of the two cores, 40 iterations took 8 to 28 s instead
of 0.9 s, monitored or not, and 1.0 s with OMP_WAIT_POLICY=passive. That variable must be set before LightGBM
is imported, and costs up to 10 % on idle cores.

    features      features that are not one array, in forms that LightGBM takes
    on_workers    the fit on the workers of a Dask cluster
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import FeatureMatrix
from ltrbench.distributed.shards import PlacedShards
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.rankers.base import FitSummary, check_fitted
from ltrbench.rankers.capabilities import Finding, FitsTogether, Severity
from ltrbench.rankers.early_stopping import FitCurve, Monitor
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
from ltrbench.rankers.models.formats.boosters.lightgbm_trees import (
    check_text,
    parse_lightgbm_file,
    tree_of_lightgbm,
)
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.shapes import Features, Scores

try:
    import lightgbm as lgb
except ImportError as error:
    raise ImportError("model=lightgbm needs LightGBM: pip install lightgbm") from error
except OSError as error:
    # LightGBM's wheel needs the OpenMP runtime of the system.
    raise ImportError(
        f"LightGBM is installed, but its OpenMP runtime is missing ({error}): apt install libgomp1"
    ) from error

from ltrbench.rankers.lightgbm.features import MOST_DOCUMENTS_BINNED, csr_of_zeros, make_lightgbm_dataset
from ltrbench.rankers.lightgbm.on_workers import check_threads, fit_on_workers, replayed_curve

HIGHEST_GRADE = 30
"""Highest label in LightGBM's default gains, 2^l - 1."""
MAX_QUERY_SIZE = 10_000
"""Maximum number of documents per query in lambdarank."""

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
"""Parameters of `extra` that are known not to draw random numbers."""

_NOT_DISTRIBUTED = {"linear_tree", "tree_learner", "forcedsplits_filename", "num_machines", "machines"}
"""Parameters of `extra` that a distributed fit does not support, or that `lightgbm.dask` sets."""

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
"""Parameters of the data files of LightGBM's command line; they have no effect on arrays."""


@dataclass(kw_only=True)
class LightGBMRanker(LibraryRanker):
    """LightGBM's LambdaMART, or its cross-entropy objective for NDCG.

    The weight of a query is the weight of each of its documents; weights may vary within a query.
    """

    objective: str = "lambdarank"
    """lambdarank: pairs weighted by their change of NDCG; rank_xendcg: cross entropy with NDCG's gains."""
    label_gain: list[float] | None = None
    """Gains of the labels 0, 1, 2, ...; None: 2^label - 1, for labels up to 30."""
    lambdarank_norm: bool = True
    """Divides the weight of a pair by 0.01 + |score difference|, and scales the gradients of a query by
    log2(1 + S) / S, where S is the sum of the gradients of its pairs."""
    sigmoid: float = 1.0
    """Slope of the logistic function of a pair's score difference."""
    lambdarank_position_bias_regularization: float | None = None
    """L2 penalty of the bias learned for each position in `RankingDataset.positions`; None: positions are not
    used."""
    bagging_fraction: float = 1.0
    """Fraction of the documents, or queries, sampled per tree; needs bagging_freq."""
    bagging_freq: int = 0
    """Number of iterations between two samples; 0: no sampling."""
    bagging_by_query: bool = False
    """Samples whole queries instead of documents."""
    feature_fraction: float = 1.0
    """Fraction of the features sampled per tree."""
    feature_fraction_bynode: float = 1.0
    """Fraction of the tree's features sampled per split."""
    deterministic: bool = True
    """Gives the same bits on any number of threads: sums are taken in a fixed order, and histograms are built
    column-wise instead of by the method that is faster in a trial run."""

    library = "LightGBM"
    library_error = lgb.basic.LightGBMError
    library_convention = "lightgbm"
    packages = ("lightgbm",)
    reads_blocks = True
    is_repeatable_on_workers: ClassVar[bool] = False
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
                f"bagging_fraction is {self.bagging_fraction}, but bagging_freq is 0, so nothing would be "
                "sampled. Set bagging_freq=1 for a new sample in every iteration."
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
                "extra.boosting is dart, which rescales earlier trees, so early stopping cannot return to an "
                "earlier iteration. Set early_stopping=null."
            )

    def check_distributed(self) -> None:
        alone = "or fit in one process with distributed=none"
        if self.early_stopping is not None:
            raise ConfigError(
                "early_stopping is set, but LightGBM's distributed fit (lightgbm.dask) has no early stopping "
                f"(issue 3712 of LightGBM). Set early_stopping=null, {alone}."
            )
        if self.lambdarank_position_bias_regularization is not None:
            raise ConfigError(
                "lambdarank_position_bias_regularization is "
                f"{self.lambdarank_position_bias_regularization}, but LightGBM's distributed fit "
                f"(lightgbm.dask) takes no positions. Set the parameter to null, {alone}."
            )
        for name in sorted(_NOT_DISTRIBUTED & self.extra.keys()):
            raise ConfigError(
                f"extra.{name} is {self.extra[name]}, but cannot be set in a distributed fit of LightGBM "
                f"(lightgbm.dask). Remove extra.{name}, {alone}."
            )

    def fit_distributed(
        self,
        workers: FitsTogether,
        train: PlacedShards,
        valid: PlacedShards | None = None,
        metrics: Sequence[str] = (),
    ) -> FitCurve:
        check_threads(workers, self.num_threads)
        with self._refusing_extra():
            model = fit_on_workers(workers, train, self.num_trees, self.library_parameters())
        curve, seconds = replayed_curve(workers, train, valid, model, tuple(metrics))
        self._model, self._is_deep = lgb.Booster(model_str=model), False
        self.summary = FitSummary(self._model.current_iteration(), self.num_trees, seconds)
        return curve

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> tuple[lgb.Booster, int, int]:
        if self.lambdarank_position_bias_regularization is not None and train.positions is None:
            raise ConfigError(
                "lambdarank_position_bias_regularization is "
                f"{self.lambdarank_position_bias_regularization}, but the training data have no positions. "
                "Pass RankingDataset(positions=...), or set the parameter to null."
            )
        with self._refusing_extra():
            train_set = self._dataset(train)
            booster = lgb.Booster(self.library_parameters(), train_set)
        valid_set = None
        if valid is not None and monitor.wants_scores:
            valid_set = self._dataset(valid, reference=train_set)
            booster.add_valid(valid_set, "valid")

        def grow(_: int) -> int:
            # LightGBM drops a tree without a split; with sampling, the next tree may have one.
            booster.update()
            return booster.current_iteration()

        def scores_of(data: lgb.Dataset) -> Scores:
            return _running_scores(booster, data)

        num_iterations = self._boost(grow, scores_of, train_set, valid_set, monitor)
        kept = monitor.best_iteration or booster.current_iteration()
        # Via text, as lgb.train does: this drops the trimmed trees and releases the training data.
        model = lgb.Booster(model_str=booster.model_to_string(num_iteration=kept))
        return model, kept, num_iterations

    def _dataset(self, data: RankingDataset, reference: lgb.Dataset | None = None) -> lgb.Dataset:
        learns_bias = self.lambdarank_position_bias_regularization is not None
        return make_lightgbm_dataset(
            data.features,
            label=data.labels,
            group=data.query_sizes,
            weight=weights_of_documents(data),
            position=data.positions if learns_bias and reference is None else None,
            reference=reference,
            params=self.library_parameters(),
        )

    def _num_features(self, model: lgb.Booster) -> int:
        return model.num_feature()

    def _sparse_form(self, features: FeatureMatrix) -> Any | None:
        return csr_of_zeros(features)

    def _scores(self, model: lgb.Booster, features: Any) -> NDArray[np.float64]:
        return np.asarray(model.predict(features, num_threads=self._threads))

    def _shap_values(self, model: lgb.Booster, features: Features) -> NDArray[np.float64] | None:
        if self.extra.get("linear_tree"):
            return None  # LightGBM does not support linear leaves here
        # LightGBM's random forest predicts the mean of its trees but explains their sum.
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
        file = parse_lightgbm_file(booster.model_to_string().encode())
        if any(tree.is_linear for tree in file.trees):
            raise ConfigError(
                "trees with extra.linear_tree have linear models in their leaves, which cannot be shown. Fit "
                "without extra.linear_tree."
            )
        # A random forest (extra.boosting=rf) predicts the mean of its trees.
        weight = 1 / len(file.trees) if "average_output" in file.head else 1.0
        return Ensemble(
            tuple(tree_of_lightgbm(tree, weight) for tree in file.trees), threshold_dtype="float64"
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
        return ", but deterministic is true" if self.deterministic else ""

    def _inapplicable(self) -> tuple[str, ...]:
        return ("truncation",) if self.objective == "rank_xendcg" else ()

    def _departures(self) -> dict[str, bool]:
        forgets = max(self.l2 or 0.0, self.min_split_gain or 0.0, self.max_delta_step or 0.0) > 0
        return {
            "Bin edges differ from other backends: LightGBM bins features by its own algorithm, with at "
            "least 3 documents per bin.": True,
            "Missing values are treated as 0 if the feature had no missing values in training.": True,
            # Observed with l2=5: LightGBM marks a feature as not splittable, and child leaves skip it.
            "LightGBM skips a feature in all leaves below a leaf where no split on it had enough "
            "gain.": forgets,
            "Samples differ from other backends: LightGBM samples documents and features by its own "
            "algorithm.": self._samples,
            "The objective is rank_xendcg (cross entropy), not LambdaMART on NDCG; truncation is not "
            "applied.": self.objective == "rank_xendcg",
        }

    def _refusals_in(self, train: RankingDataset) -> Iterator[Finding]:
        highest = HIGHEST_GRADE if self.label_gain is None else len(self.label_gain) - 1
        yield from refused_labels(
            train.labels,
            (train.labels % 1 != 0) | (train.labels > highest),
            f"LightGBM accepts only the grades 0, 1, ..., {highest}. Map the labels to these grades; "
            "label_gain sets the gain of each grade.",
        )
        largest = int(train.query_sizes.argmax())
        if self.objective == "lambdarank" and train.query_sizes[largest] > MAX_QUERY_SIZE:
            yield Finding(
                Severity.REFUSED,
                f"query {train.query_ids[largest]} has {train.query_sizes[largest]} documents; LightGBM's "
                f"lambdarank accepts at most {MAX_QUERY_SIZE} per query. Remove documents, or set "
                "objective=rank_xendcg.",
            )

    def _cautions_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from ties_by_row(train)
        if train.positions is not None and self.lambdarank_position_bias_regularization is None:
            yield Finding(
                Severity.CAUTION,
                "The positions of the training data are not used; set "
                "model.lambdarank_position_bias_regularization to learn position biases.",
            )

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns ndcg@k and map@k, from a booster without trees whose initial scores are `scores`."""
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
            # LightGBM needs at least one feature; its metrics use none.
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
            # Otherwise LightGBM times both methods of building histograms, and uses the faster one.
            "force_col_wise": self.deterministic and "force_row_wise" not in self.extra,
            "metric": "none",
            "verbosity": -1,
            **self.extra,
        }


def _running_scores(booster: lgb.Booster, data: lgb.Dataset) -> Scores:
    """Returns the (D,) scores of the trees so far."""
    seen: list[Scores] = []

    def keep(scores: Scores, _: lgb.Dataset) -> tuple[str, float, bool]:
        # A copy, because LightGBM writes the next iteration's scores into the same array.
        seen.append(scores.copy())
        return "scores", 0.0, True

    booster.eval(data, "scores", keep)
    return seen[0]


@functools.cache
def _parameter_names() -> frozenset[str]:
    """Returns all parameters of this version of LightGBM, which it lists in the text of a model."""
    quiet = {"verbosity": -1, "num_threads": 1}
    empty = lgb.Dataset(np.zeros((2, 1), dtype=np.float32), label=np.zeros(2), params=quiet)
    return frozenset(re.findall(r"^\[(\w+):", lgb.Booster(quiet, empty).model_to_string(), re.MULTILINE))
