"""Writes and loads MLflow models: those of libraries in the MLflow flavor of the library, others as saved."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltrbench.data.tables import columns_of_features, encoded_names
from ltrbench.measure import versions
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.runs.record import MODEL_FOLDER, Run
from ltrbench.shapes import Features
from ltrbench.untrusted import read_json

_CLASS_FILE = "class.json"
_QUERY_COLUMN = "qid"
"""Column of the queries, which a list-wise ranker needs."""


def save_model(run: Run, folder: Path, **of_mlflow: Any) -> None:
    """Writes the model of a finished run as an MLflow model, to a folder that does not exist yet.

    Args:
        of_mlflow: `mlflow_model`, with the ids assigned by MLflow.
    """
    # Imported late, because the import takes a second and is needed only when a model is logged.
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    ranker = load_ranker(class_of_model(run), run.path / MODEL_FOLDER)
    ranker.feature_names = tuple(run.result.feature_names or ())
    library = _model_of_library(ranker)
    outputs = Schema([ColSpec(DataType.double)])
    signature = ModelSignature(_input_schema(run, ranker), outputs)
    common: dict[str, Any] = {
        "signature": signature,
        "input_example": _input_example(run, ranker),
        "pip_requirements": _requirements(ranker, library),
        **of_mlflow,
    }
    if library is not None:
        package, model = library
        flavor = importlib.import_module(f"mlflow.{package}")
        flavor.save_model(model, str(folder), **common)
        return
    saved = folder.with_name(f"{folder.name}-saved")
    shutil.copytree(run.path / MODEL_FOLDER, saved / MODEL_FOLDER)
    described = {"class": class_of_model(run), "features": run.result.feature_names}
    (saved / _CLASS_FILE).write_text(json.dumps(described) + "\n")
    mlflow.pyfunc.save_model(
        str(folder), loader_module=__name__, data_path=str(saved), **common
    )


def _input_schema(run: Run, ranker: Ranker) -> Any:
    """Returns the columns of the input: MLflow finds them by name, in any order.

    A column may have integers, floats or texts, as in the training table: MLflow would refuse integers for a
    column of floats.
    """
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    num_features = int(run.result.data["train"]["features"])
    if num_features > MOST_LISTED:  # MLflow takes minutes to write a million columns.
        every_feature = TensorSpec(np.dtype(np.float64), (-1, num_features))
        return Schema([every_feature])
    queries = [_QUERY_COLUMN] if ranker.is_listwise else []
    columns = columns_of_features(ranker.feature_names, ranker.encoded, ranker.encoded)
    names = [*columns, *queries]
    return Schema([ColSpec(AnyType(), name) for name in names])  # type: ignore[no-untyped-call]


def _input_example(run: Run, ranker: Ranker) -> pd.DataFrame | None:
    """Returns a few documents as a table with the texts of categories; None if none were stored."""
    example = run.input_example()
    if not len(example):
        return None
    frame = pd.DataFrame(example, columns=list(ranker.feature_names))
    for name, texts in ranker.categories.items():
        codes = frame[name].tolist()
        known = [code for code in set(codes) if not np.isnan(code)]
        in_words = {code: texts[int(code)] for code in known}
        frame[name] = [in_words.get(code) for code in codes]
    for name, texts in ranker.encoded.items():
        of_category = frame[encoded_names(name, texts)].to_numpy()
        frame[name] = _texts_of_columns(of_category, texts)
    columns = columns_of_features(ranker.feature_names, ranker.encoded, ranker.encoded)
    frame = frame[list(columns)]
    for name, first in ranker.dates.items():
        days = pd.to_timedelta(frame[name], unit="D")
        frame[name] = (pd.Timestamp(first) + days).dt.strftime("%Y-%m-%dT%H:%M:%S")
    if ranker.is_listwise:
        frame[_QUERY_COLUMN] = "q1"
    return frame


def _texts_of_columns(of_category: Features, texts: Sequence[str]) -> list[str | None]:
    """Returns the text of each row, whose column of its category is 1; None if all columns are 0."""
    of_rows: list[str | None] = []
    for row in of_category:
        text = None
        if row.any():
            text = texts[int(row.argmax())]
        of_rows.append(text)
    return of_rows


def _model_of_library(ranker: Ranker) -> tuple[str, Any] | None:
    """Returns the package and the model with the names of the features, for the flavor of the package; None:
    the package cannot take the training table, whose names it forbids or whose categories have texts."""
    library = ranker.library_model()
    if library is None or ranker.categories or ranker.dates or ranker.encoded:
        return None
    package, model = library
    names = list(ranker.feature_names)
    if package == "xgboost" and names:
        if set("[]<") & set("".join(names)):
            return None
        model = model.copy()  # type: ignore[attr-defined]
        model.feature_names = names
    if package == "catboost" and names:
        model = model.copy()  # type: ignore[attr-defined]
        model.set_feature_names(names)
    return package, model


class ServedRanker:
    """The model object that MLflow calls to predict scores."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self.is_listwise = ranker.is_listwise

    # Without type annotations, because MLflow would interpret them as a schema.
    def predict(self, features, params=None):  # type: ignore[no-untyped-def]
        """Returns scores (D,), higher is ranked earlier, for features (D, F) in a DataFrame or an array."""
        del params
        return self._ranker.predict(features)


def _load_pyfunc(path: str) -> ServedRanker:
    """Loads a model for MLflow, which calls this function by name with the folder written by `save_model`."""
    folder = Path(path)
    content = read_json(folder / _CLASS_FILE, "Log the model again")
    ranker = load_ranker(content["class"], folder / MODEL_FOLDER)
    ranker.feature_names = tuple(content["features"] or ())
    return ServedRanker(ranker)


def class_of_model(run: Run) -> str:
    """Returns the name of the class of a run's ranker."""
    return str(run.result.settings.get("model", {}).get("_target_"))


def _requirements(ranker: Ranker, library: tuple[str, Any] | None) -> list[str]:
    """Returns the pip requirements; MLflow would take seconds to infer them by loading the model in another
    process."""
    of_ranker = ["ltrbench", *ranker.packages]
    if library is not None:
        of_ranker = [library[0]]
    packages = ["mlflow", "numpy", *of_ranker]
    installed = versions(packages)
    return [f"{package}=={installed[package]}" for package in dict.fromkeys(packages)]
