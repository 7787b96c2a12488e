"""Base class of backends that wrap a scikit-learn regressor, fitted to the labels of single documents.

A backend is one file with a dataclass that derives from `SklearnRanker`, and one YAML that begins with
`defaults: [_yardstick, _self_]`. The fields of the dataclass are the settings; its one method is `estimator`:

    @dataclass(kw_only=True)
    class RandomForestRanker(SklearnRanker):
        num_trees: int = 100

        def estimator(self) -> RandomForestRegressor:
            return RandomForestRegressor(n_estimators=self.num_trees)

The files, in reading order:

    estimators    seed, threads, weights, missing values and prediction of a regressor
    model_file    saves and loads a fitted regressor without pickle
    structure     checks a fitted regressor that was read from a file
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import is_sparse
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers.base import (
    Ranker,
    check_blocks,
    check_features,
    check_fitted,
    read_model_json,
    resolve_threads,
)
from ltrbench.rankers.capabilities import Finding, Severity, refuse
from ltrbench.rankers.early_stopping import OnIteration
from ltrbench.rankers.library import SETTINGS_FILE
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.shapes import Features

try:
    from ltrbench.rankers.scikit_learn import estimators, model_file, structure
except ImportError as error:
    raise ImportError(
        "a backend on scikit-learn needs the packages scikit-learn and skops: pip install 'ltrbench[sklearn]'"
    ) from error


@dataclass(kw_only=True)
class SklearnRanker(Ranker):
    """Scores each document by a regression of the labels on its features (pointwise, without queries).

    The seed becomes each `random_state` that `estimator` leaves at None. `num_threads` is the maximum number
    of threads and overrides `n_jobs`. Query and document weights become sample weights.

    Raises:
        ConfigError: `estimator` does not return a regressor, or returns one that cannot be saved safely.
    """

    packages: ClassVar[tuple[str, ...]] = ("scikit-learn", "skops")
    trusted_types: ClassVar[tuple[str, ...]] = ()
    """Full names of further types allowed in a saved model of this class, such as "my_module.Clip"; their
    content is not checked. A model file cannot extend this list."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model: estimators.Estimator | None = None
        estimator = self.estimator()
        estimators.check_regressor(estimator, type(self).__name__)
        structure.check_supported(estimator, self.trusted_types)

    @property
    def reads_sparse(self) -> bool:
        return estimators.takes_sparse(self.estimator())

    @abstractmethod
    def estimator(self) -> Any:
        """Returns a new, unfitted scikit-learn regressor, or a pipeline that ends with one, with the settings
        of this ranker."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del valid, on_iteration  # a regressor has no iterations to monitor
        if not (self.reads_sparse and is_sparse(train.features)):
            train = train.in_memory()
        refuse(self, train)
        threads = resolve_threads(self.num_threads)
        try:
            self._model = estimators.fit_estimator(self.estimator(), train, self.seed, threads)
        except ValueError as error:  # raised by scikit-learn for invalid parameters or data
            raise ConfigError(
                f"{type(self).__name__} cannot be fitted: {estimators.reason(error)}"
            ) from error
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        model = check_fitted(self._model)
        check = check_blocks if self.reads_sparse and is_sparse(features) else check_features
        given = check(features, model.n_features_in_)
        try:
            return estimators.score_documents(model, given, resolve_threads(self.num_threads))
        except ValueError as error:
            raise DataError(f"{type(self).__name__} cannot score: {estimators.reason(error)}") from error

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns `feature_importances_`, if the model has them, as "gain" in shares of the sum."""
        gains = getattr(check_fitted(self._model), "feature_importances_", None)
        return {} if gains is None else {"gain": np.asarray(gains, dtype=np.float64)}

    def trees(self) -> Ensemble:
        raise ConfigError(
            f"the trees of {type(self).__name__}, a scikit-learn regressor, are not available; choose a run "
            "of a boosted-tree model, such as model=native."
        )

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        estimator = self.estimator()
        yield Finding(
            Severity.UNMATCHED,
            f"scikit-learn's {type(estimator).__name__} is fitted to the labels of single documents "
            "(pointwise); the shared parameters and early stopping do not apply.",
        )
        if train is not None:
            yield from estimators.refusals(estimator, train)

    def save(self, folder: Path) -> None:
        model = check_fitted(self._model)
        model_file.write_estimator(folder / model_file.NAME, model, self.trusted_types)
        values = asdict(self)
        settings = {item.name: values[item.name] for item in fields(self) if item.init}
        content = {"ranker": settings, "scikit_learn": estimators.VERSION}
        (folder / SETTINGS_FILE).write_text(json.dumps(content, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        content = read_model_json(folder / SETTINGS_FILE, {"ranker": dict[str, Any], "scikit_learn": str})
        try:
            ranker = cls(**content["ranker"])
        except (TypeError, ConfigError) as error:
            raise ResultError(
                f"{folder / SETTINGS_FILE} does not contain the settings of {cls.__name__} ({error}). Load "
                "the model with the class that saved it."
            ) from None
        saved_with = str(content["scikit_learn"])
        model = model_file.read_estimator(folder / model_file.NAME, cls.trusted_types, saved_with)
        expected = type(ranker.estimator())
        if type(model) is not expected:
            raise ResultError(
                f"{folder / model_file.NAME} contains a {type(model).__name__}, but {cls.__name__} needs a "
                f"{expected.__name__}. Load the model with the class that saved it."
            )
        ranker._model = model
        return ranker
