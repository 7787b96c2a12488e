"""Checks the model that a run has saved, and loads saved models by the name of their class."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers.base import Ranker
from ltrbench.shapes import Features


class SavedModelError(ResultError):
    """A ranker's `save` or `load` violates the Ranker contract."""


def check_saved(ranker: Ranker, folder: Path, features: Features, scores: NDArray[np.floating[Any]]) -> None:
    """Loads a saved ranker, and predicts again.

    Args:
        features: (D, F) features of documents.
        scores: (D,) scores of these documents from the ranker that was saved.

    Raises:
        SavedModelError: the model does not load, or predicts other scores.
    """
    name = type(ranker).__name__
    try:
        again = type(ranker).load(folder).predict(features)
    except Exception as error:
        raise SavedModelError(
            f"{name}.load cannot read the model written by {name}.save, or not predict with it "
            f"({type(error).__name__}: {error}). Correct save or load; the model of this run cannot be used."
        ) from error
    if not np.array_equal(again, scores, equal_nan=True):
        raise SavedModelError(
            f"{name}.load predicts other scores than the ranker that was saved: "
            f"{_difference(again, scores)}. Save everything that predict needs, without rounding."
        )


def _difference(again: NDArray[np.floating[Any]], scores: NDArray[np.floating[Any]]) -> str:
    if np.shape(again) != scores.shape:
        return f"shape {np.shape(again)} instead of {scores.shape}"
    row = int(np.flatnonzero(~((again == scores) | (np.isnan(again) & np.isnan(scores))))[0])
    return f"{again[row]!s} instead of {scores[row]!s} for document {row}"


# ---- Loads a saved model by the name of its class, for ltrbench's own classes only.
#
# The folder of a run or model is not trusted: only classes in `ltrbench.rankers` are imported.

_OURS = "ltrbench.rankers."


def is_ours(target: str) -> bool:
    """Returns whether a `_target_` names one of ltrbench's own classes.

    >>> is_ours("ltrbench.rankers.native.NativeRanker"), is_ours("my_module.MyRanker")
    (True, False)
    """
    return target.startswith(_OURS)


def load_ranker(target: str, folder: Path) -> Ranker:
    """Loads a model that `save` of the class `target` wrote into a folder.

    Raises:
        ConfigError: the class is not one of ltrbench's own, or does not exist.
        ResultError: the folder does not contain such a model.
    """
    return ranker_class(target).load(folder)


def ranker_class(target: str) -> type[Ranker]:
    """Imports a ranker of ltrbench by the name of its class.

    Raises:
        ConfigError: the class is not one of ltrbench's own, or does not exist.
    """
    module_name, _, class_name = target.rpartition(".")
    if not is_ours(target):
        raise ConfigError(
            f"'{target}' is not one of ltrbench's own classes, and only those are loaded by name. Load the "
            f"model with {class_name}.load in Python."
        )
    try:
        found: type[Ranker] = getattr(importlib.import_module(module_name), class_name)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name != module_name:
            raise
        found = Ranker
    if not issubclass(found, Ranker) or inspect.isabstract(found):
        raise ConfigError(f"'{target}' is not a ranker of this version of ltrbench; update ltrbench.")
    return found
