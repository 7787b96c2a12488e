"""Logs models to MLflow: a model of a library in the library's MLflow flavor, other rankers as saved.

`mlflow.pyfunc.load_model` loads both kinds, and `mlflow models serve --env-manager local` serves them. A
model of a library needs only that library; other models need ltrbench, whose `_load_pyfunc` MLflow calls.
Neither contains a pickle or code.

The signature has F unnamed numeric columns, so that DataFrames and arrays are both accepted, by position.
With more than MOST_LISTED features it is one (D, F) array of float64, and there is no example input.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltrbench.errors import ResultError
from ltrbench.provenance import versions
from ltrbench.rankers import Ranker
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.rankers.saved import is_ours, load_ranker
from ltrbench.runs import MODEL_FOLDER, Run
from ltrbench.untrusted import read_json

_CLASS_FILE = "class.json"


def can_be_logged(run: Run) -> bool:
    """Returns whether the run has a model of an ltrbench class; other classes named in a folder are not
    trusted."""
    return (run.path / MODEL_FOLDER).is_dir() and is_ours(_target(run))


def save_model(run: Run, folder: Path, **of_mlflow: Any) -> None:
    """Writes the model of a finished run as an MLflow model, to a folder that does not exist yet.

    Args:
        of_mlflow: `mlflow_model`, with the ids assigned by MLflow.
    """
    # Imported late, because the import takes a second and is needed only when a model is logged.
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    ranker = load_ranker(_target(run), run.path / MODEL_FOLDER)
    example = run.input_example()
    common: dict[str, Any] = {
        "signature": ModelSignature(
            inputs=_inputs(int(run.result.data["train"]["features"])),
            outputs=Schema([ColSpec(DataType.double)]),
        ),
        "input_example": example if len(example) else None,
        "pip_requirements": _requirements(ranker),
        **of_mlflow,
    }
    library = ranker.library_model()
    if library is not None:
        package, model = library
        flavor = importlib.import_module(f"mlflow.{package}")
        with _without_scan_of_packages():
            flavor.save_model(model, str(folder), **common)
        return
    saved = folder.with_name(f"{folder.name}-saved")
    shutil.copytree(run.path / MODEL_FOLDER, saved / MODEL_FOLDER)
    (saved / _CLASS_FILE).write_text(json.dumps({"class": _target(run)}) + "\n")
    with _without_scan_of_packages():
        mlflow.pyfunc.save_model(str(folder), loader_module=__name__, data_path=str(saved), **common)


@contextlib.contextmanager
def _without_scan_of_packages() -> Iterator[None]:
    """Prevents that MLflow lists the files of all installed packages, which takes half a second.

    It would find the packages of imported modules, to infer requirements; `_requirements` gives them.
    """
    requirements_utils: Any = importlib.import_module("mlflow.utils.requirements_utils")
    known = requirements_utils._MODULES_TO_PACKAGES
    requirements_utils._MODULES_TO_PACKAGES = known or {}
    try:
        yield
    finally:
        requirements_utils._MODULES_TO_PACKAGES = known


def _inputs(num_features: int) -> Any:
    """Returns the schema of F features."""
    from mlflow.types import ColSpec, DataType, Schema, TensorSpec

    if num_features <= MOST_LISTED:
        return Schema([ColSpec(DataType.double)] * num_features)
    # MLflow takes minutes to write a million columns.
    return Schema([TensorSpec(np.dtype(np.float64), (-1, num_features))])


class ServedRanker:
    """The model object that MLflow calls to predict scores."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker

    # Without type annotations, because MLflow would interpret them as a schema.
    def predict(self, features, params=None):  # type: ignore[no-untyped-def]
        """Returns scores (D,), higher is ranked earlier, for features (D, F) in a DataFrame or an array."""
        del params
        rows = features.to_numpy() if isinstance(features, pd.DataFrame) else np.asarray(features)
        return self._ranker.predict(rows.astype(np.float32))


def _load_pyfunc(path: str) -> ServedRanker:
    """Loads a model for MLflow, which calls this function by name with the folder written by `save_model`."""
    folder = Path(path)
    content = read_json(folder / _CLASS_FILE, "Log the model again")
    target = content.get("class") if isinstance(content, dict) else None
    if not isinstance(target, str):
        raise ResultError(f"{folder / _CLASS_FILE} does not name a ranker; log the model again.")
    return ServedRanker(load_ranker(target, folder / MODEL_FOLDER))


def _target(run: Run) -> str:
    return str(run.result.settings.get("model", {}).get("_target_"))


def _requirements(ranker: Ranker) -> list[str]:
    """Returns the pip requirements; MLflow would take seconds to infer them by loading the model in another
    process."""
    library = ranker.library_model()
    packages = ["mlflow", "numpy", *([library[0]] if library else ["ltrbench", *ranker.packages])]
    installed = versions(packages)
    return [f"{package}=={installed[package]}" for package in dict.fromkeys(packages)]
