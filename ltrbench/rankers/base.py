"""The Ranker contract. `tests/rankers/test_conformance.py` tests every backend against it.

To add a backend, write one dataclass in one file (here or anywhere on the Python path) and one YAML in
conf/model whose `_target_` names it. A boosted-tree backend derives from `BoostingRanker` and inherits the
shared fields; any other backend derives from `Ranker`. The dataclass is the schema: only its fields can be
set.

Four methods are required: `fit`, `predict`, `save` and `load`. `capabilities.py` lists the optional methods,
and the effect of leaving each one out.
"""

from __future__ import annotations

import contextlib
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, FeatureMatrix, as_array
from ltrbench.errors import ConfigError, DataError, ResultError, require
from ltrbench.measure.available import available_cores
from ltrbench.rankers.capabilities import Finding, FitsTogether, Severity
from ltrbench.rankers.early_stopping import EarlyStopping, Monitor, OnIteration
from ltrbench.shapes import Features
from ltrbench.untrusted.reading import read_json

Fitted = TypeVar("Fitted")

OF_A_FINISHED_RUN = "Give the model folder of a finished run"
"""Remedy in messages about a folder that does not contain a saved ranker."""


@dataclass(frozen=True)
class FitSummary:
    """Summary of a fit.

    Attributes:
        num_trees: number of trees kept after early stopping; None for a model without trees.
        num_iterations: number of iterations run, including those that early stopping removed.
        monitor_seconds: wall time inside the evaluator during the fit.
    """

    num_trees: int | None = None
    num_iterations: int = 0
    monitor_seconds: float = 0.0


@dataclass(kw_only=True)
class Ranker(ABC):
    """Learns scores that rank the documents of each query well when sorted in descending order.

    A ranker never evaluates itself and never changes its input. The score of a document depends only on its
    features, not on the batch. The same seed gives the same scores.
    """

    seed: int = 0
    num_threads: int = 0
    """Number of threads for `fit` and `predict`; 0: all cores available to this process."""

    summary: FitSummary | None = field(default=None, init=False, repr=False, compare=False)
    """Set by `fit`; None: the ranker is not fitted, or its model has no iterations."""

    score_dtype: ClassVar[type[np.floating[Any]]] = np.float64
    """Data type of the scores. They are stored, and compared for ties, in this type."""
    is_yardstick: ClassVar[bool] = False
    """Whether the ranker is a baseline, without parameters that could be matched with other models."""
    reads_blocks: ClassVar[bool] = False
    """Whether `fit` and `predict` read a FeatureMatrix by blocks of rows (`row_blocks`), so that the features
    need not fit into memory as one array. Otherwise a run passes arrays. A derived class with another `fit`
    or `predict` sets it again."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions are recorded in the results of this backend, such as "lightgbm"."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Another fit or predict may need arrays, whatever the base class reads.
        if vars(cls).keys() & {"fit", "predict"} and "reads_blocks" not in vars(cls):
            cls.reads_blocks = False

    def __post_init__(self) -> None:
        require("seed", self.seed, at_least=0)
        require("num_threads", self.num_threads, at_least=0)

    @property
    def reads_sparse(self) -> bool:
        """Whether `fit` and `predict` read sparse features (`csr_of`) without an array of all cells.
        Otherwise a run passes arrays."""
        return self.reads_blocks

    @abstractmethod
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        """Fits the ranker to the training set and returns the ranker.

        Args:
            valid: validation set, used for early stopping only.
            on_iteration: called after each iteration, for progress and learning curves.

        Raises:
            DataError: the ranker cannot learn from these data.
        """

    @abstractmethod
    def predict(self, features: Features) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores of `score_dtype` for (D, F) features.

        Begin with `features = check_features(features, F)`: it converts arrays of any numeric type to float32
        and refuses everything else.

        Raises:
            DataError: `features` is not an array of numbers, or F differs from the training set.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the fitted model into an existing, empty folder, in a format that is loaded without pickle
        and without running code."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Reads a model written by `save`; the loaded ranker predicts the same scores, bit for bit."""


@dataclass(kw_only=True)
class BoostingRanker(Ranker):
    """The hyperparameters that all boosted-tree backends share, with one meaning everywhere. None: the
    backend's default.

    Each backend translates the fields into its library's parameters. A backend raises ConfigError if a field
    is set that it cannot apply; its YAML sets that field to null.
    """

    num_trees: int = 100
    """Number of boosting iterations, one tree each; early stopping may keep fewer."""
    learning_rate: float | None = None
    """Learning rate (shrinkage): factor on the Newton step of every leaf."""
    num_leaves: int | None = None
    """Maximum number of leaves per tree; trees are grown best-first by gain."""
    min_docs_in_leaf: int | None = None
    """Minimum number of documents per leaf."""
    min_sum_hessian: float | None = None
    """Minimum sum of hessians per leaf, in units of LightGBM's hessian (XGBoost's hessian is twice as
    large)."""
    min_split_gain: float | None = None
    """Minimum gain of a split; gain = G_L^2/(H_L + l2) + G_R^2/(H_R + l2) - G^2/(H + l2)."""
    max_delta_step: float | None = None
    """Maximum absolute Newton step of a leaf, before shrinkage; 0: no limit."""
    l2: float | None = None
    """L2 regularisation, added to the sum of hessians in a leaf's Newton step -G / (H + l2)."""
    max_bins: int | None = None
    """Maximum number of bins per feature."""
    truncation: int | None = None
    """Truncation level: a pair counts only if one of its documents ranks above this rank, as in LightGBM."""
    early_stopping: EarlyStopping | None = None
    """Rule that ends a fit before num_trees; needs a validation set."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further parameters of the backend's library, under the library's names, passed through unchanged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require("num_trees", self.num_trees, at_least=1)
        require("learning_rate", self.learning_rate, above=0)
        require("num_leaves", self.num_leaves, at_least=2)
        require("min_docs_in_leaf", self.min_docs_in_leaf, at_least=1)
        require("min_sum_hessian", self.min_sum_hessian, at_least=0)
        require("min_split_gain", self.min_split_gain, at_least=0)
        require("max_delta_step", self.max_delta_step, at_least=0)
        require("l2", self.l2, at_least=0)
        require("max_bins", self.max_bins, at_least=2)
        require("truncation", self.truncation, at_least=1)

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        least = self.min_docs_in_leaf
        if train is not None and least is not None and train.num_documents < 2 * least:
            yield Finding(
                Severity.CAUTION,
                f"min_docs_in_leaf is {least}, but the training set has {train.num_documents} documents, so "
                "no tree can be split. Set params.min_docs_in_leaf to at most half that number.",
            )

    def clean_copy(self) -> Self:
        kept = self.summary.num_trees if self.summary else None
        return replace(self, num_trees=kept or self.num_trees, early_stopping=None)

    def monitor(self, valid: RankingDataset | None, on_iteration: OnIteration | None) -> Monitor:
        """Returns the monitor that receives the scores of each iteration and decides when to stop."""
        return Monitor(self.early_stopping, valid, on_iteration)


OF_EVERY_RANKER = tuple(item.name for item in fields(Ranker))
"""The fields of `Ranker`, which are not hyperparameters."""
SHARED = tuple(
    item.name
    for item in fields(BoostingRanker)
    if item.name not in (*OF_EVERY_RANKER, "early_stopping", "extra")
)
"""The hyperparameters that conf/params sets to equal values in every backend."""


def resolve_threads(num_threads: int) -> int:
    """Returns the number of threads to use, at most one per available core: more threads than cores slow each
    other down, because they spin while they wait.

    >>> 1 <= resolve_threads(0) == available_cores()
    True
    """
    return min(num_threads or available_cores(), available_cores())


def threads_of_workers(workers: FitsTogether, num_threads: int) -> list[int]:
    """Returns the number of threads of the fit on each worker, by rank.

    Several workers may share a machine, so no worker uses more threads than it has.

    Args:
        num_threads: number of threads of a ranker; 0: all that each worker has.
    """
    available = [member.num_threads for member in workers.members]
    return [min(num_threads or most, most) for most in available]


def check_features(features: object, num_features: int) -> Features:
    """Returns the features as contiguous float32; the same array if it is that already.

    Args:
        features: (D, F), a NumPy array of any numeric type, or a FeatureMatrix.
        num_features: F, the number of features in the training set.

    Raises:
        DataError: `features` is not such an array (a list, a DataFrame), has another number of columns, or
            has a value beyond the range of float32.

    >>> check_features(np.array([[1, 2]]), 2)
    array([[1., 2.]], dtype=float32)
    """
    expected = f"expected a NumPy array of numbers with shape (documents, {num_features})"
    if isinstance(features, FeatureMatrix):
        return as_array(check_blocks(features, num_features))
    if not isinstance(features, np.ndarray):
        name = type(features).__name__
        raise DataError(f"features has the type {name}; {expected}. {_remedy(features)}")
    if features.dtype.kind not in "fiub":
        raise DataError(
            f"features has the dtype {features.dtype}; {expected}. Encode values that are not numbers, "
            "and convert the array: features.astype(np.float32)."
        )
    _check_shape(features.shape, num_features)
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(features, dtype=np.float32)
    except FloatingPointError:
        with np.errstate(over="ignore"):
            row, column = np.argwhere(np.isinf(features.astype(np.float32)) & np.isfinite(features))[0]
        raise DataError(
            f"features[{row}, {column}] is {features[row, column]}, beyond the range of float32 (maximum "
            "3.4e38). Rescale the feature, or use NaN for a missing value."
        ) from None


def check_blocks(features: object, num_features: int) -> AnyFeatures:
    """Returns a FeatureMatrix as it is, and any other features as `check_features` does.

    `predict` of a ranker that reads blocks begins with this.

    Raises:
        DataError: as `check_features`.
    """
    if not isinstance(features, FeatureMatrix):
        return check_features(features, num_features)
    _check_shape(features.shape, num_features)
    return features


def _check_shape(shape: tuple[int, ...], num_features: int) -> None:
    if len(shape) != 2 or shape[1] != num_features:
        remedy = (
            f" For one document pass features.reshape(1, {num_features})." if shape == (num_features,) else ""
        )
        raise DataError(
            f"features has the shape {shape}, but the model was fitted on {num_features} features; pass a "
            f"(documents, features) array with the columns of the training set.{remedy}"
        )


def _remedy(features: object) -> str:
    """Returns the sentence that explains how to convert an object to an array of features."""
    if isinstance(features, RankingDataset):
        return "Pass the features of the data set: predict(dataset.features)."
    if hasattr(features, "to_numpy"):
        return (
            "Select the columns of the training set in their order and convert them: "
            "frame[list(feature_names)].to_numpy().astype(np.float32)."
        )
    if hasattr(features, "toarray"):
        return "Convert the sparse matrix: features.toarray().astype(np.float32)."
    return "Convert it: np.asarray(features, dtype=np.float32)."


def check_fitted(state: Fitted | None) -> Fitted:
    """Returns the fitted state of a ranker.

    Raises:
        ConfigError: the state is None, so the ranker is not fitted.
    """
    if state is None:
        raise ConfigError("the ranker is not fitted; call fit first, or load a saved ranker.")
    return state


def read_model_json(path: Path, types: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a JSON object written by a ranker's `save`.

    Args:
        types: name -> type of each required value, such as int or list[float].

    Raises:
        ResultError: the file does not exist, is not JSON, lacks one of the names, or has a value of another
            type.
    """
    content = read_json(path, OF_A_FINISHED_RUN, finite=False)
    missing = [name for name in types if not isinstance(content, dict) or name not in content]
    if missing:
        raise ResultError(f"{path} is not a saved ranker: '{missing[0]}' is missing. {OF_A_FINISHED_RUN}.")
    try:
        check_types({name: content[name] for name in types}, types)
    except TypeError as error:
        raise ResultError(f"{path} is not a saved ranker: {error}. {OF_A_FINISHED_RUN}.") from None
    return dict(content)


@contextlib.contextmanager
def refused_as_saved(path: Path) -> Iterator[None]:
    """Converts a ConfigError about settings read from a file to a ResultError that names the file."""
    try:
        yield
    except ConfigError as error:
        raise ResultError(f"{path} is not a saved ranker: {error} {OF_A_FINISHED_RUN}.") from None


def check_types(values: Mapping[str, object], types: Mapping[str, Any]) -> None:
    """Raises TypeError if a value read from JSON does not have the type of its field.

    Args:
        types: name -> type, such as int, float | None or dict[str, Any]; any other name is refused.

    >>> check_types({"num_leaves": 31, "l2": 1}, {"num_leaves": int, "l2": float | None})
    >>> check_types({"num_leaves": "31"}, {"num_leaves": int})
    Traceback (most recent call last):
    TypeError: num_leaves is '31', not of type int
    """
    for name, value in values.items():
        if name not in types:
            raise TypeError(f"there is no field '{name}'")
        if not _has_type(value, types[name]):
            kind = types[name]
            words = kind.__name__ if isinstance(kind, type) and not get_args(kind) else kind
            raise TypeError(f"{name} is {reprlib.repr(value)}, not of type {words}")


def _has_type(value: object, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_has_type(value, each) for each in get_args(kind))
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(_has_type(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_has_type(item, inner[1]) for item in value.values())
    return isinstance(value, kind)
