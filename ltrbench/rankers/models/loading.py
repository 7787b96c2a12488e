"""Loads a saved model by the name of its class, for ltrbench's own classes only.

The folder of a run or model is not trusted: only classes in `ltrbench.rankers` are imported.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from ltrbench.errors import ConfigError
from ltrbench.rankers.base import Ranker

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
    module_name, _, class_name = target.rpartition(".")
    if not is_ours(target):
        raise ConfigError(
            f"'{target}' is not one of ltrbench's own classes, and only those are loaded by name. Load the "
            f"model with {class_name}.load in Python."
        )
    try:
        model_class = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        model_class = None
    if not (isinstance(model_class, type) and issubclass(model_class, Ranker)) or inspect.isabstract(
        model_class
    ):
        raise ConfigError(f"'{target}' is not a ranker of this version of ltrbench; update ltrbench.")
    return model_class.load(folder)
