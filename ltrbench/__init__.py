"""ltrbench compares learning-to-rank backends on one split, with one evaluator and one clock.

CONTRIBUTING.md has the map of all folders and files, each of which imports only from those above it.

The names that most users need are attributes of `ltrbench` itself. Each is imported on first use, so that
`import ltrbench` takes milliseconds and loads no backend. To add a name, add it to `_NAMES_OF` and, for type
checkers, to the imports below it.

>>> import ltrbench
>>> data = ltrbench.RankingDataset(features=[[0.1], [0.9]], labels=[0, 1], query_start=[0, 2])
>>> ltrbench.evaluate(data, data.features[:, 0], ["ndcg@10"]).means
{'ndcg@10': 1.0}
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ltrbench.version import __version__ as __version__

_NAMES_OF = {
    "ltrbench.data": (
        "RankingDataset",
        "read_data",
        "read_features",
        "read_letor",
        "read_table",
        "split_queries",
        "write_letor",
        "write_table",
    ),
    "ltrbench.data.sources": ("LetorFiles", "TableFiles"),
    "ltrbench.metrics": (
        "Convention",
        "Evaluation",
        "evaluate",
        "preset",
        "with_settings",
    ),
    "ltrbench.rankers": ("EarlyStopping", "Ranker"),
    "ltrbench.rankers.catboost": ("CatBoostRanker",),
    "ltrbench.rankers.lightgbm": ("LightGBMRanker",),
    "ltrbench.rankers.linear": ("LinearRanker",),
    "ltrbench.rankers.mlp": ("MlpRanker",),
    "ltrbench.rankers.native": ("NativeRanker",),
    "ltrbench.rankers.random": ("RandomRanker",),
    "ltrbench.rankers.single_feature": ("SingleFeatureRanker",),
    "ltrbench.rankers.xgboost": ("XGBoostRanker",),
    "ltrbench.runs": ("LoadedModel", "Run", "find_runs", "load", "read_run"),
    "ltrbench.experiment": ("Experiment", "run"),
    "ltrbench.cli.auto.command": ("auto",),
    "ltrbench.compare": ("Comparison", "Settings", "render"),
    "ltrbench.errors": ("LtrbenchError",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

# `ltrbench.compare` is a package that can be called; its module explains why.
_COMPARE = "compare"

if TYPE_CHECKING:
    from ltrbench.cli.auto.command import auto as auto
    from ltrbench.compare import Comparison as Comparison
    from ltrbench.compare import Settings as Settings
    from ltrbench.compare import compare as compare
    from ltrbench.compare import render as render
    from ltrbench.data import RankingDataset as RankingDataset
    from ltrbench.data import read_data as read_data
    from ltrbench.data import read_features as read_features
    from ltrbench.data import read_letor as read_letor
    from ltrbench.data import read_table as read_table
    from ltrbench.data import split_queries as split_queries
    from ltrbench.data import write_letor as write_letor
    from ltrbench.data import write_table as write_table
    from ltrbench.data.sources import LetorFiles as LetorFiles
    from ltrbench.data.sources import TableFiles as TableFiles
    from ltrbench.errors import LtrbenchError as LtrbenchError
    from ltrbench.experiment import Experiment as Experiment
    from ltrbench.experiment import run as run
    from ltrbench.metrics import Convention as Convention
    from ltrbench.metrics import Evaluation as Evaluation
    from ltrbench.metrics import evaluate as evaluate
    from ltrbench.metrics import preset as preset
    from ltrbench.metrics import with_settings as with_settings
    from ltrbench.rankers import EarlyStopping as EarlyStopping
    from ltrbench.rankers import Ranker as Ranker
    from ltrbench.rankers.catboost import CatBoostRanker as CatBoostRanker
    from ltrbench.rankers.lightgbm import LightGBMRanker as LightGBMRanker
    from ltrbench.rankers.linear import LinearRanker as LinearRanker
    from ltrbench.rankers.mlp import MlpRanker as MlpRanker
    from ltrbench.rankers.native import NativeRanker as NativeRanker
    from ltrbench.rankers.random import RandomRanker as RandomRanker
    from ltrbench.rankers.single_feature import (
        SingleFeatureRanker as SingleFeatureRanker,
    )
    from ltrbench.rankers.xgboost import XGBoostRanker as XGBoostRanker
    from ltrbench.runs import LoadedModel as LoadedModel
    from ltrbench.runs import Run as Run
    from ltrbench.runs import find_runs as find_runs
    from ltrbench.runs import load as load
    from ltrbench.runs import read_run as read_run

# Without those that need an extra, because `from ltrbench import *` must not require it.
__all__ = sorted(
    {"__version__", _COMPARE, *_MODULE_OF} - {"CatBoostRanker", "MlpRanker"}
)


# Hidden from type checkers, which would otherwise accept any attribute name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports a public name on its first use (PEP 562)."""
        if name == _COMPARE:
            return importlib.import_module("ltrbench.compare")
        if name not in _MODULE_OF:
            raise AttributeError(
                f"module 'ltrbench' has no attribute {name!r}", name=name
            )
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, _COMPARE})
