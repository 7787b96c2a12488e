"""A saved model of ltrbench's own classes, loaded by the name of its class.

A run's or a model's folder is not trusted to name code: only what stands in `ltrbench.rankers` is imported.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from ltrbench.errors import ConfigError
from ltrbench.rankers.base import Ranker

_OURS = "ltrbench.rankers."


def is_ours(target: str) -> bool:
    """Whether a `_target_` names a class of ltrbench's own.

    >>> is_ours("ltrbench.rankers.native.NativeRanker"), is_ours("my_module.MyRanker")
    (True, False)
    """
    return target.startswith(_OURS)


def load_ranker(target: str, folder: Path) -> Ranker:
    """Loads what `save` of the class `target` wrote into a folder.

    Raises:
        ConfigError: where the class is not ltrbench's own, or not there.
        ResultError: where the folder does not hold such a model.
    """
    module_name, _, class_name = target.rpartition(".")
    if not is_ours(target):
        raise ConfigError(f"'{target}' is not a class of ltrbench's own, and only those are loaded by name.")
    try:
        model_class = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        model_class = None
    if not (isinstance(model_class, type) and issubclass(model_class, Ranker)) or inspect.isabstract(
        model_class
    ):
        raise ConfigError(f"'{target}' is not a ranker of this version of ltrbench; update it.")
    return model_class.load(folder)
