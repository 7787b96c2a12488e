"""A trained model for other programs: loaded in Python, or as a service over HTTP.

This file loads the model of a finished run, without MLflow and Hydra. `app` is the service: it reads and
checks requests, and ranks their documents, until Ctrl-C.

`app` needs the extra `serve`: Starlette, uvicorn and orjson.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError, ResultError, require
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import load_ranker
from ltrbench.runs import MODEL_FOLDER, RESULT_FILE, Run, read_run
from ltrbench.runs.record import class_and_folder_of_model
from ltrbench.shapes import Features
from ltrbench.tables import one_line


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits of one request, so that it cannot occupy the service."""

    num_documents: int = 1000
    """Maximum number of documents."""
    num_bytes: int = 16 * 2**20
    """Maximum number of bytes of the body."""

    def __post_init__(self) -> None:
        require("num_documents", self.num_documents, at_least=1)
        require("num_bytes", self.num_bytes, at_least=1)


# ---- Loads the model of a finished run, without MLflow and Hydra.


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
        if _is_frame(features):
            features = _array_of_frame(features, self.feature_names, reorder=reorder)
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


# ---- Features of a DataFrame, matched by the names of its columns.
#
# A frame is any object with columns by name: of pandas, Polars or pyarrow. None of these libraries is
# imported.

_NUMBERS = "fiub"
"""Kinds of dtype that are numbers: floats, integers, unsigned integers, booleans."""


def _is_frame(features: object) -> bool:
    return hasattr(features, "__getitem__") and (
        hasattr(features, "column_names") or hasattr(features, "columns")
    )


def _array_of_frame(frame: Any, feature_names: Sequence[str], *, reorder: bool) -> Features:
    """Returns the (D, F) features of a frame in the order of `feature_names`."""
    # In pyarrow `columns` are arrays. Names in pandas may be numbers, which match their digits.
    label_of = {str(label): label for label in getattr(frame, "column_names", None) or frame.columns}
    names = list(label_of)
    missing = [name for name in feature_names if name not in label_of]
    if missing:
        raise DataError(
            f"features lacks {len(missing)} columns of the model, such as '{missing[0]}'. Add every missing "
            "column; a value that is not known is NaN."
        )
    if not reorder and names != list(feature_names):
        pairs = enumerate(itertools.zip_longest(names, feature_names))
        column, (name, feature) = next((c, pair) for c, pair in pairs if pair[0] != pair[1])
        raise DataError(
            f"column {column} of features is '{name}', but the model has '{feature}' there. Pass "
            "reorder=True to match the columns by name and to ignore further columns, or select the columns "
            "in the order of `feature_names`."
        )
    features = np.empty((len(frame), len(feature_names)), dtype=np.float32)
    for column, name in enumerate(feature_names):
        features[:, column] = _as_numbers(frame[label_of[name]], name)
    return features


def _as_numbers(column: Any, name: str) -> NDArray[Any]:
    """Returns the (D,) values of a column; missing values are NaN.

    Raises:
        DataError: the values are not numbers.
    """
    values = np.asarray(column)
    # Numbers of pandas with missing values become an array of objects, but their dtype says that they are
    # numbers.
    if values.dtype.kind == "O" and getattr(column.dtype, "kind", "") in tuple(_NUMBERS):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.ndim != 1 or values.dtype.kind not in _NUMBERS:
        raise DataError(
            f"the column '{name}' of features has the dtype {values.dtype}; expected numbers in one column. "
            "Encode values that are not numbers, and convert the column to float32."
        )
    return values
