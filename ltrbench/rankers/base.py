"""The Ranker contract, which every backend fulfils and `tests/rankers/test_conformance.py` holds it to.

To add a backend, write one dataclass in one file (here or anywhere on the Python path) and one YAML in
conf/model whose `_target_` names it. A boosted-tree backend derives from `BoostingRanker` and inherits the
shared fields; anything else derives from `Ranker`. The dataclass is its own schema: a field that it does not
have cannot be set.

Required are four methods: `fit`, `predict`, `save` and `load`. What else a ranker may offer is in
`capabilities.py`, with what happens where it does not.
"""

from __future__ import annotations

import contextlib
import os
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
from ltrbench.errors import ConfigError, DataError, ResultError, require
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.rankers.early_stopping import EarlyStopping, Monitor, OnIteration
from ltrbench.shapes import Features
from ltrbench.untrusted.reading import read_json

Fitted = TypeVar("Fitted")

OF_A_FINISHED_RUN = "Give the model folder of a finished run"
"""The remedy where a folder does not hold a saved ranker."""


@dataclass(frozen=True)
class FitSummary:
    """What a fit leaves behind, beside the model.

    Attributes:
        num_trees: trees kept, after early stopping has trimmed; None for a model without trees.
        num_iterations: iterations run, with those that were trimmed.
        monitor_seconds: wall time inside the evaluator during the fit.
    """

    num_trees: int | None = None
    num_iterations: int = 0
    monitor_seconds: float = 0.0


@dataclass(kw_only=True)
class Ranker(ABC):
    """Learns to score documents so that sorting each query by score ranks it well.

    A ranker never evaluates itself and never changes its input. The score of a document depends on its
    features only, not on its batch. The same seed gives the same scores.
    """

    seed: int = 0
    num_threads: int = 0
    """Threads to fit and predict with; 0: every core that the launcher leaves to this process."""

    summary: FitSummary | None = field(default=None, init=False, repr=False, compare=False)
    """What `fit` of a model with iterations sets; None: the model has none, or is not fitted."""

    score_dtype: ClassVar[type[np.floating[Any]]] = np.float64
    """The dtype of the scores; they are stored in it, and compared in it where they tie."""
    is_yardstick: ClassVar[bool] = False
    """Whether it is a baseline, without parameters that could be matched with those of other models."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The distributions whose versions belong to a result of this backend, such as "lightgbm"."""

    def __post_init__(self) -> None:
        require("seed", self.seed, at_least=0)
        require("num_threads", self.num_threads, at_least=0)

    @abstractmethod
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        """Learns from train, and returns itself.

        Args:
            valid: for early stopping only.
            on_iteration: called after each iteration, for progress and learning curves.

        Raises:
            DataError: on data that the ranker cannot learn from.
        """

    @abstractmethod
    def predict(self, features: Features) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores of `score_dtype` for (D, F) features.

        Begin with `features = check_features(features, F)`: arrays of other numbers become float32, and what
        is no array is refused.

        Raises:
            DataError: where it is no array of numbers, or F is not what the model was fitted on.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the fitted model into an existing, empty folder, in a format that loads without pickle or
        code."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote; the result predicts the same scores, bit for bit."""


@dataclass(kw_only=True)
class BoostingRanker(Ranker):
    """The fields that boosted trees share, with one meaning in every backend. None: the backend's own
    default.

    A backend translates; what it cannot honour it refuses with a ConfigError when it is set, and its YAML
    leaves null.
    """

    num_trees: int = 100
    """Iterations of boosting, one tree each; early stopping may keep fewer."""
    learning_rate: float | None = None
    """Shrinkage: the factor on every leaf's Newton step."""
    num_leaves: int | None = None
    """Leaves of a tree at the most, grown best-first by gain."""
    min_docs_in_leaf: int | None = None
    """Documents that a leaf must hold at least."""
    min_sum_hessian: float | None = None
    """Sum of hessians that a leaf must hold at least, in units of LightGBM's hessian (XGBoost's is twice
    that)."""
    min_split_gain: float | None = None
    """Gain below which a leaf is not split; gain = G_L^2/(H_L + l2) + G_R^2/(H_R + l2) - G^2/(H + l2)."""
    max_delta_step: float | None = None
    """Largest absolute Newton step of a leaf, before shrinkage; 0: no limit."""
    l2: float | None = None
    """Added to the sum of hessians in a leaf's Newton step -G / (H + l2)."""
    max_bins: int | None = None
    """Bins that a feature's values are grouped into at the most."""
    truncation: int | None = None
    """Pairs count only if one of the two documents ranks above this rank (LightGBM's truncation level)."""
    early_stopping: EarlyStopping | None = None
    """When to stop before num_trees; needs a validation set."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The backend's own parameters under their own names, passed through unchanged."""

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
                f"min_docs_in_leaf is {least}, but there are {train.num_documents} documents, so that no "
                "tree can be split; set params.min_docs_in_leaf lower.",
            )

    def clean_copy(self) -> Self:
        kept = self.summary.num_trees if self.summary else None
        return replace(self, num_trees=kept or self.num_trees, early_stopping=None)

    def monitor(self, valid: RankingDataset | None, on_iteration: OnIteration | None) -> Monitor:
        """Returns what takes the scores of each iteration, and decides when to stop."""
        return Monitor(self.early_stopping, valid, on_iteration)


OF_EVERY_RANKER = tuple(item.name for item in fields(Ranker))
"""The fields of the contract, which are no hyperparameters."""
SHARED = tuple(
    item.name
    for item in fields(BoostingRanker)
    if item.name not in (*OF_EVERY_RANKER, "early_stopping", "extra")
)
"""The hyperparameters that conf/params holds equal for every backend."""


def available_cores() -> int:
    """The cores that this process may use, which a launcher or container may have restricted."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resolve_threads(num_threads: int) -> int:
    """Returns the number of threads to use: never more than there are cores, because threads that spin while
    they wait slow each other down.

    >>> 1 <= resolve_threads(0) == available_cores()
    True
    """
    return min(num_threads or available_cores(), available_cores())


def check_features(features: object, num_features: int) -> Features:
    """Returns documents' features as contiguous float32, the same array where it is that already.

    Args:
        features: (D, F), a NumPy array of any type of number.
        num_features: F, as many as the model was fitted on.

    Raises:
        DataError: where it is something else, such as a list or a DataFrame, or has other columns; where a
            number exceeds float32.

    >>> check_features(np.array([[1, 2]]), 2)
    array([[1., 2.]], dtype=float32)
    """
    expected = f"a NumPy array of numbers of the shape (documents, {num_features}) was expected"
    if not isinstance(features, np.ndarray):
        name = type(features).__name__
        raise DataError(f"features are of the type {name}; {expected}. {_remedy(features)}")
    if features.dtype.kind not in "fiub":
        raise DataError(
            f"features are an array of {features.dtype}; {expected}. Encode what is not a number, and "
            "convert the array: features.astype(np.float32)."
        )
    if features.ndim != 2 or features.shape[1] != num_features:
        one = features.shape == (num_features,)
        remedy = f" For one document give features.reshape(1, {num_features})." if one else ""
        raise DataError(
            f"features have shape {features.shape}, but the model was fitted on {num_features} features; "
            f"give a (documents, features) array with the same columns.{remedy}"
        )
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(features, dtype=np.float32)
    except FloatingPointError:
        with np.errstate(over="ignore"):
            row, column = np.argwhere(np.isinf(features.astype(np.float32)) & np.isfinite(features))[0]
        raise DataError(
            f"features[{row}, {column}] is {features[row, column]}, which float32 cannot hold (at most "
            "3.4e38). Rescale the feature, or write NaN for a missing value."
        ) from None


def _remedy(features: object) -> str:
    """What makes an array of features of something else."""
    if isinstance(features, RankingDataset):
        return "Give the data set's features: predict(dataset.features)."
    if hasattr(features, "to_numpy"):
        return (
            "Select the columns of training in their order, and convert them: "
            "frame[list(feature_names)].to_numpy().astype(np.float32)."
        )
    if hasattr(features, "toarray"):
        return "Convert the sparse matrix: features.toarray().astype(np.float32)."
    return "Convert it: np.asarray(features, dtype=np.float32)."


def check_fitted(state: Fitted | None) -> Fitted:
    """Returns what a fit left behind.

    Raises:
        ConfigError: where there is none.
    """
    if state is None:
        raise ConfigError("the ranker is not fitted; call fit, or load a saved one, before this.")
    return state


def read_model_json(path: Path, types: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the JSON object that a ranker's `save` wrote.

    Args:
        types: name -> type of each value that it must have, such as int or list[float].

    Raises:
        ResultError: where the file is absent, is not JSON, lacks one of the names, or has a value of another
            type.
    """
    content = read_json(path, OF_A_FINISHED_RUN, finite=False)
    missing = [name for name in types if not isinstance(content, dict) or name not in content]
    if missing:
        raise ResultError(f"{path} is not a saved ranker: it lacks '{missing[0]}'. {OF_A_FINISHED_RUN}.")
    try:
        check_types({name: content[name] for name in types}, types)
    except TypeError as error:
        raise ResultError(f"{path} is not a saved ranker: {error}. {OF_A_FINISHED_RUN}.") from None
    return dict(content)


@contextlib.contextmanager
def refused_as_saved(path: Path) -> Iterator[None]:
    """Raises ResultError that names the file where the settings that were read from it are refused."""
    try:
        yield
    except ConfigError as error:
        raise ResultError(f"{path} is not a saved ranker: {error} {OF_A_FINISHED_RUN}.") from None


def check_types(values: Mapping[str, object], types: Mapping[str, Any]) -> None:
    """Raises TypeError where a value that was read from JSON does not have the type of its field.

    Args:
        types: name -> type, such as int, float | None or dict[str, Any]; other names are refused.

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
