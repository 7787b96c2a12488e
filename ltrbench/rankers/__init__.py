"""Rankers: the contract, and one file a backend.

    base             the Ranker contract: `fit`, `predict`, `save` and `load`
    capabilities     the protocols of everything optional
    early_stopping   the rule of stopping, and the learning curve
    library          the base of the adapters of libraries of boosted trees
    models           trained models: trees, importances, model files

The backends, which know nothing of each other:

    native           the native engine
    lightgbm         LightGBM
    xgboost          XGBoost
    catboost         CatBoost
    scikit_learn     the base of backends on scikit-learn's regressors
    random           random scores
    single_feature   the one feature that ranks train best

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
