"""Loads the model of a finished run for prediction.

Only ltrbench's own classes are loaded, nothing is unpickled, and neither MLflow, Hydra nor pandas is
imported. A native model needs NumPy and numba. Models of LightGBM, XGBoost and CatBoost import their library;
LightGBM itself imports pandas if it is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.rankers import Ranker
from ltrbench.rankers.saved import load_ranker
from ltrbench.runs import MODEL_FOLDER, RESULT_FILE, Run, class_and_folder_of_model, read_run
from ltrbench.serving.requests import array_of_frame, is_frame
from ltrbench.tables import one_line


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """The model of a finished run.

    Attributes:
        name: name of the model in tables: that of its YAML in conf/model.
        feature_names: (F,), names of the features, in the order of the training set.
        ranker: the ranker that computes the scores.
        run: the run with its settings, versions and metrics.
    """

    name: str
    feature_names: tuple[str, ...]
    ranker: Ranker
    run: Run

    def __repr__(self) -> str:
        fields = {"name": self.name, "num_features": len(self.feature_names), "run": str(self.run.path)}
        return one_line("LoadedModel", fields)

    def predict(self, features: object, *, reorder: bool = False) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores; within a query, a higher score ranks earlier.

        Args:
            features: (D, F), an array whose columns are in the order of `feature_names`, or a DataFrame of
                pandas, Polars or pyarrow, whose columns have these names. NaN is a missing value.
            reorder: accept the columns of a DataFrame in any order, and ignore columns that are not features.

        Raises:
            DataError: a column is missing, in another place, or has values that are not numbers; the message
                names it and the remedy.
        """
        if is_frame(features):
            features = array_of_frame(features, self.feature_names, reorder=reorder)
        # `predict` of the ranker refuses everything else that is not an array of numbers of this shape.
        return self.ranker.predict(features)  # type: ignore[arg-type]


def load(run: str | Path) -> LoadedModel:
    """Loads the model of a finished run for prediction.

        >>> model = ltrbench.load("chosen")                                     # doctest: +SKIP
        >>> model.predict(frame, reorder=True)                                  # doctest: +SKIP
        array([ 0.42, -0.17])

    Args:
        run: folder of the run, such as outputs/2026-01-31/12-00-00, or the folder `model` in it. Of the run,
            result.json and model/ are needed; all other files may be absent.

    Raises:
        ResultError: the folder is not a finished run with a model, or a file of it is damaged.
        ConfigError: the class of the model is not part of ltrbench; only ltrbench's own classes are loaded.
    """
    finished = read_run(_folder_of_run(Path(run)))
    target, folder = class_and_folder_of_model(finished)
    return loaded_model(finished, load_ranker(target, folder))


def loaded_model(run: Run, ranker: Ranker) -> LoadedModel:
    """Combines a run with the ranker that was loaded from it.

    Raises:
        ResultError: the run does not name its features, or names others than the ranker.
    """
    names = run.result.feature_names
    if names is None:
        raise ResultError(
            f"{run.path / RESULT_FILE} does not name the features of the model. Run it again with this "
            "version of ltrbench."
        )
    # Of the model files that also contain the names, such as those of the native engine.
    fitted = getattr(ranker, "feature_names", None)
    if fitted is not None and tuple(fitted) != tuple(names):
        raise ResultError(
            f"{run.path / RESULT_FILE} names other features than the model in {MODEL_FOLDER}/, so the files "
            "belong to different runs. Copy the folder again from its source, or run it again."
        )
    return LoadedModel(run.result.model, tuple(names), ranker, run)


def _folder_of_run(path: Path) -> Path:
    """Returns the folder of the run for its folder of the model, and any other folder unchanged."""
    path = path.absolute()
    is_of_model = path.name == MODEL_FOLDER and not (path / RESULT_FILE).exists()
    return path.parent if is_of_model else path
