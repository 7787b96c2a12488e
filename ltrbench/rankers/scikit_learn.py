"""Base class of backends that wrap a scikit-learn regressor, fitted to the labels of single documents.

A backend is one file with a dataclass that derives from `SklearnRanker`, and one YAML that begins with
`defaults: [_yardstick, _self_]`. The fields of the dataclass are the settings; its one method is `estimator`:

    @dataclass(kw_only=True)
    class RandomForestRanker(SklearnRanker):
        num_trees: int = 100

        def estimator(self) -> RandomForestRegressor:
            return RandomForestRegressor(n_estimators=self.num_trees)

The file has three parts: fitting and prediction of a regressor, the ranker, and its model file.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

try:
    import sklearn
    import skops.io
except ImportError as error:
    raise ImportError(
        "a backend on scikit-learn needs the packages scikit-learn and skops: pip install 'ltrbench[sklearn]'"
    ) from error

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.ensemble._forest import ForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import has_fit_parameter
from skops.io.exceptions import UnsupportedTypeException
from threadpoolctl import ThreadpoolController, threadpool_limits

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers.base import (
    OF_A_FINISHED_RUN,
    Finding,
    Ranker,
    Severity,
    check_features,
    check_fitted,
    read_model_json,
    refuse,
    resolve_threads,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.rankers.library import SETTINGS_FILE
from ltrbench.shapes import Features
from ltrbench.untrusted import read_bytes

# ---- Fits and applies a scikit-learn regressor with one seed, a maximum number of threads, and scores that
# do not depend on the batch.

VERSION = str(sklearn.__version__)
ROWS_OF_BLOCK = 2048
"""Number of rows per call of `predict`: enough for a small overhead per call, and few enough to distribute
over threads."""

_TREES = (
    DecisionTreeRegressor,
    ForestRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)


class Estimator(Protocol):
    """The interface of a fitted scikit-learn regressor."""

    n_features_in_: int

    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...  # noqa: N803  # scikit-learn's name


def fit_estimator(
    estimator: Any, train: RankingDataset, seed: int, num_threads: int
) -> Estimator:
    """Fits a regressor to the labels, with document weights if the data have weights.

    Args:
        estimator: unfitted regressor; fitted in place.
        seed: value for each `random_state` that is None.
    """
    parameters = estimator.get_params()
    seeds = {
        name: seed
        for name in _named(parameters, "random_state")
        if parameters[name] is None
    }
    # Copies, because the arrays of a data set are read-only.
    argument = None
    if train.query_weights is not None:
        argument = _weights_argument(estimator)
    weights = {} if argument is None else {argument: train.weight_of_document.copy()}
    # None leaves the number of threads to the configuration below.
    estimator.set_params(**seeds, **dict.fromkeys(_named(parameters, "n_jobs")))
    # On one BLAS thread, the order of summation does not depend on the number of threads.
    with (
        # With it, a pipeline would refuse weights that its steps do not request.
        sklearn.config_context(enable_metadata_routing=False),
        _controller().limit(limits={"openmp": num_threads, "blas": 1}),
        joblib.parallel_config(backend="threading", n_jobs=num_threads),
    ):
        estimator.fit(
            _as_input(estimator, train.features), train.labels.copy(), **weights
        )
    return estimator  # type: ignore[no-any-return]


def score_documents(
    estimator: Estimator, features: Features, num_threads: int
) -> NDArray[np.float64]:
    """Returns (D,) scores, computed in blocks of rows that are distributed over threads.

    A block is scored on one thread: otherwise a forest would sum its trees in the order in which its threads
    finish.
    """
    if not len(features):
        return np.zeros(0)
    # The bits of a row's score cannot depend on other rows if no matrix product is used.
    initial = getattr(estimator, "init", None)
    same_size = not isinstance(estimator, _TREES) or initial not in (None, "zero")

    def score(start: int) -> NDArray[np.float64]:
        block = features[start : start + ROWS_OF_BLOCK]
        num_rows = len(block)
        if same_size and num_rows < ROWS_OF_BLOCK:
            # The last bits of a matrix product depend on the number of rows.
            more = ((0, ROWS_OF_BLOCK - num_rows), (0, 0))
            block = np.pad(block, more, mode="edge")
        scores = np.asarray(
            estimator.predict(_as_input(estimator, block)), dtype=np.float64
        )
        return scores.reshape(len(block))[:num_rows]

    blocks = range(0, len(features), ROWS_OF_BLOCK)
    with _controller().limit(limits=1):
        if len(blocks) == 1 or num_threads == 1:
            return np.concatenate([score(block) for block in blocks])
        # OpenMP has a separate number of threads in each thread.
        with ThreadPoolExecutor(
            num_threads, initializer=threadpool_limits, initargs=(1, "openmp")
        ) as pool:
            return np.concatenate(list(pool.map(score, blocks)))


def reason(error: Exception) -> str:
    """Returns the first line of a message of scikit-learn or skops, which may continue with paragraphs of
    advice."""
    return str(error).partition("\n")[0]


@cache
def _controller() -> ThreadpoolController:
    """Returns the controller of libraries with threads; cached, because the search takes milliseconds."""
    return ThreadpoolController()


def _as_input(estimator: Any, features: Features) -> NDArray[np.floating[Any]]:
    """Returns a copy of the features, because parts of scikit-learn refuse read-only arrays: float32 for
    trees, which compare float32 values, and float64 for other estimators."""
    return features.astype(np.float32 if isinstance(estimator, _TREES) else np.float64)


def _named(parameters: dict[str, Any], name: str) -> list[str]:
    """Returns the full names of the parameters with this name, including nested estimators."""
    return [key for key in parameters if key == name or key.endswith(f"__{name}")]


def _weights_argument(estimator: Any) -> str | None:
    """Returns the name of the argument of `fit` for weights; None if `fit` accepts no weights."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _weights_argument(last)
        if inner is None:
            return None
        return f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


@dataclass(kw_only=True)
class SklearnRanker(Ranker):
    """Scores each document by a regression of the labels on its features (pointwise, without queries).

    The seed becomes each `random_state` that `estimator` leaves at None. `num_threads` is the maximum number
    of threads and overrides `n_jobs`. Query and document weights become sample weights.

    Raises:
        ConfigError: `estimator` does not return a regressor.
    """

    packages: ClassVar[tuple[str, ...]] = ("scikit-learn", "skops")
    trusted_types: ClassVar[tuple[str, ...]] = ()
    """Full names of further types allowed in a saved model of this class, such as "my_module.Clip". A model
    file cannot extend this list."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model: Estimator | None = None
        given = self.estimator()
        if (
            isinstance(given, type)
            or not isinstance(given, BaseEstimator)
            or not is_regressor(given)
        ):
            raise ConfigError(
                f"{type(self).__name__}.estimator() returns {given!r}; it must return a scikit-learn "
                "regressor, such as RandomForestRegressor(), or a pipeline that ends with one."
            )

    @abstractmethod
    def estimator(self) -> Any:
        """Returns a new, unfitted scikit-learn regressor, or a pipeline that ends with one, with the settings
        of this ranker."""

    @takes_tables
    def fit(self, train: RankingDataset, *_: object, **__: object) -> Self:
        refuse(self, train)
        threads = resolve_threads(self.num_threads)
        try:
            self._model = fit_estimator(self.estimator(), train, self.seed, threads)
        except (
            ValueError
        ) as error:  # raised by scikit-learn for invalid parameters or data
            raise ConfigError(
                f"{type(self).__name__} cannot be fitted: {reason(error)}"
            ) from error
        return self

    def predict(self, features: object) -> NDArray[np.float64]:
        model = check_fitted(self._model)
        features = check_features(features, model.n_features_in_)
        try:
            return score_documents(model, features, resolve_threads(self.num_threads))
        except ValueError as error:
            raise DataError(
                f"{type(self).__name__} cannot score: {reason(error)}"
            ) from error

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns `feature_importances_`, if the model has them, as "gain" in shares of the sum."""
        gains = getattr(check_fitted(self._model), "feature_importances_", None)
        if gains is None:
            return {}
        return {"gain": np.asarray(gains, dtype=np.float64)}

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        estimator = self.estimator()
        yield Finding(
            Severity.UNMATCHED,
            f"scikit-learn's {type(estimator).__name__} is fitted to the labels of single documents "
            "(pointwise); the shared parameters and early stopping do not apply.",
        )
        if (
            train is not None
            and train.query_weights is not None
            and _weights_argument(estimator) is None
        ):
            yield Finding(
                Severity.REFUSED,
                f"the training set has weights, but {type(estimator).__name__} does not accept weights. Read "
                "the data without weights, or use another regressor.",
            )

    def save(self, folder: Path) -> None:
        model = check_fitted(self._model)
        write_estimator(folder / NAME, model, self.trusted_types)
        values = asdict(self)
        names = [item.name for item in fields(self) if item.init]
        settings = {name: values[name] for name in names}
        content = {"ranker": settings, "scikit_learn": VERSION}
        (folder / SETTINGS_FILE).write_text(json.dumps(content, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        content = read_model_json(
            folder / SETTINGS_FILE, {"ranker": dict[str, Any], "scikit_learn": str}
        )
        try:
            ranker = cls(**content["ranker"])
        except (TypeError, ConfigError) as error:
            raise ResultError(
                f"{folder / SETTINGS_FILE} does not contain the settings of {cls.__name__} ({error}). Load "
                "the model with the class that saved it."
            ) from None
        saved_with = str(content["scikit_learn"])
        model = read_estimator(folder / NAME, cls.trusted_types, saved_with)
        expected = type(ranker.estimator())
        if type(model) is not expected:
            raise ResultError(
                f"{folder / NAME} contains a {type(model).__name__}, but {cls.__name__} needs a "
                f"{expected.__name__}. Load the model with the class that saved it."
            )
        ranker._model = model
        return ranker


# ---- Saves and loads a fitted regressor in the format of skops: JSON and NumPy arrays in a zip file, no
# pickle.
#
# ONNX, another format without pickle, stores a forest's thresholds and values in float32, so a loaded model
# would not give the scores of the fitted one, and it supports only some of the estimators.
#
# skops constructs an object only if its type is trusted: the types that skops trusts by default
# (scikit-learn's public estimators and NumPy's types), `TRUSTED`, and those of the class that loads; a file
# cannot extend them. The content of the objects is not checked: load only models that you trust.

NAME = "model.skops"
TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.utils._bunch.Bunch",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "numpy.dtype",
)
"""Types that a model may contain, beyond those that skops trusts."""


def write_estimator(path: Path, model: Any, trusted_types: Sequence[str]) -> None:
    """Writes a fitted regressor.

    Raises:
        ConfigError: the regressor contains an object that `read_estimator` would refuse.
    """
    name = type(model).__name__
    try:
        content = skops.io.dumps(model)
    except UnsupportedTypeException as error:
        raise ConfigError(
            f"{name} cannot be saved without pickle: {error} Choose another regressor."
        ) from error
    unknown = set(skops.io.get_untrusted_types(data=content)) - {
        *TRUSTED,
        *trusted_types,
    }
    if unknown:
        raise ConfigError(
            f"{name} cannot be saved, because it contains {', '.join(sorted(unknown))}, which is not loaded "
            "from a file. Choose another regressor, or add your own types to the class's trusted_types."
        )
    path.write_bytes(content)


def read_estimator(path: Path, trusted_types: Sequence[str], saved_with: str) -> Any:
    """Reads a regressor written by `write_estimator`.

    Args:
        saved_with: version of scikit-learn that saved the model, for the message.

    Raises:
        ResultError: the file is not such a model, or contains a type that is not trusted.
    """
    content = read_bytes(path, OF_A_FINISHED_RUN)
    try:
        return skops.io.loads(content, trusted=[*TRUSTED, *trusted_types])
    # A damaged file may raise any exception in the parsers of three packages.
    except Exception as error:
        raise ResultError(
            f"{path} cannot be read with scikit-learn {VERSION} ({type(error).__name__}: {reason(error)}). "
            f"Copy it again if it is damaged, install scikit-learn {saved_with}, which saved it, or load it "
            "with the class that saved it, whose trusted_types may be more."
        ) from error
