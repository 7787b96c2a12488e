"""Rankers: the contract in `base.py`, the rule of stopping in `early_stopping.py`, the form of trees in
`trees.py`, and one file a backend.

Backends are not imported here: each is imported when a YAML's `_target_` names it, so that nobody pays for,
or needs, a library that the run does not use.
"""

from ltrbench.rankers.base import BoostingRanker, FitSummary, Ranker
from ltrbench.rankers.early_stopping import EarlyStopping, Iteration, Monitor, OnIteration
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, WeightedTree

__all__ = [
    "BoostingRanker",
    "EarlyStopping",
    "Ensemble",
    "FitSummary",
    "InnerNode",
    "Iteration",
    "Leaf",
    "Monitor",
    "OnIteration",
    "Ranker",
    "WeightedTree",
]
