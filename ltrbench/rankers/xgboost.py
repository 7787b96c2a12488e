"""XGBoost behind the Ranker contract.

The shared fields are in LightGBM's units. XGBoost's LambdaMART has the same gradient but twice the hessian,
so a Newton step is half as long and a gain half as large. The declarations of the fields compensate, and the
two libraries grow the same first tree if their bins are equal and LightGBM's minimum number of documents per
leaf, which XGBoost does not have, is 1. XGBoost gave the same bits on 1, 2 and 3 threads in every test, also
with sampling, but its documentation does not promise it.

XGBoost's metrics are off. Early stopping uses XGBoost's scores (float32) of a validation matrix in the
booster's cache, so that a prediction evaluates the newest tree only: 1.7 ms per iteration for 10,000 x 136
[measured; the update takes 42 ms; a validation matrix of bins instead of values takes ten times as long].

A distributed fit is the same code in every member of a team: inside a collective XGBoost chooses its bins
and adds its histograms over all members. No query is divided among members, so that queries need not be
regrouped as `xgboost.dask.DaskXGBRanker` does by default. Two distributed fits may differ in the last bits.
Each member scales its query weights to a mean of 1 [observed, XGBoost 3.2], so shards whose mean weights
differ are refused.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, is_sparse, row_blocks
from ltrbench.distributed import FitsTogether, PlacedShards, QueryShard
from ltrbench.errors import ConfigError, DataError
from ltrbench.measure import available_bytes
from ltrbench.models.trees import Ensemble
from ltrbench.models.xgboost_files import read_xgboost
from ltrbench.native.objectives.base import Objective, name_or_objective
from ltrbench.native.team import Team
from ltrbench.rankers.base import (
    NO_DEBIASING,
    PROPENSITY,
    WEIGHTS,
    Debiasing,
    Finding,
    FitCurve,
    FitSummary,
    Monitor,
    Severity,
    check_fitted,
    fit_on_members,
)
from ltrbench.rankers.library import (
    SHARED_FIELDS,
    ImportedOnUse,
    LibraryRanker,
    array_or_csr,
    given,
    unset_fields,
    written_names,
)
from ltrbench.settings import IS_ON, samples, setting
from ltrbench.shapes import Features, Labels, Scores

if TYPE_CHECKING:
    import xgboost as xgb
else:
    xgb = ImportedOnUse(
        "xgboost",
        "model=xgboost needs XGBoost: pip install xgboost-cpu, or xgboost for GPUs",
    )

# ---- XGBoost's matrices of features that are not one array: the same models and scores as for an array.
#
#     _batches_class     blocks of rows, from which XGBoost makes the bins of a matrix
#     training_matrix    the bins of the training set, in memory or in files
#     bins_folder        the folder of these files, if the bins do not fit into memory
#     RunningScores      scores of a validation set during a fit, read by blocks
#
# XGBoost keeps the bin of every value twice: by columns in 1 byte (2 bytes for more than 256 bins), and by
# rows in up to 4 bytes, if any value of the matrix is missing [measured, XGBoost 3.2].

_DEFAULT_BINS = 256
"""XGBoost's default of max_bin."""

_SHARE_OF_BINS = 0.8
"""Share of the available memory for the bins; gradients and histograms need the rest."""

_SKETCH_BYTES_OF_BIN = 4500
"""Bytes of a feature's quantile sketch per bin [measured, 300,000 x 136, 256 bins, XGBoost 3.2]."""
_SKETCH_BYTES_OF_VALUE = 32
"""Upper limit: the sketch of few values holds all of them [measured, 5,000 x 3,000, 30,000 x 1,000, and 2,000
x 20,000 of which nearly all are 0]."""


@functools.cache
def _batches_class() -> Callable[..., xgb.DataIter]:
    """Returns a class of blocks of rows, without labels and queries.

    A batch with a part of a query would silently make this part a query. Labels and queries are therefore set
    for the finished matrix.

    Args of the class:
        row_weights: (D,), weights of the quantile sketch.
        cache_prefix: beginning of the paths of cache files; None: no files.
        types: XGBoost's type of each feature; None: all are numbers.
    """

    class Batches(xgb.DataIter):
        def __init__(
            self,
            features: AnyFeatures,
            row_weights: NDArray[np.float64] | None,
            cache_prefix: str | None,
            types: list[str] | None = None,
        ) -> None:
            super().__init__(cache_prefix=cache_prefix)
            self._features = features
            self._row_weights = row_weights
            self._types = types
            self._blocks = row_blocks(features)

        def reset(self) -> None:
            self._blocks = row_blocks(self._features)

        def next(self, input_data: Callable[..., None]) -> bool:
            for start, block in self._blocks:
                weights = None
                if self._row_weights is not None:
                    weights = self._row_weights[start : start + len(block)]
                input_data(data=block, weight=weights, feature_types=self._types)
                return True
            return False

    return Batches


def training_matrix(
    train: RankingDataset, num_threads: int, max_bins: int | None, folder: Path | None
) -> xgb.DMatrix:
    """Returns the bins of a training set: the same trees in the same time as from a matrix of the values,
    with less memory. The number of bins must equal the booster's.

    Args:
        folder: folder for the bins of features that are read by blocks; None: they are kept in memory.
    """
    features = train.features
    content = {
        "label": train.labels,
        "group": train.query_sizes,
        "weight": train.query_weights,
    }
    settings = {"nthread": num_threads, **given({"max_bin": max_bins})}
    types = _types_of_features(train)
    if (rows := array_or_csr(features, np.nan)) is not None:
        return xgb.QuantileDMatrix(rows, **content, **settings, feature_types=types)
    cache_prefix = None
    if folder is not None:
        cache_prefix = str(folder / "bins")
    batches = _batches_class()(features, _sketch_weights(train), cache_prefix, types)
    kind = xgb.QuantileDMatrix if folder is None else xgb.ExtMemQuantileDMatrix
    matrix: xgb.DMatrix = kind(batches, **settings)
    matrix.set_info(**content)
    return matrix


@contextlib.contextmanager
def bins_folder(features: AnyFeatures, max_bins: int | None) -> Iterator[Path | None]:
    """Provides a temporary folder for the bins of features that are read by blocks; None if the bins and the
    quantile sketches, from which XGBoost chooses them, fit into memory."""
    num_bins = max_bins or _DEFAULT_BINS
    bytes_of_bin = 1 if num_bins <= 256 else 2
    bins = features.size * (4 + bytes_of_bin)
    sketches = min(
        features.shape[1] * num_bins * _SKETCH_BYTES_OF_BIN,
        features.size * _SKETCH_BYTES_OF_VALUE,
    )
    has_array = array_or_csr(features, np.nan) is not None
    if has_array or bins + sketches <= _SHARE_OF_BINS * available_bytes():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ltrbench_") as folder:
        yield Path(folder)


def _types_of_features(data: RankingDataset) -> list[str] | None:
    """Returns XGBoost's type of each feature; None if none is categorical."""
    if not data.categorical_features:
        return None
    return [
        "c" if feature in data.categorical_features else "q"
        for feature in range(data.num_features)
    ]


def _sketch_weights(train: RankingDataset) -> NDArray[np.float64] | None:
    """Returns the (D,) weights that XGBoost's quantile sketch gives the documents of one array."""
    if train.query_weights is None:
        return None
    weights = train.weight_of_document
    version = tuple(map(int, xgb.__version__.split(".")[:2]))
    # XGBoost's quantile sketch weighted the first document of a query like the query before it.
    if version < (3, 3):
        return np.concatenate([weights[:1], weights[:-1]])
    return weights


class RunningScores:
    """Scores of the trees so far, (D,) float32, of a validation set that is read by blocks.

    They have the bits of a prediction by all trees, because XGBoost adds trees one after the other.
    """

    def __init__(self, features: AnyFeatures) -> None:
        self._features = features
        self._scores = np.zeros(len(features), dtype=np.float32)
        self._num_trees = 0

    def after(self, booster: xgb.Booster) -> NDArray[np.float32]:
        """Adds the trees since the last call, and returns a copy of the scores."""
        num_trees = booster.num_boosted_rounds()
        for start, block in row_blocks(self._features):
            rows = slice(start, start + len(block))
            before = self._scores[rows] if self._num_trees else None
            self._scores[rows] = booster.inplace_predict(
                block,
                iteration_range=(self._num_trees, num_trees),
                predict_type="margin",
                base_margin=before,
            )
        self._num_trees = num_trees
        return self._scores.copy()


_Matrix: TypeAlias = "xgb.DMatrix | RunningScores"
"""A data set during a fit."""

DEFAULT_ETA = 0.3
"""XGBoost's default learning rate."""
MOST_UNEQUAL = 1.02
"""Largest quotient of the mean query weights of two shards of a distributed fit."""
HIGHEST_GRADE_OF_GAIN = 31
"""Highest label for XGBoost's exponential gain, 2^l - 1."""

_OBJECTIVES = ("ndcg", "map", "pairwise")
_PAIRS = {"objective": _OBJECTIVES}
"""What a setting of the pairs of documents depends on."""

_FEWEST = 1e-9
"""Number of documents of a leaf that no training document reaches."""

_MOST_POSITIONS = 32
"""Number of positions whose biases XGBoost learns if it has no number of top ranks."""

_WITHOUT_SEED = {"alpha", "reg_alpha"}
"""Parameters of `extra` that are known not to draw random numbers."""


@dataclass(kw_only=True)
class XGBoostRanker(LibraryRanker):
    """XGBoost's LambdaMART. XGBoost scales the query weights to a mean of 1."""

    objective: str | Objective = setting(
        "ndcg", refuse=name_or_objective(*_OBJECTIVES), names="objective"
    )
    """Weight of a pair: ndcg or map (labels 0 and 1 only): its change of the metric; pairwise: 1."""
    lambdarank_pair_method: str | None = setting(
        None, choices=("topk", "mean"), names="lambdarank_pair_method", only_with=_PAIRS
    )
    """topk: pairs with a document in the top ranks; mean: pairs drawn at random; None: topk. The draws did
    not change with the seed in tests."""
    lambdarank_num_pair_per_sample: int | None = setting(
        None, at_least=1, names="lambdarank_num_pair_per_sample", only_with=_PAIRS
    )
    """mean: number of pairs drawn per document; topk: number of top ranks, also set by `truncation`."""
    lambdarank_normalization: bool = setting(
        True, names="lambdarank_normalization", only_with=_PAIRS
    )
    """Scales the gradients of a query, one half of LightGBM's lambdarank_norm. topk: by log2(1 + S) / S,
    where S is the sum of the gradients of its pairs; mean: by 1 / number of pairs."""
    lambdarank_score_normalization: bool = setting(
        True, names="lambdarank_score_normalization", only_with=_PAIRS
    )
    """Divides the weight of a pair by 0.01 + |score difference|, the other half."""
    lambdarank_unbiased: bool = setting(
        False, names="lambdarank_unbiased", only_with=_PAIRS
    )
    """Learns position biases from clicks; the rows of a query must be in the order shown, without gaps."""
    lambdarank_bias_norm: float = setting(
        1.0,
        at_least=0,
        names="lambdarank_bias_norm",
        only_with=_PAIRS | {"lambdarank_unbiased": IS_ON},
    )
    """Regularisation of the position biases: a bias is raised to the power 1 / (1 + norm)."""
    ndcg_exp_gain: bool = setting(True, names="ndcg_exp_gain", only_with=_PAIRS)
    """Gain of a label: 2^label - 1; false: the label itself."""
    grow_policy: str | None = setting(
        None, choices=("depthwise", "lossguide"), names="grow_policy"
    )
    """depthwise or lossguide; None: lossguide if num_leaves is set, else XGBoost's default."""
    max_depth: int | None = setting(None, at_least=0, names="max_depth")
    """Maximum depth of a tree; 0: no limit; None: no limit if num_leaves is set, else XGBoost's default."""
    subsample: float = setting(1.0, above=0, at_most=1, names="subsample")
    """Share of the documents sampled per tree."""
    colsample_bytree: float = setting(1.0, above=0, at_most=1, names="colsample_bytree")
    """Share of the features sampled per tree."""
    colsample_bylevel: float = setting(
        1.0, above=0, at_most=1, names="colsample_bylevel"
    )
    """Share of the tree's features sampled per level."""
    colsample_bynode: float = setting(1.0, above=0, at_most=1, names="colsample_bynode")
    """Share of the level's features sampled per split."""

    library = "XGBoost"
    absent_value = np.nan
    packages = ("xgboost",)
    reads_blocks = True
    debiasing: ClassVar[Debiasing] = {
        NO_DEBIASING: {"lambdarank_unbiased": False},
        PROPENSITY: {"lambdarank_unbiased": True},
        WEIGHTS: {"lambdarank_unbiased": False},
    }
    model_file = "model.ubj"
    metric_names = "eval_metric disable_default_eval_metric"
    refused_names: ClassVar[Mapping[str, str]] = {
        "num_parallel_tree": "every backend grows one tree per iteration; set the field num_trees instead",
        "num_class": "a ranker has one score per document; remove it",
        "validate_parameters": "misspelt parameters are always refused; remove it",
    }
    score_dtype = np.float32
    is_repeatable_on_workers: ClassVar[bool] = False
    missing_joins_categories: ClassVar[bool] = True

    @classmethod
    def library_error(cls) -> type[Exception]:
        return xgb.core.XGBoostError

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            self.truncation is not None
            and self.lambdarank_num_pair_per_sample is not None
        ):
            raise ConfigError(
                f"truncation is {self.truncation} and lambdarank_num_pair_per_sample is "
                f"{self.lambdarank_num_pair_per_sample}, but both set the same parameter. Set one of them to "
                "null."
            )
        if self.extra:
            self._check_extra()

    def _check_extra(self) -> None:
        if self.extra.get("booster", "gbtree") != "gbtree":
            raise ConfigError(
                f"extra.booster is {self.extra['booster']}, but only gbtree can return to an earlier "
                "iteration. Remove extra.booster."
            )
        features = np.zeros((2, 1), dtype=np.float32)
        nothing = xgb.DMatrix(features, label=np.zeros(2), nthread=1)
        # Another user of XGBoost in this process may have silenced it.
        with (
            xgb.config_context(verbosity=1),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                xgb.Booster(self.library_parameters(), [nothing]).save_config()
            except (
                xgb.core.XGBoostError,
                AttributeError,
                TypeError,
                ValueError,
            ) as error:
                reason = str(error).partition("Stack trace")[0].strip()
                raise ConfigError(
                    f"XGBoost refuses extra {self.extra}: {reason}"
                ) from None
        # XGBoost only warns about a parameter that is unknown or has no effect.
        messages = "\n".join(str(each.message) for each in caught)
        ignored = [name for name in self.extra if f'"{name}"' in messages]
        if ignored:
            raise ConfigError(
                f"extra.{ignored[0]} has no effect in XGBoost; correct or remove it."
            )

    def check_distributed(self) -> None:
        super().check_distributed()
        if self.lambdarank_unbiased:
            raise ConfigError(
                "lambdarank_unbiased is true, but in XGBoost's distributed fit all workers take the position "
                "biases of one worker's queries. Set lambdarank_unbiased=false, fit in one process with "
                "distributed=none, or use model=native."
            )

    def fit_distributed(
        self,
        workers: FitsTogether,
        train: PlacedShards,
        valid: PlacedShards | None = None,
        metrics: Sequence[str] = (),
    ) -> FitCurve:
        fitted, curve = fit_on_members(
            workers, self, train, valid, metrics, _fit_member, _weight_scale_of(train)
        )
        content, self.summary = fitted
        self._model = self._from_bytes(content)
        return curve

    def _boosted(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        monitor: Monitor,
        weight_scale: float | None = None,
    ) -> tuple[xgb.Booster, int, int]:
        if "tree_method" in self.extra:  # such a matrix needs the features as one array
            train = train.in_memory()
        scale = _weight_scale(train) if weight_scale is None else weight_scale
        with bins_folder(train.features, self.max_bins) as folder:
            train_matrix = self._train_matrix(train, folder)
            valid_matrix = None
            if valid is not None and monitor.wants_scores:
                valid_matrix = self._valid_matrix(valid)
            # For a matrix in the booster's cache, a prediction evaluates only the newest tree.
            cached = [
                matrix
                for matrix in (train_matrix, valid_matrix)
                if isinstance(matrix, xgb.DMatrix)
            ]
            signs = {
                name: tuple(values)
                for name, values in self._monotone_signs(train).items()
            }
            booster = xgb.Booster({**self._parameters(scale), **signs}, cached)

            gradients = self._gradients_of(train)

            def grow(iteration: int) -> int:
                booster.update(train_matrix, iteration - 1, gradients)
                return iteration

            def scores_of(matrix: _Matrix) -> Scores:
                if isinstance(matrix, RunningScores):
                    return matrix.after(booster)
                return booster.predict(matrix, output_margin=True)

            matrices: tuple[_Matrix, _Matrix | None] = train_matrix, valid_matrix
            num_iterations = self._boost(grow, scores_of, *matrices, monitor)
            kept = monitor.best_iteration or booster.num_boosted_rounds()
            # A slice holds only the kept trees, and releases the training data.
            return self._with_threads(booster[:kept]), kept, num_iterations

    def _train_matrix(self, train: RankingDataset, folder: Path | None) -> xgb.DMatrix:
        if "tree_method" not in self.extra:
            return training_matrix(train, self._threads, self.max_bins, folder)
        content = {
            "label": train.labels,
            "group": train.query_sizes,
            "weight": train.query_weights,
        }
        types = _types_of_features(train)
        return xgb.DMatrix(
            train.features, **content, nthread=self._threads, feature_types=types
        )

    def _valid_matrix(self, valid: RankingDataset) -> _Matrix:
        rows = array_or_csr(valid.features, np.nan)
        if rows is None:
            # A matrix would hold twice the bytes of the values.
            return RunningScores(valid.features)
        return xgb.DMatrix(
            rows, nthread=self._threads, feature_types=_types_of_features(valid)
        )

    def _with_threads(self, booster: xgb.Booster) -> xgb.Booster:
        # Neither a slice nor a saved model keeps the number of threads.
        booster.set_param({"nthread": self._threads})
        return booster

    def _num_features(self, model: xgb.Booster) -> int:
        return model.num_features()

    def _scores(self, model: xgb.Booster, features: Any) -> NDArray[np.float32]:
        if isinstance(features, np.ndarray):
            scores: NDArray[np.float32] = model.inplace_predict(
                features, predict_type="margin"
            )
            return scores
        # In place, XGBoost visits every cell of a sparse row: 20 times slower with 10^6 features [measured].
        return model.predict(
            xgb.DMatrix(features, nthread=self._threads), output_margin=True
        )

    def _shap_values(
        self, model: xgb.Booster, features: Features
    ) -> NDArray[np.float64]:
        """Returns XGBoost's TreeSHAP values, whose expected scores weight the branches of a tree by sums of
        hessians; the other backends weight them by document counts, as `counted_on` does."""
        matrix = xgb.DMatrix(
            features, nthread=self._threads, feature_types=model.feature_types
        )
        return np.asarray(model.predict(matrix, pred_contribs=True), dtype=np.float64)

    def counted_on(self, train: RankingDataset) -> XGBoostRanker:
        """Returns a ranker whose trees have numbers of documents in place of the sums of hessians."""
        booster: xgb.Booster = check_fitted(self._model)
        content = json.loads(bytes(booster.save_raw("json")))
        trees = content["learner"]["gradient_booster"]["model"]["trees"]
        of_leaves = [np.zeros(len(tree["left_children"])) for tree in trees]
        for _, block in row_blocks(train.features):
            matrix = xgb.DMatrix(
                block, nthread=self._threads, feature_types=booster.feature_types
            )
            leaves = booster.predict(matrix, pred_leaf=True).astype(np.intp)
            leaves = leaves.reshape(len(block), len(trees))
            for number, counts in enumerate(of_leaves):
                counts += np.bincount(leaves[:, number], minlength=len(counts))
        for tree, counts in zip(trees, of_leaves, strict=True):
            tree["sum_hessian"] = _counts_of_nodes(tree, counts).tolist()
        counted = copy.copy(self)
        counted._model = self._from_bytes(json.dumps(content).encode())
        return counted

    def _to_bytes(self, model: xgb.Booster) -> bytes:
        named = model.copy()
        named.feature_names = written_names(self.feature_names, forbidden="[]<")
        return bytes(named.save_raw("ubj"))

    def _from_bytes(self, content: bytes) -> xgb.Booster:
        booster = self._with_threads(xgb.Booster(model_file=bytearray(content)))
        booster.feature_names = (
            None  # XGBoost would compare names with those of its input
        )
        return booster

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster: xgb.Booster = check_fitted(self._model)
        names = [f"f{feature}" for feature in range(booster.num_features())]
        importance = {}
        for kind, type_of_xgboost in (("split", "weight"), ("gain", "total_gain")):
            of_feature = booster.get_score(importance_type=type_of_xgboost)
            values = [of_feature.get(name, 0.0) for name in names]
            importance[kind] = np.array(values, dtype=np.float64)
        return importance

    def trees(self) -> Ensemble:
        ensemble = read_xgboost(bytes(check_fitted(self._model).save_raw("json"))).trees
        # The model file does not contain the learning rate that its leaf values include.
        eta = self.library_parameters().get("eta", DEFAULT_ETA)
        return replace(
            ensemble,
            trees=tuple(replace(tree, shrinkage=eta) for tree in ensemble.trees),
        )

    def seed_matters(self, num_documents: int) -> bool:
        # mean draws pairs; other versions of XGBoost may use the seed for it.
        return self._draws(_WITHOUT_SEED) or self.lambdarank_pair_method == "mean"

    def _departures(self) -> dict[str, bool]:
        name = (
            f"rank:{self.objective}" if self._own_objective is None else self.objective
        )
        return {
            "min_docs_in_leaf is not applied: XGBoost has no minimum number of documents per leaf.": True,
            "Bin edges differ from other backends: XGBoost bins features by its quantile sketch.": True,
            "Missing values follow the right branch if the feature had no missing values in training.": True,
            "Scores are float32, so more documents have equal scores than with float64.": True,
            "Samples differ from other backends: XGBoost samples documents and features by its own "
            "algorithm.": samples(self),
            f"The objective is {name}, not LambdaMART on NDCG.": self.objective
            != "ndcg",
        }

    def _findings_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from self._refused_grades(train.labels)
        yield from self._varying_weights(train)
        if self.lambdarank_unbiased:
            yield from _other_positions(train, self._num_positions)
        yield from _absent_zeros(train.features)

    @property
    def _num_positions(self) -> int:
        """Number of positions whose biases are learned."""
        number = self.truncation or self.lambdarank_num_pair_per_sample
        if number is None or self.lambdarank_pair_method == "mean":
            return _MOST_POSITIONS
        return number

    def _refused_grades(self, labels: Labels) -> Iterator[Finding]:
        if self.objective == "map":
            wrong = labels * (labels - 1) != 0
            allowed = "objective=map accepts only the labels 0 and 1"
            remedy = "Map the labels to 0 and 1, or set objective=ndcg."
        elif self.objective == "ndcg" and self.ndcg_exp_gain:
            wrong = (labels % 1 != 0) | (labels > HIGHEST_GRADE_OF_GAIN)
            grades = f"0, 1, ..., {HIGHEST_GRADE_OF_GAIN}"
            allowed = (
                f"with the gain 2^label - 1 XGBoost accepts only the grades {grades}"
            )
            remedy = "Map the labels to these grades, or set ndcg_exp_gain=false."
        else:
            return
        yield from self._refused_labels(labels, wrong, f"{allowed}. {remedy}")

    def library_parameters(self) -> dict[str, Any]:
        return self._parameters(weight_scale=1.0)

    def _parameters(self, weight_scale: float) -> dict[str, Any]:
        leafwise = self.num_leaves is not None
        grow_policy = self.grow_policy
        max_depth = self.max_depth
        if leafwise:
            grow_policy = grow_policy or "lossguide"
            max_depth = 0 if max_depth is None else max_depth
        pair_method = self.lambdarank_pair_method
        if self.truncation:
            pair_method = "topk"
        parameters = self._under_library_names(
            weight_scale,
            grow_policy=grow_policy,
            max_depth=max_depth,
            lambdarank_pair_method=pair_method,
            lambdarank_num_pair_per_sample=(
                self.truncation or self.lambdarank_num_pair_per_sample
            ),
            objective=f"rank:{self.objective}",
        )
        # Scores start at 0 in every backend; XGBoost's default only shifts all scores by a constant.
        start: dict[str, Any] = (
            {} if unset_fields(self) == SHARED_FIELDS else {"base_score": 0.0}
        )
        if self._own_objective is not None:
            names = [
                name
                for name in parameters
                if not name.startswith(("lambdarank_", "ndcg_"))
            ]
            parameters = {name: parameters[name] for name in names}
            start = {"objective": "reg:squarederror", "base_score": 0.0}
        no_metrics = {"disable_default_eval_metric": True}
        return {**parameters, **start, **no_metrics, **self.extra}


def _counts_of_nodes(
    tree: Mapping[str, Any], of_leaves: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the (N,) number of documents of each node; above 0, because XGBoost divides by it.

    Args:
        tree: arrays over its N nodes, as in XGBoost's model file.
        of_leaves: (N,), number of documents of each leaf; 0 for inner nodes.
    """
    counts = np.maximum(of_leaves, _FEWEST)
    waiting = [0]
    order = []
    while waiting:
        node = waiting.pop()
        children = (tree["left_children"][node], tree["right_children"][node])
        if children[0] >= 0:
            order.append((node, children))
            waiting += children
    for node, (left, right) in reversed(order):
        counts[node] = counts[left] + counts[right]
    return counts


def _weight_scale(data: RankingDataset) -> float:
    """Returns XGBoost's factor on all weights: the number of queries divided by the sum of the weights."""
    if data.query_weights is None:
        return 1.0
    return data.num_queries / float(data.query_weights.sum())


def _weight_scale_of(train: PlacedShards) -> float:
    """Returns the factor of `_weight_scale` for the whole training set.

    Raises:
        DataError: The shards have different mean weights.
    """
    weights = [shard.dataset.query_weights for shard in train.shards]
    given_weights = [each for each in weights if each is not None]
    if len(given_weights) < len(weights):
        return 1.0
    means = [float(each.mean()) for each in given_weights]
    if max(means) > MOST_UNEQUAL * min(means):
        raise DataError(
            f"the mean query weight of the shards is between {min(means):.4g} and {max(means):.4g}, but each "
            "worker of XGBoost scales its weights to a mean of 1, so queries on different workers would not "
            f"have the weights that were set; a factor of at most {MOST_UNEQUAL} is accepted. Put queries "
            "into random order, use model=lightgbm, or fit in one process with distributed=none."
        )
    # Shards hold consecutive queries, so these are the weights in the order of the data set.
    whole = np.concatenate(given_weights)
    return len(whole) / float(whole.sum())


def _fit_member(
    ranker: XGBoostRanker,
    _: Team,
    train: QueryShard,
    valid: QueryShard | None,
    monitor: Monitor,
    weight_scale: float,
) -> tuple[bytes, FitSummary]:
    """Fits on a worker, inside a collective; every member has the same model.

    Args:
        weight_scale: factor of the whole training set, as `_weight_scale` returns it.
    """
    of_valid = None if valid is None else valid.dataset
    model, num_trees, num_iterations = ranker._boosted(
        train.dataset, of_valid, monitor, weight_scale
    )
    return ranker._to_bytes(model), FitSummary(
        num_trees, num_iterations, monitor.seconds
    )


def _absent_zeros(features: AnyFeatures) -> Iterator[Finding]:
    """Yields a caution about sparse features that XGBoost needs with all their zeros."""
    if is_sparse(features) and array_or_csr(features, np.nan) is None:
        num_documents, num_features = features.shape
        yield Finding(
            Severity.CAUTION,
            "XGBoost reads cells that are not stored as missing, so absent features with the value 0 are "
            f"passed as {num_documents * num_features:,} values, which takes much time and memory. To have "
            "them missing, as is usual with XGBoost, read the file with absent=nan (data.absent=nan in a "
            "run); this is another data set, with other scores.",
        )


def _other_positions(train: RankingDataset, depth: int) -> Iterator[Finding]:
    """Yields a refusal if a position is not that of the row within its query, by which XGBoost counts.

    Args:
        depth: number of positions whose biases are learned; those below it may be in any order.
    """
    if train.positions is None:
        return
    rows = train.ranks_of_rows
    lowest = int(train.positions.min())
    given_ranks = np.minimum(train.positions - lowest, depth)
    differs = given_ranks != np.minimum(rows, depth)
    for row in np.flatnonzero(differs)[:1]:
        query = train.query_ids[train.query_of_document[row]]
        yield Finding(
            Severity.REFUSED,
            f"positions[{row}] is {train.positions[row]}, but lambdarank_unbiased takes this row "
            f"of query {query} for position {rows[row] + lowest}. Sort the rows by position; or, for lists "
            f"that do not begin at {lowest} or have gaps, use model=native or model=lightgbm.",
        )
