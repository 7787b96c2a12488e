"""A fitted regressor on disk, in skops' format: JSON and NumPy arrays in a zip file, without pickle.

ONNX, the other format without pickle, keeps a forest's thresholds and values in float32, so that a loaded
model would not score as the fitted one did, and knows a part of the estimators only.

skops constructs an object only if its type is trusted. Which types are is decided here and by the class that
loads, never by the file: what skops trusts by default, which are scikit-learn's public estimators and
NumPy's types, and `TRUSTED`. `structure.py` then checks what they hold.
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
    # Written in Python, or data types: they hold no index that is followed unchecked.
    "sklearn.utils._bunch.Bunch",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "numpy.dtype",
)
"""Types beyond those of skops that a model may hold."""


def write_estimator(path: Path, model: Any, trusted_types: Sequence[str]) -> None:
    """Writes a fitted regressor.

    Raises:
        ConfigError: where it holds what `read_estimator` would refuse.
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
            f"{name} cannot be saved: it holds {', '.join(sorted(unknown))}, which is not read from a file. "
            "Choose another regressor, or list a type of your own in the class's trusted_types."
        )
    structure.check_fitted_model(model, trusted_types)
    path.write_bytes(content)


def read_estimator(path: Path, trusted_types: Sequence[str], saved_with: str) -> Any:
    """Reads what `write_estimator` wrote.

    Args:
        saved_with: the version of scikit-learn that the model was saved with, for the message.

    Raises:
        ResultError: where the file is not such a model, or holds what is not trusted.
    """
    _check_zip(path)
    try:
        model = skops.io.load(path, trusted=[*TRUSTED, *trusted_types])
        structure.check_fitted_model(model, trusted_types)
        # What lacks an attribute, or has one of another shape, is found here and not in the middle of a file.
        model.predict(np.zeros((1, model.n_features_in_)))
    except UntrustedTypesFoundException as error:
        raise ResultError(
            f"{path} is not loaded: {estimators.reason(error)} The file was changed, or was saved by a class "
            "that trusts more types."
        ) from error
    except LtrbenchError as error:
        raise ResultError(f"{path} is not loaded: {error}") from error
    # Whatever a damaged file makes the parsers of three packages raise.
    except Exception as error:
        raise ResultError(
            f"{path} cannot be read with scikit-learn {estimators.VERSION} ({type(error).__name__}: "
            f"{estimators.reason(error)}); it is damaged, or needs the version that saved it, {saved_with}."
        ) from error
    return model


def _check_zip(path: Path) -> None:
    """Raises ResultError on a file that is not there, no zip file, or unpacks to more than its own size."""
    if not path.is_file():
        raise ResultError(f"{path} is not there; give the model folder of a finished run.")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ResultError(
            f"{path} is not a saved model ({error}); copy the folder again, or fit again."
        ) from None
    if unpacked > path.stat().st_size:
        raise ResultError(
            f"{path} has {path.stat().st_size} bytes and unpacks to {unpacked}. A saved model is not "
            "compressed, so that ltrbench did not write this one."
        )
