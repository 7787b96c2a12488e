"""The base class of backends that are a scikit-learn regressor, fitted to the labels document by document.

A backend is one file with a dataclass that derives from `SklearnRanker`, and one YAML that begins with
`defaults: [_yardstick, _self_]`. The dataclass has the settings as fields and one method, `estimator`:

    @dataclass(kw_only=True)
    class RandomForestRanker(SklearnRanker):
        num_trees: int = 100

        def estimator(self) -> RandomForestRegressor:
            return RandomForestRegressor(n_estimators=self.num_trees)

The files, in reading order:

    estimators    seed, threads, weights, missing values and prediction of any regressor
    model_file    a fitted regressor on disk, without pickle
    structure     what a fitted regressor that was read from a file must be
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
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers.base import (
    Ranker,
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
    """Scores a document by a regression of the labels on its features; queries play no part (pointwise).

    The seed becomes every `random_state` that `estimator` leaves open, and `num_threads` bounds all threads,
    whatever `n_jobs` says. Weights of queries and documents become sample weights.

    Raises:
        ConfigError: where `estimator` returns no regressor, or one that could not be saved.
    """

    packages: ClassVar[tuple[str, ...]] = ("scikit-learn", "skops")
    trusted_types: ClassVar[tuple[str, ...]] = ()
    """Full names of further types that a saved model of this class may hold, such as "my_module.Clip"; their
    content is not checked. The file has no say in this list."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model: estimators.Estimator | None = None
        estimator = self.estimator()
        estimators.check_regressor(estimator, type(self).__name__)
        structure.check_supported(estimator, self.trusted_types)

    @abstractmethod
    def estimator(self) -> Any:
        """A new, unfitted regressor of scikit-learn, or a pipeline that ends in one, with this ranker's
        settings."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del valid, on_iteration  # a regressor has no iterations to be watched
        refuse(self, train)
        threads = resolve_threads(self.num_threads)
        try:
            self._model = estimators.fit_estimator(self.estimator(), train, self.seed, threads)
        except ValueError as error:  # scikit-learn's answer to a parameter or data that it cannot use
            raise ConfigError(
                f"{type(self).__name__} cannot be fitted: {estimators.reason(error)}"
            ) from error
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        model = check_fitted(self._model)
        features = check_features(features, model.n_features_in_)
        try:
            return estimators.score_documents(model, features, resolve_threads(self.num_threads))
        except ValueError as error:
            raise DataError(f"{type(self).__name__} cannot score: {estimators.reason(error)}") from error

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """The "gain" of a forest or another model that has `feature_importances_`, in shares of the sum."""
        gains = getattr(check_fitted(self._model), "feature_importances_", None)
        return {} if gains is None else {"gain": np.asarray(gains, dtype=np.float64)}

    def trees(self) -> Ensemble:
        raise ConfigError(
            f"a {type(self).__name__} is a regressor of scikit-learn, whose trees are not available; name "
            "a model of boosted trees, as native."
        )

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        estimator = self.estimator()
        yield Finding(
            Severity.UNMATCHED,
            f"{type(estimator).__name__} of scikit-learn is fitted to the labels of single documents "
            "(pointwise): it has its own parameters, none of the shared ones, and no early stopping.",
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
                f"{folder / SETTINGS_FILE} does not hold the settings of a {cls.__name__} ({error}); load it "
                "with the class that saved it."
            ) from None
        saved_with = str(content["scikit_learn"])
        model = model_file.read_estimator(folder / model_file.NAME, cls.trusted_types, saved_with)
        expected = type(ranker.estimator())
        if type(model) is not expected:
            raise ResultError(
                f"{folder / model_file.NAME} holds a {type(model).__name__}, but {cls.__name__} is made of a "
                f"{expected.__name__}; load it with the class that saved it."
            )
        ranker._model = model
        return ranker
