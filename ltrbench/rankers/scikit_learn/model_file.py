"""Saves and loads a fitted regressor in the format of skops: JSON and NumPy arrays in a zip file, no pickle.

ONNX, another format without pickle, stores a forest's thresholds and values in float32, so a loaded model
would not give the scores of the fitted one, and it supports only some of the estimators.

skops constructs an object only if its type is trusted. The trusted types are those that skops trusts by
default (scikit-learn's public estimators and NumPy's types), `TRUSTED`, and those of the class that loads; a
file cannot extend them. `structure.py` then checks the content of the objects.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from skops.io.exceptions import UnsupportedTypeException, UntrustedTypesFoundException

from ltrbench.errors import ConfigError, LtrbenchError, ResultError
from ltrbench.rankers.scikit_learn import estimators, structure

NAME = "model.skops"
TRUSTED = (
    # Checked node by node.
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    # Written in Python, or data types: they contain no index that is used unchecked.
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
    unknown = set(skops.io.get_untrusted_types(data=content)) - {*TRUSTED, *trusted_types}
    if unknown:
        raise ConfigError(
            f"{name} cannot be saved, because it contains {', '.join(sorted(unknown))}, which is not loaded "
            "from a file. Choose another regressor, or add your own types to the class's trusted_types."
        )
    structure.check_fitted_model(model, trusted_types)
    path.write_bytes(content)


def read_estimator(path: Path, trusted_types: Sequence[str], saved_with: str) -> Any:
    """Reads a regressor written by `write_estimator`.

    Args:
        saved_with: version of scikit-learn that saved the model, for the message.

    Raises:
        ResultError: the file is not such a model, or contains a type that is not trusted.
    """
    _check_zip(path)
    try:
        model = skops.io.load(path, trusted=[*TRUSTED, *trusted_types])
        structure.check_fitted_model(model, trusted_types)
        # Finds missing attributes and wrong shapes now, and not in the middle of a prediction.
        model.predict(np.zeros((1, model.n_features_in_)))
    except UntrustedTypesFoundException as error:
        raise ResultError(
            f"{path} is not loaded: {estimators.reason(error)} The file was changed, or was saved by a class "
            "with more trusted_types. Copy the folder again, or load it with that class."
        ) from error
    except LtrbenchError as error:
        raise ResultError(f"{path} is not loaded: {error}") from error
    # A damaged file may raise any exception in the parsers of three packages.
    except Exception as error:
        raise ResultError(
            f"{path} cannot be read with scikit-learn {estimators.VERSION} ({type(error).__name__}: "
            f"{estimators.reason(error)}). Copy it again if it is damaged, or install scikit-learn "
            f"{saved_with}, which saved it."
        ) from error
    return model


def _check_zip(path: Path) -> None:
    """Raises ResultError if the file does not exist, is not a zip file, or unpacks to more than its size."""
    if not path.is_file():
        raise ResultError(f"{path} does not exist; give the model folder of a finished run.")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ResultError(
            f"{path} is not a saved model ({error}); copy the folder again, or fit again."
        ) from None
    if unpacked > path.stat().st_size:
        raise ResultError(
            f"{path} has {path.stat().st_size} bytes but unpacks to {unpacked}. ltrbench does not compress "
            "saved models, so it did not write this file; give the model folder of a finished run."
        )
