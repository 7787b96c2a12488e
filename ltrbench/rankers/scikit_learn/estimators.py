"""Fits and applies a scikit-learn regressor with one seed, a maximum number of threads, and scores that do
not depend on the batch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol

import joblib
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.ensemble._forest import ForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import ThreadpoolController, threadpool_limits

from ltrbench.data import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    FeatureMatrix,
    as_array,
    csr_of,
    read_rows,
    row_blocks,
    rows_of_block,
)
from ltrbench.errors import ConfigError
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.shapes import Features

VERSION = str(sklearn.__version__)
ROWS_OF_BLOCK = 2048
"""Number of rows per call of `predict`: enough for a small overhead per call, and few enough to distribute
over threads."""

_TREES = (DecisionTreeRegressor, ForestRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor)


class Estimator(Protocol):
    """The interface of a fitted scikit-learn regressor."""

    n_features_in_: int

    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...  # noqa: N803  # scikit-learn's name


def check_regressor(estimator: Any, name: str) -> None:
    """Raises ConfigError if the object is not a regressor, or has a parameter that its `fit` would refuse."""
    if isinstance(estimator, type) or not isinstance(estimator, BaseEstimator) or not is_regressor(estimator):
        raise ConfigError(
            f"{name}.estimator() returns {estimator!r}; it must return a scikit-learn regressor, such as "
            "RandomForestRegressor(), or a pipeline that ends with one."
        )
    for part in (estimator, *estimator.get_params().values()):
        # A user's own transformer need not declare its parameters' values.
        if isinstance(part, BaseEstimator) and hasattr(part, "_parameter_constraints"):
            try:
                part._validate_params()
            except ValueError as error:
                raise ConfigError(f"{name}.estimator(): {reason(error)}") from None


def fit_estimator(estimator: Any, train: RankingDataset, seed: int, num_threads: int) -> Estimator:
    """Fits a regressor to the labels, with document weights if the data have weights.

    Args:
        estimator: unfitted regressor; fitted in place.
        seed: value for each `random_state` that is None.
    """
    parameters = estimator.get_params()
    seeds = {name: seed for name in _named(parameters, "random_state") if parameters[name] is None}
    # Copies, because the arrays of a data set are read-only.
    weights = {name: values.copy() for name, values in _weights(estimator, train).items()}
    # None leaves the number of threads to the configuration below.
    estimator.set_params(**seeds, **dict.fromkeys(_named(parameters, "n_jobs")))
    # On one BLAS thread, the order of summation does not depend on the number of threads.
    with (
        _controller().limit(limits={"openmp": num_threads, "blas": 1}),
        joblib.parallel_config(backend="threading", n_jobs=num_threads),
    ):
        estimator.fit(_as_training_input(estimator, train.features), train.labels.copy(), **weights)
    return estimator  # type: ignore[no-any-return]


def score_documents(estimator: Estimator, features: AnyFeatures, num_threads: int) -> NDArray[np.float64]:
    """Returns (D,) scores, computed in blocks of rows that are distributed over threads.

    A block is scored on one thread: otherwise a forest would sum its trees in the order in which its threads
    finish. Sparse features are read in blocks of dense rows, whose number only depends on F.
    """
    if not len(features):
        return np.zeros(0)
    size = ROWS_OF_BLOCK
    if isinstance(features, FeatureMatrix):
        size = min(size, rows_of_block(features.shape[1]))
    same_size = not _scores_rows_alone(estimator)
    blocks = range(0, len(features), size)

    def score(start: int) -> NDArray[np.float64]:
        block = read_rows(features, start, min(start + size, len(features)))
        num_rows = len(block)
        if same_size and num_rows < size:
            # The last bits of a matrix product depend on the number of rows.
            block = np.pad(block, ((0, size - num_rows), (0, 0)), mode="edge")
        scores = np.asarray(estimator.predict(_as_input(estimator, block)), dtype=np.float64)
        return scores.reshape(len(block))[:num_rows]

    with _controller().limit(limits=1):
        if len(blocks) == 1 or num_threads == 1:
            scored = [score(block) for block in blocks]
        else:
            # OpenMP has a separate number of threads in each thread.
            with ThreadPoolExecutor(
                num_threads, initializer=threadpool_limits, initargs=(1, "openmp")
            ) as pool:
                scored = list(pool.map(score, blocks))
    return np.concatenate(scored)


def refusals(estimator: Any, train: RankingDataset) -> Iterator[Finding]:
    """Yields the reasons why a regressor cannot learn from a training set."""
    name = type(estimator).__name__
    if not _takes_missing(estimator):
        missing = _first_missing(train.features)
        if missing is not None:
            row, column = missing
            yield Finding(
                Severity.REFUSED,
                f"feature {train.feature_names[column]} of document {row} is missing, but {name} "
                "does not accept missing values. Use a pipeline with a SimpleImputer before it, or a "
                "regressor that accepts missing values, such as HistGradientBoostingRegressor.",
            )
    if train.query_weights is not None and _weights_argument(estimator) is None:
        yield Finding(
            Severity.REFUSED,
            f"the training set has weights, but {name} does not accept weights. Read the data without "
            "weights, or use another regressor.",
        )


def takes_sparse(estimator: Any) -> bool:
    """Returns whether a regressor learns the same model from sparse features as from an array.

    Trees and forests do. Boosted trees and linear models sum in another order or use another solver.
    """
    return isinstance(estimator, DecisionTreeRegressor | ForestRegressor) and bool(
        get_tags(estimator).input_tags.sparse
    )


def reason(error: Exception) -> str:
    """Returns the first line of a message of scikit-learn or skops, which may continue with paragraphs of
    advice."""
    return str(error).partition("\n")[0]


@cache
def _controller() -> ThreadpoolController:
    """Returns the controller of libraries with threads; cached, because the search takes milliseconds."""
    return ThreadpoolController()


def _first_missing(features: Features) -> tuple[int, int] | None:
    """Returns the row and the column of the first missing value; None if no value is missing."""
    for start, block in row_blocks(features):
        rows, columns = np.nonzero(np.isnan(block))
        if rows.size:
            return start + int(rows[0]), int(columns[0])
    return None


def _as_training_input(estimator: Any, features: AnyFeatures) -> Any:
    """Returns sparse features as a matrix of SciPy if cells that are not stored are 0 and the estimator reads
    it, and other features as `_as_input` does."""
    sparse = csr_of(features) if takes_sparse(estimator) else None
    if sparse is not None and sparse.absent == 0:
        return sparse.to_scipy().copy()
    return _as_input(estimator, as_array(features))


def _as_input(estimator: Any, features: Features) -> NDArray[np.floating[Any]]:
    """Returns a copy of the features, because parts of scikit-learn refuse read-only arrays: float32 for
    trees, which compare float32 values, and float64 for other estimators."""
    return features.astype(np.float32 if isinstance(estimator, _TREES) else np.float64)


def _scores_rows_alone(estimator: Any) -> bool:
    """Returns whether the bits of a row's score cannot depend on other rows, as no matrix product is used."""
    return isinstance(estimator, _TREES) and getattr(estimator, "init", None) in (None, "zero")


def _named(parameters: dict[str, Any], name: str) -> list[str]:
    """Returns the full names of the parameters with this name, including nested estimators."""
    return [key for key in parameters if key == name or key.endswith(f"__{name}")]


def _takes_missing(estimator: Any) -> bool:
    # A pipeline has the tags of its last step, but its first step receives the data.
    first = estimator[0] if isinstance(estimator, Pipeline) else estimator
    return bool(get_tags(first).input_tags.allow_nan)


def _weights(estimator: Any, train: RankingDataset) -> dict[str, NDArray[np.float64]]:
    """Returns the argument of `fit` with the document weights; empty without weights."""
    name = _weights_argument(estimator)
    if name is None or train.query_weights is None:
        return {}
    if train.document_weights is not None:
        return {name: train.document_weights}
    return {name: train.query_weights[train.query_of_document]}


def _weights_argument(estimator: Any) -> str | None:
    """Returns the name of the argument of `fit` for weights; None if `fit` accepts no weights."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _weights_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None
