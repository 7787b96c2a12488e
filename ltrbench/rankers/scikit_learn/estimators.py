"""What a ranker needs of any regressor of scikit-learn: one seed, a bound of threads, the same score in every
batch."""

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
from ltrbench.errors import ConfigError
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.shapes import Features

VERSION = str(sklearn.__version__)
ROWS_OF_BLOCK = 2048
"""Rows that are scored at once: enough to make a call's own time small, few enough to share among threads."""

_TREES = (DecisionTreeRegressor, ForestRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor)


class Estimator(Protocol):
    """What is used of a fitted regressor of scikit-learn."""

    n_features_in_: int

    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...  # noqa: N803  # scikit-learn's name


def check_regressor(estimator: Any, name: str) -> None:
    """Raises ConfigError on what is no regressor, or has a parameter that its `fit` would refuse."""
    if isinstance(estimator, type) or not isinstance(estimator, BaseEstimator) or not is_regressor(estimator):
        raise ConfigError(
            f"{name}.estimator() returns {estimator!r}; it must return a regressor of scikit-learn, such as "
            "RandomForestRegressor(), or a pipeline that ends in one."
        )
    for part in (estimator, *estimator.get_params().values()):
        # A user's own transformer need not say what its parameters may be.
        if isinstance(part, BaseEstimator) and hasattr(part, "_parameter_constraints"):
            try:
                part._validate_params()
            except ValueError as error:
                raise ConfigError(f"{name}.estimator(): {reason(error)}") from None


def fit_estimator(estimator: Any, train: RankingDataset, seed: int, num_threads: int) -> Estimator:
    """Fits a regressor to the labels, with the weights of the documents if there are any.

    Args:
        estimator: unfitted; it is changed.
        seed: what becomes of each `random_state` that is None.
    """
    parameters = estimator.get_params()
    seeds = {name: seed for name in _named(parameters, "random_state") if parameters[name] is None}
    # Copies, as of the features: what a data set holds is read-only.
    weights = {name: values.copy() for name, values in _weights(estimator, train).items()}
    # None leaves the number of threads to the configuration below.
    estimator.set_params(**seeds, **dict.fromkeys(_named(parameters, "n_jobs")))
    # On one thread a product of matrices adds up in one order, whatever the number of threads.
    with (
        _controller().limit(limits={"openmp": num_threads, "blas": 1}),
        joblib.parallel_config(backend="threading", n_jobs=num_threads),
    ):
        estimator.fit(_as_input(estimator, train.features), train.labels.copy(), **weights)
    return estimator  # type: ignore[no-any-return]


def score_documents(estimator: Estimator, features: Features, num_threads: int) -> NDArray[np.float64]:
    """(D,), scored in blocks of rows, which are shared out on threads.

    Nothing is parallel within a block: a forest would add up its trees in the order in which its threads end.
    """
    if not len(features):
        return np.zeros(0)
    blocks = [features[start : start + ROWS_OF_BLOCK] for start in range(0, len(features), ROWS_OF_BLOCK)]
    if not _scores_rows_alone(estimator):
        # The last bits of a product of matrices depend on the number of rows: every block has the same.
        missing = ROWS_OF_BLOCK - len(blocks[-1])
        blocks[-1] = np.pad(blocks[-1], ((0, missing), (0, 0)), mode="edge")

    def score(block: Features) -> NDArray[np.float64]:
        scores = np.asarray(estimator.predict(_as_input(estimator, block)), dtype=np.float64)
        return scores.reshape(len(block))

    with _controller().limit(limits=1):
        if len(blocks) == 1 or num_threads == 1:
            scored = [score(block) for block in blocks]
        else:
            # OpenMP counts the threads of each thread apart.
            with ThreadPoolExecutor(
                num_threads, initializer=threadpool_limits, initargs=(1, "openmp")
            ) as pool:
                scored = list(pool.map(score, blocks))
    return np.concatenate(scored)[: len(features)]


def refusals(estimator: Any, train: RankingDataset) -> Iterator[Finding]:
    """Yields why a regressor cannot learn from these data."""
    name = type(estimator).__name__
    if not _takes_missing(estimator):
        rows, columns = np.nonzero(np.isnan(train.features))
        if rows.size:
            yield Finding(
                Severity.REFUSED,
                f"feature {train.feature_names[columns[0]]} of document {rows[0]} is missing, and {name} "
                "takes no missing values; put a SimpleImputer before it in a pipeline, or take a regressor "
                "that does, such as HistGradientBoostingRegressor.",
            )
    if train.query_weights is not None and _weights_argument(estimator) is None:
        yield Finding(
            Severity.REFUSED,
            f"{name} takes no weights, and the training set has some; read it without weights.",
        )


def reason(error: Exception) -> str:
    """The first line of what scikit-learn or skops says, whose advice may fill paragraphs behind it."""
    return str(error).partition("\n")[0]


@cache
def _controller() -> ThreadpoolController:
    """Looks once for the libraries that start threads, which takes milliseconds."""
    return ThreadpoolController()


def _as_input(estimator: Any, features: Features) -> NDArray[np.floating[Any]]:
    """A copy, because scikit-learn refuses read-only arrays in places.

    It is of float32 for trees, which compare that, and of float64 for all else.
    """
    return features.astype(np.float32 if isinstance(estimator, _TREES) else np.float64)


def _scores_rows_alone(estimator: Any) -> bool:
    """Whether the bits of a row's score cannot depend on the other rows: no product of matrices is taken."""
    return isinstance(estimator, _TREES) and getattr(estimator, "init", None) in (None, "zero")


def _named(parameters: dict[str, Any], name: str) -> list[str]:
    """The parameters of this name, of the estimator and of those inside it."""
    return [key for key in parameters if key == name or key.endswith(f"__{name}")]


def _takes_missing(estimator: Any) -> bool:
    # A pipeline states what its last step takes, but it is the first that is given the data.
    first = estimator[0] if isinstance(estimator, Pipeline) else estimator
    return bool(get_tags(first).input_tags.allow_nan)


def _weights(estimator: Any, train: RankingDataset) -> dict[str, NDArray[np.float64]]:
    """The argument of `fit` that holds the weight of each document; none where all count alike."""
    name = _weights_argument(estimator)
    if name is None or train.query_weights is None:
        return {}
    if train.document_weights is not None:
        return {name: train.document_weights}
    return {name: train.query_weights[train.query_of_document]}


def _weights_argument(estimator: Any) -> str | None:
    """What `fit` calls the weights of documents; None where it takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _weights_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None
